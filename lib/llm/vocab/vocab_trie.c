/* vocab_trie.c - byte strings to values, walked a byte at a time.
 *
 * Nodes are numbered; an open-addressing table takes (node, byte) to the next node. Its hash has a
 * seed of its own for each trie: no file can choose keys that meet in one place.
 */
#include "lib/llm/vocab/vocab.h"

#include <sys/random.h>

typedef struct edge {
    uint64_t key;  /* node << 8 | byte, plus one; 0: a free slot */
    uint32_t node; /* where it leads */
} edge;

struct zt_trie {
    zt_ctx *ctx;
    edge *slot;
    size_t cap, n_edges; /* cap is a power of two */
    uint64_t seed;       /* odd */
    int32_t *value;      /* [n_nodes], -1: none */
    size_t n_nodes, cap_nodes;
};

static size_t home(const zt_trie *t, uint64_t key)
{
    uint64_t h = key * t->seed;
    return (size_t)((h ^ h >> 32) * t->seed >> 20) & (t->cap - 1);
}

static edge *find(const zt_trie *t, uint64_t key)
{
    size_t i = home(t, key);
    while (t->slot[i].key && t->slot[i].key != key)
        i = (i + 1) & (t->cap - 1);
    return &t->slot[i];
}

zt_trie *zt_trie_new(zt_ctx *ctx)
{
    zt_trie *t = zt_calloc(ctx, 1, sizeof *t);
    if (!t)
        return NULL;
    t->ctx = ctx;
    t->cap = 64;
    t->cap_nodes = 32;
    if (getrandom(&t->seed, sizeof t->seed, GRND_NONBLOCK) != (ssize_t)sizeof t->seed)
        t->seed = (uint64_t)(uintptr_t)t * UINT64_C(0x9e3779b97f4a7c15);
    t->seed |= 1;
    t->slot = zt_calloc(ctx, t->cap, sizeof *t->slot);
    t->value = zt_alloc_array(ctx, t->cap_nodes, sizeof *t->value);
    if (!t->slot || !t->value) {
        zt_trie_free(t);
        return NULL;
    }
    t->value[t->n_nodes++] = -1;
    return t;
}

void zt_trie_free(zt_trie *t)
{
    if (!t)
        return;
    zt_free(t->ctx, t->slot);
    zt_free(t->ctx, t->value);
    zt_free(t->ctx, t);
}

static zt_status grow_slots(zt_trie *t)
{
    zt_trie bigger = *t;
    bigger.cap = 2 * t->cap;
    bigger.slot = zt_calloc(t->ctx, bigger.cap, sizeof *bigger.slot);
    if (!bigger.slot)
        return ZT_ENOMEM;
    for (size_t i = 0; i < t->cap; i++)
        if (t->slot[i].key)
            *find(&bigger, t->slot[i].key) = t->slot[i];
    zt_free(t->ctx, t->slot);
    t->slot = bigger.slot;
    t->cap = bigger.cap;
    return ZT_OK;
}

static zt_status grow_nodes(zt_trie *t)
{
    size_t bytes;
    if (t->n_nodes >= UINT32_MAX / 4 || !zt_mul_size(t->cap_nodes, 2 * sizeof *t->value, &bytes))
        return zt_fail(t->ctx, ZT_ENOMEM, "%zu nodes are too many", t->n_nodes);
    int32_t *value = zt_realloc(t->ctx, t->value, bytes);
    if (!value)
        return ZT_ENOMEM;
    t->value = value;
    t->cap_nodes *= 2;
    return ZT_OK;
}

/* Room for one more edge and one more node. */
static zt_status reserve(zt_trie *t)
{
    zt_status s = t->n_edges >= t->cap / 2 ? grow_slots(t) : ZT_OK;
    return !s && t->n_nodes == t->cap_nodes ? grow_nodes(t) : s;
}

zt_status zt_trie_put(zt_trie *t, zt_bytes key, int32_t value)
{
    uint32_t node = ZT_TRIE_ROOT;
    for (size_t i = 0; i < key.n; i++) {
        zt_status s = reserve(t);
        if (s)
            return s;
        uint64_t k = ((uint64_t)node << 8 | (unsigned char)key.data[i]) + 1;
        edge *e = find(t, k);
        if (!e->key) {
            *e = (edge){k, (uint32_t)t->n_nodes};
            t->value[t->n_nodes++] = -1;
            t->n_edges++;
        }
        node = e->node;
    }
    t->value[node] = value;
    return ZT_OK;
}

uint32_t zt_trie_step(const zt_trie *t, uint32_t node, unsigned char c)
{
    const edge *e = find(t, ((uint64_t)node << 8 | c) + 1);
    return e->key ? e->node : ZT_TRIE_NONE;
}

int32_t zt_trie_value(const zt_trie *t, uint32_t node)
{
    return t->value[node];
}
