// tiles.glsl - a tile of a product of matrices through shared memory: y[n,m] += sum over k of
// left[k,n] right[k,m], DEEP of k at a time, which the shader defines. An invocation has ROWS rows of
// y one after the other and four columns 16 apart. A sum is one fused chain in order of k, whatever
// the constants are, and what pads a tile is 0.
#extension GL_EXT_control_flow_attributes : require
layout(constant_id = 1) const uint ROWS = 8u;
layout(constant_id = 2) const uint THREADS = 64u; // 64 or 256
layout(local_size_x_id = 2) in;

const uint TILE_N = THREADS / 16u * ROWS, TILE_M = 64u;
const uint LEFT_STEP = TILE_N + 1u, RIGHT_STEP = TILE_M + 1u; // from one k to the next
shared real left[DEEP * LEFT_STEP], right[DEEP * RIGHT_STEP];
real sums[ROWS * 4u];

uint own_row() { return gl_LocalInvocationID.x / 16u * ROWS; } // its first
uint own_column() { return gl_LocalInvocationID.x % 16u; }

void clear_sums()
{
    for (uint s = 0u; s < ROWS * 4u; s++) sums[s] = 0.0;
}

void add_products()
{
    uint row = own_row(), column = own_column();
    [[dont_unroll]] for (uint k = 0u; k < DEEP; k++) {
        real u[ROWS], v[4];
        for (uint r = 0u; r < ROWS; r++) u[r] = left[k * LEFT_STEP + row + r];
        for (uint c = 0u; c < 4u; c++) v[c] = right[k * RIGHT_STEP + column + 16u * c];
        for (uint r = 0u; r < ROWS; r++)
            for (uint c = 0u; c < 4u; c++) {
                precise real s = fma(u[r], v[c], sums[r * 4u + c]);
                sums[r * 4u + c] = s;
            }
    }
}
