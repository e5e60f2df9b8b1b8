/* causal_conv.c - the row of causal_conv (lib/ops/causal_conv.c): a thread a channel, through all rows in order. */
#include "lib/engine/cuda/args_state.h"
#include "lib/engine/cuda/cu.h"

enum { STATE, X, W, FROM, TO, B }; /* inputs */

static bool has_causal_conv(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                            const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)input_types, (void)output_types;
    return true;
}

static zt_status emit_causal_conv(zt_cu_call *call)
{
    const zt_causal_conv_attrs *attrs = call->attrs;
    const int64_t slots = call->input_types[STATE]->dim[0], n = call->input_types[X]->dim[0], C = call->input_types[X]->dim[1],
                  K = call->input_types[W]->dim[1];
    const zt_cu_causal_conv_args args = {
        .rows = {.from = call->inputs[FROM], .to = call->inputs[TO], .trouble = call->error, .n = n, .slots = slots},
        .state = call->outputs[0],
        .x = call->inputs[X],
        .w = call->inputs[W],
        .b = call->inputs[B],
        .y = call->outputs[1],
        .window = zt_cu_scratch(call, (size_t)(K * C) * sizeof(float)),
        .C = C,
        .K = K,
        .silu = attrs->act.s[0] == 's'};
    if (!args.window) return ZT_ENOMEM;
    return zt_cu_launch(call, "zt_causal_conv", zt_cu_grid(C, 128), (zt_cu_dim){128, 1, 1}, 0, &args, sizeof args);
}

const zt_cu_row zt_cu_causal_conv[] = {
    {.op = ZT_OP_causal_conv, .has = has_causal_conv, .emit = emit_causal_conv},
    {0},
};
