/* tensor_pool.c - tensors that are used again, by dtype and shape. */
#include "lib/tensor/tensor.h"

#include <pthread.h>
#include <string.h>

enum { BUCKETS = 64 };

typedef struct node {
    struct node *next;
    zt_tensor *tensor;
} node;

struct zt_tensor_pool {
    zt_ctx *ctx;
    pthread_mutex_t lock;
    node *bucket[BUCKETS];
    size_t len;
};

static unsigned bucket_of(const zt_type *t)
{
    uint64_t h = (uint64_t)t->dtype + 31;
    for (int d = 0; d < t->rank; d++) h = h * 0x9E3779B97F4A7C15u + (uint64_t)t->dim[d] + 1;
    return (unsigned)((h ^ h >> 32) % BUCKETS);
}

zt_tensor_pool *zt_tensor_pool_new(zt_ctx *ctx)
{
    zt_tensor_pool *p = zt_calloc(ctx, 1, sizeof *p);
    if (!p) return NULL;
    p->ctx = ctx;
    if (pthread_mutex_init(&p->lock, NULL) == 0) return p;
    zt_fail(ctx, ZT_ESYS, "no lock for a pool of tensors");
    zt_free(ctx, p);
    return NULL;
}

void zt_tensor_pool_free(zt_tensor_pool *p)
{
    if (!p) return;
    for (int i = 0; i < BUCKETS; i++) {
        for (node *n = p->bucket[i], *next; n; n = next) {
            next = n->next;
            zt_tensor_unref(n->tensor);
            zt_free(p->ctx, n);
        }
    }
    pthread_mutex_destroy(&p->lock);
    zt_free(p->ctx, p);
}

zt_tensor *zt_tensor_pool_acquire(zt_tensor_pool *p, const zt_type *type)
{
    pthread_mutex_lock(&p->lock);
    node **at = &p->bucket[bucket_of(type)];
    while (*at && !zt_type_equal(zt_tensor_type((*at)->tensor), type)) at = &(*at)->next;
    node *n = *at;
    if (n) {
        *at = n->next;
        p->len--;
    }
    pthread_mutex_unlock(&p->lock);
    zt_tensor *t = n ? n->tensor : zt_tensor_new(p->ctx, type);
    zt_free(p->ctx, n);
    if (t) memset(zt_tensor_data(t), 0, zt_tensor_bytes(t));
    return t;
}

void zt_tensor_pool_release(zt_tensor_pool *p, zt_tensor *t)
{
    if (!t) return;
    node *n = zt_tensor_sole(t) ? zt_alloc(p->ctx, sizeof *n) : NULL;
    if (!n) {
        zt_tensor_unref(t);
        return;
    }
    node **at = &p->bucket[bucket_of(zt_tensor_type(t))];
    pthread_mutex_lock(&p->lock);
    *n = (node){*at, t};
    *at = n;
    p->len++;
    pthread_mutex_unlock(&p->lock);
}

size_t zt_tensor_pool_len(const zt_tensor_pool *p)
{
    zt_tensor_pool *own = (zt_tensor_pool *)p;
    pthread_mutex_lock(&own->lock);
    size_t len = p->len;
    pthread_mutex_unlock(&own->lock);
    return len;
}
