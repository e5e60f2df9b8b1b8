/* lines.cl - along one axis: where the largest is, the first k in order, running sums and products. */
#include "lib/engine/opencl/values.clh"
#include "lib/engine/cuda/args_reduce.h"

enum { LINE_THREADS = 256 };

FN int64_t line_at(const zt_cu_line_args *a, int64_t n, int64_t l) { return l / a->inner * n * a->inner + l % a->inner; }

/* ---- which comes first ------------------------------------------------------------------------- */

/* An entry of a line: i below 0 is none. */
typedef struct entry {
    value v;
    int64_t i;
} entry;

/* Does a come before b: larger (or smaller), NaN larger than all, else the earlier. */
FN bool before(const zt_cu_line_args *line, entry a, entry b)
{
    const bool largest = line->largest != 0;
    if (a.i < 0 || b.i < 0) return b.i < 0 && a.i >= 0;
    if (is_float_type(line->type)) {
        const bool a_nan = a.v.f != a.v.f, b_nan = b.v.f != b.v.f;
        if (a_nan != b_nan) return a_nan == largest;
        if (a.v.f != b.v.f && !a_nan) return largest ? a.v.f > b.v.f : a.v.f < b.v.f;
    } else if (a.v.i != b.v.i) {
        return largest ? a.v.i > b.v.i : a.v.i < b.v.i;
    }
    return a.i < b.i;
}

/* The first of the work-group's, for every work-item. */
FN entry first_of_group(const zt_cu_line_args *a, entry e, __local entry *room)
{
    room[thread()] = e;
    meet();
    for (int part = threads() / 2; part > 0; part /= 2) {
        if (thread() < part && before(a, room[thread() + part], room[thread()])) room[thread()] = room[thread() + part];
        meet();
    }
    e = room[0];
    meet();
    return e;
}

/* Unsigned 64-bit numbers in the order of signed ones. */
FN value turned(value v, int type)
{
    if (type == ZT_CU_U64) v.i ^= INT64_MIN;
    return v;
}

/* ---- argmax ------------------------------------------------------------------------------------ */

/* NaN is never the one; 0 where there is none. */
FN entry best_of(const zt_cu_line_args *a, int64_t from, int64_t i0, int64_t by)
{
    entry best = {{0}, -1};
    for (int64_t i = i0; i < a->n; i += by) {
        const entry e = {load_value(a->type, a->x, from + i * a->inner), i};
        if (e.v.f == e.v.f && before(a, e, best)) best = e;
    }
    return best;
}

KERNEL(zt_cu_arg_rows, zt_cu_line_args)
{
    __local entry room[LINE_THREADS];
    for (int64_t l = block(); l < a.lines; l += blocks()) {
        const entry e = first_of_group(&a, best_of(&a, line_at(&a, a.n, l), thread(), threads()), room);
        if (thread() == 0) PTR(int32_t, a.i)[l] = e.i < 0 ? 0 : (int32_t)e.i;
    }
}

KERNEL(zt_cu_arg_lines, zt_cu_line_args)
{
    EACH_OF(l, a.lines)
    {
        const entry e = best_of(&a, line_at(&a, a.n, l), 0, 1);
        PTR(int32_t, a.i)[l] = e.i < 0 ? 0 : (int32_t)e.i;
    }
}

/* ---- topk -------------------------------------------------------------------------------------- */

/* The first of the work-item's that come after `last` (with i below 0: of all). */
FN entry next_best(const zt_cu_line_args *a, int64_t from, entry last)
{
    entry best = {{0}, -1};
    for (int64_t i = thread(); i < a->n; i += threads()) {
        const entry e = {turned(load_value(a->type, a->x, from + i * a->inner), a->type), i};
        if (last.i >= 0 && !before(a, last, e)) continue;
        if (before(a, e, best)) best = e;
    }
    return best;
}

/* A work-group a line. */
KERNEL(zt_cu_topk, zt_cu_line_args)
{
    __local entry room[LINE_THREADS];
    for (int64_t l = block(); l < a.lines; l += blocks()) {
        const int64_t from = line_at(&a, a.n, l), to = line_at(&a, a.k, l);
        entry last = {{0}, -1};
        for (int64_t j = 0; j < a.k; j++) {
            last = first_of_group(&a, next_best(&a, from, last), room);
            if (thread() == 0 && a.y) store_value(a.type, a.y, to + j * a.inner, turned(last.v, a.type));
            if (thread() == 0 && a.i) PTR(int32_t, a.i)[to + j * a.inner] = (int32_t)last.i;
        }
    }
}

/* ---- running sums and products ----------------------------------------------------------------- */

/* Floats run in two, the sum and what rounding lost of it: a long line's last sum is as good as its first. */
typedef struct running {
    value v;
    float lost;
} running;

FN running run(bool floats, bool product, running sum, value x)
{
    if (!floats) {
        sum.v.i = (int64_t)(product ? (uint64_t)sum.v.i * (uint64_t)x.i : (uint64_t)sum.v.i + (uint64_t)x.i);
        return sum;
    }
    const float was = sum.v.f;
    if (product) {
        const float p = was * x.f, low = fma(was, x.f, -p);
        sum.v.f = p;
        sum.lost = isfinite(p) ? fma(sum.lost, x.f, low) : 0;
    } else {
        const float s = was + x.f, back = s - was;
        sum.v.f = s;
        if (isfinite(s)) sum.lost += (was - (s - back)) + (x.f - back);
    }
    return sum;
}

FN void store_run(const zt_cu_line_args *a, int64_t at, bool floats, running sum)
{
    if (floats)
        store_float(a->type, a->y, at, isfinite(sum.v.f) ? sum.v.f + sum.lost : sum.v.f);
    else
        store_value(a->type, a->y, at, of_int(wrapped(a->type, (uint64_t)sum.v.i)));
}

/* A work-item a line. */
FN void run_lines(const zt_cu_line_args *a)
{
    const bool floats = is_float_type(a->type), product = a->k != 0;
    EACH_OF(l, a->lines)
    {
        running sum = {{0}, 0};
        const int64_t from = line_at(a, a->n, l);
        if (product) sum.v = floats ? of_float(1) : of_int(1);
        for (int64_t i = 0; i < a->n; i++) {
            const int64_t at = from + (a->reverse ? a->n - 1 - i : i) * a->inner;
            const running next = run(floats, product, sum, load_value(a->type, a->x, at));
            store_run(a, at, floats, a->exclusive ? sum : next);
            sum = next;
        }
    }
}

KERNEL(zt_cu_run_lines, zt_cu_line_args) { run_lines(&a); }
KERNEL(zt_cu_run_rows, zt_cu_line_args) { run_lines(&a); }
