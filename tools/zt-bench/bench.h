/* bench.h - private to zt-bench: samples, what they say, and how results are written. */
#ifndef ZT_BENCH_H
#define ZT_BENCH_H

#include "lib/run/cost.h"
#include "tools/common/cli.h"

#define BENCH_MAX_REPS 10000

#define WORDS ZT_OPTION_WORDS
#include "tools/zt-bench/options.def"

typedef struct bench_options {
#define OPTION ZT_OPTION_FIELD
#include "tools/zt-bench/options.def"
    int looks;     /* how often pairs are judged, each time of twice as many as before */
    double beyond; /* --threshold as a share: .05 */
} bench_options;

/* Names of the options that select engine and threads. */
#define BENCH_MEASURING "threads|engine|strict-engine|isa|compute|tile"

/* ---- statistics (stats.c) -------------------------------------------------------------------- */

typedef struct bench_summary {
    double median, min, max;
    double mad;     /* median absolute deviation */
    double ci95[2]; /* 95% confidence interval of the median */
} bench_summary;

void bench_sort(double *out, const double *values, int64_t count); /* sorts ascending into out [count] */
/* count >= 1 samples, which come back sorted by a copy: `x` stays as it was. scratch: [count]. */
bench_summary bench_summarize(const double *values, int64_t count, double *scratch);

typedef struct bench_samples {
    const double *values; /* [count], in the order in which they were taken */
    int64_t count;
} bench_samples;

typedef struct bench_ratio {
    double ratio;   /* of the medians, new / old; of pairs, the median of their ratios */
    double ci95[2]; /* 0 and infinity: too few samples */
} bench_ratio;

/* Of samples above 0, n >= 1 (ratio.c). pairs: 0, or sample i of both was taken side by side, and
 * the interval is one of so many of growing numbers of pairs, up to BENCH_MOST_LOOKS, which all
 * hold the true ratio with 95 per cent. */
enum { BENCH_MOST_LOOKS = 3 };
zt_status bench_ratio_of(zt_ctx *ctx, bench_samples old, bench_samples now, int pairs, uint64_t seed, bench_ratio *ratio);

/* ---- results (report.c) ---------------------------------------------------------------------- */

enum { BENCH_EVENTS = 4, BENCH_COUNTS = 9 };

typedef struct bench_result {
    char *test;   /* "pp512"; an op line */
    char *unit;   /* "tokens/s" */
    char *model;  /* in a list of several models, the model's; else NULL */
    char *engine; /* in a list of several engines, the engine's; else NULL */
    int64_t threads;
    double *samples; /* [count] */
    int64_t count;
    double standard_error; /* standard error, for means; 0: none */
    double flops, bytes;   /* of one run of an op, one token; the least there can be (run/cost.h) */
    double roof;           /* the roofline's figure, in the unit; 0: not known */
    bool counted;
    double counts[BENCH_COUNTS]; /* the same per run or token (counters.c); below 0: not available */
    bool has_energy;
    double joules, watts; /* with has_energy: of a token, and on average (energy.c) */
    struct bench_result *next;
} bench_result;

#define BENCH_OS      200
#define BENCH_UNKNOWN "unknown" /* what a results file does not say of its machine or engine; of processors: 0 */
typedef struct bench_machine_id {
    char os[BENCH_OS];      /* "Linux 6.1.0 x86_64" */
    char cpu[ZT_CPU_MODEL]; /* "AMD EPYC ..." */
    char isa[16], version[32];
    int64_t threads; /* processors available to the process */
} bench_machine_id;
void bench_machine_here(const zt_cli *cli, bench_machine_id *machine);

/* The results of one run of zt-bench, or of a file. Zero-initialized: empty. */
typedef struct bench_list {
    bench_result *first, **last;
    bench_machine_id machine; /* os "": this machine */
    char engine[24];          /* "": none ran */
    char *model, *model_id;   /* file and zt_gguf_id; NULL: not a model */
    uint64_t model_bytes;
    char *command;                                    /* of run; NULL: none */
    struct bench_roofs *roofs;                        /* measured (roof.c); NULL: none */
    void (*put_machine)(zt_str *s, const void *user); /* writes more members of json's "machine"; NULL: none */
    const void *user;
} bench_list;

/* Appends a result with space for `most` samples; NULL: out of memory. */
bench_result *bench_add(zt_ctx *ctx, bench_list *list, const char *test, int64_t threads, const char *unit, int64_t most);
/* The results of `from` move to the end of `target`: with `model` as those of its model, with an engine as those of this engine,
 * of which `target` itself then has none. Without `model` the model of `from` becomes that of `target`. */
zt_status bench_list_join(zt_ctx *ctx, bench_list *target, bench_list *from, bool model, const char *engine);
/* Appends "MODEL ENGINE ", which goes before the name of a test; NULL: not known, nothing. */
void bench_put_owner(zt_str *out, const char *model, const char *engine);
zt_status bench_list_model(zt_ctx *ctx, bench_list *list, const zt_gguf *model);
void bench_list_free(zt_ctx *ctx, bench_list *list);
zt_status bench_print(zt_cli *cli, const bench_list *list); /* in the format of --format */
/* Adds a list to the file of --history and draws --plot. bench_check_plot: can --plot be drawn? Before measuring. */
zt_status bench_check_plot(zt_cli *cli, const bench_options *options);
zt_status bench_roofline(zt_cli *cli, const char *path, const bench_list *list);
/* Does --plot draw curves over depth (depth_plot.c) instead of the roofline? So for a model with several depths. */
bool bench_plots_depths(zt_cli *cli, const bench_options *options);
zt_status bench_plot_depths(zt_cli *cli, const char *path, const bench_list *list);
zt_status bench_keep(zt_cli *cli, const bench_options *options, const bench_list *list);
zt_status bench_write_plot(zt_cli *cli, const char *path, const zt_str *svg);
/* Writes json of two lists: results of both, each with its "subject", and `more`, additional members such as "a":1. */
zt_status bench_print_both(zt_cli *cli, const bench_list *old, const bench_list *now, const zt_str *more);
/* Writes to stdout, or to the file of -o. */
zt_status bench_write(zt_cli *cli, const char *bytes, size_t length);
zt_status bench_write_table(zt_cli *cli, zt_table *table);
/* A number with so many significant digits, never with an exponent. Returns out. */
#define BENCH_NUMBER 40
const char *bench_number(char out[BENCH_NUMBER], double number, int digits);
/* Is --format a list format (json, junit), not a table? */
bool bench_is_list(const zt_cli *cli);
/* A case of a JUnit report. */
typedef struct bench_case {
    const char *name, *text; /* text: what was measured */
    double seconds;          /* duration; 0: not known */
    const char *failure;     /* NULL: passed */
} bench_case;
zt_status bench_junit(zt_cli *cli, const char *suite, const bench_case *cases, int64_t count);

/* ---- stored results (read.c), and comparison of two (compare.c) --------------------------------- */

/* Reads zt.bench/1, or the JSON of llama-bench or hyperfine, from a file, or "-". Free the list on error too. */
zt_status bench_read(zt_ctx *ctx, const char *file, bench_list *list);
/* Reads it from a text; name: for messages. */
zt_status bench_read_text(zt_ctx *ctx, const char *name, const char *text, size_t length, bench_list *list);
/* Parses "5%" or "0.05". */
zt_status bench_threshold(zt_ctx *ctx, const char *text, double *share);
/* Prints the results of a command: one list, or with --vs two, compared as pairs. */
zt_status bench_answer(zt_cli *cli, const bench_options *options, const bench_list lists[2]);

/* compare --vs (vs.c). */
zt_status bench_versus(zt_cli *cli, const bench_options *options);
/* With --vs a round takes a sample of each of two sides, in alternating order so that neither has an advantage. bench_turn: the
 * side that is measured at a turn of a round. */
int bench_sides(const bench_options *options);
int bench_turn(int sides, int64_t round, int turn);
/* Called after the last round: doubles *rounds if the comparison of the two results (of a result of both lists) is still unsure
 * and the maximum is not reached. */
int64_t bench_most(const bench_options *options); /* maximum number of samples of a result */
zt_status bench_more(zt_cli *cli, const bench_options *options, const bench_result *old, const bench_result *now,
                     int64_t *rounds);
zt_status bench_more_of(zt_cli *cli, const bench_options *options, const bench_list lists[2], int64_t *rounds);

/* ---- commands (run.c) ------------------------------------------------------------------------ */

typedef struct bench_line {
    zt_ctx *ctx;
    char **argv;   /* NULL-terminated */
    char *name;    /* the command as given */
    char *text;    /* memory that argv points into; NULL: borrowed */
    bool prepares; /* --prepare's, whose failure --ignore-failure does not accept */
} bench_line;

/* Splits a line into words, or runs it by the shell if it has shell syntax. Free it on error too. */
zt_status bench_line_of(zt_ctx *ctx, const char *text, bench_line *command);
void bench_line_free(bench_line *command);
struct rusage;
/* Starts it with no input; its output goes to the descriptor `out`, or is thrown away (-1), or goes
 * with its messages to stderr (`loud`). -1: it cannot be started, and the context says why.
 * `when`: zt_seconds at its beginning. */
int bench_start(const bench_line *command, int out, bool loud, double *when);
/* Waits for its end, which is an error unless it is well or any end will do. */
zt_status bench_wait(const bench_line *command, int pid, bool any_end, struct rusage *usage);

/* The words of a command for each combination of values of --parameter-scan NAME=VALUE,... (scan.c): {NAME} in a word is replaced. A
 * value is a word, or a range of numbers as in bench_numbers_of. Without parameters there is one combination, the words themselves.
 * All strings are the scan's; words [word_count], of which the last may be NULL, are borrowed. NULL: a list that is not valid, or a
 * name that no word has. */
typedef struct bench_scan bench_scan;
bench_scan *bench_scan_open(zt_ctx *ctx, const zt_opt_list *parameters, char **words, int word_count);
bool bench_scan_next(bench_scan *scan);    /* goes to the next combination; false: the last was given, or out of memory */
char **bench_scan_words(bench_scan *scan); /* of the current combination, valid until the next one */
const char *bench_scan_name(const bench_scan *scan); /* " NAME=VALUE" of each parameter; "" without parameters */
void bench_scan_close(bench_scan *scan);             /* NULL is allowed */

/* ---- performance counters (counters.c) --------------------------------------------------------- */

/* Counters of this process and of the threads that were started after opening. */
typedef struct bench_counters {
    bool open;
    int descriptors[BENCH_EVENTS];
    double start[BENCH_COUNTS];
} bench_counters;
const char *bench_count_name(int index); /* "cycles" */
void bench_counters_open(bench_counters *counters);
void bench_counters_close(bench_counters *counters); /* also if not opened */
void bench_counters_start(bench_counters *counters, const zt_engine *engine);
/* Adds to sums, which begin as zeros, what was counted since the start; below 0: not available. */
void bench_counters_add(const bench_counters *counters, const zt_engine *engine, double sums[BENCH_COUNTS]);
void bench_set_counts(bench_result *result, const bench_counters *counters, const double sums[BENCH_COUNTS], double runs);

/* ---- roofline (roof.c) ------------------------------------------------------------------------- */

/* The roofline for so many threads, or of the engine's device, measured at the first call. NULL: not wanted, an engine that has
 * none, or a failure, which is reported. */
const zt_roof *bench_roof(zt_cli *cli, zt_engine *engine, const bench_options *options, bench_list *list, int threads);
zt_status bench_roof_add(zt_ctx *ctx, bench_list *list, const zt_roof *roof);
const zt_roof *bench_roof_nth(const bench_list *list, int index); /* those measured; NULL past the last */
/* Sets flops, bytes and roof of a result from the cost of one run or token. */
void bench_set_roof(bench_result *result, const zt_cost_whole *one, const zt_roof *roof);
/* The same for a model's result: `tokens` of them behind `depth` others, as one prompt or one by one. */
zt_status bench_roof_model(zt_llm *model, bench_result *result, const zt_roof *roof, int64_t depth, int64_t tokens, bool prompt);
bool bench_less_is_better(const char *unit);
double bench_roof_share(const bench_result *result, double median); /* 0: not known */

/* ---- commands and what they measure ------------------------------------------------------------ */

enum { BENCH_MAX_COUNTS = 64 };
/* Numbers of an option: of threads, of tokens. */
typedef struct bench_numbers {
    int64_t values[BENCH_MAX_COUNTS]; /* [count] */
    int count;
} bench_numbers;
/* Parses a list of numbers from min to max: "1,2", "128..512+128", "0,4096..32768*2" (numbers.c). option: for the message. */
zt_status bench_numbers_of(zt_ctx *ctx, const char *option, const char *text, int64_t min, int64_t max, bench_numbers *list);
/* Parses -t; without it, the number of available processors. */
zt_status bench_threads_of(zt_ctx *ctx, const bench_options *options, bench_numbers *list);

/* A program's ops run one by one (eager.c). All arguments are borrowed. */
typedef struct bench_eager bench_eager;
bench_eager *bench_eager_open(zt_engine *engine, const zt_prog *program, const zt_bound *bound, void *const *inputs,
                              void *const *data, bool eager, bool strict);
void bench_eager_close(bench_eager *eager);
zt_status bench_eager_run(bench_eager *eager, void *const *out);
int bench_eager_fallbacks(const bench_eager *eager); /* of the last run */

zt_status bench_model(zt_cli *cli, const bench_options *options);
zt_status bench_op(zt_cli *cli, const bench_options *options);
zt_status bench_machine(zt_cli *cli, const bench_options *options);
zt_status bench_run(zt_cli *cli, const bench_options *options);
zt_status bench_compare(zt_cli *cli, const bench_options *options);
zt_status bench_kld(zt_cli *cli, const bench_options *options);
zt_status bench_plot(zt_cli *cli, const bench_options *options);
zt_status bench_past_show(zt_cli *cli, const bench_options *options);
/* Measures a device: bytes per second of a copy in its memory, and operations per second of f32 matrix products; 0: the engine
 * lacks the op. processor: the device is the processor itself. */
zt_status bench_device(zt_ctx *ctx, const char *engine, bool processor, double *copied, double *multiplied);

#endif
