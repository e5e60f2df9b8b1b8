/* map.c - byte strings to integers: open addressing, linear probing, at most 3/4 full.
 *
 * Keys come from files, so the hash is seeded anew for each map: nobody can prepare a vocabulary
 * whose words all meet in one place. Nothing depends on the order of slots. */
#include "lib/base/base.h"
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

typedef struct slot {
    const char *key; /* NULL: free */
    int64_t value;
    uint32_t n, hash; /* `hash` is the upper half, compared before the bytes are */
} slot;

struct zt_map {
    zt_ctx *ctx;
    slot *slots;
    size_t cap, count; /* cap is a power of two */
    uint64_t seed;
};

zt_map *zt_map_new(zt_ctx *ctx, size_t expect)
{
    zt_map *m = zt_calloc(ctx, 1, sizeof *m);
    if (!m)
        return NULL;
    m->ctx = ctx;
    m->cap = 16;
    while (m->cap / 4 * 3 < expect && m->cap <= SIZE_MAX / 4)
        m->cap *= 2;
    if (getrandom(&m->seed, sizeof m->seed, GRND_NONBLOCK) != (ssize_t)sizeof m->seed)
        m->seed = (uint64_t)(uintptr_t)m;
    m->slots = zt_calloc(ctx, m->cap, sizeof *m->slots);
    if (!m->slots) {
        zt_map_free(m);
        return NULL;
    }
    return m;
}

void zt_map_free(zt_map *m)
{
    if (!m)
        return;
    zt_free(m->ctx, m->slots);
    zt_free(m->ctx, m);
}

/* The slot that holds the key, or the free one where it belongs. */
static slot *find(const zt_map *m, const char *key, size_t n, uint64_t hash)
{
    for (size_t i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        slot *s = &m->slots[i];
        if (!s->key || (s->hash == hash >> 32 && s->n == n && memcmp(s->key, key, n) == 0))
            return s;
    }
}

static zt_status grow(zt_map *m)
{
    zt_map bigger = *m;
    if (!zt_mul_size(m->cap, 2, &bigger.cap))
        return zt_fail(m->ctx, ZT_ENOMEM, "out of memory: a map of %zu entries", m->count);
    bigger.slots = zt_calloc(m->ctx, bigger.cap, sizeof *bigger.slots);
    if (!bigger.slots)
        return ZT_ENOMEM;
    for (size_t i = 0; i < m->cap; i++) {
        const slot *s = &m->slots[i];
        if (s->key)
            *find(&bigger, s->key, s->n, XXH3_64bits_withSeed(s->key, s->n, m->seed)) = *s;
    }
    zt_free(m->ctx, m->slots);
    *m = bigger;
    return ZT_OK;
}

zt_status zt_map_put(zt_map *m, const char *key, size_t n, int64_t value)
{
    if (n > UINT32_MAX)
        return zt_fail(m->ctx, ZT_EUSAGE, "a map key of %zu bytes", n);
    if (m->count >= m->cap / 4 * 3) {
        zt_status st = grow(m);
        if (st)
            return st;
    }
    key = key ? key : "";
    uint64_t hash = XXH3_64bits_withSeed(key, n, m->seed);
    slot *s = find(m, key, n, hash);
    if (!s->key) {
        *s = (slot){.key = key, .n = (uint32_t)n, .hash = (uint32_t)(hash >> 32)};
        m->count++;
    }
    s->value = value;
    return ZT_OK;
}

bool zt_map_get(const zt_map *m, const char *key, size_t n, int64_t *value)
{
    key = key ? key : "";
    const slot *s = find(m, key, n, XXH3_64bits_withSeed(key, n, m->seed));
    if (!s->key)
        return false;
    if (value)
        *value = s->value;
    return true;
}

int64_t zt_map_find(const zt_map *m, const char *name)
{
    int64_t i;
    return zt_map_get(m, name, strlen(name), &i) ? i : -1;
}

size_t zt_map_count(const zt_map *m)
{
    return m->count;
}
