/* bins.c - blocks of memory by size class, used again.
 *
 * A class is a power of two. A block that is given back waits in its class, linked through its own
 * first bytes; what it was asked for does not matter, its size is the allocator's to know.
 */
#include "lib/base/internal.h"

enum { CLASSES = 64, SMALLEST = 6 }; /* 2^6 = 64 bytes, a cache line */

typedef struct idle {
    struct idle *next;
} idle;

struct zt_bins {
    zt_ctx *ctx;
    pthread_mutex_t lock;
    idle *bin[CLASSES];
    zt_bins_stats stats;
};

zt_bins *zt_bins_new(zt_ctx *ctx)
{
    zt_bins *b = zt_calloc(ctx, 1, sizeof *b);
    if (!b)
        return NULL;
    b->ctx = ctx;
    if (pthread_mutex_init(&b->lock, NULL) == 0)
        return b;
    zt_fail(ctx, ZT_ESYS, "no lock for a pool of memory");
    zt_free(ctx, b);
    return NULL;
}

void zt_bins_free(zt_bins *b)
{
    if (!b)
        return;
    zt_bins_reset(b, 0);
    pthread_mutex_destroy(&b->lock);
    zt_free(b->ctx, b);
}

/* The least class whose blocks hold so many bytes; CLASSES: none. */
static int class_of(size_t bytes)
{
    int c = SMALLEST;
    while (c < CLASSES - 1 && (size_t)1 << c < bytes)
        c++;
    return (size_t)1 << c < bytes ? CLASSES : c;
}

void *zt_bins_take(zt_bins *b, size_t bytes)
{
    int c = class_of(bytes);
    size_t room = c < CLASSES ? (size_t)1 << c : SIZE_MAX; /* which the allocator refuses */
    pthread_mutex_lock(&b->lock);
    idle *p = c < CLASSES ? b->bin[c] : NULL;
    if (p) {
        b->bin[c] = p->next;
        b->stats.idle -= room;
        b->stats.idle_blocks--;
    }
    pthread_mutex_unlock(&b->lock);
    void *block = p ? (void *)p : zt_alloc(b->ctx, room);
    if (!block)
        return NULL;
    pthread_mutex_lock(&b->lock);
    b->stats.taken += room;
    if (p)
        b->stats.hits++;
    else
        b->stats.misses++;
    pthread_mutex_unlock(&b->lock);
    return block;
}

void zt_bins_give(zt_bins *b, void *p)
{
    if (!p)
        return;
    size_t room = zt_block_bytes(p);
    int c = class_of(room);
    pthread_mutex_lock(&b->lock);
    ((idle *)p)->next = b->bin[c];
    b->bin[c] = p;
    b->stats.taken -= room;
    b->stats.idle += room;
    b->stats.idle_blocks++;
    pthread_mutex_unlock(&b->lock);
}

void zt_bins_reset(zt_bins *b, size_t floor)
{
    pthread_mutex_lock(&b->lock);
    for (int c = CLASSES - 1; c >= SMALLEST; c--) {
        while (b->bin[c] && b->stats.idle > floor) {
            idle *p = b->bin[c];
            b->bin[c] = p->next;
            b->stats.idle -= (size_t)1 << c;
            b->stats.idle_blocks--;
            zt_free(b->ctx, p);
        }
    }
    pthread_mutex_unlock(&b->lock);
}

zt_bins_stats zt_bins_get(const zt_bins *b)
{
    zt_bins *own = (zt_bins *)b;
    pthread_mutex_lock(&own->lock);
    zt_bins_stats s = b->stats;
    pthread_mutex_unlock(&own->lock);
    return s;
}
