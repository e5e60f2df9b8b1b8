/* adapted_part.h - private to lib/dna/adapted*.c: what is changed, and what is in memory of it. */
#ifndef ZT_ADAPTED_PART_H
#define ZT_ADAPTED_PART_H

#include "lib/dna/adapted.h"
#include "lib/dna/lora_part.h"

#include <pthread.h>

/* What one adapter does to a tensor. */
typedef struct adapted_item {
    lora_fit fit;
    double scale;
} adapted_item;

/* The same in memory, ready to be used. */
typedef struct adapted_loaded {
    float *left, *right; /* [rows, r] with alpha / r in it; [r, columns] */
    float *factor;       /* DoRA: magnitude / length, of each row or column */
    float *whole;        /* of a matrix that is transposed; else it is read by row */
    float *rows;         /* [n_rows, columns] */
    float *addend;       /* [elements] */
} adapted_loaded;

/* A tensor that is changed. */
typedef struct adapted_change {
    int64_t base;      /* tensor of the base, whose values it begins with */
    zt_dtype stored;   /* the base's type */
    int64_t rows, columns, base_rows;
    adapted_item *item;
    int n;
} adapted_change;

enum { ADAPTED_SLOTS = 8 };

/* Of a tensor being read. */
typedef struct adapted_slot {
    int64_t tensor; /* of the checkpoint; -1: free */
    int users;
    uint64_t used; /* when */
    adapted_loaded *item;
    int n;
} adapted_slot;

struct zt_adapted {
    zt_ctx *ctx;
    zt_checkpoint *base, *made;
    zt_adapted_opts o;
    zt_arena *arena;
    zt_meta *meta;
    zt_entry *entry;
    int64_t *of;              /* [n] tensor of the base */
    adapted_change **change;  /* [n] NULL: as the base has it */
    int64_t n, grown;
    bool released;            /* it is freed with the checkpoint */
    pthread_mutex_t lock;
    pthread_cond_t idle;
    adapted_slot slot[ADAPTED_SLOTS];
    uint64_t clock;
    zt_pool *pool; /* NULL: reads are the caller's */
    pthread_mutex_t pool_lock;
};

/* n bytes at `offset` of tensor i. */
zt_status zt_adapted_read(void *adapted, int64_t i, uint64_t offset, void *dst, size_t n);

/* What an item needs in memory; `c` tells the shape. */
zt_status zt_adapted_load(zt_adapted *a, const adapted_change *c, const adapted_item *item,
                          adapted_loaded *out);
void zt_adapted_unload(zt_ctx *ctx, adapted_loaded *l);
/* Rows [first, first + n) with all adapters: y, of n * columns floats; x: as much room. */
zt_status zt_adapted_rows(zt_adapted *a, const adapted_change *c, const adapted_loaded *loaded,
                          int64_t first, int64_t n, float *y, float *x);

#endif
