// delta_rule_back.comp - the gradient of delta_rule (lib/ops/delta_rule_back.c has the formulas): a column of a head's state an
// invocation, the rows forward and then back. What columns give to one number goes to parts, which state_back.comp adds.
// state, k, v, from, to, g, beta; in words from 0 the addresses of q, factors, dstate1, dy, dstate, dv, scratch and of sizes:
// rows, slots, heads, key heads, D, E, do heads share keys in turn.
//
// Scratch: what the slots hold [slots,heads,D,E], the states before the rows [rows,heads,D,E], cotangents of the state and of
// the slots [1+slots,heads,D,E], parts of dq and dk [rows,heads,E,D] each, of dg and dbeta [rows,heads,E] each.
//
// (All invocations run all loops, those without a column too, which store nothing: llvmpipe leaves loops early otherwise.)
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "curves.glsl"

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

// Of a row and head: what it reads.
struct HeadRow {
    uint key, at;
    float decay, beta, factor, query;
};

HeadRow read_row(uint r, uint head)
{
    const uint heads = size_of(2u), key_heads = size_of(3u);
    const uint key_head = size_of(6u) != 0u ? head % key_heads : head / (heads / key_heads), vector = r * key_heads + key_head;
    HeadRow row;
    row.key = vector * size_of(4u);
    row.at = r * heads + head;
    row.decay = quick_exp(Floats(call.at[5]).v[row.at]);
    row.beta = Floats(call.at[6]).v[row.at];
    row.factor = Floats(more(1u)).v[2u * vector];
    row.query = Floats(more(1u)).v[2u * vector + 1u];
    return row;
}

float key_of(HeadRow row, uint d)
{
    precise float k = row.factor * Floats(call.at[1]).v[row.key + d];
    return k;
}

// u = v - T^T k with T = decay S, S from `from` on.
float change_of(HeadRow row, uint e, uint from)
{
    const uint D = size_of(4u), E = size_of(5u);
    precise float u = Floats(call.at[2]).v[row.at * E + e];
    for (uint d = 0u; d < D; d++) {
        precise float T = row.decay * Floats(more(6u)).v[from + d * E];
        u = fused(-key_of(row, d), T, u);
    }
    return u;
}

void main()
{
    const uint column = gl_GlobalInvocationID.x, head = gl_WorkGroupID.y;
    const uint n = size_of(0u), slots = size_of(1u), heads = size_of(2u), D = size_of(4u), E = size_of(5u);
    const uint e = min(column, E - 1u);
    const bool inside = column < E;
    const uint all = heads * D * E, own = head * D * E + e, before = slots * all, cotangent = before + n * all;
    const uint part_q = cotangent + (1u + slots) * all, part_k = part_q + n * all, part_g = part_k + n * all;
    const uint part_beta = part_g + n * heads * E;
    Floats room = Floats(more(6u));
    const bool tells = column == 0u && head == 0u;
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
        const uint from = before + r * all + own;
        for (uint d = 0u; d < D; d++) {
            float s = 0.0;
            if (start >= 0) s = room.v[uint(start) * all + own + d * E];
            if (start == STATE_CONTINUED) s = room.v[cotangent + own + d * E];
            if (inside) room.v[from + d * E] = s;
        }
        HeadRow row = read_row(r, head);
        precise float w = row.beta * change_of(row, e, from);
        for (uint d = 0u; d < D; d++) {
            precise float T = row.decay * room.v[from + d * E], s = fused(key_of(row, d), w, T);
            if (inside) room.v[cotangent + own + d * E] = s;
            if (inside && end >= 0) room.v[uint(end) * all + own + d * E] = s;
        }
    }
    for (uint d = 0u; d < D; d++)
        if (inside) room.v[cotangent + own + d * E] = 0.0;
    for (uint r = n; r-- > 0u;) {
        const int start = slot_in(3u, r, r > 0u ? STATE_CONTINUED : STATE_ZEROS, false), end = slot_in(4u, r, -1, false);
        const uint from = before + r * all + own;
        HeadRow row = read_row(r, head);
        const float dy = wanted(3u) ? Floats(more(3u)).v[row.at * E + e] : 0.0;
        precise float u = change_of(row, e, from), w = row.beta * u, along = w * dy, dv = 0.0, dg = 0.0;
        const uint parts = (row.at * E + e) * D;
        for (uint d = 0u; d < D; d++) {
            const uint at = cotangent + own + d * E, slot = cotangent + (1u + uint(max(end, 0))) * all + own + d * E;
            precise float C = room.v[at], k = key_of(row, d), T = row.decay * room.v[from + d * E];
            precise float q = row.query * Floats(more(0u)).v[row.key + d], dq = T * dy;
            if (end >= 0) {
                C = C + room.v[slot];
                if (inside) room.v[slot] = 0.0;
            }
            C = fused(q, dy, C);
            if (inside) room.v[at] = C;
            dq = fused(k, along, dq);
            if (inside) room.v[part_q + parts + d] = dq;
            dv = fused(k, C, dv);
        }
        precise float dbeta = dv * u;
        dv = row.beta * dv;
        for (uint d = 0u; d < D; d++) {
            const uint at = cotangent + own + d * E, slot = cotangent + (1u + uint(max(start, 0))) * all + own + d * E;
            precise float C = room.v[at], k = key_of(row, d), T = row.decay * room.v[from + d * E], dk = C * w;
            dk = fused(-T, dv, dk);
            if (inside) room.v[part_k + parts + d] = dk;
            C = fused(-k, dv, C);
            dg = fused(C, T, dg);
            C = row.decay * C;
            if (start >= 0) {
                precise float sum = room.v[slot] + C;
                if (inside) room.v[slot] = sum;
            }
            if (inside) room.v[at] = start == STATE_CONTINUED ? C : 0.0;
        }
        if (inside) room.v[part_g + row.at * E + e] = dg;
        if (inside) room.v[part_beta + row.at * E + e] = dbeta;
        if (inside && wanted(5u)) Floats(more(5u)).v[row.at * E + e] = dv;
    }
    for (uint s = 0u; s < slots && wanted(4u); s++)
        for (uint d = 0u; d < D; d++)
            if (inside) Floats(more(4u)).v[s * all + own + d * E] = room.v[cotangent + (1u + s) * all + own + d * E];
}
