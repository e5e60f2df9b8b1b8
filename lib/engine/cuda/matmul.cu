/* matmul.cu - products of matrices of one type, in batches: tiles of 64 by 64, 16 of K at a time
 * through shared memory. Sums of f32 are one fused chain in order of K; f16 and bf16 go to the
 * matrix units, large ones in matmul_mma.cu, with the same bits. What a place of y gets depends on
 * its row and column alone.
 */
#include "lib/engine/cuda/matmul.h"

enum { TILE = 64, DEEP = 16, THREADS = 256 };

FN float fused(float a, float b, float c) { return fmaf(a, b, c); }
FN double fused(double a, double b, double c) { return fma(a, b, c); }

/* DEEP columns of 64 rows; threads follow each other along what lies side by side. */
template <class T, class S>
FN void fill(const T *from, int64_t row, int64_t rows, int64_t row_step, int64_t k, int64_t K,
             int64_t k_step, S (*to)[TILE + 4])
{
    for (int i = thread(); i < TILE * DEEP; i += THREADS) {
        int r = row_step == 1 ? i % TILE : i / DEEP, d = row_step == 1 ? i / TILE : i % DEEP;
        bool any = row + r < rows && k + d < K;
        to[d][r] = any ? get(from[(row + r) * row_step + (k + d) * k_step]) : 0;
    }
}

/* A thread 4 by 4. */
template <class T, class W>
FN void product(const zt_cu_matmul_args &a, W (*left)[TILE + 4], W (*right)[TILE + 4])
{
    int64_t at_a, at_b, n0 = (int64_t)block_y() * TILE, m0 = (int64_t)block() * TILE;
    batch_of(a, block_z(), &at_a, &at_b);
    int i0 = thread() / 16 * 4, j0 = thread() % 16 * 4;
    W sum[4][4] = {{0}};
    for (int64_t k = 0; k < a.K; k += DEEP) {
        fill(PTR(const T, a.a) + at_a, n0, a.N, a.a_row, k, a.K, a.a_col, left);
        fill(PTR(const T, a.b) + at_b, m0, a.M, a.b_col, k, a.K, a.b_row, right);
        barrier();
        for (int d = 0; d < DEEP && k + d < a.K; d++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sum[i][j] = fused(left[d][i0 + i], right[d][j0 + j], sum[i][j]);
        barrier();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            int64_t n = n0 + i0 + i, m = m0 + j0 + j;
            if (n < a.N && m < a.M)
                PTR(T, a.y)[((int64_t)block_z() * a.N + n) * a.M + m] = put<T>(sum[i][j]);
        }
}

KERNEL_OF(zt_matmul_f32, zt_cu_matmul_args, THREADS)
{
    SHARED(float, left, [DEEP][TILE + 4]);
    SHARED(float, right, [DEEP][TILE + 4]);
    product<float, float>(a, left, right);
}

KERNEL_OF(zt_matmul_f64, zt_cu_matmul_args, THREADS)
{
    SHARED(double, left, [DEEP][TILE + 4]);
    SHARED(double, right, [DEEP][TILE + 4]);
    product<double, double>(a, left, right);
}

/* ---- on the matrix units -------------------------------------------------------------------- */

enum { STEP = 32, ROOM = STEP + 8 }; /* of K through shared memory, rows of it padded */

/* STEP columns of 64 rows of 16-bit numbers, K inner; what is outside is 0. */
FN void fill_half(const uint16_t *from, int64_t row, int64_t rows, int64_t row_step, int64_t k,
                  int64_t K, int64_t k_step, uint16_t (*to)[ROOM])
{
    for (int i = thread(); i < TILE * STEP; i += THREADS) {
        int r = row_step == 1 ? i % TILE : i / STEP, d = row_step == 1 ? i / TILE : i % STEP;
        bool any = row + r < rows && k + d < K;
        to[r][d] = any ? from[(row + r) * row_step + (k + d) * k_step] : (uint16_t)0;
    }
}

FN uint32_t pair(const uint16_t *p) { return *(const uint32_t *)p; }

/* Eight warps: two by four, each 32 rows by 16 columns. */
template <class T>
FN void product_half(const zt_cu_matmul_args &a, uint16_t (*left)[ROOM], uint16_t (*right)[ROOM])
{
    int64_t at_a, at_b, n0 = (int64_t)block_y() * TILE, m0 = (int64_t)block() * TILE;
    batch_of(a, block_z(), &at_a, &at_b);
    int i0 = warp() / 4 * 32, j0 = warp() % 4 * 16, g = lane() / 4, t = lane() % 4;
    float sum[2][2][4] = {{{0}}};
    for (int64_t k = 0; k < a.K; k += STEP) {
        fill_half(PTR(const uint16_t, a.a) + at_a, n0, a.N, a.a_row, k, a.K, a.a_col, left);
        fill_half(PTR(const uint16_t, a.b) + at_b, m0, a.M, a.b_col, k, a.K, a.b_row, right);
        barrier();
        for (int d = 4 * t; d < STEP; d += 16) { /* columns as gemm.cuh has them */
            uint32_t x[2][4], y[2][2];
            for (int i = 0; i < 2; i++)
                for (int h = 0; h < 4; h++)
                    x[i][h] = pair(&left[i0 + 16 * i + g + h % 2 * 8][d + h / 2 * 2]);
            for (int j = 0; j < 2; j++)
                for (int h = 0; h < 2; h++) y[j][h] = pair(&right[j0 + 8 * j + g][d + h * 2]);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++) mma_of(T(), sum[i][j], x[i], y[j]);
        }
        barrier();
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            for (int c = 0; c < 4; c++) {
                int64_t n = n0 + i0 + 16 * i + g + c / 2 * 8, m = m0 + j0 + 8 * j + 2 * t + c % 2;
                if (n < a.N && m < a.M)
                    PTR(T, a.y)[((int64_t)block_z() * a.N + n) * a.M + m] = put<T>(sum[i][j][c]);
            }
}

KERNEL_OF(zt_matmul_f16, zt_cu_matmul_args, THREADS)
{
    SHARED(uint16_t, left, [TILE][ROOM]);
    SHARED(uint16_t, right, [TILE][ROOM]);
    product_half<f16>(a, left, right);
}

KERNEL_OF(zt_matmul_bf16, zt_cu_matmul_args, THREADS)
{
    SHARED(uint16_t, left, [TILE][ROOM]);
    SHARED(uint16_t, right, [TILE][ROOM]);
    product_half<bf16>(a, left, right);
}
