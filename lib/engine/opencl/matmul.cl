/* matmul.cl - products of matrices of one type, in batches: tiles of 64 by 64, 16 of K at a time through local memory. Sums are
 * one fused chain in order of K, so what a place of y gets depends on its row and column alone. */
#include "lib/engine/opencl/prim.clh"
#include "lib/engine/cuda/args_llm.h"

enum { TILE = 64, DEEP = 16, EACH = 4 };

/* Where the matrices of batch `rest` begin, in elements. */
FN void batch_of(const zt_cu_matmul_args *a, int64_t rest, int64_t *at_a, int64_t *at_b)
{
    *at_a = *at_b = 0;
    for (int d = a->rank - 1; d >= 0; d--) {
        *at_a += rest % a->dim[d] * a->a_step[d];
        *at_b += rest % a->dim[d] * a->b_step[d];
        rest /= a->dim[d];
    }
}

/* DEEP columns of 64 rows; work-items follow each other along what lies side by side. */
FN void fill(int type, zt_cu_ptr from, int64_t base, int64_t row, int64_t rows, int64_t row_step, int64_t k, int64_t K,
             int64_t k_step, __local float (*to)[TILE + 4])
{
    for (int i = thread(); i < TILE * DEEP; i += threads()) {
        const int r = row_step == 1 ? i % TILE : i / DEEP, d = row_step == 1 ? i / TILE : i % DEEP;
        const bool any = row + r < rows && k + d < K;
        to[d][r] = any ? get(type, from, base + (row + r) * row_step + (k + d) * k_step) : 0;
    }
}

/* A work-item 4 by 4. */
FN void product(int type, const zt_cu_matmul_args *a, __local float (*left)[TILE + 4], __local float (*right)[TILE + 4])
{
    int64_t at_a, at_b;
    const int64_t n0 = (int64_t)block_y() * TILE, m0 = (int64_t)block() * TILE;
    const int i0 = thread() / 16 * EACH, j0 = thread() % 16 * EACH;
    float sum[EACH][EACH];
    batch_of(a, block_z(), &at_a, &at_b);
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) sum[i][j] = 0;
    for (int64_t k = 0; k < a->K; k += DEEP) {
        fill(type, a->a, at_a, n0, a->N, a->a_row, k, a->K, a->a_col, left);
        fill(type, a->b, at_b, m0, a->M, a->b_col, k, a->K, a->b_row, right);
        meet();
        const int deep = a->K - k < DEEP ? (int)(a->K - k) : DEEP;
        for (int d = 0; d < deep; d++)
            for (int i = 0; i < EACH; i++)
                for (int j = 0; j < EACH; j++) sum[i][j] = fma(left[d][i0 + i], right[d][j0 + j], sum[i][j]);
        meet();
    }
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            const int64_t n = n0 + i0 + i, m = m0 + j0 + j;
            if (n < a->N && m < a->M) put(type, a->y, ((int64_t)block_z() * a->N + n) * a->M + m, sum[i][j]);
        }
}

#define MATMUL(name, type)                                                                                                       \
    KERNEL(name, zt_cu_matmul_args)                                                                                              \
    {                                                                                                                            \
        __local float left[DEEP][TILE + 4], right[DEEP][TILE + 4];                                                               \
        product(type, &a, left, right);                                                                                          \
    }
MATMUL(zt_matmul_f32, ZT_CU_F32)
MATMUL(zt_matmul_f16, ZT_CU_F16)
MATMUL(zt_matmul_bf16, ZT_CU_BF16)
