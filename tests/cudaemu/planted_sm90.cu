/* planted_sm90.cu - kernels for tests/engine/cuda_emu.c of boxes that are copied and products of a
 * warpgroup: a right one, and ones with a fault each. */
#include "lib/engine/cuda/prim_sm90.h"
#include "planted.h"

enum { WIDTH = 128, BOX = 8 * 128, TILES = (64 + WIDTH) * 128 };

FN void one_barrier(uint64_t *bar, bool fenced)
{
    if (thread() == 0) {
        mbarrier_init(bar, 1);
        if (fenced) mbarrier_fence();
    }
    barrier();
}

/* y: the box from column 8, row 12 on, and whatever else there is in room as it was. */
FN void box_to_y(const emu_args &a, bool fenced, uint32_t bytes, int boxes, bool waits)
{
    SHARED(uint16_t, room, [BOX / 2]);
    SHARED(uint64_t, bar, [1]);
    one_barrier(bar, fenced);
    if (thread() == 0) {
        mbarrier_expect(bar, bytes);
        for (int i = 0; i < boxes; i++) tensor_copy(room, &a.map, 8, 12, 0, bar);
    }
    if (waits) mbarrier_wait(bar, 0);
    for (int i = thread(); i < BOX / 2; i += threads())
        PTR(uint16_t, a.y)[i] = room[i / 64 * 64 + (i / 8 % 8 ^ i / 64) * 8 + i % 8];
}
KERNEL(emu_box, emu_args) { box_to_y(a, true, BOX, 1, true); }
KERNEL(emu_box_not_waited, emu_args) { box_to_y(a, true, BOX, 1, false); }
KERNEL(emu_box_not_fenced, emu_args) { box_to_y(a, false, BOX, 1, true); }
KERNEL(emu_box_too_small, emu_args) { box_to_y(a, true, BOX + 16, 1, true); }
KERNEL(emu_box_over_box, emu_args) { box_to_y(a, true, 2 * BOX, 2, true); }

KERNEL(emu_no_mbarrier, emu_args)
{
    SHARED(uint64_t, bar, [1]);
    mbarrier_wait(bar, 0);
}
KERNEL(emu_too_many_arrive, emu_args)
{
    SHARED(uint64_t, bar, [1]);
    if (thread() == 0) {
        mbarrier_init(bar, 1);
        mbarrier_expect(bar, 16);
    }
    barrier();
    mbarrier_arrive(bar);
}

/* A product of ones; then a box into its operands. */
FN void multiply_ones(const emu_args &a, bool fenced, bool waits)
{
    SHARED(f16, room, [TILES / 2]);
    SHARED(uint64_t, bar, [1]);
    float d[WIDTH / 2];
    for (int i = thread(); i < TILES / 2; i += threads()) room[i] = put<f16>(1.0f);
    one_barrier(bar, true);
    if (fenced) wgmma_fence(d);
    wgmma<f16, WIDTH, false, false>(d, wgmma_tile(room, 16, 1024),
                                    wgmma_tile(room + 64 * 64, 16, 1024), false);
    wgmma_commit();
    if (waits) wgmma_wait<0>();
    if (thread() == 0 && a.n) {
        mbarrier_expect(bar, BOX);
        tensor_copy(room, &a.map, 0, 0, 0, bar);
    }
    if (a.n) mbarrier_wait(bar, 0);
    for (int i = 0; i < 4; i++) PTR(float, a.y)[thread() * 4 + i] = d[i];
}
KERNEL(emu_wgmma_ones, emu_args) { multiply_ones(a, true, true); }
KERNEL(emu_wgmma_not_fenced, emu_args) { multiply_ones(a, false, true); }
KERNEL(emu_wgmma_not_waited, emu_args) { multiply_ones(a, true, false); }
