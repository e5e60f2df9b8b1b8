/* attention.c - the row of causal attention over a cache.
 *
 * k and v need not be a cache: with the step's own rows there, and in `pos` the last row that each
 * sees, every row sees the same ones, as in an encoder. */
#include "lib/ops/row.h"

#include <math.h>

static zt_status attention_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                                 zt_type out[])
{
    const zt_attention_attrs *a = attrs;
    const zt_type *q = in[0], *k = in[1], *v = in[2];
    zt_status s = zt_row_want(ctx, "q", q, ZT_F32, 2);
    if (s) return s;
    if (a->head < 1) return zt_row_fail(ctx, ZT_EUSAGE, "head is %lld", (long long)a->head);
    if (a->window < 0) return zt_row_fail(ctx, ZT_EUSAGE, "window is %lld", (long long)a->window);
    if (!(a->softcap >= 0)) return zt_row_fail(ctx, ZT_EUSAGE, "softcap is %g", a->softcap);
    if (!isfinite(a->scale)) return zt_row_fail(ctx, ZT_EUSAGE, "scale is %g", a->scale);
    if ((k->dtype != ZT_F32 && k->dtype != ZT_F16) || k->rank != 2 || !zt_type_equal(k, v))
        return zt_row_fail(ctx, ZT_ESHAPE,
                           "k and v are not two matrices of f32 or f16 of one type");
    if (q->dim[1] % a->head || k->dim[1] % a->head)
        return zt_row_fail(ctx, ZT_ESHAPE, "%lld and %lld columns are not heads of %lld",
                           (long long)q->dim[1], (long long)k->dim[1], (long long)a->head);
    int64_t H = q->dim[1] / a->head, G = k->dim[1] / a->head;
    if (G < 1 || H % G)
        return zt_row_fail(ctx, ZT_ESHAPE, "%lld query heads do not share %lld key heads evenly",
                           (long long)H, (long long)G);
    out[0] = *q;
    return zt_slots_infer(ctx, q->dim[0], k->dim[0], in[3], in[4], in[5]);
}

/* What one row needs: its query head, the columns of its key head, the positions it sees. */
typedef struct view {
    const zt_slots *slots;
    const double *q, *k, *v; /* k and v at the head's first column */
    int64_t row, first, last, D, stride;
    double scale, softcap;
} view;

static double score(const view *w, int64_t slot)
{
    const double *k = w->k + slot * w->stride;
    double sum = 0;
    for (int64_t d = 0; d < w->D; d++) sum += w->q[d] * k[d];
    sum *= w->scale;
    return w->softcap > 0 ? w->softcap * tanh(sum / w->softcap) : sum;
}

/* Scores are computed twice, once for their maximum, so that no memory is needed for them. All
 * slots are known to be good. */
static void attend(const view *w, double *y)
{
    zt_trouble none = {0};
    double max = -INFINITY, sum = 0;
    for (int64_t p = w->first; p <= w->last; p++) {
        double s = score(w, zt_slots_find(w->slots, w->row, p, &none));
        max = s > max ? s : max;
    }
    for (int64_t d = 0; d < w->D; d++) y[d] = 0;
    for (int64_t p = w->first; p <= w->last; p++) {
        int64_t slot = zt_slots_find(w->slots, w->row, p, &none);
        double e = exp(score(w, slot) - max);
        sum += e;
        for (int64_t d = 0; d < w->D; d++) y[d] += e * w->v[slot * w->stride + d];
    }
    for (int64_t d = 0; d < w->D; d++) y[d] /= sum;
}

static bool slots_good(const zt_slots *slots, int64_t row, int64_t first, int64_t last,
                       zt_trouble *t)
{
    if (zt_slots_find(slots, row, last, t) < 0) return false;
    for (int64_t p = first; p <= last; p++)
        if (zt_slots_find(slots, row, p, t) < 0) return false;
    return true;
}

static void attention_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)
{
    const zt_attention_attrs *a = attrs;
    int64_t n = in[0].type->dim[0], D = a->head, W = in[1].type->dim[1];
    int64_t H = in[0].type->dim[1] / D, G = W / D;
    zt_slots slots = zt_slots_make(in[1].type->dim[0], &in[4], &in[5]);
    for (int64_t r = 0; r < n; r++) {
        int64_t pos = in[3].i[r],
                first = a->window > 0 && pos >= a->window ? pos - a->window + 1 : 0;
        bool good = slots_good(&slots, r, first, pos, t);
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
                      .scale = a->scale != 0 ? a->scale : 1 / sqrt((double)D),
                      .softcap = a->softcap};
            if (good)
                attend(&w, y);
            else
                for (int64_t d = 0; d < D; d++) y[d] = 0;
        }
    }
}

/* As if every row saw the whole cache (or window): how full it is, is data. */
static double attention_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    const zt_attention_attrs *a = attrs;
    int64_t seen = in[1]->dim[0];
    if (a->window > 0 && a->window < seen) seen = a->window;
    return 4 * (double)zt_type_count(out) * (double)seen;
}

/* Keys and values as often as their rows are seen by any: by one window, or all. */
static double attention_bytes(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    const zt_attention_attrs *a = attrs;
    double rows = (double)in[1]->dim[0], seen = rows, sum = 0;
    double most = (double)a->window + (double)in[0]->dim[0];
    if (a->window > 0 && most < seen) seen = most;
    for (int k = 0; k < 6; k++)
        if (in[k])
            sum += (double)zt_type_bytes(in[k]) * (rows > 0 && (k == 1 || k == 2) ? seen / rows : 1);
    return sum + (double)zt_type_bytes(out);
}

static bool attention_cases(int i, zt_case *c)
{
    static const struct {
        int64_t n, H, G, ctx, pos0, S, B;
        zt_dtype kv;
        zt_attention_attrs a; /* head, scale, window, softcap */
    } rows[] = {
        {2, 1, 1, 8, 0, 0, 0, ZT_F32, {.head = 32}},
        {1, 9, 3, 64, 63, 0, 0, ZT_F16, {.head = 64}},
        {65, 9, 3, 128, 0, 0, 0, ZT_F16, {.head = 64}},
        {7, 9, 3, 300, 250, 0, 0, ZT_F32, {.head = 64}},
        {9, 4, 1, 64, 3, 0, 0, ZT_F16, {.head = 256, .scale = 0.0625}},
        {20, 4, 1, 64, 10, 0, 0, ZT_F16, {.head = 256, .scale = 0.0625, .window = 16}},
        {40, 2, 2, 300, 200, 0, 0, ZT_F32, {.head = 33, .window = 7}},
        {3, 2, 1, 40, 0, 0, 0, ZT_F32, {.head = 16, .window = 1}},
        {9, 3, 1, 64, 20, 0, 0, ZT_F16, {.head = 64, .softcap = 2}},
        {7, 9, 3, 128, 60, 0, 8, ZT_F16, {.head = 64}},
        {9, 4, 2, 120, 30, 3, 12, ZT_F32, {.head = 40}},
        {20, 6, 2, 256, 90, 2, 16, ZT_F16, {.head = 64, .window = 50}},
        {90, 4, 2, 640, 500, 0, 0, ZT_F16, {.head = 64, .window = 300}},
        {70, 6, 2, 256, 100, 2, 8, ZT_F16, {.head = 24, .window = 90}},
        {66, 2, 1, 384, 250, 0, 0, ZT_F16, {.head = 136}},
        {67, 18, 1, 128, 20, 0, 0, ZT_F16, {.head = 96, .softcap = 3}},
        {5, 3, 3, 33, 9, 1, 0, ZT_F32, {.head = 7}},
        {1, 1, 1, 1, 0, 0, 0, ZT_F16, {.head = 128}},
        {0, 9, 3, 64, 0, 0, 0, ZT_F16, {.head = 64}},
        {0, 2, 1, 64, 0, 2, 4, ZT_F32, {.head = 64}},
    };
    if (i >= ZT_LEN(rows)) return false;
    int64_t D = rows[i].a.head, kv[] = {rows[i].ctx, rows[i].G * D};
    zt_case_attrs(c, &rows[i].a, sizeof rows[i].a);
    zt_case_in(c, 0, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){rows[i].n, rows[i].H * D});
    zt_case_in(c, 1, ZT_FILL_NORMAL, 0, rows[i].kv, 2, kv);
    zt_case_in(c, 2, ZT_FILL_NORMAL, 0, rows[i].kv, 2, kv);
    zt_slots_case(c, 3, rows[i].n, rows[i].pos0, rows[i].S, rows[i].B);
    return true;
}

const zt_opdef zt_op_attention = {
    .synopsis =
        "y[t,h] = sum_p softmax_p(scale q[t,h].k[slot(p),g]) v[slot(p),g], g = h/(H/G), p from "
        "max(0, pos[t]-window+1) (window 0: from 0) to pos[t]; q f32[n,H*head], k, v f16|f32 "
        "[ctx,G*head], pos, seq, table and slot as kv_put's; scale 0: 1/sqrt(head); softcap > "
        "0: scores become softcap tanh(s/softcap)",
    .n_required = 4,
    .flags = ZT_OPF_SUMS,
    .infer = attention_infer,
    .ref = attention_ref,
    .flops = attention_flops,
    .bytes = attention_bytes,
    .cases = attention_cases,
};
