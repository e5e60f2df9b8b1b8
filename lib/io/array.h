/* array.h - description of a tensor from the readers of npy, npz, pt and network JSON. */
#ifndef ZT_ARRAY_H
#define ZT_ARRAY_H

#include "lib/tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_array {
    const char *name;  /* without a zero byte inside; of any length and any bytes */
    const char *dtype; /* the format's word for it: "<f4", "float32" */
    zt_type type;      /* dtype ZT_DTYPE_COUNT: zt has no such; rank -1: more than ZT_MAX_RANK.
                        * Reading works all the same */
    size_t bytes;      /* of all elements, little endian, row-major: what reading gives */
    int rank;          /* of the shape, which is here in any case */
    const int64_t *dim;
} zt_array;

#ifdef __cplusplus
}
#endif
#endif
