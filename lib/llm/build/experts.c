/* experts.c - the builder of a layer's routed experts: a router's scores, the choice of k of them for each token,
 * the chosen experts' feed-forwards, and one that every token passes.
 *
 *     scores = softmax or sigmoid of (x router^T), or that itself
 *     i      = the k largest of scores (+ bias), of the chosen groups
 *     p      = scores[i], or their softmax, divided by their sum where the model says so, times a scale
 *     y      = sum over j of p[j] down[i[j]] (act(gate[i[j]] x) * (up[i[j]] x))  +  shared(x)
 *
 * Without gates an expert is down act(up x); where experts are narrow, x goes through a matrix before them, and their sum through
 * one behind them. Llama 4 weighs what an expert reads, p[j] x, instead of what it returns.
 *
 * Gemma 4 has experts beside the layer's feed-forward, and what its router reads is a norm of its own:
 *
 *     y      = norm(feed_forward(read))  +  norm(sum over j of p[j] s[i[j]] expert(i[j], norm(x)))
 */
#include "lib/llm/build/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct choice {
    int weights, experts; /* f32 and i32 [rows, k] */
} choice;

static zt_reshape_attrs shape_of(int rank, const int64_t dim[])
{
    zt_reshape_attrs attrs = {.shape = {.n = rank}};
    memcpy(attrs.shape.dim, dim, (size_t)rank * sizeof *dim);
    return attrs;
}

static int constant_like(zt_program_builder *builder, const char *what, int like, double value)
{
    return zt_program_fill_like(builder->program, zt_layer_label(builder, what), like, &(zt_fill_like_attrs){value});
}

/* The entries of x [rows, experts] where indices say. */
static int entries_at(zt_program_builder *builder, const char *what, int x, int indices)
{
    zt_gather_elements_attrs attrs = {.axis = 1, .oob = {"error"}};
    return zt_program_gather_elements(builder->program, zt_layer_label(builder, what), x, indices, &attrs);
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* Scores with -inf in the groups that are not chosen: those whose `best_count` best experts' scores have the lesser sums. */
static int keep_groups(zt_program_builder *builder, int scores, int64_t best_count)
{
    zt_prog *program = builder->program;
    const zt_hyper *hyper = builder->hyper;
    int64_t rows = builder->row_count, groups = hyper->expert_groups, each = hyper->n_experts / groups;
    zt_reshape_attrs by_group = shape_of(3, (int64_t[]){rows, groups, each}),
                     flat = shape_of(2, (int64_t[]){rows, hyper->n_experts});
    zt_reshape_attrs column = shape_of(3, (int64_t[]){rows, groups, 1});
    int grouped = zt_program_reshape(program, zt_layer_label(builder, "eg"), scores, &by_group), chosen;
    int best = zt_program_topk(program, zt_layer_label(builder, "ebs"), grouped, &(zt_topk_attrs){best_count, -1, 1}, NULL);
    int sums = zt_program_sum(program, zt_layer_label(builder, "es"), best, &(zt_sum_attrs){.axes = {1, {2}}});
    int top = zt_program_topk(program, zt_layer_label(builder, "et"), sums, &(zt_topk_attrs){hyper->groups_used, -1, 1}, &chosen);
    int none = constant_like(builder, "ez", sums, 0), ones = constant_like(builder, "eo", top, 1);
    zt_scatter_elements_attrs put = {.axis = 1, .reduction = {"none"}, .oob = {"error"}};
    int kept = zt_program_scatter_elements(program, zt_layer_label(builder, "ek"), none, chosen, ones, &put);
    kept = zt_program_reshape(program, zt_layer_label(builder, "ec"), kept, &column);
    int least = constant_like(builder, "ei", kept, -INFINITY);
    int out = zt_program_where(program, zt_layer_label(builder, "ew"), kept, grouped, least);
    return zt_program_reshape(program, zt_layer_label(builder, "ef"), out, &flat);
}

/* Weights over their sum, which is taken for at least arch->least_sum, or to which arch->added_sum is added. */
static int normalize(zt_program_builder *builder, int weights)
{
    zt_prog *program = builder->program;
    double least = builder->hyper->arch->least_sum, added = builder->hyper->arch->added_sum;
    int sum = zt_program_sum(program, zt_layer_label(builder, "pt"), weights, &(zt_sum_attrs){.axes = {1, {1}}, .keepdims = 1});
    if (least > 0) sum = zt_program_clamp(program, zt_layer_label(builder, "pc"), sum, &(zt_clamp_attrs){least, INFINITY});
    if (added > 0) sum = zt_program_add_scalar(program, zt_layer_label(builder, "pa"), sum, &(zt_add_scalar_attrs){added});
    return zt_program_div(program, zt_layer_label(builder, "pn"), weights, sum);
}

static choice choose_by_scores(zt_program_builder *builder, int logits)
{
    zt_prog *program = builder->program;
    const zt_hyper *hyper = builder->hyper;
    const char *label = zt_layer_label(builder, "sc");
    bool early = hyper->arch->weighs_input, late = hyper->gating == ZT_GATING_SOFTMAX_CHOSEN;
    int scores = late                                 ? logits
                 : hyper->gating == ZT_GATING_SIGMOID ? zt_program_sigmoid(program, label, logits)
                                                      : zt_program_softmax(program, label, logits, &(zt_softmax_attrs){-1});
    int bias = zt_weight_data(builder, ZT_W_CHOICE_BIAS), chosen_by = early ? logits : scores;
    choice made;
    if (bias != ZT_NONE) chosen_by = zt_program_add(program, zt_layer_label(builder, "sb"), scores, bias);
    if (hyper->expert_groups > 1) chosen_by = keep_groups(builder, chosen_by, bias != ZT_NONE ? 2 : 1);
    zt_topk_attrs most = {hyper->experts_used, -1, 1};
    zt_program_topk(program, zt_layer_label(builder, "st"), chosen_by, &most, &made.experts);
    made.weights = entries_at(builder, "p", scores, made.experts);
    if (late) made.weights = zt_program_softmax(program, zt_layer_label(builder, "pl"), made.weights, &(zt_softmax_attrs){-1});
    if (hyper->normed_experts) made.weights = normalize(builder, made.weights);
    return made;
}

/* SparseMixer (Liu et al., 2023; Phi-3.5-MoE): the best expert, and its weight by a softmax of those scores s that come
 * within 2 e of it: (best - s) / max(|s|, best) <= 2 e. Then the same without that expert. */
#define SPARSEMIXER_EPSILON 0.01

static choice choose_one(zt_program_builder *builder, int turn, int scores, int left)
{
    static const char *const names[2][11] = {{"m1_", "n1_", "a1_", "b1_", "d1_", "l1_", "i1_", "f1_", "w1_", "s1_", "p1_"},
                                             {"m2_", "n2_", "a2_", "b2_", "d2_", "l2_", "i2_", "f2_", "w2_", "s2_", "p2_"}};
    zt_prog *program = builder->program;
    const char *const *name = names[turn];
    choice one;
    int best = zt_program_topk(program, zt_layer_label(builder, name[0]), left, &(zt_topk_attrs){1, -1, 1}, &one.experts);
    int behind = zt_program_sub(program, zt_layer_label(builder, name[1]), best, scores);
    int size = zt_program_abs(program, zt_layer_label(builder, name[2]), scores);
    size = zt_program_max(program, zt_layer_label(builder, name[3]), size, best);
    behind = zt_program_div(program, zt_layer_label(builder, name[4]), behind, size);
    int limit = constant_like(builder, name[5], best, 2 * SPARSEMIXER_EPSILON);
    int least = constant_like(builder, name[6], best, -INFINITY);
    int far = zt_program_gt(program, zt_layer_label(builder, name[7]), behind, limit);
    int near = zt_program_where(program, zt_layer_label(builder, name[8]), far, least, left);
    near = zt_program_softmax(program, zt_layer_label(builder, name[9]), near, &(zt_softmax_attrs){-1});
    one.weights = entries_at(builder, name[10], near, one.experts);
    return one;
}

static choice choose_sparsemixer(zt_program_builder *builder, int scores)
{
    zt_prog *program = builder->program;
    choice first = choose_one(builder, 0, scores, scores), both;
    zt_scatter_elements_attrs put = {.axis = 1, .reduction = {"none"}, .oob = {"error"}};
    int none = constant_like(builder, "ri", first.weights, -INFINITY);
    int left = zt_program_scatter_elements(program, zt_layer_label(builder, "rl"), scores, first.experts, none, &put);
    choice second = choose_one(builder, 1, scores, left);
    zt_concat_attrs beside = {1};
    both.weights = zt_program_concat(program, zt_layer_label(builder, "p"), first.weights, second.weights, ZT_NONE, ZT_NONE,
                                     ZT_NONE, &beside);
    both.experts = zt_program_concat(program, zt_layer_label(builder, "ex"), first.experts, second.experts, ZT_NONE, ZT_NONE,
                                     ZT_NONE, &beside);
    return both;
}

/* Each expert's weight times a factor of its own. */
static int scale_experts(zt_program_builder *builder, choice made)
{
    zt_prog *program = builder->program;
    int factors = zt_weight_data(builder, ZT_W_EXPERT_SCALE);
    if (factors == ZT_NONE) return made.weights;
    zt_reshape_attrs column = shape_of(2, (int64_t[]){builder->hyper->n_experts, 1}),
                     list = shape_of(1, (int64_t[]){zt_prog_dim(program, '*', builder->row_count, builder->hyper->experts_used)}),
                     table = shape_of(2, (int64_t[]){builder->row_count, builder->hyper->experts_used});
    factors = zt_program_reshape(program, zt_layer_label(builder, "ea"), factors, &column);
    int indices = zt_program_reshape(program, zt_layer_label(builder, "eb"), made.experts, &list);
    factors = zt_program_gather(program, zt_layer_label(builder, "ed"), factors, indices, NULL);
    factors = zt_program_reshape(program, zt_layer_label(builder, "ee"), factors, &table);
    return zt_program_mul(program, zt_layer_label(builder, "eh"), made.weights, factors);
}

static choice choose_experts(zt_program_builder *builder, int x)
{
    int logits = zt_layer_linear(builder, "router", x, ZT_W_ROUTER, ZT_W_ROUTER_BIAS);
    choice made =
        builder->hyper->gating == ZT_GATING_SPARSEMIXER ? choose_sparsemixer(builder, logits) : choose_by_scores(builder, logits);
    made.weights = zt_emit_scale(builder, zt_layer_label(builder, "px"), made.weights, builder->hyper->expert_scale);
    made.weights = scale_experts(builder, made);
    return made;
}

/* ---- experts --------------------------------------------------------------------------------- */

int zt_emit_expert_linear(zt_program_builder *builder, const char *what, int x, int weight, int which, int bias, bool fine)
{
    zt_expert_linear_attrs attrs = zt_expert_linear_defaults();
    if (weight < 0) return -1;
    snprintf(attrs.act.s, sizeof attrs.act.s, "%s", zt_act_word(builder, weight, fine));
    return zt_program_expert_linear(builder->program, zt_layer_label(builder, what), x, weight, which, bias, &attrs);
}

static int expert_linear(zt_program_builder *builder, const char *what, int x, zt_weight weight, zt_weight bias, int experts)
{
    int data = zt_weight_data(builder, weight);
    return zt_emit_expert_linear(builder, what, x, data, experts, zt_weight_data(builder, bias), false);
}

/* Weights as a column for each row, [rows,k,1]. */
static int weight_columns(zt_program_builder *builder, int weights)
{
    zt_reshape_attrs column = shape_of(3, (int64_t[]){builder->row_count, builder->hyper->experts_used, 1});
    return zt_program_reshape(builder->program, zt_layer_label(builder, "pw"), weights, &column);
}

/* What each chosen expert reads: x times its weight, [rows,k,width]. */
static int weigh_input(zt_program_builder *builder, int x, int weights)
{
    zt_reshape_attrs row = shape_of(3, (int64_t[]){builder->row_count, 1, builder->hyper->expert_width});
    int rows = zt_program_reshape(builder->program, zt_layer_label(builder, "hx"), x, &row);
    return zt_program_mul(builder->program, zt_layer_label(builder, "hw"), rows, weight_columns(builder, weights));
}

/* The experts' outputs times their weights, unless these were multiplied by before, summed. */
static int mix_experts(zt_program_builder *builder, int outputs, int weights)
{
    zt_prog *program = builder->program;
    int weighed = builder->hyper->arch->weighs_input
                      ? outputs
                      : zt_program_mul(program, zt_layer_label(builder, "dw"), outputs, weight_columns(builder, weights));
    return zt_program_sum(program, zt_layer_label(builder, "dm"), weighed, &(zt_sum_attrs){.axes = {1, {1}}});
}

/* What every token passes; where there is a gate, times the sigmoid of x by it. */
static int shared_expert(zt_program_builder *builder, int x)
{
    zt_prog *program = builder->program;
    int gate = ZT_NONE, up = zt_layer_linear(builder, "us", x, ZT_W_UP_SHARED, ZT_WEIGHT_COUNT);
    if (builder->hyper->parts & ZT_PART_EXPERT_GATES) {
        gate = zt_layer_linear(builder, "gs", x, ZT_W_GATE_SHARED, ZT_WEIGHT_COUNT);
    } else {
        gate = up;
        up = ZT_NONE;
    }
    int activated = builder->hyper->act(program, zt_layer_label(builder, "fs"), gate, up);
    int y = zt_layer_linear(builder, "dsh", activated, ZT_W_DOWN_SHARED, ZT_WEIGHT_COUNT);
    int vector = zt_weight_data(builder, ZT_W_SHARED_ROUTER);
    if (vector == ZT_NONE) return y;
    zt_reshape_attrs row = shape_of(2, (int64_t[]){1, builder->hyper->width});
    int matrix = zt_program_reshape(program, zt_layer_label(builder, "vs"), vector, &row);
    int share = zt_emit_linear(builder, zt_layer_label(builder, "ls"), x, matrix, ZT_NONE, false);
    share = zt_program_sigmoid(program, zt_layer_label(builder, "ss"), share);
    return zt_program_mul(program, zt_layer_label(builder, "ys"), y, share);
}

static int expert_columns(zt_program_builder *builder, const char *what, int x, int64_t from, int64_t to)
{
    return zt_program_slice(builder->program, zt_layer_label(builder, what), x,
                            &(zt_slice_attrs){.axis = 2, .from = from, .to = to});
}

/* What the chosen experts make of x. Beside a feed-forward their values have names of their own. */
static int routed_experts(zt_program_builder *builder, int x, choice made)
{
    static const char *const names[2][5] = {{"gu", "g", "u", "f", "d"}, {"gue", "ge", "ue", "fe", "de"}};
    const zt_hyper *hyper = builder->hyper;
    const char *const *name = names[(hyper->parts & ZT_PART_BESIDE) != 0];
    int gate, up = ZT_NONE;
    if (hyper->arch->weighs_input) x = weigh_input(builder, x, made.weights);
    if (hyper->fused_experts) {
        int both = expert_linear(builder, name[0], x, ZT_W_GATE_UP_EXPERTS, ZT_WEIGHT_COUNT, made.experts);
        gate = expert_columns(builder, name[1], both, 0, hyper->expert_ff);
        up = expert_columns(builder, name[2], both, hyper->expert_ff, hyper->expert_up_width);
    } else if (!(hyper->parts & ZT_PART_EXPERT_GATES)) {
        gate = expert_linear(builder, name[2], x, ZT_W_UP_EXPERTS, ZT_W_UP_EXPERTS_BIAS, made.experts);
    } else {
        gate = expert_linear(builder, name[1], x, ZT_W_GATE_EXPERTS, ZT_W_GATE_EXPERTS_BIAS, made.experts);
        up = expert_linear(builder, name[2], x, ZT_W_UP_EXPERTS, ZT_W_UP_EXPERTS_BIAS, made.experts);
    }
    int activated = builder->hyper->act(builder->program, zt_layer_label(builder, name[3]), gate, up);
    int outputs = expert_linear(builder, name[4], activated, ZT_W_DOWN_EXPERTS, ZT_W_DOWN_EXPERTS_BIAS, made.experts);
    return mix_experts(builder, outputs, made.weights);
}

int zt_emit_experts(zt_program_builder *builder, int x)
{
    choice made = choose_experts(builder, x);
    bool narrow = builder->hyper->parts & ZT_PART_NARROW_EXPERTS;
    int y = narrow ? zt_layer_linear(builder, "nd", x, ZT_W_EXPERTS_DOWN, ZT_WEIGHT_COUNT) : x;
    y = routed_experts(builder, y, made);
    if (narrow) y = zt_layer_linear(builder, "nu", y, ZT_W_EXPERTS_UP, ZT_WEIGHT_COUNT);
    if (!(builder->hyper->parts & ZT_PART_SHARED)) return y;
    return zt_program_add(builder->program, zt_layer_label(builder, "dy"), y, shared_expert(builder, x));
}

int zt_emit_experts_beside(zt_program_builder *builder, int x, int read)
{
    zt_prog *program = builder->program;
    int dense = zt_emit_feed_forward(builder, read);
    dense = zt_emit_layer_norm(builder, "dn1_", dense, ZT_W_FF_POST_DENSE, ZT_WEIGHT_COUNT);
    int routed = zt_emit_layer_norm(builder, "hr", x, ZT_W_ROUTER_SCALE, ZT_WEIGHT_COUNT);
    routed = zt_emit_scale(builder, zt_layer_label(builder, "hs"), routed, 1 / sqrt((double)builder->hyper->width));
    choice made = choose_experts(builder, routed);
    int y = zt_emit_layer_norm(builder, "he", x, ZT_W_FF_NORM_EXPERTS, ZT_WEIGHT_COUNT);
    y = routed_experts(builder, y, made);
    y = zt_emit_layer_norm(builder, "dn2_", y, ZT_W_FF_POST_EXPERTS, ZT_WEIGHT_COUNT);
    return zt_program_add(program, zt_layer_label(builder, "db"), dense, y);
}
