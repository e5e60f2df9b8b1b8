/* options.c - the options of zt-dna, of all commands. */
#include "tools/zt-dna/dna_tool.h"

/* filled by the option table, which needs constant addresses */
dna_options dna_opt = {.threshold = 0.95, .alpha = 0.5, .ratio = 0.5, .rank = 16};
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
        "alike from this overlap on (0.95); lineage: kin above it (0.5)", .fmin = -1, .fmax = 1),
    ROW(BY, 0, "by", WORD, by, "layer|block", "a row a layer (default), or a block of them", ),
    ROW(SHIFTS, 0, "shifts", FLAG, shifts, NULL, "compare: the table is of layers that moved", ),
    ROW(MAP, 0, "map", FLAG, map, NULL, "a map of types and blocks, or a tree; no table", ),
    ROW(PLOT, 0, "plot", STR, plot, "FILE.svg", "draw the overlaps as a heat map", ),
    ROW(MODE, 0, "mode", WORD, mode, "blend|point|uniform",
        "splice: numbers between A's and B's (default), or of one or the other", ),
    ROW(ALPHA, 0, "alpha", F64, alpha, "A", "B's share of a blend (default: 0.5)", .fmin = -1e6,
        .fmax = 1e6),
    ROW(RATIO, 0, "ratio", F64, ratio, "R",
        "of point: the part of a layer that is A's (default: 0.5)", .fmin = 0, .fmax = 1e6),
    ROW(FITNESS_A, 0, "fitness-a", F64, fitness_a, "X",
        "with --fitness-b: shares by how fit each is", .fmin = 0, .fmax = 1e300),
    ROW(FITNESS_B, 0, "fitness-b", F64, fitness_b, "Y", "likewise, of B", .fmin = 0, .fmax = 1e300),
    ROW(REPORT, 0, "report", STR, report, "FILE", "similarities, what was mixed, DNA, as JSON", ),
    ROW(TO, 0, "to", STR, to, "CONTAINER",
        "of the output: gguf, safetensors, npz, json ... (default: by its name)", ),
    ROW(NO_HISTORY, 0, "no-history", FLAG, no_history, NULL,
        "do not note this run in the metadata: same bytes twice", ),
    ROW(COMBINE, 0, "combine", WORD, combine, "concat|add|avg|grid_scatter",
        "graft: how outputs are joined (default: concat)", ),
    ROW(RESIDUAL, 0, "residual", FLAG, residual, NULL, "graft: and the input is added", ),
    ROW(METHOD, 0, "method", STR, method, "NAME",
        "merge: how, by mergekit's name: linear, slerp, ties, ...", ),
    ROW(CONFIG, 0, "config", STR, config, "FILE", "merge: a recipe in mergekit's YAML, or JSON", ),
    ROW(MODELS, 0, "models", STR, models, "DIR", "merge: where the recipe's models are", ),
    ROW(BASE, 0, "base", STR, base, "MODEL", "merge: the model that differences are taken to", ),
    ROW(WEIGHT, 0, "weight", LIST, weight, "W", "merge: of each model in turn, or one of all", ),
    ROW(T, 0, "t", F64, t, "X", "merge: how far from the base to the other", ),
    ROW(DENSITY, 0, "density", LIST, density, "X",
        "merge: the share of differences that is kept", ),
    ROW(GAMMA, 0, "gamma", LIST, gamma, "X", "merge: the share of the largest that is not", ),
    ROW(EPSILON, 0, "epsilon", LIST, epsilon, "X", "merge: how much chances differ by rank", ),
    ROW(LAMBDA, 0, "lambda", F64, lambda, "X", "merge: what all differences are multiplied by", ),
    ROW(SCALE, 0, "scale", LIST, scale, "X", "merge: what a model that is passed through is", ),
    ROW(PARAM, 0, "param", LIST, param, "NAME=VALUE", "merge: any parameter of mergekit's", ),
    ROW(RANK, 0, "rank", I64, rank, "R", "lora: of each matrix (default: 16)", .min = 1,
        .max = 4096),
    ROW(TYPE, 'T', "type", STR, type, "TYPE", "merge: the child's type, as zt-quant has it", ),
};
