/* shards.c - owns the names of files that are one model together. */
#include "lib/io/shards.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* The digits that end before `end`, not before `from`: their number and their value. */
static size_t digits_before(const char *path, size_t from, size_t end, int64_t *value)
{
    enum { MOST = 9 };
    size_t count = 0;
    int64_t unit = 1;
    *value = 0;
    while (end - count > from && count < MOST && path[end - count - 1] >= '0' && path[end - count - 1] <= '9') {
        *value += unit * (path[end - count - 1] - '0');
        unit *= 10;
        count++;
    }
    return count;
}

bool zt_shard_parse(const char *path, zt_shard_name *name)
{
    static const char separator[] = "-of-";
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    size_t name_start = slash ? (size_t)(slash - path) + 1 : 0, separator_length = sizeof separator - 1, position, digits;
    if (!dot || (size_t)(dot - path) < name_start) return false;
    name->suffix = position = (size_t)(dot - path);
    digits = digits_before(path, name_start, position, &name->count);
    position -= digits;
    if (!digits || position < name_start + separator_length ||
        memcmp(path + position - separator_length, separator, separator_length) != 0)
        return false;
    name->width = digits_before(path, name_start, position - separator_length, &name->number);
    position -= separator_length + name->width;
    if (!name->width || position <= name_start || (path[position - 1] != '-' && path[position - 1] != '_')) return false;
    name->stem = position - 1;
    return name->number >= 1 && name->number <= name->count;
}

char *zt_shard_path(zt_ctx *ctx, const char *path, const zt_shard_name *name, int64_t number)
{
    zt_str text;
    zt_str_init(&text, ctx);
    zt_status status = zt_str_put(&text, path, name->stem + 1);
    if (status == ZT_OK) status = zt_str_printf(&text, "%0*" PRId64, (int)name->width, number);
    if (status == ZT_OK) status = zt_str_puts(&text, path + name->stem + 1 + name->width);
    if (status == ZT_OK) return text.data;
    zt_str_fini(&text);
    return NULL;
}

zt_source *zt_shard_open(zt_ctx *ctx, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0 || S_ISREG(info.st_mode)) return zt_source_open(ctx, path);
    zt_fail(ctx, ZT_EDATA, "%s: not a regular file", path);
    return NULL;
}

zt_source *zt_shard_open_beside(zt_ctx *ctx, const char *path, const zt_shard_name *name, int64_t number)
{
    struct stat info;
    char *other = zt_shard_path(ctx, path, name, number);
    zt_source *source = NULL;
    if (other && number == 1 && name->number != 1 && stat(other, &info) != 0)
        zt_fail(ctx, ZT_EDATA, "%s: shard %" PRId64 " of %" PRId64 ", but the first shard %s is missing", path, name->number,
                name->count, other);
    else if (other)
        source = zt_shard_open(ctx, other);
    zt_free(ctx, other);
    return source;
}

zt_status zt_shard_twice(zt_ctx *ctx, const char *first, const char *second, const char *tensor)
{
    char text[160];
    return zt_fail(ctx, ZT_EDATA, "%s and %s: duplicate tensor '%s'", first, second,
                   zt_escape(text, sizeof text, tensor, strlen(tensor)));
}
