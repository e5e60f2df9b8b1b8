/* argmax.c - kernels of argmax and argmin: along the last axis a row an item, along another LANES neighbours. */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/lines.h"

/* ---- along the last axis: a row an item ------------------------------------------------------ */

static int32_t argmax(const float *x, int64_t n)
{
    float top = largest(x, n);
    for (int64_t i = 0; i < n; i++)
        if (x[i] == top) return (int32_t)i;
    return 0;
}

static void argmax_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const float *x = call->in[0].data;
    int32_t *y = call->out[0].data;
    int64_t cols = cols_of(&call->in[0].type);
    (void)phase, (void)local;
    for (int64_t r = begin; r < end; r++) y[r] = argmax(x + r * cols, cols);
}

static int32_t argmin(const float *x, int64_t n)
{
    vf low = vf_set(INFINITY);
    float lane[LANES], best = INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) low = vf_min(vf_load(x + i), low);
    vf_store(lane, low);
    for (int j = 0; j < LANES; j++) best = lane[j] < best ? lane[j] : best;
    for (; i < n; i++) best = x[i] < best ? x[i] : best;
    for (i = 0; i < n; i++)
        if (x[i] == best) return (int32_t)i;
    return 0;
}

static void argmin_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const float *x = call->in[0].data;
    int32_t *y = call->out[0].data;
    int64_t cols = cols_of(&call->in[0].type);
    (void)phase, (void)local;
    for (int64_t r = begin; r < end; r++) y[r] = argmin(x + r * cols, cols);
}

/* ---- argmax, argmin: LANES neighbours, which have their lines side by side ------------------- */

enum { L_TILES = L_INNER + 1 };

static void arg_setup(zt_cpu_call *call)
{
    int64_t axis = ((const zt_argmax_attrs *)call->attrs)->axis; /* argmin's attributes are the same */
    const zt_type *x = &call->in[0].type;
    int at = (int)(axis < 0 ? axis + x->rank : axis);
    int64_t inner = 1, outer = 1;
    for (int d = 0; d < at; d++) outer *= x->dim[d];
    for (int d = at + 1; d < x->rank; d++) inner *= x->dim[d];
    call->aux[L_N] = x->dim[at];
    call->aux[L_INNER] = inner;
    call->aux[L_TILES] = (inner + LANES - 1) / LANES;
    call->items[0] = outer * call->aux[L_TILES];
}

/* NaN never wins; 0 where all are NaN or there are none. */
INLINE void arg_lines(float sign, const float *x, int64_t n, int64_t inner, int some, int32_t *y)
{
    float best[LANES];
    for (int j = 0; j < some; j++) best[j] = NAN, y[j] = 0;
    for (int64_t k = 0; k < n; k++, x += inner)
        for (int j = 0; j < some; j++) {
            float v = sign * x[j];
            bool wins = v > best[j] || (best[j] != best[j] && v == v);
            best[j] = wins ? v : best[j];
            y[j] = wins ? (int32_t)k : y[j];
        }
}

INLINE void arg_items(float sign, zt_cpu_call *call, int64_t begin, int64_t end)
{
    int64_t n = call->aux[L_N], inner = call->aux[L_INNER], tiles = call->aux[L_TILES];
    for (int64_t item = begin; item < end; item++) {
        int64_t o = item / tiles, column = item % tiles * LANES;
        const float *x = (const float *)call->in[0].data + o * n * inner + column;
        int32_t *y = (int32_t *)call->out[0].data + o * inner + column;
        if (inner - column >= LANES)
            arg_lines(sign, x, n, inner, LANES, y);
        else
            arg_lines(sign, x, n, inner, (int)(inner - column), y);
    }
}

static void argmax_columns_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase, (void)local;
    arg_items(1, call, begin, end);
}

static void argmin_columns_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase, (void)local;
    arg_items(-1, call, begin, end);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_argmax)[] = {
    {.op = ZT_OP_argmax, .has = last_has, .setup = rows_setup, .run = argmax_run},
    {.op = ZT_OP_argmin, .has = last_has, .setup = rows_setup, .run = argmin_run},
    {.op = ZT_OP_argmax, .has = f32_has, .setup = arg_setup, .run = argmax_columns_run},
    {.op = ZT_OP_argmin, .has = f32_has, .setup = arg_setup, .run = argmin_columns_run},
    {0},
};
