/* elementwise.c - functions of one number and of two, with broadcasting. */
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

/* ---- one number ------------------------------------------------------------------------------ */

/* The place in the table is the constant KIND of shaders/elementwise_unary.comp; `at` are f64 attributes that
 * it takes, by their places in the op's struct, as many as are not below 0. */
#define AT(op, field) (int)offsetof(zt_##op##_attrs, field)
static const struct {
    zt_op op;
    int at[2];
    const char *form; /* of gelu */
} functions[] = {
    {ZT_OP_scale, {AT(scale, by), -1}, NULL},
    {ZT_OP_softcap, {AT(softcap, cap), -1}, NULL},
    {ZT_OP_silu, {-1, -1}, NULL},
    {ZT_OP_gelu, {-1, -1}, "tanh"},
    {ZT_OP_gelu, {-1, -1}, "erf"},
    {ZT_OP_neg, {-1, -1}, NULL},
    {ZT_OP_abs, {-1, -1}, NULL},
    {ZT_OP_square, {-1, -1}, NULL},
    {ZT_OP_sqrt, {-1, -1}, NULL},
    {ZT_OP_recip, {-1, -1}, NULL},
    {ZT_OP_exp, {-1, -1}, NULL},
    {ZT_OP_tanh, {-1, -1}, NULL},
    {ZT_OP_sigmoid, {-1, -1}, NULL},
    {ZT_OP_relu, {-1, -1}, NULL},
    {ZT_OP_erf, {-1, -1}, NULL},
    {ZT_OP_clamp, {AT(clamp, lo), AT(clamp, hi)}, NULL},
    {ZT_OP_add_scalar, {AT(add_scalar, by), -1}, NULL},
    {ZT_OP_leaky_relu, {AT(leaky_relu, alpha), -1}, NULL},
};

static int function_of(zt_op op, const void *attrs)
{
    for (int i = 0; i < (int)(sizeof functions / sizeof functions[0]); i++)
        if (functions[i].op == op && (!functions[i].form || !strcmp(((const zt_gelu_attrs *)attrs)->form.s, functions[i].form)))
            return i;
    return -1;
}

static bool all_floats(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)engine, (void)attrs;
    return zt_vk_is_float(input_types[0]->dtype) && out[0].dtype == input_types[0]->dtype;
}

static void take_attrs(int kind, const void *attrs, double value[2])
{
    for (int i = 0; i < 2; i++) {
        value[i] = 0;
        if (functions[kind].at[i] >= 0) memcpy(&value[i], (const char *)attrs + functions[kind].at[i], sizeof value[i]);
    }
}

static zt_status set_unary(zt_vk_engine *engine, zt_vk_call *call, zt_op op)
{
    int kind = function_of(op, call->attrs);
    int64_t element_count = zt_type_count(call->out);
    call->shader = ZT_VK_SHADER_elementwise_unary;
    call->spec[0] = (uint32_t)kind;
    call->word[0] = (uint32_t)element_count;
    double value[2];
    take_attrs(kind, call->attrs, value);
    for (int i = 0; i < 2; i++) call->word[1 + i] = float_bits(value[i]);
    zt_vk_spread(engine, call, element_count, 64);
    return ZT_OK;
}

// clang-format off
#define UNARY(NAME)                                                                                \
    static zt_status set_##NAME(zt_vk_engine *e, zt_vk_call *c)                                    \
    {                                                                                              \
        return set_unary(e, c, ZT_OP_##NAME);                                                      \
    }
#define UNARIES(X)                                                                                 \
    X(scale)                                                                                       \
    X(softcap) X(silu) X(gelu) X(neg) X(abs) X(square) X(sqrt) X(recip) X(exp) X(tanh) X(sigmoid)  \
        X(relu) X(erf) X(clamp) X(add_scalar) X(leaky_relu)
UNARIES(UNARY)

/* ---- two numbers ----------------------------------------------------------------------------- */

/* The place is the constant KIND of shaders/elementwise_binary.comp. */
static const struct {
    zt_op op;
    const char *form;
} pairs[] = {{ZT_OP_add, NULL},    {ZT_OP_sub, NULL},     {ZT_OP_mul, NULL},
             {ZT_OP_div, NULL},    {ZT_OP_max, NULL},     {ZT_OP_min, NULL},
             {ZT_OP_swiglu, NULL}, {ZT_OP_geglu, "tanh"}, {ZT_OP_geglu, "erf"}};
// clang-format on

static int pair_of(zt_op op, const void *attrs)
{
    for (int i = 0; i < (int)(sizeof pairs / sizeof pairs[0]); i++)
        if (pairs[i].op == op && (!pairs[i].form || !strcmp(((const zt_geglu_attrs *)attrs)->form.s, pairs[i].form))) return i;
    return -1;
}

/* Elements from one index to the next of an axis of the whole in an operand, 0 where it is repeated. */
static uint32_t step_of(const zt_type *type, const zt_type *whole, int axis)
{
    int own_axis = axis - (whole->rank - type->rank);
    if (own_axis < 0 || type->dim[own_axis] == 1) return 0;
    uint32_t step = 1;
    for (int k = own_axis + 1; k < type->rank; k++) step *= (uint32_t)type->dim[k];
    return step;
}

zt_vk_strides zt_vk_strides_of(const zt_type *const input_types[], int operand_count, const zt_type *whole)
{
    zt_vk_strides strides = {0};
    for (int axis = whole->rank - 1; axis >= 0; axis--) {
        uint32_t size = (uint32_t)whole->dim[axis], step[ZT_MAX_IN] = {0};
        bool merge = strides.axis_count > 0;
        if (size == 1) continue;
        for (int operand_index = 0; operand_index < operand_count; operand_index++) {
            if (input_types[operand_index]) step[operand_index] = step_of(input_types[operand_index], whole, axis);
            merge = merge && step[operand_index] ==
                                 strides.steps[operand_index][strides.axis_count - 1] * strides.dims[strides.axis_count - 1];
        }
        for (int operand_index = 0; operand_index < operand_count && !merge; operand_index++)
            strides.steps[operand_index][strides.axis_count] = step[operand_index];
        if (merge)
            strides.dims[strides.axis_count - 1] *= size;
        else
            strides.dims[strides.axis_count++] = size;
    }
    return strides;
}

static bool binary_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    return all_floats(engine, attrs, input_types, out) && input_types[1]->dtype == input_types[0]->dtype &&
           zt_vk_strides_of(input_types, 2, &out[0]).axis_count <= 4;
}

static zt_status set_binary(zt_vk_engine *engine, zt_vk_call *call, zt_op op)
{
    zt_vk_strides strides = zt_vk_strides_of(call->in, 2, call->out);
    int64_t element_count = zt_type_count(call->out);
    call->shader = ZT_VK_SHADER_elementwise_binary;
    call->spec[0] = (uint32_t)pair_of(op, call->attrs);
    call->word[0] = (uint32_t)element_count;
    for (int axis = 0; axis < 4; axis++) {
        call->word[4 - axis] = axis < strides.axis_count ? strides.dims[axis] : 1;
        call->word[8 - axis] = axis < strides.axis_count ? strides.steps[0][axis] : 0;
        call->word[12 - axis] = axis < strides.axis_count ? strides.steps[1][axis] : 0;
    }
    zt_vk_spread(engine, call, element_count, 64);
    return ZT_OK;
}

#define BINARY(NAME)                                                                                                             \
    static zt_status set_##NAME(zt_vk_engine *e, zt_vk_call *c) { return set_binary(e, c, ZT_OP_##NAME); }
#define BINARIES(X) X(add) X(sub) X(mul) X(div) X(max) X(min) X(swiglu) X(geglu)
BINARIES(BINARY)

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

const zt_vk_kernel zt_vk_elementwise[] = {
#define X(NAME) {.op = ZT_OP_##NAME, .has = all_floats, .set = set_##NAME},
    UNARIES(X)
#undef X
#define X(NAME) {.op = ZT_OP_##NAME, .has = binary_has, .set = set_##NAME},
        BINARIES(X)
#undef X
            {0},
};
