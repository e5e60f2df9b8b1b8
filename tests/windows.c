/* windows.c - convolution and pooling: what they refuse, in which words, and values by hand. */
#include "tests/refusal.h"

/* ---- refusals -------------------------------------------------------------------------------- */

#define CONV(...)      (&(const zt_conv_attrs){__VA_ARGS__, .groups = 1})
#define TRANSPOSE(...) (&(const zt_conv_transpose_attrs){__VA_ARGS__, .groups = 1})

static void refusals_of_conv(void)
{
    const int64_t huge = (int64_t)1 << 31;
    const refusal list[] = {
        {ZT_OP_conv, NULL, ZT_ESHAPE, "x is i32", {"i32 1 2 5", "i32 3 2 3"}},
        {ZT_OP_conv, NULL, ZT_ESHAPE, "x has 2 dimensions, at least 3", {"f32 2 5", "f32 3 2"}},
        {ZT_OP_conv, NULL, ZT_ESHAPE, "w is f16, x f32", {"f32 1 2 5", "f16 3 2 3"}},
        {ZT_OP_conv, NULL, ZT_ESHAPE, "w has 4 dimensions, x 3", {"f32 1 2 5", "f32 3 2 3 3"}},
        {ZT_OP_conv, NULL, ZT_ESHAPE, "w has 4 channels, x 2 in 1 groups",
         {"f32 1 2 5", "f32 3 4 3"}},
        {ZT_OP_conv, NULL, ZT_ESHAPE, "b has 2 elements for 3 channels",
         {"f32 1 2 5", "f32 3 2 3", "f32 2"}},
        {ZT_OP_conv, NULL, ZT_ESHAPE, "the kernel spans 3 along spatial dimension 1, x with its "
         "padding 2", {"f32 1 2 5 2", "f32 3 2 3 3"}},
        {ZT_OP_conv, CONV(.dilation = {1, {3}}), ZT_ESHAPE, "the kernel spans 7",
         {"f32 1 2 5", "f32 3 2 3"}},
        {ZT_OP_conv, CONV(.pad = {1, {-2}}), ZT_ESHAPE, "with its padding 1",
         {"f32 1 2 5", "f32 3 2 3"}},
        {ZT_OP_conv, NULL, ZT_ESHAPE, "a kernel of 0 along", {"f32 1 2 5", "f32 3 2 0"}},
        {ZT_OP_conv, CONV(.stride = {1, {0}}), ZT_EUSAGE, "stride 0", {"f32 1 2 5", "f32 3 2 3"}},
        {ZT_OP_conv, CONV(.dilation = {1, {-1}}), ZT_EUSAGE, "dilation -1",
         {"f32 1 2 5", "f32 3 2 3"}},
        {ZT_OP_conv, CONV(.pad = {1, {huge}}), ZT_EUSAGE, "pad 2147483648",
         {"f32 1 2 5", "f32 3 2 3"}},
        {ZT_OP_conv, CONV(.pad_end = {2, {1, 1}}), ZT_ESHAPE,
         "pad_end has 2 numbers for 1 spatial dimensions", {"f32 1 2 5", "f32 3 2 3"}},
        {ZT_OP_conv, &(const zt_conv_attrs){.groups = 2}, ZT_ESHAPE, "3 channels are not 2 equal groups",
         {"f32 1 2 5", "f32 3 1 3"}},
        {ZT_OP_conv, &(const zt_conv_attrs){.groups = 0}, ZT_EUSAGE, "groups is 0",
         {"f32 1 2 5", "f32 3 2 3"}},
        {ZT_OP_conv, NULL, ZT_ESHAPE, "too large",
         {"f32 0 2 2305843009213693952", "f32 3 2 3"}},
        {ZT_OP_conv_transpose, NULL, ZT_ESHAPE, "w has 3 filters, x 2 channels",
         {"f32 1 2 5", "f32 3 2 3"}},
        {ZT_OP_conv_transpose, &(const zt_conv_transpose_attrs){.groups = INT64_MAX}, ZT_EUSAGE, "groups is",
         {"f32 1 2 5", "f32 2 3 3"}},
        {ZT_OP_conv_transpose, TRANSPOSE(.pad = {1, {4}}), ZT_ESHAPE, "y would have -1 elements",
         {"f32 1 2 5", "f32 2 2 3"}},
        {ZT_OP_conv_transpose, TRANSPOSE(.output_padding = {1, {-1}}), ZT_EUSAGE,
         "output_padding -1", {"f32 1 2 5", "f32 2 2 3"}},
        {ZT_OP_conv_transpose, NULL, ZT_ESHAPE, "x has nothing along spatial dimension 0",
         {"f32 1 2 0", "f32 2 2 3"}},
        {ZT_OP_conv_transpose, NULL, ZT_ESHAPE, "like is not what conv brings to x",
         {"f32 1 2 5", "f32 2 2 3", NULL, "f32 1 2 8"}},
        {ZT_OP_conv_transpose, NULL, ZT_ESHAPE, "like has not y's",
         {"f32 1 2 5", "f32 2 2 3", NULL, "f32 1 3 7"}},
        {ZT_OP_conv_transpose, TRANSPOSE(.output_padding = {1, {1}}), ZT_EUSAGE, "both say",
         {"f32 1 2 5", "f32 2 2 3", NULL, "f32 1 2 7"}},
        {ZT_OP_conv_backward_filter, NULL, ZT_ESHAPE, "dy is not of the shape of conv's y",
         {"f32 1 2 5", "f32 1 3 4", "f32 3 2 3"}},
        {ZT_OP_conv_backward_filter, NULL, ZT_ESHAPE, "like has 2 dimensions, x 3",
         {"f32 1 2 5", "f32 1 3 4", "f32 3 2"}},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) refused(&list[i]);
}

int main(void)
{
    refusals_of_conv();
    return tap_done();
}
