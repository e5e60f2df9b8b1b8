/* session.c - sessions: a program on an engine, its weights and states. */
#include "lib/run/session.h"

#include <string.h>

/* ---- buffers --------------------------------------------------------------------------------- */

zt_status zt_store_weight(zt_ctx *ctx, const zt_store *store, const char *name, const zt_type *want,
                          int64_t *handle)
{
    char has[ZT_TYPE_TEXT], wants[ZT_TYPE_TEXT];
    zt_type type;
    if (!store->find || store->find(store->user, name, &type, handle))
        return zt_fail(ctx, ZT_EDATA, "tensor '%s' is not there", name);
    if (zt_type_equal(&type, want)) return ZT_OK;
    return zt_fail(ctx, ZT_EDATA, "tensor '%s' is %s, the program wants %s", name,
                   zt_type_text(&type, has), zt_type_text(want, wants));
}

static zt_ebuf *load_weight(zt_session *s, zt_engine *e, const zt_value *v, const zt_type *want)
{
    int64_t handle;
    if (zt_is_derived(v->tensor)) return zt_constant_data_load(e, v->tensor, want, &s->store);
    if (zt_store_weight(s->ctx, &s->store, v->tensor, want, &handle)) return NULL;
    return e->vt->load(e, want, &s->store, handle);
}

zt_ebuf *zt_session_buf(zt_session *s, int engine, int v, const zt_type *type)
{
    zt_engine *e = s->chain.engine[engine];
    const zt_value *val = zt_prog_value(s->prog, v);
    if (s->buf[engine][v]) return s->buf[engine][v];
    zt_ebuf *b = val->kind == ZT_VALUE_DATA ? load_weight(s, e, val, type) : e->vt->alloc(e, type);
    if (!b) return NULL;
    if (val->kind == ZT_VALUE_DATA)
        s->report.weight_bytes += zt_type_bytes(type);
    else
        s->report.state_bytes += zt_type_bytes(type);
    return s->buf[engine][v] = b;
}

/* States live on the first engine of the chain. */
static zt_status make_states(zt_session *s)
{
    int n = zt_prog_count(s->prog, ZT_VALUE_STATE);
    for (int i = 0; i < n; i++)
        if (!zt_session_buf(s, 0, zt_prog_nth(s->prog, ZT_VALUE_STATE, i), &s->state_type[i]))
            return zt_ctx_status(s->ctx);
    return ZT_OK;
}

/* ---- open and close -------------------------------------------------------------------------- */

static zt_status bind_states(zt_session *s)
{
    int n = zt_prog_count(s->prog, ZT_VALUE_STATE);
    s->state_type = zt_calloc(s->ctx, (size_t)n + 1, sizeof *s->state_type);
    if (!s->state_type) return ZT_ENOMEM;
    if (n == 0) return ZT_OK;
    /* Symbols that only rows depend on do not matter to states: 1 stands for them. */
    zt_binding b[ZT_MAX_SYMBOLS];
    int n_symbols = zt_prog_n_symbols(s->prog);
    for (int i = 0; i < n_symbols; i++)
        b[i] = (zt_binding){zt_prog_symbol_name(s->prog, i), s->fixed[i] < 0 ? 1 : s->fixed[i]};
    zt_bound *bound = zt_prog_bind(s->prog, b, n_symbols);
    if (!bound) return zt_ctx_status(s->ctx);
    for (int i = 0; i < n; i++)
        s->state_type[i] = bound->type[zt_prog_nth(s->prog, ZT_VALUE_STATE, i)];
    zt_bound_free(bound);
    return make_states(s);
}

/* All that the plan states, against the program and this engine. */
static zt_status check_plan(zt_session *s)
{
    const zt_plan_file *p = s->opts.planned;
    int n = zt_prog_n_symbols(s->prog), n_out = zt_prog_n_outputs(s->prog);
    void **out = zt_calloc(s->ctx, (size_t)n_out + 1, sizeof *out);
    zt_status st = out ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < zt_plan_file_count(p) && !st; i++) {
        const zt_plan_layout *stated = zt_plan_file_nth(p, i);
        zt_binding b[ZT_MAX_SYMBOLS];
        zt_partition cut;
        for (int k = 0; k < n; k++)
            b[k] = (zt_binding){zt_prog_symbol_name(s->prog, k), stated->sym[k]};
        for (int o = 0; o < n_out; o++) out[o] = stated->want[o] ? s : NULL;
        zt_bound *bound = zt_prog_bind(s->prog, b, n);
        st = bound ? zt_partition_make(&cut, &s->chain, bound, s->opts.strict, out, stated)
                   : zt_ctx_status(s->ctx);
        if (bound && !st) zt_partition_free(&cut);
        zt_bound_free(bound);
    }
    zt_free(s->ctx, out);
    return st;
}

zt_session *zt_session_open(zt_engine *e, const zt_prog *p, const zt_store *store,
                            const zt_session_opts *opts)
{
    zt_session *s = zt_calloc(e->ctx, 1, sizeof *s);
    if (!s) return NULL;
    s->ctx = e->ctx;
    s->prog = p;
    if (store) s->store = *store;
    if (opts) s->opts = *opts;
    zt_chain_init(&s->chain, e);
    for (int i = 0; i < zt_prog_n_symbols(p); i++) {
        s->fixed[i] = -1;
        for (int k = 0; k < s->opts.n_fixed; k++)
            if (strcmp(s->opts.fixed[k].symbol, zt_prog_symbol_name(p, i)) == 0)
                s->fixed[i] = s->opts.fixed[k].value;
    }
    s->buf[0] = zt_calloc(s->ctx, (size_t)zt_prog_n_values(p) + 1, sizeof *s->buf[0]);
    if (!s->buf[0] || (s->opts.planned && check_plan(s)) || bind_states(s)) {
        zt_session_close(s);
        return NULL;
    }
    return s;
}

void zt_session_close(zt_session *s)
{
    if (!s) return;
    zt_session_forget(s);
    for (int e = 0; e < ZT_MAX_CHAIN; e++) {
        for (int v = 0; s->buf[e] && v < zt_prog_n_values(s->prog); v++)
            if (s->buf[e][v]) s->chain.engine[e]->vt->free(s->chain.engine[e], s->buf[e][v]);
        zt_free(s->ctx, s->buf[e]);
    }
    zt_chain_fini(&s->chain);
    zt_free(s->ctx, s->state_type);
    zt_free(s->ctx, s);
}

/* ---- states and figures ---------------------------------------------------------------------- */

zt_type zt_session_state_type(const zt_session *s, int i) { return s->state_type[i]; }

zt_status zt_session_state_get(zt_session *s, int i, void *host)
{
    zt_engine *e = s->chain.engine[0];
    return e->vt->download(e, s->buf[0][zt_prog_nth(s->prog, ZT_VALUE_STATE, i)], host);
}

zt_status zt_session_state_set(zt_session *s, int i, const void *host)
{
    zt_engine *e = s->chain.engine[0];
    return e->vt->upload(e, s->buf[0][zt_prog_nth(s->prog, ZT_VALUE_STATE, i)], host);
}

const zt_prog *zt_session_prog(const zt_session *s) { return s->prog; }

zt_session_report zt_session_get(const zt_session *s) { return s->report; }

void zt_session_watch(zt_session *s, const zt_watch *watch)
{
    s->watched = watch != NULL;
    if (watch) s->watch = *watch;
}

static const zt_replay *latest(const zt_session *s)
{
    const zt_replay *r = NULL;
    for (int i = 0; i < ZT_MAX_PREPARED; i++)
        if (s->cache[i] && (!r || s->cache[i]->used > r->used)) r = s->cache[i];
    return r;
}

int zt_session_parts(const zt_session *s) { return latest(s) ? latest(s)->cut.n_segments : 0; }

zt_session_part zt_session_part_at(const zt_session *s, int i)
{
    const zt_replay *r = latest(s);
    const zt_segment *g = &r->cut.segment[i];
    return (zt_session_part){s->chain.engine[g->engine], &r->plan[i], g->liveness_bytes};
}
