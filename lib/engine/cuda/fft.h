/* fft.h - private: transforms by cuFFT, where the environment's ZT_LIBCUFFT names it.
 *
 * Without that, and for what it does not take, they are spectral.cu's. Lines of a power of two that
 * a block holds are always: those are one launch, with what is scaled and weighed around them. What
 * cuFFT gives is the same from run to run, but a line may depend on how many there are. Names and
 * numbers as cuFFT 10 to 12 have them.
 */
#ifndef ZT_CU_FFT_H
#define ZT_CU_FFT_H

#include "lib/engine/cuda/args_spectral.h"
#include "lib/engine/cuda/cu.h"

/* name in libcufft, name here, parameters */
// clang-format off
#define ZT_CU_FFT_API(X)                                                                           \
    X(cufftCreate, Create, (int *plan))                                                            \
    X(cufftDestroy, Destroy, (int plan))                                                           \
    X(cufftSetStream, SetStream, (int plan, zt_cu_stream s))                                       \
    X(cufftSetAutoAllocation, SetAutoAllocation, (int plan, int allocates))                        \
    X(cufftSetWorkArea, SetWorkArea, (int plan, void *room))                                       \
    X(cufftXtMakePlanMany, MakePlan,                                                               \
      (int plan, int rank, long long *n, long long *x_room, long long x_step, long long x_line,    \
       int x_type, long long *y_room, long long y_step, long long y_line, int y_type,              \
       long long lines, size_t *bytes, int type))                                                  \
    X(cufftXtExec, Exec, (int plan, void *x, void *y, int direction))
// clang-format on

typedef struct zt_cu_fft_calls {
#define X(symbol, name, params) int(*name) params;
    ZT_CU_FFT_API(X)
#undef X
} zt_cu_fft_calls;

/* So many sorts of lines at most: their plans stay, for what is captured goes on using them. */
enum { ZT_CU_FFT_PLANS = 256 };

typedef struct zt_cu_fft_plan {
    int64_t n, lines, step; /* step: from a number of a line to its next; 1, or lines */
    int kind;               /* zt_cu_lines */
    bool wide;              /* f64 */
    bool refused;           /* cuFFT takes no such lines: there is no plan */
    int plan;
    size_t room; /* bytes that it works in */
} zt_cu_fft_plan;

typedef struct zt_cu_fft {
    void *library;
    zt_cu_fft_calls call;
    zt_cu_fft_plan plan[ZT_CU_FFT_PLANS];
    int n;
} zt_cu_fft;

/* Once the stream is there; nothing where none is named. ZT_ENOTSUP and why where it cannot be had. */
zt_status zt_cu_fft_open(zt_cu_engine *engine);
void zt_cu_fft_close(zt_cu_engine *engine);
/* The transform that a says, by cuFFT: *done, or it takes no such lines. */
zt_status zt_cu_fft_transform(zt_cu_call *call, const zt_cu_dft_args *args, bool *done);
/* Of the spectral convolution, many modes: z of x, and x of z, with scratch in place of a->t. */
zt_status zt_cu_fft_bins(zt_cu_call *call, const zt_cu_bins_args *args, bool *done);
zt_status zt_cu_fft_waves(zt_cu_call *call, const zt_cu_bins_args *args, bool *done);

#endif
