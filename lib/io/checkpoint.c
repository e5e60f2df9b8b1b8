/* checkpoint.c - owns the table of containers, and reading: what a file is, its tensors by number
 * and name. */
#include "lib/base/foreign.h"
#include "lib/base/require.h"
#include "lib/io/checkpoint_file.h"

#include <string.h>

/* In the order in which they are asked whether a file is theirs. */
static const zt_container *const containers[] = {&zt_container_gguf, &zt_container_safetensors, &zt_container_npz,
                                                 &zt_container_npy,  &zt_container_pt,          &zt_container_json,
                                                 &zt_container_index};

enum { N_CONTAINERS = sizeof containers / sizeof *containers };

/* ---- containers ------------------------------------------------------------------------------ */

const zt_container *zt_container_at(int i) { return i >= 0 && i < N_CONTAINERS ? containers[i] : NULL; }

const zt_container *zt_container_named(const char *name)
{
    if (!name) return NULL;
    for (int i = 0; i < N_CONTAINERS; i++)
        if (strcmp(containers[i]->name, name) == 0) return containers[i];
    return NULL;
}

const zt_container *zt_container_for(const char *path)
{
    if (!path) return NULL;
    static const struct {
        const char *suffix;
        const zt_container *container;
    } also[] = {{".pth", &zt_container_pt}, {".bin", &zt_container_pt}};
    size_t length = strlen(path);
    for (int i = 0; i < N_CONTAINERS; i++) {
        size_t suffix_length = strlen(containers[i]->suffix);
        if (length > suffix_length && strcmp(path + length - suffix_length, containers[i]->suffix) == 0) return containers[i];
    }
    for (size_t i = 0; i < sizeof also / sizeof *also; i++) {
        size_t suffix_length = strlen(also[i].suffix);
        if (length > suffix_length && strcmp(path + length - suffix_length, also[i].suffix) == 0) return also[i].container;
    }
    return NULL;
}

const char *zt_container_name(const zt_container *container) { return container ? container->name : NULL; }

bool zt_container_writes(const zt_container *container) { return container && container->ops != NULL; }

/* ---- opening --------------------------------------------------------------------------------- */

static zt_checkpoint *checkpoint_new(zt_ctx *ctx, const char *name)
{
    zt_checkpoint *checkpoint = zt_calloc(ctx, 1, sizeof *checkpoint);
    if (!checkpoint) return NULL;
    checkpoint->ctx = ctx;
    checkpoint->hidden = -1;
    checkpoint->name = zt_strdup(ctx, name);
    if (checkpoint->name) return checkpoint;
    zt_free(ctx, checkpoint);
    return NULL;
}

void zt_checkpoint_close(zt_checkpoint *checkpoint)
{
    if (!checkpoint) return;
    if (checkpoint->user) checkpoint->reader->close(checkpoint->user);
    zt_meta_free(checkpoint->meta);
    zt_map_free(checkpoint->masks);
    zt_free(checkpoint->ctx, checkpoint->mask_of);
    zt_free(checkpoint->ctx, checkpoint->mask);
    zt_arena_free(checkpoint->texts);
    zt_free(checkpoint->ctx, checkpoint->name);
    zt_free(checkpoint->ctx, checkpoint);
}

/* Does a file begin as SentencePiece's does: a message of a piece, of a text? */
static bool is_vocabulary(const unsigned char *head, size_t size)
{
    enum { PIECES = 1 << 3 | 2, TEXT = 1 << 3 | 2 }; /* protobuf: field 1, by its length */
    return size >= 4 && head[0] == PIECES && head[1] > 2 && head[head[1] < 128 ? 2 : 3] == TEXT;
}

/* By the first bytes, which a stream gets back; where they say nothing, by the name, so that the
 * reader tells what is wrong. */
static zt_status find_container(zt_checkpoint *checkpoint, zt_source *source)
{
    unsigned char head[ZT_PROBE];
    size_t size;
    zt_status status = zt_source_read_some(source, 0, head, sizeof head, sizeof head, &size);
    if (status == ZT_OK) status = zt_source_unread(source, head, size);
    if (status != ZT_OK) return status;
    for (int i = 0; i < N_CONTAINERS && !checkpoint->container; i++)
        if (containers[i]->probe(head, size, zt_source_size(source))) checkpoint->container = containers[i];
    if (!checkpoint->container) status = zt_foreign_fail(checkpoint->ctx, checkpoint->name, head, size);
    if (status != ZT_OK) return status;
    if (!checkpoint->container) checkpoint->container = zt_container_for(checkpoint->name);
    if (checkpoint->container) return ZT_OK;
    char text[64];
    if (size == 0) return zt_fail(checkpoint->ctx, ZT_EDATA, "%s: empty file", checkpoint->name);
    if (is_vocabulary(head, size))
        return zt_fail(checkpoint->ctx, ZT_EDATA,
                       "%s: a SentencePiece vocabulary (tokenizer.model) without weights: name the model's "
                       "directory instead",
                       checkpoint->name);
    return zt_fail(checkpoint->ctx, ZT_EDATA, "%s: unknown file format: the file starts with '%s'", checkpoint->name,
                   zt_escape(text, sizeof text, (const char *)head, size < 8 ? size : 8));
}

/* Is it a file of a container whose files may be parts of a model, by their names or an index? */
static bool may_be_part(const zt_checkpoint *checkpoint, const zt_source *source)
{
    return !checkpoint->alone && zt_source_fd(source) >= 0 && checkpoint->container->numbered &&
           checkpoint->container->numbered(source);
}

/* By its index, whose name the checkpoint takes. */
static zt_status open_indexed(zt_checkpoint *checkpoint, char *index)
{
    zt_free(checkpoint->ctx, checkpoint->name);
    checkpoint->name = index;
    return zt_parts_open_index(checkpoint);
}

/* Takes over the source. */
static zt_status open_source(zt_checkpoint *checkpoint, zt_source *source)
{
    zt_shard_name shard;
    char *index = NULL;
    zt_status status = find_container(checkpoint, source);
    bool is_part = status == ZT_OK && may_be_part(checkpoint, source);
    bool numbered = is_part && zt_shard_parse(checkpoint->name, &shard) && shard.count > 1;
    if (is_part && !numbered) status = zt_parts_find_index(checkpoint, &index);
    if (status == ZT_OK && (numbered || index)) {
        zt_source_close(source);
        status = index ? open_indexed(checkpoint, index) : zt_parts_open(checkpoint, &shard);
        return status == ZT_OK ? zt_checkpoint_read_meta(checkpoint) : status;
    }
    if (status == ZT_OK && !checkpoint->container->streams) status = zt_source_spool(source);
    if (status != ZT_OK) {
        zt_source_close(source);
        return status;
    }
    checkpoint->streams = zt_source_streams(source);
    status = checkpoint->container->open(checkpoint, source);
    return status == ZT_OK && !checkpoint->alone ? zt_checkpoint_read_meta(checkpoint) : status;
}

zt_checkpoint *zt_checkpoint_open(zt_ctx *ctx, const char *path, unsigned flags)
{
    ZT_REQUIRE(ctx, path, NULL);
    zt_checkpoint *checkpoint =
        zt_checkpoint_take(ctx, flags & ZT_CHECKPOINT_STREAM ? zt_source_open_stream(ctx, path) : zt_source_open(ctx, path));
    if (checkpoint && !(flags & ZT_CHECKPOINT_DECODE) && checkpoint->reader->keep_rows)
        checkpoint->reader->keep_rows(checkpoint->user);
    return checkpoint;
}

zt_checkpoint *zt_checkpoint_open_index(zt_ctx *ctx, const char *path)
{
    ZT_REQUIRE(ctx, path, NULL);
    zt_checkpoint *checkpoint = checkpoint_new(ctx, path);
    if (checkpoint && zt_parts_open_index(checkpoint) == ZT_OK && zt_checkpoint_read_meta(checkpoint) == ZT_OK) return checkpoint;
    zt_checkpoint_close(checkpoint);
    return NULL;
}

zt_checkpoint *zt_checkpoint_over(zt_ctx *ctx, const char *name, const zt_container *container, const zt_reader *reader,
                                  void *user)
{
    zt_checkpoint *checkpoint = checkpoint_new(ctx, name);
    if (!checkpoint) {
        reader->close(user);
        return NULL;
    }
    checkpoint->container = container;
    checkpoint->reader = reader;
    checkpoint->user = user;
    checkpoint->parts = true;
    if (zt_checkpoint_read_meta(checkpoint) == ZT_OK) return checkpoint;
    zt_checkpoint_close(checkpoint);
    return NULL;
}

static zt_checkpoint *take_source(zt_ctx *ctx, zt_source *source, bool alone)
{
    zt_checkpoint *checkpoint = source ? checkpoint_new(ctx, zt_source_name(source)) : NULL;
    if (!checkpoint) {
        zt_source_close(source);
        return NULL;
    }
    checkpoint->alone = alone;
    if (open_source(checkpoint, source) == ZT_OK) return checkpoint;
    zt_checkpoint_close(checkpoint);
    return NULL;
}

zt_checkpoint *zt_checkpoint_take(zt_ctx *ctx, zt_source *source)
{
    ZT_REQUIRE(ctx, source, NULL);
    return take_source(ctx, source, false);
}

zt_checkpoint *zt_checkpoint_alone(zt_ctx *ctx, zt_source *source) { return take_source(ctx, source, true); }

/* ---- what is there --------------------------------------------------------------------------- */

const char *zt_checkpoint_name(const zt_checkpoint *checkpoint) { return checkpoint ? checkpoint->name : NULL; }

const zt_container *zt_checkpoint_container(const zt_checkpoint *checkpoint) { return checkpoint ? checkpoint->container : NULL; }

bool zt_checkpoint_streams(const zt_checkpoint *checkpoint) { return checkpoint && checkpoint->streams; }

bool zt_checkpoint_in_parts(const zt_checkpoint *checkpoint) { return checkpoint && checkpoint->parts; }

zt_meta *zt_checkpoint_meta(zt_checkpoint *checkpoint) { return checkpoint ? checkpoint->meta : NULL; }

int64_t zt_checkpoint_count(const zt_checkpoint *checkpoint)
{
    return checkpoint ? checkpoint->reader->count(checkpoint->user) - (checkpoint->hidden >= 0) : 0;
}

/* Number of what is stored. */
static int64_t stored_index(const zt_checkpoint *checkpoint, int64_t i)
{
    return checkpoint->hidden >= 0 && i >= checkpoint->hidden ? i + 1 : i;
}

void zt_checkpoint_get(const zt_checkpoint *checkpoint, int64_t i, zt_entry *entry)
{
    if (!checkpoint) return;
    ZT_REQUIRE(checkpoint->ctx, entry, );
    ZT_REQUIRE(checkpoint->ctx, i >= 0 && i < zt_checkpoint_count(checkpoint), );
    i = stored_index(checkpoint, i);
    checkpoint->reader->get(checkpoint->user, i, entry);
    if (!checkpoint->mask_of || checkpoint->mask_of[i] < 0) return;
    const zt_mask *mask = &checkpoint->mask[checkpoint->mask_of[i]];
    entry->name = mask->name;
    entry->dtype = mask->dtype;
    entry->type = mask->type;
}

int64_t zt_checkpoint_find(const zt_checkpoint *checkpoint, const char *name)
{
    if (!checkpoint) return -1;
    ZT_REQUIRE(checkpoint->ctx, name, -1);
    int64_t i;
    if (!checkpoint->masks || !zt_map_get(checkpoint->masks, name, strlen(name), &i)) {
        i = checkpoint->reader->find(checkpoint->user, name);
        if (i >= 0 && checkpoint->mask_of && checkpoint->mask_of[i] >= 0) return -1;
    }
    return i < 0 || i == checkpoint->hidden ? -1 : checkpoint->hidden >= 0 && i > checkpoint->hidden ? i - 1 : i;
}

zt_status zt_checkpoint_read(zt_checkpoint *checkpoint, int64_t i, uint64_t offset, void *dst, size_t size)
{
    if (!checkpoint) return ZT_EUSAGE;
    ZT_REQUIRE(checkpoint->ctx, dst || !size, ZT_EUSAGE);
    return checkpoint->reader->read(checkpoint->user, stored_index(checkpoint, i), offset, dst, size);
}

static zt_status store_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    zt_checkpoint *checkpoint = user;
    zt_entry entry;
    *handle = zt_checkpoint_find(checkpoint, name);
    if (*handle < 0) return ZT_ENOENT;
    zt_checkpoint_get(checkpoint, *handle, &entry);
    *type = entry.type;
    if (entry.type.dtype != ZT_DTYPE_COUNT && entry.type.rank >= 0) return ZT_OK;
    return zt_fail(checkpoint->ctx, ZT_ENOTSUP, "%s: tensor '%s': unsupported dtype or rank (%s)", zt_checkpoint_name(checkpoint),
                   entry.name, entry.dtype);
}

static zt_status store_read(void *user, int64_t handle, size_t offset, void *dst, size_t size)
{
    return zt_checkpoint_read(user, handle, offset, dst, size);
}

zt_store zt_checkpoint_store(zt_checkpoint *checkpoint)
{
    return (zt_store){.user = checkpoint, .find = store_find, .read = store_read};
}

bool zt_checkpoint_place(const zt_checkpoint *checkpoint, int64_t i, const zt_source **source, uint64_t *offset)
{
    if (!checkpoint || !source || !offset || i < 0 || i >= zt_checkpoint_count(checkpoint)) return false;
    return checkpoint->reader->place && checkpoint->reader->place(checkpoint->user, stored_index(checkpoint, i), source, offset);
}

zt_status zt_checkpoint_end(zt_checkpoint *checkpoint)
{
    if (!checkpoint) return ZT_EUSAGE;
    return checkpoint->streams && checkpoint->reader->end ? checkpoint->reader->end(checkpoint->user) : ZT_OK;
}

/* ---- as a GGUF ------------------------------------------------------------------------------- */

typedef struct renamed_gguf {
    zt_checkpoint *checkpoint;
    int64_t *stored; /* tensor of the GGUF -> of the checkpoint */
} renamed_gguf;

static zt_status read_renamed(void *user, int64_t handle, size_t offset, void *dst, size_t size)
{
    renamed_gguf *over = user;
    return zt_checkpoint_read(over->checkpoint, over->stored[handle], offset, dst, size);
}

static void release_renamed(void *user)
{
    renamed_gguf *over = user;
    zt_ctx *ctx = over->checkpoint->ctx;
    zt_free(ctx, over->stored);
    zt_checkpoint_close(over->checkpoint);
    zt_free(ctx, over);
}

static zt_status put_header(zt_gguf_writer *writer, renamed_gguf *over)
{
    const zt_meta *meta = zt_checkpoint_meta(over->checkpoint);
    int64_t count = zt_checkpoint_count(over->checkpoint), used = 0;
    zt_status status = zt_gguf_put_keys(writer, meta);
    for (int64_t i = 0; status == ZT_OK && i < count; i++) {
        zt_entry entry;
        zt_checkpoint_get(over->checkpoint, i, &entry);
        if (!zt_gguf_can(entry.name, entry.dtype, entry.type.rank)) continue;
        over->stored[used++] = i;
        status = zt_gguf_put_tensor_word(writer, entry.name, entry.dtype, entry.type.rank, entry.type.dim);
    }
    return status;
}

zt_gguf *zt_checkpoint_gguf(zt_checkpoint *checkpoint)
{
    if (!checkpoint) return NULL;
    size_t bytes, count = (size_t)zt_checkpoint_count(checkpoint);
    uint64_t data;
    char *header = NULL;
    renamed_gguf *over = zt_calloc(checkpoint->ctx, 1, sizeof *over);
    if (!over) {
        zt_checkpoint_close(checkpoint);
        return NULL;
    }
    over->checkpoint = checkpoint;
    over->stored = zt_alloc_array(checkpoint->ctx, count, sizeof *over->stored);
    zt_gguf_writer *writer = zt_gguf_writer_new(checkpoint->ctx);
    if (writer && over->stored && put_header(writer, over) == ZT_OK) header = zt_gguf_writer_finish(writer, &bytes, &data);
    zt_gguf_writer_free(writer);
    if (header)
        return zt_gguf_over(checkpoint->ctx, checkpoint->name, header, bytes, data,
                            &(zt_store){.user = over, .read = read_renamed}, release_renamed);
    release_renamed(over);
    return NULL;
}
