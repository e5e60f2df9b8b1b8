/* elementwise.c - kernels of the ops whose y[i] depends on the inputs' [i] only.
 *
 * All is computed in f32, CHUNK elements at a time; operands of other types go through the thread's
 * scratch. An output may lie over an input of its own type: each element is read before it is
 * written.
 */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

enum { CHUNK = 1024 }; /* a multiple of every dtype's block */

static bool narrow(zt_dtype t) /* types whose values f32 holds exactly */
{
    return t == ZT_F32 || t == ZT_F16 || t == ZT_BF16;
}

/* ---- operands as f32 ------------------------------------------------------------------------- */

static char *element(const zt_cpu_arg *a, int64_t i)
{
    const zt_dtype_info *d = zt_dtype_get(a->type.dtype);
    return (char *)a->data + i / d->block * d->block_bytes;
}

/* n elements from the i-th: where they lie, or decoded into scratch. */
static const float *operand(const zt_cpu_arg *a, int64_t i, int64_t n, float *scratch)
{
    if (a->type.dtype == ZT_F32) return (const float *)a->data + i;
    zt_dtype_get(a->type.dtype)->decode(element(a, i), scratch, n);
    return scratch;
}

/* Where n elements of the output are to be computed; then to be put in their place. */
static float *result(const zt_cpu_arg *a, int64_t i, float *scratch)
{
    return a->type.dtype == ZT_F32 ? (float *)a->data + i : scratch;
}

static void put(const zt_cpu_arg *a, int64_t i, int64_t n, const float *y)
{
    if (a->type.dtype != ZT_F32) zt_dtype_get(a->type.dtype)->encode(y, element(a, i), n);
}

static void chunks_setup(zt_cpu_call *c)
{
    c->items[0] = (zt_type_count(&c->out[0].type) + CHUNK - 1) / CHUNK;
    c->local_bytes = 3 * CHUNK * sizeof(float);
}

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

typedef vf curve(vf x, float p);

/* f is known when compiling, so every use below becomes a loop of its own. */
INLINE void map(const float *x, float *y, int64_t n, curve *f, float p)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_store(y + i, f(vf_load(x + i), p));
    if (i < n) vf_store_n(y + i, (int)(n - i), f(vf_load_n(x + i, (int)(n - i)), p));
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

INLINE void run_map(zt_cpu_call *c, int64_t begin, int64_t end, float *local, curve *f, float p)
{
    int64_t count = zt_type_count(&c->out[0].type);
    for (int64_t at = begin * CHUNK; at < end * CHUNK && at < count; at += CHUNK) {
        int64_t n = count - at < CHUNK ? count - at : CHUNK;
        const float *x = operand(&c->in[0], at, n, local);
        float *y = result(&c->out[0], at, local + CHUNK);
        map(x, y, n, f, p);
        put(&c->out[0], at, n, y);
    }
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

static bool narrow_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return narrow(out[0].dtype); /* the inputs are of the same dtype */
}

/* ---- broadcasting ---------------------------------------------------------------------------- */

/* The output as rows of `cols` elements, in which an operand's step from element to element is 1
 * or, where it is repeated, 0. Where its row begins follows from the dimensions before. */
enum { AUX_COLS, AUX_LEAD, AUX_STEP_A, AUX_STEP_B };

/* Is t repeated along dimension d of out? */
static bool repeats(const zt_type *t, const zt_type *out, int d)
{
    int own = d - (out->rank - t->rank);
    return own < 0 || (t->dim[own] == 1 && out->dim[d] != 1);
}

static void broadcast_setup(zt_cpu_call *c)
{
    const zt_type *y = &c->out[0].type, *a = &c->in[0].type, *b = &c->in[1].type;
    int64_t cols = 1, count = zt_type_count(y);
    int lead = y->rank;
    bool ra = lead && repeats(a, y, lead - 1), rb = lead && repeats(b, y, lead - 1);
    while (lead && repeats(a, y, lead - 1) == ra && repeats(b, y, lead - 1) == rb)
        cols *= y->dim[--lead];
    c->aux[AUX_COLS] = cols;
    c->aux[AUX_LEAD] = lead;
    c->aux[AUX_STEP_A] = !ra;
    c->aux[AUX_STEP_B] = !rb;
    c->local_bytes = 3 * CHUNK * sizeof(float);
    c->items[0] = count ? count / cols * ((cols + CHUNK - 1) / CHUNK) : 0;
}

static int64_t row_begin(const zt_type *t, const zt_type *out, int lead, int64_t row)
{
    int64_t at = 0, stride = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        int o = d + out->rank - t->rank;
        if (o < lead && t->dim[d] != 1) {
            int64_t before = row;
            for (int k = lead - 1; k > o; k--) before /= out->dim[k];
            at += before % out->dim[o] * stride;
        }
        stride *= t->dim[d];
    }
    return at;
}

/* n elements of an operand from column i of a row; a repeated one fills the scratch. */
static const float *spread(const zt_cpu_arg *a, int64_t row, int64_t i, int64_t step, int64_t n,
                           float *scratch)
{
    if (step) return operand(a, row + i, n, scratch);
    float x = *operand(a, row, 1, scratch);
    for (int64_t k = 0; k < n; k++) scratch[k] = x;
    return scratch;
}

typedef vf pairwise(vf a, vf b);

INLINE void zip(const float *a, const float *b, float *y, int64_t n, pairwise *f)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_store(y + i, f(vf_load(a + i), vf_load(b + i)));
    int rest = (int)(n - i);
    if (rest) vf_store_n(y + i, rest, f(vf_load_n(a + i, rest), vf_load_n(b + i, rest)));
}

INLINE void run_pairs(zt_cpu_call *c, int64_t begin, int64_t end, float *local, pairwise *f)
{
    const zt_type *y = &c->out[0].type;
    int64_t cols = c->aux[AUX_COLS], pieces = (cols + CHUNK - 1) / CHUNK;
    int lead = (int)c->aux[AUX_LEAD];
    for (int64_t item = begin; item < end; item++) {
        int64_t row = item / pieces, i = item % pieces * CHUNK;
        int64_t n = cols - i < CHUNK ? cols - i : CHUNK;
        const float *a = spread(&c->in[0], row_begin(&c->in[0].type, y, lead, row), i,
                                c->aux[AUX_STEP_A], n, local);
        const float *b = spread(&c->in[1], row_begin(&c->in[1].type, y, lead, row), i,
                                c->aux[AUX_STEP_B], n, local + CHUNK);
        float *r = result(&c->out[0], row * cols + i, local + 2 * CHUNK);
        zip(a, b, r, n, f);
        put(&c->out[0], row * cols + i, n, r);
    }
}

static void add_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    run_pairs(c, begin, end, local, vf_add);
}

static void sub_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    run_pairs(c, begin, end, local, vf_sub);
}

static void mul_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    run_pairs(c, begin, end, local, vf_mul);
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

/* Through f32, where that does not round twice. */
static bool cast_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    const zt_dtype_info *from = zt_dtype_get(in[0]->dtype), *to = zt_dtype_get(out[0].dtype);
    (void)attrs;
    if (to->kind != 'F') return false;
    if (in[0]->dtype == ZT_F64 || (from->kind == 'I' && from->block_bytes > 2))
        return out[0].dtype == ZT_F32;
    return true;
}

static void cast_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t count = zt_type_count(&c->out[0].type);
    const zt_dtype_info *from = zt_dtype_get(c->in[0].type.dtype);
    const zt_dtype_info *to = zt_dtype_get(c->out[0].type.dtype);
    void (*decode)(const void *, float *, int64_t) = from->decode;
    if (!decode) decode = float_of_integer[c->in[0].type.dtype];
    (void)phase;
    for (int64_t at = begin * CHUNK; at < end * CHUNK && at < count; at += CHUNK) {
        int64_t n = count - at < CHUNK ? count - at : CHUNK;
        decode(element(&c->in[0], at), local, n);
        to->encode(local, element(&c->out[0], at), n);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_elementwise)[] = {
    {.op = ZT_OP_add, .has = narrow_has, .setup = broadcast_setup, .run = add_run},
    {.op = ZT_OP_sub, .has = narrow_has, .setup = broadcast_setup, .run = sub_run},
    {.op = ZT_OP_mul, .has = narrow_has, .setup = broadcast_setup, .run = mul_run},
    {.op = ZT_OP_scale, .has = narrow_has, .setup = chunks_setup, .run = scale_run},
    {.op = ZT_OP_softcap, .has = narrow_has, .setup = chunks_setup, .run = softcap_run},
    {.op = ZT_OP_silu, .has = narrow_has, .setup = chunks_setup, .run = silu_run},
    {.op = ZT_OP_gelu, .has = narrow_has, .setup = chunks_setup, .run = gelu_run},
    {.op = ZT_OP_swiglu, .has = narrow_has, .setup = chunks_setup, .run = swiglu_run},
    {.op = ZT_OP_geglu, .has = narrow_has, .setup = chunks_setup, .run = geglu_run},
    {.op = ZT_OP_cast, .has = cast_has, .setup = chunks_setup, .run = cast_run},
    {0},
};
