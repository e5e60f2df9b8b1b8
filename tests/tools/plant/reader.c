/* reader.c - all tools, linked with --wrap=zt_source_read: what a reader could do that a hostile file has taken over. At its first
 * reading it tries to open, write, create, execute, connect and signal, once, and writes a line for each deed that succeeds, and
 * "tried N" at the end, to the descriptor that ZT_PLANTED names.
 *
 *     ZT_PLANTED=3 ZT_SECRET=FILE ZT_PORT=N zt-run ... 3>deeds
 */
#include "lib/base/base.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

zt_status __real_zt_source_read(const zt_source *source, uint64_t offset, void *dst, size_t size);
zt_status __wrap_zt_source_read(const zt_source *source, uint64_t offset, void *dst, size_t size);

static const char *secret; /* a file that the command line does not name, in a directory of its own */

/* "FILE.made", beside the secret. */
static const char *beside(const char *suffix)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s.%s", secret, suffix);
    return path;
}

static bool opens(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static bool reads_secret(void) { return opens(secret, O_RDONLY); }
static bool reads_accounts(void) { return opens("/etc/passwd", O_RDONLY); }
static bool lists_folder(void)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", secret);
    *strrchr(folder, '/') = '\0';
    return opens(folder, O_RDONLY | O_DIRECTORY);
}
static bool reads_init(void) { return opens("/proc/1/status", O_RDONLY); }
static bool writes_secret(void) { return opens(secret, O_WRONLY); }
static bool truncates_secret(void) { return truncate(secret, 0) == 0; }
static bool creates_file(void) { return opens(beside("made"), O_WRONLY | O_CREAT | O_EXCL); }
static bool creates_nameless(void) { return opens("/tmp", O_TMPFILE | O_RDWR); }
static bool creates_folder(void) { return mkdir(beside("folder"), 0700) == 0; }
static bool creates_link(void) { return symlink(secret, beside("symlink")) == 0; }
static bool links_secret(void) { return link(secret, beside("link")) == 0; }
static bool renames_secret(void) { return rename(secret, beside("moved")) == 0 && rename(beside("moved"), secret) == 0; }
static bool removes_secret(void) { return unlink(secret) == 0; }
static bool changes_mode(void) { return chmod(secret, 0777) == 0; }

static bool executes(void)
{
    char *arguments[] = {"true", NULL}, *environment[] = {NULL};
    pid_t pid = fork();
    int status = 1;
    if (pid == 0) {
        execve("/bin/true", arguments, environment);
        _exit(1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid;
}

/* Would execve be tried at all? */
static bool executes_itself(void)
{
    char *none[] = {NULL};
    execve("/nonexistent/program", none, none);
    return errno != EPERM;
}

static bool connects(void)
{
    const char *port = getenv("ZT_PORT");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port ? port : "9"))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool connected = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0) close(fd);
    return connected;
}

static bool sends_datagram(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool sent = fd >= 0 && sendto(fd, "x", 1, 0, (struct sockaddr *)&address, sizeof address) == 1;
    if (fd >= 0) close(fd);
    return sent;
}

static bool connects_locally(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static bool signals_parent(void) { return kill(getppid(), 0) == 0; }
static bool gets_privileges(void) { return syscall(SYS_prctl, 39 /* PR_GET_NO_NEW_PRIVS */, 0, 0, 0, 0) == 0; }
static bool makes_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}
static bool types(void) { return ioctl(2, TIOCSTI, "x") == 0; }
static bool writes_memory(void) { return opens("/proc/self/mem", O_RDWR); }

static const struct {
    const char *name;
    bool (*succeeds)(void);
} deeds[] = {{"reads a file", reads_secret},
             {"reads /etc/passwd", reads_accounts},
             {"lists a directory", lists_folder},
             {"reads /proc/1", reads_init},
             {"writes a file", writes_secret},
             {"truncates a file", truncates_secret},
             {"creates a file", creates_file},
             {"creates a file without a name", creates_nameless},
             {"creates a directory", creates_folder},
             {"creates a symbolic link", creates_link},
             {"links a file", links_secret},
             {"renames a file", renames_secret},
             {"removes a file", removes_secret},
             {"changes a mode", changes_mode},
             {"executes a program", executes},
             {"may execute", executes_itself},
             {"connects", connects},
             {"sends a datagram", sends_datagram},
             {"opens a local socket", connects_locally},
             {"signals its parent", signals_parent},
             {"may get privileges", gets_privileges},
             {"makes code", makes_code},
             {"types into the terminal", types},
             {"writes /proc/self/mem", writes_memory}};

static void try_all(int report)
{
    enum { DEEDS = sizeof deeds / sizeof *deeds };
    for (int i = 0; i < DEEDS; i++)
        if (deeds[i].succeeds()) dprintf(report, "%s\n", deeds[i].name);
    dprintf(report, "tried %d\n", DEEDS);
}

/* ptrace ends the process, so that it is a run of its own. */
zt_status __wrap_zt_source_read(const zt_source *source, uint64_t offset, void *dst, size_t size)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    const char *report = getenv("ZT_PLANTED");
    secret = getenv("ZT_SECRET");
    if (report && secret && !atomic_flag_test_and_set(&done)) {
        if (getenv("ZT_PTRACE")) syscall(SYS_ptrace, 0, 0, 0, 0);
        try_all(atoi(report));
    }
    return __real_zt_source_read(source, offset, dst, size);
}
