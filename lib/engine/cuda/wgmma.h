/* wgmma.h - private: large products of matrices of f16 or bf16 by the kernels of *_sm90.cu.
 *
 * Devices of compute capability 9.0 have them, with a driver of CUDA 12 or newer. A device is
 * used only after each kernel has multiplied test matrices correctly on it, once: wgmma_proof.c. The
 * environment's ZT_CUDA_WGMMA=0 leaves all products to the kernels of *_mma.cu. NVIDIA does not
 * promise that a warpgroup sums 16 products in the order of mma, which computes few rows: so products with
 * weights use these kernels only where the test showed that both give the same bits.
 */
#ifndef ZT_CU_WGMMA_H
#define ZT_CU_WGMMA_H

#include "lib/engine/cuda/args_wgmma.h"
#include "lib/engine/cuda/cu.h"

typedef enum zt_cu_wgmma_use {
    ZT_CU_WG_NONE = 1,
    ZT_CU_WG_MATMUL, /* right, but not mma's bits */
    ZT_CU_WG_ALL
} zt_cu_wgmma_use;

/* A kernel, for f16 or bf16; ta, tb: it reads a or b transposed. width: columns of a tile. */
typedef struct zt_cu_wgmma {
    const char *kernel;
    zt_dtype dtype;
    int width;
    bool ta, tb;
} zt_cu_wgmma;
extern const zt_cu_wgmma zt_cu_wgmmas[];
enum { ZT_CU_WGMMAS = 12 };

/* Multiplies, and sets *done, if one of these kernels can; else *done is false. batches: of y. Rows and
 * columns must be contiguous along one axis. */
zt_status zt_cu_wgmma_multiply(zt_cu_call *call, const zt_cu_matmul_args *args, zt_dtype dtype, int64_t batches, bool *done);
/* Launches one variant in `blocks` blocks. The arguments must be those that it can read. */
zt_status zt_cu_wgmma_launch(zt_cu_call *call, const zt_cu_wgmma *variant, const zt_cu_matmul_args *args, int64_t batches,
                             unsigned blocks);
/* `count` products whose weights and x are of `dtype`; args lacks only `right`. *done: as above. */
zt_status zt_cu_wgmma_linear(zt_cu_call *call, zt_dtype dtype, const zt_cu_linear_args *args, unsigned count, bool *done);
zt_status zt_cu_wgmma_linear_launch(zt_cu_call *call, zt_dtype dtype, const zt_cu_linear_args *args, unsigned count,
                                    unsigned blocks);
/* Tests the device (wgmma_proof.c): what may be used. The log says why less than all. Not in a capture. */
zt_cu_wgmma_use zt_cu_wgmma_prove(zt_cu_engine *engine);

#endif
