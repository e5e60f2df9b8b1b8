/* score_command.c - scores by a shell command: each file in a process group of its own, which is ended with the command, after
 * the time limit, or when we are interrupted. */
#include "tools/zt-dna/score.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT = 4096, TICK_MS = 20 };

/* After SIGTERM a group has this long before SIGKILL. */
#define GRACE_S 1.0

typedef struct worker {
    pid_t pid;        /* 0: idle */
    int output, exit; /* a pipe; a pidfd, -1 where the system has none */
    int job;
    double deadline, kill_at; /* by zt_seconds; 0: none */
    bool timed_out;
    size_t size;
    char text[OUTPUT + 1];
} worker;

typedef struct command_scorer {
    dna_scorer scorer; /* first: the interface */
    zt_cli *cli;
    dna_command_opts options;
    worker *workers;
    struct pollfd *events; /* [2 * workers] */
} command_scorer;

/* ---- the command line ------------------------------------------------------------------------ */

/* 'it'\''s'; a name that begins with '-' is one of the current directory. */
static zt_status put_quoted(zt_str *out, const char *path)
{
    zt_str_puts(out, *path == '-' ? "'./" : "'");
    for (; *path; path++)
        if (*path == '\'')
            zt_str_puts(out, "'\\''");
        else
            zt_str_putc(out, *path);
    return zt_str_putc(out, '\'');
}

/* The length of {}, '{}' or "{}" at the text; 0: it is none of them. */
static size_t find_mark(const char *text)
{
    if (!strncmp(text, "{}", 2)) return 2;
    return !strncmp(text, "'{}'", 4) || !strncmp(text, "\"{}\"", 4) ? 4 : 0;
}

static zt_status expand_command(const char *command, const char *path, zt_str *out)
{
    zt_status status = ZT_OK;
    while (*command && status == ZT_OK) {
        size_t mark = find_mark(command);
        status = mark ? put_quoted(out, path) : zt_str_putc(out, *command);
        command += mark ? mark : 1;
    }
    return status;
}

/* ---- processes ------------------------------------------------------------------------------- */

/* In the child: only what may be called after fork. */
static _Noreturn void run_shell(const char *command, int output)
{
    sigset_t none;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int input = open("/dev/null", O_RDONLY);
    if (input >= 0) dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static zt_status fail_errno(command_scorer *state, const char *what)
{
    return zt_fail(state->cli->ctx, ZT_EIO, "--fitness: %s: %s", what, strerror(errno));
}

static zt_status start_worker(command_scorer *state, worker *unit, const char *command)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return fail_errno(state, "cannot create a pipe");
    pid_t pid = fork();
    if (pid == 0) run_shell(command, ends[1]);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return fail_errno(state, "cannot start a process");
    }
    setpgid(pid, pid); /* whoever of the two comes first */
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *unit = (worker){.pid = pid, .output = ends[0], .exit = (int)syscall(SYS_pidfd_open, pid, 0)};
    if (state->options.timeout > 0) unit->deadline = zt_seconds() + state->options.timeout;
    return ZT_OK;
}

/* Reads what there is; the rest of a long output is discarded. */
static void read_output(worker *unit)
{
    char waste[OUTPUT];
    for (;;) {
        size_t room = OUTPUT - unit->size;
        ssize_t got = read(unit->output, room ? unit->text + unit->size : waste, room ? room : sizeof waste);
        if (got <= 0) {
            bool ended = got == 0 || (errno != EAGAIN && errno != EINTR);
            if (ended) close(unit->output);
            if (ended) unit->output = -1;
            return;
        }
        if (room) unit->size += (size_t)got;
    }
}

/* Has the command ended? Its process stays until it is reaped, so that its group's number is not another's. */
static bool has_ended(const worker *unit)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)unit->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == unit->pid;
}

static void judge_worker(worker *unit, int wait_status, double timeout, dna_score *score)
{
    *score = (dna_score){.kind = DNA_SCORE_FAILED};
    if (unit->timed_out) {
        score->kind = DNA_SCORE_TIMEOUT;
        snprintf(score->reason, sizeof score->reason, "no result after %g s", timeout);
    } else if (WIFSIGNALED(wait_status)) {
        const char *name = sigabbrev_np(WTERMSIG(wait_status));
        snprintf(score->reason, sizeof score->reason, "killed by signal %d (SIG%s)", WTERMSIG(wait_status), name ? name : "?");
    } else if (WEXITSTATUS(wait_status)) {
        snprintf(score->reason, sizeof score->reason, "exit status %d", WEXITSTATUS(wait_status));
    } else if (unit->size == OUTPUT) {
        score->kind = DNA_SCORE_INVALID;
        snprintf(score->reason, sizeof score->reason, "output of %d bytes or more: must be one number", OUTPUT);
    } else {
        dna_score_parse(unit->text, unit->size, score);
    }
}

/* Ends what is left of the group, and takes the result. */
static void reap_worker(worker *unit, double timeout, dna_score *score)
{
    int wait_status = 0;
    kill(-unit->pid, SIGKILL);
    if (unit->output >= 0) read_output(unit);
    while (waitpid(unit->pid, &wait_status, 0) < 0 && errno == EINTR) continue;
    judge_worker(unit, wait_status, timeout, score);
    if (unit->output >= 0) close(unit->output);
    if (unit->exit >= 0) close(unit->exit);
    unit->pid = 0;
}

static void end_group(worker *unit, double now)
{
    kill(-unit->pid, SIGTERM);
    unit->kill_at = now + GRACE_S;
}

static void check_deadline(worker *unit)
{
    double now = zt_seconds();
    if (unit->kill_at > 0 && now >= unit->kill_at) {
        kill(-unit->pid, SIGKILL);
        unit->kill_at = 0;
    } else if (unit->deadline > 0 && now >= unit->deadline) {
        unit->timed_out = true;
        unit->deadline = 0;
        end_group(unit, now);
    }
}

/* ---- the generation -------------------------------------------------------------------------- */

/* Milliseconds until something is due; at most half a second, for an interrupt that comes just before the wait. */
static int find_wait(const command_scorer *state)
{
    double now = zt_seconds(), first = now + 0.5;
    for (int i = 0; i < state->options.workers; i++) {
        const worker *unit = &state->workers[i];
        if (!unit->pid) continue;
        if (unit->deadline > 0 && unit->deadline < first) first = unit->deadline;
        if (unit->kill_at > 0 && unit->kill_at < first) first = unit->kill_at;
        if (unit->exit < 0 && now + TICK_MS / 1e3 < first) first = now + TICK_MS / 1e3;
    }
    return first <= now ? 0 : (int)((first - now) * 1e3) + 1;
}

/* Waits for output, for an end, for a deadline or for an interrupt. */
static void wait_for_workers(command_scorer *state)
{
    int count = 0;
    for (int i = 0; i < state->options.workers; i++) {
        const worker *unit = &state->workers[i];
        if (unit->pid && unit->output >= 0) state->events[count++] = (struct pollfd){.fd = unit->output, .events = POLLIN};
        if (unit->pid && unit->exit >= 0) state->events[count++] = (struct pollfd){.fd = unit->exit, .events = POLLIN};
    }
    if (!zt_cli_interrupted()) poll(state->events, (nfds_t)count, find_wait(state));
}

static int count_running(const command_scorer *state)
{
    int count = 0;
    for (int i = 0; i < state->options.workers; i++) count += state->workers[i].pid != 0;
    return count;
}

/* Ends all groups, and waits for them. */
static void stop_workers(command_scorer *state)
{
    double kill_at = zt_seconds() + GRACE_S;
    dna_score score;
    for (int i = 0; i < state->options.workers; i++)
        if (state->workers[i].pid) kill(-state->workers[i].pid, SIGTERM);
    while (count_running(state)) {
        for (int i = 0; i < state->options.workers; i++) {
            worker *unit = &state->workers[i];
            if (unit->pid && (has_ended(unit) || zt_seconds() > kill_at)) reap_worker(unit, 0, &score);
        }
        if (count_running(state)) poll(NULL, 0, TICK_MS);
    }
}

static zt_status start_job(command_scorer *state, worker *unit, const dna_job *job)
{
    zt_str command;
    zt_str_init(&command, state->cli->ctx);
    zt_status status = expand_command(state->options.command, job->path, &command);
    if (status == ZT_OK) status = start_worker(state, unit, command.data);
    zt_str_fini(&command);
    return status;
}

static zt_status score_jobs(dna_scorer *scorer, const dna_job *jobs, int count, dna_scored_fn *scored, void *user)
{
    command_scorer *state = (command_scorer *)scorer;
    zt_status status = ZT_OK;
    int next = 0;
    while (status == ZT_OK && (next < count || count_running(state))) {
        for (int i = 0; i < state->options.workers && next < count && status == ZT_OK; i++) {
            worker *unit = &state->workers[i];
            if (unit->pid) continue;
            status = start_job(state, unit, &jobs[next]);
            unit->job = next++;
        }
        if (status == ZT_OK) wait_for_workers(state);
        if (zt_cli_interrupted()) status = zt_fail(state->cli->ctx, ZT_EINTR, "interrupted");
        for (int i = 0; i < state->options.workers && status == ZT_OK; i++) {
            worker *unit = &state->workers[i];
            dna_score score;
            if (!unit->pid) continue;
            if (unit->output >= 0) read_output(unit);
            check_deadline(unit);
            if (!has_ended(unit)) continue;
            reap_worker(unit, state->options.timeout, &score);
            status = scored(user, jobs[unit->job].member, &score);
        }
    }
    stop_workers(state);
    return status;
}

static void close_scorer(dna_scorer *scorer)
{
    command_scorer *state = (command_scorer *)scorer;
    zt_free(state->cli->ctx, state->workers);
    zt_free(state->cli->ctx, state->events);
    zt_free(state->cli->ctx, state);
}

dna_scorer *dna_command_scorer(zt_cli *cli, const dna_command_opts *options)
{
    if (!strstr(options->command, "{}")) {
        zt_fail(cli->ctx, ZT_EUSAGE, "option '--fitness': the command has no {}, which stands for the file");
        return NULL;
    }
    command_scorer *state = zt_calloc(cli->ctx, 1, sizeof *state);
    if (!state) return NULL;
    *state = (command_scorer){.scorer = {score_jobs, close_scorer}, .cli = cli, .options = *options};
    state->workers = zt_calloc(cli->ctx, (size_t)options->workers, sizeof *state->workers);
    state->events = zt_calloc(cli->ctx, 2 * (size_t)options->workers, sizeof *state->events);
    if (state->workers && state->events) return &state->scorer;
    close_scorer(&state->scorer);
    return NULL;
}
