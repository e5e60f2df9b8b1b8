/* rope.cu - rotary positions: a block a row; and by tables: a warp a row. */
#include "lib/engine/cuda/norm.cuh"
#include "lib/engine/cuda/kv_cache.cuh"

/* ---- turns ----------------------------------------------------------------------------------- */

/* Into the block's table: sine and cosine of each pair at this position, `amplitude` times. */
FN void turns_of(const zt_cu_rope_args &a, int64_t row, float (*turn)[2])
{
    double pos = PTR(const int32_t, a.pos)[row];
    for (int i = thread(); i < a.dims / 2; i += threads()) {
        double quarters = pos * a.turns[i];
        if (a.tab) quarters /= (double)PTR(const float, a.tab)[i];
        turn_of(quarters, &turn[i][0], &turn[i][1]);
        turn[i][0] *= a.amplitude;
        turn[i][1] *= a.amplitude;
    }
}

/* A thread a pair, or a column that does not turn: head - dims / 2 of them a head. */
template <class T> FN void rope_row(const zt_cu_rope_args &a, float (*turn)[2])
{
    int64_t row = block(), half = a.dims / 2, each = a.head - half;
    const T *x = PTR(const T, a.x) + row * a.cols;
    T *y = PTR(T, a.y) + row * a.cols;
    turns_of(a, row, turn);
    barrier();
    for (int64_t k = thread(); k < a.cols / a.head * each; k += threads()) {
        int64_t h = k / each * a.head, i = k % each;
        if (i >= half) {
            y[h + i + half] = x[h + i + half];
            continue;
        }
        int64_t p = h + (a.neighbours ? 2 * i : i), q = a.neighbours ? p + 1 : p + half;
        float s = turn[i][0], c = turn[i][1], first = get(x[p]), second = get(x[q]);
        y[p] = put<T>(turned_first(first, second, s, c));
        y[q] = put<T>(turned_second(first, second, s, c));
    }
}

#define ROPE(name, number)                                                                         \
    KERNEL_OF(name, zt_cu_rope_args, 256)                                                          \
    {                                                                                              \
        SHARED(float, turn, [ZT_CU_PAIRS][2]);                                                     \
        rope_row<number>(a, turn);                                                                 \
    }
ROPE(zt_rope_f32, float)
ROPE(zt_rope_f16, f16)
ROPE(zt_rope_bf16, bf16)

/* ---- turned by tables ----------------------------------------------------------------------- */

/* A warp a row: normed by its weight where there is one, then its first 2 half columns turned. */
template <class T> FN void turn_row(const zt_cu_rotate_args &a)
{
    typedef typename wide<T>::type W;
    int64_t row = (int64_t)block() * (threads() / 32) + warp();
    bool any = row < a.rows;
    const T *x = PTR(const T, a.x) + row * a.K;
    const T *g = PTR(const T, row % a.heads < a.q_heads ? a.wq : a.wk);
    W sum = 0, rstd = 1;
    for (int64_t i = lane(); a.wq && any && i < a.K; i += 32) sum += get(x[i]) * get(x[i]);
    sum = warp_sum(sum);
    if (a.wq) rstd = 1 / root(sum / (W)a.K + (W)a.eps);
    int64_t at = row / a.per % a.tables * a.half;
    for (int64_t i = lane(); any && i < a.K - a.half; i += 32) {
        T *y = PTR(T, a.y) + row * a.K;
        bool pair = i < a.half; /* else a column past the pairs */
        int64_t p = !pair ? i + a.half : a.neighbours ? 2 * i : i;
        int64_t q = !pair ? p : a.neighbours ? p + 1 : i + a.half;
        W first = get(x[p]), second = get(x[q]);
        if (a.wq) {
            first = first * rstd * get(g[p]);
            second = second * rstd * get(g[q]);
        }
        W c = pair ? get(PTR(const T, a.cos)[at + i]) : 1,
          s = pair ? get(PTR(const T, a.sin)[at + i]) : 0;
        y[p] = put<T>(pair ? first * c - second * s : first);
        if (pair) y[q] = put<T>(first * s + second * c);
    }
}

#define TURN(name, number)                                                                         \
    KERNEL(name, zt_cu_rotate_args) { turn_row<number>(a); }
TURN(zt_rotate_f32, float)
TURN(zt_rotate_f16, f16)
TURN(zt_rotate_bf16, bf16)
TURN(zt_rotate_f64, double)
