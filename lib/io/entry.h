/* entry.h - what the readers of npy, npz, pt and network JSON tell of a tensor. */
#ifndef ZT_ENTRY_H
#define ZT_ENTRY_H

#include "lib/tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_entry {
    const char *name;  /* without a zero byte inside; of any length and any bytes */
    const char *dtype; /* the format's word for it: "<f4", "float32" */
    zt_type type;      /* rank -1: zt has no such dtype, or not so many dimensions; reading works */
    size_t bytes;      /* of all elements, little endian, row-major: what reading gives */
    int rank;          /* of the shape, which is here in any case */
    const int64_t *dim;
} zt_entry;

#ifdef __cplusplus
}
#endif
#endif
