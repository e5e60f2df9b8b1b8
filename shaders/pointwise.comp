// pointwise.comp - a chain of elementwise ops on one element an invocation. `chain` is empty here:
// lib/engine/vulkan/module.c writes its body, a call for each op, into the module, and finds what it
// calls by these names.
//
// Values are f32, f16, bf16 or bool, types 0 to 3, and computed as f32; chains with others are pointwise_values.comp's.
//
// Operands: inputs 0 to 7, the table, outputs 0 to 5; the first seven in `at`, others in `word`.
// Table: count, of 4 merged dimensions the sizes, of each input its 4 steps (0 where repeated), of
// each op its two attributes.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "functions.glsl"

layout(constant_id = 0) const uint USED = 0u;   // inputs that there are, a bit each
layout(constant_id = 1) const uint DIRECT = 0u; // those of the output's shape
layout(constant_id = 2) const uint TYPES = 0u;  // their types, two bits each
layout(local_size_x = 64) in;

const uint TABLE = 8u, OUTPUTS = 9u, INPUTS = 8u;

float t[72]; // inputs, then the ops' values
uint place;  // the element

uvec2 address(const uint k)
{
    return k < 7u ? call.at[k] : uvec2(call.word[2u * k - 14u], call.word[2u * k - 13u]);
}

uint entry(const uint i) { return Words(address(TABLE)).v[i]; }

float given(const uint i) { return uintBitsToFloat(entry(37u + i)); }

// As if it had been stored between two ops.
float rounded(const float v, const uint type)
{
    if (type == 0u) return v;
    if (type == 3u) return v != 0.0 ? 1.0 : 0.0;
    return type == 1u ? half_to_float(float_to_half(v)) : brain_to_float(float_to_brain(v));
}

void store(const uint k, const uint type, const float v)
{
    if (type == 0u)
        Floats(address(OUTPUTS + k)).v[place] = v;
    else if (type == 3u)
        Bytes(address(OUTPUTS + k)).v[place] = uint8_t(v != 0.0 ? 1u : 0u);
    else
        Halves(address(OUTPUTS + k)).v[place] = uint16_t(type == 1u ? float_to_half(v) : float_to_brain(v));
}

float load(const uint k, const uint i)
{
    uint type = TYPES >> 2u * k & 3u;
    if (type == 0u) return Floats(address(k)).v[i];
    if (type == 3u) return uint(Bytes(address(k)).v[i]) != 0u ? 1.0 : 0.0;
    uint h = uint(Halves(address(k)).v[i]);
    return type == 1u ? half_to_float(h) : brain_to_float(h);
}

// Element `place` of input k, which is broadcast.
uint place_in(const uint k)
{
    uint rest = place, at = 0u;
    for (uint d = 4u; d-- > 0u;) {
        at += rest % entry(1u + d) * entry(5u + 4u * k + d);
        rest /= entry(1u + d);
    }
    return at;
}

void chain() {}

// The compiler leaves out what nobody calls; this never runs.
#define X(F) t[0] = rounded(F(t[0], given(0u), given(1u)), place);
void keep()
{
    X(f_scale) X(f_softcap) X(f_silu) X(f_gelu_tanh) X(f_gelu_erf) X(f_neg) X(f_abs) X(f_square) X(f_sqrt) X(f_recip)
    X(f_exp) X(f_tanh) X(f_sigmoid) X(f_relu) X(f_erf) X(f_clamp) X(f_add_scalar) X(f_leaky_relu) X(f_sign) X(f_floor)
    X(f_ceil) X(f_round) X(f_rsqrt) X(f_expm1) X(f_log) X(f_log1p) X(f_sin) X(f_cos) X(f_tan) X(f_softplus) X(f_elu)
    X(f_safe_log) X(f_pow_scalar) X(f_asin) X(f_acos) X(f_atan) X(f_sinh) X(f_cosh) X(f_asinh) X(f_acosh) X(f_atanh)
    X(f_celu) X(f_selu) X(f_hard_sigmoid) X(f_hard_swish) X(f_mish) X(f_softsign) X(f_shrink) X(f_thresholded_relu)
    X(f_add) X(f_sub) X(f_mul) X(f_div) X(f_max) X(f_min) X(f_swiglu) X(f_geglu_tanh) X(f_geglu_erf) X(f_pow) X(f_mod)
    X(f_fmod) X(f_prelu) X(f_tanh_prime) X(f_isnan) X(f_isinf) X(f_isfinite) X(f_logical_not) X(f_eq) X(f_ne) X(f_lt)
    X(f_le) X(f_gt) X(f_ge) X(f_logical_and) X(f_logical_or) X(f_logical_xor) X(f_cast) X(f_where)
    store(0u, place, t[0]);
}

#define INPUT(K)                                                                                   \
    if ((USED >> K & 1u) != 0u) {                                                                  \
        if ((DIRECT >> K & 1u) != 0u)                                                              \
            t[K] = load(K, place);                                                                 \
        else                                                                                       \
            t[K] = load(K, place_in(K));                                                           \
    }

void main()
{
    place = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (place >= entry(0u)) return;
    if (USED == 0u) keep();
    INPUT(0u)
    INPUT(1u)
    INPUT(2u)
    INPUT(3u)
    INPUT(4u)
    INPUT(5u)
    INPUT(6u)
    INPUT(7u)
    chain();
}
