/* planted.cu - kernels for tests/engine/cuda_emu.c: right ones, and ones with a fault each. */
#include "lib/engine/cuda/prim.h"
#include "planted.h"

KERNEL(emu_reverse, emu_args)
{
    SHARED(float, room, [256]);
    room[thread()] = PTR(const float, a.x)[block() * 256 + thread()];
    barrier();
    PTR(float, a.y)[block() * 256 + thread()] = room[255 - thread()];
}

KERNEL(emu_no_barrier, emu_args)
{
    SHARED(float, room, [256]);
    room[thread()] = PTR(const float, a.x)[block() * 256 + thread()];
    PTR(float, a.y)[block() * 256 + thread()] = room[255 - thread()];
}

/* The first barrier is there, that before the room is used again is not. */
KERNEL(emu_no_second_barrier, emu_args)
{
    SHARED(float, room, [256]);
    for (int i = 0; i < 2; i++) {
        room[thread()] = PTR(const float, a.x)[i * 256 + thread()];
        barrier();
        PTR(float, a.y)[i * 256 + thread()] = room[255 - thread()];
    }
}

/* Within a warp its own barrier is enough. */
KERNEL(emu_warp_reverse, emu_args)
{
    SHARED(float, room, [256]);
    room[thread()] = PTR(const float, a.x)[block() * 256 + thread()];
    warp_barrier();
    PTR(float, a.y)[block() * 256 + thread()] = room[thread() ^ 31];
}

KERNEL(emu_no_warp_barrier, emu_args)
{
    SHARED(float, room, [256]);
    room[thread()] = PTR(const float, a.x)[block() * 256 + thread()];
    PTR(float, a.y)[block() * 256 + thread()] = room[thread() ^ 31];
}

KERNEL(emu_warp_barrier_for_block, emu_args)
{
    SHARED(float, room, [256]);
    room[thread()] = PTR(const float, a.x)[block() * 256 + thread()];
    warp_barrier();
    PTR(float, a.y)[block() * 256 + thread()] = room[255 - thread()];
}

/* y of a neighbour of the block, of another block, is read while that may still be written. */
KERNEL(emu_device_no_barrier, emu_args)
{
    PTR(float, a.y)[thread()] = 1;
    PTR(float, a.z)[thread()] = PTR(float, a.y)[thread() ^ 1];
}
KERNEL(emu_device_barrier, emu_args)
{
    const int64_t from = block() * 256;
    PTR(float, a.z)[from + thread()] = PTR(const float, a.x)[from + thread()];
    barrier();
    PTR(float, a.y)[from + thread()] = PTR(float, a.z)[from + (thread() ^ 1)];
}
/* Block b's part of z is read by the block after it, three times over. */
FN void pass_on(const emu_args &a, bool first, bool second)
{
    SHARED(float, room, [256]);
    const int n = blocks() * threads(), i = block() * threads() + thread();
    room[thread()] = PTR(const float, a.x)[i];
    for (int k = 0; k < 3; k++) {
        PTR(float, a.z)[i] = room[thread()];
        if (first) grid_barrier(PTR(uint32_t, a.word));
        room[thread()] = PTR(const float, a.z)[(i + threads()) % n];
        if (second) grid_barrier(PTR(uint32_t, a.word));
    }
    PTR(float, a.y)[i] = room[thread()];
}
KERNEL(emu_grid, emu_args) { pass_on(a, true, true); }
KERNEL(emu_no_grid_barrier, emu_args) { pass_on(a, false, true); }
KERNEL(emu_no_second_grid_barrier, emu_args) { pass_on(a, true, false); }
KERNEL(emu_not_all_at_grid, emu_args)
{
    if (block() != 1) grid_barrier(PTR(uint32_t, a.word));
}
KERNEL(emu_not_all_threads_at_grid, emu_args)
{
    if (thread() != 1) grid_barrier(PTR(uint32_t, a.word));
}
KERNEL(emu_blocks_no_atomic, emu_args) { PTR(float, a.y)[thread()] = (float)block(); }

/* a.n may be more than there is. */
KERNEL(emu_copy, emu_args)
{
    for (int64_t i = first(); i < a.n; i += stride())
        PTR(float, a.y)[i] = PTR(const float, a.x)[i];
}

KERNEL(emu_shared_outside, emu_args)
{
    SHARED(float, room, [256]);
    room[thread() + a.n] = 1;
    barrier();
    PTR(float, a.y)[thread()] = room[thread()];
}

KERNEL(emu_host_pointer, emu_args)
{
    PTR(float, a.y)[thread()] = PTR(const float, a.x)[thread()];
}

KERNEL(emu_misaligned, emu_args)
{
    store_vec(PTR(float, a.y), load_vec<4>(PTR(const float, a.x) + a.n));
}

KERNEL(emu_ends_early, emu_args)
{
    if (thread() == a.n) return;
    barrier();
}

KERNEL(emu_half_a_warp, emu_args)
{
    if (lane() < 16) PTR(float, a.y)[thread()] = warp_sum(1.0f);
}

KERNEL(emu_copy_not_waited, emu_args)
{
    SHARED(float, room, [128]);
    copy_async(room + 4 * lane(), PTR(const float, a.x) + 4 * lane(), 16);
    copy_commit();
    warp_barrier();
    PTR(float, a.y)[lane()] = room[lane()];
}

KERNEL(emu_copy_waited, emu_args)
{
    SHARED(float, room, [128]);
    copy_async(room + 4 * lane(), PTR(const float, a.x) + 4 * lane(), lane() < 31 ? 16 : 8);
    copy_commit();
    copy_wait<0>();
    warp_barrier();
    for (int i = lane(); i < 128; i += 32) PTR(float, a.y)[i] = room[i];
}

KERNEL(emu_sum, emu_args)
{
    SHARED(float, room, [32]);
    float s = 0;
    for (int64_t i = thread(); i < a.n; i += threads()) s += PTR(const float, a.x)[i];
    s = block_sum(s, room);
    PTR(float, a.y)[thread()] = s;
    atomic_add(PTR(uint32_t, a.z), 1u);
}

/* y[16,8] = a[16,K] b[8,K]^T, a and b one behind the other in x, as numbers that f16 holds. */
KERNEL(emu_mma, emu_args)
{
    SHARED(f16, room, [24][16]);
    const float *x = PTR(const float, a.x);
    uint32_t ra[4], rb[2];
    float d[4] = {0, 0, 0, 0};
    for (int k = 0; k < (int)a.n; k += 16) {
        warp_barrier();
        for (int i = lane(); i < 24 * 16; i += 32)
            room[i / 16][i % 16] = put<f16>(x[i / 16 * a.n + k + i % 16]);
        warp_barrier();
        ldmatrix_x4(ra, &room[lane() % 16][lane() / 16 * 8]);
        for (int h = 0; h < 2; h++)
            rb[h] = bits_as<uint32_t>(load_vec<2>(&room[16 + lane() / 4][h * 8 + lane() % 4 * 2]));
        mma_f16(d, ra, rb);
    }
    for (int i = 0; i < 4; i++)
        PTR(float, a.y)[(lane() / 4 + i / 2 * 8) * 8 + lane() % 4 * 2 + i % 2] = d[i];
}

/* The same of bytes, K 32 at a time. */
KERNEL(emu_mma_s8, emu_args)
{
    const int8_t *x = PTR(const int8_t, a.x), *b = x + 16 * a.n;
    int32_t d[4] = {0, 0, 0, 0};
    for (int k = 0; k < (int)a.n; k += 32) {
        uint32_t ra[4], rb[2];
        for (int i = 0; i < 4; i++)
            ra[i] = *PTR(const uint32_t,
                         x + (lane() / 4 + i % 2 * 8) * a.n + k + i / 2 * 16 + lane() % 4 * 4);
        for (int i = 0; i < 2; i++)
            rb[i] = *PTR(const uint32_t, b + lane() / 4 * a.n + k + i * 16 + lane() % 4 * 4);
        mma_s8(d, ra, rb);
    }
    for (int i = 0; i < 4; i++)
        PTR(int32_t, a.y)[(lane() / 4 + i / 2 * 8) * 8 + lane() % 4 * 2 + i % 2] = d[i];
}

/* y: get(x) of every f16 and bf16, z: what they round back to. */
KERNEL(emu_numbers, emu_args)
{
    int64_t i = first();
    float h = get(f16{(uint16_t)i}), b = get(bf16{(uint16_t)i});
    PTR(float, a.y)[2 * i] = h;
    PTR(float, a.y)[2 * i + 1] = b;
    PTR(uint16_t, a.z)[2 * i] = put<f16>(h).bits;
    PTR(uint16_t, a.z)[2 * i + 1] = put<bf16>(b).bits;
}
