/* gguf_shards.c - owns GGUF models in several files, NAME-00001-of-0000N.gguf: one header over all
 * of them. Keys as llama.cpp's gguf-split writes them, as facts: split.no from 0 on, split.count,
 * split.tensors.count; all other keys are in the first file. */
#include "lib/io/gguf_file.h"
#include "lib/io/gguf_write.h"

#include <stdio.h>
#include <string.h>

enum { MAX_SHARDS = 1000 };

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

static bool is_split_key(zt_bytes key) { return key.n > 6 && memcmp(key.data, "split.", 6) == 0; }

/* The other files, beside the first one. */
static zt_status open_parts(shards *s, const char *path)
{
    size_t n = strlen(path);
    char end[64], text[160];
    int k = snprintf(end, sizeof end, "-00001-of-%05lld.gguf", (long long)s->n);
    if (n <= (size_t)k || strcmp(path + n - k, end) != 0)
        return zt_fail(s->ctx, ZT_EDATA, "%s: is the first of %lld files, its name must end in %s",
                       path, (long long)s->n, end);
    for (int64_t i = 1; i < s->n; i++) {
        int64_t no = -1, count = -1;
        char *other = zt_strdup(s->ctx, path);
        if (!other) return ZT_ENOMEM;
        snprintf(end, sizeof end, "%05lld", (long long)i + 1);
        memcpy(other + n - k + 1, end, 5);
        zt_gguf *g = s->part[i] = zt_gguf_open(s->ctx, other);
        zt_free(s->ctx, other);
        if (!g) return zt_ctx_status(s->ctx);
        zt_gguf_i64(g, "split.no", &no);
        zt_gguf_i64(g, "split.count", &count);
        if (no != i || count != s->n)
            return zt_fail(s->ctx, ZT_EDATA,
                           "%s: is no. %lld of %lld files, no. %lld of %lld was expected",
                           zt_escape(text, sizeof text, zt_gguf_name(g), strlen(zt_gguf_name(g))),
                           (long long)no + 1, (long long)count, (long long)i + 1, (long long)s->n);
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
        st = is_split_key(key) ? ZT_OK : zt_str_put(&name, key.data, key.n);
        if (st == ZT_OK && !is_split_key(key))
            st = zt_gguf_put_raw(w, name.data, kind, value.data, value.n);
    }
    zt_str_fini(&name);
    return st;
}

static zt_status put_tensors(zt_gguf_writer *w, shards *s)
{
    zt_status st = ZT_OK;
    int64_t used = 0;
    for (int32_t k = 0; st == ZT_OK && k < s->n; k++)
        for (int64_t i = 0; st == ZT_OK && i < zt_gguf_n_tensors(s->part[k]); i++) {
            zt_type t;
            int rank;
            const char *word = zt_gguf_tensor_word(s->part[k], i, &rank);
            const char *name = zt_gguf_tensor(s->part[k], i, &t, NULL, NULL);
            st = zt_gguf_put_tensor_word(w, name, word, rank, t.dim);
            s->of[used++] = (struct where){.part = k, .i = i};
        }
    return st == ZT_EUSAGE ? ZT_EDATA : st;
}

static zt_status count_tensors(shards *s)
{
    int64_t told = -1;
    for (int64_t k = 0; k < s->n; k++) s->n_tensors += zt_gguf_n_tensors(s->part[k]);
    if (zt_gguf_i64(s->part[0], "split.tensors.count", &told) && told != s->n_tensors)
        return zt_fail(
            s->ctx, ZT_EDATA, "%s: %lld tensors are said to be in %lld files, there are %lld",
            zt_gguf_name(s->part[0]), (long long)told, (long long)s->n, (long long)s->n_tensors);
    s->of = zt_alloc_array(s->ctx, (size_t)s->n_tensors, sizeof *s->of);
    return s->of ? ZT_OK : ZT_ENOMEM;
}

static zt_gguf *join(shards *s, const char *path)
{
    size_t n;
    uint64_t data;
    char *header = NULL;
    zt_gguf_writer *w = zt_gguf_writer_new(s->ctx);
    if (w && open_parts(s, path) == ZT_OK && count_tensors(s) == ZT_OK &&
        put_keys(w, s->part[0]) == ZT_OK && put_tensors(w, s) == ZT_OK)
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
    int64_t no = 0, count = 1;
    zt_ctx *ctx = g->ctx;
    zt_gguf_i64(g, "split.no", &no);
    if (!zt_gguf_i64(g, "split.count", &count) || count < 2 || no != 0 ||
        zt_source_streams(g->source))
        return g;
    shards *s = count <= MAX_SHARDS ? zt_calloc(ctx, 1, sizeof *s) : NULL;
    zt_gguf **part = s ? zt_calloc(ctx, (size_t)count, sizeof(zt_gguf *)) : NULL;
    if (part) {
        *s = (shards){.ctx = ctx, .part = part, .n = count};
        part[0] = g;
        return join(s, path);
    }
    if (count > MAX_SHARDS)
        zt_fail(ctx, ZT_EDATA, "%s: %lld files of a model, %d are allowed", path, (long long)count,
                MAX_SHARDS);
    zt_free(ctx, s);
    zt_gguf_close(g);
    return NULL;
}
