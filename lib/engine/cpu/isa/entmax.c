/* entmax.c - kernel of entmax along an axis: one line an item, in f64.
 *
 * The sum of what the line has above threshold t falls with t. Newton's steps from below, where it
 * is above 1, stay there and meet it fast when it is convex (alpha up to 2); else halving.
 */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

enum { AUX_LENGTH, AUX_INNER };

static bool entmax_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32;
}

static void entmax_setup(zt_cpu_call *c)
{
    const zt_entmax_attrs *a = c->attrs;
    const zt_type *x = &c->in[0].type;
    int axis = (int)(a->axis < 0 ? a->axis + x->rank : a->axis);
    int64_t inner = 1, outer = 1;
    c->items[0] = 0;
    if (!zt_type_count(x)) return;
    for (int d = 0; d < axis; d++) outer *= x->dim[d];
    for (int d = axis + 1; d < x->rank; d++) inner *= x->dim[d];
    c->aux[AUX_LENGTH] = x->dim[axis];
    c->aux[AUX_INNER] = inner;
    c->items[0] = outer * inner;
    c->local_bytes = (size_t)x->dim[axis] * sizeof(double);
}

static double power(double x, double p) { return p == 1 ? x : p == 2 ? x * x : pow(x, p); }

/* The sum of (z - t)^p above t, and its slope in t. */
static double total(const double *z, int64_t n, double t, double p, double *slope)
{
    double sum = 0, fall = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = z[i] - t;
        if (!(d > 0)) continue;
        double y = power(d, p);
        sum += y;
        fall -= p * y / d;
    }
    *slope = fall;
    return sum;
}

static double threshold(const double *z, int64_t n, double top, double p)
{
    double low = top - 1, high = top, slope;
    for (int k = 0; k < 60 && p >= 1; k++) {
        double sum = total(z, n, low, p, &slope), next = low - (sum - 1) / slope;
        if (!(next > low)) return low;
        low = next;
    }
    for (int k = 0; k < 200 && p < 1; k++) {
        double middle = low + (high - low) / 2;
        if (middle == low || middle == high) break;
        *(total(z, n, middle, p, &slope) >= 1 ? &low : &high) = middle;
    }
    return low;
}

static void entmax_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    double alpha = ((const zt_entmax_attrs *)c->attrs)->alpha, p = 1 / (alpha - 1), *z = local;
    int64_t n = c->aux[AUX_LENGTH], inner = c->aux[AUX_INNER];
    (void)phase;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i / inner * n * inner + i % inner;
        const float *x = (const float *)c->in[0].data + at;
        float *y = (float *)c->out[0].data + at;
        double top = -INFINITY, sum = 0;
        for (int64_t k = 0; k < n; k++) {
            z[k] = (double)x[k * inner] * (alpha - 1);
            top = z[k] > top ? z[k] : top;
        }
        double t = threshold(z, n, top, p);
        for (int64_t k = 0; k < n; k++) sum += z[k] = z[k] > t ? power(z[k] - t, p) : 0;
        for (int64_t k = 0; k < n; k++) y[k * inner] = (float)(z[k] / sum);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_entmax)[] = {
    {.op = ZT_OP_entmax, .has = entmax_has, .setup = entmax_setup, .run = entmax_run},
    {0},
};
