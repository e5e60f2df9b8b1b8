/* recurrent.c - the builder of what recurrent layers share: states in slots, and causal convolutions.
 *
 * A state is f32[slots,...]. The inputs `from` and `to` say for each row of a step in which slot its state begins, and which
 * slot gets the state after it.
 */
#include "lib/llm/build/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Zeros for a lesson: f32[1,...]. */
static int zero_state(zt_program_builder *builder, const char *what, int rank, const int64_t *whole)
{
    zt_prog *program = builder->program;
    char label[32];
    zt_broadcast_to_attrs attrs = {.shape = {rank, {0}}};
    memcpy(attrs.shape.dim, whole, (size_t)rank * sizeof *whole);
    snprintf(label, sizeof label, "%s_zero", what);
    int zero = zt_program_cast(program, zt_layer_label(builder, label), builder->to, &(zt_cast_attrs){.to.s = "f32"});
    snprintf(label, sizeof label, "%s_first", what);
    zero = zt_emit_slice(builder, label, zero, 0, 0, 1);
    snprintf(label, sizeof label, "%s_fill", what);
    zero = zt_program_fill_like(program, zt_layer_label(builder, label), zero, &(zt_fill_like_attrs){0});
    return zt_program_broadcast_to(program, zt_layer_label(builder, what), zero, ZT_NONE, &attrs);
}

int zt_layer_state(zt_program_builder *builder, const char *what, int rank, const int64_t *dim)
{
    int64_t whole[ZT_MAX_RANK] = {builder->opts->lesson ? 1 : builder->opts->slots};
    memcpy(whole + 1, dim, (size_t)(rank - 1) * sizeof *dim);
    if (builder->opts->lesson) return zero_state(builder, what, rank, whole);
    return zt_prog_state(builder->program, zt_layer_label(builder, what), ZT_F32, rank, whole);
}

void zt_layer_keep_state(zt_program_builder *builder, int before, int after)
{
    if (!builder->opts->lesson) zt_prog_keep(builder->program, before, after);
}

/* from: ZT_STATE_ZEROS at position 0, ZT_STATE_CONTINUED behind it. */
void zt_lesson_states(zt_program_builder *builder)
{
    zt_prog *program = builder->program;
    const zt_cast_attrs i32 = {.to.s = "i32"};
    int at = zt_program_cast(program, "from_pos", builder->pos, &(zt_cast_attrs){.to.s = "f32"});
    int later = zt_program_clamp(program, "from_later", at, &(zt_clamp_attrs){0, 1});
    later = zt_emit_scale(builder, "from_scale", later, ZT_STATE_CONTINUED - ZT_STATE_ZEROS);
    later = zt_program_add_scalar(program, "from_sum", later, &(zt_add_scalar_attrs){ZT_STATE_ZEROS});
    int none = zt_program_fill_like(program, "to_none", at, &(zt_fill_like_attrs){-1});
    builder->from = zt_program_cast(program, "from", later, &i32);
    builder->to = zt_program_cast(program, "to", none, &i32);
}

/* ---- causal convolutions --------------------------------------------------------------------- */

typedef struct convolution {
    int filter, bias;        /* f32[C,K], f32[C] or ZT_NONE */
    int64_t columns, length; /* C, K */
    bool silu;
    char letter; /* with which names of a lesson's values begin */
} convolution;

/* The filter in f32, which the op reads: that is how converters write filters, but a file may say otherwise. */
static bool read_filter(zt_program_builder *builder, zt_weight weight, zt_weight bias, bool silu, convolution *made)
{
    int data = zt_weight_data(builder, weight);
    if (data < 0) return false;
    const zt_type type = zt_prog_value(builder->program, data)->type; /* a copy: the bias may move the values */
    *made = (convolution){data, zt_weight_data(builder, bias), type.dim[0], type.dim[1], silu, 'c'};
    if (type.dtype == ZT_F32) return true;
    made->filter = zt_program_cast(builder->program, zt_layer_label(builder, "cf"), data, &(zt_cast_attrs){.to.s = "f32"});
    return made->filter >= 0;
}

static const char *part_label(zt_program_builder *builder, const convolution *by, char part)
{
    return zt_layer_label(builder, (const char[]){by->letter, part, 0});
}

/* Of a lesson: each text by itself, as a convolution [texts,columns,tokens] with a gradient. */
static int convolve_texts(zt_program_builder *builder, const char *what, int x, const convolution *by)
{
    zt_prog *program = builder->program;
    int64_t texts = builder->texts, tokens = builder->opts->lesson, C = by->columns;
    zt_reshape_attrs apart = {.shape = {3, {texts, tokens, C}}}, taps = {.shape = {3, {C, 1, by->length}}},
                     flat = {.shape = {2, {builder->row_count, C}}};
    zt_transpose_attrs turned = {{3, {0, 2, 1}}};
    zt_conv_attrs attrs = zt_conv_defaults();
    attrs.groups = C;
    attrs.pad = (zt_ints){1, {by->length - 1}};
    attrs.pad_end = (zt_ints){1, {0}};
    int y = zt_program_reshape(program, part_label(builder, by, 'a'), x, &apart);
    y = zt_program_transpose(program, part_label(builder, by, 't'), y, &turned);
    int filter = zt_program_reshape(program, part_label(builder, by, 'w'), by->filter, &taps);
    y = zt_program_conv(program, part_label(builder, by, 'c'), y, filter, by->bias, &attrs);
    y = zt_program_transpose(program, part_label(builder, by, 'b'), y, &turned);
    y = zt_program_reshape(program, by->silu ? part_label(builder, by, 'r') : zt_layer_label(builder, what), y, &flat);
    return by->silu ? zt_program_silu(program, zt_layer_label(builder, what), y) : y;
}

static int convolve(zt_program_builder *builder, const char *what, const char *state, int x, const convolution *by)
{
    zt_causal_conv_attrs attrs = zt_causal_conv_defaults();
    char after[24], out_name[24];
    int out[2];
    if (builder->opts->lesson) return convolve_texts(builder, what, x, by);
    int before = zt_layer_state(builder, state, 3, (int64_t[]){by->length - 1, by->columns});
    if (by->silu) snprintf(attrs.act.s, sizeof attrs.act.s, "silu");
    snprintf(after, sizeof after, "%sp%" PRId64, state, builder->layer);
    snprintf(out_name, sizeof out_name, "%s%" PRId64, what, builder->layer);
    const int in[] = {before, x, by->filter, builder->from, builder->to, by->bias};
    if (zt_prog_op(builder->program, ZT_OP_causal_conv, &attrs, in, (const char *[]){after, out_name}, out) != ZT_OK) return -1;
    zt_layer_keep_state(builder, before, out[0]);
    return out[1];
}

int zt_layer_causal_conv(zt_program_builder *builder, const char *what, const char *state, int x, zt_weight weight,
                         zt_weight bias, bool silu)
{
    convolution by;
    return read_filter(builder, weight, bias, silu, &by) ? convolve(builder, what, state, x, &by) : -1;
}

/* The filter is 1 for the row before and -1 for the row; its values are made of a norm's, for their shape. */
int zt_layer_token_shift(zt_program_builder *builder, char letter, int x)
{
    zt_prog *program = builder->program;
    const int64_t width = builder->hyper->width;
    const char state[] = {letter, 's', 0}, what[] = {letter, 'd', 0};
    convolution by = {.bias = ZT_NONE, .columns = width, .length = 2, .letter = letter};
    zt_reshape_attrs column = {.shape = {2, {width, 1}}};
    int taps[2], norm = zt_weight_data(builder, ZT_W_ATTN_NORM);
    for (int i = 0; i < 2; i++) {
        const char sign = i ? 'm' : 'p', vector[] = {letter, sign, '_', 0}, label[] = {letter, sign, 'c', 0};
        taps[i] = zt_program_fill_like(program, zt_layer_label(builder, vector), norm, &(zt_fill_like_attrs){i ? -1 : 1});
        taps[i] = zt_program_reshape(program, zt_layer_label(builder, label), taps[i], &column);
    }
    by.filter = zt_program_concat(program, part_label(builder, &by, 'h'), taps[0], taps[1], ZT_NONE, ZT_NONE, ZT_NONE,
                                  &(zt_concat_attrs){.axis = 1});
    return convolve(builder, what, state, x, &by);
}
