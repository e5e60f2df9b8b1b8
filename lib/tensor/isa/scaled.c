/* scaled.c - quantizers of types whose groups have a scale alone: q3_k q6_k iq4_nl iq4_xs q2_0, and
 * q4_0 q5_0 q8_0 where columns have weights or their own rule is not wanted.
 *
 * A group x is taken as scale level, one of the type's levels: whole numbers, or the sixteen of the
 * iq4 types. For given levels the best scale is a weighted mean in closed form; for a given scale
 * the best levels are the nearest. The search starts from a row of scales of both signs, about the
 * one that puts the largest magnitude on the largest level, takes for each the nearest levels and
 * their scale, and goes on from the best, scale and levels in turn. Where scales are whole
 * multiples of one number of the block, those multiples are chosen anew by the error they leave,
 * and the number fitted to all levels of the block, in turn.
 */
#include "lib/tensor/isa/batch.h"
#include "lib/tensor/isa/encoders.h"

#include <math.h>

/* What a kind of block is. */
typedef struct block_kind {
    float least, most; /* levels: the whole numbers from least to most; */
    bool table;        /* or those of iq4 */
    float first, step; /* the largest magnitude is tried as level least, first, first + step ... */
    int steps, turns;
    int groups, size;              /* of a block; of a group */
    float least_scale, most_scale; /* small ones, where groups > 1 */
    int starts, rounds;
    weight_rule weigh;
} block_kind;

/* The levels of iq4_nl, and where the nearest changes from one to the next. */
// clang-format off
#define IQ4(X)                                                                                     \
    X(-127, -104) X(-104, -83) X(-83, -65) X(-65, -49) X(-49, -35) X(-35, -22) X(-22, -10)         \
    X(-10, 1) X(1, 13) X(13, 25) X(25, 38) X(38, 53) X(53, 69) X(69, 89) X(89, 113)
// clang-format on

/* A whole number beyond the last level is cut off after the rounding, which far from it is none: it
 * stays beyond. */
INLINE vf nearest_level(const block_kind *kind, vf x)
{
    if (!kind->table) return vf_between(vf_round(x), kind->least, kind->most);
    vf y = vf_set(-127);
#define X(a, b) y += (vf)((x > 0.5f * ((a) + (b))) & (vi)vf_set((b) - (a)));
    IQ4(X)
#undef X
    return y;
}

/* Levels to codes. */
INLINE vf code_of_level(const block_kind *kind, vf level)
{
    if (!kind->table) return level - kind->least;
    vi y = vi_set(0);
#define X(a, b) y -= level > 0.5f * ((a) + (b));
    IQ4(X)
#undef X
    return __builtin_convertvector(y, vf);
}

/* Sums over the nearest levels q of a scale and what they leave, r. */
typedef struct error_sums {
    vf qq, rq, rr; /* w q^2, w r q; w r^2, the error */
} error_sums;

INLINE void add_level(error_sums *sums, vf x, vf w, vf scale, vf q)
{
    vf r = x - scale * q, wr = w * r;
    sums->qq += w * q * q;
    sums->rq += wr * q;
    sums->rr += wr * r;
}

INLINE error_sums level_sums(const lane_batch *batch, const block_kind *kind, vf scale)
{
    vf inverse = vf_ratio(vf_set(1), scale);
    error_sums sums = {vf_set(0), vf_set(0), vf_set(0)};
    for (int j = 0; j < batch->size; j++)
        add_level(&sums, batch->x[j], batch->w[j], scale, nearest_level(kind, batch->x[j] * inverse));
    return sums;
}

/* Of `scale` in s[1] and of -scale in s[0]: whose levels, and scale, are taken with the other sign,
 * which leaves every number as it is but for the sign of rq. */
INLINE void both_sums(const lane_batch *batch, const block_kind *kind, vf scale, error_sums sums[2])
{
    vf inverse = vf_ratio(vf_set(1), scale), zero = vf_set(0);
    sums[0] = sums[1] = (error_sums){zero, zero, zero};
    for (int j = 0; j < batch->size; j++) {
        vf x = batch->x[j], y = x * inverse;
        vf q = kind->table ? -nearest_level(kind, -y) : vf_between(vf_round(y), -kind->most, -kind->least);
        add_level(&sums[0], x, batch->w[j], scale, q);
        add_level(&sums[1], x, batch->w[j], scale, nearest_level(kind, y));
    }
    sums[0].rq = -sums[0].rq;
}

/* Of a scale so large that all numbers are nearest to a level, so that none is cut off. */
INLINE error_sums whole_sums(const lane_batch *batch, vf scale)
{
    vf inverse = vf_ratio(vf_set(1), scale);
    error_sums sums = {vf_set(0), vf_set(0), vf_set(0)};
    for (int j = 0; j < batch->size; j++) add_level(&sums, batch->x[j], batch->w[j], scale, vf_round(batch->x[j] * inverse));
    return sums;
}

/* A scale and the error it leaves. */
typedef struct best_scale {
    vf scale, error;
} best_scale;

/* The best scale for the levels of `scale`, whose sums are s, where it is better. */
INLINE void keep_better_scale(best_scale *best, vf scale, const error_sums *sums, vf margin)
{
    vf step = vf_ratio(sums->rq, sums->qq), error = sums->rr - step * sums->rq;
    error = vf_max(error, vf_set(0)) + 2e-6f * sums->rr; /* at most, as rounding may have it */
    vi better = error < best->error - margin;
    best->scale = vf_select(better, scale + step, best->scale);
    best->error = vf_select(better, error, best->error);
}

/* Of both signs: the largest magnitude becomes -level, then level. Where no number is cut off by
 * either they leave the same, and the first is kept. (Of numbers below 2^-120, whose quotients may
 * be anything, squares are 0: no scale is better than none.) */
INLINE void try_level(const lane_batch *batch, const block_kind *kind, best_scale *best, float level, vf margin)
{
    vf scale = batch->magnitude / level;
    error_sums sums[2];
    if (!kind->table && level < kind->most + 0.4f && level < 0.4f - kind->least) {
        sums[0] = whole_sums(batch, scale);
        sums[0].rq = -sums[0].rq;
        keep_better_scale(best, -scale, &sums[0], margin);
        return;
    }
    both_sums(batch, kind, scale, sums);
    keep_better_scale(best, -scale, &sums[0], margin);
    keep_better_scale(best, scale, &sums[1], margin);
}

/* The scales of least error. */
INLINE vf find_scale(const lane_batch *batch, const block_kind *kind)
{
    vf margin = 1e-9f * batch->sxx;
    best_scale best = {vf_set(0), batch->sxx};
    try_level(batch, kind, &best, -kind->least, margin);
    for (int i = 0; i < kind->steps; i++) {
        float level = kind->first + kind->step * (float)i;
        if (level != -kind->least) try_level(batch, kind, &best, level, margin);
    }
    for (int i = 0; i < kind->turns; i++) {
        error_sums sums = level_sums(batch, kind, best.scale);
        keep_better_scale(&best, best.scale, &sums, margin);
    }
    return best.scale;
}

/* ---- groups that are blocks ------------------------------------------------------------------ */

/* The f16 a step above or below; of 0 the same sign's smallest. */
INLINE vf next_half(vi h, int by)
{
    vi next = (h & 0x7fff) + by, none = (next < 0) | (next > 0x7bff);
    return vf_of_halves(h + (~none & by));
}

/* The best of the f16 about a scale. */
INLINE vf round_scale(const lane_batch *batch, const block_kind *kind, vf scale)
{
    vf best = vf_set(0), error = vf_set(INFINITY);
    vi half = vf_halves(scale);
    for (int by = -1; by <= 1; by++) {
        vf tried = next_half(half, by), error_left = level_sums(batch, kind, tried).rr;
        vi better = error_left < error;
        best = vf_select(better, tried, best);
        error = vf_select(better, error_left, error);
    }
    return best;
}

typedef void put_block(float d, const int8_t *scale, const uint8_t *code, uint8_t *out);

INLINE void write_codes(const lane_batch *batch, const block_kind *kind, vf scale, int groups, uint8_t *out)
{
    vf code[GROUP], inverse = vf_ratio(vf_set(1), scale);
    for (int j = 0; j < batch->size; j++) code[j] = code_of_level(kind, nearest_level(kind, batch->x[j] * inverse));
    batch_codes(code, batch->size, groups, out);
}

INLINE void quantize_groups(const block_kind *kind, const lane_batch *batch, int groups, uint8_t *out, int bytes, put_block *put)
{
    uint8_t codes[LANES * GROUP];
    float d[LANES];
    vf scale = round_scale(batch, kind, find_scale(batch, kind));
    write_codes(batch, kind, scale, groups, codes);
    vf_store(d, scale);
    for (int i = 0; i < groups; i++, out += bytes) put(d[i], NULL, codes + kind->size * i, out);
}

/* ---- groups with a multiple of a block's scale ----------------------------------------------- */

/* Of sixteen groups, d alike in those of a block: x is d scale level. */
typedef struct block_plan {
    float d[SIXTEEN], scale[SIXTEEN], error[SIXTEEN];
} block_plan;

INLINE void choose_small(const lane_batch *batch, const block_kind *kind, block_plan *plan, int at, vf want)
{
    vf d = vf_load(plan->d + at), best = vf_set(0), error = vf_set(INFINITY);
    vf about = vf_round(vf_between(vf_ratio(want, d), kind->least_scale, kind->most_scale));
    for (int i = 0; i < 3; i++) {
        vf scale = vf_between(about + (float)(i == 2 ? -1 : i), kind->least_scale, kind->most_scale);
        error_sums sums = level_sums(batch, kind, d * scale);
        vi better = sums.rr < error;
        best = vf_select(better, scale, best);
        error = vf_select(better, sums.rr, error);
    }
    vf_store(plan->scale + at, best);
    vf_store(plan->error + at, error);
}

/* d by which the group of the largest scale has the multiple least_scale + less; for odd starts
 * the other sign. */
INLINE void span_block(const block_kind *kind, block_plan *plan, const float *want, int first, int start)
{
    float most = 0;
    for (int g = first; g < first + kind->groups; g++) most = fabsf(want[g]) > fabsf(most) ? want[g] : most;
    float level = kind->least_scale + (float)((start + 1) / 2);
    fill(plan->d + first, kind->groups, round_to_f16(most / (start & 1 ? -level : level)));
}

/* What the fit of d is made of, by group: sums of (scale q)^2 and scale q x, with weights. */
typedef struct fit_moments {
    float a[SIXTEEN], u[SIXTEEN];
} fit_moments;

INLINE void block_moments(const lane_batch *batch, const block_kind *kind, const block_plan *plan, int at, fit_moments *to)
{
    vf small = vf_load(plan->scale + at), scale = vf_load(plan->d + at) * small;
    error_sums sums = level_sums(batch, kind, scale);
    vf_store(to->a + at, small * small * sums.qq);
    vf_store(to->u + at, small * (sums.rq + scale * sums.qq));
}

/* d of least error for the plan's levels and small scales. */
INLINE void fit_block(const fit_moments *moments, const block_kind *kind, block_plan *plan, int first)
{
    double a = sum_in_order(moments->a + first, kind->groups), u = sum_in_order(moments->u + first, kind->groups);
    fill(plan->d + first, kind->groups, round_to_f16(a > 0 ? (float)(u / a) : 0));
}

/* Groups of `to` in the block at `first` as those of `from`, where its sum of errors is less. */
INLINE void keep_better_plan(block_plan *to, const block_plan *from, int first, int groups)
{
    if (!(sum_in_order(from->error + first, groups) < sum_in_order(to->error + first, groups))) return;
    for (int g = first; g < first + groups; g++) {
        to->d[g] = from->d[g];
        to->scale[g] = from->scale[g];
        to->error[g] = from->error[g];
    }
}

INLINE void find_plan(const lane_batch batch[PARTS], const block_kind *kind, block_plan *best)
{
    vf want[PARTS];
    float wanted[SIXTEEN];
    block_plan plan;
    fit_moments moments;
    for (int i = 0; i < PARTS; i++) {
        want[i] = find_scale(&batch[i], kind);
        vf_store(wanted + i * LANES, want[i]);
    }
    fill(best->error, SIXTEEN, INFINITY);
    for (int turn = 0; turn < kind->starts + kind->rounds; turn++) {
        bool start = turn < kind->starts;
        if (turn == kind->starts) plan = *best;
        for (int i = 0; !start && i < PARTS; i++) block_moments(&batch[i], kind, &plan, i * LANES, &moments);
        for (int at = 0; at < SIXTEEN; at += kind->groups) {
            if (start)
                span_block(kind, &plan, wanted, at, turn);
            else
                fit_block(&moments, kind, &plan, at);
        }
        for (int i = 0; i < PARTS; i++) choose_small(&batch[i], kind, &plan, i * LANES, want[i]);
        for (int at = 0; at < SIXTEEN; at += kind->groups) keep_better_plan(best, &plan, at, kind->groups);
    }
}

INLINE void quantize_blocks(const block_kind *kind, const lane_batch *batch, int blocks, uint8_t *out, int bytes, put_block *put)
{
    uint8_t codes[512];
    int8_t small[SIXTEEN];
    block_plan plan;
    find_plan(batch, kind, &plan);
    for (int at = 0; at < blocks * kind->groups; at += LANES) {
        int groups = blocks * kind->groups - at < LANES ? blocks * kind->groups - at : LANES;
        vf scale = vf_load(plan.d + at) * vf_load(plan.scale + at);
        write_codes(&batch[at / LANES], kind, scale, groups, codes + at * kind->size);
    }
    for (int g = 0; g < SIXTEEN; g++) small[g] = (int8_t)plan.scale[g];
    for (int i = 0; i < blocks; i++, out += bytes) put(plan.d[i * kind->groups], small + i * kind->groups, codes + 256 * i, out);
}

/* ---- layouts: as dtype_blocks.c, dtype_k.c and dtype_iq.c draw them -------------------------- */

static void put_q4_0(float d, const int8_t *scale, const uint8_t *code, uint8_t *out)
{
    (void)scale;
    zt_put_half(out, d);
    put_halves(code, out + 2);
}
#define put_iq4_nl put_q4_0

static void put_q5_0(float d, const int8_t *scale, const uint8_t *code, uint8_t *out)
{
    (void)scale;
    zt_put_half(out, d);
    put_fifth_bits(code, out + 2);
    put_halves(code, out + 6);
}

static void put_q8_0(float d, const int8_t *scale, const uint8_t *code, uint8_t *out)
{
    (void)scale;
    zt_put_half(out, d);
    for (int j = 0; j < 32; j++) out[2 + j] = (uint8_t)(code[j] - 127);
}

static void put_q2_0(float d, const int8_t *scale, const uint8_t *code, uint8_t *out)
{
    (void)scale;
    zt_put_half(out, d);
    for (int j = 0; j < 16; j++) {
        const uint8_t *codes = code + 4 * j;
        out[2 + j] = (uint8_t)(codes[0] | codes[1] << 2 | codes[2] << 4 | codes[3] << 6);
    }
}

static void put_q3_k(float d, const int8_t *scale, const uint8_t *code, uint8_t *out)
{
    memset(out + 96, 0, 12);
    for (int j = 0; j < 32; j++) {
        unsigned high = 0;
        for (int i = 0; i < 8; i++) high |= (unsigned)(code[32 * i + j] >> 2) << i;
        out[j] = (uint8_t)high;
    }
    for (int i = 0; i < 64; i++) {
        const uint8_t *codes = code + i / 32 * 128 + i % 32;
        out[32 + i] = (uint8_t)((codes[0] & 3) | (codes[32] & 3) << 2 | (codes[64] & 3) << 4 | (codes[96] & 3) << 6);
    }
    for (int g = 0; g < 16; g++) {
        unsigned biased = (unsigned)(scale[g] + 32);
        out[96 + g % 8] |= (uint8_t)((biased & 15) << g / 8 * 4);
        out[104 + g % 4] |= (uint8_t)((biased >> 4) << g / 4 * 2);
    }
    zt_put_half(out + 108, d);
}

static void put_q6_k(float d, const int8_t *scale, const uint8_t *code, uint8_t *out)
{
    for (int half = 0; half < 2; half++, code += 128, out += 64) {
        uint8_t *high = out + 128 - 32 * half;
        for (int j = 0; j < 32; j++) {
            const uint8_t *codes = code + j;
            out[j] = (uint8_t)((codes[0] & 15) | (codes[64] & 15) << 4);
            out[32 + j] = (uint8_t)((codes[32] & 15) | (codes[96] & 15) << 4);
            high[j] = (uint8_t)(codes[0] >> 4 | codes[32] >> 4 << 2 | codes[64] >> 4 << 4 | codes[96] >> 4 << 6);
        }
    }
    out -= 128;
    memcpy(out + 192, scale, 16);
    zt_put_half(out + 208, d);
}

/* f16 d, the upper two bits of the eight scales, their lower four, then codes of 32 as in q4_0. */
static void put_iq4_xs(float d, const int8_t *scale, const uint8_t *code, uint8_t *out)
{
    unsigned high = 0;
    zt_put_half(out, d);
    memset(out + 4, 0, 4);
    for (int g = 0; g < 8; g++) {
        unsigned biased = (unsigned)(scale[g] + 32);
        high |= (biased >> 4) << 2 * g;
        out[4 + g / 2] |= (uint8_t)((biased & 15) << g % 2 * 4);
        put_halves(code + 32 * g, out + 8 + 16 * g);
    }
    out[2] = (uint8_t)high;
    out[3] = (uint8_t)(high >> 8);
}

// clang-format off
#define TYPE(NAME, BYTES, HOW, ...)                                                                \
    static const block_kind NAME = {__VA_ARGS__};                                                        \
    static void some_##NAME(const lane_batch *b, int units, uint8_t *out)                               \
    {                                                                                              \
        HOW(&NAME, b, units, out, BYTES, put_##NAME);                                              \
    }                                                                                              \
    void ZT_ENCODER(search_##NAME)(const float *x, const float *w, int64_t n, uint8_t *out)        \
    {                                                                                              \
        batch_each(some_##NAME, NAME.groups, NAME.size, NAME.weigh, x, w, n, out, BYTES);          \
    }
// clang-format on
TYPE(q4_0, 18, quantize_groups, -8, 7, false, 6, 0.5f, 6, 2, 1, 32, 0, 0, 0, 0, {1, 4})
TYPE(q5_0, 22, quantize_groups, -16, 15, false, 14, 0.5f, 6, 2, 1, 32, 0, 0, 0, 0, {1, 4})
TYPE(q8_0, 34, quantize_groups, -127, 127, false, 126, 0.5f, 3, 2, 1, 32, 0, 0, 0, 0, {1, 4})
TYPE(iq4_nl, 18, quantize_groups, -127, 113, true, 100, 3, 12, 2, 1, 32, 0, 0, 0, 0, {1, 4})
TYPE(q2_0, 18, quantize_groups, -1, 2, false, 1.1f, 0.1f, 16, 2, 1, 64, 0, 0, 0, 0, {0, 0})
TYPE(q3_k, 110, quantize_blocks, -4, 3, false, 2.5f, 0.15f, 16, 2, 16, 16, -32, 31, 3, 2, {1, 4})
TYPE(q6_k, 210, quantize_blocks, -32, 31, false, 29, 0.25f, 16, 2, 16, 16, -128, 127, 3, 2, {1, 4})
TYPE(iq4_xs, 136, quantize_blocks, -127, 113, true, 100, 3, 12, 2, 8, 32, -32, 31, 3, 2, {1, 4})
