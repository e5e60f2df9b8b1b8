/* rewrite.c - owns how a pass copies a program: mapped inputs, names that go on, keeps, outputs. */
#include "lib/run/passes/rewrite.h"

#include <string.h>

zt_status zt_rewrite_begin(zt_rewrite *rewrite, zt_ctx *ctx, const zt_prog *from)
{
    *rewrite = (zt_rewrite){.ctx = ctx, .from = from};
    rewrite->map = zt_alloc_array(ctx, (size_t)zt_prog_n_values(from) + 1, sizeof *rewrite->map);
    if (!rewrite->map) return ZT_ENOMEM;
    rewrite->to = zt_prog_like(from, rewrite->map);
    return rewrite->to ? ZT_OK : zt_ctx_status(ctx);
}

zt_status zt_rewrite_op(zt_rewrite *rewrite, zt_op op, const void *attrs, const int *inputs,
                        const int *stands)
{
    const zt_opinfo *info = zt_op_info(op);
    const char *names[ZT_MAX_OUT] = {0};
    int to_in[ZT_MAX_IN], outputs[ZT_MAX_OUT];
    for (int input = 0; input < info->n_in; input++) to_in[input] = inputs[input] < 0 ? ZT_NONE : rewrite->map[inputs[input]];
    for (int output = 0; output < info->n_out; output++)
        names[output] = stands[output] >= 0 ? zt_prog_value(rewrite->from, stands[output])->name : output ? "_" : NULL;
    zt_status status = zt_prog_op(rewrite->to, op, attrs, to_in, names, outputs);
    for (int output = 0; output < info->n_out && !status; output++)
        if (stands[output] >= 0) rewrite->map[stands[output]] = outputs[output];
    return status;
}

zt_status zt_rewrite_copy(zt_rewrite *rewrite, int step, const unsigned *wanted)
{
    const zt_step *source_step = zt_prog_step(rewrite->from, step);
    int stands[ZT_MAX_OUT];
    for (int output = 0; output < ZT_MAX_OUT; output++)
        stands[output] = output == 0 || !wanted || *wanted >> output & 1 ? source_step->out[output] : ZT_NONE;
    return zt_rewrite_op(rewrite, source_step->op, source_step->attrs, source_step->in, stands);
}

static zt_status end_outputs(zt_rewrite *rewrite)
{
    const zt_prog *program = rewrite->from;
    zt_status status = ZT_OK;
    for (int state_index = 0; state_index < zt_prog_count(program, ZT_VALUE_STATE) && !status; state_index++) {
        int value_id = zt_prog_nth(program, ZT_VALUE_STATE, state_index), keep = zt_prog_value(program, value_id)->keep;
        if (keep >= 0) status = zt_prog_keep(rewrite->to, rewrite->map[value_id], rewrite->map[keep]);
    }
    for (int output_index = 0; output_index < zt_prog_n_outputs(program) && !status; output_index++)
        status = zt_prog_out(rewrite->to, zt_prog_output(program, output_index)->name,
                             rewrite->map[zt_prog_output(program, output_index)->value]);
    return status;
}

zt_status zt_rewrite_end(zt_rewrite *rewrite, zt_status status, zt_prog **out)
{
    if (!status) status = end_outputs(rewrite);
    if (status) zt_prog_free(rewrite->to);
    *out = status ? NULL : rewrite->to;
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
