/* convert.c - owns values of one dtype as another, by way of f32, as the table's codecs have it. */
#include "lib/tensor/tensor.h"

#include <string.h>

enum { STEP = 1024 }; /* elements at a time: a multiple of every block */

bool zt_dtype_converts(zt_dtype from, zt_dtype to)
{
    return from == to || (zt_dtype_get(from)->decode && zt_dtype_get(to)->encode);
}

/* Of f64 to f32 without rounding twice where a narrower type follows. */
static void from_f64(const char *src, zt_dtype to, char *dst, int64_t n)
{
    float f[STEP];
    for (int64_t i = 0; i < n; i++) {
        double x;
        memcpy(&x, src + 8 * i, 8);
        f[i] = to == ZT_F32 ? (float)x : zt_f64_to_f32_odd(x);
    }
    zt_dtype_get(to)->encode(f, dst, n);
}

void zt_dtype_convert(zt_dtype from, const void *src, zt_dtype to, void *dst, int64_t n)
{
    const zt_dtype_info *a = zt_dtype_get(from), *b = zt_dtype_get(to);
    const char *p = src;
    char *q = dst;
    float f[STEP];
    for (int64_t k; n > 0; n -= k) {
        k = n < STEP ? n : STEP;
        size_t in = (size_t)((k + a->block - 1) / a->block) * (size_t)a->block_bytes;
        size_t out = (size_t)((k + b->block - 1) / b->block) * (size_t)b->block_bytes;
        if (from == to) {
            memcpy(q, p, in);
        } else if (from == ZT_F64) {
            from_f64(p, to, q, k);
        } else if (from == ZT_F32) {
            memcpy(f, p, in);
            b->encode(f, q, k);
        } else {
            a->decode(p, f, k);
            b->encode(f, q, k);
        }
        p += in;
        q += out;
    }
}
