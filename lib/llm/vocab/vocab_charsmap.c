/* vocab_charsmap.c - SentencePiece's precompiled normalization: which byte strings become which.
 *
 *     bytes 0-3      size of the trie in bytes
 *     trie           double array of 32-bit units
 *     replacements   texts, each closed by a zero byte
 *
 *     bits of a unit
 *     0-7            label
 *     8              a text ends at one of its children
 *     9              the offset counts in units of 256
 *     10-30          offset to its children
 *     31             the unit is a value: the place of a replacement
 *
 * Every index is checked against the array. Source: Darts-clone's and SentencePiece's formats, as facts.
 */
#include "lib/llm/vocab/vocab.h"

#include <string.h>

struct zt_charsmap {
    zt_ctx *ctx;
    const char *file;
    const unsigned char *unit; /* little-endian, not aligned */
    uint32_t unit_count;       /* units */
    zt_bytes text;             /* replacements */
};

static uint32_t read_u32(const unsigned char *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

zt_charsmap *zt_charsmap_new(zt_ctx *ctx, const char *file, zt_bytes map)
{
    const unsigned char *bytes = (const unsigned char *)map.data;
    uint32_t size = map.n >= 4 ? read_u32(bytes) : 0;
    if (map.n < 8 || size < 4 || size % 4 || size > map.n - 4) {
        zt_fail(ctx, ZT_EDATA, "%s: invalid precompiled_charsmap: %zu bytes with a trie of %u bytes", file, map.n, size);
        return NULL;
    }
    zt_charsmap *charsmap = zt_calloc(ctx, 1, sizeof *charsmap);
    if (charsmap) *charsmap = (zt_charsmap){ctx, file, bytes + 4, size / 4, {map.data + 4 + size, map.n - 4 - size}};
    return charsmap;
}

void zt_charsmap_free(zt_charsmap *charsmap)
{
    if (charsmap) zt_free(charsmap->ctx, charsmap);
}

static zt_status fail_outside(const zt_charsmap *charsmap, const char *what, uint32_t index, size_t limit)
{
    return zt_fail(charsmap->ctx, ZT_EDATA, "%s: invalid precompiled_charsmap: it refers to %s %u of %zu", charsmap->file, what,
                   index, limit);
}

static uint32_t child_offset(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }

/* Follows text from the root: *value and *used of the longest (or shortest) mapped prefix. */
static zt_status find_mapped(const zt_charsmap *charsmap, const char *text, size_t size, bool shortest, uint32_t *value,
                             size_t *used)
{
    uint32_t index = 0, unit = read_u32(charsmap->unit);
    for (size_t i = 0; i < size && !(shortest && *used); i++) {
        unsigned char byte = (unsigned char)text[i];
        index ^= child_offset(unit) ^ byte;
        if (index >= charsmap->unit_count) return fail_outside(charsmap, "unit", index, charsmap->unit_count);
        unit = read_u32(charsmap->unit + 4 * (size_t)index);
        if (!byte || (unit & (1u << 31 | 0xff)) != byte) break;
        if (unit & 1u << 8) {
            uint32_t leaf = index ^ child_offset(unit);
            if (leaf >= charsmap->unit_count) return fail_outside(charsmap, "unit", leaf, charsmap->unit_count);
            *value = read_u32(charsmap->unit + 4 * (size_t)leaf) & ~(1u << 31);
            *used = i + 1;
        }
    }
    return ZT_OK;
}

zt_status zt_charsmap_prefix(const zt_charsmap *charsmap, const char *text, size_t size, bool shortest, zt_bytes *out,
                             size_t *used)
{
    uint32_t value = 0;
    *used = 0;
    zt_status status = find_mapped(charsmap, text, size, shortest, &value, used);
    if (status || !*used) return status;
    const char *from = charsmap->text.data + value;
    const char *end = value < charsmap->text.n ? memchr(from, 0, charsmap->text.n - value) : NULL;
    if (!end) return fail_outside(charsmap, "byte", value, charsmap->text.n);
    *out = (zt_bytes){from, (size_t)(end - from)};
    return ZT_OK;
}
