/* matmul.c - the row of products of matrices. */
#include "lib/engine/cuda/blas.h"
#include "lib/engine/cuda/wgmma.h"

enum { TILE = 64 }; /* as matmul.cu has it */

static int64_t batches_of(const zt_type *y_type)
{
    int64_t batch_count = 1;
    for (int dimension = 0; dimension + 2 < y_type->rank; dimension++) batch_count *= y_type->dim[dimension];
    return batch_count;
}

static bool has_matmul(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                       const zt_type output_types[])
{
    int rank = output_types[0].rank;
    (void)attrs;
    return (zt_cu_is_float(input_types[0]->dtype) || input_types[0]->dtype == ZT_F64) && rank - 2 <= ZT_CU_DIMS &&
           batches_of(&output_types[0]) <= (int64_t)engine->max_grid[2] &&
           output_types[0].dim[rank - 2] / TILE < (int64_t)engine->max_grid[1] &&
           output_types[0].dim[rank - 1] / TILE < (int64_t)engine->max_grid[0];
}

/* Elements from one matrix to the next along each dimension of y's batches; 0 where it is repeated.
 */
static void steps_of(const zt_type *type, const zt_type *whole, int64_t step[ZT_CU_DIMS])
{
    int64_t size = type->dim[type->rank - 1] * type->dim[type->rank - 2];
    for (int dimension = whole->rank - 3; dimension >= 0; dimension--) {
        int own = dimension - (whole->rank - type->rank);
        step[dimension] = own >= 0 && type->dim[own] != 1 ? size : 0;
        if (own >= 0) size *= type->dim[own];
    }
}

zt_status zt_cu_multiply(zt_cu_call *call, const zt_cu_matmul_args *args)
{
    const zt_cu_dim grid = {(unsigned)((args->M + TILE - 1) / TILE), (unsigned)((args->N + TILE - 1) / TILE), 1};
    return zt_cu_launch(call, "zt_matmul_f32", grid, (zt_cu_dim){256, 1, 1}, 0, args, sizeof *args);
}

/* ---- large ones: by gemm.cuh, or wgmma ------------------------------------------------------- */

static int64_t tiles_of(int64_t n) { return (n + ZT_CU_GEMM_TILE - 1) / ZT_CU_GEMM_TILE; }

/* Its tiles are worth while: more than one of the small ones, and work for every processor. */
static bool is_large(const zt_cu_engine *engine, const zt_cu_matmul_args *args, int64_t batches)
{
    return args->N > TILE && args->M > TILE && zt_cu_has_shared(engine, ZT_CU_GEMM_BYTES) &&
           batches <= (int64_t)engine->max_grid[1] && tiles_of(args->N) * tiles_of(args->M) * batches * 4 >= engine->processors;
}

/* Rows of n numbers side by side, from a multiple of 16 bytes on. */
static bool is_wide(zt_cu_ptr at, int64_t n) { return at % 16 == 0 && n % 8 == 0; }

static zt_status launch_large(zt_cu_call *call, zt_cu_matmul_args *args, int64_t batches)
{
    bool a_transposed = args->a_row == 1 && args->a_col != 1, b_transposed = args->b_row == 1 && args->b_col != 1;
    bool half = call->input_types[0]->dtype == ZT_F16, done;
    const char *nt_kernel = half ? "zt_matmul_f16_nt" : "zt_matmul_bf16_nt",
               *nn_kernel = half ? "zt_matmul_f16_nn" : "zt_matmul_bf16_nn",
               *tn_kernel = half ? "zt_matmul_f16_tn" : "zt_matmul_bf16_tn";
    args->wide_a = is_wide(args->a, a_transposed ? args->N : args->K);
    args->wide_b = is_wide(args->b, b_transposed ? args->K : args->M) && !(a_transposed && b_transposed);
    args->wide_y = is_wide(args->y, args->M);
    zt_status status = zt_cu_wgmma_multiply(call, args, call->input_types[0]->dtype, batches, &done);
    if (status || done) return status;
    const zt_cu_dim grid = {(unsigned)(tiles_of(args->N) * tiles_of(args->M)), (unsigned)batches, 1};
    return zt_cu_launch(call,
                        a_transposed   ? tn_kernel
                        : b_transposed ? nt_kernel
                                       : nn_kernel,
                        grid, (zt_cu_dim){256, 1, 1}, ZT_CU_GEMM_BYTES, args, sizeof *args);
}

static zt_status emit_matmul(zt_cu_call *call)
{
    const zt_matmul_attrs *attrs = call->attrs;
    const zt_type *a_type = call->input_types[0], *q_type = call->input_types[1], *y_type = call->output_types[0];
    int64_t columns_a = a_type->dim[a_type->rank - 1], columns_b = q_type->dim[q_type->rank - 1];
    // clang-format off
    zt_cu_matmul_args args = {.a = call->inputs[0],
                           .b = call->inputs[1],
                           .y = call->outputs[0],
                           .N = y_type->dim[y_type->rank - 2],
                           .K = a_type->dim[a_type->rank - (attrs->ta ? 2 : 1)],
                           .M = y_type->dim[y_type->rank - 1],
                           .a_row = attrs->ta ? 1 : columns_a,
                           .a_col = attrs->ta ? columns_a : 1,
                           .b_row = attrs->tb ? 1 : columns_b,
                           .b_col = attrs->tb ? columns_b : 1,
                           .rank = y_type->rank - 2};
    // clang-format on
    for (int dimension = 0; dimension < args.rank; dimension++) args.dim[dimension] = y_type->dim[dimension];
    steps_of(a_type, y_type, args.a_step);
    steps_of(q_type, y_type, args.b_step);
    bool done;
    zt_status status = zt_cu_blas_multiply(call, &args, attrs->ta != 0, attrs->tb != 0, &done);
    if (status || done) return status;
    zt_dtype dtype = a_type->dtype;
    if ((dtype == ZT_F16 || dtype == ZT_BF16) && zt_cu_has_kernel(call->engine, "zt_matmul_f16_nn") &&
        is_large(call->engine, &args, batches_of(y_type)))
        return launch_large(call, &args, batches_of(y_type));
    const char *kernel = dtype == ZT_F32    ? "zt_matmul_f32"
                         : dtype == ZT_F16  ? "zt_matmul_f16"
                         : dtype == ZT_BF16 ? "zt_matmul_bf16"
                                            : "zt_matmul_f64";
    const zt_cu_dim grid = {(unsigned)((args.M + TILE - 1) / TILE), (unsigned)((args.N + TILE - 1) / TILE),
                            (unsigned)batches_of(y_type)};
    return zt_cu_launch(call, kernel, grid, (zt_cu_dim){256, 1, 1}, 0, &args, sizeof args);
}

const zt_cu_row zt_cu_matmul[] = {
    {.op = ZT_OP_matmul, .has = has_matmul, .emit = emit_matmul},
    {0},
};
