/* sdpa.cu - dense attention with masks and windows, and its gradient; never all scores at once.
 *
 * A block takes ROWS rows of one head (of queries; in the gradient of keys and values, of keys),
 * a warp four of them, and goes over the others by tiles of 32 in shared memory: a lane a score,
 * then a lane every 32nd column of what is summed. All sums have one order; nothing is added
 * atomically. On NVIDIA's machines heads of up to 128 columns go by sdpa_mma.cu and
 * sdpa_grad_mma.cu.
 */
#include "lib/engine/cuda/sdpa.cuh"

enum { WARPS = 4, EACH = 4, ROWS = WARPS * EACH, TILE = 32, PARTS = ZT_CU_SDPA_MOST / 32 };

/* Rows from..from+n-1 of a batch's head into shared memory, what is past `all` as zeros. */
template <class T>
FN void bring(const zt_cu_rows &r, int64_t batch, int64_t head, int64_t from, int n, int64_t all,
              int64_t cols, WIDE(T) *to)
{
    const T *p = PTR(const T, r.at) + batch * r.batch + head * r.head;
    for (int64_t i = thread(); i < n * cols; i += threads()) {
        int64_t row = i / cols, c = i % cols;
        to[row * (cols + 1) + c] = from + row < all ? get(p[(from + row) * r.row + c]) : 0;
    }
}

template <class F> FN F dot(const F *a, const F *b, int64_t n)
{
    F sum = 0;
    for (int64_t i = 0; i < n; i++) sum = fma_of(a[i], b[i], sum);
    return sum;
}

/* May query i see key j of n? */
FN bool sees(const zt_cu_sdpa_args &a, int64_t n, int64_t i, int64_t j)
{
    int64_t pos = i + a.offset + (a.end ? n - a.s : 0);
    return j < n && (a.right < 0 || j <= pos + a.right) && (a.left < 0 || j >= pos - a.left);
}

/* The score of a query and a key, -inf where it is not seen; `before`: before the mask. */
template <class T>
FN WIDE(T) score_of(const zt_cu_sdpa_args &a, int64_t batch, int64_t head, int64_t i, int64_t j,
                    int64_t n, const WIDE(T) *q, const WIDE(T) *k, WIDE(T) *before)
{
    WIDE(T) s = capped(a, dot(q, k, a.d) * (WIDE(T))a.scale);
    *before = s;
    if (i >= a.s || !sees(a, n, i, j)) return -INFINITY;
    return masked<T>(a, batch, head, i, j, s);
}

/* The first key that any of the rows from i on may see, and past the last. */
FN void range_of(const zt_cu_sdpa_args &a, int64_t n, int64_t i, int64_t *lo, int64_t *hi)
{
    int64_t to_end = a.end ? n - a.s : 0, first = i + a.offset + to_end;
    *lo = a.left >= 0 && first - a.left > 0 ? first - a.left : 0;
    *hi = a.right >= 0 && first + ROWS + a.right < n ? first + ROWS + a.right : n;
}

/* ---- forward --------------------------------------------------------------------------------- */

template <class T> FN void attend(const zt_cu_sdpa_args &a, WIDE(T) *room)
{
    typedef WIDE(T) F;
    int64_t i0 = (int64_t)block() * ROWS, head = block_y() % a.h, batch = block_y() / a.h, lo, hi;
    int64_t shared = head / (a.h / a.g), n = keys_of(a, batch, (batch * a.h + head) * a.s + i0);
    F *q = room, *k = q + ROWS * (a.d + 1), *v = k + TILE * (a.d + 1);
    F acc[EACH][PARTS] = {{0}}, top[EACH], sum[EACH];
    for (int r = 0; r < EACH; r++) top[r] = -INFINITY, sum[r] = 0;
    bring<T>(a.q, batch, head, i0, ROWS, a.s, a.d, q);
    range_of(a, n, i0, &lo, &hi);
    for (int64_t j0 = lo / TILE * TILE; j0 < hi; j0 += TILE) {
        barrier();
        bring<T>(a.k, batch, shared, j0, TILE, a.t, a.d, k);
        bring<T>(a.v, batch, shared, j0, TILE, a.t, a.dv_cols, v);
        barrier();
        for (int r = 0; r < EACH; r++) {
            int row = warp() * EACH + r;
            F unused, s = score_of<T>(a, batch, head, i0 + row, j0 + lane(), n,
                                      q + row * (a.d + 1), k + lane() * (a.d + 1), &unused);
            F high = warp_max(s), was = top[r];
            if (high == -INFINITY) continue;
            if (high > was || high != high) top[r] = high;
            F p = s == -INFINITY ? 0 : exp_of(s - top[r]);
            F shrink = was == top[r] ? 1 : exp_of(was - top[r]);
            sum[r] = sum[r] * shrink + warp_sum(p);
            for (int c = 0; c < PARTS; c++) acc[r][c] *= shrink;
            for (int j = 0; j < TILE; j++) {
                F by = shuffle(p, j), its = shuffle(s, j);
                for (int c = 0; c < PARTS; c++)
                    if (its != -INFINITY && c * 32 + lane() < a.dv_cols)
                        acc[r][c] = fma_of(by, v[j * (a.dv_cols + 1) + c * 32 + lane()], acc[r][c]);
            }
        }
    }
    for (int r = 0; r < EACH; r++) {
        int64_t i = i0 + warp() * EACH + r;
        if (i >= a.s) continue;
        bool none = top[r] == -INFINITY;
        T *y = PTR(T, a.y.at) + batch * a.y.batch + head * a.y.head + i * a.y.row;
        for (int c = 0; c < PARTS; c++)
            if (c * 32 + lane() < a.dv_cols)
                y[c * 32 + lane()] = put<T>(none ? 0 : acc[r][c] / sum[r]);
        if (a.lse && lane() == 0)
            PTR(F, a.lse)
            [(batch * a.h + head) * a.s + i] = none ? top[r] : top[r] + log_of(sum[r]);
    }
}

/* ---- gradient -------------------------------------------------------------------------------- */

/* Of a pair: its weight, and the gradient of q.k. */
template <class T>
FN WIDE(T) pair_of(const zt_cu_sdpa_args &a, int64_t batch, int64_t head, int64_t i, int64_t j,
                   int64_t n, const WIDE(T) *q, const WIDE(T) *k, const WIDE(T) *dy,
                   const WIDE(T) *v, WIDE(T) *p)
{
    typedef WIDE(T) F;
    F before, s = score_of<T>(a, batch, head, i, j, n, q, k, &before), cap = (F)a.softcap;
    *p = 0;
    if (s == -INFINITY) return 0;
    int64_t at = (batch * a.h + head) * a.s + i;
    *p = exp_of(s - PTR(const F, a.lse)[at]);
    F ds = *p * (dot(dy, v, a.dv_cols) - PTR(const F, a.delta)[at]) * (F)a.scale;
    if (cap > 0) ds *= 1 - before / cap * (before / cap);
    return ds;
}

/* The lanes' numbers times rows of shared memory, added up by columns. */
template <class F> FN void add_rows(F by, const F *rows, int64_t cols, F acc[PARTS])
{
    for (int j = 0; j < TILE; j++) {
        F its = shuffle(by, j);
        for (int c = 0; c < PARTS; c++)
            if (its != 0 && c * 32 + lane() < cols)
                acc[c] = fma_of(its, rows[j * (cols + 1) + c * 32 + lane()], acc[c]);
    }
}

template <class T>
FN void store_row(const zt_cu_rows &r, int64_t batch, int64_t head, int64_t i, int64_t cols,
                  const WIDE(T) acc[PARTS])
{
    T *to = PTR(T, r.at) + batch * r.batch + head * r.head + i * r.row;
    for (int c = 0; c < PARTS; c++)
        if (c * 32 + lane() < cols) to[c * 32 + lane()] = put<T>(acc[c]);
}

template <class T> FN void back_queries(const zt_cu_sdpa_args &a, WIDE(T) *room)
{
    typedef WIDE(T) F;
    int64_t i0 = (int64_t)block() * ROWS, head = block_y() % a.h, batch = block_y() / a.h, lo, hi;
    int64_t shared = head / (a.h / a.g), n = keys_of(a, batch, (batch * a.h + head) * a.s + i0);
    int64_t d = a.d + 1, dv = a.dv_cols + 1;
    F *q = room, *dy = q + ROWS * d, *k = dy + ROWS * dv, *v = k + TILE * d;
    F acc[EACH][PARTS] = {{0}};
    bring<T>(a.q, batch, head, i0, ROWS, a.s, a.d, q);
    bring<T>(a.y, batch, head, i0, ROWS, a.s, a.dv_cols, dy);
    range_of(a, n, i0, &lo, &hi);
    for (int64_t j0 = lo / TILE * TILE; j0 < hi; j0 += TILE) {
        barrier();
        bring<T>(a.k, batch, shared, j0, TILE, a.t, a.d, k);
        bring<T>(a.v, batch, shared, j0, TILE, a.t, a.dv_cols, v);
        barrier();
        for (int r = 0; r < EACH; r++) {
            int row = warp() * EACH + r;
            F p, ds = pair_of<T>(a, batch, head, i0 + row, j0 + lane(), n, q + row * d,
                                     k + lane() * d, dy + row * dv, v + lane() * dv, &p);
            add_rows(ds, k, a.d, acc[r]);
        }
    }
    for (int r = 0; r < EACH; r++)
        if (i0 + warp() * EACH + r < a.s)
            store_row<T>(a.dq, batch, head, i0 + warp() * EACH + r, a.d, acc[r]);
}

/* Of ROWS keys: over all queries of all heads that share them. */
template <class T> FN void back_keys(const zt_cu_sdpa_args &a, WIDE(T) *room)
{
    typedef WIDE(T) F;
    int64_t j0 = (int64_t)block() * ROWS, shared = block_y() % a.g, batch = block_y() / a.g;
    int64_t n = keys_of(a, batch, batch * a.h * a.s), d = a.d + 1, dv = a.dv_cols + 1;
    F *k = room, *v = k + ROWS * d, *q = v + ROWS * dv, *dy = q + TILE * d;
    F dk[EACH][PARTS] = {{0}}, dvs[EACH][PARTS] = {{0}};
    bring<T>(a.k, batch, shared, j0, ROWS, a.t, a.d, k);
    bring<T>(a.v, batch, shared, j0, ROWS, a.t, a.dv_cols, v);
    for (int64_t x = 0; x < a.h / a.g * ((a.s + TILE - 1) / TILE); x++) {
        int64_t head = shared * (a.h / a.g) + x / ((a.s + TILE - 1) / TILE);
        int64_t i0 = x % ((a.s + TILE - 1) / TILE) * TILE;
        barrier();
        bring<T>(a.q, batch, head, i0, TILE, a.s, a.d, q);
        bring<T>(a.y, batch, head, i0, TILE, a.s, a.dv_cols, dy);
        barrier();
        for (int r = 0; r < EACH; r++) {
            int row = warp() * EACH + r;
            F p, ds = pair_of<T>(a, batch, head, i0 + lane(), j0 + row, n, q + lane() * d,
                                     k + row * d, dy + lane() * dv, v + row * dv, &p);
            add_rows(ds, q, a.d, dk[r]);
            add_rows(p, dy, a.dv_cols, dvs[r]);
        }
    }
    for (int r = 0; r < EACH; r++) {
        int64_t j = j0 + warp() * EACH + r;
        if (j >= a.t) continue;
        if (a.dk.at) store_row<T>(a.dk, batch, shared, j, a.d, dk[r]);
        if (a.dv.at) store_row<T>(a.dv, batch, shared, j, a.dv_cols, dvs[r]);
    }
}

#define SDPA(name, number)                                                                         \
    KERNEL_OF(zt_sdpa_##name, zt_cu_sdpa_args, 32 * WARPS)                                         \
    {                                                                                              \
        DYNAMIC_SHARED(wide<number>::type, room);                                                  \
        attend<number>(a, room);                                                                   \
    }                                                                                              \
    KERNEL_OF(zt_sdpa_queries_##name, zt_cu_sdpa_args, 32 * WARPS)                                 \
    {                                                                                              \
        DYNAMIC_SHARED(wide<number>::type, room);                                                  \
        back_queries<number>(a, room);                                                             \
    }                                                                                              \
    KERNEL_OF(zt_sdpa_keys_##name, zt_cu_sdpa_args, 32 * WARPS)                                    \
    {                                                                                              \
        DYNAMIC_SHARED(wide<number>::type, room);                                                  \
        back_keys<number>(a, room);                                                                \
    }
SDPA(f32, float)
SDPA(f16, f16)
SDPA(bf16, bf16)
SDPA(f64, double)
