/* checkpoint_write.c - owns writing a checkpoint: what is stored as what, one file or shards, all of which exist
 * at the end or none; and changing metadata and names in place, where one write of at most a page does it. */
#include "lib/base/require.h"
#include "lib/base/sink_count.h"
#include "lib/io/checkpoint_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SHARDS = 1000 };

struct zt_writer {
    zt_ctx *ctx;
    const zt_container *container;
    bool force, in_place, counts; /* counts: bytes are counted and not kept */
    zt_arena *texts;
    zt_meta *meta;
    zt_entry *entries; /* as they are stored */
    int64_t count;
    bool hidden; /* entry 0 is the metadata, ours to put */
    zt_part *parts;
    int64_t part_count, current;
    int64_t entry_index; /* the entry of the current part whose data come next */
    uint64_t remaining;  /* bytes of it that have not come */
    bool open;           /* entry `entry_index` has been announced */
    char *path;
    zt_status failed;
};

/* ---- what goes into which file --------------------------------------------------------------- */

/* "m.gguf" -> "m-00002-of-00003.gguf" */
static char *shard_path(zt_writer *writer, int64_t number)
{
    size_t length = strlen(writer->path), suffix_length = strlen(writer->container->suffix);
    zt_str text;
    zt_str_init(&text, writer->ctx);
    if (length > suffix_length && strcmp(writer->path + length - suffix_length, writer->container->suffix) == 0)
        length -= suffix_length;
    zt_status status = zt_str_put(&text, writer->path, length);
    if (status == ZT_OK)
        status =
            zt_str_printf(&text, "-%05" PRId64 "-of-%05" PRId64 "%s", number + 1, writer->part_count, writer->container->suffix);
    if (status == ZT_OK) return text.data;
    zt_str_fini(&text);
    return NULL;
}

/* The first entry behind those that begin a file at `first`: as many as fit, one at least. */
static int64_t find_part_end(const zt_writer *writer, int64_t first, uint64_t limit)
{
    uint64_t bytes = 0;
    int64_t i = first;
    for (; i < writer->count; i++) {
        if (i > first && (writer->entries[i].bytes > limit || bytes > limit - writer->entries[i].bytes)) break;
        bytes += writer->entries[i].bytes;
    }
    return i;
}

static zt_status plan_parts(zt_writer *writer, uint64_t limit)
{
    limit = limit ? limit : UINT64_MAX;
    for (int64_t i = 0; i < writer->count; writer->part_count++) i = find_part_end(writer, i, limit);
    writer->part_count = writer->part_count ? writer->part_count : 1;
    if (writer->part_count > MAX_SHARDS)
        return zt_fail(writer->ctx, ZT_EUSAGE, "%s: too many shards (%lld): at most %d are supported", writer->path,
                       (long long)writer->part_count, MAX_SHARDS);
    writer->parts = zt_calloc(writer->ctx, (size_t)writer->part_count, sizeof *writer->parts);
    if (!writer->parts) return ZT_ENOMEM;
    for (int64_t index = 0, i = 0, end; index < writer->part_count; index++, i = end) {
        end = find_part_end(writer, i, limit);
        writer->parts[index] = (zt_part){.ctx = writer->ctx, .entries = writer->entries + i, .count = end - i, .align = 1};
        writer->parts[index].path = writer->part_count > 1 ? shard_path(writer, index) : zt_strdup(writer->ctx, writer->path);
        if (!writer->parts[index].path) return ZT_ENOMEM;
    }
    return ZT_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Metadata as an entry of its own, before the others. */
static zt_status hide_meta(zt_writer *writer, zt_str *text)
{
    zt_status status = zt_meta_to_text(writer->meta, text);
    if (status != ZT_OK) return status;
    memmove(writer->entries + 1, writer->entries, (size_t)writer->count * sizeof *writer->entries);
    writer->entries[0] = (zt_entry){.name = ZT_KEY_GGUF,
                                    .dtype = zt_dtype_get(writer->container->mask_dtype)->name,
                                    .type = {.dtype = writer->container->mask_dtype, .rank = 1, .dim = {(int64_t)text->len}},
                                    .bytes = text->len};
    writer->count++;
    writer->hidden = true;
    return ZT_OK;
}

/* Of one file, meta is looked at while it is opened, and no longer. */
static zt_status take_meta(zt_writer *writer, const zt_meta *meta, bool shards)
{
    writer->meta = zt_meta_new(writer->ctx);
    if (!writer->meta || !meta) return writer->meta ? ZT_OK : ZT_ENOMEM;
    return shards ? zt_meta_join(writer->meta, meta) : zt_meta_share(writer->meta, meta);
}

static zt_status prepare_entries(zt_writer *writer, const zt_meta *meta, bool shards, const zt_entry *entries, int64_t count,
                                 zt_str *text)
{
    writer->texts = zt_arena_new(writer->ctx, 0);
    writer->entries = zt_alloc_array(writer->ctx, (size_t)count + 1, sizeof *writer->entries);
    writer->count = count;
    zt_status status = writer->texts && writer->entries ? take_meta(writer, meta, shards) : ZT_ENOMEM;
    if (status == ZT_OK)
        status = zt_mask_entries(writer->ctx, writer->texts, writer->container, entries, count, writer->entries, writer->meta);
    if (status == ZT_OK) status = zt_fit_meta(writer->container, &writer->meta);
    bool hides = !writer->container->can_meta && zt_meta_count(writer->meta) > 0;
    return status == ZT_OK && hides ? hide_meta(writer, text) : status;
}

/* Out at once: who reads a pipe may begin. */
static zt_status put_header(zt_writer *writer, zt_part *part, const zt_meta *meta)
{
    size_t size;
    if (!writer->container->ops->header) return writer->container->ops->begin(part, meta);
    char *header = writer->container->ops->header(part, meta, 0, &size);
    zt_status status = header ? zt_sink_write(part->sink, header, size) : zt_ctx_status(writer->ctx);
    if (status == ZT_OK) status = zt_sink_write(part->sink, NULL, 0);
    zt_free(writer->ctx, header);
    return status;
}

/* Metadata of a shard: all in the first one, where the container tells shards apart. */
static zt_status begin_part(zt_writer *writer, int64_t index)
{
    zt_meta *shared = writer->meta, *shard_meta = NULL;
    zt_status status = ZT_OK;
    if (writer->part_count > 1) {
        shared = shard_meta = zt_meta_new(writer->ctx);
        status = shard_meta ? ZT_OK : ZT_ENOMEM;
        if (status == ZT_OK && (index == 0 || !writer->container->shard_meta)) status = zt_meta_share(shard_meta, writer->meta);
        if (status == ZT_OK && writer->container->shard_meta)
            status = writer->container->shard_meta(shard_meta, index, writer->part_count, writer->count);
    }
    zt_part *part = &writer->parts[index];
    if (status == ZT_OK) {
        part->sink = writer->counts     ? zt_sink_count(writer->ctx)
                     : writer->in_place ? zt_sink_open_in_place(writer->ctx, part->path)
                                        : zt_sink_open(writer->ctx, part->path, writer->force);
        status = part->sink ? put_header(writer, part, shared) : zt_ctx_status(writer->ctx);
    }
    zt_meta_free(shard_meta);
    return status;
}

static zt_status advance_entry(zt_writer *writer);

static zt_status start_writing(zt_writer *writer, const zt_checkpoint_opts *options, const zt_meta *meta, const zt_entry *entries,
                               int64_t count)
{
    zt_str text;
    zt_str_init(&text, writer->ctx);
    zt_status status = prepare_entries(writer, meta, options->shard > 0, entries, count, &text);
    if (status == ZT_OK) status = plan_parts(writer, options->shard);
    if (status == ZT_OK) status = begin_part(writer, 0);
    if (status == ZT_OK) status = advance_entry(writer);
    if (status == ZT_OK && writer->hidden) status = zt_writer_put(writer, text.data, text.len);
    zt_str_fini(&text);
    return status;
}

static zt_writer *writer_open(zt_ctx *ctx, const char *path, const zt_checkpoint_opts *options, const zt_meta *meta,
                              const zt_entry *entries, int64_t count, bool counts)
{
    ZT_REQUIRE(ctx, path && options && count >= 0 && (entries || !count), NULL);
    for (int64_t i = 0; i < count; i++) ZT_REQUIRE(ctx, entries[i].name && entries[i].dtype, NULL);
    zt_writer *writer = zt_calloc(ctx, 1, sizeof *writer);
    if (!writer) return NULL;
    *writer = (zt_writer){.ctx = ctx,
                          .container = options->to,
                          .force = options->force,
                          .in_place = options->in_place,
                          .counts = counts,
                          .entry_index = -1};
    if (!writer->container) writer->container = zt_container_for(path);
    if (!writer->container) writer->container = &zt_container_gguf;
    writer->path = zt_strdup(ctx, path);
    zt_status status = writer->path ? ZT_OK : ZT_ENOMEM;
    if (status == ZT_OK && !writer->container->ops)
        status = zt_fail(ctx, ZT_ENOTSUP, "%s: writing %s is not supported", path, writer->container->name);
    if (status == ZT_OK && options->shard && !writer->container->shards)
        status = zt_fail(ctx, ZT_EUSAGE, "%s: %s does not support shards", path, writer->container->name);
    if (status == ZT_OK && options->shard && strcmp(path, "-") == 0)
        status = zt_fail(ctx, ZT_EUSAGE, "shards cannot be written to stdout");
    if (status == ZT_OK && start_writing(writer, options, meta, entries, count) == ZT_OK) return writer;
    zt_writer_close(writer);
    return NULL;
}

zt_writer *zt_writer_open(zt_ctx *ctx, const char *path, const zt_checkpoint_opts *options, const zt_meta *meta,
                          const zt_entry *entries, int64_t count)
{
    return writer_open(ctx, path, options, meta, entries, count, false);
}

/* ---- data ------------------------------------------------------------------------------------ */

/* To the next entry that has bytes, announcing all on the way; in the last part past the last. */
static zt_status advance_entry(zt_writer *writer)
{
    zt_status status = ZT_OK;
    while (status == ZT_OK && writer->remaining == 0) {
        zt_part *part = &writer->parts[writer->current];
        if (writer->entry_index + 1 < part->count) {
            writer->entry_index++;
            writer->remaining = part->entries[writer->entry_index].bytes;
            status = writer->container->ops->tensor ? writer->container->ops->tensor(part, writer->entry_index) : ZT_OK;
        } else if (writer->current + 1 < writer->part_count) {
            status = writer->container->ops->end ? writer->container->ops->end(part) : ZT_OK;
            writer->entry_index = -1;
            writer->current++;
            status = status == ZT_OK ? begin_part(writer, writer->current) : status;
        } else {
            writer->entry_index = part->count;
            break;
        }
    }
    return writer->failed = status;
}

static zt_status fail_surplus(zt_writer *writer)
{
    return writer->failed = zt_fail(writer->ctx, ZT_EBUG, "%s: more data written than the tensors hold", writer->path);
}

zt_status zt_writer_put(zt_writer *writer, const void *bytes, size_t size)
{
    if (!writer) return ZT_EUSAGE;
    ZT_REQUIRE(writer->ctx, bytes || !size, ZT_EUSAGE);
    const char *cursor = bytes;
    while (size && !writer->failed) {
        zt_part *part = &writer->parts[writer->current];
        size_t step = size < writer->remaining ? size : (size_t)writer->remaining;
        if (step == 0) return fail_surplus(writer);
        writer->failed = writer->container->ops->put ? writer->container->ops->put(part, cursor, step)
                                                     : zt_sink_write(part->sink, cursor, step);
        writer->remaining -= step;
        cursor += step;
        size -= step;
        if (!writer->failed) advance_entry(writer);
    }
    return writer->failed;
}

zt_status zt_writer_put_tensor(zt_writer *writer, zt_checkpoint *from, int64_t i, zt_copied_fn *after, void *user)
{
    enum { STEP = 1 << 16 };
    char piece[STEP];
    zt_entry entry;
    zt_status status = ZT_OK;
    if (!writer) return ZT_EUSAGE;
    ZT_REQUIRE(writer->ctx, from && i >= 0 && i < zt_checkpoint_count(from), ZT_EUSAGE);
    zt_checkpoint_get(from, i, &entry);
    for (uint64_t offset = 0, step; offset < entry.bytes && status == ZT_OK; offset += step) {
        step = entry.bytes - offset < STEP ? entry.bytes - offset : STEP;
        status = zt_checkpoint_read(from, i, offset, piece, (size_t)step);
        if (status == ZT_OK) status = zt_writer_put(writer, piece, (size_t)step);
        if (status == ZT_OK && after) status = after(user, (size_t)step);
    }
    return status;
}

/* Where the container changes what it is given, the bytes pass through memory. */
static zt_status copy_some(zt_writer *writer, const zt_source *source, uint64_t offset, uint64_t size)
{
    enum { STEP = 1 << 18 };
    zt_part *part = &writer->parts[writer->current];
    if (!writer->container->ops->put) return zt_sink_copy(part->sink, source, offset, size);
    char *buffer = zt_alloc(writer->ctx, STEP);
    zt_status status = buffer ? ZT_OK : ZT_ENOMEM;
    for (size_t step; status == ZT_OK && size; offset += step, size -= step) {
        step = size < STEP ? (size_t)size : STEP;
        status = zt_source_read(source, offset, buffer, step);
        if (status == ZT_OK) status = writer->container->ops->put(part, buffer, step);
    }
    zt_free(writer->ctx, buffer);
    return status;
}

bool zt_writer_seamless(const zt_writer *writer)
{
    return writer && !writer->container->ops->put && !writer->container->ops->tensor;
}

/* Of the next `size` bytes, those that go out at once: the entry's; or the file's. */
static uint64_t count_at_once(const zt_writer *writer, uint64_t size)
{
    const zt_part *part = &writer->parts[writer->current];
    uint64_t total = size < writer->remaining ? size : writer->remaining;
    for (int64_t i = writer->entry_index + 1; total < size && i < part->count && zt_writer_seamless(writer); i++)
        total += size - total < part->entries[i].bytes ? size - total : part->entries[i].bytes;
    return total;
}

/* `size` bytes of the file have been put. */
static void pass_entries(zt_writer *writer, uint64_t size)
{
    while (size && !writer->failed) {
        uint64_t step = size < writer->remaining ? size : writer->remaining;
        writer->remaining -= step;
        size -= step;
        advance_entry(writer);
    }
}

zt_status zt_writer_copy(zt_writer *writer, const zt_source *source, uint64_t offset, uint64_t size)
{
    if (!writer) return ZT_EUSAGE;
    ZT_REQUIRE(writer->ctx, source, ZT_EUSAGE);
    while (size && !writer->failed) {
        uint64_t step = count_at_once(writer, size);
        if (step == 0) return fail_surplus(writer);
        writer->failed = copy_some(writer, source, offset, step);
        offset += step;
        size -= step;
        pass_entries(writer, step);
    }
    return writer->failed;
}

/* ---- the end --------------------------------------------------------------------------------- */

static char *with_suffix(zt_writer *writer, const char *suffix)
{
    size_t length = strlen(writer->path), suffix_length = strlen(writer->container->suffix);
    zt_str text;
    zt_str_init(&text, writer->ctx);
    if (length > suffix_length && strcmp(writer->path + length - suffix_length, writer->container->suffix) == 0)
        length -= suffix_length;
    if (zt_str_put(&text, writer->path, length) == ZT_OK && zt_str_puts(&text, suffix) == ZT_OK) return text.data;
    zt_str_fini(&text);
    return NULL;
}

static zt_status write_index(zt_writer *writer)
{
    size_t size;
    char *path = with_suffix(writer, writer->container->index_suffix);
    char *text = path ? writer->container->index(writer->ctx, writer->parts, writer->part_count, &size) : NULL;
    zt_sink *sink = text ? zt_sink_open(writer->ctx, path, writer->force) : NULL;
    zt_status status = sink ? zt_sink_write(sink, text, size) : zt_ctx_status(writer->ctx);
    if (status == ZT_OK) status = zt_sink_commit(sink);
    zt_sink_close(sink);
    zt_free(writer->ctx, text);
    zt_free(writer->ctx, path);
    return status;
}

/* Files get their names one after the other; when one fails, those that have theirs go again,
 * unless they took the place of another. */
static zt_status name_files(zt_writer *writer)
{
    zt_status status = ZT_OK;
    int64_t named = 0;
    for (; status == ZT_OK && named < writer->part_count; named++) status = zt_sink_commit(writer->parts[named].sink);
    if (status == ZT_OK && writer->container->index && writer->part_count > 1) status = write_index(writer);
    for (int64_t i = 0; status != ZT_OK && !writer->force && i < named - 1; i++) unlink(writer->parts[i].path);
    return status;
}

zt_status zt_writer_commit(zt_writer *writer)
{
    if (!writer) return ZT_EUSAGE;
    if (writer->failed) return writer->failed;
    zt_part *part = &writer->parts[writer->current];
    if (writer->remaining || writer->current + 1 != writer->part_count || writer->entry_index != part->count)
        return writer->failed = zt_fail(writer->ctx, ZT_EBUG, "%s: less data written than the tensors hold", writer->path);
    zt_status status = writer->container->ops->end ? writer->container->ops->end(part) : ZT_OK;
    return writer->failed = status == ZT_OK ? name_files(writer) : status;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* All data, of zeros. */
static zt_status put_zeros(zt_writer *writer)
{
    enum { STEP = 1 << 18 };
    char *zeros = zt_calloc(writer->ctx, STEP, 1);
    zt_status status = zeros ? ZT_OK : ZT_ENOMEM;
    while (status == ZT_OK && writer->remaining > 0)
        status = zt_writer_put(writer, zeros, writer->remaining < STEP ? (size_t)writer->remaining : STEP);
    zt_free(writer->ctx, zeros);
    zt_part *part = &writer->parts[writer->current];
    return status == ZT_OK && writer->container->ops->end ? writer->container->ops->end(part) : status;
}

uint64_t zt_writer_bytes(zt_ctx *ctx, const char *path, const zt_checkpoint_opts *options, const zt_meta *meta,
                         const zt_entry *entries, int64_t count)
{
    uint64_t sum = 0;
    zt_writer *writer = writer_open(ctx, path, options, meta, entries, count, true);
    if (writer && put_zeros(writer) == ZT_OK)
        for (int64_t index = 0; index < writer->part_count; index++) sum += zt_sink_counted(writer->parts[index].sink);
    zt_writer_close(writer);
    return sum;
}

void zt_writer_close(zt_writer *writer)
{
    if (!writer) return;
    for (int64_t k = 0; writer->parts && k < writer->part_count; k++) {
        if (writer->container->ops->close) writer->container->ops->close(&writer->parts[k]);
        zt_sink_close(writer->parts[k].sink);
        zt_free(writer->ctx, writer->parts[k].path);
    }
    zt_free(writer->ctx, writer->parts);
    zt_free(writer->ctx, writer->entries);
    zt_meta_free(writer->meta);
    zt_arena_free(writer->texts);
    zt_free(writer->ctx, writer->path);
    zt_free(writer->ctx, writer);
}

/* ---- changes in place ------------------------------------------------------------------------ */

enum {
    PAGE = 4096,
    MOST = 1 << 28 /* bytes of a header and its padding: two of them are held */
};

/* The header that the file would have, of exactly `size` bytes; NULL: it would not, or on failure. */
static char *new_header(zt_checkpoint *checkpoint, const zt_meta *meta, const zt_entry *entries, int64_t count, size_t size)
{
    size_t bytes = 0;
    zt_arena *texts = zt_arena_new(checkpoint->ctx, 0);
    zt_meta *all_meta = zt_meta_new(checkpoint->ctx);
    zt_entry *stored = zt_alloc_array(checkpoint->ctx, (size_t)count, sizeof *stored);
    char *header = NULL;
    zt_part part = {.ctx = checkpoint->ctx, .entries = stored, .count = count, .align = 1};
    if (texts && all_meta && stored && zt_meta_share(all_meta, meta) == ZT_OK &&
        zt_mask_entries(checkpoint->ctx, texts, checkpoint->container, entries, count, stored, all_meta) == ZT_OK &&
        zt_fit_meta(checkpoint->container, &all_meta) == ZT_OK)
        header = checkpoint->container->ops->header(&part, all_meta, size, &bytes);
    zt_free(checkpoint->ctx, stored);
    zt_meta_free(all_meta);
    zt_arena_free(texts);
    if (header && bytes == size) return header;
    zt_free(checkpoint->ctx, header);
    return NULL;
}

/* The bytes that differ, first to last, into the file, if they are in one page of it. */
static zt_status write_difference(zt_checkpoint *checkpoint, const char *path, const char *old, const char *fresh, size_t size,
                                  bool *done)
{
    size_t begin = 0, end = size;
    while (begin < size && old[begin] == fresh[begin]) begin++;
    while (end > begin && old[end - 1] == fresh[end - 1]) end--;
    if (end == begin) {
        *done = true;
        return ZT_OK;
    }
    if (begin / PAGE != (end - 1) / PAGE) return ZT_OK;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return ZT_OK; /* a new file may do */
    ssize_t written = pwrite(fd, fresh + begin, end - begin, (off_t)begin);
    int error = written < 0 ? errno : written != (ssize_t)(end - begin) ? EIO : fdatasync(fd) ? errno : 0;
    close(fd);
    *done = error == 0;
    return error ? zt_fail(checkpoint->ctx, ZT_EIO, "%s: %s", path, strerror(error)) : ZT_OK;
}

zt_status zt_checkpoint_patch(zt_checkpoint *checkpoint, const char *path, const zt_meta *meta, const zt_entry *entries,
                              int64_t count, bool *done)
{
    if (!checkpoint) return ZT_EUSAGE;
    ZT_REQUIRE(checkpoint->ctx, done, ZT_EUSAGE);
    const zt_source *source = NULL;
    uint64_t position;
    *done = false;
    if (!checkpoint->container->ops || !checkpoint->container->ops->header || checkpoint->streams || count == 0 ||
        count != zt_checkpoint_count(checkpoint) || !zt_checkpoint_place(checkpoint, 0, &source, &position) || position > MOST)
        return ZT_OK;
    for (int64_t i = 1; i < count; i++) {
        const zt_source *other;
        uint64_t offset;
        if (!zt_checkpoint_place(checkpoint, i, &other, &offset) || other != source) return ZT_OK; /* shards */
    }
    char *old = zt_alloc(checkpoint->ctx, (size_t)position);
    zt_status status = old ? zt_source_read(source, 0, old, (size_t)position) : ZT_ENOMEM;
    char *fresh = status == ZT_OK ? new_header(checkpoint, meta, entries, count, (size_t)position) : NULL;
    if (status == ZT_OK && !fresh)
        status = zt_ctx_status(checkpoint->ctx);
    else if (status == ZT_OK && memcmp(old, fresh, 8) == 0) /* version and byte order, or length */
        status = write_difference(checkpoint, path, old, fresh, (size_t)position, done);
    zt_free(checkpoint->ctx, old);
    zt_free(checkpoint->ctx, fresh);
    return status;
}
