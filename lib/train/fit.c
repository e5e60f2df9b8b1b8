/* fit.c - owns the loop over epochs and batches, and the schedule of the learning rate. */
#include "lib/base/require.h"
#include "lib/train/fit.h"

#include <math.h>
#include <string.h>

/* ---- the learning rate ----------------------------------------------------------------------- */

static double stay_constant(double number) { return (void)number, 1; }
static double fall_linearly(double number) { return 1 - number; }
static double fall_by_cosine(double number) { return 0.5 * (1 + cos(3.14159265358979323846 * number)); }

static const zt_schedule schedules[] = {{"constant", stay_constant}, {"linear", fall_linearly}, {"cosine", fall_by_cosine}};

const zt_schedule *zt_schedule_at(int index)
{
    return index >= 0 && index < (int)(sizeof schedules / sizeof *schedules) ? &schedules[index] : NULL;
}

const zt_schedule *zt_schedule_named(const char *name)
{
    if (!name) return NULL;
    for (int i = 0; zt_schedule_at(i); i++)
        if (!strcmp(schedules[i].name, name)) return &schedules[i];
    return NULL;
}

double zt_rate_at(const zt_rate *rate, uint64_t step)
{
    if (!rate) return 0;
    if (!rate->schedule) return 0;
    if (step < rate->warmup) return rate->lr * (double)(step + 1) / (double)rate->warmup;
    uint64_t falling_steps = rate->steps > rate->warmup ? rate->steps - rate->warmup : 1;
    double progress = fmin((double)(step - rate->warmup) / (double)falling_steps, 1);
    return rate->minimum + (rate->lr - rate->minimum) * rate->schedule->curve(progress);
}

/* ---- a run ----------------------------------------------------------------------------------- */

zt_fit_state zt_fit_begin(void) { return (zt_fit_state){.best_loss = INFINITY}; }

typedef struct fit_run {
    zt_ctx *ctx;
    zt_trainer *trainer;
    const zt_batches *data;
    const zt_fit_opts *options;
    zt_fit_state *state;
    double learning_rate;
} fit_run;

static zt_status take_step(fit_run *fit)
{
    const void *inputs[ZT_FIT_INPUTS];
    zt_binding bindings[ZT_MAX_SYMBOLS];
    int count = 0;
    zt_fit_step result = {.lr = zt_rate_at(&fit->options->rate, fit->state->steps)};
    double began = zt_seconds();
    zt_fit_state *state = fit->state;
    zt_status status =
        fit->data->get(fit->data->user, state->epochs, (int64_t)state->batches, inputs, bindings, &count, &result.samples);
    fit->learning_rate = result.lr;
    if (!status) status = zt_trainer_step(fit->trainer, bindings, count, inputs, result.lr, fit->options->out, &result.got);
    if (status) return status;
    state->batches++;
    state->steps++;
    state->sample_sum += (double)result.samples;
    state->loss_sum += result.got.loss * (double)result.samples;
    state->norm_sum += result.got.grad_norm;
    state->seconds += zt_seconds() - began;
    return fit->options->step ? fit->options->step(fit->options->user, state, &result) : ZT_OK;
}

static zt_status save_state(const fit_run *fit)
{
    return fit->options->save ? fit->options->save(fit->options->user, fit->state) : ZT_OK;
}

/* Steps to the end of the epoch. */
static zt_status take_epoch(fit_run *fit)
{
    const zt_fit_opts *options = fit->options;
    zt_status status = ZT_OK;
    while (fit->state->batches < (uint64_t)fit->data->per_epoch && !status) {
        status = take_step(fit);
        if (status) return status;
        bool last = fit->state->batches == (uint64_t)fit->data->per_epoch;
        if (options->stop && options->stop())
            return (status = save_state(fit)) ? status : zt_fail(fit->ctx, ZT_EINTR, "interrupted");
        bool now = options->save_now && options->save_now();
        if (!last && (now || (options->save_every && fit->state->steps % options->save_every == 0))) status = save_state(fit);
    }
    return status;
}

/* The loss that decides about early stopping: of validation, if there is one, else the epoch's. Rank 0 validates for all. */
static zt_status judge_epoch(const fit_run *fit, zt_epoch *epoch, double *judged)
{
    const zt_fit_opts *options = fit->options;
    struct {
        double valid, judged;
    } loss = {NAN, epoch->loss};
    zt_status status = options->validate ? options->validate(options->user, &loss.valid) : ZT_OK;
    if (!status && options->validate) loss.judged = loss.valid;
    if (!status) status = zt_ranks_broadcast(options->ranks, &loss, sizeof loss);
    epoch->valid = loss.valid;
    *judged = loss.judged;
    return status;
}

/* The epoch's figures, and the next one's beginning. */
static zt_status end_epoch(fit_run *fit)
{
    zt_fit_state *state = fit->state;
    zt_epoch epoch = {.epoch = state->epochs + 1,
                      .steps = state->steps,
                      .lr = fit->learning_rate,
                      .seconds = state->seconds,
                      .samples = state->sample_sum,
                      .loss = state->loss_sum / state->sample_sum,
                      .grad_norm = state->norm_sum / (double)state->batches,
                      .valid = NAN};
    double judged;
    zt_status status = judge_epoch(fit, &epoch, &judged);
    if (status) return status;
    state->stale_epochs = judged < state->best_loss ? 0 : state->stale_epochs + 1;
    if (judged < state->best_loss) state->best_loss = judged;
    state->epochs++;
    state->batches = 0;
    state->loss_sum = state->norm_sum = state->sample_sum = state->seconds = 0;
    status = fit->options->epoch ? fit->options->epoch(fit->options->user, &epoch) : ZT_OK;
    return status ? status : save_state(fit);
}

zt_status zt_fit(zt_trainer *trainer, const zt_batches *data, const zt_fit_opts *options, zt_fit_state *state)
{
    if (!trainer) return ZT_EUSAGE;
    ZT_REQUIRE(zt_trainer_ctx(trainer), data && options && state, ZT_EUSAGE);
    zt_ctx *ctx = zt_trainer_ctx(trainer);
    fit_run fit = {.ctx = ctx, .trainer = trainer, .data = data, .options = options, .state = state};
    if (data->per_epoch < 1) return zt_fail(ctx, ZT_EDATA, "no training samples");
    fit.learning_rate = zt_rate_at(&options->rate, state->steps ? state->steps - 1 : 0);
    zt_status status = ZT_OK;
    while (state->epochs < options->epochs && !(options->patience && state->stale_epochs >= options->patience) && !status) {
        status = take_epoch(&fit);
        if (!status) status = end_epoch(&fit);
    }
    return status;
}
