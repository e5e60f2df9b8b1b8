/* layers_dense.h - how the ops of golden/layers are spelled in zt: dense layers, norms, embedding,
 * the MLP. */
#ifndef ZT_SPELL_LAYERS_DENSE_H
#define ZT_SPELL_LAYERS_DENSE_H

#include "tests/ops/spell/spell.h"

static int dense_activated(const call *node, int x, const char *name)
{
    if (!strcmp(name, "relu")) return zt_program_relu(node->p, NULL, x);
    if (!strcmp(name, "silu")) return zt_program_silu(node->p, NULL, x);
    if (!strcmp(name, "gelu")) return zt_program_gelu(node->p, NULL, x, NULL);
    if (!strcmp(name, "sigmoid")) return zt_program_sigmoid(node->p, NULL, x);
    if (!strcmp(name, "tanh")) return zt_program_tanh(node->p, NULL, x);
    if (!strcmp(name, "softplus")) return zt_program_softplus(node->p, NULL, x);
    return !strcmp(name, "linear") ? x : -1;
}

static int dense_layer(const call *node, int x, const char *w, const char *b)
{
    return zt_program_linear(node->p, NULL, x, named(node, w), named(node, b), NULL);
}

static int build_dense(const call *node)
{
    return dense_activated(node, dense_layer(node, node->in[0], "w", "b"), word_or(node, "activation", "linear"));
}

static int build_dense_swiglu(const call *node)
{
    int gate = dense_layer(node, node->in[0], "w_gate", "b_gate"), up = dense_layer(node, node->in[0], "w_up", "b_up");
    return dense_layer(node, zt_program_swiglu(node->p, NULL, gate, up), "w_down", "b_down");
}

static int build_mlp(const call *node)
{
    int h = zt_program_relu(node->p, NULL, dense_layer(node, node->in[0], "w1", "b1"));
    return zt_program_cross_entropy(node->p, NULL, dense_layer(node, h, "w2", "b2"), named(node, "target"), ZT_NONE, NULL, NULL);
}

/* softmax(-|x - c|^2 / (2 T^2)) over the centers, and those weighed by it. */
static int build_kmeans(const call *node)
{
    zt_prog *program = node->p;
    double t = number_or(node, "temperature", 1);
    int64_t K = dim_of(node, 1, 0), D = dim_of(node, 1, 1), n = D ? count_of(node, 0) / D : 0;
    int x = reshaped(node, node->in[0], 3, (int64_t[]){n, 1, D});
    int d = zt_program_square(program, NULL, zt_program_sub(program, NULL, x, node->in[1]));
    d = zt_program_sum(program, NULL, d, &(zt_sum_attrs){{1, {-1}}, 0});
    int y = zt_program_softmax(program, NULL, zt_program_scale(program, NULL, d, &(zt_scale_attrs){-0.5 / t / t}), NULL);
    bool features = word_is(node, "output", "features");
    zt_type out = node->type[0];
    out.dim[out.rank - 1] = features ? D : K;
    if (features) y = zt_program_matmul(program, NULL, y, node->in[1], NULL);
    return reshaped(node, y, out.rank, out.dim);
}

static const spelling layers_dense_ops[] = {
    {"dense", .build = build_dense},
    {"swiglu", .build = build_dense_swiglu},
    {"mlp", .build = build_mlp, .ids = true},
    {"kmeans", .build = build_kmeans},
    {"embedding", .op = ZT_OP_gather, .ids = true},
    {"rmsnorm", .op = ZT_OP_rms_norm},
    {"layernorm", .op = ZT_OP_layer_norm},
};

#endif
