/* hf_back_words.c - owns tokenizer.json as it is made of tokenizer.ggml.*, where the file does not
 * hold one: BPE with the patterns of vocab_pre.c, SentencePiece's BPE, Unigram and WordPiece; and
 * tokenizer.model of SentencePiece's BPE, for who wants scores.
 *
 * Ids: a token is in the model's own vocabulary unless it was added behind all of those. What the
 * components mean: huggingface/tokenizers, as facts; merges of has_scores pieces as
 * transformers makes them of tokenizer.model (convert_slow_tokenizer.py). */
#include "lib/llm/hf/hf_back_words.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_added(const token_writer *tokens, int64_t id)
{
    return tokens->type[id] == HF_TOKEN_CONTROL || tokens->type[id] == HF_TOKEN_USER;
}

static bool is_pad(const token_writer *tokens, int64_t id)
{
    return tokens->type[id] == HF_TOKEN_UNUSED;
}

/* Added tokens behind the rest may be given ids in order, if none is missing between them. */
static void find_base(token_writer *tokens)
{
    int64_t end = tokens->count;
    while (end > 0 && is_pad(tokens, end - 1))
        end--;
    tokens->first_added = end;
    while (tokens->first_added > 0 && is_added(tokens, tokens->first_added - 1))
        tokens->first_added--;
    if (tokens->first_added == 0)
        tokens->first_added = end;
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
    if (!tokens->text || !tokens->type || !tokens->score || !tokens->ids)
        return ZT_ENOMEM;
    if (!zt_gguf_array_strs(gguf, "tokenizer.ggml.tokens", tokens->text, tokens->count))
        return zt_fail(ctx, ZT_EDATA, "%s: 'tokenizer.ggml.tokens' is no list of texts", tokens->export->file);
    for (int64_t i = 0; i < tokens->count; i++)
        tokens->type[i] = HF_TOKEN_NORMAL;
    zt_gguf_array_i64(gguf, "tokenizer.ggml.token_type", tokens->type, tokens->count);
    zt_gguf_array_f64(gguf, "tokenizer.ggml.scores", tokens->score, tokens->count);
    for (int64_t i = 0; i < tokens->count; i++)
        if (!isfinite(tokens->score[i]))
            return zt_fail(ctx, ZT_EDATA, "%s: the score of token %" PRId64 " is no number", tokens->export->file, i);
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

zt_status put_quoted(zt_str *out, zt_bytes text)
{
    return zt_str_put_json(out, text.data, text.n);
}

static zt_status put_added(token_writer *tokens)
{
    zt_str *out = &tokens->json;
    zt_status status = zt_str_puts(out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,"
                                        "\"added_tokens\":[");
    for (int64_t i = 0, written = 0; status == ZT_OK && i < tokens->count; i++) {
        if (!is_added(tokens, i) && tokens->type[i] != HF_TOKEN_UNKNOWN)
            continue;
        status = zt_str_printf(out, "%s{\"id\":%" PRId64 ",\"content\":", written++ ? "," : "", i);
        if (status == ZT_OK)
            status = put_quoted(out, tokens->text[i]);
        if (status == ZT_OK)
            status = zt_str_printf(out,
                                   ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                                   "\"normalized\":false,\"special\":%s}",
                                   tokens->type[i] == HF_TOKEN_USER ? "false" : "true");
    }
    return status == ZT_OK ? zt_str_putc(out, ']') : status;
}

/* {"text":id,...} of the model's own. */
zt_status put_vocab(token_writer *tokens)
{
    zt_status status = zt_str_puts(&tokens->json, "\"vocab\":{");
    int64_t first;
    for (int64_t i = 0, written = 0; status == ZT_OK && i < tokens->first_added; i++) {
        if (zt_map_get(tokens->ids, tokens->text[i].data, tokens->text[i].n, &first) && first != i)
            continue;
        if (written++)
            status = zt_str_putc(&tokens->json, ',');
        if (status == ZT_OK)
            status = put_quoted(&tokens->json, tokens->text[i]);
        if (status == ZT_OK)
            status = zt_str_printf(&tokens->json, ":%" PRId64, i);
    }
    return status == ZT_OK ? zt_str_putc(&tokens->json, '}') : status;
}

/* ---- what goes around a text ----------------------------------------------------------------- */

int64_t find_around_id(const token_writer *tokens, const char *key, const char *add, int otherwise)
{
    int64_t id, on = otherwise;
    zt_gguf_i64(tokens->export->gguf, add, &on);
    return on && zt_gguf_i64(tokens->export->gguf, key, &id) && id >= 0 && id < tokens->count ? id : -1;
}

static zt_status put_piece(token_writer *tokens, int64_t id, int type_id)
{
    zt_status status = zt_str_puts(&tokens->json, "{\"SpecialToken\":{\"id\":");
    if (status == ZT_OK)
        status = put_quoted(&tokens->json, tokens->text[id]);
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
        if (status == ZT_OK && eos >= 0)
            status = zt_str_putc(&tokens->json, ',');
        if (status == ZT_OK && eos >= 0)
            status = put_piece(tokens, eos, text);
    }
    return status == ZT_OK ? zt_str_putc(&tokens->json, ']') : status;
}

static zt_status put_special(token_writer *tokens, int64_t id, bool more)
{
    zt_status status = put_quoted(&tokens->json, tokens->text[id]);
    if (status == ZT_OK)
        status = zt_str_puts(&tokens->json, ":{\"id\":");
    if (status == ZT_OK)
        status = put_quoted(&tokens->json, tokens->text[id]);
    if (status == ZT_OK)
        status = zt_str_printf(&tokens->json, ",\"ids\":[%" PRId64 "],\"tokens\":[", id);
    if (status == ZT_OK)
        status = put_quoted(&tokens->json, tokens->text[id]);
    return status == ZT_OK ? zt_str_puts(&tokens->json, more ? "]}," : "]}") : status;
}

/* Where nothing is put around: the converter reads of ByteLevel that nothing is to be; null does
 * not say. */
const char *empty_post_processor(const token_writer *tokens, const char *level)
{
    int64_t value;
    bool said = zt_gguf_i64(tokens->export->gguf, "tokenizer.ggml.add_bos_token", &value) &&
                zt_gguf_i64(tokens->export->gguf, "tokenizer.ggml.add_eos_token", &value);
    return said ? level : "null";
}

/* `"post_processor":...,`: `otherwise` where nothing is put around. */
zt_status put_post_processor(token_writer *tokens, int64_t bos, int64_t eos, const char *otherwise)
{
    zt_status status = zt_str_puts(&tokens->json, "\"post_processor\":");
    if (bos < 0 && eos < 0)
        return status == ZT_OK ? zt_str_printf(&tokens->json, "%s,", otherwise) : status;
    if (status == ZT_OK)
        status = zt_str_puts(&tokens->json, "{\"type\":\"TemplateProcessing\",\"single\":");
    if (status == ZT_OK)
        status = put_template(tokens, bos, eos, 1);
    if (status == ZT_OK)
        status = zt_str_puts(&tokens->json, ",\"pair\":");
    if (status == ZT_OK)
        status = put_template(tokens, bos, eos, 2);
    if (status == ZT_OK)
        status = zt_str_puts(&tokens->json, ",\"special_tokens\":{");
    bool two = eos >= 0 && eos != bos;
    if (status == ZT_OK && bos >= 0)
        status = put_special(tokens, bos, two);
    if (status == ZT_OK && two)
        status = put_special(tokens, eos, false);
    return status == ZT_OK ? zt_str_puts(&tokens->json, "}},") : status;
}

/* ---- which ----------------------------------------------------------------------------------- */

static const struct {
    const char *model;
    zt_status (*put)(token_writer *w);
    bool pieces; /* SentencePiece has a file for it */
} ways[] = {{"gpt2", put_gpt2_model, false},
            {"llama", put_llama_model, true},
            {"bert", put_bert_model, false},
            {"t5", put_unigram_model, false}};

static int way_of(hf_export *export)
{
    zt_bytes model = {"", 0};
    char text[96];
    zt_gguf_str(export->gguf, "tokenizer.ggml.model", &model);
    for (int i = 0; i < (int)(sizeof ways / sizeof *ways); i++)
        if (strlen(ways[i].model) == model.n && memcmp(ways[i].model, model.data, model.n) == 0)
            return i;
    zt_fail(export->ctx, ZT_ENOTSUP, "%s: tokenizer '%s' has no form in tokenizer.json", export->file,
            zt_escape(text, sizeof text, model.data, model.n));
    return -1;
}

static zt_status write_json(token_writer *tokens, int way)
{
    zt_arena *texts = zt_arena_new(tokens->export->ctx, 0);
    zt_status status = texts ? ZT_OK : ZT_ENOMEM;
    if (status == ZT_OK && ways[way].put == put_bert_model)
        status = convert_wordpiece_marks(tokens, texts);
    if (status == ZT_OK)
        status = index_words(tokens);
    if (status == ZT_OK)
        status = put_added(tokens);
    if (status == ZT_OK)
        status = ways[way].put(tokens);
    if (status == ZT_OK)
        status = zt_str_puts(&tokens->json, "}}\n");
    if (status == ZT_OK)
        status = zt_export_file(tokens->export, "tokenizer.json", tokens->json.data, tokens->json.len);
    zt_arena_free(texts);
    return status;
}

static zt_status write_pieces(token_writer *tokens)
{
    zt_str out;
    zt_str_init(&out, tokens->export->ctx);
    int64_t count = tokens->count;
    while (count > 0 && is_pad(tokens, count - 1))
        count--;
    int bytes = 0;
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < count; i++)
        bytes += tokens->type[i] == HF_TOKEN_BYTE;
    for (int64_t i = 0; status == ZT_OK && i < count; i++)
        status = zt_hf_spm_put(&out, tokens->text[i], (float)tokens->score[i], (hf_token_type)tokens->type[i]);
    if (status == ZT_OK)
        status = zt_hf_spm_end(&out, bytes == 256);
    if (status == ZT_OK)
        status = zt_export_file(tokens->export, "tokenizer.model", out.data, out.len);
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
    int way = way_of(export);
    if (way < 0)
        return zt_ctx_status(export->ctx);
    zt_str_init(&tokens.json, export->ctx);
    zt_status status = read_words(&tokens);
    if (status == ZT_OK && !whole)
        status = write_json(&tokens, way);
    if (status == ZT_OK && ways[way].pieces && has_scores(&tokens))
        status = write_pieces(&tokens);
    zt_str_fini(&tokens.json);
    zt_map_free(tokens.ids);
    zt_free(export->ctx, tokens.text);
    zt_free(export->ctx, tokens.type);
    zt_free(export->ctx, tokens.score);
    return status;
}
