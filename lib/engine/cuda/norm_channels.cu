/* norm_channels.cu - norms by channels and their gradients: a block a set of elements that are
 * normalised together, or a channel. */
#include "lib/engine/cuda/args_nn.h"
#include "lib/engine/cuda/prim.h"

FN float root(float x) { return sqrtf(x); }
FN double root(double x) { return sqrt(x); }

/* The elements of a set: `runs` pieces of `length` that lie side by side. */
typedef struct set {
    int64_t at, runs, step, length, channel; /* the first's */
} set;

FN set set_of(const zt_cu_set_args &a, int64_t i)
{
    set s;
    s.channel = a.groups ? i % a.groups * a.of : i;
    s.runs = a.groups ? 1 : a.N;
    s.step = a.C * a.size;
    s.length = a.of * a.size;
    s.at = (a.groups ? i / a.groups * a.C : 0) * a.size + s.channel * a.size;
    return s;
}

/* Number e of a set: where it is, and its channel. */
FN int64_t place_of(const zt_cu_set_args &a, const set &s, int64_t e, int64_t *channel)
{
    int64_t run = e / s.length, i = e % s.length;
    *channel = s.channel + i / a.size;
    return s.at + run * s.step + i;
}

template <class T, class W> FN W scaled(zt_cu_ptr p, int64_t channel, W none)
{
    return p ? (W)get(PTR(const T, p)[channel]) : none;
}

/* ---- forward --------------------------------------------------------------------------------- */

template <class T> FN void set_norm(const zt_cu_set_args &a, typename wide<T>::type *room)
{
    typedef typename wide<T>::type W;
    const set s = set_of(a, block());
    const T *x = PTR(const T, a.x);
    int64_t n = s.runs * s.length, c;
    W mean = 0, squares = 0;
    for (int64_t e = thread(); e < n; e += threads()) mean += get(x[place_of(a, s, e, &c)]);
    mean = block_sum(mean, room);
    mean = n ? mean / (W)n : 0;
    barrier();
    for (int64_t e = thread(); e < n; e += threads()) {
        W v = get(x[place_of(a, s, e, &c)]) - mean;
        squares += v * v;
    }
    squares = block_sum(squares, room);
    W rstd = 1 / root((n ? squares / (W)n : 0) + (W)a.eps);
    for (int64_t e = thread(); e < n; e += threads()) {
        int64_t at = place_of(a, s, e, &c);
        W g = scaled<T, W>(a.g, c, 1), b = scaled<T, W>(a.b, c, 0);
        PTR(T, a.y)[at] = put<T>((get(x[at]) - mean) * rstd * g + b);
    }
    if (thread() != 0) return;
    int64_t i = block(), less = a.unbiased && n > 1 ? n - 1 : n;
    W var = less ? squares / (W)less : 0, by = (W)a.momentum;
    if (a.mean) PTR(W, a.mean)[i] = mean;
    if (a.rstd) PTR(W, a.rstd)[i] = rstd;
    if (a.new_mean)
        PTR(W, a.new_mean)
        [i] = (1 - by) * (a.run_mean ? PTR(const W, a.run_mean)[i] : 0) + by * mean;
    if (a.new_var)
        PTR(W, a.new_var)[i] = (1 - by) * (a.run_var ? PTR(const W, a.run_var)[i] : 1) + by * var;
}

/* By statistics that are known: mean, and the variance in `run_var`. */
template <class T> FN void known_norm(const zt_cu_set_args &a)
{
    typedef typename wide<T>::type W;
    for (int64_t i = first(); i < a.N * a.C * a.size; i += stride()) {
        int64_t c = i / a.size % a.C;
        W rstd = 1 / root(PTR(const W, a.run_var)[c] + (W)a.eps);
        W v = (get(PTR(const T, a.x)[i]) - PTR(const W, a.mean)[c]) * rstd;
        PTR(T, a.y)[i] = put<T>(v * scaled<T, W>(a.g, c, 1) + scaled<T, W>(a.b, c, 0));
    }
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* dx = rstd (d - s1 / n - h s2 / n), d = dy g, h = (x - mean) rstd, s1 and s2 the sums of d and d
 * h. */
template <class T> FN void set_back(const zt_cu_set_args &a, typename wide<T>::type *room)
{
    typedef typename wide<T>::type W;
    const set s = set_of(a, block());
    const T *x = PTR(const T, a.x), *dy = PTR(const T, a.dy);
    int64_t n = s.runs * s.length, c;
    W mean = PTR(const W, a.mean)[block()], rstd = PTR(const W, a.rstd)[block()], s1 = 0, s2 = 0;
    for (int64_t e = thread(); a.training && e < n; e += threads()) {
        int64_t at = place_of(a, s, e, &c);
        W d = get(dy[at]) * scaled<T, W>(a.g, c, 1);
        s1 += d;
        s2 += d * ((get(x[at]) - mean) * rstd);
    }
    s1 = block_sum(s1, room);
    barrier();
    s2 = block_sum(s2, room);
    for (int64_t e = thread(); e < n; e += threads()) {
        int64_t at = place_of(a, s, e, &c);
        W d = get(dy[at]) * scaled<T, W>(a.g, c, 1), h = (get(x[at]) - mean) * rstd;
        W less = a.training ? s1 / (W)n + h * (s2 / (W)n) : 0;
        PTR(T, a.dx)[at] = put<T>(rstd * (d - less));
    }
}

/* dg = sum dy h, db = sum dy of a channel. */
template <class T> FN void channel_back(const zt_cu_set_args &a, typename wide<T>::type *room)
{
    typedef typename wide<T>::type W;
    int64_t c = block();
    W dg = 0, db = 0;
    for (int64_t e = thread(); e < a.N * a.size; e += threads()) {
        int64_t n = e / a.size, at = (n * a.C + c) * a.size + e % a.size;
        int64_t stat = a.groups ? n * a.groups + c / a.of : c;
        W d = get(PTR(const T, a.dy)[at]);
        W h =
            (get(PTR(const T, a.x)[at]) - PTR(const W, a.mean)[stat]) * PTR(const W, a.rstd)[stat];
        dg += d * h;
        db += d;
    }
    dg = block_sum(dg, room);
    barrier();
    db = block_sum(db, room);
    if (thread() != 0) return;
    if (a.dg) PTR(T, a.dg)[c] = put<T>(dg);
    if (a.db) PTR(T, a.db)[c] = put<T>(db);
}

#define SETS(name, number)                                                                         \
    KERNEL_OF(zt_set_norm_##name, zt_cu_set_args, 256)                                             \
    {                                                                                              \
        SHARED(wide<number>::type, room, [32]);                                                    \
        set_norm<number>(a, room);                                                                 \
    }                                                                                              \
    KERNEL_OF(zt_known_norm_##name, zt_cu_set_args, 256) { known_norm<number>(a); }                \
    KERNEL_OF(zt_set_back_##name, zt_cu_set_args, 256)                                             \
    {                                                                                              \
        SHARED(wide<number>::type, room, [32]);                                                    \
        set_back<number>(a, room);                                                                 \
    }                                                                                              \
    KERNEL_OF(zt_channel_back_##name, zt_cu_set_args, 256)                                         \
    {                                                                                              \
        SHARED(wide<number>::type, room, [32]);                                                    \
        channel_back<number>(a, room);                                                             \
    }
SETS(f32, float)
SETS(f16, f16)
SETS(bf16, bf16)
SETS(f64, double)
