/* gather.c - owns reading strided arrays of either byte order as row-major little-endian bytes.
 *
 *   contiguous                              fetched directly
 *   strided, span small or dense            the whole span is fetched once and kept; elements are copied from it
 *   strided, span over SMALL_SPAN and more  each element is fetched by itself
 *   than SPAN_RATIO times the array's bytes
 */
#include "lib/io/gather.h"

#include <pthread.h>
#include <string.h>

enum {
    MAX_ITEM = 16,
    SPAN_RATIO = 4,      /* a span is held when it is at most so many times the array's own bytes, */
    SMALL_SPAN = 1 << 20 /* or so small */
};

struct zt_gather {
    zt_ctx *ctx;
    pthread_mutex_t lock;
    int64_t key; /* whose span is held; -1: nobody's */
    uint8_t *span;
};

zt_gather *zt_gather_new(zt_ctx *ctx)
{
    zt_gather *gather = zt_calloc(ctx, 1, sizeof *gather);
    if (!gather)
        return NULL;
    gather->ctx = ctx;
    gather->key = -1;
    pthread_mutex_init(&gather->lock, NULL);
    return gather;
}

void zt_gather_free(zt_gather *gather)
{
    if (!gather)
        return;
    pthread_mutex_destroy(&gather->lock);
    zt_free(gather->ctx, gather->span);
    zt_free(gather->ctx, gather);
}

bool zt_layout_check(const zt_layout *layout, int64_t *count, uint64_t *span)
{
    int64_t product = 1, last = 0, step;
    size_t bytes;
    bool empty = false;
    for (int i = 0; i < layout->rank; i++) {
        empty |= layout->dim[i] == 0;
        if (layout->dim[i] && !zt_mul_i64(product, layout->dim[i], &product))
            return false;
        if (layout->dim[i] && (!zt_mul_i64(layout->dim[i] - 1, layout->stride[i], &step) ||
                          __builtin_add_overflow(last, step, &last)))
            return false;
    }
    *count = empty ? 0 : product;
    *span = 0;
    if (!zt_mul_size((size_t)product, layout->item, &bytes) || bytes > INT64_MAX)
        return false;
    if (!empty && (last == INT64_MAX || !zt_mul_size((size_t)last + 1, layout->item, &bytes)))
        return false;
    *span = empty ? 0 : bytes;
    return true;
}

static bool is_contiguous(const zt_layout *layout)
{
    int64_t expected = 1;
    for (int i = layout->rank; i-- > 0;) {
        if (layout->dim[i] != 1 && layout->stride[i] != expected)
            return false;
        expected *= layout->dim[i];
    }
    return true;
}

static void reverse_bytes(uint8_t *bytes, size_t size, size_t width)
{
    for (size_t start = 0; start < size; start += width) {
        for (size_t i = 0; i < width / 2; i++) {
            uint8_t byte = bytes[start + i];
            bytes[start + i] = bytes[start + width - 1 - i];
            bytes[start + width - 1 - i] = byte;
        }
    }
}

/* ---- elements one after another -------------------------------------------------------------- */

/* Where the walk is: the index in each dimension, and the element that it means. */
typedef struct element_walk {
    const zt_layout *layout;
    int64_t index[64];
    int64_t element;
} element_walk;

static void seek_element(element_walk *walk, const zt_layout *layout, int64_t element)
{
    walk->layout = layout;
    walk->element = 0;
    for (int i = layout->rank; i-- > 0;) {
        walk->index[i] = element % layout->dim[i];
        element /= layout->dim[i];
        walk->element += walk->index[i] * layout->stride[i];
    }
}

static void next_element(element_walk *walk)
{
    const zt_layout *layout = walk->layout;
    for (int i = layout->rank; i-- > 0;) {
        walk->element += layout->stride[i];
        if (++walk->index[i] < layout->dim[i])
            return;
        walk->element -= layout->dim[i] * layout->stride[i];
        walk->index[i] = 0;
    }
}

static void copy_elements(element_walk *walk, const uint8_t *span, uint8_t *dst, int64_t count)
{
    size_t item = walk->layout->item;
    for (int64_t i = 0; i < count; i++, next_element(walk)) {
        const uint8_t *source = span + (size_t)walk->element * item;
        if (item == 4)
            memcpy(dst + 4 * i, source, 4);
        else if (item == 2)
            memcpy(dst + 2 * i, source, 2);
        else
            memcpy(dst + (size_t)i * item, source, item);
    }
}

static zt_status fetch_elements(element_walk *walk, uint8_t *dst, int64_t count, zt_fetch *fetch, void *user)
{
    size_t item = walk->layout->item;
    zt_status status = ZT_OK;
    for (int64_t i = 0; status == ZT_OK && i < count; i++, next_element(walk))
        status = fetch(user, walk->layout->begin + (uint64_t)walk->element * item, dst + (size_t)i * item, item);
    return status;
}

/* The span of array `key`, held. The lock is. */
static zt_status hold_span(zt_gather *gather, const zt_layout *layout, int64_t key, uint64_t size, zt_fetch *fetch,
                      void *user)
{
    if (gather->key == key)
        return ZT_OK;
    gather->key = -1;
    zt_free(gather->ctx, gather->span);
    gather->span = zt_alloc(gather->ctx, (size_t)size);
    zt_status status = gather->span ? fetch(user, layout->begin, gather->span, (size_t)size) : ZT_ENOMEM;
    if (status == ZT_OK)
        gather->key = key;
    return status;
}

static zt_status read_strided(zt_gather *gather, const zt_layout *layout, int64_t key, int64_t first, uint8_t *dst,
                         int64_t count, zt_fetch *fetch, void *user)
{
    element_walk walk;
    int64_t all;
    uint64_t span;
    if (!zt_layout_check(layout, &all, &span))
        return zt_fail(gather->ctx, ZT_EBUG, "a layout that nobody checked");
    seek_element(&walk, layout, first);
    if (!layout->forward && span > SMALL_SPAN && span / SPAN_RATIO > (uint64_t)all * layout->item)
        return fetch_elements(&walk, dst, count, fetch, user);
    pthread_mutex_lock(&gather->lock);
    zt_status status = hold_span(gather, layout, key, span, fetch, user);
    if (status == ZT_OK)
        copy_elements(&walk, gather->span, dst, count);
    pthread_mutex_unlock(&gather->lock);
    return status;
}

static zt_status read_elements(zt_gather *gather, const zt_layout *layout, int64_t key, size_t first, void *dst,
                          size_t count, zt_fetch *fetch, void *user)
{
    zt_status status = is_contiguous(layout)
                       ? fetch(user, layout->begin + first * layout->item, dst, count * layout->item)
                       : read_strided(gather, layout, key, (int64_t)first, dst, (int64_t)count, fetch, user);
    if (status == ZT_OK && layout->swap > 1)
        reverse_bytes(dst, count * layout->item, layout->swap);
    return status;
}

zt_status zt_gather_read(zt_gather *gather, const zt_layout *layout, int64_t key, size_t offset, void *dst,
                         size_t size, zt_fetch *fetch, void *user)
{
    uint8_t element[MAX_ITEM], *output = dst;
    if (size && layout->swap == 1 && is_contiguous(layout))
        return fetch(user, layout->begin + offset, dst, size);
    while (size) {
        size_t skip = offset % layout->item, whole = size / layout->item;
        size_t step = layout->item - skip < size ? layout->item - skip : size; /* of an element that is cut */
        bool cut = skip || !whole;
        zt_status status =
            read_elements(gather, layout, key, offset / layout->item, cut ? element : output, cut ? 1 : whole, fetch, user);
        if (status != ZT_OK)
            return status;
        if (cut)
            memcpy(output, element + skip, step);
        else
            step = whole * layout->item;
        output += step;
        offset += step;
        size -= step;
    }
    return ZT_OK;
}

/* ---- what all readers ask -------------------------------------------------------------------- */

zt_status zt_array_range(zt_ctx *ctx, const char *file, const zt_array *array, size_t offset, size_t size)
{
    char text[160];
    size_t end;
    if (zt_add_size(offset, size, &end) && end <= array->bytes)
        return ZT_OK;
    return zt_fail(ctx, ZT_EUSAGE, "%s: tensor '%s': %zu bytes at %zu of %zu asked for", file,
                   zt_escape(text, sizeof text, array->name, strlen(array->name)), size, offset, array->bytes);
}

zt_status zt_array_type(zt_ctx *ctx, const char *file, const zt_array *array, zt_type *type)
{
    char text[160], word[80];
    *type = array->type;
    if (array->type.rank >= 0 && array->type.dtype < ZT_DTYPE_COUNT)
        return ZT_OK;
    return zt_fail(ctx, ZT_ENOTSUP, "%s: tensor '%s' is of type %s%s, which is not supported", file,
                   zt_escape(text, sizeof text, array->name, strlen(array->name)),
                   zt_escape(word, sizeof word, array->dtype, strlen(array->dtype)),
                   array->type.dtype < ZT_DTYPE_COUNT ? " with too many dimensions" : "");
}
