/* pad.cl - padding, and its gradient. */
#include "lib/engine/opencl/values.clh"
#include "lib/engine/cuda/args_shape.h"

/* Which entry of n is entry i (below 0 and past the end too); -1: none. As zt_pad_source. */
FN int64_t pad_source(int mode, int64_t i, int64_t n)
{
    if (i >= 0 && i < n) return i;
    if (mode == 'c') return -1;
    if (mode == 'e') return i < 0 ? 0 : n - 1;
    const int64_t period = mode == 'w' ? n : n > 1 ? 2 * (n - 1) : 1;
    i = i % period + (i % period < 0 ? period : 0);
    return i < n ? i : period - i;
}

FN int64_t padded_from(const zt_cu_pad_args *a, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int d = 0; d < a->n_dims && at >= 0; d++) {
        const int64_t k = pad_source(a->mode, i % a->dim[d] - a->before[d], a->size[d]);
        at = k < 0 ? -1 : at + k * step;
        step *= a->size[d];
        i /= a->dim[d];
    }
    return at;
}

#define PAD(name, type)                                                                                                          \
    KERNEL(name, zt_cu_pad_args)                                                                                                 \
    {                                                                                                                            \
        EACH_OF(i, a.n)                                                                                                          \
        {                                                                                                                        \
            const int64_t at = padded_from(&a, i);                                                                               \
            PTR(type, a.y)[i] = at < 0 ? (type)a.fill : PTR(const type, a.x)[at];                                                \
        }                                                                                                                        \
    }
PAD(zt_cu_pad_1, uint8_t)
PAD(zt_cu_pad_2, uint16_t)
PAD(zt_cu_pad_4, uint32_t)
PAD(zt_cu_pad_8, uint64_t)

KERNEL(zt_cu_pad_back, zt_cu_pad_back_args)
{
    EACH_OF(i, a.n)
    {
        const int64_t in = i % a.inner, k = i / a.inner % a.size, out = i / a.inner / a.size;
        float sum = 0;
        for (int64_t p = 0; p < a.padded; p++)
            if (pad_source(a.mode, p - a.before, a.size) == k)
                sum += load_float(a.x_type, a.x, (out * a.padded + p) * a.inner + in);
        store_float(a.y_type, a.y, i, sum);
    }
}
