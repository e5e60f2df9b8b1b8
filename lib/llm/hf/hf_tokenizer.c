/* hf_tokenizer.c - what goes with the tokenizer: tokenizer.json itself (one key, as GGUF has it),
 * special tokens, and chat templates.
 *
 * Files: tokenizer.json, tokenizer_config.json, special_tokens in config.json and
 * generation_config.json, chat_template.jinja or chat_template.json. Facts: gguf-py/gguf/vocab.py
 * of llama.cpp. */
#include "lib/base/foreign.h"
#include "lib/llm/hf/hf.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

enum { MAX_IDS = 256 };

static zt_status put_whole_file(hf_import *import, const char *name, const char *key)
{
    size_t size;
    if (!zt_hf_has_file(import, name)) return ZT_OK;
    const char *path = zt_hf_file(import, name);
    char *text = path ? zt_read_all(import->ctx, path, &size) : NULL;
    zt_status status = text ? ZT_OK : zt_ctx_status(import->ctx);
    if (status == ZT_OK) status = zt_foreign_fail(import->ctx, path, text, size);
    if (status == ZT_OK) status = zt_gguf_put_str(import->writer, key, text, size);
    zt_free(import->ctx, text);
    return status;
}

/* ---- special tokens -------------------------------------------------------------------------- */

/* The text of a special token: a string, or an object that has it as "content". */
static const char *token_text(const json_t *tokenizer, const char *name)
{
    const json_t *value = json_object_get(tokenizer, name);
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

/* The id of an added token by its text, -1: tokenizer_config.json does not say. */
static int64_t added_id(json_t *tokenizer, const char *text)
{
    json_t *added = json_object_get(tokenizer, "added_tokens_decoder"), *value;
    const char *key;
    int64_t id;
    json_object_foreach(added, key, value)
    {
        const char *content = json_string_value(json_object_get(value, "content"));
        if (content && strcmp(content, text) == 0 && zt_parse_i64(key, &id)) return id;
    }
    return -1;
}

/* Ids of a number or a list of them: how many; -1: it is neither. Below 0 stands for none. */
static int read_ids(const json_t *value, int32_t ids[MAX_IDS])
{
    size_t count = json_is_array(value) ? json_array_size(value) : json_is_integer(value);
    int kept = 0;
    if (count > MAX_IDS || (!json_is_array(value) && !json_is_integer(value))) return -1;
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(entry) || json_integer_value(entry) > INT32_MAX) return -1;
        if (json_integer_value(entry) >= 0) ids[kept++] = (int32_t)json_integer_value(entry);
    }
    return kept;
}

typedef struct special_row {
    const char *token, *id, *key; /* of tokenizer_config.json, of config.json, of GGUF */
} special_row;

static const special_row specials[] = {
    {"bos_token", "bos_token_id", "tokenizer.ggml.bos_token_id"},
    {"eos_token", "eos_token_id", "tokenizer.ggml.eos_token_id"},
    {"unk_token", "unk_token_id", "tokenizer.ggml.unknown_token_id"},
    {"sep_token", "sep_token_id", "tokenizer.ggml.seperator_token_id"},
    {"pad_token", "pad_token_id", "tokenizer.ggml.padding_token_id"},
    {"mask_token", "mask_token_id", "tokenizer.ggml.mask_token_id"},
};

/* The tokenizer has the first word, then what generation goes by, then config.json. */
static zt_status put_special(hf_import *import, const special_row *row, json_t *tokenizer, const json_t *generation)
{
    const char *text = token_text(tokenizer, row->token);
    const json_t *value = json_object_get(generation, row->id);
    int64_t id = text ? added_id(tokenizer, text) : -1;
    int32_t ids[MAX_IDS];
    if (!value || json_is_null(value)) value = zt_hf_get(import, row->id);
    if (value && !json_is_null(value)) {
        int id_count = read_ids(value, ids);
        if (id_count < 0)
            return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json or generation_config.json: '%s' is not a token id",
                           import->folder.data, row->id);
        if (id < 0 && id_count > 0) id = ids[0];
    }
    return id < 0 || id > INT32_MAX ? ZT_OK : zt_gguf_put_int(import->writer, row->key, ZT_GGUF_U32, id);
}

static zt_status put_switches(hf_import *import, const json_t *tokenizer)
{
    static const char *const names[][2] = {{"add_bos_token", "tokenizer.ggml.add_bos_token"},
                                           {"add_eos_token", "tokenizer.ggml.add_eos_token"}};
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < sizeof names / sizeof *names; i++) {
        const json_t *value = json_object_get(tokenizer, names[i][0]);
        if (json_is_boolean(value)) status = zt_gguf_put_int(import->writer, names[i][1], ZT_GGUF_BOOL, json_is_true(value));
    }
    return status;
}

static zt_status put_specials(hf_import *import, json_t *tokenizer, const json_t *generation)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < sizeof specials / sizeof *specials; i++)
        status = put_special(import, &specials[i], tokenizer, generation);
    return status == ZT_OK ? put_switches(import, tokenizer) : status;
}

/* All tokens that end a generation: GGUF's own key has room for one only. Where that one is all, a
 * file needs no more. */
static zt_status put_ends(hf_import *import, const json_t *generation)
{
    const json_t *value = json_object_get(generation, "eos_token_id");
    int32_t ids[MAX_IDS];
    int count = read_ids(value && !json_is_null(value) ? value : zt_hf_get(import, "eos_token_id"), ids);
    bool more = count > 1 || (count == 1 && !(import->whole && ids[0] == import->eos));
    more = more && !zt_hf_is(import, HF_ENCODERS); /* which end no text */
    return more ? zt_gguf_put_array(import->writer, "tokenizer.ggml.eos_token_ids", ZT_GGUF_I32, ids, count) : ZT_OK;
}

/* ---- chat templates -------------------------------------------------------------------------- */

/* The template, or of several named ones "default"; NULL: there is none. */
static const json_t *default_template(const json_t *value)
{
    size_t i;
    json_t *entry;
    if (json_is_string(value)) return value;
    json_array_foreach(value, i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (name && strcmp(name, "default") == 0) return json_object_get(entry, "template");
    }
    return NULL;
}

enum { MOST_TEMPLATES = 32, TEMPLATE_KEY = sizeof "tokenizer.chat_template." - 1 };

typedef struct template_variants { /* beside the default: their keys, of which names are a part */
    char key[MOST_TEMPLATES][128];
    zt_bytes name[MOST_TEMPLATES];
    int count;
} template_variants;

/* The key of another one, by the letters and digits of its name; NULL: it is left out, with a warning. */
static const char *add_variant(hf_import *import, template_variants *list, const char *name, size_t length)
{
    char *key = list->key[list->count < MOST_TEMPLATES ? list->count : 0];
    bool room = list->count < MOST_TEMPLATES && length > 0 && length <= 96, twice = false;
    if (room) snprintf(key, sizeof list->key[0], "tokenizer.chat_template.%.*s", (int)length, name);
    for (char *letter = key + TEMPLATE_KEY; room && *letter; letter++)
        *letter = (char)(isalnum((unsigned char)*letter) ? *letter : '_');
    for (int i = 0; room && i < list->count; i++) twice = twice || strcmp(list->key[i], key) == 0;
    if (!room || twice) {
        char shown[64];
        zt_log(import->ctx, ZT_LOG_WARN, "%s: the chat template '%s' is left out: %s", import->path,
               zt_escape(shown, sizeof shown, name, length),
               twice                        ? "another has the same letters and digits in its name"
               : length == 0 || length > 96 ? "a name has 1 to 96 bytes"
                                            : "there are more than 32");
        return NULL;
    }
    list->name[list->count++] = (zt_bytes){key + TEMPLATE_KEY, strlen(key + TEMPLATE_KEY)};
    return key;
}

static zt_status put_variants(hf_import *import, const template_variants *list, zt_status status)
{
    return status == ZT_OK && list->count ? zt_gguf_put_strs(import->writer, "tokenizer.chat_templates", list->name, list->count)
                                          : status;
}

/* Of several in one file. */
static zt_status put_named(hf_import *import, const json_t *templates)
{
    template_variants list = {.count = 0};
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < json_array_size(templates); i++) {
        const json_t *entry = json_array_get(templates, i), *text = json_object_get(entry, "template");
        const char *name = json_string_value(json_object_get(entry, "name")), *key;
        if (!name || strcmp(name, "default") == 0 || !json_is_string(text)) continue;
        if ((key = add_variant(import, &list, name, strlen(name))) != NULL)
            status = zt_gguf_put_str(import->writer, key, json_string_value(text), json_string_length(text));
    }
    return put_variants(import, &list, status);
}

static int is_jinja(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 6 && strcmp(entry->d_name + length - 6, ".jinja") == 0;
}

/* additional_chat_templates/NAME.jinja, in the order of their names. *some: there are any. */
static zt_status put_additional(hf_import *import, bool *some)
{
    static const char folder[] = "additional_chat_templates";
    template_variants list = {.count = 0};
    struct dirent **files = NULL;
    zt_status status = ZT_OK;
    int count = zt_hf_has_file(import, folder) ? scandir(zt_hf_file(import, folder), &files, is_jinja, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        char path[sizeof folder + 256];
        const char *key = NULL;
        snprintf(path, sizeof path, "%s/%s", folder, files[i]->d_name);
        if (status == ZT_OK) key = add_variant(import, &list, files[i]->d_name, strlen(files[i]->d_name) - 6);
        if (key) status = put_whole_file(import, path, key);
        free(files[i]);
    }
    free(files);
    *some = count > 0;
    return put_variants(import, &list, status);
}

/* Files come before tokenizer_config.json, as in transformers. */
static zt_status put_template(hf_import *import, const json_t *tokenizer)
{
    static const char key[] = "tokenizer.chat_template";
    bool some = false;
    zt_status status = put_additional(import, &some);
    if (status != ZT_OK) return status;
    if (zt_hf_has_file(import, "chat_template.jinja")) return put_whole_file(import, "chat_template.jinja", key);
    const json_t *all = json_object_get(tokenizer, "chat_template"), *text = default_template(all);
    json_t *file = text ? NULL : zt_hf_load(import, "chat_template.json", &status);
    if (file) {
        all = json_object_get(file, "chat_template");
        text = default_template(all);
    }
    if (status == ZT_OK && !some) status = put_named(import, all);
    if (status == ZT_OK && json_is_string(text))
        status = zt_gguf_put_str(import->writer, key, json_string_value(text), json_string_length(text));
    json_decref(file);
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

zt_status zt_hf_put_tokenizer(hf_import *import)
{
    zt_status status = ZT_OK;
    json_t *tokenizer = zt_hf_load(import, "tokenizer_config.json", &status);
    json_t *generation = status == ZT_OK ? zt_hf_load(import, "generation_config.json", &status) : NULL;
    /* running asks GGUF's keys only where there is nothing else */
    const bool json = zt_hf_has_file(import, "tokenizer.json");
    const bool pieces = !json && (zt_hf_spm_name(import) || zt_hf_has_rwkv_vocabulary(import));
    if (status == ZT_OK && import->whole && import->known && !json && !pieces)
        zt_log(import->ctx, ZT_LOG_WARN, "%s: tokenizer.json and tokenizer.model are missing: the model has no vocabulary%s",
               import->path,
               zt_hf_has_file(import, "vocab.json") || zt_hf_has_file(import, "vocab.txt")
                   ? " (vocab.json, merges.txt and vocab.txt are not read)"
                   : "");
    if (status == ZT_OK)
        status = import->whole || pieces ? zt_hf_put_vocabulary(import) : put_specials(import, tokenizer, generation);
    if (status == ZT_OK) status = put_ends(import, generation);
    if (status == ZT_OK) status = put_template(import, tokenizer);
    if (status == ZT_OK && !import->keys_suffice) status = put_whole_file(import, "tokenizer.json", "tokenizer.huggingface.json");
    json_decref(generation);
    json_decref(tokenizer);
    return status;
}
