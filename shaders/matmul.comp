// matmul.comp - y = a b of floats, in batches that broadcast: a tile of y a workgroup. Operands: a, b,
// the table (of each batch dimension the size, then a's and b's steps), y. word: N, K, M, elements of a
// from row to row and from column to column, the same of b, batch dimensions, workgroups.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "batches.glsl"
#define DEEP 16u
#include "tiles.glsl"

void main()
{
    uint N = call.word[0], K = call.word[1], M = call.word[2], group = row_of_group();
    if (group >= call.word[8]) return;
    uint tiles_n = (N + TILE_N - 1u) / TILE_N, tiles_m = (M + TILE_M - 1u) / TILE_M;
    uint m0 = group % tiles_m * TILE_M, n0 = group / tiles_m % tiles_n * TILE_N;
    uint batch = group / tiles_m / tiles_n, at_a, at_b;
    find_batch(batch, at_a, at_b);
    clear_sums();
    // Invocations follow each other along what lies side by side.
    bool down_a = call.word[3] == 1u, down_b = call.word[5] == 1u;
    for (uint k0 = 0u; k0 < K; k0 += DEEP) {
        for (uint e = gl_LocalInvocationID.x; e < TILE_N * DEEP; e += THREADS) {
            uint r = down_a ? e % TILE_N : e / DEEP, k = down_a ? e / TILE_N : e % DEEP;
            bool inside = n0 + r < N && k0 + k < K;
            uint at = at_a + (n0 + r) * call.word[3] + (k0 + k) * call.word[4];
            left[k * LEFT_STEP + r] = inside ? get(0u, at) : 0.0;
        }
        for (uint e = gl_LocalInvocationID.x; e < TILE_M * DEEP; e += THREADS) {
            uint c = down_b ? e / DEEP : e % TILE_M, k = down_b ? e % DEEP : e / TILE_M;
            bool inside = m0 + c < M && k0 + k < K;
            uint at = at_b + (k0 + k) * call.word[5] + (m0 + c) * call.word[6];
            right[k * RIGHT_STEP + c] = inside ? get(1u, at) : 0.0;
        }
        barrier();
        if (n0 + own_row() < N) add_products();
        barrier();
    }
    for (uint r = 0u; r < ROWS; r++)
        for (uint c = 0u; c < 4u; c++) {
            uint n = n0 + own_row() + r, m = m0 + own_column() + 16u * c;
            if (n < N && m < M) put(3u, (batch * N + n) * M + m, sums[r * 4u + c]);
        }
}
