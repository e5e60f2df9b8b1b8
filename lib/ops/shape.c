/* shape.c - rows of the ops that only look at the same bytes in another way. */
#include "lib/ops/row.h"

#include <string.h>

static zt_status reshape_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                               zt_type out[])
{
    const zt_reshape_attrs *a = attrs;
    if (a->shape.n < 0 || a->shape.n > ZT_MAX_RANK)
        return zt_row_fail(ctx, ZT_EUSAGE, "shape has %lld dimensions, at most %d are possible",
                           (long long)a->shape.n, ZT_MAX_RANK);
    int64_t count = 1;
    bool empty = false;
    for (int64_t d = 0; d < a->shape.n; d++) {
        if (a->shape.dim[d] < 0)
            return zt_row_fail(ctx, ZT_ESHAPE, "dimension %lld of shape is negative", (long long)d);
        if (a->shape.dim[d] == 0)
            empty = true;
        else if (!zt_mul_i64(count, a->shape.dim[d], &count))
            return zt_row_fail(ctx, ZT_ESHAPE, "the elements of shape cannot be counted");
    }
    if (empty) count = 0;
    if (count != zt_type_count(in[0]))
        return zt_row_fail(ctx, ZT_ESHAPE, "shape has %lld elements, x %lld", (long long)count,
                           (long long)zt_type_count(in[0]));
    out[0] = zt_type_make(in[0]->dtype, (int)a->shape.n, a->shape.dim);
    return ZT_OK;
}

static void reshape_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)
{
    (void)attrs, (void)t;
    size_t bytes = (size_t)zt_type_count(out->type) * sizeof(double);
    if (out[0].f)
        memmove(out[0].f, in[0].f, bytes);
    else
        memmove(out[0].i, in[0].i, bytes);
}

static double reshape_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in, (void)out;
    return 0;
}

static bool reshape_cases(int i, zt_case *c)
{
    static const struct {
        zt_case_type x;
        zt_dims shape;
    } rows[] = {
        {{ZT_F32, 2, {4, 6}}, {3, {2, 3, 4}}}, {{ZT_F32, 3, {2, 3, 4}}, {1, {24}}},
        {{ZT_F32, 1, {1}}, {0, {0}}},          {{ZT_F32, 2, {0, 6}}, {3, {3, 0, 5}}},
        {{ZT_F16, 2, {3, 33}}, {1, {99}}},     {{ZT_I32, 1, {12}}, {2, {3, 4}}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_reshape_attrs a = {.shape = rows[i].shape};
    zt_case_attrs(c, &a, sizeof a);
    zt_case_type_in(c, 0, rows[i].x.dtype == ZT_I32 ? ZT_FILL_IDS : ZT_FILL_NORMAL, &rows[i].x);
    c->limit[0] = 1000;
    return true;
}

const zt_opdef zt_op_reshape = {
    .synopsis = "y has x's elements in row-major order under another shape of as many; a view",
    .n_required = 1,
    .flags = ZT_OPF_VIEW,
    .infer = reshape_infer,
    .ref = reshape_ref,
    .flops = reshape_flops,
    .cases = reshape_cases,
};
