/* gguf.c - owns open GGUF files: opening and closing, identity, the tensor list, the store. */
#include "lib/io/fault.h"
#include "lib/io/gguf_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* ---- open and close ------------------------------------------------------------------------ */

/* Cuts head to what is before the data. Of a stream, what was read too far comes again. */
static bool trim(zt_gguf *g)
{
    size_t n = g->have < g->data ? g->have : (size_t)g->data;
    if (g->have > n && zt_source_unread(g->source, g->head + n, g->have - n) != ZT_OK)
        return false;
    g->have = n;
    char *head = zt_realloc(g->ctx, g->head, n);
    g->head = head ? head : g->head;
    return head != NULL;
}

/* What of the padding before the data is not in head, as far as the file has it. It may be 2 GiB. */
static bool hash_padding(zt_gguf *g, XXH3_state_t *h)
{
    enum { STEP = 1 << 16 };
    uint64_t to = g->data < g->file_size ? g->data : g->file_size;
    char *buf = g->have < to ? zt_alloc(g->ctx, STEP) : NULL;
    bool good = g->have >= to || buf;
    size_t got = 1;
    for (uint64_t at = g->have; good && got && at < to; at += got) {
        size_t n = to - at < STEP ? (size_t)(to - at) : STEP;
        good = zt_source_read_some(g->source, at, buf, n, n, &got) == ZT_OK;
        if (good)
            XXH3_128bits_update(h, buf, got);
    }
    zt_free(g->ctx, buf);
    return good;
}

/* XXH3-128 of the bytes before the data, followed by the file's size as a little-endian u64. */
static bool identify(zt_gguf *g)
{
    XXH3_state_t *h = XXH3_createState();
    if (!h) {
        zt_fail(g->ctx, ZT_ENOMEM, "%s: out of memory", zt_gguf_name(g));
        return false;
    }
    XXH3_128bits_reset(h);
    XXH3_128bits_update(h, g->head, g->have);
    bool good = hash_padding(g, h);
    XXH3_128bits_update(h, &g->file_size, 8);
    XXH128_hash_t id = XXH3_128bits_digest(h);
    XXH3_freeState(h);
    snprintf(g->id, sizeof g->id, "%016" PRIx64 "%016" PRIx64, (uint64_t)id.high64,
             (uint64_t)id.low64);
    return good;
}

static bool add_name(zt_gguf *g, zt_map *m, const char *noun, const char *name, size_t n, int64_t i)
{
    char text[160];
    int64_t other;
    if (!zt_map_get(m, name, n, &other))
        return zt_map_put(m, name, n, i) == ZT_OK;
    return zt_faults_tell(g->ctx, "%s: %s '%s' is there twice", zt_gguf_name(g), noun,
                    zt_escape(text, sizeof text, name, n)) == ZT_OK;
}

static bool map_keys(zt_gguf *g)
{
    g->keys = zt_map_new(g->ctx, (size_t)g->n_keys);
    if (!g->keys)
        return false;
    for (int64_t i = 0; i < g->n_keys; i++) {
        zt_bytes key = zt_gguf_key(g, i, NULL);
        if (!add_name(g, g->keys, "key", key.data, key.n, i))
            return false;
    }
    return true;
}

/* Also closes every name by a zero byte, over the first byte of its rank, which is kept apart. */
static bool map_tensors(zt_gguf *g)
{
    g->tensors = zt_map_new(g->ctx, (size_t)g->n_tensors);
    if (!g->tensors)
        return false;
    for (int64_t i = 0; i < g->n_tensors; i++) {
        const gguf_tensor *t = &g->tensor[i];
        char *name = g->head + t->name;
        if (!add_name(g, g->tensors, "tensor", name, t->name_len, i))
            return false;
        name[t->name_len] = 0;
    }
    return true;
}

static bool read_header(zt_gguf *g)
{
    return zt_gguf_parse(g) && trim(g) && identify(g) && map_keys(g) && map_tensors(g);
}

/* Takes over the source, also when it fails, if `owns`. */
static zt_gguf *open_over(zt_ctx *ctx, zt_source *s, bool owns)
{
    zt_gguf *g = zt_calloc(ctx, 1, sizeof *g);
    if (!g) {
        if (owns)
            zt_source_close(s);
        return NULL;
    }
    g->ctx = ctx;
    g->source = s;
    g->owns_source = owns;
    g->file_size = zt_source_size(s);
    if (!read_header(g)) {
        zt_gguf_close(g);
        return NULL;
    }
    return g;
}

zt_gguf *zt_gguf_open(zt_ctx *ctx, const char *path)
{
    zt_source *s = zt_source_open(ctx, path);
    return s ? open_over(ctx, s, true) : NULL;
}

zt_gguf *zt_gguf_from(zt_ctx *ctx, zt_source *s)
{
    return open_over(ctx, s, false);
}

zt_gguf *zt_gguf_take(zt_ctx *ctx, zt_source *s)
{
    return open_over(ctx, s, true);
}

zt_gguf *zt_gguf_over(zt_ctx *ctx, const char *name, char *header, size_t n, uint64_t data_bytes,
                      const zt_store *data, void (*release)(void *user))
{
    zt_gguf *g = zt_calloc(ctx, 1, sizeof *g);
    if (!g) {
        zt_free(ctx, header);
        if (release)
            release(data->user);
        return NULL;
    }
    *g = (zt_gguf){.ctx = ctx, .owns_source = true, .over = *data, .release = release};
    g->head = header;
    g->have = n;
    g->file_size = n + data_bytes;
    g->source = zt_source_memory(ctx, name, NULL, 0); /* for its name */
    if (g->source && read_header(g))
        return g;
    zt_gguf_close(g);
    return NULL;
}

void zt_gguf_close(zt_gguf *g)
{
    if (!g)
        return;
    zt_map_free(g->tensors);
    zt_map_free(g->keys);
    zt_free(g->ctx, g->tensor);
    zt_free(g->ctx, g->key);
    zt_free(g->ctx, g->head);
    if (g->owns_source)
        zt_source_close(g->source);
    if (g->release)
        g->release(g->over.user);
    zt_free(g->ctx, g);
}

zt_ctx *zt_gguf_ctx(const zt_gguf *g)
{
    return g->ctx;
}

const char *zt_gguf_name(const zt_gguf *g)
{
    return zt_source_name(g->source);
}

const char *zt_gguf_id(const zt_gguf *g)
{
    return g->id;
}

uint64_t zt_gguf_file_size(const zt_gguf *g)
{
    return g->file_size;
}

/* ---- tensors ------------------------------------------------------------------------------- */

int64_t zt_gguf_n_tensors(const zt_gguf *g)
{
    return g->n_tensors;
}

const char *zt_gguf_tensor(const zt_gguf *g, int64_t i, zt_type *type, uint64_t *offset,
                           size_t *bytes)
{
    const gguf_tensor *t = &g->tensor[i];
    const gguf_type *number = zt_gguf_type(t->type);
    if (type) {
        *type = (zt_type){.dtype = number->dtype, .rank = t->rank};
        for (int d = 0; d < t->rank; d++)
            type->dim[d] = (int64_t)zt_gguf_u64(g->head + t->dims + 8 * (size_t)(t->rank - 1 - d));
        if (number->dtype == ZT_DTYPE_COUNT)
            type->rank = -1;
    }
    if (offset)
        *offset = g->data + t->offset;
    if (bytes)
        *bytes = (size_t)t->bytes;
    return g->head + t->name;
}

const char *zt_gguf_tensor_word(const zt_gguf *g, int64_t i, int *rank)
{
    if (rank)
        *rank = g->tensor[i].rank;
    return zt_gguf_type(g->tensor[i].type)->name;
}

/* Bytes of a number that must be turned around when it is read; 1: nothing is. */
static size_t turned(const zt_gguf *g, const gguf_tensor *t)
{
    const gguf_type *type = zt_gguf_type(t->type);
    return g->big && type->block == 1 ? type->block_bytes : 1;
}

bool zt_gguf_place(const zt_gguf *g, int64_t i, const zt_source **source, uint64_t *offset)
{
    const gguf_tensor *t = &g->tensor[i];
    if (g->over.read || turned(g, t) != 1)
        return false;
    *source = g->source;
    *offset = g->data + t->offset;
    return true;
}

int64_t zt_gguf_find(const zt_gguf *g, const char *name)
{
    return zt_map_find(g->tensors, name);
}

zt_status zt_gguf_end(zt_gguf *g)
{
    enum { MOST = 1 << 20 }; /* a stream without end is no trap */
    char waste[4096];
    const gguf_tensor *last = g->n_tensors ? &g->tensor[g->n_tensors - 1] : NULL;
    uint64_t at = last ? g->data + last->offset + last->bytes : g->data;
    zt_status s = ZT_OK;
    for (size_t got = 1, all = 0; zt_source_streams(g->source) && s == ZT_OK && got && all < MOST;
         all += got, at += got)
        s = zt_source_read_some(g->source, at, waste, sizeof waste, 1, &got);
    return s;
}

static zt_status store_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    const zt_gguf *g = user;
    int64_t i = zt_gguf_find(g, name);
    char text[160];
    if (i < 0)
        return ZT_ENOENT;
    const gguf_type *number = zt_gguf_type(g->tensor[i].type);
    if (number->dtype == ZT_DTYPE_COUNT)
        return zt_fail(g->ctx, ZT_ENOTSUP, "%s: tensor '%s' is of type %s, which is not supported",
                       zt_gguf_name(g), zt_escape(text, sizeof text, name, strlen(name)),
                       number->name);
    zt_gguf_tensor(g, i, type, NULL, NULL);
    *handle = i;
    return ZT_OK;
}

/* n bytes at `at` of a file whose numbers have `size` bytes the other way around; where a piece
 * begins or ends inside of a number, that one is read whole. */
static zt_status read_turned(const zt_gguf *g, uint64_t data, size_t at, char *dst, size_t n,
                             size_t size)
{
    char one[8];
    zt_status s = ZT_OK;
    while (n && s == ZT_OK) {
        size_t within = at % size, k = n - n % size;
        if (within == 0 && k) {
            s = zt_source_read(g->source, data + at, dst, k);
            zt_swap_bytes(dst, k / size, (int)size);
        } else {
            k = size - within < n ? size - within : n;
            s = zt_source_read(g->source, data + at - within, one, size);
            zt_swap_bytes(one, 1, (int)size);
            memcpy(dst, one + within, k);
        }
        at += k;
        dst += k;
        n -= k;
    }
    return s;
}

static zt_status store_read(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    const zt_gguf *g = user;
    size_t end;
    if (handle < 0 || handle >= g->n_tensors)
        return zt_fail(g->ctx, ZT_EUSAGE, "%s: no tensor number %lld", zt_gguf_name(g),
                       (long long)handle);
    const gguf_tensor *t = &g->tensor[handle];
    if (!zt_add_size(offset, n, &end) || end > t->bytes)
        return zt_fail(g->ctx, ZT_EUSAGE, "%s: tensor '%s': %zu bytes at %zu of %llu asked for",
                       zt_gguf_name(g), g->head + t->name, n, offset, (unsigned long long)t->bytes);
    if (g->over.read)
        return g->over.read(g->over.user, handle, offset, dst, n);
    if (turned(g, t) != 1)
        return read_turned(g, g->data + t->offset, offset, dst, n, turned(g, t));
    return zt_source_read(g->source, g->data + t->offset + offset, dst, n);
}

zt_store zt_gguf_store(zt_gguf *g)
{
    return (zt_store){.user = g, .find = store_find, .read = store_read};
}
