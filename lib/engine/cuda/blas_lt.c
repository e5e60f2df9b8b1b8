/* blas_lt.c - products with weights and biases by cuBLASLt. Curves and residuals are not left to it:
 * a kernel of ours puts them behind, so that a fused op has the bits of the ops that it stands for. */
#include "lib/engine/cuda/blas.h"
#include "lib/engine/cuda/strides.h"

/* Numbers of its enumerations. */
enum { COMPUTE_32F = 68, R_32F = 0, R_16F = 2, R_16BF = 14 };
enum { DESC_TRANSPOSE_A = 3, DESC_EPILOGUE = 7, DESC_BIAS = 8, EPILOGUE_BIAS = 4 };
enum { WISH_ROOM = 1, WISH_REDUCTIONS = 3, OF_COMPUTE_TYPE = 2 /* partial sums stay f32 */ };

/* Fewer rows, of x or of weights, are the kernels' that read weights once and wait for memory. */
enum { MIN_ROWS = 16 };

/* What describes one product. Its matrices have columns one behind the other: y [n,M] is M by n, and
 * the weights, transposed, come first. */
typedef struct lt_product {
    void *descriptor, *w_layout, *x_layout, *y_layout, *preference;
    zt_cu_lt_choice choice;
} lt_product;

static int lt_type(int32_t type) { return type == ZT_CU_F32 ? R_32F : type == ZT_CU_F16 ? R_16F : R_16BF; }

static bool takes_product(const zt_cu_call *call, const zt_cu_linear_args *args, unsigned product_count)
{
    bool all = call->engine->blas && call->engine->blas->lt_handle && !call->model && !args->x_backs &&
               args->x_type == args->w_type && zt_cu_is_float((zt_dtype)args->w_type) && args->n > MIN_ROWS && args->K > 0;
    for (unsigned i = 0; i < product_count && all; i++)
        all = args->product[i].M > MIN_ROWS && (!args->product[i].b || args->product[i].b_type == args->y_type);
    return all;
}

static int describe_product(const zt_cu_blas *blas, const zt_cu_linear_args *args, const zt_cu_product *target,
                            lt_product *product)
{
    const zt_cu_lt_calls *calls = &blas->lt_call;
    const int32_t yes = 1, bias = EPILOGUE_BIAS;
    const uint32_t sums = OF_COMPUTE_TYPE;
    const uint64_t room = ZT_CU_BLAS_ROOM;
    const void *from = (const void *)(uintptr_t)target->b;
    const int x_number_type = lt_type(args->x_type);
    const uint64_t row_count = (uint64_t)args->n, K = (uint64_t)args->K, M = (uint64_t)target->M;
    int result = calls->DescCreate(&product->descriptor, COMPUTE_32F, R_32F);
    if (!result) result = calls->DescSet(product->descriptor, DESC_TRANSPOSE_A, &yes, sizeof yes);
    if (!result && target->b) result = calls->DescSet(product->descriptor, DESC_EPILOGUE, &bias, sizeof bias);
    if (!result && target->b) result = calls->DescSet(product->descriptor, DESC_BIAS, &from, sizeof from);
    if (!result) result = calls->LayoutCreate(&product->w_layout, x_number_type, K, M, args->K);
    if (!result) result = calls->LayoutCreate(&product->x_layout, x_number_type, K, row_count, args->K);
    if (!result) result = calls->LayoutCreate(&product->y_layout, x_number_type, M, row_count, target->M);
    if (!result) result = calls->WishCreate(&product->preference);
    if (!result) result = calls->WishSet(product->preference, WISH_ROOM, &room, sizeof room);
    return result ? result : calls->WishSet(product->preference, WISH_REDUCTIONS, &sums, sizeof sums);
}

static void free_product(const zt_cu_blas *blas, lt_product *product)
{
    const zt_cu_lt_calls *calls = &blas->lt_call;
    if (product->preference) calls->WishDestroy(product->preference);
    if (product->y_layout) calls->LayoutDestroy(product->y_layout);
    if (product->x_layout) calls->LayoutDestroy(product->x_layout);
    if (product->w_layout) calls->LayoutDestroy(product->w_layout);
    if (product->descriptor) calls->DescDestroy(product->descriptor);
}

/* Has it a way to make this product? The first it names is the one that it thinks fastest, and the
 * same at every call. */
static bool choose_algorithm(const zt_cu_blas *blas, lt_product *product)
{
    int found_count = 0;
    int result =
        blas->lt_call.Choose(blas->lt_handle, product->descriptor, product->w_layout, product->x_layout, product->y_layout,
                             product->y_layout, product->preference, 1, &product->choice, &found_count);
    return result == 0 && found_count > 0 && product->choice.status == 0;
}

static zt_status run_multiply(zt_cu_call *call, const zt_cu_linear_args *args, const zt_cu_product *target,
                              const lt_product *product)
{
    const zt_cu_blas *blas = call->engine->blas;
    const float one = 1, none = 0;
    void *output = (void *)(uintptr_t)target->y;
    bool goes;
    zt_status status = zt_cu_foreign(call, &goes);
    if (status || !goes) return status;
    int result = blas->lt_call.Multiply(blas->lt_handle, product->descriptor, &one, (const void *)(uintptr_t)target->w,
                                        product->w_layout, (const void *)(uintptr_t)args->x, product->x_layout, &none, output,
                                        product->y_layout, output, product->y_layout, product->choice.algorithm,
                                        (void *)(uintptr_t)blas->room.address, ZT_CU_BLAS_ROOM, call->engine->stream);
    return zt_cu_blas_check(call->engine, result, "LtMatmul");
}

static zt_status add_after(zt_cu_call *call, const zt_cu_linear_args *args, const zt_cu_product *target)
{
    zt_cu_linear_args one = *args;
    one.product[0] = *target;
    if (args->after == ZT_CU_AFTER_NONE) return ZT_OK;
    return zt_cu_launch_each(call, "zt_linear_after", args->n * target->M, &one, sizeof one);
}

/* Where addresses mean nothing, what it would choose is not asked. */
zt_status zt_cu_blas_linear(zt_cu_call *call, const zt_cu_linear_args *args, unsigned product_count, bool *done)
{
    const zt_cu_blas *blas = call->engine->blas;
    const bool asks = !call->sizing || call->persistent;
    lt_product products[ZT_CU_PRODUCTS] = {0};
    zt_status status = ZT_OK;
    *done = takes_product(call, args, product_count);
    if (!*done) return ZT_OK;
    for (unsigned i = 0; i < product_count && asks && *done && !status; i++) {
        status =
            zt_cu_blas_check(call->engine, describe_product(blas, args, &args->product[i], &products[i]), "LtMatmulDescCreate");
        *done = !status && choose_algorithm(blas, &products[i]);
    }
    for (unsigned i = 0; i < product_count && *done && !status; i++) {
        status = run_multiply(call, args, &args->product[i], &products[i]);
        if (!status) status = add_after(call, args, &args->product[i]);
    }
    for (unsigned i = 0; i < product_count; i++) free_product(blas, &products[i]);
    return status;
}
