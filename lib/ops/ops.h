/* ops.h - the table of ops: what every op means, once.
 *
 * An op is a line of ops.def, which lists its inputs, outputs and attributes, and a row (zt_opdef zt_op_NAME, in its
 * family's file), which holds its meaning: type inference, reference loop, gradient, cost, test cases. Everything else asks
 * the table: parser and printer, validation, eager calls, passes, conformance tests. Nothing switches on an op's number.
 *
 *   ZT_OP_rope                    its number
 *   zt_rope_attrs                 its attributes, a struct
 *   zt_rope_defaults()            what they are where nothing is said
 *   zt_build_rope(emit, ...)      writes it among ops of a row (gradients, expansions)
 *   zt_program_rope(program, ...) writes it to a program (prog/prog.h)
 *   zt_eager_rope(run, ...)       runs it (run/run.h)
 *
 * To add an op: a line in ops.def, a row in its family's file, kernels in the engines' lists. An op of a program's own
 * needs none of this: zt_func below.
 *
 * Letters in synopses: n rows (tokens), H heads, D head size, K columns in, M columns out, V vocabulary.
 */
#ifndef ZT_OPS_H
#define ZT_OPS_H

#include "lib/ops/ops_list.h"
#include "lib/tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZT_MAX_IN         12  /* inputs of an op */
#define ZT_MAX_OUT        7   /* outputs */
#define ZT_MAX_DONATED    2   /* inputs that it uses up */
#define ZT_MAX_ATTR_BYTES 512 /* of its attribute struct */

/* ---- attributes ----------------------------------------------------------------------------- */

/* A bare word, one of those that the op has: at most 23 letters. */
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
    ZT_ATTR_ints, /* axes and other integers, may be negative */
    ZT_ATTR_str,
    ZT_ATTR_func /* a function of the caller's: in text its name, which zt_func_register makes known */
} zt_attr_kind;

typedef struct zt_attrdef {
    const char *name;
    zt_attr_kind kind;
    size_t offset; /* in the op's attribute struct */
} zt_attrdef;

/* A state of a recurrence is f32 [S,...]: S slots of a fixed size. Inputs i32[n] name for each row of a step the slot that
 * it starts from, or one of these, and the slot that gets the state after it (-1: none). */
enum zt_state_start {
    ZT_STATE_ZEROS = -1,    /* starts from zeros */
    ZT_STATE_CONTINUED = -2 /* continues the row before it; not the first row */
};

/* ---- what ops.def makes: one of each an op ---------------------------------------------------- */

/* ZT_OP_add, ZT_OP_sub, ... */
typedef enum zt_op {
#define OP(name, ins, outs, attrs) ZT_OP_##name,
#include "lib/ops/ops.def"
#undef OP
    ZT_OP_COUNT
} zt_op;

/* typedef struct zt_rope_attrs { double theta; ... } zt_rope_attrs; an op without attributes has a
 * struct of one byte that nobody reads. */
#define OP(name, ins, outs, attrs)                                                                                               \
    typedef struct zt_##name##_attrs {                                                                                           \
        ZT_FIELDS_##attrs                                                                                                        \
    } zt_##name##_attrs;
#include "lib/ops/ops.def"
#undef OP

/* zt_rope_attrs zt_rope_defaults(void): the values of ops.def. */
#define OP(name, ins, outs, attrs) zt_##name##_attrs zt_##name##_defaults(void);
#include "lib/ops/ops.def"
#undef OP

/* ---- the row ----------------------------------------------------------------------------------- */

/* What only running can find: an index out of range, an integer divided by zero. A kernel sets the
 * first it meets and goes on without harm; whoever runs programs turns it into an error. */
typedef struct zt_runtime_error {
    const char *what;     /* NULL: none. "index", ... a constant */
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
    ZT_FILL_ABSENT, /* the optional input is absent */
    ZT_FILL_NORMAL, /* deviation 1 */
    ZT_FILL_IDS,    /* integers from 0 to limit - 1 */
    ZT_FILL_RISING, /* limit, limit + 1, ... : positions */
    ZT_FILL_ZERO,
    ZT_FILL_PERM,     /* a block table [S,B]: row s is a permutation of 0..B-1 rotated by s * (B / S) */
    ZT_FILL_POSITIVE, /* a normal draw's size, and 0.2 */
    ZT_FILL_TIES,     /* floats from -2 to 2, whole numbers, with a NaN now and then */
    ZT_FILL_SMALL,    /* deviation 0.1: weights of a recurrence that does not run away */
    ZT_FILL_UNIT,     /* between -1 and 1 */
    ZT_FILL_ABOVE,    /* a normal draw's size, and 1.2 */
    ZT_FILL_STARTS,   /* where rows of a recurrence start: -1, slots below limit, -2 behind row 0; limit 0: one sequence in
                         slot 0 */
    ZT_FILL_ENDS      /* where their states go: -1 and slots below limit; limit 0: the last to slot 0 */
} zt_fill;

/* A case for tests and benchmarks: types of the inputs, and what fills them. */
typedef struct zt_case {
    zt_type in[ZT_MAX_IN];
    zt_fill fill[ZT_MAX_IN];
    int64_t limit[ZT_MAX_IN];             /* of zt_fill */
    int64_t attrs[ZT_MAX_ATTR_BYTES / 8]; /* the op's attribute struct, starting as its defaults */
} zt_case;

/* Flags of a row. */
enum {
    ZT_OPF_ELEMENTWISE = 1 << 0, /* out[i] depends on the inputs' i (after broadcasting) only */
    ZT_OPF_COMMUTATIVE = 1 << 1,
    ZT_OPF_VIEW = 1 << 2,    /* output 0 has the bytes of input 0: no kernel runs */
    ZT_OPF_INPLACE = 1 << 3, /* output 0 may be placed over input 0 of the same type */
    ZT_OPF_RANDOM = 1 << 4,
    ZT_OPF_CALLERS = 1 << 5, /* runs a function of the caller's: whole, in the caller's thread */
    ZT_OPF_SUMS = 1 << 6,    /* its values are long sums, mostly of products */
    ZT_OPF_EXACT = 1 << 7,   /* moves, or rounds once: every engine gives the same bits */
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
 *     int zt_build_mul(const zt_emit *emit, int a, int b);
 *     int zt_build_rms_norm(const zt_emit *emit, int x, int g, const zt_rms_norm_attrs *attrs, int *rstd);
 *
 * which gives its first output's value. They chain: what failed is -1, and all made of it is -1. */
#define OP(name, ins, outs, attrs)                                                                                               \
    int zt_build_##name(const zt_emit *emitter ZT_EMIT_##ins ZT_PARAM_##attrs(name) ZT_EMIT_##outs);
#include "lib/ops/ops.def"
#undef OP

/* The vector-Jacobian product of one step: dx[k] = sum over outputs of dy^T (d out / d in[k]). */
typedef struct zt_vjp {
    const zt_emit *emit;  /* through which it writes ops */
    const void *attrs;    /* the step's */
    const int *in, *out;  /* the step's values; outputs that it reads are what the row saves */
    int dy[ZT_MAX_OUT];   /* cotangents of the outputs' types; ZT_NONE: none. At least one is present */
    bool want[ZT_MAX_IN]; /* is the gradient of in[k] requested */
    int dx[ZT_MAX_IN];    /* starts as ZT_NONE, which says 0; each of the input's type */
    char refused[96];     /* not "": not differentiable, and why */
} zt_vjp;

/* A row. Functions with `attrs` take the op's attribute struct. */
typedef struct zt_opdef {
    const char *synopsis; /* one line: "y[t,m] = sum_k x[t,k] w[m,k] + b[m]" */
    int n_required;       /* inputs from here on may be absent */
    unsigned flags;
    /* Types of the outputs from those of the inputs (NULL: absent), or one clear message with the
     * shapes in ctx. Attribute words are checked here too. All dims are numbers. Must accept
     * dimensions of 0. ctx carries the prefix "op rope: " outside; write only what is wrong. */
    zt_status (*infer)(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[]);
    /* The meaning, in plain loops. Inputs do not change, except donated ones: out[k] aliases in[k]. */
    void (*ref)(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error);
    double (*flops)(const void *attrs, const zt_type *const in[], const zt_type *out); /* NULL: out */
    /* Bytes read and written. NULL: inputs once, outputs once; a view's none; of what is donated as
     * much is written as there is in the other inputs. */
    double (*bytes)(const void *attrs, const zt_type *const in[], const zt_type *out);
    /* The i-th case for tests and benchmarks; false past the last. Small, odd and empty shapes,
     * absent inputs, every attribute. */
    bool (*cases)(int i, zt_case *test_case);
    /* Writes the gradient as ops; NULL: that of `expand`, or none. */
    void (*vjp)(zt_vjp *vjp);
    /* A fused op in simpler ones, into out[k] (ZT_NONE at first; those that nobody wants may stay
     * so): its test, and its gradient where it has no vjp. */
    void (*expand)(const zt_emit *emit, const void *attrs, const int *in, int *out);
    /* How often, one after the other, values are rounded to their type; NULL: once. */
    int (*roundings)(const void *attrs);
    /* The number of donated inputs, the first ones: output k is the memory of input k, updated. */
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
    void (*run)(void *user, const zt_arg *in, zt_arg *out, zt_runtime_error *error); /* as a row's ref */
    void (*vjp)(zt_vjp *vjp, void *user);                                            /* as a row's; NULL: no gradient */
} zt_func;

/* Functions are borrowed: they must outlive the context, or be forgotten. ZT_EUSAGE: no name, no
 * code, wrong counts of inputs and outputs, or a name that another function has; ZT_ENOMEM. */
zt_status zt_func_register(zt_ctx *ctx, const zt_func *func);
void zt_func_forget(zt_ctx *ctx, const zt_func *func);            /* not registered: nothing */
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

const zt_opinfo *zt_op_info(zt_op op);                   /* valid for the program's life; NULL: out of range */
const char *zt_op_family(zt_op op);                      /* "linalg", "norm": its heading in ops.def */
bool zt_op_find(const char *name, size_t n, zt_op *out); /* name of n bytes, old ones too; false: *out stays */
const char *zt_op_old_name(zt_op op);                    /* what programs of earlier releases call it; NULL: the same */
/* Outputs 0..n-1 have the memory of the inputs of the same number: those of a view, or donated ones. 0: no such op. */
int zt_op_shares(zt_op op);
/* By its vjp, which may read what the op overwrites, or by its expansion, which ops with donated inputs have not. false: no such op. */
bool zt_op_has_gradient(zt_op op);

/* Attributes with their strings, which live as the arena does; NULL: no memory. */
const void *zt_op_attrs_copy(zt_arena *memory, zt_op op, const void *attrs);

/* Infer through the row, with arity and attributes checked and any message saying op and types: "op
 * linear: w has 64 columns, but x has 63 (x f32[2,63], w q8_0[5,64])". attrs NULL: defaults; ctx NULL: no
 * message. */
zt_status zt_op_infer(zt_ctx *ctx, zt_op op, const void *attrs, const zt_type *const in[], zt_type out[]);
/* The most that an engine's output may differ from the op's meaning on the same inputs, as normalised
 * mean squared error, sum (y - meaning)^2 / sum meaning^2; 0: bit-exact, or no such op. attrs NULL: defaults. */
double zt_op_bound(zt_op op, const void *attrs, const zt_type *const in[], const zt_type *out);
/* Bits that it rounds its first input to, in blocks of 32 columns by the largest of each; 0: none.
 * Its bound is that for normal inputs, where the square of the largest is six times the mean. */
int zt_op_rounds(zt_op op, const void *attrs, const zt_type *const in[]);
/* Floating-point operations of one run. in and out as for zt_op_infer; attrs NULL: defaults. 0: no such op. */
double zt_op_flops(zt_op op, const void *attrs, const zt_type *const in[], const zt_type *out);
/* Bytes that one run reads and writes; arguments as for zt_op_flops. */
double zt_op_bytes(zt_op op, const void *attrs, const zt_type *const in[], const zt_type *out);
/* Case i of an op, attributes starting as defaults; false past the last, or no such op. */
bool zt_op_case(zt_op op, int i, zt_case *test_case);
/* Fill `dst` (a contiguous value of type test_case->in[k]) as the case says; same seed, same bytes. */
void zt_case_fill(const zt_case *test_case, int k, uint64_t seed, void *dst);

#ifdef __cplusplus
}
#endif
#endif
