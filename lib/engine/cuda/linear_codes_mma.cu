/* linear_codes_mma.cu - products of packed weights with many rows of x, both as codes: 128 rows of w by
 * 128 of x a block, with the bits of linear_codes.cu and linear_decode.cu.
 *
 * A warp has 16 rows of w and all the block's rows of x, so a weight is unpacked once a block: a
 * chunk of 256 columns comes as it lies (cp.async), becomes operands and scales in shared memory,
 * where each lane finds what it put there itself, and is multiplied step by step (32 columns) while
 * the next one comes. Codes of x come a step at a time, three steps ahead, for all warps. Shared
 * memory is read 16 bytes side by side, or the same by all lanes of a row.
 *
 * A block wants more shared memory than AMD's processors have: hipcc has nothing to compile here.
 */
#ifndef __HIP__
#include "lib/engine/cuda/codes.cuh"
#include "lib/engine/cuda/gemm.cuh"

enum {
    GROUPS = GEMM_TILE / 8, /* of rows of x, eight each */
    CHUNK = 8,              /* steps */
    STAGES = 4,             /* of x */
    CODE_BYTES = GROUPS * 256,
    X_BYTES = GROUPS * (256 + 64), /* of a step: codes, then scales and sums */
    STAGE_BYTES = 2 * X_BYTES,     /* and of what the first codes leave over */
    RAW_BYTES = 4352,              /* of a chunk of 16 rows, in any type */
    PART_BYTES = CHUNK * 32 * 16,  /* of a warp's operands, and of their scales */
    PITCH = GEMM_TILE + 4          /* of sums in shared memory, by row of x */
};
static_assert(STAGES * STAGE_BYTES + SLICES * (RAW_BYTES + 2 * PART_BYTES) == ZT_CU_CODES_BYTES,
              "as the host knows it");
static_assert(GEMM_TILE * PITCH * 4 <= ZT_CU_CODES_BYTES, "sums take the place of all");
static_assert(GEMM_TILE == 16 * SLICES && GEMM_THREADS == 32 * SLICES, "16 rows of w a warp");

/* ---- x --------------------------------------------------------------------------------------- */

/* Step s of the block's groups from `group` on: thread by thread 16 bytes, zeros past the end. */
FN void bring_x(const zt_cu_linear_args &a, int64_t group, int64_t s, char *stage)
{
    const int64_t steps = a.K / 32, groups = (a.n + 7) / 8;
    char *to = stage + s % STAGES * STAGE_BYTES;
    for (int e = 0; e < a.each; e++, to += X_BYTES) {
        const int j = thread() / 16, k = thread() / 4;
        bool any = s < steps && group + j < groups;
        int64_t at = any ? (e * groups + group + j) * steps + s : 0;
        copy_async(to + thread() * 16, PTR(const char, a.x) + at * 256 + thread() % 16 * 16,
                   any ? 16 : 0);
        if (k >= GROUPS) continue;
        any = s < steps && group + k < groups;
        at = any ? (e * groups + group + k) * steps + s : 0;
        copy_async(to + CODE_BYTES + thread() * 16,
                   PTR(const char, a.x_sums) + at * 64 + thread() % 4 * 16, any ? 16 : 0);
    }
}

/* ---- w --------------------------------------------------------------------------------------- */

/* A chunk of 16 rows as it lies, its three parts one behind the other. */
template <class T> struct raw {
    enum {
        UNITS = CHUNK / T::STEPS,
        HEADS_AT = UNITS * T::WORDS * 128,
        HALVES_AT = HEADS_AT + UNITS * T::HEAD * 64,
        BYTES = HALVES_AT + UNITS * T::HALF * 32
    };
    static_assert(int(BYTES) <= int(RAW_BYTES), "room for it");
};

FN void bring(char *to, zt_cu_ptr from, int64_t at, int n)
{
    for (int i = lane() * 16; i < n; i += 512)
        copy_async(to + i, PTR(const char, from) + at + i, 16);
}

/* Units of a chunk, at most. */
template <class T> FN int units_of(const zt_cu_linear_args &a, int64_t chunk)
{
    const int64_t left = a.units - chunk * raw<T>::UNITS;
    return left < raw<T>::UNITS ? (int)left : (int)raw<T>::UNITS;
}

template <class T>
FN void bring_w(const zt_cu_linear_args &a, const zt_cu_product *p, int64_t tile, int64_t chunk,
                char *to)
{
    const int64_t at = tile * a.units + chunk * raw<T>::UNITS;
    const int n = tile * 16 < p->M ? units_of<T>(a, chunk) : 0;
    bring(to, p->w, at * T::WORDS * 128, n * T::WORDS * 128);
    bring(to + raw<T>::HEADS_AT, p->heads, at * T::HEAD * 64, n * T::HEAD * 64);
    bring(to + raw<T>::HALVES_AT, p->halves, at * T::HALF * 32, n * T::HALF * 32);
}

/* n units of `from` to operands and, behind them, scales: by step and lane 16 bytes of each. */
template <class T> FN void unpack(const char *from, int n, char *to)
{
    ROLLED for (int u = 0; u < n; u++)
    {
        packed_unit w;
        unit_at<T, false>((const uint32_t *)from, (const uint32_t *)(from + raw<T>::HEADS_AT),
                          (const f16 *)(from + raw<T>::HALVES_AT), u, &w);
        UNROLL
        for (int k = 0; k < T::STEPS; k++) {
            fragment f;
            T::get(&w, k, &f);
            const float *more = T::SUB ? f.d1 : f.m;
            char *at = to + ((u * T::STEPS + k) * 32 + lane()) * 16;
            store_vec((uint32_t *)at, vec<uint32_t, 4>{{f.a[0], f.a[1], f.a[2], f.a[3]}});
            store_vec((float *)(at + PART_BYTES),
                      vec<float, 4>{{f.d0[0], f.d0[1], more[0], more[1]}});
        }
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* A step: `at` is the lane's place of its operand, x the step's stage. */
template <class T>
FN void step_of(int each, int groups, const char *at, const char *x, float acc[GROUPS][4])
{
    const vec<uint32_t, 4> code = load_vec<4>((const uint32_t *)at);
    const vec<float, 4> by = load_vec<4>((const float *)(at + PART_BYTES));
    fragment f;
    for (int k = 0; k < 4; k++) f.a[k] = code.v[k];
    for (int r = 0; r < 2; r++) f.d0[r] = by.v[r], f.d1[r] = f.m[r] = by.v[2 + r];
    ROLLED for (int e = 0; e < each; e++, x += X_BYTES)
    {
        UNROLL
        for (int h = 0; h < 2; h++) {
            if (h * (GROUPS / 2) >= groups) continue;
            UNROLL
            for (int j = h * (GROUPS / 2); j < (h + 1) * (GROUPS / 2); j++) {
                vec<uint32_t, 2> b =
                    load_vec<2>((const uint32_t *)(x + j * 256 + lane() * 8));
                vec<float, 4> s =
                    load_vec<4>((const float *)(x + CODE_BYTES + j * 64 + lane() % 4 * 16));
                const float scale[2] = {s.v[0], s.v[2]}, sum[2] = {s.v[1], s.v[3]};
                by_codes<T>(&f, b.v, scale, sum, acc[j]);
            }
        }
    }
}

/* The warp's sums with all the block's rows of x: slices one after the other, each from 0. */
template <class T>
FN void sums_of(const zt_cu_linear_args &a, const zt_cu_product *p, int64_t tile, int64_t token,
                char *room, float total[GROUPS][4])
{
    const int64_t steps = a.K / 32, slice = a.units_slice * T::STEPS, left = (a.n - token + 7) / 8;
    const int groups = left < GROUPS ? (int)left : (int)GROUPS;
    char *from = room + STAGES * STAGE_BYTES + warp() * (RAW_BYTES + 2 * PART_BYTES);
    char *to = from + RAW_BYTES;
    float part[GROUPS][4] = {{0}};
    bring_w<T>(a, p, tile, 0, from);
    for (int s = 0; s < STAGES - 1; s++) {
        bring_x(a, token / 8, s, room);
        copy_commit();
    }
    ROLLED for (int64_t s = 0; s < steps; s++)
    {
        copy_wait<STAGES - 2>();
        barrier();
        bring_x(a, token / 8, s + STAGES - 1, room);
        if (s % CHUNK == 0) {
            const int64_t chunk = s / CHUNK;
            unpack<T>(from, tile * 16 < p->M ? units_of<T>(a, chunk) : 0, to);
            warp_barrier();
            if ((chunk + 1) * CHUNK < steps) bring_w<T>(a, p, tile, chunk + 1, from);
        }
        copy_commit();
        if (tile * 16 < p->M)
            step_of<T>(a.each, groups, to + (s % CHUNK * 32 + lane()) * 16,
                       room + s % STAGES * STAGE_BYTES, part);
        const bool ends = (s + 1) % slice == 0 || s + 1 == steps;
        UNROLL
        for (int i = 0; ends && i < 4 * GROUPS; i++) {
            total[i / 4][i % 4] += part[i / 4][i % 4];
            part[i / 4][i % 4] = 0;
        }
    }
    copy_wait<0>();
    barrier();
}

template <class T> FN void product(const zt_cu_linear_args &a, char *room)
{
    const zt_cu_product *p = &a.product[block_y()];
    float *sums = (float *)room, total[GROUPS][4] = {{0}};
    int64_t row, token;
    gemm_tile_of(block(), (int64_t)blocks() / a.right, a.right, &row, &token);
    if (row >= p->M) return;
    sums_of<T>(a, p, row / 16 + warp(), token, room, total);
    UNROLL
    for (int i = 0; i < 4 * GROUPS; i++) {
        const int t = i / 4 * 8 + lane() % 4 * 2 + i % 2, r = lane() / 4 + i / 2 % 2 * 8;
        sums[t * PITCH + warp() * 16 + r] = total[i / 4][i % 4];
    }
    barrier();
    for (int i = thread(); i < GEMM_TILE * GEMM_TILE; i += GEMM_THREADS)
        finish(a, p, token + i / GEMM_TILE, row + i % GEMM_TILE,
               sums[i / GEMM_TILE * PITCH + i % GEMM_TILE]);
}

#define PRODUCT(type)                                                                              \
    KERNEL_OF(zt_large_##type, zt_cu_linear_args, GEMM_THREADS)                                    \
    {                                                                                              \
        DYNAMIC_SHARED(char, room);                                                                \
        product<packed_##type>(a, room);                                                           \
    }
ZT_CU_PACKED_TYPES(PRODUCT)
#endif
