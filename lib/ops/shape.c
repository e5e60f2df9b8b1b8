/* shape.c - rows of reshape, and of the ops that put elements in other places: transpose, concat, uncat, repeat. */
#include "lib/ops/vjp.h"

#include <string.h>

static zt_status reshape_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_reshape_attrs *reshape = attrs;
    if (reshape->shape.n < 0 || reshape->shape.n > ZT_MAX_RANK)
        return zt_row_fail(ctx, ZT_EUSAGE, "shape has %lld dimensions: at most %d", (long long)reshape->shape.n, ZT_MAX_RANK);
    int64_t count = 1;
    bool empty = false;
    for (int64_t d = 0; d < reshape->shape.n; d++) {
        if (reshape->shape.dim[d] < 0) return zt_row_fail(ctx, ZT_ESHAPE, "dimension %lld of shape is negative", (long long)d);
        if (reshape->shape.dim[d] == 0)
            empty = true;
        else if (!zt_mul_i64(count, reshape->shape.dim[d], &count))
            return zt_row_fail(ctx, ZT_ESHAPE, "shape has too many elements");
    }
    if (empty) count = 0;
    if (count != zt_type_count(in[0]))
        return zt_row_fail(ctx, ZT_ESHAPE, "shape has %lld elements, but x has %lld", (long long)count,
                           (long long)zt_type_count(in[0]));
    out[0] = zt_type_make(in[0]->dtype, (int)reshape->shape.n, reshape->shape.dim);
    return ZT_OK;
}

static bool reshape_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        zt_dims shape;
    } rows[] = {
        {{ZT_F32, 2, {4, 6}}, {3, {2, 3, 4}}}, {{ZT_F32, 3, {2, 3, 4}}, {1, {24}}}, {{ZT_F32, 1, {1}}, {0, {0}}},
        {{ZT_F32, 2, {0, 6}}, {3, {3, 0, 5}}}, {{ZT_F16, 2, {3, 33}}, {1, {99}}},   {{ZT_I32, 1, {12}}, {2, {3, 4}}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_reshape_attrs a = {.shape = rows[i].shape};
    zt_case_attrs(test_case, &a, sizeof a);
    zt_case_type_in(test_case, 0, rows[i].x.dtype == ZT_I32 ? ZT_FILL_IDS : ZT_FILL_NORMAL, &rows[i].x);
    test_case->limit[0] = 1000;
    return true;
}

static void reshape_vjp(zt_vjp *vjp) { vjp->dx[0] = zt_build_reshape_like(vjp->emit, vjp->dy[0], vjp->in[0]); }

const zt_opdef zt_op_reshape = {
    .synopsis = "y has the elements of x in row-major order, in another shape of the same size; a "
                "view",
    .n_required = 1,
    .flags = ZT_OPF_VIEW,
    .infer = reshape_infer,
    .ref = zt_row_same_ref,
    .flops = zt_row_no_flops,
    .cases = reshape_cases,
    .vjp = reshape_vjp,
};

/* ---- transpose ------------------------------------------------------------------------------- */

/* Which of x's dimensions is y's d-th. */
static int source_of(const zt_ints *axes, int rank, int d) { return axes->n ? zt_plain_axis(axes->v[d], rank) : rank - 1 - d; }

static zt_status transpose_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_ints *axes = &((const zt_transpose_attrs *)attrs)->axes;
    const zt_type *x = in[0];
    bool seen[ZT_MAX_RANK] = {0};
    zt_status status = zt_row_want_plain(ctx, "x", x);
    if (status) return status;
    if (axes->n != 0 && axes->n != x->rank)
        return zt_row_fail(ctx, ZT_ESHAPE, "axes has %lld entries, expected %d (dimensions)", (long long)axes->n, x->rank);
    out[0] = *x;
    for (int d = 0; d < x->rank; d++) {
        status = axes->n ? zt_row_axis(ctx, axes->v[d], x->rank) : ZT_OK;
        if (status) return status;
        int from = source_of(axes, x->rank, d);
        if (seen[from]) return zt_row_fail(ctx, ZT_EUSAGE, "duplicate axis %d", from);
        seen[from] = true;
        out[0].dim[d] = x->dim[from];
    }
    return ZT_OK;
}

static void transpose_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_ints *axes = &((const zt_transpose_attrs *)attrs)->axes;
    const zt_type *x = in[0].type, *y = out[0].type;
    int64_t stride[ZT_MAX_RANK], step = 1, n = zt_type_count(y);
    (void)error;
    for (int d = x->rank - 1; d >= 0; d--) {
        stride[d] = step;
        step *= x->dim[d];
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t from = 0, rest = i;
        for (int d = y->rank - 1; d >= 0; d--) {
            from += rest % y->dim[d] * stride[source_of(axes, x->rank, d)];
            rest /= y->dim[d];
        }
        zt_row_move(&in[0], from, &out[0], i);
    }
}

static bool transpose_cases(int i, zt_case *test_case)
{
    // clang-format off
    static const struct {
        zt_case_type x;
        zt_ints axes;
    } rows[] = {
        {{ZT_F32, 2, {2, 33}}, {0, {0}}},           {{ZT_F32, 2, {65, 100}}, {2, {1, 0}}},
        {{ZT_F32, 3, {3, 5, 7}}, {3, {0, 2, 1}}},   {{ZT_F32, 3, {3, 5, 7}}, {3, {1, 0, 2}}},
        {{ZT_F32, 3, {3, 5, 7}}, {3, {2, 0, 1}}},   {{ZT_F32, 3, {17, 33, 18}}, {3, {-1, 1, 0}}},
        {{ZT_F32, 4, {2, 3, 4, 5}}, {4, {0, 2, 1, 3}}},
        {{ZT_F32, 4, {2, 3, 4, 5}}, {4, {3, 1, 0, 2}}},
        {{ZT_F32, 4, {2, 1, 20, 17}}, {4, {0, 3, 1, 2}}},
        {{ZT_F32, 1, {5}}, {1, {0}}},               {{ZT_F32, 0, {0}}, {0, {0}}},
        {{ZT_F32, 2, {0, 4}}, {0, {0}}},            {{ZT_F16, 2, {33, 40}}, {0, {0}}},
        {{ZT_F64, 3, {3, 4, 5}}, {3, {2, 1, 0}}},   {{ZT_I32, 2, {20, 33}}, {0, {0}}},
        {{ZT_U8, 3, {2, 3, 4}}, {3, {1, 2, 0}}},    {{ZT_I64, 2, {3, 4}}, {0, {0}}},
        {{ZT_F32, 2, {300, 290}}, {0, {0}}},        {{ZT_BF16, 2, {270, 310}}, {0, {0}}},
        {{ZT_F32, 4, {2, 300, 3, 20}}, {4, {0, 2, 1, 3}}},
        {{ZT_F32, 4, {3, 5, 2, 260}}, {4, {2, 1, 0, 3}}},
        {{ZT_F16, 4, {2, 20, 3, 37}}, {4, {0, 2, 3, 1}}},
    };
    // clang-format on
    if (i >= ZT_LEN(rows)) return false;
    zt_transpose_attrs a = {rows[i].axes};
    zt_case_attrs(test_case, &a, sizeof a);
    zt_case_plain_in(test_case, 0, ZT_FILL_NORMAL, 100, &rows[i].x);
    return true;
}

static void transpose_vjp(zt_vjp *vjp)
{
    const zt_ints *axes = &((const zt_transpose_attrs *)vjp->attrs)->axes;
    zt_transpose_attrs back = {{axes->n, {0}}};
    for (int d = 0; d < axes->n; d++) back.axes.v[zt_plain_axis(axes->v[d], (int)axes->n)] = d;
    vjp->dx[0] = zt_build_transpose(vjp->emit, vjp->dy[0], &back);
}

const zt_opdef zt_op_transpose = {
    .synopsis = "dimension d of y is dimension axes[d] of x (negative: from the end); without axes "
                "the order is reversed; any but block types, y has the type of x",
    .n_required = 1,
    .infer = transpose_infer,
    .ref = transpose_ref,
    .flops = zt_row_no_flops,
    .cases = transpose_cases,
    .vjp = transpose_vjp,
};

/* ---- concat, uncat --------------------------------------------------------------------------- */

enum { PARTS = 5 };

/* Of parts (NULL: absent) of one shape but for the axis: the whole. */
static zt_status whole_of(zt_ctx *ctx, int64_t axis, const zt_type *const part[], zt_type *y)
{
    static const char names[] = "abcde";
    zt_status status = zt_row_want_plain(ctx, "a", part[0]);
    if (!status) status = zt_row_axis(ctx, axis, part[0]->rank);
    if (status) return status;
    int at = zt_plain_axis(axis, part[0]->rank);
    *y = *part[0];
    for (int k = 1; k < PARTS; k++) {
        if (!part[k]) continue;
        zt_type same = *part[k];
        if (same.rank == y->rank) same.dim[at] = part[0]->dim[at];
        if (!zt_type_equal(&same, part[0]))
            return zt_row_fail(ctx, ZT_ESHAPE, "%c must have the shape of a except along axis %d", names[k], at);
        if (part[k]->dim[at] > INT64_MAX - y->dim[at]) return zt_row_fail(ctx, ZT_ESHAPE, "the result is too large");
        y->dim[at] += part[k]->dim[at];
    }
    return ZT_OK;
}

static zt_status concat_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    return whole_of(ctx, ((const zt_concat_attrs *)attrs)->axis, in, &out[0]);
}

/* The elements of `whole` from `first` on along the axis are `part`: either way. */
static void copy_part(int at, const zt_arg *whole, int64_t first, const zt_arg *part, bool into)
{
    int64_t inner = 1, n = zt_type_count(part->type), run;
    zt_arg w = *whole, p = *part;
    for (int d = at + 1; d < w.type->rank; d++) inner *= w.type->dim[d];
    run = inner * p.type->dim[at];
    for (int64_t i = 0; i < n; i++) {
        int64_t there = i / run * w.type->dim[at] * inner + first * inner + i % run;
        if (into)
            zt_row_move(&p, i, &w, there);
        else
            zt_row_move(&w, there, &p, i);
    }
}

static void concat_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    int at = zt_plain_axis(((const zt_concat_attrs *)attrs)->axis, out[0].type->rank);
    int64_t first = 0;
    (void)error;
    for (int k = 0; k < PARTS; k++) {
        if (!in[k].type) continue;
        copy_part(at, &out[0], first, &in[k], true);
        first += in[k].type->dim[at];
    }
}

static bool concat_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x; /* of the k-th part, dimension `axis` is k + 1 times as large */
        int parts;
        int64_t axis;
    } rows[] = {
        {{ZT_F32, 2, {2, 33}}, 2, 0}, {{ZT_F32, 2, {2, 33}}, 2, 1},  {{ZT_F32, 3, {3, 5, 7}}, 3, -2},
        {{ZT_F32, 1, {7}}, 5, 0},     {{ZT_F32, 2, {2, 33}}, 1, -1}, {{ZT_F32, 4, {2, 3, 4, 5}}, 4, 2},
        {{ZT_F32, 2, {0, 4}}, 3, 1},  {{ZT_F32, 2, {4, 0}}, 2, 1},   {{ZT_F32, 2, {3, 9000}}, 2, 0},
        {{ZT_F16, 2, {3, 40}}, 2, 1}, {{ZT_F64, 2, {3, 4}}, 2, 0},   {{ZT_I32, 2, {3, 5}}, 3, 1},
        {{ZT_U8, 1, {7}}, 2, 0},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_concat_attrs a = {rows[i].axis};
    zt_case_attrs(test_case, &a, sizeof a);
    int at = zt_plain_axis(rows[i].axis, rows[i].x.rank);
    for (int k = 0; k < rows[i].parts; k++) {
        zt_case_type type = rows[i].x;
        type.dim[at] *= k + 1;
        zt_case_plain_in(test_case, k, ZT_FILL_NORMAL, 100, &type);
    }
    return true;
}

/* Where shapes are known, slices; else the parts say theirs. */
static void concat_vjp(zt_vjp *vjp)
{
    int64_t axis = ((const zt_concat_attrs *)vjp->attrs)->axis, first = 0;
    const int *in = vjp->in;
    for (int k = 0; k < PARTS; k++) {
        if (in[k] < 0) continue;
        zt_type type = vjp->emit->type(vjp->emit->user, in[k]);
        int64_t n = type.rank ? type.dim[zt_plain_axis(axis, type.rank)] : -1;
        if (n < 0) {
            vjp->dx[k] = zt_build_uncat(vjp->emit, vjp->dy[0], in[0], in[1], in[2], in[3], in[4], &(zt_uncat_attrs){axis, k});
            continue;
        }
        /* an end of 0 would be the end itself */
        vjp->dx[k] = n ? zt_build_slice(vjp->emit, vjp->dy[0], &(zt_slice_attrs){axis, first, first + n})
                       : zt_build_fill_like(vjp->emit, in[k], &(zt_fill_like_attrs){0});
        first += n;
    }
}

const zt_opdef zt_op_concat = {
    .synopsis = "y = a, b, c, d and e (where present) concatenated along `axis` (negative: from the "
                "end); the same type except for that dimension; any but block types",
    .n_required = 1,
    .infer = concat_infer,
    .ref = concat_ref,
    .flops = zt_row_no_flops,
    .cases = concat_cases,
    .vjp = concat_vjp,
};

static zt_status uncat_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_uncat_attrs *uncat = attrs;
    zt_type whole;
    zt_status status = whole_of(ctx, uncat->axis, in + 1, &whole);
    if (status) return status;
    if (uncat->part < 0 || uncat->part >= PARTS || !in[1 + uncat->part])
        return zt_row_fail(ctx, ZT_EUSAGE, "part %lld is out of range", (long long)uncat->part);
    out[0] = *in[1 + uncat->part];
    out[0].dtype = whole.dtype = in[0]->dtype;
    if (zt_type_equal(&whole, in[0])) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "x does not have the shape of the concatenated parts");
}

static void uncat_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_uncat_attrs *uncat = attrs;
    int at = zt_plain_axis(uncat->axis, in[0].type->rank);
    int64_t first = 0;
    (void)error;
    for (int k = 0; k < uncat->part; k++) first += in[1 + k].type ? in[1 + k].type->dim[at] : 0;
    copy_part(at, &in[0], first, &out[0], false);
}

static bool uncat_cases(int i, zt_case *test_case)
{
    zt_concat_attrs cat;
    const zt_type *part[PARTS] = {0};
    if (!concat_cases(i, test_case)) return false;
    memcpy(&cat, test_case->attrs, sizeof cat);
    for (int k = PARTS; k-- > 0;) {
        test_case->in[k + 1] = test_case->in[k];
        test_case->fill[k + 1] = test_case->fill[k];
        test_case->limit[k + 1] = test_case->limit[k];
        if (test_case->fill[k + 1] != ZT_FILL_ABSENT) part[k] = &test_case->in[k + 1];
    }
    zt_uncat_attrs a = {cat.axis, part[1] ? i % 2 : 0};
    zt_case_attrs(test_case, &a, sizeof a);
    return whole_of(NULL, cat.axis, part, &test_case->in[0]) == ZT_OK;
}

static void uncat_vjp(zt_vjp *vjp)
{
    const zt_uncat_attrs *attrs = vjp->attrs;
    int part[PARTS];
    for (int k = 0; k < PARTS; k++) {
        part[k] = vjp->in[1 + k];
        if (part[k] < 0) continue;
        part[k] = k == attrs->part
                      ? vjp->dy[0]
                      : zt_build_as(vjp->emit, zt_build_fill_like(vjp->emit, part[k], &(zt_fill_like_attrs){0}), vjp->dy[0]);
    }
    vjp->dx[0] = zt_build_concat(vjp->emit, part[0], part[1], part[2], part[3], part[4], &(zt_concat_attrs){attrs->axis});
}

const zt_opdef zt_op_uncat = {
    .synopsis = "y = part `part` (0: a) of x, split along `axis` into the shapes of a to e, which "
                "are not read; x any but block types, y has the type of x",
    .n_required = 2,
    .infer = uncat_infer,
    .ref = uncat_ref,
    .flops = zt_row_no_flops,
    .cases = uncat_cases,
    .vjp = uncat_vjp,
    .constant = 2 | 4 | 8 | 16 | 32,
};

/* ---- repeat ---------------------------------------------------------------------------------- */

static zt_status repeat_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_repeat_attrs *repeat = attrs;
    zt_status status = zt_row_want_plain(ctx, "x", in[0]);
    if (!status) status = zt_row_axis(ctx, repeat->axis, in[0]->rank);
    if (status) return status;
    int at = zt_plain_axis(repeat->axis, in[0]->rank);
    out[0] = *in[0];
    if (repeat->times < 1) return zt_row_fail(ctx, ZT_EUSAGE, "times is %lld: must be 1 or more", (long long)repeat->times);
    if (zt_mul_i64(in[0]->dim[at], repeat->times, &out[0].dim[at])) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "y has too many elements");
}

static void repeat_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_repeat_attrs *repeat = attrs;
    int at = zt_plain_axis(repeat->axis, in[0].type->rank);
    int64_t inner = 1, n = zt_type_count(out[0].type);
    (void)error;
    for (int d = at + 1; d < in[0].type->rank; d++) inner *= in[0].type->dim[d];
    for (int64_t i = 0; i < n; i++) zt_row_move(&in[0], i / (inner * repeat->times) * inner + i % inner, &out[0], i);
}

static bool repeat_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        zt_repeat_attrs a; /* axis, times */
    } rows[] = {
        {{ZT_F32, 1, {33}}, {0, 2}},       {{ZT_F32, 2, {2, 33}}, {0, 3}}, {{ZT_F32, 3, {3, 5, 7}}, {-2, 4}},
        {{ZT_F32, 3, {3, 5, 7}}, {-1, 1}}, {{ZT_F32, 2, {0, 4}}, {1, 2}},  {{ZT_F32, 3, {9, 4, 64}}, {1, 3}},
        {{ZT_F16, 2, {3, 40}}, {1, 2}},    {{ZT_F64, 2, {3, 4}}, {0, 2}},  {{ZT_I32, 2, {3, 4}}, {1, 2}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    zt_case_plain_in(test_case, 0, ZT_FILL_NORMAL, 100, &rows[i].x);
    return true;
}

/* The axis last, in groups of as many as were made of one; their sums; the axis back. */
static void repeat_vjp(zt_vjp *vjp)
{
    const zt_repeat_attrs *attrs = vjp->attrs;
    const zt_emit *emit = vjp->emit;
    int rank = emit->type(emit->user, vjp->in[0]).rank, at = zt_plain_axis(attrs->axis, rank);
    zt_transpose_attrs swap = {{rank, {0}}};
    for (int d = 0; d < rank; d++) swap.axes.v[d] = d == at ? rank - 1 : d == rank - 1 ? at : d;
    bool last = at == rank - 1;
    int dy = last ? vjp->dy[0] : zt_build_transpose(emit, vjp->dy[0], &swap);
    int groups = zt_build_group(emit, dy, &(zt_group_attrs){attrs->times});
    int sum = zt_build_sum(emit, groups, &(zt_sum_attrs){{1, {-1}}, 0});
    vjp->dx[0] = last ? sum : zt_build_transpose(emit, sum, &swap);
}

const zt_opdef zt_op_repeat = {
    .synopsis = "y[...,i,...] = x[...,i / times,...] along `axis` (negative: from the end): each "
                "entry is repeated `times` times; any but block types, y has the type of x",
    .n_required = 1,
    .infer = repeat_infer,
    .ref = repeat_ref,
    .flops = zt_row_no_flops,
    .cases = repeat_cases,
    .vjp = repeat_vjp,
};
