/* expert.cu - rows sorted by expert, moved there and back, and the gradient of stacked weights. */
#include "lib/engine/cuda/linear.h"

/* Experts take turns on the threads: each counts its rows, then writes them down in their order. So the order does not
 * depend on which thread is first. */
FN int64_t count_rows(const zt_cu_expert_args &a, int64_t expert)
{
    const int32_t *index = PTR(const int32_t, a.index);
    int64_t count = 0;
    for (int64_t r = 0; r < a.row_count; r++) count += index[r] == expert;
    return count;
}

/* begin[e] is the first tile of expert e so far, its number of rows in its place before. */
FN void place_tiles(const zt_cu_expert_args &a)
{
    int32_t *begin = PTR(int32_t, a.begin);
    int64_t tile = 0;
    for (int64_t e = 0; e < a.experts; e++) {
        const int64_t count = begin[e];
        begin[e] = (int32_t)(tile * a.tile_rows);
        tile += (count + a.tile_rows - 1) / a.tile_rows;
    }
    begin[a.experts] = (int32_t)(tile * a.tile_rows);
}

/* The tiles of an expert, and which rows they have. */
FN void write_rows(const zt_cu_expert_args &a, int64_t expert)
{
    const int32_t *index = PTR(const int32_t, a.index), *begin = PTR(const int32_t, a.begin);
    int32_t *order = PTR(int32_t, a.order);
    zt_cu_expert_tile *tiles = PTR(zt_cu_expert_tile, a.tiles);
    int64_t at = begin[expert];
    const int64_t end = begin[expert + 1];
    for (int64_t r = 0; at < end && r < a.row_count; r++)
        if (index[r] == expert) order[at++] = (int32_t)r;
    const int64_t last = at;
    for (; at < end; at++) order[at] = -1;
    for (int64_t t = begin[expert]; t < end; t += a.tile_rows) {
        tiles[t / a.tile_rows].expert = (int32_t)expert;
        tiles[t / a.tile_rows].rows = (int32_t)(last - t < a.tile_rows ? last - t : a.tile_rows);
    }
}

/* One block. */
KERNEL_OF(zt_expert_sort, zt_cu_expert_args, 1024)
{
    for (int64_t r = thread(); r < a.row_count; r += threads()) {
        const int64_t expert = PTR(const int32_t, a.index)[r];
        if (expert < 0 || expert >= a.experts)
            trouble(PTR(zt_cu_runtime_error, a.trouble), ZT_CU_EXPERT, r, expert, a.experts);
    }
    for (int64_t e = thread(); e < a.experts; e += threads()) PTR(int32_t, a.begin)[e] = (int32_t)count_rows(a, e);
    barrier();
    if (thread() == 0) place_tiles(a);
    barrier();
    for (int64_t e = thread(); e < a.experts; e += threads()) write_rows(a, e);
    for (int64_t i = PTR(const int32_t, a.begin)[a.experts] + (int64_t)thread(); i < a.tile_count * a.tile_rows; i += threads()) {
        PTR(int32_t, a.order)[i] = -1;
        if (i % a.tile_rows == 0) PTR(zt_cu_expert_tile, a.tiles)[i / a.tile_rows] = zt_cu_expert_tile{0, 0};
    }
}

/* A block a place. A place without a row is 0, as codes are made of whole tiles. */
KERNEL_OF(zt_expert_gather, zt_cu_expert_args, 128)
{
    const int64_t place = block(), row = PTR(const int32_t, a.order)[place];
    for (int64_t k = thread(); k < a.columns; k += threads())
        number_put(a.to, a.type, place * a.columns + k,
                   row < 0 ? 0 : number_at(a.from, a.type, row / a.per_row * a.columns + k));
}

KERNEL_OF(zt_expert_scatter, zt_cu_expert_args, 128)
{
    const int64_t place = block(), row = PTR(const int32_t, a.order)[place];
    for (int64_t m = thread(); row >= 0 && m < a.columns; m += threads())
        number_put(a.to, a.type, row * a.columns + m, number_at(a.from, a.type, place * a.columns + m));
}

/* A block a row of an expert's matrix: a sum over the expert's rows, in their order. */
KERNEL_OF(zt_expert_backward, zt_cu_expert_backward_args, 128)
{
    const int64_t m = block(), expert = block_y();
    const int32_t *order = PTR(const int32_t, a.rows.order), *begin = PTR(const int32_t, a.rows.begin);
    for (int64_t k = thread(); k < a.K; k += threads()) {
        float sum = 0;
        for (int64_t i = begin[expert]; i < begin[expert + 1]; i++)
            sum = fmaf(number_at(a.dy, a.type, order[i] * a.M + m),
                       number_at(a.x, a.type, order[i] / a.rows.per_row * a.K + k), sum);
        number_put(a.dw, a.type, (expert * a.M + m) * a.K + k, sum);
    }
}
