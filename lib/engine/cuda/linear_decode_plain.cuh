/* linear_decode_plain.cuh - products of weights of f32, f16 or bf16 with at most DECODE_ROWS rows of x of f32:
 * linear_decode.cuh with x as numbers in shared memory, by step of 32 columns and row; it has the bits
 * of linear_float.cu, and (halves, which are x rounded to bf16, and pairs of f16) of
 * linear_half.cu. */
#ifndef ZT_CU_LINEAR_DECODE_PLAIN_CUH
#define ZT_CU_LINEAR_DECODE_PLAIN_CUH

#include "lib/engine/cuda/linear_decode.cuh"
#include "lib/engine/cuda/linear_float.cuh"
#include "lib/engine/cuda/linear_half.cuh"

/* All of x, of f32 or rounded to bf16. MAKES and `first` as decode_codes has them. */
template <bool MAKES>
FN void decode_numbers(const zt_cu_decode_args &f, const x_room &r, bool rounds, bool first)
{
    const int n = (int)f.a.n, items = (int)f.a.units * n;
    const bool keeps = MAKES && f.tells && first;
    if (MAKES) decode_rstd(f, r, keeps);
    barrier();
    for (int i = thread(); i < items * 8; i += threads()) {
        const int64_t k = (int64_t)(i / 8 / n) * 32 + i % 8 * 4;
        float v[4] = {0, 0, 0, 0};
        if (MAKES && k < f.a.K)
            made_four(f, r.rstd, i / 8 % n, k, keeps, v);
        else if (k < f.a.K)
            row_four(f, i / 8 % n, k, v);
        if (rounds)
            store_four((bf16 *)r.codes, (int64_t)i * 4, INT64_MAX, true, v);
        else
            store_four((float *)r.codes, (int64_t)i * 4, INT64_MAX, true, v);
    }
    barrier();
}

/* ---- x as it is ------------------------------------------------------------------------------ */

/* Units that are read together: 16 registers of them. */
template <class T> struct plain_ahead {
    enum { EACH = 4 / sizeof(T) };
};

template <class T> FN void read_plains(const plain_rows<T> &p, int u, int last, plain_unit<T> *w)
{
    UNROLL
    for (int i = 0; i < plain_ahead<T>::EACH; i++)
        if (u + i < last) read_plain(p, u + i, &w[i]);
}

/* x: the step's columns 8 t .. 8 t + 7 of the first row. */
template <class T>
FN void decode_plain_step(const plain_unit<T> &u, const float *x, int n, float acc[DECODE_ROWS][2])
{
    float w[2][8];
    get_plain(u, w);
    UNROLL
    for (int t = 0; t < DECODE_ROWS; t++) {
        if (t >= n) continue;
        vec<float, 4> low = load_vec<4>(x + t * 32), high = load_vec<4>(x + t * 32 + 4);
        const float v[8] = {low.v[0],  low.v[1],  low.v[2],  low.v[3],
                            high.v[0], high.v[1], high.v[2], high.v[3]};
        by_eight(w, v, acc[t]);
    }
}

/* The warp's slice of the tile, and what becomes of it (decode_finish). */
template <class T>
FN void decode_plain_tile(const zt_cu_decode_args &f, const x_room &r, const share &s, int half)
{
    enum { EACH = plain_ahead<T>::EACH };
    const plain_rows<T> rows = plain_rows_of<T>(f.a, s);
    const decode_run q = run_of(f, r, s);
    const float *x = (const float *)r.codes + lane() % 4 * 8;
    float acc[DECODE_ROWS][2] = {{0}}, *part = decode_part(f, r, half);
    plain_unit<T> now[EACH] = {};
    read_plains(rows, q.first, q.last, now);
    for (int u = q.first; u < q.last; u += EACH) {
        plain_unit<T> next[EACH] = {};
        read_plains(rows, u + EACH, q.last, next);
        UNROLL
        for (int i = 0; i < EACH; i++)
            if (u + i < q.last) decode_plain_step(now[i], x + (u + i) * q.n * 32, q.n, acc);
        UNROLL
        for (int i = 0; i < EACH; i++) now[i] = next[i];
    }
    UNROLL
    for (int t = 0; t < DECODE_ROWS; t++) UNROLL
    for (int k = 0; k < 2; k++) {
        if (t >= q.n) continue;
        float v = four_lanes(acc[t][k]);
        if (tells_of(t)) keep(part, s, q.n, t, lane() / 4 + 8 * k, v);
    }
    barrier();
    finish_split(f.a, s, q.n, part);
}

/* ---- x of 16 bits ---------------------------------------------------------------------------- */

enum { HALVES_AHEAD = 2 }; /* units that are read together */

typedef struct half_unit {
    uint32_t w[2][4];
} half_unit;

FN void read_halves(const plain_rows<uint16_t> &p, int u, int last, half_unit *w)
{
    UNROLL
    for (int i = 0; i < HALVES_AHEAD; i++) {
        if (u + i >= last) continue;
        const int64_t unit = (int64_t)(u + i) * 32;
        for (int h = 0; h < 2; h++) eight(p.row[h], p.row[h] != 0, p.wide, unit, p.K, w[i].w[h]);
    }
}

/* The warp's slice of the tile. X::get has the lane's operand of group j of eight rows of x. */
template <class X>
FN void decode_half_slice(const zt_cu_decode_args &f, const decode_run &q, const share &s,
                       float acc[X::GROUPS][4])
{
    const plain_rows<uint16_t> rows = plain_rows_of<uint16_t>(f.a, s);
    half_unit now[HALVES_AHEAD] = {};
    read_halves(rows, q.first, q.last, now);
    for (int u = q.first; u < q.last; u += HALVES_AHEAD) {
        half_unit next[HALVES_AHEAD] = {};
        read_halves(rows, u + HALVES_AHEAD, q.last, next);
        UNROLL
        for (int i = 0; i < HALVES_AHEAD; i++) {
            if (u + i >= q.last) continue;
            UNROLL
            for (int j = 0; j < X::GROUPS; j++) {
                uint32_t x[4];
                if (j * X::EACH >= q.n) continue;
                X::get(q, u + i, j, x);
                by_halves<typename X::number>(now[i].w[0], now[i].w[1], x, acc[j]);
            }
        }
        UNROLL
        for (int i = 0; i < HALVES_AHEAD; i++) now[i] = next[i];
    }
}

/* ---- rounded to bf16 ------------------------------------------------------------------------- */

struct x_of_halves {
    typedef bf16 number;
    enum { GROUPS = 1, EACH = 8 };
    FN_MEMBER static void get(const decode_run &q, int u, int, uint32_t x[4])
    {
        const int g = lane() / 4;
        const uint32_t *from = q.codes + (u * q.n + g) * 16 + lane() % 4 * 2;
        vec<uint32_t, 2> v[2] = {};
        for (int h = 0; h < 2 && g < q.n; h++) v[h] = load_vec<2>(from + 8 * h);
        for (int k = 0; k < 4; k++) x[k] = v[k / 2].v[k % 2];
    }
};

FN void decode_half_tile(const zt_cu_decode_args &f, const x_room &r, const share &s, int half)
{
    float acc[1][4] = {{0}};
    decode_half_slice<x_of_halves>(f, run_of(f, r, s), s, acc);
    decode_finish(f, r, s, acc[0], half);
}

/* ---- pairs of f16 ---------------------------------------------------------------------------- */

/* Words of columns 4 i .. 4 i + 3 of row t: two of the high ones, two of the low ones. Halves of a
 * step change places in every other row, so that no two of them are in one bank. */
FN int pair_at(int n, int i, int t) { return ((i / 8 * n + t) * 8 + (i % 8 ^ t % 2 * 4)) * 4; }

/* All of x, with the bits of zt_pairs: first as it is, then in its place. */
template <bool MAKES> FN void decode_pairs(const zt_cu_decode_args &f, const x_room &r, bool first)
{
    const int n = (int)f.a.n, fours = (int)f.a.units * 8;
    const bool keeps = MAKES && f.tells && first;
    if (thread() < DECODE_ROWS) r.top[thread()] = 0;
    if (MAKES) decode_rstd(f, r, keeps);
    barrier();
    ROLLED for (int t = 0; t < n; t++)
    {
        uint32_t top = 0;
        for (int i = thread(); i < fours; i += threads()) {
            vec<float, 4> four = {{0, 0, 0, 0}};
            if (MAKES && i * 4 < f.a.K)
                made_four(f, r.rstd, t, i * 4, keeps, four.v);
            else if (i * 4 < f.a.K)
                row_four(f, t, i * 4, four.v);
            for (int j = 0; j < 4; j++)
                top = pair_size(four.v[j]) > top ? pair_size(four.v[j]) : top;
            store_vec((float *)r.codes + pair_at(n, i, t), four);
        }
        top = warp_max(top);
        if (lane() == 0) atomic_max(r.top + t, top);
    }
    barrier();
    ROLLED for (int t = 0; t < n; t++)
    {
        const float scale = pair_scale(r.top[t]);
        for (int i = thread(); i < fours; i += threads()) {
            uint32_t *at = r.codes + pair_at(n, i, t);
            const vec<float, 4> four = load_vec<4>((const float *)at);
            vec<uint32_t, 4> word;
            pair_four(four.v, scale, word.v, word.v + 2);
            store_vec(at, word);
        }
    }
    barrier();
}

/* Of four rows, high and low beside each other. */
struct x_of_pairs {
    typedef f16 number;
    enum { GROUPS = DECODE_ROWS / 4, EACH = 4 };
    FN_MEMBER static void get(const decode_run &q, int u, int j, uint32_t x[4])
    {
        const int g = lane() / 4, t = j * 4 + g / 2, i = u * 8 + lane() % 4;
        vec<uint32_t, 2> v[2] = {};
        for (int h = 0; h < 2 && t < q.n; h++)
            v[h] = load_vec<2>(q.codes + pair_at(q.n, i + 4 * h, t) + g % 2 * 2);
        for (int k = 0; k < 4; k++) x[k] = v[k / 2].v[k % 2];
    }
};

FN void decode_pair_tile(const zt_cu_decode_args &f, const x_room &r, const share &s, int half)
{
    const int n = (int)f.a.n, most = 2 * n;
    float acc[x_of_pairs::GROUPS][4] = {{0}}, *part = r.part + half * SLICES * most * 16;
    decode_half_slice<x_of_pairs>(f, run_of(f, r, s), s, acc);
    UNROLL
    for (int j = 0; j < x_of_pairs::GROUPS; j++) UNROLL
    for (int c = 0; c < 4; c++) {
        const int t = j * 8 + lane() % 4 * 2 + c % 2;
        if (t < most) keep(part, s, most, t, lane() / 4 + c / 2 * 8, acc[j][c]);
    }
    barrier();
    for (int i = thread(); i < n * 16; i += threads()) {
        const int t = i / 16, m = i % 16;
        const float high = kept(part, most, 2 * t, m), low = kept(part, most, 2 * t + 1, m);
        finish(f.a, s.p, t, s.tile * 16 + m, pair_sum(high, low, pair_back(r.top[t])));
    }
}

#endif
