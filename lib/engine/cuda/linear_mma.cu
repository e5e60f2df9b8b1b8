/* linear_mma.cu - products of weights of f16 or bf16 with many rows of x of the same type: by slices
 * of K as linear.h has them, so with the bits of linear_half.cu. And what makes its operands of other
 * types: of e4m3, which any of the two holds, of f32 that is rounded, and of f32 as pairs.
 */
#include "lib/engine/cuda/gemm.cuh"
#include "lib/engine/cuda/linear.h"

/* Sums in shared memory, by token: PITCH keeps those of a warp apart. */
enum { PITCH = GEMM_TILE + 4 };
static_assert(GEMM_TILE * PITCH * 4 <= ZT_CU_GEMM_BYTES, "as the host knows it");

template <class T> FN void product(const zt_cu_linear_args &a, uint16_t *room)
{
    const zt_cu_product *p = &a.product[block_y()];
    float *sums = (float *)room;
    int64_t row, token;
    gemm_tile_of(block(), (int64_t)blocks() / a.right, a.right, &row, &token);
    if (row >= p->M) return;
    const gemm_side w = {PTR(const uint16_t, p->w), p->M, a.K, 1, row, a.wide_w != 0};
    const gemm_side x = {PTR(const uint16_t, a.x), a.n, a.K, 1, token, a.wide_x != 0};
    gemm_sums total = {{{0}}};
    gemm<T, false, false, true>(w, x, a.K, a.units_slice, room, total);
    UNROLL
    for (int i = 0; i < 64; i++)
        sums[gemm_right(i / 4 % 4, i % 4) * PITCH + gemm_left(i / 16, i % 4)] =
            total[i / 16][i / 4 % 4][i % 4];
    barrier();
    if (a.x_backs) {
        for (int i = thread(); i < GEMM_TILE * GEMM_TILE / 2; i += GEMM_THREADS) {
            const float *at = sums + i / GEMM_TILE * 2 * PITCH + i % GEMM_TILE;
            finish_pair(a, p, token / 2 + i / GEMM_TILE, row + i % GEMM_TILE, at[0], at[PITCH]);
        }
        return;
    }
    for (int i = thread(); i < GEMM_TILE * GEMM_TILE; i += GEMM_THREADS)
        finish(a, p, token + i / GEMM_TILE, row + i % GEMM_TILE,
               sums[i / GEMM_TILE * PITCH + i % GEMM_TILE]);
}

KERNEL_OF(zt_gemm_f16, zt_cu_linear_args, GEMM_THREADS)
{
    DYNAMIC_SHARED(uint16_t, room);
    product<f16>(a, room);
}

KERNEL_OF(zt_gemm_bf16, zt_cu_linear_args, GEMM_THREADS)
{
    DYNAMIC_SHARED(uint16_t, room);
    product<bf16>(a, room);
}

/* x to y of type `type`, f16 or bf16. */
template <class From> FN void halves_of(const zt_cu_halves_args &a)
{
    const From *x = PTR(const From, a.x);
    for (int64_t i = first(); i < a.n; i += stride()) {
        float v = get(x[i]);
        PTR(uint16_t, a.y)[i] = a.type == ZT_CU_F16 ? put<f16>(v).bits : put<bf16>(v).bits;
    }
}
KERNEL(zt_halves_f32, zt_cu_halves_args) { halves_of<float>(a); }
KERNEL(zt_halves_e4m3, zt_cu_halves_args) { halves_of<e4m3>(a); }

/* Columns k .. k + 3 of a row of f32, those past K 0. */
FN void row_four(const zt_cu_pairs_args &a, const float *x, int64_t k, float v[4])
{
    vec<float, 4> four = {{0, 0, 0, 0}};
    if (a.wide) four = load_vec<4>(x + k);
    for (int j = 0; j < 4; j++) v[j] = a.wide || k + j >= a.K ? four.v[j] : x[k + j];
}

FN void put_four(const zt_cu_pairs_args &a, int64_t row, int64_t k, const uint32_t word[2])
{
    uint16_t *y = PTR(uint16_t, a.y) + row * a.K + k;
    if (a.wide) {
        store_vec((uint32_t *)y, vec<uint32_t, 2>{{word[0], word[1]}});
        return;
    }
    for (int j = 0; j < 4; j++)
        if (k + j < a.K) y[j] = (uint16_t)(word[j / 2] >> j % 2 * 16);
}

/* A block a row. */
KERNEL_OF(zt_pairs, zt_cu_pairs_args, 256)
{
    SHARED(uint32_t, room, [32]);
    const int64_t row = block();
    const float *x = PTR(const float, a.x) + row * a.K;
    uint32_t top = 0, high[2], low[2];
    float v[4];
    for (int64_t k = thread() * 4; k < a.K; k += threads() * 4) {
        row_four(a, x, k, v);
        for (int j = 0; j < 4; j++) top = pair_size(v[j]) > top ? pair_size(v[j]) : top;
    }
    top = block_max(top, room);
    for (int64_t k = thread() * 4; k < a.K; k += threads() * 4) {
        row_four(a, x, k, v);
        pair_four(v, pair_scale(top), high, low);
        put_four(a, 2 * row, k, high);
        put_four(a, 2 * row + 1, k, low);
    }
    if (thread() == 0) PTR(float, a.backs)[row] = pair_back(top);
}

/* What `finish` does behind the bias, where y has the product, rounded, already (blas_lt.c). */
KERNEL_OF(zt_linear_after, zt_cu_linear_args, 256)
{
    const zt_cu_ptr y = a.product[0].y;
    for (int64_t i = first(); i < a.n * a.product[0].M; i += stride()) {
        const float v = number_at(y, a.y_type, i);
        const float added = a.after == ZT_CU_AFTER_ADD ? number_at(a.residual, a.y_type, i) + v : v;
        number_put(y, a.y_type, i,
                   a.after == ZT_CU_AFTER_CURVE ? curve_of(a.curve, added) : added);
    }
}
