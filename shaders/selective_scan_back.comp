// selective_scan_back.comp - the gradient of selective_scan: a channel an invocation, the rows forward and then back. What
// several channels give to one number goes to parts, which state_back.comp adds. state, x, dt, from, to, a, b; in words from
// 0 the addresses of c, d, dy, dstate1, dstate, dx, scratch and of sizes: rows, slots, heads, channels of a head, N,
// groups, has a a column for each number.
//
// Scratch, for W channels: what the slots hold [slots,W,N], the states before the rows [rows,W,N], cotangents of the state
// and of the slots [1+slots,W,N], parts of db and dc [rows,W,N] each, of ddt [rows,W], of da [W,N] or [W], of dd [W].
//
// (All invocations run all loops, those without a channel too, which store nothing: llvmpipe leaves loops early otherwise.)
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "curves.glsl"
#include "lanes.glsl"

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

void main()
{
    const uint number_of = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    const uint n = size_of(0u), slots = size_of(1u), H = size_of(2u), P = size_of(3u), N = size_of(4u), groups = size_of(5u);
    const bool wide = size_of(6u) != 0u;
    const uint W = H * P, channel = min(number_of, W - 1u), all = W * N, own = channel * N;
    const bool inside = number_of < W;
    const uint head = channel / P, group = channel / (W / groups);
    const uint before = slots * all, cotangent = before + n * all, part_b = cotangent + (1u + slots) * all;
    const uint part_c = part_b + n * all, part_dt = part_c + n * all, part_a = part_dt + n * W;
    const uint part_d = part_a + (wide ? all : W);
    Floats room = Floats(more(6u)), a = Floats(call.at[5]), b = Floats(call.at[6]), c = Floats(more(0u));
    for (uint s = 0u; s < slots; s++)
        for (uint k = own; k < own + N; k++) {
            if (inside) room.v[s * all + k] = Floats(call.at[0]).v[s * all + k];
            if (inside) room.v[cotangent + (1u + s) * all + k] = wanted(3u) ? Floats(more(3u)).v[s * all + k] : 0.0;
        }
    for (uint k = own; k < own + N; k++)
        if (inside) room.v[cotangent + k] = 0.0;
    for (uint k = 0u; k < (wide ? N : 1u); k++)
        if (inside) room.v[part_a + (wide ? own + k : channel)] = 0.0;
    for (uint r = 0u; r < n; r++) {
        const int start = slot_in(3u, r, r > 0u ? STATE_CONTINUED : STATE_ZEROS, number_of == 0u);
        const int end = slot_in(4u, r, -1, number_of == 0u);
        precise float dt = Floats(call.at[2]).v[r * H + head], taken = dt * Floats(call.at[1]).v[r * W + channel];
        for (uint k = 0u; k < N; k++) {
            float s = 0.0;
            if (start >= 0) s = room.v[uint(start) * all + own + k];
            if (start == STATE_CONTINUED) {
                // the row before, from the state before it
                precise float old_dt = Floats(call.at[2]).v[(r - 1u) * H + head], exponent = old_dt * a.v[wide ? head * N + k : head];
                precise float input_x = old_dt * Floats(call.at[1]).v[(r - 1u) * W + channel];
                precise float added = input_x * b.v[((r - 1u) * groups + group) * N + k];
                precise float now = fused(room.v[before + (r - 1u) * all + own + k], quick_exp(exponent), added);
                s = now;
            }
            if (inside) room.v[before + r * all + own + k] = s;
            if (end < 0) continue;
            precise float exponent = dt * a.v[wide ? head * N + k : head], added = taken * b.v[(r * groups + group) * N + k];
            precise float after = fused(s, quick_exp(exponent), added);
            if (inside) room.v[uint(end) * all + own + k] = after;
        }
    }
    precise float sum_d = 0.0;
    for (uint r = n; r-- > 0u;) {
        const int start = slot_in(3u, r, r > 0u ? STATE_CONTINUED : STATE_ZEROS, false), end = slot_in(4u, r, -1, false);
        const float x = Floats(call.at[1]).v[r * W + channel], dt = Floats(call.at[2]).v[r * H + head];
        const float dy = wanted(2u) ? Floats(more(2u)).v[r * W + channel] : 0.0;
        precise float sum_x[16], sum_dt[16], sum_a[16], taken = dt * x;
        for (uint i = 0u; i < 16u; i++) sum_x[i] = sum_dt[i] = sum_a[i] = 0.0;
        for (uint k = 0u; k < N; k++) {
            const uint at = cotangent + own + k, slot = cotangent + (1u + uint(max(end, 0))) * all + own + k, i = k % 16u;
            precise float C = room.v[at];
            if (end >= 0) {
                C = C + room.v[slot];
                if (inside) room.v[slot] = 0.0;
            }
            const uint in_row = (r * groups + group) * N + k;
            const float a_k = a.v[wide ? head * N + k : head];
            precise float exponent = dt * a_k, decay = quick_exp(exponent), kept = decay * room.v[before + r * all + own + k];
            precise float added = taken * b.v[in_row], C1 = fused(c.v[in_row], dy, C), through = kept * C1;
            precise float of_b = taken * C1, state = kept + added, of_c = state * dy;
            if (inside) room.v[part_b + r * all + own + k] = of_b;
            if (inside) room.v[part_c + r * all + own + k] = of_c;
            if (wide) {
                precise float of_a = dt * through, sum = room.v[part_a + own + k] + of_a;
                if (inside) room.v[part_a + own + k] = sum;
            }
            sum_a[i] = sum_a[i] + through;
            sum_x[i] = fused(b.v[in_row], C1, sum_x[i]);
            sum_dt[i] = fused(a_k, through, sum_dt[i]);
            precise float back = decay * C1;
            const uint from = cotangent + (1u + uint(max(start, 0))) * all + own + k;
            if (start >= 0) {
                precise float sum = room.v[from] + back;
                if (inside) room.v[from] = sum;
            }
            if (inside) room.v[at] = start == STATE_CONTINUED ? back : 0.0;
        }
        precise float of_x = sum_lanes(sum_x), dx = of_x * dt, skipped = wanted(1u) ? Floats(more(1u)).v[head] * dy : 0.0;
        precise float dt_more = x * of_x, of_dt = sum_lanes(sum_dt) + dt_more;
        dx = dx + skipped;
        if (inside && wanted(5u)) Floats(more(5u)).v[r * W + channel] = dx;
        if (inside) room.v[part_dt + r * W + channel] = of_dt;
        if (!wide) {
            precise float of_a = dt * sum_lanes(sum_a), sum = room.v[part_a + channel] + of_a;
            if (inside) room.v[part_a + channel] = sum;
        }
        precise float of_d = x * dy;
        sum_d = sum_d + of_d;
    }
    if (inside) room.v[part_d + channel] = sum_d;
    for (uint s = 0u; s < slots && wanted(4u); s++)
        for (uint k = own; k < own + N; k++)
            if (inside) Floats(more(4u)).v[s * all + k] = room.v[cotangent + (1u + s) * all + k];
}
