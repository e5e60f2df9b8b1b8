/* checkpoint_parts.c - owns models in several files as one checkpoint: by an index that says which
 * tensor is in which file, or by the files' numbers. GGUF says by its keys which file is which, and
 * has its own way (gguf_shards.c); an index of safetensors is safetensors.c's. */
#include "lib/io/checkpoint_file.h"
#include "lib/io/index.h"

#include <string.h>
#include <sys/stat.h>

typedef struct model_parts {
    zt_ctx *ctx;
    const char *name;      /* of the index, or of the file that was named; the checkpoint's */
    zt_checkpoint **parts; /* each alone */
    int64_t part_count;
    struct where {
        int32_t part;
        int64_t index;
    } * places; /* [tensor_count] tensor -> file, and tensor there */
    int64_t tensor_count;
    zt_map *names;  /* of tensors */
    zt_map *files;  /* of an index: name of a file -> part; NULL: there is none */
    zt_map *wanted; /* tensor -> part */
    zt_arena *texts;
} model_parts;

/* ---- the reader ------------------------------------------------------------------------------ */

static zt_checkpoint *part_of(const model_parts *parts, int64_t i) { return parts->parts[parts->places[i].part]; }

static int64_t count_tensors(const void *user) { return ((const model_parts *)user)->tensor_count; }

static void get_entry(const void *user, int64_t i, zt_entry *entry)
{
    const model_parts *parts = user;
    const zt_checkpoint *part = part_of(parts, i);
    part->reader->get(part->user, parts->places[i].index, entry);
}

static int64_t find_tensor(const void *user, const char *name) { return zt_map_find(((const model_parts *)user)->names, name); }

static zt_status read_data(void *user, int64_t i, uint64_t offset, void *dst, size_t size)
{
    model_parts *parts = user;
    zt_checkpoint *part = part_of(parts, i);
    return part->reader->read(part->user, parts->places[i].index, offset, dst, size);
}

static bool locate_data(const void *user, int64_t i, const zt_source **source, uint64_t *offset)
{
    const model_parts *parts = user;
    const zt_checkpoint *part = part_of(parts, i);
    return part->reader->place && part->reader->place(part->user, parts->places[i].index, source, offset);
}

/* Metadata are the first file's. */
static zt_status read_meta(const void *user, zt_meta *to)
{
    const zt_checkpoint *part = ((const model_parts *)user)->parts[0];
    return part->reader->meta(part->user, to);
}

static void close_parts(void *user)
{
    model_parts *parts = user;
    for (int64_t i = 0; i < parts->part_count; i++) zt_checkpoint_close(parts->parts[i]);
    zt_map_free(parts->names);
    zt_map_free(parts->files);
    zt_map_free(parts->wanted);
    zt_arena_free(parts->texts);
    zt_free(parts->ctx, parts->parts);
    zt_free(parts->ctx, parts->places);
    zt_free(parts->ctx, parts);
}

static const zt_reader reader = {.count = count_tensors,
                                 .get = get_entry,
                                 .find = find_tensor,
                                 .read = read_data,
                                 .place = locate_data,
                                 .meta = read_meta,
                                 .close = close_parts};

/* ---- files ----------------------------------------------------------------------------------- */

static model_parts *parts_new(zt_checkpoint *checkpoint)
{
    model_parts *parts = zt_calloc(checkpoint->ctx, 1, sizeof *parts);
    if (!parts) return NULL;
    parts->ctx = checkpoint->ctx;
    parts->name = checkpoint->name;
    parts->texts = zt_arena_new(checkpoint->ctx, 0);
    parts->parts = zt_calloc(checkpoint->ctx, ZT_MAX_SHARDS, sizeof(zt_checkpoint *));
    if (parts->texts && parts->parts) return parts;
    close_parts(parts);
    return NULL;
}

/* Takes over the source. */
static zt_status add_part(model_parts *parts, zt_source *source)
{
    zt_checkpoint *part = zt_checkpoint_alone(parts->ctx, source);
    if (!part) return zt_ctx_status(parts->ctx);
    parts->parts[parts->part_count++] = part;
    if (part->container == parts->parts[0]->container) return ZT_OK;
    return zt_fail(parts->ctx, ZT_EDATA, "%s and %s: the shards of one model have different file formats", parts->parts[0]->name,
                   part->name);
}

/* Tensor i of file `part_index`: no file before it may have it, and where there is an index, it is there. */
static zt_status add_tensor(model_parts *parts, int32_t part_index, int64_t i)
{
    zt_checkpoint *part = parts->parts[part_index];
    char text[160];
    int64_t other;
    zt_entry entry;
    part->reader->get(part->user, i, &entry);
    size_t length = strlen(entry.name);
    if (zt_map_get(parts->names, entry.name, length, &other))
        return zt_shard_twice(parts->ctx, parts->parts[parts->places[other].part]->name, part->name, entry.name);
    if (parts->wanted && (!zt_map_get(parts->wanted, entry.name, length, &other) || other != part_index))
        return zt_fail(parts->ctx, ZT_EDATA, "%s: tensor '%s' is in %s, but the index does not list it there", parts->name,
                       zt_escape(text, sizeof text, entry.name, length), part->name);
    parts->places[parts->tensor_count] = (struct where){.part = part_index, .index = i};
    return zt_map_put(parts->names, entry.name, length, parts->tensor_count++);
}

static zt_status add_tensors(model_parts *parts)
{
    int64_t total = 0;
    for (int64_t k = 0; k < parts->part_count; k++) total += parts->parts[k]->reader->count(parts->parts[k]->user);
    parts->places = zt_alloc_array(parts->ctx, (size_t)total, sizeof *parts->places);
    parts->names = zt_map_new(parts->ctx, (size_t)total);
    zt_status status = parts->places && parts->names ? ZT_OK : ZT_ENOMEM;
    for (int32_t k = 0; status == ZT_OK && k < parts->part_count; k++)
        for (int64_t i = 0; status == ZT_OK && i < parts->parts[k]->reader->count(parts->parts[k]->user); i++)
            status = add_tensor(parts, k, i);
    if (status == ZT_OK && parts->wanted && (size_t)parts->tensor_count != zt_map_count(parts->wanted))
        status = zt_index_missing(parts->ctx, parts->name, parts->names);
    return status;
}

/* Hands `parts` over to `checkpoint`, also on failure. */
static zt_status finish_opening(zt_checkpoint *checkpoint, model_parts *parts, zt_status status)
{
    if (status == ZT_OK && parts->part_count == 0)
        status = zt_fail(checkpoint->ctx, ZT_EDATA, "%s: the index lists no tensors", checkpoint->name);
    if (status == ZT_OK) status = add_tensors(parts);
    if (status != ZT_OK) {
        close_parts(parts);
        return status;
    }
    checkpoint->container = parts->parts[0]->container;
    checkpoint->reader = &reader;
    checkpoint->user = parts;
    checkpoint->parts = true;
    return ZT_OK;
}

/* ---- by an index ----------------------------------------------------------------------------- */

/* The number of the file of this name, which is opened when it is met first. */
static zt_status find_part(model_parts *parts, const char *file, int64_t *part)
{
    const char *slash = strrchr(parts->name, '/');
    zt_str path;
    if (zt_map_get(parts->files, file, strlen(file), part)) return ZT_OK;
    if (parts->part_count == ZT_MAX_SHARDS)
        return zt_fail(parts->ctx, ZT_EDATA, "%s: the index names more than %d files", parts->name, ZT_MAX_SHARDS);
    zt_str_init(&path, parts->ctx);
    zt_status status = zt_str_put(&path, parts->name, slash ? (size_t)(slash - parts->name) + 1 : 0);
    if (status == ZT_OK) status = zt_str_puts(&path, file);
    zt_source *source = status == ZT_OK ? zt_shard_open(parts->ctx, path.data) : NULL;
    zt_str_fini(&path);
    status = source ? add_part(parts, source) : zt_ctx_status(parts->ctx);
    const char *key = status == ZT_OK ? zt_arena_strndup(parts->texts, file, strlen(file)) : NULL;
    if (!key) return status == ZT_OK ? ZT_ENOMEM : status;
    *part = parts->part_count - 1;
    return zt_map_put(parts->files, key, strlen(key), *part);
}

static zt_status add_mapping(void *user, const char *tensor, const char *file)
{
    model_parts *parts = user;
    char text[160];
    int64_t part;
    zt_status status = find_part(parts, file, &part);
    if (status != ZT_OK) return status;
    if (zt_map_get(parts->wanted, tensor, strlen(tensor), NULL))
        return zt_fail(parts->ctx, ZT_EDATA, "%s: duplicate tensor '%s'", parts->name,
                       zt_escape(text, sizeof text, tensor, strlen(tensor)));
    const char *key = zt_arena_strndup(parts->texts, tensor, strlen(tensor));
    return key ? zt_map_put(parts->wanted, key, strlen(key), part) : ZT_ENOMEM;
}

/* What an index is of: safetensors, by all names; and whether it has a certain one. */
typedef struct index_summary {
    const char *file; /* NULL: none is looked for */
    bool found, others, any, safetensors;
} index_summary;

static zt_status note_file(void *user, const char *tensor, const char *file)
{
    static const char end[] = ".safetensors";
    index_summary *summary = user;
    size_t length = strlen(file), end_length = sizeof end - 1;
    (void)tensor;
    summary->safetensors =
        (!summary->any || summary->safetensors) && length > end_length && strcmp(file + length - end_length, end) == 0;
    summary->any = true;
    bool same = summary->file && strcmp(file, summary->file) == 0;
    summary->found |= same;
    summary->others |= !same;
    return ZT_OK;
}

static zt_status open_index(zt_checkpoint *checkpoint, const index_summary *summary)
{
    if (summary->safetensors || !summary->any) return zt_st_open_index(checkpoint);
    model_parts *parts = parts_new(checkpoint);
    if (!parts) return ZT_ENOMEM;
    parts->files = zt_map_new(checkpoint->ctx, 16);
    parts->wanted = zt_map_new(checkpoint->ctx, 256);
    zt_status status =
        parts->files && parts->wanted ? zt_index_read(checkpoint->ctx, checkpoint->name, add_mapping, parts) : ZT_ENOMEM;
    return finish_opening(checkpoint, parts, status);
}

zt_status zt_parts_open_index(zt_checkpoint *checkpoint)
{
    index_summary summary = {.file = NULL};
    zt_status status = zt_index_read(checkpoint->ctx, checkpoint->name, note_file, &summary);
    return status == ZT_OK ? open_index(checkpoint, &summary) : status;
}

/* ---- by numbers ------------------------------------------------------------------------------ */

static zt_status open_numbered(zt_checkpoint *checkpoint, const zt_shard_name *name)
{
    if (name->count > ZT_MAX_SHARDS)
        return zt_fail(checkpoint->ctx, ZT_EDATA, "%s: the model has %lld shards: at most %d are supported", checkpoint->name,
                       (long long)name->count, ZT_MAX_SHARDS);
    model_parts *parts = parts_new(checkpoint);
    zt_status status = parts ? ZT_OK : ZT_ENOMEM;
    for (int64_t number = 1; status == ZT_OK && number <= name->count; number++) {
        zt_source *source = zt_shard_open_beside(checkpoint->ctx, checkpoint->name, name, number);
        status = source ? add_part(parts, source) : zt_ctx_status(checkpoint->ctx);
    }
    return parts ? finish_opening(checkpoint, parts, status) : status;
}

/* "x-00002-of-00003.safetensors": "x.safetensors.index.json". NULL: no memory. */
static char *index_of(const zt_checkpoint *checkpoint, const zt_shard_name *name)
{
    zt_str path;
    zt_str_init(&path, checkpoint->ctx);
    if (zt_str_put(&path, checkpoint->name, name->stem) == ZT_OK &&
        zt_str_puts(&path, checkpoint->name + name->suffix) == ZT_OK && zt_str_puts(&path, ".index.json") == ZT_OK)
        return path.data;
    zt_str_fini(&path);
    return NULL;
}

zt_status zt_parts_open(zt_checkpoint *checkpoint, const zt_shard_name *name)
{
    struct stat info;
    const char *slash = strrchr(checkpoint->name, '/');
    index_summary summary = {.file = slash ? slash + 1 : checkpoint->name};
    char *index = index_of(checkpoint, name);
    if (!index) return ZT_ENOMEM;
    if (stat(index, &info) != 0) {
        zt_free(checkpoint->ctx, index);
        return open_numbered(checkpoint, name);
    }
    zt_status status = zt_index_read(checkpoint->ctx, index, note_file, &summary);
    if (status == ZT_OK && !summary.found)
        status = zt_fail(checkpoint->ctx, ZT_EDATA, "%s: shard of a model, but the index %s does not name it", checkpoint->name,
                         index);
    if (status != ZT_OK) {
        zt_free(checkpoint->ctx, index);
        return status;
    }
    zt_free(checkpoint->ctx, checkpoint->name);
    checkpoint->name = index; /* whose files are opened beside it */
    return open_index(checkpoint, &summary);
}

/* ---- by an index beside it ------------------------------------------------------------------- */

zt_status zt_parts_find_index(const zt_checkpoint *checkpoint, char **index)
{
    static const char *const names[] = {"model.safetensors.index.json", "pytorch_model.bin.index.json"};
    const char *slash = strrchr(checkpoint->name, '/');
    const size_t folder = slash ? (size_t)(slash - checkpoint->name) + 1 : 0;
    struct stat info;
    zt_str path;
    zt_status status = ZT_OK;
    *index = NULL;
    for (size_t i = 0; status == ZT_OK && !*index && i < sizeof names / sizeof *names; i++) {
        index_summary summary = {.file = checkpoint->name + folder};
        zt_str_init(&path, checkpoint->ctx);
        status = zt_str_put(&path, checkpoint->name, folder);
        if (status == ZT_OK) status = zt_str_puts(&path, names[i]);
        if (status == ZT_OK && stat(path.data, &info) == 0 && S_ISREG(info.st_mode))
            status = zt_index_read(checkpoint->ctx, path.data, note_file, &summary);
        if (status == ZT_EDATA) {
            zt_ctx_clear(checkpoint->ctx);
            status = ZT_OK;
        } else if (status == ZT_OK && summary.found && summary.others) {
            *index = path.data;
            continue;
        }
        zt_str_fini(&path);
    }
    return status;
}
