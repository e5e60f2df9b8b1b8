/* norm_channels.c - rows of normalisation by channels, x [N,C,...]: batch_norm in training and in
 * inference, group_norm (instance norm: a channel a group), and their gradients.
 */
#include "lib/ops/norm_channels.h"

#include <math.h>
#include <string.h>

/* ---- what they share ------------------------------------------------------------------------- */

/* Elements of one channel of one sample, and how many of each. */
typedef struct planes {
    int64_t N, C, size;
} planes;

static planes planes_of(const zt_type *x)
{
    planes p = {x->dim[0], x->dim[1], 1};
    if (!zt_type_count(x)) p.size = 0;
    for (int d = 2; d < x->rank && p.size; d++) p.size *= x->dim[d];
    return p;
}

/* Statistics are f32, of f64 f64. */
static zt_dtype stat_dtype(const zt_type *x) { return x->dtype == ZT_F64 ? ZT_F64 : ZT_F32; }

static zt_status want_x(zt_ctx *ctx, const zt_type *x)
{
    zt_status status = zt_row_want_float(ctx, "x", x);
    if (status || x->rank >= 2) return status;
    return zt_row_fail(ctx, ZT_ESHAPE, "x has %d dimensions: must have at least 2 (batch and channels)", x->rank);
}

/* One number a channel, where t is there. */
static zt_status want_channels(zt_ctx *ctx, const char *name, const zt_type *type, zt_dtype dtype, int64_t C)
{
    zt_status status = type ? zt_row_want(ctx, name, type, dtype, 1) : ZT_OK;
    if (!status && type && type->dim[0] != C)
        status = zt_row_fail(ctx, ZT_ESHAPE, "%s has %lld entries, expected %lld (channels)", name, (long long)type->dim[0],
                             (long long)C);
    return status;
}

static zt_status want_eps(zt_ctx *ctx, double eps)
{
    return eps >= 0 ? ZT_OK : zt_row_fail(ctx, ZT_EUSAGE, "eps is %g: must be nonnegative", eps);
}

/* A set of elements that are normalised together: channels first..last-1 of samples from..to-1. */
typedef struct set {
    int64_t from, to, first, last;
} set;

static double set_sum(const planes *p, const set *s, const double *x, double around, int power)
{
    double sum = 0;
    for (int64_t n = s->from; n < s->to && p->size; n++)
        for (int64_t c = s->first; c < s->last; c++)
            for (int64_t i = 0; i < p->size; i++) {
                double d = x[(n * p->C + c) * p->size + i] - around;
                sum += power == 1 ? d : d * d;
            }
    return sum;
}

static double set_count(const planes *p, const set *s)
{
    return (double)(s->to - s->from) * (double)(s->last - s->first) * (double)p->size;
}

/* y = (x - mean) rstd g + b of a set. */
static void set_norm(const planes *p, const set *s, const zt_arg *x, const zt_arg *g, const zt_arg *b, double mean, double rstd,
                     zt_arg *y)
{
    for (int64_t n = s->from; n < s->to && p->size; n++)
        for (int64_t c = s->first; c < s->last; c++)
            for (int64_t i = 0; i < p->size; i++) {
                int64_t at = (n * p->C + c) * p->size + i;
                y->f[at] = (x->f[at] - mean) * rstd * (g->type ? g->f[c] : 1) + (b->type ? b->f[c] : 0);
            }
}

static double mean_of(double sum, double n) { return n > 0 ? sum / n : 0; }

static double norm_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 7 * (double)zt_type_count(out);
}

typedef struct channel_case {
    zt_case_type x;
    int64_t groups;
    double eps;
    bool g, b, other;
} channel_case;

static const channel_case channel_rows[] = {
    {{ZT_F32, 4, {2, 3, 4, 5}}, 3, 1e-5, true, true, false},   {{ZT_F32, 2, {7, 4}}, 2, 1e-3, true, false, true},
    {{ZT_F32, 3, {1, 6, 9}}, 2, 0.5, false, true, false},      {{ZT_F32, 3, {3, 2, 1}}, 1, 1e-5, false, false, true},
    {{ZT_F32, 4, {4, 2, 1, 33}}, 2, 1e-5, true, true, true},   {{ZT_F32, 3, {0, 2, 3}}, 1, 1e-5, true, true, false},
    {{ZT_F32, 3, {2, 4, 0}}, 2, 1e-5, true, true, false},      {{ZT_F64, 3, {2, 4, 3}}, 4, 1e-5, true, true, false},
    {{ZT_F32, 4, {3, 8, 33, 47}}, 4, 1e-5, true, true, false}, {{ZT_F32, 3, {9, 64, 17}}, 8, 1e-5, true, true, true},
};

/* x, and the vectors at inputs g and b. */
static bool channel_case_at(int i, int g, int b, const channel_case **row, zt_case *test_case)
{
    if (i >= ZT_LEN(channel_rows)) return false;
    const channel_case *r = *row = &channel_rows[i];
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, &r->x);
    if (r->g) zt_case_in(test_case, g, ZT_FILL_NORMAL, 0, r->x.dtype, 1, &r->x.dim[1]);
    if (r->b && b) zt_case_in(test_case, b, ZT_FILL_NORMAL, 0, r->x.dtype, 1, &r->x.dim[1]);
    return true;
}

/* ---- batch_norm ------------------------------------------------------------------------------ */

/* Ioffe and Szegedy, "Batch Normalization" (2015). */
static zt_status batch_norm_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_batch_norm_attrs *batch_norm = attrs;
    const zt_type *x = in[0];
    zt_status status = want_x(ctx, x);
    if (!status) status = want_eps(ctx, batch_norm->eps);
    if (!status && !isfinite(batch_norm->momentum)) status = zt_row_fail(ctx, ZT_EUSAGE, "momentum must be finite");
    if (!status && batch_norm->unbiased != 0 && batch_norm->unbiased != 1)
        status = zt_row_fail(ctx, ZT_EUSAGE, "unbiased is %lld: must be 0 or 1", (long long)batch_norm->unbiased);
    if (!status) status = want_channels(ctx, "g", in[1], x->dtype, x->dim[1]);
    if (!status) status = want_channels(ctx, "b", in[2], x->dtype, x->dim[1]);
    if (!status) status = want_channels(ctx, "mean", in[3], stat_dtype(x), x->dim[1]);
    if (!status) status = want_channels(ctx, "var", in[4], stat_dtype(x), x->dim[1]);
    if (status) return status;
    out[0] = *x;
    for (int k = 1; k < 5; k++) out[k] = zt_type_make(stat_dtype(x), 1, &x->dim[1]);
    return ZT_OK;
}

static void run_on(const zt_arg *was, const zt_arg *now, int64_t c, double value, double momentum, double start)
{
    if (now->type) now->f[c] = (1 - momentum) * (was->type ? was->f[c] : start) + momentum * value;
}

static void batch_norm_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_batch_norm_attrs *batch_norm = attrs;
    planes p = planes_of(in[0].type);
    (void)error;
    for (int64_t c = 0; c < p.C; c++) {
        set s = {0, p.N, c, c + 1};
        double count = set_count(&p, &s), mean = mean_of(set_sum(&p, &s, in[0].f, 0, 1), count);
        double squares = set_sum(&p, &s, in[0].f, mean, 2);
        double rstd = 1 / sqrt(mean_of(squares, count) + batch_norm->eps);
        double var = mean_of(squares, batch_norm->unbiased && count > 1 ? count - 1 : count);
        set_norm(&p, &s, &in[0], &in[1], &in[2], mean, rstd, &out[0]);
        if (out[1].type) out[1].f[c] = mean;
        if (out[2].type) out[2].f[c] = rstd;
        run_on(&in[3], &out[3], c, mean, batch_norm->momentum, 0);
        run_on(&in[4], &out[4], c, var, batch_norm->momentum, 1);
    }
}

static bool batch_norm_cases(int i, zt_case *test_case)
{
    const channel_case *r;
    if (!channel_case_at(i, 1, 2, &r, test_case)) return false;
    zt_batch_norm_attrs a = {r->eps, r->other ? 0.25 : 0.1, !r->other};
    zt_case_attrs(test_case, &a, sizeof a);
    if (!r->g) return true;
    zt_case_in(test_case, 3, ZT_FILL_NORMAL, 0, r->x.dtype, 1, &r->x.dim[1]);
    zt_case_in(test_case, 4, ZT_FILL_POSITIVE, 0, r->x.dtype, 1, &r->x.dim[1]);
    return true;
}

static void batch_norm_vjp(zt_vjp *vjp)
{
    int dg, db;
    if (vjp->dy[0] == ZT_NONE) {
        zt_norm_stats_vjp(vjp, 0);
        return;
    }
    int dx = zt_build_batch_norm_backward(vjp->emit, vjp->in[0], vjp->out[1], vjp->out[2], vjp->dy[0], vjp->in[1],
                                          &(zt_batch_norm_backward_attrs){1}, &dg, &db);
    int d[] = {dx, dg, db};
    for (int k = 0; k < 3; k++)
        if (vjp->want[k]) vjp->dx[k] = d[k];
    zt_norm_stats_vjp(vjp, 0);
}

const zt_opdef zt_op_batch_norm = {
    .synopsis = "y = (x - save_mean) save_rstd g + b per channel, with statistics over the batch and "
                "the spatial dimensions; x [N,C,...] of any plain float type, g and b [C] (1 and 0 "
                "if absent); save_rstd = 1 / sqrt(var + eps) with the biased variance; new_mean = (1 "
                "- momentum) mean + momentum save_mean, new_var accordingly with the unbiased "
                "variance (unbiased=0: the biased one); the running mean and var [C] are f32 (f64 if "
                "x is f64), 0 and 1 if absent",
    .n_required = 1,
    .infer = batch_norm_infer,
    .ref = batch_norm_ref,
    .flops = norm_flops,
    .cases = batch_norm_cases,
    .vjp = batch_norm_vjp,
    .constant = 8 | 16,
    .saved = 8 | 16,
};

/* ---- batch_norm_inference -------------------------------------------------------------------- */

static zt_status batch_norm_inference_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_batch_norm_inference_attrs *norm = attrs;
    const zt_type *x = in[0];
    zt_status status = want_x(ctx, x);
    if (!status) status = want_eps(ctx, norm->eps);
    if (!status) status = want_channels(ctx, "mean", in[1], stat_dtype(x), x->dim[1]);
    if (!status) status = want_channels(ctx, "var", in[2], stat_dtype(x), x->dim[1]);
    if (!status) status = want_channels(ctx, "g", in[3], x->dtype, x->dim[1]);
    if (!status) status = want_channels(ctx, "b", in[4], x->dtype, x->dim[1]);
    out[0] = *x;
    return status;
}

static void batch_norm_inference_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_batch_norm_inference_attrs *norm = attrs;
    planes p = planes_of(in[0].type);
    (void)error;
    for (int64_t c = 0; c < p.C; c++)
        set_norm(&p, &(set){0, p.N, c, c + 1}, &in[0], &in[3], &in[4], in[1].f[c], 1 / sqrt(in[2].f[c] + norm->eps), &out[0]);
}

static bool batch_norm_inference_cases(int i, zt_case *test_case)
{
    const channel_case *r;
    if (!channel_case_at(i, 3, 4, &r, test_case)) return false;
    zt_batch_norm_inference_attrs a = {r->eps};
    zt_case_attrs(test_case, &a, sizeof a);
    zt_case_in(test_case, 1, ZT_FILL_NORMAL, 0, r->x.dtype, 1, &r->x.dim[1]);
    zt_case_in(test_case, 2, ZT_FILL_POSITIVE, 0, r->x.dtype, 1, &r->x.dim[1]);
    return true;
}

/* With r = 1 / sqrt(var + eps): dmean = -r g db, dvar = -r^2 g dg / 2. */
static void batch_norm_inference_vjp(zt_vjp *vjp)
{
    const zt_batch_norm_inference_attrs *attrs = vjp->attrs;
    const zt_emit *emit = vjp->emit;
    int dg, db, r = zt_build_rsqrt(emit, zt_build_plus(emit, vjp->in[2], attrs->eps));
    int dx = zt_build_batch_norm_backward(emit, vjp->in[0], vjp->in[1], r, vjp->dy[0], vjp->in[3],
                                          &(zt_batch_norm_backward_attrs){0}, &dg, &db);
    int by = vjp->in[3] == ZT_NONE ? r : zt_build_mul(emit, r, zt_build_as(emit, vjp->in[3], r));
    if (vjp->want[0]) vjp->dx[0] = dx;
    if (vjp->want[1]) vjp->dx[1] = zt_build_neg(emit, zt_build_mul(emit, by, zt_build_as(emit, db, r)));
    if (vjp->want[2])
        vjp->dx[2] = zt_build_times(emit, zt_build_mul(emit, zt_build_mul(emit, by, r), zt_build_as(emit, dg, r)), -0.5);
    if (vjp->want[3]) vjp->dx[3] = dg;
    if (vjp->want[4]) vjp->dx[4] = db;
}

const zt_opdef zt_op_batch_norm_inference = {
    .synopsis = "y = (x - mean) / sqrt(var + eps) g + b per channel; x [N,C,...] of any plain float "
                "type, mean and var [C] f32 (f64 if x is f64), g and b [C] of the type of x (1 and 0 "
                "if absent)",
    .n_required = 3,
    .infer = batch_norm_inference_infer,
    .ref = batch_norm_inference_ref,
    .flops = norm_flops,
    .cases = batch_norm_inference_cases,
    .vjp = batch_norm_inference_vjp,
};

/* ---- group_norm ------------------------------------------------------------------------------ */

/* Wu and He, "Group Normalization" (2018). */
static zt_status group_norm_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_group_norm_attrs *norm = attrs;
    const zt_type *x = in[0];
    zt_status status = want_x(ctx, x);
    if (!status) status = want_eps(ctx, norm->eps);
    if (!status && (norm->groups < 1 || x->dim[1] % norm->groups))
        status = zt_row_fail(ctx, ZT_ESHAPE, "%lld channels are not divisible into %lld groups", (long long)x->dim[1],
                             (long long)norm->groups);
    if (!status) status = want_channels(ctx, "g", in[1], x->dtype, x->dim[1]);
    if (!status) status = want_channels(ctx, "b", in[2], x->dtype, x->dim[1]);
    if (status) return status;
    out[0] = *x;
    out[1] = out[2] = zt_type_make(stat_dtype(x), 2, (int64_t[]){x->dim[0], norm->groups});
    return ZT_OK;
}

static void group_norm_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_group_norm_attrs *norm = attrs;
    planes p = planes_of(in[0].type);
    int64_t of = p.C / norm->groups;
    (void)error;
    for (int64_t i = 0; i < p.N * norm->groups; i++) {
        int64_t n = i / norm->groups, first = i % norm->groups * of;
        set s = {n, n + 1, first, first + of};
        double count = set_count(&p, &s), mean = mean_of(set_sum(&p, &s, in[0].f, 0, 1), count);
        double var = mean_of(set_sum(&p, &s, in[0].f, mean, 2), count), rstd = 1 / sqrt(var + norm->eps);
        set_norm(&p, &s, &in[0], &in[1], &in[2], mean, rstd, &out[0]);
        if (out[1].type) out[1].f[i] = mean;
        if (out[2].type) out[2].f[i] = rstd;
    }
}

static bool group_norm_cases(int i, zt_case *test_case)
{
    const channel_case *r;
    if (!channel_case_at(i, 1, 2, &r, test_case)) return false;
    zt_group_norm_attrs a = {r->groups, r->eps};
    zt_case_attrs(test_case, &a, sizeof a);
    return true;
}

static void group_norm_vjp(zt_vjp *vjp)
{
    const zt_group_norm_attrs *attrs = vjp->attrs;
    int dg, db;
    if (vjp->dy[0] == ZT_NONE) {
        zt_norm_stats_vjp(vjp, attrs->groups);
        return;
    }
    int dx = zt_build_group_norm_backward(vjp->emit, vjp->in[0], vjp->out[1], vjp->out[2], vjp->dy[0], vjp->in[1], &dg, &db);
    int d[] = {dx, dg, db};
    for (int k = 0; k < 3; k++)
        if (vjp->want[k]) vjp->dx[k] = d[k];
    zt_norm_stats_vjp(vjp, attrs->groups);
}

const zt_opdef zt_op_group_norm = {
    .synopsis = "y = (x - mean) rstd g + b, with statistics per sample over each of `groups` groups "
                "of channels and the spatial dimensions, rstd = 1 / sqrt(var + eps); x [N,C,...] of "
                "any plain float type, g and b [C] (1 and 0 if absent), mean and rstd [N,groups] f32 "
                "(f64 if x is f64); groups = C gives instance normalization",
    .n_required = 1,
    .infer = group_norm_infer,
    .ref = group_norm_ref,
    .flops = norm_flops,
    .cases = group_norm_cases,
    .vjp = group_norm_vjp,
};

/* ---- gradients ------------------------------------------------------------------------------- */

static zt_status back_infer(zt_ctx *ctx, const zt_type *const in[], zt_type out[])
{
    const zt_type *x = in[0];
    zt_status status = want_x(ctx, x);
    if (!status && !zt_type_equal(x, in[3])) status = zt_row_fail(ctx, ZT_ESHAPE, "dy must have the type of x");
    if (!status) status = want_channels(ctx, "g", in[4], x->dtype, x->dim[1]);
    if (status) return status;
    out[0] = *x;
    out[1] = out[2] = zt_type_make(x->dtype, 1, &x->dim[1]);
    return ZT_OK;
}

static zt_status batch_norm_backward_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_batch_norm_backward_attrs *norm = attrs;
    zt_status status = back_infer(ctx, in, out);
    if (!status && norm->training != 0 && norm->training != 1)
        status = zt_row_fail(ctx, ZT_EUSAGE, "training is %lld: must be 0 or 1", (long long)norm->training);
    if (!status) status = want_channels(ctx, "mean", in[1], stat_dtype(in[0]), in[0]->dim[1]);
    return status ? status : want_channels(ctx, "rstd", in[2], stat_dtype(in[0]), in[0]->dim[1]);
}

static zt_status group_norm_backward_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    (void)attrs;
    zt_status status = back_infer(ctx, in, out);
    if (!status) status = zt_row_want(ctx, "mean", in[1], stat_dtype(in[0]), 2);
    if (!status && !zt_type_equal(in[1], in[2])) status = zt_row_fail(ctx, ZT_ESHAPE, "rstd must have the type of mean");
    int64_t groups = status ? 0 : in[1]->dim[1];
    if (!status && (in[1]->dim[0] != in[0]->dim[0] || groups < 1 || in[0]->dim[1] % groups))
        status = zt_row_fail(ctx, ZT_ESHAPE, "mean must have one entry for each sample and group of x");
    return status;
}

/* Of a set: s1 the sum of dy g, s2 that of dy g n, n = (x - mean) rstd; then dx = rstd (dy g - s1/m
 * - n s2/m) over m elements (m 0: without them). dg and db of its channels grow. */
static void set_back(const planes *p, const set *s, const zt_arg *in, double mean, double rstd, bool training, zt_arg *out)
{
    double s1 = 0, s2 = 0, m = set_count(p, s);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t n = s->from; n < s->to && p->size; n++)
            for (int64_t c = s->first; c < s->last; c++)
                for (int64_t i = 0; i < p->size; i++) {
                    int64_t at = (n * p->C + c) * p->size + i;
                    double h = (in[0].f[at] - mean) * rstd, dy = in[3].f[at];
                    double d = dy * (in[4].type ? in[4].f[c] : 1);
                    if (pass) {
                        out[0].f[at] = rstd * (training ? d - s1 / m - h * s2 / m : d);
                        continue;
                    }
                    s1 += d;
                    s2 += d * h;
                    if (out[1].type) out[1].f[c] += dy * h;
                    if (out[2].type) out[2].f[c] += dy;
                }
}

static void back_clear(zt_arg *out)
{
    for (int k = 1; k < 3; k++)
        if (out[k].type) memset(out[k].f, 0, (size_t)out[k].type->dim[0] * sizeof(double));
}

static void batch_norm_backward_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_batch_norm_backward_attrs *norm = attrs;
    planes p = planes_of(in[0].type);
    (void)error;
    back_clear(out);
    for (int64_t c = 0; c < p.C; c++) set_back(&p, &(set){0, p.N, c, c + 1}, in, in[1].f[c], in[2].f[c], norm->training, out);
}

static void group_norm_backward_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    planes p = planes_of(in[0].type);
    int64_t groups = in[1].type->dim[1], of = p.C / groups;
    (void)attrs, (void)error;
    back_clear(out);
    for (int64_t i = 0; i < p.N * groups; i++) {
        int64_t n = i / groups, first = i % groups * of;
        set_back(&p, &(set){n, n + 1, first, first + of}, in, in[1].f[i], in[2].f[i], true, out);
    }
}

static bool back_cases(int i, bool batch, zt_case *test_case)
{
    const channel_case *r;
    if (!channel_case_at(i, 4, 0, &r, test_case)) return false;
    zt_batch_norm_backward_attrs a = {!r->other};
    int64_t stat[2] = {batch ? r->x.dim[1] : r->x.dim[0], r->groups};
    if (batch) zt_case_attrs(test_case, &a, sizeof a);
    zt_case_in(test_case, 1, ZT_FILL_NORMAL, 0, r->x.dtype, batch ? 1 : 2, stat);
    zt_case_in(test_case, 2, ZT_FILL_POSITIVE, 0, r->x.dtype, batch ? 1 : 2, stat);
    zt_case_type_in(test_case, 3, ZT_FILL_NORMAL, &r->x);
    return true;
}

static bool batch_norm_backward_cases(int i, zt_case *test_case) { return back_cases(i, true, test_case); }
static bool group_norm_backward_cases(int i, zt_case *test_case) { return back_cases(i, false, test_case); }

static void batch_norm_backward_vjp(zt_vjp *vjp)
{
    const zt_batch_norm_backward_attrs *attrs = vjp->attrs;
    zt_norm_backward_vjp(vjp, 0, attrs->training);
}

static void group_norm_backward_vjp(zt_vjp *vjp)
{
    zt_type mean = vjp->emit->type(vjp->emit->user, vjp->in[1]);
    zt_norm_backward_vjp(vjp, mean.dim[1] < 0 ? 1 : mean.dim[1], true);
}

const zt_opdef zt_op_batch_norm_backward = {
    .synopsis = "gradients dx, dg [C] and db [C] of batch_norm, from x, save_mean, save_rstd, dy and "
                "g (1 if absent); training=0: the gradients of batch_norm_inference, where mean and "
                "rstd do not depend on x",
    .n_required = 4,
    .infer = batch_norm_backward_infer,
    .ref = batch_norm_backward_ref,
    .flops = norm_flops,
    .cases = batch_norm_backward_cases,
    .vjp = batch_norm_backward_vjp,
};

const zt_opdef zt_op_group_norm_backward = {
    .synopsis = "gradients dx, dg [C] and db [C] of group_norm, from x, mean and rstd [N,groups], dy "
                "and g (1 if absent)",
    .n_required = 4,
    .infer = group_norm_backward_infer,
    .ref = group_norm_backward_ref,
    .flops = norm_flops,
    .cases = group_norm_backward_cases,
    .vjp = group_norm_backward_vjp,
};
