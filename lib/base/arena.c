/* arena.c - many small blocks freed together.
 *
 * Chunks form a stack. Positions are numbered through all of them, so that a mark is one number: a
 * chunk covers [base, base + cap] and the arena ends at top->base + top->used. One chunk that a
 * reset has freed is kept, so that a loop around a mark does not go to the allocator each time. */
#include "lib/base/base.h"
#include <string.h>

typedef struct chunk chunk;
struct chunk {
    chunk *below;
    size_t base, used, cap;
    _Alignas(16) char data[];
};

struct zt_arena {
    zt_ctx *ctx;
    size_t chunk_bytes, floor;
    chunk *top, *spare;
};

zt_arena *zt_arena_new(zt_ctx *ctx, size_t chunk_bytes)
{
    zt_arena *a = zt_calloc(ctx, 1, sizeof *a);
    if (!a)
        return NULL;
    a->ctx = ctx;
    a->chunk_bytes = chunk_bytes ? chunk_bytes : 64 * 1024 - sizeof(chunk);
    return a;
}

void zt_arena_free(zt_arena *a)
{
    if (!a)
        return;
    for (chunk *c = a->top, *below; c; c = below) {
        below = c->below;
        zt_free(a->ctx, c);
    }
    zt_free(a->ctx, a->spare);
    zt_free(a->ctx, a);
}

static chunk *chunk_new(zt_arena *a, size_t bytes)
{
    chunk *c = a->spare;
    if (c && c->cap >= bytes) {
        a->spare = NULL;
        return c;
    }
    size_t cap = bytes > a->chunk_bytes ? bytes : a->chunk_bytes, all;
    if (!zt_add_size(cap, sizeof *c, &all))
        all = SIZE_MAX; /* the allocator refuses with a message */
    c = zt_alloc(a->ctx, all);
    if (c)
        c->cap = cap;
    return c;
}

void *zt_arena_alloc(zt_arena *a, size_t bytes)
{
    size_t need = SIZE_MAX;
    if (bytes <= SIZE_MAX - 15)
        need = bytes ? (bytes + 15) & ~(size_t)15 : 16;
    if (!a->top || need > a->top->cap - a->top->used) {
        chunk *c = chunk_new(a, need);
        if (!c)
            return NULL;
        c->below = a->top;
        c->base = a->top ? a->top->base + a->top->cap : 0;
        c->used = 0;
        a->top = c;
    }
    void *p = a->top->data + a->top->used;
    a->top->used += need;
    return p;
}

char *zt_arena_strndup(zt_arena *a, const char *s, size_t n)
{
    char *p = zt_arena_alloc(a, n < SIZE_MAX ? n + 1 : n);
    if (!p)
        return NULL;
    if (n)
        memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

size_t zt_arena_mark(const zt_arena *a)
{
    return a->top ? a->top->base + a->top->used : 0;
}

static void pop(zt_arena *a)
{
    chunk *c = a->top;
    a->top = c->below;
    if (a->spare && a->spare->cap >= c->cap) {
        zt_free(a->ctx, c);
    } else {
        zt_free(a->ctx, a->spare);
        a->spare = c;
    }
}

void zt_arena_floor(zt_arena *a, size_t mark)
{
    a->floor = mark;
}

void zt_arena_reset(zt_arena *a, size_t mark)
{
    if (mark < a->floor)
        mark = a->floor;
    while (a->top && a->top->base >= mark && (a->top->below || mark == 0))
        pop(a);
    if (a->top && mark - a->top->base < a->top->used)
        a->top->used = mark - a->top->base;
}
