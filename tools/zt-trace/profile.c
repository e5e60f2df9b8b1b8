/* profile.c - running a program for its times: some replays, of which the fastest counts, as other
 * work on the machine only slows one down.
 */
#include "tools/zt-trace/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LONG_ENOUGH = 0.3;                     /* seconds of replays, */
enum { LEAST_REPLAYS = 3, MOST_REPLAYS = 1000, WARM = 2 }; /* or so many */

/* ---- steps and values ------------------------------------------------------------------------ */

/* The program's number of a schedule's step. */
static int step_of(const trace_profile *profile, const zt_run_schedule *schedule, int step)
{
    return zt_prog_value(profile->program, schedule->step[step].out[0])->index;
}

/* The input of that name of some op, if the program is fed it: positions reach so far. */
static int64_t rows_filled(const trace_profile *profile)
{
    int64_t filled = -1;
    for (int step_index = 0; step_index < zt_prog_n_steps(profile->program); step_index++) {
        const zt_step *step = zt_prog_step(profile->program, step_index);
        const zt_opinfo *op_info = zt_op_info(step->op);
        for (int input = 0; input < op_info->n_in; input++) {
            if (step->in[input] < 0 || strcmp(op_info->in_name[input], "pos")) continue;
            const zt_value *value = zt_prog_value(profile->program, step->in[input]);
            const zt_type *type = &profile->bound->type[step->in[input]];
            if (value->kind != ZT_VALUE_IN || type->dtype != ZT_I32) continue;
            const int32_t *positions = profile->subject->inputs->in[value->index];
            for (int64_t i = 0; i < zt_type_count(type); i++)
                if (positions[i] + (int64_t)1 > filled) filled = positions[i] + (int64_t)1;
        }
    }
    return filled;
}

void trace_types_of(const trace_profile *profile, int step_index, zt_str *output_text)
{
    char text[ZT_TYPE_TEXT];
    const zt_step *step = zt_prog_step(profile->program, step_index);
    const zt_opinfo *op_info = zt_op_info(step->op);
    for (int input = 0; input < op_info->n_in; input++)
        if (step->in[input] >= 0) zt_str_printf(output_text, "%s ", zt_type_text(&profile->bound->type[step->in[input]], text));
    zt_str_puts(output_text, "->");
    for (int output = 0; output < op_info->n_out; output++)
        if (step->out[output] >= 0)
            zt_str_printf(output_text, " %s", zt_type_text(&profile->bound->type[step->out[output]], text));
}

/* ---- replays --------------------------------------------------------------------------------- */

/* One replay while it runs. */
typedef struct slice_record {
    trace_profile *profile;
    trace_slice *slices;
    size_t count, capacity;
    bool full; /* there was no memory for a slice */
} slice_record;

static void on_span(void *user, const zt_run_schedule *schedule, const zt_span *span)
{
    slice_record *record = user;
    if (record->count == record->capacity) {
        size_t cap = record->capacity ? 2 * record->capacity : 1024;
        trace_slice *more = zt_realloc(record->profile->cli->ctx, record->slices, cap * sizeof *more);
        if (!more) {
            record->full = true;
            return;
        }
        record->slices = more;
        record->capacity = cap;
    }
    record->slices[record->count++] =
        (trace_slice){step_of(record->profile, schedule, span->step), span->track, span->begin, span->end};
}

static void swap_records(slice_record *first, slice_record *second)
{
    slice_record kept = *first;
    *first = *second;
    *second = kept;
}

/* Seconds of one replay, into record. */
static zt_status replay_once(trace_profile *profile, slice_record *record, double *seconds)
{
    record->count = 0;
    double start = zt_seconds();
    zt_status status = zt_cli_interrupted() ? ZT_EINTR : zt_subject_step(profile->subject, profile->session);
    *seconds = zt_seconds() - start;
    return status || !record->full ? status : ZT_ENOMEM;
}

/* The fastest of several replays, into *best. */
static zt_status replay_some(trace_profile *profile, slice_record *latest, slice_record *best, double *fastest)
{
    double start = zt_seconds(), seconds;
    zt_status status = ZT_OK;
    *fastest = 0;
    for (int i = 0; i < MOST_REPLAYS && !status; i++) {
        if (i >= LEAST_REPLAYS + WARM && zt_seconds() - start > LONG_ENOUGH) break;
        status = replay_once(profile, latest, &seconds);
        if (status || i < WARM || (*fastest > 0 && seconds >= *fastest)) continue;
        *fastest = seconds;
        swap_records(latest, best);
    }
    return status;
}

static int by_begin(const void *left, const void *right)
{
    const trace_slice *left_slice = left, *right_slice = right;
    if (left_slice->begin != right_slice->begin) return left_slice->begin < right_slice->begin ? -1 : 1;
    return (left_slice->end > right_slice->end) - (left_slice->end < right_slice->end);
}

void trace_sort_slices(trace_profile *profile)
{
    if (profile->n_slices) qsort(profile->slices, profile->n_slices, sizeof *profile->slices, by_begin);
    double origin = profile->n_slices ? profile->slices[0].begin : 0;
    for (size_t slice_index = 0; slice_index < profile->n_slices; slice_index++) {
        profile->slices[slice_index].begin -= origin;
        profile->slices[slice_index].end -= origin;
    }
}

/* The time until `to`, in equal parts to the steps of the going_count slices that are going on; those that
 * end before it leave. Returns how many are left. */
static int pass_time(trace_profile *profile, int *going, int going_count, double *now, double end_time)
{
    while (going_count > 0 && *now < end_time) {
        double until = end_time;
        for (int i = 0; i < going_count; i++)
            if (profile->slices[going[i]].end < until) until = profile->slices[going[i]].end;
        for (int i = 0; i < going_count; i++)
            profile->seconds[profile->slices[going[i]].step] += until > *now ? (until - *now) / going_count : 0;
        *now = until > *now ? until : *now;
        for (int i = 0; i < going_count;)
            if (profile->slices[going[i]].end <= *now)
                going[i] = going[--going_count];
            else
                i++;
    }
    return going_count;
}

/* Seconds of each step: what threads did side by side shares the time. The slices are in order. */
static zt_status share_time(trace_profile *profile)
{
    int *going = zt_calloc(profile->cli->ctx, profile->n_slices + 1, sizeof *going), going_count = 0;
    double now = 0;
    if (!going) return ZT_ENOMEM;
    for (size_t slice_index = 0; slice_index < profile->n_slices; slice_index++) {
        going_count = pass_time(profile, going, going_count, &now, profile->slices[slice_index].begin);
        now = profile->slices[slice_index].begin;
        going[going_count++] = (int)slice_index;
    }
    pass_time(profile, going, going_count, &now, INFINITY);
    zt_free(profile->cli->ctx, going);
    return ZT_OK;
}

/* The watch writes to the record that `one` is: its content changes places with best's. */
static zt_status measure_replays(trace_profile *profile)
{
    slice_record one = {.profile = profile}, best = {.profile = profile};
    double fastest;
    zt_status status = replay_some(profile, &one, &best, &profile->replay);
    zt_session_watch(profile->session, &(zt_watch){.span = on_span, .user = &one});
    if (!status) status = replay_some(profile, &one, &best, &fastest);
    zt_session_watch(profile->session, NULL);
    if (!status) {
        profile->slices = best.slices;
        profile->n_slices = best.count;
        best.slices = NULL;
        trace_sort_slices(profile);
        status = share_time(profile);
    }
    zt_free(profile->cli->ctx, one.slices);
    zt_free(profile->cli->ctx, best.slices);
    return status;
}

/* Which engine each step runs on: only parts know it. */
static void find_engines(trace_profile *profile)
{
    for (int part_index = 0; part_index < zt_session_parts(profile->session); part_index++) {
        zt_session_part part = zt_session_part_at(profile->session, part_index);
        for (int step_index = 0; step_index < part.schedule->n_steps; step_index++)
            profile->ran_on[step_of(profile, part.schedule, step_index)] = part.engine->vt->name;
    }
}

/* ---- open and close -------------------------------------------------------------------------- */

static zt_status open_subject(trace_profile *profile, zt_cli *cli, const trace_options *options, const zt_prog *program,
                              char **operands, int operand_count)
{
    size_t n_steps = (size_t)zt_prog_n_steps(program) + 1;
    *profile = (trace_profile){.cli = cli, .program = program, .filled = -1};
    profile->subject = trace_subject(cli, options, program, operands, operand_count);
    if (!profile->subject) return zt_ctx_status(cli->ctx);
    profile->bound = profile->subject->inputs->bound;
    profile->seconds = zt_calloc(cli->ctx, n_steps, sizeof *profile->seconds);
    profile->ran_on = zt_calloc(cli->ctx, n_steps, sizeof *profile->ran_on);
    profile->root = zt_cost_roots(cli->ctx, program);
    if (!profile->seconds || !profile->ran_on || !profile->root) return ZT_ENOMEM;
    for (size_t step_index = 0; step_index < n_steps; step_index++) profile->ran_on[step_index] = "";
    profile->filled = rows_filled(profile);
    return ZT_OK;
}

static zt_status open_session(trace_profile *profile)
{
    profile->engine = zt_cli_engine(profile->cli);
    profile->session = profile->engine ? zt_subject_session(profile->subject, profile->engine) : NULL;
    if (!profile->session) return zt_ctx_status(profile->cli->ctx);
    zt_status status = zt_session_prepare(profile->session, profile->subject->bind.items, profile->subject->bind.count,
                                          profile->subject->inputs->out);
    if (!status) find_engines(profile);
    return status;
}

zt_status trace_profile_open(trace_profile *profile, zt_cli *cli, const trace_options *options, const zt_prog *program,
                             char **operands, int operand_count)
{
    *profile = (trace_profile){.cli = cli};
    if (options->times &&
        zt_cli_refuse_given(cli, "engine|strict-engine|compute|tile|seed", "a profile read with --times: nothing is run"))
        return ZT_EUSAGE;
    zt_status status = open_subject(profile, cli, options, program, operands, operand_count);
    if (!status && options->times) return trace_times_read(profile, options->times);
    if (!status) status = open_session(profile);
    return status ? status : measure_replays(profile);
}

zt_status trace_profile_prepare(trace_profile *profile, zt_cli *cli, const trace_options *options, const zt_prog *program,
                                char **operands, int operand_count)
{
    zt_status status = open_subject(profile, cli, options, program, operands, operand_count);
    return status ? status : open_session(profile);
}

void trace_profile_close(trace_profile *profile)
{
    zt_ctx *ctx = profile->cli->ctx;
    if (profile->session) zt_session_close(profile->session);
    if (profile->engine) zt_engine_close(profile->engine);
    zt_free(ctx, profile->slices);
    zt_free(ctx, profile->seconds);
    zt_free(ctx, profile->ran_on);
    zt_free(ctx, profile->root);
    zt_subject_close(profile->subject);
}
