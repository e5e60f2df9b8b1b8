/* alibi.c - the builder of linear biases for lessons (Press et al., "Train Short, Test Long", 2022): each head's slope times the
 * distance of query and key, below 0. zt_alibi_slope (lib/ops/alibi.h) has the slopes; elsewhere the op attention_alibi adds
 * them. */
#include "lib/llm/build/internal.h"
#include "lib/ops/alibi.h"

#include <inttypes.h>
#include <stdio.h>

/* f32[heads,1,1]: minus the slopes, one part of a vector for each head. */
static int slopes(zt_program_builder *builder, int one)
{
    zt_prog *program = builder->program;
    const zt_hyper *hyper = builder->hyper;
    int64_t heads = hyper->layer[0].n_heads;
    zt_reshape_attrs column = {.shape = {3, {heads, 1, 1}}};
    int all = ZT_NONE;
    for (int64_t head = 0; head < heads; head++) {
        char names[2][32];
        snprintf(names[0], sizeof names[0], "b_slope_%" PRId64, head);
        snprintf(names[1], sizeof names[1], "b_list_%" PRId64, head);
        int slope =
            zt_program_fill_like(program, names[0], one, &(zt_fill_like_attrs){-zt_alibi_slope(hyper->alibi, heads, head)});
        all = all == ZT_NONE
                  ? slope
                  : zt_program_concat(program, names[1], all, slope, ZT_NONE, ZT_NONE, ZT_NONE, &(zt_concat_attrs){.axis = 0});
    }
    return zt_program_reshape(program, "b_slopes", all, &column);
}

int zt_emit_lesson_biases(zt_program_builder *builder)
{
    zt_prog *program = builder->program;
    int64_t tokens = builder->opts->lesson;
    zt_reshape_attrs column = {.shape = {2, {tokens, 1}}};
    int at = zt_program_slice(program, "b_pos", builder->pos, &(zt_slice_attrs){.axis = 0, .from = 0, .to = tokens});
    at = zt_program_cast(program, "b_at", at, &(zt_cast_attrs){.to.s = "f32"});
    int one = zt_program_slice(program, "b_one", at, &(zt_slice_attrs){.axis = 0, .from = 0, .to = 1});
    int distance = zt_program_sub(program, "b_sub", zt_program_reshape(program, "b_query", at, &column), at);
    distance = zt_program_abs(program, "b_distance", distance);
    return zt_program_mul(program, "b", slopes(builder, one), distance);
}
