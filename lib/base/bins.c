/* bins.c - blocks of memory by size class, used again.
 *
 * A class is a power of two. A block that is given back waits in its class, linked through its own
 * first bytes; what it was asked for does not matter, its size is the allocator's to know.
 */
#include "lib/base/internal.h"

enum { CLASSES = 64, SMALLEST = 6 }; /* 2^6 = 64 bytes, a cache line */

typedef struct idle_block {
    struct idle_block *next;
} idle_block;

struct zt_bins {
    zt_ctx *ctx;
    pthread_mutex_t lock;
    idle_block *bins[CLASSES];
    zt_bins_stats stats;
};

zt_bins *zt_bins_new(zt_ctx *ctx)
{
    if (!ctx) return NULL;
    zt_bins *bins = zt_calloc(ctx, 1, sizeof *bins);
    if (!bins) return NULL;
    bins->ctx = ctx;
    if (pthread_mutex_init(&bins->lock, NULL) == 0) return bins;
    zt_fail(ctx, ZT_ESYS, "cannot create the lock of a memory pool");
    zt_free(ctx, bins);
    return NULL;
}

void zt_bins_free(zt_bins *bins)
{
    if (!bins) return;
    zt_bins_reset(bins, 0);
    pthread_mutex_destroy(&bins->lock);
    zt_free(bins->ctx, bins);
}

/* The least class whose blocks hold so many bytes; CLASSES: none. */
static int class_of(size_t bytes)
{
    int size_class = SMALLEST;
    while (size_class < CLASSES - 1 && (size_t)1 << size_class < bytes) size_class++;
    return (size_t)1 << size_class < bytes ? CLASSES : size_class;
}

void *zt_bins_take(zt_bins *bins, size_t bytes)
{
    if (!bins) return NULL;
    int size_class = class_of(bytes);
    size_t size = size_class < CLASSES ? (size_t)1 << size_class : SIZE_MAX; /* which the allocator refuses */
    pthread_mutex_lock(&bins->lock);
    idle_block *idle = size_class < CLASSES ? bins->bins[size_class] : NULL;
    if (idle) {
        bins->bins[size_class] = idle->next;
        bins->stats.idle -= size;
        bins->stats.idle_blocks--;
    }
    pthread_mutex_unlock(&bins->lock);
    void *block = idle ? (void *)idle : zt_alloc(bins->ctx, size);
    if (!block) return NULL;
    pthread_mutex_lock(&bins->lock);
    bins->stats.taken += size;
    if (idle)
        bins->stats.hits++;
    else
        bins->stats.misses++;
    pthread_mutex_unlock(&bins->lock);
    return block;
}

void zt_bins_give(zt_bins *bins, void *block)
{
    if (!block) return;
    size_t size = zt_block_bytes(block);
    int size_class = class_of(size);
    pthread_mutex_lock(&bins->lock);
    ((idle_block *)block)->next = bins->bins[size_class];
    bins->bins[size_class] = block;
    bins->stats.taken -= size;
    bins->stats.idle += size;
    bins->stats.idle_blocks++;
    pthread_mutex_unlock(&bins->lock);
}

void zt_bins_reset(zt_bins *bins, size_t floor)
{
    if (!bins) return;
    pthread_mutex_lock(&bins->lock);
    for (int size_class = CLASSES - 1; size_class >= SMALLEST; size_class--) {
        while (bins->bins[size_class] && bins->stats.idle > floor) {
            idle_block *idle = bins->bins[size_class];
            bins->bins[size_class] = idle->next;
            bins->stats.idle -= (size_t)1 << size_class;
            bins->stats.idle_blocks--;
            zt_free(bins->ctx, idle);
        }
    }
    pthread_mutex_unlock(&bins->lock);
}

zt_bins_stats zt_bins_get(const zt_bins *bins)
{
    if (!bins) return (zt_bins_stats){0};
    zt_bins *mutable_bins = (zt_bins *)bins;
    pthread_mutex_lock(&mutable_bins->lock);
    zt_bins_stats stats = bins->stats;
    pthread_mutex_unlock(&mutable_bins->lock);
    return stats;
}
