/* safetensors_index.c - owns models in several files: by an index that says which tensor is where,
 * or by their names. */
#include "lib/io/json.h"
#include "lib/io/safetensors_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MAX_INDEX = 64 << 20, /* bytes */
    MAX_SHARDS = 1000
};

typedef struct indexer {
    zt_safetensors *s;
    size_t folder;  /* bytes of the index's name that are its folder, with the last '/' */
    zt_map *shards; /* name -> shard */
    zt_map *wanted; /* tensor -> shard */
    bool has_map;
} indexer;

/* A file of this very folder: nothing that leads elsewhere. */
static bool is_plain_name(const char *name)
{
    return *name && *name != '-' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           !strpbrk(name, "/\\");
}

/* Opens and reads the file of that name in a folder: a file, not a pipe that would never end. */
static zt_status open_shard(zt_safetensors *s, const char *folder, size_t n, const char *name)
{
    zt_str path;
    struct stat is;
    zt_source *in = NULL;
    zt_status st;
    const bool first = s->n_shards == 0;
    const int64_t meta = s->n_meta;
    zt_str_init(&path, s->ctx);
    if (zt_str_put(&path, folder, n) == ZT_OK && zt_str_puts(&path, name) == ZT_OK) {
        if (stat(path.data, &is) == 0 && !S_ISREG(is.st_mode))
            zt_fail(s->ctx, ZT_EDATA, "%s: is no regular file", path.data);
        else
            in = zt_source_open(s->ctx, path.data);
    }
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
    char text[160];
    if (zt_map_get(x->shards, name, strlen(name), shard))
        return ZT_OK;
    if (!is_plain_name(name))
        return zt_fail(s->ctx, ZT_EDATA, "%s: shard '%s' is no name of a file beside it", s->name,
                       zt_escape(text, sizeof text, name, strlen(name)));
    if (s->n_shards == MAX_SHARDS)
        return zt_fail(s->ctx, ZT_EDATA, "%s: more than %d shards", s->name, MAX_SHARDS);
    zt_status st = open_shard(s, s->name, x->folder, name);
    char *key = st == ZT_OK ? zt_arena_strndup(s->texts, name, strlen(name)) : NULL;
    if (!key)
        return st == ZT_OK ? ZT_ENOMEM : st;
    *shard = s->n_shards - 1;
    return zt_map_put(x->shards, key, strlen(key), *shard);
}

static zt_status read_mapping(void *user, const char *tensor, const char *text, size_t n)
{
    indexer *x = user;
    zt_ctx *ctx = x->s->ctx;
    int64_t shard;
    zt_str name;
    zt_str_init(&name, ctx);
    zt_status st = zt_json_string(ctx, x->s->name, text, n, &name);
    if (st == ZT_OK)
        st = find_shard(x, name.data, &shard);
    zt_str_fini(&name);
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

static zt_status read_member(void *user, const char *key, const char *text, size_t n)
{
    indexer *x = user;
    zt_ctx *ctx = x->s->ctx;
    if (strcmp(key, "weight_map") != 0) {
        json_t *j = zt_json_load(ctx, x->s->name, text, n);
        json_decref(j);
        return j ? ZT_OK : zt_ctx_status(ctx);
    }
    if (x->has_map)
        return zt_fail(ctx, ZT_EDATA, "%s: 'weight_map' is there twice", x->s->name);
    x->has_map = true;
    return zt_json_members(ctx, x->s->name, text, n, read_mapping, x);
}

/* Keeps of all tensors those that the map names, in the shard that it names; all must be there. */
static zt_status select_tensors(indexer *x)
{
    zt_safetensors *s = x->s;
    int64_t kept = 0, shard;
    for (int64_t i = 0; i < s->n_tensors; i++) {
        const char *name = s->tensor[i].e.name;
        if (zt_map_get(x->wanted, name, strlen(name), &shard) && shard == s->tensor[i].shard)
            s->tensor[kept++] = s->tensor[i];
    }
    s->n_tensors = kept;
    zt_status st = zt_st_map_names(s);
    if (st == ZT_OK && (size_t)kept != zt_map_count(x->wanted))
        st = zt_fail(s->ctx, ZT_EDATA,
                     "%s: %zu tensors are named, %lld are in the shards named with them", s->name,
                     zt_map_count(x->wanted), (long long)kept);
    return st;
}

static zt_status read_index(indexer *x)
{
    zt_safetensors *s = x->s;
    zt_source *in = zt_source_open(s->ctx, s->name);
    uint64_t n = in ? zt_source_size(in) : 0;
    zt_status st = in ? ZT_OK : zt_ctx_status(s->ctx);
    if (n > MAX_INDEX)
        st = zt_fail(s->ctx, ZT_EDATA, "%s: an index of %llu bytes, %d are allowed", s->name,
                     (unsigned long long)n, MAX_INDEX);
    char *text = st == ZT_OK ? zt_alloc(s->ctx, (size_t)n) : NULL;
    if (text) {
        st = zt_source_read(in, 0, text, (size_t)n);
        if (st == ZT_OK)
            st = zt_json_members(s->ctx, s->name, text, (size_t)n, read_member, x);
    }
    zt_free(s->ctx, text);
    zt_source_close(in);
    if (st == ZT_OK && !text)
        st = ZT_ENOMEM;
    if (st == ZT_OK && !x->has_map)
        st = zt_fail(s->ctx, ZT_EDATA, "%s: there is no 'weight_map'", s->name);
    return st == ZT_OK ? select_tensors(x) : st;
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
    bool done = x.shards && x.wanted && read_index(&x) == ZT_OK;
    zt_map_free(x.shards);
    zt_map_free(x.wanted);
    if (done)
        return s;
    zt_safetensors_close(s);
    return NULL;
}

/* ---- parts without an index ------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_part(const char *name, const char *prefix)
{
    static const char end[] = ".safetensors";
    size_t n = strlen(name), k = sizeof end - 1;
    return n > k && strcmp(name + n - k, end) == 0 && strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Names of the parts into list; how many. */
static zt_status list_parts(zt_safetensors *s, const char *prefix, char **list, size_t *n)
{
    DIR *d = opendir(*s->name ? s->name : ".");
    zt_status st = ZT_OK;
    if (!d)
        return zt_fail(s->ctx, ZT_ENOENT, "%s: %s", s->name, strerror(errno));
    for (struct dirent *e; st == ZT_OK && (e = readdir(d));) {
        if (!is_part(e->d_name, prefix))
            continue;
        if (*n == MAX_SHARDS)
            st = zt_fail(s->ctx, ZT_EDATA, "%s: more than %d shards", s->name, MAX_SHARDS);
        else if (!(list[(*n)++] = zt_arena_strndup(s->texts, e->d_name, strlen(e->d_name))))
            st = ZT_ENOMEM;
    }
    closedir(d);
    return st;
}

zt_safetensors *zt_safetensors_open_parts(zt_ctx *ctx, const char *folder, const char *prefix)
{
    zt_safetensors *s = zt_st_new(ctx, folder);
    char *list[MAX_SHARDS];
    size_t n = 0;
    if (!s)
        return NULL;
    s->owns_sources = true;
    zt_status st = list_parts(s, prefix, list, &n);
    if (st == ZT_OK)
        qsort(list, n, sizeof *list, by_name);
    for (size_t i = 0; st == ZT_OK && i < n; i++)
        st = open_shard(s, folder, strlen(folder), list[i]);
    if (st == ZT_OK && zt_st_map_names(s) == ZT_OK)
        return s;
    zt_safetensors_close(s);
    return NULL;
}
