/* index.c - rows of the ops that read or write rows at places given as data, and of one_hot. */
#include "lib/ops/vjp.h"

#include <string.h>

/* An index out of range is an error, or (zero) reads 0 and adds nothing. */
static const char *const oob_words[] = {"error", "zero"};

static bool is_error(const zt_enum_string *oob) { return oob->s[0] == 'e'; }

/* ---- gather ---------------------------------------------------------------------------------- */

static zt_status gather_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_gather_attrs *gather = attrs;
    if (zt_row_word(ctx, "oob", &gather->oob, oob_words, ZT_LEN(oob_words))) return ZT_EUSAGE;
    char kind = zt_dtype_get(in[0]->dtype)->kind;
    bool integers = kind == 'I' || kind == 'U';
    if ((!zt_dtype_is_float(in[0]->dtype) && !integers) || in[0]->rank != 2)
        return zt_row_fail(ctx, ZT_ESHAPE, "x must be a matrix of a float, block or integer type");
    zt_status status = zt_row_want_index(ctx, "i", in[1], -1);
    if (status) return status;
    if (in[1]->rank == ZT_MAX_RANK) return zt_row_fail(ctx, ZT_ESHAPE, "i has %d dimensions: one too many for y", ZT_MAX_RANK);
    out[0] = *in[1];
    out[0].dtype = integers ? in[0]->dtype : ZT_F32;
    out[0].dim[out[0].rank++] = in[0]->dim[1];
    return ZT_OK;
}

static void gather_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    int64_t N = in[0].type->dim[0], K = in[0].type->dim[1], n = zt_type_count(in[1].type);
    for (int64_t r = 0; r < n; r++) {
        int64_t i = in[1].i[r];
        bool good = i >= 0 && i < N;
        if (!good && is_error(&((const zt_gather_attrs *)attrs)->oob)) zt_row_runtime_error(error, "index", i, N);
        for (int64_t k = 0; k < K && out[0].f; k++) out[0].f[r * K + k] = good ? in[0].f[i * K + k] : 0;
        for (int64_t k = 0; k < K && out[0].i; k++) out[0].i[r * K + k] = good ? in[0].i[i * K + k] : 0;
    }
}

/* Of 40 indices some are past the end. */
static void case_out_of_range(zt_case *test_case, int n_alike)
{
    zt_gather_attrs a = {{"zero"}};
    zt_case_attrs(test_case, &a, sizeof a);
    test_case->limit[1] += 3;
    for (int k = 1; k <= n_alike; k++) test_case->in[k].dim[0] = 40;
}

static bool gather_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_dtype x;
        int64_t N, K;
        int rank;
        int64_t dim[2];
    } rows[] = {
        {ZT_F32, 5, 33, 1, {2}},       {ZT_F32, 100, 576, 1, {65}},  {ZT_F32, 3, 7, 0, {0}},        {ZT_F32, 9, 16, 2, {3, 2}},
        {ZT_F32, 5, 8, 1, {0}},        {ZT_F16, 40, 33, 1, {7}},     {ZT_BF16, 40, 33, 1, {7}},     {ZT_F64, 40, 33, 1, {7}},
        {ZT_Q4_0, 40, 64, 1, {7}},     {ZT_Q4_1, 40, 64, 1, {7}},    {ZT_Q5_0, 40, 64, 1, {7}},     {ZT_Q5_1, 40, 96, 1, {7}},
        {ZT_Q8_0, 100, 576, 1, {9}},   {ZT_Q4_K, 17, 512, 1, {9}},   {ZT_Q5_K, 17, 256, 1, {9}},    {ZT_Q6_K, 33, 256, 1, {9}},
        {ZT_Q2_K, 33, 256, 1, {9}},    {ZT_Q3_K, 33, 256, 1, {9}},   {ZT_IQ4_XS, 33, 256, 1, {9}},  {ZT_IQ4_NL, 40, 64, 1, {9}},
        {ZT_MXFP4, 40, 64, 1, {9}},    {ZT_NVFP4, 40, 64, 1, {9}},   {ZT_Q1_0, 40, 128, 1, {9}},    {ZT_Q2_0, 40, 64, 1, {9}},
        {ZT_TQ1_0, 17, 256, 1, {9}},   {ZT_TQ2_0, 17, 256, 1, {9}},  {ZT_IQ3_XXS, 17, 256, 1, {9}}, {ZT_IQ3_S, 17, 512, 1, {9}},
        {ZT_IQ2_XXS, 17, 256, 1, {9}}, {ZT_IQ2_XS, 17, 256, 1, {9}}, {ZT_IQ2_S, 17, 256, 1, {9}},   {ZT_IQ1_S, 17, 256, 1, {9}},
        {ZT_IQ1_M, 17, 512, 1, {9}},   {ZT_IQ2_K, 17, 256, 1, {9}},  {ZT_IQ3_K, 17, 256, 1, {9}},   {ZT_IQ4_K, 17, 512, 1, {9}},
        {ZT_IQ5_K, 17, 256, 1, {9}},   {ZT_IQ6_K, 17, 256, 1, {9}},  {ZT_I32, 40, 33, 1, {7}},      {ZT_I64, 9, 16, 2, {3, 2}},
        {ZT_U8, 40, 33, 1, {7}},       {ZT_U64, 5, 3, 0, {0}},       {ZT_I8, 40, 5, 1, {7}},        {ZT_I16, 40, 5, 1, {7}},
        {ZT_U16, 40, 5, 1, {7}},       {ZT_U32, 40, 5, 1, {7}},
    };
    bool zero = i == ZT_LEN(rows);     /* the first once more, with indices out of range */
    bool wide = i == ZT_LEN(rows) + 1; /* and with indices of i64 */
    if (i > ZT_LEN(rows) + 1) return false;
    if (zero || wide) i = 0;
    bool floats = zt_dtype_is_float(rows[i].x);
    zt_case_in(test_case, 0, floats ? ZT_FILL_NORMAL : ZT_FILL_IDS, 120, rows[i].x, 2, (int64_t[]){rows[i].N, rows[i].K});
    zt_case_in(test_case, 1, ZT_FILL_IDS, rows[i].N, wide ? ZT_I64 : ZT_I32, rows[i].rank, rows[i].dim);
    if (zero) case_out_of_range(test_case, 1);
    return true;
}

static void gather_vjp(zt_vjp *vjp)
{
    int zero = zt_build_fill_like(vjp->emit, vjp->in[0], &(zt_fill_like_attrs){0});
    int dy = zt_build_as(vjp->emit, vjp->dy[0], zero);
    const zt_gather_attrs *attrs = vjp->attrs;
    vjp->dx[0] = zt_build_scatter_add(vjp->emit, zero, vjp->in[1], dy, &(zt_scatter_add_attrs){attrs->oob});
}

const zt_opdef zt_op_gather = {
    .synopsis =
        "y[...,k] = x[i[...],k]; x any float, block or integer type [N,K], i i32 or i64 [...], y f32[...,K], or of x's integer type; "
        "an index out of range is an error, or with oob=zero reads 0",
    .n_required = 2,
    .infer = gather_infer,
    .ref = gather_ref,
    .bytes = zt_row_picked_bytes,
    .cases = gather_cases,
    .vjp = gather_vjp,
};

/* ---- scatter_add: what gather's gradient is -------------------------------------------------- */

static zt_status scatter_add_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_type *x = in[0], *i = in[1], *y = in[2];
    const zt_scatter_add_attrs *scatter_add = attrs;
    zt_status status = zt_row_word(ctx, "oob", &scatter_add->oob, oob_words, ZT_LEN(oob_words));
    if (!status) status = zt_row_want_float(ctx, "x", x);
    if (!status) status = zt_row_want_index(ctx, "i", i, -1);
    if (status) return status;
    if (x->rank != 2) return zt_row_fail(ctx, ZT_ESHAPE, "x must be a matrix");
    bool fits = y->dtype == x->dtype && y->rank == i->rank + 1 && zt_row_cols(y) == x->dim[1];
    for (int d = 0; d < i->rank && fits; d++) fits = y->dim[d] == i->dim[d];
    if (!fits) return zt_row_fail(ctx, ZT_ESHAPE, "y must have one row of x for each index");
    out[0] = *x;
    return ZT_OK;
}

static void scatter_add_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    int64_t N = in[0].type->dim[0], K = in[0].type->dim[1], n = zt_type_count(in[1].type);
    memmove(out[0].f, in[0].f, (size_t)(N * K) * sizeof(double));
    for (int64_t r = 0; r < n; r++) {
        int64_t i = in[1].i[r];
        if (i < 0 || i >= N) {
            if (is_error(&((const zt_scatter_add_attrs *)attrs)->oob)) zt_row_runtime_error(error, "index", i, N);
            continue;
        }
        for (int64_t k = 0; k < K; k++) out[0].f[i * K + k] += in[2].f[r * K + k];
    }
}

static double scatter_add_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)out;
    return (double)zt_type_count(in[2]);
}

static bool scatter_add_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_dtype x;
        int64_t N, K;
        int rank;
        int64_t dim[3];
    } rows[] = {
        {ZT_F32, 5, 33, 1, {2}}, {ZT_F32, 3, 7, 1, {65}}, {ZT_F32, 3, 7, 0, {0}}, {ZT_F32, 9, 16, 2, {3, 2}},
        {ZT_F32, 5, 8, 1, {0}},  {ZT_F32, 3, 0, 1, {4}},  {ZT_F64, 4, 5, 1, {7}}, {ZT_F16, 40, 33, 1, {7}},
    };
    bool zero = i == ZT_LEN(rows);     /* the first once more, with indices out of range */
    bool wide = i == ZT_LEN(rows) + 1; /* and with indices of i64 */
    if (i > ZT_LEN(rows) + 1) return false;
    if (zero || wide) i = 0;
    int64_t dim[4] = {0};
    memcpy(dim, rows[i].dim, sizeof rows[i].dim);
    dim[rows[i].rank] = rows[i].K;
    zt_case_in(test_case, 0, ZT_FILL_NORMAL, 0, rows[i].x, 2, (int64_t[]){rows[i].N, rows[i].K});
    zt_case_in(test_case, 1, ZT_FILL_IDS, rows[i].N, wide ? ZT_I64 : ZT_I32, rows[i].rank, rows[i].dim);
    zt_case_in(test_case, 2, ZT_FILL_NORMAL, 0, rows[i].x, rows[i].rank + 1, dim);
    if (zero) case_out_of_range(test_case, 2);
    return true;
}

static void scatter_add_vjp(zt_vjp *vjp)
{
    vjp->dx[0] = vjp->dy[0];
    const zt_gather_attrs back = {((const zt_scatter_add_attrs *)vjp->attrs)->oob};
    if (!vjp->want[2]) return;
    vjp->dx[2] = zt_build_as(vjp->emit, zt_build_gather(vjp->emit, vjp->dy[0], vjp->in[1], &back), vjp->in[2]);
}

const zt_opdef zt_op_scatter_add = {
    .synopsis = "z = x with z[i[...],k] += y[...,k], in the order of i; x[N,K], y and z of the same "
                "plain float type, i i32 or i64; an index out of range is an error, or with oob=zero adds "
                "nothing",
    .n_required = 3,
    .flags = ZT_OPF_SUMS,
    .infer = scatter_add_infer,
    .ref = scatter_add_ref,
    .flops = scatter_add_flops,
    .cases = scatter_add_cases,
    .vjp = scatter_add_vjp,
};

/* ---- one_hot --------------------------------------------------------------------------------- */

static zt_status one_hot_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_one_hot_attrs *one_hot = attrs;
    zt_status status = zt_row_word(ctx, "oob", &one_hot->oob, oob_words, ZT_LEN(oob_words));
    if (!status) status = zt_row_want_index(ctx, "i", in[0], -1);
    if (status) return status;
    if (one_hot->depth < 0) return zt_row_fail(ctx, ZT_EUSAGE, "depth is %lld: must be nonnegative", (long long)one_hot->depth);
    if (in[0]->rank == ZT_MAX_RANK) return zt_row_fail(ctx, ZT_ESHAPE, "i has %d dimensions: one too many for y", ZT_MAX_RANK);
    out[0] = zt_type_make(ZT_F32, in[0]->rank, in[0]->dim);
    out[0].dim[out[0].rank++] = one_hot->depth;
    return ZT_OK;
}

static void one_hot_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_one_hot_attrs *one_hot = attrs;
    int64_t count = zt_type_count(in[0].type);
    memset(out[0].f, 0, (size_t)zt_type_count(out[0].type) * sizeof(double));
    for (int64_t e = 0; e < count; e++) {
        int64_t i = in[0].i[e];
        if (i >= 0 && i < one_hot->depth)
            out[0].f[e * one_hot->depth + i] = 1;
        else if (is_error(&one_hot->oob))
            zt_row_runtime_error(error, "index", i, one_hot->depth);
    }
}

static bool one_hot_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type i;
        zt_one_hot_attrs a; /* depth, oob */
        int64_t limit;
    } rows[] = {
        {{ZT_I32, 1, {7}}, {5, {"error"}}, 5},       {{ZT_I32, 2, {2, 33}}, {40, {"error"}}, 40},
        {{ZT_I32, 0, {0}}, {3, {"error"}}, 3},       {{ZT_I32, 1, {65}}, {4, {"zero"}}, 6},
        {{ZT_I32, 1, {0}}, {3, {"error"}}, 3},       {{ZT_I32, 1, {4}}, {0, {"zero"}}, 3},
        {{ZT_I64, 2, {2, 33}}, {40, {"error"}}, 40},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    zt_case_type_in(test_case, 0, ZT_FILL_IDS, &rows[i].i);
    test_case->limit[0] = rows[i].limit;
    return true;
}

const zt_opdef zt_op_one_hot = {
    .synopsis = "y[...,k] = (k == i[...]) for k < `depth`; i i32 or i64, y f32; an index out of range is an "
                "error, or with oob=zero gives zeros",
    .n_required = 1,
    .infer = one_hot_infer,
    .ref = one_hot_ref,
    .cases = one_hot_cases,
};
