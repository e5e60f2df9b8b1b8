/* session.c - sessions: a program on an engine, its weights and states, and its replays.
 *
 * For each set of symbol values and wanted outputs the program is bound, partitioned among the engines
 * of the chain (partition.c) and prepared there: a replay, of which the latest are kept. A step runs the
 * replay's segments one after the other. Values that cross between engines, and what `keep` copies, pass
 * through host memory that the replay owns; program inputs and outputs are the caller's own memory.
 */
#include "lib/base/require.h"
#include "lib/run/eager.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PREPARED = 8 };

typedef struct session_replay {
    int64_t symbols[ZT_MAX_SYMBOLS];
    uint64_t used; /* clock of the last use */
    zt_bound *bound;
    zt_partition partition;
    zt_executable **executables; /* [n_segments] */
    zt_run_schedule *schedules;  /* [n_segments], in the partition's memory */
    void **host;                 /* [n_values] of roots: staging owned by us, or NULL */
    const void **segment_inputs; /* scratch for a segment's pointers */
    void **segment_outputs;
} session_replay;

struct zt_session {
    zt_ctx *ctx;
    zt_chain chain;
    const zt_prog *program;
    zt_store store;
    zt_session_opts options;
    int64_t fixed[ZT_MAX_SYMBOLS];   /* -1: given at each step */
    zt_ebuf **buffers[ZT_MAX_CHAIN]; /* [n_values] of data and states, on each engine of the chain */
    zt_type *state_type;             /* [states], bound */
    session_replay *cache[MAX_PREPARED];
    uint64_t clock;
    zt_session_report report;
    zt_watch watch;
    bool watched;
    /* While one is prepared: the value + 1 that the first engine did not take, or -1: the schedule. */
    int no_memory_for;
};

/* ---- buffers --------------------------------------------------------------------------------- */

zt_status zt_store_weight(zt_ctx *ctx, const zt_store *store, const char *name, const zt_type *wanted_type, int64_t *handle)
{
    char actual_text[ZT_TYPE_TEXT], wanted_text[ZT_TYPE_TEXT];
    zt_type type;
    if (!store->find || store->find(store->user, name, &type, handle)) return zt_fail(ctx, ZT_EDATA, "missing tensor '%s'", name);
    if (zt_type_equal(&type, wanted_type)) return ZT_OK;
    return zt_fail(ctx, ZT_EDATA, "tensor '%s' has type %s, but the program expects %s", name, zt_type_text(&type, actual_text),
                   zt_type_text(wanted_type, wanted_text));
}

static zt_ebuf *load_weight(zt_session *session, zt_engine *engine, const zt_value *value, const zt_type *wanted_type)
{
    int64_t handle;
    if (zt_is_derived(value->tensor)) return zt_constant_data_load(engine, value->tensor, wanted_type, &session->store);
    if (zt_store_weight(session->ctx, &session->store, value->tensor, wanted_type, &handle)) return NULL;
    return engine->vt->load(engine, wanted_type, &session->store, handle);
}

/* What the lender has loaded of a tensor; NULL: nothing. */
static zt_ebuf *borrowed_weight(const zt_session *session, int engine_index, const zt_value *value, const zt_type *type)
{
    const zt_session *lender = session->options.lender;
    if (!lender || !lender->buffers[engine_index] || lender->chain.engines[engine_index] != session->chain.engines[engine_index])
        return NULL;
    for (int i = 0; i < zt_prog_count(lender->program, ZT_VALUE_DATA); i++) {
        const int value_id = zt_prog_nth(lender->program, ZT_VALUE_DATA, i);
        const zt_value *lent = zt_prog_value(lender->program, value_id);
        if (zt_type_equal(&lent->type, type) && strcmp(lent->tensor, value->tensor) == 0)
            return lender->buffers[engine_index][value_id];
    }
    return NULL;
}

static bool is_borrowed(const zt_session *session, int engine_index, int value_id)
{
    const zt_value *value = zt_prog_value(session->program, value_id);
    const zt_ebuf *buffer = session->buffers[engine_index][value_id];
    return value->kind == ZT_VALUE_DATA && borrowed_weight(session, engine_index, value, &value->type) == buffer;
}

static zt_ebuf *session_buffer(zt_session *session, int engine_index, int value_id, const zt_type *type)
{
    zt_engine *engine = session->chain.engines[engine_index];
    const zt_value *value = zt_prog_value(session->program, value_id);
    if (session->buffers[engine_index][value_id]) return session->buffers[engine_index][value_id];
    zt_ebuf *buffer = value->kind == ZT_VALUE_DATA ? borrowed_weight(session, engine_index, value, type) : NULL;
    if (buffer) return session->buffers[engine_index][value_id] = buffer;
    buffer = value->kind == ZT_VALUE_DATA ? load_weight(session, engine, value, type) : engine->vt->alloc(engine, type);
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
    int state_count = zt_prog_count(session->program, ZT_VALUE_STATE);
    for (int state_index = 0; state_index < state_count; state_index++)
        if (!session_buffer(session, 0, zt_prog_nth(session->program, ZT_VALUE_STATE, state_index),
                            &session->state_type[state_index]))
            return zt_ctx_status(session->ctx);
    return ZT_OK;
}

/* ---- preparing a replay ----------------------------------------------------------------------- */

static void free_replay(zt_session *session, session_replay *replay)
{
    if (!replay) return;
    for (int segment_index = 0; replay->executables && segment_index < replay->partition.n_segments; segment_index++) {
        zt_engine *engine = session->chain.engines[replay->partition.segments[segment_index].engine];
        if (replay->executables[segment_index]) engine->vt->unprepare(engine, replay->executables[segment_index]);
    }
    for (int value_id = 0; replay->host && value_id < zt_prog_n_values(session->program); value_id++)
        zt_free(session->ctx, replay->host[value_id]);
    zt_free(session->ctx, replay->executables);
    zt_free(session->ctx, replay->host);
    zt_free(session->ctx, replay->segment_inputs);
    zt_free(session->ctx, replay->segment_outputs);
    zt_partition_free(&replay->partition);
    zt_bound_free(replay->bound);
    zt_free(session->ctx, replay);
}

static zt_status prepare_segment(zt_session *session, session_replay *replay, int segment_index)
{
    zt_segment *segment = &replay->partition.segments[segment_index];
    zt_engine *engine = session->chain.engines[segment->engine];
    zt_ebuf **buffers = zt_arena_alloc(replay->partition.memory, ((size_t)segment->n_buffers + 1) * sizeof *buffers);
    if (!buffers) return ZT_ENOMEM;
    for (int k = 0; k < segment->n_buffers; k++) {
        buffers[k] = session_buffer(session, segment->engine, segment->buffers[k], &replay->bound->type[segment->buffers[k]]);
        if (buffers[k]) continue;
        session->no_memory_for = segment->engine == 0 ? segment->buffers[k] + 1 : 0;
        return zt_ctx_status(session->ctx);
    }
    replay->schedules[segment_index] = (zt_run_schedule){.n_values = replay->bound->n_values,
                                                         .type = replay->bound->type,
                                                         .place = segment->places,
                                                         .n_steps = segment->last - segment->first,
                                                         .step = replay->partition.steps + segment->first,
                                                         .n_in = segment->n_inputs,
                                                         .n_out = segment->n_outputs,
                                                         .n_bufs = segment->n_buffers,
                                                         .buf = buffers,
                                                         .arena_bytes = segment->arena_bytes};
    replay->executables[segment_index] = engine->vt->prepare(engine, &replay->schedules[segment_index]);
    if (segment->arena_bytes > session->report.arena_bytes) {
        session->report.arena_bytes = segment->arena_bytes;
        session->report.liveness_bytes = segment->liveness_bytes;
    }
    session->no_memory_for = replay->executables[segment_index] || segment->engine > 0 ? 0 : -1;
    return replay->executables[segment_index] ? ZT_OK : zt_ctx_status(session->ctx);
}

static zt_status alloc_staging(zt_session *session, session_replay *replay, int root)
{
    if (replay->host[root]) return ZT_OK;
    replay->host[root] = zt_alloc(session->ctx, zt_type_bytes(&replay->bound->type[root]));
    return replay->host[root] ? ZT_OK : ZT_ENOMEM;
}

static bool is_program_output(const zt_session *session, const session_replay *replay, int root)
{
    for (int output_index = 0; output_index < zt_prog_n_outputs(session->program); output_index++)
        if (replay->partition.wanted[output_index] &&
            replay->partition.roots[zt_prog_output(session->program, output_index)->value] == root)
            return true;
    return false;
}

/* Host memory for what leaves a segment and is not the caller's, and for states that move. */
static zt_status alloc_all_staging(zt_session *session, session_replay *replay)
{
    zt_status status = ZT_OK;
    for (int segment_index = 0; segment_index < replay->partition.n_segments && !status; segment_index++) {
        const zt_segment *segment = &replay->partition.segments[segment_index];
        for (int output = 0; output < segment->n_outputs && !status; output++)
            if (!is_program_output(session, replay, segment->outputs[output]))
                status = alloc_staging(session, replay, segment->outputs[output]);
        for (int k = 0; k < segment->n_buffers && !status; k++)
            if (segment->engine > 0 && zt_prog_value(session->program, segment->buffers[k])->kind == ZT_VALUE_STATE)
                status = alloc_staging(session, replay, segment->buffers[k]);
    }
    for (int state_index = 0; state_index < zt_prog_count(session->program, ZT_VALUE_STATE) && !status; state_index++) {
        int value_id = zt_prog_nth(session->program, ZT_VALUE_STATE, state_index),
            keep = zt_prog_value(session->program, value_id)->keep;
        if (keep >= 0 && replay->partition.roots[keep] != value_id &&
            zt_prog_value(session->program, replay->partition.roots[keep])->kind == ZT_VALUE_STATE)
            status = alloc_staging(session, replay, replay->partition.roots[keep]);
    }
    return status;
}

static zt_status fill_replay(zt_session *session, session_replay *replay, const int64_t *symbols, void *const *outputs)
{
    zt_binding bindings[ZT_MAX_SYMBOLS];
    int symbol_count = zt_prog_n_symbols(session->program);
    size_t n_values = (size_t)zt_prog_n_values(session->program) + 1;
    for (int symbol_id = 0; symbol_id < symbol_count; symbol_id++)
        bindings[symbol_id] = (zt_binding){zt_prog_symbol_name(session->program, symbol_id), symbols[symbol_id]};
    memcpy(replay->symbols, symbols, (size_t)symbol_count * sizeof *symbols);
    replay->bound = zt_prog_bind(session->program, bindings, symbol_count);
    if (!replay->bound) return zt_ctx_status(session->ctx);
    const zt_plan_layout *layout = session->options.plan ? zt_plan_file_find(session->options.plan, symbols, outputs) : NULL;
    zt_status status =
        zt_partition_make(&replay->partition, &session->chain, replay->bound, session->options.strict, outputs, layout);
    if (status) return status;
    replay->executables = zt_calloc(session->ctx, (size_t)replay->partition.n_segments + 1, sizeof *replay->executables);
    replay->schedules =
        zt_arena_alloc(replay->partition.memory, ((size_t)replay->partition.n_segments + 1) * sizeof *replay->schedules);
    replay->host = zt_calloc(session->ctx, n_values, sizeof *replay->host);
    replay->segment_inputs = zt_calloc(session->ctx, n_values, sizeof *replay->segment_inputs);
    replay->segment_outputs = zt_calloc(session->ctx, n_values, sizeof *replay->segment_outputs);
    if (!replay->executables || !replay->schedules || !replay->host || !replay->segment_inputs || !replay->segment_outputs)
        return ZT_ENOMEM;
    for (int segment_index = 0; segment_index < replay->partition.n_segments && !status; segment_index++) {
        for (int engine_index = 1; engine_index <= replay->partition.segments[segment_index].engine; engine_index++)
            if (!session->buffers[engine_index])
                session->buffers[engine_index] = zt_calloc(session->ctx, n_values, sizeof *session->buffers[engine_index]);
        if (!session->buffers[replay->partition.segments[segment_index].engine]) return ZT_ENOMEM;
        status = prepare_segment(session, replay, segment_index);
    }
    if (!status) status = alloc_all_staging(session, replay);
    session->report.fallbacks = replay->partition.fallbacks;
    return status;
}

/* ---- a device without memory ----------------------------------------------------------------- */

/* What the first engine had no memory for is noted as past it: a weight for good, a schedule once. */
static bool spill_to_next(zt_session *session, zt_status status)
{
    char what[160] = "this plan";
    if (session->no_memory_for == 0 || session->options.plan) return false;
    if (session->no_memory_for > 0) {
        const char *name = zt_prog_value(session->program, session->no_memory_for - 1)->tensor;
        snprintf(what, sizeof what, "the steps that read '%.120s'", name ? name : "a state");
        if (!name) return false; /* states live on the first engine */
    }
    if (!zt_chain_spill(&session->chain, session->options.strict, status, what)) return false;
    session->chain.skip_first = session->no_memory_for < 0;
    if (session->no_memory_for < 0) return true;
    bool **apart = &session->chain.skip_first_for;
    if (!*apart) *apart = zt_calloc(session->ctx, (size_t)zt_prog_n_values(session->program) + 1, sizeof **apart);
    if (*apart) (*apart)[session->no_memory_for - 1] = true;
    return *apart != NULL;
}

static session_replay *make_replay(zt_session *session, const int64_t *symbols, void *const *outputs)
{
    zt_status status = ZT_OK;
    session_replay *replay = NULL;
    do {
        free_replay(session, replay);
        session->no_memory_for = 0;
        replay = zt_calloc(session->ctx, 1, sizeof *replay);
        status = replay ? fill_replay(session, replay, symbols, outputs) : ZT_ENOMEM;
    } while (status && spill_to_next(session, status));
    session->chain.skip_first = false;
    if (!status) return replay;
    free_replay(session, replay);
    return NULL;
}

/* ---- kept replays ----------------------------------------------------------------------------- */

/* The symbol values of a step: those fixed, then those given. */
static zt_status step_symbols(zt_session *session, const zt_binding *bindings, int binding_count, int64_t *symbols)
{
    for (int symbol_id = 0; symbol_id < zt_prog_n_symbols(session->program); symbol_id++) {
        const char *name = zt_prog_symbol_name(session->program, symbol_id);
        symbols[symbol_id] = session->fixed[symbol_id];
        for (int binding_index = 0; binding_index < binding_count && symbols[symbol_id] < 0; binding_index++)
            if (bindings[binding_index].symbol && strcmp(bindings[binding_index].symbol, name) == 0)
                symbols[symbol_id] = bindings[binding_index].value;
        if (symbols[symbol_id] < 0) return zt_fail(session->ctx, ZT_EUSAGE, "no value for symbol '%s'", name);
    }
    return ZT_OK;
}

/* Of those symbols, for those outputs? */
static bool replay_matches(const zt_session *session, const session_replay *replay, const int64_t *symbols, void *const *outputs)
{
    for (int output_index = 0; output_index < zt_prog_n_outputs(session->program); output_index++)
        if (replay->partition.wanted[output_index] != (!outputs || outputs[output_index])) return false;
    return !memcmp(replay->symbols, symbols, (size_t)zt_prog_n_symbols(session->program) * sizeof *symbols);
}

static session_replay *get_replay(zt_session *session, const zt_binding *bindings, int binding_count, void *const *outputs)
{
    int64_t symbols[ZT_MAX_SYMBOLS];
    int oldest = 0;
    if (step_symbols(session, bindings, binding_count, symbols)) return NULL;
    for (int i = 0; i < MAX_PREPARED; i++) {
        if (session->cache[i] && replay_matches(session, session->cache[i], symbols, outputs)) {
            session->cache[i]->used = ++session->clock;
            return session->cache[i];
        }
        if (!session->cache[i] || (session->cache[oldest] && session->cache[i]->used < session->cache[oldest]->used)) oldest = i;
    }
    session_replay *replay = make_replay(session, symbols, outputs);
    if (!replay) return NULL;
    free_replay(session, session->cache[oldest]);
    replay->used = ++session->clock;
    session->report.prepared++;
    return session->cache[oldest] = replay;
}

zt_status zt_session_prepare(zt_session *session, const zt_binding *bindings, int binding_count, void *const *outputs)
{
    if (!session) return ZT_EUSAGE;
    ZT_REQUIRE(session->ctx, bindings || binding_count <= 0, ZT_EUSAGE);
    return get_replay(session, bindings, binding_count, outputs) ? ZT_OK : zt_ctx_status(session->ctx);
}

void zt_session_forget(zt_session *session)
{
    if (!session) return;
    for (int i = 0; i < MAX_PREPARED; i++) {
        free_replay(session, session->cache[i]);
        session->cache[i] = NULL;
    }
}

/* ---- a step ----------------------------------------------------------------------------------- */

/* Where a root's bytes are on the host: the caller's input or output, or our staging. */
static void *host_bytes(zt_session *session, session_replay *replay, int root, const void *const *inputs, void *const *outputs)
{
    const zt_value *value = zt_prog_value(session->program, root);
    if (value->kind == ZT_VALUE_IN) return (void *)(uintptr_t)inputs[value->index];
    for (int output_index = 0; output_index < zt_prog_n_outputs(session->program); output_index++)
        if (outputs[output_index] && replay->partition.roots[zt_prog_output(session->program, output_index)->value] == root)
            return outputs[output_index];
    return replay->host[root];
}

static bool is_donated_in(const zt_partition *partition, const zt_segment *segment, int root)
{
    for (int i = segment->first; i < segment->last; i++)
        for (int donated = 0; donated < zt_op_info(partition->steps[i].op)->def->donates; donated++)
            if (partition->roots[partition->steps[i].in[donated]] == root) return true;
    return false;
}

/* States used away from home go there before a segment and, if updated, come back after it. */
static zt_status move_states(zt_session *session, session_replay *replay, const zt_segment *segment, bool home)
{
    if (segment->engine == 0) return ZT_OK;
    zt_engine *home_engine = session->chain.engines[0], *away_engine = session->chain.engines[segment->engine];
    for (int k = 0; k < segment->n_buffers; k++) {
        int value_id = segment->buffers[k];
        if (zt_prog_value(session->program, value_id)->kind != ZT_VALUE_STATE) continue;
        if (home && !is_donated_in(&replay->partition, segment, value_id)) continue;
        zt_engine *from = home ? away_engine : home_engine, *to = home ? home_engine : away_engine;
        zt_status status =
            from->vt->download(from, session->buffers[home ? segment->engine : 0][value_id], replay->host[value_id]);
        if (!status) status = to->vt->upload(to, session->buffers[home ? 0 : segment->engine][value_id], replay->host[value_id]);
        if (status) return status;
    }
    return ZT_OK;
}

static zt_status run_segment(zt_session *session, session_replay *replay, int segment_index, const void *const *inputs,
                             void *const *outputs)
{
    const zt_segment *segment = &replay->partition.segments[segment_index];
    zt_engine *engine = session->chain.engines[segment->engine];
    for (int input = 0; input < segment->n_inputs; input++)
        replay->segment_inputs[input] = host_bytes(session, replay, segment->inputs[input], inputs, outputs);
    for (int output = 0; output < segment->n_outputs; output++)
        replay->segment_outputs[output] = host_bytes(session, replay, segment->outputs[output], inputs, outputs);
    zt_status status = move_states(session, replay, segment, false);
    if (!status)
        status = engine->vt->replay(engine, replay->executables[segment_index], replay->segment_inputs, replay->segment_outputs,
                                    session->watched ? &session->watch : NULL);
    return status ? status : move_states(session, replay, segment, true);
}

/* Outputs that no segment wrote where the caller wants them: inputs, states, data, twins. */
static zt_status copy_outputs(zt_session *session, session_replay *replay, const void *const *inputs, void *const *outputs)
{
    zt_engine *engine = session->chain.engines[0];
    for (int output_index = 0; output_index < zt_prog_n_outputs(session->program); output_index++) {
        int root = replay->partition.roots[zt_prog_output(session->program, output_index)->value];
        const zt_value *value = zt_prog_value(session->program, root);
        size_t bytes = zt_type_bytes(&replay->bound->type[root]);
        zt_status status = ZT_OK;
        int64_t handle;
        zt_type type;
        if (!outputs[output_index]) continue;
        if (value->kind == ZT_VALUE_STATE) {
            status = engine->vt->download(engine, session->buffers[0][root], outputs[output_index]);
        } else if (value->kind == ZT_VALUE_DATA) {
            status = session->store.find(session->store.user, value->tensor, &type, &handle);
            if (!status) status = session->store.read(session->store.user, handle, 0, outputs[output_index], bytes);
        } else {
            void *from = host_bytes(session, replay, root, inputs, outputs);
            if (from != outputs[output_index] && bytes) memcpy(outputs[output_index], from, bytes);
        }
        if (status) return status;
    }
    return ZT_OK;
}

/* `keep s = v` where v is not s updated in place: copy it through the host. Two passes, so that
 * states may trade places. */
static zt_status copy_keeps(zt_session *session, session_replay *replay, const void *const *inputs, void *const *outputs)
{
    zt_engine *engine = session->chain.engines[0];
    zt_status status = ZT_OK;
    for (int pass = 0; pass < 2; pass++) {
        for (int state_index = 0; state_index < zt_prog_count(session->program, ZT_VALUE_STATE) && !status; state_index++) {
            int value_id = zt_prog_nth(session->program, ZT_VALUE_STATE, state_index),
                keep = zt_prog_value(session->program, value_id)->keep;
            if (keep < 0 || replay->partition.roots[keep] == value_id) continue;
            int root = replay->partition.roots[keep];
            bool state = zt_prog_value(session->program, root)->kind == ZT_VALUE_STATE;
            if (pass == 0 && state) status = engine->vt->download(engine, session->buffers[0][root], replay->host[root]);
            if (pass == 1)
                status = engine->vt->upload(engine, session->buffers[0][value_id],
                                            state ? replay->host[root] : host_bytes(session, replay, root, inputs, outputs));
        }
    }
    return status;
}

static void report_metrics(const zt_session *session, const session_replay *replay)
{
    for (int segment_index = 0; segment_index < replay->partition.n_segments; segment_index++) {
        const zt_segment *segment = &replay->partition.segments[segment_index];
        for (int k = segment->first; k < segment->last; k++) {
            const zt_step *step = &replay->partition.steps[k];
            zt_type output_types[ZT_MAX_OUT] = {0};
            for (int output_index = 0; output_index < zt_op_info(step->op)->n_out; output_index++)
                output_types[output_index] = step->out[output_index] < 0 ? zt_type_make(ZT_U8, 1, (int64_t[]){0})
                                                                         : replay->bound->type[step->out[output_index]];
            zt_run_metrics(session->ctx, step->op, output_types, segment->engine > 0);
        }
    }
}

zt_status zt_session_step(zt_session *session, const zt_binding *bindings, int binding_count, const void *const *inputs,
                          void *const *outputs)
{
    if (!session) return ZT_EUSAGE;
    ZT_REQUIRE(session->ctx, bindings || binding_count <= 0, ZT_EUSAGE);
    session_replay *replay = get_replay(session, bindings, binding_count, outputs);
    if (!replay) return zt_ctx_status(session->ctx);
    zt_status status = ZT_OK;
    for (int segment_index = 0; segment_index < replay->partition.n_segments && !status; segment_index++)
        status = run_segment(session, replay, segment_index, inputs, outputs);
    if (!status) status = copy_outputs(session, replay, inputs, outputs);
    if (!status) status = copy_keeps(session, replay, inputs, outputs);
    if (!status && zt_metrics_on(session->ctx)) report_metrics(session, replay);
    session->report.steps++;
    return status;
}

/* ---- open and close -------------------------------------------------------------------------- */

static zt_status bind_states(zt_session *session)
{
    int state_count = zt_prog_count(session->program, ZT_VALUE_STATE);
    session->state_type = zt_calloc(session->ctx, (size_t)state_count + 1, sizeof *session->state_type);
    if (!session->state_type) return ZT_ENOMEM;
    if (state_count == 0) return ZT_OK;
    /* Symbols that only rows depend on do not matter to states: 1 stands for them. */
    zt_binding bindings[ZT_MAX_SYMBOLS];
    int n_symbols = zt_prog_n_symbols(session->program);
    for (int symbol_id = 0; symbol_id < n_symbols; symbol_id++)
        bindings[symbol_id] = (zt_binding){zt_prog_symbol_name(session->program, symbol_id),
                                           session->fixed[symbol_id] < 0 ? 1 : session->fixed[symbol_id]};
    zt_bound *bound = zt_prog_bind(session->program, bindings, n_symbols);
    if (!bound) return zt_ctx_status(session->ctx);
    for (int state_index = 0; state_index < state_count; state_index++)
        session->state_type[state_index] = bound->type[zt_prog_nth(session->program, ZT_VALUE_STATE, state_index)];
    zt_bound_free(bound);
    return make_states(session);
}

/* Checks all layouts of the plan file, against the program and this engine. */
static zt_status check_plan_file(zt_session *session)
{
    const zt_plan_file *plan = session->options.plan;
    int symbol_count = zt_prog_n_symbols(session->program), n_out = zt_prog_n_outputs(session->program);
    void **outputs = zt_calloc(session->ctx, (size_t)n_out + 1, sizeof *outputs);
    zt_status status = outputs ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < zt_plan_file_count(plan) && !status; i++) {
        const zt_plan_layout *layout = zt_plan_file_nth(plan, i);
        zt_binding bindings[ZT_MAX_SYMBOLS];
        zt_partition partition;
        for (int symbol_id = 0; symbol_id < symbol_count; symbol_id++)
            bindings[symbol_id] = (zt_binding){zt_prog_symbol_name(session->program, symbol_id), layout->symbols[symbol_id]};
        for (int output_index = 0; output_index < n_out; output_index++)
            outputs[output_index] = layout->wanted[output_index] ? session : NULL;
        zt_bound *bound = zt_prog_bind(session->program, bindings, symbol_count);
        status = bound ? zt_partition_make(&partition, &session->chain, bound, session->options.strict, outputs, layout)
                       : zt_ctx_status(session->ctx);
        if (bound && !status) zt_partition_free(&partition);
        zt_bound_free(bound);
    }
    zt_free(session->ctx, outputs);
    return status;
}

zt_session *zt_session_open(zt_engine *engine, const zt_prog *program, const zt_store *store, const zt_session_opts *options)
{
    if (!engine) return NULL;
    ZT_REQUIRE(engine->ctx, program, NULL);
    zt_session *session = zt_calloc(engine->ctx, 1, sizeof *session);
    if (!session) return NULL;
    session->ctx = engine->ctx;
    session->program = program;
    if (store) session->store = *store;
    if (options) session->options = *options;
    zt_chain_init(&session->chain, engine);
    for (int symbol_id = 0; symbol_id < zt_prog_n_symbols(program); symbol_id++) {
        session->fixed[symbol_id] = -1;
        for (int fixed_index = 0; fixed_index < session->options.n_fixed; fixed_index++)
            if (strcmp(session->options.fixed[fixed_index].symbol, zt_prog_symbol_name(program, symbol_id)) == 0)
                session->fixed[symbol_id] = session->options.fixed[fixed_index].value;
    }
    session->buffers[0] = zt_calloc(session->ctx, (size_t)zt_prog_n_values(program) + 1, sizeof *session->buffers[0]);
    if (!session->buffers[0] || (session->options.plan && check_plan_file(session)) || bind_states(session)) {
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
        for (int value_id = 0; session->buffers[engine_index] && value_id < zt_prog_n_values(session->program); value_id++)
            if (session->buffers[engine_index][value_id] && !is_borrowed(session, engine_index, value_id))
                session->chain.engines[engine_index]->vt->free(session->chain.engines[engine_index],
                                                               session->buffers[engine_index][value_id]);
        zt_free(session->ctx, session->buffers[engine_index]);
    }
    zt_chain_fini(&session->chain);
    zt_free(session->ctx, session->state_type);
    zt_free(session->ctx, session);
}

/* ---- states and figures ---------------------------------------------------------------------- */

zt_type zt_session_state_type(const zt_session *session, int i)
{
    if (!session || i < 0 || i >= zt_prog_count(session->program, ZT_VALUE_STATE)) return (zt_type){.rank = -1};
    return session ? session->state_type[i] : (zt_type){.rank = -1};
}

zt_status zt_session_state_get(zt_session *session, int i, void *host)
{
    if (!session) return ZT_EUSAGE;
    ZT_REQUIRE(session->ctx, host && i >= 0 && i < zt_prog_count(session->program, ZT_VALUE_STATE), ZT_EUSAGE);
    zt_engine *engine = session->chain.engines[0];
    return engine->vt->download(engine, session->buffers[0][zt_prog_nth(session->program, ZT_VALUE_STATE, i)], host);
}

zt_status zt_session_state_set(zt_session *session, int i, const void *host)
{
    if (!session) return ZT_EUSAGE;
    ZT_REQUIRE(session->ctx, host && i >= 0 && i < zt_prog_count(session->program, ZT_VALUE_STATE), ZT_EUSAGE);
    zt_engine *engine = session->chain.engines[0];
    return engine->vt->upload(engine, session->buffers[0][zt_prog_nth(session->program, ZT_VALUE_STATE, i)], host);
}

size_t zt_session_state_own(const zt_session *session, int i)
{
    zt_type type = zt_session_state_type(session, i);
    if (type.rank < 0) return 0;
    zt_engine *engine = session->chain.engines[0];
    return engine->vt->value_bytes(engine, &type);
}

static bool has_part(const zt_session *session, int i, size_t offset, size_t bytes)
{
    const size_t whole = zt_session_state_own(session, i);
    return i >= 0 && i < zt_prog_count(session->program, ZT_VALUE_STATE) && offset <= whole && bytes <= whole - offset;
}

zt_status zt_session_state_read(zt_session *session, int i, size_t offset, size_t bytes, void *host)
{
    if (!session) return ZT_EUSAGE;
    ZT_REQUIRE(session->ctx, (host || !bytes) && has_part(session, i, offset, bytes), ZT_EUSAGE);
    zt_engine *engine = session->chain.engines[0];
    if (!engine->vt->read_part)
        return zt_fail(session->ctx, ZT_ENOTSUP, "engine %s cannot read a part of a state", engine->vt->name);
    return engine->vt->read_part(engine, session->buffers[0][zt_prog_nth(session->program, ZT_VALUE_STATE, i)], offset, bytes,
                                 host);
}

zt_status zt_session_state_write(zt_session *session, int i, size_t offset, size_t bytes, const void *host)
{
    if (!session) return ZT_EUSAGE;
    ZT_REQUIRE(session->ctx, (host || !bytes) && has_part(session, i, offset, bytes), ZT_EUSAGE);
    zt_engine *engine = session->chain.engines[0];
    if (!engine->vt->write_part)
        return zt_fail(session->ctx, ZT_ENOTSUP, "engine %s cannot write a part of a state", engine->vt->name);
    return engine->vt->write_part(engine, session->buffers[0][zt_prog_nth(session->program, ZT_VALUE_STATE, i)], offset, bytes,
                                  host);
}

zt_engine *zt_session_engine(const zt_session *session) { return session ? session->chain.engines[0] : NULL; }

const zt_prog *zt_session_prog(const zt_session *session) { return session ? session->program : NULL; }

zt_session_report zt_session_get(const zt_session *session) { return session ? session->report : (zt_session_report){0}; }

void zt_session_watch(zt_session *session, const zt_watch *watch)
{
    if (!session) return;
    session->watched = watch != NULL;
    if (watch) session->watch = *watch;
}

static const session_replay *latest_replay(const zt_session *session)
{
    const session_replay *replay = NULL;
    for (int i = 0; i < MAX_PREPARED; i++)
        if (session->cache[i] && (!replay || session->cache[i]->used > replay->used)) replay = session->cache[i];
    return replay;
}

int zt_session_parts(const zt_session *session)
{
    return session ? (latest_replay(session) ? latest_replay(session)->partition.n_segments : 0) : 0;
}

zt_session_part zt_session_part_at(const zt_session *session, int i)
{
    if (!session) return (zt_session_part){0};
    if (i < 0 || i >= zt_session_parts(session)) return (zt_session_part){0};
    const session_replay *replay = latest_replay(session);
    const zt_segment *segment = &replay->partition.segments[i];
    return (zt_session_part){session->chain.engines[segment->engine], &replay->schedules[i], segment->liveness_bytes};
}
