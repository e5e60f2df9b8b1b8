/* affine.c - quantizers of types whose groups have a scale and a minimum: q2_k q4_k q5_k, and q4_1
 * q5_1 where columns have weights or their own rule is not asked for.
 *
 * A group x is taken as scale code + low, code from 0 to `top`. For given codes the best scale and
 * low are a weighted straight-line fit in closed form; for given scale and low the best codes are
 * the nearest. The search starts from a row of scales about the one that spans the group, takes for
 * each the nearest codes and their fit, and goes on from the best, fit and codes in turn. K-quants
 * then round scales and minima to whole multiples of two numbers of the block: those multiples are
 * chosen anew by the error they leave, and the two numbers fitted to all codes of the block, in
 * turn.
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

/* A code q of a number whose distance from the line's low is x. */
INLINE void add_code(sums *s, vf x, vf w, vf scale, vf q)
{
    vf r = x - scale * q, wq = w * q, wr = w * r;
    s->q += wq;
    s->qq += wq * q;
    s->r += wr;
    s->rq += wr * q;
    s->rr += wr * r;
}

#define NO_SUMS ((sums){vf_set(0), vf_set(0), vf_set(0), vf_set(0), vf_set(0)})

INLINE sums code_sums(const batch *b, vf scale, vf low, float top)
{
    vf inverse = vf_ratio(vf_set(1), scale);
    sums s = NO_SUMS;
    for (int j = 0; j < b->size; j++) {
        vf x = b->x[j] - low;
        add_code(&s, x, b->w[j], scale, vf_round(vf_between(x * inverse, 0, top)));
    }
    return s;
}

/* The line of least error through codes found by f: scale not negative, low at most `ceiling`, and
 * as it is where all codes are one. */
INLINE line fit(const batch *b, const sums *s, line f, vf ceiling)
{
    vf all = b->sw * s->qq, det = all - s->q * s->q;
    vi one = det <= 1e-5f * all;
    vf low = vf_choose(one, vf_set(0), vf_ratio(s->qq * s->r - s->q * s->rq, det));
    vf most = ceiling - f.low;
    vi over = low > most;
    low = vf_choose(over, most, low);
    vf scale = vf_ratio(b->sw * s->rq - s->q * s->r, det);
    if (vi_any(one | over))
        scale = vf_choose(one | over, vf_ratio(s->rq - low * s->q, s->qq), scale);
    f.error = s->rr + scale * scale * s->qq + low * low * b->sw +
              2 * (scale * low * s->q - scale * s->rq - low * s->r);
    f.error = vf_max(f.error, vf_set(0)) + 2e-6f * s->rr; /* at most, as rounding may have it */
    f.scale += scale;
    f.low += low;
    f.error = vf_choose(f.scale < 0, vf_set(INFINITY), f.error);
    return f;
}

/* Not for what only rounding sees: where all lines leave nothing, all groups keep the same. */
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

/* Of a line from the least number on or from below, for x, the numbers' distances from there; where
 * the largest is nearest to `top` or below, `whole`, no code is cut off. */
INLINE sums start_sums(const batch *b, const vf *x, vf scale, float top, bool whole)
{
    vf inverse = vf_ratio(vf_set(1), scale);
    sums s = NO_SUMS;
    for (int j = 0; j < b->size; j++) {
        vf q = vf_round(x[j] * inverse);
        add_code(&s, x[j], b->w[j], scale, whole ? q : vf_between(q, 0, top));
    }
    return s;
}

INLINE line find_line(const batch *b, const search *how, vf ceiling)
{
    vf low = vf_min(b->least, ceiling), span = b->most - low, x[GROUP], margin = 1e-9f * b->sxx;
    bool tiny = vi_any((span != 0) & (span < 0x1p-100f)); /* too small to be divided by */
    line best = {span / how->top, low, vf_set(INFINITY)};
    for (int j = 0; j < b->size; j++) x[j] = b->x[j] - low;
    for (int k = 0; k <= how->steps; k++) {
        float top = k ? how->top + how->first + how->step * (float)k : how->top;
        line f = {span / top, low, low};
        bool whole = !tiny && top < how->top + 0.4f;
        sums s = whole ? start_sums(b, x, f.scale, how->top, true)
                       : start_sums(b, x, f.scale, how->top, false);
        f = fit(b, &s, f, ceiling);
        take_better(&best, &f, margin);
    }
    for (int k = 0; k < how->turns; k++) {
        sums s = code_sums(b, best.scale, best.low, how->top);
        line f = fit(b, &s, best, ceiling);
        take_better(&best, &f, margin);
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
    weighing weigh;
} kind;

/* Small scales and minima of sixteen groups, whole numbers, and what they are multiples of, alike
 * in the groups of a block: x is d scale code - e min. */
typedef struct plan {
    float d[SIXTEEN], e[SIXTEEN], scale[SIXTEEN], min[SIXTEEN], error[SIXTEEN];
} plan;

/* The same of a batch. */
typedef struct part {
    vf d, e, scale, min, error;
} part;

/* What is left by a small scale and minimum; in *r the sum of w r, which shows a better minimum. */
INLINE vf small_error(const batch *b, const kind *k, const part *p, vf scale, vf min, vf *r)
{
    sums s = code_sums(b, p->d * scale, -p->e * min, k->how.top);
    *r = s.r;
    return s.rr;
}

INLINE void keep_small(part *p, vf scale, vf min, vf error)
{
    vi better = error < p->error;
    p->scale = vf_choose(better, scale, p->scale);
    p->min = vf_choose(better, min, p->min);
    p->error = vf_choose(better, error, p->error);
}

/* For the small scale `scale` the best small minimum, from `min` on; kept where it is better. */
INLINE void try_scale(const batch *b, const kind *k, part *p, vf scale, vf min)
{
    vf r, none;
    keep_small(p, scale, min, small_error(b, k, p, scale, min, &r));
    vf next = vf_round(vf_between(min - vf_ratio(r, b->sw * p->e), 0, k->most));
    if (vi_any(next != min)) keep_small(p, scale, next, small_error(b, k, p, scale, next, &none));
}

/* All small scales and minima anew, for the plan's d and e. */
INLINE void choose_small(const batch *b, const kind *k, plan *to, int at, const line *f)
{
    part p = {.d = vf_load(to->d + at), .e = vf_load(to->e + at), .error = vf_set(INFINITY)};
    vf scale = vf_round(vf_between(vf_ratio(f->scale, p.d), 0, k->most));
    vf min = vf_round(vf_between(vf_ratio(-f->low, p.e), 0, k->most));
    p.scale = p.min = vf_set(0);
    try_scale(b, k, &p, scale, min);
    try_scale(b, k, &p, vf_min(scale + 1, vf_set(k->most)), min);
    try_scale(b, k, &p, vf_max(scale - 1, vf_set(0)), min);
    vf_store(to->scale + at, p.scale);
    vf_store(to->min + at, p.min);
    vf_store(to->error + at, p.error);
}

/* d and e by which the largest of the block's lines has `less` below the largest small numbers. */
INLINE void span_block(const float *scale, const float *min, const kind *k, plan *p, int first,
                       float less)
{
    float d = most_of(scale + first, k->groups) / (k->most - less);
    float e = most_of(min + first, k->groups) / (k->most - less);
    set_all(p->d + first, k->groups, half_of(d));
    set_all(p->e + first, k->groups, half_of(e));
}

/* What the fit of d and e is made of, by group: sums of (scale q)^2, scale min q, min^2, scale q x
 * and min x, each with weights. */
typedef struct moments {
    float a[SIXTEEN], m[SIXTEEN], c[SIXTEEN], u[SIXTEEN], v[SIXTEEN];
} moments;

INLINE void block_moments(const batch *b, const kind *k, const plan *p, int at, moments *to)
{
    vf small = vf_load(p->scale + at), min = vf_load(p->min + at);
    vf scale = vf_load(p->d + at) * small, low = -vf_load(p->e + at) * min;
    sums s = code_sums(b, scale, low, k->how.top);
    vf_store(to->a + at, small * small * s.qq);
    vf_store(to->m + at, small * min * s.q);
    vf_store(to->c + at, min * min * b->sw);
    vf_store(to->u + at, small * (s.rq + scale * s.qq + low * s.q));
    vf_store(to->v + at, min * b->sx);
}

/* d and e of least error for the plan's codes and small numbers, in f16. */
INLINE void fit_block(const moments *s, const kind *k, plan *p, int first)
{
    double a = sum_of(s->a + first, k->groups), m = sum_of(s->m + first, k->groups);
    double c = sum_of(s->c + first, k->groups), u = sum_of(s->u + first, k->groups);
    double v = sum_of(s->v + first, k->groups), det = a * c - m * m, d = 0, e = 0;
    if (det > 1e-6 * a * c) {
        d = (u * c - m * v) / det;
        e = (u * m - v * a) / det;
    } else if (a > 0) {
        d = u / a;
    }
    set_all(p->d + first, k->groups, half_of((float)fmax(d, 0)));
    set_all(p->e + first, k->groups, half_of((float)fmax(e, 0)));
}

/* Groups of `to` in the block at `first` as those of `from`, where its sum of errors is less. */
INLINE void keep_better(plan *to, const plan *from, int first, int n)
{
    if (!(sum_of(from->error + first, n) < sum_of(to->error + first, n))) return;
    for (int l = first; l < first + n; l++) {
        to->d[l] = from->d[l];
        to->e[l] = from->e[l];
        to->scale[l] = from->scale[l];
        to->min[l] = from->min[l];
        to->error[l] = from->error[l];
    }
}

/* Does hardly anything but the rounding of d and e remain: then it is worth while to try more. */
INLINE bool nearly_exact(const batch b[PARTS], const plan *p)
{
    bool exact = true;
    for (int i = 0; i < PARTS; i++) {
        float all[LANES];
        vf_store(all, b[i].sxx);
        for (int l = 0; l < LANES; l++) exact &= !(p->error[i * LANES + l] > 1e-6f * all[l]);
    }
    return exact;
}

/* The plan of the blocks of sixteen groups. */
INLINE void find_plan(const batch b[PARTS], const kind *k, plan *best)
{
    line f[PARTS];
    float scale[SIXTEEN], min[SIXTEEN];
    plan p;
    moments s;
    int starts = k->starts;
    for (int i = 0; i < PARTS; i++) {
        f[i] = find_line(&b[i], &k->how, vf_set(0));
        vf_store(scale + i * LANES, f[i].scale);
        vf_store(min + i * LANES, -f[i].low);
    }
    set_all(best->error, SIXTEEN, INFINITY);
    for (int turn = 0; turn < starts + k->rounds; turn++) {
        if (turn == k->starts && nearly_exact(b, best)) starts = MORE_STARTS;
        if (turn == starts) p = *best;
        for (int i = 0; turn >= starts && i < PARTS; i++)
            block_moments(&b[i], k, &p, i * LANES, &s);
        for (int at = 0; at < SIXTEEN; at += k->groups) {
            if (turn < starts)
                span_block(scale, min, k, &p, at, (float)turn);
            else
                fit_block(&s, k, &p, at);
        }
        for (int i = 0; i < PARTS; i++) choose_small(&b[i], k, &p, i * LANES, &f[i]);
        for (int at = 0; at < SIXTEEN; at += k->groups) keep_better(best, &p, at, k->groups);
    }
}

/* Codes of sixteen groups, of which `groups` are wanted. */
INLINE void plan_codes(const batch b[PARTS], const kind *k, const plan *p, int groups, uint8_t *out)
{
    for (int i = 0; i < PARTS && i * LANES < groups; i++) {
        int at = i * LANES, here = groups - at < LANES ? groups - at : LANES;
        vf code[GROUP], scale = vf_load(p->d + at) * vf_load(p->scale + at);
        vf low = -vf_load(p->e + at) * vf_load(p->min + at), inverse = vf_ratio(vf_set(1), scale);
        for (int j = 0; j < b[i].size; j++) code[j] = code_of(b[i].x[j], low, inverse, k->how.top);
        batch_codes(code, b[i].size, here, out + at * b[i].size);
    }
}

/* ---- groups that are blocks ------------------------------------------------------------------ */

INLINE vf halves_of(vf a) { return vf_of_halves(vf_halves(a)); }

typedef void put_group(float scale, float low, const uint8_t *code, uint8_t *out);

INLINE void quantize_groups(const search *how, const batch *b, int groups, uint8_t *out, int bytes,
                            put_group *put)
{
    vf code[GROUP];
    uint8_t codes[LANES * GROUP];
    float scale[LANES], low[LANES];
    line f = find_line(b, how, vf_set(65504));
    f.scale = halves_of(f.scale);
    sums s = code_sums(b, f.scale, f.low, how->top);
    f.low = halves_of(vf_max(f.low + vf_ratio(s.r, b->sw), vf_set(-65504)));
    vf inverse = vf_ratio(vf_set(1), f.scale);
    for (int j = 0; j < 32; j++) code[j] = code_of(b->x[j], f.low, inverse, how->top);
    batch_codes(code, 32, groups, codes);
    vf_store(scale, f.scale), vf_store(low, f.low);
    for (int l = 0; l < groups; l++, out += bytes) put(scale[l], low[l], codes + 32 * l, out);
}

static void put_q4_1(float scale, float low, const uint8_t *code, uint8_t *out)
{
    zt_put_half(out, scale);
    zt_put_half(out + 2, low);
    put_halves(code, out + 4);
}

static void put_q5_1(float scale, float low, const uint8_t *code, uint8_t *out)
{
    zt_put_half(out, scale);
    zt_put_half(out + 2, low);
    put_fifth_bits(code, out + 4);
    put_halves(code, out + 8);
}

#define GROUPS(NAME, BYTES, ...)                                                                   \
    static void some_##NAME(const batch *b, int groups, uint8_t *out)                              \
    {                                                                                              \
        static const search how = {__VA_ARGS__};                                                   \
        quantize_groups(&how, b, groups, out, BYTES, put_##NAME);                                  \
    }                                                                                              \
    void ZT_ENCODER(search_##NAME)(const float *x, const float *w, int64_t n, uint8_t *out)        \
    {                                                                                              \
        batch_each(some_##NAME, 1, 32, (weighing){1, 4}, x, w, n, out, BYTES);                     \
    }
GROUPS(q4_1, 20, 15, -1, 0.2f, 10, 2)
GROUPS(q5_1, 24, 31, -1, 0.2f, 10, 2)

/* ---- blocks of groups ------------------------------------------------------------------------ */

/* What a block of 256 keeps, from its plan. */
typedef struct k_block {
    float d, e;
    uint8_t scale[16], min[16], code[256];
} k_block;

typedef void put_block(const k_block *b, uint8_t *out);

INLINE void quantize_blocks(const kind *k, const batch *b, int blocks, uint8_t *out, int bytes,
                            put_block *put)
{
    uint8_t codes[512];
    plan p;
    find_plan(b, k, &p);
    plan_codes(b, k, &p, blocks * k->groups, codes);
    for (int i = 0; i < blocks; i++, out += bytes) {
        int first = i * k->groups;
        k_block kb = {p.d[first], p.e[first], {0}, {0}, {0}};
        for (int g = 0; g < k->groups; g++) {
            kb.scale[g] = (uint8_t)p.scale[first + g];
            kb.min[g] = (uint8_t)p.min[first + g];
        }
        memcpy(kb.code, codes + 256 * i, 256);
        put(&kb, out);
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
    static const kind NAME = {__VA_ARGS__};                                                        \
    static void some_##NAME(const batch *b, int blocks, uint8_t *out)                              \
    {                                                                                              \
        quantize_blocks(&NAME, b, blocks, out, BYTES, put_##NAME);                                 \
    }                                                                                              \
    void ZT_ENCODER(search_##NAME)(const float *x, const float *w, int64_t n, uint8_t *out)        \
    {                                                                                              \
        batch_each(some_##NAME, NAME.groups, NAME.size, NAME.weigh, x, w, n, out, BYTES);          \
    }
K_QUANT(q2_k, 84, {3, -0.9f, 0.1f, 20, 2}, 16, 16, 15, 3, 2, {1, 4})
K_QUANT(q4_k, 144, {15, -1, 0.1f, 20, 2}, 8, 32, 63, 3, 2, {1, 4})
K_QUANT(q5_k, 176, {31, -1, 0.1f, 20, 2}, 8, 32, 63, 3, 2, {1, 4})
