/* elementwise_bits.c - rows of the ops on the bits of integers. */
#include "lib/ops/loops.h"

/* ---- two integers ---------------------------------------------------------------------------- */

/* How far b shifts: the type's width, which leaves none of its bits, where b is not below it. */
static int bit_width(const zt_type *type) { return 8 * zt_dtype_get(type->dtype)->block_bytes; }

static bool too_far(int64_t b, const zt_type *type) { return b < 0 || b >= bit_width(type); }

/* a << b; and a >> b, which keeps the sign of signed types. */
static uint64_t shifted_left(int64_t a, int64_t b, const zt_type *type) { return too_far(b, type) ? 0 : (uint64_t)a << b; }

static uint64_t shifted_right(int64_t a, int64_t b, const zt_type *type)
{
    if (zt_dtype_get(type->dtype)->kind == 'U') return too_far(b, type) ? 0 : (uint64_t)a >> b;
    return (uint64_t)(a >> (too_far(b, type) ? 63 : b));
}

// clang-format off
#define BITS(NAME, SYNOPSIS, EXPR, MORE)                                                           \
    REF(NAME, 0 * (a + b), EXPR)                                                                   \
    const zt_opdef zt_op_##NAME = {                                                                \
        .synopsis = SYNOPSIS "; shapes broadcast as in NumPy; a, b and y of the same integer type",      \
        .n_required = 2,                                                                           \
        .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE | MORE,                                       \
        .infer = zt_infer_integers,                                                                \
        .ref = NAME##_ref,                                                                         \
        .cases = zt_pairs_int,                                                                     \
    };
// clang-format on
BITS(bitwise_and, "y = a AND b, bitwise", (uint64_t)(a &b), ZT_OPF_COMMUTATIVE)
BITS(bitwise_or, "y = a OR b, bitwise", (uint64_t)(a | b), ZT_OPF_COMMUTATIVE)
BITS(bitwise_xor, "y = a XOR b, bitwise", (uint64_t)(a ^ b), ZT_OPF_COMMUTATIVE)
BITS(shift_left, "y = a << b; 0 where b is negative or at least the width of the type", shifted_left(a, b, in[0].type), 0)
BITS(shift_right,
     "y = a >> b, arithmetic for signed types; where b is negative or at least the width "
     "of the type, only the sign remains",
     shifted_right(a, b, in[0].type), 0)

/* ---- one integer ----------------------------------------------------------------------------- */

static zt_status bitwise_not_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    char kind = zt_dtype_get(in[0]->dtype)->kind;
    (void)attrs;
    out[0] = *in[0];
    if (kind == 'I' || kind == 'U') return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "x has dtype %s: must be an integer type", zt_dtype_get(in[0]->dtype)->name);
}

static void bitwise_not_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    int64_t count = zt_type_count(out[0].type);
    (void)attrs, (void)error;
    for (int64_t i = 0; i < count; i++) out[0].i[i] = wrapped(out[0].type->dtype, ~(uint64_t)in[0].i[i]);
}

static bool bitwise_not_cases(int i, zt_case *test_case) { return zt_pairs_first(zt_pairs_int(i, test_case), test_case); }

const zt_opdef zt_op_bitwise_not = {
    .synopsis = "y[i] = NOT x[i], bitwise; any integer type, y has the type of x",
    .n_required = 1,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = bitwise_not_infer,
    .ref = bitwise_not_ref,
    .cases = bitwise_not_cases,
};
