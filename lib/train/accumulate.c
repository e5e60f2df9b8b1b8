/* accumulate.c - owns gradient accumulation: the gradients of a batch, computed by micro-batches and summed.
 *
 * A batch of n rows and N micro-batches: micro-batch i has the rows from n i / N to n (i + 1) / N. Its gradients, times its share
 * of the rows, are leaf i of a binary tree, and the sum is that of the tree's root:
 *
 *     sum(a, b) = sum(a, m) + sum(m, b)      m = a + the largest power of two below b - a
 *
 * So the bits of the sum depend on the batch and on N, and not on who computes which leaf. The leaves are computed in order, and
 * two neighbouring sums of the same power of two are added as soon as both exist: memory holds log2 N + 1 sums. Of R ranks, rank r
 * computes the leaves from N r / R to N (r + 1) / R, and sends the sums that it has then to rank 0, which continues in order.
 */
#include "lib/base/require.h"
#include "lib/train/train_internal.h"

#include <string.h>

enum { ALIGN = 64, MAX_SUMS = 44 };

/* The sum of micro-batches first to first + count - 1: all gradients, and the loss behind them. */
typedef struct partial_sum {
    int64_t first, count;
    char *values;
} partial_sum;

/* An input or an output of the gradient program. */
typedef struct port {
    size_t row_bytes; /* of a row; 0: it has no rows */
    bool counts;      /* the number of the batch */
    bool scaled;      /* a gradient: its values are multiplied by the share of the rows */
    zt_dtype dtype;
} port;

struct zt_micro {
    zt_ctx *ctx;
    zt_session *session;
    zt_dtype type; /* of weights and gradients */
    int64_t split; /* into so many micro-batches */
    zt_ranks *ranks;
    int weight_count, input_count, output_count, loss_output; /* output_count: without gradients of weights */
    port *input, *output;
    size_t *offset; /* [weight_count + 1]: of each gradient in a sum; the last is that of the loss */
    const void **inputs;
    void **outputs;
    char *weights; /* room for the largest weight */
    bool changed;  /* the update's weights are not yet those of the session */
    partial_sum stack[MAX_SUMS];
    int depth;
};

/* ---- opening --------------------------------------------------------------------------------- */

static zt_status inspect_input(zt_micro *micro, const zt_prog *program, int index)
{
    const zt_value *input = zt_prog_value(program, zt_prog_nth(program, ZT_VALUE_IN, index));
    zt_type row = input->type;
    port *in = &micro->input[index];
    in->counts = zt_input_counts_batches(input);
    if (in->counts) return ZT_OK;
    bool rows = row.rank > 0 && zt_prog_symbol_of(program, row.dim[0]) == 0;
    for (int axis = 1; axis < row.rank; axis++) rows = rows && row.dim[axis] >= 0;
    if (!rows)
        return zt_fail(micro->ctx, ZT_EUSAGE,
                       "input '%s' cannot be split into micro-batches: its first dimension must be the program's symbol",
                       input->name);
    row.dim[0] = 1;
    in->row_bytes = zt_type_bytes(&row);
    return ZT_OK;
}

/* An output has rows if twice the rows give it twice as many. */
static void inspect_output(port *out, const zt_type *one, const zt_type *two)
{
    out->dtype = one->dtype;
    if (one->rank > 0 && one->rank == two->rank && two->dim[0] == 2 * one->dim[0] && zt_type_bytes(two) == 2 * zt_type_bytes(one))
        out->row_bytes = zt_type_bytes(one);
}

static zt_status inspect_outputs(zt_micro *micro, const zt_prog *program, int forward_outputs)
{
    const char *symbol = zt_prog_symbol_name(program, 0);
    zt_bound *one = zt_prog_bind(program, &(zt_binding){symbol, 1}, 1), *two = NULL;
    if (one) two = zt_prog_bind(program, &(zt_binding){symbol, 2}, 1);
    for (int i = 0; two && i < micro->output_count; i++) {
        int value = zt_prog_output(program, i)->value;
        inspect_output(&micro->output[i], &one->type[value], &two->type[value]);
        micro->output[i].scaled = i >= forward_outputs;
    }
    zt_bound_free(one);
    zt_bound_free(two);
    return two ? ZT_OK : zt_ctx_status(micro->ctx);
}

/* Where each gradient is in a sum, and room for the largest weight. */
static zt_status lay_out(zt_micro *micro)
{
    size_t offset = 0, largest = 1;
    for (int i = 0; i < micro->weight_count; i++) {
        zt_type type = zt_session_state_type(micro->session, i);
        size_t bytes = zt_type_bytes(&type);
        micro->offset[i] = offset;
        offset += (bytes + ALIGN - 1) / ALIGN * ALIGN;
        largest = bytes > largest ? bytes : largest;
        micro->type = type.dtype;
    }
    micro->offset[micro->weight_count] = offset;
    micro->weights = zt_alloc(micro->ctx, largest);
    return micro->weights ? ZT_OK : ZT_ENOMEM;
}

static zt_status inspect_ports(zt_micro *micro, const zt_prog *gradient, const zt_prog *forward)
{
    zt_ctx *ctx = micro->ctx;
    micro->input = zt_calloc(ctx, (size_t)micro->input_count + 1, sizeof *micro->input);
    micro->output = zt_calloc(ctx, (size_t)micro->output_count + 1, sizeof *micro->output);
    micro->offset = zt_calloc(ctx, (size_t)micro->weight_count + 1, sizeof *micro->offset);
    micro->inputs = zt_calloc(ctx, (size_t)micro->input_count + 1, sizeof *micro->inputs);
    micro->outputs = zt_calloc(ctx, (size_t)zt_prog_n_outputs(gradient) + 1, sizeof *micro->outputs);
    bool room = micro->input && micro->output && micro->offset && micro->inputs && micro->outputs;
    zt_status status = room ? ZT_OK : ZT_ENOMEM;
    if (!status && zt_prog_n_symbols(gradient) != 1)
        status = zt_fail(ctx, ZT_EUSAGE, "batches cannot be split into micro-batches: the program has %d symbols, expected 1",
                         zt_prog_n_symbols(gradient));
    for (int i = 0; i < micro->input_count && !status; i++) status = inspect_input(micro, gradient, i);
    return status ? status : inspect_outputs(micro, gradient, zt_prog_n_outputs(forward));
}

zt_micro *zt_micro_open(zt_engine *engine, const zt_prog *gradient, const zt_prog *forward, const zt_store *store,
                        int loss_output, const zt_train_opts *options)
{
    zt_micro *micro = zt_calloc(engine->ctx, 1, sizeof *micro);
    if (!micro) return NULL;
    *micro = (zt_micro){.ctx = engine->ctx,
                        .split = options->accumulate,
                        .ranks = options->ranks,
                        .weight_count = zt_prog_count(gradient, ZT_VALUE_STATE),
                        .input_count = zt_prog_count(gradient, ZT_VALUE_IN),
                        .loss_output = loss_output,
                        .changed = true};
    micro->output_count = zt_prog_n_outputs(gradient) - micro->weight_count;
    zt_status status = inspect_ports(micro, gradient, forward);
    if (!status) micro->session = zt_session_open(engine, gradient, store, &(zt_session_opts){.strict = options->strict});
    if (micro->session && !status && lay_out(micro) == ZT_OK) return micro;
    zt_micro_close(micro);
    return NULL;
}

void zt_micro_close(zt_micro *micro)
{
    if (!micro) return;
    zt_session_close(micro->session);
    for (int i = 0; i < MAX_SUMS; i++) zt_free(micro->ctx, micro->stack[i].values);
    zt_free(micro->ctx, micro->input);
    zt_free(micro->ctx, micro->output);
    zt_free(micro->ctx, micro->offset);
    zt_free(micro->ctx, micro->inputs);
    zt_free(micro->ctx, micro->outputs);
    zt_free(micro->ctx, micro->weights);
    zt_free(micro->ctx, micro);
}

zt_session *zt_micro_session(zt_micro *micro) { return micro->session; }
void zt_micro_changed(zt_micro *micro) { micro->changed = true; }

/* ---- numbers --------------------------------------------------------------------------------- */

static size_t count_numbers(zt_dtype type, size_t bytes) { return bytes / (type == ZT_F32 ? sizeof(float) : sizeof(double)); }

static void put_number(zt_dtype type, void *to, double number)
{
    float single = (float)number;
    memcpy(to, type == ZT_F32 ? (void *)&single : (void *)&number, type == ZT_F32 ? sizeof single : sizeof number);
}

static void scale_numbers(zt_dtype type, void *values, size_t bytes, double factor)
{
    size_t count = count_numbers(type, bytes);
    float *single = values;
    double *wide = values;
    for (size_t i = 0; i < count && type == ZT_F32; i++) single[i] *= (float)factor;
    for (size_t i = 0; i < count && type == ZT_F64; i++) wide[i] *= factor;
}

static void add_numbers(zt_dtype type, void *sum, const void *values, size_t bytes)
{
    size_t count = count_numbers(type, bytes);
    float *restrict single = sum;
    double *restrict wide = sum;
    const float *other_single = values;
    const double *other_wide = values;
    for (size_t i = 0; i < count && type == ZT_F32; i++) single[i] += other_single[i];
    for (size_t i = 0; i < count && type == ZT_F64; i++) wide[i] += other_wide[i];
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* The gradients, and the loss behind them. */
static size_t sum_bytes(const zt_micro *micro) { return micro->offset[micro->weight_count] + sizeof(double); }

static double *loss_of(const zt_micro *micro, const partial_sum *sum)
{
    return (double *)(void *)(sum->values + micro->offset[micro->weight_count]);
}

/* The next free entry of the stack, with memory. NULL: ZT_ENOMEM. */
static partial_sum *push_sum(zt_micro *micro, int64_t first, int64_t count)
{
    partial_sum *sum = &micro->stack[micro->depth];
    if (!sum->values) sum->values = zt_calloc(micro->ctx, 1, sum_bytes(micro));
    if (!sum->values) return NULL;
    sum->first = first;
    sum->count = count;
    micro->depth++;
    return sum;
}

/* Adds the sum on top of the stack to the one below it. */
static void merge_top(zt_micro *micro)
{
    partial_sum *right = &micro->stack[--micro->depth], *left = right - 1;
    add_numbers(micro->type, left->values, right->values, micro->offset[micro->weight_count]);
    *loss_of(micro, left) += *loss_of(micro, right);
    left->count += right->count;
}

/* Are the two sums on top the children of a node, a power of two of leaves? */
static bool top_are_siblings(const zt_micro *micro)
{
    if (micro->depth < 2) return false;
    const partial_sum *right = &micro->stack[micro->depth - 1], *left = right - 1;
    return left->count == right->count && left->first % (2 * left->count) == 0;
}

/* ---- a micro-batch --------------------------------------------------------------------------- */

/* Rows first to first + count - 1, the index-th part of `parts`. */
typedef struct row_range {
    int64_t index, parts, first, count, all;
} row_range;

static row_range range_of(int64_t index, int64_t parts, int64_t rows)
{
    int64_t first = rows * index / parts;
    return (row_range){index, parts, first, rows * (index + 1) / parts - first, rows};
}

static void scale_outputs(const zt_micro *micro, const row_range *range, double share)
{
    for (int i = 0; i < micro->output_count; i++)
        if (micro->output[i].scaled && micro->outputs[i])
            scale_numbers(micro->output[i].dtype, micro->outputs[i], micro->output[i].row_bytes * (size_t)range->count, share);
}

/* Computes a leaf: the gradients of the rows, and their loss, times their share. */
static zt_status compute_leaf(zt_micro *micro, zt_binding rows, const row_range *range, const void *const *inputs,
                              void *const *out)
{
    partial_sum *leaf = push_sum(micro, range->index, 1);
    if (!leaf) return ZT_ENOMEM;
    int64_t counter = 0;
    union {
        float single;
        double wide;
    } loss = {.wide = 0};
    for (int i = 0; i < micro->input_count; i++) {
        micro->inputs[i] = (const char *)inputs[i] + micro->input[i].row_bytes * (size_t)range->first;
        if (!micro->input[i].counts) continue;
        memcpy(&counter, inputs[i], sizeof counter);
        counter = counter * micro->split + range->index;
        micro->inputs[i] = &counter;
    }
    for (int i = 0; i < micro->output_count; i++)
        micro->outputs[i] = out && out[i] ? (char *)out[i] + micro->output[i].row_bytes * (size_t)range->first : NULL;
    if (!micro->outputs[micro->loss_output]) micro->outputs[micro->loss_output] = &loss;
    for (int i = 0; i < micro->weight_count; i++) micro->outputs[micro->output_count + i] = leaf->values + micro->offset[i];
    rows.value = range->count;
    zt_status status = zt_session_step(micro->session, &rows, 1, micro->inputs, micro->outputs);
    if (status) return status;
    double share = (double)range->count / (double)range->all;
    memcpy(&loss, micro->outputs[micro->loss_output], micro->type == ZT_F32 ? sizeof loss.single : sizeof loss.wide);
    *loss_of(micro, leaf) = share * (micro->type == ZT_F32 ? (double)loss.single : loss.wide);
    if (range->parts == 1) return ZT_OK;
    scale_numbers(micro->type, leaf->values, micro->offset[micro->weight_count], share);
    scale_outputs(micro, range, share);
    return ZT_OK;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Places of the tree that a rank has summed: first and count of each. */
typedef struct sum_list {
    int64_t depth;
    int64_t place[MAX_SUMS][2];
} sum_list;

static zt_status send_sums(zt_micro *micro)
{
    sum_list list = {.depth = micro->depth};
    for (int i = 0; i < micro->depth; i++) {
        list.place[i][0] = micro->stack[i].first;
        list.place[i][1] = micro->stack[i].count;
    }
    zt_status status = zt_ranks_send(micro->ranks, 0, &list, sizeof list);
    for (int i = 0; i < micro->depth && !status; i++)
        status = zt_ranks_send(micro->ranks, 0, micro->stack[i].values, sum_bytes(micro));
    return status;
}

/* Continues with the sums of another rank. */
static zt_status receive_sums(zt_micro *micro, int rank)
{
    sum_list list;
    zt_status status = zt_ranks_receive(micro->ranks, rank, &list, sizeof list);
    for (int64_t i = 0; !status && i < list.depth && i < MAX_SUMS; i++) {
        partial_sum *sum = micro->depth < MAX_SUMS ? push_sum(micro, list.place[i][0], list.place[i][1]) : NULL;
        if (!sum) return micro->depth < MAX_SUMS ? ZT_ENOMEM : zt_fail(micro->ctx, ZT_ESYS, "rank %d sent too many sums", rank);
        status = zt_ranks_receive(micro->ranks, rank, sum->values, sum_bytes(micro));
        while (!status && top_are_siblings(micro)) merge_top(micro);
    }
    return status;
}

static zt_status collect_sums(zt_micro *micro)
{
    zt_status status = ZT_OK;
    if (zt_ranks_own(micro->ranks)) return send_sums(micro);
    for (int rank = 1; rank < zt_ranks_count(micro->ranks) && !status; rank++) status = receive_sums(micro, rank);
    while (!status && micro->depth > 1) merge_top(micro);
    return status;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Copies the weights of the update, on rank 0, to the sessions that compute gradients. */
static zt_status take_weights(zt_micro *micro, zt_session *update)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < micro->weight_count && !status; i++) {
        zt_type type = zt_session_state_type(micro->session, i);
        if (!zt_ranks_own(micro->ranks)) status = zt_session_state_get(update, i, micro->weights);
        if (!status) status = zt_ranks_broadcast(micro->ranks, micro->weights, zt_type_bytes(&type));
        if (!status) status = zt_session_state_set(micro->session, i, micro->weights);
    }
    micro->changed = status != ZT_OK;
    return status;
}

zt_status zt_micro_step(zt_micro *micro, zt_session *update, const zt_binding *bindings, int binding_count,
                        const void *const *inputs, void *const *out, const void **gradients, double *loss)
{
    if (binding_count != 1 || bindings[0].value < 1)
        return zt_fail(micro->ctx, ZT_EUSAGE, "a batch needs a number of rows of 1 or more");
    int64_t rows = bindings[0].value, parts = micro->split < rows ? micro->split : rows;
    int64_t ranks = zt_ranks_count(micro->ranks), own = zt_ranks_own(micro->ranks);
    zt_status status = micro->changed ? take_weights(micro, update) : ZT_OK;
    micro->depth = 0;
    for (int64_t i = parts * own / ranks; i < parts * (own + 1) / ranks && !status; i++) {
        row_range range = range_of(i, parts, rows);
        status = compute_leaf(micro, bindings[0], &range, inputs, out);
        while (!status && top_are_siblings(micro)) merge_top(micro);
    }
    if (!status) status = collect_sums(micro);
    if (status) return status;
    micro->changed = true;
    if (own) return ZT_OK;
    for (int i = 0; i < micro->weight_count; i++) gradients[i] = micro->stack[0].values + micro->offset[i];
    *loss = *loss_of(micro, &micro->stack[0]);
    if (out && out[micro->loss_output]) put_number(micro->type, out[micro->loss_output], *loss);
    return ZT_OK;
}
