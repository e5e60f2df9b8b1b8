/* reduce.cu - sums, products and extremes over axes. What is added to what depends on the shape
 * alone: a thread takes its elements in order, and those of a block meet in one tree. */
#include "lib/engine/cuda/args_reduce.h"
#include "lib/engine/cuda/values.h"

enum { ROW_THREADS = 256 };

FN float lowest(float) { return -INFINITY; }
FN double lowest(double) { return -INFINITY; }
FN int64_t lowest(int64_t) { return INT64_MIN; }
FN float highest(float) { return INFINITY; }
FN double highest(double) { return INFINITY; }
FN int64_t highest(int64_t) { return INT64_MAX; }

template <class W> FN W fold_start(int fold)
{
    switch (fold) {
    case ZT_CU_PROD: return W(1);
    case ZT_CU_MAX: return lowest(W());
    case ZT_CU_MIN: return highest(W());
    default: return W(0);
    }
}

FN float times(float a, float b) { return a * b; }
FN double times(double a, double b) { return a * b; }
FN int64_t times(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
FN float plus(float a, float b) { return a + b; }
FN double plus(double a, double b) { return a + b; }
FN int64_t plus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

/* NaN wins. */
template <class W> FN W folded(int fold, W a, W b)
{
    switch (fold) {
    case ZT_CU_PROD: return times(a, b);
    case ZT_CU_MAX: return b > a || b != b ? b : a;
    case ZT_CU_MIN: return b < a || b != b ? b : a;
    default: return plus(a, b);
    }
}

/* Every thread gets it. */
template <class W> FN W fold_block(int fold, W v, W (&room)[ROW_THREADS])
{
    barrier();
    room[thread()] = v;
    for (int half = ROW_THREADS / 2; half; half /= 2) {
        barrier();
        if (thread() < half) room[thread()] = folded(fold, room[thread()], room[thread() + half]);
    }
    barrier();
    return room[0];
}

/* Elements from, from + by ... of a row that begins at `base`; with `top`, the sum of exp(x - top).
 */
template <class W>
FN W fold_some(const zt_cu_reduce_args &a, int fold, int64_t base, int64_t from, int64_t to,
               int64_t by)
{
    W v = fold_start<W>(fold);
    for (int64_t r = from; r < to; r += by)
        v = folded(fold, v,
                   load_as<W>(a.x_type, a.x, base + offset_at(a.n_gone, a.gone_dim, a.gone_step, r)));
    return v;
}
template <class W>
FN W exp_some(const zt_cu_reduce_args &a, W top, int64_t base, int64_t from, int64_t to, int64_t by)
{
    W v = 0;
    for (int64_t r = from; r < to; r += by)
        v += exp(load_as<W>(a.x_type, a.x, base + offset_at(a.n_gone, a.gone_dim, a.gone_step, r)) -
                 top);
    return v;
}
FN int64_t exp_some(const zt_cu_reduce_args &, int64_t, int64_t, int64_t, int64_t, int64_t)
{
    return 0; /* no integer has one */
}

FN float over(float v, double by) { return v / (float)by; }
FN double over(double v, double by) { return v / by; }
FN int64_t over(int64_t v, double) { return v; }
FN float finite_or_0(float x) { return fabsf(x) < INFINITY ? x : 0; }
FN double finite_or_0(double x) { return fabs(x) < INFINITY ? x : 0; }
FN int64_t finite_or_0(int64_t x) { return x; }
FN float lse(float top, float sum) { return top + log(sum); }
FN double lse(double top, double sum) { return top + log(sum); }
FN int64_t lse(int64_t, int64_t) { return 0; }

/* A block a row, or a part of one. */
template <class W> FN void rows(const zt_cu_reduce_args &a, W (&room)[ROW_THREADS])
{
    for (int64_t o = block(); o < a.kept * a.parts; o += blocks()) {
        const int64_t base = offset_at(a.n_kept, a.kept_dim, a.kept_step, o / a.parts);
        const int64_t from = o % a.parts * a.each, end = from + a.each;
        const int64_t to = end < a.gone ? end : a.gone;
        const int fold = a.fold == ZT_CU_LSE ? (int)ZT_CU_MAX : a.fold;
        W v = fold_some<W>(a, fold, base, from + thread(), to, ROW_THREADS);
        v = fold_block(fold, v, room);
        if (a.fold == ZT_CU_LSE) {
            const W top = finite_or_0(v);
            v = exp_some(a, top, base, from + thread(), to, (int64_t)ROW_THREADS);
            v = lse(top, fold_block(ZT_CU_SUM, v, room));
        }
        if (thread() == 0) store_as(a.y_type, a.y, o, a.by == 1 ? v : over(v, a.by));
    }
}

KERNEL_OF(zt_cu_reduce_rows, zt_cu_reduce_args, ROW_THREADS)
{
    SHARED(double, room, [ROW_THREADS]); /* of any of the three */
    if (is_f64(a.x_type))
        rows(a, room);
    else if (is_f32(a.x_type))
        rows(a, reinterpret_cast<float(&)[ROW_THREADS]>(room));
    else
        rows(a, reinterpret_cast<int64_t(&)[ROW_THREADS]>(room));
}

/* A thread a row, or a part of one: neighbours read neighbours where the last axis stays. */
template <class W> FN void columns(const zt_cu_reduce_args &a)
{
    for (int64_t i = first(); i < a.kept * a.parts; i += stride()) {
        const int64_t o = i % a.kept, part = i / a.kept;
        const int64_t base = offset_at(a.n_kept, a.kept_dim, a.kept_step, o);
        const int64_t from = part * a.each, to = from + a.each < a.gone ? from + a.each : a.gone;
        W v = fold_some<W>(a, a.fold == ZT_CU_LSE ? (int)ZT_CU_MAX : a.fold, base, from, to, 1);
        if (a.fold == ZT_CU_LSE) {
            const W top = finite_or_0(v);
            v = lse(top, exp_some(a, top, base, from, to, (int64_t)1));
        }
        store_as(a.y_type, a.y, o * a.parts + part, a.by == 1 ? v : over(v, a.by));
    }
}

KERNEL_OF_VALUES(zt_cu_reduce_columns, zt_cu_reduce_args, 256, a.x_type, columns)
