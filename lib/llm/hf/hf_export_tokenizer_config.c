/* hf_export_tokenizer_config.c - writes what goes with a tokenizer: tokenizer_config.json with
 * special tokens and templates, generation_config.json, and tokenizer.json where the file holds it.
 */
#include "lib/llm/hf/hf_export.h"

#include <stdio.h>
#include <string.h>

enum { MAX_IDS = 256 };

/* ---- special tokens -------------------------------------------------------------------------- */

/* The text of a token; of a WordPiece's that is a word, as GGUF has it. */
static zt_bytes token_text(const hf_export *export, int64_t id)
{
    int64_t count;
    zt_gguf_kind element_kind;
    bool there = zt_gguf_array(export->gguf, "tokenizer.ggml.tokens", &element_kind, &count) && id >= 0 && id < count;
    return there ? zt_gguf_array_str(export->gguf, "tokenizer.ggml.tokens", id) : (zt_bytes){NULL, 0};
}

/* config.json has the ids, tokenizer_config.json the texts. No padding is said too: some
 * configurations have their own else, beyond a small vocabulary. */
static zt_status put_specials(hf_export *export, json_t *tokenizer)
{
    size_t count;
    const hf_special *rows = zt_hf_specials(&count);
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < count; i++) {
        char key[64], name[32];
        int64_t id;
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", rows[i].key ? rows[i].key : "");
        snprintf(name, sizeof name, "%s_token_id", rows[i].name);
        if (!rows[i].key || !zt_gguf_i64(export->gguf, key, &id)) {
            if (strcmp(rows[i].name, "pad") == 0) status = zt_export_set(export, export->config, name, json_null());
            continue;
        }
        status = zt_export_set(export, export->config, name, json_integer(id));
        snprintf(name, sizeof name, "%s_token", rows[i].name);
        zt_bytes text = token_text(export, id);
        if (status == ZT_OK && text.data) status = zt_export_text(export, tokenizer, name, text);
    }
    return status;
}

/* What goes around a BERT's text is tokenizer.json's alone. */
static zt_status put_flags(hf_export *export, json_t *tokenizer)
{
    static const char *const flags[][2] = {
        {"tokenizer.ggml.add_bos_token", "add_bos_token"},
        {"tokenizer.ggml.add_eos_token", "add_eos_token"},
        {"tokenizer.ggml.add_space_prefix", "add_prefix_space"},
        {ZT_SP_LEGACY, "legacy"},
        {"tokenizer.ggml.remove_extra_whitespaces", "clean_up_tokenization_spaces"},
    };
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < sizeof flags / sizeof *flags; i++) {
        int64_t value;
        if (zt_gguf_i64(export->gguf, flags[i][0], &value) && !(i < 2 && export->arch->id == HF_BERT))
            status = zt_export_set(export, tokenizer, flags[i][1], json_boolean(value != 0));
    }
    return status;
}

/* ---- templates ------------------------------------------------------------------------------- */

static json_t *make_template(const char *name, size_t length, zt_bytes text)
{
    return json_pack("{ss%ss%}", "name", name, length, "template", text.data, text.n);
}

/* One is a text; several are a list, the unnamed one "default". */
static zt_status put_templates(hf_export *export, json_t *tokenizer)
{
    zt_bytes text, name;
    bool plain = zt_chat_template(export->gguf, NULL, &text);
    if (!zt_chat_template_variant(export->gguf, 0, &name))
        return plain ? zt_export_text(export, tokenizer, "chat_template", text) : ZT_OK;
    json_t *list = json_array();
    if (list && plain) json_array_append_new(list, make_template("default", 7, text));
    for (int i = 0; list && zt_chat_template_variant(export->gguf, i, &name); i++) {
        char variant[160];
        snprintf(variant, sizeof variant, "%.*s", (int)(name.n < sizeof variant ? name.n : 0), name.data);
        if (zt_chat_template(export->gguf, variant, &text)) json_array_append_new(list, make_template(name.data, name.n, text));
    }
    return zt_export_set(export, tokenizer, "chat_template", list);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Tokens that SentencePiece's own file does not know as they are: ggml's converter finds them here.
 */
static zt_status put_decoder(hf_export *export, json_t *tokenizer)
{
    int64_t count;
    zt_gguf_kind element_kind;
    zt_bytes model;
    bool named = zt_gguf_str(export->gguf, "tokenizer.ggml.model", &model);
    bool llama = named && model.n == 5 && memcmp(model.data, "llama", 5) == 0;
    if ((!llama && !zt_sp_of(export->gguf).n) || !zt_gguf_array(export->gguf, "tokenizer.ggml.tokens", &element_kind, &count) ||
        count < 1)
        return ZT_OK;
    double *score = zt_calloc(export->ctx, (size_t)count, sizeof *score);
    int64_t *type = zt_calloc(export->ctx, (size_t)count, sizeof *type);
    zt_bytes *text = zt_calloc(export->ctx, (size_t)count, sizeof *text);
    json_t *decoder = json_object();
    zt_status status = score && type && text && decoder ? ZT_OK : ZT_ENOMEM;
    bool there = status == ZT_OK && zt_gguf_array_f64(export->gguf, "tokenizer.ggml.scores", score, count) &&
                 zt_gguf_array_i64(export->gguf, "tokenizer.ggml.token_type", type, count) &&
                 zt_gguf_array_strs(export->gguf, "tokenizer.ggml.tokens", text, count);
    for (int64_t i = 0; status == ZT_OK && there && i < count; i++) {
        char id[24];
        bool control = type[i] == HF_TOKEN_CONTROL;
        if (score[i] != -1000 || (!control && type[i] != HF_TOKEN_USER)) continue;
        snprintf(id, sizeof id, "%lld", (long long)i);
        json_t *entry =
            json_pack("{sbsbsbsbsb}", "lstrip", 0, "normalized", 0, "rstrip", 0, "single_word", 0, "special", control);
        status = entry ? zt_export_text(export, entry, "content", text[i]) : ZT_ENOMEM;
        if (status == ZT_OK) status = zt_export_set(export, decoder, id, json_incref(entry));
        json_decref(entry);
    }
    if (status == ZT_OK && there && json_object_size(decoder))
        status = zt_export_set(export, tokenizer, "added_tokens_decoder", json_incref(decoder));
    json_decref(decoder);
    zt_free(export->ctx, text);
    zt_free(export->ctx, type);
    zt_free(export->ctx, score);
    return status;
}

static zt_status write_config(hf_export *export)
{
    zt_bytes json;
    bool pieces = zt_sp_of(export->gguf).n && !zt_gguf_str(export->gguf, "tokenizer.huggingface.json", &json);
    json_t *tokenizer = json_pack("{ss}", "tokenizer_class", pieces ? "LlamaTokenizer" : "PreTrainedTokenizerFast");
    zt_status status = tokenizer ? put_specials(export, tokenizer) : ZT_ENOMEM;
    if (status == ZT_OK) status = put_flags(export, tokenizer);
    if (status == ZT_OK) status = put_templates(export, tokenizer);
    if (status == ZT_OK) status = put_decoder(export, tokenizer);
    if (status == ZT_OK) status = zt_export_json(export, "tokenizer_config.json", tokenizer);
    json_decref(tokenizer);
    return status;
}

/* What ends a text, and how its makers want it sampled. */
static zt_status write_generation(hf_export *export)
{
    size_t count;
    const hf_sampling *rows = zt_hf_samplings(&count);
    int64_t id, ends, ids[MAX_IDS];
    zt_gguf_kind element_kind;
    json_t *generation = json_object();
    zt_status status = generation ? ZT_OK : ZT_ENOMEM;
    if (status == ZT_OK && zt_gguf_i64(export->gguf, "tokenizer.ggml.bos_token_id", &id))
        status = zt_export_set(export, generation, "bos_token_id", json_integer(id));
    if (status == ZT_OK && zt_gguf_array(export->gguf, "tokenizer.ggml.eos_token_ids", &element_kind, &ends) && ends <= MAX_IDS &&
        zt_gguf_array_i64(export->gguf, "tokenizer.ggml.eos_token_ids", ids, ends)) {
        json_t *list = json_array();
        for (int64_t i = 0; list && i < ends; i++) json_array_append_new(list, json_integer(ids[i]));
        status = zt_export_set(export, generation, "eos_token_id", list);
    } else if (status == ZT_OK && zt_gguf_i64(export->gguf, "tokenizer.ggml.eos_token_id", &id)) {
        status = zt_export_set(export, generation, "eos_token_id", json_integer(id));
    }
    for (size_t i = 0; status == ZT_OK && i < count; i++) {
        char key[64];
        double value;
        snprintf(key, sizeof key, "general.sampling.%s", rows[i].key);
        if (zt_gguf_f64(export->gguf, key, &value))
            status = zt_export_set(export, generation, rows[i].name,
                                   rows[i].kind == ZT_GGUF_I32 ? json_integer((json_int_t)value) : zt_export_number(value));
    }
    if (status == ZT_OK && json_object_size(generation) && !export->hyper.arch->encoder)
        status = zt_export_json(export, "generation_config.json", generation);
    json_decref(generation);
    return status;
}

zt_status zt_export_tokenizer(hf_export *export)
{
    zt_bytes json, model;
    bool whole = zt_gguf_str(export->gguf, "tokenizer.huggingface.json", &json);
    bool words = zt_gguf_str(export->gguf, "tokenizer.ggml.model", &model);
    if (!whole && !words) return ZT_OK;
    zt_status status = words ? zt_export_tokens(export) : ZT_OK;
    if (status == ZT_OK && whole) status = zt_export_file(export, "tokenizer.json", json.data, json.n);
    if (status == ZT_OK) status = write_config(export);
    return status == ZT_OK ? write_generation(export) : status;
}
