/* index_elements.c - rows of the ops that take or add single elements at indices. An index out of
 * range is an error; oob=zero: it reads 0, and adds nothing.
 */
#include "lib/ops/vjp.h"

static const char *const oob_words[] = {"error", "zero"};

/* Both ops' attributes. */
typedef zt_gather_elements_attrs element_attrs;

static bool is_error(const zt_enum_string *oob) { return oob->s[0] == 'e'; }

/* i has x's rank, and no dimension but the axis is larger than x's. */
static zt_status elements_infer(zt_ctx *ctx, const element_attrs *a, const zt_type *x, const zt_type *i)
{
    zt_status status = zt_row_word(ctx, "oob", &a->oob, oob_words, ZT_LEN(oob_words));
    if (!status) status = zt_row_want_index(ctx, "i", i, x->rank);
    if (status) return status;
    if (a->axis < -x->rank || a->axis >= x->rank)
        return zt_row_fail(ctx, ZT_ESHAPE, "axis %lld is out of range for %d dimensions", (long long)a->axis, x->rank);
    int at = (int)(a->axis < 0 ? a->axis + x->rank : a->axis);
    for (int d = 0; d < x->rank; d++)
        if (d != at && i->dim[d] > x->dim[d])
            return zt_row_fail(ctx, ZT_ESHAPE, "i has %lld entries along axis %d, but x has %lld", (long long)i->dim[d], d,
                               (long long)x->dim[d]);
    return ZT_OK;
}

/* The element of x that belongs to the e-th index, or -1. */
static int64_t element_of(const element_attrs *a, const zt_type *x, const zt_arg *i, int64_t e, zt_runtime_error *error)
{
    int at = (int)(a->axis < 0 ? a->axis + x->rank : a->axis);
    int64_t index = i->i[e], place = 0, step = 1;
    if (index < 0 || index >= x->dim[at]) {
        if (is_error(&a->oob)) zt_row_runtime_error(error, "index", index, x->dim[at]);
        return -1;
    }
    for (int d = x->rank - 1; d >= 0; d--) {
        place += (d == at ? index : e % i->type->dim[d]) * step;
        step *= x->dim[d];
        e /= i->type->dim[d];
    }
    return place;
}

static const struct {
    zt_case_type x, i;
    element_attrs a; /* axis, oob */
    int64_t limit;
} element_rows[] = {
    {{ZT_F32, 1, {7}}, {ZT_I32, 1, {5}}, {0, {"error"}}, 7},
    {{ZT_F32, 2, {4, 33}}, {ZT_I32, 2, {4, 3}}, {1, {"error"}}, 33},
    {{ZT_F32, 3, {3, 4, 5}}, {ZT_I32, 3, {3, 1, 5}}, {-2, {"error"}}, 4},
    {{ZT_F32, 3, {3, 4, 5}}, {ZT_I32, 3, {9, 2, 3}}, {0, {"error"}}, 3},
    {{ZT_F32, 2, {4, 6}}, {ZT_I32, 2, {4, 8}}, {1, {"zero"}}, 9},
    {{ZT_F32, 2, {4, 6}}, {ZT_I32, 2, {0, 8}}, {1, {"error"}}, 6},
    {{ZT_F32, 2, {65, 100}}, {ZT_I32, 2, {60, 100}}, {0, {"zero"}}, 70},
    {{ZT_F64, 2, {4, 6}}, {ZT_I32, 2, {4, 2}}, {1, {"error"}}, 6},
    {{ZT_F16, 2, {4, 6}}, {ZT_I32, 2, {4, 2}}, {1, {"error"}}, 6},
    {{ZT_I64, 2, {4, 6}}, {ZT_I32, 2, {4, 9}}, {1, {"error"}}, 6},
    {{ZT_U8, 2, {4, 6}}, {ZT_I32, 2, {9, 2}}, {0, {"error"}}, 4},
    {{ZT_F32, 2, {4, 6}}, {ZT_I64, 2, {4, 8}}, {1, {"zero"}}, 9},
};

static bool gather_elements_cases(int i, zt_case *test_case)
{
    if (i >= ZT_LEN(element_rows)) return false;
    zt_case_attrs(test_case, &element_rows[i].a, sizeof element_rows[i].a);
    bool floats = zt_dtype_is_float(element_rows[i].x.dtype);
    zt_case_type_in(test_case, 0, floats ? ZT_FILL_NORMAL : ZT_FILL_IDS, &element_rows[i].x);
    test_case->limit[0] = 200;
    zt_case_type_in(test_case, 1, ZT_FILL_IDS, &element_rows[i].i);
    test_case->limit[1] = element_rows[i].limit;
    return true;
}

/* ---- gather_elements ------------------------------------------------------------------------- */

static zt_status gather_elements_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_status status = zt_row_want_plain(ctx, "x", in[0]);
    out[0] = zt_type_make(in[0]->dtype, in[1]->rank, in[1]->dim);
    return status ? status : elements_infer(ctx, attrs, in[0], in[1]);
}

static void gather_elements_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    int64_t count = zt_type_count(in[1].type);
    for (int64_t e = 0; e < count; e++) {
        int64_t from = element_of(attrs, in[0].type, &in[1], e, error);
        if (from < 0)
            zt_row_zero(&out[0], e);
        else
            zt_row_move(&in[0], from, &out[0], e);
    }
}

static void gather_elements_vjp(zt_vjp *vjp)
{
    const element_attrs *a = vjp->attrs;
    int zero = zt_build_fill_like(vjp->emit, vjp->in[0], &(zt_fill_like_attrs){0});
    vjp->dx[0] =
        zt_build_scatter_add_elements(vjp->emit, zero, vjp->in[1], vjp->dy[0], &(zt_scatter_add_elements_attrs){a->axis, a->oob});
}

const zt_opdef zt_op_gather_elements = {
    .synopsis = "y[...,j,...] = x[...,i[...,j,...],...] along `axis` (negative: from the end); x any "
                "but block types; i i32 or i64 of the rank of x, no larger than x except along the axis; an "
                "index out of range is an error, or with oob=zero reads 0",
    .n_required = 2,
    .infer = gather_elements_infer,
    .ref = gather_elements_ref,
    .bytes = zt_row_picked_bytes,
    .cases = gather_elements_cases,
    .vjp = gather_elements_vjp,
};

/* ---- scatter_add_elements -------------------------------------------------------------------- */

static zt_status scatter_add_elements_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_status status = gather_elements_infer(ctx, attrs, in, out);
    if (!status && zt_dtype_get(in[0]->dtype)->kind == 'B')
        status = zt_row_fail(ctx, ZT_ESHAPE, "x is bool: must be a plain float or integer type");
    if (status) return status;
    if (!zt_type_equal(&out[0], in[2])) return zt_row_fail(ctx, ZT_ESHAPE, "y must have the dtype of x and the shape of i");
    out[0] = *in[0];
    return ZT_OK;
}

static void scatter_add_elements_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    int64_t count = zt_type_count(in[1].type);
    for (int64_t e = 0; e < zt_type_count(in[0].type); e++) zt_row_move(&in[0], e, &out[0], e);
    for (int64_t e = 0; e < count; e++) {
        int64_t to = element_of(attrs, in[0].type, &in[1], e, error);
        if (to < 0) continue;
        if (out[0].f)
            out[0].f[to] += in[2].f[e];
        else
            out[0].i[to] = zt_row_wrap(out[0].type->dtype, (uint64_t)out[0].i[to] + (uint64_t)in[2].i[e]);
    }
}

static double scatter_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)out;
    return (double)zt_type_count(in[2]);
}

static bool scatter_add_elements_cases(int i, zt_case *test_case)
{
    if (!gather_elements_cases(i, test_case)) return false;
    test_case->in[2] = zt_type_make(test_case->in[0].dtype, test_case->in[1].rank, test_case->in[1].dim);
    test_case->fill[2] = test_case->fill[0];
    test_case->limit[2] = 200;
    return true;
}

static void scatter_add_elements_vjp(zt_vjp *vjp)
{
    const element_attrs *a = vjp->attrs;
    vjp->dx[0] = vjp->dy[0];
    if (vjp->want[2])
        vjp->dx[2] = zt_build_gather_elements(vjp->emit, vjp->dy[0], vjp->in[1], &(zt_gather_elements_attrs){a->axis, a->oob});
}

const zt_opdef zt_op_scatter_add_elements = {
    .synopsis = "z = x with z[...,i[...,j,...],...] += y[...,j,...] along `axis` (negative: from the "
                "end), in the order of i; shapes as in gather_elements, y of the shape of i; an "
                "index out of range is an error, or with oob=zero adds nothing",
    .n_required = 3,
    .flags = ZT_OPF_SUMS,
    .infer = scatter_add_elements_infer,
    .ref = scatter_add_elements_ref,
    .flops = scatter_flops,
    .cases = scatter_add_elements_cases,
    .vjp = scatter_add_elements_vjp,
};
