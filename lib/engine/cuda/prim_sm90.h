/* prim_sm90.h - primitives that compute capability 9.0 alone has (sm_90a), for *_sm90.cu: matrices
 * that a warpgroup multiplies out of shared memory (wgmma), tiles of tensors that one thread has
 * copied there (TMA), and the barriers that count both. Instructions and layouts are those of PTX's
 * manual; tests/cudaemu/sm90.cpp has the same for tests without a GPU.
 *
 * A warpgroup is four warps, the first a multiple of four. A file of kernels is compiled for other
 * machines too: ZT_CU_SM90 is 0 there, and the body of a kernel must be left out.
 *
 * mbarrier_init(bar, count)        of shared memory, by one thread; then mbarrier_fence(),
 * barrier() mbarrier_arrive(bar)             one of `count`: with the last, and all bytes there, a
 * phase ends mbarrier_expect(bar, bytes)      the same, and so many bytes more are to come in this
 * phase mbarrier_wait(bar, parity)       until the phase of that parity has ended: 0, 1, 0 ... are
 * its phases; the one before the first (parity 1) has tensor_copy(to, map, x, y, z, bar)   the box
 * of `map` (a tensor map, a field of the kernel's arguments) at column x, row y, matrix z; its
 * bytes, those outside of the tensor as zeros, count at bar. `to`: from 1024 bytes on
 * tensor_prefetch(map)             it is soon used
 * wgmma_tile(p, lead, stride)      what wgmma calls rows of 64 numbers as tensor_copy puts them
 * (128 bytes, chunks of 16 mixed up by xor): groups of 8 rows `stride` bytes apart; of those that
 * are K's 16 and not the operand's rows, `lead` from 64 of the operand's rows to the next 64
 * wgmma<T, WIDTH, A, B>(d, a, b, adds)   d (+)= a b^T, 64 by WIDTH, 16 of K; A, B: numbers of one K
 *                                  lie side by side, not of one row. d is sums of f32 in mma's
 * places: row 16 warp + lane / 4 + 8 (i / 2 % 2), column i / 4 * 8 + lane % 4 * 2 + i % 2
 * wgmma_fence(d)                   before the first of some: what was done to d is done
 * wgmma_commit() wgmma_wait<N>()   all but the newest N commits are done; nothing of theirs, sums
 * or operands, may be touched before. wgmma_done(d): all are, and d is registers_give<N>()
 * registers_take<N>()   the warpgroup has N a thread from here on
 */
#ifndef ZT_CU_PRIM_SM90_H
#define ZT_CU_PRIM_SM90_H

#include "lib/engine/cuda/args_wgmma.h"
#include "lib/engine/cuda/prim.h"
#include "lib/engine/cuda/unroll.h"

#ifdef __CUDACC__
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define ZT_CU_SM90 1

/* ---- barriers -------------------------------------------------------------------------------- */

FN void mbarrier_init(uint64_t *bar, int count)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
}
FN void mbarrier_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
FN void mbarrier_arrive(uint64_t *bar)
{
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}
FN void mbarrier_expect(uint64_t *bar, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}
FN bool mbarrier_try(uint32_t bar, uint32_t parity)
{
    uint32_t done;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n"
                 "selp.b32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(bar), "r"(parity)
                 : "memory");
    return done;
}
FN uint64_t nanoseconds()
{
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}
/* What has not come after twenty seconds will not: the launch ends as one that failed. */
FN void mbarrier_wait(uint64_t *bar, uint32_t parity)
{
    const uint32_t at = shared_address(bar);
    if (mbarrier_try(at, parity)) return;
    const uint64_t since = nanoseconds();
    while (!mbarrier_try(at, parity))
        if (nanoseconds() - since > 20000000000u) __trap();
}

/* ---- copies ---------------------------------------------------------------------------------- */

FN void tensor_copy(void *to, const zt_cu_tensor_map *map, int x, int y, int z, uint64_t *bar)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(to)),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(bar))
                 : "memory");
}
FN void tensor_prefetch(const zt_cu_tensor_map *map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }

/* ---- products -------------------------------------------------------------------------------- */

FN uint64_t wgmma_tile(const void *p, uint32_t lead, uint32_t stride)
{
    return (uint64_t)(shared_address(p) >> 4 & 0x3FFF) | (uint64_t)(lead >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | 1ull << 62;
}

#define R4(i)        "%" #i "0,%" #i "1,%" #i "2,%" #i "3"
#define R10(i)       R4(i) ",%" #i "4,%" #i "5,%" #i "6,%" #i "7,%" #i "8,%" #i "9"
#define REGISTERS_60 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9," R10(1) "," R10(2) "," R10(3) "," R10(4) "," R10(5)
#define REGISTERS_64 REGISTERS_60 "," R4(6)
#define REGISTERS_128                                                                                                            \
    REGISTERS_60 "," R10(6) "," R10(7) "," R10(8) "," R10(9) "," R10(10) "," R10(11) ",%120,%121,%122,%123,%124,%125,%126,%127"
#define SUMS_8(i)                                                                                                                \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define SUMS_32(i) SUMS_8(i), SUMS_8(i + 8), SUMS_8(i + 16), SUMS_8(i + 24)
#define SUMS_64    SUMS_32(0), SUMS_32(32)
#define SUMS_128   SUMS_64, SUMS_32(64), SUMS_32(96)

/* %N and on: the tiles, adds, the two orders. */
// clang-format off
#define WGMMA(number, name, width, registers, sums, a_at, b_at, adds_at, a_order, b_order)         \
    template <bool A, bool B>                                                                      \
    FN void wgmma_of(number, float(&d)[width / 2], uint64_t a, uint64_t b, bool adds)              \
    {                                                                                              \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " adds_at ", 0;\n"                          \
                     "wgmma.mma_async.sync.aligned.m64n" #width "k16.f32." name "." name           \
                     " {" registers "}, " a_at ", " b_at ", p, 1, 1, " a_order ", " b_order ";\n}" \
                     : sums                                                                        \
                     : "l"(a), "l"(b), "r"((int)adds), "n"((int)A), "n"((int)B)                    \
                     : "memory");                                                                  \
    }
// clang-format on
#define WGMMA_128(number, name) WGMMA(number, name, 128, REGISTERS_64, SUMS_64, "%64", "%65", "%66", "%67", "%68")
#define WGMMA_256(number, name) WGMMA(number, name, 256, REGISTERS_128, SUMS_128, "%128", "%129", "%130", "%131", "%132")
WGMMA_128(f16, "f16")
WGMMA_128(bf16, "bf16")
WGMMA_256(f16, "f16")
WGMMA_256(bf16, "bf16")

template <class T, int WIDTH, bool A, bool B> FN void wgmma(float (&d)[WIDTH / 2], uint64_t a, uint64_t b, bool adds)
{
    wgmma_of<A, B>(T(), d, a, b, adds);
}

/* The compiler keeps what it does to the sums on its side of this. */
template <int N> FN void sums_pinned(float (&d)[N])
{
    UNROLL_FOR (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}
template <int N> FN void wgmma_fence(float (&d)[N])
{
    sums_pinned(d);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
FN void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> FN void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
template <int N> FN void wgmma_done(float (&d)[N])
{
    wgmma_wait<0>();
    sums_pinned(d);
}

#undef R4
#undef R10
#undef REGISTERS_60
#undef REGISTERS_64
#undef REGISTERS_128
#undef SUMS_8
#undef SUMS_32
#undef SUMS_64
#undef SUMS_128
#undef WGMMA
#undef WGMMA_128
#undef WGMMA_256

template <int N> FN void registers_give() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> FN void registers_take() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }

#else
#define ZT_CU_SM90 0
#endif
#else
#define ZT_CU_SM90 1
#include ZT_CU_PRIMITIVES_SM90
#endif

#endif
