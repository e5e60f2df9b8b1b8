/* imatrix.c - owns importance matrices: their entries, both forms of file read and written. */
#include "lib/base/require.h"
#include "lib/io/imatrix.h"
#include "lib/base/foreign.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/io/gguf_write.h"

/* A name for a message: it comes from a file. */
#define SHOWN(name) zt_escape((char[160]){0}, 160, name, strlen(name))

typedef struct importance_entry {
    char *name;
    int64_t matrices, columns;
    double *sum;   /* [matrices, columns] of squares */
    double *count; /* [matrices] rows */
    float *mean;   /* NULL: to be made */
} importance_entry;

struct zt_imatrix {
    zt_ctx *ctx;
    importance_entry *entries;
    int64_t count, capacity;
    zt_map *names; /* to their entry */
    char *file;    /* that it was read from, for messages; NULL: none */
    char *dataset; /* may be NULL */
    int64_t chunks, chunk_size;
};

/* ---- entries ------------------------------------------------------------------------------- */

zt_imatrix *zt_imatrix_new(zt_ctx *ctx)
{
    zt_imatrix *imatrix = zt_calloc(ctx, 1, sizeof *imatrix);
    if (!imatrix) return NULL;
    imatrix->ctx = ctx;
    imatrix->names = zt_map_new(ctx, 0);
    if (imatrix->names) return imatrix;
    zt_free(ctx, imatrix);
    return NULL;
}

static void free_entry(zt_ctx *ctx, importance_entry *entry)
{
    zt_free(ctx, entry->name);
    zt_free(ctx, entry->sum);
    zt_free(ctx, entry->count);
    zt_free(ctx, entry->mean);
}

void zt_imatrix_close(zt_imatrix *imatrix)
{
    if (!imatrix) return;
    for (int64_t i = 0; i < imatrix->count; i++) free_entry(imatrix->ctx, &imatrix->entries[i]);
    zt_map_free(imatrix->names);
    zt_free(imatrix->ctx, imatrix->entries);
    zt_free(imatrix->ctx, imatrix->dataset);
    zt_free(imatrix->ctx, imatrix->file);
    zt_free(imatrix->ctx, imatrix);
}

static importance_entry *find_entry(const zt_imatrix *imatrix, const char *name)
{
    int64_t i;
    return zt_map_get(imatrix->names, name, strlen(name), &i) ? &imatrix->entries[i] : NULL;
}

/* Columns of a matrix that was never used count alike. */
static void make_mean(importance_entry *entry, int64_t matrix)
{
    double count = entry->count[matrix];
    for (int64_t i = matrix * entry->columns; i < (matrix + 1) * entry->columns; i++)
        entry->mean[i] = count > 0 ? (float)(entry->sum[i] / count) : 1;
}

/* A new entry, all 0; NULL: no memory, or it is there. */
static importance_entry *add_entry(zt_imatrix *imatrix, const char *name, size_t length, int64_t matrices, int64_t columns)
{
    int64_t total;
    if (imatrix->count == imatrix->capacity) {
        int64_t capacity = imatrix->capacity ? 2 * imatrix->capacity : 64;
        importance_entry *more = zt_realloc(imatrix->ctx, imatrix->entries, (size_t)capacity * sizeof *more);
        if (!more) return NULL;
        imatrix->entries = more;
        imatrix->capacity = capacity;
    }
    if (!zt_mul_i64(matrices, columns, &total)) return NULL;
    importance_entry entry = {.name = zt_strndup(imatrix->ctx, name, length), .matrices = matrices, .columns = columns};
    entry.sum = zt_calloc(imatrix->ctx, (size_t)total, sizeof *entry.sum);
    entry.count = zt_calloc(imatrix->ctx, (size_t)matrices, sizeof *entry.count);
    entry.mean = zt_alloc_array(imatrix->ctx, (size_t)total, sizeof *entry.mean);
    bool good = entry.name && entry.sum && entry.count && entry.mean;
    if (good && find_entry(imatrix, entry.name)) {
        zt_fail(imatrix->ctx, ZT_EDATA, "%s%sduplicate importance entry '%s'", imatrix->file ? imatrix->file : "",
                imatrix->file ? ": " : "", SHOWN(entry.name));
        good = false;
    }
    if (!good || zt_map_put(imatrix->names, entry.name, strlen(entry.name), imatrix->count)) {
        free_entry(imatrix->ctx, &entry);
        return NULL;
    }
    for (int64_t matrix = 0; matrix < matrices; matrix++) make_mean(&entry, matrix);
    imatrix->entries[imatrix->count] = entry;
    return &imatrix->entries[imatrix->count++];
}

/* The entry that has this shape, or a new one; NULL: none. */
static importance_entry *find_or_add_entry(zt_imatrix *imatrix, const char *name, int64_t matrices, int64_t matrix,
                                           int64_t columns, int64_t rows)
{
    importance_entry *entry = find_entry(imatrix, name);
    if (matrices < 1 || matrix < 0 || matrix >= matrices || columns < 1 || rows < 0) {
        zt_fail(imatrix->ctx, ZT_ESHAPE, "importance of '%s': invalid matrix index %lld of %lld or column count %lld", name,
                (long long)matrix, (long long)matrices, (long long)columns);
        return NULL;
    }
    if (!entry) return add_entry(imatrix, name, strlen(name), matrices, columns);
    if (entry->matrices == matrices && entry->columns == columns) return entry;
    zt_fail(imatrix->ctx, ZT_ESHAPE, "importance of '%s': shape [%lld,%lld] differs from the earlier [%lld,%lld]", name,
            (long long)matrices, (long long)columns, (long long)entry->matrices, (long long)entry->columns);
    return NULL;
}

zt_status zt_imatrix_add_sums(zt_imatrix *imatrix, const char *name, int64_t matrices, int64_t matrix, int64_t columns,
                              const double *sum, int64_t rows)
{
    if (!imatrix) return ZT_EUSAGE;
    ZT_REQUIRE(imatrix->ctx, name && (sum || !rows), ZT_EUSAGE);
    importance_entry *entry = find_or_add_entry(imatrix, name, matrices, matrix, columns, rows);
    if (!entry) return zt_ctx_status(imatrix->ctx);
    for (int64_t i = 0; i < columns; i++) entry->sum[matrix * columns + i] += sum[i];
    entry->count[matrix] += (double)rows;
    make_mean(entry, matrix);
    return ZT_OK;
}

zt_status zt_imatrix_add(zt_imatrix *imatrix, const char *name, int64_t matrices, int64_t matrix, int64_t columns,
                         const float *activations, int64_t rows)
{
    if (!imatrix) return ZT_EUSAGE;
    ZT_REQUIRE(imatrix->ctx, name, ZT_EUSAGE);
    importance_entry *entry = find_or_add_entry(imatrix, name, matrices, matrix, columns, rows);
    if (!entry) return zt_ctx_status(imatrix->ctx);
    double *sum = entry->sum + matrix * columns;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < columns; column++)
            sum[column] += (double)activations[row * columns + column] * (double)activations[row * columns + column];
    entry->count[matrix] += (double)rows;
    make_mean(entry, matrix);
    return ZT_OK;
}

zt_status zt_imatrix_about(zt_imatrix *imatrix, const char *dataset, int64_t chunks, int64_t chunk_size)
{
    if (!imatrix) return ZT_EUSAGE;
    ZT_REQUIRE(imatrix->ctx, dataset, ZT_EUSAGE);
    char *name = zt_strdup(imatrix->ctx, dataset);
    if (!name) return ZT_ENOMEM;
    zt_free(imatrix->ctx, imatrix->dataset);
    imatrix->dataset = name;
    imatrix->chunks = chunks;
    imatrix->chunk_size = chunk_size;
    return ZT_OK;
}

int64_t zt_imatrix_count(const zt_imatrix *imatrix) { return imatrix ? imatrix->count : 0; }
int64_t zt_imatrix_chunks(const zt_imatrix *imatrix)
{
    if (!imatrix) return 0;
    return imatrix->chunks;
}
const char *zt_imatrix_dataset(const zt_imatrix *imatrix)
{
    if (!imatrix) return NULL;
    return imatrix->dataset;
}

zt_imatrix_entry zt_imatrix_get(const zt_imatrix *imatrix, int64_t i)
{
    if (!imatrix) return (zt_imatrix_entry){0};
    if (i < 0 || i >= zt_imatrix_count(imatrix)) return (zt_imatrix_entry){0};
    const importance_entry *entry = &imatrix->entries[i];
    return (zt_imatrix_entry){entry->name, entry->matrices, entry->columns, entry->mean};
}

const float *zt_imatrix_find(const zt_imatrix *imatrix, const char *name, int64_t matrix, int64_t columns)
{
    if (!imatrix) return NULL;
    ZT_REQUIRE(imatrix->ctx, name, NULL);
    const importance_entry *entry = find_entry(imatrix, name);
    if (!entry || entry->columns != columns || matrix < 0 || matrix >= entry->matrices) return NULL;
    return entry->mean + matrix * columns;
}

/* ---- shapes -------------------------------------------------------------------------------- */

/* One matrix becomes several, each of as many rows. */
static zt_status split_entry(zt_imatrix *imatrix, importance_entry *entry, int64_t matrices, int64_t columns)
{
    double *count = zt_alloc_array(imatrix->ctx, (size_t)matrices, sizeof *count);
    if (!count) return ZT_ENOMEM;
    for (int64_t matrix = 0; matrix < matrices; matrix++) count[matrix] = entry->count[0];
    zt_free(imatrix->ctx, entry->count);
    entry->count = count;
    entry->matrices = matrices;
    entry->columns = columns;
    return ZT_OK;
}

/* A file without counts says 0 for what was never used. */
static void reset_unused(importance_entry *entry)
{
    for (int64_t matrix = 0; matrix < entry->matrices; matrix++) {
        const double *sum = entry->sum + matrix * entry->columns;
        int64_t i = 0;
        while (i < entry->columns && sum[i] == 0) i++;
        if (i < entry->columns) continue;
        entry->count[matrix] = 0;
        make_mean(entry, matrix);
    }
}

zt_status zt_imatrix_fit(zt_imatrix *imatrix, const char *name, int64_t matrices, int64_t columns, bool *has)
{
    if (!imatrix) return ZT_EUSAGE;
    ZT_REQUIRE(imatrix->ctx, name && has, ZT_EUSAGE);
    importance_entry *entry = find_entry(imatrix, name);
    int64_t all;
    *has = entry != NULL;
    if (!entry) return ZT_OK;
    bool good = matrices >= 1 && columns >= 1 && zt_mul_i64(matrices, columns, &all);
    if (good && entry->matrices == 1 && entry->columns == all && matrices > 1) {
        zt_status status = split_entry(imatrix, entry, matrices, columns);
        if (status) return status;
    }
    if (!good || entry->matrices != matrices || entry->columns != columns)
        return zt_fail(imatrix->ctx, ZT_EDATA,
                       "%s%simportance of '%s' has shape [%lld,%lld], but the tensor has [%lld,%lld] "
                       "matrices and columns",
                       imatrix->file ? imatrix->file : "", imatrix->file ? ": " : "", SHOWN(name), (long long)entry->matrices,
                       (long long)entry->columns, (long long)matrices, (long long)columns);
    reset_unused(entry);
    return ZT_OK;
}

/* ---- GGUF ---------------------------------------------------------------------------------- */

/* Sums or counts of a file, which must be numbers and not negative. */
static zt_status check_values(zt_imatrix *imatrix, const char *file, const char *name, const float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(values[i] >= 0) || isinf(values[i]))
            return zt_fail(imatrix->ctx, ZT_EDATA, "%s: '%s': value %lld is %g: must be finite and nonnegative", file,
                           SHOWN(name), (long long)i, (double)values[i]);
    return ZT_OK;
}

/* f32 tensor i of `gguf` as doubles, `count` of them. */
static zt_status read_doubles(zt_imatrix *imatrix, zt_gguf *gguf, int64_t i, double *out, int64_t count)
{
    zt_type type;
    uint64_t offset;
    size_t bytes;
    const char *name = zt_gguf_tensor(gguf, i, &type, &offset, &bytes);
    zt_store store = zt_gguf_store(gguf);
    if (type.rank < 0 || type.dtype != ZT_F32 || zt_type_count(&type) != count)
        return zt_fail(imatrix->ctx, ZT_EDATA, "%s: '%s' is not a tensor of %lld f32 values", zt_gguf_name(gguf), SHOWN(name),
                       (long long)count);
    float *values = zt_alloc_array(imatrix->ctx, (size_t)count, sizeof *values);
    zt_status status = values ? store.read(store.user, i, 0, values, bytes) : ZT_ENOMEM;
    if (!status) status = check_values(imatrix, zt_gguf_name(gguf), name, values, count);
    for (int64_t k = 0; !status && k < count; k++) out[k] = values[k];
    zt_free(imatrix->ctx, values);
    return status;
}

/* The tensor of the counts that belong to `name`; -1 after a message. */
static int64_t find_counts(zt_imatrix *imatrix, zt_gguf *gguf, const char *name, size_t length)
{
    zt_str text;
    zt_str_init(&text, imatrix->ctx);
    int64_t i = -1;
    if (zt_str_put(&text, name, length) == ZT_OK && zt_str_puts(&text, ".counts") == ZT_OK) {
        i = zt_gguf_find(gguf, text.data);
        if (i < 0) zt_fail(imatrix->ctx, ZT_EDATA, "%s: missing tensor '%s'", zt_gguf_name(gguf), SHOWN(text.data));
    }
    zt_str_fini(&text);
    return i;
}

/* The entry whose sums are tensor i, named `name` and the ending. */
static zt_status read_entry(zt_imatrix *imatrix, zt_gguf *gguf, int64_t i, const char *name, size_t length)
{
    zt_type type;
    uint64_t offset;
    size_t bytes;
    zt_gguf_tensor(gguf, i, &type, &offset, &bytes);
    int64_t counts = find_counts(imatrix, gguf, name, length);
    if (counts < 0) return zt_ctx_status(imatrix->ctx);
    if (type.rank < 1 || type.rank > 3 || zt_type_count(&type) < 1)
        return zt_fail(imatrix->ctx, ZT_EDATA, "%s: '%s' is not a tensor of rank 1 to 3 with at least one element",
                       zt_gguf_name(gguf), SHOWN(name));
    int64_t columns = type.dim[type.rank - 1], matrices = zt_type_count(&type) / columns;
    importance_entry *entry = add_entry(imatrix, name, length, matrices, columns);
    if (!entry) return zt_ctx_status(imatrix->ctx);
    zt_status status = read_doubles(imatrix, gguf, i, entry->sum, matrices * columns);
    if (!status) status = read_doubles(imatrix, gguf, counts, entry->count, matrices);
    for (int64_t k = 0; k < matrices; k++) make_mean(entry, k);
    return status;
}

static zt_status read_gguf(zt_imatrix *imatrix, zt_source *source)
{
    static const char ending[] = ".in_sum2";
    const size_t tail = sizeof ending - 1;
    zt_bytes type, text = {"", 0};
    zt_gguf_kind kind;
    int64_t count;
    zt_gguf *gguf = zt_gguf_from(imatrix->ctx, source);
    if (!gguf) return zt_ctx_status(imatrix->ctx);
    zt_status status = ZT_OK;
    if (!zt_gguf_str(gguf, "general.type", &type) || type.n != 7 || memcmp(type.data, "imatrix", 7))
        status = zt_fail(imatrix->ctx, ZT_EDATA, "%s: not an importance matrix (imatrix) file", zt_gguf_name(gguf));
    zt_gguf_i64(gguf, "imatrix.chunk_count", &imatrix->chunks);
    zt_gguf_i64(gguf, "imatrix.chunk_size", &imatrix->chunk_size);
    if (zt_gguf_array(gguf, "imatrix.datasets", &kind, &count) && count > 0)
        text = zt_gguf_array_str(gguf, "imatrix.datasets", 0);
    imatrix->dataset = zt_strndup(imatrix->ctx, text.data, text.n);
    if (!status && !imatrix->dataset) status = ZT_ENOMEM;
    for (int64_t i = 0; !status && i < zt_gguf_n_tensors(gguf); i++) {
        zt_type tensor_type;
        uint64_t offset;
        size_t bytes;
        const char *name = zt_gguf_tensor(gguf, i, &tensor_type, &offset, &bytes);
        size_t length = strlen(name);
        if (length > tail && strcmp(name + length - tail, ending) == 0)
            status = read_entry(imatrix, gguf, i, name, length - tail);
    }
    zt_gguf_close(gguf);
    return status;
}

static zt_status put_header(const zt_imatrix *imatrix, zt_sink *out)
{
    zt_gguf_writer *writer = zt_gguf_writer_new(imatrix->ctx);
    if (!writer) return ZT_ENOMEM;
    const char *dataset = imatrix->dataset ? imatrix->dataset : "";
    zt_bytes text = {dataset, strlen(dataset)};
    zt_gguf_put_str(writer, "general.type", "imatrix", 7);
    zt_gguf_put_strs(writer, "imatrix.datasets", &text, 1);
    zt_gguf_put_int(writer, "imatrix.chunk_count", ZT_GGUF_U32, imatrix->chunks);
    zt_gguf_put_int(writer, "imatrix.chunk_size", ZT_GGUF_U32, imatrix->chunk_size);
    for (int64_t i = 0; i < imatrix->count; i++) {
        const importance_entry *entry = &imatrix->entries[i];
        char name[256];
        zt_type sums = zt_type_make(ZT_F32, 2, (int64_t[]){entry->matrices, entry->columns});
        zt_type counts = zt_type_make(ZT_F32, 2, (int64_t[]){entry->matrices, 1});
        snprintf(name, sizeof name, "%s.in_sum2", entry->name);
        zt_gguf_put_tensor(writer, name, &sums);
        snprintf(name, sizeof name, "%s.counts", entry->name);
        zt_gguf_put_tensor(writer, name, &counts);
    }
    size_t size;
    char *header = zt_gguf_writer_finish(writer, &size, NULL);
    zt_status status = header ? zt_sink_write(out, header, size) : zt_gguf_writer_status(writer);
    zt_free(imatrix->ctx, header);
    zt_gguf_writer_free(writer);
    return status;
}

enum { ALIGN = 32 };

/* `count` doubles as f32, padded. */
static zt_status put_floats(const zt_imatrix *imatrix, zt_sink *out, const double *values, int64_t count)
{
    size_t bytes = ((size_t)count * 4 + ALIGN - 1) / ALIGN * ALIGN;
    float *floats = zt_calloc(imatrix->ctx, bytes, 1);
    if (!floats) return ZT_ENOMEM;
    for (int64_t i = 0; i < count; i++) floats[i] = (float)values[i];
    zt_status status = zt_sink_write(out, floats, bytes);
    zt_free(imatrix->ctx, floats);
    return status;
}

zt_status zt_imatrix_write(const zt_imatrix *imatrix, zt_sink *out)
{
    if (!imatrix) return ZT_EUSAGE;
    ZT_REQUIRE(imatrix->ctx, out, ZT_EUSAGE);
    zt_status status = put_header(imatrix, out);
    for (int64_t i = 0; !status && i < imatrix->count; i++) {
        const importance_entry *entry = &imatrix->entries[i];
        status = put_floats(imatrix, out, entry->sum, entry->matrices * entry->columns);
        if (!status) status = put_floats(imatrix, out, entry->count, entry->matrices);
    }
    return status;
}

/* ---- the older form ------------------------------------------------------------------------ */

typedef struct dat_cursor {
    zt_imatrix *imatrix;
    const zt_source *source;
    uint64_t position;
} dat_cursor;

static zt_status get_i32(dat_cursor *cursor, int32_t *out)
{
    zt_status status = zt_source_read(cursor->source, cursor->position, out, 4);
    cursor->position += 4;
    return status;
}

/* A count that the rest of the file has room for. */
static zt_status get_count(dat_cursor *cursor, const char *noun, size_t size, int32_t *out)
{
    zt_status status = get_i32(cursor, out);
    if (status) return status;
    uint64_t left = zt_source_size(cursor->source) - cursor->position;
    if (*out < 0 || (uint64_t)*out * size > left)
        return zt_fail(cursor->imatrix->ctx, ZT_EDATA, "%s: %s count %d at byte %llu exceeds the file: %llu bytes left",
                       zt_source_name(cursor->source), noun, *out, (unsigned long long)cursor->position - 4,
                       (unsigned long long)left);
    return ZT_OK;
}

static char *get_text(dat_cursor *cursor, zt_status *status)
{
    int32_t length;
    *status = get_count(cursor, "name byte", 1, &length);
    char *text = *status ? NULL : zt_calloc(cursor->imatrix->ctx, (size_t)length + 1, 1);
    if (!*status && !text) *status = ZT_ENOMEM;
    if (!*status) *status = zt_source_read(cursor->source, cursor->position, text, (size_t)length);
    cursor->position += (uint64_t)(*status ? 0 : length);
    return text;
}

static zt_status get_entry(dat_cursor *cursor)
{
    zt_imatrix *imatrix = cursor->imatrix;
    zt_status status;
    int32_t calls = 0, count = 0;
    char *name = get_text(cursor, &status);
    if (!status) status = get_i32(cursor, &calls);
    if (!status) status = get_count(cursor, "value", 4, &count);
    if (!status && (count < 1 || calls < 0))
        status = zt_fail(imatrix->ctx, ZT_EDATA, "%s: '%s': invalid value count %d or call count %d",
                         zt_source_name(cursor->source), SHOWN(name), count, calls);
    importance_entry *entry = status ? NULL : add_entry(imatrix, name, strlen(name), 1, count);
    float *values = entry ? zt_alloc_array(imatrix->ctx, (size_t)count, sizeof *values) : NULL;
    if (!status) status = values ? zt_source_read(cursor->source, cursor->position, values, (size_t)count * 4) : ZT_ENOMEM;
    if (!status) status = check_values(imatrix, zt_source_name(cursor->source), name, values, count);
    if (!status) {
        for (int32_t i = 0; i < count; i++) entry->sum[i] = values[i];
        entry->count[0] = calls > 0 ? calls : 1;
        make_mean(entry, 0);
        cursor->position += (uint64_t)count * 4;
    }
    zt_free(imatrix->ctx, values);
    zt_free(imatrix->ctx, name);
    return status;
}

static zt_status read_dat(zt_imatrix *imatrix, zt_source *source)
{
    char head[ZT_FOREIGN_HEAD];
    size_t received = 0;
    dat_cursor cursor = {imatrix, source, 0};
    int32_t count, chunks;
    zt_status status = zt_source_read_some(source, 0, head, sizeof head, 0, &received);
    if (!status) status = zt_foreign_fail(imatrix->ctx, zt_source_name(source), head, received);
    if (!status) status = get_count(&cursor, "entries", 12, &count);
    for (int32_t i = 0; !status && i < count; i++) status = get_entry(&cursor);
    if (status || cursor.position == zt_source_size(source)) return status; /* the oldest end here */
    status = get_i32(&cursor, &chunks);
    if (!status) imatrix->chunks = chunks > 0 ? chunks : 0;
    if (!status) imatrix->dataset = get_text(&cursor, &status);
    return status;
}

static zt_status put_i32(zt_sink *out, int64_t value)
{
    int32_t number = value > INT32_MAX ? INT32_MAX : (int32_t)value;
    return zt_sink_write(out, &number, 4);
}

static zt_status put_text(zt_sink *out, const char *text)
{
    zt_status status = put_i32(out, (int64_t)strlen(text));
    return status ? status : zt_sink_write(out, text, strlen(text));
}

static zt_status put_entry(const zt_imatrix *imatrix, const importance_entry *entry, zt_sink *out)
{
    int64_t total = entry->matrices * entry->columns, calls = imatrix->chunks > 0 ? imatrix->chunks : 1;
    zt_status status = put_text(out, entry->name);
    if (!status) status = put_i32(out, calls);
    if (!status) status = put_i32(out, total);
    for (int64_t i = 0; !status && i < total; i++) {
        float value = (float)((double)entry->mean[i] * (double)calls);
        status = zt_sink_write(out, &value, 4);
    }
    return status;
}

zt_status zt_imatrix_write_dat(const zt_imatrix *imatrix, zt_sink *out)
{
    if (!imatrix) return ZT_EUSAGE;
    ZT_REQUIRE(imatrix->ctx, out, ZT_EUSAGE);
    zt_status status = put_i32(out, imatrix->count);
    for (int64_t i = 0; !status && i < imatrix->count; i++) status = put_entry(imatrix, &imatrix->entries[i], out);
    if (!status) status = put_i32(out, imatrix->chunks);
    return status ? status : put_text(out, imatrix->dataset ? imatrix->dataset : "");
}

/* ---- either -------------------------------------------------------------------------------- */

zt_imatrix *zt_imatrix_from(zt_ctx *ctx, zt_source *source)
{
    ZT_REQUIRE(ctx, source, NULL);
    char head[4] = "";
    zt_imatrix *imatrix = zt_imatrix_new(ctx);
    if (!imatrix) return NULL;
    imatrix->file = zt_strdup(ctx, zt_source_name(source));
    zt_status status = imatrix->file ? zt_source_read(source, 0, head, sizeof head) : ZT_ENOMEM;
    if (!status) status = memcmp(head, "GGUF", 4) == 0 ? read_gguf(imatrix, source) : read_dat(imatrix, source);
    if (!status) return imatrix;
    zt_imatrix_close(imatrix);
    return NULL;
}

zt_imatrix *zt_imatrix_open(zt_ctx *ctx, const char *path)
{
    ZT_REQUIRE(ctx, path, NULL);
    zt_source *source = zt_source_open(ctx, path);
    zt_imatrix *imatrix = source ? zt_imatrix_from(ctx, source) : NULL;
    zt_source_close(source);
    return imatrix;
}
