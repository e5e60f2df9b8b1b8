/* per_layer.c - the builder of per-layer embeddings (Gemma 3n and 4): besides the embedding that the first layer reads,
 * a token has a short one for each layer, a row of a second table. With L layers and P entries for each:
 *
 *     e    = (norm(x projection^T / sqrt(width)) + sqrt(P) table[id]) / sqrt(2)         f32[n, L P], once
 *     y    = x + norm((gelu(x gate^T) * e[layer]) out^T)                                in each layer
 *
 * Of the table only the rows of the step's tokens are read.
 */
#include "lib/llm/build/internal.h"

#include <math.h>

int zt_embed_per_layer(zt_program_builder *builder, int ids, int x)
{
    zt_prog *program = builder->program;
    const zt_hyper *hyper = builder->hyper;
    if (!(hyper->parts & ZT_PART_PER_LAYER)) return ZT_NONE;
    int table = zt_weight_data(builder, ZT_W_PER_LAYER_EMBED), projection = zt_weight_data(builder, ZT_W_PER_LAYER_PROJECTION);
    int own = zt_program_gather(program, "pl_own", table, ids, NULL);
    own = zt_emit_scale(builder, "pl_scaled", own, sqrt((double)hyper->per_layer));
    int made = zt_emit_linear(builder, "pl_made", x, projection, ZT_NONE, false);
    made = zt_emit_scale(builder, "pl_less", made, 1 / sqrt((double)hyper->width));
    made = zt_emit_norm(builder, "pl_norm", made, ZT_W_PER_LAYER_PROJECTION_NORM, ZT_WEIGHT_COUNT, hyper->per_layer);
    return zt_emit_scale(builder, "pl", zt_program_add(program, "pl_sum", made, own), sqrt(0.5));
}

int zt_add_per_layer(zt_program_builder *builder, int x, int source)
{
    zt_prog *program = builder->program;
    int64_t length = builder->hyper->per_layer;
    if (builder->per_layer == ZT_NONE) return x;
    int own = zt_emit_columns(builder, "plo", builder->per_layer, builder->layer * length, (builder->layer + 1) * length);
    int gate = zt_layer_linear(builder, "plg", source, ZT_W_PER_LAYER_GATE, ZT_WEIGHT_COUNT);
    int gated = builder->hyper->act(program, zt_layer_label(builder, "plf"), gate, own);
    int y = zt_layer_linear(builder, "pld", gated, ZT_W_PER_LAYER_OUT, ZT_WEIGHT_COUNT);
    y = zt_emit_layer_norm(builder, "pln", y, ZT_W_PER_LAYER_POST, ZT_WEIGHT_COUNT);
    return x == ZT_NONE ? y : zt_program_add(program, zt_layer_label(builder, "plx"), x, y);
}
