/* hf_token.c - owns what goes with the tokenizer: tokenizer.json itself (one key, as GGUF has it),
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

static zt_status put_whole_file(hf *m, const char *name, const char *key)
{
    size_t n;
    if (!zt_hf_has_file(m, name))
        return ZT_OK;
    const char *path = zt_hf_file(m, name);
    char *text = path ? zt_read_all(m->ctx, path, &n) : NULL;
    zt_status s = text ? ZT_OK : zt_ctx_status(m->ctx);
    if (s == ZT_OK)
        s = zt_foreign_fail(m->ctx, path, text, n);
    if (s == ZT_OK)
        s = zt_gguf_put_str(m->w, key, text, n);
    zt_free(m->ctx, text);
    return s;
}

/* ---- special tokens -------------------------------------------------------------------------- */

/* The text of a special token: a string, or an object that has it as "content". */
static const char *token_text(const json_t *tokenizer, const char *name)
{
    const json_t *v = json_object_get(tokenizer, name);
    return json_string_value(json_is_object(v) ? json_object_get(v, "content") : v);
}

/* The id of an added token by its text, -1: tokenizer_config.json does not say. */
static int64_t added_id(json_t *tokenizer, const char *text)
{
    json_t *added = json_object_get(tokenizer, "added_tokens_decoder"), *v;
    const char *key;
    int64_t id;
    json_object_foreach(added, key, v)
    {
        const char *content = json_string_value(json_object_get(v, "content"));
        if (content && strcmp(content, text) == 0 && zt_parse_i64(key, &id))
            return id;
    }
    return -1;
}

/* Ids of a number or a list of them: how many; -1: it is neither. Below 0 stands for none. */
static int read_ids(const json_t *v, int32_t ids[MAX_IDS])
{
    size_t n = json_is_array(v) ? json_array_size(v) : json_is_integer(v);
    int kept = 0;
    if (n > MAX_IDS || (!json_is_array(v) && !json_is_integer(v)))
        return -1;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_integer(one) || json_integer_value(one) > INT32_MAX)
            return -1;
        if (json_integer_value(one) >= 0)
            ids[kept++] = (int32_t)json_integer_value(one);
    }
    return kept;
}

typedef struct special {
    const char *token, *id, *key; /* of tokenizer_config.json, of config.json, of GGUF */
} special;

static const special specials[] = {
    {"bos_token", "bos_token_id", "tokenizer.ggml.bos_token_id"},
    {"eos_token", "eos_token_id", "tokenizer.ggml.eos_token_id"},
    {"unk_token", "unk_token_id", "tokenizer.ggml.unknown_token_id"},
    {"sep_token", "sep_token_id", "tokenizer.ggml.seperator_token_id"},
    {"pad_token", "pad_token_id", "tokenizer.ggml.padding_token_id"},
    {"mask_token", "mask_token_id", "tokenizer.ggml.mask_token_id"},
};

/* The tokenizer has the first word, then what generation goes by, then config.json. */
static zt_status put_special(hf *m, const special *sp, json_t *tokenizer, const json_t *generation)
{
    const char *text = token_text(tokenizer, sp->token);
    const json_t *v = json_object_get(generation, sp->id);
    int64_t id = text ? added_id(tokenizer, text) : -1;
    int32_t ids[MAX_IDS];
    if (!v || json_is_null(v))
        v = zt_hf_get(m, sp->id);
    if (v && !json_is_null(v)) {
        int n = read_ids(v, ids);
        if (n < 0)
            return zt_fail(m->ctx, ZT_EDATA,
                           "%sconfig.json or generation_config.json: '%s' is no token id",
                           m->folder.data, sp->id);
        if (id < 0 && n > 0)
            id = ids[0];
    }
    return id < 0 || id > INT32_MAX ? ZT_OK : zt_gguf_put_int(m->w, sp->key, ZT_GGUF_U32, id);
}

static zt_status put_switches(hf *m, const json_t *tokenizer)
{
    static const char *const names[][2] = {{"add_bos_token", "tokenizer.ggml.add_bos_token"},
                                           {"add_eos_token", "tokenizer.ggml.add_eos_token"}};
    zt_status s = ZT_OK;
    for (size_t i = 0; s == ZT_OK && i < sizeof names / sizeof *names; i++) {
        const json_t *v = json_object_get(tokenizer, names[i][0]);
        if (json_is_boolean(v))
            s = zt_gguf_put_int(m->w, names[i][1], ZT_GGUF_BOOL, json_is_true(v));
    }
    return s;
}

static zt_status put_specials(hf *m, json_t *tokenizer, const json_t *generation)
{
    zt_status s = ZT_OK;
    for (size_t i = 0; s == ZT_OK && i < sizeof specials / sizeof *specials; i++)
        s = put_special(m, &specials[i], tokenizer, generation);
    return s == ZT_OK ? put_switches(m, tokenizer) : s;
}

/* All tokens that end a generation: GGUF's own key has room for one only. Where that one is all, a
 * file needs no more. */
static zt_status put_ends(hf *m, const json_t *generation)
{
    const json_t *v = json_object_get(generation, "eos_token_id");
    int32_t ids[MAX_IDS];
    int n = read_ids(v && !json_is_null(v) ? v : zt_hf_get(m, "eos_token_id"), ids);
    bool more = n > 1 || (n == 1 && !(m->whole && ids[0] == m->eos));
    return more ? zt_gguf_put_array(m->w, "tokenizer.ggml.eos_token_ids", ZT_GGUF_I32, ids, n)
                 : ZT_OK;
}

/* ---- chat templates -------------------------------------------------------------------------- */

/* The template, or of several named ones "default"; NULL: there is none. */
static const json_t *default_template(const json_t *v)
{
    size_t i;
    json_t *one;
    if (json_is_string(v))
        return v;
    json_array_foreach(v, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && strcmp(name, "default") == 0)
            return json_object_get(one, "template");
    }
    return NULL;
}

enum { MOST_TEMPLATES = 32, TEMPLATE_KEY = sizeof "tokenizer.chat_template." - 1 };

typedef struct variants { /* beside the default: their keys, of which names are a part */
    char key[MOST_TEMPLATES][128];
    zt_bytes name[MOST_TEMPLATES];
    int n;
} variants;

/* The key of another one, by the letters and digits of its name; NULL: there is no room. */
static const char *add_variant(variants *v, const char *name, size_t n)
{
    if (v->n == MOST_TEMPLATES || n == 0 || n > 96)
        return NULL;
    char *key = v->key[v->n];
    snprintf(key, sizeof v->key[0], "tokenizer.chat_template.%.*s", (int)n, name);
    for (char *c = key + TEMPLATE_KEY; *c; c++)
        *c = (char)(isalnum((unsigned char)*c) ? *c : '_');
    v->name[v->n++] = (zt_bytes){key + TEMPLATE_KEY, strlen(key + TEMPLATE_KEY)};
    return key;
}

static zt_status put_variants(hf *m, const variants *v, zt_status s)
{
    return s == ZT_OK && v->n ? zt_gguf_put_strs(m->w, "tokenizer.chat_templates", v->name, v->n) : s;
}

/* Of several in one file. */
static zt_status put_named(hf *m, const json_t *list)
{
    variants v = {.n = 0};
    zt_status s = ZT_OK;
    for (size_t i = 0; s == ZT_OK && i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i), *t = json_object_get(one, "template");
        const char *name = json_string_value(json_object_get(one, "name")), *key;
        if (!name || strcmp(name, "default") == 0 || !json_is_string(t))
            continue;
        if ((key = add_variant(&v, name, strlen(name))) != NULL)
            s = zt_gguf_put_str(m->w, key, json_string_value(t), json_string_length(t));
    }
    return put_variants(m, &v, s);
}

static int is_jinja(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return n > 6 && strcmp(e->d_name + n - 6, ".jinja") == 0;
}

/* additional_chat_templates/NAME.jinja, in the order of their names. */
static zt_status put_additional(hf *m)
{
    static const char folder[] = "additional_chat_templates";
    variants v = {.n = 0};
    struct dirent **file = NULL;
    zt_status s = ZT_OK;
    int n = zt_hf_has_file(m, folder) ? scandir(zt_hf_file(m, folder), &file, is_jinja, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        char path[sizeof folder + 256];
        const char *key = NULL;
        snprintf(path, sizeof path, "%s/%s", folder, file[i]->d_name);
        if (s == ZT_OK)
            key = add_variant(&v, file[i]->d_name, strlen(file[i]->d_name) - 6);
        if (key)
            s = put_whole_file(m, path, key);
        free(file[i]);
    }
    free(file);
    return put_variants(m, &v, s);
}

static zt_status put_template(hf *m, const json_t *tokenizer)
{
    static const char key[] = "tokenizer.chat_template";
    zt_status s = ZT_OK;
    if (zt_hf_has_file(m, "chat_template.jinja")) {
        s = put_whole_file(m, "chat_template.jinja", key);
        return s == ZT_OK ? put_additional(m) : s;
    }
    const json_t *all = json_object_get(tokenizer, "chat_template"), *t = default_template(all);
    json_t *file = t ? NULL : zt_hf_load(m, "chat_template.json", &s);
    if (file) {
        all = json_object_get(file, "chat_template");
        t = default_template(all);
    }
    if (s == ZT_OK)
        s = put_named(m, all);
    if (s == ZT_OK && json_is_string(t))
        s = zt_gguf_put_str(m->w, key, json_string_value(t), json_string_length(t));
    json_decref(file);
    return s;
}

/* ---- all ------------------------------------------------------------------------------------- */

zt_status zt_hf_put_tokenizer(hf *m)
{
    zt_status s = ZT_OK;
    json_t *tokenizer = zt_hf_load(m, "tokenizer_config.json", &s);
    json_t *generation = s == ZT_OK ? zt_hf_load(m, "generation_config.json", &s) : NULL;
    /* running asks GGUF's keys only where there is nothing else */
    const bool json = zt_hf_has_file(m, "tokenizer.json"), pieces = !json && zt_hf_spm_name(m);
    if (s == ZT_OK && m->whole && m->known && !json && !pieces)
        zt_log(m->ctx, ZT_LOG_WARN,
               "%s: neither tokenizer.json nor tokenizer.model is there: the model has no vocabulary%s",
               m->path,
               zt_hf_has_file(m, "vocab.json") || zt_hf_has_file(m, "vocab.txt")
                   ? " (vocab.json, merges.txt and vocab.txt are not read)" : "");
    if (s == ZT_OK)
        s = m->whole || pieces ? zt_hf_put_vocab(m) : put_specials(m, tokenizer, generation);
    if (s == ZT_OK)
        s = put_ends(m, generation);
    if (s == ZT_OK)
        s = put_template(m, tokenizer);
    if (s == ZT_OK && !m->keys_suffice)
        s = put_whole_file(m, "tokenizer.json", "tokenizer.huggingface.json");
    json_decref(generation);
    json_decref(tokenizer);
    return s;
}
