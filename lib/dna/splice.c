/* splice.c - owns children of two models: which layers are mixed, by how much, and how numbers are.
 *
 * A child is a zt_dna that shares A's checkpoint, names and texts, with a plan beside it. */
#include "lib/dna/dna_file.h"
#include "lib/tensor/quantize.h"

#include <math.h>
#include <string.h>

/* ---- numbers --------------------------------------------------------------------------------- */

static void blend(float *x, const float *y, int64_t n, float alpha)
{
    for (int64_t i = 0; i < n; i++) x[i] = x[i] * (1 - alpha) + y[i] * alpha;
}

/* Number at + i is A's below `first`. */
static void cross(float *x, const float *y, int64_t at, int64_t n, int64_t first)
{
    for (int64_t i = at < first ? first - at : 0; i < n; i++) x[i] = y[i];
}

/* A draw of 32 bits for each number: the i-th of part p is word i % 4 of position i / 4. */
static void pick(float *x, const float *y, int64_t p, int64_t at, int64_t n,
                 const zt_splice_how *how)
{
    double all = how->fitness_a + how->fitness_b;
    double share = all > 0 ? how->fitness_a / all : 0.5;
    uint64_t below = (uint64_t)(share * 4294967296.0); /* 2^32: always */
    uint32_t word[4] = {0};
    for (int64_t i = at; i < at + n; i++) {
        if (i % 4 == 0 || i == at) zt_philox(how->seed, (uint64_t)p, (uint64_t)(i / 4), word);
        if (word[i % 4] >= below) x[i - at] = y[i - at];
    }
}

static int64_t first_of_a(double ratio, int64_t n)
{
    double k = (double)n * ratio;
    return k >= (double)n ? n : k > 0 ? (int64_t)k : 0;
}

/* B's numbers at .. at+n-1 of part p. */
static zt_status fetch_b(zt_dna *b, int64_t p, int64_t at, int64_t n, float *out)
{
    if (b->net) return zt_dna_master(b, p, out);
    zt_dtype t = zt_dna_dtype(b, p);
    size_t bytes = zt_dna_bytes(t, n);
    zt_status s = zt_dna_room(b, bytes);
    if (s == ZT_OK) s = zt_dna_fetch(b, p, at, n, b->codes);
    if (s == ZT_OK) zt_dna_decode(t, b->codes, out, n);
    return s;
}

zt_status zt_dna_mix(zt_dna *child, int64_t p, int64_t at, int64_t n, float *x)
{
    dna_mix *m = child->mix;
    if (n > m->room_n) {
        zt_free(child->ctx, m->room);
        m->room_n = 0;
        m->room = zt_alloc_array(child->ctx, (size_t)n, sizeof *m->room);
        if (!m->room) return ZT_ENOMEM;
        m->room_n = n;
    }
    zt_status s = fetch_b(m->b, m->twin[p], at, n, m->room);
    if (s != ZT_OK) return s;
    if (m->how.mode == ZT_SPLICE_BLEND)
        blend(x, m->room, n, m->alpha[p]);
    else if (m->how.mode == ZT_SPLICE_POINT)
        cross(x, m->room, at, n, first_of_a(m->how.ratio, child->part[p].n));
    else
        pick(x, m->room, p, at, n, &m->how);
    return ZT_OK;
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* Are the parts of two layers the same tree of the same dtypes? */
static bool same_parts(const zt_dna *a, int64_t pa, const zt_dna *b, int64_t pb)
{
    int64_t n = a->part[pa].next - pa;
    bool same = b->part[pb].next - pb == n;
    for (int64_t k = 0; k < n && same; k++) {
        const dna_part *x = &a->part[pa + k], *y = &b->part[pb + k];
        same = x->group == y->group && x->n == y->n && x->next - pa == y->next - pb &&
               (x->tensor < 0) == (y->tensor < 0) && x->are.type == y->are.type;
    }
    return same;
}

/* Can a tensor's dtype be written again? Whole numbers stay as they are. */
static bool is_float(zt_dtype t) { return t != ZT_DTYPE_COUNT && zt_dtype_is_float(t); }

static bool mixes(const zt_dna *a, int64_t i, const zt_dna *b, int64_t j)
{
    const zt_dna_layer *x = &a->layer[i], *y = &b->layer[j];
    if (!a->net) return is_float(x->shape.dtype) && is_float(y->shape.dtype);
    const dna_part *p = &a->part[a->first[i]];
    return strcmp(x->dtype, y->dtype) == 0 && same_parts(a, a->first[i], b, b->first[j]) &&
           (a->rule == ZT_RULE_FIELD || !p->group);
}

/* The scale of the child's own weights. */
static zt_status own_scale(zt_dna *c, int64_t p)
{
    dna_part *part = &c->part[p];
    float *x = zt_alloc_array(c->ctx, (size_t)part->n, sizeof *x);
    zt_status s = x ? zt_dna_mixed(c, p, x) : ZT_ENOMEM;
    if (s == ZT_OK) part->are.scale = zt_storage_scale(zt_net_nearest(&part->are).type, x, part->n);
    zt_free(c->ctx, x);
    return s;
}

/* Codes of a byte and more hold what is between A's and B's with the larger scale of the two; where
 * there are few codes, or the scale is a mean of magnitudes, that would be far from the nearest. */
static zt_status find_scale(zt_dna *c, int64_t p, const dna_part *b)
{
    dna_part *to = &c->part[p];
    if (!to->are.native || !b->are.native) return ZT_OK;
    if (zt_storage_get(to->are.type)->bits < 8) return own_scale(c, p);
    if (b->are.scale > to->are.scale) to->are.scale = b->are.scale;
    return ZT_OK;
}

static zt_status plan_parts(zt_dna *c, int64_t i, int64_t j, float alpha, bool *any)
{
    const zt_dna *b = c->mix->b;
    int64_t pa = c->first[i], pb = b->first[j];
    zt_status s = ZT_OK;
    *any = false;
    for (int64_t k = 0; pa + k < c->part[pa].next && s == ZT_OK; k++) {
        if (c->part[pa + k].tensor < 0) continue;
        c->mix->twin[pa + k] = pb + k;
        c->mix->alpha[pa + k] = alpha;
        if (c->net) s = find_scale(c, pa + k, &b->part[pb + k]);
        *any = true;
    }
    return s;
}

static double share_of_b(const zt_splice_how *how, double similarity)
{
    double all = how->fitness_a + how->fitness_b;
    return all > 0 ? how->fitness_b / all * (0.5 + 0.5 * similarity) : how->alpha;
}

static zt_status plan_layer(zt_dna *c, const zt_dna *a, const zt_dna_score *s)
{
    zt_splice_row *r = &c->mix->row[s->a];
    const zt_dna_layer *l = &a->layer[s->a];
    *r = (zt_splice_row){.b = s->b, .similarity = s->overlap};
    if (isnan(s->cosine) || !mixes(a, s->a, c->mix->b, s->b)) return ZT_OK;
    r->alpha = share_of_b(&c->mix->how, s->overlap);
    zt_status st = plan_parts(c, s->a, s->b, (float)r->alpha, &r->mixed);
    if (st != ZT_OK) return st;
    zt_dtype t = l->shape.dtype;
    bool writes =
        c->net || zt_dtype_get(t)->kind == 'F' || zt_dtype_is_packed(t) || zt_quantize_has(t);
    return writes || !r->mixed ? ZT_OK
                               : zt_fail(a->ctx, ZT_ENOTSUP,
                                         "%s: '%s' is %s, which is not written: convert it first",
                                         zt_dna_name(a), l->name, l->dtype);
}

static zt_status plan(zt_dna *c, zt_dna *a, zt_dna *b, const zt_dna_how *work)
{
    zt_dna_verdict v = {.ctx = NULL};
    zt_dna_how how = *work;
    how.ranks = how.shifts = false;
    zt_status s = zt_dna_compare(a, b, &how, &v);
    for (int64_t k = 0; k < v.n && s == ZT_OK; k++) s = plan_layer(c, a, &v.layer[k]);
    zt_dna_verdict_free(&v);
    return s;
}

/* ---- the child ------------------------------------------------------------------------------- */

static zt_status make_room(zt_dna *c, const zt_dna *a, zt_dna *b, const zt_splice_how *how)
{
    size_t parts = (size_t)a->n_parts + 1, layers = (size_t)a->n + 1;
    dna_mix *m = c->mix;
    c->part = zt_alloc_array(c->ctx, parts, sizeof *c->part);
    if (!c->part) return ZT_ENOMEM;
    m->b = b;
    m->how = *how;
    m->twin = zt_alloc_array(c->ctx, parts, sizeof *m->twin);
    m->alpha = zt_calloc(c->ctx, parts, sizeof *m->alpha);
    m->was = zt_calloc(c->ctx, parts, sizeof *m->was);
    m->row = zt_alloc_array(c->ctx, layers, sizeof *m->row);
    if (!m->twin || !m->alpha || !m->was || !m->row) return ZT_ENOMEM;
    for (int64_t p = 0; p < a->n_parts; p++) {
        c->part[p] = a->part[p];
        m->was[p] = a->part[p].are;
        m->twin[p] = -1;
    }
    for (int64_t i = 0; i < a->n; i++) m->row[i] = (zt_splice_row){.b = -1};
    return ZT_OK;
}

zt_dna *zt_dna_splice(zt_dna *a, zt_dna *b, const zt_splice_how *how, const zt_dna_how *work)
{
    const zt_dna *told = a->length ? a : b->length ? b : NULL;
    if (told) {
        zt_fail(a->ctx, ZT_ENOTSUP, "%s: holds signatures, no model", zt_dna_name(told));
        return NULL;
    }
    zt_dna *c = zt_alloc(a->ctx, sizeof *c);
    dna_mix *m = c ? zt_calloc(a->ctx, 1, sizeof *m) : NULL;
    if (!m) {
        zt_free(a->ctx, c);
        return NULL;
    }
    *c = *a;
    c->mix = m; /* from here on zt_dna_close knows a child */
    c->held = NULL;
    c->codes = NULL;
    c->held_room = 0;
    c->codes_room = 0;
    c->held_layer = -1;
    c->part = NULL;
    zt_status s = make_room(c, a, b, how);
    if (s == ZT_OK) s = plan(c, a, b, work);
    if (s == ZT_OK) return c;
    zt_dna_close(c);
    return NULL;
}

const zt_splice_row *zt_dna_splice_row(const zt_dna *child, int64_t i)
{
    return &child->mix->row[i];
}
