/* command.c - tools of several commands. */
#include "lib/base/near.h"
#include "tools/common/command.h"

#include <stdio.h>
#include <string.h>

static const zt_command *command_at(const void *table, size_t size, int i)
{
    return (const zt_command *)((const char *)table + size * (size_t)i);
}

typedef struct command_list {
    const void *table;
    size_t size;
    int count;
} command_list;

static const char *command_name(const void *user, int i)
{
    const command_list *commands = user;
    return i < commands->count ? command_at(commands->table, commands->size, i)->name : NULL;
}

/* "a command is missing: show, stats or dot" */
static int fail_no_command(zt_cli *cli, const command_list *commands)
{
    zt_str names;
    zt_str_init(&names, cli->ctx);
    zt_near_put(&names, commands->count, command_name, commands);
    zt_fail(cli->ctx, ZT_EUSAGE, "no command: expected %s", names.data ? names.data : "");
    zt_str_fini(&names);
    return -1;
}

void zt_command_modes(const void *table, size_t size, int count, zt_mode *modes, const char **synopses)
{
    for (int i = 0; i < count; i++) {
        modes[i] = (zt_mode){.name = command_at(table, size, i)->name};
        synopses[i] = command_at(table, size, i)->synopsis;
    }
    synopses[count] = NULL;
}

int zt_command_enter(zt_cli *cli, const void *table, size_t size, int count)
{
    const command_list all = {table, size, count};
    if (cli->n_operands == 0) return fail_no_command(cli, &all);
    const char *name = cli->operands[0];
    for (int i = 0; i < count; i++)
        if (strcmp(name, command_at(table, size, i)->name) == 0) return zt_cli_enter(cli, i) ? -1 : i;
    zt_fail_unknown(cli->ctx, ZT_EUSAGE, "unknown command", name, strlen(name), command_name, &all);
    return -1;
}
