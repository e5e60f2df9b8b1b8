/* tensor.c - owns tensors: counted headers over counted buffers. Counts are atomic, so that
 * threads may share a tensor; its contents are the callers' affair. */
#include "lib/base/require.h"
#include "lib/tensor/tensor.h"

#include <stdatomic.h>

typedef struct tensor_buffer {
    atomic_int refs;
    void *data;
    void (*release)(void *user, void *data); /* NULL: the data lies behind this header or is lent */
    void *user;
    zt_device_resident *device_resident; /* NULL: the data are here */
} tensor_buffer;

/* The data of an own buffer begins here: a cache line on, so that it keeps zt_alloc's alignment. */
enum { BUFFER_HEADER = 64 };
_Static_assert(sizeof(tensor_buffer) <= BUFFER_HEADER, "buffer header");

struct zt_tensor {
    zt_ctx *ctx;
    atomic_int refs;
    tensor_buffer *buffer;
    char *data;
    size_t bytes;
    zt_type type;
};

static void buffer_unref(zt_ctx *ctx, tensor_buffer *buffer)
{
    if (atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) > 1) return;
    zt_device_resident *away = buffer->device_resident;
    buffer->device_resident = NULL;
    if (away) away->drop(away);
    if (buffer->release) buffer->release(buffer->user, buffer->data);
    zt_free(ctx, buffer);
}

/* Takes over one count of `buffer` also when it fails. */
static zt_tensor *make_tensor(zt_ctx *ctx, const zt_type *type, tensor_buffer *buffer, char *data, size_t bytes)
{
    zt_tensor *tensor = zt_alloc(ctx, sizeof *tensor);
    if (!tensor) {
        buffer_unref(ctx, buffer);
        return NULL;
    }
    tensor->ctx = ctx;
    atomic_init(&tensor->refs, 1);
    tensor->buffer = buffer;
    tensor->data = data;
    tensor->bytes = bytes;
    tensor->type = zt_type_make(type->dtype, type->rank, type->dim);
    return tensor;
}

zt_tensor *zt_tensor_new(zt_ctx *ctx, const zt_type *type)
{
    ZT_REQUIRE(ctx, type, NULL);
    size_t bytes, total;
    if (!zt_type_check(ctx, type, &bytes)) return NULL;
    if (!zt_add_size(bytes, BUFFER_HEADER, &total)) total = SIZE_MAX; /* which the allocator refuses with its message */
    tensor_buffer *buffer = zt_alloc(ctx, total);
    if (!buffer) return NULL;
    *buffer = (tensor_buffer){.data = (char *)buffer + BUFFER_HEADER};
    atomic_init(&buffer->refs, 1);
    return make_tensor(ctx, type, buffer, buffer->data, bytes);
}

zt_tensor *zt_tensor_wrap(zt_ctx *ctx, const zt_type *type, void *data, void (*release)(void *user, void *data), void *user)
{
    size_t bytes;
    if (!zt_type_check(ctx, type, &bytes)) return NULL;
    tensor_buffer *buffer = zt_alloc(ctx, sizeof *buffer);
    if (!buffer) return NULL;
    *buffer = (tensor_buffer){.data = data, .user = user};
    atomic_init(&buffer->refs, 1);
    zt_tensor *tensor = make_tensor(ctx, type, buffer, data, bytes);
    if (tensor) buffer->release = release; /* only now: on failure the data stay the caller's */
    return tensor;
}

zt_tensor *zt_tensor_view(zt_tensor *base, const zt_type *type, size_t offset_bytes)
{
    if (!base) return NULL;
    size_t bytes, end;
    char base_text[ZT_TYPE_TEXT], view_text[ZT_TYPE_TEXT];
    if (!zt_type_check(base->ctx, type, &bytes)) return NULL;
    if (!zt_add_size(bytes, offset_bytes, &end) || end > base->bytes) {
        zt_fail(base->ctx, ZT_ESHAPE, "the view %s of %s at byte %zu is out of range: it needs %zu bytes, %zu are left",
                zt_type_text(type, view_text), zt_type_text(&base->type, base_text), offset_bytes, bytes,
                offset_bytes < base->bytes ? base->bytes - offset_bytes : 0);
        return NULL;
    }
    atomic_fetch_add_explicit(&base->buffer->refs, 1, memory_order_relaxed);
    return make_tensor(base->ctx, type, base->buffer, base->data + offset_bytes, bytes);
}

zt_tensor *zt_tensor_ref(zt_tensor *tensor)
{
    if (tensor) atomic_fetch_add_explicit(&tensor->refs, 1, memory_order_relaxed);
    return tensor;
}

void zt_tensor_unref(zt_tensor *tensor)
{
    if (!tensor || atomic_fetch_sub_explicit(&tensor->refs, 1, memory_order_acq_rel) > 1) return;
    buffer_unref(tensor->ctx, tensor->buffer);
    zt_free(tensor->ctx, tensor);
}

bool zt_tensor_sole(const zt_tensor *tensor)
{
    if (!tensor) return false;
    return atomic_load_explicit(&((zt_tensor *)tensor)->refs, memory_order_acquire) == 1 &&
           atomic_load_explicit(&tensor->buffer->refs, memory_order_acquire) == 1 &&
           tensor->buffer->data == (char *)tensor->buffer + BUFFER_HEADER;
}

const zt_type *zt_tensor_type(const zt_tensor *tensor) { return &tensor->type; }

void *zt_tensor_data(const zt_tensor *tensor)
{
    if (!tensor) return NULL;
    zt_device_resident *away = tensor->buffer->device_resident;
    if (away) {
        tensor->buffer->device_resident = NULL;
        away->fetch(away);
    }
    return tensor->data;
}

void *zt_tensor_address(const zt_tensor *tensor)
{
    if (!tensor) return NULL;
    return tensor->data;
}

void zt_tensor_make_device_resident(zt_tensor *tensor, zt_device_resident *record)
{
    if (!tensor) return;
    ZT_REQUIRE(tensor->ctx, record, );
    record->data = tensor->buffer->data;
    record->attached = &tensor->buffer->device_resident;
    tensor->buffer->device_resident = record;
}

zt_device_resident *zt_tensor_device_resident(const zt_tensor *tensor) { return tensor ? tensor->buffer->device_resident : NULL; }

size_t zt_tensor_bytes(const zt_tensor *tensor) { return tensor ? tensor->bytes : 0; }

zt_ctx *zt_tensor_ctx(const zt_tensor *tensor) { return tensor ? tensor->ctx : NULL; }
