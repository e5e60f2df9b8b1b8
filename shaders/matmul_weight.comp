// matmul_weight.comp - y = x w, or of a transposed w, of any type of weights: a tile of y a workgroup,
// for which an invocation unpacks 32 columns of a row of w at a time. word: N, K, M, columns of w,
// transposed, workgroups.
#version 460
#extension GL_GOOGLE_include_directive : require
#define GRID_AT 5u
#include "call.glsl"
#include "weights.glsl"
#include "fused.glsl"
#define DEEP 32u
#include "tiles.glsl"

// Column c of the 32 that were unpacked for e.
void put_right(uint e, uint c, bool transposed, float number)
{
    const uint k = transposed ? c : e % 32u, m = transposed ? e : e / 32u * 32u + c;
    right[k * RIGHT_STEP + m] = number;
}

void main()
{
    uint N = call.word[0], K = call.word[1], M = call.word[2], group = row_of_group();
    if (group >= call.word[5]) return;
    uint tiles_m = (M + TILE_M - 1u) / TILE_M, i = gl_LocalInvocationID.x;
    uint m0 = group % tiles_m * TILE_M, n0 = group / tiles_m * TILE_N;
    bool transposed = call.word[4] != 0u;
    clear_sums();
    for (uint k0 = 0u; k0 < K; k0 += DEEP) {
        for (uint e = i; e < TILE_N * DEEP; e += THREADS) {
            uint r = e / DEEP, k = e % DEEP;
            bool inside = n0 + r < N && k0 + k < K;
            left[k * LEFT_STEP + r] = inside ? get(0u, (n0 + r) * K + k0 + k) : 0.0;
        }
        for (uint e = i; e < 64u; e += THREADS) {
            // transposed: row e of the tile's 64; else row e % 32 of its 32, half e / 32 of the columns
            uint row = transposed ? m0 + e : k0 + e % 32u;
            uint part = transposed ? k0 / 32u : m0 / 32u + e / 32u;
            bool inside = row < (transposed ? M : K) && part * 32u < call.word[3];
            float v[32];
            if (inside) part_of(row_of(call.at[1], row, call.word[3]), part, v);
            if (FUSED != 0u) {
                for (uint c = 0u; c < 32u; c++) put_right(e, c, transposed, inside && part * 32u + c < call.word[3] ? v[c] : 0.0);
            } else { // for compilers of CPUs, which take long
                [[dont_unroll]] for (uint c = 0u; c < 32u; c++)
                    put_right(e, c, transposed, inside && part * 32u + c < call.word[3] ? v[c] : 0.0);
            }
        }
        barrier();
        if (n0 + own_row() < N) add_products();
        barrier();
    }
    for (uint r = 0u; r < ROWS; r++)
        for (uint c = 0u; c < 4u; c++) {
            uint n = n0 + own_row() + r, m = m0 + own_column() + 16u * c;
            if (n < N && m < M) put(2u, n * M + m, sums[r * 4u + c]);
        }
}
