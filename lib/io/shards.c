/* shards.c - owns the names of files that are one model together. */
#include "lib/io/shards.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* The digits that end before `end`, not before `from`: their number and their value. */
static size_t digits_before(const char *path, size_t from, size_t end, int64_t *value)
{
    enum { MOST = 9 };
    size_t n = 0;
    int64_t unit = 1;
    *value = 0;
    while (end - n > from && n < MOST && path[end - n - 1] >= '0' && path[end - n - 1] <= '9') {
        *value += unit * (path[end - n - 1] - '0');
        unit *= 10;
        n++;
    }
    return n;
}

bool zt_shard_parse(const char *path, zt_shard_name *n)
{
    static const char of[] = "-of-";
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    size_t from = slash ? (size_t)(slash - path) + 1 : 0, k = sizeof of - 1, at, digits;
    if (!dot || (size_t)(dot - path) < from)
        return false;
    n->suffix = at = (size_t)(dot - path);
    digits = digits_before(path, from, at, &n->count);
    at -= digits;
    if (!digits || at < from + k || memcmp(path + at - k, of, k) != 0)
        return false;
    n->width = digits_before(path, from, at - k, &n->no);
    at -= k + n->width;
    if (!n->width || at <= from || (path[at - 1] != '-' && path[at - 1] != '_'))
        return false;
    n->stem = at - 1;
    return n->no >= 1 && n->no <= n->count;
}

char *zt_shard_path(zt_ctx *ctx, const char *path, const zt_shard_name *n, int64_t no)
{
    zt_str s;
    zt_str_init(&s, ctx);
    zt_status st = zt_str_put(&s, path, n->stem + 1);
    if (st == ZT_OK)
        st = zt_str_printf(&s, "%0*" PRId64, (int)n->width, no);
    if (st == ZT_OK)
        st = zt_str_puts(&s, path + n->stem + 1 + n->width);
    if (st == ZT_OK)
        return s.data;
    zt_str_fini(&s);
    return NULL;
}

zt_source *zt_shard_open(zt_ctx *ctx, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || S_ISREG(st.st_mode))
        return zt_source_open(ctx, path);
    zt_fail(ctx, ZT_EDATA, "%s: not a regular file", path);
    return NULL;
}

zt_source *zt_shard_open_beside(zt_ctx *ctx, const char *path, const zt_shard_name *n, int64_t no)
{
    struct stat st;
    char *other = zt_shard_path(ctx, path, n, no);
    zt_source *s = NULL;
    if (other && no == 1 && n->no != 1 && stat(other, &st) != 0)
        zt_fail(ctx, ZT_EDATA, "%s: part %" PRId64 " of %" PRId64
                " of a model, and the first part, %s, is missing", path, n->no, n->count, other);
    else if (other)
        s = zt_shard_open(ctx, other);
    zt_free(ctx, other);
    return s;
}

zt_status zt_shard_twice(zt_ctx *ctx, const char *a, const char *b, const char *tensor)
{
    char text[160];
    return zt_fail(ctx, ZT_EDATA, "%s and %s: both have the tensor '%s'", a, b,
                   zt_escape(text, sizeof text, tensor, strlen(tensor)));
}
