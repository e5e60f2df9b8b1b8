// wkv7_back.comp - the gradient of wkv7 (lib/ops/wkv7_back.c has the formulas): a column of a head's state an invocation, the
// rows forward and then back. What columns give to one number goes to parts, which state_back.comp adds. state, q, w, from, to,
// k, v; in words from 0 the addresses of a, b, dstate1, dy, dstate, dv, scratch and of sizes: rows, slots, heads, D, E.
//
// Scratch: what the slots hold [slots,heads,D,E], the states before the rows [rows,heads,D,E], cotangents of the state and of
// the slots [1+slots,heads,D,E], parts of dq, dw, dk, da and db [rows,heads,E,D] each.
//
// (All invocations run all loops, those without a column too, which store nothing: llvmpipe leaves loops early otherwise.)
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "fused.glsl"

layout(local_size_x = 64) in;

uvec2 more(uint k) { return uvec2(call.word[2u * k], call.word[2u * k + 1u]); }
bool wanted(uint k) { return (call.word[2u * k] | call.word[2u * k + 1u]) != 0u; }
uint size_of(uint k) { return Words(more(7u)).v[k]; }

const int STATE_ZEROS = -1, STATE_CONTINUED = -2;
int slot_in(uint which, uint r, int least, bool tells)
{
    const int slot = Ints(call.at[which]).v[r], slots = int(size_of(1u));
    if (slot < slots && slot >= least) return slot;
    if (tells) trouble(BAD_STATE, slot, slots, r, which);
    return -1;
}

float q_of(uint i) { return Floats(call.at[1]).v[i]; }
float w_of(uint i) { return Floats(call.at[2]).v[i]; }
float k_of(uint i) { return Floats(call.at[5]).v[i]; }
float a_of(uint i) { return Floats(more(0u)).v[i]; }
float b_of(uint i) { return Floats(more(1u)).v[i]; }

// S^T a, S from `from` on.
float removed_of(uint vector, uint from)
{
    const uint D = size_of(3u), E = size_of(4u);
    precise float u = 0.0;
    for (uint d = 0u; d < D; d++) u = fused(Floats(more(6u)).v[from + d * E], a_of(vector + d), u);
    return u;
}

// w S + b u + k v
float changed_of(uint i, float s, float u, float v)
{
    precise float kept = w_of(i) * s;
    return fused(k_of(i), v, fused(b_of(i), u, kept));
}

void main()
{
    const uint column = gl_GlobalInvocationID.x, head = gl_WorkGroupID.y;
    const uint n = size_of(0u), slots = size_of(1u), heads = size_of(2u), D = size_of(3u), E = size_of(4u);
    const uint e = min(column, E - 1u);
    const bool inside = column < E, tells = column == 0u && head == 0u;
    const uint all = heads * D * E, own = head * D * E + e, before = slots * all, cotangent = before + n * all;
    const uint part_q = cotangent + (1u + slots) * all, part_w = part_q + n * all, part_k = part_w + n * all;
    const uint part_a = part_k + n * all, part_b = part_a + n * all;
    Floats room = Floats(more(6u));
    for (uint s = 0u; s < slots; s++)
        for (uint d = 0u; d < D; d++) {
            const uint at = s * all + own + d * E;
            if (inside) room.v[at] = Floats(call.at[0]).v[at];
            if (inside) room.v[cotangent + all + at] = wanted(2u) ? Floats(more(2u)).v[at] : 0.0;
        }
    for (uint d = 0u; d < D; d++)
        if (inside) room.v[cotangent + own + d * E] = 0.0;
    // The state after a row is in its cotangent's place until the rows go back.
    for (uint r = 0u; r < n; r++) {
        const int start = slot_in(3u, r, r > 0u ? STATE_CONTINUED : STATE_ZEROS, tells), end = slot_in(4u, r, -1, tells);
        const uint from = before + r * all + own, vector = (r * heads + head) * D;
        for (uint d = 0u; d < D; d++) {
            float s = 0.0;
            if (start >= 0) s = room.v[uint(start) * all + own + d * E];
            if (start == STATE_CONTINUED) s = room.v[cotangent + own + d * E];
            if (inside) room.v[from + d * E] = s;
        }
        const float u = removed_of(vector, from), v = Floats(call.at[6]).v[(r * heads + head) * E + e];
        for (uint d = 0u; d < D; d++) {
            const float s = changed_of(vector + d, room.v[from + d * E], u, v);
            if (inside) room.v[cotangent + own + d * E] = s;
            if (inside && end >= 0) room.v[uint(end) * all + own + d * E] = s;
        }
    }
    for (uint d = 0u; d < D; d++)
        if (inside) room.v[cotangent + own + d * E] = 0.0;
    for (uint r = n; r-- > 0u;) {
        const int start = slot_in(3u, r, r > 0u ? STATE_CONTINUED : STATE_ZEROS, false), end = slot_in(4u, r, -1, false);
        const uint from = before + r * all + own, row = r * heads + head, vector = row * D, parts = (row * E + e) * D;
        const float u = removed_of(vector, from), v = Floats(call.at[6]).v[row * E + e];
        const float dy = wanted(3u) ? Floats(more(3u)).v[row * E + e] : 0.0;
        precise float dv = 0.0, du = 0.0;
        for (uint d = 0u; d < D; d++) {
            const uint at = cotangent + own + d * E, slot = cotangent + (1u + uint(max(end, 0))) * all + own + d * E;
            precise float C = room.v[at], dq = changed_of(vector + d, room.v[from + d * E], u, v) * dy;
            if (end >= 0) {
                C = C + room.v[slot];
                if (inside) room.v[slot] = 0.0;
            }
            C = fused(q_of(vector + d), dy, C);
            if (inside) room.v[at] = C;
            if (inside) room.v[part_q + parts + d] = dq;
            dv = fused(k_of(vector + d), C, dv);
            du = fused(b_of(vector + d), C, du);
        }
        for (uint d = 0u; d < D; d++) {
            const uint at = cotangent + own + d * E, slot = cotangent + (1u + uint(max(start, 0))) * all + own + d * E;
            precise float C = room.v[at], s = room.v[from + d * E], dw = C * s, dk = C * v, da = s * du, db = C * u;
            if (inside) room.v[part_w + parts + d] = dw;
            if (inside) room.v[part_k + parts + d] = dk;
            if (inside) room.v[part_a + parts + d] = da;
            if (inside) room.v[part_b + parts + d] = db;
            C = w_of(vector + d) * C;
            C = fused(a_of(vector + d), du, C);
            if (start >= 0) {
                precise float sum = room.v[slot] + C;
                if (inside) room.v[slot] = sum;
            }
            if (inside) room.v[at] = start == STATE_CONTINUED ? C : 0.0;
        }
        if (inside && wanted(5u)) Floats(more(5u)).v[row * E + e] = dv;
    }
    for (uint s = 0u; s < slots && wanted(4u); s++)
        for (uint d = 0u; d < D; d++)
            if (inside) Floats(more(4u)).v[s * all + own + d * E] = room.v[cotangent + (1u + s) * all + own + d * E];
}
