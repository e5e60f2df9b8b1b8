/* pool.c - kernels of pooling, there and back: a plane an item, its output a line at a time. For
 * each tap the elements of a line that it meets inside the input are one loop. */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"
#include "lib/ops/window.h"

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct job job;

/* n elements of the small value from o on meet the large one's from i on, `step` apart. */
typedef void meet_fn(const job *j, int64_t o, int64_t n, int64_t i, int64_t step);

struct job {
    const zt_window *w;
    const float *x, *y, *v; /* this plane's */
    float *out;
    float *line, *top; /* of this thread: [out of the last dimension] each */
    int32_t *index;
    double p;
    float beta;
    const float *weight; /* of the windows: avg_pool's factors, smooth_max_pool's padding */
    int64_t first;       /* of max_pool: the line's first element */
    int64_t *lo, *hi;    /* [taps of the last dimension]: elements of a line that meet the input */
};

/* Where the line's taps begin in the plane, without the last dimension; -1: outside. */
static int64_t line_of(const zt_window *window, const int64_t *o, const int64_t *k)
{
    int64_t at = 0;
    for (int d = 0; d < window->n - 1; d++) {
        int64_t i = o[d] * window->stride[d] + k[d] * window->dilation[d] - window->pad[d];
        if (i < 0 || i >= window->in[d]) return -1;
        at = (at + i) * window->in[d + 1];
    }
    return at;
}

/* Once a plane: divisions cost more than short lines. */
static void find_inside(job *j)
{
    const zt_window *window = j->w;
    int last = window->n - 1;
    int64_t step = window->stride[last];
    for (int64_t k = 0; k < window->k[last]; k++) {
        int64_t shift = k * window->dilation[last] - window->pad[last];
        j->lo[k] = shift < 0 ? (-shift + step - 1) / step : 0;
        j->hi[k] = shift >= window->in[last] ? 0 : (window->in[last] - 1 - shift) / step + 1;
        if (j->hi[k] > window->out[last]) j->hi[k] = window->out[last];
    }
}

static void meet_line(const job *j, int64_t line, meet_fn *meet)
{
    const zt_window *window = j->w;
    int last = window->n - 1;
    int64_t o[ZT_WINDOW_RANK], k[ZT_WINDOW_RANK] = {0}, step = window->stride[last], rest = line;
    for (int d = last - 1; d >= 0; d--) {
        o[d] = rest % window->out[d];
        rest /= window->out[d];
    }
    for (int64_t tap = 0; tap < window->taps; tap++) {
        int64_t base = line_of(window, o, k), shift = k[last] * window->dilation[last] - window->pad[last];
        int64_t lo = j->lo[k[last]], hi = j->hi[k[last]];
        if (base >= 0 && lo < hi) meet(j, line * window->out[last] + lo, hi - lo, base + lo * step + shift, step);
        for (int d = last; d >= 0 && ++k[d] == window->k[d]; d--) k[d] = 0;
    }
}

/* ---- what is done where they meet ------------------------------------------------------------ */

static int64_t wide(const job *j) { return j->w->out[j->w->n - 1]; }

/* Sixteen elements of a line, of which the first n meet x: the larger and its index. Without
 * branches, for which is larger nobody can foresee, and with no number of turns but sixteen, so that
 * the compiler makes vectors of it. */
static void take_larger(const float *x, int32_t i, int32_t step, int n, float *line, int32_t *index)
{
    float top[LANES];
    int32_t bits[LANES], was[LANES], old[LANES];
    memcpy(top, line, sizeof top);
    memcpy(was, line, sizeof was);
    memcpy(bits, x, sizeof bits);
    memcpy(old, index, sizeof old);
    for (int l = 0; l < LANES; l++) {
        int32_t above = -((x[l] > top[l]) | ((x[l] != x[l]) & (top[l] == top[l])) | (old[l] < 0));
        above &= -(l < n);
        was[l] ^= (bits[l] ^ was[l]) & above;
        old[l] ^= ((i + l * step) ^ old[l]) & above;
    }
    memcpy(line, was, sizeof was);
    memcpy(index, old, sizeof old);
}

static void meet_max(const job *j, int64_t o, int64_t n, int64_t i, int64_t step)
{
    const float *from = j->x + i;
    float *line = j->line + (o - j->first), x[LANES] = {0};
    int32_t *index = j->index + (o - j->first);
    for (int64_t t = 0; t < n; t += LANES) { /* a line has room for sixteen more */
        int left = n - t < LANES ? (int)(n - t) : LANES;
        for (int l = 0; l < left; l++) x[l] = from[(t + l) * step];
        take_larger(x, (int32_t)(i + t * step), (int32_t)step, left, line + t, index + t);
    }
}

static void meet_sum(const job *j, int64_t o, int64_t n, int64_t i, int64_t step)
{
    int64_t t = 0;
    for (; step == 1 && t + LANES <= n; t += LANES)
        vf_store(j->out + o + t, vf_add(vf_load(j->out + o + t), vf_load(j->x + i + t)));
    for (; t < n; t++) j->out[o + t] += j->x[i + t * step];
}

static void meet_spread(const job *j, int64_t o, int64_t n, int64_t i, int64_t step)
{
    for (int64_t t = 0; t < n; t++) j->out[i + t * step] += j->x[o + t] * j->weight[o + t];
}

static void meet_power(const job *j, int64_t o, int64_t n, int64_t i, int64_t step)
{
    for (int64_t t = 0; t < n; t++) {
        float x = fabsf(j->x[i + t * step]);
        j->out[o + t] += j->p == 2 ? x * x : j->p == 1 ? x : (float)pow((double)x, j->p);
    }
}

static void meet_top(const job *j, int64_t o, int64_t n, int64_t i, int64_t step)
{
    o %= wide(j);
    for (int64_t t = 0; t < n; t++) {
        float x = j->beta * j->x[i + t * step];
        if (!(x <= j->top[o + t])) j->top[o + t] = x;
    }
}

/* exp(beta x[i] - by[o]) of up to 16 elements. */
INLINE vf powers(const job *j, const float *by, float times, int64_t n, int64_t i, int64_t step)
{
    float a[LANES] = {0};
    for (int64_t t = 0; t < n && t < LANES; t++) a[t] = j->beta * j->x[i + t * step] - times * by[t];
    return vf_exp(vf_load(a));
}

static void meet_exp(const job *j, int64_t o, int64_t n, int64_t i, int64_t step)
{
    o %= wide(j);
    for (int64_t t = 0; t < n; t += LANES) {
        int left = n - t < LANES ? (int)(n - t) : LANES;
        vf e = powers(j, j->top + o + t, 1, left, i + t * step, step);
        vf_store_n(j->line + o + t, left, vf_add(vf_load_n(j->line + o + t, left), e));
    }
}

static void meet_unpool(const job *j, int64_t o, int64_t n, int64_t i, int64_t step)
{
    float e[LANES];
    for (int64_t t = 0; t < n; t += LANES) {
        vf_store(e, powers(j, j->y + o + t, j->beta, n - t, i + t * step, step));
        for (int64_t l = t; l < n && l < t + LANES; l++) j->out[i + l * step] += j->v[o + l] * e[l - t];
    }
}

static void meet_mean(const job *j, int64_t o, int64_t n, int64_t i, int64_t step)
{
    float e[LANES];
    for (int64_t t = 0; t < n; t += LANES) {
        vf_store(e, powers(j, j->y + o + t, j->beta, n - t, i + t * step, step));
        for (int64_t l = t; l < n && l < t + LANES; l++) j->out[o + l] += j->v[i + l * step] * e[l - t];
    }
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* All pools begin with max_pool's attributes. */
static zt_window window_of(const zt_cpu_call *call)
{
    const zt_max_pool_attrs *max_pool = call->attrs;
    const zt_window_lists l = ZT_WINDOW_LISTS(max_pool);
    const zt_type *small = call->out[0].data ? &call->out[0].type : &call->out[1].type;
    const zt_type *large = &call->in[0].type;
    if (call->kernel->op == ZT_OP_avg_unpool) large = &call->out[0].type, small = &call->in[0].type;
    if (call->kernel->op == ZT_OP_smooth_max_unpool) small = &call->in[1].type;
    return zt_window_of(&l, large, small, max_pool->kernel.v);
}

static bool pool_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return in[0]->dtype == ZT_F32;
}

static int64_t planes_of(const zt_type *type) { return type->dim[0] * type->dim[1]; }

static void pool_setup(zt_cpu_call *call)
{
    zt_window window = window_of(call);
    zt_op op = call->kernel->op;
    call->items[0] = planes_of(&call->in[0].type);
    call->local_bytes = (size_t)(3 * window.out[window.n - 1] + 3 * LANES + LANES) * sizeof(float) +
                        2 * (size_t)window.k[window.n - 1] * sizeof(int64_t);
    if (op == ZT_OP_avg_pool || op == ZT_OP_avg_unpool || op == ZT_OP_smooth_max_pool)
        call->keep_bytes = (size_t)window.n_out * sizeof(float);
}

/* What every window's sum is multiplied by. */
static void avg_prime(zt_cpu_call *call)
{
    const zt_avg_pool_attrs *avg_pool = call->attrs; /* avg_unpool's are the same */
    zt_window window = window_of(call);
    for (int64_t o = 0; o < window.n_out; o++) {
        int64_t cells = avg_pool->divisor_override;
        if (!cells) cells = zt_window_cells(&window, o, avg_pool->count_include_pad);
        ((float *)call->keep)[o] = cells ? 1 / (float)cells : 0;
    }
}

/* How many elements of every window are in the padding, where that counts. */
static void smooth_prime(zt_cpu_call *call)
{
    const zt_smooth_max_pool_attrs *smooth_max_pool = call->attrs;
    zt_window window = window_of(call);
    for (int64_t o = 0; o < window.n_out; o++)
        ((float *)call->keep)[o] = isfinite(smooth_max_pool->pad_value)
                                       ? (float)(zt_window_cells(&window, o, true) - zt_window_cells(&window, o, false))
                                       : 0;
}

/* Plane p of an operand. */
static void *plane_of(const zt_cpu_arg *arg, int64_t p)
{
    int64_t size = 4;
    for (int d = 2; d < arg->type.rank; d++) size *= arg->type.dim[d];
    return arg->data ? (char *)arg->data + p * size : NULL;
}

static job job_of(const zt_cpu_call *call, const zt_window *window, int64_t p, float *local)
{
    int64_t line = window->out[window->n - 1] + LANES, bounds = (3 * line + 1) / 2 * 2;
    job j = {.w = window,
             .x = plane_of(&call->in[0], p),
             .y = plane_of(&call->in[1], p),
             .v = plane_of(&call->in[2], p),
             .out = plane_of(&call->out[0], p),
             .line = local,
             .top = local + line,
             .index = (int32_t *)(local + 2 * line),
             .lo = (int64_t *)(void *)(local + bounds),
             .weight = call->keep};
    j.hi = j.lo + window->k[window->n - 1];
    find_inside(&j);
    return j;
}

static int64_t lines_of(const zt_window *window)
{
    int64_t n = window->out[window->n - 1];
    return n ? window->n_out / n : 0;
}

static void max_pool_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_window window = window_of(call);
    size_t n = (size_t)window.out[window.n - 1];
    (void)phase;
    for (int64_t p = begin; p < end; p++) {
        job j = job_of(call, &window, p, local);
        int32_t *index = plane_of(&call->out[1], p);
        for (int64_t l = 0; l < lines_of(&window); l++) {
            for (size_t o = 0; o < n; o++) {
                j.line[o] = -INFINITY;
                j.index[o] = -1;
            }
            j.first = l * (int64_t)n;
            meet_line(&j, l, meet_max);
            if (j.out) memcpy(j.out + (size_t)l * n, j.line, n * sizeof(float));
            if (index) memcpy(index + (size_t)l * n, j.index, n * sizeof(float));
        }
    }
}

static void clear(float *x, const zt_cpu_arg *like)
{
    int64_t n = 1;
    for (int d = 2; d < like->type.rank; d++) n *= like->type.dim[d];
    memset(x, 0, (size_t)n * sizeof *x);
}

/* Pools that add up what meets. */
static void sums(zt_cpu_call *call, int64_t begin, int64_t end, job j, meet_fn *meet, void (*done)(const job *j))
{
    const zt_window *window = j.w;
    for (int64_t p = begin; p < end; p++) {
        job now = job_of(call, window, p, j.line);
        now.p = j.p;
        now.beta = j.beta;
        clear(now.out, &call->out[0]);
        for (int64_t l = 0; l < lines_of(window); l++) meet_line(&now, l, meet);
        if (done) done(&now);
    }
}

static void done_avg(const job *j)
{
    for (int64_t o = 0; o < j->w->n_out; o++) j->out[o] *= j->weight[o];
}

static void done_power(const job *j)
{
    for (int64_t o = 0; o < j->w->n_out; o++)
        j->out[o] = j->p == 2 ? sqrtf(j->out[o]) : j->p == 1 ? j->out[o] : (float)pow((double)j->out[o], 1 / j->p);
}

static void avg_pool_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_window window = window_of(call);
    (void)phase;
    sums(call, begin, end, (job){.w = &window, .line = local}, meet_sum, done_avg);
}

static void avg_unpool_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_window window = window_of(call);
    (void)phase;
    sums(call, begin, end, (job){.w = &window, .line = local}, meet_spread, NULL);
}

static void lp_pool_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_window window = window_of(call);
    double p = ((const zt_lp_pool_attrs *)call->attrs)->p;
    (void)phase;
    sums(call, begin, end, (job){.w = &window, .line = local, .p = p}, meet_power, done_power);
}

static void smooth_unpool_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_window window = window_of(call);
    float beta = (float)((const zt_smooth_max_unpool_attrs *)call->attrs)->beta;
    (void)phase;
    sums(call, begin, end, (job){.w = &window, .line = local, .beta = beta}, meet_unpool, NULL);
}

static void smooth_mean_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_window window = window_of(call);
    float beta = (float)((const zt_smooth_max_mean_attrs *)call->attrs)->beta;
    (void)phase;
    sums(call, begin, end, (job){.w = &window, .line = local, .beta = beta}, meet_mean, NULL);
}

/* A line of smooth_max_pool: the largest, then the sum of what is left over it. */
static void smooth_line(const job *j, int64_t l, float pad)
{
    int64_t n = wide(j);
    for (int64_t o = 0; o < n; o++) {
        j->top[o] = -INFINITY;
        j->line[o] = 0;
    }
    meet_line(j, l, meet_top);
    for (int64_t o = 0; o < n; o++)
        if (j->weight[l * n + o] > 0 && j->beta * pad > j->top[o]) j->top[o] = j->beta * pad;
    meet_line(j, l, meet_exp);
    for (int64_t o = 0; o < n; o++) {
        float padded = j->weight[l * n + o], sum = j->line[o], top = j->top[o];
        if (padded > 0) sum += padded * expf(j->beta * pad - top);
        j->out[l * n + o] = top == -INFINITY ? -INFINITY / j->beta : (top + logf(sum)) / j->beta;
    }
}

static void smooth_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_smooth_max_pool_attrs *smooth_max_pool = call->attrs;
    const zt_window window = window_of(call);
    (void)phase;
    for (int64_t p = begin; p < end; p++) {
        job j = job_of(call, &window, p, local);
        j.beta = (float)smooth_max_pool->beta;
        for (int64_t l = 0; l < lines_of(&window); l++) smooth_line(&j, l, (float)smooth_max_pool->pad_value);
    }
}

/* ---- along indices --------------------------------------------------------------------------- */

static int64_t plane_size(const zt_type *type)
{
    int64_t n = 1;
    for (int d = 2; d < type->rank; d++) n *= type->dim[d];
    return n;
}

static void indexed_setup(zt_cpu_call *call) { call->items[0] = planes_of(&call->in[1].type); }

/* Both ops have one attribute: are indices out of range an error? */
static bool in_range(zt_cpu_call *call, int32_t i, int64_t n)
{
    if (i >= 0 && i < n) return true;
    if (((const zt_max_unpool_attrs *)call->attrs)->oob.s[0] == 'e') zt_cpu_runtime_error(call, "index", i, n);
    return false;
}

static void max_unpool_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t n = plane_size(&call->in[0].type), large = plane_size(&call->out[0].type);
    (void)phase, (void)local;
    for (int64_t p = begin; p < end; p++) {
        const float *x = plane_of(&call->in[0], p);
        const int32_t *i = plane_of(&call->in[1], p);
        float *y = plane_of(&call->out[0], p);
        clear(y, &call->out[0]);
        for (int64_t o = 0; o < n; o++)
            if (in_range(call, i[o], large)) y[i[o]] += x[o];
    }
}

static void plane_gather_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t n = plane_size(&call->out[0].type), large = plane_size(&call->in[0].type);
    (void)phase, (void)local;
    for (int64_t p = begin; p < end; p++) {
        const float *x = plane_of(&call->in[0], p);
        const int32_t *i = plane_of(&call->in[1], p);
        float *y = plane_of(&call->out[0], p);
        for (int64_t o = 0; o < n; o++) y[o] = in_range(call, i[o], large) ? x[i[o]] : 0;
    }
}

#define POOL(name, function, ...)                                                                                                \
    {                                                                                                                            \
        .op = ZT_OP_##name, .has = pool_has, .run = function, __VA_ARGS__                                                        \
    }

const zt_cpu_kernel ZT_SYM(zt_cpu_pool)[] = {
    POOL(max_pool, max_pool_run, .setup = pool_setup),
    POOL(avg_pool, avg_pool_run, .setup = pool_setup, .prime = avg_prime),
    POOL(avg_unpool, avg_unpool_run, .setup = pool_setup, .prime = avg_prime),
    POOL(lp_pool, lp_pool_run, .setup = pool_setup),
    POOL(smooth_max_pool, smooth_run, .setup = pool_setup, .prime = smooth_prime),
    POOL(smooth_max_unpool, smooth_unpool_run, .setup = pool_setup),
    POOL(smooth_max_mean, smooth_mean_run, .setup = pool_setup),
    POOL(max_unpool, max_unpool_run, .setup = indexed_setup),
    POOL(plane_gather, plane_gather_run, .setup = indexed_setup),
    {0},
};
