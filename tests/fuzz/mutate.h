/* mutate.h - for fuzz targets that know the structure of what they read: LLVMFuzzerCustomMutator changes one field, entry or
 * opcode of an input, which otherwise stays whole, so that what lies behind the first checks is reached. Half of the changes are
 * those of the driver (LLVMFuzzerMutate), which break the structure.
 */
#ifndef ZT_FUZZ_MUTATE_H
#define ZT_FUZZ_MUTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t most); /* libFuzzer's, or main.c's */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed);

/* An input that is changed in place. */
typedef struct mutant {
    uint8_t *bytes;
    size_t size, most;
    uint64_t state; /* of the random numbers */
} mutant;

static size_t draw(mutant *m, size_t below) /* splitmix64 (Steele, Lea, Flood 2014) */
{
    uint64_t z = m->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return below ? (size_t)((z ^ z >> 31) % below) : 0;
}

/* A number near the one that is there, or at a limit. */
__attribute__((unused)) static uint64_t draw_number(mutant *m, uint64_t old)
{
    static const uint64_t limits[] = {0, 1, 2, 31, 32, 64, 255, 65535, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX};
    switch (draw(m, 6)) {
    case 0: return old + 1 + draw(m, 8);
    case 1: return old - 1 - draw(m, 8);
    case 2: return old << (1 + draw(m, 4));
    case 3: return UINT64_C(1) << draw(m, 64);
    case 4: return draw(m, 16);
    default: return limits[draw(m, sizeof limits / sizeof *limits)];
    }
}

/* A little-endian number of `width` bytes at `at`, which is inside. */
__attribute__((unused)) static uint64_t get_number(const mutant *m, size_t at, size_t width)
{
    uint64_t value = 0;
    memcpy(&value, m->bytes + at, width);
    return value;
}

/* `removed` bytes at `at` become the `size` bytes of a piece, which is not in the input. false: there is no room. */
static bool replace(mutant *m, size_t at, size_t removed, const void *piece, size_t size)
{
    if (at > m->size || removed > m->size - at || m->size - removed + size > m->most) return false;
    memmove(m->bytes + at + size, m->bytes + at + removed, m->size - at - removed);
    if (size) memcpy(m->bytes + at, piece, size);
    m->size += size - removed;
    return true;
}

/* A second copy of a part of at most 1024 bytes goes in before it. */
__attribute__((unused)) static bool double_part(mutant *m, size_t at, size_t size)
{
    uint8_t copy[1024];
    if (size > sizeof copy) return false;
    memcpy(copy, m->bytes + at, size);
    return replace(m, at, 0, copy, size);
}

#endif
