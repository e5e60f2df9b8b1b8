/* vocab_json_read.c - reads tokenizer.json's JSON: the text into a tree with bounded memory,
 * members of objects with messages that name them, and components with their Sequences.
 */
#include "lib/llm/vocab/vocab_json.h"

#include "lib/io/json.h"

#include <string.h>

enum { MOST_JSON = 256 << 20 };

/* ---- the tree -------------------------------------------------------------------------------- */

/* A bound on what jansson takes for a text: by how many values can be in it. */
static size_t tree_bytes(const char *text, size_t n)
{
    size_t objects = 0, arrays = 0, values = 1;
    for (size_t i = 0; i < n; i++) {
        objects += text[i] == '{';
        arrays += text[i] == '[';
        values += text[i] == ',' || text[i] == ':';
    }
    return n + 320 * objects + 160 * arrays + 80 * values;
}

/* Is the escape at text[i] the character U+0000? */
static bool zero_at(const char *text, size_t n, size_t i)
{
    return n - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0;
}

/* jansson takes no U+0000 in a key, but a vocabulary may well have it: in a copy of the text the
 * noncharacter U+FDD0 stands for it. NULL: there is none, or *s is an error. */
static char *mark_zeros(zt_tj_reader *r, const char *text, size_t n, zt_status *s)
{
    char *copy = NULL;
    bool taken = memmem(text, n, "\xef\xb7\x90", 3) != NULL;
    for (size_t i = 0; i + 1 < n; i++) {
        if (text[i] != '\\')
            continue;
        if (n - i >= 6 && strncasecmp(text + i, "\\ufdd0", 6) == 0)
            taken = true;
        if (zero_at(text, n, i)) {
            if (!copy && !(copy = zt_strndup(r->ctx, text, n))) {
                *s = ZT_ENOMEM;
                return NULL;
            }
            memcpy(copy + i + 2, "fdd0", 4);
        }
        i++;
    }
    if (copy && taken) {
        *s = zt_fail(r->ctx, ZT_ENOTSUP, "%s: it has both U+0000 and the noncharacter U+FDD0",
                     r->file);
        zt_free(r->ctx, copy);
        return NULL;
    }
    r->zeros = copy != NULL;
    return copy;
}

json_t *zt_tj_load(zt_tj_reader *r, const char *text, size_t n, void **held)
{
    zt_status s = ZT_OK;
    json_error_t e;
    char buf[2 * JSON_ERROR_TEXT_LENGTH];
    *held = NULL;
    if (n > MOST_JSON) {
        zt_fail(r->ctx, ZT_EDATA, "%s: %zu bytes of JSON, at most %d are read", r->file, n,
                MOST_JSON);
        return NULL;
    }
    *held = zt_alloc(r->ctx, tree_bytes(text, n)); /* not touched: only the account is wanted */
    char *copy = *held ? mark_zeros(r, text, n, &s) : NULL;
    if (!*held || s)
        return NULL;
    json_t *j = zt_json_parse(copy ? copy : text, n, 0, &e);
    zt_free(r->ctx, copy);
    if (!j)
        zt_fail(r->ctx, json_error_code(&e) == json_error_out_of_memory ? ZT_ENOMEM : ZT_EDATA,
                "%s: JSON, line %d: %s", r->file, e.line,
                zt_escape(buf, sizeof buf, e.text, strlen(e.text)));
    else if (!json_is_object(j)) {
        zt_fail(r->ctx, ZT_EDATA, "%s: its JSON is no object", r->file);
        json_decref(j);
        j = NULL;
    }
    return j;
}

zt_bytes zt_tj_keep(zt_tj_reader *r, const char *text, size_t n)
{
    char *p = zt_arena_strndup(r->texts, text, n);
    zt_bytes none = {NULL, 0};
    if (!p)
        return none;
    if (r->zeros) {
        size_t to = 0;
        for (size_t i = 0; i < n; to++) {
            bool zero = n - i >= 3 && memcmp(p + i, "\xef\xb7\x90", 3) == 0;
            p[to] = zero ? 0 : p[i];
            i += zero ? 3 : 1;
        }
        n = to;
    }
    return (zt_bytes){p, n};
}

/* ---- members --------------------------------------------------------------------------------- */

static zt_status wrong(zt_tj_reader *r, const char *name, const char *what)
{
    return zt_fail(r->ctx, ZT_EDATA, "%s: %s: '%s' is %s", r->file, r->where, name, what);
}

static const json_t *member(const json_t *o, const char *name)
{
    const json_t *j = json_object_get(o, name);
    return json_is_null(j) ? NULL : j;
}

zt_status zt_tj_need(zt_tj_reader *r, const json_t *o, const char *name)
{
    return member(o, name) ? ZT_OK : wrong(r, name, "missing");
}

zt_status zt_tj_bool(zt_tj_reader *r, const json_t *o, const char *name, bool *out)
{
    const json_t *j = member(o, name);
    if (j && !json_is_boolean(j))
        return wrong(r, name, "neither true nor false");
    if (j)
        *out = json_is_true(j);
    return ZT_OK;
}

zt_status zt_tj_text(zt_tj_reader *r, const json_t *o, const char *name, zt_bytes *out)
{
    const json_t *j = member(o, name);
    if (!j)
        return ZT_OK;
    if (!json_is_string(j))
        return wrong(r, name, "no text");
    *out = zt_tj_keep(r, json_string_value(j), json_string_length(j));
    return out->data ? ZT_OK : ZT_ENOMEM;
}

zt_status zt_tj_size(zt_tj_reader *r, const json_t *o, const char *name, int64_t *out)
{
    const json_t *j = member(o, name);
    if (!j)
        return ZT_OK;
    if (!json_is_integer(j) || json_integer_value(j) < 0)
        return wrong(r, name, "no count");
    *out = json_integer_value(j);
    return ZT_OK;
}

zt_status zt_tj_word(zt_tj_reader *r, const json_t *o, const char *name, const char *const *names,
                     int *out)
{
    const json_t *j = member(o, name);
    const char *word = json_string_value(j);
    char buf[80];
    if (!j)
        return ZT_OK;
    if (!word)
        return wrong(r, name, "no text");
    for (int i = 0; names[i]; i++)
        if (strcmp(word, names[i]) == 0) {
            *out = i;
            return ZT_OK;
        }
    return zt_fail(r->ctx, ZT_ENOTSUP, "%s: %s: '%s' is '%s', which is not known", r->file,
                   r->where, name, zt_escape(buf, sizeof buf, word, json_string_length(j)));
}

/* ---- components ------------------------------------------------------------------------------ */

static zt_status add_step(zt_tj_reader *r, const zt_tj_family *f, const json_t *j, zt_tj_steps *out)
{
    const json_t *type = json_object_get(j, "type");
    const char *name = json_string_value(type);
    char buf[80];
    if (!name)
        return zt_fail(r->ctx, ZT_EDATA, "%s: %s: a component without a 'type'", r->file, f->key);
    if (out->n == ZT_MOST_STEPS)
        return zt_fail(r->ctx, ZT_ENOTSUP, "%s: %s: more than %d components", r->file, f->key,
                       ZT_MOST_STEPS);
    for (const zt_tj_row *row = f->row; row->name; row++)
        if (strcmp(row->name, name) == 0) {
            zt_tj_step *s = &out->step[out->n++];
            s->row = row;
            return row->read ? row->read(r, j, s) : ZT_OK;
        }
    return zt_fail(r->ctx, ZT_ENOTSUP, "%s: %s '%s' is not supported", r->file, f->key,
                   zt_escape(buf, sizeof buf, name, json_string_length(type)));
}

/* A Sequence may hold Sequences; jansson bounds how deep. */
static zt_status add_steps(zt_tj_reader *r, const zt_tj_family *f, const json_t *j,
                           zt_tj_steps *out, int depth)
{
    const char *name = json_string_value(json_object_get(j, "type"));
    zt_status s = ZT_OK;
    if (!name || strcmp(name, "Sequence") != 0)
        return add_step(r, f, j, out);
    const json_t *list = json_object_get(j, f->list);
    if (!json_is_array(list) || depth > ZT_MOST_STEPS)
        return zt_fail(r->ctx, ZT_EDATA, "%s: %s: a Sequence without '%s', or too deep", r->file,
                       f->key, f->list);
    for (size_t i = 0; !s && i < json_array_size(list); i++)
        s = add_steps(r, f, json_array_get(list, i), out, depth + 1);
    return s;
}

zt_status zt_tj_steps_read(zt_tj_reader *r, const zt_tj_family *f, const json_t *j,
                           zt_tj_steps *out)
{
    r->where = f->key;
    if (!j || json_is_null(j))
        return ZT_OK;
    out->step = zt_calloc(r->ctx, ZT_MOST_STEPS, sizeof *out->step);
    return out->step ? add_steps(r, f, j, out, 0) : ZT_ENOMEM;
}

void zt_tj_steps_free(zt_ctx *ctx, zt_tj_steps *s)
{
    for (int i = 0; i < s->n; i++) {
        zt_pattern_free(s->step[i].pattern);
        zt_charsmap_free(s->step[i].map);
    }
    zt_free(ctx, s->step);
    *s = (zt_tj_steps){0};
}
