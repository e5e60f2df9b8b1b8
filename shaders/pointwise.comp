// pointwise.comp - a chain of elementwise ops on one element an invocation. `chain` is empty here:
// lib/engine/vulkan/module.c writes its body, a call for each op, into the module, and finds what it
// calls by these names.
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
float rounded(const float v)
{
    if (FLOATS == 0u) return v;
    return FLOATS == 1u ? half_to_float(float_to_half(v)) : brain_to_float(float_to_brain(v));
}

void store(const uint k, const float v)
{
    if (FLOATS == 0u)
        Floats(address(OUTPUTS + k)).v[place] = v;
    else
        Halves(address(OUTPUTS + k)).v[place] =
            uint16_t(FLOATS == 1u ? float_to_half(v) : float_to_brain(v));
}

float load(const uint k, const uint i)
{
    if (FLOATS == 0u) return Floats(address(k)).v[i];
    uint h = uint(Halves(address(k)).v[i]);
    return FLOATS == 1u ? half_to_float(h) : brain_to_float(h);
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
#define X(F) t[0] = rounded(F(t[0], given(0u), given(1u)));
void keep()
{
    X(f_scale) X(f_softcap) X(f_silu) X(f_gelu_tanh) X(f_gelu_erf) X(f_neg) X(f_abs) X(f_square)
    X(f_sqrt) X(f_recip) X(f_exp) X(f_tanh) X(f_sigmoid) X(f_relu) X(f_erf) X(f_clamp)
    X(f_add_scalar) X(f_leaky_relu) X(f_add) X(f_sub) X(f_mul) X(f_div) X(f_max) X(f_min)
    X(f_swiglu) X(f_geglu_tanh) X(f_geglu_erf)
    store(0u, t[0]);
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
