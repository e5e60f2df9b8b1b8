/* csv.c - a tensor as lines of numbers with commas between, in and out. */
#include "tools/zt-run/tensors.h"

#include <inttypes.h>
#include <string.h>

bool run_is_csv(const char *path)
{
    size_t n = path ? strlen(path) : 0;
    return n >= 4 && !strcmp(path + n - 4, ".csv");
}

bool run_looks_csv(const zt_source *s)
{
    char head[16];
    size_t n = zt_source_size(s) < sizeof head ? (size_t)zt_source_size(s) : sizeof head;
    if (n == 0 || zt_source_read(s, 0, head, n) || (n >= 4 && !memcmp(head, "GGUF", 4)) ||
        (n >= 2 && !memcmp(head, "PK", 2)) || strchr("{[", *head))
        return false;
    for (size_t i = 0; i < n; i++)
        if ((head[i] < ' ' && !memchr("\t\r\n", head[i], 3)) || head[i] == 127) return false;
    return true;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* NumPy's words for what a number of a CSV file can become. */
static const struct word {
    zt_dtype dtype;
    const char *word;
} words[] = {{ZT_F64, "<f8"}, {ZT_F32, "<f4"}, {ZT_F16, "<f2"}, {ZT_I64, "<i8"},
             {ZT_I32, "<i4"}, {ZT_I16, "<i2"}, {ZT_I8, "|i1"},  {ZT_U64, "<u8"},
             {ZT_U32, "<u4"}, {ZT_U16, "<u2"}, {ZT_U8, "|u1"},  {ZT_BOOL, "|b1"}};

static const char *word_of(zt_dtype t)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].dtype == t) return words[i].word;
    return NULL;
}

/* Is a whole number x one of the type? */
static bool fits(zt_dtype t, int64_t x)
{
    double least, most;
    zt_dtype_range(t, &least, &most);
    return t == ZT_BOOL ? x == 0 || x == 1 : (double)x >= least && (double)x <= most;
}

/* One cell, n bytes, as an element at `to`. */
static bool take_cell(const char *cell, size_t n, zt_dtype t, void *to)
{
    char text[64];
    double x;
    int64_t i;
    while (n && memchr(" \t\r", cell[n - 1], 3)) n--;
    while (n && memchr(" \t", *cell, 2)) cell++, n--;
    if (n == 0 || n >= sizeof text) return false;
    snprintf(text, sizeof text, "%.*s", (int)n, cell);
    if (t == ZT_F64) return zt_parse_double(text, to);
    if (zt_dtype_is_float(t)) {
        if (!zt_parse_double(text, &x)) return false;
        zt_dtype_convert(ZT_F64, &x, t, to, 1);
        return true;
    }
    if (!zt_parse_i64(text, &i) || !fits(t, i)) return false;
    memcpy(to, &i, (size_t)zt_dtype_get(t)->block_bytes); /* little endian: the low bytes */
    return true;
}

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct reader {
    zt_ctx *ctx;
    const char *path;
    zt_dtype dtype;
    zt_str data;
    int64_t rows, columns;
} reader;

static zt_status take_line(reader *r, const char *at, const char *end, int64_t line)
{
    size_t size = (size_t)zt_dtype_get(r->dtype)->block_bytes;
    int64_t columns = 0;
    char shown[48];
    unsigned char element[8];
    for (const char *cell = at; cell <= end; columns++) {
        const char *comma = memchr(cell, ',', (size_t)(end - cell)), *stop = comma ? comma : end;
        if (!take_cell(cell, (size_t)(stop - cell), r->dtype, element)) {
            if (r->rows == 0 && line == 1 && columns == 0) return ZT_OK; /* names of the columns */
            return zt_fail(r->ctx, ZT_EDATA, "%s:%" PRId64 ": '%s' is no %s", r->path, line,
                           zt_escape(shown, sizeof shown, cell, (size_t)(stop - cell)),
                           zt_dtype_get(r->dtype)->name);
        }
        if (zt_str_put(&r->data, element, size)) return ZT_ENOMEM;
        cell = stop + 1;
    }
    if (r->rows > 0 && columns != r->columns)
        return zt_fail(r->ctx, ZT_EDATA, "%s:%" PRId64 ": %" PRId64 " numbers, the first line has "
                       "%" PRId64, r->path, line, columns, r->columns);
    r->columns = columns;
    r->rows++;
    return ZT_OK;
}

static zt_status take_lines(reader *r, const char *text, size_t n)
{
    const char *end = text + n;
    zt_status s = ZT_OK;
    int64_t line = 1;
    for (const char *at = text; at < end && !s; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        bool empty = stop == at || (stop == at + 1 && *at == '\r');
        if (!empty) s = take_line(r, at, stop, line);
        at = stop + 1;
    }
    return s;
}

/* ---- an array -------------------------------------------------------------------------------- */

/* The shape of the numbers, as far as the type that is wanted leaves it open. */
static zt_status shape(const reader *r, const zt_type *want, zt_type *t)
{
    int64_t rest = 1, count = r->rows * r->columns;
    *t = zt_type_make(want->dtype, want->rank, want->dim);
    if (want->rank == 1) t->dim[0] = r->rows == 1 || r->columns == 1 ? count : -1;
    if (want->rank == 2) t->dim[1] = r->columns;
    if (want->rank >= 2) t->dim[0] = r->rows;
    for (int d = 1; d < t->rank; d++)
        if (t->dim[d] < 0 || !zt_mul_i64(rest, t->dim[d], &rest)) rest = -1;
    if (want->rank == 0 ? count == 1 : want->rank == 1 ? t->dim[0] >= 0 : rest == r->columns)
        return ZT_OK;
    return zt_fail(r->ctx, ZT_EDATA, "%s: %" PRId64 " lines of %" PRId64
                   " numbers are no tensor of the %d dimensions that the input has", r->path,
                   r->rows, r->columns, want->rank);
}

/* The same bytes as an npy file. NumPy's format 1.0: the header fills up to a multiple of 64. */
static char *npy_of(zt_ctx *ctx, const zt_type *t, const zt_str *data, size_t *n)
{
    zt_str head;
    zt_str_init(&head, ctx);
    zt_str_printf(&head, "{'descr': '%s', 'fortran_order': False, 'shape': (", word_of(t->dtype));
    for (int d = 0; d < t->rank; d++) zt_str_printf(&head, "%" PRId64 ",", t->dim[d]);
    zt_str_puts(&head, "), }");
    while ((10 + head.len + 1) % 64 && !zt_ctx_status(ctx)) zt_str_putc(&head, ' ');
    zt_str_putc(&head, '\n');
    *n = 10 + head.len + data->len;
    char *npy = zt_ctx_status(ctx) ? NULL : zt_alloc(ctx, *n);
    if (npy) {
        memcpy(npy, "\x93NUMPY\x01", 8);
        npy[8] = (char)(head.len & 0xff);
        npy[9] = (char)(head.len >> 8);
        memcpy(npy + 10, head.data, head.len);
        if (data->len) memcpy(npy + 10 + head.len, data->data, data->len);
    }
    zt_str_fini(&head);
    return npy;
}

zt_checkpoint *run_csv_read(zt_ctx *ctx, const zt_source *src, const zt_type *want, char **bytes)
{
    const char *path = zt_source_name(src);
    size_t n = (size_t)zt_source_size(src);
    zt_type t;
    *bytes = NULL;
    if (!word_of(want->dtype)) {
        zt_fail(ctx, ZT_ENOTSUP, "%s: an input of type %s does not come from CSV", path,
                zt_dtype_get(want->dtype)->name);
        return NULL;
    }
    reader r = {.ctx = ctx, .path = path, .dtype = want->dtype};
    zt_str_init(&r.data, ctx);
    char *text = zt_alloc(ctx, n + 1);
    zt_status s = text ? zt_source_read(src, 0, text, n) : ZT_ENOMEM;
    if (!s) s = zt_foreign_fail(ctx, path, text, n);
    if (!s) s = take_lines(&r, text, n);
    if (!s) s = shape(&r, want, &t);
    if (!s) *bytes = npy_of(ctx, &t, &r.data, &n);
    zt_free(ctx, text);
    zt_str_fini(&r.data);
    return *bytes ? zt_checkpoint_take(ctx, zt_source_memory(ctx, path, *bytes, n)) : NULL;
}

/* ---- out ------------------------------------------------------------------------------------- */

static void put_cell(zt_dtype t, const char *at, zt_str *out)
{
    const zt_dtype_info *info = zt_dtype_get(t);
    double x;
    float f;
    int64_t i = 0;
    if (info->kind == 'F') {
        if (t == ZT_F64) memcpy(&x, at, sizeof x);
        if (t != ZT_F64) info->decode(at, &f, 1);
        if (t == ZT_F64)
            zt_str_put_double(out, x);
        else
            zt_str_printf(out, "%.9g", (double)f);
        return;
    }
    memcpy(&i, at, (size_t)info->block_bytes);
    int unused = 64 - 8 * info->block_bytes;
    if (info->kind == 'I')
        zt_str_printf(out, "%" PRId64, (int64_t)((uint64_t)i << unused) >> unused);
    else
        zt_str_printf(out, "%" PRIu64, (uint64_t)i);
}

zt_status run_csv_put(const zt_type *t, const void *data, zt_str *out)
{
    if (zt_dtype_get(t->dtype)->kind == 'Q')
        return zt_fail(out->ctx, ZT_ENOTSUP, "an output of type %s does not become CSV",
                       zt_dtype_get(t->dtype)->name);
    int64_t count = zt_type_count(t), rows = t->rank ? t->dim[0] : 1;
    int64_t columns = rows ? count / rows : 0;
    size_t size = (size_t)zt_dtype_get(t->dtype)->block_bytes;
    for (int64_t i = 0; i < count; i++) {
        put_cell(t->dtype, (const char *)data + (size_t)i * size, out);
        zt_str_putc(out, (i + 1) % columns ? ',' : '\n');
    }
    return zt_ctx_status(out->ctx);
}
