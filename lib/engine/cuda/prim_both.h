/* prim_both.h - the primitives that CUDA and HIP have in the same words. prim_gpu.h and prim_hip.h
 * include it first; what it leaves to them is declared here: how they say it is theirs.
 *
 * ZT_CU_ARGUMENT           before the arguments of a kernel
 * ZT_CU_BOUNDS(threads, each)   of a block, and of a processor, as their compiler wants them
 */
#ifndef ZT_CU_PRIM_BOTH_H
#define ZT_CU_PRIM_BOTH_H

#define FN                             static __device__ __forceinline__
#define FN_MEMBER                      __device__ __forceinline__
#define CONSTANT                       static __device__ const
#define KERNEL(name, args)             extern "C" __global__ void name(ZT_CU_ARGUMENT const args a)
#define KERNEL_OF(name, args, threads) extern "C" __global__ void __launch_bounds__(threads) name(ZT_CU_ARGUMENT const args a)
#define KERNEL_EACH(name, args, threads, each)                                                                                   \
    extern "C" __global__ void ZT_CU_BOUNDS(threads, each) name(ZT_CU_ARGUMENT const args a)
#define SHARED(type, name, dims) __shared__ __attribute__((aligned(16))) type name dims
extern __shared__ uint4 zt_cu_dynamic[];
#define DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(zt_cu_dynamic)

#define ALIGNED(p, n) ((void)0)

FN int thread() { return (int)threadIdx.x; }
FN int threads() { return (int)blockDim.x; }
FN int block() { return (int)blockIdx.x; }
FN int block_y() { return (int)blockIdx.y; }
FN int block_z() { return (int)blockIdx.z; }
FN int blocks() { return (int)gridDim.x; }
FN int blocks_y() { return (int)gridDim.y; }
FN int blocks_z() { return (int)gridDim.z; }

FN void barrier() { __syncthreads(); }
FN void fence() { __threadfence(); }

/* What the word was; what was written before is seen by who reads the word later. */
FN uint32_t release_add(uint32_t *word, uint32_t v);
FN uint32_t acquire(const uint32_t *word);
/* The first thread of each block counts it in: by one, but the first block by what makes the sum
 * turn the top bit, for which all wait. What lower bits there are is 0 again then. */
FN void grid_barrier(uint32_t *word)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        const uint32_t n = gridDim.x * gridDim.y * gridDim.z;
        const bool is_first = (blockIdx.x | blockIdx.y | blockIdx.z) == 0;
        const uint32_t was = release_add(word, is_first ? 0x80000000u - (n - 1) : 1u);
        while (((was ^ acquire(word)) & 0x80000000u) == 0) continue;
    }
    __syncthreads();
}

/* ---- warps ----------------------------------------------------------------------------------- */

template <class T> FN T shuffle_xor(T v, int mask);

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
