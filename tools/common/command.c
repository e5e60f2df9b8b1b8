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
    char shown[64], problem[128];
    if (cli->n_operands == 0) return no_command(cli, "a command is missing", table, size, n);
    const char *name = cli->operands[0];
    for (int i = 0; i < n; i++)
        if (strcmp(name, at(table, size, i)->name) == 0) return zt_cli_enter(cli, i) ? -1 : i;
    snprintf(problem, sizeof problem, "'%s' is no command",
             zt_escape(shown, sizeof shown, name, strlen(name)));
    return no_command(cli, problem, table, size, n);
}
