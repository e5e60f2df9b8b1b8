/* profile.c - running a program for its times: some replays, of which the fastest counts, as other
 * work on the machine only slows one down.
 */
#include "tools/zt-trace/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LONG_ENOUGH = 0.3; /* seconds of replays, */
enum { LEAST_REPLAYS = 3, MOST_REPLAYS = 1000, WARM = 2 }; /* or so many */

/* ---- steps and values ------------------------------------------------------------------------ */

/* The program's number of a plan's step. */
static int step_of(const trace_look *l, const zt_run_schedule *plan, int step)
{
    return zt_prog_value(l->p, plan->step[step].out[0])->index;
}

/* The input of that name of some op, if the program is fed it: positions reach so far. */
static int64_t rows_filled(const trace_look *l)
{
    int64_t filled = -1;
    for (int s = 0; s < zt_prog_n_steps(l->p); s++) {
        const zt_step *step = zt_prog_step(l->p, s);
        const zt_opinfo *info = zt_op_info(step->op);
        for (int k = 0; k < info->n_in; k++) {
            if (step->in[k] < 0 || strcmp(info->in_name[k], "pos")) continue;
            const zt_value *value = zt_prog_value(l->p, step->in[k]);
            const zt_type *type = &l->b->type[step->in[k]];
            if (value->kind != ZT_VALUE_IN || type->dtype != ZT_I32) continue;
            const int32_t *at = l->subject->feed->in[value->index];
            for (int64_t i = 0; i < zt_type_count(type); i++)
                if (at[i] + (int64_t)1 > filled) filled = at[i] + (int64_t)1;
        }
    }
    return filled;
}

void trace_types_of(const trace_look *l, int s, zt_str *out)
{
    char text[ZT_TYPE_TEXT];
    const zt_step *step = zt_prog_step(l->p, s);
    const zt_opinfo *info = zt_op_info(step->op);
    for (int k = 0; k < info->n_in; k++)
        if (step->in[k] >= 0)
            zt_str_printf(out, "%s ", zt_type_text(&l->b->type[step->in[k]], text));
    zt_str_puts(out, "->");
    for (int k = 0; k < info->n_out; k++)
        if (step->out[k] >= 0)
            zt_str_printf(out, " %s", zt_type_text(&l->b->type[step->out[k]], text));
}

/* ---- replays --------------------------------------------------------------------------------- */

/* One replay while it runs. */
typedef struct record {
    trace_look *l;
    trace_slice *slice;
    size_t n, cap;
    bool full; /* there was no memory for a slice */
} record;

static void on_span(void *user, const zt_run_schedule *plan, const zt_span *span)
{
    record *r = user;
    if (r->n == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 1024;
        trace_slice *more = zt_realloc(r->l->cli->ctx, r->slice, cap * sizeof *more);
        if (!more) {
            r->full = true;
            return;
        }
        r->slice = more;
        r->cap = cap;
    }
    r->slice[r->n++] =
        (trace_slice){step_of(r->l, plan, span->step), span->track, span->begin, span->end};
}

static void swap(record *a, record *b)
{
    record t = *a;
    *a = *b;
    *b = t;
}

/* Seconds of one replay, into r. */
static zt_status replay_once(trace_look *l, record *r, double *seconds)
{
    r->n = 0;
    double start = zt_seconds();
    zt_status status = zt_cli_interrupted() ? ZT_EINTR : zt_subject_step(l->subject, l->session);
    *seconds = zt_seconds() - start;
    return status || !r->full ? status : ZT_ENOMEM;
}

/* The fastest of several replays, into *best. */
static zt_status replay_some(trace_look *l, record *one, record *best, double *fastest)
{
    double start = zt_seconds(), seconds;
    zt_status status = ZT_OK;
    *fastest = 0;
    for (int i = 0; i < MOST_REPLAYS && !status; i++) {
        if (i >= LEAST_REPLAYS + WARM && zt_seconds() - start > LONG_ENOUGH) break;
        status = replay_once(l, one, &seconds);
        if (status || i < WARM || (*fastest > 0 && seconds >= *fastest)) continue;
        *fastest = seconds;
        swap(one, best);
    }
    return status;
}

static int by_begin(const void *left, const void *right)
{
    const trace_slice *x = left, *y = right;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

void trace_sort_slices(trace_look *l)
{
    if (l->n_slices) qsort(l->slice, l->n_slices, sizeof *l->slice, by_begin);
    double origin = l->n_slices ? l->slice[0].begin : 0;
    for (size_t i = 0; i < l->n_slices; i++) {
        l->slice[i].begin -= origin;
        l->slice[i].end -= origin;
    }
}

/* The time until `to`, in equal parts to the steps of the n slices that are going on; those that
 * end before it leave. Returns how many are left. */
static int pass_time(trace_look *l, int *going, int n, double *at, double to)
{
    while (n > 0 && *at < to) {
        double until = to;
        for (int i = 0; i < n; i++)
            if (l->slice[going[i]].end < until) until = l->slice[going[i]].end;
        for (int i = 0; i < n; i++)
            l->seconds[l->slice[going[i]].step] += until > *at ? (until - *at) / n : 0;
        *at = until > *at ? until : *at;
        for (int i = 0; i < n;)
            if (l->slice[going[i]].end <= *at)
                going[i] = going[--n];
            else
                i++;
    }
    return n;
}

/* Seconds of each step: what threads did side by side shares the time. The slices are in order. */
static zt_status share_time(trace_look *l)
{
    int *going = zt_calloc(l->cli->ctx, l->n_slices + 1, sizeof *going), n = 0;
    double at = 0;
    if (!going) return ZT_ENOMEM;
    for (size_t i = 0; i < l->n_slices; i++) {
        n = pass_time(l, going, n, &at, l->slice[i].begin);
        at = l->slice[i].begin;
        going[n++] = (int)i;
    }
    pass_time(l, going, n, &at, INFINITY);
    zt_free(l->cli->ctx, going);
    return ZT_OK;
}

/* The watch writes to the record that `one` is: its content changes places with best's. */
static zt_status measure(trace_look *l)
{
    record one = {.l = l}, best = {.l = l};
    double fastest;
    zt_status status = replay_some(l, &one, &best, &l->replay);
    zt_session_watch(l->session, &(zt_watch){.span = on_span, .user = &one});
    if (!status) status = replay_some(l, &one, &best, &fastest);
    zt_session_watch(l->session, NULL);
    if (!status) {
        l->slice = best.slice;
        l->n_slices = best.n;
        best.slice = NULL;
        trace_sort_slices(l);
        status = share_time(l);
    }
    zt_free(l->cli->ctx, one.slice);
    zt_free(l->cli->ctx, best.slice);
    return status;
}

/* Which engine each step runs on: only parts know it. */
static void find_engines(trace_look *l)
{
    for (int i = 0; i < zt_session_parts(l->session); i++) {
        zt_session_part part = zt_session_part_at(l->session, i);
        for (int k = 0; k < part.plan->n_steps; k++)
            l->ran_on[step_of(l, part.plan, k)] = part.engine->vt->name;
    }
}

/* ---- open and close -------------------------------------------------------------------------- */

static zt_status open_subject(trace_look *l, zt_cli *cli, const trace_options *options, const zt_prog *program,
                              char **operands, int n)
{
    size_t n_steps = (size_t)zt_prog_n_steps(program) + 1;
    *l = (trace_look){.cli = cli, .p = program, .filled = -1};
    l->subject = trace_subject(cli, options, program, operands, n);
    if (!l->subject) return zt_ctx_status(cli->ctx);
    l->b = l->subject->feed->bound;
    l->seconds = zt_calloc(cli->ctx, n_steps, sizeof *l->seconds);
    l->ran_on = zt_calloc(cli->ctx, n_steps, sizeof *l->ran_on);
    l->root = zt_cost_roots(cli->ctx, program);
    if (!l->seconds || !l->ran_on || !l->root) return ZT_ENOMEM;
    for (size_t i = 0; i < n_steps; i++) l->ran_on[i] = "";
    l->filled = rows_filled(l);
    return ZT_OK;
}

static zt_status open_session(trace_look *l)
{
    l->engine = zt_cli_engine(l->cli);
    l->session = l->engine ? zt_subject_session(l->subject, l->engine) : NULL;
    if (!l->session) return zt_ctx_status(l->cli->ctx);
    zt_status status = zt_session_prepare(l->session, l->subject->bind.at, l->subject->bind.n,
                                     l->subject->feed->out);
    if (!status) find_engines(l);
    return status;
}

zt_status trace_look_open(trace_look *l, zt_cli *cli, const trace_options *options, const zt_prog *program,
                          char **operands, int n)
{
    *l = (trace_look){.cli = cli};
    if (options->times && zt_cli_refuse_given(cli, "engine|strict-engine|compute|tile|seed",
                                        "times that are read (--times): nothing is run"))
        return ZT_EUSAGE;
    zt_status status = open_subject(l, cli, options, program, operands, n);
    if (!status && options->times) return trace_times_read(l, options->times);
    if (!status) status = open_session(l);
    return status ? status : measure(l);
}

zt_status trace_look_prepare(trace_look *l, zt_cli *cli, const trace_options *options, const zt_prog *program,
                             char **operands, int n)
{
    zt_status status = open_subject(l, cli, options, program, operands, n);
    return status ? status : open_session(l);
}

void trace_look_close(trace_look *l)
{
    zt_ctx *ctx = l->cli->ctx;
    if (l->session) zt_session_close(l->session);
    if (l->engine) zt_engine_close(l->engine);
    zt_free(ctx, l->slice);
    zt_free(ctx, l->seconds);
    zt_free(ctx, l->ran_on);
    zt_free(ctx, l->root);
    zt_subject_close(l->subject);
}
