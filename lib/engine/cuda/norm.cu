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
        norm_row<number, HELD>(a, block(), room);                                                  \
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
