/* prim_emu.cpp - the primitives: what lanes tell each other, atomics, matrices. */
#include "emu.h"

#include <math.h>
#include <string.h>

/* ---- warps ----------------------------------------------------------------------------------- */

static const char on_shuffle[] = "a shuffle", on_vote[] = "a vote", on_reduce[] = "a reduction",
                  on_mma[] = "an mma", on_ldmatrix[] = "ldmatrix";

uint64_t emu_shuffle(uint64_t bits, int from, size_t)
{
    const unsigned char *all = emu_exchange(on_shuffle, &bits, sizeof bits);
    memcpy(&bits, all + (from & 31) * EMU_SLOT, sizeof bits);
    return bits;
}

uint32_t vote(bool p)
{
    const unsigned char *all = emu_exchange(on_vote, &p, sizeof p);
    uint32_t bits = 0;
    for (int i = 0; i < 32; i++) bits |= (uint32_t)all[i * EMU_SLOT] << i;
    return bits;
}

/* As 32 lanes do it that each combine theirs with that of lane ^ 16, 8, 4, 2, 1. */
template <class T, class F> static T tree(T v, F combine)
{
    const unsigned char *all = emu_exchange(on_reduce, &v, sizeof v);
    T at[32];
    for (int i = 0; i < 32; i++) memcpy(&at[i], all + i * EMU_SLOT, sizeof v);
    for (int m = 16; m; m >>= 1)
        for (int i = 0; i < m; i++) at[i] = combine(at[i], at[i + m]);
    return at[0];
}

#define WARP(T)                                                                                    \
    T warp_sum(T v)                                                                                \
    {                                                                                              \
        return tree(v, [](T a, T b) { return a + b; });                                            \
    }                                                                                              \
    T warp_max(T v)                                                                                \
    {                                                                                              \
        return tree(v, [](T a, T b) { return b > a || b != b ? b : a; });                          \
    }                                                                                              \
    T warp_min(T v)                                                                                \
    {                                                                                              \
        return tree(v, [](T a, T b) { return b < a || b != b ? b : a; });                          \
    }
WARP(float)
WARP(double)
WARP(int32_t)
WARP(uint32_t)
WARP(int64_t)
WARP(uint64_t)

/* ---- atomics --------------------------------------------------------------------------------- */

/* Atomics do not race with each other: only the bounds are looked at. */
template <class T, class F> static T atomic(T *p, F change)
{
    emu_aligned(p, sizeof *p);
    emu_touch_atomic(reinterpret_cast<uintptr_t>(p), sizeof *p);
    emu_is.acquired = true;
    T was = *p;
    *p = change(was);
    return was;
}

#define ATOMIC(name, T, expression)                                                                \
    T name(T *p, T v)                                                                              \
    {                                                                                              \
        return atomic(p, [v](T was) { return expression; });                                       \
    }
ATOMIC(atomic_add, uint32_t, was + v)
ATOMIC(atomic_add, int32_t, was + v)
ATOMIC(atomic_add, uint64_t, was + v)
ATOMIC(atomic_min, uint32_t, was < v ? was : v)
ATOMIC(atomic_max, uint32_t, was > v ? was : v)
ATOMIC(atomic_min, int32_t, was < v ? was : v)
ATOMIC(atomic_max, int32_t, was > v ? was : v)
ATOMIC(atomic_exchange, uint32_t, ((void)was, v))

uint32_t atomic_cas(uint32_t *p, uint32_t expected, uint32_t v)
{
    return atomic(p, [=](uint32_t was) { return was == expected ? v : was; });
}

/* ---- hints ----------------------------------------------------------------------------------- */

/* As the GPU has it, what is nowhere is not told; but a kernel should not ask for it. */
void prefetch(const void *p)
{
    const uintptr_t at = reinterpret_cast<uintptr_t>(p);
    if (!emu_memory_behind(at))
        emu_fail(EMU_ILLEGAL_ADDRESS, "prefetches nothing at 0x%zx", (size_t)at);
}

/* ---- numbers --------------------------------------------------------------------------------- */

float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023, bits;
    float f;
    if (e == 31)
        bits = sign | 0x7F800000 | m << 13;
    else if (e)
        bits = sign | (e + 112) << 23 | m << 13;
    else {
        f = (float)m * 0x1p-24f;
        return sign ? -f : f;
    }
    memcpy(&f, &bits, sizeof f);
    return f;
}

uint16_t f32_to_f16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    uint32_t sign = u >> 16 & 0x8000;
    u &= 0x7FFFFFFF;
    if (u > 0x7F800000) return 0x7FFF; /* as the GPU has it */
    if (u >= 0x477FF000) return (uint16_t)(sign | 0x7C00);
    if (u >= 0x38800000) return (uint16_t)(sign | ((u + 0xFFF + (u >> 13 & 1)) - 0x38000000) >> 13);
    memcpy(&f, &u, sizeof f);
    return (uint16_t)(sign | (uint32_t)rintf(f * 16777216.0f));
}

static float bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

int32_t dot4(uint32_t a, uint32_t b, int32_t c)
{
    for (int i = 0; i < 4; i++) c += (int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i);
    return c;
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* What the warp's lanes hold of a product: A has 16 rows, lane l those of l / 4 and l / 4 + 8; B 8
 * columns, lane l that of l / 4; D's columns 2 (l % 4) and the next. A register holds `each` values
 * along K, and the next register of a row those 4 * each further on. */
struct held {
    uint32_t a[4], b[2];
};

static const held *held_by(const unsigned char *all, int row_or_column, int place)
{
    return reinterpret_cast<const held *>(all + (row_or_column % 8 * 4 + place) * EMU_SLOT);
}

template <class Sum, class F>
static void mma(Sum d[4], const uint32_t a[4], const uint32_t b[2], int halves, F dot)
{
    held mine = {};
    for (int i = 0; i < 2 * halves; i++) mine.a[i] = a[i];
    for (int i = 0; i < halves; i++) mine.b[i] = b[i];
    const unsigned char *all = emu_exchange(on_mma, &mine, sizeof mine);
    int l = emu_is.thread & 31;
    for (int k = 0; k < 4; k++) {
        int row = l / 4 + k / 2 * 8, column = l % 4 * 2 + k % 2;
        for (int half = 0; half < halves; half++)
            for (int place = 0; place < 4; place++)
                d[k] = dot(held_by(all, row, place)->a[2 * half + k / 2],
                           held_by(all, column, place)->b[half], d[k]);
    }
}

void mma_f16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    mma(d, a, b, 2, [](uint32_t x, uint32_t y, float s) {
        s += f16_to_f32((uint16_t)x) * f16_to_f32((uint16_t)y);
        return s + f16_to_f32((uint16_t)(x >> 16)) * f16_to_f32((uint16_t)(y >> 16));
    });
}
void mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    mma(d, a, b, 2, [](uint32_t x, uint32_t y, float s) {
        s += bf16_to_f32((uint16_t)x) * bf16_to_f32((uint16_t)y);
        return s + bf16_to_f32((uint16_t)(x >> 16)) * bf16_to_f32((uint16_t)(y >> 16));
    });
}
void mma_s8(int32_t d[4], const uint32_t a[4], const uint32_t b[2]) { mma(d, a, b, 2, dot4); }
void mma_s8_k16(int32_t d[4], const uint32_t a[2], const uint32_t b[1]) { mma(d, a, b, 1, dot4); }

static void ldmatrix(uint32_t r[4], const void *row, bool transposed)
{
    uint16_t mine[8];
    emu_aligned(row, 16);
    emu_touch(reinterpret_cast<uintptr_t>(row), 16, false);
    memcpy(mine, row, sizeof mine);
    const unsigned char *all = emu_exchange(on_ldmatrix, mine, sizeof mine);
    int l = emu_is.thread & 31;
    for (int i = 0; i < 4; i++) {
        uint16_t v[2];
        for (int k = 0; k < 2; k++) {
            int from = transposed ? l % 4 * 2 + k : l / 4, at = transposed ? l / 4 : l % 4 * 2 + k;
            memcpy(&v[k], all + (i * 8 + from) * EMU_SLOT + at * 2, 2);
        }
        r[i] = (uint32_t)v[0] | (uint32_t)v[1] << 16;
    }
}
void ldmatrix_x4(uint32_t r[4], const void *row) { ldmatrix(r, row, false); }
void ldmatrix_x4_trans(uint32_t r[4], const void *row) { ldmatrix(r, row, true); }
