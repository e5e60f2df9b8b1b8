/* vjp_conv.h - how the ops of golden/ops/vjp are spelled in
 * zt: convolution and pooling, N-D, with padding. */
#ifndef ZT_SPELL_VJP_CONV_H
#define ZT_SPELL_VJP_CONV_H

#include "tests/ops/spell/windows.h"

static zt_conv_attrs vjp_conv_attrs(const call *node)
{
    windows w = torch_windows(node, "kernel");
    return (zt_conv_attrs){w.stride, w.pad, w.pad_end, w.dilation, int_or(node, "groups", 1)};
}

static zt_conv_transpose_attrs vjp_transpose_attrs(const call *node)
{
    windows w = torch_windows(node, "kernel");
    return (zt_conv_transpose_attrs){
        w.stride, w.pad, w.pad_end, w.dilation, list_of(node, "output_padding"), int_or(node, "groups", 1)};
}

/* Inputs x, w, bias with a batch; S4's are kernel, bias, x without. */
static int build_vjp_conv2d(const call *node)
{
    zt_conv_attrs a = vjp_conv_attrs(node);
    return zt_program_conv(node->p, NULL, node->in[0], node->in[1], given(node, 2) ? node->in[2] : ZT_NONE, &a);
}

static int build_vjp_conv(const call *node)
{
    zt_conv_attrs a = vjp_conv_attrs(node);
    return without_batch(node, zt_program_conv(node->p, NULL, with_batch(node, 2), node->in[0], node->in[1], &a));
}

static int build_vjp_conv_transpose2d(const call *node)
{
    zt_conv_transpose_attrs a = vjp_transpose_attrs(node);
    return zt_program_conv_transpose(node->p, NULL, node->in[0], node->in[1], given(node, 2) ? node->in[2] : ZT_NONE, ZT_NONE,
                                     &a);
}

static int build_vjp_conv_transpose(const call *node)
{
    zt_conv_transpose_attrs a = vjp_transpose_attrs(node);
    return without_batch(node,
                         zt_program_conv_transpose(node->p, NULL, with_batch(node, 2), node->in[0], node->in[1], ZT_NONE, &a));
}

static int vjp_max(const call *node, int x, const windows *w)
{
    zt_max_pool_attrs a = {w->kernel, w->stride, w->pad, w->pad_end, w->dilation, 0};
    return zt_program_max_pool(node->p, NULL, x, &a, NULL);
}

static int vjp_avg(const call *node, int x, const windows *w, bool include)
{
    zt_avg_pool_attrs a = {w->kernel, w->stride, w->pad, w->pad_end, w->dilation, 0, include, 0};
    return zt_program_avg_pool(node->p, NULL, x, &a);
}

static int vjp_smooth(const call *node, int x, const windows *w, double pad)
{
    zt_smooth_max_pool_attrs a = {w->kernel, w->stride, w->pad, w->pad_end, w->dilation, 0, number(node, "beta"), pad};
    return zt_program_smooth_max_pool(node->p, NULL, x, &a);
}

static int build_vjp_max_pool(const call *node)
{
    windows w = torch_windows(node, "kernel");
    return without_batch(node, vjp_max(node, with_batch(node, 0), &w));
}

static int build_vjp_avg_pool(const call *node)
{
    windows w = torch_windows(node, "kernel");
    return without_batch(node, vjp_avg(node, with_batch(node, 0), &w, int_or(node, "count_include_pad", 1)));
}

static int build_vjp_smooth_max_pool(const call *node)
{
    windows w = torch_windows(node, "kernel");
    return without_batch(node, vjp_smooth(node, with_batch(node, 0), &w, number(node, "pad_value")));
}

static int build_vjp_smooth_max_pool_excl(const call *node)
{
    windows w = torch_windows(node, "kernel");
    return without_batch(node, vjp_smooth(node, with_batch(node, 0), &w, -INFINITY));
}

static int build_vjp_pool2d_max(const call *node)
{
    windows w = torch_windows(node, "window");
    return vjp_max(node, node->in[0], &w);
}

static int build_vjp_pool2d_avg_incl(const call *node)
{
    windows w = torch_windows(node, "window");
    return vjp_avg(node, node->in[0], &w, true);
}

static int build_vjp_pool2d_avg_excl(const call *node)
{
    windows w = torch_windows(node, "window");
    return vjp_avg(node, node->in[0], &w, false);
}

static const spelling vjp_conv_ops[] = {
    {"conv2d", .build = build_vjp_conv2d},
    {"conv2d_asym", .build = build_vjp_conv2d},
    {"conv", .build = build_vjp_conv},
    {"conv_transpose", .build = build_vjp_conv_transpose},
    {"conv_transpose2d", .build = build_vjp_conv_transpose2d},
    {"max_pool", .build = build_vjp_max_pool},
    {"avg_pool", .build = build_vjp_avg_pool},
    {"smooth_max_pool", .build = build_vjp_smooth_max_pool},
    {"smooth_max_pool_excl", .build = build_vjp_smooth_max_pool_excl},
    {"pool2d_max", .build = build_vjp_pool2d_max},
    {"pool2d_avg_incl", .build = build_vjp_pool2d_avg_incl},
    {"pool2d_avg_excl", .build = build_vjp_pool2d_avg_excl},
};

#endif
