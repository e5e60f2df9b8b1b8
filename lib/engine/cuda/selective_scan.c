/* selective_scan.c - the row of selective_scan (lib/ops/selective_scan.c): a warp a channel, through all rows in order. */
#include "lib/engine/cuda/args_state.h"
#include "lib/engine/cuda/cu.h"

enum { STATE, X, DT, A, B, C, FROM, TO, D }; /* inputs */
enum { WARPS = 4 };                          /* of a block */

static bool has_selective_scan(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                               const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)input_types, (void)output_types;
    return true;
}

static zt_status emit_selective_scan(zt_cu_call *call)
{
    const zt_type *state = call->input_types[STATE], *a = call->input_types[A];
    const int64_t width = state->dim[1], N = state->dim[2], n = call->input_types[X]->dim[0];
    if (n == 0 || width == 0) return ZT_OK;
    const zt_cu_selective_scan_args args = {
        .rows = {.from = call->inputs[FROM], .to = call->inputs[TO], .trouble = call->error, .n = n, .slots = state->dim[0]},
        .state = call->outputs[0],
        .x = call->inputs[X],
        .dt = call->inputs[DT],
        .a = call->inputs[A],
        .b = call->inputs[B],
        .c = call->inputs[C],
        .d = call->inputs[D],
        .y = call->outputs[1],
        .work = zt_cu_scratch(call, (size_t)(width * N) * sizeof(float)),
        .heads = a->dim[0],
        .channels = width / a->dim[0],
        .N = N,
        .groups = call->input_types[B]->dim[1] / N,
        .wide = a->dim[1] > 1};
    if (!args.work) return ZT_ENOMEM;
    return zt_cu_launch(call, "zt_selective_scan", zt_cu_grid(width, WARPS), (zt_cu_dim){32 * WARPS, 1, 1}, 0, &args,
                        sizeof args);
}

const zt_cu_row zt_cu_selective_scan[] = {
    {.op = ZT_OP_selective_scan, .has = has_selective_scan, .emit = emit_selective_scan},
    {0},
};
