/* quant.c - kernels of linear quantization, CHUNK elements an item; quotients are rounded to f32,
 * all else is f64, as in the rows' loops. */
#include "lib/engine/cpu/isa/elements.h"

#include <math.h>

/* ---- scales ---------------------------------------------------------------------------------- */

/* Element i has scale i / inner % n, cut in blocks; `one`: all have the first. */
typedef struct scales {
    bool one;
    int64_t inner, n, block, per_line;
} scales;

static scales scales_of(int64_t axis, int64_t block, const zt_type *x, const zt_type *scale)
{
    scales s = {.one = !block && zt_type_count(scale) == 1, .inner = 1, .block = block};
    if (s.one) return s;
    int at = (int)(axis < 0 ? axis + x->rank : axis);
    for (int d = at + 1; d < x->rank; d++) s.inner *= x->dim[d];
    s.n = x->dim[at];
    s.per_line = block ? scale->dim[at] : 0;
    return s;
}

INLINE int64_t scale_at(const scales *s, int64_t i)
{
    if (s->one) return 0;
    int64_t k = i / s->inner % s->n;
    if (!s->block) return k;
    return (i / s->inner / s->n * s->per_line + k / s->block) * s->inner + i % s->inner;
}

/* X(NAME, C type): codes that are integers. */
// clang-format off
#define CODES(X)                                                                                   \
    X(I32, int32_t) X(I16, int16_t) X(I8, int8_t) X(U32, uint32_t) X(U16, uint16_t) X(U8, uint8_t)
#define X(NAME, T)                                                                                 \
    static void codes_##NAME(const void *src, double *dst, int64_t n)                              \
    {                                                                                              \
        const T *s = src;                                                                          \
        for (int64_t i = 0; i < n; i++) dst[i] = (double)s[i];                                     \
    }                                                                                              \
    static void encode_##NAME(const double *src, void *dst, int64_t n)                             \
    {                                                                                              \
        T *d = dst;                                                                                \
        for (int64_t i = 0; i < n; i++) d[i] = (T)src[i];                                          \
    }
CODES(X)
#undef X
#define X(NAME, T) [ZT_##NAME] = {codes_##NAME, encode_##NAME},
static const struct {
    void (*of)(const void *, double *, int64_t);
    void (*to)(const double *, void *, int64_t);
} codes[ZT_DTYPE_COUNT] = {CODES(X)};
// clang-format on
#undef X

/* n <= CHUNK elements of codes from the i-th, whole blocks; f: room for as many floats. */
static void numbers_of(const zt_cpu_arg *arg, int64_t i, double *y, float *f, int64_t n)
{
    zt_dtype dtype = arg->type.dtype;
    if (codes[dtype].of) {
        codes[dtype].of(element(arg, i), y, n);
        return;
    }
    zt_dtype_get(dtype)->decode(element(arg, i), f, n);
    for (int64_t j = 0; j < n; j++) y[j] = (double)f[j];
}

/* One of them, wherever it is in its byte. */
static double number_at(const zt_cpu_arg *arg, int64_t i)
{
    const zt_dtype_info *info = zt_dtype_get(arg->type.dtype);
    float f[4];
    double y;
    if (codes[arg->type.dtype].of) {
        codes[arg->type.dtype].of(element(arg, i), &y, 1);
        return y;
    }
    info->decode(element(arg, i), f, info->block);
    return (double)f[i % info->block];
}

static bool quantize_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return in[0]->dtype == ZT_F32 && in[1]->dtype == ZT_F32;
}

static void quant_setup(zt_cpu_call *call)
{
    call->items[0] = (zt_type_count(&call->out[0].type) + CHUNK - 1) / CHUNK;
    call->local_bytes = CHUNK * (sizeof(float) + sizeof(double));
}

static void quantize_chunk(zt_cpu_call *call, const scales *s, int64_t at, int64_t n, double *y, float *f)
{
    const zt_quantize_linear_attrs *quantize_linear = call->attrs;
    const float *x = (const float *)call->in[0].data + at, *scale = call->in[1].data;
    zt_dtype to = call->out[0].type.dtype;
    bool integers = codes[to].to || (zt_dtype_is_packed(to) && to != ZT_F4_E2M1);
    double least, most;
    zt_dtype_range(to, &least, &most);
    for (int64_t j = 0; j < n; j++) {
        int64_t k = scale_at(s, at + j);
        double v = (double)(x[j] / scale[k]);
        if (integers) v = v != v ? 0 : rint(v);
        if (call->in[2].data) v += number_at(&call->in[2], k);
        if (integers || quantize_linear->saturate) v = v > most ? most : v < least ? least : v;
        y[j] = v;
    }
    if (codes[to].to) {
        codes[to].to(y, element(&call->out[0], at), n);
        return;
    }
    for (int64_t j = 0; j < n; j++) f[j] = zt_f64_to_f32_odd(y[j]);
    zt_dtype_get(to)->encode(f, element(&call->out[0], at), n);
}

static void quantize_linear_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_quantize_linear_attrs *quantize_linear = call->attrs;
    scales s = scales_of(quantize_linear->axis, quantize_linear->block, &call->in[0].type, &call->in[1].type);
    int64_t count = zt_type_count(&call->out[0].type);
    (void)phase;
    for (int64_t at = begin * CHUNK; at < end * CHUNK && at < count; at += CHUNK)
        quantize_chunk(call, &s, at, count - at < CHUNK ? count - at : CHUNK, local, (float *)((double *)local + CHUNK));
}

static bool dequantize_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32;
}

static void dequantize_linear_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_dequantize_linear_attrs *dequantize_linear = call->attrs;
    scales s = scales_of(dequantize_linear->axis, dequantize_linear->block, &call->in[0].type, &call->in[1].type);
    int64_t count = zt_type_count(&call->out[0].type);
    const float *scale = call->in[1].data;
    double *x = local;
    (void)phase;
    for (int64_t at = begin * CHUNK; at < end * CHUNK && at < count; at += CHUNK) {
        int64_t n = count - at < CHUNK ? count - at : CHUNK;
        float *y = (float *)call->out[0].data + at;
        numbers_of(&call->in[0], at, x, (float *)(x + CHUNK), n);
        for (int64_t j = 0; j < n; j++) {
            int64_t k = scale_at(&s, at + j);
            double less = call->in[2].data ? number_at(&call->in[2], k) : 0;
            y[j] = (float)((x[j] - less) * (double)scale[k]);
        }
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_quant)[] = {
    {.op = ZT_OP_quantize_linear, .has = quantize_has, .setup = quant_setup, .run = quantize_linear_run},
    {.op = ZT_OP_dequantize_linear, .has = dequantize_has, .setup = quant_setup, .run = dequantize_linear_run},
    {0},
};
