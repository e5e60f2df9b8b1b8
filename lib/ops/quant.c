/* quant.c - rows of linear quantization: numbers as codes times a scale, from a zero point.
 *
 * scale and zero are one for all (a scalar, or one element), one for each entry of `axis` (of rank
 * 1), or with block > 0 one for each `block` neighbours along `axis` (of x's rank, the axis cut by
 * the block, rounded up).
 */
#include "lib/ops/vjp.h"

#include <math.h>
#include <string.h>

/* ---- scales ---------------------------------------------------------------------------------- */

static bool one_element(const zt_type *type) { return zt_type_count(type) == 1 && type->rank <= 1; }

static zt_status want_scale(zt_ctx *ctx, int64_t axis, int64_t block, const zt_type *x, const zt_type *scale)
{
    if (block < 0) return zt_row_fail(ctx, ZT_EUSAGE, "block is %lld: must be nonnegative", (long long)block);
    if (block == 0 && one_element(scale)) return ZT_OK;
    zt_status status = zt_row_axis(ctx, axis, x->rank);
    if (status) return status;
    int at = zt_plain_axis(axis, x->rank);
    zt_type want = *x;
    want.dtype = scale->dtype;
    if (block)
        want.dim[at] = x->dim[at] / block + (x->dim[at] % block != 0);
    else
        want = zt_type_make(scale->dtype, 1, &x->dim[at]);
    char text[ZT_TYPE_TEXT];
    if (zt_type_equal(&want, scale)) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "scale must have 1 element or type %s", zt_type_text(&want, text));
}

/* Which scale element i of x has. */
static int64_t scale_at(int64_t axis, int64_t block, const zt_type *x, const zt_type *scale, int64_t i)
{
    int64_t inner = 1;
    if (block == 0 && one_element(scale)) return 0;
    int at = zt_plain_axis(axis, x->rank);
    for (int d = at + 1; d < x->rank; d++) inner *= x->dim[d];
    int64_t k = i / inner % x->dim[at];
    if (block == 0) return k;
    return (i / inner / x->dim[at] * scale->dim[at] + k / block) * inner + i % inner;
}

static zt_status want_zero(zt_ctx *ctx, const zt_type *scale, const zt_type *zero, zt_dtype dtype)
{
    if (!zero) return ZT_OK;
    if (zero->dtype != dtype)
        return zt_row_fail(ctx, ZT_ESHAPE, "zero has dtype %s, expected %s", zt_dtype_get(zero->dtype)->name,
                           zt_dtype_get(dtype)->name);
    if (one_element(scale) && one_element(zero)) return ZT_OK;
    zt_type same = *zero;
    same.dtype = scale->dtype;
    if (zt_type_equal(&same, scale)) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "zero must have the shape of scale");
}

/* Integers of up to 32 bits and floats of a byte and less. */
static zt_status want_codes(zt_ctx *ctx, const char *name, zt_dtype dtype)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    bool integer = (info->kind == 'I' || info->kind == 'U') && info->block_bytes <= 4;
    bool small = (info->kind == 'F' && info->block_bytes == 1 && dtype != ZT_F8_E8M0) || zt_dtype_is_packed(dtype);
    if (integer || small) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "%s has dtype %s, which is not a type of quantized codes", name, info->name);
}

static double number_at(const zt_arg *a, int64_t i) { return a->f ? a->f[i] : (double)a->i[i]; }

/* ---- quantize_linear ------------------------------------------------------------------------- */

static zt_status quantize_linear_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_quantize_linear_attrs *quantize = attrs;
    zt_dtype to = ZT_I8;
    zt_status status = zt_row_want_float(ctx, "x", in[0]);
    if (!status) status = zt_row_want_float(ctx, "scale", in[1]);
    if (!status) status = zt_row_dtype(ctx, &quantize->to, &to);
    if (!status) status = want_codes(ctx, "to", to);
    if (!status) status = want_scale(ctx, quantize->axis, quantize->block, in[0], in[1]);
    if (!status) status = want_zero(ctx, in[1], in[2], to);
    if (!status && quantize->saturate != 0 && quantize->saturate != 1)
        status = zt_row_fail(ctx, ZT_EUSAGE, "saturate is %lld: must be 0 or 1", (long long)quantize->saturate);
    out[0] = *in[0];
    out[0].dtype = to;
    return status;
}

/* Ties are common, and where they are hangs on each operand's last bit: they are what f32 has, also
 * where they come from ref's f64. */
static double quotient(const zt_arg *x, int64_t i, const zt_arg *scale, int64_t k)
{
    if (x->type->dtype == ZT_F64) return x->f[i] / scale->f[k];
    return (double)((float)x->f[i] / (float)scale->f[k]);
}

static void quantize_linear_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_quantize_linear_attrs *quantize = attrs;
    zt_dtype to = out->type->dtype;
    bool floats = zt_dtype_get(to)->kind == 'F' || to == ZT_F4_E2M1;
    double least, most;
    (void)error;
    zt_dtype_range(to, &least, &most);
    for (int64_t i = 0, n = zt_type_count(out->type); i < n; i++) {
        int64_t k = scale_at(quantize->axis, quantize->block, in[0].type, in[1].type, i);
        double y = quotient(&in[0], i, &in[1], k);
        if (!floats) y = isnan(y) ? 0 : rint(y);
        if (in[2].type) y += number_at(&in[2], k);
        if (!floats || quantize->saturate) y = y > most ? most : y < least ? least : y;
        if (out->f)
            out->f[i] = y;
        else
            out->i[i] = (int64_t)y;
    }
}

static const struct {
    zt_case_type x, scale;
    zt_dtype code;
    bool zero;
    int64_t axis, block;
} quant_rows[] = {
    {{ZT_F32, 2, {3, 33}}, {ZT_F32, 0, {0}}, ZT_I8, false, 1, 0},
    {{ZT_F32, 2, {3, 33}}, {ZT_F32, 0, {0}}, ZT_U8, true, 1, 0},
    {{ZT_F32, 3, {2, 5, 7}}, {ZT_F32, 1, {5}}, ZT_U8, true, 1, 0},
    {{ZT_F32, 3, {2, 5, 7}}, {ZT_F32, 1, {7}}, ZT_I8, true, -1, 0},
    {{ZT_F32, 2, {4, 70}}, {ZT_F32, 2, {4, 3}}, ZT_I8, true, 1, 32},
    {{ZT_F32, 2, {9, 7}}, {ZT_F32, 2, {3, 7}}, ZT_U8, false, 0, 4},
    {{ZT_F32, 2, {3, 5}}, {ZT_F32, 1, {1}}, ZT_I4, true, 1, 0},
    {{ZT_F32, 2, {3, 5}}, {ZT_F32, 1, {3}}, ZT_U4, true, 0, 0},
    {{ZT_F32, 2, {3, 5}}, {ZT_F32, 1, {3}}, ZT_I2, false, 0, 0},
    {{ZT_F32, 2, {3, 5}}, {ZT_F32, 1, {3}}, ZT_U2, true, 0, 0},
    {{ZT_F32, 2, {3, 5}}, {ZT_F32, 0, {0}}, ZT_F4_E2M1, false, 0, 0},
    {{ZT_F32, 2, {3, 5}}, {ZT_F32, 0, {0}}, ZT_F8_E4M3, true, 0, 0},
    {{ZT_F32, 2, {3, 5}}, {ZT_F32, 1, {5}}, ZT_F8_E5M2, false, 1, 0},
    {{ZT_F32, 1, {40}}, {ZT_F32, 0, {0}}, ZT_I16, true, 0, 0},
    {{ZT_F32, 1, {40}}, {ZT_F32, 0, {0}}, ZT_U16, true, 0, 0},
    {{ZT_F32, 1, {40}}, {ZT_F32, 0, {0}}, ZT_I32, false, 0, 0},
    {{ZT_F32, 2, {0, 5}}, {ZT_F32, 1, {5}}, ZT_I8, false, 1, 0},
    {{ZT_F32, 2, {65, 300}}, {ZT_F32, 1, {65}}, ZT_I8, true, 0, 0},
    {{ZT_F16, 2, {3, 40}}, {ZT_F16, 0, {0}}, ZT_I8, true, 0, 0},
    {{ZT_BF16, 2, {3, 40}}, {ZT_F32, 1, {3}}, ZT_U8, true, 0, 0},
    {{ZT_F64, 2, {3, 4}}, {ZT_F64, 0, {0}}, ZT_I8, true, 0, 0},
};
enum { QUANT_ROWS = sizeof quant_rows / sizeof quant_rows[0] };

static bool is_float(zt_dtype dtype) { return zt_dtype_is_float(dtype); }

/* Inputs 1 and 2. */
static void scale_case(int i, zt_case *test_case)
{
    zt_case_type zero = quant_rows[i].scale;
    zero.dtype = quant_rows[i].code;
    zt_case_type_in(test_case, 1, ZT_FILL_POSITIVE, &quant_rows[i].scale);
    if (!quant_rows[i].zero) return;
    zt_case_type_in(test_case, 2, is_float(zero.dtype) ? ZT_FILL_NORMAL : ZT_FILL_IDS, &zero);
    test_case->limit[2] = 5;
}

static bool quantize_linear_cases(int i, zt_case *test_case)
{
    if (i >= QUANT_ROWS) return false;
    zt_quantize_linear_attrs a = {zt_row_word_of(quant_rows[i].code), quant_rows[i].axis, quant_rows[i].block, i != 12};
    zt_case_attrs(test_case, &a, sizeof a);
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, &quant_rows[i].x);
    scale_case(i, test_case);
    return true;
}

#define SCALES                                                                                                                   \
    "scale and zero have 1 element, or one for each entry of `axis`, or with block=n one for each n "                            \
    "adjacent entries along it; zero (absent: 0) has the dtype of the codes"

const zt_opdef zt_op_quantize_linear = {
    .synopsis = "y = x / scale + zero as dtype `to` (integers of up to 32 bits, floats of up to 8 "
                "bits), rounded to nearest, ties to even, and saturated (saturate=0: floats are "
                "not); the quotient is first rounded to f32, except for f64; " SCALES,
    .n_required = 2,
    .infer = quantize_linear_infer,
    .ref = quantize_linear_ref,
    .cases = quantize_linear_cases,
};

/* ---- dequantize_linear ----------------------------------------------------------------------- */

static zt_status dequantize_linear_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_dequantize_linear_attrs *dequantize = attrs;
    zt_status status = want_codes(ctx, "x", in[0]->dtype);
    if (!status) status = zt_row_want_float(ctx, "scale", in[1]);
    if (!status) status = want_scale(ctx, dequantize->axis, dequantize->block, in[0], in[1]);
    if (!status) status = want_zero(ctx, in[1], in[2], in[0]->dtype);
    out[0] = *in[0];
    out[0].dtype = in[1]->dtype;
    return status;
}

static void dequantize_linear_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_dequantize_linear_attrs *dequantize = attrs;
    (void)error;
    for (int64_t i = 0, n = zt_type_count(out->type); i < n; i++) {
        int64_t k = scale_at(dequantize->axis, dequantize->block, in[0].type, in[1].type, i);
        double x = number_at(&in[0], i) - (in[2].type ? number_at(&in[2], k) : 0);
        out->f[i] = x * in[1].f[k];
    }
}

static bool dequantize_linear_cases(int i, zt_case *test_case)
{
    if (i >= QUANT_ROWS) return false;
    zt_dequantize_linear_attrs a = {quant_rows[i].axis, quant_rows[i].block};
    zt_case_type x = quant_rows[i].x;
    zt_case_attrs(test_case, &a, sizeof a);
    x.dtype = quant_rows[i].code;
    zt_case_type_in(test_case, 0, is_float(x.dtype) ? ZT_FILL_NORMAL : ZT_FILL_IDS, &x);
    test_case->limit[0] = 100;
    scale_case(i, test_case);
    return true;
}

/* A scale or zero that broadcasts with x, of type `to`: K entries of `axis` as [K,1,..], those of
 * blocks repeated. */
static int spread_scale(const zt_emit *emit, const zt_dequantize_linear_attrs *attrs, int s, const zt_type *to)
{
    zt_type type = emit->type(emit->user, s);
    if (!attrs->block && one_element(&type)) return zt_build_reshape(emit, s, &(zt_reshape_attrs){{0, {0}}});
    int at = zt_plain_axis(attrs->axis, to->rank);
    if (attrs->block) {
        int64_t K = to->dim[at], times = attrs->block < K ? attrs->block : K > 0 ? K : 1;
        s = zt_build_repeat(emit, s, &(zt_repeat_attrs){at, times});
        return zt_build_slice(emit, s, &(zt_slice_attrs){at, 0, K});
    }
    for (int d = at + 1; d < to->rank; d++) s = zt_build_group(emit, s, &(zt_group_attrs){1});
    return s;
}

/* Nothing where shapes are not known. */
static void dequantize_linear_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    zt_type x = emit->type(emit->user, in[0]);
    for (int d = 0; d < x.rank; d++)
        if (x.dim[d] < 0) return;
    int scale = zt_build_wide(emit, in[1]), codes = zt_build_as(emit, in[0], scale);
    if (in[2] != ZT_NONE) codes = zt_build_sub(emit, codes, spread_scale(emit, attrs, zt_build_as(emit, in[2], scale), &x));
    out[0] = zt_build_as(emit, zt_build_mul(emit, codes, spread_scale(emit, attrs, scale, &x)), in[1]);
}

const zt_opdef zt_op_dequantize_linear = {
    .synopsis = "y = (x - zero) scale, of the type of scale; x has codes: integers of up to 32 bits, "
                "floats of up to 8 bits; " SCALES,
    .n_required = 2,
    .infer = dequantize_linear_infer,
    .ref = dequantize_linear_ref,
    .cases = dequantize_linear_cases,
    .expand = dequantize_linear_expand,
};
