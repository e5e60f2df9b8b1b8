/* npy.c - owns .npy files: opening and reading one, and the header that is written. */
#include "lib/io/npy.h"
#include "lib/io/npy_array.h"

#include <inttypes.h>
#include <string.h>

/* NumPy's words for dtypes; NULL where it has none. */
static const char *const descr[ZT_DTYPE_COUNT] = {
    [ZT_F64] = "<f8",  [ZT_F32] = "<f4", [ZT_F16] = "<f2", [ZT_I64] = "<i8",
    [ZT_I32] = "<i4",  [ZT_I16] = "<i2", [ZT_I8] = "|i1",  [ZT_U8] = "|u1",
    [ZT_BOOL] = "|b1", [ZT_U64] = "<u8", [ZT_U32] = "<u4", [ZT_U16] = "<u2",
};

enum { PREFIX = 10, ALIGN = 64 }; /* magic, version and length; where the data begin */

/* "(2, 3)", and "(2,)" for one dimension, as Python writes tuples. */
static void put_shape(zt_str *s, const zt_type *t)
{
    zt_str_puts(s, "(");
    for (int i = 0; i < t->rank; i++)
        zt_str_printf(s, "%s%" PRId64, i ? ", " : "", t->dim[i]);
    zt_str_puts(s, t->rank == 1 ? ",)" : ")");
}

const char *zt_npy_word(zt_dtype t)
{
    return descr[t];
}

zt_status zt_npy_header(zt_str *out, const zt_type *type)
{
    char prefix[PREFIX] = "\x93NUMPY\x01";
    zt_str s;
    if (!descr[type->dtype])
        return zt_fail(out->ctx, ZT_ENOTSUP, "npy has no %s", zt_dtype_get(type->dtype)->name);
    zt_str_init(&s, out->ctx);
    zt_str_printf(&s, "{'descr': '%s', 'fortran_order': False, 'shape': ", descr[type->dtype]);
    put_shape(&s, type);
    zt_str_puts(&s, ", }");
    while ((PREFIX + s.len + 1) % ALIGN != 0 && zt_str_putc(&s, ' ') == ZT_OK)
        continue;
    zt_status st = zt_str_putc(&s, '\n');
    prefix[8] = (char)(s.len & 0xff);
    prefix[9] = (char)(s.len >> 8);
    if (st == ZT_OK)
        st = zt_str_put(out, prefix, PREFIX);
    if (st == ZT_OK)
        st = zt_str_put(out, s.data, s.len);
    zt_str_fini(&s);
    return st;
}

zt_status zt_npy_write_header(zt_sink *out, zt_ctx *ctx, const zt_type *type)
{
    zt_str s;
    zt_str_init(&s, ctx);
    zt_status st = zt_npy_header(&s, type);
    if (st == ZT_OK)
        st = zt_sink_write(out, s.data, s.len);
    zt_str_fini(&s);
    return st;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct zt_npy {
    zt_ctx *ctx;
    zt_source *in, *owned;
    zt_arena *keep;
    zt_gather *gather;
    npy_array a;
};

static zt_status fetch(void *user, uint64_t offset, void *dst, size_t n)
{
    return zt_source_read(user, offset, dst, n);
}

bool zt_npy_sniff(const void *bytes, size_t n)
{
    return n >= 6 && memcmp(bytes, "\x93NUMPY", 6) == 0;
}

zt_npy *zt_npy_from(zt_ctx *ctx, zt_source *s)
{
    zt_npy *a = zt_calloc(ctx, 1, sizeof *a);
    if (!a)
        return NULL;
    a->ctx = ctx;
    a->in = s;
    a->keep = zt_arena_new(ctx, 1024);
    a->gather = zt_gather_new(ctx);
    if (a->keep && a->gather &&
        zt_npy_array_parse(ctx, zt_source_name(s), zt_source_size(s), fetch, s, a->keep, &a->a) ==
            ZT_OK) {
        a->a.e.name = "";
        return a;
    }
    zt_npy_close(a);
    return NULL;
}

zt_npy *zt_npy_open(zt_ctx *ctx, const char *path)
{
    zt_source *s = zt_source_open(ctx, path);
    return s ? zt_npy_take(ctx, s) : NULL;
}

zt_npy *zt_npy_take(zt_ctx *ctx, zt_source *s)
{
    zt_npy *a = zt_npy_from(ctx, s);
    if (a)
        a->owned = s;
    else
        zt_source_close(s);
    return a;
}

void zt_npy_close(zt_npy *a)
{
    if (!a)
        return;
    zt_gather_free(a->gather);
    zt_arena_free(a->keep);
    zt_source_close(a->owned);
    zt_free(a->ctx, a);
}

int64_t zt_npy_count(const zt_npy *a)
{
    (void)a;
    return 1;
}

const zt_array *zt_npy_get(const zt_npy *a, int64_t i)
{
    (void)i;
    return &a->a.e;
}

int64_t zt_npy_find(const zt_npy *a, const char *name)
{
    (void)a;
    return *name ? -1 : 0;
}

zt_status zt_npy_read(zt_npy *a, int64_t i, size_t offset, void *dst, size_t n)
{
    zt_status st = zt_array_range(a->ctx, zt_source_name(a->in), &a->a.e, offset, n);
    return st == ZT_OK ? zt_gather_read(a->gather, &a->a.layout, i, offset, dst, n, fetch, a->in)
                       : st;
}

static zt_status store_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    zt_npy *a = user;
    *handle = 0;
    return zt_npy_find(a, name) ? ZT_ENOENT
                                : zt_array_type(a->ctx, zt_source_name(a->in), &a->a.e, type);
}

static zt_status store_read(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    return zt_npy_read(user, handle, offset, dst, n);
}

zt_store zt_npy_store(zt_npy *a)
{
    return (zt_store){.user = a, .find = store_find, .read = store_read};
}
