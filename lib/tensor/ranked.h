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
    float f = number + 0.0f; /* -0 is 0 */
    if (number != number) return 0;
    memcpy(&bits, &f, sizeof bits);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)bits << 32 | (0xffffffffu - (uint32_t)place);
}

static inline double zt_ranked_number(uint64_t key)
{
    uint32_t bits = (uint32_t)(key >> 32);
    float f;
    bits = bits >> 31 ? bits & 0x7fffffffu : ~bits;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static inline int32_t zt_ranked_place(uint64_t key) { return (int32_t)(0xffffffffu - (uint32_t)key); }

typedef struct zt_ranked {
    unsigned char *at; /* n keys, in memory of any alignment */
    int64_t left;      /* still in the heap: keys 0 .. left - 1 */
    int64_t n;         /* all: those that left it lie behind, the best last */
} zt_ranked;

static inline uint64_t zt_ranked_get(const zt_ranked *r, int64_t i)
{
    uint64_t key;
    memcpy(&key, r->at + 8 * i, sizeof key);
    return key;
}

static inline void zt_ranked_set(zt_ranked *r, int64_t i, uint64_t key)
{
    memcpy(r->at + 8 * i, &key, sizeof key);
}

/* `key` into place i of the heap, or further down. `flip` turns the order round: all ones makes the
 * smallest key the top. */
static inline void zt_ranked_sink(zt_ranked *r, int64_t i, uint64_t key, uint64_t flip)
{
    for (int64_t child; (child = 2 * i + 1) < r->left; i = child) {
        uint64_t at = zt_ranked_get(r, child);
        uint64_t other = child + 1 < r->left ? zt_ranked_get(r, child + 1) : at;
        if ((other ^ flip) > (at ^ flip)) {
            at = other;
            child++;
        }
        if ((at ^ flip) <= (key ^ flip)) break;
        zt_ranked_set(r, i, at);
    }
    zt_ranked_set(r, i, key);
}

/* All n into a heap. */
static inline void zt_ranked_heap(zt_ranked *r, uint64_t flip)
{
    r->left = r->n;
    for (int64_t i = r->n / 2; i-- > 0;) zt_ranked_sink(r, i, zt_ranked_get(r, i), flip);
}

/* The j-th best, of a heap whose largest is on top; j < n. */
static inline uint64_t zt_ranked_best(zt_ranked *r, int64_t j)
{
    while (r->left > 0 && r->n - r->left <= j) {
        uint64_t top = zt_ranked_get(r, 0);
        r->left--;
        zt_ranked_sink(r, 0, zt_ranked_get(r, r->left), 0);
        zt_ranked_set(r, r->left, top);
    }
    return zt_ranked_get(r, r->n - 1 - j);
}

#endif
