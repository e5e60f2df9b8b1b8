/* track.c - owns the accuracy of a stream in windows, and its recovery after changes of the task. */
#include "lib/train/track.h"
#include "lib/base/require.h"

#include <string.h>

#define RECOVERED 0.9 /* of the accuracy before the change */

struct zt_tracker {
    zt_ctx *ctx;
    int64_t window, outputs, capacity; /* capacity: of windows */
    zt_track_window *windows;
    int64_t *changes;
    int change_count, task;
};

zt_tracker *zt_tracker_new(zt_ctx *ctx, int64_t window, const int64_t *changes, int change_count)
{
    ZT_REQUIRE(ctx, window > 0 && change_count >= 0 && (changes || !change_count), NULL);
    for (int i = 0; i < change_count; i++) {
        if (changes[i] > (i ? changes[i - 1] : 0)) continue;
        zt_fail(ctx, ZT_EUSAGE, "a task cannot begin with sample %lld: expected rising numbers above 0", (long long)changes[i]);
        return NULL;
    }
    zt_tracker *tracker = zt_calloc(ctx, 1, sizeof *tracker);
    if (!tracker) return NULL;
    *tracker = (zt_tracker){.ctx = ctx, .window = window, .change_count = change_count};
    tracker->changes = zt_calloc(ctx, (size_t)change_count + 1, sizeof *tracker->changes);
    if (tracker->changes) {
        if (change_count) memcpy(tracker->changes, changes, (size_t)change_count * sizeof *changes);
        return tracker;
    }
    zt_tracker_free(tracker);
    return NULL;
}

void zt_tracker_free(zt_tracker *tracker)
{
    if (!tracker) return;
    zt_free(tracker->ctx, tracker->windows);
    zt_free(tracker->ctx, tracker->changes);
    zt_free(tracker->ctx, tracker);
}

zt_status zt_tracker_record(zt_tracker *tracker, bool correct)
{
    if (!tracker) return ZT_EUSAGE;
    int64_t index = tracker->outputs / tracker->window;
    if (index == tracker->capacity) {
        int64_t capacity = tracker->capacity ? 2 * tracker->capacity : 64;
        zt_track_window *windows = zt_realloc(tracker->ctx, tracker->windows, (size_t)capacity * sizeof *windows);
        if (!windows) return ZT_ENOMEM;
        memset(windows + tracker->capacity, 0, (size_t)(capacity - tracker->capacity) * sizeof *windows);
        tracker->windows = windows;
        tracker->capacity = capacity;
    }
    while (tracker->task < tracker->change_count && tracker->outputs >= tracker->changes[tracker->task]) tracker->task++;
    tracker->windows[index].outputs++;
    tracker->windows[index].correct += correct;
    tracker->windows[index].task = tracker->task;
    tracker->outputs++;
    return ZT_OK;
}

int64_t zt_tracker_windows(const zt_tracker *tracker)
{
    return tracker ? (tracker->outputs + tracker->window - 1) / tracker->window : 0;
}

zt_track_window zt_tracker_window(const zt_tracker *tracker, int64_t index)
{
    return index >= 0 && index < zt_tracker_windows(tracker) ? tracker->windows[index] : (zt_track_window){0};
}

double zt_track_accuracy(const zt_track_window *window)
{
    return window && window->outputs ? 100 * (double)window->correct / (double)window->outputs : 0;
}

int64_t zt_tracker_outputs(const zt_tracker *tracker) { return tracker ? tracker->outputs : 0; }

double zt_tracker_accuracy(const zt_tracker *tracker)
{
    double sum = 0;
    int64_t count = zt_tracker_windows(tracker);
    for (int64_t i = 0; i < count; i++) sum += zt_track_accuracy(&tracker->windows[i]);
    return count ? sum / (double)count : 0;
}

int zt_tracker_changes(const zt_tracker *tracker) { return tracker ? tracker->task : 0; }

zt_track_change zt_tracker_change(const zt_tracker *tracker, int index)
{
    if (index < 0 || index >= zt_tracker_changes(tracker)) return (zt_track_change){0};
    int64_t at = tracker->changes[index], count = zt_tracker_windows(tracker);
    int64_t end = index + 1 < tracker->change_count ? tracker->changes[index + 1] : INT64_MAX;
    zt_track_change change = {
        .at = at, .pre = at / tracker->window - 1, .post = (at + tracker->window - 1) / tracker->window, .recovery = -1};
    if (change.post >= count) change.post = -1;
    zt_track_window pre = zt_tracker_window(tracker, change.pre), post = zt_tracker_window(tracker, change.post);
    change.pre_accuracy = zt_track_accuracy(&pre);
    change.post_accuracy = zt_track_accuracy(&post);
    for (int64_t i = change.post; i >= 0 && i < count && i * tracker->window + tracker->windows[i].outputs <= end; i++) {
        if (zt_track_accuracy(&tracker->windows[i]) < RECOVERED * change.pre_accuracy) continue;
        change.recovery = i * tracker->window + tracker->windows[i].outputs - at;
        break;
    }
    return change;
}
