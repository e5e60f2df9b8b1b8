/* session_prepare.c - replays: a program cut among engines, prepared for one set of symbols. */
#include "lib/run/session.h"

#include <stdio.h>
#include <string.h>

void zt_replay_free(zt_session *session, zt_replay *replay)
{
    if (!replay) return;
    for (int i = 0; replay->ready && i < replay->cut.n_segments; i++) {
        zt_engine *engine = session->chain.engine[replay->cut.segment[i].engine];
        if (replay->ready[i]) engine->vt->unprepare(engine, replay->ready[i]);
    }
    for (int v = 0; replay->host && v < zt_prog_n_values(session->prog); v++) zt_free(session->ctx, replay->host[v]);
    zt_free(session->ctx, replay->ready);
    zt_free(session->ctx, replay->host);
    zt_free(session->ctx, replay->in);
    zt_free(session->ctx, replay->out);
    zt_partition_free(&replay->cut);
    zt_bound_free(replay->bound);
    zt_free(session->ctx, replay);
}

static zt_status prepare_segment(zt_session *session, zt_replay *replay, int i)
{
    zt_segment *segment = &replay->cut.segment[i];
    zt_engine *engine = session->chain.engine[segment->engine];
    zt_ebuf **buf = zt_arena_alloc(replay->cut.memory, ((size_t)segment->n_bufs + 1) * sizeof *buf);
    if (!buf) return ZT_ENOMEM;
    for (int k = 0; k < segment->n_bufs; k++) {
        buf[k] = zt_session_buf(session, segment->engine, segment->buf[k], &replay->bound->type[segment->buf[k]]);
        if (buf[k]) continue;
        session->no_room = segment->engine == 0 ? segment->buf[k] + 1 : 0;
        return zt_ctx_status(session->ctx);
    }
    replay->plan[i] = (zt_run_schedule){.n_values = replay->bound->n_values, .type = replay->bound->type,
                           .place = segment->place, .n_steps = segment->last - segment->first,
                           .step = replay->cut.step + segment->first, .n_in = segment->n_in, .n_out = segment->n_out,
                           .n_bufs = segment->n_bufs, .buf = buf, .arena_bytes = segment->arena_bytes};
    replay->ready[i] = engine->vt->prepare(engine, &replay->plan[i]);
    if (segment->arena_bytes > session->report.arena_bytes) {
        session->report.arena_bytes = segment->arena_bytes;
        session->report.liveness_bytes = segment->liveness_bytes;
    }
    session->no_room = replay->ready[i] || segment->engine > 0 ? 0 : -1;
    return replay->ready[i] ? ZT_OK : zt_ctx_status(session->ctx);
}

static zt_status stage(zt_session *session, zt_replay *replay, int root)
{
    if (replay->host[root]) return ZT_OK;
    replay->host[root] = zt_alloc(session->ctx, zt_type_bytes(&replay->bound->type[root]));
    return replay->host[root] ? ZT_OK : ZT_ENOMEM;
}

static bool is_program_output(const zt_session *session, const zt_replay *replay, int root)
{
    for (int o = 0; o < zt_prog_n_outputs(session->prog); o++)
        if (replay->cut.want[o] && replay->cut.root[zt_prog_output(session->prog, o)->value] == root) return true;
    return false;
}

/* Host memory for what leaves a segment and is not the caller's, and for states that move. */
static zt_status stage_all(zt_session *session, zt_replay *replay)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < replay->cut.n_segments && !status; i++) {
        const zt_segment *segment = &replay->cut.segment[i];
        for (int k = 0; k < segment->n_out && !status; k++)
            if (!is_program_output(session, replay, segment->out[k])) status = stage(session, replay, segment->out[k]);
        for (int k = 0; k < segment->n_bufs && !status; k++)
            if (segment->engine > 0 && zt_prog_value(session->prog, segment->buf[k])->kind == ZT_VALUE_STATE)
                status = stage(session, replay, segment->buf[k]);
    }
    for (int i = 0; i < zt_prog_count(session->prog, ZT_VALUE_STATE) && !status; i++) {
        int v = zt_prog_nth(session->prog, ZT_VALUE_STATE, i), keep = zt_prog_value(session->prog, v)->keep;
        if (keep >= 0 && replay->cut.root[keep] != v &&
            zt_prog_value(session->prog, replay->cut.root[keep])->kind == ZT_VALUE_STATE)
            status = stage(session, replay, replay->cut.root[keep]);
    }
    return status;
}

static zt_status replay_make(zt_session *session, zt_replay *replay, const int64_t *sym, void *const *outputs)
{
    zt_binding b[ZT_MAX_SYMBOLS];
    int n = zt_prog_n_symbols(session->prog);
    size_t n_values = (size_t)zt_prog_n_values(session->prog) + 1;
    for (int i = 0; i < n; i++) b[i] = (zt_binding){zt_prog_symbol_name(session->prog, i), sym[i]};
    memcpy(replay->sym, sym, (size_t)n * sizeof *sym);
    replay->bound = zt_prog_bind(session->prog, b, n);
    if (!replay->bound) return zt_ctx_status(session->ctx);
    const zt_plan_layout *stated = session->opts.planned ? zt_plan_file_find(session->opts.planned, sym, outputs) : NULL;
    zt_status status = zt_partition_make(&replay->cut, &session->chain, replay->bound, session->opts.strict, outputs, stated);
    if (status) return status;
    replay->ready = zt_calloc(session->ctx, (size_t)replay->cut.n_segments + 1, sizeof *replay->ready);
    replay->plan = zt_arena_alloc(replay->cut.memory, ((size_t)replay->cut.n_segments + 1) * sizeof *replay->plan);
    replay->host = zt_calloc(session->ctx, n_values, sizeof *replay->host);
    replay->in = zt_calloc(session->ctx, n_values, sizeof *replay->in);
    replay->out = zt_calloc(session->ctx, n_values, sizeof *replay->out);
    if (!replay->ready || !replay->plan || !replay->host || !replay->in || !replay->out) return ZT_ENOMEM;
    for (int i = 0; i < replay->cut.n_segments && !status; i++) {
        for (int e = 1; e <= replay->cut.segment[i].engine; e++)
            if (!session->buf[e]) session->buf[e] = zt_calloc(session->ctx, n_values, sizeof *session->buf[e]);
        if (!session->buf[replay->cut.segment[i].engine]) return ZT_ENOMEM;
        status = prepare_segment(session, replay, i);
    }
    if (!status) status = stage_all(session, replay);
    session->report.fallbacks = replay->cut.fallbacks;
    return status;
}

/* ---- a device without memory ----------------------------------------------------------------- */

/* What the first engine had no memory for is noted as past it: a weight for good, a plan once. */
static bool spill(zt_session *session, zt_status status)
{
    char what[160] = "this plan";
    if (session->no_room == 0 || session->opts.planned) return false;
    if (session->no_room > 0) {
        const char *name = zt_prog_value(session->prog, session->no_room - 1)->tensor;
        snprintf(what, sizeof what, "what reads '%.120s'", name ? name : "a state");
        if (!name) return false; /* states live on the first engine */
    }
    if (!zt_chain_spill(&session->chain, session->opts.strict, status, what)) return false;
    session->chain.apart = session->no_room < 0;
    if (session->no_room < 0) return true;
    bool **apart = &session->chain.apart_from;
    if (!*apart) *apart = zt_calloc(session->ctx, (size_t)zt_prog_n_values(session->prog) + 1, sizeof **apart);
    if (*apart) (*apart)[session->no_room - 1] = true;
    return *apart != NULL;
}

static zt_replay *replay_new(zt_session *session, const int64_t *sym, void *const *outputs)
{
    zt_status status = ZT_OK;
    zt_replay *replay = NULL;
    do {
        zt_replay_free(session, replay);
        session->no_room = 0;
        replay = zt_calloc(session->ctx, 1, sizeof *replay);
        status = replay ? replay_make(session, replay, sym, outputs) : ZT_ENOMEM;
    } while (status && spill(session, status));
    session->chain.apart = false;
    if (!status) return replay;
    zt_replay_free(session, replay);
    return NULL;
}

/* ---- those that there are -------------------------------------------------------------------- */

/* The symbol values of a step: those fixed, then those given. */
static zt_status step_symbols(zt_session *session, const zt_binding *bindings, int n, int64_t *sym)
{
    for (int i = 0; i < zt_prog_n_symbols(session->prog); i++) {
        const char *name = zt_prog_symbol_name(session->prog, i);
        sym[i] = session->fixed[i];
        for (int k = 0; k < n && sym[i] < 0; k++)
            if (strcmp(bindings[k].symbol, name) == 0) sym[i] = bindings[k].value;
        if (sym[i] < 0) return zt_fail(session->ctx, ZT_EUSAGE, "symbol '%s' has no value", name);
    }
    return ZT_OK;
}

/* Of those symbols, for those outputs? */
static bool replay_fits(const zt_session *session, const zt_replay *replay, const int64_t *sym,
                        void *const *outputs)
{
    for (int o = 0; o < zt_prog_n_outputs(session->prog); o++)
        if (replay->cut.want[o] != (!outputs || outputs[o])) return false;
    return !memcmp(replay->sym, sym, (size_t)zt_prog_n_symbols(session->prog) * sizeof *sym);
}

zt_replay *zt_replay_get(zt_session *session, const zt_binding *bindings, int n, void *const *outputs)
{
    int64_t sym[ZT_MAX_SYMBOLS];
    int oldest = 0;
    if (step_symbols(session, bindings, n, sym)) return NULL;
    for (int i = 0; i < ZT_MAX_PREPARED; i++) {
        if (session->cache[i] && replay_fits(session, session->cache[i], sym, outputs)) {
            session->cache[i]->used = ++session->clock;
            return session->cache[i];
        }
        if (!session->cache[i] || (session->cache[oldest] && session->cache[i]->used < session->cache[oldest]->used))
            oldest = i;
    }
    zt_replay *replay = replay_new(session, sym, outputs);
    if (!replay) return NULL;
    zt_replay_free(session, session->cache[oldest]);
    replay->used = ++session->clock;
    session->report.prepared++;
    return session->cache[oldest] = replay;
}

zt_status zt_session_prepare(zt_session *session, const zt_binding *bindings, int n, void *const *outputs)
{
    return zt_replay_get(session, bindings, n, outputs) ? ZT_OK : zt_ctx_status(session->ctx);
}

void zt_session_forget(zt_session *session)
{
    for (int i = 0; i < ZT_MAX_PREPARED; i++) {
        zt_replay_free(session, session->cache[i]);
        session->cache[i] = NULL;
    }
}
