/* dead.c - the pass dead: steps that no output or state hangs on go, and outputs of the others that
 * nobody reads. What updates a state stays. */
#include "lib/run/passes/rewrite.h"

#include <string.h>

typedef struct use {
    bool *live;       /* [steps] */
    bool *read;       /* [values] by a live step, a keep or an output */
    unsigned *wanted; /* [steps]: bit k, output k is read */
} use;

static void mark_ends(const zt_prog *p, bool *read)
{
    for (int o = 0; o < zt_prog_n_outputs(p); o++) read[zt_prog_output(p, o)->value] = true;
    for (int i = 0; i < zt_prog_count(p, ZT_VALUE_STATE); i++) {
        int keep = zt_prog_value(p, zt_prog_nth(p, ZT_VALUE_STATE, i))->keep;
        if (keep >= 0) read[keep] = true;
    }
}

/* Is there anything to drop. */
static bool find_dead(const zt_prog *p, use *u)
{
    bool some = false;
    mark_ends(p, u->read);
    for (int s = zt_prog_n_steps(p); s-- > 0;) {
        const zt_step *st = zt_prog_step(p, s);
        const zt_opinfo *info = zt_op_info(st->op);
        for (int k = 0; k < info->n_out; k++) {
            if (st->out[k] < 0) continue;
            u->wanted[s] |= (unsigned)u->read[st->out[k]] << k;
            some = some || (k > 0 && !u->read[st->out[k]]);
        }
        u->live[s] = u->wanted[s] || info->def->donates;
        some = some || !u->live[s];
        for (int k = 0; k < info->n_in && u->live[s]; k++)
            if (st->in[k] >= 0) u->read[st->in[k]] = true;
    }
    return some;
}

static zt_status drop(zt_ctx *ctx, const zt_prog *p, const use *u, zt_prog **out)
{
    zt_rewrite w;
    zt_status s = zt_rewrite_begin(&w, ctx, p);
    for (int i = 0; i < zt_prog_n_steps(p) && !s; i++)
        if (u->live[i]) s = zt_rewrite_copy(&w, i, &u->wanted[i]);
    return zt_rewrite_end(&w, s, out);
}

static zt_status run(zt_ctx *ctx, const zt_prog *p, const zt_pass_opts *opts, zt_prog **out)
{
    size_t steps = (size_t)zt_prog_n_steps(p) + 1;
    (void)opts;
    use u = {.live = zt_calloc(ctx, steps, sizeof *u.live),
             .read = zt_calloc(ctx, (size_t)zt_prog_n_values(p) + 1, sizeof *u.read),
             .wanted = zt_calloc(ctx, steps, sizeof *u.wanted)};
    zt_status s = u.live && u.read && u.wanted ? ZT_OK : ZT_ENOMEM;
    if (!s && find_dead(p, &u)) s = drop(ctx, p, &u, out);
    zt_free(ctx, u.live);
    zt_free(ctx, u.read);
    zt_free(ctx, u.wanted);
    return s;
}

const zt_pass zt_pass_dead = {
    .name = "dead",
    .help = "drop what no output or state hangs on",
    .run = run,
};
