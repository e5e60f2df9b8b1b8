// lanes.glsl - sixteen sums to one, as the cpu engine adds the lanes of a register: pairs 8, 4, 2 and 1 apart.
float sum_lanes(float lane[16])
{
    precise float sum[16] = lane;
    for (uint step = 8u; step > 0u; step /= 2u)
        for (uint i = 0u; i < step; i++) sum[i] = sum[i] + sum[i + step];
    return sum[0];
}
