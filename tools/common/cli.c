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

int zt_exit_code(zt_status status)
{
    static const unsigned char code[ZT_STATUS_COUNT] = {
        [ZT_OK] = 0,    [ZT_EUSAGE] = 64, [ZT_EDATA] = 65,   [ZT_ESHAPE] = 65, [ZT_ENOENT] = 66, [ZT_ENOTSUP] = 69,
        [ZT_EBUG] = 70, [ZT_ESYS] = 71,   [ZT_ECREATE] = 73, [ZT_EIO] = 74,    [ZT_ENOMEM] = 75, [ZT_EINTR] = 130,
    };
    return (unsigned)status < ZT_STATUS_COUNT ? code[status] : 70;
}

static zt_cli_state *get_state(zt_cli *cli) { return (zt_cli_state *)cli; }

/* ---- messages -------------------------------------------------------------------------------- */

/* One line, whatever was in the message, and one write. */
static void print_line(zt_cli_state *state, const char *text)
{
    enum { MOST = 4096 };
    char line[MOST + 128], *end = line;
    zt_progress_erase(state);
    end += snprintf(line, 100, "%.64s: ", state->cli.tool->name);
    zt_escape(end, MOST, text, strlen(text));
    fprintf(stderr, "%s\n", line);
}

static void log_line(void *user, zt_level level, const char *line)
{
    (void)level;
    print_line(user, line);
}

void zt_cli_note(zt_cli *cli, const char *format, ...)
{
    char text[2048];
    if (cli->quiet) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    print_line(get_state(cli), text);
}

void zt_cli_no(zt_cli *cli) { get_state(cli)->answer_no = true; }

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
    zt_cli_state *state = get_state(cli);
    char shown[128];
    if (!path) return ZT_OK;
    for (int i = 0; i < state->claim_count; i++)
        if (strcmp(path, state->claims[i].path) == 0)
            return zt_fail(cli->ctx, ZT_EUSAGE, "%s and %s name the same file, '%s'", state->claims[i].option, option,
                           zt_escape(shown, sizeof shown, path, strlen(path)));
    if (state->claim_count == (int)(sizeof state->claims / sizeof *state->claims))
        return zt_fail(cli->ctx, ZT_EBUG, "too many outputs");
    state->claims[state->claim_count++] = (zt_cli_claimed){path, option};
    if (strcmp(path, "-") != 0) return ZT_OK;
    state->stdout_taken = true;
    if (zt_cli_on_terminal()) cli->progress = 2; /* it is not written through here: a bar would be left before it */
    return ZT_OK;
}

zt_status zt_cli_write(zt_cli *cli, const void *bytes, size_t size)
{
    zt_cli_state *state = get_state(cli);
    FILE *stream = state->stdout_taken ? stderr : stdout;
    bool bar = size && state->drawn && (stream == stderr || zt_cli_on_terminal());
    if (bar) zt_progress_erase(state);
    errno = 0;
    if (size && fwrite(bytes, 1, size, stream) != size) return stdout_failed(cli, errno);
    return bar ? zt_cli_flush(cli) : ZT_OK; /* before the next bar is drawn */
}

zt_status zt_cli_flush(zt_cli *cli)
{
    return fflush(get_state(cli)->stdout_taken ? stderr : stdout) ? stdout_failed(cli, errno) : ZT_OK;
}

zt_status zt_cli_refuse_terminal(zt_cli *cli, const char *what)
{
    if (!zt_cli_on_terminal()) return ZT_OK;
    return zt_fail(cli->ctx, ZT_EUSAGE, "%s cannot be written to a terminal: redirect stdout", what);
}

zt_status zt_cli_refuse_same(zt_cli *cli, const char *in, const char *out)
{
    struct stat input_info, output_info;
    if (!in || !out || strcmp(out, "-") == 0 || stat(out, &output_info) != 0 || !S_ISREG(output_info.st_mode)) return ZT_OK;
    int failed = strcmp(in, "-") == 0 ? fstat(STDIN_FILENO, &input_info) : stat(in, &input_info);
    if (failed || input_info.st_dev != output_info.st_dev || input_info.st_ino != output_info.st_ino) return ZT_OK;
    return zt_fail(cli->ctx, ZT_ECREATE, "%s: is an input file and cannot be the output", out);
}

/* ---- signals --------------------------------------------------------------------------------- */

static atomic_int sigint_arrived; /* a signal handler has no other place to leave word */

static void on_interrupt(int sig)
{
    (void)sig;
    atomic_store(&sigint_arrived, 1);
}

bool zt_cli_interrupted(void) { return atomic_load(&sigint_arrived) != 0; }

/* The first SIGINT sets the flag and ends waits; the second kills. Where it was ignored when we
 * came (nohup, a job in the background) it stays so. */
static void catch_interrupt(void)
{
    struct sigaction previous, action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGINT, NULL, &previous) == 0 && previous.sa_handler != SIG_IGN) sigaction(SIGINT, &action, NULL);
}

/* A write of ours that it cut short was told of; one of a line editor's leaves its mark on stdout. */
void zt_cli_resume(void)
{
    if (zt_cli_interrupted()) {
        clearerr(stdout);
        catch_interrupt();
    }
    atomic_store(&sigint_arrived, 0);
}

/* ---- begin ----------------------------------------------------------------------------------- */

/* A descriptor that was closed when we came must not become a model or an output. The one put in
 * its place cannot be used in the direction that is meant, so that writing still fails. */
static void hold_standard_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

static zt_status choose_isa(zt_cli_state *state)
{
    const char *env = getenv("ZT_ISA"), *origin = "--isa";
    char shown[64];
    state->cli.isa = zt_isa_best();
    if (!(state->cli.tool->shared & ZT_SHARE_ENGINE)) return ZT_OK;
    zt_isa wanted = state->cli.isa;
    if (state->isa_given) {
        wanted = state->isa_text ? wanted : (zt_isa)state->isa;
    } else if (env && *env) {
        origin = "ZT_ISA";
        if (!zt_isa_parse(env, &wanted))
            return zt_fail(state->cli.ctx, ZT_EUSAGE, "ZT_ISA: '%s' is not one of scalar|avx2|avx512|neon|dotprod",
                           zt_escape(shown, sizeof shown, env, strlen(env)));
    }
    if (!zt_isa_has(wanted))
        return zt_fail(state->cli.ctx, ZT_ENOTSUP, "%s %s: this processor supports at most %s", origin, zt_isa_name(wanted),
                       zt_isa_name(state->cli.isa));
    state->cli.isa = wanted;
    return ZT_OK;
}

/* 1 or 2 from here on: "auto" asks whether anybody looks. */
static void choose_looks(zt_cli *cli)
{
    const char *no_color = getenv("NO_COLOR");
    if (cli->color == 0) cli->color = zt_cli_on_terminal() && !(no_color && *no_color) ? 1 : 2;
    if (cli->progress == 0) cli->progress = isatty(STDERR_FILENO) && !cli->quiet ? 1 : 2;
}

/* --format as the tool's own table of words has it: with tables all forms, without two. */
static zt_status choose_format(zt_cli_state *state)
{
    if (state->cli.tool->shared & ZT_SHARE_FORMAT)
        state->cli.format = (zt_format)state->format;
    else if (state->format_given && !state->version)
        return zt_fail(state->cli.ctx, ZT_EUSAGE, "option '--format' applies only to --version");
    else
        state->cli.format = state->format ? ZT_FMT_JSON : ZT_FMT_AUTO;
    return ZT_OK;
}

static zt_status apply_settings(zt_cli_state *state)
{
    zt_cli *cli = &state->cli;
    zt_status status = choose_isa(state);
    if (!status && state->cli.tool->shared & ZT_SHARE_PAIR) status = zt_pair_settle(state);
    if (status) return status;
    choose_looks(cli);
    zt_level up_to = cli->verbose > 1 ? ZT_LOG_DEBUG : cli->verbose ? ZT_LOG_INFO : ZT_LOG_WARN;
    zt_log_set(cli->ctx, up_to, cli->quiet ? NULL : log_line, state);
    return ZT_OK;
}

static zt_cli_state *state_new(const zt_tool *tool)
{
    zt_cli_state *state = calloc(1, sizeof *state);
    zt_ctx *ctx = zt_ctx_new();
    if (!state || !ctx) {
        fprintf(stderr, "%s: out of memory\n", tool->name);
        exit(zt_exit_code(ZT_ENOMEM));
    }
    state->cli.tool = tool;
    state->cli.ctx = ctx;
    state->cli.engine = "auto";
    return state;
}

zt_cli *zt_cli_open(const zt_tool *tool, int argc, char **argv)
{
    hold_standard_streams();
    zt_cli_state *state = state_new(tool);
    bool done = true;
    zt_status status = zt_options_parse(state, argc, argv);
    if (status == ZT_OK) status = choose_format(state);
    if (status == ZT_OK && state->help)
        status = zt_print_help(state);
    else if (status == ZT_OK && state->completion_given)
        status = zt_print_completion(state);
    else if (status == ZT_OK && state->version)
        status = zt_print_version(state);
    else
        done = false;
    if (status == ZT_OK && !done) status = apply_settings(state);
    if (status == ZT_OK && !done && state->devices) {
        status = zt_print_devices(state);
        done = true;
    }
    if (status == ZT_OK && !done) status = zt_cli_sandbox(state);
    if (status == ZT_OK && !done) zt_mem_limit(state->cli.ctx, state->cli.mem_limit);
    if (status == ZT_OK && !done) catch_interrupt();
    if (status || done) exit(zt_cli_close(&state->cli, status));
    return &state->cli;
}

/* ---- end ------------------------------------------------------------------------------------- */

/* Data may still be in stdio's buffer, and NFS reports some failures only on close. A stdout that
 * was closed from the start is no failure as long as nothing was written. */
static zt_status close_stdout(zt_cli *cli)
{
    bool failed = ferror(stdout) != 0;
    errno = 0;
    if (fflush(stdout) || failed) return stdout_failed(cli, errno ? errno : EIO);
    if (fclose(stdout) && errno != EBADF) return stdout_failed(cli, errno);
    return ZT_OK;
}

void zt_cli_report(zt_cli *cli, zt_status status)
{
    zt_cli_state *state = get_state(cli);
    const char *error = zt_ctx_error(cli->ctx);
    zt_progress_erase(state);
    print_line(state, *error ? error : zt_status_name(status));
    zt_ctx_clear(cli->ctx);
    state->reported = true;
}

/* Leaves the other ranks, with nothing left to write. */
static zt_status close_ranks(zt_cli *cli)
{
    zt_status status = cli->ranks ? zt_cli_flush(cli) : ZT_OK;
    if (!status) zt_ranks_close(cli->ranks);
    return status;
}

int zt_cli_close(zt_cli *cli, zt_status status)
{
    zt_cli_state *state = get_state(cli);
    zt_progress_erase(state);
    if (!status) status = close_ranks(cli);
    if (status) {
        const char *error = zt_ctx_error(cli->ctx);
        zt_ranks_failed(cli, status);
        if (*error || !state->reported) print_line(state, *error ? error : zt_status_name(status));
        close_stdout(cli); /* the first failure has been told */
    } else {
        zt_ctx_clear(cli->ctx);
        status = close_stdout(cli);
        if (status) print_line(state, zt_ctx_error(cli->ctx));
    }
    int code = status == ZT_OK && state->answer_no ? 1 : zt_exit_code(status);
    zt_options_free(state);
    zt_ctx_free(cli->ctx);
    free(state);
    return code;
}
