/* fit.c - a training run: history on standard output, checkpoints, the network at the end. */
#include "lib/base/near.h"
#include "tools/zt-train/train_tool.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

typedef struct run {
    zt_cli *cli;
    const train_options *o;
    zt_engine *engine;
    train_learner *l;
    zt_samples *data, *valid;
    train_text *text; /* instead of data */
    train_observer *observer; /* NULL: none */
    zt_trainer *t;
    zt_optim optim;
    zt_rate rate;
    zt_fit_opts fit;
    zt_batches batches;
    char id[256];          /* what the run is, for its checkpoint */
    double *loss, *loss_valid; /* by epochs, for the picture: those of this process */
    int64_t n;
} run;

/* ---- the loss of samples that are not trained on --------------------------------------------- */

static int loss_output(const zt_prog *p)
{
    int o = 0;
    while (strcmp(zt_prog_output(p, o)->name, "loss")) o++;
    return o;
}

/* Means over batches, weighed by their rows. */
static zt_status sum_losses(run *r, zt_session *s, const zt_batches *b, double *loss)
{
    const void *in[ZT_FIT_INPUTS];
    zt_binding bind[ZT_MAX_SYMBOLS];
    double sum = 0, rows = 0;
    float one;
    void **out = zt_calloc(r->cli->ctx, (size_t)zt_prog_n_outputs(r->l->forward), sizeof *out);
    zt_status st = out ? ZT_OK : ZT_ENOMEM;
    if (out) out[loss_output(r->l->forward)] = &one;
    for (int64_t i = 0; i < b->per_epoch && !st; i++) {
        int n;
        int64_t samples;
        st = b->get(b->user, 0, i, in, bind, &n, &samples);
        if (!st) st = zt_session_step(s, bind, n, in, out);
        sum += (double)one * (double)samples;
        rows += (double)samples;
    }
    zt_free(r->cli->ctx, out);
    *loss = sum / rows;
    return st;
}

static zt_status validate(void *user, double *loss)
{
    run *r = user;
    zt_batches b;
    zt_status s = train_learner_take(r->l, r->t);
    if (!s && r->l->nn) s = train_put_network(r->l);
    zt_store store = r->l->nn ? r->l->below : train_learner_store(r->l);
    if (!s) s = zt_samples_batches(r->valid, &(zt_shuffle){.batch = r->o->batch}, &b);
    zt_session *look = s ? NULL : zt_session_open(r->engine, r->l->forward, &store,
                                                 &(zt_session_opts){.strict = r->cli->strict});
    if (!s) s = look ? sum_losses(r, look, &b, loss) : zt_ctx_status(r->cli->ctx);
    zt_session_close(look);
    return s;
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void put_number(zt_str *s, const char *key, double x)
{
    zt_str_printf(s, ",\"%s\":", key);
    if (isfinite(x)) zt_str_put_double(s, x);
    else zt_str_puts(s, "null");
}

static zt_status remember(run *r, const zt_epoch *e)
{
    size_t n = (size_t)r->n + 1;
    double *loss = zt_realloc(r->cli->ctx, r->loss, n * sizeof *loss);
    if (loss) r->loss = loss;
    double *valid = loss ? zt_realloc(r->cli->ctx, r->loss_valid, n * sizeof *valid) : NULL;
    if (!valid) return ZT_ENOMEM;
    r->loss_valid = valid;
    r->loss[r->n] = e->loss;
    r->loss_valid[r->n++] = e->valid;
    return ZT_OK;
}

/* A line of the history. */
static zt_status tell_epoch(void *user, const zt_epoch *e)
{
    run *r = user;
    zt_str s;
    zt_str_init(&s, r->cli->ctx);
    zt_str_printf(&s, "{\"epoch\":%" PRIu64 ",\"steps\":%" PRIu64, e->epoch, e->steps);
    put_number(&s, "loss", e->loss);
    if (r->valid) put_number(&s, "valid_loss", e->valid);
    put_number(&s, "grad_norm", e->grad_norm);
    put_number(&s, "lr", e->lr);
    put_number(&s, "seconds", e->seconds);
    zt_str_puts(&s, "}\n");
    zt_status st = zt_ctx_status(r->cli->ctx);
    if (!st) st = zt_cli_write(r->cli, s.data, s.len);
    if (!st) st = zt_cli_flush(r->cli);
    zt_str_fini(&s);
    return st ? st : remember(r, e);
}

static zt_status tell_step(void *user, const zt_fit_state *p, const zt_fit_step *is)
{
    run *r = user;
    zt_progress(r->cli, &(zt_work){"train", r->o->text ? r->o->text : r->o->input, "steps",
                                   (double)p->steps, (double)r->rate.steps});
    zt_status s = r->observer ? train_observer_tell(r->observer, is->samples, p->steps) : ZT_OK;
    if (s || isfinite(is->got.loss)) return s;
    return zt_fail(r->cli->ctx, ZT_EDATA,
                   "step %" PRIu64 ": the loss is %g: a lower --lr or --clip may help", p->steps,
                   is->got.loss);
}

/* Which ops of a step ran on another engine than was asked for: "2 cross_entropy". */
static void tell_fallbacks(const run *r)
{
    const zt_session *s = zt_trainer_session(r->t);
    int count[ZT_OP_COUNT] = {0}, fell = zt_session_get(s).fallbacks, all = 0;
    zt_str names;
    zt_str_init(&names, r->cli->ctx);
    for (int i = 0; i < zt_session_parts(s); i++) {
        zt_session_part part = zt_session_part_at(s, i);
        for (int k = 0; k < part.schedule->n_steps; k++) {
            zt_op op = part.schedule->step[k].op;
            bool view = zt_op_info(op)->def->flags & ZT_OPF_VIEW;
            all += !view;
            count[op] += !view && part.engine != r->engine;
        }
    }
    for (int op = 0; op < ZT_OP_COUNT; op++)
        if (count[op]) zt_str_printf(&names, ", %d %s", count[op], zt_op_info((zt_op)op)->name);
    if (fell && !zt_ctx_status(r->cli->ctx))
        zt_log(r->cli->ctx, ZT_LOG_INFO,
               "engine %s: %d of a step's %d ops fell back to another engine%s",
               r->engine->vt->name, fell, all, names.len ? names.data : "");
    zt_str_fini(&names);
}

static zt_status save(void *user, const zt_fit_state *p)
{
    run *r = user;
    return r->o->checkpoint ? zt_train_save(r->t, p, r->id, r->o->checkpoint) : ZT_OK;
}

/* ---- how it is set up ------------------------------------------------------------------------ */

static const char *optimizer_name(const void *user, int i)
{
    (void)user;
    return zt_optimizer_at(i) ? zt_optimizer_name(zt_optimizer_at(i)) : NULL;
}

static const char *schedule_name(const void *user, int i)
{
    (void)user;
    return zt_schedule_at(i) ? zt_schedule_at(i)->name : NULL;
}

static zt_status choose(run *r)
{
    zt_optim *optim = &r->optim;
    const train_options *o = r->o;
    zt_ctx *ctx = r->cli->ctx;
    const char *name = o->optim ? o->optim : o->text ? "adamw" : "sgd";
    const zt_optimizer *m = zt_optimizer_named(name);
    const zt_schedule *schedule = zt_schedule_named(o->schedule);
    if (!m)
        return zt_fail_unknown(ctx, ZT_EUSAGE, "option '--optim': the optimizer", name, strlen(name),
                               optimizer_name, NULL);
    if (!schedule)
        return zt_fail_unknown(ctx, ZT_EUSAGE, "option '--schedule': the schedule", o->schedule,
                               strlen(o->schedule), schedule_name, NULL);
    *optim = zt_optim_default(m);
    if (strcmp(name, "sgd") && optim->momentum == 0 &&
        zt_cli_refuse_given(r->cli, "momentum",
                            "this optimizer; it applies to sgd, momentum or nesterov"))
        return ZT_EUSAGE;
    if (!strcmp(o->schedule, "constant") &&
        zt_cli_refuse_given(r->cli, "lr-min",
                            "the schedule constant; it applies to linear or cosine"))
        return ZT_EUSAGE;
    if (o->lr >= 0) optim->lr = o->lr;
    if (o->momentum >= 0) optim->momentum = o->momentum;
    if (o->decay >= 0) optim->decay = o->decay;
    r->rate = (zt_rate){.schedule = schedule, .lr = optim->lr, .minimum = o->lr_min,
                        .warmup = (uint64_t)o->warmup};
    return ZT_OK;
}

/* The run's identity: what decides its bits besides the program and the weights. */
static void identify(run *r)
{
    XXH64_hash_t data = 0;
    size_t n;
    const void *ids = r->text ? train_text_bytes(r->text, &n) : NULL;
    if (ids) data = XXH64(ids, n, 0);
    for (int i = 0; r->data && i < r->data->field_count; i++)
        data = XXH64(r->data->fields[i].data.data, r->data->fields[i].data.len, data);
    snprintf(r->id, sizeof r->id,
             "%016" PRIx64 " %" PRId64 " %d %" PRIu64 " %s %.17g %.17g %" PRIu64 " %" PRIu64 "\n",
             (uint64_t)data, r->o->batch, r->o->ordered, r->cli->seed, r->rate.schedule->name,
             r->rate.lr, r->rate.minimum, r->rate.warmup,
             strcmp(r->rate.schedule->name, "constant") ? r->rate.steps : 0);
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Are all targets classes of the network's: whole numbers below so many? */
static bool are_classes(const zt_samples *s, int64_t classes)
{
    const zt_field *f = &s->fields[s->field_count - 1];
    bool are = f->row.dtype == ZT_I32 && s->rows > 0;
    for (size_t i = 0; are && i < f->data.len / sizeof(int32_t); i++) {
        int32_t x;
        memcpy(&x, f->data.data + i * sizeof x, sizeof x);
        are = x >= 0 && x < classes;
    }
    return are;
}

/* The data do not fit the default loss: where they are classes, the loss that fits is named. */
static zt_status suggest_loss(run *r)
{
    zt_ctx *ctx = r->cli->ctx;
    train_options o = *r->o;
    train_output y;
    const char *file = o.target ? o.target : o.input;
    char why[1024];
    snprintf(why, sizeof why, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    bool several = !train_find_output(r->l, o.batch, &y) && y.classes > 1;
    o.loss = ZT_LOSS_CROSS_ENTROPY;
    train_learner *l = several ? train_learner_open(r->cli, &o) : NULL;
    zt_samples *s = l ? train_data_open(l, &o, o.input, o.target) : NULL;
    bool classes = s && are_classes(s, y.classes);
    zt_samples_free(s);
    train_learner_close(l);
    zt_ctx_clear(ctx);
    return classes ? zt_fail(ctx, ZT_EUSAGE,
                             "%s: the targets are classes and the network has %" PRId64
                             " outputs: --loss cross_entropy fits; mse, the default, wants a "
                             "number for each output",
                             strcmp(file, "-") ? file : "stdin", y.classes)
                   : zt_fail(ctx, ZT_EDATA, "%s", why);
}

static zt_status open_data(run *r)
{
    const train_options *o = r->o;
    if (r->text) {
        r->batches = train_text_batches(r->text);
        return ZT_OK;
    }
    r->data = train_data_open(r->l, o, o->input, o->target);
    if (!r->data && zt_ctx_status(r->cli->ctx) == ZT_EDATA) r->data = train_data_ids(&r->l, o);
    if (!r->data && o->loss < 0 && !r->l->own_loss && zt_ctx_status(r->cli->ctx) == ZT_EDATA)
        return suggest_loss(r);
    if (r->data && o->valid) r->valid = train_data_open(r->l, o, o->valid, o->valid_target);
    if (!r->data || (o->valid && !r->valid)) return zt_ctx_status(r->cli->ctx);
    zt_shuffle how = {.batch = o->batch, .shuffle = !o->ordered, .seed = r->cli->seed};
    return zt_samples_batches(r->data, &how, &r->batches);
}

static zt_status open_trainer(run *r)
{
    const train_options *o = r->o;
    const zt_prog *p = r->l->forward;
    zt_binding n = {zt_prog_n_symbols(p) ? zt_prog_symbol_name(p, 0) : "n",
                    r->data ? r->data->batch_size : o->batch};
    zt_store store = train_learner_store(r->l);
    r->rate.steps = (uint64_t)o->epochs * (uint64_t)r->batches.per_epoch;
    identify(r);
    zt_train_opts t = {.optim = &r->optim, .clip = o->clip, .sample = &n, .n_sample = 1,
                       .weights = r->l->trained, .n_weights = r->l->n, .strict = r->cli->strict,
                       .through = r->l->nn ? train_network_through : NULL, .user = r->l};
    if (o->observe) r->observer = train_observer_open(r->l, o->observe, "train", true, n.value);
    if (o->observe && !r->observer) return zt_ctx_status(r->cli->ctx);
    if (r->observer) t.watched = train_observer_watched(r->observer, &t.n_watched);
    r->engine = zt_cli_engine_for(r->cli, r->cli->threads, p, &n, 1);
    if (r->engine) r->t = zt_trainer_open(r->engine, p, &t, &store);
    return r->t ? ZT_OK : zt_ctx_status(r->cli->ctx);
}

static zt_status resume(run *r, zt_fit_state *p)
{
    char *why = NULL;
    if (!r->o->resume) return ZT_OK;
    zt_status s = zt_train_load(r->t, p, r->id, r->o->checkpoint, &why);
    if (why) zt_cli_note(r->cli, "%s; %s.before is used", why, r->o->checkpoint);
    zt_free(r->cli->ctx, why);
    if (s == ZT_ENOENT && !zt_ctx_status(r->cli->ctx)) {
        zt_cli_note(r->cli, "%s: is not there yet: the run begins", r->o->checkpoint);
        return ZT_OK;
    }
    return s;
}

static zt_status play(run *r)
{
    zt_fit_state p = zt_fit_begin();
    zt_status s = resume(r, &p);
    r->fit = (zt_fit_opts){.rate = r->rate,
                           .epochs = (uint64_t)r->o->epochs,
                           .patience = (uint64_t)r->o->patience,
                           .save_every = (uint64_t)r->o->save_every,
                           .user = r,
                           .step = tell_step,
                           .validate = r->valid ? validate : NULL,
                           .epoch = tell_epoch,
                           .save = save,
                           .out = r->observer ? train_observer_out(r->observer) : NULL,
                           .stop = zt_cli_interrupted};
    if (!s) s = zt_fit(r->t, &r->batches, &r->fit, &p);
    if (!s) tell_fallbacks(r);
    if (!s) s = train_learner_take(r->l, r->t);
    if (!s && r->observer) s = train_observer_end(r->observer);
    if (!s) s = train_learner_write(r->l, r->cli->output);
    if (!s && r->o->plot) s = train_plot(r->cli, r->o->plot, r->loss, r->loss_valid, r->n);
    return s;
}

/* What is there already is refused before the work, not after it. */
static zt_status check_output(zt_cli *cli, const char *path)
{
    if (!path || cli->force || !strcmp(path, "-") || access(path, F_OK)) return ZT_OK;
    return zt_fail(cli->ctx, ZT_ECREATE, "%s: exists (-f overwrites it)", path);
}

/* Where stdout is the network's, the picture's or the observer's, the history goes to stderr. */
static zt_status claim_outputs(zt_cli *cli, const train_options *o)
{
    if (o->checkpoint && !strcmp(o->checkpoint, "-"))
        return zt_fail(cli->ctx, ZT_EUSAGE, "--checkpoint names a file, which is read and written");
    const char *observe = o->observe && !strcmp(o->observe, "fd:1") ? "-" : o->observe;
    zt_status s = zt_cli_claim(cli, cli->output, "--output");
    if (!s) s = zt_cli_claim(cli, o->plot, "--plot");
    if (!s) s = zt_cli_claim(cli, o->checkpoint, "--checkpoint");
    if (!s && observe && !strcmp(observe, "console")) return ZT_OK; /* no file */
    return s ? s : zt_cli_claim(cli, observe, "--observe");
}

zt_status train_fit(zt_cli *cli, const train_options *o)
{
    run r = {.cli = cli, .o = o};
    zt_status s = choose(&r);
    if (!s) s = claim_outputs(cli, o);
    if (!s) s = check_output(cli, cli->output);
    if (!s) s = check_output(cli, o->plot);
    if (!s) s = zt_cli_refuse_same(cli, o->text ? o->text : o->input, cli->output);
    if (!s && o->model) s = zt_cli_refuse_same(cli, o->model, cli->output);
    if (!s && o->observe) s = zt_cli_refuse_same(cli, o->input, o->observe);
    if (!s && o->observe && o->model) s = zt_cli_refuse_same(cli, o->model, o->observe);
    if (!s) r.l = o->text ? train_text_open(cli, o, &r.text) : train_learner_open(cli, o);
    if (!s) s = r.l ? open_data(&r) : zt_ctx_status(cli->ctx);
    if (!s) s = open_trainer(&r);
    if (!s) s = play(&r);
    zt_trainer_close(r.t);
    train_observer_free(r.observer);
    zt_samples_free(r.data);
    zt_samples_free(r.valid);
    train_text_free(r.text);
    train_learner_close(r.l);
    zt_engine_close(r.engine);
    zt_free(cli->ctx, r.loss);
    zt_free(cli->ctx, r.loss_valid);
    return s;
}
