/* random.c - Philox4x32-10: random numbers named by (seed, sequence, position).
 *
 * J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011:
 * ten rounds of two 32 x 32 -> 64 bit products; the key walks by two Weyl constants. */
#include "lib/base/base.h"
#include <math.h>

static const double pi = 3.14159265358979323846;

void zt_philox(uint64_t seed, uint64_t sequence, uint64_t position, uint32_t out[4])
{
    if (!out) return;
    uint32_t c0 = (uint32_t)position, c1 = (uint32_t)(position >> 32);
    uint32_t c2 = (uint32_t)sequence, c3 = (uint32_t)(sequence >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c0 = n0, c1 = (uint32_t)p1;
        c2 = n2, c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

static double unit_interval(uint32_t low, uint32_t high) { return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53; }

double zt_uniform(uint64_t seed, uint64_t sequence, uint64_t position)
{
    uint32_t words[4];
    zt_philox(seed, sequence, position, words);
    return unit_interval(words[0], words[1]);
}

/* Box and Muller's transform; 1 - radius_draw is in (0, 1], so the logarithm is finite. */
double zt_normal(uint64_t seed, uint64_t sequence, uint64_t position)
{
    uint32_t words[4];
    zt_philox(seed, sequence, position, words);
    double radius_draw = unit_interval(words[0], words[1]), angle_draw = unit_interval(words[2], words[3]);
    return sqrt(-2 * log(1 - radius_draw)) * cos(2 * pi * angle_draw);
}
