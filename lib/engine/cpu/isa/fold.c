/* fold.c - kernels of the reductions over any axes that are no sums: prod, logsumexp; and of argmax
 * and argmin along any axis. An item is an output, or COLUMNS (LANES) neighbours of them.
 */
#include "lib/engine/cpu/isa/groups.h"

#include <math.h>

static bool f32_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return in[0]->dtype == ZT_F32;
}

/* ---- one output, or some neighbours ---------------------------------------------------------- */

/* What an item reads: rows of n neighbours, of which each gives to an output of its own; or
 * (run_gone) all n give to one. */
typedef struct rows {
    const groups *g;
    const float *x;
    int64_t n;
} rows;

static rows rows_of(const zt_cpu_call *c, const groups *g, int64_t item, float **y)
{
    int64_t tiles = tiles_of(g), o = g->run_gone ? item : item / tiles;
    int64_t at = g->run_gone ? 0 : item % tiles * COLUMNS, left = g->run - at;
    const float *x = c->in[0].data;
    *y = (float *)c->out[0].data + (g->run_gone ? item : o * g->run + at);
    return (rows){g, x + group_at(g->n_kept, g->kept_dim, g->kept_stride, o) + at,
                  g->run_gone ? g->run : left < COLUMNS ? left : COLUMNS};
}

static const float *row_at(const rows *r, int64_t i)
{
    return r->x + group_at(r->g->n_gone, r->g->gone_dim, r->g->gone_stride, i);
}

/* ---- prod: in f64 ---------------------------------------------------------------------------- */

static void prod_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    groups g = groups_of(&((const zt_prod_attrs *)c->attrs)->axes, &c->in[0].type);
    (void)phase, (void)local;
    for (int64_t item = begin; item < end; item++) {
        float *y;
        rows r = rows_of(c, &g, item, &y);
        double p[COLUMNS];
        for (int j = 0; j < COLUMNS; j++) p[j] = 1;
        for (int64_t i = 0; i < g.gone; i++) {
            const float *x = row_at(&r, i);
            for (int64_t k = 0; k < r.n; k += COLUMNS) { /* all but a run that goes: once */
                int some = r.n - k < COLUMNS ? (int)(r.n - k) : COLUMNS;
                for (int j = 0; j < some; j++) p[j] *= (double)x[k + j];
            }
        }
        for (int j = 1; j < COLUMNS && g.run_gone; j++) p[0] *= p[j];
        for (int64_t j = 0; j < (g.run_gone ? 1 : r.n); j++) y[j] = (float)p[j];
    }
}

/* ---- logsumexp ------------------------------------------------------------------------------- */

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

static void logsumexp_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    groups g = groups_of(&((const zt_logsumexp_attrs *)c->attrs)->axes, &c->in[0].type);
    (void)phase, (void)local;
    for (int64_t item = begin; item < end; item++) {
        float *y, top[COLUMNS];
        double sum[COLUMNS];
        rows r = rows_of(c, &g, item, &y);
        tops_of(&r, top);
        for (int j = 1; j < COLUMNS && g.run_gone; j++) top[0] = top[j] > top[0] ? top[j] : top[0];
        for (int j = 0; j < COLUMNS; j++) {
            if (g.run_gone) top[j] = top[0];
            if (!isfinite(top[j])) top[j] = 0;
        }
        sums_of(&r, top, sum);
        for (int j = 1; j < COLUMNS && g.run_gone; j++) sum[0] += sum[j];
        for (int64_t j = 0; j < (g.run_gone ? 1 : r.n); j++)
            y[j] = (float)((double)top[j] + log(sum[j]));
    }
}

/* ---- argmax, argmin: LANES neighbours, which have their lines side by side ------------------- */

enum { L_N, L_INNER, L_TILES };

static void arg_setup(zt_cpu_call *c)
{
    int64_t axis = ((const zt_argmax_attrs *)c->attrs)->axis; /* argmin's attributes are the same */
    const zt_type *x = &c->in[0].type;
    int at = (int)(axis < 0 ? axis + x->rank : axis);
    int64_t inner = 1, outer = 1;
    for (int d = 0; d < at; d++) outer *= x->dim[d];
    for (int d = at + 1; d < x->rank; d++) inner *= x->dim[d];
    c->aux[L_N] = x->dim[at];
    c->aux[L_INNER] = inner;
    c->aux[L_TILES] = (inner + LANES - 1) / LANES;
    c->items[0] = outer * c->aux[L_TILES];
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

INLINE void arg_items(float sign, zt_cpu_call *c, int64_t begin, int64_t end)
{
    int64_t n = c->aux[L_N], inner = c->aux[L_INNER], tiles = c->aux[L_TILES];
    for (int64_t item = begin; item < end; item++) {
        int64_t o = item / tiles, column = item % tiles * LANES;
        const float *x = (const float *)c->in[0].data + o * n * inner + column;
        int32_t *y = (int32_t *)c->out[0].data + o * inner + column;
        if (inner - column >= LANES)
            arg_lines(sign, x, n, inner, LANES, y);
        else
            arg_lines(sign, x, n, inner, (int)(inner - column), y);
    }
}

static void argmax_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase, (void)local;
    arg_items(1, c, begin, end);
}

static void argmin_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase, (void)local;
    arg_items(-1, c, begin, end);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_fold)[] = {
    {.op = ZT_OP_prod, .has = f32_has, .setup = groups_setup, .run = prod_run},
    {.op = ZT_OP_logsumexp, .has = f32_has, .setup = groups_setup, .run = logsumexp_run},
    {.op = ZT_OP_argmax, .has = f32_has, .setup = arg_setup, .run = argmax_run},
    {.op = ZT_OP_argmin, .has = f32_has, .setup = arg_setup, .run = argmin_run},
    {0},
};
