/* onnx_elementwise.h - how the ops of golden/ops/onnx are spelled in zt: elementwise operators. */
#ifndef ZT_SPELL_ONNX_ELEMENTWISE_H
#define ZT_SPELL_ONNX_ELEMENTWISE_H

#include "tests/ops/spell/spell.h"

/* ---- casts on the way ------------------------------------------------------------------------ */

static int onnx_as(const call *node, int x, zt_dtype t)
{
    zt_cast_attrs a = zt_cast_defaults();
    snprintf(a.to.s, sizeof a.to.s, "%s", zt_dtype_get(t)->name);
    return zt_program_cast(node->p, NULL, x, &a);
}

static bool onnx_is_float(const call *node, int i) { return zt_dtype_is_float(node->type[i].dtype); }

/* ---- one input ------------------------------------------------------------------------------- */

/* The same elements: a reshape to x's own shape. */
static int build_identity(const call *node) { return reshaped(node, node->in[0], node->type[0].rank, node->type[0].dim); }

/* Ends are inputs, and NaN stays; with neither end x is itself. */
static int build_clip(const call *node)
{
    int y = node->in[0];
    if (given(node, 1)) y = zt_program_max(node->p, NULL, y, node->in[1]);
    if (given(node, 2)) y = zt_program_min(node->p, NULL, y, node->in[2]);
    return y == node->in[0] ? build_identity(node) : y;
}

static int build_elu(const call *node)
{
    return zt_program_elu(node->p, NULL, node->in[0], &(zt_elu_attrs){number_or(node, "alpha", 1)});
}

static int build_gelu(const call *node)
{
    zt_gelu_attrs a = zt_gelu_defaults();
    if (!word_is(node, "approximate", "tanh")) a = (zt_gelu_attrs){{"erf"}};
    return zt_program_gelu(node->p, NULL, node->in[0], &a);
}

static int build_leaky_relu(const call *node)
{
    return zt_program_leaky_relu(node->p, NULL, node->in[0], &(zt_leaky_relu_attrs){number_or(node, "alpha", 0.01)});
}

static int build_selu(const call *node)
{
    zt_selu_attrs a = zt_selu_defaults();
    a.alpha = number_or(node, "alpha", a.alpha);
    a.gamma = number_or(node, "gamma", a.gamma);
    return zt_program_selu(node->p, NULL, node->in[0], &a);
}

/* Integers go by f64 and come back as numpy casts them. */
static int build_shrink(const call *node)
{
    zt_shrink_attrs a = {number_or(node, "lambd", 0.5), number(node, "bias")};
    if (onnx_is_float(node, 0)) return zt_program_shrink(node->p, NULL, node->in[0], &a);
    int y = zt_program_shrink(node->p, NULL, onnx_as(node, node->in[0], ZT_F64), &a);
    return onnx_as(node, y, node->type[0].dtype);
}

static int build_erf(const call *node)
{
    if (onnx_is_float(node, 0)) return zt_program_erf(node->p, NULL, node->in[0]);
    int y = zt_program_erf(node->p, NULL, onnx_as(node, node->in[0], ZT_F64));
    return onnx_as(node, y, node->type[0].dtype);
}

static int build_isinf(const call *node)
{
    zt_isinf_attrs a = {int_or(node, "detect_negative", 1), int_or(node, "detect_positive", 1)};
    return zt_program_isinf(node->p, NULL, node->in[0], &a);
}

/* x / (1 + exp(-alpha x)) */
static int build_swish(const call *node)
{
    int x = node->in[0];
    double alpha = number_or(node, "alpha", 1);
    if (alpha == 1) return zt_program_silu(node->p, NULL, x);
    int gate = zt_program_sigmoid(node->p, NULL, zt_program_scale(node->p, NULL, x, &(zt_scale_attrs){alpha}));
    return zt_program_mul(node->p, NULL, x, gate);
}

/* ---- two inputs and more --------------------------------------------------------------------- */

/* Of integers: max(x, 0) + slope min(x, 0). */
static int build_prelu(const call *node)
{
    zt_prog *program = node->p;
    int x = node->in[0], slope = node->in[1];
    if (onnx_is_float(node, 0)) return zt_program_prelu(program, NULL, x, slope);
    int zero = zt_program_sub(program, NULL, x, x);
    int below = zt_program_mul(program, NULL, slope, zt_program_min(program, NULL, x, zero));
    return zt_program_add(program, NULL, zt_program_max(program, NULL, x, zero), below);
}

typedef int onnx_pair(zt_prog *p, const char *name, int a, int b);

static int onnx_fold(const call *node, onnx_pair *f)
{
    int y = node->in[0];
    for (int i = 1; i < node->n_in; i++) y = f(node->p, NULL, y, node->in[i]);
    return node->n_in == 1 ? build_identity(node) : y;
}

static int build_maximum(const call *node) { return onnx_fold(node, zt_program_max); }
static int build_minimum(const call *node) { return onnx_fold(node, zt_program_min); }
static int build_total(const call *node) { return onnx_fold(node, zt_program_add); }

static int build_average(const call *node)
{
    return zt_program_scale(node->p, NULL, build_total(node), &(zt_scale_attrs){1.0 / node->n_in});
}

static int build_modulo(const call *node)
{
    return (int_or(node, "fmod", 0) ? zt_program_fmod : zt_program_mod)(node->p, NULL, node->in[0], node->in[1]);
}

static int build_bit_shift(const call *node)
{
    bool left = word_is(node, "direction", "LEFT");
    return (left ? zt_program_shift_left : zt_program_shift_right)(node->p, NULL, node->in[0], node->in[1]);
}

/* The exponent may be of another type; y has the base's. What are not both floats go by f64. */
static int build_power(const call *node)
{
    zt_dtype a = node->type[0].dtype, b = node->type[1].dtype;
    if (a == b && onnx_is_float(node, 0)) return zt_program_pow(node->p, NULL, node->in[0], node->in[1]);
    int y = zt_program_pow(node->p, NULL, onnx_as(node, node->in[0], ZT_F64), onnx_as(node, node->in[1], ZT_F64));
    return onnx_as(node, y, a);
}

/* Gate and linear part are inputs; alpha of the gate's swish is 1 unless given. */
static int build_onnx_swiglu(const call *node)
{
    double alpha = number_or(node, "alpha", 1);
    if (alpha == 1) return zt_program_swiglu(node->p, NULL, node->in[0], node->in[1]);
    return zt_program_mul(node->p, NULL, build_swish(node), node->in[1]);
}

/* ---- the list -------------------------------------------------------------------------------- */

static const spelling onnx_elementwise_ops[] = {
    {"Abs", .op = ZT_OP_abs},
    {"Acos", .op = ZT_OP_acos},
    {"Acosh", .op = ZT_OP_acosh},
    {"Add", .op = ZT_OP_add},
    {"And", .op = ZT_OP_logical_and},
    {"Asin", .op = ZT_OP_asin},
    {"Asinh", .op = ZT_OP_asinh},
    {"Atan", .op = ZT_OP_atan},
    {"Atanh", .op = ZT_OP_atanh},
    {"BitShift", .build = build_bit_shift},
    {"BitwiseAnd", .op = ZT_OP_bitwise_and},
    {"BitwiseNot", .op = ZT_OP_bitwise_not},
    {"BitwiseOr", .op = ZT_OP_bitwise_or},
    {"BitwiseXor", .op = ZT_OP_bitwise_xor},
    {"Ceil", .op = ZT_OP_ceil},
    {"Celu", .op = ZT_OP_celu},
    {"Clip", .build = build_clip},
    {"Cos", .op = ZT_OP_cos},
    {"Cosh", .op = ZT_OP_cosh},
    {"Div", .op = ZT_OP_div},
    {"Elu", .build = build_elu},
    {"Equal", .op = ZT_OP_eq},
    {"Erf", .build = build_erf},
    {"Exp", .op = ZT_OP_exp},
    {"Floor", .op = ZT_OP_floor},
    {"Gelu", .build = build_gelu},
    {"Greater", .op = ZT_OP_gt},
    {"GreaterOrEqual", .op = ZT_OP_ge},
    {"HardSigmoid", .op = ZT_OP_hard_sigmoid},
    {"HardSwish", .op = ZT_OP_hard_swish},
    {"Identity", .build = build_identity, .exact = true},
    {"IsInf", .build = build_isinf},
    {"IsNaN", .op = ZT_OP_isnan},
    {"LeakyRelu", .build = build_leaky_relu},
    {"Less", .op = ZT_OP_lt},
    {"LessOrEqual", .op = ZT_OP_le},
    {"Log", .op = ZT_OP_log},
    {"Max", .build = build_maximum},
    {"Mean", .build = build_average},
    {"Min", .build = build_minimum},
    {"Mish", .op = ZT_OP_mish},
    {"Mod", .build = build_modulo},
    {"Mul", .op = ZT_OP_mul},
    {"Neg", .op = ZT_OP_neg},
    {"Not", .op = ZT_OP_logical_not},
    {"Or", .op = ZT_OP_logical_or},
    {"PRelu", .build = build_prelu},
    {"Pow", .build = build_power},
    {"Reciprocal", .op = ZT_OP_recip},
    {"Relu", .op = ZT_OP_relu},
    {"Round", .op = ZT_OP_round},
    {"Selu", .build = build_selu},
    {"Shrink", .build = build_shrink},
    {"Sigmoid", .op = ZT_OP_sigmoid},
    {"Sign", .op = ZT_OP_sign},
    {"Sin", .op = ZT_OP_sin},
    {"Sinh", .op = ZT_OP_sinh},
    {"Softplus", .op = ZT_OP_softplus},
    {"Softsign", .op = ZT_OP_softsign},
    {"Sqrt", .op = ZT_OP_sqrt},
    {"Sub", .op = ZT_OP_sub},
    {"Sum", .build = build_total},
    {"SwiGLU", .build = build_onnx_swiglu},
    {"Swish", .build = build_swish},
    {"Tan", .op = ZT_OP_tan},
    {"Tanh", .op = ZT_OP_tanh},
    {"ThresholdedRelu", .op = ZT_OP_thresholded_relu},
    {"Where", .op = ZT_OP_where},
    {"Xor", .op = ZT_OP_logical_xor},
};

#endif
