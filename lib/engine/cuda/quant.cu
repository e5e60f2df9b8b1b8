/* quant.cu - numbers as codes times a scale, from a zero point. */
#include "lib/engine/cuda/args_quant.h"
#include "lib/engine/cuda/values.h"

FN int64_t scale_at(const zt_cu_quant_args &a, int64_t i)
{
    if (a.one) return 0;
    const int64_t k = i / a.inner % a.size;
    if (!a.block) return k;
    return (i / a.inner / a.size * a.blocks + k / a.block) * a.inner + i % a.inner;
}

FN double number(int t, zt_cu_ptr x, int64_t i)
{
    const value v = load_value(t, x, i);
    return is_f64(t) ? v.d : is_f32(t) ? (double)v.f : (double)v.i;
}

/* Ties are common: but for f64 the quotient is f32's. */
FN double quotient(const zt_cu_quant_args &a, int64_t i, int64_t k)
{
    const double x = number(a.x_type, a.x, i), scale = number(a.scale_type, a.scale, k);
    return is_f64(a.x_type) ? x / scale : (double)((float)x / (float)scale);
}

KERNEL_OF(zt_cu_quantize, zt_cu_quant_args, 256)
{
    const bool floats = is_f32(a.code_type);
    for (int64_t i = first(); i < a.n; i += stride()) {
        const int64_t k = scale_at(a, i);
        double y = quotient(a, i, k);
        if (!floats) y = y != y ? 0 : rint(y);
        if (a.zero) y += number(a.code_type, a.zero, k);
        if (!floats || a.saturate) y = y > a.most ? a.most : y < a.least ? a.least : y;
        if (floats)
            store_value(a.y_type, a.y, i, to_float(a.y_type, y));
        else
            store_as(a.y_type, a.y, i, (int64_t)y);
    }
}

KERNEL_OF(zt_cu_dequantize, zt_cu_quant_args, 256)
{
    for (int64_t i = first(); i < a.n; i += stride()) {
        const int64_t k = scale_at(a, i);
        const double zero = a.zero ? number(a.code_type, a.zero, k) : 0;
        const double y = (number(a.x_type, a.x, i) - zero) * number(a.scale_type, a.scale, k);
        store_value(a.y_type, a.y, i, to_float(a.y_type, y));
    }
}
