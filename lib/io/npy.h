/* npy.h - read and write NumPy's .npy files: one array of numbers.
 *
 *     zt_npy *npy = zt_npy_open(ctx, "x.npy");
 *     const zt_array *array = zt_npy_get(npy, 0);  // dtype, shape, bytes
 *     zt_npy_read(npy, 0, 0, data, array->bytes);  // row-major, little endian
 *     zt_npy_close(npy);
 *
 *     zt_type type = zt_type_make(ZT_F32, 2, (int64_t[]){rows, V});
 *     zt_npy_write_header(sink, ctx, &type);
 *     zt_sink_write(sink, values, zt_type_bytes(&type));  // in as many pieces as you like
 *
 * Read are formats 1.0 to 3.0, either byte order, C and Fortran order, bool, integers, floats and
 * complex numbers (zt has no dtype for these: they are bytes). Files are hostile: the header is a
 * Python literal, of which only the required dictionary is accepted; the array must
 * fill the rest of the file. Text, dates and records are ZT_ENOTSUP, Python objects ZT_EDATA.
 * Written is format 1.0, whose data begin at a multiple of 64 bytes. numpy/lib/format.py, as facts.
 */
#ifndef ZT_NPY_H
#define ZT_NPY_H

#include "lib/io/array.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_npy zt_npy;

zt_npy *zt_npy_open(zt_ctx *ctx, const char *path);  /* opens and owns a source */
zt_npy *zt_npy_from(zt_ctx *ctx, zt_source *source); /* borrows the source */
zt_npy *zt_npy_take(zt_ctx *ctx, zt_source *source); /* takes it over, also on failure */
void zt_npy_close(zt_npy *npy);                      /* NULL: nothing */

/* Do these first bytes of a file begin an npy file? 6 bytes suffice. */
bool zt_npy_sniff(const void *bytes, size_t size);

int64_t zt_npy_count(const zt_npy *npy);                  /* 1: the array is called "" */
const zt_array *zt_npy_get(const zt_npy *npy, int64_t i); /* i is 0; borrowed from a */
int64_t zt_npy_find(const zt_npy *npy, const char *name); /* 0 or -1 */
/* `size` bytes at `offset` of the array. From any thread. */
zt_status zt_npy_read(zt_npy *npy, int64_t i, size_t offset, void *dst, size_t size);
zt_store zt_npy_store(zt_npy *npy); /* valid as long as it is open */

/* The header of a tensor of this type. ZT_ENOTSUP for types that NumPy has no word for (bf16 and
 * block types). */
zt_status zt_npy_write_header(zt_sink *out, zt_ctx *ctx, const zt_type *type);

#ifdef __cplusplus
}
#endif
#endif
