/* vocab_pairs.c - the merges of a BPE by the two ids that merge: a hash table. */
#include "lib/llm/vocab/vocab.h"

#include <sys/random.h>

typedef struct slot {
    uint64_t key; /* left id << 32 | right id */
    uint32_t rank;
    uint32_t made; /* one more than the id of the token that they make; 0: a free slot */
} slot;

struct zt_pairs {
    size_t mask; /* slots - 1 */
    uint64_t seed;
    slot slot[];
};

zt_pairs *zt_pairs_new(zt_ctx *ctx, size_t n)
{
    size_t slots = 64, bytes;
    while (slots / 2 < n && slots <= SIZE_MAX / 2)
        slots *= 2;
    if (!zt_mul_size(slots, sizeof(slot), &bytes) ||
        !zt_add_size(bytes, sizeof(zt_pairs), &bytes)) {
        zt_fail(ctx, ZT_ENOMEM, "%zu merges are too many", n);
        return NULL;
    }
    zt_pairs *t = zt_calloc(ctx, 1, bytes);
    if (!t)
        return NULL;
    t->mask = slots - 1;
    if (getrandom(&t->seed, sizeof t->seed, GRND_NONBLOCK) != (ssize_t)sizeof t->seed)
        t->seed = (uint64_t)(uintptr_t)t * UINT64_C(0x9e3779b97f4a7c15);
    t->seed |= 1;
    return t;
}

static uint64_t key_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* Where key is, or would be. Seeded, so that no file can choose pairs that all meet in one place. */
static size_t place(const zt_pairs *t, uint64_t key)
{
    uint64_t h = (key ^ key >> 29) * t->seed;
    size_t i = (size_t)((h ^ h >> 32) * t->seed >> 16) & t->mask;
    while (t->slot[i].made && t->slot[i].key != key)
        i = (i + 1) & t->mask;
    return i;
}

bool zt_pairs_find(const zt_pairs *t, int32_t left, int32_t right, uint32_t *rank, int32_t *id)
{
    const slot *s = &t->slot[place(t, key_of(left, right))];
    *rank = s->rank;
    *id = (int32_t)s->made - 1;
    return s->made;
}

void zt_pairs_put(zt_pairs *t, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    uint64_t key = key_of(left, right);
    t->slot[place(t, key)] = (slot){key, rank, (uint32_t)id + 1};
}
