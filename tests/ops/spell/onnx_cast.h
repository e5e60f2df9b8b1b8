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

SPELL_FN int cast_to(const call *c, int x, const logical *to)
{
    zt_cast_attrs a = zt_cast_defaults();
    a.to = dtype_word(to);
    return zt_program_cast(c->p, NULL, x, &a);
}

/* To the dtype that output 0 has; `saturate` and `round_mode` are of floats of a byte alone. */
static int build_onnx_cast(const call *c)
{
    const char *mode = json_string_value(json_object_get(c->attrs, "round_mode"));
    zt_cast_attrs a = zt_cast_defaults();
    const json_t *saturate = json_object_get(c->attrs, "saturate");
    a.to = dtype_word(logical_named(c->out_dtype[0]));
    a.saturate = saturate ? json_integer_value(saturate) : 1;
    a.round = !mode || !strcmp(mode, "up") ? 1 : !strcmp(mode, "down") ? -1 : 0;
    return zt_program_cast(c->p, NULL, c->in[0], &a);
}

static int build_onnx_bitcast(const call *c)
{
    zt_bitcast_attrs a = {dtype_word(logical_named(c->out_dtype[0]))};
    return zt_program_bitcast(c->p, NULL, c->in[0], &a);
}

/* ---- quantization ---------------------------------------------------------------------------- */

static int build_onnx_quantize(const call *c)
{
    int x = c->in[0];
    if (!zt_dtype_is_float(c->type[0].dtype)) x = cast_to(c, x, logical_named("float32"));
    zt_quantize_linear_attrs a = {dtype_word(logical_named(c->out_dtype[0])), int_or(c, "axis", 1),
                                  int_or(c, "block_size", 0), int_or(c, "saturate", 1)};
    return zt_program_quantize_linear(c->p, NULL, x, c->in[1], c->in[2], &a);
}

static int build_onnx_dequantize(const call *c)
{
    zt_dequantize_linear_attrs a = {int_or(c, "axis", 1), int_or(c, "block_size", 0)};
    int y = zt_program_dequantize_linear(c->p, NULL, c->in[0], c->in[1], c->in[2], &a);
    bool as_scale = !strcmp(c->out_dtype[0], c->dtype[1]);
    return as_scale ? y : cast_to(c, y, logical_named(c->out_dtype[0]));
}

/* The range with 0 in it in 255 steps; the zero point is where 0 goes. */
static int build_dynamic_quantize(const call *c)
{
    const float none = 0, steps = 255;
    zt_prog *program = c->p;
    int zero = constant(c, ZT_F32, 0, NULL, &none);
    int most = zt_program_max(program, NULL, zt_program_amax(program, NULL, c->in[0], NULL), zero);
    int least = zt_program_min(program, NULL, zt_program_amin(program, NULL, c->in[0], NULL), zero);
    int scale = zt_program_div(program, NULL, zt_program_sub(program, NULL, most, least),
                            constant(c, ZT_F32, 0, NULL, &steps));
    zt_quantize_linear_attrs a = {{"u8"}, 0, 0, 1};
    int down = zt_program_sub(program, NULL, zero, least);
    int point = zt_program_quantize_linear(program, NULL, down, scale, ZT_NONE, &a);
    c->more[0] = scale;
    c->more[1] = point;
    return zt_program_quantize_linear(program, NULL, c->in[0], scale, point, &a);
}

static const spelling onnx_cast_ops[] = {
    {"QuantizeLinear", .build = build_onnx_quantize},
    {"DequantizeLinear", .build = build_onnx_dequantize},
    {"DynamicQuantizeLinear", .build = build_dynamic_quantize},
    {"Cast", .build = build_onnx_cast, .exact = true},
    {"CastLike", .build = build_onnx_cast, .exact = true},
    {"BitCast", .build = build_onnx_bitcast, .exact = true},
};

#endif
