/* elementwise.c - kernels of the ops whose y[i] depends on the inputs' [i] only.
 */
#include "lib/engine/cpu/isa/elements.h"

/* ---- one input, and one gated by another ----------------------------------------------------- */

INLINE vf times(vf x, float by) { return vf_mul(x, vf_set(by)); }

INLINE vf softcap(vf x, float cap) { return vf_mul(vf_set(cap), vf_tanh(vf_div(x, vf_set(cap)))); }

INLINE vf silu(vf x, float unused)
{
    (void)unused;
    return vf_mul(x, vf_sigmoid(x));
}

/* (1 + tanh u) / 2 is the logistic function of 2 u, which keeps its digits below zero. */
INLINE vf gelu_tanh(vf x, float unused)
{
    (void)unused;
    const float two_root = 1.5957691f; /* 2 sqrt(2 / pi) */
    vf u = vf_fma(vf_mul(x, x), vf_set(0.044715f * two_root), vf_set(two_root));
    return vf_mul(x, vf_sigmoid(vf_mul(x, u)));
}

/* x P(X < x) for a normal X. The tail P(X > |x|) is exp(-x^2/2) R(t), t = 1 / (1 + 0.35 |x|), with
 * R fitted (least squares, weights raised where errors were largest) to 3e-8 relative, |x| < 14. */
INLINE vf gelu_erf(vf x, float unused)
{
    (void)unused;
    static const float r[] = {-0.029145966f, 0.14397186f, -0.25571460f, 0.15917455f, -0.023110094f,
                              0.10550811f,   0.11983284f, 0.13986187f,  0.13962141f};
    const vf one = vf_set(1);
    vf a = vf_abs(x), t = vf_div(one, vf_fma(a, vf_set(0.35f), one)), sum = vf_set(r[0]);
    UNROLL for (int i = 1; i < 9; i++) sum = vf_fma(sum, t, vf_set(r[i]));
    vf tail = vf_mul(vf_mul(sum, t), vf_exp(vf_mul(vf_mul(a, a), vf_set(-0.5f))));
    return vf_mul(x, vf_choose(x, tail, vf_sub(one, tail)));
}

INLINE void map_gate(const float *x, const float *up, float *y, int64_t n, curve *f)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vf_store(y + i, vf_mul(f(vf_load(x + i), 0), vf_load(up + i)));
    int rest = (int)(n - i);
    if (rest)
        vf_store_n(y + i, rest, vf_mul(f(vf_load_n(x + i, rest), 0), vf_load_n(up + i, rest)));
}

INLINE void run_gate(zt_cpu_call *c, int64_t begin, int64_t end, float *local, curve *f)
{
    int64_t count = zt_type_count(&c->out[0].type);
    for (int64_t at = begin * CHUNK; at < end * CHUNK && at < count; at += CHUNK) {
        int64_t n = count - at < CHUNK ? count - at : CHUNK;
        const float *x = operand(&c->in[0], at, n, local);
        const float *up = operand(&c->in[1], at, n, local + CHUNK);
        float *y = result(&c->out[0], at, local + 2 * CHUNK);
        map_gate(x, up, y, n, f);
        put(&c->out[0], at, n, y);
    }
}

static void scale_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_scale_attrs *a = c->attrs;
    (void)phase;
    run_map(c, begin, end, local, times, (float)a->by);
}

static void softcap_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_softcap_attrs *a = c->attrs;
    (void)phase;
    run_map(c, begin, end, local, softcap, (float)a->cap);
}

static void silu_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    run_map(c, begin, end, local, silu, 0);
}

INLINE vf tanh_slope(vf x, float unused)
{
    (void)unused;
    vf t = vf_tanh(x);
    return vf_sub(vf_set(1), vf_mul(t, t));
}

static void tanh_prime_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    run_gate(c, begin, end, local, tanh_slope);
}

static void swiglu_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    run_gate(c, begin, end, local, silu);
}

static bool is_erf(const zt_word *form) { return !strcmp(form->s, "erf"); }

static void gelu_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_gelu_attrs *a = c->attrs;
    (void)phase;
    if (is_erf(&a->form))
        run_map(c, begin, end, local, gelu_erf, 0);
    else
        run_map(c, begin, end, local, gelu_tanh, 0);
}

static void geglu_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_geglu_attrs *a = c->attrs;
    (void)phase;
    if (is_erf(&a->form))
        run_gate(c, begin, end, local, gelu_erf);
    else
        run_gate(c, begin, end, local, gelu_tanh);
}

/* ---- cast ------------------------------------------------------------------------------------ */

/* X(NAME, C type): integers and bool to f32. */
#define INTEGERS(X)                                                                                \
    X(I64, int64_t) X(I32, int32_t) X(I16, int16_t) X(I8, int8_t) X(U8, uint8_t) X(BOOL, uint8_t)

#define X(NAME, T)                                                                                 \
    static void float_of_##NAME(const void *src, float *dst, int64_t n)                            \
    {                                                                                              \
        const T *s = src;                                                                          \
        for (int64_t i = 0; i < n; i++) dst[i] = (float)s[i];                                      \
    }
INTEGERS(X)
#undef X

#define X(NAME, T) [ZT_##NAME] = float_of_##NAME,
static void (*const float_of_integer[ZT_DTYPE_COUNT])(const void *, float *,
                                                      int64_t) = {INTEGERS(X)};
#undef X

/* And among each other: by way of i64, of which a type keeps the low bits, bool whether any is set.
 * From f32: towards zero, what is out of range to its end, NaN to 0. */
#define X(NAME, T)                                                                                 \
    static void widen_##NAME(const void *src, int64_t *dst, int64_t n)                             \
    {                                                                                              \
        const T *s = src;                                                                          \
        for (int64_t i = 0; i < n; i++) dst[i] = (int64_t)s[i];                                    \
    }                                                                                              \
    static void cut_##NAME(const int64_t *src, void *dst, int64_t n)                               \
    {                                                                                              \
        T *d = dst;                                                                                \
        for (int64_t i = 0; i < n; i++) d[i] = ZT_##NAME == ZT_BOOL ? src[i] != 0 : (T)src[i];     \
    }                                                                                              \
    static void whole_##NAME(const float *src, void *dst, int64_t n)                               \
    {                                                                                              \
        T *d = dst;                                                                                \
        const int bits = 8 * (int)sizeof(T) - ((T)-1 < 0);                                         \
        const T most = (T)(UINT64_MAX >> (64 - bits));                                             \
        const float end = (float)(UINT64_C(1) << bits), least = (T)-1 < 0 ? -end : 0;              \
        for (int64_t i = 0; i < n; i++)                                                            \
            d[i] = ZT_##NAME == ZT_BOOL ? src[i] != 0                                              \
                   : src[i] >= end      ? most                                                     \
                   : src[i] <= least    ? (T)least                                                 \
                   : src[i] != src[i]   ? 0                                                        \
                                        : (T)src[i];                                               \
    }
INTEGERS(X)
#undef X

#define X(NAME, T) [ZT_##NAME] = {widen_##NAME, cut_##NAME, whole_##NAME},
static const struct {
    void (*widen)(const void *, int64_t *, int64_t);
    void (*cut)(const int64_t *, void *, int64_t);
    void (*whole)(const float *, void *, int64_t);
} to_integer[ZT_DTYPE_COUNT] = {INTEGERS(X)};
#undef X

/* Through f32, where that does not round twice. */
static bool cast_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    const zt_dtype_info *from = zt_dtype_get(in[0]->dtype), *to = zt_dtype_get(out[0].dtype);
    (void)attrs;
    if (to->kind != 'F') return in[0]->dtype != ZT_F64;
    if (in[0]->dtype == ZT_F64 || (from->kind == 'I' && from->block_bytes > 2))
        return out[0].dtype == ZT_F32;
    return true;
}

/* n elements from the i-th; `local` holds CHUNK floats, then CHUNK integers. */
static void cast_chunk(const zt_cpu_call *c, int64_t at, int64_t n, float *local)
{
    const zt_dtype_info *from = zt_dtype_get(c->in[0].type.dtype);
    const zt_dtype_info *to = zt_dtype_get(c->out[0].type.dtype);
    zt_dtype x = c->in[0].type.dtype, y = c->out[0].type.dtype;
    char *src = element(&c->in[0], at), *dst = element(&c->out[0], at);
    int64_t *wide = (int64_t *)(local + CHUNK);
    if (to->encode) {
        (from->decode ? from->decode : float_of_integer[x])(src, local, n);
        to->encode(local, dst, n);
    } else if (from->decode) {
        from->decode(src, local, n);
        to_integer[y].whole(local, dst, n);
    } else {
        to_integer[x].widen(src, wide, n);
        to_integer[y].cut(wide, dst, n);
    }
}

static void cast_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t count = zt_type_count(&c->out[0].type);
    (void)phase;
    for (int64_t at = begin * CHUNK; at < end * CHUNK && at < count; at += CHUNK)
        cast_chunk(c, at, count - at < CHUNK ? count - at : CHUNK, local);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_elementwise)[] = {
    {.op = ZT_OP_scale, .has = narrow_has, .setup = chunks_setup, .run = scale_run},
    {.op = ZT_OP_softcap, .has = narrow_has, .setup = chunks_setup, .run = softcap_run},
    {.op = ZT_OP_silu, .has = narrow_has, .setup = chunks_setup, .run = silu_run},
    {.op = ZT_OP_gelu, .has = narrow_has, .setup = chunks_setup, .run = gelu_run},
    {.op = ZT_OP_swiglu, .has = narrow_has, .setup = chunks_setup, .run = swiglu_run},
    {.op = ZT_OP_geglu, .has = narrow_has, .setup = chunks_setup, .run = geglu_run},
    {.op = ZT_OP_tanh_prime, .has = narrow_has, .setup = chunks_setup, .run = tanh_prime_run},
    {.op = ZT_OP_cast, .has = cast_has, .setup = chunks_setup, .run = cast_run},
    {0},
};
