/* random.cl - draws that depend on seed, counter and place alone. Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw,
 * "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011; as lib/base/random.c. */
#include "lib/engine/opencl/prim.clh"
#include "lib/engine/cuda/args_random.h"

FN uint4 philox(uint64_t seed, uint64_t sequence, uint64_t position)
{
    uint4 c = (uint4)((uint32_t)position, (uint32_t)(position >> 32), (uint32_t)sequence, (uint32_t)(sequence >> 32));
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c.x, p1 = (uint64_t)0xCD9E8D57u * c.z;
        c = (uint4)((uint32_t)(p1 >> 32) ^ c.y ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c.w ^ k1, (uint32_t)p0);
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return c;
}

/* Box and Muller: two words make two draws. */
FN float normal_of(uint32_t size, uint32_t angle, bool sine)
{
    const float radius = sqrt(-2 * log(((float)(size >> 8) + 1) * 0x1p-24f));
    const float turn = (float)angle * 0x1p-31f; /* in halves of a turn */
    return radius * (sine ? sinpi(turn) : cospi(turn));
}

/* A work-item four draws. */
KERNEL(zt_cu_random, zt_cu_random_args)
{
    const uint64_t counter = *PTR(const uint64_t, a.counter);
    const float from = number(a.a), by = number(a.b);
    EACH_OF(i, (a.n + 3) / 4)
    {
        const uint4 r = philox(a.seed, counter, (uint64_t)i);
        const uint32_t word[4] = {r.x, r.y, r.z, r.w};
        for (int k = 0; k < 4 && i * 4 + k < a.n; k++) {
            const float draw =
                a.normal ? normal_of(word[k / 2 * 2], word[k / 2 * 2 + 1], k % 2) : (float)(word[k] >> 8) * 0x1p-24f;
            PTR(float, a.y)[i * 4 + k] = fma(by, draw, from);
        }
    }
}
