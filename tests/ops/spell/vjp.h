/* vjp.h - how the ops of golden/ops/vjp are spelled in zt: those of no other file here. */
#ifndef ZT_SPELL_VJP_H
#define ZT_SPELL_VJP_H

#include "tests/ops/spell/onnx_matmul.h"

static int build_div_scalar(const call *node)
{
    return zt_program_scale(node->p, NULL, node->in[0], &(zt_scale_attrs){1 / number(node, "c")});
}

static int build_flatten(const call *node)
{
    zt_reshape_attrs a = {{1, {zt_type_count(&node->type[0])}}};
    return zt_program_reshape(node->p, NULL, node->in[0], &a);
}

static int build_slice_range0(const call *node)
{
    int64_t from = (int64_t)number(node, "start");
    return zt_program_slice(node->p, NULL, node->in[0], &(zt_slice_attrs){0, from, from + (int64_t)number(node, "len")});
}

/* y = W x + b of one vector: a batch of one. */
static int build_linear_vec(const call *node)
{
    const zt_type *w = &node->type[0];
    zt_reshape_attrs one = {{2, {1, w->dim[1]}}}, flat = {{1, {w->dim[0]}}};
    int x = zt_program_reshape(node->p, NULL, node->in[2], &one);
    int y = zt_program_linear(node->p, NULL, x, node->in[0], node->in[1], NULL);
    return zt_program_reshape(node->p, NULL, y, &flat);
}

static int permuted(const call *node, int64_t p, int64_t q, int64_t r)
{
    return zt_program_transpose(node->p, NULL, node->in[0], &(zt_transpose_attrs){{3, {p, q, r}}});
}

static int build_bca(const call *node) { return permuted(node, 1, 2, 0); }
static int build_cab(const call *node) { return permuted(node, 2, 0, 1); }
static int build_acb(const call *node) { return permuted(node, 0, 2, 1); }

/* Past the last pair of axes: nothing moves. */
static int build_swap_adjacent(const call *node)
{
    int rank = node->type[0].rank;
    int64_t depth = (int64_t)number(node, "depth");
    zt_transpose_attrs a = {{rank, {0}}};
    for (int d = 0; d < rank; d++) a.axes.v[d] = depth + 1 >= rank ? d : d == depth ? d + 1 : d == depth + 1 ? d - 1 : d;
    return zt_program_transpose(node->p, NULL, node->in[0], &a);
}

static int build_split(const call *node)
{
    int64_t axis = (int64_t)number(node, "axis"), n = (int64_t)number(node, "num");
    int64_t size = node->type[0].dim[axis < 0 ? axis + node->type[0].rank : axis] / n;
    int first = -1;
    for (int k = 0; k < n && k < MAX_ARGS; k++) {
        zt_slice_attrs a = {axis, k * size, (k + 1) * size};
        int y = zt_program_slice(node->p, NULL, node->in[0], &a);
        *(k ? &node->more[k - 1] : &first) = y;
    }
    return first;
}

/* The parts one behind the other, as many as there are. */
static int build_concat(const call *node)
{
    int y = node->in[0];
    for (int k = 1; k < node->n_in; k++)
        y = zt_program_concat(node->p, NULL, y, node->in[k], ZT_NONE, ZT_NONE, ZT_NONE,
                              &(zt_concat_attrs){(int64_t)number(node, "axis")});
    return y;
}

static int build_numpy_matmul(const call *node)
{
    return matmul_of(node, node->in[0], &node->type[0], node->in[1], &node->type[1]);
}

/* The attribute `index` as the ids of one row. */
static int one_index(const call *node)
{
    const int64_t one = 1;
    const int32_t i = (int32_t)number(node, "index");
    return constant(node, ZT_I32, 1, &one, &i);
}

/* Input i as a matrix of `rows` rows as x has them. */
static int as_rows(const call *node, int i, int64_t rows)
{
    int64_t dim[2] = {rows, 1};
    for (int d = 1; d < node->type[0].rank; d++) dim[1] *= node->type[0].dim[d];
    return reshaped(node, node->in[i], 2, dim);
}

/* x[index], and one added there; out of range 0, and nothing. */
static int build_gather_one(const call *node)
{
    const zt_type *x = &node->type[0];
    int y = zt_program_gather(node->p, NULL, as_rows(node, 0, x->dim[0]), one_index(node), &(zt_gather_attrs){{"zero"}});
    return reshaped(node, y, x->rank - 1, x->dim + 1);
}

static int build_add_one(const call *node)
{
    const zt_type *x = &node->type[0];
    int y = zt_program_scatter_add(node->p, NULL, as_rows(node, 0, x->dim[0]), one_index(node), as_rows(node, 1, 1),
                                   &(zt_scatter_add_attrs){{"zero"}});
    return reshaped(node, y, x->rank, x->dim);
}

static int build_nll(const call *node)
{
    int x = zt_program_log_softmax(node->p, NULL, node->in[0], &(zt_log_softmax_attrs){1});
    return zt_program_nll(node->p, NULL, x, node->in[1], ZT_NONE, NULL);
}

/* One image, each channel for itself; of a batch that is the instance norm. */
static int build_instancenorm(const call *node)
{
    zt_type its_type = node->type[0];
    bool one = !strcmp(node->op, "batchnorm_chw");
    if (one) memmove(its_type.dim + 1, its_type.dim, (size_t)its_type.rank++ * sizeof its_type.dim[0]);
    if (one) its_type.dim[0] = 1;
    int y = zt_program_group_norm(node->p, NULL, reshaped(node, node->in[0], its_type.rank, its_type.dim), node->in[1],
                                  node->in[2], &(zt_group_norm_attrs){its_type.dim[1], number(node, "eps")}, NULL, NULL);
    return reshaped(node, y, node->type[0].rank, node->type[0].dim);
}

static int build_swiglu_ffn(const call *node)
{
    zt_prog *p = node->p;
    int gate = zt_program_matmul(p, NULL, node->in[0], node->in[1], NULL);
    int up = zt_program_matmul(p, NULL, node->in[0], node->in[2], NULL);
    return zt_program_matmul(p, NULL, zt_program_swiglu(p, NULL, gate, up), node->in[3], NULL);
}

/* The tables say how many columns turn: rotary_dim, where 0 is all. */
static int build_rope(const call *node)
{
    return zt_program_rope_table(node->p, NULL, node->in[0], node->in[1], node->in[2], NULL);
}

static int build_rope_interleaved(const call *node)
{
    const zt_rope_table_attrs a = {{"neighbours"}};
    return zt_program_rope_table(node->p, NULL, node->in[0], node->in[1], node->in[2], &a);
}

// clang-format off
static const spelling vjp_ops[] = {
    SAME(neg), SAME(abs), SAME(sqrt), SAME(rsqrt), SAME(exp), SAME(sin), SAME(cos), SAME(tanh),
    SAME(sigmoid), SAME(relu), SAME(softplus), SAME(square), SAME(silu), SAME(elu), SAME(log1p),
    SAME(expm1), SAME(tan), SAME(erf), SAME(tanh_prime), SAME(safe_log), SAME(clamp),
    SAME(leaky_relu), SAME(pow_scalar), SAME(add), SAME(sub), SAME(mul), SAME(div), SAME(max),
    SAME(min), SAME(pow), SAME(eq), SAME(ne), SAME(lt), SAME(le), SAME(gt), SAME(ge),
    SAME(logical_and), SAME(logical_or), SAME(logical_xor), SAME(logical_not), SAME(where),
    SAME(reshape), SAME(broadcast_to), SAME(swiglu),
    SAME(argmax), SAME(argmin), SAME(cumsum), SAME(softmax), SAME(log_softmax), SAME(transpose),
    {"concat", .build = build_concat},
    {"matmul", .build = build_numpy_matmul},
    {"gather_dim", .op = ZT_OP_gather_elements, .attrs = "dim:axis", .ids = true},
    {"scatter_add_dim", .op = ZT_OP_scatter_add_elements, .attrs = "dim:axis", .order = "021",
     .ids = true},
    {"gather_vec", .op = ZT_OP_gather_elements, .fixed = "oob=zero", .ids = true},
    {"scatter_add_vec_many", .op = ZT_OP_scatter_add_elements, .fixed = "oob=zero", .order = "021",
     .ids = true},
    {"one_hot", .op = ZT_OP_one_hot, .ids = true},
    {"gather_scalar", .build = build_gather_one},
    {"gather_row", .build = build_gather_one},
    {"scatter_add_vec", .build = build_add_one},
    {"scatter_add_row", .build = build_add_one},
    {"sum_all", .op = ZT_OP_sum},
    {"reduce_sum", .op = ZT_OP_sum, .attrs = "axis:axes"},
    {"reduce_mean", .op = ZT_OP_mean, .attrs = "axis:axes"},
    {"reduce_max", .op = ZT_OP_amax, .attrs = "axis:axes"},
    {"reduce_min", .op = ZT_OP_amin, .attrs = "axis:axes"},
    {"reduce_prod", .op = ZT_OP_prod, .attrs = "axis:axes"},
    {"logsumexp", .op = ZT_OP_logsumexp, .attrs = "axis:axes"},
    {"repeat", .op = ZT_OP_repeat, .attrs = "repetitions:times"},
    {"permute3_bca", .build = build_bca},
    {"permute3_cab", .build = build_cab},
    {"permute3_acb", .build = build_acb},
    {"swap_adjacent", .build = build_swap_adjacent},
    {"split", .build = build_split},
    {"scaled_softmax", .op = ZT_OP_scaled_softmax},
    SAME(mse),
    {"log", .op = ZT_OP_log},
    {"inv", .op = ZT_OP_recip},
    {"gelu_tanh", .op = ZT_OP_gelu},
    {"gelu_erf", .op = ZT_OP_gelu, .fixed = "form=erf"},
    {"add_scalar", .op = ZT_OP_add_scalar, .attrs = "c:by"},
    {"scale", .op = ZT_OP_scale, .attrs = "c:by"},
    {"div_scalar", .build = build_div_scalar},
    {"flatten", .build = build_flatten},
    {"slice_range0", .build = build_slice_range0},
    {"matmul_tb", .op = ZT_OP_matmul, .fixed = "tb=1"},
    {"bmm", .op = ZT_OP_matmul},
    {"linear", .build = build_linear_vec},
    {"linear_batch", .op = ZT_OP_linear, .order = "201"},
    /* Some of its cases go out of range. */
    {"gather_rows", .op = ZT_OP_gather, .fixed = "oob=zero", .ids = true},
    {"gather_rows_oob", .op = ZT_OP_gather, .fixed = "oob=zero", .ids = true},
    {"embedding", .op = ZT_OP_gather, .ids = true},
    {"scatter_add_rows", .op = ZT_OP_scatter_add, .fixed = "oob=zero", .order = "021", .ids = true},
    SAME(smooth_l1),
    {"cross_entropy", .op = ZT_OP_cross_entropy, .ids = true},
    {"nll", .build = build_nll, .ids = true},
    {"batchnorm_chw", .build = build_instancenorm},
    {"instancenorm", .build = build_instancenorm},
    {"groupnorm", .op = ZT_OP_group_norm},
    {"batchnorm_infer", .op = ZT_OP_batch_norm_inference, .order = "03412"},
    SAME(bce_with_logits),
    {"swiglu_ffn", .build = build_swiglu_ffn},
    {"rope", .build = build_rope},
    {"rope_interleaved", .build = build_rope_interleaved},
    {"add_rmsnorm", .op = ZT_OP_add_rms_norm},
    SAME(norm_add),
    {"layernorm", .op = ZT_OP_layer_norm},
    {"rmsnorm", .op = ZT_OP_rms_norm},
};
// clang-format on

#endif
