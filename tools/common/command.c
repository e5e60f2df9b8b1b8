/* command.c - tools of several commands. */
#include "tools/common/command.h"

#include <stdio.h>
#include <string.h>

static const zt_command *at(const void *table, size_t size, int i)
{
    return (const zt_command *)((const char *)table + size * (size_t)i);
}

/* "PROBLEM: show, stats or dot" */
static int no_command(zt_cli *cli, const char *problem, const void *table, size_t size, int n)
{
    zt_str names;
    zt_str_init(&names, cli->ctx);
    for (int i = 0; i < n; i++)
        zt_str_printf(&names, "%s%s", i == 0 ? "" : i == n - 1 ? " or " : ", ",
                      at(table, size, i)->name);
    zt_fail(cli->ctx, ZT_EUSAGE, "%s: %s", problem, names.data ? names.data : "");
    zt_str_fini(&names);
    return -1;
}

int zt_command_find(zt_cli *cli, const void *table, size_t size, int n)
{
    char shown[64], problem[128];
    if (cli->n_operands == 0) return no_command(cli, "a command is missing", table, size, n);
    const char *name = cli->operands[0];
    for (int i = 0; i < n; i++)
        if (strcmp(name, at(table, size, i)->name) == 0) return i;
    snprintf(problem, sizeof problem, "'%s' is no command",
             zt_escape(shown, sizeof shown, name, strlen(name)));
    return no_command(cli, problem, table, size, n);
}

zt_status zt_command_check(zt_cli *cli, const zt_command *c)
{
    const zt_opt *table = cli->tool->options;
    for (int i = 0; table[i].name || table[i].letter; i++) {
        const zt_opt *o = &table[i];
        if (!*o->given || (c->takes >> i & 1)) continue;
        if (o->name)
            return zt_fail(cli->ctx, ZT_EUSAGE, "option '--%s' does not go with %s", o->name,
                           c->name);
        return zt_fail(cli->ctx, ZT_EUSAGE, "option '-%c' does not go with %s", o->letter, c->name);
    }
    return ZT_OK;
}
