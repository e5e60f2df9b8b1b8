/* options.c - the options of zt-dna, of all commands. */
#include "tools/zt-dna/dna_tool.h"

dna_options dna_opt = {.threshold =
                           0.95}; /* filled by the option table, which needs constant addresses */
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
    ROW(RULE, 0, "rule", WORD, rule, "field|loom",
        "how weights are taken at their precision (default: field)", ),
    ROW(THRESHOLD, 0, "threshold", F64, threshold, "X",
        "alike from this overlap on: exit 0, else 1 (default: 0.95)", .fmin = -1, .fmax = 1),
    ROW(BY, 0, "by", WORD, by, "layer|block", "a row a layer (default), or a block of them", ),
    ROW(SHIFTS, 0, "shifts", FLAG, shifts, NULL, "compare: the table is of layers that moved", ),
    ROW(MAP, 0, "map", FLAG, map, NULL, "compare: a map of types and blocks, not a table", ),
};
