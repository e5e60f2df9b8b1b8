/* characters.c - sets of characters, and the UTF-8 of a set as sequences of byte ranges. */
#include "lib/llm/grammar/internal.h"

#include <stdlib.h>
#include <string.h>

enum { LAST_CHARACTER = 0x10ffff, FIRST_SURROGATE = 0xd800, LAST_SURROGATE = 0xdfff };

bool zt_g_chars_add(gbuilder *builder, gchars *chars, uint32_t first, uint32_t last)
{
    if (chars->count == chars->capacity) {
        int capacity = chars->capacity ? 2 * chars->capacity : 8;
        grange *grown = zt_arena_alloc(builder->arena, (size_t)capacity * sizeof *grown);
        if (!grown) return false;
        if (chars->count) memcpy(grown, chars->range, (size_t)chars->count * sizeof *grown);
        chars->range = grown;
        chars->capacity = capacity;
    }
    chars->range[chars->count++] = (grange){first, last};
    return true;
}

static int compare_ranges(const void *first, const void *second)
{
    const grange *left = first, *right = second;
    return (left->first > right->first) - (left->first < right->first);
}

void zt_g_chars_normalize(gchars *chars)
{
    int kept = 0;
    if (chars->count) qsort(chars->range, (size_t)chars->count, sizeof *chars->range, compare_ranges);
    for (int i = 0; i < chars->count; i++) {
        grange range = chars->range[i];
        if (range.first > range.last) continue;
        if (kept && range.first <= chars->range[kept - 1].last + 1) {
            if (range.last > chars->range[kept - 1].last) chars->range[kept - 1].last = range.last;
        } else {
            chars->range[kept++] = range;
        }
    }
    chars->count = kept;
}

bool zt_g_chars_invert(gbuilder *builder, gchars *chars)
{
    gchars inverted = {0};
    uint32_t from = 0;
    bool done = true;
    zt_g_chars_normalize(chars);
    for (int i = 0; i < chars->count && done; i++) {
        if (chars->range[i].first > from) done = zt_g_chars_add(builder, &inverted, from, chars->range[i].first - 1);
        from = chars->range[i].last + 1;
    }
    if (done && from <= LAST_CHARACTER) done = zt_g_chars_add(builder, &inverted, from, LAST_CHARACTER);
    *chars = inverted;
    return done;
}

bool zt_g_chars_has(const gchars *chars, uint32_t code_point)
{
    for (int i = 0; i < chars->count; i++)
        if (chars->range[i].first <= code_point && code_point <= chars->range[i].last) return true;
    return false;
}

bool zt_g_chars_class(gbuilder *builder, gchars *chars, char letter, bool wide)
{
    static const grange digits[] = {{'0', '9'}}, words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    /* white space by ECMAScript and by Python; then what only one of them counts */
    static const grange spaces[] = {{0x09, 0x0d},     {0x20, 0x20},     {0xa0, 0xa0},     {0x1680, 0x1680},
                                    {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                                    {0x3000, 0x3000}, {0x1c, 0x1f},     {0x85, 0x85},     {0xfeff, 0xfeff}};
    static const struct {
        char letter;
        const grange *range;
        int count, wide_count;
    } classes[] = {{'d', digits, 1, 1}, {'w', words, 4, 4}, {'s', spaces, 9, 12}};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if ((letter | 0x20) != classes[i].letter) continue;
        gchars set = {0};
        bool done = true, opposite = letter != classes[i].letter;
        int count = wide != opposite ? classes[i].wide_count : classes[i].count;
        for (int j = 0; j < count && done; j++)
            done = zt_g_chars_add(builder, &set, classes[i].range[j].first, classes[i].range[j].last);
        if (done && opposite) done = zt_g_chars_invert(builder, &set);
        for (int j = 0; j < set.count && done; j++) done = zt_g_chars_add(builder, chars, set.range[j].first, set.range[j].last);
        return done;
    }
    return false;
}

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

/* Of two characters of the same length in UTF-8 whose bytes differ only where the range of the later bytes is
 * whole. */
static bool put_sequence(uint32_t first, uint32_t last, gbytes_fn *fn, void *user)
{
    gbytes_sequence sequence;
    char low[4], high[4];
    sequence.count = zt_utf8_encode(first, low);
    zt_utf8_encode(last, high);
    memcpy(sequence.first, low, sizeof low);
    memcpy(sequence.last, high, sizeof high);
    return fn(user, &sequence);
}

/* Splits a range of characters of the same length until each byte's range does not depend on the bytes before it. */
static bool split_range(uint32_t first, uint32_t last, gbytes_fn *fn, void *user)
{
    for (int bits = 6; last >= 0x80 && bits <= 18; bits += 6) {
        uint32_t low = (1u << bits) - 1;
        if ((first & ~low) == (last & ~low)) break;
        if (first & low) return split_range(first, first | low, fn, user) && split_range((first | low) + 1, last, fn, user);
        if ((last & low) != low)
            return split_range(first, (last & ~low) - 1, fn, user) && split_range(last & ~low, last, fn, user);
    }
    return put_sequence(first, last, fn, user);
}

bool zt_g_chars_bytes(const gchars *chars, gbytes_fn *fn, void *user)
{
    static const grange lengths[] = {
        {0, 0x7f}, {0x80, 0x7ff}, {0x800, FIRST_SURROGATE - 1}, {LAST_SURROGATE + 1, 0xffff}, {0x10000, LAST_CHARACTER}};
    bool more = true;
    for (int i = 0; i < chars->count; i++)
        for (size_t j = 0; more && j < sizeof lengths / sizeof *lengths; j++) {
            uint32_t first = chars->range[i].first, last = chars->range[i].last;
            if (first < lengths[j].first) first = lengths[j].first;
            if (last > lengths[j].last) last = lengths[j].last;
            if (first <= last) more = split_range(first, last, fn, user);
        }
    return more;
}
