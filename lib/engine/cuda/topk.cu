/* topk.cu - the k first of a line. */
#include "lib/engine/cuda/lines.cuh"

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
