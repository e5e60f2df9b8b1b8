/* gguf_shards.c - owns GGUF models in several files, NAME-00001-of-0000N.gguf: one header over all
 * of them, whichever is named. Keys as llama.cpp's gguf-split writes them, as facts: split.no from 0 on, split.count,
 * split.tensors.count; all other keys are in the first file. */
#include "lib/io/gguf_file.h"
#include "lib/io/gguf_write.h"
#include "lib/io/shards.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct shards {
    zt_ctx *ctx;
    zt_gguf **part;
    int64_t n, n_tensors;
    struct where {
        int32_t part;
        int64_t i;
    } * of; /* [n_tensors] tensor of the whole -> file, and tensor there */
} shards;

static void release(void *user)
{
    shards *s = user;
    for (int64_t i = 0; s->part && i < s->n; i++) zt_gguf_close(s->part[i]);
    zt_ctx *ctx = s->ctx;
    zt_free(ctx, s->part);
    zt_free(ctx, s->of);
    zt_free(ctx, s);
}

static zt_status read_data(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    const shards *s = user;
    zt_store store = zt_gguf_store(s->part[s->of[handle].part]);
    return store.read(store.user, s->of[handle].i, offset, dst, n);
}

bool zt_gguf_is_own_key(const zt_gguf *g, zt_bytes key)
{
    static const char *const keys[] = {"split.no", "split.count", "split.tensors.count",
                                       "general.alignment"};
    const size_t n = sizeof keys / sizeof *keys, last = n - 1;
    size_t i = 0;
    while (i < n && (key.n != strlen(keys[i]) || memcmp(key.data, keys[i], key.n) != 0)) i++;
    return i < last || (i == last && g->align > ZT_GGUF_MOST_ALIGN);
}

/* A count, where there is the key. false: it is something else. */
static bool get_count(const zt_gguf *g, const char *key, int64_t *out)
{
    return zt_map_find(g->keys, key) < 0 || (zt_gguf_i64(g, key, out) && *out >= 0);
}

/* What a file says of itself: no. `no` (from 0 on) of `count`. Without the keys it is no. 0 of 1, and
 * so it is with a count of 0, which llama.cpp's gguf-split leaves in what it has merged. */
static zt_status split_of(const zt_gguf *g, int64_t *no, int64_t *count)
{
    *no = 0;
    *count = 1;
    if (!get_count(g, "split.no", no) || !get_count(g, "split.count", count))
        return zt_fail(g->ctx, ZT_EDATA, "%s: split.no and split.count are not both counts",
                       zt_gguf_name(g));
    *count += *count == 0;
    if (*no >= *count || *count > ZT_MAX_SHARDS)
        return zt_fail(g->ctx, ZT_EDATA,
                       "%s: split.no is %lld and split.count %lld: a model has 1 to %d files, "
                       "numbered from 0",
                       zt_gguf_name(g), (long long)*no, (long long)*count, ZT_MAX_SHARDS);
    return ZT_OK;
}

/* Is the file's name what its keys say? */
static zt_status check_name(const zt_gguf *g, const char *path, zt_shard_name *name)
{
    int64_t no, count;
    zt_status st = split_of(g, &no, &count);
    if (st != ZT_OK) return st;
    if (!zt_shard_parse(path, name))
        return zt_fail(g->ctx, ZT_EDATA,
                       "%s: part %lld of %lld of a model: its name must end in "
                       "-%05lld-of-%05lld.gguf, and the other parts be beside it",
                       zt_gguf_name(g), (long long)no + 1, (long long)count, (long long)no + 1,
                       (long long)count);
    if (name->no != no + 1 || name->count != count)
        return zt_fail(g->ctx, ZT_EDATA,
                       "%s: part %lld of %lld by its name, and %lld of %lld by split.no and "
                       "split.count",
                       zt_gguf_name(g), (long long)name->no, (long long)name->count,
                       (long long)no + 1, (long long)count);
    return ZT_OK;
}

/* A file that is all of a model by its keys: where its name says that it is one of several, and
 * another of them is beside it, one of the two is wrong. */
static zt_status check_alone(const zt_gguf *g, const char *path)
{
    struct stat is;
    zt_shard_name name;
    if (!zt_shard_parse(path, &name) || name.count == 1) return ZT_OK;
    char *other = zt_shard_path(g->ctx, path, &name, name.no == 1 ? 2 : 1);
    if (!other) return ZT_ENOMEM;
    zt_status st = ZT_OK;
    if (stat(other, &is) == 0)
        st = zt_fail(g->ctx, ZT_EDATA,
                     "%s: part %lld of %lld by its name, with %s beside it, and all of a model by "
                     "split.no and split.count",
                     zt_gguf_name(g), (long long)name.no, (long long)name.count, other);
    zt_free(g->ctx, other);
    return st;
}

/* The other files, beside the one named, which is among s->part already. */
static zt_status open_parts(shards *s, const char *path, const zt_shard_name *name)
{
    for (int64_t i = 0; i < s->n; i++) {
        zt_shard_name own;
        if (s->part[i]) continue;
        zt_source *in = zt_shard_open_beside(s->ctx, path, name, i + 1);
        zt_gguf *g = s->part[i] = in ? zt_gguf_take(s->ctx, in) : NULL;
        zt_status st = g ? check_name(g, zt_gguf_name(g), &own) : zt_ctx_status(s->ctx);
        if (st != ZT_OK) return st;
    }
    return ZT_OK;
}

static zt_status put_keys(zt_gguf_writer *w, const zt_gguf *g)
{
    zt_str name;
    zt_status st = ZT_OK;
    zt_str_init(&name, zt_gguf_ctx(g));
    for (int64_t i = 0; st == ZT_OK && i < zt_gguf_n_keys(g); i++) {
        zt_gguf_kind kind;
        zt_bytes value, key = zt_gguf_key_value(g, i, &kind, &value);
        zt_str_clear(&name);
        if (zt_gguf_is_own_key(g, key)) continue;
        st = zt_str_put(&name, key.data, key.n);
        if (st == ZT_OK)
            st = zt_gguf_put_raw(w, name.data, kind, value.data, value.n);
    }
    zt_str_fini(&name);
    return st;
}

/* Tensor i of file k, which no file before it may have. */
static zt_status put_tensor(zt_gguf_writer *w, shards *s, zt_map *names, int32_t k, int64_t i)
{
    zt_type t;
    int rank;
    int64_t other;
    const char *word = zt_gguf_tensor_word(s->part[k], i, &rank);
    const char *name = zt_gguf_tensor(s->part[k], i, &t, NULL, NULL);
    if (zt_map_get(names, name, strlen(name), &other) && other != k)
        return zt_shard_twice(s->ctx, zt_gguf_name(s->part[other]), zt_gguf_name(s->part[k]), name);
    zt_status st = zt_map_put(names, name, strlen(name), k);
    return st == ZT_OK ? zt_gguf_put_tensor_word(w, name, word, rank, t.dim) : st;
}

static zt_status put_tensors(zt_gguf_writer *w, shards *s)
{
    zt_map *names = zt_map_new(s->ctx, (size_t)s->n_tensors);
    zt_status st = names ? ZT_OK : ZT_ENOMEM;
    int64_t used = 0;
    for (int32_t k = 0; st == ZT_OK && k < s->n; k++)
        for (int64_t i = 0; st == ZT_OK && i < zt_gguf_n_tensors(s->part[k]); i++) {
            s->of[used++] = (struct where){.part = k, .i = i};
            st = put_tensor(w, s, names, k, i);
        }
    zt_map_free(names);
    return st == ZT_EUSAGE ? ZT_EDATA : st;
}

static zt_status count_tensors(shards *s)
{
    for (int64_t k = 0; k < s->n; k++) s->n_tensors += zt_gguf_n_tensors(s->part[k]);
    s->of = zt_alloc_array(s->ctx, (size_t)s->n_tensors, sizeof *s->of);
    return s->of ? ZT_OK : ZT_ENOMEM;
}

/* Asked last: a tensor that is there twice is told by its name. */
static zt_status check_count(const shards *s)
{
    int64_t told = -1;
    if (zt_gguf_i64(s->part[0], "split.tensors.count", &told) && told != s->n_tensors)
        return zt_fail(
            s->ctx, ZT_EDATA, "%s: %lld tensors are said to be in %lld files, there are %lld",
            zt_gguf_name(s->part[0]), (long long)told, (long long)s->n, (long long)s->n_tensors);
    return ZT_OK;
}

static zt_gguf *join(shards *s, const char *path, const zt_shard_name *name)
{
    size_t n;
    uint64_t data;
    char *header = NULL;
    zt_gguf_writer *w = zt_gguf_writer_new(s->ctx);
    if (w && open_parts(s, path, name) == ZT_OK && count_tensors(s) == ZT_OK &&
        put_keys(w, s->part[0]) == ZT_OK && put_tensors(w, s) == ZT_OK && check_count(s) == ZT_OK)
        header = zt_gguf_writer_finish(w, &n, &data);
    zt_gguf_writer_free(w);
    if (header)
        return zt_gguf_over(s->ctx, path, header, n, data,
                            &(zt_store){.user = s, .read = read_data}, release);
    release(s);
    return NULL;
}

zt_gguf *zt_gguf_with_shards(zt_gguf *g, const char *path)
{
    int64_t no, count;
    zt_shard_name name;
    zt_ctx *ctx = g->ctx;
    zt_status st = split_of(g, &no, &count);
    if (st == ZT_OK && count == 1) st = check_alone(g, path);
    if (st == ZT_OK && count == 1) return g;
    if (st == ZT_OK) st = check_name(g, path, &name);
    shards *s = st == ZT_OK ? zt_calloc(ctx, 1, sizeof *s) : NULL;
    zt_gguf **part = s ? zt_calloc(ctx, (size_t)count, sizeof(zt_gguf *)) : NULL;
    if (part) {
        *s = (shards){.ctx = ctx, .part = part, .n = count};
        part[no] = g;
        return join(s, path, &name);
    }
    zt_free(ctx, s);
    zt_gguf_close(g);
    return NULL;
}
