/* vocab_json_model.c - owns what tokenizer.json's models share: the vocabulary object, the unknown
 * token, tokens of bytes; and WordLevel.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <stdio.h>
#include <string.h>

/* Ids may have gaps, but not such that a small file asks for much memory. */
enum { GAPS = 1 << 20 };

/* ---- the vocabulary -------------------------------------------------------------------------- */

static zt_status bad_id(zt_tj_reader *reader, const char *key, const char *what)
{
    char escaped[80];
    return zt_fail(reader->ctx, ZT_EDATA, "%s: token '%s' has an id that is %s", reader->file,
                   zt_escape(escaped, sizeof escaped, key, strlen(key)), what);
}

static zt_status count_ids(zt_tj_reader *reader, const json_t *object, zt_tj *tokenizer)
{
    const char *key;
    json_t *value;
    json_int_t most = -1;
    tokenizer->entries = json_object_size(object);
    json_object_foreach((json_t *)object, key, value)
    {
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return bad_id(reader, key, "no count");
        if (json_integer_value(value) > (json_int_t)(4 * tokenizer->entries + GAPS) || json_integer_value(value) >= INT32_MAX / 4)
            return bad_id(reader, key, "far beyond the number of tokens");
        most = json_integer_value(value) > most ? json_integer_value(value) : most;
    }
    tokenizer->token_count = (int32_t)(most + 1);
    return ZT_OK;
}

static void find_bytes(zt_tj *tokenizer)
{
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        tokenizer->byte[byte] = zt_model_find(tokenizer, text, 6);
    }
}

/* Of texts with one id the last is that id's. */
zt_status zt_vocab_object(zt_tj_reader *reader, const json_t *object, zt_tj *tokenizer)
{
    const char *key;
    json_t *value, *vocab = json_object_get(object, "vocab");
    zt_status status = zt_tj_need(reader, object, "vocab");
    if (!status && !json_is_object(vocab))
        status = zt_fail(reader->ctx, ZT_EDATA, "%s: %s: 'vocab' is no object", reader->file, reader->where);
    if (!status)
        status = count_ids(reader, vocab, tokenizer);
    if (status)
        return status;
    tokenizer->text = zt_calloc(reader->ctx, (size_t)tokenizer->token_count, sizeof *tokenizer->text);
    tokenizer->ids = zt_map_new(reader->ctx, tokenizer->entries);
    if (!tokenizer->text || !tokenizer->ids)
        return ZT_ENOMEM;
    json_object_foreach(vocab, key, value)
    {
        int32_t id = (int32_t)json_integer_value(value);
        zt_bytes text = zt_tj_keep(reader, key, strlen(key));
        if (!text.data)
            return ZT_ENOMEM;
        status = zt_map_put(tokenizer->ids, text.data, text.n, id);
        if (status)
            return status;
        tokenizer->text[id] = text;
    }
    find_bytes(tokenizer);
    return ZT_OK;
}

int32_t zt_model_find(const zt_tj *tokenizer, const char *text, size_t size)
{
    int64_t id;
    return zt_map_get(tokenizer->ids, text, size, &id) ? (int32_t)id : -1;
}

/* A file may name an unknown token that it does not have: an error only when one is met. */
zt_status zt_model_unk(zt_tj_reader *reader, const json_t *object, zt_tj *tokenizer, const char *otherwise)
{
    zt_bytes unk = {otherwise, otherwise ? strlen(otherwise) : 0};
    zt_status status = zt_tj_text(reader, object, "unk_token", &unk);
    if (!status && unk.data) {
        tokenizer->unk = zt_model_find(tokenizer, unk.data, unk.n);
        tokenizer->unk_missing = tokenizer->unk < 0;
    }
    return status;
}

zt_status zt_tj_put(const zt_tj *tokenizer, zt_tj_work *work, int32_t id) { return zt_ids_push(tokenizer->ctx, work->ids, id); }

zt_status zt_tj_put_unk(const zt_tj *tokenizer, zt_tj_work *work)
{
    if (tokenizer->unk_missing)
        return zt_fail(tokenizer->ctx, ZT_EDATA,
                       "the text needs the unknown token, which the vocabulary "
                       "names but does not have");
    return tokenizer->unk < 0 ? ZT_OK : zt_tj_put(tokenizer, work, tokenizer->unk);
}

bool zt_tj_has_bytes(const zt_tj *tokenizer, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (tokenizer->byte[(unsigned char)text[i]] < 0)
            return false;
    return true;
}

/* ---- WordLevel ------------------------------------------------------------------------------- */

static zt_status read_wordlevel(zt_tj_reader *reader, const json_t *object, zt_tj *tokenizer)
{
    zt_status status = zt_vocab_object(reader, object, tokenizer);
    return status ? status : zt_model_unk(reader, object, tokenizer, "<unk>");
}

static zt_status encode_wordlevel(const zt_tj *tokenizer, zt_tj_work *work, const char *text, size_t size)
{
    int32_t id = zt_model_find(tokenizer, text, size);
    return id < 0 ? zt_tj_put_unk(tokenizer, work) : zt_tj_put(tokenizer, work, id);
}

const zt_model_row zt_model_wordlevel = {"WordLevel", read_wordlevel, encode_wordlevel};

/* ---- which model ----------------------------------------------------------------------------- */

/* Files of old do not say: only Unigram has a list of tokens, only BPE has merges, only WordPiece
 * has a limit. */
static const char *guess_model(const json_t *object)
{
    return json_is_array(json_object_get(object, "vocab"))       ? "Unigram"
           : json_object_get(object, "merges")                   ? "BPE"
           : json_object_get(object, "max_input_chars_per_word") ? "WordPiece"
                                                                 : "WordLevel";
}

zt_status zt_model_read(zt_tj_reader *reader, const json_t *root, zt_tj *tokenizer)
{
    static const zt_model_row *const rows[] = {&zt_model_bpe, &zt_model_unigram,
                                               &zt_model_wordpiece, &zt_model_wordlevel};
    const json_t *object = json_object_get(root, "model"), *type = json_object_get(object, "type");
    char escaped[80];
    reader->where = "model";
    if (!json_is_object(object) || (type && !json_is_string(type)))
        return zt_fail(reader->ctx, ZT_EDATA, "%s: 'model' is missing, or no object with a 'type'", reader->file);
    const char *name = type ? json_string_value(type) : guess_model(object);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i]->name, name) == 0) {
            tokenizer->model = rows[i];
            return tokenizer->model->read(reader, object, tokenizer);
        }
    return zt_fail(reader->ctx, ZT_ENOTSUP, "%s: model '%s' is not supported", reader->file,
                   zt_escape(escaped, sizeof escaped, name, strlen(name)));
}
