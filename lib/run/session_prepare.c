/* session_prepare.c - replays: a program cut among engines, prepared for one set of symbols. */
#include "lib/run/session.h"

#include <stdio.h>
#include <string.h>

void zt_replay_free(zt_session *s, zt_replay *r)
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
    zt_partition_free(&r->cut);
    zt_bound_free(r->bound);
    zt_free(s->ctx, r);
}

static zt_status prepare_segment(zt_session *s, zt_replay *r, int i)
{
    zt_segment *g = &r->cut.segment[i];
    zt_engine *e = s->chain.engine[g->engine];
    zt_ebuf **buf = zt_arena_alloc(r->cut.memory, ((size_t)g->n_bufs + 1) * sizeof *buf);
    if (!buf) return ZT_ENOMEM;
    for (int k = 0; k < g->n_bufs; k++) {
        buf[k] = zt_session_buf(s, g->engine, g->buf[k], &r->bound->type[g->buf[k]]);
        if (buf[k]) continue;
        s->no_room = g->engine == 0 ? g->buf[k] + 1 : 0;
        return zt_ctx_status(s->ctx);
    }
    r->plan[i] = (zt_run_schedule){.n_values = r->bound->n_values, .type = r->bound->type,
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

static zt_status stage(zt_session *s, zt_replay *r, int root)
{
    if (r->host[root]) return ZT_OK;
    r->host[root] = zt_alloc(s->ctx, zt_type_bytes(&r->bound->type[root]));
    return r->host[root] ? ZT_OK : ZT_ENOMEM;
}

static bool is_program_output(const zt_session *s, const zt_replay *r, int root)
{
    for (int o = 0; o < zt_prog_n_outputs(s->prog); o++)
        if (r->cut.want[o] && r->cut.root[zt_prog_output(s->prog, o)->value] == root) return true;
    return false;
}

/* Host memory for what leaves a segment and is not the caller's, and for states that move. */
static zt_status stage_all(zt_session *s, zt_replay *r)
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

static zt_status replay_make(zt_session *s, zt_replay *r, const int64_t *sym, void *const *out)
{
    zt_binding b[ZT_MAX_SYMBOLS];
    int n = zt_prog_n_symbols(s->prog);
    size_t n_values = (size_t)zt_prog_n_values(s->prog) + 1;
    for (int i = 0; i < n; i++) b[i] = (zt_binding){zt_prog_symbol_name(s->prog, i), sym[i]};
    memcpy(r->sym, sym, (size_t)n * sizeof *sym);
    r->bound = zt_prog_bind(s->prog, b, n);
    if (!r->bound) return zt_ctx_status(s->ctx);
    const zt_plan_layout *stated = s->opts.planned ? zt_plan_file_find(s->opts.planned, sym, out) : NULL;
    zt_status st = zt_partition_make(&r->cut, &s->chain, r->bound, s->opts.strict, out, stated);
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

/* ---- a device without memory ----------------------------------------------------------------- */

/* What the first engine had no memory for is noted as past it: a weight for good, a plan once. */
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

static zt_replay *replay_new(zt_session *s, const int64_t *sym, void *const *out)
{
    zt_status st = ZT_OK;
    zt_replay *r = NULL;
    do {
        zt_replay_free(s, r);
        s->no_room = 0;
        r = zt_calloc(s->ctx, 1, sizeof *r);
        st = r ? replay_make(s, r, sym, out) : ZT_ENOMEM;
    } while (st && spill(s, st));
    s->chain.apart = false;
    if (!st) return r;
    zt_replay_free(s, r);
    return NULL;
}

/* ---- those that there are -------------------------------------------------------------------- */

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
static bool replay_fits(const zt_session *s, const zt_replay *r, const int64_t *sym,
                        void *const *out)
{
    for (int o = 0; o < zt_prog_n_outputs(s->prog); o++)
        if (r->cut.want[o] != (!out || out[o])) return false;
    return !memcmp(r->sym, sym, (size_t)zt_prog_n_symbols(s->prog) * sizeof *sym);
}

zt_replay *zt_replay_get(zt_session *s, const zt_binding *b, int n, void *const *out)
{
    int64_t sym[ZT_MAX_SYMBOLS];
    int oldest = 0;
    if (step_symbols(s, b, n, sym)) return NULL;
    for (int i = 0; i < ZT_MAX_PREPARED; i++) {
        if (s->cache[i] && replay_fits(s, s->cache[i], sym, out)) {
            s->cache[i]->used = ++s->clock;
            return s->cache[i];
        }
        if (!s->cache[i] || (s->cache[oldest] && s->cache[i]->used < s->cache[oldest]->used))
            oldest = i;
    }
    zt_replay *r = replay_new(s, sym, out);
    if (!r) return NULL;
    zt_replay_free(s, s->cache[oldest]);
    r->used = ++s->clock;
    s->report.prepared++;
    return s->cache[oldest] = r;
}

zt_status zt_session_prepare(zt_session *s, const zt_binding *b, int n, void *const *out)
{
    return zt_replay_get(s, b, n, out) ? ZT_OK : zt_ctx_status(s->ctx);
}

void zt_session_forget(zt_session *s)
{
    for (int i = 0; i < ZT_MAX_PREPARED; i++) {
        zt_replay_free(s, s->cache[i]);
        s->cache[i] = NULL;
    }
}
