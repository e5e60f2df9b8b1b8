/* reduce.c - kernels of the ops that reduce axes, and of spread; f32.
 *
 * Sums run over at most CHUNK values in f32, in lanes, and go on in f64, in an order that shapes
 * alone decide. An item is an output, or COLUMNS (LANES) neighbours of them.
 */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/groups.h"
#include "lib/engine/cpu/isa/softmax.h"

#include <math.h>

/* ---- logsumexp of rows ----------------------------------------------------------------------- */

/* One axis, the last. */
static bool last_only_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    const zt_ints *axes = &((const zt_logsumexp_attrs *)attrs)->axes;
    int rank = in[0]->rank;
    bool last = axes->n == 1 ? axes->v[0] == -1 || axes->v[0] == rank - 1 : !axes->n && rank == 1;
    (void)out;
    return in[0]->dtype == ZT_F32 && rank > 0 && last;
}

/* Of a row whose largest, top, is not finite: that, or a NaN. */
static float boundless(const float *x, int64_t cols, float top)
{
    for (int64_t i = 0; i < cols; i++)
        if (isnan(x[i])) return NAN;
    return top;
}

static void logsumexp_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t cols = cols_of(&call->in[0].type);
    const float *x = (const float *)call->in[0].data + begin * cols;
    float *y = call->out[0].data;
    rows_past p = {.next_top = begin < end ? largest(x, cols) : 0};
    (void)phase, (void)local;
    for (int64_t r = begin; r < end; r++, x += cols) {
        float top = p.next_top;
        double sum;
        p.next = r + 1 < end ? x + cols : x;
        if (call->aux[0]) {
            sum = past_exps(true, false, &p, x, cols, top);
        } else {
            sum = row_exps(false, x, NULL, cols, top);
            p.next_top = largest(p.next, cols);
        }
        y[r] = isfinite(top) ? (float)((double)top + log(sum)) : boundless(x, cols, top);
    }
}

/* ---- sum, mean, amax, amin: axes in groups --------------------------------------------------- */

enum { SUM, MOST, LEAST };

INLINE float nothing(int kind) { return kind == SUM ? 0 : kind == MOST ? -INFINITY : INFINITY; }

/* NaN never compares; it is noted in the signs of `bad`. */
INLINE void take(int kind, vf x, vf *v, vi *bad)
{
    if (kind == SUM) {
        *v = vf_add(*v, x);
        return;
    }
    *v = kind == MOST ? vf_max(x, *v) : vf_min(x, *v);
    *bad = vi_or(*bad, vi_sub(vi_set(0x7f800000), vi_of_bits(vf_abs(x))));
}

INLINE double better(int kind, double a, double b)
{
    if (kind == SUM) return a + b;
    return isnan(b) || (kind == MOST ? b > a : b < a) ? b : a;
}

/* Of n <= CHUNK neighbours. */
INLINE double fold_chunk(int kind, const float *x, int n)
{
    vf v[4], start = vf_set(nothing(kind));
    vi bad = vi_set(0);
    int i = 0;
    UNROLL_FOR (int j = 0; j < 4; j++) v[j] = start;
    for (; i + COLUMNS <= n; i += COLUMNS)
        UNROLL_FOR (int j = 0; j < 4; j++) take(kind, vf_load(x + i + j * LANES), &v[j], &bad);
    for (; i < n; i += LANES) {
        int some = n - i < LANES ? n - i : LANES;
        take(kind, vf_first(some, vf_load_n(x + i, some), start), &v[0], &bad);
    }
    vi none = vi_set(0);
    UNROLL_FOR (int j = 1; j < 4; j++) take(kind, v[j], &v[0], &none);
    if (kind == SUM) return (double)vf_sum(v[0]);
    float lane[LANES];
    double best = (double)nothing(kind);
    vf_store(lane, vf_choose(vf_of_bits(bad), vf_set(NAN), v[0]));
    for (int j = 0; j < LANES; j++) best = better(kind, best, (double)lane[j]);
    return best;
}

INLINE double fold_run(int kind, const float *x, int64_t n)
{
    double y = (double)nothing(kind);
    for (int64_t i = 0; i < n; i += CHUNK) y = better(kind, y, fold_chunk(kind, x + i, n - i < CHUNK ? (int)(n - i) : CHUNK));
    return y;
}

/* n <= COLUMNS neighbours of y, each over the reduced groups; sums in blocks of BLOCK. */
INLINE void fold_columns(int kind, const groups *g, const float *x, int n, double by, float *y)
{
    double sum[COLUMNS] = {0};
    float part[COLUMNS];
    int block = kind == SUM ? BLOCK : INT32_MAX;
    int64_t r = 0;
    do {
        vf v[4];
        vi bad[4];
        for (int j = 0; j < 4; j++) v[j] = vf_set(nothing(kind)), bad[j] = vi_set(0);
        for (int64_t last = g->gone - r > block ? r + block : g->gone; r < last; r++) {
            const float *row = x + group_at(g->n_gone, g->gone_dim, g->gone_stride, r);
            for (int j = 0; j * LANES < n; j++) {
                int some = n - j * LANES;
                const float *at = row + j * LANES;
                take(kind, some >= LANES ? vf_load(at) : vf_load_n(at, some), &v[j], &bad[j]);
            }
        }
        for (int j = 0; j < 4; j++)
            vf_store(part + j * LANES, kind == SUM ? v[j] : vf_choose(vf_of_bits(bad[j]), vf_set(NAN), v[j]));
        for (int j = 0; j < n; j++) sum[j] = (kind == SUM ? sum[j] : 0) + (double)part[j];
    } while (r < g->gone);
    for (int j = 0; j < n; j++) y[j] = (float)(sum[j] / by);
}

INLINE void fold_items(int kind, zt_cpu_call *call, bool mean, int64_t begin, int64_t end)
{
    groups axes = groups_of(&((const zt_sum_attrs *)call->attrs)->axes, &call->in[0].type);
    double by = mean ? (double)axes.gone * (double)(axes.run_gone ? axes.run : 1) : 1;
    const float *x = call->in[0].data;
    float *y = call->out[0].data;
    int64_t tiles = tiles_of(&axes);
    for (int64_t i = begin; i < end; i++) {
        int64_t o = axes.run_gone ? i : i / tiles, at = axes.run_gone ? 0 : i % tiles * COLUMNS;
        const float *from = x + group_at(axes.n_kept, axes.kept_dim, axes.kept_stride, o) + at;
        if (!axes.run_gone) {
            int n = axes.run - at < COLUMNS ? (int)(axes.run - at) : COLUMNS;
            fold_columns(kind, &axes, from, n, by, y + o * axes.run + at);
            continue;
        }
        double sum = (double)nothing(kind);
        for (int64_t r = 0; r < axes.gone; r++) {
            int64_t next = group_at(axes.n_gone, axes.gone_dim, axes.gone_stride, r);
            sum = better(kind, sum, fold_run(kind, from + next, axes.run));
        }
        y[i] = (float)(sum / by);
    }
}

// clang-format off
#define FOLD(NAME, KIND, MEAN)                                                                     \
    static void NAME##_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)     \
    {                                                                                              \
        (void)phase, (void)local;                                                                  \
        fold_items(KIND, call, MEAN, begin, end);                                                     \
    }
// clang-format on
FOLD(sum, SUM, false)
FOLD(mean, SUM, true)
FOLD(amax, MOST, false)
FOLD(amin, LEAST, false)

/* ---- spread: one entry of x an item, or a run of them that stay neighbours ------------------- */

static void spread_setup(zt_cpu_call *call)
{
    groups axes = groups_of(&((const zt_spread_attrs *)call->attrs)->axes, &call->out[0].type);
    call->items[0] = axes.kept * axes.gone;
}

static void spread_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_spread_attrs *spread = call->attrs;
    groups axes = groups_of(&spread->axes, &call->out[0].type);
    double by = spread->mean ? (double)axes.gone * (double)(axes.run_gone ? axes.run : 1) : 1;
    (void)phase, (void)local;
    for (int64_t i = begin; i < end; i++) {
        int64_t o = i / axes.gone, r = i % axes.gone;
        const float *x = (const float *)call->in[0].data + (axes.run_gone ? o : o * axes.run);
        float *y = (float *)call->out[0].data + group_at(axes.n_kept, axes.kept_dim, axes.kept_stride, o) +
                   group_at(axes.n_gone, axes.gone_dim, axes.gone_stride, r);
        for (int64_t j = 0; j < axes.run; j++) y[j] = (float)((double)x[axes.run_gone ? 0 : j] / by);
    }
}

/* ---- one output, or some neighbours ---------------------------------------------------------- */

/* What an item reads: rows of n neighbours, of which each gives to an output of its own; or
 * (run_gone) all n give to one. */
typedef struct rows {
    const groups *g;
    const float *x;
    int64_t n;
} rows;

static rows rows_of(const zt_cpu_call *call, const groups *g, int64_t item, float **y)
{
    int64_t tiles = tiles_of(g), o = g->run_gone ? item : item / tiles;
    int64_t at = g->run_gone ? 0 : item % tiles * COLUMNS, left = g->run - at;
    const float *x = call->in[0].data;
    *y = (float *)call->out[0].data + (g->run_gone ? item : o * g->run + at);
    return (rows){g, x + group_at(g->n_kept, g->kept_dim, g->kept_stride, o) + at,
                  g->run_gone      ? g->run
                  : left < COLUMNS ? left
                                   : COLUMNS};
}

static const float *row_at(const rows *r, int64_t i)
{
    return r->x + group_at(r->g->n_gone, r->g->gone_dim, r->g->gone_stride, i);
}

/* ---- prod: in f64 ---------------------------------------------------------------------------- */

static void prod_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    groups axes = groups_of(&((const zt_prod_attrs *)call->attrs)->axes, &call->in[0].type);
    (void)phase, (void)local;
    for (int64_t item = begin; item < end; item++) {
        float *y;
        rows r = rows_of(call, &axes, item, &y);
        double p[COLUMNS];
        for (int j = 0; j < COLUMNS; j++) p[j] = 1;
        for (int64_t i = 0; i < axes.gone; i++) {
            const float *x = row_at(&r, i);
            for (int64_t k = 0; k < r.n; k += COLUMNS) { /* all but a run that goes: once */
                int some = r.n - k < COLUMNS ? (int)(r.n - k) : COLUMNS;
                for (int j = 0; j < some; j++) p[j] *= (double)x[k + j];
            }
        }
        for (int j = 1; j < COLUMNS && axes.run_gone; j++) p[0] *= p[j];
        for (int64_t j = 0; j < (axes.run_gone ? 1 : r.n); j++) y[j] = (float)p[j];
    }
}

/* ---- logsumexp over any axes ------------------------------------------------------------------------------- */

/* Lanes of x, those past n as `otherwise`. */
INLINE vf some_of(const float *x, int64_t n, vf otherwise)
{
    return n >= LANES ? vf_load(x) : vf_first((int)n, vf_load_n(x, (int)n), otherwise);
}

/* The largest of each of the first LANES * 4 columns; a NaN may be passed over: the sum has it. */
static void tops_of(const rows *r, float *top)
{
    vf v[4], least = vf_set(-INFINITY);
    for (int q = 0; q < 4; q++) v[q] = least;
    for (int64_t i = 0; i < r->g->gone; i++) {
        const float *x = row_at(r, i);
        for (int64_t k = 0; k < r->n; k += LANES) {
            int q = (int)(k / LANES % 4);
            v[q] = vf_max(some_of(x + k, r->n - k, least), v[q]);
        }
    }
    for (int q = 0; q < 4; q++) vf_store(top + q * LANES, v[q]);
}

/* And the sums of exp(x - top), in blocks of BLOCK vectors, those in f64. */
static void sums_of(const rows *r, const float *top, double *sum)
{
    vf v[4], t[4], least = vf_set(-INFINITY);
    float part[COLUMNS];
    int64_t done = 0;
    for (int q = 0; q < 4; q++) v[q] = vf_set(0), t[q] = vf_load(top + q * LANES);
    for (int j = 0; j < COLUMNS; j++) sum[j] = 0;
    for (int64_t i = 0; i < r->g->gone; i++) {
        const float *x = row_at(r, i);
        for (int64_t k = 0; k < r->n; k += LANES) {
            int q = (int)(k / LANES % 4);
            v[q] = vf_add(v[q], vf_exp(vf_sub(some_of(x + k, r->n - k, least), t[q])));
            if (++done % (4 * BLOCK)) continue;
            for (int p = 0; p < 4; p++) vf_store(part + p * LANES, v[p]), v[p] = vf_set(0);
            for (int j = 0; j < COLUMNS; j++) sum[j] += (double)part[j];
        }
    }
    for (int p = 0; p < 4; p++) vf_store(part + p * LANES, v[p]);
    for (int j = 0; j < COLUMNS; j++) sum[j] += (double)part[j];
}

static void logsumexp_groups_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    groups axes = groups_of(&((const zt_logsumexp_attrs *)call->attrs)->axes, &call->in[0].type);
    (void)phase, (void)local;
    for (int64_t item = begin; item < end; item++) {
        float *y, top[COLUMNS];
        double sum[COLUMNS];
        rows r = rows_of(call, &axes, item, &y);
        tops_of(&r, top);
        for (int j = 1; j < COLUMNS && axes.run_gone; j++) top[0] = top[j] > top[0] ? top[j] : top[0];
        for (int j = 0; j < COLUMNS; j++) {
            if (axes.run_gone) top[j] = top[0];
            if (!isfinite(top[j])) top[j] = 0;
        }
        sums_of(&r, top, sum);
        for (int j = 1; j < COLUMNS && axes.run_gone; j++) sum[0] += sum[j];
        for (int64_t j = 0; j < (axes.run_gone ? 1 : r.n); j++) y[j] = (float)((double)top[j] + log(sum[j]));
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_reduce)[] = {
    {.op = ZT_OP_logsumexp, .has = last_only_has, .setup = past_setup, .run = logsumexp_run},
    {.op = ZT_OP_logsumexp, .has = f32_has, .setup = groups_setup, .run = logsumexp_groups_run},
    {.op = ZT_OP_sum, .has = f32_has, .setup = groups_setup, .run = sum_run},
    {.op = ZT_OP_mean, .has = f32_has, .setup = groups_setup, .run = mean_run},
    {.op = ZT_OP_amax, .has = f32_has, .setup = groups_setup, .run = amax_run},
    {.op = ZT_OP_amin, .has = f32_has, .setup = groups_setup, .run = amin_run},
    {.op = ZT_OP_prod, .has = f32_has, .setup = groups_setup, .run = prod_run},
    {.op = ZT_OP_spread, .has = f32_has, .setup = spread_setup, .run = spread_run},
    {0},
};
