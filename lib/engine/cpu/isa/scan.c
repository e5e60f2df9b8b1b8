/* scan.c - kernels of the running sums and products along an axis: a line an item, in f64. */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/lines.h"

/* ---- cumsum: one line an item, in f64 -------------------------------------------------------- */

static void cumsum_setup(zt_cpu_call *c)
{
    const zt_cumsum_attrs *a = c->attrs;
    const zt_type *x = &c->in[0].type;
    int64_t n = x->dim[a->axis < 0 ? a->axis + x->rank : a->axis];
    c->items[0] = n ? zt_type_count(x) / n : 0;
    c->aux[0] = n;
    c->aux[1] = inner_of(a->axis, x);
}

static void cumsum_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_cumsum_attrs *a = c->attrs;
    int64_t n = c->aux[0], inner = c->aux[1];
    (void)phase, (void)local;
    for (int64_t l = begin; l < end; l++) {
        int64_t at = l / inner * n * inner + l % inner, step = a->reverse ? -inner : inner;
        if (a->reverse) at += (n - 1) * inner;
        double sum = 0;
        for (int64_t i = 0; i < n; i++, at += step) {
            double x = (double)((const float *)c->in[0].data)[at];
            ((float *)c->out[0].data)[at] = (float)(a->exclusive ? sum : sum + x);
            sum += x;
        }
    }
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void cumprod_setup(zt_cpu_call *c)
{
    lines_setup(c, ((const zt_cumprod_attrs *)c->attrs)->axis);
}

static void cumprod_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_cumprod_attrs *a = c->attrs;
    int64_t n = c->aux[L_N], inner = c->aux[L_INNER];
    (void)phase, (void)local;
    for (int64_t l = begin; l < end; l++) {
        int64_t at = line_at(c, n, l), step = a->reverse ? -inner : inner;
        double product = 1;
        if (a->reverse) at += (n - 1) * inner;
        for (int64_t i = 0; i < n; i++, at += step) {
            double next = product * (double)((const float *)c->in[0].data)[at];
            ((float *)c->out[0].data)[at] = (float)(a->exclusive ? product : next);
            product = next;
        }
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_scan)[] = {
    {.op = ZT_OP_cumsum, .has = f32_has, .setup = cumsum_setup, .run = cumsum_run},
    {.op = ZT_OP_cumprod, .has = f32_has, .setup = cumprod_setup, .run = cumprod_run},
    {0},
};
