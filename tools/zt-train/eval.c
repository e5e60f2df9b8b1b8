/* eval.c - zt-train --eval: predictions of one network, or of several, against what was expected. */
#include "tools/zt-train/train_tool.h"

#include <math.h>
#include <string.h>

typedef struct eval {
    zt_cli *cli;
    train_options o;
    train_learner *l;
    zt_samples *data;
    zt_session *session;
    zt_engine *engine;        /* borrowed */
    train_observer *observer; /* NULL: none */
    float *room;              /* a batch of the output */
    train_scores *scores;
} eval;

/* ---- what is expected ------------------------------------------------------------------------ */

static const zt_field *target_of(const eval *e)
{
    return &e->data->fields[e->data->field_count - 1];
}

/* Number k of a sample's target. */
static double expected_at(const eval *e, int64_t row, int64_t k)
{
    const zt_field *f = target_of(e);
    const char *at = f->data.data + (size_t)row * f->bytes +
                     (size_t)k * (size_t)zt_dtype_get(f->row.dtype)->block_bytes;
    float single;
    double d;
    int64_t wide;
    int32_t word;
    if (f->row.dtype == ZT_F32) return memcpy(&single, at, sizeof single), (double)single;
    if (f->row.dtype == ZT_F64) return memcpy(&d, at, sizeof d), d;
    if (f->row.dtype == ZT_I64) return memcpy(&wide, at, sizeof wide), (double)wide;
    return memcpy(&word, at, sizeof word), (double)word;
}

/* Is every target a 1 among zeros: a class, by its place? */
static bool is_one_hot(const eval *e, int64_t n)
{
    for (int64_t r = 0; r < e->data->rows; r++) {
        int64_t ones = 0;
        for (int64_t k = 0; k < n; k++) {
            double x = expected_at(e, r, k);
            if (x != 0 && x != 1) return false;
            ones += x == 1;
        }
        if (ones != 1) return false;
    }
    return true;
}

static int64_t hot(const eval *e, int64_t row, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        if (expected_at(e, row, k) == 1) return k;
    return -1;
}

/* Several numbers a sample are the classes of its positions, a class or as many values; one number is
 * a value or, of several outputs, a class. */
static zt_status choose_judge(eval *e, const train_output *y)
{
    const zt_field *f = target_of(e);
    int64_t n = zt_type_count(&f->row), n_out = y->n;
    bool floats = f->row.dtype == ZT_F32 || f->row.dtype == ZT_F64;
    e->scores->n_target = n;
    if (n == 1) return ZT_OK;
    if (n == y->positions) {
        e->scores->n_values = n;
        e->scores->classes = y->classes;
        return ZT_OK;
    }
    if (n != n_out || !floats)
        return zt_fail(e->cli->ctx, ZT_EUSAGE,
                       "%s: the target '%s' has %lld %s a sample, and the network %lld outputs: one "
                       "class, or a value for each output, can be judged",
                       e->o.model, f->name, (long long)n, floats ? "numbers" : "whole numbers",
                       (long long)n_out);
    e->scores->n_values = is_one_hot(e, n) ? 0 : n;
    return ZT_OK;
}

/* ---- predictions ----------------------------------------------------------------------------- */

static void judge(eval *e, int64_t row, int64_t at, int64_t n_out)
{
    train_scores *s = e->scores;
    const float *y = e->room + row * n_out;
    if (!s->n_values) {
        double expected = s->n_target > 1 ? (double)hot(e, at, s->n_target) : expected_at(e, at, 0);
        s->each[at] = zt_deviation_of(expected, zt_prediction(y, n_out));
        zt_deviations_add(&s->all, &s->each[at]);
        return;
    }
    for (int64_t k = 0; k < s->n_values; k++) {
        zt_deviation *d = &s->each[at * s->n_values + k];
        double actual = s->classes ? zt_prediction(y + k * s->classes, s->classes) : (double)y[k];
        *d = zt_deviation_of(expected_at(e, at, k), actual);
        zt_deviations_add(&s->all, d);
        zt_deviations_add(&s->output[k], d);
    }
}

static zt_status predict(eval *e, const zt_batches *b, const train_output *y)
{
    const void *in[ZT_FIT_INPUTS];
    zt_binding bind[ZT_MAX_SYMBOLS];
    int64_t at = 0;
    size_t n_out = (size_t)zt_prog_n_outputs(e->l->forward);
    void **out = zt_calloc(e->cli->ctx, n_out, sizeof *out);
    zt_status s = out ? ZT_OK : ZT_ENOMEM;
    if (out && e->observer) memcpy(out, train_observer_out(e->observer), n_out * sizeof *out);
    if (out) out[y->output] = e->room;
    for (int64_t i = 0; i < b->per_epoch && !s; i++) {
        int n;
        int64_t rows;
        s = b->get(b->user, 0, i, in, bind, &n, &rows);
        if (!s) s = zt_session_step(e->session, bind, n, in, out);
        for (int64_t r = 0; r < rows && !s; r++) judge(e, r, at++, y->n);
        if (!s && e->observer) s = train_observer_tell(e->observer, rows, (uint64_t)i + 1);
    }
    zt_free(e->cli->ctx, out);
    return !s && e->observer ? train_observer_end(e->observer) : s;
}

static zt_status make_room(eval *e, const train_output *y)
{
    train_scores *s = e->scores;
    zt_ctx *ctx = e->cli->ctx;
    size_t values = s->n_values ? (size_t)s->n_values : 1;
    e->room = zt_alloc_array(ctx, (size_t)e->data->batch_size, (size_t)y->n * sizeof *e->room);
    s->rows = e->data->rows;
    s->each = zt_calloc(ctx, (size_t)s->rows, values * sizeof *s->each);
    s->output = zt_calloc(ctx, values, sizeof *s->output);
    return e->room && s->each && s->output ? ZT_OK : ZT_ENOMEM;
}

static zt_status run(eval *e)
{
    zt_batches b;
    train_output y;
    zt_store store = train_learner_store(e->l);
    zt_status s = zt_samples_batches(e->data, &(zt_shuffle){.batch = e->o.batch}, &b);
    if (!s) s = train_find_output(e->l, e->data->batch_size, &y);
    if (!s) s = choose_judge(e, &y);
    if (!s) s = make_room(e, &y);
    if (!s && e->o.observe) {
        e->observer = train_observer_open(e->l, e->o.observe, "eval", false, e->data->batch_size);
        if (!e->observer) s = zt_ctx_status(e->cli->ctx);
    }
    if (!s) e->session = zt_session_open(e->engine, e->l->forward, &store,
                                         &(zt_session_opts){.strict = e->cli->strict});
    if (!s) s = e->session ? predict(e, &b, &y) : zt_ctx_status(e->cli->ctx);
    return s;
}

/* ---- one network ----------------------------------------------------------------------------- */

/* The data do not fit one number a sample: they may have one for each output. The first message is
 * kept where they do not. */
static zt_status open_wide(eval *e)
{
    zt_ctx *ctx = e->cli->ctx;
    train_output y;
    char why[1024];
    snprintf(why, sizeof why, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    bool several = !train_find_output(e->l, e->o.batch, &y) && y.n > 1 && !e->l->own_loss;
    train_learner_close(e->l);
    e->l = NULL;
    e->o.wide = true;
    if (several) e->l = train_learner_open(e->cli, &e->o);
    if (e->l) e->data = train_data_open(e->l, &e->o, e->o.input, e->o.target);
    if (e->data) return ZT_OK;
    zt_ctx_clear(ctx);
    return zt_fail(ctx, ZT_EDATA, "%s", why);
}

static zt_status evaluate(eval *e)
{
    zt_ctx *ctx = e->cli->ctx;
    e->l = train_learner_open(e->cli, &e->o);
    if (e->l) e->data = train_data_open(e->l, &e->o, e->o.input, e->o.target);
    zt_status s = e->data ? ZT_OK : zt_ctx_status(ctx);
    if (s == ZT_EDATA && e->l && (e->data = train_data_ids(&e->l, &e->o))) s = ZT_OK;
    if (s == ZT_EDATA && e->l) s = open_wide(e);
    if (!s) s = run(e);
    zt_session_close(e->session);
    train_observer_free(e->observer);
    zt_free(ctx, e->room);
    zt_samples_free(e->data);
    train_learner_close(e->l);
    return s;
}

/* ---- all ------------------------------------------------------------------------------------- */

static zt_status check(zt_cli *cli, const train_options *o)
{
    static const char *const alone[] = {"--data", "--observe"};
    const char *given = o->data ? alone[0] : o->observe ? alone[1] : NULL;
    if (o->models.n > 1 && given)
        return zt_fail(cli->ctx, ZT_EUSAGE, "%s goes with one network, not %d", given, o->models.n);
    return ZT_OK;
}

zt_status train_eval(zt_cli *cli, const train_options *o)
{
    int n = o->models.n;
    zt_status s = check(cli, o);
    train_scores *scores = s ? NULL : zt_calloc(cli->ctx, (size_t)n, sizeof *scores);
    zt_engine *engine = scores ? zt_cli_engine(cli) : NULL;
    if (!s && !engine) s = zt_ctx_status(cli->ctx);
    for (int i = 0; i < n && !s; i++) {
        eval e = {.cli = cli, .o = *o, .engine = engine, .scores = &scores[i]};
        e.o.model = scores[i].name = o->models.item[i];
        s = evaluate(&e);
    }
    if (!s) s = train_print_scores(cli, scores, n);
    for (int i = 0; scores && i < n; i++) {
        zt_free(cli->ctx, scores[i].each);
        zt_free(cli->ctx, scores[i].output);
    }
    zt_free(cli->ctx, scores);
    zt_engine_close(engine);
    return s;
}
