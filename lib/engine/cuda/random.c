/* random.c - uniform and normal draws. */
#include "lib/engine/cuda/args_random.h"
#include "lib/engine/cuda/strides.h"

static bool any_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                    const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)input_types, (void)output_types;
    return true;
}

static zt_status emit_random(zt_cu_call *call, int64_t seed, double low, double high, bool normal)
{
    zt_cu_random_args args = {.counter = call->inputs[0],
                              .y = call->outputs[0],
                              .n = zt_type_count(call->output_types[0]),
                              .seed = (uint64_t)seed,
                              .a = low,
                              .b = high,
                              .normal = normal};
    return zt_cu_launch_each(call, "zt_cu_random", (args.n + 3) / 4, &args, sizeof args);
}

static zt_status emit_uniform(zt_cu_call *call)
{
    const zt_random_uniform_attrs *attrs = call->attrs;
    return emit_random(call, attrs->seed, attrs->low, attrs->high - attrs->low, false);
}
static zt_status emit_normal(zt_cu_call *call)
{
    const zt_random_normal_attrs *attrs = call->attrs;
    return emit_random(call, attrs->seed, attrs->mean, attrs->std, true);
}

const zt_cu_row zt_cu_random[] = {
    {.op = ZT_OP_random_uniform, .has = any_has, .emit = emit_uniform},
    {.op = ZT_OP_random_normal, .has = any_has, .emit = emit_normal},
    {.emit = NULL},
};
