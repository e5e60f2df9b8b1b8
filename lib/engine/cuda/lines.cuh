/* lines.cuh - the lines along an axis, and which entry of one comes first. */
#ifndef ZT_CU_LINES_CUH
#define ZT_CU_LINES_CUH

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

#endif
