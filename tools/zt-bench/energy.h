/* energy.h - private to zt-bench: energy that the processor and its memory use (energy.c). */
#ifndef ZT_BENCH_ENERGY_H
#define ZT_BENCH_ENERGY_H

#include "lib/base/base.h"

enum { BENCH_MAX_ZONES = 32 };

typedef struct bench_zone {
    int descriptor;
    int64_t last, range; /* microjoules: the last reading; that after which the counter begins again at 0 */
} bench_zone;

/* Zero-initialized: nothing is measured. */
typedef struct bench_energy {
    bench_zone zones[BENCH_MAX_ZONES]; /* [count] */
    int count;
    double microjoules; /* since it was opened */
} bench_energy;

/* Opens the counters of all packages. ZT_ENOTSUP: there are none, or they cannot be read. Close it in any case. */
zt_status bench_energy_open(zt_ctx *ctx, bench_energy *energy);
void bench_energy_close(bench_energy *energy);
/* Joules since it was opened. Each counter must be read before it has gone through its range twice. */
double bench_energy_joules(bench_energy *energy);

#endif
