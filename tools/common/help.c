/* help.c - what the option table says of itself: --help and the completion script. */
#include "tools/common/internal.h"
#include <ctype.h>
#include <string.h>

enum { COLUMN = 28, WIDTH = 100 }; /* where help texts begin, and end */

/* "  -n, --count N" */
static void put_left(zt_str *out, const zt_opt *option)
{
    if (option->letter)
        zt_str_printf(out, "  -%c%s", option->letter, option->name ? ", " : "");
    else
        zt_str_puts(out, "      ");
    if (option->name) zt_str_printf(out, "--%s", option->name);
    if (zt_option_takes_value(option)) zt_str_printf(out, " %s", option->arg);
}

/* Words from COLUMN on, in as many lines as they need. None begins with '-', which would look like
 * an option: the word before goes with it. `width`: how far the first line is. */
static void put_wrapped(zt_str *out, const char *text, int width)
{
    int column = COLUMN;
    zt_str_printf(out, "%*s", COLUMN - width, "");
    for (const char *word = text; *word;) {
        size_t length = strcspn(word, " ");
        while (word[length] && word[length + 1] == '-') length += 1 + strcspn(word + length + 1, " ");
        if (column > COLUMN && column + 1 + (int)length > WIDTH) {
            zt_str_printf(out, "\n%*s", COLUMN, "");
            column = COLUMN;
        }
        zt_str_puts(out, column > COLUMN ? " " : "");
        zt_str_put(out, word, length);
        column += (int)length + (column > COLUMN);
        word += length + (word[length] == ' ');
    }
    zt_str_putc(out, '\n');
}

static void put_options(zt_str *out, const char *title, const zt_opt *options, const zt_default *initial, int count)
{
    if (count == 0) return;
    zt_str_printf(out, "\n%s:\n", title);
    for (int i = 0; i < count; i++) {
        size_t start = out->len;
        put_left(out, &options[i]);
        size_t width = out->len - start;
        if (width + 2 > COLUMN) {
            zt_str_putc(out, '\n');
            width = 0;
        }
        char text[400];
        snprintf(text, sizeof text, *initial[i] ? "%s (default: %s)" : "%s", options[i].help, initial[i]);
        put_wrapped(out, text, (int)width);
    }
}

static zt_status write_text(zt_cli_state *state, zt_str *out)
{
    zt_status status = zt_ctx_status(state->cli.ctx);
    if (status == ZT_OK) status = zt_cli_write(&state->cli, out->data, out->len);
    zt_str_fini(out);
    return status;
}

zt_status zt_print_help(zt_cli_state *state)
{
    const zt_tool *tool = state->cli.tool;
    zt_str out;
    zt_str_init(&out, state->cli.ctx);
    for (int i = 0; tool->synopsis && tool->synopsis[i]; i++)
        zt_str_printf(&out, "%s %s %s\n", i ? "      " : "Usage:", tool->name, tool->synopsis[i]);
    zt_str_printf(&out, "%s: %s.\n", tool->name, tool->summary);
    put_options(&out, "Options", state->options, state->initial, state->own_count);
    put_options(&out, "Shared by the tools of zt", state->options + state->own_count, state->initial + state->own_count,
                state->option_count - state->own_count);
    return write_text(state, &out);
}

/* ---- completion ------------------------------------------------------------------------------ */

static void put_names(zt_str *out, const zt_opt *option, const char *between)
{
    if (option->name) zt_str_printf(out, "--%s", option->name);
    if (option->letter) zt_str_printf(out, "%s-%c", option->name ? between : "", option->letter);
}

/* A branch for the options after which words, or no file, are to be offered. */
static void put_branch(zt_str *out, const zt_opt *option)
{
    bool number =
        option->kind == ZT_OPT_I64 || option->kind == ZT_OPT_U64 || option->kind == ZT_OPT_F64 || option->kind == ZT_OPT_SIZE;
    if (option->kind != ZT_OPT_WORD && !number) return;
    zt_str_puts(out, "    ");
    put_names(out, option, "|");
    if (number) {
        zt_str_puts(out, ") compopt +o default; return ;;\n");
        return;
    }
    zt_str_puts(out, ") COMPREPLY=($(compgen -W '");
    for (const char *letter = option->arg; *letter; letter++) zt_str_putc(out, *letter == '|' ? ' ' : *letter);
    zt_str_puts(out, "' -- \"$cur\")); return ;;\n");
}

zt_status zt_print_completion(zt_cli_state *state)
{
    zt_str out, identifier;
    zt_str_init(&out, state->cli.ctx);
    zt_str_init(&identifier, state->cli.ctx);
    for (const char *letter = state->cli.tool->name; *letter; letter++)
        zt_str_putc(&identifier, isalnum((unsigned char)*letter) ? *letter : '_');
    zt_str_printf(&out,
                  "# bash completion for %s: source it, or put it into\n"
                  "# ~/.local/share/bash-completion/completions/%s\n"
                  "_%s()\n{\n"
                  "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                  "    COMPREPLY=()\n    case $prev in\n",
                  state->cli.tool->name, state->cli.tool->name, identifier.data ? identifier.data : "");
    for (int i = 0; i < state->option_count; i++) put_branch(&out, &state->options[i]);
    zt_str_puts(&out, "    esac\n    [[ $cur == -* ]] && COMPREPLY=($(compgen -W '");
    for (int i = 0; i < state->option_count; i++) {
        zt_str_puts(&out, i ? " " : "");
        put_names(&out, &state->options[i], " ");
    }
    zt_str_printf(&out, "' -- \"$cur\"))\n}\ncomplete -o default -F _%s %s\n", identifier.data ? identifier.data : "",
                  state->cli.tool->name);
    zt_str_fini(&identifier);
    return write_text(state, &out);
}
