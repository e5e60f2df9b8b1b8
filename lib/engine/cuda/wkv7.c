/* wkv7.c - the row of wkv7 (lib/ops/wkv7.c): a thread a column of a head's state, through all rows in order. */
#include "lib/engine/cuda/args_state.h"
#include "lib/engine/cuda/cu.h"

enum { STATE, Q, W, K, V, A, B, FROM, TO }; /* inputs */
enum { COLUMNS = 64 };                      /* of a block */

static bool has_wkv7(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                     const zt_type output_types[])
{
    const zt_type *state = input_types[STATE];
    (void)attrs, (void)output_types;
    return state->dim[1] <= (int64_t)engine->max_grid[1] && state->dim[3] / COLUMNS < (int64_t)engine->max_grid[0];
}

static zt_status emit_wkv7(zt_cu_call *call)
{
    const zt_type *state = call->input_types[STATE];
    const int64_t heads = state->dim[1], D = state->dim[2], E = state->dim[3], n = call->input_types[Q]->dim[0];
    if (n == 0 || heads == 0 || E == 0) return ZT_OK;
    const zt_cu_wkv7_args args = {
        .rows = {.from = call->inputs[FROM], .to = call->inputs[TO], .trouble = call->error, .n = n, .slots = state->dim[0]},
        .state = call->outputs[0],
        .q = call->inputs[Q],
        .w = call->inputs[W],
        .k = call->inputs[K],
        .v = call->inputs[V],
        .a = call->inputs[A],
        .b = call->inputs[B],
        .y = call->outputs[1],
        .work = zt_cu_scratch(call, (size_t)(heads * D * E) * sizeof(float)),
        .heads = heads,
        .D = D,
        .E = E};
    if (!args.work) return ZT_ENOMEM;
    return zt_cu_launch(call, "zt_wkv7", (zt_cu_dim){(unsigned)((E + COLUMNS - 1) / COLUMNS), (unsigned)heads, 1},
                        (zt_cu_dim){COLUMNS, 1, 1}, 0, &args, sizeof args);
}

const zt_cu_row zt_cu_wkv7[] = {
    {.op = ZT_OP_wkv7, .has = has_wkv7, .emit = emit_wkv7},
    {0},
};
