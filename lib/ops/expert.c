/* expert.c - rows of products by expert: of stacked matrices w[E,M,K] each row of x is multiplied by those that
 * indices name, as linear multiplies by one. The weights' gradient is an op of its own; x's gradient is the same
 * product by the transposed matrices.
 */
#include "lib/ops/linear.h"
#include "lib/ops/vjp.h"

#include <string.h>

static const char *const act_words[] = {"f32", "q8", "q16"};

/* ---- what both rows share -------------------------------------------------------------------- */

/* x [n,K], one row for all of a token's experts, or [n,k,K], a row for each; i i32[n,k]. */
static zt_status want_rows(zt_ctx *ctx, const char *name, const zt_type *x, const zt_type *i)
{
    zt_status status = zt_row_want(ctx, "i", i, ZT_I32, 2);
    if (status) return status;
    if (x->rank != 2 && x->rank != 3) return zt_row_fail(ctx, ZT_ESHAPE, "%s has %d dimensions: must have 2 or 3", name, x->rank);
    if (x->dim[0] != i->dim[0] || (x->rank == 3 && x->dim[1] != i->dim[1]))
        return zt_row_fail(ctx, ZT_ESHAPE, "%s must have one row for each %s of i", name, x->rank == 3 ? "index" : "row");
    return ZT_OK;
}

/* A row of x for index number r of i. */
static const double *row_of(const zt_arg *x, const zt_arg *i, int64_t r)
{
    int64_t K = x->type->dim[x->type->rank - 1];
    return x->f + (x->type->rank == 3 ? r : r / i->type->dim[1]) * K;
}

/* The expert that index number r names, or -1 and the error. */
static int64_t expert_at(const zt_arg *i, int64_t r, int64_t experts, zt_runtime_error *error)
{
    if (i->i[r] >= 0 && i->i[r] < experts) return i->i[r];
    zt_row_runtime_error(error, "expert", i->i[r], experts);
    return -1;
}

/* ---- expert_linear --------------------------------------------------------------------------- */

static zt_status expert_linear_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_type *x = in[0], *w = in[1], *b = in[3];
    zt_status status = want_rows(ctx, "x", x, in[2]);
    if (status) return status;
    zt_type rows = zt_type_make(x->dtype, 2, (int64_t[]){x->dim[0], x->dim[x->rank - 1]});
    status = zt_linear_want_x(ctx, &((const zt_expert_linear_attrs *)attrs)->act, &rows);
    if (status) return status;
    if (!zt_dtype_is_float(w->dtype) || w->rank != 3)
        return zt_row_fail(ctx, ZT_ESHAPE, "w must be a tensor [E,M,K] of a float or block type");
    if (w->dim[2] != rows.dim[1])
        return zt_row_fail(ctx, ZT_ESHAPE, "w has %lld columns, but x has %lld", (long long)w->dim[2], (long long)rows.dim[1]);
    if (b) status = zt_row_want(ctx, "b", b, b->dtype == x->dtype ? x->dtype : ZT_F32, 2);
    if (!status && b && (b->dim[0] != w->dim[0] || b->dim[1] != w->dim[1]))
        status = zt_row_fail(ctx, ZT_ESHAPE, "b must have shape [%lld,%lld], one entry for each row of w", (long long)w->dim[0],
                             (long long)w->dim[1]);
    out[0] = zt_type_make(x->dtype, 3, (int64_t[]){in[2]->dim[0], in[2]->dim[1], w->dim[1]});
    return status;
}

static void expert_linear_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    int64_t E = in[1].type->dim[0], M = in[1].type->dim[1], K = in[1].type->dim[2], rows = zt_type_count(in[2].type);
    (void)attrs;
    for (int64_t r = 0; r < rows; r++) {
        int64_t e = expert_at(&in[2], r, E, error);
        const zt_type x_type = zt_type_make(ZT_F64, 2, (int64_t[]){1, K}), b_type = zt_type_make(ZT_F64, 1, &M);
        double *x = (double *)(uintptr_t)row_of(&in[0], &in[2], r);
        zt_arg row = {.type = &x_type, .f = x}, w = {.f = e < 0 ? NULL : in[1].f + e * M * K}, b = {0};
        if (in[3].type && e >= 0) b = (zt_arg){.type = &b_type, .f = in[3].f + e * M};
        for (int64_t m = 0; m < M; m++) out[0].f[r * M + m] = e < 0 ? 0 : zt_linear_at(&row, &w, &b, 0, m);
    }
}

static double expert_linear_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs;
    return 2 * (double)zt_type_count(out) * (double)in[1]->dim[2];
}

/* Of the weights the matrices of as many experts as there are indices, at most all: which ones, only running shows. */
static double expert_linear_bytes(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    double bytes = (double)zt_type_bytes(out), experts = (double)in[1]->dim[0], named = (double)zt_type_count(in[2]);
    double share = experts > 0 && named < experts ? named / experts : 1;
    (void)attrs;
    for (int k = 0; k < 4; k++)
        if (in[k]) bytes += (k % 2 ? share : 1) * (double)zt_type_bytes(in[k]);
    return bytes;
}

typedef struct expert_case {
    int64_t n, k, K, E, M;
    zt_dtype x, w;
    int rank; /* of x */
    bool b;
    int act; /* of act_words */
} expert_case;

/* One token and many, experts that no row names, whole groups of 16 rows and not; then every dtype of weights. */
static bool expert_case_at(int i, expert_case *c)
{
    static const expert_case odd[] = {
        {1, 2, 64, 4, 48, ZT_F32, ZT_Q8_0, 2, false, 1},    {1, 2, 64, 4, 48, ZT_F32, ZT_Q8_0, 3, false, 1},
        {40, 2, 64, 4, 33, ZT_F32, ZT_Q4_0, 2, true, 1},    {40, 2, 64, 4, 33, ZT_F32, ZT_Q4_0, 3, true, 1},
        {9, 3, 33, 5, 7, ZT_F32, ZT_F32, 2, true, 0},       {100, 1, 33, 3, 18, ZT_F32, ZT_F32, 3, false, 0},
        {12, 4, 256, 40, 16, ZT_F32, ZT_Q4_K, 2, false, 2}, {70, 8, 256, 9, 40, ZT_F32, ZT_Q6_K, 3, false, 1},
        {3, 2, 64, 4, 32, ZT_F16, ZT_Q8_0, 2, true, 1},     {20, 2, 64, 3, 20, ZT_BF16, ZT_BF16, 3, true, 1},
        {0, 2, 64, 4, 16, ZT_F32, ZT_Q8_0, 2, false, 1},    {5, 0, 64, 4, 16, ZT_F32, ZT_F32, 2, false, 0},
        {3, 2, 0, 4, 16, ZT_F32, ZT_F32, 2, true, 0},       {3, 2, 8, 4, 0, ZT_F32, ZT_F32, 2, false, 0},
        {200, 2, 32, 1, 16, ZT_F32, ZT_F16, 2, false, 0},   {3, 2, 8, 4, 5, ZT_F32, ZT_F64, 2, false, 0},
    };
    static const zt_dtype types[] = {ZT_F32,     ZT_F16,   ZT_BF16,    ZT_Q4_0,   ZT_Q4_1,  ZT_Q5_0,  ZT_Q5_1,
                                     ZT_Q8_0,    ZT_Q2_K,  ZT_Q3_K,    ZT_Q4_K,   ZT_Q5_K,  ZT_Q6_K,  ZT_IQ4_NL,
                                     ZT_IQ4_XS,  ZT_MXFP4, ZT_NVFP4,   ZT_Q1_0,   ZT_Q2_0,  ZT_TQ1_0, ZT_TQ2_0,
                                     ZT_IQ3_XXS, ZT_IQ3_S, ZT_IQ2_XXS, ZT_IQ2_XS, ZT_IQ2_S, ZT_IQ1_S, ZT_IQ1_M};
    static const expert_case each[] = {{1, 3, 256, 5, 33, ZT_F32, 0, 2, false, 1}, {30, 2, 512, 3, 48, ZT_F32, 0, 3, true, 1}};
    if (i < ZT_LEN(odd)) {
        *c = odd[i];
        return true;
    }
    i -= ZT_LEN(odd);
    if (i >= ZT_LEN(types) * ZT_LEN(each)) return false;
    *c = each[i % ZT_LEN(each)];
    c->w = types[i / ZT_LEN(each)];
    c->act = i / 2 % 3;
    return true;
}

/* Inputs `x` and `i`; x with so many columns. */
static void case_rows(zt_case *test_case, int x, int i, const expert_case *c, int64_t columns)
{
    int64_t dim[3] = {c->n, c->k, columns};
    if (c->rank == 2) dim[1] = columns;
    zt_case_in(test_case, x, ZT_FILL_NORMAL, 0, c->x, c->rank, dim);
    zt_case_in(test_case, i, ZT_FILL_IDS, c->E, ZT_I32, 2, (int64_t[]){c->n, c->k});
}

static bool expert_linear_cases(int i, zt_case *test_case)
{
    expert_case c;
    if (!expert_case_at(i, &c)) return false;
    zt_expert_linear_attrs a = zt_expert_linear_defaults();
    strcpy(a.act.s, act_words[c.act]);
    zt_case_attrs(test_case, &a, sizeof a);
    case_rows(test_case, 0, 2, &c, c.K);
    zt_case_in(test_case, 1, ZT_FILL_NORMAL, 0, c.w, 3, (int64_t[]){c.E, c.M, c.K});
    if (c.b) zt_case_in(test_case, 3, ZT_FILL_NORMAL, 0, c.x, 2, (int64_t[]){c.E, c.M});
    return true;
}

/* dx = dy by the transposed matrices, summed over a token's experts where they share its row of x; dw is
 * expert_linear_backward; db the rows of dy added up by expert. */
static void expert_linear_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    int x = vjp->in[0], w = vjp->in[1], i = vjp->in[2], b = vjp->in[3], dy = vjp->dy[0];
    if (vjp->want[0]) {
        zt_transpose_attrs turned = {.axes = {3, {0, 2, 1}}};
        zt_expert_linear_attrs plain = zt_expert_linear_defaults();
        int dx =
            zt_build_expert_linear(emit, dy, zt_build_transpose(emit, zt_build_as(emit, w, dy), &turned), i, ZT_NONE, &plain);
        bool shared = x >= 0 && emit->type(emit->user, x).rank == 2;
        vjp->dx[0] = shared ? zt_build_sum(emit, dx, &(zt_sum_attrs){.axes = {1, {1}}}) : dx;
    }
    if (vjp->want[1]) vjp->dx[1] = zt_build_as(emit, zt_build_expert_linear_backward(emit, x, dy, i, w), w);
    if (vjp->want[3]) {
        int zero = zt_build_fill_like(emit, b, &(zt_fill_like_attrs){0});
        vjp->dx[3] = zt_build_scatter_add(emit, zero, i, zt_build_as(emit, dy, b), &(zt_scatter_add_attrs){{"error"}});
    }
}

const zt_opdef zt_op_expert_linear = {
    .synopsis = "y[t,j,m] = sum_k x[t,k] w[i[t,j],m,k] + b[i[t,j],m]: linear by the experts that i "
                "selects; x f32, f16 or bf16 [n,K], or [n,k,K] with one row per index; w any float "
                "or block type [E,M,K]; i i32[n,k]; b (optional) f32 or the type of x [E,M]; y "
                "[n,k,M] of the type of x; act as in linear. An index out of range is an error",
    .n_required = 3,
    .flags = ZT_OPF_SUMS,
    .infer = expert_linear_infer,
    .ref = expert_linear_ref,
    .flops = expert_linear_flops,
    .bytes = expert_linear_bytes,
    .cases = expert_linear_cases,
    .vjp = expert_linear_vjp,
    .weights = 2,
};

/* ---- expert_linear_backward: the gradient of the weights ------------------------------------- */

static zt_status backward_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_type *x = in[0], *dy = in[1], *like = in[3];
    zt_status status = want_rows(ctx, "x", x, in[2]);
    (void)attrs;
    if (!status && x->dtype != ZT_F32 && x->dtype != ZT_F16 && x->dtype != ZT_BF16)
        status = zt_row_fail(ctx, ZT_ESHAPE, "x has dtype %s: must be f32, f16 or bf16", zt_dtype_get(x->dtype)->name);
    if (!status) status = zt_row_want(ctx, "dy", dy, x->dtype, 3);
    if (!status) status = want_rows(ctx, "dy", dy, in[2]);
    if (status) return status;
    if (like->rank != 3 || like->dim[1] != dy->dim[2] || like->dim[2] != x->dim[x->rank - 1])
        return zt_row_fail(ctx, ZT_ESHAPE, "like must have shape [E,%lld,%lld]: columns of dy, columns of x",
                           (long long)dy->dim[2], (long long)x->dim[x->rank - 1]);
    out[0] = *like;
    out[0].dtype = x->dtype;
    return ZT_OK;
}

static void backward_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    int64_t E = in[3].type->dim[0], M = in[3].type->dim[1], K = in[3].type->dim[2], rows = zt_type_count(in[2].type);
    (void)attrs;
    for (int64_t j = 0; j < E * M * K; j++) out[0].f[j] = 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t e = expert_at(&in[2], r, E, error);
        const double *x = row_of(&in[0], &in[2], r), *dy = in[1].f + r * M;
        for (int64_t m = 0; m < M && e >= 0; m++)
            for (int64_t k = 0; k < K; k++) out[0].f[(e * M + m) * K + k] += dy[m] * x[k];
    }
}

static double backward_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)out;
    return 2 * (double)zt_type_count(in[1]) * (double)in[3]->dim[2];
}

static bool backward_cases(int i, zt_case *test_case)
{
    static const expert_case rows[] = {
        {1, 2, 64, 4, 48, ZT_F32, 0, 2, 0, 0},  {40, 2, 33, 4, 17, ZT_F32, 0, 2, 0, 0}, {40, 2, 33, 4, 17, ZT_F32, 0, 3, 0, 0},
        {9, 3, 100, 20, 7, ZT_F32, 0, 3, 0, 0}, {0, 2, 8, 3, 4, ZT_F32, 0, 2, 0, 0},    {9, 2, 16, 3, 4, ZT_F16, 0, 2, 0, 0},
        {9, 2, 16, 3, 4, ZT_BF16, 0, 3, 0, 0},
    };
    if (i >= ZT_LEN(rows)) return false;
    const expert_case *c = &rows[i];
    case_rows(test_case, 0, 2, c, c->K);
    zt_case_in(test_case, 1, ZT_FILL_NORMAL, 0, c->x, 3, (int64_t[]){c->n, c->k, c->M});
    zt_case_in(test_case, 3, ZT_FILL_ZERO, 0, ZT_F32, 3, (int64_t[]){c->E, c->M, c->K});
    return true;
}

/* Linear in x and in dy. */
static void backward_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    int x = vjp->in[0], dy = vjp->in[1], i = vjp->in[2], ddw = vjp->dy[0];
    zt_expert_linear_attrs plain = zt_expert_linear_defaults();
    zt_transpose_attrs turned = {.axes = {3, {0, 2, 1}}};
    if (vjp->want[0]) {
        int dx = zt_build_expert_linear(emit, dy, zt_build_transpose(emit, ddw, &turned), i, ZT_NONE, &plain);
        bool shared = x >= 0 && emit->type(emit->user, x).rank == 2;
        vjp->dx[0] = shared ? zt_build_sum(emit, dx, &(zt_sum_attrs){.axes = {1, {1}}}) : dx;
    }
    if (vjp->want[1]) vjp->dx[1] = zt_build_expert_linear(emit, x, ddw, i, ZT_NONE, &plain);
}

const zt_opdef zt_op_expert_linear_backward = {
    .synopsis = "dw[e,m,k] = sum of dy[t,j,m] x[t,k] over t, j with i[t,j] = e: the gradient of "
                "expert_linear with respect to w; x [n,K] or [n,k,K] and dy [n,k,M] of f32, f16 or "
                "bf16; i i32[n,k]; dw has the shape of like [E,M,K] and the type of x. An index out "
                "of range is an error",
    .n_required = 4,
    .flags = ZT_OPF_SUMS,
    .infer = backward_infer,
    .ref = backward_ref,
    .flops = backward_flops,
    .cases = backward_cases,
    .vjp = backward_vjp,
    .constant = 8,
};
