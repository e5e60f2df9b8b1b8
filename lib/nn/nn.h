/* nn.h - volumetric networks: grids of layers, opened from JSON, lowered to one program.
 *
 *     zt_nn *nn = zt_nn_open(ctx, "net.json", 0);
 *     zt_prog *p = zt_nn_prog(nn, NULL);                  // in x: f32[n,...], out y
 *     zt_store s = zt_nn_store(nn);                       // its data, by their names
 *     zt_session *run = zt_session_open(engine, p, &s, &(zt_session_opts){0});
 *     zt_session_step(run, &(zt_binding){"n", rows}, 1, in, out);
 *
 * A grid has depth x rows x cols cells (z, y, x) of layers_per_cell layers (l). They run in the
 * order of (z, y, x, l), each on what the one before gave; what is disabled, or not named by the
 * document, passes its input on. A layer is a row of a const table: its numbers, the shapes of its
 * weights, and a function that writes it as ops. So engines, gradients and traces come from these.
 *
 * A value is n rows of what the first layer takes: x[n,...]. Where a layer wants another shape of
 * as many numbers a row, it takes that; what layers do with a row depends on that row alone, but
 * for attention on two dimensions [n,d], whose rows are one sequence.
 *
 * Layers within layers: `branch`es of Parallel run on the same input, `step`s of Sequential one
 * after the other; a link among them runs the layer at its target, with the target's weights, on
 * the link's own input. Links in a circle are refused.
 *
 * Weights are f32 masters, row-major, [out][in]; a program computes with what the layer's dtype
 * makes of them. The JSON is that of openfluke/loom's package poly (lib/io/netjson.h): a
 * specification, whose weights are drawn from a seed, or a network with its weights. Members of
 * ours, which the original does not keep: is_disabled, is_remote_link with target_z target_y
 * target_x target_l, mask, hierarchy_levels, filter_gate, max_seq_len, eps.
 */
#ifndef ZT_NN_H
#define ZT_NN_H

#include "lib/prog/prog.h"
#include "lib/tensor/storage.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_nn zt_nn;
typedef struct zt_nn_layer zt_nn_layer;

/* ---- names ----------------------------------------------------------------------------------- */

/* Loom's numbers. */
typedef enum zt_nn_kind {
    ZT_NN_DENSE,
    ZT_NN_MHA,
    ZT_NN_SWIGLU,
    ZT_NN_RMSNORM,
    ZT_NN_CNN1,
    ZT_NN_CNN2,
    ZT_NN_CNN3,
    ZT_NN_RNN,
    ZT_NN_LSTM,
    ZT_NN_LAYERNORM,
    ZT_NN_CONVT1,
    ZT_NN_CONVT2,
    ZT_NN_CONVT3,
    ZT_NN_EMBEDDING,
    ZT_NN_KMEANS,
    ZT_NN_SOFTMAX,
    ZT_NN_PARALLEL,
    ZT_NN_SEQUENTIAL,
    ZT_NN_RESIDUAL,
    ZT_NN_KINDS
} zt_nn_kind;

typedef enum zt_nn_act {
    ZT_NN_LINEAR = -1,
    ZT_NN_RELU,
    ZT_NN_SILU,
    ZT_NN_GELU, /* its tanh form */
    ZT_NN_TANH,
    ZT_NN_SIGMOID,
    ZT_NN_ACTS
} zt_nn_act;

typedef enum zt_nn_softmax {
    ZT_NN_STANDARD,
    ZT_NN_GRID,
    ZT_NN_HIERARCHICAL,
    ZT_NN_TEMPERATURE,
    ZT_NN_GUMBEL,
    ZT_NN_MASKED,
    ZT_NN_SPARSE,
    ZT_NN_ADAPTIVE,
    ZT_NN_MIXTURE,
    ZT_NN_ENTMAX,
    ZT_NN_SOFTMAXES
} zt_nn_softmax;

/* Names as Loom writes them: "Dense", "relu", "Standard"; static. NULL: none of that number. */
const char *zt_nn_kind_name(zt_nn_kind k);
const char *zt_nn_act_name(zt_nn_act a);         /* the same */
const char *zt_nn_softmax_name(zt_nn_softmax s); /* the same */
/* In any case of letters, softmax types in theirs; false: no such name, and *out is what the
 * original takes such for: Dense, Linear, float32, Standard. */
bool zt_nn_kind_parse(const char *name, zt_nn_kind *out);
bool zt_nn_act_parse(const char *name, zt_nn_act *out);         /* the same */
bool zt_nn_softmax_parse(const char *name, zt_nn_softmax *out); /* the same */
bool zt_nn_dtype_parse(const char *name, zt_storage *out);      /* the same */

/* ---- layers ---------------------------------------------------------------------------------- */

/* Numbers of a layer, by the names of their members in the document; 0 where it has none. */
#define ZT_NN_INTS(K)                                                                              \
    K(input_height)                                                                                \
    K(input_width)                                                                                 \
    K(input_depth)                                                                                 \
    K(output_height)                                                                               \
    K(output_width)                                                                                \
    K(output_depth)                                                                                \
    K(input_channels)                                                                              \
    K(filters)                                                                                     \
    K(kernel_size)                                                                                 \
    K(stride) K(padding) K(output_padding) K(num_heads) K(num_kv_heads) K(head_dim) K(d_model)     \
        K(seq_length) K(vocab_size) K(embedding_dim) K(num_clusters) K(softmax_rows)               \
            K(softmax_cols) K(max_seq_len) K(tile_size)
#define ZT_NN_REALS(K)                                                                             \
    K(rope_freq_base) K(kmeans_temperature) K(temperature) K(entmax_alpha) K(eps)

struct zt_nn_layer {
    const char *path; /* "layers.3.parallel_branches.0": its place in the document */
    int64_t place[4]; /* z, y, x, l; of layers in the grid */
    zt_nn_kind kind;
    zt_nn_act act;
    zt_nn_softmax softmax;
    zt_storage dtype;
    float scale;          /* of its dtype's codes */
    /* By which its codes are read and written, and what masters are that are no codes yet: Loom's,
     * which cuts towards 0 by the document's scale, unless that says the field's, or the weights
     * were drawn, or were put in place of codes: these count in the field's scale for them. */
    zt_storage_rule rule;
    bool settled; /* the masters are values of the dtype already */
    bool disabled;        /* passes its input on */
    bool gumbel_noise, use_tiling;
    bool features; /* KMeans: the mix of centres, not the probabilities */
    bool link;     /* runs the layer at target[] instead */
    int64_t target[4];
    const char *combine; /* Parallel: "concat" "add" "avg" "filter" "grid_scatter" */
#define ZT_NN_FIELD(name) int64_t name;
    ZT_NN_INTS(ZT_NN_FIELD)
#undef ZT_NN_FIELD
#define ZT_NN_FIELD(name) double name;
    ZT_NN_REALS(ZT_NN_FIELD)
#undef ZT_NN_FIELD
    int64_t mask_index, n_mask; /* Masked softmax: 0 hides a place; what is past the mask is seen */
    const uint8_t *mask;
    int64_t n_levels; /* Hierarchical softmax */
    const int64_t *levels;
    int64_t n_branches, n_steps;
    zt_nn_layer *branch, *step, *gate; /* gate NULL: none */
    int64_t weights, n_weights;        /* in the network's list: its own */
};

/* ---- networks -------------------------------------------------------------------------------- */

/* From a file; weights that the document lacks are drawn from the seed. ZT_EDATA, with layer and
 * reason, where it is no network, or its weights are not as many as its layer has. */
zt_nn *zt_nn_open(zt_ctx *ctx, const char *path, uint64_t seed);
zt_nn *zt_nn_from(zt_ctx *ctx, zt_source *s, uint64_t seed); /* borrows the source for the call */
void zt_nn_close(zt_nn *nn); /* and its layers, weights and stores; NULL: nothing */

/* New ones, by S3's builders and the members of its ArchConfig; weights are drawn from the seed.
 *
 *     sequential   dense layers of dModel, from inputSize numbers to numClasses
 *     cnn          two convolutions over inputSize x inputSize, and two dense layers
 *     transformer  x + attention(norm x) and x + SwiGLU(norm x) by turns, of dModel
 *     random       of each place some layer that takes dModel numbers and gives as many
 */
typedef struct zt_nn_arch {
    const char *name; /* borrowed */
    int64_t grid_depth, grid_rows, grid_cols, layers_per_cell, d_model, num_heads;
    int64_t input_size, classes; /* 0: d_model */
    zt_nn_act act;
    zt_storage dtype;
    double init_scale; /* drawn weights are multiplied by this */
    uint64_t seed;
} zt_nn_arch;
/* A grid of 1 x 1 x 1 places of 4 layers, d_model 64, 4 heads, relu, f32, init_scale 1, seed 0. */
zt_nn_arch zt_nn_arch_defaults(void);
/* One member by its name in ArchConfig ("dModel"), or inputSize, numClasses; texts are borrowed. */
zt_status zt_nn_arch_set(zt_ctx *ctx, zt_nn_arch *a, const char *key, const char *text);
/* A new network by the builder of that name. ZT_EUSAGE: there is none, or numbers of arch that do
 * not fit it. zt_nn_close it. */
zt_nn *zt_nn_new(zt_ctx *ctx, const char *builder, const zt_nn_arch *arch);
const char *zt_nn_builder(int i); /* names; NULL after the last */

zt_ctx *zt_nn_ctx(const zt_nn *nn); /* that it was opened in */
const char *zt_nn_name(const zt_nn *nn); /* the file's, for messages */
const char *zt_nn_id(const zt_nn *nn);   /* 32 hex digits, of the document without its weights, and
                                          * its size: a program's model line */
int64_t zt_nn_extent(const zt_nn *nn, int axis); /* depth, rows, cols, layers_per_cell */
/* The layers that the document names, in the order in which they run. */
int64_t zt_nn_count(const zt_nn *nn);
zt_nn_layer *zt_nn_layer_at(const zt_nn *nn, int64_t i); /* i below count; else NULL */
zt_nn_layer *zt_nn_find(const zt_nn *nn, const int64_t place[4]); /* NULL: an empty place */

/* Weights: one list for the network, a layer's own beside each other, in the order in which the
 * document has them. */
typedef struct zt_nn_weight {
    const char *name; /* of its data in programs: "layers.3.wq" */
    zt_type type;     /* f32 */
    float *value;     /* the masters: contiguous for a layer; may be written to */
    zt_nn_layer *layer;
} zt_nn_weight;
/* How many, and weight i below that, which lives as long as the network. */
int64_t zt_nn_n_weights(const zt_nn *nn);
const zt_nn_weight *zt_nn_weight_at(const zt_nn *nn, int64_t i); /* NULL past the last */
int64_t zt_nn_layer_size(const zt_nn *nn, const zt_nn_layer *l); /* of its own weights, together */

/* Weights by name, as the layers compute with them: the masters at the layer's dtype and scale.
 * Good while the network is open. */
zt_store zt_nn_store(zt_nn *nn);
zt_store zt_nn_masters(zt_nn *nn); /* the same names, the masters themselves */
/* What the layer of this weight computes with, as ops on the master `weight` of the program, in
 * which the layer's other masters have their names, too: a layer learns in its own dtype where its
 * forward pass is given this, and the gradient by it goes to the master (straight through: Bengio
 * et al., arXiv:1308.3432). `weight` itself where that is all, and for what is no weight's name;
 * -1: the context says why. */
int zt_nn_through(zt_nn *nn, zt_prog *p, int weight, const char *name);
/* Every layer's weights are of this dtype from now on, at the field's scale for it. */
void zt_nn_set_dtype(zt_nn *nn, zt_storage t);
/* New masters for one weight, n of them. */
zt_status zt_nn_put(zt_nn *nn, const char *name, const float *value, int64_t n);

/* The network as JSON, as zt_nn_open reads it and Loom does: codes of the dtype where the masters
 * are values of it, else the masters, as f32. What is empty or of its own accord is left out. */
zt_status zt_nn_write(const zt_nn *nn, zt_sink *out);

/* ---- telling --------------------------------------------------------------------------------- */

/* Of a layer's values: S3's LayerStats. Active are those that are not 0 by 1e-6. */
typedef struct zt_nn_stats {
    float avg, max, min;
    int64_t active, total;
} zt_nn_stats;
zt_nn_stats zt_nn_stats_of(const float *x, int64_t n); /* of n values */

/* S3's telemetry as JSON, {"models": [...]}: each layer's place, type, shapes and parameters as S3
 * counts them, which are those of the grid's layers and of branches. Ours are `weights`, how many
 * numbers there are in a layer and all within it, `steps` and `filter_gate`, and of all layers,
 * those within others too, `all_layers` and `all_weights`. Appended. */
zt_status zt_nn_blueprint(const zt_nn *nn, const char *id, zt_str *out);

/* ---- lowering -------------------------------------------------------------------------------- */

typedef struct zt_nn_shape {
    int rank;                 /* with the rows' */
    int64_t dim[ZT_MAX_RANK]; /* dim[0] is not read */
} zt_nn_shape;

/* What the first layer takes, by its own numbers. ZT_EDATA where these do not tell. */
zt_status zt_nn_input(const zt_nn *nn, zt_nn_shape *in);

/* How a network is run. All 0: layer after layer. */
typedef struct zt_nn_options {
    const zt_nn_shape *in; /* of x; NULL: zt_nn_input's */
    /* Above 0, systolic: so many cycles of a clock by which all places of the grid run at once.
     * Each reads what the place before it held after the cycle before, one with a link what its
     * target held; the first place reads itself. Before the first cycle that holds x, all others
     * nothing; a place that reads nothing holds on to what it has. One that is disabled or empty
     * takes over what it reads. y is what the last place holds in the end. A link may go back: its
     * circle is one in time, and the gradient goes through all cycles. */
    int64_t cycles;
    /* The rows of x go on where those of the step before ended: attention over them keeps keys and
     * values in states "layers.3.k_cache" and "layers.3.v_cache", f32[ctx,...] by a symbol ctx or
     * as long as the layer's max_seq_len; where rows stand in their sequence is an input pos:
     * i32[n]. What a row gets does not depend on which step it came in. Attention over [n,s,d] sees
     * whole sequences as ever, and a network without any other has neither states nor pos. */
    bool cache;
} zt_nn_options;

/* in x: f32[n,...] and out y, with a data for each weight that is used. `in` NULL: zt_nn_input's.
 */
zt_prog *zt_nn_prog(const zt_nn *nn, const zt_nn_shape *in);
/* ZT_EUSAGE for more cycles of places than 65536, or so few that nothing reaches the last place. */
zt_prog *zt_nn_prog_as(const zt_nn *nn, const zt_nn_options *how);

/* The same into a program of the caller's, on its value x (an input, f32, whose first dimension may
 * be a symbol; the others are numbers): the value that comes out, -1 on failure. Data have the
 * names of their weights. layer[zt_nn_count]: what each layer of the grid gave; NULL: not wanted.
 * Once a program. */
int zt_nn_emit(const zt_nn *nn, zt_prog *p, int x, int *layer);
/* As `how` says, but for its `in`. each[zt_nn_count], of cycles
 * each[cycles][places of the grid]: -1 is nothing. */
int zt_nn_emit_as(const zt_nn *nn, zt_prog *p, int x, const zt_nn_options *how, int *each);

#ifdef __cplusplus
}
#endif
#endif
