/* matmul_sm90.cu - large products of matrices of f16 or bf16, in batches, by wgmma.cuh. */
#include "lib/engine/cuda/matmul.h"
#include "lib/engine/cuda/wgmma.cuh"

#if ZT_CU_SM90
/* Numbers of a staged row: pairs of eight rows are in banks of their own. */
enum { PITCH = 72 };
static_assert(WG_WARPS * 16 * PITCH * 2 == ZT_CU_WG_STAGED, "as the host knows it");

/* A warp's 16 rows, 64 columns at a time, through its part of `staged`: so that whole lines of y
 * are written at once. */
template <class T, int WIDTH>
FN void store(const zt_cu_matmul_args &a, int64_t batch, const wg_tile &tile, unsigned char *staged,
              const float (&sum)[WIDTH / 2])
{
    T *own = (T *)staged + warp() * 16 * PITCH, *y = PTR(T, a.y) + batch * a.N * a.M;
    const int64_t row = tile.row + warp() * 16;
    UNROLL
    for (int c = 0; c < WIDTH; c += 64) {
        warp_barrier();
        UNROLL
        for (int i = c / 2; i < c / 2 + 32; i += 2) {
            const vec<T, 2> two = {{put<T>(sum[i]), put<T>(sum[i + 1])}};
            store_vec(own + (lane() / 4 + i / 2 % 2 * 8) * PITCH + i / 4 * 8 - c + lane() % 4 * 2,
                      two);
        }
        warp_barrier();
        for (int i = lane(); i < 16 * 8; i += 32) {
            const int64_t n = row + i / 8, m = tile.column + c + i % 8 * 8;
            const T *from = own + i / 8 * PITCH + i % 8 * 8;
            if (n >= a.N || m >= a.M) continue;
            if (a.wide_y)
                store_vec(y + n * a.M + m, load_vec<8>(from));
            else
                for (int j = 0; j < 8 && m + j < a.M; j++) y[n * a.M + m + j] = from[j];
        }
    }
}

template <class T, int ITS_WIDTH, bool LEFT, bool RIGHT> struct matmul_work {
    enum { WIDTH = ITS_WIDTH };
    static constexpr bool LEFT_SIDE = LEFT, RIGHT_SIDE = RIGHT;

    FN_MEMBER static int64_t lefts(const zt_cu_wgmma_args &a)
    {
        return (a.m.N + WG_ROWS - 1) / WG_ROWS;
    }
    FN_MEMBER static int64_t rights(const zt_cu_wgmma_args &a)
    {
        return (a.m.M + WIDTH - 1) / WIDTH;
    }
    FN_MEMBER static int64_t count(const zt_cu_wgmma_args &a)
    {
        return lefts(a) * rights(a) * a.batches;
    }
    FN_MEMBER static int depth(const zt_cu_wgmma_args &a) { return (int)a.m.K; }

    FN_MEMBER static wg_tile tile(const zt_cu_wgmma_args &a, int64_t id)
    {
        const int64_t each = lefts(a) * rights(a);
        int64_t at_a, at_b;
        wg_tile t = {&a.a, &a.b, 0, 0, 0, 0};
        batch_of(a.m, id / each, &at_a, &at_b);
        t.z_left = (int)(at_a / a.a_size);
        t.z_right = (int)(at_b / a.b_size);
        wg_place(id % each, lefts(a), rights(a), WIDTH, &t);
        return t;
    }

    FN_MEMBER static void take(const zt_cu_wgmma_args &a, int64_t id, const wg_room &r, wg_turn *t)
    {
        float sum[WIDTH / 2] = {0};
        wg_multiply<T, matmul_work>(r, (a.m.K + WG_DEEP - 1) / WG_DEEP, t, sum);
        store<T, WIDTH>(a.m, id / (lefts(a) * rights(a)), tile(a, id), r.staged, sum);
    }
};
#define BODY(number, width, left, right)                                                           \
    DYNAMIC_SHARED(unsigned char, dynamic);                                                        \
    wg_run<matmul_work<number, width, left, right>>(a, dynamic);
#else
#define BODY(number, width, left, right) (void)a;
#endif

/* Of a b^T, a b and a^T b; t: transposed. */
#define PRODUCT(number, width, layout, left, right)                                                \
    KERNEL_OF(zt_wgmma_##number##_##layout##_##width, zt_cu_wgmma_args, ZT_CU_WG_THREADS)          \
    {                                                                                              \
        BODY(number, width, left, right)                                                           \
    }
#define PRODUCTS(number, width)                                                                    \
    PRODUCT(number, width, nt, false, false)                                                       \
    PRODUCT(number, width, nn, false, true)                                                        \
    PRODUCT(number, width, tn, true, true)
PRODUCTS(f16, 128)
PRODUCTS(f16, 256)
PRODUCTS(bf16, 128)
PRODUCTS(bf16, 256)
