/* norm.cu - norms of rows, and heads turned by tables. A block a row; which thread has which
 * columns depends on the row's length alone.
 */
#include "lib/engine/cuda/norm.cuh"

#define NORM(name, number)                                                                         \
    KERNEL_OF(name, zt_cu_norm_args, 512)                                                          \
    {                                                                                              \
        SHARED(wide<number>::type, room, [32]);                                                    \
        norm_row<number>(a, block(), room);                                                        \
    }
NORM(zt_norm_f32, float)
NORM(zt_norm_f16, f16)
NORM(zt_norm_bf16, bf16)
NORM(zt_norm_f64, double)

/* ---- layer_norm ------------------------------------------------------------------------------ */

/* y = (x - mean) rstd g + b, where g and b may be absent. */
template <class T> FN void layer_row(const zt_cu_norm_args &a, typename wide<T>::type *room)
{
    typedef typename wide<T>::type W;
    const int64_t row = block();
    const T *x = PTR(const T, a.x) + row * a.K;
    W mean = 0, squares = 0, v[4], g[4] = {1, 1, 1, 1}, b[4] = {0, 0, 0, 0};
    for (int64_t i = 4 * thread(); i < a.K; i += 4 * threads()) {
        load_four(x, i, a.K, a.wide, v);
        for (int j = 0; j < 4; j++) mean += v[j];
    }
    mean = block_sum(mean, room) / (W)a.K;
    barrier();
    for (int64_t i = 4 * thread(); i < a.K; i += 4 * threads()) {
        load_four(x, i, a.K, a.wide, v);
        for (int j = 0; j < 4 && i + j < a.K; j++) squares += (v[j] - mean) * (v[j] - mean);
    }
    squares = block_sum(squares, room);
    W rstd = 1 / root(squares / (W)a.K + (W)a.eps);
    if (a.sum && thread() == 0) PTR(W, a.sum)[row] = mean;
    if (a.rstd && thread() == 0) PTR(W, a.rstd)[row] = rstd;
    for (int64_t i = 4 * thread(); i < a.K; i += 4 * threads()) {
        load_four(x, i, a.K, a.wide, v);
        if (a.g) load_four(PTR(const T, a.g), i, a.K, a.wide, g);
        if (a.after) load_four(PTR(const T, a.after), i, a.K, a.wide, b);
        for (int j = 0; j < 4; j++) v[j] = (v[j] - mean) * rstd * g[j] + b[j];
        store_four(PTR(T, a.y) + row * a.K, i, a.K, a.wide, v);
    }
}

#define LAYER(name, number)                                                                        \
    KERNEL_OF(name, zt_cu_norm_args, 512)                                                          \
    {                                                                                              \
        SHARED(wide<number>::type, room, [32]);                                                    \
        layer_row<number>(a, room);                                                                \
    }
LAYER(zt_layer_f32, float)
LAYER(zt_layer_f16, f16)
LAYER(zt_layer_bf16, bf16)
LAYER(zt_layer_f64, double)

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
