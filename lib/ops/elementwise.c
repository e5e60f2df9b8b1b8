/* elementwise.c - rows of the ops whose y[i] depends on the inputs' [i] only. */
#include "lib/ops/vjp.h"

#include <math.h>
#include <string.h>

static const char *const gelu_forms[] = {"tanh", "erf"};

/* ---- formulas -------------------------------------------------------------------------------- */

static double silu(double x) { return x / (1 + exp(-x)); }

/* Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016): the tanh form and the exact one, both
 * written so that they keep their digits far below zero: (1 + tanh u) / 2 = 1 / (1 + exp(-2 u)). */
static double gelu_tanh(double x)
{
    return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_erf(double x) { return 0.5 * x * erfc(-x * M_SQRT1_2); }

typedef double unary_fn(double x);

static unary_fn *gelu_form(const zt_enum_string *form)
{
    return strcmp(form->s, "erf") ? gelu_tanh : gelu_erf;
}

/* ---- one input ------------------------------------------------------------------------------- */

static void map(const zt_arg *in, zt_arg *out, unary_fn *f)
{
    int64_t count = zt_type_count(out->type);
    for (int64_t i = 0; i < count; i++) out->f[i] = f(in->f[i]);
}

static bool unary_cases(int i, zt_case *c)
{
    static const zt_case_type halves[] = {{ZT_F16, 2, {2, 33}}, {ZT_BF16, 2, {3, 64}}};
    zt_case_type t;
    int n = 0;
    while (zt_case_shape(n, 0, &t)) n++;
    if (i >= n + ZT_LEN(halves)) return false;
    if (i >= n)
        t = halves[i - n];
    else
        zt_case_shape(i, 0, &t);
    zt_case_type_in(c, 0, ZT_FILL_NORMAL, &t);
    return true;
}

static void scale_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    const zt_scale_attrs *a = attrs;
    int64_t count = zt_type_count(out->type);
    (void)t;
    for (int64_t i = 0; i < count; i++) out[0].f[i] = in[0].f[i] * a->by;
}

static bool scale_cases(int i, zt_case *c)
{
    static const double by[] = {0.125, -25.298221281347036, 1};
    zt_scale_attrs a = {.by = by[i % ZT_LEN(by)]};
    zt_case_attrs(c, &a, sizeof a);
    return unary_cases(i / ZT_LEN(by), c);
}

static void scale_vjp(zt_vjp *v)
{
    const zt_scale_attrs *a = v->attrs;
    v->dx[0] = zt_build_scale(v->e, v->dy[0], a);
}

const zt_opdef zt_op_scale = {
    .synopsis = "y[i] = x[i] * by; any plain float type, y has x's",
    .n_required = 1,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = zt_infer_same_float,
    .ref = scale_ref,
    .cases = scale_cases,
    .vjp = scale_vjp,
};

static zt_status softcap_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                               zt_type out[])
{
    const zt_softcap_attrs *a = attrs;
    if (!(a->cap > 0)) return zt_row_fail(ctx, ZT_EUSAGE, "cap is %g, not above 0", a->cap);
    return zt_infer_same_float(ctx, attrs, in, out);
}

static void softcap_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    const zt_softcap_attrs *a = attrs;
    int64_t count = zt_type_count(out->type);
    (void)t;
    for (int64_t i = 0; i < count; i++) out[0].f[i] = a->cap * tanh(in[0].f[i] / a->cap);
}

static double curve_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 10 * (double)zt_type_count(out);
}

static bool softcap_cases(int i, zt_case *c)
{
    static const double caps[] = {30, 0.5};
    zt_softcap_attrs a = {.cap = caps[i % ZT_LEN(caps)]};
    zt_case_attrs(c, &a, sizeof a);
    return unary_cases(i / ZT_LEN(caps), c);
}

/* 1 - (y / cap)^2 */
static void softcap_vjp(zt_vjp *v)
{
    const zt_softcap_attrs *a = v->attrs;
    const zt_emit *e = v->e;
    int part = zt_build_square(e, zt_build_times(e, v->out[0], 1 / a->cap));
    v->dx[0] = zt_build_mul(e, v->dy[0], zt_build_plus(e, zt_build_neg(e, part), 1));
}

const zt_opdef zt_op_softcap = {
    .synopsis = "y[i] = cap * tanh(x[i] / cap), cap > 0; any plain float type, y has x's",
    .n_required = 1,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = softcap_infer,
    .ref = softcap_ref,
    .flops = curve_flops,
    .cases = softcap_cases,
    .vjp = softcap_vjp,
};

static void silu_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    (void)attrs, (void)t;
    map(in, out, silu);
}

/* s + y (1 - s), s = sigmoid(x) */
static void silu_vjp(zt_vjp *v)
{
    const zt_emit *e = v->e;
    int s = zt_build_sigmoid(e, v->in[0]);
    int rest = zt_build_mul(e, v->out[0], zt_build_plus(e, zt_build_neg(e, s), 1));
    v->dx[0] = zt_build_mul(e, v->dy[0], zt_build_add(e, s, rest));
}

const zt_opdef zt_op_silu = {
    .synopsis = "y[i] = x[i] / (1 + exp(-x[i])); any plain float type, y has x's",
    .n_required = 1,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = zt_infer_same_float,
    .ref = silu_ref,
    .flops = curve_flops,
    .cases = unary_cases,
    .vjp = silu_vjp,
};

static zt_status gelu_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                            zt_type out[])
{
    const zt_gelu_attrs *a = attrs;
    zt_status s = zt_row_word(ctx, "form", &a->form, gelu_forms, ZT_LEN(gelu_forms));
    return s ? s : zt_infer_same_float(ctx, attrs, in, out);
}

static void gelu_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    const zt_gelu_attrs *a = attrs;
    (void)t;
    map(in, out, gelu_form(&a->form));
}

static bool gelu_cases(int i, zt_case *c)
{
    zt_gelu_attrs a = zt_gelu_defaults();
    if (i % 2) strcpy(a.form.s, "erf");
    zt_case_attrs(c, &a, sizeof a);
    return unary_cases(i / 2, c);
}

/* (1 + t)/2 + x/2 (1 - t^2) c (1 + 3 k x^2), t = tanh(c (x + k x^3)) */
static int gelu_tanh_slope(const zt_emit *e, int x)
{
    const double c = sqrt(2 / M_PI), k = 0.044715;
    int xx = zt_build_square(e, x), inner = zt_build_plus(e, zt_build_times(e, xx, k), 1);
    int t = zt_build_tanh(e, zt_build_times(e, zt_build_mul(e, x, inner), c));
    int du = zt_build_times(e, zt_build_plus(e, zt_build_times(e, xx, 3 * k), 1), c);
    int dt = zt_build_mul(e, zt_build_plus(e, zt_build_neg(e, zt_build_square(e, t)), 1), du);
    return zt_build_times(e, zt_build_plus(e, zt_build_add(e, t, zt_build_mul(e, x, dt)), 1), 0.5);
}

/* P(X < x) + x p(x) of a normal X */
static int gelu_erf_slope(const zt_emit *e, int x)
{
    int below = zt_build_times(e, zt_build_plus(e, zt_build_erf(e, zt_build_times(e, x, M_SQRT1_2)), 1), 0.5);
    int density = zt_build_times(e, zt_build_exp(e, zt_build_times(e, zt_build_square(e, x), -0.5)),
                             M_SQRT1_2 * M_2_SQRTPI / 2);
    return zt_build_add(e, below, zt_build_mul(e, x, density));
}

static void gelu_vjp(zt_vjp *v)
{
    const zt_gelu_attrs *a = v->attrs;
    int slope = gelu_form(&a->form) == gelu_erf ? gelu_erf_slope(v->e, v->in[0])
                                                : gelu_tanh_slope(v->e, v->in[0]);
    v->dx[0] = zt_build_mul(v->e, v->dy[0], slope);
}

const zt_opdef zt_op_gelu = {
    .synopsis = "y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), or form=erf: "
                "x/2 (1 + erf(x / sqrt(2))); any plain float type, y has x's",
    .n_required = 1,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = gelu_infer,
    .ref = gelu_ref,
    .flops = curve_flops,
    .cases = gelu_cases,
    .vjp = gelu_vjp,
};

/* ---- gated units (Shazeer, "GLU Variants Improve Transformer", 2020) ------------------------- */

static zt_status swiglu_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                              zt_type out[])
{
    (void)attrs;
    out[0] = *in[0];
    zt_status s = zt_row_want_float(ctx, "gate", in[0]);
    if (s || zt_type_equal(in[0], in[1])) return s;
    return zt_row_fail(ctx, ZT_ESHAPE, "gate and up are not of one type");
}

static void gate(const zt_arg *in, zt_arg *out, unary_fn *f)
{
    int64_t count = zt_type_count(out->type);
    for (int64_t i = 0; i < count; i++) out->f[i] = f(in[0].f[i]) * in[1].f[i];
}

static void swiglu_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    (void)attrs, (void)t;
    gate(in, out, silu);
}

static bool swiglu_cases(int i, zt_case *c)
{
    if (!unary_cases(i, c)) return false;
    c->in[1] = c->in[0];
    c->fill[1] = ZT_FILL_NORMAL;
    return true;
}

static void swiglu_expand(const zt_emit *e, const void *attrs, const int *in, int *out)
{
    (void)attrs;
    out[0] = zt_build_mul(e, zt_build_silu(e, in[0]), in[1]);
}

const zt_opdef zt_op_swiglu = {
    .synopsis = "y[i] = silu(gate[i]) * up[i]; gate, up and y of one plain float type and shape",
    .n_required = 2,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = swiglu_infer,
    .ref = swiglu_ref,
    .flops = curve_flops,
    .cases = swiglu_cases,
    .expand = swiglu_expand,
};

static zt_status geglu_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                             zt_type out[])
{
    const zt_geglu_attrs *a = attrs;
    zt_status s = zt_row_word(ctx, "form", &a->form, gelu_forms, ZT_LEN(gelu_forms));
    return s ? s : swiglu_infer(ctx, attrs, in, out);
}

static void geglu_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    const zt_geglu_attrs *a = attrs;
    (void)t;
    gate(in, out, gelu_form(&a->form));
}

static bool geglu_cases(int i, zt_case *c)
{
    zt_geglu_attrs a = zt_geglu_defaults();
    if (i % 2) strcpy(a.form.s, "erf");
    zt_case_attrs(c, &a, sizeof a);
    return swiglu_cases(i / 2, c);
}

static void geglu_expand(const zt_emit *e, const void *attrs, const int *in, int *out)
{
    const zt_geglu_attrs *a = attrs;
    out[0] = zt_build_mul(e, zt_build_gelu(e, in[0], &(zt_gelu_attrs){a->form}), in[1]);
}

const zt_opdef zt_op_geglu = {
    .synopsis = "y[i] = gelu(gate[i]) * up[i], gelu's form; gate, up and y of one plain float type "
                "and shape",
    .n_required = 2,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = geglu_infer,
    .ref = geglu_ref,
    .flops = curve_flops,
    .cases = geglu_cases,
    .expand = geglu_expand,
};

/* ---- the gradient of tanh ------------------------------------------------------------------- */

static zt_status tanh_prime_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                                  zt_type out[])
{
    (void)attrs;
    out[0] = *in[0];
    zt_status s = zt_row_want_float(ctx, "x", in[0]);
    if (s || zt_type_equal(in[0], in[1])) return s;
    return zt_row_fail(ctx, ZT_ESHAPE, "x and dy are not of one type");
}

static void tanh_prime_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    int64_t count = zt_type_count(out->type);
    (void)attrs, (void)t;
    for (int64_t i = 0; i < count; i++) {
        double y = tanh(in[0].f[i]);
        out->f[i] = in[1].f[i] * (1 - y * y);
    }
}

static void tanh_prime_expand(const zt_emit *e, const void *attrs, const int *in, int *out)
{
    (void)attrs;
    out[0] = zt_build_mul(e, in[1],
                      zt_build_plus(e, zt_build_neg(e, zt_build_square(e, zt_build_tanh(e, in[0]))), 1));
}

const zt_opdef zt_op_tanh_prime = {
    .synopsis = "y[i] = dy[i] (1 - tanh(x[i])^2); x, dy and y of one plain float type and shape",
    .n_required = 2,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = tanh_prime_infer,
    .ref = tanh_prime_ref,
    .flops = curve_flops,
    .cases = swiglu_cases,
    .expand = tanh_prime_expand,
};
