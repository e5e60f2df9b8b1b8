/* pad.cu - padding, and its gradient. */
#include "lib/engine/cuda/args_shape.h"
#include "lib/engine/cuda/values.h"

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

template <class T> FN void pad(const zt_cu_pad_args &a)
{
    for (int64_t i = first(); i < a.n; i += stride()) {
        int64_t rest = i, at = 0, step = 1;
        for (int d = 0; d < a.n_dims && at >= 0; d++) {
            const int64_t k = pad_source(a.mode, rest % a.dim[d] - a.before[d], a.size[d]);
            at = k < 0 ? -1 : at + k * step;
            step *= a.size[d];
            rest /= a.dim[d];
        }
        PTR(T, a.y)[i] = at < 0 ? (T)a.fill : PTR(const T, a.x)[at];
    }
}

KERNEL_OF(zt_cu_pad_1, zt_cu_pad_args, 256) { pad<uint8_t>(a); }
KERNEL_OF(zt_cu_pad_2, zt_cu_pad_args, 256) { pad<uint16_t>(a); }
KERNEL_OF(zt_cu_pad_4, zt_cu_pad_args, 256) { pad<uint32_t>(a); }
KERNEL_OF(zt_cu_pad_8, zt_cu_pad_args, 256) { pad<uint64_t>(a); }

template <class W> FN void pad_back(const zt_cu_pad_back_args &a)
{
    for (int64_t i = first(); i < a.n; i += stride()) {
        const int64_t in = i % a.inner, k = i / a.inner % a.size, out = i / a.inner / a.size;
        W sum = 0;
        for (int64_t p = 0; p < a.padded; p++)
            if (pad_source(a.mode, p - a.before, a.size) == k)
                sum += load_as<W>(a.x_type, a.x, (out * a.padded + p) * a.inner + in);
        store_as(a.y_type, a.y, i, sum);
    }
}

KERNEL_OF(zt_cu_pad_back, zt_cu_pad_back_args, 256)
{
    if (a.x_type == ZT_CU_F64)
        pad_back<double>(a);
    else
        pad_back<float>(a);
}
