/* pad.c - rows of the ops that add entries at the ends of axes. */
#include "lib/ops/pad.h"
#include "lib/ops/vjp.h"

#include <math.h>
#include <string.h>

/* ---- pad, pad_back --------------------------------------------------------------------------- */

typedef zt_pad_attrs pad_attrs; /* pad_back's begin with the same three */

static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};

static zt_status pad_type(zt_ctx *ctx, const zt_ints *before, const zt_ints *after, const zt_enum_string *mode, const zt_type *x,
                          zt_type *y)
{
    zt_status status = zt_row_word(ctx, "mode", mode, modes, ZT_LEN(modes));
    if (status) return status;
    if ((before->n != 0 && before->n != x->rank) || (after->n != 0 && after->n != x->rank))
        return zt_row_fail(ctx, ZT_ESHAPE, "before and after have %lld and %lld entries, expected %d (dimensions)",
                           (long long)before->n, (long long)after->n, x->rank);
    *y = *x;
    for (int d = 0; d < x->rank; d++) {
        int64_t b = zt_pad_at(before, d), a = zt_pad_at(after, d), n = x->dim[d];
        bool counts = n < INT64_MAX / 4 && b < INT64_MAX / 4 && a < INT64_MAX / 4;
        if (!counts || b < -n || a < -n || n + b + a < 0)
            return zt_row_fail(ctx, ZT_ESHAPE, "%lld entries cannot be padded by %lld and %lld", (long long)n, (long long)b,
                               (long long)a);
        y->dim[d] = n + b + a;
        if (n == 0 && y->dim[d] > 0 && mode->s[0] != 'c')
            return zt_row_fail(ctx, ZT_ESHAPE, "dimension %d is empty: this mode needs an entry to pad with", d);
    }
    return ZT_OK;
}

static zt_status pad_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const pad_attrs *a = attrs;
    zt_status status = zt_row_want_plain(ctx, "x", in[0]);
    return status ? status : pad_type(ctx, &a->before, &a->after, &a->mode, in[0], &out[0]);
}

/* Where in x element i of y comes from; -1: nowhere. */
static int64_t pad_source(const zt_ints *before, char mode, const zt_type *x, const zt_type *y, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        int64_t k = zt_pad_source(mode, i % y->dim[d] - zt_pad_at(before, d), x->dim[d]);
        if (k < 0) return -1;
        at += k * step;
        step *= x->dim[d];
        i /= y->dim[d];
    }
    return at;
}

static void pad_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const pad_attrs *a = attrs;
    zt_dtype dtype = out->type->dtype;
    int64_t whole = fabs(a->value) < 0x1p63 ? (int64_t)a->value : 0; /* what no integer is: 0 */
    (void)error;
    whole = dtype == ZT_BOOL ? a->value != 0 : zt_row_wrap(dtype, (uint64_t)whole);
    for (int64_t i = 0, n = zt_type_count(out->type); i < n; i++) {
        int64_t from = pad_source(&a->before, a->mode.s[0], in->type, out->type, i);
        if (from >= 0)
            zt_row_move(&in[0], from, &out[0], i);
        else if (out->f)
            out->f[i] = a->value;
        else
            out->i[i] = whole;
    }
}

static bool pad_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        zt_ints before, after;
        const char *mode;
        double value;
    } rows[] = {
        {{ZT_F32, 1, {5}}, {1, {2}}, {1, {3}}, "constant", 0.5},
        {{ZT_F32, 2, {3, 33}}, {2, {1, 0}}, {2, {0, 2}}, "constant", 0},
        {{ZT_F32, 2, {5, 7}}, {2, {-1, 2}}, {2, {2, -3}}, "constant", -1},
        {{ZT_F32, 3, {2, 3, 5}}, {0, {0}}, {3, {1, 1, 1}}, "constant", 0},
        {{ZT_F32, 2, {5, 7}}, {2, {2, 3}}, {2, {1, 6}}, "reflect", 0},
        {{ZT_F32, 1, {3}}, {1, {7}}, {1, {9}}, "reflect", 0},
        {{ZT_F32, 1, {1}}, {1, {2}}, {1, {2}}, "reflect", 0},
        {{ZT_F32, 2, {5, 7}}, {2, {2, 3}}, {2, {1, 6}}, "edge", 0},
        {{ZT_F32, 2, {5, 7}}, {2, {-2, 3}}, {2, {1, -2}}, "edge", 0},
        {{ZT_F32, 2, {5, 7}}, {2, {2, 9}}, {2, {1, 8}}, "wrap", 0},
        {{ZT_F32, 2, {0, 4}}, {2, {0, 1}}, {2, {0, 1}}, "edge", 0},
        {{ZT_F32, 2, {0, 4}}, {2, {2, 0}}, {0, {0}}, "constant", 3},
        {{ZT_F32, 0, {0}}, {0, {0}}, {0, {0}}, "wrap", 0},
        {{ZT_F32, 4, {2, 3, 28, 28}}, {4, {0, 0, 1, 1}}, {4, {0, 0, 1, 1}}, "constant", 0},
        {{ZT_F32, 4, {2, 3, 28, 28}}, {4, {0, 0, 3, 3}}, {4, {0, 0, 3, 3}}, "reflect", 0},
        {{ZT_F16, 2, {3, 5}}, {2, {1, 1}}, {2, {1, 1}}, "edge", 0},
        {{ZT_F64, 1, {5}}, {1, {1}}, {1, {1}}, "wrap", 0},
        {{ZT_I32, 2, {3, 5}}, {2, {1, 1}}, {2, {0, 1}}, "constant", 7},
        {{ZT_U8, 1, {5}}, {1, {1}}, {1, {2}}, "constant", 9},
        {{ZT_BOOL, 1, {5}}, {1, {1}}, {1, {2}}, "reflect", 0},
    };
    if (i >= ZT_LEN(rows)) return false;
    pad_attrs a = {rows[i].before, rows[i].after, {{0}}, rows[i].value};
    memcpy(a.mode.s, rows[i].mode, strlen(rows[i].mode));
    zt_case_attrs(test_case, &a, sizeof a);
    zt_case_plain_in(test_case, 0, ZT_FILL_NORMAL, 100, &rows[i].x);
    return true;
}

static zt_ints negated_pads(const zt_ints *pads)
{
    zt_ints y = {pads->n, {0}};
    for (int d = 0; d < pads->n; d++) y.v[d] = -pads->v[d];
    return y;
}

static void pad_vjp(zt_vjp *vjp)
{
    const pad_attrs *a = vjp->attrs;
    pad_attrs cut = {negated_pads(&a->before), negated_pads(&a->after), a->mode, 0};
    zt_pad_back_attrs back = {a->before, a->after, a->mode};
    vjp->dx[0] = a->mode.s[0] == 'c' ? zt_build_pad(vjp->emit, vjp->dy[0], &cut)
                                     : zt_build_pad_back(vjp->emit, vjp->dy[0], vjp->in[0], &back);
}

const zt_opdef zt_op_pad = {
    .synopsis = "y = x with `before` and `after` entries added at the ends of each dimension "
                "(negative: removed); mode=constant: `value`; reflect: mirrored at the edge, which "
                "is not repeated; edge: the edge repeated; wrap: circular, from the other end. Any "
                "but block types",
    .n_required = 1,
    .infer = pad_infer,
    .ref = pad_ref,
    .flops = zt_row_no_flops,
    .cases = pad_cases,
    .vjp = pad_vjp,
};

static zt_status pad_back_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_pad_back_attrs *pad_back = attrs;
    zt_type padded = *in[0];
    out[0] = *in[1];
    out[0].dtype = in[0]->dtype;
    zt_status status = zt_row_want_float(ctx, "dy", in[0]);
    if (!status) status = pad_type(ctx, &pad_back->before, &pad_back->after, &pad_back->mode, &out[0], &padded);
    if (status || zt_type_equal(&padded, in[0])) return status;
    return zt_row_fail(ctx, ZT_ESHAPE, "dy does not have the shape of like with this padding");
}

static void pad_back_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_pad_back_attrs *pad_back = attrs;
    (void)error;
    for (int64_t i = 0, n = zt_type_count(out->type); i < n; i++) out->f[i] = 0;
    for (int64_t i = 0, n = zt_type_count(in->type); i < n; i++) {
        int64_t at = pad_source(&pad_back->before, pad_back->mode.s[0], out->type, in->type, i);
        if (at >= 0) out->f[at] += in->f[i];
    }
}

static bool pad_back_cases(int i, zt_case *test_case)
{
    static const int floats = 17; /* pad's cases that are of floats */
    if (i >= floats || !pad_cases(i, test_case)) return false;
    pad_attrs a;
    memcpy(&a, test_case->attrs, sizeof a);
    zt_pad_back_attrs back = {a.before, a.after, a.mode};
    memset(test_case->attrs, 0, sizeof test_case->attrs);
    zt_case_attrs(test_case, &back, sizeof back);
    test_case->in[1] = test_case->in[0];
    test_case->fill[1] = ZT_FILL_ZERO;
    return !pad_type(NULL, &a.before, &a.after, &a.mode, &test_case->in[1], &test_case->in[0]);
}

static void pad_back_vjp(zt_vjp *vjp)
{
    const zt_pad_back_attrs *attrs = vjp->attrs;
    vjp->dx[0] = zt_build_pad(vjp->emit, vjp->dy[0], &(pad_attrs){attrs->before, attrs->after, attrs->mode, 0});
}

const zt_opdef zt_op_pad_back = {
    .synopsis = "dx: the gradient of pad; dx has the shape of like; each entry is the sum of dy over "
                "its copies; any plain float type",
    .n_required = 2,
    .infer = pad_back_infer,
    .ref = pad_back_ref,
    .flops = zt_row_in_flops,
    .cases = pad_back_cases,
    .vjp = pad_back_vjp,
    .constant = 2,
};
