/* weights.c - how matrices come into the engine.
 *
 * Rows are packed by 32 side by side: a row's blocks become units of whole words, and word w of row
 * r's unit u lies at ((r / 32 * units + u) * words + w) * 32 + r % 32. So the 32 invocations of a
 * group, a row each, read 32 words that follow each other. shaders/weights.glsl reads them.
 */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

enum { GROUP = 32, MAX_WORDS = 53 };

/* ---- units ----------------------------------------------------------------------------------- */

static void pack_words(const uint8_t *from, size_t bytes, uint32_t *words, int word_count)
{
    memset(words, 0, (size_t)word_count * sizeof *words);
    memcpy(words, from, bytes);
}

static uint32_t scale_word(const uint8_t *from)
{
    uint16_t half;
    uint32_t word;
    memcpy(&half, from, sizeof half);
    float scale = zt_f16_to_f32(half);
    memcpy(&word, &scale, sizeof word);
    return word;
}

/* Block layouts: ggml-common.h of ggml (MIT), as facts. */
static const struct {
    zt_dtype dtype;
    int columns, words; /* of a unit */
    bool scaled;        /* a half of scale comes first, which becomes a float */
} packs[] = {
    {ZT_DTYPE_COUNT, 0, 0, false}, /* 0: the plain layout */
    {ZT_F32, 32, 32, false},       {ZT_F16, 32, 16, false}, {ZT_BF16, 32, 16, false},  {ZT_Q4_0, 32, 5, true},
    {ZT_Q4_1, 32, 5, false},       {ZT_Q8_0, 32, 9, true},  {ZT_Q4_K, 256, 36, false}, {ZT_Q6_K, 256, 53, false},
    {ZT_Q5_0, 32, 6, true},        {ZT_Q5_1, 32, 6, false}, {ZT_Q5_K, 256, 44, false},
};

/* A unit of which the file has `bytes`; the rest of its words are 0. */
static void pack_unit(int pack, const uint8_t *from, size_t bytes, uint32_t *words)
{
    size_t half = packs[pack].scaled ? sizeof(uint16_t) : 0;
    if (half) *words++ = scale_word(from);
    pack_words(from + half, bytes - half, words, packs[pack].words - (half != 0));
}

int zt_vk_pack_of(zt_dtype dtype)
{
    for (int i = 1; i < (int)(sizeof packs / sizeof packs[0]); i++)
        if (packs[i].dtype == dtype) return i;
    return 0;
}

/* ---- loading --------------------------------------------------------------------------------- */

typedef struct weight_packing {
    int pack;
    int64_t rows, columns, units;
    size_t row_bytes, unit_bytes, group_bytes; /* unit_bytes: of the file's block or 32 columns */
    uint8_t *raw;                              /* GROUP rows as the file has them */
    uint32_t *group;                           /* and packed */
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

static zt_status pack_all(zt_vk_engine *engine, const weight_packing *packing, const zt_store *store, int64_t handle,
                          zt_vk_mem *to)
{
    zt_status status = ZT_OK;
    for (int64_t row = 0; row < packing->rows && !status; row += GROUP) {
        int64_t group_rows = packing->rows - row < GROUP ? packing->rows - row : GROUP;
        status = store->read(store->user, handle, (size_t)row * packing->row_bytes, packing->raw,
                             (size_t)group_rows * packing->row_bytes);
        if (status) break;
        pack_rows(packing, group_rows);
        status = zt_vk_write(engine, to, (size_t)(row / GROUP) * packing->group_bytes, packing->group, packing->group_bytes);
    }
    return status;
}

static weight_packing packing_of(const zt_type *type)
{
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    weight_packing packing = {.pack = zt_vk_pack_of(type->dtype), .rows = type->dim[0], .columns = type->dim[1]};
    int each = packs[packing.pack].columns;
    packing.units = (packing.columns + each - 1) / each;
    packing.row_bytes = (size_t)(packing.columns / info->block) * (size_t)info->block_bytes;
    packing.unit_bytes = (size_t)(each / info->block) * (size_t)info->block_bytes;
    packing.group_bytes = (size_t)packing.units * (size_t)packs[packing.pack].words * GROUP * sizeof(uint32_t);
    return packing;
}

static zt_status load_packed(zt_vk_engine *engine, const zt_type *type, const zt_store *store, int64_t handle, zt_ebuf *buffer)
{
    weight_packing packing = packing_of(type);
    size_t bytes, groups = (size_t)((packing.rows + GROUP - 1) / GROUP), raw;
    if (!zt_mul_size(groups, packing.group_bytes, &bytes) || !zt_mul_size(packing.row_bytes, GROUP, &raw))
        return zt_fail(engine->base.ctx, ZT_ENOMEM, "weight too large (%zu groups of %zu bytes)", groups, packing.group_bytes);
    zt_status status = zt_vk_alloc(engine, ZT_VK_DEVICE_MEM, bytes, &buffer->mem);
    if (status) return status;
    buffer->pack = packing.pack;
    packing.raw = zt_alloc(engine->base.ctx, raw);
    packing.group = zt_alloc(engine->base.ctx, packing.group_bytes);
    status = packing.raw && packing.group ? pack_all(engine, &packing, store, handle, &buffer->mem) : ZT_ENOMEM;
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
    bool packed = type->rank == 2 && zt_vk_pack_of(type->dtype);
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
    float scale;
    if (!packs[pack].scaled) {
        memcpy(unit_bytes, words, bytes);
        return;
    }
    memcpy(&scale, words, sizeof scale);
    uint16_t half = zt_f32_to_f16(scale);
    memcpy(unit_bytes, &half, sizeof half);
    memcpy(unit_bytes + sizeof half, words + 1, bytes - sizeof half);
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
    for (int64_t row_index = 0; row_index < packing.rows && !status; row_index++) {
        if (row_index % GROUP == 0)
            status = zt_vk_read(engine, &buffer->mem, (size_t)(row_index / GROUP) * packing.group_bytes, packing.group,
                                packing.group_bytes);
        if (status) break;
        unpack_row(&packing, packing.group, row_index % GROUP, packing.raw);
        status = zt_vk_write(engine, &buffer->plain, (size_t)row_index * packing.row_bytes, packing.raw, packing.row_bytes);
    }
    zt_free(engine->base.ctx, packing.group);
    zt_free(engine->base.ctx, packing.raw);
    if (status) zt_vk_release(engine, &buffer->plain);
    return status;
}
