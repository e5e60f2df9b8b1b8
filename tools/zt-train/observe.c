/* observe.c - owns --observe: what each layer of the grid gave, and the gradient of the loss by it,
 * told after each step as events with the members of openfluke/loom's PolyLayerEvent. */
#include "tools/zt-train/train_tool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

struct train_observer {
    zt_cli *cli;
    const train_learner *learner;
    const char *mode;
    bool words;         /* lines for eyes, not JSON */
    zt_sink *sink;      /* a file; or */
    FILE *stream;       /* a descriptor */
    const char *target; /* for messages */
    int *watched;       /* values of forward, each once */
    int n_watched;
    int *gradient;    /* [seen]: its entry of watched */
    int64_t *per_row; /* [seen]: numbers */
    void **out;       /* [outputs of forward + watched]: room for a batch, NULL where nothing is seen */
    zt_str text;      /* the events of a step */
};

/* ---- where events go ------------------------------------------------------------------------- */

/* "fd:3" */
static zt_status open_descriptor(train_observer *observer, const char *number)
{
    int64_t descriptor;
    if (!zt_parse_i64(number, &descriptor) || descriptor < 0 || descriptor > INT32_MAX)
        return zt_fail(observer->cli->ctx, ZT_EUSAGE, "--observe: '%s' is not fd:NUMBER", observer->target);
    int flags = fcntl((int)descriptor, F_GETFL), own = -1;
    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) own = fcntl((int)descriptor, F_DUPFD_CLOEXEC, 3);
    observer->stream = own < 0 ? NULL : fdopen(own, "w");
    if (observer->stream) return ZT_OK;
    if (own >= 0) close(own);
    return zt_fail(observer->cli->ctx, ZT_ECREATE, "%s: is not open for writing", observer->target);
}

static zt_status open_target(train_observer *observer)
{
    observer->words = !strcmp(observer->target, "console");
    if (observer->words) return open_descriptor(observer, "2");
    if (!strncmp(observer->target, "fd:", 3)) return open_descriptor(observer, observer->target + 3);
    if (!strcmp(observer->target, "-")) return open_descriptor(observer, "1");
    observer->sink = zt_sink_open(observer->cli->ctx, observer->target, observer->cli->force);
    return observer->sink ? ZT_OK : zt_ctx_status(observer->cli->ctx);
}

/* What a step told, at once: who reads need not wait for more. */
static zt_status send_text(train_observer *observer)
{
    if (observer->sink) return zt_sink_write(observer->sink, observer->text.data, observer->text.len);
    zt_progress_clear(observer->cli); /* the descriptor may be the terminal's */
    bool well = fwrite(observer->text.data, 1, observer->text.len, observer->stream) == observer->text.len;
    if (well && !fflush(observer->stream)) return ZT_OK;
    return zt_fail(observer->cli->ctx, ZT_EIO, "%s: cannot be written: %s", observer->target, strerror(errno));
}

/* ---- events ---------------------------------------------------------------------------------- */

static void put_number(zt_str *text, const char *key, float number)
{
    if (isfinite(number))
        zt_str_printf(text, "\"%s\":%.9g,", key, (double)number);
    else
        zt_str_printf(text, "\"%s\":null,", key);
}

static void put_json(train_observer *observer, const zt_nn_layer *layer, const char *type, const zt_nn_stats *stats,
                     uint64_t step)
{
    zt_str *text = &observer->text;
    zt_str_printf(text,
                  "{\"mode\":\"%s\",\"type\":\"%s\",\"z\":%" PRId64 ",\"y\":%" PRId64 ",\"x\":%" PRId64 ",\"l\":%" PRId64
                  ",\"layer_type\":%d,\"stats\":{",
                  observer->mode, type, layer->place[0], layer->place[1], layer->place[2], layer->place[3], (int)layer->kind);
    put_number(text, "avg", stats->avg);
    put_number(text, "max", stats->max);
    put_number(text, "min", stats->min);
    zt_str_printf(text, "\"active\":%" PRId64 ",\"total\":%" PRId64 "},\"step_count\":%" PRIu64 ",\"model_id\":\"%s\"}\n",
                  stats->active, stats->total, step, zt_nn_id(observer->learner->network));
}

static void put_words(train_observer *observer, const zt_nn_layer *layer, const char *type, const zt_nn_stats *stats,
                      uint64_t step)
{
    zt_str_printf(&observer->text,
                  "step %" PRIu64 " %s (%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ") %s: "
                  "avg=%.4g max=%.4g min=%.4g active=%" PRId64 "/%" PRId64 "\n",
                  step, type, layer->place[0], layer->place[1], layer->place[2], layer->place[3], zt_nn_kind_name(layer->kind),
                  (double)stats->avg, (double)stats->max, (double)stats->min, stats->active, stats->total);
}

static void put_event(train_observer *observer, int index, const char *type, const void *values, int64_t rows, uint64_t step)
{
    zt_nn_stats stats = zt_nn_stats_of(values, rows * observer->per_row[index]);
    (observer->words ? put_words : put_json)(observer, observer->learner->observed[index].layer, type, &stats, step);
}

/* Forward in the layers' order, backward in the other. */
zt_status train_observer_tell(train_observer *observer, int64_t rows, uint64_t step)
{
    int outputs = zt_prog_n_outputs(observer->learner->forward);
    zt_str_clear(&observer->text);
    for (int i = 0; i < observer->learner->observed_count; i++)
        put_event(observer, i, "forward", observer->out[observer->learner->observed[i].output], rows, step);
    for (int i = observer->learner->observed_count - 1; i >= 0 && observer->n_watched; i--)
        put_event(observer, i, "backward", observer->out[outputs + observer->gradient[i]], rows, step);
    zt_status status = zt_ctx_status(observer->cli->ctx);
    return status ? status : send_text(observer);
}

zt_status train_observer_end(train_observer *observer) { return observer->sink ? zt_sink_commit(observer->sink) : ZT_OK; }

/* ---- opened ---------------------------------------------------------------------------------- */

/* A layer that gives what it takes has the value of the one before. */
static void watch_layer(train_observer *observer)
{
    for (int observed_index = 0; observed_index < observer->learner->observed_count; observed_index++) {
        int value = zt_prog_output(observer->learner->forward, observer->learner->observed[observed_index].output)->value, k = 0;
        while (k < observer->n_watched && observer->watched[k] != value) k++;
        if (k == observer->n_watched) observer->watched[observer->n_watched++] = value;
        observer->gradient[observed_index] = k;
    }
}

static zt_status make_room(train_observer *observer, int64_t batch)
{
    const train_learner *learner = observer->learner;
    zt_binding binding = {"n", batch};
    zt_bound *bound = zt_prog_bind(learner->forward, &binding, 1);
    zt_status status = bound ? ZT_OK : zt_ctx_status(observer->cli->ctx);
    int outputs = zt_prog_n_outputs(learner->forward);
    for (int observed_index = 0; observed_index < learner->observed_count && !status; observed_index++) {
        const zt_type *type = &bound->type[zt_prog_output(learner->forward, learner->observed[observed_index].output)->value];
        void **forward = &observer->out[learner->observed[observed_index].output],
             **back = &observer->out[outputs + observer->gradient[observed_index]];
        observer->per_row[observed_index] = zt_type_count(type) / batch;
        *forward = zt_alloc(observer->cli->ctx, zt_type_bytes(type) + 1);
        if (observer->n_watched && !*back) *back = zt_alloc(observer->cli->ctx, zt_type_bytes(type) + 1);
        if (!*forward || (observer->n_watched && !*back)) status = ZT_ENOMEM;
    }
    zt_bound_free(bound);
    return status;
}

train_observer *train_observer_open(const train_learner *learner, const char *target, const char *mode, bool backward,
                                    int64_t batch)
{
    zt_ctx *ctx = learner->cli->ctx;
    size_t length = (size_t)learner->observed_count + 1;
    train_observer *observer = zt_calloc(ctx, 1, sizeof *observer);
    if (!observer) return NULL;
    *observer = (train_observer){.cli = learner->cli, .learner = learner, .mode = mode, .target = target};
    zt_str_init(&observer->text, ctx);
    observer->watched = zt_calloc(ctx, length, sizeof *observer->watched);
    observer->gradient = zt_calloc(ctx, length, sizeof *observer->gradient);
    observer->per_row = zt_calloc(ctx, length, sizeof *observer->per_row);
    observer->out = zt_calloc(ctx, length + (size_t)zt_prog_n_outputs(learner->forward), sizeof *observer->out);
    zt_status status = observer->watched && observer->gradient && observer->per_row && observer->out ? ZT_OK : ZT_ENOMEM;
    if (!status && !learner->network) status = zt_fail(ctx, ZT_EUSAGE, "--observe needs a network with layers, not a program");
    if (!status && backward) watch_layer(observer);
    if (!status) status = make_room(observer, batch);
    if (!status) status = open_target(observer);
    if (!status) return observer;
    train_observer_free(observer);
    return NULL;
}

void train_observer_free(train_observer *observer)
{
    if (!observer) return;
    zt_ctx *ctx = observer->cli->ctx;
    int all = zt_prog_n_outputs(observer->learner->forward) + observer->n_watched;
    for (int i = 0; observer->out && i < all; i++) zt_free(ctx, observer->out[i]);
    zt_sink_close(observer->sink);
    if (observer->stream) fclose(observer->stream);
    zt_str_fini(&observer->text);
    zt_free(ctx, observer->watched);
    zt_free(ctx, observer->gradient);
    zt_free(ctx, observer->per_row);
    zt_free(ctx, observer->out);
    zt_free(ctx, observer);
}

void *const *train_observer_out(const train_observer *observer) { return observer->out; }

const int *train_observer_watched(const train_observer *observer, int *count_out)
{
    *count_out = observer->n_watched;
    return observer->watched;
}
