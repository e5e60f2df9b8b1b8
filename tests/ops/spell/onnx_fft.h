/* onnx_fft.h - how the ops of golden/ops/onnx are spelled in zt: DFT, STFT. */
#ifndef ZT_SPELL_ONNX_FFT_H
#define ZT_SPELL_ONNX_FFT_H

#include "tests/ops/spell/cells.h"

/* [...,1] or [...,2] as pairs. */
static int complex_of(const call *node, int x, const zt_type *t)
{
    if (t->dim[t->rank - 1] == 2) return x;
    int zero = zt_program_fill_like(node->p, NULL, x, &(zt_fill_like_attrs){0});
    return joined(node, (const int[]){x, zero}, 2, t->rank - 1);
}

/* Axis `axis` goes to where the last but one is, and back: both are the same exchange. */
static int exchanged(const call *node, int x, int rank, int64_t axis)
{
    zt_transpose_attrs a = {{rank, {0}}};
    for (int d = 0; d < rank; d++) a.axes.v[d] = d;
    a.axes.v[axis] = rank - 2;
    a.axes.v[rank - 2] = axis;
    return zt_program_transpose(node->p, NULL, x, &a);
}

/* Half a spectrum to real numbers [...,count,1]. */
static int real_of_half(const call *node, int64_t axis, int64_t count)
{
    zt_irfft_attrs a = zt_irfft_defaults();
    zt_type its_type = node->type[0];
    int x = zt_program_slice(node->p, NULL, node->in[0], &(zt_slice_attrs){.axis = axis, .from = 0, .to = count / 2 + 1});
    a.n = count;
    int y = zt_program_irfft(node->p, NULL, exchanged(node, x, its_type.rank, axis), &a);
    its_type.dim[axis] = its_type.dim[its_type.rank - 2];
    its_type.dim[its_type.rank - 2] = count;
    its_type.dim[its_type.rank - 1] = 1;
    return exchanged(node, reshaped(node, y, its_type.rank, its_type.dim), its_type.rank, axis);
}

/* axis: an input since opset 20, an attribute before. */
static int build_dft(const call *node)
{
    const zt_type *its_type = &node->type[0];
    int64_t axis = int_or(node, "axis", -2);
    if (given(node, 2)) axis = (int64_t)value_of(node, 2, 0);
    if (axis < 0) axis += its_type->rank;
    bool inverse = int_or(node, "inverse", 0), half = int_or(node, "onesided", 0);
    int64_t count = given(node, 1) ? (int64_t)value_of(node, 1, 0) : 0;
    if (inverse && half) return real_of_half(node, axis, count ? count : 2 * (its_type->dim[axis] - 1));
    zt_dft_attrs a = zt_dft_defaults();
    a.axis = axis;
    a.inverse = inverse;
    a.length = count;
    int y = zt_program_dft(node->p, NULL, complex_of(node, node->in[0], its_type), &a);
    return half ? sliced(node, y, axis, 0, (count ? count : its_type->dim[axis]) / 2 + 1) : y;
}

/* signal [B,L,1|2] as frames [B,F,W,1|2]: rows of a transposed signal, gathered. */
static int frames_of(const call *node, int64_t step, int64_t F, int64_t W)
{
    int64_t B = dim_of(node, 0, 0), L = dim_of(node, 0, 1), C = dim_of(node, 0, 2), n = F * W;
    int32_t *index = calloc((size_t)n + 1, sizeof *index);
    for (int64_t i = 0; i < n; i++) index[i] = (int32_t)(i / W * step + i % W);
    int at = constant(node, ZT_I32, 1, &n, index);
    free(index);
    int x = reshaped(node, swapped(node, node->in[0]), 2, (int64_t[]){L, B * C});
    x = reshaped(node, zt_program_gather(node->p, NULL, x, at, NULL), 3, (int64_t[]){n, B, C});
    return reshaped(node, swapped(node, x), 4, (int64_t[]){B, F, W, C});
}

static int build_stft(const call *node)
{
    int64_t step = (int64_t)value_of(node, 1, 0), L = dim_of(node, 0, 1);
    int64_t W = given(node, 3) ? (int64_t)value_of(node, 3, 0) : dim_of(node, 2, 0), F = 1 + (L - W) / step;
    int x = frames_of(node, step, F, W);
    if (given(node, 2)) x = zt_program_mul(node->p, NULL, x, reshaped(node, node->in[2], 2, (int64_t[]){W, 1}));
    zt_type its_type = zt_type_make(node->type[0].dtype, 4, (int64_t[]){0, F, W, dim_of(node, 0, 2)});
    int y = zt_program_dft(node->p, NULL, complex_of(node, x, &its_type), NULL);
    return int_or(node, "onesided", 1) ? sliced(node, y, 2, 0, W / 2 + 1) : y;
}

static const spelling onnx_fft_ops[] = {
    {"DFT", .build = build_dft, .sums = true},
    {"STFT", .build = build_stft, .sums = true},
};

#endif
