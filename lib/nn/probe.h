/* probe.h - guesses which layers the tensors of a checkpoint belong to, from names, shapes and magnitudes: Loom's universal
 * loader.
 *
 *     zt_nn_probe *p = zt_nn_probe_of(ctx, checkpoint, hints, n_hints);
 *     for (int64_t i = 0; i < zt_nn_probe_count(p); i++) ... zt_nn_probe_at(p, i)->type ...
 *     zt_nn_probe_free(p);
 *
 * Tensors are numbered in the order of their names. Layers are searched for in three passes:
 *
 *     1. names of language models    layers.N. or h.N. with input_layernorm, ln_1, self_attn.q_proj (k v o), attention.wq,
 *        (Hugging Face, Meta), with  post_attention_layernorm, ln_2, mlp.gate_proj (up down), feed_forward.w1 (w3 w2);
 *        any prefix                  embed_tokens, norm, lm_head
 *     2. groups of equal sizes       four square matrices                                    attention
 *                                    two matrices with four times as many rows as columns    LSTM
 *                                    two matrices of one shape, one of the transposed        SwiGLU
 *                                    vectors of one length                                   a norm
 *     3. single tensors              by rank
 *
 * The role of a tensor within a group follows from words in its name (q_proj, gate, ih), else from the order.
 */
#ifndef ZT_NN_PROBE_H
#define ZT_NN_PROBE_H

#include "lib/io/checkpoint.h"
#include "lib/nn/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_nn_geometry {
    const char *name; /* NULL: unknown */
    zt_type type;
    float mean_abs, variance; /* mean of |x|; mean of x^2 minus the square of the mean of |x| */
} zt_nn_geometry;

typedef struct zt_nn_role {
    const char *name; /* "w" "b"; "q" "k" "v" "o" "qb"...; "g" "u" "d"; "ih" "hh"; "s" "b" "stat_5" */
    int64_t tensor;
} zt_nn_role;

typedef struct zt_nn_metric {
    const char *name; /* "in" "out"; "d"; "h" "i"; "f" "c" "k"; "v" */
    int64_t value;
} zt_nn_metric;

typedef struct zt_nn_archetype {
    zt_nn_kind kind;
    const char *type; /* Loom's description: "Dense Linear"; "SwiGLU by name" */
    bool named;       /* found by its tensors' names, which also give its place: */
    int64_t block;    /* block of the model; -1: before or behind the blocks */
    int slot;         /* place in the block: 0 norm, 1 attention, 2 norm, 3 gated layer */
    bool residual;    /* x + next(this(x)): this norm and the block's next layer form a residual block */
    int64_t role_count, metric_count;
    const zt_nn_role *roles;
    zt_nn_metric metrics[3];
} zt_nn_archetype;

/* Tensor `index` by itself is a layer of this kind. */
typedef struct zt_nn_hint {
    int64_t index;
    zt_nn_kind kind;
} zt_nn_hint;

typedef struct zt_nn_probe zt_nn_probe;

/* Probes known geometries, which are borrowed. */
zt_nn_probe *zt_nn_probe_new(zt_ctx *ctx, const zt_nn_geometry *geometries, int64_t tensor_count, const zt_nn_hint *hints,
                             int n_hints);
/* Probes a file: its tensors are read and measured. ZT_EUSAGE: a hint for a tensor that does not exist; ZT_ENOTSUP: more
 * than 16384 tensors. */
zt_nn_probe *zt_nn_probe_of(zt_ctx *ctx, zt_checkpoint *checkpoint, const zt_nn_hint *hints, int n_hints);
void zt_nn_probe_free(zt_nn_probe *probe); /* NULL: no effect */

/* The layers found, in their order, and the tensors searched. Pointers live as long as the probe; NULL: out of range. */
int64_t zt_nn_probe_count(const zt_nn_probe *probe);                               /* layers */
const zt_nn_archetype *zt_nn_probe_at(const zt_nn_probe *probe, int64_t index);    /* layer i */
int64_t zt_nn_probe_tensors(const zt_nn_probe *probe);                             /* tensors */
const zt_nn_geometry *zt_nn_probe_tensor(const zt_nn_probe *probe, int64_t index); /* tensor i */
/* Does one of the layers found have this tensor? */
bool zt_nn_probe_matched(const zt_nn_probe *probe, int64_t tensor);

/* The number of tensors that a network of these layers would not have: unmatched tensors, those of archetypes that are not
 * layers, those that their layer has no place for (a bias of Dense) and, where layers were found by name, those of layers
 * that were found by shape. */
int64_t zt_nn_probe_left(const zt_nn_probe *probe);
int64_t zt_nn_layer_left(const zt_nn_archetype *archetype); /* of one layer: tensors that it has no place for */

/* Numbers that cannot be derived from tensors; 0: not given. */
typedef struct zt_nn_overrides {
    int64_t heads;    /* of attention; default: heads of 64 columns where that divides evenly, else one head */
    double rope_base; /* of attention found by name; default 10000 */
    double eps;       /* of norms found by name; default the layer's own */
} zt_nn_overrides;

/* Reads them from a model's config.json: num_attention_heads, rope_theta (also in rope_parameters),
 * rms_norm_eps or layer_norm_eps. */
zt_status zt_nn_overrides_read(zt_ctx *ctx, const char *path, zt_nn_overrides *overrides);

/* ---- layouts: the order of layers, and layers inside others ----------------------------------- */

typedef enum zt_nn_layout_kind {
    ZT_NN_LAYOUT_LAYER,
    ZT_NN_LAYOUT_SEQUENTIAL,
    ZT_NN_LAYOUT_PARALLEL,
    ZT_NN_LAYOUT_RESIDUAL /* x + inner(x) */
} zt_nn_layout_kind;

/* A list of layers and containers. */
typedef struct zt_nn_layout {
    zt_nn_layout_kind kind;
    int64_t layer;       /* ZT_NN_LAYOUT_LAYER: index of the layer found */
    const char *combine; /* of ZT_NN_LAYOUT_PARALLEL */
    struct zt_nn_layout *inner, *next;
} zt_nn_layout;

/* Parses "3, 1, parallel:add(0, residual(4, 5))", where each number or name is that of a tensor of the layer. NULL with
 * ZT_EUSAGE: a syntax error, no such tensor, or a layer twice. */
zt_nn_layout *zt_nn_layout_parse(zt_ctx *ctx, const zt_nn_probe *probe, const char *text);
/* All layers in the order in which they were found. NULL: no layer, or no memory. */
zt_nn_layout *zt_nn_layout_found(zt_ctx *ctx, const zt_nn_probe *probe);
void zt_nn_layout_free(zt_ctx *ctx, zt_nn_layout *layout); /* with all inside it. NULL: no effect */
/* Does the layout have the layer, at any depth? */
bool zt_nn_layout_has(const zt_nn_layout *layout, int64_t layer);
/* Checks that the output width of each layer is the input width of the next, as far as shapes determine them. ZT_EDATA: the
 * message names both layers and widths. Layers found by name are not checked. */
zt_status zt_nn_layout_check(zt_ctx *ctx, const zt_nn_probe *probe, const zt_nn_layout *layout, const char *file);
/* Does the archetype become a layer of a network? Where layers were found by name, those found by shape do not. */
bool zt_nn_mounts(const zt_nn_probe *probe, const zt_nn_archetype *archetype);
/* zt_nn_mount with the layers of a layout, in its order and nesting. */
zt_nn *zt_nn_mount_as(zt_ctx *ctx, const zt_nn_probe *probe, zt_checkpoint *checkpoint, const zt_nn_overrides *overrides,
                      const zt_nn_layout *layout);

/* A network of the layers found in a checkpoint, one after the other, with its tensors as f32 masters. A block's norm and
 * the layer behind it become one layer, x + layer(norm(x)). Tensors without a place (a bias of Dense, statistics) are left
 * out. overrides NULL: defaults. */
zt_nn *zt_nn_mount(zt_ctx *ctx, const zt_nn_probe *probe, zt_checkpoint *checkpoint, const zt_nn_overrides *overrides);

#ifdef __cplusplus
}
#endif
#endif
