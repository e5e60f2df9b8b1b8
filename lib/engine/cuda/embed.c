/* embed.c - the row of rows picked from a matrix of any type. */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/cu.h"

#include <string.h>

enum { WARPS = 4 }; /* ROW_WARPS of embed.cuh */

static bool has_gather(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                       const zt_type out[])
{
    (void)attrs, (void)out;
    return in[0]->dtype != ZT_F64 && in[0]->dim[1] % zt_dtype_get(in[0]->dtype)->block == 0 &&
           zt_type_count(in[1]) <= (int64_t)e->max_grid[1];
}

static zt_status emit_gather(zt_cu_call *c)
{
    const zt_gather_attrs *at = c->attrs;
    const zt_type *w = c->in[0];
    const zt_dtype_info *d = zt_dtype_get(w->dtype);
    zt_cu_rows_args a = {.w = c->x[0],
                         .i = c->x[1],
                         .y = c->y[0],
                         .trouble = c->trouble,
                         .rows = w->dim[0],
                         .K = w->dim[1],
                         .n = zt_type_count(c->in[1]),
                         .row_bytes = w->dim[1] / d->block * d->block_bytes,
                         .w_type = (int32_t)w->dtype,
                         .block = d->block,
                         .block_bytes = d->block_bytes,
                         .strict = !strcmp(at->oob.s, "error")};
    zt_cu_dim grid = zt_cu_grid(a.K, 4 * 32 * WARPS);
    zt_status s = zt_cu_vectors(c, w->dtype, &a.grid);
    if (c->packed[0]) {
        a.pack = zt_cu_pack_call(c->packed[0], a.rows, a.K);
        grid = zt_cu_grid(a.pack.units, WARPS);
    }
    grid.y = (unsigned)a.n;
    if (s) return s;
    return zt_cu_launch(c, c->packed[0] ? "zt_rows_packed" : "zt_rows", grid,
                        (zt_cu_dim){32 * WARPS, 1, 1}, 0, &a, sizeof a);
}

const zt_cu_row zt_cu_embed[] = {
    {ZT_OP_gather, has_gather, emit_gather, 1 << 0},
    {0},
};
