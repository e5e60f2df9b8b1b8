/* conv_pool.c - convolution and pooling: what they refuse, in which words, and values by hand. */
#include "tests/common/refusal.h"

#include <math.h>

/* ---- refusals -------------------------------------------------------------------------------- */

#define CONV(...)      (&(const zt_conv_attrs){__VA_ARGS__, .groups = 1})
#define TRANSPOSE(...) (&(const zt_conv_transpose_attrs){__VA_ARGS__, .groups = 1})

static void refusals_of_conv(void)
{
    const int64_t huge = (int64_t)1 << 31;
    // clang-format off
    const refusal list[] = {
        {ZT_OP_conv, NULL, ZT_ESHAPE, "has dtype i32", {"i32 1 2 5", "i32 3 2 3"}},
        {ZT_OP_conv, NULL, ZT_ESHAPE, "x has 2 dimensions: must have at least 3", {"f32 2 5", "f32 3 2"}},
        {ZT_OP_conv, NULL, ZT_ESHAPE, "w has dtype f16, but x has f32", {"f32 1 2 5", "f16 3 2 3"}},
        {ZT_OP_conv, NULL, ZT_ESHAPE, "w has 4 dimensions, but x has 3", {"f32 1 2 5", "f32 3 2 3 3"}},
        {ZT_OP_conv, NULL, ZT_ESHAPE, "w has 4 channels, but x has 2 in 1 groups",
         {"f32 1 2 5", "f32 3 4 3"}},
        {ZT_OP_conv, NULL, ZT_ESHAPE, "b has 2 elements, expected 3 (channels)",
         {"f32 1 2 5", "f32 3 2 3", "f32 2"}},
        {ZT_OP_conv, NULL, ZT_ESHAPE, "the kernel spans 3 along spatial dimension 1, but the "
         "padded x has 2", {"f32 1 2 5 2", "f32 3 2 3 3"}},
        {ZT_OP_conv, CONV(.dilation = {1, {3}}), ZT_ESHAPE, "the kernel spans 7",
         {"f32 1 2 5", "f32 3 2 3"}},
        {ZT_OP_conv, CONV(.pad = {1, {-2}}), ZT_ESHAPE, "the kernel spans 3 along spatial dimension 0, but the padded x has 1",
         {"f32 1 2 5", "f32 3 2 3"}},
        {ZT_OP_conv, NULL, ZT_ESHAPE, "invalid kernel size 0 along spatial dimension 0", {"f32 1 2 5", "f32 3 2 0"}},
        {ZT_OP_conv, CONV(.stride = {1, {0}}), ZT_EUSAGE, "stride 0", {"f32 1 2 5", "f32 3 2 3"}},
        {ZT_OP_conv, CONV(.dilation = {1, {-1}}), ZT_EUSAGE, "dilation -1",
         {"f32 1 2 5", "f32 3 2 3"}},
        {ZT_OP_conv, CONV(.pad = {1, {huge}}), ZT_EUSAGE, "pad 2147483648",
         {"f32 1 2 5", "f32 3 2 3"}},
        {ZT_OP_conv, CONV(.pad_end = {2, {1, 1}}), ZT_ESHAPE,
         "pad_end has 2 numbers, expected 1 (spatial dimensions)", {"f32 1 2 5", "f32 3 2 3"}},
        {ZT_OP_conv, &(const zt_conv_attrs){.groups = 2}, ZT_ESHAPE,
         "3 channels are not divisible into 2 groups", {"f32 1 2 5", "f32 3 1 3"}},
        {ZT_OP_conv, &(const zt_conv_attrs){.groups = 0}, ZT_EUSAGE, "groups is 0",
         {"f32 1 2 5", "f32 3 2 3"}},
        {ZT_OP_conv, NULL, ZT_ESHAPE, "too large",
         {"f32 0 2 2305843009213693952", "f32 3 2 3"}},
        {ZT_OP_conv_transpose, NULL, ZT_ESHAPE, "w has 3 filters, but x has 2 channels",
         {"f32 1 2 5", "f32 3 2 3"}},
        {ZT_OP_conv_transpose, &(const zt_conv_transpose_attrs){.groups = INT64_MAX}, ZT_EUSAGE,
         "groups is", {"f32 1 2 5", "f32 2 3 3"}},
        {ZT_OP_conv_transpose, TRANSPOSE(.pad = {1, {4}}), ZT_ESHAPE, "y would have -1 elements",
         {"f32 1 2 5", "f32 2 2 3"}},
        {ZT_OP_conv_transpose, TRANSPOSE(.output_padding = {1, {-1}}), ZT_EUSAGE,
         "output_padding -1", {"f32 1 2 5", "f32 2 2 3"}},
        {ZT_OP_conv_transpose, NULL, ZT_ESHAPE, "x is empty along spatial dimension 0",
         {"f32 1 2 0", "f32 2 2 3"}},
        {ZT_OP_conv_transpose, NULL, ZT_ESHAPE, "conv does not map the dimensions of like to those of x",
         {"f32 1 2 5", "f32 2 2 3", NULL, "f32 1 2 8"}},
        {ZT_OP_conv_transpose, NULL, ZT_ESHAPE, "like does not have y's rank, batch and channels",
         {"f32 1 2 5", "f32 2 2 3", NULL, "f32 1 3 7"}},
        {ZT_OP_conv_transpose, TRANSPOSE(.output_padding = {1, {1}}), ZT_EUSAGE, "output_padding and like exclude each other",
         {"f32 1 2 5", "f32 2 2 3", NULL, "f32 1 2 7"}},
        {ZT_OP_conv_backward_filter, NULL, ZT_ESHAPE, "dy does not have the shape of conv's y",
         {"f32 1 2 5", "f32 1 3 4", "f32 3 2 3"}},
        {ZT_OP_conv_backward_filter, NULL, ZT_ESHAPE, "like has 2 dimensions, but x has 3",
         {"f32 1 2 5", "f32 1 3 4", "f32 3 2"}},
    };
    // clang-format on
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) op_refused(&list[i]);
}

#define POOL(op, ...) (&(const zt_##op##_attrs){.kernel = {2, {2, 2}}, __VA_ARGS__})

static void refusals_of_pools(void)
{
    // clang-format off
    const refusal list[] = {
        {ZT_OP_max_pool, NULL, ZT_ESHAPE, "kernel has 0 numbers, expected 2 (spatial dimensions)", {"f32 1 2 5 5"}},
        {ZT_OP_max_pool, POOL(max_pool, .ceil_mode = 0), ZT_ESHAPE,
         "kernel has 2 numbers, expected 1 (spatial dimensions)", {"f32 1 2 5"}},
        {ZT_OP_max_pool, POOL(max_pool, .ceil_mode = 0), ZT_ESHAPE, "x has 2 dimensions",
         {"f32 1 2"}},
        {ZT_OP_max_pool, POOL(max_pool, .ceil_mode = 0), ZT_ESHAPE, "block type",
         {"q8_0 1 2 32 32"}},
        {ZT_OP_max_pool, POOL(max_pool, .ceil_mode = 1), ZT_ESHAPE, "the kernel spans 2 along "
         "spatial dimension 0, but the padded x has 1", {"f32 1 2 1 5"}},
        {ZT_OP_max_pool, POOL(max_pool, .stride = {2, {1, 0}}), ZT_EUSAGE, "stride 0",
         {"f32 1 2 5 5"}},
        {ZT_OP_max_pool, POOL(max_pool, .ceil_mode = 0), ZT_ESHAPE, "a plane has too many elements for i32 indices",
         {"f32 1 0 65536 65536"}},
        {ZT_OP_max_unpool, NULL, ZT_ESHAPE, "i has type i64, expected i32", {"f32 1 2 3", "i64 1 2 3", "f32 1 2 6"}},
        {ZT_OP_max_unpool, NULL, ZT_ESHAPE, "i must have the shape of x",
         {"f32 1 2 3", "i32 1 2 4", "f32 1 2 6"}},
        {ZT_OP_max_unpool, NULL, ZT_ESHAPE, "i must have the batch and channels of the tensor it indexes",
         {"f32 1 2 3", "i32 1 2 3", "f32 1 3 6"}},
        {ZT_OP_max_unpool, &(const zt_max_unpool_attrs){{"wrap"}}, ZT_EUSAGE, "oob is 'wrap'",
         {"f32 1 2 3", "i32 1 2 3", "f32 1 2 6"}},
        {ZT_OP_plane_gather, NULL, ZT_ESHAPE, "must have at least 3 dimensions", {"f32 2 3", "i32 2 3"}},
        {ZT_OP_avg_pool, POOL(avg_pool, .divisor_override = -1), ZT_EUSAGE,
         "divisor_override is -1: must be nonnegative", {"f32 1 2 5 5"}},
        {ZT_OP_avg_pool, POOL(avg_pool, .ceil_mode = 0), ZT_ESHAPE, "has dtype i32", {"i32 1 2 5 5"}},
        {ZT_OP_avg_unpool, POOL(avg_unpool, .ceil_mode = 0), ZT_ESHAPE,
         "x does not have the output shape of the pooling", {"f32 1 2 5 5", "f32 1 2 5 5"}},
        {ZT_OP_lp_pool, POOL(lp_pool, .p = 0), ZT_EUSAGE, "p is 0", {"f32 1 2 5 5"}},
        {ZT_OP_smooth_max_pool, POOL(smooth_max_pool, .beta = 0), ZT_EUSAGE, "beta is 0",
         {"f32 1 2 5 5"}},
        {ZT_OP_smooth_max_unpool, POOL(smooth_max_unpool, .beta = 1), ZT_ESHAPE, "x and y have different dtypes",
         {"f32 1 2 5 5", "f16 1 2 4 4", "f16 1 2 4 4"}},
        {ZT_OP_smooth_max_unpool, POOL(smooth_max_unpool, .beta = 1), ZT_ESHAPE,
         "y and v have different shapes or dtypes", {"f32 1 2 5 5", "f32 1 2 4 4", "f32 1 2 5 5"}},
        {ZT_OP_smooth_max_mean, POOL(smooth_max_mean, .beta = 1), ZT_ESHAPE,
         "x and v have different shapes or dtypes", {"f32 1 2 5 5", "f32 1 2 4 4", "f32 1 2 4 4"}},
    };
    // clang-format on
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) op_refused(&list[i]);
}

/* ---- values by hand -------------------------------------------------------------------------- */

/* Of four numbers, windows of two with a last that is not whole, and one of padding alone. */
static void values_of_max(void)
{
    zt_type x = zt_type_make(ZT_F32, 3, (int64_t[]){1, 1, 4}), y, out[ZT_MAX_OUT];
    const zt_type *in[ZT_MAX_IN] = {&x};
    double v[4] = {3, 3, 1, NAN}, top[4];
    int64_t at[4];
    zt_max_pool_attrs a = {.kernel = {1, {2}}, .stride = {1, {2}}, .pad = {1, {2}}, .pad_end = {1, {1}}, .ceil_mode = 1};
    ok(zt_op_infer(NULL, ZT_OP_max_pool, &a, in, out) == ZT_OK && out[0].dim[2] == 3,
       "a window that starts in the padding after x is none");
    y = out[0];
    zt_arg args[1] = {{&x, v, NULL}}, results[2] = {{&y, top, NULL}, {&out[1], NULL, at}};
    zt_runtime_error t = {0};
    zt_op_info(ZT_OP_max_pool)->def->ref(&a, args, results, &t);
    ok(top[0] == -INFINITY && at[0] == -1, "padding alone is -inf, of no index");
    ok(top[1] == 3 && at[1] == 0, "the first of equals");
    ok(isnan(top[2]) && at[2] == 3, "a NaN is above all");
}

int main(void)
{
    refusals_of_conv();
    refusals_of_pools();
    values_of_max();
    return tap_done();
}
