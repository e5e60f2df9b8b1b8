/* compare.c - zt-train compare: the training methods on one data set, with several seeds. */
#include "tools/zt-train/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double compare_time_to(const compare_run *run, double accuracy)
{
    for (int64_t i = 0; i < run->epoch_count; i++)
        if (run->epochs[i].accuracy >= accuracy) return run->epochs[i].time;
    return NAN;
}

double compare_total_time(const compare_run *run) { return run->epoch_count ? run->epochs[run->epoch_count - 1].time : 0; }

/* ---- --methods --------------------------------------------------------------------------------- */

/* "target-prop:0.01" */
static zt_status add_method(compare_work *work, const char *text, size_t length)
{
    zt_ctx *ctx = work->cli->ctx;
    char item[64], shown[96];
    compare_method method = {.method = 0, .lr = -1};
    if (length >= sizeof item || work->method_count == COMPARE_METHODS)
        return zt_fail(ctx, ZT_EUSAGE, "option '--methods': more than %d methods, or more than %zu letters", COMPARE_METHODS,
                       sizeof item - 1);
    memcpy(item, text, length);
    item[length] = 0;
    char *rate = strchr(item, ':');
    if (rate) *rate++ = 0;
    if (train_find_method(work->cli, "methods", item, &method.method)) return ZT_EUSAGE;
    if (rate && (!zt_parse_double(rate, &method.lr) || !(method.lr >= 0 && method.lr <= 1e6)))
        return zt_fail(ctx, ZT_EUSAGE, "option '--methods': '%s' is not a learning rate from 0 to 1e6",
                       zt_escape(shown, sizeof shown, rate, strlen(rate)));
    work->methods[work->method_count++] = method;
    return ZT_OK;
}

static zt_status list_methods(compare_work *work)
{
    zt_status status = ZT_OK;
    const char *text = work->options->methods;
    if (!text)
        for (int i = 0; train_method_names(NULL, i) && !status; i++)
            status = add_method(work, train_method_names(NULL, i), strlen(train_method_names(NULL, i)));
    while (text && !status) {
        size_t length = strcspn(text, ",");
        status = add_method(work, text, length);
        text = text[length] ? text + length + 1 : NULL;
    }
    return status;
}

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct recording {
    compare_run *run;
    zt_ctx *ctx; /* of the whole comparison */
} recording;

static zt_status record_epoch(void *user, const zt_epoch *epoch, double accuracy)
{
    recording *record = user;
    compare_run *run = record->run;
    size_t count = (size_t)run->epoch_count + 1;
    compare_epoch *epochs = zt_realloc(record->ctx, run->epochs, count * sizeof *epochs);
    if (!epochs) return ZT_ENOMEM;
    run->epochs = epochs;
    epochs[run->epoch_count] = (compare_epoch){
        .loss = epoch->loss, .valid_loss = epoch->valid, .accuracy = accuracy, .time = compare_total_time(run) + epoch->seconds};
    run->epoch_count++;
    run->steps = epoch->steps;
    return ZT_OK;
}

/* A context of its own measures the memory of a run. *message: of an error, to be freed. */
static zt_status measure_run(compare_work *work, const train_options *options, compare_run *run, char **message)
{
    zt_cli *cli = work->cli;
    zt_ctx *whole = cli->ctx;
    uint64_t seed = cli->seed;
    recording record = {run, whole};
    train_recorder recorder = {.user = &record, .epoch = record_epoch};
    zt_ctx *own = zt_ctx_new();
    if (!own) return ZT_ENOMEM;
    zt_mem_limit(own, cli->mem_limit);
    cli->ctx = own;
    cli->seed = run->seed;
    zt_status status = train_fit_recorded(cli, options, &recorder);
    cli->ctx = whole;
    cli->seed = seed;
    run->diverged = recorder.diverged;
    run->memory = (double)zt_mem_get(own).peak;
    if (recorder.layers) work->layers = recorder.layers;
    if (run->diverged)
        zt_cli_note(cli, "%s, seed %" PRIu64 ": the loss is not finite in epoch %" PRId64, train_method_names(NULL, run->method),
                    run->seed, run->epoch_count + 1);
    if (status && !recorder.diverged) *message = zt_strdup(whole, zt_ctx_error(own));
    zt_ctx_free(own);
    return recorder.diverged ? ZT_OK : status;
}

static void remove_method(compare_work *work, int index)
{
    memmove(&work->methods[index], &work->methods[index + 1], (size_t)(work->method_count - index - 1) * sizeof *work->methods);
    work->method_count--;
}

/* Without --methods, those that cannot train the network are left out. */
static zt_status run_one(compare_work *work, int index, int seed, bool *left_out)
{
    train_options options = *work->options;
    compare_run *run = &work->runs[index * work->seed_count + seed];
    char *message = NULL;
    *run = (compare_run){.method = work->methods[index].method, .seed = work->cli->seed + (uint64_t)seed};
    options.method = run->method;
    if (work->methods[index].lr >= 0) options.lr = work->methods[index].lr;
    if (!options.valid) {
        options.valid = options.input;
        options.valid_target = options.target;
    }
    options.plot = NULL;
    zt_status status = measure_run(work, &options, run, &message);
    bool cannot = status == ZT_ENOTSUP || status == ZT_EUSAGE; /* the latter: a program, which has no layers */
    *left_out = cannot && !work->options->methods && seed == 0 && run->method != TRAIN_BACKPROP;
    if (*left_out) {
        zt_cli_note(work->cli, "%s is left out: %s", train_method_names(NULL, run->method), message ? message : "");
        status = ZT_OK;
    } else if (status && !zt_ctx_status(work->cli->ctx)) {
        status = zt_fail(work->cli->ctx, status, "%s", message ? message : "");
    }
    zt_free(work->cli->ctx, message);
    return status;
}

static zt_status run_methods(compare_work *work)
{
    zt_status status = ZT_OK;
    for (int index = 0; index < work->method_count && !status;) {
        bool left_out = false;
        for (int seed = 0; seed < work->seed_count && !status && !left_out; seed++)
            status = run_one(work, index, seed, &left_out);
        if (left_out)
            remove_method(work, index);
        else
            index++;
    }
    if (!status && !work->method_count) status = zt_fail(work->cli->ctx, ZT_ENOTSUP, "no method can train the network");
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

static zt_status judge_methods(compare_work *work)
{
    for (int i = 0; i < work->method_count * work->seed_count; i++) {
        const compare_run *run = &work->runs[i];
        const compare_epoch *last = run->epoch_count ? &run->epochs[run->epoch_count - 1] : NULL;
        work->accuracy[i] = last && !run->diverged ? last->accuracy : NAN;
        work->loss[i] = last && !run->diverged ? last->valid_loss : NAN;
    }
    bool finite = false;
    for (int i = 0; i < work->method_count * work->seed_count; i++) finite = finite || !isnan(work->loss[i]);
    if (!finite) return zt_fail(work->cli->ctx, ZT_EDATA, "every run diverged: try a lower --lr or --clip");
    return zt_compare_methods(work->cli->ctx, work->accuracy, work->loss, work->method_count, work->seed_count, work->cli->seed,
                              &work->verdict, work->probabilities);
}

static zt_status make_room(compare_work *work)
{
    zt_ctx *ctx = work->cli->ctx;
    size_t count = (size_t)work->method_count * (size_t)work->seed_count;
    work->runs = zt_calloc(ctx, count, sizeof *work->runs);
    work->accuracy = zt_calloc(ctx, count, sizeof *work->accuracy);
    work->loss = zt_calloc(ctx, count, sizeof *work->loss);
    work->probabilities = zt_calloc(ctx, COMPARE_METHODS, sizeof *work->probabilities);
    return work->runs && work->accuracy && work->loss && work->probabilities ? ZT_OK : ZT_ENOMEM;
}

/* Every run reads all files, in a context of its own. */
static zt_status hold_pipes(zt_ctx *ctx, const train_options *options)
{
    const char *files[] = {options->input, options->target, options->valid, options->valid_target};
    zt_status status = ZT_OK;
    for (size_t i = 0; i < sizeof files / sizeof *files && !status; i++)
        if (files[i]) status = train_data_hold(ctx, files[i]);
    return status;
}

static zt_status check_compare(zt_cli *cli, const train_options *options)
{
    if (cli->ranks) return zt_cli_refuse_ranks(cli, "compare");
    if (options->epochs < 1)
        return zt_fail(cli->ctx, ZT_EUSAGE, "compare needs an epoch, got --epochs %" PRId64, options->epochs);
    zt_status status = zt_cli_claim(cli, options->plot, "--plot");
    if (!status && options->model) status = zt_cli_refuse_same(cli, options->model, options->plot);
    return status ? status : zt_cli_refuse_same(cli, options->input, options->plot);
}

zt_status train_compare(zt_cli *cli, const train_options *options)
{
    compare_work work = {.cli = cli,
                         .options = options,
                         .name = options->model ? options->model : options->make,
                         .seed_count = (int)options->seeds};
    zt_status status = check_compare(cli, options);
    if (!status) status = list_methods(&work);
    if (!status) status = make_room(&work);
    if (!status) status = hold_pipes(cli->ctx, options);
    int made = status ? 0 : work.method_count * work.seed_count;
    if (!status) status = run_methods(&work);
    if (!status) status = judge_methods(&work);
    if (!status) status = compare_print(&work);
    if (!status && options->plot) status = compare_plot(&work);
    for (int i = 0; i < made; i++) zt_free(cli->ctx, work.runs[i].epochs);
    zt_free(cli->ctx, work.runs);
    zt_free(cli->ctx, work.accuracy);
    zt_free(cli->ctx, work.loss);
    zt_free(cli->ctx, work.probabilities);
    return status;
}
