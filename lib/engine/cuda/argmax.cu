/* argmax.cu - where the largest of a line is, or the smallest. */
#include "lib/engine/cuda/lines.cuh"

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
