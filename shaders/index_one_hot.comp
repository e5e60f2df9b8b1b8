// index_one_hot.comp - 1 where the column is the index, else 0; rows without columns have indices too. i -> y. word:
// indices, columns; flags in word 5.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"
#include "merge.glsl"

layout(local_size_x = 64) in;

void main()
{
    uint e = row_of_group() * 64u + gl_LocalInvocationID.x, depth = call.word[1], wide = max(depth, 1u), index;
    if (e >= call.word[0] * wide) return;
    bool good = index_at(0u, e / wide, depth, e % wide == 0u, e / wide, 0u, index);
    report_bad_index();
    if (depth != 0u) Floats(call.at[1]).v[e] = good && index == e % wide ? 1.0 : 0.0;
}
