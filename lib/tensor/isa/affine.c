/* affine.c - quantizers of types whose groups have a scale and a minimum: q2_k q4_k q5_k, and q4_1
 * q5_1 where columns have weights.
 *
 * A group x is taken as scale code + low, code from 0 to `top`. For given codes the best scale and
 * low are a weighted straight-line fit in closed form; for given scale and low the best codes are the
 * nearest. The search starts from a row of scales about the one that spans the group, takes for each
 * the nearest codes and their fit, and goes on from the best, fit and codes in turn. K-quants then
 * round scales and minima to whole multiples of two numbers of the block: those multiples are chosen
 * anew by the error they leave, and the two numbers fitted to all codes of the block, in turn.
 */
#include "lib/tensor/isa/batch.h"
#include "lib/tensor/isa/encoders.h"

#include <math.h>

typedef struct line {
    vf scale, low;
    vf error;
} line;

/* Sums over the nearest codes q of a line and what they leave, r: so that small errors do not drown
 * in the rounding of large sums. */
typedef struct sums {
    vf q, qq;     /* w q, w q^2 */
    vf r, rq, rr; /* w r, w r q; w r^2, the error */
} sums;

INLINE vf code_of(vf x, vf low, vf inverse, float top)
{
    return vf_round(vf_between((x - low) * inverse, 0, top));
}

INLINE sums code_sums(const batch *b, vf scale, vf low, float top)
{
    vf inverse = vf_ratio(vf_set(1), scale), zero = vf_set(0);
    sums s = {zero, zero, zero, zero, zero};
    for (int j = 0; j < b->size; j++) {
        vf x = b->x[j] - low, q = vf_round(vf_between(x * inverse, 0, top)), r = x - scale * q;
        vf wq = b->w[j] * q, wr = b->w[j] * r;
        s.q += wq;
        s.qq += wq * q;
        s.r += wr;
        s.rq += wr * q;
        s.rr += wr * r;
    }
    return s;
}

/* The line of least error through codes found by f: scale not negative, low at most `ceiling`, and as
 * it is where all codes are one. */
INLINE line fit(const batch *b, const sums *s, line f, vf ceiling)
{
    vf all = b->sw * s->qq, det = all - s->q * s->q;
    vi one = det <= 1e-5f * all;
    vf low = vf_choose(one, vf_set(0), vf_ratio(s->qq * s->r - s->q * s->rq, det));
    vf most = ceiling - f.low;
    vi over = low > most;
    low = vf_choose(over, most, low);
    vf scale = vf_choose(one | over, vf_ratio(s->rq - low * s->q, s->qq),
                         vf_ratio(b->sw * s->rq - s->q * s->r, det));
    f.error = s->rr + scale * scale * s->qq + low * low * b->sw +
              2 * (scale * low * s->q - scale * s->rq - low * s->r);
    f.error = vf_max(f.error, vf_set(0)) + 2e-6f * s->rr; /* at most, as rounding may have it */
    f.scale += scale;
    f.low += low;
    f.error = vf_choose(f.scale < 0, vf_set(INFINITY), f.error);
    return f;
}

/* Not for what only rounding sees: lines that leave nothing are alike, and groups then stay alike. */
INLINE void take_better(line *best, const line *f, vf margin)
{
    vi better = f->error < best->error - margin;
    best->scale = vf_choose(better, f->scale, best->scale);
    best->low = vf_choose(better, f->low, best->low);
    best->error = vf_choose(better, f->error, best->error);
}

/* steps starts from first codes above the full span on, `step` apart, then `turns` turns. */
typedef struct search {
    float top, first, step;
    int steps, turns;
} search;

INLINE line find_line(const batch *b, const search *how, vf ceiling)
{
    vf low = vf_min(b->least, ceiling), span = b->most - low;
    line best = {span / how->top, low, vf_set(INFINITY)};
    for (int k = 0; k <= how->steps + how->turns; k++) {
        line f = best;
        if (k > 0 && k <= how->steps)
            f = (line){span / (how->top + how->first + how->step * (float)k), low, low};
        sums s = code_sums(b, f.scale, f.low, how->top);
        f = fit(b, &s, f, ceiling);
        take_better(&best, &f, 1e-9f * b->sxx);
    }
    return best;
}

/* ---- K-quants -------------------------------------------------------------------------------- */

enum { MORE_STARTS = 12 };

/* What a kind of block is. */
typedef struct kind {
    search how;
    int groups, size; /* of a block; of a group */
    float most;       /* the largest small scale or minimum */
    int starts, rounds;
} kind;

/* Small scales and minima of the groups, whole numbers, and what they are multiples of. */
typedef struct plan {
    vf d, e;   /* by lane, alike in the lanes of a block: x is d scale code - e min */
    vf scale, min;
    vf error;
} plan;

/* For the small scale `scale` the best small minimum, from `min` on; kept in p where it is better. */
INLINE void try_scale(const batch *b, const kind *k, plan *p, vf scale, vf min)
{
    for (int turn = 0; turn < 2; turn++) {
        sums s = code_sums(b, p->d * scale, -p->e * min, k->how.top);
        vi better = s.rr < p->error;
        p->scale = vf_choose(better, scale, p->scale);
        p->min = vf_choose(better, min, p->min);
        p->error = vf_choose(better, s.rr, p->error);
        min = vf_round(vf_between(min - vf_ratio(s.r, b->sw * p->e), 0, k->most));
    }
}

/* All small scales and minima anew, for p's d and e. */
INLINE void choose_small(const batch *b, const kind *k, plan *p, const line *f)
{
    vf scale = vf_round(vf_between(vf_ratio(f->scale, p->d), 0, k->most));
    vf min = vf_round(vf_between(vf_ratio(-f->low, p->e), 0, k->most));
    p->error = vf_set(INFINITY);
    try_scale(b, k, p, scale, min);
    try_scale(b, k, p, vf_min(scale + 1, vf_set(k->most)), min);
    try_scale(b, k, p, vf_max(scale - 1, vf_set(0)), min);
}

INLINE float half_of(float f) { return zt_f16_to_f32(zt_f32_to_f16(f)); }

/* d and e by which the largest of the block's lines has `less` below the largest small numbers. */
INLINE void span_block(const line *f, const kind *k, plan *p, int first, float less)
{
    float d = lane_most(f->scale, first, k->groups) / (k->most - less);
    float e = lane_most(-f->low, first, k->groups) / (k->most - less);
    p->d = lanes_set(p->d, first, k->groups, half_of(d));
    p->e = lanes_set(p->e, first, k->groups, half_of(e));
}

/* d and e of least error for p's codes and small numbers, in f16. */
INLINE void fit_block(const batch *b, const kind *k, plan *p, int first)
{
    vf scale = p->d * p->scale, low = -p->e * p->min;
    sums s = code_sums(b, scale, low, k->how.top);
    vf xq = s.rq + scale * s.qq + low * s.q;
    double a = lane_sum(p->scale * p->scale * s.qq, first, k->groups);
    double m = lane_sum(p->scale * p->min * s.q, first, k->groups);
    double c = lane_sum(p->min * p->min * b->sw, first, k->groups);
    double u = lane_sum(p->scale * xq, first, k->groups);
    double v = lane_sum(p->min * b->sx, first, k->groups);
    double det = a * c - m * m, d = 0, e = 0;
    if (det > 1e-6 * a * c) {
        d = (u * c - m * v) / det;
        e = (u * m - v * a) / det;
    } else if (a > 0) {
        d = u / a;
    }
    p->d = lanes_set(p->d, first, k->groups, half_of((float)fmax(d, 0)));
    p->e = lanes_set(p->e, first, k->groups, half_of((float)fmax(e, 0)));
}

/* Lanes of `to` in the block at `first` as those of `from`, where its sum of errors is less. */
INLINE void keep_better(plan *to, const plan *from, int first, int n)
{
    if (!(lane_sum(from->error, first, n) < lane_sum(to->error, first, n))) return;
    float mask[LANES] = {0};
    for (int l = first; l < first + n; l++) mask[l] = 1;
    vi in = vf_load(mask) > 0;
    to->d = vf_choose(in, from->d, to->d);
    to->e = vf_choose(in, from->e, to->e);
    to->scale = vf_choose(in, from->scale, to->scale);
    to->min = vf_choose(in, from->min, to->min);
    to->error = vf_choose(in, from->error, to->error);
}

/* Does hardly anything but the rounding of d and e remain: then it is worth while to try more. */
INLINE bool nearly_exact(const batch *b, const plan *p)
{
    vi much = p->error > 1e-6f * b->sxx;
    int32_t v[LANES], any = 0;
    memcpy(v, &much, sizeof v);
    for (int l = 0; l < LANES; l++) any |= v[l];
    return !any;
}

/* The plan of the blocks of a batch, and its codes. */
INLINE plan find_plan(const batch *b, const kind *k, vf code[GROUP])
{
    line f = find_line(b, &k->how, vf_set(0));
    plan best = {.error = vf_set(INFINITY)}, p = best;
    int starts = k->starts;
    for (int start = 0; start < starts + k->rounds; start++) {
        if (start == k->starts && nearly_exact(b, &best)) starts = MORE_STARTS;
        if (start == starts) p = best;
        for (int at = 0; at < LANES; at += k->groups) {
            if (start < starts)
                span_block(&f, k, &p, at, (float)start);
            else
                fit_block(b, k, &p, at);
        }
        choose_small(b, k, &p, &f);
        for (int at = 0; at < LANES; at += k->groups) keep_better(&best, &p, at, k->groups);
    }
    vf scale = best.d * best.scale, inverse = vf_ratio(vf_set(1), scale);
    for (int j = 0; j < b->size; j++)
        code[j] = code_of(b->x[j], -best.e * best.min, inverse, k->how.top);
    return best;
}

/* ---- groups that are blocks ------------------------------------------------------------------ */

INLINE vf halves_of(vf a)
{
    float v[LANES];
    vf_store(v, a);
    for (int l = 0; l < LANES; l++) v[l] = half_of(v[l]);
    return vf_load(v);
}

typedef void put_group(float scale, float low, const uint8_t *code, uint8_t *out);

INLINE void quantize_groups(const search *how, const float *x, const float *w, int64_t n,
                            uint8_t *out, int bytes, put_group *put)
{
    for (int64_t left = n / 32; left > 0; left -= LANES) {
        int here = left < LANES ? (int)left : LANES;
        batch b;
        vf code[GROUP];
        uint8_t codes[LANES * GROUP];
        float scale[LANES], low[LANES];
        batch_load(&b, 32, x, w, here);
        line f = find_line(&b, how, vf_set(65504));
        f.scale = halves_of(f.scale);
        sums s = code_sums(&b, f.scale, f.low, how->top);
        f.low = halves_of(vf_max(f.low + vf_ratio(s.r, b.sw), vf_set(-65504)));
        vf inverse = vf_ratio(vf_set(1), f.scale);
        for (int j = 0; j < 32; j++) code[j] = code_of(b.x[j], f.low, inverse, how->top);
        batch_codes(code, 32, here, codes);
        vf_store(scale, f.scale), vf_store(low, f.low);
        for (int l = 0; l < here; l++, out += bytes) put(scale[l], low[l], codes + 32 * l, out);
        x += 32 * here;
        if (w) w += 32 * here;
    }
}

static void put_halves(const uint8_t *code, uint8_t *out)
{
    for (int j = 0; j < 16; j++) out[j] = (uint8_t)((code[j] & 15) | (code[16 + j] & 15) << 4);
}

static void put_q4_1(float scale, float low, const uint8_t *code, uint8_t *out)
{
    zt_put_half(out, scale);
    zt_put_half(out + 2, low);
    put_halves(code, out + 4);
}

static void put_q5_1(float scale, float low, const uint8_t *code, uint8_t *out)
{
    uint32_t high = 0;
    zt_put_half(out, scale);
    zt_put_half(out + 2, low);
    for (int j = 0; j < 32; j++) high |= (uint32_t)(code[j] >> 4) << j;
    memcpy(out + 4, &high, 4);
    put_halves(code, out + 8);
}

#define GROUPS(NAME, BYTES, ...)                                                                   \
    void ZT_ENCODER(search_##NAME)(const float *x, const float *w, int64_t n, uint8_t *out)        \
    {                                                                                              \
        static const search how = {__VA_ARGS__};                                                   \
        quantize_groups(&how, x, w, n, out, BYTES, put_##NAME);                                    \
    }
GROUPS(q4_1, 20, 15, -1, 0.1f, 20, 2)
GROUPS(q5_1, 24, 31, -1, 0.1f, 20, 2)

/* ---- blocks of groups ------------------------------------------------------------------------ */

/* What a block of 256 keeps, from its plan. */
typedef struct k_block {
    float d, e;
    uint8_t scale[16], min[16], code[256];
} k_block;

typedef void put_block(const k_block *b, uint8_t *out);

/* A batch is 16 / groups blocks. */
INLINE void k_quant(const kind *k, const float *x, const float *w, int64_t n, uint8_t *out,
                    int bytes, put_block *put)
{
    int step = LANES / k->groups;
    for (int64_t blocks = n / 256; blocks > 0; blocks -= step) {
        int here = blocks < step ? (int)blocks : step;
        batch b;
        vf code[GROUP];
        uint8_t codes[512];
        float d[LANES], e[LANES], scale[LANES], min[LANES];
        batch_load(&b, k->size, x, w, here * k->groups);
        plan p = find_plan(&b, k, code);
        batch_codes(code, k->size, here * k->groups, codes);
        vf_store(d, p.d), vf_store(e, p.e), vf_store(scale, p.scale), vf_store(min, p.min);
        for (int i = 0; i < here; i++, out += bytes) {
            k_block kb = {d[i * k->groups], e[i * k->groups], {0}, {0}, {0}};
            for (int g = 0; g < k->groups; g++) {
                kb.scale[g] = (uint8_t)scale[i * k->groups + g];
                kb.min[g] = (uint8_t)min[i * k->groups + g];
            }
            memcpy(kb.code, codes + 256 * i, 256);
            put(&kb, out);
        }
        x += 256 * here;
        if (w) w += 256 * here;
    }
}

/* The layouts are those that dtype_k.c draws. */
static void put_q2_k(const k_block *b, uint8_t *out)
{
    for (int g = 0; g < 16; g++) out[g] = (uint8_t)(b->scale[g] | b->min[g] << 4);
    for (int i = 0; i < 64; i++) {
        const uint8_t *c = b->code + i / 32 * 128 + i % 32;
        out[16 + i] = (uint8_t)(c[0] | c[32] << 2 | c[64] << 4 | c[96] << 6);
    }
    zt_put_half(out + 80, b->d);
    zt_put_half(out + 82, b->e);
}

static void put_six_bits(const k_block *b, uint8_t *out)
{
    const uint8_t *s = b->scale, *m = b->min;
    for (int j = 0; j < 4; j++) {
        out[j] = (uint8_t)(s[j] | (s[j + 4] >> 4) << 6);
        out[j + 4] = (uint8_t)(m[j] | (m[j + 4] >> 4) << 6);
        out[j + 8] = (uint8_t)((s[j + 4] & 15) | (m[j + 4] & 15) << 4);
    }
}

static void put_q4_k(const k_block *b, uint8_t *out)
{
    zt_put_half(out, b->d);
    zt_put_half(out + 2, b->e);
    put_six_bits(b, out + 4);
    for (int i = 0; i < 128; i++) {
        const uint8_t *c = b->code + i / 32 * 64 + i % 32;
        out[16 + i] = (uint8_t)(c[0] | c[32] << 4);
    }
}

static void put_q5_k(const k_block *b, uint8_t *out)
{
    zt_put_half(out, b->d);
    zt_put_half(out + 2, b->e);
    put_six_bits(b, out + 4);
    for (int j = 0; j < 32; j++) {
        unsigned high = 0;
        for (int k = 0; k < 8; k++) high |= (unsigned)(b->code[32 * k + j] >> 4) << k;
        out[16 + j] = (uint8_t)high;
    }
    for (int i = 0; i < 128; i++) {
        const uint8_t *c = b->code + i / 32 * 64 + i % 32;
        out[48 + i] = (uint8_t)((c[0] & 15) | (c[32] & 15) << 4);
    }
}

#define K_QUANT(NAME, BYTES, ...)                                                                  \
    void ZT_ENCODER(search_##NAME)(const float *x, const float *w, int64_t n, uint8_t *out)        \
    {                                                                                              \
        static const kind k = {__VA_ARGS__};                                                       \
        k_quant(&k, x, w, n, out, BYTES, put_##NAME);                                              \
    }
K_QUANT(q2_k, 84, {3, -0.9f, 0.1f, 20, 2}, 16, 16, 15, 3, 2)
K_QUANT(q4_k, 144, {15, -1, 0.1f, 20, 2}, 8, 32, 63, 3, 2)
K_QUANT(q5_k, 176, {31, -1, 0.1f, 20, 2}, 8, 32, 63, 3, 2)
