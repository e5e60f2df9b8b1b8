/* hf_store.c - owns reading the tensors of a Hugging Face model as GGUF has them: rows in another
 * order, values in another type, matrices transposed, factors that we made.
 *
 * Nothing is kept in memory but values that we made and the one transposed matrix that was read
 * last: readers take a matrix in pieces, one matrix after the other. */
#include "lib/llm/hf/hf.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

struct hf_cache {
    pthread_mutex_t lock;
    int64_t tensor; /* -1: none */
    char *bytes;
};

/* ---- the list -------------------------------------------------------------------------------- */

hf_tensors *zt_hf_tensors_new(zt_ctx *ctx, const char *name, zt_checkpoint *from)
{
    hf_tensors *t = zt_calloc(ctx, 1, sizeof *t);
    if (!t) {
        zt_checkpoint_close(from);
        return NULL;
    }
    *t = (hf_tensors){.ctx = ctx, .from = from, .arena = zt_arena_new(ctx, 0)};
    t->cache = zt_calloc(ctx, 1, sizeof *t->cache);
    if (t->cache) {
        pthread_mutex_init(&t->cache->lock, NULL);
        t->cache->tensor = -1;
    }
    t->name = t->arena ? zt_arena_strndup(t->arena, name, strlen(name)) : NULL;
    if (t->name && t->cache)
        return t;
    zt_hf_tensors_free(t);
    return NULL;
}

void zt_hf_tensors_free(void *user)
{
    hf_tensors *t = user;
    if (!t)
        return;
    if (t->cache) {
        pthread_mutex_destroy(&t->cache->lock);
        zt_free(t->ctx, t->cache->bytes);
    }
    zt_free(t->ctx, t->cache);
    zt_checkpoint_close(t->from);
    zt_free(t->ctx, t->list);
    zt_arena_free(t->arena);
    zt_free(t->ctx, t);
}

zt_status zt_hf_tensors_add(hf_tensors *t, const hf_tensor *one)
{
    hf_tensor *list = t->list;
    size_t bytes;
    if (!zt_type_check(t->ctx, &one->type, &bytes))
        return zt_ctx_status(t->ctx);
    if ((t->n & (t->n - 1)) == 0) /* a power of two: full */
        list = zt_realloc(t->ctx, list, (size_t)(t->n ? 2 * t->n : 1) * sizeof *list);
    if (!list)
        return ZT_ENOMEM;
    t->list = list;
    hf_tensor *copy = &list[t->n];
    *copy = *one;
    copy->name = zt_arena_strndup(t->arena, one->name, strlen(one->name));
    if (copy->name && one->values) {
        float *values = zt_arena_alloc(t->arena, bytes);
        if (values)
            memcpy(values, one->values, bytes);
        copy->values = values;
    }
    if (!copy->name || (one->values && !copy->values))
        return ZT_ENOMEM;
    t->n++;
    return ZT_OK;
}

/* ---- elements -------------------------------------------------------------------------------- */

/* Elements [at, at + n) of the source, in its own order, as the tensor's type. */
static zt_status read_elements(const hf_tensors *t, const hf_tensor *x, int64_t at, int64_t n,
                               char *dst)
{
    enum { STEP = 1024 };
    const zt_dtype_info *from = zt_dtype_get(x->from);
    size_t es = (size_t)from->block_bytes;
    char raw[STEP * 8];
    float f[STEP];
    if (x->type.dtype == x->from && x->add == 0)
        return zt_checkpoint_read(t->from, x->source, (size_t)at * es, dst, (size_t)n * es);
    for (int64_t k; n > 0; n -= k, at += k) {
        k = n < STEP ? n : STEP;
        zt_status s = zt_checkpoint_read(t->from, x->source, (size_t)at * es, raw, (size_t)k * es);
        if (s != ZT_OK)
            return s;
        from->decode(raw, f, k);
        for (int64_t i = 0; x->add != 0 && i < k; i++)
            f[i] += x->add;
        memcpy(dst, f, (size_t)k * sizeof *f);
        dst += (size_t)k * sizeof *f;
    }
    return ZT_OK;
}

/* Where row r comes from: of each head, rows 2j and 2j + 1 are j and j + half of the source. */
static int64_t source_row(const hf_tensor *x, int64_t rows, int64_t r)
{
    int64_t head = rows / x->heads, half = head / 2, in = r % head;
    return r - in + in % 2 * half + in / 2;
}

/* Elements [at, at + n) of the tensor, whose rows are in another order than the source's. */
static zt_status read_paired(const hf_tensors *t, const hf_tensor *x, int64_t at, int64_t n,
                             char *dst)
{
    size_t es = (size_t)zt_dtype_get(x->type.dtype)->block_bytes;
    int64_t rows = x->type.dim[0], width = rows ? zt_type_count(&x->type) / rows : 0;
    while (n > 0) {
        int64_t r = at / width, column = at % width;
        int64_t k = width - column < n ? width - column : n;
        zt_status s = read_elements(t, x, source_row(x, rows, r) * width + column, k, dst);
        if (s != ZT_OK)
            return s;
        at += k;
        n -= k;
        dst += (size_t)k * es;
    }
    return ZT_OK;
}

/* ---- transposed matrices --------------------------------------------------------------------- */

static void transpose_rows(const char *src, char *dst, size_t es, int64_t first, int64_t n,
                           int64_t rows, int64_t columns)
{
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < n; r++)
            memcpy(dst + (size_t)(c * rows + first + r) * es, src + (size_t)(r * columns + c) * es,
                   es);
}

/* The whole of tensor i into bytes: the source has `rows` rows, which become its columns. */
static zt_status transpose(const hf_tensors *t, const hf_tensor *x, char *bytes)
{
    enum { STEP = 64 };
    size_t es = (size_t)zt_dtype_get(x->from)->block_bytes;
    int64_t rows = x->type.dim[1], columns = x->type.dim[0];
    size_t row = (size_t)columns * es;
    char *strip = zt_alloc_array(t->ctx, STEP, row);
    zt_status s = strip ? ZT_OK : ZT_ENOMEM;
    for (int64_t r = 0, n; s == ZT_OK && r < rows; r += n) {
        n = rows - r < STEP ? rows - r : STEP;
        s = zt_checkpoint_read(t->from, x->source, (size_t)r * row, strip, (size_t)n * row);
        if (s == ZT_OK)
            transpose_rows(strip, bytes, es, r, n, rows, columns);
    }
    zt_free(t->ctx, strip);
    return s;
}

/* Has the cache hold tensor i; the lock is held. */
static zt_status fill_cache(const hf_tensors *t, int64_t i)
{
    struct hf_cache *c = t->cache;
    if (c->tensor == i)
        return ZT_OK;
    zt_free(t->ctx, c->bytes);
    c->tensor = -1;
    c->bytes = zt_alloc(t->ctx, zt_type_bytes(&t->list[i].type));
    zt_status s = c->bytes ? transpose(t, &t->list[i], c->bytes) : ZT_ENOMEM;
    if (s == ZT_OK)
        c->tensor = i;
    return s;
}

static zt_status read_transposed(const hf_tensors *t, int64_t i, size_t offset, void *dst, size_t n)
{
    pthread_mutex_lock(&t->cache->lock);
    zt_status s = fill_cache(t, i);
    if (s == ZT_OK)
        memcpy(dst, t->cache->bytes + offset, n);
    pthread_mutex_unlock(&t->cache->lock);
    return s;
}

/* ---- the store ------------------------------------------------------------------------------- */

static zt_status read_whole(const hf_tensors *t, const hf_tensor *x, int64_t at, int64_t n,
                            char *dst)
{
    return x->heads ? read_paired(t, x, at, n, dst) : read_elements(t, x, at, n, dst);
}

/* Bytes need not be whole elements: those that are cut at either end go through a buffer. */
static zt_status read_bytes(const hf_tensors *t, const hf_tensor *x, size_t offset, char *dst,
                            size_t n)
{
    size_t es = (size_t)zt_dtype_get(x->type.dtype)->block_bytes;
    char one[8];
    while (n > 0) {
        size_t skip = offset % es, k = es - skip < n ? es - skip : n;
        int64_t at = (int64_t)(offset / es);
        zt_status s;
        if (skip == 0 && n >= es) {
            k = n - n % es;
            s = read_whole(t, x, at, (int64_t)(k / es), dst);
        } else {
            s = read_whole(t, x, at, 1, one);
            memcpy(dst, one + skip, k);
        }
        if (s != ZT_OK)
            return s;
        offset += k;
        dst += k;
        n -= k;
    }
    return ZT_OK;
}

static zt_status store_read(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    const hf_tensors *t = user;
    size_t end;
    if (handle < 0 || handle >= t->n)
        return zt_fail(t->ctx, ZT_EUSAGE, "%s: no tensor number %" PRId64, t->name, handle);
    const hf_tensor *x = &t->list[handle];
    if (!zt_add_size(offset, n, &end) || end > zt_type_bytes(&x->type))
        return zt_fail(t->ctx, ZT_EUSAGE, "%s: tensor '%s': %zu bytes at %zu asked for", t->name,
                       x->name, n, offset);
    if (n == 0)
        return ZT_OK;
    if (x->values) {
        memcpy(dst, (const char *)x->values + offset, n);
        return ZT_OK;
    }
    return x->transposed ? read_transposed(t, handle, offset, dst, n)
                         : read_bytes(t, x, offset, dst, n);
}

static zt_status store_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    const hf_tensors *t = user;
    for (int64_t i = 0; i < t->n; i++) {
        if (strcmp(t->list[i].name, name) == 0) {
            *type = t->list[i].type;
            *handle = i;
            return ZT_OK;
        }
    }
    return ZT_ENOENT;
}

zt_store zt_hf_tensors_store(hf_tensors *t)
{
    return (zt_store){.user = t, .find = store_find, .read = store_read};
}
