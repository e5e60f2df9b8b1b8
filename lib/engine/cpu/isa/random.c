/* random.c - kernels of random numbers, element i from word i % 4 of Philox(seed, counter, i / 4),
 * eight Philox at a time; the words are lib/base/random.c's to the bit. */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/math.h"

enum { PIECE = 1024, DRAWS = 4 * WIDE };

static bool random_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in, (void)out;
    return true;
}

static void random_setup(zt_cpu_call *call) { call->items[0] = (zt_type_count(&call->out[0].type) + PIECE - 1) / PIECE; }

/* ---- words ----------------------------------------------------------------------------------- */

/* r[k]: word k of Philox(seed, sequence, position + lane). */
#if defined(ZT_ISA_scalar)
INLINE void philox(uint64_t seed, uint64_t sequence, int64_t position, vl r[4])
{
    uint32_t word[4];
    for (int i = 0; i < WIDE; i++) {
        zt_philox(seed, sequence, (uint64_t)(position + i), word);
        for (int k = 0; k < 4; k++) r[k].v[i] = word[k];
    }
}
#else
/* Products of the low 32 bits of each lane; and from, from + 1, ... (NEON's are in doubles_neon.h.) */
#if defined(ZT_ISA_avx512)
INLINE vl vl_mul32(vl a, vl b) { return _mm512_mul_epu32(a, b); }
INLINE vl vl_rising(int64_t from) { return vl_add(vl_set(from), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7)); }
#elif defined(ZT_ISA_avx2)
INLINE vl vl_mul32(vl a, vl b) { return BOTH2(vl, _mm256_mul_epu32, a, b); }
INLINE vl vl_rising(int64_t from)
{
    const vl steps = {_mm256_setr_epi64x(0, 1, 2, 3), _mm256_setr_epi64x(4, 5, 6, 7)};
    return vl_add(vl_set(from), steps);
}
#endif

INLINE void philox(uint64_t seed, uint64_t sequence, int64_t position, vl r[4])
{
    const vl word = vl_set(0xffffffff), m0 = vl_set(0xD2511F53), m1 = vl_set(0xCD9E8D57);
    vl p = vl_rising(position), c0 = vl_and(p, word), c1 = vl_right(p, 32);
    vl c2 = vl_set((int64_t)(sequence & 0xffffffff)), c3 = vl_set((int64_t)(sequence >> 32));
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        vl p0 = vl_mul32(m0, c0), p1 = vl_mul32(m1, c2);
        c0 = vl_xor(vl_xor(vl_right(p1, 32), c1), vl_set(k0));
        c2 = vl_xor(vl_xor(vl_right(p0, 32), c3), vl_set(k1));
        c1 = vl_and(p1, word);
        c3 = vl_and(p0, word);
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    r[0] = c0, r[1] = c1, r[2] = c2, r[3] = c3;
}
#endif

/* ---- draws ----------------------------------------------------------------------------------- */

INLINE void uniform(const vl r[4], vd y[4])
{
    for (int k = 0; k < 4; k++) y[k] = vd_times(vd_of_whole(vl_right(r[k], 8)), 0x1p-24);
}

INLINE void normal(const vl r[4], vd y[4])
{
    for (int k = 0; k < 4; k += 2) {
        vd u = vd_times(vd_plus(vd_of_whole(vl_right(r[k], 8)), 1), 0x1p-24);
        vd angle = vd_times(vd_of_whole(r[k + 1]), 2 * M_PI * 0x1p-32);
        vd size = vd_sqrt(vd_times(wide_ln(u), -2));
        y[k] = vd_mul(size, wide_sin(angle, 1));
        y[k + 1] = vd_mul(size, wide_sin(angle, 0));
    }
}

/* at + by times each of 32 draws, the first from word 0 of `position`. */
INLINE void fill(uint64_t seed, uint64_t counter, int64_t position, double at, double by, void draws(const vl *, vd *),
                 float y[DRAWS])
{
    double lanes[4][WIDE];
    vl r[4];
    vd d[4];
    philox(seed, counter, position, r);
    draws(r, d);
    for (int k = 0; k < 4; k++) d[k] = vd_plus(vd_times(d[k], by), at);
    memcpy(lanes, d, sizeof lanes);
    for (int i = 0; i < DRAWS; i++) y[i] = (float)lanes[i % 4][i / 4];
}

INLINE void run(zt_cpu_call *call, int64_t begin, int64_t end, int64_t seed, double at, double by, void draws(const vl *, vd *))
{
    int64_t n = zt_type_count(&call->out[0].type), last = end * PIECE < n ? end * PIECE : n;
    float *y = call->out[0].data, some[DRAWS];
    uint64_t counter;
    memcpy(&counter, call->in[0].data, sizeof counter);
    for (int64_t i = begin * PIECE; i < last; i += DRAWS) {
        fill((uint64_t)seed, counter, i / 4, at, by, draws, some);
        memcpy(y + i, some, (size_t)(last - i < DRAWS ? last - i : DRAWS) * sizeof *y);
    }
}

static void uniform_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_random_uniform_attrs *random_uniform = call->attrs;
    (void)phase, (void)local;
    run(call, begin, end, random_uniform->seed, random_uniform->low, random_uniform->high - random_uniform->low, uniform);
}

static void normal_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_random_normal_attrs *random_normal = call->attrs;
    (void)phase, (void)local;
    run(call, begin, end, random_normal->seed, random_normal->mean, random_normal->std, normal);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_random)[] = {
    {.op = ZT_OP_random_uniform, .has = random_has, .setup = random_setup, .run = uniform_run},
    {.op = ZT_OP_random_normal, .has = random_has, .setup = random_setup, .run = normal_run},
    {0},
};
