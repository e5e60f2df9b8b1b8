/* order.c - rows of the ops that pick by order (topk), by place in a matrix (tril, triu), and that
 * multiply along an axis (cumprod). */
#include "lib/ops/vjp.h"

#include <math.h>

/* The lines along an axis: line l has its k-th entry at line_at(l) + k * inner. */
typedef struct lines {
    int64_t n, inner, count; /* entries of a line, from one to the next, how many lines */
} lines;

static lines lines_along(int64_t axis, const zt_type *x)
{
    lines l = {.inner = 1, .count = 1};
    int at = zt_plain_axis(axis, x->rank);
    l.n = x->dim[at];
    for (int d = 0; d < x->rank; d++) {
        if (d != at) l.count *= x->dim[d];
        if (d > at) l.inner *= x->dim[d];
    }
    return l;
}

static int64_t line_at(const lines *l, int64_t n, int64_t i)
{
    return i / l->inner * n * l->inner + i % l->inner;
}

static zt_status want_number(zt_ctx *ctx, const zt_type *x)
{
    char kind = zt_dtype_get(x->dtype)->kind;
    if (kind == 'F' || kind == 'I' || kind == 'U') return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "x is %s, not a plain float or integer type",
                       zt_dtype_get(x->dtype)->name);
}

static void case_in(zt_case *c, const zt_case_type *t, zt_fill fill)
{
    bool floats = zt_dtype_get(t->dtype)->kind == 'F';
    zt_case_type_in(c, 0, floats ? fill : ZT_FILL_IDS, t);
    c->limit[0] = t->dtype == ZT_BOOL ? 2 : 9;
}

/* ---- topk ------------------------------------------------------------------------------------ */

static zt_status topk_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                            zt_type out[])
{
    const zt_topk_attrs *a = attrs;
    zt_status s = want_number(ctx, in[0]);
    if (!s) s = zt_row_axis(ctx, a->axis, in[0]->rank);
    if (s) return s;
    int at = zt_plain_axis(a->axis, in[0]->rank);
    if (a->largest != 0 && a->largest != 1)
        return zt_row_fail(ctx, ZT_EUSAGE, "largest is %lld, not 0 or 1", (long long)a->largest);
    if (a->k < 0 || a->k > in[0]->dim[at] || in[0]->dim[at] > INT32_MAX)
        return zt_row_fail(ctx, ZT_ESHAPE, "k is %lld of %lld entries", (long long)a->k,
                           (long long)in[0]->dim[at]);
    out[0] = *in[0];
    if (a->k) out[0].dim[at] = a->k;
    out[1] = out[0];
    out[1].dtype = ZT_I32;
    return ZT_OK;
}

/* Does entry i come before entry j: larger (or smaller), NaN larger than all, else the earlier. */
static bool before(const zt_arg *x, bool largest, int64_t i, int64_t j, int64_t step)
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
static int64_t next_best(const zt_arg *x, const lines *l, bool largest, int64_t last)
{
    int64_t best = -1;
    for (int64_t i = 0; i < l->n; i++) {
        if (last >= 0 && !before(x, largest, last, i, l->inner)) continue;
        if (best < 0 || before(x, largest, i, best, l->inner)) best = i;
    }
    return best;
}

static void topk_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    const zt_topk_attrs *a = attrs;
    lines l = lines_along(a->axis, in->type);
    int64_t k = a->k ? a->k : l.n;
    (void)t;
    for (int64_t r = 0; r < l.count; r++) {
        int64_t from = line_at(&l, l.n, r), to = line_at(&l, k, r), last = -1;
        zt_arg line = {in->type, in->f ? in->f + from : NULL, in->i ? in->i + from : NULL};
        for (int64_t j = 0; j < k; j++) {
            last = next_best(&line, &l, a->largest, last);
            if (out[0].type) zt_row_move(&line, last * l.inner, &out[0], to + j * l.inner);
            if (out[1].i) out[1].i[to + j * l.inner] = last;
        }
    }
}

static bool topk_cases(int i, zt_case *c)
{
    static const struct {
        zt_case_type x;
        zt_fill fill;
        zt_topk_attrs a; /* k, axis, largest */
    } rows[] = {
        {{ZT_F32, 2, {3, 33}}, ZT_FILL_NORMAL, {5, -1, 1}},
        {{ZT_F32, 2, {3, 33}}, ZT_FILL_NORMAL, {5, -1, 0}},
        {{ZT_F32, 2, {65, 100}}, ZT_FILL_NORMAL, {0, 1, 1}},
        {{ZT_F32, 3, {2, 40, 5}}, ZT_FILL_NORMAL, {7, 1, 1}},
        {{ZT_I32, 3, {2, 40, 5}}, ZT_FILL_IDS, {0, -2, 0}},
        {{ZT_F32, 2, {0, 8}}, ZT_FILL_NORMAL, {2, 1, 1}},
        {{ZT_F32, 2, {4, 0}}, ZT_FILL_NORMAL, {0, 1, 1}},
        {{ZT_F32, 2, {1, 3000}}, ZT_FILL_NORMAL, {50, 1, 1}},
        {{ZT_F64, 1, {9}}, ZT_FILL_NORMAL, {3, 0, 1}},
        {{ZT_F16, 2, {3, 9}}, ZT_FILL_NORMAL, {3, 1, 1}},
        {{ZT_I64, 2, {3, 9}}, ZT_FILL_IDS, {3, 0, 1}},
        {{ZT_U8, 1, {40}}, ZT_FILL_IDS, {9, 0, 1}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(c, &rows[i].a, sizeof rows[i].a);
    case_in(c, &rows[i].x, rows[i].fill);
    return true;
}

static void topk_vjp(zt_vjp *v)
{
    if (v->dy[0] < 0) return;
    const zt_topk_attrs *a = v->attrs;
    int zero = zt_build_fill_like(v->e, v->in[0], &(zt_fill_like_attrs){0});
    v->dx[0] = zt_build_scatter_add_elements(v->e, zero, v->out[1], v->dy[0],
                                         &(zt_scatter_add_elements_attrs){a->axis, {"error"}});
}

const zt_opdef zt_op_topk = {
    .synopsis = "y, i = the k largest (largest=0: smallest) of x along `axis` (below 0 from the "
                "end) in order, and where they are; k=0: all, sorted. Ties to the lowest index, "
                "NaN is larger than all; any plain float or integer type, i i32",
    .n_required = 1,
    .infer = topk_infer,
    .ref = topk_ref,
    .flops = zt_row_in_flops,
    .cases = topk_cases,
    .vjp = topk_vjp,
};

/* ---- tril, triu ------------------------------------------------------------------------------ */

static zt_status tril_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                            zt_type out[])
{
    (void)attrs;
    out[0] = *in[0];
    zt_status s = zt_row_want_plain(ctx, "x", in[0]);
    if (s || in[0]->rank >= 2) return s;
    return zt_row_fail(ctx, ZT_ESHAPE, "x is no matrix");
}

/* sign 1: entries up to the diagonal stay; -1: those from it on. */
static void triangle(int sign, int64_t diagonal, const zt_arg *in, zt_arg *out)
{
    int64_t m = in->type->dim[in->type->rank - 1], n = in->type->dim[in->type->rank - 2];
    for (int64_t i = 0, all = zt_type_count(in->type); i < all; i++) {
        int64_t past = i % m - i / m % n; /* right of the main diagonal */
        if (sign > 0 ? past <= diagonal : past >= diagonal)
            zt_row_move(in, i, out, i);
        else
            zt_row_zero(out, i);
    }
}

static void tril_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    (void)t;
    triangle(1, ((const zt_tril_attrs *)attrs)->diagonal, in, out);
}

static void triu_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    (void)t;
    triangle(-1, ((const zt_triu_attrs *)attrs)->diagonal, in, out);
}

static bool tril_cases(int i, zt_case *c)
{
    static const struct {
        zt_case_type x;
        zt_tril_attrs a;
    } rows[] = {
        {{ZT_F32, 2, {5, 5}}, {0}},      {{ZT_F32, 2, {3, 7}}, {2}},
        {{ZT_F32, 2, {7, 3}}, {-2}},     {{ZT_F32, 3, {2, 33, 40}}, {-40}},
        {{ZT_F32, 3, {2, 33, 40}}, {1}}, {{ZT_F32, 3, {2, 3, 4}}, {100}},
        {{ZT_F32, 2, {0, 4}}, {0}},      {{ZT_F16, 2, {5, 33}}, {1}},
        {{ZT_F64, 2, {5, 4}}, {0}},      {{ZT_I64, 2, {4, 5}}, {0}},
        {{ZT_BOOL, 2, {4, 5}}, {1}},     {{ZT_U16, 2, {4, 5}}, {-1}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(c, &rows[i].a, sizeof rows[i].a);
    case_in(c, &rows[i].x, ZT_FILL_NORMAL);
    return true;
}

static void tril_vjp(zt_vjp *v) { v->dx[0] = zt_build_tril(v->e, v->dy[0], v->attrs); }

static void triu_vjp(zt_vjp *v) { v->dx[0] = zt_build_triu(v->e, v->dy[0], v->attrs); }

#define TRIANGLE(NAME, WHICH)                                                                      \
    const zt_opdef zt_op_##NAME = {                                                                \
        .synopsis = "y[...,r,c] = x[...,r,c] where c - r " WHICH " `diagonal`, else 0; any but "   \
                    "block types, y has x's",                                                      \
        .n_required = 1,                                                                           \
        .infer = tril_infer,                                                                       \
        .ref = NAME##_ref,                                                                         \
        .flops = zt_row_no_flops,                                                                  \
        .cases = tril_cases,                                                                       \
        .vjp = NAME##_vjp,                                                                         \
    };
TRIANGLE(tril, "<=")
TRIANGLE(triu, ">=")

/* ---- cumprod --------------------------------------------------------------------------------- */

static zt_status cumprod_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                               zt_type out[])
{
    const zt_cumprod_attrs *a = attrs;
    zt_status s = want_number(ctx, in[0]);
    if (s) return s;
    if ((a->exclusive != 0 && a->exclusive != 1) || (a->reverse != 0 && a->reverse != 1))
        return zt_row_fail(ctx, ZT_EUSAGE, "exclusive and reverse are 0 or 1");
    out[0] = *in[0];
    return zt_row_axis(ctx, a->axis, in[0]->rank);
}

static void cumprod_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    const zt_cumprod_attrs *a = attrs;
    lines l = lines_along(a->axis, in->type);
    (void)t;
    for (int64_t r = 0; r < l.count; r++) {
        double f = 1;
        uint64_t n = 1;
        for (int64_t i = 0; i < l.n; i++) {
            int64_t at = line_at(&l, l.n, r) + (a->reverse ? l.n - 1 - i : i) * l.inner;
            double old = f;
            uint64_t was = n;
            if (out->f) f *= in->f[at];
            if (out->f) out->f[at] = a->exclusive ? old : f;
            if (out->i) n *= (uint64_t)in->i[at];
            if (out->i) out->i[at] = zt_row_wrap(out->type->dtype, a->exclusive ? was : n);
        }
    }
}

static bool cumprod_cases(int i, zt_case *c)
{
    static const struct {
        zt_case_type x;
        zt_cumprod_attrs a; /* axis, exclusive, reverse */
    } rows[] = {
        {{ZT_F32, 1, {33}}, {-1, 0, 0}},      {{ZT_F32, 2, {2, 33}}, {1, 1, 0}},
        {{ZT_F32, 2, {9, 40}}, {0, 0, 1}},    {{ZT_F32, 3, {2, 5, 7}}, {1, 1, 1}},
        {{ZT_F32, 3, {2, 30, 33}}, {1, 0, 0}}, {{ZT_F32, 2, {0, 5}}, {0, 0, 0}},
        {{ZT_F32, 1, {1}}, {0, 1, 0}},        {{ZT_F64, 2, {3, 5}}, {0, 0, 0}},
        {{ZT_F16, 2, {3, 10}}, {1, 0, 0}},    {{ZT_I32, 2, {3, 5}}, {1, 0, 0}},
        {{ZT_U8, 2, {3, 5}}, {1, 0, 1}},      {{ZT_I64, 2, {3, 5}}, {0, 1, 1}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(c, &rows[i].a, sizeof rows[i].a);
    case_in(c, &rows[i].x, ZT_FILL_POSITIVE);
    return true;
}

/* dx_i = sum over j of dy_j y_j / x_i, where x_i is a factor of y_j. (Not at zeros: NaN.) */
static void cumprod_vjp(zt_vjp *v)
{
    const zt_cumprod_attrs *a = v->attrs;
    int share = zt_build_cumsum(v->e, zt_build_mul(v->e, v->dy[0], v->out[0]),
                            &(zt_cumsum_attrs){a->axis, a->exclusive, !a->reverse});
    v->dx[0] = zt_build_div(v->e, share, v->in[0]);
}

const zt_opdef zt_op_cumprod = {
    .synopsis = "y[...,i,...] = the product of x up to i along `axis` (below 0 from the end); "
                "exclusive=1 without i, reverse=1 from the end; any plain float or integer type, y "
                "has x's; its gradient divides by x",
    .n_required = 1,
    .infer = cumprod_infer,
    .ref = cumprod_ref,
    .cases = cumprod_cases,
    .vjp = cumprod_vjp,
};
