/* axis.cu - ops along one axis: where the largest is, the k largest, running sums and products. */
#include "lib/engine/cuda/args_reduce.h"
#include "lib/engine/cuda/values.h"

enum { LINE_THREADS = 256, WARPS = LINE_THREADS / 32 };

FN int64_t line_at(const zt_cu_line_args &a, int64_t n, int64_t l)
{
    return l / a.inner * n * a.inner + l % a.inner;
}

/* ---- which comes first ----------------------------------------------------------------------- */

/* An entry of a line: i below 0 is none. */
template <class W> struct entry {
    W v;
    int64_t i;
};

/* Does a come before b: larger (or smaller), NaN larger than all, else the earlier. */
template <class W> FN bool before(const entry<W> &a, const entry<W> &b, bool largest)
{
    if (a.i < 0 || b.i < 0) return b.i < 0 && a.i >= 0;
    const bool a_nan = a.v != a.v, b_nan = b.v != b.v;
    if (a_nan != b_nan) return a_nan == largest;
    if (a.v != b.v && !a_nan) return largest ? a.v > b.v : a.v < b.v;
    return a.i < b.i;
}

/* The first of the block's, for every thread. */
template <class W> FN entry<W> first_of_block(entry<W> e, bool largest, entry<W> (&room)[WARPS])
{
    for (int m = 16; m; m >>= 1) {
        const entry<W> other = {shuffle_xor(e.v, m), shuffle_xor(e.i, m)};
        if (before(other, e, largest)) e = other;
    }
    if (threads() == 32) return e;
    barrier();
    if (lane() == 0) room[warp()] = e;
    barrier();
    e = room[0];
    for (int w = 1; w < threads() / 32; w++)
        if (before(room[w], e, largest)) e = room[w];
    return e;
}

/* Unsigned 64-bit numbers in the order of signed ones. */
FN float turned(float v, int) { return v; }
FN double turned(double v, int) { return v; }
FN int64_t turned(int64_t v, int t) { return t == ZT_CU_U64 ? v ^ INT64_MIN : v; }

/* The first of the line at `from` that come after `last` (with i below 0: of all). */
template <class W>
FN entry<W> next_best(const zt_cu_line_args &a, int64_t from, const entry<W> &last, int64_t i0,
                      int64_t by)
{
    entry<W> best = {W(0), -1};
    for (int64_t i = i0; i < a.n; i += by) {
        const entry<W> e = {turned(load_as<W>(a.type, a.x, from + i * a.inner), a.type), i};
        if (last.i >= 0 && !before(last, e, a.largest != 0)) continue;
        if (before(e, best, a.largest != 0)) best = e;
    }
    return best;
}

/* A block, or a warp, a line. */
template <class W> FN void topk(const zt_cu_line_args &a, entry<W> (&room)[WARPS])
{
    for (int64_t l = block(); l < a.lines; l += blocks()) {
        const int64_t from = line_at(a, a.n, l), to = line_at(a, a.k, l);
        entry<W> last = {W(0), -1};
        for (int64_t j = 0; j < a.k; j++) {
            last = next_best(a, from, last, (int64_t)thread(), (int64_t)threads());
            last = first_of_block(last, a.largest != 0, room);
            if (thread()) continue;
            if (a.y) store_as(a.type, a.y, to + j * a.inner, turned(last.v, a.type));
            if (a.i) PTR(int32_t, a.i)[to + j * a.inner] = (int32_t)last.i;
        }
    }
}

KERNEL_OF(zt_cu_topk, zt_cu_line_args, LINE_THREADS)
{
    SHARED(entry<double>, room, [WARPS]); /* of any of the three: none is larger */
    if (is_f64(a.type))
        topk(a, room);
    else if (is_f32(a.type))
        topk(a, reinterpret_cast<entry<float>(&)[WARPS]>(room));
    else
        topk(a, reinterpret_cast<entry<int64_t>(&)[WARPS]>(room));
}

/* ---- argmax, argmin -------------------------------------------------------------------------- */

/* NaN is never the one; 0 where there is none. */
template <class W>
FN entry<W> best_of(const zt_cu_line_args &a, int64_t from, int64_t i0, int64_t by)
{
    entry<W> best = {W(0), -1};
    for (int64_t i = i0; i < a.n; i += by) {
        const entry<W> e = {load_as<W>(a.type, a.x, from + i * a.inner), i};
        if (e.v == e.v && before(e, best, a.largest != 0)) best = e;
    }
    return best;
}

template <class W> FN void arg_rows(const zt_cu_line_args &a, entry<W> (&room)[WARPS])
{
    for (int64_t l = block(); l < a.lines; l += blocks()) {
        entry<W> e = best_of<W>(a, line_at(a, a.n, l), thread(), threads());
        e = first_of_block(e, a.largest != 0, room);
        if (thread() == 0) PTR(int32_t, a.i)[l] = e.i < 0 ? 0 : (int32_t)e.i;
    }
}

KERNEL_OF(zt_cu_arg_rows, zt_cu_line_args, LINE_THREADS)
{
    SHARED(entry<double>, room, [WARPS]);
    if (is_f64(a.type))
        arg_rows(a, room);
    else
        arg_rows(a, reinterpret_cast<entry<float>(&)[WARPS]>(room));
}

template <class W> FN void arg_lines(const zt_cu_line_args &a)
{
    for (int64_t l = first(); l < a.lines; l += stride()) {
        const entry<W> e = best_of<W>(a, line_at(a, a.n, l), 0, 1);
        PTR(int32_t, a.i)[l] = e.i < 0 ? 0 : (int32_t)e.i;
    }
}

KERNEL_OF_FLOATS(zt_cu_arg_lines, zt_cu_line_args, LINE_THREADS, a.type, arg_lines)

/* ---- running sums and products --------------------------------------------------------------- */

/* Floats run in double: a long line's last sum is as good as its first. */
FN double run_start(bool product, double) { return product ? 1 : 0; }
FN int64_t run_start(bool product, int64_t) { return product ? 1 : 0; }
FN double run(bool product, double a, double b) { return product ? a * b : a + b; }
FN int64_t run(bool product, int64_t a, int64_t b)
{
    return (int64_t)(product ? (uint64_t)a * (uint64_t)b : (uint64_t)a + (uint64_t)b);
}
FN double load_run(int t, zt_cu_ptr x, int64_t i, double)
{
    return is_f64(t) ? load_as<double>(t, x, i) : (double)load_as<float>(t, x, i);
}
FN int64_t load_run(int t, zt_cu_ptr x, int64_t i, int64_t) { return load_as<int64_t>(t, x, i); }
FN void store_run(int t, zt_cu_ptr y, int64_t i, double v) { store_value(t, y, i, to_float(t, v)); }
FN void store_run(int t, zt_cu_ptr y, int64_t i, int64_t v) { store_as(t, y, i, v); }

template <class R> FN void runs(const zt_cu_line_args &a, bool product)
{
    for (int64_t l = first(); l < a.lines; l += stride()) {
        R sum = run_start(product, R());
        const int64_t from = line_at(a, a.n, l);
        for (int64_t i = 0; i < a.n; i++) {
            const int64_t at = from + (a.reverse ? a.n - 1 - i : i) * a.inner;
            const R next = run(product, sum, load_run(a.type, a.x, at, R()));
            store_run(a.type, a.y, at, a.exclusive ? sum : next);
            sum = next;
        }
    }
}

KERNEL_OF(zt_cu_run_lines, zt_cu_line_args, LINE_THREADS)
{
    if (a.type < ZT_CU_I64)
        runs<double>(a, a.k != 0);
    else
        runs<int64_t>(a, a.k != 0);
}

/* A block a line, as many entries at a time as it has threads. */
template <class R>
FN void run_rows(const zt_cu_line_args &a, bool product, R (&room)[2][LINE_THREADS])
{
    for (int64_t l = block(); l < a.lines; l += blocks()) {
        const int64_t from = line_at(a, a.n, l);
        R carry = run_start(product, R());
        for (int64_t i0 = 0; i0 < a.n; i0 += LINE_THREADS) {
            const int64_t i = i0 + thread();
            const int64_t at = from + (a.reverse ? a.n - 1 - i : i) * a.inner;
            R v = i < a.n ? load_run(a.type, a.x, at, R()) : run_start(product, R());
            int now = 0;
            for (int d = 1; d < LINE_THREADS; d *= 2, now ^= 1) {
                room[now][thread()] = v;
                barrier();
                if (thread() >= d) v = run(product, room[now][thread() - d], v);
            }
            room[now][thread()] = v;
            barrier();
            const R sum = run(product, carry, v);
            const R until = thread() ? run(product, carry, room[now][thread() - 1]) : carry;
            if (i < a.n) store_run(a.type, a.y, at, a.exclusive ? until : sum);
            carry = run(product, carry, room[now][LINE_THREADS - 1]);
            barrier();
        }
    }
}

KERNEL_OF(zt_cu_run_rows, zt_cu_line_args, LINE_THREADS)
{
    SHARED(double, room, [2][LINE_THREADS]);
    if (a.type < ZT_CU_I64)
        run_rows(a, a.k != 0, room);
    else
        run_rows(a, a.k != 0, reinterpret_cast<int64_t(&)[2][LINE_THREADS]>(room));
}
