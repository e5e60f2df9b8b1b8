/* rwkv.c - the builder of RWKV-7's layers (Peng et al., 2025): a time mix, and a channel mix in place of the feed-forward.
 *
 *   time mix      x_i     = x + lerp_i (x of the row before - x)         for i of r, w, k, v, a and g
 *                 r, k, v = x_i by a matrix each
 *                 w       = exp(-e^-1/2 sigmoid(w0 + tanh(x_w w1^T) w2^T))
 *                 a       = sigmoid(a0 + x_a a1^T a2^T)
 *                 g       = sigmoid(x_g g1^T) g2^T
 *                 v      += (v of layer 0 - v) sigmoid(v0 + x_v v1^T v2^T)      in layers behind the first
 *                 c       = k k_k of each head, divided by its length
 *                 k      += k k_a (a - 1)
 *                 y       = the recurrence wkv7 of r, w, k, v, -c and c a
 *                 result  = (group norm of y by head + v (sum over the head of r k r_k)) g
 *
 *   channel mix   relu(k of x + lerp (x of the row before - x))^2 by a matrix
 *
 * The formulas are those of BlinkDL's rwkv_v7_numpy.py, as facts.
 */
#include "lib/llm/build/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define HEAD_NORM_EPSILON 64e-5               /* of the group norm: no key says it */
#define LENGTH_EPSILON    1e-24               /* added to the square of a length */
#define SLOWEST_DECAY     0.60653065971263342 /* e^(-1/2) */

enum { LERP_R, LERP_W, LERP_K, LERP_V, LERP_A, LERP_G };

static int label_op2(zt_program_builder *builder, int (*op)(zt_prog *, const char *, int, int), const char *what, int a, int b)
{
    return op(builder->program, zt_layer_label(builder, what), a, b);
}

static int add(zt_program_builder *builder, const char *what, int a, int b)
{
    return label_op2(builder, zt_program_add, what, a, b);
}

static int multiply(zt_program_builder *builder, const char *what, int a, int b)
{
    return label_op2(builder, zt_program_mul, what, a, b);
}

static int sigmoid(zt_program_builder *builder, const char *what, int x)
{
    return zt_program_sigmoid(builder->program, zt_layer_label(builder, what), x);
}

/* [rows, heads * head] by head, and back. */
static int by_head(zt_program_builder *builder, const char *what, int x)
{
    const zt_time_mix_sizes *sizes = &builder->hyper->time_mix;
    zt_reshape_attrs attrs = {.shape = {3, {builder->row_count, sizes->heads, sizes->head}}};
    return zt_program_reshape(builder->program, zt_layer_label(builder, what), x, &attrs);
}

static int flat(zt_program_builder *builder, const char *what, int x)
{
    zt_reshape_attrs attrs = {.shape = {2, {builder->row_count, builder->hyper->width}}};
    return zt_program_reshape(builder->program, zt_layer_label(builder, what), x, &attrs);
}

/* ---- what the products read ------------------------------------------------------------------ */

typedef struct mixture {
    int x, shift; /* the row, and the row before less the row */
    int lerps;    /* f32[lerps,1,1,width] */
} mixture;

static mixture read_mixture(zt_program_builder *builder, int x)
{
    mixture of = {.x = x, .shift = zt_layer_token_shift(builder, 'j', x), .lerps = zt_weight_data(builder, ZT_W_TIME_LERP)};
    if (of.lerps >= 0 && zt_prog_value(builder->program, of.lerps)->type.dtype != ZT_F32)
        of.lerps = zt_program_cast(builder->program, zt_layer_label(builder, "tm_lf"), of.lerps, &(zt_cast_attrs){.to.s = "f32"});
    return of;
}

/* x + lerp shift */
static int mix_input(zt_program_builder *builder, const mixture *of, char letter, int number)
{
    const char cut[] = {'t', 'l', letter, '_', 0}, lerp_label[] = {'t', 'l', letter, 0}, part[] = {'t', 's', letter, 0},
               label[] = {'t', 'x', letter, 0};
    zt_reshape_attrs vector = {.shape = {1, {builder->hyper->width}}};
    int lerp = zt_emit_slice(builder, cut, of->lerps, 0, number, number + 1);
    lerp = zt_program_reshape(builder->program, zt_layer_label(builder, lerp_label), lerp, &vector);
    return add(builder, label, of->x, multiply(builder, part, of->shift, lerp));
}

/* By a matrix of few rows or columns; its activations have 16 bits, as the state adds up what they cause. */
static int fine_linear(zt_program_builder *builder, const char *what, int x, zt_weight weight, zt_weight bias)
{
    return zt_emit_linear(builder, zt_layer_label(builder, what), x, zt_weight_data(builder, weight),
                          zt_weight_data(builder, bias), true);
}

/* w, what stays of each row of the state. */
static int emit_decay(zt_program_builder *builder, const mixture *of)
{
    int w = fine_linear(builder, "twd", mix_input(builder, of, 'w', LERP_W), ZT_W_TIME_W1, ZT_WEIGHT_COUNT);
    w = zt_program_tanh(builder->program, zt_layer_label(builder, "twt"), w);
    w = sigmoid(builder, "tws", fine_linear(builder, "twu", w, ZT_W_TIME_W2, ZT_W_TIME_W0));
    w = zt_program_scale(builder->program, zt_layer_label(builder, "twm"), w, &(zt_scale_attrs){.by = -SLOWEST_DECAY});
    return zt_program_exp(builder->program, zt_layer_label(builder, "tw"), w);
}

static int emit_rate(zt_program_builder *builder, const mixture *of)
{
    int a = fine_linear(builder, "tad", mix_input(builder, of, 'a', LERP_A), ZT_W_TIME_A1, ZT_WEIGHT_COUNT);
    return sigmoid(builder, "ta", fine_linear(builder, "tau", a, ZT_W_TIME_A2, ZT_W_TIME_A0));
}

/* Behind the first layer some of that layer's values. */
static int emit_values(zt_program_builder *builder, const mixture *of)
{
    int x = mix_input(builder, of, 'v', LERP_V);
    int v = fine_linear(builder, "tv", x, ZT_W_TIME_VALUE, ZT_WEIGHT_COUNT);
    if (builder->layer == 0) return builder->first_values = v;
    int share = fine_linear(builder, "tvl", x, ZT_W_TIME_V1, ZT_WEIGHT_COUNT);
    share = sigmoid(builder, "tvs", fine_linear(builder, "tvu", share, ZT_W_TIME_V2, ZT_W_TIME_V0));
    int more = zt_program_sub(builder->program, zt_layer_label(builder, "tvd"), builder->first_values, v);
    return add(builder, "tvf", v, multiply(builder, "tvm", more, share));
}

static int emit_gate(zt_program_builder *builder, const mixture *of)
{
    int g = fine_linear(builder, "tgd", mix_input(builder, of, 'g', LERP_G), ZT_W_TIME_G1, ZT_WEIGHT_COUNT);
    return fine_linear(builder, "tg", sigmoid(builder, "tgs", g), ZT_W_TIME_G2, ZT_WEIGHT_COUNT);
}

/* k k_k, of each head divided by its length: a norm with gains 1 / sqrt(head), made of some of k_k's entries for their shape. */
static int emit_direction(zt_program_builder *builder, int k)
{
    zt_prog *program = builder->program;
    const int64_t head = builder->hyper->time_mix.head;
    zt_rms_norm_attrs norm = {.eps = LENGTH_EPSILON / (double)head, .dims = head};
    int weight = zt_weight_data(builder, ZT_W_TIME_K_K);
    int gains = zt_emit_slice(builder, "tc_", weight, 0, 0, head);
    gains = zt_program_fill_like(program, zt_layer_label(builder, "tcg"), gains, &(zt_fill_like_attrs){1 / sqrt((double)head)});
    int x = multiply(builder, "tck", k, weight);
    return zt_program_rms_norm(program, zt_layer_label(builder, "tc"), x, gains, &norm, NULL);
}

/* k + k k_a (a - 1) */
static int emit_replacement(zt_program_builder *builder, int k, int rate)
{
    int part = multiply(builder, "tka", k, zt_weight_data(builder, ZT_W_TIME_K_A));
    int grown = multiply(builder, "tkr", rate, part);
    int more = zt_program_sub(builder->program, zt_layer_label(builder, "tkd"), grown, part);
    return add(builder, "tkf", k, more);
}

/* ---- the recurrence, and what follows -------------------------------------------------------- */

typedef struct operands {
    int r, w, k, v, a, b;
} operands;

static int emit_recurrence(zt_program_builder *builder, const operands *of)
{
    const zt_time_mix_sizes *sizes = &builder->hyper->time_mix;
    char names[2][24];
    int out[2];
    int before = zt_layer_state(builder, "wkv", 4, (int64_t[]){sizes->heads, sizes->head, sizes->head});
    snprintf(names[0], sizeof names[0], "wkvp%" PRId64, builder->layer);
    snprintf(names[1], sizeof names[1], "ty%" PRId64, builder->layer);
    const int in[] = {before, of->r, of->w, of->k, of->v, of->a, of->b, builder->from, builder->to};
    if (zt_prog_op(builder->program, ZT_OP_wkv7, NULL, in, (const char *[]){names[0], names[1]}, out) != ZT_OK) return -1;
    zt_layer_keep_state(builder, before, out[0]);
    return out[1];
}

/* A layer norm of each head, then the gains and biases of all. */
static int norm_heads(zt_program_builder *builder, int y)
{
    int gains = zt_weight_data(builder, ZT_W_TIME_NORM);
    if (gains == ZT_NONE) return y;
    y = by_head(builder, "tnh", y);
    y = zt_program_layer_norm(builder->program, zt_layer_label(builder, "tnn"), y, ZT_NONE, ZT_NONE,
                              &(zt_layer_norm_attrs){.eps = HEAD_NORM_EPSILON}, NULL, NULL);
    y = multiply(builder, "tng", flat(builder, "tnf", y), gains);
    return add(builder, "tn", y, zt_weight_data(builder, ZT_W_TIME_NORM_BIAS));
}

/* v times the sum of r k r_k over the head. */
static int emit_bonus(zt_program_builder *builder, const operands *of)
{
    int product = multiply(builder, "tbp", multiply(builder, "tbk", of->k, of->r), zt_weight_data(builder, ZT_W_TIME_R_K));
    product = by_head(builder, "tbh", product);
    int sum = zt_program_sum(builder->program, zt_layer_label(builder, "tbs"), product,
                             &(zt_sum_attrs){.axes = {1, {2}}, .keepdims = 1});
    return flat(builder, "tb", multiply(builder, "tbv", by_head(builder, "tbw", of->v), sum));
}

int zt_emit_time_mix(zt_program_builder *builder, int x)
{
    const mixture inputs = read_mixture(builder, x);
    operands of;
    of.r = fine_linear(builder, "tr", mix_input(builder, &inputs, 'r', LERP_R), ZT_W_TIME_RECEPTANCE, ZT_WEIGHT_COUNT);
    of.w = emit_decay(builder, &inputs);
    int k = fine_linear(builder, "tk", mix_input(builder, &inputs, 'k', LERP_K), ZT_W_TIME_KEY, ZT_WEIGHT_COUNT);
    of.v = emit_values(builder, &inputs);
    int rate = emit_rate(builder, &inputs), direction = emit_direction(builder, k);
    of.k = emit_replacement(builder, k, rate);
    of.a = zt_program_neg(builder->program, zt_layer_label(builder, "tcn"), direction);
    of.b = multiply(builder, "tcb", direction, rate);
    int y = norm_heads(builder, emit_recurrence(builder, &of));
    y = add(builder, "tz", y, emit_bonus(builder, &of));
    if (!(builder->hyper->parts & ZT_PART_TIME_GATE)) return y;
    return multiply(builder, "to", y, emit_gate(builder, &inputs));
}

/* ---- channel mix ----------------------------------------------------------------------------- */

int zt_emit_channel_mix(zt_program_builder *builder, int x)
{
    const zt_hyper *hyper = builder->hyper;
    zt_prog *program = builder->program;
    int read = zt_emit_layer_norm(builder, "hu", x, ZT_W_CHANNEL_NORM, ZT_W_CHANNEL_NORM_BIAS);
    int shift = zt_layer_token_shift(builder, 'i', read);
    if (builder->layer == hyper->n_layers - 1 && builder->rows != ZT_NONE) {
        read = zt_program_gather(program, "h_rows", read, builder->rows, NULL);
        shift = zt_program_gather(program, "s_rows", shift, builder->rows, NULL);
        x = zt_program_gather(program, "x_rows", x, builder->rows, NULL);
        zt_keep_rows(builder, false);
    }
    int mixed = add(builder, "um", read, multiply(builder, "ul", shift, zt_weight_data(builder, ZT_W_CHANNEL_LERP)));
    int k = zt_layer_linear(builder, "u", mixed, ZT_W_CHANNEL_KEY, ZT_WEIGHT_COUNT);
    k = hyper->act(program, zt_layer_label(builder, "f"), k, ZT_NONE);
    int fed = zt_layer_linear(builder, "d", k, ZT_W_CHANNEL_VALUE, ZT_WEIGHT_COUNT);
    fed = zt_emit_scale(builder, zt_layer_label(builder, "ds"), fed, hyper->residual_scale);
    return add(builder, "x", x, fed);
}
