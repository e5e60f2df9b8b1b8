/* attention_mma.cuh - causal attention over caches of f16 on the matrix units: what few rows
 * (decode_rows) and prompts (prefill_rows) do alike, so that both have the same bits.
 *
 * Rows of q by head are the 16 rows of operand A, eight keys or eight columns of values B. Keys and
 * values are f16 as they are; q (by a power of two, so that its largest is about 1) and the weights
 * of keys are each two numbers of f16, of which the second is what the first leaves: 22 bits. The
 * sum of the weights is one more column of values, of ones. What a number is made of, and in which
 * order, depends on its row, key and column alone: columns and keys in order, first before second.
 *
 * D: columns of a head as they are computed, 64, 128 or 256; those past a.D are zeros.
 */
#ifndef ZT_CU_ATTENTION_MMA_H
#define ZT_CU_ATTENTION_MMA_H

#include "lib/engine/cuda/attention.h"
#include "lib/engine/cuda/unroll.h"

enum { CROWD = 64 }; /* rows of x (tokens) that a block may have */

/* The tokens of a block. */
typedef struct crowd {
    int32_t first[CROWD], last[CROWD], seq[CROWD]; /* positions seen; last < 0: none */
    uint32_t bad[CROWD];                           /* a slot of its was not good */
} crowd;

/* Tokens from .. to - 1 of one sequence, and the positions that any of them sees. */
typedef struct run {
    int from, to;
    int64_t row, lo, hi; /* row: of its first token */
} run;

FN uint16_t *chunk_of(uint16_t *rows, int D, int row, int chunk)
{
    return rows + row * D + (chunk ^ (row & 7)) * 8;
}

/* Two numbers as two of f16 each. */
FN void split_pair(float x, float y, uint32_t *high, uint32_t *low)
{
    f16 hx = put<f16>(x), hy = put<f16>(y);
    *high = (uint32_t)hx.bits | (uint32_t)hy.bits << 16;
    *low = (uint32_t)put<f16>(x - get(hx)).bits | (uint32_t)put<f16>(y - get(hy)).bits << 16;
}

/* ---- queries --------------------------------------------------------------------------------- */

/* A lane's rows of q, lane / 4 and 8 more: where they are (null: none), by what they are multiplied
 * and what then gives their scores. */
typedef struct query {
    const float *from[2];
    float by[2], scale[2];
} query;

/* Powers of two that bring `most` near 1 and back; 1 of what is no number. */
FN float down_of(float most, float *back)
{
    uint32_t e = bits_as<uint32_t>(most) >> 23 & 255;
    if (e == 255) return *back = 1;
    e = e < 1 ? 1 : e > 253 ? 253 : e;
    *back = bits_as<float>(e << 23);
    return bits_as<float>((254 - e) << 23);
}

FN void weigh_query(const zt_cu_attention_args &a, query *q)
{
    for (int h = 0; h < 2; h++) {
        float most = 0, back;
        for (int64_t c = lane() % 4; q->from[h] && c < a.D; c += 4)
            most = fmaxf(most, fabsf(q->from[h][c]));
        most = fmaxf(most, shuffle_xor(most, 1));
        most = fmaxf(most, shuffle_xor(most, 2));
        q->by[h] = down_of(most, &back);
        q->scale[h] = back * a.scale;
    }
}

/* Operand A of columns 16 ks .. 16 ks + 15. */
FN void query_step(const zt_cu_attention_args &a, const query &q, int ks, uint32_t high[4],
                   uint32_t low[4])
{
    for (int i = 0; i < 4; i++) {
        int c = ks * 16 + i / 2 * 8 + lane() % 4 * 2;
        const float *from = q.from[i % 2];
        bool any = from && c < a.D; /* D is even */
        split_pair(any ? from[c] * q.by[i % 2] : 0, any ? from[c + 1] * q.by[i % 2] : 0, &high[i],
                   &low[i]);
    }
}

/* Operands A of all columns: as the lane holds them, or as they lie in shared memory. */
template <int D> struct held {
    uint32_t w[D / 16][2][4];
    FN_MEMBER void get(int ks, int part, uint32_t r[4]) const
    {
        for (int i = 0; i < 4; i++) r[i] = w[ks][part][i];
    }
};

struct parked {
    const uint32_t *at; /* [steps][2][32 lanes][4] */
    FN_MEMBER void get(int ks, int part, uint32_t r[4]) const
    {
        vec<uint32_t, 4> v = load_vec<4>(at + ((ks * 2 + part) * 32 + lane()) * 4);
        for (int i = 0; i < 4; i++) r[i] = v.v[i];
    }
};

FN void park(const zt_cu_attention_args &a, const query &q, int ks, uint32_t *to)
{
    vec<uint32_t, 4> high, low;
    query_step(a, q, ks, high.v, low.v);
    store_vec(to + ((ks * 2 + 0) * 32 + lane()) * 4, high);
    store_vec(to + ((ks * 2 + 1) * 32 + lane()) * 4, low);
}

/* ---- keys and values ------------------------------------------------------------------------- */

/* Rows of positions p0 .. p0 + TILE - 1 of a cache on their way to shared memory; those that nobody
 * sees are zeros. troubles: those found here are told. */
template <int D, int WARPS>
FN void bring(const zt_cu_attention_args &a, zt_cu_ptr cache, int64_t column, const run &r,
              crowd *c, int64_t p0, bool troubles, uint16_t *to)
{
    const int rows = TILE / WARPS, chunks = D / 8;
    int64_t p = p0 + warp() * rows + lane() % rows, slot = -2;
    if (p >= r.lo && p <= r.hi) slot = slot_of(a.slots, r.row, p, 0, 0);
    if (slot == -1 && lane() < rows) {
        for (int t = r.from; t < r.to; t++) {
            if (p < c->first[t] || p > c->last[t]) continue;
            atomic_max(&c->bad[t], 1u);
            int64_t row = r.row + t - r.from;
            if (troubles) slot_of(a.slots, row, p, a.trouble, row << 32 | (p - c->first[t] + 1));
        }
    }
    const f16 *from = PTR(const f16, cache) + column;
    for (int i = lane(); i < rows * chunks; i += 32) {
        int row = i / chunks, chunk = i % chunks;
        int64_t its = shuffle(slot, row);
        bool any = its >= 0 && chunk * 8 < a.D;
        copy_async(chunk_of(to, D, warp() * rows + row, chunk),
                   any ? from + its * a.W + chunk * 8 : PTR(const f16, cache), any ? 16 : 0);
    }
}

/* Products of the 16 rows with keys 8 (nt + i step) .. + 7, for i below N. */
template <int D, int N, class Q>
FN void products_of(const Q &q, uint16_t *keys, int nt, int step, float s[N][4])
{
    for (int i = 0; i < N; i++)
        for (int c = 0; c < 4; c++) s[i][c] = 0;
    UNROLL
    for (int ks = 0; ks < D / 16; ks += 2) {
        uint32_t b[N][4], x[4];
        for (int i = 0; i < N; i++)
            ldmatrix_x4(b[i], chunk_of(keys, D, (nt + i * step) * 8 + lane() % 8,
                                       ks * 2 + lane() / 8));
        UNROLL
        for (int h = 0; h < 4; h++) {
            q.get(ks + h / 2, h % 2, x);
            for (int i = 0; i < N; i++) mma_f16(s[i], x, b[i] + h / 2 * 2);
        }
    }
}

/* A score under the cap. */
FN float capped(const zt_cu_attention_args &a, float s) { return a.softcap * tanhf(s / a.softcap); }

FN float weight_of(float s, float top) { return top == -INFINITY ? 0 : expf(s - top); }

/* Adds the weights p of TILE keys times columns 8 (nt + i step) .. + 7 of their values, for i below
 * N; columns 8 (D / 8) .. are ones, and there is nothing past them. */
template <int D, int N, class P>
FN void sums_of(const P &p, uint16_t *values, int nt, int step, float acc[N][4])
{
    UNROLL
    for (int ks = 0; ks < TILE / 16; ks += 2) {
        uint32_t b[N][4], x[4];
        for (int i = 0; i < N; i++) {
            int n = nt + i * step;
            if (n < D / 8)
                ldmatrix_x4_trans(b[i], chunk_of(values, D, ks * 16 + lane(), n));
            else
                for (int k = 0; k < 4; k++) b[i][k] = 0x3c003c00u;
        }
        UNROLL
        for (int h = 0; h < 4; h++) {
            p.get(ks + h / 2, h % 2, x);
            for (int i = 0; i < N; i++)
                if (nt + i * step <= D / 8) mma_f16(acc[i], x, b[i] + h / 2 * 2);
        }
    }
}

#endif
