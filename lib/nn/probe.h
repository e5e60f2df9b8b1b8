/* probe.h - what layers tensors of unknown names may be, by their shapes and sizes: S3's universal
 * loader.
 *
 *     zt_nn_probe *p = zt_nn_probe_of(ctx, checkpoint, hints, n_hints);
 *     for (int64_t i = 0; i < zt_nn_probe_count(p); i++) ... zt_nn_probe_at(p, i)->type ...
 *     zt_nn_probe_free(p);
 *
 * Tensors are numbered by their names' order. Found first are those that have the names which
 * Hugging Face's and Meta's language models have, whatever stands before: layers.N. or h.N. with
 * input_layernorm or ln_1, self_attn.q_proj (k v o) or attention.wq, post_attention_layernorm or
 * ln_2, mlp.gate_proj (up down) or feed_forward.w1 (w3 w2); embed_tokens, norm, lm_head. Then
 * groups: four squares of one size (attention), two of four times as many rows as columns (LSTM),
 * two of one shape and one of it turned (SwiGLU), vectors of one length (norms); then what is left,
 * one by one, by rank. Which of a group is which, words in their
 * names tell (q_proj, gate, ih), else their order.
 */
#ifndef ZT_NN_PROBE_H
#define ZT_NN_PROBE_H

#include "lib/io/checkpoint.h"
#include "lib/nn/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_nn_geometry {
    const char *name; /* NULL: none */
    zt_type type;
    float mean_abs, variance; /* of magnitudes: mean, and mean of squares less its square */
} zt_nn_geometry;

typedef struct zt_nn_role {
    const char
        *name; /* "w" "b"; "q" "k" "v" "o" "qb"...; "g" "u" "d"; "ih" "hh"; "s" "b" "stat_5" */
    int64_t tensor;
} zt_nn_role;

typedef struct zt_nn_metric {
    const char *name; /* "in" "out"; "d"; "h" "i"; "f" "c" "k"; "v" */
    int64_t value;
} zt_nn_metric;

typedef struct zt_nn_archetype {
    zt_nn_kind kind;
    const char *type; /* "Dense Linear": S3's words; "SwiGLU by name" */
    bool named;       /* its tensors' names tell it, and it stands at its place: */
    int64_t block;    /* of a model's blocks; -1: before or behind them */
    int slot;         /* in the block: norm, attention, norm, gated layer */
    bool residual;    /* what the block's next layer makes of it is added to what came in */
    int64_t n_roles, n_metrics;
    const zt_nn_role *role;
    zt_nn_metric metric[3];
} zt_nn_archetype;

/* Tensor `index` is a layer of this kind, alone. */
typedef struct zt_nn_hint {
    int64_t index;
    zt_nn_kind kind;
} zt_nn_hint;

typedef struct zt_nn_probe zt_nn_probe;

/* Of geometries that are known. Borrows them. */
zt_nn_probe *zt_nn_probe_new(zt_ctx *ctx, const zt_nn_geometry *g, int64_t n,
                             const zt_nn_hint *hints, int n_hints);
/* Of a file: its tensors are read, and measured. ZT_EUSAGE for a hint of no tensor; ZT_ENOTSUP for
 * more tensors than 16384. */
zt_nn_probe *zt_nn_probe_of(zt_ctx *ctx, zt_checkpoint *c, const zt_nn_hint *hints, int n_hints);
void zt_nn_probe_free(zt_nn_probe *p); /* NULL: nothing */

/* The layers that were found, in their order, and the tensors among which they were found. Pointers
 * live as long as p; NULL: out of range. */
int64_t zt_nn_probe_count(const zt_nn_probe *p); /* layers */
const zt_nn_archetype *zt_nn_probe_at(const zt_nn_probe *p, int64_t i); /* layer i */
int64_t zt_nn_probe_tensors(const zt_nn_probe *p); /* tensors */
const zt_nn_geometry *zt_nn_probe_tensor(const zt_nn_probe *p, int64_t i); /* tensor i */
/* Does a layer that was found have the tensor of this number? */
bool zt_nn_probe_matched(const zt_nn_probe *p, int64_t tensor);

/* Tensors that a network of these would not have: what is unmatched, what is no layer, what a layer
 * has no place for (a bias of Dense), and, where names tell a model, what shapes say of the rest. */
int64_t zt_nn_probe_left(const zt_nn_probe *p);
int64_t zt_nn_layer_left(const zt_nn_archetype *a); /* of one layer: what it has no place for */

/* What no tensor tells; 0: not told either. */
typedef struct zt_nn_overrides {
    int64_t heads;    /* of attention; else of 64 numbers each where that goes, else one */
    double rope_base; /* of attention that names tell; else 10000 */
    double eps;       /* of norms that names tell; else theirs */
} zt_nn_overrides;

/* The same from a model's config.json: num_attention_heads, rope_theta (also in rope_parameters),
 * rms_norm_eps or layer_norm_eps. */
zt_status zt_nn_overrides_read(zt_ctx *ctx, const char *path, zt_nn_overrides *told);

/* ---- how layers stand ------------------------------------------------------------------------ */

typedef enum zt_nn_layout_kind {
    ZT_NN_LAYOUT_LAYER,
    ZT_NN_LAYOUT_SEQUENTIAL,
    ZT_NN_LAYOUT_PARALLEL,
    ZT_NN_LAYOUT_RESIDUAL /* x + inner(x) */
} zt_nn_layout_kind;

/* A list of layers and of what contains others. */
typedef struct zt_nn_layout {
    zt_nn_layout_kind kind;
    int64_t layer;       /* of a layer: its number among what was found */
    const char *combine; /* of Parallel */
    struct zt_nn_layout *inner, *next;
} zt_nn_layout;

/* From text: "3, 1, parallel:add(0, residual(4, 5))", each number or name that of a tensor of the
 * layer. ZT_EUSAGE: it is none such, or a layer stands twice. */
zt_nn_layout *zt_nn_layout_parse(zt_ctx *ctx, const zt_nn_probe *p, const char *text);
/* One after the other, as they were found. NULL: no layer, or no memory. */
zt_nn_layout *zt_nn_layout_found(zt_ctx *ctx, const zt_nn_probe *p);
void zt_nn_layout_free(zt_ctx *ctx, zt_nn_layout *l); /* and all within it. NULL: nothing */
/* Does the layout have the layer of this number, at any depth? */
bool zt_nn_layout_has(const zt_nn_layout *l, int64_t layer);
/* Does each take as many numbers as the one before gives, as far as shapes tell? ZT_EDATA, naming
 * both layers and widths. Layers that names tell are taken to chain. */
zt_status zt_nn_layout_check(zt_ctx *ctx, const zt_nn_probe *p, const zt_nn_layout *l,
                             const char *file);
/* Becomes a layer of a network: where names tell a model, what shapes say of the rest does not. */
bool zt_nn_mounts(const zt_nn_probe *p, const zt_nn_archetype *a);
/* A network of the layers of the layout, as they stand in it; else as zt_nn_mount. */
zt_nn *zt_nn_mount_as(zt_ctx *ctx, const zt_nn_probe *p, zt_checkpoint *c, const zt_nn_overrides *told,
                      const zt_nn_layout *layout);

/* A network of what was found in `c`, a layer each, one after the other, with its tensors as f32
 * masters; a block's norm and what follows it make one layer, x + layer(norm(x)). What a layer has
 * no place for (a bias of Dense, statistics) is left. `told` NULL: nothing. */
zt_nn *zt_nn_mount(zt_ctx *ctx, const zt_nn_probe *p, zt_checkpoint *c, const zt_nn_overrides *told);

#ifdef __cplusplus
}
#endif
#endif
