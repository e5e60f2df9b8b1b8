/* weights.c - how matrices come into the engine.
 *
 * Rows are packed by 32 side by side: a row's blocks become units of whole words, and word w of row
 * r's unit u lies at ((r / 32 * units + u) * words + w) * 32 + r % 32. So the 32 invocations of a
 * group, a row each, read 32 words that follow each other. shaders/weights.glsl reads them. Behind rows of block types
 * that have codes lie their powers (lib/engine/cpu/pack.h), a float each, by which products make integers of scales.
 */
#include "lib/engine/cpu/pack.h"
#include "lib/engine/vulkan/vk.h"

#include <string.h>

enum { GROUP = 32, MAX_WORDS = 53 };

/* ---- units ----------------------------------------------------------------------------------- */

/* Block layouts: ggml-common.h of ggml (MIT), as facts. */
static const struct {
    zt_dtype dtype;
    int columns, words; /* of a unit */
    int header;         /* bytes that leave what comes after them off words: they get a word of their own */
} packs[] = {
    {ZT_DTYPE_COUNT, 0, 0, 0}, /* 0: the plain layout */
    {ZT_F32, 32, 32, 0},       {ZT_F16, 32, 16, 0},    {ZT_BF16, 32, 16, 0},     {ZT_Q4_0, 32, 5, 2},
    {ZT_Q4_1, 32, 5, 0},       {ZT_Q8_0, 32, 9, 2},    {ZT_Q4_K, 256, 36, 0},    {ZT_Q6_K, 256, 53, 0},
    {ZT_Q5_0, 32, 6, 2},       {ZT_Q5_1, 32, 6, 0},    {ZT_Q5_K, 256, 44, 0},    {ZT_IQ4_NL, 32, 5, 2},
    {ZT_MXFP4, 32, 5, 1},      {ZT_NVFP4, 64, 9, 0},   {ZT_Q2_0, 64, 5, 2},      {ZT_TQ2_0, 256, 17, 0},
    {ZT_Q2_K, 256, 21, 0},     {ZT_Q3_K, 256, 28, 0},  {ZT_IQ4_XS, 256, 34, 0},  {ZT_Q1_0, 128, 5, 2},
    {ZT_TQ1_0, 256, 14, 0},    {ZT_IQ3_S, 256, 28, 2}, {ZT_IQ3_XXS, 256, 25, 2}, {ZT_IQ2_XXS, 256, 17, 2},
    {ZT_IQ2_XS, 256, 19, 2},   {ZT_IQ2_S, 256, 21, 2}, {ZT_IQ1_S, 256, 13, 2},   {ZT_IQ1_M, 256, 14, 0},
};

/* A unit of which the file has `bytes`; the rest of its words are 0. */
static void pack_unit(int pack, const uint8_t *from, size_t bytes, uint32_t *words)
{
    const size_t header = (size_t)packs[pack].header;
    memset(words, 0, (size_t)packs[pack].words * sizeof *words);
    memcpy(words, from, header);
    memcpy(words + (header != 0), from + header, bytes - header);
}

int zt_vk_pack_of(zt_dtype dtype)
{
    for (int i = 1; i < (int)(sizeof packs / sizeof packs[0]); i++)
        if (packs[i].dtype == dtype) return i;
    return 0;
}

zt_vk_unit zt_vk_unit_of(zt_dtype dtype)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    const int pack = zt_vk_pack_of(dtype), each = packs[pack].columns;
    return (zt_vk_unit){packs[pack].words, each / info->block * (int)info->block_bytes, packs[pack].header};
}

/* ---- loading --------------------------------------------------------------------------------- */

/* A matrix, or a stack of them, each padded to whole groups. */
typedef struct weight_packing {
    int pack;
    int64_t rows, columns, units, groups, all_groups; /* groups: of one matrix */
    size_t row_bytes, unit_bytes, group_bytes;        /* unit_bytes: of the file's block or 32 columns */
    uint8_t *raw;                                     /* GROUP rows as the file has them */
    uint32_t *group;                                  /* and packed */
} weight_packing;

static void pack_rows(const weight_packing *packing, int64_t rows)
{
    uint32_t words[MAX_WORDS];
    int unit_words = packs[packing->pack].words;
    memset(packing->group, 0, packing->group_bytes);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t unit_index = 0; unit_index < packing->units; unit_index++) {
            size_t offset = (size_t)unit_index * packing->unit_bytes, left = packing->row_bytes - offset;
            pack_unit(packing->pack, packing->raw + (size_t)row * packing->row_bytes + offset,
                      left < packing->unit_bytes ? left : packing->unit_bytes, words);
            for (int word_index = 0; word_index < unit_words; word_index++)
                packing->group[(unit_index * unit_words + word_index) * GROUP + row] = words[word_index];
        }
}

static weight_packing packing_of(const zt_type *type)
{
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    const int64_t *matrix = type->dim + type->rank - 2;
    weight_packing packing = {.pack = zt_vk_pack_of(type->dtype), .rows = matrix[0], .columns = matrix[1]};
    int each = packs[packing.pack].columns;
    packing.groups = (packing.rows + GROUP - 1) / GROUP;
    packing.all_groups = packing.groups * (type->rank == 3 ? type->dim[0] : 1);
    packing.units = (packing.columns + each - 1) / each;
    packing.row_bytes = (size_t)(packing.columns / info->block) * (size_t)info->block_bytes;
    packing.unit_bytes = (size_t)(each / info->block) * (size_t)info->block_bytes;
    packing.group_bytes = (size_t)packing.units * (size_t)packs[packing.pack].words * GROUP * sizeof(uint32_t);
    return packing;
}

int64_t zt_vk_units(const zt_type *type) { return packing_of(type).units; }

/* ---- powers of rows ---------------------------------------------------------------------------- */

size_t zt_vk_powers_at(const zt_type *type)
{
    const weight_packing packing = packing_of(type);
    return (size_t)packing.all_groups * packing.group_bytes;
}

/* Of the rows of a group, of which cpu's own packing has the powers in front of each 16 rows. */
static zt_status put_powers(zt_vk_engine *engine, const zt_type *type, const weight_packing *packing, int64_t group,
                            int64_t count, uint8_t *room, zt_vk_mem *to)
{
    float powers[GROUP] = {0};
    for (int64_t at = 0; at < count; at += ZT_PACK_ROWS) {
        const int64_t rows = count - at < ZT_PACK_ROWS ? count - at : ZT_PACK_ROWS;
        zt_pack_group(type->dtype, packing->columns, packing->raw + (size_t)at * packing->row_bytes, packing->row_bytes,
                      (int)rows, room);
        memcpy(powers + at, room, (size_t)rows * sizeof *powers);
    }
    return zt_vk_write(engine, to, zt_vk_powers_at(type) + (size_t)group * sizeof powers, powers, sizeof powers);
}

/* ---- all rows --------------------------------------------------------------------------------- */

/* room: for a group of cpu's, where rows have powers; else NULL. */
static zt_status pack_all(zt_vk_engine *engine, const zt_type *type, const weight_packing *packing, const zt_store *store,
                          int64_t handle, uint8_t *room, zt_vk_mem *to)
{
    zt_status status = ZT_OK;
    for (int64_t group = 0; group < packing->all_groups && !status; group++) {
        const int64_t row = group % packing->groups * GROUP, left = packing->rows - row, count = left < GROUP ? left : GROUP;
        const size_t at = (size_t)(group / packing->groups * packing->rows + row) * packing->row_bytes;
        status = store->read(store->user, handle, at, packing->raw, (size_t)count * packing->row_bytes);
        if (status) break;
        pack_rows(packing, count);
        status = zt_vk_write(engine, to, (size_t)group * packing->group_bytes, packing->group, packing->group_bytes);
        if (!status && room) status = put_powers(engine, type, packing, group, count, room, to);
    }
    return status;
}

static zt_status load_packed(zt_vk_engine *engine, const zt_type *type, const zt_store *store, int64_t handle, zt_ebuf *buffer)
{
    weight_packing packing = packing_of(type);
    size_t bytes, groups = (size_t)packing.all_groups, raw;
    if (!zt_mul_size(groups, packing.group_bytes, &bytes) || !zt_mul_size(packing.row_bytes, GROUP, &raw))
        return zt_fail(engine->base.ctx, ZT_ENOMEM, "weight too large (%zu groups of %zu bytes)", groups, packing.group_bytes);
    const bool powers = zt_pack_form_of(type->dtype).bits;
    zt_status status = zt_vk_alloc(engine, ZT_VK_DEVICE_MEM, bytes + (powers ? groups * GROUP * sizeof(float) : 0), &buffer->mem);
    if (status) return status;
    buffer->pack = packing.pack;
    packing.raw = zt_alloc(engine->base.ctx, raw);
    packing.group = zt_alloc(engine->base.ctx, packing.group_bytes);
    uint8_t *room = powers ? zt_alloc(engine->base.ctx, zt_pack_group_bytes(type->dtype, packing.columns)) : NULL;
    const bool all = packing.raw && packing.group && (room || !powers);
    status = all ? pack_all(engine, type, &packing, store, handle, room, &buffer->mem) : ZT_ENOMEM;
    zt_free(engine->base.ctx, room);
    zt_free(engine->base.ctx, packing.raw);
    zt_free(engine->base.ctx, packing.group);
    return status;
}

static zt_status load_plain(zt_vk_engine *engine, const zt_type *type, const zt_store *store, int64_t handle, zt_ebuf *buffer)
{
    size_t bytes = zt_type_bytes(type), piece = bytes < 1 << 20 ? bytes : 1 << 20;
    zt_status status = zt_vk_alloc(engine, ZT_VK_DEVICE_MEM, bytes, &buffer->mem);
    if (status) return status;
    char *part = zt_alloc(engine->base.ctx, piece);
    if (!part) return ZT_ENOMEM;
    for (size_t offset = 0; offset < bytes && !status; offset += piece) {
        size_t piece_bytes = bytes - offset < piece ? bytes - offset : piece;
        status = store->read(store->user, handle, offset, part, piece_bytes);
        if (!status) status = zt_vk_write(engine, &buffer->mem, offset, part, piece_bytes);
    }
    zt_free(engine->base.ctx, part);
    return status;
}

zt_ebuf *zt_vk_load_weight(zt_engine *base, const zt_type *type, const zt_store *store, int64_t handle)
{
    zt_vk_engine *engine = (zt_vk_engine *)base;
    zt_ebuf *buffer = zt_calloc(base->ctx, 1, sizeof *buffer);
    if (!buffer) return NULL;
    buffer->type = *type;
    /* Of three dimensions a stack of matrices has them, but floats may be anything. */
    const bool stack = type->rank == 3 && zt_dtype_get(type->dtype)->kind == 'Q';
    const bool packed = (type->rank == 2 || stack) && zt_vk_pack_of(type->dtype);
    zt_status status =
        packed ? load_packed(engine, type, store, handle, buffer) : load_plain(engine, type, store, handle, buffer);
    if (!status) return buffer;
    base->vt->free(base, buffer);
    return NULL;
}

/* ---- back to plain --------------------------------------------------------------------------- */

/* A unit as the file has it: the first `bytes` of it. */
static void unpack_unit(int pack, const uint32_t *words, size_t bytes, uint8_t *unit_bytes)
{
    const size_t header = (size_t)packs[pack].header;
    memcpy(unit_bytes, words, header);
    memcpy(unit_bytes + header, words + (header != 0), bytes - header);
}

/* Columns of a row, `words` being its group, as the file has them. */
static void unpack_row(const weight_packing *packing, const uint32_t *words, int64_t row_index, uint8_t *row)
{
    int unit_words = packs[packing->pack].words;
    uint32_t unit[MAX_WORDS];
    for (int64_t unit_index = 0; unit_index < packing->units; unit_index++) {
        size_t offset = (size_t)unit_index * packing->unit_bytes, left = packing->row_bytes - offset;
        for (int word_index = 0; word_index < unit_words; word_index++)
            unit[word_index] = words[(unit_index * unit_words + word_index) * GROUP + row_index];
        unpack_unit(packing->pack, unit, left < packing->unit_bytes ? left : packing->unit_bytes, row + offset);
    }
}

zt_status zt_vk_plain(zt_vk_engine *engine, zt_ebuf *buffer)
{
    if (buffer->plain.buffer) return ZT_OK;
    weight_packing packing = packing_of(&buffer->type);
    zt_status status = zt_vk_alloc(engine, ZT_VK_DEVICE_MEM, zt_type_bytes(&buffer->type), &buffer->plain);
    packing.group = zt_alloc(engine->base.ctx, packing.group_bytes);
    packing.raw = zt_alloc(engine->base.ctx, packing.row_bytes);
    if (!status && (!packing.group || !packing.raw)) status = ZT_ENOMEM;
    for (int64_t group = 0; group < packing.all_groups && !status; group++) {
        const int64_t row = group % packing.groups * GROUP, first = group / packing.groups * packing.rows + row;
        status = zt_vk_read(engine, &buffer->mem, (size_t)group * packing.group_bytes, packing.group, packing.group_bytes);
        for (int64_t i = 0; i < GROUP && row + i < packing.rows && !status; i++) {
            unpack_row(&packing, packing.group, i, packing.raw);
            status = zt_vk_write(engine, &buffer->plain, (size_t)(first + i) * packing.row_bytes, packing.raw, packing.row_bytes);
        }
    }
    zt_free(engine->base.ctx, packing.group);
    zt_free(engine->base.ctx, packing.raw);
    if (status) zt_vk_release(engine, &buffer->plain);
    return status;
}
