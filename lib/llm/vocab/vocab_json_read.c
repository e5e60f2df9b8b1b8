/* vocab_json_read.c - reads tokenizer.json's JSON: the text into a tree with bounded memory,
 * members of objects with messages that name them, and components with their Sequences.
 */
#include "lib/llm/vocab/vocab_json.h"

#include "lib/io/json.h"

#include <string.h>

enum { MOST_JSON = 256 << 20 };

/* ---- the tree -------------------------------------------------------------------------------- */

/* A bound on what jansson takes for a text: by how many values can be in it. */
static size_t tree_bytes(const char *text, size_t size)
{
    size_t objects = 0, arrays = 0, values = 1;
    for (size_t i = 0; i < size; i++) {
        objects += text[i] == '{';
        arrays += text[i] == '[';
        values += text[i] == ',' || text[i] == ':';
    }
    return size + 320 * objects + 160 * arrays + 80 * values;
}

/* Is the escape at text[offset] the character U+0000? */
static bool zero_at(const char *text, size_t size, size_t offset)
{
    return size - offset >= 6 && memcmp(text + offset, "\\u0000", 6) == 0;
}

/* jansson takes no U+0000 in a key, but a vocabulary may well have it: in a copy of the text the
 * noncharacter U+FDD0 stands for it. NULL: there is none, or *status is an error. */
static char *mark_zeros(zt_tj_reader *reader, const char *text, size_t size, zt_status *status)
{
    char *copy = NULL;
    bool taken = memmem(text, size, "\xef\xb7\x90", 3) != NULL;
    for (size_t i = 0; i + 1 < size; i++) {
        if (text[i] != '\\') continue;
        if (size - i >= 6 && strncasecmp(text + i, "\\ufdd0", 6) == 0) taken = true;
        if (zero_at(text, size, i)) {
            if (!copy && !(copy = zt_strndup(reader->ctx, text, size))) {
                *status = ZT_ENOMEM;
                return NULL;
            }
            memcpy(copy + i + 2, "fdd0", 4);
        }
        i++;
    }
    if (copy && taken) {
        *status = zt_fail(reader->ctx, ZT_ENOTSUP, "%s: U+0000 and the noncharacter U+FDD0 in one file are not supported",
                          reader->file);
        zt_free(reader->ctx, copy);
        return NULL;
    }
    reader->zeros = copy != NULL;
    return copy;
}

json_t *zt_tj_load(zt_tj_reader *reader, const char *text, size_t size, void **held)
{
    zt_status status = ZT_OK;
    json_error_t error;
    char escaped[2 * JSON_ERROR_TEXT_LENGTH];
    *held = NULL;
    if (size > MOST_JSON) {
        zt_fail(reader->ctx, ZT_EDATA, "%s: %zu bytes of JSON, the limit is %d", reader->file, size, MOST_JSON);
        return NULL;
    }
    *held = zt_alloc(reader->ctx, tree_bytes(text, size)); /* not touched: only the account is wanted */
    char *copy = *held ? mark_zeros(reader, text, size, &status) : NULL;
    if (!*held || status) return NULL;
    json_t *root = zt_json_parse(copy ? copy : text, size, 0, &error);
    zt_free(reader->ctx, copy);
    if (!root)
        zt_fail(reader->ctx, json_error_code(&error) == json_error_out_of_memory ? ZT_ENOMEM : ZT_EDATA, "%s: JSON, line %d: %s",
                reader->file, error.line, zt_escape(escaped, sizeof escaped, error.text, strlen(error.text)));
    else if (!json_is_object(root)) {
        zt_fail(reader->ctx, ZT_EDATA, "%s: not a JSON object", reader->file);
        json_decref(root);
        root = NULL;
    }
    return root;
}

zt_bytes zt_tj_keep(zt_tj_reader *reader, const char *text, size_t size)
{
    char *copy = zt_arena_strndup(reader->texts, text, size);
    zt_bytes none = {NULL, 0};
    if (!copy) return none;
    if (reader->zeros) {
        size_t kept = 0;
        for (size_t i = 0; i < size; kept++) {
            bool zero = size - i >= 3 && memcmp(copy + i, "\xef\xb7\x90", 3) == 0;
            copy[kept] = zero ? 0 : copy[i];
            i += zero ? 3 : 1;
        }
        size = kept;
    }
    return (zt_bytes){copy, size};
}

/* ---- members --------------------------------------------------------------------------------- */

static zt_status fail_member(zt_tj_reader *reader, const char *name, const char *what)
{
    return zt_fail(reader->ctx, ZT_EDATA, "%s: %s: '%s' is %s", reader->file, reader->where, name, what);
}

static const json_t *get_member(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

zt_status zt_tj_need(zt_tj_reader *reader, const json_t *object, const char *name)
{
    return get_member(object, name) ? ZT_OK : fail_member(reader, name, "missing");
}

zt_status zt_tj_bool(zt_tj_reader *reader, const json_t *object, const char *name, bool *out)
{
    const json_t *value = get_member(object, name);
    if (value && !json_is_boolean(value)) return fail_member(reader, name, "neither true nor false");
    if (value) *out = json_is_true(value);
    return ZT_OK;
}

zt_status zt_tj_text(zt_tj_reader *reader, const json_t *object, const char *name, zt_bytes *out)
{
    const json_t *value = get_member(object, name);
    if (!value) return ZT_OK;
    if (!json_is_string(value)) return fail_member(reader, name, "not a string");
    *out = zt_tj_keep(reader, json_string_value(value), json_string_length(value));
    return out->data ? ZT_OK : ZT_ENOMEM;
}

zt_status zt_tj_size(zt_tj_reader *reader, const json_t *object, const char *name, int64_t *out)
{
    const json_t *value = get_member(object, name);
    if (!value) return ZT_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 0) return fail_member(reader, name, "not a non-negative integer");
    *out = json_integer_value(value);
    return ZT_OK;
}

zt_status zt_tj_word(zt_tj_reader *reader, const json_t *object, const char *name, const char *const *names, int *out)
{
    const json_t *value = get_member(object, name);
    const char *word = json_string_value(value);
    char escaped[80];
    if (!value) return ZT_OK;
    if (!word) return fail_member(reader, name, "not a string");
    for (int i = 0; names[i]; i++)
        if (strcmp(word, names[i]) == 0) {
            *out = i;
            return ZT_OK;
        }
    return zt_fail(reader->ctx, ZT_ENOTSUP, "%s: %s: '%s' has the unknown value '%s'", reader->file, reader->where, name,
                   zt_escape(escaped, sizeof escaped, word, json_string_length(value)));
}

/* ---- components ------------------------------------------------------------------------------ */

static zt_status add_step(zt_tj_reader *reader, const zt_tj_family *family, const json_t *value, zt_tj_steps *out)
{
    const json_t *type = json_object_get(value, "type");
    const char *name = json_string_value(type);
    char escaped[80];
    if (!name) return zt_fail(reader->ctx, ZT_EDATA, "%s: %s: a component has no 'type'", reader->file, family->key);
    if (out->count == ZT_MOST_STEPS)
        return zt_fail(reader->ctx, ZT_ENOTSUP, "%s: %s: more than %d components", reader->file, family->key, ZT_MOST_STEPS);
    for (const zt_tj_row *row = family->row; row->name; row++)
        if (strcmp(row->name, name) == 0) {
            zt_tj_step *step = &out->step[out->count++];
            step->row = row;
            return row->read ? row->read(reader, value, step) : ZT_OK;
        }
    return zt_fail(reader->ctx, ZT_ENOTSUP, "%s: %s '%s' is not supported", reader->file, family->key,
                   zt_escape(escaped, sizeof escaped, name, json_string_length(type)));
}

/* A Sequence may hold Sequences; jansson bounds how deep. */
static zt_status add_steps(zt_tj_reader *reader, const zt_tj_family *family, const json_t *value, zt_tj_steps *out, int depth)
{
    const char *name = json_string_value(json_object_get(value, "type"));
    zt_status status = ZT_OK;
    if (!name || strcmp(name, "Sequence") != 0) return add_step(reader, family, value, out);
    const json_t *list = json_object_get(value, family->list);
    if (!json_is_array(list) || depth > ZT_MOST_STEPS)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: %s: a Sequence has no '%s' or is nested too deeply", reader->file, family->key,
                       family->list);
    for (size_t i = 0; !status && i < json_array_size(list); i++)
        status = add_steps(reader, family, json_array_get(list, i), out, depth + 1);
    return status;
}

zt_status zt_tj_steps_read(zt_tj_reader *reader, const zt_tj_family *family, const json_t *value, zt_tj_steps *out)
{
    reader->where = family->key;
    if (!value || json_is_null(value)) return ZT_OK;
    out->step = zt_calloc(reader->ctx, ZT_MOST_STEPS, sizeof *out->step);
    return out->step ? add_steps(reader, family, value, out, 0) : ZT_ENOMEM;
}

void zt_tj_steps_free(zt_ctx *ctx, zt_tj_steps *steps)
{
    for (int i = 0; i < steps->count; i++) {
        zt_pattern_free(steps->step[i].pattern);
        zt_charsmap_free(steps->step[i].map);
    }
    zt_free(ctx, steps->step);
    *steps = (zt_tj_steps){0};
}
