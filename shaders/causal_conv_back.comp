// causal_conv_back.comp - the gradient of causal_conv: a channel an invocation, the rows forward and then back. state, x, w,
// from, to, b, dstate1; in words from 0 the addresses of dy, dstate, dx, dw, db and of scratch: of each channel what the
// slots hold, the states before the rows, and the cotangents of the state and of the slots. word from 12: rows, slots, C,
// K; the highest bit of K: silu.
// (All invocations run all loops, those without a channel too, which store nothing: llvmpipe leaves loops early otherwise.)
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "curves.glsl"
#define FROM 3u
#define TO 4u
#define SLOTS 13u
#include "state_rows.glsl"

layout(local_size_x = 64) in;

uvec2 more(uint k) { return uvec2(call.word[2u * k], call.word[2u * k + 1u]); }
bool wanted(uint k) { return (call.word[2u * k] | call.word[2u * k + 1u]) != 0u; }

void main()
{
    const uint own = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    const uint n = call.word[12], slots = call.word[13], C = call.word[14], K = call.word[15] & 0x7fffffffu, L = K - 1u;
    const bool silu = call.word[15] >> 31 != 0u;
    const uint c = min(own, C - 1u);
    const bool inside = own < C;
    Floats x = Floats(call.at[1]), w = Floats(call.at[2]), room = Floats(more(5u)), dw = Floats(more(3u));
    const uint before = slots * L, cotangent = before + n * L;
    for (uint i = 0u; i < slots * L; i++) {
        if (inside) room.v[i * C + c] = Floats(call.at[0]).v[i * C + c];
        if (inside) room.v[(cotangent + L + i) * C + c] = there(6u) ? Floats(call.at[6]).v[i * C + c] : 0.0;
    }
    for (uint k = 0u; k < L; k++)
        if (inside) room.v[(cotangent + k) * C + c] = 0.0;
    for (uint k = 0u; k < K && wanted(3u); k++)
        if (inside) dw.v[c * K + k] = 0.0;
    for (uint r = 0u; r < n; r++) {
        const int start = start_of(r, own == 0u), end = end_of(r, own == 0u);
        for (uint k = 0u; k < L; k++) {
            float entry = 0.0;
            if (start >= 0)
                entry = room.v[(uint(start) * L + k) * C + c];
            else if (start == STATE_CONTINUED)
                entry = k + 1u < L ? room.v[(before + (r - 1u) * L + k + 1u) * C + c] : x.v[(r - 1u) * C + c];
            if (inside) room.v[(before + r * L + k) * C + c] = entry;
        }
        for (uint k = 0u; k < L && end >= 0; k++)
            if (inside) room.v[(uint(end) * L + k) * C + c] = k + 1u < L ? room.v[(before + r * L + k + 1u) * C + c] : x.v[r * C + c];
    }
    precise float db = 0.0;
    for (uint r = n; r-- > 0u;) {
        const int start = start_of(r, false), end = end_of(r, false);
        for (uint k = 0u; k < L && end >= 0; k++) {
            const uint slot = (cotangent + L + uint(end) * L + k) * C + c;
            precise float sum = room.v[(cotangent + k) * C + c] + room.v[slot];
            if (inside) room.v[(cotangent + k) * C + c] = sum;
            if (inside) room.v[slot] = 0.0;
        }
        precise float d = wanted(0u) ? Floats(more(0u)).v[r * C + c] : 0.0;
        if (silu && wanted(0u)) {
            precise float sum = there(5u) ? Floats(call.at[5]).v[c] : 0.0;
            for (uint k = 0u; k < L; k++) sum = fused(w.v[c * K + k], room.v[(before + r * L + k) * C + c], sum);
            sum = fused(w.v[c * K + L], x.v[r * C + c], sum);
            precise float s = quick_sigmoid(sum), rest = 1.0 - s, slope = fused(sum, rest, 1.0);
            d = d * s;
            d = d * slope;
        }
        for (uint k = 0u; k < K && wanted(3u); k++) {
            const float entry = k < L ? room.v[(before + r * L + k) * C + c] : x.v[r * C + c];
            precise float sum = fused(d, entry, dw.v[c * K + k]);
            if (inside) dw.v[c * K + k] = sum;
        }
        db = db + d;
        precise float dx = fused(w.v[c * K + L], d, L > 0u ? room.v[(cotangent + L - 1u) * C + c] : 0.0);
        if (inside && wanted(2u)) Floats(more(2u)).v[r * C + c] = dx;
        for (uint k = L; k-- > 0u;) {
            precise float sum = fused(w.v[c * K + k], d, k > 0u ? room.v[(cotangent + k - 1u) * C + c] : 0.0);
            if (inside) room.v[(cotangent + k) * C + c] = sum;
        }
        for (uint k = 0u; k < L; k++) {
            const uint slot = (cotangent + L + uint(max(start, 0)) * L + k) * C + c;
            if (start >= 0) {
                precise float sum = room.v[slot] + room.v[(cotangent + k) * C + c];
                if (inside) room.v[slot] = sum;
            }
            if (inside && start != STATE_CONTINUED) room.v[(cotangent + k) * C + c] = 0.0;
        }
    }
    if (inside && wanted(4u)) Floats(more(4u)).v[c] = db;
    for (uint i = 0u; i < slots * L && wanted(1u); i++)
        if (inside) Floats(more(1u)).v[i * C + c] = room.v[(cotangent + L + i) * C + c];
}
