/* scaled.c - quantizers of types whose groups have a scale alone: q3_k q6_k iq4_nl iq4_xs q2_0, and
 * q4_0 q5_0 q8_0 where columns have weights or their own rule is not asked for.
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
typedef struct kind {
    float least, most; /* levels: the whole numbers from least to most; */
    bool table;        /* or those of iq4 */
    float first, step; /* the largest magnitude is tried as level least, first, first + step ... */
    int steps, turns;
    int groups, size;              /* of a block; of a group */
    float least_scale, most_scale; /* small ones, where groups > 1 */
    int starts, rounds;
    weighing weigh;
} kind;

/* The levels of iq4_nl, and where the nearest changes from one to the next. */
#define IQ4(X)                                                                                     \
    X(-127, -104) X(-104, -83) X(-83, -65) X(-65, -49) X(-49, -35) X(-35, -22) X(-22, -10)         \
    X(-10, 1) X(1, 13) X(13, 25) X(25, 38) X(38, 53) X(53, 69) X(69, 89) X(89, 113)

/* A whole number beyond the last level is cut off after the rounding, which far from it is none: it
 * stays beyond. */
INLINE vf level_of(const kind *k, vf x)
{
    if (!k->table) return vf_between(vf_round(x), k->least, k->most);
    vf y = vf_set(-127);
#define X(a, b) y += (vf)((x > 0.5f * ((a) + (b))) & (vi)vf_set((b) - (a)));
    IQ4(X)
#undef X
    return y;
}

/* Levels to codes. */
INLINE vf code_of(const kind *k, vf level)
{
    if (!k->table) return level - k->least;
    vi y = vi_set(0);
#define X(a, b) y -= level > 0.5f * ((a) + (b));
    IQ4(X)
#undef X
    return __builtin_convertvector(y, vf);
}

/* Sums over the nearest levels q of a scale and what they leave, r. */
typedef struct sums {
    vf qq, rq, rr; /* w q^2, w r q; w r^2, the error */
} sums;

INLINE void add_level(sums *s, vf x, vf w, vf scale, vf q)
{
    vf r = x - scale * q, wr = w * r;
    s->qq += w * q * q;
    s->rq += wr * q;
    s->rr += wr * r;
}

INLINE sums level_sums(const batch *b, const kind *k, vf scale)
{
    vf inverse = vf_ratio(vf_set(1), scale);
    sums s = {vf_set(0), vf_set(0), vf_set(0)};
    for (int j = 0; j < b->size; j++)
        add_level(&s, b->x[j], b->w[j], scale, level_of(k, b->x[j] * inverse));
    return s;
}

/* Of `scale` in s[1] and of -scale in s[0]: whose levels, and scale, are taken with the other sign,
 * which leaves every number as it is but for the sign of rq. */
INLINE void both_sums(const batch *b, const kind *k, vf scale, sums s[2])
{
    vf inverse = vf_ratio(vf_set(1), scale), zero = vf_set(0);
    s[0] = s[1] = (sums){zero, zero, zero};
    for (int j = 0; j < b->size; j++) {
        vf x = b->x[j], y = x * inverse;
        vf q = k->table ? -level_of(k, -y) : vf_between(vf_round(y), -k->most, -k->least);
        add_level(&s[0], x, b->w[j], scale, q);
        add_level(&s[1], x, b->w[j], scale, level_of(k, y));
    }
    s[0].rq = -s[0].rq;
}

/* Of a scale so large that all numbers are nearest to a level, so that none is cut off. */
INLINE sums whole_sums(const batch *b, vf scale)
{
    vf inverse = vf_ratio(vf_set(1), scale);
    sums s = {vf_set(0), vf_set(0), vf_set(0)};
    for (int j = 0; j < b->size; j++)
        add_level(&s, b->x[j], b->w[j], scale, vf_round(b->x[j] * inverse));
    return s;
}

/* A scale and the error it leaves. */
typedef struct found {
    vf scale, error;
} found;

/* The best scale for the levels of `scale`, whose sums are s, where it is better. */
INLINE void take_better(found *best, vf scale, const sums *s, vf margin)
{
    vf more = vf_ratio(s->rq, s->qq), left = s->rr - more * s->rq;
    left = vf_max(left, vf_set(0)) + 2e-6f * s->rr; /* at most, as rounding may have it */
    vi better = left < best->error - margin;
    best->scale = vf_choose(better, scale + more, best->scale);
    best->error = vf_choose(better, left, best->error);
}

/* Of both signs: the largest magnitude becomes -level, then level. Where no number is cut off by
 * either they leave the same, and the first is kept. (Of numbers below 2^-120, whose quotients may
 * be anything, squares are 0: no scale is better than none.) */
INLINE void try_level(const batch *b, const kind *k, found *best, float level, vf margin)
{
    vf scale = b->magnitude / level;
    sums s[2];
    if (!k->table && level < k->most + 0.4f && level < 0.4f - k->least) {
        s[0] = whole_sums(b, scale);
        s[0].rq = -s[0].rq;
        take_better(best, -scale, &s[0], margin);
        return;
    }
    both_sums(b, k, scale, s);
    take_better(best, -scale, &s[0], margin);
    take_better(best, scale, &s[1], margin);
}

/* The scales of least error. */
INLINE vf find_scale(const batch *b, const kind *k)
{
    vf margin = 1e-9f * b->sxx;
    found best = {vf_set(0), b->sxx};
    try_level(b, k, &best, -k->least, margin);
    for (int i = 0; i < k->steps; i++) {
        float level = k->first + k->step * (float)i;
        if (level != -k->least) try_level(b, k, &best, level, margin);
    }
    for (int i = 0; i < k->turns; i++) {
        sums s = level_sums(b, k, best.scale);
        take_better(&best, best.scale, &s, margin);
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
INLINE vf round_scale(const batch *b, const kind *k, vf scale)
{
    vf best = vf_set(0), error = vf_set(INFINITY);
    vi half = vf_halves(scale);
    for (int by = -1; by <= 1; by++) {
        vf s = next_half(half, by), left = level_sums(b, k, s).rr;
        vi better = left < error;
        best = vf_choose(better, s, best);
        error = vf_choose(better, left, error);
    }
    return best;
}

typedef void put_block(float d, const int8_t *scale, const uint8_t *code, uint8_t *out);

INLINE void write_codes(const batch *b, const kind *k, vf scale, int groups, uint8_t *out)
{
    vf code[GROUP], inverse = vf_ratio(vf_set(1), scale);
    for (int j = 0; j < b->size; j++) code[j] = code_of(k, level_of(k, b->x[j] * inverse));
    batch_codes(code, b->size, groups, out);
}

INLINE void quantize_groups(const kind *k, const batch *b, int groups, uint8_t *out, int bytes,
                            put_block *put)
{
    uint8_t codes[LANES * GROUP];
    float d[LANES];
    vf scale = round_scale(b, k, find_scale(b, k));
    write_codes(b, k, scale, groups, codes);
    vf_store(d, scale);
    for (int i = 0; i < groups; i++, out += bytes) put(d[i], NULL, codes + k->size * i, out);
}

/* ---- groups with a multiple of a block's scale ----------------------------------------------- */

/* Of sixteen groups, d alike in those of a block: x is d scale level. */
typedef struct plan {
    float d[SIXTEEN], scale[SIXTEEN], error[SIXTEEN];
} plan;

INLINE void choose_small(const batch *b, const kind *k, plan *p, int at, vf want)
{
    vf d = vf_load(p->d + at), best = vf_set(0), error = vf_set(INFINITY);
    vf about = vf_round(vf_between(vf_ratio(want, d), k->least_scale, k->most_scale));
    for (int i = 0; i < 3; i++) {
        vf scale = vf_between(about + (float)(i == 2 ? -1 : i), k->least_scale, k->most_scale);
        sums s = level_sums(b, k, d * scale);
        vi better = s.rr < error;
        best = vf_choose(better, scale, best);
        error = vf_choose(better, s.rr, error);
    }
    vf_store(p->scale + at, best);
    vf_store(p->error + at, error);
}

/* d by which the group of the largest scale has the multiple least_scale + less; for odd starts
 * the other sign. */
INLINE void span_block(const kind *k, plan *p, const float *want, int first, int start)
{
    float most = 0;
    for (int l = first; l < first + k->groups; l++)
        most = fabsf(want[l]) > fabsf(most) ? want[l] : most;
    float level = k->least_scale + (float)((start + 1) / 2);
    set_all(p->d + first, k->groups, half_of(most / (start & 1 ? -level : level)));
}

/* What the fit of d is made of, by group: sums of (scale q)^2 and scale q x, with weights. */
typedef struct moments {
    float a[SIXTEEN], u[SIXTEEN];
} moments;

INLINE void block_moments(const batch *b, const kind *k, const plan *p, int at, moments *to)
{
    vf small = vf_load(p->scale + at), scale = vf_load(p->d + at) * small;
    sums s = level_sums(b, k, scale);
    vf_store(to->a + at, small * small * s.qq);
    vf_store(to->u + at, small * (s.rq + scale * s.qq));
}

/* d of least error for the plan's levels and small scales. */
INLINE void fit_block(const moments *s, const kind *k, plan *p, int first)
{
    double a = sum_of(s->a + first, k->groups), u = sum_of(s->u + first, k->groups);
    set_all(p->d + first, k->groups, half_of(a > 0 ? (float)(u / a) : 0));
}

/* Groups of `to` in the block at `first` as those of `from`, where its sum of errors is less. */
INLINE void keep_better(plan *to, const plan *from, int first, int n)
{
    if (!(sum_of(from->error + first, n) < sum_of(to->error + first, n))) return;
    for (int l = first; l < first + n; l++) {
        to->d[l] = from->d[l];
        to->scale[l] = from->scale[l];
        to->error[l] = from->error[l];
    }
}

INLINE void find_plan(const batch b[PARTS], const kind *k, plan *best)
{
    vf want[PARTS];
    float all[SIXTEEN];
    plan p;
    moments s;
    for (int i = 0; i < PARTS; i++) {
        want[i] = find_scale(&b[i], k);
        vf_store(all + i * LANES, want[i]);
    }
    set_all(best->error, SIXTEEN, INFINITY);
    for (int turn = 0; turn < k->starts + k->rounds; turn++) {
        bool start = turn < k->starts;
        if (turn == k->starts) p = *best;
        for (int i = 0; !start && i < PARTS; i++) block_moments(&b[i], k, &p, i * LANES, &s);
        for (int at = 0; at < SIXTEEN; at += k->groups) {
            if (start)
                span_block(k, &p, all, at, turn);
            else
                fit_block(&s, k, &p, at);
        }
        for (int i = 0; i < PARTS; i++) choose_small(&b[i], k, &p, i * LANES, want[i]);
        for (int at = 0; at < SIXTEEN; at += k->groups) keep_better(best, &p, at, k->groups);
    }
}

INLINE void quantize_blocks(const kind *k, const batch *b, int blocks, uint8_t *out, int bytes,
                            put_block *put)
{
    uint8_t codes[512];
    int8_t small[SIXTEEN];
    plan p;
    find_plan(b, k, &p);
    for (int at = 0; at < blocks * k->groups; at += LANES) {
        int groups = blocks * k->groups - at < LANES ? blocks * k->groups - at : LANES;
        vf scale = vf_load(p.d + at) * vf_load(p.scale + at);
        write_codes(&b[at / LANES], k, scale, groups, codes + at * k->size);
    }
    for (int l = 0; l < SIXTEEN; l++) small[l] = (int8_t)p.scale[l];
    for (int i = 0; i < blocks; i++, out += bytes)
        put(p.d[i * k->groups], small + i * k->groups, codes + 256 * i, out);
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
        const uint8_t *c = code + 4 * j;
        out[2 + j] = (uint8_t)(c[0] | c[1] << 2 | c[2] << 4 | c[3] << 6);
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
        const uint8_t *c = code + i / 32 * 128 + i % 32;
        out[32 + i] =
            (uint8_t)((c[0] & 3) | (c[32] & 3) << 2 | (c[64] & 3) << 4 | (c[96] & 3) << 6);
    }
    for (int g = 0; g < 16; g++) {
        unsigned s = (unsigned)(scale[g] + 32);
        out[96 + g % 8] |= (uint8_t)((s & 15) << g / 8 * 4);
        out[104 + g % 4] |= (uint8_t)((s >> 4) << g / 4 * 2);
    }
    zt_put_half(out + 108, d);
}

static void put_q6_k(float d, const int8_t *scale, const uint8_t *code, uint8_t *out)
{
    for (int half = 0; half < 2; half++, code += 128, out += 64) {
        uint8_t *high = out + 128 - 32 * half;
        for (int j = 0; j < 32; j++) {
            const uint8_t *c = code + j;
            out[j] = (uint8_t)((c[0] & 15) | (c[64] & 15) << 4);
            out[32 + j] = (uint8_t)((c[32] & 15) | (c[96] & 15) << 4);
            high[j] = (uint8_t)(c[0] >> 4 | c[32] >> 4 << 2 | c[64] >> 4 << 4 | c[96] >> 4 << 6);
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
        unsigned s = (unsigned)(scale[g] + 32);
        high |= (s >> 4) << 2 * g;
        out[4 + g / 2] |= (uint8_t)((s & 15) << g % 2 * 4);
        put_halves(code + 32 * g, out + 8 + 16 * g);
    }
    out[2] = (uint8_t)high;
    out[3] = (uint8_t)(high >> 8);
}

#define TYPE(NAME, BYTES, HOW, ...)                                                                \
    static const kind NAME = {__VA_ARGS__};                                                        \
    static void some_##NAME(const batch *b, int units, uint8_t *out)                               \
    {                                                                                              \
        HOW(&NAME, b, units, out, BYTES, put_##NAME);                                              \
    }                                                                                              \
    void ZT_ENCODER(search_##NAME)(const float *x, const float *w, int64_t n, uint8_t *out)        \
    {                                                                                              \
        batch_each(some_##NAME, NAME.groups, NAME.size, NAME.weigh, x, w, n, out, BYTES);          \
    }
TYPE(q4_0, 18, quantize_groups, -8, 7, false, 6, 0.5f, 6, 2, 1, 32, 0, 0, 0, 0, {1, 4})
TYPE(q5_0, 22, quantize_groups, -16, 15, false, 14, 0.5f, 6, 2, 1, 32, 0, 0, 0, 0, {1, 4})
TYPE(q8_0, 34, quantize_groups, -127, 127, false, 126, 0.5f, 3, 2, 1, 32, 0, 0, 0, 0, {1, 4})
TYPE(iq4_nl, 18, quantize_groups, -127, 113, true, 100, 3, 12, 2, 1, 32, 0, 0, 0, 0, {1, 4})
TYPE(q2_0, 18, quantize_groups, -1, 2, false, 1.1f, 0.1f, 16, 2, 1, 64, 0, 0, 0, 0, {0, 0})
TYPE(q3_k, 110, quantize_blocks, -4, 3, false, 2.5f, 0.15f, 16, 2, 16, 16, -32, 31, 3, 2, {1, 4})
TYPE(q6_k, 210, quantize_blocks, -32, 31, false, 29, 0.25f, 16, 2, 16, 16, -128, 127, 3, 2, {1, 4})
TYPE(iq4_xs, 136, quantize_blocks, -127, 113, true, 100, 3, 12, 2, 8, 32, -32, 31, 3, 2, {1, 4})
