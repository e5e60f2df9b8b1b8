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

#define ZT_CU_ARGUMENT
#define ZT_CU_BOUNDS(threads, each) __launch_bounds__(threads)
#include "lib/engine/cuda/prim_both.h"

/* Lanes of a wave go in step, and its loads and stores in order: only the compiler must be told. */
FN void warp_barrier()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
FN uint32_t release_add(uint32_t *word, uint32_t v)
{
    return __hip_atomic_fetch_add(word, v, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
}
FN uint32_t acquire(const uint32_t *word) { return __hip_atomic_load(word, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT); }
FN void prefetch(const void *) {} /* no such instruction */
template <class V> FN V load_constant(const void *p) { return *static_cast<const V *>(p); }

/* ---- warps ----------------------------------------------------------------------------------- */

template <class T> FN T shuffle(T v, int lane) { return __shfl(v, lane & 31, 32); }
template <class T> FN T shuffle_xor(T v, int mask) { return __shfl_xor(v, mask, 32); }
/* A lane's number in the wave is asked for by its address, of 4 bytes a lane. */
FN int lane_at(int lane) { return ((lane & 31) | (int)(__lane_id() & 32)) * 4; }
FN int lane_after(int at) { return at + 4; }
FN uint32_t from_lane(uint32_t v, int at, int next) { return (uint32_t)__builtin_amdgcn_ds_bpermute(at + next * 4, (int)v); }
/* A modifier of instructions: nothing goes through the local memory's network. */
template <int HOW> FN uint32_t quad_lanes(uint32_t v) { return (uint32_t)__builtin_amdgcn_mov_dpp((int)v, HOW, 15, 15, true); }
FN uint32_t vote(bool p) { return (uint32_t)(__ballot(p) >> (__lane_id() & 32)); }

/* ---- numbers --------------------------------------------------------------------------------- */

FN float f16_to_f32(uint16_t bits) { return (float)__builtin_bit_cast(_Float16, bits); }
FN uint16_t f32_to_f16(float f) /* one NaN, that of the other machines */
{
    return f != f ? (uint16_t)0x7FFF : __builtin_bit_cast(uint16_t, (_Float16)f);
}

/* op_sel_hi says which operands are f16, op_sel whether it is their higher half. clang would widen them
 * first: two numbers of f32 at once cost it more instructions. */
template <int HIGH> FN float fma_f16(uint32_t a, uint32_t b, float s)
{
#if defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx1030__)
    if (HIGH)
        asm("v_fma_mix_f32 %0, %1, %2, %0 op_sel:[1,1,0] op_sel_hi:[1,1,0]" : "+v"(s) : "v"(a), "v"(b));
    else
        asm("v_fma_mix_f32 %0, %1, %2, %0 op_sel_hi:[1,1,0]" : "+v"(s) : "v"(a), "v"(b));
    return s;
#else
    return fmaf(f16_to_f32((uint16_t)(a >> 16 * HIGH)), f16_to_f32((uint16_t)(b >> 16 * HIGH)), s);
#endif
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
