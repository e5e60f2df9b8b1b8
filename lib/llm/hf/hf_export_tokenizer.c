/* hf_export_tokenizer.c - tokenizer.json made of the keys tokenizer.ggml.*, where the GGUF does not hold one: byte-level BPE with
 * the patterns of vocab_pre.c, SentencePiece's BPE, Unigram and WordPiece, each with its normalizers, pre-tokenizers and
 * decoders; and tokenizer.model of SentencePiece's BPE, for readers that want its scores.
 *
 * A token belongs to the model's own vocabulary unless it was added behind all of those. What the components mean:
 * huggingface/tokenizers, as facts; merges of scored pieces as transformers makes them of tokenizer.model
 * (convert_slow_tokenizer.py). */
#include "lib/llm/hf/hf_export.h"
#include "lib/llm/vocab/vocab.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE "\xe2\x96\x81" /* U+2581 */

typedef struct token_writer {
    hf_export *export;
    int64_t count, first_added; /* ids from first_added on are added tokens only */
    zt_bytes *text;
    int64_t *type;
    double *score;
    zt_map *ids; /* text -> id, the first of each */
    zt_str json;
} token_writer;

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_added(const token_writer *tokens, int64_t id)
{
    return tokens->type[id] == HF_TOKEN_CONTROL || tokens->type[id] == HF_TOKEN_USER;
}

static bool is_pad(const token_writer *tokens, int64_t id) { return tokens->type[id] == HF_TOKEN_UNUSED; }

/* Added tokens behind the rest may be given ids in order, if none is missing between them. */
static void find_base(token_writer *tokens)
{
    int64_t end = tokens->count;
    while (end > 0 && is_pad(tokens, end - 1)) end--;
    tokens->first_added = end;
    while (tokens->first_added > 0 && is_added(tokens, tokens->first_added - 1)) tokens->first_added--;
    if (tokens->first_added == 0) tokens->first_added = end;
}

static zt_status read_words(token_writer *tokens)
{
    const zt_gguf *gguf = tokens->export->gguf;
    zt_ctx *ctx = tokens->export->ctx;
    zt_gguf_kind element_kind;
    if (!zt_gguf_array(gguf, "tokenizer.ggml.tokens", &element_kind, &tokens->count) || tokens->count < 1 ||
        tokens->count > INT32_MAX / 4)
        return zt_fail(ctx, ZT_EDATA, "%s: 'tokenizer.ggml.tokens' is missing", tokens->export->file);
    tokens->text = zt_calloc(ctx, (size_t)tokens->count, sizeof *tokens->text);
    tokens->type = zt_calloc(ctx, (size_t)tokens->count, sizeof *tokens->type);
    tokens->score = zt_calloc(ctx, (size_t)tokens->count, sizeof *tokens->score);
    tokens->ids = zt_map_new(ctx, (size_t)tokens->count);
    if (!tokens->text || !tokens->type || !tokens->score || !tokens->ids) return ZT_ENOMEM;
    if (!zt_gguf_array_strs(gguf, "tokenizer.ggml.tokens", tokens->text, tokens->count))
        return zt_fail(ctx, ZT_EDATA, "%s: 'tokenizer.ggml.tokens' is not an array of strings", tokens->export->file);
    for (int64_t i = 0; i < tokens->count; i++) tokens->type[i] = HF_TOKEN_NORMAL;
    zt_gguf_array_i64(gguf, "tokenizer.ggml.token_type", tokens->type, tokens->count);
    zt_gguf_array_f64(gguf, "tokenizer.ggml.scores", tokens->score, tokens->count);
    for (int64_t i = 0; i < tokens->count; i++)
        if (!isfinite(tokens->score[i]))
            return zt_fail(ctx, ZT_EDATA, "%s: the score of token %" PRId64 " is not a finite number", tokens->export->file, i);
    find_base(tokens);
    return ZT_OK;
}

static zt_status index_words(token_writer *tokens)
{
    zt_status status = ZT_OK;
    for (int64_t i = 0; status == ZT_OK && i < tokens->first_added; i++)
        if (!zt_map_get(tokens->ids, tokens->text[i].data, tokens->text[i].n, NULL))
            status = zt_map_put(tokens->ids, tokens->text[i].data, tokens->text[i].n, i);
    for (int64_t i = tokens->first_added;
         status == ZT_OK && (int64_t)zt_map_count(tokens->ids) < tokens->first_added && i < tokens->count; i++)
        if (!is_pad(tokens, i)) /* a text twice: what comes behind would be given other ids */
            tokens->first_added = i + 1;
    return status;
}

/* ---- JSON, written as it goes: a vocabulary is long ------------------------------------------ */

static zt_status put_quoted(zt_str *out, zt_bytes text) { return zt_str_put_json(out, text.data, text.n); }

static zt_status put_added(token_writer *tokens)
{
    zt_str *out = &tokens->json;
    zt_status status = zt_str_puts(out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,"
                                        "\"added_tokens\":[");
    for (int64_t i = 0, written = 0; status == ZT_OK && i < tokens->count; i++) {
        if (!is_added(tokens, i) && tokens->type[i] != HF_TOKEN_UNKNOWN) continue;
        status = zt_str_printf(out, "%s{\"id\":%" PRId64 ",\"content\":", written++ ? "," : "", i);
        if (status == ZT_OK) status = put_quoted(out, tokens->text[i]);
        if (status == ZT_OK)
            status = zt_str_printf(out,
                                   ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                                   "\"normalized\":false,\"special\":%s}",
                                   tokens->type[i] == HF_TOKEN_USER ? "false" : "true");
    }
    return status == ZT_OK ? zt_str_putc(out, ']') : status;
}

/* {"text":id,...} of the tokens of the model's own vocabulary. */
static zt_status put_vocab(token_writer *tokens)
{
    zt_status status = zt_str_puts(&tokens->json, "\"vocab\":{");
    int64_t first;
    for (int64_t i = 0, written = 0; status == ZT_OK && i < tokens->first_added; i++) {
        if (zt_map_get(tokens->ids, tokens->text[i].data, tokens->text[i].n, &first) && first != i) continue;
        if (written++) status = zt_str_putc(&tokens->json, ',');
        if (status == ZT_OK) status = put_quoted(&tokens->json, tokens->text[i]);
        if (status == ZT_OK) status = zt_str_printf(&tokens->json, ":%" PRId64, i);
    }
    return status == ZT_OK ? zt_str_putc(&tokens->json, '}') : status;
}

/* ---- what goes around a text ----------------------------------------------------------------- */

static int64_t find_around_id(const token_writer *tokens, const char *key, const char *add, int otherwise)
{
    int64_t id, on = otherwise;
    zt_gguf_i64(tokens->export->gguf, add, &on);
    return on && zt_gguf_i64(tokens->export->gguf, key, &id) && id >= 0 && id < tokens->count ? id : -1;
}

static zt_status put_piece(token_writer *tokens, int64_t id, int type_id)
{
    zt_status status = zt_str_puts(&tokens->json, "{\"SpecialToken\":{\"id\":");
    if (status == ZT_OK) status = put_quoted(&tokens->json, tokens->text[id]);
    return status == ZT_OK ? zt_str_printf(&tokens->json, ",\"type_id\":%d}}", type_id) : status;
}

/* Of one text, or of two. The second has a BOS of its own if the file says anything of what parts
 * the two. */
static zt_status put_template(token_writer *tokens, int64_t bos, int64_t eos, int texts)
{
    zt_status status = zt_str_putc(&tokens->json, '[');
    bool written = false, parted = zt_gguf_i64(tokens->export->gguf, "tokenizer.ggml.add_sep_token", &(int64_t){0});
    for (int text = 0; status == ZT_OK && text < texts; text++) {
        if (bos >= 0 && (text == 0 || (eos < 0 && parted))) {
            status = written ? zt_str_putc(&tokens->json, ',') : ZT_OK;
            status = status == ZT_OK ? put_piece(tokens, bos, text) : status;
            written = true;
        }
        if (status == ZT_OK)
            status = zt_str_printf(&tokens->json, "%s{\"Sequence\":{\"id\":\"%c\",\"type_id\":%d}}", written ? "," : "",
                                   'A' + text, text);
        written = true;
        if (status == ZT_OK && eos >= 0) status = zt_str_putc(&tokens->json, ',');
        if (status == ZT_OK && eos >= 0) status = put_piece(tokens, eos, text);
    }
    return status == ZT_OK ? zt_str_putc(&tokens->json, ']') : status;
}

static zt_status put_special(token_writer *tokens, int64_t id, bool more)
{
    zt_status status = put_quoted(&tokens->json, tokens->text[id]);
    if (status == ZT_OK) status = zt_str_puts(&tokens->json, ":{\"id\":");
    if (status == ZT_OK) status = put_quoted(&tokens->json, tokens->text[id]);
    if (status == ZT_OK) status = zt_str_printf(&tokens->json, ",\"ids\":[%" PRId64 "],\"tokens\":[", id);
    if (status == ZT_OK) status = put_quoted(&tokens->json, tokens->text[id]);
    return status == ZT_OK ? zt_str_puts(&tokens->json, more ? "]}," : "]}") : status;
}

/* Where nothing is put around: the converter reads of ByteLevel that nothing is to be; null does
 * not say. */
static const char *empty_post_processor(const token_writer *tokens, const char *level)
{
    int64_t value;
    bool said = zt_gguf_i64(tokens->export->gguf, "tokenizer.ggml.add_bos_token", &value) &&
                zt_gguf_i64(tokens->export->gguf, "tokenizer.ggml.add_eos_token", &value);
    return said ? level : "null";
}

/* `"post_processor":...,`: `otherwise` where nothing is put around. */
static zt_status put_post_processor(token_writer *tokens, int64_t bos, int64_t eos, const char *otherwise)
{
    zt_status status = zt_str_puts(&tokens->json, "\"post_processor\":");
    if (bos < 0 && eos < 0) return status == ZT_OK ? zt_str_printf(&tokens->json, "%s,", otherwise) : status;
    if (status == ZT_OK) status = zt_str_puts(&tokens->json, "{\"type\":\"TemplateProcessing\",\"single\":");
    if (status == ZT_OK) status = put_template(tokens, bos, eos, 1);
    if (status == ZT_OK) status = zt_str_puts(&tokens->json, ",\"pair\":");
    if (status == ZT_OK) status = put_template(tokens, bos, eos, 2);
    if (status == ZT_OK) status = zt_str_puts(&tokens->json, ",\"special_tokens\":{");
    bool two = eos >= 0 && eos != bos;
    if (status == ZT_OK && bos >= 0) status = put_special(tokens, bos, two);
    if (status == ZT_OK && two) status = put_special(tokens, eos, false);
    return status == ZT_OK ? zt_str_puts(&tokens->json, "}},") : status;
}

/* ---- byte-level BPE -------------------------------------------------------------------------- */

#define LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":%s}"

static zt_bytes text_bytes(const char *text) { return (zt_bytes){text, strlen(text)}; }

static zt_status put_pre(token_writer *tokens, const zt_pre *pre, zt_bytes name)
{
    zt_status status = zt_str_puts(&tokens->json, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; status == ZT_OK && i < ZT_PRE_RULES && pre->rule[i].pattern; i++) {
        if (pre->rule[i].behavior != ZT_SPLIT_ISOLATED || pre->plain)
            return zt_fail(tokens->export->ctx, ZT_ENOTSUP, "%s: pre-tokenizer '%.*s' cannot be expressed in tokenizer.json",
                           tokens->export->file, (int)name.n, name.data);
        status = zt_str_puts(&tokens->json, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
        if (status == ZT_OK) status = put_quoted(&tokens->json, text_bytes(pre->rule[i].pattern));
        if (status == ZT_OK) status = zt_str_puts(&tokens->json, "},\"behavior\":\"Isolated\",\"invert\":false},");
    }
    return status == ZT_OK ? zt_str_printf(&tokens->json, LEVEL "]},", "false") : status;
}

static zt_status put_merges(token_writer *tokens)
{
    int64_t count = 0;
    zt_gguf_kind element_kind;
    const char *key = "tokenizer.ggml.merges";
    if (!zt_gguf_array(tokens->export->gguf, key, &element_kind, &count) || element_kind != ZT_GGUF_STR) count = 0;
    zt_bytes *merges = zt_alloc_array(tokens->export->ctx, (size_t)count + 1, sizeof *merges);
    zt_status status = merges ? zt_str_puts(&tokens->json, ",\"merges\":[") : ZT_ENOMEM;
    if (status == ZT_OK && count) zt_gguf_array_strs(tokens->export->gguf, key, merges, count);
    for (int64_t i = 0; status == ZT_OK && i < count; i++) {
        if (i) status = zt_str_putc(&tokens->json, ',');
        if (status == ZT_OK) status = put_quoted(&tokens->json, merges[i]);
    }
    zt_free(tokens->export->ctx, merges);
    return status == ZT_OK ? zt_str_putc(&tokens->json, ']') : status;
}

static zt_status put_gpt2_model(token_writer *tokens)
{
    zt_bytes name = {"default", 7};
    zt_gguf_str(tokens->export->gguf, "tokenizer.ggml.pre", &name);
    const zt_pre *pre = zt_pre_find(name);
    char text[96];
    if (!pre)
        return zt_fail(tokens->export->ctx, ZT_ENOTSUP, "%s: unknown pre-tokenizer '%s'", tokens->export->file,
                       zt_escape(text, sizeof text, name.data, name.n));
    int64_t bos =
        find_around_id(tokens, "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token", pre->add_bos || pre->force_bos);
    int64_t eos = find_around_id(tokens, "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token", 0);
    snprintf(text, sizeof text, LEVEL, "true");
    zt_status status = zt_str_puts(&tokens->json, ",\"normalizer\":null,");
    if (status == ZT_OK) status = put_pre(tokens, pre, name);
    if (status == ZT_OK) status = put_post_processor(tokens, bos, eos, empty_post_processor(tokens, text));
    if (status == ZT_OK)
        status = zt_str_printf(&tokens->json,
                               "\"decoder\":%s,\"model\":{\"type\":\"BPE\",\"dropout\":null,"
                               "\"unk_token\":null,\"continuing_subword_prefix\":null,"
                               "\"end_of_word_suffix\":null,\"fuse_unk\":false,"
                               "\"byte_fallback\":false,\"ignore_merges\":%s,",
                               text, pre->ignore_merges ? "true" : "false");
    if (status == ZT_OK) status = put_vocab(tokens);
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
    if (left_merge->score != right_merge->score) return left_merge->score > right_merge->score ? -1 : 1;
    if (left_merge->id != right_merge->id) return left_merge->id < right_merge->id ? -1 : 1;
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

/* Refuses tokens that are too long: the search for merges looks at a token once for each of its bytes. */
static bool may_be_merged(const token_writer *tokens, int64_t index)
{
    return tokens->type[index] == HF_TOKEN_NORMAL && tokens->text[index].n <= 1024;
}

/* Lists every way in which two tokens make one. list NULL: they are only counted. */
static int64_t find_merges(const token_writer *tokens, merge *list)
{
    int64_t count = 0;
    for (int64_t i = 0; i < tokens->first_added; i++)
        for (size_t left = 1; may_be_merged(tokens, i) && left < tokens->text[i].n; left++)
            if (merges_to(tokens, i, left)) {
                if (list) list[count] = (merge){tokens->score[i], i, left};
                count++;
            }
    return count;
}

static zt_status put_piece_merges(token_writer *tokens)
{
    int64_t count = find_merges(tokens, NULL);
    merge *list = zt_alloc_array(tokens->export->ctx, (size_t)count + 1, sizeof *list);
    zt_status status = list ? zt_str_puts(&tokens->json, ",\"merges\":[") : ZT_ENOMEM;
    if (status == ZT_OK) qsort(list, (size_t)find_merges(tokens, list), sizeof *list, compare_by_score);
    for (int64_t i = 0; status == ZT_OK && i < count; i++) {
        zt_bytes text = tokens->text[list[i].id];
        status = zt_str_puts(&tokens->json, i ? ",[" : "[");
        if (status == ZT_OK) status = put_quoted(&tokens->json, (zt_bytes){text.data, list[i].left});
        if (status == ZT_OK) status = zt_str_putc(&tokens->json, ',');
        if (status == ZT_OK) status = put_quoted(&tokens->json, (zt_bytes){text.data + list[i].left, text.n - list[i].left});
        if (status == ZT_OK) status = zt_str_putc(&tokens->json, ']');
    }
    zt_free(tokens->export->ctx, list);
    return status == ZT_OK ? zt_str_putc(&tokens->json, ']') : status;
}

/* One score for all, as the converter gives without tokenizer.model: no merges can be had of it. */
static bool has_scores(const token_writer *tokens)
{
    double first_score = 0;
    bool any = false;
    for (int64_t i = 0; i < tokens->count; i++) {
        if (tokens->type[i] != HF_TOKEN_NORMAL) continue;
        if (any && tokens->score[i] != first_score) return true;
        first_score = tokens->score[i];
        any = true;
    }
    return false;
}

static zt_status put_unk(token_writer *tokens, int64_t unk)
{
    zt_status status = zt_str_puts(&tokens->json, "\"unk_token\":");
    if (status == ZT_OK) status = unk >= 0 ? put_quoted(&tokens->json, tokens->text[unk]) : zt_str_puts(&tokens->json, "null");
    return status == ZT_OK ? zt_str_putc(&tokens->json, ',') : status;
}

static int64_t find_unknown_id(const token_writer *tokens, int64_t otherwise)
{
    int64_t id = otherwise;
    zt_gguf_i64(tokens->export->gguf, "tokenizer.ggml.unknown_token_id", &id);
    return id >= 0 && id < tokens->count ? id : -1;
}

/* Pieces of SentencePiece with merges, which `put_merges` writes. */
static zt_status put_pieces_model(token_writer *tokens, const char *pre_tokenizer, bool adds_space,
                                  zt_status (*merges)(token_writer *tokens))
{
    int64_t space = adds_space, bytes = 0;
    for (int64_t i = 0; i < tokens->count; i++) bytes += tokens->type[i] == HF_TOKEN_BYTE;
    zt_gguf_i64(tokens->export->gguf, "tokenizer.ggml.add_space_prefix", &space);
    int64_t bos = find_around_id(tokens, "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token", 1);
    int64_t eos = find_around_id(tokens, "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token", 0);
    zt_status status = zt_str_printf(&tokens->json,
                                     ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s{\"type\":\"Replace\","
                                     "\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"}]},\"pre_tokenizer\":%s,",
                                     space ? "{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"}," : "", pre_tokenizer);
    if (status == ZT_OK) status = put_post_processor(tokens, bos, eos, "null");
    if (status == ZT_OK)
        status = zt_str_printf(&tokens->json,
                               "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":"
                               "{\"String\":\"" SPACE "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},"
                               "{\"type\":\"Fuse\"}%s]},\"model\":{\"type\":\"BPE\",\"dropout\":null,",
                               space ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}" : "");
    if (status == ZT_OK) status = put_unk(tokens, find_unknown_id(tokens, 0));
    if (status == ZT_OK)
        status = zt_str_printf(&tokens->json,
                               "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
                               "\"fuse_unk\":%s,\"byte_fallback\":%s,\"ignore_merges\":false,",
                               bytes ? "true" : "false", bytes ? "true" : "false");
    if (status == ZT_OK) status = put_vocab(tokens);
    return status == ZT_OK ? merges(tokens) : status;
}

static zt_status put_llama_model(token_writer *tokens)
{
    if (!has_scores(tokens))
        return zt_fail(tokens->export->ctx, ZT_ENOTSUP, "%s: tokenizer.json cannot be written: the tokens have no scores",
                       tokens->export->file);
    return put_pieces_model(tokens, "null", true, put_piece_merges);
}

/* Gemma 4: merges are in the file, and none crosses the end of a line. */
static zt_status put_gemma4_model(token_writer *tokens)
{
    static const char lines[] = "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[^\\n]+|[\\n]+\"},"
                                "\"behavior\":\"Isolated\",\"invert\":false}";
    return put_pieces_model(tokens, lines, false, put_merges);
}

/* ---- WordPiece ------------------------------------------------------------------------------- */

/* GGUF marks tokens that begin a word, tokenizer.json those that continue one (##). */
static zt_status convert_wordpiece_marks(token_writer *tokens, zt_arena *texts)
{
    size_t mark_length = strlen(SPACE);
    for (int64_t i = 0; i < tokens->count; i++) {
        zt_bytes text = tokens->text[i];
        if (tokens->type[i] == HF_TOKEN_CONTROL) continue;
        if (text.n >= mark_length && memcmp(text.data, SPACE, mark_length) == 0) {
            tokens->text[i] = (zt_bytes){text.data + mark_length, text.n - mark_length};
            continue;
        }
        char *marked = zt_arena_alloc(texts, text.n + 2);
        if (!marked) return ZT_ENOMEM;
        memcpy(marked, "##", 2);
        memcpy(marked + 2, text.data, text.n);
        tokens->text[i] = (zt_bytes){marked, text.n + 2};
    }
    return ZT_OK;
}

static zt_status put_bert_model(token_writer *tokens)
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
    if (status == ZT_OK) status = put_unk(tokens, find_unknown_id(tokens, 100));
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
        for (int64_t i = 0; i < count; i++) bytes[i] = (unsigned char)numbers[i];
        status = zt_str_puts(&tokens->json, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
        if (status == ZT_OK) status = put_base64(&tokens->json, bytes, (size_t)count);
        if (status == ZT_OK) status = zt_str_puts(&tokens->json, extra ? "\"}," : "\"}");
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
        if (status == ZT_OK) status = put_quoted(&tokens->json, tokens->text[i]);
        if (status == ZT_OK) status = zt_str_printf(&tokens->json, ",%.9g]", tokens->score[i]);
    }
    return status == ZT_OK ? zt_str_putc(&tokens->json, ']') : status;
}

static zt_status put_unigram_model(token_writer *tokens)
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
    if (status == ZT_OK) status = put_post_processor(tokens, bos, eos, "null");
    if (status == ZT_OK)
        status =
            zt_str_printf(&tokens->json, "\"model\":{\"type\":\"Unigram\",\"unk_id\":%" PRId64 ",\"byte_fallback\":false,", unk);
    return status == ZT_OK ? put_scored(tokens) : status;
}

/* ---- which ----------------------------------------------------------------------------------- */

static const struct {
    const char *model;
    zt_status (*put)(token_writer *w);
    bool pieces; /* SentencePiece has a file for it */
} ways[] = {{"gpt2", put_gpt2_model, false},
            {"llama", put_llama_model, true},
            {"gemma4", put_gemma4_model, false},
            {"bert", put_bert_model, false},
            {"t5", put_unigram_model, false}};

static int way_of(hf_export *export)
{
    zt_bytes model = {"", 0};
    char text[96];
    zt_gguf_str(export->gguf, "tokenizer.ggml.model", &model);
    for (int i = 0; i < (int)(sizeof ways / sizeof *ways); i++)
        if (strlen(ways[i].model) == model.n && memcmp(ways[i].model, model.data, model.n) == 0) return i;
    zt_fail(export->ctx, ZT_ENOTSUP, "%s: tokenizer '%s' cannot be expressed in tokenizer.json", export->file,
            zt_escape(text, sizeof text, model.data, model.n));
    return -1;
}

static zt_status write_json(token_writer *tokens, int way)
{
    zt_arena *texts = zt_arena_new(tokens->export->ctx, 0);
    zt_status status = texts ? ZT_OK : ZT_ENOMEM;
    if (status == ZT_OK && ways[way].put == put_bert_model) status = convert_wordpiece_marks(tokens, texts);
    if (status == ZT_OK) status = index_words(tokens);
    if (status == ZT_OK) status = put_added(tokens);
    if (status == ZT_OK) status = ways[way].put(tokens);
    if (status == ZT_OK) status = zt_str_puts(&tokens->json, "}}\n");
    if (status == ZT_OK) status = zt_export_file(tokens->export, "tokenizer.json", tokens->json.data, tokens->json.len);
    zt_arena_free(texts);
    return status;
}

static zt_status write_pieces(token_writer *tokens)
{
    zt_str out;
    zt_str_init(&out, tokens->export->ctx);
    int64_t count = tokens->count;
    while (count > 0 && is_pad(tokens, count - 1)) count--;
    int bytes = 0;
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < count; i++) bytes += tokens->type[i] == HF_TOKEN_BYTE;
    for (int64_t i = 0; status == ZT_OK && i < count; i++)
        status = zt_hf_spm_put(&out, tokens->text[i], (float)tokens->score[i], (hf_token_type)tokens->type[i]);
    if (status == ZT_OK) status = zt_hf_spm_end(&out, bytes == 256);
    if (status == ZT_OK) status = zt_export_file(tokens->export, "tokenizer.model", out.data, out.len);
    zt_str_fini(&out);
    return status;
}

zt_status zt_export_tokens(hf_export *export)
{
    token_writer tokens = {.export = export};
    zt_bytes json;
    zt_bytes pieces = zt_sp_of(export->gguf);
    bool whole = zt_gguf_str(export->gguf, "tokenizer.huggingface.json", &json);
    if (pieces.n && !whole) /* says all: a tokenizer.json would say less */
        return zt_export_file(export, "tokenizer.model", pieces.data, pieces.n);
    if (export->arch->id == HF_RWKV7 && !whole && zt_gguf_str(export->gguf, "tokenizer.ggml.model", &json) && json.n == 4 &&
        memcmp(json.data, "rwkv", 4) == 0)
        return zt_export_rwkv_vocabulary(export);
    int way = way_of(export);
    if (way < 0) return zt_ctx_status(export->ctx);
    zt_str_init(&tokens.json, export->ctx);
    zt_status status = read_words(&tokens);
    if (status == ZT_OK && !whole) status = write_json(&tokens, way);
    if (status == ZT_OK && ways[way].pieces && has_scores(&tokens)) status = write_pieces(&tokens);
    zt_str_fini(&tokens.json);
    zt_map_free(tokens.ids);
    zt_free(export->ctx, tokens.text);
    zt_free(export->ctx, tokens.type);
    zt_free(export->ctx, tokens.score);
    return status;
}
