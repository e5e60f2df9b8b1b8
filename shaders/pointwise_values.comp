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

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    Words table = Words(address(TABLE));
    if (i >= table.v[0]) return;
    uint axes = table.v[1], ops = table.v[2], sizes = 3u + INPUTS;
    for (uint k = 0u; k < INPUTS; k++) {
        uvec2 at = address(k);
        if ((at.x | at.y) == 0u) continue;
        uint rest = i, place = 0u;
        for (uint axis = 0u; axis < axes; axis++) {
            uint next = rest / table.v[sizes + axis];
            place += (rest - next * table.v[sizes + axis]) * table.v[sizes + axes * (1u + k) + axis];
            rest = next;
        }
        v[k] = load_bytes(bytes_of(table.v[3u + k]), at, place);
    }
    uint op_at = sizes + axes * (1u + INPUTS);
    for (uint k = 0u; k < ops; k++, op_at += 4u) {
        uint what = table.v[op_at], operands = table.v[op_at + 1u], out_k = operands >> 24;
        uint a = operands & 255u, b = operands >> 8 & 255u, c = operands >> 16 & 255u;
        uvec2 more = uvec2(table.v[op_at + 2u], table.v[op_at + 3u]);
        uint first_type = (what & 255u) == WHERE ? more.x : 0u;
        v[INPUTS + k] = run_op(what, v[a], v[b], v[c], first_type, more, i);
        if (out_k != 0u) store_bytes(bytes_of(what >> 24), address(OUTPUTS + out_k - 1u), i, v[INPUTS + k]);
    }
}
