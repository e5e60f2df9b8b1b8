/* linear_codes.cu - products of packed weights with x rounded to codes of 8 bits, on the matrix
 * units: 16 rows by 8 tokens by 32 columns a step, whole numbers, which the scales then weigh.
 */
#include "lib/engine/cuda/codes.cuh"

/* ---- codes of x ------------------------------------------------------------------------------ */

/* Tokens go by eight, columns by 32 (a step): lane 4 g + t has of token g columns 4 t .. 4 t + 3
 * and 16 + 4 t .. 16 + 4 t + 3, as mma_s8 wants operand B; and of each token the scale and the
 * scale times the sum of the codes. Codes of what the first leave over follow all of the first. */

KERNEL(zt_codes, zt_cu_codes_args)
{
    int64_t steps = a.K / 32, tiles = (a.n + 7) / 8,
            at = (int64_t)block() * (threads() / 32) + warp();
    bool any = at < steps * tiles;
    int64_t token = at / steps * 8 + lane() / 4, column = at % steps * 32 + lane() % 4 * 4;
    float v[8];
    for (int k = 0; k < 8; k++)
        v[k] = any && token < a.n
                   ? number_at(a.x, a.x_type, token * a.K + column + k % 4 + k / 4 * 16)
                   : 0;
    for (int e = 0; e < a.each; e++) {
        vec<uint32_t, 2> word;
        vec<float, 2> sum;
        int64_t to = e * tiles * steps + at;
        encode(v, word.v, &sum.v[0], &sum.v[1]);
        if (!any) continue;
        store_vec(PTR(uint32_t, a.codes) + (to * 32 + lane()) * 2, word);
        if (lane() % 4 == 0) store_vec(PTR(float, a.sums) + (to * 8 + lane() / 4) * 2, sum);
    }
}

/* ---- products -------------------------------------------------------------------------------- */

enum { GROUPS = 4 }; /* of eight tokens, that a weight is unpacked for */

/* One step of 16 rows by eight tokens: sums of rows g, g + 8 and tokens 2 t, 2 t + 1. */
template <class T>
FN void step_of(const zt_cu_linear_args &a, const fragment *f, int64_t at, int64_t more,
                float acc[4])
{
    for (int e = 0; e < a.each; e++, at += more) {
        vec<uint32_t, 2> b = load_vec<2>(PTR(const uint32_t, a.x) + (at * 32 + lane()) * 2);
        vec<float, 4> x = load_vec<4>(PTR(const float, a.x_sums) + (at * 8 + lane() % 4 * 2) * 2);
        const float scale[2] = {x.v[0], x.v[2]}, sum[2] = {x.v[1], x.v[3]};
        by_codes<T>(f, b.v, scale, sum, acc);
    }
}

template <class T>
FN void slice_of(const zt_cu_linear_args &a, const share &s, int slice, float acc[GROUPS][4])
{
    int64_t tiles = (a.n + 7) / 8, steps = a.K / 32, end = (slice + 1) * a.units_slice;
    int groups = (s.tokens + 7) / 8;
    for (int64_t u = slice * a.units_slice; u < end && u < a.units; u++) {
        packed_unit w;
        read_unit<T>(PTR(const uint32_t, weights_of(a, s)), PTR(const uint32_t, heads_of(a, s)),
                     PTR(const f16, halves_of(a, s)), s.tile * a.units + u, &w);
        UNROLL
        for (int k = 0; k < T::STEPS; k++) {
            fragment f;
            T::get(&w, k, &f);
            UNROLL
            for (int j = 0; j < GROUPS; j++)
                if (j < groups)
                    step_of<T>(a, &f, (s.token / 8 + j) * steps + u * T::STEPS + k, tiles * steps,
                               acc[j]);
        }
    }
}

template <class T> struct with_codes {
    enum { GROUPS = ::GROUPS };
    FN_MEMBER static void slice(const zt_cu_linear_args &a, const share &s, int k,
                                float acc[GROUPS][4])
    {
        slice_of<T>(a, s, k, acc);
    }
};

#define PRODUCT(type)                                                                              \
    KERNEL_OF(zt_codes_##type, zt_cu_linear_args, 32 * SLICES)                                     \
    {                                                                                              \
        DYNAMIC_SHARED(float, part);                                                               \
        product_by_mma<with_codes<packed_##type>>(a, part);                                              \
    }
ZT_CU_PACKED_TYPES(PRODUCT)

/* ---- gates ----------------------------------------------------------------------------------- */

KERNEL(zt_gate, zt_cu_gate_args)
{
    for (int64_t i = first(); i < a.n; i += stride())
        gate_at(a, i);
}
