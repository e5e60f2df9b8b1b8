/* map.c - byte strings to integers: open addressing, linear probing, at most 3/4 full.
 *
 * Keys come from files, so the hash is seeded anew for each map: nobody can prepare a vocabulary
 * whose words all meet in one place. Nothing depends on the order of slots. */
#include "lib/base/base.h"
#include "lib/base/require.h"
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

typedef struct map_slot {
    const char *key; /* NULL: free */
    int64_t value;
    uint32_t length, hash; /* `hash` is the upper half, compared before the bytes are */
} map_slot;

struct zt_map {
    zt_ctx *ctx;
    map_slot *slots;
    size_t capacity, count; /* capacity is a power of two */
    uint64_t seed;
};

zt_map *zt_map_new(zt_ctx *ctx, size_t expect)
{
    if (!ctx) return NULL;
    zt_map *map = zt_calloc(ctx, 1, sizeof *map);
    if (!map) return NULL;
    map->ctx = ctx;
    map->capacity = 16;
    while (map->capacity / 4 * 3 < expect && map->capacity <= SIZE_MAX / 4) map->capacity *= 2;
    if (getrandom(&map->seed, sizeof map->seed, GRND_NONBLOCK) != (ssize_t)sizeof map->seed) map->seed = (uint64_t)(uintptr_t)map;
    map->slots = zt_calloc(ctx, map->capacity, sizeof *map->slots);
    if (!map->slots) {
        zt_map_free(map);
        return NULL;
    }
    return map;
}

void zt_map_free(zt_map *map)
{
    if (!map) return;
    zt_free(map->ctx, map->slots);
    zt_free(map->ctx, map);
}

/* The slot that holds the key, or the free one where it belongs. */
static map_slot *find_slot(const zt_map *map, const char *key, size_t length, uint64_t hash)
{
    for (size_t i = hash & (map->capacity - 1);; i = (i + 1) & (map->capacity - 1)) {
        map_slot *slot = &map->slots[i];
        if (!slot->key || (slot->hash == hash >> 32 && slot->length == length && memcmp(slot->key, key, length) == 0))
            return slot;
    }
}

static zt_status grow_map(zt_map *map)
{
    zt_map bigger = *map;
    if (!zt_mul_size(map->capacity, 2, &bigger.capacity))
        return zt_fail(map->ctx, ZT_ENOMEM, "out of memory: map of %zu entries", map->count);
    bigger.slots = zt_calloc(map->ctx, bigger.capacity, sizeof *bigger.slots);
    if (!bigger.slots) return ZT_ENOMEM;
    for (size_t i = 0; i < map->capacity; i++) {
        const map_slot *slot = &map->slots[i];
        if (slot->key)
            *find_slot(&bigger, slot->key, slot->length, XXH3_64bits_withSeed(slot->key, slot->length, map->seed)) = *slot;
    }
    zt_free(map->ctx, map->slots);
    *map = bigger;
    return ZT_OK;
}

zt_status zt_map_put(zt_map *map, const char *key, size_t length, int64_t value)
{
    if (!map) return ZT_EUSAGE;
    if (length > UINT32_MAX) return zt_fail(map->ctx, ZT_EUSAGE, "map key too long (%zu bytes)", length);
    if (map->count >= map->capacity / 4 * 3) {
        zt_status status = grow_map(map);
        if (status) return status;
    }
    key = key ? key : "";
    uint64_t hash = XXH3_64bits_withSeed(key, length, map->seed);
    map_slot *slot = find_slot(map, key, length, hash);
    if (!slot->key) {
        *slot = (map_slot){.key = key, .length = (uint32_t)length, .hash = (uint32_t)(hash >> 32)};
        map->count++;
    }
    slot->value = value;
    return ZT_OK;
}

bool zt_map_get(const zt_map *map, const char *key, size_t length, int64_t *value)
{
    if (!map) return false;
    if (!key) length = 0;
    key = key ? key : "";
    const map_slot *slot = find_slot(map, key, length, XXH3_64bits_withSeed(key, length, map->seed));
    if (!slot->key) return false;
    if (value) *value = slot->value;
    return true;
}

int64_t zt_map_find(const zt_map *map, const char *name)
{
    if (!map) return -1;
    ZT_REQUIRE(map->ctx, name, -1);
    int64_t i;
    return zt_map_get(map, name, strlen(name), &i) ? i : -1;
}

size_t zt_map_count(const zt_map *map) { return map ? map->count : 0; }
