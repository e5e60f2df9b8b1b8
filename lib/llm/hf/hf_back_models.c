/* hf_back_models.c - owns the models of a tokenizer.json that is made: BPE with the patterns of
 * vocab_pre.c, SentencePiece's BPE, WordPiece and Unigram, each with its normalizers,
 * pre-tokenizers and decoders.
 *
 * What the components mean: huggingface/tokenizers, as facts; merges of scored pieces as
 * transformers makes them of tokenizer.model (convert_slow_tokenizer.py). */
#include "lib/llm/hf/hf_back_words.h"
#include "lib/llm/vocab/vocab.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- byte-level BPE -------------------------------------------------------------------------- */

#define LEVEL                                                                                      \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":%s}"

static zt_bytes text_bytes(const char *text)
{
    return (zt_bytes){text, strlen(text)};
}

static zt_status put_pre(token_writer *tokens, const zt_pre *pre, zt_bytes name)
{
    zt_status status = zt_str_puts(&tokens->json, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; status == ZT_OK && i < ZT_PRE_RULES && pre->rule[i].pattern; i++) {
        if (pre->rule[i].behavior != ZT_SPLIT_ISOLATED || pre->plain)
            return zt_fail(tokens->export->ctx, ZT_ENOTSUP, "%s: pre-tokenizer '%.*s' has no form in tokenizer.json",
                           tokens->export->file, (int)name.n, name.data);
        status = zt_str_puts(&tokens->json, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
        if (status == ZT_OK)
            status = put_quoted(&tokens->json, text_bytes(pre->rule[i].pattern));
        if (status == ZT_OK)
            status = zt_str_puts(&tokens->json, "},\"behavior\":\"Isolated\",\"invert\":false},");
    }
    return status == ZT_OK ? zt_str_printf(&tokens->json, LEVEL "]},", "false") : status;
}

static zt_status put_merges(token_writer *tokens)
{
    int64_t count = 0;
    zt_gguf_kind element_kind;
    const char *key = "tokenizer.ggml.merges";
    if (!zt_gguf_array(tokens->export->gguf, key, &element_kind, &count) || element_kind != ZT_GGUF_STR)
        count = 0;
    zt_bytes *merges = zt_alloc_array(tokens->export->ctx, (size_t)count + 1, sizeof *merges);
    zt_status status = merges ? zt_str_puts(&tokens->json, ",\"merges\":[") : ZT_ENOMEM;
    if (status == ZT_OK && count)
        zt_gguf_array_strs(tokens->export->gguf, key, merges, count);
    for (int64_t i = 0; status == ZT_OK && i < count; i++) {
        if (i)
            status = zt_str_putc(&tokens->json, ',');
        if (status == ZT_OK)
            status = put_quoted(&tokens->json, merges[i]);
    }
    zt_free(tokens->export->ctx, merges);
    return status == ZT_OK ? zt_str_putc(&tokens->json, ']') : status;
}

zt_status put_gpt2_model(token_writer *tokens)
{
    zt_bytes name = {"default", 7};
    zt_gguf_str(tokens->export->gguf, "tokenizer.ggml.pre", &name);
    const zt_pre *pre = zt_pre_find(name);
    char text[96];
    if (!pre)
        return zt_fail(tokens->export->ctx, ZT_ENOTSUP, "%s: pre-tokenizer '%s' is not known", tokens->export->file,
                       zt_escape(text, sizeof text, name.data, name.n));
    int64_t bos =
        find_around_id(tokens, "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token", pre->add_bos || pre->force_bos);
    int64_t eos = find_around_id(tokens, "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token", 0);
    snprintf(text, sizeof text, LEVEL, "true");
    zt_status status = zt_str_puts(&tokens->json, ",\"normalizer\":null,");
    if (status == ZT_OK)
        status = put_pre(tokens, pre, name);
    if (status == ZT_OK)
        status = put_post_processor(tokens, bos, eos, empty_post_processor(tokens, text));
    if (status == ZT_OK)
        status = zt_str_printf(&tokens->json,
                               "\"decoder\":%s,\"model\":{\"type\":\"BPE\",\"dropout\":null,"
                               "\"unk_token\":null,\"continuing_subword_prefix\":null,"
                               "\"end_of_word_suffix\":null,\"fuse_unk\":false,"
                               "\"byte_fallback\":false,\"ignore_merges\":%s,",
                               text, pre->ignore_merges ? "true" : "false");
    if (status == ZT_OK)
        status = put_vocab(tokens);
    return status == ZT_OK ? put_merges(tokens) : status;
}

/* ---- SentencePiece's BPE --------------------------------------------------------------------- */

typedef struct merge {
    double score;
    int64_t id;
    size_t left; /* bytes of the token's text */
} merge;

/* The best score first; of one token the shorter left part. */
static int compare_by_score(const void *left, const void *right)
{
    const merge *left_merge = left, *right_merge = right;
    if (left_merge->score != right_merge->score)
        return left_merge->score > right_merge->score ? -1 : 1;
    if (left_merge->id != right_merge->id)
        return left_merge->id < right_merge->id ? -1 : 1;
    return left_merge->left < right_merge->left ? -1 : left_merge->left > right_merge->left;
}

static bool merges_to(const token_writer *tokens, int64_t index, size_t left)
{
    zt_bytes text = tokens->text[index];
    int64_t id;
    return ((unsigned char)text.data[left] & 0xc0) != 0x80 && zt_map_get(tokens->ids, text.data, left, &id) &&
           tokens->type[id] == HF_TOKEN_NORMAL && zt_map_get(tokens->ids, text.data + left, text.n - left, &id) &&
           tokens->type[id] == HF_TOKEN_NORMAL;
}

/* Of an honest length: a token is looked at once for each of its bytes. */
static bool may_be_merged(const token_writer *tokens, int64_t index)
{
    return tokens->type[index] == HF_TOKEN_NORMAL && tokens->text[index].n <= 1024;
}

/* Into list (NULL: only counted) every way in which two tokens make one. */
static int64_t find_merges(const token_writer *tokens, merge *list)
{
    int64_t count = 0;
    for (int64_t i = 0; i < tokens->first_added; i++)
        for (size_t left = 1; may_be_merged(tokens, i) && left < tokens->text[i].n; left++)
            if (merges_to(tokens, i, left)) {
                if (list)
                    list[count] = (merge){tokens->score[i], i, left};
                count++;
            }
    return count;
}

static zt_status put_piece_merges(token_writer *tokens)
{
    int64_t count = find_merges(tokens, NULL);
    merge *list = zt_alloc_array(tokens->export->ctx, (size_t)count + 1, sizeof *list);
    zt_status status = list ? zt_str_puts(&tokens->json, ",\"merges\":[") : ZT_ENOMEM;
    if (status == ZT_OK)
        qsort(list, (size_t)find_merges(tokens, list), sizeof *list, compare_by_score);
    for (int64_t i = 0; status == ZT_OK && i < count; i++) {
        zt_bytes text = tokens->text[list[i].id];
        status = zt_str_puts(&tokens->json, i ? ",[" : "[");
        if (status == ZT_OK)
            status = put_quoted(&tokens->json, (zt_bytes){text.data, list[i].left});
        if (status == ZT_OK)
            status = zt_str_putc(&tokens->json, ',');
        if (status == ZT_OK)
            status = put_quoted(&tokens->json, (zt_bytes){text.data + list[i].left, text.n - list[i].left});
        if (status == ZT_OK)
            status = zt_str_putc(&tokens->json, ']');
    }
    zt_free(tokens->export->ctx, list);
    return status == ZT_OK ? zt_str_putc(&tokens->json, ']') : status;
}

/* One score for all, as the converter gives without tokenizer.model: no merges can be had of it. */
bool has_scores(const token_writer *tokens)
{
    double first_score = 0;
    bool any = false;
    for (int64_t i = 0; i < tokens->count; i++) {
        if (tokens->type[i] != HF_TOKEN_NORMAL)
            continue;
        if (any && tokens->score[i] != first_score)
            return true;
        first_score = tokens->score[i];
        any = true;
    }
    return false;
}

static zt_status put_unk(token_writer *tokens, int64_t unk)
{
    zt_status status = zt_str_puts(&tokens->json, "\"unk_token\":");
    if (status == ZT_OK)
        status = unk >= 0 ? put_quoted(&tokens->json, tokens->text[unk]) : zt_str_puts(&tokens->json, "null");
    return status == ZT_OK ? zt_str_putc(&tokens->json, ',') : status;
}

static int64_t find_unknown_id(const token_writer *tokens, int64_t otherwise)
{
    int64_t id = otherwise;
    zt_gguf_i64(tokens->export->gguf, "tokenizer.ggml.unknown_token_id", &id);
    return id >= 0 && id < tokens->count ? id : -1;
}

zt_status put_llama_model(token_writer *tokens)
{
    int64_t space = 1, bytes = 0;
    if (!has_scores(tokens))
        return zt_fail(tokens->export->ctx, ZT_ENOTSUP, "%s: the tokens have no scores: no tokenizer.json can be made of them",
                       tokens->export->file);
    for (int64_t i = 0; i < tokens->count; i++)
        bytes += tokens->type[i] == HF_TOKEN_BYTE;
    zt_gguf_i64(tokens->export->gguf, "tokenizer.ggml.add_space_prefix", &space);
    int64_t bos = find_around_id(tokens, "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token", 1);
    int64_t eos = find_around_id(tokens, "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token", 0);
    zt_status status = zt_str_printf(&tokens->json,
                                     ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s{\"type\":\"Replace\","
                                     "\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"}]},\"pre_tokenizer\":null,",
                                     space ? "{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"}," : "");
    if (status == ZT_OK)
        status = put_post_processor(tokens, bos, eos, "null");
    if (status == ZT_OK)
        status = zt_str_printf(&tokens->json,
                               "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":"
                               "{\"String\":\"" SPACE "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},"
                               "{\"type\":\"Fuse\"}%s]},\"model\":{\"type\":\"BPE\",\"dropout\":null,",
                               space ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}" : "");
    if (status == ZT_OK)
        status = put_unk(tokens, find_unknown_id(tokens, 0));
    if (status == ZT_OK)
        status = zt_str_printf(&tokens->json,
                               "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
                               "\"fuse_unk\":%s,\"byte_fallback\":%s,\"ignore_merges\":false,",
                               bytes ? "true" : "false", bytes ? "true" : "false");
    if (status == ZT_OK)
        status = put_vocab(tokens);
    return status == ZT_OK ? put_piece_merges(tokens) : status;
}

/* ---- WordPiece ------------------------------------------------------------------------------- */

/* GGUF marks what opens a word, tokenizer.json what goes on. */
zt_status convert_wordpiece_marks(token_writer *tokens, zt_arena *texts)
{
    size_t mark_length = strlen(SPACE);
    for (int64_t i = 0; i < tokens->count; i++) {
        zt_bytes text = tokens->text[i];
        if (tokens->type[i] == HF_TOKEN_CONTROL)
            continue;
        if (text.n >= mark_length && memcmp(text.data, SPACE, mark_length) == 0) {
            tokens->text[i] = (zt_bytes){text.data + mark_length, text.n - mark_length};
            continue;
        }
        char *marked = zt_arena_alloc(texts, text.n + 2);
        if (!marked)
            return ZT_ENOMEM;
        memcpy(marked, "##", 2);
        memcpy(marked + 2, text.data, text.n);
        tokens->text[i] = (zt_bytes){marked, text.n + 2};
    }
    return ZT_OK;
}

zt_status put_bert_model(token_writer *tokens)
{
    int64_t lower = 1, strip = -1;
    zt_gguf_i64(tokens->export->gguf, "tokenizer.ggml.normalizer.lowercase", &lower);
    zt_gguf_i64(tokens->export->gguf, "tokenizer.ggml.normalizer.strip_accents", &strip);
    int64_t cls_id = 101, sep_id = 102; /* as vocab_gguf.c has it */
    zt_gguf_i64(tokens->export->gguf, "tokenizer.ggml.bos_token_id", &cls_id);
    zt_gguf_i64(tokens->export->gguf, "tokenizer.ggml.cls_token_id", &cls_id);
    zt_gguf_i64(tokens->export->gguf, "tokenizer.ggml.seperator_token_id", &sep_id);
    zt_status status = zt_str_printf(&tokens->json,
                                     ",\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,"
                                     "\"handle_chinese_chars\":true,\"strip_accents\":%s,\"lowercase\":%s},"
                                     "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},",
                                     strip < 0 ? "null"
                                     : strip   ? "true"
                                               : "false",
                                     lower ? "true" : "false");
    if (status == ZT_OK)
        status = put_post_processor(tokens, cls_id >= 0 && cls_id < tokens->count ? cls_id : -1,
                                    sep_id >= 0 && sep_id < tokens->count ? sep_id : -1, "null");
    if (status == ZT_OK)
        status = zt_str_puts(&tokens->json, "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\","
                                            "\"cleanup\":true},\"model\":{\"type\":\"WordPiece\",");
    if (status == ZT_OK)
        status = put_unk(tokens, find_unknown_id(tokens, 100));
    if (status == ZT_OK)
        status = zt_str_puts(&tokens->json, "\"continuing_subword_prefix\":\"##\","
                                            "\"max_input_chars_per_word\":100,");
    return status == ZT_OK ? put_vocab(tokens) : status;
}

/* ---- Unigram --------------------------------------------------------------------------------- */

static zt_status put_base64(zt_str *out, const unsigned char *bytes, size_t size)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < size; i += 3) {
        uint32_t bits = (uint32_t)bytes[i] << 16 | (uint32_t)(i + 1 < size ? bytes[i + 1] : 0) << 8 |
                        (uint32_t)(i + 2 < size ? bytes[i + 2] : 0);
        char digits[4] = {alphabet[bits >> 18], alphabet[bits >> 12 & 63], i + 1 < size ? alphabet[bits >> 6 & 63] : '=',
                          i + 2 < size ? alphabet[bits & 63] : '='};
        status = zt_str_put(out, digits, 4);
    }
    return status;
}

/* SentencePiece's map, and one space for many where the file says so. */
static zt_status put_normalizers(token_writer *tokens)
{
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    int64_t count = 0, extra = 0;
    zt_gguf_kind element_kind;
    zt_gguf_i64(tokens->export->gguf, "tokenizer.ggml.remove_extra_whitespaces", &extra);
    bool map = zt_gguf_array(tokens->export->gguf, key, &element_kind, &count) && count > 0;
    int64_t *numbers = zt_alloc_array(tokens->export->ctx, (size_t)count + 1, sizeof *numbers);
    unsigned char *bytes = zt_alloc(tokens->export->ctx, (size_t)count + 1);
    zt_status status = numbers && bytes ? zt_str_puts(&tokens->json, ",\"normalizer\":{\"type\":\"Sequence\","
                                                                     "\"normalizers\":[")
                                        : ZT_ENOMEM;
    if (status == ZT_OK && map && zt_gguf_array_i64(tokens->export->gguf, key, numbers, count)) {
        for (int64_t i = 0; i < count; i++)
            bytes[i] = (unsigned char)numbers[i];
        status = zt_str_puts(&tokens->json, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
        if (status == ZT_OK)
            status = put_base64(&tokens->json, bytes, (size_t)count);
        if (status == ZT_OK)
            status = zt_str_puts(&tokens->json, extra ? "\"}," : "\"}");
    }
    if (status == ZT_OK && extra)
        status = zt_str_puts(&tokens->json, "{\"type\":\"Replace\",\"pattern\":{\"Regex\":"
                                            "\"\\\\A +| +\\\\z\"},\"content\":\"\"},"
                                            "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},"
                                            "\"content\":\" \"}");
    zt_free(tokens->export->ctx, numbers);
    zt_free(tokens->export->ctx, bytes);
    return status == ZT_OK ? zt_str_puts(&tokens->json, "]},") : status;
}

static zt_status put_scored(token_writer *tokens)
{
    zt_status status = zt_str_puts(&tokens->json, "\"vocab\":[");
    for (int64_t i = 0; status == ZT_OK && i < tokens->first_added; i++) {
        status = zt_str_puts(&tokens->json, i ? ",[" : "[");
        if (status == ZT_OK)
            status = put_quoted(&tokens->json, tokens->text[i]);
        if (status == ZT_OK)
            status = zt_str_printf(&tokens->json, ",%.9g]", tokens->score[i]);
    }
    return status == ZT_OK ? zt_str_putc(&tokens->json, ']') : status;
}

zt_status put_unigram_model(token_writer *tokens)
{
    int64_t space = 0, unk = find_unknown_id(tokens, 2);
    zt_gguf_i64(tokens->export->gguf, "tokenizer.ggml.add_space_prefix", &space);
    int64_t bos = find_around_id(tokens, "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token", 0);
    int64_t eos = find_around_id(tokens, "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token", 1);
    zt_status status = put_normalizers(tokens);
    for (int i = 0; status == ZT_OK && i < 2; i++)
        status = zt_str_printf(&tokens->json,
                               "\"%s\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE "\","
                               "\"prepend_scheme\":\"%s\",\"split\":true},",
                               i ? "decoder" : "pre_tokenizer", space ? "always" : "never");
    if (status == ZT_OK)
        status = put_post_processor(tokens, bos, eos, "null");
    if (status == ZT_OK)
        status =
            zt_str_printf(&tokens->json, "\"model\":{\"type\":\"Unigram\",\"unk_id\":%" PRId64 ",\"byte_fallback\":false,", unk);
    return status == ZT_OK ? put_scored(tokens) : status;
}
