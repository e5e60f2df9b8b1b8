/* safetensors_entry.c - owns one tensor's entry of a safetensors header: what it says, and whether
 * that can be so.
 *
 * A header has up to a million of them, written by machines in one form: {"dtype":"F32","shape":
 * [2,3],"data_offsets":[0,24]}, the members in any order, with white space or without. What is of
 * that form is scanned. All else is walked member by member: the three that mean something are given
 * to jansson, which knows what they say, and others are checked to be JSON and passed over, as the
 * reference reader does. Both ways end in the same checks. */
#include "lib/io/fault.h"
#include "lib/io/json.h"
#include "lib/io/safetensors_file.h"

#include <stdio.h>
#include <string.h>

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
        if (is_word(name, length, dtypes[i].name))
            return &dtypes[i];
    return NULL;
}

const char *zt_safetensors_word(zt_dtype dtype)
{
    for (size_t i = 0; dtype < ZT_DTYPE_COUNT && i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return NULL;
}

bool zt_safetensors_has_word(const char *word)
{
    return find_dtype(word, strlen(word)) != NULL;
}

/* What an entry says. */
typedef struct entry_content {
    const st_dtype *dtype;
    size_t rank;
    int64_t dim[MAX_RANK]; /* none is negative */
    int64_t offsets[2];         /* in the data: the first byte, and the one behind the last; likewise */
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
    if (cursor->position == cursor->end || *cursor->position != wanted)
        return false;
    cursor->position++;
    return true;
}

/* What is between quotes, as it is written. */
static bool read_word(text_cursor *cursor, const char **word, size_t *length)
{
    if (!skip_character(cursor, '"'))
        return false;
    const char *quote = memchr(cursor->position, '"', (size_t)(cursor->end - cursor->position));
    if (!quote)
        return false;
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
        if (cursor->position - start == MAX_DIGITS)
            return false;
        *value = 10 * *value + (*cursor->position - '0');
    }
    return cursor->position > start && (*start != '0' || cursor->position == start + 1);
}

/* A list of `capacity` counts or fewer. */
static bool read_counts(text_cursor *cursor, int64_t *list, size_t capacity, size_t *count)
{
    *count = 0;
    if (!skip_character(cursor, '['))
        return false;
    if (skip_character(cursor, ']'))
        return true;
    do {
        if (*count == capacity || !read_count(cursor, &list[*count]))
            return false;
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
} members[] = {
    {"dtype", read_dtype}, {"shape", read_shape}, {"data_offsets", read_offsets}};

enum { N_MEMBERS = sizeof members / sizeof *members };

static size_t find_member_index(const char *word, size_t length)
{
    size_t i = 0;
    while (i < N_MEMBERS && !is_word(word, length, members[i].name))
        i++;
    return i;
}

/* false: not of that form. */
static bool scan_entry(const char *text, size_t size, entry_content *content)
{
    text_cursor cursor = {.position = text, .end = text + size};
    bool seen[N_MEMBERS] = {false};
    if (!skip_character(&cursor, '{'))
        return false;
    for (size_t read_count = 0; read_count < N_MEMBERS; read_count++) {
        const char *word;
        size_t length;
        if ((read_count && !skip_character(&cursor, ',')) || !read_word(&cursor, &word, &length))
            return false;
        size_t i = find_member_index(word, length);
        if (i == N_MEMBERS || seen[i] || !skip_character(&cursor, ':') || !members[i].take(&cursor, content))
            return false;
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
        return report_unfit(parser, name, "shape is no list");
    for (size_t i = 0; i < content->rank; i++) {
        const json_t *value = json_array_get(shape, i);
        if (!is_count(value))
            return report_unfit(parser, name, "dimension %zu is no count", i);
        content->dim[i] = json_integer_value(value);
    }
    return ZT_OK;
}

static zt_status offsets_from_json(const st_parser *parser, const char *name, const json_t *list, entry_content *content)
{
    if (json_array_size(list) != 2)
        return report_unfit(parser, name, "data_offsets is no pair of numbers");
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_array_get(list, i);
        if (!is_count(value))
            return report_unfit(parser, name, "data_offsets are no counts");
        content->offsets[i] = json_integer_value(value);
    }
    return ZT_OK;
}

static zt_status dtype_from_json(const st_parser *parser, const char *name, const json_t *value, entry_content *content)
{
    content->dtype = json_is_string(value) ? find_dtype(json_string_value(value), json_string_length(value)) : NULL;
    return content->dtype ? ZT_OK : report_unfit(parser, name, "its dtype is none of the format's");
}

/* In the order of `members`. */
static zt_status (*const from_json[N_MEMBERS])(const st_parser *, const char *, const json_t *,
                                             entry_content *) = {dtype_from_json, shape_from_json, offsets_from_json};

/* An entry on its way through walk(). */
typedef struct entry_walk {
    const st_parser *parser;
    const char *name;
    entry_content *content;
    bool seen[N_MEMBERS];
} entry_walk;

/* "-0" is a float to the reference reader, and jansson's 0. */
static bool has_minus(const char *text, size_t size, const json_t *value)
{
    return json_is_array(value) && memchr(text, '-', size);
}

static zt_status read_value(entry_walk *walk, size_t member, const char *text, size_t size)
{
    const char *what = members[member].name;
    if (walk->seen[member])
        return report_unfit(walk->parser, walk->name, "'%s' is there twice", what);
    walk->seen[member] = true;
    if (size > MAX_VALUE)
        return report_unfit(walk->parser, walk->name, "'%s' has %zu bytes, %d are allowed", what, size, MAX_VALUE);
    json_t *value = zt_json_load(walk->parser->safetensors->ctx, walk->parser->file, text, size);
    zt_status status = !value                       ? zt_ctx_status(walk->parser->safetensors->ctx)
                  : has_minus(text, size, value) ? report_unfit(walk->parser, walk->name, "'%s' is not of counts", what)
                                           : from_json[member](walk->parser, walk->name, value, walk->content);
    json_decref(value);
    return status;
}

/* Which member the quoted name stands for; N_MEMBERS: for none, or for one with a zero inside. */
static zt_status find_member(const entry_walk *walk, const char *text, size_t size, size_t *member)
{
    zt_str key;
    *member = find_member_index(text + 1, size - 2);
    if (*member < N_MEMBERS || size > MAX_VALUE || !memchr(text, '\\', size))
        return ZT_OK;
    zt_str_init(&key, walk->parser->safetensors->ctx);
    json_t *value = zt_json_parse(text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    zt_status status = zt_str_put(&key, json_string_value(value), json_string_length(value));
    if (status == ZT_OK) *member = find_member_index(key.data, key.len);
    json_decref(value);
    zt_str_fini(&key);
    return status;
}

static zt_status fail_not_object(const entry_walk *walk)
{
    return report_unfit(walk->parser, walk->name, "not an object of dtype, shape and data_offsets");
}

/* The member at the cursor, past its value. */
static zt_status read_any_member(entry_walk *walk, text_cursor *cursor)
{
    size_t member;
    skip_space(cursor);
    const char *name = cursor->position, *colon = NULL;
    if (cursor->position < cursor->end && *cursor->position == '"')
        colon = zt_json_value_end(name, cursor->end, 0);
    if (!colon)
        return fail_not_object(walk);
    cursor->position = colon;
    if (!skip_character(cursor, ':'))
        return fail_not_object(walk);
    skip_space(cursor);
    const char *value = cursor->position, *end = zt_json_value_end(value, cursor->end, MAX_DEPTH);
    if (!end)
        return fail_not_object(walk);
    cursor->position = end;
    zt_status status = find_member(walk, name, (size_t)(colon - name), &member);
    return status == ZT_OK && member < N_MEMBERS ? read_value(walk, member, value, (size_t)(end - value))
                                            : status;
}

static zt_status read_any_json(const st_parser *parser, const char *name, const char *text, size_t size, entry_content *content)
{
    entry_walk walk = {.parser = parser, .name = name, .content = content};
    text_cursor cursor = {.position = text, .end = text + size};
    zt_status status = ZT_OK;
    if (!skip_character(&cursor, '{'))
        return fail_not_object(&walk);
    bool more = !skip_character(&cursor, '}');
    while (more && status == ZT_OK) {
        status = read_any_member(&walk, &cursor);
        more = status == ZT_OK && skip_character(&cursor, ',');
        if (status == ZT_OK && !more && !skip_character(&cursor, '}'))
            status = fail_not_object(&walk);
    }
    skip_space(&cursor);
    for (size_t i = 0; i < N_MEMBERS && status == ZT_OK; i++)
        if (!walk.seen[i] || cursor.position != cursor.end)
            status = fail_not_object(&walk);
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
            return report_unfit(parser, name, "dimension %zu of %lld: too many elements", i, (long long)dim);
        if (i < ZT_MAX_RANK)
            type->dim[i] = dim;
    }
    if (!zt_mul_i64(count, content->dtype->bits, &bits))
        return report_unfit(parser, name, "%lld elements are too many", (long long)count);
    if (!empty && bits % 8 != 0)
        return report_unfit(parser, name, "%lld elements of %d bits are no whole bytes", (long long)count,
                     content->dtype->bits);
    *bytes = empty ? 0 : (uint64_t)bits / 8;
    if (content->dtype->dtype == ZT_DTYPE_COUNT)
        type->rank = -1;
    return ZT_OK;
}

static zt_status check_entry(const st_parser *parser, const entry_content *content, st_tensor *tensor)
{
    const char *name = tensor->entry.name;
    uint64_t bytes = 0, begin = (uint64_t)content->offsets[0], end = (uint64_t)content->offsets[1];
    zt_status status = check_shape(parser, name, content, &tensor->entry.type, &bytes);
    if (status != ZT_OK)
        return status;
    if (begin > end || end > parser->data_size)
        return report_unfit(parser, name, "data from byte %llu to %llu, in %llu bytes of data",
                     (unsigned long long)begin, (unsigned long long)end,
                     (unsigned long long)parser->data_size);
    if (end - begin != bytes) {
        status = zt_st_report_fault(parser, name, "%llu bytes of data, its shape makes %llu",
                        (unsigned long long)(end - begin), (unsigned long long)bytes);
        if (status != ZT_OK)
            return status;
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
