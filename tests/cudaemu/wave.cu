/* wave.cu - prim_wave.h, AMD's fragments and copies, held to the emulation's own for
 * tests/engine/cuda_emu.c: the same bits in the same lanes. */
#include "lib/engine/cuda/prim.h"
#include "planted.h"

/* quad_perm of AMD's manuals: a lane gets what is in that lane of its four which its two bits name. */
template <int HOW> FN uint32_t quad_lanes(uint32_t v)
{
    return shuffle(v, (lane() & 28) + (HOW >> lane() % 4 * 2 & 3));
}
FN int lane_at(int which) { return which; }
FN int lane_after(int at) { return at + 1; }
FN uint32_t from_lane(uint32_t v, int at, int next) { return shuffle(v, at + next); }
template <int HIGH> FN float fma_f16(uint32_t a, uint32_t b, float s)
{
    return fmaf(f16_to_f32((uint16_t)(a >> 16 * HIGH)), f16_to_f32((uint16_t)(b >> 16 * HIGH)), s);
}

namespace wave {
#include "lib/engine/cuda/prim_wave.h"
}

/* Numbers below two in f16 and bf16, any bytes. */
FN uint32_t some(uint32_t i)
{
    uint32_t h = ((uint32_t)lane() * 64 + i + 1) * 2654435761u;
    return (h ^ h >> 15) * 2246822519u & 0xBFFFBFFFu;
}

typedef struct tally {
    float unlike, likes; /* words, of the latter those that are not 0 */
} tally;
template <class T> FN void compare(tally *t, const T *a, const T *b, int n)
{
    for (int i = 0; i < n; i++) {
        t->unlike += bits_as<uint32_t>(a[i]) != bits_as<uint32_t>(b[i]);
        t->likes += bits_as<uint32_t>(a[i]) == bits_as<uint32_t>(b[i]) && a[i] != 0;
    }
}
FN void tell(const emu_args &a, const tally &t)
{
    PTR(float, a.y)[thread()] = t.unlike;
    PTR(float, a.y)[thread() + 256] = t.likes;
}

#define MMA(name, T)                                                                               \
    for (int i = 0; i < 4; i++) x[i] = some(i), y[i % 2] = some(i + 8);                            \
    T name##_d[4] = {T(lane()), T(1), T(-2), T(3)}, name##_e[4];                                   \
    for (int i = 0; i < 4; i++) name##_e[i] = name##_d[i];                                         \
    ::name(name##_d, x, y);                                                                        \
    wave::name(name##_e, x, y);                                                                    \
    compare(&t, name##_d, name##_e, 4);
KERNEL(emu_wave_mma, emu_args)
{
    tally t = {0, 0};
    uint32_t x[4], y[2];
    MMA(mma_f16, float)
    MMA(mma_bf16, float)
    MMA(mma_s8, int32_t)
    MMA(mma_s8_k16, int32_t)
    tell(a, t);
}

KERNEL(emu_wave_rows, emu_args)
{
    SHARED(uint32_t, room, [8][32][4]);
    tally t = {0, 0};
    uint32_t r[4], s[4];
    for (int i = 0; i < 4; i++) room[warp()][lane()][i] = some(i);
    warp_barrier();
    const void *row = room[warp()][lane() * 7 & 31];
    ldmatrix_x4(r, row);
    wave::ldmatrix_x4(s, row);
    compare(&t, r, s, 4);
    ldmatrix_x4_trans(r, row);
    wave::ldmatrix_x4_trans(s, row);
    compare(&t, r, s, 4);
    tell(a, t);
}

KERNEL(emu_wave_copy, emu_args)
{
    SHARED(float, room, [2][256][4]);
    tally t = {0, 0};
    const float *from = PTR(const float, a.x) + thread() % 64 * 4;
    const int bytes = thread() % 5 * 4;
    copy_async(room[0][thread()], from, bytes);
    copy_commit();
    copy_wait<0>();
    wave::copy_async(room[1][thread()], from, bytes);
    wave::copy_commit();
    wave::copy_wait<0>();
    compare(&t, room[0][thread()], room[1][thread()], 4);
    tell(a, t);
}
