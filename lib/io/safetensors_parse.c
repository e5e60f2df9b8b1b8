/* safetensors_parse.c - owns reading a safetensors header: its tensors, its metadata, and whether
 * they cover the data.
 *
 * The header is read member by member, so that memory follows the tensors there are. Beyond what the
 * reference reader refuses, we refuse names that come twice.
 *
 * A header has up to a million entries, which writers put in one form:
 *
 *     "NAME":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}
 *
 * scan_entry reads that form, with members in any order and with or without white space. Every other form is
 * read member by member as JSON (read_any_json): the three members above are given to jansson, others are
 * checked to be JSON and ignored, as the reference reader does. Both ways end in check_entry. */
#include "lib/base/foreign.h"
#include "lib/io/fault.h"
#include "lib/io/json.h"
#include "lib/io/safetensors_file.h"

#include <stdio.h>
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
    if (capacity <= safetensors->capacity) return ZT_OK;
    capacity = capacity < 2 * safetensors->capacity ? 2 * safetensors->capacity : capacity; /* shard after shard */
    st_tensor *list = zt_realloc(safetensors->ctx, safetensors->tensors, (size_t)capacity * sizeof *list);
    if (!list) return ZT_ENOMEM;
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
    if (status == ZT_OK) safetensors->tensor_count++;
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
    if (!list) return ZT_ENOMEM;
    safetensors->meta = list;
    st_meta *meta = &list[safetensors->meta_count];
    zt_status status = keep_text(parser, text, size, meta);
    meta->key = status == ZT_OK ? zt_arena_strndup(safetensors->texts, key, strlen(key)) : NULL;
    if (!meta->key) return status == ZT_OK ? ZT_ENOMEM : status;
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
                     ? zt_fail(safetensors->ctx, ZT_EDATA, "%s: duplicate __metadata__ key '%s'", parser->file,
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
    if (strcmp(key, "__metadata__") != 0) return read_tensor(parser, key, text, size);
    if (parser->has_meta) return zt_fail(parser->safetensors->ctx, ZT_EDATA, "%s: duplicate member '__metadata__'", parser->file);
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
    if (first->offset != second->offset) return first->offset < second->offset ? -1 : 1;
    return (first->entry.bytes > second->entry.bytes) - (first->entry.bytes < second->entry.bytes);
}

/* Writers put them in that order: a million are not sorted, with a copy of all, for nothing. */
static void sort_tensors(st_tensor *list, int64_t count)
{
    int64_t i = 1;
    while (i < count && compare_offsets(&list[i - 1], &list[i]) <= 0) i++;
    if (i < count) qsort(list, (size_t)count, sizeof *list, compare_offsets);
}

/* The tensors from `first` on cover the data, each beginning where the one before it ends. */
static zt_status check_layout(const st_parser *parser, int64_t first)
{
    zt_safetensors *safetensors = parser->safetensors;
    uint64_t end = parser->data_start;
    if (safetensors->tensor_count > first) sort_tensors(safetensors->tensors + first, safetensors->tensor_count - first);
    for (int64_t i = first; i < safetensors->tensor_count; i++) {
        const st_tensor *tensor = &safetensors->tensors[i];
        zt_status status = ZT_OK;
        if (tensor->offset != end)
            status = zt_st_report_fault(parser, tensor->entry.name, "data starts at byte %llu, expected %llu",
                                        (unsigned long long)(tensor->offset - parser->data_start),
                                        (unsigned long long)(end - parser->data_start));
        if (status != ZT_OK) return status;
        end = tensor->offset + tensor->entry.bytes;
    }
    if (end == parser->data_start + parser->data_size || parser->streams) return ZT_OK;
    return zt_faults_tell(safetensors->ctx, "%s: the file has %llu bytes of data, but the tensors use %llu", parser->file,
                          (unsigned long long)parser->data_size, (unsigned long long)(end - parser->data_start));
}

/* The `size` bytes of the header. Of a stream there is never more memory than twice what came. */
static zt_status read_text(const st_parser *parser, const zt_source *source, size_t size, char **text)
{
    enum { FIRST = 1 << 16 };
    size_t received = 0, capacity = zt_source_streams(source) && size > FIRST ? FIRST : size;
    for (;; capacity = size - capacity < capacity ? size : 2 * capacity) {
        char *more = zt_realloc(parser->safetensors->ctx, *text, capacity);
        if (!more) return ZT_ENOMEM;
        *text = more;
        zt_status status = zt_source_read(source, 8 + received, more + received, capacity - received);
        if (status != ZT_OK || capacity == size) return status;
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
        status = zt_fail(ctx, ZT_EDATA, "%s: the header does not start with '{'", parser->file);
    if (status == ZT_OK) status = reserve_tensors(parser->safetensors, size);
    if (status == ZT_OK) status = zt_json_members(ctx, parser->file, text, size, read_member, parser);
    zt_free(ctx, text);
    return status == ZT_OK ? check_layout(parser, first) : status;
}

static uint64_t header_length(const unsigned char bytes[8])
{
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) length = length << 8 | bytes[i];
    return length;
}

bool zt_safetensors_sniff(const void *bytes, size_t head_size, uint64_t size)
{
    if (!bytes) return false;
    const unsigned char *head = bytes;
    if (head_size < 9 || !begins_object((char)head[8])) return false;
    uint64_t header = header_length(head);
    return header <= MAX_HEADER && header <= size - 8;
}

/* Where the first bytes are no length: do they say what else it is? */
static zt_status check_foreign(const st_parser *parser, const zt_source *source)
{
    char head[ZT_FOREIGN_HEAD];
    size_t size = 0;
    zt_status status = zt_source_streams(source) ? ZT_OK : zt_source_read_some(source, 0, head, sizeof head, 0, &size);
    return status == ZT_OK ? zt_foreign_fail(parser->safetensors->ctx, parser->file, head, size) : status;
}

zt_status zt_st_parse(zt_safetensors *safetensors)
{
    const zt_source *source = safetensors->shards[safetensors->shard_count - 1];
    uint64_t size = zt_source_size(source);
    unsigned char head[8];
    st_parser parser = {.safetensors = safetensors,
                        .file = zt_source_name(source),
                        .streams = zt_source_streams(source),
                        .first_meta = safetensors->meta_count};
    if (size < 8 + 2)
        return zt_fail(safetensors->ctx, ZT_EDATA, "%s: the file has %llu bytes, too few for a header", parser.file,
                       (unsigned long long)size);
    zt_status status = zt_source_read(source, 0, head, 8);
    if (status != ZT_OK) return status;
    uint64_t length = header_length(head);
    if (length < 2 || length > MAX_HEADER || length > size - 8) {
        status = check_foreign(&parser, source);
        return status != ZT_OK ? status
                               : zt_fail(safetensors->ctx, ZT_EDATA,
                                         "%s: invalid header size %llu: the file has %llu bytes, and at most %d are allowed",
                                         parser.file, (unsigned long long)length, (unsigned long long)size, MAX_HEADER);
    }
    parser.data_start = safetensors->data_start = 8 + length;
    parser.data_size = size - parser.data_start;
    return read_header(&parser, source, (size_t)length);
}

/* ==== one entry ================================================================================ */

enum {
    MAX_VALUE = 4096,         /* bytes of a member that means something */
    MAX_RANK = MAX_VALUE / 2, /* a dimension takes a digit and a comma */
    MAX_DEPTH = 125,          /* of what is passed over: the reference reader's, less two objects */
    MAX_DIGITS = 18           /* of a number that is scanned: it is below 2^63 */
};

/* ---- dtypes ---------------------------------------------------------------------------------- */

typedef struct st_dtype {
    const char *name;
    int bits;
    zt_dtype dtype; /* ZT_DTYPE_COUNT: zt does not compute with it */
} st_dtype;

/* Dtype of safetensors 0.8 (src/tensor.rs), as facts. */
static const st_dtype dtypes[] = {
    {"F64", 64, ZT_F64},
    {"F32", 32, ZT_F32},
    {"F16", 16, ZT_F16},
    {"BF16", 16, ZT_BF16},
    {"I64", 64, ZT_I64},
    {"I32", 32, ZT_I32},
    {"I16", 16, ZT_I16},
    {"I8", 8, ZT_I8},
    {"U8", 8, ZT_U8},
    {"BOOL", 8, ZT_BOOL},
    {"U16", 16, ZT_U16},
    {"U32", 32, ZT_U32},
    {"U64", 64, ZT_U64},
    {"C64", 64, ZT_DTYPE_COUNT},
    {"F8_E4M3", 8, ZT_F8_E4M3},
    {"F8_E5M2", 8, ZT_F8_E5M2},
    {"F8_E8M0", 8, ZT_F8_E8M0},
    {"F8_E4M3FNUZ", 8, ZT_F8_E4M3FNUZ},
    {"F8_E5M2FNUZ", 8, ZT_F8_E5M2FNUZ},
    {"F6_E2M3", 6, ZT_DTYPE_COUNT},
    {"F6_E3M2", 6, ZT_DTYPE_COUNT},
    {"F4", 4, ZT_F4_E2M1},
};

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

static const st_dtype *find_dtype(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (is_word(name, length, dtypes[i].name)) return &dtypes[i];
    return NULL;
}

const char *zt_safetensors_word(zt_dtype dtype)
{
    for (size_t i = 0; dtype < ZT_DTYPE_COUNT && i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype == dtype) return dtypes[i].name;
    return NULL;
}

bool zt_safetensors_has_word(const char *word) { return word && find_dtype(word, strlen(word)) != NULL; }

/* What an entry says. */
typedef struct entry_content {
    const st_dtype *dtype;
    size_t rank;
    int64_t dim[MAX_RANK]; /* none is negative */
    int64_t offsets[2];    /* in the data: the first byte, and the one behind the last; likewise */
} entry_content;

/* ---- scanned --------------------------------------------------------------------------------- */

typedef struct text_cursor {
    const char *position, *end;
} text_cursor;

static void skip_space(text_cursor *cursor)
{
    while (cursor->position < cursor->end &&
           (*cursor->position == ' ' || *cursor->position == '\n' || *cursor->position == '\r' || *cursor->position == '\t'))
        cursor->position++;
}

/* Is `wanted` next, after white space? Then it is passed. */
static bool skip_character(text_cursor *cursor, char wanted)
{
    skip_space(cursor);
    if (cursor->position == cursor->end || *cursor->position != wanted) return false;
    cursor->position++;
    return true;
}

/* What is between quotes, as it is written. */
static bool read_word(text_cursor *cursor, const char **word, size_t *length)
{
    if (!skip_character(cursor, '"')) return false;
    const char *quote = memchr(cursor->position, '"', (size_t)(cursor->end - cursor->position));
    if (!quote) return false;
    *word = cursor->position;
    *length = (size_t)(quote - cursor->position);
    cursor->position = quote + 1;
    return true;
}

/* Digits, of which no zero is the first of several. */
static bool read_count(text_cursor *cursor, int64_t *value)
{
    skip_space(cursor);
    const char *start = cursor->position;
    for (*value = 0; cursor->position < cursor->end && *cursor->position >= '0' && *cursor->position <= '9'; cursor->position++) {
        if (cursor->position - start == MAX_DIGITS) return false;
        *value = 10 * *value + (*cursor->position - '0');
    }
    return cursor->position > start && (*start != '0' || cursor->position == start + 1);
}

/* A list of `capacity` counts or fewer. */
static bool read_counts(text_cursor *cursor, int64_t *list, size_t capacity, size_t *count)
{
    *count = 0;
    if (!skip_character(cursor, '[')) return false;
    if (skip_character(cursor, ']')) return true;
    do {
        if (*count == capacity || !read_count(cursor, &list[*count])) return false;
        ++*count;
    } while (skip_character(cursor, ','));
    return skip_character(cursor, ']');
}

static bool read_dtype(text_cursor *cursor, entry_content *content)
{
    const char *word;
    size_t length;
    return read_word(cursor, &word, &length) && (content->dtype = find_dtype(word, length)) != NULL;
}

static bool read_shape(text_cursor *cursor, entry_content *content)
{
    return read_counts(cursor, content->dim, MAX_RANK, &content->rank);
}

static bool read_offsets(text_cursor *cursor, entry_content *content)
{
    size_t count;
    return read_counts(cursor, content->offsets, 2, &count) && count == 2;
}

static const struct {
    const char *name;
    bool (*take)(text_cursor *c, entry_content *e);
} members[] = {{"dtype", read_dtype}, {"shape", read_shape}, {"data_offsets", read_offsets}};

enum { N_MEMBERS = sizeof members / sizeof *members };

static size_t find_member_index(const char *word, size_t length)
{
    size_t i = 0;
    while (i < N_MEMBERS && !is_word(word, length, members[i].name)) i++;
    return i;
}

/* false: not of that form. */
static bool scan_entry(const char *text, size_t size, entry_content *content)
{
    text_cursor cursor = {.position = text, .end = text + size};
    bool seen[N_MEMBERS] = {false};
    if (!skip_character(&cursor, '{')) return false;
    for (size_t read_count = 0; read_count < N_MEMBERS; read_count++) {
        const char *word;
        size_t length;
        if ((read_count && !skip_character(&cursor, ',')) || !read_word(&cursor, &word, &length)) return false;
        size_t i = find_member_index(word, length);
        if (i == N_MEMBERS || seen[i] || !skip_character(&cursor, ':') || !members[i].take(&cursor, content)) return false;
        seen[i] = true;
    }
    return skip_character(&cursor, '}') && cursor.position == cursor.end;
}

/* ---- walked: as any JSON ----------------------------------------------------------------------------- */

zt_status zt_st_report_fault(const st_parser *parser, const char *name, const char *format, ...)
{
    char what[256], text[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return zt_faults_tell(parser->safetensors->ctx, "%s: tensor '%s': %s", parser->file,
                          zt_escape(text, sizeof text, name, strlen(name)), what);
}

/* The entry says nothing that could be used: without it one can go on. */
#define report_unfit(...) (zt_st_report_fault(__VA_ARGS__) == ZT_OK ? ZT_ENOENT : ZT_EDATA)

static bool is_count(const json_t *value) { return json_is_integer(value) && json_integer_value(value) >= 0; }

/* A document of MAX_VALUE bytes has no list that is longer than MAX_RANK. */
static zt_status shape_from_json(const st_parser *parser, const char *name, const json_t *shape, entry_content *content)
{
    content->rank = json_array_size(shape);
    if (!json_is_array(shape) || content->rank > MAX_RANK)
        return report_unfit(parser, name, "'shape' is not a list, or has too many dimensions");
    for (size_t i = 0; i < content->rank; i++) {
        const json_t *value = json_array_get(shape, i);
        if (!is_count(value)) return report_unfit(parser, name, "dimension %zu is not a nonnegative integer", i);
        content->dim[i] = json_integer_value(value);
    }
    return ZT_OK;
}

static zt_status offsets_from_json(const st_parser *parser, const char *name, const json_t *list, entry_content *content)
{
    if (json_array_size(list) != 2) return report_unfit(parser, name, "'data_offsets' is not a pair");
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_array_get(list, i);
        if (!is_count(value)) return report_unfit(parser, name, "'data_offsets' are not nonnegative integers");
        content->offsets[i] = json_integer_value(value);
    }
    return ZT_OK;
}

static zt_status dtype_from_json(const st_parser *parser, const char *name, const json_t *value, entry_content *content)
{
    content->dtype = json_is_string(value) ? find_dtype(json_string_value(value), json_string_length(value)) : NULL;
    return content->dtype ? ZT_OK : report_unfit(parser, name, "unknown dtype");
}

/* In the order of `members`. */
static zt_status (*const from_json[N_MEMBERS])(const st_parser *, const char *, const json_t *,
                                               entry_content *) = {dtype_from_json, shape_from_json, offsets_from_json};

/* An entry on its way through walk(). */
typedef struct member_reader {
    const st_parser *parser;
    const char *name;
    entry_content *content;
    bool seen[N_MEMBERS];
} member_reader;

/* "-0" is a float to the reference reader, and jansson's 0. */
static bool has_minus(const char *text, size_t size, const json_t *value)
{
    return json_is_array(value) && memchr(text, '-', size);
}

static zt_status read_value(member_reader *reader, size_t member, const char *text, size_t size)
{
    const char *what = members[member].name;
    if (reader->seen[member]) return report_unfit(reader->parser, reader->name, "duplicate member '%s'", what);
    reader->seen[member] = true;
    if (size > MAX_VALUE)
        return report_unfit(reader->parser, reader->name, "member '%s' has %zu bytes: at most %d are allowed", what, size,
                            MAX_VALUE);
    json_t *value = zt_json_load(reader->parser->safetensors->ctx, reader->parser->file, text, size);
    zt_status status = !value ? zt_ctx_status(reader->parser->safetensors->ctx)
                       : has_minus(text, size, value)
                           ? report_unfit(reader->parser, reader->name, "'%s' contains a negative number", what)
                           : from_json[member](reader->parser, reader->name, value, reader->content);
    json_decref(value);
    return status;
}

/* Which member the quoted name stands for; N_MEMBERS: for none, or for one with a zero inside. */
static zt_status find_member(const member_reader *reader, const char *text, size_t size, size_t *member)
{
    zt_str key;
    *member = find_member_index(text + 1, size - 2);
    if (*member < N_MEMBERS || size > MAX_VALUE || !memchr(text, '\\', size)) return ZT_OK;
    zt_str_init(&key, reader->parser->safetensors->ctx);
    json_t *value = zt_json_parse(text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    zt_status status = zt_str_put(&key, json_string_value(value), json_string_length(value));
    if (status == ZT_OK) *member = find_member_index(key.data, key.len);
    json_decref(value);
    zt_str_fini(&key);
    return status;
}

static zt_status fail_not_object(const member_reader *reader)
{
    return report_unfit(reader->parser, reader->name, "not an object of dtype, shape and data_offsets");
}

/* The member at the cursor, past its value. */
static zt_status read_any_member(member_reader *reader, text_cursor *cursor)
{
    size_t member;
    skip_space(cursor);
    const char *name = cursor->position, *colon = NULL;
    if (cursor->position < cursor->end && *cursor->position == '"') colon = zt_json_value_end(name, cursor->end, 0);
    if (!colon) return fail_not_object(reader);
    cursor->position = colon;
    if (!skip_character(cursor, ':')) return fail_not_object(reader);
    skip_space(cursor);
    const char *value = cursor->position, *end = zt_json_value_end(value, cursor->end, MAX_DEPTH);
    if (!end) return fail_not_object(reader);
    cursor->position = end;
    zt_status status = find_member(reader, name, (size_t)(colon - name), &member);
    return status == ZT_OK && member < N_MEMBERS ? read_value(reader, member, value, (size_t)(end - value)) : status;
}

static zt_status read_any_json(const st_parser *parser, const char *name, const char *text, size_t size, entry_content *content)
{
    member_reader reader = {.parser = parser, .name = name, .content = content};
    text_cursor cursor = {.position = text, .end = text + size};
    zt_status status = ZT_OK;
    if (!skip_character(&cursor, '{')) return fail_not_object(&reader);
    bool more = !skip_character(&cursor, '}');
    while (more && status == ZT_OK) {
        status = read_any_member(&reader, &cursor);
        more = status == ZT_OK && skip_character(&cursor, ',');
        if (status == ZT_OK && !more && !skip_character(&cursor, '}')) status = fail_not_object(&reader);
    }
    skip_space(&cursor);
    for (size_t i = 0; i < N_MEMBERS && status == ZT_OK; i++)
        if (!reader.seen[i] || cursor.position != cursor.end) status = fail_not_object(&reader);
    return status;
}

/* ---- can it be so? --------------------------------------------------------------------------- */

/* Dimensions into type, and the bytes that they make. */
static zt_status check_shape(const st_parser *parser, const char *name, const entry_content *content, zt_type *type,
                             uint64_t *bytes)
{
    int64_t count = 1, bits;
    bool empty = false;
    *type = (zt_type){.dtype = content->dtype->dtype, .rank = content->rank <= ZT_MAX_RANK ? (int)content->rank : -1};
    for (size_t i = 0; i < content->rank; i++) {
        int64_t dim = content->dim[i];
        empty |= dim == 0;
        if (dim && !zt_mul_i64(count, dim, &count))
            return report_unfit(parser, name, "dimension %zu is %lld: too many elements", i, (long long)dim);
        if (i < ZT_MAX_RANK) type->dim[i] = dim;
    }
    if (!zt_mul_i64(count, content->dtype->bits, &bits))
        return report_unfit(parser, name, "too many elements (%lld)", (long long)count);
    if (!empty && bits % 8 != 0)
        return report_unfit(parser, name, "%lld elements of %d bits are not a whole number of bytes", (long long)count,
                            content->dtype->bits);
    *bytes = empty ? 0 : (uint64_t)bits / 8;
    if (content->dtype->dtype == ZT_DTYPE_COUNT) type->rank = -1;
    return ZT_OK;
}

static zt_status check_entry(const st_parser *parser, const entry_content *content, st_tensor *tensor)
{
    const char *name = tensor->entry.name;
    uint64_t bytes = 0, begin = (uint64_t)content->offsets[0], end = (uint64_t)content->offsets[1];
    zt_status status = check_shape(parser, name, content, &tensor->entry.type, &bytes);
    if (status != ZT_OK) return status;
    if (begin > end || end > parser->data_size)
        return report_unfit(parser, name, "data_offsets [%llu, %llu] are out of range: the file has %llu bytes of data",
                            (unsigned long long)begin, (unsigned long long)end, (unsigned long long)parser->data_size);
    if (end - begin != bytes) {
        status = zt_st_report_fault(parser, name, "%llu bytes of data, but the shape needs %llu",
                                    (unsigned long long)(end - begin), (unsigned long long)bytes);
        if (status != ZT_OK) return status;
        tensor->entry.type.dtype = ZT_DTYPE_COUNT; /* who goes on sees bytes */
    }
    tensor->entry.dtype = content->dtype->name;
    tensor->entry.rank = (int)content->rank;
    tensor->entry.bytes = (size_t)(end - begin);
    tensor->offset = parser->data_start + begin;
    tensor->shard_index = parser->safetensors->shard_count - 1;
    return ZT_OK;
}

zt_status zt_st_entry(const st_parser *parser, const char *text, size_t size, st_tensor *tensor)
{
    entry_content content;
    zt_status status = scan_entry(text, size, &content) ? ZT_OK : read_any_json(parser, tensor->entry.name, text, size, &content);
    return status == ZT_OK ? check_entry(parser, &content, tensor) : status;
}
