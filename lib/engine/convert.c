/* convert.c - values of any dtype as f64 or int64_t, and back. */
#include "lib/engine/convert.h"

#include <string.h>

enum { CHUNK = 1024 }; /* elements; whole blocks of every type */

// clang-format off
#define INTEGER(NAME, T, VALUE)                                                                    \
    static void widen_##NAME(const void *src, int64_t *dst, int64_t n)                             \
    {                                                                                              \
        T v;                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                          \
            memcpy(&v, (const char *)src + (size_t)i * sizeof v, sizeof v);                        \
            dst[i] = (int64_t)v;                                                                   \
        }                                                                                          \
    }                                                                                              \
    static void narrow_##NAME(const int64_t *src, void *dst, int64_t n)                            \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T v = (T)(VALUE);                                                                      \
            memcpy((char *)dst + (size_t)i * sizeof v, &v, sizeof v);                              \
        }                                                                                          \
    }
// clang-format on
INTEGER(I64, int64_t, src[i])
INTEGER(I32, int32_t, src[i])
INTEGER(I16, int16_t, src[i])
INTEGER(I8, int8_t, src[i])
INTEGER(U64, uint64_t, src[i])
INTEGER(U32, uint32_t, src[i])
INTEGER(U16, uint16_t, src[i])
INTEGER(U8, uint8_t, src[i])
INTEGER(BOOL, uint8_t, src[i] != 0)

static const struct {
    void (*widen)(const void *, int64_t *, int64_t);
    void (*narrow)(const int64_t *, void *, int64_t);
} integers[ZT_DTYPE_COUNT] = {
    [ZT_I64] = {widen_I64, narrow_I64}, [ZT_I32] = {widen_I32, narrow_I32}, [ZT_I16] = {widen_I16, narrow_I16},
    [ZT_I8] = {widen_I8, narrow_I8},    [ZT_U64] = {widen_U64, narrow_U64}, [ZT_U32] = {widen_U32, narrow_U32},
    [ZT_U16] = {widen_U16, narrow_U16}, [ZT_U8] = {widen_U8, narrow_U8},    [ZT_BOOL] = {widen_BOOL, narrow_BOOL},
};

void zt_widen(zt_dtype dtype, const void *source, void *destination, int64_t count)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    float chunk[CHUNK];
    double *wide = destination;
    if (count == 0) return;
    if (integers[dtype].widen) {
        integers[dtype].widen(source, destination, count);
    } else if (dtype == ZT_F64) {
        memcpy(destination, source, (size_t)count * sizeof(double));
    } else {
        for (int64_t start = 0; start < count; start += CHUNK) {
            int64_t part = count - start < CHUNK ? count - start : CHUNK;
            info->decode((const char *)source + start / info->block * info->block_bytes, chunk, part);
            for (int64_t i = 0; i < part; i++) wide[start + i] = chunk[i];
        }
    }
}

void zt_narrow(zt_dtype dtype, const void *source, void *destination, int64_t count)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    float chunk[CHUNK];
    const double *wide = source;
    if (count == 0) return;
    if (integers[dtype].narrow) {
        integers[dtype].narrow(source, destination, count);
    } else if (dtype == ZT_F64) {
        memcpy(destination, source, (size_t)count * sizeof(double));
    } else {
        for (int64_t start = 0; start < count; start += CHUNK) {
            int64_t part = count - start < CHUNK ? count - start : CHUNK;
            for (int64_t i = 0; i < part; i++)
                chunk[i] = dtype == ZT_F32 ? (float)wide[start + i] : zt_f64_to_f32_odd(wide[start + i]);
            info->encode(chunk, (char *)destination + start / info->block * info->block_bytes, part);
        }
    }
}
