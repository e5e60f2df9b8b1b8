/* safetensors_index.c - owns models in several files by an index that says which tensor is where. */
#include "lib/io/index.h"
#include "lib/io/safetensors_file.h"
#include "lib/io/shards.h"

#include <string.h>

typedef struct indexer {
    zt_safetensors *s;
    size_t folder;  /* bytes of the index's name that are its folder, with the last '/' */
    zt_map *shards; /* name -> shard */
    zt_map *wanted; /* tensor -> shard */
} indexer;

/* Opens and reads the file of that name in a folder. */
static zt_status open_shard(zt_safetensors *s, const char *folder, size_t n, const char *name)
{
    zt_str path;
    zt_source *in = NULL;
    zt_status st;
    const bool first = s->n_shards == 0;
    const int64_t meta = s->n_meta;
    zt_str_init(&path, s->ctx);
    if (zt_str_put(&path, folder, n) == ZT_OK && zt_str_puts(&path, name) == ZT_OK)
        in = zt_shard_open(s->ctx, path.data);
    zt_str_fini(&path);
    st = in ? zt_st_add_shard(s, in) : zt_ctx_status(s->ctx);
    if (in && st != ZT_OK)
        zt_source_close(in);
    if (st == ZT_OK)
        st = zt_st_parse(s);
    if (!first)
        s->n_meta = meta;
    return st;
}

/* The number of the shard of this name, which is opened when it is met first. */
static zt_status find_shard(indexer *x, const char *name, int64_t *shard)
{
    zt_safetensors *s = x->s;
    if (zt_map_get(x->shards, name, strlen(name), shard))
        return ZT_OK;
    if (s->n_shards == ZT_MAX_SHARDS)
        return zt_fail(s->ctx, ZT_EDATA, "%s: more than %d shards", s->name, ZT_MAX_SHARDS);
    zt_status st = open_shard(s, s->name, x->folder, name);
    char *key = st == ZT_OK ? zt_arena_strndup(s->texts, name, strlen(name)) : NULL;
    if (!key)
        return st == ZT_OK ? ZT_ENOMEM : st;
    *shard = s->n_shards - 1;
    return zt_map_put(x->shards, key, strlen(key), *shard);
}

static zt_status read_mapping(void *user, const char *tensor, const char *file)
{
    indexer *x = user;
    zt_ctx *ctx = x->s->ctx;
    int64_t shard;
    zt_status st = find_shard(x, file, &shard);
    if (st != ZT_OK)
        return st;
    char buf[160], *key = zt_arena_strndup(x->s->texts, tensor, strlen(tensor));
    if (!key)
        return ZT_ENOMEM;
    if (zt_map_get(x->wanted, key, strlen(key), NULL))
        return zt_fail(ctx, ZT_EDATA, "%s: tensor '%s' is there twice", x->s->name,
                       zt_escape(buf, sizeof buf, key, strlen(key)));
    return zt_map_put(x->wanted, key, strlen(key), shard);
}

/* A tensor that is in two files, or in none that the index names with it, is ZT_EDATA: who reads on
 * would have to choose. */
static zt_status check_tensor(const indexer *x, zt_map *seen, const st_tensor *t)
{
    const zt_safetensors *s = x->s;
    const char *name = t->e.name, *file = zt_source_name(s->shard[t->shard]);
    char text[160];
    int64_t shard;
    if (zt_map_get(seen, name, strlen(name), &shard) && shard != t->shard)
        return zt_shard_twice(s->ctx, zt_source_name(s->shard[shard]), file, name);
    if (!zt_map_get(x->wanted, name, strlen(name), &shard) || shard != t->shard)
        return zt_fail(s->ctx, ZT_EDATA, "%s: tensor '%s' is in %s, where the index does not have it",
                       s->name, zt_escape(text, sizeof text, name, strlen(name)), file);
    return zt_map_put(seen, name, strlen(name), t->shard);
}

static zt_status check_tensors(indexer *x)
{
    zt_safetensors *s = x->s;
    zt_map *seen = zt_map_new(s->ctx, (size_t)s->n_tensors);
    zt_status st = seen ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; st == ZT_OK && i < s->n_tensors; i++)
        st = check_tensor(x, seen, &s->tensor[i]);
    if (st == ZT_OK)
        st = zt_st_map_names(s);
    if (st == ZT_OK && (size_t)s->n_tensors != zt_map_count(x->wanted))
        st = zt_index_missing(s->ctx, s->name, seen);
    zt_map_free(seen);
    return st;
}

zt_safetensors *zt_safetensors_open_index(zt_ctx *ctx, const char *path)
{
    zt_safetensors *s = zt_st_new(ctx, path);
    if (!s)
        return NULL;
    const char *slash = strrchr(path, '/');
    s->owns_sources = true;
    indexer x = {.s = s,
                 .folder = slash ? (size_t)(slash - path) + 1 : 0,
                 .shards = zt_map_new(ctx, 16),
                 .wanted = zt_map_new(ctx, 256)};
    bool done = x.shards && x.wanted && zt_index_read(ctx, path, read_mapping, &x) == ZT_OK &&
                check_tensors(&x) == ZT_OK;
    zt_map_free(x.shards);
    zt_map_free(x.wanted);
    if (done)
        return s;
    zt_safetensors_close(s);
    return NULL;
}
