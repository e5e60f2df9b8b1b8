/* report.c - --report: a folder with a page that shows the run, and its data.
 *
 *     index.html    the page (report.html); it needs no server and no network
 *     run.js        const run = {...}: the epochs, and of each layer at most 512 points over the steps
 *
 * A point is the sum of so many steps that all steps fit: where there is no room, pairs of points become one.
 */
#include "tools/zt-train/observe.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POINTS = 512, DIRECTIONS = 2 };

static const unsigned char page[] = {
#include "tools/zt-train/report.inc"
};

/* Statistics of a layer in one direction, over the steps of a point. */
typedef struct moment {
    double avg_sum, total, active; /* avg_sum: of averages times totals */
    float max, min;
} moment;

struct train_report {
    zt_cli *cli;
    const train_learner *learner;
    const train_options *options;
    zt_str page_path, data_path;
    zt_str epochs;  /* objects of JSON with commas between */
    moment *moment; /* [POINTS][DIRECTIONS][layers] */
    uint64_t last_step[POINTS], steps[POINTS];
    int point_count;
    uint64_t point_steps; /* of a full point */
    bool backward;        /* there were gradients */
    bool complete;
};

/* ---- points ------------------------------------------------------------------------------------ */

static moment *moment_at(const train_report *report, int point, int direction, int layer)
{
    int layers = report->learner->observed_count;
    return &report->moment[((size_t)point * DIRECTIONS + (size_t)direction) * (size_t)layers + (size_t)layer];
}

static void add_moment(moment *sum, const moment *other)
{
    bool first = sum->total == 0;
    sum->avg_sum += other->avg_sum;
    sum->total += other->total;
    sum->active += other->active;
    sum->max = first || other->max > sum->max ? other->max : sum->max;
    sum->min = first || other->min < sum->min ? other->min : sum->min;
}

/* Points 2 i and 2 i + 1 become point i. */
static void halve_points(train_report *report)
{
    int layers = report->learner->observed_count;
    for (int point = 0; point < POINTS; point++) {
        int to = point / 2;
        for (int direction = 0; direction < DIRECTIONS; direction++)
            for (int layer = 0; layer < layers; layer++) {
                moment one = *moment_at(report, point, direction, layer);
                if (point % 2)
                    add_moment(moment_at(report, to, direction, layer), &one);
                else
                    *moment_at(report, to, direction, layer) = one;
            }
        report->steps[to] = point % 2 ? report->steps[to] + report->steps[point] : report->steps[point];
        report->last_step[to] = report->last_step[point];
    }
    report->point_count = POINTS / 2;
    report->point_steps *= 2;
}

static int open_point(train_report *report)
{
    int last = report->point_count - 1;
    if (last >= 0 && report->steps[last] < report->point_steps) return last;
    if (report->point_count == POINTS) halve_points(report);
    last = report->point_count++;
    memset(moment_at(report, last, 0, 0), 0, DIRECTIONS * (size_t)report->learner->observed_count * sizeof(moment));
    report->steps[last] = 0;
    return last;
}

static zt_status add_events(void *user, const train_event *events, int count)
{
    train_report *report = user;
    int point = open_point(report);
    for (int i = 0; i < count; i++) {
        const zt_nn_stats *stats = &events[i].stats;
        moment one = {(double)stats->avg * (double)stats->total, (double)stats->total, (double)stats->active, stats->max,
                      stats->min};
        add_moment(moment_at(report, point, events[i].backward, events[i].index), &one);
        report->backward |= events[i].backward;
    }
    report->steps[point] += events[0].window;
    report->last_step[point] = events[0].step;
    return ZT_OK;
}

train_target train_report_target(train_report *report) { return (train_target){report, add_events, NULL, NULL}; }

/* ---- run.js ------------------------------------------------------------------------------------ */

typedef struct statistic {
    const char *name;
    double (*value)(const moment *);
} statistic;

static double mean_of(const moment *sum) { return sum->total > 0 ? sum->avg_sum / sum->total : NAN; }
static double largest_of(const moment *sum) { return (double)sum->max; }
static double smallest_of(const moment *sum) { return (double)sum->min; }
static double active_of(const moment *sum) { return sum->total > 0 ? sum->active / sum->total : NAN; }

static const statistic statistics[] = {{"avg", mean_of}, {"max", largest_of}, {"min", smallest_of}, {"active", active_of}};
enum { STATISTICS = sizeof statistics / sizeof *statistics };

static void put_value(zt_str *out, double value)
{
    if (isfinite(value))
        zt_str_printf(out, "%.6g", value);
    else
        zt_str_puts(out, "null");
}

/* {"avg":[[...],...],"max":...}: for each statistic a list for each layer. */
static void put_direction(const train_report *report, zt_str *out, int direction)
{
    for (int i = 0; i < STATISTICS; i++) {
        zt_str_printf(out, "%s\"%s\":[", i ? "," : "{", statistics[i].name);
        for (int layer = 0; layer < report->learner->observed_count; layer++) {
            zt_str_puts(out, layer ? ",[" : "[");
            for (int point = 0; point < report->point_count; point++) {
                if (point) zt_str_putc(out, ',');
                put_value(out, statistics[i].value(moment_at(report, point, direction, layer)));
            }
            zt_str_putc(out, ']');
        }
        zt_str_puts(out, "]\n");
    }
    zt_str_putc(out, '}');
}

static void put_layers(const train_report *report, zt_str *out)
{
    zt_str_puts(out, ",\n\"layers\":[");
    for (int i = 0; i < report->learner->observed_count; i++) {
        const zt_nn_layer *layer = report->learner->observed[i].layer;
        zt_str_printf(out, "%s{\"z\":%" PRId64 ",\"y\":%" PRId64 ",\"x\":%" PRId64 ",\"l\":%" PRId64 ",\"type\":\"%s\"}",
                      i ? "," : "", layer->place[0], layer->place[1], layer->place[2], layer->place[3],
                      zt_nn_kind_name(layer->kind));
    }
    zt_str_puts(out, "],\n\"steps\":[");
    for (int point = 0; point < report->point_count; point++)
        zt_str_printf(out, "%s%" PRIu64, point ? "," : "", report->last_step[point]);
    zt_str_puts(out, "],\n\"forward\":");
    put_direction(report, out, 0);
    if (report->backward) zt_str_puts(out, ",\n\"backward\":");
    if (report->backward) put_direction(report, out, 1);
}

static int64_t count_parameters(const train_learner *learner)
{
    int64_t count = 0;
    for (int i = 0; i < learner->weight_count; i++) count += zt_type_count(&learner->weights[i].type);
    return count;
}

static void put_name(zt_str *out, const char *key, const char *name)
{
    zt_str_printf(out, ",\"%s\":", key);
    zt_str_put_json(out, name ? name : "", name ? strlen(name) : 0);
}

static zt_status write_data(train_report *report)
{
    const train_options *options = report->options;
    zt_ctx *ctx = report->cli->ctx;
    zt_str text;
    zt_str_init(&text, ctx);
    zt_str_puts(&text, "const run = {\"schema\":\"zt.report/1\",\"version\":\"" ZT_VERSION "\"");
    put_name(&text, "model", options->model ? options->model : options->make);
    put_name(&text, "data", options->text ? options->text : options->input);
    put_name(&text, "output", report->cli->output);
    zt_str_printf(&text, ",\"parameters\":%" PRId64 ",\"complete\":%s", count_parameters(report->learner),
                  report->complete ? "true" : "false");
    zt_str_puts(&text, ",\n\"epochs\":[");
    zt_str_put(&text, report->epochs.data, report->epochs.len);
    zt_str_putc(&text, ']');
    if (report->learner->observed_count) put_layers(report, &text);
    zt_str_puts(&text, "};\n");
    zt_status status = zt_ctx_status(ctx);
    if (!status) status = zt_sink_put_file(ctx, report->data_path.data, true, text.data, text.len);
    zt_str_fini(&text);
    return status;
}

zt_status train_report_epoch(train_report *report, const char *json, size_t length)
{
    if (report->epochs.len) zt_str_puts(&report->epochs, ",\n");
    zt_str_put(&report->epochs, json, length);
    return write_data(report);
}

zt_status train_report_end(train_report *report)
{
    report->complete = true;
    return write_data(report);
}

/* ---- the folder -------------------------------------------------------------------------------- */

static zt_status make_folder(train_report *report)
{
    const char *path = report->options->report;
    zt_ctx *ctx = report->cli->ctx;
    struct stat found;
    if (mkdir(path, 0777) && errno != EEXIST) return zt_fail(ctx, ZT_ECREATE, "%s: cannot be created: %s", path, strerror(errno));
    if (stat(path, &found) || !S_ISDIR(found.st_mode)) return zt_fail(ctx, ZT_ECREATE, "%s: is not a directory", path);
    if (!report->cli->force && !access(report->data_path.data, F_OK))
        return zt_fail(ctx, ZT_ECREATE, "%s: already exists (use -f to overwrite)", report->data_path.data);
    return zt_sink_put_file(ctx, report->page_path.data, true, page, sizeof page);
}

train_report *train_report_open(const train_learner *learner, const train_options *options)
{
    zt_ctx *ctx = learner->cli->ctx;
    train_report *report = zt_calloc(ctx, 1, sizeof *report);
    if (!report) return NULL;
    *report = (train_report){.cli = learner->cli, .learner = learner, .options = options, .point_steps = 1};
    zt_str_init(&report->page_path, ctx);
    zt_str_init(&report->data_path, ctx);
    zt_str_init(&report->epochs, ctx);
    zt_str_printf(&report->page_path, "%s/index.html", options->report);
    zt_str_printf(&report->data_path, "%s/run.js", options->report);
    report->moment = zt_calloc(ctx, (size_t)learner->observed_count + 1, POINTS * DIRECTIONS * sizeof *report->moment);
    zt_status status = zt_ctx_status(ctx);
    if (!status) status = make_folder(report);
    if (!status) status = write_data(report);
    if (!status) return report;
    train_report_free(report);
    return NULL;
}

void train_report_free(train_report *report)
{
    if (!report) return;
    zt_ctx *ctx = report->cli->ctx;
    zt_str_fini(&report->page_path);
    zt_str_fini(&report->data_path);
    zt_str_fini(&report->epochs);
    zt_free(ctx, report->moment);
    zt_free(ctx, report);
}
