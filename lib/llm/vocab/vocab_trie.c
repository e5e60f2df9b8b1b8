/* vocab_trie.c - a map from byte strings to values, followed byte by byte.
 *
 * Nodes are numbered; an open-addressing table takes (node, byte) to the next node. Its hash has a
 * seed of its own for each trie: no file can choose keys that meet in one place.
 */
#include "lib/llm/vocab/vocab.h"

#include <sys/random.h>

typedef struct trie_edge {
    uint64_t key;  /* node << 8 | byte, plus one; 0: a free slot */
    uint32_t node; /* where it leads */
} trie_edge;

struct zt_trie {
    zt_ctx *ctx;
    trie_edge *slot;
    size_t capacity, edge_count; /* capacity is a power of two */
    uint64_t seed;               /* odd */
    int32_t *value;              /* [n_nodes], -1: none */
    size_t node_count, node_capacity;
};

static size_t home_slot(const zt_trie *trie, uint64_t key)
{
    uint64_t hash = key * trie->seed;
    return (size_t)((hash ^ hash >> 32) * trie->seed >> 20) & (trie->capacity - 1);
}

static trie_edge *find_edge(const zt_trie *trie, uint64_t key)
{
    size_t i = home_slot(trie, key);
    while (trie->slot[i].key && trie->slot[i].key != key) i = (i + 1) & (trie->capacity - 1);
    return &trie->slot[i];
}

zt_trie *zt_trie_new(zt_ctx *ctx)
{
    zt_trie *trie = zt_calloc(ctx, 1, sizeof *trie);
    if (!trie) return NULL;
    trie->ctx = ctx;
    trie->capacity = 64;
    trie->node_capacity = 32;
    if (getrandom(&trie->seed, sizeof trie->seed, GRND_NONBLOCK) != (ssize_t)sizeof trie->seed)
        trie->seed = (uint64_t)(uintptr_t)trie * UINT64_C(0x9e3779b97f4a7c15);
    trie->seed |= 1;
    trie->slot = zt_calloc(ctx, trie->capacity, sizeof *trie->slot);
    trie->value = zt_alloc_array(ctx, trie->node_capacity, sizeof *trie->value);
    if (!trie->slot || !trie->value) {
        zt_trie_free(trie);
        return NULL;
    }
    trie->value[trie->node_count++] = -1;
    return trie;
}

void zt_trie_free(zt_trie *trie)
{
    if (!trie) return;
    zt_free(trie->ctx, trie->slot);
    zt_free(trie->ctx, trie->value);
    zt_free(trie->ctx, trie);
}

static zt_status grow_slots(zt_trie *trie)
{
    zt_trie bigger = *trie;
    bigger.capacity = 2 * trie->capacity;
    bigger.slot = zt_calloc(trie->ctx, bigger.capacity, sizeof *bigger.slot);
    if (!bigger.slot) return ZT_ENOMEM;
    for (size_t i = 0; i < trie->capacity; i++)
        if (trie->slot[i].key) *find_edge(&bigger, trie->slot[i].key) = trie->slot[i];
    zt_free(trie->ctx, trie->slot);
    trie->slot = bigger.slot;
    trie->capacity = bigger.capacity;
    return ZT_OK;
}

static zt_status grow_nodes(zt_trie *trie)
{
    size_t bytes;
    if (trie->node_count >= UINT32_MAX / 4 || !zt_mul_size(trie->node_capacity, 2 * sizeof *trie->value, &bytes))
        return zt_fail(trie->ctx, ZT_ENOMEM, "too many trie nodes (%zu)", trie->node_count);
    int32_t *value = zt_realloc(trie->ctx, trie->value, bytes);
    if (!value) return ZT_ENOMEM;
    trie->value = value;
    trie->node_capacity *= 2;
    return ZT_OK;
}

/* Room for one more edge and one more node. */
static zt_status reserve_edge(zt_trie *trie)
{
    zt_status status = trie->edge_count >= trie->capacity / 2 ? grow_slots(trie) : ZT_OK;
    return !status && trie->node_count == trie->node_capacity ? grow_nodes(trie) : status;
}

zt_status zt_trie_put(zt_trie *trie, zt_bytes key, int32_t value)
{
    uint32_t node = ZT_TRIE_ROOT;
    for (size_t i = 0; i < key.n; i++) {
        zt_status status = reserve_edge(trie);
        if (status) return status;
        uint64_t edge_key = ((uint64_t)node << 8 | (unsigned char)key.data[i]) + 1;
        trie_edge *edge = find_edge(trie, edge_key);
        if (!edge->key) {
            *edge = (trie_edge){edge_key, (uint32_t)trie->node_count};
            trie->value[trie->node_count++] = -1;
            trie->edge_count++;
        }
        node = edge->node;
    }
    trie->value[node] = value;
    return ZT_OK;
}

uint32_t zt_trie_step(const zt_trie *trie, uint32_t node, unsigned char byte)
{
    const trie_edge *edge = find_edge(trie, ((uint64_t)node << 8 | byte) + 1);
    return edge->key ? edge->node : ZT_TRIE_NONE;
}

int32_t zt_trie_value(const zt_trie *trie, uint32_t node) { return trie->value[node]; }
