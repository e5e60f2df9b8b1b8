/* bench.h - private to zt-bench: samples, what they say, and how results are written. */
#ifndef ZT_BENCH_H
#define ZT_BENCH_H

#include "lib/run/cost.h"
#include "tools/common/cli.h"

#define BENCH_MAX_REPS 10000

typedef struct bench_options {
    zt_opt_list models;
    int64_t prompt, generate;
    int64_t reps; /* samples of a row: by -r, else the command's own number */
    int looks;    /* how often pairs are judged, each time of twice as many as before */
    const char *threads; /* "1,2"; NULL: as many as there are processors */
    const char *input;   /* a file of op lines; the text of kld */
    int64_t ctx, from;   /* of kld: a window's tokens, the first that is scored; -1: its half */
    const char *bind;    /* "n=16,ctx=64" */
    const char *history, *plot;
    bool no_roof;
    bool exact;
    int how; /* of ops: BENCH_REPLAY ... */
    bool vs; /* two subjects, in turn */
    bool ignore_failure;
    const char *threshold; /* "5%" */
    double beyond;         /* the same as a share: .05 */
} bench_options;

/* Names of the options that say what measures. */
#define BENCH_MEASURING "threads|engine|strict-engine|isa|compute|tile"

/* How an op or a program is run: prepared and replayed, or through the door op by op, ahead of the
 * caller where the engine can or each waited for. */
enum { BENCH_REPLAY, BENCH_AHEAD, BENCH_EAGER };

/* ---- statistics (stats.c) -------------------------------------------------------------------- */

typedef struct bench_summary {
    double median, min, max;
    double mad;     /* median of the distances from the median */
    double ci95[2]; /* of the median */
} bench_summary;

void bench_sort(double *to, const double *x, int64_t n); /* rising, into to [n] */
/* n >= 1 samples, which come back sorted by a copy: `x` stays as it was. scratch: [n]. */
bench_summary bench_summarize(const double *x, int64_t n, double *scratch);

typedef struct bench_samples {
    const double *x; /* [n], in the order in which they were taken */
    int64_t n;
} bench_samples;

typedef struct bench_ratio {
    double ratio;   /* of the medians, new over old; of pairs, the median of theirs */
    double ci95[2]; /* 0 and infinity: too few samples for any */
} bench_ratio;

/* Of samples above 0, n >= 1 (ratio.c). pairs: 0, or sample i of both was taken side by side, and
 * the interval is one of so many of growing numbers of pairs, up to BENCH_MOST_LOOKS, which all
 * hold the true ratio with 95 per cent. */
enum { BENCH_MOST_LOOKS = 3 };
zt_status bench_ratio_of(zt_ctx *ctx, bench_samples old, bench_samples now, int pairs,
                         uint64_t seed, bench_ratio *r);

/* ---- results (report.c) ---------------------------------------------------------------------- */

enum { BENCH_EVENTS = 4, BENCH_COUNTS = 9 };

typedef struct bench_result {
    char *test; /* "pp512"; an op line */
    char *unit; /* "tokens/s" */
    char *model; /* whose it is, where a list is of several models; else NULL */
    int64_t threads;
    double *samples; /* [n] */
    int64_t n;
    double error; /* one standard error of a figure that is a mean; 0: none */
    double flops, bytes; /* of one run of an op, one token; the least there can be (run/cost.h) */
    double roof;         /* the figure at the roof, in the unit; 0: not known */
    bool counted;
    double count[BENCH_COUNTS]; /* of one likewise (counters.c); below 0: not there */
    struct bench_result *next;
} bench_result;

#define BENCH_OS 200
typedef struct bench_machine_id {
    char os[BENCH_OS];      /* "Linux 6.1.0 x86_64" */
    char cpu[ZT_CPU_MODEL]; /* "AMD EPYC ..." */
    char isa[16], version[32];
    int64_t threads; /* processors that the process may use */
} bench_machine_id;
void bench_machine_here(const zt_cli *cli, bench_machine_id *m);

/* What one run of zt-bench found, or a file of it. Zero-initialised is empty. */
typedef struct bench_list {
    bench_result *first, **last;
    bench_machine_id machine;  /* os "": this one */
    char engine[24];           /* "": none ran */
    char *model, *model_id;    /* file and zt_gguf_id; NULL: ops */
    uint64_t model_bytes;
    char *command;             /* of run; NULL: none */
    struct bench_roofs *roofs; /* measured (roof.c); NULL: none */
    void (*put_machine)(zt_str *s, const void *user); /* more of json's "machine"; NULL: no more */
    const void *user;
} bench_list;

/* A result with room for `most` samples, at the list's end; NULL without memory. */
bench_result *bench_add(zt_ctx *ctx, bench_list *l, const char *test, int64_t threads,
                        const char *unit, int64_t most);
/* The results of `from` move to the end of `to`, as those of its model, which `to` then has none of. */
zt_status bench_list_join(zt_ctx *ctx, bench_list *to, bench_list *from);
zt_status bench_list_model(zt_ctx *ctx, bench_list *l, const zt_gguf *model);
void bench_list_free(zt_ctx *ctx, bench_list *l);
zt_status bench_print(zt_cli *cli, const bench_list *l); /* as --format says */
/* What --history and --plot want of a list (keep.c); and whether
 * --plot can be, before it is drawn. */
zt_status bench_check_plot(zt_cli *cli, const bench_options *o);
zt_status bench_roofline(zt_cli *cli, const char *path, const bench_list *l);
zt_status bench_keep(zt_cli *cli, const bench_options *o, const bench_list *l);
zt_status bench_write_plot(zt_cli *cli, const char *path, const zt_str *svg);
/* json of two lists: results of both, each with its "subject", and
 * `more`, members such as "a":1. */
zt_status bench_print_both(zt_cli *cli, const bench_list *old, const bench_list *now,
                           const zt_str *more);
/* To stdout, or into the file that -o names. */
zt_status bench_write(zt_cli *cli, const char *bytes, size_t n);
zt_status bench_write_table(zt_cli *cli, zt_table *t);
/* A number to so many digits that count, never with an exponent. Returns to. */
#define BENCH_NUMBER 40
const char *bench_number(char to[BENCH_NUMBER], double x, int digits);
/* Is --format one of a whole list, json or junit, and not of a table? */
bool bench_is_list(const zt_cli *cli);
/* JUnit's XML, as continuous integration reads it: a suite of cases, of which some have failed. */
typedef struct bench_case {
    const char *name, *text; /* text: what was measured */
    double seconds;          /* that it took; 0: not told */
    const char *failure;     /* NULL: it is well */
} bench_case;
zt_status bench_junit(zt_cli *cli, const char *suite, const bench_case *cases, int64_t n);

/* ---- results of before (read.c), and the question whether the new are slower (compare.c) ----- */

/* zt.bench/1 from a file, or "-"; the list is to be freed in any case. */
zt_status bench_read(zt_ctx *ctx, const char *file, bench_list *l);
/* The same of a text; name: for messages. */
zt_status bench_read_text(zt_ctx *ctx, const char *name, const char *text, size_t n, bench_list *l);
/* "5%" or "0.05", as a share. */
zt_status bench_threshold(zt_ctx *ctx, const char *text, double *share);
/* What a command found is printed, one list; with --vs two, which are compared as pairs. */
zt_status bench_answer(zt_cli *cli, const bench_options *o, const bench_list l[2]);

/* compare --vs (vs.c). */
zt_status bench_versus(zt_cli *cli, const bench_options *o);
/* With --vs a round takes a sample of each of two sides. Which goes first changes, so that neither
 * has the better place: side at a turn of a round. */
int bench_sides(const bench_options *o);
int bench_turn(int sides, int64_t round, int turn);
/* After the last of `rounds`: twice as many, if -r did not say how many, these can be doubled as
 * yet, and what the two rows (a row of the two lists) say is unsure. */
int64_t bench_most(const bench_options *o); /* samples that a row can come to */
zt_status bench_more(zt_cli *cli, const bench_options *o, const bench_result *old,
                     const bench_result *now, int64_t *rounds);
zt_status bench_more_of(zt_cli *cli, const bench_options *o, const bench_list l[2],
                        int64_t *rounds);

/* ---- commands (run.c) ------------------------------------------------------------------------ */

typedef struct bench_line {
    zt_ctx *ctx;
    char **argv; /* NULL last */
    char *name;  /* as it was given */
    char *text;  /* what argv points into; NULL: it is borrowed */
} bench_line;

/* A line of text: its words, or a shell's where it has more than words. Free it in any case. */
zt_status bench_line_of(zt_ctx *ctx, const char *text, bench_line *c);
void bench_line_free(bench_line *c);
struct rusage;
/* Starts it with no input; its output goes to the descriptor `out`, or is thrown away (-1), or goes
 * with its messages to stderr (`loud`). -1: it cannot be started, and the context says why.
 * `when`: zt_seconds at its beginning. */
int bench_start(const bench_line *c, int out, bool loud, double *when);
/* Waits for its end, which is an error unless it is well or any end will do. */
zt_status bench_wait(const bench_line *c, int pid, bool any_end, struct rusage *u);

/* ---- work (counters.c) ----------------------------------------------------------------------- */

/* What runs took, of this process with all its threads: those that began after it was opened. */
typedef struct bench_counters {
    bool open;
    int fd[BENCH_EVENTS];
    double at[BENCH_COUNTS], of_one[BENCH_COUNTS];
} bench_counters;
const char *bench_count_name(int i); /* "cycles" */
void bench_counters_open(bench_counters *c);
void bench_counters_close(bench_counters *c); /* also of one that was not opened */
void bench_counters_start(bench_counters *c, const zt_engine *e);
void bench_counters_stop(bench_counters *c, const zt_engine *e, double runs);
void bench_set_counts(bench_result *r, const bench_counters *c);

/* ---- the roof (roof.c) ----------------------------------------------------------------------- */

/* The roof of so many threads, measured when it is first asked for; NULL: none is wanted, the
 * engine is not the cpu, or there is no room to measure. */
const zt_roof *bench_roof(zt_cli *cli, const bench_options *o, bench_list *l, int threads);
zt_status bench_roof_add(zt_ctx *ctx, bench_list *l, const zt_roof *roof);
const zt_roof *bench_roof_nth(const bench_list *l, int i); /* those measured; NULL after the last */
/* From what one (run, token) costs: flops, bytes and roof of a result. */
void bench_set_roof(bench_result *r, const zt_cost_whole *one, const zt_roof *roof);
/* Of all results of a model with so many threads: "pp..." and "tg...". */
zt_status bench_roof_model(zt_cli *cli, const bench_options *o, bench_list *l, zt_llm *m,
                           int64_t threads);
bool bench_less_is_better(const char *unit);
double bench_roof_share(const bench_result *r, double median); /* 0: not known */

/* ---- what is measured ------------------------------------------------------------------------ */

enum { BENCH_MAX_COUNTS = 64 };
/* "1,2": numbers of threads. */
zt_status bench_threads(zt_ctx *ctx, const char *text, int64_t *count, int *n);

/* A program's ops through the door (door.c). Borrows all it is given. */
typedef struct bench_door bench_door;
bench_door *bench_door_open(zt_engine *e, const zt_prog *p, const zt_bound *b, void *const *in,
                            void *const *data, bool eager, bool strict);
void bench_door_close(bench_door *d);
zt_status bench_door_run(bench_door *d, void *const *out);
int bench_door_fallbacks(const bench_door *d); /* of the last run */

zt_status bench_model(zt_cli *cli, const bench_options *o);
zt_status bench_op(zt_cli *cli, const bench_options *o);
zt_status bench_machine(zt_cli *cli, const bench_options *o);
zt_status bench_run(zt_cli *cli, const bench_options *o);
zt_status bench_compare(zt_cli *cli, const bench_options *o);
zt_status bench_kld(zt_cli *cli, const bench_options *o);
zt_status bench_past_show(zt_cli *cli, const bench_options *o);
/* Bytes a second read and written by a copy in a device's memory, and operations a second of f32
 * matrices; 0 of what the engine lacks. processor: the device is none, but the processor. */
zt_status bench_device(zt_ctx *ctx, const char *engine, bool processor, double *copied,
                       double *multiplied);

#endif
