/* track.h - adaptation: the accuracy of predictions over a stream of samples, in windows, and how it recovers after the task
 * changes (openfluke/loom's AdaptationTracker, with the number of samples as its clock).
 *
 *     zt_tracker *t = zt_tracker_new(ctx, 100, (const int64_t[]){1000}, 1);     // task 1 begins with sample 1000
 *     zt_tracker_record(t, correct);                                           // for each sample, in order
 *     zt_track_change change = zt_tracker_change(t, 0);
 *     zt_tracker_free(t);
 */
#ifndef ZT_TRAIN_TRACK_H
#define ZT_TRAIN_TRACK_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_tracker zt_tracker;

/* Windows of `window` samples, at least 1. changes[change_count]: the samples with which tasks 1, 2 ... begin, above 0 and
 * rising; copied. NULL with ZT_EUSAGE or ZT_ENOMEM. */
zt_tracker *zt_tracker_new(zt_ctx *ctx, int64_t window, const int64_t *changes, int change_count);
void zt_tracker_free(zt_tracker *tracker); /* NULL: no effect */
/* The next sample was predicted, correctly or not. ZT_ENOMEM. */
zt_status zt_tracker_record(zt_tracker *tracker, bool correct);

typedef struct zt_track_window {
    int64_t outputs, correct; /* the last window may have fewer outputs than the others */
    int task;                 /* of its last sample */
} zt_track_window;
int64_t zt_tracker_windows(const zt_tracker *tracker);                       /* windows with an output */
zt_track_window zt_tracker_window(const zt_tracker *tracker, int64_t index); /* all 0: out of range */
double zt_track_accuracy(const zt_track_window *window);                     /* in per cent; 0 without outputs */
int64_t zt_tracker_outputs(const zt_tracker *tracker);                       /* samples so far */
double zt_tracker_accuracy(const zt_tracker *tracker);                       /* mean over the windows, in per cent */

typedef struct zt_track_change {
    int64_t at;                         /* sample with which the task begins */
    int64_t pre, post;                  /* the last window before the change and the first one after it; -1: none */
    double pre_accuracy, post_accuracy; /* of these, in per cent; 0 without */
    int64_t recovery; /* samples from the change to the end of the first window with at least 0.9 of pre_accuracy; -1: none
                               * until the next change */
} zt_track_change;
int zt_tracker_changes(const zt_tracker *tracker); /* changes that the stream has reached */
/* All 0: index is out of range. */
zt_track_change zt_tracker_change(const zt_tracker *tracker, int index);

#ifdef __cplusplus
}
#endif
#endif
