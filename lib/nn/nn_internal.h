/* nn_internal.h - private to lib/nn: an open network, the table of layers, and the functions by which layers write ops.
 *
 *     read.c weights.c write.c    networks from and to documents
 *     builders.c                  new networks
 *     kinds.c                     the table of layers; names
 *     lower.c systolic.c          a network as a program
 *     dense.c conv.c sequence.c softmax.c containers.c    the layers' ops
 *     fake_quant.c                masters rounded to a layer's dtype
 *     report.c                    statistics and telemetry
 *     mutate.c                    mutations (mutate.h)
 *     probe*.c                    networks from tensors of unknown names (probe.h) */
#ifndef ZT_NN_INTERNAL_H
#define ZT_NN_INTERNAL_H

#include "lib/nn/nn.h"

#include <stdarg.h>

enum {
    NN_MAX_PARTS = 12,     /* weights of one layer */
    NN_MAX_RUNS = 1 << 16, /* layers lowered; targets of links count at each use */
    NN_MAX_DEPTH = 64,     /* of layers inside layers, and of links */
    NN_MAX_DIM = 1 << 24   /* maximum of any number that is a size */
};

struct zt_nn {
    zt_ctx *ctx;
    const char *name, *id;
    char hash[33];
    zt_arena *arena;
    int64_t extent[4];
    zt_nn_layer **layers; /* [layer_count] in the order in which they run */
    int64_t layer_count, layer_capacity;
    zt_nn_weight *weights;
    int64_t weight_count, weight_capacity;
    zt_nn_layer **masked; /* [masked_count] layers with a mask */
    int64_t masked_count, masked_capacity;
    float **masters; /* [master_count] blocks of masters */
    int64_t master_count, master_capacity;
    zt_map *weight_names; /* index of each weight and mask by name; built with the first store */
    uint64_t seed;
};

/* How a weight is initialized that the document does not have. */
typedef enum nn_init { NN_INIT_FAN, NN_INIT_ONE, NN_INIT_ZERO } nn_init;

/* A weight of a layer. */
typedef struct nn_part {
    const char *name; /* "wq" */
    nn_init init;
    int rank;
    int64_t dim[ZT_MAX_RANK];
} nn_part;

/* A value of the program: dim[0] may be an expression. id -1: an op that it depends on failed. */
typedef struct nn_value {
    int id, rank;
    int64_t dim[ZT_MAX_RANK];
} nn_value;

/* A network being lowered to a program. */
typedef struct nn_lowering {
    const zt_nn *network;
    const zt_nn_options *options;
    zt_prog *program;
    int *data;                              /* value of each weight, then of each mask, by their index; -1: not declared yet */
    const zt_nn_layer *stack[NN_MAX_DEPTH]; /* the layers around the current one, and targets of links */
    int depth;
    int64_t layer_runs;   /* layers lowered so far */
    int draw_count;       /* ops that draw random numbers, so far */
    const nn_value *skip; /* what a Residual adds: the input of the step before; NULL: none */
} nn_lowering;

/* A kind of layer. */
typedef struct nn_kind {
    const char *name, *aliases[2];
    const char *needs[5]; /* names of numbers that must be above 0 */
    /* Fills in its weights, returns their number; NULL: it has none. */
    int (*list_parts)(const zt_nn_layer *l, nn_part *part);
    /* Writes its ops, without the activation. */
    nn_value (*emit)(nn_lowering *w, const zt_nn_layer *l, nn_value x);
    /* Fills in the shape of its input from the rank up; false: its numbers do not determine it. */
    bool (*find_input)(const zt_nn_layer *l, zt_nn_shape *row);
    bool has_activation; /* followed by the layer's activation */
} nn_kind;

const nn_kind *zt_layer_kind_of(zt_nn_kind kind); /* NULL: no such number */
/* Sets numbers that are absent to their defaults, which follow from others. */
void zt_layer_settle(zt_nn_layer *layer);
/* A number by its name; -1: no such name. */
int64_t zt_layer_number(const zt_nn_layer *layer, const char *name);

/* The layers' ops, in the layers' own files. */
#define NN_EMIT(name) nn_value zt_layer_emit_##name(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input);
NN_EMIT(dense)
NN_EMIT(swiglu)
NN_EMIT(rms_norm)
NN_EMIT(layer_norm)
NN_EMIT(embedding)
NN_EMIT(kmeans)
NN_EMIT(conv)
NN_EMIT(conv_transpose)
NN_EMIT(rnn)
NN_EMIT(lstm)
NN_EMIT(attention)
NN_EMIT(softmax)
NN_EMIT(parallel)
NN_EMIT(sequential)
NN_EMIT(residual)
#undef NN_EMIT

/* ZT_EDATA: a document, or a layer in it, has no member of that name; the message has the most similar name. */
zt_status zt_nn_check_member(const zt_nn *network, const char *key);
zt_status zt_layer_check_member(const zt_nn *network, const zt_nn_layer *layer, const char *key);
/* ZT_EDATA with "net.json: layers.3 (Dense): " before the message. */
zt_status zt_layer_bad(const zt_nn *network, const zt_nn_layer *layer, const char *fmt, ...) ZT_PRINTF(3, 4);
zt_status zt_layer_vbad(const zt_nn *network, const zt_nn_layer *layer, const char *fmt, va_list args) ZT_PRINTF(3, 0);
/* The same; returns zt_layer_none(). */
nn_value zt_layer_refuse(const nn_lowering *lowering, const zt_nn_layer *layer, const char *fmt, ...) ZT_PRINTF(3, 4);

double zt_layer_real(const zt_nn_layer *layer, const char *name); /* NAN: no such name */

/* ---- reading --------------------------------------------------------------------------------- */

struct zt_netjson;
const char *zt_layer_mask_name(const zt_nn *network, const zt_nn_layer *layer);
zt_status zt_layer_add_mask(zt_nn *network, zt_nn_layer *layer);
/* Adds the layer's weights to the list, from its place in an open document (NULL: drawn). borrows: none are added, a link
 * uses its target's. */
zt_status zt_layer_take_weights(zt_nn *network, zt_nn_layer *layer, struct zt_netjson *document, bool borrows);

/* A number of a new weight: uniform in [-limit, limit), where the part's limit is by its fan in and fan out; or 1 or 0. */
double zt_layer_draw_limit(const nn_part *part);
float zt_layer_draw_number(const nn_part *part, double limit, uint64_t seed, uint64_t sequence, uint64_t position);

/* The layer's masters were changed: its codes are drawn from them anew. */
void zt_layer_masters_changed(const zt_nn *network, zt_nn_layer *layer);

/* The index of a place among all places of the grid, in the order in which they run. The place must be in the grid. */
int64_t zt_layer_index(const zt_nn *network, const int64_t place[4]);

/* fake_quant.c: a master rounded to the layer's dtype. */
float zt_layer_precise(const zt_nn_layer *layer, float value);

/* ---- writing ops ----------------------------------------------------------------------------- */

/* A weight of the layer as a value of the program; declared at the first use. */
int zt_layer_weight(nn_lowering *lowering, const zt_nn_layer *layer, int part);
int zt_layer_mask(nn_lowering *lowering, const zt_nn_layer *layer); /* the layer's mask, f32[mask_count] of 1 and 0 */
/* The number of rows when each row is divided into `each`, as an expression. */
int64_t zt_layer_rows(const nn_lowering *lowering, const nn_value *input, int64_t each);
int64_t zt_layer_row_count(const nn_value *input); /* elements of a row: the product of all dimensions but the first */
nn_value zt_layer_reshape(nn_lowering *lowering, nn_value input, int rank, const int64_t *dim);
/* The input as a matrix of `columns` columns: its rows where they have so many elements, else its last dimension. An error
 * where neither is. */
nn_value zt_layer_matrix(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input, int64_t columns);
/* The inverse for a layer's output of `cols` columns: a matrix back to the dimensions of `input`, with the last one
 * replaced; [n, cols] where whole rows of `taken` elements were the matrix's rows. */
nn_value zt_layer_like(nn_lowering *lowering, nn_value output, nn_value input, int64_t taken, int64_t columns);
nn_value zt_layer_unary(nn_lowering *lowering, zt_op op, const void *attrs, nn_value input);
nn_value zt_layer_binary(nn_lowering *lowering, zt_op op, nn_value left, nn_value right);
nn_value zt_layer_activate(nn_lowering *lowering, zt_nn_act act, nn_value input);
nn_value zt_layer_run(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input);
nn_value zt_layer_layer(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input);   /* follows a link */
nn_value zt_layer_of_grid(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input); /* at the top of the stack */
/* systolic.c: the value of the last place after so many cycles; each: [cycles * places], or NULL. */
nn_value zt_layer_clock(nn_lowering *lowering, nn_value input, int64_t cycles, int *each);
nn_value zt_layer_none(void); /* the value after an error */
/* The sizes of a convolution's input planes, 0 where not given; returns the number of dimensions. */
int zt_layer_planes(const zt_nn_layer *layer, int64_t *dim);

#endif
