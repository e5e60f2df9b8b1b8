/* sdpa.c - the row of scaled dot-product attention, and what its gradient's row shares with it.
 *
 * Vaswani et al., "Attention Is All You Need" (2017); never all scores at once: Dao,
 * "FlashAttention-2" (2023). Unlike `attention`, whose keys are a cache, this one has a gradient
 * and masks.
 */
#include "lib/ops/sdpa_row.h"

#include <math.h>

/* ---- types ----------------------------------------------------------------------------------- */

static zt_status check_attrs(zt_ctx *ctx, const zt_sdpa_attrs *attrs)
{
    static const char *const aligns[] = {"start", "end"}, *const layouts[] = {"bhsd", "bshd"};
    zt_status status = zt_row_word(ctx, "align", &attrs->align, aligns, ZT_LEN(aligns));
    if (!status) status = zt_row_word(ctx, "layout", &attrs->layout, layouts, ZT_LEN(layouts));
    if (status) return status;
    if (!isfinite(attrs->scale)) return zt_row_fail(ctx, ZT_EUSAGE, "scale is %g: must be finite", attrs->scale);
    if (!(attrs->softcap >= 0) || !isfinite(attrs->softcap))
        return zt_row_fail(ctx, ZT_EUSAGE, "softcap is %g: must be finite and nonnegative", attrs->softcap);
    if (attrs->causal != 0 && attrs->causal != 1)
        return zt_row_fail(ctx, ZT_EUSAGE, "causal is %lld: must be 0 or 1", (long long)attrs->causal);
    if (attrs->left < -1 || attrs->right < -1 || attrs->left > ZT_SDPA_FAR || attrs->right > ZT_SDPA_FAR)
        return zt_row_fail(ctx, ZT_EUSAGE, "left is %lld and right %lld: must be numbers of keys, or -1 (no limit)",
                           (long long)attrs->left, (long long)attrs->right);
    if (attrs->offset < -ZT_SDPA_FAR || attrs->offset > ZT_SDPA_FAR)
        return zt_row_fail(ctx, ZT_EUSAGE, "offset %lld is out of range", (long long)attrs->offset);
    return ZT_OK;
}

static zt_status check_mask(zt_ctx *ctx, const zt_sdpa *z, const zt_type *q, const zt_type *mask)
{
    const int64_t full[] = {z->b, z->h, z->s, z->t};
    if (mask->dtype != ZT_BOOL && mask->dtype != q->dtype)
        return zt_row_fail(ctx, ZT_ESHAPE, "mask must be bool or have the dtype of q");
    bool fits = mask->rank <= 4;
    for (int d = 1; d <= mask->rank && fits; d++)
        fits = mask->dim[mask->rank - d] == 1 || mask->dim[mask->rank - d] == full[4 - d];
    if (fits) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "mask cannot be broadcast to batch %lld x heads %lld x queries %lld x keys %lld",
                       (long long)z->b, (long long)z->h, (long long)z->s, (long long)z->t);
}

zt_status zt_sdpa_check(zt_ctx *ctx, const zt_sdpa_attrs *attrs, const zt_type *q, const zt_type *k, const zt_type *v,
                        const zt_type *mask, const zt_type *len)
{
    zt_status status = check_attrs(ctx, attrs);
    if (!status) status = zt_row_want_float(ctx, "q", q);
    if (!status) status = zt_row_want(ctx, "q", q, q->dtype, 4);
    if (!status) status = zt_row_want(ctx, "k", k, q->dtype, 4);
    if (!status) status = zt_row_want(ctx, "v", v, q->dtype, 4);
    if (status) return status;
    zt_sdpa z = zt_sdpa_sizes(attrs, q, k, v);
    if (k->dim[0] != z.b || v->dim[0] != z.b)
        return zt_row_fail(ctx, ZT_ESHAPE, "q, k and v have different batch sizes %lld, %lld and %lld", (long long)z.b,
                           (long long)k->dim[0], (long long)v->dim[0]);
    if (k->dim[3] != z.d)
        return zt_row_fail(ctx, ZT_ESHAPE, "k has %lld columns, but q has %lld", (long long)k->dim[3], (long long)z.d);
    if (v->dim[1] != k->dim[1] || v->dim[2] != k->dim[2])
        return zt_row_fail(ctx, ZT_ESHAPE, "k and v must have the same shape except for the columns");
    if (z.g < 1 ? z.h > 0 : z.h % z.g != 0)
        return zt_row_fail(ctx, ZT_ESHAPE, "the number of query heads %lld is not a multiple of the number of key heads %lld",
                           (long long)z.h, (long long)z.g);
    if (len && (len->dtype != ZT_I32 || len->rank != 1 || len->dim[0] != z.b))
        return zt_row_fail(ctx, ZT_ESHAPE, "len must have type i32[%lld]", (long long)z.b);
    return mask ? check_mask(ctx, &z, q, mask) : ZT_OK;
}

zt_type zt_sdpa_stat(const zt_sdpa *z, const zt_type *q)
{
    return zt_type_make(zt_row_wide(q->dtype), 3, (int64_t[]){z->b, z->h, z->s});
}

double zt_sdpa_pairs(const zt_sdpa_attrs *attrs, const zt_sdpa *z)
{
    double pairs = 0;
    for (int64_t i = 0; i < z->s; i++) {
        zt_sdpa_span seen = zt_sdpa_seen(attrs, z, z->t, i);
        pairs += (double)(seen.hi - seen.lo);
    }
    return pairs * (double)z->b * (double)z->h;
}

/* ---- plain loops ----------------------------------------------------------------------------- */

zt_sdpa_loop zt_sdpa_loop_make(const zt_sdpa_attrs *attrs, const zt_arg *q, const zt_arg *k, const zt_arg *v, const zt_arg *mask,
                               const zt_arg *len)
{
    zt_sdpa_loop l = {.a = attrs, .q = q, .k = k, .v = v, .mask = mask, .len = len};
    l.z = zt_sdpa_sizes(attrs, q->type, k->type, v->type);
    zt_type full = zt_type_make(ZT_F32, 4, (int64_t[]){l.z.b, l.z.h, l.z.s, l.z.t});
    if (mask->type) zt_row_strides(mask->type, &full, l.mask_stride);
    l.scale = zt_sdpa_scale(attrs, &l.z);
    return l;
}

void zt_sdpa_loop_at(zt_sdpa_loop *l, int64_t n, zt_runtime_error *error)
{
    const zt_sdpa *z = &l->z;
    l->i = n % z->s;
    l->head = n / z->s % z->h;
    l->batch = n / z->s / z->h;
    l->q_at = zt_sdpa_row(z, l->batch, l->head, l->i, z->h, z->s, z->d);
    l->y_at = zt_sdpa_row(z, l->batch, l->head, l->i, z->h, z->s, z->dv);
    int64_t keys = l->len->type ? l->len->i[l->batch] : z->t;
    if (keys < 0 || keys > z->t) {
        zt_row_runtime_error(error, "length", keys, z->t + 1);
        keys = 0;
    }
    l->seen = zt_sdpa_seen(l->a, z, keys, l->i);
}

int64_t zt_sdpa_key_at(const zt_sdpa_loop *l, int64_t j, int64_t cols)
{
    const zt_sdpa *z = &l->z;
    return zt_sdpa_row(z, l->batch, l->head / (z->h / z->g), j, z->g, z->t, cols);
}

double zt_sdpa_score(const zt_sdpa_loop *l, int64_t j, double *capped)
{
    const double *q = l->q->f + l->q_at, *k = l->k->f + zt_sdpa_key_at(l, j, l->z.d);
    double s = 0;
    for (int64_t d = 0; d < l->z.d; d++) s += q[d] * k[d];
    s *= l->scale;
    if (l->a->softcap > 0) s = l->a->softcap * tanh(s / l->a->softcap);
    if (capped) *capped = s;
    if (!l->mask->type) return s;
    const int64_t *step = l->mask_stride;
    int64_t at = l->batch * step[0] + l->head * step[1] + l->i * step[2] + j * step[3];
    if (l->mask->f) return l->mask->f[at] == -INFINITY ? -INFINITY : s + l->mask->f[at];
    return l->mask->i[at] ? s : -INFINITY;
}

/* Scores are computed twice, once for their maximum, so that no memory is needed for them. NaN is
 * the largest of all. */
static double attend_query(const zt_sdpa_loop *l, double *y)
{
    double top = -INFINITY, sum = 0;
    for (int64_t j = l->seen.lo; j < l->seen.hi; j++) {
        double s = zt_sdpa_score(l, j, NULL);
        top = s > top || isnan(s) ? s : top;
    }
    for (int64_t d = 0; d < l->z.dv; d++) y[d] = 0;
    if (top == -INFINITY) return top;
    for (int64_t j = l->seen.lo; j < l->seen.hi; j++) {
        double s = zt_sdpa_score(l, j, NULL), p = exp(s - top);
        const double *v = l->v->f + zt_sdpa_key_at(l, j, l->z.dv);
        if (s == -INFINITY) continue; /* what is not seen may be anything */
        sum += p;
        for (int64_t d = 0; d < l->z.dv; d++) y[d] += p * v[d];
    }
    for (int64_t d = 0; d < l->z.dv; d++) y[d] /= sum;
    return top + log(sum);
}

/* ---- as ops ---------------------------------------------------------------------------------- */

int zt_sdpa_heads(const zt_emit *emit, const zt_sdpa_attrs *attrs, int x)
{
    if (strcmp(attrs->layout.s, "bshd")) return x;
    return zt_build_transpose(emit, x, &(zt_transpose_attrs){{4, {0, 2, 1, 3}}});
}

int64_t zt_sdpa_share(const zt_emit *emit, const zt_sdpa_attrs *attrs, int q, int k)
{
    if (q < 0 || k < 0) return 1;
    int head = strcmp(attrs->layout.s, "bshd") ? 1 : 2;
    int64_t h = emit->type(emit->user, q).dim[head], g = emit->type(emit->user, k).dim[head];
    return h > 0 && g > 0 ? h / g : 1;
}

static int emit_constant(const zt_emit *emit, int like, double value)
{
    return zt_build_fill_like(emit, like, &(zt_fill_like_attrs){value});
}

static int emit_both(const zt_emit *emit, int a, int b) { return a == ZT_NONE ? b : zt_build_logical_and(emit, a, b); }

/* Which keys windows and lengths leave to be seen, as bools of ones' shape. A key's position less
 * the query's, both from where they are aligned, is a difference of running sums of ones. */
static int emit_windows(const zt_emit *emit, const zt_sdpa_attrs *attrs, int ones, int len)
{
    bool end = !strcmp(attrs->align.s, "end"), right = attrs->causal || attrs->right >= 0;
    int seen = ZT_NONE, n = ZT_NONE;
    int j = zt_build_cumsum(emit, ones, &(zt_cumsum_attrs){3, 1, 0});
    if (len != ZT_NONE) {
        for (int d = 0; d < 3; d++) len = zt_build_group(emit, len, &(zt_group_attrs){1});
        n = zt_build_as(emit, len, ones);
        seen = zt_build_lt(emit, j, n);
    }
    if (!right && attrs->left < 0) return seen;
    int i = zt_build_cumsum(emit, ones, &(zt_cumsum_attrs){2, 1, 0});
    if (end) { /* counted from the ends */
        i = zt_build_neg(emit, zt_build_cumsum(emit, ones, &(zt_cumsum_attrs){2, 0, 1}));
        j = n == ZT_NONE ? zt_build_neg(emit, zt_build_cumsum(emit, ones, &(zt_cumsum_attrs){3, 0, 1}))
                         : zt_build_sub(emit, j, n);
    }
    int ahead = zt_build_sub(emit, j, i);
    int64_t most = attrs->offset + (attrs->causal ? 0 : attrs->right);
    if (right) seen = emit_both(emit, seen, zt_build_le(emit, ahead, emit_constant(emit, ahead, (double)most)));
    int64_t least = attrs->offset - attrs->left;
    if (attrs->left >= 0) seen = emit_both(emit, seen, zt_build_ge(emit, ahead, emit_constant(emit, ahead, (double)least)));
    return seen;
}

zt_sdpa_ops zt_sdpa_begin(const zt_emit *emit, const zt_sdpa_attrs *attrs, int q, int k, int v, int mask, int len)
{
    const zt_repeat_attrs shared = {1, zt_sdpa_share(emit, attrs, q, k)};
    zt_sdpa_ops o = {.none = ZT_NONE, .seen = ZT_NONE};
    int64_t d = q < 0 ? -1 : emit->type(emit->user, q).dim[3];
    zt_sdpa z = {.d = d > 0 ? d : 0};
    o.q = zt_sdpa_heads(emit, attrs, zt_build_wide(emit, q));
    o.k = zt_build_repeat(emit, zt_sdpa_heads(emit, attrs, zt_build_wide(emit, k)), &shared);
    o.v = zt_build_repeat(emit, zt_sdpa_heads(emit, attrs, zt_build_wide(emit, v)), &shared);
    o.capped = zt_build_times(emit, zt_build_matmul(emit, o.q, o.k, &(zt_matmul_attrs){0, 1}), zt_sdpa_scale(attrs, &z));
    if (attrs->softcap > 0) o.capped = zt_build_softcap(emit, o.capped, &(zt_softcap_attrs){attrs->softcap});
    o.score = o.capped;
    if (attrs->causal || attrs->left >= 0 || attrs->right >= 0 || len != ZT_NONE)
        o.seen = emit_windows(emit, attrs, emit_constant(emit, o.score, 1), len);
    if (mask >= 0 && emit->type(emit->user, mask).dtype == ZT_BOOL) {
        o.seen = emit_both(emit, o.seen, mask);
    } else if (mask != ZT_NONE) {
        mask = zt_build_as(emit, mask, o.score);
        o.seen = emit_both(emit, o.seen, zt_build_gt(emit, mask, emit_constant(emit, mask, -INFINITY)));
        o.score = zt_build_add(emit, o.score, mask);
    }
    if (o.seen == ZT_NONE) return o;
    o.none = emit_constant(emit, o.score, -INFINITY);
    o.score = zt_build_where(emit, o.seen, o.score, o.none);
    return o;
}

int zt_sdpa_weights(const zt_emit *emit, const zt_sdpa_ops *o, int lse)
{
    int s = zt_build_sub(emit, o->score, lse);
    return zt_build_exp(emit, o->seen == ZT_NONE ? s : zt_build_where(emit, o->seen, s, o->none));
}

int zt_sdpa_dscore(const zt_emit *emit, const zt_sdpa_ops *o, int weights, int dy, int delta)
{
    int dp = zt_build_matmul(emit, dy, o->v, &(zt_matmul_attrs){0, 1});
    return zt_build_mul(emit, weights, zt_build_sub(emit, dp, delta));
}

/* ---- cases ----------------------------------------------------------------------------------- */

bool zt_sdpa_case(int i, int k_mask, zt_case *test_case)
{
    enum { LEN = 1 };
#define A(SCALE, CAUSAL, ALIGN, OFFSET, LEFT, RIGHT, CAP, LAYOUT)                                                                \
    {                                                                                                                            \
        SCALE, CAUSAL, {ALIGN}, OFFSET, LEFT, RIGHT, CAP, { LAYOUT }                                                             \
    }
    static const struct {
        int64_t b, h, g, s, t, d, dv;
        zt_dtype dtype;
        zt_sdpa_attrs a;
        int len;
        zt_case_type mask; /* rank 0: absent */
    } rows[] = {
        {1, 1, 1, 2, 3, 4, 4, ZT_F32, A(0, 0, "start", 0, -1, -1, 0, "bhsd"), 0, {ZT_F32, 0, {0}}},
        {2, 4, 2, 7, 7, 8, 5, ZT_F32, A(0, 1, "start", 0, -1, -1, 0, "bhsd"), 0, {ZT_F32, 0, {0}}},
        {2, 4, 1, 3, 9, 8, 8, ZT_F32, A(0, 1, "end", 0, -1, -1, 0, "bshd"), 0, {ZT_F32, 0, {0}}},
        {1, 2, 2, 9, 4, 3, 3, ZT_F32, A(0.5, 1, "end", 0, -1, -1, 0, "bhsd"), 0, {ZT_F32, 0, {0}}},
        {2, 3, 3, 5, 6, 4, 7, ZT_F32, A(0, 0, "start", 0, -1, -1, 0, "bshd"), 0, {ZT_BOOL, 2, {5, 6}}},
        {2, 3, 1, 5, 6, 4, 4, ZT_F32, A(0, 1, "start", 2, -1, -1, 2, "bhsd"), 0, {ZT_F32, 4, {2, 1, 5, 6}}},
        {2, 2, 2, 5, 8, 4, 4, ZT_F32, A(0, 1, "end", 0, 2, -1, 0, "bhsd"), LEN, {ZT_F32, 2, {1, 8}}},
        {3, 2, 1, 4, 6, 5, 3, ZT_F32, A(0, 0, "start", 1, 1, 2, 0.5, "bshd"), LEN, {ZT_BOOL, 3, {2, 4, 1}}},
        {1, 2, 1, 70, 130, 16, 16, ZT_F32, A(0, 1, "end", 0, -1, -1, 0, "bhsd"), 0, {ZT_F32, 0, {0}}},
        {1, 2, 1, 200, 200, 64, 64, ZT_F32, A(0, 1, "start", 0, -1, -1, 0, "bhsd"), 0, {ZT_F32, 0, {0}}},
        {2, 3, 3, 67, 150, 33, 20, ZT_F32, A(0, 0, "start", 0, 40, 30, 0, "bshd"), LEN, {ZT_F32, 4, {2, 3, 67, 150}}},
        {1, 4, 2, 1, 300, 40, 40, ZT_F32, A(0, 1, "end", 0, -1, -1, 0, "bhsd"), 0, {ZT_BOOL, 1, {300}}},
        {1, 1, 1, 40, 80, 100, 72, ZT_F32, A(0, 1, "end", 0, 60, -1, 0, "bhsd"), 0, {ZT_F32, 0, {0}}},
        {1, 2, 1, 5, 9, 160, 136, ZT_F32, A(0, 1, "end", 0, -1, -1, 0, "bshd"), 0, {ZT_F32, 2, {5, 9}}},
        {1, 2, 2, 3, 0, 4, 4, ZT_F32, A(0, 0, "start", 0, -1, -1, 0, "bhsd"), 0, {ZT_F32, 0, {0}}},
        {1, 2, 2, 0, 3, 4, 4, ZT_F32, A(0, 0, "start", 0, -1, -1, 0, "bhsd"), 0, {ZT_F32, 0, {0}}},
        {0, 2, 1, 3, 3, 4, 4, ZT_F32, A(0, 1, "start", 0, -1, -1, 0, "bshd"), 0, {ZT_F32, 0, {0}}},
        {1, 2, 1, 3, 5, 0, 2, ZT_F32, A(0, 0, "start", 0, -1, -1, 0, "bhsd"), 0, {ZT_F32, 0, {0}}},
        {2, 2, 1, 5, 6, 4, 4, ZT_F64, A(0, 1, "start", 0, -1, -1, 0, "bhsd"), 0, {ZT_F64, 2, {5, 6}}},
        {2, 4, 2, 9, 12, 16, 24, ZT_F16, A(0, 1, "start", 0, -1, -1, 0, "bhsd"), 0, {ZT_F16, 2, {9, 12}}},
        {2, 4, 2, 70, 70, 20, 20, ZT_BF16, A(0, 1, "start", 0, -1, -1, 0, "bshd"), 0, {ZT_F32, 0, {0}}},
    };
#undef A
    if (i >= ZT_LEN(rows)) return false;
    int64_t b = rows[i].b, h = rows[i].h, g = rows[i].g, s = rows[i].s, t = rows[i].t;
    bool bshd = !strcmp(rows[i].a.layout.s, "bshd");
    const int64_t heads[] = {h, g, g}, n[] = {s, t, t}, cols[] = {rows[i].d, rows[i].d, rows[i].dv};
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    for (int k = 0; k < 3; k++)
        zt_case_in(test_case, k, ZT_FILL_NORMAL, 0, rows[i].dtype, 4,
                   (int64_t[]){b, bshd ? n[k] : heads[k], bshd ? heads[k] : n[k], cols[k]});
    if (rows[i].mask.rank) {
        bool is_bool = rows[i].mask.dtype == ZT_BOOL;
        zt_case_type_in(test_case, k_mask, is_bool ? ZT_FILL_IDS : ZT_FILL_NORMAL, &rows[i].mask);
        test_case->limit[k_mask] = 2;
    }
    if (rows[i].len) zt_case_in(test_case, k_mask + 1, ZT_FILL_IDS, t + 1, ZT_I32, 1, &b);
    return true;
}

/* ---- the row --------------------------------------------------------------------------------- */

static zt_status sdpa_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_status status = zt_sdpa_check(ctx, attrs, in[0], in[1], in[2], in[3], in[4]);
    if (status) return status;
    zt_sdpa z = zt_sdpa_sizes(attrs, in[0], in[1], in[2]);
    out[0] = *in[0];
    out[0].dim[3] = z.dv;
    out[1] = zt_sdpa_stat(&z, in[0]);
    return ZT_OK;
}

static void sdpa_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    zt_sdpa_loop l = zt_sdpa_loop_make(attrs, &in[0], &in[1], &in[2], &in[3], &in[4]);
    for (int64_t n = 0, count = l.z.b * l.z.h * l.z.s; n < count; n++) {
        zt_sdpa_loop_at(&l, n, error);
        double lse = attend_query(&l, out[0].f + l.y_at);
        if (out[1].type) out[1].f[n] = lse;
    }
}

static double sdpa_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    zt_sdpa z = zt_sdpa_sizes(attrs, in[0], in[1], in[2]);
    (void)out;
    return 2 * zt_sdpa_pairs(attrs, &z) * (double)(z.d + z.dv);
}

static bool sdpa_cases(int i, zt_case *test_case) { return zt_sdpa_case(i, 3, test_case); }

static void sdpa_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    zt_sdpa_ops o = zt_sdpa_begin(emit, attrs, in[0], in[1], in[2], in[3], in[4]);
    int lse = zt_build_logsumexp(emit, o.score, &(zt_logsumexp_attrs){{1, {3}}, 1});
    int y = zt_build_matmul(emit, zt_sdpa_weights(emit, &o, lse), o.v, NULL);
    out[0] = zt_build_as(emit, zt_sdpa_heads(emit, attrs, y), in[0]);
    out[1] = zt_build_sum(emit, lse, &(zt_sum_attrs){{1, {3}}, 0});
}

/* The gradient of the mask is that of the scores, which are made for it: as many as there are pairs
 * of query and key. */
static int mask_gradient(const zt_vjp *vjp, int dy, int lse, int delta)
{
    const zt_emit *emit = vjp->emit;
    const zt_group_attrs one = {1};
    zt_sdpa_ops o = zt_sdpa_begin(emit, vjp->attrs, vjp->in[0], vjp->in[1], vjp->in[2], vjp->in[3], vjp->in[4]);
    int p = zt_sdpa_weights(emit, &o, zt_build_group(emit, lse, &one));
    int ds =
        zt_sdpa_dscore(emit, &o, p, zt_sdpa_heads(emit, vjp->attrs, zt_build_wide(emit, dy)), zt_build_group(emit, delta, &one));
    return zt_build_as(emit, zt_build_reduced(emit, ds, vjp->in[3]), vjp->in[3]);
}

/* delta[b,h,s] = dy.y - dlse: what the scores' gradients have in common along a row. */
static void sdpa_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    const zt_sdpa_attrs *attrs = vjp->attrs;
    int y = vjp->out[0], lse = vjp->out[1], dy = vjp->dy[0], delta, more[2];
    if (dy == ZT_NONE) dy = zt_build_fill_like(emit, y, &(zt_fill_like_attrs){0});
    delta = zt_build_mul(emit, zt_build_wide(emit, y), zt_build_wide(emit, dy));
    delta = zt_build_sum(emit, delta, &(zt_sum_attrs){{1, {3}}, 0});
    if (!strcmp(attrs->layout.s, "bshd")) delta = zt_build_transpose(emit, delta, &(zt_transpose_attrs){{3, {0, 2, 1}}});
    if (vjp->dy[1] != ZT_NONE) delta = zt_build_sub(emit, delta, vjp->dy[1]);
    if (vjp->want[0] || vjp->want[1] || vjp->want[2])
        vjp->dx[0] = zt_build_sdpa_grad(emit, vjp->in[0], vjp->in[1], vjp->in[2], dy, lse, delta, vjp->in[3], vjp->in[4],
                                        vjp->attrs, &more[0], &more[1]);
    if (vjp->dx[0] != ZT_NONE) vjp->dx[1] = more[0];
    if (vjp->dx[0] != ZT_NONE) vjp->dx[2] = more[1];
    if (vjp->want[3]) vjp->dx[3] = mask_gradient(vjp, dy, lse, delta);
}

const zt_opdef zt_op_sdpa = {
    .synopsis = "y[b,h,i] = sum_j softmax_j(cap(scale q[b,h,i].k[b,g,j]) + mask) v[b,g,j], g = "
                "h/(H/G), lse = ln sum_j exp of these scores; q [b,H,s,d], k [b,G,t,d], v [b,G,t,dv] "
                "and y of the same plain float type; layout=bshd: [b,s,H,d]; lse [b,H,s], f32 or "
                "f64. Visible keys: below len[b] (i32, absent: t), allowed by the mask (bool, or "
                "added in the type of q, -inf masks; broadcast to [b,H,s,t]), in the sliding window "
                "pos-left to pos+right (-1: no limit), and with causal=1 up to pos; pos = i + "
                "offset, align=end: + keys - s. A fully masked row gives 0 and lse -inf. scale 0: "
                "1/sqrt(d); softcap > 0: cap(x) = softcap tanh(x/softcap)",
    .n_required = 3,
    .flags = ZT_OPF_SUMS,
    .infer = sdpa_infer,
    .ref = sdpa_ref,
    .flops = sdpa_flops,
    .cases = sdpa_cases,
    .vjp = sdpa_vjp,
    .expand = sdpa_expand,
};
