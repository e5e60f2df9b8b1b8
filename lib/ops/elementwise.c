/* elementwise.c - rows of the ops whose y[i] depends on the inputs' [i] only. */
#include "lib/ops/vjp.h"

#include <math.h>
#include <string.h>

static const char *const gelu_forms[] = {"tanh", "erf"};

/* ---- formulas -------------------------------------------------------------------------------- */

static double silu(double x) { return x / (1 + exp(-x)); }

/* Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016): the tanh form and the exact one. */
static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_erf(double x) { return 0.5 * x * (1 + erf(x * M_SQRT1_2)); }

typedef double unary_fn(double x);

static unary_fn *gelu_form(const zt_word *form)
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

static void scale_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)
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
    v->dx[0] = zt_e_scale(v->e, v->dy[0], a);
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

static void softcap_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)
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

const zt_opdef zt_op_softcap = {
    .synopsis = "y[i] = cap * tanh(x[i] / cap), cap > 0; any plain float type, y has x's",
    .n_required = 1,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = softcap_infer,
    .ref = softcap_ref,
    .flops = curve_flops,
    .cases = softcap_cases,
};

static void silu_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)
{
    (void)attrs, (void)t;
    map(in, out, silu);
}

const zt_opdef zt_op_silu = {
    .synopsis = "y[i] = x[i] / (1 + exp(-x[i])); any plain float type, y has x's",
    .n_required = 1,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = zt_infer_same_float,
    .ref = silu_ref,
    .flops = curve_flops,
    .cases = unary_cases,
};

static zt_status gelu_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                            zt_type out[])
{
    const zt_gelu_attrs *a = attrs;
    zt_status s = zt_row_word(ctx, "form", &a->form, gelu_forms, ZT_LEN(gelu_forms));
    return s ? s : zt_infer_same_float(ctx, attrs, in, out);
}

static void gelu_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)
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

const zt_opdef zt_op_gelu = {
    .synopsis = "y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), or form=erf: "
                "x/2 (1 + erf(x / sqrt(2))); any plain float type, y has x's",
    .n_required = 1,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = gelu_infer,
    .ref = gelu_ref,
    .flops = curve_flops,
    .cases = gelu_cases,
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

static void swiglu_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)
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

const zt_opdef zt_op_swiglu = {
    .synopsis = "y[i] = silu(gate[i]) * up[i]; gate, up and y of one plain float type and shape",
    .n_required = 2,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = swiglu_infer,
    .ref = swiglu_ref,
    .flops = curve_flops,
    .cases = swiglu_cases,
};

static zt_status geglu_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                             zt_type out[])
{
    const zt_geglu_attrs *a = attrs;
    zt_status s = zt_row_word(ctx, "form", &a->form, gelu_forms, ZT_LEN(gelu_forms));
    return s ? s : swiglu_infer(ctx, attrs, in, out);
}

static void geglu_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)
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

const zt_opdef zt_op_geglu = {
    .synopsis = "y[i] = gelu(gate[i]) * up[i], gelu's form; gate, up and y of one plain float type "
                "and shape",
    .n_required = 2,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = geglu_infer,
    .ref = geglu_ref,
    .flops = curve_flops,
    .cases = geglu_cases,
};

/* ---- broadcasting ---------------------------------------------------------------------------- */

static zt_status broadcast_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                                 zt_type out[])
{
    const zt_type *a = in[0], *b = in[1];
    (void)attrs;
    zt_status s = zt_row_want_float(ctx, "a", a);
    if (s) return s;
    if (a->dtype != b->dtype) return zt_row_fail(ctx, ZT_ESHAPE, "a and b have different dtypes");
    return zt_row_broadcast(ctx, a, b, &out[0]);
}

static double plus(double a, double b) { return a + b; }

static double minus(double a, double b) { return a - b; }

static double times(double a, double b) { return a * b; }

static void broadcast(const zt_arg *in, zt_arg *out, double (*f)(double, double))
{
    const zt_type *y = out->type;
    int64_t sa[ZT_MAX_RANK], sb[ZT_MAX_RANK], at[ZT_MAX_RANK] = {0}, a = 0, b = 0;
    int64_t count = zt_type_count(y);
    zt_row_strides(in[0].type, y, sa);
    zt_row_strides(in[1].type, y, sb);
    for (int64_t i = 0; i < count; i++) {
        out->f[i] = f(in[0].f[a], in[1].f[b]);
        for (int d = y->rank - 1; d >= 0; d--) {
            a += sa[d];
            b += sb[d];
            if (++at[d] < y->dim[d]) break;
            a -= at[d] * sa[d];
            b -= at[d] * sb[d];
            at[d] = 0;
        }
    }
}

static bool broadcast_cases(int i, zt_case *c)
{
    static const zt_case_type pairs[][2] = {
        {{ZT_F32, 2, {2, 33}}, {ZT_F32, 2, {2, 33}}},
        {{ZT_F32, 2, {9, 576}}, {ZT_F32, 2, {9, 576}}},
        {{ZT_F32, 2, {7, 576}}, {ZT_F32, 1, {576}}},
        {{ZT_F32, 1, {33}}, {ZT_F32, 2, {5, 33}}},
        {{ZT_F32, 2, {5, 33}}, {ZT_F32, 2, {5, 1}}},
        {{ZT_F32, 2, {1, 33}}, {ZT_F32, 2, {5, 1}}},
        {{ZT_F32, 3, {3, 1, 4}}, {ZT_F32, 2, {2, 1}}},
        {{ZT_F32, 0, {0}}, {ZT_F32, 1, {5}}},
        {{ZT_F32, 0, {0}}, {ZT_F32, 0, {0}}},
        {{ZT_F32, 2, {0, 4}}, {ZT_F32, 1, {4}}},
        {{ZT_F32, 2, {1, 4}}, {ZT_F32, 2, {0, 4}}},
        {{ZT_F16, 2, {3, 40}}, {ZT_F16, 1, {40}}},
        {{ZT_BF16, 2, {3, 40}}, {ZT_BF16, 2, {3, 40}}},
    };
    if (i >= ZT_LEN(pairs)) return false;
    zt_case_type_in(c, 0, ZT_FILL_NORMAL, &pairs[i][0]);
    zt_case_type_in(c, 1, ZT_FILL_NORMAL, &pairs[i][1]);
    return true;
}

static void add_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)
{
    (void)attrs, (void)t;
    broadcast(in, out, plus);
}

static void add_vjp(zt_vjp *v)
{
    for (int k = 0; k < 2; k++)
        if (v->want[k]) v->dx[k] = zt_e_reduced(v->e, v->dy[0], v->in[k]);
}

const zt_opdef zt_op_add = {
    .synopsis = "y = a + b; shapes broadcast as numpy's, a, b and y of one plain float type",
    .n_required = 2,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_COMMUTATIVE | ZT_OPF_INPLACE,
    .infer = broadcast_infer,
    .ref = add_ref,
    .cases = broadcast_cases,
    .vjp = add_vjp,
};

static void sub_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)
{
    (void)attrs, (void)t;
    broadcast(in, out, minus);
}

static void sub_vjp(zt_vjp *v)
{
    const zt_emit *e = v->e;
    if (v->want[0]) v->dx[0] = zt_e_reduced(e, v->dy[0], v->in[0]);
    if (v->want[1]) v->dx[1] = zt_e_reduced(e, zt_e_times(e, v->dy[0], -1), v->in[1]);
}

const zt_opdef zt_op_sub = {
    .synopsis = "y = a - b; shapes broadcast as numpy's, a, b and y of one plain float type",
    .n_required = 2,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = broadcast_infer,
    .ref = sub_ref,
    .cases = broadcast_cases,
    .vjp = sub_vjp,
};

static void mul_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)
{
    (void)attrs, (void)t;
    broadcast(in, out, times);
}

static void mul_vjp(zt_vjp *v)
{
    const zt_emit *e = v->e;
    for (int k = 0; k < 2; k++)
        if (v->want[k])
            v->dx[k] = zt_e_reduced(e, zt_e_mul(e, v->dy[0], v->in[1 - k]), v->in[k]);
}

const zt_opdef zt_op_mul = {
    .synopsis = "y = a * b; shapes broadcast as numpy's, a, b and y of one plain float type",
    .n_required = 2,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_COMMUTATIVE | ZT_OPF_INPLACE,
    .infer = broadcast_infer,
    .ref = mul_ref,
    .cases = broadcast_cases,
    .vjp = mul_vjp,
};

/* ---- cast ------------------------------------------------------------------------------------ */

static zt_status cast_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                            zt_type out[])
{
    const zt_cast_attrs *a = attrs;
    zt_dtype to;
    char text[4 * sizeof a->to.s + 1];
    size_t len = strnlen(a->to.s, sizeof a->to.s);
    if (!zt_dtype_parse(a->to.s, len, &to))
        return zt_row_fail(ctx, ZT_EUSAGE, "to is '%s', which is no dtype",
                           zt_escape(text, sizeof text, a->to.s, len));
    const zt_dtype_info *from_info = zt_dtype_get(in[0]->dtype), *to_info = zt_dtype_get(to);
    bool widens = from_info->kind != 'F' && from_info->kind != 'Q' && to_info->kind == 'I' &&
                  (to_info->block_bytes > from_info->block_bytes ||
                   (to == in[0]->dtype || from_info->kind == 'B'));
    if (to_info->kind != 'F' && !widens)
        return zt_row_fail(ctx, ZT_ESHAPE, "%s may lose values of %s", to_info->name,
                           from_info->name);
    out[0] = *in[0];
    out[0].dtype = to;
    return ZT_OK;
}

static void cast_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)
{
    (void)attrs, (void)t;
    int64_t count = zt_type_count(out->type);
    for (int64_t i = 0; i < count; i++) {
        if (in[0].f)
            out[0].f[i] = in[0].f[i];
        else if (out[0].f)
            out[0].f[i] = (double)in[0].i[i];
        else
            out[0].i[i] = in[0].i[i];
    }
}

static bool cast_cases(int i, zt_case *c)
{
    static const struct {
        zt_case_type x;
        zt_fill fill;
        const char *to;
    } rows[] = {
        {{ZT_F32, 2, {2, 33}}, ZT_FILL_NORMAL, "f16"},
        {{ZT_F32, 2, {5, 64}}, ZT_FILL_NORMAL, "bf16"},
        {{ZT_F32, 1, {7}}, ZT_FILL_NORMAL, "f32"},
        {{ZT_F16, 2, {9, 65}}, ZT_FILL_NORMAL, "f32"},
        {{ZT_BF16, 2, {9, 65}}, ZT_FILL_NORMAL, "f32"},
        {{ZT_F16, 1, {33}}, ZT_FILL_NORMAL, "bf16"},
        {{ZT_I32, 1, {33}}, ZT_FILL_IDS, "f32"},
        {{ZT_U8, 2, {3, 5}}, ZT_FILL_IDS, "f32"},
        {{ZT_I32, 1, {7}}, ZT_FILL_IDS, "i64"},
        {{ZT_F32, 2, {0, 8}}, ZT_FILL_NORMAL, "f16"},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_cast_attrs a = zt_cast_defaults();
    memset(&a, 0, sizeof a);
    memcpy(a.to.s, rows[i].to, strlen(rows[i].to));
    zt_case_attrs(c, &a, sizeof a);
    zt_case_type_in(c, 0, rows[i].fill, &rows[i].x);
    c->limit[0] = 100;
    return true;
}

const zt_opdef zt_op_cast = {
    .synopsis = "y[i] = x[i] as dtype `to`, rounded to nearest even: anything to f64 f32 f16 bf16, "
                "integers and bool to wider integers",
    .n_required = 1,
    .flags = ZT_OPF_ELEMENTWISE,
    .infer = cast_infer,
    .ref = cast_ref,
    .cases = cast_cases,
};
