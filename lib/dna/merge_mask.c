/* merge_mask.c - owns the methods that choose among differences to the base: which of them are
 * kept, by rank or at random, what those are scaled by, and whose sign is elected.
 *
 * What is kept at random is decided by Philox of (seed; the tensor's name and the model's number;
 * the element's number), so that it depends on nothing else.
 */
#include "lib/dna/merge_rank.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

typedef struct masks {
    const merge_loops *loops;
    int n;
    bool none[MERGE_SOURCES]; /* nothing is kept */
    bool all[MERGE_SOURCES];  /* nothing is left out */
    merge_range range[MERGE_SOURCES];
    double density[MERGE_SOURCES], epsilon[MERGE_SOURCES];
    uint64_t sequence[MERGE_SOURCES];
    float scale[MERGE_SOURCES]; /* of what is kept */
    bool by_chance;             /* and over the chance that it had */
    uint64_t **sort;            /* [threads] two lists of a row */
    int list_of[MERGE_SOURCES]; /* of the ranked lists: whose it is */
    merge_range *ranked;
    int n_ranked;
    double *before, *after; /* [pieces][n] sums of magnitudes */
    float c[MERGE_SOURCES]; /* weights */
    float factor;           /* of the whole */
    bool normalize;
} masks;

static const double *params_of(const merge_work *w, int i) { return w->v->each[w->other[i]]; }

/* ---- at random ------------------------------------------------------------------------------- */

/* Draws in the order of elements: each of 32 bits. */
typedef struct draws {
    uint64_t seed, sequence, at;
    uint32_t four[4];
} draws;

static draws draws_from(uint64_t seed, uint64_t sequence, int64_t first)
{
    draws d = {.seed = seed, .sequence = sequence, .at = (uint64_t)first};
    if (d.at % 4) zt_philox(seed, sequence, d.at / 4, d.four);
    return d;
}

static inline uint32_t draw(draws *d)
{
    if (d->at % 4 == 0) zt_philox(d->seed, d->sequence, d->at / 4, d->four);
    return d->four[d->at++ % 4];
}

static void keep_random(const masks *m, const merge_work *w, const merge_piece *p, int i)
{
    draws r = draws_from(w->m->o.seed, m->sequence[i], p->first);
    double below = m->density[i] * 0x1p32;
    for (int64_t j = 0; j < p->n; j++)
        if (draw(&r) >= below) p->d[i][j] = 0;
}

/* Keys in the upper halves sorted, from the lowest: eight bits at a time. */
static void sort_keys(uint64_t *a, uint64_t *b, int64_t n)
{
    for (int shift = 32; shift < 64; shift += 8) {
        int64_t at[257] = {0};
        for (int64_t i = 0; i < n; i++) at[(a[i] >> shift & 255) + 1]++;
        for (int k = 0; k < 256; k++) at[k + 1] += at[k];
        for (int64_t i = 0; i < n; i++) b[at[a[i] >> shift & 255]++] = a[i];
        uint64_t *t = a;
        a = b;
        b = t;
    }
}

/* One row: the chance grows with the rank in it, from density - epsilon to density + epsilon. */
static void keep_ranked_row(const masks *m, float *d, int64_t n, int i, draws *r, uint64_t *room)
{
    uint64_t *key = room, *rank = room + n;
    double least = m->density[i] - m->epsilon[i];
    for (int64_t j = 0; j < n; j++) {
        uint32_t u;
        memcpy(&u, &d[j], 4);
        key[j] = (uint64_t)(u & 0x7fffffff) << 32 | (uint32_t)j;
    }
    sort_keys(key, rank, n); /* an even number of turns: back in key */
    for (int64_t j = 0; j < n; j++) rank[(uint32_t)key[j]] = (uint64_t)j;
    for (int64_t j = 0; j < n; j++) {
        double chance = least + 2 * m->epsilon[i] * (n > 1 ? (double)rank[j] / (double)(n - 1) : 0);
        bool kept = draw(r) < chance * 0x1p32;
        d[j] = !kept ? 0 : m->by_chance ? (float)(d[j] / chance) : d[j];
    }
}

static void keep_ranked(const masks *m, const merge_work *w, const merge_piece *p, int i)
{
    draws r = draws_from(w->m->o.seed, m->sequence[i], p->first);
    for (int64_t at = 0; at < p->n; at += w->columns)
        keep_ranked_row(m, p->d[i] + at, w->columns, i, &r, m->sort[p->thread]);
}

/* ---- differences ----------------------------------------------------------------------------- */

static void difference(const masks *m, const merge_work *w, const merge_piece *p, int i)
{
    m->loops->subtract(p->d[i], p->x[w->other[i]], p->x[w->base], p->n);
}

/* d[i]: what is kept of the i-th difference, not scaled but by chance. */
static void keep(const masks *m, const merge_work *w, const merge_piece *p, int i)
{
    merge_sparse how = w->m->r->method->sparse;
    difference(m, w, p, i);
    if (m->all[i]) return;
    if (m->none[i])
        memset(p->d[i], 0, (size_t)p->n * sizeof *p->d[i]);
    else if (how == SPARSE_RANDOM)
        keep_random(m, w, p, i);
    else if (how == SPARSE_RANKED)
        keep_ranked(m, w, p, i);
    else {
        zt_merge_range_keep(&m->range[i], p, p->d[i], p->d[i]);
        m->loops->keep(p->d[i], m->range[i].lo, m->range[i].hi, p->n);
    }
}

static void do_last(merge_work *w, const merge_piece *p, void *arg)
{
    const masks *m = arg;
    const float *base = p->x[w->base];
    for (int i = 0; i < m->n; i++) {
        keep(m, w, p, i);
        if (m->scale[i] != 1)
            for (int64_t j = 0; j < p->n; j++) p->d[i][j] *= m->scale[i];
    }
    if (w->m->r->method->consensus)
        m->loops->consensus(p->y, base, p->d, m->c, m->n, m->normalize, m->factor, p->n);
    else
        m->loops->combine_on(p->y, base, p->d, m->c, m->n, p->n);
}

/* ---- what is found before that --------------------------------------------------------------- */

static void ranked_lists(merge_work *w, const merge_piece *p, const float **v, void *arg)
{
    const masks *m = arg;
    for (int k = 0; k < m->n_ranked; k++) {
        difference(m, w, p, m->list_of[k]);
        v[k] = p->d[m->list_of[k]];
    }
}

/* From which rank to which the i-th difference is kept. */
static void aim(masks *m, const merge_work *w, int i)
{
    const double *v = params_of(w, i);
    int64_t n = w->n, keeps = (int64_t)(v[MP_DENSITY] * (double)n);
    merge_range *r = &m->range[i];
    if (w->m->r->method->sparse == SPARSE_LARGEST) {
        keeps = keeps < 1 ? 1 : keeps;
        *r = (merge_range){.from = n - keeps, .to = n};
    } else {
        int64_t top = (int64_t)(v[MP_GAMMA] * (double)n), from = n - keeps - top;
        from = from < 0 ? 0 : from;
        *r = (merge_range){.from = from, .to = from + keeps < n ? from + keeps : n};
    }
    m->none[i] = r->from >= r->to;
}

static zt_status find_ranges(masks *m, merge_work *w)
{
    merge_range of[MERGE_SOURCES];
    for (int i = 0; i < m->n; i++) {
        if (m->all[i] || m->none[i]) continue;
        aim(m, w, i);
        if (m->none[i]) continue;
        m->list_of[m->n_ranked] = i;
        of[m->n_ranked++] = m->range[i];
    }
    zt_status s = m->n_ranked ? zt_merge_ranges(w, of, m->n_ranked, ranked_lists, m) : ZT_OK;
    for (int k = 0; k < m->n_ranked; k++) m->range[m->list_of[k]] = of[k];
    return s;
}

static zt_status room_to_sort(masks *m, merge_work *w)
{
    int threads = zt_pool_size(w->m->pool);
    m->sort = zt_calloc(w->m->ctx, (size_t)threads, sizeof *m->sort);
    for (int t = 0; m->sort && t < threads; t++)
        if (!(m->sort[t] = zt_alloc_array(w->m->ctx, (size_t)w->columns * 2 + 1, sizeof **m->sort)))
            return ZT_ENOMEM;
    return m->sort ? ZT_OK : ZT_ENOMEM;
}

static void do_norms(merge_work *w, const merge_piece *p, void *arg)
{
    masks *m = arg;
    for (int i = 0; i < m->n; i++) {
        double before = 0, after = 0;
        difference(m, w, p, i);
        for (int64_t j = 0; j < p->n; j++) before += fabsf(p->d[i][j]);
        keep(m, w, p, i);
        for (int64_t j = 0; j < p->n; j++) after += fabsf(p->d[i][j]);
        m->before[p->index * m->n + i] = before;
        m->after[p->index * m->n + i] = after;
    }
}

/* mergekit's rule: the same L1 norm as before. */
static zt_status find_norms(masks *m, merge_work *w)
{
    size_t cells = (size_t)w->pieces * (size_t)m->n;
    m->before = zt_calloc(w->m->ctx, cells * 2 + 1, sizeof *m->before);
    if (!m->before) return ZT_ENOMEM;
    m->after = m->before + cells;
    zt_status s = zt_merge_pass(w, do_norms, m);
    for (int i = 0; i < m->n && s == ZT_OK; i++) {
        double before = 0, after = 0;
        for (int64_t p = 0; p < w->pieces; p++) {
            before += m->before[p * m->n + i];
            after += m->after[p * m->n + i];
        }
        bool counts = !m->all[i] && before >= 1e-7 && after >= 1e-7;
        m->scale[i] = counts ? (float)(before / after) : 1;
    }
    return s;
}

/* Parameters, before there is a look at values. */
static void set_up(masks *m, merge_work *w)
{
    const merge_method *how = w->m->r->method;
    int rescale = (int)w->v->shared[MP_RESCALE];
    double sum = 0;
    m->loops = zt_merge_loops();
    m->n = w->n_others;
    m->by_chance = rescale == RESCALE_DENSITY;
    m->normalize = w->v->shared[MP_NORMALIZE] != 0;
    for (int i = 0; i < m->n; i++) {
        const double *v = params_of(w, i);
        m->density[i] = v[MP_DENSITY];
        m->epsilon[i] = how->others & MP_BIT(MP_EPSILON) ? v[MP_EPSILON] : 0;
        m->all[i] = m->density[i] >= 1;
        m->none[i] = m->density[i] <= 0;
        m->scale[i] = 1;
        if (m->by_chance && how->sparse != SPARSE_RANKED && !m->all[i] && !m->none[i])
            m->scale[i] = (float)(1 / m->density[i]);
        m->sequence[i] = XXH3_64bits_withSeed(w->job->out.name, strlen(w->job->out.name),
                                              (uint64_t)w->job->slice->source[w->other[i]].model);
        sum += m->c[i] = (float)v[MP_WEIGHT];
    }
    double of = m->normalize && fabs(sum) >= 1e-8 ? sum : 1;
    m->factor = (float)w->v->shared[MP_LAMBDA];
    for (int i = 0; i < m->n && !how->consensus; i++)
        m->c[i] = (float)(m->c[i] * w->v->shared[MP_LAMBDA] / of);
}

static void fini(masks *m, merge_work *w)
{
    zt_merge_ranges_free(w, m->range, m->n);
    for (int t = 0; m->sort && t < zt_pool_size(w->m->pool); t++) zt_free(w->m->ctx, m->sort[t]);
    zt_free(w->m->ctx, m->sort);
    zt_free(w->m->ctx, m->before);
}

zt_status zt_merge_masked(merge_work *w)
{
    masks m = {0};
    merge_sparse how = w->m->r->method->sparse;
    set_up(&m, w);
    w->by_row = how == SPARSE_RANKED;
    zt_status s = zt_merge_begin(w);
    if (s == ZT_OK && how == SPARSE_RANKED) s = room_to_sort(&m, w);
    if (s == ZT_OK && (how == SPARSE_LARGEST || how == SPARSE_MIDDLE)) s = find_ranges(&m, w);
    if (s == ZT_OK && (int)w->v->shared[MP_RESCALE] == RESCALE_L1) s = find_norms(&m, w);
    if (s == ZT_OK) s = zt_merge_pass_out(w, do_last, &m);
    fini(&m, w);
    return s;
}

/* ---- sce ------------------------------------------------------------------------------------- */

typedef struct sce {
    const merge_loops *loops;
    int n;
    merge_range range; /* of variances */
    bool none, all;
    int64_t *nonzero; /* [pieces] */
    double *square;   /* [pieces][n] */
    float weight[MERGE_SOURCES];
} sce;

/* The differences, and in y the variance of each element among the models. */
static void variances(const sce *c, const merge_work *w, const merge_piece *p)
{
    for (int i = 0; i < c->n; i++)
        c->loops->subtract(p->d[i], p->x[w->other[i]], p->x[w->base], p->n);
    for (int64_t j = 0; j < p->n; j++) {
        double mean = 0, sum = 0;
        for (int i = 0; i < c->n; i++) mean += p->d[i][j];
        mean /= c->n;
        for (int i = 0; i < c->n; i++) sum += (p->d[i][j] - mean) * (p->d[i][j] - mean);
        p->y[j] = (float)(sum / c->n);
    }
}

static void variance_list(merge_work *w, const merge_piece *p, const float **v, void *arg)
{
    variances(arg, w, p);
    v[0] = p->y;
}

static void do_nonzero(merge_work *w, const merge_piece *p, void *arg)
{
    sce *c = arg;
    variances(c, w, p);
    c->nonzero[p->index] = 0;
    for (int64_t j = 0; j < p->n; j++) c->nonzero[p->index] += p->y[j] != 0;
}

/* The differences that are selected. */
static void select_them(const sce *c, const merge_work *w, const merge_piece *p)
{
    variances(c, w, p);
    for (int i = 0; i < c->n && !c->all; i++) {
        if (!c->none) zt_merge_range_keep(&c->range, p, p->y, p->d[i]);
        for (int64_t j = 0; j < p->n; j++)
            if (c->none || p->y[j] < c->range.lo || p->y[j] > c->range.hi) p->d[i][j] = 0;
    }
}

static void do_squares(merge_work *w, const merge_piece *p, void *arg)
{
    sce *c = arg;
    select_them(c, w, p);
    for (int i = 0; i < c->n; i++)
        c->square[p->index * c->n + i] = c->loops->dot(p->d[i], p->d[i], p->n);
}

static void do_sce(merge_work *w, const merge_piece *p, void *arg)
{
    const sce *c = arg;
    select_them(c, w, p);
    for (int64_t j = 0; j < p->n; j++) {
        float sum = 0, some = 0, of = 0;
        for (int i = 0; i < c->n; i++) sum += p->d[i][j];
        for (int i = 0; i < c->n; i++) {
            float d = p->d[i][j];
            if (sum >= 0 ? d <= 0 : d >= 0) continue;
            some += d * c->weight[i];
            of += c->weight[i];
        }
        p->y[j] = p->x[w->base][j] + some / (of < 1e-6f ? 1e-6f : of);
    }
}

static zt_status select_range(sce *c, merge_work *w)
{
    double topk = w->v->shared[MP_SELECT_TOPK];
    int64_t n = 0;
    c->all = topk >= 1;
    c->none = topk <= 0;
    if (c->all || c->none) return ZT_OK;
    zt_status s = zt_merge_pass(w, do_nonzero, c);
    for (int64_t p = 0; p < w->pieces && s == ZT_OK; p++) n += c->nonzero[p];
    int64_t k = (int64_t)((double)n * topk);
    c->none = k == 0;
    c->range = (merge_range){.from = w->n - k, .to = w->n};
    return s == ZT_OK && k ? zt_merge_ranges(w, &c->range, 1, variance_list, c) : s;
}

static zt_status weigh(sce *c, merge_work *w)
{
    double mean[MERGE_SOURCES] = {0}, sum = 0;
    zt_status s = zt_merge_pass(w, do_squares, c);
    for (int i = 0; i < c->n; i++) {
        for (int64_t p = 0; p < w->pieces && s == ZT_OK; p++) mean[i] += c->square[p * c->n + i];
        sum += mean[i] /= (double)w->n;
    }
    for (int i = 0; i < c->n; i++)
        c->weight[i] = (float)(fabs(sum) < 1e-6 ? 1.0 / c->n : mean[i] / sum);
    return s;
}

zt_status zt_merge_sce(merge_work *w)
{
    sce c = {.loops = zt_merge_loops(), .n = w->n_others};
    zt_status s = zt_merge_begin(w);
    if (s != ZT_OK) return s;
    c.nonzero = zt_alloc_array(w->m->ctx, (size_t)w->pieces + 1, sizeof *c.nonzero);
    c.square = zt_alloc_array(w->m->ctx, (size_t)w->pieces * (size_t)c.n + 1, sizeof *c.square);
    s = c.nonzero && c.square ? select_range(&c, w) : ZT_ENOMEM;
    if (s == ZT_OK) s = weigh(&c, w);
    if (s == ZT_OK) s = zt_merge_pass_out(w, do_sce, &c);
    zt_merge_ranges_free(w, &c.range, 1);
    zt_free(w->m->ctx, c.nonzero);
    zt_free(w->m->ctx, c.square);
    return s;
}
