/* row.h - private to lib/ops: what the rows of the op table share. */
#ifndef ZT_ROW_H
#define ZT_ROW_H

#include "lib/ops/ops.h"

#define OP(name, ins, outs, attrs) extern const zt_opdef zt_op_##name;
#include "lib/ops/ops.def"
#undef OP

/* zt_fail for inference: a NULL ctx only wants to know whether types fit (zt_op_infer asks a second
 * time, with a context, for the sentence). Write what is wrong; op and types are added outside. */
zt_status zt_row_fail(zt_ctx *ctx, zt_status s, const char *fmt, ...) ZT_PRINTF(3, 4);

/* ZT_ESHAPE unless input `name` has this dtype and rank (rank < 0: any). */
zt_status zt_row_want(zt_ctx *ctx, const char *name, const zt_type *type, zt_dtype dtype, int rank);
zt_status zt_row_want_float(zt_ctx *ctx, const char *name, const zt_type *type);  /* f64 f32 f16 bf16 */
zt_status zt_row_want_plain(zt_ctx *ctx, const char *name, const zt_type *type);  /* no block type */
zt_status zt_row_want_number(zt_ctx *ctx, const char *name, const zt_type *type); /* a plain float or integer type */
/* i32 or i64 of this rank (-1: any). */
zt_status zt_row_want_index(zt_ctx *ctx, const char *name, const zt_type *type, int rank);
/* Is a number an integer that a double holds exactly, like all its neighbours (up to 2^53)? */
bool zt_row_is_whole(double number);
/* ZT_EUSAGE unless attribute `name` is one of the n words. */
zt_status zt_row_word(zt_ctx *ctx, const char *name, const zt_enum_string *w, const char *const *words, int n);

/* What statistics of floats of a type are kept in: f64 of f64, else f32. */
static inline zt_dtype zt_row_wide(zt_dtype dtype) { return dtype == ZT_F64 ? ZT_F64 : ZT_F32; }

/* The dtype that attribute `to` names, and the word for one. */
zt_status zt_row_dtype(zt_ctx *ctx, const zt_enum_string *to, zt_dtype *out);
zt_enum_string zt_row_word_of(zt_dtype dtype);

/* The last dimension, and the product of all before it; a scalar is one row of one column. */
int64_t zt_row_cols(const zt_type *type);
int64_t zt_row_rows(const zt_type *type);
/* An axis from -rank to rank - 1; and counted from the front. */
zt_status zt_row_axis(zt_ctx *ctx, int64_t axis, int rank);
int zt_plain_axis(int64_t axis, int rank);
/* Element `from` of one operand becomes element `to` of another of its dtype; or that becomes 0. */
void zt_row_move(const zt_arg *x, int64_t from, zt_arg *y, int64_t to);
void zt_row_zero(zt_arg *y, int64_t to);
/* The low bits that an integer type keeps, as its value. */
int64_t zt_row_wrap(zt_dtype dtype, uint64_t v);
/* Shapes aligned at their last dimensions; where one has 1, or no dimension, it is repeated. */
zt_status zt_row_broadcast(zt_ctx *ctx, const zt_type *a, const zt_type *b, zt_type *y);
/* Elements from one index to the next along each of out's dimensions; 0 where t is repeated. */
void zt_row_strides(const zt_type *type, const zt_type *out, int64_t stride[ZT_MAX_RANK]);

void zt_row_runtime_error(zt_runtime_error *error, const char *what, int64_t value, int64_t limit);

/* Rules shared by families. */
zt_status zt_infer_same_float(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[]);

/* The ref of views: the same elements, whatever their shape. */
void zt_row_same_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error);
/* The flops of ops that only move, of those with one for each element of input 0, and of curves: ten
 * for each element of output 0. */
double zt_row_no_flops(const void *attrs, const zt_type *const in[], const zt_type *out);
/* Bytes of an op that reads parts of in[0] where in[1] says: as much as it writes. */
double zt_row_picked_bytes(const void *attrs, const zt_type *const in[], const zt_type *out);
double zt_row_curve_flops(const void *attrs, const zt_type *const in[], const zt_type *out);
double zt_row_in_flops(const void *attrs, const zt_type *const in[], const zt_type *out);

/* ---- cases ----------------------------------------------------------------------------------- */

#define ZT_LEN(a)        ((int)(sizeof(a) / sizeof((a)[0])))
#define ZT_MAX_CASE_RANK 4

typedef struct zt_case_type {
    zt_dtype dtype;
    int rank;
    int64_t dim[ZT_MAX_CASE_RANK];
} zt_case_type;

void zt_case_type_in(zt_case *test_case, int k, zt_fill fill, const zt_case_type *type);
/* The same with `fill` if t is of floats; else integers below `limit`, of bool below 2. */
void zt_case_plain_in(zt_case *test_case, int k, zt_fill fill, int64_t limit, const zt_case_type *type);
/* Input k: zt_case_in(c, 0, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){n, K}). */
void zt_case_in(zt_case *test_case, int k, zt_fill fill, int64_t limit, zt_dtype dtype, int rank, const int64_t *dim);
void zt_case_attrs(zt_case *test_case, const void *attrs, size_t bytes);
/* The shapes that every op of one float input meets, of rank 1 and more when `min_rank` is 1. */
bool zt_case_shape(int i, int min_rank, zt_case_type *type);

/* ---- the cache's slots ----------------------------------------------------------------------- */

/* Which row of a cache holds position p of row t's sequence: table[seq[t], p / block] * block +
 * p % block, block = ctx / B; no table: p itself, and only sequence 0. */
typedef struct zt_slots {
    const int64_t *seq, *table; /* NULL: absent */
    int64_t ctx, S, B, block;
} zt_slots;

zt_status zt_slots_infer(zt_ctx *ctx, int64_t n, int64_t rows, const zt_type *pos, const zt_type *seq, const zt_type *table);
zt_slots zt_slots_make(int64_t rows, const zt_arg *seq, const zt_arg *table);
/* The slot, or -1 and trouble: "position", "sequence" or "block". */
int64_t zt_slots_find(const zt_slots *s, int64_t t, int64_t p, zt_runtime_error *trouble);
/* Inputs k.. of a case: pos rising from pos0, seq (S > 0: random below S) and table (B > 0). */
void zt_slots_case(zt_case *test_case, int k, int64_t n, int64_t pos0, int64_t S, int64_t B);

#endif
