/* head.c - how a file begins, whatever it is: standard input keeps what was looked at. */
#include "tools/common/internal.h"
#include "tools/common/subject.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first bytes in the pipe that is standard input, once there are any; they stay in it. */
static size_t look_into_pipe(char *head, size_t size)
{
    int fd[2];
    if (pipe2(fd, O_CLOEXEC)) return 0;
    ssize_t copied = tee(STDIN_FILENO, fd[1], size, 0);
    if (copied > 0) copied = read(fd[0], head, (size_t)copied);
    close(fd[0]);
    close(fd[1]);
    return copied > 0 ? (size_t)copied : 0;
}

/* Texts of programs and networks are read more than once: such a pipe becomes a file. */
static zt_status keep_stdin(zt_cli *cli)
{
    zt_source *source = zt_source_open(cli->ctx, "-");
    zt_status status = source ? ZT_OK : zt_ctx_status(cli->ctx);
    if (!status && (dup2(zt_source_fd(source), STDIN_FILENO) < 0 || lseek(STDIN_FILENO, 0, SEEK_SET)))
        status = zt_fail(cli->ctx, ZT_ESYS, "stdin: %s", strerror(errno));
    zt_source_close(source);
    return status;
}

size_t zt_cli_head(zt_cli *cli, const char *path, char *head, size_t size)
{
    enum { SOME = 16 };
    struct stat info;
    bool is_stdin = !strcmp(path, "-");
    if (is_stdin ? fstat(STDIN_FILENO, &info) : stat(path, &info)) return 0;
    if (is_stdin && S_ISFIFO(info.st_mode)) {
        size_t received = look_into_pipe(head, size < SOME ? size : SOME);
        bool text = received && (zt_cli_begins_program(head, received) || zt_netjson_sniff(head, received));
        if (!text || keep_stdin(cli)) return 0;
    } else if (!S_ISREG(info.st_mode)) {
        return 0;
    }
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    off_t at = is_stdin ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t received = fd < 0 || at < 0 ? 0 : pread(fd, head, size, at);
    if (fd > STDIN_FILENO) close(fd);
    return received > 0 ? (size_t)received : 0;
}
