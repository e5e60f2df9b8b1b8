/* loss_classes.c - rows of losses of classes, x [N,C,...] with a target class for each [N,...]:
 * cross_entropy of logits, nll of log-probabilities, and their gradients.
 */
#include "lib/ops/loss.h"

#include <math.h>
#include <string.h>

/* ---- what they share ------------------------------------------------------------------------- */

/* N samples of `inner` positions, C classes of each that lie `inner` apart. */
typedef struct classes {
    int64_t N, C, inner;
    const int64_t *target;
    const double *weight; /* NULL: 1 each */
    int64_t ignore;
} classes;

static zt_type positions_type(const zt_type *x, zt_dtype dtype)
{
    zt_type type = zt_type_make(dtype, x->rank, x->dim);
    memmove(type.dim + 1, type.dim + 2, (size_t)(x->rank - 2) * sizeof type.dim[0]);
    type.rank--;
    return type;
}

static zt_status classes_infer(zt_ctx *ctx, const zt_type *x, const zt_type *target, const zt_type *weight)
{
    char got[ZT_TYPE_TEXT], text[ZT_TYPE_TEXT];
    zt_status status = zt_row_want_float(ctx, "x", x);
    if (status) return status;
    if (x->rank < 2) return zt_row_fail(ctx, ZT_ESHAPE, "x has %d dimensions: must have at least 2 (batch and classes)", x->rank);
    zt_type want = positions_type(x, ZT_I32);
    if (!zt_type_equal(target, &want))
        return zt_row_fail(ctx, ZT_ESHAPE, "target has type %s, expected %s", zt_type_text(target, got),
                           zt_type_text(&want, text));
    if (weight) status = zt_row_want(ctx, "weight", weight, x->dtype, 1);
    if (!status && weight && weight->dim[0] != x->dim[1])
        status = zt_row_fail(ctx, ZT_ESHAPE, "weight has %lld entries, expected %lld (classes)", (long long)weight->dim[0],
                             (long long)x->dim[1]);
    return status;
}

static classes classes_of(const zt_arg *x, const zt_arg *target, const zt_arg *weight, int64_t ignore)
{
    classes k = {x->type->dim[0], x->type->dim[1], 1, target->i, weight->type ? weight->f : NULL, ignore};
    k.inner = k.N ? zt_type_count(target->type) / k.N : 0;
    return k;
}

/* The class of position i, or -1: ignored, or no class, which is trouble. */
static int64_t class_at(const classes *k, int64_t i, zt_runtime_error *error)
{
    int64_t c = k->target[i];
    if (c == k->ignore) return -1;
    if (c >= 0 && c < k->C) return c;
    zt_row_runtime_error(error, "target", c, k->C);
    return -1;
}

static int64_t first_of(const classes *k, int64_t i) { return k->inner ? i / k->inner * k->C * k->inner + i % k->inner : 0; }

static double weight_of(const classes *k, int64_t c) { return k->weight ? k->weight[c] : 1; }

static double all_weights(const classes *k)
{
    double sum = 0;
    for (int64_t c = 0; c < k->C; c++) sum += weight_of(k, c);
    return sum;
}

/* What the sum is divided by for a mean: the weights of the targets that count. */
static double total_weight(const classes *k)
{
    double sum = 0;
    zt_runtime_error ignored = {0};
    for (int64_t i = 0; i < k->N * k->inner; i++) {
        int64_t c = class_at(k, i, &ignored);
        if (c >= 0) sum += weight_of(k, c);
    }
    return sum;
}

/* Each position's y, put there or summed. */
static void add_loss(const zt_enum_string *reduction, zt_arg *out, int64_t i, double y)
{
    if (reduction->s[0] == 'n')
        out->f[i] = y;
    else
        out->f[0] += y;
}

static void reduce_end(const classes *k, const zt_enum_string *reduction, zt_arg *out)
{
    if (reduction->s[0] == 'm') out->f[0] /= total_weight(k);
}

/* What position i's loss gets of dy. */
static double gradient_share(const zt_enum_string *reduction, const zt_arg *dy, int64_t i, double total)
{
    return reduction->s[0] == 'n' ? dy->f[i] : reduction->s[0] == 'm' ? dy->f[0] / total : dy->f[0];
}

static double classes_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    return 10 * zt_row_in_flops(attrs, in, out);
}

/* Every shape with every reduction; with the class n - 1 ignored, some with smoothing. */
static bool classes_case(int i, zt_case *test_case, zt_enum_string *reduction, int64_t *ignore, double *smoothing)
{
    static const struct {
        zt_case_type x;
        bool weight, ignore, smooth;
    } rows[] = {
        {{ZT_F32, 2, {5, 3}}, false, false, false},    {{ZT_F32, 2, {7, 33}}, true, true, true},
        {{ZT_F32, 3, {2, 5, 4}}, true, false, false},  {{ZT_F32, 4, {2, 3, 2, 9}}, false, true, true},
        {{ZT_F32, 2, {1, 1}}, false, false, false},    {{ZT_F32, 2, {0, 4}}, false, false, false},
        {{ZT_F64, 2, {3, 4}}, true, true, false},      {{ZT_F32, 2, {40, 1000}}, false, false, false},
        {{ZT_F32, 3, {3, 19, 333}}, true, true, true}, {{ZT_F32, 3, {3, 4, 0}}, false, false, false},
    };
    if (i >= 3 * ZT_LEN(rows)) return false;
    const zt_case_type *x = &rows[i / 3].x;
    *reduction = zt_loss_words[i % 3];
    *ignore = rows[i / 3].ignore ? x->dim[1] - 1 : -100;
    *smoothing = rows[i / 3].smooth ? 0.2 : 0;
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, x);
    test_case->in[1] = positions_type(&test_case->in[0], ZT_I32);
    test_case->fill[1] = ZT_FILL_IDS;
    test_case->limit[1] = x->dim[1];
    return true;
}

static void case_weight(int i, int at, zt_case *test_case)
{
    static const bool weight[] = {0, 1, 1, 0, 0, 0, 1, 0, 1, 0};
    if (weight[i / 3]) zt_case_in(test_case, at, ZT_FILL_POSITIVE, 0, test_case->in[0].dtype, 1, &test_case->in[0].dim[1]);
}

static void case_dy(int at, const zt_enum_string *reduction, zt_case *test_case)
{
    test_case->in[at] = positions_type(&test_case->in[0], test_case->in[0].dtype);
    if (reduction->s[0] != 'n') test_case->in[at].rank = 0;
    test_case->fill[at] = ZT_FILL_NORMAL;
}

static zt_status want_dy(zt_ctx *ctx, const zt_enum_string *reduction, const zt_type *x, const zt_type *dy)
{
    zt_type want = positions_type(x, x->dtype);
    if (reduction->s[0] != 'n') want.rank = 0;
    return zt_type_equal(&want, dy) ? ZT_OK : zt_row_fail(ctx, ZT_ESHAPE, "dy must have the type of the loss");
}

#define CLASSES                                                                                                                  \
    "; x [N,C,...] of any plain float type, target i32 [N,...] from 0 to C - 1 or ignore_index, "                                \
    "weight [C] of the type of x (1 if absent, no gradient); reduction none, sum or mean; mean "                                 \
    "divides the sum by the sum of weight[target]"

/* ---- cross_entropy --------------------------------------------------------------------------- */

static zt_status want_smoothing(zt_ctx *ctx, double by)
{
    if (by >= 0 && by <= 1) return ZT_OK;
    return zt_row_fail(ctx, ZT_EUSAGE, "label_smoothing is %g: must be 0 to 1", by);
}

static zt_status cross_entropy_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_cross_entropy_attrs *entropy = attrs;
    zt_status status = zt_loss_reduction(ctx, &entropy->reduction);
    if (!status) status = want_smoothing(ctx, entropy->label_smoothing);
    if (!status) status = classes_infer(ctx, in[0], in[1], in[2]);
    if (status) return status;
    out[0] = out[1] = positions_type(in[0], in[0]->dtype);
    if (entropy->reduction.s[0] != 'n') out[0].rank = 0;
    return ZT_OK;
}

static double lse_at(const classes *k, const double *x)
{
    double top = -INFINITY, sum = 0;
    for (int64_t c = 0; c < k->C; c++) top = fmax(top, x[c * k->inner]);
    for (int64_t c = 0; c < k->C; c++) sum += exp(x[c * k->inner] - top);
    return top + log(sum);
}

static void cross_entropy_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_cross_entropy_attrs *entropy = attrs;
    classes k = classes_of(&in[0], &in[1], &in[2], entropy->ignore_index);
    double even = entropy->label_smoothing / (double)k.C;
    if (entropy->reduction.s[0] != 'n') out[0].f[0] = 0;
    for (int64_t i = 0; i < k.N * k.inner; i++) {
        const double *x = in[0].f + first_of(&k, i);
        double lse = lse_at(&k, x), y = 0;
        int64_t c = class_at(&k, i, error);
        if (out[1].type) out[1].f[i] = lse;
        if (c >= 0) y = (1 - entropy->label_smoothing) * weight_of(&k, c) * (lse - x[c * k.inner]);
        for (int64_t j = 0; j < k.C && c >= 0 && even > 0; j++) y += even * weight_of(&k, j) * (lse - x[j * k.inner]);
        add_loss(&entropy->reduction, &out[0], i, y);
    }
    reduce_end(&k, &entropy->reduction, &out[0]);
}

static bool cross_entropy_cases(int i, zt_case *test_case)
{
    zt_cross_entropy_attrs a;
    if (!classes_case(i, test_case, &a.reduction, &a.ignore_index, &a.label_smoothing)) return false;
    zt_case_attrs(test_case, &a, sizeof a);
    case_weight(i, 2, test_case);
    return true;
}

/* What there is one of a position, [N,...], as [N,1,...]: as a sum over the classes would lie. */
static int beside_classes(const zt_vjp *vjp, int y)
{
    int like = zt_build_sum(vjp->emit, vjp->in[0], &(zt_sum_attrs){{1, {1}}, 1});
    return zt_build_reshape_like(vjp->emit, y, like);
}

static void cross_entropy_vjp(zt_vjp *vjp)
{
    const zt_cross_entropy_attrs *attrs = vjp->attrs;
    if (vjp->dy[0] != ZT_NONE)
        vjp->dx[0] = zt_build_cross_entropy_backward(
            vjp->emit, vjp->in[0], vjp->in[1], vjp->out[1], vjp->dy[0], vjp->in[2],
            &(zt_cross_entropy_backward_attrs){attrs->reduction, attrs->ignore_index, attrs->label_smoothing});
    if (vjp->dy[1] == ZT_NONE) return;
    int by = zt_build_softmax(vjp->emit, vjp->in[0], &(zt_softmax_attrs){1}); /* of lse */
    by = zt_build_mul(vjp->emit, by, beside_classes(vjp, vjp->dy[1]));
    vjp->dx[0] = vjp->dx[0] == ZT_NONE ? by : zt_build_add(vjp->emit, vjp->dx[0], by);
}

const zt_opdef zt_op_cross_entropy = {
    .synopsis =
        "y = -weight[target] ln softmax(x)[target] along the classes; the fraction "
        "label_smoothing of it becomes -sum weight ln softmax(x) / C" CLASSES "; lse = ln sum exp(x) [N,...] is for the gradient",
    .n_required = 2,
    .infer = cross_entropy_infer,
    .ref = cross_entropy_ref,
    .flops = classes_flops,
    .cases = cross_entropy_cases,
    .vjp = cross_entropy_vjp,
    .constant = 4,
};

static zt_status cross_entropy_backward_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_cross_entropy_backward_attrs *entropy = attrs;
    zt_status status = zt_loss_reduction(ctx, &entropy->reduction);
    if (!status) status = want_smoothing(ctx, entropy->label_smoothing);
    if (!status) status = classes_infer(ctx, in[0], in[1], in[4]);
    if (status) return status;
    zt_type want = positions_type(in[0], in[0]->dtype);
    if (!zt_type_equal(&want, in[2])) return zt_row_fail(ctx, ZT_ESHAPE, "lse must have the shape of target");
    out[0] = *in[0];
    return want_dy(ctx, &entropy->reduction, in[0], in[3]);
}

/* With e the smoothing and p = exp(x - lse): dy ((1 - e) w[t] (p - [c = t]) + e/C (p sum w - w[c]))
 */
static void cross_entropy_backward_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_cross_entropy_backward_attrs *entropy = attrs;
    classes k = classes_of(&in[0], &in[1], &in[4], entropy->ignore_index);
    double even = entropy->label_smoothing / (double)k.C, all = all_weights(&k), total = total_weight(&k);
    for (int64_t i = 0; i < k.N * k.inner; i++) {
        int64_t at = first_of(&k, i), target = class_at(&k, i, error);
        double dy = gradient_share(&entropy->reduction, &in[3], i, total);
        double w = target < 0 ? 0 : (1 - entropy->label_smoothing) * weight_of(&k, target);
        for (int64_t c = 0; c < k.C; c++) {
            int64_t e = at + c * k.inner;
            double p = exp(in[0].f[e] - in[2].f[i]);
            out[0].f[e] = target < 0 ? 0 : dy * (w * (p - (c == target)) + even * (p * all - weight_of(&k, c)));
        }
    }
}

static bool cross_entropy_backward_cases(int i, zt_case *test_case)
{
    zt_cross_entropy_backward_attrs a;
    if (!classes_case(i, test_case, &a.reduction, &a.ignore_index, &a.label_smoothing)) return false;
    zt_case_attrs(test_case, &a, sizeof a);
    case_weight(i, 4, test_case);
    test_case->in[2] = positions_type(&test_case->in[0], test_case->in[0].dtype);
    test_case->fill[2] = ZT_FILL_POSITIVE;
    case_dy(3, &a.reduction, test_case);
    return true;
}

/* dx = s (k p - q), s what a position gets of dy, p = exp(x - lse): with lse infinite -s q is left,
 * and what is between the two, s k p, is what dx changes by with x, and -lse. dx is dy times what it
 * is for 1. */
static void cross_entropy_backward_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    const zt_cross_entropy_backward_attrs *attrs = vjp->attrs;
    const int *in = vjp->in;
    if (vjp->want[0] || vjp->want[2]) {
        int far = zt_build_fill_like(emit, in[2], &(zt_fill_like_attrs){INFINITY});
        int now = zt_build_cross_entropy_backward(emit, in[0], in[1], in[2], in[3], in[4], attrs);
        int rest = zt_build_cross_entropy_backward(emit, in[0], in[1], far, in[3], in[4], attrs);
        int by = zt_build_mul(emit, vjp->dy[0], zt_build_sub(emit, now, rest));
        if (vjp->want[0]) vjp->dx[0] = by;
        if (vjp->want[2]) vjp->dx[2] = zt_build_neg(emit, zt_build_sum(emit, by, &(zt_sum_attrs){{1, {1}}, 0}));
    }
    if (!vjp->want[3]) return;
    int ones = zt_build_fill_like(emit, in[3], &(zt_fill_like_attrs){1});
    int by = zt_build_cross_entropy_backward(emit, in[0], in[1], in[2], ones, in[4], attrs);
    bool each = attrs->reduction.s[0] == 'n';
    vjp->dx[3] = zt_build_sum(emit, zt_build_mul(emit, vjp->dy[0], by), &(zt_sum_attrs){{each, {1}}, 0});
}

const zt_opdef zt_op_cross_entropy_backward = {
    .synopsis = "dx: the gradient of cross_entropy with respect to x, from its inputs, lse, "
                "attributes and dy",
    .n_required = 4,
    .infer = cross_entropy_backward_infer,
    .ref = cross_entropy_backward_ref,
    .flops = classes_flops,
    .cases = cross_entropy_backward_cases,
    .vjp = cross_entropy_backward_vjp,
    .constant = 16,
};

/* ---- nll ------------------------------------------------------------------------------------- */

static zt_status nll_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_nll_attrs *nll = attrs;
    zt_status status = zt_loss_reduction(ctx, &nll->reduction);
    if (!status) status = classes_infer(ctx, in[0], in[1], in[2]);
    if (status) return status;
    out[0] = positions_type(in[0], in[0]->dtype);
    if (nll->reduction.s[0] != 'n') out[0].rank = 0;
    return ZT_OK;
}

static void nll_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_nll_attrs *nll = attrs;
    classes k = classes_of(&in[0], &in[1], &in[2], nll->ignore_index);
    if (nll->reduction.s[0] != 'n') out[0].f[0] = 0;
    for (int64_t i = 0; i < k.N * k.inner; i++) {
        int64_t c = class_at(&k, i, error);
        double y = c < 0 ? 0 : -weight_of(&k, c) * in[0].f[first_of(&k, i) + c * k.inner];
        add_loss(&nll->reduction, &out[0], i, y);
    }
    reduce_end(&k, &nll->reduction, &out[0]);
}

static bool nll_cases(int i, zt_case *test_case)
{
    zt_nll_attrs a;
    double unused;
    if (!classes_case(i, test_case, &a.reduction, &a.ignore_index, &unused)) return false;
    zt_case_attrs(test_case, &a, sizeof a);
    case_weight(i, 2, test_case);
    return true;
}

static void nll_vjp(zt_vjp *vjp)
{
    const zt_nll_attrs *attrs = vjp->attrs;
    vjp->dx[0] = zt_build_nll_backward(vjp->emit, vjp->in[0], vjp->in[1], vjp->dy[0], vjp->in[2],
                                       &(zt_nll_backward_attrs){attrs->reduction, attrs->ignore_index});
}

const zt_opdef zt_op_nll = {
    .synopsis = "y = -weight[target] x[target] along the classes, x log-probabilities" CLASSES,
    .n_required = 2,
    .infer = nll_infer,
    .ref = nll_ref,
    .cases = nll_cases,
    .vjp = nll_vjp,
    .constant = 4,
};

static zt_status nll_backward_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_nll_backward_attrs *nll = attrs;
    zt_status status = zt_loss_reduction(ctx, &nll->reduction);
    if (!status) status = classes_infer(ctx, in[0], in[1], in[3]);
    out[0] = *in[0];
    return status ? status : want_dy(ctx, &nll->reduction, in[0], in[2]);
}

static void nll_backward_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_nll_backward_attrs *nll = attrs;
    classes k = classes_of(&in[0], &in[1], &in[3], nll->ignore_index);
    double total = total_weight(&k);
    memset(out[0].f, 0, (size_t)zt_type_count(out[0].type) * sizeof(double));
    for (int64_t i = 0; i < k.N * k.inner; i++) {
        int64_t c = class_at(&k, i, error);
        if (c < 0) continue;
        out[0].f[first_of(&k, i) + c * k.inner] = -weight_of(&k, c) * gradient_share(&nll->reduction, &in[2], i, total);
    }
}

static bool nll_backward_cases(int i, zt_case *test_case)
{
    zt_nll_backward_attrs a;
    double unused;
    if (!classes_case(i, test_case, &a.reduction, &a.ignore_index, &unused)) return false;
    zt_case_attrs(test_case, &a, sizeof a);
    case_weight(i, 3, test_case);
    case_dy(2, &a.reduction, test_case);
    return true;
}

/* It is linear in dy: each for itself, what nll is of a gradient; where dy is one number, the sum
 * of its slopes, which of nothing is 0. */
static void nll_backward_vjp(zt_vjp *vjp)
{
    const zt_nll_backward_attrs *attrs = vjp->attrs;
    const zt_emit *emit = vjp->emit;
    if (attrs->reduction.s[0] == 'n') {
        vjp->dx[2] =
            zt_build_nll(emit, vjp->dy[0], vjp->in[1], vjp->in[3], &(zt_nll_attrs){attrs->reduction, attrs->ignore_index});
        return;
    }
    int one = zt_build_fill_like(emit, vjp->in[2], &(zt_fill_like_attrs){1});
    int slopes = zt_build_nll_backward(emit, vjp->in[0], vjp->in[1], one, vjp->in[3], attrs);
    vjp->dx[2] = zt_build_sum_to(emit, zt_build_mul(emit, vjp->dy[0], slopes), vjp->in[2]);
}

const zt_opdef zt_op_nll_backward = {
    .synopsis = "dx: the gradient of nll with respect to x (only the type of x is used), from its "
                "other inputs, attributes and dy",
    .n_required = 3,
    .infer = nll_backward_infer,
    .ref = nll_backward_ref,
    .cases = nll_backward_cases,
    .vjp = nll_backward_vjp,
    .constant = 1 | 8,
};
