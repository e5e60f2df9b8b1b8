/* delta_rule.c - the row of delta_rule (lib/ops/delta_rule.c): the factors of keys and queries first, then a thread a column of a
 * head's state, through all rows in order. */
#include "lib/engine/cuda/args_state.h"
#include "lib/engine/cuda/cu.h"

#include <math.h>

enum { STATE, Q, K, V, G, BETA, FROM, TO }; /* inputs */
enum { COLUMNS = 64 };                      /* of a block */

static bool has_delta_rule(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                           const zt_type output_types[])
{
    const zt_type *state = input_types[STATE];
    (void)attrs, (void)output_types;
    return state->dim[1] <= (int64_t)engine->max_grid[1] && state->dim[3] / COLUMNS < (int64_t)engine->max_grid[0];
}

static zt_status emit_delta_rule(zt_cu_call *call)
{
    const zt_delta_rule_attrs *attrs = call->attrs;
    const zt_type *state = call->input_types[STATE], *q = call->input_types[Q];
    const int64_t heads = state->dim[1], D = state->dim[2], E = state->dim[3], key_heads = q->dim[1] / D, n = q->dim[0];
    if (n == 0 || heads == 0 || E == 0) return ZT_OK;
    const zt_cu_delta_rule_args args = {
        .rows = {.from = call->inputs[FROM], .to = call->inputs[TO], .trouble = call->error, .n = n, .slots = state->dim[0]},
        .state = call->outputs[0],
        .q = call->inputs[Q],
        .k = call->inputs[K],
        .v = call->inputs[V],
        .g = call->inputs[G],
        .beta = call->inputs[BETA],
        .y = call->outputs[1],
        .work = zt_cu_scratch(call, (size_t)(heads * D * E) * sizeof(float)),
        .factors = zt_cu_scratch(call, (size_t)(n * key_heads) * 2 * sizeof(float)),
        .key_heads = key_heads,
        .heads = heads,
        .D = D,
        .E = E,
        .eps = (float)attrs->eps,
        .scale = (float)(attrs->scale > 0 ? attrs->scale : 1 / sqrt((double)D)),
        .tiled = attrs->share.s[0] == 't'};
    if (!args.work || !args.factors) return ZT_ENOMEM;
    zt_status status =
        zt_cu_launch(call, "zt_delta_factors", zt_cu_grid(2 * n * key_heads, 4), (zt_cu_dim){128, 1, 1}, 0, &args, sizeof args);
    if (status) return status;
    return zt_cu_launch(call, "zt_delta_rule", (zt_cu_dim){(unsigned)((E + COLUMNS - 1) / COLUMNS), (unsigned)heads, 1},
                        (zt_cu_dim){COLUMNS, 1, 1}, 0, &args, sizeof args);
}

const zt_cu_row zt_cu_delta_rule[] = {
    {.op = ZT_OP_delta_rule, .has = has_delta_rule, .emit = emit_delta_rule},
    {0},
};
