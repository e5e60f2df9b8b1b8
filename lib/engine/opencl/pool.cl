/* pool.cl - pools over windows and their ways back: a work-item an element, which takes the taps of its windows in order. */
#include "lib/engine/opencl/window.clh"

/* ---- the largest -------------------------------------------------------------------------------- */

FN bool is_larger(int type, value x, value top)
{
    return is_float_type(type) ? x.f > top.f || (x.f != x.f && top.f == top.f) : x.i > top.i;
}

KERNEL(zt_cu_max_pool, zt_cu_pool_args)
{
    EACH_OF(e, a.planes * a.win.n_out)
    {
        const int64_t plane = e / a.win.n_out * a.win.n_in;
        int64_t best = -1;
        value top = is_float_type(a.type) ? of_float(-INFINITY)
                                          : of_int(is_signed(a.type) ? -((int64_t)1 << (bits_of(a.type) - 2)) * 2 : 0);
        for (int64_t tap = 0; tap < a.win.taps; tap++) {
            const int64_t i = large_at(&a.win, e % a.win.n_out, tap);
            if (i < 0) continue;
            const value x = load_value(a.type, a.x, plane + i);
            if (best >= 0 && !is_larger(a.type, x, top)) continue;
            best = i;
            top = x;
        }
        if (a.y) store_value(a.type, a.y, e, top);
        if (a.i) PTR(int32_t, a.i)[e] = (int32_t)best;
    }
}

/* ---- means and norms ---------------------------------------------------------------------------- */

FN float share_of(const zt_cu_pool_args *a, int64_t o)
{
    const int64_t cells = a->divisor ? a->divisor : cells_of(&a->win, o, a->count_pad != 0);
    return cells ? 1.0f / (float)cells : 0;
}

FN float sum_of(const zt_cu_pool_args *a, int64_t e)
{
    const int64_t o = e % a->win.n_out, plane = e / a->win.n_out * a->win.n_in;
    const float p = number(a->p);
    float sum = 0;
    for (int64_t tap = 0; tap < a->win.taps; tap++) {
        const int64_t i = large_at(&a->win, o, tap);
        if (i < 0) continue;
        const float x = load_float(a->type, a->x, plane + i);
        if (a->kind == ZT_CU_POOL_LP)
            sum += pow(fabs(x), p);
        else if (a->kind == ZT_CU_POOL_MEAN)
            sum += load_float(a->type, a->v, plane + i) * exp(p * (x - load_float(a->type, a->top, e)));
        else
            sum += x;
    }
    return a->kind == ZT_CU_POOL_LP ? pow(sum, 1.0f / p) : a->kind == ZT_CU_POOL_AVG ? sum * share_of(a, o) : sum;
}

/* log(sum exp(beta x)) / beta, the largest taken off before the sum. */
FN float smooth_of(const zt_cu_pool_args *a, int64_t e)
{
    const int64_t o = e % a->win.n_out, plane = e / a->win.n_out * a->win.n_in;
    const float beta = number(a->p), pad = number(a->pad_value);
    const int64_t padded = fabs(pad) < INFINITY ? cells_of(&a->win, o, true) - cells_of(&a->win, o, false) : 0;
    float top = -INFINITY, sum = 0;
    for (int64_t tap = 0; tap < a->win.taps; tap++) {
        const int64_t i = large_at(&a->win, o, tap);
        const float x = i < 0 ? -INFINITY : beta * load_float(a->type, a->x, plane + i);
        if (i >= 0 && !(x <= top)) top = x;
    }
    if (padded && beta * pad > top) top = beta * pad;
    if (top == -INFINITY) return beta > 0 ? -INFINITY : INFINITY;
    for (int64_t tap = 0; tap < a->win.taps; tap++) {
        const int64_t i = large_at(&a->win, o, tap);
        if (i >= 0) sum += exp(beta * load_float(a->type, a->x, plane + i) - top);
    }
    if (padded) sum += (float)padded * exp(beta * pad - top);
    return (top + log(sum)) / beta;
}

KERNEL(zt_cu_pool, zt_cu_pool_args)
{
    EACH_OF(e, a.planes * a.win.n_out)
    store_float(a.type, a.y, e, a.kind == ZT_CU_POOL_SMOOTH ? smooth_of(&a, e) : sum_of(&a, e));
}

/* ---- back --------------------------------------------------------------------------------------- */

/* Over the windows that hold large element e: of avg_unpool x, of smooth_max_unpool v. */
FN float unpooled(const zt_cu_pool_args *a, int64_t e)
{
    const int64_t i = e % a->win.n_in, plane = e / a->win.n_in * a->win.n_out;
    float sum = 0;
    for (int64_t tap = 0; tap < a->win.taps; tap++) {
        const int64_t o = small_at(&a->win, i, tap);
        if (o < 0) continue;
        if (a->kind == ZT_CU_POOL_AVG)
            sum += load_float(a->type, a->x, plane + o) * share_of(a, o);
        else
            sum += load_float(a->type, a->v, plane + o) *
                   exp(number(a->p) * (load_float(a->type, a->x, e) - load_float(a->type, a->top, plane + o)));
    }
    return sum;
}

KERNEL(zt_cu_unpool, zt_cu_pool_args) { EACH_OF(e, a.planes * a.win.n_in) store_float(a.type, a.y, e, unpooled(&a, e)); }
