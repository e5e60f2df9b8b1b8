// argmax.comp - the first largest of a row, one row a workgroup; NaNs are not looked at, and a row
// of nothing else gives 0. word: K, rows.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(local_size_x = 64) in;
shared float best[64];
shared uint where[64];

bool better(float a, uint i, float b, uint j)
{
    if (isnan(a) != isnan(b)) return isnan(b);
    return a > b || ((a == b || isnan(a)) && i < j);
}

void main()
{
    uint row = row_of_group(), i = gl_LocalInvocationID.x, K = call.word[0];
    if (row >= call.word[1]) return;
    float top = get(0u, row * K);
    uint at = 0u;
    for (uint k = i; k < K; k += 64u)
        if (better(get(0u, row * K + k), k, top, at)) {
            top = get(0u, row * K + k);
            at = k;
        }
    best[i] = top;
    where[i] = at;
    barrier();
    for (uint half_n = 32u; half_n > 0u; half_n /= 2u) {
        if (i < half_n && better(best[i + half_n], where[i + half_n], best[i], where[i])) {
            best[i] = best[i + half_n];
            where[i] = where[i + half_n];
        }
        barrier();
    }
    if (i == 0u) Ints(call.at[1]).v[row] = int(where[0]);
}
