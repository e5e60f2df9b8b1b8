/* linear_few.cuh - products of packed weights with at most FEW rows of x: what generation is made of.
 *
 * A block rounds x to codes by itself, in its shared memory, then makes 16 rows of w; its warps have
 * a slice of K each. Numbers are those of linear_codes.cu, in the same order: a row's result does not
 * depend on how many there are. Weights are read ahead: those of the next blocks are on their way
 * while some are multiplied.
 */
#ifndef ZT_CU_LINEAR_FEW_CUH
#define ZT_CU_LINEAR_FEW_CUH

#include "lib/engine/cuda/codes.cuh"
#include "lib/engine/cuda/norm.cuh"

enum { FEW = ZT_CU_FEW };

/* The block's shared memory: codes of x by step of 32 columns, row, and lane of four, two words; by
 * step and row the scale and the scale times the sum of the codes. Of what codes leave over the same
 * once more behind. */
typedef struct few_room {
    uint32_t *codes;
    float *sums, *part, *room, *rstd;
} few_room;

FN few_room room_of(const zt_cu_few_args &f, char *at)
{
    few_room r;
    r.codes = (uint32_t *)at;
    r.sums = (float *)(at + f.sums_at);
    r.part = (float *)(at + f.part_at);
    r.room = (float *)(at + f.room_at);
    r.rstd = r.room + 32;
    return r;
}

/* ---- x --------------------------------------------------------------------------------------- */

/* Columns k .. k + 3 of row t, which `keeps` leaves behind. */
FN void x_four(const zt_cu_few_args &f, const float *rstd, int64_t t, int64_t k, bool keeps,
               float v[4])
{
    const int64_t at = t * f.a.K + k;
    if (f.from == ZT_CU_OF_NORM) {
        normed<float>(f.of.norm, t, k, rstd[t], v);
        if (keeps) store_four(PTR(float, f.of.norm.y) + t * f.a.K, k, f.a.K, f.of.norm.wide, v);
    } else if (f.from == ZT_CU_OF_GATE) {
        const zt_cu_gate_args &g = f.of.gate;
        for (int j = 0; j < 4; j++) {
            v[j] = gate_of(g.gate, number_at(g.g, g.type, at + j), number_at(g.u, g.type, at + j));
            if (keeps) number_put(g.y, g.type, at + j, v[j]);
        }
    } else if (f.a.wide_x && f.a.x_type == ZT_CU_F32) {
        vec<float, 4> x = load_vec<4>(PTR(const float, f.a.x) + at);
        for (int j = 0; j < 4; j++) v[j] = x.v[j];
    } else {
        for (int j = 0; j < 4; j++) v[j] = number_at(f.a.x, f.a.x_type, at + j);
    }
}

/* Codes of all of x: four lanes 32 columns of a row, whole warps. */
FN void few_codes(const zt_cu_few_args &f, const few_room &r, bool first)
{
    const int n = (int)f.a.n, items = (int)(f.a.K / 32) * n, most = (items + 7) / 8 * 8;
    const bool keeps = f.tells && first;
    if (f.from == ZT_CU_OF_NORM)
        for (int t = 0; t < n; t++) {
            float rstd = rstd_of<float>(f.of.norm, t, f.team, keeps, r.room);
            barrier();
            if (thread() == 0) r.rstd[t] = rstd;
        }
    barrier();
    for (int i = thread() / 4; i < most; i += threads() / 4) {
        const int step = i / n, t = i % n, four = thread() % 4;
        float v[8] = {0};
        for (int h = 0; h < 2 && i < items; h++)
            x_four(f, r.rstd, t, (int64_t)step * 32 + h * 16 + four * 4, keeps, v + 4 * h);
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
FN share few_share(const zt_cu_linear_args &a, int64_t v)
{
    share s;
    int p = 0;
    while (p < ZT_CU_PRODUCTS - 1 && v >= (a.product[p].M + 15) / 16)
        v -= (a.product[p++].M + 15) / 16;
    s.p = &a.product[p];
    s.tile = v;
    s.token = 0;
    s.tokens = (int)a.n;
    s.slice = warp();
    s.slices = 1;
    s.any = true;
    return s;
}

template <class T>
FN void few_step(const zt_cu_few_args &f, const few_room &r, const fragment *w, int step,
                 float acc[4])
{
    const int n = (int)f.a.n, g = lane() / 4, t = lane() % 4, items = (int)(f.a.K / 32) * n;
    for (int e = 0; e < f.a.each; e++) {
        const int at = e * items + step * n;
        vec<uint32_t, 2> b = {{0, 0}};
        float scale[2] = {0, 0}, sum[2] = {0, 0};
        if (g < n) b = load_vec<2>(r.codes + ((at + g) * 4 + t) * 2);
        for (int c = 0; c < 2; c++) {
            if (2 * t + c >= n) continue;
            vec<float, 2> both = load_vec<2>(r.sums + (at + 2 * t + c) * 2);
            scale[c] = both.v[0], sum[c] = both.v[1];
        }
        by_codes<T>(w, b.v, scale, sum, acc);
    }
}

/* Blocks of w that are read together, while those read before are multiplied. */
template <class T> struct ahead {
    enum { EACH = T::STEPS == 1 ? 4 : 1 };
};

template <class T>
FN void read_units(const zt_cu_few_args &f, const share &s, int64_t u, int64_t end, packed_unit *w)
{
    UNROLL
    for (int i = 0; i < ahead<T>::EACH; i++)
        if (u + i < end)
            read_unit<T>(PTR(const uint32_t, s.p->w), PTR(const uint32_t, s.p->heads),
                         PTR(const f16, s.p->halves), s.tile * f.a.units + u + i, &w[i]);
}

/* The warp's slice of K. */
template <class T>
FN void few_slice(const zt_cu_few_args &f, const few_room &r, const share &s, float acc[4])
{
    enum { EACH = ahead<T>::EACH };
    int64_t u = s.slice * f.a.units_slice, end = u + f.a.units_slice;
    if (end > f.a.units) end = f.a.units;
    packed_unit now[EACH], next[EACH];
    read_units<T>(f, s, u, end, now);
    for (; u < end; u += EACH) {
        read_units<T>(f, s, u + EACH, end, next);
        UNROLL
        for (int i = 0; i < EACH; i++) {
            if (u + i >= end) continue;
            UNROLL
            for (int k = 0; k < T::STEPS; k++) {
                fragment w;
                T::get(&now[i], k, &w);
                few_step<T>(f, r, &w, (int)((u + i) * T::STEPS) + k, acc);
            }
        }
        UNROLL
        for (int i = 0; i < EACH; i++) now[i] = next[i];
    }
}

/* Tile number v; its sums of slices in half `half` of the room for them, so that one barrier is
 * enough where a block makes several. */
template <class T>
FN void few_tile(const zt_cu_few_args &f, const few_room &r, int64_t v, int half)
{
    share s = few_share(f.a, v);
    float acc[4] = {0}, *part = r.part + half * SLICES * (int)f.a.n * 16;
    few_slice<T>(f, r, s, acc);
    for (int c = 0; c < 4; c++) {
        int t = lane() % 4 * 2 + c % 2;
        if (t < s.tokens) keep(part, s, s.tokens, t, lane() / 4 + c / 2 * 8, acc[c]);
    }
    barrier();
    finish_split(f.a, s, s.tokens, part);
}

#endif
