/* options.c - the options of zt-dna, of all commands. */
#include "tools/zt-dna/dna_tool.h"

dna_options dna_opt; /* filled by the option table, which needs constant addresses */
bool dna_given[DNA_N_OPTIONS];

#define ROW(id, c, n, k, field, a, h, ...)                                                         \
    [DNA_##id] = {.letter = c,                                                                     \
                  .name = n,                                                                       \
                  .kind = ZT_OPT_##k,                                                              \
                  .value = &dna_opt.field,                                                         \
                  .arg = a,                                                                        \
                  .help = h,                                                                       \
                  .given = &dna_given[DNA_##id],                                                   \
                  __VA_ARGS__}

const zt_opt dna_option_table[DNA_N_OPTIONS + 1] = {
    ROW(SELECT, 0, "select", LIST, select, "GLOB",
        "only layers whose names match; may be given many times", ),
};
