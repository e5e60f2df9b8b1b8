/* arena.c - many small blocks freed together.
 *
 * Chunks form a stack. Positions are numbered through all of them, so that a mark is one number: a
 * chunk covers [base, base + cap] and the arena ends at top->base + top->used. One chunk that a
 * reset has freed is kept, so that a loop around a mark does not go to the allocator each time. */
#include "lib/base/base.h"
#include "lib/base/require.h"
#include <string.h>

typedef struct arena_chunk arena_chunk;
struct arena_chunk {
    arena_chunk *below;
    size_t base, used, capacity;
    _Alignas(16) char data[];
};

struct zt_arena {
    zt_ctx *ctx;
    size_t chunk_bytes, floor;
    arena_chunk *top, *spare;
};

zt_arena *zt_arena_new(zt_ctx *ctx, size_t chunk_bytes)
{
    if (!ctx) return NULL;
    zt_arena *arena = zt_calloc(ctx, 1, sizeof *arena);
    if (!arena) return NULL;
    arena->ctx = ctx;
    arena->chunk_bytes = chunk_bytes ? chunk_bytes : 64 * 1024 - sizeof(arena_chunk);
    return arena;
}

void zt_arena_free(zt_arena *arena)
{
    if (!arena) return;
    for (arena_chunk *chunk = arena->top, *below; chunk; chunk = below) {
        below = chunk->below;
        zt_free(arena->ctx, chunk);
    }
    zt_free(arena->ctx, arena->spare);
    zt_free(arena->ctx, arena);
}

static arena_chunk *chunk_new(zt_arena *arena, size_t bytes)
{
    arena_chunk *chunk = arena->spare;
    if (chunk && chunk->capacity >= bytes) {
        arena->spare = NULL;
        return chunk;
    }
    size_t capacity = bytes > arena->chunk_bytes ? bytes : arena->chunk_bytes, total;
    if (!zt_add_size(capacity, sizeof *chunk, &total)) total = SIZE_MAX; /* the allocator refuses with a message */
    chunk = zt_alloc(arena->ctx, total);
    if (chunk) chunk->capacity = capacity;
    return chunk;
}

void *zt_arena_alloc(zt_arena *arena, size_t bytes)
{
    if (!arena) return NULL;
    size_t need = SIZE_MAX;
    if (bytes <= SIZE_MAX - 15) need = bytes ? (bytes + 15) & ~(size_t)15 : 16;
    if (!arena->top || need > arena->top->capacity - arena->top->used) {
        arena_chunk *chunk = chunk_new(arena, need);
        if (!chunk) return NULL;
        chunk->below = arena->top;
        chunk->base = arena->top ? arena->top->base + arena->top->capacity : 0;
        chunk->used = 0;
        arena->top = chunk;
    }
    void *block = arena->top->data + arena->top->used;
    arena->top->used += need;
    return block;
}

char *zt_arena_strndup(zt_arena *arena, const char *text, size_t length)
{
    if (!arena) return NULL;
    ZT_REQUIRE(arena->ctx, text || !length, NULL);
    char *copy = zt_arena_alloc(arena, length < SIZE_MAX ? length + 1 : length);
    if (!copy) return NULL;
    if (length) memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

size_t zt_arena_mark(const zt_arena *arena) { return arena ? (arena->top ? arena->top->base + arena->top->used : 0) : 0; }

static void pop_chunk(zt_arena *arena)
{
    arena_chunk *chunk = arena->top;
    arena->top = chunk->below;
    if (arena->spare && arena->spare->capacity >= chunk->capacity) {
        zt_free(arena->ctx, chunk);
    } else {
        zt_free(arena->ctx, arena->spare);
        arena->spare = chunk;
    }
}

void zt_arena_floor(zt_arena *arena, size_t mark)
{
    if (!arena) return;
    arena->floor = mark;
}

void zt_arena_reset(zt_arena *arena, size_t mark)
{
    if (!arena) return;
    if (mark < arena->floor) mark = arena->floor;
    while (arena->top && arena->top->base >= mark && (arena->top->below || mark == 0)) pop_chunk(arena);
    if (arena->top && mark - arena->top->base < arena->top->used) arena->top->used = mark - arena->top->base;
}
