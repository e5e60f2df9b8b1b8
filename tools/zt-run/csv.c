/* csv.c - a tensor as lines of numbers with commas between, in and out. */
#include "tools/zt-run/tensors.h"

#include <inttypes.h>
#include <string.h>

bool run_is_csv(const char *path)
{
    size_t length = path ? strlen(path) : 0;
    return length >= 4 && !strcmp(path + length - 4, ".csv");
}

bool run_looks_csv(const zt_source *source)
{
    char head[16];
    size_t size = zt_source_size(source) < sizeof head ? (size_t)zt_source_size(source) : sizeof head;
    if (size == 0 || zt_source_read(source, 0, head, size) || (size >= 4 && !memcmp(head, "GGUF", 4)) ||
        (size >= 2 && !memcmp(head, "PK", 2)) || strchr("{[", *head))
        return false;
    for (size_t i = 0; i < size; i++)
        if ((head[i] < ' ' && !memchr("\t\r\n", head[i], 3)) || head[i] == 127) return false;
    return true;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* NumPy's names for the types that a CSV file can be read as. */
static const struct npy_type {
    zt_dtype dtype;
    const char *word;
} npy_types[] = {{ZT_F64, "<f8"}, {ZT_F32, "<f4"}, {ZT_F16, "<f2"}, {ZT_I64, "<i8"}, {ZT_I32, "<i4"}, {ZT_I16, "<i2"},
                 {ZT_I8, "|i1"},  {ZT_U64, "<u8"}, {ZT_U32, "<u4"}, {ZT_U16, "<u2"}, {ZT_U8, "|u1"},  {ZT_BOOL, "|b1"}};

static const char *npy_type_of(zt_dtype dtype)
{
    for (size_t i = 0; i < sizeof npy_types / sizeof *npy_types; i++)
        if (npy_types[i].dtype == dtype) return npy_types[i].word;
    return NULL;
}

/* Is the number in the range of the type? */
static bool fits_type(zt_dtype dtype, int64_t number)
{
    double least, most;
    zt_dtype_range(dtype, &least, &most);
    return dtype == ZT_BOOL ? number == 0 || number == 1 : (double)number >= least && (double)number <= most;
}

/* Parses a cell of the given length into *element. */
static bool parse_cell(const char *cell, size_t length, zt_dtype dtype, void *element)
{
    char text[64];
    double number;
    int64_t integer;
    while (length && memchr(" \t\r", cell[length - 1], 3)) length--;
    while (length && memchr(" \t", *cell, 2)) cell++, length--;
    if (length == 0 || length >= sizeof text) return false;
    snprintf(text, sizeof text, "%.*s", (int)length, cell);
    if (dtype == ZT_F64) return zt_parse_double(text, element);
    if (zt_dtype_is_float(dtype)) {
        if (!zt_parse_double(text, &number)) return false;
        zt_dtype_convert(ZT_F64, &number, dtype, element, 1);
        return true;
    }
    if (!zt_parse_i64(text, &integer) || !fits_type(dtype, integer)) return false;
    memcpy(element, &integer, (size_t)zt_dtype_get(dtype)->block_bytes); /* little endian: the low bytes */
    return true;
}

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct csv_reader {
    zt_ctx *ctx;
    const char *path;
    zt_dtype dtype;
    zt_str data;
    int64_t row_count, column_count;
} csv_reader;

static zt_status read_row(csv_reader *reader, const char *line, const char *line_end, int64_t line_number)
{
    size_t size = (size_t)zt_dtype_get(reader->dtype)->block_bytes;
    int64_t columns = 0;
    char shown[48];
    unsigned char element[8];
    for (const char *cell = line; cell <= line_end; columns++) {
        const char *comma = memchr(cell, ',', (size_t)(line_end - cell)), *stop = comma ? comma : line_end;
        if (!parse_cell(cell, (size_t)(stop - cell), reader->dtype, element)) {
            if (reader->row_count == 0 && line_number == 1 && columns == 0) return ZT_OK; /* names of the columns */
            return zt_fail(reader->ctx, ZT_EDATA, "%s:%" PRId64 ": '%s' is not a valid %s", reader->path, line_number,
                           zt_escape(shown, sizeof shown, cell, (size_t)(stop - cell)), zt_dtype_get(reader->dtype)->name);
        }
        if (zt_str_put(&reader->data, element, size)) return ZT_ENOMEM;
        cell = stop + 1;
    }
    if (reader->row_count > 0 && columns != reader->column_count)
        return zt_fail(reader->ctx, ZT_EDATA, "%s:%" PRId64 ": %" PRId64 " numbers, expected %" PRId64 " as in the first line",
                       reader->path, line_number, columns, reader->column_count);
    reader->column_count = columns;
    reader->row_count++;
    return ZT_OK;
}

static zt_status read_rows(csv_reader *reader, const char *text, size_t size)
{
    const char *end = text + size;
    zt_status status = ZT_OK;
    int64_t line_number = 1;
    for (const char *line = text; line < end && !status; line_number++) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        bool empty = stop == line || (stop == line + 1 && *line == '\r');
        if (!empty) status = read_row(reader, line, stop, line_number);
        line = stop + 1;
    }
    return status;
}

/* ---- an array -------------------------------------------------------------------------------- */

/* The shape of the numbers, as far as the type that is wanted leaves it open. */
static zt_status find_shape(const csv_reader *reader, const zt_type *wanted, zt_type *type)
{
    int64_t rest = 1, count = reader->row_count * reader->column_count;
    *type = zt_type_make(wanted->dtype, wanted->rank, wanted->dim);
    if (wanted->rank == 1) type->dim[0] = reader->row_count == 1 || reader->column_count == 1 ? count : -1;
    if (wanted->rank == 2) type->dim[1] = reader->column_count;
    if (wanted->rank >= 2) type->dim[0] = reader->row_count;
    for (int axis = 1; axis < type->rank; axis++)
        if (type->dim[axis] < 0 || !zt_mul_i64(rest, type->dim[axis], &rest)) rest = -1;
    if (wanted->rank == 0 ? count == 1 : wanted->rank == 1 ? type->dim[0] >= 0 : rest == reader->column_count) return ZT_OK;
    return zt_fail(reader->ctx, ZT_EDATA, "%s: %" PRId64 " lines of %" PRId64 " numbers do not fit an input of %d dimensions",
                   reader->path, reader->row_count, reader->column_count, wanted->rank);
}

/* The data as an npy file of format 1.0:
 *
 *   bytes    what
 *   8        "\x93NUMPY", version 1, 0
 *   2        length of the header, little endian
 *   length   the header: a Python dict as text, then spaces and a newline, up to a multiple of 64 bytes
 *   ...      the data */
static char *npy_of(zt_ctx *ctx, const zt_type *type, const zt_str *data, size_t *size)
{
    zt_str head;
    zt_str_init(&head, ctx);
    zt_str_printf(&head, "{'descr': '%s', 'fortran_order': False, 'shape': (", npy_type_of(type->dtype));
    for (int axis = 0; axis < type->rank; axis++) zt_str_printf(&head, "%" PRId64 ",", type->dim[axis]);
    zt_str_puts(&head, "), }");
    while ((10 + head.len + 1) % 64 && !zt_ctx_status(ctx)) zt_str_putc(&head, ' ');
    zt_str_putc(&head, '\n');
    *size = 10 + head.len + data->len;
    char *npy = zt_ctx_status(ctx) ? NULL : zt_alloc(ctx, *size);
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

zt_checkpoint *run_csv_read(zt_ctx *ctx, const zt_source *source, const zt_type *wanted, char **bytes)
{
    const char *path = zt_source_name(source);
    size_t size = (size_t)zt_source_size(source);
    zt_type type;
    *bytes = NULL;
    if (!npy_type_of(wanted->dtype)) {
        zt_fail(ctx, ZT_ENOTSUP, "%s: CSV is not supported for an input of type %s", path, zt_dtype_get(wanted->dtype)->name);
        return NULL;
    }
    csv_reader reader = {.ctx = ctx, .path = path, .dtype = wanted->dtype};
    zt_str_init(&reader.data, ctx);
    char *text = zt_alloc(ctx, size + 1);
    zt_status status = text ? zt_source_read(source, 0, text, size) : ZT_ENOMEM;
    if (!status) status = zt_foreign_fail(ctx, path, text, size);
    if (!status) status = read_rows(&reader, text, size);
    if (!status) status = find_shape(&reader, wanted, &type);
    if (!status) *bytes = npy_of(ctx, &type, &reader.data, &size);
    zt_free(ctx, text);
    zt_str_fini(&reader.data);
    return *bytes ? zt_checkpoint_take(ctx, zt_source_memory(ctx, path, *bytes, size)) : NULL;
}

/* ---- out ------------------------------------------------------------------------------------- */

static void write_cell(zt_dtype dtype, const char *element, zt_str *out)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    double number;
    float single;
    int64_t integer = 0;
    if (info->kind == 'F') {
        if (dtype == ZT_F64) memcpy(&number, element, sizeof number);
        if (dtype != ZT_F64) info->decode(element, &single, 1);
        if (dtype == ZT_F64)
            zt_str_put_double(out, number);
        else
            zt_str_printf(out, "%.9g", (double)single);
        return;
    }
    memcpy(&integer, element, (size_t)info->block_bytes);
    int unused = 64 - 8 * info->block_bytes;
    if (info->kind == 'I')
        zt_str_printf(out, "%" PRId64, (int64_t)((uint64_t)integer << unused) >> unused);
    else
        zt_str_printf(out, "%" PRIu64, (uint64_t)integer);
}

zt_status run_csv_put(const zt_type *type, const void *data, zt_str *out)
{
    if (zt_dtype_get(type->dtype)->kind == 'Q')
        return zt_fail(out->ctx, ZT_ENOTSUP, "CSV is not supported for an output of type %s", zt_dtype_get(type->dtype)->name);
    int64_t count = zt_type_count(type), rows = type->rank ? type->dim[0] : 1;
    int64_t columns = rows ? count / rows : 0;
    size_t size = (size_t)zt_dtype_get(type->dtype)->block_bytes;
    for (int64_t i = 0; i < count; i++) {
        write_cell(type->dtype, (const char *)data + (size_t)i * size, out);
        zt_str_putc(out, (i + 1) % columns ? ',' : '\n');
    }
    return zt_ctx_status(out->ctx);
}
