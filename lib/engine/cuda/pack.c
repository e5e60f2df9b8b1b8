/* pack.c - block types in the form that the inner loops want: args_llm.h draws it. */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/cu.h"

/* Blocks of the matrix with its rows filled up to tiles of 16, by 16. */
static int64_t blocks_of(const zt_cu_pack *p, int64_t rows, int64_t columns)
{
    return (rows + 15) / 16 * (columns / zt_dtype_get(p->dtype)->block);
}

static size_t pack_bytes(const zt_cu_pack *p, int64_t rows, int64_t columns)
{
    return (size_t)blocks_of(p, rows, columns) * 16 * (size_t)zt_dtype_get(p->dtype)->block_bytes;
}

zt_cu_ptr zt_cu_pack_heads(const zt_cu_pack *p, zt_cu_ptr packed, int64_t rows, int64_t columns)
{
    return packed + (zt_cu_ptr)blocks_of(p, rows, columns) * 64 * (zt_cu_ptr)p->codes;
}

zt_cu_ptr zt_cu_pack_halves(const zt_cu_pack *p, zt_cu_ptr packed, int64_t rows, int64_t columns)
{
    return zt_cu_pack_heads(p, packed, rows, columns) +
           (zt_cu_ptr)blocks_of(p, rows, columns) * 64 * (zt_cu_ptr)p->head;
}

zt_cu_pack_args zt_cu_pack_call(const zt_cu_pack *p, int64_t rows, int64_t columns)
{
    const zt_dtype_info *d = zt_dtype_get(p->dtype);
    return (zt_cu_pack_args){.rows = rows,
                             .units = columns / d->block,
                             .codes = p->codes,
                             .head = p->head,
                             .half = p->half,
                             .each = p->codes / 2 < 4 ? p->codes / 2 : 4,
                             .codes_at = p->codes_at,
                             .head_at = p->head_at,
                             .half_at = p->half_at,
                             .block_bytes = d->block_bytes};
}

/* A thread 16 bits of a block. */
static zt_status launch(const zt_cu_pack *p, zt_cu_call *c, zt_cu_ptr raw, zt_cu_ptr packed,
                        int64_t rows, int64_t columns, bool back)
{
    zt_cu_pack_args a = zt_cu_pack_call(p, rows, columns);
    int64_t n = blocks_of(p, rows, columns) * 16 * (a.block_bytes / 2);
    a.raw = raw;
    a.packed = packed;
    a.back = back;
    return zt_cu_launch(c, "zt_pack", zt_cu_grid(n, 256), (zt_cu_dim){256, 1, 1}, 0, &a, sizeof a);
}

static zt_status pack(const zt_cu_pack *p, zt_cu_call *c, zt_cu_ptr from, zt_cu_ptr to,
                      int64_t rows, int64_t columns)
{
    return launch(p, c, from, to, rows, columns, false);
}

static zt_status unpack(const zt_cu_pack *p, zt_cu_call *c, zt_cu_ptr from, zt_cu_ptr to,
                        int64_t rows, int64_t columns)
{
    return launch(p, c, to, from, rows, columns, true);
}

/* Block layouts: lib/tensor/dtype_blocks.c, dtype_k.c. */
#define PACK(type, name, codes, head, half, codes_at, head_at, half_at)                            \
    {                                                                                              \
        type, pack_bytes, pack, unpack, codes, head, half, codes_at, head_at, half_at,             \
            "zt_codes_" name, "zt_packed_" name, "zt_few_" name, "zt_large_" name                  \
    }
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
