/* learner.c - what -m names: a forward program with a loss, and its weights. */
#include "tools/zt-train/train_tool.h"

#include <math.h>
#include <string.h>

/* ---- a store over the weights, and what is below --------------------------------------------- */

static int count_tensors(const train_learner *learner) { return learner->weight_count + learner->kept_count; }

static zt_status find_tensor(void *user, const char *name, zt_type *type, int64_t *handle)
{
    const train_learner *learner = user;
    for (int i = 0; i < count_tensors(learner); i++)
        if (!strcmp(learner->weights[i].name, name)) {
            *type = learner->weights[i].type;
            *handle = i;
            return ZT_OK;
        }
    zt_status status = learner->below.find ? learner->below.find(learner->below.user, name, type, handle) : ZT_ENOENT;
    *handle += count_tensors(learner);
    return status;
}

static zt_status read_bytes(void *user, int64_t handle, size_t offset, void *dst, size_t length)
{
    const train_learner *learner = user;
    if (handle >= count_tensors(learner))
        return learner->below.read(learner->below.user, handle - count_tensors(learner), offset, dst, length);
    memcpy(dst, (const char *)learner->weights[handle].values + offset, length);
    return ZT_OK;
}

zt_store train_learner_store(train_learner *learner) { return (zt_store){learner, find_tensor, read_bytes}; }

/* ---- weights --------------------------------------------------------------------------------- */

/* What is in no file: normal, of deviation 1/sqrt(numbers that are summed) for matrices and
 * filters, 0 for vectors. Each weight has a sequence of its own, by its number. */
static void draw_weight(train_weight *weight, uint64_t seed, int number)
{
    int64_t count = zt_type_count(&weight->type), fan = weight->type.rank > 1 ? count / weight->type.dim[0] : 0;
    double deviation = fan > 0 ? 1 / sqrt((double)fan) : 0;
    for (int64_t i = 0; i < count; i++) weight->values[i] = (float)(deviation * zt_normal(seed, (uint64_t)number, (uint64_t)i));
}

/* From `store`, in any type that becomes f32; *found false: it has none of the name. */
static zt_status load_weight(zt_ctx *ctx, train_weight *weight, const zt_store *store, bool *found)
{
    char text_have[ZT_TYPE_TEXT], text_want[ZT_TYPE_TEXT];
    zt_type have;
    int64_t handle;
    zt_status status = store->find ? store->find(store->user, weight->name, &have, &handle) : ZT_ENOENT;
    *found = status != ZT_ENOENT;
    if (status) return *found ? status : ZT_OK;
    zt_type wanted = have;
    wanted.dtype = ZT_F32;
    if (!zt_type_equal(&wanted, &weight->type) || (have.dtype != ZT_F32 && !zt_dtype_converts(have.dtype, ZT_F32)))
        return zt_fail(ctx, ZT_EDATA, "tensor '%s' is %s, expected %s", weight->name, zt_type_text(&have, text_have),
                       zt_type_text(&weight->type, text_want));
    char *raw = zt_alloc(ctx, zt_type_bytes(&have) + 1);
    status = raw ? store->read(store->user, handle, 0, raw, zt_type_bytes(&have)) : ZT_ENOMEM;
    if (!status) zt_dtype_convert(have.dtype, raw, ZT_F32, weight->values, zt_type_count(&weight->type));
    zt_free(ctx, raw);
    return status;
}

static zt_status add_weight(train_learner *learner, const zt_value *value, const zt_store *store)
{
    zt_ctx *ctx = learner->cli->ctx;
    train_weight *weight = &learner->weights[learner->weight_count];
    bool found = false;
    if (value->type.dtype != ZT_F32)
        return zt_fail(ctx, ZT_EUSAGE, "data '%s' is %s, expected f32 for trained weights", value->name,
                       zt_dtype_get(value->type.dtype)->name);
    for (int axis = 0; axis < value->type.rank; axis++)
        if (value->type.dim[axis] < 0) return zt_fail(ctx, ZT_EUSAGE, "data '%s' has no fixed shape", value->name);
    weight->name = zt_strdup(ctx, value->tensor);
    weight->type = value->type;
    weight->values = zt_alloc(ctx, zt_type_bytes(&value->type) + 1);
    learner->weight_count++;
    zt_status status = weight->name && weight->values ? load_weight(ctx, weight, store, &found) : ZT_ENOMEM;
    if (!status && !found) draw_weight(weight, learner->cli->seed, learner->weight_count - 1);
    return status;
}

zt_status train_learner_weights(train_learner *learner, const zt_store *from,
                                bool (*is_weight)(const train_learner *learner, const char *name))
{
    int count = zt_prog_count(learner->forward, ZT_VALUE_DATA);
    learner->weights = zt_calloc(learner->cli->ctx, (size_t)count + 1, sizeof *learner->weights);
    learner->trained = zt_calloc(learner->cli->ctx, (size_t)count + 1, sizeof *learner->trained);
    zt_status status = learner->weights && learner->trained ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < count && !status; i++) {
        int value = zt_prog_nth(learner->forward, ZT_VALUE_DATA, i);
        const zt_value *data = zt_prog_value(learner->forward, value);
        if (is_weight && !is_weight(learner, data->tensor)) continue;
        learner->trained[learner->weight_count] = value;
        status = add_weight(learner, data, from);
    }
    if (status || learner->weight_count) return status;
    return zt_fail(learner->cli->ctx, ZT_EUSAGE, "the program has no trainable weights");
}

zt_status train_learner_keep(train_learner *learner, const zt_entry *entry, const zt_store *from)
{
    zt_ctx *ctx = learner->cli->ctx;
    size_t count = (size_t)count_tensors(learner);
    train_weight *grown = zt_realloc(ctx, learner->weights, (count + 1) * sizeof *grown);
    bool found = false;
    if (!grown) return ZT_ENOMEM;
    learner->weights = grown;
    train_weight *kept = &grown[count];
    *kept = (train_weight){.name = zt_strdup(ctx, entry->name), .type = entry->type};
    kept->type.dtype = ZT_F32;
    kept->values = zt_alloc(ctx, zt_type_bytes(&kept->type) + 1);
    learner->kept_count++;
    return kept->name && kept->values ? load_weight(ctx, kept, from, &found) : ZT_ENOMEM;
}

/* ---- programs -------------------------------------------------------------------------------- */

static bool has_loss(const zt_prog *program)
{
    for (int output = 0; output < zt_prog_n_outputs(program); output++)
        if (!strcmp(zt_prog_output(program, output)->name, "loss")) return true;
    return false;
}

/* Has the output y a prediction for each id of a row of x: [count, ids] and [count, ids, classes]? */
static int64_t count_positions(const zt_type *input, const zt_type *output)
{
    int64_t count = 1;
    if (input->rank < 2 || output->rank != input->rank + 1) return 1;
    for (int axis = 1; axis < input->rank; axis++) {
        if (input->dim[axis] != output->dim[axis]) return 1;
        count *= input->dim[axis];
    }
    return count;
}

static zt_status find_output(zt_cli *cli, const zt_prog *program, int64_t batch, train_output *out)
{
    zt_binding binding = {zt_prog_n_symbols(program) ? zt_prog_symbol_name(program, 0) : "n", batch};
    zt_bound *bound = zt_prog_bind(program, &binding, 1);
    *out = (train_output){.output = 0};
    if (!bound) return zt_ctx_status(cli->ctx);
    while (out->output < zt_prog_n_outputs(program) && !strcmp(zt_prog_output(program, out->output)->name, "loss")) out->output++;
    bool there = out->output < zt_prog_n_outputs(program);
    zt_type types = there ? bound->type[zt_prog_output(program, out->output)->value] : (zt_type){0};
    int first = zt_prog_nth(program, ZT_VALUE_IN, 0);
    out->positions = there && first >= 0 ? count_positions(&bound->type[first], &types) : 1;
    zt_bound_free(bound);
    if (!there || types.rank < 1 || types.dtype != ZT_F32 || types.dim[0] != batch)
        return zt_fail(cli->ctx, ZT_EUSAGE, "the program has no f32 output with one row per sample");
    out->count = zt_type_count(&types) / batch;
    out->classes = types.rank > 1 ? types.dim[types.rank - 1] : 1;
    return out->count > 0 ? ZT_OK : zt_fail(cli->ctx, ZT_EUSAGE, "the program's output is empty");
}

zt_status train_find_output(const train_learner *learner, int64_t batch, train_output *out)
{
    return find_output(learner->cli, learner->forward, batch, out);
}

/* To be judged, a program wants what is expected, after its own inputs: a number a row, or for each
 * position of a row, or one for each output. */
static zt_prog *with_expected(zt_cli *cli, zt_prog *program, const train_options *options)
{
    int first = zt_prog_nth(program, ZT_VALUE_IN, 0);
    const zt_type *input = first < 0 ? NULL : &zt_prog_value(program, first)->type;
    train_output output = {.output = 0};
    bool rows = input && input->rank > 0;
    if (!rows) zt_fail(cli->ctx, ZT_EUSAGE, "the program has no input with one row per sample");
    bool good = rows && find_output(cli, program, options->batch, &output) == ZT_OK;
    int64_t dim[2] = {rows ? input->dim[0] : 0, options->wide ? output.count : output.positions};
    if (good && zt_prog_in(program, "target", ZT_F32, options->wide || output.positions > 1 ? 2 : 1, dim) >= 0) return program;
    zt_prog_free(program);
    return NULL;
}

/* To be run only, a program has no more than its inputs, and behind them with --labels a number a row. */
static zt_prog *with_label(zt_cli *cli, zt_prog *program, const train_options *options)
{
    int first = zt_prog_nth(program, ZT_VALUE_IN, 0);
    const zt_type *input = first < 0 ? NULL : &zt_prog_value(program, first)->type;
    if (!options->labels) return program;
    if (!input || input->rank < 1) zt_fail(cli->ctx, ZT_EUSAGE, "the program has no input with one row per sample");
    if (input && input->rank > 0 && zt_prog_in(program, "target", ZT_F32, 1, input->dim) >= 0) return program;
    zt_prog_free(program);
    return NULL;
}

/* The program itself where it has a loss, else one that has. */
zt_prog *train_with_loss(zt_cli *cli, zt_prog *program, const train_options *options)
{
    zt_binding rows = {zt_prog_n_symbols(program) ? zt_prog_symbol_name(program, 0) : "n", options->batch};
    if (has_loss(program) && options->loss < 0) return program;
    if (options->forward_only) return with_label(cli, program, options);
    if (options->eval) return with_expected(cli, program, options);
    zt_prog *result =
        zt_train_with_loss(cli->ctx, program, NULL, options->loss < 0 ? ZT_LOSS_MSE : (zt_loss_kind)options->loss, &rows, 1);
    zt_prog_free(program);
    return result;
}

static zt_status open_program(train_learner *learner, const train_options *options)
{
    zt_ctx *ctx = learner->cli->ctx;
    if (options->method != TRAIN_BACKPROP || options->cycles)
        return zt_fail(ctx, ZT_EUSAGE, "%s: %s needs a network with layers, not a program", options->model,
                       options->cycles ? "--cycles" : "this --method");
    zt_prog *program = zt_cli_program(learner->cli, options->model);
    if (!program) return zt_ctx_status(ctx);
    learner->own_loss = has_loss(program) && options->loss < 0;
    learner->forward = train_with_loss(learner->cli, program, options);
    if (!learner->forward) return zt_ctx_status(ctx);
    zt_checkpoint *checkpoint = options->data ? zt_checkpoint_open(ctx, options->data, 0) : NULL;
    if (options->data && !checkpoint) return zt_ctx_status(ctx);
    zt_store store = checkpoint ? zt_checkpoint_store(checkpoint) : (zt_store){0};
    zt_status status = train_learner_weights(learner, &store, NULL);
    if (checkpoint && !status) {
        learner->meta = zt_meta_new(ctx);
        status = learner->meta ? zt_meta_join(learner->meta, zt_checkpoint_meta(checkpoint)) : ZT_ENOMEM;
    }
    zt_checkpoint_close(checkpoint);
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

train_learner *train_learner_open(zt_cli *cli, const train_options *options)
{
    train_learner *learner = zt_calloc(cli->ctx, 1, sizeof *learner);
    if (!learner) return NULL;
    learner->cli = cli;
    zt_status status = train_is_network(cli, options) ? train_open_network(learner, options) : open_program(learner, options);
    if (!status) return learner;
    train_learner_close(learner);
    return NULL;
}

void train_learner_close(train_learner *learner)
{
    if (!learner) return;
    zt_ctx *ctx = learner->cli->ctx;
    for (int weight_index = 0; weight_index < count_tensors(learner); weight_index++) {
        zt_free(ctx, learner->weights[weight_index].name);
        zt_free(ctx, learner->weights[weight_index].values);
    }
    zt_free(ctx, learner->weights);
    zt_free(ctx, learner->trained);
    zt_meta_free(learner->meta);
    train_free_targets(learner);
    for (int i = 0; i < learner->observed_count; i++) zt_free(ctx, learner->observed[i].input);
    zt_free(ctx, learner->observed);
    zt_prog_free(learner->forward);
    train_adapter_close(learner);
    zt_nn_close(learner->network);
    zt_free(ctx, learner);
}

zt_status train_learner_take(train_learner *learner, zt_trainer *trainer)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < zt_trainer_n_weights(trainer) && !status; i++) {
        const char *name = zt_trainer_state_name(trainer, i);
        const char *tensor = zt_prog_value(learner->forward, zt_prog_find(learner->forward, name))->tensor;
        zt_type type;
        int64_t k;
        status = find_tensor(learner, tensor, &type, &k);
        if (!status) status = zt_trainer_get(trainer, i, learner->weights[k].values);
    }
    return status;
}

/* Is the name one of a container of tensors? */
static bool is_container(const char *path)
{
    const zt_container *container = zt_container_for(path);
    return container && strcmp(zt_container_name(container), "json") != 0;
}

zt_status train_learner_write(train_learner *learner, const char *path)
{
    zt_ctx *ctx = learner->cli->ctx;
    if (learner->adapter) return train_adapter_write(learner);
    if (learner->network && !is_container(path)) return train_write_network(learner, path);
    zt_entry *entry = zt_calloc(ctx, (size_t)count_tensors(learner) + 1, sizeof *entry);
    zt_meta *none = learner->meta ? NULL : zt_meta_new(ctx);
    for (int i = 0; entry && i < count_tensors(learner); i++)
        entry[i] = (zt_entry){.name = learner->weights[i].name,
                              .dtype = "f32",
                              .type = learner->weights[i].type,
                              .bytes = zt_type_bytes(&learner->weights[i].type)};
    zt_checkpoint_opts options = {.force = learner->cli->force};
    zt_writer *writer =
        entry && (learner->meta || none)
            ? zt_writer_open(ctx, path, &options, learner->meta ? learner->meta : none, entry, count_tensors(learner))
            : NULL;
    zt_status status = writer ? ZT_OK : zt_ctx_status(ctx);
    for (int i = 0; i < count_tensors(learner) && !status; i++)
        status = zt_writer_put(writer, learner->weights[i].values, zt_type_bytes(&learner->weights[i].type));
    if (!status) status = zt_writer_commit(writer);
    zt_writer_close(writer);
    zt_meta_free(none);
    zt_free(ctx, entry);
    return status;
}
