/* hash.c - a hash of each tensor, of what it is and not of where: equal for equal dtype, shape and
 * values in whatever container. XXH3-128 of "dtype[shape]", a zero byte, and the values row-major
 * and little endian. */
#include "tools/zt-convert/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

typedef struct line {
    const char *name;
    uint64_t high, low;
} line;

static zt_status hash_one(job *j, zt_checkpoint *c, int64_t i, char *buf, size_t room, line *out)
{
    zt_entry e;
    char shape[ZT_TYPE_TEXT];
    zt_status s = ZT_OK;
    XXH3_state_t *h = XXH3_createState();
    if (!h) return zt_fail(j->ctx, ZT_ENOMEM, "out of memory");
    zt_checkpoint_get(c, i, &e);
    XXH3_128bits_reset(h);
    XXH3_128bits_update(h, e.dtype, strlen(e.dtype));
    shape_text(&e.type, shape);
    XXH3_128bits_update(h, shape, strlen(shape) + 1);
    for (uint64_t at = 0, k; s == ZT_OK && at < e.bytes; at += k) {
        k = e.bytes - at < room ? e.bytes - at : room;
        s = zt_checkpoint_read(c, i, at, buf, (size_t)k);
        XXH3_128bits_update(h, buf, (size_t)k);
        if (s == ZT_OK) s = job_interrupted(j);
    }
    XXH128_hash_t x = XXH3_128bits_digest(h);
    XXH3_freeState(h);
    *out = (line){.name = e.name, .high = x.high64, .low = x.low64};
    return s;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const line *)a)->name, ((const line *)b)->name);
}

static zt_status print_lines(job *j, line *lines, int64_t n)
{
    zt_str s;
    zt_status st = ZT_OK;
    zt_str_init(&s, j->ctx);
    if (n) qsort(lines, (size_t)n, sizeof *lines, by_name);
    for (int64_t i = 0; st == ZT_OK && i < n; i++) {
        zt_str_clear(&s);
        zt_str_printf(&s, "%016" PRIx64 "%016" PRIx64 "  ", lines[i].high, lines[i].low);
        if (j->many) {
            zt_str_put_escaped(&s, j->path[0], strlen(j->path[0]));
            zt_str_puts(&s, "  ");
        }
        zt_str_put_escaped(&s, lines[i].name, strlen(lines[i].name));
        st = zt_str_putc(&s, '\n');
        if (st == ZT_OK) st = zt_cli_write(j->cli, s.data, s.len);
    }
    zt_str_fini(&s);
    return st;
}

zt_status job_hash(job *j)
{
    enum { ROOM = 1 << 20 };
    zt_checkpoint *c = job_open_one(j, j->path[0], ZT_CHECKPOINT_STREAM);
    if (!c) return zt_ctx_status(j->ctx);
    int64_t n = zt_checkpoint_count(c);
    line *lines = zt_alloc_array(j->ctx, (size_t)n, sizeof *lines);
    char *buf = zt_alloc(j->ctx, ROOM);
    zt_status s = lines && buf ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; s == ZT_OK && i < n; i++) {
        zt_entry e;
        zt_checkpoint_get(c, i, &e);
        zt_progress(j->cli, &(zt_work){"hash", e.name, "tensors", (double)i, (double)n});
        s = hash_one(j, c, i, buf, ROOM, &lines[i]);
    }
    if (s == ZT_OK) s = zt_checkpoint_end(c);
    if (s == ZT_OK) s = print_lines(j, lines, n);
    zt_free(j->ctx, lines);
    zt_free(j->ctx, buf);
    zt_checkpoint_close(c);
    return s;
}
