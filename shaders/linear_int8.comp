// linear_int8.comp - products of bytes (linear_int8.glsl) where the device has them in one instruction. All invocations
// want the same codes of x: each of eight lanes reads one word and the others get it from there. The products are
// SPIR-V's OpSDot, for which the glslc of Debian 12 has no function (GL_EXT_integer_dot_product).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_ballot : require
#include "call.glsl"

// The last operand, 0, says that words hold four bytes.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019],
                  id = 4450)
int signed_dot(int a, int b, spirv_literal int format);
int dot_bytes(int a, int b) { return signed_dot(a, b, 0); }

void read_codes(Words x, uint at, out int q[16])
{
    uint lane = gl_SubgroupInvocationID & 7u;
    q[0] = int(x.v[at + lane]);
    q[1] = int(x.v[at + 8u + lane]);
}
int code_of(int q[16], uint i) { return subgroupBroadcast(q[i / 8u], i % 8u); }

void read_factors(Words x, uint at, out uint factor[4])
{
    uint mine = x.v[at + (gl_SubgroupInvocationID & 3u)];
    for (uint i = 0u; i < 4u; i++) factor[i] = subgroupBroadcast(mine, i);
}
#include "linear_int8.glsl"
