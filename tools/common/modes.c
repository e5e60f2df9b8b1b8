/* modes.c - which options go with what a tool does: the masks, needs and exclusions of the option
 * table, checked against what was given. */
#include "tools/common/internal.h"

#include <string.h>

static const zt_cli_state *state_of(const zt_cli *cli) { return (const zt_cli_state *)cli; }

void zt_modes_share(const zt_tool *tool, zt_opt *o)
{
    for (const zt_shared_opt *s = tool->shared_options; s && s->name; s++) {
        if (strcmp(s->name, o->name)) continue;
        o->modes = s->modes;
        o->needs = s->needs;
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Is the option called that? n bytes of a name; of an option that has none, its letter, "-n". */
static bool is_called(const zt_opt *o, const char *name, size_t n)
{
    if (*name == '-') return !o->name && o->letter == name[1];
    return o->name && !strncmp(o->name, name, n) && !o->name[n];
}

/* Of the names in "a|b|c" the first that was given, or where `any` the first; NULL: none. */
static const zt_opt *first_of(const zt_cli_state *st, const char *names, bool any)
{
    for (const char *at = names; at && *at;) {
        size_t n = strcspn(at, "|");
        for (int i = 0; i < st->n_opts; i++)
            if (is_called(&st->opts[i], at, n) && (any || st->given[i])) return &st->opts[i];
        at += n + (at[n] == '|');
    }
    return NULL;
}

bool zt_cli_given(const zt_cli *cli, const char *name)
{
    return first_of(state_of(cli), name, false) != NULL;
}

zt_status zt_cli_refuse_given(zt_cli *cli, const char *names, const char *what)
{
    char name[64];
    const zt_opt *o = first_of(state_of(cli), names, false);
    return o ? zt_fail(cli->ctx, ZT_EUSAGE, "option '%s' does not apply to %s",
                       zt_option_display(o, name), what)
             : ZT_OK;
}

/* ---- modes ----------------------------------------------------------------------------------- */

int zt_cli_mode(zt_cli *cli, int usual)
{
    const zt_tool *tool = cli->tool;
    int mode = -1;
    for (int i = 0; i < tool->n_modes; i++) {
        const char *option = tool->modes[i].option;
        if (!option || !zt_cli_given(cli, option)) continue;
        if (mode >= 0) {
            zt_fail(cli->ctx, ZT_EUSAGE, "options '--%s' and '--%s' exclude each other",
                    tool->modes[mode].option, option);
            return -1;
        }
        mode = i;
    }
    return mode < 0 ? usual : mode;
}

enum { MOST_NAMED = 4 }; /* modes in a message: more than these say nothing */

/* "; it applies to stats or chrome" */
static void put_where(const zt_tool *tool, uint64_t modes, zt_str *s)
{
    int n = __builtin_popcountll(modes), k = 0;
    if (n > MOST_NAMED) return;
    for (int i = 0; i < tool->n_modes; i++) {
        if (!(modes & ZT_IN(i))) continue;
        zt_str_printf(s, "%s%s", k == 0 ? "; it applies to " : k == n - 1 ? " or " : ", ",
                      tool->modes[i].name);
        k++;
    }
}

static zt_status check_mode(zt_cli *cli, const zt_opt *o, int mode)
{
    char name[64];
    zt_str where;
    if (!o->modes || o->modes & ZT_IN(mode)) return ZT_OK;
    zt_str_init(&where, cli->ctx);
    put_where(cli->tool, o->modes, &where);
    zt_fail(cli->ctx, ZT_EUSAGE, "option '%s' does not apply to %s%s", zt_option_display(o, name),
            cli->tool->modes[mode].name, where.data ? where.data : "");
    zt_str_fini(&where);
    return zt_ctx_status(cli->ctx);
}

static zt_status check_needs(zt_cli *cli, const zt_opt *o)
{
    const zt_cli_state *st = state_of(cli);
    char name[64], one[64];
    zt_str needed;
    if (!o->needs || first_of(st, o->needs, false)) return ZT_OK;
    zt_str_init(&needed, cli->ctx);
    for (const char *at = o->needs; *at;) {
        size_t n = strcspn(at, "|");
        const zt_opt *other = first_of(st, at, true);
        zt_str_printf(&needed, "%s'%s'", at == o->needs ? "" : at[n] ? ", " : " or ",
                      other ? zt_option_display(other, one) : "");
        at += n + (at[n] == '|');
    }
    zt_fail(cli->ctx, ZT_EUSAGE, "option '%s' needs %s", zt_option_display(o, name),
            needed.data ? needed.data : "");
    zt_str_fini(&needed);
    return zt_ctx_status(cli->ctx);
}

static zt_status check_excludes(zt_cli *cli, const zt_opt *o)
{
    char name[64], other_name[64];
    const zt_opt *other = first_of(state_of(cli), o->excludes, false);
    if (!other) return ZT_OK;
    return zt_fail(cli->ctx, ZT_EUSAGE, "options '%s' and '%s' exclude each other",
                   zt_option_display(o, name), zt_option_display(other, other_name));
}

zt_status zt_cli_enter(zt_cli *cli, int mode)
{
    const zt_cli_state *st = state_of(cli);
    zt_status s = ZT_OK;
    for (int i = 0; i < st->n_opts && !s; i++)
        if (st->given[i]) s = check_mode(cli, &st->opts[i], mode);
    for (int i = 0; i < st->n_opts && !s; i++) {
        if (!st->given[i]) continue;
        s = check_needs(cli, &st->opts[i]);
        if (!s) s = check_excludes(cli, &st->opts[i]);
    }
    return s;
}
