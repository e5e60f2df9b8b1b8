/* session_step.c - a step of a session: its segments one after the other, states and outputs moved
 * to where they belong. */
#include "lib/run/session.h"

#include <string.h>

/* Where a root's bytes are on the host: the caller's input or output, or our staging. */
static void *host_bytes(zt_session *session, zt_replay *replay, int root, const void *const *inputs, void *const *outputs)
{
    const zt_value *value = zt_prog_value(session->prog, root);
    if (value->kind == ZT_VALUE_IN) return (void *)(uintptr_t)inputs[value->index];
    for (int output_index = 0; output_index < zt_prog_n_outputs(session->prog); output_index++)
        if (outputs[output_index] && replay->partition.root[zt_prog_output(session->prog, output_index)->value] == root)
            return outputs[output_index];
    return replay->host[root];
}

static bool is_donated_in(const zt_partition *partition, const zt_segment *segment, int root)
{
    for (int i = segment->first; i < segment->last; i++)
        for (int k = 0; k < zt_op_info(partition->step[i].op)->def->donates; k++)
            if (partition->root[partition->step[i].in[k]] == root) return true;
    return false;
}

/* States used away from home go there before a segment and, if updated, come back after it. */
static zt_status move_states(zt_session *session, zt_replay *replay, const zt_segment *segment, bool home)
{
    if (segment->engine == 0) return ZT_OK;
    zt_engine *home_engine = session->chain.engine[0], *away_engine = session->chain.engine[segment->engine];
    for (int k = 0; k < segment->n_buffers; k++) {
        int value_id = segment->buffers[k];
        if (zt_prog_value(session->prog, value_id)->kind != ZT_VALUE_STATE) continue;
        if (home && !is_donated_in(&replay->partition, segment, value_id)) continue;
        zt_engine *from = home ? away_engine : home_engine, *to = home ? home_engine : away_engine;
        zt_status status =
            from->vt->download(from, session->buffers[home ? segment->engine : 0][value_id], replay->host[value_id]);
        if (!status) status = to->vt->upload(to, session->buffers[home ? 0 : segment->engine][value_id], replay->host[value_id]);
        if (status) return status;
    }
    return ZT_OK;
}

static zt_status run_segment(zt_session *session, zt_replay *replay, int segment_index, const void *const *inputs,
                             void *const *outputs)
{
    const zt_segment *segment = &replay->partition.segment[segment_index];
    zt_engine *engine = session->chain.engine[segment->engine];
    for (int k = 0; k < segment->n_in; k++) replay->in[k] = host_bytes(session, replay, segment->in[k], inputs, outputs);
    for (int k = 0; k < segment->n_out; k++) replay->out[k] = host_bytes(session, replay, segment->out[k], inputs, outputs);
    zt_status status = move_states(session, replay, segment, false);
    if (!status)
        status = engine->vt->replay(engine, replay->executables[segment_index], replay->in, replay->out,
                                    session->watched ? &session->watch : NULL);
    return status ? status : move_states(session, replay, segment, true);
}

/* Outputs that no segment wrote where the caller wants them: inputs, states, data, twins. */
static zt_status copy_outputs(zt_session *session, zt_replay *replay, const void *const *inputs, void *const *outputs)
{
    zt_engine *engine = session->chain.engine[0];
    for (int output_index = 0; output_index < zt_prog_n_outputs(session->prog); output_index++) {
        int root = replay->partition.root[zt_prog_output(session->prog, output_index)->value];
        const zt_value *value = zt_prog_value(session->prog, root);
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
static zt_status copy_keeps(zt_session *session, zt_replay *replay, const void *const *inputs, void *const *outputs)
{
    zt_engine *engine = session->chain.engine[0];
    zt_status status = ZT_OK;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < zt_prog_count(session->prog, ZT_VALUE_STATE) && !status; i++) {
            int value_id = zt_prog_nth(session->prog, ZT_VALUE_STATE, i), keep = zt_prog_value(session->prog, value_id)->keep;
            if (keep < 0 || replay->partition.root[keep] == value_id) continue;
            int root = replay->partition.root[keep];
            bool state = zt_prog_value(session->prog, root)->kind == ZT_VALUE_STATE;
            if (pass == 0 && state) status = engine->vt->download(engine, session->buffers[0][root], replay->host[root]);
            if (pass == 1)
                status = engine->vt->upload(engine, session->buffers[0][value_id],
                                   state ? replay->host[root] : host_bytes(session, replay, root, inputs, outputs));
        }
    }
    return status;
}

static void report_metrics(const zt_session *session, const zt_replay *replay)
{
    for (int i = 0; i < replay->partition.n_segments; i++) {
        const zt_segment *segment = &replay->partition.segment[i];
        for (int k = segment->first; k < segment->last; k++) {
            const zt_step *step = &replay->partition.step[k];
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
    zt_replay *replay = zt_replay_get(session, bindings, binding_count, outputs);
    if (!replay) return zt_ctx_status(session->ctx);
    zt_status status = ZT_OK;
    for (int i = 0; i < replay->partition.n_segments && !status; i++) status = run_segment(session, replay, i, inputs, outputs);
    if (!status) status = copy_outputs(session, replay, inputs, outputs);
    if (!status) status = copy_keeps(session, replay, inputs, outputs);
    if (!status && zt_metrics_on(session->ctx)) report_metrics(session, replay);
    session->report.steps++;
    return status;
}
