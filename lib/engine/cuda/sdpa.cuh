/* sdpa.cuh - what both kinds of kernels of dense attention share: which keys there are, caps and
 * masks. */
#ifndef ZT_CU_SDPA_CUH
#define ZT_CU_SDPA_CUH

#include "lib/engine/cuda/args_nn.h"
#include "lib/engine/cuda/prim.h"

/* Keys of a batch that there are; a length out of range is trouble, and none. */
FN int64_t keys_of(const zt_cu_sdpa_args &a, int64_t batch, int64_t order)
{
    int64_t n = a.len ? PTR(const int32_t, a.len)[batch] : a.t;
    if (n >= 0 && n <= a.t) return n;
    if (thread() == 0) trouble(PTR(zt_cu_runtime_error, a.trouble), ZT_CU_LENGTH, order, n, a.t + 1);
    return 0;
}

/* What a number of the op's is computed in. */
#define WIDE(T) typename wide<T>::type

/* Each in its own precision. */
FN float fma_of(float a, float b, float c) { return fmaf(a, b, c); }
FN double fma_of(double a, double b, double c) { return fma(a, b, c); }
FN float exp_of(float x) { return expf(x); }
FN double exp_of(double x) { return exp(x); }
FN float log_of(float x) { return logf(x); }
FN double log_of(double x) { return log(x); }
FN float tanh_of(float x) { return tanhf(x); }
FN double tanh_of(double x) { return tanh(x); }

/* A score under the cap, if there is one. */
template <class F> FN F capped(const zt_cu_sdpa_args &a, F s)
{
    const F cap = (F)a.softcap;
    return cap > 0 ? cap * tanh_of(s / cap) : s;
}

/* What the mask makes of a score: -inf where it hides, whatever the score is. */
template <class T>
FN WIDE(T) masked(const zt_cu_sdpa_args &a, int64_t batch, int64_t head, int64_t i, int64_t j,
                  WIDE(T) s)
{
    if (!a.mask) return s;
    int64_t at =
        batch * a.mask_step[0] + head * a.mask_step[1] + i * a.mask_step[2] + j * a.mask_step[3];
    if (a.mask_bool) return PTR(const uint8_t, a.mask)[at] ? s : -INFINITY;
    WIDE(T) more = get(PTR(const T, a.mask)[at]);
    return more == -INFINITY ? more : s + more;
}

#endif
