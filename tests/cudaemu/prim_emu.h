/* prim_emu.h - the primitives of lib/engine/cuda/prim.h for tests without a GPU.
 *
 * A thread of a block is a call of the kernel; one that must wait is a fiber (block.cpp). Loads and
 * stores call what check.cpp has for them, because kernels are compiled with -fsanitize=thread and
 * without its library. What a thread is told of itself never changes while it runs, hence const.
 */
#ifndef ZT_PRIM_EMU_H
#define ZT_PRIM_EMU_H

#include <stddef.h>

#define FN        static inline __attribute__((unused))
#define FN_MEMBER inline
#define CONSTANT  static const
#define KERNEL(name, args)                                                                                                       \
    static void name(const args &a);                                                                                             \
    static emu_kernel emu_of_##name(#name, sizeof(args), [](const void *p) { name(*static_cast<const args *>(p)); });            \
    static void name([[maybe_unused]] const args &a)
#define KERNEL_OF(name, args, threads)         KERNEL(name, args)
#define KERNEL_EACH(name, args, threads, each) KERNEL(name, args)
#define SHARED(type, name, dims)                                                                                                 \
    typedef type name##_array dims;                                                                                              \
    name##_array &name = *static_cast<name##_array *>(emu_shared(sizeof(name##_array)))
#define DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(emu_dynamic())

/* A kernel makes itself known before main. */
struct emu_kernel {
    const char *name;
    size_t bytes;
    void (*run)(const void *args);
    const emu_kernel *next;
    emu_kernel(const char *its_name, size_t its_bytes, void (*its_run)(const void *));
};

enum emu_axis { EMU_X, EMU_Y, EMU_Z };
__attribute__((const)) int emu_thread();
__attribute__((const)) int emu_threads();
__attribute__((const)) int emu_block(emu_axis of);
__attribute__((const)) int emu_blocks(emu_axis of);

FN int thread() { return emu_thread(); }
FN int threads() { return emu_threads(); }
FN int block() { return emu_block(EMU_X); }
FN int block_y() { return emu_block(EMU_Y); }
FN int block_z() { return emu_block(EMU_Z); }
FN int blocks() { return emu_blocks(EMU_X); }
FN int blocks_y() { return emu_blocks(EMU_Y); }
FN int blocks_z() { return emu_blocks(EMU_Z); }

void emu_aligned(const void *p, size_t n); /* check.cpp: else the launch fails */
#define ALIGNED(p, n) emu_aligned(p, n)
void *emu_shared(size_t bytes);
void *emu_dynamic();
void barrier();
void warp_barrier();
FN void fence() {}
void grid_barrier(uint32_t *word);
void prefetch(const void *p);
template <class V> FN V load_constant(const void *p) { return *static_cast<const V *>(p); }

/* ---- warps: prim_emu.cpp --------------------------------------------------------------------- */

uint64_t emu_shuffle(uint64_t bits, int from, size_t bytes);
template <class T> FN T shuffle(T v, int from)
{
    union {
        T v;
        uint64_t bits;
    } u;
    u.bits = 0;
    u.v = v;
    u.bits = emu_shuffle(u.bits, from, sizeof(T));
    return u.v;
}
template <class T> FN T shuffle_xor(T v, int mask) { return shuffle(v, (emu_thread() & 31) ^ mask); }
uint32_t vote(bool p);
#define EMU_WARP(T)                                                                                                              \
    T warp_sum(T v);                                                                                                             \
    T warp_max(T v);                                                                                                             \
    T warp_min(T v);
EMU_WARP(float)
EMU_WARP(double)
EMU_WARP(int32_t)
EMU_WARP(uint32_t)
EMU_WARP(int64_t)
EMU_WARP(uint64_t)

uint32_t atomic_add(uint32_t *p, uint32_t v);
int32_t atomic_add(int32_t *p, int32_t v);
uint64_t atomic_add(uint64_t *p, uint64_t v);
uint32_t atomic_min(uint32_t *p, uint32_t v);
uint32_t atomic_max(uint32_t *p, uint32_t v);
int32_t atomic_min(int32_t *p, int32_t v);
int32_t atomic_max(int32_t *p, int32_t v);
uint32_t atomic_cas(uint32_t *p, uint32_t was, uint32_t v);
uint32_t atomic_exchange(uint32_t *p, uint32_t v);

float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float f);

void mma_f16(float d[4], const uint32_t a[4], const uint32_t b[2]);
void mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2]);
void mma_s8(int32_t d[4], const uint32_t a[4], const uint32_t b[2]);
void mma_s8_k16(int32_t d[4], const uint32_t a[2], const uint32_t b[1]);
int32_t dot4(uint32_t a, uint32_t b, int32_t c);
void ldmatrix_x4(uint32_t r[4], const void *row);
void ldmatrix_x4_trans(uint32_t r[4], const void *row);

void copy_async(void *dst, const void *src, int bytes);
void copy_commit();
void emu_copy_wait(int newest);
template <int N> FN void copy_wait() { emu_copy_wait(N); }

#endif
