/* merge_coef.c - owns the methods whose result is a linear combination of the parents: what matters
 * of the tensors for their coefficients is the table of their inner products, found in one pass.
 *
 * Where the coefficients sum to 1 the combination is written around the first parent, or the base:
 * b + sum c_i (x_i - b). What is equal in all parents stays as it is, to the bit.
 */
#include "lib/dna/merge_internal.h"

#include <math.h>
#include <string.h>

const merge_loops *zt_merge_loops(void)
{
    static const merge_loops *const loops[ZT_ISA_COUNT] = {
        [ZT_ISA_SCALAR] = &zt_merge_loops_scalar,
#if defined(ZT_HAVE_AVX2)
        [ZT_ISA_AVX2] = &zt_merge_loops_avx2,
#endif
#if defined(ZT_HAVE_AVX512)
        [ZT_ISA_AVX512] = &zt_merge_loops_avx512,
#endif
    };
    zt_isa best = zt_isa_best();
    while (best > ZT_ISA_SCALAR && !loops[best]) best--;
    return loops[best];
}

/* ---- combinations ---------------------------------------------------------------------------- */

typedef struct combination {
    const merge_loops *loops;
    float c[MERGE_SOURCES];
    int around; /* a source that all are taken from, or -1 */
} combination;

static void do_combination(merge_work *w, const merge_piece *p, void *arg)
{
    const combination *c = arg;
    if (c->around >= 0)
        c->loops->combine_from(p->y, p->x[c->around], p->x, c->c, w->k, p->n);
    else
        c->loops->combine(p->y, p->x, c->c, w->k, p->n);
}

/* The whole tensor by coefficients c; around -1: by nothing but them. */
static zt_status combine(merge_work *w, const double *c, int around)
{
    combination k = {.loops = zt_merge_loops(), .around = around};
    for (int i = 0; i < w->k; i++) k.c[i] = (float)(i == around ? 0 : c[i]);
    return zt_merge_pass_out(w, do_combination, &k);
}

zt_status zt_merge_linear(merge_work *w)
{
    double c[MERGE_SOURCES], sum = 0;
    bool normalize = w->v->shared[MP_NORMALIZE] != 0;
    for (int i = 0; i < w->k; i++) sum += c[i] = w->v->each[i][MP_WEIGHT];
    for (int i = 0; i < w->k && normalize; i++) c[i] /= sum;
    zt_status s = zt_merge_begin(w);
    if (s == ZT_OK && normalize && sum == 0)
        s = zt_fail(w->m->ctx, ZT_EDATA, "%s: the weights for '%s' sum to 0", w->m->r->name,
                    w->job->out.name);
    return s == ZT_OK ? combine(w, c, normalize ? 0 : -1) : s;
}

zt_status zt_merge_tasks(merge_work *w)
{
    double c[MERGE_SOURCES] = {0}, sum = 0;
    for (int i = 0; i < w->n_others; i++) sum += w->v->each[w->other[i]][MP_WEIGHT];
    if (w->v->shared[MP_NORMALIZE] == 0 || fabs(sum) < 1e-8) sum = 1;
    for (int i = 0; i < w->n_others; i++)
        c[w->other[i]] = w->v->shared[MP_LAMBDA] * w->v->each[w->other[i]][MP_WEIGHT] / sum;
    zt_status s = zt_merge_begin(w);
    return s == ZT_OK ? combine(w, c, w->base) : s;
}

zt_status zt_merge_scale(merge_work *w)
{
    double c = w->v->has_each[0] & MP_BIT(MP_SCALE) ? w->v->each[0][MP_SCALE] : 1;
    zt_status s = zt_merge_begin(w);
    return s == ZT_OK ? combine(w, &c, -1) : s;
}

static void do_nearswap(merge_work *w, const merge_piece *p, void *arg)
{
    const combination *c = arg;
    c->loops->nearswap(p->y, p->x[w->base], p->x[w->other[0]], c->c[0], p->n);
}

zt_status zt_merge_nearswap(merge_work *w)
{
    combination c = {.loops = zt_merge_loops(), .c = {(float)w->v->shared[MP_T]}};
    zt_status s = zt_merge_begin(w);
    return s == ZT_OK ? zt_merge_pass_out(w, do_nearswap, &c) : s;
}

/* ---- inner products -------------------------------------------------------------------------- */

/* Of n vectors: g[i * n + j]. */
typedef struct gram {
    const merge_loops *loops;
    const int *of; /* [n] the sources */
    int n, base;   /* base: they are differences to it; -1 */
    double *part;  /* [pieces][n * n] */
} gram;

static void products(const merge_loops *l, const float *const *x, int n, int64_t count, double *g)
{
    for (int i = 0; i < n; i++)
        for (int j = i; j < n; j++) g[i * n + j] = g[j * n + i] = l->dot(x[i], x[j], count);
}

/* The vectors of a piece: as they are, or less the base. */
static void vectors(const gram *g, const merge_piece *p, const float **x)
{
    for (int i = 0; i < g->n; i++) {
        x[i] = p->x[g->of[i]];
        if (g->base < 0) continue;
        g->loops->subtract(p->d[i], x[i], p->x[g->base], p->n);
        x[i] = p->d[i];
    }
}

static void do_gram(merge_work *w, const merge_piece *p, void *arg)
{
    gram *g = arg;
    const float *x[MERGE_SOURCES];
    (void)w;
    vectors(g, p, x);
    products(g->loops, x, g->n, p->n, g->part + p->index * g->n * g->n);
}

static zt_status gram_of(merge_work *w, const int *of, int n, int base, double *out)
{
    gram g = {.loops = zt_merge_loops(), .of = of, .n = n, .base = base};
    size_t cells = (size_t)n * (size_t)n;
    g.part = zt_calloc(w->m->ctx, (size_t)w->pieces * cells + 1, sizeof *g.part);
    zt_status s = g.part ? zt_merge_pass(w, do_gram, &g) : ZT_ENOMEM;
    memset(out, 0, cells * sizeof *out);
    for (int64_t p = 0; s == ZT_OK && p < w->pieces; p++)
        for (size_t i = 0; i < cells; i++) out[i] += g.part[(size_t)p * cells + i];
    zt_free(w->m->ctx, g.part);
    return s;
}

static double clamp(double x) { return x < -1 ? -1 : x > 1 ? 1 : x; }

/* ---- slerp ----------------------------------------------------------------------------------- */

/* Coefficients of two vectors of these products at t; false: they lie in one line. */
static bool arc(double aa, double ab, double bb, double t, double least, double near, double *ca,
                double *cb)
{
    double na = sqrt(aa), nb = sqrt(bb);
    double cosine = clamp(ab / ((na > least ? na : 1) * (nb > least ? nb : 1)));
    double theta = acos(cosine), sine = sin(theta);
    *ca = 1 - t;
    *cb = t;
    if (fabs(cosine) > near) return false;
    *ca = sin((1 - t) * theta) / sine;
    *cb = sin(t * theta) / sine;
    return true;
}

zt_status zt_merge_slerp(merge_work *w)
{
    double g[4], c[MERGE_SOURCES] = {0};
    int of[2] = {w->base, w->other[0]};
    zt_status s = zt_merge_begin(w);
    if (s == ZT_OK) s = gram_of(w, of, 2, -1, g);
    if (s != ZT_OK) return s;
    bool bent = arc(g[0], g[1], g[3], w->v->shared[MP_T], 1e-8, 0.9995, &c[of[0]], &c[of[1]]);
    return combine(w, c, bent ? -1 : w->base);
}

/* mergekit's: directions of rows, of columns, or of the whole; with a base, of the differences. */
typedef struct arcs {
    gram g;
    double t;
    int64_t columns; /* of a column's: of each its three products */
    double *aa, *ab, *bb;
} arcs;

static const double NEAR_1 = 1 - 5e-17; /* 1 - cos^2 at most 1e-16 */

static void along_arc(const arcs *a, const merge_piece *p, const float *const *x, const double *c)
{
    const float f[2] = {(float)c[0], (float)c[1]};
    (void)a;
    a->g.loops->combine(p->y, x, f, 2, p->n);
}

static void add_base(const merge_work *w, const merge_piece *p)
{
    for (int64_t i = 0; w->base >= 0 && i < p->n; i++) p->y[i] += p->x[w->base][i];
}

/* Each row by itself. */
static void do_rows(merge_work *w, const merge_piece *p, void *arg)
{
    const arcs *a = arg;
    const float *x[MERGE_SOURCES];
    vectors(&a->g, p, x);
    for (int64_t at = 0; at < p->n; at += w->columns) {
        const float *row[2] = {x[0] + at, x[1] + at};
        merge_piece one = *p;
        double g[4], c[2];
        one.y += at;
        one.n = w->columns;
        products(a->g.loops, row, 2, w->columns, g);
        arc(g[0], g[1], g[3], a->t, 1e-7, NEAR_1, &c[0], &c[1]);
        along_arc(a, &one, row, c);
    }
    add_base(w, p);
}

/* Columns are those of the first dimension: sums over it, in one thread's order. */
static void add_columns(merge_work *w, const merge_piece *p, void *arg)
{
    arcs *a = arg;
    const float *x[MERGE_SOURCES];
    (void)w;
    vectors(&a->g, p, x);
    for (int64_t i = 0; i < p->n; i++) {
        int64_t c = (p->first + i) % a->columns;
        a->aa[c] += (double)x[0][i] * x[0][i];
        a->ab[c] += (double)x[0][i] * x[1][i];
        a->bb[c] += (double)x[1][i] * x[1][i];
    }
}

static void do_columns(merge_work *w, const merge_piece *p, void *arg)
{
    const arcs *a = arg;
    const float *x[MERGE_SOURCES];
    vectors(&a->g, p, x);
    for (int64_t i = 0; i < p->n; i++) {
        int64_t k = (p->first + i) % a->columns;
        p->y[i] = (float)(a->aa[k] * x[0][i] + a->bb[k] * x[1][i]);
    }
    add_base(w, p);
}

/* One thread adds them up, in order; then aa and bb are the coefficients. */
static zt_status by_columns(merge_work *w, arcs *a)
{
    a->columns = w->n / w->job->out.type.dim[0];
    a->aa = zt_calloc(w->m->ctx, (size_t)a->columns * 3 + 1, sizeof *a->aa);
    if (!a->aa) return ZT_ENOMEM;
    a->ab = a->aa + a->columns;
    a->bb = a->ab + a->columns;
    w->alone = true;
    zt_status s = zt_merge_pass(w, add_columns, a);
    w->alone = false;
    for (int64_t k = 0; k < a->columns && s == ZT_OK; k++)
        arc(a->aa[k], a->ab[k], a->bb[k], a->t, 1e-7, NEAR_1, &a->aa[k], &a->bb[k]);
    if (s == ZT_OK) s = zt_merge_pass_out(w, do_columns, a);
    zt_free(w->m->ctx, a->aa);
    return s;
}

static void do_whole_arc(merge_work *w, const merge_piece *p, void *arg)
{
    const arcs *a = arg;
    const float *x[MERGE_SOURCES];
    const double c[2] = {a->aa[0], a->bb[0]};
    vectors(&a->g, p, x);
    along_arc(a, p, x, c);
    add_base(w, p);
}

zt_status zt_merge_nuslerp(merge_work *w)
{
    const double wa = w->v->each[w->other[0]][MP_WEIGHT], wb = w->v->each[w->other[1]][MP_WEIGHT];
    arcs a = {.g = {.loops = zt_merge_loops(), .of = w->other, .n = 2, .base = w->base}};
    bool whole = w->v->shared[MP_FLATTEN] != 0 || w->job->out.type.rank == 0;
    bool columns = !whole && w->v->shared[MP_ROW_WISE] != 0 && w->job->out.type.rank > 1;
    double g[4], c[2];
    a.t = fabs(wa + wb) < 1e-6 ? 0.5 : wb / (wa + wb);
    w->by_row = !whole;
    zt_status s = zt_merge_begin(w);
    if (s != ZT_OK || columns) return s == ZT_OK ? by_columns(w, &a) : s;
    if (!whole) return zt_merge_pass_out(w, do_rows, &a);
    s = gram_of(w, w->other, 2, w->base, g);
    if (s != ZT_OK) return s;
    arc(g[0], g[1], g[3], a.t, 1e-7, NEAR_1, &c[0], &c[1]);
    a.aa = &c[0];
    a.bb = &c[1];
    return zt_merge_pass_out(w, do_whole_arc, &a);
}

/* ---- karcher --------------------------------------------------------------------------------- */

/* Vectors in the span of the units u_i, as coefficients; g: the units' inner products. */
static double inner(const double *g, const double *a, const double *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) sum += a[i] * b[j] * g[i * n + j];
    return sum;
}

static double length(const double *g, const double *a, int n)
{
    return sqrt(fmax(inner(g, a, a, n), 0));
}

/* One step of the mean along the sphere; false: it has arrived. */
static bool step(const double *g, const bool *valid, double share, double tol, int n, double *mean)
{
    double tangent[MERGE_SOURCES] = {0};
    for (int j = 0; j < n; j++) {
        double unit[MERGE_SOURCES] = {0};
        unit[j] = 1;
        double dot = clamp(inner(g, mean, unit, n)), theta = acos(dot);
        if (!valid[j] || theta < tol) continue;
        double f = share * theta / sin(theta);
        tangent[j] += f;
        for (int i = 0; i < n; i++) tangent[i] -= f * dot * mean[i];
    }
    double norm = length(g, tangent, n);
    if (norm < tol) return false;
    for (int i = 0; i < n; i++) mean[i] = cos(norm) * mean[i] + sin(norm) / norm * tangent[i];
    double one = length(g, mean, n);
    for (int i = 0; i < n && one > tol; i++) mean[i] /= one;
    return true;
}

/* The mean's coefficients of the units; false: all are 0. */
static bool karcher_mean(const double *g, const bool *valid, int n, double tol, int most,
                         double *mean)
{
    int n_valid = 0, first = -1;
    for (int i = 0; i < n; i++) {
        n_valid += valid[i];
        if (valid[i] && first < 0) first = i;
    }
    if (!n_valid) return false;
    for (int i = 0; i < n; i++) mean[i] = valid[i] ? 1.0 / n_valid : 0;
    double norm = length(g, mean, n);
    for (int i = 0; i < n; i++) mean[i] = norm < tol ? i == first : mean[i] / norm;
    for (int i = 0; i < most && step(g, valid, 1.0 / n_valid, tol, n, mean); i++) continue;
    return true;
}

zt_status zt_merge_karcher(merge_work *w)
{
    double g[MERGE_SOURCES * MERGE_SOURCES], norm[MERGE_SOURCES], c[MERGE_SOURCES] = {0}, scale = 0;
    bool valid[MERGE_SOURCES];
    int of[MERGE_SOURCES], n = w->k;
    double tol = w->v->shared[MP_TOL];
    for (int i = 0; i < n; i++) of[i] = i;
    zt_status s = zt_merge_begin(w);
    if (s == ZT_OK && n == 1) return combine(w, (const double[]){1}, -1);
    if (s == ZT_OK) s = gram_of(w, of, n, -1, g);
    if (s != ZT_OK) return s;
    for (int i = 0; i < n; i++) {
        norm[i] = sqrt(g[i * n + i]);
        valid[i] = norm[i] > tol;
        scale += norm[i] / n;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            g[i * n + j] = norm[i] > 0 && norm[j] > 0 ? g[i * n + j] / (norm[i] * norm[j]) : 0;
    if (karcher_mean(g, valid, n, tol, (int)w->v->shared[MP_MAX_ITER], c))
        for (int i = 0; i < n; i++) c[i] = norm[i] > 0 ? scale * c[i] / norm[i] : 0;
    return combine(w, c, -1);
}

/* ---- model stock ----------------------------------------------------------------------------- */

/* How far to go from the base to the mean: from the cosines between differences. */
static double stock_t(const double *g, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            sum += clamp(g[i * n + j] / fmax(sqrt(g[i * n + i]) * sqrt(g[j * n + j]), 1e-6));
    double cosine = sum / (n * (n - 1) / 2.0), below = 1 + (n - 1) * cosine;
    return fabs(below) < 1e-6 ? 0 : n * cosine / below;
}

static void stock(const gram *g, const merge_work *w, const merge_piece *p, double t, int64_t at,
                  int64_t n)
{
    const float *x[MERGE_SOURCES];
    float c[MERGE_SOURCES];
    for (int i = 0; i < g->n; i++) {
        x[i] = p->x[g->of[i]] + at;
        c[i] = (float)(t / g->n);
    }
    g->loops->combine_from(p->y + at, p->x[w->base] + at, x, c, g->n, n);
}

static void do_stock_rows(merge_work *w, const merge_piece *p, void *arg)
{
    const gram *g = arg;
    double table[MERGE_SOURCES * MERGE_SOURCES];
    const float *x[MERGE_SOURCES], *row[MERGE_SOURCES];
    vectors(g, p, x);
    for (int64_t at = 0; at < p->n; at += w->columns) {
        for (int i = 0; i < g->n; i++) row[i] = x[i] + at;
        products(g->loops, row, g->n, w->columns, table);
        stock(g, w, p, stock_t(table, g->n), at, w->columns);
    }
}

typedef struct stocked {
    gram g;
    double t;
} stocked;

static void do_stock(merge_work *w, const merge_piece *p, void *arg)
{
    const stocked *a = arg;
    stock(&a->g, w, p, a->t, 0, p->n);
}

zt_status zt_merge_stock(merge_work *w)
{
    double table[MERGE_SOURCES * MERGE_SOURCES];
    stocked a = {
        .g = {.loops = zt_merge_loops(), .of = w->other, .n = w->n_others, .base = w->base}};
    bool rows = w->v->shared[MP_FILTER_WISE] != 0;
    w->by_row = rows;
    zt_status s = zt_merge_begin(w);
    if (s == ZT_OK && rows) return zt_merge_pass_out(w, do_stock_rows, &a.g);
    if (s == ZT_OK) s = gram_of(w, w->other, w->n_others, w->base, table);
    a.t = s == ZT_OK ? stock_t(table, w->n_others) : 0;
    return s == ZT_OK ? zt_merge_pass_out(w, do_stock, &a) : s;
}
