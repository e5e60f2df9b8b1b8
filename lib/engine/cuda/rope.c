/* rope.c - rotary positions: from positions, by tables, and after norms of queries and keys. */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/norm.h"
#include "lib/engine/cuda/rope.h"
#include "lib/ops/rope.h"

#include <math.h>
#include <string.h>

/* ---- rope ------------------------------------------------------------------------------------ */

int64_t zt_cu_rope_head(const zt_rope_attrs *attrs, const zt_type *x_type)
{
    return attrs->head ? attrs->head : attrs->dims ? attrs->dims : x_type->dim[x_type->rank - 1];
}

int64_t zt_cu_rope_dims(const zt_rope_attrs *attrs, const zt_type *x_type)
{
    return attrs->dims ? attrs->dims : zt_cu_rope_head(attrs, x_type);
}

bool zt_cu_rope_fits(const zt_cu_engine *engine, const zt_rope_attrs *attrs, const zt_type *x_type)
{
    return zt_cu_is_float(x_type->dtype) && zt_cu_rope_dims(attrs, x_type) <= 2 * ZT_CU_PAIRS &&
           x_type->dim[0] <= (int64_t)engine->max_grid[0];
}

/* Quarter turns a position of each pair. */
void zt_cu_rope_quarter_turns(const zt_rope_attrs *attrs, int64_t dims, double *turns)
{
    for (int64_t i = 0; i < dims / 2; i++) turns[i] = zt_rope_scale(attrs, i) * zt_rope_power(attrs->theta, i, dims) / M_PI_2;
}

zt_status zt_cu_launch_rope(zt_cu_call *call, const zt_rope_attrs *attrs, const zt_type *type, zt_cu_ptr x, zt_cu_ptr pos,
                            zt_cu_ptr table, zt_cu_ptr y)
{
    const char *kernel = type->dtype == ZT_F32 ? "zt_rope_f32" : type->dtype == ZT_F16 ? "zt_rope_f16" : "zt_rope_bf16";
    int64_t rows = type->dim[0], dims = zt_cu_rope_dims(attrs, type);
    // clang-format off
    zt_cu_rope_args args = {.x = x,
                         .y = y,
                         .tab = table,
                         .pos = pos,
                         .rows = rows,
                         .cols = rows ? zt_type_count(type) / rows : 0,
                         .head = zt_cu_rope_head(attrs, type),
                         .dims = dims,
                         .amplitude = (float)attrs->amplitude,
                         .neighbours = !strcmp(attrs->pair.s, "neighbours")};
    // clang-format on
    if (args.cols == 0) return ZT_OK;
    zt_cu_rope_quarter_turns(attrs, dims, args.turns);
    return zt_cu_launch(call, kernel, (zt_cu_dim){(unsigned)rows, 1, 1}, (zt_cu_dim){128, 1, 1}, 0, &args, sizeof args);
}

static bool has_rope(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                     const zt_type output_types[])
{
    (void)output_types;
    return zt_cu_rope_fits(engine, attrs, input_types[0]);
}

static zt_status emit_rope(zt_cu_call *call)
{
    return zt_cu_launch_rope(call, call->attrs, call->input_types[0], call->inputs[0], call->inputs[1], call->inputs[2],
                             call->outputs[0]);
}

/* ---- turned by tables ----------------------------------------------------------------------- */

static zt_status launch_rotate(zt_cu_call *call, zt_cu_rotate_args *args)
{
    static const char *const names[] = {"zt_rotate_f32", "zt_rotate_f16", "zt_rotate_bf16", "zt_rotate_f64"};
    const zt_type *x_type = call->input_types[0];
    args->x = call->inputs[0];
    args->y = call->outputs[0];
    args->K = last_dim(x_type);
    args->rows = args->K ? zt_type_count(x_type) / args->K : 0;
    args->heads = args->heads > 0 ? args->heads : 1;
    args->tables = args->tables > 0 ? args->tables : 1;
    return zt_cu_launch(call, of_type(x_type->dtype, names), zt_cu_grid(args->rows, 4), (zt_cu_dim){128, 1, 1}, 0, args,
                        sizeof *args);
}

static zt_status emit_rope_table(zt_cu_call *call)
{
    const zt_rope_table_attrs *attrs = call->attrs;
    zt_cu_rotate_args args = {.cos = call->inputs[1],
                              .sin = call->inputs[2],
                              .half = call->input_types[1]->dim[1],
                              .tables = call->input_types[1]->dim[0],
                              .per = 1,
                              .neighbours = !strcmp(attrs->pair.s, "neighbours")};
    return launch_rotate(call, &args);
}

static zt_status emit_qk_norm_rope(zt_cu_call *call)
{
    const zt_qk_norm_rope_attrs *attrs = call->attrs;
    const zt_type *x_type = call->input_types[0], *table = call->input_types[3];
    int64_t half = last_dim(table), heads = x_type->dim[x_type->rank - 2];
    // clang-format off
    zt_cu_rotate_args args = {.wq = call->inputs[1],
                         .wk = call->inputs[2],
                         .cos = call->inputs[3],
                         .sin = call->inputs[4],
                         .half = half,
                         .tables = half ? zt_type_count(table) / half : 1,
                         .per = heads > 0 ? heads : 1,
                         .heads = heads,
                         .q_heads = attrs->q_heads,
                         .eps = attrs->eps,
                         .neighbours = !strcmp(attrs->pair.s, "neighbours")};
    // clang-format on
    return launch_rotate(call, &args);
}

const zt_cu_row zt_cu_rope[] = {
    {.op = ZT_OP_rope, .has = has_rope, .emit = emit_rope, .contract = zt_cu_of_f32},
    {.op = ZT_OP_rope_table, .has = has_float, .emit = emit_rope_table},
    {.op = ZT_OP_qk_norm_rope, .has = has_float, .emit = emit_qk_norm_rope},
    {.emit = NULL},
};
