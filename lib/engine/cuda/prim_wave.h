/* prim_wave.h - matrix fragments and copies of prim.h by shuffles, for machines whose matrix units
 * hold numbers in other lanes than PTX has them, or that have none.
 *
 * Who includes it has thread(), shuffle() and dot4(), and besides
 *
 * quad_lanes<HOW>(v)       v of that of four neighbours which bits 2 i and 2 i + 1 of HOW name for the
 *                          i-th
 * lane_at(lane)            a lane of the warp, as
 * from_lane(v, at, next)   wants it: v of the lane that many further on
 * lane_after(at)           the next
 * fma_f16<HIGH>(a, b, s)   s and the product of the lower or higher f16 of a and b, rounded once
 *
 * tests/cudaemu holds each function here to the emulation's own: the sums have the same order along
 * K, hence the same bits.
 *
 * Lane l of a warp holds, of A, rows l / 4 and l / 4 + 8; of B, column l / 4; of D those rows and
 * columns 2 (l % 4) and the next. A register has some neighbours along K, those of place l % 4; the
 * next register of the same row has those of four places further on.
 */
#ifndef ZT_CU_PRIM_WAVE_H
#define ZT_CU_PRIM_WAVE_H

/* s and the products of two numbers, one after the other: a product of two such is exact. */
struct wave_f16 {
    FN_MEMBER float operator()(uint32_t a, uint32_t b, float s) const { return fma_f16<1>(a, b, fma_f16<0>(a, b, s)); }
};
struct wave_bf16 {
    FN_MEMBER static float wide(uint32_t high)
    {
        union {
            uint32_t bits;
            float f;
        } u;
        u.bits = high;
        return u.f;
    }
    FN_MEMBER float operator()(uint32_t a, uint32_t b, float s) const
    {
        s = fmaf(wide(a << 16), wide(b << 16), s);
        return fmaf(wide(a & 0xFFFF0000u), wide(b & 0xFFFF0000u), s);
    }
};
struct wave_s8 {
    FN_MEMBER int32_t operator()(uint32_t a, uint32_t b, int32_t s) const { return dot4(a, b, s); }
};

enum { QUAD_FIRST = 0x00, QUAD_NEXT = 0x39 }; /* lanes 0 0 0 0, lanes 1 2 3 0 */

/* Places are a loop: kernels with hundreds of products, all inlined, would take minutes each to
 * compile, and no cache of instructions would hold them. A's numbers are with the four lanes that
 * want them: they go round, and all take the first lane's. B's come from anywhere in the warp,
 * through the local memory's network, which is what a product waits for. */
#ifdef __HIP__
#define WAVE_ROLLED _Pragma("unroll 1")
#else
#define WAVE_ROLLED
#endif
template <class Sum, class Dot> FN void wave_half(Sum d[4], uint32_t upper, uint32_t lower, uint32_t b, Dot dot)
{
    int column = lane_at(thread() % 4 * 8); /* the lane with its first place */
    WAVE_ROLLED
    for (int place = 0; place < 4; place++) {
        const uint32_t top = quad_lanes<QUAD_FIRST>(upper), low = quad_lanes<QUAD_FIRST>(lower);
        const uint32_t left = from_lane(b, column, 0), right = from_lane(b, column, 4);
        upper = quad_lanes<QUAD_NEXT>(upper);
        lower = quad_lanes<QUAD_NEXT>(lower);
        column = lane_after(column);
        d[0] = dot(top, left, d[0]);
        d[1] = dot(top, right, d[1]);
        d[2] = dot(low, left, d[2]);
        d[3] = dot(low, right, d[3]);
    }
}
#undef WAVE_ROLLED
template <int HALVES, class Sum, class Dot> FN void wave_mma(Sum d[4], const uint32_t *a, const uint32_t *b, Dot dot)
{
    wave_half(d, a[0], a[1], b[0], dot);
    if (HALVES == 2) wave_half(d, a[2], a[3], b[1], dot);
}

FN void mma_f16(float d[4], const uint32_t a[4], const uint32_t b[2]) { wave_mma<2>(d, a, b, wave_f16()); }
FN void mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2]) { wave_mma<2>(d, a, b, wave_bf16()); }
FN void mma_s8(int32_t d[4], const uint32_t a[4], const uint32_t b[2]) { wave_mma<2>(d, a, b, wave_s8()); }
FN void mma_s8_k16(int32_t d[4], const uint32_t a[2], const uint32_t b[1]) { wave_mma<1>(d, a, b, wave_s8()); }

/* Where another lane points, in the same array: a distance is 32 bits to shuffle, and leaves the
 * compiler what it knows of the pointer. */
FN const uint16_t *wave_row(const void *mine, int lane)
{
    const uint64_t at = reinterpret_cast<uint64_t>(mine);
    const int32_t there = shuffle((int32_t)at, lane);
    return static_cast<const uint16_t *>(mine) + (there - (int32_t)at) / 2;
}
FN void ldmatrix_x4(uint32_t r[4], const void *row)
{
    const int l = thread() & 31;
    for (int i = 0; i < 4; i++) {
        const uint16_t *from = wave_row(row, i * 8 + l / 4) + l % 4 * 2;
        r[i] = *reinterpret_cast<const uint32_t *>(from);
    }
}
FN void ldmatrix_x4_trans(uint32_t r[4], const void *row)
{
    const int l = thread() & 31;
    for (int i = 0; i < 4; i++) {
        const uint16_t *first = wave_row(row, i * 8 + l % 4 * 2);
        const uint16_t *second = wave_row(row, i * 8 + l % 4 * 2 + 1);
        r[i] = (uint32_t)first[l / 4] | (uint32_t)second[l / 4] << 16;
    }
}

/* There when it returns. */
FN void copy_async(void *dst, const void *src, int bytes)
{
    uint32_t v[4] = {0, 0, 0, 0};
    unsigned char *to = reinterpret_cast<unsigned char *>(v);
    if (bytes == 16)
        for (int i = 0; i < 4; i++) v[i] = static_cast<const uint32_t *>(src)[i];
    else
        for (int i = 0; i < bytes; i++) to[i] = static_cast<const unsigned char *>(src)[i];
    for (int i = 0; i < 4; i++) static_cast<uint32_t *>(dst)[i] = v[i];
}
FN void copy_commit() {}
template <int N> FN void copy_wait() {}

#endif
