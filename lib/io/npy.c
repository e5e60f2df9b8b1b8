/* npy.c - the .npy header. */
#include "lib/io/npy.h"

#include <inttypes.h>
#include <string.h>

/* NumPy's words for dtypes; NULL where it has none. */
static const char *const descr[ZT_DTYPE_COUNT] = {
    [ZT_F64] = "<f8", [ZT_F32] = "<f4", [ZT_F16] = "<f2", [ZT_I64] = "<i8", [ZT_I32] = "<i4",
    [ZT_I16] = "<i2", [ZT_I8] = "|i1",  [ZT_U8] = "|u1",  [ZT_BOOL] = "|b1",
    [ZT_U64] = "<u8", [ZT_U32] = "<u4", [ZT_U16] = "<u2",
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

zt_status zt_npy_write_header(zt_sink *out, zt_ctx *ctx, const zt_type *type)
{
    char prefix[PREFIX] = "\x93NUMPY\x01";
    zt_str s;
    if (!descr[type->dtype])
        return zt_fail(ctx, ZT_ENOTSUP, "npy has no %s", zt_dtype_get(type->dtype)->name);
    zt_str_init(&s, ctx);
    zt_str_printf(&s, "{'descr': '%s', 'fortran_order': False, 'shape': ", descr[type->dtype]);
    put_shape(&s, type);
    zt_str_puts(&s, ", }");
    while ((PREFIX + s.len + 1) % ALIGN != 0 && zt_str_putc(&s, ' ') == ZT_OK)
        continue;
    zt_str_putc(&s, '\n');
    zt_status st = zt_ctx_status(ctx);
    prefix[8] = (char)(s.len & 0xff);
    prefix[9] = (char)(s.len >> 8);
    if (st == ZT_OK)
        st = zt_sink_write(out, prefix, PREFIX);
    if (st == ZT_OK)
        st = zt_sink_write(out, s.data, s.len);
    zt_str_fini(&s);
    return st;
}
