/* options.c - the options of zt-trace, of all commands. */
#include "tools/zt-trace/trace.h"

/* Filled by the rows of options.def, which need constant addresses. */
trace_options trace_opt = {
#define DEFAULT ZT_OPTION_DEFAULT
#include "tools/zt-trace/options.def"
};

#define IN(command) ZT_IN(TRACE_##command)
#define SUBJECT     (IN(STATS) | IN(CHROME) | IN(MEMORY) | IN(DIFF) | IN(COMPILE)) /* bound, and run */
#define ENGINE      (SUBJECT | IN(RECORD))

const zt_opt trace_option_table[] = {
#define OPTION(kind, field, ...) ZT_OPTION_ROW(ZT_OPT_##kind, trace_opt.field, __VA_ARGS__)
#define OPTION_AT                OPTION
#include "tools/zt-trace/options.def"
    {0}};

// clang-format off
const zt_shared_opt trace_shared_options[] = {
    {"output", 0, NULL},
    {"force", 0, "output|values|times"},
    {"threads", ENGINE, NULL},
    {"engine", ENGINE, NULL},
    {"strict-engine", ENGINE, NULL},
    {"isa", ENGINE, NULL},
    {"compute", ENGINE & ~IN(DIFF), NULL},
    {"tile", ENGINE, NULL},
    {"seed", SUBJECT & ~IN(MEMORY), NULL},
    {"format", IN(SHOW) | IN(STATS) | IN(MEMORY) | IN(DIFF), NULL},
    {"color", IN(STATS) | IN(DIFF), NULL},
    {0}};
// clang-format on
