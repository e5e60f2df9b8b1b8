/* npy.h - write NumPy's .npy files: one tensor, row-major.
 *
 *     zt_type t = zt_type_make(ZT_F32, 2, (int64_t[]){rows, V});
 *     zt_npy_write_header(sink, ctx, &t);
 *     zt_sink_write(sink, values, zt_type_bytes(&t));     // in as many pieces as you like
 *
 * Format 1.0, numpy/lib/format.py, as facts. The data begin at a multiple of 64 bytes.
 */
#ifndef ZT_NPY_H
#define ZT_NPY_H

#include "lib/tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The header of a tensor of this type. ZT_ENOTSUP for types that NumPy has no word for (bf16 and
 * block types). */
zt_status zt_npy_write_header(zt_sink *out, zt_ctx *ctx, const zt_type *type);

#ifdef __cplusplus
}
#endif
#endif
