/* imatrix.c - owns both forms of importance matrices. */
#include "lib/io/imatrix.h"

#include "lib/io/gguf_write.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct zt_imatrix {
    zt_ctx *ctx;
    zt_arena *arena; /* names and numbers */
    zt_map *by_name;
    zt_imatrix_of *of;
    int64_t n, cap, chunks;
    const char *dataset;
};

/* ---- what is found in a file ----------------------------------------------------------------- */

static zt_status bad(zt_imatrix *m, const char *file, const char *name, const char *what)
{
    char shown[80];
    return zt_fail(m->ctx, ZT_EDATA, "%s: importance of '%s': %s", file,
                   zt_escape(shown, sizeof shown, name, strlen(name)), what);
}

/* One more; the numbers are in the arena. */
static zt_status add(zt_imatrix *m, const char *file, const char *name, const float *mean, int64_t n)
{
    int64_t there;
    for (int64_t i = 0; i < n; i++)
        if (!(mean[i] >= 0) || isinf(mean[i]))
            return bad(m, file, name, "a number that is negative or not finite");
    if (zt_map_get(m->by_name, name, strlen(name), &there))
        return bad(m, file, name, "it is there twice");
    if (m->n == m->cap) {
        int64_t cap = m->cap ? m->cap * 2 : 64;
        zt_imatrix_of *of = zt_realloc(m->ctx, m->of, (size_t)cap * sizeof *of);
        if (!of)
            return ZT_ENOMEM;
        m->of = of;
        m->cap = cap;
    }
    m->of[m->n] = (zt_imatrix_of){name, n, mean};
    return zt_map_put(m->by_name, name, strlen(name), m->n++);
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

static zt_status read_floats(zt_imatrix *m, zt_gguf *g, int64_t i, float **out, zt_type *type)
{
    zt_store s = zt_gguf_store(g);
    size_t bytes;
    const char *name = zt_gguf_tensor(g, i, type, NULL, &bytes);
    if (type->dtype != ZT_F32 || type->rank < 1)
        return bad(m, zt_gguf_name(g), name, "not of f32");
    *out = zt_arena_alloc(m->arena, bytes + 1);
    return *out ? s.read(s.user, i, 0, *out, bytes) : ZT_ENOMEM;
}

/* NAME.in_sum2 [experts, columns] over NAME.counts [experts, 1]. */
static zt_status take_sums(zt_imatrix *m, zt_gguf *g, int64_t i, const char *full)
{
    const char *file = zt_gguf_name(g);
    char counts_name[80];
    size_t n = strlen(full) - strlen(".in_sum2");
    char *name = zt_arena_strndup(m->arena, full, n);
    float *sum, *count;
    zt_type t, tc;
    if (!name)
        return ZT_ENOMEM;
    snprintf(counts_name, sizeof counts_name, "%s.counts", name);
    int64_t c = zt_gguf_find(g, counts_name);
    if (c < 0)
        return bad(m, file, name, "its counts are missing");
    zt_status s = read_floats(m, g, i, &sum, &t);
    if (s == ZT_OK)
        s = read_floats(m, g, c, &count, &tc);
    if (s != ZT_OK)
        return s;
    int64_t all = zt_type_count(&t), experts = zt_type_count(&tc);
    if (experts < 1 || all % experts || all / experts != t.dim[t.rank - 1])
        return bad(m, file, name, "sums and counts do not go together");
    for (int64_t k = 0; k < all; k++) {
        float of = count[k / (all / experts)];
        sum[k] = of > 0 ? sum[k] / of : 1;
    }
    return add(m, file, name, sum, all);
}

static zt_status read_gguf(zt_imatrix *m, zt_source *src)
{
    zt_gguf *g = zt_gguf_from(m->ctx, src);
    zt_status s = g ? ZT_OK : zt_ctx_status(m->ctx);
    for (int64_t i = 0; g && i < zt_gguf_n_tensors(g) && s == ZT_OK; i++) {
        const char *name = zt_gguf_tensor(g, i, &(zt_type){0}, NULL, NULL);
        size_t n = strlen(name);
        if (n > 8 && !strcmp(name + n - 8, ".in_sum2"))
            s = take_sums(m, g, i, name);
    }
    if (s == ZT_OK) {
        zt_bytes text = zt_gguf_array_str(g, "imatrix.datasets", 0);
        m->dataset = text.n ? zt_arena_strndup(m->arena, text.data, text.n) : NULL;
        zt_gguf_i64(g, "imatrix.chunk_count", &m->chunks);
        if (m->n == 0)
            s = zt_fail(m->ctx, ZT_EDATA, "%s: no importance matrix: no tensor NAME.in_sum2",
                        zt_gguf_name(g));
    }
    zt_gguf_close(g);
    return s;
}

/* ---- the form before ------------------------------------------------------------------------- */

typedef struct cursor {
    zt_imatrix *m;
    zt_source *src;
    uint64_t at;
} cursor;

static zt_status cut(cursor *c)
{
    return zt_fail(c->m->ctx, ZT_EDATA, "%s: no importance matrix, or it is cut short at byte %" PRIu64,
                   zt_source_name(c->src), c->at);
}

/* n bytes, of which the file must have so many. */
static zt_status take(cursor *c, void *dst, uint64_t n)
{
    if (n > zt_source_size(c->src) - c->at)
        return cut(c);
    zt_status s = zt_source_read(c->src, c->at, dst, (size_t)n);
    c->at += n;
    return s;
}

/* A count of things of `size` bytes, which must fit in what is left. */
static zt_status take_count(cursor *c, int64_t size, int32_t *n)
{
    zt_status s = take(c, n, sizeof *n);
    if (s == ZT_OK && (*n < 0 || (uint64_t)*n > (zt_source_size(c->src) - c->at) / (uint64_t)size))
        return cut(c);
    return s;
}

static zt_status take_text(cursor *c, const char **out)
{
    int32_t n;
    zt_status s = take_count(c, 1, &n);
    if (s != ZT_OK)
        return s;
    char *text = zt_arena_alloc(c->m->arena, (size_t)n + 1);
    if (!text)
        return ZT_ENOMEM;
    text[n] = 0;
    *out = text;
    s = take(c, text, (uint64_t)n);
    return s == ZT_OK && memchr(text, 0, (size_t)n) ? cut(c) : s;
}

/* name, calls, numbers: each the mean times the calls. */
static zt_status take_entry(cursor *c)
{
    const char *name;
    int32_t calls, n;
    zt_status s = take_text(c, &name);
    if (s == ZT_OK)
        s = take(c, &calls, sizeof calls);
    if (s == ZT_OK)
        s = take_count(c, sizeof(float), &n);
    if (s != ZT_OK)
        return s;
    float *mean = zt_arena_alloc(c->m->arena, (size_t)n * sizeof *mean + 1);
    if (!mean)
        return ZT_ENOMEM;
    s = take(c, mean, (uint64_t)n * sizeof *mean);
    for (int32_t i = 0; i < n && s == ZT_OK && calls > 0; i++)
        mean[i] /= (float)calls;
    return s == ZT_OK ? add(c->m, zt_source_name(c->src), name, mean, n) : s;
}

static zt_status read_older(zt_imatrix *m, zt_source *src)
{
    cursor c = {.m = m, .src = src};
    int32_t n, chunks;
    zt_status s = take_count(&c, 12, &n);
    if (s == ZT_OK && n == 0)
        s = cut(&c);
    for (int32_t i = 0; i < n && s == ZT_OK; i++)
        s = take_entry(&c);
    if (s != ZT_OK || c.at == zt_source_size(src))
        return s;
    s = take(&c, &chunks, sizeof chunks);
    m->chunks = s == ZT_OK ? chunks : 0;
    return s == ZT_OK && c.at < zt_source_size(src) ? take_text(&c, &m->dataset) : s;
}

/* ---- open, look, close ----------------------------------------------------------------------- */

zt_imatrix *zt_imatrix_open(zt_ctx *ctx, const char *path)
{
    char magic[4] = "";
    zt_source *src = zt_source_open(ctx, path);
    zt_imatrix *m = src ? zt_calloc(ctx, 1, sizeof *m) : NULL;
    zt_status s = m ? ZT_OK : ZT_ENOMEM;
    if (m) {
        m->ctx = ctx;
        m->arena = zt_arena_new(ctx, 0);
        m->by_name = zt_map_new(ctx, 256);
        s = m->arena && m->by_name ? ZT_OK : ZT_ENOMEM;
    }
    if (s == ZT_OK && zt_source_size(src) >= 4)
        s = zt_source_read(src, 0, magic, 4);
    if (s == ZT_OK)
        s = memcmp(magic, "GGUF", 4) ? read_older(m, src) : read_gguf(m, src);
    zt_source_close(src);
    if (s == ZT_OK)
        return m;
    zt_imatrix_close(m);
    return NULL;
}

void zt_imatrix_close(zt_imatrix *m)
{
    if (!m)
        return;
    zt_map_free(m->by_name);
    zt_arena_free(m->arena);
    zt_free(m->ctx, m->of);
    zt_free(m->ctx, m);
}

int64_t zt_imatrix_count(const zt_imatrix *m)
{
    return m->n;
}

const zt_imatrix_of *zt_imatrix_get(const zt_imatrix *m, int64_t i)
{
    return &m->of[i];
}

const zt_imatrix_of *zt_imatrix_find(const zt_imatrix *m, const char *name)
{
    int64_t i;
    return zt_map_get(m->by_name, name, strlen(name), &i) ? &m->of[i] : NULL;
}

const char *zt_imatrix_dataset(const zt_imatrix *m)
{
    return m->dataset;
}

int64_t zt_imatrix_chunks(const zt_imatrix *m)
{
    return m->chunks;
}

/* ---- write ----------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const zt_imatrix_sum *const *)a)->name, (*(const zt_imatrix_sum *const *)b)->name);
}

static zt_status put_keys(zt_gguf_writer *w, const char *dataset, int64_t chunks, int64_t size)
{
    zt_bytes text = {dataset, strlen(dataset)};
    zt_gguf_put_str(w, "general.type", "imatrix", 7);
    zt_gguf_put_strs(w, "imatrix.datasets", &text, 1);
    zt_gguf_put_int(w, "imatrix.chunk_count", ZT_GGUF_U32, chunks);
    return zt_gguf_put_int(w, "imatrix.chunk_size", ZT_GGUF_U32, size);
}

static zt_status put_tensors(zt_gguf_writer *w, const zt_imatrix_sum *of)
{
    char name[80];
    zt_type sums = zt_type_make(ZT_F32, 2, (int64_t[]){1, of->n});
    zt_type counts = zt_type_make(ZT_F32, 2, (int64_t[]){1, 1});
    snprintf(name, sizeof name, "%s.in_sum2", of->name);
    zt_gguf_put_tensor(w, name, &sums);
    snprintf(name, sizeof name, "%s.counts", of->name);
    return zt_gguf_put_tensor(w, name, &counts);
}

/* n floats and what fills the last 32 bytes. */
static zt_status put_floats(zt_sink *sink, const double *x, int64_t n)
{
    float piece[1024] = {0};
    zt_status s = ZT_OK;
    for (int64_t at = 0; at < n && s == ZT_OK; at += 1024) {
        int64_t m = n - at < 1024 ? n - at : 1024, padded = (m + 7) / 8 * 8;
        memset(piece, 0, sizeof piece);
        for (int64_t i = 0; i < m; i++)
            piece[i] = (float)x[at + i];
        s = zt_sink_write(sink, piece, (size_t)padded * sizeof *piece);
    }
    return s;
}

static zt_status write_all(zt_ctx *ctx, zt_sink *sink, const zt_imatrix_sum **of, int64_t n,
                           const char *dataset, int64_t chunks, int64_t chunk_size)
{
    size_t bytes;
    zt_gguf_writer *w = zt_gguf_writer_new(ctx);
    if (!w)
        return ZT_ENOMEM;
    put_keys(w, dataset, chunks, chunk_size);
    for (int64_t i = 0; i < n; i++)
        put_tensors(w, of[i]);
    char *header = zt_gguf_writer_finish(w, &bytes, NULL);
    zt_status s = header ? zt_sink_write(sink, header, bytes) : zt_ctx_status(ctx);
    for (int64_t i = 0; i < n && s == ZT_OK; i++) {
        double tokens = (double)of[i]->tokens;
        s = put_floats(sink, of[i]->sum, of[i]->n);
        if (s == ZT_OK)
            s = put_floats(sink, &tokens, 1);
    }
    zt_free(ctx, header);
    zt_gguf_writer_free(w);
    return s == ZT_OK ? zt_sink_commit(sink) : s;
}

zt_status zt_imatrix_write(zt_ctx *ctx, const char *path, bool force, const zt_imatrix_sum *of,
                           int64_t n, const char *dataset, int64_t chunks, int64_t chunk_size)
{
    const zt_imatrix_sum **order = zt_alloc_array(ctx, (size_t)n + 1, sizeof *order);
    zt_sink *sink = order ? zt_sink_open(ctx, path, force) : NULL;
    zt_status s = sink ? ZT_OK : zt_ctx_status(ctx);
    for (int64_t i = 0; i < n && s == ZT_OK; i++)
        order[i] = &of[i];
    if (s == ZT_OK) {
        qsort(order, (size_t)n, sizeof *order, by_name);
        s = write_all(ctx, sink, order, n, dataset, chunks, chunk_size);
    }
    zt_sink_close(sink);
    zt_free(ctx, order);
    return s;
}
