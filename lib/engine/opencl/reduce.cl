/* reduce.cl - sums, products and extremes over axes. What is added to what depends on the shape alone: a work-item takes its
 * elements in order, and those of a work-group meet in one tree. */
#include "lib/engine/opencl/values.clh"
#include "lib/engine/cuda/args_reduce.h"

enum { ROW_THREADS = 256 };

FN value fold_start(int fold, bool floats)
{
    switch (fold) {
    case ZT_CU_PROD: return floats ? of_float(1) : of_int(1);
    case ZT_CU_MAX: return floats ? of_float(-INFINITY) : of_int(INT64_MIN);
    case ZT_CU_MIN: return floats ? of_float(INFINITY) : of_int(INT64_MAX);
    default: return of_int(0); /* of log-sum-exp: a sum of nothing */
    }
}

/* Log-sum-exp in pairs: a number and the sum of exp(x - number), which of nothing is 0. */
FN value of_exps(float top, float sum)
{
    value v;
    v.pair = (float2)(top, sum);
    return v;
}
FN value joined(float2 a, float2 b)
{
    const float top = a.y == 0 ? b.x : b.y == 0 ? a.x : fmax(a.x, b.x);
    if (isinf(a.y) || isinf(b.y)) return of_exps(0, INFINITY);
    return of_exps(top, (a.y == 0 ? 0 : a.y * exp(a.x - top)) + (b.y == 0 ? 0 : b.y * exp(b.x - top)));
}

/* NaN wins. */
FN value folded(int fold, bool floats, value a, value b)
{
    if (floats) {
        switch (fold) {
        case ZT_CU_LSE: return joined(a.pair, b.pair);
        case ZT_CU_PROD: return of_float(a.f * b.f);
        case ZT_CU_MAX: return b.f > a.f || b.f != b.f ? b : a;
        case ZT_CU_MIN: return b.f < a.f || b.f != b.f ? b : a;
        default: return of_float(a.f + b.f);
        }
    }
    switch (fold) {
    case ZT_CU_PROD: return of_int((int64_t)((uint64_t)a.i * (uint64_t)b.i));
    case ZT_CU_MAX: return b.i > a.i ? b : a;
    case ZT_CU_MIN: return b.i < a.i ? b : a;
    default: return of_int((int64_t)((uint64_t)a.i + (uint64_t)b.i));
    }
}

/* Every work-item gets it. */
FN value fold_group(int fold, bool floats, value v, __local value *room)
{
    room[thread()] = v;
    meet();
    for (int part = ROW_THREADS / 2; part > 0; part /= 2) {
        if (thread() < part) room[thread()] = folded(fold, floats, room[thread()], room[thread() + part]);
        meet();
    }
    v = room[0];
    meet();
    return v;
}

FN value element(const zt_cu_reduce_args *a, int64_t base, int64_t r)
{
    return load_value(a->x_type, a->x, base + offset_at(a->n_gone, a->gone_dim, a->gone_step, r));
}

FN float finite_or_0(float x) { return fabs(x) < INFINITY ? x : 0; }

/* Elements from, from + by ... of a row that begins at `base`. */
FN value fold_some(const zt_cu_reduce_args *a, int64_t base, int64_t from, int64_t to, int64_t by)
{
    const bool floats = is_float_type(a->x_type), exps = a->fold == ZT_CU_LSE && floats;
    const int fold = a->fold == ZT_CU_LSE ? (int)ZT_CU_MAX : a->fold;
    value v = fold_start(fold, floats);
    for (int64_t r = from; r < to; r += by) v = folded(fold, floats, v, element(a, base, r));
    if (!exps) return v;
    const float top = finite_or_0(v.f);
    float sum = 0;
    for (int64_t r = from; r < to; r += by) sum += exp(element(a, base, r).f - top);
    return of_exps(top, sum);
}

FN void tell(const zt_cu_reduce_args *a, int64_t at, value v)
{
    const float by = number(a->by);
    const bool floats = is_float_type(a->x_type);
    if (a->fold == ZT_CU_LSE && floats) v = of_float(v.pair.x + log(v.pair.y));
    if (floats && by != 1) v.f /= by;
    store_value(a->y_type, a->y, at, v);
}

/* A work-group a row, or a part of one. */
KERNEL(zt_cu_reduce_rows, zt_cu_reduce_args)
{
    __local value room[ROW_THREADS];
    const bool floats = is_float_type(a.x_type);
    for (int64_t o = block(); o < a.kept * a.parts; o += blocks()) {
        const int64_t base = offset_at(a.n_kept, a.kept_dim, a.kept_step, o / a.parts);
        const int64_t from = o % a.parts * a.each, end = from + a.each, to = end < a.gone ? end : a.gone;
        const value v = fold_group(a.fold, floats, fold_some(&a, base, from + thread(), to, ROW_THREADS), room);
        if (thread() == 0) tell(&a, o, v);
    }
}

/* A work-item a row, or a part of one: neighbours read neighbours where the last axis stays. */
KERNEL(zt_cu_reduce_columns, zt_cu_reduce_args)
{
    EACH_OF(i, a.kept * a.parts)
    {
        const int64_t o = i % a.kept, part = i / a.kept, base = offset_at(a.n_kept, a.kept_dim, a.kept_step, o);
        const int64_t from = part * a.each, to = from + a.each < a.gone ? from + a.each : a.gone;
        tell(&a, o * a.parts + part, fold_some(&a, base, from, to, 1));
    }
}
