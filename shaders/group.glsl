// group.glsl - sums and extremes over the 64 invocations of a workgroup, for each of them. Partial results meet in one
// tree, in the same order on any device.
const uint GROUP = 64u;
layout(local_size_x = 64) in;
shared real group_room[GROUP];

real group_sum(real mine)
{
    uint i = gl_LocalInvocationID.x;
    group_room[i] = mine;
    barrier();
    for (uint half_n = GROUP / 2u; half_n > 0u; half_n /= 2u) {
        if (i < half_n) group_room[i] += group_room[i + half_n];
        barrier();
    }
    real sum = group_room[0];
    barrier();
    return sum;
}

// NaN is not looked at.
real group_max(real mine)
{
    uint i = gl_LocalInvocationID.x;
    group_room[i] = mine;
    barrier();
    for (uint half_n = GROUP / 2u; half_n > 0u; half_n /= 2u) {
        if (i < half_n && group_room[i + half_n] > group_room[i]) group_room[i] = group_room[i + half_n];
        barrier();
    }
    real top = group_room[0];
    barrier();
    return top;
}

// A sum with what rounding took from it (Kahan), which the next term gives back.
struct Sum {
    real all, lost;
};
void add_to(inout Sum sum, real term)
{
    precise real v = term - sum.lost, next = sum.all + v;
    precise real lost = (next - sum.all) - v;
    sum.lost = isinf(next) || isnan(next) ? 0.0 : lost;
    sum.all = next;
}
