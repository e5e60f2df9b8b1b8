/* fit.c - a training run: history on standard output, checkpoints, the network at the end. */
#include "lib/base/near.h"
#include "tools/zt-train/receipt.h"
#include "tools/zt-train/train_tool.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

typedef struct training_run {
    zt_cli *cli;
    const train_options *options;
    zt_engine *engine;
    train_learner *learner;
    zt_samples *data, *valid;
    train_text *text;         /* instead of data */
    train_report *report;     /* NULL: none */
    train_observer *observer; /* NULL: none */
    zt_trainer *trainer;
    zt_optim optim;
    zt_rate rate;
    zt_fit_opts fit;
    zt_batches batches;
    char run_id[256];          /* what the run is, for its checkpoint */
    uint64_t data_id;          /* a hash of the samples or the text */
    double valid_accuracy;     /* of the last validation, in per cent; NAN: the targets are no classes */
    void **out;                /* outputs of each step for the observer and the method; NULL: none */
    float *gaps, *budgets;     /* of the layers in the last step, of methods with targets */
    double *loss, *loss_valid; /* by epochs, for the picture: those of this process */
    int64_t epoch_count;
    train_tracking *tracking; /* NULL: none */
    train_receipt *receipt;   /* --receipt, --verify, of rank 0; NULL: neither */
    train_recorder *recorder; /* takes the epochs, in place of the history and the output; NULL: none */
} training_run;

static zt_status validate_model(void *user, double *loss)
{
    training_run *run = user;
    zt_status status = train_learner_take(run->learner, run->trainer);
    if (!status && run->learner->network) status = train_put_network(run->learner);
    return status ? status
                  : train_validate(run->learner, run->engine, run->valid, run->options->batch, loss, &run->valid_accuracy);
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void put_number(zt_str *text, const char *key, double number)
{
    zt_str_printf(text, ",\"%s\":", key);
    if (isfinite(number))
        zt_str_put_double(text, number);
    else
        zt_str_puts(text, "null");
}

/* ,"gaps":[0.1,0.2] */
static void put_list(zt_str *text, const char *key, const float *numbers, int count)
{
    zt_str_printf(text, ",\"%s\":[", key);
    for (int i = 0; i < count; i++) {
        if (i) zt_str_putc(text, ',');
        if (isfinite(numbers[i]))
            zt_str_put_double(text, (double)numbers[i]);
        else
            zt_str_puts(text, "null");
    }
    zt_str_putc(text, ']');
}

static zt_status record_epoch(training_run *run, const zt_epoch *epoch)
{
    size_t length = (size_t)run->epoch_count + 1;
    double *loss = zt_realloc(run->cli->ctx, run->loss, length * sizeof *loss);
    if (loss) run->loss = loss;
    double *valid = loss ? zt_realloc(run->cli->ctx, run->loss_valid, length * sizeof *valid) : NULL;
    if (!valid) return ZT_ENOMEM;
    run->loss_valid = valid;
    run->loss[run->epoch_count] = epoch->loss;
    run->loss_valid[run->epoch_count++] = epoch->valid;
    return ZT_OK;
}

/* A line of the history. */
static zt_status report_epoch(void *user, const zt_epoch *epoch)
{
    training_run *run = user;
    zt_str text;
    if (run->recorder) return run->recorder->epoch(run->recorder->user, epoch, run->valid_accuracy);
    zt_str_init(&text, run->cli->ctx);
    zt_str_printf(&text, "{\"epoch\":%" PRIu64 ",\"steps\":%" PRIu64, epoch->epoch, epoch->steps);
    put_number(&text, "loss", epoch->loss);
    if (run->valid) put_number(&text, "valid_loss", epoch->valid);
    if (run->valid && !isnan(run->valid_accuracy)) put_number(&text, "valid_accuracy", run->valid_accuracy);
    put_number(&text, "grad_norm", epoch->grad_norm);
    put_number(&text, "lr", epoch->lr);
    if (run->gaps) put_list(&text, "gaps", run->gaps, run->learner->targets.layer_count);
    if (run->budgets) put_list(&text, "link_budgets", run->budgets, run->learner->targets.layer_count);
    put_number(&text, "seconds", epoch->seconds);
    zt_str_puts(&text, "}\n");
    zt_status status = zt_ctx_status(run->cli->ctx);
    if (!status && !run->options->verify) status = zt_cli_write(run->cli, text.data, text.len);
    if (!status) status = zt_cli_flush(run->cli);
    if (!status && run->report) status = train_report_epoch(run->report, text.data, text.len - 1);
    zt_str_fini(&text);
    return status ? status : record_epoch(run, epoch);
}

/* What differs from the receipt is known; with other ranks, which wait for steps, the run goes on. */
static bool ends_early(const training_run *run) { return train_receipt_differs(run->receipt) && !run->cli->ranks; }

static zt_status report_step(void *user, const zt_fit_state *state, const zt_fit_step *step)
{
    training_run *run = user;
    zt_progress(run->cli, &(zt_work){"train", run->options->text ? run->options->text : run->options->input, "steps",
                                     (double)state->steps, (double)run->rate.steps});
    zt_status status = run->observer ? train_observer_tell(run->observer, step->samples, state->steps) : ZT_OK;
    if (!status && run->tracking) status = train_track_step(run->tracking, step->samples);
    if (!status) status = train_receipt_step(run->receipt, state->steps);
    if (!status && ends_early(run)) return ZT_EINTR;
    if (status || isfinite(step->got.loss)) return status;
    if (run->recorder) run->recorder->diverged = true;
    return zt_fail(run->cli->ctx, ZT_EDATA, "step %" PRIu64 ": the loss is %g: try a lower --lr or --clip", state->steps,
                   step->got.loss);
}

/* Which ops of a step ran on another engine than was asked for: "2 cross_entropy". */
static void report_fallbacks(const training_run *run)
{
    const zt_session *session = zt_trainer_session(run->trainer);
    int count[ZT_OP_COUNT] = {0}, fell = zt_session_get(session).fallbacks, all = 0;
    zt_str names;
    zt_str_init(&names, run->cli->ctx);
    for (int i = 0; i < zt_session_parts(session); i++) {
        zt_session_part part = zt_session_part_at(session, i);
        for (int k = 0; k < part.schedule->n_steps; k++) {
            zt_op op = part.schedule->step[k].op;
            bool view = zt_op_info(op)->def->flags & ZT_OPF_VIEW;
            all += !view;
            count[op] += !view && part.engine != run->engine;
        }
    }
    for (int op = 0; op < ZT_OP_COUNT; op++)
        if (count[op]) zt_str_printf(&names, ", %d %s", count[op], zt_op_info((zt_op)op)->name);
    if (fell && !zt_ctx_status(run->cli->ctx))
        zt_log(run->cli->ctx, ZT_LOG_INFO, "engine %s: %d of a step's %d ops fell back to another engine%s",
               run->engine->vt->name, fell, all, names.len ? names.data : "");
    zt_str_fini(&names);
}

/* --stats */
static void report_stats(const training_run *run, uint64_t steps, double seconds)
{
    zt_cli *cli = run->cli;
    if (!run->options->stats) return;
    zt_cli_note(cli, "steps        %9" PRIu64 "           (%.3f ms per step)", steps, steps ? seconds * 1e3 / (double)steps : 0);
    zt_cli_note(cli, "engine       %9s           (%" PRId64 " threads, %s, %d fallbacks)",
                zt_engine_inmost(run->engine)->vt->name, cli->threads ? cli->threads : zt_cpu_count(), zt_isa_name(cli->isa),
                zt_session_get(zt_trainer_session(run->trainer)).fallbacks);
    zt_cli_note_device(cli, run->engine);
}

static zt_status save_run(void *user, const zt_fit_state *state)
{
    training_run *run = user;
    return run->options->checkpoint ? zt_train_save(run->trainer, state, run->run_id, run->options->checkpoint) : ZT_OK;
}

/* ---- how it is set up ------------------------------------------------------------------------ */

const char *train_optimizer_names(const void *user, int index)
{
    (void)user;
    return zt_optimizer_at(index) ? zt_optimizer_name(zt_optimizer_at(index)) : NULL;
}

const char *train_schedule_names(const void *user, int index)
{
    (void)user;
    return zt_schedule_at(index) ? zt_schedule_at(index)->name : NULL;
}

static zt_status choose_optimizer(training_run *run)
{
    zt_optim *optim = &run->optim;
    const train_options *options = run->options;
    zt_ctx *ctx = run->cli->ctx;
    const char *name = options->optim ? options->optim : options->text ? "adamw" : "sgd";
    const zt_optimizer *optimizer = zt_optimizer_named(name);
    const zt_schedule *schedule = zt_schedule_named(options->schedule);
    if (!optimizer)
        return zt_fail_unknown(ctx, ZT_EUSAGE, "option '--optim': unknown optimizer", name, strlen(name), train_optimizer_names,
                               NULL);
    if (!schedule)
        return zt_fail_unknown(ctx, ZT_EUSAGE, "option '--schedule': unknown schedule", options->schedule,
                               strlen(options->schedule), train_schedule_names, NULL);
    *optim = zt_optim_default(optimizer);
    if (strcmp(name, "sgd") && optim->momentum == 0 &&
        zt_cli_refuse_given(run->cli, "momentum", "this optimizer; it applies to sgd, momentum or nesterov"))
        return ZT_EUSAGE;
    if (!strcmp(options->schedule, "constant") &&
        zt_cli_refuse_given(run->cli, "lr-min", "the schedule constant; it applies to linear or cosine"))
        return ZT_EUSAGE;
    if (options->lr >= 0) optim->lr = options->lr;
    if (options->momentum >= 0) optim->momentum = options->momentum;
    if (options->decay >= 0) optim->decay = options->decay;
    run->rate = (zt_rate){.schedule = schedule, .lr = optim->lr, .minimum = options->lr_min, .warmup = (uint64_t)options->warmup};
    return ZT_OK;
}

/* The run's identity: what decides its bits besides the program and the weights. */
static void write_identity(training_run *run)
{
    XXH64_hash_t data = 0;
    size_t length;
    const void *ids = run->text ? train_text_bytes(run->text, &length) : NULL;
    if (ids) data = XXH64(ids, length, 0);
    for (int i = 0; run->data && i < run->data->field_count; i++)
        data = XXH64(run->data->fields[i].data.data, run->data->fields[i].data.len, data);
    run->data_id = data;
    snprintf(run->run_id, sizeof run->run_id,
             "%016" PRIx64 " %" PRId64 " %d %" PRIu64 " %s %.17g %.17g %" PRIu64 " %" PRIu64 "\n", (uint64_t)data,
             run->options->batch, run->options->ordered, run->cli->seed, run->rate.schedule->name, run->rate.lr,
             run->rate.minimum, run->rate.warmup, strcmp(run->rate.schedule->name, "constant") ? run->rate.steps : 0);
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Are all targets classes of the network's: whole numbers below so many? */
static bool are_classes(const zt_samples *samples, int64_t classes)
{
    const zt_field *field = &samples->fields[samples->field_count - 1];
    bool are = field->row.dtype == ZT_I32 && samples->rows > 0;
    for (size_t i = 0; are && i < field->data.len / sizeof(int32_t); i++) {
        int32_t class_number;
        memcpy(&class_number, field->data.data + i * sizeof class_number, sizeof class_number);
        are = class_number >= 0 && class_number < classes;
    }
    return are;
}

/* The data do not fit the default loss: where they are classes, the loss that fits is named. */
static zt_status suggest_loss(training_run *run)
{
    zt_ctx *ctx = run->cli->ctx;
    train_options eval_options = *run->options;
    train_output output;
    const char *file = eval_options.target ? eval_options.target : eval_options.input;
    char why[1024];
    snprintf(why, sizeof why, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    bool several = !train_find_output(run->learner, eval_options.batch, &output) && output.classes > 1;
    eval_options.loss = ZT_LOSS_CROSS_ENTROPY;
    train_learner *learner = several ? train_learner_open(run->cli, &eval_options) : NULL;
    zt_samples *samples = learner ? train_data_open(learner, &eval_options, eval_options.input, eval_options.target) : NULL;
    bool classes = samples && are_classes(samples, output.classes);
    zt_samples_free(samples);
    train_learner_close(learner);
    zt_ctx_clear(ctx);
    return classes
               ? zt_fail(ctx, ZT_EUSAGE,
                         "%s: the targets are classes, but the loss mse (the default) needs one value for each of the %" PRId64
                         " outputs: use --loss cross_entropy",
                         strcmp(file, "-") ? file : "stdin", output.classes)
               : zt_fail(ctx, ZT_EDATA, "%s", why);
}

static zt_status open_data(training_run *run)
{
    const train_options *options = run->options;
    if (run->text) {
        run->batches = train_text_batches(run->text);
        return ZT_OK;
    }
    run->data = train_data_open(run->learner, options, options->input, options->target);
    if (!run->data && zt_ctx_status(run->cli->ctx) == ZT_EDATA) run->data = train_data_ids(&run->learner, options);
    if (!run->data && options->loss < 0 && !run->learner->own_loss && zt_ctx_status(run->cli->ctx) == ZT_EDATA)
        return suggest_loss(run);
    if (run->data && options->valid) run->valid = train_data_open(run->learner, options, options->valid, options->valid_target);
    if (!run->data || (options->valid && !run->valid)) return zt_ctx_status(run->cli->ctx);
    zt_shuffle how = {.batch = options->batch, .shuffle = !options->ordered, .seed = run->cli->seed};
    return zt_samples_batches(run->data, &how, &run->batches);
}

/* Where a step puts what the observer sees, and then gaps and link budgets. */
static zt_status make_outputs(training_run *run)
{
    int watched = 0, layers = run->learner->targets.layer_count;
    if (!layers && !run->options->track) return ZT_OK;
    if (run->observer) train_observer_watched(run->observer, &watched);
    size_t count = (size_t)(zt_prog_n_outputs(run->learner->forward) + watched);
    run->out = zt_calloc(run->cli->ctx, count + 2, sizeof *run->out);
    if (!run->out) return ZT_ENOMEM;
    if (run->observer) memcpy(run->out, train_observer_out(run->observer), count * sizeof *run->out);
    if (run->options->track && !(run->tracking = train_track_open(run->learner, run->options, run->data)))
        return zt_ctx_status(run->cli->ctx);
    if (run->tracking) train_track_outputs(run->tracking, run->out);
    if (!layers) return ZT_OK;
    run->gaps = zt_calloc(run->cli->ctx, (size_t)layers, sizeof *run->gaps);
    run->budgets = zt_calloc(run->cli->ctx, (size_t)layers, sizeof *run->budgets);
    if (!run->gaps || !run->budgets) return ZT_ENOMEM;
    run->out[count] = run->gaps;
    run->out[count + 1] = run->budgets;
    return ZT_OK;
}

static zt_status open_trainer(training_run *run)
{
    const train_options *options = run->options;
    const zt_prog *program = run->learner->forward;
    zt_binding binding = {zt_prog_n_symbols(program) ? zt_prog_symbol_name(program, 0) : "n",
                          run->data ? run->data->batch_size : options->batch};
    zt_store store = train_learner_store(run->learner);
    run->rate.steps = (uint64_t)options->epochs * (uint64_t)run->batches.per_epoch;
    write_identity(run);
    zt_train_opts train_opts = {.optim = &run->optim,
                                .clip = options->clip,
                                .sample = &binding,
                                .n_sample = 1,
                                .weights = run->learner->trained,
                                .n_weights = run->learner->weight_count,
                                .strict = run->cli->strict,
                                .accumulate = options->accumulate,
                                .ranks = run->cli->ranks,
                                .through = run->learner->network ? train_network_through : NULL,
                                .gradient = train_has_targets(options) ? train_target_gradient : NULL,
                                .user = run->learner};
    if (options->report && !(run->report = train_report_open(run->learner, options))) return zt_ctx_status(run->cli->ctx);
    bool observes = options->observe || (run->report && run->learner->network);
    if (observes) run->observer = train_observer_open(run->learner, options, run->report, "train", true, binding.value);
    if (observes && !run->observer) return zt_ctx_status(run->cli->ctx);
    if (run->observer) train_opts.watched = train_observer_watched(run->observer, &train_opts.n_watched);
    run->engine = zt_cli_engine_for(run->cli, run->cli->threads, program, &binding, 1);
    if (make_outputs(run)) return zt_ctx_status(run->cli->ctx);
    if (run->engine) run->trainer = zt_trainer_open(run->engine, program, &train_opts, &store);
    if (run->trainer && run->learner->adapter) train_adapter_report(run->learner, run->trainer);
    return run->trainer ? ZT_OK : zt_ctx_status(run->cli->ctx);
}

/* Ranks that would compute other gradients do not begin. */
static zt_status compare_ranks(training_run *run)
{
    zt_ranks *ranks = run->cli->ranks;
    zt_trainer *trainer = run->trainer;
    zt_status status = zt_ranks_agree(ranks, "the data", &run->data_id, sizeof run->data_id);
    if (!status) status = zt_ranks_agree(ranks, "the options", run->run_id, strlen(run->run_id));
    if (!status) status = zt_ranks_agree(ranks, "the network, loss or engine", zt_trainer_id(trainer), 2 * sizeof(uint64_t));
    for (int i = 0; i < zt_trainer_n_weights(trainer) && ranks && !status; i++) {
        zt_type type = zt_trainer_state_type(trainer, i);
        void *weight = zt_alloc(run->cli->ctx, zt_type_bytes(&type) + 1);
        status = weight ? zt_trainer_get(trainer, i, weight) : ZT_ENOMEM;
        if (!status) status = zt_ranks_agree(ranks, "the initial weights", weight, zt_type_bytes(&type));
        zt_free(run->cli->ctx, weight);
    }
    return status;
}

static zt_status load_checkpoint(training_run *run, zt_fit_state *state)
{
    char *why = NULL;
    zt_status status = zt_train_load(run->trainer, state, run->run_id, run->options->checkpoint, &why);
    if (why) zt_cli_note(run->cli, "%s; using %s.before instead", why, run->options->checkpoint);
    zt_free(run->cli->ctx, why);
    if (status == ZT_ENOENT && !zt_ctx_status(run->cli->ctx)) {
        zt_cli_note(run->cli, "%s: no checkpoint yet: starting a new run", run->options->checkpoint);
        return ZT_OK;
    }
    return status;
}

/* Rank 0 reads the checkpoint for all; the weights go to the others with the first step. */
static zt_status resume_run(training_run *run, zt_fit_state *state)
{
    zt_ranks *ranks = run->cli->ranks;
    if (!run->options->resume) return ZT_OK;
    zt_status status = zt_ranks_own(ranks) ? ZT_OK : load_checkpoint(run, state);
    if (!status) status = zt_ranks_broadcast(ranks, state, sizeof *state);
    if (!status && zt_ranks_own(ranks)) zt_trainer_set_steps(run->trainer, state->steps);
    return status;
}

/* ---- receipts -------------------------------------------------------------------------------- */

enum { MOST_PARTS = 2 * ZT_FIT_INPUTS };

static int list_samples(const zt_samples *samples, zt_bytes *part, int count)
{
    for (int i = 0; samples && i < samples->field_count && count < MOST_PARTS; i++)
        part[count++] = (zt_bytes){samples->fields[i].data.data, samples->fields[i].data.len};
    return count;
}

static zt_status begin_receipt(training_run *run)
{
    zt_bytes part[MOST_PARTS];
    size_t length = 0;
    const train_options *options = run->options;
    if ((!options->receipt && !options->verify) || zt_ranks_own(run->cli->ranks)) return ZT_OK;
    const zt_engine *engine = run->engine;
    if (strcmp(zt_engine_inmost(engine)->vt->name, "cpu") != 0 && !engine->strict_bits)
        return zt_fail(run->cli->ctx, ZT_ENOTSUP,
                       "%s: engine %s does not promise the same bits everywhere: use --strict-bits or --engine cpu",
                       options->receipt ? "--receipt" : "--verify", zt_engine_inmost(engine)->vt->name);
    train_run_facts facts = {.options = run->run_id, .accumulate = options->accumulate, .data = part};
    const void *text = run->text ? train_text_bytes(run->text, &length) : NULL;
    if (text) part[facts.data_count++] = (zt_bytes){text, length};
    facts.data_count = list_samples(run->data, part, facts.data_count);
    facts.data_count = list_samples(run->valid, part, facts.data_count);
    run->receipt = train_receipt_begin(run->cli, run->trainer, &facts, options->verify);
    return run->receipt ? ZT_OK : zt_ctx_status(run->cli->ctx);
}

/* The network first: it is not lost where a record of its training cannot be written. */
static zt_status write_results(training_run *run)
{
    if (!run->cli->output) return ZT_OK; /* --verify */
    zt_status status = train_learner_take(run->learner, run->trainer);
    if (!status && run->tracking) status = train_track_print(run->tracking);
    if (!status) status = train_learner_write(run->learner, run->cli->output);
    if (!status && run->observer) status = train_observer_end(run->observer);
    if (!status && run->report) status = train_report_end(run->report);
    if (!status && run->options->plot)
        status = train_plot(run->cli, run->options->plot, run->loss, run->loss_valid, run->epoch_count);
    return status;
}

/* ---- SIGUSR1 --------------------------------------------------------------------------------- */

static volatile sig_atomic_t save_requested;

static void on_save_request(int signal_number)
{
    (void)signal_number;
    save_requested = 1;
}

/* From now on SIGUSR1 requests a checkpoint after the step at hand. */
static void accept_save_requests(void)
{
    struct sigaction action = {.sa_handler = on_save_request, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
}

static bool take_save_request(void)
{
    bool requested = save_requested;
    save_requested = 0;
    return requested;
}

/* ---- the run --------------------------------------------------------------------------------- */

static zt_status run_training(training_run *run)
{
    zt_fit_state state = zt_fit_begin();
    if (run->options->lr_find) return train_find_rate(run->cli, run->options, run->trainer, &run->batches);
    if (run->options->checkpoint) accept_save_requests();
    bool first = zt_ranks_own(run->cli->ranks) == 0; /* it prints, validates and writes */
    zt_status status = compare_ranks(run);
    if (!status) status = begin_receipt(run);
    if (!status && !ends_early(run)) status = resume_run(run, &state);
    if (!status && !ends_early(run)) status = train_receipt_resumed(run->receipt, state.steps);
    run->fit = (zt_fit_opts){.rate = run->rate,
                             .epochs = (uint64_t)run->options->epochs,
                             .patience = (uint64_t)run->options->patience,
                             .save_every = (uint64_t)run->options->save_every,
                             .user = run,
                             .step = first ? report_step : NULL,
                             .validate = run->valid && first ? validate_model : NULL,
                             .epoch = first ? report_epoch : NULL,
                             .save = first && !run->options->verify ? save_run : NULL,
                             .out = run->out        ? run->out
                                    : run->observer ? train_observer_out(run->observer)
                                                    : NULL,
                             .ranks = run->cli->ranks,
                             .save_now = first && run->options->checkpoint ? take_save_request : NULL,
                             .stop = first ? zt_cli_interrupted : NULL};
    const uint64_t begun = state.steps;
    const double start = zt_seconds();
    if (!status && !ends_early(run)) status = zt_fit(run->trainer, &run->batches, &run->fit, &state);
    if (status == ZT_EINTR && ends_early(run)) status = ZT_OK;
    if (!first || status) return status;
    if (!ends_early(run)) {
        report_fallbacks(run);
        report_stats(run, state.steps - begun, zt_seconds() - start);
        if (!run->recorder) status = write_results(run);
    }
    return status ? status : train_receipt_end(run->receipt, state.steps, run->options->receipt);
}

/* What is there already is refused before the work, not after it. */
static zt_status check_output(zt_cli *cli, const char *path)
{
    if (zt_ranks_own(cli->ranks)) return ZT_OK;
    if (!path || cli->force || !strcmp(path, "-") || access(path, F_OK)) return ZT_OK;
    return zt_fail(cli->ctx, ZT_ECREATE, "%s: already exists (use -f to overwrite)", path);
}

/* Where stdout is the network's, the picture's or the observer's, the history goes to stderr. */
static zt_status claim_outputs(zt_cli *cli, const train_options *options)
{
    if (options->checkpoint && !strcmp(options->checkpoint, "-"))
        return zt_fail(cli->ctx, ZT_EUSAGE, "--checkpoint names a file, which is read and written");
    const char *observe = options->observe && !strcmp(options->observe, "fd:1") ? "-" : options->observe;
    zt_status status = zt_cli_claim(cli, cli->output, "--output");
    if (!status) status = zt_cli_claim(cli, options->plot, "--plot");
    if (!status) status = zt_cli_claim(cli, options->checkpoint, "--checkpoint");
    if (!status) status = zt_cli_claim(cli, options->receipt, "--receipt");
    if (!status && observe && !strcmp(observe, "console")) return ZT_OK; /* no file */
    return status ? status : zt_cli_claim(cli, observe, "--observe");
}

/* What only one process can do. */
static zt_status check_ranks(zt_cli *cli, const train_options *options)
{
    if (!cli->ranks) return ZT_OK;
    if (options->observe) return zt_cli_refuse_ranks(cli, "--observe");
    if (options->track) return zt_cli_refuse_ranks(cli, "--track");
    if (options->report) return zt_cli_refuse_ranks(cli, "--report");
    if (options->accumulate < zt_ranks_count(cli->ranks))
        return zt_fail(cli->ctx, ZT_EUSAGE, "%d ranks need --accumulate %d or more, got %" PRId64, zt_ranks_count(cli->ranks),
                       zt_ranks_count(cli->ranks), options->accumulate);
    const char *files[] = {options->text, options->input, options->target, options->valid, options->valid_target};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i] && !strcmp(files[i], "-"))
            return zt_fail(cli->ctx, ZT_EUSAGE, "data from standard input reaches rank 0 alone: name a file");
    return ZT_OK;
}

/* From the files to the end of the training. */
static zt_status run_all(training_run *run)
{
    zt_cli *cli = run->cli;
    const train_options *options = run->options;
    run->learner = options->text ? train_text_open(cli, options, &run->text) : train_learner_open(cli, options);
    zt_status status = run->learner ? open_data(run) : zt_ctx_status(cli->ctx);
    if (!status && run->recorder) run->recorder->layers = run->learner->network ? zt_nn_count(run->learner->network) : 0;
    if (!status) status = open_trainer(run);
    if (!status) status = run_training(run);
    train_receipt_free(run->receipt);
    zt_trainer_close(run->trainer);
    train_observer_free(run->observer);
    train_track_free(run->tracking);
    train_report_free(run->report);
    zt_samples_free(run->data);
    zt_samples_free(run->valid);
    train_text_free(run->text);
    train_learner_close(run->learner);
    zt_engine_close(run->engine);
    zt_free(cli->ctx, run->out);
    zt_free(cli->ctx, run->gaps);
    zt_free(cli->ctx, run->budgets);
    zt_free(cli->ctx, run->loss);
    zt_free(cli->ctx, run->loss_valid);
    return status;
}

zt_status train_fit_recorded(zt_cli *cli, const train_options *options, train_recorder *recorder)
{
    training_run run = {.cli = cli, .options = options, .recorder = recorder};
    zt_status status = choose_optimizer(&run);
    return status ? status : run_all(&run);
}

zt_status train_fit(zt_cli *cli, const train_options *options)
{
    training_run run = {.cli = cli, .options = options};
    zt_status status = train_check_method(cli, options);
    if (!status) status = choose_optimizer(&run);
    if (!status) status = check_ranks(cli, options);
    if (!status && options->lr_find) status = train_check_find_rate(cli);
    if (!status) status = claim_outputs(cli, options);
    if (!status) status = check_output(cli, cli->output);
    if (!status) status = check_output(cli, options->plot);
    if (!status) status = check_output(cli, options->receipt);
    if (!status) status = zt_cli_refuse_same(cli, options->text ? options->text : options->input, cli->output);
    if (!status && options->model) status = zt_cli_refuse_same(cli, options->model, cli->output);
    if (!status && options->observe) status = zt_cli_refuse_same(cli, options->input, options->observe);
    if (!status && options->observe && options->model) status = zt_cli_refuse_same(cli, options->model, options->observe);
    return status ? status : run_all(&run);
}
