/* conv.cu - convolution, to its result, its data and its filter: as a product of matrices whose
 * elements are found as they are loaded, in tiles through shared memory; where a group has few
 * channels a thread takes one element. Sums have one order, which hangs on the filter's shape (and
 * of the filter's gradient on the batch's) alone. */
#include "lib/engine/cuda/window.cuh"

enum { THREADS = 256, TILE_M = 64, TILE_J = 64, TILE_K = 16, EACH = 4, GAP = 4 };

/* ---- an element a thread ----------------------------------------------------------------------- */

template <class W> FN W bias_of(const zt_cu_conv_args &a, int64_t channel)
{
    return a.bias ? load_as<W>(a.type, a.bias, channel) : W(0);
}

template <class W> FN W forward_one(const zt_cu_conv_args &a, int64_t e)
{
    const int64_t o = e % a.win.n_out, m = e / a.win.n_out % a.A, n = e / a.win.n_out / a.A;
    const int64_t b_group = a.B / a.groups, b0 = m / (a.A / a.groups) * b_group;
    W sum = bias_of<W>(a, m);
    for (int64_t tap = 0; tap < a.win.taps; tap++) {
        const int64_t i = large_at(a.win, o, tap);
        for (int64_t b = 0; b < b_group && i >= 0; b++)
            sum += load_as<W>(a.type, a.large, (n * a.B + b0 + b) * a.win.n_in + i) *
                   load_as<W>(a.type, a.w, (m * b_group + b) * a.win.taps + tap);
    }
    return sum;
}

template <class W> FN W data_one(const zt_cu_conv_args &a, int64_t e)
{
    const int64_t i = e % a.win.n_in, c = e / a.win.n_in % a.B, n = e / a.win.n_in / a.B;
    const int64_t a_group = a.A / a.groups, b_group = a.B / a.groups, m0 = c / b_group * a_group;
    W sum = bias_of<W>(a, c);
    for (int64_t tap = 0; tap < a.win.taps; tap++) {
        const int64_t o = small_at(a.win, i, tap);
        for (int64_t m = m0; m < m0 + a_group && o >= 0; m++)
            sum += load_as<W>(a.type, a.small, (n * a.A + m) * a.win.n_out + o) *
                   load_as<W>(a.type, a.w, (m * b_group + c % b_group) * a.win.taps + tap);
    }
    return sum;
}

template <class W> FN W filter_one(const zt_cu_conv_args &a, int64_t e, int64_t part)
{
    const int64_t b_group = a.B / a.groups, tap = e % a.win.taps, m = e / a.win.taps / b_group;
    const int64_t c = m / (a.A / a.groups) * b_group + e / a.win.taps % b_group;
    const int64_t end = (part + 1) * a.each, all = a.N * a.win.n_out;
    W sum = 0;
    for (int64_t k = part * a.each; k < end && k < all; k++) {
        const int64_t n = k / a.win.n_out, o = k % a.win.n_out, i = large_at(a.win, o, tap);
        if (i < 0) continue;
        sum += load_as<W>(a.type, a.small, (n * a.A + m) * a.win.n_out + o) *
               load_as<W>(a.type, a.large, (n * a.B + c) * a.win.n_in + i);
    }
    return sum;
}

template <class W> FN void ones(const zt_cu_conv_args &a)
{
    const int64_t n = a.kind == ZT_CU_FORWARD ? a.N * a.A * a.win.n_out
                      : a.kind == ZT_CU_DATA  ? a.N * a.B * a.win.n_in
                                              : a.A * (a.B / a.groups) * a.win.taps * a.parts;
    for (int64_t e = first(); e < n; e += stride()) {
        const W y = a.kind == ZT_CU_FORWARD ? forward_one<W>(a, e)
                    : a.kind == ZT_CU_DATA  ? data_one<W>(a, e)
                                            : filter_one<W>(a, e / a.parts, e % a.parts);
        store_as(a.y_type, a.y, e, y);
    }
}

KERNEL_OF_FLOATS(zt_cu_conv_ones, zt_cu_conv_args, THREADS, a.type, ones)

/* ---- tiles ------------------------------------------------------------------------------------- */

/* A group's product y[m, j] = sum_k p[m, k] q[k, j]:
 *   forward   m filter          j sample, small element   k channel, tap
 *   data      m channel         j sample, large element   k filter, tap
 *   filter    m filter          j channel, tap            k sample, small element */
struct sizes {
    int64_t M, J, K;
};

FN sizes sizes_of(const zt_cu_conv_args &a)
{
    const int64_t ag = a.A / a.groups, bg = a.B / a.groups, taps = a.win.taps;
    if (a.kind == ZT_CU_FORWARD) return sizes{ag, a.N * a.win.n_out, bg * taps};
    if (a.kind == ZT_CU_DATA) return sizes{bg, a.N * a.win.n_in, ag * taps};
    return sizes{ag, bg * taps, a.N * a.win.n_out};
}

template <class W> FN W p_at(const zt_cu_conv_args &a, int64_t group, int64_t m, int64_t k)
{
    const int64_t ag = a.A / a.groups, bg = a.B / a.groups, taps = a.win.taps, n_out = a.win.n_out;
    if (a.kind == ZT_CU_FORWARD) return load_as<W>(a.type, a.w, (group * ag + m) * bg * taps + k);
    if (a.kind == ZT_CU_DATA)
        return load_as<W>(a.type, a.w, ((group * ag + k / taps) * bg + m) * taps + k % taps);
    return load_as<W>(a.type, a.small, (k / n_out * a.A + group * ag + m) * n_out + k % n_out);
}

template <class W> FN W q_at(const zt_cu_conv_args &a, int64_t group, int64_t k, int64_t j)
{
    const int64_t ag = a.A / a.groups, bg = a.B / a.groups, taps = a.win.taps;
    const int64_t n_in = a.win.n_in, n_out = a.win.n_out;
    if (a.kind == ZT_CU_DATA) {
        const int64_t o = small_at(a.win, j % n_in, k % taps);
        if (o < 0) return W(0);
        return load_as<W>(a.type, a.small, (j / n_in * a.A + group * ag + k / taps) * n_out + o);
    }
    const int64_t at = a.kind == ZT_CU_FORWARD ? j : k, what = a.kind == ZT_CU_FORWARD ? k : j;
    const int64_t i = large_at(a.win, at % n_out, what % taps);
    if (i < 0) return W(0);
    return load_as<W>(a.type, a.large, (at / n_out * a.B + group * bg + what / taps) * n_in + i);
}

/* Where y[m, j] is, counted as it lies. */
FN int64_t y_at(const zt_cu_conv_args &a, int64_t group, int64_t m, int64_t j, int64_t part)
{
    const int64_t ag = a.A / a.groups, bg = a.B / a.groups;
    if (a.kind == ZT_CU_FORWARD)
        return (j / a.win.n_out * a.A + group * ag + m) * a.win.n_out + j % a.win.n_out;
    if (a.kind == ZT_CU_DATA)
        return (j / a.win.n_in * a.B + group * bg + m) * a.win.n_in + j % a.win.n_in;
    return ((group * ag + m) * bg * a.win.taps + j) * a.parts + part;
}

template <class W>
FN void tiles(const zt_cu_conv_args &a, W (&p)[TILE_K][TILE_M + GAP], W (&q)[TILE_K][TILE_J + GAP])
{
    const sizes s = sizes_of(a);
    const int64_t across = (s.J + TILE_J - 1) / TILE_J, group = block_y(), part = block_z();
    const int64_t m0 = block() / across * TILE_M, j0 = block() % across * TILE_J;
    const int64_t from = part * a.each, end = from + a.each, to = end < s.K ? end : s.K;
    const int row = thread() / 16 * EACH, column = thread() % 16 * EACH;
    W sum[EACH][EACH];
    for (int r = 0; r < EACH; r++)
        for (int c = 0; c < EACH; c++) sum[r][c] = 0;
    for (int64_t k0 = from; k0 < to; k0 += TILE_K) {
        for (int e = thread(); e < TILE_K * TILE_M; e += THREADS) {
            const int k = e % TILE_K, m = e / TILE_K;
            const bool in = k0 + k < to && m0 + m < s.M;
            p[k][m] = in ? p_at<W>(a, group, m0 + m, k0 + k) : W(0);
        }
        for (int e = thread(); e < TILE_K * TILE_J; e += THREADS) {
            const int k = e / TILE_J, j = e % TILE_J;
            const bool in = k0 + k < to && j0 + j < s.J;
            q[k][j] = in ? q_at<W>(a, group, k0 + k, j0 + j) : W(0);
        }
        barrier();
        for (int k = 0; k < TILE_K; k++) {
            W u[EACH], v[EACH];
            for (int r = 0; r < EACH; r++) u[r] = p[k][row + r];
            for (int c = 0; c < EACH; c++) v[c] = q[k][column + c];
            for (int r = 0; r < EACH; r++)
                for (int c = 0; c < EACH; c++) sum[r][c] = fma(u[r], v[c], sum[r][c]);
        }
        barrier();
    }
    for (int r = 0; r < EACH; r++)
        for (int c = 0; c < EACH; c++) {
            const int64_t m = m0 + row + r, j = j0 + column + c;
            if (m < s.M && j < s.J)
                store_as(a.y_type, a.y, y_at(a, group, m, j, part),
                         sum[r][c] + bias_of<W>(a, group * s.M + m));
        }
}

KERNEL_OF(zt_cu_conv_tiles, zt_cu_conv_args, THREADS)
{
    SHARED(float, p, [TILE_K][TILE_M + GAP]);
    SHARED(float, q, [TILE_K][TILE_J + GAP]);
    tiles(a, p, q);
}
KERNEL_OF(zt_cu_conv_tiles_f64, zt_cu_conv_args, THREADS)
{
    SHARED(double, p, [TILE_K][TILE_M + GAP]);
    SHARED(double, q, [TILE_K][TILE_J + GAP]);
    tiles(a, p, q);
}
