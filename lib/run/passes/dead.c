/* dead.c - the pass dead: steps that no output or state hangs on go, and outputs of the others that
 * nobody reads. What updates a state stays. */
#include "lib/run/passes/rewrite.h"

#include <string.h>

typedef struct liveness {
    bool *live;       /* [steps] */
    bool *read;       /* [values] by a live step, a keep or an output */
    unsigned *wanted; /* [steps]: bit k, output k is read */
} liveness;

static void mark_ends(const zt_prog *program, bool *read)
{
    for (int output_index = 0; output_index < zt_prog_n_outputs(program); output_index++)
        read[zt_prog_output(program, output_index)->value] = true;
    for (int state_index = 0; state_index < zt_prog_count(program, ZT_VALUE_STATE); state_index++) {
        int keep = zt_prog_value(program, zt_prog_nth(program, ZT_VALUE_STATE, state_index))->keep;
        if (keep >= 0) read[keep] = true;
    }
}

/* Is there anything to drop. */
static bool find_dead(const zt_prog *program, liveness *usage)
{
    bool some = false;
    mark_ends(program, usage->read);
    for (int step_index = zt_prog_n_steps(program); step_index-- > 0;) {
        const zt_step *step = zt_prog_step(program, step_index);
        const zt_opinfo *op_info = zt_op_info(step->op);
        for (int output = 0; output < op_info->n_out; output++) {
            if (step->out[output] < 0) continue;
            usage->wanted[step_index] |= (unsigned)usage->read[step->out[output]] << output;
            some = some || (output > 0 && !usage->read[step->out[output]]);
        }
        usage->live[step_index] = usage->wanted[step_index] || op_info->def->donates;
        some = some || !usage->live[step_index];
        for (int input = 0; input < op_info->n_in && usage->live[step_index]; input++)
            if (step->in[input] >= 0) usage->read[step->in[input]] = true;
    }
    return some;
}

static zt_status drop_dead(zt_ctx *ctx, const zt_prog *program, const liveness *usage, zt_prog **rewritten)
{
    zt_rewrite rewrite;
    zt_status status = zt_rewrite_begin(&rewrite, ctx, program);
    for (int step_index = 0; step_index < zt_prog_n_steps(program) && !status; step_index++)
        if (usage->live[step_index]) status = zt_rewrite_copy(&rewrite, step_index, &usage->wanted[step_index]);
    return zt_rewrite_end(&rewrite, status, rewritten);
}

static zt_status run_dead_pass(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *options, zt_prog **rewritten)
{
    size_t steps = (size_t)zt_prog_n_steps(program) + 1;
    (void)options;
    liveness usage = {.live = zt_calloc(ctx, steps, sizeof *usage.live),
                      .read = zt_calloc(ctx, (size_t)zt_prog_n_values(program) + 1, sizeof *usage.read),
                      .wanted = zt_calloc(ctx, steps, sizeof *usage.wanted)};
    zt_status status = usage.live && usage.read && usage.wanted ? ZT_OK : ZT_ENOMEM;
    if (!status && find_dead(program, &usage)) status = drop_dead(ctx, program, &usage, rewritten);
    zt_free(ctx, usage.live);
    zt_free(ctx, usage.read);
    zt_free(ctx, usage.wanted);
    return status;
}

const zt_pass zt_pass_dead = {
    .name = "dead",
    .help = "dead code elimination: drop steps that no output or state depends on",
    .run = run_dead_pass,
};
