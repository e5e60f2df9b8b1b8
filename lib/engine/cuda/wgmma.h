/* wgmma.h - private: large products of matrices of f16 or bf16 by the kernels of *_sm90.cu.
 *
 * Devices of compute capability 9.0 have them, with a driver of CUDA 12 or newer. No device is
 * believed before it has multiplied by each of them, once, what can be checked: wgmma_proof.c. The
 * environment's ZT_CUDA_WGMMA=0 leaves all to the kernels of *_units.cu. In what order a warpgroup
 * sums 16 products is not promised by anybody to be that of mma, by which few rows are made: so
 * products with weights go here only where a device has shown that both give the same bits.
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

/* Of f16 or bf16; t: transposed. */
typedef struct zt_cu_wgmma {
    const char *kernel;
    zt_dtype dtype;
    int width;
    bool ta, tb;
} zt_cu_wgmma;
extern const zt_cu_wgmma zt_cu_wgmmas[];
enum { ZT_CU_WGMMAS = 12 };

/* *done, or it is not for these kernels. batches: of y; steps are those of rows and columns that
 * follow each other. */
zt_status zt_cu_wgmma_multiply(zt_cu_call *call, const zt_cu_matmul_args *args, zt_dtype dtype,
                               int64_t batches, bool *done);
/* By the kernel `by`, in so many blocks; what it needs is there. */
zt_status zt_cu_wgmma_launch(zt_cu_call *call, const zt_cu_wgmma *variant, const zt_cu_matmul_args *args,
                             int64_t batches, unsigned blocks);
/* Products with weights of type t, of which x is too; a has all but `right`. *done, as above. */
zt_status zt_cu_wgmma_linear(zt_cu_call *call, zt_dtype dtype, const zt_cu_linear_args *args, unsigned count,
                             bool *done);
zt_status zt_cu_wgmma_linear_launch(zt_cu_call *call, zt_dtype dtype, const zt_cu_linear_args *args,
                                    unsigned count, unsigned blocks);
/* What the engine's device gives; why not all is told in the log. Outside of captures. */
zt_cu_wgmma_use zt_cu_wgmma_prove(zt_cu_engine *engine);

#endif
