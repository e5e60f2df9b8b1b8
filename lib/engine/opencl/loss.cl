/* loss.cl - losses of values and of classes, and what the latter pass back. */
#include "lib/engine/opencl/prim.clh"
#include "lib/engine/cuda/args_loss.h"

enum { GROUP = 256 };

/* ---- values and targets alike ------------------------------------------------------------------- */

FN float loss_at(const zt_cu_pair_args *a, int64_t i)
{
    const float x = get(a->type, a->x, i), t = get(a->type, a->target, i), d = fabs(x - t), beta = number(a->p);
    if (a->kind == ZT_CU_MSE) return d * d;
    if (a->kind == ZT_CU_SMOOTH_L1) return d < beta ? d * d / (2 * beta) : d - beta / 2;
    return (x > 0 ? x : 0.0f) - x * t + log1p(exp(-fabs(x)));
}

/* A work-group for each `each` of them. */
KERNEL(zt_cu_pair_sums, zt_cu_pair_args)
{
    __local float room[GROUP];
    const int64_t from = (int64_t)block() * a.each, to = from + a.each < a.n ? from + a.each : a.n;
    float sum = 0;
    for (int64_t i = from + thread(); i < to; i += threads()) sum += loss_at(&a, i);
    sum = group_sum(sum, room);
    if (thread() == 0) PTR(float, a.y)[block()] = sum;
}

KERNEL(zt_cu_pair_each, zt_cu_pair_args) { EACH_OF(i, a.n) put(a.type, a.y, i, loss_at(&a, i)); }

/* ---- classes ------------------------------------------------------------------------------------ */

/* The class of position i, or -1: ignored, or not a class, which `tell` makes trouble. */
FN int64_t class_at(const zt_cu_class_args *a, int64_t i, bool tell)
{
    const int64_t c = PTR(const int32_t, a->target)[i];
    if (c == a->ignore) return -1;
    if (c >= 0 && c < a->classes) return c;
    if (tell) trouble(a->trouble, ZT_CU_TARGET, i, c, a->classes);
    return -1;
}

FN int64_t first_of(const zt_cu_class_args *a, int64_t i) { return i / a->inner * a->classes * a->inner + i % a->inner; }
FN float weight_of(const zt_cu_class_args *a, int64_t c) { return a->weight ? get(a->type, a->weight, c) : 1; }
FN float x_at(const zt_cu_class_args *a, int64_t at, int64_t c) { return get(a->type, a->x, at + c * a->inner); }

/* The loss of position i, whose log-sum-exp and sum of what smoothing adds are known. */
FN void tell(const zt_cu_class_args *a, int64_t i, float lse, float smoothed)
{
    const int64_t c = class_at(a, i, true);
    const float smoothing = number(a->smoothing);
    float y = 0;
    if (c >= 0) y = (1 - smoothing) * weight_of(a, c) * (lse - x_at(a, first_of(a, i), c));
    if (c >= 0 && smoothing > 0) y += smoothing / (float)a->classes * smoothed;
    if (a->lse) put(a->type, a->lse, i, lse);
    put(a->y_type, a->y, i, y);
}

KERNEL(zt_cu_class_lines, zt_cu_class_args)
{
    EACH_OF(i, a.positions)
    {
        const int64_t at = first_of(&a, i);
        float top = -INFINITY, sum = 0, smoothed = 0, lse = 0;
        if (!a.nll) {
            for (int64_t c = 0; c < a.classes; c++) top = fmax(top, x_at(&a, at, c));
            for (int64_t c = 0; c < a.classes; c++) sum += exp(x_at(&a, at, c) - top);
            lse = top + log(sum);
        }
        for (int64_t c = 0; c < a.classes && a.smoothing; c++) smoothed += weight_of(&a, c) * (lse - x_at(&a, at, c));
        tell(&a, i, lse, smoothed);
    }
}

/* The same where a work-group has a position. */
KERNEL(zt_cu_class_rows, zt_cu_class_args)
{
    __local float room[GROUP];
    for (int64_t i = block(); i < a.positions; i += blocks()) {
        const int64_t at = first_of(&a, i);
        float top = -INFINITY, sum = 0, smoothed = 0;
        for (int64_t c = thread(); c < a.classes; c += threads()) top = fmax(top, x_at(&a, at, c));
        top = group_max(top, room);
        for (int64_t c = thread(); c < a.classes; c += threads()) sum += exp(x_at(&a, at, c) - top);
        const float lse = top + log(group_sum(sum, room));
        for (int64_t c = thread(); c < a.classes && a.smoothing; c += threads())
            smoothed += weight_of(&a, c) * (lse - x_at(&a, at, c));
        smoothed = group_sum(smoothed, room);
        if (thread() == 0) tell(&a, i, lse, smoothed);
    }
}

/* y[i] = the weight of position i's target, 0 where it does not count. */
KERNEL(zt_cu_class_weights, zt_cu_class_args)
{
    EACH_OF(i, a.positions)
    {
        const int64_t c = class_at(&a, i, false);
        PTR(float, a.y)[i] = c < 0 ? 0 : weight_of(&a, c);
    }
}

KERNEL(zt_cu_ratio, zt_cu_ratio_args)
{
    if (thread() == 0) put(a.type, a.y, 0, PTR(const float, a.a)[0] / PTR(const float, a.b)[0]);
}

/* ---- and back ----------------------------------------------------------------------------------- */

/* Class c's slope at a position whose target is t. */
FN float slope(const zt_cu_class_args *a, int64_t e, int64_t i, int64_t c, int64_t t)
{
    const float smoothing = number(a->smoothing), w = (1 - smoothing) * weight_of(a, t), hit = c == t ? 1 : 0;
    if (a->nll) return -w * hit;
    const float p = exp(get(a->type, a->x, e) - get(a->type, a->lse, i));
    const float all = a->all ? *PTR(const float, a->all) : (float)a->classes;
    return w * (p - hit) + smoothing / (float)a->classes * (p * all - weight_of(a, c));
}

KERNEL(zt_cu_class_back, zt_cu_class_args)
{
    EACH_OF(e, a.positions * a.classes)
    {
        const int64_t c = e / a.inner % a.classes, i = e / a.inner / a.classes * a.inner + e % a.inner;
        const int64_t t = class_at(&a, i, c == 0);
        float dx = 0;
        if (t >= 0) {
            float dy = get(a.type, a.dy, a.each ? i : 0);
            if (a.total) dy /= *PTR(const float, a.total);
            dx = dy * slope(&a, e, i, c, t);
        }
        put(a.type, a.dx, e, dx);
    }
}
