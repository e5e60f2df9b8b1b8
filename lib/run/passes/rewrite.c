/* rewrite.c - owns how a pass copies a program: mapped inputs, names that go on, keeps, outputs. */
#include "lib/run/passes/rewrite.h"

#include <string.h>

zt_status zt_rewrite_begin(zt_rewrite *w, zt_ctx *ctx, const zt_prog *from)
{
    *w = (zt_rewrite){.ctx = ctx, .from = from};
    w->map = zt_alloc_array(ctx, (size_t)zt_prog_n_values(from) + 1, sizeof *w->map);
    if (!w->map) return ZT_ENOMEM;
    w->to = zt_prog_like(from, w->map);
    return w->to ? ZT_OK : zt_ctx_status(ctx);
}

zt_status zt_rewrite_op(zt_rewrite *w, zt_op op, const void *attrs, const int *in,
                        const int *stands)
{
    const zt_opinfo *info = zt_op_info(op);
    const char *names[ZT_MAX_OUT] = {0};
    int to_in[ZT_MAX_IN], out[ZT_MAX_OUT];
    for (int k = 0; k < info->n_in; k++) to_in[k] = in[k] < 0 ? ZT_NONE : w->map[in[k]];
    for (int k = 0; k < info->n_out; k++)
        names[k] = stands[k] >= 0 ? zt_prog_value(w->from, stands[k])->name : k ? "_" : NULL;
    zt_status s = zt_prog_op(w->to, op, attrs, to_in, names, out);
    for (int k = 0; k < info->n_out && !s; k++)
        if (stands[k] >= 0) w->map[stands[k]] = out[k];
    return s;
}

zt_status zt_rewrite_copy(zt_rewrite *w, int step, const unsigned *wanted)
{
    const zt_step *st = zt_prog_step(w->from, step);
    int stands[ZT_MAX_OUT];
    for (int k = 0; k < ZT_MAX_OUT; k++)
        stands[k] = k == 0 || !wanted || *wanted >> k & 1 ? st->out[k] : ZT_NONE;
    return zt_rewrite_op(w, st->op, st->attrs, st->in, stands);
}

static zt_status end(zt_rewrite *w)
{
    const zt_prog *p = w->from;
    zt_status s = ZT_OK;
    for (int i = 0; i < zt_prog_count(p, ZT_VALUE_STATE) && !s; i++) {
        int v = zt_prog_nth(p, ZT_VALUE_STATE, i), keep = zt_prog_value(p, v)->keep;
        if (keep >= 0) s = zt_prog_keep(w->to, w->map[v], w->map[keep]);
    }
    for (int o = 0; o < zt_prog_n_outputs(p) && !s; o++)
        s = zt_prog_out(w->to, zt_prog_output(p, o)->name, w->map[zt_prog_output(p, o)->value]);
    return s;
}

zt_status zt_rewrite_end(zt_rewrite *w, zt_status s, zt_prog **out)
{
    if (!s) s = end(w);
    if (s) zt_prog_free(w->to);
    *out = s ? NULL : w->to;
    zt_free(w->ctx, w->map);
    return s;
}

void zt_prog_roots(const zt_prog *p, int *root)
{
    for (int v = 0; v < zt_prog_n_values(p); v++) root[v] = v;
    for (int s = 0; s < zt_prog_n_steps(p); s++) {
        const zt_step *st = zt_prog_step(p, s);
        for (int k = 0; k < zt_op_shares(st->op); k++)
            if (st->out[k] >= 0) root[st->out[k]] = root[st->in[k]];
    }
}
