/* elementwise.c - ops of single elements: functions of one float and of two; functions of integers, tests, where, casts
 * and fills of any plain type. */
#include "lib/engine/vulkan/vk.h"

#include <stdio.h>
#include <string.h>

static uint32_t float_bits(double number)
{
    float single = (float)number;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return bits;
}

/* ---- one float ------------------------------------------------------------------------------- */

/* The place in the table is the number in shaders/function_of.glsl; `at` are attributes that it takes, f64 (of isinf
 * i64), by their places in the op's struct, as many as are not below 0. The last rows are of chains alone. */
#define AT(op, field) (int)offsetof(zt_##op##_attrs, field)
static const struct {
    zt_op op;
    int at[2];
    const char *form; /* of gelu */
    bool contract;    /* of f32: the bits of docs/arithmetic.md */
} functions[] = {
    {ZT_OP_scale, {AT(scale, by), -1}, NULL, true},
    {ZT_OP_softcap, {AT(softcap, cap), -1}, NULL, false},
    {ZT_OP_silu, {-1, -1}, NULL, false},
    {ZT_OP_gelu, {-1, -1}, "tanh", false},
    {ZT_OP_gelu, {-1, -1}, "erf", false},
    {ZT_OP_neg, {-1, -1}, NULL, true},
    {ZT_OP_abs, {-1, -1}, NULL, true},
    {ZT_OP_square, {-1, -1}, NULL, true},
    {ZT_OP_sqrt, {-1, -1}, NULL, true},
    {ZT_OP_recip, {-1, -1}, NULL, true},
    {ZT_OP_exp, {-1, -1}, NULL, false},
    {ZT_OP_tanh, {-1, -1}, NULL, false},
    {ZT_OP_sigmoid, {-1, -1}, NULL, false},
    {ZT_OP_relu, {-1, -1}, NULL, true},
    {ZT_OP_erf, {-1, -1}, NULL, false},
    {ZT_OP_clamp, {AT(clamp, lo), AT(clamp, hi)}, NULL, true},
    {ZT_OP_add_scalar, {AT(add_scalar, by), -1}, NULL, true},
    {ZT_OP_leaky_relu, {AT(leaky_relu, alpha), -1}, NULL, false},
    {ZT_OP_sign, {-1, -1}, NULL, true},
    {ZT_OP_floor, {-1, -1}, NULL, true},
    {ZT_OP_ceil, {-1, -1}, NULL, true},
    {ZT_OP_round, {-1, -1}, NULL, true},
    {ZT_OP_rsqrt, {-1, -1}, NULL, false},
    {ZT_OP_expm1, {-1, -1}, NULL, false},
    {ZT_OP_log, {-1, -1}, NULL, false},
    {ZT_OP_log1p, {-1, -1}, NULL, false},
    {ZT_OP_sin, {-1, -1}, NULL, false},
    {ZT_OP_cos, {-1, -1}, NULL, false},
    {ZT_OP_tan, {-1, -1}, NULL, false},
    {ZT_OP_softplus, {-1, -1}, NULL, false},
    {ZT_OP_elu, {AT(elu, alpha), -1}, NULL, false},
    {ZT_OP_safe_log, {AT(safe_log, eps), -1}, NULL, false},
    {ZT_OP_pow_scalar, {AT(pow_scalar, exponent), -1}, NULL, false},
    {ZT_OP_asin, {-1, -1}, NULL, false},
    {ZT_OP_acos, {-1, -1}, NULL, false},
    {ZT_OP_atan, {-1, -1}, NULL, false},
    {ZT_OP_sinh, {-1, -1}, NULL, false},
    {ZT_OP_cosh, {-1, -1}, NULL, false},
    {ZT_OP_asinh, {-1, -1}, NULL, false},
    {ZT_OP_acosh, {-1, -1}, NULL, false},
    {ZT_OP_atanh, {-1, -1}, NULL, false},
    {ZT_OP_celu, {AT(celu, alpha), -1}, NULL, false},
    {ZT_OP_selu, {AT(selu, alpha), AT(selu, gamma)}, NULL, false},
    {ZT_OP_hard_sigmoid, {AT(hard_sigmoid, alpha), AT(hard_sigmoid, beta)}, NULL, false},
    {ZT_OP_hard_swish, {-1, -1}, NULL, false},
    {ZT_OP_mish, {-1, -1}, NULL, false},
    {ZT_OP_softsign, {-1, -1}, NULL, false},
    {ZT_OP_shrink, {AT(shrink, lambd), AT(shrink, bias)}, NULL, false},
    {ZT_OP_thresholded_relu, {AT(thresholded_relu, alpha), -1}, NULL, false},
    {ZT_OP_isnan, {-1, -1}, NULL, true},
    {ZT_OP_isinf, {AT(isinf, negative), AT(isinf, positive)}, NULL, true},
    {ZT_OP_isfinite, {-1, -1}, NULL, true},
    {ZT_OP_logical_not, {-1, -1}, NULL, true},
    {ZT_OP_cast, {-1, -1}, NULL, true},
};

static int function_of(zt_op op, const void *attrs)
{
    for (int i = 0; i < (int)(sizeof functions / sizeof functions[0]); i++)
        if (functions[i].op == op && (!functions[i].form || !strcmp(((const zt_gelu_attrs *)attrs)->form.s, functions[i].form)))
            return i;
    return -1;
}

static void take_attrs(int kind, const void *attrs, double value[2])
{
    for (int i = 0; i < 2; i++) {
        int64_t whole = 0;
        value[i] = 0;
        if (functions[kind].at[i] < 0) continue;
        memcpy(&value[i], (const char *)attrs + functions[kind].at[i], sizeof value[i]);
        memcpy(&whole, &value[i], sizeof whole);
        if (functions[kind].op == ZT_OP_isinf) value[i] = (double)whole;
    }
    if (functions[kind].op == ZT_OP_scale) value[1] = value[0] - (double)(float)value[0]; /* what a float leaves out */
}

static zt_status set_unary(zt_vk_engine *engine, zt_vk_call *call, int kind)
{
    int64_t element_count = zt_type_count(call->out);
    double value[2];
    call->shader = ZT_VK_SHADER_elementwise_unary;
    call->spec[0] = (uint32_t)kind;
    call->word[0] = (uint32_t)element_count;
    take_attrs(kind, call->attrs, value);
    for (int i = 0; i < 2; i++) zt_vk_put_number(call, 1 + i, 3 + 2 * i, value[i]);
    zt_vk_spread(engine, call, element_count, 64);
    return ZT_OK;
}

/* ---- two floats ------------------------------------------------------------------------------ */

/* The place is the number in shaders/function_of.glsl; the last rows are of chains alone, `where` of three. */
static const struct {
    zt_op op;
    const char *form; /* of geglu */
    bool contract;    /* of f32: the bits of docs/arithmetic.md */
} pairs[] = {
    {ZT_OP_add, NULL, true},        {ZT_OP_sub, NULL, true},         {ZT_OP_mul, NULL, true},
    {ZT_OP_div, NULL, true},        {ZT_OP_max, NULL, true},         {ZT_OP_min, NULL, true},
    {ZT_OP_swiglu, NULL, true},     {ZT_OP_geglu, "tanh", true},     {ZT_OP_geglu, "erf", false},
    {ZT_OP_pow, NULL, false},       {ZT_OP_mod, NULL, false},        {ZT_OP_fmod, NULL, false},
    {ZT_OP_prelu, NULL, true},      {ZT_OP_tanh_prime, NULL, false}, {ZT_OP_eq, NULL, true},
    {ZT_OP_ne, NULL, true},         {ZT_OP_lt, NULL, true},          {ZT_OP_le, NULL, true},
    {ZT_OP_gt, NULL, true},         {ZT_OP_ge, NULL, true},          {ZT_OP_logical_and, NULL, true},
    {ZT_OP_logical_or, NULL, true}, {ZT_OP_logical_xor, NULL, true}, {ZT_OP_where, NULL, true},
};

static int pair_of(zt_op op, const void *attrs)
{
    for (int i = 0; i < (int)(sizeof pairs / sizeof pairs[0]); i++)
        if (pairs[i].op == op && (!pairs[i].form || !strcmp(((const zt_geglu_attrs *)attrs)->form.s, pairs[i].form))) return i;
    return -1;
}

static zt_status set_binary(zt_vk_engine *engine, zt_vk_call *call, int kind)
{
    call->shader = ZT_VK_SHADER_elementwise_binary;
    call->spec[0] = (uint32_t)kind;
    return zt_vk_set_strides(engine, call, 2, call->out);
}

/* ---- elements of any plain type -------------------------------------------------------------- */

/* The constant KIND of shaders/elementwise_values.comp; the last two are of shaders/pointwise_values.comp alone. */
enum { ONE_INTEGER, TWO_INTEGERS, TEST, WHERE, CAST, FILL, FLOAT, TWO_FLOATS };

/* Functions by their numbers in shaders/elements.glsl. */
static const struct {
    zt_op op;
    int kind;
    uint32_t function;
} values[] = {
    {ZT_OP_neg, ONE_INTEGER, 0},
    {ZT_OP_abs, ONE_INTEGER, 1},
    {ZT_OP_sign, ONE_INTEGER, 2},
    {ZT_OP_square, ONE_INTEGER, 3},
    {ZT_OP_relu, ONE_INTEGER, 4},
    {ZT_OP_bitwise_not, ONE_INTEGER, 5},
    {ZT_OP_scale, ONE_INTEGER, 6},
    {ZT_OP_add, TWO_INTEGERS, 0},
    {ZT_OP_sub, TWO_INTEGERS, 1},
    {ZT_OP_mul, TWO_INTEGERS, 2},
    {ZT_OP_div, TWO_INTEGERS, 3},
    {ZT_OP_mod, TWO_INTEGERS, 4},
    {ZT_OP_fmod, TWO_INTEGERS, 5},
    {ZT_OP_max, TWO_INTEGERS, 6},
    {ZT_OP_min, TWO_INTEGERS, 7},
    {ZT_OP_pow, TWO_INTEGERS, 8},
    {ZT_OP_bitwise_and, TWO_INTEGERS, 9},
    {ZT_OP_bitwise_or, TWO_INTEGERS, 10},
    {ZT_OP_bitwise_xor, TWO_INTEGERS, 11},
    {ZT_OP_shift_left, TWO_INTEGERS, 12},
    {ZT_OP_shift_right, TWO_INTEGERS, 13},
    {ZT_OP_eq, TEST, 0},
    {ZT_OP_ne, TEST, 1},
    {ZT_OP_lt, TEST, 2},
    {ZT_OP_le, TEST, 3},
    {ZT_OP_gt, TEST, 4},
    {ZT_OP_ge, TEST, 5},
    {ZT_OP_logical_and, TEST, 6},
    {ZT_OP_logical_or, TEST, 7},
    {ZT_OP_logical_xor, TEST, 8},
    {ZT_OP_logical_not, TEST, 9},
    {ZT_OP_isnan, TEST, 10},
    {ZT_OP_isinf, TEST, 11},
    {ZT_OP_isfinite, TEST, 12},
    {ZT_OP_where, WHERE, 0},
    {ZT_OP_cast, CAST, 0},
    {ZT_OP_fill_like, FILL, 0},
};

static int value_row_of(zt_op op)
{
    for (int i = 0; i < (int)(sizeof values / sizeof values[0]); i++)
        if (values[i].op == op) return i;
    return -1;
}

static bool is_integer(zt_dtype dtype) { return dtype >= ZT_I64 && dtype <= ZT_U8; }

/* f8_e8m0 is only read: an attribute of the cast says how it is rounded to. */
static bool values_have(int row, const zt_type *const input_types[], const zt_type *out)
{
    const int kind = values[row].kind;
    for (int k = 0; k < zt_op_info(values[row].op)->n_in; k++)
        if (input_types[k] && !zt_vk_is_value(input_types[k]->dtype)) return false;
    if (kind == ONE_INTEGER || kind == TWO_INTEGERS) return is_integer(out->dtype);
    return zt_vk_is_value(out->dtype) && ((kind != CAST && kind != FILL) || out->dtype != ZT_F8_E8M0);
}

void zt_vk_value_bits(zt_dtype dtype, double value, uint32_t bits[2])
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    const float single = dtype == ZT_F32 ? (float)value : zt_f64_to_f32_odd(value);
    const bool fits = value >= -0x1p63 && value < 0x1p63;
    const int64_t whole = dtype == ZT_BOOL ? value != 0 : fits ? (int64_t)value : 0;
    memset(bits, 0, 2 * sizeof *bits);
    if (dtype == ZT_F64)
        memcpy(bits, &value, sizeof value);
    else if (info->kind == 'F')
        info->encode(&single, bits, 1);
    else
        memcpy(bits, &whole, sizeof whole);
}

/* An op's attributes in two words, as shaders/elements.glsl wants them. */
static void put_value_attrs(zt_op op, const void *attrs, zt_dtype to, uint32_t word[2])
{
    if (op == ZT_OP_scale) zt_vk_value_bits(ZT_I64, ((const zt_scale_attrs *)attrs)->by, word);
    if (op == ZT_OP_fill_like) zt_vk_value_bits(to, ((const zt_fill_like_attrs *)attrs)->value, word);
    if (op == ZT_OP_cast) word[0] = ((const zt_cast_attrs *)attrs)->saturate != 0;
    if (op != ZT_OP_isinf) return;
    word[0] = ((const zt_isinf_attrs *)attrs)->negative != 0;
    word[1] = ((const zt_isinf_attrs *)attrs)->positive != 0;
}

static zt_status set_values(zt_vk_engine *engine, zt_vk_call *call, int row)
{
    const zt_op op = values[row].op;
    const int inputs = zt_op_info(op)->n_in;
    zt_status status = zt_vk_set_strides(engine, call, inputs, call->out);
    call->shader = ZT_VK_SHADER_elementwise_values;
    call->spec[0] = (uint32_t)values[row].kind;
    call->spec[ZT_VK_FLOATS] = 0; /* types are in words */
    call->word[5] = values[row].function;
    call->word[6] = (uint32_t)call->in[values[row].kind == WHERE]->dtype;
    call->word[7] = (uint32_t)call->out->dtype;
    call->word[8] = (uint32_t)call->in[0]->dtype;
    call->word[9] = (uint32_t)inputs;
    put_value_attrs(op, call->attrs, call->out->dtype, call->word + 10);
    return status;
}

/* ---- an op ----------------------------------------------------------------------------------- */

/* Are all f32, or f16, or bf16? */
static bool are_floats(zt_op op, const zt_type *const input_types[], const zt_type *out)
{
    bool good = zt_vk_is_float(out->dtype) && op != ZT_OP_fill_like && op != ZT_OP_cast && op != ZT_OP_where;
    for (int k = 0; k < zt_op_info(op)->n_in && good; k++) good = input_types[k]->dtype == out->dtype;
    return good;
}

/* Are all f64, which twins of the shaders of floats compute in? */
static bool are_doubles(zt_op op, const zt_type *const input_types[], const zt_type *out)
{
    bool good = out->dtype == ZT_F64 && op != ZT_OP_fill_like && op != ZT_OP_cast && op != ZT_OP_where;
    for (int k = 0; k < zt_op_info(op)->n_in && good; k++) good = input_types[k]->dtype == ZT_F64;
    return good;
}

static bool has_op(zt_op op, const void *attrs, const zt_type *const input_types[], const zt_type *out, bool doubles)
{
    const int row = value_row_of(op);
    if (are_floats(op, input_types, out) || (doubles && are_doubles(op, input_types, out)))
        return function_of(op, attrs) >= 0 || pair_of(op, attrs) >= 0;
    return row >= 0 && values_have(row, input_types, out);
}

bool zt_vk_function_contract(int function)
{
    if (function < 0) return false;
    return function < ZT_VK_PAIRS ? functions[function].contract : pairs[function - ZT_VK_PAIRS].contract;
}

/* What is not computed in floats is exact. */
static bool has_contract(zt_op op, const void *attrs, const zt_type *const input_types[], const zt_type *out)
{
    if (!are_floats(op, input_types, out)) return true;
    return out->dtype == ZT_F32 && zt_vk_function_contract(zt_vk_function(op, attrs, NULL));
}

static zt_status set_op(zt_vk_engine *engine, zt_vk_call *call, zt_op op)
{
    if (!are_floats(op, call->in, call->out) && !are_doubles(op, call->in, call->out))
        return set_values(engine, call, value_row_of(op));
    const int function = function_of(op, call->attrs);
    return function >= 0 ? set_unary(engine, call, function) : set_binary(engine, call, pair_of(op, call->attrs));
}

// clang-format off
#define OPS(X)                                                                                                                   \
    X(scale) X(softcap) X(silu) X(gelu) X(neg) X(abs) X(square) X(sqrt) X(recip) X(exp) X(tanh) X(sigmoid) X(relu)               \
    X(erf) X(clamp) X(add_scalar) X(leaky_relu) X(sign) X(floor) X(ceil) X(round) X(rsqrt) X(expm1) X(log) X(log1p)              \
    X(sin) X(cos) X(tan) X(softplus) X(elu) X(safe_log) X(pow_scalar) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(asinh)           \
    X(acosh) X(atanh) X(celu) X(selu) X(hard_sigmoid) X(hard_swish) X(mish) X(softsign) X(shrink) X(thresholded_relu)            \
    X(add) X(sub) X(mul) X(div) X(max) X(min) X(swiglu) X(pow) X(mod) X(fmod) X(prelu) X(tanh_prime) X(geglu)                    \
    X(bitwise_and) X(bitwise_or) X(bitwise_xor) X(bitwise_not) X(shift_left) X(shift_right) X(eq) X(ne) X(lt) X(le)              \
    X(gt) X(ge) X(logical_and) X(logical_or) X(logical_xor) X(logical_not) X(isnan) X(isinf) X(isfinite) X(where)                \
    X(cast)
#define X(NAME)                                                                                                                  \
    static bool NAME##_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const in[], const zt_type out[])        \
    {                                                                                                                            \
        return has_op(ZT_OP_##NAME, attrs, in, out, engine->doubles);                                                            \
    }                                                                                                                            \
    static zt_status set_##NAME(zt_vk_engine *engine, zt_vk_call *call) { return set_op(engine, call, ZT_OP_##NAME); }
OPS(X)
X(fill_like)
#undef X
#define X(NAME)                                                                                                                  \
    static bool NAME##_contract(const zt_vk_engine *engine, const void *attrs, const zt_type *const in[], const zt_type out[])   \
    {                                                                                                                            \
        (void)engine;                                                                                                            \
        return has_contract(ZT_OP_##NAME, attrs, in, out);                                                                       \
    }
OPS(X)
#undef X
// clang-format on

/* ---- casts from and to types of more than one element a byte or a block ---------------------- */

zt_status zt_vk_set_cast(zt_vk_engine *engine, zt_vk_call *call, int64_t count, zt_vk_arg x, zt_dtype from, zt_vk_arg y,
                         zt_dtype to)
{
    call->shader = ZT_VK_SHADER_elementwise_values;
    call->spec[0] = CAST;
    call->spec[ZT_VK_FLOATS] = 0;
    call->word[0] = (uint32_t)count;
    call->word[1] = call->word[2] = 1; /* one axis, in steps of 1 */
    call->word[6] = (uint32_t)from;
    call->word[7] = (uint32_t)to;
    call->word[9] = 1;
    call->word[10] = true;
    zt_vk_spread(engine, call, count, 64);
    ZT_VK_ARGS(call, x, y);
    return ZT_OK;
}

static bool from_packed_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)engine, (void)attrs;
    return zt_dtype_is_packed(in[0]->dtype) && zt_vk_is_value(out->dtype) && out->dtype != ZT_F8_E8M0;
}

static zt_status set_from_packed(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_cast_attrs *attrs = call->attrs;
    zt_status status =
        zt_vk_set_cast(engine, call, zt_type_count(call->out), zt_vk_in(0), call->in[0]->dtype, zt_vk_out(0), call->out->dtype);
    call->word[10] = attrs->saturate != 0;
    return status;
}

static bool to_packed_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)engine, (void)attrs;
    return zt_dtype_is_packed(out->dtype) && (zt_vk_is_value(in[0]->dtype) || zt_dtype_is_packed(in[0]->dtype));
}

static zt_status set_to_packed(zt_vk_engine *engine, zt_vk_call *call)
{
    const size_t bytes = zt_type_bytes(call->out);
    call->shader = ZT_VK_SHADER_elementwise_packed;
    call->spec[ZT_VK_FLOATS] = 0;
    call->word[0] = (uint32_t)bytes;
    call->word[1] = (uint32_t)zt_type_count(call->out);
    call->word[2] = (uint32_t)call->in[0]->dtype;
    call->word[3] = (uint32_t)call->out->dtype;
    zt_vk_spread(engine, call, (int64_t)bytes, 64);
    return ZT_OK;
}

static bool from_blocks_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)engine, (void)attrs;
    return zt_vk_pack_of(in[0]->dtype) && zt_dtype_get(in[0]->dtype)->kind == 'Q' && zt_vk_is_value(out->dtype) &&
           out->dtype != ZT_F8_E8M0;
}

/* To f32, and from that to other types. */
static zt_status set_from_blocks(zt_vk_engine *engine, zt_vk_call *call)
{
    const int64_t count = zt_type_count(call->out), columns = zt_vk_last_dim(call->out), parts = (columns + 31) / 32;
    const bool whole = call->out->dtype == ZT_F32;
    const zt_vk_arg floats = whole ? zt_vk_out(0) : zt_vk_scratch(call, 4 * (size_t)count);
    call->shader = ZT_VK_SHADER_elementwise_blocks;
    call->spec[0] = (uint32_t)call->packed[0];
    call->spec[3] = call->plain[0];
    call->spec[ZT_VK_FLOATS] = 0;
    call->word[0] = columns ? (uint32_t)(count / columns * parts) : 0;
    call->word[1] = (uint32_t)columns;
    call->word[2] =
        (uint32_t)(call->out->rank > 1 && call->out->dim[call->out->rank - 2] ? call->out->dim[call->out->rank - 2] : 1);
    zt_vk_spread(engine, call, (int64_t)call->word[0], 64);
    ZT_VK_ARGS(call, zt_vk_in(0), floats, zt_vk_none(), zt_vk_none(), zt_vk_none(), zt_vk_grid(call, 0));
    zt_status status = zt_vk_put_grids(engine, call);
    if (whole || status) return status;
    status = zt_vk_then(engine, call);
    if (!status) status = zt_vk_set_cast(engine, call, count, floats, ZT_F32, zt_vk_out(0), call->out->dtype);
    call->word[10] = ((const zt_cast_attrs *)call->attrs)->saturate != 0;
    return status;
}

/* ---- for chains ------------------------------------------------------------------------------ */

int zt_vk_function(zt_op op, const void *attrs, double at[2])
{
    int function = function_of(op, attrs), pair = pair_of(op, attrs);
    if (at) at[0] = at[1] = 0;
    if (function >= 0 && at) take_attrs(function, attrs, at);
    return function >= 0 ? function : pair >= 0 ? ZT_VK_PAIRS + pair : -1;
}

bool zt_vk_function_name(int function, char *name, size_t bytes)
{
    int pair = function - ZT_VK_PAIRS;
    const bool one = function < (int)(sizeof functions / sizeof functions[0]);
    if (!one && (pair < 0 || pair >= (int)(sizeof pairs / sizeof pairs[0]))) return false;
    const char *form = one ? functions[function].form : pairs[pair].form;
    snprintf(name, bytes, "f_%s%s%s", zt_op_info(one ? functions[function].op : pairs[pair].op)->name, form ? "_" : "",
             form ? form : "");
    return true;
}

bool zt_vk_chain_words(zt_op op, const void *attrs, const zt_type *const input_types[], const zt_type *out, uint32_t word[4])
{
    const int row = value_row_of(op), function = function_of(op, attrs);
    double at[2] = {0, 0};
    if (!has_op(op, attrs, input_types, out, false)) return false;
    memset(word, 0, 4 * sizeof *word);
    const uint32_t types = (uint32_t)input_types[op == ZT_OP_where]->dtype << 16 | (uint32_t)out->dtype << 24;
    if (!are_floats(op, input_types, out)) {
        word[0] = (uint32_t)values[row].kind | values[row].function << 8 | types;
        put_value_attrs(op, attrs, out->dtype, word + 2);
        if (op == ZT_OP_where) word[2] = (uint32_t)input_types[0]->dtype;
        return true;
    }
    if (function >= 0) take_attrs(function, attrs, at);
    word[0] = function >= 0 ? FLOAT | (uint32_t)function << 8 | types : TWO_FLOATS | (uint32_t)pair_of(op, attrs) << 8 | types;
    for (int i = 0; i < 2; i++) word[2 + i] = float_bits(at[i]);
    return true;
}

static zt_status set_bitcast(zt_vk_engine *engine, zt_vk_call *call)
{
    (void)engine;
    return zt_vk_copy(call, zt_vk_out(0), zt_vk_in(0), zt_type_bytes(call->out));
}

static bool bits_have(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)engine, (void)attrs, (void)input_types, (void)out;
    return true;
}

/* fill_like, whose row is in shape_like.c. */
bool zt_vk_fill_like_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    return fill_like_has(engine, attrs, in, out);
}
zt_status zt_vk_set_fill_like(zt_vk_engine *engine, zt_vk_call *call) { return set_fill_like(engine, call); }

const zt_vk_kernel zt_vk_elementwise[] = {
#define X(NAME) {.op = ZT_OP_##NAME, .has = NAME##_has, .set = set_##NAME, .contract = NAME##_contract},
    OPS(X)
#undef X
        {.op = ZT_OP_bitcast, .has = bits_have, .set = set_bitcast, .contract = zt_vk_always},
    {.op = ZT_OP_cast, .has = from_packed_has, .set = set_from_packed},
    {.op = ZT_OP_cast, .has = to_packed_has, .set = set_to_packed},
    {.op = ZT_OP_cast, .has = from_blocks_has, .set = set_from_blocks, .contract = zt_vk_always, .weights = 1u << 0},
    {.set = NULL},
};
