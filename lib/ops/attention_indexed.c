/* attention_indexed.c - the row of causal attention to chosen keys: an indexer with heads and keys of its own scores what a query
 * may see, and attention goes over the `topk` best alone (DeepSeek-AI, "DeepSeek-V3.2", 2025: the lightning indexer).
 *
 *     s[p] = sum over its heads h of iw[h] max(0, iq[h] . ik[p])
 */
#include "lib/ops/row.h"

#include <math.h>
#include <string.h>

enum { Q, K, V, INDEX_Q, INDEX_K, INDEX_W, POS, SEQ, TABLE };

static zt_status check_heads(zt_ctx *ctx, const zt_attention_indexed_attrs *attrs, const zt_type *const in[])
{
    const zt_type *q = in[Q], *k = in[K], *v = in[V];
    if (attrs->head < 1) return zt_row_fail(ctx, ZT_EUSAGE, "head is %lld: must be 1 or more", (long long)attrs->head);
    if (!(attrs->softcap >= 0)) return zt_row_fail(ctx, ZT_EUSAGE, "softcap is %g: must be nonnegative", attrs->softcap);
    if (!isfinite(attrs->scale)) return zt_row_fail(ctx, ZT_EUSAGE, "scale is %g: must be finite", attrs->scale);
    if ((k->dtype != ZT_F32 && k->dtype != ZT_F16) || k->rank != 2 || !zt_type_equal(k, v))
        return zt_row_fail(ctx, ZT_ESHAPE, "k and v must be matrices of the same dtype, f32 or f16");
    if (q->dim[1] % attrs->head || k->dim[1] % attrs->head)
        return zt_row_fail(ctx, ZT_ESHAPE, "%lld and %lld columns are not multiples of the head size %lld", (long long)q->dim[1],
                           (long long)k->dim[1], (long long)attrs->head);
    int64_t H = q->dim[1] / attrs->head, G = k->dim[1] / attrs->head;
    if (G < 1 || H % G)
        return zt_row_fail(ctx, ZT_ESHAPE, "the number of query heads %lld is not a multiple of the number of key heads %lld",
                           (long long)H, (long long)G);
    return ZT_OK;
}

static zt_status check_indexer(zt_ctx *ctx, const zt_attention_indexed_attrs *attrs, const zt_type *const in[])
{
    const zt_type *q = in[INDEX_Q], *k = in[INDEX_K], *w = in[INDEX_W];
    if (attrs->topk < 1) return zt_row_fail(ctx, ZT_EUSAGE, "topk is %lld: must be 1 or more", (long long)attrs->topk);
    zt_status status = zt_row_want(ctx, "iq", q, ZT_F32, 2);
    if (!status) status = zt_row_want(ctx, "iw", w, ZT_F32, 2);
    if (status) return status;
    if ((k->dtype != ZT_F32 && k->dtype != ZT_F16) || k->rank != 2 || k->dim[0] != in[K]->dim[0])
        return zt_row_fail(ctx, ZT_ESHAPE, "ik must be a matrix of f32 or f16 with as many rows as k, %lld",
                           (long long)in[K]->dim[0]);
    if (q->dim[0] != in[Q]->dim[0] || w->dim[0] != in[Q]->dim[0])
        return zt_row_fail(ctx, ZT_ESHAPE, "iq and iw have %lld and %lld rows, expected those of q, %lld", (long long)q->dim[0],
                           (long long)w->dim[0], (long long)in[Q]->dim[0]);
    if (k->dim[1] < 1 || w->dim[1] < 1 || q->dim[1] / k->dim[1] != w->dim[1] || q->dim[1] % k->dim[1])
        return zt_row_fail(ctx, ZT_ESHAPE, "iq has %lld columns, expected those of ik times those of iw, %lld and %lld",
                           (long long)q->dim[1], (long long)k->dim[1], (long long)w->dim[1]);
    return ZT_OK;
}

static zt_status attention_indexed_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_status status = zt_row_want(ctx, "q", in[Q], ZT_F32, 2);
    if (!status) status = check_heads(ctx, attrs, in);
    if (!status) status = check_indexer(ctx, attrs, in);
    out[0] = *in[Q];
    return status ? status : zt_slots_infer(ctx, in[Q]->dim[0], in[K]->dim[0], in[POS], in[SEQ], in[TABLE]);
}

/* ---- the row --------------------------------------------------------------------------------- */

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* One row, whose slots are all good. */
typedef struct chooser {
    const zt_arg *in;
    const zt_slots *slots;
    int64_t row, pos;
} chooser;

static int64_t slot_of(const chooser *c, int64_t p)
{
    zt_runtime_error none = {0};
    return zt_slots_find(c->slots, c->row, p, &none);
}

/* A score as an integer of the same order. */
static int64_t score_key(const chooser *c, int64_t p)
{
    const zt_arg *in = c->in;
    int64_t D = in[INDEX_K].type->dim[1], H = in[INDEX_W].type->dim[1], slot = slot_of(c, p), bits;
    double score = 0;
    for (int64_t h = 0; h < H; h++)
        score += in[INDEX_W].f[c->row * H + h] * fmax(0, dot(in[INDEX_Q].f + (c->row * H + h) * D, in[INDEX_K].f + slot * D, D));
    score += 0.0; /* -0 is 0 */
    memcpy(&bits, &score, sizeof bits);
    return bits < 0 ? bits ^ INT64_MAX : bits;
}

static int64_t count_from(const chooser *c, int64_t key)
{
    int64_t n = 0;
    for (int64_t p = 0; p <= c->pos; p++) n += score_key(c, p) >= key;
    return n;
}

/* What is chosen: keys above the least, and of those that equal it the first ones. */
typedef struct choice {
    int64_t least, equal;
} choice;

static choice choose(const chooser *c, int64_t topk)
{
    int64_t low = INT64_MIN, high = INT64_MAX; /* low: that many are not below it; no memory is needed for scores */
    if (c->pos < topk) return (choice){INT64_MIN, INT64_MAX};
    while (low < high) {
        int64_t middle = (int64_t)((uint64_t)low + ((uint64_t)high - (uint64_t)low) / 2 + 1);
        if (count_from(c, middle) >= topk)
            low = middle;
        else
            high = middle - 1;
    }
    return (choice){low, topk - (low == INT64_MAX ? 0 : count_from(c, low + 1))};
}

/* The next that is chosen behind p, or pos + 1. */
static int64_t next_chosen(const chooser *c, choice *left, int64_t p)
{
    for (p++; p <= c->pos; p++) {
        if (left->least == INT64_MIN) return p;
        int64_t key = score_key(c, p);
        if (key > left->least || (key == left->least && left->equal-- > 0)) return p;
    }
    return p;
}

static double score_of(const zt_attention_indexed_attrs *attrs, const double *q, const double *k)
{
    double s = (attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)attrs->head)) * dot(q, k, attrs->head);
    return attrs->softcap > 0 ? attrs->softcap * tanh(s / attrs->softcap) : s;
}

static void attend_head(const zt_attention_indexed_attrs *attrs, const chooser *c, choice chosen, const double *q, int64_t column,
                        double *y)
{
    int64_t D = attrs->head, W = c->in[K].type->dim[1];
    const double *k = c->in[K].f + column, *v = c->in[V].f + column;
    double max = -INFINITY, sum = 0;
    choice left = chosen;
    for (int64_t p = next_chosen(c, &left, -1); p <= c->pos; p = next_chosen(c, &left, p))
        max = fmax(max, score_of(attrs, q, k + slot_of(c, p) * W));
    left = chosen;
    for (int64_t d = 0; d < D; d++) y[d] = 0;
    for (int64_t p = next_chosen(c, &left, -1); p <= c->pos; p = next_chosen(c, &left, p)) {
        int64_t at = slot_of(c, p) * W;
        double e = exp(score_of(attrs, q, k + at) - max);
        sum += e;
        for (int64_t d = 0; d < D; d++) y[d] += e * v[at + d];
    }
    for (int64_t d = 0; d < D; d++) y[d] /= sum;
}

static bool slots_good(const zt_slots *slots, int64_t row, int64_t pos, zt_runtime_error *error)
{
    if (zt_slots_find(slots, row, pos, error) < 0) return false;
    for (int64_t p = 0; p <= pos; p++)
        if (zt_slots_find(slots, row, p, error) < 0) return false;
    return true;
}

static void attention_indexed_ref(const void *attributes, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_attention_indexed_attrs *attrs = attributes;
    int64_t rows = in[Q].type->dim[0], D = attrs->head, H = in[Q].type->dim[1] / D, G = in[K].type->dim[1] / D;
    zt_slots slots = zt_slots_make(in[K].type->dim[0], &in[SEQ], &in[TABLE]);
    for (int64_t r = 0; r < rows; r++) {
        chooser c = {in, &slots, r, in[POS].i[r]};
        bool good = slots_good(&slots, r, c.pos, error);
        choice chosen = good ? choose(&c, attrs->topk) : (choice){0};
        for (int64_t h = 0; h < H; h++) {
            double *y = out[0].f + (r * H + h) * D;
            if (good)
                attend_head(attrs, &c, chosen, in[Q].f + (r * H + h) * D, h / (H / G) * D, y);
            else
                for (int64_t d = 0; d < D; d++) y[d] = 0;
        }
    }
}

/* As if the cache were full: scores of all keys, attention over the chosen. */
static double attention_indexed_flops(const void *attributes, const zt_type *const in[], const zt_type *out)
{
    const zt_attention_indexed_attrs *attrs = attributes;
    double all = (double)in[K]->dim[0], seen = all < (double)attrs->topk ? all : (double)attrs->topk;
    return 4 * (double)zt_type_count(out) * seen + 2 * (double)zt_type_count(in[INDEX_Q]) * all;
}

static double attention_indexed_bytes(const void *attributes, const zt_type *const in[], const zt_type *out)
{
    const zt_attention_indexed_attrs *attrs = attributes;
    double rows = (double)in[K]->dim[0], seen = (double)attrs->topk * (double)in[Q]->dim[0], sum = 0;
    for (int k = 0; k <= TABLE; k++) {
        double share = (k == K || k == V) && seen < rows ? seen / rows : 1;
        if (in[k]) sum += (double)zt_type_bytes(in[k]) * share;
    }
    return sum + (double)zt_type_bytes(out);
}

static bool attention_indexed_cases(int i, zt_case *test_case)
{
    static const struct {
        int64_t n, H, G, ctx, pos0, S, B, index_heads, index_head;
        zt_dtype kv;
        zt_attention_indexed_attrs a; /* head, scale, topk, softcap */
    } rows[] = {
        {2, 1, 1, 8, 0, 0, 0, 1, 4, ZT_F32, {.head = 32, .topk = 1}},
        {1, 8, 1, 64, 63, 0, 0, 4, 32, ZT_F16, {.head = 64, .topk = 16}},
        {33, 4, 1, 64, 3, 0, 0, 8, 16, ZT_F32, {.head = 20, .scale = 0.25, .topk = 6}},
        {9, 6, 2, 128, 60, 0, 8, 3, 24, ZT_F16, {.head = 40, .topk = 30, .softcap = 3}},
        {9, 4, 2, 120, 30, 3, 12, 2, 7, ZT_F32, {.head = 9, .topk = 12}},
        {5, 3, 3, 33, 9, 1, 0, 5, 19, ZT_F32, {.head = 7, .topk = 100}},
        {1, 16, 1, 300, 290, 0, 0, 64, 128, ZT_F16, {.head = 576, .scale = 0.04, .topk = 128}},
        {0, 2, 1, 64, 0, 2, 4, 2, 8, ZT_F32, {.head = 64, .topk = 3}},
    };
    if (i >= ZT_LEN(rows)) return false;
    int64_t D = rows[i].a.head, kv[] = {rows[i].ctx, rows[i].G * D};
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    zt_case_in(test_case, Q, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){rows[i].n, rows[i].H * D});
    zt_case_in(test_case, K, ZT_FILL_NORMAL, 0, rows[i].kv, 2, kv);
    zt_case_in(test_case, V, ZT_FILL_NORMAL, 0, rows[i].kv, 2, kv);
    zt_case_in(test_case, INDEX_Q, ZT_FILL_NORMAL, 0, ZT_F32, 2,
               (int64_t[]){rows[i].n, rows[i].index_heads * rows[i].index_head});
    zt_case_in(test_case, INDEX_K, ZT_FILL_NORMAL, 0, rows[i].kv, 2, (int64_t[]){rows[i].ctx, rows[i].index_head});
    zt_case_in(test_case, INDEX_W, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){rows[i].n, rows[i].index_heads});
    zt_slots_case(test_case, POS, rows[i].n, rows[i].pos0, rows[i].S, rows[i].B);
    return true;
}

const zt_opdef zt_op_attention_indexed = {
    .synopsis =
        "attention to the topk keys p <= pos[t] of the largest scores, the sum over h of iw[t,h] max(0, iq[t,h] . ik[p]), of "
        "equal ones the earlier; iq f32[n,I*E], ik f32|f16[ctx,E], iw f32[n,I]; the other inputs and attributes as in "
        "attention",
    .n_required = 7,
    .flags = ZT_OPF_SUMS,
    .infer = attention_indexed_infer,
    .ref = attention_indexed_ref,
    .flops = attention_indexed_flops,
    .bytes = attention_indexed_bytes,
    .cases = attention_indexed_cases,
};
