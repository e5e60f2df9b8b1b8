// kv_cache.comp - rows of x into their slots of the cache. cache, x, pos, seq, table. word: W, ctx,
// S, B, block.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "slots.glsl"

layout(constant_id = 0) const uint HALF = 0u;
layout(local_size_x = 64) in;

void main()
{
    uint t = gl_WorkGroupID.y, k = gl_GlobalInvocationID.x, W = call.word[0];
    if (k >= W) return;
    int slot = slot_of(3u, 4u, 1u, t, Ints(call.at[2]).v[t]);
    if (slot < 0) return;
    float x = Floats(call.at[1]).v[t * W + k];
    if (HALF != 0u)
        Halves(call.at[0]).v[uint(slot) * W + k] = uint16_t(float_to_half(x));
    else
        Floats(call.at[0]).v[uint(slot) * W + k] = x;
}
