/* quads_neon.h - private to simd_neon.h and gemm_quant/vector_neon.h: an instruction on each of a value's four registers a, b, c, d. */
#ifndef ZT_CPU_QUADS_NEON_H
#define ZT_CPU_QUADS_NEON_H

#define QUADS(type, f, ...)      ((type){f(a, __VA_ARGS__), f(b, __VA_ARGS__), f(c, __VA_ARGS__), f(d, __VA_ARGS__)})
#define OF_ONE(q, f, x)          f((x).q)
#define OF_TWO(q, f, x, y)       f((x).q, (y).q)
#define OF_THREE(q, f, x, y, z)  f((x).q, (y).q, (z).q)
#define QUADS1(type, f, x)       QUADS(type, OF_ONE, f, x)
#define QUADS2(type, f, x, y)    QUADS(type, OF_TWO, f, x, y)
#define QUADS3(type, f, x, y, z) QUADS(type, OF_THREE, f, x, y, z)
#define FOUR_TIMES(type, value)  ((type){value, value, value, value})

#endif
