/* triangular.cu - one triangle of matrices. */
#include "lib/engine/cuda/args_shape.h"
#include "lib/engine/cuda/values.h"

template <class T> FN void triangle(const zt_cu_triangle_args &a)
{
    for (int64_t i = first(); i < a.n; i += stride()) {
        const int64_t past = i % a.columns - i / a.columns % a.rows;
        const bool stays = a.sign > 0 ? past <= a.diagonal : past >= a.diagonal;
        PTR(T, a.y)[i] = stays ? PTR(const T, a.x)[i] : T(0);
    }
}

KERNEL_OF(zt_cu_triangle_1, zt_cu_triangle_args, 256) { triangle<uint8_t>(a); }
KERNEL_OF(zt_cu_triangle_2, zt_cu_triangle_args, 256) { triangle<uint16_t>(a); }
KERNEL_OF(zt_cu_triangle_4, zt_cu_triangle_args, 256) { triangle<uint32_t>(a); }
KERNEL_OF(zt_cu_triangle_8, zt_cu_triangle_args, 256) { triangle<uint64_t>(a); }
