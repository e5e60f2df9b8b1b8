/* completion_bash.c - the completion script for bash. */
#include "tools/common/completion.h"

/* %1$s: the identifier. Names of tensors and keys come from files: they are never expanded, and quoted where they are inserted. */
static const char helpers[] =
    "# Offers the words that the current one begins; of a list A,B its last part (first argument: ,).\n"
    "_%1$s_words()\n{\n"
    "    local word head=\n"
    "    if [[ $1 == , ]]; then shift; [[ $cur == *,* ]] && head=${cur%%,*},; fi\n"
    "    for word; do [[ $head$word == \"$cur\"* ]] && COMPREPLY+=(\"$head$word\"); done\n"
    "}\n\n"
    "# Offers the names that a command prints for the first file on the command line, each with a suffix (first argument).\n"
    "_%1$s_names()\n{\n"
    "    local suffix=$1 tool=$2 word name file=\n"
    "    compopt +o default\n"
    "    [[ $suffix ]] && compopt -o nospace\n"
    "    [[ ${COMP_WORDS[0]} == */* ]] && tool=${COMP_WORDS[0]%%/*}/$tool\n"
    "    for word in \"${COMP_WORDS[@]:1}\"; do\n"
    "        word=${word//\\\\/} word=${word#[\\\"\\']} word=${word%%[\\\"\\']} word=${word/#'~/'/$HOME/}\n"
    "        [[ ! $file && -e $word ]] && file=$word\n"
    "    done\n"
    "    [[ $file ]] || return\n"
    "    while IFS=$'\\t' read -r name _; do\n"
    "        [[ $name == \"$cur\"* ]] && printf -v name %%q \"$name\" && COMPREPLY+=(\"$name$suffix\")\n"
    "    done < <(\"$tool\" \"${@:3}\" --format tsv -- \"$file\" 2>/dev/null | tail -n +2)\n"
    "}\n\n";

/* bash splits words at '=': "--a=b" is three. `prev` is the option, `cur` what is to be completed, `key` what is in front of the
 * '=' of a value. */
static const char beginning[] = "_%1$s()\n{\n"
                                "    local cur=${COMP_WORDS[COMP_CWORD]} at=$COMP_CWORD key= prev verb= word options\n"
                                "    if [[ $cur == = ]]; then cur= at=$((at + 1)); fi\n"
                                "    if [[ $at -gt 2 && ${COMP_WORDS[at-1]} == = && ${COMP_WORDS[at-2]} != -* ]]; then\n"
                                "        key=${COMP_WORDS[at-2]} at=$((at - 2))\n"
                                "    fi\n"
                                "    [[ ${COMP_WORDS[at-1]} == = ]] && at=$((at - 1))\n"
                                "    prev=${COMP_WORDS[at-1]}\n"
                                "    COMPREPLY=()\n"
                                "    case $prev in\n";

static void put_names(zt_str *out, const zt_opt *option, const char *between)
{
    if (option->name) zt_str_printf(out, "--%s", option->name);
    if (option->letter) zt_str_printf(out, "%s-%c", option->name ? between : "", option->letter);
}

static void put_call(zt_str *out, const char *identifier, const char *first, const zt_opt *option)
{
    zt_str_printf(out, "_%s_words%s", identifier, first);
    zt_completion_words(out, option, "");
}

/* A branch for an option with a value. */
static void put_branch(zt_str *out, const zt_opt *option, const char *identifier)
{
    value_kind kind = zt_completion_kind(option);
    if (kind == VALUE_NONE) return;
    zt_str_puts(out, "    ");
    put_names(out, option, "|");
    zt_str_puts(out, ") ");
    if (kind == VALUE_TEXT) zt_str_puts(out, "compopt +o default");
    if (kind == VALUE_FILE) zt_str_puts(out, ":");
    if (kind == VALUE_FOLDER) zt_str_puts(out, "compopt -o dirnames");
    if (kind == VALUE_WORDS || kind == VALUE_LIST) zt_str_puts(out, "compopt +o default; ");
    if (kind == VALUE_WORDS || kind == VALUE_LIST || kind == VALUE_OR_FILE)
        put_call(out, identifier, kind == VALUE_LIST ? " ," : "", option);
    if (kind == VALUE_NAMES) zt_str_printf(out, "_%s_names '' %s", identifier, option->names_from);
    if (kind == VALUE_NAME_IS) zt_str_printf(out, "[[ $key ]] || _%s_names = %s", identifier, option->names_from);
    if (kind == VALUE_WORD_IS) {
        zt_str_printf(out, "compopt +o default; compopt -o nospace; [[ $key ]] || _%s_words", identifier);
        zt_completion_words(out, option, "=");
    }
    if (kind == VALUE_PAIR) {
        zt_str_puts(out, "compopt +o default; if [[ $key ]]; then ");
        put_call(out, identifier, "", option);
        zt_str_puts(out, "; else ");
        if (option->names_from)
            zt_str_printf(out, "_%s_names = %s", identifier, option->names_from);
        else
            zt_str_puts(out, ":");
        zt_str_puts(out, "; fi");
    }
    zt_str_puts(out, "; return ;;\n");
}

/* The names of the options that apply to the mode; -1: of all. */
static void put_options(zt_str *out, const zt_cli_state *state, int mode)
{
    zt_str_puts(out, "options='");
    for (int i = 0, written = 0; i < state->option_count; i++) {
        if (!zt_modes_apply(state->cli.tool, &state->options[i], mode)) continue;
        zt_str_puts(out, written++ ? " " : "");
        put_names(out, &state->options[i], " ");
    }
    zt_str_puts(out, "'");
}

/* The options of the command that is on the line, and the commands where none is. */
static void put_commands(zt_str *out, const zt_cli_state *state, const char *identifier)
{
    const zt_tool *tool = state->cli.tool;
    zt_str_puts(out, "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n        case $word in ");
    zt_completion_commands(out, tool, NULL, "|");
    zt_str_puts(out, ") verb=$word; break ;; esac\n    done\n    case $verb in\n");
    for (int mode = 0; mode < tool->n_modes; mode++) {
        zt_str_printf(out, "    %s) ", tool->modes[mode].name);
        put_options(out, state, mode);
        zt_str_puts(out, " ;;\n");
    }
    zt_str_puts(out, "    *) ");
    put_options(out, state, -1);
    zt_str_printf(out, " ;;\n    esac\n    [[ $verb || $cur == -* ]] || { compopt +o default; _%s_words ", identifier);
    zt_completion_commands(out, tool, NULL, " ");
    zt_str_puts(out, "; return; }\n");
}

/* Of a tool some of whose modes are commands: their names, as the first word. */
static void put_mode_commands(zt_str *out, const zt_tool *tool, const char *identifier)
{
    size_t start = out->len;
    zt_str_printf(out, "    [[ $cur == -* || $COMP_CWORD -gt 1 ]] || { compopt +o default; _%s_words ", identifier);
    if (zt_completion_mode_commands(out, tool))
        zt_str_puts(out, "; return; }\n");
    else
        out->len = start;
}

void zt_completion_bash(zt_str *out, const zt_cli_state *state)
{
    const zt_tool *tool = state->cli.tool;
    zt_identifier identifier;
    zt_completion_identifier(tool, identifier);
    zt_str_printf(out,
                  "# bash completion for %1$s. Source it, or copy it to\n"
                  "# ~/.local/share/bash-completion/completions/%1$s\n\n",
                  tool->name);
    zt_str_printf(out, helpers, identifier);
    zt_str_printf(out, beginning, identifier);
    for (int i = 0; i < state->option_count; i++) put_branch(out, &state->options[i], identifier);
    zt_str_puts(out, "    esac\n");
    if (tool->commands)
        put_commands(out, state, identifier);
    else {
        zt_str_puts(out, "    ");
        put_options(out, state, -1);
        zt_str_puts(out, "\n");
        put_mode_commands(out, tool, identifier);
    }
    zt_str_printf(out, "    [[ $cur == -* ]] && _%1$s_words $options\n}\ncomplete -o default -F _%1$s %2$s\n", identifier,
                  tool->name);
}
