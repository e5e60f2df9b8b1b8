/* tensor.c - owns tensors: counted headers over counted buffers. Counts are atomic, so that
 * threads may share a tensor; its contents are the callers' affair. */
#include "lib/tensor/tensor.h"

#include <stdatomic.h>

typedef struct buffer {
    atomic_int refs;
    void *data;
    void (*release)(void *user, void *data); /* NULL: the data lies behind this header or is lent */
    void *user;
    zt_device_resident *away; /* NULL: the data are here */
} buffer;

/* The data of an own buffer begins here: a cache line on, so that it keeps zt_alloc's alignment. */
enum { BUFFER_HEADER = 64 };
_Static_assert(sizeof(buffer) <= BUFFER_HEADER, "buffer header");

struct zt_tensor {
    zt_ctx *ctx;
    atomic_int refs;
    buffer *buf;
    char *data;
    size_t bytes;
    zt_type type;
};

static void buffer_unref(zt_ctx *ctx, buffer *b)
{
    if (atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) > 1)
        return;
    zt_device_resident *away = b->away;
    b->away = NULL;
    if (away)
        away->drop(away);
    if (b->release)
        b->release(b->user, b->data);
    zt_free(ctx, b);
}

/* Takes over one count of `b` also when it fails. */
static zt_tensor *tensor_over(zt_ctx *ctx, const zt_type *type, buffer *b, char *data, size_t bytes)
{
    zt_tensor *t = zt_alloc(ctx, sizeof *t);
    if (!t) {
        buffer_unref(ctx, b);
        return NULL;
    }
    t->ctx = ctx;
    atomic_init(&t->refs, 1);
    t->buf = b;
    t->data = data;
    t->bytes = bytes;
    t->type = zt_type_make(type->dtype, type->rank, type->dim);
    return t;
}

zt_tensor *zt_tensor_new(zt_ctx *ctx, const zt_type *type)
{
    size_t bytes, total;
    if (!zt_type_check(ctx, type, &bytes))
        return NULL;
    if (!zt_add_size(bytes, BUFFER_HEADER, &total))
        total = SIZE_MAX; /* which the allocator refuses with its message */
    buffer *b = zt_alloc(ctx, total);
    if (!b)
        return NULL;
    *b = (buffer){.data = (char *)b + BUFFER_HEADER};
    atomic_init(&b->refs, 1);
    return tensor_over(ctx, type, b, b->data, bytes);
}

zt_tensor *zt_tensor_wrap(zt_ctx *ctx, const zt_type *type, void *data,
                          void (*release)(void *user, void *data), void *user)
{
    size_t bytes;
    if (!zt_type_check(ctx, type, &bytes))
        return NULL;
    buffer *b = zt_alloc(ctx, sizeof *b);
    if (!b)
        return NULL;
    *b = (buffer){.data = data, .user = user};
    atomic_init(&b->refs, 1);
    zt_tensor *t = tensor_over(ctx, type, b, data, bytes);
    if (t)
        b->release = release; /* only now: on failure the data stay the caller's */
    return t;
}

zt_tensor *zt_tensor_view(zt_tensor *base, const zt_type *type, size_t offset_bytes)
{
    if (!base)
        return NULL;
    size_t bytes, end;
    char from[ZT_TYPE_TEXT], to[ZT_TYPE_TEXT];
    if (!zt_type_check(base->ctx, type, &bytes))
        return NULL;
    if (!zt_add_size(bytes, offset_bytes, &end) || end > base->bytes) {
        zt_fail(base->ctx, ZT_ESHAPE, "a view %s of %s at byte %zu: %zu bytes, %zu there",
                zt_type_text(type, to), zt_type_text(&base->type, from), offset_bytes, bytes,
                offset_bytes < base->bytes ? base->bytes - offset_bytes : 0);
        return NULL;
    }
    atomic_fetch_add_explicit(&base->buf->refs, 1, memory_order_relaxed);
    return tensor_over(base->ctx, type, base->buf, base->data + offset_bytes, bytes);
}

zt_tensor *zt_tensor_ref(zt_tensor *t)
{
    if (t)
        atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

void zt_tensor_unref(zt_tensor *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) > 1)
        return;
    buffer_unref(t->ctx, t->buf);
    zt_free(t->ctx, t);
}

bool zt_tensor_sole(const zt_tensor *t)
{
    return atomic_load_explicit(&((zt_tensor *)t)->refs, memory_order_acquire) == 1 &&
           atomic_load_explicit(&t->buf->refs, memory_order_acquire) == 1 &&
           t->buf->data == (char *)t->buf + BUFFER_HEADER;
}

const zt_type *zt_tensor_type(const zt_tensor *t)
{
    return &t->type;
}

void *zt_tensor_data(const zt_tensor *t)
{
    zt_device_resident *away = t->buf->away;
    if (away) {
        t->buf->away = NULL;
        away->fetch(away);
    }
    return t->data;
}

void *zt_tensor_address(const zt_tensor *t)
{
    return t->data;
}

void zt_tensor_make_device_resident(zt_tensor *t, zt_device_resident *a)
{
    a->data = t->buf->data;
    a->at = &t->buf->away;
    t->buf->away = a;
}

zt_device_resident *zt_tensor_device_resident(const zt_tensor *t)
{
    return t->buf->away;
}

size_t zt_tensor_bytes(const zt_tensor *t)
{
    return t->bytes;
}

zt_ctx *zt_tensor_ctx(const zt_tensor *t)
{
    return t->ctx;
}
