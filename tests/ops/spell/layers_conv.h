/* layers_conv.h - how the ops of golden/layers are spelled in zt: convolutional layers. */
#ifndef ZT_SPELL_LAYERS_CONV_H
#define ZT_SPELL_LAYERS_CONV_H

#include "tests/ops/spell/windows.h"

/* "activation": linear is none. */
static int activated(const call *c, int x)
{
    if (word_is(c, "activation", "relu")) return zt_program_relu(c->p, NULL, x);
    if (word_is(c, "activation", "silu")) return zt_program_silu(c->p, NULL, x);
    if (word_is(c, "activation", "gelu")) return zt_program_gelu(c->p, NULL, x, NULL);
    if (word_is(c, "activation", "tanh")) return zt_program_tanh(c->p, NULL, x);
    if (word_is(c, "activation", "sigmoid")) return zt_program_sigmoid(c->p, NULL, x);
    return word_is(c, "activation", "linear") ? x : -1;
}

static int build_cnn(const call *c)
{
    windows w = torch_windows(c, "kernel");
    zt_conv_attrs a = {w.stride, w.pad, w.pad_end, w.dilation, int_or(c, "groups", 1)};
    int b = given(c, 2) ? c->in[2] : ZT_NONE;
    return activated(c, zt_program_conv(c->p, NULL, c->in[0], c->in[1], b, &a));
}

static int build_conv_transpose_layer(const call *c)
{
    windows window = torch_windows(c, "kernel");
    zt_conv_transpose_attrs a = {window.stride, window.pad, window.pad_end, window.dilation,
                                 list_of(c, "output_padding"), int_or(c, "groups", 1)};
    int b = given(c, 2) ? c->in[2] : ZT_NONE;
    return activated(
        c, zt_program_conv_transpose(c->p, NULL, c->in[0], c->in[1], b, ZT_NONE, &a));
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
