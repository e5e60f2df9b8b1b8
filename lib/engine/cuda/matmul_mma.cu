/* matmul_mma.cu - large products of matrices of f16 or bf16, in batches. */
#include "lib/engine/cuda/gemm.cuh"
#include "lib/engine/cuda/matmul.h"

/* Sums in shared memory, by row: PITCH keeps pairs of those of a warp apart. */
enum { PITCH = GEMM_TILE + 8 };
static_assert(GEMM_TILE * PITCH * 4 <= ZT_CU_GEMM_BYTES, "as the host knows it");

template <class T>
FN void store_tile(const zt_cu_matmul_args &a, int64_t n0, int64_t m0, const float *sums)
{
    T *y = PTR(T, a.y) + (int64_t)block_y() * a.N * a.M;
    for (int i = thread(); i < GEMM_TILE * GEMM_TILE / 8; i += GEMM_THREADS) {
        int64_t n = n0 + i / 16, m = m0 + i % 16 * 8;
        const float *from = sums + i / 16 * PITCH + i % 16 * 8;
        vec<T, 8> v;
        if (n >= a.N) continue;
        for (int j = 0; j < 8; j++) v.v[j] = put<T>(from[j]);
        if (a.wide_y && m < a.M) store_vec(y + n * a.M + m, v);
        for (int j = 0; j < 8 && !a.wide_y; j++)
            if (m + j < a.M) y[n * a.M + m + j] = v.v[j];
    }
}

template <class T, bool LEFT, bool RIGHT>
FN void product_large(const zt_cu_matmul_args &a, uint16_t *room)
{
    int64_t at_a, at_b, n0, m0, lefts = (a.N + GEMM_TILE - 1) / GEMM_TILE;
    float *sums = (float *)room;
    gemm_tile_of(block(), lefts, blocks() / lefts, &n0, &m0);
    batch_of(a, block_y(), &at_a, &at_b);
    const gemm_side x = {PTR(const uint16_t, a.a) + at_a, a.N, a.a_row, a.a_col, n0, a.wide_a != 0};
    const gemm_side y = {PTR(const uint16_t, a.b) + at_b, a.M, a.b_col, a.b_row, m0, a.wide_b != 0};
    gemm_sums total = {{{0}}};
    gemm<T, LEFT, RIGHT, false>(x, y, a.K, 0, room, total);
    UNROLL
    for (int i = 0; i < 64; i += 2) {
        vec<float, 2> two = {{total[i / 16][i / 4 % 4][i % 4], total[i / 16][i / 4 % 4][i % 4 + 1]}};
        store_vec(sums + gemm_left(i / 16, i % 4) * PITCH + gemm_right(i / 4 % 4, i % 4), two);
    }
    barrier();
    store_tile<T>(a, n0, m0, sums);
}

/* Of a b^T, a b and a^T b; t: transposed. */
#define LARGE(name, number, left, right)                                                           \
    KERNEL_OF(zt_matmul_##name, zt_cu_matmul_args, GEMM_THREADS)                                   \
    {                                                                                              \
        DYNAMIC_SHARED(uint16_t, room);                                                            \
        product_large<number, left, right>(a, room);                                               \
    }
LARGE(f16_nt, f16, false, false)
LARGE(f16_nn, f16, false, true)
LARGE(f16_tn, f16, true, true)
LARGE(bf16_nt, bf16, false, false)
LARGE(bf16_nn, bf16, false, true)
LARGE(bf16_tn, bf16, true, true)
