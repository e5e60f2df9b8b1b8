/* prim_both.h - the primitives that CUDA and HIP have in the same words: folds over a warp by its
 * shuffles, and atomics. prim_gpu.h and prim_hip.h include it. */
#ifndef ZT_CU_PRIM_BOTH_H
#define ZT_CU_PRIM_BOTH_H

template <class T> FN T warp_sum(T v)
{
    for (int m = 16; m; m >>= 1) v += shuffle_xor(v, m);
    return v;
}
/* NaN where there is one. */
template <class T> FN T warp_max(T v)
{
    for (int m = 16; m; m >>= 1) {
        T u = shuffle_xor(v, m);
        v = u > v || u != u ? u : v;
    }
    return v;
}
template <class T> FN T warp_min(T v)
{
    for (int m = 16; m; m >>= 1) {
        T u = shuffle_xor(v, m);
        v = u < v || u != u ? u : v;
    }
    return v;
}

/* ---- atomics --------------------------------------------------------------------------------- */

FN uint32_t atomic_add(uint32_t *p, uint32_t v) { return atomicAdd(p, v); }
FN int32_t atomic_add(int32_t *p, int32_t v) { return atomicAdd(p, v); }
FN uint64_t atomic_add(uint64_t *p, uint64_t v)
{
    return atomicAdd(reinterpret_cast<unsigned long long *>(p), (unsigned long long)v);
}
FN uint32_t atomic_min(uint32_t *p, uint32_t v) { return atomicMin(p, v); }
FN uint32_t atomic_max(uint32_t *p, uint32_t v) { return atomicMax(p, v); }
FN int32_t atomic_min(int32_t *p, int32_t v) { return atomicMin(p, v); }
FN int32_t atomic_max(int32_t *p, int32_t v) { return atomicMax(p, v); }
FN uint32_t atomic_cas(uint32_t *p, uint32_t was, uint32_t v) { return atomicCAS(p, was, v); }
FN uint32_t atomic_exchange(uint32_t *p, uint32_t v) { return atomicExch(p, v); }

#endif
