/* roof.h - the roofline of this machine, measured: bandwidth of each cache level and of memory, and
 * arithmetic of each instruction set, with one thread and with all. Times of ops are compared with
 * it.
 *
 * Each figure is the best of many samples of a fraction of a millisecond, because all that happens
 * on a machine disturbs in one direction only. Memory is asked for in huge pages.
 */
#ifndef ZT_ROOF_H
#define ZT_ROOF_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* [0] with one thread, [1] with all requested threads. */
enum { ZT_ROOF_ONE, ZT_ROOF_ALL };

typedef struct zt_roof_level {
    char name[8];   /* "L1d" "L2" "L3" "memory" */
    size_t bytes;   /* of one cache; of memory what the machine has */
    int sharers;    /* processors that share one cache; memory: all of them */
    size_t set;     /* bytes that each thread reads, when all do */
    double read[2]; /* bytes a second */
    double copy[2]; /* bytes read and bytes written, together; 0: not measured (`brief`) */
} zt_roof_level;

typedef enum zt_roof_kind { ZT_ROOF_F32, ZT_ROOF_BF16, ZT_ROOF_INT8, ZT_ROOF_KINDS } zt_roof_kind;

/* Multiply and add, two operations, on registers alone. */
typedef struct zt_roof_peak {
    zt_isa isa;
    zt_roof_kind kind;
    const char *set; /* the name of isa, or "amx", which avx512 uses where available */
    const char *how; /* "vfmadd231ps zmm": the instructions */
    double rate[2];  /* operations a second */
} zt_roof_peak;

#define ZT_ROOF_LEVELS 6
#define ZT_ROOF_PEAKS  8
typedef struct zt_roof {
    int threads;
    bool huge;    /* the memory that was read was in huge pages, the most of it at least */
    int n_levels; /* the nearest first; the last is memory */
    zt_roof_level level[ZT_ROOF_LEVELS];
    int n_peaks;
    zt_roof_peak peak[ZT_ROOF_PEAKS];
} zt_roof;

typedef struct zt_roof_opts {
    int threads;    /* 0: zt_cpu_count */
    zt_isa isa;     /* at most this */
    double seconds; /* to spend on it, about; 0: 0.1 */
    bool brief;     /* no copies, and arithmetic of `isa` only */
} zt_roof_opts;

/* Measures and sets *roof, which needs no free. opts is required. ZT_EUSAGE: a number of threads
 * that is not possible; ZT_ENOMEM: no memory for the arrays read (up to 512 MiB). */
zt_status zt_roof_measure(zt_ctx *ctx, const zt_roof_opts *opts, zt_roof *roof);

const char *zt_roof_kind_name(zt_roof_kind k); /* "f32" "bf16" "int8", else "unknown"; static */
/* Operations a second of one kind with all threads, by the best instruction set measured. Every
 * kind can be done in f32: the rate of f32 where that is higher, or the kind was not measured. */
double zt_roof_rate(const zt_roof *r, zt_roof_kind kind);
/* The nearest level that holds `bytes`, divided among all threads; else memory. Part of *r. */
const zt_roof_level *zt_roof_level_of(const zt_roof *r, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
