/* cli.c - a tool's beginning and end: options, signals, messages, stdout, exit codes. */
#include "tools/common/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int zt_exit_code(zt_status s)
{
    static const unsigned char code[ZT_STATUS_COUNT] = {
        [ZT_OK] = 0,      [ZT_EUSAGE] = 64,  [ZT_EDATA] = 65, [ZT_ESHAPE] = 65,
        [ZT_ENOENT] = 66, [ZT_ENOTSUP] = 69, [ZT_EBUG] = 70,  [ZT_ESYS] = 71,
        [ZT_ECREATE] = 73, [ZT_EIO] = 74,    [ZT_ENOMEM] = 75, [ZT_EINTR] = 130,
    };
    return (unsigned)s < ZT_STATUS_COUNT ? code[s] : 70;
}

static zt_cli_state *state_of(zt_cli *cli)
{
    return (zt_cli_state *)cli;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* One line, whatever was in the message, and one write. */
static void say(zt_cli_state *st, const char *text)
{
    enum { MOST = 4096 };
    char line[MOST + 128], *at = line;
    zt_progress_erase(st);
    at += snprintf(line, 100, "%.64s: ", st->pub.tool->name);
    zt_escape(at, MOST, text, strlen(text));
    fprintf(stderr, "%s\n", line);
}

static void log_line(void *user, zt_level level, const char *line)
{
    (void)level;
    say(user, line);
}

void zt_cli_note(zt_cli *cli, const char *fmt, ...)
{
    char text[2048];
    if (cli->quiet)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say(state_of(cli), text);
}

void zt_cli_no(zt_cli *cli)
{
    state_of(cli)->no = true;
}

/* ---- stdout ---------------------------------------------------------------------------------- */

static zt_status stdout_failed(zt_cli *cli, int error)
{
    if (error == EINTR) {
        clearerr(stdout); /* stdout is as good as before */
        return zt_fail(cli->ctx, ZT_EINTR, "interrupted");
    }
    return zt_fail(cli->ctx, ZT_EIO, "stdout: %s", strerror(error));
}

zt_status zt_cli_claim(zt_cli *cli, const char *path, const char *option)
{
    zt_cli_state *st = state_of(cli);
    char shown[128];
    if (!path)
        return ZT_OK;
    for (int i = 0; i < st->n_claims; i++)
        if (strcmp(path, st->claim[i].path) == 0)
            return zt_fail(cli->ctx, ZT_EUSAGE, "%s and %s are one file, '%s'", st->claim[i].option, option,
                           zt_escape(shown, sizeof shown, path, strlen(path)));
    if (st->n_claims == (int)(sizeof st->claim / sizeof *st->claim))
        return zt_fail(cli->ctx, ZT_EBUG, "more outputs than a tool has");
    st->claim[st->n_claims++] = (zt_cli_claimed){path, option};
    if (strcmp(path, "-") != 0)
        return ZT_OK;
    st->stdout_taken = true;
    if (isatty(STDOUT_FILENO))
        cli->progress = 2; /* it is not written through here: a bar would be left before it */
    return ZT_OK;
}

zt_status zt_cli_write(zt_cli *cli, const void *bytes, size_t n)
{
    zt_cli_state *st = state_of(cli);
    FILE *to = st->stdout_taken ? stderr : stdout;
    bool bar = n && st->drawn && (to == stderr || isatty(STDOUT_FILENO));
    if (bar)
        zt_progress_erase(st);
    errno = 0;
    if (n && fwrite(bytes, 1, n, to) != n)
        return stdout_failed(cli, errno);
    return bar ? zt_cli_flush(cli) : ZT_OK; /* before the next bar is drawn */
}

zt_status zt_cli_flush(zt_cli *cli)
{
    return fflush(state_of(cli)->stdout_taken ? stderr : stdout) ? stdout_failed(cli, errno) : ZT_OK;
}

zt_status zt_cli_refuse_terminal(zt_cli *cli, const char *what)
{
    if (!isatty(STDOUT_FILENO))
        return ZT_OK;
    return zt_fail(cli->ctx, ZT_EUSAGE, "%s will not be written to a terminal: redirect stdout",
                   what);
}

zt_status zt_cli_refuse_same(zt_cli *cli, const char *in, const char *out)
{
    struct stat a, b;
    if (!in || !out || strcmp(out, "-") == 0 || stat(out, &b) != 0 || !S_ISREG(b.st_mode))
        return ZT_OK;
    int failed = strcmp(in, "-") == 0 ? fstat(STDIN_FILENO, &a) : stat(in, &a);
    if (failed || a.st_dev != b.st_dev || a.st_ino != b.st_ino)
        return ZT_OK;
    return zt_fail(cli->ctx, ZT_ECREATE, "%s: is an input, and will not be overwritten", out);
}

/* ---- signals --------------------------------------------------------------------------------- */

static atomic_int interrupted; /* a signal handler has no other place to leave word */

static void on_interrupt(int sig)
{
    (void)sig;
    atomic_store(&interrupted, 1);
}

bool zt_cli_interrupted(void)
{
    return atomic_load(&interrupted) != 0;
}

/* The first SIGINT sets the flag and ends waits; the second kills. Where it was ignored when we
 * came (nohup, a job in the background) it stays so. */
static void catch_interrupt(void)
{
    struct sigaction was, now = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&now.sa_mask);
    if (sigaction(SIGINT, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
        sigaction(SIGINT, &now, NULL);
}

/* A write of ours that it cut short was told of; one of a line editor's leaves its mark on stdout. */
void zt_cli_resume(void)
{
    if (zt_cli_interrupted()) {
        clearerr(stdout);
        catch_interrupt();
    }
    atomic_store(&interrupted, 0);
}

/* ---- begin ----------------------------------------------------------------------------------- */

/* A descriptor that was closed when we came must not become a model or an output. The one put in
 * its place cannot be used in the direction that is meant, so that writing still fails. */
static void hold_standard_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

static zt_status choose_isa(zt_cli_state *st)
{
    const char *env = getenv("ZT_ISA"), *from = "--isa";
    char shown[64];
    st->pub.isa = zt_isa_best();
    if (!(st->pub.tool->shared & ZT_SHARE_ENGINE))
        return ZT_OK;
    zt_isa want = st->pub.isa;
    if (st->isa_given) {
        want = st->isa_text ? want : (zt_isa)st->isa;
    } else if (env && *env) {
        from = "ZT_ISA";
        if (!zt_isa_parse(env, &want))
            return zt_fail(st->pub.ctx, ZT_EUSAGE, "ZT_ISA: '%s' is not one of scalar|avx2|avx512",
                           zt_escape(shown, sizeof shown, env, strlen(env)));
    }
    if (want > st->pub.isa)
        return zt_fail(st->pub.ctx, ZT_ENOTSUP, "%s %s: this processor has at most %s", from,
                       zt_isa_name(want), zt_isa_name(st->pub.isa));
    st->pub.isa = want;
    return ZT_OK;
}

/* 1 or 2 from here on: "auto" asks whether anybody looks. */
static void choose_looks(zt_cli *cli)
{
    const char *no_color = getenv("NO_COLOR");
    if (cli->color == 0)
        cli->color = isatty(STDOUT_FILENO) && !(no_color && *no_color) ? 1 : 2;
    if (cli->progress == 0)
        cli->progress = isatty(STDERR_FILENO) && !cli->quiet ? 1 : 2;
}

/* --format as the tool's own table of words has it: with tables all forms, without two. */
static zt_status choose_format(zt_cli_state *st)
{
    if (st->pub.tool->shared & ZT_SHARE_FORMAT)
        st->pub.format = (zt_format)st->format;
    else if (st->format_given && !st->version)
        return zt_fail(st->pub.ctx, ZT_EUSAGE, "option '--format' goes with --version only");
    else
        st->pub.format = st->format ? ZT_FMT_JSON : ZT_FMT_AUTO;
    return ZT_OK;
}

static zt_status store_fence(zt_cli_state *st)
{
    zt_cli *cli = &st->pub;
    zt_status s = choose_isa(st);
    if (!s && st->pub.tool->shared & ZT_SHARE_PAIR)
        s = zt_pair_settle(st);
    if (s)
        return s;
    choose_looks(cli);
    zt_mem_limit(cli->ctx, cli->mem_limit);
    zt_level up_to = cli->verbose > 1 ? ZT_LOG_DEBUG : cli->verbose ? ZT_LOG_INFO : ZT_LOG_WARN;
    zt_log_set(cli->ctx, up_to, cli->quiet ? NULL : log_line, st);
    catch_interrupt();
    return ZT_OK;
}

static zt_cli_state *state_new(const zt_tool *tool)
{
    zt_cli_state *st = calloc(1, sizeof *st);
    zt_ctx *ctx = zt_ctx_new();
    if (!st || !ctx) {
        fprintf(stderr, "%s: out of memory\n", tool->name);
        exit(zt_exit_code(ZT_ENOMEM));
    }
    st->pub.tool = tool;
    st->pub.ctx = ctx;
    st->pub.engine = "auto";
    return st;
}

zt_cli *zt_cli_open(const zt_tool *tool, int argc, char **argv)
{
    hold_standard_streams();
    zt_cli_state *st = state_new(tool);
    bool done = true;
    zt_status s = zt_options_parse(st, argc, argv);
    if (s == ZT_OK)
        s = choose_format(st);
    if (s == ZT_OK && st->help)
        s = zt_print_help(st);
    else if (s == ZT_OK && st->completion_given)
        s = zt_print_completion(st);
    else if (s == ZT_OK && st->version)
        s = zt_print_version(st);
    else
        done = false;
    if (s == ZT_OK && !done)
        s = store_fence(st);
    if (s || done)
        exit(zt_cli_close(&st->pub, s));
    return &st->pub;
}

/* ---- end ------------------------------------------------------------------------------------- */

/* Data may still be in stdio's buffer, and NFS reports some failures only on close. A stdout that
 * was closed from the start is no failure as long as nothing was written. */
static zt_status close_stdout(zt_cli *cli)
{
    bool bad = ferror(stdout) != 0;
    errno = 0;
    if (fflush(stdout) || bad)
        return stdout_failed(cli, errno ? errno : EIO);
    if (fclose(stdout) && errno != EBADF)
        return stdout_failed(cli, errno);
    return ZT_OK;
}

void zt_cli_report(zt_cli *cli, zt_status s)
{
    zt_cli_state *st = state_of(cli);
    const char *error = zt_ctx_error(cli->ctx);
    zt_progress_erase(st);
    say(st, *error ? error : zt_status_name(s));
    zt_ctx_clear(cli->ctx);
    st->reported = true;
}

int zt_cli_close(zt_cli *cli, zt_status s)
{
    zt_cli_state *st = state_of(cli);
    zt_progress_erase(st);
    if (s) {
        const char *error = zt_ctx_error(cli->ctx);
        if (*error || !st->reported)
            say(st, *error ? error : zt_status_name(s));
        close_stdout(cli); /* the first failure has been told */
    } else {
        zt_ctx_clear(cli->ctx);
        s = close_stdout(cli);
        if (s)
            say(st, zt_ctx_error(cli->ctx));
    }
    int code = s == ZT_OK && st->no ? 1 : zt_exit_code(s);
    zt_options_free(st);
    zt_ctx_free(cli->ctx);
    free(st);
    return code;
}
