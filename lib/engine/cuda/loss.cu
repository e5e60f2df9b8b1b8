/* loss.cu - losses of values and of classes, and what the latter pass back. */
#include "lib/engine/cuda/args_loss.h"
#include "lib/engine/cuda/values.h"

enum { BLOCK = 256 };

/* ---- values and targets alike ---------------------------------------------------------------- */

template <class W> FN W pair_loss(int kind, W x, W t, W beta)
{
    const W d = fabs(x - t);
    if (kind == ZT_CU_MSE) return d * d;
    if (kind == ZT_CU_SMOOTH_L1) return d < beta ? d * d / (2 * beta) : d - beta / 2;
    return (x > 0 ? x : W(0)) - x * t + log1p(exp(-fabs(x)));
}

template <class W> FN W loss_at(const zt_cu_pair_args &a, int64_t i)
{
    return pair_loss(a.kind, load_as<W>(a.type, a.x, i), load_as<W>(a.type, a.target, i), (W)a.p);
}

/* A block for each `each` of them. */
template <class W> FN void pair_sums(const zt_cu_pair_args &a, W *room)
{
    const int64_t from = (int64_t)block() * a.each;
    const int64_t to = from + a.each < a.n ? from + a.each : a.n;
    W sum = 0;
    for (int64_t i = from + thread(); i < to; i += threads()) sum += loss_at<W>(a, i);
    sum = block_sum(sum, room);
    if (thread() == 0) PTR(W, a.y)[block()] = sum;
}

KERNEL_OF(zt_cu_pair_sums, zt_cu_pair_args, BLOCK)
{
    SHARED(double, room, [32]);
    if (is_f64(a.type))
        pair_sums(a, &room[0]);
    else
        pair_sums(a, reinterpret_cast<float *>(&room[0]));
}

KERNEL_OF(zt_cu_pair_each, zt_cu_pair_args, BLOCK)
{
    for (int64_t i = first(); i < a.n; i += stride()) {
        if (is_f64(a.type))
            store_as(a.type, a.y, i, loss_at<double>(a, i));
        else
            store_as(a.type, a.y, i, loss_at<float>(a, i));
    }
}

/* ---- classes --------------------------------------------------------------------------------- */

/* The class of position i, or -1: ignored, or no class, which `tell` makes trouble. */
FN int64_t class_at(const zt_cu_class_args &a, int64_t i, bool tell)
{
    const int64_t c = PTR(const int32_t, a.target)[i];
    if (c == a.ignore) return -1;
    if (c >= 0 && c < a.classes) return c;
    if (tell) trouble(PTR(zt_cu_runtime_error, a.trouble), ZT_CU_TARGET, i, c, a.classes);
    return -1;
}

FN int64_t first_of(const zt_cu_class_args &a, int64_t i)
{
    return i / a.inner * a.classes * a.inner + i % a.inner;
}

template <class W> FN W weight_of(const zt_cu_class_args &a, int64_t c)
{
    return a.weight ? load_as<W>(a.type, a.weight, c) : W(1);
}

/* Threads that share a position's classes: one, or the block. */
template <class W> struct alone {
    FN_MEMBER int64_t from() const { return 0; }
    FN_MEMBER int64_t by() const { return 1; }
    FN_MEMBER W sum(W v) const { return v; }
    FN_MEMBER W max(W v) const { return v; }
};
template <class W> struct together {
    W *room;
    FN_MEMBER int64_t from() const { return thread(); }
    FN_MEMBER int64_t by() const { return threads(); }
    FN_MEMBER W sum(W v) const
    {
        barrier();
        return block_sum(v, room);
    }
    FN_MEMBER W max(W v) const
    {
        barrier();
        return block_max(v, room);
    }
};

template <class W, class T>
FN W lse_of(const zt_cu_class_args &a, int64_t at, const T &who)
{
    W top = -INFINITY, sum = 0;
    for (int64_t c = who.from(); c < a.classes; c += who.by()) {
        const W x = load_as<W>(a.type, a.x, at + c * a.inner);
        top = x > top ? x : top;
    }
    top = who.max(top);
    for (int64_t c = who.from(); c < a.classes; c += who.by())
        sum += exp(load_as<W>(a.type, a.x, at + c * a.inner) - top);
    return top + log(who.sum(sum));
}

/* What smoothing adds: all classes evenly. */
template <class W, class T>
FN W smoothed(const zt_cu_class_args &a, int64_t at, W lse, const T &who)
{
    W sum = 0;
    for (int64_t c = who.from(); c < a.classes; c += who.by())
        sum += weight_of<W>(a, c) * (lse - load_as<W>(a.type, a.x, at + c * a.inner));
    return (W)(a.smoothing / (double)a.classes) * who.sum(sum);
}

template <class W, class T>
FN void position(const zt_cu_class_args &a, int64_t i, const T &who)
{
    const int64_t at = first_of(a, i), c = class_at(a, i, who.from() == 0);
    const W lse = a.nll ? W(0) : lse_of<W>(a, at, who);
    W y = 0;
    if (c >= 0)
        y = (1 - (W)a.smoothing) * weight_of<W>(a, c) *
            (lse - load_as<W>(a.type, a.x, at + c * a.inner));
    const W more = a.smoothing > 0 ? smoothed(a, at, lse, who) : W(0);
    if (who.from()) return;
    if (a.lse) store_as(a.type, a.lse, i, lse);
    store_as(a.y_type, a.y, i, c >= 0 ? y + more : W(0));
}

KERNEL_OF(zt_cu_class_lines, zt_cu_class_args, BLOCK)
{
    for (int64_t i = first(); i < a.positions; i += stride()) {
        if (is_f64(a.type))
            position<double>(a, i, alone<double>());
        else
            position<float>(a, i, alone<float>());
    }
}

KERNEL_OF(zt_cu_class_rows, zt_cu_class_args, BLOCK)
{
    SHARED(double, room, [32]);
    for (int64_t i = block(); i < a.positions; i += blocks()) {
        if (is_f64(a.type))
            position<double>(a, i, together<double>{&room[0]});
        else
            position<float>(a, i, together<float>{reinterpret_cast<float *>(&room[0])});
    }
}

/* y[i] = the weight of position i's target, 0 where it does not count. */
KERNEL_OF(zt_cu_class_weights, zt_cu_class_args, BLOCK)
{
    for (int64_t i = first(); i < a.positions; i += stride()) {
        const int64_t c = class_at(a, i, false);
        if (is_f64(a.type))
            PTR(double, a.y)[i] = c < 0 ? 0 : weight_of<double>(a, c);
        else
            PTR(float, a.y)[i] = c < 0 ? 0 : weight_of<float>(a, c);
    }
}

KERNEL_OF(zt_cu_ratio, zt_cu_ratio_args, 32)
{
    if (thread()) return;
    if (is_f64(a.type))
        PTR(double, a.y)[0] = PTR(const double, a.a)[0] / PTR(const double, a.b)[0];
    else
        store_as(a.type, a.y, 0, PTR(const float, a.a)[0] / PTR(const float, a.b)[0]);
}

/* ---- and back -------------------------------------------------------------------------------- */

/* Class c's slope at a position whose target is t; p its probability. */
template <class W> FN W slope(const zt_cu_class_args &a, int64_t e, int64_t i, int64_t c, int64_t t)
{
    const W w = (1 - (W)a.smoothing) * weight_of<W>(a, t), hit = c == t ? W(1) : W(0);
    if (a.nll) return -w * hit;
    const W p = exp(load_as<W>(a.type, a.x, e) - load_as<W>(a.type, a.lse, i));
    const W all = a.all ? *PTR(const W, a.all) : (W)a.classes;
    const W even = (W)(a.smoothing / (double)a.classes);
    return w * (p - hit) + even * (p * all - weight_of<W>(a, c));
}

template <class W> FN void class_back(const zt_cu_class_args &a)
{
    for (int64_t e = first(); e < a.positions * a.classes; e += stride()) {
        const int64_t c = e / a.inner % a.classes;
        const int64_t i = e / a.inner / a.classes * a.inner + e % a.inner;
        const int64_t t = class_at(a, i, c == 0);
        W dx = 0;
        if (t >= 0) {
            W dy = load_as<W>(a.type, a.dy, a.each ? i : 0);
            if (a.total) dy /= *PTR(const W, a.total);
            dx = dy * slope<W>(a, e, i, c, t);
        }
        store_as(a.type, a.dx, e, dx);
    }
}

KERNEL_OF_FLOATS(zt_cu_class_back, zt_cu_class_args, BLOCK, a.type, class_back)
