/* imatrix.c - owns importance matrices: their entries, both forms of file read and written. */
#include "lib/io/imatrix.h"
#include "lib/base/foreign.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/io/gguf_write.h"

typedef struct entry {
    char *name;
    int64_t matrices, columns;
    double *sum;   /* [matrices, columns] of squares */
    double *count; /* [matrices] rows */
    float *mean;   /* NULL: to be made */
} entry;

struct zt_imatrix {
    zt_ctx *ctx;
    entry *entries;
    int64_t n, cap;
    zt_map *names; /* to their entry */
    char *file;    /* that it was read from, for messages; NULL: none */
    char *dataset; /* may be NULL */
    int64_t chunks, chunk_size;
};

/* ---- entries ------------------------------------------------------------------------------- */

zt_imatrix *zt_imatrix_new(zt_ctx *ctx)
{
    zt_imatrix *m = zt_calloc(ctx, 1, sizeof *m);
    if (!m) return NULL;
    m->ctx = ctx;
    m->names = zt_map_new(ctx, 0);
    if (m->names) return m;
    zt_free(ctx, m);
    return NULL;
}

static void entry_free(zt_ctx *ctx, entry *e)
{
    zt_free(ctx, e->name);
    zt_free(ctx, e->sum);
    zt_free(ctx, e->count);
    zt_free(ctx, e->mean);
}

void zt_imatrix_close(zt_imatrix *m)
{
    if (!m) return;
    for (int64_t i = 0; i < m->n; i++) entry_free(m->ctx, &m->entries[i]);
    zt_map_free(m->names);
    zt_free(m->ctx, m->entries);
    zt_free(m->ctx, m->dataset);
    zt_free(m->ctx, m->file);
    zt_free(m->ctx, m);
}

static entry *find(const zt_imatrix *m, const char *name)
{
    int64_t i;
    return zt_map_get(m->names, name, strlen(name), &i) ? &m->entries[i] : NULL;
}

/* Columns of a matrix that was never used count alike. */
static void make_mean(entry *e, int64_t matrix)
{
    double count = e->count[matrix];
    for (int64_t i = matrix * e->columns; i < (matrix + 1) * e->columns; i++)
        e->mean[i] = count > 0 ? (float)(e->sum[i] / count) : 1;
}

/* A new entry, all 0; NULL: no memory, or it is there. */
static entry *entry_new(zt_imatrix *m, const char *name, size_t n, int64_t matrices,
                        int64_t columns)
{
    int64_t all;
    if (m->n == m->cap) {
        int64_t cap = m->cap ? 2 * m->cap : 64;
        entry *more = zt_realloc(m->ctx, m->entries, (size_t)cap * sizeof *more);
        if (!more) return NULL;
        m->entries = more;
        m->cap = cap;
    }
    if (!zt_mul_i64(matrices, columns, &all)) return NULL;
    entry e = {.name = zt_strndup(m->ctx, name, n), .matrices = matrices, .columns = columns};
    e.sum = zt_calloc(m->ctx, (size_t)all, sizeof *e.sum);
    e.count = zt_calloc(m->ctx, (size_t)matrices, sizeof *e.count);
    e.mean = zt_alloc_array(m->ctx, (size_t)all, sizeof *e.mean);
    bool good = e.name && e.sum && e.count && e.mean;
    if (good && find(m, e.name)) {
        zt_fail(m->ctx, ZT_EDATA, "%s%simportance of '%s' twice", m->file ? m->file : "",
                m->file ? ": " : "", e.name);
        good = false;
    }
    if (!good || zt_map_put(m->names, e.name, strlen(e.name), m->n)) {
        entry_free(m->ctx, &e);
        return NULL;
    }
    for (int64_t k = 0; k < matrices; k++) make_mean(&e, k);
    m->entries[m->n] = e;
    return &m->entries[m->n++];
}

/* The entry that has this shape, or a new one; NULL: none. */
static entry *entry_of(zt_imatrix *m, const char *name, int64_t matrices, int64_t matrix,
                       int64_t columns, int64_t rows)
{
    entry *e = find(m, name);
    if (matrices < 1 || matrix < 0 || matrix >= matrices || columns < 1 || rows < 0) {
        zt_fail(m->ctx, ZT_ESHAPE, "importance of '%s': matrix %lld of %lld, %lld columns",
                name, (long long)matrix, (long long)matrices, (long long)columns);
        return NULL;
    }
    if (!e) return entry_new(m, name, strlen(name), matrices, columns);
    if (e->matrices == matrices && e->columns == columns) return e;
    zt_fail(m->ctx, ZT_ESHAPE, "importance of '%s': [%lld,%lld] after [%lld,%lld]", name,
            (long long)matrices, (long long)columns, (long long)e->matrices, (long long)e->columns);
    return NULL;
}

zt_status zt_imatrix_add_sums(zt_imatrix *m, const char *name, int64_t columns, const double *sum,
                              int64_t rows)
{
    entry *e = entry_of(m, name, 1, 0, columns, rows);
    if (!e) return zt_ctx_status(m->ctx);
    for (int64_t i = 0; i < columns; i++) e->sum[i] += sum[i];
    e->count[0] += (double)rows;
    make_mean(e, 0);
    return ZT_OK;
}

zt_status zt_imatrix_add(zt_imatrix *m, const char *name, int64_t matrices, int64_t matrix,
                         int64_t columns, const float *x, int64_t rows)
{
    entry *e = entry_of(m, name, matrices, matrix, columns, rows);
    if (!e) return zt_ctx_status(m->ctx);
    double *sum = e->sum + matrix * columns;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < columns; i++)
            sum[i] += (double)x[r * columns + i] * (double)x[r * columns + i];
    e->count[matrix] += (double)rows;
    make_mean(e, matrix);
    return ZT_OK;
}

zt_status zt_imatrix_about(zt_imatrix *m, const char *dataset, int64_t chunks, int64_t chunk_size)
{
    char *name = zt_strdup(m->ctx, dataset);
    if (!name) return ZT_ENOMEM;
    zt_free(m->ctx, m->dataset);
    m->dataset = name;
    m->chunks = chunks;
    m->chunk_size = chunk_size;
    return ZT_OK;
}

int64_t zt_imatrix_count(const zt_imatrix *m) { return m->n; }
int64_t zt_imatrix_chunks(const zt_imatrix *m) { return m->chunks; }
const char *zt_imatrix_dataset(const zt_imatrix *m) { return m->dataset; }

zt_imatrix_entry zt_imatrix_get(const zt_imatrix *m, int64_t i)
{
    const entry *e = &m->entries[i];
    return (zt_imatrix_entry){e->name, e->matrices, e->columns, e->mean};
}

const float *zt_imatrix_find(const zt_imatrix *m, const char *name, int64_t matrix,
                             int64_t columns)
{
    const entry *e = find(m, name);
    if (!e || e->columns != columns || matrix < 0 || matrix >= e->matrices) return NULL;
    return e->mean + matrix * columns;
}

/* ---- shapes -------------------------------------------------------------------------------- */

/* One matrix becomes several, each of as many rows. */
static zt_status split(zt_imatrix *m, entry *e, int64_t matrices, int64_t columns)
{
    double *count = zt_alloc_array(m->ctx, (size_t)matrices, sizeof *count);
    if (!count) return ZT_ENOMEM;
    for (int64_t k = 0; k < matrices; k++) count[k] = e->count[0];
    zt_free(m->ctx, e->count);
    e->count = count;
    e->matrices = matrices;
    e->columns = columns;
    return ZT_OK;
}

/* A file without counts says 0 for what was never used. */
static void find_unused(entry *e)
{
    for (int64_t k = 0; k < e->matrices; k++) {
        const double *sum = e->sum + k * e->columns;
        int64_t i = 0;
        while (i < e->columns && sum[i] == 0) i++;
        if (i < e->columns) continue;
        e->count[k] = 0;
        make_mean(e, k);
    }
}

zt_status zt_imatrix_fit(zt_imatrix *m, const char *name, int64_t matrices, int64_t columns,
                         bool *has)
{
    entry *e = find(m, name);
    int64_t all;
    *has = e != NULL;
    if (!e) return ZT_OK;
    bool good = matrices >= 1 && columns >= 1 && zt_mul_i64(matrices, columns, &all);
    if (good && e->matrices == 1 && e->columns == all && matrices > 1) {
        zt_status s = split(m, e, matrices, columns);
        if (s) return s;
    }
    if (!good || e->matrices != matrices || e->columns != columns)
        return zt_fail(m->ctx, ZT_EDATA,
                       "%s%simportance of '%s' has %lld x %lld values, and the tensor %lld x %lld "
                       "columns",
                       m->file ? m->file : "", m->file ? ": " : "", name, (long long)e->matrices, (long long)e->columns, (long long)matrices,
                       (long long)columns);
    find_unused(e);
    return ZT_OK;
}

/* ---- GGUF ---------------------------------------------------------------------------------- */

/* Sums or counts of a file, which must be numbers and not negative. */
static zt_status check(zt_imatrix *m, const char *file, const char *name, const float *x,
                       int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(x[i] >= 0) || isinf(x[i]))
            return zt_fail(m->ctx, ZT_EDATA, "%s: '%s': value %lld is %g", file, name,
                           (long long)i, (double)x[i]);
    return ZT_OK;
}

/* f32 tensor i of g as doubles, `n` of them. */
static zt_status read_doubles(zt_imatrix *m, zt_gguf *g, int64_t i, double *out, int64_t n)
{
    zt_type type;
    uint64_t offset;
    size_t bytes;
    const char *name = zt_gguf_tensor(g, i, &type, &offset, &bytes);
    zt_store store = zt_gguf_store(g);
    if (type.rank < 0 || type.dtype != ZT_F32 || zt_type_count(&type) != n)
        return zt_fail(m->ctx, ZT_EDATA, "%s: '%s' is not %lld numbers of f32", zt_gguf_name(g),
                       name, (long long)n);
    float *x = zt_alloc_array(m->ctx, (size_t)n, sizeof *x);
    zt_status s = x ? store.read(store.user, i, 0, x, bytes) : ZT_ENOMEM;
    if (!s) s = check(m, zt_gguf_name(g), name, x, n);
    for (int64_t k = 0; !s && k < n; k++) out[k] = x[k];
    zt_free(m->ctx, x);
    return s;
}

/* The tensor of the counts that belong to `name`; -1 after a message. */
static int64_t find_counts(zt_imatrix *m, zt_gguf *g, const char *name, size_t n)
{
    zt_str text;
    zt_str_init(&text, m->ctx);
    int64_t i = -1;
    if (zt_str_put(&text, name, n) == ZT_OK && zt_str_puts(&text, ".counts") == ZT_OK) {
        i = zt_gguf_find(g, text.data);
        if (i < 0)
            zt_fail(m->ctx, ZT_EDATA, "%s: '%s' is missing", zt_gguf_name(g), text.data);
    }
    zt_str_fini(&text);
    return i;
}

/* The entry whose sums are tensor i, named `name` and the ending. */
static zt_status read_entry(zt_imatrix *m, zt_gguf *g, int64_t i, const char *name, size_t n)
{
    zt_type type;
    uint64_t offset;
    size_t bytes;
    zt_gguf_tensor(g, i, &type, &offset, &bytes);
    int64_t c = find_counts(m, g, name, n);
    if (c < 0) return zt_ctx_status(m->ctx);
    if (type.rank < 1 || type.rank > 3 || zt_type_count(&type) < 1)
        return zt_fail(m->ctx, ZT_EDATA, "%s: '%s' has no rows of numbers", zt_gguf_name(g), name);
    int64_t columns = type.dim[type.rank - 1], matrices = zt_type_count(&type) / columns;
    entry *e = entry_new(m, name, n, matrices, columns);
    if (!e) return zt_ctx_status(m->ctx);
    zt_status s = read_doubles(m, g, i, e->sum, matrices * columns);
    if (!s) s = read_doubles(m, g, c, e->count, matrices);
    for (int64_t k = 0; k < matrices; k++) make_mean(e, k);
    return s;
}

static zt_status read_gguf(zt_imatrix *m, zt_source *src)
{
    static const char ending[] = ".in_sum2";
    const size_t tail = sizeof ending - 1;
    zt_bytes type, text = {"", 0};
    zt_gguf_kind kind;
    int64_t count;
    zt_gguf *g = zt_gguf_from(m->ctx, src);
    if (!g) return zt_ctx_status(m->ctx);
    zt_status s = ZT_OK;
    if (!zt_gguf_str(g, "general.type", &type) || type.n != 7 || memcmp(type.data, "imatrix", 7))
        s = zt_fail(m->ctx, ZT_EDATA, "%s: a GGUF that is no imatrix", zt_gguf_name(g));
    zt_gguf_i64(g, "imatrix.chunk_count", &m->chunks);
    zt_gguf_i64(g, "imatrix.chunk_size", &m->chunk_size);
    if (zt_gguf_array(g, "imatrix.datasets", &kind, &count) && count > 0)
        text = zt_gguf_array_str(g, "imatrix.datasets", 0);
    m->dataset = zt_strndup(m->ctx, text.data, text.n);
    if (!s && !m->dataset) s = ZT_ENOMEM;
    for (int64_t i = 0; !s && i < zt_gguf_n_tensors(g); i++) {
        zt_type t;
        uint64_t offset;
        size_t bytes;
        const char *name = zt_gguf_tensor(g, i, &t, &offset, &bytes);
        size_t n = strlen(name);
        if (n > tail && strcmp(name + n - tail, ending) == 0)
            s = read_entry(m, g, i, name, n - tail);
    }
    zt_gguf_close(g);
    return s;
}

static zt_status put_header(const zt_imatrix *m, zt_sink *out)
{
    zt_gguf_writer *w = zt_gguf_writer_new(m->ctx);
    if (!w) return ZT_ENOMEM;
    const char *dataset = m->dataset ? m->dataset : "";
    zt_bytes text = {dataset, strlen(dataset)};
    zt_gguf_put_str(w, "general.type", "imatrix", 7);
    zt_gguf_put_strs(w, "imatrix.datasets", &text, 1);
    zt_gguf_put_int(w, "imatrix.chunk_count", ZT_GGUF_U32, m->chunks);
    zt_gguf_put_int(w, "imatrix.chunk_size", ZT_GGUF_U32, m->chunk_size);
    for (int64_t i = 0; i < m->n; i++) {
        const entry *e = &m->entries[i];
        char name[256];
        zt_type sums = zt_type_make(ZT_F32, 2, (int64_t[]){e->matrices, e->columns});
        zt_type counts = zt_type_make(ZT_F32, 2, (int64_t[]){e->matrices, 1});
        snprintf(name, sizeof name, "%s.in_sum2", e->name);
        zt_gguf_put_tensor(w, name, &sums);
        snprintf(name, sizeof name, "%s.counts", e->name);
        zt_gguf_put_tensor(w, name, &counts);
    }
    size_t n;
    char *header = zt_gguf_writer_finish(w, &n, NULL);
    zt_status s = header ? zt_sink_write(out, header, n) : zt_gguf_writer_status(w);
    zt_free(m->ctx, header);
    zt_gguf_writer_free(w);
    return s;
}

enum { ALIGN = 32 };

/* n doubles as f32, padded. */
static zt_status put_floats(const zt_imatrix *m, zt_sink *out, const double *x, int64_t n)
{
    size_t bytes = ((size_t)n * 4 + ALIGN - 1) / ALIGN * ALIGN;
    float *f = zt_calloc(m->ctx, bytes, 1);
    if (!f) return ZT_ENOMEM;
    for (int64_t i = 0; i < n; i++) f[i] = (float)x[i];
    zt_status s = zt_sink_write(out, f, bytes);
    zt_free(m->ctx, f);
    return s;
}

zt_status zt_imatrix_write(const zt_imatrix *m, zt_sink *out)
{
    zt_status s = put_header(m, out);
    for (int64_t i = 0; !s && i < m->n; i++) {
        const entry *e = &m->entries[i];
        s = put_floats(m, out, e->sum, e->matrices * e->columns);
        if (!s) s = put_floats(m, out, e->count, e->matrices);
    }
    return s;
}

/* ---- the older form ------------------------------------------------------------------------ */

typedef struct cursor {
    zt_imatrix *m;
    const zt_source *s;
    uint64_t at;
} cursor;

static zt_status get_i32(cursor *c, int32_t *out)
{
    zt_status s = zt_source_read(c->s, c->at, out, 4);
    c->at += 4;
    return s;
}

/* A count that the rest of the file has room for. */
static zt_status get_count(cursor *c, const char *of, size_t size, int32_t *out)
{
    zt_status s = get_i32(c, out);
    if (s) return s;
    uint64_t left = zt_source_size(c->s) - c->at;
    if (*out < 0 || (uint64_t)*out * size > left)
        return zt_fail(c->m->ctx, ZT_EDATA, "%s: %s of %d at byte %llu, %llu bytes are left",
                       zt_source_name(c->s), of, *out, (unsigned long long)c->at - 4,
                       (unsigned long long)left);
    return ZT_OK;
}

static char *get_text(cursor *c, zt_status *s)
{
    int32_t n;
    *s = get_count(c, "a name", 1, &n);
    char *text = *s ? NULL : zt_calloc(c->m->ctx, (size_t)n + 1, 1);
    if (!*s && !text) *s = ZT_ENOMEM;
    if (!*s) *s = zt_source_read(c->s, c->at, text, (size_t)n);
    c->at += (uint64_t)(*s ? 0 : n);
    return text;
}

static zt_status get_entry(cursor *c)
{
    zt_imatrix *m = c->m;
    zt_status s;
    int32_t calls = 0, n = 0;
    char *name = get_text(c, &s);
    if (!s) s = get_i32(c, &calls);
    if (!s) s = get_count(c, "values", 4, &n);
    if (!s && (n < 1 || calls < 0))
        s = zt_fail(m->ctx, ZT_EDATA, "%s: '%s': %d values of %d calls", zt_source_name(c->s), name,
                    n, calls);
    entry *e = s ? NULL : entry_new(m, name, strlen(name), 1, n);
    float *x = e ? zt_alloc_array(m->ctx, (size_t)n, sizeof *x) : NULL;
    if (!s) s = x ? zt_source_read(c->s, c->at, x, (size_t)n * 4) : ZT_ENOMEM;
    if (!s) s = check(m, zt_source_name(c->s), name, x, n);
    if (!s) {
        for (int32_t i = 0; i < n; i++) e->sum[i] = x[i];
        e->count[0] = calls > 0 ? calls : 1;
        make_mean(e, 0);
        c->at += (uint64_t)n * 4;
    }
    zt_free(m->ctx, x);
    zt_free(m->ctx, name);
    return s;
}

static zt_status read_dat(zt_imatrix *m, zt_source *src)
{
    char head[ZT_FOREIGN_HEAD];
    size_t got = 0;
    cursor c = {m, src, 0};
    int32_t n, chunks;
    zt_status s = zt_source_read_some(src, 0, head, sizeof head, 0, &got);
    if (!s) s = zt_foreign_fail(m->ctx, zt_source_name(src), head, got);
    if (!s) s = get_count(&c, "entries", 12, &n);
    for (int32_t i = 0; !s && i < n; i++) s = get_entry(&c);
    if (s || c.at == zt_source_size(src)) return s; /* the oldest end here */
    s = get_i32(&c, &chunks);
    if (!s) m->chunks = chunks > 0 ? chunks : 0;
    if (!s) m->dataset = get_text(&c, &s);
    return s;
}

static zt_status put_i32(zt_sink *out, int64_t v)
{
    int32_t i = v > INT32_MAX ? INT32_MAX : (int32_t)v;
    return zt_sink_write(out, &i, 4);
}

static zt_status put_text(zt_sink *out, const char *text)
{
    zt_status s = put_i32(out, (int64_t)strlen(text));
    return s ? s : zt_sink_write(out, text, strlen(text));
}

static zt_status put_entry(const zt_imatrix *m, const entry *e, zt_sink *out)
{
    int64_t all = e->matrices * e->columns, calls = m->chunks > 0 ? m->chunks : 1;
    zt_status s = put_text(out, e->name);
    if (!s) s = put_i32(out, calls);
    if (!s) s = put_i32(out, all);
    for (int64_t i = 0; !s && i < all; i++) {
        float v = (float)((double)e->mean[i] * (double)calls);
        s = zt_sink_write(out, &v, 4);
    }
    return s;
}

zt_status zt_imatrix_write_dat(const zt_imatrix *m, zt_sink *out)
{
    zt_status s = put_i32(out, m->n);
    for (int64_t i = 0; !s && i < m->n; i++) s = put_entry(m, &m->entries[i], out);
    if (!s) s = put_i32(out, m->chunks);
    return s ? s : put_text(out, m->dataset ? m->dataset : "");
}

/* ---- either -------------------------------------------------------------------------------- */

zt_imatrix *zt_imatrix_from(zt_ctx *ctx, zt_source *src)
{
    char head[4] = "";
    zt_imatrix *m = zt_imatrix_new(ctx);
    if (!m) return NULL;
    m->file = zt_strdup(ctx, zt_source_name(src));
    zt_status s = m->file ? zt_source_read(src, 0, head, sizeof head) : ZT_ENOMEM;
    if (!s) s = memcmp(head, "GGUF", 4) == 0 ? read_gguf(m, src) : read_dat(m, src);
    if (!s) return m;
    zt_imatrix_close(m);
    return NULL;
}

zt_imatrix *zt_imatrix_open(zt_ctx *ctx, const char *path)
{
    zt_source *s = zt_source_open(ctx, path);
    zt_imatrix *m = s ? zt_imatrix_from(ctx, s) : NULL;
    zt_source_close(s);
    return m;
}
