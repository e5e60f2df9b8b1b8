/* conv.cl - convolution, to its result, its data and its filter: as a product of matrices whose elements are found as they are
 * loaded, in tiles through local memory; where a group has few channels a work-item takes one element. Sums have one order,
 * which depends on the filter's shape (and of the filter's gradient on the batch's) alone. */
#include "lib/engine/opencl/window.clh"

enum { TILE = 64, DEEP = 16, EACH = 4, GAP = 4 };

FN float bias_of(const zt_cu_conv_args *a, int64_t channel) { return a->bias ? get(a->type, a->bias, channel) : 0; }

/* ---- tiles -------------------------------------------------------------------------------------- */

/* A group's product y[m, j] = sum_k p[m, k] q[k, j]:
 *   forward   m filter          j sample, small element   k channel, tap
 *   data      m channel         j sample, large element   k filter, tap
 *   filter    m filter          j channel, tap            k sample, small element */
typedef struct sizes {
    int64_t M, J, K;
} sizes;

FN sizes sizes_of(const zt_cu_conv_args *a)
{
    const int64_t ag = a->A / a->groups, bg = a->B / a->groups, taps = a->win.taps;
    const sizes forward = {ag, a->N * a->win.n_out, bg * taps}, data = {bg, a->N * a->win.n_in, ag * taps};
    const sizes filter = {ag, bg * taps, a->N * a->win.n_out};
    return a->kind == ZT_CU_FORWARD ? forward : a->kind == ZT_CU_DATA ? data : filter;
}

FN float p_at(const zt_cu_conv_args *a, int64_t group, int64_t m, int64_t k)
{
    const int64_t ag = a->A / a->groups, bg = a->B / a->groups, taps = a->win.taps, n_out = a->win.n_out;
    if (a->kind == ZT_CU_FORWARD) return get(a->type, a->w, (group * ag + m) * bg * taps + k);
    if (a->kind == ZT_CU_DATA) return get(a->type, a->w, ((group * ag + k / taps) * bg + m) * taps + k % taps);
    return get(a->type, a->small, (k / n_out * a->A + group * ag + m) * n_out + k % n_out);
}

FN float q_at(const zt_cu_conv_args *a, int64_t group, int64_t k, int64_t j)
{
    const int64_t ag = a->A / a->groups, bg = a->B / a->groups, taps = a->win.taps, n_in = a->win.n_in, n_out = a->win.n_out;
    if (a->kind == ZT_CU_DATA) {
        const int64_t o = small_at(&a->win, j % n_in, k % taps);
        return o < 0 ? 0 : get(a->type, a->small, (j / n_in * a->A + group * ag + k / taps) * n_out + o);
    }
    const int64_t at = a->kind == ZT_CU_FORWARD ? j : k, what = a->kind == ZT_CU_FORWARD ? k : j;
    const int64_t i = large_at(&a->win, at % n_out, what % taps);
    return i < 0 ? 0 : get(a->type, a->large, (at / n_out * a->B + group * bg + what / taps) * n_in + i);
}

/* Where y[m, j] is, counted as it lies. */
FN int64_t y_at(const zt_cu_conv_args *a, int64_t group, int64_t m, int64_t j, int64_t part)
{
    const int64_t ag = a->A / a->groups, bg = a->B / a->groups, n_in = a->win.n_in, n_out = a->win.n_out;
    if (a->kind == ZT_CU_FORWARD) return (j / n_out * a->A + group * ag + m) * n_out + j % n_out;
    if (a->kind == ZT_CU_DATA) return (j / n_in * a->B + group * bg + m) * n_in + j % n_in;
    return ((group * ag + m) * bg * a->win.taps + j) * a->parts + part;
}

KERNEL(zt_cu_conv_tiles, zt_cu_conv_args)
{
    __local float p[DEEP][TILE + GAP], q[DEEP][TILE + GAP];
    const sizes s = sizes_of(&a);
    const int64_t across = (s.J + TILE - 1) / TILE, group = block_y(), part = block_z();
    const int64_t m0 = block() / across * TILE, j0 = block() % across * TILE;
    const int64_t from = part * a.each, end = from + a.each, to = end < s.K ? end : s.K;
    const int row = thread() / 16 * EACH, column = thread() % 16 * EACH;
    float sum[EACH][EACH];
    for (int r = 0; r < EACH; r++)
        for (int c = 0; c < EACH; c++) sum[r][c] = 0;
    for (int64_t k0 = from; k0 < to; k0 += DEEP) {
        for (int e = thread(); e < DEEP * TILE; e += threads()) {
            const int k = e % DEEP, m = e / DEEP;
            p[k][m] = k0 + k < to && m0 + m < s.M ? p_at(&a, group, m0 + m, k0 + k) : 0;
        }
        for (int e = thread(); e < DEEP * TILE; e += threads()) {
            const int k = e / TILE, j = e % TILE;
            q[k][j] = k0 + k < to && j0 + j < s.J ? q_at(&a, group, k0 + k, j0 + j) : 0;
        }
        meet();
        for (int k = 0; k < DEEP; k++)
            for (int r = 0; r < EACH; r++)
                for (int c = 0; c < EACH; c++) sum[r][c] = fma(p[k][row + r], q[k][column + c], sum[r][c]);
        meet();
    }
    for (int r = 0; r < EACH; r++)
        for (int c = 0; c < EACH; c++) {
            const int64_t m = m0 + row + r, j = j0 + column + c;
            if (m < s.M && j < s.J)
                put(a.y_type, a.y, y_at(&a, group, m, j, part), sum[r][c] + bias_of(&a, group * s.M + m));
        }
}

/* ---- an element a work-item --------------------------------------------------------------------- */

/* The same products, an element each: number e of y as it lies, of all groups. */
KERNEL(zt_cu_conv_ones, zt_cu_conv_args)
{
    const sizes s = sizes_of(&a);
    const int64_t bg = a.B / a.groups, taps = a.win.taps, side = a.kind == ZT_CU_FORWARD ? a.win.n_out : a.win.n_in;
    EACH_OF(e, s.M * s.J * a.groups * a.parts)
    {
        int64_t group, m, j, part = 0;
        if (a.kind == ZT_CU_FILTER) {
            part = e % a.parts;
            j = e / a.parts % (bg * taps);
            m = e / a.parts / (bg * taps);
        } else {
            m = e / side % (s.M * a.groups);
            j = e / side / (s.M * a.groups) * side + e % side;
        }
        group = m / s.M;
        m %= s.M;
        const int64_t end = (part + 1) * a.each, to = end < s.K ? end : s.K;
        float sum = bias_of(&a, group * s.M + m);
        for (int64_t k = part * a.each; k < to; k++) sum = fma(p_at(&a, group, m, k), q_at(&a, group, k, j), sum);
        put(a.y_type, a.y, e, sum);
    }
}
