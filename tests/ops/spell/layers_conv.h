/* layers_conv.h - how the ops of golden/layers are spelled in zt: convolutional layers. */
#ifndef ZT_SPELL_LAYERS_CONV_H
#define ZT_SPELL_LAYERS_CONV_H

#include "tests/ops/spell/windows.h"

/* "activation": linear is none. */
static int activated(const call *node, int x)
{
    if (word_is(node, "activation", "relu")) return zt_program_relu(node->p, NULL, x);
    if (word_is(node, "activation", "silu")) return zt_program_silu(node->p, NULL, x);
    if (word_is(node, "activation", "gelu")) return zt_program_gelu(node->p, NULL, x, NULL);
    if (word_is(node, "activation", "tanh")) return zt_program_tanh(node->p, NULL, x);
    if (word_is(node, "activation", "sigmoid")) return zt_program_sigmoid(node->p, NULL, x);
    return word_is(node, "activation", "linear") ? x : -1;
}

static int build_cnn(const call *node)
{
    windows w = torch_windows(node, "kernel");
    zt_conv_attrs a = {w.stride, w.pad, w.pad_end, w.dilation, int_or(node, "groups", 1)};
    int b = given(node, 2) ? node->in[2] : ZT_NONE;
    return activated(node, zt_program_conv(node->p, NULL, node->in[0], node->in[1], b, &a));
}

static int build_conv_transpose_layer(const call *node)
{
    windows window = torch_windows(node, "kernel");
    zt_conv_transpose_attrs a = {
        window.stride, window.pad, window.pad_end, window.dilation, list_of(node, "output_padding"), int_or(node, "groups", 1)};
    int b = given(node, 2) ? node->in[2] : ZT_NONE;
    return activated(node, zt_program_conv_transpose(node->p, NULL, node->in[0], node->in[1], b, ZT_NONE, &a));
}

static const spelling layers_conv_ops[] = {
    {"cnn1", .build = build_cnn},
    {"cnn2", .build = build_cnn},
    {"cnn3", .build = build_cnn},
    {"conv_transpose1", .build = build_conv_transpose_layer},
    {"conv_transpose2", .build = build_conv_transpose_layer},
    {"conv_transpose3", .build = build_conv_transpose_layer},
};

#endif
