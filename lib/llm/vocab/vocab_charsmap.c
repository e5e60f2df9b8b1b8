/* vocab_charsmap.c - SentencePiece's precompiled normalization: which byte strings become which.
 *
 * Four bytes: the size of the trie; the trie, a double array of 32-bit units; then the
 * replacements, each closed by a zero byte. A unit holds a label in bits 0-7, "some text ends at a
 * child" in bit 8, the offset to its children in bits 10-30 (times 256 with bit 9), or with bit 31
 * a value: the place of a replacement. Source: Darts-clone's and SentencePiece's formats, as facts.
 *
 * Nothing here is believed: every index is checked against the array.
 */
#include "lib/llm/vocab/vocab.h"

#include <string.h>

struct zt_charsmap {
    zt_ctx *ctx;
    const char *file;
    const unsigned char *unit; /* little-endian, not aligned */
    uint32_t n;                /* units */
    zt_bytes text;             /* replacements */
};

static uint32_t u32(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

zt_charsmap *zt_charsmap_new(zt_ctx *ctx, const char *file, zt_bytes map)
{
    const unsigned char *p = (const unsigned char *)map.data;
    uint32_t size = map.n >= 4 ? u32(p) : 0;
    if (map.n < 8 || size < 4 || size % 4 || size > map.n - 4) {
        zt_fail(ctx, ZT_EDATA, "%s: the charsmap has %zu bytes, of them %u of a trie", file, map.n,
                size);
        return NULL;
    }
    zt_charsmap *c = zt_calloc(ctx, 1, sizeof *c);
    if (c)
        *c = (zt_charsmap){ctx, file, p + 4, size / 4, {map.data + 4 + size, map.n - 4 - size}};
    return c;
}

void zt_charsmap_free(zt_charsmap *c)
{
    if (c)
        zt_free(c->ctx, c);
}

static zt_status outside(const zt_charsmap *c, const char *what, uint32_t at, size_t n)
{
    return zt_fail(c->ctx, ZT_EDATA, "%s: the charsmap leads to %s %u of %zu", c->file, what, at,
                   n);
}

static uint32_t offset_of(uint32_t unit)
{
    return unit >> 10 << ((unit & 1u << 9) >> 6);
}

/* Goes down from the root along text; *value of the longest text that is mapped. */
static zt_status walk(const zt_charsmap *c, const char *text, size_t n, bool shortest,
                      uint32_t *value, size_t *used)
{
    uint32_t at = 0, unit = u32(c->unit);
    for (size_t i = 0; i < n && !(shortest && *used); i++) {
        unsigned char byte = (unsigned char)text[i];
        at ^= offset_of(unit) ^ byte;
        if (at >= c->n)
            return outside(c, "unit", at, c->n);
        unit = u32(c->unit + 4 * (size_t)at);
        if (!byte || (unit & (1u << 31 | 0xff)) != byte)
            break;
        if (unit & 1u << 8) {
            uint32_t leaf = at ^ offset_of(unit);
            if (leaf >= c->n)
                return outside(c, "unit", leaf, c->n);
            *value = u32(c->unit + 4 * (size_t)leaf) & ~(1u << 31);
            *used = i + 1;
        }
    }
    return ZT_OK;
}

zt_status zt_charsmap_prefix(const zt_charsmap *c, const char *text, size_t n, bool shortest,
                             zt_bytes *out, size_t *used)
{
    uint32_t value = 0;
    *used = 0;
    zt_status s = walk(c, text, n, shortest, &value, used);
    if (s || !*used)
        return s;
    const char *from = c->text.data + value;
    const char *end = value < c->text.n ? memchr(from, 0, c->text.n - value) : NULL;
    if (!end)
        return outside(c, "byte", value, c->text.n);
    *out = (zt_bytes){from, (size_t)(end - from)};
    return ZT_OK;
}
