/* options.c - the options of zt-dna, of all commands. */
#include "tools/zt-dna/dna_tool.h"

/* filled by the option table, which needs constant addresses */
dna_options dna_opt = {.threshold = 0.95, .alpha = 0.5, .ratio = 0.5, .rank = 16};

#define IN(command) ZT_IN(DNA_##command)
#define MIXES       (IN(SPLICE) | IN(MERGE) | IN(GRAFT) | IN(LORA)) /* another model is written */
#define TABLES      (IN(LAYERS) | IN(COMPARE) | IN(LINEAGE))

/* letter, name, kind, field, the commands it applies to, the argument's name, help; then what else a
 * row has */
#define ROW(c, n, k, field, in, a, h, ...)                                                                                       \
    {                                                                                                                            \
        .letter = c, .name = n, .kind = ZT_OPT_##k, .value = &dna_opt.field, .modes = in, .arg = a, .help = h, __VA_ARGS__       \
    }

const zt_opt dna_option_table[] = {
    ROW(0, "select", LIST, select, TABLES | IN(GRAFT), "GLOB",
        "only layers whose names match, of graft also types; many times", ),
    ROW(0, "rule", WORD, rule, IN(EXTRACT) | IN(COMPARE) | IN(LINEAGE) | IN(SPLICE), "field|loom",
        "how weights are taken at their precision", ),
    ROW(0, "threshold", F64, threshold, IN(COMPARE) | IN(LINEAGE), "X", "overlap from which models are alike; lineage: related",
        .fmin = -1, .fmax = 1, .otherwise = "0.95; lineage: 0.5"),
    ROW(0, "by", WORD, by, IN(COMPARE), "layer|block", "a row a layer, or a block of them", ),
    ROW(0, "shifts", FLAG, shifts, IN(COMPARE), NULL, "compare: the table is of layers that moved", .excludes = "map"),
    ROW(0, "map", FLAG, map, IN(COMPARE) | IN(LINEAGE), NULL, "a map of types and blocks, or a tree; no table", ),
    ROW(0, "plot", STR, plot, IN(COMPARE) | IN(LINEAGE), "FILE.svg", "draw the overlaps as a heat map", ),
    ROW(0, "mode", WORD, mode, IN(SPLICE), "blend|point|uniform",
        "splice: numbers between A's and B's, or of one or the other", ),
    ROW(0, "alpha", F64, alpha, IN(SPLICE), "A", "B's share of a blend", .fmin = -1e6, .fmax = 1e6),
    ROW(0, "ratio", F64, ratio, IN(SPLICE), "R", "of point: the part of a layer that is A's", .fmin = 0, .fmax = 1e6),
    ROW(0, "fitness-a", F64, fitness_a, IN(SPLICE), "X", "with --fitness-b: shares by how fit each is", .fmin = 0, .fmax = 1e300,
        .needs = "fitness-b", .otherwise = "none"),
    ROW(0, "fitness-b", F64, fitness_b, IN(SPLICE), "Y", "likewise, of B", .fmin = 0, .fmax = 1e300, .needs = "fitness-a",
        .otherwise = "none"),
    ROW(0, "report", STR, report, IN(SPLICE), "FILE", "similarities, what was mixed, DNA, as JSON", ),
    ROW(0, "to", STR, to, IN(EXTRACT) | IN(SPLICE) | IN(MERGE) | IN(GRAFT), "CONTAINER",
        "of the output: gguf, safetensors, npz, json ...", .otherwise = "by its name"),
    ROW(0, "no-history", FLAG, no_history, IN(SPLICE) | IN(GRAFT), NULL,
        "do not note this run in the metadata: same bytes twice", ),
    ROW(0, "combine", WORD, combine, IN(GRAFT), "concat|add|avg|grid_scatter|filter", "graft: how outputs are joined", ),
    ROW(0, "gate", STR, gate, IN(GRAFT), "NET", "filter: a network that gives a number a branch", .otherwise = "equal"),
    ROW(0, "residual", FLAG, residual, IN(GRAFT), NULL, "graft: and the input is added", ),
    ROW(0, "method", STR, method, IN(MERGE), "NAME", "merge: how, by mergekit's name: linear, slerp, ties, ...", ),
    ROW(0, "config", STR, config, IN(MERGE), "FILE", "merge: a recipe in mergekit's YAML, or JSON",
        .excludes = "method|base|weight|t|density|gamma|epsilon|scale|lambda|param"),
    ROW(0, "models", STR, models, IN(MERGE), "DIR", "merge: where the recipe's models are", ),
    ROW(0, "base", STR, base, IN(MERGE), "MODEL", "merge: the model that differences are taken to", ),
    ROW(0, "weight", LIST, weight, IN(MERGE), "W", "merge: of each model in turn, or one of all", .otherwise = "1"),
    ROW(0, "t", F64, t, IN(MERGE), "X", "merge: how far from the base to the other", .otherwise = "0.5"),
    ROW(0, "density", LIST, density, IN(MERGE), "X", "merge: fraction of deltas that is kept", .otherwise = "the method's"),
    ROW(0, "gamma", LIST, gamma, IN(MERGE), "X", "merge: fraction of largest deltas discarded", .otherwise = "the method's"),
    ROW(0, "epsilon", LIST, epsilon, IN(MERGE), "X", "merge: spread of keep probabilities", .otherwise = "the method's"),
    ROW(0, "lambda", F64, lambda, IN(MERGE), "X", "merge: factor of the merged deltas", .otherwise = "1"),
    ROW(0, "scale", LIST, scale, IN(MERGE), "X", "merge: passthrough: scale weights by X", .otherwise = "1"),
    ROW(0, "param", LIST, param, IN(MERGE), "NAME=VALUE", "merge: any parameter of mergekit's", ),
    ROW(0, "rank", I64, rank, IN(LORA), "R", "lora: of each matrix", .min = 1, .max = 4096),
    ROW('T', "type", STR, type, IN(MERGE), "TYPE", "merge: the child's type, as zt-quant has it", ),
    {0}};

const zt_shared_opt dna_shared_options[] = {{"output", IN(EXTRACT) | MIXES, NULL},
                                            {"force", ~IN(LAYERS), "output|plot|report"},
                                            {"threads", IN(COMPARE) | IN(LINEAGE) | IN(SPLICE) | IN(MERGE) | IN(LORA), NULL},
                                            {"seed", IN(SPLICE) | IN(MERGE) | IN(LORA), NULL},
                                            {"format", TABLES, NULL},
                                            {"color", TABLES, NULL},
                                            {"progress", ~(IN(LAYERS) | IN(GRAFT)), NULL},
                                            {0}};
