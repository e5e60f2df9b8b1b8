/* chrome.c - zt-trace chrome: one replay as trace events, which Perfetto and chrome://tracing read.
 * The form: "Trace Event Format" (Google): an object with traceEvents; complete events (ph X, ts
 * and dur in microseconds) on threads, whose names metadata events (ph M) tell.
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

typedef struct trace {
    zt_cli *cli;
    trace_look look;
    trace_layers layers;
    track track[MAX_TRACKS]; /* [n_tracks]: tid - FIRST_TRACK */
    int n_tracks;
    zt_str *out;
    bool first; /* of the events */
} trace;

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_string(zt_str *out, const char *text) { zt_str_put_json(out, text, strlen(text)); }

static void begin_event(trace *t, const char *name, const char *phase, int tid)
{
    zt_str_puts(t->out, t->first ? "\n{\"name\":" : ",\n{\"name\":");
    t->first = false;
    put_string(t->out, name);
    zt_str_printf(t->out, ",\"ph\":\"%s\",\"pid\":%d,\"tid\":%d", phase, PROCESS, tid);
}

static void put_time(trace *t, double begin, double end)
{
    double dur = end > begin ? end - begin : 0;
    zt_str_printf(t->out, ",\"ts\":%.3f,\"dur\":%.3f", begin * 1e6, dur * 1e6);
}

static void put_metadata(trace *t, const char *what, int tid, const char *key, const char *value)
{
    begin_event(t, what, "M", tid);
    zt_str_printf(t->out, ",\"args\":{\"%s\":", key);
    put_string(t->out, value);
    zt_str_puts(t->out, "}}");
}

/* ---- tracks ---------------------------------------------------------------------------------- */

/* Its tid; those past the last share that. */
static int track_of(trace *t, const char *engine, int number)
{
    for (int i = 0; i < t->n_tracks; i++)
        if (t->track[i].number == number && !strcmp(t->track[i].engine, engine))
            return FIRST_TRACK + i;
    if (t->n_tracks < MAX_TRACKS) t->track[t->n_tracks++] = (track){engine, number};
    return FIRST_TRACK + t->n_tracks - 1;
}

static void put_tracks(trace *t)
{
    char name[64];
    put_metadata(t, "thread_name", LAYERS, "name", "layers");
    for (int i = 0; i < t->n_tracks; i++) {
        const char *engine = t->track[i].engine;
        snprintf(name, sizeof name, "%s %s %d", *engine ? engine : "run",
                 zt_engine_has_devices(engine) ? "queue" : "thread", t->track[i].number);
        put_metadata(t, "thread_name", FIRST_TRACK + i, "name", name);
        begin_event(t, "thread_sort_index", "M", FIRST_TRACK + i);
        zt_str_printf(t->out, ",\"args\":{\"sort_index\":%d}}", t->track[i].number + 1);
    }
}

/* ---- steps and layers ------------------------------------------------------------------------ */

static void put_slice(trace *t, const trace_slice *s)
{
    const zt_step *step = zt_prog_step(t->look.p, s->step);
    zt_cost c = zt_cost_of(t->look.b, t->look.root, t->look.filled, s->step);
    zt_str types;
    zt_str_init(&types, t->cli->ctx);
    trace_types_of(&t->look, s->step, &types);
    begin_event(t, zt_op_info(step->op)->name, "X", track_of(t, t->look.ran_on[s->step], s->track));
    zt_str_puts(t->out, ",\"cat\":");
    put_string(t->out, zt_op_family(step->op));
    put_time(t, s->begin, s->end);
    zt_str_puts(t->out, ",\"args\":{\"value\":");
    put_string(t->out, zt_prog_value(t->look.p, step->out[0])->name);
    zt_str_puts(t->out, ",\"types\":");
    put_string(t->out, types.data ? types.data : "");
    zt_str_puts(t->out, ",\"layer\":");
    put_string(t->out, t->layers.name[t->layers.of[s->step]]);
    zt_str_printf(t->out, ",\"step\":%d,\"flops\":%.0f,\"bytes\":%.0f}}", s->step, c.flops,
                  c.data + c.rest);
    zt_str_fini(&types);
}

/* One layer after the other: events of one track must not overlap but by holding one another. */
static zt_status put_layers(trace *t)
{
    double *begin = zt_calloc(t->cli->ctx, (size_t)t->layers.n, sizeof *begin);
    double *end = zt_calloc(t->cli->ctx, (size_t)t->layers.n, sizeof *end), last = 0;
    for (size_t i = 0; begin && end && i < t->look.n_slices; i++) {
        const trace_slice *s = &t->look.slice[i];
        int layer = t->layers.of[s->step];
        if (end[layer] == 0) begin[layer] = s->begin;
        if (s->end > end[layer]) end[layer] = s->end;
    }
    for (int i = 1; begin && end && i < t->layers.n; i++) {
        if (end[i] <= last) continue;
        begin_event(t, t->layers.name[i], "X", LAYERS);
        zt_str_puts(t->out, ",\"cat\":\"layer\"");
        put_time(t, begin[i] > last ? begin[i] : last, end[i]);
        zt_str_puts(t->out, ",\"args\":{}}");
        last = end[i];
    }
    zt_status status = begin && end ? ZT_OK : ZT_ENOMEM;
    zt_free(t->cli->ctx, begin);
    zt_free(t->cli->ctx, end);
    return status;
}

/* Of seconds a step, where nothing tells when it began. */
static zt_status slices_of_seconds(trace_look *l)
{
    size_t n = (size_t)zt_prog_n_steps(l->p);
    double at = 0;
    l->slice = zt_calloc(l->cli->ctx, n + 1, sizeof *l->slice);
    if (!l->slice) return ZT_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (l->seconds[i] <= 0) continue;
        l->slice[l->n_slices++] = (trace_slice){(int)i, 0, at, at + l->seconds[i]};
        at += l->seconds[i];
    }
    return ZT_OK;
}

static zt_status put_trace(trace *t, const char *name)
{
    zt_status status = t->look.n_slices ? ZT_OK : slices_of_seconds(&t->look);
    if (status) return status;
    t->first = true;
    zt_str_puts(t->out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    put_metadata(t, "process_name", LAYERS, "name", name);
    for (size_t i = 0; i < t->look.n_slices; i++) put_slice(t, &t->look.slice[i]);
    status = put_layers(t);
    put_tracks(t);
    zt_str_puts(t->out, "\n]}\n");
    return status;
}

zt_status trace_chrome(zt_cli *cli, const trace_options *options, char **operands, int n)
{
    zt_str out;
    zt_prog *program = trace_program(cli, operands, n);
    trace *t = program ? zt_calloc(cli->ctx, 1, sizeof *t) : NULL;
    if (!t) {
        zt_prog_free(program);
        return zt_ctx_status(cli->ctx);
    }
    zt_str_init(&out, cli->ctx);
    t->cli = cli;
    t->out = &out;
    zt_status status = trace_look_open(&t->look, cli, options, program, operands, n);
    if (!status) status = trace_layers_find(cli->ctx, program, &t->layers);
    if (!status) status = put_trace(t, n > 0 ? operands[0] : "stdin");
    status = trace_write(cli, &out);
    trace_layers_free(&t->layers);
    trace_look_close(&t->look);
    zt_free(cli->ctx, t);
    zt_prog_free(program);
    return status;
}
