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

static void pack_words(const uint8_t *from, size_t bytes, uint32_t *words, int n)
{
    memset(words, 0, (size_t)n * sizeof *words);
    memcpy(words, from, bytes);
}

static uint32_t scale_word(const uint8_t *from)
{
    uint16_t h;
    uint32_t word;
    memcpy(&h, from, sizeof h);
    float d = zt_f16_to_f32(h);
    memcpy(&word, &d, sizeof word);
    return word;
}

/* Block layouts: ggml-common.h of ggml (MIT), as facts. */
static const struct {
    zt_dtype dtype;
    int columns, words; /* of a unit */
    bool scaled;        /* a half of scale comes first, which becomes a float */
} packs[] = {
    {ZT_DTYPE_COUNT, 0, 0, false}, /* 0: the plain layout */
    {ZT_F32, 32, 32, false},       {ZT_F16, 32, 16, false},   {ZT_BF16, 32, 16, false},
    {ZT_Q4_0, 32, 5, true},        {ZT_Q4_1, 32, 5, false},   {ZT_Q8_0, 32, 9, true},
    {ZT_Q4_K, 256, 36, false},     {ZT_Q6_K, 256, 53, false}, {ZT_Q5_0, 32, 6, true},
    {ZT_Q5_1, 32, 6, false},       {ZT_Q5_K, 256, 44, false},
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

typedef struct packing {
    int pack;
    int64_t rows, columns, units;
    size_t row_bytes, unit_bytes, group_bytes; /* unit_bytes: of the file's block or 32 columns */
    uint8_t *raw;                              /* GROUP rows as the file has them */
    uint32_t *group;                           /* and packed */
} packing;

static void pack_rows(const packing *p, int64_t rows)
{
    uint32_t words[MAX_WORDS];
    int n = packs[p->pack].words;
    memset(p->group, 0, p->group_bytes);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t u = 0; u < p->units; u++) {
            size_t at = (size_t)u * p->unit_bytes, left = p->row_bytes - at;
            pack_unit(p->pack, p->raw + (size_t)r * p->row_bytes + at,
                      left < p->unit_bytes ? left : p->unit_bytes, words);
            for (int w = 0; w < n; w++) p->group[(u * n + w) * GROUP + r] = words[w];
        }
}

static zt_status pack_all(zt_vk_engine *engine, const packing *p, const zt_store *store, int64_t handle,
                          const zt_vk_mem *to)
{
    zt_status status = ZT_OK;
    for (int64_t row = 0; row < p->rows && !status; row += GROUP) {
        int64_t n = p->rows - row < GROUP ? p->rows - row : GROUP;
        status = store->read(store->user, handle, (size_t)row * p->row_bytes, p->raw, (size_t)n * p->row_bytes);
        if (status) break;
        pack_rows(p, n);
        status = zt_vk_write(engine, to, (size_t)(row / GROUP) * p->group_bytes, p->group, p->group_bytes);
    }
    return status;
}

static packing packing_of(const zt_type *type)
{
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    packing p = {.pack = zt_vk_pack_of(type->dtype), .rows = type->dim[0], .columns = type->dim[1]};
    int each = packs[p.pack].columns;
    p.units = (p.columns + each - 1) / each;
    p.row_bytes = (size_t)(p.columns / info->block) * (size_t)info->block_bytes;
    p.unit_bytes = (size_t)(each / info->block) * (size_t)info->block_bytes;
    p.group_bytes = (size_t)p.units * (size_t)packs[p.pack].words * GROUP * sizeof(uint32_t);
    return p;
}

static zt_status load_packed(zt_vk_engine *engine, const zt_type *type, const zt_store *store, int64_t handle,
                             zt_ebuf *buffer)
{
    packing p = packing_of(type);
    size_t bytes, groups = (size_t)((p.rows + GROUP - 1) / GROUP), raw;
    if (!zt_mul_size(groups, p.group_bytes, &bytes) || !zt_mul_size(p.row_bytes, GROUP, &raw))
        return zt_fail(engine->base.ctx, ZT_ENOMEM, "a weight of %zu groups of %zu bytes", groups,
                       p.group_bytes);
    zt_status status = zt_vk_alloc(engine, ZT_VK_DEVICE_MEM, bytes, &buffer->mem);
    if (status) return status;
    buffer->pack = p.pack;
    p.raw = zt_alloc(engine->base.ctx, raw);
    p.group = zt_alloc(engine->base.ctx, p.group_bytes);
    status = p.raw && p.group ? pack_all(engine, &p, store, handle, &buffer->mem) : ZT_ENOMEM;
    zt_free(engine->base.ctx, p.raw);
    zt_free(engine->base.ctx, p.group);
    return status;
}

static zt_status load_plain(zt_vk_engine *engine, const zt_type *type, const zt_store *store, int64_t handle,
                            zt_ebuf *buffer)
{
    size_t bytes = zt_type_bytes(type), piece = bytes < 1 << 20 ? bytes : 1 << 20;
    zt_status status = zt_vk_alloc(engine, ZT_VK_DEVICE_MEM, bytes, &buffer->mem);
    if (status) return status;
    char *part = zt_alloc(engine->base.ctx, piece);
    if (!part) return ZT_ENOMEM;
    for (size_t at = 0; at < bytes && !status; at += piece) {
        size_t n = bytes - at < piece ? bytes - at : piece;
        status = store->read(store->user, handle, at, part, n);
        if (!status) status = zt_vk_write(engine, &buffer->mem, at, part, n);
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
static void unpack_unit(int pack, const uint32_t *words, size_t bytes, uint8_t *to)
{
    float d;
    if (!packs[pack].scaled) {
        memcpy(to, words, bytes);
        return;
    }
    memcpy(&d, words, sizeof d);
    uint16_t h = zt_f32_to_f16(d);
    memcpy(to, &h, sizeof h);
    memcpy(to + sizeof h, words + 1, bytes - sizeof h);
}

/* Columns of row r, `words` being its group, as the file has them. */
static void unpack_row(const packing *p, const uint32_t *words, int64_t r, uint8_t *row)
{
    int n = packs[p->pack].words;
    uint32_t unit[MAX_WORDS];
    for (int64_t u = 0; u < p->units; u++) {
        size_t at = (size_t)u * p->unit_bytes, left = p->row_bytes - at;
        for (int w = 0; w < n; w++) unit[w] = words[(u * n + w) * GROUP + r];
        unpack_unit(p->pack, unit, left < p->unit_bytes ? left : p->unit_bytes, row + at);
    }
}

zt_status zt_vk_plain(zt_vk_engine *engine, zt_ebuf *buffer)
{
    if (buffer->plain.buffer) return ZT_OK;
    packing p = packing_of(&buffer->type);
    zt_status status = zt_vk_alloc(engine, ZT_VK_DEVICE_MEM, zt_type_bytes(&buffer->type), &buffer->plain);
    p.group = zt_alloc(engine->base.ctx, p.group_bytes);
    p.raw = zt_alloc(engine->base.ctx, p.row_bytes);
    if (!status && (!p.group || !p.raw)) status = ZT_ENOMEM;
    for (int64_t r = 0; r < p.rows && !status; r++) {
        if (r % GROUP == 0)
            status =
                zt_vk_read(engine, &buffer->mem, (size_t)(r / GROUP) * p.group_bytes, p.group, p.group_bytes);
        if (status) break;
        unpack_row(&p, p.group, r % GROUP, p.raw);
        status = zt_vk_write(engine, &buffer->plain, (size_t)r * p.row_bytes, p.raw, p.row_bytes);
    }
    zt_free(engine->base.ctx, p.group);
    zt_free(engine->base.ctx, p.raw);
    if (status) zt_vk_release(engine, &buffer->plain);
    return status;
}
