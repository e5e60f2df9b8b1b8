/* denormals.h - private to isa/: subnormal numbers taken and given as 0, which is how vdpbf16ps reckons,
 * for FMAs that stand for it. Compilers do not know that arithmetic depends on this register: what
 * is to be reckoned in between has to be held there (volatile asm).
 */
#ifndef ZT_CPU_DENORMALS_H
#define ZT_CPU_DENORMALS_H

#if defined(ZT_ISA_avx512)
#include <immintrin.h>
#endif

/* From here on, where there is AVX-512; gives how it was. */
static inline unsigned flush_begin(void)
{
#if defined(ZT_ISA_avx512)
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
#if defined(ZT_ISA_avx512)
    _mm_setcsr(usual);
#else
    (void)usual;
#endif
}

#endif
