/* windows.h - what the spellings of convolution and pooling share: lists a spatial dimension,
 * ONNX's pads, and S4's form without a batch. */
#ifndef ZT_SPELL_WINDOWS_H
#define ZT_SPELL_WINDOWS_H

#include "tests/ops/spell/spell.h"

/* Spatial dimensions of input i, which has a batch. */
SPELL_FN int spatial(const call *node, int i) { return node->type[i].rank - 2; }

/* A list attribute, or none. */
SPELL_FN zt_ints list_of(const call *node, const char *name)
{
    zt_ints l = {0, {0}};
    int n = attr_ints(node, name, l.v, ZT_MAX_RANK);
    l.n = n < 0 ? 0 : n;
    return l;
}

/* All attributes of windows, with nothing left to a default. */
typedef struct windows {
    zt_ints kernel, stride, pad, pad_end, dilation;
} windows;

/* PyTorch's and S4's: "padding" or "pad" on both sides, or "pads" before and after. */
SPELL_FN windows torch_windows(const call *node, const char *kernel)
{
    windows w = {list_of(node, kernel), list_of(node, "stride"), list_of(node, "padding"), {0, {0}}, list_of(node, "dilation")};
    int64_t pads[2 * ZT_MAX_RANK];
    int n = attr_ints(node, "pads", pads, 2 * ZT_MAX_RANK) / 2;
    if (!w.pad.n) w.pad = list_of(node, "pad");
    if (n < 1) return w;
    w.pad.n = w.pad_end.n = n;
    for (int d = 0; d < n; d++) {
        w.pad.v[d] = pads[d];
        w.pad_end.v[d] = pads[n + d];
    }
    return w;
}

/* Of n dimensions: strides, dilations, pads or auto_pad by the input's dimensions. */
SPELL_FN windows onnx_windows(const call *node, int n, const int64_t *in, const int64_t *kernel)
{
    windows w = {{n, {0}}, {n, {0}}, {n, {0}}, {n, {0}}, {n, {0}}};
    int64_t pads[2 * ZT_MAX_RANK] = {0}, stride[ZT_MAX_RANK], dilation[ZT_MAX_RANK];
    bool upper = word_is(node, "auto_pad", "SAME_UPPER"), lower = word_is(node, "auto_pad", "SAME_LOWER");
    bool strides = attr_ints(node, "strides", stride, ZT_MAX_RANK) > 0;
    bool dilations = attr_ints(node, "dilations", dilation, ZT_MAX_RANK) > 0;
    attr_ints(node, "pads", pads, 2 * ZT_MAX_RANK);
    for (int d = 0; d < n; d++) {
        w.kernel.v[d] = kernel[d];
        w.stride.v[d] = strides ? stride[d] : 1;
        w.dilation.v[d] = dilations ? dilation[d] : 1;
        w.pad.v[d] = pads[d];
        w.pad_end.v[d] = pads[n + d];
        if (word_is(node, "auto_pad", "VALID")) w.pad.v[d] = w.pad_end.v[d] = 0;
        if (!upper && !lower) continue;
        int64_t out = (in[d] + w.stride.v[d] - 1) / w.stride.v[d];
        int64_t all = (out - 1) * w.stride.v[d] + (kernel[d] - 1) * w.dilation.v[d] + 1 - in[d];
        if (all < 0) all = 0;
        w.pad.v[d] = upper ? all / 2 : all - all / 2;
        w.pad_end.v[d] = all - w.pad.v[d];
    }
    return w;
}

/* x [C,...] as [1,C,...]; and back, by a sum over the one, for y's other dimensions are unknown. */
SPELL_FN int with_batch(const call *node, int i)
{
    int64_t dim[ZT_MAX_RANK] = {1};
    memcpy(dim + 1, node->type[i].dim, (size_t)node->type[i].rank * sizeof dim[0]);
    return reshaped(node, node->in[i], node->type[i].rank + 1, dim);
}

SPELL_FN int without_batch(const call *node, int y) { return zt_program_sum(node->p, NULL, y, &(zt_sum_attrs){{1, {0}}, 0}); }

#endif
