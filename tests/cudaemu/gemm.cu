/* gemm.cu - the kernel of the emulated cuBLAS: a thread an element, columns one behind the other. */
#include "gemm.h"
#include "lib/engine/cuda/values.h"

/* W: what the type is computed in. */
template <class W> FN void multiply(const emu_gemm_args &a)
{
    const int64_t each = (int64_t)a.m * a.n;
    for (int64_t i = first(); i < each * a.batches; i += stride()) {
        const int64_t z = i / each, column = i % each / a.m, row = i % a.m;
        W sum = 0;
        for (int64_t k = 0; k < a.k; k++) {
            const int64_t at = a.a_transposed ? row * a.lda + k : k * a.lda + row;
            const int64_t bt = a.b_transposed ? k * a.ldb + column : column * a.ldb + k;
            sum += load_as<W>(a.type, a.a, z * a.a_step + at) *
                   load_as<W>(a.type, a.b, z * a.b_step + bt);
        }
        if (a.bias) sum += load_as<W>(a.type, a.bias, row);
        store_as(a.type, a.c, z * a.c_step + column * a.ldc + row, sum);
    }
}

KERNEL(emu_gemm, emu_gemm_args)
{
    if (a.type == ZT_CU_F64)
        multiply<double>(a);
    else
        multiply<float>(a);
}
