/* vocab_pairs.c - the merges of a BPE by the two ids that merge: a hash table. */
#include "lib/llm/vocab/vocab.h"

#include <sys/random.h>

typedef struct pair_slot {
    uint64_t key; /* left id << 32 | right id */
    uint32_t rank;
    uint32_t merged_id; /* one more than the id of the token that they make; 0: a free slot */
} pair_slot;

struct zt_pairs {
    size_t mask; /* slots - 1 */
    uint64_t seed;
    pair_slot slot[];
};

zt_pairs *zt_pairs_new(zt_ctx *ctx, size_t limit)
{
    size_t slots = 64, bytes;
    while (slots / 2 < limit && slots <= SIZE_MAX / 2) slots *= 2;
    if (!zt_mul_size(slots, sizeof(pair_slot), &bytes) || !zt_add_size(bytes, sizeof(zt_pairs), &bytes)) {
        zt_fail(ctx, ZT_ENOMEM, "too many merges (%zu)", limit);
        return NULL;
    }
    zt_pairs *pairs = zt_calloc(ctx, 1, bytes);
    if (!pairs) return NULL;
    pairs->mask = slots - 1;
    if (getrandom(&pairs->seed, sizeof pairs->seed, GRND_NONBLOCK) != (ssize_t)sizeof pairs->seed)
        pairs->seed = (uint64_t)(uintptr_t)pairs * UINT64_C(0x9e3779b97f4a7c15);
    pairs->seed |= 1;
    return pairs;
}

static uint64_t pair_key(int32_t left, int32_t right) { return (uint64_t)(uint32_t)left << 32 | (uint32_t)right; }

/* Where key is, or would be. Seeded, so that no file can choose pairs that all meet in one place. */
static size_t find_slot(const zt_pairs *pairs, uint64_t key)
{
    uint64_t hash = (key ^ key >> 29) * pairs->seed;
    size_t index = (size_t)((hash ^ hash >> 32) * pairs->seed >> 16) & pairs->mask;
    while (pairs->slot[index].merged_id && pairs->slot[index].key != key) index = (index + 1) & pairs->mask;
    return index;
}

bool zt_pairs_find(const zt_pairs *pairs, int32_t left, int32_t right, uint32_t *rank, int32_t *id)
{
    const pair_slot *slot = &pairs->slot[find_slot(pairs, pair_key(left, right))];
    *rank = slot->rank;
    *id = (int32_t)slot->merged_id - 1;
    return slot->merged_id;
}

void zt_pairs_put(zt_pairs *pairs, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    uint64_t key = pair_key(left, right);
    pairs->slot[find_slot(pairs, key)] = (pair_slot){key, rank, (uint32_t)id + 1};
}
