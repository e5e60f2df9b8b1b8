/* run.c - zt-bench run: what a command takes: wall time, processor time, memory.
 *
 * A command is started as execvp does, without a shell; with --vs there are two, each a line of
 * text that a shell reads where it has something for a shell in it.
 * Input is empty, output is thrown away (under -v it goes to stderr). --prepare is a line as well, run before each run.
 * Wall time is from when the child lets the program take its place until its end was waited for:
 * without the fork, which copies our page tables. (A child begun by posix_spawn would need no copy,
 * and be held to have had our memory, so that no command's peak could be less than ours.)
 */
#include "tools/zt-bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct run_cost {
    double wall, user, sys, peak; /* seconds, bytes */
} run_cost;

/* ---- words ----------------------------------------------------------------------------------- */

/* Has the line what a shell alone understands? */
static bool needs_shell(const char *line) { return line[strcspn(line, "'\"\\|&;<>()$`*?[]#~=%{}!\n")] != 0; }

/* The words of a line, between blanks; the strings lie in `text`, which is cut up. */
static int cut_words(char *text, char **word, int most)
{
    int count = 0;
    for (char *word_start = strtok(text, " \t"); word_start && count < most; word_start = strtok(NULL, " \t"))
        word[count++] = word_start;
    return count;
}

zt_status bench_line_of(zt_ctx *ctx, const char *line, bench_line *command)
{
    enum { MOST = 4096 };
    *command = (bench_line){.ctx = ctx, .name = zt_strdup(ctx, line), .text = zt_strdup(ctx, line)};
    command->argv = zt_calloc(ctx, MOST + 1, sizeof *command->argv);
    if (!command->name || !command->text || !command->argv) return zt_ctx_status(ctx);
    if (needs_shell(line)) {
        command->argv[0] = "/bin/sh";
        command->argv[1] = "-c";
        command->argv[2] = command->text;
    } else if (cut_words(command->text, command->argv, MOST) == 0)
        return zt_fail(ctx, ZT_EUSAGE, "empty command");
    return ZT_OK;
}

static zt_status command_of_words(zt_ctx *ctx, char **word, int count, bench_line *command)
{
    zt_str name;
    *command = (bench_line){.ctx = ctx, .argv = zt_calloc(ctx, (size_t)count + 1, sizeof *command->argv)};
    if (!command->argv) return zt_ctx_status(ctx);
    memcpy(command->argv, word, (size_t)count * sizeof *word);
    zt_str_init(&name, ctx);
    for (int i = 0; i < count; i++) zt_str_printf(&name, "%s%s", i ? " " : "", word[i]);
    command->name = name.data; /* zt_str's memory is zt_alloc's */
    return zt_ctx_status(ctx);
}

void bench_line_free(bench_line *command)
{
    if (!command->ctx) return;
    zt_free(command->ctx, command->argv);
    zt_free(command->ctx, command->name);
    zt_free(command->ctx, command->text);
}

/* ---- one run --------------------------------------------------------------------------------- */

/* What the child tells: when it let the program begin; errno, if there is none to begin. */
typedef struct start_report {
    double when; /* by zt_seconds, whose clock all processes share */
    int why;
} start_report;

/* In the child: input, output, the program. Only what a signal handler may call. */
static void exec_command(const bench_line *command, int out, bool loud, int descriptor)
{
    start_report report = {0};
    int null = open("/dev/null", O_RDWR);
    signal(SIGPIPE, SIG_DFL);
    if (null >= 0) {
        dup2(null, 0);
        dup2(out >= 0 ? out : loud ? 2 : null, 1);
        if (!loud) dup2(null, 2);
        report.when = zt_seconds();
        if (write(descriptor, &report, sizeof report) == sizeof report) execvp(command->argv[0], command->argv);
    }
    report.why = errno;
    ssize_t size = write(descriptor, &report, sizeof report); /* cut off, the parent sees an exit status of 127 */
    _exit(size == sizeof report ? 0 : 127);
}

static zt_status fail_start(const bench_line *command, int why)
{
    bool absent = why == ENOENT || why == EACCES || why == ENOTDIR || why == ENOEXEC;
    return zt_fail(command->ctx, absent ? ZT_ENOENT : ZT_ESYS, "%s: %s", command->argv[0], strerror(why));
}

/* The last that the child tells; the program's beginning closes the child's end of the pipe. */
static start_report read_reports(int from)
{
    start_report last = {0}, report;
    ssize_t size;
    while ((size = read(from, &report, sizeof report)) == sizeof report || (size < 0 && errno == EINTR))
        if (size > 0) last = report;
    return last;
}

int bench_start(const bench_line *command, int out, bool loud, double *when)
{
    int pipe_ends[2];
    if (pipe2(pipe_ends, O_CLOEXEC)) {
        fail_start(command, errno);
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0) exec_command(command, out, loud, pipe_ends[1]);
    if (pid < 0) fail_start(command, errno);
    close(pipe_ends[1]);
    start_report report = pid > 0 ? read_reports(pipe_ends[0]) : (start_report){0};
    close(pipe_ends[0]);
    *when = report.when;
    if (!report.why) return pid;
    waitpid(pid, NULL, 0);
    fail_start(command, report.why);
    return -1;
}

zt_status bench_wait(const bench_line *command, int pid, bool any_end, struct rusage *usage)
{
    int status = 0;
    bool passed_on = false;
    while (wait4(pid, &status, 0, usage) < 0 && errno == EINTR)
        if (zt_cli_interrupted() && !passed_on) passed_on = !kill(pid, SIGINT);
    if (zt_cli_interrupted()) return ZT_EINTR;
    if (any_end) return ZT_OK;
    if (WIFSIGNALED(status))
        return zt_fail(command->ctx, ZT_EDATA, "%s: killed by signal %d (%s)", command->argv[0], WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status))
        return zt_fail(command->ctx, ZT_EDATA, "%s%s: exit status %d%s", command->prepares ? "--prepare: " : "", command->argv[0],
                       WEXITSTATUS(status), command->prepares ? "" : " (--ignore-failure measures it)");
    return ZT_OK;
}

static double seconds_of(struct timeval time) { return (double)time.tv_sec + (double)time.tv_usec * 1e-6; }

static zt_status run_once(zt_cli *cli, const bench_options *options, const bench_line *command, run_cost *cost)
{
    struct rusage usage = {0};
    double start;
    if (cli->verbose) zt_progress_clear(cli); /* what the command writes comes to the same place */
    pid_t pid = bench_start(command, -1, cli->verbose > 0, &start);
    if (pid < 0) return zt_ctx_status(cli->ctx);
    zt_status status = bench_wait(command, pid, options->ignore_failure && !command->prepares, &usage);
    cost->wall = zt_seconds() - start;
    cost->user = seconds_of(usage.ru_utime);
    cost->sys = seconds_of(usage.ru_stime);
    cost->peak = (double)usage.ru_maxrss * 1024;
    return status;
}

/* ---- samples --------------------------------------------------------------------------------- */

enum { N_ROWS = 4 };
static const struct {
    const char *test, *unit;
} rows[N_ROWS] = {{"wall", "s"}, {"user", "s"}, {"sys", "s"}, {"peak", "bytes"}};

/* What is measured together: a command, or two, and what runs before each run of them. */
typedef struct run_subject {
    bench_line commands[2], prepare;
    const char *variant; /* of --parameter-scan: " NAME=VALUE"; else "" */
} run_subject;

static zt_status add_rows(zt_ctx *ctx, bench_list *list, const char *variant, int64_t most, bench_result *row[N_ROWS])
{
    zt_str name;
    zt_str_init(&name, ctx);
    for (int i = 0; i < N_ROWS; i++) {
        zt_str_clear(&name);
        zt_str_printf(&name, "%s%s", rows[i].test, variant);
        if (!name.data || !(row[i] = bench_add(ctx, list, name.data, 0, rows[i].unit, most))) break;
    }
    zt_str_fini(&name);
    return zt_ctx_status(ctx);
}

static void put_sample(bench_result *const row[N_ROWS], const run_cost *cost)
{
    const double value[N_ROWS] = {cost->wall, cost->user, cost->sys, cost->peak};
    for (int i = 0; i < N_ROWS; i++) row[i]->samples[row[i]->count++] = value[i];
}

/* A run of a side, behind --prepare, whose time and memory do not count. */
static zt_status run_prepared(zt_cli *cli, const bench_options *options, const run_subject *subject, int side, run_cost *cost)
{
    run_cost ignored;
    zt_status status = zt_cli_interrupted() ? ZT_EINTR : ZT_OK;
    if (!status && subject->prepare.argv) status = run_once(cli, options, &subject->prepare, &ignored);
    return status ? status : run_once(cli, options, &subject->commands[side], cost);
}

/* --warmup rounds, and then samples in turn. */
static zt_status take_samples(zt_cli *cli, const bench_options *options, const run_subject *subject, int sides, bench_list *lists)
{
    int64_t reps = options->reps;
    bench_result *row[2][N_ROWS] = {{0}};
    zt_status status = ZT_OK;
    for (int k = 0; k < sides && !status; k++)
        status = add_rows(cli->ctx, &lists[k], subject->variant, bench_most(options), row[k]);
    for (int64_t i = -options->warmup; i < reps && !status; i++) {
        for (int turn = 0; turn < sides && !status; turn++) {
            int k = bench_turn(sides, i, turn);
            run_cost now = {0};
            status = run_prepared(cli, options, subject, k, &now);
            if (!status && i >= 0) put_sample(row[k], &now);
        }
        zt_progress(cli, &(zt_work){"run", subject->commands[0].name, "runs", (double)(i + options->warmup + 1),
                                    (double)(reps + options->warmup)});
        if (!status && i + 1 == reps) status = bench_more_of(cli, options, lists, &reps);
    }
    return status;
}

/* ---- the command ------------------------------------------------------------------------------ */

static void free_subject(run_subject *subject)
{
    for (int k = 0; k < 2; k++) bench_line_free(&subject->commands[k]);
    bench_line_free(&subject->prepare);
}

/* The words of the command line, with values of parameters in them. */
static zt_status open_subject(zt_cli *cli, const bench_options *options, char **word, int word_count, run_subject *subject)
{
    zt_ctx *ctx = cli->ctx;
    zt_status status = options->prepare ? bench_line_of(ctx, word[word_count], &subject->prepare) : ZT_OK;
    if (status) return status;
    subject->prepare.prepares = true;
    if (!options->vs) return command_of_words(ctx, word, word_count, &subject->commands[0]);
    status = bench_line_of(ctx, word[0], &subject->commands[0]);
    return status ? status : bench_line_of(ctx, word[1], &subject->commands[1]);
}

/* Measures one variant of the command. words: [word_count], and behind them that of --prepare, or NULL. */
static zt_status measure_variant(zt_cli *cli, const bench_options *options, char **words, int word_count, const char *variant,
                                 bench_list *lists)
{
    run_subject subject = {.variant = variant};
    zt_status status = open_subject(cli, options, words, word_count, &subject);
    if (!status) status = take_samples(cli, options, &subject, bench_sides(options), lists);
    free_subject(&subject);
    return status;
}

static zt_status measure_variants(zt_cli *cli, const bench_options *options, char **words, int word_count, bench_list *lists)
{
    bench_scan *scan = bench_scan_open(cli->ctx, &options->parameter_scan, words, word_count + 1);
    zt_status status = scan ? ZT_OK : zt_ctx_status(cli->ctx);
    while (!status && bench_scan_next(scan))
        status = measure_variant(cli, options, bench_scan_words(scan), word_count, bench_scan_name(scan), lists);
    if (!status) status = zt_ctx_status(cli->ctx);
    bench_scan_close(scan);
    return status;
}

/* The name of a side in the results: the command as it was given. */
static zt_status name_commands(zt_cli *cli, const bench_options *options, char **word, int word_count, bench_list *lists)
{
    bench_line whole = {0};
    zt_status status = options->vs ? ZT_OK : command_of_words(cli->ctx, word, word_count, &whole);
    for (int k = 0; k < bench_sides(options) && !status; k++)
        if (!(lists[k].command = zt_strdup(cli->ctx, options->vs ? word[k] : whole.name))) status = zt_ctx_status(cli->ctx);
    bench_line_free(&whole);
    return status;
}

zt_status bench_run(zt_cli *cli, const bench_options *options)
{
    int word_count = cli->n_operands - 1;
    bench_list lists[2] = {{0}};
    if (word_count < 1) return zt_fail(cli->ctx, ZT_EUSAGE, "no command, expected: zt-bench run -- COMMAND");
    if (options->vs && word_count != 2)
        return zt_fail(cli->ctx, ZT_EUSAGE, "run --vs needs two commands, each quoted as one argument, got %d", word_count);
    if (options->vs && options->parameter_scan.n) return zt_fail(cli->ctx, ZT_EUSAGE, "--parameter-scan does not apply to --vs");
    char **words = zt_calloc(cli->ctx, (size_t)word_count + 2, sizeof *words);
    if (!words) return zt_ctx_status(cli->ctx);
    memcpy(words, cli->operands + 1, (size_t)word_count * sizeof *words);
    words[word_count] = (char *)options->prepare; /* only read */
    zt_status status = name_commands(cli, options, words, word_count, lists);
    if (!status) status = measure_variants(cli, options, words, word_count, lists);
    if (!status) status = bench_answer(cli, options, lists);
    for (int i = 0; i < 2; i++) bench_list_free(cli->ctx, &lists[i]);
    zt_free(cli->ctx, words);
    return status;
}
