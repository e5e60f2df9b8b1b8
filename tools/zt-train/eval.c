/* eval.c - zt-train --eval: predictions of one network, or of several, against what was expected. */
#include "tools/zt-train/train_tool.h"

#include <math.h>
#include <string.h>

typedef struct eval {
    zt_cli *cli;
    train_options options;
    train_learner *learner;
    zt_samples *data;
    zt_session *session;
    zt_engine *engine;        /* borrowed */
    train_observer *observer; /* NULL: none */
    float *room;              /* a batch of the output */
    train_scores *scores;
} eval;

/* ---- what is expected ------------------------------------------------------------------------ */

static const zt_field *find_target(const eval *evaluation)
{
    return &evaluation->data->fields[evaluation->data->field_count - 1];
}

/* Number k of a sample's target. */
static double expected_at(const eval *evaluation, int64_t row, int64_t k)
{
    const zt_field *field = find_target(evaluation);
    const char *bytes =
        field->data.data + (size_t)row * field->bytes + (size_t)k * (size_t)zt_dtype_get(field->row.dtype)->block_bytes;
    float single;
    double number;
    int64_t wide;
    int32_t word;
    if (field->row.dtype == ZT_F32) return memcpy(&single, bytes, sizeof single), (double)single;
    if (field->row.dtype == ZT_F64) return memcpy(&number, bytes, sizeof number), number;
    if (field->row.dtype == ZT_I64) return memcpy(&wide, bytes, sizeof wide), (double)wide;
    return memcpy(&word, bytes, sizeof word), (double)word;
}

/* Is every target a 1 among zeros: a class, by its place? */
static bool is_one_hot(const eval *evaluation, int64_t count)
{
    for (int64_t row = 0; row < evaluation->data->rows; row++) {
        int64_t ones = 0;
        for (int64_t k = 0; k < count; k++) {
            double value = expected_at(evaluation, row, k);
            if (value != 0 && value != 1) return false;
            ones += value == 1;
        }
        if (ones != 1) return false;
    }
    return true;
}

static int64_t find_hot(const eval *evaluation, int64_t row, int64_t count)
{
    for (int64_t k = 0; k < count; k++)
        if (expected_at(evaluation, row, k) == 1) return k;
    return -1;
}

/* Several numbers a sample are the classes of its positions, a class or as many values; one number is
 * a value or, of several outputs, a class. */
static zt_status choose_judge(eval *evaluation, const train_output *output)
{
    const zt_field *field = find_target(evaluation);
    int64_t count = zt_type_count(&field->row), n_out = output->count;
    bool floats = field->row.dtype == ZT_F32 || field->row.dtype == ZT_F64;
    evaluation->scores->n_target = count;
    evaluation->scores->are_classes = n_out > 1;
    if (count == 1) return ZT_OK;
    if (count == output->positions) {
        evaluation->scores->n_values = count;
        evaluation->scores->classes = output->classes;
        evaluation->scores->are_classes = true;
        return ZT_OK;
    }
    if (count != n_out || !floats)
        return zt_fail(
            evaluation->cli->ctx, ZT_EUSAGE,
            "%s: the target '%s' has %lld %s per sample, but the network has %lld outputs; expected one class or one value per output",
            evaluation->options.model, field->name, (long long)count, floats ? "numbers" : "integers", (long long)n_out);
    evaluation->scores->are_classes = is_one_hot(evaluation, count);
    evaluation->scores->n_values = evaluation->scores->are_classes ? 0 : count;
    return ZT_OK;
}

/* ---- predictions ----------------------------------------------------------------------------- */

static void judge_rows(eval *evaluation, int64_t row, int64_t offset, int64_t n_out)
{
    train_scores *scores = evaluation->scores;
    const float *outputs = evaluation->room + row * n_out;
    if (!scores->n_values) {
        double expected =
            scores->n_target > 1 ? (double)find_hot(evaluation, offset, scores->n_target) : expected_at(evaluation, offset, 0);
        scores->each[offset] = zt_deviation_of(expected, zt_prediction(outputs, n_out));
        zt_deviations_add(&scores->all, &scores->each[offset]);
        return;
    }
    for (int64_t k = 0; k < scores->n_values; k++) {
        zt_deviation *deviation = &scores->each[offset * scores->n_values + k];
        double actual = scores->classes ? zt_prediction(outputs + k * scores->classes, scores->classes) : (double)outputs[k];
        *deviation = zt_deviation_of(expected_at(evaluation, offset, k), actual);
        zt_deviations_add(&scores->all, deviation);
        zt_deviations_add(&scores->output[k], deviation);
    }
}

static zt_status predict_batches(eval *evaluation, const zt_batches *batches, const train_output *output)
{
    const void *inputs[ZT_FIT_INPUTS];
    zt_binding bind[ZT_MAX_SYMBOLS];
    int64_t offset = 0;
    size_t n_out = (size_t)zt_prog_n_outputs(evaluation->learner->forward);
    void **out = zt_calloc(evaluation->cli->ctx, n_out, sizeof *out);
    zt_status status = out ? ZT_OK : ZT_ENOMEM;
    if (out && evaluation->observer) memcpy(out, train_observer_out(evaluation->observer), n_out * sizeof *out);
    if (out) out[output->output] = evaluation->room;
    for (int64_t i = 0; i < batches->per_epoch && !status; i++) {
        int binding_count;
        int64_t rows;
        status = batches->get(batches->user, 0, i, inputs, bind, &binding_count, &rows);
        if (!status) status = zt_session_step(evaluation->session, bind, binding_count, inputs, out);
        for (int64_t row = 0; row < rows && !status; row++) judge_rows(evaluation, row, offset++, output->count);
        if (!status && evaluation->observer) status = train_observer_tell(evaluation->observer, rows, (uint64_t)i + 1);
    }
    zt_free(evaluation->cli->ctx, out);
    return !status && evaluation->observer ? train_observer_end(evaluation->observer) : status;
}

static zt_status make_room(eval *evaluation, const train_output *output)
{
    train_scores *scores = evaluation->scores;
    zt_ctx *ctx = evaluation->cli->ctx;
    size_t values = scores->n_values ? (size_t)scores->n_values : 1;
    evaluation->room =
        zt_alloc_array(ctx, (size_t)evaluation->data->batch_size, (size_t)output->count * sizeof *evaluation->room);
    scores->rows = evaluation->data->rows;
    scores->each = zt_calloc(ctx, (size_t)scores->rows, values * sizeof *scores->each);
    scores->output = zt_calloc(ctx, values, sizeof *scores->output);
    return evaluation->room && scores->each && scores->output ? ZT_OK : ZT_ENOMEM;
}

static zt_status run_evaluation(eval *evaluation)
{
    zt_batches batches;
    train_output output;
    zt_store store = train_learner_store(evaluation->learner);
    zt_status status = zt_samples_batches(evaluation->data, &(zt_shuffle){.batch = evaluation->options.batch}, &batches);
    if (!status) status = train_find_output(evaluation->learner, evaluation->data->batch_size, &output);
    if (!status) status = choose_judge(evaluation, &output);
    if (!status) status = make_room(evaluation, &output);
    if (!status && evaluation->options.observe) {
        evaluation->observer =
            train_observer_open(evaluation->learner, &evaluation->options, NULL, "eval", false, evaluation->data->batch_size);
        if (!evaluation->observer) status = zt_ctx_status(evaluation->cli->ctx);
    }
    if (!status)
        evaluation->session = zt_session_open(evaluation->engine, evaluation->learner->forward, &store,
                                              &(zt_session_opts){.strict = evaluation->cli->strict});
    if (!status)
        status = evaluation->session ? predict_batches(evaluation, &batches, &output) : zt_ctx_status(evaluation->cli->ctx);
    return status;
}

/* ---- one network ----------------------------------------------------------------------------- */

/* The data do not fit one number a sample: they may have one for each output. The first message is
 * kept where they do not. */
static zt_status open_wide(eval *evaluation)
{
    zt_ctx *ctx = evaluation->cli->ctx;
    train_output output;
    char why[1024];
    snprintf(why, sizeof why, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    bool several = !train_find_output(evaluation->learner, evaluation->options.batch, &output) && output.count > 1 &&
                   !evaluation->learner->own_loss;
    train_learner_close(evaluation->learner);
    evaluation->learner = NULL;
    evaluation->options.wide = true;
    if (several) evaluation->learner = train_learner_open(evaluation->cli, &evaluation->options);
    if (evaluation->learner)
        evaluation->data =
            train_data_open(evaluation->learner, &evaluation->options, evaluation->options.input, evaluation->options.target);
    if (evaluation->data) return ZT_OK;
    zt_ctx_clear(ctx);
    return zt_fail(ctx, ZT_EDATA, "%s", why);
}

static zt_status evaluate_model(eval *evaluation)
{
    zt_ctx *ctx = evaluation->cli->ctx;
    evaluation->learner = train_learner_open(evaluation->cli, &evaluation->options);
    if (evaluation->learner)
        evaluation->data =
            train_data_open(evaluation->learner, &evaluation->options, evaluation->options.input, evaluation->options.target);
    zt_status status = evaluation->data ? ZT_OK : zt_ctx_status(ctx);
    if (status == ZT_EDATA && evaluation->learner &&
        (evaluation->data = train_data_ids(&evaluation->learner, &evaluation->options)))
        status = ZT_OK;
    if (status == ZT_EDATA && evaluation->learner) status = open_wide(evaluation);
    if (!status) status = run_evaluation(evaluation);
    zt_session_close(evaluation->session);
    train_observer_free(evaluation->observer);
    zt_free(ctx, evaluation->room);
    zt_samples_free(evaluation->data);
    train_learner_close(evaluation->learner);
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

static zt_status check_options(zt_cli *cli, const train_options *options)
{
    static const char *const alone[] = {"--data", "--observe"};
    if (train_check_method(cli, options)) return ZT_EUSAGE;
    const char *given = options->data ? alone[0] : options->observe ? alone[1] : NULL;
    if (options->models.n > 1 && given)
        return zt_fail(cli->ctx, ZT_EUSAGE, "%s needs one network, got %d", given, options->models.n);
    if (options->models.n < 2) return zt_cli_refuse_given(cli, "ensemble|min-coverage", "one network; it applies to several");
    if (cli->format == ZT_FMT_JSON)
        return zt_cli_refuse_given(cli, "ensemble",
                                   "--format json, which has pairs, votes and majority vote of several networks");
    return options->ensemble == TRAIN_ENSEMBLE_PAIRS
               ? ZT_OK
               : zt_cli_refuse_given(cli, "min-coverage", "this table; it applies to --ensemble pairs");
}

zt_status train_eval(zt_cli *cli, const train_options *options)
{
    int count = options->models.n;
    zt_status status = check_options(cli, options);
    train_scores *scores = status ? NULL : zt_calloc(cli->ctx, (size_t)count, sizeof *scores);
    zt_engine *engine = scores ? zt_cli_engine(cli) : NULL;
    if (!status && !engine) status = zt_ctx_status(cli->ctx);
    for (int i = 0; i < count && !status; i++) {
        eval evaluation = {.cli = cli, .options = *options, .engine = engine, .scores = &scores[i]};
        evaluation.options.model = scores[i].name = options->models.item[i];
        status = evaluate_model(&evaluation);
    }
    if (!status) status = train_print_scores(cli, options, scores, count);
    for (int i = 0; scores && i < count; i++) {
        zt_free(cli->ctx, scores[i].each);
        zt_free(cli->ctx, scores[i].output);
    }
    zt_free(cli->ctx, scores);
    zt_engine_close(engine);
    return status;
}
