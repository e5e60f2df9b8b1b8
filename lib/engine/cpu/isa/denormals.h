/* denormals.h - private to isa/: subnormal numbers taken and given as 0, as vdpbf16ps computes, for the FMAs that give
 * its bits. Compilers do not know that arithmetic depends on this register: what
 * is to be computed in between has to be held there (volatile asm). Where there is no such register, plain C, the function
 * fused_flushed_f32 (fused.h) gives these bits.
 */
#ifndef ZT_CPU_DENORMALS_H
#define ZT_CPU_DENORMALS_H

#if defined(ZT_ISA_avx2) || defined(ZT_ISA_avx512)
#define ZT_FLUSHES 1 /* flush_begin has an effect */
#include <immintrin.h>
#else
#define ZT_FLUSHES 0
#endif

/* From here on; returns the former setting. */
static inline unsigned flush_begin(void)
{
#if ZT_FLUSHES
    enum { FTZ_DAZ = 0x8040 }; /* of mxcsr */
    const unsigned usual = _mm_getcsr();
    _mm_setcsr(usual | FTZ_DAZ);
    return usual;
#else
    return 0;
#endif
}

static inline void flush_end(unsigned usual)
{
#if ZT_FLUSHES
    _mm_setcsr(usual);
#else
    (void)usual;
#endif
}

#endif
