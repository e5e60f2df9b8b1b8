/* elementwise_cast.c - rows of the ops that change dtypes: cast (values) and bitcast (bits). */
#include "lib/ops/row.h"
#include "lib/ops/vjp.h"

#include <math.h>
#include <string.h>

/* ---- cast ------------------------------------------------------------------------------------ */

static zt_status cast_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_cast_attrs *cast = attrs;
    zt_dtype to = ZT_F32;
    zt_status status = zt_row_dtype(ctx, &cast->to, &to);
    if (status) return status;
    const zt_dtype_info *info = zt_dtype_get(to);
    if (cast->saturate != 0 && cast->saturate != 1)
        return zt_row_fail(ctx, ZT_EUSAGE, "saturate is %lld: must be 0 or 1", (long long)cast->saturate);
    if (cast->round < -1 || cast->round > 1)
        return zt_row_fail(ctx, ZT_EUSAGE, "round is %lld: must be -1, 0 or 1", (long long)cast->round);
    if (info->kind == 'Q' && !info->encode)
        return zt_row_fail(ctx, ZT_ESHAPE, "%s is a block type without an encoder", info->name);
    if (!zt_dtype_is_packed(to) && zt_row_cols(in[0]) % info->block)
        return zt_row_fail(ctx, ZT_ESHAPE, "row length %lld is not a multiple of the block size of %s",
                           (long long)zt_row_cols(in[0]), info->name);
    out[0] = *in[0];
    out[0].dtype = to;
    return ZT_OK;
}

/* Towards zero, what is out of range to its end, NaN to 0. */
static int64_t round_to_integer(zt_dtype dtype, double x)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    int bits = 8 * info->block_bytes - (info->kind == 'I');
    double end = ldexp(1, bits);
    if (isnan(x)) return 0;
    if (info->kind == 'B') return x != 0;
    if (x >= end) return bits == 64 ? -1 : bits == 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
    if (info->kind == 'U') return x <= 0 ? 0 : (int64_t)(uint64_t)x;
    return x <= -end ? -((int64_t)1 << (bits - 1)) * 2 : (int64_t)x;
}

/* The low bits that a type keeps. */
static int64_t wrap_integer(zt_dtype dtype, int64_t v)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    int unused = 64 - 8 * info->block_bytes;
    if (info->kind == 'B') return v != 0;
    return info->kind == 'I' ? (int64_t)((uint64_t)v << unused) >> unused : (int64_t)((uint64_t)v << unused >> unused);
}

/* As f64; where it does not fit, so that rounding once more to a shorter type is right (to odd). */
static double of_integer(zt_dtype from, zt_dtype to, int64_t v)
{
    bool negative = v < 0 && zt_dtype_get(from)->kind == 'I';
    uint64_t m = negative ? 0 - (uint64_t)v : (uint64_t)v;
    if (to != ZT_F64 && m >> 53) m = (m & ~UINT64_C(0x7ff)) | (m & 0x7ff ? 0x800 : 0);
    return negative ? -(double)m : (double)m;
}

/* What the bits of a packed integer type keep of a whole number. */
static double integer_to_float(zt_dtype to, int64_t v)
{
    double least, most;
    zt_dtype_range(to, &least, &most);
    int64_t n = (int64_t)(most - least) + 1, low = v & (n - 1);
    return (double)(low > (int64_t)most ? low - n : low);
}

/* The power of two that f8_e8m0 has for x. */
static double power_of(int64_t round, double x)
{
    int e;
    if (!(x > 0) || isinf(x) || round == 0) return x;
    double m = frexp(x, &e); /* x = m 2^e, 1/2 <= m < 1 */
    return ldexp(1, e - (round < 0 || m == 0.5));
}

static double to_float(const zt_cast_attrs *attrs, zt_dtype to, double x)
{
    double least, most;
    bool small = zt_dtype_get(to)->kind == 'F' && zt_dtype_get(to)->block_bytes == 1;
    if (to == ZT_F8_E8M0) x = power_of(attrs->round, x);
    if (!small || !attrs->saturate || isnan(x)) return x;
    zt_dtype_range(to, &least, &most);
    return x > most ? most : x < least && to != ZT_F8_E8M0 ? least : x;
}

static void cast_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    int64_t count = zt_type_count(out->type);
    zt_dtype from = in->type->dtype, to = out->type->dtype;
    bool bits = zt_dtype_is_packed(to) && to != ZT_F4_E2M1;
    (void)error;
    for (int64_t i = 0; i < count; i++) {
        double x = in[0].f ? in[0].f[i] : of_integer(from, to, in[0].i[i]);
        if (bits)
            out[0].f[i] = integer_to_float(to, in[0].f ? round_to_integer(ZT_I64, x) : in[0].i[i]);
        else if (out[0].f)
            out[0].f[i] = to_float(attrs, to, x);
        else
            out[0].i[i] = in[0].f ? (to == ZT_BOOL && isnan(x) ? 1 : round_to_integer(to, x)) : wrap_integer(to, in[0].i[i]);
    }
}

/* From every dtype to every one that there are encoders for; then bits out of range, odd shapes. */
static bool pair_case(int i, zt_case *test_case, zt_cast_attrs *a)
{
    int n = i;
    for (int from = 0; from < ZT_DTYPE_COUNT; from++)
        for (int to = 0; to < ZT_DTYPE_COUNT; to++) {
            const zt_dtype_info *info = zt_dtype_get((zt_dtype)from), *y = zt_dtype_get((zt_dtype)to);
            if (y->kind == 'Q' && !y->encode) continue;
            if (n-- > 0) continue;
            bool floats = zt_dtype_is_float((zt_dtype)from), blocks = info->block > 4 || y->block > 4;
            a->to = zt_row_word_of((zt_dtype)to);
            bool signless = from == ZT_F8_E8M0;
            const int64_t shape[2][2] = {{3, 35}, {2, 256}};
            zt_case_in(test_case, 0,
                       signless ? ZT_FILL_POSITIVE
                       : floats ? ZT_FILL_NORMAL
                                : ZT_FILL_IDS,
                       info->kind == 'B' ? 2 : 100, (zt_dtype)from, 2, shape[blocks]);
            return true;
        }
    return false;
}

static bool cast_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        zt_fill fill;
        int64_t limit;
        const char *to;
        int saturate;
        int round;
    } rows[] = {
        {{ZT_F32, 2, {2, 33}}, ZT_FILL_NORMAL, 0, "f16", 1, 0},
        {{ZT_F32, 2, {5, 640}}, ZT_FILL_NORMAL, 0, "bf16", 1, 0},
        {{ZT_F32, 0, {0}}, ZT_FILL_NORMAL, 0, "i4", 1, 0},
        {{ZT_F16, 2, {9, 65}}, ZT_FILL_NORMAL, 0, "f32", 1, 0},
        {{ZT_F32, 2, {0, 8}}, ZT_FILL_NORMAL, 0, "f16", 1, 0},
        {{ZT_F32, 2, {0, 8}}, ZT_FILL_NORMAL, 0, "u2", 1, 0},
        {{ZT_F32, 2, {9, 133}}, ZT_FILL_TIES, 0, "i32", 1, 0},
        {{ZT_F32, 1, {33}}, ZT_FILL_TIES, 0, "i64", 1, 0},
        {{ZT_F16, 1, {33}}, ZT_FILL_TIES, 0, "i8", 1, 0},
        {{ZT_BF16, 1, {33}}, ZT_FILL_TIES, 0, "u8", 1, 0},
        {{ZT_F32, 1, {33}}, ZT_FILL_TIES, 0, "bool", 1, 0},
        {{ZT_F64, 1, {33}}, ZT_FILL_TIES, 0, "u64", 1, 0},
        {{ZT_F32, 1, {33}}, ZT_FILL_TIES, 0, "f4_e2m1", 1, 0},
        {{ZT_F32, 1, {33}}, ZT_FILL_TIES, 0, "i4", 1, 0},
        {{ZT_I64, 1, {2000}}, ZT_FILL_RISING, -1000, "i8", 1, 0},
        {{ZT_I32, 1, {300}}, ZT_FILL_RISING, -100, "u4", 1, 0},
        {{ZT_I32, 1, {1000}}, ZT_FILL_RISING, -500, "f8_e4m3", 1, 0},
        {{ZT_I32, 1, {1000}}, ZT_FILL_RISING, -500, "f8_e4m3", 0, 0},
        {{ZT_I32, 1, {1000}}, ZT_FILL_RISING, -500, "f8_e4m3fnuz", 0, 0},
        {{ZT_I64, 1, {300}}, ZT_FILL_RISING, 57200, "f8_e5m2fnuz", 1, 0},
        {{ZT_I64, 1, {9000}}, ZT_FILL_RISING, 57000, "f8_e5m2", 0, 0},
        {{ZT_I64, 1, {99}}, ZT_FILL_RISING, -9007199254740993, "f32", 1, 0},
        {{ZT_U64, 1, {99}}, ZT_FILL_RISING, -9999, "f32", 1, 0},
        {{ZT_U64, 1, {99}}, ZT_FILL_RISING, -9999, "f16", 1, 0},
        {{ZT_I32, 1, {300}}, ZT_FILL_RISING, 0, "f8_e8m0", 1, 1},
        {{ZT_I64, 1, {300}}, ZT_FILL_RISING, 0, "f8_e8m0", 1, -1},
        {{ZT_U8, 1, {300}}, ZT_FILL_RISING, 0, "f8_e8m0", 0, 1},
    };
    zt_cast_attrs a = zt_cast_defaults();
    bool fixed = i < ZT_LEN(rows);
    if (!fixed && !pair_case(i - ZT_LEN(rows), test_case, &a)) return false;
    if (fixed) {
        memset(&a.to, 0, sizeof a.to);
        memcpy(a.to.s, rows[i].to, strlen(rows[i].to));
        a.saturate = rows[i].saturate;
        a.round = rows[i].round;
        zt_case_type_in(test_case, 0, rows[i].fill, &rows[i].x);
        test_case->limit[0] = rows[i].limit;
    }
    zt_case_attrs(test_case, &a, sizeof a);
    return true;
}

static void cast_vjp(zt_vjp *vjp) { vjp->dx[0] = zt_build_as(vjp->emit, vjp->dy[0], vjp->in[0]); }

const zt_opdef zt_op_cast = {
    .synopsis = "y[i] = x[i] as dtype `to`; x of any dtype, including block types; `to` any dtype "
                "with an encoder. Floats are rounded to nearest, ties to even. Floats to integers "
                "are truncated towards zero and saturate (i4 u4 i2 u2: low bits), NaN gives 0. "
                "Integers to integers keep the low bits. To bool: x[i] != 0. 8-bit floats saturate; "
                "with saturate=0, overflow gives infinity, or NaN if the type has no infinity; "
                "f4_e2m1 always saturates, NaN gives -0. round=1 (up) and round=-1 (down) apply to "
                "f8_e8m0, the powers of two",
    .n_required = 1,
    .flags = ZT_OPF_ELEMENTWISE,
    .infer = cast_infer,
    .ref = cast_ref,
    .cases = cast_cases,
    .vjp = cast_vjp,
};

/* ---- bitcast --------------------------------------------------------------------------------- */

static zt_status bitcast_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_dtype to = ZT_F32;
    zt_status status = zt_row_dtype(ctx, &((const zt_bitcast_attrs *)attrs)->to, &to);
    const zt_dtype_info *info = zt_dtype_get(in[0]->dtype), *y = zt_dtype_get(to);
    if (status) return status;
    if (info->block > 4 || y->block > 4)
        return zt_row_fail(ctx, ZT_ESHAPE, "%s is a block type", info->block > 4 ? info->name : y->name);
    if (info->block != y->block || info->block_bytes != y->block_bytes)
        return zt_row_fail(ctx, ZT_ESHAPE, "the elements of x have %d bits, but those of %s have %d",
                           8 * info->block_bytes / info->block, y->name, 8 * y->block_bytes / y->block);
    out[0] = *in[0];
    out[0].dtype = to;
    return ZT_OK;
}

/* Bytes of element i, little endian. */
static void bytes_of(const zt_arg *x, int64_t i, unsigned char bytes[8])
{
    zt_dtype dtype = x->type->dtype;
    memset(bytes, 0, 8);
    if (x->i || dtype == ZT_F64) {
        memcpy(bytes, x->i ? (const void *)&x->i[i] : (const void *)&x->f[i], 8);
    } else {
        float f = (float)x->f[i];
        zt_dtype_get(dtype)->encode(&f, bytes, 1);
    }
}

static void of_bytes(const zt_arg *y, int64_t i, const unsigned char bytes[8])
{
    zt_dtype dtype = y->type->dtype;
    int64_t v;
    float f;
    if (dtype == ZT_F64) memcpy(&y->f[i], bytes, 8);
    if (dtype == ZT_F64) return;
    if (y->i) {
        memcpy(&v, bytes, 8);
        y->i[i] = wrap_integer(dtype, v);
        return;
    }
    zt_dtype_get(dtype)->decode(bytes, &f, 1);
    y->f[i] = f;
}

static void bitcast_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)attrs, (void)error;
    for (int64_t i = 0, n = zt_type_count(out->type); i < n; i++) {
        unsigned char bytes[8];
        bytes_of(&in[0], i, bytes);
        of_bytes(&out[0], i, bytes);
    }
}

static bool bitcast_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        const char *to;
    } rows[] = {
        {{ZT_F32, 2, {3, 33}}, "i32"}, {{ZT_F32, 1, {7}}, "u32"},     {{ZT_F64, 1, {7}}, "i64"},    {{ZT_I64, 2, {2, 5}}, "f64"},
        {{ZT_U32, 0, {0}}, "i32"},     {{ZT_I8, 1, {9}}, "u8"},       {{ZT_F16, 1, {9}}, "bf16"},   {{ZT_BOOL, 1, {9}}, "u8"},
        {{ZT_I32, 2, {0, 3}}, "f32"},  {{ZT_U8, 1, {99}}, "f8_e4m3"}, {{ZT_F8_E5M2, 1, {9}}, "i8"}, {{ZT_I4, 2, {3, 5}}, "u4"},
        {{ZT_U16, 1, {99}}, "f16"},    {{ZT_F4_E2M1, 1, {6}}, "u4"},  {{ZT_U64, 1, {3}}, "i64"},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_bitcast_attrs a = {{{0}}};
    memcpy(a.to.s, rows[i].to, strlen(rows[i].to));
    zt_case_attrs(test_case, &a, sizeof a);
    bool floats = zt_dtype_is_float(rows[i].x.dtype);
    zt_case_type_in(test_case, 0, floats ? ZT_FILL_NORMAL : ZT_FILL_IDS, &rows[i].x);
    test_case->limit[0] = rows[i].x.dtype == ZT_BOOL ? 2 : 100;
    return true;
}

const zt_opdef zt_op_bitcast = {
    .synopsis = "y has the bits of x as elements of dtype `to`, which must have the same width; any "
                "but block types",
    .n_required = 1,
    .flags = ZT_OPF_ELEMENTWISE,
    .infer = bitcast_infer,
    .ref = bitcast_ref,
    .flops = zt_row_no_flops,
    .cases = bitcast_cases,
};
