/* observe.c - owns --observe: what each layer of the grid gave in a step, and the gradient of the loss by it, as events with the
 * members of openfluke/loom's PolyLayerEvent. */
#include "tools/zt-train/observe.h"

enum { MOST_TARGETS = 2 };

struct train_observer {
    zt_cli *cli;
    const train_learner *learner;
    const char *mode;
    train_target targets[MOST_TARGETS];
    int target_count;
    train_window window;
    train_event *events; /* those of a step: [2 * seen] */
    int *watched;        /* values of forward, each once */
    int n_watched;
    int *gradient;    /* [seen]: its entry of watched */
    int64_t *per_row; /* [seen]: numbers */
    void **out;       /* [outputs of forward + watched]: room for a batch, NULL where nothing is seen */
};

/* ---- events ------------------------------------------------------------------------------------ */

static train_event make_event(const train_observer *observer, int index, bool backward, int64_t rows, uint64_t step)
{
    const train_learner *learner = observer->learner;
    int slot = backward ? zt_prog_n_outputs(learner->forward) + observer->gradient[index] : learner->observed[index].output;
    return (train_event){.mode = observer->mode,
                         .backward = backward,
                         .layer = learner->observed[index].layer,
                         .index = index,
                         .stats = zt_nn_stats_of(observer->out[slot], rows * observer->per_row[index]),
                         .step = step,
                         .window = 1,
                         .model_id = zt_nn_id(learner->network)};
}

/* Forward in the layers' order, backward in the other. */
static int make_events(train_observer *observer, int64_t rows, uint64_t step)
{
    int count = 0;
    for (int i = 0; i < observer->learner->observed_count; i++)
        observer->events[count++] = make_event(observer, i, false, rows, step);
    for (int i = observer->learner->observed_count - 1; i >= 0 && observer->n_watched; i--)
        observer->events[count++] = make_event(observer, i, true, rows, step);
    return count;
}

static zt_status tell_targets(train_observer *observer, int count)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < observer->target_count && !status && count; i++) {
        const train_target *target = &observer->targets[i];
        if (target->tell) status = target->tell(target->user, observer->window.events, count);
    }
    return status;
}

zt_status train_observer_tell(train_observer *observer, int64_t rows, uint64_t step)
{
    int count = make_events(observer, rows, step);
    return train_window_add(&observer->window, observer->events, count) ? tell_targets(observer, count) : ZT_OK;
}

zt_status train_observer_end(train_observer *observer)
{
    zt_status status = tell_targets(observer, train_window_flush(&observer->window));
    for (int i = 0; i < observer->target_count && !status; i++)
        if (observer->targets[i].end) status = observer->targets[i].end(observer->targets[i].user);
    return status;
}

/* ---- opening ----------------------------------------------------------------------------------- */

/* A layer that gives what it takes has the value of the one before. */
static void watch_layers(train_observer *observer)
{
    const train_learner *learner = observer->learner;
    for (int i = 0; i < learner->observed_count; i++) {
        int value = zt_prog_output(learner->forward, learner->observed[i].output)->value, k = 0;
        while (k < observer->n_watched && observer->watched[k] != value) k++;
        if (k == observer->n_watched) observer->watched[observer->n_watched++] = value;
        observer->gradient[i] = k;
    }
}

static zt_status make_room(train_observer *observer, int64_t batch)
{
    const train_learner *learner = observer->learner;
    zt_binding binding = {"n", batch};
    zt_bound *bound = zt_prog_bind(learner->forward, &binding, 1);
    zt_status status = bound ? ZT_OK : zt_ctx_status(observer->cli->ctx);
    int outputs = zt_prog_n_outputs(learner->forward);
    for (int i = 0; i < learner->observed_count && !status; i++) {
        const zt_type *type = &bound->type[zt_prog_output(learner->forward, learner->observed[i].output)->value];
        void **forward = &observer->out[learner->observed[i].output], **back = &observer->out[outputs + observer->gradient[i]];
        observer->per_row[i] = zt_type_count(type) / batch;
        *forward = zt_alloc(observer->cli->ctx, zt_type_bytes(type) + 1);
        if (observer->n_watched && !*back) *back = zt_alloc(observer->cli->ctx, zt_type_bytes(type) + 1);
        if (!*forward || (observer->n_watched && !*back)) status = ZT_ENOMEM;
    }
    zt_bound_free(bound);
    return status;
}

static zt_status open_targets(train_observer *observer, const train_options *options, train_report *report)
{
    zt_status status = ZT_OK;
    if (report) observer->targets[observer->target_count++] = train_report_target(report);
    if (options->observe)
        status = train_target_open(observer->cli, options->observe, &observer->targets[observer->target_count++]);
    return status;
}

train_observer *train_observer_open(const train_learner *learner, const train_options *options, train_report *report,
                                    const char *mode, bool backward, int64_t batch)
{
    zt_ctx *ctx = learner->cli->ctx;
    size_t length = (size_t)learner->observed_count + 1;
    train_observer *observer = zt_calloc(ctx, 1, sizeof *observer);
    if (!observer) return NULL;
    *observer = (train_observer){.cli = learner->cli, .learner = learner, .mode = mode};
    observer->events = zt_calloc(ctx, 2 * length, sizeof *observer->events);
    observer->watched = zt_calloc(ctx, length, sizeof *observer->watched);
    observer->gradient = zt_calloc(ctx, length, sizeof *observer->gradient);
    observer->per_row = zt_calloc(ctx, length, sizeof *observer->per_row);
    observer->out = zt_calloc(ctx, length + (size_t)zt_prog_n_outputs(learner->forward), sizeof *observer->out);
    bool room = observer->events && observer->watched && observer->gradient && observer->per_row && observer->out;
    zt_status status = room ? train_window_open(ctx, (uint64_t)options->window, (int)(2 * length), &observer->window) : ZT_ENOMEM;
    if (!status && !learner->network) status = zt_fail(ctx, ZT_EUSAGE, "--observe needs a network with layers, not a program");
    if (!status && backward) watch_layers(observer);
    if (!status) status = make_room(observer, batch);
    if (!status) status = open_targets(observer, options, report);
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
    for (int i = 0; i < observer->target_count; i++)
        if (observer->targets[i].close) observer->targets[i].close(observer->targets[i].user);
    train_window_close(ctx, &observer->window);
    zt_free(ctx, observer->events);
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
