/* door.c - a program's ops run one by one, as a caller of zt_add and its kin runs them: each waited
 * for, or ahead of the caller where the engine can (zt_run_eager). */
#include "tools/zt-bench/bench.h"

#include <string.h>

struct bench_door {
    zt_ctx *ctx;
    const zt_prog *prog;
    const zt_bound *bound;
    zt_run *run;
    int fell; /* ops of the last run that another engine ran */
    zt_tensor **value; /* [n_values]: inputs and data, held; others while a run lasts */
};

/* Inputs and data of the program, over the caller's memory. */
static zt_status wrap_values(bench_door *d, zt_value_kind kind, void *const *bytes)
{
    for (int i = 0; i < zt_prog_count(d->prog, kind); i++) {
        int v = zt_prog_nth(d->prog, kind, i);
        d->value[v] = zt_tensor_wrap(d->ctx, &d->bound->type[v], bytes[i], NULL, NULL);
        if (!d->value[v]) return zt_ctx_status(d->ctx);
    }
    return ZT_OK;
}

bench_door *bench_door_open(zt_engine *e, const zt_prog *p, const zt_bound *b, void *const *in,
                            void *const *data, bool eager, bool strict)
{
    zt_ctx *ctx = e->ctx;
    if (zt_prog_count(p, ZT_VALUE_STATE) > 0) {
        zt_fail(ctx, ZT_ENOTSUP, "ops run one by one have no states");
        return NULL;
    }
    bench_door *d = zt_calloc(ctx, 1, sizeof *d);
    if (!d) return NULL;
    *d = (bench_door){.ctx = ctx, .prog = p, .bound = b, .run = zt_run_new(e, strict)};
    d->value = zt_calloc(ctx, (size_t)b->n_values + 1, sizeof *d->value);
    if (d->run && d->value && !wrap_values(d, ZT_VALUE_IN, in) &&
        !wrap_values(d, ZT_VALUE_DATA, data)) {
        zt_run_eager(d->run, eager);
        return d;
    }
    bench_door_close(d);
    return NULL;
}

void bench_door_close(bench_door *d)
{
    if (!d) return;
    for (int i = 0; d->value && i < d->bound->n_values; i++) {
        zt_value_kind kind = zt_prog_value(d->prog, i)->kind;
        if (kind == ZT_VALUE_IN || kind == ZT_VALUE_DATA) zt_tensor_unref(d->value[i]);
    }
    zt_run_free(d->run);
    zt_free(d->ctx, d->value);
    zt_free(d->ctx, d);
}

static zt_status run_step(bench_door *d, int i)
{
    const zt_step *st = zt_prog_step(d->prog, i);
    const zt_opinfo *info = zt_op_info(st->op);
    zt_tensor *in[ZT_MAX_IN] = {0}, *out[ZT_MAX_OUT] = {0};
    for (int k = 0; k < info->n_in; k++)
        if (st->in[k] >= 0) in[k] = d->value[st->in[k]];
    zt_status s = zt_run_op(d->run, st->op, d->bound->attrs[i], in, out);
    for (int k = 0; k < info->n_out; k++)
        if (st->out[k] >= 0) d->value[st->out[k]] = out[k];
    return s;
}

zt_status bench_door_run(bench_door *d, void *const *out)
{
    zt_status s = ZT_OK;
    uint64_t before = zt_run_fallbacks(d->run);
    zt_scope_begin(d->run);
    for (int i = 0; i < d->bound->n_steps && s == ZT_OK; i++) s = run_step(d, i);
    for (int o = 0; o < zt_prog_n_outputs(d->prog) && s == ZT_OK; o++) {
        const zt_tensor *y = d->value[zt_prog_output(d->prog, o)->value];
        const void *bytes = zt_tensor_data(y);
        if (zt_tensor_bytes(y)) memcpy(out[o], bytes, zt_tensor_bytes(y));
        s = zt_ctx_status(d->ctx);
    }
    zt_scope_end(d->run);
    d->fell = (int)(zt_run_fallbacks(d->run) - before);
    return s;
}

int bench_door_fallbacks(const bench_door *d) { return d->fell; }
