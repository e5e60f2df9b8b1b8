/* mutate_pickle.h - changes of a pickle by its opcodes, which stay whole: one is removed, doubled, put in, or has another
 * argument. Opcodes: CPython, Lib/pickletools.py, as facts. */
#ifndef ZT_FUZZ_MUTATE_PICKLE_H
#define ZT_FUZZ_MUTATE_PICKLE_H

#include "tests/fuzz/mutate.h"

enum { PICKLE_MOST = 600 }; /* opcodes that are looked at */

/* Bytes of the argument of an opcode; 0: unknown opcode. */
typedef enum pickle_argument {
    PICKLE_UNKNOWN,
    PICKLE_NONE,
    PICKLE_1,
    PICKLE_2,
    PICKLE_4,
    PICKLE_8,
    PICKLE_LINE,
    PICKLE_LINES,
    PICKLE_SIZED_1, /* a length of 1 byte and as many bytes */
    PICKLE_SIZED_4,
    PICKLE_SIZED_8
} pickle_argument;

static pickle_argument pickle_argument_of(uint8_t opcode)
{
    static const struct {
        const char *opcodes;
        pickle_argument argument;
    } rows[] = {{"()]}.0123NQRabdeostul\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94\x97\x98", PICKLE_NONE},
                {"Khq\x80\x82", PICKLE_1},
                {"M\x83", PICKLE_2},
                {"Jjr\x84", PICKLE_4},
                {"G\x95", PICKLE_8},
                {"FILSVPgp", PICKLE_LINE},
                {"ci", PICKLE_LINES},
                {"UC\x8a\x8c", PICKLE_SIZED_1},
                {"TBX\x8b", PICKLE_SIZED_4},
                {"\x8d\x8e\x96", PICKLE_SIZED_8}};
    pickle_argument argument = PICKLE_UNKNOWN;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (opcode && strchr(rows[i].opcodes, opcode)) argument = rows[i].argument;
    return argument;
}

/* Bytes of the opcode at `at` with its argument; 0: it is unknown, or ends behind the pickle. */
static size_t pickle_opcode_bytes(const mutant *m, size_t at)
{
    pickle_argument argument = pickle_argument_of(m->bytes[at]);
    size_t left = m->size - at - 1, size = 0;
    if (argument == PICKLE_UNKNOWN) return 0;
    if (argument <= PICKLE_8) {
        size = argument == PICKLE_NONE ? 0 : (size_t)1 << (argument - PICKLE_1);
    } else if (argument <= PICKLE_LINES) {
        for (pickle_argument lines = PICKLE_LINE; lines <= argument; lines++) {
            const uint8_t *end = memchr(m->bytes + at + 1 + size, '\n', left - size);
            if (!end) return 0;
            size = (size_t)(end - m->bytes) - at;
        }
    } else {
        size_t width = argument == PICKLE_SIZED_1 ? 1 : argument == PICKLE_SIZED_4 ? 4 : 8;
        if (left < width || get_number(m, at + 1, width) > left - width) return 0;
        size = width + (size_t)get_number(m, at + 1, width);
    }
    return size <= left ? 1 + size : 0;
}

static bool pickle_put(mutant *m, size_t at)
{
    static const struct {
        const char *bytes;
        size_t size;
    } pieces[] = {{"(", 1},
                  {")", 1},
                  {"}", 1},
                  {"]", 1},
                  {"0", 1},
                  {"1", 1},
                  {"2", 1},
                  {"N", 1},
                  {"R", 1},
                  {"Q", 1},
                  {"b", 1},
                  {"s", 1},
                  {"u", 1},
                  {"a", 1},
                  {"e", 1},
                  {"t", 1},
                  {"\x85", 1},
                  {"\x86", 1},
                  {"\x87", 1},
                  {"\x88", 1},
                  {"\x89", 1},
                  {"\x93", 1},
                  {"\x94", 1},
                  {"K\x00", 2},
                  {"K\x02", 2},
                  {"h\x00", 2},
                  {"q\x01", 2},
                  {"J\xff\xff\xff\xff", 5},
                  {"M\xff\xff", 3},
                  {"\x8c\x05torch", 7},
                  {"\x8c\x04Size", 6},
                  {"ccollections\nOrderedDict\n", 25},
                  {"ctorch._utils\n_rebuild_tensor_v2\n", 34},
                  {"ctorch\nFloatStorage\n", 20},
                  {"\x8a\x01\x7f", 3},
                  {".", 1}};
    size_t piece = draw(m, sizeof pieces / sizeof *pieces);
    return replace(m, at, 0, pieces[piece].bytes, pieces[piece].size);
}

/* A number in the argument becomes another of the same width. */
static bool pickle_change(mutant *m, size_t at)
{
    pickle_argument argument = pickle_argument_of(m->bytes[at]);
    if (argument < PICKLE_1 || argument > PICKLE_8) return pickle_put(m, at);
    size_t width = (size_t)1 << (argument - PICKLE_1);
    uint64_t value = draw_number(m, get_number(m, at + 1, width));
    memcpy(m->bytes + at + 1, &value, width);
    return true;
}

/* false: there is nothing that can be changed. */
static bool mutate_pickle(mutant *m)
{
    size_t places[PICKLE_MOST], sizes[PICKLE_MOST], count = 0;
    for (size_t at = 0, size; at < m->size && count < PICKLE_MOST && (size = pickle_opcode_bytes(m, at)) > 0; at += size) {
        places[count] = at;
        sizes[count++] = size;
    }
    if (count == 0) return false;
    size_t i = draw(m, count);
    switch (draw(m, 4)) {
    case 0: return replace(m, places[i], sizes[i], NULL, 0);
    case 1: return double_part(m, places[i], sizes[i]);
    case 2: return pickle_put(m, places[i]);
    default: return pickle_change(m, places[i]);
    }
}

#endif
