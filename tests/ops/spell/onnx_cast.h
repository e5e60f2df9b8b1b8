/* onnx_cast.h - how the ops of golden/ops/onnx are spelled in zt: casts and quantization. */
#ifndef ZT_SPELL_ONNX_CAST_H
#define ZT_SPELL_ONNX_CAST_H

#include "tests/ops/spell/spell.h"

/* The dtype's name as the word that casts take; "" where zt has none. */
SPELL_FN zt_enum_string dtype_word(const logical *l)
{
    zt_enum_string w = {{0}};
    if (l) snprintf(w.s, sizeof w.s, "%s", l->zt);
    return w;
}

SPELL_FN int cast_to(const call *node, int x, const logical *to)
{
    zt_cast_attrs a = zt_cast_defaults();
    a.to = dtype_word(to);
    return zt_program_cast(node->p, NULL, x, &a);
}

/* To the dtype that output 0 has; `saturate` and `round_mode` are of floats of a byte alone. */
static int build_onnx_cast(const call *node)
{
    const char *mode = json_string_value(json_object_get(node->attrs, "round_mode"));
    zt_cast_attrs a = zt_cast_defaults();
    const json_t *saturate = json_object_get(node->attrs, "saturate");
    a.to = dtype_word(logical_named(node->out_dtype[0]));
    a.saturate = saturate ? json_integer_value(saturate) : 1;
    a.round = !mode || !strcmp(mode, "up") ? 1 : !strcmp(mode, "down") ? -1 : 0;
    return zt_program_cast(node->p, NULL, node->in[0], &a);
}

static int build_onnx_bitcast(const call *node)
{
    zt_bitcast_attrs a = {dtype_word(logical_named(node->out_dtype[0]))};
    return zt_program_bitcast(node->p, NULL, node->in[0], &a);
}

/* ---- quantization ---------------------------------------------------------------------------- */

static int build_onnx_quantize(const call *node)
{
    int x = node->in[0];
    if (!zt_dtype_is_float(node->type[0].dtype)) x = cast_to(node, x, logical_named("float32"));
    zt_quantize_linear_attrs a = {dtype_word(logical_named(node->out_dtype[0])), int_or(node, "axis", 1),
                                  int_or(node, "block_size", 0), int_or(node, "saturate", 1)};
    return zt_program_quantize_linear(node->p, NULL, x, node->in[1], node->in[2], &a);
}

static int build_onnx_dequantize(const call *node)
{
    zt_dequantize_linear_attrs a = {int_or(node, "axis", 1), int_or(node, "block_size", 0)};
    int y = zt_program_dequantize_linear(node->p, NULL, node->in[0], node->in[1], node->in[2], &a);
    bool as_scale = !strcmp(node->out_dtype[0], node->dtype[1]);
    return as_scale ? y : cast_to(node, y, logical_named(node->out_dtype[0]));
}

/* The range with 0 in it in 255 steps; the zero point is where 0 goes. */
static int build_dynamic_quantize(const call *node)
{
    const float none = 0, steps = 255;
    zt_prog *program = node->p;
    int zero = constant(node, ZT_F32, 0, NULL, &none);
    int most = zt_program_max(program, NULL, zt_program_amax(program, NULL, node->in[0], NULL), zero);
    int least = zt_program_min(program, NULL, zt_program_amin(program, NULL, node->in[0], NULL), zero);
    int scale =
        zt_program_div(program, NULL, zt_program_sub(program, NULL, most, least), constant(node, ZT_F32, 0, NULL, &steps));
    zt_quantize_linear_attrs a = {{"u8"}, 0, 0, 1};
    int down = zt_program_sub(program, NULL, zero, least);
    int point = zt_program_quantize_linear(program, NULL, down, scale, ZT_NONE, &a);
    node->more[0] = scale;
    node->more[1] = point;
    return zt_program_quantize_linear(program, NULL, node->in[0], scale, point, &a);
}

static const spelling onnx_cast_ops[] = {
    {"QuantizeLinear", .build = build_onnx_quantize},           {"DequantizeLinear", .build = build_onnx_dequantize},
    {"DynamicQuantizeLinear", .build = build_dynamic_quantize}, {"Cast", .build = build_onnx_cast, .exact = true},
    {"CastLike", .build = build_onnx_cast, .exact = true},      {"BitCast", .build = build_onnx_bitcast, .exact = true},
};

#endif
