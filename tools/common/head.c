/* head.c - how a file begins, whatever it is: standard input keeps what was looked at. */
#include "tools/common/internal.h"
#include "tools/common/subject.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first bytes in the pipe that is standard input, once there are any; they stay in it. */
static size_t look_into_pipe(char *head, size_t n)
{
    int fd[2];
    if (pipe2(fd, O_CLOEXEC)) return 0;
    ssize_t k = tee(STDIN_FILENO, fd[1], n, 0);
    if (k > 0) k = read(fd[0], head, (size_t)k);
    close(fd[0]);
    close(fd[1]);
    return k > 0 ? (size_t)k : 0;
}

/* Texts of programs and networks are read more than once: such a pipe becomes a file. */
static zt_status keep_stdin(zt_cli *cli)
{
    zt_source *s = zt_source_open(cli->ctx, "-");
    zt_status st = s ? ZT_OK : zt_ctx_status(cli->ctx);
    if (!st && (dup2(zt_source_fd(s), STDIN_FILENO) < 0 || lseek(STDIN_FILENO, 0, SEEK_SET)))
        st = zt_fail(cli->ctx, ZT_ESYS, "stdin: %s", strerror(errno));
    zt_source_close(s);
    return st;
}

size_t zt_cli_head(zt_cli *cli, const char *path, char *head, size_t n)
{
    enum { SOME = 16 };
    struct stat st;
    bool is_stdin = !strcmp(path, "-");
    if (is_stdin ? fstat(STDIN_FILENO, &st) : stat(path, &st)) return 0;
    if (is_stdin && S_ISFIFO(st.st_mode)) {
        size_t k = look_into_pipe(head, n < SOME ? n : SOME);
        bool text = k && (zt_cli_begins_program(head, k) || zt_netjson_sniff(head, k));
        if (!text || keep_stdin(cli)) return 0;
    } else if (!S_ISREG(st.st_mode)) {
        return 0;
    }
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    off_t at = is_stdin ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t k = fd < 0 || at < 0 ? 0 : pread(fd, head, n, at);
    if (fd > STDIN_FILENO) close(fd);
    return k > 0 ? (size_t)k : 0;
}
