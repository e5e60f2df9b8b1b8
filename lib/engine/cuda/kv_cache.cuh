/* kv_cache.cuh - rotary positions' turns; and a token's q, k and v to where attention finds them: q turned,
 * k turned and v into the caches. A warp a head, in the order of the kernels it stands for (rope,
 * norm, put), so with their bits.
 */
#ifndef ZT_CU_ROPE_KV_WRITE_CUH
#define ZT_CU_ROPE_KV_WRITE_CUH

#include "lib/engine/cuda/slots.h"

/* Sine and cosine of |x| <= pi / 4: Taylor. */
FN void small_turn(float x, float *sine, float *cosine)
{
    float z = x * x;
    float s = fmaf(z, 1.0f / 362880, -1.0f / 5040);
    s = fmaf(s, z, 1.0f / 120);
    s = fmaf(s, z, -1.0f / 6);
    float c = fmaf(z, -1.0f / 3628800, 1.0f / 40320);
    c = fmaf(c, z, -1.0f / 720);
    c = fmaf(c, z, 1.0f / 24);
    c = fmaf(c, z, -0.5f);
    *sine = fmaf(s * z, x, x);
    *cosine = fmaf(c, z, 1.0f);
}

/* Of so many quarter turns. They are kept in f64: whole turns are left out exactly. */
FN void turn_of(double quarters, float *sine, float *cosine)
{
    double whole = rint(quarters), left = quarters - whole;
    double quarter = whole - 4 * floor(whole * 0.25);
    float s, c;
    small_turn((float)(left * 1.5707963267948966), &s, &c);
    bool odd = quarter == 1 || quarter == 3;
    float a = odd ? c : s, b = odd ? 0 - s : c;
    *sine = quarter >= 2 ? 0 - a : a;
    *cosine = quarter >= 2 ? 0 - b : b;
}

/* The two numbers of a pair, turned. */
FN float turned_first(float first, float second, float sine, float cosine) { return fmaf(first, cosine, second * -sine); }
FN float turned_second(float first, float second, float sine, float cosine) { return fmaf(second, cosine, first * sine); }

/* ---- heads ----------------------------------------------------------------------------------- */

/* 1 / sqrt(mean of squares + eps) of a head of at most 256 columns, as a block of one warp sums it. */
FN float head_rstd(const float *x, int64_t D, double eps)
{
    float sum = 0;
    for (int64_t i = 4 * lane(); i < D; i += 128)
        for (int64_t j = i; j < i + 4 && j < D; j++) sum += x[j] * x[j];
    return 1 / sqrtf(warp_sum(sum) / (float)D + (float)eps);
}

template <class T>
FN void turn_head(const zt_cu_rope_kv_write_args &a, const float *x, zt_cu_ptr g, float (*turn)[2], T *y)
{
    const float rstd = g ? head_rstd(x, a.head, a.eps) : 1, *weight = PTR(const float, g);
    for (int64_t i = lane(); i < a.head - a.half; i += 32) {
        bool pair = i < a.half; /* else a column past the pairs */
        int64_t p = !pair ? i + a.half : a.neighbours ? 2 * i : i;
        int64_t q = !pair ? p : a.neighbours ? p + 1 : i + a.half;
        float first = x[p], second = x[q];
        if (g) first = first * rstd * weight[p], second = second * rstd * weight[q];
        y[p] = put<T>(pair ? turned_first(first, second, turn[i][0], turn[i][1]) : first);
        if (pair) y[q] = put<T>(turned_second(first, second, turn[i][0], turn[i][1]));
    }
}

/* Head h of a row: those of q, of k, and as many columns of v. */
template <class T>
FN void rope_kv_write_head(const zt_cu_rope_kv_write_args &a, int64_t row, int64_t h, float (*turn)[2])
{
    const int64_t D = a.head, k = h - a.heads, v = (k - a.k_heads) * D, W = a.k_heads * D;
    if (k < 0) {
        const int64_t at = (row * a.heads + h) * D;
        if (a.y) turn_head(a, PTR(const float, a.q) + at, a.gq, turn, PTR(float, a.y) + at);
        return;
    }
    int64_t pos = PTR(const int32_t, a.slots.pos)[row];
    int64_t slot = slot_of(a.slots, row, pos, k == 0 && lane() == 0 ? a.trouble : 0, row);
    if (slot < 0) return;
    if (k < a.k_heads)
        turn_head(a, PTR(const float, a.k) + row * W + k * D, a.gk, turn,
                  PTR(T, a.kc) + slot * W + k * D);
    else
        for (int64_t i = v + lane(); i < v + D && i < a.v_width; i += 32)
            PTR(T, a.vc)[slot * a.v_width + i] = put<T>(PTR(const float, a.v)[row * a.v_width + i]);
}

/* Block number `at`: eight heads of a row. */
FN void rope_kv_write(const zt_cu_rope_kv_write_args &a, int64_t at, float (*turn)[2])
{
    const int64_t all = a.heads + a.k_heads + (a.v_width + a.head - 1) / a.head;
    const int64_t groups = (all + 7) / 8, row = at / groups, h = at % groups * 8 + warp();
    const double pos = PTR(const int32_t, a.slots.pos)[row];
    for (int i = thread(); i < a.half; i += threads()) {
        double quarters = pos * PTR(const double, a.turns)[i];
        if (a.tab) quarters /= (double)PTR(const float, a.tab)[i];
        turn_of(quarters, &turn[i][0], &turn[i][1]);
        turn[i][0] *= a.amplitude;
        turn[i][1] *= a.amplitude;
    }
    barrier();
    if (h >= all) return;
    if (a.cache_type == ZT_CU_F16)
        rope_kv_write_head<f16>(a, row, h, turn);
    else
        rope_kv_write_head<float>(a, row, h, turn);
}

#endif
