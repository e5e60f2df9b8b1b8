/* target_prop.c - owns the program of target propagation: targets, gaps, link budgets, and the changes of weights. */
#include "lib/base/require.h"
#include "lib/train/target_prop.h"
#include "lib/train/train_internal.h"

#include <stdio.h>
#include <string.h>

#define LOWEST_BUDGET 0.2  /* below it a layer does not learn */
#define LOWEST_SUM    0.01 /* of |W| over a column: below it no target passes */
#define GAIN_RATE     0.01

typedef struct target_builder {
    zt_ctx *ctx;
    const zt_prog *forward;
    const zt_target_prop *how;
    zt_prog *kept;    /* forward, with the values of layers as outputs after its own */
    int *kept_values; /* [kept_count]: values of forward, of these outputs */
    int kept_count;
    zt_prog
        *gradients; /* kept, then d.x: of weights (chain), watched values, the last layer's output, all layers' outputs (chain) */
    zt_prog *program; /* the result */
    zt_bound *bound;  /* of gradients */
    int *map;         /* [values of gradients] in program */
    int64_t batch;    /* rows, where bound */
    int rows;         /* their number in a step: a value of rank 0 */
    int error;        /* of the last layer's output, for each sample */
    /* [layer_count], values of program; target -1: none */
    int *activation, *target, *consumers, *rate, *gap, *budget;
} target_builder;

/* ---- values ---------------------------------------------------------------------------------- */

static int scale_value(const target_builder *build, int value, double factor)
{
    return factor == 1 ? value : zt_program_scale(build->program, NULL, value, &(zt_scale_attrs){.by = factor});
}

static int fill_value(const target_builder *build, int like, double number)
{
    return zt_program_fill_like(build->program, NULL, like, &(zt_fill_like_attrs){.value = number});
}

static int sum_all(const target_builder *build, int value) { return zt_program_sum(build->program, NULL, value, NULL); }

/* A value of forward in the gradients' program, which keeps the names of declarations only. */
static int find_kept(const target_builder *build, const char *name)
{
    int value = zt_prog_find(build->forward, name), index = 0;
    if (zt_prog_value(build->forward, value)->kind != ZT_VALUE_OP) return zt_prog_find(build->gradients, name);
    while (build->kept_values[index] != value) index++;
    return zt_prog_output(build->gradients, zt_prog_n_outputs(build->forward) + index)->value;
}

static int find_value(const target_builder *build, const char *name) { return build->map[find_kept(build, name)]; }

static const zt_type *find_type(const target_builder *build, const char *name)
{
    return &build->bound->type[find_kept(build, name)];
}

static int64_t count_per_row(const target_builder *build, const char *name)
{
    return zt_type_count(find_type(build, name)) / build->batch;
}

/* The value `like` is named as `name`; this one, of the same size, as a matrix of `columns` columns. */
static int as_matrix(const target_builder *build, int value, const char *name, int64_t columns)
{
    const zt_type *type = find_type(build, name);
    int64_t rows = zt_prog_value(build->program, zt_prog_nth(build->program, ZT_VALUE_IN, 0))->type.dim[0];
    int64_t each = count_per_row(build, name) / columns;
    if (type->rank == 2 && type->dim[1] == columns) return value;
    if (each != 1) rows = zt_prog_dim(build->program, '*', rows, each);
    return zt_program_reshape(build->program, NULL, value, &(zt_reshape_attrs){{2, {rows, columns}}});
}

static int as_value(const target_builder *build, int matrix, int like)
{
    return zt_program_reshape_like(build->program, NULL, matrix, like);
}

/* ---- the gradients' program ------------------------------------------------------------------- */

static const zt_target_layer *last_layer(const target_builder *build) { return &build->how->layers[build->how->layer_count - 1]; }

/* Adds a value of forward unless it is in the list; returns its index. */
static int add_wrt(int *list, int *count, int value)
{
    for (int i = 0; i < *count; i++)
        if (list[i] == value) return i;
    list[(*count)++] = value;
    return *count - 1;
}

/* By d[i] an output of a layer (forward's value) is found among the gradients. */
typedef struct gradient_list {
    int *wrt; /* values of forward */
    int count, first_output;
} gradient_list;

/* Copies forward with inputs and outputs of layers among its outputs. map: its values there. */
static zt_status keep_values(target_builder *build, int *map)
{
    char name[32];
    const zt_target_prop *how = build->how;
    build->kept_values = zt_alloc_array(build->ctx, 2 * (size_t)how->layer_count, sizeof *build->kept_values);
    build->kept = zt_prog_like(build->forward, map);
    zt_status status =
        build->kept && build->kept_values ? zt_train_copy_ops(build->ctx, build->forward, build->kept, map) : ZT_ENOMEM;
    for (int output = 0; output < zt_prog_n_outputs(build->forward) && !status; output++) {
        const zt_output *out = zt_prog_output(build->forward, output);
        status = zt_prog_out(build->kept, out->name, map[out->value]);
    }
    for (int layer = 0; layer < how->layer_count && !status; layer++) {
        add_wrt(build->kept_values, &build->kept_count, zt_prog_find(build->forward, how->layers[layer].input));
        add_wrt(build->kept_values, &build->kept_count, zt_prog_find(build->forward, how->layers[layer].output));
    }
    for (int i = 0; i < build->kept_count && !status; i++) {
        snprintf(name, sizeof name, "kept.%d", i);
        status = zt_prog_out(build->kept, name, map[build->kept_values[i]]);
    }
    return status;
}

static zt_status differentiate(target_builder *build, const int *wrt, int n_weights, int n_watched, const zt_grad_opts *options,
                               gradient_list *list)
{
    bool chain = build->how->rule == ZT_TARGET_CHAIN;
    size_t most = (size_t)(n_weights + n_watched + build->how->layer_count);
    list->wrt = zt_alloc_array(build->ctx, most, sizeof *list->wrt);
    int *mapped = zt_alloc_array(build->ctx, most, sizeof *mapped);
    int *map = zt_calloc(build->ctx, (size_t)zt_prog_n_values(build->forward) + 1, sizeof *map);
    zt_status status = list->wrt && map && mapped ? keep_values(build, map) : ZT_ENOMEM;
    for (int i = chain ? 0 : n_weights; i < n_weights + n_watched && !status; i++) add_wrt(list->wrt, &list->count, wrt[i]);
    for (int layer = chain ? 0 : build->how->layer_count - 1; layer < build->how->layer_count && !status; layer++)
        add_wrt(list->wrt, &list->count, zt_prog_find(build->forward, build->how->layers[layer].output));
    for (int i = 0; i < list->count; i++) mapped[i] = map[list->wrt[i]];
    if (!status) build->gradients = zt_prog_grad(build->ctx, build->kept, mapped, list->count, options);
    if (!status) list->first_output = zt_prog_n_outputs(build->kept);
    zt_free(build->ctx, map);
    zt_free(build->ctx, mapped);
    return build->gradients ? ZT_OK : status ? status : zt_ctx_status(build->ctx);
}

/* The gradient of the loss by a value of forward. */
static int gradient_of(const target_builder *build, const gradient_list *list, int value)
{
    int index = 0;
    while (list->wrt[index] != value) index++;
    return build->map[zt_prog_output(build->gradients, list->first_output + index)->value];
}

static zt_status copy_program(target_builder *build, const zt_grad_opts *options)
{
    build->map = zt_calloc(build->ctx, (size_t)zt_prog_n_values(build->gradients) + 1, sizeof *build->map);
    build->program = build->map ? zt_prog_like(build->gradients, build->map) : NULL;
    zt_status status = build->program ? zt_train_copy_ops(build->ctx, build->gradients, build->program, build->map) : ZT_ENOMEM;
    build->bound = status ? NULL : zt_prog_bind(build->gradients, options->sample, options->n_sample);
    if (!status && !build->bound) status = zt_ctx_status(build->ctx);
    if (status) return status;
    build->batch = build->bound->type[zt_prog_nth(build->gradients, ZT_VALUE_IN, 0)].dim[0];
    return ZT_OK;
}

/* ---- targets --------------------------------------------------------------------------------- */

/* The losses are means: over all numbers of the squared error, over positions of the cross-entropy. Numbers in a sample's share
 * of that mean, times what makes the gradient the error. */
static double loss_share(const target_builder *build)
{
    const char *output = last_layer(build)->output;
    const zt_type *type = find_type(build, output);
    double count = (double)count_per_row(build, output);
    return build->how->loss == ZT_LOSS_MSE ? count / 2 : count / (double)type->dim[type->rank - 1];
}

/* g of a value: the error times the derivatives above it. */
static int error_of(const target_builder *build, int gradient)
{
    return zt_program_mul(build->program, NULL, scale_value(build, gradient, -loss_share(build)), build->rows);
}

static zt_status begin_targets(target_builder *build, const gradient_list *list)
{
    const char *output = last_layer(build)->output;
    int last = build->how->layer_count - 1, value = zt_prog_find(build->forward, output);
    for (int layer = 0; layer <= last; layer++) {
        build->activation[layer] = find_value(build, build->how->layers[layer].output);
        build->target[layer] = -1;
    }
    build->rows = scale_value(build, sum_all(build, fill_value(build, build->activation[last], 1)),
                              1 / (double)count_per_row(build, output));
    build->error = error_of(build, gradient_of(build, list, value));
    build->target[last] = zt_program_add(build->program, NULL, build->activation[last], build->error);
    build->consumers[last] = 1;
    return zt_ctx_status(build->ctx);
}

/* Of all layers at once: those that g gives. */
static void shift_targets(target_builder *build, const gradient_list *list)
{
    for (int layer = 0; layer + 1 < build->how->layer_count; layer++) {
        int value = zt_prog_find(build->forward, build->how->layers[layer].output);
        int shift = scale_value(build, error_of(build, gradient_of(build, list, value)), build->how->scale);
        build->target[layer] = zt_program_add(build->program, NULL, build->activation[layer], shift);
    }
}

/* The target of the input of a layer with a matrix. */
static int invert_matrix(const target_builder *build, const zt_target_layer *layer, int activation, int target, int input)
{
    zt_prog *program = build->program;
    int weight = find_value(build, layer->weight);
    const zt_type *type = find_type(build, layer->weight);
    bool plain = build->how->rule == ZT_TARGET_PLAIN;
    int from = plain ? target : zt_program_sub(program, NULL, target, activation);
    int sums = zt_program_sum(program, NULL, zt_program_abs(program, NULL, weight), &(zt_sum_attrs){.axes = {1, {0}}});
    int enough = zt_program_gt(program, NULL, sums, fill_value(build, sums, LOWEST_SUM));
    int divisor = zt_program_where(program, NULL, enough, sums, fill_value(build, sums, 1));
    int back = zt_program_matmul(program, NULL, as_matrix(build, from, layer->output, type->dim[0]), weight, NULL);
    back = zt_program_div(program, NULL, back, divisor);
    back = zt_program_where(program, NULL, enough, back, fill_value(build, sums, 0));
    back = as_value(build, back, input);
    return plain ? back : zt_program_add(program, NULL, input, back);
}

static int pass_target(const target_builder *build, const zt_target_layer *layer, int activation, int target, int input)
{
    if (build->how->rule == ZT_TARGET_PLAIN || count_per_row(build, layer->input) != count_per_row(build, layer->output))
        return input;
    int change = zt_program_sub(build->program, NULL, target, activation);
    return zt_program_add(build->program, NULL, input, as_value(build, change, input));
}

/* From the last layer to the first. The target of a layer whose output several layers read is the mean of theirs. */
static void propagate_targets(target_builder *build)
{
    for (int index = build->how->layer_count - 1; index >= 0; index--) {
        const zt_target_layer *layer = &build->how->layers[index];
        if (build->target[index] < 0) continue;
        if (build->consumers[index] > 1)
            build->target[index] = scale_value(build, build->target[index], 1 / (double)build->consumers[index]);
        if (layer->source < 0 || layer->source >= index) continue;
        int input = find_value(build, layer->input);
        int target = (layer->kind == ZT_TARGET_MATRIX ? invert_matrix : pass_target)(build, layer, build->activation[index],
                                                                                     build->target[index], input);
        int *sum = &build->target[layer->source];
        *sum = *sum < 0 ? target : zt_program_add(build->program, NULL, *sum, target);
        build->consumers[layer->source]++;
    }
}

/* ---- gaps, budgets, rates --------------------------------------------------------------------- */

static void rate_layer(target_builder *build, int layer)
{
    zt_prog *program = build->program;
    int activation = build->activation[layer], target = build->target[layer];
    int difference = zt_program_sub(program, NULL, target, activation);
    build->gap[layer] =
        zt_program_sqrt(program, NULL, zt_program_mean(program, NULL, zt_program_square(program, NULL, difference), NULL));
    int dot = sum_all(build, zt_program_mul(program, NULL, activation, target));
    int lengths = zt_program_mul(program, NULL,
                                 zt_program_sqrt(program, NULL, sum_all(build, zt_program_square(program, NULL, activation))),
                                 zt_program_sqrt(program, NULL, sum_all(build, zt_program_square(program, NULL, target))));
    int zero = fill_value(build, lengths, 0), one = fill_value(build, lengths, 1);
    int some = zt_program_gt(program, NULL, lengths, zero);
    int cosine = zt_program_div(program, NULL, dot, zt_program_where(program, NULL, some, lengths, one));
    int budget = scale_value(build, zt_program_add_scalar(program, NULL, cosine, &(zt_add_scalar_attrs){.by = 1}), 0.5);
    build->budget[layer] = zt_program_where(program, NULL, some, budget, zero);
    int rate =
        zt_program_add_scalar(program, NULL, scale_value(build, build->budget[layer], 0.5), &(zt_add_scalar_attrs){.by = 0.5});
    int learns = zt_program_ge(program, NULL, build->budget[layer], fill_value(build, lengths, LOWEST_BUDGET));
    build->rate[layer] = zt_program_where(program, NULL, learns, rate, zero);
}

/* A list of values of rank 0 as one output [layer_count]. */
static zt_status put_list(target_builder *build, const char *name, const int *values)
{
    int list = -1;
    for (int layer = 0; layer < build->how->layer_count; layer++) {
        int value = build->target[layer] < 0 ? fill_value(build, build->rows, 0) : values[layer];
        value = zt_program_reshape(build->program, NULL, value, &(zt_reshape_attrs){{1, {1}}});
        list = layer == 0 ? value : zt_program_concat(build->program, NULL, list, value, ZT_NONE, ZT_NONE, ZT_NONE, NULL);
    }
    return zt_prog_out(build->program, name, list);
}

/* ---- changes of weights ----------------------------------------------------------------------- */

/* Of a matrix or a gain: minus rate times the mean over samples. */
static int local_change(const target_builder *build, int index)
{
    zt_prog *program = build->program;
    const zt_target_layer *layer = &build->how->layers[index];
    const zt_type *type = find_type(build, layer->weight);
    int difference = zt_program_sub(program, NULL, build->target[index], build->activation[index]), change;
    difference = as_matrix(build, difference, layer->output, type->dim[0]);
    if (layer->kind == ZT_TARGET_MATRIX) {
        int input = as_matrix(build, find_value(build, layer->input), layer->input, type->dim[1]);
        change = zt_program_matmul(program, NULL, difference, input, &(zt_matmul_attrs){.ta = 1});
    } else {
        change = scale_value(build, zt_program_sum(program, NULL, difference, &(zt_sum_attrs){.axes = {1, {0}}}), GAIN_RATE);
    }
    change = zt_program_div(program, NULL, change, build->rows);
    return zt_program_mul(program, NULL, change, zt_program_neg(program, NULL, build->rate[index]));
}

/* The layer whose own rule changes the weight; -1: none. */
static int find_owner(const target_builder *build, const char *name)
{
    for (int layer = 0; layer < build->how->layer_count; layer++) {
        const zt_target_layer *row = &build->how->layers[layer];
        bool learns = row->kind == ZT_TARGET_MATRIX || (row->kind == ZT_TARGET_GAIN && build->how->rule == ZT_TARGET_PLAIN);
        if (learns && row->weight && build->target[layer] >= 0 && !strcmp(row->weight, name)) return layer;
    }
    return -1;
}

/* What the optimizer takes for the weight's gradient. */
static int change_weight(const target_builder *build, const gradient_list *list, int weight)
{
    const char *name = zt_prog_value(build->forward, weight)->name;
    if (build->how->rule == ZT_TARGET_CHAIN) {
        int layer = build->how->layer_of(build->how->user, name);
        int gradient = scale_value(build, gradient_of(build, list, weight), loss_share(build));
        return layer < 0 ? gradient : zt_program_mul(build->program, NULL, gradient, build->rate[layer]);
    }
    int owner = find_owner(build, name), change = -1;
    if (owner < 0) return fill_value(build, find_value(build, name), 0);
    for (int layer = owner; layer < build->how->layer_count; layer++) { /* several layers may share it */
        const char *own = build->how->layers[layer].weight;
        if (!own || strcmp(own, name) || build->target[layer] < 0) continue;
        int one = local_change(build, layer);
        change = change < 0 ? one : zt_program_add(build->program, NULL, change, one);
    }
    return change;
}

static zt_status put_outputs(target_builder *build, const gradient_list *list, const int *wrt, int n_weights, int n_watched)
{
    char name[300];
    zt_status status = zt_ctx_status(build->ctx);
    for (int output = 0; output < zt_prog_n_outputs(build->forward) && !status; output++) {
        const zt_output *out = zt_prog_output(build->gradients, output);
        status = zt_prog_out(build->program, out->name, build->map[out->value]);
    }
    for (int i = 0; i < n_weights + n_watched && !status; i++) {
        int value = i < n_weights ? change_weight(build, list, wrt[i]) : gradient_of(build, list, wrt[i]);
        snprintf(name, sizeof name, "d.%s", zt_prog_value(build->forward, wrt[i])->name);
        status = value < 0 ? zt_ctx_status(build->ctx) : zt_prog_out(build->program, name, value);
    }
    if (!status) status = put_list(build, "gaps", build->gap);
    return status ? status : put_list(build, "link_budgets", build->budget);
}

/* ---- all ------------------------------------------------------------------------------------- */

static zt_status make_lists(target_builder *build)
{
    size_t count = (size_t)build->how->layer_count;
    int **lists[] = {&build->activation, &build->target, &build->consumers, &build->rate, &build->gap, &build->budget};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!(*lists[i] = zt_calloc(build->ctx, count, sizeof **lists[i]))) return ZT_ENOMEM;
    return ZT_OK;
}

static zt_status check_layers(const target_builder *build)
{
    for (int layer = 0; layer < build->how->layer_count; layer++) {
        const zt_target_layer *row = &build->how->layers[layer];
        const char *names[] = {row->input, row->output, row->weight};
        for (int i = 0; i < 3; i++)
            if (names[i] && zt_prog_find(build->forward, names[i]) < 0)
                return zt_fail(build->ctx, ZT_EUSAGE, "target propagation: the program has no value '%s'", names[i]);
    }
    return ZT_OK;
}

zt_prog *zt_target_prop_program(zt_ctx *ctx, const zt_prog *forward, const int *wrt, int n_weights, int n_watched,
                                const zt_grad_opts *options, const zt_target_prop *how)
{
    ZT_REQUIRE(ctx, forward && wrt && options && how && how->layer_count > 0, NULL);
    target_builder build = {.ctx = ctx, .forward = forward, .how = how};
    gradient_list list = {0};
    zt_status status = check_layers(&build);
    if (!status) status = make_lists(&build);
    if (!status) status = differentiate(&build, wrt, n_weights, n_watched, options, &list);
    if (!status) status = copy_program(&build, options);
    if (!status) status = begin_targets(&build, &list);
    if (!status && how->rule == ZT_TARGET_CHAIN) shift_targets(&build, &list);
    if (!status && how->rule != ZT_TARGET_CHAIN) propagate_targets(&build);
    for (int layer = 0; layer < how->layer_count && !status; layer++)
        if (build.target[layer] >= 0) rate_layer(&build, layer);
    if (!status) status = put_outputs(&build, &list, wrt, n_weights, n_watched);
    int *lists[] = {build.activation, build.target, build.consumers,   build.rate, build.gap,
                    build.budget,     build.map,    build.kept_values, list.wrt};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) zt_free(ctx, lists[i]);
    zt_bound_free(build.bound);
    zt_prog_free(build.gradients);
    zt_prog_free(build.kept);
    if (!status) return build.program;
    zt_prog_free(build.program);
    return NULL;
}
