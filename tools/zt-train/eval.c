/* eval.c - zt-train --eval: predictions against what was expected. */
#include "tools/zt-train/train_tool.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct eval {
    zt_cli *cli;
    train_learner *l;
    zt_samples *data;
    zt_session *session;
    zt_engine *engine;
    train_observer *observer; /* NULL: none */
    int out;          /* the output that predicts */
    int64_t n_out;    /* its numbers a row */
    float *room;      /* a batch of it */
    zt_deviations all;
    zt_deviation *each; /* [rows] */
} eval;

/* ---- predictions ----------------------------------------------------------------------------- */

static double expected_at(const eval *e, int64_t row)
{
    const zt_field *f = &e->data->field[e->data->n - 1];
    const char *at = f->data.data + (size_t)row * f->bytes;
    int32_t i;
    int64_t k;
    double d;
    if (f->row.dtype == ZT_F32)
        return zt_prediction((const float *)(const void *)at, zt_type_count(&f->row));
    if (f->row.dtype == ZT_F64) return memcpy(&d, at, sizeof d), d;
    if (f->row.dtype == ZT_I64) return memcpy(&k, at, sizeof k), (double)k;
    return memcpy(&i, at, sizeof i), (double)i;
}

static zt_status predict(eval *e, const zt_batches *b)
{
    const void *in[ZT_FIT_INPUTS];
    zt_binding bind[ZT_MAX_SYMBOLS];
    int64_t at = 0;
    size_t n_out = (size_t)zt_prog_n_outputs(e->l->forward);
    void **out = zt_calloc(e->cli->ctx, n_out, sizeof *out);
    zt_status s = out ? ZT_OK : ZT_ENOMEM;
    if (out && e->observer) memcpy(out, train_observer_out(e->observer), n_out * sizeof *out);
    if (out) out[e->out] = e->room;
    for (int64_t i = 0; i < b->per_epoch && !s; i++) {
        int n;
        int64_t rows;
        s = b->get(b->user, 0, i, in, bind, &n, &rows);
        if (!s) s = zt_session_step(e->session, bind, n, in, out);
        for (int64_t r = 0; r < rows && !s; r++, at++) {
            e->each[at] = zt_deviation_of(expected_at(e, at),
                                          zt_prediction(e->room + r * e->n_out, e->n_out));
            zt_deviations_add(&e->all, &e->each[at]);
        }
        if (!s && e->observer) s = train_observer_tell(e->observer, rows, (uint64_t)i + 1);
    }
    zt_free(e->cli->ctx, out);
    return !s && e->observer ? train_observer_end(e->observer) : s;
}

/* The first output that is not the loss. */
static zt_status find_output(eval *e, int64_t batch)
{
    const zt_prog *p = e->l->forward;
    zt_binding n = {zt_prog_n_symbols(p) ? zt_prog_symbol_name(p, 0) : "n", batch};
    zt_bound *b = zt_prog_bind(p, &n, 1);
    if (!b) return zt_ctx_status(e->cli->ctx);
    while (e->out < zt_prog_n_outputs(p) && !strcmp(zt_prog_output(p, e->out)->name, "loss"))
        e->out++;
    bool there = e->out < zt_prog_n_outputs(p);
    zt_type t = there ? b->type[zt_prog_output(p, e->out)->value] : (zt_type){0};
    zt_bound_free(b);
    if (!there || t.rank < 1 || t.dtype != ZT_F32 || t.dim[0] != batch)
        return zt_fail(e->cli->ctx, ZT_EUSAGE,
                       "the program has no output of f32 with rows to judge");
    e->n_out = zt_type_count(&t) / batch;
    if (e->n_out < 1) return zt_fail(e->cli->ctx, ZT_EUSAGE, "the program's output is empty");
    e->room = zt_alloc(e->cli->ctx, zt_type_bytes(&t));
    e->each = zt_calloc(e->cli->ctx, (size_t)e->data->rows, sizeof *e->each);
    return e->room && e->each ? ZT_OK : ZT_ENOMEM;
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void put_number(zt_str *s, const char *key, double x)
{
    zt_str_printf(s, "\"%s\":", key);
    if (isfinite(x)) zt_str_put_double(s, x);
    else zt_str_puts(s, "null");
}

static void put_bucket(zt_str *s, const eval *e, int i)
{
    const zt_deviation_bucket *b = zt_deviation_bucket_at(i);
    bool first = true;
    zt_str_printf(s, "%s\"%s\":{", i ? "," : "", b->name);
    put_number(s, "range_min", b->above);
    zt_str_putc(s, ',');
    put_number(s, "range_max", b->up_to);
    zt_str_printf(s, ",\"count\":%" PRId64 ",\"samples\":[", e->all.bucket[i]);
    for (int64_t k = 0; k < e->all.total; k++)
        if (e->each[k].bucket == i) {
            zt_str_printf(s, "%s%" PRId64, first ? "" : ",", k);
            first = false;
        }
    zt_str_puts(s, "]}");
}

/* The original's names of fields. */
static zt_status print_json(eval *e)
{
    zt_str s;
    zt_str_init(&s, e->cli->ctx);
    zt_str_printf(&s, "{\"schema\":\"zt.eval/1\",\"total\":%" PRId64 ",\"correct\":%" PRId64
                  ",\"failures\":%" PRId64 ",", e->all.total, e->all.correct,
                  e->all.bucket[ZT_DEVIATION_BUCKETS - 1]);
    put_number(&s, "accuracy", zt_deviations_accuracy(&e->all));
    zt_str_putc(&s, ',');
    put_number(&s, "score", zt_deviations_score(&e->all));
    zt_str_putc(&s, ',');
    put_number(&s, "avg_deviation", zt_deviations_mean(&e->all));
    zt_str_puts(&s, ",\"buckets\":{");
    for (int i = 0; i < ZT_DEVIATION_BUCKETS; i++) put_bucket(&s, e, i);
    zt_str_puts(&s, "},\"results\":[");
    for (int64_t k = 0; k < e->all.total; k++) {
        zt_str_printf(&s, "%s{\"sample_index\":%" PRId64 ",", k ? "," : "", k);
        put_number(&s, "expected", e->each[k].expected);
        zt_str_putc(&s, ',');
        put_number(&s, "actual", e->each[k].actual);
        zt_str_putc(&s, ',');
        put_number(&s, "deviation", e->each[k].deviation);
        zt_str_printf(&s, ",\"bucket\":\"%s\"}", zt_deviation_bucket_at(e->each[k].bucket)->name);
    }
    zt_str_puts(&s, "]}\n");
    zt_status st = zt_ctx_status(e->cli->ctx);
    if (!st) st = zt_cli_write(e->cli, s.data, s.len);
    zt_str_fini(&s);
    return st;
}

static zt_status print_table(eval *e)
{
    static const char *const columns[] = {"measure", "#value"};
    const struct {
        const char *name;
        double value;
    } rows[] = {{"samples", (double)e->all.total},
                {"correct", (double)e->all.correct},
                {"accuracy", zt_deviations_accuracy(&e->all)},
                {"score", zt_deviations_score(&e->all)},
                {"avg_deviation", zt_deviations_mean(&e->all)}};
    char text[32];
    zt_table *t = zt_table_new(e->cli, "zt.eval/1", columns, 2);
    zt_status s = t ? ZT_OK : ZT_ENOMEM;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !s; i++) {
        snprintf(text, sizeof text, "%.10g", rows[i].value);
        s = zt_table_row(t, (const char *const[]){rows[i].name, text});
    }
    for (int i = 0; i < ZT_DEVIATION_BUCKETS && !s; i++) {
        snprintf(text, sizeof text, "%" PRId64, e->all.bucket[i]);
        s = zt_table_row(t, (const char *const[]){zt_deviation_bucket_at(i)->name, text});
    }
    if (!s) s = zt_table_print(t);
    zt_table_free(t);
    return s;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static zt_status run(eval *e, const train_options *o)
{
    zt_batches b;
    zt_store store = train_learner_store(e->l);
    zt_status s = zt_samples_batches(e->data, &(zt_shuffle){.batch = o->batch}, &b);
    if (!s) s = find_output(e, e->data->batch);
    if (!s && o->observe) {
        e->observer = train_observer_open(e->l, o->observe, "eval", false, e->data->batch);
        if (!e->observer) s = zt_ctx_status(e->cli->ctx);
    }
    if (!s) e->session = zt_session_open(e->engine, e->l->forward, &store,
                                         &(zt_session_opts){.strict = e->cli->strict});
    if (!s) s = e->session ? predict(e, &b) : zt_ctx_status(e->cli->ctx);
    if (!s) s = e->cli->format == ZT_FMT_JSON ? print_json(e) : print_table(e);
    return s;
}

zt_status train_eval(zt_cli *cli, const train_options *o)
{
    eval e = {.cli = cli, .engine = zt_cli_engine(cli)};
    e.l = e.engine ? train_learner_open(cli, o) : NULL;
    e.data = e.l ? train_data_open(e.l, o, o->input, o->target) : NULL;
    zt_status s = e.data ? run(&e, o) : zt_ctx_status(cli->ctx);
    zt_session_close(e.session);
    train_observer_free(e.observer);
    zt_free(cli->ctx, e.room);
    zt_free(cli->ctx, e.each);
    zt_samples_free(e.data);
    train_learner_close(e.l);
    zt_engine_close(e.engine);
    return s;
}
