/* ops.h - what every op means, once.
 *
 * ops.def lists the ops; from it come here the enum zt_op, one attribute struct an op that has
 * attributes (zt_rope_attrs) and its defaults (zt_rope_defaults). A row, zt_opdef zt_op_NAME, holds
 * the rest: synopsis, inference, reference loop, cost and cases. Everything else asks the row:
 * parser and printer, validation, the door, conformance tests. Nothing switches on an op's id.
 *
 * To add an op: a line in ops.def, a row in its family's file, kernels in the engines' lists.
 *
 * Letters: n rows (tokens), H heads, D head size, K columns in, M columns out, V vocabulary.
 */
#ifndef ZT_OPS_H
#define ZT_OPS_H

#include "lib/tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZT_MAX_IN 12
#define ZT_MAX_OUT 6
#define ZT_MAX_DONATED 2 /* inputs that a row uses up */
#define ZT_MAX_ATTR_BYTES 512

/* ---- attributes ----------------------------------------------------------------------------- */

typedef struct zt_enum_string {
    char s[24];
} zt_enum_string;
typedef struct zt_dims {
    int64_t n; /* how many; at most ZT_MAX_RANK */
    int64_t dim[ZT_MAX_RANK];
} zt_dims;
typedef struct zt_ints {
    int64_t n; /* how many; at most ZT_MAX_RANK */
    int64_t v[ZT_MAX_RANK];
} zt_ints;
typedef int64_t zt_attr_i64;
typedef double zt_attr_f64;
typedef zt_enum_string zt_attr_word;
typedef zt_dims zt_attr_dims;
typedef zt_ints zt_attr_ints;
typedef const char *zt_attr_str;
typedef const struct zt_func *zt_attr_func; /* borrowed; NULL: none */

typedef enum zt_attr_kind {
    ZT_ATTR_i64,
    ZT_ATTR_f64,
    ZT_ATTR_word,
    ZT_ATTR_dims, /* entries may be symbol expressions inside a program, never after binding */
    ZT_ATTR_ints, /* axes and the like: plain numbers, below 0 too */
    ZT_ATTR_str,
    ZT_ATTR_func /* a function of the caller's: in text its name, which zt_func_register makes known */
} zt_attr_kind;

typedef struct zt_attrdef {
    const char *name;
    zt_attr_kind kind;
    size_t offset; /* in the op's attribute struct */
} zt_attrdef;

/* Helpers that take ops.def's lists apart: in an OP(...) macro write ZT_NAMES_##ins and the like. */
#define ZT_COUNT_IN1(a) 1
#define ZT_COUNT_IN2(a, b) 2
#define ZT_COUNT_IN3(a, b, c) 3
#define ZT_COUNT_IN4(a, b, c, d) 4
#define ZT_COUNT_IN5(a, b, c, d, e) 5
#define ZT_COUNT_IN6(a, b, c, d, e, f) 6
#define ZT_COUNT_IN7(a, b, c, d, e, f, g) 7
#define ZT_COUNT_IN8(a, b, c, d, e, f, g, h) 8
#define ZT_COUNT_IN9(a, b, c, d, e, f, g, h, i) 9
#define ZT_COUNT_IN10(a, b, c, d, e, f, g, h, i, j) 10
#define ZT_COUNT_IN11(a, b, c, d, e, f, g, h, i, j, k) 11
#define ZT_COUNT_IN12(a, b, c, d, e, f, g, h, i, j, k, l) 12
#define ZT_COUNT_OUT1(a) 1
#define ZT_COUNT_OUT2(a, b) 2
#define ZT_COUNT_OUT3(a, b, c) 3
#define ZT_COUNT_OUT4(a, b, c, d) 4
#define ZT_COUNT_OUT5(a, b, c, d, e) 5
#define ZT_COUNT_OUT6(a, b, c, d, e, f) 6
#define ZT_NAMES_IN1(a) #a
#define ZT_NAMES_IN2(a, b) #a, #b
#define ZT_NAMES_IN3(a, b, c) #a, #b, #c
#define ZT_NAMES_IN4(a, b, c, d) #a, #b, #c, #d
#define ZT_NAMES_IN5(a, b, c, d, e) #a, #b, #c, #d, #e
#define ZT_NAMES_IN6(a, b, c, d, e, f) #a, #b, #c, #d, #e, #f
#define ZT_NAMES_IN7(a, b, c, d, e, f, g) #a, #b, #c, #d, #e, #f, #g
#define ZT_NAMES_IN8(a, b, c, d, e, f, g, h) #a, #b, #c, #d, #e, #f, #g, #h
#define ZT_NAMES_IN9(a, b, c, d, e, f, g, h, i) \
    #a, #b, #c, #d, #e, #f, #g, #h, #i
#define ZT_NAMES_IN10(a, b, c, d, e, f, g, h, i, j) \
    #a, #b, #c, #d, #e, #f, #g, #h, #i, #j
#define ZT_NAMES_IN11(a, b, c, d, e, f, g, h, i, j, k) \
    #a, #b, #c, #d, #e, #f, #g, #h, #i, #j, #k
#define ZT_NAMES_IN12(a, b, c, d, e, f, g, h, i, j, k, l) \
    #a, #b, #c, #d, #e, #f, #g, #h, #i, #j, #k, #l
#define ZT_NAMES_OUT1(a) #a
#define ZT_NAMES_OUT2(a, b) #a, #b
#define ZT_NAMES_OUT3(a, b, c) #a, #b, #c
#define ZT_NAMES_OUT4(a, b, c, d) #a, #b, #c, #d
#define ZT_NAMES_OUT5(a, b, c, d, e) #a, #b, #c, #d, #e
#define ZT_NAMES_OUT6(a, b, c, d, e, f) #a, #b, #c, #d, #e, #f
/* Parameters of a function that emits the op, by value numbers (ZT_PARAM_: its attributes). */
#define ZT_EMIT_IN1(a) , int a
#define ZT_EMIT_IN2(a, b) , int a, int b
#define ZT_EMIT_IN3(a, b, c) , int a, int b, int c
#define ZT_EMIT_IN4(a, b, c, d) , int a, int b, int c, int d
#define ZT_EMIT_IN5(a, b, c, d, e) , int a, int b, int c, int d, int e
#define ZT_EMIT_IN6(a, b, c, d, e, f) , int a, int b, int c, int d, int e, int f
#define ZT_EMIT_IN7(a, b, c, d, e, f, g) , int a, int b, int c, int d, int e, int f, int g
#define ZT_EMIT_IN8(a, b, c, d, e, f, g, h)                                                       \
    , int a, int b, int c, int d, int e, int f, int g, int h
#define ZT_EMIT_IN9(a, b, c, d, e, f, g, h, i) \
    ZT_EMIT_IN8(a, b, c, d, e, f, g, h), int i
#define ZT_EMIT_IN10(a, b, c, d, e, f, g, h, i, j) \
    ZT_EMIT_IN8(a, b, c, d, e, f, g, h), int i, int j
#define ZT_EMIT_IN11(a, b, c, d, e, f, g, h, i, j, k) \
    ZT_EMIT_IN8(a, b, c, d, e, f, g, h), int i, int j, int k
#define ZT_EMIT_IN12(a, b, c, d, e, f, g, h, i, j, k, l) \
    ZT_EMIT_IN8(a, b, c, d, e, f, g, h), int i, int j, int k, int l
#define ZT_EMIT_OUT1(a)
#define ZT_EMIT_OUT2(a, b) , int *b
#define ZT_EMIT_OUT3(a, b, c) , int *b, int *c
#define ZT_EMIT_OUT4(a, b, c, d) , int *b, int *c, int *d
#define ZT_EMIT_OUT5(a, b, c, d, e) , int *b, int *c, int *d, int *e
#define ZT_EMIT_OUT6(a, b, c, d, e, f) , int *b, int *c, int *d, int *e, int *f
#define ZT_PARAM_NONE(op)
#define ZT_PARAM_SOME(op) , const zt_##op##_attrs *attrs
#define ZT_PARAM_ATTR0 ZT_PARAM_NONE
#define ZT_PARAM_ATTR1(...) ZT_PARAM_SOME
#define ZT_PARAM_ATTR2(...) ZT_PARAM_SOME
#define ZT_PARAM_ATTR3(...) ZT_PARAM_SOME
#define ZT_PARAM_ATTR4(...) ZT_PARAM_SOME
#define ZT_PARAM_ATTR5(...) ZT_PARAM_SOME
#define ZT_PARAM_ATTR6(...) ZT_PARAM_SOME
#define ZT_PARAM_ATTR7(...) ZT_PARAM_SOME
#define ZT_PARAM_ATTR8(...) ZT_PARAM_SOME
#define ZT_PARAM_ATTR9(...) ZT_PARAM_SOME
#define ZT_PARAM_ATTR10(...) ZT_PARAM_SOME
#define ZT_PARAM_ATTR11(...) ZT_PARAM_SOME
#define ZT_PARAM_ATTR12(...) ZT_PARAM_SOME
/* For functions made from ops.def: the arguments of ZT_PARAM and the inputs' names, as given on. */
#define ZT_ARGS_IN1(a) a
#define ZT_ARGS_IN2(a, b) a, b
#define ZT_ARGS_IN3(a, b, c) a, b, c
#define ZT_ARGS_IN4(a, b, c, d) a, b, c, d
#define ZT_ARGS_IN5(a, b, c, d, e) a, b, c, d, e
#define ZT_ARGS_IN6(a, b, c, d, e, f) a, b, c, d, e, f
#define ZT_ARGS_IN7(a, b, c, d, e, f, g) a, b, c, d, e, f, g
#define ZT_ARGS_IN8(a, b, c, d, e, f, g, h) a, b, c, d, e, f, g, h
#define ZT_ARGS_IN9(a, b, c, d, e, f, g, h, i) a, b, c, d, e, f, g, h, i
#define ZT_ARGS_IN10(a, b, c, d, e, f, g, h, i, j) a, b, c, d, e, f, g, h, i, j
#define ZT_ARGS_IN11(a, b, c, d, e, f, g, h, i, j, k) a, b, c, d, e, f, g, h, i, j, k
#define ZT_ARGS_IN12(a, b, c, d, e, f, g, h, i, j, k, l) a, b, c, d, e, f, g, h, i, j, k, l
#define ZT_MORE_OUT1(a) NULL /* pointers for the outputs after the first */
#define ZT_MORE_OUT2(a, b) NULL, b
#define ZT_MORE_OUT3(a, b, c) NULL, b, c
#define ZT_MORE_OUT4(a, b, c, d) NULL, b, c, d
#define ZT_MORE_OUT5(a, b, c, d, e) NULL, b, c, d, e
#define ZT_MORE_OUT6(a, b, c, d, e, f) NULL, b, c, d, e, f
#define ZT_ATTRS_ATTR0 NULL
#define ZT_ATTRS_ATTR1(...) attrs
#define ZT_ATTRS_ATTR2(...) attrs
#define ZT_ATTRS_ATTR3(...) attrs
#define ZT_ATTRS_ATTR4(...) attrs
#define ZT_ATTRS_ATTR5(...) attrs
#define ZT_ATTRS_ATTR6(...) attrs
#define ZT_ATTRS_ATTR7(...) attrs
#define ZT_ATTRS_ATTR8(...) attrs
#define ZT_ATTRS_ATTR9(...) attrs
#define ZT_ATTRS_ATTR10(...) attrs
#define ZT_ATTRS_ATTR11(...) attrs
#define ZT_ATTRS_ATTR12(...) attrs
/* M(kind, name, default) for every attribute of a list, in order. */
#define ZT_EACH1(M, k, n, d) M(k, n, d)
#define ZT_EACH2(M, k, n, d, ...) M(k, n, d) ZT_EACH1(M, __VA_ARGS__)
#define ZT_EACH3(M, k, n, d, ...) M(k, n, d) ZT_EACH2(M, __VA_ARGS__)
#define ZT_EACH4(M, k, n, d, ...) M(k, n, d) ZT_EACH3(M, __VA_ARGS__)
#define ZT_EACH5(M, k, n, d, ...) M(k, n, d) ZT_EACH4(M, __VA_ARGS__)
#define ZT_EACH6(M, k, n, d, ...) M(k, n, d) ZT_EACH5(M, __VA_ARGS__)
#define ZT_EACH7(M, k, n, d, ...) M(k, n, d) ZT_EACH6(M, __VA_ARGS__)
#define ZT_EACH8(M, k, n, d, ...) M(k, n, d) ZT_EACH7(M, __VA_ARGS__)
#define ZT_EACH9(M, k, n, d, ...) M(k, n, d) ZT_EACH8(M, __VA_ARGS__)
#define ZT_EACH10(M, k, n, d, ...) M(k, n, d) ZT_EACH9(M, __VA_ARGS__)
#define ZT_EACH11(M, k, n, d, ...) M(k, n, d) ZT_EACH10(M, __VA_ARGS__)
#define ZT_EACH12(M, k, n, d, ...) M(k, n, d) ZT_EACH11(M, __VA_ARGS__)

typedef enum zt_op {
#define OP(name, ins, outs, attrs) ZT_OP_##name,
#include "lib/ops/ops.def"
#undef OP
    ZT_OP_COUNT
} zt_op;

/* typedef struct zt_rope_attrs { double theta; ... } zt_rope_attrs; an op without attributes has a
 * struct of one byte that nobody reads. */
#define ZT_FIELD(k, n, d) zt_attr_##k n;
#define ZT_FIELDS_ATTR0 char none;
#define ZT_FIELDS_ATTR1(...) ZT_EACH1(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR2(...) ZT_EACH2(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR3(...) ZT_EACH3(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR4(...) ZT_EACH4(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR5(...) ZT_EACH5(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR6(...) ZT_EACH6(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR7(...) ZT_EACH7(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR8(...) ZT_EACH8(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR9(...) ZT_EACH9(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR10(...) ZT_EACH10(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR11(...) ZT_EACH11(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR12(...) ZT_EACH12(ZT_FIELD, __VA_ARGS__)
#define OP(name, ins, outs, attrs)                                                                 \
    typedef struct zt_##name##_attrs {                                                             \
        ZT_FIELDS_##attrs                                                                          \
    } zt_##name##_attrs;
#include "lib/ops/ops.def"
#undef OP

/* zt_rope_attrs zt_rope_defaults(void) */
#define OP(name, ins, outs, attrs) zt_##name##_attrs zt_##name##_defaults(void);
#include "lib/ops/ops.def"
#undef OP

/* ---- the row ----------------------------------------------------------------------------------- */

/* What only running can find: an index out of range, an integer divided by zero. A kernel sets the
 * first it meets and goes on without harm; whoever runs programs turns it into an error. */
typedef struct zt_runtime_error {
    const char *what; /* NULL: none. "index", ... a constant */
    int64_t value, limit; /* limit -1: `what` says it all */
} zt_runtime_error;

/* An operand of a reference loop: every float value is f64, every integer and bool int64. */
typedef struct zt_arg {
    const zt_type *type; /* NULL: absent input, or an output that nobody wants */
    double *f;           /* of float dtypes, block types decoded */
    int64_t *i;          /* of integer dtypes and bool */
} zt_arg;

/* How a case's input is filled (zt_case_fill). */
typedef enum zt_fill {
    ZT_FILL_ABSENT, /* the optional input is not there */
    ZT_FILL_NORMAL, /* deviation 1 */
    ZT_FILL_IDS,    /* integers from 0 to limit - 1 */
    ZT_FILL_RISING, /* limit, limit + 1, ... : positions */
    ZT_FILL_ZERO,
    ZT_FILL_PERM, /* a block table [S,B]: row s is a permutation of 0..B-1 rotated by s * (B / S) */
    ZT_FILL_POSITIVE, /* a normal draw's size, and 0.2 */
    ZT_FILL_TIES,  /* floats from -2 to 2, whole numbers, with a NaN now and then */
    ZT_FILL_SMALL, /* deviation 0.1: weights of a recurrence that does not run away */
    ZT_FILL_UNIT,  /* between -1 and 1 */
    ZT_FILL_ABOVE  /* a normal draw's size, and 1.2 */
} zt_fill;

typedef struct zt_case {
    zt_type in[ZT_MAX_IN];
    zt_fill fill[ZT_MAX_IN];
    int64_t limit[ZT_MAX_IN];
    int64_t attrs[ZT_MAX_ATTR_BYTES / 8]; /* the op's attribute struct, starting as its defaults */
} zt_case;

enum {
    ZT_OPF_ELEMENTWISE = 1 << 0, /* out[i] depends on the inputs' i (after broadcasting) only */
    ZT_OPF_COMMUTATIVE = 1 << 1,
    ZT_OPF_VIEW = 1 << 2,        /* output 0 has the bytes of input 0: no kernel runs */
    ZT_OPF_INPLACE = 1 << 3,     /* output 0 may be placed over input 0 of the same type */
    ZT_OPF_RANDOM = 1 << 4,
    ZT_OPF_CALLERS = 1 << 5,     /* runs a function of the caller's: whole, in the caller's thread */
    ZT_OPF_SUMS = 1 << 6,        /* its values are long sums, mostly of products */
    ZT_OPF_EXACT = 1 << 7,       /* moves, or rounds once: every engine gives the same bits */
    /* On every engine that has it, exactly the bits of its expansion run op by op there: a pass may
     * put it in the place of one. */
    ZT_OPF_SAME = 1 << 8
};

/* ---- ops written as ops: gradients and expansions ----------------------------------------------- */

#define ZT_NONE (-2) /* an absent value; -1 is a failure passed on */

/* What a row writes ops through; lib/prog fills it in (zt_builder). Values are numbers. */
typedef struct zt_emit {
    void *user;
    /* One op more: in[k] ZT_NONE is absent, out[k] gets the outputs' values. On failure (a message
     * in the context) they are -1, which every later op refuses, so that rows need not look. */
    zt_status (*op)(void *user, zt_op op, const void *attrs, const int *in, int *out);
    /* Dtype and rank of a value; its dims, or -1 each where symbols may change them. */
    zt_type (*type)(void *user, int value);
} zt_emit;

/* One function an op,
 *
 *     int zt_build_mul(const zt_emit *e, int a, int b);
 *     int zt_build_rms_norm(const zt_emit *e, int x, int g, const zt_rms_norm_attrs *attrs, int *rstd);
 *
 * which gives its first output's value. They chain: what failed is -1, and all made of it is -1. */
#define OP(name, ins, outs, attrs)                                                                 \
    int zt_build_##name(const zt_emit *emitter ZT_EMIT_##ins ZT_PARAM_##attrs(name) ZT_EMIT_##outs);
#include "lib/ops/ops.def"
#undef OP

/* The vector-Jacobian product of one step: dx[k] = sum over outputs of dy^T (d out / d in[k]). */
typedef struct zt_vjp {
    const zt_emit *e;
    const void *attrs;
    const int *in, *out; /* the step's values; outputs that it reads are what the row saves */
    int dy[ZT_MAX_OUT];  /* cotangents of the outputs' types; ZT_NONE: none. At least one is there */
    bool want[ZT_MAX_IN]; /* is in[k]'s gradient asked for */
    int dx[ZT_MAX_IN];   /* starts as ZT_NONE, which says 0; each of the input's type */
    char refused[96];    /* not "": there is no gradient, and why */
} zt_vjp;

typedef struct zt_opdef {
    const char *synopsis; /* one line: "y[t,m] = sum_k x[t,k] w[m,k] + b[m]" */
    int n_required;       /* inputs from here on may be absent */
    unsigned flags;
    /* Types of the outputs from those of the inputs (NULL: absent), or one clear sentence with the
     * shapes in ctx. Attribute words are checked here too. All dims are numbers. Must accept
     * dimensions of 0. ctx carries the prefix "op rope: " outside; write only what is wrong. */
    zt_status (*infer)(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[]);
    /* The meaning, in plain loops. Inputs never change, but for those used up: out[k] aliases in[k]. */
    void (*ref)(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t);
    double (*flops)(const void *attrs, const zt_type *const in[], const zt_type *out); /* NULL: out */
    /* Bytes read and written. NULL: inputs once, outputs once; a view's none; of what is donated as
     * much is written as there is in the other inputs. */
    double (*bytes)(const void *attrs, const zt_type *const in[], const zt_type *out);
    /* The i-th case for tests and benchmarks; false past the last. Small, odd and empty shapes,
     * absent inputs, every attribute. */
    bool (*cases)(int i, zt_case *c);
    /* Writes the gradient as ops; NULL: that of `expand`, or none. */
    void (*vjp)(zt_vjp *v);
    /* A fused op in simpler ones, into out[k] (ZT_NONE at first; those that nobody wants may stay
     * so): its test, and its gradient where it has no vjp. */
    void (*expand)(const zt_emit *e, const void *attrs, const int *in, int *out);
    /* How often, one after the other, values are rounded to their type; NULL: once. */
    int (*roundings)(const void *attrs);
    /* The first so many inputs are used up: output k is input k's memory, updated. */
    int donates;
    /* Inputs (bit k) that may be of any float dtype, block types too, beside others of another. */
    unsigned weights;
    /* Float inputs (bit k) that are taken for constants: tables, masks. */
    unsigned constant;
    /* Outputs (bit k) kept for the gradient alone: one that would go through them is refused. */
    unsigned saved;
} zt_opdef;

/* ---- ops of the caller's own ---------------------------------------------------------------------- */

/* What op `call` runs, in a program as anywhere: y, z, w = call a b fn="name". A function of one
 * number, or of whole values; it keeps nothing between calls but `user`, and may be called from any
 * thread. Without a name it is opaque: programs with it run and have gradients, but their
 * text, where it is marked, does not find it again. */
typedef struct zt_func {
    const char *name;
    void *user;
    double (*unary)(double x, void *user); /* y[i] = unary(a[i]), floats of any plain type */
    const struct zt_func *derivative;      /* of `unary`: a function of one number too; NULL: none */
    /* Or, without `unary`: n_in of the inputs from a on, n_out of the outputs. */
    int n_in, n_out;
    /* Types of the outputs; NULL: that of a, each. zt_fail(ctx, ...) says what does not fit. */
    zt_status (*infer)(zt_ctx *ctx, void *user, const zt_type *const in[], zt_type out[]);
    void (*run)(void *user, const zt_arg *in, zt_arg *out, zt_runtime_error *t); /* as a row's ref */
    void (*vjp)(zt_vjp *v, void *user); /* as a row's; NULL: no gradient */
} zt_func;

/* Functions are borrowed: they must outlive the context, or be forgotten. ZT_EUSAGE: no name, no
 * code, wrong counts of inputs and outputs, or a name that another function has; ZT_ENOMEM. */
zt_status zt_func_register(zt_ctx *ctx, const zt_func *f);
void zt_func_forget(zt_ctx *ctx, const zt_func *f); /* not registered: nothing */
const zt_func *zt_func_find(const zt_ctx *ctx, const char *name); /* NULL: none of that name */

/* What ops.def knows of an op, with its row. */
typedef struct zt_opinfo {
    const char *name;
    int n_in, n_out, n_attrs;
    const char *in_name[ZT_MAX_IN];
    const char *out_name[ZT_MAX_OUT];
    const zt_attrdef *attrs; /* n_attrs of them */
    const void *defaults;    /* the attribute struct with its defaults */
    size_t attr_bytes;
    const zt_opdef *def;
} zt_opinfo;

const zt_opinfo *zt_op_info(zt_op op); /* valid for the program's life; NULL: out of range */
const char *zt_op_family(zt_op op); /* "linalg", "norm": that of its file and heading in ops.def */
bool zt_op_find(const char *name, size_t n, zt_op *out); /* name of n bytes; false: *out stays */
/* Outputs 0..n-1 have the memory of the inputs of the same number: a view's, or those used up. */
int zt_op_shares(zt_op op);
/* Its own, or by its expansion; what uses up inputs has none. */
bool zt_op_has_gradient(zt_op op);

/* Attributes with their strings, which live as the arena does; NULL: no memory. */
const void *zt_op_attrs_copy(zt_arena *memory, zt_op op, const void *attrs);

/* Infer through the row, with arity and attributes checked and any message saying op and types: "op
 * linear: w has 64 columns, x 63 (x f32[2,63], w q8_0[5,64])". attrs NULL: defaults; ctx NULL: no
 * message. */
zt_status zt_op_infer(zt_ctx *ctx, zt_op op, const void *attrs, const zt_type *const in[],
                      zt_type out[]);
/* The most that an engine's output may differ from the op's meaning on the same inputs, as normalised
 * mean squared error, sum (y - meaning)^2 / sum meaning^2; 0: not by a bit. attrs NULL: defaults. */
double zt_op_bound(zt_op op, const void *attrs, const zt_type *const in[], const zt_type *out);
/* Bits that it rounds its first input to, in blocks of 32 columns by the largest of each; 0: none.
 * Its bound is that for normal inputs, where the square of the largest is six times the mean. */
int zt_op_rounds(zt_op op, const void *attrs, const zt_type *const in[]);
/* Floating-point operations of one run. in and out as for zt_op_infer; attrs NULL: defaults. */
double zt_op_flops(zt_op op, const void *attrs, const zt_type *const in[], const zt_type *out);
/* Bytes that one run reads and writes; arguments as for zt_op_flops. */
double zt_op_bytes(zt_op op, const void *attrs, const zt_type *const in[], const zt_type *out);
/* Case i of an op, attributes starting as defaults; false past the last. */
bool zt_op_case(zt_op op, int i, zt_case *c);
/* Fill `dst` (a contiguous value of type c->in[k]) as the case says; same seed, same bytes. */
void zt_case_fill(const zt_case *c, int k, uint64_t seed, void *dst);

#ifdef __cplusplus
}
#endif
#endif
