/* merge_rank.c - owns ranks without sorting: the bits of magnitudes are counted from the top down,
 * in three passes of 11, 11 and 9 bits. Exact, and the memory is that of the counts.
 */
#include "lib/dna/merge_rank.h"

#include <math.h>
#include <string.h>

enum { BINS = 2048, LEVELS = 3 };
static const int shift_of[LEVELS] = {20, 9, 0};
static const uint32_t mask_of[LEVELS] = {2047, 2047, 511};

/* The search for the value of one rank. */
typedef struct edge {
    int list;
    bool last;           /* that of the last one kept, not of the first */
    int64_t rank, below; /* below: values that are smaller than all that begin with `prefix` */
    uint32_t prefix;     /* the bits found so far, shifted to their place */
    int64_t equal;
} edge;

typedef struct search {
    merge_list_fn *fn;
    void *arg;
    edge edge[2 * MERGE_SOURCES];
    int n_lists, n_edges, level;
    uint64_t *count; /* [threads][edges][BINS] */
} search;

static inline uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u & 0x7fffffff;
}

static void do_count(merge_work *w, const merge_piece *p, void *arg)
{
    const search *s = arg;
    const float *v[MERGE_SOURCES];
    int shift = shift_of[s->level], above = s->level ? shift_of[s->level - 1] : 31;
    uint32_t mask = mask_of[s->level];
    s->fn(w, p, v, s->arg);
    for (int e = 0; e < s->n_edges; e++) {
        uint64_t *count = s->count + ((size_t)p->thread * (size_t)s->n_edges + (size_t)e) * BINS;
        const float *x = v[s->edge[e].list];
        uint32_t prefix = s->edge[e].prefix >> above;
        for (int64_t i = 0; i < p->n; i++) {
            uint32_t u = bits_of(x[i]);
            if (u >> above == prefix) count[u >> shift & mask]++;
        }
    }
}

/* The bin that holds the edge's rank. */
static void narrow(const search *s, int e, int threads)
{
    edge *g = (edge *)&s->edge[e];
    for (uint32_t b = 0; b <= mask_of[s->level]; b++) {
        int64_t n = 0;
        for (int t = 0; t < threads; t++)
            n += (int64_t)s->count[((size_t)t * (size_t)s->n_edges + (size_t)e) * BINS + b];
        if (g->below + n > g->rank || b == mask_of[s->level]) {
            g->prefix |= b << shift_of[s->level];
            g->equal = n;
            return;
        }
        g->below += n;
    }
}

static zt_status search_all(merge_work *w, search *s)
{
    int threads = zt_pool_size(w->m->pool);
    size_t cells = (size_t)threads * (size_t)s->n_edges * BINS;
    s->count = zt_alloc_array(w->m->ctx, cells + 1, sizeof *s->count);
    zt_status st = s->count ? ZT_OK : ZT_ENOMEM;
    for (s->level = 0; s->level < LEVELS && st == ZT_OK; s->level++) {
        memset(s->count, 0, cells * sizeof *s->count);
        st = zt_merge_pass(w, do_count, s);
        for (int e = 0; e < s->n_edges && st == ZT_OK; e++) narrow(s, e, threads);
    }
    zt_free(w->m->ctx, s->count);
    return st;
}

/* ---- equal ones ------------------------------------------------------------------------------ */

typedef struct equals {
    merge_range *r;
    int n;
    merge_list_fn *fn;
    void *arg;
} equals;

static void do_equals(merge_work *w, const merge_piece *p, void *arg)
{
    const equals *q = arg;
    const float *v[MERGE_SOURCES];
    q->fn(w, p, v, q->arg);
    for (int k = 0; k < q->n; k++) {
        const merge_range *r = &q->r[k];
        if (!r->equal) continue;
        int64_t *of = r->equal + 2 * p->index;
        of[0] = of[1] = 0;
        for (int64_t i = 0; i < p->n; i++) {
            of[0] += fabsf(v[k][i]) == r->lo;
            of[1] += fabsf(v[k][i]) == r->hi;
        }
    }
}

static zt_status count_equals(merge_work *w, merge_range *r, int n, merge_list_fn *fn, void *arg)
{
    equals q = {r, n, fn, arg};
    bool any = false;
    for (int k = 0; k < n; k++) {
        if (!r[k].some_lo && !r[k].some_hi) continue;
        r[k].equal = zt_alloc_array(w->m->ctx, (size_t)w->pieces * 2 + 1, sizeof *r[k].equal);
        if (!r[k].equal) return ZT_ENOMEM;
        any = true;
    }
    zt_status s = any ? zt_merge_pass(w, do_equals, &q) : ZT_OK;
    for (int k = 0; k < n && s == ZT_OK; k++)
        for (int side = 0; side < 2 && r[k].equal; side++)
            for (int64_t i = 0, sum = 0, here; i < w->pieces; i++, sum += here) {
                here = r[k].equal[2 * i + side];
                r[k].equal[2 * i + side] = sum;
            }
    return s;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

static void set_edge(const edge *e, merge_range *r)
{
    if (e->last) {
        r->hi = float_of(e->prefix);
        r->take_hi = r->to - e->below;
        r->some_hi = r->take_hi < e->equal && r->hi > 0;
    } else {
        r->lo = float_of(e->prefix);
        r->skip_lo = r->from - e->below;
        r->some_lo = r->skip_lo > 0 && r->lo > 0;
    }
}

zt_status zt_merge_ranges(merge_work *w, merge_range *r, int n, merge_list_fn *fn, void *arg)
{
    search s = {.fn = fn, .arg = arg, .n_lists = n};
    for (int k = 0; k < n; k++) {
        if (r[k].from > 0) s.edge[s.n_edges++] = (edge){.list = k, .rank = r[k].from};
        if (r[k].to < w->n)
            s.edge[s.n_edges++] = (edge){.list = k, .last = true, .rank = r[k].to - 1};
        r[k].lo = 0;
        r[k].hi = INFINITY;
    }
    zt_status st = s.n_edges ? search_all(w, &s) : ZT_OK;
    for (int e = 0; e < s.n_edges && st == ZT_OK; e++) set_edge(&s.edge[e], &r[s.edge[e].list]);
    return st == ZT_OK ? count_equals(w, r, n, fn, arg) : st;
}

void zt_merge_ranges_free(merge_work *w, merge_range *r, int n)
{
    for (int k = 0; k < n; k++) zt_free(w->m->ctx, r[k].equal);
}

void zt_merge_range_keep(const merge_range *r, const merge_piece *p, const float *by, float *d)
{
    int64_t lo = r->equal ? r->equal[2 * p->index] : 0,
            hi = r->equal ? r->equal[2 * p->index + 1] : 0;
    for (int64_t i = 0; r->equal && i < p->n; i++) {
        float a = fabsf(by[i]);
        if (a == r->lo && r->some_lo && lo++ < r->skip_lo) d[i] = 0;
        if (a == r->hi && r->some_hi && hi++ >= r->take_hi) d[i] = 0;
    }
}
