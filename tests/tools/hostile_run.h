/* hostile_run.h - for tests: zt-run on files that mean it harm, in a folder of our own.
 *
 *     if (!hostile_open(argv[0])) ...                        // zt-run is not there
 *     outcome o = run(under("made.gguf"), GENERATE);         // zt-run -m .../made.gguf -p x -n 1
 *     ok(refused(&o, 65, size, "made"), ...);
 *     hostile_close();                                       // nothing was written; tidy
 *
 * Of each run it is demanded: no signal, never 70, an exit code of the contract, one line on stderr
 * without control characters, nothing on stdout, no file written, 2 seconds of processor time and
 * 64 MiB beyond the file's own size (the last two not under a sanitizer, which needs its own).
 */
#ifndef ZT_TEST_HOSTILE_RUN_H
#define ZT_TEST_HOSTILE_RUN_H

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/sanitized.h"
#include "tests/common/tap.h"

#define HOSTILE_FN __attribute__((unused)) static

#define MOST_SECONDS 2.0
#define MOST_MEMORY  (64 << 20)

static char tool[PATH_MAX]; /* the program */
static char harm_dir[4096]; /* our folder: work (where runs happen), err, out, sets */

static const char *under(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A path below our folder; good until the fourth call after it. */
HOSTILE_FN const char *under(const char *format, ...)
{
    static char path[4][8300];
    static int turn;
    char rest[4100];
    va_list ap;
    va_start(ap, format);
    vsnprintf(rest, sizeof rest, format, ap);
    va_end(ap);
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", harm_dir, rest);
    return path[turn];
}

/* ---- one run --------------------------------------------------------------------------------- */

typedef struct outcome {
    int code; /* exit code, or -signal */
    double seconds;
    int64_t memory; /* bytes, at most */
    size_t out;     /* bytes on stdout */
    char err[4096];
} outcome;

HOSTILE_FN void child(char *const *argv, int in)
{
    struct rlimit seconds = {20, 20}, core = {0, 0};
    setrlimit(RLIMIT_CPU, &seconds);
    setrlimit(RLIMIT_CORE, &core);
    int out = open(under("out"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int err = open(under("err"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (in < 0) in = open("/dev/null", O_RDONLY);
    if (in < 0 || out < 0 || err < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 || chdir(under("work")) != 0)
        _exit(99);
    execv(tool, argv);
    _exit(99);
}

HOSTILE_FN pid_t start(char *const *argv, int in)
{
    pid_t pid = fork();
    if (pid == 0) child(argv, in);
    return pid;
}

HOSTILE_FN outcome finish(pid_t pid)
{
    outcome o = {.code = -1};
    struct rusage u;
    struct stat st;
    int status;
    if (pid <= 0 || wait4(pid, &status, 0, &u) != pid) return o;
    o.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    o.seconds = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
    o.memory = (int64_t)u.ru_maxrss * 1024;
    o.out = stat(under("out"), &st) == 0 ? (size_t)st.st_size : 1;
    FILE *file = fopen(under("err"), "rb");
    size_t length = file ? fread(o.err, 1, sizeof o.err - 1, file) : 0;
    o.err[length] = 0;
    if (file) fclose(file);
    return o;
}

/* One line, "zt-run: ...", in which nothing drives a terminal. */
HOSTILE_FN bool one_line(const char *err)
{
    size_t length = strlen(err);
    if (strncmp(err, "zt-run: ", 8) != 0 || err[length - 1] != '\n') return false;
    for (size_t i = 0; i + 1 < length; i++)
        if ((unsigned char)err[i] < 0x20 || err[i] == 0x7f) return false;
    return true;
}

/* want: the code, or 0 for any with which a file may be refused. */
HOSTILE_FN bool outcome_refused(const outcome *o, int want, int64_t size, const char *what)
{
    bool code = want ? o->code == want : o->code == 65 || o->code == 66 || o->code == 69;
    bool small = SANITIZED || (o->seconds <= MOST_SECONDS && o->memory <= size + MOST_MEMORY);
    bool right = code && small && o->out == 0 && one_line(o->err);
    if (!right)
        diag("%s: code %d, %.2f s, %.1f MB, %zu bytes out: %s", what, o->code, o->seconds, (double)o->memory / 1e6, o->out,
             o->err);
    return right;
}

enum { GENERATE, TOKENIZE, DRY_RUN, MODES };
static const char *const mode_name[MODES] = {"-p x -n 1", "--tokenize -p x", "--dry-run"};

HOSTILE_FN outcome run_model(const char *model, int mode)
{
    char *argv[] = {tool, "-m", (char *)(uintptr_t)model, "-p", "x", NULL, NULL, NULL};
    if (mode == DRY_RUN)
        argv[3] = "--dry-run", argv[4] = NULL;
    else if (mode == TOKENIZE)
        argv[5] = "--tokenize";
    else
        argv[5] = "-n", argv[6] = "1";
    return finish(start(argv, -1));
}

HOSTILE_FN bool refused_always(const char *model, int want, int64_t size, const char *what)
{
    bool right = true;
    for (int mode = 0; mode < (SANITIZED ? 1 : MODES); mode++) { /* a sanitizer is slow to start */
        char label[600];
        outcome result = run_model(model, mode);
        snprintf(label, sizeof label, "%s %s", what, mode_name[mode]);
        right &= outcome_refused(&result, want, size, label);
    }
    return right;
}

HOSTILE_FN int64_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

HOSTILE_FN bool write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    bool done = f && fwrite(bytes, 1, n, f) == n;
    return (!f || fclose(f) == 0) && done;
}

HOSTILE_FN bool shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

HOSTILE_FN bool shell(const char *format, ...)
{
    char line[20000];
    va_list ap;
    va_start(ap, format);
    vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    return system(line) == 0;
}

HOSTILE_FN bool hostile_open(const char *self)
{
    char dir[4096], real[PATH_MAX];
    const char *bin = getenv("ZT_BIN"), *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s", self);
    snprintf(tool, sizeof tool, bin ? "%s/zt-run" : "%s/../bin/zt-run", bin ? bin : dirname(dir));
    if (!realpath(tool, real)) return false;
    snprintf(tool, sizeof tool, "%s", real);
    snprintf(harm_dir, sizeof harm_dir, "%s/zt-hostile.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(harm_dir)) return false;
    unsetenv("ZT_ISA");
    return mkdir(under("work"), 0700) == 0 && mkdir(under("sets"), 0700) == 0 && mkdir(under("hf"), 0700) == 0;
}

/* No run has written a file; our folder goes. */
HOSTILE_FN void hostile_close(void)
{
    ok(rmdir(under("work")) == 0, "no run has written a file");
    ok(shell("rm -r '%s'", harm_dir), "tidy");
}

#endif
