/* softmax.cu - softmax of lines, scaled or not, its logarithm, and entmax: a block a line where its
 * entries lie side by side, else a thread a line.
 */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/prim.h"
#include "lib/engine/cuda/unroll.h"

FN float exp_of(float x) { return expf(x); }
FN double exp_of(double x) { return exp(x); }
FN float log_of(float x) { return logf(x); }
FN double log_of(double x) { return log(x); }

template <class W> FN W larger(W a, W b) { return b > a ? b : a; }
template <class W> FN W lowest() { return (W)-INFINITY; }

/* Entries that a thread keeps in registers: a line of 8192 is read once. */
enum { HELD = 16 };

template <class T> FN void softmax_line(const zt_cu_softmax_args &a, typename wide<T>::type *room)
{
    typedef typename wide<T>::type W;
    const T *x = PTR(const T, a.x) + (int64_t)block() * a.n;
    T *y = PTR(T, a.y) + (int64_t)block() * a.n;
    W top = lowest<W>(), sum = 0, scale = (W)a.scale, held[HELD];
    const int64_t rest = thread() + (int64_t)HELD * threads();
    UNROLL
    for (int k = 0; k < HELD; k++) {
        const int64_t i = thread() + (int64_t)k * threads();
        held[k] = i < a.n ? get(x[i]) * scale : lowest<W>();
        if (i < a.n) top = larger(top, held[k]);
    }
    for (int64_t i = rest; i < a.n; i += threads()) top = larger(top, get(x[i]) * scale);
    top = block_max(top, room);
    barrier();
    UNROLL
    for (int k = 0; k < HELD; k++) {
        if (thread() + (int64_t)k * threads() >= a.n) continue;
        const W v = held[k] - top, power = exp_of(v);
        held[k] = a.log ? v : power;
        sum += power;
    }
    for (int64_t i = rest; i < a.n; i += threads()) sum += exp_of(get(x[i]) * scale - top);
    sum = block_sum(sum, room);
    W more = a.log ? log_of(sum) : 0;
    UNROLL
    for (int k = 0; k < HELD; k++) {
        const int64_t i = thread() + (int64_t)k * threads();
        if (i < a.n) y[i] = put<T>(a.log ? held[k] - more : held[k] / sum);
    }
    for (int64_t i = rest; i < a.n; i += threads()) {
        W v = get(x[i]) * scale - top;
        y[i] = put<T>(a.log ? v - more : exp_of(v) / sum);
    }
}

template <class T> FN void softmax_across(const zt_cu_softmax_args &a)
{
    typedef typename wide<T>::type W;
    int64_t line = first();
    if (line >= a.lines) return;
    int64_t from = line / a.inner * a.n * a.inner + line % a.inner;
    const T *x = PTR(const T, a.x) + from;
    T *y = PTR(T, a.y) + from;
    W top = lowest<W>(), sum = 0, scale = (W)a.scale;
    for (int64_t i = 0; i < a.n; i++) top = larger(top, get(x[i * a.inner]) * scale);
    for (int64_t i = 0; i < a.n; i++) sum += exp_of(get(x[i * a.inner]) * scale - top);
    W more = a.log ? log_of(sum) : 0;
    for (int64_t i = 0; i < a.n; i++) {
        W v = get(x[i * a.inner]) * scale - top;
        y[i * a.inner] = put<T>(a.log ? v - more : exp_of(v) / sum);
    }
}

#define SOFTMAX(name, number)                                                                      \
    KERNEL_EACH(zt_softmax_##name, zt_cu_softmax_args, 512, 2)                                     \
    {                                                                                              \
        SHARED(wide<number>::type, room, [32]);                                                    \
        softmax_line<number>(a, room);                                                             \
    }                                                                                              \
    KERNEL(zt_softmax_across_##name, zt_cu_softmax_args) { softmax_across<number>(a); }
SOFTMAX(f32, float)
SOFTMAX(f16, f16)
SOFTMAX(bf16, bf16)
SOFTMAX(f64, double)

/* ---- entmax ---------------------------------------------------------------------------------- */

/* What an entry is at threshold t, for x times alpha - 1. */
FN double entmax_share(double x, double t, double alpha)
{
    return x > t ? pow(x - t, 1 / (alpha - 1)) : 0;
}

/* A warp a line: the threshold is found by halves, in f64 for all types. The sum of shares is above
 * 1 one below the largest, 0 at it. scale: alpha. */
template <class T> FN void entmax_line(const zt_cu_softmax_args &a)
{
    int64_t line = block(), from = line / a.inner * a.n * a.inner + line % a.inner;
    const T *x = PTR(const T, a.x) + from;
    T *y = PTR(T, a.y) + from;
    double by = a.scale - 1, top = -INFINITY, sum = 0;
    for (int64_t i = lane(); i < a.n; i += 32) top = larger(top, (double)get(x[i * a.inner]) * by);
    top = warp_max(top);
    double low = top - 1, high = top;
    for (int k = 0; k < 200 && low < high; k++) {
        double middle = low + (high - low) / 2, total = 0;
        for (int64_t i = lane(); i < a.n; i += 32)
            total += entmax_share((double)get(x[i * a.inner]) * by, middle, a.scale);
        total = warp_sum(total);
        if (middle == low || middle == high) break;
        if (total >= 1)
            low = middle;
        else
            high = middle;
    }
    for (int64_t i = lane(); i < a.n; i += 32)
        sum += entmax_share((double)get(x[i * a.inner]) * by, low, a.scale);
    sum = warp_sum(sum);
    for (int64_t i = lane(); i < a.n; i += 32)
        y[i * a.inner] = put<T>(entmax_share((double)get(x[i * a.inner]) * by, low, a.scale) / sum);
}

#define ENTMAX(name, number)                                                                       \
    KERNEL_OF(zt_entmax_##name, zt_cu_softmax_args, 32) { entmax_line<number>(a); }
ENTMAX(f32, float)
ENTMAX(f16, f16)
ENTMAX(bf16, bf16)
ENTMAX(f64, double)
