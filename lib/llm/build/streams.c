/* streams.c - the builder of AltUp (Baykal et al., 2023; Gemma 3n): a token has S streams x[0] .. x[S-1], of which a layer
 * computes one, x[a], and predicts and corrects the others by coefficients that a router gives.
 *
 *     r(x)  = tanh(norm(x) router^T / width)
 *     p[i]  = x[i] + sum over j of (r(x[a]) predict^T)[S i + j] x[j]
 *     y     = the layer's attention, a path of low rank beside it (Laurel), and feed-forward, of p[a]
 *     x[i]  = p[i] + (1 + (r(y) correct^T)[i]) (y - p[a])
 *     x[i] += e for i > 0, e from the token's embedding for the layer, whose gate reads x[a] times a vector
 *
 * Streams are one value [rows, S width]. They begin as the embedding, and its products with S - 1 matrices at its magnitude;
 * at the end all but the first pass S - 1 others, and their mean is what the last norm reads.
 */
#include "lib/llm/build/internal.h"

#include <math.h>
#include <stdio.h>

#define LEAST_MEAN_SQUARE 1e-5

static zt_reshape_attrs shape_of(int rank, int64_t first, int64_t second, int64_t third)
{
    return (zt_reshape_attrs){.shape = {rank, {first, second, third}}};
}

/* [rows, S width] as [rows, S, width], S the number of streams that it has. */
static int by_stream(zt_program_builder *builder, const char *label, int x, int64_t streams)
{
    zt_reshape_attrs apart = shape_of(3, builder->row_count, streams, builder->hyper->width);
    return zt_program_reshape(builder->program, label, x, &apart);
}

static int side_by_side(zt_program_builder *builder, const char *label, int x, int64_t streams)
{
    zt_reshape_attrs flat = shape_of(2, builder->row_count, streams * builder->hyper->width, 0);
    return zt_program_reshape(builder->program, label, x, &flat);
}

/* ---- the first and the last ------------------------------------------------------------------ */

/* The numbers 0 to S - 2 for each row, i32[rows, S - 1]. */
static int matrix_numbers(zt_program_builder *builder, const char *const label[4], int x)
{
    zt_prog *program = builder->program;
    zt_slice_attrs few = {.axis = 1, .from = 0, .to = builder->hyper->other_streams};
    int like = zt_program_slice(program, label[0], x, &few);
    int ones = zt_program_fill_like(program, label[1], like, &(zt_fill_like_attrs){1});
    int numbers = zt_program_cumsum(program, label[2], ones, &(zt_cumsum_attrs){.axis = 1, .exclusive = 1});
    return zt_program_cast(program, label[3], numbers, &(zt_cast_attrs){.to.s = "i32"});
}

/* sqrt(mean(x^2)) along the last axis; with a least mean, if that is not 0. */
static int magnitude(zt_program_builder *builder, const char *const label[4], int x, int axis, double least)
{
    zt_prog *program = builder->program;
    zt_mean_attrs of_row = {.axes = {1, {axis}}, .keepdims = 1};
    int mean = zt_program_mean(program, label[1], zt_program_square(program, label[0], x), &of_row);
    if (least > 0) mean = zt_program_clamp(program, label[2], mean, &(zt_clamp_attrs){least, INFINITY});
    return zt_program_sqrt(program, label[3], mean);
}

/* Streams [rows, S - 1, width] at the magnitude of `model`, [rows, width]; [rows, (S - 1) width]. */
static int at_magnitude(zt_program_builder *builder, const char *const label[12], int streams, int model)
{
    zt_prog *program = builder->program;
    zt_reshape_attrs column = shape_of(3, builder->row_count, 1, 1);
    int target = zt_program_reshape(program, label[8], magnitude(builder, label, model, 1, 0), &column);
    int scaled = zt_program_mul(program, label[9], streams, target);
    scaled = zt_program_div(program, label[10], scaled, magnitude(builder, label + 4, streams, 2, LEAST_MEAN_SQUARE));
    return side_by_side(builder, label[11], scaled, builder->hyper->other_streams);
}

/* The product of each stream with its matrix; of one that is the same for all, with each matrix. */
static int stream_linear(zt_program_builder *builder, const char *label, int x, zt_weight weight, int numbers)
{
    zt_expert_linear_attrs attrs = zt_expert_linear_defaults();
    int data = zt_weight_data(builder, weight);
    if (data < 0) return -1;
    snprintf(attrs.act.s, sizeof attrs.act.s, "%s", zt_act_word(builder, data, false));
    return zt_program_expert_linear(builder->program, label, x, data, numbers, ZT_NONE, &attrs);
}

static int concat_columns(zt_program_builder *builder, const char *label, int first, int second)
{
    return zt_program_concat(builder->program, label, first, second, ZT_NONE, ZT_NONE, ZT_NONE, &(zt_concat_attrs){1});
}

int zt_spread_streams(zt_program_builder *builder, int x)
{
    static const char *const number[4] = {"su_few", "su_ones", "su_sum", "su_which"};
    static const char *const scale[12] = {"su_q",  "su_m",  "su_c", "su_r",  "su_oq", "su_om",
                                          "su_oc", "su_or", "su_t", "su_ot", "su_os", "su_o"};
    int others = stream_linear(builder, "su_made", x, ZT_W_STREAMS, matrix_numbers(builder, number, x));
    return concat_columns(builder, "su", x, at_magnitude(builder, scale, others, x));
}

int zt_join_streams(zt_program_builder *builder, int streams)
{
    static const char *const number[4] = {"sd_few", "sd_ones", "sd_sum", "sd_which"};
    static const char *const scale[12] = {"sd_q",  "sd_m",  "sd_c", "sd_r",  "sd_oq", "sd_om",
                                          "sd_oc", "sd_or", "sd_t", "sd_ot", "sd_os", "sd_o"};
    const zt_hyper *hyper = builder->hyper;
    zt_prog *program = builder->program;
    zt_slice_attrs head = {.axis = 1, .from = 0, .to = hyper->width}, tail = {1, hyper->width, hyper->streams * hyper->width};
    int first = zt_program_slice(program, "sd_first", streams, &head);
    int others = by_stream(builder, "sd_apart", zt_program_slice(program, "sd_rest", streams, &tail), hyper->other_streams);
    others = stream_linear(builder, "sd_made", others, ZT_W_UNSTREAM, matrix_numbers(builder, number, first));
    int all = concat_columns(builder, "sd", first, at_magnitude(builder, scale, others, first));
    all = by_stream(builder, "sd_all", all, hyper->streams);
    return zt_program_mean(program, "sd_mean", all, &(zt_mean_attrs){.axes = {1, {1}}});
}

/* ---- a layer --------------------------------------------------------------------------------- */

/* The coefficients of the prediction, or of the correction, for what the router reads. */
static int coefficients(zt_program_builder *builder, const char *const what[5], int x, zt_weight weight)
{
    int read = zt_emit_layer_norm(builder, what[0], x, ZT_W_STREAM_ROUTER_NORM, ZT_WEIGHT_COUNT);
    read = zt_emit_scale(builder, zt_layer_label(builder, what[1]), read, 1 / (double)builder->hyper->width);
    int routed = zt_layer_linear(builder, what[2], read, ZT_W_STREAM_ROUTER, ZT_WEIGHT_COUNT);
    routed = zt_program_tanh(builder->program, zt_layer_label(builder, what[3]), routed);
    return zt_layer_linear(builder, what[4], routed, weight, ZT_WEIGHT_COUNT);
}

static int active_stream(zt_program_builder *builder, const char *what, int streams)
{
    int64_t width = builder->hyper->width, from = builder->hyper->active_stream * width;
    return zt_emit_columns(builder, what, streams, from, from + width);
}

static int predict_streams(zt_program_builder *builder, int streams)
{
    static const char *const what[5] = {"srn", "srs", "srr", "srt", "sp"};
    zt_prog *program = builder->program;
    int64_t count = builder->hyper->streams;
    zt_reshape_attrs square = shape_of(3, builder->row_count, count, count);
    int mixing = coefficients(builder, what, active_stream(builder, "sa", streams), ZT_W_PREDICT);
    mixing = zt_program_reshape(program, zt_layer_label(builder, "sq"), mixing, &square);
    int apart = by_stream(builder, zt_layer_label(builder, "sx"), streams, count);
    int change = zt_program_matmul(program, zt_layer_label(builder, "sm"), mixing, apart, NULL);
    change = side_by_side(builder, zt_layer_label(builder, "sc"), change, count);
    return zt_program_add(program, zt_layer_label(builder, "spr"), change, streams);
}

/* predicted[i] + (1 + c[i]) (y - before), before the active stream of `predicted`. */
static int correct_streams(zt_program_builder *builder, int predicted, int before, int y)
{
    static const char *const what[5] = {"scn", "scs", "scr", "sct", "sk"};
    zt_prog *program = builder->program;
    int64_t count = builder->hyper->streams;
    zt_reshape_attrs column = shape_of(3, builder->row_count, count, 1);
    int share = coefficients(builder, what, y, ZT_W_CORRECT);
    share = zt_program_add_scalar(program, zt_layer_label(builder, "so"), share, &(zt_add_scalar_attrs){1});
    share = zt_program_reshape(program, zt_layer_label(builder, "sh"), share, &column);
    int change = zt_program_sub(program, zt_layer_label(builder, "si"), y, before);
    change = by_stream(builder, zt_layer_label(builder, "sj"), change, 1);
    change = zt_program_mul(program, zt_layer_label(builder, "sl"), share, change);
    change = side_by_side(builder, zt_layer_label(builder, "sf"), change, count);
    return zt_program_add(program, zt_layer_label(builder, "scd"), change, predicted);
}

/* Attention and the path of low rank, then the feed-forward; x is the active stream. */
static int transform_stream(zt_program_builder *builder, int x)
{
    zt_prog *program = builder->program;
    int read = zt_emit_layer_norm(builder, "h", x, ZT_W_ATTN_NORM, ZT_WEIGHT_COUNT);
    int low = zt_layer_linear(builder, "ll", read, ZT_W_LAUREL_LEFT, ZT_WEIGHT_COUNT);
    low = zt_layer_linear(builder, "lr", low, ZT_W_LAUREL_RIGHT, ZT_WEIGHT_COUNT);
    low = zt_emit_layer_norm(builder, "ln", low, ZT_W_LAUREL_POST, ZT_WEIGHT_COUNT);
    low = zt_program_add(program, zt_layer_label(builder, "lo"), read, low);
    int attended = zt_layer_linear(builder, "o", zt_emit_attention(builder, read), ZT_W_O, ZT_W_O_BIAS);
    attended = zt_emit_layer_norm(builder, "on", attended, ZT_W_ATTN_POST, ZT_WEIGHT_COUNT);
    int y = zt_program_add(program, zt_layer_label(builder, "y"), x, attended);
    y = zt_program_add(program, zt_layer_label(builder, "yl"), y, low);
    y = zt_emit_scale(builder, zt_layer_label(builder, "ys"), y, sqrt(0.5));
    int fed = zt_emit_feed_forward(builder, zt_emit_layer_norm(builder, "hf", y, ZT_W_FF_NORM, ZT_WEIGHT_COUNT));
    fed = zt_emit_layer_norm(builder, "dn", fed, ZT_W_FF_POST, ZT_WEIGHT_COUNT);
    return zt_program_add(program, zt_layer_label(builder, "x"), y, fed);
}

/* All streams but the first plus what the layer makes of the token's embedding for it. */
static int add_embedding(zt_program_builder *builder, int streams)
{
    zt_prog *program = builder->program;
    const zt_hyper *hyper = builder->hyper;
    int64_t width = hyper->width, count = hyper->streams;
    int source = active_stream(builder, "se", streams);
    source = zt_program_mul(program, zt_layer_label(builder, "sg"), source, zt_weight_data(builder, ZT_W_CORRECT_SCALE));
    int added = zt_add_per_layer(builder, ZT_NONE, source), first = zt_emit_columns(builder, "sy", streams, 0, width);
    added = by_stream(builder, zt_layer_label(builder, "sn"), added, 1);
    int others = zt_emit_columns(builder, "sz", streams, width, count * width);
    others = by_stream(builder, zt_layer_label(builder, "sw"), others, hyper->other_streams);
    others = zt_program_add(program, zt_layer_label(builder, "sv"), others, added);
    others = side_by_side(builder, zt_layer_label(builder, "st_"), others, hyper->other_streams);
    return concat_columns(builder, zt_layer_label(builder, "ss_"), first, others);
}

int zt_emit_stream_layer(zt_program_builder *builder, int streams)
{
    int predicted = predict_streams(builder, streams), before = active_stream(builder, "sb_", predicted);
    int y = transform_stream(builder, before);
    return add_embedding(builder, correct_streams(builder, predicted, before, y));
}
