/* track.c - adaptation over a stream: windows, changes of the task, recovery. */
#include "lib/zt/train.h"
#include "tests/common/tap.h"

#include <math.h>

static void record(zt_tracker *tracker, int count, int correct)
{
    for (int i = 0; i < count; i++) zt_tracker_record(tracker, i < correct);
}

static void test_stream(zt_ctx *ctx)
{
    zt_tracker *t = zt_tracker_new(ctx, 10, (const int64_t[]){20, 65, 900}, 3);
    record(t, 10, 5);
    record(t, 10, 10); /* task 1 begins after this window */
    record(t, 10, 2);
    record(t, 10, 8);
    record(t, 10, 9);
    record(t, 10, 10);
    record(t, 5, 5); /* task 2 begins in this window */
    record(t, 5, 0);
    record(t, 10, 1);
    record(t, 3, 1);
    ok(zt_tracker_outputs(t) == 83 && zt_tracker_windows(t) == 9 && zt_tracker_changes(t) == 2, "outputs, windows, changes");
    zt_track_window first = zt_tracker_window(t, 0), mixed = zt_tracker_window(t, 6), last = zt_tracker_window(t, 8);
    ok(first.outputs == 10 && first.correct == 5 && first.task == 0 && zt_track_accuracy(&first) == 50, "a window");
    ok(mixed.task == 2 && mixed.correct == 5 && last.outputs == 3 && last.task == 2, "a window has the task of its last sample");
    ok(zt_tracker_window(t, 9).outputs == 0 && zt_tracker_window(t, -1).outputs == 0, "no such window");
    double mean = (50 + 100 + 20 + 80 + 90 + 100 + 50 + 10 + 100.0 / 3) / 9;
    ok(fabs(zt_tracker_accuracy(t) - mean) < 1e-12, "the mean is that of the windows");
    zt_track_change a = zt_tracker_change(t, 0), b = zt_tracker_change(t, 1);
    ok(a.at == 20 && a.pre == 1 && a.post == 2 && a.pre_accuracy == 100 && a.post_accuracy == 20, "before and after a change");
    ok(a.recovery == 30, "recovered with the window of nine tenths: %d samples", (int)a.recovery);
    ok(b.at == 65 && b.pre == 5 && b.post == 7 && b.post_accuracy == 10 && b.recovery == -1,
       "a change within a window; no recovery");
    ok(zt_tracker_change(t, 2).at == 0, "a change that was not reached");
    zt_tracker_free(t);
}

static void test_edges(zt_ctx *ctx)
{
    zt_tracker *t = zt_tracker_new(ctx, 10, (const int64_t[]){5, 12}, 2);
    record(t, 13, 13);
    zt_track_change a = zt_tracker_change(t, 0), b = zt_tracker_change(t, 1);
    ok(a.pre == -1 && a.post == 1 && a.pre_accuracy == 0 && a.recovery == -1,
       "the next change came before the window after this one ended");
    ok(b.pre == 0 && b.post == -1 && b.recovery == -1, "no window begins after the change");
    zt_tracker_free(t);
    ok(!zt_tracker_new(ctx, 0, NULL, 0) && zt_ctx_status(ctx) == ZT_EUSAGE, "a window of 0 samples");
    zt_ctx_clear(ctx);
    const int64_t wrong[3][2] = {{0, 5}, {5, 5}, {-1, 2}};
    for (int i = 0; i < 3; i++) {
        bool refused = !zt_tracker_new(ctx, 1, wrong[i], 2) && zt_ctx_status(ctx) == ZT_EUSAGE;
        ok(refused, "refused: %s", zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
    }
    for (uint64_t fail = 1; fail <= 2; fail++) {
        zt_mem_fail(ctx, fail, false);
        ok(!zt_tracker_new(ctx, 1, wrong[0] + 1, 1), "allocation %d fails", (int)fail);
        zt_mem_fail(ctx, 0, false);
        zt_ctx_clear(ctx);
    }
    t = zt_tracker_new(ctx, 1, NULL, 0);
    zt_mem_fail(ctx, 1, false);
    ok(zt_tracker_record(t, true) == ZT_ENOMEM && zt_tracker_outputs(t) == 0, "no memory for a window");
    zt_mem_fail(ctx, 0, false);
    zt_ctx_clear(ctx);
    record(t, 1000, 500);
    ok(zt_tracker_windows(t) == 1000 && zt_tracker_accuracy(t) == 50 && !zt_tracker_changes(t), "a thousand windows");
    zt_tracker_free(t);
    ok(zt_tracker_outputs(NULL) == 0 && zt_tracker_accuracy(NULL) == 0 && zt_tracker_record(NULL, true) == ZT_EUSAGE,
       "no tracker");
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    test_stream(ctx);
    test_edges(ctx);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
