/* times.c - --times: what a run took, as zt-trace record wrote it: a line an object, of which
 *
 *     {"step":12,"seconds":1.5e-05,"engine":"cpu","track":0,"begin":0.25,"end":0.250015}
 *
 * step and seconds are needed; begin, end and track where there are slices; engine where it is not
 * that of --engine. Other members are passed over. A step that comes
 * several times was replayed as often: its mean counts.
 */
#include "tools/zt-trace/profile.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

typedef struct times_reading {
    trace_profile *profile;
    const char *path;
    int line;
    int64_t *times;        /* [steps] that it came */
    size_t slice_capacity; /* of slices */
} times_reading;

static zt_status fail_line(const times_reading *reading, const char *what)
{
    char shown[256];
    return zt_fail(reading->profile->cli->ctx, ZT_EDATA, "%s:%d: %s",
                   zt_escape(shown, sizeof shown, reading->path, strlen(reading->path)), reading->line, what);
}

/* A number of seconds that there can be; -1: it is not there, or none. */
static double seconds_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    double seconds = json_is_number(value) ? json_number_value(value) : -1;
    return isfinite(seconds) && seconds >= 0 && seconds < 1e12 ? seconds : -1;
}

/* Of a line that names none: the engine that --engine names, or the one that auto is. */
static const char *engine_of(const times_reading *reading, const json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "engine"));
    if (!name) name = strcmp(reading->profile->cli->engine, "auto") ? reading->profile->cli->engine : "cpu";
    for (int i = 0; name && zt_engine_list(i); i++)
        if (!strcmp(zt_engine_list(i), name)) return zt_engine_list(i);
    return "";
}

static zt_status add_slice(times_reading *reading, const json_t *object, int step)
{
    trace_profile *profile = reading->profile;
    double begin = seconds_of(object, "begin"), end = seconds_of(object, "end");
    json_int_t track = json_integer_value(json_object_get(object, "track"));
    if (begin < 0 || end < begin || track < 0 || track > 4095) return ZT_OK;
    if (profile->n_slices == reading->slice_capacity) {
        size_t cap = reading->slice_capacity ? 2 * reading->slice_capacity : 256;
        trace_slice *more = zt_realloc(profile->cli->ctx, profile->slices, cap * sizeof *more);
        if (!more) return ZT_ENOMEM;
        profile->slices = more;
        reading->slice_capacity = cap;
    }
    profile->slices[profile->n_slices++] = (trace_slice){step, (int)track, begin, end};
    return ZT_OK;
}

static zt_status read_object(times_reading *reading, const json_t *object)
{
    const json_t *step = json_object_get(object, "step");
    double seconds = seconds_of(object, "seconds");
    int step_count = zt_prog_n_steps(reading->profile->program);
    if (!json_is_object(object) || !json_is_integer(step) || seconds < 0)
        return fail_line(reading, "not an object with \"step\" and \"seconds\"");
    json_int_t step_number = json_integer_value(step);
    if (step_number < 0 || step_number >= step_count) return fail_line(reading, "\"step\" is not a step of the program");
    reading->profile->seconds[step_number] += seconds;
    reading->profile->ran_on[step_number] = engine_of(reading, object);
    reading->times[step_number]++;
    return add_slice(reading, object, (int)step_number);
}

static zt_status read_line(times_reading *reading, const char *line, size_t length)
{
    json_error_t error;
    json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
    zt_status status = object ? read_object(reading, object) : fail_line(reading, "not JSON");
    json_decref(object);
    return status;
}

zt_status trace_times_read(trace_profile *profile, const char *path)
{
    size_t length, steps = (size_t)zt_prog_n_steps(profile->program);
    times_reading reading = {.profile = profile, .path = path, .times = zt_calloc(profile->cli->ctx, steps + 1, sizeof(int64_t))};
    char *text = reading.times ? zt_read_all(profile->cli->ctx, path, &length) : NULL;
    zt_status status = text ? ZT_OK : zt_ctx_status(profile->cli->ctx);
    for (size_t position = 0; !status && position < length;) {
        const char *end = memchr(text + position, '\n', length - position);
        size_t len = end ? (size_t)(end - text) - position : length - position;
        reading.line++;
        if (len > 0) status = read_line(&reading, text + position, len);
        position += len + 1;
    }
    for (size_t i = 0; i < steps && !status; i++)
        if (reading.times[i] > 1) profile->seconds[i] /= (double)reading.times[i];
    if (!status) trace_sort_slices(profile);
    zt_free(profile->cli->ctx, text);
    zt_free(profile->cli->ctx, reading.times);
    return status;
}
