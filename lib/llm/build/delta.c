/* delta.c - the builder of a gated delta net (Yang, Kautz, Hatamizadeh, 2024; Qwen3-Next and Qwen3.5).
 *
 *     q, k, v  = silu(causal convolution of x qkv^T)
 *     beta     = sigmoid(x b^T)
 *     g        = A softplus(x a^T + dt)                 A below 0: exp(g) is how much of the state stays
 *     y        = the gated delta rule of q, k, v, g and beta, with a state for each head
 *     result   = norm of each head of y, times silu(x gate^T)
 */
#include "lib/llm/build/internal.h"

#include <inttypes.h>
#include <stdio.h>

/* What q and k are divided by is at least the root of this (modeling_qwen3_next.py, l2norm). */
#define LENGTH_EPSILON 1e-6

typedef struct rates {
    int beta, g; /* [rows, heads] */
} rates;

static int columns_of(zt_program_builder *builder, const char *what, int axis, int x, int64_t from, int64_t to)
{
    return zt_program_slice(builder->program, zt_layer_label(builder, what), x,
                            &(zt_slice_attrs){.axis = axis, .from = from, .to = to});
}

/* By a matrix of few rows; its activations have 16 bits, as the state adds up what they cause. */
static int fine_linear(zt_program_builder *builder, const char *what, int x, zt_weight weight)
{
    return zt_emit_linear(builder, zt_layer_label(builder, what), x, zt_weight_data(builder, weight), ZT_NONE, true);
}

/* The products that beta and g are made of. */
static rates project_rates(zt_program_builder *builder, int x)
{
    zt_prog *program = builder->program;
    const zt_delta_sizes *sizes = &builder->hyper->delta;
    if (!(builder->hyper->parts & ZT_PART_BETA_ALPHA))
        return (rates){fine_linear(builder, "dn_b", x, ZT_W_DELTA_BETA), fine_linear(builder, "dn_a", x, ZT_W_DELTA_ALPHA)};
    int64_t each = sizes->heads / sizes->key_heads;
    zt_reshape_attrs by_head = {.shape = {3, {builder->row_count, sizes->key_heads, 2 * each}}},
                     flat = {.shape = {2, {builder->row_count, sizes->heads}}};
    int both = zt_program_reshape(program, zt_layer_label(builder, "dn_h"),
                                  fine_linear(builder, "dn_w", x, ZT_W_DELTA_BETA_ALPHA), &by_head);
    int beta = columns_of(builder, "dn_bs", 2, both, 0, each), alpha = columns_of(builder, "dn_as", 2, both, each, 2 * each);
    beta = zt_program_reshape(program, zt_layer_label(builder, "dn_b"), beta, &flat);
    return (rates){beta, zt_program_reshape(program, zt_layer_label(builder, "dn_a"), alpha, &flat)};
}

static rates emit_rates(zt_program_builder *builder, int x)
{
    zt_prog *program = builder->program;
    rates made = project_rates(builder, x);
    made.beta = zt_program_sigmoid(program, zt_layer_label(builder, "dn_beta"), made.beta);
    made.g = zt_program_add(program, zt_layer_label(builder, "dn_t"), made.g, zt_weight_data(builder, ZT_W_DELTA_DT));
    made.g = zt_program_softplus(program, zt_layer_label(builder, "dn_p"), made.g);
    made.g = zt_program_mul(program, zt_layer_label(builder, "dn_g"), made.g, zt_weight_data(builder, ZT_W_DELTA_A));
    return made;
}

/* The rule, over the step's rows and the layer's states. */
static int emit_rule(zt_program_builder *builder, int mixed, rates of)
{
    const zt_delta_sizes *sizes = &builder->hyper->delta;
    zt_delta_rule_attrs attrs = zt_delta_rule_defaults();
    char names[2][24];
    int out[2];
    int q = columns_of(builder, "dn_q", 1, mixed, 0, sizes->key_width);
    int k = columns_of(builder, "dn_k", 1, mixed, sizes->key_width, 2 * sizes->key_width);
    int v = columns_of(builder, "dn_v", 1, mixed, 2 * sizes->key_width, sizes->width);
    int before = zt_layer_state(builder, "dn_s", 4, (int64_t[]){sizes->heads, sizes->key, sizes->value});
    attrs.eps = LENGTH_EPSILON;
    snprintf(attrs.share.s, sizeof attrs.share.s, "%s", builder->hyper->arch->tiled_heads ? "tiled" : "grouped");
    snprintf(names[0], sizeof names[0], "dn_sp%" PRId64, builder->layer);
    snprintf(names[1], sizeof names[1], "dn_r%" PRId64, builder->layer);
    const int in[] = {before, q, k, v, of.g, of.beta, builder->from, builder->to};
    if (zt_prog_op(builder->program, ZT_OP_delta_rule, &attrs, in, (const char *[]){names[0], names[1]}, out) != ZT_OK) return -1;
    zt_layer_keep_state(builder, before, out[0]);
    return out[1];
}

int zt_emit_delta_net(zt_program_builder *builder, int x)
{
    zt_prog *program = builder->program;
    int mixed = zt_layer_linear(builder, "dn_x", x, ZT_W_DELTA_QKV, ZT_WEIGHT_COUNT);
    int gate = zt_layer_linear(builder, "dn_z", x, ZT_W_DELTA_GATE, ZT_WEIGHT_COUNT);
    mixed = zt_layer_causal_conv(builder, "dn_c", "dn_cs", mixed, ZT_W_DELTA_CONV, ZT_WEIGHT_COUNT, true);
    int y = emit_rule(builder, mixed, emit_rates(builder, x));
    zt_rms_norm_attrs norm = {.eps = builder->hyper->eps, .dims = builder->hyper->delta.value};
    y = zt_program_rms_norm(program, zt_layer_label(builder, "dn_y"), y, zt_weight_data(builder, ZT_W_DELTA_NORM), &norm, NULL);
    return zt_program_swiglu(program, zt_layer_label(builder, "dn_gy"), gate, y);
}
