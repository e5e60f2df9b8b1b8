/* expert.cl - rows sorted by expert, moved there and back, and the gradient of stacked weights. */
#include "lib/engine/opencl/prim.clh"
#include "lib/engine/cuda/args_llm.h"

/* Experts take turns on the work-items: each counts its rows, then writes them down in their order. */
FN int32_t count_rows(const zt_cu_expert_args *a, int64_t expert)
{
    int32_t count = 0;
    for (int64_t r = 0; r < a->row_count; r++) count += PTR(const int32_t, a->index)[r] == expert;
    return count;
}

/* begin[e] is the first place of expert e, its number of rows there before. */
FN void place_tiles(const zt_cu_expert_args *a)
{
    __global int32_t *begin = PTR(int32_t, a->begin);
    int64_t tile = 0;
    for (int64_t e = 0; e < a->experts; e++) {
        const int64_t count = begin[e];
        begin[e] = (int32_t)(tile * a->tile_rows);
        tile += (count + a->tile_rows - 1) / a->tile_rows;
    }
    begin[a->experts] = (int32_t)(tile * a->tile_rows);
}

/* The tiles of an expert, and which rows they have. */
FN void write_rows(const zt_cu_expert_args *a, int64_t expert)
{
    __global const int32_t *index = PTR(const int32_t, a->index), *begin = PTR(const int32_t, a->begin);
    __global int32_t *order = PTR(int32_t, a->order);
    const int64_t end = begin[expert + 1];
    int64_t at = begin[expert];
    for (int64_t r = 0; at < end && r < a->row_count; r++)
        if (index[r] == expert) order[at++] = (int32_t)r;
    const int64_t last = at;
    for (; at < end; at++) order[at] = -1;
    for (int64_t t = begin[expert]; t < end; t += a->tile_rows) {
        const zt_cu_expert_tile tile = {(int32_t)expert, (int32_t)(last - t < a->tile_rows ? last - t : a->tile_rows)};
        PTR(zt_cu_expert_tile, a->tiles)[t / a->tile_rows] = tile;
    }
}

/* One work-group. */
KERNEL(zt_expert_sort, zt_cu_expert_args)
{
    for (int64_t r = thread(); r < a.row_count; r += threads()) {
        const int64_t expert = PTR(const int32_t, a.index)[r];
        if (expert < 0 || expert >= a.experts) trouble(a.trouble, ZT_CU_EXPERT, r, expert, a.experts);
    }
    for (int64_t e = thread(); e < a.experts; e += threads()) PTR(int32_t, a.begin)[e] = count_rows(&a, e);
    meet();
    if (thread() == 0) place_tiles(&a);
    meet();
    for (int64_t e = thread(); e < a.experts; e += threads()) write_rows(&a, e);
    for (int64_t i = PTR(const int32_t, a.begin)[a.experts] + thread(); i < a.tile_count * a.tile_rows; i += threads()) {
        const zt_cu_expert_tile none = {0, 0};
        PTR(int32_t, a.order)[i] = -1;
        if (i % a.tile_rows == 0) PTR(zt_cu_expert_tile, a.tiles)[i / a.tile_rows] = none;
    }
}

/* A work-group a place. */
KERNEL(zt_expert_gather, zt_cu_expert_args)
{
    const int64_t place = block(), row = PTR(const int32_t, a.order)[place];
    for (int64_t k = thread(); k < a.columns; k += threads())
        put(a.type, a.to, place * a.columns + k, row < 0 ? 0 : get(a.type, a.from, row / a.per_row * a.columns + k));
}

KERNEL(zt_expert_scatter, zt_cu_expert_args)
{
    const int64_t place = block(), row = PTR(const int32_t, a.order)[place];
    for (int64_t m = thread(); row >= 0 && m < a.columns; m += threads())
        put(a.type, a.to, row * a.columns + m, get(a.type, a.from, place * a.columns + m));
}

/* A work-group a row of an expert's matrix: a sum over the expert's rows, in their order. */
KERNEL(zt_expert_backward, zt_cu_expert_backward_args)
{
    const int64_t m = block(), expert = block_y();
    __global const int32_t *order = PTR(const int32_t, a.rows.order), *begin = PTR(const int32_t, a.rows.begin);
    for (int64_t k = thread(); k < a.K; k += threads()) {
        float sum = 0;
        for (int64_t i = begin[expert]; i < begin[expert + 1]; i++)
            sum = fma(get(a.type, a.dy, order[i] * a.M + m), get(a.type, a.x, order[i] / a.rows.per_row * a.K + k), sum);
        put(a.type, a.dw, (expert * a.M + m) * a.K + k, sum);
    }
}
