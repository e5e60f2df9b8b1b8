/* hf_vocab.c - a tokenizer in GGUF's terms, the keys tokenizer.ggml.*: from tokenizer.model or tokenizer.json,
 * as llama.cpp's converter makes them.
 *
 * Which way a tokenizer goes is a row of `ways`; what GGUF has no terms for (a pre-tokenizer
 * without a name) goes in tokenizer.huggingface.json alone, and that goes along wherever these keys
 * say less. Facts: set_vocab and what it calls in llama.cpp's conversion/ (base.py, llama.py,
 * gemma.py, phi.py, bert.py), LlamaHfVocab of gguf-py/gguf/vocab.py.
 */
#include "lib/base/foreign.h"
#include "lib/llm/hf/hf.h"
#include "lib/llm/vocab/vocab_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- a list of tokens: texts, types, scores ------------------------------------------------- */

/* Which texts look special: does_token_look_special of llama.cpp's conversion/base.py, as facts. */
#define UNDERLINE "\xe2\x96\x81" /* U+2581, SentencePiece's space */
#define BAR       "\xef\xbd\x9c" /* U+FF5C, DeepSeek's bar */

static zt_status pad_token(hf_tokens *tokens, int64_t id)
{
    char text[40];
    int length = snprintf(text, sizeof text, "[PAD%" PRId64 "]", id);
    return zt_hf_tokens_set(tokens, id, (zt_bytes){text, (size_t)length}, HF_TOKEN_UNUSED, -10000);
}

zt_status zt_hf_tokens_init(hf_tokens *tokens, hf_import *import, int64_t count)
{
    zt_ctx *ctx = import->ctx;
    *tokens = (hf_tokens){.import = import, .count = count, .texts = zt_arena_new(ctx, 0)};
    tokens->text = zt_alloc_array(ctx, (size_t)count, sizeof *tokens->text);
    tokens->type = zt_alloc_array(ctx, (size_t)count, sizeof *tokens->type);
    tokens->score = zt_alloc_array(ctx, (size_t)count, sizeof *tokens->score);
    zt_status status = tokens->texts && tokens->text && tokens->type && tokens->score ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; status == ZT_OK && i < count; i++) status = pad_token(tokens, i);
    return status;
}

void zt_hf_tokens_fini(hf_tokens *tokens)
{
    zt_ctx *ctx = tokens->import->ctx;
    zt_free(ctx, tokens->text);
    zt_free(ctx, tokens->type);
    zt_free(ctx, tokens->score);
    zt_arena_free(tokens->texts);
}

zt_status zt_hf_tokens_set(hf_tokens *tokens, int64_t id, zt_bytes text, hf_token_type type, float score)
{
    if (id < 0 || id >= tokens->count) return ZT_OK;
    char *copy = zt_arena_strndup(tokens->texts, text.data, text.n);
    if (!copy) return ZT_ENOMEM;
    tokens->text[id] = (zt_bytes){copy, text.n};
    tokens->type[id] = (int32_t)type;
    tokens->score[id] = score;
    return ZT_OK;
}

/* ---- tokens: added ones ---------------------------------------------------------------------------- */

static bool is_enclosed(zt_bytes text, const char *first, const char *last)
{
    size_t first_length = strlen(first), last_length = strlen(last);
    return text.n >= first_length && text.n >= last_length && memcmp(text.data, first, first_length) == 0 &&
           memcmp(text.data + text.n - last_length, last, last_length) == 0;
}

bool zt_hf_looks_special(zt_bytes text)
{
    static const char *const words[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == text.n && memcmp(words[i], text.data, text.n) == 0) return true;
    return is_enclosed(text, "<|", "|>") || is_enclosed(text, "<" BAR, BAR ">") || is_enclosed(text, "<unused", ">");
}

zt_status zt_hf_tokens_add(hf_tokens *tokens, int64_t id, zt_bytes text, bool special, float score)
{
    zt_str plain;
    if (special || zt_hf_looks_special(text)) return zt_hf_tokens_set(tokens, id, text, HF_TOKEN_CONTROL, score);
    zt_str_init(&plain, tokens->import->ctx);
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < text.n;) {
        bool space = text.n - i >= 3 && memcmp(text.data + i, UNDERLINE, 3) == 0;
        status = zt_str_putc(&plain, space ? ' ' : text.data[i]);
        i += space ? 3 : 1;
    }
    if (status == ZT_OK)
        status = zt_hf_tokens_set(tokens, id, (zt_bytes){plain.data ? plain.data : "", plain.len}, HF_TOKEN_USER, score);
    zt_str_fini(&plain);
    return status;
}

/* ---- tokens: keys ------------------------------------------------------------------------------------ */

zt_status zt_hf_tokens_put(hf_tokens *tokens, const char *model, const char *pre, bool scores)
{
    zt_gguf_writer *writer = tokens->import->writer;
    zt_gguf_put_str(writer, "tokenizer.ggml.model", model, strlen(model));
    if (pre) zt_gguf_put_str(writer, "tokenizer.ggml.pre", pre, strlen(pre));
    zt_gguf_put_strs(writer, "tokenizer.ggml.tokens", tokens->text, tokens->count);
    if (scores) zt_gguf_put_array(writer, "tokenizer.ggml.scores", ZT_GGUF_F32, tokens->score, tokens->count);
    return zt_gguf_put_array(writer, "tokenizer.ggml.token_type", ZT_GGUF_I32, tokens->type, tokens->count);
}

#define LLAMA_CLASS HF_PAIRED /* what the converter's class for llama makes */
/* Whose tokenizer.model counts before tokenizer.json. */
#define WITH_PIECES                                                                                                              \
    (HF_LLAMA_LIKE &                                                                                                             \
     ~(HF_SET(HF_OLMO2) | HF_SET(HF_OLMOE) | HF_SET(HF_QWEN2MOE) | HF_SET(HF_QWEN3MOE) | HF_SET(HF_GLM4MOE) | HF_SPLIT_B |       \
       HF_SET(HF_COHERE) | HF_SET(HF_COHERE2) | HF_SET(HF_STABLELM) | HF_SET(HF_STARCODER2) | HF_SET(HF_PHI2) |                  \
       HF_SET(HF_EXAONE4) | HF_SET(HF_GLM4) | HF_SET(HF_SEED_OSS) | HF_SET(HF_HUNYUAN) | HF_SET(HF_OLMO3) | HF_SET(HF_GPT_OSS) | \
       HF_DELTAS | HF_SET(HF_GEMMA4) | HF_LFM2S | HF_SET(HF_FALCON_H1) | HF_NEMOTRONS))

typedef struct source_tokenizer { /* tokenizer.json, read in two ways */
    hf_import *import;
    zt_vocab *vocab;
    const zt_tj *parsed; /* borrowed from vocab */
    json_t *root;
    void *held;
    zt_arena *texts;
    json_t *config; /* tokenizer_config.json, or NULL */
} source_tokenizer;

static bool bytes_equal(zt_bytes left, zt_bytes right) { return left.n == right.n && memcmp(left.data, right.data, left.n) == 0; }

/* ---- how many -------------------------------------------------------------------------------- */

zt_status zt_hf_count_rows(hf_import *import, int64_t there, int64_t *rows)
{
    zt_status status = ZT_OK;
    *rows = 0;
    for (int64_t i = 0; i < import->tensors->count; i++)
        if (strcmp(import->tensors->list[i].name, "token_embd.weight") == 0) *rows = import->tensors->list[i].type.dim[0];
    import->embedded = *rows > 0;
    if (!import->embedded) status = zt_hf_int(import, "vocab_size", rows);
    /* no more than an honest file would make room for */
    if (status == ZT_OK && (*rows < 1 || *rows > there + (1 << 20))) *rows = there;
    return status;
}

/* ---- special tokens by text ------------------------------------------------------------------ */

static bool text_is(const json_t *value, zt_bytes text)
{
    value = json_is_object(value) ? json_object_get(value, "content") : value;
    return json_is_string(value) && bytes_equal((zt_bytes){json_string_value(value), json_string_length(value)}, text);
}

/* Does tokenizer_config.json name this one, as bos_token and the like? */
static bool is_named(const source_tokenizer *source, zt_bytes text)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (text_is(json_object_get(source->config, names[i]), text)) return true;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const json_t *list = json_object_get(source->config, lists[i]);
        for (size_t entry = 0; entry < json_array_size(list); entry++)
            if (text_is(json_array_get(list, entry), text)) return true;
    }
    return false;
}

/* ---- the ways -------------------------------------------------------------------------------- */

static zt_status set_added(const source_tokenizer *source, hf_tokens *tokens)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < source->parsed->added.count; i++) {
        const zt_added *added = &source->parsed->added.token[i];
        status = zt_hf_tokens_add(tokens, added->id, added->content, added->special, 0);
    }
    return status;
}

static zt_status set_model(const source_tokenizer *source, hf_tokens *tokens)
{
    zt_status status = ZT_OK;
    for (int32_t i = 0; status == ZT_OK && i < source->parsed->token_count; i++)
        if (source->parsed->text[i].data) status = zt_hf_tokens_set(tokens, i, source->parsed->text[i], HF_TOKEN_NORMAL, 0);
    return status == ZT_OK ? set_added(source, tokens) : status;
}

/* A merge is "left right", or since 2024 a pair, whose own spaces are then written as byte-level
 * BPE prints them. */
static zt_status put_merge(zt_str *out, const json_t *merge)
{
    zt_status status = ZT_OK;
    if (json_is_string(merge)) return zt_str_put(out, json_string_value(merge), json_string_length(merge));
    for (size_t part = 0; part < 2; part++) {
        const json_t *half = json_array_get(merge, part);
        const char *text = json_string_value(half);
        if (part && status == ZT_OK) status = zt_str_putc(out, ' ');
        for (size_t i = 0; status == ZT_OK && i < json_string_length(half); i++)
            status = text[i] == ' ' ? zt_str_puts(out, "\xc4\xa0") : zt_str_putc(out, text[i]);
    }
    return status;
}

static zt_status put_merges(const source_tokenizer *source)
{
    zt_ctx *ctx = source->import->ctx;
    const json_t *merges = json_object_get(json_object_get(source->root, "model"), "merges");
    size_t count = json_array_size(merges);
    zt_str all;
    zt_bytes *lines = zt_alloc_array(ctx, count, sizeof *lines); /* none is an empty list, not no list */
    zt_status status = lines ? ZT_OK : ZT_ENOMEM;
    zt_str_init(&all, ctx);
    for (size_t i = 0; status == ZT_OK && i < count; i++) {
        size_t from = all.len;
        status = put_merge(&all, json_array_get(merges, i));
        lines[i].n = all.len - from;
    }
    for (size_t i = 0, offset = 0; status == ZT_OK && i < count; offset += lines[i++].n) lines[i].data = all.data + offset;
    if (status == ZT_OK) status = zt_gguf_put_strs(source->import->writer, "tokenizer.ggml.merges", lines, (int64_t)count);
    zt_str_fini(&all);
    zt_free(ctx, lines);
    return status;
}

/* ---- what keys cannot say -------------------------------------------------------------------- */

/* Is what goes around a text on one side BOS (or EOS) alone, or nothing, as the keys have it? */
static bool side_same(const zt_ids *ids, int64_t id, int add, bool usual)
{
    bool on = add < 0 ? usual : add == 1;
    return on && id >= 0 ? ids->count == 1 && ids->id[0] == id : ids->count == 0;
}

/* Added tokens of which GGUF says all: text, and special or not. */
static bool added_plain(const zt_tj *parsed)
{
    static const char space[] = "\xe2\x96\x81";
    for (size_t i = 0; i < parsed->added.count; i++) {
        const zt_added *added = &parsed->added.token[i];
        if (added->single_word || added->lstrip || added->rstrip) return false;
        if (!added->special &&
            (zt_hf_looks_special(added->content) || memmem(added->content.data, added->content.n, space, sizeof space - 1)))
            return false;
    }
    return true;
}

/* Byte-level BPE without normalizers, of patterns that have a name: its keys make the same ids, and
 * tokenizer.json again (hf_export_tokenizer.c). */
static bool keys_suffice(const source_tokenizer *source, const char *pre)
{
    const zt_tj *parsed = source->parsed;
    const zt_pre *known = zt_pre_find((zt_bytes){pre, strlen(pre)});
    const json_t *decoder = json_object_get(source->root, "decoder");
    const char *type = json_string_value(json_object_get(decoder, "type"));
    bool model =
        parsed->unk < 0 && !parsed->unk_missing && !parsed->byte_fallback && parsed->prefix.n == 0 && parsed->suffix.n == 0;
    return model && parsed->norm.count == 0 && type && strcmp(type, "ByteLevel") == 0 && added_plain(parsed) &&
           zt_hf_pre_same(source->root, pre) &&
           side_same(&parsed->before, source->import->bos, source->import->add_bos, known->add_bos || known->force_bos) &&
           side_same(&parsed->after, source->import->eos, source->import->add_eos, false);
}

/* BPE of printable bytes. Without a name for its pre-tokenizer nothing is put. */
static zt_status put_gpt2(const source_tokenizer *source, hf_tokens *tokens)
{
    const char *pre;
    zt_status status = zt_hf_pre_name(source->import, source->vocab, source->root, &pre);
    if (status == ZT_OK && !pre) {
        zt_log(
            source->import->ctx, ZT_LOG_WARN,
            "%s: the pre-tokenizer has no GGUF name: the whole tokenizer.json is stored as tokenizer.huggingface.json, which llama.cpp does not read",
            source->import->path);
        return ZT_OK;
    }
    if (status == ZT_OK) status = set_model(source, tokens);
    if (status == ZT_OK) status = zt_hf_tokens_put(tokens, "gpt2", pre, false);
    if (status == ZT_OK) status = put_merges(source);
    if (status == ZT_OK) status = zt_hf_put_special(source->import, source->root, -1);
    source->import->keys_suffice = status == ZT_OK && keys_suffice(source, pre);
    return status;
}

/* "##x" continues a word, all other tokens begin one: GGUF marks the latter. */
static zt_status mark_openers(hf_tokens *tokens)
{
    zt_str text;
    zt_status status = ZT_OK;
    zt_str_init(&text, tokens->import->ctx);
    for (int64_t i = 0; status == ZT_OK && i < tokens->count; i++) {
        zt_bytes token = tokens->text[i];
        if (tokens->type[i] == HF_TOKEN_CONTROL) continue;
        zt_str_clear(&text);
        if (token.n >= 2 && memcmp(token.data, "##", 2) == 0)
            token = (zt_bytes){token.data + 2, token.n - 2};
        else
            status = zt_str_puts(&text, "\xe2\x96\x81");
        if (status == ZT_OK) status = zt_str_put(&text, token.data, token.n);
        if (status == ZT_OK)
            status =
                zt_hf_tokens_set(tokens, i, (zt_bytes){text.data ? text.data : "", text.len}, (hf_token_type)tokens->type[i], 0);
    }
    zt_str_fini(&text);
    return status;
}

static zt_status put_bert(const source_tokenizer *source, hf_tokens *tokens)
{
    const char *pre;
    zt_status status = zt_hf_pre_name(source->import, source->vocab, source->root, &pre);
    if (status == ZT_OK) status = set_model(source, tokens);
    if (status == ZT_OK) status = mark_openers(tokens);
    if (status == ZT_OK) status = zt_hf_tokens_put(tokens, "bert", pre ? pre : "default", false);
    return status == ZT_OK ? zt_hf_put_special(source->import, source->root, tokens->count) : status;
}

static bool is_byte(zt_bytes text)
{
    return text.n == 6 && memcmp(text.data, "<0x", 3) == 0 && text.data[5] == '>' &&
           strspn(text.data + 3, "0123456789ABCDEFabcdef") == 2;
}

/* SentencePiece's BPE without tokenizer.model: tokenizer.json has no scores, and the converter
 * gives all tokens one. */
static zt_status set_pieces(const source_tokenizer *source, hf_tokens *tokens)
{
    const zt_tj *parsed = source->parsed;
    zt_status status = ZT_OK;
    for (int32_t i = 0; status == ZT_OK && i < parsed->token_count; i++) {
        if (!parsed->text[i].data) continue;
        hf_token_type type = is_byte(parsed->text[i])            ? HF_TOKEN_BYTE
                             : is_named(source, parsed->text[i]) ? HF_TOKEN_CONTROL
                                                                 : HF_TOKEN_NORMAL;
        status = zt_hf_tokens_set(tokens, i, parsed->text[i], type, -1000);
    }
    for (size_t i = 0; status == ZT_OK && i < parsed->added.count; i++) {
        const zt_added *added = &parsed->added.token[i];
        if (added->id >= (int64_t)parsed->entries)
            status = zt_hf_tokens_set(tokens, added->id, added->content,
                                      is_named(source, added->content) ? HF_TOKEN_CONTROL : HF_TOKEN_USER, -1000);
    }
    return status;
}

static zt_status put_llama(const source_tokenizer *source, hf_tokens *tokens)
{
    zt_status status = set_pieces(source, tokens);
    if (status == ZT_OK) status = zt_hf_tokens_put(tokens, "llama", "default", true);
    if (status == ZT_OK && zt_hf_is(source->import, HF_GEMMAS | HF_LAYERED))
        status = zt_gguf_put_int(source->import->writer, "tokenizer.ggml.add_space_prefix", ZT_GGUF_BOOL, 0);
    return status == ZT_OK ? zt_hf_put_special(source->import, source->root, tokens->count) : status;
}

/* Gemma 4: the same with merges, which its kind of GGUF's tokenizers goes by. Tokens that calls of tools and thoughts are made
 * of are written out. */
static zt_status put_gemma4(const source_tokenizer *source, hf_tokens *tokens)
{
    static const char *const written[] = {"<|channel>",       "<channel|>",       "<|tool_call>", "<tool_call|>",
                                          "<|tool_response>", "<tool_response|>", "<|\"|>"};
    zt_status status = set_pieces(source, tokens);
    for (int64_t id = 0; status == ZT_OK && id < tokens->count; id++)
        for (size_t i = 0; i < sizeof written / sizeof *written; i++)
            if (bytes_equal(tokens->text[id], (zt_bytes){written[i], strlen(written[i])})) tokens->type[id] = HF_TOKEN_USER;
    if (status == ZT_OK) status = zt_hf_tokens_put(tokens, "gemma4", NULL, true);
    if (status == ZT_OK) status = put_merges(source);
    if (status == ZT_OK) status = zt_gguf_put_int(source->import->writer, "tokenizer.ggml.add_space_prefix", ZT_GGUF_BOOL, 0);
    return status == ZT_OK ? zt_hf_put_special(source->import, source->root, tokens->count) : status;
}

/* ---- Unigram --------------------------------------------------------------------------------- */

static const json_t *find_charsmap(const json_t *normalizer)
{
    const json_t *map = json_object_get(normalizer, "precompiled_charsmap");
    const json_t *list = json_object_get(normalizer, "normalizers");
    for (size_t i = 0; !map && i < json_array_size(list); i++) map = find_charsmap(json_array_get(list, i));
    return map;
}

static zt_status put_charsmap(const source_tokenizer *source)
{
    const json_t *map = find_charsmap(json_object_get(source->root, "normalizer"));
    zt_bytes text = {json_string_value(map), json_string_length(map)};
    if (text.n == 0) return ZT_OK;
    char *bytes = zt_alloc(source->import->ctx, text.n);
    size_t size = bytes ? zt_tj_base64(text, bytes) : 0; /* it was read once already: it is good */
    zt_status status =
        bytes ? zt_gguf_put_array(source->import->writer, "tokenizer.ggml.precompiled_charsmap", ZT_GGUF_U8, bytes, (int64_t)size)
              : ZT_ENOMEM;
    zt_free(source->import->ctx, bytes);
    return status;
}

static bool config_flag(const source_tokenizer *source, const char *name, bool otherwise)
{
    const json_t *value = json_object_get(source->config, name);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static zt_status put_unigram(const source_tokenizer *source, hf_tokens *tokens)
{
    const zt_tj *parsed = source->parsed;
    zt_status status = set_added(source, tokens);
    for (int32_t i = 0; status == ZT_OK && i < parsed->token_count; i++) {
        bool added = tokens->count > i && (tokens->type[i] == HF_TOKEN_CONTROL || tokens->type[i] == HF_TOKEN_USER);
        hf_token_type type = i == parsed->unk                    ? HF_TOKEN_UNKNOWN
                             : is_named(source, parsed->text[i]) ? HF_TOKEN_CONTROL
                             : added                             ? HF_TOKEN_USER
                                                                 : HF_TOKEN_NORMAL;
        status = zt_hf_tokens_set(tokens, i, parsed->text[i], type, (float)parsed->score[i]);
    }
    if (status == ZT_OK) status = zt_hf_tokens_put(tokens, "t5", "default", true);
    if (status == ZT_OK)
        status = zt_gguf_put_int(source->import->writer, "tokenizer.ggml.add_space_prefix", ZT_GGUF_BOOL,
                                 config_flag(source, "add_prefix_space", true));
    if (status == ZT_OK)
        status = zt_gguf_put_int(source->import->writer, "tokenizer.ggml.remove_extra_whitespaces", ZT_GGUF_BOOL,
                                 config_flag(source, "clean_up_tokenization_spaces", false));
    if (status == ZT_OK) status = put_charsmap(source);
    return status == ZT_OK ? zt_hf_put_special(source->import, source->root, tokens->count) : status;
}

/* ---- which way ------------------------------------------------------------------------------- */

static bool is_sentencepiece_bpe(const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    const char *decoder = json_string_value(json_object_get(json_object_get(root, "decoder"), "type"));
    return json_is_true(json_object_get(model, "byte_fallback")) && decoder && strcmp(decoder, "Sequence") == 0;
}

/* Control tokens behind the embedding's rows: the keys have no place for them. */
static void warn_left_out(const source_tokenizer *source, int64_t rows)
{
    char escaped[80];
    for (int64_t id = rows; id < zt_vocab_size(source->vocab); id++) {
        zt_bytes text = source->vocab->text[id];
        if (text.n)
            zt_log(source->import->ctx, ZT_LOG_WARN,
                   "%s: token %" PRId64 ", '%s', is omitted: it has no row in the embedding (%" PRId64 " rows)",
                   source->import->path, id, zt_escape(escaped, sizeof escaped, text.data, text.n), rows);
    }
}

static zt_status put_json(const source_tokenizer *source)
{
    static const struct {
        const char *model;
        zt_status (*put)(const source_tokenizer *source, hf_tokens *tokens);
    } ways[] = {{"BPE", put_gpt2}, {"Unigram", put_unigram}, {"WordPiece", put_bert}};
    int64_t rows, there = zt_vocab_size(source->vocab);
    hf_tokens tokens;
    zt_status status = zt_hf_count_rows(source->import, there, &rows);
    if (status == ZT_OK && source->import->embedded) status = zt_vocab_check_rows(source->vocab, rows);
    if (status == ZT_OK)
        status = zt_hf_tokens_init(&tokens, source->import, rows);
    else
        return status;
    for (size_t i = 0; status == ZT_OK && i < sizeof ways / sizeof *ways; i++)
        if (strcmp(source->parsed->model->name, ways[i].model) == 0)
            status = i > 0 || !is_sentencepiece_bpe(source->root)  ? ways[i].put(source, &tokens)
                     : zt_hf_is(source->import, HF_SET(HF_GEMMA4)) ? put_gemma4(source, &tokens)
                                                                   : put_llama(source, &tokens);
    if (status == ZT_OK && source->import->whole && source->import->embedded && source->import->keys_suffice)
        warn_left_out(source, rows);
    zt_hf_tokens_fini(&tokens);
    return status;
}

static void close_tokenizer(source_tokenizer *source)
{
    json_decref(source->root);
    json_decref(source->config);
    zt_free(source->import->ctx, source->held);
    zt_vocab_free(source->vocab);
    zt_arena_free(source->texts);
}

/* The file's text is `text`. */
static zt_status open_tokenizer(source_tokenizer *source, hf_import *import, const char *text, size_t size)
{
    zt_status status;
    *source = (source_tokenizer){.import = import, .texts = zt_arena_new(import->ctx, 0)};
    zt_tj_reader reader = {.ctx = import->ctx, .file = import->path, .where = "", .texts = source->texts};
    source->config = zt_hf_load(import, "tokenizer_config.json", &status);
    if (status == ZT_OK && source->texts) source->vocab = zt_vocab_open_json(import->ctx, import->path, text, size);
    if (source->vocab) {
        source->parsed = source->vocab->extra;
        source->root = zt_tj_load(&reader, text, size, &source->held);
    }
    return source->root ? ZT_OK : zt_ctx_status(import->ctx);
}

/* The ids that the model itself names. */
static void set_default_ids(hf_import *import, const zt_sp_model *model)
{
    import->ids[0] = zt_sp_control(model, model->bos_piece);
    import->ids[1] = zt_sp_control(model, model->eos_piece);
    import->ids[2] = model->unk;
}

static zt_status put_pieces(hf_import *import, const char *text, size_t size, const source_tokenizer *source)
{
    int64_t rows;
    hf_tokens tokens;
    zt_sp_model model;
    zt_bytes file = {text, size};
    zt_status status = source->parsed ? ZT_OK : zt_hf_spm_class(import, source->config);
    if (status != ZT_OK) return status;
    status = zt_hf_spm_open(import, &model, file);
    if (status == ZT_OK && !source->parsed) status = zt_sp_check(&model);
    if (status == ZT_OK) status = zt_hf_count_rows(import, model.piece_count, &rows);
    if (status != ZT_OK) {
        zt_sp_fini(&model);
        return status;
    }
    status = zt_hf_tokens_init(&tokens, import, rows);
    if (status == ZT_OK) status = zt_hf_spm_words(&tokens, &model);
    /* Phi models: tokenizer.json has the last word */
    for (size_t i = 0; status == ZT_OK && source->parsed && zt_hf_is(import, HF_PHIS) && i < source->parsed->added.count; i++) {
        const zt_added *added = &source->parsed->added.token[i];
        status = zt_hf_tokens_set(&tokens, added->id, added->content, added->special ? HF_TOKEN_CONTROL : HF_TOKEN_USER, -1000);
    }
    bool llama = model.type == ZT_SP_BPE;
    if (status == ZT_OK) status = zt_hf_tokens_put(&tokens, zt_hf_spm_model(&model), "default", true);
    zt_hf_tokens_fini(&tokens);
    bool spaced = import->spaced || zt_hf_is(import, HF_GEMMAS | HF_LAYERED);
    if (status == ZT_OK && !import->spaced && spaced)
        status = zt_gguf_put_int(import->writer, "tokenizer.ggml.add_space_prefix", ZT_GGUF_BOOL, 0);
    if (status == ZT_OK && !source->parsed) status = zt_hf_spm_put_keys(import, &model, file, spaced, source->config);
    if (status == ZT_OK && !llama) /* ggml's defaults for llama are those of the files */
        set_default_ids(import, &model);
    if (status == ZT_OK) status = zt_hf_put_special(import, source->root, rows);
    if (status == ZT_OK && !source->parsed) status = zt_hf_spm_ends(import, &model, source->config);
    zt_sp_fini(&model);
    return status;
}

/* The SentencePiece file that is used; NULL: none. Where there is a tokenizer.json too, only some architectures
 * use it. (Phi-4 has phi3's layers, but GPT-2's tokenizer.) */
static const char *pieces_name(hf_import *import, const json_t *config, bool alone)
{
    static const char usual[] = "tokenizer.model";
    if (alone) return zt_hf_spm_name(import);
    const char *name = json_string_value(json_object_get(config, "tokenizer_class"));
    bool phi4 = zt_hf_is(import, HF_SET(HF_PHI3)) && name && strcmp(name, "GPT2Tokenizer") == 0;
    return zt_hf_has_file(import, usual) && zt_hf_is(import, WITH_PIECES) && !phi4 ? usual : NULL;
}

/* What the converter's class for llama puts before the tokens, and by their number. */
static zt_status put_llama_class(hf_import *import, const json_t *config)
{
    const json_t *space = json_object_get(config, "add_prefix_space");
    if (!zt_hf_is(import, LLAMA_CLASS) || !json_is_boolean(space)) return ZT_OK;
    import->spaced = true;
    return zt_gguf_put_int(import->writer, "tokenizer.ggml.add_space_prefix", ZT_GGUF_BOOL, json_is_true(space));
}

static char *read_file(hf_import *import, const char *name, size_t *size, zt_status *status)
{
    if (*status != ZT_OK || !zt_hf_has_file(import, name)) return NULL;
    const char *path = zt_hf_file(import, name);
    char *text = path ? zt_read_all(import->ctx, path, size) : NULL;
    *status = text ? zt_foreign_fail(import->ctx, path, text, *size) : zt_ctx_status(import->ctx);
    return text;
}

zt_status zt_hf_put_vocabulary(hf_import *import)
{
    size_t size = 0, pieces_size = 0;
    zt_status status = ZT_OK;
    source_tokenizer source = {.import = import};
    if (zt_hf_has_rwkv_vocabulary(import)) return zt_hf_put_rwkv_vocabulary(import);
    char *text = read_file(import, "tokenizer.json", &size, &status);
    if (status == ZT_OK && text)
        status = open_tokenizer(&source, import, text, size);
    else if (status == ZT_OK)
        source.config = zt_hf_load(import, "tokenizer_config.json", &status);
    const char *name = pieces_name(import, source.config, !text);
    char *pieces = name ? read_file(import, name, &pieces_size, &status) : NULL;
    if (status == ZT_OK && (text || pieces)) status = put_llama_class(import, source.config);
    if (status == ZT_OK && pieces)
        status = put_pieces(import, pieces, pieces_size, &source);
    else if (status == ZT_OK && text)
        status = put_json(&source);
    close_tokenizer(&source);
    zt_free(import->ctx, pieces);
    zt_free(import->ctx, text);
    return status;
}
