/* place.h - what kernels share that put elements, as bytes, in other places. */
#ifndef ZT_ISA_PLACE_H
#define ZT_ISA_PLACE_H

#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

INLINE bool any_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in, (void)out;
    return true;
}

INLINE bool f32_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32;
}

/* Number r of i32 or i64. */
INLINE int64_t index_at(const zt_cpu_arg *i, int64_t r)
{
    return i->type.dtype == ZT_I64 ? ((const int64_t *)i->data)[r] : ((const int32_t *)i->data)[r];
}

INLINE int64_t size_of(const zt_type *type) { return zt_dtype_get(type->dtype)->block_bytes; }

INLINE int plain_axis(int64_t axis, const zt_type *type) { return (int)(axis < 0 ? axis + type->rank : axis); }

INLINE int64_t count_of(const zt_type *type, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++) n *= type->dim[d];
    return n;
}

/* How many there are before an axis, and bytes of one of its entries. */
INLINE int64_t outer_of(const zt_type *type, int axis)
{
    int64_t n = 1;
    for (int d = 0; d < axis; d++) n *= type->dim[d];
    return n;
}

INLINE int64_t inner_of(const zt_type *type, int axis)
{
    int64_t n = size_of(type);
    for (int d = axis + 1; d < type->rank; d++) n *= type->dim[d];
    return n;
}

/* One element, of 1, 2, 4 or 8 bytes. */
INLINE void put_one(char *to, const char *from, int64_t size)
{
    if (size == 4)
        memcpy(to, from, 4);
    else if (size == 8)
        memcpy(to, from, 8);
    else if (size == 2)
        memcpy(to, from, 2);
    else
        *to = *from;
}

#endif
