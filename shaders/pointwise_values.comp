// pointwise_values.comp - a chain of elementwise ops of any plain types, op by op from the step's table: one pipeline for
// all chains that pointwise.comp does not have.
//
// Operands as in pointwise.comp. Table: count, axes, ops; of each input its type; of each axis (the last first) its size;
// of each input its steps; then four words an op: its kind (elementwise_values.comp's, or a function of one float or of
// two), its number, its operands' type, its own type, a byte each; its three operands and the output that it is, plus 1, a
// byte each; its attributes.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"
#include "elements.glsl"
#include "function_of.glsl"

layout(local_size_x = 64) in;

const uint TABLE = 8u, OUTPUTS = 9u, INPUTS = 8u;

uvec2 v[72]; // bits of the inputs, then of the ops' values

uvec2 address(uint k) { return k < 7u ? call.at[k] : uvec2(call.word[2u * k - 14u], call.word[2u * k - 13u]); }

uvec2 run_op(uint what, uvec2 a, uvec2 b, uvec2 c, uint first_type, uvec2 more, uint i)
{
    uint kind = what & 255u, f = what >> 8 & 255u, type = what >> 16 & 255u, to = what >> 24;
    if (kind >= FLOAT) {
        float x = bits_to_float(type, a), y;
        if (kind == FLOAT)
            y = function_of(f, x, uintBitsToFloat(more.x), uintBitsToFloat(more.y));
        else
            y = pair_of(f, x, bits_to_float(type, b));
        return float_to_bits(to, y);
    }
    if (kind == WHERE) return not_zero(first_type, a) ? b : c;
    return element_of(kind, f, type, to, a, b, more, i);
}

// Element i of input k, which is broadcast.
uint place_in(uint k, uint i)
{
    Words table = Words(address(TABLE));
    uint axes = table.v[1], sizes = 3u + INPUTS, place = 0u;
    for (uint axis = 0u; axis < axes; axis++) {
        uint size = table.v[sizes + axis], next = i / size;
        place += (i - next * size) * table.v[sizes + axes * (1u + k) + axis];
        i = next;
    }
    return place;
}

// The loops are the same for all invocations, those past the last element included.
void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    Words table = Words(address(TABLE));
    bool inside = i < table.v[0];
    uint ops = table.v[2], op_at = 3u + INPUTS + table.v[1] * (1u + INPUTS);
    if (!inside) i = 0u;
    for (uint k = 0u; k < INPUTS; k++)
        if ((address(k).x | address(k).y) != 0u) v[k] = load_bytes(bytes_of(table.v[3u + k]), address(k), place_in(k, i));
    for (uint k = 0u; k < ops; k++, op_at += 4u) {
        uint what = table.v[op_at], operands = table.v[op_at + 1u], out_k = operands >> 24;
        uint a = operands & 255u, b = operands >> 8 & 255u, c = operands >> 16 & 255u;
        uvec2 more = uvec2(table.v[op_at + 2u], table.v[op_at + 3u]);
        v[INPUTS + k] = run_op(what, v[a], v[b], v[c], more.x, more, i);
        for (uint y = 0u; y < 6u; y++) // constant places in the push constants
            if (inside && out_k == y + 1u) store_bytes(bytes_of(what >> 24), address(OUTPUTS + y), i, v[INPUTS + k]);
    }
}
