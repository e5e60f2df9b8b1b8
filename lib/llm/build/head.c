/* head.c - multi-token prediction: the head that reads the model's hidden state of a token and the token that came next, and predicts the
 * one after that.
 *
 *     x      = eh_proj (enorm(embedding of the next token) | hnorm(hidden))
 *     y      = layer(x), with a cache of its own
 *     logits = output matrix (shared_head_norm(y))
 *
 * `hidden` is the model's state behind its last norm. What a step further reads in its place is the head's own: behind its norm in
 * Qwen3-Next and Qwen3.5, before it in DeepSeek V3, V3.2 and GLM-4.5 (vLLM's qwen3_next_mtp.py, deepseek_mtp.py, glm4_moe_mtp.py; as facts).
 */
#include "lib/llm/build/internal.h"

int zt_emit_head_input(zt_program_builder *builder, int ids, int x)
{
    zt_prog *program = builder->program;
    const int table = zt_weight_data(builder, ZT_W_NEXT_EMBED);
    if (table != ZT_NONE) x = zt_program_gather(program, "next_x", table, ids, NULL);
    x = zt_emit_norm(builder, "next_embed", x, ZT_W_NEXT_EMBED_NORM, ZT_WEIGHT_COUNT, 0);
    const int hidden = zt_emit_norm(builder, "next_hidden", builder->hidden, ZT_W_NEXT_HIDDEN_NORM, ZT_WEIGHT_COUNT, 0);
    const int both = zt_program_concat(program, "next_both", x, hidden, ZT_NONE, ZT_NONE, ZT_NONE, &(zt_concat_attrs){.axis = 1});
    return zt_emit_linear(builder, "next_in", both, zt_weight_data(builder, ZT_W_NEXT_IN), ZT_NONE, false);
}

int zt_emit_head_norm(zt_program_builder *builder, int x)
{
    const bool own = zt_weight_data(builder, ZT_W_NEXT_OUT_NORM) != ZT_NONE;
    const int normed = zt_emit_norm(builder, "next_norm", x, own ? ZT_W_NEXT_OUT_NORM : ZT_W_OUT_NORM, ZT_WEIGHT_COUNT, 0);
    builder->hidden = builder->hyper->arch->heads == ZT_HEADS_NORMED ? normed : x;
    return normed;
}
