/* elementwise_cast.c - kernels of cast and bitcast, CHUNK elements an item. Floats of up to 32 bits go by way
 * of f32, f64 by itself, integers as int64_t (u64 by its bits). What a shorter float is rounded
 * from more than f32 holds goes there to odd first, so that it is rounded once.
 */
// clang-format off
#include "lib/engine/cpu/isa/elements.h"

#include <math.h>

/* ---- integers to and from the widest types --------------------------------------------------- */

/* X(NAME, C type) */
#define INTEGERS(X)                                                                                \
    X(I64, int64_t) X(I32, int32_t) X(I16, int16_t) X(I8, int8_t)                                  \
    X(U64, uint64_t) X(U32, uint32_t) X(U16, uint16_t) X(U8, uint8_t) X(BOOL, uint8_t)

/* From floats R: towards zero, what is out of range to its end, NaN to 0. */
#define WHOLE(NAME_, R, NAME, T)                                                                   \
    static void NAME_(const R *src, void *dst, int64_t n)                                          \
    {                                                                                              \
        T *d = dst;                                                                                \
        const int bits = 8 * (int)sizeof(T) - ((T)-1 < (T)1);                                      \
        const T most = (T)(UINT64_MAX >> (64 - bits));                                             \
        const R end = (R)ldexp(1, bits), least = (T)-1 < (T)1 ? -end : 0;                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            d[i] = ZT_##NAME == ZT_BOOL ? src[i] != 0                                              \
                   : src[i] >= end      ? most                                                     \
                   : src[i] <= least    ? (T)least                                                 \
                   : src[i] != src[i]   ? 0                                                        \
                                        : (T)src[i];                                               \
    }

#define X(NAME, T)                                                                                 \
    static void widen_##NAME(const void *src, int64_t *dst, int64_t n)                             \
    {                                                                                              \
        const T *s = src;                                                                          \
        for (int64_t i = 0; i < n; i++) dst[i] = (int64_t)s[i];                                    \
    }                                                                                              \
    static void floats_##NAME(const void *src, float *dst, int64_t n)                              \
    {                                                                                              \
        const T *s = src;                                                                          \
        for (int64_t i = 0; i < n; i++) dst[i] = (float)s[i];                                      \
    }                                                                                              \
    static void doubles_##NAME(const void *src, double *dst, int64_t n)                            \
    {                                                                                              \
        const T *s = src;                                                                          \
        for (int64_t i = 0; i < n; i++) dst[i] = (double)s[i];                                     \
    }                                                                                              \
    static void cut_##NAME(const int64_t *src, void *dst, int64_t n)                               \
    {                                                                                              \
        T *d = dst;                                                                                \
        for (int64_t i = 0; i < n; i++) d[i] = ZT_##NAME == ZT_BOOL ? src[i] != 0 : (T)src[i];     \
    }                                                                                              \
    WHOLE(whole_##NAME, float, NAME, T)                                                            \
    WHOLE(whole_wide_##NAME, double, NAME, T)
INTEGERS(X)
#undef X

#define X(NAME, T)                                                                                 \
    [ZT_##NAME] = {widen_##NAME, floats_##NAME, doubles_##NAME, cut_##NAME, whole_##NAME,          \
                   whole_wide_##NAME},
static const struct {
    void (*widen)(const void *, int64_t *, int64_t);
    void (*floats)(const void *, float *, int64_t);
    void (*doubles)(const void *, double *, int64_t);
    void (*cut)(const int64_t *, void *, int64_t);
    void (*whole)(const float *, void *, int64_t);
    void (*whole_wide)(const double *, void *, int64_t);
} integer[ZT_DTYPE_COUNT] = {INTEGERS(X)};
// clang-format on
#undef X

/* ---- to floats of 32 bits and less ----------------------------------------------------------- */

/* From f64 to f32, or on the way to less. */
static void shorten(zt_dtype to, const double *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = to == ZT_F32 ? (float)x[i] : zt_f64_to_f32_odd(x[i]);
}

/* An integer whose f64 might be rounded becomes one of 53 bits, to odd. */
static double odd_of(int64_t v, bool is_signed)
{
    bool negative = is_signed && v < 0;
    uint64_t m = negative ? 0 - (uint64_t)v : (uint64_t)v;
    if (m >> 53) m = (m & ~UINT64_C(0x7ff)) | (m & 0x7ff ? 0x800 : 0);
    return negative ? -(double)m : (double)m;
}

static float power_of(int64_t round, float x)
{
    int e;
    if (!(x > 0) || isinf(x) || round == 0) return x;
    float m = frexpf(x, &e);
    return ldexpf(1, e - (round < 0 || m == 0.5f));
}

/* What floats of a byte need before they are rounded: a power of two, an end. */
static void prepare(const zt_cast_attrs *cast, zt_dtype to, float *x, int64_t n)
{
    double least, most;
    if (to == ZT_F8_E8M0)
        for (int64_t i = 0; i < n; i++) x[i] = power_of(cast->round, x[i]);
    if (!cast->saturate || zt_dtype_get(to)->kind != 'F' || zt_dtype_get(to)->block_bytes > 1) return;
    zt_dtype_range(to, &least, &most);
    const float top = (float)most, bottom = to == ZT_F8_E8M0 ? -INFINITY : (float)least;
    for (int64_t i = 0; i < n; i++) x[i] = x[i] > top ? top : x[i] < bottom ? bottom : x[i];
}

/* What f64 has in whole numbers, for their low bits. */
static void whole_parts(const double *x, int64_t *y, int64_t n) { integer[ZT_I64].whole_wide(x, y, n); }

static void low_bits(const int64_t *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = (float)(x[i] & 15);
}

/* n elements of x as f32, ready to be encoded as the output's type; `wide` has room for n f64. */
static void as_floats(const zt_cpu_call *call, const char *src, float *f, void *wide, int64_t n)
{
    zt_dtype from = call->in[0].type.dtype, to = call->out[0].type.dtype;
    bool bits = zt_dtype_is_packed(to) && to != ZT_F4_E2M1;
    int64_t *whole = wide;
    double *real = wide;
    if (zt_dtype_get(from)->decode && from != ZT_F64) {
        zt_dtype_get(from)->decode(src, f, n);
    } else if (bits) {
        if (from == ZT_F64)
            whole_parts((const double *)src, whole, n);
        else
            integer[from].widen(src, whole, n);
        low_bits(whole, f, n);
    } else if (from == ZT_F64) {
        shorten(to, (const double *)src, f, n);
    } else if (to == ZT_F32) {
        integer[from].floats(src, f, n);
    } else {
        integer[from].widen(src, whole, n);
        for (int64_t i = 0; i < n; i++) real[i] = odd_of(whole[i], zt_dtype_get(from)->kind == 'I');
        shorten(to, real, f, n);
    }
    prepare(call->attrs, to, f, n);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static bool any_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in, (void)out;
    return true; /* what is not possible is refused by the row */
}

static void to_integers(const zt_cpu_call *call, const char *src, char *dst, float *f, int64_t *wide, int64_t n)
{
    zt_dtype from = call->in[0].type.dtype, to = call->out[0].type.dtype;
    if (from == ZT_F64) {
        integer[to].whole_wide((const double *)src, dst, n);
    } else if (zt_dtype_get(from)->decode) {
        zt_dtype_get(from)->decode(src, f, n);
        integer[to].whole(f, dst, n);
    } else {
        integer[from].widen(src, wide, n);
        integer[to].cut(wide, dst, n);
    }
}

static bool is_half(zt_dtype dtype) { return dtype == ZT_F16 || dtype == ZT_BF16; }

/* Whole vectors of n elements; returns how many elements those are. */
static int64_t to_halves(zt_dtype to, const float *x, char *y, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n && to == ZT_F16; i += LANES) vf_to_f16(y + 2 * i, vf_load(x + i));
    for (; i + LANES <= n; i += LANES) vf_to_bf16(y + 2 * i, vf_load(x + i));
    return i;
}

static int64_t of_halves(zt_dtype from, const char *x, float *y, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n && from == ZT_F16; i += LANES) vf_store(y + i, vf_of_f16(x + 2 * i));
    for (; i + LANES <= n; i += LANES) vf_store(y + i, vf_of_bf16(x + 2 * i));
    return i;
}

/* n elements from the i-th; `local` holds CHUNK floats, then CHUNK elements of 8 bytes. */
static void cast_chunk(const zt_cpu_call *call, int64_t at, int64_t n, float *local)
{
    zt_dtype from = call->in[0].type.dtype, to = call->out[0].type.dtype;
    char *src = element(&call->in[0], at), *dst = element(&call->out[0], at);
    void *wide = local + CHUNK;
    if (from == to && !zt_dtype_is_packed(to)) {
        memmove(dst, src, (size_t)(n / zt_dtype_get(to)->block * zt_dtype_get(to)->block_bytes));
    } else if (!zt_dtype_get(to)->encode) {
        to_integers(call, src, dst, local, wide, n);
    } else if (to == ZT_F64 && integer[from].doubles) {
        integer[from].doubles(src, (double *)(void *)dst, n);
    } else if (is_half(to) && from == ZT_F32) {
        int64_t i = to_halves(to, (const float *)(void *)src, dst, n);
        zt_dtype_get(to)->encode((const float *)(void *)src + i, dst + 2 * i, n - i);
    } else if (is_half(from) && to == ZT_F32) {
        int64_t i = of_halves(from, src, (float *)(void *)dst, n);
        zt_dtype_get(from)->decode(src + 2 * i, (float *)(void *)dst + i, n - i);
    } else {
        as_floats(call, src, local, wide, n);
        zt_dtype_get(to)->encode(local, dst, n);
    }
}

static void cast_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t count = zt_type_count(&call->out[0].type);
    (void)phase;
    for (int64_t at = begin * CHUNK; at < end * CHUNK && at < count; at += CHUNK)
        cast_chunk(call, at, count - at < CHUNK ? count - at : CHUNK, local);
}

static void bitcast_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_dtype_info *info = zt_dtype_get(call->out[0].type.dtype);
    int64_t bytes = (int64_t)zt_type_bytes(&call->out[0].type);
    int64_t each = CHUNK / info->block * info->block_bytes;
    int64_t first = begin * each, last = end * each < bytes ? end * each : bytes;
    (void)phase, (void)local;
    if (first < last) memcpy((char *)call->out[0].data + first, (const char *)call->in[0].data + first, (size_t)(last - first));
}

const zt_cpu_kernel ZT_SYM(zt_cpu_elementwise_cast)[] = {
    {.op = ZT_OP_cast, .has = any_has, .setup = chunks_setup, .run = cast_run},
    {.op = ZT_OP_bitcast, .has = any_has, .setup = chunks_setup, .run = bitcast_run},
    {0},
};
