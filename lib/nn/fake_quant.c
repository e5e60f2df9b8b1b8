/* fake_quant.c - owns fake quantization: masters rounded to a layer's dtype, as a function of one number, and as ops on a
 * weight for programs that begin at the masters. Both give the same bits where ops are f32.
 *
 * Loom's rule is zt_loom_simulate; the field's is zt_storage's, with x / scale in f32. */
#include "lib/base/require.h"
#include "lib/nn/nn_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* How q = x / scale becomes a code. */
typedef enum code_rule {
    CUT_NOT,    /* x unchanged, without a scale */
    CUT_UPPER,  /* the upper 16 bits of x in f32 */
    CUT_CODEC,  /* clamped to [low, high], then encoded and decoded as dtype `codec` */
    CUT_NEAR,   /* rounded to the nearest integer, ties to even, clamped to [low, high] */
    CUT_ZERO,   /* truncated toward zero */
    CUT_HALVES, /* truncated toward zero in steps of 1/2 */
    CUT_WRAP,   /* truncated toward zero, then the low 8 bits as a signed number */
    CUT_THIRDS, /* 1 above 1/2, -1 below -1/2, else 0 */
    CUT_SIGN    /* 1 for x above 0, else -1 */
} code_rule;

typedef struct dtype_precision {
    code_rule rule;
    bool scaled, zero_is_one; /* zero_is_one: CUT_SIGN of 0 is 1 */
    zt_dtype codec;
    double low, high;
    bool by_mean; /* field's rule: the scale is the mean magnitude; else the largest divided by high */
} dtype_precision;

static dtype_precision find_field_precision(zt_storage storage)
{
    dtype_precision precision = {CUT_NEAR, true, false, zt_storage_get(storage)->dtype, -1, 1, false};
    if (storage == ZT_STORE_F32 || storage == ZT_STORE_F64) return (dtype_precision){.rule = CUT_NOT};
    precision.by_mean = storage == ZT_STORE_BINARY || storage == ZT_STORE_TERNARY;
    precision.zero_is_one = true;
    if (storage == ZT_STORE_BINARY) precision.rule = CUT_SIGN;
    if (precision.by_mean) return precision;
    zt_dtype_range(precision.codec, &precision.low, &precision.high);
    precision.scaled = storage != ZT_STORE_F16 && storage != ZT_STORE_BF16;
    if (!precision.scaled || storage == ZT_STORE_FP8E4M3 || storage == ZT_STORE_FP8E5M2 || storage == ZT_STORE_FP4)
        precision.rule = CUT_CODEC;
    return precision;
}

static dtype_precision find_loom_precision(zt_storage storage)
{
    int bits = zt_storage_get(storage)->bits;
    if (storage == ZT_STORE_BF16) return (dtype_precision){.rule = CUT_UPPER};
    if (storage <= ZT_STORE_F16 || bits >= 32) return (dtype_precision){.rule = CUT_NOT};
    if (storage == ZT_STORE_BINARY) return (dtype_precision){.rule = CUT_SIGN, .scaled = true};
    if (storage == ZT_STORE_TERNARY) return (dtype_precision){.rule = CUT_THIRDS, .scaled = true};
    return (dtype_precision){.rule = bits == 2 ? CUT_HALVES : bits == 4 ? CUT_ZERO : CUT_WRAP, .scaled = true};
}

/* Of what is put in place of its masters: of codes as zt_nn_put has it. */
static dtype_precision find_precision(const zt_nn_layer *layer)
{
    return layer->rule == ZT_RULE_FIELD || layer->exact ? find_field_precision(layer->dtype) : find_loom_precision(layer->dtype);
}

/* ---- of a number ----------------------------------------------------------------------------- */

static float round_through_codec(zt_dtype dtype, float value)
{
    unsigned char code[8] = {0};
    float four[8] = {value}; /* packed types are decoded by the byte */
    const zt_dtype_info *info = zt_dtype_get(dtype);
    info->encode(four, code, info->block);
    info->decode(code, four, info->block);
    return four[0];
}

float zt_layer_precise(const zt_nn_layer *layer, float value)
{
    if (layer->rule == ZT_RULE_LOOM) return zt_loom_simulate(layer->dtype, value, layer->scale);
    dtype_precision precision = find_field_precision(layer->dtype);
    float quotient = precision.scaled ? value / layer->scale : value, low = (float)precision.low, high = (float)precision.high;
    if (precision.rule == CUT_NOT) return value;
    if (precision.rule == CUT_SIGN) return value >= 0 ? layer->scale : -layer->scale;
    if (precision.rule == CUT_NEAR) quotient = rintf(quotient);
    quotient = quotient < low ? low : quotient > high ? high : quotient;
    if (precision.rule == CUT_CODEC) quotient = round_through_codec(precision.codec, quotient);
    return precision.scaled ? quotient * layer->scale : quotient;
}

/* ---- as ops ---------------------------------------------------------------------------------- */

/* Ops on one weight. Their values are named "NAME.of1", ..., so that names stay unique when ops are copied behind them. */
typedef struct op_maker {
    zt_prog *program;
    const char *name;
    int op_count;
    char buffer[1 << 12];
} op_maker;

static const char *next_name(op_maker *maker)
{
    snprintf(maker->buffer, sizeof maker->buffer, "%s.of%d", maker->name, ++maker->op_count);
    return maker->buffer;
}

static int emit_constant(op_maker *maker, int shape, double value)
{
    return zt_program_fill_like(maker->program, next_name(maker), shape, &(zt_fill_like_attrs){value});
}

static int emit_scale(op_maker *maker, int value, double factor)
{
    return zt_program_scale(maker->program, next_name(maker), value, &(zt_scale_attrs){factor});
}

static int emit_floor(op_maker *maker, int value) { return zt_program_floor(maker->program, next_name(maker), value); }

/* sign(q) * floor(|q|) */
static int emit_truncate(op_maker *maker, int quotient)
{
    int whole = emit_floor(maker, zt_program_abs(maker->program, next_name(maker), quotient));
    return zt_program_mul(maker->program, next_name(maker), zt_program_sign(maker->program, next_name(maker), quotient), whole);
}

/* t - 256 floor((t + 128) / 256), exact in f32 for an integer t. */
static int emit_low_byte(op_maker *maker, int whole)
{
    int shifted = zt_program_add_scalar(maker->program, next_name(maker), whole, &(zt_add_scalar_attrs){128});
    int turns = emit_floor(maker, emit_scale(maker, shifted, 1.0 / 256));
    return zt_program_sub(maker->program, next_name(maker), whole, emit_scale(maker, turns, 256));
}

/* `then` where `above` is true, else `other`. shape: a value of the same shape. */
static int emit_choice(op_maker *maker, int above, int shape, double then, int other)
{
    return zt_program_where(maker->program, next_name(maker), above, emit_constant(maker, shape, then), other);
}

/* The functions of the table below. quotient: x / scale; for CUT_SIGN and rules without a scale x itself. */

static int quantize_toward_zero(op_maker *maker, int quotient, const dtype_precision *precision)
{
    (void)precision;
    return emit_truncate(maker, quotient);
}

static int quantize_halves(op_maker *maker, int quotient, const dtype_precision *precision)
{
    (void)precision;
    return emit_scale(maker, emit_truncate(maker, emit_scale(maker, quotient, 2)), 0.5);
}

static int quantize_wrap(op_maker *maker, int quotient, const dtype_precision *precision)
{
    (void)precision;
    return emit_low_byte(maker, emit_truncate(maker, quotient));
}

static int quantize_thirds(op_maker *maker, int quotient, const dtype_precision *precision)
{
    (void)precision;
    int low = zt_program_lt(maker->program, next_name(maker), quotient, emit_constant(maker, quotient, -0.5));
    int high = zt_program_gt(maker->program, next_name(maker), quotient, emit_constant(maker, quotient, 0.5));
    return emit_choice(maker, high, quotient, 1, emit_choice(maker, low, quotient, -1, emit_constant(maker, quotient, 0)));
}

static int quantize_sign(op_maker *maker, int value, const dtype_precision *precision)
{
    int zero = emit_constant(maker, value, 0);
    int above = precision->zero_is_one ? zt_program_ge(maker->program, next_name(maker), value, zero)
                                       : zt_program_gt(maker->program, next_name(maker), value, zero);
    return emit_choice(maker, above, value, 1, emit_constant(maker, value, -1));
}

static int quantize_upper_bits(op_maker *maker, int value, const dtype_precision *precision)
{
    (void)precision;
    int bits = zt_program_bitcast(maker->program, next_name(maker), value, &(zt_bitcast_attrs){{"i32"}});
    zt_cast_attrs whole = {.to = {"i32"}, .saturate = 1};
    int mask = zt_program_cast(maker->program, next_name(maker), emit_constant(maker, value, -65536), &whole);
    int kept = zt_program_bitwise_and(maker->program, next_name(maker), bits, mask);
    return zt_program_bitcast(maker->program, next_name(maker), kept, &(zt_bitcast_attrs){{"f32"}});
}

static int emit_clamp(op_maker *maker, int quotient, const dtype_precision *precision)
{
    return zt_program_clamp(maker->program, next_name(maker), quotient, &(zt_clamp_attrs){precision->low, precision->high});
}

static int quantize_nearest(op_maker *maker, int quotient, const dtype_precision *precision)
{
    return emit_clamp(maker, zt_program_round(maker->program, next_name(maker), quotient), precision);
}

static int quantize_codec(op_maker *maker, int quotient, const dtype_precision *precision)
{
    zt_cast_attrs there = zt_cast_defaults(), back = zt_cast_defaults();
    snprintf(there.to.s, sizeof there.to.s, "%s", zt_dtype_get(precision->codec)->name);
    int code = zt_program_cast(maker->program, next_name(maker), emit_clamp(maker, quotient, precision), &there);
    return zt_program_cast(maker->program, next_name(maker), code, &back);
}

static int (*const cuts[])(op_maker *m, int q, const dtype_precision *p) = {
    [CUT_UPPER] = quantize_upper_bits, [CUT_CODEC] = quantize_codec,   [CUT_NEAR] = quantize_nearest,
    [CUT_ZERO] = quantize_toward_zero, [CUT_HALVES] = quantize_halves, [CUT_WRAP] = quantize_wrap,
    [CUT_THIRDS] = quantize_thirds,    [CUT_SIGN] = quantize_sign};

/* The largest magnitude of a weight, or the sum of magnitudes. */
static int emit_magnitude(op_maker *maker, int weight, bool sum)
{
    int size = zt_program_abs(maker->program, next_name(maker), weight);
    return sum ? zt_program_sum(maker->program, next_name(maker), size, NULL)
               : zt_program_amax(maker->program, next_name(maker), size, NULL);
}

/* The scale of all weights of the layer, as zt_storage_scale computes it, as ops on their values in the program. */
static int emit_field_scale(op_maker *maker, const zt_nn *network, const zt_nn_layer *layer, const dtype_precision *how)
{
    int all = -1;
    for (int64_t i = layer->first_weight; i < layer->first_weight + layer->weight_count; i++) {
        int weight = zt_prog_find(maker->program, network->weights[i].name),
            one = weight < 0 ? -1 : emit_magnitude(maker, weight, how->by_mean);
        if (one < 0) continue;
        all = all < 0        ? one
              : how->by_mean ? zt_program_add(maker->program, next_name(maker), all, one)
                             : zt_program_max(maker->program, next_name(maker), all, one);
    }
    double divisor = how->by_mean ? (double)zt_nn_layer_size(network, layer) : how->high;
    int some = zt_program_gt(maker->program, next_name(maker), all, emit_constant(maker, all, 0));
    int scale = zt_program_div(maker->program, next_name(maker), all, emit_constant(maker, all, divisor));
    return zt_program_where(maker->program, next_name(maker), some, scale, emit_constant(maker, all, 1));
}

int zt_nn_through(zt_nn *network, zt_prog *program, int weight, const char *name)
{
    if (!network) return -1;
    ZT_REQUIRE(network->ctx, name, -1);
    int64_t i = zt_nn_store(network).find ? zt_map_find(network->weight_names, name) : -1;
    if (i < 0 || i >= network->weight_count) return weight;
    const zt_nn_layer *layer = network->weights[i].layer;
    dtype_precision how = find_precision(layer);
    op_maker maker = {.program = program, .name = name};
    if (how.rule == CUT_NOT) return weight;
    if (!how.scaled) return cuts[how.rule](&maker, weight, &how);
    bool field = layer->rule == ZT_RULE_FIELD || layer->exact;
    int scale = field ? emit_field_scale(&maker, network, layer, &how) : emit_constant(&maker, weight, (double)layer->scale);
    int quotient = how.rule == CUT_SIGN ? weight : zt_program_div(program, next_name(&maker), weight, scale);
    return zt_program_mul(program, next_name(&maker), cuts[how.rule](&maker, quotient, &how), scale);
}
