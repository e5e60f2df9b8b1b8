// rope.glsl - rotary positions: one pair of columns an invocation, a row of x each y. word: columns of a row, head, dims,
// neighbours, amplitude. at[3] is a table of the pairs' angles, at[2], if there, what each is divided by. The shader that
// includes this defines turn_of_pair(row, j): sine and cosine of row's angle for pair j.
#include "call.glsl"
#include "fused.glsl"

layout(local_size_x = 64) in;

// Taylor for |x| <= pi / 4.
vec2 sine_cosine(float x)
{
    precise float z = x * x;
    precise float s = fused(z, 1.0 / 362880.0, -1.0 / 5040.0);
    s = fused(s, z, 1.0 / 120.0);
    s = fused(s, z, -1.0 / 6.0);
    s = fused(s * z, x, x);
    precise float c = fused(z, -1.0 / 3628800.0, 1.0 / 40320.0);
    c = fused(c, z, -1.0 / 720.0);
    c = fused(c, z, 1.0 / 24.0);
    c = fused(c, z, -0.5);
    c = fused(c, z, 1.0);
    return vec2(s, c);
}

// Of `left` radians and whole quarter turns.
vec2 turned(float left, uint quarter)
{
    vec2 sc = sine_cosine(left);
    if ((quarter & 1u) != 0u) sc = vec2(sc.y, -sc.x);
    return (quarter & 2u) != 0u ? -sc : sc;
}

vec2 turn_of_pair(uint row, uint j);

void main()
{
    uint cols = call.word[0], head = call.word[1], dims = call.word[2], half_d = dims / 2u;
    uint row = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
    uint heads = cols / head, turned = heads * half_d;
    if (i < turned) {
        uint h = i / half_d, j = i % half_d;
        uint a = row * cols + h * head + (call.word[3] != 0u ? 2u * j : j);
        uint b = call.word[3] != 0u ? a + 1u : a + half_d;
        precise vec2 sc = turn_of_pair(row, j) * number(4);
        precise float xa = get(0u, a), xb = get(0u, b);
        precise float part_a = xb * -sc.x, part_b = xa * sc.x;
        precise float ya = fused(xa, sc.y, part_a), yb = fused(xb, sc.y, part_b);
        put(4u, a, ya);
        put(4u, b, yb);
    } else if (i < turned + heads * (head - dims)) {
        uint k = i - turned, h = k / (head - dims);
        uint at = row * cols + h * head + dims + k % (head - dims);
        put(4u, at, get(0u, at));
    }
}
