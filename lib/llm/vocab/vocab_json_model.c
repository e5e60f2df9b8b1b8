/* vocab_json_model.c - owns what tokenizer.json's models share: the vocabulary object, the unknown
 * token, tokens of bytes; and WordLevel.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <stdio.h>
#include <string.h>

/* Ids may have gaps, but not such that a small file asks for much memory. */
enum { GAPS = 1 << 20 };

/* ---- the vocabulary -------------------------------------------------------------------------- */

static zt_status bad_id(zt_tj_reader *r, const char *key, const char *what)
{
    char buf[80];
    return zt_fail(r->ctx, ZT_EDATA, "%s: token '%s' has an id that is %s", r->file,
                   zt_escape(buf, sizeof buf, key, strlen(key)), what);
}

static zt_status count_ids(zt_tj_reader *r, const json_t *o, zt_tj *t)
{
    const char *key;
    json_t *j;
    json_int_t most = -1;
    t->entries = json_object_size(o);
    json_object_foreach((json_t *)o, key, j) {
        if (!json_is_integer(j) || json_integer_value(j) < 0)
            return bad_id(r, key, "no count");
        if (json_integer_value(j) > (json_int_t)(4 * t->entries + GAPS) ||
            json_integer_value(j) >= INT32_MAX / 4)
            return bad_id(r, key, "far beyond the number of tokens");
        most = json_integer_value(j) > most ? json_integer_value(j) : most;
    }
    t->n = (int32_t)(most + 1);
    return ZT_OK;
}

static void find_bytes(zt_tj *t)
{
    for (int b = 0; b < 256; b++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", b);
        t->byte[b] = zt_model_find(t, text, 6);
    }
}

/* Of texts with one id the last is that id's. */
zt_status zt_vocab_object(zt_tj_reader *r, const json_t *o, zt_tj *t)
{
    const char *key;
    json_t *j, *vocab = json_object_get(o, "vocab");
    zt_status s = zt_tj_need(r, o, "vocab");
    if (!s && !json_is_object(vocab))
        s = zt_fail(r->ctx, ZT_EDATA, "%s: %s: 'vocab' is no object", r->file, r->where);
    if (!s)
        s = count_ids(r, vocab, t);
    if (s)
        return s;
    t->text = zt_calloc(r->ctx, (size_t)t->n, sizeof *t->text);
    t->ids = zt_map_new(r->ctx, t->entries);
    if (!t->text || !t->ids)
        return ZT_ENOMEM;
    json_object_foreach(vocab, key, j) {
        int32_t id = (int32_t)json_integer_value(j);
        zt_bytes text = zt_tj_keep(r, key, strlen(key));
        if (!text.data)
            return ZT_ENOMEM;
        s = zt_map_put(t->ids, text.data, text.n, id);
        if (s)
            return s;
        t->text[id] = text;
    }
    find_bytes(t);
    return ZT_OK;
}

int32_t zt_model_find(const zt_tj *t, const char *text, size_t n)
{
    int64_t id;
    return zt_map_get(t->ids, text, n, &id) ? (int32_t)id : -1;
}

/* A file may name an unknown token that it does not have: an error only when one is met. */
zt_status zt_model_unk(zt_tj_reader *r, const json_t *o, zt_tj *t, const char *def)
{
    zt_bytes unk = {def, def ? strlen(def) : 0};
    zt_status s = zt_tj_text(r, o, "unk_token", &unk);
    if (!s && unk.data) {
        t->unk = zt_model_find(t, unk.data, unk.n);
        t->unk_missing = t->unk < 0;
    }
    return s;
}

zt_status zt_tj_put(const zt_tj *t, zt_tj_work *w, int32_t id)
{
    return zt_ids_push(t->ctx, w->ids, id);
}

zt_status zt_tj_put_unk(const zt_tj *t, zt_tj_work *w)
{
    if (t->unk_missing)
        return zt_fail(t->ctx, ZT_EDATA, "the text needs the unknown token, which the vocabulary "
                       "names but does not have");
    return t->unk < 0 ? ZT_OK : zt_tj_put(t, w, t->unk);
}

bool zt_tj_has_bytes(const zt_tj *t, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (t->byte[(unsigned char)text[i]] < 0)
            return false;
    return true;
}

/* ---- WordLevel ------------------------------------------------------------------------------- */

static zt_status read_wordlevel(zt_tj_reader *r, const json_t *o, zt_tj *t)
{
    zt_status s = zt_vocab_object(r, o, t);
    return s ? s : zt_model_unk(r, o, t, "<unk>");
}

static zt_status wordlevel(const zt_tj *t, zt_tj_work *w, const char *text, size_t n)
{
    int32_t id = zt_model_find(t, text, n);
    return id < 0 ? zt_tj_put_unk(t, w) : zt_tj_put(t, w, id);
}

const zt_model_row zt_model_wordlevel = {"WordLevel", read_wordlevel, wordlevel};

/* ---- which model ----------------------------------------------------------------------------- */

/* Files of old do not say: only Unigram has a list of tokens, only BPE has merges, only WordPiece
 * has a limit. */
static const char *guess(const json_t *o)
{
    return json_is_array(json_object_get(o, "vocab")) ? "Unigram"
           : json_object_get(o, "merges")             ? "BPE"
           : json_object_get(o, "max_input_chars_per_word") ? "WordPiece"
                                                            : "WordLevel";
}

zt_status zt_model_read(zt_tj_reader *r, const json_t *root, zt_tj *t)
{
    static const zt_model_row *const rows[] = {&zt_model_bpe, &zt_model_unigram,
                                               &zt_model_wordpiece, &zt_model_wordlevel};
    const json_t *o = json_object_get(root, "model"), *type = json_object_get(o, "type");
    char buf[80];
    r->where = "model";
    if (!json_is_object(o) || (type && !json_is_string(type)))
        return zt_fail(r->ctx, ZT_EDATA, "%s: 'model' is missing, or no object with a 'type'",
                       r->file);
    const char *name = type ? json_string_value(type) : guess(o);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i]->name, name) == 0) {
            t->model = rows[i];
            return t->model->read(r, o, t);
        }
    return zt_fail(r->ctx, ZT_ENOTSUP, "%s: model '%s' is not supported", r->file,
                   zt_escape(buf, sizeof buf, name, strlen(name)));
}
