/* command.h - tools of several commands: the first operand names one.
 *
 * A tool has a table of its own structs, each beginning with a zt_command; `size` is that of one, as
 * qsort has it. The commands are the tool's modes, in the same order: the rows of its option table
 * say which of them an option applies to.
 */
#ifndef ZT_COMMAND_H
#define ZT_COMMAND_H

#include "tools/common/cli.h"

typedef struct zt_command {
    const char *name, *synopsis; /* the synopsis begins with the name */
} zt_command;

/* Fills the tool's modes [count] and synopses [count + 1] from the table, before zt_cli_open. */
void zt_command_modes(const void *table, size_t size, int count, zt_mode *modes, const char **synopses);
/* Which of the `count` commands operand 0 names: its index, or -1 and ZT_EUSAGE with the names, also where
 * an option was given that does not apply to it. */
int zt_command_enter(zt_cli *cli, const void *table, size_t size, int count);

#endif
