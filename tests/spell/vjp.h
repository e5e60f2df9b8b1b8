/* vjp.h - how the ops of golden/ops/vjp are spelled in zt: those of no other file here. */
#ifndef ZT_SPELL_VJP_H
#define ZT_SPELL_VJP_H

#include "tests/spell/spell.h"

static int build_div_scalar(const call *c)
{
    return zt_emit_scale(c->p, NULL, c->in[0], &(zt_scale_attrs){1 / number(c, "c")});
}

static int build_flatten(const call *c)
{
    zt_reshape_attrs a = {{1, {zt_type_count(&c->type[0])}}};
    return zt_emit_reshape(c->p, NULL, c->in[0], &a);
}

static int build_slice_range0(const call *c)
{
    int64_t from = (int64_t)number(c, "start");
    return zt_emit_slice(c->p, NULL, c->in[0],
                         &(zt_slice_attrs){0, from, from + (int64_t)number(c, "len")});
}

/* y = W x + b of one vector: a batch of one. */
static int build_linear_vec(const call *c)
{
    const zt_type *w = &c->type[0];
    zt_reshape_attrs one = {{2, {1, w->dim[1]}}}, flat = {{1, {w->dim[0]}}};
    int x = zt_emit_reshape(c->p, NULL, c->in[2], &one);
    int y = zt_emit_linear(c->p, NULL, x, c->in[0], c->in[1], NULL);
    return zt_emit_reshape(c->p, NULL, y, &flat);
}

static int permuted(const call *c, int64_t p, int64_t q, int64_t r)
{
    return zt_emit_transpose(c->p, NULL, c->in[0], &(zt_transpose_attrs){{3, {p, q, r}}});
}

static int build_bca(const call *c) { return permuted(c, 1, 2, 0); }
static int build_cab(const call *c) { return permuted(c, 2, 0, 1); }
static int build_acb(const call *c) { return permuted(c, 0, 2, 1); }

/* Past the last pair of axes: nothing moves. */
static int build_swap_adjacent(const call *c)
{
    int rank = c->type[0].rank;
    int64_t depth = (int64_t)number(c, "depth");
    zt_transpose_attrs a = {{rank, {0}}};
    for (int d = 0; d < rank; d++)
        a.axes.v[d] = depth + 1 >= rank ? d : d == depth ? d + 1 : d == depth + 1 ? d - 1 : d;
    return zt_emit_transpose(c->p, NULL, c->in[0], &a);
}

static int build_split(const call *c)
{
    int64_t axis = (int64_t)number(c, "axis"), n = (int64_t)number(c, "num");
    int64_t size = c->type[0].dim[axis < 0 ? axis + c->type[0].rank : axis] / n;
    int first = -1;
    for (int k = 0; k < n && k < ZT_MAX_OUT; k++) {
        zt_slice_attrs a = {axis, k * size, (k + 1) * size};
        int y = zt_emit_slice(c->p, NULL, c->in[0], &a);
        *(k ? &c->more[k - 1] : &first) = y;
    }
    return first;
}

/* x[index] by a slice, and one added there by a slice put among zeros. */
static int build_gather_one(const call *c)
{
    const zt_type *x = &c->type[0];
    int64_t i = (int64_t)number(c, "index");
    zt_reshape_attrs flat = {{x->rank - 1, {0}}};
    memcpy(flat.shape.dim, x->dim + 1, (size_t)(x->rank - 1) * sizeof x->dim[0]);
    int y = zt_emit_slice(c->p, NULL, c->in[0], &(zt_slice_attrs){0, i, i + 1});
    return zt_emit_reshape(c->p, NULL, y, &flat);
}

static int build_add_one(const call *c)
{
    const zt_type *x = &c->type[0];
    int64_t i = (int64_t)number(c, "index");
    zt_reshape_attrs row = {{x->rank, {1}}};
    memcpy(row.shape.dim + 1, x->dim + 1, (size_t)(x->rank - 1) * sizeof x->dim[0]);
    int v = zt_emit_reshape(c->p, NULL, c->in[1], &row);
    v = zt_emit_slice_put(c->p, NULL, v, c->in[0], &(zt_slice_put_attrs){0, i, i + 1});
    return zt_emit_add(c->p, NULL, c->in[0], v);
}

static int build_mse(const call *c)
{
    int d = zt_emit_sub(c->p, NULL, c->in[0], c->in[1]);
    return zt_emit_mean(c->p, NULL, zt_emit_square(c->p, NULL, d), NULL);
}

/* m (|d| - m/2) with m = min(|d|, 1) is d^2/2 up to 1, then |d| - 1/2. */
static int build_smooth_l1(const call *c)
{
    zt_prog *p = c->p;
    const zt_clamp_attrs to_one = {-1, 1};
    int d = zt_emit_abs(p, NULL, zt_emit_sub(p, NULL, c->in[0], c->in[1]));
    int m = zt_emit_clamp(p, NULL, d, &to_one);
    int half = zt_emit_scale(p, NULL, m, &(zt_scale_attrs){0.5});
    int y = zt_emit_mul(p, NULL, m, zt_emit_sub(p, NULL, d, half));
    return zt_emit_mean(p, NULL, y, NULL);
}

static int build_bce(const call *c)
{
    zt_prog *p = c->p;
    int y = zt_emit_sub(p, NULL, zt_emit_softplus(p, NULL, c->in[0]),
                        zt_emit_mul(p, NULL, c->in[0], c->in[1]));
    return zt_emit_mean(p, NULL, y, NULL);
}

/* The mean over rows of -log softmax(x)[target]. */
static int build_cross_entropy(const call *c)
{
    zt_prog *p = c->p;
    zt_one_hot_attrs hot = zt_one_hot_defaults();
    hot.depth = c->type[0].dim[1];
    int y = zt_emit_mul(p, NULL, zt_emit_log_softmax(p, NULL, c->in[0], NULL),
                        zt_emit_one_hot(p, NULL, c->in[1], &hot));
    return zt_emit_scale(p, NULL, zt_emit_sum(p, NULL, y, NULL),
                         &(zt_scale_attrs){-1.0 / (double)c->type[0].dim[0]});
}

/* A vector of a number a channel, so that it broadcasts along dimension `axis` of x. */
static int along(const call *c, int v, int axis)
{
    zt_reshape_attrs a = {{c->type[0].rank - axis, {c->type[0].dim[axis], 1, 1, 1, 1, 1, 1, 1}}};
    return zt_emit_reshape(c->p, NULL, v, &a);
}

/* Normalised over groups of what follows each other, then times gamma and plus beta by channel. */
static int group_norm(const call *c, int64_t groups, int axis)
{
    zt_prog *p = c->p;
    int64_t count = zt_type_count(&c->type[0]);
    zt_reshape_attrs rows = {{2, {groups, groups ? count / groups : 0}}};
    zt_reshape_attrs back = {{c->type[0].rank, {0}}};
    memcpy(back.shape.dim, c->type[0].dim, sizeof back.shape.dim);
    int n = zt_emit_layer_norm(p, NULL, zt_emit_reshape(p, NULL, c->in[0], &rows), ZT_NONE, ZT_NONE,
                               &(zt_layer_norm_attrs){number(c, "eps")}, NULL, NULL);
    n = zt_emit_mul(p, NULL, zt_emit_reshape(p, NULL, n, &back), along(c, c->in[1], axis));
    return zt_emit_add(p, NULL, n, along(c, c->in[2], axis));
}

static int build_batchnorm_chw(const call *c) { return group_norm(c, c->type[0].dim[0], 0); }

static int build_instancenorm(const call *c)
{
    return group_norm(c, c->type[0].dim[0] * c->type[0].dim[1], 1);
}

static int build_groupnorm(const call *c)
{
    return group_norm(c, c->type[0].dim[0] * (int64_t)number(c, "groups"), 1);
}

static int build_batchnorm_infer(const call *c)
{
    zt_prog *p = c->p;
    int var = zt_emit_add_scalar(p, NULL, c->in[4], &(zt_add_scalar_attrs){number(c, "eps")});
    int by = zt_emit_mul(p, NULL, zt_emit_rsqrt(p, NULL, var), c->in[1]);
    int y = zt_emit_sub(p, NULL, c->in[0], along(c, c->in[3], 1));
    y = zt_emit_mul(p, NULL, y, along(c, by, 1));
    return zt_emit_add(p, NULL, y, along(c, c->in[2], 1));
}

static int build_swiglu_ffn(const call *c)
{
    zt_prog *p = c->p;
    int gate = zt_emit_matmul(p, NULL, c->in[0], c->in[1], NULL);
    int up = zt_emit_matmul(p, NULL, c->in[0], c->in[2], NULL);
    return zt_emit_matmul(p, NULL, zt_emit_swiglu(p, NULL, gate, up), c->in[3], NULL);
}

/* The tables say how many columns turn: rotary_dim, where 0 is all. */
static int build_rope(const call *c)
{
    return zt_emit_rope_table(c->p, NULL, c->in[0], c->in[1], c->in[2], NULL);
}

static int build_rope_interleaved(const call *c)
{
    const zt_rope_table_attrs a = {{"neighbours"}};
    return zt_emit_rope_table(c->p, NULL, c->in[0], c->in[1], c->in[2], &a);
}

static const spelling vjp_ops[] = {
    SAME(neg), SAME(abs), SAME(sqrt), SAME(rsqrt), SAME(exp), SAME(sin), SAME(cos), SAME(tanh),
    SAME(sigmoid), SAME(relu), SAME(softplus), SAME(square), SAME(silu), SAME(elu), SAME(log1p),
    SAME(expm1), SAME(tan), SAME(erf), SAME(tanh_prime), SAME(safe_log), SAME(clamp),
    SAME(leaky_relu), SAME(pow_scalar), SAME(add), SAME(sub), SAME(mul), SAME(div), SAME(max),
    SAME(min), SAME(pow), SAME(eq), SAME(ne), SAME(lt), SAME(le), SAME(gt), SAME(ge),
    SAME(logical_and), SAME(logical_or), SAME(logical_xor), SAME(logical_not), SAME(where),
    SAME(reshape), SAME(broadcast_to), SAME(matmul), SAME(swiglu),
    SAME(argmax), SAME(argmin), SAME(cumsum), SAME(softmax), SAME(log_softmax), SAME(transpose),
    SAME(concat),
    {"gather_dim", .op = ZT_OP_gather_elements, .attrs = "dim:axis", .ids = true},
    {"scatter_add_dim", .op = ZT_OP_scatter_add_elements, .attrs = "dim:axis", .order = "021",
     .ids = true},
    {"gather_vec", .op = ZT_OP_gather_elements, .ids = true},
    {"scatter_add_vec_many", .op = ZT_OP_scatter_add_elements, .order = "021", .ids = true},
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
    {"mse", .build = build_mse},
    {"log", .op = ZT_OP_ln},
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
    {"smooth_l1", .build = build_smooth_l1},
    {"cross_entropy", .ids = true, .build = build_cross_entropy},
    {"nll", .ids = true, .build = build_cross_entropy},
    {"batchnorm_chw", .build = build_batchnorm_chw},
    {"instancenorm", .build = build_instancenorm},
    {"groupnorm", .build = build_groupnorm},
    {"batchnorm_infer", .build = build_batchnorm_infer},
    {"bce_with_logits", .build = build_bce},
    {"swiglu_ffn", .build = build_swiglu_ffn},
    {"rope", .build = build_rope},
    {"rope_interleaved", .build = build_rope_interleaved},
    {"add_rmsnorm", .op = ZT_OP_add_rms_norm},
    SAME(norm_add),
    {"layernorm", .op = ZT_OP_layer_norm},
    {"rmsnorm", .op = ZT_OP_rms_norm},
};

#endif
