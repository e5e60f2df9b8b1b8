/* run.c - zt-bench run: what a command takes: wall time, processor time, memory.
 *
 * A command is started as execvp does, without a shell; with --vs there are two, each a line of
 * text that a shell reads where it has something for a shell in it.
 * Input is empty, output is thrown away (under -v it goes to stderr).
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

typedef struct spent {
    double wall, user, sys, peak; /* seconds, bytes */
} spent;

/* ---- words ----------------------------------------------------------------------------------- */

/* Has the line what a shell alone understands? */
static bool needs_shell(const char *line)
{
    return line[strcspn(line, "'\"\\|&;<>()$`*?[]#~=%{}!\n")] != 0;
}

/* The words of a line, between blanks; the strings lie in `text`, which is cut up. */
static int cut_words(char *text, char **word, int most)
{
    int n = 0;
    for (char *at = strtok(text, " \t"); at && n < most; at = strtok(NULL, " \t")) word[n++] = at;
    return n;
}

zt_status bench_line_of(zt_ctx *ctx, const char *line, bench_line *c)
{
    enum { MOST = 4096 };
    *c = (bench_line){.ctx = ctx, .name = zt_strdup(ctx, line), .text = zt_strdup(ctx, line)};
    c->argv = zt_calloc(ctx, MOST + 1, sizeof *c->argv);
    if (!c->name || !c->text || !c->argv) return zt_ctx_status(ctx);
    if (needs_shell(line)) {
        c->argv[0] = "/bin/sh";
        c->argv[1] = "-c";
        c->argv[2] = c->text;
    } else if (cut_words(c->text, c->argv, MOST) == 0)
        return zt_fail(ctx, ZT_EUSAGE, "a command is empty");
    return ZT_OK;
}

static zt_status command_of_words(zt_ctx *ctx, char **word, int n, bench_line *c)
{
    zt_str name;
    *c = (bench_line){.ctx = ctx, .argv = zt_calloc(ctx, (size_t)n + 1, sizeof *c->argv)};
    if (!c->argv) return zt_ctx_status(ctx);
    memcpy(c->argv, word, (size_t)n * sizeof *word);
    zt_str_init(&name, ctx);
    for (int i = 0; i < n; i++) zt_str_printf(&name, "%s%s", i ? " " : "", word[i]);
    c->name = name.data; /* zt_str's memory is zt_alloc's */
    return zt_ctx_status(ctx);
}

void bench_line_free(bench_line *c)
{
    if (!c->ctx) return;
    zt_free(c->ctx, c->argv);
    zt_free(c->ctx, c->name);
    zt_free(c->ctx, c->text);
}

/* ---- one run --------------------------------------------------------------------------------- */

/* What the child tells: when it let the program begin; errno, if there is none to begin. */
typedef struct told {
    double when; /* by zt_seconds, whose clock all processes share */
    int why;
} told;

/* In the child: input, output, the program. Only what a signal handler may call. */
static void become(const bench_line *c, int out, bool loud, int to)
{
    told t = {0};
    int null = open("/dev/null", O_RDWR);
    signal(SIGPIPE, SIG_DFL);
    if (null >= 0) {
        dup2(null, 0);
        dup2(out >= 0 ? out : loud ? 2 : null, 1);
        if (!loud) dup2(null, 2);
        t.when = zt_seconds();
        if (write(to, &t, sizeof t) == sizeof t) execvp(c->argv[0], c->argv);
    }
    t.why = errno;
    ssize_t n = write(to, &t, sizeof t); /* cut off, the parent sees an exit status of 127 */
    _exit(n == sizeof t ? 0 : 127);
}

static zt_status no_start(const bench_line *c, int why)
{
    bool absent = why == ENOENT || why == EACCES || why == ENOTDIR || why == ENOEXEC;
    return zt_fail(c->ctx, absent ? ZT_ENOENT : ZT_ESYS, "%s: %s", c->argv[0], strerror(why));
}

/* The last that the child tells; the program's beginning closes the child's end of the pipe. */
static told hear(int from)
{
    told last = {0}, t;
    ssize_t n;
    while ((n = read(from, &t, sizeof t)) == sizeof t || (n < 0 && errno == EINTR))
        if (n > 0) last = t;
    return last;
}

int bench_start(const bench_line *c, int out, bool loud, double *when)
{
    int fd[2];
    if (pipe2(fd, O_CLOEXEC)) {
        no_start(c, errno);
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0) become(c, out, loud, fd[1]);
    if (pid < 0) no_start(c, errno);
    close(fd[1]);
    told t = pid > 0 ? hear(fd[0]) : (told){0};
    close(fd[0]);
    *when = t.when;
    if (!t.why) return pid;
    waitpid(pid, NULL, 0);
    no_start(c, t.why);
    return -1;
}

zt_status bench_wait(const bench_line *c, int pid, bool any_end, struct rusage *u)
{
    int status = 0;
    bool passed_on = false;
    while (wait4(pid, &status, 0, u) < 0 && errno == EINTR)
        if (zt_cli_interrupted() && !passed_on) passed_on = !kill(pid, SIGINT);
    if (zt_cli_interrupted()) return ZT_EINTR;
    if (any_end) return ZT_OK;
    if (WIFSIGNALED(status))
        return zt_fail(c->ctx, ZT_EDATA, "%s: ended by signal %d (%s)", c->argv[0],
                       WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status))
        return zt_fail(c->ctx, ZT_EDATA, "%s: exit status %d (--ignore-failure measures it)",
                       c->argv[0], WEXITSTATUS(status));
    return ZT_OK;
}

static double seconds_of(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

static zt_status run_once(zt_cli *cli, const bench_options *o, const bench_line *c, spent *s)
{
    struct rusage u = {0};
    double start;
    if (cli->verbose) zt_progress_clear(cli); /* what the command writes comes to the same place */
    pid_t pid = bench_start(c, -1, cli->verbose > 0, &start);
    if (pid < 0) return zt_ctx_status(cli->ctx);
    zt_status st = bench_wait(c, pid, o->ignore_failure, &u);
    s->wall = zt_seconds() - start;
    s->user = seconds_of(u.ru_utime);
    s->sys = seconds_of(u.ru_stime);
    s->peak = (double)u.ru_maxrss * 1024;
    return st;
}

/* ---- samples --------------------------------------------------------------------------------- */

enum { N_ROWS = 4 };
static const struct {
    const char *test, *unit;
} rows[N_ROWS] = {{"wall", "s"}, {"user", "s"}, {"sys", "s"}, {"peak", "bytes"}};

static zt_status add_rows(zt_ctx *ctx, bench_list *l, const char *name, int64_t most,
                          bench_result *row[N_ROWS])
{
    l->command = zt_strdup(ctx, name);
    for (int i = 0; i < N_ROWS && l->command; i++)
        if (!(row[i] = bench_add(ctx, l, rows[i].test, 0, rows[i].unit, most))) break;
    return zt_ctx_status(ctx);
}

static void put_sample(bench_result *const row[N_ROWS], const spent *s)
{
    const double value[N_ROWS] = {s->wall, s->user, s->sys, s->peak};
    for (int i = 0; i < N_ROWS; i++) row[i]->samples[row[i]->n++] = value[i];
}

/* Each once to warm up, and then in turn. */
static zt_status sample(zt_cli *cli, const bench_options *o, const bench_line *c, int sides,
                        bench_list *l)
{
    int64_t reps = o->reps;
    bench_result *row[2][N_ROWS] = {{0}};
    zt_status s = ZT_OK;
    for (int k = 0; k < sides && !s; k++) s = add_rows(cli->ctx, &l[k], c[k].name, bench_most(o), row[k]);
    for (int64_t i = -1; i < reps && !s; i++) {
        for (int turn = 0; turn < sides && !s; turn++) {
            int k = bench_turn(sides, i, turn);
            spent now = {0};
            s = zt_cli_interrupted() ? ZT_EINTR : run_once(cli, o, &c[k], &now);
            if (!s && i >= 0) put_sample(row[k], &now);
        }
        zt_progress(cli, &(zt_work){"run", c[0].name, "runs", (double)(i + 2), (double)(reps + 1)});
        if (!s && i + 1 == reps) s = bench_more_of(cli, o, l, &reps);
    }
    return s;
}

zt_status bench_run(zt_cli *cli, const bench_options *o)
{
    int n = cli->n_operands - 1, sides = bench_sides(o);
    char **word = cli->operands + 1;
    bench_line c[2] = {{0}};
    bench_list l[2] = {{0}};
    if (n < 1) return zt_fail(cli->ctx, ZT_EUSAGE, "no command: zt-bench run -- COMMAND");
    if (o->vs && n != 2)
        return zt_fail(cli->ctx, ZT_EUSAGE, "run --vs takes two commands, each as one text, not %d",
                       n);
    zt_status s = o->vs ? bench_line_of(cli->ctx, word[0], &c[0])
                        : command_of_words(cli->ctx, word, n, &c[0]);
    if (!s && o->vs) s = bench_line_of(cli->ctx, word[1], &c[1]);
    if (!s) s = sample(cli, o, c, sides, l);
    if (!s) s = bench_answer(cli, o, l);
    for (int i = 0; i < 2; i++) {
        bench_line_free(&c[i]);
        bench_list_free(cli->ctx, &l[i]);
    }
    return s;
}
