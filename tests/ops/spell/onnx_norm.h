/* onnx_norm.h - how the ops of golden/ops/onnx are spelled in zt: normalizations. */
#ifndef ZT_SPELL_ONNX_NORM_H
#define ZT_SPELL_ONNX_NORM_H

#include "tests/ops/spell/spell.h"

static double epsilon(const call *node) { return number_or(node, "epsilon", 1e-5); }

/* A batch of numbers alone has one channel. */
static int build_batch_norm(const call *node)
{
    const zt_type *its_type = &node->type[0];
    int64_t count = count_of(node, 0);
    int x = its_type->rank > 1 ? node->in[0] : reshaped(node, node->in[0], 2, (int64_t[]){count, 1}), y, mean, var;
    if (int_or(node, "training_mode", 0)) {
        zt_batch_norm_attrs a = {epsilon(node), 1 - number_or(node, "momentum", 0.9), 0};
        y = zt_program_batch_norm(node->p, NULL, x, node->in[1], node->in[2], node->in[3], node->in[4], &a, NULL, NULL, &mean,
                                  &var);
        node->more[0] = mean;
        node->more[1] = var;
    } else {
        y = zt_program_batch_norm_inference(node->p, NULL, x, node->in[3], node->in[4], node->in[1], node->in[2],
                                            &(zt_batch_norm_inference_attrs){epsilon(node)});
    }
    return its_type->rank > 1 ? y : reshaped(node, y, 1, its_type->dim);
}

static int groups_norm(const call *node, int64_t groups)
{
    return zt_program_group_norm(node->p, NULL, node->in[0], node->in[1], node->in[2],
                                 &(zt_group_norm_attrs){groups, epsilon(node)}, NULL, NULL);
}

static int build_group_norm(const call *node) { return groups_norm(node, int_or(node, "num_groups", 1)); }
static int build_instance_norm(const call *node) { return groups_norm(node, dim_of(node, 0, 1)); }

/* x as rows of what is normalised: all from the axis on. */
static int norm_rows(const call *node, zt_type *stat)
{
    int64_t axis = axis_or(node, "axis", -1, 0), rows = 1, columns = 1;
    *stat = node->type[0];
    for (int d = 0; d < stat->rank; d++) *(d < axis ? &rows : &columns) *= stat->dim[d];
    for (int d = (int)axis; d < stat->rank; d++) stat->dim[d] = 1;
    return reshaped(node, node->in[0], 2, (int64_t[]){rows, columns});
}

static int norm_end(const call *node, int y)
{
    y = reshaped(node, y, node->type[0].rank, node->type[0].dim);
    y = zt_program_mul(node->p, NULL, y, node->in[1]);
    return given(node, 2) ? zt_program_add(node->p, NULL, y, node->in[2]) : y;
}

static int build_layer_norm(const call *node)
{
    zt_type stat;
    int mean, rstd, x = norm_rows(node, &stat);
    int y = zt_program_layer_norm(node->p, NULL, x, ZT_NONE, ZT_NONE, &(zt_layer_norm_attrs){epsilon(node)}, &mean, &rstd);
    if (node->n_out > 1) node->more[0] = reshaped(node, mean, stat.rank, stat.dim);
    if (node->n_out > 2) node->more[1] = reshaped(node, rstd, stat.rank, stat.dim);
    return norm_end(node, y);
}

static int build_rms_norm(const call *node)
{
    zt_type stat;
    const zt_mean_attrs columns = {{1, {1}}, 1};
    int x = norm_rows(node, &stat), s = zt_program_mean(node->p, NULL, zt_program_square(node->p, NULL, x), &columns);
    int r = zt_program_rsqrt(node->p, NULL, zt_program_add_scalar(node->p, NULL, s, &(zt_add_scalar_attrs){epsilon(node)}));
    return norm_end(node, zt_program_mul(node->p, NULL, x, r));
}

/* x / (sum |x|^program)^(1/program); what is 0 stays so. */
static int build_lp_norm(const call *node)
{
    zt_prog *program = node->p;
    const zt_sum_attrs along = {{1, {int_or(node, "axis", -1)}}, 1};
    bool one = int_or(node, "p", 2) == 1;
    int x = node->in[0], s = one ? zt_program_abs(program, NULL, x) : zt_program_square(program, NULL, x);
    s = zt_program_sum(program, NULL, s, &along);
    if (!one) s = zt_program_sqrt(program, NULL, s);
    int zero = zt_program_fill_like(program, NULL, s, &(zt_fill_like_attrs){0});
    int unit = zt_program_fill_like(program, NULL, s, &(zt_fill_like_attrs){1});
    s = zt_program_where(program, NULL, zt_program_eq(program, NULL, s, zero), unit, s);
    return zt_program_div(program, NULL, x, s);
}

/* (x - mean) / (sqrt(mean x^2 - mean^2) + 1e-9) */
static int build_mvn(const call *node)
{
    zt_prog *program = node->p;
    zt_mean_attrs a = {{3, {0, 2, 3}}, 1};
    int count = attr_ints(node, "axes", a.axes.v, ZT_MAX_RANK);
    if (count >= 0) a.axes.n = count;
    int mean = zt_program_mean(program, NULL, node->in[0], &a), x = zt_program_sub(program, NULL, node->in[0], mean);
    int var = zt_program_mean(program, NULL, zt_program_square(program, NULL, x), &a);
    int std = zt_program_add_scalar(program, NULL, zt_program_sqrt(program, NULL, var), &(zt_add_scalar_attrs){1e-9});
    return zt_program_div(program, NULL, x, std);
}

static const spelling onnx_norm_ops[] = {
    {"BatchNormalization", .build = build_batch_norm},       {"GroupNormalization", .build = build_group_norm},
    {"InstanceNormalization", .build = build_instance_norm}, {"LayerNormalization", .build = build_layer_norm},
    {"RMSNormalization", .build = build_rms_norm},           {"LpNormalization", .build = build_lp_norm},
    {"MeanVarianceNormalization", .build = build_mvn},
};

#endif
