/* tensor_pool.c - tensors that are used again, by dtype and shape. */
#include "lib/base/require.h"
#include "lib/tensor/tensor.h"

#include <pthread.h>
#include <string.h>

enum { BUCKETS = 64 };

typedef struct pool_node {
    struct pool_node *next;
    zt_tensor *tensor;
} pool_node;

struct zt_tensor_pool {
    zt_ctx *ctx;
    pthread_mutex_t lock;
    pool_node *bucket[BUCKETS];
    size_t len;
};

static unsigned bucket_index(const zt_type *type)
{
    uint64_t hash = (uint64_t)type->dtype + 31;
    for (int i = 0; i < type->rank; i++) hash = hash * 0x9E3779B97F4A7C15u + (uint64_t)type->dim[i] + 1;
    return (unsigned)((hash ^ hash >> 32) % BUCKETS);
}

zt_tensor_pool *zt_tensor_pool_new(zt_ctx *ctx)
{
    zt_tensor_pool *pool = zt_calloc(ctx, 1, sizeof *pool);
    if (!pool) return NULL;
    pool->ctx = ctx;
    if (pthread_mutex_init(&pool->lock, NULL) == 0) return pool;
    zt_fail(ctx, ZT_ESYS, "cannot create the lock of a tensor pool");
    zt_free(ctx, pool);
    return NULL;
}

void zt_tensor_pool_free(zt_tensor_pool *pool)
{
    if (!pool) return;
    for (int i = 0; i < BUCKETS; i++) {
        for (pool_node *node = pool->bucket[i], *next; node; node = next) {
            next = node->next;
            zt_tensor_unref(node->tensor);
            zt_free(pool->ctx, node);
        }
    }
    pthread_mutex_destroy(&pool->lock);
    zt_free(pool->ctx, pool);
}

zt_tensor *zt_tensor_pool_acquire(zt_tensor_pool *pool, const zt_type *type)
{
    if (!pool) return NULL;
    ZT_REQUIRE(pool->ctx, type, NULL);
    pthread_mutex_lock(&pool->lock);
    pool_node **link = &pool->bucket[bucket_index(type)];
    while (*link && !zt_type_equal(zt_tensor_type((*link)->tensor), type)) link = &(*link)->next;
    pool_node *node = *link;
    if (node) {
        *link = node->next;
        pool->len--;
    }
    pthread_mutex_unlock(&pool->lock);
    zt_tensor *tensor = node ? node->tensor : zt_tensor_new(pool->ctx, type);
    zt_free(pool->ctx, node);
    if (tensor) memset(zt_tensor_data(tensor), 0, zt_tensor_bytes(tensor));
    return tensor;
}

void zt_tensor_pool_release(zt_tensor_pool *pool, zt_tensor *tensor)
{
    if (!pool) return;
    if (!tensor) return;
    pool_node *node = zt_tensor_sole(tensor) ? zt_alloc(pool->ctx, sizeof *node) : NULL;
    if (!node) {
        zt_tensor_unref(tensor);
        return;
    }
    pool_node **link = &pool->bucket[bucket_index(zt_tensor_type(tensor))];
    pthread_mutex_lock(&pool->lock);
    *node = (pool_node){*link, tensor};
    *link = node;
    pool->len++;
    pthread_mutex_unlock(&pool->lock);
}

size_t zt_tensor_pool_len(const zt_tensor_pool *pool)
{
    if (!pool) return 0;
    zt_tensor_pool *mutable_pool = (zt_tensor_pool *)pool;
    pthread_mutex_lock(&mutable_pool->lock);
    size_t length = pool->len;
    pthread_mutex_unlock(&mutable_pool->lock);
    return length;
}
