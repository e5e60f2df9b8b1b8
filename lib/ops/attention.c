/* attention.c - the rows of causal attention over a cache: without and with sinks, with linear biases, and in chunks of
 * positions, beyond which nothing is seen (Llama 4). A sink is a learned
 * score of a query head, which takes its share of the softmax but has no value (Xiao et al., "Efficient Streaming Language Models
 * with Attention Sinks", 2024; gpt-oss). A linear bias lowers scores by the distance of query and key, by a slope of the
 * head's own (Press et al., "Train Short, Test Long", 2022).
 *
 * k and v need not be a cache: with the step's own rows there, and in `pos` the last row that each
 * sees, every row sees the same ones, as in an encoder. */
#include "lib/ops/alibi.h"
#include "lib/ops/rounded.h"
#include "lib/ops/vjp.h"
#include "lib/tensor/block_row.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(zt_attention_sinks_attrs) == sizeof(zt_attention_attrs), "one list of attributes");

_Static_assert(offsetof(zt_attention_chunked_attrs, chunk) == offsetof(zt_attention_attrs, window), "one list of attributes");

/* Linear biases have one attribute more, behind the same. */
_Static_assert(offsetof(zt_attention_alibi_attrs, bias) == sizeof(zt_attention_attrs), "one list of attributes");

/* Inputs: sinks, then pos, seq and table; without sinks pos comes in their place. Behind the table of attention_alibi the
 * positions of queries. */
enum { SINKS = 3, QUERY_AT = 6 };

/* Types of both caches, and that heads are whole blocks. */
static zt_status infer_caches(zt_ctx *ctx, const zt_type *k, const zt_type *v, int64_t head)
{
    if (!zt_is_cache_type(k->dtype) || !zt_is_cache_type(v->dtype) || k->rank != 2 || v->rank != 2 || k->dim[0] != v->dim[0] ||
        k->dim[1] != v->dim[1])
        return zt_row_fail(ctx, ZT_ESHAPE, "k and v must be matrices of the same shape and of dtype " ZT_CACHE_TYPES);
    if (head % zt_dtype_get(k->dtype)->block || head % zt_dtype_get(v->dtype)->block)
        return zt_row_fail(ctx, ZT_ESHAPE, "head is %lld: must be a multiple of 32 for %s keys and %s values", (long long)head,
                           zt_dtype_get(k->dtype)->name, zt_dtype_get(v->dtype)->name);
    return ZT_OK;
}

/* Both ops: `pos` is the index of that input. */
static zt_status infer_at(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[], int pos)
{
    const zt_attention_attrs *attention = attrs;
    const zt_type *q = in[0], *k = in[1], *v = in[2];
    zt_status status = zt_row_want(ctx, "q", q, ZT_F32, 2);
    if (status) return status;
    if (attention->head < 1) return zt_row_fail(ctx, ZT_EUSAGE, "head is %lld: must be 1 or more", (long long)attention->head);
    if (attention->window < 0)
        return zt_row_fail(ctx, ZT_EUSAGE, "window is %lld: must be nonnegative", (long long)attention->window);
    if (!(attention->softcap >= 0)) return zt_row_fail(ctx, ZT_EUSAGE, "softcap is %g: must be nonnegative", attention->softcap);
    if (!isfinite(attention->scale)) return zt_row_fail(ctx, ZT_EUSAGE, "scale is %g: must be finite", attention->scale);
    status = infer_caches(ctx, k, v, attention->head);
    if (status) return status;
    if (q->dim[1] % attention->head || k->dim[1] % attention->head)
        return zt_row_fail(ctx, ZT_ESHAPE, "%lld and %lld columns are not multiples of the head size %lld", (long long)q->dim[1],
                           (long long)k->dim[1], (long long)attention->head);
    int64_t H = q->dim[1] / attention->head, G = k->dim[1] / attention->head;
    if (G < 1 || H % G)
        return zt_row_fail(ctx, ZT_ESHAPE, "the number of query heads %lld is not a multiple of the number of key heads %lld",
                           (long long)H, (long long)G);
    if (pos > SINKS) status = zt_row_want(ctx, "sinks", in[SINKS], ZT_F32, 1);
    if (!status && pos > SINKS && in[SINKS]->dim[0] != H)
        status = zt_row_fail(ctx, ZT_ESHAPE, "sinks has %lld entries, expected one for each of %lld query heads",
                             (long long)in[SINKS]->dim[0], (long long)H);
    out[0] = *q;
    return status ? status : zt_slots_infer(ctx, q->dim[0], k->dim[0], in[pos], in[pos + 1], in[pos + 2]);
}

static zt_status attention_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    return infer_at(ctx, attrs, in, out, SINKS);
}

static zt_status attention_sinks_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    return infer_at(ctx, attrs, in, out, SINKS + 1);
}

static zt_status attention_alibi_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_attention_alibi_attrs *attention = attrs;
    if (!(attention->bias > 0 && attention->bias <= 1024))
        return zt_row_fail(ctx, ZT_EUSAGE, "bias is %g: must be positive, 1024 at most", attention->bias);
    zt_status status = infer_at(ctx, attrs, in, out, SINKS);
    if (status || !in[QUERY_AT]) return status;
    status = zt_row_want(ctx, "at", in[QUERY_AT], ZT_I32, 1);
    if (!status && in[QUERY_AT]->dim[0] != in[0]->dim[0])
        return zt_row_fail(ctx, ZT_ESHAPE, "at has %lld entries, expected one for each of %lld rows",
                           (long long)in[QUERY_AT]->dim[0], (long long)in[0]->dim[0]);
    return status;
}

static zt_status attention_chunked_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_attention_chunked_attrs *attention = attrs;
    if (attention->chunk < 1) return zt_row_fail(ctx, ZT_EUSAGE, "chunk is %lld: must be 1 or more", (long long)attention->chunk);
    return infer_at(ctx, attrs, in, out, SINKS);
}

double zt_alibi_slope(double bias, int64_t heads, int64_t head)
{
    int64_t power = 1;
    while (2 * power <= heads) power *= 2;
    double step = bias / (double)power;
    return zt_rounded_exp2(head < power ? -step * (double)(head + 1) : -step / 2 * (double)(2 * (head - power) + 1));
}

/* What one row needs: its query head, the columns of its key head, the positions it sees. */
typedef struct view {
    const zt_slots *slots;
    const double *q, *k, *v; /* k and v at the head's first column */
    int64_t row, first, last, D, stride;
    double scale, softcap, sink; /* sink -INFINITY: none */
    double slope;                /* of the distance from position `at`; 0: none */
    int64_t at;
} view;

static double score_of_slot(const view *w, int64_t slot, int64_t p)
{
    const double *k = w->k + slot * w->stride;
    double sum = 0;
    for (int64_t d = 0; d < w->D; d++) sum += w->q[d] * k[d];
    sum *= w->scale;
    if (w->softcap > 0) sum = w->softcap * tanh(sum / w->softcap);
    return w->slope != 0 ? sum - w->slope * (double)llabs(p - w->at) : sum;
}

/* Scores are computed twice, once for their maximum, so that no memory is needed for them. All
 * slots are known to be good. */
static void attend_row(const view *w, double *y)
{
    zt_runtime_error none = {0};
    double max = -INFINITY, sum = 0;
    for (int64_t p = w->first; p <= w->last; p++) {
        double s = score_of_slot(w, zt_slots_find(w->slots, w->row, p, &none), p);
        max = s > max ? s : max;
    }
    for (int64_t d = 0; d < w->D; d++) y[d] = 0;
    for (int64_t p = w->first; p <= w->last; p++) {
        int64_t slot = zt_slots_find(w->slots, w->row, p, &none);
        double e = exp(score_of_slot(w, slot, p) - max);
        sum += e;
        for (int64_t d = 0; d < w->D; d++) y[d] += e * w->v[slot * w->stride + d];
    }
    if (w->sink > -INFINITY) sum += exp(w->sink - max);
    for (int64_t d = 0; d < w->D; d++) y[d] /= sum;
}

static bool slots_good(const zt_slots *slots, int64_t row, int64_t first, int64_t last, zt_runtime_error *error)
{
    if (zt_slots_find(slots, row, last, error) < 0) return false;
    for (int64_t p = first; p <= last; p++)
        if (zt_slots_find(slots, row, p, error) < 0) return false;
    return true;
}

/* What one of the ops adds: the index of its input pos; of linear biases `bias`, 0: there are none; chunks for windows. */
typedef struct form {
    int at;
    double bias;
    bool chunked;
} form;

/* The first position that a row sees. */
static int64_t first_seen(const zt_attention_attrs *attention, bool chunked, int64_t pos)
{
    if (chunked) return pos - pos % attention->window;
    return attention->window > 0 && pos >= attention->window ? pos - attention->window + 1 : 0;
}

static void attend_rows(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error, form of)
{
    const int at = of.at;
    const double bias = of.bias;
    const zt_attention_attrs *attention = attrs;
    int64_t n = in[0].type->dim[0], D = attention->head, W = in[1].type->dim[1];
    int64_t H = in[0].type->dim[1] / D, G = W / D;
    zt_slots slots = zt_slots_make(in[1].type->dim[0], &in[at + 1], &in[at + 2]);
    for (int64_t r = 0; r < n; r++) {
        int64_t pos = in[at].i[r], first = first_seen(attention, of.chunked, pos);
        bool good = slots_good(&slots, r, first, pos, error);
        for (int64_t h = 0; h < H; h++) {
            int64_t column = h / (H / G) * D;
            double *y = out[0].f + (r * H + h) * D;
            view w = {.slots = &slots,
                      .q = in[0].f + (r * H + h) * D,
                      .k = in[1].f + column,
                      .v = in[2].f + column,
                      .row = r,
                      .first = first,
                      .last = pos,
                      .D = D,
                      .stride = W,
                      .scale = attention->scale != 0 ? attention->scale : 1 / sqrt((double)D),
                      .softcap = attention->softcap,
                      .sink = at > SINKS ? in[SINKS].f[h] : -INFINITY,
                      .slope = bias > 0 ? zt_alibi_slope(bias, H, h) : 0,
                      .at = bias > 0 && in[QUERY_AT].i ? in[QUERY_AT].i[r] : pos};
            if (good)
                attend_row(&w, y);
            else
                for (int64_t d = 0; d < D; d++) y[d] = 0;
        }
    }
}

static void attention_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    attend_rows(attrs, in, out, error, (form){SINKS, 0, false});
}

static void attention_alibi_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    attend_rows(attrs, in, out, error, (form){SINKS, ((const zt_attention_alibi_attrs *)attrs)->bias, false});
}

static void attention_sinks_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    attend_rows(attrs, in, out, error, (form){SINKS + 1, 0, false});
}

static void attention_chunked_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    attend_rows(attrs, in, out, error, (form){SINKS, 0, true});
}

/* As if every row saw the whole cache (or window): how full it is, is data. */
static double attention_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    const zt_attention_attrs *attention = attrs;
    int64_t seen = in[1]->dim[0];
    if (attention->window > 0 && attention->window < seen) seen = attention->window;
    return 4 * (double)zt_type_count(out) * (double)seen;
}

/* Keys and values as often as their rows are seen by any: by one window, or all. */
static double bytes_of(const void *attrs, const zt_type *const in[], const zt_type *out, int inputs)
{
    const zt_attention_attrs *attention = attrs;
    double rows = (double)in[1]->dim[0], seen = rows, sum = 0;
    double most = (double)attention->window + (double)in[0]->dim[0];
    if (attention->window > 0 && most < seen) seen = most;
    for (int k = 0; k < inputs; k++) {
        double share = rows > 0 && (k == 1 || k == 2) ? seen / rows : 1;
        if (in[k]) sum += (double)zt_type_bytes(in[k]) * share;
    }
    return sum + (double)zt_type_bytes(out);
}

static double attention_bytes(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    return bytes_of(attrs, in, out, SINKS + 3);
}

static double attention_sinks_bytes(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    return bytes_of(attrs, in, out, SINKS + 4);
}

static bool cases_at(int i, zt_case *test_case, int pos)
{
    static const struct {
        int64_t n, H, G, ctx, pos0, S, B;
        zt_dtype keys, values;
        zt_attention_attrs a; /* head, scale, window, softcap */
    } rows[] = {
        {2, 1, 1, 8, 0, 0, 0, ZT_F32, ZT_F32, {.head = 32}},
        {1, 9, 3, 64, 63, 0, 0, ZT_F16, ZT_F16, {.head = 64}},
        {65, 9, 3, 128, 0, 0, 0, ZT_F16, ZT_F16, {.head = 64}},
        {7, 9, 3, 300, 250, 0, 0, ZT_F32, ZT_F32, {.head = 64}},
        {9, 4, 1, 64, 3, 0, 0, ZT_F16, ZT_F16, {.head = 256, .scale = 0.0625}},
        {20, 4, 1, 64, 10, 0, 0, ZT_F16, ZT_F16, {.head = 256, .scale = 0.0625, .window = 16}},
        {40, 2, 2, 300, 200, 0, 0, ZT_F32, ZT_F32, {.head = 33, .window = 7}},
        {3, 2, 1, 40, 0, 0, 0, ZT_F32, ZT_F32, {.head = 16, .window = 1}},
        {9, 3, 1, 64, 20, 0, 0, ZT_F16, ZT_F16, {.head = 64, .softcap = 2}},
        {7, 9, 3, 128, 60, 0, 8, ZT_F16, ZT_F16, {.head = 64}},
        {9, 4, 2, 120, 30, 3, 12, ZT_F32, ZT_F32, {.head = 40}},
        {20, 6, 2, 256, 90, 2, 16, ZT_F16, ZT_F16, {.head = 64, .window = 50}},
        {90, 4, 2, 640, 500, 0, 0, ZT_F16, ZT_F16, {.head = 64, .window = 300}},
        {70, 6, 2, 256, 100, 2, 8, ZT_F16, ZT_F16, {.head = 24, .window = 90}},
        {66, 2, 1, 384, 250, 0, 0, ZT_F16, ZT_F16, {.head = 136}},
        {67, 18, 1, 128, 20, 0, 0, ZT_F16, ZT_F16, {.head = 96, .softcap = 3}},
        {5, 3, 3, 33, 9, 1, 0, ZT_F32, ZT_F32, {.head = 7}},
        {1, 1, 1, 1, 0, 0, 0, ZT_F16, ZT_F16, {.head = 128}},
        {0, 9, 3, 64, 0, 0, 0, ZT_F16, ZT_F16, {.head = 64}},
        {0, 2, 1, 64, 0, 2, 4, ZT_F32, ZT_F32, {.head = 64}},
        {4, 4, 2, 12, 5, 2, 3, ZT_F32, ZT_F32, {.head = 4, .window = 3}},
        {3, 2, 2, 8, 2, 0, 4, ZT_F16, ZT_F16, {.head = 3, .softcap = 2}},
        {1, 16, 1, 300, 290, 0, 0, ZT_F16, ZT_F16, {.head = 576, .scale = 0.04}}, /* latent attention */
        {19, 4, 1, 64, 30, 0, 0, ZT_F32, ZT_F32, {.head = 576}},
        {1, 9, 3, 300, 290, 0, 0, ZT_Q8_0, ZT_Q8_0, {.head = 64}},
        {9, 4, 1, 128, 60, 0, 8, ZT_Q8_0, ZT_Q4_0, {.head = 256}},
        {20, 6, 2, 256, 90, 2, 16, ZT_Q4_0, ZT_Q5_1, {.head = 64, .window = 50}},
        {3, 2, 1, 64, 20, 0, 0, ZT_Q5_0, ZT_IQ4_NL, {.head = 32, .softcap = 3}},
        {2, 2, 2, 64, 20, 0, 0, ZT_IQ4_NL, ZT_Q4_1, {.head = 96}},
        {5, 4, 2, 64, 20, 0, 0, ZT_Q5_1, ZT_F16, {.head = 64}},
        {5, 4, 2, 64, 20, 0, 0, ZT_F16, ZT_Q5_0, {.head = 64}},
        {5, 4, 2, 64, 20, 0, 0, ZT_Q4_1, ZT_F32, {.head = 64}},
    };
    if (i >= ZT_LEN(rows)) return false;
    int64_t D = rows[i].a.head, kv[] = {rows[i].ctx, rows[i].G * D};
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    zt_case_in(test_case, 0, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){rows[i].n, rows[i].H * D});
    zt_case_in(test_case, 1, ZT_FILL_NORMAL, 0, rows[i].keys, 2, kv);
    zt_case_in(test_case, 2, ZT_FILL_NORMAL, 0, rows[i].values, 2, kv);
    if (pos > SINKS) zt_case_in(test_case, SINKS, ZT_FILL_NORMAL, 0, ZT_F32, 1, &rows[i].H);
    zt_slots_case(test_case, pos, rows[i].n, rows[i].pos0, rows[i].S, rows[i].B);
    return true;
}

static bool attention_cases(int i, zt_case *test_case) { return cases_at(i, test_case, SINKS); }

static bool attention_sinks_cases(int i, zt_case *test_case) { return cases_at(i, test_case, SINKS + 1); }

/* Every other case has positions of its own for the queries: 5 before the last key that is seen. */
static bool attention_alibi_cases(int i, zt_case *test_case)
{
    static const double biases[] = {8, 16, 4};
    zt_attention_alibi_attrs attrs = {.bias = biases[i % ZT_LEN(biases)]};
    if (!cases_at(i, test_case, SINKS)) return false;
    memcpy(&attrs, test_case->attrs, sizeof(zt_attention_attrs));
    zt_case_attrs(test_case, &attrs, sizeof attrs);
    if (i % 2 == 0) return true;
    zt_case_in(test_case, QUERY_AT, ZT_FILL_RISING, 0, ZT_I32, 1, &test_case->in[0].dim[0]);
    test_case->limit[QUERY_AT] = test_case->limit[SINKS] - 5;
    return true;
}

/* Chunks of the case's window, else of 10 positions and more. */
static bool attention_chunked_cases(int i, zt_case *test_case)
{
    zt_attention_attrs attrs;
    if (!cases_at(i, test_case, SINKS)) return false;
    memcpy(&attrs, test_case->attrs, sizeof attrs);
    if (attrs.window == 0) attrs.window = 10 + 7 * i;
    zt_case_attrs(test_case, &attrs, sizeof attrs);
    return true;
}

/* ---- as ops ---------------------------------------------------------------------------------- */

/* Rows of the cache, and the positions that they hold, f32 [ctx]. */
static int emit_positions(const zt_emit *emit, int k)
{
    int one = zt_build_sum(emit, k, &(zt_sum_attrs){{1, {1}}, 0});
    one = zt_build_fill_like(emit, one, &(zt_fill_like_attrs){1});
    return zt_build_cumsum(emit, one, &(zt_cumsum_attrs){.axis = 0, .exclusive = 1});
}

/* bool [n,ctx]: does row t see position p. */
static int emit_seen(const zt_emit *emit, int p, int pos, int64_t window)
{
    const zt_cast_attrs f32 = zt_cast_defaults();
    int last = zt_build_group(emit, zt_build_cast(emit, pos, &f32), &(zt_group_attrs){1});
    int all = zt_build_le(emit, p, last);
    if (window <= 0) return all;
    return zt_build_logical_and(emit, all, zt_build_gt(emit, p, zt_build_plus(emit, last, -(double)window)));
}

static int cast_to(const zt_emit *emit, int x, zt_dtype dtype)
{
    return zt_build_cast(emit, x, &(zt_cast_attrs){.to = zt_row_word_of(dtype), .saturate = 1});
}

/* i32 [n,ctx]: where position p of row t's sequence is; `in` begins with pos. */
static int slots_of(const zt_emit *emit, int p, const int *in, int64_t n, int64_t B, int64_t block)
{
    int seq = in[1];
    if (seq == ZT_NONE) /* the first */
        seq = cast_to(emit, zt_build_times(emit, cast_to(emit, in[0], ZT_F64), 0), ZT_I32);
    seq = zt_build_broadcast_to(emit, zt_build_group(emit, seq, &(zt_group_attrs){1}), ZT_NONE,
                                &(zt_broadcast_to_attrs){{2, {n, B}}});
    int table = zt_build_gather_elements(emit, in[2], seq, &(zt_gather_elements_attrs){.oob = {"error"}});
    table = zt_build_times(emit, cast_to(emit, table, ZT_F64), (double)block); /* exact */
    int first = zt_build_group(emit, cast_to(emit, table, ZT_I32), &(zt_group_attrs){1});
    int within = zt_build_slice(emit, cast_to(emit, p, ZT_I32), &(zt_slice_attrs){0, 0, block});
    return zt_build_reshape(emit, zt_build_add(emit, first, within), &(zt_reshape_attrs){{2, {n, B * block}}});
}

static int as_heads(const zt_emit *emit, int x, int64_t b, int64_t s, int64_t heads, int64_t D)
{
    return zt_build_reshape(emit, x, &(zt_reshape_attrs){{4, {b, s, heads, D}}});
}

/* y [rows,each,H,D] times the share of the softmax that a sink leaves, e^lse / (e^lse + e^sink); lse [rows,H,each]. */
static int leave_share(const zt_emit *emit, int y, int lse, int sinks)
{
    int share = zt_build_transpose(emit, lse, &(zt_transpose_attrs){{3, {0, 2, 1}}});
    share = zt_build_sigmoid(emit, zt_build_sub(emit, share, sinks));
    zt_type type = emit->type(emit->user, share);
    share = zt_build_reshape(emit, share, &(zt_reshape_attrs){{4, {type.dim[0], type.dim[1], type.dim[2], 1}}});
    return zt_build_mul(emit, y, share);
}

/* [heads,1,1]: 2 to the power of what zt_alibi_slope computes; ones: f32 [heads]. */
static int emit_slopes(const zt_emit *emit, int ones, int64_t heads, double bias)
{
    int64_t power = 1;
    while (2 * power <= heads) power *= 2;
    double step = bias / (double)power;
    int head = zt_build_cumsum(emit, ones, &(zt_cumsum_attrs){.axis = 0, .exclusive = 1}),
        down = zt_build_times(emit, head, -step);
    int slope = zt_build_plus(emit, down, -step);
    if (power < heads) {
        int first = zt_build_lt(emit, head, zt_build_times(emit, ones, (double)power));
        slope = zt_build_where(emit, first, slope, zt_build_plus(emit, down, step * ((double)power - 0.5)));
    }
    slope = zt_build_exp(emit, zt_build_times(emit, slope, log(2)));
    return zt_build_reshape(emit, slope, &(zt_reshape_attrs){{3, {heads, 1, 1}}});
}

/* What linear biases add to the scores where `seen` [rows,1,each,ctx] is true, and -inf elsewhere: [rows,heads,each,ctx]. p: positions
 * f32[ctx], at: those of the queries. */
static int emit_biases(const zt_emit *emit, int seen, int p, int at, int q, int64_t D, double bias)
{
    const zt_cast_attrs f32 = zt_cast_defaults();
    zt_type type = emit->type(emit->user, seen), rows = emit->type(emit->user, q);
    int64_t heads = rows.dim[1] / D;
    int ones = zt_build_slice(emit, q, &(zt_slice_attrs){.axis = 1, .from = 0, .to = heads});
    ones = zt_build_fill_like(emit, zt_build_sum(emit, ones, &(zt_sum_attrs){{1, {0}}, 0}), &(zt_fill_like_attrs){1});
    at = zt_build_group(emit, zt_build_cast(emit, at, &f32), &(zt_group_attrs){1});
    int distance = zt_build_abs(emit, zt_build_sub(emit, at, p));
    distance = zt_build_reshape(emit, distance, &(zt_reshape_attrs){{4, {type.dim[0], 1, type.dim[2], type.dim[3]}}});
    int added = zt_build_times(emit, zt_build_mul(emit, emit_slopes(emit, ones, heads, bias), distance), -1);
    return zt_build_where(emit, seen, added, zt_build_fill_like(emit, added, &(zt_fill_like_attrs){-INFINITY}));
}

/* sdpa whose mask says what is seen; with a table each row by itself, its keys and values gathered.
 * Nothing where shapes are not known. */
static void expand_at(const zt_emit *emit, const void *attrs, const int *in, int *out, int pos, double bias)
{
    const zt_attention_attrs *attention = attrs;
    zt_type q = emit->type(emit->user, in[0]), kv = emit->type(emit->user, in[1]);
    int64_t n = q.dim[0], ctx = kv.dim[0], D = attention->head, rows = 1;
    if (n < 0 || ctx < 0) return;
    int k = zt_build_wide(emit, in[1]), v = zt_build_wide(emit, in[2]), p = emit_positions(emit, k);
    int mask = emit_seen(emit, p, in[pos], attention->window), lse;
    if (in[pos + 2] != ZT_NONE) {
        const zt_gather_attrs zero = {.oob = {"zero"}};
        int64_t B = emit->type(emit->user, in[pos + 2]).dim[1];
        int slots = slots_of(emit, p, in + pos, n, B, ctx / B);
        k = zt_build_gather(emit, k, slots, &zero);
        v = zt_build_gather(emit, v, slots, &zero);
        rows = n;
    }
    int64_t each = rows == 1 ? n : 1, G = kv.dim[1] / D;
    zt_sdpa_attrs how = zt_sdpa_defaults();
    how.scale = attention->scale, how.softcap = attention->softcap, how.layout = (zt_enum_string){"bshd"};
    mask = zt_build_reshape(emit, mask, &(zt_reshape_attrs){{4, {rows, 1, each, ctx}}});
    if (bias > 0) mask = emit_biases(emit, mask, p, in[QUERY_AT] == ZT_NONE ? in[pos] : in[QUERY_AT], in[0], D, bias);
    int y = zt_build_sdpa(emit, as_heads(emit, in[0], rows, each, q.dim[1] / D, D), as_heads(emit, k, rows, ctx, G, D),
                          as_heads(emit, v, rows, ctx, G, D), mask, ZT_NONE, &how, pos > SINKS ? &lse : NULL);
    if (pos > SINKS) y = leave_share(emit, y, lse, in[SINKS]);
    out[0] = zt_build_reshape_like(emit, y, in[0]);
}

static void attention_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    expand_at(emit, attrs, in, out, SINKS, 0);
}

static void attention_alibi_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    expand_at(emit, attrs, in, out, SINKS, ((const zt_attention_alibi_attrs *)attrs)->bias);
}

static void attention_sinks_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    expand_at(emit, attrs, in, out, SINKS + 1, 0);
}

const zt_opdef zt_op_attention = {
    .synopsis =
        "y[t,h] = sum_p softmax_p(scale q[t,h].k[slot(p),g]) v[slot(p),g], g = h/(H/G), p "
        "from max(0, pos[t]-window+1) (window 0: from 0) to pos[t]; q f32[n,H*head], k and v "
        "[ctx,G*head], each of a type that kv_put writes (of blocks: head a multiple of 32); pos, seq, table and slot as in kv_put; scale 0: 1/sqrt(head); "
        "softcap > 0: scores become softcap tanh(s/softcap)",
    .n_required = 4,
    .flags = ZT_OPF_SUMS,
    .infer = attention_infer,
    .ref = attention_ref,
    .flops = attention_flops,
    .bytes = attention_bytes,
    .cases = attention_cases,
    .expand = attention_expand,
};

const zt_opdef zt_op_attention_sinks = {
    .synopsis = "attention whose softmax has one score more for each query head, sinks[h], which weighs no value: y[t,h] = "
                "sum_p e^s[p] v[slot(p),g] / (e^sinks[h] + sum_p e^s[p]) with the scores s of attention; sinks f32[H]; the "
                "other inputs and the attributes as in attention",
    .n_required = 5,
    .flags = ZT_OPF_SUMS,
    .infer = attention_sinks_infer,
    .ref = attention_sinks_ref,
    .flops = attention_flops,
    .bytes = attention_sinks_bytes,
    .cases = attention_sinks_cases,
    .expand = attention_sinks_expand,
};

const zt_opdef zt_op_attention_alibi = {
    .synopsis =
        "attention with linear biases: each score of position p is less by slope[h] |at[t] - p|, at i32[n] (absent: pos); "
        "slope[h] = 2^(-bias (h+1)/P) for h < P, the largest power of two up to H, and 2^(-bias (h-P+1/2)/P) for the "
        "other heads; bias in (0, 1024]; the other inputs and attributes as in attention",
    .n_required = 4,
    .flags = ZT_OPF_SUMS,
    .infer = attention_alibi_infer,
    .ref = attention_alibi_ref,
    .flops = attention_flops,
    .bytes = attention_sinks_bytes,
    .cases = attention_alibi_cases,
    .expand = attention_alibi_expand,
};

const zt_opdef zt_op_attention_chunked = {
    .synopsis = "attention in chunks of positions: p goes from pos[t] - pos[t] mod chunk to pos[t]; chunk 1 or more; the inputs "
                "and the other attributes as in attention",
    .n_required = 4,
    .flags = ZT_OPF_SUMS,
    .infer = attention_chunked_infer,
    .ref = attention_chunked_ref,
    .flops = attention_flops,
    .bytes = attention_bytes,
    .cases = attention_chunked_cases,
};
