/* history.h - private to zt-bench: results kept in a file of SQLite, each with all its samples.
 *
 * Tables run (one of zt-bench: date, command, machine, engine, model, commit; files of older versions have no column for the commit
 * until a run is added), result (a test of a run:
 * threads, unit, median, interval, roof_share) and sample (a
 * result's, in the order they were taken).
 */
#ifndef ZT_BENCH_HISTORY_H
#define ZT_BENCH_HISTORY_H

#include "tools/zt-bench/bench.h"

/* Adds a run, whole or not at all; makes the file where there is none. ZT_ENOTSUP without SQLite;
 * ZT_EDATA for a file that is something else. commit: what was measured, NULL: not known. */
zt_status bench_history_add(zt_cli *cli, const char *path, const char *commit, const bench_list *list);

/* A result of a run, for a table and a plot; texts are borrowed for the call. */
typedef struct bench_past {
    int64_t run;
    const char *time, *command, *version, *cpu, *engine, *model, *model_id, *test, *unit;
    const char *commit; /* of --commit; "": none was given */
    int64_t threads, samples;
    double median, low, high; /* NaN: none was kept */
} bench_past;
typedef zt_status bench_past_fn(void *user, const bench_past *p);
/* Every result, in the order they were added. */
zt_status bench_history_read(zt_cli *cli, const char *path, bench_past_fn *visit, void *user);

/* Appends the name of a series: the test with its threads and unit, of one engine, model and processor. */
void bench_past_name(zt_str *text, const bench_past *past);
/* history --trend (history_trend.c). */
zt_status bench_trend(zt_cli *cli, const bench_options *options);

#endif
