/* eager.c - runs a program's ops one by one, as a caller of zt_eager_add and the like does: waiting for each, or
 * asynchronously where the engine can (zt_run_eager). */
#include "tools/zt-bench/bench.h"

#include <string.h>

struct bench_eager {
    zt_ctx *ctx;
    const zt_prog *prog;
    const zt_bound *bound;
    zt_run *run;
    int fell;          /* ops of the last run that fell back to another engine */
    zt_tensor **value; /* [n_values]: inputs and data, held; others while a run lasts */
};

/* Inputs and data of the program, over the caller's memory. */
static zt_status wrap_values(bench_eager *runner, zt_value_kind kind, void *const *bytes)
{
    for (int i = 0; i < zt_prog_count(runner->prog, kind); i++) {
        int value = zt_prog_nth(runner->prog, kind, i);
        runner->value[value] = zt_tensor_wrap(runner->ctx, &runner->bound->type[value], bytes[i], NULL, NULL);
        if (!runner->value[value]) return zt_ctx_status(runner->ctx);
    }
    return ZT_OK;
}

bench_eager *bench_eager_open(zt_engine *engine, const zt_prog *program, const zt_bound *bound, void *const *inputs,
                              void *const *data, bool eager, bool strict)
{
    zt_ctx *ctx = engine->ctx;
    if (zt_prog_count(program, ZT_VALUE_STATE) > 0) {
        zt_fail(ctx, ZT_ENOTSUP, "eager execution does not support a program with states");
        return NULL;
    }
    bench_eager *runner = zt_calloc(ctx, 1, sizeof *runner);
    if (!runner) return NULL;
    *runner = (bench_eager){.ctx = ctx, .prog = program, .bound = bound, .run = zt_run_new(engine, strict)};
    runner->value = zt_calloc(ctx, (size_t)bound->n_values + 1, sizeof *runner->value);
    if (runner->run && runner->value && !wrap_values(runner, ZT_VALUE_IN, inputs) && !wrap_values(runner, ZT_VALUE_DATA, data)) {
        zt_run_eager(runner->run, eager);
        return runner;
    }
    bench_eager_close(runner);
    return NULL;
}

void bench_eager_close(bench_eager *runner)
{
    if (!runner) return;
    for (int i = 0; runner->value && i < runner->bound->n_values; i++) {
        zt_value_kind kind = zt_prog_value(runner->prog, i)->kind;
        if (kind == ZT_VALUE_IN || kind == ZT_VALUE_DATA) zt_tensor_unref(runner->value[i]);
    }
    zt_run_free(runner->run);
    zt_free(runner->ctx, runner->value);
    zt_free(runner->ctx, runner);
}

static zt_status run_step(bench_eager *runner, int index)
{
    const zt_step *step = zt_prog_step(runner->prog, index);
    const zt_opinfo *info = zt_op_info(step->op);
    zt_tensor *inputs[ZT_MAX_IN] = {0}, *out[ZT_MAX_OUT] = {0};
    for (int k = 0; k < info->n_in; k++)
        if (step->in[k] >= 0) inputs[k] = runner->value[step->in[k]];
    zt_status status = zt_run_op(runner->run, step->op, runner->bound->attrs[index], inputs, out);
    for (int k = 0; k < info->n_out; k++)
        if (step->out[k] >= 0) runner->value[step->out[k]] = out[k];
    return status;
}

zt_status bench_eager_run(bench_eager *runner, void *const *out)
{
    zt_status status = ZT_OK;
    uint64_t before = zt_run_fallbacks(runner->run);
    zt_scope_begin(runner->run);
    for (int i = 0; i < runner->bound->n_steps && status == ZT_OK; i++) status = run_step(runner, i);
    for (int output = 0; output < zt_prog_n_outputs(runner->prog) && status == ZT_OK; output++) {
        const zt_tensor *tensor = runner->value[zt_prog_output(runner->prog, output)->value];
        const void *bytes = zt_tensor_data(tensor);
        if (zt_tensor_bytes(tensor)) memcpy(out[output], bytes, zt_tensor_bytes(tensor));
        status = zt_ctx_status(runner->ctx);
    }
    zt_scope_end(runner->run);
    runner->fell = (int)(zt_run_fallbacks(runner->run) - before);
    return status;
}

int bench_eager_fallbacks(const bench_eager *runner) { return runner->fell; }
