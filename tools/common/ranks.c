/* ranks.c - a tool that mpirun started several times: one of them prints, and a failure is one line. */
#include "tools/common/internal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* mpirun sends SIGTERM to the others when a rank dies, and SIGKILL a second later, but at once after another of them has ended:
 * its sleep ends with SIGCHLD. So the other ranks let rank 0 end first. */
static char last_words[256];
static size_t last_words_length;

static void on_termination(int sig)
{
    enum { PATIENCE_MS = 5000 };
    (void)sig;
    if (last_words_length)
        (void)!write(STDERR_FILENO, last_words, last_words_length);
    else
        poll(NULL, 0, PATIENCE_MS);
    _exit(128 + SIGTERM);
}

static void catch_termination(const zt_cli *cli)
{
    struct sigaction action = {.sa_handler = on_termination};
    if (!zt_ranks_started_as())
        last_words_length =
            (size_t)snprintf(last_words, sizeof last_words,
                             "%.64s: mpirun ended the job: a rank died, or the job was cancelled\n", cli->tool->name);
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
}

/* mpirun passes on what is written through a pseudo-terminal. */
bool zt_cli_on_terminal(void) { return isatty(STDOUT_FILENO) && !zt_ranks_started(); }

/* What rank 0 prints is printed once. */
static zt_status silence(zt_cli *cli)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    bool silent = null >= 0 && dup2(null, STDOUT_FILENO) >= 0;
    if (null > STDERR_FILENO) close(null);
    cli->quiet = true;
    cli->progress = 2;
    zt_log_set(cli->ctx, ZT_LOG_WARN, NULL, NULL);
    return silent ? ZT_OK : zt_fail(cli->ctx, ZT_ESYS, "/dev/null: cannot be opened: %m");
}

zt_status zt_cli_join(zt_cli *cli)
{
    if (zt_ranks_started() <= 1 || cli->ranks) return ZT_OK;
    catch_termination(cli);
    cli->ranks = zt_ranks_open(cli->ctx);
    if (!cli->ranks) return zt_ctx_status(cli->ctx);
    return zt_ranks_own(cli->ranks) ? silence(cli) : ZT_OK;
}

zt_status zt_cli_refuse_ranks(zt_cli *cli, const char *what)
{
    if (zt_ranks_started() <= 1) return ZT_OK;
    return zt_fail(cli->ctx, ZT_EUSAGE, "%s does not run on several ranks (mpirun started %d)", what, zt_ranks_started());
}

/* Another rank than 0 leaves its message to it. What mpirun does not end has to print it. */
void zt_ranks_failed(zt_cli *cli, zt_status status)
{
    enum { JOINED = 10, ALONE = 2 };
    if (!zt_ranks_started_as()) return;
    if (cli->ranks)
        zt_ranks_report(cli->ranks, status, zt_ctx_error(cli->ctx), JOINED);
    else
        sleep(ALONE);
}
