/* observe.h - private to zt-train: events of layers, and where they go.
 *
 *     observe.c           what each layer gave in a step, and the gradient of the loss by it, as events
 *     observe_window.c    events of several steps as one           --observe-window
 *     observe_write.c     to a file, a descriptor, or the terminal  --observe FILE|fd:N|console
 *     observe_http.c      to an HTTP server                         --observe http://...
 *     report.c            to a page that shows the run              --report DIR
 */
#ifndef ZT_TRAIN_TOOL_OBSERVE_H
#define ZT_TRAIN_TOOL_OBSERVE_H

#include "tools/zt-train/train_tool.h"

typedef struct train_event {
    const char *mode; /* "train" or "eval" */
    bool backward;    /* the gradient of the loss by the layer's output; else the output */
    const zt_nn_layer *layer;
    int index; /* of the layer among those that are observed */
    zt_nn_stats stats;
    uint64_t step;        /* from 1; of a window, the last */
    uint64_t window;      /* steps in the event */
    const char *model_id; /* the network's id at the start */
} train_event;

/* Where events go. Each function may be NULL. */
typedef struct train_target {
    void *user;
    zt_status (*tell)(void *user, const train_event *events, int count); /* those of a step, or of a window */
    zt_status (*end)(void *user);                                        /* the run ended well */
    void (*close)(void *user);
} train_target;

/* A line of JSON with the members of openfluke/loom's PolyLayerEvent, and `window` where that is more than one step. */
void train_event_put_json(zt_str *out, const train_event *event);

/* Opens the target of --observe: "console", "fd:3", "-", a file, or a URL. */
zt_status train_target_open(zt_cli *cli, const char *name, train_target *target);
bool train_is_url(const char *name);
zt_status train_http_open(zt_cli *cli, const char *url, train_target *target);

train_target train_report_target(train_report *report);

/* Sums of events over `steps` steps: rows of [backward][layer]. */
typedef struct train_window {
    uint64_t steps, held; /* held: steps so far */
    train_event *events;
    double *avg_sums; /* of averages times totals */
    int count, capacity;
} train_window;
zt_status train_window_open(zt_ctx *ctx, uint64_t steps, int capacity, train_window *window);
void train_window_close(zt_ctx *ctx, train_window *window);
/* Adds the events of a step. true: the window is full; its events are valid until the next call. */
bool train_window_add(train_window *window, const train_event *events, int count);
/* The events of a window that is not full, at the end of a run; 0: none. */
int train_window_flush(train_window *window);

#endif
