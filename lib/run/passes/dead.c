/* dead.c - the pass dead: steps that no output or state hangs on go, and outputs of the others that
 * nobody reads. What updates a state stays. */
#include "lib/run/passes/rewrite.h"

#include <string.h>

typedef struct use {
    bool *live;       /* [steps] */
    bool *read;       /* [values] by a live step, a keep or an output */
    unsigned *wanted; /* [steps]: bit k, output k is read */
} use;

static void mark_ends(const zt_prog *program, bool *read)
{
    for (int o = 0; o < zt_prog_n_outputs(program); o++) read[zt_prog_output(program, o)->value] = true;
    for (int i = 0; i < zt_prog_count(program, ZT_VALUE_STATE); i++) {
        int keep = zt_prog_value(program, zt_prog_nth(program, ZT_VALUE_STATE, i))->keep;
        if (keep >= 0) read[keep] = true;
    }
}

/* Is there anything to drop. */
static bool find_dead(const zt_prog *program, use *u)
{
    bool some = false;
    mark_ends(program, u->read);
    for (int s = zt_prog_n_steps(program); s-- > 0;) {
        const zt_step *step = zt_prog_step(program, s);
        const zt_opinfo *info = zt_op_info(step->op);
        for (int k = 0; k < info->n_out; k++) {
            if (step->out[k] < 0) continue;
            u->wanted[s] |= (unsigned)u->read[step->out[k]] << k;
            some = some || (k > 0 && !u->read[step->out[k]]);
        }
        u->live[s] = u->wanted[s] || info->def->donates;
        some = some || !u->live[s];
        for (int k = 0; k < info->n_in && u->live[s]; k++)
            if (step->in[k] >= 0) u->read[step->in[k]] = true;
    }
    return some;
}

static zt_status drop(zt_ctx *ctx, const zt_prog *program, const use *u, zt_prog **out)
{
    zt_rewrite rewrite;
    zt_status status = zt_rewrite_begin(&rewrite, ctx, program);
    for (int i = 0; i < zt_prog_n_steps(program) && !status; i++)
        if (u->live[i]) status = zt_rewrite_copy(&rewrite, i, &u->wanted[i]);
    return zt_rewrite_end(&rewrite, status, out);
}

static zt_status run(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *opts, zt_prog **out)
{
    size_t steps = (size_t)zt_prog_n_steps(program) + 1;
    (void)opts;
    use u = {.live = zt_calloc(ctx, steps, sizeof *u.live),
             .read = zt_calloc(ctx, (size_t)zt_prog_n_values(program) + 1, sizeof *u.read),
             .wanted = zt_calloc(ctx, steps, sizeof *u.wanted)};
    zt_status status = u.live && u.read && u.wanted ? ZT_OK : ZT_ENOMEM;
    if (!status && find_dead(program, &u)) status = drop(ctx, program, &u, out);
    zt_free(ctx, u.live);
    zt_free(ctx, u.read);
    zt_free(ctx, u.wanted);
    return status;
}

const zt_pass zt_pass_dead = {
    .name = "dead",
    .help = "drop what no output or state hangs on",
    .run = run,
};
