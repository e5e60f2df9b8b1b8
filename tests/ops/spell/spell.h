/* spell.h - how an op of the golden sets (ops/vjp, ops/onnx, layers) is spelled in zt, and what a
 * spelling reads of a case: attributes with their defaults, inputs' values, names.
 *
 * A set's spellings are lists, a file an owner here; all.h puts them together. A golden
 * op is one row of ours with its attributes and inputs named, or a `build` that emits several:
 *
 *     {"Celu", .build = build_celu},
 *     {"HardSwish", .op = ZT_OP_hard_swish},
 *     {"DFT", .build = build_dft, .without = complex_input},
 *     {"Unique", .no = "its shape hangs on values"},
 *
 * Never by a case's name: what is left out is an operator (`no`), or what `without` sees in a call.
 */
#ifndef ZT_SPELL_H
#define ZT_SPELL_H

#include "lib/run/run.h"
#include "tests/ops/spell/dtypes.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#define SPELL_FN __attribute__((unused)) static

/* Inputs, or outputs, of a case; constants that its build makes. */
enum { MAX_ARGS = 48, MAX_MADE = 160 };

/* A value of a case on the host. */
typedef struct held {
    zt_type type;
    void *data; /* NULL: it is not there */
} held;

typedef struct call {
    zt_prog *p;
    const char *op;
    const json_t *attrs;
    int n_in, n_out;  /* as many as the case lists, absent ones too */
    int in[MAX_ARGS]; /* values of the program; ZT_NONE: null */
    zt_type type[MAX_ARGS];
    const char *dtype[MAX_ARGS];     /* logical: "float32"; NULL: absent */
    const char *name[MAX_ARGS];      /* of the inputs: "w_ih_l0" */
    const void *data[MAX_ARGS];      /* their values, for shapes, axes and pads given as inputs */
    const char *out_dtype[MAX_ARGS]; /* NULL: nobody wants that output */
    int *more;                       /* a build's outputs after the first */
    held *made;                      /* what constant() made, in the order of the program's inputs */
    int *n_made;
} call;

typedef struct spelling {
    const char *golden;
    zt_op op;
    const char *attrs;              /* "golden:ours ..."; others have one name in both */
    const char *fixed;              /* "name=word" or "name=number ..." */
    const char *order;              /* our inputs as digits of the golden's; NULL: alike */
    bool ids;                       /* i64 inputs are indices: i32 here */
    int (*build)(const call *node); /* instead: emits its ops and returns the output; -1: not built */
    bool exact;                     /* a copy or a cast: floats too must be equal */
    bool sums;                      /* of many terms: atol grows with the largest value */
    const char *no;                 /* the whole operator is left out, for this reason */
    /* The reason why this call is left out; NULL: it is not. */
    const char *(*without)(const call *node);
} spelling;

#define SAME(name)                                                                                                               \
    {                                                                                                                            \
#name, .op = ZT_OP_##name                                                                                                \
    }

/* ---- values ---------------------------------------------------------------------------------- */

/* Element i of values of any dtype. */
SPELL_FN double element(const void *data, zt_dtype dtype, int64_t i)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    const char *at = (const char *)data + i / info->block * info->block_bytes;
    int64_t v = 0;
    double x;
    float f[256];
    if (dtype == ZT_F64) memcpy(&x, at, sizeof x);
    if (dtype == ZT_F64) return x;
    if (zt_dtype_is_float(dtype)) {
        info->decode(at, f, info->block);
        return (double)f[i % info->block];
    }
    memcpy(&v, at, (size_t)info->block_bytes);
    int unused = 64 - 8 * info->block_bytes;
    if (info->kind == 'I') return (double)((int64_t)((uint64_t)v << unused) >> unused);
    return (double)(uint64_t)v;
}

/* Is input i there? */
SPELL_FN bool given(const call *node, int i) { return i < node->n_in && node->in[i] != ZT_NONE; }

SPELL_FN int64_t count_of(const call *node, int i) { return given(node, i) ? zt_type_count(&node->type[i]) : 0; }

/* Value k of input i. */
SPELL_FN double value_of(const call *node, int i, int64_t k) { return element(node->data[i], node->type[i].dtype, k); }

/* An input of integers as a list (axes, shapes, pads); its length, -1 where it is absent. */
SPELL_FN int input_ints(const call *node, int i, int64_t *out, int room)
{
    if (!given(node, i)) return -1;
    int n = (int)count_of(node, i);
    for (int k = 0; k < n && k < room; k++) out[k] = (int64_t)value_of(node, i, k);
    return n < room ? n : room;
}

/* The value of the input called so ("w_ih_l0"); ZT_NONE: there is none. */
SPELL_FN int named(const call *node, const char *name)
{
    for (int i = 0; i < node->n_in; i++)
        if (node->name[i] && !strcmp(node->name[i], name)) return node->in[i];
    return ZT_NONE;
}

SPELL_FN int64_t dim_of(const call *node, int i, int axis)
{
    return node->type[i].dim[axis < 0 ? axis + node->type[i].rank : axis];
}

/* A value of the program that is always `data` (copied): tables, indices, masks of a build. */
SPELL_FN int constant(const call *node, zt_dtype dtype, int rank, const int64_t *dim, const void *data)
{
    char name[16];
    if (*node->n_made == MAX_MADE) return -1;
    held h = {.type = zt_type_make(dtype, rank, dim)};
    size_t size = zt_type_bytes(&h.type);
    h.data = malloc(size + 1);
    memcpy(h.data, data, size);
    snprintf(name, sizeof name, "c%d", *node->n_made);
    node->made[(*node->n_made)++] = h;
    return zt_prog_in(node->p, name, dtype, rank, dim);
}

SPELL_FN int reshaped(const call *node, int x, int rank, const int64_t *dim)
{
    zt_reshape_attrs a = {{rank, {0}}};
    if (rank < 0 || rank > ZT_MAX_RANK) return -1;
    if (rank) memcpy(a.shape.dim, dim, (size_t)rank * sizeof dim[0]);
    return zt_program_reshape(node->p, NULL, x, &a);
}

/* ---- attributes ------------------------------------------------------------------------------ */

SPELL_FN double json_number(const json_t *v)
{
    const char *s = json_string_value(v);
    if (s) return strtod(s, NULL); /* "inf" */
    return json_is_boolean(v) ? json_is_true(v) : json_number_value(v);
}

SPELL_FN bool has_attr(const call *node, const char *name)
{
    const json_t *v = json_object_get(node->attrs, name);
    return v && !json_is_null(v);
}

SPELL_FN double number_or(const call *node, const char *name, double otherwise)
{
    return has_attr(node, name) ? json_number(json_object_get(node->attrs, name)) : otherwise;
}

SPELL_FN double number(const call *node, const char *name) { return number_or(node, name, 0); }

SPELL_FN int64_t int_or(const call *node, const char *name, int64_t otherwise)
{
    const json_t *v = json_object_get(node->attrs, name);
    if (json_is_integer(v)) return json_integer_value(v);
    return (int64_t)number_or(node, name, (double)otherwise);
}

SPELL_FN const char *word_or(const call *node, const char *name, const char *otherwise)
{
    const char *s = json_string_value(json_object_get(node->attrs, name));
    return s ? s : otherwise;
}

SPELL_FN bool word_is(const call *node, const char *name, const char *word) { return !strcmp(word_or(node, name, ""), word); }

/* A list of integers, or one integer as a list of one; its length, -1 where it is absent. */
SPELL_FN int attr_ints(const call *node, const char *name, int64_t *out, int room)
{
    const json_t *value = json_object_get(node->attrs, name);
    if (!has_attr(node, name)) return -1;
    if (!json_is_array(value)) out[0] = (int64_t)json_number(value);
    if (!json_is_array(value)) return 1;
    int count = (int)json_array_size(value);
    for (int k = 0; k < count && k < room; k++) out[k] = (int64_t)json_number(json_array_get(value, (size_t)k));
    return count < room ? count : room;
}

/* Likewise of floats. */
SPELL_FN int attr_numbers(const call *node, const char *name, double *out, int room)
{
    const json_t *value = json_object_get(node->attrs, name);
    if (!has_attr(node, name)) return -1;
    if (!json_is_array(value)) out[0] = json_number(value);
    if (!json_is_array(value)) return 1;
    int count = (int)json_array_size(value);
    for (int k = 0; k < count && k < room; k++) out[k] = json_number(json_array_get(value, (size_t)k));
    return count < room ? count : room;
}

/* An axis attribute as an axis from the front of input i. */
SPELL_FN int64_t axis_or(const call *node, const char *name, int64_t otherwise, int i)
{
    int64_t axis = int_or(node, name, otherwise);
    return axis < 0 ? axis + node->type[i].rank : axis;
}

/* The dtype that attribute `name` numbers as ONNX does ("to": 10); ZT_DTYPE_COUNT: none of ours. */
SPELL_FN zt_dtype dtype_attr(const call *node, const char *name, int64_t otherwise)
{
    const logical *l = logical_number(int_or(node, name, otherwise));
    zt_dtype t;
    return l && dtype_of(l->name, &t) ? t : ZT_DTYPE_COUNT;
}

#endif
