/* sdpa_grad.c - the row of the gradient of scaled dot-product attention, whose weights are made
 * anew from lse: Dao et al., "FlashAttention" (2022). */
#include "lib/ops/sdpa_row.h"

#include <math.h>

/* The struct of sdpa under another name. */
_Static_assert(sizeof(zt_sdpa_grad_attrs) == sizeof(zt_sdpa_attrs), "one list of attributes");

enum { Q, K, V, DY, LSE, DELTA, MASK, LEN };

static zt_status sdpa_grad_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_status status = zt_sdpa_check(ctx, attrs, in[Q], in[K], in[V], in[MASK], in[LEN]);
    if (status) return status;
    zt_sdpa z = zt_sdpa_sizes(attrs, in[Q], in[K], in[V]);
    zt_type y = *in[Q], stat = zt_sdpa_stat(&z, in[Q]);
    y.dim[3] = z.dv;
    if (!zt_type_equal(in[DY], &y)) return zt_row_fail(ctx, ZT_ESHAPE, "dy must have the type of the output");
    if (!zt_type_equal(in[LSE], &stat) || !zt_type_equal(in[DELTA], &stat))
        return zt_row_fail(ctx, ZT_ESHAPE, "lse and delta must have type %s [%lld,%lld,%lld]", zt_dtype_get(stat.dtype)->name,
                           (long long)z.b, (long long)z.h, (long long)z.s);
    for (int k = 0; k < 3; k++) out[k] = *in[k];
    return ZT_OK;
}

/* One query and one key: weight and the gradient of the score, then of q, k and v. */
static void add_pair(const zt_sdpa_loop *l, const zt_arg *in, zt_arg *out, int64_t n, int64_t j)
{
    double capped, s = zt_sdpa_score(l, j, &capped), dp = 0;
    if (s == -INFINITY) return;
    int64_t k_at = zt_sdpa_key_at(l, j, l->z.d), v_at = zt_sdpa_key_at(l, j, l->z.dv);
    const double *dy = in[DY].f + l->y_at;
    double p = exp(s - in[LSE].f[n]), cap = l->a->softcap;
    for (int64_t d = 0; d < l->z.dv; d++) dp += dy[d] * in[V].f[v_at + d];
    double ds = p * (dp - in[DELTA].f[n]) * l->scale;
    if (cap > 0) ds *= 1 - capped / cap * (capped / cap);
    for (int64_t d = 0; d < l->z.d && out[Q].type; d++) out[Q].f[l->q_at + d] += ds * in[K].f[k_at + d];
    for (int64_t d = 0; d < l->z.d && out[K].type; d++) out[K].f[k_at + d] += ds * in[Q].f[l->q_at + d];
    for (int64_t d = 0; d < l->z.dv && out[V].type; d++) out[V].f[v_at + d] += p * dy[d];
}

static void sdpa_grad_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    zt_sdpa_loop l = zt_sdpa_loop_make(attrs, &in[Q], &in[K], &in[V], &in[MASK], &in[LEN]);
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; out[k].type && i < zt_type_count(out[k].type); i++) out[k].f[i] = 0;
    for (int64_t n = 0, count = l.z.b * l.z.h * l.z.s; n < count; n++) {
        zt_sdpa_loop_at(&l, n, error);
        for (int64_t j = l.seen.lo; j < l.seen.hi; j++) add_pair(&l, in, out, n, j);
    }
}

static double sdpa_grad_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    zt_sdpa z = zt_sdpa_sizes(attrs, in[Q], in[K], in[V]);
    (void)out;
    return 2 * zt_sdpa_pairs(attrs, &z) * (double)(3 * z.d + 2 * z.dv);
}

static bool sdpa_grad_cases(int i, zt_case *test_case)
{
    if (!zt_sdpa_case(i, MASK, test_case)) return false;
    zt_sdpa z = zt_sdpa_sizes((const zt_sdpa_attrs *)test_case->attrs, &test_case->in[Q], &test_case->in[K], &test_case->in[V]);
    zt_type y = test_case->in[Q], stat = zt_sdpa_stat(&z, &y);
    y.dim[3] = z.dv;
    zt_case_in(test_case, DY, ZT_FILL_NORMAL, 0, y.dtype, y.rank, y.dim);
    zt_case_in(test_case, LSE, ZT_FILL_POSITIVE, 0, stat.dtype, stat.rank, stat.dim);
    zt_case_in(test_case, DELTA, ZT_FILL_NORMAL, 0, stat.dtype, stat.rank, stat.dim);
    return true;
}

/* What was repeated for the query heads that share a key head, summed again: the heads last, in
 * groups. */
static int emit_unshared(const zt_emit *emit, int x, int64_t share)
{
    const zt_transpose_attrs swap = {{4, {0, 3, 2, 1}}};
    if (share == 1) return x;
    x = zt_build_group(emit, zt_build_transpose(emit, x, &swap), &(zt_group_attrs){share});
    return zt_build_transpose(emit, zt_build_sum(emit, x, &(zt_sum_attrs){{1, {-1}}, 0}), &swap);
}

static void sdpa_grad_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    const zt_sdpa_attrs *sdpa = attrs;
    const zt_group_attrs one = {1};
    const zt_matmul_attrs transposed = {1, 0};
    int64_t share = zt_sdpa_share(emit, sdpa, in[Q], in[K]);
    zt_sdpa_ops o = zt_sdpa_begin(emit, sdpa, in[Q], in[K], in[V], in[MASK], in[LEN]);
    int dy = zt_sdpa_heads(emit, sdpa, zt_build_wide(emit, in[DY]));
    int p = zt_sdpa_weights(emit, &o, zt_build_group(emit, in[LSE], &one));
    int ds = zt_sdpa_dscore(emit, &o, p, dy, zt_build_group(emit, in[DELTA], &one));
    if (sdpa->softcap > 0) {
        int part = zt_build_square(emit, zt_build_times(emit, o.capped, 1 / sdpa->softcap));
        ds = zt_build_sub(emit, ds, zt_build_mul(emit, ds, part));
    }
    int64_t d = in[Q] < 0 ? -1 : emit->type(emit->user, in[Q]).dim[3];
    ds = zt_build_times(emit, ds, zt_sdpa_scale(sdpa, &(zt_sdpa){.d = d > 0 ? d : 0}));
    out[Q] = zt_build_matmul(emit, ds, o.k, NULL);
    out[K] = emit_unshared(emit, zt_build_matmul(emit, ds, o.q, &transposed), share);
    out[V] = emit_unshared(emit, zt_build_matmul(emit, p, dy, &transposed), share);
    for (int k = 0; k < 3; k++) out[k] = zt_build_as(emit, zt_sdpa_heads(emit, sdpa, out[k]), in[k]);
}

const zt_opdef zt_op_sdpa_grad = {
    .synopsis = "gradients dq, dk and dv of sdpa: with p = exp(score - lse) and ds = p (dy.v - "
                "delta) before scale and cap, dq = sum_j ds k, dk = sum ds q and dv = sum p dy over "
                "the queries and the heads that share a key head; dy has the type of y, lse is that "
                "of sdpa, delta = dy.y - dlse has the type of lse; attributes, mask and len as in "
                "sdpa",
    .n_required = 6,
    .flags = ZT_OPF_SUMS,
    .infer = sdpa_grad_infer,
    .ref = sdpa_grad_ref,
    .flops = sdpa_grad_flops,
    .cases = sdpa_grad_cases,
    .expand = sdpa_grad_expand,
};
