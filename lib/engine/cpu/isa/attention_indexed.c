/* attention_indexed.c - the kernel of attention to the keys that an indexer chooses. Phases: scores of the indexer and the choice,
 * a row an item; of few rows scores of a chunk of positions an item, and then the choice; last attention, an item a row and up to
 * HEADS queries of a key head. A row's sums go in the order of positions, whatever its neighbours are.
 */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"
#include "lib/engine/cpu/isa/slots.h"

#include <math.h>

enum { Q, K, V, INDEX_Q, INDEX_K, INDEX_W, POS };
enum { HEADS = 8, FEW = 8, CHUNK = 256 };

typedef struct sizes {
    int64_t n, ctx, D, G, share, blocks; /* share: queries of a key head, in so many blocks */
    int64_t E, I, topk;                  /* columns and heads of the indexer; what is chosen at most */
    int64_t wide;                        /* D or E, whichever is larger, in whole registers */
    bool few;
} sizes;

static sizes sizes_of(const zt_cpu_call *call)
{
    const zt_attention_indexed_attrs *attrs = call->attrs;
    sizes s = {.n = call->in[Q].type.dim[0], .ctx = call->in[K].type.dim[0], .D = attrs->head};
    s.G = call->in[K].type.dim[1] / s.D;
    s.share = call->in[Q].type.dim[1] / s.D / s.G;
    s.blocks = (s.share + HEADS - 1) / HEADS;
    s.E = call->in[INDEX_K].type.dim[1];
    s.I = call->in[INDEX_W].type.dim[1];
    s.topk = attrs->topk < s.ctx ? attrs->topk : s.ctx;
    s.wide = ((s.D > s.E ? s.D : s.E) + LANES - 1) / LANES * LANES;
    s.few = s.n <= FEW;
    return s;
}

/* What is shared: of each row the number of what was chosen, and the slots; of few rows all scores. */
static int32_t *choice_of(const zt_cpu_call *call, const sizes *s, int64_t row)
{
    return (int32_t *)call->shared + row * (s->topk + 1);
}

static float *scores_of(const zt_cpu_call *call, const sizes *s, int64_t row)
{
    return (float *)call->shared + s->n * (s->topk + 1) + row * s->ctx;
}

static const char *row_of(const zt_cpu_call *call, int k, int64_t slot)
{
    const zt_cpu_arg *in = &call->in[k];
    return (const char *)in->data + slot * in->type.dim[1] * (in->type.dtype == ZT_F16 ? 2 : 4);
}

static const float *widen(const zt_cpu_call *call, int k, int64_t slot, int64_t column, int64_t n, float *to)
{
    const char *from = row_of(call, k, slot);
    int64_t i = 0;
    if (call->in[k].type.dtype != ZT_F16) return (const float *)(const void *)from + column;
    from += 2 * column;
    for (; i + LANES <= n; i += LANES) vf_store(to + i, vf_of_f16(from + 2 * i));
    if (i < n) {
        uint16_t rest[LANES] = {0};
        memcpy(rest, from + 2 * i, (size_t)(n - i) * sizeof *rest);
        vf_store_n(to + i, (int)(n - i), vf_of_f16(rest));
    }
    return to;
}

INLINE float dot(const float *x, const float *y, int64_t n)
{
    vf sum = vf_set(0);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) sum = vf_fma(vf_load(x + i), vf_load(y + i), sum);
    if (i < n) sum = vf_fma(vf_load_n(x + i, (int)(n - i)), vf_load_n(y + i, (int)(n - i)), sum);
    return vf_sum(sum);
}

/* ---- the indexer ----------------------------------------------------------------------------- */

/* Are all slots of the row good? */
static bool is_good(zt_cpu_call *call, const slots *at, const sizes *s, int64_t row)
{
    const int64_t pos = at->pos[row];
    (void)s;
    if (!slots_row_good(at, call, row, pos)) return false;
    for (int64_t b = 0; b <= pos / at->block; b++)
        if (slots_block(at, call, slots_seq(at, row), b) < 0) return false;
    return true;
}

static int64_t slot_at(const slots *at, int64_t row, int64_t p)
{
    if (!at->table) return p;
    return (int64_t)at->table[slots_seq(at, row) * at->B + p / at->block] * at->block + p % at->block;
}

static void score(const zt_cpu_call *call, const slots *at, const sizes *s, int64_t row, int64_t first, int64_t last, float *y,
                  float *key)
{
    const float *q = (const float *)call->in[INDEX_Q].data + row * s->I * s->E;
    const float *w = (const float *)call->in[INDEX_W].data + row * s->I;
    for (int64_t p = first; p < last; p++) {
        const float *k = widen(call, INDEX_K, slot_at(at, row, p), 0, s->E, key);
        float sum = 0;
        for (int64_t h = 0; h < s->I; h++) {
            float x = dot(q + h * s->E, k, s->E);
            if (x > 0) sum += w[h] * x;
        }
        y[p] = sum;
    }
}

/* Is the score at position a to be dropped before that at b? */
INLINE bool worse(const float *score, int32_t a, int32_t b) { return score[a] != score[b] ? score[a] < score[b] : a > b; }

/* Position e into the heap's place `at` or further down; the worst is on top. */
static void sink(const float *score, int32_t *heap, int64_t n, int64_t at, int32_t e)
{
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && worse(score, heap[child + 1], heap[child])) child++;
        if (!worse(score, heap[child], e)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = e;
}

/* The positions chosen, in their order, as slots; its first entry is their number. */
static void choose(const slots *at, const sizes *s, int64_t row, const float *score, int32_t *to)
{
    const int64_t n = at->pos[row] + 1, k = n < s->topk ? n : s->topk;
    int32_t *heap = to + 1;
    *to = (int32_t)k;
    for (int64_t i = 0; i < k; i++) heap[i] = (int32_t)i;
    if (k < n) {
        for (int64_t i = k / 2; i-- > 0;) sink(score, heap, k, i, heap[i]);
        for (int64_t p = k; p < n; p++)
            if (worse(score, heap[0], (int32_t)p)) sink(score, heap, k, 0, (int32_t)p);
        const int32_t least = heap[0];
        int64_t found = 0;
        for (int64_t p = 0; p < n; p++)
            if (!worse(score, (int32_t)p, least)) heap[found++] = (int32_t)p;
    }
    for (int64_t i = 0; i < k; i++) heap[i] = (int32_t)slot_at(at, row, heap[i]);
}

/* All scores of a row, where they are needed, and the choice. */
static void choose_rows(zt_cpu_call *call, const sizes *s, int64_t begin, int64_t end, float *local)
{
    const slots at = slots_of(call, POS, s->ctx);
    for (int64_t row = begin; row < end; row++) {
        float *all = s->few ? scores_of(call, s, row) : local + s->wide;
        int32_t *to = choice_of(call, s, row);
        *to = 0;
        if (!is_good(call, &at, s, row)) continue;
        if (!s->few && at.pos[row] >= s->topk) score(call, &at, s, row, 0, at.pos[row] + 1, all, local);
        choose(&at, s, row, all, to);
    }
}

static void score_chunks(zt_cpu_call *call, const sizes *s, int64_t begin, int64_t end, float *local)
{
    const slots at = slots_of(call, POS, s->ctx);
    const int64_t chunks = (s->ctx + CHUNK - 1) / CHUNK;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = i / chunks, first = i % chunks * CHUNK, pos = at.pos[row];
        if (pos < s->topk || first > pos || !is_good(call, &at, s, row)) continue;
        score(call, &at, s, row, first, first + CHUNK <= pos ? first + CHUNK : pos + 1, scores_of(call, s, row), local);
    }
}

/* ---- attention ------------------------------------------------------------------------------- */

/* A row's queries, R of them, which read the same keys. */
typedef struct block {
    const zt_cpu_call *call;
    const int32_t *slot;
    int64_t n, R, column;
    const float *q;
    float *y, *score, *buffer;
} block;

static void cap_scores(float *x, int64_t n, float cap)
{
    for (int64_t i = 0; i < n; i += LANES) {
        const int m = n - i < LANES ? (int)(n - i) : LANES;
        vf_store_n(x + i, m, vf_mul(vf_set(cap), vf_tanh(vf_div(vf_load_n(x + i, m), vf_set(cap)))));
    }
}

static void score_block(const block *b, const sizes *s)
{
    const zt_attention_indexed_attrs *attrs = b->call->attrs;
    const float scale = attrs->scale != 0 ? (float)attrs->scale : 1 / sqrtf((float)s->D), cap = (float)attrs->softcap;
    for (int64_t i = 0; i < b->n; i++) {
        const float *k = widen(b->call, K, b->slot[i], b->column, s->D, b->buffer);
        for (int64_t r = 0; r < b->R; r++) {
            const float x = scale * dot(b->q + r * s->D, k, s->D);
            b->score[r * s->topk + i] = x;
        }
    }
    for (int64_t r = 0; r < b->R && cap > 0; r++) cap_scores(b->score + r * s->topk, b->n, cap);
}

/* Weights, whose sum is 1, of one query's scores. */
static void weigh(float *x, int64_t n)
{
    float top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) top = x[i] > top ? x[i] : top;
    for (int64_t i = 0; i < n; i += LANES) {
        const int m = n - i < LANES ? (int)(n - i) : LANES;
        vf e = vf_first(m, vf_exp_below(vf_sub(vf_load_n(x + i, m), vf_set(top))), vf_set(0));
        vf_store_n(x + i, m, e);
        sum += vf_sum(e);
    }
    for (int64_t i = 0; i < n; i++) x[i] /= sum;
}

static void add_values(const block *b, const sizes *s)
{
    memset(b->y, 0, (size_t)(b->R * s->D) * sizeof *b->y);
    for (int64_t i = 0; i < b->n; i++) {
        const float *v = widen(b->call, V, b->slot[i], b->column, s->D, b->buffer);
        for (int64_t r = 0; r < b->R; r++) {
            const vf e = vf_set(b->score[r * s->topk + i]);
            float *y = b->y + r * s->D;
            for (int64_t d = 0; d < s->D; d += LANES) {
                const int m = s->D - d < LANES ? (int)(s->D - d) : LANES;
                vf_store_n(y + d, m, vf_fma(e, vf_load_n(v + d, m), vf_load_n(y + d, m)));
            }
        }
    }
}

static void attend(zt_cpu_call *call, const sizes *s, int64_t begin, int64_t end, float *local)
{
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = i / (s->G * s->blocks), g = i / s->blocks % s->G, first = i % s->blocks * HEADS;
        const int32_t *chosen = choice_of(call, s, row);
        const int64_t at = ((row * s->G + g) * s->share + first) * s->D;
        block b = {.call = call,
                   .slot = chosen + 1,
                   .n = *chosen,
                   .R = s->share - first < HEADS ? s->share - first : HEADS,
                   .column = g * s->D,
                   .q = (const float *)call->in[Q].data + at,
                   .y = (float *)call->out[0].data + at,
                   .buffer = local,
                   .score = local + s->wide};
        score_block(&b, s);
        for (int64_t r = 0; r < b.R; r++) weigh(b.score + r * s->topk, b.n);
        add_values(&b, s);
    }
}

/* ---- the call -------------------------------------------------------------------------------- */

static bool attention_indexed_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    for (int k = 0; k < 2; k++) {
        zt_dtype dtype = in[k ? INDEX_K : K]->dtype;
        if (dtype != ZT_F32 && dtype != ZT_F16) return false;
    }
    return true;
}

static void attention_indexed_setup(zt_cpu_call *call)
{
    const sizes s = sizes_of(call);
    const int64_t scores = HEADS * s.topk > s.ctx || s.few ? HEADS * s.topk : s.ctx;
    int phase = 0;
    if (s.few) call->items[phase++] = s.n * ((s.ctx + CHUNK - 1) / CHUNK);
    call->items[phase++] = s.n;
    call->items[phase++] = s.n * s.G * s.blocks;
    call->n_phases = phase;
    call->local_bytes = (size_t)(s.wide + scores) * sizeof(float);
    call->shared_bytes = (size_t)(s.n * (s.topk + 1 + (s.few ? s.ctx : 0))) * sizeof(float);
}

static void attention_indexed_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const sizes s = sizes_of(call);
    if (s.few && phase == 0)
        score_chunks(call, &s, begin, end, local);
    else if (phase == (s.few ? 1 : 0))
        choose_rows(call, &s, begin, end, local);
    else
        attend(call, &s, begin, end, local);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_attention_indexed)[] = {
    {.op = ZT_OP_attention_indexed,
     .has = attention_indexed_has,
     .setup = attention_indexed_setup,
     .run = attention_indexed_run,
     .uneven = true},
    {0},
};
