/* hf_back_token.c - owns what goes with a tokenizer as it is written: tokenizer_config.json with
 * special tokens and templates, generation_config.json, and tokenizer.json where the file holds it.
 */
#include "lib/llm/hf/hf_back.h"

#include <stdio.h>
#include <string.h>

enum { MAX_IDS = 256 };

/* ---- special tokens -------------------------------------------------------------------------- */

/* The text of a token; of a WordPiece's that is a word, as GGUF has it. */
static zt_bytes text_of(const hf_back *b, int64_t id)
{
    int64_t n;
    zt_gguf_kind elem;
    bool there = zt_gguf_array(b->g, "tokenizer.ggml.tokens", &elem, &n) && id >= 0 && id < n;
    return there ? zt_gguf_array_str(b->g, "tokenizer.ggml.tokens", id) : (zt_bytes){NULL, 0};
}

/* config.json has the ids, tokenizer_config.json the texts. No padding is said too: some
 * configurations have their own else, beyond a small vocabulary. */
static zt_status put_specials(hf_back *b, json_t *tokenizer)
{
    size_t n;
    const hf_special *sp = zt_hf_specials(&n);
    zt_status s = ZT_OK;
    for (size_t i = 0; s == ZT_OK && i < n; i++) {
        char key[64], name[32];
        int64_t id;
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", sp[i].key ? sp[i].key : "");
        snprintf(name, sizeof name, "%s_token_id", sp[i].name);
        if (!sp[i].key || !zt_gguf_i64(b->g, key, &id)) {
            if (strcmp(sp[i].name, "pad") == 0)
                s = zt_back_set(b, b->config, name, json_null());
            continue;
        }
        s = zt_back_set(b, b->config, name, json_integer(id));
        snprintf(name, sizeof name, "%s_token", sp[i].name);
        zt_bytes text = text_of(b, id);
        if (s == ZT_OK && text.data)
            s = zt_back_text(b, tokenizer, name, text);
    }
    return s;
}

/* What goes around a BERT's text is tokenizer.json's alone. */
static zt_status put_flags(hf_back *b, json_t *tokenizer)
{
    static const char *const flags[][2] = {
        {"tokenizer.ggml.add_bos_token", "add_bos_token"},
        {"tokenizer.ggml.add_eos_token", "add_eos_token"},
        {"tokenizer.ggml.add_space_prefix", "add_prefix_space"},
        {ZT_SP_LEGACY, "legacy"},
        {"tokenizer.ggml.remove_extra_whitespaces", "clean_up_tokenization_spaces"},
    };
    zt_status s = ZT_OK;
    for (size_t i = 0; s == ZT_OK && i < sizeof flags / sizeof *flags; i++) {
        int64_t v;
        if (zt_gguf_i64(b->g, flags[i][0], &v) && !(i < 2 && b->arch->id == HF_BERT))
            s = zt_back_set(b, tokenizer, flags[i][1], json_boolean(v != 0));
    }
    return s;
}

/* ---- templates ------------------------------------------------------------------------------- */

static json_t *named(const char *name, size_t n, zt_bytes text)
{
    return json_pack("{ss%ss%}", "name", name, n, "template", text.data, text.n);
}

/* One is a text; several are a list, the unnamed one "default". */
static zt_status put_templates(hf_back *b, json_t *tokenizer)
{
    zt_bytes one;
    int64_t n = 0;
    zt_gguf_kind elem;
    bool plain = zt_gguf_str(b->g, "tokenizer.chat_template", &one);
    if (!zt_gguf_array(b->g, "tokenizer.chat_templates", &elem, &n) || elem != ZT_GGUF_STR ||
        n > 64)
        return plain ? zt_back_text(b, tokenizer, "chat_template", one) : ZT_OK;
    json_t *list = json_array();
    if (list && plain)
        json_array_append_new(list, named("default", 7, one));
    for (int64_t i = 0; list && i < n; i++) {
        char key[160];
        zt_bytes name = zt_gguf_array_str(b->g, "tokenizer.chat_templates", i);
        snprintf(key, sizeof key, "tokenizer.chat_template.%.*s", (int)name.n, name.data);
        if (name.n < 100 && zt_gguf_str(b->g, key, &one))
            json_array_append_new(list, named(name.data, name.n, one));
    }
    return zt_back_set(b, tokenizer, "chat_template", list);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Tokens that SentencePiece's own file does not know as they are: ggml's converter finds them here.
 */
static zt_status put_decoder(hf_back *b, json_t *tokenizer)
{
    int64_t n;
    zt_gguf_kind elem;
    zt_bytes model;
    bool named = zt_gguf_str(b->g, "tokenizer.ggml.model", &model);
    bool llama = named && model.n == 5 && memcmp(model.data, "llama", 5) == 0;
    if ((!llama && !zt_sp_of(b->g).n) ||
        !zt_gguf_array(b->g, "tokenizer.ggml.tokens", &elem, &n) || n < 1)
        return ZT_OK;
    double *score = zt_calloc(b->ctx, (size_t)n, sizeof *score);
    int64_t *type = zt_calloc(b->ctx, (size_t)n, sizeof *type);
    zt_bytes *text = zt_calloc(b->ctx, (size_t)n, sizeof *text);
    json_t *all = json_object();
    zt_status s = score && type && text && all ? ZT_OK : ZT_ENOMEM;
    bool there = s == ZT_OK && zt_gguf_array_f64(b->g, "tokenizer.ggml.scores", score, n) &&
                 zt_gguf_array_i64(b->g, "tokenizer.ggml.token_type", type, n) &&
                 zt_gguf_array_strs(b->g, "tokenizer.ggml.tokens", text, n);
    for (int64_t i = 0; s == ZT_OK && there && i < n; i++) {
        char id[24];
        bool control = type[i] == HF_WORD_CONTROL;
        if (score[i] != -1000 || (!control && type[i] != HF_WORD_USER))
            continue;
        snprintf(id, sizeof id, "%lld", (long long)i);
        json_t *one = json_pack("{sbsbsbsbsb}", "lstrip", 0, "normalized", 0, "rstrip", 0,
                                "single_word", 0, "special", control);
        s = one ? zt_back_text(b, one, "content", text[i]) : ZT_ENOMEM;
        if (s == ZT_OK)
            s = zt_back_set(b, all, id, json_incref(one));
        json_decref(one);
    }
    if (s == ZT_OK && there && json_object_size(all))
        s = zt_back_set(b, tokenizer, "added_tokens_decoder", json_incref(all));
    json_decref(all);
    zt_free(b->ctx, text);
    zt_free(b->ctx, type);
    zt_free(b->ctx, score);
    return s;
}

static zt_status write_config(hf_back *b)
{
    zt_bytes json;
    bool pieces = zt_sp_of(b->g).n && !zt_gguf_str(b->g, "tokenizer.huggingface.json", &json);
    json_t *tokenizer = json_pack("{ss}", "tokenizer_class",
                                  pieces ? "LlamaTokenizer" : "PreTrainedTokenizerFast");
    zt_status s = tokenizer ? put_specials(b, tokenizer) : ZT_ENOMEM;
    if (s == ZT_OK)
        s = put_flags(b, tokenizer);
    if (s == ZT_OK)
        s = put_templates(b, tokenizer);
    if (s == ZT_OK)
        s = put_decoder(b, tokenizer);
    if (s == ZT_OK)
        s = zt_back_json(b, "tokenizer_config.json", tokenizer);
    json_decref(tokenizer);
    return s;
}

/* What ends a text, and how its makers want it sampled. */
static zt_status write_generation(hf_back *b)
{
    size_t n;
    const hf_sampling *rows = zt_hf_samplings(&n);
    int64_t id, ends, ids[MAX_IDS];
    zt_gguf_kind elem;
    json_t *j = json_object();
    zt_status s = j ? ZT_OK : ZT_ENOMEM;
    if (s == ZT_OK && zt_gguf_i64(b->g, "tokenizer.ggml.bos_token_id", &id))
        s = zt_back_set(b, j, "bos_token_id", json_integer(id));
    if (s == ZT_OK && zt_gguf_array(b->g, "tokenizer.ggml.eos_token_ids", &elem, &ends) &&
        ends <= MAX_IDS && zt_gguf_array_i64(b->g, "tokenizer.ggml.eos_token_ids", ids, ends)) {
        json_t *list = json_array();
        for (int64_t i = 0; list && i < ends; i++)
            json_array_append_new(list, json_integer(ids[i]));
        s = zt_back_set(b, j, "eos_token_id", list);
    } else if (s == ZT_OK && zt_gguf_i64(b->g, "tokenizer.ggml.eos_token_id", &id)) {
        s = zt_back_set(b, j, "eos_token_id", json_integer(id));
    }
    for (size_t i = 0; s == ZT_OK && i < n; i++) {
        char key[64];
        double v;
        snprintf(key, sizeof key, "general.sampling.%s", rows[i].key);
        if (zt_gguf_f64(b->g, key, &v))
            s = zt_back_set(b, j, rows[i].name,
                            rows[i].kind == ZT_GGUF_I32 ? json_integer((json_int_t)v)
                                                        : zt_back_number(v));
    }
    if (s == ZT_OK && json_object_size(j) && !b->h.arch->encoder)
        s = zt_back_json(b, "generation_config.json", j);
    json_decref(j);
    return s;
}

zt_status zt_back_tokenizer(hf_back *b)
{
    zt_bytes json, model;
    bool whole = zt_gguf_str(b->g, "tokenizer.huggingface.json", &json);
    bool words = zt_gguf_str(b->g, "tokenizer.ggml.model", &model);
    if (!whole && !words)
        return ZT_OK;
    zt_status s = words ? zt_back_words(b) : ZT_OK;
    if (s == ZT_OK && whole)
        s = zt_back_write(b, "tokenizer.json", json.data, json.n);
    if (s == ZT_OK)
        s = write_config(b);
    return s == ZT_OK ? write_generation(b) : s;
}
