/* linear_half.cu - products of weights of f16, bf16 or f8_e4m3 with x of 16 bits, or rounded to
 * them, on the matrix units. */
#include "lib/engine/cuda/linear_half.cuh"

enum { GROUPS = 8 }; /* of eight tokens */

/* Of the row that the product's type has; floats of a byte become T, which all of them are in. */
template <class T>
FN void w_eight(const uint16_t *row, bool any, bool wide, int64_t unit, int64_t K, uint32_t word[4])
{
    eight(row, any, wide, unit, K, word);
}

template <class T>
FN void w_eight(const e4m3 *row, bool any, bool wide, int64_t unit, int64_t K, uint32_t word[4])
{
    UNROLL
    for (int h = 0; h < 2; h++) {
        const int64_t k = column_of(unit, h);
        vec<e4m3, 4> v = {};
        if (any && wide && k < K) {
            v = load_vec<4>(row + k);
        } else if (any) {
            for (int j = 0; j < 4; j++)
                if (k + j < K) v.v[j] = row[k + j];
        }
        for (int j = 0; j < 2; j++)
            word[2 * h + j] = (uint32_t)put<T>(get(v.v[2 * j])).bits |
                              (uint32_t)put<T>(get(v.v[2 * j + 1])).bits << 16;
    }
}

template <class T>
FN void x_eight(const zt_cu_linear_args &a, int64_t t, int64_t unit, uint32_t word[4])
{
    if (a.x_type != ZT_CU_F32) {
        eight(PTR(const uint16_t, a.x) + t * a.K, t < a.n, a.wide_x, unit, a.K, word);
        return;
    }
    for (int j = 0; j < 4; j++) word[j] = 0;
    if (t >= a.n) return;
    const float *x = PTR(const float, a.x) + t * a.K;
    UNROLL
    for (int h = 0; h < 2; h++) {
        const int64_t k = column_of(unit, h);
        vec<float, 4> v = {{0, 0, 0, 0}};
        if (a.wide_x && k < a.K) {
            v = load_vec<4>(x + k);
        } else {
            for (int j = 0; j < 4; j++) v.v[j] = k + j < a.K ? x[k + j] : 0;
        }
        for (int j = 0; j < 4; j++)
            word[2 * h + j / 2] |= (uint32_t)put<T>(v.v[j]).bits << j % 2 * 16;
    }
}

template <class T, class S>
FN void slice_of(const zt_cu_linear_args &a, const share &s, int slice, float acc[GROUPS][4])
{
    int64_t end = (slice + 1) * a.units_slice;
    int g = lane() / 4;
    for (int64_t u = slice * a.units_slice; u < end && u < a.units; u++) {
        uint32_t low[4], high[4], x[4];
        int64_t row = s.tile * 16 + g;
        const S *w = PTR(const S, weights_of(a, s)) + row * a.K;
        w_eight<T>(w, row < s.p->M, a.wide_w, u * 32, a.K, low);
        w_eight<T>(w + 8 * a.K, row + 8 < s.p->M, a.wide_w, u * 32, a.K, high);
        UNROLL
        for (int j = 0; j < GROUPS; j++) {
            if (j * 8 >= s.tokens) continue;
            x_eight<T>(a, s.token + j * 8 + g, u * 32, x);
            by_halves<T>(low, high, x, acc[j]);
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
        product_by_mma<with_halves<number, weight>>(a, part);                                            \
    }
PRODUCT(zt_half_f16, f16, uint16_t)
PRODUCT(zt_half_bf16, bf16, uint16_t)
PRODUCT(zt_half_f16_e4m3, f16, e4m3)
PRODUCT(zt_half_bf16_e4m3, bf16, e4m3)
