/* elementwise_binary.c - rows of arithmetic on two values, whose shapes broadcast as in NumPy; and of gated units. */
#include "lib/ops/activations.h"
#include "lib/ops/loops.h"

#include <math.h>
#include <string.h>

/* ---- types ----------------------------------------------------------------------------------- */

zt_status zt_infer_one_dtype(zt_ctx *ctx, const zt_type *const in[])
{
    if (zt_dtype_get(in[0]->dtype)->kind == 'Q') return zt_row_fail(ctx, ZT_ESHAPE, "a is of a block type");
    if (in[0]->dtype == in[1]->dtype) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "a and b have different dtypes");
}

static zt_status number_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    (void)attrs;
    if (in[0]->dtype == ZT_BOOL) return zt_row_fail(ctx, ZT_ESHAPE, "a is bool: must be a numeric type");
    zt_status status = zt_infer_one_dtype(ctx, in);
    return status ? status : zt_row_broadcast(ctx, in[0], in[1], &out[0]);
}

zt_status zt_infer_integers(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    char kind = zt_dtype_get(in[0]->dtype)->kind;
    if (kind != 'I' && kind != 'U')
        return zt_row_fail(ctx, ZT_ESHAPE, "a has dtype %s: must be an integer type", zt_dtype_get(in[0]->dtype)->name);
    return number_infer(ctx, attrs, in, out);
}

zt_status zt_infer_truth(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    (void)attrs;
    zt_status status = zt_infer_one_dtype(ctx, in);
    if (!status) status = zt_row_broadcast(ctx, in[0], in[1], &out[0]);
    out[0].dtype = ZT_BOOL;
    return status;
}

/* ---- cases ----------------------------------------------------------------------------------- */

static const zt_case_type float_pairs[][2] = {
    {{ZT_F32, 2, {2, 33}}, {ZT_F32, 2, {2, 33}}},   {{ZT_F32, 2, {9, 576}}, {ZT_F32, 2, {9, 576}}},
    {{ZT_F32, 2, {7, 576}}, {ZT_F32, 1, {576}}},    {{ZT_F32, 1, {33}}, {ZT_F32, 2, {5, 33}}},
    {{ZT_F32, 2, {5, 33}}, {ZT_F32, 2, {5, 1}}},    {{ZT_F32, 2, {1, 33}}, {ZT_F32, 2, {5, 1}}},
    {{ZT_F32, 3, {3, 1, 4}}, {ZT_F32, 2, {2, 1}}},  {{ZT_F32, 0, {0}}, {ZT_F32, 1, {5}}},
    {{ZT_F32, 0, {0}}, {ZT_F32, 0, {0}}},           {{ZT_F32, 2, {0, 4}}, {ZT_F32, 1, {4}}},
    {{ZT_F32, 2, {1, 4}}, {ZT_F32, 2, {0, 4}}},     {{ZT_F16, 2, {3, 40}}, {ZT_F16, 1, {40}}},
    {{ZT_BF16, 2, {3, 40}}, {ZT_BF16, 2, {3, 40}}}, {{ZT_F64, 2, {3, 40}}, {ZT_F64, 2, {3, 1}}},
};
static const zt_case_type int_pairs[][2] = {
    {{ZT_I32, 2, {5, 13}}, {ZT_I32, 2, {5, 13}}}, {{ZT_I64, 2, {3, 1}}, {ZT_I64, 1, {5}}},
    {{ZT_I16, 1, {33}}, {ZT_I16, 0, {0}}},        {{ZT_I8, 2, {7, 9}}, {ZT_I8, 1, {9}}},
    {{ZT_U8, 2, {7, 9}}, {ZT_U8, 2, {7, 1}}},     {{ZT_I32, 1, {0}}, {ZT_I32, 1, {0}}},
    {{ZT_U16, 1, {33}}, {ZT_U16, 1, {33}}},       {{ZT_U32, 2, {3, 5}}, {ZT_U32, 1, {5}}},
    {{ZT_U64, 1, {33}}, {ZT_U64, 1, {33}}},       {{ZT_I32, 2, {40, 133}}, {ZT_I32, 1, {133}}},
};
static const zt_case_type bool_pairs[][2] = {
    {{ZT_BOOL, 2, {5, 13}}, {ZT_BOOL, 1, {13}}},
    {{ZT_BOOL, 1, {3000}}, {ZT_BOOL, 1, {3000}}},
};

static bool pair_at(const zt_case_type (*list)[2], int n, int *i, zt_fill fill, zt_case *test_case)
{
    if (*i >= n) {
        *i -= n;
        return false;
    }
    for (int k = 0; k < 2; k++) zt_case_type_in(test_case, k, fill, &list[*i][k]);
    return true;
}

static bool float_cases(int i, zt_case *test_case)
{
    return pair_at(float_pairs, ZT_LEN(float_pairs), &i, ZT_FILL_NORMAL, test_case);
}

static bool positive_cases(int i, zt_case *test_case)
{
    return pair_at(float_pairs, ZT_LEN(float_pairs), &i, ZT_FILL_POSITIVE, test_case);
}

bool zt_pairs_float(int i, zt_fill fill, zt_case *test_case)
{
    return pair_at(float_pairs, ZT_LEN(float_pairs), &i, fill, test_case);
}

bool zt_pairs_int(int i, zt_case *test_case)
{
    if (!pair_at(int_pairs, ZT_LEN(int_pairs), &i, ZT_FILL_IDS, test_case)) return false;
    test_case->limit[0] = 120;
    test_case->fill[1] = ZT_FILL_RISING;
    test_case->limit[1] = 1;
    return true;
}

static bool number_cases(int i, zt_case *test_case)
{
    return i < ZT_LEN(float_pairs) ? float_cases(i, test_case) : zt_pairs_int(i - ZT_LEN(float_pairs), test_case);
}

static bool divide_cases(int i, zt_case *test_case)
{
    return i < ZT_LEN(float_pairs) ? positive_cases(i, test_case) : zt_pairs_int(i - ZT_LEN(float_pairs), test_case);
}

/* Integers to exponents from 0 to 69. */
static bool power_cases(int i, zt_case *test_case)
{
    if (positive_cases(i, test_case)) return true;
    i -= ZT_LEN(float_pairs);
    if (!pair_at(int_pairs, ZT_LEN(int_pairs), &i, ZT_FILL_IDS, test_case)) return false;
    test_case->limit[0] = 120;
    test_case->limit[1] = 70;
    return true;
}

bool zt_pairs_compared(int i, zt_case *test_case)
{
    if (pair_at(float_pairs, ZT_LEN(float_pairs), &i, ZT_FILL_TIES, test_case)) return true;
    bool ids = pair_at(int_pairs, ZT_LEN(int_pairs), &i, ZT_FILL_IDS, test_case) ||
               pair_at(bool_pairs, ZT_LEN(bool_pairs), &i, ZT_FILL_IDS, test_case);
    test_case->limit[0] = test_case->limit[1] = test_case->in[0].dtype == ZT_BOOL ? 2 : 4;
    return ids;
}

bool zt_pairs_first(bool more, zt_case *test_case)
{
    test_case->in[1] = (zt_type){0};
    test_case->fill[1] = ZT_FILL_ABSENT;
    return more;
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* Towards zero; the least divided by -1 is itself, wrapped; by zero an error and 0. */
static uint64_t quotient(int64_t a, int64_t b, int64_t flip, zt_runtime_error *error)
{
    if (b == 0) zt_row_runtime_error(error, "integer division by zero", 0, -1);
    if (b == 0) return 0;
    if (flip) return (uint64_t)a / (uint64_t)b;
    return b == -1 ? -(uint64_t)a : (uint64_t)(a / b);
}

/* What that leaves, of a's sign; and, floored, of b's. */
static uint64_t remainder_of(int64_t a, int64_t b, int64_t flip, zt_runtime_error *error)
{
    return (uint64_t)a - quotient(a, b, flip, error) * (uint64_t)b;
}

static uint64_t modulus(int64_t a, int64_t b, int64_t flip, zt_runtime_error *error)
{
    int64_t r = (int64_t)remainder_of(a, b, flip, error);
    if (b == 0) return 0;
    return (uint64_t)(r && !flip && (r < 0) != (b < 0) ? r + b : r);
}

static double float_modulus(double a, double b)
{
    double r = fmod(a, b);
    if (r == 0) return copysign(0, b);
    return (r < 0) != (b < 0) ? r + b : r; /* NaN stays */
}

/* NaN wins, as numpy's maximum and minimum have it. */
static double larger_of(double a, double b) { return a > b || isnan(a) ? a : b; }

static double smaller_of(double a, double b) { return a < b || isnan(a) ? a : b; }

REF(add, a + b, (uint64_t)a + (uint64_t)b)
REF(sub, a - b, (uint64_t)a - (uint64_t)b)
REF(mul, a *b, (uint64_t)a *(uint64_t)b)
REF(div, a / b, quotient(a, b, flip, error))
REF(mod, float_modulus(a, b), modulus(a, b, flip, error))
REF(fmod, fmod(a, b), b ? remainder_of(a, b, flip, error) : quotient(a, b, flip, error))
REF(max, larger_of(a, b), (uint64_t)(lesser(b, a, flip) ? a : b))
REF(min, smaller_of(a, b), (uint64_t)(lesser(a, b, flip) ? a : b))
/* By squares, wrapped; 0^0 is 1. A negative exponent is an error and 0. */
static uint64_t integer_power(uint64_t a, int64_t b, int64_t flip, zt_runtime_error *error)
{
    uint64_t y = 1;
    if (b < 0 && !flip) {
        zt_row_runtime_error(error, "negative integer exponent", b, -1);
        return 0;
    }
    for (uint64_t rest = (uint64_t)b; rest; rest >>= 1, a *= a)
        if (rest & 1) y *= a;
    return y;
}

REF(pow, pow(a, b), integer_power((uint64_t)a, b, flip, error))

static void add_vjp(zt_vjp *vjp)
{
    for (int k = 0; k < 2; k++)
        if (vjp->want[k]) vjp->dx[k] = zt_build_reduced(vjp->emit, vjp->dy[0], vjp->in[k]);
}

static void sub_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    if (vjp->want[0]) vjp->dx[0] = zt_build_reduced(emit, vjp->dy[0], vjp->in[0]);
    if (vjp->want[1]) vjp->dx[1] = zt_build_reduced(emit, zt_build_neg(emit, vjp->dy[0]), vjp->in[1]);
}

static void mul_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    for (int k = 0; k < 2; k++)
        if (vjp->want[k]) vjp->dx[k] = zt_build_reduced(emit, zt_build_mul(emit, vjp->dy[0], vjp->in[1 - k]), vjp->in[k]);
}

static void div_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    int da = zt_build_div(emit, vjp->dy[0], vjp->in[1]);
    if (vjp->want[0]) vjp->dx[0] = zt_build_reduced(emit, da, vjp->in[0]);
    if (vjp->want[1]) vjp->dx[1] = zt_build_reduced(emit, zt_build_neg(emit, zt_build_mul(emit, da, vjp->out[0])), vjp->in[1]);
}

/* y = a - q b, q whole: db = -dy q = dy (y - a) / b. */
static void mod_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    if (vjp->want[0]) vjp->dx[0] = zt_build_reduced(emit, vjp->dy[0], vjp->in[0]);
    if (vjp->want[1]) {
        int q = zt_build_round(emit, zt_build_div(emit, zt_build_sub(emit, vjp->out[0], vjp->in[0]), vjp->in[1]));
        vjp->dx[1] = zt_build_reduced(emit, zt_build_mul(emit, vjp->dy[0], q), vjp->in[1]);
    }
}

static void fmod_vjp(zt_vjp *vjp) { mod_vjp(vjp); }

/* da = dy b a^(b-1); db = dy y log a, and 0 where y is 0. */
static void pow_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    int a = vjp->in[0], b = vjp->in[1], y = vjp->out[0], dy = vjp->dy[0];
    if (vjp->want[0]) {
        int lower = zt_build_pow(emit, a, zt_build_add_scalar(emit, b, &(zt_add_scalar_attrs){-1}));
        vjp->dx[0] = zt_build_reduced(emit, zt_build_mul(emit, dy, zt_build_mul(emit, b, lower)), a);
    }
    if (vjp->want[1]) {
        int log_a = zt_build_where(emit, y, zt_build_log(emit, a), zt_build_fill_like(emit, y, &(zt_fill_like_attrs){0}));
        vjp->dx[1] = zt_build_reduced(emit, zt_build_mul(emit, dy, zt_build_mul(emit, y, log_a)), b);
    }
}

/* The side that gives the value gets all of dy, each of two equal ones half. */
static void larger_vjp(zt_vjp *vjp, double side)
{
    const zt_emit *emit = vjp->emit;
    int which = zt_build_sign(emit, zt_build_sub(emit, vjp->in[0], vjp->in[1]));
    for (int k = 0; k < 2; k++) {
        if (!vjp->want[k]) continue;
        int share = zt_build_add_scalar(emit, zt_build_times(emit, which, k ? -side / 2 : side / 2), &(zt_add_scalar_attrs){0.5});
        vjp->dx[k] = zt_build_reduced(emit, zt_build_mul(emit, vjp->dy[0], share), vjp->in[k]);
    }
}

static void max_vjp(zt_vjp *vjp) { larger_vjp(vjp, 1); }

static void min_vjp(zt_vjp *vjp) { larger_vjp(vjp, -1); }

#define NUMBER "; shapes broadcast as in NumPy; a, b and y of the same plain float or integer type"

// clang-format off
#define ROW(NAME, SYNOPSIS, INFER, CASES, MORE)                                                    \
    const zt_opdef zt_op_##NAME = {                                                                \
        .synopsis = SYNOPSIS,                                                                      \
        .n_required = 2,                                                                           \
        .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE | MORE,                                       \
        .infer = INFER,                                                                            \
        .ref = NAME##_ref,                                                                         \
        .cases = CASES,                                                                            \
        .vjp = NAME##_vjp,                                                                         \
    };
// clang-format on
ROW(add, "y = a + b, integers wrap" NUMBER, number_infer, number_cases, ZT_OPF_COMMUTATIVE)
ROW(sub, "y = a - b, integers wrap" NUMBER, number_infer, number_cases, 0)
ROW(mul, "y = a * b, integers wrap" NUMBER, number_infer, number_cases, ZT_OPF_COMMUTATIVE)
ROW(div, "y = a / b, integers truncated towards zero; integer division by zero is an error" NUMBER, number_infer, divide_cases, 0)
ROW(mod, "y = a - b floor(a / b), with the sign of b; integer division by zero is an error" NUMBER, number_infer, divide_cases, 0)
ROW(fmod, "y = a - b trunc(a / b), with the sign of a; integer division by zero is an error" NUMBER, number_infer, divide_cases,
    0)
ROW(max, "y = the larger of a and b, NaN if either is NaN; equal values share the gradient" NUMBER, number_infer, number_cases,
    ZT_OPF_COMMUTATIVE)
ROW(min, "y = the smaller of a and b, NaN if either is NaN; equal values share the gradient" NUMBER, number_infer, number_cases,
    ZT_OPF_COMMUTATIVE)
ROW(pow, "y = a^b, integers wrap; a negative integer exponent is an error" NUMBER, number_infer, power_cases, 0)

/* ---- prelu ----------------------------------------------------------------------------------- */

static zt_status prelu_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_status status = zt_row_want_float(ctx, "x", in[0]);
    if (!status && in[0]->dtype != in[1]->dtype) status = zt_row_fail(ctx, ZT_ESHAPE, "x and slope have different dtypes");
    if (!status) status = zt_row_broadcast(ctx, in[0], in[1], &out[0]);
    (void)attrs;
    if (status || zt_type_equal(&out[0], in[0])) return status;
    return zt_row_fail(ctx, ZT_ESHAPE, "slope does not broadcast to x's shape");
}

REF(prelu, a > 0 ? a : b * a, 0 * (uint64_t)(a + b))

static bool prelu_cases(int i, zt_case *test_case)
{
    static const zt_case_type rows[][2] = {
        {{ZT_F32, 2, {2, 33}}, {ZT_F32, 2, {2, 33}}},  {{ZT_F32, 3, {3, 4, 5}}, {ZT_F32, 1, {5}}},
        {{ZT_F32, 3, {2, 4, 9}}, {ZT_F32, 2, {4, 1}}}, {{ZT_F32, 2, {9, 576}}, {ZT_F32, 0, {0}}},
        {{ZT_F32, 2, {0, 4}}, {ZT_F32, 1, {4}}},       {{ZT_F16, 2, {3, 40}}, {ZT_F16, 1, {40}}},
        {{ZT_BF16, 2, {3, 40}}, {ZT_BF16, 1, {1}}},    {{ZT_F64, 2, {3, 7}}, {ZT_F64, 1, {7}}},
    };
    return pair_at(rows, ZT_LEN(rows), &i, ZT_FILL_NORMAL, test_case);
}

/* dx = dy (p + slope (1 - p)) with p = 1 where x > 0, else 0; dslope = dy min(x, 0). */
static void prelu_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    int x = vjp->in[0], dy = vjp->dy[0];
    if (vjp->want[0]) {
        int p = zt_build_relu(emit, zt_build_sign(emit, x)), rest = zt_build_plus(emit, zt_build_neg(emit, p), 1);
        vjp->dx[0] = zt_build_mul(emit, dy, zt_build_add(emit, p, zt_build_mul(emit, vjp->in[1], rest)));
    }
    if (vjp->want[1]) {
        int least = zt_build_neg(emit, zt_build_relu(emit, zt_build_neg(emit, x)));
        vjp->dx[1] = zt_build_reduced(emit, zt_build_mul(emit, dy, least), vjp->in[1]);
    }
}

const zt_opdef zt_op_prelu = {
    .synopsis = "y[i] = x[i] > 0 ? x[i] : slope x[i]; slope broadcasts to the shape of x; x, slope "
                "and y of the same plain float type",
    .n_required = 2,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = prelu_infer,
    .ref = prelu_ref,
    .cases = prelu_cases,
    .vjp = prelu_vjp,
};

/* ---- gated units (Shazeer, "GLU Variants Improve Transformer", 2020) ------------------------- */

static zt_status swiglu_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    (void)attrs;
    out[0] = *in[0];
    zt_status status = zt_row_want_float(ctx, "gate", in[0]);
    if (status || zt_type_equal(in[0], in[1])) return status;
    return zt_row_fail(ctx, ZT_ESHAPE, "gate and up must have the same type");
}

static void gate_values(const zt_arg *in, zt_arg *out, zt_curve *f)
{
    int64_t count = zt_type_count(out->type);
    for (int64_t i = 0; i < count; i++) out->f[i] = f(in[0].f[i]) * in[1].f[i];
}

static void swiglu_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)attrs, (void)error;
    gate_values(in, out, silu);
}

static bool swiglu_cases(int i, zt_case *test_case)
{
    if (!zt_cases_unary(i, test_case)) return false;
    test_case->in[1] = test_case->in[0];
    test_case->fill[1] = ZT_FILL_NORMAL;
    return true;
}

static void swiglu_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    (void)attrs;
    out[0] = zt_build_mul(emit, zt_build_silu(emit, in[0]), in[1]);
}

const zt_opdef zt_op_swiglu = {
    .synopsis = "y[i] = silu(gate[i]) * up[i]; gate, up and y of the same plain float type and shape",
    .n_required = 2,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = swiglu_infer,
    .ref = swiglu_ref,
    .flops = zt_row_curve_flops,
    .cases = swiglu_cases,
    .expand = swiglu_expand,
};

static zt_status geglu_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_geglu_attrs *geglu = attrs;
    zt_status status = want_gelu_form(ctx, &geglu->form);
    return status ? status : swiglu_infer(ctx, attrs, in, out);
}

static void geglu_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_geglu_attrs *geglu = attrs;
    (void)error;
    gate_values(in, out, gelu_form(&geglu->form));
}

static bool geglu_cases(int i, zt_case *test_case)
{
    zt_geglu_attrs a = zt_geglu_defaults();
    if (i % 2) strcpy(a.form.s, "erf");
    zt_case_attrs(test_case, &a, sizeof a);
    return swiglu_cases(i / 2, test_case);
}

static void geglu_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    const zt_geglu_attrs *geglu = attrs;
    out[0] = zt_build_mul(emit, zt_build_gelu(emit, in[0], &(zt_gelu_attrs){geglu->form}), in[1]);
}

const zt_opdef zt_op_geglu = {
    .synopsis = "y[i] = gelu(gate[i]) * up[i], form as in gelu; gate, up and y of the same plain "
                "float type and shape",
    .n_required = 2,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = geglu_infer,
    .ref = geglu_ref,
    .flops = zt_row_curve_flops,
    .cases = geglu_cases,
    .expand = geglu_expand,
};

/* ---- the gradient of tanh ------------------------------------------------------------------- */

static zt_status tanh_prime_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    (void)attrs;
    out[0] = *in[0];
    zt_status status = zt_row_want_float(ctx, "x", in[0]);
    if (status || zt_type_equal(in[0], in[1])) return status;
    return zt_row_fail(ctx, ZT_ESHAPE, "x and dy must have the same type");
}

static void tanh_prime_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    int64_t count = zt_type_count(out->type);
    (void)attrs, (void)error;
    for (int64_t i = 0; i < count; i++) {
        double y = tanh(in[0].f[i]);
        out->f[i] = in[1].f[i] * (1 - y * y);
    }
}

static void tanh_prime_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    (void)attrs;
    out[0] =
        zt_build_mul(emit, in[1], zt_build_plus(emit, zt_build_neg(emit, zt_build_square(emit, zt_build_tanh(emit, in[0]))), 1));
}

const zt_opdef zt_op_tanh_prime = {
    .synopsis = "y[i] = dy[i] (1 - tanh(x[i])^2); x, dy and y of the same plain float type and shape",
    .n_required = 2,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = tanh_prime_infer,
    .ref = tanh_prime_ref,
    .flops = zt_row_curve_flops,
    .cases = swiglu_cases,
    .expand = tanh_prime_expand,
};
