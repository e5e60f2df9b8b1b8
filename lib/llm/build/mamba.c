/* mamba.c - the builder of short convolutions (LFM2), and of state-space layers: of Mamba (Gu and Dao, 2023) and of
 * Mamba 2 (Dao and Gu, 2024).
 *
 *   short convolution   b, c, u = x in^T                   result = c * causal convolution of (b * u)
 *
 *   Mamba               u, z = x in^T                      u = silu(causal convolution of u)
 *                       r, b, c = u w^T                    dt = softplus(r dt^T + bias)
 *   Mamba 2             z, u, b, c, r = x in^T             u, b, c = silu(causal convolution of these)
 *                                                          dt = softplus(r + bias)
 *   both                y = selective scan of u by dt, A, b, c and D
 *                       result = y silu(z), in Mamba 2 with a norm of each group
 */
#include "lib/llm/build/internal.h"

#include <inttypes.h>
#include <stdio.h>

/* Of the norms on the steps, b and c in Mamba: mixer_rms_eps of falcon_mamba, for which GGUF has no key. */
#define STEP_EPSILON 1e-6

static int columns_of(zt_program_builder *builder, const char *what, int x, int64_t from, int64_t to)
{
    return zt_program_slice(builder->program, zt_layer_label(builder, what), x,
                            &(zt_slice_attrs){.axis = 1, .from = from, .to = to});
}

int zt_emit_short_conv(zt_program_builder *builder, int x)
{
    zt_prog *program = builder->program;
    const int64_t width = builder->hyper->width;
    int all = zt_layer_linear(builder, "zi", x, ZT_W_SHORT_IN, ZT_WEIGHT_COUNT);
    int b = columns_of(builder, "zb", all, 0, width), c = columns_of(builder, "zc", all, width, 2 * width);
    int u = columns_of(builder, "zu", all, 2 * width, 3 * width);
    u = zt_program_mul(program, zt_layer_label(builder, "zg"), b, u);
    u = zt_layer_causal_conv(builder, "zy", "cs", u, ZT_W_SHORT_CONV, ZT_WEIGHT_COUNT, false);
    return zt_program_mul(program, zt_layer_label(builder, "zr"), c, u);
}

/* ---- the scan -------------------------------------------------------------------------------- */

typedef struct scan {
    int u, dt, b, c;
    zt_weight a, d;
} scan;

/* A weight in f32, which the op reads: that is how converters write them, but a file may say otherwise. */
static int scan_weight(zt_program_builder *builder, const char *what, zt_weight weight)
{
    int data = zt_weight_data(builder, weight);
    if (data < 0 || zt_prog_value(builder->program, data)->type.dtype == ZT_F32) return data;
    return zt_program_cast(builder->program, zt_layer_label(builder, what), data, &(zt_cast_attrs){.to.s = "f32"});
}

/* D with one entry for each head, which a file may hold as a column. */
static int skip_weights(zt_program_builder *builder, zt_weight weight)
{
    int data = scan_weight(builder, "xdf", weight);
    if (data < 0 || zt_prog_value(builder->program, data)->type.rank == 1) return data;
    zt_reshape_attrs vector = {.shape = {1, {builder->hyper->mamba.heads}}};
    return zt_program_reshape(builder->program, zt_layer_label(builder, "xdv"), data, &vector);
}

static int emit_scan(zt_program_builder *builder, const scan *of)
{
    const zt_mamba_sizes *sizes = &builder->hyper->mamba;
    char names[2][24];
    int out[2];
    int before = zt_layer_state(builder, "xs", 3, (int64_t[]){sizes->inner, sizes->numbers});
    int a = scan_weight(builder, "xaf", of->a), d = skip_weights(builder, of->d);
    snprintf(names[0], sizeof names[0], "xsp%" PRId64, builder->layer);
    snprintf(names[1], sizeof names[1], "xy%" PRId64, builder->layer);
    const int in[] = {before, of->u, of->dt, a, of->b, of->c, builder->from, builder->to, d};
    if (zt_prog_op(builder->program, ZT_OP_selective_scan, NULL, in, (const char *[]){names[0], names[1]}, out) != ZT_OK)
        return -1;
    zt_layer_keep_state(builder, before, out[0]);
    return out[1];
}

/* softplus(x + bias); `bias` ZT_WEIGHT_COUNT: it is in x. */
static int emit_steps(zt_program_builder *builder, int x, zt_weight bias)
{
    int data = zt_weight_data(builder, bias);
    if (data != ZT_NONE) x = zt_program_add(builder->program, zt_layer_label(builder, "xdb"), x, data);
    return zt_program_softplus(builder->program, zt_layer_label(builder, "xdt"), x);
}

/* ---- Mamba ----------------------------------------------------------------------------------- */

/* A norm of `count` columns without weights, where the model has it. The op's weights, ones, are made of the steps' bias, which has
 * at least as many entries (hyper.c). */
static int norm_columns(zt_program_builder *builder, const char *what, const char *ones, int x, int64_t count)
{
    zt_prog *program = builder->program;
    zt_rms_norm_attrs norm = {.eps = STEP_EPSILON};
    char cut[8];
    if (!builder->hyper->mamba.normed) return x;
    snprintf(cut, sizeof cut, "%ss", ones);
    int gains = zt_weight_data(builder, ZT_W_SCAN_DT_BIAS);
    gains = zt_program_slice(program, zt_layer_label(builder, cut), gains, &(zt_slice_attrs){.axis = 0, .from = 0, .to = count});
    gains = zt_program_fill_like(program, zt_layer_label(builder, ones), gains, &(zt_fill_like_attrs){1});
    return zt_program_rms_norm(program, zt_layer_label(builder, what), x, gains, &norm, NULL);
}

int zt_emit_mamba(zt_program_builder *builder, int x)
{
    zt_prog *program = builder->program;
    const zt_mamba_sizes *sizes = &builder->hyper->mamba;
    scan of = {.a = ZT_W_SCAN_A, .d = ZT_W_SCAN_D};
    int64_t b_end = sizes->step_rank + sizes->inputs;
    int all = zt_layer_linear(builder, "xi", x, ZT_W_SCAN_IN, ZT_WEIGHT_COUNT);
    int u = columns_of(builder, "xm", all, 0, sizes->inner), z = columns_of(builder, "xz", all, sizes->inner, sizes->in_rows);
    of.u = zt_layer_causal_conv(builder, "xc", "cs", u, ZT_W_SCAN_CONV, ZT_W_SCAN_CONV_BIAS, true);
    int parts = zt_emit_linear(builder, zt_layer_label(builder, "xp"), of.u, zt_weight_data(builder, ZT_W_SCAN_X), ZT_NONE, true);
    int rates = norm_columns(builder, "xrn", "xro", columns_of(builder, "xr", parts, 0, sizes->step_rank), sizes->step_rank);
    of.b = norm_columns(builder, "xbn", "xbo", columns_of(builder, "xb", parts, sizes->step_rank, b_end), sizes->inputs);
    of.c = norm_columns(builder, "xcn", "xco", columns_of(builder, "xcc", parts, b_end, sizes->x_rows), sizes->inputs);
    rates = zt_emit_linear(builder, zt_layer_label(builder, "xw"), rates, zt_weight_data(builder, ZT_W_SCAN_DT),
                           zt_weight_data(builder, ZT_W_SCAN_DT_BIAS), true);
    of.dt = emit_steps(builder, rates, ZT_WEIGHT_COUNT);
    return zt_program_swiglu(program, zt_layer_label(builder, "xg"), z, emit_scan(builder, &of));
}

/* ---- Mamba 2 --------------------------------------------------------------------------------- */

/* Norm of each group of columns by its row of weights. The op has one row for all groups, here of ones. */
static int norm_groups(zt_program_builder *builder, int y)
{
    zt_prog *program = builder->program;
    const zt_mamba_sizes *sizes = &builder->hyper->mamba;
    int gains = scan_weight(builder, "xnf", ZT_W_SCAN_NORM);
    zt_rms_norm_attrs norm = {.eps = builder->hyper->eps, .dims = sizes->per_group};
    zt_reshape_attrs one = {.shape = {1, {sizes->per_group}}}, all = {.shape = {1, {sizes->inner}}};
    if (gains == ZT_NONE) return y;
    int first =
        zt_program_slice(program, zt_layer_label(builder, "xnr"), gains, &(zt_slice_attrs){.axis = 0, .from = 0, .to = 1});
    first = zt_program_reshape(program, zt_layer_label(builder, "xnv"), first, &one);
    if (sizes->groups == 1) return zt_program_rms_norm(program, zt_layer_label(builder, "xnn"), y, first, &norm, NULL);
    int ones = zt_program_fill_like(program, zt_layer_label(builder, "xno"), first, &(zt_fill_like_attrs){1});
    y = zt_program_rms_norm(program, zt_layer_label(builder, "xnn"), y, ones, &norm, NULL);
    gains = zt_program_reshape(program, zt_layer_label(builder, "xna"), gains, &all);
    return zt_program_mul(program, zt_layer_label(builder, "xnm"), y, gains);
}

int zt_emit_mamba2(zt_program_builder *builder, int x)
{
    const zt_mamba_sizes *sizes = &builder->hyper->mamba;
    scan of = {.a = ZT_W_SCAN_A_HEADS, .d = ZT_W_SCAN_D_HEADS};
    int64_t inner = sizes->inner, mixed_end = inner + sizes->mixed, b_end = inner + sizes->inputs;
    int all = zt_layer_linear(builder, "xi", x, ZT_W_SCAN_IN, ZT_WEIGHT_COUNT);
    int z = columns_of(builder, "xz", all, 0, inner), mixed = columns_of(builder, "xm", all, inner, mixed_end);
    of.dt = emit_steps(builder, columns_of(builder, "xr", all, mixed_end, sizes->in_rows), ZT_W_SCAN_DT_HEADS);
    mixed = zt_layer_causal_conv(builder, "xc", "cs", mixed, ZT_W_SCAN_CONV, ZT_W_SCAN_CONV_BIAS, true);
    of.u = columns_of(builder, "xu", mixed, 0, inner);
    of.b = columns_of(builder, "xb", mixed, inner, b_end);
    of.c = columns_of(builder, "xcc", mixed, b_end, sizes->mixed);
    int y = zt_program_swiglu(builder->program, zt_layer_label(builder, "xg"), z, emit_scan(builder, &of));
    return norm_groups(builder, y);
}
