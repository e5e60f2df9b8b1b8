/* merge_plan.c - owns what the child consists of: which tensors of which parents make each of its
 * own, how layers are numbered, that shapes agree, and the types.
 */
#include "lib/dna/merge_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 1 << 16 };

/* ---- places ---------------------------------------------------------------------------------- */

int64_t zt_merge_layer(const char *name, size_t *at, size_t *n)
{
    for (const char *p = name; p; p = strchr(p, '.') ? strchr(p, '.') + 1 : NULL) {
        size_t k = strspn(p, "0123456789");
        if (!k || k > 5 || (p[k] != '.' && p[k])) continue;
        *at = (size_t)(p - name);
        *n = k;
        return strtol(p, NULL, 10);
    }
    return -1;
}

/* What comes before the layers; all else that is of none comes behind them. */
static bool is_before(const char *name)
{
    return strstr(name, "embd") || strstr(name, "embed") || strstr(name, "wte") ||
           strstr(name, "wpe");
}

static int64_t count_layers(zt_checkpoint *c)
{
    int64_t most = -1;
    zt_entry e;
    for (int64_t i = 0; i < zt_checkpoint_count(c); i++) {
        size_t at, n;
        zt_checkpoint_get(c, i, &e);
        int64_t layer = zt_merge_layer(e.name, &at, &n);
        most = layer > most ? layer : most;
    }
    return most + 1;
}

/* A model's tensors by layer: those of none have -1. */
typedef struct placed {
    int64_t layer, index;
} placed;

static int by_layer(const void *a, const void *b)
{
    const placed *p = a, *q = b;
    if (p->layer != q->layer) return p->layer < q->layer ? -1 : 1;
    return p->index < q->index ? -1 : p->index > q->index;
}

typedef struct planner {
    zt_merge *m;
    const merge_slice *slice; /* and the model that tells its tensors */
    int lead;
    placed *place; /* of that model */
    int64_t n_places;
    int64_t room; /* jobs */
} planner;

/* The source whose names and types count: the base, else the first. */
static int lead_of(const merge_slice *s) { return s->base >= 0 ? s->base : 0; }

static zt_checkpoint *model_of(const zt_merge *m, const merge_slice *s, int k)
{
    return m->parent[s->source[k].model].model;
}

static zt_status aim(planner *p, const merge_slice *slice)
{
    zt_merge *m = p->m;
    p->slice = slice;
    p->lead = lead_of(slice);
    zt_checkpoint *c = model_of(m, slice, p->lead);
    p->n_places = zt_checkpoint_count(c);
    zt_free(m->ctx, p->place);
    p->place = zt_alloc_array(m->ctx, (size_t)p->n_places + 1, sizeof *p->place);
    if (!p->place) return ZT_ENOMEM;
    for (int64_t i = 0; i < p->n_places; i++) {
        zt_entry e;
        size_t at, n;
        zt_checkpoint_get(c, i, &e);
        p->place[i] = (placed){zt_merge_layer(e.name, &at, &n), i};
    }
    qsort(p->place, (size_t)p->n_places, sizeof *p->place, by_layer);
    return ZT_OK;
}

/* ---- one tensor ------------------------------------------------------------------------------ */

/* The same name in another layer, in the arena; NULL: no memory. */
static const char *renumbered(zt_arena *a, const char *name, int64_t layer)
{
    size_t at, n;
    if (layer < 0 || zt_merge_layer(name, &at, &n) == layer)
        return zt_arena_strndup(a, name, strlen(name));
    size_t size = strlen(name) + 24;
    char *out = zt_arena_alloc(a, size);
    if (out) snprintf(out, size, "%.*s%" PRId64 "%s", (int)at, name, layer, name + at + n);
    return out;
}

static bool same_shape(const zt_type *a, const zt_type *b)
{
    return a->rank == b->rank &&
           (a->rank < 0 || !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim));
}

/* Has the tensor of codes its scales in another tensor, as FP8 often has? */
static bool has_scales(zt_checkpoint *c, const zt_entry *e)
{
    static const char *const ends[] = {"_scale", "_scale_inv"};
    char name[512];
    if (e->type.dtype == ZT_DTYPE_COUNT || zt_dtype_get(e->type.dtype)->block_bytes != 1)
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        int n = snprintf(name, sizeof name, "%s%s", e->name, ends[i]);
        if (n < (int)sizeof name && zt_checkpoint_find(c, name) >= 0) return true;
    }
    return false;
}

static zt_status check_source(planner *p, const zt_entry *lead, const zt_entry *e, int k)
{
    const zt_merge *m = p->m;
    const char *a = zt_checkpoint_name(model_of(m, p->slice, p->lead)),
               *b = zt_checkpoint_name(model_of(m, p->slice, k));
    char x[ZT_TYPE_TEXT], y[ZT_TYPE_TEXT], name[160];
    zt_escape(name, sizeof name, lead->name, strlen(lead->name));
    if (!same_shape(&lead->type, &e->type))
        return zt_fail(m->ctx, ZT_ESHAPE, "%s: tensor '%s' is %s, in %s it is %s", b, name,
                       e->type.rank < 0 ? e->dtype : zt_type_text(&e->type, x), a,
                       lead->type.rank < 0 ? lead->dtype : zt_type_text(&lead->type, y));
    bool floats = e->type.dtype != ZT_DTYPE_COUNT && zt_dtype_is_float(e->type.dtype);
    if (m->net[p->slice->source[k].model])
        return zt_merge_net_check(m, p->slice->source[k].model,
                                  zt_checkpoint_find(model_of(m, p->slice, k), e->name));
    bool lead_floats = lead->type.dtype != ZT_DTYPE_COUNT && zt_dtype_is_float(lead->type.dtype);
    if (floats && has_scales(model_of(m, p->slice, k), e))
        return zt_fail(m->ctx, ZT_ENOTSUP, "%s: '%s' is %s codes with scales in another tensor", b,
                       name, e->dtype);
    if (floats != lead_floats)
        return zt_fail(m->ctx, ZT_ESHAPE, "%s: tensor '%s' is %s, in %s it is %s", b, name,
                       e->dtype, a, lead->dtype);
    if (floats && !zt_dtype_get(e->type.dtype)->decode)
        return zt_fail(m->ctx, ZT_ENOTSUP, "%s: tensor '%s': %s cannot be decoded", b, name,
                       e->dtype);
    return ZT_OK;
}

/* With adapters a tensor is f32 here, and of the model's own type in the child. */
static zt_status put_stored_type(const zt_merge *m, const zt_merge_parent *p, int64_t index,
                                 zt_entry *e)
{
    size_t bytes;
    if (!p->adapted || !zt_adapted_changes(p->adapted, index)) return ZT_OK;
    e->type.dtype = zt_adapted_type(p->adapted, index);
    e->dtype = zt_dtype_get(e->type.dtype)->name;
    if (!zt_type_check(m->ctx, &e->type, &bytes)) return zt_ctx_status(m->ctx);
    e->bytes = bytes;
    return ZT_OK;
}

/* The tensor that the lead has at `index`, of the layer that is `off` above each source's first
 * (-1: of none), as the child's of layer `to`. as: the name that counts; NULL: its own. */
static zt_status add_job(planner *p, int64_t index, const char *as, int64_t off, int64_t to,
                         double t)
{
    zt_merge *m = p->m;
    const merge_slice *s = p->slice;
    if (m->n == p->room) {
        int64_t more = p->room ? 2 * p->room : 256;
        merge_job *grown = zt_realloc(m->ctx, m->job, (size_t)more * sizeof *grown);
        if (!grown) return ZT_ENOMEM;
        m->job = grown;
        p->room = more;
    }
    zt_entry lead, e;
    zt_merge_net_entry(m, s->source[p->lead].model, index, &lead);
    if (as) lead.name = as;
    merge_job *j = &m->job[m->n];
    *j = (merge_job){.out = lead, .slice = s, .t = t, .order = index, .from = p->lead};
    j->out.name = renumbered(m->arena, lead.name, to);
    j->of = zt_arena_alloc(m->arena, (size_t)s->n * sizeof *j->of);
    if (!j->out.name || !j->of) return ZT_ENOMEM;
    zt_status st = put_stored_type(m, &m->parent[s->source[p->lead].model], index, &j->out);
    if (st != ZT_OK) return st;
    for (int k = 0; k < s->n; k++) {
        const char *name = renumbered(m->arena, lead.name, off < 0 ? -1 : s->source[k].from + off);
        char shown[160];
        if (!name) return ZT_ENOMEM;
        j->of[k] = zt_merge_find(model_of(m, s, k), name);
        if (j->of[k] < 0)
            return zt_fail(m->ctx, ZT_EDATA, "%s: has no tensor '%s', which %s has",
                           zt_checkpoint_name(model_of(m, s, k)),
                           zt_escape(shown, sizeof shown, name, strlen(name)),
                           zt_checkpoint_name(model_of(m, s, p->lead)));
        zt_merge_net_entry(m, s->source[k].model, j->of[k], &e);
        j->head = j->head || (off < 0 && strcmp(e.name, name));
        st = check_source(p, &lead, &e, k);
        if (st != ZT_OK) return st;
    }
    m->n++;
    return ZT_OK;
}

/* ---- all tensors ----------------------------------------------------------------------------- */

/* Those of no layer: of the first slice what comes before them, of the last what comes behind. */
static zt_status add_outside(planner *p, bool before, bool behind)
{
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < p->n_places && p->place[i].layer < 0 && s == ZT_OK; i++) {
        zt_entry e;
        zt_checkpoint_get(model_of(p->m, p->slice, p->lead), p->place[i].index, &e);
        if (is_before(e.name) ? before : behind) s = add_job(p, p->place[i].index, NULL, -1, -1, 0);
    }
    return s;
}

/* The head, where the lead has its embedding for it and a parent has one. */
static zt_status add_head(planner *p)
{
    zt_checkpoint *c = model_of(p->m, p->slice, p->lead);
    const char *name = zt_merge_head_name(p->m);
    int64_t embedding = name && zt_merge_head(c) < 0 ? zt_merge_find(c, name) : -1;
    if (embedding < 0) return ZT_OK;
    zt_status s = add_job(p, embedding, name, -1, -1, 0);
    if (s == ZT_OK) p->m->job[p->m->n - 1].order = p->n_places; /* behind all others */
    return s;
}

/* The first place at or above a layer. */
static int64_t first_of(const planner *p, int64_t layer)
{
    int64_t lo = 0, hi = p->n_places;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (p->place[mid].layer < layer)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static zt_status add_layers(planner *p, int64_t n, int64_t *next)
{
    zt_status s = ZT_OK;
    int64_t from = p->slice->source[p->lead].from;
    for (int64_t i = 0; i < n && s == ZT_OK; i++, ++*next) {
        double t = n > 1 ? (double)i / (double)(n - 1) : 1;
        for (int64_t k = first_of(p, from + i);
             k < p->n_places && p->place[k].layer == from + i && s == ZT_OK; k++)
            s = add_job(p, p->place[k].index, NULL, i, *next, t);
    }
    return s;
}

/* How many layers a slice has, the same of each source. */
static zt_status layers_of(const zt_merge *m, merge_slice *s, int64_t *n)
{
    for (int k = 0; k < s->n; k++) {
        merge_source *src = &s->source[k];
        int64_t has = m->layers[src->model];
        const char *name = zt_checkpoint_name(m->parent[src->model].model);
        int64_t to = src->to < 0 ? has : src->to;
        if (to > has)
            return zt_fail(m->ctx, ZT_EDATA,
                           "%s: layers %" PRId64 " to %" PRId64 " of %s, which has %" PRId64,
                           m->r->name, src->from, to, name, has);
        if (k && to - src->from != *n)
            return zt_fail(m->ctx, ZT_EDATA,
                           "%s: %" PRId64 " layers of %s beside %" PRId64 " of %s", m->r->name,
                           to - src->from, name, *n,
                           zt_checkpoint_name(m->parent[s->source[0].model].model));
        *n = to - src->from;
    }
    return ZT_OK;
}

/* Is the child's stack the lead's own? */
static bool is_whole(const zt_merge *m)
{
    const merge_slice *s = &m->r->slice[0];
    int lead = lead_of(s);
    return m->r->n_slices == 1 && s->source[lead].from == 0 &&
           (s->source[lead].to < 0 || s->source[lead].to == m->layers[s->source[lead].model]);
}

static int by_order(const void *a, const void *b)
{
    const merge_job *p = a, *q = b;
    return p->order < q->order ? -1 : p->order > q->order;
}

static zt_status list_jobs(zt_merge *m)
{
    planner p = {.m = m};
    const zt_recipe *r = m->r;
    int64_t next = 0;
    zt_status s = ZT_OK;
    for (int i = 0; i < r->n_slices && s == ZT_OK; i++) {
        int64_t n = 0;
        s = layers_of(m, &r->slice[i], &n);
        if (s == ZT_OK && next + n > LAYERS)
            s = zt_fail(m->ctx, ZT_EDATA, "%s: more than %d layers", r->name, LAYERS);
        if (s == ZT_OK) s = aim(&p, &r->slice[i]);
        if (s == ZT_OK) s = zt_merge_check_extra(m, &r->slice[i], p.lead);
        if (s == ZT_OK && i == 0) s = add_outside(&p, true, false);
        if (s == ZT_OK) s = add_layers(&p, n, &next);
    }
    if (s == ZT_OK) s = add_outside(&p, false, true);
    if (s == ZT_OK) s = add_head(&p);
    zt_free(m->ctx, p.place);
    m->restacked = !is_whole(m);
    if (s == ZT_OK && !m->restacked) qsort(m->job, (size_t)m->n, sizeof *m->job, by_order);
    m->stack = next;
    return s;
}

/* ---- types ----------------------------------------------------------------------------------- */

static bool is_float(const zt_entry *e)
{
    return e->type.rank >= 0 && e->type.dtype != ZT_DTYPE_COUNT && zt_dtype_is_float(e->type.dtype);
}

/* Does it go over as it is: no floats, or a method that would change nothing? */
static bool copies(const zt_merge *m, const merge_job *j, const merge_values *v)
{
    zt_entry e;
    zt_checkpoint_get(model_of(m, j->slice, j->from), j->of[j->from], &e);
    if (!is_float(&e) && !j->coded) return true;
    const zt_merge_parent *p = &m->parent[j->slice->source[0].model];
    return m->r->method->most == 1 && !(v->has_each[0] & MP_BIT(MP_SCALE)) &&
           e.type.dtype == j->out.type.dtype && !(p->adapted && zt_adapted_changes(p->adapted, j->of[0]));
}

zt_status zt_merge_retype(zt_merge *m, int64_t i, zt_dtype t, bool search)
{
    merge_job *j = &m->job[i];
    zt_type type = j->out.type;
    bool net = m->net[j->slice->source[j->from].model] != NULL; /* its frame says the types */
    char shown[160];
    size_t bytes;
    j->search = search;
    if ((!is_float(&j->out) && !net) || t == type.dtype) return ZT_OK;
    type.dtype = t;
    if (net || !zt_quantize_has(t) || !zt_type_check(NULL, &type, &bytes))
        return zt_fail(m->ctx, ZT_ENOTSUP, "tensor '%s': %s does not become %s",
                       zt_escape(shown, sizeof shown, j->out.name, strlen(j->out.name)),
                       j->out.dtype, zt_dtype_get(t)->name);
    j->out.type = type;
    j->out.dtype = zt_dtype_get(t)->name;
    j->out.bytes = bytes;
    j->copy = false;
    m->entry[i] = j->out;
    return ZT_OK;
}

bool zt_merge_copies(const zt_merge *m, int64_t i) { return m->job[i].copy; }

/* Its parameters are sound, its type can be written. */
static zt_status finish_job(zt_merge *m, int64_t i, merge_values *v, const char **names)
{
    merge_job *j = &m->job[i];
    for (int k = 0; k < j->slice->n; k++) {
        zt_entry e;
        zt_checkpoint_get(model_of(m, j->slice, k), j->of[k], &e);
        names[k] = j->head ? j->out.name : e.name;
    }
    zt_status s = zt_merge_resolve(m->r, j->slice, j->out.name, names, j->t, v);
    m->entry[i] = j->out;
    if (s == ZT_OK && m->r->dtype != ZT_DTYPE_COUNT) s = zt_merge_retype(m, i, m->r->dtype, false);
    if (s != ZT_OK) return s;
    j->coded = zt_merge_net_codes(m, j, j->from, &j->net);
    if (j->coded && j->out.type.dtype == ZT_DTYPE_COUNT)
        m->entry[i].type.dim[0] = (int64_t)j->out.bytes;
    j->copy = copies(m, j, v);
    return ZT_OK;
}

zt_status zt_merge_plan(zt_merge *m)
{
    for (int i = 0; i < m->r->n_models; i++) m->layers[i] = count_layers(m->parent[i].model);
    zt_status s = zt_merge_net_open(m);
    if (s == ZT_OK) s = zt_merge_check_parents(m);
    if (s == ZT_OK) s = list_jobs(m);
    if (s != ZT_OK) return s;
    if (!m->n) return zt_fail(m->ctx, ZT_EDATA, "%s: there is no tensor to merge", m->r->name);
    double each[MERGE_SOURCES][MP_COUNT];
    unsigned has[MERGE_SOURCES];
    const char *names[MERGE_SOURCES];
    merge_values v = {.each = each, .has_each = has};
    m->entry = zt_alloc_array(m->ctx, (size_t)m->n, sizeof *m->entry);
    if (!m->entry) return ZT_ENOMEM;
    for (int64_t i = 0; i < m->n && s == ZT_OK; i++) s = finish_job(m, i, &v, names);
    return s;
}
