/* linear_half.cu - products of weights of f16, bf16 or f8_e4m3 with x of 16 bits, or rounded to
 * them, on the matrix units. A lane reads eight columns that follow each other of 32: which of a
 * step's columns go to which place of the operands does not matter while both agree.
 */
#include "lib/engine/cuda/linear.h"

enum { GROUPS = 8 }; /* of eight tokens */

FN void multiply(f16, float d[4], const uint32_t a[4], const uint32_t b[2]) { mma_f16(d, a, b); }
FN void multiply(bf16, float d[4], const uint32_t a[4], const uint32_t b[2]) { mma_bf16(d, a, b); }

/* Columns k .. k + 7 of a row of 16-bit numbers as four words; what is past K, or no row, 0. */
FN void eight(const uint16_t *row, bool any, bool wide, int64_t k, int64_t K, uint32_t word[4])
{
    vec<uint32_t, 4> v = {{0, 0, 0, 0}};
    if (any && wide && k < K) {
        v = load_vec<4>((const uint32_t *)(row + k));
    } else if (any) {
        for (int j = 0; j < 8; j++)
            if (k + j < K) v.v[j / 2] |= (uint32_t)row[k + j] << j % 2 * 16;
    }
    for (int j = 0; j < 4; j++) word[j] = v.v[j];
}

/* Of the row that the product's type has; floats of a byte become T, which all of them are in. */
template <class T>
FN void w_eight(const uint16_t *row, bool any, bool wide, int64_t k, int64_t K, uint32_t word[4])
{
    eight(row, any, wide, k, K, word);
}

template <class T>
FN void w_eight(const e4m3 *row, bool any, bool wide, int64_t k, int64_t K, uint32_t word[4])
{
    vec<e4m3, 8> v = {};
    if (any && wide && k < K) {
        v = load_vec<8>(row + k);
    } else if (any) {
        for (int j = 0; j < 8; j++)
            if (k + j < K) v.v[j] = row[k + j];
    }
    for (int j = 0; j < 4; j++)
        word[j] = (uint32_t)put<T>(get(v.v[2 * j])).bits |
                  (uint32_t)put<T>(get(v.v[2 * j + 1])).bits << 16;
}

template <class T>
FN void x_eight(const zt_cu_linear_args &a, int64_t t, int64_t k, uint32_t word[4])
{
    if (a.x_type != ZT_CU_F32) {
        eight(PTR(const uint16_t, a.x) + t * a.K, t < a.n, a.wide_x, k, a.K, word);
        return;
    }
    for (int j = 0; j < 4; j++) word[j] = 0;
    if (t >= a.n) return;
    const float *x = PTR(const float, a.x) + t * a.K;
    float v[8];
    if (a.wide_x && k < a.K) {
        for (int h = 0; h < 2; h++) {
            vec<float, 4> part = load_vec<4>(x + k + 4 * h);
            for (int j = 0; j < 4; j++) v[4 * h + j] = part.v[j];
        }
    } else {
        for (int j = 0; j < 8; j++) v[j] = k + j < a.K ? x[k + j] : 0;
    }
    for (int j = 0; j < 8; j++) word[j / 2] |= (uint32_t)put<T>(v[j]).bits << j % 2 * 16;
}

template <class T, class S>
FN void slice_of(const zt_cu_linear_args &a, const share &s, int slice, float acc[GROUPS][4])
{
    int64_t end = (slice + 1) * a.units_slice;
    int g = lane() / 4;
    for (int64_t u = slice * a.units_slice; u < end && u < a.units; u++) {
        uint32_t low[4], high[4], x[4];
        int64_t k = u * 32 + lane() % 4 * 8, row = s.tile * 16 + g;
        const S *w = PTR(const S, s.p->w) + row * a.K;
        w_eight<T>(w, row < s.p->M, a.wide_w, k, a.K, low);
        w_eight<T>(w + 8 * a.K, row + 8 < s.p->M, a.wide_w, k, a.K, high);
        const uint32_t one[4] = {low[0], high[0], low[1], high[1]};
        const uint32_t two[4] = {low[2], high[2], low[3], high[3]};
        UNROLL
        for (int j = 0; j < GROUPS; j++) {
            if (j * 8 >= s.tokens) continue;
            x_eight<T>(a, s.token + j * 8 + g, k, x);
            multiply(T(), acc[j], one, x);
            multiply(T(), acc[j], two, x + 2);
        }
    }
}

template <class T, class S> struct with_halves {
    enum { GROUPS = ::GROUPS };
    FN_MEMBER static void slice(const zt_cu_linear_args &a, const share &s, int k,
                                float acc[GROUPS][4])
    {
        slice_of<T, S>(a, s, k, acc);
    }
};

#define PRODUCT(name, number, weight)                                                              \
    KERNEL_OF(name, zt_cu_linear_args, 32 * SLICES)                                                \
    {                                                                                              \
        DYNAMIC_SHARED(float, part);                                                               \
        by_units<with_halves<number, weight>>(a, part);                                            \
    }
PRODUCT(zt_half_f16, f16, uint16_t)
PRODUCT(zt_half_bf16, bf16, uint16_t)
PRODUCT(zt_half_f16_e4m3, f16, e4m3)
PRODUCT(zt_half_bf16_e4m3, bf16, e4m3)
