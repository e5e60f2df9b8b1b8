/* custom_op.c - the row of `call`: functions of the caller's own, and where text finds them. */
#include "lib/ops/vjp.h"

#include <stdio.h>
#include <string.h>

static const char *name_of(const zt_func *f) { return f->name ? f->name : "without a name"; }
static int n_in(const zt_func *f) { return f->unary ? 1 : f->n_in; }
static int n_out(const zt_func *f) { return f->unary ? 1 : f->n_out; }

/* ---- by name --------------------------------------------------------------------------------- */

static const char kind[] = "function";

static bool is_whole(const zt_func *f)
{
    const zt_opinfo *info = zt_op_info(ZT_OP_call);
    return (f->unary || f->run) && n_in(f) >= 1 && n_in(f) <= info->n_in && n_out(f) >= 1 &&
           n_out(f) <= info->n_out;
}

zt_status zt_func_register(zt_ctx *ctx, const zt_func *f)
{
    char text[80];
    if (!f->name || !*f->name)
        return zt_fail(ctx, ZT_EUSAGE, "a function without a name cannot be registered");
    zt_escape(text, sizeof text, f->name, strlen(f->name));
    if (!is_whole(f))
        return zt_fail(ctx, ZT_EUSAGE, "function '%s' has no code, or %d inputs and %d outputs",
                       text, n_in(f), n_out(f));
    const zt_func *other = zt_func_find(ctx, f->name);
    if (other && other != f)
        return zt_fail(ctx, ZT_EUSAGE, "function '%s' is registered already", text);
    return zt_ctx_put(ctx, kind, f->name, f);
}

void zt_func_forget(zt_ctx *ctx, const zt_func *f)
{
    if (f->name && zt_func_find(ctx, f->name) == f) zt_ctx_put(ctx, kind, f->name, NULL);
}

const zt_func *zt_func_find(const zt_ctx *ctx, const char *name)
{
    return zt_ctx_get(ctx, kind, name);
}

/* ---- the row --------------------------------------------------------------------------------- */

static zt_status call_arity(zt_ctx *ctx, const zt_func *f, const zt_type *const in[])
{
    int given = 0, max = zt_op_info(ZT_OP_call)->n_in;
    bool gap = false;
    if (!f) return zt_row_fail(ctx, ZT_EUSAGE, "no function is given");
    if (!is_whole(f)) return zt_row_fail(ctx, ZT_EUSAGE, "function '%s' is not whole", name_of(f));
    for (int k = 0; k < max; k++) {
        given += in[k] != NULL;
        gap = gap || (in[k] != NULL) != (k < n_in(f));
    }
    if (!gap) return ZT_OK;
    return zt_row_fail(ctx, ZT_EUSAGE, "function '%s' takes %d inputs, not %d", name_of(f), n_in(f),
                       given);
}

static zt_status call_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                            zt_type out[])
{
    const zt_call_attrs *a = attrs;
    zt_status s = call_arity(ctx, a->fn, in);
    if (s) return s;
    for (int k = 0; k < zt_op_info(ZT_OP_call)->n_out; k++)
        out[k] = k < n_out(a->fn) ? *in[0] : zt_type_make(ZT_F32, 1, (int64_t[]){0});
    if (!a->fn->unary && a->fn->infer) return a->fn->infer(ctx, a->fn->user, in, out);
    return a->fn->unary ? zt_row_want_float(ctx, "a", in[0]) : ZT_OK;
}

static void call_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    const zt_func *f = ((const zt_call_attrs *)attrs)->fn;
    if (!f->unary) {
        f->run(f->user, in, out, t);
        return;
    }
    for (int64_t i = 0; i < zt_type_count(out[0].type); i++)
        out[0].f[i] = f->unary(in[0].f[i], f->user);
}

static void call_vjp(zt_vjp *v)
{
    const zt_func *f = ((const zt_call_attrs *)v->attrs)->fn;
    const zt_call_attrs slope = {f->derivative};
    if (!f->unary && f->vjp) {
        f->vjp(v, f->user);
    } else if (f->unary && f->derivative) {
        int d = zt_build_call(v->e, v->in[0], ZT_NONE, ZT_NONE, ZT_NONE, ZT_NONE, ZT_NONE, &slope, NULL,
                          NULL);
        v->dx[0] = zt_build_mul(v->e, v->dy[0], d);
    } else {
        snprintf(v->refused, sizeof v->refused, "function '%.60s' has none", name_of(f));
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
        return zt_fail(ctx, ZT_ESHAPE, "a and b are not two vectors of one type");
    out[0] = zt_type_make(in[0]->dtype, 2, (int64_t[]){in[0]->dim[0], in[1]->dim[0]});
    out[1] = *in[0];
    return ZT_OK;
}

static void outer_run(void *user, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    int64_t n = in[0].type->dim[0], m = in[1].type->dim[0];
    (void)user, (void)t;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m && out[0].type; j++)
            out[0].f[i * m + j] = in[0].f[i] * in[1].f[j];
        if (out[1].type) out[1].f[i] = in[0].f[i] * in[0].f[i];
    }
}

static int add_to(const zt_emit *e, int sum, int x)
{
    return sum == ZT_NONE ? x : zt_build_add(e, sum, x);
}

static void outer_vjp(zt_vjp *v, void *user)
{
    const zt_emit *e = v->e;
    const zt_matmul_attrs across = {.ta = 1};
    (void)user;
    if (v->dy[0] != ZT_NONE) {
        int a = zt_build_group(e, v->in[0], &(zt_group_attrs){.size = 1});
        int b = zt_build_group(e, v->in[1], &(zt_group_attrs){.size = 1});
        v->dx[0] = zt_build_reshape_like(e, zt_build_matmul(e, v->dy[0], b, NULL), v->in[0]);
        v->dx[1] = zt_build_reshape_like(e, zt_build_matmul(e, v->dy[0], a, &across), v->in[1]);
    }
    if (v->dy[1] != ZT_NONE)
        v->dx[0] = add_to(e, v->dx[0], zt_build_times(e, zt_build_mul(e, v->dy[1], v->in[0]), 2));
}

static bool call_cases(int i, zt_case *c)
{
    static const zt_func sixth = {.name = "six", .unary = six},
                         slope = {.name = "square3", .unary = square3, .derivative = &sixth},
                         cubed = {.name = "cube", .unary = cube, .derivative = &slope},
                         outer = {.n_in = 2, .n_out = 2, .infer = outer_infer, .run = outer_run,
                                  .vjp = outer_vjp};
    static const int64_t vectors[][2] = {{3, 5}, {1, 1}, {0, 4}, {17, 64}};
    zt_case_type t;
    int n = 0;
    while (zt_case_shape(n, 0, &t)) n++;
    if (i >= n + ZT_LEN(vectors)) return false;
    const zt_call_attrs a = {i < n ? &cubed : &outer};
    zt_case_attrs(c, &a, sizeof a);
    if (zt_case_shape(i, 0, &t)) zt_case_type_in(c, 0, ZT_FILL_NORMAL, &t);
    for (int k = 0; k < 2 && i >= n; k++)
        zt_case_in(c, k, ZT_FILL_NORMAL, 0, ZT_F32, 1, &vectors[i - n][k]);
    return true;
}

const zt_opdef zt_op_call = {
    .synopsis = "y, z, w = a function of the caller's, of a, b, c, d, e, f",
    .n_required = 1,
    .flags = ZT_OPF_CALLERS,
    .infer = call_infer,
    .ref = call_ref,
    .cases = call_cases,
    .vjp = call_vjp,
};
