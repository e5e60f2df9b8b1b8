/* linear_decode.cuh - products of packed weights with at most DECODE_ROWS rows of x: what generation is made
 * of (linear_decode_plain.cuh has those of other weights).
 *
 * A block rounds x to codes by itself, in its shared memory, then makes 16 rows of w; its warps
 * have a slice of K each. Numbers are those of linear_codes.cu, in the same order: a row's result
 * does not depend on how many there are. Weights are read ahead: those of the next blocks are on
 * their way while some are multiplied.
 */
#ifndef ZT_CU_LINEAR_DECODE_CUH
#define ZT_CU_LINEAR_DECODE_CUH

#include "lib/engine/cuda/attention.h"
#include "lib/engine/cuda/codes.cuh"
#include "lib/engine/cuda/norm.cuh"

enum { DECODE_ROWS = ZT_CU_DECODE_ROWS };

/* The block's shared memory: codes of x by step of 32 columns, row, and lane of four, two words; by
 * step and row the scale and the scale times the sum of the codes. Of what codes leave over the
 * same once more behind. */
typedef struct x_room {
    uint32_t *codes;
    float *sums, *part, *room, *rstd;
    uint32_t *top; /* of rows as pairs: their largest sizes */
} x_room;

FN x_room room_of(const zt_cu_decode_args &f, char *at)
{
    x_room r;
    r.codes = (uint32_t *)at;
    r.sums = (float *)(at + f.sums_at);
    r.part = (float *)(at + f.part_at);
    r.room = (float *)(at + f.room_at);
    r.rstd = r.room + 32;
    r.top = (uint32_t *)(r.rstd + DECODE_ROWS);
    return r;
}

/* ---- x --------------------------------------------------------------------------------------- */

/* Columns k .. k + 3 of row t. */
FN void row_four(const zt_cu_decode_args &f, int64_t t, int64_t k, float v[4])
{
    const int64_t at = t * f.a.K + k;
    if (f.a.wide_x && f.a.x_type == ZT_CU_F32) {
        vec<float, 4> x = load_vec<4>(PTR(const float, f.a.x) + at);
        for (int j = 0; j < 4; j++) v[j] = x.v[j];
    } else {
        for (int j = 0; j < 4; j++) v[j] = number_at(f.a.x, f.a.x_type, at + j);
    }
}

/* The same, made here where another kernel would have made it, which `keeps` leaves behind. */
FN void made_four(const zt_cu_decode_args &f, const float *rstd, int64_t t, int64_t k, bool keeps,
                  float v[4])
{
    const int64_t at = t * f.a.K + k;
    if (f.from == ZT_CU_OF_NORM) {
        normed<float>(f.of.norm, t, k, rstd[t], v);
        if (keeps) store_four(PTR(float, f.of.norm.y) + t * f.a.K, k, f.a.K, f.of.norm.wide, v);
    } else if (f.from == ZT_CU_OF_GATE) {
        const zt_cu_gate_args &g = f.of.gate;
        for (int j = 0; j < 4; j++) {
            v[j] = gate_of(g.gate, PTR(const float, g.g)[at + j], PTR(const float, g.u)[at + j]);
            if (keeps) PTR(float, g.y)[at + j] = v[j];
        }
    } else if (f.from == ZT_CU_OF_JOIN) {
        const zt_cu_attention_args &j = f.of.join;
        join_columns<4>(j, t, k / j.D, k % j.D, v);
        for (int i = 0; i < 4 && keeps; i++) PTR(float, j.y)[at + i] = v[i];
    } else {
        row_four(f, t, k, v);
    }
}

/* Of norms that are made here, what rows are multiplied by. */
FN void decode_rstd(const zt_cu_decode_args &f, const x_room &r, bool keeps)
{
    if (f.from != ZT_CU_OF_NORM) return;
    for (int t = 0; t < (int)f.a.n; t++) {
        float rstd = rstd_of<float>(f.of.norm, t, keeps, r.room);
        barrier();
        if (thread() == 0) r.rstd[t] = rstd;
    }
}

/* Codes of all of x: four lanes 32 columns of a row, whole warps. MAKES: x may be of more than
 * rows; `first` is then the block that leaves behind what others may want of it. */
template <bool MAKES> FN void decode_codes(const zt_cu_decode_args &f, const x_room &r, bool first)
{
    const int n = (int)f.a.n, items = (int)(f.a.K / 32) * n, most = (items + 7) / 8 * 8;
    const bool keeps = MAKES && f.tells && first;
    if (MAKES) decode_rstd(f, r, keeps);
    barrier();
    for (int i = thread() / 4; i < most; i += threads() / 4) {
        const int step = i / n, t = i % n, four = thread() % 4;
        float v[8] = {0};
        ROLLED for (int h = 0; h < 8 && i < items; h += 4)
        {
            const int64_t k = (int64_t)step * 32 + h * 4 + four * 4;
            if (MAKES)
                made_four(f, r.rstd, t, k, keeps, v + h);
            else
                row_four(f, t, k, v + h);
        }
        for (int e = 0; e < f.a.each; e++) {
            vec<uint32_t, 2> word;
            vec<float, 2> sum;
            encode(v, word.v, &sum.v[0], &sum.v[1]);
            if (i >= items) continue;
            store_vec(r.codes + ((e * items + i) * 4 + four) * 2, word);
            if (four == 0) store_vec(r.sums + (e * items + i) * 2, sum);
        }
    }
    barrier();
}

/* ---- a tile ---------------------------------------------------------------------------------- */

/* Number v of the tiles of all products. */
FN share decode_share(const zt_cu_linear_args &a, int64_t v)
{
    share s;
    int p = 0;
    while (p < ZT_CU_PRODUCTS - 1 && v >= (a.product[p].M + 15) / 16)
        v -= (a.product[p++].M + 15) / 16;
    s.p = &a.product[p];
    s.expert = 0;
    s.tile = v;
    s.token = 0;
    s.tokens = (int)a.n;
    s.slice = warp();
    s.slices = 1;
    s.any = true;
    return s;
}

/* What a step needs, in registers: a stage's arguments lie in shared memory (persistent_kernel.cu). */
typedef struct decode_run {
    const uint32_t *codes; /* of x, and their sums */
    const float *sums;
    int n, items, each;
    const uint32_t *w, *heads; /* of the tile's product */
    const f16 *halves;
    int64_t block; /* number of the tile's first */
    int first, last;
} decode_run;

FN decode_run run_of(const zt_cu_decode_args &f, const x_room &r, const share &s)
{
    decode_run q;
    q.codes = r.codes;
    q.sums = r.sums;
    q.n = (int)f.a.n;
    q.items = (int)(f.a.K / 32) * q.n;
    q.each = f.a.each;
    q.w = PTR(const uint32_t, s.p->w);
    q.heads = PTR(const uint32_t, s.p->heads);
    q.halves = PTR(const f16, s.p->halves);
    q.block = s.tile * f.a.units;
    q.first = s.slice * (int)f.a.units_slice;
    q.last = q.first + (int)f.a.units_slice;
    if (q.last > f.a.units) q.last = (int)f.a.units;
    return q;
}

template <class T>
FN void decode_step(const decode_run &q, const fragment *w, int step, float acc[4])
{
    const int g = lane() / 4, t = lane() % 4;
    ROLLED for (int e = 0; e < q.each; e++)
    {
        const int at = e * q.items + step * q.n;
        vec<uint32_t, 2> b = {{0, 0}};
        float scale[2] = {0, 0}, sum[2] = {0, 0};
        if (g < q.n) b = load_vec<2>(q.codes + ((at + g) * 4 + t) * 2);
        for (int c = 0; c < 2; c++) {
            if (2 * t + c >= q.n) continue;
            vec<float, 2> both = load_vec<2>(q.sums + (at + 2 * t + c) * 2);
            scale[c] = both.v[0], sum[c] = both.v[1];
        }
        by_codes<T>(w, b.v, scale, sum, acc);
    }
}

/* Blocks of w that are read together, while those read before are multiplied. */
template <class T> struct ahead {
    enum { EACH = T::STEPS == 1 ? 4 : 1 };
};

template <class T> FN void read_units(const decode_run &q, int u, packed_unit *w)
{
    UNROLL
    for (int i = 0; i < ahead<T>::EACH; i++)
        if (u + i < q.last) read_unit<T>(q.w, q.heads, q.halves, q.block + u + i, &w[i]);
}

/* The warp's slice of K. */
template <class T> FN void decode_slice(const decode_run &q, float acc[4])
{
    enum { EACH = ahead<T>::EACH };
    packed_unit now[EACH] = {};
    read_units<T>(q, q.first, now);
    for (int u = q.first; u < q.last; u += EACH) {
        packed_unit next[EACH] = {}; /* else what is not read would keep its registers for ever */
        read_units<T>(q, u + EACH, next);
        UNROLL
        for (int i = 0; i < EACH; i++) {
            if (u + i >= q.last) continue;
            UNROLL
            for (int k = 0; k < T::STEPS; k++) {
                fragment w;
                T::get(&now[i], k, &w);
                decode_step<T>(q, &w, (u + i) * T::STEPS + k, acc);
            }
        }
        UNROLL
        for (int i = 0; i < EACH; i++) now[i] = next[i];
    }
}

/* Half `half` of the room for sums of a tile's slices, so that one barrier is enough where a block
 * makes several tiles. */
FN float *decode_part(const zt_cu_decode_args &f, const x_room &r, int half)
{
    return r.part + half * SLICES * (int)f.a.n * 16;
}

/* The sums of the tile's slices, then of these. */
FN void decode_finish(const zt_cu_decode_args &f, const x_room &r, const share &s, const float acc[4],
                   int half)
{
    float *part = decode_part(f, r, half);
    for (int c = 0; c < 4; c++) {
        int t = lane() % 4 * 2 + c % 2;
        if (t < s.tokens) keep(part, s, s.tokens, t, lane() / 4 + c / 2 * 8, acc[c]);
    }
    barrier();
    finish_split(f.a, s, s.tokens, part);
}

#endif
