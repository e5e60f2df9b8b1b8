/* amx.h - private to isa/: the tile registers of AMX, between a begin and an end, where zt_cpu_amx.
 *
 * They are written as asm: Debian 12's gcc takes 8 bytes of what _tile_loadconfig reads as read, and
 * leaves the others out.
 */
#ifndef ZT_CPU_AMX_H
#define ZT_CPU_AMX_H

#include <stdint.h>

/* What ldtilecfg reads. */
typedef struct amx_shapes {
    uint8_t palette, start, zero[14];
    uint16_t bytes[16]; /* of a line */
    uint8_t lines[16];
} amx_shapes;

static inline void amx_begin(const amx_shapes *shapes)
{
#if defined(ZT_ISA_avx512)
    __asm__ volatile("ldtilecfg %0" : : "m"(*shapes));
#else
    (void)shapes;
#endif
}

/* Registers that hold nothing need not be saved. */
static inline void amx_end(void)
{
#if defined(ZT_ISA_avx512)
    __asm__ volatile("tilerelease" : : : "memory");
#endif
}

#endif
