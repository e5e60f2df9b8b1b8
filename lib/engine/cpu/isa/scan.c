/* scan.c - kernels of the running sums and products along an axis: a line an item, in f64. */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/lines.h"

/* ---- cumsum: one line an item, in f64 -------------------------------------------------------- */

static void cumsum_setup(zt_cpu_call *call)
{
    const zt_cumsum_attrs *cumsum = call->attrs;
    const zt_type *x = &call->in[0].type;
    int64_t n = x->dim[cumsum->axis < 0 ? cumsum->axis + x->rank : cumsum->axis];
    call->items[0] = n ? zt_type_count(x) / n : 0;
    call->aux[0] = n;
    call->aux[1] = inner_of(cumsum->axis, x);
}

static void cumsum_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_cumsum_attrs *cumsum = call->attrs;
    int64_t n = call->aux[0], inner = call->aux[1];
    (void)phase, (void)local;
    for (int64_t l = begin; l < end; l++) {
        int64_t at = l / inner * n * inner + l % inner, step = cumsum->reverse ? -inner : inner;
        if (cumsum->reverse) at += (n - 1) * inner;
        double sum = 0;
        for (int64_t i = 0; i < n; i++, at += step) {
            double x = (double)((const float *)call->in[0].data)[at];
            ((float *)call->out[0].data)[at] = (float)(cumsum->exclusive ? sum : sum + x);
            sum += x;
        }
    }
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void cumprod_setup(zt_cpu_call *call) { lines_setup(call, ((const zt_cumprod_attrs *)call->attrs)->axis); }

static void cumprod_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_cumprod_attrs *cumprod = call->attrs;
    int64_t n = call->aux[L_N], inner = call->aux[L_INNER];
    (void)phase, (void)local;
    for (int64_t l = begin; l < end; l++) {
        int64_t at = line_at(call, n, l), step = cumprod->reverse ? -inner : inner;
        double product = 1;
        if (cumprod->reverse) at += (n - 1) * inner;
        for (int64_t i = 0; i < n; i++, at += step) {
            double next = product * (double)((const float *)call->in[0].data)[at];
            ((float *)call->out[0].data)[at] = (float)(cumprod->exclusive ? product : next);
            product = next;
        }
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_scan)[] = {
    {.op = ZT_OP_cumsum, .has = f32_has, .setup = cumsum_setup, .run = cumsum_run},
    {.op = ZT_OP_cumprod, .has = f32_has, .setup = cumprod_setup, .run = cumprod_run},
    {0},
};
