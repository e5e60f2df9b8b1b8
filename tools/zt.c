/* zt.c - the one program that holds all tools: the name it is called by says which runs.
 *
 * The tools are links to it, so that the library, whose kernels are most of its size, is on the
 * disk once. mk/tools.mk renames main of zt-NAME to zt_NAME_main, and hides all other names of a
 * tool.
 */
#include "tools/common/commit.h"

#include <stdio.h>
#include <string.h>

const char zt_commit[] = ZT_COMMIT; /* of mk/tools.mk */

#define TOOLS(X) X(bench) X(convert) X(dna) X(quant) X(run) X(trace) X(train)

enum { EXIT_USAGE = 64 }; /* as zt_exit_code has it */

#define DECLARE(name) int zt_##name##_main(int argc, char **argv);
TOOLS(DECLARE)

int main(int argc, char **argv)
{
    const char *called = argc > 0 ? argv[0] : "zt";
    const char *slash = strrchr(called, '/'), *tool = slash ? slash + 1 : called;
#define RUN(name)                                                                                                                \
    if (strcmp(tool, "zt-" #name) == 0) return zt_##name##_main(argc, argv);
    TOOLS(RUN)
#define LIST(name) " zt-" #name
    fprintf(stderr, "zt: unknown tool '%s': expected one of:%s\n", tool, TOOLS(LIST));
    return EXIT_USAGE;
}
