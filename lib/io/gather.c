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
    if (!gather) return NULL;
    gather->ctx = ctx;
    gather->key = -1;
    pthread_mutex_init(&gather->lock, NULL);
    return gather;
}

void zt_gather_free(zt_gather *gather)
{
    if (!gather) return;
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
        if (layout->dim[i] && !zt_mul_i64(product, layout->dim[i], &product)) return false;
        if (layout->dim[i] &&
            (!zt_mul_i64(layout->dim[i] - 1, layout->stride[i], &step) || __builtin_add_overflow(last, step, &last)))
            return false;
    }
    *count = empty ? 0 : product;
    *span = 0;
    if (!zt_mul_size((size_t)product, layout->item, &bytes) || bytes > INT64_MAX) return false;
    if (!empty && (last == INT64_MAX || !zt_mul_size((size_t)last + 1, layout->item, &bytes))) return false;
    *span = empty ? 0 : bytes;
    return true;
}

static bool is_contiguous(const zt_layout *layout)
{
    int64_t expected = 1;
    for (int i = layout->rank; i-- > 0;) {
        if (layout->dim[i] != 1 && layout->stride[i] != expected) return false;
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
typedef struct element_cursor {
    const zt_layout *layout;
    int64_t index[64];
    int64_t element;
} element_cursor;

static void seek_element(element_cursor *cursor, const zt_layout *layout, int64_t element)
{
    cursor->layout = layout;
    cursor->element = 0;
    for (int i = layout->rank; i-- > 0;) {
        cursor->index[i] = element % layout->dim[i];
        element /= layout->dim[i];
        cursor->element += cursor->index[i] * layout->stride[i];
    }
}

static void next_element(element_cursor *cursor)
{
    const zt_layout *layout = cursor->layout;
    for (int i = layout->rank; i-- > 0;) {
        cursor->element += layout->stride[i];
        if (++cursor->index[i] < layout->dim[i]) return;
        cursor->element -= layout->dim[i] * layout->stride[i];
        cursor->index[i] = 0;
    }
}

static void copy_elements(element_cursor *cursor, const uint8_t *span, uint8_t *dst, int64_t count)
{
    size_t item = cursor->layout->item;
    for (int64_t i = 0; i < count; i++, next_element(cursor)) {
        const uint8_t *source = span + (size_t)cursor->element * item;
        if (item == 4)
            memcpy(dst + 4 * i, source, 4);
        else if (item == 2)
            memcpy(dst + 2 * i, source, 2);
        else
            memcpy(dst + (size_t)i * item, source, item);
    }
}

static zt_status fetch_elements(element_cursor *cursor, uint8_t *dst, int64_t count, zt_fetch *fetch, void *user)
{
    size_t item = cursor->layout->item;
    zt_status status = ZT_OK;
    for (int64_t i = 0; status == ZT_OK && i < count; i++, next_element(cursor))
        status = fetch(user, cursor->layout->begin + (uint64_t)cursor->element * item, dst + (size_t)i * item, item);
    return status;
}

/* The span of array `key`, held. The lock is. */
static zt_status hold_span(zt_gather *gather, const zt_layout *layout, int64_t key, uint64_t size, zt_fetch *fetch, void *user)
{
    if (gather->key == key) return ZT_OK;
    gather->key = -1;
    zt_free(gather->ctx, gather->span);
    gather->span = zt_alloc(gather->ctx, (size_t)size);
    zt_status status = gather->span ? fetch(user, layout->begin, gather->span, (size_t)size) : ZT_ENOMEM;
    if (status == ZT_OK) gather->key = key;
    return status;
}

static zt_status read_strided(zt_gather *gather, const zt_layout *layout, int64_t key, int64_t first, uint8_t *dst, int64_t count,
                              zt_fetch *fetch, void *user)
{
    element_cursor cursor;
    int64_t all;
    uint64_t span;
    if (!zt_layout_check(layout, &all, &span)) return zt_fail(gather->ctx, ZT_EBUG, "invalid tensor layout");
    seek_element(&cursor, layout, first);
    if (!layout->forward && span > SMALL_SPAN && span / SPAN_RATIO > (uint64_t)all * layout->item)
        return fetch_elements(&cursor, dst, count, fetch, user);
    pthread_mutex_lock(&gather->lock);
    zt_status status = hold_span(gather, layout, key, span, fetch, user);
    if (status == ZT_OK) copy_elements(&cursor, gather->span, dst, count);
    pthread_mutex_unlock(&gather->lock);
    return status;
}

static zt_status read_elements(zt_gather *gather, const zt_layout *layout, int64_t key, size_t first, void *dst, size_t count,
                               zt_fetch *fetch, void *user)
{
    zt_status status = is_contiguous(layout)
                           ? fetch(user, layout->begin + first * layout->item, dst, count * layout->item)
                           : read_strided(gather, layout, key, (int64_t)first, dst, (int64_t)count, fetch, user);
    if (status == ZT_OK && layout->swap > 1) reverse_bytes(dst, count * layout->item, layout->swap);
    return status;
}

zt_status zt_gather_read(zt_gather *gather, const zt_layout *layout, int64_t key, size_t offset, void *dst, size_t size,
                         zt_fetch *fetch, void *user)
{
    uint8_t element[MAX_ITEM], *output = dst;
    if (size && layout->swap == 1 && is_contiguous(layout)) return fetch(user, layout->begin + offset, dst, size);
    while (size) {
        size_t skip = offset % layout->item, whole = size / layout->item;
        size_t step = layout->item - skip < size ? layout->item - skip : size; /* of an element that is cut */
        bool cut = skip || !whole;
        zt_status status =
            read_elements(gather, layout, key, offset / layout->item, cut ? element : output, cut ? 1 : whole, fetch, user);
        if (status != ZT_OK) return status;
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
