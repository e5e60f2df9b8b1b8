/* mutate_safetensors.h - changes of a safetensors header: a number, a dtype, a tensor that comes twice or not at all. Before a header
 * of a whole file its length is kept right. */
#ifndef ZT_FUZZ_MUTATE_SAFETENSORS_H
#define ZT_FUZZ_MUTATE_SAFETENSORS_H

#include "tests/fuzz/mutate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

/* One of the places in [begin, end) where `is_there` holds; end: there is none. */
static size_t draw_place(mutant *m, size_t begin, size_t end, bool (*is_there)(const mutant *m, size_t at, size_t begin))
{
    size_t seen = 0, place = end;
    for (size_t at = begin; at < end; at++)
        if (is_there(m, at, begin) && draw(m, ++seen) == 0) place = at;
    return place;
}

static bool begins_number(const mutant *m, size_t at, size_t begin)
{
    return is_digit(m->bytes[at]) && (at == begin || strchr(",[:- ", m->bytes[at - 1]));
}

static bool begins_dtype(const mutant *m, size_t at, size_t begin)
{
    static const char before[] = "\"dtype\":\"";
    const size_t size = sizeof before - 1;
    return at >= begin + size && memcmp(m->bytes + at - size, before, size) == 0;
}

/* The brace of a tensor, which is not the first of the header. */
static bool begins_tensor(const mutant *m, size_t at, size_t begin) { return at > begin && m->bytes[at] == '{'; }

static bool change_number(mutant *m, size_t begin, size_t end)
{
    char text[24] = {0};
    size_t at = draw_place(m, begin, end, begins_number), size = 0;
    while (at + size < end && is_digit(m->bytes[at + size]) && size < sizeof text - 1) size++;
    if (size == 0) return false;
    memcpy(text, m->bytes + at, size);
    int length = snprintf(text, sizeof text, "%" PRIu64, draw_number(m, strtoull(text, NULL, 10)));
    return replace(m, at, size, text, (size_t)length);
}

static bool change_dtype(mutant *m, size_t begin, size_t end)
{
    static const char *const names[] = {"BOOL", "U8",   "I8",  "F8_E5M2", "F8_E4M3", "I16",     "U16",
                                        "F16",  "BF16", "I32", "U32",     "F32",     "F64",     "I64",
                                        "U64",  "F4",   "C64", "F32 ",    "",        "F6_E2M3", "F8_E8M0"};
    const char *name = names[draw(m, sizeof names / sizeof *names)];
    size_t at = draw_place(m, begin, end, begins_dtype), size = 0;
    while (at + size < end && m->bytes[at + size] != '"') size++;
    return at < end && replace(m, at, size, name, strlen(name));
}

/* "NAME":{...}, of a tensor, with the comma behind it, doubled or removed. */
static bool change_tensor(mutant *m, size_t begin, size_t end)
{
    size_t brace = draw_place(m, begin, end, begins_tensor), from = brace, to = brace;
    int quotes = 0;
    while (from > begin + 1 && quotes < 2) quotes += m->bytes[--from] == '"';
    while (to < end && m->bytes[to] != '}') to++;
    if (quotes < 2 || to == end) return false;
    to += 1 + (to + 1 < end && m->bytes[to + 1] == ',');
    return draw(m, 2) ? double_part(m, from, to - from) : replace(m, from, to - from, NULL, 0);
}

/* false: there is nothing that can be changed. */
static bool mutate_safetensors(mutant *m)
{
    static bool (*const changes[])(mutant * m, size_t begin, size_t end) = {change_number, change_number, change_dtype,
                                                                            change_tensor};
    bool whole = m->size > 8 && m->bytes[0] != '{';
    uint64_t length = whole ? get_number(m, 0, 8) : m->size;
    size_t begin = whole ? 8 : 0, before = m->size;
    if (length > m->size - begin) return false;
    bool done = changes[draw(m, sizeof changes / sizeof *changes)](m, begin, begin + (size_t)length);
    length += m->size - before; /* modulo 2^64 where it is less */
    if (done && whole) memcpy(m->bytes, &length, 8);
    return done;
}

#endif
