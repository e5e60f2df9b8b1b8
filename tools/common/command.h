/* command.h - tools with several commands: the first operand selects one.
 *
 * A tool has a table of its own structs, each beginning with a zt_command; `size` is the size of one element, as
 * for qsort. The commands are the modes of the tool, in the same order, so the option table
 * defines the commands to which an option applies.
 */
#ifndef ZT_COMMAND_H
#define ZT_COMMAND_H

#include "tools/common/cli.h"

typedef struct zt_command {
    const char *name, *synopsis; /* the synopsis begins with the name */
} zt_command;

/* Fills the tool's modes [count] and synopses [count + 1] from the table, before zt_cli_open. */
void zt_command_modes(const void *table, size_t size, int count, zt_mode *modes, const char **synopses);
/* The index of the command that operand 0 names. -1 with ZT_EUSAGE: no command, an unknown command, or an option that
 * does not apply to it. */
int zt_command_enter(zt_cli *cli, const void *table, size_t size, int count);

#endif
