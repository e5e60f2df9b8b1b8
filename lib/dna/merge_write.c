/* merge_write.c - owns a merge from its beginning to its end: parents, plan, pool, and each
 * tensor's way: copied as it is, or made by the method.
 */
#include "lib/dna/merge_internal.h"

#include <string.h>

static zt_status take(zt_merge *m, const zt_merge_parent *parent, const zt_merge_opts *o)
{
    int threads = o && o->threads ? o->threads : zt_cpu_count();
    size_t n = (size_t)m->r->n_models;
    if (o) m->o = *o;
    m->arena = zt_arena_new(m->ctx, 0);
    m->parent = zt_calloc(m->ctx, n, sizeof *m->parent);
    m->layers = zt_calloc(m->ctx, n, sizeof *m->layers);
    m->net = zt_calloc(m->ctx, n, sizeof(zt_netjson *));
    m->pool = zt_pool_new(m->ctx, threads > 256 ? 256 : threads);
    if (!m->arena || !m->parent || !m->layers || !m->net || !m->pool) return ZT_ENOMEM;
    memcpy(m->parent, parent, n * sizeof *parent);
    for (size_t i = 0; i < n; i++)
        if (!zt_checkpoint_meta(parent[i].model))
            return zt_ctx_status(m->ctx); /* from now on there */
    for (size_t i = 0; i < n; i++)
        if (zt_checkpoint_streams(parent[i].model))
            return zt_fail(m->ctx, ZT_EUSAGE, "%s: a parent must be readable anywhere",
                           zt_checkpoint_name(parent[i].model));
    return zt_merge_plan(m);
}

zt_merge *zt_merge_new(zt_ctx *ctx, const zt_recipe *r, const zt_merge_parent *parent,
                       const zt_merge_opts *o)
{
    zt_merge *m = zt_calloc(ctx, 1, sizeof *m);
    if (!m) return NULL;
    m->ctx = ctx;
    m->r = r;
    zt_status s = take(m, parent, o);
    if (s == ZT_OK) s = zt_merge_put_meta(m);
    if (s == ZT_OK) s = zt_merge_net_finish(m);
    if (s == ZT_OK) return m;
    zt_merge_free(m);
    return NULL;
}

void zt_merge_free(zt_merge *m)
{
    if (!m) return;
    for (int i = 0; m->net && i < m->r->n_models; i++) zt_netjson_close(m->net[i]);
    zt_free(m->ctx, m->net);
    zt_free(m->ctx, m->parent);
    zt_free(m->ctx, m->layers);
    zt_free(m->ctx, m->job);
    zt_free(m->ctx, m->entry);
    zt_meta_free(m->meta);
    zt_pool_free(m->pool);
    zt_arena_free(m->arena);
    zt_free(m->ctx, m);
}

int64_t zt_merge_count(const zt_merge *m) { return m->n; }
const zt_entry *zt_merge_entries(const zt_merge *m) { return m->entry; }
zt_meta *zt_merge_meta(zt_merge *m) { return m->meta; }

zt_status zt_merge_check(const zt_merge *m)
{
    char shown[160];
    for (int64_t i = 0; i < m->n; i++) {
        const merge_job *j = &m->job[i];
        if (!j->copy && !j->coded && !zt_quantize_has(j->out.type.dtype))
            return zt_fail(
                m->ctx, ZT_ENOTSUP, "tensor '%s': %s is read, and not written: name another type",
                zt_escape(shown, sizeof shown, j->out.name, strlen(j->out.name)), j->out.dtype);
    }
    return ZT_OK;
}

/* ---- a tensor -------------------------------------------------------------------------------- */

static zt_status copy(zt_merge *m, const merge_job *j, zt_writer *w)
{
    enum { BYTES = 1 << 16 };
    char piece[BYTES];
    zt_checkpoint *c = m->parent[j->slice->source[j->from].model].model;
    zt_status s = ZT_OK;
    for (uint64_t at = 0, k; at < j->out.bytes && s == ZT_OK; at += k) {
        k = j->out.bytes - at < BYTES ? j->out.bytes - at : BYTES;
        if (m->o.stop && m->o.stop()) return zt_fail(m->ctx, ZT_EINTR, "interrupted");
        s = zt_checkpoint_read(c, j->of[j->from], at, piece, (size_t)k);
        if (s == ZT_OK && w) s = zt_writer_put(w, piece, (size_t)k);
    }
    m->done += (double)j->out.bytes;
    return s;
}

/* Types, names and parameters of the sources. */
static zt_status set_up(merge_work *w, merge_values *v)
{
    const merge_job *j = w->job;
    zt_merge *m = w->m;
    w->k = j->slice->n;
    w->base = m->r->method->base ? j->slice->base : -1;
    for (int k = 0; k < w->k; k++) {
        zt_entry e;
        zt_merge_net_entry(m, j->slice->source[k].model, j->of[k], &e);
        w->coded[k] = zt_merge_net_codes(m, j, k, &w->codes[k]);
        w->in[k] = e.type;
        w->name[k] = j->head ? j->out.name : e.name;
        if (k != w->base) w->other[w->n_others++] = k;
    }
    return zt_merge_resolve(m->r, j->slice, j->out.name, w->name, j->t, v);
}

zt_status zt_merge_make(zt_merge *m, const merge_job *j, zt_writer *out, double *sizes)
{
    double each[MERGE_SOURCES][MP_COUNT];
    unsigned has[MERGE_SOURCES];
    merge_values v = {.each = each, .has_each = has};
    merge_work w = {.m = m, .job = j, .v = &v, .w = out, .sizes = sizes};
    zt_status s = set_up(&w, &v);
    if (s == ZT_OK && j->out.bytes) s = m->r->method->run(&w);
    zt_merge_end(&w);
    return s;
}

zt_status zt_merge_write(zt_merge *m, zt_writer *w)
{
    zt_status s = zt_merge_check(m);
    m->done = m->all = 0;
    for (int64_t i = 0; i < m->n; i++) m->all += (double)m->job[i].out.bytes;
    for (int64_t i = 0; i < m->n && s == ZT_OK; i++)
        s = m->job[i].copy ? copy(m, &m->job[i], w) : zt_merge_make(m, &m->job[i], w, NULL);
    return s;
}
