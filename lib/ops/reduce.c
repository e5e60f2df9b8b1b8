/* reduce.c - rows of the ops that reduce a list of axes, and of `spread`, which their gradients are
 * made of: a program's dims may be symbols, so it takes the shape to go back to from a value.
 */
#include "lib/ops/loops.h"

#include <math.h>
#include <string.h>

/* ---- axes ------------------------------------------------------------------------------------ */

/* x's dimensions, those that stay and those that are reduced, with their strides in elements. */
typedef struct parts {
    int n_kept, n_gone;
    int64_t kept_dim[ZT_MAX_RANK], kept_stride[ZT_MAX_RANK];
    int64_t gone_dim[ZT_MAX_RANK], gone_stride[ZT_MAX_RANK];
    int64_t kept, gone; /* elements of each */
} parts;

static zt_status reduced_axes(zt_ctx *ctx, const zt_ints *axes, int rank, bool *reduced)
{
    for (int d = 0; d < rank; d++) reduced[d] = axes->n == 0;
    for (int64_t i = 0; i < axes->n; i++) {
        int64_t d = axes->v[i] < 0 ? axes->v[i] + rank : axes->v[i];
        if (axes->v[i] < -rank || d >= rank)
            return zt_row_fail(ctx, ZT_ESHAPE, "axis %lld is out of range for %d dimensions", (long long)axes->v[i], rank);
        if (reduced[d]) return zt_row_fail(ctx, ZT_EUSAGE, "duplicate axis %lld", (long long)d);
        reduced[d] = true;
    }
    return ZT_OK;
}

static parts parts_of(const zt_type *x, const zt_ints *axes)
{
    parts p = {.kept = 1, .gone = 1};
    bool reduced[ZT_MAX_RANK];
    int64_t stride[ZT_MAX_RANK], step = 1;
    reduced_axes(NULL, axes, x->rank, reduced);
    for (int d = x->rank - 1; d >= 0; d--) {
        stride[d] = step;
        step *= x->dim[d];
    }
    for (int d = 0; d < x->rank; d++) {
        int *n = reduced[d] ? &p.n_gone : &p.n_kept;
        (reduced[d] ? p.gone_dim : p.kept_dim)[*n] = x->dim[d];
        (reduced[d] ? p.gone_stride : p.kept_stride)[*n] = stride[d];
        *(reduced[d] ? &p.gone : &p.kept) *= x->dim[d];
        ++*n;
    }
    return p;
}

/* Where the i-th of these dimensions' indices lies. */
static int64_t place_of(int n, const int64_t *dim, const int64_t *stride, int64_t i)
{
    int64_t at = 0;
    for (int d = n - 1; d >= 0; d--) {
        at += i % dim[d] * stride[d];
        i /= dim[d];
    }
    return at;
}

static int64_t kept_at(const parts *p, int64_t i) { return place_of(p->n_kept, p->kept_dim, p->kept_stride, i); }

static int64_t gone_at(const parts *p, int64_t i) { return place_of(p->n_gone, p->gone_dim, p->gone_stride, i); }

/* Every reduction's attributes begin, and end, like sum's. */
typedef zt_sum_attrs reduce_attrs;

static zt_status reduced_type(zt_ctx *ctx, const reduce_attrs *a, const zt_type *x, zt_type *y)
{
    bool reduced[ZT_MAX_RANK];
    if (a->axes.n < 0 || a->axes.n > ZT_MAX_RANK)
        return zt_row_fail(ctx, ZT_EUSAGE, "too many axes (%lld)", (long long)a->axes.n);
    if (a->keepdims != 0 && a->keepdims != 1)
        return zt_row_fail(ctx, ZT_EUSAGE, "keepdims is %lld: must be 0 or 1", (long long)a->keepdims);
    zt_status status = reduced_axes(ctx, &a->axes, x->rank, reduced);
    if (status) return status;
    *y = zt_type_make(x->dtype, 0, NULL);
    for (int d = 0; d < x->rank; d++)
        if (!reduced[d] || a->keepdims) y->dim[y->rank++] = reduced[d] ? 1 : x->dim[d];
    return ZT_OK;
}

static zt_status float_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_status status = zt_row_want_float(ctx, "x", in[0]);
    return status ? status : reduced_type(ctx, attrs, in[0], &out[0]);
}

static zt_status number_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_status status = zt_row_want_number(ctx, "x", in[0]);
    return status ? status : reduced_type(ctx, attrs, in[0], &out[0]);
}

/* Largest, smallest and mean of nothing are infinite or NaN, which no integer is. */
static zt_status extreme_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_status status = number_infer(ctx, attrs, in, out);
    if (status || zt_dtype_is_float(in[0]->dtype)) return status;
    if (zt_type_count(in[0]) || !zt_type_count(&out[0])) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "cannot reduce an empty set of integers");
}

static double exp_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    return 10 * zt_row_in_flops(attrs, in, out);
}

/* ---- folding --------------------------------------------------------------------------------- */

/* A reduction: acc = start; for each x: acc = next(acc, x). istart and inext: the same for integers; ordered: inext compares them, so
 * that the bits of u64 are turned to int64_t of the same order, and back (flip_of). */
typedef struct fold {
    double start;
    double (*next)(double, double);
    int64_t istart;
    int64_t (*inext)(int64_t, int64_t);
    bool ordered;
} fold;

static double add_floats(double a, double b) { return a + b; }
static double multiply_floats(double a, double b) { return a * b; }
static double larger_float(double a, double b) { return b > a || isnan(b) ? b : a; }
static double smaller_float(double a, double b) { return b < a || isnan(b) ? b : a; }
static int64_t add_integers(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t multiply_integers(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t larger_integer(int64_t a, int64_t b) { return b > a ? b : a; }
static int64_t smaller_integer(int64_t a, int64_t b) { return b < a ? b : a; }

static void fold_all(const reduce_attrs *a, const fold *f, const zt_arg *in, zt_arg *out)
{
    parts p = parts_of(in[0].type, &a->axes);
    int64_t flip = f->ordered ? flip_of(in[0].type) : 0;
    for (int64_t o = 0; o < p.kept; o++) {
        int64_t base = kept_at(&p, o), isum = f->istart;
        double sum = f->start;
        for (int64_t r = 0; r < p.gone; r++) {
            int64_t at = base + gone_at(&p, r);
            if (in[0].f)
                sum = f->next(sum, in[0].f[at]);
            else
                isum = f->inext(isum, in[0].i[at] ^ flip);
        }
        if (out[0].f)
            out[0].f[o] = sum;
        else
            out[0].i[o] = isum ^ flip;
    }
}

// clang-format off
#define FOLD_REF(NAME, ...)                                                                        \
    static void NAME##_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)        \
    {                                                                                              \
        static const fold f = {__VA_ARGS__};                                                       \
        (void)error;                                                                                   \
        fold_all(attrs, &f, in, out);                                                              \
    }
// clang-format on
FOLD_REF(sum, 0, add_floats, 0, add_integers, false)
FOLD_REF(prod, 1, multiply_floats, 1, multiply_integers, false)
FOLD_REF(amax, -INFINITY, larger_float, INT64_MIN, larger_integer, true)
FOLD_REF(amin, INFINITY, smaller_float, INT64_MAX, smaller_integer, true)

static void mean_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const reduce_attrs *a = attrs;
    parts p = parts_of(in[0].type, &a->axes);
    sum_ref(attrs, in, out, error);
    for (int64_t o = 0; o < p.kept && out[0].f; o++) out[0].f[o] /= (double)p.gone;
    for (int64_t o = 0; o < p.kept && out[0].i; o++)
        out[0].i[o] = out[0].type->dtype == ZT_U64 ? (int64_t)((uint64_t)out[0].i[o] / (uint64_t)p.gone) : out[0].i[o] / p.gone;
}

static void logsumexp_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const reduce_attrs *a = attrs;
    parts p = parts_of(in[0].type, &a->axes);
    amax_ref(attrs, in, out, error);
    for (int64_t o = 0; o < p.kept; o++) {
        int64_t base = kept_at(&p, o);
        double top = isfinite(out[0].f[o]) ? out[0].f[o] : 0, sum = 0;
        for (int64_t r = 0; r < p.gone; r++) sum += exp(in[0].f[base + gone_at(&p, r)] - top);
        out[0].f[o] = top + log(sum);
    }
}

/* ---- cases ----------------------------------------------------------------------------------- */

static bool reduce_cases(int i, bool integers, zt_case *test_case)
{
    // clang-format off
    static const struct {
        zt_case_type x;
        reduce_attrs a; /* axes, keepdims */
    } rows[] = {
        {{ZT_F32, 2, {2, 33}}, {{0, {0}}, 0}},       {{ZT_F32, 2, {2, 33}}, {{1, {1}}, 0}},
        {{ZT_F32, 2, {2, 33}}, {{1, {-2}}, 1}},      {{ZT_F32, 3, {3, 5, 7}}, {{1, {1}}, 0}},
        {{ZT_F32, 3, {3, 5, 7}}, {{2, {-1, 0}}, 0}}, {{ZT_F32, 4, {2, 1, 3, 4}}, {{2, {1, 3}}, 1}},
        {{ZT_F32, 4, {2, 3, 2, 9}}, {{2, {0, 2}}, 0}}, {{ZT_F32, 3, {3, 5, 7}}, {{0, {0}}, 1}},
        {{ZT_F32, 0, {0}}, {{0, {0}}, 0}},           {{ZT_F32, 2, {0, 4}}, {{1, {0}}, 0}},
        {{ZT_F32, 2, {4, 0}}, {{1, {0}}, 1}},        {{ZT_F32, 2, {4, 0}}, {{1, {1}}, 0}},
        {{ZT_F16, 2, {3, 40}}, {{1, {1}}, 0}},       {{ZT_BF16, 2, {3, 40}}, {{1, {0}}, 0}},
        {{ZT_F64, 2, {3, 4}}, {{1, {0}}, 0}},        {{ZT_F32, 2, {9, 5000}}, {{1, {1}}, 0}},
        {{ZT_F32, 2, {1030, 40}}, {{1, {0}}, 0}},    {{ZT_F32, 3, {5, 130, 33}}, {{1, {1}}, 1}},
        {{ZT_F32, 3, {65, 7, 100}}, {{2, {0, 2}}, 0}},
        {{ZT_I32, 2, {3, 40}}, {{1, {1}}, 0}},       {{ZT_I64, 2, {3, 40}}, {{1, {0}}, 0}},
        {{ZT_U8, 3, {2, 3, 4}}, {{1, {1}}, 1}},      {{ZT_U64, 2, {3, 40}}, {{1, {1}}, 0}},
        {{ZT_I8, 2, {5, 9}}, {{0, {0}}, 0}},         {{ZT_I16, 2, {5, 9}}, {{1, {0}}, 0}},
        {{ZT_U16, 2, {5, 9}}, {{1, {0}}, 0}},        {{ZT_U32, 2, {5, 9}}, {{1, {0}}, 0}},
    };
    // clang-format on
    if (i >= ZT_LEN(rows)) return false;
    bool is_int = zt_dtype_get(rows[i].x.dtype)->kind != 'F';
    if (is_int && !integers) return false; /* they come last */
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    zt_case_type_in(test_case, 0, is_int ? ZT_FILL_IDS : ZT_FILL_NORMAL, &rows[i].x);
    test_case->limit[0] = 5;
    return true;
}

static bool number_cases(int i, zt_case *test_case) { return reduce_cases(i, true, test_case); }
static bool float_cases(int i, zt_case *test_case) { return reduce_cases(i, false, test_case); }

static bool extreme_cases(int i, zt_case *test_case)
{
    static const zt_case_type ties[] = {{ZT_F32, 2, {65, 100}}, {ZT_F32, 2, {65, 100}}};
    static const reduce_attrs axes[] = {{{1, {0}}, 0}, {{1, {1}}, 0}};
    if (i >= ZT_LEN(ties)) return number_cases(i - ZT_LEN(ties), test_case);
    zt_case_attrs(test_case, &axes[i], sizeof axes[i]);
    zt_case_type_in(test_case, 0, ZT_FILL_TIES, &ties[i]);
    return true;
}

/* ---- spread ---------------------------------------------------------------------------------- */

static zt_status spread_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_spread_attrs *spread = attrs;
    reduce_attrs r = {.axes = spread->axes, .keepdims = in[0]->rank == in[1]->rank};
    zt_type part;
    zt_status status = zt_row_want_float(ctx, "x", in[0]);
    if (!status && spread->mean != 0 && spread->mean != 1)
        status = zt_row_fail(ctx, ZT_EUSAGE, "mean is %lld: must be 0 or 1", (long long)spread->mean);
    if (!status) status = reduced_type(ctx, &r, in[1], &part);
    if (status) return status;
    out[0] = zt_type_make(in[0]->dtype, in[1]->rank, in[1]->dim);
    part.dtype = in[0]->dtype;
    if (zt_type_equal(&part, in[0])) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "x does not have the shape of like reduced over these axes");
}

static void spread_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_spread_attrs *spread = attrs;
    parts p = parts_of(out[0].type, &spread->axes);
    double by = spread->mean ? (double)p.gone : 1;
    (void)error;
    for (int64_t o = 0; o < p.kept; o++)
        for (int64_t r = 0, base = kept_at(&p, o); r < p.gone; r++) out[0].f[base + gone_at(&p, r)] = in[0].f[o] / by;
}

static bool spread_cases(int i, zt_case *test_case)
{
    reduce_attrs a;
    const zt_type *like = &test_case->in[1];
    if (!float_cases(i, test_case)) return false;
    test_case->in[1] = test_case->in[0];
    test_case->fill[1] = test_case->fill[0];
    memcpy(&a, test_case->attrs, sizeof a);
    zt_spread_attrs s = {.axes = a.axes, .mean = i % 2};
    zt_case_attrs(test_case, &s, sizeof s);
    return float_infer(NULL, &a, &like, &test_case->in[0]) == ZT_OK;
}

static void spread_vjp(zt_vjp *vjp)
{
    const zt_spread_attrs *attrs = vjp->attrs;
    zt_type x = vjp->emit->type(vjp->emit->user, vjp->in[0]), like = vjp->emit->type(vjp->emit->user, vjp->in[1]);
    int dy = vjp->dy[0];
    if (attrs->mean) { /* not the mean: that of nothing is NaN */
        int one = zt_build_fill_like(vjp->emit, vjp->in[0], &(zt_fill_like_attrs){1});
        dy = zt_build_mul(vjp->emit, dy, zt_build_spread(vjp->emit, one, vjp->in[1], attrs));
    }
    vjp->dx[0] = zt_build_sum(vjp->emit, dy, &(zt_sum_attrs){attrs->axes, x.rank == like.rank});
}

const zt_opdef zt_op_spread = {
    .synopsis = "y has the shape of `like`: x, without the `axes` of like (none: all) or with size 1 "
                "there, repeated along them; mean=1: divided by the number of repetitions; any plain "
                "float type",
    .n_required = 2,
    .infer = spread_infer,
    .ref = spread_ref,
    .cases = spread_cases,
    .vjp = spread_vjp,
    .constant = 2,
};

/* ---- gradients ------------------------------------------------------------------------------- */

/* A value of the reduced shape, back in that of x. */
static int emit_keepdims(const zt_vjp *vjp, int y)
{
    const reduce_attrs *a = vjp->attrs;
    return zt_build_spread(vjp->emit, y, vjp->in[0], &(zt_spread_attrs){a->axes, 0});
}

static int emit_summed(const zt_vjp *vjp, int x)
{
    const reduce_attrs *a = vjp->attrs;
    return zt_build_sum(vjp->emit, x, &(zt_sum_attrs){a->axes, a->keepdims});
}

static void sum_vjp(zt_vjp *vjp) { vjp->dx[0] = emit_keepdims(vjp, vjp->dy[0]); }

static void mean_vjp(zt_vjp *vjp)
{
    const reduce_attrs *a = vjp->attrs;
    vjp->dx[0] = zt_build_spread(vjp->emit, vjp->dy[0], vjp->in[0], &(zt_spread_attrs){a->axes, 1});
}

/* What is as large as the largest shares its gradient evenly, as PyTorch's amax does it. */
static void extreme_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    int x = vjp->in[0];
    int chosen = zt_build_as(emit, zt_build_eq(emit, x, emit_keepdims(vjp, vjp->out[0])), x);
    int share = zt_build_div(emit, vjp->dy[0], emit_summed(vjp, chosen));
    vjp->dx[0] = zt_build_mul(emit, emit_keepdims(vjp, share), chosen);
}

/* The product of the others: all but the zeros, divided by x where x is none and there is none, as
 * it is where x is the only one. (The second derivative between zeros is not in it.) */
static void prod_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    const reduce_attrs *a = vjp->attrs;
    int x = vjp->in[0];
    int none = zt_build_fill_like(emit, x, &(zt_fill_like_attrs){0});
    int one = zt_build_fill_like(emit, x, &(zt_fill_like_attrs){1});
    int is_zero = zt_build_eq(emit, x, none), zero = zt_build_as(emit, is_zero, x);
    int safe = zt_build_where(emit, is_zero, one, x);
    int product = zt_build_prod(emit, safe, &(zt_prod_attrs){a->axes, a->keepdims});
    int others = zt_build_div(emit, emit_keepdims(vjp, zt_build_mul(emit, vjp->dy[0], product)), safe);
    int right = zt_build_as(emit, zt_build_eq(emit, emit_keepdims(vjp, emit_summed(vjp, zero)), zero), x);
    vjp->dx[0] = zt_build_mul(emit, others, right);
}

static void logsumexp_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    int share = zt_build_exp(emit, zt_build_sub(emit, vjp->in[0], emit_keepdims(vjp, vjp->out[0])));
    vjp->dx[0] = zt_build_mul(emit, emit_keepdims(vjp, vjp->dy[0]), share);
}

/* ---- the reductions -------------------------------------------------------------------------- */

// clang-format off
#define REDUCTION(NAME, KIND, INFER, FLOPS, VJP, SYNOPSIS)                                         \
    const zt_opdef zt_op_##NAME = {                                                                \
        .synopsis = SYNOPSIS,                                                                      \
        .n_required = 1,                                                                           \
        .infer = INFER##_infer,                                                                    \
        .ref = NAME##_ref,                                                                         \
        .flops = FLOPS##_flops,                                                                    \
        .cases = KIND##_cases,                                                                     \
        .vjp = VJP##_vjp,                                                                          \
    };
// clang-format on

#define AXES                                                                                                                     \
    " over `axes` (none: all; negative: from the end); keepdims=1 keeps them with size 1; y has "                                \
    "the type of x, "
#define FLOATS  "any plain float type"
#define NUMBERS "any plain float or integer type"

REDUCTION(sum, number, number, zt_row_in, sum, "y = the sum of x" AXES NUMBERS)
REDUCTION(mean, number, extreme, zt_row_in, mean,
          "y = the mean of x" AXES NUMBERS "; NaN for an empty set; of integers the sum in 64 bits, divided towards zero")
REDUCTION(prod, number, number, zt_row_in, prod, "y = the product of x" AXES NUMBERS)
REDUCTION(amax, extreme, extreme, zt_row_in, extreme,
          "y = the largest of x" AXES NUMBERS "; NaN if any is NaN, -inf for an empty set")
REDUCTION(amin, extreme, extreme, zt_row_in, extreme,
          "y = the smallest of x" AXES NUMBERS "; NaN if any is NaN, inf for an empty set")
REDUCTION(logsumexp, float, float, exp, logsumexp, "y = ln sum exp(x)" AXES FLOATS "; -inf for an empty set")
