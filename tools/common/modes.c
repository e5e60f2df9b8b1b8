/* modes.c - which options go with what a tool does: the masks, needs and exclusions of the option
 * table, checked against what was given. */
#include "lib/base/near.h"
#include "tools/common/internal.h"

#include <string.h>

static const zt_cli_state *get_state(const zt_cli *cli) { return (const zt_cli_state *)cli; }

void zt_modes_share(const zt_tool *tool, zt_opt *option)
{
    for (const zt_shared_opt *row = tool->shared_options; row && row->name; row++) {
        if (strcmp(row->name, option->name)) continue;
        option->modes = row->modes;
        option->needs = row->needs;
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Is the option called that? `length` bytes of a name; of an option that has none, its letter, "-n". */
static bool is_called(const zt_opt *option, const char *name, size_t length)
{
    if (*name == '-') return !option->name && option->letter == name[1];
    return option->name && !strncmp(option->name, name, length) && !option->name[length];
}

/* Of the names in "a|b|c" the first that was given, or where `any` the first; NULL: none. */
static const zt_opt *find_option(const zt_cli_state *state, const char *names, bool any)
{
    for (const char *cursor = names; cursor && *cursor;) {
        size_t length = strcspn(cursor, "|");
        for (int i = 0; i < state->option_count; i++)
            if (is_called(&state->options[i], cursor, length) && (any || state->given[i])) return &state->options[i];
        cursor += length + (cursor[length] == '|');
    }
    return NULL;
}

bool zt_cli_given(const zt_cli *cli, const char *name) { return find_option(get_state(cli), name, false) != NULL; }

zt_status zt_cli_refuse_given(zt_cli *cli, const char *names, const char *what)
{
    char name[64];
    const zt_opt *option = find_option(get_state(cli), names, false);
    return option ? zt_fail(cli->ctx, ZT_EUSAGE, "option '%s' does not apply to %s", zt_option_display(option, name), what)
                  : ZT_OK;
}

/* ---- modes ----------------------------------------------------------------------------------- */

/* The i-th command among the modes. */
static const char *command_name(const void *user, int i)
{
    const zt_tool *tool = user;
    for (int mode = 0; mode < tool->n_modes; mode++)
        if (tool->modes[mode].command && i-- == 0) return tool->modes[mode].name;
    return NULL;
}

/* The command that operand 0 names; -1: none, with an error if there is an operand. */
static int find_command(zt_cli *cli)
{
    const zt_tool *tool = cli->tool;
    if (!cli->n_operands || !command_name(tool, 0)) return -1;
    const char *word = cli->operands[0];
    for (int mode = 0; mode < tool->n_modes; mode++)
        if (tool->modes[mode].command && !strcmp(word, tool->modes[mode].name)) return mode;
    zt_fail_unknown(cli->ctx, ZT_EUSAGE, "unknown command", word, strlen(word), command_name, tool);
    return -1;
}

int zt_cli_mode(zt_cli *cli, int usual)
{
    const zt_tool *tool = cli->tool;
    int mode = find_command(cli);
    if (zt_ctx_status(cli->ctx)) return -1;
    for (int i = 0; i < tool->n_modes; i++) {
        const char *option = tool->modes[i].option;
        if (!option || !zt_cli_given(cli, option)) continue;
        if (mode >= 0 && tool->modes[mode].command)
            zt_fail(cli->ctx, ZT_EUSAGE, "option '--%s' does not apply to %s", option, tool->modes[mode].name);
        else if (mode >= 0)
            zt_fail(cli->ctx, ZT_EUSAGE, "options '--%s' and '--%s' exclude each other", tool->modes[mode].option, option);
        if (mode >= 0) return -1;
        mode = i;
    }
    return mode < 0 ? usual : mode;
}

int zt_modes_of_help(const zt_cli_state *state)
{
    const zt_cli *cli = &state->cli;
    for (int i = 0; i < cli->tool->n_modes; i++) {
        const zt_mode *mode = &cli->tool->modes[i];
        if (mode->option ? zt_cli_given(cli, mode->option) : cli->n_operands > 0 && strcmp(cli->operands[0], mode->name) == 0)
            return i;
    }
    return -1;
}

bool zt_modes_apply(const zt_tool *tool, const zt_opt *option, int mode)
{
    if (mode < 0) return true;
    for (int i = 0; i < tool->n_modes; i++) {
        const char *chooser = tool->modes[i].option;
        if (chooser && is_called(option, chooser, strlen(chooser))) return i == mode;
    }
    return !option->modes || option->modes & ZT_IN(mode);
}

enum { MOST_NAMED = 4 }; /* modes in a message: more than these say nothing */

/* "; it applies to stats or chrome" */
static void put_where(const zt_tool *tool, uint64_t modes, zt_str *out)
{
    int mode_count = __builtin_popcountll(modes), written = 0;
    if (mode_count > MOST_NAMED) return;
    for (int i = 0; i < tool->n_modes; i++) {
        if (!(modes & ZT_IN(i))) continue;
        zt_str_printf(out, "%s%s",
                      written == 0                ? "; it applies to "
                      : written == mode_count - 1 ? " or "
                                                  : ", ",
                      tool->modes[i].name);
        written++;
    }
}

static zt_status check_mode(zt_cli *cli, const zt_opt *option, int mode)
{
    char name[64];
    zt_str where;
    if (!option->modes || option->modes & ZT_IN(mode)) return ZT_OK;
    zt_str_init(&where, cli->ctx);
    put_where(cli->tool, option->modes, &where);
    zt_fail(cli->ctx, ZT_EUSAGE, "option '%s' does not apply to %s%s", zt_option_display(option, name),
            cli->tool->modes[mode].name, where.data ? where.data : "");
    zt_str_fini(&where);
    return zt_ctx_status(cli->ctx);
}

static zt_status check_needs(zt_cli *cli, const zt_opt *option)
{
    const zt_cli_state *state = get_state(cli);
    char name[64], other_name[64];
    zt_str needed;
    if (!option->needs || find_option(state, option->needs, false)) return ZT_OK;
    zt_str_init(&needed, cli->ctx);
    for (const char *cursor = option->needs; *cursor;) {
        size_t length = strcspn(cursor, "|");
        const zt_opt *other = find_option(state, cursor, true);
        zt_str_printf(&needed, "%s'%s'",
                      cursor == option->needs ? ""
                      : cursor[length]        ? ", "
                                              : " or ",
                      other ? zt_option_display(other, other_name) : "");
        cursor += length + (cursor[length] == '|');
    }
    zt_fail(cli->ctx, ZT_EUSAGE, "option '%s' needs %s", zt_option_display(option, name), needed.data ? needed.data : "");
    zt_str_fini(&needed);
    return zt_ctx_status(cli->ctx);
}

static zt_status check_excludes(zt_cli *cli, const zt_opt *option)
{
    char name[64], other_name[64];
    const zt_opt *other = find_option(get_state(cli), option->excludes, false);
    if (!other) return ZT_OK;
    return zt_fail(cli->ctx, ZT_EUSAGE, "options '%s' and '%s' exclude each other", zt_option_display(option, name),
                   zt_option_display(other, other_name));
}

zt_status zt_cli_enter(zt_cli *cli, int mode)
{
    const zt_cli_state *state = get_state(cli);
    zt_status status = ZT_OK;
    for (int i = 0; i < state->option_count && !status; i++)
        if (state->given[i]) status = check_mode(cli, &state->options[i], mode);
    for (int i = 0; i < state->option_count && !status; i++) {
        if (!state->given[i]) continue;
        status = check_needs(cli, &state->options[i]);
        if (!status) status = check_excludes(cli, &state->options[i]);
    }
    if (!status && *state->sandbox_note) zt_log(cli->ctx, ZT_LOG_INFO, "%s", state->sandbox_note);
    return status;
}
