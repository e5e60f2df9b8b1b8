/* completion_zsh.c - the completion script for zsh: the arguments of _arguments. */
#include "tools/common/completion.h"

#include <string.h>

/* %1$s: the identifier. compadd quotes the names, which come from files. */
static const char helpers[] =
    "# Offers the names that a command prints for the first file on the command line, each with a suffix (first argument).\n"
    "_%1$s_names()\n{\n"
    "    local suffix=$1 tool=$2 word file=\n"
    "    local -a names\n"
    "    shift 2\n"
    "    [[ $words[1] == */* ]] && tool=${words[1]:h}/$tool\n"
    "    for word in ${(Q)words[2,-1]}; do\n"
    "        word=${word/#\\~\\//$HOME/}\n"
    "        [[ -z $file && -e $word ]] && file=$word\n"
    "    done\n"
    "    [[ -n $file ]] || return 1\n"
    "    names=(${${${(f)\"$($tool $@ --format tsv -- $file 2>/dev/null)\"}[2,-1]}%%%%$'\\t'*})\n"
    "    compadd -S \"${suffix:- }\" -q -a names\n"
    "}\n\n"
    "# Offers names with a = (first argument: the command that prints them), then the words.\n"
    "_%1$s_pair()\n{\n"
    "    local names=$1\n"
    "    local -a values=($argv[2,-1])\n"
    "    if compset -P '*='; then [[ $#values -eq 0 ]] || compadd -a values; elif [[ -n $names ]]; then _%1$s_names = ${=names}; fi\n"
    "}\n\n";

/* Text inside single quotes, with a backslash in front of each character of `special`. */
static void put_quoted(zt_str *out, const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'') {
            zt_str_puts(out, "'\\''");
            continue;
        }
        if (strchr(special, *text)) zt_str_putc(out, '\\');
        zt_str_putc(out, *text);
    }
}

/* An action that begins with a blank is called without arguments of _arguments' own. */
static void put_value(zt_str *out, const zt_opt *option, const char *identifier)
{
    value_kind kind = zt_completion_kind(option);
    if (kind == VALUE_NONE) return;
    zt_str_putc(out, ':');
    put_quoted(out, option->kind == ZT_OPT_WORD ? option->name : option->arg, ":\\[]");
    zt_str_putc(out, ':');
    switch (kind) {
    case VALUE_FILE: zt_str_puts(out, "_files"); break;
    case VALUE_FOLDER: zt_str_puts(out, "_files -/"); break;
    case VALUE_WORDS:
        zt_str_puts(out, "(");
        zt_completion_words(out, option, "");
        zt_str_puts(out, ")");
        break;
    case VALUE_LIST:
        zt_str_puts(out, "_sequence compadd -");
        zt_completion_words(out, option, "");
        break;
    case VALUE_OR_FILE:
        zt_str_printf(out, "_alternative \"words\\:word\\:(");
        zt_completion_words(out, option, "");
        zt_str_puts(out, ")\" \"files\\:file\\:_files\"");
        break;
    case VALUE_NAMES: zt_str_printf(out, " _%s_names \"\" %s", identifier, option->names_from); break;
    case VALUE_NAME_IS: zt_str_printf(out, " _%s_pair \"%s\"", identifier, option->names_from); break;
    case VALUE_WORD_IS:
        zt_str_puts(out, " compadd -S \"=\" -");
        zt_completion_words(out, option, "");
        break;
    case VALUE_PAIR:
        zt_str_printf(out, " _%s_pair \"%s\"", identifier, option->names_from ? option->names_from : "");
        zt_completion_words(out, option, "");
        break;
    case VALUE_TEXT: zt_str_puts(out, " "); break;
    case VALUE_NONE: break;
    }
}

/* One name of an option, as _arguments has it. */
static void put_name(zt_str *out, const zt_opt *option, bool is_long, const char *identifier)
{
    bool value = zt_option_takes_value(option);
    bool repeated = option->kind == ZT_OPT_LIST || option->kind == ZT_OPT_COUNT;
    zt_str_printf(out, " '%s", repeated ? "*" : "");
    if (is_long)
        zt_str_printf(out, "--%s%s[", option->name, value ? "=" : "");
    else
        zt_str_printf(out, "-%c%s[", option->letter, value ? "+" : "");
    put_quoted(out, option->help, "[]\\:");
    zt_str_putc(out, ']');
    put_value(out, option, identifier);
    zt_str_putc(out, '\'');
}

void zt_completion_zsh(zt_str *out, const zt_cli_state *state)
{
    const zt_tool *tool = state->cli.tool;
    zt_identifier identifier;
    zt_completion_identifier(tool, identifier);
    zt_str_printf(out,
                  "#compdef %1$s\n"
                  "# zsh completion for %1$s. Copy it to a folder of $fpath, as _%1$s\n\n",
                  tool->name);
    zt_str_printf(out, helpers, identifier);
    zt_str_printf(out, "_%s()\n{\n    local verb=\n    local -a specs\n", identifier);
    if (tool->commands) {
        zt_str_puts(out, "    verb=${words[(r)(");
        zt_completion_commands(out, tool, NULL, "|");
        zt_str_puts(out, ")]}\n");
    }
    for (int i = 0; i < state->option_count; i++) {
        const zt_opt *option = &state->options[i];
        size_t start = out->len;
        zt_str_puts(out, "    [[ -z $verb || $verb == (");
        if (zt_completion_commands(out, tool, option, "|"))
            zt_str_puts(out, ") ]] && specs+=(");
        else {
            out->len = start;
            zt_str_puts(out, "    specs+=(");
        }
        if (option->name) put_name(out, option, true, identifier);
        if (option->letter) put_name(out, option, false, identifier);
        zt_str_puts(out, " )\n");
    }
    if (tool->commands) {
        zt_str_puts(out, "    specs+=( '1:command:(");
        zt_completion_commands(out, tool, NULL, " ");
        zt_str_puts(out, ")' )\n");
    }
    size_t start = out->len;
    zt_str_puts(out, "    specs+=( '1:command:(");
    if (zt_completion_mode_commands(out, tool))
        zt_str_puts(out, ")' )\n");
    else
        out->len = start;
    zt_str_printf(out,
                  "    _arguments -s -S $specs '*:file:_files'\n}\n\n"
                  "if [[ $funcstack[1] == _%2$s ]]; then _%1$s \"$@\"; else compdef _%1$s %2$s; fi\n",
                  identifier, tool->name);
}
