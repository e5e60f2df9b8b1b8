/* sdpa.cl - dense attention with masks and windows, and its gradient; never all scores at once.
 *
 * A work-group takes ROWS rows of one head, one after the other, and goes over the others by as many as it has work-items: each
 * a score, then each the columns thread, thread + THREADS of what is summed. All sums have one order; nothing is added
 * atomically.
 */
#include "lib/engine/opencl/prim.clh"
#include "lib/engine/cuda/args_nn.h"

enum { ROWS = 16, THREADS = 128, COLUMNS = ZT_CU_SDPA_MOST / THREADS };

/* ---- which keys there are ----------------------------------------------------------------------- */

/* Keys of a batch that there are; a length out of range is trouble, and none. */
FN int64_t keys_of(const zt_cu_sdpa_args *a, int64_t batch, int64_t order)
{
    const int64_t n = a->len ? PTR(const int32_t, a->len)[batch] : a->t;
    if (n >= 0 && n <= a->t) return n;
    if (thread() == 0) trouble(a->trouble, ZT_CU_LENGTH, order, n, a->t + 1);
    return 0;
}

FN int64_t at_row(const zt_cu_rows *r, int64_t batch, int64_t head, int64_t row)
{
    return batch * r->batch + head * r->head + row * r->row;
}

FN float dot(int type, const zt_cu_rows *a, int64_t at_a, const zt_cu_rows *b, int64_t at_b, int64_t n)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum = fma(get(type, a->at, at_a + i), get(type, b->at, at_b + i), sum);
    return sum;
}

/* May query i see key j of n? */
FN bool sees(const zt_cu_sdpa_args *a, int64_t n, int64_t i, int64_t j)
{
    const int64_t pos = i + a->offset + (a->end ? n - a->s : 0);
    return j < n && (a->right < 0 || j <= pos + a->right) && (a->left < 0 || j >= pos - a->left);
}

/* The score of a query and a key, -inf where it is not seen; `before`: before the mask. */
FN float score_of(int type, const zt_cu_sdpa_args *a, int64_t batch, int64_t head, int64_t i, int64_t j, int64_t n, float *before)
{
    const int64_t shared = head / (a->h / a->g);
    const float cap = number(a->softcap);
    *before = 0;
    if (i >= a->s || !sees(a, n, i, j)) return -INFINITY;
    float s = dot(type, &a->q, at_row(&a->q, batch, head, i), &a->k, at_row(&a->k, batch, shared, j), a->d) * number(a->scale);
    if (cap > 0) s = cap * tanh(s / cap);
    *before = s;
    if (!a->mask) return s;
    const int64_t at = batch * a->mask_step[0] + head * a->mask_step[1] + i * a->mask_step[2] + j * a->mask_step[3];
    if (a->mask_bool) return PTR(const uint8_t, a->mask)[at] ? s : -INFINITY;
    const float more = get(type, a->mask, at);
    return more == -INFINITY ? more : s + more;
}

/* The first key that query i may see, and past the last. */
FN void range_of(const zt_cu_sdpa_args *a, int64_t n, int64_t i, int64_t *lo, int64_t *hi)
{
    const int64_t pos = i + a->offset + (a->end ? n - a->s : 0);
    *lo = a->left >= 0 && pos - a->left > 0 ? pos - a->left : 0;
    *hi = a->right >= 0 && pos + a->right + 1 < n ? pos + a->right + 1 : n;
}

/* acc[c] of the work-item's columns += the sum over j of by[j] rows[from + j]. */
FN void add_rows(int type, const zt_cu_rows *rows, int64_t batch, int64_t head, int64_t from, int64_t count, int64_t cols,
                 __local const float *by, float acc[COLUMNS])
{
    for (int c = 0; c < COLUMNS; c++) {
        const int64_t column = thread() + c * THREADS;
        if (column >= cols) continue;
        for (int64_t j = 0; j < count; j++)
            if (by[j] != 0) acc[c] = fma(by[j], get(type, rows->at, at_row(rows, batch, head, from + j) + column), acc[c]);
    }
}

FN void store_row(int type, const zt_cu_rows *r, int64_t batch, int64_t head, int64_t i, int64_t cols, float by,
                  const float acc[COLUMNS])
{
    for (int c = 0; c < COLUMNS; c++) {
        const int64_t column = thread() + c * THREADS;
        if (column < cols) put(type, r->at, at_row(r, batch, head, i) + column, acc[c] * by);
    }
}

/* ---- forward ------------------------------------------------------------------------------------ */

FN void attend_row(int type, const zt_cu_sdpa_args *a, int64_t batch, int64_t head, int64_t i, int64_t n, __local float *room,
                   __local float *weight)
{
    float acc[COLUMNS] = {0, 0}, top = -INFINITY, sum = 0, unused;
    int64_t lo, hi;
    range_of(a, n, i, &lo, &hi);
    for (int64_t j0 = lo / THREADS * THREADS; j0 < hi; j0 += THREADS) {
        const float s = score_of(type, a, batch, head, i, j0 + thread(), n, &unused), high = group_max(s, room), was = top;
        const bool none = high == -INFINITY;
        if (!none && (high > was || high != high)) top = high;
        const float p = none || s == -INFINITY ? 0 : exp(s - top), shrink = none || was == top ? 1 : exp(was - top);
        weight[thread()] = p;
        sum = sum * shrink + group_sum(p, room);
        for (int c = 0; c < COLUMNS; c++) acc[c] *= shrink;
        add_rows(type, &a->v, batch, head / (a->h / a->g), j0, a->t - j0 < THREADS ? a->t - j0 : THREADS, a->dv_cols, weight, acc);
        meet();
    }
    const bool none = top == -INFINITY;
    for (int c = 0; c < COLUMNS; c++) acc[c] = none ? 0 : acc[c] / sum;
    store_row(type, &a->y, batch, head, i, a->dv_cols, 1, acc);
    if (a->lse && thread() == 0) PTR(float, a->lse)[(batch * a->h + head) * a->s + i] = none ? top : top + log(sum);
}

FN void attend(int type, const zt_cu_sdpa_args *a, __local float *room, __local float *weight)
{
    const int64_t i0 = (int64_t)block() * ROWS, head = block_y() % a->h, batch = block_y() / a->h;
    const int64_t n = keys_of(a, batch, (batch * a->h + head) * a->s + i0);
    for (int64_t i = i0; i < i0 + ROWS && i < a->s; i++) attend_row(type, a, batch, head, i, n, room, weight);
}

/* ---- gradient ----------------------------------------------------------------------------------- */

/* Of a pair: its weight, and the gradient of q.k. */
FN float pair_of(int type, const zt_cu_sdpa_args *a, int64_t batch, int64_t head, int64_t i, int64_t j, int64_t n, float *p)
{
    float before, s = score_of(type, a, batch, head, i, j, n, &before), cap = number(a->softcap);
    const int64_t at = (batch * a->h + head) * a->s + i, shared = head / (a->h / a->g);
    *p = 0;
    if (s == -INFINITY) return 0;
    *p = exp(s - PTR(const float, a->lse)[at]);
    const float dp = dot(type, &a->y, at_row(&a->y, batch, head, i), &a->v, at_row(&a->v, batch, shared, j), a->dv_cols);
    const float ds = *p * (dp - PTR(const float, a->delta)[at]) * number(a->scale);
    return cap > 0 ? ds * (1 - before / cap * (before / cap)) : ds;
}

FN void back_queries(int type, const zt_cu_sdpa_args *a, __local float *slope, __local float *unused)
{
    const int64_t i0 = (int64_t)block() * ROWS, head = block_y() % a->h, batch = block_y() / a->h, shared = head / (a->h / a->g);
    const int64_t n = keys_of(a, batch, (batch * a->h + head) * a->s + i0);
    for (int64_t i = i0; i < i0 + ROWS && i < a->s; i++) {
        float acc[COLUMNS] = {0, 0}, p;
        int64_t lo, hi;
        range_of(a, n, i, &lo, &hi);
        for (int64_t j0 = lo / THREADS * THREADS; j0 < hi; j0 += THREADS) {
            slope[thread()] = pair_of(type, a, batch, head, i, j0 + thread(), n, &p);
            meet();
            add_rows(type, &a->k, batch, shared, j0, a->t - j0 < THREADS ? a->t - j0 : THREADS, a->d, slope, acc);
            meet();
        }
        store_row(type, &a->dq, batch, head, i, a->d, 1, acc);
    }
}

/* Of ROWS keys: over all queries of all heads that share them. */
FN void back_keys(int type, const zt_cu_sdpa_args *a, __local float *slope, __local float *weight)
{
    const int64_t j0 = (int64_t)block() * ROWS, shared = block_y() % a->g, batch = block_y() / a->g, each = a->h / a->g;
    const int64_t n = keys_of(a, batch, batch * a->h * a->s);
    for (int64_t j = j0; j < j0 + ROWS && j < a->t; j++) {
        float dk[COLUMNS] = {0, 0}, dv[COLUMNS] = {0, 0};
        for (int64_t head = shared * each; head < (shared + 1) * each; head++)
            for (int64_t i0 = 0; i0 < a->s; i0 += THREADS) {
                const int64_t count = a->s - i0 < THREADS ? a->s - i0 : THREADS;
                float p;
                slope[thread()] = pair_of(type, a, batch, head, i0 + thread(), j, n, &p);
                weight[thread()] = p;
                meet();
                add_rows(type, &a->q, batch, head, i0, count, a->d, slope, dk);
                add_rows(type, &a->y, batch, head, i0, count, a->dv_cols, weight, dv);
                meet();
            }
        if (a->dk.at) store_row(type, &a->dk, batch, shared, j, a->d, 1, dk);
        if (a->dv.at) store_row(type, &a->dv, batch, shared, j, a->dv_cols, 1, dv);
    }
}

#define SDPA(name, type, work)                                                                                                   \
    KERNEL(name, zt_cu_sdpa_args)                                                                                                \
    {                                                                                                                            \
        __local float room[THREADS], more[THREADS];                                                                              \
        work(type, &a, room, more);                                                                                              \
    }
SDPA(zt_sdpa_f32, ZT_CU_F32, attend)
SDPA(zt_sdpa_f16, ZT_CU_F16, attend)
SDPA(zt_sdpa_bf16, ZT_CU_BF16, attend)
SDPA(zt_sdpa_queries_f32, ZT_CU_F32, back_queries)
SDPA(zt_sdpa_queries_f16, ZT_CU_F16, back_queries)
SDPA(zt_sdpa_queries_bf16, ZT_CU_BF16, back_queries)
SDPA(zt_sdpa_keys_f32, ZT_CU_F32, back_keys)
SDPA(zt_sdpa_keys_f16, ZT_CU_F16, back_keys)
SDPA(zt_sdpa_keys_bf16, ZT_CU_BF16, back_keys)
