/* session_prepare.c - replays: a program cut among engines, prepared for one set of symbols. */
#include "lib/run/session.h"

#include <stdio.h>
#include <string.h>

void zt_replay_free(zt_session *session, zt_replay *replay)
{
    if (!replay) return;
    for (int i = 0; replay->executables && i < replay->partition.n_segments; i++) {
        zt_engine *engine = session->chain.engine[replay->partition.segment[i].engine];
        if (replay->executables[i]) engine->vt->unprepare(engine, replay->executables[i]);
    }
    for (int value_id = 0; replay->host && value_id < zt_prog_n_values(session->prog); value_id++)
        zt_free(session->ctx, replay->host[value_id]);
    zt_free(session->ctx, replay->executables);
    zt_free(session->ctx, replay->host);
    zt_free(session->ctx, replay->in);
    zt_free(session->ctx, replay->out);
    zt_partition_free(&replay->partition);
    zt_bound_free(replay->bound);
    zt_free(session->ctx, replay);
}

static zt_status prepare_segment(zt_session *session, zt_replay *replay, int segment_index)
{
    zt_segment *segment = &replay->partition.segment[segment_index];
    zt_engine *engine = session->chain.engine[segment->engine];
    zt_ebuf **buffers = zt_arena_alloc(replay->partition.memory, ((size_t)segment->n_buffers + 1) * sizeof *buffers);
    if (!buffers) return ZT_ENOMEM;
    for (int k = 0; k < segment->n_buffers; k++) {
        buffers[k] = zt_session_buf(session, segment->engine, segment->buffers[k], &replay->bound->type[segment->buffers[k]]);
        if (buffers[k]) continue;
        session->no_memory_for = segment->engine == 0 ? segment->buffers[k] + 1 : 0;
        return zt_ctx_status(session->ctx);
    }
    replay->schedules[segment_index] = (zt_run_schedule){.n_values = replay->bound->n_values, .type = replay->bound->type,
                           .place = segment->place, .n_steps = segment->last - segment->first,
                           .step = replay->partition.step + segment->first, .n_in = segment->n_in, .n_out = segment->n_out,
                           .n_bufs = segment->n_buffers, .buf = buffers, .arena_bytes = segment->arena_bytes};
    replay->executables[segment_index] = engine->vt->prepare(engine, &replay->schedules[segment_index]);
    if (segment->arena_bytes > session->report.arena_bytes) {
        session->report.arena_bytes = segment->arena_bytes;
        session->report.liveness_bytes = segment->liveness_bytes;
    }
    session->no_memory_for = replay->executables[segment_index] || segment->engine > 0 ? 0 : -1;
    return replay->executables[segment_index] ? ZT_OK : zt_ctx_status(session->ctx);
}

static zt_status alloc_staging(zt_session *session, zt_replay *replay, int root)
{
    if (replay->host[root]) return ZT_OK;
    replay->host[root] = zt_alloc(session->ctx, zt_type_bytes(&replay->bound->type[root]));
    return replay->host[root] ? ZT_OK : ZT_ENOMEM;
}

static bool is_program_output(const zt_session *session, const zt_replay *replay, int root)
{
    for (int output_index = 0; output_index < zt_prog_n_outputs(session->prog); output_index++)
        if (replay->partition.wanted[output_index] &&
            replay->partition.root[zt_prog_output(session->prog, output_index)->value] == root)
            return true;
    return false;
}

/* Host memory for what leaves a segment and is not the caller's, and for states that move. */
static zt_status alloc_all_staging(zt_session *session, zt_replay *replay)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < replay->partition.n_segments && !status; i++) {
        const zt_segment *segment = &replay->partition.segment[i];
        for (int k = 0; k < segment->n_out && !status; k++)
            if (!is_program_output(session, replay, segment->out[k])) status = alloc_staging(session, replay, segment->out[k]);
        for (int k = 0; k < segment->n_buffers && !status; k++)
            if (segment->engine > 0 && zt_prog_value(session->prog, segment->buffers[k])->kind == ZT_VALUE_STATE)
                status = alloc_staging(session, replay, segment->buffers[k]);
    }
    for (int i = 0; i < zt_prog_count(session->prog, ZT_VALUE_STATE) && !status; i++) {
        int value_id = zt_prog_nth(session->prog, ZT_VALUE_STATE, i), keep = zt_prog_value(session->prog, value_id)->keep;
        if (keep >= 0 && replay->partition.root[keep] != value_id &&
            zt_prog_value(session->prog, replay->partition.root[keep])->kind == ZT_VALUE_STATE)
            status = alloc_staging(session, replay, replay->partition.root[keep]);
    }
    return status;
}

static zt_status fill_replay(zt_session *session, zt_replay *replay, const int64_t *symbols, void *const *outputs)
{
    zt_binding bindings[ZT_MAX_SYMBOLS];
    int symbol_count = zt_prog_n_symbols(session->prog);
    size_t n_values = (size_t)zt_prog_n_values(session->prog) + 1;
    for (int i = 0; i < symbol_count; i++) bindings[i] = (zt_binding){zt_prog_symbol_name(session->prog, i), symbols[i]};
    memcpy(replay->symbols, symbols, (size_t)symbol_count * sizeof *symbols);
    replay->bound = zt_prog_bind(session->prog, bindings, symbol_count);
    if (!replay->bound) return zt_ctx_status(session->ctx);
    const zt_plan_layout *layout = session->opts.plan ? zt_plan_file_find(session->opts.plan, symbols, outputs) : NULL;
    zt_status status =
        zt_partition_make(&replay->partition, &session->chain, replay->bound, session->opts.strict, outputs, layout);
    if (status) return status;
    replay->executables = zt_calloc(session->ctx, (size_t)replay->partition.n_segments + 1, sizeof *replay->executables);
    replay->schedules =
        zt_arena_alloc(replay->partition.memory, ((size_t)replay->partition.n_segments + 1) * sizeof *replay->schedules);
    replay->host = zt_calloc(session->ctx, n_values, sizeof *replay->host);
    replay->in = zt_calloc(session->ctx, n_values, sizeof *replay->in);
    replay->out = zt_calloc(session->ctx, n_values, sizeof *replay->out);
    if (!replay->executables || !replay->schedules || !replay->host || !replay->in || !replay->out) return ZT_ENOMEM;
    for (int i = 0; i < replay->partition.n_segments && !status; i++) {
        for (int engine_index = 1; engine_index <= replay->partition.segment[i].engine; engine_index++)
            if (!session->buffers[engine_index])
                session->buffers[engine_index] = zt_calloc(session->ctx, n_values, sizeof *session->buffers[engine_index]);
        if (!session->buffers[replay->partition.segment[i].engine]) return ZT_ENOMEM;
        status = prepare_segment(session, replay, i);
    }
    if (!status) status = alloc_all_staging(session, replay);
    session->report.fallbacks = replay->partition.fallbacks;
    return status;
}

/* ---- a device without memory ----------------------------------------------------------------- */

/* What the first engine had no memory for is noted as past it: a weight for good, a plan once. */
static bool spill_to_next(zt_session *session, zt_status status)
{
    char what[160] = "this plan";
    if (session->no_memory_for == 0 || session->opts.plan) return false;
    if (session->no_memory_for > 0) {
        const char *name = zt_prog_value(session->prog, session->no_memory_for - 1)->tensor;
        snprintf(what, sizeof what, "what reads '%.120s'", name ? name : "a state");
        if (!name) return false; /* states live on the first engine */
    }
    if (!zt_chain_spill(&session->chain, session->opts.strict, status, what)) return false;
    session->chain.skip_first = session->no_memory_for < 0;
    if (session->no_memory_for < 0) return true;
    bool **apart = &session->chain.skip_first_for;
    if (!*apart) *apart = zt_calloc(session->ctx, (size_t)zt_prog_n_values(session->prog) + 1, sizeof **apart);
    if (*apart) (*apart)[session->no_memory_for - 1] = true;
    return *apart != NULL;
}

static zt_replay *make_replay(zt_session *session, const int64_t *symbols, void *const *outputs)
{
    zt_status status = ZT_OK;
    zt_replay *replay = NULL;
    do {
        zt_replay_free(session, replay);
        session->no_memory_for = 0;
        replay = zt_calloc(session->ctx, 1, sizeof *replay);
        status = replay ? fill_replay(session, replay, symbols, outputs) : ZT_ENOMEM;
    } while (status && spill_to_next(session, status));
    session->chain.skip_first = false;
    if (!status) return replay;
    zt_replay_free(session, replay);
    return NULL;
}

/* ---- those that there are -------------------------------------------------------------------- */

/* The symbol values of a step: those fixed, then those given. */
static zt_status step_symbols(zt_session *session, const zt_binding *bindings, int binding_count, int64_t *symbols)
{
    for (int i = 0; i < zt_prog_n_symbols(session->prog); i++) {
        const char *name = zt_prog_symbol_name(session->prog, i);
        symbols[i] = session->fixed[i];
        for (int k = 0; k < binding_count && symbols[i] < 0; k++)
            if (strcmp(bindings[k].symbol, name) == 0) symbols[i] = bindings[k].value;
        if (symbols[i] < 0) return zt_fail(session->ctx, ZT_EUSAGE, "symbol '%s' has no value", name);
    }
    return ZT_OK;
}

/* Of those symbols, for those outputs? */
static bool replay_matches(const zt_session *session, const zt_replay *replay, const int64_t *symbols,
                        void *const *outputs)
{
    for (int output_index = 0; output_index < zt_prog_n_outputs(session->prog); output_index++)
        if (replay->partition.wanted[output_index] != (!outputs || outputs[output_index])) return false;
    return !memcmp(replay->symbols, symbols, (size_t)zt_prog_n_symbols(session->prog) * sizeof *symbols);
}

zt_replay *zt_replay_get(zt_session *session, const zt_binding *bindings, int binding_count, void *const *outputs)
{
    int64_t symbols[ZT_MAX_SYMBOLS];
    int oldest = 0;
    if (step_symbols(session, bindings, binding_count, symbols)) return NULL;
    for (int i = 0; i < ZT_MAX_PREPARED; i++) {
        if (session->cache[i] && replay_matches(session, session->cache[i], symbols, outputs)) {
            session->cache[i]->used = ++session->clock;
            return session->cache[i];
        }
        if (!session->cache[i] || (session->cache[oldest] && session->cache[i]->used < session->cache[oldest]->used))
            oldest = i;
    }
    zt_replay *replay = make_replay(session, symbols, outputs);
    if (!replay) return NULL;
    zt_replay_free(session, session->cache[oldest]);
    replay->used = ++session->clock;
    session->report.prepared++;
    return session->cache[oldest] = replay;
}

zt_status zt_session_prepare(zt_session *session, const zt_binding *bindings, int binding_count, void *const *outputs)
{
    return zt_replay_get(session, bindings, binding_count, outputs) ? ZT_OK : zt_ctx_status(session->ctx);
}

void zt_session_forget(zt_session *session)
{
    for (int i = 0; i < ZT_MAX_PREPARED; i++) {
        zt_replay_free(session, session->cache[i]);
        session->cache[i] = NULL;
    }
}
