/* attention_prefill.cuh - attention of many rows: a warp has 16 rows of tokens by heads, its block all
 * keys that any of its tokens sees, which all its warps read.
 *
 * A block's tokens go by runs of one sequence. For rows that do not see a key its weight is 0: a
 * state stays as it is; values there that are no numbers are kept from them (mend).
 */
#ifndef ZT_CU_ATTENTION_PREFILL_H
#define ZT_CU_ATTENTION_PREFILL_H

#include "lib/engine/cuda/attention_mma.cuh"

template <int D, int WARPS> struct alignas(16) prefill_room {
    uint16_t keys[TILE * D], values[TILE * D];
    float total[D / 8 + 1][4][WARPS * 32]; /* of all splits so far; each thread has its own */
    uint32_t q[D > 128 ? WARPS * D * 16 : 4]; /* operands A that do not fit into registers */
    crowd tokens;
    uint32_t mends; /* has the tile values that are no numbers */
};

/* What a block has to do. */
typedef struct prefill_task {
    int64_t token, head, column; /* the first */
    int tokens, heads;
    bool tells;
} prefill_task;

/* What a lane has: its rows lane / 4 and 8 more. */
typedef struct prefill_rows_of {
    query q;
    int token[2], head[2]; /* of the block's; token -1: none */
    int32_t first[2], last[2]; /* seen in this run; last < 0: nothing */
    float top[2], all_top[2];
} prefill_rows_of;

FN prefill_task prefill_task_of(const zt_cu_attention_args &a, int rows)
{
    prefill_task w;
    int64_t R = a.H / a.G, groups = (R + 15) / 16, each = R < 16 ? R : 16, most = rows / each;
    int64_t from = block_y() % groups * 16;
    w.token = (blocks() - 1 - block()) * most; /* those that see most begin */
    w.tokens = a.n - w.token < most ? (int)(a.n - w.token) : (int)most;
    w.head = block_y() / groups * R + from;
    w.heads = R - from < 16 ? (int)(R - from) : 16;
    w.column = block_y() / groups * a.D;
    w.tells = block_y() == 0;
    return w;
}

FN void gather_crowd(const zt_cu_attention_args &a, const prefill_task &w, crowd *c)
{
    for (int t = thread(); t < w.tokens; t += threads()) {
        int64_t row = w.token + t;
        int32_t last = PTR(const int32_t, a.slots.pos)[row];
        bool good = slot_of(a.slots, row, last, w.tells ? a.trouble : 0, row << 32) >= 0;
        c->last[t] = good ? last : -1;
        c->first[t] = good ? (int32_t)first_of(a, last) : 0;
        c->seq[t] = a.slots.seq ? PTR(const int32_t, a.slots.seq)[row] : 0;
        c->bad[t] = !good;
    }
}

/* The run that begins at token `from`; free: the positions that all tokens of the block see. */
FN run run_from(const prefill_task &w, const crowd *c, int from, int64_t free[2])
{
    run r = {from, w.tokens, w.token + from, 0, -1};
    int lo = INT32_MAX, hi = -1, all_lo = 0, all_hi = INT32_MAX;
    for (int h = 1; h >= 0; h--) {
        int t = lane() + 32 * h;
        uint32_t other = vote(t > from && t < w.tokens && c->seq[t] != c->seq[from]);
        for (int k = 31; k >= 0; k--)
            if (other >> k & 1) r.to = 32 * h + k;
    }
    for (int t = lane(); t < w.tokens; t += 32) {
        bool in = t >= from && t < r.to;
        if (c->last[t] < 0) continue;
        if (!in) all_hi = -1;
        if (!in) continue;
        lo = c->first[t] < lo ? c->first[t] : lo;
        hi = c->last[t] > hi ? c->last[t] : hi;
        all_lo = c->first[t] > all_lo ? c->first[t] : all_lo;
        all_hi = c->last[t] < all_hi ? c->last[t] : all_hi;
    }
    r.lo = warp_min(lo);
    r.hi = warp_max(hi);
    free[0] = warp_max(all_lo);
    free[1] = warp_min(all_hi);
    return r;
}

FN void set_rows(const zt_cu_attention_args &a, const prefill_task &w, prefill_rows_of *m)
{
    int64_t R = a.H / a.G;
    int each = R < 16 ? (int)R : 16;
    for (int h = 0; h < 2; h++) {
        int at = warp() * 16 + lane() / 4 + 8 * h;
        m->token[h] = at / each;
        m->head[h] = at % each;
        if (m->token[h] >= w.tokens || m->head[h] >= w.heads) m->token[h] = -1;
        m->q.from[h] = m->token[h] < 0 ? 0
                                       : PTR(const float, a.q) +
                                             ((w.token + m->token[h]) * a.H + w.head + m->head[h]) *
                                                 a.D;
        m->top[h] = m->all_top[h] = -INFINITY;
    }
    weigh_query(a, &m->q);
}

/* Scores with the linear biases of their heads. */
FN void add_biases(const zt_cu_attention_args &a, const prefill_task &w, int64_t p0, const prefill_rows_of &m, float s[8][4])
{
    UNROLL
    for (int h = 0; h < 2; h++) {
        if (m.token[h] < 0) continue;
        const linear_bias bias = bias_of(a, w.token + m.token[h], w.head + m.head[h]);
        UNROLL
        for (int i = 0; i < 8; i++) UNROLL
        for (int c = 0; c < 2; c++)
            s[i][2 * h + c] = with_bias(bias, p0 + i * 8 + lane() % 4 * 2 + c, s[i][2 * h + c]);
    }
}

/* Products to weights under the highest score so far; shrink: what that makes of older ones. */
FN void soften(const zt_cu_attention_args &a, const prefill_task &w, int64_t p0, prefill_rows_of *m,
               float s[8][4], float shrink[2])
{
    float most[2] = {-INFINITY, -INFINITY};
    UNROLL
    for (int i = 0; i < 8; i++) UNROLL
    for (int c = 0; c < 4; c++) s[i][c] *= m->q.scale[c / 2];
    UNROLL
    for (int i = 0; a.softcap > 0 && i < 8; i++) UNROLL
    for (int c = 0; c < 4; c++) s[i][c] = capped(a, s[i][c]);
    if (a.slopes) add_biases(a, w, p0, *m, s);
    UNROLL
    for (int i = 0; i < 8; i++) UNROLL
    for (int c = 0; c < 4; c++) {
        int32_t p = (int32_t)p0 + i * 8 + lane() % 4 * 2 + c % 2;
        bool seen = p >= m->first[c / 2] && p <= m->last[c / 2];
        if (!seen) s[i][c] = -INFINITY;
        most[c / 2] = fmaxf(most[c / 2], s[i][c]);
    }
    for (int h = 0; h < 2; h++) {
        most[h] = fmaxf(most[h], shuffle_xor(most[h], 1));
        most[h] = fmaxf(most[h], shuffle_xor(most[h], 2));
        float was = m->top[h];
        m->top[h] = fmaxf(was, most[h]);
        shrink[h] = was == m->top[h] ? 1.0f : expf(was - m->top[h]);
    }
    UNROLL
    for (int i = 0; i < 8; i++) UNROLL
    for (int c = 0; c < 4; c++) s[i][c] = weight_of(s[i][c], m->top[c / 2]);
}

/* Operands A of the weights that a lane holds. */
struct weighed {
    uint32_t w[TILE / 16][2][4];
    FN_MEMBER void get(int ks, int part, uint32_t x[4]) const
    {
        for (int i = 0; i < 4; i++) x[i] = w[ks][part][i];
    }
};

FN void weighed_of(const float s[8][4], weighed *p)
{
    UNROLL
    for (int ks = 0; ks < TILE / 16; ks++) UNROLL
    for (int i = 0; i < 4; i++)
        split_pair(s[ks * 2 + i / 2][i % 2 * 2], s[ks * 2 + i / 2][i % 2 * 2 + 1], &p->w[ks][0][i],
                   &p->w[ks][1][i]);
}

/* ---- values that are no numbers -------------------------------------------------------------- */

FN bool is_odd(uint16_t bits) { return (bits & 0x7c00) == 0x7c00; }

/* Of a tile that not all rows see whole. 0 times infinity is NaN, so what is no number is taken out
 * for all, and added (by whatever weight: it comes to NaN) to those who see it. */
template <int D, int WARPS>
FN void mend(int64_t p0, const prefill_rows_of *m, prefill_room<D, WARPS> *r, float acc[D / 8 + 1][4])
{
    if (thread() == 0) r->mends = 0;
    barrier();
    for (int i = thread(); i < TILE * D; i += 32 * WARPS)
        if (is_odd(r->values[i])) atomic_max(&r->mends, 1u);
    barrier();
    if (!r->mends) return;
    ROLLED
    for (int key = 0; key < TILE; key++) UNROLL
    for (int i = 0; i < D / 8; i++)
        for (int c = 0; c < 4; c++) {
            uint16_t bits = chunk_of(r->values, D, key, i)[lane() % 4 * 2 + c % 2];
            bool seen = p0 + key >= m->first[c / 2] && p0 + key <= m->last[c / 2];
            if (seen && is_odd(bits)) acc[i][c] += get(f16{bits});
        }
    barrier();
    for (int i = thread(); i < TILE * D; i += 32 * WARPS)
        if (is_odd(r->values[i])) r->values[i] = 0;
    barrier();
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* The split is done: to the total, as zt_attention_join does it. */
template <int D, int WARPS>
FN void join_split(prefill_rows_of *m, prefill_room<D, WARPS> *r, float acc[D / 8 + 1][4])
{
    float old[2], fresh[2], unused = 0;
    for (int h = 0; h < 2; h++) {
        bool any = m->top[h] != -INFINITY;
        join_by(&m->all_top[h], &unused, m->top[h], 0, &old[h], &fresh[h]);
        if (!any) old[h] = 1, fresh[h] = 0;
        m->top[h] = -INFINITY;
    }
    UNROLL
    for (int i = 0; i <= D / 8; i++) UNROLL
    for (int c = 0; c < 4; c++) {
        float *total = &r->total[i][c][thread()];
        *total = fmaf(acc[i][c], fresh[c / 2], *total * old[c / 2]);
        acc[i][c] = 0;
    }
}

template <int D, int WARPS>
FN void add_tile(const float s[8][4], const float shrink[2], prefill_room<D, WARPS> *r,
                 float acc[D / 8 + 1][4])
{
    weighed p;
    weighed_of(s, &p);
    UNROLL
    for (int i = 0; i <= D / 8; i++) UNROLL
    for (int c = 0; c < 4; c++) acc[i][c] *= shrink[c / 2];
    UNROLL
    for (int i = 0; i < D / 8; i += 4) sums_of<D, 4>(p, r->values, i, 1, acc + i);
    sums_of<D, 1>(p, r->values, D / 8, 1, acc + D / 8);
}

template <int D, int WARPS, class Q>
FN void walk_run(const zt_cu_attention_args &a, const prefill_task &w, const run &t,
                 const int64_t free[2], const Q &q, prefill_rows_of *m, prefill_room<D, WARPS> *r,
                 float acc[D / 8 + 1][4])
{
    int64_t end = t.hi / TILE;
    uint32_t busy = 0;
    barrier();
    bring<D, WARPS>(a, a.k, w.column, t, &r->tokens, t.lo / TILE * TILE, w.tells, r->keys);
    copy_commit();
    ROLLED
    for (int64_t j = t.lo / TILE; j <= end; j++) {
        int64_t p0 = j * TILE;
        float s[8][4], shrink[2];
        bring<D, WARPS>(a, a.v, w.column, t, &r->tokens, p0, 0, r->values);
        copy_commit();
        copy_wait<1>();
        barrier();
        busy = vote((m->last[0] >= p0 && m->first[0] < p0 + TILE) ||
                    (m->last[1] >= p0 && m->first[1] < p0 + TILE));
        if (busy) {
            products_of<D, 4>(q, r->keys, 0, 1, s);
            products_of<D, 4>(q, r->keys, 4, 1, s + 4);
        }
        barrier();
        if (j < end)
            bring<D, WARPS>(a, a.k, w.column, t, &r->tokens, p0 + TILE, w.tells, r->keys);
        copy_commit();
        if (busy) soften(a, w, p0, m, s, shrink);
        copy_wait<1>();
        barrier();
        if (p0 < free[0] || p0 + TILE - 1 > free[1]) mend<D, WARPS>(p0, m, r, acc);
        if (busy) add_tile<D, WARPS>(s, shrink, r, acc);
        if (j == end || (p0 + TILE) % SPLIT == 0) join_split<D, WARPS>(m, r, acc);
        barrier();
    }
}

template <int D, int WARPS, class Q>
FN void walk_runs(const zt_cu_attention_args &a, const prefill_task &w, const Q &q, prefill_rows_of *m,
                  prefill_room<D, WARPS> *r)
{
    float acc[D / 8 + 1][4];
    for (int i = 0; i <= D / 8; i++)
        for (int c = 0; c < 4; c++) acc[i][c] = r->total[i][c][thread()] = 0;
    for (int from = 0; from < w.tokens;) {
        int64_t free[2];
        run t = run_from(w, &r->tokens, from, free);
        for (int h = 0; h < 2; h++) {
            bool in = m->token[h] >= t.from && m->token[h] < t.to;
            m->first[h] = in ? r->tokens.first[m->token[h]] : 0;
            m->last[h] = in ? r->tokens.last[m->token[h]] : -1;
        }
        if (t.hi >= 0) walk_run<D, WARPS>(a, w, t, free, q, m, r, acc);
        from = t.to;
    }
}

template <int D, int WARPS>
FN void prefill_store(const zt_cu_attention_args &a, const prefill_task &w, const prefill_rows_of *m,
                   const prefill_room<D, WARPS> *r)
{
    for (int i = 0; i < D / 8; i++)
        for (int c = 0; c < 4; c++) {
            int h = c / 2, d = i * 8 + lane() % 4 * 2 + c % 2;
            if (m->token[h] < 0 || d >= a.D) continue;
            int64_t head = w.head + m->head[h], at = (w.token + m->token[h]) * a.H + head;
            float sum = r->total[D / 8][2 * h][thread()];
            float y = mean_of(a, head, m->all_top[h], r->total[i][c][thread()], sum);
            PTR(float, a.y)[at * a.D + d] = r->tokens.bad[m->token[h]] ? 0 : y;
        }
}

template <int D, int WARPS>
FN void prefill_rows(const zt_cu_attention_args &a, prefill_room<D, WARPS> *r)
{
    prefill_task w = prefill_task_of(a, 16 * WARPS);
    prefill_rows_of m;
    gather_crowd(a, w, &r->tokens);
    set_rows(a, w, &m);
    barrier();
    if constexpr (D > 128) {
        uint32_t *mine = r->q + warp() * D * 16;
        for (int ks = 0; ks < D / 16; ks++) park(a, m.q, ks, mine);
        const parked q = {mine};
        warp_barrier();
        walk_runs<D, WARPS>(a, w, q, &m, r);
    } else {
        held<D> q;
        UNROLL
        for (int ks = 0; ks < D / 16; ks++) query_step(a, m.q, ks, q.w[ks][0], q.w[ks][1]);
        walk_runs<D, WARPS>(a, w, q, &m, r);
    }
    barrier();
    prefill_store<D, WARPS>(a, w, &m, r);
}

#endif
