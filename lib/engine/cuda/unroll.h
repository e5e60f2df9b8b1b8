/* unroll.h - for kernels: loops that nvcc (or hipcc) is to unroll, or not. */
#ifndef ZT_CU_UNROLL_H
#define ZT_CU_UNROLL_H

#if defined(__CUDACC__) || defined(__HIP__)
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#else
#define UNROLL
#define ROLLED
#endif

/* The same as one word, as clang-format wants it in headers. */
#define UNROLL_FOR UNROLL for
#define ROLLED_FOR ROLLED for

#endif
