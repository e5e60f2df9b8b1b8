/* rewrite.c - owns how a pass copies a program: mapped inputs, names that go on, keeps, outputs. */
#include "lib/run/passes/rewrite.h"

#include <string.h>

zt_status zt_rewrite_begin(zt_rewrite *rewrite, zt_ctx *ctx, const zt_prog *source)
{
    *rewrite = (zt_rewrite){.ctx = ctx, .source = source};
    rewrite->map = zt_alloc_array(ctx, (size_t)zt_prog_n_values(source) + 1, sizeof *rewrite->map);
    if (!rewrite->map) return ZT_ENOMEM;
    rewrite->target = zt_prog_like(source, rewrite->map);
    return rewrite->target ? ZT_OK : zt_ctx_status(ctx);
}

zt_status zt_rewrite_op(zt_rewrite *rewrite, zt_op op, const void *attrs, const int *inputs, const int *stands)
{
    const zt_opinfo *op_info = zt_op_info(op);
    const char *names[ZT_MAX_OUT] = {0};
    int to_in[ZT_MAX_IN], outputs[ZT_MAX_OUT];
    for (int input = 0; input < op_info->n_in; input++) to_in[input] = inputs[input] < 0 ? ZT_NONE : rewrite->map[inputs[input]];
    for (int output = 0; output < op_info->n_out; output++)
        names[output] = stands[output] >= 0 ? zt_prog_value(rewrite->source, stands[output])->name : output ? "_" : NULL;
    zt_status status = zt_prog_op(rewrite->target, op, attrs, to_in, names, outputs);
    for (int output = 0; output < op_info->n_out && !status; output++)
        if (stands[output] >= 0) rewrite->map[stands[output]] = outputs[output];
    return status;
}

zt_status zt_rewrite_copy(zt_rewrite *rewrite, int step, const unsigned *wanted)
{
    const zt_step *source_step = zt_prog_step(rewrite->source, step);
    int stands[ZT_MAX_OUT];
    for (int output = 0; output < ZT_MAX_OUT; output++)
        stands[output] = output == 0 || !wanted || *wanted >> output & 1 ? source_step->out[output] : ZT_NONE;
    return zt_rewrite_op(rewrite, source_step->op, source_step->attrs, source_step->in, stands);
}

static zt_status end_outputs(zt_rewrite *rewrite)
{
    const zt_prog *program = rewrite->source;
    zt_status status = ZT_OK;
    for (int state_index = 0; state_index < zt_prog_count(program, ZT_VALUE_STATE) && !status; state_index++) {
        int value_id = zt_prog_nth(program, ZT_VALUE_STATE, state_index), keep = zt_prog_value(program, value_id)->keep;
        if (keep >= 0) status = zt_prog_keep(rewrite->target, rewrite->map[value_id], rewrite->map[keep]);
    }
    for (int output_index = 0; output_index < zt_prog_n_outputs(program) && !status; output_index++)
        status = zt_prog_out(rewrite->target, zt_prog_output(program, output_index)->name,
                             rewrite->map[zt_prog_output(program, output_index)->value]);
    return status;
}

zt_status zt_rewrite_end(zt_rewrite *rewrite, zt_status status, zt_prog **rewritten)
{
    if (!status) status = end_outputs(rewrite);
    if (status) zt_prog_free(rewrite->target);
    *rewritten = status ? NULL : rewrite->target;
    zt_free(rewrite->ctx, rewrite->map);
    return status;
}

void zt_prog_roots(const zt_prog *program, int *root)
{
    for (int value_id = 0; value_id < zt_prog_n_values(program); value_id++) root[value_id] = value_id;
    for (int step_index = 0; step_index < zt_prog_n_steps(program); step_index++) {
        const zt_step *step = zt_prog_step(program, step_index);
        for (int k = 0; k < zt_op_shares(step->op); k++)
            if (step->out[k] >= 0) root[step->out[k]] = root[step->in[k]];
    }
}
