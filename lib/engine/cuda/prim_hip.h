/* prim_hip.h - the primitives of prim.h on AMD's GPUs, by hipcc; prim.h includes it.
 *
 * A wave there has 32 lanes or 64. A warp is 32 of them all the same: in a wave of 64 two warps go
 * side by side, and where they part, one is masked off while the other runs. So no collective looks
 * past its half, and none may wait for the other one but barrier(), which all threads reach at the
 * same place. Matrix fragments: prim_wave.h.
 */
#ifndef ZT_CU_PRIM_HIP_H
#define ZT_CU_PRIM_HIP_H

#include <hip/hip_runtime.h>

#define FN                 static __device__ __forceinline__
#define FN_MEMBER          __device__ __forceinline__
#define CONSTANT           static __device__ const
#define KERNEL(name, args) extern "C" __global__ void name(const args a)
#define KERNEL_OF(name, args, threads)                                                             \
    extern "C" __global__ void __launch_bounds__(threads) name(const args a)
#define KERNEL_EACH(name, args, threads, each) KERNEL_OF(name, args, threads)
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
/* Lanes of a wave go in step, and its loads and stores in order: only the compiler must be told. */
FN void warp_barrier()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
FN void fence() { __threadfence(); }
/* As in prim_gpu.h. */
FN void grid_barrier(uint32_t *word)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t n = gridDim.x * gridDim.y * gridDim.z, now;
        bool is_first = (blockIdx.x | blockIdx.y | blockIdx.z) == 0;
        uint32_t by = is_first ? 0x80000000u - (n - 1) : 1u;
        uint32_t was = __hip_atomic_fetch_add(word, by, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
        do now = __hip_atomic_load(word, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT);
        while (((was ^ now) & 0x80000000u) == 0);
    }
    __syncthreads();
}
FN void prefetch(const void *) {} /* no such instruction */
template <class V> FN V load_constant(const void *p) { return *static_cast<const V *>(p); }

/* ---- warps ----------------------------------------------------------------------------------- */

template <class T> FN T shuffle(T v, int lane) { return __shfl(v, lane & 31, 32); }
template <class T> FN T shuffle_xor(T v, int mask) { return __shfl_xor(v, mask, 32); }
FN uint32_t vote(bool p) { return (uint32_t)(__ballot(p) >> (__lane_id() & 32)); }

#include "lib/engine/cuda/prim_both.h"

/* ---- numbers --------------------------------------------------------------------------------- */

FN float f16_to_f32(uint16_t bits) { return (float)__builtin_bit_cast(_Float16, bits); }
FN uint16_t f32_to_f16(float f) /* one NaN, that of the other machines */
{
    return f != f ? (uint16_t)0x7FFF : __builtin_bit_cast(uint16_t, (_Float16)f);
}

/* c and the products of four signed bytes, in one instruction where there is one. */
FN int32_t dot4(uint32_t a, uint32_t b, int32_t c)
{
#if defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx1030__)
    return __builtin_amdgcn_sdot4((int)a, (int)b, c, false);
#else
    for (int i = 0; i < 4; i++) c += (int32_t)(int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i);
    return c;
#endif
}

#include "lib/engine/cuda/prim_wave.h"

#endif
