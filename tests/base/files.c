/* files.c - sources (files, FIFOs, stdin, memory) and sinks (whole or absent). */
#include "lib/base/base.h"
#include "tests/common/tap.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static char dir[64]; /* where this test lives; the working directory */

static void put_file(const char *path, const char *text, size_t n)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (fd < 0 || write(fd, text, n) != (ssize_t)n) diag("%s: %s", path, strerror(errno));
    close(fd);
}

static bool holds(zt_ctx *ctx, const char *path, const char *want)
{
    size_t n = 0;
    char *text = zt_read_all(ctx, path, &n);
    bool same = text && n == strlen(want) && !memcmp(text, want, n + 1);
    zt_free(ctx, text);
    return same;
}

static int files_here(void)
{
    DIR *directory = opendir(".");
    int n = -2; /* . and .. */
    while (readdir(directory)) n++;
    closedir(directory);
    return n;
}

static bool refuses(zt_ctx *ctx, const char *path, zt_status want, const char *says)
{
    zt_source *source = zt_source_open(ctx, path);
    bool good = !source && zt_ctx_status(ctx) == want && strstr(zt_ctx_error(ctx), says) &&
                !strncmp(zt_ctx_error(ctx), path, strlen(path));
    if (!good) diag("%s: %s", path, zt_ctx_error(ctx));
    zt_source_close(source);
    zt_ctx_clear(ctx);
    return good;
}

/* ---- sources --------------------------------------------------------------------------------- */

static void test_regular(zt_ctx *ctx)
{
    char buf[16] = "";
    put_file("in", "0123456789", 10);
    zt_source *source = zt_source_open(ctx, "in");
    ok(source && zt_source_size(source) == 10 && !strcmp(zt_source_name(source), "in"), "a file opens");
    ok(zt_source_read(source, 7, buf, 3) == ZT_OK && !memcmp(buf, "789", 3) && zt_source_read(source, 0, buf, 2) == ZT_OK &&
           !memcmp(buf, "01", 2),
       "it is read anywhere");
    ok(zt_source_read(source, 10, buf, 0) == ZT_OK && zt_source_read(source, 0, NULL, 0) == ZT_OK,
       "reading nothing, at its end too");
    ok(zt_source_read(source, 8, buf, 3) == ZT_EDATA &&
           !strcmp(zt_ctx_error(ctx), "in: unexpected end of file: 3 bytes expected at offset 8, the file ends at 10"),
       "past the end");
    zt_ctx_clear(ctx);
    ok(zt_source_read(source, UINT64_MAX, buf, 3) == ZT_EDATA && zt_source_read(source, 2, buf, SIZE_MAX) == ZT_EDATA,
       "offsets and sizes that would overflow");
    zt_ctx_clear(ctx);
    put_file("in", "0123", 4);
    ok(zt_source_read(source, 2, buf, 6) == ZT_EIO && !strcmp(zt_ctx_error(ctx), "in: the file was truncated while it was read"),
       "a file that shrinks is an error");
    zt_ctx_clear(ctx);
    zt_source_close(source);
    zt_source_close(NULL);

    put_file("in", "", 0);
    ok(holds(ctx, "in", "") && holds(ctx, "/dev/null", ""), "an empty file, /dev/null");
    unlink("in");
}

static void test_refused(zt_ctx *ctx)
{
    ok(refuses(ctx, "missing", ZT_ENOENT, "No such file"), "a missing file");
    ok(refuses(ctx, "", ZT_ENOENT, "No such file"), "an empty name");
    mkdir("d", 0755);
    ok(refuses(ctx, "d", ZT_ENOENT, "is a directory without config.json"), "a directory");
    rmdir("d");
    if (geteuid() == 0) {
        skip("root may read everything");
    } else {
        put_file("secret", "x", 1);
        chmod("secret", 0);
        ok(refuses(ctx, "secret", ZT_ENOENT, "Permission denied"), "an unreadable file");
        unlink("secret");
    }
    bool good = true;
    for (uint64_t nth = 1; nth <= 2; nth++) {
        zt_mem_fail(ctx, nth, false);
        good &= !zt_source_open(ctx, "/dev/null") && zt_ctx_status(ctx) == ZT_ENOMEM;
        zt_ctx_clear(ctx);
    }
    zt_mem_fail(ctx, 0, false);
    ok(good && zt_mem_get(ctx).blocks == 0, "without memory nothing is left");
}

/* A child writes count bytes, counting, to a descriptor opened by path. */
static pid_t writer(const char *path, size_t count)
{
    fflush(stdout); /* TSan flushes in the child, where what waits would be printed twice */
    pid_t pid = fork();
    if (pid) return pid;
    int fd = open(path, O_WRONLY);
    for (size_t i = 0; i < count; i++) {
        char c = (char)(i % 251);
        if (write(fd, &c, 1) != 1) _exit(1);
    }
    _exit(0);
}

static bool counted(const zt_source *source, size_t count)
{
    bool good = source && zt_source_size(source) == count;
    for (size_t i = count; good && i-- > 0;) { /* backwards: not a stream any more */
        unsigned char c;
        good = zt_source_read(source, i, &c, 1) == ZT_OK && c == i % 251;
    }
    return good;
}

static void test_streams(zt_ctx *ctx)
{
    mkfifo("fifo", 0600);
    pid_t pid = writer("fifo", 3000);
    zt_source *source = zt_source_open(ctx, "fifo");
    ok(counted(source, 3000), "a FIFO is spooled");
    ok(files_here() == 1, "and the spool has no name");
    zt_source_close(source);
    waitpid(pid, NULL, 0);

    int was = dup(0), fd;
    pid = writer("fifo", 500);
    fd = open("fifo", O_RDONLY);
    dup2(fd, 0);
    source = zt_source_open(ctx, "-");
    ok(counted(source, 500) && !strcmp(zt_source_name(source), "stdin"), "stdin that is a pipe");
    zt_source_close(source);
    close(fd);
    waitpid(pid, NULL, 0);

    put_file("in", "skipped text", 12);
    fd = open("in", O_RDONLY);
    lseek(fd, 8, SEEK_SET);
    dup2(fd, 0);
    close(fd);
    ok(holds(ctx, "-", "text") && holds(ctx, "-", "text"), "stdin that is a file");
    ok(fcntl(0, F_GETFD) >= 0, "stdin stays open");

    setenv("TMPDIR", "missing", 1);
    pid = writer("fifo", 5);
    source = zt_source_open(ctx, "fifo");
    ok(!source && zt_ctx_status(ctx) == ZT_ECREATE && strstr(zt_ctx_error(ctx), "missing"), "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    unsetenv("TMPDIR");
    waitpid(pid, NULL, 0);

    close(0);
    ok(refuses(ctx, "missing", ZT_ENOENT, "No such file") && holds(ctx, "in", "skipped text"),
       "a file that is opened while stdin is closed");
    dup2(was, 0);
    close(was);
    unlink("in");
    unlink("fifo");
}

static void on_alarm(int sig) { (void)sig; }

/* A signal whose handler does not restart calls ends the wait for a writer, and for its data. */
static void test_interrupted(zt_ctx *ctx)
{
    struct sigaction act = {.sa_handler = on_alarm};
    struct itimerval soon = {.it_interval = {0, 20000}, .it_value = {0, 20000}}, never = {0};
    sigaction(SIGALRM, &act, NULL);
    mkfifo("fifo", 0600);
    for (int with_writer = 0; with_writer < 2; with_writer++) {
        int fd = with_writer ? open("fifo", O_RDWR) : -1;
        setitimer(ITIMER_REAL, &soon, NULL);
        zt_source *source = zt_source_open(ctx, "fifo");
        setitimer(ITIMER_REAL, &never, NULL);
        ok(!source && zt_ctx_status(ctx) == ZT_EINTR, "%s", zt_ctx_error(ctx));
        zt_source_close(source);
        zt_ctx_clear(ctx);
        if (fd >= 0) close(fd);
    }
    unlink("fifo");
}

static void test_memory_source(zt_ctx *ctx)
{
    char buf[4];
    zt_source *source = zt_source_memory(ctx, "words", "abcdef", 6);
    ok(zt_source_size(source) == 6 && !zt_source_read(source, 2, buf, 4) && !memcmp(buf, "cdef", 4), "bytes in memory");
    ok(zt_source_read(source, 3, buf, 4) == ZT_EDATA && !strncmp(zt_ctx_error(ctx), "words: ", 7), "and their end");
    zt_ctx_clear(ctx);
    zt_source_close(source);
    source = zt_source_memory(ctx, "none", NULL, 0);
    ok(source && zt_source_size(source) == 0 && zt_source_read(source, 0, buf, 0) == ZT_OK, "no bytes");
    zt_source_close(source);
}

/* ---- sinks ----------------------------------------------------------------------------------- */

static bool write_all(zt_ctx *ctx, const char *path, bool force, const char *text)
{
    zt_sink *s = zt_sink_open(ctx, path, force);
    bool good = s && zt_sink_write(s, text, strlen(text)) == ZT_OK && zt_sink_commit(s) == ZT_OK;
    zt_sink_close(s);
    return good;
}

static void test_replace(zt_ctx *ctx)
{
    struct stat st;
    mode_t mask = umask(027);
    ok(write_all(ctx, "out", false, "first") && holds(ctx, "out", "first") && files_here() == 1, "a new output");
    umask(mask);
    ok(stat("out", &st) == 0 && (st.st_mode & 0777) == 0640, "its mode is 0666 less the umask");
    ok(!write_all(ctx, "out", false, "x") && zt_ctx_status(ctx) == ZT_ECREATE && holds(ctx, "out", "first"),
       "what exists is refused");
    zt_ctx_clear(ctx);
    ok(write_all(ctx, "out", true, "second") && holds(ctx, "out", "second"), "force replaces");

    zt_sink *sink = zt_sink_open(ctx, "out", true);
    zt_sink_write(sink, "half", 4);
    ok(holds(ctx, "out", "second"), "until commit the old one stands");
    zt_sink_close(sink);
    ok(holds(ctx, "out", "second") && files_here() == 1, "close without commit leaves no trace");

    ok(symlink("out", "link") == 0 && write_all(ctx, "link", true, "third") && holds(ctx, "out", "third") &&
           lstat("link", &st) == 0 && S_ISLNK(st.st_mode),
       "through a link what it names is replaced");
    unlink("link");

    unlink("out");
    sink = zt_sink_open(ctx, "out", false);
    put_file("out", "theirs", 6);
    zt_sink_write(sink, "ours", 4);
    ok(zt_sink_commit(sink) == ZT_ECREATE && holds(ctx, "out", "theirs"), "an output that came up meanwhile stays");
    zt_sink_close(sink);
    zt_ctx_clear(ctx);
    unlink("out");
    ok(files_here() == 0, "and nothing else does");
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    return stat(path, &st) ? 0 : st.st_mode & 07777;
}

static bool hard_link_stays(zt_ctx *ctx)
{
    put_file("one", "old", 3);
    bool good =
        link("one", "other") == 0 && write_all(ctx, "one", true, "new") && holds(ctx, "one", "new") && holds(ctx, "other", "old");
    unlink("one"), unlink("other");
    return good;
}

/* The mode, the owner and the attributes that a file had before stay with its name. */
static void test_attributes(zt_ctx *ctx)
{
    static const mode_t modes[] = {0600, 0644, 0755, 0444, 02750};
    struct stat st, link;
    char value[16] = "";
    put_file("out", "old", 3);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        chmod("out", modes[i]);
        mode_t before = mode_of("out"); /* set-group-ID may be refused */
        ok(write_all(ctx, "out", true, "new") && mode_of("out") == before, "mode %o stays", (unsigned)before);
    }
    chmod("out", 0600);
    zt_sink *sink = zt_sink_open(ctx, "out", true);
    mode_t mask = umask(0);
    zt_sink *fresh = zt_sink_open(ctx, "fresh", false);
    ok(sink && fresh && zt_sink_commit(fresh) == ZT_OK && mode_of("fresh") == 0666, "what is new beside it follows the umask");
    umask(mask);
    zt_sink_close(fresh);
    zt_sink_close(sink);
    unlink("fresh");

    if (setxattr("out", "user.zt", "kept", 4, 0) == 0)
        ok(write_all(ctx, "out", true, "new") && getxattr("out", "user.zt", value, 16) == 4 && !memcmp(value, "kept", 4),
           "an extended attribute stays");
    else
        skip("no extended attributes here");
    if (geteuid() == 0 && chown("out", 12345, 54321) == 0)
        ok(chmod("out", 04640) == 0 && write_all(ctx, "out", true, "new") && stat("out", &st) == 0 && st.st_uid == 12345 &&
               st.st_gid == 54321 && mode_of("out") == 04640,
           "owner, group and set-user-ID bit stay");
    else
        skip("only root gives files away");

    ok(symlink("there", "to") == 0 && !write_all(ctx, "to", false, "x"), "a dangling link exists");
    zt_ctx_clear(ctx);
    ok(write_all(ctx, "to", true, "made") && holds(ctx, "there", "made") && lstat("to", &link) == 0 && S_ISLNK(link.st_mode),
       "what a dangling link names is made, and the link stays");
    mkdir("sub", 0755);
    ok(symlink("../there", "sub/to") == 0 && symlink("sub/to", "two") == 0 && write_all(ctx, "two", true, "far") &&
           holds(ctx, "there", "far") && lstat("two", &link) == 0 && S_ISLNK(link.st_mode) && lstat("sub/to", &link) == 0 &&
           S_ISLNK(link.st_mode),
       "over two links, relative to their folders");
    ok(symlink("loop", "loop") == 0 && !write_all(ctx, "loop", true, "x") && zt_ctx_status(ctx) == ZT_ECREATE,
       "a link to itself is refused");
    zt_ctx_clear(ctx);
    ok(hard_link_stays(ctx), "another hard link keeps the old file");
    unlink("two"), unlink("sub/to"), unlink("to"), unlink("there"), unlink("loop"), unlink("out");
    rmdir("sub");
    ok(files_here() == 0, "and nothing else does");
}

/* Of a directory that lets user 12345 into all files made there, a file that is older than that. */
static void test_inherited(zt_ctx *ctx)
{
    static const struct {
        uint16_t tag, perm;
        uint32_t id;
    } rows[] = {{1, 7, ~0u}, {2, 7, 12345}, {4, 0, ~0u}, {16, 7, ~0u}, {32, 0, ~0u}};
    const uint32_t version = 2;
    char list[sizeof version + sizeof rows];
    memcpy(list, &version, sizeof version);
    memcpy(list + sizeof version, rows, sizeof rows);
    mkdir("acl", 0755);
    put_file("acl/old", "old", 3);
    chmod("acl/old", 0640);
    if (setxattr("acl", "system.posix_acl_default", list, sizeof list, 0) == 0) {
        ok(write_all(ctx, "acl/new", false, "x") && getxattr("acl/new", "system.posix_acl_access", NULL, 0) > 0,
           "a new file inherits the directory's access control list");
        ok(write_all(ctx, "acl/old", true, "x") && mode_of("acl/old") == 0640 &&
               getxattr("acl/old", "system.posix_acl_access", NULL, 0) < 0,
           "what replaces a file without one does not");
        ok(setxattr("acl/old", "system.posix_acl_access", list, sizeof list, 0) == 0 && write_all(ctx, "acl/old", true, "y") &&
               getxattr("acl/old", "system.posix_acl_access", NULL, 0) > 0,
           "what replaces a file with one keeps it");
    } else {
        skip("no access control lists here");
    }
    unlink("acl/old"), unlink("acl/new");
    rmdir("acl");
}

static void test_large(zt_ctx *ctx)
{
    enum { N = 300000 };
    char *text = zt_alloc(ctx, N + 1);
    for (size_t i = 0; i < N; i++) text[i] = (char)('a' + i % 26);
    text[N] = '\0';
    zt_sink *sink = zt_sink_open(ctx, "out", false);
    for (size_t at = 0, count = 1; at < N; at += count, count = count * 3 % 100003)
        zt_sink_write(sink, text + at, count < N - at ? count : N - at);
    ok(zt_sink_write(sink, NULL, 0) == ZT_OK && zt_sink_commit(sink) == ZT_OK && holds(ctx, "out", text),
       "pieces of all sizes arrive in order");
    zt_sink_close(sink);
    zt_free(ctx, text);
    unlink("out");
}

static void test_sink_refused(zt_ctx *ctx)
{
    ok(!zt_sink_open(ctx, "missing/out", false) && zt_ctx_status(ctx) == ZT_ECREATE, "no output in a missing directory");
    zt_ctx_clear(ctx);
    ok(!zt_sink_open(ctx, ".", true) && zt_ctx_status(ctx) == ZT_ECREATE, "nor over one");
    zt_ctx_clear(ctx);

    zt_sink *sink = zt_sink_open(ctx, "/dev/full", false);
    char block[1000] = "";
    zt_status st = ZT_OK;
    for (int i = 0; i < 100 && st == ZT_OK; i++) st = zt_sink_write(sink, block, sizeof block);
    ok(st == ZT_EIO && zt_sink_write(sink, block, 1) == ZT_EIO && zt_sink_commit(sink) == ZT_EIO, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_sink_close(sink);
    struct stat dev;
    ok(write_all(ctx, "/dev/null", true, "x") && stat("/dev/null", &dev) == 0 && S_ISCHR(dev.st_mode),
       "a device is written to, not replaced");

    bool good = true;
    for (uint64_t nth = 1; nth <= 4; nth++) {
        zt_mem_fail(ctx, nth, true);
        sink = zt_sink_open(ctx, "out", false);
        good &= !sink || nth > 3;
        zt_sink_close(sink);
        zt_ctx_clear(ctx);
    }
    zt_mem_fail(ctx, 0, false);
    ok(good && zt_mem_get(ctx).blocks == 0 && files_here() == 0, "without memory no trace");
}

static void test_stdout(zt_ctx *ctx)
{
    fflush(stdout);
    int was = dup(1), fd = open("got", O_CREAT | O_RDWR | O_TRUNC, 0600);
    dup2(fd, 1);
    bool good = write_all(ctx, "-", false, "to stdout");
    dup2(was, 1);
    close(was);
    close(fd);
    ok(good && holds(ctx, "got", "to stdout"), "- is stdout, and stays open");
    unlink("got");
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.40s/zt-files-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir) || chdir(dir)) return 1;
    unsetenv("TMPDIR"); /* /tmp is for the spool, so that files here can be counted */
    zt_ctx *ctx = zt_ctx_new();
    test_regular(ctx);
    test_refused(ctx);
    test_streams(ctx);
    test_interrupted(ctx);
    test_memory_source(ctx);
    test_replace(ctx);
    test_attributes(ctx);
    test_inherited(ctx);
    test_large(ctx);
    test_sink_refused(ctx);
    test_stdout(ctx);
    ok(zt_ctx_status(ctx) == ZT_OK && zt_mem_get(ctx).blocks == 0, "nothing is left");
    zt_ctx_free(ctx);
    if (chdir("/") || rmdir(dir)) ok(false, "%s: %s", dir, strerror(errno));
    return tap_done();
}
