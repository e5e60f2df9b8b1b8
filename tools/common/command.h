/* command.h - tools of several commands: the first operand names one.
 *
 * A tool has a table of its own structs, each beginning with a
 * zt_command; `size` is that of one, as qsort has it.
 */
#ifndef ZT_COMMAND_H
#define ZT_COMMAND_H

#include "tools/common/cli.h"

typedef struct zt_command {
    const char *name, *synopsis; /* the synopsis begins with the name */
    uint64_t takes;              /* bit i: row i of the tool's option table goes with it */
} zt_command;

/* Which of the n commands operand 0 names: its index, or -1 and ZT_EUSAGE with the names. */
int zt_command_find(zt_cli *cli, const void *table, size_t size, int n);
/* Every option given goes with it, or ZT_EUSAGE. */
zt_status zt_command_check(zt_cli *cli, const zt_command *c);

#endif
