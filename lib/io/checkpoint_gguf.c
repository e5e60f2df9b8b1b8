/* checkpoint_gguf.c - owns GGUF as a container: read, in shards too, and written. */
#include "lib/io/checkpoint_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

static int64_t count(const void *user) { return zt_gguf_n_tensors(user); }

static void get(const void *user, int64_t i, zt_entry *e)
{
    int rank;
    size_t bytes;
    const char *word = zt_gguf_tensor_word(user, i, &rank);
    e->name = zt_gguf_tensor(user, i, &e->type, NULL, &bytes);
    e->type.rank = rank;
    e->dtype = e->type.dtype < ZT_DTYPE_COUNT ? zt_dtype_get(e->type.dtype)->name : word;
    e->bytes = bytes;
}

static int64_t find(const void *user, const char *name) { return zt_gguf_find(user, name); }

static zt_status read_data(void *user, int64_t i, uint64_t offset, void *dst, size_t n)
{
    zt_store s = zt_gguf_store(user);
    return s.read(s.user, i, (size_t)offset, dst, n);
}

static bool place(const void *user, int64_t i, const zt_source **source, uint64_t *offset)
{
    return zt_gguf_place(user, i, source, offset);
}

static bool has(const void *user, const char *key)
{
    zt_bytes text;
    return zt_gguf_array(user, key, NULL, NULL) || zt_gguf_str(user, key, &text);
}

static zt_status meta(const void *user, zt_meta *to) { return zt_gguf_all_keys(user, to, true); }

static zt_status end(void *user) { return zt_gguf_end(user); }

static void close_gguf(void *user) { zt_gguf_close(user); }

static const zt_reader reader = {.count = count,
                                 .get = get,
                                 .find = find,
                                 .read = read_data,
                                 .place = place,
                                 .has = has,
                                 .meta = meta,
                                 .end = end,
                                 .close = close_gguf};

static bool probe(const unsigned char *head, size_t n, uint64_t size)
{
    (void)size;
    return n > 0 && memcmp(head, "GGUF", n < 4 ? n : 4) == 0;
}

static zt_status open_gguf(zt_checkpoint *c, zt_source *s)
{
    c->reader = &reader;
    zt_gguf *g = zt_gguf_take(c->ctx, s);
    c->user = g && !c->alone ? zt_gguf_with_shards(g, c->name) : g;
    c->parts = c->user != g;
    return c->user ? ZT_OK : zt_ctx_status(c->ctx);
}

zt_checkpoint *zt_checkpoint_of_gguf(zt_ctx *ctx, zt_gguf *g)
{
    return g ? zt_checkpoint_over(ctx, zt_gguf_name(g), &zt_container_gguf, &reader, g) : NULL;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool can(const zt_entry *e) { return zt_gguf_can(e->name, e->dtype, e->type.rank); }

static bool can_meta(const zt_meta *m)
{
    (void)m;
    return true;
}

static zt_status put_all(zt_part *p, zt_gguf_writer *w, const zt_meta *m)
{
    zt_status st = zt_gguf_put_keys(w, m);
    int64_t at = zt_meta_find(m, "general.alignment");
    p->align = 32;
    if (at >= 0 && zt_meta_get(m, at)->kind == ZT_GGUF_U32) {
        uint32_t align;
        memcpy(&align, zt_meta_get(m, at)->value, sizeof align);
        p->align = align;
    }
    for (int64_t i = 0; st == ZT_OK && i < p->n; i++)
        st = zt_gguf_put_tensor_word(w, p->entry[i].name, p->entry[i].dtype, p->entry[i].type.rank,
                                     p->entry[i].type.dim);
    return st;
}

static char *header(zt_part *p, const zt_meta *m, size_t least, size_t *n)
{
    (void)least;
    zt_gguf_writer *w = zt_gguf_writer_new(p->ctx);
    zt_status st = w ? put_all(p, w, m) : ZT_ENOMEM;
    char *h = st == ZT_OK ? zt_gguf_writer_finish(w, n, NULL) : NULL;
    zt_gguf_writer_free(w);
    return h;
}

/* Zeros up to the alignment. */
static zt_status pad(zt_part *p)
{
    static const char zeros[4096];
    zt_status st = ZT_OK;
    while (st == ZT_OK && p->at % p->align != 0) {
        uint64_t k = p->align - p->at % p->align;
        k = k < sizeof zeros ? k : sizeof zeros;
        st = zt_sink_write(p->sink, zeros, (size_t)k);
        p->at += k;
    }
    return st;
}

static zt_status tensor(zt_part *p, int64_t i)
{
    zt_status st = pad(p);
    p->at += p->entry[i].bytes;
    return st;
}

/* Keys as llama.cpp's gguf-split writes them: the first shard has all, the others only these. */
static zt_status shard_meta(zt_meta *m, int64_t no, int64_t n, int64_t n_tensors)
{
    uint16_t a = (uint16_t)no, b = (uint16_t)n;
    int32_t all = (int32_t)n_tensors;
    zt_status st = zt_meta_put(m, "split.no", ZT_GGUF_U16, &a, sizeof a);
    if (st == ZT_OK) st = zt_meta_put(m, "split.count", ZT_GGUF_U16, &b, sizeof b);
    return st == ZT_OK ? zt_meta_put(m, "split.tensors.count", ZT_GGUF_I32, &all, sizeof all) : st;
}

static const zt_part_ops ops = {.header = header, .tensor = tensor, .end = pad};

const zt_container zt_container_gguf = {.name = "gguf",
                                        .suffix = ".gguf",
                                        .probe = probe,
                                        .streams = true,
                                        .open = open_gguf,
                                        .ops = &ops,
                                        .can = can,
                                        .can_meta = can_meta,
                                        .bytes = ZT_I8,
                                        .shards = true,
                                        .shard_meta = shard_meta};
