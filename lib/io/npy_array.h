/* npy_array.h - private to lib/io: one .npy array, wherever its bytes lie. */
#ifndef ZT_NPY_ARRAY_H
#define ZT_NPY_ARRAY_H

#include "lib/io/array.h"
#include "lib/io/gather.h"

/* What its header says. */
typedef struct npy_array {
    zt_array array; /* without a name */
    zt_layout layout;
} npy_array;

/* Reads and checks the header at the beginning of `size` bytes: the array must fill the rest. What
 * is kept lives in `keep`; `what` names the bytes in messages. */
zt_status zt_npy_array_parse(zt_ctx *ctx, const char *what, uint64_t size, zt_fetch *fetch, void *user, zt_arena *keep,
                             npy_array *array);

/* NumPy's word for a dtype; NULL: it has none. */
const char *zt_npy_word(zt_dtype dtype);
/* The header of a tensor of this type, up to where its data begin. */
zt_status zt_npy_header(zt_str *out, const zt_type *type);

#endif
