/* command.c - tools of several commands. */
#include "lib/base/near.h"
#include "tools/common/command.h"

#include <stdio.h>
#include <string.h>

static const zt_command *at(const void *table, size_t size, int i)
{
    return (const zt_command *)((const char *)table + size * (size_t)i);
}

typedef struct commands {
    const void *table;
    size_t size;
    int n;
} commands;

static const char *command_name(const void *user, int i)
{
    const commands *c = user;
    return i < c->n ? at(c->table, c->size, i)->name : NULL;
}

/* "a command is missing: show, stats or dot" */
static int no_command(zt_cli *cli, const commands *c)
{
    zt_str names;
    zt_str_init(&names, cli->ctx);
    zt_near_put(&names, c->n, command_name, c);
    zt_fail(cli->ctx, ZT_EUSAGE, "a command is missing: %s", names.data ? names.data : "");
    zt_str_fini(&names);
    return -1;
}

void zt_command_modes(const void *table, size_t size, int n, zt_mode *modes, const char **synopses)
{
    for (int i = 0; i < n; i++) {
        modes[i] = (zt_mode){.name = at(table, size, i)->name};
        synopses[i] = at(table, size, i)->synopsis;
    }
    synopses[n] = NULL;
}

int zt_command_enter(zt_cli *cli, const void *table, size_t size, int n)
{
    const commands all = {table, size, n};
    if (cli->n_operands == 0) return no_command(cli, &all);
    const char *name = cli->operands[0];
    for (int i = 0; i < n; i++)
        if (strcmp(name, at(table, size, i)->name) == 0) return zt_cli_enter(cli, i) ? -1 : i;
    zt_fail_unknown(cli->ctx, ZT_EUSAGE, "command", name, strlen(name), command_name, &all);
    return -1;
}
