/* hash.c - a hash of each tensor, of what it is and not of where: equal for equal dtype, shape and
 * values in whatever container. XXH3-128 of "dtype[shape]", a zero byte, and the values row-major
 * and little endian. */
#include "tools/zt-convert/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

typedef struct hash_line {
    const char *name;
    uint64_t high, low;
} hash_line;

static zt_status hash_tensor(convert_job *job, zt_checkpoint *checkpoint, int64_t i, char *buffer, size_t capacity,
                             hash_line *out)
{
    zt_entry entry;
    char shape[ZT_TYPE_TEXT];
    zt_status status = ZT_OK;
    XXH3_state_t *state = XXH3_createState();
    if (!state) return zt_fail(job->ctx, ZT_ENOMEM, "out of memory");
    zt_checkpoint_get(checkpoint, i, &entry);
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, entry.dtype, strlen(entry.dtype));
    shape_text(&entry.type, shape);
    XXH3_128bits_update(state, shape, strlen(shape) + 1);
    for (uint64_t position = 0, step; status == ZT_OK && position < entry.bytes; position += step) {
        step = entry.bytes - position < capacity ? entry.bytes - position : capacity;
        status = zt_checkpoint_read(checkpoint, i, position, buffer, (size_t)step);
        XXH3_128bits_update(state, buffer, (size_t)step);
        if (status == ZT_OK) status = job_interrupted(job);
    }
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    *out = (hash_line){.name = entry.name, .high = hash.high64, .low = hash.low64};
    return status;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(((const hash_line *)left)->name, ((const hash_line *)right)->name);
}

static zt_status print_lines(convert_job *job, hash_line *lines, int64_t count)
{
    zt_str text;
    zt_status status = ZT_OK;
    zt_str_init(&text, job->ctx);
    if (count) qsort(lines, (size_t)count, sizeof *lines, compare_names);
    for (int64_t i = 0; status == ZT_OK && i < count; i++) {
        zt_str_clear(&text);
        zt_str_printf(&text, "%016" PRIx64 "%016" PRIx64 "  ", lines[i].high, lines[i].low);
        if (job->many) {
            zt_str_put_escaped(&text, job->paths[0], strlen(job->paths[0]));
            zt_str_puts(&text, "  ");
        }
        zt_str_put_escaped(&text, lines[i].name, strlen(lines[i].name));
        status = zt_str_putc(&text, '\n');
        if (status == ZT_OK) status = zt_cli_write(job->cli, text.data, text.len);
    }
    zt_str_fini(&text);
    return status;
}

zt_status job_hash(convert_job *job)
{
    enum { ROOM = 1 << 20 };
    zt_checkpoint *checkpoint = job_open_one(job, job->paths[0], ZT_CHECKPOINT_STREAM);
    if (!checkpoint) return zt_ctx_status(job->ctx);
    int64_t count = zt_checkpoint_count(checkpoint);
    hash_line *lines = zt_alloc_array(job->ctx, (size_t)count, sizeof *lines);
    char *buffer = zt_alloc(job->ctx, ROOM);
    zt_status status = lines && buffer ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; status == ZT_OK && i < count; i++) {
        zt_entry entry;
        zt_checkpoint_get(checkpoint, i, &entry);
        zt_progress(job->cli, &(zt_work){"hash", entry.name, "tensors", (double)i, (double)count});
        status = hash_tensor(job, checkpoint, i, buffer, ROOM, &lines[i]);
    }
    if (status == ZT_OK) status = zt_checkpoint_end(checkpoint);
    if (status == ZT_OK) status = print_lines(job, lines, count);
    zt_free(job->ctx, lines);
    zt_free(job->ctx, buffer);
    zt_checkpoint_close(checkpoint);
    return status;
}
