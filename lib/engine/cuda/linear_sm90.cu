/* linear_sm90.cu - products of weights of f16 or bf16 with many rows of x of the same type, by
 * wgmma.cuh: K in slices as linear.h has them, so with the bits of linear_half.cu where a warpgroup
 * sums 16 products as mma does, which wgmma_proof.c has found out. */
#include "lib/engine/cuda/linear.h"
#include "lib/engine/cuda/wgmma.cuh"

#if ZT_CU_SM90
enum {
    SHARE = 32,
    PITCH = SHARE + 4
}; /* columns of a warp's staged rows, and its rows' distance */
static_assert(WG_WARPS * 16 * PITCH * 4 == ZT_CU_WG_STAGED, "as the host knows it");

template <class T> struct linear_work {
    enum { WIDTH = 128, SUMS = WIDTH / 2 };
    static constexpr bool LEFT_SIDE = false, RIGHT_SIDE = false;

    FN_MEMBER static int64_t lefts(const zt_cu_wgmma_linear_args &a)
    {
        return (a.l.n + WG_ROWS - 1) / WG_ROWS;
    }
    FN_MEMBER static int64_t rights(const zt_cu_wgmma_linear_args &a, int product)
    {
        return (a.l.product[product].M + WIDTH - 1) / WIDTH;
    }
    FN_MEMBER static int64_t count(const zt_cu_wgmma_linear_args &a)
    {
        int64_t n = 0;
        for (int i = 0; i < a.products; i++) n += rights(a, i);
        return n * lefts(a);
    }
    FN_MEMBER static int depth(const zt_cu_wgmma_linear_args &a) { return (int)a.l.K; }

    /* Products one after the other. */
    FN_MEMBER static wg_tile tile(const zt_cu_wgmma_linear_args &a, int64_t id, int *product)
    {
        wg_tile t = {&a.x, a.w, 0, 0, 0, 0};
        for (*product = 0; id >= rights(a, *product) * lefts(a); ++*product)
            id -= rights(a, *product) * lefts(a);
        t.right = a.w + *product;
        wg_place(id, lefts(a), rights(a, *product), WIDTH, &t);
        return t;
    }
    FN_MEMBER static wg_tile tile(const zt_cu_wgmma_linear_args &a, int64_t id)
    {
        int product;
        return tile(a, id, &product);
    }

    /* A warp's 16 rows of x, SHARE rows of w at a time: lanes follow each other along y's rows. */
    FN_MEMBER static void store(const zt_cu_wgmma_linear_args &a, int64_t id, float *own,
                                const float (&sum)[SUMS])
    {
        int product;
        const wg_tile t = tile(a, id, &product);
        UNROLL
        for (int c = 0; c < WIDTH; c += SHARE) {
            warp_barrier();
            UNROLL
            for (int i = c / 2; i < c / 2 + SHARE / 2; i += 2) {
                const vec<float, 2> two = {{sum[i], sum[i + 1]}};
                store_vec(own + (lane() / 4 + i / 2 % 2 * 8) * PITCH + i / 4 * 8 - c +
                              lane() % 4 * 2,
                          two);
            }
            warp_barrier();
            const int64_t row = t.row + warp() * 16, column = t.column + c + lane();
            const zt_cu_product *p = &a.l.product[product];
            for (int r = 0; r < 16 && !a.l.x_backs; r++)
                finish(a.l, p, row + r, column, own[r * PITCH + lane()]);
            for (int r = 0; r < 16 && a.l.x_backs; r += 2)
                finish_pair(a.l, p, (row + r) / 2, column, own[r * PITCH + lane()],
                            own[(r + 1) * PITCH + lane()]);
        }
    }

    FN_MEMBER static void take(const zt_cu_wgmma_linear_args &a, int64_t id, const wg_room &r,
                               wg_turn *t)
    {
        const int64_t steps = (a.l.K + WG_DEEP - 1) / WG_DEEP, slice = a.l.units_slice / 2;
        float total[SUMS] = {0};
        ROLLED
        for (int64_t u = 0; u < steps; u += slice) {
            float part[SUMS] = {0};
            wg_multiply<T, linear_work>(r, steps - u < slice ? steps - u : slice, t, part);
            UNROLL
            for (int i = 0; i < SUMS; i++) total[i] += part[i];
        }
        store(a, id, (float *)r.staged + warp() * 16 * PITCH, total);
    }
};
#define BODY(number)                                                                               \
    DYNAMIC_SHARED(unsigned char, dynamic);                                                        \
    wg_run<linear_work<number>>(a, dynamic);
#else
#define BODY(number) (void)a;
#endif

KERNEL_OF(zt_wgmma_linear_f16, zt_cu_wgmma_linear_args, ZT_CU_WG_THREADS){BODY(f16)}

KERNEL_OF(zt_wgmma_linear_bf16, zt_cu_wgmma_linear_args, ZT_CU_WG_THREADS)
{
    BODY(bf16)
}
