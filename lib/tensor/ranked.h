/* ranked.h - candidates of a row of f32 in a heap, best first: a header of the library's own.
 *
 * A candidate is one key of 64 bits: its number as an integer of the same order above, its place
 * turned round below. Keys are all different, so that "best first" is one total order: ties go to
 * the lower place, and equal numbers give equal bits whatever was sorted before. They lie in a heap
 * and leave it best first, to the end of its memory, only as many as are looked at.
 */
#ifndef ZT_TENSOR_RANKED_H
#define ZT_TENSOR_RANKED_H

#include <stdint.h>
#include <string.h>

/* 0, below all others: NaN, which does not count. */
static inline uint64_t zt_ranked_key(float number, int64_t place)
{
    uint32_t bits;
    float positive = number + 0.0f; /* -0 is 0 */
    if (number != number) return 0;
    memcpy(&bits, &positive, sizeof bits);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)bits << 32 | (0xffffffffu - (uint32_t)place);
}

static inline double zt_ranked_number(uint64_t key)
{
    uint32_t bits = (uint32_t)(key >> 32);
    float number;
    bits = bits >> 31 ? bits & 0x7fffffffu : ~bits;
    memcpy(&number, &bits, sizeof number);
    return (double)number;
}

static inline int32_t zt_ranked_place(uint64_t key) { return (int32_t)(0xffffffffu - (uint32_t)key); }

typedef struct zt_ranked {
    unsigned char *keys; /* `count` keys, in memory of any alignment */
    int64_t heap_size;   /* still in the heap: keys 0 .. heap_size - 1 */
    int64_t count;       /* all: those that left it lie behind, the best last */
} zt_ranked;

static inline uint64_t zt_ranked_get(const zt_ranked *ranked, int64_t i)
{
    uint64_t key;
    memcpy(&key, ranked->keys + 8 * i, sizeof key);
    return key;
}

static inline void zt_ranked_set(zt_ranked *ranked, int64_t i, uint64_t key) { memcpy(ranked->keys + 8 * i, &key, sizeof key); }

/* `key` into place i of the heap, or further down. `flip` turns the order round: all ones makes the
 * smallest key the top. */
static inline void zt_ranked_sink(zt_ranked *ranked, int64_t i, uint64_t key, uint64_t flip)
{
    for (int64_t child; (child = 2 * i + 1) < ranked->heap_size; i = child) {
        uint64_t candidate = zt_ranked_get(ranked, child);
        uint64_t other = child + 1 < ranked->heap_size ? zt_ranked_get(ranked, child + 1) : candidate;
        if ((other ^ flip) > (candidate ^ flip)) {
            candidate = other;
            child++;
        }
        if ((candidate ^ flip) <= (key ^ flip)) break;
        zt_ranked_set(ranked, i, candidate);
    }
    zt_ranked_set(ranked, i, key);
}

/* Makes a heap of all keys. */
static inline void zt_ranked_heap(zt_ranked *ranked, uint64_t flip)
{
    ranked->heap_size = ranked->count;
    for (int64_t i = ranked->count / 2; i-- > 0;) zt_ranked_sink(ranked, i, zt_ranked_get(ranked, i), flip);
}

/* The best key of that rank (from 0 on), of a heap whose largest is on top; rank < count. */
static inline uint64_t zt_ranked_best(zt_ranked *ranked, int64_t rank)
{
    while (ranked->heap_size > 0 && ranked->count - ranked->heap_size <= rank) {
        uint64_t top = zt_ranked_get(ranked, 0);
        ranked->heap_size--;
        zt_ranked_sink(ranked, 0, zt_ranked_get(ranked, ranked->heap_size), 0);
        zt_ranked_set(ranked, ranked->heap_size, top);
    }
    return zt_ranked_get(ranked, ranked->count - 1 - rank);
}

#endif
