/* convert.h - private to lib/engine: values as the rows' reference loops take them, every float an
 * f64 and every integer and bool an int64_t. */
#ifndef ZT_CONVERT_H
#define ZT_CONVERT_H

#include "lib/tensor/tensor.h"

/* count elements (whole blocks) of host memory to f64 or int64_t. */
void zt_widen(zt_dtype dtype, const void *source, void *destination, int64_t count);
/* Back: floats are rounded once to their type, integers lose their upper bits. Not for block types
 * that have no encoder. */
void zt_narrow(zt_dtype dtype, const void *source, void *destination, int64_t count);

#endif
