/* mutate.h - mutation of networks, as in NEAT (Stanley and Miikkulainen, 2002), with the mutations and the default rates
 * of openfluke/loom's package poly (documented behaviour, as facts).
 *
 *     zt_nn *child = zt_nn_open(ctx, "parent.json", 0);
 *     zt_nn_mutation how = zt_nn_mutation_defaults();
 *     how.seed = 7;
 *     zt_status status = zt_nn_mutate(child, &how, NULL);    // then zt_nn_write
 *
 * For each layer of the grid, in the order in which they run, and then once for the network:
 *
 *     perturb      add noise to weights of the layer and of the layers inside it, or draw them anew
 *     activation   draw an activation from all of them; of layers that have one
 *     kind         replace the layer by another kind of equal input and output sizes, with new weights
 *     toggle       disable the layer, or enable it
 *     link_add     make a layer a link to another place of the grid, where as many numbers come out
 *     link_drop    make a link an ordinary layer
 *
 * A replacement or toggle after which the network cannot be lowered, or has another number of inputs or outputs, is
 * undone. So the child always runs where its parent runs. Each draw depends on the seed, the layer and the mutation only.
 */
#ifndef ZT_NN_MUTATE_H
#define ZT_NN_MUTATE_H

#include "lib/nn/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zt_nn_noise { ZT_NN_NOISE_UNIFORM, ZT_NN_NOISE_NORMAL, ZT_NN_NOISE_CAUCHY } zt_nn_noise;
/* Noise of scale 1 at a position of a sequence of zt_philox: in [-1, 1), of standard deviation 1, or of Cauchy's distribution,
 * which has no deviation and whose half is in [-1, 1]. */
double zt_nn_noise_at(zt_nn_noise noise, uint64_t seed, uint64_t sequence, uint64_t position);

typedef struct zt_nn_mutation {
    double perturb_rate;  /* rates are probabilities, 0 to 1 */
    double perturb_scale; /* uniform: noise in [-scale, scale); normal: its standard deviation; cauchy: its scale */
    zt_nn_noise noise;    /* distribution of the noise */
    double weight_rate;   /* probability that a weight of a perturbed layer gets noise */
    double replace_rate;  /* probability that a weight of a perturbed layer is drawn anew, like one of a new layer */
    double activation_rate, kind_rate, toggle_rate, link_add_rate, link_drop_rate;
    uint32_t kinds; /* bit 1 << zt_nn_kind: the kinds that replace a layer */
    uint64_t seed;
} zt_nn_mutation;

/* Loom's rates: perturb 0.8 with scale 0.05 for each weight, none replaced, activation 0.1, kind 0.1, toggle 0.02, link_add 0.05, link_drop 0.02; all kinds
 * but Parallel and Sequential; seed 0. */
zt_nn_mutation zt_nn_mutation_defaults(void);

/* The sizes that a new layer of `width` inputs has, as Loom's configuration: they are reduced where they do not fit. */
typedef struct zt_nn_new_sizes {
    int64_t heads, filters, kernel_size, vocab_size;
} zt_nn_new_sizes;
/* Of a width of at least 1: 4 heads (below a width of 4: 1), width / 4 filters (at least 1), kernels of 3, 256 ids. */
zt_nn_new_sizes zt_nn_new_sizes_of(int64_t width);

typedef struct zt_nn_mutated { /* how often each mutation was applied */
    int64_t perturbed, activations, kinds, toggles, links_added, links_dropped;
    int64_t undone; /* replacements and toggles that did not fit */
} zt_nn_mutated;

/* Mutates a network in place. counts NULL: not wanted. Pointers to weights and layers inside others are invalid after it.
 * ZT_EUSAGE: a rate outside [0, 1], a scale that is negative or not finite. The parent's own error where it cannot be
 * lowered. After a failure only zt_nn_close is allowed. */
zt_status zt_nn_mutate(zt_nn *network, const zt_nn_mutation *how, zt_nn_mutated *counts);

#ifdef __cplusplus
}
#endif
#endif
