/* vjp_attention.h - how the ops of golden/ops/vjp are spelled in
 * zt: attention and the fused ops beside it. */
#ifndef ZT_SPELL_VJP_ATTENTION_H
#define ZT_SPELL_VJP_ATTENTION_H

#include "tests/ops/spell/spell.h"

/* q [b,h,s,d]; with fewer queries than keys the first or the last of both are aligned. */
static int build_sdpa(const call *node)
{
    zt_sdpa_attrs a = zt_sdpa_defaults();
    a.scale = number(node, "scale");
    a.causal = number(node, "causal") != 0;
    if (word_is(node, "causal_align", "bottom-right")) a.align = (zt_enum_string){"end"};
    return zt_program_sdpa(node->p, NULL, node->in[0], node->in[1], node->in[2], ZT_NONE, ZT_NONE, &a, NULL);
}

/* x w of [n,m] and [m,heads*head] as [1,n,heads,head]. */
static int attn_projected(const call *node, int x, int w, int64_t heads)
{
    const int64_t n = node->type[4].dim[0], shape[] = {1, n, heads, node->type[w].dim[1] / heads};
    return reshaped(node, zt_program_matmul(node->p, NULL, x, node->in[w], NULL), 4, shape);
}

/* softmax(Q K^T / sqrt(head)) V by head, then Wo. */
static int build_multi_head_attention(const call *node)
{
    zt_sdpa_attrs a = zt_sdpa_defaults();
    int64_t heads = int_or(node, "num_heads", 1);
    a.layout = (zt_enum_string){"bshd"};
    int q = attn_projected(node, node->in[4], 0, heads), k = attn_projected(node, node->in[4], 1, heads);
    int v = attn_projected(node, node->in[4], 2, heads);
    int mask = given(node, 5) ? node->in[5] : ZT_NONE;
    int y = zt_program_sdpa(node->p, NULL, q, k, v, mask, ZT_NONE, &a, NULL);
    const int64_t rows[] = {node->type[4].dim[0], node->type[2].dim[1]};
    return zt_program_matmul(node->p, NULL, reshaped(node, y, 2, rows), node->in[3], NULL);
}

/* A query a sequence against a pool [blocks,block,heads,dim]: `attention` by seq and table. */
static int build_paged_gqa(const call *node)
{
    const json_t *given_table = json_object_get(node->attrs, "block_table");
    const int64_t count = dim_of(node, 0, 0), blocks = dim_of(node, 1, 0), size = dim_of(node, 1, 1);
    const int64_t D = dim_of(node, 0, 2), q_dims[] = {count, dim_of(node, 0, 1) * D};
    const int64_t kv_dims[] = {blocks * size, dim_of(node, 1, 2) * D};
    const int64_t table_dims[] = {count, blocks}, y_dims[] = {count, dim_of(node, 0, 1), D};
    int32_t pos[64], seq[64], table[4096] = {0};
    if (count > 64 || count * blocks > 4096) return -1;
    for (int64_t s = 0; s < count; s++) {
        const json_t *row = json_array_get(given_table, (size_t)s);
        pos[s] = (int32_t)int_or(node, "seq_len", 1) - 1;
        seq[s] = (int32_t)s;
        for (size_t i = 0; i < json_array_size(row); i++)
            table[s * blocks + (int64_t)i] = (int32_t)json_number(json_array_get(row, i));
    }
    zt_attention_attrs a = zt_attention_defaults();
    a.head = D;
    int y = zt_program_attention(node->p, NULL, reshaped(node, node->in[0], 2, q_dims), reshaped(node, node->in[1], 2, kv_dims),
                                 reshaped(node, node->in[2], 2, kv_dims), constant(node, ZT_I32, 1, &count, pos),
                                 constant(node, ZT_I32, 1, &count, seq), constant(node, ZT_I32, 2, table_dims, table), &a);
    return reshaped(node, y, 3, y_dims);
}

static int build_qk_norm_rope(const call *node)
{
    zt_qk_norm_rope_attrs a = zt_qk_norm_rope_defaults();
    a.eps = number(node, "eps");
    a.q_heads = int_or(node, "num_q_heads", 0);
    return zt_program_qk_norm_rope(node->p, NULL, node->in[0], node->in[1], node->in[2], node->in[3], node->in[4], &a);
}

static const spelling vjp_attention_ops[] = {
    {"qk_norm_rope", .build = build_qk_norm_rope},
    {"sdpa", .build = build_sdpa},
    {"multi_head_attention", .build = build_multi_head_attention},
    {"paged_gqa", .build = build_paged_gqa},
};

#endif
