/* norm_contract.cu - rms_norm and its fused forms with the bits of docs/arithmetic.md. Orders of sums are the page's; which thread has
 * which columns does not change a bit. */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/contract.cuh"

/* The page's tree over 16 lanes, of the first 16 lanes of a warp; every lane gets it. */
FN float sum_of_lanes(float s)
{
    for (int h = 8; h; h >>= 1) s = s + shuffle_xor(s, h);
    return shuffle(s, 0);
}

FN float before_norm(const zt_cu_norm_args &a, int64_t at)
{
    const float x = PTR(const float, a.x)[at];
    return a.before ? x + PTR(const float, a.before)[at] : x;
}

/* A warp a row. */
KERNEL_OF(zt_contract_rms_norm, zt_cu_norm_args, 32)
{
    const int64_t row = block() * a.K;
    float s = 0;
    for (int64_t i = lane(); lane() < 16 && i < a.K; i += 16) {
        const float x = before_norm(a, row + i);
        s = fmaf(x, x, s);
    }
    const float r = (float)(1 / sqrt((double)sum_of_lanes(s) / (double)a.K + a.eps));
    if (a.rstd && lane() == 0) PTR(float, a.rstd)[block()] = r;
    for (int64_t i = lane(); i < a.K; i += 32) {
        const float x = before_norm(a, row + i), y = x * r * PTR(const float, a.g)[i];
        if (a.sum) PTR(float, a.sum)[row + i] = x;
        PTR(float, a.y)[row + i] = a.after ? y + PTR(const float, a.after)[row + i] : y;
    }
}
