/* custom_op.c - an op of one's own, with its gradient, which is checked against finite differences.
 *
 *     cc custom_op.c $(pkg-config --cflags --libs zt) -o custom_op
 *     ./custom_op
 *
 * The op is y[i] = a[i] exp(b[i]). What it computes is plain C on f64, its gradient is written as ops, so that it runs
 * on any engine and has a gradient itself.
 */
#include <math.h>
#include <stdio.h>
#include <zt.h>
#include <zt/ops.h>

/* ---- the op ------------------------------------------------------------------------------------ */

static zt_status scaled_exp_infer(zt_ctx *ctx, void *user, const zt_type *const in[], zt_type out[])
{
    (void)user;
    if (!zt_type_equal(in[0], in[1])) return zt_fail(ctx, ZT_ESHAPE, "a and b have different types");
    out[0] = *in[0];
    return ZT_OK;
}

static void scaled_exp_run(void *user, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)user, (void)error;
    for (int64_t i = 0; i < zt_type_count(in[0].type); i++) out[0].f[i] = in[0].f[i] * exp(in[1].f[i]);
}

/* With dy the gradient of y: da = dy exp(b), db = dy a exp(b) = dy y. */
static void scaled_exp_vjp(zt_vjp *v, void *user)
{
    (void)user;
    v->dx[0] = zt_build_mul(v->emit, v->dy[0], zt_build_exp(v->emit, v->in[1]));
    v->dx[1] = zt_build_mul(v->emit, v->dy[0], v->out[0]);
}

static const zt_func scaled_exp = {
    .name = "scaled_exp", .n_in = 2, .n_out = 1, .infer = scaled_exp_infer, .run = scaled_exp_run, .vjp = scaled_exp_vjp};

/* ---- the check --------------------------------------------------------------------------------- */

enum { COUNT = 5 };

/* sum(scaled_exp(a, b)), run op by op. NULL: it failed. */
static zt_tensor *loss_of(zt_run *run, zt_tensor *a, zt_tensor *b)
{
    zt_tensor *y = zt_apply(run, &scaled_exp, (zt_tensor *[]){a, b}, NULL);
    return zt_eager_sum(run, y, NULL);
}

static double loss_at(zt_run *run, zt_tensor *a, zt_tensor *b)
{
    zt_scope_begin(run);
    zt_tensor *loss = loss_of(run, a, b);
    double value = loss ? *(double *)zt_tensor_data(loss) : NAN;
    zt_scope_end(run);
    return value;
}

/* The largest difference of a gradient from (loss(x + h) - loss(x - h)) / 2h. */
static double check_gradient(zt_run *run, zt_tensor *a, zt_tensor *b, zt_tensor *x)
{
    const double h = 1e-5;
    const double *gradient = zt_tensor_data(zt_grad_of(run, x));
    double *value = zt_tensor_data(x), worst = 0;
    for (int i = 0; i < COUNT && gradient; i++) {
        double before = value[i];
        value[i] = before + h;
        double above = loss_at(run, a, b);
        value[i] = before - h;
        double below = loss_at(run, a, b);
        value[i] = before;
        worst = fmax(worst, fabs(gradient[i] - (above - below) / (2 * h)));
    }
    return gradient ? worst : INFINITY;
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_engine *engine = zt_engine_open(ctx, "cpu", NULL);
    zt_run *run = zt_run_new(engine, false);
    zt_type type = zt_type_make(ZT_F64, 1, (int64_t[]){COUNT});
    double a_values[COUNT], b_values[COUNT];
    for (int i = 0; i < COUNT; i++) {
        a_values[i] = zt_normal(1, 0, (uint64_t)i);
        b_values[i] = zt_normal(1, 1, (uint64_t)i);
    }
    zt_tensor *a = zt_tensor_wrap(ctx, &type, a_values, NULL, NULL);
    zt_tensor *b = zt_tensor_wrap(ctx, &type, b_values, NULL, NULL);

    /* What is recorded has a gradient. */
    zt_grad_require(run, a, true);
    zt_grad_require(run, b, true);
    zt_record_begin(run);
    zt_backward(run, loss_of(run, a, b), NULL);
    zt_record_pause(run);

    double a_error = check_gradient(run, a, b, a), b_error = check_gradient(run, a, b, b);
    printf("largest difference from finite differences: %.1e in a, %.1e in b\n", a_error, b_error);

    int status = zt_ctx_status(ctx) || !(a_error < 1e-6) || !(b_error < 1e-6);
    if (zt_ctx_status(ctx)) fprintf(stderr, "custom_op: %s\n", zt_ctx_error(ctx));
    zt_run_free(run);
    zt_tensor_unref(b);
    zt_tensor_unref(a);
    zt_engine_close(engine);
    zt_ctx_free(ctx);
    return status;
}
