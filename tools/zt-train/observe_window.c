/* observe_window.c - events of several steps as one: means of averages, largest and smallest values, sums of counts. */
#include "tools/zt-train/observe.h"

zt_status train_window_open(zt_ctx *ctx, uint64_t steps, int capacity, train_window *window)
{
    *window = (train_window){.steps = steps, .capacity = capacity};
    window->events = zt_calloc(ctx, (size_t)capacity + 1, sizeof *window->events);
    window->avg_sums = zt_calloc(ctx, (size_t)capacity + 1, sizeof *window->avg_sums);
    return window->events && window->avg_sums ? ZT_OK : ZT_ENOMEM;
}

void train_window_close(zt_ctx *ctx, train_window *window)
{
    zt_free(ctx, window->events);
    zt_free(ctx, window->avg_sums);
}

/* A NaN stays one. */
static float join(float held, float other, bool larger)
{
    if (isnan(held) || isnan(other)) return NAN;
    return (other > held) == larger ? other : held;
}

static void add_event(train_event *held, double *avg_sum, const train_event *event)
{
    held->stats.max = join(held->stats.max, event->stats.max, true);
    held->stats.min = join(held->stats.min, event->stats.min, false);
    held->stats.active += event->stats.active;
    held->stats.total += event->stats.total;
    held->step = event->step;
    held->window++;
    *avg_sum += (double)event->stats.avg * (double)event->stats.total;
    held->stats.avg = held->stats.total ? (float)(*avg_sum / (double)held->stats.total) : 0;
}

bool train_window_add(train_window *window, const train_event *events, int count)
{
    if (window->held == window->steps) window->held = 0;
    for (int i = 0; i < count && i < window->capacity; i++) {
        if (window->held) {
            add_event(&window->events[i], &window->avg_sums[i], &events[i]);
            continue;
        }
        window->events[i] = events[i];
        window->avg_sums[i] = (double)events[i].stats.avg * (double)events[i].stats.total;
    }
    window->count = count < window->capacity ? count : window->capacity;
    return ++window->held == window->steps;
}

int train_window_flush(train_window *window)
{
    bool full = window->held == window->steps;
    window->held = window->steps;
    return full ? 0 : window->count;
}
