/* onnx_cast.h - how the ops of golden/ops/onnx are spelled in zt: casts and quantization. */
#ifndef ZT_SPELL_ONNX_CAST_H
#define ZT_SPELL_ONNX_CAST_H

#include "tests/spell/spell.h"

/* The dtype's name as the word that casts take; "" where zt has none. */
SPELL_FN zt_word dtype_word(const logical *l)
{
    zt_word w = {{0}};
    if (l) snprintf(w.s, sizeof w.s, "%s", l->zt);
    return w;
}

SPELL_FN int cast_to(const call *c, int x, const logical *to)
{
    zt_cast_attrs a = zt_cast_defaults();
    a.to = dtype_word(to);
    return zt_emit_cast(c->p, NULL, x, &a);
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
    return zt_emit_cast(c->p, NULL, c->in[0], &a);
}

static int build_onnx_bitcast(const call *c)
{
    zt_bitcast_attrs a = {dtype_word(logical_named(c->out_dtype[0]))};
    return zt_emit_bitcast(c->p, NULL, c->in[0], &a);
}

static const spelling onnx_cast_ops[] = {
    {"Cast", .build = build_onnx_cast, .exact = true},
    {"CastLike", .build = build_onnx_cast, .exact = true},
    {"BitCast", .build = build_onnx_bitcast, .exact = true},
};

#endif
