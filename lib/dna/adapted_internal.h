/* adapted_internal.h - private to lib/dna/adapted*.c: which tensors are changed, and what is loaded for that. */
#ifndef ZT_ADAPTED_INTERNAL_H
#define ZT_ADAPTED_INTERNAL_H

#include "lib/dna/adapted.h"
#include "lib/dna/lora_internal.h"

#include <pthread.h>

/* What one adapter does to a tensor. */
typedef struct adapted_item {
    lora_placement placement;
    double scale;
} adapted_item;

/* The same, loaded as floats. */
typedef struct adapted_loaded {
    float *left, *right; /* B [rows, rank], multiplied by alpha / rank; A [rank, columns] */
    float *factor;       /* DoRA: magnitude / length of each row or column */
    float *whole;        /* of a transposed matrix; others are read by row */
    float *rows;         /* [part->row_count, columns] */
    float *addend;       /* [elements] */
} adapted_loaded;

/* A tensor that is changed. */
typedef struct adapted_change {
    int64_t base_tensor; /* tensor of the base that supplies the values before the change */
    zt_dtype stored;     /* the base's type */
    int64_t rows, columns, base_rows;
    int64_t each; /* rows of a matrix: of stacked ones fewer than rows */
    adapted_item *items;
    int item_count;
} adapted_change;

enum { ADAPTED_SLOTS = 8 };

/* A tensor that is being read. */
typedef struct adapted_slot {
    int64_t tensor; /* of the checkpoint; -1: free */
    int users;
    uint64_t last_used; /* value of `clock` at the last use */
    adapted_loaded *items;
    int item_count;
} adapted_slot;

struct zt_adapted {
    zt_ctx *ctx;
    zt_checkpoint *base, *checkpoint;
    zt_adapted_opts options;
    zt_arena *arena;
    zt_meta *meta;
    zt_entry *entries;
    int64_t *base_tensors;    /* [tensor_count] index in the base */
    adapted_change **changes; /* [tensor_count] NULL: unchanged */
    int64_t tensor_count, added_rows;
    bool released; /* to be freed with the checkpoint */
    pthread_mutex_t lock;
    pthread_cond_t idle;
    adapted_slot slots[ADAPTED_SLOTS];
    uint64_t clock;
    zt_pool *pool; /* NULL: reads run on the caller's thread */
    pthread_mutex_t pool_lock;
};

/* Is it for a stack of matrices, or for one of them? */
static inline bool zt_adapted_is_stacked(const lora_placement *placement)
{
    return placement->part->experts > 0 || placement->expert >= 0;
}

/* Reads `size` bytes at `offset` of a tensor. user: the zt_adapted. */
zt_status zt_adapted_read(void *user, int64_t tensor, uint64_t offset, void *dst, size_t size);

/* Loads what an item needs; `change` has the shape. */
zt_status zt_adapted_load(zt_adapted *adapted, const adapted_change *change, const adapted_item *item, adapted_loaded *out);
void zt_adapted_unload(zt_ctx *ctx, adapted_loaded *loaded);
/* Computes rows [first, first + row_count) with all adapters. out: row_count * columns floats; scratch: twice as many. */
zt_status zt_adapted_rows(zt_adapted *adapted, const adapted_change *change, const adapted_loaded *loaded, int64_t first,
                          int64_t row_count, float *out, float *scratch);

#endif
