/* reduce.c - kernels of the ops that walk the last dimension: one row an item. */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

static int64_t cols_of(const zt_type *t) { return t->rank ? t->dim[t->rank - 1] : 1; }

static void rows_setup(zt_cpu_call *c)
{
    int64_t cols = cols_of(&c->in[0].type), count = zt_type_count(&c->in[0].type);
    int64_t rows = cols ? count / cols : zt_type_count(&c->out[0].type);
    c->items[0] = rows;
}

/* The largest of n, -inf when there is none; NaN never is. */
static float largest(const float *x, int64_t n)
{
    vf top = vf_set(-INFINITY);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) top = vf_max(vf_load(x + i), top);
    int rest = (int)(n - i);
    if (rest) top = vf_max(vf_first(rest, vf_load_n(x + i, rest), top), top);
    return vf_top(top);
}

/* ---- argmax ---------------------------------------------------------------------------------- */

static int32_t argmax(const float *x, int64_t n)
{
    float top = largest(x, n);
    for (int64_t i = 0; i < n; i++)
        if (x[i] == top) return (int32_t)i;
    return 0;
}

static void argmax_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const float *x = c->in[0].data;
    int32_t *y = c->out[0].data;
    int64_t cols = cols_of(&c->in[0].type);
    (void)phase, (void)local;
    for (int64_t r = begin; r < end; r++) y[r] = argmax(x + r * cols, cols);
}

/* An attribute struct that begins with an axis names the last, and x is f32. */
static bool last_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    int64_t axis = ((const zt_softmax_attrs *)attrs)->axis;
    (void)out;
    return in[0]->dtype == ZT_F32 && (axis == -1 || axis == in[0]->rank - 1);
}

/* ---- softmax --------------------------------------------------------------------------------- */

enum { CHUNK = 1024 }; /* a sum in f32 is at most so long; those are added up in f64 */

/* y = exp(x - top) of n <= CHUNK; returns the sum. */
static float exps(const float *x, float *y, int n, float top)
{
    vf sum = vf_set(0), t = vf_set(top);
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf e = vf_exp(vf_sub(vf_load(x + i), t));
        vf_store(y + i, e);
        sum = vf_add(sum, e);
    }
    if (i < n) {
        vf e = vf_exp(vf_sub(vf_load_n(x + i, n - i), t));
        vf_store_n(y + i, n - i, e);
        sum = vf_add(sum, vf_first(n - i, e, vf_set(0)));
    }
    return vf_sum(sum);
}

static void divide(float *y, int64_t n, float by)
{
    vf d = vf_set(by);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_store(y + i, vf_div(vf_load(y + i), d));
    int rest = (int)(n - i);
    if (rest) vf_store_n(y + i, rest, vf_div(vf_load_n(y + i, rest), d));
}

static void softmax_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t cols = cols_of(&c->in[0].type);
    (void)phase, (void)local;
    for (int64_t r = begin; r < end; r++) {
        const float *x = (const float *)c->in[0].data + r * cols;
        float *y = (float *)c->out[0].data + r * cols, top = largest(x, cols);
        double sum = 0;
        for (int64_t i = 0; i < cols; i += CHUNK)
            sum += (double)exps(x + i, y + i, cols - i < CHUNK ? (int)(cols - i) : CHUNK, top);
        divide(y, cols, (float)sum);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_reduce)[] = {
    {.op = ZT_OP_argmax, .has = last_has, .setup = rows_setup, .run = argmax_run},
    {.op = ZT_OP_softmax, .has = last_has, .setup = rows_setup, .run = softmax_run},
    {0},
};
