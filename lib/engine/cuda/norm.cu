/* norm.cu - norms of rows. A block a row; which thread has which
 * columns depends on the row's length alone.
 */
#include "lib/engine/cuda/norm.cuh"

/* Fours of columns that a thread keeps in registers: a row of 8192 columns is read once. */
enum { HELD = 8 };

#define NORM(name, number)                                                                         \
    KERNEL_OF(name, zt_cu_norm_args, 512)                                                          \
    {                                                                                              \
        SHARED(wide<number>::type, room, [32]);                                                    \
        norm_row<number, HELD>(a, block(), room);                                                        \
    }
NORM(zt_norm_f32, float)
NORM(zt_norm_f16, f16)
NORM(zt_norm_bf16, bf16)
NORM(zt_norm_f64, double)

/* ---- layer_norm ------------------------------------------------------------------------------ */

/* Columns i .. i + 3 of y = (x - mean) rstd g + b, where g and b may be absent, of v: those of x. */
template <class T>
FN void layer_four(const zt_cu_norm_args &a, int64_t i, typename wide<T>::type mean, typename wide<T>::type rstd,
                   typename wide<T>::type v[4])
{
    typename wide<T>::type g[4] = {1, 1, 1, 1}, b[4] = {0, 0, 0, 0};
    if (a.g) load_four(PTR(const T, a.g), i, a.K, a.wide, g);
    if (a.after) load_four(PTR(const T, a.after), i, a.K, a.wide, b);
    for (int j = 0; j < 4; j++) v[j] = (v[j] - mean) * rstd * g[j] + b[j];
    store_four(PTR(T, a.y) + block() * (int64_t)a.K, i, a.K, a.wide, v);
}

template <class T> FN void layer_row(const zt_cu_norm_args &a, typename wide<T>::type *room)
{
    typedef typename wide<T>::type W;
    const int64_t row = block();
    const T *x = PTR(const T, a.x) + row * a.K;
    W mean = 0, squares = 0, held[HELD][4], v[4];
    const int64_t step = 4 * threads(), rest = 4 * thread() + HELD * step;
    UNROLL
    for (int k = 0; k < HELD; k++) {
        if (4 * thread() + k * step >= a.K) continue;
        load_four(x, 4 * thread() + k * step, a.K, a.wide, held[k]);
        for (int j = 0; j < 4; j++) mean += held[k][j];
    }
    for (int64_t i = rest; i < a.K; i += step) {
        load_four(x, i, a.K, a.wide, v);
        for (int j = 0; j < 4; j++) mean += v[j];
    }
    mean = block_sum(mean, room) / (W)a.K;
    barrier();
    UNROLL
    for (int k = 0; k < HELD; k++)
        for (int j = 0; j < 4 && 4 * thread() + k * step + j < a.K; j++)
            squares += (held[k][j] - mean) * (held[k][j] - mean);
    for (int64_t i = rest; i < a.K; i += step) {
        load_four(x, i, a.K, a.wide, v);
        for (int j = 0; j < 4 && i + j < a.K; j++) squares += (v[j] - mean) * (v[j] - mean);
    }
    squares = block_sum(squares, room);
    W rstd = 1 / root(squares / (W)a.K + (W)a.eps);
    if (a.sum && thread() == 0) PTR(W, a.sum)[row] = mean;
    if (a.rstd && thread() == 0) PTR(W, a.rstd)[row] = rstd;
    UNROLL
    for (int k = 0; k < HELD; k++)
        if (4 * thread() + k * step < a.K) layer_four<T>(a, 4 * thread() + k * step, mean, rstd, held[k]);
    for (int64_t i = rest; i < a.K; i += step) {
        load_four(x, i, a.K, a.wide, v);
        layer_four<T>(a, i, mean, rstd, v);
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
