/* serve_listen.c - the socket of --serve: an address and a port, or a path. */
#include "tools/zt-run/serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { PORT = 8080, BACKLOG = 512, SEND_BUFFER = 128 << 10 };

typedef struct socket_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un file;
    } at;
    socklen_t size;
} socket_address;

/* ---- reading an address ------------------------------------------------------------------------ */

static bool parse_port(const char *text, uint16_t *port)
{
    int64_t value;
    if (!zt_parse_i64(text, &value) || value < 0 || value > 65535 || *text == '+') return false;
    *port = htons((uint16_t)value);
    return true;
}

/* host: a numeric address or "localhost"; "" is 127.0.0.1. */
static bool parse_host(const char *host, uint16_t port, socket_address *address)
{
    bool local = !*host || strcmp(host, "localhost") == 0;
    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, local ? "127.0.0.1" : host, &address->at.v4.sin_addr) == 1) {
        address->at.v4.sin_family = AF_INET;
        address->at.v4.sin_port = port;
        address->size = sizeof address->at.v4;
        return true;
    }
    if (inet_pton(AF_INET6, host, &address->at.v6.sin6_addr) != 1) return false;
    address->at.v6.sin6_family = AF_INET6;
    address->at.v6.sin6_port = port;
    address->size = sizeof address->at.v6;
    return true;
}

/* ADDR:PORT, [ADDR]:PORT, :PORT, PORT, ADDR. */
static bool parse_network(const char *text, socket_address *address)
{
    char host[64] = "";
    uint16_t port = htons(PORT);
    const char *colon = strrchr(text, ':'), *end = text + strlen(text);
    if (*text == '[') {
        const char *close = strchr(text, ']');
        if (!close || (close[1] && close[1] != ':') || (close[1] && !parse_port(close + 2, &port))) return false;
        end = close;
        text++;
    } else if (!colon && parse_port(text, &port)) {
        end = text;
    } else if (colon && strchr(text, ':') == colon) {
        if (!parse_port(colon + 1, &port)) return false;
        end = colon;
    }
    if ((size_t)(end - text) >= sizeof host) return false;
    memcpy(host, text, (size_t)(end - text));
    return parse_host(host, port, address);
}

static bool parse_path(const char *path, socket_address *address)
{
    size_t length = strlen(path);
    memset(address, 0, sizeof *address);
    if (length == 0 || length >= sizeof address->at.file.sun_path) return false;
    address->at.file.sun_family = AF_UNIX;
    memcpy(address->at.file.sun_path, path, length);
    address->size = sizeof address->at.file;
    return true;
}

static zt_status parse_address(zt_ctx *ctx, const char *text, socket_address *address)
{
    char shown[160];
    bool file = strncmp(text, "unix:", 5) == 0;
    if (file ? parse_path(text + 5, address) : parse_network(text, address)) return ZT_OK;
    zt_escape(shown, sizeof shown, text, strlen(text));
    if (file) return zt_fail(ctx, ZT_EUSAGE, "--serve '%s': a path of 1 to 107 bytes is expected after unix:", shown);
    return zt_fail(ctx, ZT_EUSAGE,
                   "--serve '%s' is not ADDR:PORT (a numeric address or localhost, a port from 0 to 65535) or unix:PATH", shown);
}

zt_status serve_check_address(zt_ctx *ctx, const char *address)
{
    socket_address parsed;
    return parse_address(ctx, address, &parsed);
}

/* ---- the socket -------------------------------------------------------------------------------- */

static bool is_loopback(const socket_address *address)
{
    if (address->at.any.sa_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&address->at.v6.sin6_addr);
    return address->at.any.sa_family == AF_UNIX || ntohl(address->at.v4.sin_addr.s_addr) >> 24 == 127;
}

/* The address as it was bound: with the port that the system chose for port 0. */
static void name_listener(serve_listener *listener, const socket_address *wanted)
{
    char host[INET6_ADDRSTRLEN] = "";
    socket_address bound = *wanted;
    listener->is_unix = wanted->at.any.sa_family == AF_UNIX;
    listener->loopback = is_loopback(wanted);
    if (listener->is_unix) {
        snprintf(listener->path, sizeof listener->path, "%s", wanted->at.file.sun_path);
        snprintf(listener->url, sizeof listener->url, "unix:%s", listener->path);
        return;
    }
    getsockname(listener->fd, &bound.at.any, &bound.size);
    if (bound.at.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &bound.at.v6.sin6_addr, host, sizeof host);
        snprintf(listener->url, sizeof listener->url, "http://[%s]:%d", host, ntohs(bound.at.v6.sin6_port));
    } else {
        inet_ntop(AF_INET, &bound.at.v4.sin_addr, host, sizeof host);
        snprintf(listener->url, sizeof listener->url, "http://%s:%d", host, ntohs(bound.at.v4.sin_port));
    }
}

/* A socket's file that nobody listens on, left by a server that was killed, is removed. */
static void remove_stale(const socket_address *address)
{
    struct stat info;
    if (lstat(address->at.file.sun_path, &info) != 0 || !S_ISSOCK(info.st_mode)) return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    bool refused = connect(fd, &address->at.any, address->size) != 0 && errno == ECONNREFUSED;
    close(fd);
    if (refused) unlink(address->at.file.sun_path);
}

/* Binds with mode 0600 where it is a file. */
static int bind_socket(int fd, const socket_address *address)
{
    if (address->at.any.sa_family != AF_UNIX) return bind(fd, &address->at.any, address->size);
    remove_stale(address);
    mode_t before = umask(0177);
    int failed = bind(fd, &address->at.any, address->size);
    umask(before);
    return failed;
}

static int set_options(int fd)
{
    const int on = 1, buffer = SEND_BUFFER;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer); /* bounds what the kernel holds for a slow reader */
    return setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

zt_status serve_listen(zt_ctx *ctx, const char *text, serve_listener *listener)
{
    socket_address address;
    struct stat info;
    char shown[160];
    listener->fd = -1;
    zt_status status = parse_address(ctx, text, &address);
    if (status != ZT_OK) return status;
    int fd = socket(address.at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return zt_fail(ctx, ZT_ESYS, "--serve: no socket: %s", strerror(errno));
    if (set_options(fd) != 0 || bind_socket(fd, &address) != 0 || listen(fd, BACKLOG) != 0) {
        status =
            zt_fail(ctx, ZT_ECREATE, "--serve '%s': %s", zt_escape(shown, sizeof shown, text, strlen(text)), strerror(errno));
        close(fd);
        return status;
    }
    listener->fd = fd;
    name_listener(listener, &address);
    if (listener->is_unix && lstat(listener->path, &info) == 0) {
        listener->device = info.st_dev;
        listener->inode = info.st_ino;
    }
    return ZT_OK;
}

void serve_refuse_connections(serve_listener *listener)
{
    struct stat info;
    if (listener->fd < 0) return;
    shutdown(listener->fd, SHUT_RDWR);
    /* Another server may have put a socket of its own there. */
    if (listener->is_unix && lstat(listener->path, &info) == 0 && info.st_dev == listener->device &&
        info.st_ino == listener->inode)
        unlink(listener->path);
}

void serve_unlisten(serve_listener *listener)
{
    if (listener->fd < 0) return;
    serve_refuse_connections(listener);
    close(listener->fd);
    listener->fd = -1;
}
