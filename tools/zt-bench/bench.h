/* bench.h - private to zt-bench: samples, what they say, and how results are written. */
#ifndef ZT_BENCH_H
#define ZT_BENCH_H

#include "tools/common/cli.h"

#define BENCH_MAX_REPS 10000

typedef struct bench_options {
    const char *model;
    int64_t prompt, generate, reps;
    const char *threads; /* "1,2"; NULL: as many as there are processors */
    const char *input;   /* a file of op lines; the text of kld */
    int64_t ctx, from;   /* of kld: a window's tokens, the first that is scored; -1: its half */
    const char *bind;    /* "n=16,ctx=64" */
    const char *history, *plot;
    bool exact;
    int how; /* of ops: BENCH_REPLAY ... */
} bench_options;

/* How an op or a program is run: prepared and replayed, or through the door op by op, ahead of the
 * caller where the engine can or each waited for. */
enum { BENCH_REPLAY, BENCH_AHEAD, BENCH_EAGER };

/* ---- statistics (stats.c) -------------------------------------------------------------------- */

typedef struct bench_summary {
    double median, min, max;
    double mad;     /* median of the distances from the median */
    double ci95[2]; /* of the median */
} bench_summary;

/* n >= 1 samples, which come back sorted by a copy: `x` stays as it was. scratch: [n]. */
bench_summary bench_summarize(const double *x, int64_t n, double *scratch);

/* ---- results (report.c) ---------------------------------------------------------------------- */

typedef struct bench_result {
    char *test; /* "pp512"; an op line */
    char *unit; /* "tokens/s" */
    int64_t threads;
    double *samples; /* [n] */
    int64_t n;
    double error; /* one standard error of a figure that is a mean; 0: none */
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
    void (*put_machine)(zt_str *s, const void *user); /* more of json's "machine"; NULL: no more */
    const void *user;
} bench_list;

/* A result with room for `reps` samples, at the list's end; NULL without memory. */
bench_result *bench_add(zt_ctx *ctx, bench_list *l, const char *test, int64_t threads,
                        const char *unit, int64_t reps);
zt_status bench_list_model(zt_ctx *ctx, bench_list *l, const zt_gguf *model);
void bench_list_free(zt_ctx *ctx, bench_list *l);
zt_status bench_print(zt_cli *cli, const bench_list *l); /* as --format says */
/* What --history wants of a list (keep.c). */
zt_status bench_keep(zt_cli *cli, const bench_options *o, const bench_list *l);
zt_status bench_write_plot(zt_cli *cli, const char *path, const zt_str *svg);
/* Is --format one of a whole list, json or junit, and not of a table? */
bool bench_is_list(const zt_cli *cli);
/* JUnit's XML, as continuous integration reads it: a suite of cases, of which some have failed. */
typedef struct bench_case {
    const char *name, *text; /* text: what was measured */
    double seconds;          /* that it took; 0: not told */
    const char *failure;     /* NULL: it is well */
} bench_case;
zt_status bench_junit(zt_cli *cli, const char *suite, const bench_case *cases, int64_t n);

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
zt_status bench_kld(zt_cli *cli, const bench_options *o);
zt_status bench_past_show(zt_cli *cli, const bench_options *o);
/* Bytes a second read and written by a copy in a device's memory, and operations a second of f32
 * matrices; 0 of what the engine lacks. processor: the device is none, but the processor. */
zt_status bench_device(zt_ctx *ctx, const char *engine, bool processor, double *copied,
                       double *multiplied);

#endif
