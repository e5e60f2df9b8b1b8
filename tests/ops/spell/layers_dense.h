/* layers_dense.h - how the ops of golden/layers are spelled in zt: dense layers, norms, embedding,
 * the MLP. */
#ifndef ZT_SPELL_LAYERS_DENSE_H
#define ZT_SPELL_LAYERS_DENSE_H

#include "tests/ops/spell/spell.h"

static int dense_activated(const call *c, int x, const char *name)
{
    if (!strcmp(name, "relu")) return zt_program_relu(c->p, NULL, x);
    if (!strcmp(name, "silu")) return zt_program_silu(c->p, NULL, x);
    if (!strcmp(name, "gelu")) return zt_program_gelu(c->p, NULL, x, NULL);
    if (!strcmp(name, "sigmoid")) return zt_program_sigmoid(c->p, NULL, x);
    if (!strcmp(name, "tanh")) return zt_program_tanh(c->p, NULL, x);
    if (!strcmp(name, "softplus")) return zt_program_softplus(c->p, NULL, x);
    return !strcmp(name, "linear") ? x : -1;
}

static int dense_layer(const call *c, int x, const char *w, const char *b)
{
    return zt_program_linear(c->p, NULL, x, named(c, w), named(c, b), NULL);
}

static int build_dense(const call *c)
{
    return dense_activated(c, dense_layer(c, c->in[0], "w", "b"),
                           word_or(c, "activation", "linear"));
}

static int build_dense_swiglu(const call *c)
{
    int gate = dense_layer(c, c->in[0], "w_gate", "b_gate"),
        up = dense_layer(c, c->in[0], "w_up", "b_up");
    return dense_layer(c, zt_program_swiglu(c->p, NULL, gate, up), "w_down", "b_down");
}

static int build_mlp(const call *c)
{
    int h = zt_program_relu(c->p, NULL, dense_layer(c, c->in[0], "w1", "b1"));
    return zt_program_cross_entropy(c->p, NULL, dense_layer(c, h, "w2", "b2"), named(c, "target"),
                                 ZT_NONE, NULL, NULL);
}

/* softmax(-|x - c|^2 / (2 T^2)) over the centers, and those weighed by it. */
static int build_kmeans(const call *c)
{
    zt_prog *program = c->p;
    double t = number_or(c, "temperature", 1);
    int64_t K = dim_of(c, 1, 0), D = dim_of(c, 1, 1), n = D ? count_of(c, 0) / D : 0;
    int x = reshaped(c, c->in[0], 3, (int64_t[]){n, 1, D});
    int d = zt_program_square(program, NULL, zt_program_sub(program, NULL, x, c->in[1]));
    d = zt_program_sum(program, NULL, d, &(zt_sum_attrs){{1, {-1}}, 0});
    int y =
        zt_program_softmax(program, NULL, zt_program_scale(program, NULL, d, &(zt_scale_attrs){-0.5 / t / t}), NULL);
    bool features = word_is(c, "output", "features");
    zt_type out = c->type[0];
    out.dim[out.rank - 1] = features ? D : K;
    if (features) y = zt_program_matmul(program, NULL, y, c->in[1], NULL);
    return reshaped(c, y, out.rank, out.dim);
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
