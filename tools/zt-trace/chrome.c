/* chrome.c - zt-trace chrome: one replay as trace events, which Perfetto and chrome://tracing read.
 * The form: "Trace Event Format" (Google): an object with traceEvents; complete events (ph X, ts
 * and dur in microseconds) on threads, whose names are in metadata events (ph M).
 *
 * A track for each thread of the processor and each queue of a device, an event for each piece of a
 * step; above them the layers, from the first piece of each to the last. Where only seconds a step
 * are known (--times of a run watched step by step) the steps stand one after the other.
 */
#include "tools/zt-trace/blocks.h"
#include "tools/zt-trace/profile.h"

#include <string.h>

enum { PROCESS = 1, LAYERS = 1, FIRST_TRACK = 2, MAX_TRACKS = 512 };

typedef struct track {
    const char *engine;
    int number; /* of a thread or queue */
} track;

typedef struct chrome_trace {
    zt_cli *cli;
    trace_profile profile;
    trace_layers layers;
    track tracks[MAX_TRACKS]; /* [n_tracks]: tid - FIRST_TRACK */
    int n_tracks;
    zt_str *text;
    bool first; /* of the events */
} chrome_trace;

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_string(zt_str *output_text, const char *text) { zt_str_put_json(output_text, text, strlen(text)); }

static void begin_event(chrome_trace *trace, const char *name, const char *phase, int tid)
{
    zt_str_puts(trace->text, trace->first ? "\n{\"name\":" : ",\n{\"name\":");
    trace->first = false;
    put_string(trace->text, name);
    zt_str_printf(trace->text, ",\"ph\":\"%s\",\"pid\":%d,\"tid\":%d", phase, PROCESS, tid);
}

static void put_time(chrome_trace *trace, double begin, double end)
{
    double dur = end > begin ? end - begin : 0;
    zt_str_printf(trace->text, ",\"ts\":%.3f,\"dur\":%.3f", begin * 1e6, dur * 1e6);
}

static void put_metadata(chrome_trace *trace, const char *what, int tid, const char *key, const char *value)
{
    begin_event(trace, what, "M", tid);
    zt_str_printf(trace->text, ",\"args\":{\"%s\":", key);
    put_string(trace->text, value);
    zt_str_puts(trace->text, "}}");
}

/* ---- tracks ---------------------------------------------------------------------------------- */

/* Its tid; those past the last share that. */
static int track_of(chrome_trace *trace, const char *engine, int number)
{
    for (int i = 0; i < trace->n_tracks; i++)
        if (trace->tracks[i].number == number && !strcmp(trace->tracks[i].engine, engine)) return FIRST_TRACK + i;
    if (trace->n_tracks < MAX_TRACKS) trace->tracks[trace->n_tracks++] = (track){engine, number};
    return FIRST_TRACK + trace->n_tracks - 1;
}

static void put_tracks(chrome_trace *trace)
{
    char name[64];
    put_metadata(trace, "thread_name", LAYERS, "name", "layers");
    for (int i = 0; i < trace->n_tracks; i++) {
        const char *engine = trace->tracks[i].engine;
        snprintf(name, sizeof name, "%s %s %d", *engine ? engine : "run", zt_engine_has_devices(engine) ? "queue" : "thread",
                 trace->tracks[i].number);
        put_metadata(trace, "thread_name", FIRST_TRACK + i, "name", name);
        begin_event(trace, "thread_sort_index", "M", FIRST_TRACK + i);
        zt_str_printf(trace->text, ",\"args\":{\"sort_index\":%d}}", trace->tracks[i].number + 1);
    }
}

/* ---- steps and layers ------------------------------------------------------------------------ */

static void put_slice(chrome_trace *trace, const trace_slice *slice)
{
    const zt_step *step = zt_prog_step(trace->profile.program, slice->step);
    zt_cost cost = zt_cost_of(trace->profile.bound, trace->profile.root, trace->profile.filled, slice->step);
    zt_str types;
    zt_str_init(&types, trace->cli->ctx);
    trace_types_of(&trace->profile, slice->step, &types);
    begin_event(trace, zt_op_info(step->op)->name, "X", track_of(trace, trace->profile.ran_on[slice->step], slice->track));
    zt_str_puts(trace->text, ",\"cat\":");
    put_string(trace->text, zt_op_family(step->op));
    put_time(trace, slice->begin, slice->end);
    zt_str_puts(trace->text, ",\"args\":{\"value\":");
    put_string(trace->text, zt_prog_value(trace->profile.program, step->out[0])->name);
    zt_str_puts(trace->text, ",\"types\":");
    put_string(trace->text, types.data ? types.data : "");
    zt_str_puts(trace->text, ",\"layer\":");
    put_string(trace->text, trace->layers.names[trace->layers.of_step[slice->step]]);
    zt_str_printf(trace->text, ",\"step\":%d,\"flops\":%.0f,\"bytes\":%.0f}}", slice->step, cost.flops, cost.data + cost.rest);
    zt_str_fini(&types);
}

/* One layer after the other: events of one track must not overlap but by holding one another. */
static zt_status put_layers(chrome_trace *trace)
{
    double *begin = zt_calloc(trace->cli->ctx, (size_t)trace->layers.count, sizeof *begin);
    double *end = zt_calloc(trace->cli->ctx, (size_t)trace->layers.count, sizeof *end), last = 0;
    for (size_t slice_index = 0; begin && end && slice_index < trace->profile.n_slices; slice_index++) {
        const trace_slice *slice = &trace->profile.slices[slice_index];
        int layer = trace->layers.of_step[slice->step];
        if (end[layer] == 0) begin[layer] = slice->begin;
        if (slice->end > end[layer]) end[layer] = slice->end;
    }
    for (int layer = 1; begin && end && layer < trace->layers.count; layer++) {
        if (end[layer] <= last) continue;
        begin_event(trace, trace->layers.names[layer], "X", LAYERS);
        zt_str_puts(trace->text, ",\"cat\":\"layer\"");
        put_time(trace, begin[layer] > last ? begin[layer] : last, end[layer]);
        zt_str_puts(trace->text, ",\"args\":{}}");
        last = end[layer];
    }
    zt_status status = begin && end ? ZT_OK : ZT_ENOMEM;
    zt_free(trace->cli->ctx, begin);
    zt_free(trace->cli->ctx, end);
    return status;
}

/* Slices of seconds a step, where it is not known when a step began. */
static zt_status slices_of_seconds(trace_profile *profile)
{
    size_t step_count = (size_t)zt_prog_n_steps(profile->program);
    double start = 0;
    profile->slices = zt_calloc(profile->cli->ctx, step_count + 1, sizeof *profile->slices);
    if (!profile->slices) return ZT_ENOMEM;
    for (size_t step_index = 0; step_index < step_count; step_index++) {
        if (profile->seconds[step_index] <= 0) continue;
        profile->slices[profile->n_slices++] = (trace_slice){(int)step_index, 0, start, start + profile->seconds[step_index]};
        start += profile->seconds[step_index];
    }
    return ZT_OK;
}

static zt_status put_trace(chrome_trace *trace, const char *name)
{
    zt_status status = trace->profile.n_slices ? ZT_OK : slices_of_seconds(&trace->profile);
    if (status) return status;
    trace->first = true;
    zt_str_puts(trace->text, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    put_metadata(trace, "process_name", LAYERS, "name", name);
    for (size_t slice_index = 0; slice_index < trace->profile.n_slices; slice_index++)
        put_slice(trace, &trace->profile.slices[slice_index]);
    status = put_layers(trace);
    put_tracks(trace);
    zt_str_puts(trace->text, "\n]}\n");
    return status;
}

zt_status trace_chrome(zt_cli *cli, const trace_options *options, char **operands, int operand_count)
{
    zt_str out;
    zt_prog *program = trace_program(cli, operands, operand_count);
    chrome_trace *trace = program ? zt_calloc(cli->ctx, 1, sizeof *trace) : NULL;
    if (!trace) {
        zt_prog_free(program);
        return zt_ctx_status(cli->ctx);
    }
    zt_str_init(&out, cli->ctx);
    trace->cli = cli;
    trace->text = &out;
    zt_status status = trace_profile_open(&trace->profile, cli, options, program, operands, operand_count);
    if (!status) status = trace_layers_find(cli->ctx, program, &trace->layers);
    if (!status) status = put_trace(trace, operand_count > 0 ? operands[0] : "stdin");
    status = trace_write(cli, &out);
    trace_layers_free(&trace->layers);
    trace_profile_close(&trace->profile);
    zt_free(cli->ctx, trace);
    zt_prog_free(program);
    return status;
}
