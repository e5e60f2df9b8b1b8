/* elementwise_logic.c - rows of logic (0 is false, all else true), and of where. */
#include "lib/ops/loops.h"

/* ---- logic ----------------------------------------------------------------------------------- */

TEST(logical_and, "y = (a != 0 and b != 0)", a != 0 && b != 0, ZT_OPF_COMMUTATIVE, false)
TEST(logical_or, "y = (a != 0 or b != 0)", a != 0 || b != 0, ZT_OPF_COMMUTATIVE, false)
TEST(logical_xor, "y = ((a != 0) != (b != 0))", (a != 0) != (b != 0), ZT_OPF_COMMUTATIVE, false)

static zt_status logical_not_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    (void)attrs;
    out[0] = zt_type_make(ZT_BOOL, in[0]->rank, in[0]->dim);
    if (zt_dtype_get(in[0]->dtype)->kind != 'Q') return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "x is of a block type");
}

static void logical_not_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    int64_t count = zt_type_count(out[0].type);
    (void)attrs, (void)error;
    for (int64_t i = 0; i < count; i++) out[0].i[i] = in[0].f ? in[0].f[i] == 0 : in[0].i[i] == 0;
}

static bool logical_not_cases(int i, zt_case *test_case) { return zt_pairs_first(zt_pairs_compared(i, test_case), test_case); }

const zt_opdef zt_op_logical_not = {
    .synopsis = "y[i] = (x[i] == 0); any but block types, y bool",
    .n_required = 1,
    .flags = ZT_OPF_ELEMENTWISE,
    .infer = logical_not_infer,
    .ref = logical_not_ref,
    .cases = logical_not_cases,
};

/* ---- where ----------------------------------------------------------------------------------- */

static zt_status where_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_type both;
    (void)attrs;
    if (zt_dtype_get(in[0]->dtype)->kind == 'Q') return zt_row_fail(ctx, ZT_ESHAPE, "c is of a block type");
    zt_status status = zt_infer_one_dtype(ctx, in + 1);
    if (!status) status = zt_row_broadcast(ctx, in[1], in[2], &both);
    if (!status) status = zt_row_broadcast(ctx, in[0], &both, &out[0]);
    out[0].dtype = in[1]->dtype;
    return status;
}

static void where_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    int64_t count = zt_type_count(out[0].type);
    broadcast_steps steps = broadcast_start(in, 3, out[0].type);
    (void)attrs, (void)error;
    for (int64_t i = 0; i < count; i++, broadcast_next(&steps)) {
        bool c = in[0].f ? in[0].f[steps.at[0]] != 0 : in[0].i[steps.at[0]] != 0;
        const zt_arg *from = &in[c ? 1 : 2];
        int64_t at = steps.at[c ? 1 : 2];
        if (out[0].f)
            out[0].f[i] = from->f[at];
        else
            out[0].i[i] = from->i[at];
    }
}

static bool where_cases(int i, zt_case *test_case)
{
    static const zt_case_type rows[][3] = {
        {{ZT_BOOL, 2, {2, 33}}, {ZT_F32, 2, {2, 33}}, {ZT_F32, 2, {2, 33}}},
        {{ZT_BOOL, 1, {33}}, {ZT_F32, 2, {5, 1}}, {ZT_F32, 0, {0}}},
        {{ZT_BOOL, 3, {3, 1, 4}}, {ZT_F32, 2, {2, 1}}, {ZT_F32, 1, {4}}},
        {{ZT_BOOL, 1, {3000}}, {ZT_F32, 1, {3000}}, {ZT_F32, 1, {1}}},
        {{ZT_I32, 1, {7}}, {ZT_I64, 1, {7}}, {ZT_I64, 1, {7}}},
        {{ZT_BOOL, 2, {0, 4}}, {ZT_F32, 1, {4}}, {ZT_F32, 1, {4}}},
        {{ZT_BOOL, 1, {33}}, {ZT_F16, 1, {33}}, {ZT_F16, 1, {33}}},
        {{ZT_BOOL, 1, {33}}, {ZT_U8, 1, {33}}, {ZT_U8, 0, {0}}},
    };
    if (i >= ZT_LEN(rows)) return false;
    for (int k = 0; k < 3; k++) {
        bool real = zt_dtype_is_float(rows[i][k].dtype);
        zt_case_type_in(test_case, k, real ? ZT_FILL_NORMAL : ZT_FILL_IDS, &rows[i][k]);
        test_case->limit[k] = k ? 100 : 2;
    }
    return true;
}

static void where_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    int zero = zt_build_fill_like(emit, vjp->dy[0], &(zt_fill_like_attrs){0});
    if (vjp->want[1]) vjp->dx[1] = zt_build_reduced(emit, zt_build_where(emit, vjp->in[0], vjp->dy[0], zero), vjp->in[1]);
    if (vjp->want[2]) vjp->dx[2] = zt_build_reduced(emit, zt_build_where(emit, vjp->in[0], zero, vjp->dy[0]), vjp->in[2]);
}

const zt_opdef zt_op_where = {
    .synopsis = "y = a where c is not 0, else b; shapes broadcast as in NumPy; a, b and y of the "
                "same type, c of any type; any but block types",
    .n_required = 3,
    .flags = ZT_OPF_ELEMENTWISE,
    .infer = where_infer,
    .ref = where_ref,
    .cases = where_cases,
    .vjp = where_vjp,
    .constant = 1,
};
