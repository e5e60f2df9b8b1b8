/* elementwise_contract.cu - gates and scale with the bits of docs/arithmetic.md. */
#include "lib/engine/cuda/args_contract.h"
#include "lib/engine/cuda/contract.cuh"

FN float gate_by(float g, float at, float up) { return g * contract_sigmoid(at) * up; }

FN float mapped(const zt_cu_contract_map_args &a, int64_t i)
{
    const float g = PTR(const float, a.a)[i];
    if (a.fn == ZT_CU_CONTRACT_SCALE) return (float)((double)g * a.by);
    const float up = PTR(const float, a.b)[i];
    if (a.fn == ZT_CU_CONTRACT_SWIGLU) return gate_by(g, g, up);
    return gate_by(g, g * fmaf(g * g, 0x1.2444f2p-4f, 0x1.988452p+0f), up);
}

KERNEL_OF(zt_contract_map, zt_cu_contract_map_args, 256)
{
    for (int64_t i = first(); i < a.n; i += stride()) PTR(float, a.y)[i] = mapped(a, i);
}
