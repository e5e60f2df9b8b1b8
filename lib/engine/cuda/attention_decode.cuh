/* attention_decode.cuh - attention of one row over one split of the keys, by all warps of a block
 * together: each takes some of the keys, then some of the columns. A kernel of its own in
 * attention_mma.cu; whoever has a block with the room for it may call it.
 */
#ifndef ZT_CU_ATTENTION_DECODE_H
#define ZT_CU_ATTENTION_DECODE_H

#include "lib/engine/cuda/attention_mma.cuh"

template <int D> struct alignas(16) decode_room {
    uint32_t q[D / 16 * 2 * 32 * 4];
    uint16_t keys[2][TILE * D], values[2][TILE * D];
    float score[16][TILE + 4];
    uint16_t weight[2][16][TILE + 8]; /* as two numbers each */
    float top[16], shrink[16], sum[16];
    crowd tokens; /* one */
};

/* Up to 16 heads of a key head, and what the row sees of the split. */
typedef struct decode_task {
    int64_t row, head, column, split, first, last;
    int heads;
    bool any; /* does it see anything of the split */
} decode_task;

FN decode_task decode_task_of(const zt_cu_attention_args &a, int64_t row, int64_t group, int64_t split)
{
    decode_task w;
    int64_t R = a.H / a.G, groups = (R + 15) / 16, from = group % groups * 16;
    w.row = row;
    w.split = split;
    w.head = group / groups * R + from;
    w.heads = R - from < 16 ? (int)(R - from) : 16;
    w.column = group / groups * a.D;
    w.last = PTR(const int32_t, a.slots.pos)[row];
    w.first = first_of(a, w.last);
    w.any = w.last >= 0 && w.last < a.slots.ctx && split >= w.first / SPLIT &&
            split <= w.last / SPLIT;
    return w;
}

/* The row's operands A, parked, and what gives scores. */
template <int D, int WARPS>
FN query decode_query(const zt_cu_attention_args &a, const decode_task &w, decode_room<D> *r)
{
    query q;
    for (int h = 0; h < 2; h++) {
        int64_t head = lane() / 4 + 8 * h;
        q.from[h] =
            head < w.heads ? PTR(const float, a.q) + (w.row * a.H + w.head + head) * a.D : 0;
    }
    weigh_query(a, &q);
    for (int ks = warp(); ks < D / 16; ks += WARPS) park(a, q, ks, r->q);
    return q;
}

/* Scores of the tile at p0. */
template <int D, int WARPS>
FN void decode_scores(const zt_cu_attention_args &a, const decode_task &w, const query &q, int64_t p0,
                   uint16_t *keys, decode_room<D> *r)
{
    enum { N = 8 / WARPS };
    const parked all = {r->q};
    float s[N][4];
    products_of<D, N>(all, keys, warp(), WARPS, s);
    for (int i = 0; i < N; i++)
        for (int c = 0; c < 4; c++) {
            int key = (warp() + i * WARPS) * 8 + lane() % 4 * 2 + c % 2;
            bool seen = p0 + key >= w.first && p0 + key <= w.last;
            float score = s[i][c] * q.scale[c / 2];
            if (a.softcap > 0) score = capped(a, score);
            r->score[lane() / 4 + c / 2 * 8][key] = seen ? score : -INFINITY;
        }
    if (!a.slopes) return;
    ROLLED
    for (int i = 0; i < 4 * N; i++) { /* those that the lane wrote */
        const int head = lane() / 4 + i % 4 / 2 * 8, key = (warp() + i / 4 * WARPS) * 8 + lane() % 4 * 2 + i % 2;
        if (head < w.heads) r->score[head][key] = with_bias(bias_of(a, w.row, w.head + head), p0 + key, r->score[head][key]);
    }
}

/* Weights under the highest score so far, top[i] of row warp + i WARPS. */
template <int D, int WARPS> FN void decode_weights(decode_room<D> *r, float top[16 / WARPS])
{
    for (int i = 0; i < 16 / WARPS; i++) {
        int row = warp() + i * WARPS;
        float one = r->score[row][lane()], two = r->score[row][lane() + 32];
        float most = fmaxf(one, two), was = top[i];
        for (int m = 16; m; m >>= 1) most = fmaxf(most, shuffle_xor(most, m));
        top[i] = fmaxf(was, most);
        uint32_t high, low;
        split_pair(weight_of(one, top[i]), weight_of(two, top[i]), &high, &low);
        r->weight[0][row][lane()] = (uint16_t)high;
        r->weight[0][row][lane() + 32] = (uint16_t)(high >> 16);
        r->weight[1][row][lane()] = (uint16_t)low;
        r->weight[1][row][lane() + 32] = (uint16_t)(low >> 16);
        if (lane() == 0) r->shrink[row] = was == top[i] ? 1.0f : expf(was - top[i]);
    }
}

/* Operands A of weights in the room. */
template <int D> struct decode_weighed {
    const decode_room<D> *r;
    FN_MEMBER void get(int ks, int part, uint32_t x[4]) const
    {
        ldmatrix_x4(x, &r->weight[part][lane() % 16][ks * 16 + lane() / 16 * 8]);
    }
};

/* y, or with splits the state of this one; a sum below 0 says that a slot was not good. */
template <int D, int WARPS, int N>
FN void decode_store(const zt_cu_attention_args &a, const decode_task &w, const decode_room<D> *r,
                  const float acc[N][4])
{
    bool bad = r->tokens.bad[0];
    for (int i = 0; i < N; i++)
        for (int c = 0; c < 4; c++) {
            int h = lane() / 4 + c / 2 * 8, d = (warp() + i * WARPS) * 8 + lane() % 4 * 2 + c % 2;
            int64_t at = w.row * a.H + w.head + h;
            if (h >= w.heads || d >= a.D) continue;
            if (a.splits)
                PTR(float, a.parts)[(at * a.splits + w.split) * (a.D + 2) + 2 + d] = acc[i][c];
            else
                PTR(float, a.y)[at * a.D + d] = bad ? 0 : mean_of(a, w.head + h, r->top[h], acc[i][c], r->sum[h]);
        }
    for (int h = thread(); a.splits && h < w.heads; h += 32 * WARPS) {
        float *part = PTR(float, a.parts) +
                      ((w.row * a.H + w.head + h) * a.splits + w.split) * (a.D + 2);
        part[0] = r->top[h];
        part[1] = bad ? -1 : r->sum[h];
    }
}

/* Where nothing is seen: 0, or nothing at all where others have the other splits. */
FN void decode_none(const zt_cu_attention_args &a, const decode_task &w)
{
    for (int64_t i = thread(); !a.splits && i < w.heads * a.D; i += threads())
        PTR(float, a.y)[(w.row * a.H + w.head) * a.D + i] = 0;
}

template <int D, int WARPS, int N>
FN void decode_keys(const zt_cu_attention_args &a, const decode_task &w, decode_room<D> *r, float acc[N][4])
{
    query q = decode_query<D, WARPS>(a, w, r);
    int64_t lo = w.split * SPLIT, hi = lo + SPLIT - 1;
    run all = {0, 1, w.row, w.first > lo ? w.first : lo, w.last < hi ? w.last : hi};
    int64_t j = all.lo / TILE, end = all.hi / TILE;
    float top[16 / WARPS];
    bool tells = w.head == 0;
    for (int i = 0; i < 16 / WARPS; i++) top[i] = -INFINITY;
    for (int64_t next = j; j <= end; j++) {
        for (; next <= end && next <= j + 1; next++) { /* the first, then one ahead */
            int64_t p0 = next * TILE;
            bring<D, WARPS>(a, a.k, w.column, all, &r->tokens, p0, tells, r->keys[next % 2]);
            bring<D, WARPS>(a, a.v, w.column, all, &r->tokens, p0, 0, r->values[next % 2]);
            copy_commit();
        }
        if (j < end) copy_wait<1>();
        else copy_wait<0>();
        barrier();
        decode_scores<D, WARPS>(a, w, q, j * TILE, r->keys[j % 2], r);
        barrier();
        decode_weights<D, WARPS>(r, top);
        barrier();
        for (int i = 0; i < N; i++)
            for (int c = 0; c < 4; c++) acc[i][c] *= r->shrink[lane() / 4 + c / 2 * 8];
        const decode_weighed<D> p = {r};
        sums_of<D, N>(p, r->values[j % 2], warp(), WARPS, acc);
        barrier();
    }
    for (int i = 0; i < 16 / WARPS; i++)
        if (lane() == 0) r->top[warp() + i * WARPS] = top[i];
}

/* All threads of a block of WARPS warps; the room is free again after the next barrier. group: of
 * up to 16 heads of a key head. */
template <int D, int WARPS>
FN void decode_rows(const zt_cu_attention_args &a, int64_t row, int64_t group, int64_t split,
                 decode_room<D> *r)
{
    enum { N = (D / 8 + 1 + WARPS - 1) / WARPS };
    decode_task w = decode_task_of(a, row, group, split);
    float acc[N][4] = {{0}};
    /* The last position first, as the reference looks at it; also where no split has it. */
    if (thread() == 0 && group == 0 && split == 0)
        slot_of(a.slots, row, w.last, a.trouble, row << 32);
    if (!w.any) {
        decode_none(a, w);
        return;
    }
    if (thread() == 0) {
        r->tokens.first[0] = (int32_t)w.first;
        r->tokens.last[0] = (int32_t)w.last;
        r->tokens.bad[0] = slot_of(a.slots, row, w.last, 0, 0) < 0;
    }
    barrier();
    decode_keys<D, WARPS, N>(a, w, r, acc);
    for (int i = 0; i < N; i++)
        if (warp() + i * WARPS == D / 8 && lane() % 4 == 0)
            for (int h = 0; h < 2; h++) r->sum[lane() / 4 + 8 * h] = acc[i][2 * h];
    barrier();
    decode_store<D, WARPS, N>(a, w, r, acc);
}

#endif
