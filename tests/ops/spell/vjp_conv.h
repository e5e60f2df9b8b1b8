/* vjp_conv.h - how the ops of golden/ops/vjp are spelled in
 * zt: convolution and pooling, N-D, with padding. */
#ifndef ZT_SPELL_VJP_CONV_H
#define ZT_SPELL_VJP_CONV_H

#include "tests/ops/spell/windows.h"

static zt_conv_attrs vjp_conv_attrs(const call *c)
{
    windows w = torch_windows(c, "kernel");
    return (zt_conv_attrs){w.stride, w.pad, w.pad_end, w.dilation, int_or(c, "groups", 1)};
}

static zt_conv_transpose_attrs vjp_transpose_attrs(const call *c)
{
    windows w = torch_windows(c, "kernel");
    return (zt_conv_transpose_attrs){w.stride,   w.pad, w.pad_end, w.dilation,
                                     list_of(c, "output_padding"), int_or(c, "groups", 1)};
}

/* Inputs x, w, bias with a batch; S4's are kernel, bias, x without. */
static int build_vjp_conv2d(const call *c)
{
    zt_conv_attrs a = vjp_conv_attrs(c);
    return zt_program_conv(c->p, NULL, c->in[0], c->in[1], given(c, 2) ? c->in[2] : ZT_NONE, &a);
}

static int build_vjp_conv(const call *c)
{
    zt_conv_attrs a = vjp_conv_attrs(c);
    return without_batch(c, zt_program_conv(c->p, NULL, with_batch(c, 2), c->in[0], c->in[1], &a));
}

static int build_vjp_conv_transpose2d(const call *c)
{
    zt_conv_transpose_attrs a = vjp_transpose_attrs(c);
    return zt_program_conv_transpose(c->p, NULL, c->in[0], c->in[1],
                                  given(c, 2) ? c->in[2] : ZT_NONE, ZT_NONE, &a);
}

static int build_vjp_conv_transpose(const call *c)
{
    zt_conv_transpose_attrs a = vjp_transpose_attrs(c);
    return without_batch(c, zt_program_conv_transpose(c->p, NULL, with_batch(c, 2), c->in[0],
                                                   c->in[1], ZT_NONE, &a));
}

static int vjp_max(const call *c, int x, const windows *w)
{
    zt_max_pool_attrs a = {w->kernel, w->stride, w->pad, w->pad_end, w->dilation, 0};
    return zt_program_max_pool(c->p, NULL, x, &a, NULL);
}

static int vjp_avg(const call *c, int x, const windows *w, bool include)
{
    zt_avg_pool_attrs a = {w->kernel, w->stride, w->pad, w->pad_end, w->dilation, 0, include, 0};
    return zt_program_avg_pool(c->p, NULL, x, &a);
}

static int vjp_smooth(const call *c, int x, const windows *w, double pad)
{
    zt_smooth_max_pool_attrs a = {w->kernel, w->stride, w->pad, w->pad_end, w->dilation,
                                  0, number(c, "beta"), pad};
    return zt_program_smooth_max_pool(c->p, NULL, x, &a);
}

static int build_vjp_max_pool(const call *c)
{
    windows w = torch_windows(c, "kernel");
    return without_batch(c, vjp_max(c, with_batch(c, 0), &w));
}

static int build_vjp_avg_pool(const call *c)
{
    windows w = torch_windows(c, "kernel");
    return without_batch(c, vjp_avg(c, with_batch(c, 0), &w, int_or(c, "count_include_pad", 1)));
}

static int build_vjp_smooth_max_pool(const call *c)
{
    windows w = torch_windows(c, "kernel");
    return without_batch(c, vjp_smooth(c, with_batch(c, 0), &w, number(c, "pad_value")));
}

static int build_vjp_smooth_max_pool_excl(const call *c)
{
    windows w = torch_windows(c, "kernel");
    return without_batch(c, vjp_smooth(c, with_batch(c, 0), &w, -INFINITY));
}

static int build_vjp_pool2d_max(const call *c)
{
    windows w = torch_windows(c, "window");
    return vjp_max(c, c->in[0], &w);
}

static int build_vjp_pool2d_avg_incl(const call *c)
{
    windows w = torch_windows(c, "window");
    return vjp_avg(c, c->in[0], &w, true);
}

static int build_vjp_pool2d_avg_excl(const call *c)
{
    windows w = torch_windows(c, "window");
    return vjp_avg(c, c->in[0], &w, false);
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
