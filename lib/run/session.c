/* session.c - sessions: a program on an engine, its weights and states, its prepared replays.
 *
 * A prepared replay is kept for each set of symbol values and wanted outputs seen lately. Values
 * that cross between engines, and what `keep` copies, pass through host memory that the replay
 * owns; program inputs and outputs are the caller's own memory.
 */
#include "lib/run/door.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PREPARED = 8 };

typedef struct replay {
    int64_t sym[ZT_MAX_SYMBOLS];
    uint64_t used; /* clock of the last use */
    zt_bound *bound;
    zt_cut cut;
    zt_ready **ready; /* [n_segments] */
    zt_plan *plan;    /* [n_segments], in the cut's memory */
    void **host;      /* [n_values] of roots: staging owned by us, or NULL */
    const void **in;  /* scratch for a segment's pointers */
    void **out;
} replay;

struct zt_session {
    zt_ctx *ctx;
    zt_chain chain;
    const zt_prog *prog;
    zt_store store;
    zt_session_opts opts;
    int64_t fixed[ZT_MAX_SYMBOLS]; /* -1: given at each step */
    zt_ebuf **buf[ZT_MAX_CHAIN];   /* [n_values] of data and states, on each engine of the chain */
    zt_type *state_type;           /* [states], bound */
    replay *cache[MAX_PREPARED];
    uint64_t clock;
    zt_session_report report;
    zt_watch watch;
    bool watched;
    /* While one is prepared: the value + 1 that the first engine failed to take, or -1: the plan. */
    int no_room;
};

/* ---- buffers ----------------------------------------------------------------------------------- */

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
    if (zt_is_derived(v->tensor)) return zt_derived_load(e, v->tensor, want, &s->store);
    if (zt_store_weight(s->ctx, &s->store, v->tensor, want, &handle)) return NULL;
    return e->vt->load(e, want, &s->store, handle);
}

/* The buffer of a data or state value on an engine, made when it is first needed there. */
static zt_ebuf *session_buf(zt_session *s, int engine, int v, const zt_type *type)
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
        if (!session_buf(s, 0, zt_prog_nth(s->prog, ZT_VALUE_STATE, i), &s->state_type[i]))
            return zt_ctx_status(s->ctx);
    return ZT_OK;
}

/* ---- prepare ----------------------------------------------------------------------------------- */

static void replay_free(zt_session *s, replay *r)
{
    if (!r) return;
    for (int i = 0; r->ready && i < r->cut.n_segments; i++) {
        zt_engine *e = s->chain.engine[r->cut.segment[i].engine];
        if (r->ready[i]) e->vt->unprepare(e, r->ready[i]);
    }
    for (int v = 0; r->host && v < zt_prog_n_values(s->prog); v++) zt_free(s->ctx, r->host[v]);
    zt_free(s->ctx, r->ready);
    zt_free(s->ctx, r->host);
    zt_free(s->ctx, r->in);
    zt_free(s->ctx, r->out);
    zt_cut_free(&r->cut);
    zt_bound_free(r->bound);
    zt_free(s->ctx, r);
}

static zt_status prepare_segment(zt_session *s, replay *r, int i)
{
    zt_segment *g = &r->cut.segment[i];
    zt_engine *e = s->chain.engine[g->engine];
    zt_ebuf **buf = zt_arena_alloc(r->cut.memory, ((size_t)g->n_bufs + 1) * sizeof *buf);
    if (!buf) return ZT_ENOMEM;
    for (int k = 0; k < g->n_bufs; k++) {
        buf[k] = session_buf(s, g->engine, g->buf[k], &r->bound->type[g->buf[k]]);
        if (buf[k]) continue;
        s->no_room = g->engine == 0 ? g->buf[k] + 1 : 0;
        return zt_ctx_status(s->ctx);
    }
    r->plan[i] = (zt_plan){.n_values = r->bound->n_values, .type = r->bound->type,
                           .place = g->place, .n_steps = g->last - g->first,
                           .step = r->cut.step + g->first, .n_in = g->n_in, .n_out = g->n_out,
                           .n_bufs = g->n_bufs, .buf = buf, .arena_bytes = g->arena_bytes};
    r->ready[i] = e->vt->prepare(e, &r->plan[i]);
    if (g->arena_bytes > s->report.arena_bytes) {
        s->report.arena_bytes = g->arena_bytes;
        s->report.liveness_bytes = g->liveness_bytes;
    }
    s->no_room = r->ready[i] || g->engine > 0 ? 0 : -1;
    return r->ready[i] ? ZT_OK : zt_ctx_status(s->ctx);
}

static zt_status stage(zt_session *s, replay *r, int root)
{
    if (r->host[root]) return ZT_OK;
    r->host[root] = zt_alloc(s->ctx, zt_type_bytes(&r->bound->type[root]));
    return r->host[root] ? ZT_OK : ZT_ENOMEM;
}

static bool is_program_output(const zt_session *s, const replay *r, int root)
{
    for (int o = 0; o < zt_prog_n_outputs(s->prog); o++)
        if (r->cut.want[o] && r->cut.root[zt_prog_output(s->prog, o)->value] == root) return true;
    return false;
}

/* Host memory for what leaves a segment and is not the caller's, and for states that move. */
static zt_status stage_all(zt_session *s, replay *r)
{
    zt_status st = ZT_OK;
    for (int i = 0; i < r->cut.n_segments && !st; i++) {
        const zt_segment *g = &r->cut.segment[i];
        for (int k = 0; k < g->n_out && !st; k++)
            if (!is_program_output(s, r, g->out[k])) st = stage(s, r, g->out[k]);
        for (int k = 0; k < g->n_bufs && !st; k++)
            if (g->engine > 0 && zt_prog_value(s->prog, g->buf[k])->kind == ZT_VALUE_STATE)
                st = stage(s, r, g->buf[k]);
    }
    for (int i = 0; i < zt_prog_count(s->prog, ZT_VALUE_STATE) && !st; i++) {
        int v = zt_prog_nth(s->prog, ZT_VALUE_STATE, i), keep = zt_prog_value(s->prog, v)->keep;
        if (keep >= 0 && r->cut.root[keep] != v &&
            zt_prog_value(s->prog, r->cut.root[keep])->kind == ZT_VALUE_STATE)
            st = stage(s, r, r->cut.root[keep]);
    }
    return st;
}

static zt_status replay_make(zt_session *s, replay *r, const int64_t *sym, void *const *out)
{
    zt_binding b[ZT_MAX_SYMBOLS];
    int n = zt_prog_n_symbols(s->prog);
    size_t n_values = (size_t)zt_prog_n_values(s->prog) + 1;
    for (int i = 0; i < n; i++) b[i] = (zt_binding){zt_prog_symbol_name(s->prog, i), sym[i]};
    memcpy(r->sym, sym, (size_t)n * sizeof *sym);
    r->bound = zt_prog_bind(s->prog, b, n);
    if (!r->bound) return zt_ctx_status(s->ctx);
    const zt_stated *stated = s->opts.planned ? zt_planned_find(s->opts.planned, sym, out) : NULL;
    zt_status st = zt_cut_make(&r->cut, &s->chain, r->bound, s->opts.strict, out, stated);
    if (st) return st;
    r->ready = zt_calloc(s->ctx, (size_t)r->cut.n_segments + 1, sizeof *r->ready);
    r->plan = zt_arena_alloc(r->cut.memory, ((size_t)r->cut.n_segments + 1) * sizeof *r->plan);
    r->host = zt_calloc(s->ctx, n_values, sizeof *r->host);
    r->in = zt_calloc(s->ctx, n_values, sizeof *r->in);
    r->out = zt_calloc(s->ctx, n_values, sizeof *r->out);
    if (!r->ready || !r->plan || !r->host || !r->in || !r->out) return ZT_ENOMEM;
    for (int i = 0; i < r->cut.n_segments && !st; i++) {
        for (int e = 1; e <= r->cut.segment[i].engine; e++)
            if (!s->buf[e]) s->buf[e] = zt_calloc(s->ctx, n_values, sizeof *s->buf[e]);
        if (!s->buf[r->cut.segment[i].engine]) return ZT_ENOMEM;
        st = prepare_segment(s, r, i);
    }
    if (!st) st = stage_all(s, r);
    s->report.fallbacks = r->cut.fallbacks;
    return st;
}

/* What the first engine had no memory for is noted as past it: a weight for good, a plan this once. */
static bool spill(zt_session *s, zt_status st)
{
    char what[160] = "this plan";
    if (s->no_room == 0 || s->opts.planned) return false;
    if (s->no_room > 0) {
        const char *name = zt_prog_value(s->prog, s->no_room - 1)->tensor;
        snprintf(what, sizeof what, "what reads '%.120s'", name ? name : "a state");
        if (!name) return false; /* states live on the first engine */
    }
    if (!zt_chain_spill(&s->chain, s->opts.strict, st, what)) return false;
    s->chain.apart = s->no_room < 0;
    if (s->no_room < 0) return true;
    bool **apart = &s->chain.apart_from;
    if (!*apart) *apart = zt_calloc(s->ctx, (size_t)zt_prog_n_values(s->prog) + 1, sizeof **apart);
    if (*apart) (*apart)[s->no_room - 1] = true;
    return *apart != NULL;
}

static replay *replay_new(zt_session *s, const int64_t *sym, void *const *out)
{
    zt_status st = ZT_OK;
    replay *r = NULL;
    do {
        replay_free(s, r);
        s->no_room = 0;
        r = zt_calloc(s->ctx, 1, sizeof *r);
        st = r ? replay_make(s, r, sym, out) : ZT_ENOMEM;
    } while (st && spill(s, st));
    s->chain.apart = false;
    if (!st) return r;
    replay_free(s, r);
    return NULL;
}

/* The symbol values of a step: those fixed, then those given. */
static zt_status step_symbols(zt_session *s, const zt_binding *b, int n, int64_t *sym)
{
    for (int i = 0; i < zt_prog_n_symbols(s->prog); i++) {
        const char *name = zt_prog_symbol_name(s->prog, i);
        sym[i] = s->fixed[i];
        for (int k = 0; k < n && sym[i] < 0; k++)
            if (strcmp(b[k].symbol, name) == 0) sym[i] = b[k].value;
        if (sym[i] < 0) return zt_fail(s->ctx, ZT_EUSAGE, "symbol '%s' has no value", name);
    }
    return ZT_OK;
}

/* Of those symbols, for those outputs? */
static bool replay_fits(const zt_session *s, const replay *r, const int64_t *sym, void *const *out)
{
    for (int o = 0; o < zt_prog_n_outputs(s->prog); o++)
        if (r->cut.want[o] != (!out || out[o])) return false;
    return !memcmp(r->sym, sym, (size_t)zt_prog_n_symbols(s->prog) * sizeof *sym);
}

static replay *get_replay(zt_session *s, const zt_binding *b, int n, void *const *out)
{
    int64_t sym[ZT_MAX_SYMBOLS];
    int oldest = 0;
    if (step_symbols(s, b, n, sym)) return NULL;
    for (int i = 0; i < MAX_PREPARED; i++) {
        if (s->cache[i] && replay_fits(s, s->cache[i], sym, out)) {
            s->cache[i]->used = ++s->clock;
            return s->cache[i];
        }
        if (!s->cache[i] || (s->cache[oldest] && s->cache[i]->used < s->cache[oldest]->used))
            oldest = i;
    }
    replay *r = replay_new(s, sym, out);
    if (!r) return NULL;
    replay_free(s, s->cache[oldest]);
    r->used = ++s->clock;
    s->report.prepared++;
    return s->cache[oldest] = r;
}

/* ---- open and close ---------------------------------------------------------------------------- */

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
    const zt_planned *p = s->opts.planned;
    int n = zt_prog_n_symbols(s->prog), n_out = zt_prog_n_outputs(s->prog);
    void **out = zt_calloc(s->ctx, (size_t)n_out + 1, sizeof *out);
    zt_status st = out ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < zt_planned_count(p) && !st; i++) {
        const zt_stated *stated = zt_planned_nth(p, i);
        zt_binding b[ZT_MAX_SYMBOLS];
        zt_cut cut;
        for (int k = 0; k < n; k++)
            b[k] = (zt_binding){zt_prog_symbol_name(s->prog, k), stated->sym[k]};
        for (int o = 0; o < n_out; o++) out[o] = stated->want[o] ? s : NULL;
        zt_bound *bound = zt_prog_bind(s->prog, b, n);
        st = bound ? zt_cut_make(&cut, &s->chain, bound, s->opts.strict, out, stated)
                   : zt_ctx_status(s->ctx);
        if (bound && !st) zt_cut_free(&cut);
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

void zt_session_forget(zt_session *s)
{
    for (int i = 0; i < MAX_PREPARED; i++) {
        replay_free(s, s->cache[i]);
        s->cache[i] = NULL;
    }
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

zt_status zt_session_prepare(zt_session *s, const zt_binding *b, int n, void *const *out)
{
    return get_replay(s, b, n, out) ? ZT_OK : zt_ctx_status(s->ctx);
}

/* ---- step -------------------------------------------------------------------------------------- */

/* Where a root's bytes are on the host: the caller's input or output, or our staging. */
static void *host_of(zt_session *s, replay *r, int root, const void *const *in, void *const *out)
{
    const zt_value *v = zt_prog_value(s->prog, root);
    if (v->kind == ZT_VALUE_IN) return (void *)(uintptr_t)in[v->index];
    for (int o = 0; o < zt_prog_n_outputs(s->prog); o++)
        if (out[o] && r->cut.root[zt_prog_output(s->prog, o)->value] == root) return out[o];
    return r->host[root];
}

static bool donated_in(const zt_cut *cut, const zt_segment *g, int root)
{
    for (int i = g->first; i < g->last; i++)
        for (int k = 0; k < zt_op_info(cut->step[i].op)->def->donates; k++)
            if (cut->root[cut->step[i].in[k]] == root) return true;
    return false;
}

/* States used away from home go there before a segment and, if updated, come back after it. */
static zt_status move_states(zt_session *s, replay *r, const zt_segment *g, bool home)
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

static zt_status run_segment(zt_session *s, replay *r, int i, const void *const *in, void *const *out)
{
    const zt_segment *g = &r->cut.segment[i];
    zt_engine *e = s->chain.engine[g->engine];
    for (int k = 0; k < g->n_in; k++) r->in[k] = host_of(s, r, g->in[k], in, out);
    for (int k = 0; k < g->n_out; k++) r->out[k] = host_of(s, r, g->out[k], in, out);
    zt_status st = move_states(s, r, g, false);
    if (!st) st = e->vt->replay(e, r->ready[i], r->in, r->out,
                                     s->watched ? &s->watch : NULL);
    return st ? st : move_states(s, r, g, true);
}

/* Outputs that no segment wrote where the caller wants them: inputs, states, data, twins. */
static zt_status copy_outputs(zt_session *s, replay *r, const void *const *in, void *const *out)
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
static zt_status copy_keeps(zt_session *s, replay *r, const void *const *in, void *const *out)
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

static void tell_metrics(const zt_session *s, const replay *r)
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
    replay *r = get_replay(s, b, n, out);
    if (!r) return zt_ctx_status(s->ctx);
    zt_status st = ZT_OK;
    for (int i = 0; i < r->cut.n_segments && !st; i++) st = run_segment(s, r, i, in, out);
    if (!st) st = copy_outputs(s, r, in, out);
    if (!st) st = copy_keeps(s, r, in, out);
    if (!st && zt_metrics_on(s->ctx)) tell_metrics(s, r);
    s->report.steps++;
    return st;
}

/* ---- states and figures ------------------------------------------------------------------------- */

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

static const replay *latest(const zt_session *s)
{
    const replay *r = NULL;
    for (int i = 0; i < MAX_PREPARED; i++)
        if (s->cache[i] && (!r || s->cache[i]->used > r->used)) r = s->cache[i];
    return r;
}

int zt_session_parts(const zt_session *s) { return latest(s) ? latest(s)->cut.n_segments : 0; }

zt_session_part zt_session_part_at(const zt_session *s, int i)
{
    const replay *r = latest(s);
    const zt_segment *g = &r->cut.segment[i];
    return (zt_session_part){s->chain.engine[g->engine], &r->plan[i], g->liveness_bytes};
}
