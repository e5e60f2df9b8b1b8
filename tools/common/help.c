/* help.c - --help, made from the option table. */
#include "tools/common/internal.h"
#include <ctype.h>
#include <string.h>

enum {
    COLUMN = 28,     /* where help texts begin, */
    WIDTH = 100,     /* and end */
    MOST_LINES = 60, /* of --help; --help=all may be longer */
};

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

/* What is printed: options of which mode (-1: of all), and how much of them. */
typedef struct help_view {
    int mode;
    bool brief; /* without details, blank lines between groups, and "(default: none)" */
} help_view;

static void put_option(zt_str *out, const zt_opt *option, const char *initial, help_view view)
{
    size_t start = out->len;
    put_left(out, option);
    size_t width = out->len - start;
    if (width + 2 > COLUMN) {
        zt_str_putc(out, '\n');
        width = 0;
    }
    char text[400];
    bool with_default = *initial && !(view.brief && strcmp(initial, "none") == 0);
    snprintf(text, sizeof text, with_default ? "%s (default: %s)" : "%s", option->help, initial);
    put_wrapped(out, text, (int)width);
}

/* The options that the view has, each group under its heading. */
static void put_options(zt_str *out, const zt_cli_state *state, help_view view)
{
    const char *heading = "Options";
    bool any = false;
    for (int i = 0; i < state->option_count; i++) {
        const zt_opt *option = &state->options[i];
        if (i == state->own_count)
            heading = "Common options";
        else if (option->heading)
            heading = option->heading;
        if (!zt_modes_apply(state->cli.tool, option, view.mode) || (view.brief && option->detail)) continue;
        if (heading) zt_str_printf(out, "%s%s:\n", view.brief && any ? "" : "\n", heading);
        heading = NULL;
        put_option(out, option, state->initial[i], view);
        any = true;
    }
}

/* Does the line of a synopsis belong to the mode: does it begin with the command, or have the option? */
static bool synopsis_has(const char *line, const zt_mode *mode)
{
    size_t length = strlen(mode->option ? mode->option : mode->name);
    if (!mode->option) return strncmp(line, mode->name, length) == 0 && (line[length] == ' ' || !line[length]);
    for (const char *found = line; (found = strstr(found, "--")); found += 2)
        if (strncmp(found + 2, mode->option, length) == 0 && !isalnum((unsigned char)found[2 + length]) &&
            found[2 + length] != '-')
            return true;
    return false;
}

/* The usage lines of the mode, or all where none is of it. */
static void put_usage(zt_str *out, const zt_tool *tool, int mode)
{
    bool any = false;
    for (int pass = 0; pass < 2 && !any; pass++)
        for (int i = 0; tool->synopsis && tool->synopsis[i]; i++) {
            if (pass == 0 && (mode < 0 || !synopsis_has(tool->synopsis[i], &tool->modes[mode]))) continue;
            zt_str_printf(out, "%s %s %s\n", any ? "      " : "Usage:", tool->name, tool->synopsis[i]);
            any = true;
        }
}

/* Where the rest is: what a view leaves out, and the options of one command. */
static void put_more(zt_str *out, const zt_cli_state *state, help_view view)
{
    const zt_tool *tool = state->cli.tool;
    bool commands = view.mode < 0 && tool->commands;
    if (view.brief || commands) zt_str_putc(out, '\n');
    if (view.brief) zt_str_printf(out, "%s --help=all prints all %d options.\n", tool->name, state->option_count);
    if (commands) zt_str_printf(out, "%s COMMAND --help prints the options of a command.\n", tool->name);
}

static int count_lines(const zt_str *text)
{
    int lines = 0;
    for (size_t i = 0; i < text->len; i++) lines += text->data[i] == '\n';
    return lines;
}

static zt_status write_text(zt_cli_state *state, zt_str *out)
{
    zt_status status = zt_ctx_status(state->cli.ctx);
    if (status == ZT_OK) status = zt_cli_write(&state->cli, out->data, out->len);
    zt_str_fini(out);
    return status;
}

static void put_help(zt_str *out, const zt_cli_state *state, help_view view)
{
    const zt_tool *tool = state->cli.tool;
    put_usage(out, tool, view.mode);
    zt_str_printf(out, "%s: %s.\n", tool->name, tool->summary);
    put_options(out, state, view);
    put_more(out, state, view);
}

zt_status zt_print_help(zt_cli_state *state)
{
    help_view view = {.mode = zt_modes_of_help(state)};
    zt_str out;
    zt_str_init(&out, state->cli.ctx);
    put_help(&out, state, view);
    if (!state->help_all && count_lines(&out) > MOST_LINES) {
        zt_str_fini(&out);
        zt_str_init(&out, state->cli.ctx);
        view.brief = true;
        put_help(&out, state, view);
    }
    return write_text(state, &out);
}
