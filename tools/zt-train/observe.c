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
    const train_learner *l;
    const char *mode;
    bool words;     /* lines for eyes, not JSON */
    zt_sink *sink;  /* a file; or */
    FILE *stream;   /* a descriptor */
    const char *to; /* for messages */
    int *watched;   /* values of forward, each once */
    int n_watched;
    int *gradient;    /* [seen]: its entry of watched */
    int64_t *per_row; /* [seen]: numbers */
    void **out; /* [outputs of forward + watched]: room for a batch, NULL where nothing is seen */
    zt_str text;      /* the events of a step */
};

/* ---- where events go ------------------------------------------------------------------------- */

/* "fd:3" */
static zt_status open_descriptor(train_observer *b, const char *number)
{
    int64_t fd;
    if (!zt_parse_i64(number, &fd) || fd < 0 || fd > INT32_MAX)
        return zt_fail(b->cli->ctx, ZT_EUSAGE, "--observe '%s': fd: wants a number", b->to);
    int flags = fcntl((int)fd, F_GETFL), own = -1;
    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) own = fcntl((int)fd, F_DUPFD_CLOEXEC, 3);
    b->stream = own < 0 ? NULL : fdopen(own, "w");
    if (b->stream) return ZT_OK;
    if (own >= 0) close(own);
    return zt_fail(b->cli->ctx, ZT_ECREATE, "%s: is not open for writing", b->to);
}

static zt_status open_target(train_observer *b)
{
    b->words = !strcmp(b->to, "console");
    if (b->words) return open_descriptor(b, "2");
    if (!strncmp(b->to, "fd:", 3)) return open_descriptor(b, b->to + 3);
    if (!strcmp(b->to, "-")) return open_descriptor(b, "1");
    b->sink = zt_sink_open(b->cli->ctx, b->to, b->cli->force);
    return b->sink ? ZT_OK : zt_ctx_status(b->cli->ctx);
}

/* What a step told, at once: who reads need not wait for more. */
static zt_status send(train_observer *b)
{
    if (b->sink) return zt_sink_write(b->sink, b->text.data, b->text.len);
    zt_progress_clear(b->cli); /* the descriptor may be the terminal's */
    bool well = fwrite(b->text.data, 1, b->text.len, b->stream) == b->text.len;
    if (well && !fflush(b->stream)) return ZT_OK;
    return zt_fail(b->cli->ctx, ZT_EIO, "%s: cannot be written: %s", b->to, strerror(errno));
}

/* ---- events ---------------------------------------------------------------------------------- */

static void put_number(zt_str *s, const char *key, float x)
{
    if (isfinite(x)) zt_str_printf(s, "\"%s\":%.9g,", key, (double)x);
    else zt_str_printf(s, "\"%s\":null,", key);
}

static void put_json(train_observer *b, const zt_nn_layer *l, const char *type,
                     const zt_nn_stats *t, uint64_t step)
{
    zt_str *s = &b->text;
    zt_str_printf(s,
                  "{\"mode\":\"%s\",\"type\":\"%s\",\"z\":%" PRId64 ",\"y\":%" PRId64
                  ",\"x\":%" PRId64 ",\"l\":%" PRId64 ",\"layer_type\":%d,\"stats\":{",
                  b->mode, type, l->place[0], l->place[1], l->place[2], l->place[3], (int)l->kind);
    put_number(s, "avg", t->avg);
    put_number(s, "max", t->max);
    put_number(s, "min", t->min);
    zt_str_printf(s, "\"active\":%" PRId64 ",\"total\":%" PRId64 "},\"step_count\":%" PRIu64
                  ",\"model_id\":\"%s\"}\n", t->active, t->total, step, zt_nn_id(b->l->nn));
}

static void put_words(train_observer *b, const zt_nn_layer *l, const char *type,
                      const zt_nn_stats *t, uint64_t step)
{
    zt_str_printf(&b->text,
                  "step %" PRIu64 " %s (%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ") %s: "
                  "avg=%.4g max=%.4g min=%.4g active=%" PRId64 "/%" PRId64 "\n",
                  step, type, l->place[0], l->place[1], l->place[2], l->place[3],
                  zt_nn_kind_name(l->kind), (double)t->avg, (double)t->max, (double)t->min,
                  t->active, t->total);
}

static void put_event(train_observer *b, int i, const char *type, const void *values, int64_t rows,
                      uint64_t step)
{
    zt_nn_stats t = zt_nn_stats_of(values, rows * b->per_row[i]);
    (b->words ? put_words : put_json)(b, b->l->seen[i].layer, type, &t, step);
}

/* Forward in the layers' order, backward in the other. */
zt_status train_observer_tell(train_observer *b, int64_t rows, uint64_t step)
{
    int outputs = zt_prog_n_outputs(b->l->forward);
    zt_str_clear(&b->text);
    for (int i = 0; i < b->l->n_seen; i++)
        put_event(b, i, "forward", b->out[b->l->seen[i].output], rows, step);
    for (int i = b->l->n_seen - 1; i >= 0 && b->n_watched; i--)
        put_event(b, i, "backward", b->out[outputs + b->gradient[i]], rows, step);
    zt_status s = zt_ctx_status(b->cli->ctx);
    return s ? s : send(b);
}

zt_status train_observer_end(train_observer *b)
{
    return b->sink ? zt_sink_commit(b->sink) : ZT_OK;
}

/* ---- opened ---------------------------------------------------------------------------------- */

/* A layer that gives what it takes has the value of the one before. */
static void watch(train_observer *b)
{
    for (int i = 0; i < b->l->n_seen; i++) {
        int v = zt_prog_output(b->l->forward, b->l->seen[i].output)->value, k = 0;
        while (k < b->n_watched && b->watched[k] != v) k++;
        if (k == b->n_watched) b->watched[b->n_watched++] = v;
        b->gradient[i] = k;
    }
}

static zt_status make_room(train_observer *b, int64_t batch)
{
    const train_learner *l = b->l;
    zt_binding n = {"n", batch};
    zt_bound *bound = zt_prog_bind(l->forward, &n, 1);
    zt_status s = bound ? ZT_OK : zt_ctx_status(b->cli->ctx);
    int outputs = zt_prog_n_outputs(l->forward);
    for (int i = 0; i < l->n_seen && !s; i++) {
        const zt_type *t = &bound->type[zt_prog_output(l->forward, l->seen[i].output)->value];
        void **forward = &b->out[l->seen[i].output], **back = &b->out[outputs + b->gradient[i]];
        b->per_row[i] = zt_type_count(t) / batch;
        *forward = zt_alloc(b->cli->ctx, zt_type_bytes(t) + 1);
        if (b->n_watched && !*back) *back = zt_alloc(b->cli->ctx, zt_type_bytes(t) + 1);
        if (!*forward || (b->n_watched && !*back)) s = ZT_ENOMEM;
    }
    zt_bound_free(bound);
    return s;
}

train_observer *train_observer_open(const train_learner *l, const char *to, const char *mode,
                                    bool backward, int64_t batch)
{
    zt_ctx *ctx = l->cli->ctx;
    size_t n = (size_t)l->n_seen + 1;
    train_observer *b = zt_calloc(ctx, 1, sizeof *b);
    if (!b) return NULL;
    *b = (train_observer){.cli = l->cli, .l = l, .mode = mode, .to = to};
    zt_str_init(&b->text, ctx);
    b->watched = zt_calloc(ctx, n, sizeof *b->watched);
    b->gradient = zt_calloc(ctx, n, sizeof *b->gradient);
    b->per_row = zt_calloc(ctx, n, sizeof *b->per_row);
    b->out = zt_calloc(ctx, n + (size_t)zt_prog_n_outputs(l->forward), sizeof *b->out);
    zt_status s = b->watched && b->gradient && b->per_row && b->out ? ZT_OK : ZT_ENOMEM;
    if (!s && !l->nn)
        s = zt_fail(ctx, ZT_EUSAGE, "--observe wants a network of layers, which this is not");
    if (!s && backward) watch(b);
    if (!s) s = make_room(b, batch);
    if (!s) s = open_target(b);
    if (!s) return b;
    train_observer_free(b);
    return NULL;
}

void train_observer_free(train_observer *b)
{
    if (!b) return;
    zt_ctx *ctx = b->cli->ctx;
    int all = zt_prog_n_outputs(b->l->forward) + b->n_watched;
    for (int i = 0; b->out && i < all; i++) zt_free(ctx, b->out[i]);
    zt_sink_close(b->sink);
    if (b->stream) fclose(b->stream);
    zt_str_fini(&b->text);
    zt_free(ctx, b->watched);
    zt_free(ctx, b->gradient);
    zt_free(ctx, b->per_row);
    zt_free(ctx, b->out);
    zt_free(ctx, b);
}

void *const *train_observer_out(const train_observer *b) { return b->out; }

const int *train_observer_watched(const train_observer *b, int *n)
{
    *n = b->n_watched;
    return b->watched;
}
