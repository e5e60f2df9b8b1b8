/* observe_write.c - events as lines: of JSON to a file or a descriptor, of words to the terminal. */
#include "tools/zt-train/observe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

typedef struct line_writer {
    zt_cli *cli;
    bool words;       /* lines to read, not JSON */
    zt_sink *sink;    /* a file; or */
    FILE *stream;     /* a descriptor */
    const char *name; /* for messages */
    zt_str text;      /* the events of a step */
} line_writer;

/* ---- lines ------------------------------------------------------------------------------------- */

static void put_number(zt_str *text, const char *key, float number)
{
    if (isfinite(number))
        zt_str_printf(text, "\"%s\":%.9g,", key, (double)number);
    else
        zt_str_printf(text, "\"%s\":null,", key);
}

static const char *type_of(const train_event *event) { return event->backward ? "backward" : "forward"; }

void train_event_put_json(zt_str *out, const train_event *event)
{
    const zt_nn_layer *layer = event->layer;
    zt_str_printf(out,
                  "{\"mode\":\"%s\",\"type\":\"%s\",\"z\":%" PRId64 ",\"y\":%" PRId64 ",\"x\":%" PRId64 ",\"l\":%" PRId64
                  ",\"layer_type\":%d,\"stats\":{",
                  event->mode, type_of(event), layer->place[0], layer->place[1], layer->place[2], layer->place[3],
                  (int)layer->kind);
    put_number(out, "avg", event->stats.avg);
    put_number(out, "max", event->stats.max);
    put_number(out, "min", event->stats.min);
    zt_str_printf(out, "\"active\":%" PRId64 ",\"total\":%" PRId64 "},\"step_count\":%" PRIu64 ",", event->stats.active,
                  event->stats.total, event->step);
    if (event->window > 1) zt_str_printf(out, "\"window\":%" PRIu64 ",", event->window);
    zt_str_printf(out, "\"model_id\":\"%s\"}\n", event->model_id);
}

static void put_words(zt_str *out, const train_event *event)
{
    const zt_nn_layer *layer = event->layer;
    const zt_nn_stats *stats = &event->stats;
    zt_str_printf(out,
                  "step %" PRIu64 " %s (%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ") %s: "
                  "avg=%.4g max=%.4g min=%.4g active=%" PRId64 "/%" PRId64 "\n",
                  event->step, type_of(event), layer->place[0], layer->place[1], layer->place[2], layer->place[3],
                  zt_nn_kind_name(layer->kind), (double)stats->avg, (double)stats->max, (double)stats->min, stats->active,
                  stats->total);
}

/* ---- the target -------------------------------------------------------------------------------- */

/* The lines of a step go out at once: a reader need not wait for more. */
static zt_status send_text(line_writer *writer)
{
    if (writer->sink) return zt_sink_write(writer->sink, writer->text.data, writer->text.len);
    zt_progress_clear(writer->cli); /* the descriptor may be the terminal's */
    bool well = fwrite(writer->text.data, 1, writer->text.len, writer->stream) == writer->text.len;
    if (well && !fflush(writer->stream)) return ZT_OK;
    return zt_fail(writer->cli->ctx, ZT_EIO, "%s: cannot be written: %s", writer->name, strerror(errno));
}

static zt_status tell_lines(void *user, const train_event *events, int count)
{
    line_writer *writer = user;
    zt_str_clear(&writer->text);
    for (int i = 0; i < count; i++) (writer->words ? put_words : train_event_put_json)(&writer->text, &events[i]);
    zt_status status = zt_ctx_status(writer->cli->ctx);
    return status ? status : send_text(writer);
}

static zt_status end_lines(void *user)
{
    line_writer *writer = user;
    return writer->sink ? zt_sink_commit(writer->sink) : ZT_OK;
}

static void close_lines(void *user)
{
    line_writer *writer = user;
    zt_sink_close(writer->sink);
    if (writer->stream) fclose(writer->stream);
    zt_str_fini(&writer->text);
    zt_free(writer->cli->ctx, writer);
}

/* ---- opening ----------------------------------------------------------------------------------- */

/* "3" of "fd:3" */
static zt_status open_descriptor(line_writer *writer, const char *number)
{
    int64_t descriptor;
    if (!zt_parse_i64(number, &descriptor) || descriptor < 0 || descriptor > INT32_MAX)
        return zt_fail(writer->cli->ctx, ZT_EUSAGE, "--observe: '%s' is not fd:NUMBER", writer->name);
    int flags = fcntl((int)descriptor, F_GETFL), own = -1;
    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) own = fcntl((int)descriptor, F_DUPFD_CLOEXEC, 3);
    writer->stream = own < 0 ? NULL : fdopen(own, "w");
    if (writer->stream) return ZT_OK;
    if (own >= 0) close(own);
    return zt_fail(writer->cli->ctx, ZT_ECREATE, "%s: is not open for writing", writer->name);
}

static zt_status open_lines(line_writer *writer)
{
    writer->words = !strcmp(writer->name, "console");
    if (writer->words) return open_descriptor(writer, "2");
    if (!strncmp(writer->name, "fd:", 3)) return open_descriptor(writer, writer->name + 3);
    if (!strcmp(writer->name, "-")) return open_descriptor(writer, "1");
    writer->sink = zt_sink_open(writer->cli->ctx, writer->name, writer->cli->force);
    return writer->sink ? ZT_OK : zt_ctx_status(writer->cli->ctx);
}

zt_status train_target_open(zt_cli *cli, const char *name, train_target *target)
{
    if (train_is_url(name)) return train_http_open(cli, name, target);
    line_writer *writer = zt_calloc(cli->ctx, 1, sizeof *writer);
    if (!writer) return ZT_ENOMEM;
    *writer = (line_writer){.cli = cli, .name = name};
    zt_str_init(&writer->text, cli->ctx);
    *target = (train_target){writer, tell_lines, end_lines, close_lines};
    return open_lines(writer);
}
