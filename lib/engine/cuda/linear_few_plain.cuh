/* linear_few_plain.cuh - products of weights of f32, f16 or bf16 with at most FEW rows of x of f32:
 * linear_few.cuh with x as numbers in shared memory, by step of 32 columns and row; it has the bits
 * of linear_float.cu, and (halves) of linear_half.cu, which rounds x to bf16. */
#ifndef ZT_CU_LINEAR_FEW_PLAIN_CUH
#define ZT_CU_LINEAR_FEW_PLAIN_CUH

#include "lib/engine/cuda/linear_few.cuh"
#include "lib/engine/cuda/linear_float.cuh"
#include "lib/engine/cuda/linear_half.cuh"

/* All of x, of f32 or rounded to bf16. MAKES and `first` as few_codes has them. */
template <bool MAKES>
FN void few_numbers(const zt_cu_few_args &f, const x_room &r, bool rounds, bool first)
{
    const int n = (int)f.a.n, items = (int)f.a.units * n;
    const bool keeps = MAKES && f.tells && first;
    if (MAKES) few_rstd(f, r, keeps);
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
FN void few_plain_step(const plain_unit<T> &u, const float *x, int n, float acc[FEW][2])
{
    float w[2][8];
    get_plain(u, w);
    UNROLL
    for (int t = 0; t < FEW; t++) {
        if (t >= n) continue;
        vec<float, 4> low = load_vec<4>(x + t * 32), high = load_vec<4>(x + t * 32 + 4);
        const float v[8] = {low.v[0],  low.v[1],  low.v[2],  low.v[3],
                            high.v[0], high.v[1], high.v[2], high.v[3]};
        by_eight(w, v, acc[t]);
    }
}

/* The warp's slice of the tile, and what becomes of it (few_finish). */
template <class T>
FN void few_plain_tile(const zt_cu_few_args &f, const x_room &r, const share &s, int half)
{
    enum { EACH = plain_ahead<T>::EACH };
    const plain_rows<T> rows = plain_rows_of<T>(f.a, s);
    const few_run q = run_of(f, r, s);
    const float *x = (const float *)r.codes + lane() % 4 * 8;
    float acc[FEW][2] = {{0}}, *part = few_part(f, r, half);
    plain_unit<T> now[EACH] = {};
    read_plains(rows, q.first, q.last, now);
    for (int u = q.first; u < q.last; u += EACH) {
        plain_unit<T> next[EACH] = {};
        read_plains(rows, u + EACH, q.last, next);
        UNROLL
        for (int i = 0; i < EACH; i++)
            if (u + i < q.last) few_plain_step(now[i], x + (u + i) * q.n * 32, q.n, acc);
        UNROLL
        for (int i = 0; i < EACH; i++) now[i] = next[i];
    }
    UNROLL
    for (int t = 0; t < FEW; t++) UNROLL
    for (int k = 0; k < 2; k++) {
        if (t >= q.n) continue;
        float v = four_lanes(acc[t][k]);
        if (tells_of(t)) keep(part, s, q.n, t, lane() / 4 + 8 * k, v);
    }
    barrier();
    finish_split(f.a, s, q.n, part);
}

/* ---- x rounded to bf16 ----------------------------------------------------------------------- */

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

FN void few_half_tile(const zt_cu_few_args &f, const x_room &r, const share &s, int half)
{
    const plain_rows<uint16_t> rows = plain_rows_of<uint16_t>(f.a, s);
    const few_run q = run_of(f, r, s);
    const int g = lane() / 4, t = lane() % 4;
    float acc[4] = {0};
    half_unit now[HALVES_AHEAD] = {};
    read_halves(rows, q.first, q.last, now);
    for (int u = q.first; u < q.last; u += HALVES_AHEAD) {
        half_unit next[HALVES_AHEAD] = {};
        read_halves(rows, u + HALVES_AHEAD, q.last, next);
        UNROLL
        for (int i = 0; i < HALVES_AHEAD; i++) {
            if (u + i >= q.last) continue;
            const uint32_t *from = q.codes + ((u + i) * q.n + g) * 16 + t * 2;
            vec<uint32_t, 2> low = {{0, 0}}, high = {{0, 0}};
            if (g < q.n) low = load_vec<2>(from), high = load_vec<2>(from + 8);
            const uint32_t x[4] = {low.v[0], low.v[1], high.v[0], high.v[1]};
            by_halves<bf16>(now[i].w[0], now[i].w[1], x, acc);
        }
        UNROLL
        for (int i = 0; i < HALVES_AHEAD; i++) now[i] = next[i];
    }
    few_finish(f, r, s, acc, half);
}

#endif
