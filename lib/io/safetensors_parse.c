/* safetensors_parse.c - owns reading a safetensors header: its tensors, its metadata, and whether
 * they cover the data.
 *
 * The header is walked member by member, so that memory follows the tensors there are; an entry is
 * safetensors_entry.c's. Beyond what the reference reader refuses, we refuse names that come
 * twice. */
#include "lib/base/foreign.h"
#include "lib/io/fault.h"
#include "lib/io/json.h"
#include "lib/io/safetensors_file.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 100000000 }; /* bytes: the format's own bound */

/* ---- tensors --------------------------------------------------------------------------------- */

/* Room for all that a header of `header_size` bytes can tell of: a list that grew with them would be copied and
 * its pages be cleared twice over. What stays unused of it is never touched. */
static zt_status reserve_tensors(zt_safetensors *safetensors, size_t header_size)
{
    static const char shortest_entry[] = "\"\":{\"dtype\":\"F4\",\"shape\":[],\"data_offsets\":[0,0]},";
    int64_t capacity = safetensors->tensor_count + (int64_t)(header_size / (sizeof shortest_entry - 1)) + 1;
    if (capacity <= safetensors->capacity)
        return ZT_OK;
    capacity = capacity < 2 * safetensors->capacity ? 2 * safetensors->capacity : capacity; /* shard after shard */
    st_tensor *list = zt_realloc(safetensors->ctx, safetensors->tensors, (size_t)capacity * sizeof *list);
    if (!list)
        return ZT_ENOMEM;
    safetensors->tensors = list;
    safetensors->capacity = capacity;
    return ZT_OK;
}

/* One that is unfit, and was told, is left out. */
static zt_status read_tensor(const st_parser *parser, const char *name, const char *text, size_t size)
{
    zt_safetensors *safetensors = parser->safetensors;
    st_tensor *tensor = &safetensors->tensors[safetensors->tensor_count];
    *tensor = (st_tensor){.entry = {.name = zt_arena_strndup(safetensors->texts, name, strlen(name))}};
    zt_status status = tensor->entry.name ? zt_st_entry(parser, text, size, tensor) : ZT_ENOMEM;
    if (status == ZT_OK)
        safetensors->tensor_count++;
    return status == ZT_ENOENT ? ZT_OK : status;
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* The decoded text, in the arena: a long one that needs no decoding is not held twice. */
static zt_status keep_text(const st_parser *parser, const char *text, size_t size, st_meta *meta)
{
    zt_str value;
    zt_status status = ZT_OK;
    zt_str_init(&value, parser->safetensors->ctx);
    if (zt_json_is_plain(text, size)) {
        meta->size = size - 2;
        meta->value = zt_arena_strndup(parser->safetensors->texts, text + 1, meta->size);
    } else {
        status = zt_json_string(parser->safetensors->ctx, parser->file, text, size, &value);
        meta->size = value.len;
        meta->value = status == ZT_OK ? zt_arena_strndup(parser->safetensors->texts, value.data, value.len) : NULL;
    }
    zt_str_fini(&value);
    return status == ZT_OK && !meta->value ? ZT_ENOMEM : status;
}

static zt_status read_meta(void *user, const char *key, const char *text, size_t size)
{
    st_parser *parser = user;
    zt_safetensors *safetensors = parser->safetensors;
    st_meta *list = zt_st_grow_list(safetensors->ctx, safetensors->meta, safetensors->meta_count, sizeof *list);
    if (!list)
        return ZT_ENOMEM;
    safetensors->meta = list;
    st_meta *meta = &list[safetensors->meta_count];
    zt_status status = keep_text(parser, text, size, meta);
    meta->key = status == ZT_OK ? zt_arena_strndup(safetensors->texts, key, strlen(key)) : NULL;
    if (!meta->key)
        return status == ZT_OK ? ZT_ENOMEM : status;
    safetensors->meta_count++;
    return ZT_OK;
}

static zt_status check_meta(const st_parser *parser)
{
    const zt_safetensors *safetensors = parser->safetensors;
    char text[160];
    zt_map *keys = zt_map_new(safetensors->ctx, (size_t)safetensors->meta_count);
    zt_status status = keys ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = parser->first_meta; status == ZT_OK && i < safetensors->meta_count; i++) {
        const char *key = safetensors->meta[i].key;
        status = zt_map_get(keys, key, strlen(key), NULL)
                 ? zt_fail(safetensors->ctx, ZT_EDATA, "%s: __metadata__ '%s' is there twice", parser->file,
                           zt_escape(text, sizeof text, key, strlen(key)))
                 : zt_map_put(keys, key, strlen(key), i);
    }
    zt_map_free(keys);
    return status;
}

/* ---- the header ------------------------------------------------------------------------------ */

static zt_status read_member(void *user, const char *key, const char *text, size_t size)
{
    st_parser *parser = user;
    if (strcmp(key, "__metadata__") != 0)
        return read_tensor(parser, key, text, size);
    if (parser->has_meta)
        return zt_fail(parser->safetensors->ctx, ZT_EDATA, "%s: '__metadata__' is there twice", parser->file);
    parser->has_meta = true;
    if (size == 4 && memcmp(text, "null", 4) == 0) /* as good as none */
        return ZT_OK;
    zt_status status = zt_json_members(parser->safetensors->ctx, parser->file, text, size, read_meta, parser);
    return status == ZT_OK ? check_meta(parser) : status;
}

/* By place; what is empty before what begins at the same byte. */
static int compare_offsets(const void *left, const void *right)
{
    const st_tensor *first = left, *second = right;
    if (first->offset != second->offset)
        return first->offset < second->offset ? -1 : 1;
    return (first->entry.bytes > second->entry.bytes) - (first->entry.bytes < second->entry.bytes);
}

/* Writers put them in that order: a million are not sorted, with a copy of all, for nothing. */
static void sort_tensors(st_tensor *list, int64_t count)
{
    int64_t i = 1;
    while (i < count && compare_offsets(&list[i - 1], &list[i]) <= 0)
        i++;
    if (i < count)
        qsort(list, (size_t)count, sizeof *list, compare_offsets);
}

/* The tensors from `first` on cover the data, each beginning where the one before it ends. */
static zt_status check_layout(const st_parser *parser, int64_t first)
{
    zt_safetensors *safetensors = parser->safetensors;
    uint64_t end = parser->data_start;
    if (safetensors->tensor_count > first)
        sort_tensors(safetensors->tensors + first, safetensors->tensor_count - first);
    for (int64_t i = first; i < safetensors->tensor_count; i++) {
        const st_tensor *tensor = &safetensors->tensors[i];
        zt_status status = ZT_OK;
        if (tensor->offset != end)
            status = zt_st_report_fault(parser, tensor->entry.name,
                             "data from byte %llu, but what is before it ends at %llu",
                             (unsigned long long)(tensor->offset - parser->data_start),
                             (unsigned long long)(end - parser->data_start));
        if (status != ZT_OK)
            return status;
        end = tensor->offset + tensor->entry.bytes;
    }
    if (end == parser->data_start + parser->data_size || parser->streams)
        return ZT_OK;
    return zt_faults_tell(safetensors->ctx, "%s: %llu bytes of data, %llu belong to tensors", parser->file,
                    (unsigned long long)parser->data_size, (unsigned long long)(end - parser->data_start));
}

/* The `size` bytes of the header. Of a stream there is never more memory than twice what came. */
static zt_status read_text(const st_parser *parser, const zt_source *source, size_t size, char **text)
{
    enum { FIRST = 1 << 16 };
    size_t received = 0, capacity = zt_source_streams(source) && size > FIRST ? FIRST : size;
    for (;; capacity = size - capacity < capacity ? size : 2 * capacity) {
        char *more = zt_realloc(parser->safetensors->ctx, *text, capacity);
        if (!more)
            return ZT_ENOMEM;
        *text = more;
        zt_status status = zt_source_read(source, 8 + received, more + received, capacity - received);
        if (status != ZT_OK || capacity == size)
            return status;
        received = capacity;
    }
}

/* The format asks for '{'; the reference reader takes JSON's white space before it. */
static bool begins_object(char character)
{
    return character == '{' || character == ' ' || character == '\n' || character == '\r' || character == '\t';
}

static zt_status read_header(st_parser *parser, const zt_source *source, size_t size)
{
    zt_ctx *ctx = parser->safetensors->ctx;
    int64_t first = parser->safetensors->tensor_count;
    char *text = NULL;
    zt_status status = read_text(parser, source, size, &text);
    if (status == ZT_OK && !begins_object(text[0]))
        status = zt_fail(ctx, ZT_EDATA, "%s: the header does not begin with '{'", parser->file);
    if (status == ZT_OK)
        status = reserve_tensors(parser->safetensors, size);
    if (status == ZT_OK)
        status = zt_json_members(ctx, parser->file, text, size, read_member, parser);
    zt_free(ctx, text);
    return status == ZT_OK ? check_layout(parser, first) : status;
}

static uint64_t header_length(const unsigned char bytes[8])
{
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | bytes[i];
    return length;
}

bool zt_safetensors_sniff(const void *bytes, size_t head_size, uint64_t size)
{
    const unsigned char *head = bytes;
    if (head_size < 9 || !begins_object((char)head[8]))
        return false;
    uint64_t header = header_length(head);
    return header <= MAX_HEADER && header <= size - 8;
}

/* Where the first bytes are no length: do they say what else it is? */
static zt_status check_foreign(const st_parser *parser, const zt_source *source)
{
    char head[ZT_FOREIGN_HEAD];
    size_t size = 0;
    zt_status status = zt_source_streams(source) ? ZT_OK
                                         : zt_source_read_some(source, 0, head, sizeof head, 0, &size);
    return status == ZT_OK ? zt_foreign_fail(parser->safetensors->ctx, parser->file, head, size) : status;
}

zt_status zt_st_parse(zt_safetensors *safetensors)
{
    const zt_source *source = safetensors->shards[safetensors->shard_count - 1];
    uint64_t size = zt_source_size(source);
    unsigned char head[8];
    st_parser parser = {.safetensors = safetensors, .file = zt_source_name(source), .streams = zt_source_streams(source),
                .first_meta = safetensors->meta_count};
    if (size < 8 + 2)
        return zt_fail(safetensors->ctx, ZT_EDATA, "%s: a file of %llu bytes, too short for a header", parser.file,
                       (unsigned long long)size);
    zt_status status = zt_source_read(source, 0, head, 8);
    if (status != ZT_OK)
        return status;
    uint64_t length = header_length(head);
    if (length < 2 || length > MAX_HEADER || length > size - 8) {
        status = check_foreign(&parser, source);
        return status != ZT_OK ? status : zt_fail(safetensors->ctx, ZT_EDATA,
                       "%s: a header of %llu bytes in a file of %llu (%d are allowed)", parser.file,
                       (unsigned long long)length, (unsigned long long)size, MAX_HEADER);
    }
    parser.data_start = safetensors->data_start = 8 + length;
    parser.data_size = size - parser.data_start;
    return read_header(&parser, source, (size_t)length);
}
