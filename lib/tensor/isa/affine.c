/* affine.c - quantizers of types whose groups have a scale and a minimum: q2_k q4_k q5_k, and q4_1
 * q5_1 where columns have weights or their own rule is not wanted.
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

typedef struct fitted_line {
    vf scale, low;
    vf error;
} fitted_line;

/* Sums over the nearest codes q of a line and what they leave, r: so that small errors do not drown
 * in the rounding of large sums. */
typedef struct error_sums {
    vf q, qq;     /* w q, w q^2 */
    vf r, rq, rr; /* w r, w r q; w r^2, the error */
} error_sums;

INLINE vf code_of_number(vf x, vf low, vf inverse, float top) { return vf_round(vf_between((x - low) * inverse, 0, top)); }

/* A code q of a number whose distance from the line's low is x. */
INLINE void add_code(error_sums *sums, vf x, vf w, vf scale, vf q)
{
    vf r = x - scale * q, wq = w * q, wr = w * r;
    sums->q += wq;
    sums->qq += wq * q;
    sums->r += wr;
    sums->rq += wr * q;
    sums->rr += wr * r;
}

#define NO_SUMS ((error_sums){vf_set(0), vf_set(0), vf_set(0), vf_set(0), vf_set(0)})

INLINE error_sums code_sums(const lane_batch *batch, vf scale, vf low, float top)
{
    vf inverse = vf_ratio(vf_set(1), scale);
    error_sums sums = NO_SUMS;
    for (int j = 0; j < batch->size; j++) {
        vf x = batch->x[j] - low;
        add_code(&sums, x, batch->w[j], scale, vf_round(vf_between(x * inverse, 0, top)));
    }
    return sums;
}

/* The line of least error through codes found by f: scale not negative, low at most `ceiling`, and
 * as it is where all codes are one. */
INLINE fitted_line fit_line(const lane_batch *batch, const error_sums *sums, fitted_line line, vf ceiling)
{
    vf weighted = batch->sw * sums->qq, det = weighted - sums->q * sums->q;
    vi one_code = det <= 1e-5f * weighted;
    vf low = vf_select(one_code, vf_set(0), vf_ratio(sums->qq * sums->r - sums->q * sums->rq, det));
    vf highest = ceiling - line.low;
    vi above = low > highest;
    low = vf_select(above, highest, low);
    vf scale = vf_ratio(batch->sw * sums->rq - sums->q * sums->r, det);
    if (vi_any(one_code | above)) scale = vf_select(one_code | above, vf_ratio(sums->rq - low * sums->q, sums->qq), scale);
    line.error = sums->rr + scale * scale * sums->qq + low * low * batch->sw +
                 2 * (scale * low * sums->q - scale * sums->rq - low * sums->r);
    line.error = vf_max(line.error, vf_set(0)) + 2e-6f * sums->rr; /* at most, as rounding may have it */
    line.scale += scale;
    line.low += low;
    line.error = vf_select(line.scale < 0, vf_set(INFINITY), line.error);
    return line;
}

/* Not for what only rounding sees: where all lines leave nothing, all groups keep the same. */
INLINE void keep_better_line(fitted_line *best, const fitted_line *line, vf margin)
{
    vi better = line->error < best->error - margin;
    best->scale = vf_select(better, line->scale, best->scale);
    best->low = vf_select(better, line->low, best->low);
    best->error = vf_select(better, line->error, best->error);
}

/* steps starts from first codes above the full span on, `step` apart, then `turns` turns. */
typedef struct line_search {
    float top, first, step;
    int steps, turns;
} line_search;

/* Of a line from the least number on or from below, for x, the numbers' distances from there; where
 * the largest is nearest to `top` or below, `whole`, no code is cut off. */
INLINE error_sums start_sums(const lane_batch *batch, const vf *x, vf scale, float top, bool whole)
{
    vf inverse = vf_ratio(vf_set(1), scale);
    error_sums sums = NO_SUMS;
    for (int j = 0; j < batch->size; j++) {
        vf q = vf_round(x[j] * inverse);
        add_code(&sums, x[j], batch->w[j], scale, whole ? q : vf_between(q, 0, top));
    }
    return sums;
}

INLINE fitted_line find_line(const lane_batch *batch, const line_search *search, vf ceiling)
{
    vf low = vf_min(batch->least, ceiling), span = batch->most - low, x[GROUP], margin = 1e-9f * batch->sxx;
    bool tiny = vi_any((span != 0) & (span < 0x1p-100f)); /* too small to be divided by */
    fitted_line best = {span / search->top, low, vf_set(INFINITY)};
    for (int j = 0; j < batch->size; j++) x[j] = batch->x[j] - low;
    for (int i = 0; i <= search->steps; i++) {
        float top = i ? search->top + search->first + search->step * (float)i : search->top;
        fitted_line line = {span / top, low, low};
        bool whole = !tiny && top < search->top + 0.4f;
        error_sums sums =
            whole ? start_sums(batch, x, line.scale, search->top, true) : start_sums(batch, x, line.scale, search->top, false);
        line = fit_line(batch, &sums, line, ceiling);
        keep_better_line(&best, &line, margin);
    }
    for (int i = 0; i < search->turns; i++) {
        error_sums sums = code_sums(batch, best.scale, best.low, search->top);
        fitted_line line = fit_line(batch, &sums, best, ceiling);
        keep_better_line(&best, &line, margin);
    }
    return best;
}

/* ---- K-quants -------------------------------------------------------------------------------- */

enum { MORE_STARTS = 12 };

/* What a kind of block is. */
typedef struct block_kind {
    line_search how;
    int groups, size; /* of a block; of a group */
    float most;       /* the largest small scale or minimum */
    int starts, rounds;
    weight_rule weigh;
} block_kind;

/* Small scales and minima of sixteen groups, whole numbers, and what they are multiples of, alike
 * in the groups of a block: x is d scale code - e min. */
typedef struct block_plan {
    float d[SIXTEEN], e[SIXTEEN], scale[SIXTEEN], min[SIXTEEN], error[SIXTEEN];
} block_plan;

/* The same of a batch. */
typedef struct plan_part {
    vf d, e, scale, min, error;
} plan_part;

/* What is left by a small scale and minimum; in *r the sum of w r, which shows a better minimum. */
INLINE vf small_error(const lane_batch *batch, const block_kind *kind, const plan_part *part, vf scale, vf min, vf *r)
{
    error_sums sums = code_sums(batch, part->d * scale, -part->e * min, kind->how.top);
    *r = sums.r;
    return sums.rr;
}

INLINE void keep_small(plan_part *part, vf scale, vf min, vf error)
{
    vi better = error < part->error;
    part->scale = vf_select(better, scale, part->scale);
    part->min = vf_select(better, min, part->min);
    part->error = vf_select(better, error, part->error);
}

/* For the small scale `scale` the best small minimum, from `min` on; kept where it is better. */
INLINE void try_scale(const lane_batch *batch, const block_kind *kind, plan_part *part, vf scale, vf min)
{
    vf r, none;
    keep_small(part, scale, min, small_error(batch, kind, part, scale, min, &r));
    vf next = vf_round(vf_between(min - vf_ratio(r, batch->sw * part->e), 0, kind->most));
    if (vi_any(next != min)) keep_small(part, scale, next, small_error(batch, kind, part, scale, next, &none));
}

/* All small scales and minima anew, for the plan's d and e. */
INLINE void choose_small(const lane_batch *batch, const block_kind *kind, block_plan *plan, int at, const fitted_line *line)
{
    plan_part part = {.d = vf_load(plan->d + at), .e = vf_load(plan->e + at), .error = vf_set(INFINITY)};
    vf scale = vf_round(vf_between(vf_ratio(line->scale, part.d), 0, kind->most));
    vf min = vf_round(vf_between(vf_ratio(-line->low, part.e), 0, kind->most));
    part.scale = part.min = vf_set(0);
    try_scale(batch, kind, &part, scale, min);
    try_scale(batch, kind, &part, vf_min(scale + 1, vf_set(kind->most)), min);
    try_scale(batch, kind, &part, vf_max(scale - 1, vf_set(0)), min);
    vf_store(plan->scale + at, part.scale);
    vf_store(plan->min + at, part.min);
    vf_store(plan->error + at, part.error);
}

/* d and e by which the largest of the block's lines has `less` below the largest small numbers. */
INLINE void span_block(const float *scale, const float *min, const block_kind *kind, block_plan *plan, int first, float less)
{
    float d = largest_of(scale + first, kind->groups) / (kind->most - less);
    float e = largest_of(min + first, kind->groups) / (kind->most - less);
    fill(plan->d + first, kind->groups, round_to_f16(d));
    fill(plan->e + first, kind->groups, round_to_f16(e));
}

/* What the fit of d and e is made of, by group: sums of (scale q)^2, scale min q, min^2, scale q x
 * and min x, each with weights. */
typedef struct fit_moments {
    float a[SIXTEEN], m[SIXTEEN], c[SIXTEEN], u[SIXTEEN], v[SIXTEEN];
} fit_moments;

INLINE void block_moments(const lane_batch *batch, const block_kind *kind, const block_plan *plan, int at, fit_moments *to)
{
    vf small = vf_load(plan->scale + at), min = vf_load(plan->min + at);
    vf scale = vf_load(plan->d + at) * small, low = -vf_load(plan->e + at) * min;
    error_sums sums = code_sums(batch, scale, low, kind->how.top);
    vf_store(to->a + at, small * small * sums.qq);
    vf_store(to->m + at, small * min * sums.q);
    vf_store(to->c + at, min * min * batch->sw);
    vf_store(to->u + at, small * (sums.rq + scale * sums.qq + low * sums.q));
    vf_store(to->v + at, min * batch->sx);
}

/* d and e of least error for the plan's codes and small numbers, in f16. */
INLINE void fit_block(const fit_moments *moments, const block_kind *kind, block_plan *plan, int first)
{
    double a = sum_in_order(moments->a + first, kind->groups), m = sum_in_order(moments->m + first, kind->groups);
    double c = sum_in_order(moments->c + first, kind->groups), u = sum_in_order(moments->u + first, kind->groups);
    double v = sum_in_order(moments->v + first, kind->groups), det = a * c - m * m, d = 0, e = 0;
    if (det > 1e-6 * a * c) {
        d = (u * c - m * v) / det;
        e = (u * m - v * a) / det;
    } else if (a > 0) {
        d = u / a;
    }
    fill(plan->d + first, kind->groups, round_to_f16((float)fmax(d, 0)));
    fill(plan->e + first, kind->groups, round_to_f16((float)fmax(e, 0)));
}

/* Groups of `to` in the block at `first` as those of `from`, where its sum of errors is less. */
INLINE void keep_better_plan(block_plan *to, const block_plan *from, int first, int groups)
{
    if (!(sum_in_order(from->error + first, groups) < sum_in_order(to->error + first, groups))) return;
    for (int g = first; g < first + groups; g++) {
        to->d[g] = from->d[g];
        to->e[g] = from->e[g];
        to->scale[g] = from->scale[g];
        to->min[g] = from->min[g];
        to->error[g] = from->error[g];
    }
}

/* Does hardly anything but the rounding of d and e remain: then it is worth while to try more. */
INLINE bool nearly_exact(const lane_batch batch[PARTS], const block_plan *plan)
{
    bool exact = true;
    for (int i = 0; i < PARTS; i++) {
        float squares[LANES];
        vf_store(squares, batch[i].sxx);
        for (int lane = 0; lane < LANES; lane++) exact &= !(plan->error[i * LANES + lane] > 1e-6f * squares[lane]);
    }
    return exact;
}

/* The plan of the blocks of sixteen groups. */
INLINE void find_plan(const lane_batch batch[PARTS], const block_kind *kind, block_plan *best)
{
    fitted_line lines[PARTS];
    float scale[SIXTEEN], min[SIXTEEN];
    block_plan plan;
    fit_moments moments;
    int starts = kind->starts;
    for (int i = 0; i < PARTS; i++) {
        lines[i] = find_line(&batch[i], &kind->how, vf_set(0));
        vf_store(scale + i * LANES, lines[i].scale);
        vf_store(min + i * LANES, -lines[i].low);
    }
    fill(best->error, SIXTEEN, INFINITY);
    for (int turn = 0; turn < starts + kind->rounds; turn++) {
        if (turn == kind->starts && nearly_exact(batch, best)) starts = MORE_STARTS;
        if (turn == starts) plan = *best;
        for (int i = 0; turn >= starts && i < PARTS; i++) block_moments(&batch[i], kind, &plan, i * LANES, &moments);
        for (int at = 0; at < SIXTEEN; at += kind->groups) {
            if (turn < starts)
                span_block(scale, min, kind, &plan, at, (float)turn);
            else
                fit_block(&moments, kind, &plan, at);
        }
        for (int i = 0; i < PARTS; i++) choose_small(&batch[i], kind, &plan, i * LANES, &lines[i]);
        for (int at = 0; at < SIXTEEN; at += kind->groups) keep_better_plan(best, &plan, at, kind->groups);
    }
}

/* Codes of sixteen groups, of which `groups` are wanted. */
INLINE void write_plan_codes(const lane_batch batch[PARTS], const block_kind *kind, const block_plan *plan, int groups,
                             uint8_t *out)
{
    for (int i = 0; i < PARTS && i * LANES < groups; i++) {
        int at = i * LANES, groups_here = groups - at < LANES ? groups - at : LANES;
        vf code[GROUP], scale = vf_load(plan->d + at) * vf_load(plan->scale + at);
        vf low = -vf_load(plan->e + at) * vf_load(plan->min + at), inverse = vf_ratio(vf_set(1), scale);
        for (int j = 0; j < batch[i].size; j++) code[j] = code_of_number(batch[i].x[j], low, inverse, kind->how.top);
        batch_codes(code, batch[i].size, groups_here, out + at * batch[i].size);
    }
}

/* ---- groups that are blocks ------------------------------------------------------------------ */

INLINE vf round_lanes_to_f16(vf a) { return vf_of_halves(vf_halves(a)); }

typedef void put_group(float scale, float low, const uint8_t *code, uint8_t *out);

INLINE void quantize_groups(const line_search *search, const lane_batch *batch, int groups, uint8_t *out, int bytes,
                            put_group *put)
{
    vf code[GROUP];
    uint8_t codes[LANES * GROUP];
    float scale[LANES], low[LANES];
    fitted_line line = find_line(batch, search, vf_set(65504));
    line.scale = round_lanes_to_f16(line.scale);
    error_sums sums = code_sums(batch, line.scale, line.low, search->top);
    line.low = round_lanes_to_f16(vf_max(line.low + vf_ratio(sums.r, batch->sw), vf_set(-65504)));
    vf inverse = vf_ratio(vf_set(1), line.scale);
    for (int j = 0; j < 32; j++) code[j] = code_of_number(batch->x[j], line.low, inverse, search->top);
    batch_codes(code, 32, groups, codes);
    vf_store(scale, line.scale), vf_store(low, line.low);
    for (int lane = 0; lane < groups; lane++, out += bytes) put(scale[lane], low[lane], codes + 32 * lane, out);
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

// clang-format off
#define GROUPS(NAME, BYTES, ...)                                                                   \
    static void some_##NAME(const lane_batch *b, int groups, uint8_t *out)                              \
    {                                                                                              \
        static const line_search how = {__VA_ARGS__};                                                   \
        quantize_groups(&how, b, groups, out, BYTES, put_##NAME);                                  \
    }                                                                                              \
    void ZT_ENCODER(search_##NAME)(const float *x, const float *w, int64_t n, uint8_t *out)        \
    {                                                                                              \
        batch_each(some_##NAME, 1, 32, (weight_rule){1, 4}, x, w, n, out, BYTES);                     \
    }
// clang-format on
GROUPS(q4_1, 20, 15, -1, 0.2f, 10, 2)
GROUPS(q5_1, 24, 31, -1, 0.2f, 10, 2)

/* ---- blocks of groups ------------------------------------------------------------------------ */

/* What a block of 256 keeps, from its plan. */
typedef struct k_block {
    float d, e;
    uint8_t scale[16], min[16], code[256];
} k_block;

typedef void put_block(const k_block *b, uint8_t *out);

INLINE void quantize_blocks(const block_kind *kind, const lane_batch *batch, int blocks, uint8_t *out, int bytes, put_block *put)
{
    uint8_t codes[512];
    block_plan plan;
    find_plan(batch, kind, &plan);
    write_plan_codes(batch, kind, &plan, blocks * kind->groups, codes);
    for (int i = 0; i < blocks; i++, out += bytes) {
        int first = i * kind->groups;
        k_block block = {plan.d[first], plan.e[first], {0}, {0}, {0}};
        for (int g = 0; g < kind->groups; g++) {
            block.scale[g] = (uint8_t)plan.scale[first + g];
            block.min[g] = (uint8_t)plan.min[first + g];
        }
        memcpy(block.code, codes + 256 * i, 256);
        put(&block, out);
    }
}

/* The layouts are those that dtype_k.c draws. */
static void put_q2_k(const k_block *block, uint8_t *out)
{
    for (int g = 0; g < 16; g++) out[g] = (uint8_t)(block->scale[g] | block->min[g] << 4);
    for (int i = 0; i < 64; i++) {
        const uint8_t *codes = block->code + i / 32 * 128 + i % 32;
        out[16 + i] = (uint8_t)(codes[0] | codes[32] << 2 | codes[64] << 4 | codes[96] << 6);
    }
    zt_put_half(out + 80, block->d);
    zt_put_half(out + 82, block->e);
}

static void put_six_bits(const k_block *block, uint8_t *out)
{
    const uint8_t *scale = block->scale, *min = block->min;
    for (int j = 0; j < 4; j++) {
        out[j] = (uint8_t)(scale[j] | (scale[j + 4] >> 4) << 6);
        out[j + 4] = (uint8_t)(min[j] | (min[j + 4] >> 4) << 6);
        out[j + 8] = (uint8_t)((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
    }
}

static void put_q4_k(const k_block *block, uint8_t *out)
{
    zt_put_half(out, block->d);
    zt_put_half(out + 2, block->e);
    put_six_bits(block, out + 4);
    for (int i = 0; i < 128; i++) {
        const uint8_t *codes = block->code + i / 32 * 64 + i % 32;
        out[16 + i] = (uint8_t)(codes[0] | codes[32] << 4);
    }
}

static void put_q5_k(const k_block *block, uint8_t *out)
{
    zt_put_half(out, block->d);
    zt_put_half(out + 2, block->e);
    put_six_bits(block, out + 4);
    for (int j = 0; j < 32; j++) {
        unsigned high = 0;
        for (int k = 0; k < 8; k++) high |= (unsigned)(block->code[32 * k + j] >> 4) << k;
        out[16 + j] = (uint8_t)high;
    }
    for (int i = 0; i < 128; i++) {
        const uint8_t *codes = block->code + i / 32 * 64 + i % 32;
        out[48 + i] = (uint8_t)((codes[0] & 15) | (codes[32] & 15) << 4);
    }
}

// clang-format off
#define K_QUANT(NAME, BYTES, ...)                                                                  \
    static const block_kind NAME = {__VA_ARGS__};                                                        \
    static void some_##NAME(const lane_batch *b, int blocks, uint8_t *out)                              \
    {                                                                                              \
        quantize_blocks(&NAME, b, blocks, out, BYTES, put_##NAME);                                 \
    }                                                                                              \
    void ZT_ENCODER(search_##NAME)(const float *x, const float *w, int64_t n, uint8_t *out)        \
    {                                                                                              \
        batch_each(some_##NAME, NAME.groups, NAME.size, NAME.weigh, x, w, n, out, BYTES);          \
    }
// clang-format on
K_QUANT(q2_k, 84, {3, -0.9f, 0.1f, 20, 2}, 16, 16, 15, 3, 2, {1, 4})
K_QUANT(q4_k, 144, {15, -1, 0.1f, 20, 2}, 8, 32, 63, 3, 2, {1, 4})
K_QUANT(q5_k, 176, {31, -1, 0.1f, 20, 2}, 8, 32, 63, 3, 2, {1, 4})
