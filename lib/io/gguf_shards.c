/* gguf_shards.c - owns GGUF models in several files, NAME-00001-of-0000N.gguf: one header over all
 * of them, whichever is named. Keys as llama.cpp's gguf-split writes them, as facts: split.no from 0 on, split.count,
 * split.tensors.count; all other keys are in the first file. */
#include "lib/base/require.h"
#include "lib/io/gguf_file.h"
#include "lib/io/gguf_write.h"
#include "lib/io/shards.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct gguf_parts {
    zt_ctx *ctx;
    zt_gguf **parts;
    int64_t part_count, tensor_count;
    struct where {
        int32_t part;
        int64_t index;
    } * places; /* [tensor_count] tensor of the whole -> file, and tensor there */
} gguf_parts;

static void release_shards(void *user)
{
    gguf_parts *shards = user;
    for (int64_t i = 0; shards->parts && i < shards->part_count; i++) zt_gguf_close(shards->parts[i]);
    zt_ctx *ctx = shards->ctx;
    zt_free(ctx, shards->parts);
    zt_free(ctx, shards->places);
    zt_free(ctx, shards);
}

static zt_status read_data(void *user, int64_t handle, size_t offset, void *dst, size_t size)
{
    const gguf_parts *shards = user;
    zt_store store = zt_gguf_store(shards->parts[shards->places[handle].part]);
    return store.read(store.user, shards->places[handle].index, offset, dst, size);
}

bool zt_gguf_is_own_key(const zt_gguf *gguf, zt_bytes key)
{
    static const char *const keys[] = {"split.no", "split.count", "split.tensors.count", "general.alignment"};
    const size_t count = sizeof keys / sizeof *keys, last = count - 1;
    size_t i = 0;
    while (i < count && (key.n != strlen(keys[i]) || memcmp(key.data, keys[i], key.n) != 0)) i++;
    return i < last || (i == last && gguf->align > ZT_GGUF_MOST_ALIGN);
}

/* A count, where there is the key. false: it is something else. */
static bool get_count(const zt_gguf *gguf, const char *key, int64_t *out)
{
    return zt_map_find(gguf->keys, key) < 0 || (zt_gguf_i64(gguf, key, out) && *out >= 0);
}

/* What a file says of itself: no. `number` (from 0 on) of `count`. Without the keys it is no. 0 of 1, and
 * so it is with a count of 0, which llama.cpp's gguf-split leaves in what it has merged. */
static zt_status read_split(const zt_gguf *gguf, int64_t *number, int64_t *count)
{
    *number = 0;
    *count = 1;
    if (!get_count(gguf, "split.no", number) || !get_count(gguf, "split.count", count))
        return zt_fail(gguf->ctx, ZT_EDATA, "%s: split.no or split.count is not a nonnegative integer", zt_gguf_name(gguf));
    *count += *count == 0;
    if (*number >= *count || *count > ZT_MAX_SHARDS)
        return zt_fail(gguf->ctx, ZT_EDATA,
                       "%s: invalid split.no %lld or split.count %lld: a model has 1 to %d shards, numbered "
                       "from 0",
                       zt_gguf_name(gguf), (long long)*number, (long long)*count, ZT_MAX_SHARDS);
    return ZT_OK;
}

/* Is the file's name what its keys say? */
static zt_status check_name(const zt_gguf *gguf, const char *path, zt_shard_name *name)
{
    int64_t number, count;
    zt_status status = read_split(gguf, &number, &count);
    if (status != ZT_OK) return status;
    if (!zt_shard_parse(path, name))
        return zt_fail(gguf->ctx, ZT_EDATA,
                       "%s: shard %lld of %lld: the file name must end in -%05lld-of-%05lld.gguf, with the "
                       "other shards in the same directory",
                       zt_gguf_name(gguf), (long long)number + 1, (long long)count, (long long)number + 1, (long long)count);
    if (name->number != number + 1 || name->count != count)
        return zt_fail(gguf->ctx, ZT_EDATA,
                       "%s: shard %lld of %lld by the file name, but %lld of %lld by split.no and "
                       "split.count",
                       zt_gguf_name(gguf), (long long)name->number, (long long)name->count, (long long)number + 1,
                       (long long)count);
    return ZT_OK;
}

/* A file that is all of a model by its keys: where its name says that it is one of several, and
 * another of them is beside it, one of the two is wrong. */
static zt_status check_alone(const zt_gguf *gguf, const char *path)
{
    struct stat info;
    zt_shard_name name;
    if (!zt_shard_parse(path, &name) || name.count == 1) return ZT_OK;
    char *other = zt_shard_path(gguf->ctx, path, &name, name.number == 1 ? 2 : 1);
    if (!other) return ZT_ENOMEM;
    zt_status status = ZT_OK;
    if (stat(other, &info) == 0)
        status = zt_fail(gguf->ctx, ZT_EDATA,
                         "%s: shard %lld of %lld by the file name (%s exists), but a whole model by split.no "
                         "and split.count",
                         zt_gguf_name(gguf), (long long)name.number, (long long)name.count, other);
    zt_free(gguf->ctx, other);
    return status;
}

/* The other files, beside the one named, which is among s->part already. */
static zt_status open_parts(gguf_parts *shards, const char *path, const zt_shard_name *name)
{
    for (int64_t i = 0; i < shards->part_count; i++) {
        zt_shard_name own;
        if (shards->parts[i]) continue;
        zt_source *source = zt_shard_open_beside(shards->ctx, path, name, i + 1);
        zt_gguf *part = shards->parts[i] = source ? zt_gguf_take(shards->ctx, source) : NULL;
        zt_status status = part ? check_name(part, zt_gguf_name(part), &own) : zt_ctx_status(shards->ctx);
        if (status != ZT_OK) return status;
    }
    return ZT_OK;
}

static zt_status put_keys(zt_gguf_writer *writer, const zt_gguf *gguf)
{
    zt_str name;
    zt_status status = ZT_OK;
    zt_str_init(&name, zt_gguf_ctx(gguf));
    for (int64_t i = 0; status == ZT_OK && i < zt_gguf_n_keys(gguf); i++) {
        zt_gguf_kind kind;
        zt_bytes value, key = zt_gguf_key_value(gguf, i, &kind, &value);
        zt_str_clear(&name);
        if (zt_gguf_is_own_key(gguf, key)) continue;
        status = zt_str_put(&name, key.data, key.n);
        if (status == ZT_OK) status = zt_gguf_put_raw(writer, name.data, kind, value.data, value.n);
    }
    zt_str_fini(&name);
    return status;
}

/* Tensor i of file `part_index`, which no file before it may have. */
static zt_status put_tensor(zt_gguf_writer *writer, gguf_parts *shards, zt_map *names, int32_t part_index, int64_t i)
{
    zt_type type;
    int rank;
    int64_t other;
    const char *word = zt_gguf_tensor_word(shards->parts[part_index], i, &rank);
    const char *name = zt_gguf_tensor(shards->parts[part_index], i, &type, NULL, NULL);
    if (zt_map_get(names, name, strlen(name), &other) && other != part_index)
        return zt_shard_twice(shards->ctx, zt_gguf_name(shards->parts[other]), zt_gguf_name(shards->parts[part_index]), name);
    zt_status status = zt_map_put(names, name, strlen(name), part_index);
    return status == ZT_OK ? zt_gguf_put_tensor_word(writer, name, word, rank, type.dim) : status;
}

static zt_status put_tensors(zt_gguf_writer *writer, gguf_parts *shards)
{
    zt_map *names = zt_map_new(shards->ctx, (size_t)shards->tensor_count);
    zt_status status = names ? ZT_OK : ZT_ENOMEM;
    int64_t used = 0;
    for (int32_t k = 0; status == ZT_OK && k < shards->part_count; k++)
        for (int64_t i = 0; status == ZT_OK && i < zt_gguf_n_tensors(shards->parts[k]); i++) {
            zt_gguf_keep_rows(shards->parts[k]); /* they are decoded by the whole */
            shards->places[used++] = (struct where){.part = k, .index = i};
            status = put_tensor(writer, shards, names, k, i);
        }
    zt_map_free(names);
    return status == ZT_EUSAGE ? ZT_EDATA : status;
}

static zt_status count_tensors(gguf_parts *shards)
{
    for (int64_t k = 0; k < shards->part_count; k++) shards->tensor_count += zt_gguf_n_tensors(shards->parts[k]);
    shards->places = zt_alloc_array(shards->ctx, (size_t)shards->tensor_count, sizeof *shards->places);
    return shards->places ? ZT_OK : ZT_ENOMEM;
}

/* Asked last: a tensor that is there twice is told by its name. */
static zt_status check_count(const gguf_parts *shards)
{
    int64_t told = -1;
    if (zt_gguf_i64(shards->parts[0], "split.tensors.count", &told) && told != shards->tensor_count)
        return zt_fail(shards->ctx, ZT_EDATA, "%s: split.tensors.count is %lld, but the %lld shards hold %lld tensors",
                       zt_gguf_name(shards->parts[0]), (long long)told, (long long)shards->part_count,
                       (long long)shards->tensor_count);
    return ZT_OK;
}

static zt_gguf *join_shards(gguf_parts *shards, const char *path, const zt_shard_name *name)
{
    size_t size;
    uint64_t data;
    char *header = NULL;
    zt_gguf_writer *writer = zt_gguf_writer_new(shards->ctx);
    if (writer && open_parts(shards, path, name) == ZT_OK && count_tensors(shards) == ZT_OK &&
        put_keys(writer, shards->parts[0]) == ZT_OK && put_tensors(writer, shards) == ZT_OK && check_count(shards) == ZT_OK)
        header = zt_gguf_writer_finish(writer, &size, &data);
    zt_gguf_writer_free(writer);
    if (header)
        return zt_gguf_over(shards->ctx, path, header, size, data, &(zt_store){.user = shards, .read = read_data},
                            release_shards);
    release_shards(shards);
    return NULL;
}

zt_gguf *zt_gguf_with_shards(zt_gguf *gguf, const char *path)
{
    if (!gguf) return NULL;
    ZT_REQUIRE(gguf->ctx, path, NULL);
    int64_t number, count;
    zt_shard_name name;
    zt_ctx *ctx = gguf->ctx;
    zt_status status = read_split(gguf, &number, &count);
    if (status == ZT_OK && count == 1) status = check_alone(gguf, path);
    if (status == ZT_OK && count == 1) return gguf;
    if (status == ZT_OK) status = check_name(gguf, path, &name);
    gguf_parts *shards = status == ZT_OK ? zt_calloc(ctx, 1, sizeof *shards) : NULL;
    zt_gguf **parts = shards ? zt_calloc(ctx, (size_t)count, sizeof(zt_gguf *)) : NULL;
    if (parts) {
        *shards = (gguf_parts){.ctx = ctx, .parts = parts, .part_count = count};
        parts[number] = gguf;
        return join_shards(shards, path, &name);
    }
    zt_free(ctx, shards);
    zt_gguf_close(gguf);
    return NULL;
}
