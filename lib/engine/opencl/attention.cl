/* attention.cl - rotary positions, the cache of keys and values, and causal attention over it. */
#include "lib/engine/opencl/prim.clh"
#include "lib/engine/cuda/args_llm.h"

/* ---- slots -------------------------------------------------------------------------------------- */

/* The slot of position p of row t's sequence, or -1, and trouble number `order` at `error` where there is one. */
FN int64_t slot_of(const zt_cu_slots *s, int64_t t, int64_t p, zt_cu_ptr error, int64_t order)
{
    const int64_t seq = s->seq ? PTR(const int32_t, s->seq)[t] : 0;
    int64_t value = 0, limit = 0, place = 0;
    uint32_t kind = 0;
    if (p < 0 || p >= s->ctx) {
        kind = ZT_CU_POSITION, value = p, limit = s->ctx;
    } else if (seq < 0 || seq >= s->S) {
        kind = ZT_CU_SEQUENCE, value = seq, limit = s->S;
    } else if (s->table) {
        place = PTR(const int32_t, s->table)[seq * s->B + p / s->block];
        if (place < 0 || place >= s->B) kind = ZT_CU_BLOCK, value = place, limit = s->B;
    }
    if (kind && error) trouble(error, kind, order, value, limit);
    return kind ? -1 : s->table ? place * s->block + p % s->block : p;
}

/* ---- turns -------------------------------------------------------------------------------------- */

/* Quarter turns a position, the bits of an f64, over `slow` where that is not 0: as a fraction of a whole turn, of which 2^64 are
 * one. Positions multiply it exactly, and whole turns fall off. */
FN uint64_t fraction_of(uint64_t bits, float slow)
{
    const uint64_t part = ((bits & 0xfffffffffffffUL) | 1UL << 52) << 11, by = slow != 0 ? (as_uint(slow) & 0x7fffff) | 0x800000 : 1;
    const int slower = slow != 0 ? (int)(as_uint(slow) >> 23 & 255) - 150 : 0;
    const int shift = (int)(bits >> 52 & 0x7ff) - 1075 + 62 - 11 - slower; /* of part / by */
    const uint64_t quotient = part / by, rest = part % by;
    uint64_t turn = 0;
    if ((bits & ~(1UL << 63)) == 0) return 0;
    if (shift >= 0)
        turn = shift < 40 ? (quotient << shift) + (rest << shift) / by : 0;
    else if (shift > -64)
        turn = ((quotient >> (-shift - 1)) + 1) >> 1;
    return (bits >> 63) ^ (as_uint(slow) >> 31) ? 0 - turn : turn;
}

/* Sine and cosine of a pair at a position, `amplitude` times. */
FN float2 turn_of(uint64_t turns, int32_t pos, float slow, float amplitude)
{
    const int64_t turn = (int64_t)(fraction_of(turns, slow) * (uint64_t)(int64_t)pos);
    const float half_turns = (float)(turn >> 24) * 0x1p-39f;
    return (float2)(sinpi(half_turns) * amplitude, cospi(half_turns) * amplitude);
}

/* ---- rope --------------------------------------------------------------------------------------- */

/* A work-group a row; a work-item a pair, or a column that does not turn: head - dims / 2 of them a head. */
FN void rope_row(int type, __constant zt_cu_rope_args *a, __local float2 *turn)
{
    const int64_t row = block(), pairs = a->dims / 2, each = a->head - pairs, from = row * a->cols;
    const int32_t pos = PTR(const int32_t, a->pos)[row];
    for (int i = thread(); i < pairs; i += threads())
        turn[i] = turn_of(a->turns[i], pos, a->tab ? PTR(const float, a->tab)[i] : 0, a->amplitude);
    meet();
    for (int64_t k = thread(); k < a->cols / a->head * each; k += threads()) {
        const int64_t h = from + k / each * a->head, i = k % each;
        if (i >= pairs) {
            put(type, a->y, h + i + pairs, get(type, a->x, h + i + pairs));
            continue;
        }
        const int64_t p = h + (a->neighbours ? 2 * i : i), q = a->neighbours ? p + 1 : p + pairs;
        const float s = turn[i].x, c = turn[i].y, one = get(type, a->x, p), two = get(type, a->x, q);
        put(type, a->y, p, one * c - two * s);
        put(type, a->y, q, one * s + two * c);
    }
}

#define ROPE(name, type)                                                                                                         \
    KERNEL_LARGE(name, zt_cu_rope_args)                                                                                          \
    {                                                                                                                            \
        __local float2 turn[ZT_CU_PAIRS];                                                                                        \
        rope_row(type, large, turn);                                                                                             \
    }
ROPE(zt_rope_f32, ZT_CU_F32)
ROPE(zt_rope_f16, ZT_CU_F16)
ROPE(zt_rope_bf16, ZT_CU_BF16)

/* 32 work-items a row: normed by its weight where there is one, then its first 2 half columns turned by tables. */
FN void rotate_row(int type, const zt_cu_rotate_args *a)
{
    const int64_t row = (int64_t)block() * (threads() / 32) + thread() / 32, from = row * a->K;
    const int64_t at = row / a->per % a->tables * a->half;
    const zt_cu_ptr g = row % a->heads < a->q_heads ? a->wq : a->wk;
    float sum = 0;
    if (row >= a->rows) return;
    for (int64_t i = 0; a->wq && i < a->K; i++) sum += get(type, a->x, from + i) * get(type, a->x, from + i);
    const float rstd = a->wq ? 1 / sqrt(sum / (float)a->K + number(a->eps)) : 1;
    for (int64_t i = thread() % 32; i < a->K - a->half; i += 32) {
        const bool pair = i < a->half; /* else a column past the pairs */
        const int64_t p = !pair ? i + a->half : a->neighbours ? 2 * i : i;
        const int64_t q = !pair ? p : a->neighbours ? p + 1 : i + a->half;
        float one = get(type, a->x, from + p), two = get(type, a->x, from + q);
        if (a->wq) one = one * rstd * get(type, g, p), two = two * rstd * get(type, g, q);
        const float c = pair ? get(type, a->cos, at + i) : 1, s = pair ? get(type, a->sin, at + i) : 0;
        put(type, a->y, from + p, pair ? one * c - two * s : one);
        if (pair) put(type, a->y, from + q, one * s + two * c);
    }
}
KERNEL(zt_rotate_f32, zt_cu_rotate_args) { rotate_row(ZT_CU_F32, &a); }
KERNEL(zt_rotate_f16, zt_cu_rotate_args) { rotate_row(ZT_CU_F16, &a); }
KERNEL(zt_rotate_bf16, zt_cu_rotate_args) { rotate_row(ZT_CU_BF16, &a); }

/* ---- the cache ---------------------------------------------------------------------------------- */

FN void put_row(int type, const zt_cu_put_args *a)
{
    const int64_t row = block(), pos = PTR(const int32_t, a->slots.pos)[row];
    const int64_t slot = slot_of(&a->slots, row, pos, thread() == 0 && block_y() == 0 ? a->trouble : 0, row);
    for (int64_t i = (int64_t)block_y() * threads() + thread(); slot >= 0 && i < a->W; i += (int64_t)blocks_y() * threads())
        put(type, a->cache, slot * a->W + i, PTR(const float, a->x)[row * a->W + i]);
}
KERNEL(zt_put_f32, zt_cu_put_args) { put_row(ZT_CU_F32, &a); }
KERNEL(zt_put_f16, zt_cu_put_args) { put_row(ZT_CU_F16, &a); }

/* A head of q or k, normed by g where it is there, and turned into y. */
FN void turn_head(const zt_cu_rope_kv_write_args *a, zt_cu_ptr x, int64_t from, zt_cu_ptr g, __local const float2 *turn, int type,
                  zt_cu_ptr y, int64_t to)
{
    float sum = 0;
    for (int64_t i = 0; g && i < a->head; i++) sum += PTR(const float, x)[from + i] * PTR(const float, x)[from + i];
    const float rstd = g ? 1 / sqrt(sum / (float)a->head + number(a->eps)) : 1;
    for (int64_t i = thread() % 32; i < a->head - a->half; i += 32) {
        const bool pair = i < a->half; /* else a column past the pairs */
        const int64_t p = !pair ? i + a->half : a->neighbours ? 2 * i : i;
        const int64_t q = !pair ? p : a->neighbours ? p + 1 : i + a->half;
        float one = PTR(const float, x)[from + p], two = PTR(const float, x)[from + q];
        if (g) one = one * rstd * PTR(const float, g)[p], two = two * rstd * PTR(const float, g)[q];
        put(type, y, to + p, pair ? one * turn[i].y - two * turn[i].x : one);
        if (pair) put(type, y, to + q, one * turn[i].x + two * turn[i].y);
    }
}

/* Eight heads of a row: those of q, of k, and as many columns of v. */
KERNEL(zt_rope_kv_write, zt_cu_rope_kv_write_args)
{
    __local float2 turn[ZT_CU_PAIRS];
    const int64_t D = a.head, all = a.heads + a.k_heads + (a.v_width + D - 1) / D, groups = (all + 7) / 8;
    const int64_t row = block() / groups, h = block() % groups * 8 + thread() / 32, k = h - a.heads, W = a.k_heads * D;
    const int32_t pos = PTR(const int32_t, a.slots.pos)[row];
    for (int i = thread(); i < a.half; i += threads())
        turn[i] = turn_of(PTR(const uint64_t, a.turns)[i], pos, a.tab ? PTR(const float, a.tab)[i] : 0, a.amplitude);
    meet();
    const bool is_query = k < 0;
    const int64_t query = (row * a.heads + h) * D, v = (k - a.k_heads) * D;
    const int64_t slot = is_query || h >= all ? 0 : slot_of(&a.slots, row, pos, k == 0 && thread() % 32 == 0 ? a.trouble : 0, row);
    if (h >= all || slot < 0 || (is_query && !a.y)) return;
    if (k < a.k_heads)
        turn_head(&a, is_query ? a.q : a.k, is_query ? query : row * W + k * D, is_query ? a.gq : a.gk, turn,
                  is_query ? (int)ZT_CU_F32 : a.cache_type, is_query ? a.y : a.kc, is_query ? query : slot * W + k * D);
    else
        for (int64_t i = v + thread() % 32; i < v + D && i < a.v_width; i += 32)
            put(a.cache_type, a.vc, slot * a.v_width + i, PTR(const float, a.v)[row * a.v_width + i]);
}

/* ---- attention ---------------------------------------------------------------------------------- */

enum { THREADS = 128, HEADS = 8, COLUMNS = ZT_CU_ATTENTION_WIDE / THREADS };

/* The first position that a row at `last` sees. */
FN int64_t first_of(const zt_cu_attention_args *a, int64_t last)
{
    if (a->chunked) return last - last % a->window;
    return a->window > 0 && last >= a->window ? last - a->window + 1 : 0;
}

/* The score of the position in `slot`; -inf where there is none. */
FN float score_of(int type, const zt_cu_attention_args *a, int64_t row, int64_t head, int64_t p, int64_t slot, int64_t column,
                  __local const float *q)
{
    float s = 0;
    if (slot < 0) return -INFINITY;
    for (int64_t d = 0; d < a->D; d++) s = fma(q[d], get(type, a->k, slot * a->W + column + d), s);
    s *= a->scale;
    if (a->softcap > 0) s = a->softcap * tanh(s / a->softcap);
    if (!a->slopes) return s;
    const int32_t at = PTR(const int32_t, a->query_at ? a->query_at : a->slots.pos)[row];
    return fma(-PTR(const float, a->slopes)[head], fabs((float)(p - at)), s);
}

/* One query head over the keys that its row sees, THREADS at a time from a multiple of that on. */
FN void attend_head(int type, const zt_cu_attention_args *a, int64_t row, int64_t head, int64_t column, __local float *q,
                    __local float *room, __local float *weight, __local int64_t *slots)
{
    const int64_t last = PTR(const int32_t, a->slots.pos)[row], lo = first_of(a, last);
    const int64_t at = (row * a->H + head) * a->D;
    float acc[COLUMNS], top = -INFINITY, sum = 0, bad = 0;
    for (int c = 0; c < COLUMNS; c++) acc[c] = 0;
    for (int64_t d = thread(); d < a->D; d += THREADS) q[d] = PTR(const float, a->q)[at + d];
    meet();
    for (int64_t p0 = last < 0 || last >= a->slots.ctx ? last + 1 : lo / THREADS * THREADS; p0 <= last; p0 += THREADS) {
        const int64_t p = p0 + thread(), order = row << 32 | (p == last ? 0 : p - lo + 1);
        const int64_t slot = p >= lo && p <= last ? slot_of(&a->slots, row, p, block_y() ? 0 : a->trouble, order) : -2;
        slots[thread()] = slot;
        if (slot == -1) bad = 1;
        const float s = score_of(type, a, row, head, p, slot, column, q), high = fmax(top, group_max(s, room));
        const float shrink = top == high ? 1 : exp(top - high), power = slot < 0 ? 0 : exp(s - high);
        top = high;
        weight[thread()] = power;
        sum = fma(sum, shrink, group_sum(power, room));
        for (int c = 0; c < COLUMNS; c++) {
            const int64_t d = thread() + c * THREADS;
            if (d >= a->D) continue;
            acc[c] *= shrink;
            for (int j = 0; j < THREADS; j++)
                if (slots[j] >= 0) acc[c] = fma(weight[j], get(type, a->v, slots[j] * a->W + column + d), acc[c]);
        }
        meet();
    }
    const bool good = group_max(bad, room) == 0 && last >= 0 && last < a->slots.ctx;
    if (!good && (last < 0 || last >= a->slots.ctx) && thread() == 0 && !block_y()) slot_of(&a->slots, row, last, a->trouble, row << 32);
    if (a->sinks) sum += exp(PTR(const float, a->sinks)[head] - top);
    for (int c = 0; c < COLUMNS; c++) {
        const int64_t d = thread() + c * THREADS;
        if (d < a->D) PTR(float, a->y)[at + d] = good ? acc[c] / sum : 0;
    }
    meet();
}

/* Up to HEADS query heads of one key head. */
FN void attend(int type, const zt_cu_attention_args *a, __local float *q, __local float *room, __local float *weight,
               __local int64_t *slots)
{
    const int64_t each = a->H / a->G, groups = (each + HEADS - 1) / HEADS, g = block_y() / groups;
    const int64_t from = block_y() % groups * HEADS, to = from + HEADS < each ? from + HEADS : each;
    for (int64_t h = from; h < to; h++) attend_head(type, a, block(), g * each + h, g * a->D, q, room, weight, slots);
}

#define ATTENTION(name, type)                                                                                                    \
    KERNEL(name, zt_cu_attention_args)                                                                                           \
    {                                                                                                                            \
        __local float room[THREADS], weight[THREADS];                                                                            \
        __local int64_t slots[THREADS];                                                                                          \
        attend(type, &a, (__local float *)dynamic, room, weight, slots);                                                         \
    }
ATTENTION(zt_attention_f32, ZT_CU_F32)
ATTENTION(zt_attention_f16, ZT_CU_F16)
ATTENTION(zt_attention_wide_f32, ZT_CU_F32)
ATTENTION(zt_attention_wide_f16, ZT_CU_F16)
