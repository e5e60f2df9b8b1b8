/* quant.cl - numbers as codes times a scale, from a zero point. */
#include "lib/engine/opencl/values.clh"
#include "lib/engine/cuda/args_quant.h"

FN int64_t scale_at(const zt_cu_quant_args *a, int64_t i)
{
    if (a->one) return 0;
    const int64_t k = i / a->inner % a->size;
    if (!a->block) return k;
    return (i / a->inner / a->size * a->blocks + k / a->block) * a->inner + i % a->inner;
}

KERNEL(zt_cu_quantize, zt_cu_quant_args)
{
    const bool floats = is_float_type(a.code_type);
    const float least = number(a.least), most = number(a.most);
    EACH_OF(i, a.n)
    {
        const int64_t k = scale_at(&a, i);
        const float y = load_float(a.x_type, a.x, i) / load_float(a.scale_type, a.scale, k);
        if (floats) {
            float code = y + (a.zero ? load_float(a.code_type, a.zero, k) : 0);
            if (a.saturate) code = code > most ? most : code < least ? least : code;
            store_float(a.y_type, a.y, i, code);
            continue;
        }
        const float near = y != y ? 0 : rint(fmin(fmax(y, -1e15f), 1e15f));
        int64_t code = (int64_t)near + (a.zero ? load_int(a.code_type, a.zero, k) : 0);
        const int64_t low = a.least == 0 ? 0 : (int64_t)least, high = (int64_t)most - (most > 1e9f); /* 2^31, 2^32 less 1 */
        code = code > high ? high : code < low ? low : code;
        store_int(a.y_type, a.y, i, code);
    }
}

KERNEL(zt_cu_dequantize, zt_cu_quant_args)
{
    const bool floats = is_float_type(a.x_type);
    EACH_OF(i, a.n)
    {
        const int64_t k = scale_at(&a, i);
        const float scale = load_float(a.scale_type, a.scale, k);
        float x;
        if (floats)
            x = load_float(a.x_type, a.x, i) - (a.zero ? load_float(a.code_type, a.zero, k) : 0);
        else
            x = (float)(load_int(a.x_type, a.x, i) - (a.zero ? load_int(a.code_type, a.zero, k) : 0));
        store_float(a.y_type, a.y, i, x * scale);
    }
}
