/* args_spectral.h - arguments of spectral.cu's kernels. */
#ifndef ZT_CU_ARGS_SPECTRAL_H
#define ZT_CU_ARGS_SPECTRAL_H

#include "lib/engine/cuda/args.h"

enum { ZT_CU_FFT_F32 = 2048, ZT_CU_FFT_F64 = 1024 }; /* the longest lines of a block: powers of two */

/* t[j] = cos and sin of 2 pi j / n, f64 */
typedef struct zt_cu_phases_args {
    zt_cu_ptr t;
    int64_t n;
} zt_cu_phases_args;

/* Pairs to pairs; a real line to the n/2+1 bins of its spectrum; and back. */
typedef enum zt_cu_lines { ZT_CU_OF_PAIRS, ZT_CU_TO_BINS, ZT_CU_OF_BINS } zt_cu_lines;

/* lines of n, `inner` apart in x and y; of x's `given` entries the rest are zeros. */
typedef struct zt_cu_dft_args {
    zt_cu_ptr x, y, t;
    int64_t lines, n, given, inner;
    double scale;
    int32_t type, kind;
    int32_t inverse, twice; /* twice: bins that are no ends count double, ends are real */
} zt_cu_dft_args;

/* Bins [B,modes,C] as f64 pairs of a grid [B,n,C], and grids of bins. t: turns, or beside cuFFT whole
 * spectra, pairs [B,n/2+1,C] of f64 or else f32. */
typedef struct zt_cu_bins_args {
    zt_cu_ptr x, z, t;
    int64_t B, n, C, modes;
    int32_t type, weigh; /* weigh: as they count in the inverse, ends real */
} zt_cu_bins_args;

/* x bins of I channels, z of O, w_re and w_im [modes,I,O] or what is passed back to them (0: not
 * wanted). */
typedef struct zt_cu_mix_args {
    zt_cu_ptr x, z, w_re, w_im;
    int64_t B, n, I, O, modes;
    int32_t type, unused;
} zt_cu_mix_args;

#endif
