/* nn.h - volumetric networks: grids of layers, opened from JSON, lowered to one program.
 *
 *     zt_nn *nn = zt_nn_open(ctx, "net.json", 0);
 *     zt_prog *p = zt_nn_prog(nn, NULL);                  // in x: f32[n,...], out y
 *     zt_store s = zt_nn_store(nn);                       // its data, by their names
 *     zt_session *run = zt_session_open(engine, p, &s, &(zt_session_opts){0});
 *     zt_session_step(run, &(zt_binding){"n", rows}, 1, in, out);
 *
 * A grid has depth x rows x cols cells (z, y, x) of layers_per_cell layers (l). Layers run in the order of (z, y, x, l),
 * each on the output of the one before. A layer that is disabled, or that the document does not have, passes its input
 * on. A kind of layer is a row of a const table (kinds.c): its numbers, the shapes of its weights, and a function that
 * writes it as ops; engines, gradients and traces all work on these ops.
 *
 * Values are n rows: x[n, ...]. A layer that takes another shape with the same number of elements per row gets the value
 * reshaped. The output of a row depends on that row only, except for attention on two dimensions [n, d], whose rows are
 * one sequence.
 *
 * Layers inside layers: the `branches` of Parallel run on the same input, the `steps` of Sequential one after the other.
 * A link among them runs the layer at its target, with the target's weights, on the link's own input. Links that form a
 * cycle are an error.
 *
 * Weights are f32 masters, row-major, [out][in]. A program computes with the masters rounded to the layer's dtype. The
 * JSON is that of openfluke/loom's package poly (lib/io/netjson.h): a specification, whose weights are drawn from a seed,
 * or a network with its weights. Members that Loom does not have: is_disabled, is_remote_link with target_z target_y
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

/* Numbered as in Loom. */
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
    ZT_NN_GELU, /* the tanh approximation */
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

/* Names as Loom writes them: "Dense", "ReLU", "Standard"; static. NULL: no such number. */
const char *zt_nn_kind_name(zt_nn_kind number);
const char *zt_nn_act_name(zt_nn_act act);             /* the same */
const char *zt_nn_softmax_name(zt_nn_softmax softmax); /* the same */
/* Case is ignored, except in softmax types. false: unknown name; *out is then Loom's default: Dense, Linear, float32,
 * Standard. */
bool zt_nn_kind_parse(const char *name, zt_nn_kind *out);
bool zt_nn_act_parse(const char *name, zt_nn_act *out);         /* the same */
bool zt_nn_softmax_parse(const char *name, zt_nn_softmax *out); /* the same */
bool zt_nn_dtype_parse(const char *name, zt_storage *out);      /* the same */

/* ---- layers ---------------------------------------------------------------------------------- */

/* Numbers of a layer, named as their members in the document; 0: absent. */
// clang-format off
#define ZT_NN_INTS(K)                                                                                                            \
    K(input_height)                                                                                                              \
    K(input_width)                                                                                                               \
    K(input_depth)                                                                                                               \
    K(output_height)                                                                                                             \
    K(output_width)                                                                                                              \
    K(output_depth)                                                                                                              \
    K(input_channels)                                                                                                            \
    K(filters)                                                                                                                   \
    K(kernel_size)                                                                                                               \
    K(stride)                                                                                                                    \
    K(padding)                                                                                                                   \
    K(output_padding)                                                                                                            \
    K(num_heads) K(num_kv_heads) K(head_dim) K(d_model) K(seq_length) K(vocab_size) K(embedding_dim) K(num_clusters)             \
        K(softmax_rows) K(softmax_cols) K(max_seq_len) K(tile_size)
// clang-format on
#define ZT_NN_REALS(K) K(rope_freq_base) K(kmeans_temperature) K(temperature) K(entmax_alpha) K(eps)

struct zt_nn_layer {
    const char *path; /* place in the document: "layers.3.parallel_branches.0" */
    int64_t place[4]; /* z, y, x, l, of layers in the grid */
    zt_nn_kind kind;
    zt_nn_act activation;
    zt_nn_softmax softmax;
    zt_storage dtype;
    float scale; /* of the codes of its dtype */
    /* How codes are read and written, and how masters are rounded to the dtype:
     *   ZT_RULE_LOOM   truncated toward 0, by the document's scale
     *   ZT_RULE_FIELD  rounded to nearest, by a scale computed from the weights: where the document says so, and for
     *                  weights that were drawn or replaced */
    zt_storage_rule rule;
    bool exact;    /* the masters are values of the dtype: no rounding is needed */
    bool disabled; /* passes its input on unchanged */
    bool gumbel_noise, use_tiling;
    bool features; /* KMeans gives the weighted mean of the centres, not the probabilities */
    bool is_link;  /* runs the layer at target[] in its place */
    int64_t target[4];
    const char *combine; /* Parallel: "concat" "add" "avg" "filter" "grid_scatter" */
#define ZT_NN_FIELD(name) int64_t name;
    ZT_NN_INTS(ZT_NN_FIELD)
#undef ZT_NN_FIELD
#define ZT_NN_FIELD(name) double name;
    ZT_NN_REALS(ZT_NN_FIELD)
#undef ZT_NN_FIELD
    int64_t mask_index, mask_count; /* Masked softmax: 0 hides an element; elements past the mask are visible */
    const uint8_t *mask;
    int64_t level_count; /* Hierarchical softmax */
    const int64_t *levels;
    int64_t branch_count, step_count;
    zt_nn_layer *branches, *steps, *gate; /* gate NULL: none */
    int64_t first_weight, weight_count;   /* its own weights: index in the network's list, count */
};

/* ---- networks -------------------------------------------------------------------------------- */

/* Opens a network from a file. Weights that the document does not have are drawn from the seed. ZT_EDATA, with layer and
 * reason: not a network, or the number of weights does not fit a layer. */
zt_nn *zt_nn_open(zt_ctx *ctx, const char *path, uint64_t seed);
zt_nn *zt_nn_from(zt_ctx *ctx, zt_source *s, uint64_t seed); /* borrows the source for the call */
void zt_nn_close(zt_nn *network);                            /* frees its layers, weights and stores too. NULL: no effect */

/* New networks, by Loom's builders and the members of its ArchConfig. Weights are drawn from the seed.
 *
 *     sequential   dense layers of dModel, from inputSize to numClasses
 *     cnn          two convolutions over inputSize x inputSize, and two dense layers
 *     transformer  x + attention(norm x) and x + SwiGLU(norm x) in turn, of dModel
 *     random       at each place a random kind of layer with dModel inputs and outputs
 */
typedef struct zt_nn_arch {
    const char *name; /* borrowed */
    int64_t grid_depth, grid_rows, grid_cols, layers_per_cell, d_model, num_heads;
    int64_t input_size, classes; /* 0: d_model */
    zt_nn_act activation;
    zt_storage dtype;
    double init_scale; /* drawn weights are multiplied by this */
    uint64_t seed;
} zt_nn_arch;
/* A grid of 1 x 1 x 1 places of 4 layers, d_model 64, 4 heads, relu, f32, init_scale 1, seed 0. */
zt_nn_arch zt_nn_arch_defaults(void);
/* Sets a member by its name in ArchConfig ("dModel"), or inputSize, numClasses. Texts are borrowed. */
zt_status zt_nn_arch_set(zt_ctx *ctx, zt_nn_arch *arch, const char *key, const char *text);
/* A new network from the builder of that name; close it with zt_nn_close. NULL with ZT_EUSAGE: no such builder, or the
 * numbers of arch do not fit it. */
zt_nn *zt_nn_new(zt_ctx *ctx, const char *builder, const zt_nn_arch *arch);
const char *zt_nn_builder(int i); /* the names of builders; NULL past the last */

zt_ctx *zt_nn_ctx(const zt_nn *network);              /* the context in which it was opened */
const char *zt_nn_name(const zt_nn *network);         /* the file's, for messages */
const char *zt_nn_id(const zt_nn *network);           /* 32 hex digits: hash of the document without its weights,
                                                       * and of its size; for a program's line `model` */
int64_t zt_nn_extent(const zt_nn *network, int axis); /* depth, rows, cols, layers_per_cell */
/* The layers that the document names, in the order in which they run. */
int64_t zt_nn_count(const zt_nn *network);
zt_nn_layer *zt_nn_layer_at(const zt_nn *network, int64_t index);      /* i below count; else NULL */
zt_nn_layer *zt_nn_find(const zt_nn *network, const int64_t place[4]); /* NULL: an empty place */

/* Weights are one list for the network. Those of a layer are adjacent, in the document's order. */
typedef struct zt_nn_weight {
    const char *name; /* name of the data in programs: "layers.3.wq" */
    zt_type type;     /* f32 */
    float *values;    /* the masters, writable; contiguous within a layer */
    zt_nn_layer *layer;
} zt_nn_weight;
/* The number of weights, and a weight by its index, which lives as long as the network. */
int64_t zt_nn_n_weights(const zt_nn *network);
const zt_nn_weight *zt_nn_weight_at(const zt_nn *network, int64_t index); /* NULL past the last */
int64_t zt_nn_layer_size(const zt_nn *network, const zt_nn_layer *layer); /* elements of its own weights, all together */

/* Weights by name, as layers compute with them: masters rounded to the layer's dtype and scale. Valid while the network
 * is open. */
zt_store zt_nn_store(zt_nn *network);
zt_store zt_nn_masters(zt_nn *network); /* the same names, with the masters themselves */
/* Fake quantization: adds the ops to the program that round the master `weight` to its layer's dtype, and returns their
 * result. The program must have the layer's other masters under their names too. With it a layer is trained in its own
 * dtype; the gradient with respect to the result is applied to the master (straight-through estimator: Bengio et al.,
 * arXiv:1308.3432). Returns `weight` where no rounding is needed or `name` is not a weight's; -1 on error. */
int zt_nn_through(zt_nn *network, zt_prog *program, int weight, const char *name);
/* Sets the dtype of all layers, with scales computed from the weights (ZT_RULE_FIELD). */
void zt_nn_set_dtype(zt_nn *network, zt_storage storage);
/* Replaces the masters of one weight. ZT_ESHAPE: count is not the weight's. */
zt_status zt_nn_put(zt_nn *network, const char *name, const float *value, int64_t count);

/* Writes the network as JSON that zt_nn_open and Loom read: codes of the dtype where the masters are values of it, else the
 * masters in f32. Empty and default members are left out. */
zt_status zt_nn_write(const zt_nn *network, zt_sink *out);
/* The same with the weights in a safetensors file at data_path, which must be in the directory of the document; `force`: an
 * existing one is overwritten. The document refers to it by name (zt-network(5)); Loom does not read such a document. */
zt_status zt_nn_write_beside(const zt_nn *network, zt_sink *out, const char *data_path, bool force);

/* ---- reports --------------------------------------------------------------------------------- */

/* Statistics of values, as Loom's LayerStats. Active: magnitude above 1e-6. */
typedef struct zt_nn_stats {
    float avg, max, min;
    int64_t active, total;
} zt_nn_stats;
zt_nn_stats zt_nn_stats_of(const float *values, int64_t count); /* of count values */

/* Appends Loom's telemetry as JSON, {"models": [...]}: place, type, shapes and parameters of each layer, counted as Loom
 * does, which are those of the grid's layers and of branches. Added to Loom's members: `weights` (elements of a layer and of
 * all layers inside it), `steps`, `filter_gate`, and `all_layers` and `all_weights` over all layers at any depth. */
zt_status zt_nn_blueprint(const zt_nn *network, const char *id, zt_str *out);

/* ---- lowering -------------------------------------------------------------------------------- */

typedef struct zt_nn_shape {
    int rank;                 /* includes the rows' dimension */
    int64_t dim[ZT_MAX_RANK]; /* dim[0] is ignored */
} zt_nn_shape;

/* The input shape of the first layer. ZT_EDATA: its numbers do not determine it. */
zt_status zt_nn_input(const zt_nn *network, zt_nn_shape *shape);

/* How a network is lowered. All 0: layer after layer. */
typedef struct zt_nn_options {
    const zt_nn_shape *input; /* shape of x; NULL: that of zt_nn_input */
    /* Above 0: systolic, this many cycles of a clock. In each cycle all places of the grid run at once:
     *
     *     place             | reads, from the end of the cycle before
     *     the first         | itself; before the first cycle it holds x
     *     one with a link   | the link's target
     *     any other         | the place before it
     *
     * Other places are empty at first. A place that reads an empty one keeps its value; one that is disabled or has no
     * layer takes the value that it reads. y is the value of the last place at the end. A link may point backwards: such
     * a cycle of links is one in time, and gradients flow through all cycles of the clock. */
    int64_t cycles;
    /* With cycles: the first place reads x in every cycle, and is empty before the first. After as many cycles as places, a
     * grid without links gives what it gives layer after layer, and layers may differ in width. */
    bool held;
    /* The rows of x continue the sequence of the step before. Attention over [n, d] keeps keys and values in states
     * "layers.3.k_cache" and "layers.3.v_cache", f32[ctx, ...], with the symbol ctx or the layer's max_seq_len. The rows'
     * positions are an input pos: i32[n]. The output of a row does not depend on how rows are divided into steps.
     * Attention over [n, s, d] sees whole sequences in any case; a network that has only this has neither states nor pos. */
    bool cache;
} zt_nn_options;

/* The network as a program: in x: f32[n, ...], out y, data for each weight that is used. shape NULL: zt_nn_input. */
zt_prog *zt_nn_prog(const zt_nn *network, const zt_nn_shape *shape);
/* ZT_EUSAGE: cycles * places is above 65536, or x does not reach the last place in so few cycles. */
zt_prog *zt_nn_prog_as(const zt_nn *network, const zt_nn_options *options);

/* Adds the network to a program, applied to its value input (f32; the first dimension may be a symbol, the others are
 * numbers). Returns the output value, -1 on failure. Data are named as their weights. layer: [zt_nn_count] output of each
 * layer of the grid; NULL: not wanted. At most once per program. */
int zt_nn_emit(const zt_nn *network, zt_prog *program, int input, int *layer);
/* The same with options, whose `input` is ignored. each: [zt_nn_count], or with cycles [cycles, places of the grid]; -1: the
 * place is empty. */
int zt_nn_emit_as(const zt_nn *network, zt_prog *program, int input, const zt_nn_options *options, int *each);

#ifdef __cplusplus
}
#endif
#endif
