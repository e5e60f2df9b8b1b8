/* onnx_conv.h - how the ops of golden/ops/onnx are spelled in zt: convolution and pooling. */
#ifndef ZT_SPELL_ONNX_CONV_H
#define ZT_SPELL_ONNX_CONV_H

#include "tests/ops/spell/windows.h"

/* ---- convolution ----------------------------------------------------------------------------- */

static int onnx_conv_of(const call *node, int x, int w, int b)
{
    windows win = onnx_windows(node, spatial(node, 0), node->type[0].dim + 2, node->type[w].dim + 2);
    zt_conv_attrs a = {win.stride, win.pad, win.pad_end, win.dilation, int_or(node, "group", 1)};
    return zt_program_conv(node->p, NULL, x, node->in[w], b, &a);
}

static int build_onnx_conv(const call *node)
{
    return onnx_conv_of(node, node->in[0], 1, given(node, 2) ? node->in[2] : ZT_NONE);
}

/* Half of a number rounded down, below 0 too. */
static int64_t half_down(int64_t a) { return a >= 0 ? a / 2 : -((1 - a) / 2); }

/* output_shape, or auto_pad's in * stride, says what pads there must be; below 0 they add. */
static int build_onnx_conv_transpose(const call *node)
{
    int count = spatial(node, 0);
    const int64_t *in = node->type[0].dim + 2, *kernel = node->type[1].dim + 2;
    bool upper = word_is(node, "auto_pad", "SAME_UPPER"), lower = word_is(node, "auto_pad", "SAME_LOWER");
    zt_ints want = list_of(node, "output_shape"), more = list_of(node, "output_padding");
    windows window = onnx_windows(node, count, in, kernel);
    if (want.n > count) /* with batch and channels */
        memmove(want.v, want.v + want.n - count, (size_t)count * sizeof want.v[0]);
    for (int d = 0; d < count && (want.n || upper || lower); d++) {
        int64_t y = want.n ? want.v[d] : in[d] * window.stride.v[d];
        int64_t all =
            window.stride.v[d] * (in[d] - 1) + (more.n ? more.v[d] : 0) + (kernel[d] - 1) * window.dilation.v[d] + 1 - y;
        window.pad.v[d] = upper ? half_down(all) : all - half_down(all);
        window.pad_end.v[d] = all - window.pad.v[d];
    }
    zt_conv_transpose_attrs a = {window.stride, window.pad, window.pad_end, window.dilation, more, int_or(node, "group", 1)};
    return zt_program_conv_transpose(node->p, NULL, node->in[0], node->in[1], given(node, 2) ? node->in[2] : ZT_NONE, ZT_NONE,
                                     &a);
}

static int conv_cast(const call *node, int x, const char *to)
{
    zt_cast_attrs a = zt_cast_defaults();
    memset(&a.to, 0, sizeof a.to);
    snprintf(a.to.s, sizeof a.to.s, "%s", to);
    return zt_program_cast(node->p, NULL, x, &a);
}

/* Input i in f64: one number, or one a channel along dimension `axis` of `rank`. */
static int per_channel(const call *node, int i, int rank, int axis)
{
    int64_t dim[ZT_MAX_RANK];
    for (int d = 0; d < rank; d++) dim[d] = d == axis ? count_of(node, i) : 1;
    return reshaped(node, conv_cast(node, node->in[i], "f64"), rank, dim);
}

/* Inputs x and w less their zero points, in f64, where their products are exact, and convolved. */
static int conv_integers(const call *node, int x0, int w, int w0)
{
    int x = conv_cast(node, node->in[0], "f64"), rank = node->type[0].rank;
    call with = *node;
    with.in[w] = conv_cast(node, node->in[w], "f64");
    if (given(node, x0)) x = zt_program_sub(node->p, NULL, x, per_channel(node, x0, rank, 0));
    if (given(node, w0)) with.in[w] = zt_program_sub(node->p, NULL, with.in[w], per_channel(node, w0, rank, 0));
    return onnx_conv_of(&with, x, w, ZT_NONE);
}

static int build_conv_integer(const call *node) { return conv_cast(node, conv_integers(node, 2, 1, 3), "i32"); }

/* x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b: round(y / scale + zero). */
static int build_qlinear_conv(const call *node)
{
    int rank = node->type[0].rank, y = conv_integers(node, 2, 3, 5);
    if (given(node, 8)) y = zt_program_add(node->p, NULL, y, per_channel(node, 8, rank, 1));
    int scale = zt_program_mul(node->p, NULL, per_channel(node, 1, rank, 1), per_channel(node, 4, rank, 1));
    scale = zt_program_div(node->p, NULL, scale, per_channel(node, 6, rank, 1));
    y = zt_program_mul(node->p, NULL, y, scale);
    if (given(node, 7)) y = zt_program_add(node->p, NULL, y, per_channel(node, 7, rank, 1));
    zt_dtype to = node->type[given(node, 7) ? 7 : 0].dtype;
    return conv_cast(node, zt_program_round(node->p, NULL, y), zt_dtype_get(to)->name);
}

/* Each channel by itself over what was before and what is now; the last k - 1 are the state. */
static int build_causal_conv(const call *node)
{
    const zt_type *x = &node->type[0];
    int64_t k = dim_of(node, 1, 2), dim[3] = {x->dim[0], x->dim[1], k - 1}, all = k - 1 + x->dim[2];
    char *zeros = calloc((size_t)(dim[0] * dim[1] * k) + 1, 8);
    int past = given(node, 3) ? node->in[3] : constant(node, x->dtype, 3, dim, zeros);
    free(zeros);
    zt_conv_attrs a = zt_conv_defaults();
    a.groups = x->dim[1];
    int line = zt_program_concat(node->p, NULL, past, node->in[0], ZT_NONE, ZT_NONE, ZT_NONE, &(zt_concat_attrs){2});
    int y = zt_program_conv(node->p, NULL, line, node->in[1], given(node, 2) ? node->in[2] : ZT_NONE, &a);
    bool silu = word_is(node, "activation", "silu") || word_is(node, "activation", "swish");
    node->more[0] = k > 1 ? zt_program_slice(node->p, NULL, line, &(zt_slice_attrs){2, all - k + 1, all}) : past;
    return silu ? zt_program_silu(node->p, NULL, y) : y;
}

/* ---- pooling --------------------------------------------------------------------------------- */

static windows onnx_pool(const call *node)
{
    zt_ints kernel = list_of(node, "kernel_shape");
    return onnx_windows(node, spatial(node, 0), node->type[0].dim + 2, kernel.v);
}

static int build_onnx_avg(const call *node)
{
    windows w = onnx_pool(node);
    zt_avg_pool_attrs a = {
        w.kernel, w.stride, w.pad, w.pad_end, w.dilation, int_or(node, "ceil_mode", 0), int_or(node, "count_include_pad", 0), 0};
    return zt_program_avg_pool(node->p, NULL, node->in[0], &a);
}

static int build_onnx_lp(const call *node)
{
    windows w = onnx_pool(node);
    zt_lp_pool_attrs a = {
        w.kernel, w.stride, w.pad, w.pad_end, w.dilation, int_or(node, "ceil_mode", 0), number_or(node, "p", 2)};
    return zt_program_lp_pool(node->p, NULL, node->in[0], &a);
}

static int64_t plane_size(const int64_t *dim, int n)
{
    int64_t size = 1;
    for (int d = 0; d < n; d++) size *= dim[d];
    return size;
}

/* Of an i64 value of x's batch and channels: how many elements lie before each plane of `size`. */
static int plane_offsets(const call *node, int64_t size)
{
    const zt_type *x = &node->type[0];
    int64_t planes = x->dim[0] * x->dim[1], dim[ZT_MAX_RANK] = {x->dim[0], x->dim[1]};
    int64_t *data = calloc((size_t)planes + 1, sizeof *data);
    for (int64_t i = 0; i < planes; i++) data[i] = i * size;
    for (int d = 2; d < x->rank; d++) dim[d] = 1;
    int v = constant(node, ZT_I64, x->rank, dim, data);
    free(data);
    return v;
}

static int whole(const call *node, int64_t number) { return constant(node, ZT_I64, 0, NULL, &number); }

/* An index of a plane counted with the first dimension fastest. */
static int column_order(const call *node, int i)
{
    zt_prog *program = node->p;
    const zt_type *x = &node->type[0];
    int at = -1;
    for (int d = x->rank - 1; d >= 2; d--) {
        int rest = zt_program_div(program, NULL, i, whole(node, x->dim[d]));
        int own = zt_program_sub(program, NULL, i, zt_program_mul(program, NULL, rest, whole(node, x->dim[d])));
        own = zt_program_mul(program, NULL, own, whole(node, plane_size(x->dim + 2, d - 2)));
        at = at < 0 ? own : zt_program_add(program, NULL, at, own);
        i = rest;
    }
    return at;
}

/* ONNX counts indices over the whole of x. */
static int build_onnx_max(const call *node)
{
    windows window = onnx_pool(node);
    zt_max_pool_attrs a = {window.kernel,  window.stride,   window.pad,
                           window.pad_end, window.dilation, int_or(node, "ceil_mode", 0)};
    int i, y = zt_program_max_pool(node->p, NULL, node->in[0], &a, &i);
    if (node->n_out < 2 || !node->out_dtype[1]) return y;
    i = conv_cast(node, i, "i64");
    if (int_or(node, "storage_order", 0)) i = column_order(node, i);
    int64_t size = plane_size(node->type[0].dim + 2, spatial(node, 0));
    node->more[0] = zt_program_add(node->p, NULL, i, plane_offsets(node, size));
    return y;
}

/* x lies in the corner of a larger value of zeros, one dimension after the other. */
static int in_corner(const call *node, int x, int count, const int64_t *from, const int64_t *to)
{
    int64_t dim[ZT_MAX_RANK];
    memcpy(dim, from, (size_t)count * sizeof dim[0]);
    for (int d = 0; d < count; d++) {
        if (from[d] == to[d]) continue;
        dim[d] = to[d];
        zt_type its_type = zt_type_make(node->type[0].dtype, count, dim);
        void *zeros = calloc(1, zt_type_bytes(&its_type) + 1);
        int like = constant(node, its_type.dtype, count, dim, zeros);
        free(zeros);
        x = zt_program_slice_put(node->p, NULL, x, like, &(zt_slice_put_attrs){d, 0, from[d]});
    }
    return x;
}

/* The indices count the value that windows of this kernel come from, before output_shape. */
static int build_onnx_unpool(const call *node)
{
    const zt_type *x = &node->type[0];
    int64_t dim[ZT_MAX_RANK] = {x->dim[0], x->dim[1]}, want[ZT_MAX_RANK];
    windows window = onnx_pool(node);
    for (int d = 2; d < x->rank; d++)
        dim[d] =
            (x->dim[d] - 1) * window.stride.v[d - 2] + window.kernel.v[d - 2] - window.pad.v[d - 2] - window.pad_end.v[d - 2];
    zt_type its_type = zt_type_make(x->dtype, x->rank, dim);
    void *zeros = calloc(1, zt_type_bytes(&its_type) + 1);
    int like = constant(node, its_type.dtype, its_type.rank, dim, zeros);
    free(zeros);
    int64_t size = plane_size(dim + 2, x->rank - 2);
    int i = zt_program_sub(node->p, NULL, node->in[1], plane_offsets(node, size));
    int y = zt_program_max_unpool(node->p, NULL, node->in[0], conv_cast(node, i, "i32"), like, NULL);
    if (input_ints(node, 2, want, ZT_MAX_RANK) != x->rank) return y;
    return in_corner(node, y, x->rank, dim, want);
}

static zt_ints spatial_axes(const call *node)
{
    zt_ints axes = {spatial(node, 0), {0}};
    for (int d = 0; d < axes.n; d++) axes.v[d] = 2 + d;
    return axes;
}

static int build_global_avg(const call *node)
{
    return zt_program_mean(node->p, NULL, node->in[0], &(zt_mean_attrs){spatial_axes(node), 1});
}

static int build_global_max(const call *node)
{
    return zt_program_amax(node->p, NULL, node->in[0], &(zt_amax_attrs){spatial_axes(node), 1});
}

static int build_global_lp(const call *node)
{
    zt_lp_pool_attrs a = zt_lp_pool_defaults();
    a.p = number_or(node, "p", 2);
    a.kernel.n = spatial(node, 0);
    memcpy(a.kernel.v, node->type[0].dim + 2, (size_t)a.kernel.n * sizeof a.kernel.v[0]);
    return zt_program_lp_pool(node->p, NULL, node->in[0], &a);
}

/* x / (bias + alpha / size * sum of squares over `size` channels)^beta: an average along channels,
 * which become a spatial dimension. */
static int build_lrn(const call *node)
{
    zt_prog *program = node->p;
    const zt_type *x = &node->type[0];
    int64_t size = int_or(node, "size", 1), rest = plane_size(x->dim + 2, x->rank - 2);
    int squares = reshaped(node, zt_program_square(program, NULL, node->in[0]), 4, (int64_t[]){x->dim[0], 1, x->dim[1], rest});
    zt_avg_pool_attrs a = {{2, {size, 1}}, {0}, {2, {(size - 1) / 2, 0}}, {2, {size / 2, 0}}, {0}, 0, 1, size};
    int y = reshaped(node, zt_program_avg_pool(program, NULL, squares, &a), x->rank, x->dim);
    y = zt_program_scale(program, NULL, y, &(zt_scale_attrs){number_or(node, "alpha", 1e-4)});
    y = zt_program_add_scalar(program, NULL, y, &(zt_add_scalar_attrs){number_or(node, "bias", 1)});
    y = zt_program_pow_scalar(program, NULL, y, &(zt_pow_scalar_attrs){-number_or(node, "beta", 0.75)});
    return zt_program_mul(program, NULL, node->in[0], y);
}

static const spelling onnx_conv_ops[] = {
    {"Conv", .build = build_onnx_conv},
    {"ConvTranspose", .build = build_onnx_conv_transpose},
    {"ConvInteger", .build = build_conv_integer},
    {"QLinearConv", .build = build_qlinear_conv},
    {"CausalConvWithState", .build = build_causal_conv},
    {"AveragePool", .build = build_onnx_avg},
    {"MaxPool", .build = build_onnx_max},
    {"LpPool", .build = build_onnx_lp},
    {"MaxUnpool", .build = build_onnx_unpool},
    {"GlobalAveragePool", .build = build_global_avg},
    {"GlobalMaxPool", .build = build_global_max},
    {"GlobalLpPool", .build = build_global_lp},
    {"LRN", .build = build_lrn},
};

#endif
