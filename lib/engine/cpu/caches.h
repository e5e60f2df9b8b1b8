/* caches.h - private to lib/engine/cpu: the processor's data caches, as the system reports them. */
#ifndef ZT_CPU_CACHES_H
#define ZT_CPU_CACHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct zt_cpu_cache {
    char name[8]; /* "L1d" "L2" "L3" */
    size_t bytes; /* of one */
    int sharers;  /* processors that share one, at least 1 */
} zt_cpu_cache;

/* Of the first processor, the nearest first: how many there are, at most `max`. 0: none known. */
int zt_cpu_caches(zt_cpu_cache *c, int max);

#endif
