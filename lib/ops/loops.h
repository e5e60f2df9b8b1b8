/* loops.h - private to lib/ops: reference loops over operands whose shapes broadcast. */
#ifndef ZT_OPS_LOOPS_H
#define ZT_OPS_LOOPS_H

#include "lib/ops/vjp.h"

/* ---- broadcasting ---------------------------------------------------------------------------- */

/* Up to three operands stepped through together, in the order of the output's elements. */
typedef struct broadcast_steps {
    const zt_type *y;
    int n;
    int64_t stride[3][ZT_MAX_RANK], index[ZT_MAX_RANK], at[3];
} broadcast_steps;

static inline broadcast_steps broadcast_start(const zt_arg *in, int n, const zt_type *y)
{
    broadcast_steps steps = {.y = y, .n = n};
    for (int k = 0; k < n; k++) zt_row_strides(in[k].type, y, steps.stride[k]);
    return steps;
}

static inline void broadcast_next(broadcast_steps *w)
{
    for (int d = w->y->rank - 1; d >= 0; d--) {
        bool inside = ++w->index[d] < w->y->dim[d];
        for (int k = 0; k < w->n; k++) w->at[k] += inside ? w->stride[k][d] : -(w->index[d] - 1) * w->stride[k][d];
        if (inside) return;
        w->index[d] = 0;
    }
}

/* ---- integers -------------------------------------------------------------------------------- */

/* Integers wrap to their type as they do in its bits. */
static inline int64_t wrapped(zt_dtype dtype, uint64_t v)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    int unused = 64 - 8 * info->block_bytes;
    return info->kind == 'I' ? (int64_t)(v << unused) >> unused : (int64_t)(v << unused >> unused);
}

/* The order of integers: those of u64 are held as their bits, which order as int64_t once their
 * highest bit is changed. */
static inline int64_t flip_of(const zt_type *type) { return type->dtype == ZT_U64 ? INT64_MIN : 0; }

static inline bool lesser(int64_t a, int64_t b, int64_t flip) { return (a ^ flip) < (b ^ flip); }

/* REF(name, float expression of doubles a and b, integer expression of int64_t a and b; of u64 they
 * are the bits, and `flip` is the highest bit, of others 0: see `lesser`) */
// clang-format off
#define REF(NAME, F, I)                                                                            \
    static void NAME##_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)        \
    {                                                                                              \
        int64_t count = zt_type_count(out[0].type);                                                    \
        broadcast_steps steps = broadcast_start(in, 2, out[0].type);                                                \
        int64_t flip = flip_of(in[0].type);                                                        \
        (void)attrs, (void)error, (void)flip;                                                          \
        for (int64_t i = 0; i < count && out[0].f; i++, broadcast_next(&steps)) {                                 \
            double a = in[0].f[steps.at[0]], b = in[1].f[steps.at[1]];                                     \
            out[0].f[i] = F;                                                                       \
        }                                                                                          \
        for (int64_t i = 0; i < count && out[0].i; i++, broadcast_next(&steps)) {                                 \
            int64_t a = in[0].i[steps.at[0]], b = in[1].i[steps.at[1]];                                    \
            out[0].i[i] = wrapped(out[0].type->dtype, I);                                          \
        }                                                                                          \
    }

/* TEST(name, synopsis, expression of a and b, doubles or int64_t, flags, is it of their order) */
#define TEST(NAME, SYNOPSIS, EXPR, MORE, ORDERED)                                                  \
    static void NAME##_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)        \
    {                                                                                              \
        int64_t count = zt_type_count(out[0].type);                                                    \
        broadcast_steps steps = broadcast_start(in, 2, out[0].type);                                                \
        int64_t flip = ORDERED ? flip_of(in[0].type) : 0;                                          \
        (void)attrs, (void)error;                                                                      \
        for (int64_t i = 0; i < count && in[0].f; i++, broadcast_next(&steps)) {                                  \
            double a = in[0].f[steps.at[0]], b = in[1].f[steps.at[1]];                                     \
            out[0].i[i] = EXPR;                                                                    \
        }                                                                                          \
        for (int64_t i = 0; i < count && in[0].i; i++, broadcast_next(&steps)) {                                  \
            int64_t a = in[0].i[steps.at[0]] ^ flip, b = in[1].i[steps.at[1]] ^ flip;                      \
            out[0].i[i] = EXPR;                                                                    \
        }                                                                                          \
    }                                                                                              \
    const zt_opdef zt_op_##NAME = {                                                                \
        .synopsis = SYNOPSIS "; shapes broadcast as in NumPy; a and b of the same type, any but block "  \
                             "types, y bool",                                                      \
        .n_required = 2,                                                                           \
        .flags = ZT_OPF_ELEMENTWISE | MORE,                                                        \
        .infer = zt_infer_truth,                                                                       \
        .ref = NAME##_ref,                                                                         \
        .cases = zt_pairs_compared,                                                                    \
    };
// clang-format on

/* ---- elementwise_binary.c, elementwise_unary.c ---------------------------------------------- */

bool zt_pairs_float(int i, zt_fill fill, zt_case *test_case);
bool zt_pairs_int(int i, zt_case *test_case);       /* b counts up from 1, so that it divides and shifts */
bool zt_pairs_compared(int i, zt_case *test_case);  /* of every type, often equal */
bool zt_pairs_first(bool more, zt_case *test_case); /* the pair without its second value; `more` */
bool zt_cases_unary(int i, zt_case *test_case);     /* one float value, no attributes */

/* ZT_ESHAPE unless in[0] and in[1] are of one dtype, and that no block type. */
zt_status zt_infer_one_dtype(zt_ctx *ctx, const zt_type *const in[]);
/* Two values of one type, broadcast, to bool. */
zt_status zt_infer_truth(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[]);

/* Two values of one integer type, broadcast; and of a single value. */
zt_status zt_infer_integers(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[]);

#endif
