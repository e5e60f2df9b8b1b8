/* nn_internal.h - private to lib/nn: an open network, the table of layers, and what their rows write
 * ops through. */
#ifndef ZT_NN_INTERNAL_H
#define ZT_NN_INTERNAL_H

#include "lib/nn/nn.h"

#include <stdarg.h>

enum {
    NN_MAX_PARTS = 12,     /* weights of a layer */
    NN_MAX_RUNS = 1 << 16, /* layers written, those of links as often as they are used */
    NN_MAX_DEPTH = 64,     /* of layers in layers, and of links */
    NN_MAX_DIM = 1 << 24   /* of any number that is a size */
};

struct zt_nn {
    zt_ctx *ctx;
    const char *name, *id;
    char hash[33];
    zt_arena *keep;
    int64_t extent[4];
    zt_nn_layer **layer; /* as they run */
    int64_t n, room;
    zt_nn_weight *weight;
    int64_t n_weights, weights_room;
    zt_nn_layer **masked; /* layers with a mask */
    int64_t n_masked, masked_room;
    float **masters; /* blocks of them */
    int64_t n_masters, masters_room;
    zt_map *names; /* of weights; made with the first store */
    uint64_t seed;
};

/* How a weight begins that no document has. */
typedef enum nn_init { NN_INIT_FAN, NN_INIT_ONE, NN_INIT_ZERO } nn_init;

/* A weight of a layer. */
typedef struct nn_part {
    const char *name; /* "wq" */
    nn_init init;
    int rank;
    int64_t dim[ZT_MAX_RANK];
} nn_part;

/* A value on its way: dim[0] may be an expression of the program. id -1: what made it failed. */
typedef struct nn_value {
    int id, rank;
    int64_t dim[ZT_MAX_RANK];
} nn_value;

/* Lowering. */
typedef struct nn_low {
    const zt_nn *nn;
    const zt_nn_options *how;
    zt_prog *p;
    int *data; /* of each weight, then each mask, by their numbers; -1: not yet */
    const zt_nn_layer *on[NN_MAX_DEPTH]; /* the layers that contain this, and links' targets */
    int depth;
    int64_t runs;         /* layers written so far */
    int draws;            /* ops that draw, so far */
    const nn_value *skip; /* what a Residual adds: the input of the step before; NULL: nothing */
} nn_low;

/* A kind of layer. */
typedef struct nn_kind {
    const char *name, *other[2];
    const char *needs[5]; /* numbers that must be above 0, by their names */
    /* Its weights' shapes, and how many of them; NULL: none. */
    int (*parts)(const zt_nn_layer *l, nn_part *part);
    /* What it makes of x, with no activation; that is the table's. */
    nn_value (*emit)(nn_low *w, const zt_nn_layer *l, nn_value x);
    /* One row of its input, without the rows' dimension; false: it does not tell. */
    bool (*input)(const zt_nn_layer *l, zt_nn_shape *row);
    bool plain; /* its activation comes after */
} nn_kind;

const nn_kind *zt_layer_kind_of(zt_nn_kind k); /* NULL: no such number */
/* Numbers that were left out, by those that are there. */
void zt_layer_settle(zt_nn_layer *l);
/* A number by its name; -1: none is called so. */
int64_t zt_layer_number(const zt_nn_layer *l, const char *name);

/* The layers' own files: how each writes its ops. */
#define NN_EMIT(name) nn_value zt_layer_emit_##name(nn_low *w, const zt_nn_layer *l, nn_value x);
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

/* "net.json: layers.3 (Dense): ", then what is wrong. */
/* members.c: is it one that a document, or a layer in it, may have? ZT_EDATA names the nearest. */
zt_status zt_nn_check_member(const zt_nn *nn, const char *key);
zt_status zt_layer_check_member(const zt_nn *nn, const zt_nn_layer *l, const char *key);
zt_status zt_layer_bad(const zt_nn *nn, const zt_nn_layer *l, const char *fmt, ...) ZT_PRINTF(3, 4);
zt_status zt_layer_vbad(const zt_nn *nn, const zt_nn_layer *l, const char *fmt, va_list ap)
    ZT_PRINTF(3, 0);
nn_value zt_layer_refuse(const nn_low *w, const zt_nn_layer *l, const char *fmt, ...)
    ZT_PRINTF(3, 4);

double zt_layer_real(const zt_nn_layer *l, const char *name); /* NAN: none is called so */

/* ---- reading --------------------------------------------------------------------------------- */

/* The layer's weights into the list, from its place in an open document (NULL: drawn); of one that
 * borrows its target's, none. */
struct zt_netjson;
const char *zt_layer_mask_name(const zt_nn *nn, const zt_nn_layer *l);
zt_status zt_layer_add_mask(zt_nn *nn, zt_nn_layer *l);
zt_status zt_layer_take_weights(zt_nn *nn, zt_nn_layer *l, struct zt_netjson *j, bool borrows);

/* Of the grid's places in the order in which they run, those without
 * a layer too; place within it. */
int64_t zt_layer_index(const zt_nn *nn, const int64_t place[4]);

/* fake_quant.c: what the layer computes with for a master that is no value of its dtype yet. */
float zt_layer_precise(const zt_nn_layer *l, float x);

/* ---- writing ops ----------------------------------------------------------------------------- */

/* The layer's weight k as a value, declared the first time. */
int zt_layer_weight(nn_low *w, const zt_nn_layer *l, int k);
int zt_layer_mask(nn_low *w, const zt_nn_layer *l); /* the layer's mask, f32[n_mask] of 1 and 0 */
/* An expression for how many rows there are when each has `each` parts. */
int64_t zt_layer_rows(const nn_low *w, const nn_value *x, int64_t each);
int64_t zt_layer_row_count(const nn_value *x); /* numbers in a row: all dimensions but the first */
nn_value zt_layer_reshape(nn_low *w, nn_value x, int rank, const int64_t *dim);
/* x as a matrix of `cols` columns: its rows if they have so many numbers, else its last
 * dimension's. Refused where neither is. */
nn_value zt_layer_matrix(nn_low *w, const zt_nn_layer *l, nn_value x, int64_t cols);
/* A matrix of as many rows back under x's dimensions, the last of which becomes cols; under
 * [n,cols] where rows were taken whole. */
nn_value zt_layer_like(nn_low *w, nn_value y, nn_value x, int64_t took, int64_t cols);
nn_value zt_layer_unary(nn_low *w, zt_op op, const void *attrs, nn_value x);
nn_value zt_layer_binary(nn_low *w, zt_op op, nn_value a, nn_value b);
nn_value zt_layer_activate(nn_low *w, zt_nn_act act, nn_value x);
nn_value zt_layer_run(nn_low *w, const zt_nn_layer *l, nn_value x);
nn_value zt_layer_layer(nn_low *w, const zt_nn_layer *l, nn_value x); /* through a link, too */
nn_value zt_layer_of_grid(nn_low *w, const zt_nn_layer *l, nn_value x); /* no other is being run */
/* systolic.c: what the last place holds after that many cycles; each[cycles * places], or NULL. */
nn_value zt_layer_clock(nn_low *w, nn_value x, int64_t cycles, int *each);
nn_value zt_layer_none(void);                                         /* what failed */
/* Sizes of the planes that a convolution takes, as far as its numbers tell; how many dimensions. */
int zt_layer_planes(const zt_nn_layer *l, int64_t *dim);

#endif
