/* columns.c - columns of a weight as f32, for products that take them as floats (matmul_weight.c). */
#include "lib/engine/cpu/isa/gemm_quant/columns.h"

#include <string.h>

#include "lib/engine/cpu/isa/gemm_quant/tile_plain.h"

/* ---- packed block types ---------------------------------------------------------------------- */

/* 16 columns from k on, a multiple of 16. */
TEMPLATE void block_columns(zt_pack_form form, const uint8_t *group, int64_t k, float *to, int64_t stride)
{
    const int64_t slice = k / 32, whole_head = form.head_bytes + form.head_slices * ZT_PACK_CODE_BYTES(form.bits);
    const int within = (int)(slice % form.head_slices), half = (int)(k / 16 % 2);
    const uint8_t *head = group + ZT_PACK_POWERS + slice / form.head_slices * whole_head;
    const iv offset = iv_set(form.offset);
    const fv scale = f32_scale(form, head, within, half);
    const fv min = zt_pack_has_mins(form) ? f32_min(form, head, within, half) : fv_zero();
    uint8_t stored[8][64];
    cv codes[8];
    cv_unpack(form, false, head + form.head_bytes + within * ZT_PACK_CODE_BYTES(form.bits), codes);
    UNROLL_FOR (int i = 0; i < 4; i++) cv_store(stored[4 * half + i], codes[4 * half + i]);
    UNROLL_FOR (int i = 0; i < 16; i++, to += stride) {
        fv weight = fv_mul(fv_of_iv(iv_sub(iv_of_bytes(stored[4 * half + i / 4], i % 4), offset)), scale);
        fv_store(to, zt_pack_has_mins(form) ? fv_add(weight, min) : weight);
    }
}

typedef void block_columns_fn(const uint8_t *group, int64_t k, float *to, int64_t stride);

#define X(NAME, bits, table, offset, scales, head_bytes, n)                                                                      \
    static void columns_of_##NAME(const uint8_t *group, int64_t k, float *to, int64_t stride)                                    \
    {                                                                                                                            \
        block_columns(ZT_PACK_FORM(bits, table, offset, scales, head_bytes, n), group, k, to, stride);                           \
    }
ZT_PACK_BLOCKS(X)
#undef X

static block_columns_fn *const block_table[ZT_DTYPE_COUNT] = {
#define X(NAME, ...) [ZT_##NAME] = columns_of_##NAME,
    ZT_PACK_BLOCKS(X)
#undef X
};

/* ---- the others ------------------------------------------------------------------------------ */

/* A column of a packed group of plain floats. */
INLINE fv float_column(zt_dtype type, const uint8_t *group, int64_t k)
{
    return type == ZT_BF16 ? plain_column(type, group, k / 2 * 2, (int)(k % 2)) : plain_column(type, group, k, 0);
}

/* A row as in a file: 16 columns of it, some of which are behind the last. */
static void row_columns(zt_dtype type, const uint8_t *row, int64_t K, int64_t k, float *to, int64_t stride, float *room)
{
    const zt_dtype_info *dtype = zt_dtype_get(type);
    const int64_t first = k / dtype->block * dtype->block, left = K - first, within = k - first;
    const int64_t count = dtype->block > 16 ? dtype->block : left < 16 ? left : 16;
    if (left > 0) dtype->decode(row + (size_t)(first / dtype->block) * (size_t)dtype->block_bytes, room, count);
    for (int64_t i = 0; i < 16; i++) to[i * stride] = i < left - within ? room[within + i] : 0;
}

/* The same of the rows of a group. */
static void file_columns(const zt_cpu_arg *w, int64_t group, int64_t k, float *to, int64_t stride, float *room)
{
    const int64_t rows = w->type.dim[0] - group * ZT_PACK_ROWS, K = w->type.dim[1];
    const size_t row_bytes = zt_pack_file_bytes(w->type.dtype, K);
    const uint8_t *data = w->data;
    data += w->packed ? (size_t)group * zt_pack_group_bytes(w->type.dtype, K) : (size_t)(group * ZT_PACK_ROWS) * row_bytes;
    for (int r = 0; r < ZT_PACK_ROWS; r++) {
        if (r < rows) row_columns(w->type.dtype, data + (size_t)r * row_bytes, K, k, to + r, stride, room);
        for (int64_t i = 0; r >= rows && i < 16; i++) to[i * stride + r] = 0;
    }
}

void ZT_SYM(zt_weight_columns)(const zt_cpu_arg *w, int64_t group, int64_t k, int64_t count, float *to, int64_t stride,
                               float *room)
{
    const zt_dtype type = w->type.dtype;
    const bool in_file = !w->packed || zt_pack_as_in_file(type);
    const uint8_t *packed = in_file ? NULL : (const uint8_t *)w->data + (size_t)group * zt_pack_group_bytes(type, w->type.dim[1]);
    for (int64_t at = k; at < k + count; at += 16) {
        float *first = to + (at - k) * stride;
        if (in_file)
            file_columns(w, group, at, first, stride, room);
        else if (block_table[type])
            block_table[type](packed, at, first, stride);
        else
            for (int64_t i = 0; i < 16; i++)
                fv_store(first + i * stride, at + i < w->type.dim[1] ? float_column(type, packed, at + i) : fv_zero());
    }
}
