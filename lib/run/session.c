/* session.c - sessions: a program on an engine, its weights and states. */
#include "lib/run/session.h"

#include <string.h>

/* ---- buffers --------------------------------------------------------------------------------- */

zt_status zt_store_weight(zt_ctx *ctx, const zt_store *store, const char *name, const zt_type *want,
                          int64_t *handle)
{
    char actual_text[ZT_TYPE_TEXT], wanted_text[ZT_TYPE_TEXT];
    zt_type type;
    if (!store->find || store->find(store->user, name, &type, handle))
        return zt_fail(ctx, ZT_EDATA, "tensor '%s' is not there", name);
    if (zt_type_equal(&type, want)) return ZT_OK;
    return zt_fail(ctx, ZT_EDATA, "tensor '%s' is %s, the program wants %s", name,
                   zt_type_text(&type, actual_text), zt_type_text(want, wanted_text));
}

static zt_ebuf *load_weight(zt_session *session, zt_engine *engine, const zt_value *value, const zt_type *want)
{
    int64_t handle;
    if (zt_is_derived(value->tensor)) return zt_constant_data_load(engine, value->tensor, want, &session->store);
    if (zt_store_weight(session->ctx, &session->store, value->tensor, want, &handle)) return NULL;
    return engine->vt->load(engine, want, &session->store, handle);
}

zt_ebuf *zt_session_buf(zt_session *session, int engine_index, int value_id, const zt_type *type)
{
    zt_engine *engine = session->chain.engine[engine_index];
    const zt_value *value = zt_prog_value(session->prog, value_id);
    if (session->buffers[engine_index][value_id]) return session->buffers[engine_index][value_id];
    zt_ebuf *buffer = value->kind == ZT_VALUE_DATA ? load_weight(session, engine, value, type) : engine->vt->alloc(engine, type);
    if (!buffer) return NULL;
    if (value->kind == ZT_VALUE_DATA)
        session->report.weight_bytes += zt_type_bytes(type);
    else
        session->report.state_bytes += zt_type_bytes(type);
    return session->buffers[engine_index][value_id] = buffer;
}

/* States live on the first engine of the chain. */
static zt_status make_states(zt_session *session)
{
    int state_count = zt_prog_count(session->prog, ZT_VALUE_STATE);
    for (int i = 0; i < state_count; i++)
        if (!zt_session_buf(session, 0, zt_prog_nth(session->prog, ZT_VALUE_STATE, i), &session->state_type[i]))
            return zt_ctx_status(session->ctx);
    return ZT_OK;
}

/* ---- open and close -------------------------------------------------------------------------- */

static zt_status bind_states(zt_session *session)
{
    int state_count = zt_prog_count(session->prog, ZT_VALUE_STATE);
    session->state_type = zt_calloc(session->ctx, (size_t)state_count + 1, sizeof *session->state_type);
    if (!session->state_type) return ZT_ENOMEM;
    if (state_count == 0) return ZT_OK;
    /* Symbols that only rows depend on do not matter to states: 1 stands for them. */
    zt_binding bindings[ZT_MAX_SYMBOLS];
    int n_symbols = zt_prog_n_symbols(session->prog);
    for (int i = 0; i < n_symbols; i++)
        bindings[i] = (zt_binding){zt_prog_symbol_name(session->prog, i), session->fixed[i] < 0 ? 1 : session->fixed[i]};
    zt_bound *bound = zt_prog_bind(session->prog, bindings, n_symbols);
    if (!bound) return zt_ctx_status(session->ctx);
    for (int i = 0; i < state_count; i++)
        session->state_type[i] = bound->type[zt_prog_nth(session->prog, ZT_VALUE_STATE, i)];
    zt_bound_free(bound);
    return make_states(session);
}

/* All that the plan states, against the program and this engine. */
static zt_status check_plan(zt_session *session)
{
    const zt_plan_file *plan = session->opts.plan;
    int symbol_count = zt_prog_n_symbols(session->prog), n_out = zt_prog_n_outputs(session->prog);
    void **outputs = zt_calloc(session->ctx, (size_t)n_out + 1, sizeof *outputs);
    zt_status status = outputs ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < zt_plan_file_count(plan) && !status; i++) {
        const zt_plan_layout *layout = zt_plan_file_nth(plan, i);
        zt_binding bindings[ZT_MAX_SYMBOLS];
        zt_partition partition;
        for (int k = 0; k < symbol_count; k++)
            bindings[k] = (zt_binding){zt_prog_symbol_name(session->prog, k), layout->symbols[k]};
        for (int output_index = 0; output_index < n_out; output_index++)
            outputs[output_index] = layout->wanted[output_index] ? session : NULL;
        zt_bound *bound = zt_prog_bind(session->prog, bindings, symbol_count);
        status = bound ? zt_partition_make(&partition, &session->chain, bound, session->opts.strict, outputs, layout)
                   : zt_ctx_status(session->ctx);
        if (bound && !status) zt_partition_free(&partition);
        zt_bound_free(bound);
    }
    zt_free(session->ctx, outputs);
    return status;
}

zt_session *zt_session_open(zt_engine *engine, const zt_prog *program, const zt_store *store,
                            const zt_session_opts *options)
{
    zt_session *session = zt_calloc(engine->ctx, 1, sizeof *session);
    if (!session) return NULL;
    session->ctx = engine->ctx;
    session->prog = program;
    if (store) session->store = *store;
    if (options) session->opts = *options;
    zt_chain_init(&session->chain, engine);
    for (int i = 0; i < zt_prog_n_symbols(program); i++) {
        session->fixed[i] = -1;
        for (int fixed_index = 0; fixed_index < session->opts.n_fixed; fixed_index++)
            if (strcmp(session->opts.fixed[fixed_index].symbol, zt_prog_symbol_name(program, i)) == 0)
                session->fixed[i] = session->opts.fixed[fixed_index].value;
    }
    session->buffers[0] = zt_calloc(session->ctx, (size_t)zt_prog_n_values(program) + 1, sizeof *session->buffers[0]);
    if (!session->buffers[0] || (session->opts.plan && check_plan(session)) || bind_states(session)) {
        zt_session_close(session);
        return NULL;
    }
    return session;
}

void zt_session_close(zt_session *session)
{
    if (!session) return;
    zt_session_forget(session);
    for (int engine_index = 0; engine_index < ZT_MAX_CHAIN; engine_index++) {
        for (int value_id = 0; session->buffers[engine_index] && value_id < zt_prog_n_values(session->prog); value_id++)
            if (session->buffers[engine_index][value_id])
                session->chain.engine[engine_index]->vt->free(session->chain.engine[engine_index],
                                                              session->buffers[engine_index][value_id]);
        zt_free(session->ctx, session->buffers[engine_index]);
    }
    zt_chain_fini(&session->chain);
    zt_free(session->ctx, session->state_type);
    zt_free(session->ctx, session);
}

/* ---- states and figures ---------------------------------------------------------------------- */

zt_type zt_session_state_type(const zt_session *session, int i) { return session->state_type[i]; }

zt_status zt_session_state_get(zt_session *session, int i, void *host)
{
    zt_engine *engine = session->chain.engine[0];
    return engine->vt->download(engine, session->buffers[0][zt_prog_nth(session->prog, ZT_VALUE_STATE, i)], host);
}

zt_status zt_session_state_set(zt_session *session, int i, const void *host)
{
    zt_engine *engine = session->chain.engine[0];
    return engine->vt->upload(engine, session->buffers[0][zt_prog_nth(session->prog, ZT_VALUE_STATE, i)], host);
}

const zt_prog *zt_session_prog(const zt_session *session) { return session->prog; }

zt_session_report zt_session_get(const zt_session *session) { return session->report; }

void zt_session_watch(zt_session *session, const zt_watch *watch)
{
    session->watched = watch != NULL;
    if (watch) session->watch = *watch;
}

static const zt_replay *latest_replay(const zt_session *session)
{
    const zt_replay *replay = NULL;
    for (int i = 0; i < ZT_MAX_PREPARED; i++)
        if (session->cache[i] && (!replay || session->cache[i]->used > replay->used)) replay = session->cache[i];
    return replay;
}

int zt_session_parts(const zt_session *session)
{
    return latest_replay(session) ? latest_replay(session)->partition.n_segments : 0;
}

zt_session_part zt_session_part_at(const zt_session *session, int i)
{
    const zt_replay *replay = latest_replay(session);
    const zt_segment *segment = &replay->partition.segment[i];
    return (zt_session_part){session->chain.engine[segment->engine], &replay->schedules[i], segment->liveness_bytes};
}
