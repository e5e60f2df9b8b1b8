/* prim_gpu.h - the primitives of prim.h on the GPU, as intrinsics and PTX; prim.h includes it. */
#ifndef ZT_CU_PRIM_GPU_H
#define ZT_CU_PRIM_GPU_H

#define ZT_CU_ARGUMENT              __grid_constant__
#define ZT_CU_BOUNDS(threads, each) __launch_bounds__(threads, each)
#include "lib/engine/cuda/prim_both.h"

FN void warp_barrier() { __syncwarp(); }
FN uint32_t release_add(uint32_t *word, uint32_t v)
{
    uint32_t was;
    asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(was)
                 : "l"(__cvta_generic_to_global(word)), "r"(v)
                 : "memory");
    return was;
}
FN uint32_t acquire(const uint32_t *word)
{
    uint32_t now;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(__cvta_generic_to_global(word)) : "memory");
    return now;
}
FN void prefetch(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(p))); }

/* Through the cache of what is only read: 2, 4, 8 or 16 bytes of device memory. */
template <int BYTES> struct constant_word {
    typedef uint4 type;
};
template <> struct constant_word<8> {
    typedef uint2 type;
};
template <> struct constant_word<4> {
    typedef uint32_t type;
};
template <> struct constant_word<2> {
    typedef uint16_t type;
};
template <class V> FN V load_constant(const void *p)
{
    typedef typename constant_word<sizeof(V)>::type word;
    union {
        word w;
        V v;
    } u;
    u.w = __ldg(reinterpret_cast<const word *>(p));
    return u.v;
}

/* ---- warps ----------------------------------------------------------------------------------- */

template <class T> FN T shuffle(T v, int lane) { return __shfl_sync(~0u, v, lane); }
template <class T> FN T shuffle_xor(T v, int mask) { return __shfl_xor_sync(~0u, v, mask); }
FN uint32_t vote(bool p) { return __ballot_sync(~0u, p); }

/* ---- numbers --------------------------------------------------------------------------------- */

FN float f16_to_f32(uint16_t bits)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits));
    return f;
}
FN uint16_t f32_to_f16(float f)
{
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f));
    return bits;
}

/* ---- matrices -------------------------------------------------------------------------------- */

// clang-format off
#define ZT_CU_MMA(name, shape, of, sum, letter)                                                    \
    FN void name(sum d[4], const uint32_t a[4], const uint32_t b[2])                               \
    {                                                                                              \
        asm volatile("mma.sync.aligned." shape ".row.col." of                                      \
                     " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                      \
                     : "+" letter(d[0]), "+" letter(d[1]), "+" letter(d[2]), "+" letter(d[3])      \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));          \
    }
// clang-format on
ZT_CU_MMA(mma_f16, "m16n8k16", "f32.f16.f16.f32", float, "f")
ZT_CU_MMA(mma_bf16, "m16n8k16", "f32.bf16.bf16.f32", float, "f")
ZT_CU_MMA(mma_s8, "m16n8k32", "s32.s8.s8.s32", int32_t, "r")
#undef ZT_CU_MMA
FN void mma_s8_k16(int32_t d[4], const uint32_t a[2], const uint32_t b[1])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
                 "{%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}
FN int32_t dot4(uint32_t a, uint32_t b, int32_t c) { return __dp4a((int)a, (int)b, c); }

FN uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

FN void ldmatrix_x4(uint32_t r[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}
FN void ldmatrix_x4_trans(uint32_t r[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* ---- copies that run beside the thread ------------------------------------------------------- */

FN void copy_async(void *dst, const void *src, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(dst)), "l"(__cvta_generic_to_global(src)),
                 "r"(bytes)
                 : "memory");
}
FN void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> FN void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

#endif
