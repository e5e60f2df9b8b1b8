/* layers_attention.h - how the ops of golden/layers are spelled in
 * zt: attention layers and the LLaMA block. */
#ifndef ZT_SPELL_LAYERS_ATTENTION_H
#define ZT_SPELL_LAYERS_ATTENTION_H

#include "tests/ops/spell/spell.h"

/* x [rows,columns] by the weight and bias of these names. */
static int attn_projection(const call *node, int x, const char *w, const char *b)
{
    return zt_program_linear(node->p, NULL, x, named(node, w), b ? named(node, b) : ZT_NONE, NULL);
}

/* Position of token t of each batch, or of tokens 0 to s-1 of all. */
static int attn_positions(const call *node, int64_t b, int64_t s, int64_t first)
{
    int32_t *pos = calloc((size_t)(b * s) + 1, sizeof *pos);
    for (int64_t i = 0; i < b * s; i++) pos[i] = (int32_t)(first + i % s);
    int v = constant(node, ZT_I32, 1, (int64_t[]){b * s}, pos);
    free(pos);
    return v;
}

/* Heads of [rows,heads*D] normed each, where there is such a weight, and turned. */
static int attn_head_norm_rope(const call *node, int x, const char *norm, int pos)
{
    zt_rope_attrs rope = zt_rope_defaults();
    rope.theta = number(node, "rope_theta");
    rope.head = int_or(node, "head_dim", 0);
    if (named(node, norm) != ZT_NONE)
        x = zt_program_rms_norm(node->p, NULL, x, named(node, norm), &(zt_rms_norm_attrs){number(node, "qk_norm_eps"), rope.head},
                                NULL);
    return zt_program_rope(node->p, NULL, x, pos, ZT_NONE, &rope);
}

/* Attention of x [b*s,columns] among its own rows, before the last projection: [b*s,heads*D]. */
static int attn_self_attention(const call *node, int x, int64_t b, int64_t s, bool causal)
{
    zt_sdpa_attrs a = zt_sdpa_defaults();
    const int64_t H = int_or(node, "num_heads", 1), G = int_or(node, "num_kv_heads", H);
    const int64_t D = int_or(node, "head_dim", 1), heads[] = {b, s, H, D}, shared[] = {b, s, G, D};
    const int64_t rows[] = {b * s, H * D};
    int pos = attn_positions(node, b, s, int_or(node, "pos_start", 0));
    int q = attn_head_norm_rope(node, attn_projection(node, x, "wq", "bq"), "q_norm", pos);
    int k = attn_head_norm_rope(node, attn_projection(node, x, "wk", "bk"), "k_norm", pos);
    int v = attn_projection(node, x, "wv", "bv");
    a.causal = causal;
    a.layout = (zt_enum_string){"bshd"};
    int y = zt_program_sdpa(node->p, NULL, reshaped(node, q, 4, heads), reshaped(node, k, 4, shared),
                            reshaped(node, v, 4, shared), ZT_NONE, ZT_NONE, &a, NULL);
    return reshaped(node, y, 2, rows);
}

static int build_mha(const call *node)
{
    const int64_t *dim = node->type[0].dim, rows[] = {dim[0] * dim[1], dim[2]};
    int y = attn_self_attention(node, reshaped(node, node->in[0], 2, rows), dim[0], dim[1], number(node, "causal") != 0);
    return reshaped(node, attn_projection(node, y, "wo", "bo"), 3, dim);
}

/* Token by token through caches that the sequences share, a block each. */
static int build_mha_decode(const call *node)
{
    const int64_t b = dim_of(node, 0, 0), n = dim_of(node, 0, 1), G = int_or(node, "num_kv_heads", 1);
    const int64_t D = int_or(node, "head_dim", 1), cache[] = {b * n, G * D};
    const int64_t rows[] = {b, dim_of(node, 0, 2)}, step[] = {b, 1, dim_of(node, 0, 2)};
    const zt_concat_attrs along = {1};
    zt_attention_attrs attrs = zt_attention_defaults();
    float *zeros = calloc((size_t)(b * n * G * D) + 1, sizeof *zeros);
    int32_t *ids = calloc((size_t)(b * b) + 1, sizeof *ids);
    for (int64_t i = 0; i < b; i++) ids[i] = (int32_t)i;
    int seq = constant(node, ZT_I32, 1, &b, ids), y = -1;
    for (int64_t i = b - 1; i >= 0; i--) {
        ids[i] = 0;
        ids[i * b] = (int32_t)i;
    }
    int table = constant(node, ZT_I32, 2, (int64_t[]){b, b}, ids);
    int kc = constant(node, ZT_F32, 2, cache, zeros), vc = constant(node, ZT_F32, 2, cache, zeros);
    kc = zt_program_scale(node->p, NULL, kc, NULL);
    vc = zt_program_scale(node->p, NULL, vc, NULL);
    attrs.head = D;
    for (int64_t t = 0; t < n; t++) {
        int x = zt_program_slice(node->p, NULL, node->in[0], &(zt_slice_attrs){1, t, t + 1});
        int pos = attn_positions(node, b, 1, t);
        x = reshaped(node, x, 2, rows);
        int q = attn_head_norm_rope(node, attn_projection(node, x, "wq", "bq"), "q_norm", pos);
        int k = attn_head_norm_rope(node, attn_projection(node, x, "wk", "bk"), "k_norm", pos);
        kc = zt_program_kv_put(node->p, NULL, kc, k, pos, seq, table);
        vc = zt_program_kv_put(node->p, NULL, vc, attn_projection(node, x, "wv", "bv"), pos, seq, table);
        int o = zt_program_attention(node->p, NULL, q, kc, vc, pos, seq, table, &attrs);
        o = reshaped(node, attn_projection(node, o, "wo", "bo"), 3, step);
        y = t ? zt_program_concat(node->p, NULL, y, o, ZT_NONE, ZT_NONE, ZT_NONE, &along) : o;
    }
    free(zeros);
    free(ids);
    return y;
}

/* Attention and a gated layer, each after a norm and beside a residual. */
static int build_llama_block(const call *node)
{
    const int64_t *dim = node->type[0].dim, rows[] = {dim[0] * dim[1], dim[2]};
    const zt_rms_norm_attrs norm = {number(node, "eps"), 0};
    int x = reshaped(node, node->in[0], 2, rows);
    int h = zt_program_rms_norm(node->p, NULL, x, named(node, "norm1"), &norm, NULL);
    h = attn_projection(node, attn_self_attention(node, h, dim[0], dim[1], true), "wo", NULL);
    int sum,
        g = zt_program_add_rms_norm(node->p, NULL, h, x, named(node, "norm2"), &(zt_add_rms_norm_attrs){norm.eps}, &sum, NULL);
    g = zt_program_swiglu(node->p, NULL, attn_projection(node, g, "w_gate", NULL), attn_projection(node, g, "w_up", NULL));
    return reshaped(node, zt_program_add(node->p, NULL, sum, attn_projection(node, g, "w_down", NULL)), 3, dim);
}

static const spelling layers_attention_ops[] = {
    {"mha", .build = build_mha},
    {"mha_decode", .build = build_mha_decode},
    {"llama_block", .build = build_llama_block},
};

#endif
