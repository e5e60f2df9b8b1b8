/* track.c - owns --track: each sample is predicted before the step that learns it, and its place in the stream is remembered. */
#include "tools/zt-train/train_tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TASKS = 1000 };

struct train_tracking {
    train_learner *learner;
    const zt_samples *samples;
    zt_tracker *tracker;
    train_output output;
    float *room; /* a batch of the output */
};

/* --tasks: "1000,2000" */
static zt_status read_tasks(zt_ctx *ctx, const char *text, int64_t *changes, int *count)
{
    char item[32], shown[96];
    for (*count = 0; text; (*count)++) {
        size_t length = strcspn(text, ",");
        snprintf(item, sizeof item, "%.*s", length < sizeof item ? (int)length : 0, text);
        if (*count == MAX_TASKS || !zt_parse_i64(item, &changes[*count]))
            return zt_fail(ctx, ZT_EUSAGE, "option '--tasks': '%s' is not a list of at most %d numbers of samples",
                           zt_escape(shown, sizeof shown, text, strlen(text)), MAX_TASKS);
        text = text[length] ? text + length + 1 : NULL;
    }
    return ZT_OK;
}

/* Predictions and targets must be of the same kind and number. */
static zt_status check_targets(const train_tracking *tracking)
{
    const zt_field *target = &tracking->samples->fields[tracking->samples->field_count - 1];
    int64_t count = zt_type_count(&target->row);
    const train_output *output = &tracking->output;
    bool values = target->row.dtype == ZT_F32 && count == output->count;
    bool classes = target->row.dtype == ZT_I32 && count == output->positions && output->classes > 1;
    if (values || classes) return ZT_OK;
    return zt_fail(
        tracking->learner->cli->ctx, ZT_EUSAGE,
        "--track cannot compare the program's output with its last input '%s': expected a class (i32) or a number (f32) "
        "for each",
        target->name);
}

train_tracking *train_track_open(train_learner *learner, const train_options *options, const zt_samples *samples)
{
    zt_ctx *ctx = learner->cli->ctx;
    int64_t changes[MAX_TASKS];
    int count;
    if (read_tasks(ctx, options->tasks, changes, &count)) return NULL;
    train_tracking *tracking = zt_calloc(ctx, 1, sizeof *tracking);
    if (!tracking) return NULL;
    *tracking = (train_tracking){.learner = learner, .samples = samples};
    tracking->tracker = zt_tracker_new(ctx, options->track, changes, count);
    if (tracking->tracker && !train_find_output(learner, samples->batch_size, &tracking->output) && !check_targets(tracking))
        tracking->room =
            zt_alloc_array(ctx, (size_t)samples->batch_size, (size_t)tracking->output.count * sizeof *tracking->room);
    if (tracking->room) return tracking;
    train_track_free(tracking);
    return NULL;
}

void train_track_free(train_tracking *tracking)
{
    if (!tracking) return;
    zt_ctx *ctx = tracking->learner->cli->ctx;
    zt_tracker_free(tracking->tracker);
    zt_free(ctx, tracking->room);
    zt_free(ctx, tracking);
}

void train_track_outputs(const train_tracking *tracking, void **out) { out[tracking->output.output] = tracking->room; }

/* Is the sample predicted: its class or classes, the largest of its numbers, or its one number within a tenth? */
static bool is_predicted(const train_tracking *tracking, int64_t sample, const float *outputs)
{
    const zt_field *target = &tracking->samples->fields[tracking->samples->field_count - 1];
    const char *bytes = target->data.data + (size_t)sample * target->bytes;
    int64_t count = zt_type_count(&target->row);
    if (target->row.dtype == ZT_F32) {
        double wanted = zt_prediction((const float *)(const void *)bytes, count);
        zt_deviation deviation = zt_deviation_of(wanted, zt_prediction(outputs, count));
        return count > 1 ? deviation.actual == wanted : deviation.bucket == 0;
    }
    for (int64_t i = 0; i < count; i++) {
        int32_t expected;
        memcpy(&expected, bytes + (size_t)i * sizeof expected, sizeof expected);
        if (zt_prediction(outputs + i * tracking->output.classes, tracking->output.classes) != (double)expected) return false;
    }
    return true;
}

zt_status train_track_step(train_tracking *tracking, int64_t rows)
{
    zt_status status = ZT_OK;
    int64_t first = zt_tracker_outputs(tracking->tracker) % tracking->samples->rows;
    for (int64_t row = 0; row < rows && !status; row++)
        status = zt_tracker_record(tracking->tracker,
                                   is_predicted(tracking, first + row, tracking->room + row * tracking->output.count));
    return status;
}

static void put_windows(const zt_tracker *tracker, zt_str *text)
{
    zt_str_puts(text, ",\"windows\":[");
    for (int64_t i = 0; i < zt_tracker_windows(tracker); i++) {
        zt_track_window window = zt_tracker_window(tracker, i);
        zt_str_printf(text, "%s{\"window_index\":%" PRId64 ",\"outputs\":%" PRId64 ",\"correct\":%" PRId64 ",", i ? "," : "", i,
                      window.outputs, window.correct);
        train_put_number(text, "accuracy", zt_track_accuracy(&window));
        zt_str_printf(text, ",\"task_id\":%d}", window.task);
    }
    zt_str_putc(text, ']');
}

static void put_index(zt_str *text, const char *key, int64_t index)
{
    zt_str_printf(text, index < 0 ? ",\"%s\":null" : ",\"%s\":%" PRId64, key, index);
}

static void put_changes(const zt_tracker *tracker, zt_str *text)
{
    zt_str_puts(text, ",\"task_changes\":[");
    for (int i = 0; i < zt_tracker_changes(tracker); i++) {
        zt_track_change change = zt_tracker_change(tracker, i);
        zt_str_printf(text, "%s{\"at\":%" PRId64 ",\"from_task\":%d,\"to_task\":%d", i ? "," : "", change.at, i, i + 1);
        put_index(text, "pre_change_window", change.pre);
        put_index(text, "post_change_window", change.post);
        zt_str_putc(text, ',');
        train_put_number(text, "pre_accuracy", change.pre_accuracy);
        zt_str_putc(text, ',');
        train_put_number(text, "post_accuracy", change.post_accuracy);
        put_index(text, "recovery", change.recovery);
        zt_str_putc(text, '}');
    }
    zt_str_putc(text, ']');
}

zt_status train_track_print(const train_tracking *tracking)
{
    zt_cli *cli = tracking->learner->cli;
    zt_str text;
    zt_str_init(&text, cli->ctx);
    zt_str_printf(&text, "{\"adaptation\":{\"total_outputs\":%" PRId64 ",", zt_tracker_outputs(tracking->tracker));
    train_put_number(&text, "avg_accuracy", zt_tracker_accuracy(tracking->tracker));
    put_windows(tracking->tracker, &text);
    put_changes(tracking->tracker, &text);
    zt_str_puts(&text, "}}\n");
    zt_status status = zt_ctx_status(cli->ctx);
    if (!status) status = zt_cli_write(cli, text.data, text.len);
    zt_str_fini(&text);
    return status;
}
