/* custom_op.c - the row of `call`: functions of the caller's own, and where text finds them. */
#include "lib/base/require.h"
#include "lib/ops/vjp.h"

#include <stdio.h>
#include <string.h>

static const char *name_of(const zt_func *func) { return func->name ? func->name : "(unnamed)"; }
static int n_in(const zt_func *func) { return func->unary ? 1 : func->n_in; }
static int n_out(const zt_func *func) { return func->unary ? 1 : func->n_out; }

/* ---- by name --------------------------------------------------------------------------------- */

static const char kind[] = "function";

static bool is_whole(const zt_func *func)
{
    const zt_opinfo *info = zt_op_info(ZT_OP_call);
    return (func->unary || func->run) && n_in(func) >= 1 && n_in(func) <= info->n_in && n_out(func) >= 1 &&
           n_out(func) <= info->n_out;
}

zt_status zt_func_register(zt_ctx *ctx, const zt_func *func)
{
    ZT_REQUIRE(ctx, func, ZT_EUSAGE);
    char text[80];
    if (!func->name || !*func->name) return zt_fail(ctx, ZT_EUSAGE, "a function without a name cannot be registered");
    zt_escape(text, sizeof text, func->name, strlen(func->name));
    if (!is_whole(func))
        return zt_fail(ctx, ZT_EUSAGE,
                       "invalid function '%s': no code, or an unsupported number of inputs (%d) or outputs "
                       "(%d)",
                       text, n_in(func), n_out(func));
    const zt_func *other = zt_func_find(ctx, func->name);
    if (other && other != func) return zt_fail(ctx, ZT_EUSAGE, "function '%s' is already registered", text);
    return zt_ctx_put(ctx, kind, func->name, func);
}

void zt_func_forget(zt_ctx *ctx, const zt_func *func)
{
    ZT_REQUIRE(ctx, func, );
    if (func->name && zt_func_find(ctx, func->name) == func) zt_ctx_put(ctx, kind, func->name, NULL);
}

const zt_func *zt_func_find(const zt_ctx *ctx, const char *name) { return zt_ctx_get(ctx, kind, name); }

/* ---- the row --------------------------------------------------------------------------------- */

static zt_status call_arity(zt_ctx *ctx, const zt_func *func, const zt_type *const in[])
{
    int given = 0, max = zt_op_info(ZT_OP_call)->n_in;
    bool gap = false;
    if (!func) return zt_row_fail(ctx, ZT_EUSAGE, "missing attribute fn");
    if (!is_whole(func)) return zt_row_fail(ctx, ZT_EUSAGE, "incomplete function '%s'", name_of(func));
    for (int k = 0; k < max; k++) {
        given += in[k] != NULL;
        gap = gap || (in[k] != NULL) != (k < n_in(func));
    }
    if (!gap) return ZT_OK;
    return zt_row_fail(ctx, ZT_EUSAGE, "function '%s' takes %d inputs, got %d", name_of(func), n_in(func), given);
}

static zt_status call_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_call_attrs *call = attrs;
    zt_status status = call_arity(ctx, call->fn, in);
    if (status) return status;
    for (int k = 0; k < zt_op_info(ZT_OP_call)->n_out; k++)
        out[k] = k < n_out(call->fn) ? *in[0] : zt_type_make(ZT_F32, 1, (int64_t[]){0});
    if (!call->fn->unary && call->fn->infer) return call->fn->infer(ctx, call->fn->user, in, out);
    return call->fn->unary ? zt_row_want_float(ctx, "a", in[0]) : ZT_OK;
}

static void call_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_func *func = ((const zt_call_attrs *)attrs)->fn;
    if (!func->unary) {
        func->run(func->user, in, out, error);
        return;
    }
    for (int64_t i = 0; i < zt_type_count(out[0].type); i++) out[0].f[i] = func->unary(in[0].f[i], func->user);
}

static void call_vjp(zt_vjp *vjp)
{
    const zt_func *func = ((const zt_call_attrs *)vjp->attrs)->fn;
    const zt_call_attrs slope = {func->derivative};
    if (!func->unary && func->vjp) {
        func->vjp(vjp, func->user);
    } else if (func->unary && func->derivative) {
        int d = zt_build_call(vjp->emit, vjp->in[0], ZT_NONE, ZT_NONE, ZT_NONE, ZT_NONE, ZT_NONE, &slope, NULL, NULL);
        vjp->dx[0] = zt_build_mul(vjp->emit, vjp->dy[0], d);
    } else {
        snprintf(vjp->refused, sizeof vjp->refused, "function '%.60s' has no gradient", name_of(func));
    }
}

/* ---- cases ----------------------------------------------------------------------------------- */

static double six(double x, void *user)
{
    (void)user;
    return 6 * x;
}

static double square3(double x, void *user)
{
    (void)user;
    return 3 * x * x;
}

static double cube(double x, void *user)
{
    (void)user;
    return x * x * x;
}

/* y[n,m] = a[n] b[m] and z[n] = a[n]^2, with gradients written as ops. */
static zt_status outer_infer(zt_ctx *ctx, void *user, const zt_type *const in[], zt_type out[])
{
    (void)user;
    if (in[0]->rank != 1 || in[1]->rank != 1 || in[0]->dtype != in[1]->dtype)
        return zt_fail(ctx, ZT_ESHAPE, "a and b must be vectors of the same type");
    out[0] = zt_type_make(in[0]->dtype, 2, (int64_t[]){in[0]->dim[0], in[1]->dim[0]});
    out[1] = *in[0];
    return ZT_OK;
}

static void outer_run(void *user, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    int64_t n = in[0].type->dim[0], m = in[1].type->dim[0];
    (void)user, (void)error;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m && out[0].type; j++) out[0].f[i * m + j] = in[0].f[i] * in[1].f[j];
        if (out[1].type) out[1].f[i] = in[0].f[i] * in[0].f[i];
    }
}

static int add_to(const zt_emit *emit, int sum, int x) { return sum == ZT_NONE ? x : zt_build_add(emit, sum, x); }

static void outer_vjp(zt_vjp *vjp, void *user)
{
    const zt_emit *emit = vjp->emit;
    const zt_matmul_attrs across = {.ta = 1};
    (void)user;
    if (vjp->dy[0] != ZT_NONE) {
        int a = zt_build_group(emit, vjp->in[0], &(zt_group_attrs){.size = 1});
        int b = zt_build_group(emit, vjp->in[1], &(zt_group_attrs){.size = 1});
        vjp->dx[0] = zt_build_reshape_like(emit, zt_build_matmul(emit, vjp->dy[0], b, NULL), vjp->in[0]);
        vjp->dx[1] = zt_build_reshape_like(emit, zt_build_matmul(emit, vjp->dy[0], a, &across), vjp->in[1]);
    }
    if (vjp->dy[1] != ZT_NONE)
        vjp->dx[0] = add_to(emit, vjp->dx[0], zt_build_times(emit, zt_build_mul(emit, vjp->dy[1], vjp->in[0]), 2));
}

static bool call_cases(int i, zt_case *test_case)
{
    static const zt_func sixth = {.name = "six", .unary = six},
                         slope = {.name = "square3", .unary = square3, .derivative = &sixth},
                         cubed = {.name = "cube", .unary = cube, .derivative = &slope},
                         outer = {.n_in = 2, .n_out = 2, .infer = outer_infer, .run = outer_run, .vjp = outer_vjp};
    static const int64_t vectors[][2] = {{3, 5}, {1, 1}, {0, 4}, {17, 64}};
    zt_case_type type;
    int n = 0;
    while (zt_case_shape(n, 0, &type)) n++;
    if (i >= n + ZT_LEN(vectors)) return false;
    const zt_call_attrs a = {i < n ? &cubed : &outer};
    zt_case_attrs(test_case, &a, sizeof a);
    if (zt_case_shape(i, 0, &type)) zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, &type);
    for (int k = 0; k < 2 && i >= n; k++) zt_case_in(test_case, k, ZT_FILL_NORMAL, 0, ZT_F32, 1, &vectors[i - n][k]);
    return true;
}

const zt_opdef zt_op_call = {
    .synopsis = "y, z, w = fn(a, b, c, d, e, f), a function registered by the caller",
    .n_required = 1,
    .flags = ZT_OPF_CALLERS,
    .infer = call_infer,
    .ref = call_ref,
    .cases = call_cases,
    .vjp = call_vjp,
};
