/* prim.h - what CUDA kernels are written in: the device's side of this folder.
 *
 * The same kernel source is compiled three times: by nvcc, where these are the obvious intrinsics
 * (prim_gpu.h), by hipcc for AMD (prim_hip.h), and by g++ for the emulation in tests/cudaemu, where
 * the threads of a block are fibers and every load and store is checked (prim_emu.h there). What all
 * share is here.
 *
 *     KERNEL(add_f32, zt_cu_add_args)
 *     {
 *         const float *x = PTR(const float, a.x);
 *         for (int64_t i = first(); i < a.n; i += stride()) PTR(float, a.y)[i] = x[i] + a.by;
 *     }
 *
 * Rules: threads are in one dimension, whole warps of 32 where a kernel shuffles, blocks in up to
 * three. All threads of a block reach every barrier(), all lanes of a warp every collective of the
 * warp: no return before one. No variables outside functions but CONSTANT tables; no memcpy. a*b+c
 * is rounded twice (nvcc -fmad=false, g++ -ffp-contract=off): write fmaf where it shall be once.
 *
 * KERNEL(name, args)               `a` is the arguments, a struct of args*.h
 * KERNEL_OF(name, args, threads)   the same, never launched with more threads
 * KERNEL_EACH(name, args, threads, each)   and so that a processor has room for `each` blocks
 * FN, FN_MEMBER                    before a function of the device, one of a struct
 * SHARED(float, tile, [4][33])     an array of the block, declared at the kernel's top level
 * DYNAMIC_SHARED(float, buf)       the bytes that the launch asked for
 * thread threads lane warp; block, block_y, block_z; blocks, blocks_y, blocks_z
 * barrier() warp_barrier() fence() (what was written before is seen by all blocks before what is
 * written after)
 * grid_barrier(word)               of all blocks of a cooperative launch; no thread leaves before
 *                                  one. *word: 0 at first, the launch's own, left as it may begin
 * prefetch(p)                      the 128 bytes around p are soon read
 * shuffle(v, lane) shuffle_xor(v, mask) of 4 or 8 bytes; vote(p), its bits
 * warp_sum warp_max warp_min       every lane gets it; one tree: by lane ^ 16, 8, 4, 2, 1
 * atomic_add atomic_min atomic_max atomic_cas atomic_exchange of uint32_t and int32_t (add: u64
 * too) mma_f16 mma_bf16 (m16n8k16, f32 sums) mma_s8 (m16n8k32, i32 sums) mma_s8_k16: d += a b, in
 * PTX's layouts; dot4(a, b, c)           c and the products of four signed bytes ldmatrix_x4
 * ldmatrix_x4_trans    four 8x8 matrices of 16 bits; lane l gives row l % 8 of l / 8
 * copy_async(dst, src, bytes)      16 bytes of shared memory, those past `bytes` as zeros
 * copy_commit() copy_wait<N>()     all but the newest N commits are there, for this thread
 */
#ifndef ZT_CU_PRIM_H
#define ZT_CU_PRIM_H

#include "lib/engine/cuda/args.h"

#include <math.h>
#include <stdint.h>

/* Numbers as they lie in memory. */
struct f16 {
    uint16_t bits;
};
struct bf16 {
    uint16_t bits;
};
struct e4m3 {
    uint8_t bits;
};

#ifdef __CUDACC__
#include "lib/engine/cuda/prim_gpu.h"
#elif defined(__HIP__)
#include "lib/engine/cuda/prim_hip.h"
#else /* whoever compiles for something else says where its primitives are */
#include ZT_CU_PRIMITIVES
#endif

#define PTR(type, address) (reinterpret_cast<type *>(address))

/* ---- numbers --------------------------------------------------------------------------------- */

/* The bits of one as another of the same size. */
template <class To, class From> FN To bits_as(From x)
{
    static_assert(sizeof(To) == sizeof(From), "the same size");
    union {
        From from;
        To to;
    } u;
    u.from = x;
    return u.to;
}

/* What a type is computed in: double for itself, float for the narrower. */
template <class T> struct wide {
    typedef float type;
};
template <> struct wide<double> {
    typedef double type;
};

FN float get(float x) { return x; }
FN double get(double x) { return x; }
FN float get(f16 x) { return f16_to_f32(x.bits); }
FN float get(bf16 x) { return bits_as<float>((uint32_t)x.bits << 16); }

FN uint16_t f32_to_bf16(float x)
{
    uint32_t u = bits_as<uint32_t>(x);
    if ((u & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

/* A double in a float that rounds on to any narrower type as the double itself would: towards zero,
 * with the last bit set where something was lost. */
FN float f64_to_odd(double x)
{
    float f = (float)x;
    if ((double)f == x || x != x) return f;
    uint32_t u = bits_as<uint32_t>(f);
    if (fabs((double)f) > fabs(x)) u--;
    return bits_as<float>(u | 1);
}

/* Rounded to nearest, ties to even. */
FN float round_to(float x, float) { return x; }
FN double round_to(float x, double) { return x; }
FN f16 round_to(float x, f16) { return f16{f32_to_f16(x)}; }
FN bf16 round_to(float x, bf16) { return bf16{f32_to_bf16(x)}; }
FN float round_to(double x, float) { return (float)x; }
FN double round_to(double x, double) { return x; }
FN f16 round_to(double x, f16) { return f16{f32_to_f16(f64_to_odd(x))}; }
FN bf16 round_to(double x, bf16) { return bf16{f32_to_bf16(f64_to_odd(x))}; }
template <class T> FN T put(float x) { return round_to(x, T()); }
template <class T> FN T put(double x) { return round_to(x, T()); }

/* E4M3 without infinities, 448 at most; S.1111.111 is NaN. */
FN float get(e4m3 x)
{
    uint32_t sign = (uint32_t)(x.bits & 0x80) << 24, e = x.bits >> 3 & 15, m = x.bits & 7;
    if ((x.bits & 0x7F) == 0x7F) return bits_as<float>(sign | 0x7FC00000u);
    if (e) return bits_as<float>(sign | (e + 120) << 23 | m << 20);
    float tiny = (float)m * 0.001953125f; /* 2^-9 */
    return sign ? -tiny : tiny;
}

/* N of them in one load, store; their address is a multiple of their size. */
template <class T, int N> struct alignas(sizeof(T) * N) vec {
    T v[N];
};
template <int N, class T> FN vec<T, N> load_vec(const T *p)
{
    ALIGNED(p, sizeof(T) * N);
    return *reinterpret_cast<const vec<T, N> *>(p);
}
/* The same of what nobody writes while the kernel runs. */
template <int N, class T> FN vec<T, N> weight_vec(const T *p)
{
    ALIGNED(p, sizeof(T) * N);
    return load_constant<vec<T, N>>(p);
}
template <class T, int N> FN void store_vec(T *p, const vec<T, N> &v)
{
    ALIGNED(p, sizeof(T) * N);
    *reinterpret_cast<vec<T, N> *>(p) = v;
}

/* ---- ids ------------------------------------------------------------------------------------- */

FN int lane() { return thread() & 31; }
FN int warp() { return thread() >> 5; }
/* For loops over n elements by a grid of any size. */
FN int64_t first() { return (int64_t)block() * threads() + thread(); }
FN int64_t stride() { return (int64_t)blocks() * threads(); }

/* ---- sums of a block ------------------------------------------------------------------------- */

/* Every thread gets it. room: 32 values of shared memory, free again at the next barrier. */
template <class T> FN T block_sum(T v, T *room)
{
    v = warp_sum(v);
    if (threads() <= 32) return v;
    if (lane() == 0) room[warp()] = v;
    barrier();
    return warp_sum(lane() < threads() >> 5 ? room[lane()] : T(0));
}
template <class T> FN T block_max(T v, T *room)
{
    v = warp_max(v);
    if (threads() <= 32) return v;
    if (lane() == 0) room[warp()] = v;
    barrier();
    return warp_max(room[lane() < threads() >> 5 ? lane() : 0]);
}

/* ---- troubles -------------------------------------------------------------------------------- */

/* What only running can find; the lowest `order` of the step stays. */
FN void trouble(zt_cu_runtime_error *t, uint32_t kind, int64_t order, int64_t value, int64_t limit)
{
    volatile zt_cu_runtime_error *v = t;
    for (bool done = false; !done;) {
        if (atomic_cas(&t->lock, 0u, 1u)) continue;
        fence();
        if (!v->kind || order < v->order) {
            v->order = order;
            v->value = value;
            v->limit = limit;
            v->kind = kind;
        }
        fence();
        atomic_exchange(&t->lock, 0u);
        done = true;
    }
    atomic_exchange(PTR(uint32_t, t->flag), 1u);
}

#endif
