/* pack.c - block types in the form that the inner loops want: args_llm.h draws it. */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/cu.h"

/* Blocks of the matrix with its rows filled up to tiles of 16, by 16. */
static int64_t blocks_of(const zt_cu_pack *form, int64_t rows, int64_t columns)
{
    return (rows + 15) / 16 * (columns / zt_dtype_get(form->dtype)->block);
}

static size_t pack_bytes(const zt_cu_pack *form, int64_t rows, int64_t columns)
{
    return (size_t)blocks_of(form, rows, columns) * 16 * (size_t)zt_dtype_get(form->dtype)->block_bytes;
}

zt_cu_ptr zt_cu_pack_heads(const zt_cu_pack *form, zt_cu_ptr packed, int64_t rows, int64_t columns)
{
    return packed + (zt_cu_ptr)blocks_of(form, rows, columns) * 64 * (zt_cu_ptr)form->codes;
}

zt_cu_ptr zt_cu_pack_halves(const zt_cu_pack *form, zt_cu_ptr packed, int64_t rows, int64_t columns)
{
    return zt_cu_pack_heads(form, packed, rows, columns) + (zt_cu_ptr)blocks_of(form, rows, columns) * 64 * (zt_cu_ptr)form->head;
}

zt_cu_pack_args zt_cu_pack_call(const zt_cu_pack *form, int64_t rows, int64_t columns)
{
    const zt_dtype_info *info = zt_dtype_get(form->dtype);
    return (zt_cu_pack_args){.rows = rows,
                             .units = columns / info->block,
                             .codes = form->codes,
                             .head = form->head,
                             .half = form->half,
                             .each = form->codes / 2 < 4 ? form->codes / 2 : 4,
                             .codes_at = form->codes_at,
                             .head_at = form->head_at,
                             .half_at = form->half_at,
                             .block_bytes = info->block_bytes};
}

/* A thread 16 bits of a block. */
static zt_status launch_repack(const zt_cu_pack *form, zt_cu_call *call, zt_cu_ptr raw, zt_cu_ptr packed, int64_t rows,
                               int64_t columns, bool back)
{
    zt_cu_pack_args args = zt_cu_pack_call(form, rows, columns);
    int64_t half_word_count = blocks_of(form, rows, columns) * 16 * (args.block_bytes / 2);
    args.raw = raw;
    args.packed = packed;
    args.back = back;
    return zt_cu_launch(call, "zt_pack", zt_cu_grid(half_word_count, 256), (zt_cu_dim){256, 1, 1}, 0, &args, sizeof args);
}

static zt_status pack_matrix(const zt_cu_pack *form, zt_cu_call *call, zt_cu_ptr from, zt_cu_ptr to, int64_t rows,
                             int64_t columns)
{
    return launch_repack(form, call, from, to, rows, columns, false);
}

static zt_status unpack_matrix(const zt_cu_pack *form, zt_cu_call *call, zt_cu_ptr from, zt_cu_ptr to, int64_t rows,
                               int64_t columns)
{
    return launch_repack(form, call, to, from, rows, columns, true);
}

/* Block layouts: lib/tensor/dtype_blocks.c, dtype_k.c. */
// clang-format off
#define PACK(type, name, codes, head, half, codes_at, head_at, half_at)                            \
    {                                                                                              \
        type, pack_bytes, pack_matrix, unpack_matrix, codes, head, half, codes_at, head_at, half_at,             \
            "zt_codes_" name, "zt_packed_" name, "zt_decode_" name, "zt_large_" name                  \
    }
// clang-format on
const zt_cu_pack zt_cu_packs[] = {
    PACK(ZT_Q4_0, "q4_0", 4, 0, 1, 2, 0, 0),
    PACK(ZT_Q4_1, "q4_1", 4, 1, 0, 4, 0, 0),
    PACK(ZT_Q5_0, "q5_0", 4, 1, 1, 6, 2, 0),
    PACK(ZT_Q5_1, "q5_1", 4, 2, 0, 8, 0, 0),
    PACK(ZT_Q8_0, "q8_0", 8, 0, 1, 2, 0, 0),
    PACK(ZT_Q4_K, "q4_k", 32, 4, 0, 16, 0, 0),
    PACK(ZT_Q5_K, "q5_k", 40, 4, 0, 16, 0, 0),
    PACK(ZT_Q6_K, "q6_k", 48, 4, 1, 0, 192, 208),
    {.pack = NULL},
};
