/* roof.h - private to lib/engine/cpu: loops that do nothing but reach the machine's limits. */
#ifndef ZT_CPU_ISA_ROOF_H
#define ZT_CPU_ISA_ROOF_H

#include "lib/engine/cpu/cpu.h"
#include "lib/engine/roof.h"

typedef struct zt_cpu_peak {
    zt_roof_kind kind;
    const char *how;
    double ops;             /* of one round */
    void (*run)(int64_t n); /* n rounds; NULL ends a list */
    bool amx;               /* only where zt_cpu_amx */
} zt_cpu_peak;

typedef struct zt_cpu_roof {
    const zt_cpu_peak *peak;
    /* `bytes` is divided by 512, pointers by 64. read gives something made of all that it read. */
    uint64_t (*read)(const void *from, size_t bytes);
    void (*copy)(void *to, const void *from, size_t bytes);
    void (*stream)(void *to, const void *from, size_t bytes); /* stores past the caches */
} zt_cpu_roof;

extern const zt_cpu_roof zt_cpu_roof_scalar, zt_cpu_roof_avx2, zt_cpu_roof_avx512, zt_cpu_roof_neon, zt_cpu_roof_dotprod;

#endif
