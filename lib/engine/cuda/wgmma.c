/* wgmma.c - which products the kernels of *_sm90.cu make, and how they are called. */
#include "lib/engine/cuda/wgmma.h"

#include <stdlib.h>
#include <string.h>

#define LAYOUTS(number, dtype, width)                                                                                            \
    {"zt_wgmma_" number "_nt_" #width, dtype, width, false, true},                                                               \
        {"zt_wgmma_" number "_nn_" #width, dtype, width, false, false},                                                          \
    {                                                                                                                            \
        "zt_wgmma_" number "_tn_" #width, dtype, width, true, false                                                              \
    }
const zt_cu_wgmma zt_cu_wgmmas[] = {
    LAYOUTS("f16", ZT_F16, 128),
    LAYOUTS("f16", ZT_F16, 256),
    LAYOUTS("bf16", ZT_BF16, 128),
    LAYOUTS("bf16", ZT_BF16, 256),
};
_Static_assert(sizeof zt_cu_wgmmas / sizeof zt_cu_wgmmas[0] == ZT_CU_WGMMAS, "wgmma.h");

/* ---- tensor maps ----------------------------------------------------------------------------- */

/* Numbers of the driver's enumerations. */
enum { OF_16_BITS = 1, CHUNKS_OF_128 = 3, LINES_OF_256 = 3 };

/* Matrices one behind the other, of which boxes of 64 columns by `high` rows are copied. */
static zt_status map_of(zt_cu_engine *engine, zt_cu_tensor_map *map, zt_cu_ptr address, int64_t rows, int64_t columns,
                        int64_t matrices, int box_rows)
{
    const uint64_t size[3] = {(uint64_t)columns, (uint64_t)rows, (uint64_t)matrices};
    const uint64_t step[2] = {size[0] * 2, size[0] * size[1] * 2};
    const uint32_t box[3] = {64, (uint32_t)box_rows, 1}, every[3] = {1, 1, 1};
    return zt_cu_try(engine,
                     engine->cu.TensorMapEncodeTiled(map, OF_16_BITS, 3, (void *)(uintptr_t)address, size, step, box, every, 0,
                                                     CHUNKS_OF_128, LINES_OF_256, 0),
                     "TensorMapEncodeTiled");
}

/* How many matrices of `size` numbers there are, by the steps from one to the next. */
static int64_t matrices_of(const zt_cu_matmul_args *args, const int64_t *step, int64_t size)
{
    int64_t last = 0;
    for (int dimension = 0; dimension < args->rank; dimension++) last += (args->dim[dimension] - 1) * step[dimension];
    return last / size + 1;
}

zt_status zt_cu_wgmma_launch(zt_cu_call *call, const zt_cu_wgmma *variant, const zt_cu_matmul_args *product, int64_t batches,
                             unsigned blocks)
{
    zt_cu_wgmma_args args = {
        .m = *product, .a_size = product->N * product->K, .b_size = product->K * product->M, .batches = batches};
    const bool side_a = variant->ta, side_b = !variant->tb; /* rows lie side by side, not K */
    zt_status status = ZT_OK;
    if (!call->sizing) {
        status = map_of(call->engine, &args.a, product->a, side_a ? product->K : product->N, side_a ? product->N : product->K,
                        matrices_of(product, product->a_step, args.a_size), side_a ? 64 : ZT_CU_WG_ROWS);
        if (!status)
            status = map_of(call->engine, &args.b, product->b, side_b ? product->K : product->M, side_b ? product->M : product->K,
                            matrices_of(product, product->b_step, args.b_size), side_b ? 64 : variant->width);
    }
    if (status) return status;
    return zt_cu_launch(call, variant->kernel, (zt_cu_dim){blocks, 1, 1}, (zt_cu_dim){ZT_CU_WG_THREADS, 1, 1},
                        (size_t)ZT_CU_WG_BYTES(variant->width), &args, sizeof args);
}

/* ---- which ----------------------------------------------------------------------------------- */

static int64_t tiles_of(const zt_cu_matmul_args *args, int64_t batches, int width)
{
    return (args->N + ZT_CU_WG_ROWS - 1) / ZT_CU_WG_ROWS * ((args->M + width - 1) / width) * batches;
}

/* The wide tiles where there is one for every processor: each number of them is brought for more
 * products. */
static const zt_cu_wgmma *pick_variant(const zt_cu_engine *engine, const zt_cu_matmul_args *args, zt_dtype dtype, int64_t batches,
                                       bool a_transposed, bool b_transposed)
{
    const int width = tiles_of(args, batches, 256) >= engine->processors ? 256 : 128;
    for (int i = 0; i < ZT_CU_WGMMAS; i++) {
        const zt_cu_wgmma *variant = &zt_cu_wgmmas[i];
        if (variant->dtype == dtype && variant->width == width && variant->ta == a_transposed && variant->tb == b_transposed)
            return variant;
    }
    return NULL;
}

static bool fits_int(int64_t number) { return number > 0 && number < INT32_MAX - 256; }

/* What maps can say: rows from 16 bytes to 16 bytes, places that 32 bits hold. */
static bool can_map(const zt_cu_matmul_args *args, int64_t batches, bool a_transposed, bool b_transposed)
{
    const int64_t most = (int64_t)1 << 38;
    return fits_int(args->N) && fits_int(args->M) && fits_int(args->K) && fits_int(batches) &&
           (a_transposed ? args->N : args->K) % 8 == 0 && (b_transposed ? args->K : args->M) % 8 == 0 && args->a % 16 == 0 &&
           args->b % 16 == 0 && args->N <= most / args->K && args->M <= most / args->K;
}

/* Once for an engine: what it may, and does. */
static bool may_use(zt_cu_call *call, zt_cu_wgmma_use use)
{
    zt_cu_engine *engine = call->engine;
    const char *wanted = getenv("ZT_CUDA_WGMMA");
    if (engine->wgmma || !call->sizing) return engine->wgmma >= (int)use;
    bool can = engine->major == 9 && engine->minor == 0 && engine->cu.TensorMapEncodeTiled && engine->cu.CtxCreate &&
               engine->cu.CtxDestroy && zt_cu_has_shared(engine, ZT_CU_WG_BYTES(256)) && !(wanted && !strcmp(wanted, "0"));
    engine->wgmma = can ? (int)zt_cu_wgmma_prove(engine) : ZT_CU_WG_NONE;
    return engine->wgmma >= (int)use;
}

zt_status zt_cu_wgmma_multiply(zt_cu_call *call, const zt_cu_matmul_args *args, zt_dtype dtype, int64_t batches, bool *done)
{
    const bool a_transposed = args->a_row == 1 && args->a_col != 1, b_transposed = args->b_row == 1 && args->b_col != 1;
    const zt_cu_wgmma *variant = pick_variant(call->engine, args, dtype, batches, a_transposed, b_transposed);
    *done = variant && can_map(args, batches, a_transposed, b_transposed) && may_use(call, ZT_CU_WG_MATMUL);
    if (!*done) return ZT_OK;
    int64_t tiles = tiles_of(args, batches, variant->width);
    return zt_cu_wgmma_launch(call, variant, args, batches,
                              (unsigned)(tiles < call->engine->processors ? tiles : call->engine->processors));
}

/* ---- with weights ---------------------------------------------------------------------------- */

zt_status zt_cu_wgmma_linear_launch(zt_cu_call *call, zt_dtype dtype, const zt_cu_linear_args *args, unsigned count,
                                    unsigned blocks)
{
    zt_cu_wgmma_linear_args linear_args = {.l = *args, .products = (int32_t)count};
    zt_status status = call->sizing ? ZT_OK : map_of(call->engine, &linear_args.x, args->x, args->n, args->K, 1, ZT_CU_WG_ROWS);
    for (unsigned i = 0; i < count && !status && !call->sizing; i++)
        status = map_of(call->engine, &linear_args.w[i], args->product[i].w, args->product[i].M, args->K, 1, ZT_CU_WG_ROWS);
    if (status) return status;
    return zt_cu_launch(call, dtype == ZT_F16 ? "zt_wgmma_linear_f16" : "zt_wgmma_linear_bf16", (zt_cu_dim){blocks, 1, 1},
                        (zt_cu_dim){ZT_CU_WG_THREADS, 1, 1}, (size_t)ZT_CU_WG_BYTES(128), &linear_args, sizeof linear_args);
}

zt_status zt_cu_wgmma_linear(zt_cu_call *call, zt_dtype dtype, const zt_cu_linear_args *args, unsigned count, bool *done)
{
    const int64_t tall = (args->n + ZT_CU_WG_ROWS - 1) / ZT_CU_WG_ROWS;
    int64_t tiles = 0;
    *done = fits_int(args->n) && fits_int(args->K) && args->K % 8 == 0 && args->x % 16 == 0 && args->units_slice % 2 == 0;
    for (unsigned i = 0; i < count; i++) {
        *done = *done && fits_int(args->product[i].M) && args->product[i].w % 16 == 0;
        tiles += (args->product[i].M + 127) / 128 * tall;
    }
    *done = *done && fits_int(tiles) && may_use(call, ZT_CU_WG_ALL);
    if (!*done) return ZT_OK;
    return zt_cu_wgmma_linear_launch(call, dtype, args, count,
                                     (unsigned)(tiles < call->engine->processors ? tiles : call->engine->processors));
}
