/* embed.c - the row of rows picked from a matrix of any type. */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/cu.h"

#include <string.h>

enum { WARPS = 4 }; /* ROW_WARPS of embed.cuh */

static bool has_gather(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                       const zt_type output_types[])
{
    (void)attrs, (void)output_types;
    return input_types[0]->dtype != ZT_F64 && input_types[0]->dim[1] % zt_dtype_get(input_types[0]->dtype)->block == 0 &&
           zt_type_count(input_types[1]) <= (int64_t)engine->max_grid[1];
}

static zt_status emit_gather(zt_cu_call *call)
{
    const zt_gather_attrs *attrs = call->attrs;
    const zt_type *w_type = call->input_types[0];
    const zt_dtype_info *info = zt_dtype_get(w_type->dtype);
    zt_cu_rows_args args = {.w = call->inputs[0],
                         .i = call->inputs[1],
                         .y = call->outputs[0],
                         .trouble = call->error,
                         .rows = w_type->dim[0],
                         .K = w_type->dim[1],
                         .n = zt_type_count(call->input_types[1]),
                         .row_bytes = w_type->dim[1] / info->block * info->block_bytes,
                         .w_type = (int32_t)w_type->dtype,
                         .block = info->block,
                         .block_bytes = info->block_bytes,
                         .strict = !strcmp(attrs->oob.s, "error")};
    zt_cu_dim grid = zt_cu_grid(args.K, 4 * 32 * WARPS);
    zt_status status = zt_cu_vectors(call, w_type->dtype, &args.grid);
    if (call->packed[0]) {
        args.pack = zt_cu_pack_call(call->packed[0], args.rows, args.K);
        grid = zt_cu_grid(args.pack.units, WARPS);
    }
    grid.y = (unsigned)args.n;
    if (status) return status;
    return zt_cu_launch(call, call->packed[0] ? "zt_rows_packed" : "zt_rows", grid,
                        (zt_cu_dim){32 * WARPS, 1, 1}, 0, &args, sizeof args);
}

const zt_cu_row zt_cu_embed[] = {
    {ZT_OP_gather, has_gather, emit_gather, 1 << 0},
    {0},
};
