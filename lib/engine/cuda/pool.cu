/* pool.cu - pools over windows and their ways back: a thread an element, which takes the taps of its
 * windows in order. */
#include "lib/engine/cuda/window.cuh"

enum { THREADS = 256 };

/* ---- the largest ------------------------------------------------------------------------------- */

FN float least(float, int) { return -INFINITY; }
FN double least(double, int) { return -INFINITY; }
FN int64_t least(int64_t, int type)
{
    return is_signed(type) ? -((int64_t)1 << (bits_of(type) - 2)) * 2 : 0;
}

template <class W> FN void max_one(const zt_cu_pool_args &a, int64_t e)
{
    const int64_t plane = e / a.win.n_out * a.win.n_in;
    int64_t best = -1;
    W top = least(W(), a.type);
    for (int64_t tap = 0; tap < a.win.taps; tap++) {
        const int64_t i = large_at(a.win, e % a.win.n_out, tap);
        if (i < 0) continue;
        const W x = load_as<W>(a.type, a.x, plane + i);
        if (best >= 0 && !(x > top || (x != x && top == top))) continue;
        best = i;
        top = x;
    }
    if (a.y) store_as(a.type, a.y, e, top);
    if (a.i) PTR(int32_t, a.i)[e] = (int32_t)best;
}

KERNEL_OF(zt_cu_max_pool, zt_cu_pool_args, THREADS)
{
    for (int64_t e = first(); e < a.planes * a.win.n_out; e += stride()) {
        if (is_f64(a.type))
            max_one<double>(a, e);
        else if (is_f32(a.type))
            max_one<float>(a, e);
        else
            max_one<int64_t>(a, e);
    }
}

/* ---- means and norms --------------------------------------------------------------------------- */

template <class W> FN W share_of(const zt_cu_pool_args &a, int64_t o)
{
    const int64_t cells = a.divisor ? a.divisor : cells_of(a.win, o, a.count_pad != 0);
    return cells ? W(1) / (W)cells : W(0);
}

template <class W> FN W sum_of(const zt_cu_pool_args &a, int64_t e)
{
    const int64_t o = e % a.win.n_out, plane = e / a.win.n_out * a.win.n_in;
    W sum = 0;
    for (int64_t tap = 0; tap < a.win.taps; tap++) {
        const int64_t i = large_at(a.win, o, tap);
        if (i < 0) continue;
        const W x = load_as<W>(a.type, a.x, plane + i);
        if (a.kind == ZT_CU_POOL_LP)
            sum += pow(fabs(x), (W)a.p);
        else if (a.kind == ZT_CU_POOL_MEAN)
            sum += load_as<W>(a.type, a.v, plane + i) *
                   exp((W)a.p * (x - load_as<W>(a.type, a.top, e)));
        else
            sum += x;
    }
    return a.kind == ZT_CU_POOL_LP    ? pow(sum, W(1) / (W)a.p)
           : a.kind == ZT_CU_POOL_AVG ? sum * share_of<W>(a, o)
                                      : sum;
}

/* log(sum exp(beta x)) / beta, the largest taken off before the sum. */
template <class W> FN W smooth_of(const zt_cu_pool_args &a, int64_t e)
{
    const int64_t o = e % a.win.n_out, plane = e / a.win.n_out * a.win.n_in;
    const W beta = (W)a.p, pad = (W)a.pad_value;
    int64_t padded = 0;
    W top = -INFINITY, sum = 0;
    if (fabs(a.pad_value) < INFINITY)
        padded = cells_of(a.win, o, true) - cells_of(a.win, o, false);
    for (int64_t tap = 0; tap < a.win.taps; tap++) {
        const int64_t i = large_at(a.win, o, tap);
        const W x = i < 0 ? W(-INFINITY) : beta * load_as<W>(a.type, a.x, plane + i);
        if (i >= 0 && !(x <= top)) top = x;
    }
    if (padded && beta * pad > top) top = beta * pad;
    if (top == W(-INFINITY)) return beta > 0 ? W(-INFINITY) : W(INFINITY);
    for (int64_t tap = 0; tap < a.win.taps; tap++) {
        const int64_t i = large_at(a.win, o, tap);
        if (i >= 0) sum += exp(beta * load_as<W>(a.type, a.x, plane + i) - top);
    }
    if (padded) sum += (W)padded * exp(beta * pad - top);
    return (top + log(sum)) / beta;
}

template <class W> FN W pooled(const zt_cu_pool_args &a, int64_t e)
{
    return a.kind == ZT_CU_POOL_SMOOTH ? smooth_of<W>(a, e) : sum_of<W>(a, e);
}

KERNEL_OF(zt_cu_pool, zt_cu_pool_args, THREADS)
{
    for (int64_t e = first(); e < a.planes * a.win.n_out; e += stride()) {
        if (is_f64(a.type))
            store_as(a.type, a.y, e, pooled<double>(a, e));
        else
            store_as(a.type, a.y, e, pooled<float>(a, e));
    }
}

/* ---- back -------------------------------------------------------------------------------------- */

/* Over the windows that hold large element e: of avg_unpool x, of smooth_max_unpool v. */
template <class W> FN W unpooled(const zt_cu_pool_args &a, int64_t e)
{
    const int64_t i = e % a.win.n_in, plane = e / a.win.n_in * a.win.n_out;
    W sum = 0;
    for (int64_t tap = 0; tap < a.win.taps; tap++) {
        const int64_t o = small_at(a.win, i, tap);
        if (o < 0) continue;
        if (a.kind == ZT_CU_POOL_AVG)
            sum += load_as<W>(a.type, a.x, plane + o) * share_of<W>(a, o);
        else
            sum += load_as<W>(a.type, a.v, plane + o) *
                   exp((W)a.p * (load_as<W>(a.type, a.x, e) - load_as<W>(a.type, a.top, plane + o)));
    }
    return sum;
}

KERNEL_OF(zt_cu_unpool, zt_cu_pool_args, THREADS)
{
    for (int64_t e = first(); e < a.planes * a.win.n_in; e += stride()) {
        if (is_f64(a.type))
            store_as(a.type, a.y, e, unpooled<double>(a, e));
        else
            store_as(a.type, a.y, e, unpooled<float>(a, e));
    }
}
