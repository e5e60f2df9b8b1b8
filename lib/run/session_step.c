/* session_step.c - a step of a session: its segments one after the other, states and outputs moved
 * to where they belong. */
#include "lib/run/session.h"

#include <string.h>

/* Where a root's bytes are on the host: the caller's input or output, or our staging. */
static void *host_of(zt_session *s, zt_replay *r, int root, const void *const *in, void *const *out)
{
    const zt_value *v = zt_prog_value(s->prog, root);
    if (v->kind == ZT_VALUE_IN) return (void *)(uintptr_t)in[v->index];
    for (int o = 0; o < zt_prog_n_outputs(s->prog); o++)
        if (out[o] && r->cut.root[zt_prog_output(s->prog, o)->value] == root) return out[o];
    return r->host[root];
}

static bool donated_in(const zt_partition *cut, const zt_segment *g, int root)
{
    for (int i = g->first; i < g->last; i++)
        for (int k = 0; k < zt_op_info(cut->step[i].op)->def->donates; k++)
            if (cut->root[cut->step[i].in[k]] == root) return true;
    return false;
}

/* States used away from home go there before a segment and, if updated, come back after it. */
static zt_status move_states(zt_session *s, zt_replay *r, const zt_segment *g, bool home)
{
    if (g->engine == 0) return ZT_OK;
    zt_engine *a = s->chain.engine[0], *b = s->chain.engine[g->engine];
    for (int k = 0; k < g->n_bufs; k++) {
        int v = g->buf[k];
        if (zt_prog_value(s->prog, v)->kind != ZT_VALUE_STATE) continue;
        if (home && !donated_in(&r->cut, g, v)) continue;
        zt_engine *from = home ? b : a, *to = home ? a : b;
        zt_status st = from->vt->download(from, s->buf[home ? g->engine : 0][v], r->host[v]);
        if (!st) st = to->vt->upload(to, s->buf[home ? 0 : g->engine][v], r->host[v]);
        if (st) return st;
    }
    return ZT_OK;
}

static zt_status run_segment(zt_session *s, zt_replay *r, int i, const void *const *in,
                             void *const *out)
{
    const zt_segment *g = &r->cut.segment[i];
    zt_engine *e = s->chain.engine[g->engine];
    for (int k = 0; k < g->n_in; k++) r->in[k] = host_of(s, r, g->in[k], in, out);
    for (int k = 0; k < g->n_out; k++) r->out[k] = host_of(s, r, g->out[k], in, out);
    zt_status st = move_states(s, r, g, false);
    if (!st) st = e->vt->replay(e, r->ready[i], r->in, r->out, s->watched ? &s->watch : NULL);
    return st ? st : move_states(s, r, g, true);
}

/* Outputs that no segment wrote where the caller wants them: inputs, states, data, twins. */
static zt_status copy_outputs(zt_session *s, zt_replay *r, const void *const *in, void *const *out)
{
    zt_engine *e = s->chain.engine[0];
    for (int o = 0; o < zt_prog_n_outputs(s->prog); o++) {
        int root = r->cut.root[zt_prog_output(s->prog, o)->value];
        const zt_value *v = zt_prog_value(s->prog, root);
        size_t bytes = zt_type_bytes(&r->bound->type[root]);
        zt_status st = ZT_OK;
        int64_t handle;
        zt_type type;
        if (!out[o]) continue;
        if (v->kind == ZT_VALUE_STATE) {
            st = e->vt->download(e, s->buf[0][root], out[o]);
        } else if (v->kind == ZT_VALUE_DATA) {
            st = s->store.find(s->store.user, v->tensor, &type, &handle);
            if (!st) st = s->store.read(s->store.user, handle, 0, out[o], bytes);
        } else {
            void *from = host_of(s, r, root, in, out);
            if (from != out[o] && bytes) memcpy(out[o], from, bytes);
        }
        if (st) return st;
    }
    return ZT_OK;
}

/* `keep s = v` where v is not s updated in place: copy it through the host. Two passes, so that
 * states may trade places. */
static zt_status copy_keeps(zt_session *s, zt_replay *r, const void *const *in, void *const *out)
{
    zt_engine *e = s->chain.engine[0];
    zt_status st = ZT_OK;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < zt_prog_count(s->prog, ZT_VALUE_STATE) && !st; i++) {
            int v = zt_prog_nth(s->prog, ZT_VALUE_STATE, i), keep = zt_prog_value(s->prog, v)->keep;
            if (keep < 0 || r->cut.root[keep] == v) continue;
            int root = r->cut.root[keep];
            bool state = zt_prog_value(s->prog, root)->kind == ZT_VALUE_STATE;
            if (pass == 0 && state) st = e->vt->download(e, s->buf[0][root], r->host[root]);
            if (pass == 1)
                st = e->vt->upload(e, s->buf[0][v],
                                   state ? r->host[root] : host_of(s, r, root, in, out));
        }
    }
    return st;
}

static void tell_metrics(const zt_session *s, const zt_replay *r)
{
    for (int i = 0; i < r->cut.n_segments; i++) {
        const zt_segment *g = &r->cut.segment[i];
        for (int k = g->first; k < g->last; k++) {
            const zt_step *st = &r->cut.step[k];
            zt_type out[ZT_MAX_OUT] = {0};
            for (int o = 0; o < zt_op_info(st->op)->n_out; o++)
                out[o] = st->out[o] < 0 ? zt_type_make(ZT_U8, 1, (int64_t[]){0})
                                        : r->bound->type[st->out[o]];
            zt_run_metrics(s->ctx, st->op, out, g->engine > 0);
        }
    }
}

zt_status zt_session_step(zt_session *s, const zt_binding *b, int n, const void *const *in,
                          void *const *out)
{
    zt_replay *r = zt_replay_get(s, b, n, out);
    if (!r) return zt_ctx_status(s->ctx);
    zt_status st = ZT_OK;
    for (int i = 0; i < r->cut.n_segments && !st; i++) st = run_segment(s, r, i, in, out);
    if (!st) st = copy_outputs(s, r, in, out);
    if (!st) st = copy_keeps(s, r, in, out);
    if (!st && zt_metrics_on(s->ctx)) tell_metrics(s, r);
    s->report.steps++;
    return st;
}
