/* linear.h - what the kernels of products with weights share: who computes what, and what becomes
 * of a sum.
 *
 * A warp makes 16 rows of w (a tile) by some rows of x ("tokens"). K is cut into SLICES at places
 * that depend on K alone; a slice is summed in order of K, and slices are added up in their order.
 * So it does not change a bit whether the warps of a block take a slice each of one tile (few
 * tokens: memory is what is waited for) or a tile each with all its slices (many), and a token's
 * result depends on that token alone.
 */
#ifndef ZT_CU_LINEAR_H
#define ZT_CU_LINEAR_H

#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/linear_after.h"
#include "lib/engine/cuda/packed.h"
#include "lib/engine/cuda/pair.cuh"
#include "lib/engine/cuda/unroll.h"

enum { SLICES = 8 }; /* and warps a block */

/* The warp's share. */
typedef struct share {
    const zt_cu_product *p;
    int64_t expert;      /* whose weights: 0 where there is one matrix */
    int64_t tile, token; /* the first */
    int tokens, slice, slices;
    bool any; /* is there such a tile */
} share;

/* The expert of the block's tile of rows of x, and how many of them there are. */
FN zt_cu_expert_tile tile_of(const zt_cu_linear_args &a) { return PTR(const zt_cu_expert_tile, a.expert_tiles)[block_y()]; }

FN share share_of(const zt_cu_linear_args &a, int most)
{
    share s;
    s.p = &a.product[block_z()];
    s.tile = a.split ? (int64_t)block() : (int64_t)block() * SLICES + warp();
    s.token = (int64_t)block_y() * most;
    s.tokens = a.n - s.token < most ? (int)(a.n - s.token) : most;
    s.slice = a.split ? warp() : 0;
    s.slices = a.split ? 1 : SLICES;
    s.any = s.tile * 16 < s.p->M;
    s.expert = 0;
    if (a.expert_tiles) {
        const zt_cu_expert_tile tile = tile_of(a);
        s.expert = tile.expert;
        s.tokens = tile.rows;
        s.any = s.any && tile.rows > 0;
    }
    return s;
}

/* Where the weights of the share's expert lie. */
FN zt_cu_ptr weights_of(const zt_cu_linear_args &a, const share &s) { return s.p->w + s.expert * a.w_step; }
FN zt_cu_ptr heads_of(const zt_cu_linear_args &a, const share &s) { return s.p->heads + s.expert * a.heads_step; }
FN zt_cu_ptr halves_of(const zt_cu_linear_args &a, const share &s) { return s.p->halves + s.expert * a.halves_step; }

/* Number i of a vector of f32, f16 or bf16. */
FN float number_at(zt_cu_ptr p, int type, int64_t i)
{
    if (type == ZT_CU_F32) return PTR(const float, p)[i];
    return type == ZT_CU_F16 ? get(PTR(const f16, p)[i]) : get(PTR(const bf16, p)[i]);
}

/* As a type keeps it. */
FN float rounded(float v, int type)
{
    if (type == ZT_CU_F32) return v;
    return type == ZT_CU_F16 ? get(put<f16>(v)) : get(put<bf16>(v));
}

FN void number_put(zt_cu_ptr p, int type, int64_t i, float v)
{
    if (type == ZT_CU_F32)
        PTR(float, p)[i] = v;
    else if (type == ZT_CU_F16)
        PTR(f16, p)[i] = put<f16>(v);
    else
        PTR(bf16, p)[i] = put<bf16>(v);
}

FN void gate_at(const zt_cu_gate_args &a, int64_t i)
{
    if (i < a.n) number_put(a.y, a.type, i, gate_of(a.gate, number_at(a.g, a.type, i), number_at(a.u, a.type, i)));
}

/* The sum of token t and row m is done. */
FN void finish(const zt_cu_linear_args &a, const zt_cu_product *p, int64_t t, int64_t m, float v)
{
    if (t >= a.n || m >= p->M) return;
    int64_t at = t * p->M + m;
    if (p->b) v += number_at(p->b, p->b_type, (a.expert_tiles ? tile_of(a).expert * p->M : 0) + m);
    if (a.after != ZT_CU_AFTER_NONE) v = rounded(v, a.y_type);
    if (a.after == ZT_CU_AFTER_ADD) v = number_at(a.residual, a.y_type, at) + v;
    if (a.after == ZT_CU_AFTER_CURVE) v = curve_of(a.curve, v);
    number_put(p->y, a.y_type, at, v);
}

/* The same of pair t, whose sums are those of rows 2 t and 2 t + 1 of x. */
FN void finish_pair(const zt_cu_linear_args &a, const zt_cu_product *p, int64_t t, int64_t m, float high, float low)
{
    if (2 * t < a.n) finish(a, p, t, m, pair_sum(high, low, PTR(const float, a.x_backs)[t]));
}

/* A slice's sum of row r (of 16) and token t of the share, for finish_split. */
FN void keep(float *part, const share &s, int most, int t, int r, float v) { part[(s.slice * most + t) * 16 + r] = v; }

/* After a barrier: what the warps kept, added up in the slices' order. */
FN float kept(const float *part, int most, int t, int r)
{
    float sum = 0;
    for (int k = 0; k < SLICES; k++) sum += part[(k * most + t) * 16 + r];
    return sum;
}

FN void finish_split(const zt_cu_linear_args &a, const share &s, int most, const float *part)
{
    for (int i = thread(); i < s.tokens * 16; i += threads())
        finish(a, s.p, s.token + i / 16, s.tile * 16 + i % 16, kept(part, most, i / 16, i % 16));
}

FN void finish_split_pairs(const zt_cu_linear_args &a, const share &s, int most, const float *part)
{
    for (int i = thread(); i < s.tokens * 8; i += threads()) {
        const int t = i / 16, r = i % 16;
        finish_pair(a, s.p, s.token / 2 + t, s.tile * 16 + r, kept(part, most, 2 * t, r), kept(part, most, 2 * t + 1, r));
    }
}

/* A product by matrix units. Way::slice sums slice k of the share, Way::GROUPS groups of eight
 * tokens: acc[j][c] is of token 8j + lane % 4 * 2 + c % 2 and row lane / 4 + c / 2 * 8. */
template <class Way> FN void product_by_mma(const zt_cu_linear_args &a, float *part)
{
    share s = share_of(a, 8 * Way::GROUPS);
    float total[Way::GROUPS][4] = {{0}};
    for (int k = 0; s.any && k < s.slices; k++) {
        float acc[Way::GROUPS][4] = {{0}};
        Way::slice(a, s, s.slice + k, acc);
        for (int j = 0; j < Way::GROUPS; j++)
            for (int c = 0; c < 4; c++) total[j][c] = a.split ? acc[j][c] : total[j][c] + acc[j][c];
    }
    UNROLL_FOR (int j = 0; j < Way::GROUPS; j++)
        UNROLL_FOR (int c = 0; c < 4; c++) {
            int t = j * 8 + lane() % 4 * 2 + c % 2, r = lane() / 4 + c / 2 * 8;
            if (!s.any || t >= s.tokens) continue;
            if (a.split)
                keep(part, s, s.tokens, t, r, total[j][c]);
            else if (!a.x_backs)
                finish(a, s.p, s.token + t, s.tile * 16 + r, total[j][c]);
            else if (c % 2 == 0) /* the lane has both */
                finish_pair(a, s.p, (s.token + t) / 2, s.tile * 16 + r, total[j][c], total[j][c + 1]);
        }
    barrier();
    if (!a.split || !s.any) return;
    if (a.x_backs)
        finish_split_pairs(a, s, s.tokens, part);
    else
        finish_split(a, s, s.tokens, part);
}

#endif
