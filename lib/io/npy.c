/* npy.c - owns .npy files: opening and reading one, and the header that is written. */
#include "lib/io/npy.h"
#include "lib/io/npy_array.h"

#include <inttypes.h>
#include <string.h>

/* NumPy's words for dtypes; NULL where it has none. */
static const char *const dtype_words[ZT_DTYPE_COUNT] = {
    [ZT_F64] = "<f8",  [ZT_F32] = "<f4", [ZT_F16] = "<f2", [ZT_I64] = "<i8",
    [ZT_I32] = "<i4",  [ZT_I16] = "<i2", [ZT_I8] = "|i1",  [ZT_U8] = "|u1",
    [ZT_BOOL] = "|b1", [ZT_U64] = "<u8", [ZT_U32] = "<u4", [ZT_U16] = "<u2",
};

enum { PREFIX = 10, ALIGN = 64 }; /* magic, version and length; where the data begin */

/* "(2, 3)", and "(2,)" for one dimension, as Python writes tuples. */
static void put_shape(zt_str *text, const zt_type *type)
{
    zt_str_puts(text, "(");
    for (int i = 0; i < type->rank; i++)
        zt_str_printf(text, "%s%" PRId64, i ? ", " : "", type->dim[i]);
    zt_str_puts(text, type->rank == 1 ? ",)" : ")");
}

const char *zt_npy_word(zt_dtype dtype)
{
    return dtype_words[dtype];
}

zt_status zt_npy_header(zt_str *out, const zt_type *type)
{
    char prefix[PREFIX] = "\x93NUMPY\x01";
    zt_str text;
    if (!dtype_words[type->dtype])
        return zt_fail(out->ctx, ZT_ENOTSUP, "npy has no %s", zt_dtype_get(type->dtype)->name);
    zt_str_init(&text, out->ctx);
    zt_str_printf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': ", dtype_words[type->dtype]);
    put_shape(&text, type);
    zt_str_puts(&text, ", }");
    while ((PREFIX + text.len + 1) % ALIGN != 0 && zt_str_putc(&text, ' ') == ZT_OK)
        continue;
    zt_status status = zt_str_putc(&text, '\n');
    prefix[8] = (char)(text.len & 0xff);
    prefix[9] = (char)(text.len >> 8);
    if (status == ZT_OK)
        status = zt_str_put(out, prefix, PREFIX);
    if (status == ZT_OK)
        status = zt_str_put(out, text.data, text.len);
    zt_str_fini(&text);
    return status;
}

zt_status zt_npy_write_header(zt_sink *out, zt_ctx *ctx, const zt_type *type)
{
    zt_str text;
    zt_str_init(&text, ctx);
    zt_status status = zt_npy_header(&text, type);
    if (status == ZT_OK)
        status = zt_sink_write(out, text.data, text.len);
    zt_str_fini(&text);
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct zt_npy {
    zt_ctx *ctx;
    zt_source *source, *owned;
    zt_arena *arena;
    zt_gather *gather;
    npy_array array;
};

static zt_status fetch_bytes(void *user, uint64_t offset, void *dst, size_t size)
{
    return zt_source_read(user, offset, dst, size);
}

bool zt_npy_sniff(const void *bytes, size_t size)
{
    return size >= 6 && memcmp(bytes, "\x93NUMPY", 6) == 0;
}

zt_npy *zt_npy_from(zt_ctx *ctx, zt_source *source)
{
    zt_npy *npy = zt_calloc(ctx, 1, sizeof *npy);
    if (!npy)
        return NULL;
    npy->ctx = ctx;
    npy->source = source;
    npy->arena = zt_arena_new(ctx, 1024);
    npy->gather = zt_gather_new(ctx);
    if (npy->arena && npy->gather &&
        zt_npy_array_parse(ctx, zt_source_name(source), zt_source_size(source), fetch_bytes, source, npy->arena, &npy->array) ==
            ZT_OK) {
        npy->array.array.name = "";
        return npy;
    }
    zt_npy_close(npy);
    return NULL;
}

zt_npy *zt_npy_open(zt_ctx *ctx, const char *path)
{
    zt_source *source = zt_source_open(ctx, path);
    return source ? zt_npy_take(ctx, source) : NULL;
}

zt_npy *zt_npy_take(zt_ctx *ctx, zt_source *source)
{
    zt_npy *npy = zt_npy_from(ctx, source);
    if (npy)
        npy->owned = source;
    else
        zt_source_close(source);
    return npy;
}

void zt_npy_close(zt_npy *npy)
{
    if (!npy)
        return;
    zt_gather_free(npy->gather);
    zt_arena_free(npy->arena);
    zt_source_close(npy->owned);
    zt_free(npy->ctx, npy);
}

int64_t zt_npy_count(const zt_npy *npy)
{
    (void)npy;
    return 1;
}

const zt_array *zt_npy_get(const zt_npy *npy, int64_t i)
{
    (void)i;
    return &npy->array.array;
}

int64_t zt_npy_find(const zt_npy *npy, const char *name)
{
    (void)npy;
    return *name ? -1 : 0;
}

zt_status zt_npy_read(zt_npy *npy, int64_t i, size_t offset, void *dst, size_t size)
{
    zt_status status = zt_array_range(npy->ctx, zt_source_name(npy->source), &npy->array.array, offset, size);
    return status == ZT_OK ? zt_gather_read(npy->gather, &npy->array.layout, i, offset, dst, size, fetch_bytes, npy->source)
                       : status;
}

static zt_status store_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    zt_npy *npy = user;
    *handle = 0;
    return zt_npy_find(npy, name) ? ZT_ENOENT
                                : zt_array_type(npy->ctx, zt_source_name(npy->source), &npy->array.array, type);
}

static zt_status store_read(void *user, int64_t handle, size_t offset, void *dst, size_t size)
{
    return zt_npy_read(user, handle, offset, dst, size);
}

zt_store zt_npy_store(zt_npy *npy)
{
    return (zt_store){.user = npy, .find = store_find, .read = store_read};
}
