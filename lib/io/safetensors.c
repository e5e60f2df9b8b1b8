/* safetensors.c - owns open safetensors files: opening and closing, tensors by name, the store. */
#include "lib/io/fault.h"
#include "lib/io/safetensors_file.h"

#include <string.h>

/* ---- open and close -------------------------------------------------------------------------- */

zt_safetensors *zt_st_new(zt_ctx *ctx, const char *name)
{
    zt_safetensors *s = zt_calloc(ctx, 1, sizeof *s);
    if (!s)
        return NULL;
    s->ctx = ctx;
    s->name = zt_strdup(ctx, name);
    s->texts = zt_arena_new(ctx, 4096);
    if (s->name && s->texts)
        return s;
    zt_safetensors_close(s);
    return NULL;
}

void zt_safetensors_close(zt_safetensors *s)
{
    if (!s)
        return;
    for (int i = 0; s->owns_sources && i < s->n_shards; i++)
        zt_source_close(s->shard[i]);
    zt_map_free(s->names);
    zt_free(s->ctx, s->shard);
    zt_free(s->ctx, s->tensor);
    zt_free(s->ctx, s->meta);
    zt_arena_free(s->texts);
    zt_free(s->ctx, s->name);
    zt_free(s->ctx, s);
}

void *zt_st_room(zt_ctx *ctx, void *list, int64_t n, size_t entry_bytes)
{
    if (n & (n - 1)) /* not a power of two: inside what there is */
        return list;
    return zt_realloc(ctx, list, (size_t)(n ? 2 * n : 1) * entry_bytes);
}

zt_status zt_st_add_shard(zt_safetensors *s, zt_source *source)
{
    zt_source **list = zt_st_room(s->ctx, s->shard, s->n_shards, sizeof *list);
    if (!list)
        return ZT_ENOMEM;
    s->shard = list;
    s->shard[s->n_shards++] = source;
    return ZT_OK;
}

zt_status zt_st_map_names(zt_safetensors *s)
{
    char text[160];
    s->names = zt_map_new(s->ctx, (size_t)s->n_tensors);
    zt_status st = s->names ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; st == ZT_OK && i < s->n_tensors; i++) {
        const char *name = s->tensor[i].e.name;
        size_t n = strlen(name);
        size_t had = zt_map_count(s->names);
        st = zt_map_put(s->names, name, n, i);
        if (st == ZT_OK && zt_map_count(s->names) == had)
            st = zt_faults_tell(s->ctx, "%s: tensor '%s' is there twice", s->name,
                                zt_escape(text, sizeof text, name, n));
    }
    return st;
}

/* Takes over the source, also when it fails, if `owns`. */
static zt_safetensors *open_over(zt_ctx *ctx, zt_source *source, bool owns)
{
    zt_safetensors *s = zt_st_new(ctx, zt_source_name(source));
    if (s && zt_st_add_shard(s, source) == ZT_OK) {
        s->owns_sources = owns;
        if (zt_st_parse(s) == ZT_OK && zt_st_map_names(s) == ZT_OK)
            return s;
    } else if (owns) {
        zt_source_close(source);
    }
    zt_safetensors_close(s);
    return NULL;
}

zt_safetensors *zt_safetensors_open(zt_ctx *ctx, const char *path)
{
    zt_source *source = zt_source_open(ctx, path);
    return source ? open_over(ctx, source, true) : NULL;
}

zt_safetensors *zt_safetensors_from(zt_ctx *ctx, zt_source *source)
{
    return open_over(ctx, source, false);
}

zt_safetensors *zt_safetensors_take(zt_ctx *ctx, zt_source *source)
{
    return open_over(ctx, source, true);
}

const char *zt_safetensors_name(const zt_safetensors *s)
{
    return s->name;
}

/* ---- tensors and metadata -------------------------------------------------------------------- */

int64_t zt_safetensors_count(const zt_safetensors *s)
{
    return s->n_tensors;
}

const zt_safetensors_entry *zt_safetensors_get(const zt_safetensors *s, int64_t i)
{
    return &s->tensor[i].e;
}

int64_t zt_safetensors_find(const zt_safetensors *s, const char *name)
{
    return zt_map_find(s->names, name);
}

zt_status zt_safetensors_read(const zt_safetensors *s, int64_t i, size_t offset, void *dst,
                              size_t n)
{
    char text[160];
    size_t end;
    if (i < 0 || i >= s->n_tensors)
        return zt_fail(s->ctx, ZT_EUSAGE, "%s: no tensor number %lld", s->name, (long long)i);
    const st_tensor *t = &s->tensor[i];
    if (!zt_add_size(offset, n, &end) || end > t->e.bytes)
        return zt_fail(s->ctx, ZT_EUSAGE, "%s: tensor '%s': %zu bytes at %zu of %zu asked for",
                       s->name, zt_escape(text, sizeof text, t->e.name, strlen(t->e.name)), n,
                       offset, t->e.bytes);
    return zt_source_read(s->shard[t->shard], t->offset + offset, dst, n);
}

void zt_safetensors_place(const zt_safetensors *s, int64_t i, const zt_source **source,
                          uint64_t *offset)
{
    *source = s->shard[s->tensor[i].shard];
    *offset = s->tensor[i].offset;
}

zt_status zt_safetensors_end(const zt_safetensors *s)
{
    char byte;
    size_t got = 0;
    if (s->n_shards != 1 || !zt_source_streams(s->shard[0]))
        return ZT_OK;
    const st_tensor *last = s->n_tensors ? &s->tensor[s->n_tensors - 1] : NULL;
    uint64_t at = last ? last->offset + last->e.bytes : s->data;
    zt_status st = zt_source_read_some(s->shard[0], at, &byte, 1, 1, &got);
    if (st == ZT_OK && got)
        st = zt_fail(s->ctx, ZT_EDATA, "%s: more bytes than belong to tensors", s->name);
    return st;
}

const char *zt_safetensors_meta(const zt_safetensors *s, int64_t i, const char **value, size_t *n)
{
    if (i < 0 || i >= s->n_meta)
        return NULL;
    if (value)
        *value = s->meta[i].value;
    if (n)
        *n = s->meta[i].n;
    return s->meta[i].key;
}

/* ---- the store ------------------------------------------------------------------------------- */

static zt_status store_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    const zt_safetensors *s = user;
    int64_t i = zt_safetensors_find(s, name);
    char text[160];
    if (i < 0)
        return ZT_ENOENT;
    const zt_safetensors_entry *e = &s->tensor[i].e;
    if (e->type.rank < 0)
        return zt_fail(s->ctx, ZT_ENOTSUP,
                       "%s: tensor '%s' is of type %s%s, which is not supported", s->name,
                       zt_escape(text, sizeof text, name, strlen(name)), e->dtype,
                       e->type.dtype < ZT_DTYPE_COUNT ? " with too many dimensions" : "");
    *type = e->type;
    *handle = i;
    return ZT_OK;
}

static zt_status store_read(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    return zt_safetensors_read(user, handle, offset, dst, n);
}

zt_store zt_safetensors_store(zt_safetensors *s)
{
    return (zt_store){.user = s, .find = store_find, .read = store_read};
}
