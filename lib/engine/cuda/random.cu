/* random.cu - draws that hang on seed, counter and place alone. Philox4x32-10: J. Salmon, M.
 * Moraes, R. Dror, D. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011; as
 * lib/base/random.c. */
#include "lib/engine/cuda/args_random.h"
#include "lib/engine/cuda/prim.h"

FN void philox(uint64_t seed, uint64_t sequence, uint64_t position, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)position, c1 = (uint32_t)(position >> 32);
    uint32_t c2 = (uint32_t)sequence, c3 = (uint32_t)(sequence >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

FN double uniform_of(const uint32_t r[4], int k) { return (double)(r[k] >> 8) * 0x1p-24; }

/* Box and Muller: words 0 and 1 make the first two, 2 and 3 the others. */
FN double normal_of(const uint32_t r[4], int k)
{
    const int pair = k / 2 * 2;
    const double u = ((double)(r[pair] >> 8) + 1) * 0x1p-24;
    const double angle = 6.283185307179586476925 * (double)r[pair + 1] * 0x1p-32;
    return sqrt(-2 * log(u)) * (k % 2 ? sin(angle) : cos(angle));
}

/* A thread four draws. In f64: a draw is the same on every engine but for one rounding. */
KERNEL_OF(zt_cu_random, zt_cu_random_args, 256)
{
    const uint64_t counter = *PTR(const uint64_t, a.counter);
    float *y = PTR(float, a.y);
    for (int64_t i = first(); i < (a.n + 3) / 4; i += stride()) {
        uint32_t r[4];
        philox(a.seed, counter, (uint64_t)i, r);
        for (int k = 0; k < 4 && i * 4 + k < a.n; k++)
            y[i * 4 + k] = (float)(a.a + a.b * (a.normal ? normal_of(r, k) : uniform_of(r, k)));
    }
}
