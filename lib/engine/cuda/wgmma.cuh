/* wgmma.cuh - how large products are made by wgmma, their tiles brought by TMA; for *_sm90.cu.
 *
 * As many blocks as there are processors stay and take tile after tile, 128 rows on the left by
 * WIDTH on the right. Of a block one thread has the operands of steps to come, 64 of K each, copied
 * into stages (a barrier `full` a stage), while two warpgroups, 64 rows on the left each, multiply
 * what is there and give stages back (`empty`, one arrival a warp); so the first stages of the next
 * tile come while sums of this one are written. A stage is the operand on the left, then that on
 * the right: where K lies side by side, rows of 64 numbers of K; else blocks of 64 rows of the
 * operand, 64 of K each, one after the other. What is outside of a matrix comes as zeros.
 */
#ifndef ZT_CU_WGMMA_CUH
#define ZT_CU_WGMMA_CUH

#include "lib/engine/cuda/prim_sm90.h"

#if ZT_CU_SM90
enum {
    WG_ROWS = ZT_CU_WG_ROWS,
    WG_DEEP = ZT_CU_WG_DEEP,
    WG_BLOCK = 64 * WG_DEEP * 2, /* bytes of 64 rows of an operand */
    WG_WARPS = 8,                /* that multiply */
    WG_GROUP = 8                 /* tiles on the right that go together */
};

/* The stages of a kernel whose tiles are so wide, in bytes. */
template <int WIDTH> struct wg_shape {
    enum {
        STAGES = ZT_CU_WG_STAGES(WIDTH),
        LEFT = WG_ROWS * WG_DEEP * 2,
        STAGE = (WG_ROWS + WIDTH) * WG_DEEP * 2
    };
};

/* The block's shared memory, and the stage whose turn it is with its barriers' parity. */
typedef struct wg_room {
    unsigned char *stages, *staged;
    uint64_t *full, *empty;
} wg_room;
typedef struct wg_turn {
    int stage;
    uint32_t parity;
} wg_turn;

template <int WIDTH> FN wg_room wg_room_in(unsigned char *dynamic)
{
    wg_room r;
    r.stages = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
    r.staged = r.stages + wg_shape<WIDTH>::STAGES * wg_shape<WIDTH>::STAGE;
    r.full = (uint64_t *)(r.staged + ZT_CU_WG_STAGED);
    r.empty = r.full + wg_shape<WIDTH>::STAGES;
    return r;
}

template <int WIDTH> FN void wg_next(wg_turn *t)
{
    if (++t->stage < wg_shape<WIDTH>::STAGES) return;
    t->stage = 0;
    t->parity ^= 1;
}

/* A tile: its first rows of both operands, and which matrices of those that the maps have. */
typedef struct wg_tile {
    const zt_cu_tensor_map *left, *right;
    int row, column, z_left, z_right;
} wg_tile;

/* Number `id` of lefts by rights: all on the left for WG_GROUP on the right. */
FN void wg_place(int64_t id, int64_t lefts, int64_t rights, int width, wg_tile *t)
{
    const int64_t group = id / (WG_GROUP * lefts) * WG_GROUP, at = id % (WG_GROUP * lefts);
    const int64_t left = rights - group, n = left < (int)WG_GROUP ? left : (int)WG_GROUP;
    t->row = (int)(at / n) * WG_ROWS;
    t->column = (int)(group + at % n) * width;
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Rows `row` and on of matrix z, columns k and on. SIDE: rows lie side by side. */
template <bool SIDE, int HIGH>
FN void wg_bring(const zt_cu_tensor_map *map, unsigned char *to, int row, int k, int z,
                 uint64_t *full)
{
    if (!SIDE) tensor_copy(to, map, k, row, z, full);
    UNROLL
    for (int i = 0; SIDE && i < HIGH / 64; i++)
        tensor_copy(to + i * WG_BLOCK, map, row + 64 * i, k, z, full);
}

/* By one thread. Work: count, tile and depth of the arguments. */
template <class Work, class Args> FN void wg_bring_all(const Args &a, const wg_room &r)
{
    enum { WIDTH = Work::WIDTH, LEFT = wg_shape<WIDTH>::LEFT, STAGE = wg_shape<WIDTH>::STAGE };
    wg_turn t = {0, 0};
    ROLLED
    for (int64_t id = block(), n = Work::count(a); id < n; id += blocks()) {
        const wg_tile w = Work::tile(a, id);
        ROLLED
        for (int k = 0; k < Work::depth(a); k += WG_DEEP) {
            unsigned char *to = r.stages + t.stage * STAGE;
            uint64_t *full = r.full + t.stage;
            mbarrier_wait(r.empty + t.stage, t.parity ^ 1);
            mbarrier_expect(full, STAGE);
            wg_bring<Work::LEFT_SIDE, WG_ROWS>(w.left, to, w.row, k, w.z_left, full);
            wg_bring<Work::RIGHT_SIDE, WIDTH>(w.right, to + LEFT, w.column, k, w.z_right, full);
            wg_next<WIDTH>(&t);
        }
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Numbers 16 i and on of K of an operand in a stage. */
template <bool SIDE> FN uint64_t wg_part(const unsigned char *operand, int i)
{
    return wgmma_tile(operand + i * (SIDE ? 16 * 128 : 32), SIDE ? WG_BLOCK : 16, 1024);
}

/* The warpgroup's 64 rows of a tile, by so many steps, at least one. */
template <class T, class Work>
FN void wg_multiply(const wg_room &r, int64_t steps, wg_turn *t, float (&sum)[Work::WIDTH / 2])
{
    enum { WIDTH = Work::WIDTH };
    constexpr bool L = Work::LEFT_SIDE, R = Work::RIGHT_SIDE;
    uint64_t *before = r.empty; /* of the step before */
    ROLLED
    for (int64_t u = 0; u < steps; u++) {
        const unsigned char *left = r.stages + t->stage * wg_shape<WIDTH>::STAGE;
        const unsigned char *right = left + wg_shape<WIDTH>::LEFT;
        mbarrier_wait(r.full + t->stage, t->parity);
        wgmma_fence(sum);
        UNROLL
        for (int i = 0; i < WG_DEEP / 16; i++)
            wgmma<T, WIDTH, L, R>(sum, wg_part<L>(left + warp() / 4 * WG_BLOCK, i),
                                  wg_part<R>(right, i), u + i > 0);
        wgmma_commit();
        if (u > 0) {
            wgmma_wait<1>();
            if (lane() == 0) mbarrier_arrive(before);
        }
        before = r.empty + t->stage;
        wg_next<WIDTH>(t);
    }
    wgmma_done(sum);
    if (lane() == 0) mbarrier_arrive(before);
}

/* The kernel. Work::take multiplies tile `id` and leaves what comes of it. */
template <class Work, class Args> FN void wg_run(const Args &a, unsigned char *dynamic)
{
    enum { WIDTH = Work::WIDTH, STAGES = wg_shape<WIDTH>::STAGES };
    const wg_room r = wg_room_in<WIDTH>(dynamic);
    if (thread() == 0) {
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(r.full + i, 1);
            mbarrier_init(r.empty + i, WG_WARPS);
        }
        mbarrier_fence();
    }
    barrier();
    if (warp() >= WG_WARPS) {
        registers_give<56>();
        if (thread() == WG_WARPS * 32) wg_bring_all<Work>(a, r);
    } else {
        wg_turn t = {0, 0};
        registers_take<224>();
        ROLLED
        for (int64_t id = block(), n = Work::count(a); id < n; id += blocks())
            Work::take(a, id, r, &t);
    }
}
#endif

#endif
