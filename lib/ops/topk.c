/* topk.c - the row of topk: the first entries of a line in order. */
#include "lib/ops/lines.h"
#include "lib/ops/vjp.h"

#include <math.h>

static zt_status topk_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_topk_attrs *topk = attrs;
    zt_status status = zt_row_want_number(ctx, "x", in[0]);
    if (!status) status = zt_row_axis(ctx, topk->axis, in[0]->rank);
    if (status) return status;
    int at = zt_plain_axis(topk->axis, in[0]->rank);
    if (topk->largest != 0 && topk->largest != 1)
        return zt_row_fail(ctx, ZT_EUSAGE, "largest is %lld: must be 0 or 1", (long long)topk->largest);
    if (topk->k < 0 || topk->k > in[0]->dim[at] || in[0]->dim[at] > INT32_MAX)
        return zt_row_fail(ctx, ZT_ESHAPE, "k is %lld: must be 0 to %lld", (long long)topk->k, (long long)in[0]->dim[at]);
    out[0] = *in[0];
    if (topk->k) out[0].dim[at] = topk->k;
    out[1] = out[0];
    out[1].dtype = ZT_I32;
    return ZT_OK;
}

/* Does entry i come before entry j: larger (or smaller), NaN larger than all, else the earlier. */
static bool comes_before(const zt_arg *x, bool largest, int64_t i, int64_t j, int64_t step)
{
    if (x->f) {
        double a = x->f[i * step], b = x->f[j * step];
        if (isnan(a) != isnan(b)) return isnan(a) == largest;
        if (a != b && !isnan(a)) return largest ? a > b : a < b;
        return i < j;
    }
    int64_t turn = x->type->dtype == ZT_U64 ? INT64_MIN : 0;
    int64_t a = x->i[i * step] ^ turn, b = x->i[j * step] ^ turn;
    return a != b ? (largest ? a > b : a < b) : i < j;
}

/* The first of those that come after `last` (-1: of all). */
static int64_t next_best(const zt_arg *x, const lines *along, bool largest, int64_t last)
{
    int64_t best = -1;
    for (int64_t i = 0; i < along->n; i++) {
        if (last >= 0 && !comes_before(x, largest, last, i, along->inner)) continue;
        if (best < 0 || comes_before(x, largest, i, best, along->inner)) best = i;
    }
    return best;
}

static void topk_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_topk_attrs *topk = attrs;
    lines along = lines_along(topk->axis, in->type);
    int64_t k = topk->k ? topk->k : along.n;
    (void)error;
    for (int64_t r = 0; r < along.count; r++) {
        int64_t from = line_at(&along, along.n, r), to = line_at(&along, k, r), last = -1;
        zt_arg line = {in->type, in->f ? in->f + from : NULL, in->i ? in->i + from : NULL};
        for (int64_t j = 0; j < k; j++) {
            last = next_best(&line, &along, topk->largest, last);
            if (out[0].type) zt_row_move(&line, last * along.inner, &out[0], to + j * along.inner);
            if (out[1].i) out[1].i[to + j * along.inner] = last;
        }
    }
}

static bool topk_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        zt_fill fill;
        zt_topk_attrs a; /* k, axis, largest */
    } rows[] = {
        {{ZT_F32, 2, {3, 33}}, ZT_FILL_NORMAL, {5, -1, 1}},  {{ZT_F32, 2, {3, 33}}, ZT_FILL_NORMAL, {5, -1, 0}},
        {{ZT_F32, 2, {65, 100}}, ZT_FILL_NORMAL, {0, 1, 1}}, {{ZT_F32, 3, {2, 40, 5}}, ZT_FILL_NORMAL, {7, 1, 1}},
        {{ZT_I32, 3, {2, 40, 5}}, ZT_FILL_IDS, {0, -2, 0}},  {{ZT_F32, 2, {0, 8}}, ZT_FILL_NORMAL, {2, 1, 1}},
        {{ZT_F32, 2, {4, 0}}, ZT_FILL_NORMAL, {0, 1, 1}},    {{ZT_F32, 2, {1, 3000}}, ZT_FILL_NORMAL, {50, 1, 1}},
        {{ZT_F64, 1, {9}}, ZT_FILL_NORMAL, {3, 0, 1}},       {{ZT_F16, 2, {3, 9}}, ZT_FILL_NORMAL, {3, 1, 1}},
        {{ZT_I64, 2, {3, 9}}, ZT_FILL_IDS, {3, 0, 1}},       {{ZT_U8, 1, {40}}, ZT_FILL_IDS, {9, 0, 1}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    zt_case_plain_in(test_case, 0, rows[i].fill, 9, &rows[i].x);
    return true;
}

static void topk_vjp(zt_vjp *vjp)
{
    if (vjp->dy[0] < 0) return;
    const zt_topk_attrs *attrs = vjp->attrs;
    int zero = zt_build_fill_like(vjp->emit, vjp->in[0], &(zt_fill_like_attrs){0});
    vjp->dx[0] = zt_build_scatter_add_elements(vjp->emit, zero, vjp->out[1], vjp->dy[0],
                                               &(zt_scatter_add_elements_attrs){attrs->axis, {"error"}});
}

const zt_opdef zt_op_topk = {
    .synopsis = "y = the k largest (largest=0: smallest) values of x along `axis` (negative: from "
                "the end) in order, i = their indices; k=0: all, sorted. Ties go to the lowest "
                "index, NaN is larger than any number; any plain float or integer type, i i32",
    .n_required = 1,
    .infer = topk_infer,
    .ref = topk_ref,
    .flops = zt_row_in_flops,
    .cases = topk_cases,
    .vjp = topk_vjp,
};
