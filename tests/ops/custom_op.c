/* custom_op.c - functions of the caller's as ops: by name and without one, run, recorded,
 * differentiated, printed and parsed; what is refused. */
#include "lib/run/run.h"
#include "tests/common/tap.h"

#include <math.h>
#include <string.h>

static zt_ctx *ctx;

static zt_tensor *row(int n, const float *x)
{
    zt_type t = zt_type_make(ZT_F32, 1, (int64_t[]){n});
    zt_tensor *y = zt_tensor_new(ctx, &t);
    memcpy(zt_tensor_data(y), x, (size_t)n * sizeof *x);
    return y;
}

static bool holds(const zt_tensor *t, int n, const float *want)
{
    const float *x = t ? zt_tensor_data(t) : NULL;
    for (int i = 0; i < n && x; i++)
        if (!(fabsf(x[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i])))) return false;
    return x != NULL;
}

static void said(zt_status status, const char *words)
{
    bool good = zt_ctx_status(ctx) == status && strstr(zt_ctx_error(ctx), words);
    if (!ok(good, "refused: %s", words)) diag("status %d: %s", (int)zt_ctx_status(ctx), zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
}

/* ---- functions of one number ----------------------------------------------------------------- */

static double power(double x, void *user) { return pow(x, *(const int *)user); }
static double slope(double x, void *user)
{
    int n = *(const int *)user;
    return n * pow(x, n - 1);
}

static int three = 3;
static const zt_func slope3 = {.name = "slope3", .user = &three, .unary = slope},
                     power3 = {.name = "power3", .user = &three, .unary = power, .derivative = &slope3},
                     nameless = {.user = &three, .unary = power};

static zt_tensor *apply(zt_run *r, const zt_func *f, zt_tensor *x) { return zt_apply(r, f, (zt_tensor *[]){x}, NULL); }

static void unary(zt_run *runner)
{
    zt_tensor *x = row(3, (float[]){1, 2, -3});
    ok(holds(apply(runner, &power3, x), 3, (float[]){1, 8, -27}), "a function with its user's number");
    zt_grad_require(runner, x, true);
    zt_record_begin(runner);
    ok(zt_backward(runner, apply(runner, &power3, x), NULL) == ZT_OK && holds(zt_grad_of(runner, x), 3, (float[]){3, 12, 27}),
       "its gradient by its derivative");
    zt_grad_zero(runner, x);
    zt_backward(runner, apply(runner, &slope3, x), NULL);
    said(ZT_ENOTSUP, "op call is not differentiable: function 'slope3' has no gradient");
    zt_backward(runner, apply(runner, &nameless, x), NULL);
    said(ZT_ENOTSUP, "function '(unnamed)' has no gradient");
    zt_prog_free(zt_record_end(runner, NULL, 0));
    zt_type ti = zt_type_make(ZT_I32, 1, (int64_t[]){3});
    zt_tensor *ints = zt_tensor_new(ctx, &ti);
    apply(runner, &power3, ints);
    said(ZT_ESHAPE, "op call: a has dtype i32: must be a plain float type");
    zt_run_op(runner, ZT_OP_call, NULL, (zt_tensor *[ZT_MAX_IN]){x}, (zt_tensor *[ZT_MAX_OUT]){0});
    said(ZT_EUSAGE, "missing attribute fn");
    zt_tensor_unref(ints);
    zt_grad_require(runner, x, false);
    zt_tensor_unref(x);
}

/* ---- functions of values --------------------------------------------------------------------- */

/* y[n] = a[n] s + b[n], s a scalar: the gradient in a and b as ops,
 * in s by a function that computes. */
static zt_status affine_infer(zt_ctx *c, void *user, const zt_type *const in[], zt_type out[])
{
    (void)user, (void)out;
    if (in[2]->rank) return zt_fail(c, ZT_ESHAPE, "s has %d dimensions", in[2]->rank);
    return zt_type_equal(in[0], in[1]) ? ZT_OK : zt_fail(c, ZT_ESHAPE, "a and b differ");
}

static void affine_run(void *user, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    (void)user;
    for (int64_t i = 0; i < zt_type_count(in[0].type); i++) {
        out[0].f[i] = in[0].f[i] * in[2].f[0] + in[1].f[i];
        if (!isfinite(out[0].f[i])) *t = (zt_runtime_error){"affine is not finite", 0, -1};
    }
}

static zt_status dot_infer(zt_ctx *c, void *user, const zt_type *const in[], zt_type out[])
{
    (void)c, (void)user;
    out[0] = zt_type_make(in[0]->dtype, 0, NULL);
    return ZT_OK;
}

static void dot_run(void *user, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    (void)user, (void)t;
    out[0].f[0] = 0;
    for (int64_t i = 0; i < zt_type_count(in[0].type); i++) out[0].f[0] += in[0].f[i] * in[1].f[i];
}

static const zt_func dot = {.name = "dot", .n_in = 2, .n_out = 1, .infer = dot_infer, .run = dot_run};

static void affine_vjp(zt_vjp *v, void *user)
{
    (void)user;
    v->dx[0] = zt_build_mul(v->emit, v->dy[0], v->in[2]);
    v->dx[1] = v->dy[0];
    if (v->want[2])
        v->dx[2] =
            zt_build_call(v->emit, v->dy[0], v->in[0], ZT_NONE, ZT_NONE, ZT_NONE, ZT_NONE, &(zt_call_attrs){&dot}, NULL, NULL);
}

static const zt_func affine = {
    .name = "affine", .n_in = 3, .n_out = 1, .infer = affine_infer, .run = affine_run, .vjp = affine_vjp};

static void values(zt_run *runner)
{
    zt_type ts = zt_type_make(ZT_F32, 0, NULL);
    zt_tensor *a = row(2, (float[]){1, 2}), *b = row(2, (float[]){10, 20});
    zt_tensor *s = zt_tensor_new(ctx, &ts);
    *(float *)zt_tensor_data(s) = 3;
    zt_tensor *in[] = {a, b, s};
    for (int k = 0; k < 3; k++) zt_grad_require(runner, in[k], true);
    zt_record_begin(runner);
    zt_tensor *y = zt_eager_square(runner, zt_apply(runner, &affine, in, NULL));
    ok(holds(y, 2, (float[]){169, 676}), "an op of the caller's: %s", zt_ctx_error(ctx));
    ok(zt_backward(runner, y, NULL) == ZT_OK && holds(zt_grad_of(runner, a), 2, (float[]){78, 156}) &&
           holds(zt_grad_of(runner, b), 2, (float[]){26, 52}) && holds(zt_grad_of(runner, s), 1, (float[]){130}),
       "its gradient, as ops and computed: %s", zt_ctx_error(ctx));
    zt_apply(runner, &affine, (zt_tensor *[]){a, b, b}, NULL);
    said(ZT_ESHAPE, "op call: s has 1 dimensions");
    zt_eager_call(runner, a, b, NULL, NULL, NULL, NULL, &(zt_call_attrs){&affine}, NULL, NULL);
    said(ZT_EUSAGE, "function 'affine' takes 3 inputs, got 2");
    *(float *)zt_tensor_data(s) = INFINITY;
    zt_apply(runner, &affine, in, NULL);
    said(ZT_EDATA, "affine is not finite");
    zt_prog_free(zt_record_end(runner, NULL, 0));
    for (int k = 0; k < 3; k++) {
        zt_grad_require(runner, in[k], false);
        zt_tensor_unref(in[k]);
    }
}

/* ---- text ------------------------------------------------------------------------------------ */

static zt_prog *recorded(zt_run *runner, const zt_func *f)
{
    zt_tensor *x = row(2, (float[]){2, 3});
    zt_record_begin(runner);
    zt_tensor *y = apply(runner, f, x);
    zt_prog *p = zt_record_end(runner, &y, 1);
    zt_tensor_unref(x);
    return p;
}

static bool runs(zt_engine *e, const zt_prog *p)
{
    float x[2] = {2, 3}, y[2] = {0};
    zt_session *s = zt_session_open(e, p, NULL, NULL);
    bool good = s && !zt_session_step(s, NULL, 0, (const void *[]){x}, (void *[]){y});
    zt_session_close(s);
    return good && y[0] == 8 && y[1] == 27;
}

static void text(zt_engine *engine, zt_run *runner)
{
    zt_str string;
    zt_str_init(&string, ctx);
    zt_prog *program = recorded(runner, &power3);
    ok(program && !zt_prog_has_opaque(program) && zt_prog_print(program, &string) == ZT_OK &&
           strstr(string.data, "= call in0 fn=\"power3\"\n"),
       "a named function has text");
    ok(runs(engine, program), "and replays");
    zt_prog *other_program = zt_prog_parse(ctx, "t.zt", string.data, string.len);
    ok(!other_program, "text of a function that is not registered");
    said(ZT_EDATA, "attribute 'fn' names an unregistered function: 'power3'");
    ok(zt_func_register(ctx, &power3) == ZT_OK && zt_func_register(ctx, &power3) == ZT_OK &&
           zt_func_find(ctx, "power3") == &power3,
       "registered");
    other_program = zt_prog_parse(ctx, "t.zt", string.data, string.len);
    ok(other_program && runs(engine, other_program), "then it is read, and replays: %s", zt_ctx_error(ctx));
    zt_prog_free(other_program);
    zt_prog_free(program);
    zt_func other = slope3;
    other.name = "power3";
    zt_func_register(ctx, &other);
    said(ZT_EUSAGE, "function 'power3' is already registered");
    zt_func_register(ctx, &nameless);
    said(ZT_EUSAGE, "a function without a name cannot be registered");
    zt_func_register(ctx, &(zt_func){.name = "nothing", .n_in = 1, .n_out = 1});
    said(ZT_EUSAGE, "invalid function 'nothing': no code, or an unsupported number of inputs (1) or outputs (1)");
    zt_func_forget(ctx, &other);
    ok(zt_func_find(ctx, "power3") == &power3, "another of that name forgets nothing");
    zt_func_forget(ctx, &power3);
    ok(!zt_func_find(ctx, "power3"), "forgotten");
    program = recorded(runner, &nameless);
    ok(program && zt_prog_has_opaque(program) && runs(engine, program), "an opaque program replays");
    zt_str_clear(&string);
    ok(zt_prog_print(program, &string) == ZT_OK && strstr(string.data, "= call in0 fn=opaque\n"), "its text is marked");
    ok(!zt_prog_parse(ctx, "t.zt", string.data, string.len), "and does not run elsewhere");
    said(ZT_EDATA, "op call: the function has no name");
    zt_prog_free(program);
    zt_str_fini(&string);
}

int main(void)
{
    static const char *const engine[] = {"ref", "cpu"};
    ctx = zt_ctx_new();
    for (int i = 0; i < 2; i++) {
        zt_engine *e = zt_engine_open(ctx, engine[i], &(zt_engine_opts){.threads = 2});
        zt_run *runner = zt_run_new(e, false);
        diag("%s", engine[i]);
        unary(runner);
        values(runner);
        text(e, runner);
        zt_run_free(runner);
        zt_engine_close(e);
        ok(zt_mem_get(ctx).blocks == 0, "nothing is left");
    }
    zt_func_register(ctx, &affine); /* a context may go with functions registered */
    zt_ctx_free(ctx);
    return tap_done();
}
