/* trainer.c - owns training on an engine: the session of a step, its states, the count of steps. */
#include "lib/base/require.h"
#include "lib/run/pass.h"
#include "lib/train/train_internal.h"
#include "lib/train/train.h"

#include <string.h>
#include <xxhash.h>

struct zt_trainer {
    zt_ctx *ctx;
    zt_prog *program;    /* after its passes: the step; with accumulation its update */
    zt_session *session; /* of this program: it has all states */
    zt_prog *gradient;   /* with accumulation: the program of gradients, after its passes; else NULL */
    zt_micro *micro;
    zt_ranks *ranks;
    int weight_count, forward_inputs, forward_outputs, loss_output;
    int watched_count; /* outputs after these: values watched, and those of the method */
    uint64_t id[2];
    zt_dtype type; /* of weights, learning rate and step */
    uint64_t step_count;
    const void **inputs;
    void **outputs;
};

static int state_value(const zt_trainer *trainer, int index) { return zt_prog_nth(trainer->program, ZT_VALUE_STATE, index); }

zt_ctx *zt_trainer_ctx(const zt_trainer *trainer) { return trainer ? trainer->ctx : NULL; }
int zt_trainer_n_weights(const zt_trainer *trainer) { return trainer ? trainer->weight_count : 0; }
int zt_trainer_n_states(const zt_trainer *trainer) { return trainer ? zt_prog_count(trainer->program, ZT_VALUE_STATE) : 0; }
const char *zt_trainer_state_name(const zt_trainer *trainer, int index)
{
    if (!trainer || index < 0 || index >= zt_trainer_n_states(trainer)) return NULL;
    return trainer ? zt_prog_value(trainer->program, state_value(trainer, index))->name : NULL;
}
zt_type zt_trainer_state_type(const zt_trainer *trainer, int index)
{
    return trainer ? zt_session_state_type(trainer->session, index) : (zt_type){.rank = -1};
}
zt_status zt_trainer_get(zt_trainer *trainer, int index, void *host)
{
    if (!trainer) return ZT_EUSAGE;
    return zt_session_state_get(trainer->session, index, host);
}
zt_status zt_trainer_set(zt_trainer *trainer, int index, const void *host)
{
    if (!trainer) return ZT_EUSAGE;
    if (trainer->micro) zt_micro_changed(trainer->micro);
    return zt_session_state_set(trainer->session, index, host);
}
uint64_t zt_trainer_steps(const zt_trainer *trainer) { return trainer ? trainer->step_count : 0; }
void zt_trainer_set_steps(zt_trainer *trainer, uint64_t steps)
{
    if (!trainer) return;
    trainer->step_count = steps;
}
const zt_prog *zt_trainer_program(const zt_trainer *trainer)
{
    if (!trainer) return NULL;
    return trainer->gradient ? trainer->gradient : trainer->program;
}
zt_session *zt_trainer_session(zt_trainer *trainer)
{
    if (!trainer) return NULL;
    return trainer->micro ? zt_micro_session(trainer->micro) : trainer->session;
}
const uint64_t *zt_trainer_id(const zt_trainer *trainer) { return trainer->id; }

/* ---- opening --------------------------------------------------------------------------------- */

/* Sets a state from a tensor of the store. */
static zt_status load_weight(zt_trainer *trainer, int index, const zt_store *store, const char *tensor)
{
    char text_have[ZT_TYPE_TEXT], text_want[ZT_TYPE_TEXT];
    zt_type want = zt_trainer_state_type(trainer, index), have;
    int64_t handle;
    zt_status status = store->find(store->user, tensor, &have, &handle);
    if (status) return zt_ctx_status(trainer->ctx) ? status : zt_fail(trainer->ctx, ZT_EDATA, "missing tensor '%s'", tensor);
    zt_dtype stored = have.dtype;
    have.dtype = want.dtype;
    bool alike = zt_type_equal(&have, &want) && (stored == want.dtype || zt_dtype_converts(stored, want.dtype));
    have.dtype = stored;
    if (!alike)
        return zt_fail(trainer->ctx, ZT_EDATA, "tensor '%s' has type %s, but the weight has %s", tensor,
                       zt_type_text(&have, text_have), zt_type_text(&want, text_want));
    char *raw = zt_alloc(trainer->ctx, zt_type_bytes(&have) + 1);
    char *converted = zt_alloc(trainer->ctx, zt_type_bytes(&want) + 1);
    status = raw && converted ? store->read(store->user, handle, 0, raw, zt_type_bytes(&have)) : ZT_ENOMEM;
    if (!status && stored != want.dtype) zt_dtype_convert(stored, raw, want.dtype, converted, zt_type_count(&want));
    if (!status) status = zt_trainer_set(trainer, index, stored == want.dtype ? raw : converted);
    zt_free(trainer->ctx, raw);
    zt_free(trainer->ctx, converted);
    return status;
}

static zt_status load_all(zt_trainer *trainer, const zt_prog *forward, const zt_store *store)
{
    zt_status status = ZT_OK;
    for (int weight_index = 0; weight_index < trainer->weight_count && !status; weight_index++) {
        const char *name = zt_trainer_state_name(trainer, weight_index);
        const zt_value *value = zt_prog_value(forward, zt_prog_find(forward, name));
        status = load_weight(trainer, weight_index, store, value->kind == ZT_VALUE_DATA ? value->tensor : name);
    }
    return status;
}

/* The program after its passes; it is taken over. NULL: NULL. */
static zt_prog *apply_passes(zt_engine *engine, zt_prog *program, const zt_binding *sample, int sample_count)
{
    if (!program) return NULL;
    zt_pass_opts pass_options = {.sample = sample, .n_sample = sample_count, .engine = engine};
    zt_prog *passed = zt_prog_passes(engine->ctx, program, &pass_options, NULL);
    zt_prog_free(program);
    return passed;
}

static zt_status check_ranks(zt_ctx *ctx, const zt_train_opts *options)
{
    int64_t parts = options->accumulate > 1 ? options->accumulate : 1;
    if (zt_ranks_count(options->ranks) <= parts) return ZT_OK;
    return zt_fail(ctx, ZT_EUSAGE, "gradient accumulation of %lld micro-batches for %d ranks: at least one for each is needed",
                   (long long)parts, zt_ranks_count(options->ranks));
}

/* Sets the trainer's programs. */
static zt_status make_programs(zt_trainer *trainer, zt_engine *engine, const zt_prog *forward, const zt_train_opts *options)
{
    zt_ctx *ctx = trainer->ctx;
    if (options->accumulate > 1 && options->gradient)
        return zt_fail(ctx, ZT_EUSAGE, "this training method takes a batch as a whole: it cannot be split into micro-batches");
    if (options->accumulate <= 1) {
        zt_prog *step = zt_train_program(ctx, forward, options);
        trainer->program = apply_passes(engine, step, options->sample, options->n_sample);
    } else {
        zt_prog *gradient = zt_train_gradient_program(ctx, forward, options);
        trainer->program = gradient ? apply_passes(engine, zt_train_update_program(ctx, gradient, options), NULL, 0) : NULL;
        trainer->gradient = apply_passes(engine, gradient, options->sample, options->n_sample);
        if (!trainer->gradient) return zt_ctx_status(ctx);
    }
    return trainer->program ? ZT_OK : zt_ctx_status(ctx);
}

static zt_status inspect_program(zt_trainer *trainer, const zt_prog *forward, const zt_train_opts *options)
{
    const char *loss = options->loss ? options->loss : "loss";
    const zt_prog *program = zt_trainer_program(trainer);
    trainer->forward_inputs = zt_prog_count(program, ZT_VALUE_IN) - (trainer->gradient ? 0 : 2);
    trainer->forward_outputs = zt_prog_n_outputs(forward);
    for (int i = 0; i < trainer->forward_outputs; i++)
        if (!strcmp(zt_prog_output(forward, i)->name, loss)) trainer->loss_output = i;
    for (int index = 0; index < zt_prog_n_values(forward); index++) {
        const zt_value *value = zt_prog_value(forward, index);
        int found = value->kind == ZT_VALUE_OP ? -1 : zt_prog_find(trainer->program, value->name);
        trainer->weight_count += found >= 0 && zt_prog_value(trainer->program, found)->kind == ZT_VALUE_STATE;
    }
    trainer->type = zt_prog_value(trainer->program, state_value(trainer, 0))->type.dtype;
    size_t input_count = (size_t)zt_prog_count(trainer->program, ZT_VALUE_IN) + (size_t)trainer->forward_inputs + 2;
    trainer->inputs = zt_calloc(trainer->ctx, input_count, sizeof *trainer->inputs);
    int others = trainer->forward_outputs + (trainer->gradient ? trainer->weight_count : 1);
    trainer->watched_count = zt_prog_n_outputs(program) - others;
    trainer->outputs =
        zt_calloc(trainer->ctx, (size_t)(trainer->forward_outputs + 1 + trainer->watched_count), sizeof *trainer->outputs);
    return trainer->inputs && trainer->outputs ? ZT_OK : ZT_ENOMEM;
}

/* The forward program with the loss as its only output; weights: options->weights in it. */
static zt_prog *cut_to_loss(zt_ctx *ctx, const zt_prog *program, int loss, const zt_train_opts *options, int *weights)
{
    int *map = zt_calloc(ctx, (size_t)zt_prog_n_values(program) + 1, sizeof *map);
    zt_prog *result = map ? zt_prog_like(program, map) : NULL;
    const zt_output *out = zt_prog_output(program, loss);
    bool good = result && !zt_train_copy_ops(ctx, program, result, map) && !zt_prog_out(result, out->name, map[out->value]);
    for (int i = 0; good && i < options->n_weights; i++) weights[i] = map[options->weights[i]];
    zt_free(ctx, map);
    if (good) return result;
    zt_prog_free(result);
    return NULL;
}

/* The identity: the step without other outputs and watched values. */
static zt_status hash_step(zt_trainer *trainer, const zt_engine *engine, const zt_prog *forward, const zt_train_opts *options)
{
    int *weights = zt_alloc_array(trainer->ctx, (size_t)options->n_weights + 1, sizeof *weights);
    zt_train_opts plain = *options;
    plain.n_watched = 0;
    plain.weights = options->n_weights ? weights : NULL;
    zt_prog *cut = weights ? cut_to_loss(trainer->ctx, forward, trainer->loss_output, options, weights) : NULL;
    zt_prog *step = cut ? zt_train_program(trainer->ctx, cut, &plain) : NULL;
    zt_str text;
    zt_str_init(&text, trainer->ctx);
    zt_status status = step ? zt_prog_print(step, &text) : zt_ctx_status(trainer->ctx);
    if (!status) status = zt_str_puts(&text, zt_engine_inmost(engine)->vt->name);
    if (!status && options->accumulate > 1) status = zt_str_printf(&text, "\naccumulate %lld\n", (long long)options->accumulate);
    XXH128_hash_t hash = XXH3_128bits(text.data, status ? 0 : text.len);
    trainer->id[0] = hash.low64;
    trainer->id[1] = hash.high64;
    zt_str_fini(&text);
    zt_prog_free(step);
    zt_prog_free(cut);
    zt_free(trainer->ctx, weights);
    return status;
}

/* The loss must be of rank 0 and of the weights' dtype. */
static zt_status check_loss(const zt_trainer *trainer, const zt_train_opts *options)
{
    char text[ZT_TYPE_TEXT];
    const zt_prog *program = zt_trainer_program(trainer);
    zt_bound *bound = zt_prog_bind(program, options->sample, options->n_sample);
    if (!bound) return zt_ctx_status(trainer->ctx);
    zt_type loss = bound->type[zt_prog_output(program, trainer->loss_output)->value];
    zt_bound_free(bound);
    if (loss.dtype == trainer->type && loss.rank == 0) return ZT_OK;
    return zt_fail(trainer->ctx, ZT_EUSAGE, "the loss has type %s: must be a scalar of %s like the weights",
                   zt_type_text(&loss, text), zt_dtype_get(trainer->type)->name);
}

zt_trainer *zt_trainer_open(zt_engine *engine, const zt_prog *forward, const zt_train_opts *options, const zt_store *store)
{
    if (!engine) return NULL;
    ZT_REQUIRE(engine->ctx, forward && options, NULL);
    zt_ctx *ctx = engine->ctx;
    zt_trainer *trainer = zt_calloc(ctx, 1, sizeof *trainer);
    if (!trainer) return NULL;
    trainer->ctx = ctx;
    trainer->ranks = options->ranks;
    zt_status status = check_ranks(ctx, options);
    if (!status) status = make_programs(trainer, engine, forward, options);
    if (!status) status = inspect_program(trainer, forward, options);
    if (!status) status = check_loss(trainer, options);
    if (!status && trainer->gradient) {
        trainer->micro = zt_micro_open(engine, trainer->gradient, forward, store, trainer->loss_output, options);
        if (!trainer->micro) status = zt_ctx_status(ctx);
    }
    if (!status)
        trainer->session = zt_session_open(engine, trainer->program, store, &(zt_session_opts){.strict = options->strict});
    if (trainer->session) status = hash_step(trainer, engine, forward, options);
    if (trainer->session && !status) status = load_all(trainer, forward, store);
    if (trainer->session && !status) return trainer;
    zt_trainer_close(trainer);
    return NULL;
}

void zt_trainer_close(zt_trainer *trainer)
{
    if (!trainer) return;
    zt_micro_close(trainer->micro);
    zt_session_close(trainer->session);
    zt_prog_free(trainer->gradient);
    zt_prog_free(trainer->program);
    zt_free(trainer->ctx, trainer->inputs);
    zt_free(trainer->ctx, trainer->outputs);
    zt_free(trainer->ctx, trainer);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* A number of rank 0, of the weights' type. */
typedef union number {
    float single;
    double wide;
} number;

static number as_number(const zt_trainer *trainer, double value)
{
    number result = {.wide = value};
    if (trainer->type == ZT_F32) result.single = (float)value;
    return result;
}

static double value_of(const zt_trainer *trainer, number value)
{
    return trainer->type == ZT_F32 ? (double)value.single : value.wide;
}

/* The whole step by one program. */
static zt_status step_at_once(zt_trainer *trainer, const zt_binding *bindings, int binding_count, const void *const *inputs,
                              double learning_rate, void *const *out, zt_trained *result)
{
    number rate = as_number(trainer, learning_rate), count = as_number(trainer, (double)(trainer->step_count + 1)), loss, norm;
    for (int i = 0; i < trainer->forward_inputs; i++) trainer->inputs[i] = inputs[i];
    trainer->inputs[trainer->forward_inputs] = &rate;
    trainer->inputs[trainer->forward_inputs + 1] = &count;
    for (int output = 0; output < trainer->forward_outputs; output++) trainer->outputs[output] = out ? out[output] : NULL;
    if (!trainer->outputs[trainer->loss_output]) trainer->outputs[trainer->loss_output] = &loss;
    trainer->outputs[trainer->forward_outputs] = &norm;
    for (int i = 0; i < trainer->watched_count; i++)
        trainer->outputs[trainer->forward_outputs + 1 + i] = out ? out[trainer->forward_outputs + i] : NULL;
    zt_status status = zt_session_step(trainer->session, bindings, binding_count, trainer->inputs, trainer->outputs);
    if (status) return status;
    memcpy(&loss, trainer->outputs[trainer->loss_output], trainer->type == ZT_F32 ? sizeof loss.single : sizeof loss.wide);
    *result = (zt_trained){value_of(trainer, loss), value_of(trainer, norm)};
    return ZT_OK;
}

/* The gradients by micro-batches, then the update. */
static zt_status step_by_parts(zt_trainer *trainer, const zt_binding *bindings, int binding_count, const void *const *inputs,
                               double learning_rate, void *const *out, zt_trained *result)
{
    number rate = as_number(trainer, learning_rate), count = as_number(trainer, (double)(trainer->step_count + 1)), norm;
    void *outputs[] = {&norm};
    zt_status status =
        zt_micro_step(trainer->micro, trainer->session, bindings, binding_count, inputs, out, trainer->inputs, &result->loss);
    trainer->inputs[trainer->weight_count] = &rate;
    trainer->inputs[trainer->weight_count + 1] = &count;
    if (!status && !zt_ranks_own(trainer->ranks)) {
        status = zt_session_step(trainer->session, NULL, 0, trainer->inputs, outputs);
        result->grad_norm = status ? 0 : value_of(trainer, norm);
    }
    return status ? status : zt_ranks_broadcast(trainer->ranks, result, sizeof *result);
}

zt_status zt_trainer_step(zt_trainer *trainer, const zt_binding *bindings, int binding_count, const void *const *inputs,
                          double learning_rate, void *const *out, zt_trained *result)
{
    if (!trainer) return ZT_EUSAGE;
    ZT_REQUIRE(zt_trainer_ctx(trainer), result && (inputs || !trainer->forward_inputs), ZT_EUSAGE);
    zt_status status =
        (trainer->micro ? step_by_parts : step_at_once)(trainer, bindings, binding_count, inputs, learning_rate, out, result);
    if (!status) trainer->step_count++;
    return status;
}
