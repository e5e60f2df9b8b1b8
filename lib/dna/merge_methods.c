/* merge_methods.c - owns the table of methods and that of parameters.
 *
 * Sources of the formulas: the papers named in the rows; where mergekit's documentation and code
 * (0.1.5, https://github.com/arcee-ai/mergekit) say what a paper leaves open (defaults, which
 * parameter holds for what, what is done at 0), they are followed, as facts. One difference: what
 * DARE and DELLA keep is scaled by 1 over the chance it had, as both papers have it; mergekit's
 * rule, the same L1 norm as before, is `rescale: true`.
 */
#include "lib/dna/merge_internal.h"

#include <float.h>
#include <string.h>

#define ANY -DBL_MAX, DBL_MAX

const merge_param_info zt_merge_params[MP_COUNT] = {
    [MP_WEIGHT] = {"weight", 'f', ANY},
    [MP_DENSITY] = {"density", 'f', 0, 1},
    [MP_GAMMA] = {"gamma", 'f', 0, 1},
    [MP_EPSILON] = {"epsilon", 'f', 0, 1},
    [MP_T] = {"t", 'f', ANY},
    [MP_LAMBDA] = {"lambda", 'f', ANY},
    [MP_SCALE] = {"scale", 'f', ANY},
    [MP_TOL] = {"tol", 'f', 0, 1},
    [MP_SELECT_TOPK] = {"select_topk", 'f', 0, 1},
    [MP_MAX_ITER] = {"max_iter", 'i', 0, 100000},
    [MP_NORMALIZE] = {"normalize", 'b', 0, 1},
    [MP_RESCALE] = {"rescale", 'r', 0, 2},
    [MP_INT8_MASK] = {"int8_mask", 'b', 0, 1},
    [MP_ROW_WISE] = {"nuslerp_row_wise", 'b', 0, 1},
    [MP_FLATTEN] = {"nuslerp_flatten", 'b', 0, 1},
    [MP_FILTER_WISE] = {"filter_wise", 'b', 0, 1},
};

/* What task vectors have in common. */
#define TASK_SHARED (MP_BIT(MP_LAMBDA) | MP_BIT(MP_NORMALIZE) | MP_BIT(MP_RESCALE) | MP_BIT(MP_INT8_MASK))
#define TASK(NAME, LINE, SOURCE, RUN, OTHERS, SPARSE, CONSENSUS, NORMALIZE, RESCALE)                                             \
    {                                                                                                                            \
        .info = {NAME, LINE, SOURCE}, .run_method = RUN, .shared = TASK_SHARED,                                                  \
        .per_other = MP_BIT(MP_WEIGHT) | MP_BIT(MP_DENSITY) | (OTHERS), .required = MP_BIT(MP_WEIGHT), .base = 2,                \
        .min_sources = 1, .sparse = SPARSE, .consensus = CONSENSUS, .normalize = NORMALIZE, .rescale = RESCALE                   \
    }

static const merge_method methods[] = {
    {.info = {"linear", "a weighted mean", "Model soups, arXiv:2203.05482"},
     .run_method = zt_merge_linear,
     .shared = MP_BIT(MP_NORMALIZE),
     .per_source = MP_BIT(MP_WEIGHT),
     .required = MP_BIT(MP_WEIGHT),
     .min_sources = 1,
     .normalize = true},
    {.info = {"slerp", "along the arc between two models", "K. Shoemake, Animating rotation with quaternion curves, 1985"},
     .run_method = zt_merge_slerp,
     .shared = MP_BIT(MP_T),
     .required = MP_BIT(MP_T),
     .base = 2,
     .min_sources = 2,
     .max_sources = 2},
    {.info = {"nuslerp",
              "the same by weights, of rows or columns if wished, of differences if there "
              "is a base",
              "mergekit docs/merge_methods.md"},
     .run_method = zt_merge_nuslerp,
     .shared = MP_BIT(MP_ROW_WISE) | MP_BIT(MP_FLATTEN),
     .per_other = MP_BIT(MP_WEIGHT),
     .required = MP_BIT(MP_WEIGHT),
     .base = 1,
     .min_sources = 1,
     .min_others = 2,
     .max_others = 2},
    TASK("task_arithmetic", "the base plus weighted differences to it", "arXiv:2212.04089", zt_merge_tasks, 0, SPARSE_NONE, false,
         false, RESCALE_NONE),
    TASK("ties", "the largest differences, those of the elected sign", "arXiv:2306.01708", zt_merge_masked, 0, SPARSE_LARGEST,
         true, true, RESCALE_NONE),
    TASK("dare_ties", "differences kept at random, those of the elected sign", "arXiv:2311.03099", zt_merge_masked, 0,
         SPARSE_RANDOM, true, false, RESCALE_DENSITY),
    TASK("dare_linear", "differences kept at random", "arXiv:2311.03099", zt_merge_masked, 0, SPARSE_RANDOM, false, false,
         RESCALE_DENSITY),
    TASK("breadcrumbs", "differences without the smallest and the outliers", "arXiv:2312.06795", zt_merge_masked,
         MP_BIT(MP_GAMMA), SPARSE_MIDDLE, false, false, RESCALE_NONE),
    TASK("breadcrumbs_ties", "the same, those of the elected sign", "arXiv:2312.06795", zt_merge_masked, MP_BIT(MP_GAMMA),
         SPARSE_MIDDLE, true, false, RESCALE_NONE),
    TASK("della", "differences kept at random, large ones with more chance, of the elected sign", "arXiv:2406.11617",
         zt_merge_masked, MP_BIT(MP_EPSILON), SPARSE_RANKED, true, true, RESCALE_DENSITY),
    TASK("della_linear", "the same, of any sign", "arXiv:2406.11617", zt_merge_masked, MP_BIT(MP_EPSILON), SPARSE_RANKED, false,
         false, RESCALE_DENSITY),
    {.info = {"model_stock", "from the base to the mean, as far as the angles say", "arXiv:2403.19522"},
     .run_method = zt_merge_stock,
     .shared = MP_BIT(MP_FILTER_WISE),
     .base = 2,
     .min_sources = 3},
    {.info = {"nearswap", "the base, moved by at most t towards the other model",
              "huggingface.co/alchemonaut/QuartetAnemoi-70B-t0.0001"},
     .run_method = zt_merge_nearswap,
     .shared = MP_BIT(MP_T),
     .required = MP_BIT(MP_T),
     .base = 2,
     .min_sources = 2,
     .max_sources = 2},
    {.info = {"karcher", "the mean on the sphere", "H. Karcher, 1977; arXiv:2603.04972"},
     .run_method = zt_merge_karcher,
     .shared = MP_BIT(MP_MAX_ITER) | MP_BIT(MP_TOL),
     .min_sources = 1},
    {.info = {"sce", "differences that vary most, weighed by their squares, of the elected sign", "arXiv:2408.07990"},
     .run_method = zt_merge_sce,
     .shared = MP_BIT(MP_SELECT_TOPK) | MP_BIT(MP_INT8_MASK),
     .base = 2,
     .min_sources = 1},
    {.info = {"passthrough", "one model's tensors; slices stack layers", "mergekit docs/merge_methods.md"},
     .run_method = zt_merge_scale,
     .per_source = MP_BIT(MP_SCALE),
     .min_sources = 1,
     .max_sources = 1},
};

enum { N_METHODS = sizeof methods / sizeof *methods };

const zt_merge_method *zt_merge_method_at(int index) { return index >= 0 && index < N_METHODS ? &methods[index].info : NULL; }

const merge_method *zt_merge_method_find(const char *name)
{
    for (int i = 0; i < N_METHODS; i++)
        if (!strcmp(methods[i].info.name, name)) return &methods[i];
    return NULL;
}
