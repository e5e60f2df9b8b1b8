/* compare.c - owns two models side by side: layers of one name, what all of them come to, which
 * have changed more than others, and which of one are elsewhere in the other. */
#include "lib/dna/dna_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHIFT_ABOVE 0.8 /* a layer is another one: Loom's bound, strict */
#define DOUBT       0.2 /* sketches of DNA_BUCKETS are off by more once in 10^9 */

typedef struct pairing {
    zt_dna *a, *b;
    const zt_dna_how *how;
    zt_dna_verdict *v;
    dna_crew *crew;
    double *sketch[2]; /* of long layers, in each model's order; NULL: not wanted */
    bool *sketched[2];
    int64_t done, all;
    double a2, b2, ab, d2; /* over all layers */
} pairing;

static bool is_wanted(const pairing *p, const char *name)
{
    return !p->how->wanted || p->how->wanted(p->how->user, name);
}

static bool is_loom(const pairing *p) { return p->a->rule == ZT_RULE_LOOM; }

static zt_status tick(pairing *p, const char *layer)
{
    return p->how->tick ? p->how->tick(p->how->user, layer, p->done++, p->all) : ZT_OK;
}

static double *sketch_of(const pairing *p, int side, int64_t i)
{
    const zt_dna *d = side ? p->b : p->a;
    return p->sketch[side] && d->layer[i].n > DNA_SHORT ? p->sketch[side] + i * DNA_BUCKETS : NULL;
}

/* ---- a pair of layers ------------------------------------------------------------------------ */

static bool same_dims(const zt_type *a, const zt_type *b)
{
    bool same = a->rank == b->rank;
    for (int k = 0; same && k < a->rank; k++) same = a->dim[k] == b->dim[k];
    return same;
}

/* May they be compared at all? What has no numbers that zt knows may not. */
static bool fit(const pairing *p, int64_t i, int64_t j)
{
    const zt_dna_layer *x = &p->a->layer[i], *y = &p->b->layer[j];
    return x->n == y->n && strcmp(x->type, y->type) == 0 && same_dims(&x->shape, &y->shape) &&
           x->shape.dtype != ZT_DTYPE_COUNT && y->shape.dtype != ZT_DTYPE_COUNT &&
           (!is_loom(p) || strcmp(x->dtype, y->dtype) == 0);
}

float zt_dna_similarity(const float *a, const float *b, int64_t n)
{
    bool some_a = false, some_b = false;
    float dot = 0;
    for (int64_t i = 0; i < n; i++) {
        some_a = some_a || a[i] != 0;
        some_b = some_b || b[i] != 0;
        dot += a[i] * b[i];
    }
    return some_a && some_b ? dot : some_a == some_b;
}

static double cosine_of(double a2, double b2, double ab)
{
    if (a2 == 0 || b2 == 0) return a2 == b2;
    double c = ab / (sqrt(a2) * sqrt(b2));
    return c > 1 ? 1 : c < -1 ? -1 : c;
}

/* Loom's: signatures, held whole. */
static zt_status signed_overlap(pairing *p, int64_t i, int64_t j, double *out)
{
    zt_ctx *ctx = p->a->ctx;
    int64_t n = p->a->layer[i].n;
    float *x = zt_alloc_array(ctx, (size_t)n, sizeof *x);
    float *y = x ? zt_alloc_array(ctx, (size_t)n, sizeof *y) : NULL;
    zt_status s = y ? zt_dna_sign(p->a, i, x, NULL) : ZT_ENOMEM;
    if (s == ZT_OK) s = zt_dna_sign(p->b, j, y, NULL);
    if (s == ZT_OK) *out = (double)zt_dna_similarity(x, y, n);
    zt_free(ctx, x);
    zt_free(ctx, y);
    return s;
}

/* The overlap of two layers that fit, and no more. */
static zt_status overlap_of(pairing *p, int64_t i, int64_t j, double *out)
{
    dna_sums sums;
    if (is_loom(p)) return signed_overlap(p, i, j, out);
    zt_status s = zt_dna_sum(p->crew, p->a, i, p->b, j, false, &sums, NULL, NULL);
    if (s == ZT_OK) *out = cosine_of(sums.a2, sums.b2, sums.ab);
    return s;
}

static double deviation(double sum, double squares, int64_t n)
{
    double mean = sum / (double)n, v = squares / (double)n - mean * mean;
    return v > 0 ? sqrt(v) : 0;
}

static void put_sums(zt_dna_score *r, const dna_sums *s, int64_t n)
{
    double da = deviation(s->a1, s->a2, n), db = deviation(s->b1, s->b2, n);
    r->cosine = s->d2 == 0 ? 1 : cosine_of(s->a2, s->b2, s->ab);
    r->rel_l2 = s->d2 == 0 ? 0 : sqrt(s->d2 / s->a2);
    r->spread = da == db ? 1 : db / da;
    r->rank_a = s->rank_a;
    r->rank_b = s->rank_b;
    r->most = s->most;
    r->same = s->d2 == 0;
    r->a2 = s->a2;
    r->b2 = s->b2;
    r->ab = s->ab;
    r->d2 = s->d2;
}

static zt_status score(pairing *p, int64_t i, int64_t j)
{
    zt_dna_score *r = &p->v->layer[p->v->n++];
    dna_sums sums;
    *r = (zt_dna_score){.a = i,
                        .b = j,
                        .cosine = NAN,
                        .rel_l2 = NAN,
                        .spread = NAN,
                        .most = NAN,
                        .rank_a = NAN,
                        .rank_b = NAN};
    zt_status s = tick(p, p->a->layer[i].name);
    if (s != ZT_OK || !fit(p, i, j)) return s;
    double *ka = sketch_of(p, 0, i), *kb = sketch_of(p, 1, j);
    s = zt_dna_sum(p->crew, p->a, i, p->b, j, p->how->ranks, &sums, ka, kb);
    if (s != ZT_OK) return s;
    if (ka) p->sketched[0][i] = p->sketched[1][j] = true;
    put_sums(r, &sums, p->a->layer[i].n);
    r->overlap = r->cosine;
    p->v->fit++;
    p->v->same += r->same;
    p->a2 += sums.a2;
    p->b2 += sums.b2;
    p->ab += sums.ab;
    p->d2 += sums.d2;
    return is_loom(p) ? signed_overlap(p, i, j, &r->overlap) : ZT_OK;
}

static zt_status score_all(pairing *p)
{
    zt_dna_verdict *v = p->v;
    zt_status s = ZT_OK;
    double sum = 0;
    for (int64_t i = 0; i < p->a->n && s == ZT_OK; i++) {
        if (!is_wanted(p, p->a->layer[i].name)) continue;
        int64_t j = zt_dna_find(p->b, p->a->layer[i].name);
        if (j >= 0)
            s = score(p, i, j);
        else
            v->only_a++;
    }
    for (int64_t j = 0; j < p->b->n; j++)
        v->only_b +=
            is_wanted(p, p->b->layer[j].name) && zt_dna_find(p->a, p->b->layer[j].name) < 0;
    for (int64_t k = 0; k < v->n; k++) sum += v->layer[k].overlap;
    v->overlap = v->n ? sum / (double)v->n : 0;
    v->cosine = v->fit ? (p->d2 == 0 ? 1 : cosine_of(p->a2, p->b2, p->ab)) : NAN;
    v->rel_l2 = v->fit ? (p->d2 == 0 ? 0 : sqrt(p->d2 / p->a2)) : NAN;
    return s;
}

/* ---- shifts ---------------------------------------------------------------------------------- */

/* May layer j of b be above `least` for layer i of a, by their sketches? */
static bool may_be(const pairing *p, int64_t i, int64_t j, double least)
{
    const double *x = sketch_of(p, 0, i), *y = sketch_of(p, 1, j);
    double a2 = 0, b2 = 0, ab = 0;
    if (!x || !p->sketched[0][i] || !p->sketched[1][j]) return true;
    for (int k = 0; k < DNA_BUCKETS; k++) {
        a2 += x[k] * x[k];
        b2 += y[k] * y[k];
        ab += x[k] * y[k];
    }
    return !(cosine_of(a2, b2, ab) < least - DOUBT);
}

static const zt_dna_score *row_of(const pairing *p, int64_t i, int64_t *next)
{
    while (*next < p->v->n && p->v->layer[*next].a < i) ++*next;
    return *next < p->v->n && p->v->layer[*next].a == i ? &p->v->layer[*next] : NULL;
}

/* The first layer of b with the greatest overlap. */
static zt_status find_best(pairing *p, int64_t i, const zt_dna_score *own, zt_dna_shift *best)
{
    zt_status s = ZT_OK;
    *best = (zt_dna_shift){.from = i, .to = -1, .overlap = -INFINITY};
    for (int64_t j = 0; j < p->b->n && s == ZT_OK; j++) {
        double overlap = 0, least = SHIFT_ABOVE;
        if (p->a->layer[i].n != p->b->layer[j].n || !is_wanted(p, p->b->layer[j].name)) continue;
        if (own && own->overlap > least) least = own->overlap;
        if (best->overlap > least) least = best->overlap;
        if (own && own->b == j)
            overlap = own->overlap;
        else if (fit(p, i, j) && may_be(p, i, j, least))
            s = overlap_of(p, i, j, &overlap);
        if (overlap > best->overlap) best->to = j, best->overlap = overlap;
    }
    return s;
}

static zt_status find_shifts(pairing *p)
{
    zt_dna_verdict *v = p->v;
    zt_status s = ZT_OK;
    int64_t next = 0;
    v->shift = zt_alloc_array(p->a->ctx, (size_t)p->a->n + 1, sizeof *v->shift);
    if (!v->shift) return ZT_ENOMEM;
    for (int64_t i = 0; i < p->a->n && s == ZT_OK; i++) {
        zt_dna_shift best;
        const zt_dna_layer *x = &p->a->layer[i], *y;
        if (!is_wanted(p, x->name)) continue;
        s = tick(p, x->name);
        if (s == ZT_OK) s = find_best(p, i, row_of(p, i, &next), &best);
        if (s != ZT_OK || best.to < 0 || !(best.overlap > SHIFT_ABOVE)) continue;
        y = &p->b->layer[best.to];
        if (memcmp(x->place, y->place, sizeof x->place) != 0) v->shift[v->n_shifts++] = best;
    }
    return s;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static zt_status prepare(pairing *p)
{
    zt_ctx *ctx = p->a->ctx;
    const zt_dna *both[2] = {p->a, p->b};
    p->crew = zt_dna_crew_new(ctx, p->how->threads > 0 ? p->how->threads : 1);
    p->v->layer = zt_alloc_array(ctx, (size_t)p->a->n + 1, sizeof *p->v->layer);
    p->all = p->a->n * (p->how->shifts ? 2 : 1);
    for (int side = 0; side < 2 && p->how->shifts; side++) {
        size_t n = (size_t)both[side]->n + 1;
        p->sketch[side] = zt_alloc_array(ctx, n, DNA_BUCKETS * sizeof *p->sketch[side]);
        p->sketched[side] = zt_calloc(ctx, n, sizeof *p->sketched[side]);
        if (!p->sketch[side] || !p->sketched[side]) return ZT_ENOMEM;
    }
    return p->crew && p->v->layer ? ZT_OK : ZT_ENOMEM;
}

zt_status zt_dna_compare(zt_dna *a, zt_dna *b, const zt_dna_how *how, zt_dna_verdict *v)
{
    *v = (zt_dna_verdict){.ctx = a->ctx};
    if (a->rule != b->rule)
        return zt_fail(a->ctx, ZT_EUSAGE, "%s and %s are taken by different rules", zt_dna_name(a),
                       zt_dna_name(b));
    pairing p = {.a = a, .b = b, .how = how, .v = v};
    zt_status s = prepare(&p);
    if (s == ZT_OK) s = score_all(&p);
    if (s == ZT_OK) s = zt_dna_mark_changes(p.a, p.b, p.v);
    if (s == ZT_OK && how->shifts) s = find_shifts(&p);
    zt_dna_crew_free(p.crew);
    for (int side = 0; side < 2; side++) {
        zt_free(a->ctx, p.sketch[side]);
        zt_free(a->ctx, p.sketched[side]);
    }
    return s;
}

void zt_dna_verdict_free(zt_dna_verdict *v)
{
    if (!v->ctx) return;
    zt_free(v->ctx, v->layer);
    zt_free(v->ctx, v->shift);
    *v = (zt_dna_verdict){.ctx = NULL};
}
