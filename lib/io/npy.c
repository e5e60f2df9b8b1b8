/* npy.c - owns .npy files: opening and reading one, and the header that is written. */
#include "lib/base/require.h"
#include "lib/io/npy.h"
#include "lib/io/array_file.h"
#include "lib/io/npy_array.h"

#include <inttypes.h>
#include <string.h>

/* NumPy's words for dtypes; NULL where it has none. */
static const char *const dtype_words[ZT_DTYPE_COUNT] = {
    [ZT_F64] = "<f8", [ZT_F32] = "<f4", [ZT_F16] = "<f2",  [ZT_I64] = "<i8", [ZT_I32] = "<i4", [ZT_I16] = "<i2",
    [ZT_I8] = "|i1",  [ZT_U8] = "|u1",  [ZT_BOOL] = "|b1", [ZT_U64] = "<u8", [ZT_U32] = "<u4", [ZT_U16] = "<u2",
};

enum { PREFIX = 10, ALIGN = 64 }; /* magic, version and length; where the data begin */

/* "(2, 3)", and "(2,)" for one dimension, as Python writes tuples. */
static void put_shape(zt_str *text, const zt_type *type)
{
    zt_str_puts(text, "(");
    for (int i = 0; i < type->rank; i++) zt_str_printf(text, "%s%" PRId64, i ? ", " : "", type->dim[i]);
    zt_str_puts(text, type->rank == 1 ? ",)" : ")");
}

const char *zt_npy_word(zt_dtype dtype) { return dtype_words[dtype]; }

zt_status zt_npy_header(zt_str *out, const zt_type *type)
{
    char prefix[PREFIX] = "\x93NUMPY\x01";
    zt_str text;
    if (!dtype_words[type->dtype])
        return zt_fail(out->ctx, ZT_ENOTSUP, "npy cannot store dtype %s", zt_dtype_get(type->dtype)->name);
    zt_str_init(&text, out->ctx);
    zt_str_printf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': ", dtype_words[type->dtype]);
    put_shape(&text, type);
    zt_str_puts(&text, ", }");
    while ((PREFIX + text.len + 1) % ALIGN != 0 && zt_str_putc(&text, ' ') == ZT_OK) continue;
    zt_status status = zt_str_putc(&text, '\n');
    prefix[8] = (char)(text.len & 0xff);
    prefix[9] = (char)(text.len >> 8);
    if (status == ZT_OK) status = zt_str_put(out, prefix, PREFIX);
    if (status == ZT_OK) status = zt_str_put(out, text.data, text.len);
    zt_str_fini(&text);
    return status;
}

zt_status zt_npy_write_header(zt_sink *out, zt_ctx *ctx, const zt_type *type)
{
    if (!out || !ctx || !type) return ZT_EUSAGE;
    zt_str text;
    zt_str_init(&text, ctx);
    zt_status status = zt_npy_header(&text, type);
    if (status == ZT_OK) status = zt_sink_write(out, text.data, text.len);
    zt_str_fini(&text);
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct zt_npy {
    zt_array_file base;
    zt_gather *gather;
    npy_array array;
};

static zt_status fetch_bytes(void *user, uint64_t offset, void *dst, size_t size)
{
    return zt_source_read(user, offset, dst, size);
}

static const zt_array *get_array(const zt_array_file *file, int64_t i)
{
    (void)i;
    return &((const zt_npy *)file)->array.array;
}

static zt_status read_array(zt_array_file *file, int64_t i, size_t offset, void *dst, size_t size)
{
    zt_npy *npy = (zt_npy *)file;
    return zt_gather_read(npy->gather, &npy->array.layout, i, offset, dst, size, fetch_bytes, file->source);
}

static void close_npy(zt_array_file *file) { zt_gather_free(((zt_npy *)file)->gather); }

static const zt_array_file_ops npy_ops = {.get = get_array, .read = read_array, .close = close_npy};

bool zt_npy_sniff(const void *bytes, size_t size) { return bytes && size >= 6 && memcmp(bytes, "\x93NUMPY", 6) == 0; }

static zt_npy *open_source(zt_ctx *ctx, zt_source *source, bool owns)
{
    zt_npy *npy = zt_array_file_new(ctx, &npy_ops, sizeof *npy, source, owns);
    if (!npy) return NULL;
    npy->base.count = 1;
    npy->gather = zt_gather_new(ctx);
    if (npy->gather && zt_npy_array_parse(ctx, npy->base.name, zt_source_size(source), fetch_bytes, source, npy->base.arena,
                                          &npy->array) == ZT_OK) {
        npy->array.array.name = "";
        return npy;
    }
    zt_npy_close(npy);
    return NULL;
}

zt_npy *zt_npy_open(zt_ctx *ctx, const char *path)
{
    ZT_REQUIRE(ctx, path, NULL);
    zt_source *source = zt_source_open(ctx, path);
    return source ? open_source(ctx, source, true) : NULL;
}

zt_npy *zt_npy_from(zt_ctx *ctx, zt_source *source)
{
    ZT_REQUIRE(ctx, source, NULL);
    return open_source(ctx, source, false);
}

zt_npy *zt_npy_take(zt_ctx *ctx, zt_source *source)
{
    ZT_REQUIRE(ctx, source, NULL);
    return open_source(ctx, source, true);
}

void zt_npy_close(zt_npy *npy) { zt_array_file_close((zt_array_file *)npy); }

int64_t zt_npy_count(const zt_npy *npy) { return npy ? npy->base.count : 0; }

const zt_array *zt_npy_get(const zt_npy *npy, int64_t i) { return get_array(&npy->base, i); }

int64_t zt_npy_find(const zt_npy *npy, const char *name)
{
    if (!npy) return -1;
    ZT_REQUIRE(npy->base.ctx, name, -1);
    return zt_array_file_find(&npy->base, name);
}

zt_status zt_npy_read(zt_npy *npy, int64_t i, size_t offset, void *dst, size_t size)
{
    if (!npy) return ZT_EUSAGE;
    ZT_REQUIRE(npy->base.ctx, dst || !size, ZT_EUSAGE);
    return zt_array_file_read(&npy->base, i, offset, dst, size);
}

zt_store zt_npy_store(zt_npy *npy) { return zt_array_file_store(&npy->base); }
