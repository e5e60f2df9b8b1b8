/* completion_fish.c - the completion script for fish: a line of `complete` for each option. */
#include "tools/common/completion.h"

#include <string.h>

/* %1$s: the identifier. fish quotes the names, which come from files. */
static const char helpers[] =
    "# The value that is being completed: the current word without --NAME=.\n"
    "function __%1$s_value\n"
    "    string replace -r -- '^--[a-z0-9-]+=' '' (commandline -ct)\n"
    "end\n\n"
    "# A list A,B: its last part is one of the arguments.\n"
    "function __%1$s_list\n"
    "    set -l head (string match -r -- '^.*,' (__%1$s_value))\n"
    "    printf '%%s\\n' $head$argv\n"
    "end\n\n"
    "# The names that a command prints for the first file on the command line, each with a suffix (first argument).\n"
    "function __%1$s_names\n"
    "    set -l words (commandline -opc)\n"
    "    set -l tool $argv[2]\n"
    "    string match -q -- '*/*' $words[1]; and set tool (string replace -r -- '[^/]*$' '' $words[1])$tool\n"
    "    for word in $words[2..-1] (commandline -ct)\n"
    "        set word (string replace -r -- '^~/' \"$HOME/\" $word)\n"
    "        test -e \"$word\"; or continue\n"
    "        $tool $argv[3..-1] --format tsv -- $word 2>/dev/null | string replace -r -- '\\t.*' $argv[1] | tail -n +2\n"
    "        return\n"
    "    end\n"
    "end\n\n"
    "# NAME=WORD: names as above, by the command (first argument), or one of the words.\n"
    "function __%1$s_pair\n"
    "    set -l head (string match -r -- '^[^=]*=' (__%1$s_value))\n"
    "    if test -n \"$head\"\n"
    "        test (count $argv) -gt 1; and printf '%%s\\n' $head$argv[2..-1]\n"
    "    else if test -n \"$argv[1]\"\n"
    "        __%1$s_names = (string split ' ' -- $argv[1])\n"
    "    end\n"
    "end\n\n";

/* Text inside single quotes. */
static void put_quoted(zt_str *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') zt_str_putc(out, '\\');
        zt_str_putc(out, *text);
    }
}

static void put_value(zt_str *out, const zt_opt *option, const char *identifier)
{
    switch (zt_completion_kind(option)) {
    case VALUE_NONE: break;
    case VALUE_TEXT: zt_str_puts(out, " -x"); break;
    case VALUE_FILE: zt_str_puts(out, " -r -F"); break;
    case VALUE_FOLDER: zt_str_puts(out, " -x -a '(__fish_complete_directories (commandline -ct))'"); break;
    case VALUE_WORDS:
        zt_str_puts(out, " -x -a '");
        zt_completion_words(out, option, "");
        zt_str_puts(out, "'");
        break;
    case VALUE_OR_FILE:
        zt_str_puts(out, " -r -F -a '");
        zt_completion_words(out, option, "");
        zt_str_puts(out, "'");
        break;
    case VALUE_LIST:
        zt_str_printf(out, " -x -a '(__%s_list", identifier);
        zt_completion_words(out, option, "");
        zt_str_puts(out, ")'");
        break;
    case VALUE_NAMES: zt_str_printf(out, " -x -a '(__%s_names \"\" %s)'", identifier, option->names_from); break;
    case VALUE_NAME_IS: zt_str_printf(out, " -x -a '(__%s_pair \"%s\")'", identifier, option->names_from); break;
    case VALUE_WORD_IS:
        zt_str_puts(out, " -x -a '");
        zt_completion_words(out, option, "=");
        zt_str_puts(out, "'");
        break;
    case VALUE_PAIR:
        zt_str_printf(out, " -x -a '(__%s_pair \"%s\"", identifier, option->names_from ? option->names_from : "");
        zt_completion_words(out, option, "");
        zt_str_puts(out, ")'");
        break;
    }
}

/* "-n CONDITION": none of the commands is there yet, or one that the option applies to is. */
static void put_condition(zt_str *out, const zt_tool *tool, const zt_opt *option)
{
    size_t start = out->len;
    zt_str_puts(out, " -n 'not __fish_seen_subcommand_from ");
    zt_completion_commands(out, tool, NULL, " ");
    zt_str_puts(out, "; or __fish_seen_subcommand_from ");
    if (zt_completion_commands(out, tool, option, " "))
        zt_str_puts(out, "'");
    else
        out->len = start;
}

void zt_completion_fish(zt_str *out, const zt_cli_state *state)
{
    const zt_tool *tool = state->cli.tool;
    zt_identifier identifier;
    zt_completion_identifier(tool, identifier);
    zt_str_printf(out,
                  "# fish completion for %1$s. Source it, or copy it to\n"
                  "# ~/.config/fish/completions/%1$s.fish\n\n",
                  tool->name);
    zt_str_printf(out, helpers, identifier);
    for (int mode = 0; tool->commands && mode < tool->n_modes; mode++) {
        zt_str_printf(out, "complete -c %s -f -n 'not __fish_seen_subcommand_from ", tool->name);
        zt_completion_commands(out, tool, NULL, " ");
        zt_str_printf(out, "' -a %s\n", tool->modes[mode].name);
    }
    for (int mode = 0; !tool->commands && mode < tool->n_modes; mode++)
        if (tool->modes[mode].command)
            zt_str_printf(out, "complete -c %s -f -n __fish_is_first_arg -a %s\n", tool->name, tool->modes[mode].name);
    for (int i = 0; i < state->option_count; i++) {
        const zt_opt *option = &state->options[i];
        zt_str_printf(out, "complete -c %s", tool->name);
        put_condition(out, tool, option);
        if (option->letter) zt_str_printf(out, " -s %c", option->letter);
        if (option->name) zt_str_printf(out, " -l %s", option->name);
        put_value(out, option, identifier);
        zt_str_puts(out, " -d '");
        put_quoted(out, option->help);
        zt_str_puts(out, "'\n");
    }
}
