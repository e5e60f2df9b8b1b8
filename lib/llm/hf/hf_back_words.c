/* hf_back_words.c - owns tokenizer.json as it is made of tokenizer.ggml.*, where the file does not
 * hold one: BPE with the patterns of vocab_pre.c, SentencePiece's BPE, Unigram and WordPiece; and
 * tokenizer.model of SentencePiece's BPE, for who wants scores.
 *
 * Ids: a token is in the model's own vocabulary unless it was added behind all of those. What the
 * components mean: huggingface/tokenizers, as facts; merges of zt_words_scored pieces as
 * transformers makes them of tokenizer.model (convert_slow_tokenizer.py). */
#include "lib/llm/hf/hf_back_words.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_added(const words *w, int64_t i)
{
    return w->type[i] == HF_WORD_CONTROL || w->type[i] == HF_WORD_USER;
}

static bool is_pad(const words *w, int64_t i)
{
    return w->type[i] == HF_WORD_UNUSED;
}

/* Added tokens behind the rest may be given ids in order, if none is missing between them. */
static void find_base(words *w)
{
    int64_t end = w->n;
    while (end > 0 && is_pad(w, end - 1))
        end--;
    w->base = end;
    while (w->base > 0 && is_added(w, w->base - 1))
        w->base--;
    if (w->base == 0)
        w->base = end;
}

static zt_status read_words(words *w)
{
    const zt_gguf *g = w->b->g;
    zt_ctx *ctx = w->b->ctx;
    zt_gguf_kind elem;
    if (!zt_gguf_array(g, "tokenizer.ggml.tokens", &elem, &w->n) || w->n < 1 ||
        w->n > INT32_MAX / 4)
        return zt_fail(ctx, ZT_EDATA, "%s: 'tokenizer.ggml.tokens' is missing", w->b->file);
    w->text = zt_calloc(ctx, (size_t)w->n, sizeof *w->text);
    w->type = zt_calloc(ctx, (size_t)w->n, sizeof *w->type);
    w->score = zt_calloc(ctx, (size_t)w->n, sizeof *w->score);
    w->ids = zt_map_new(ctx, (size_t)w->n);
    if (!w->text || !w->type || !w->score || !w->ids)
        return ZT_ENOMEM;
    if (!zt_gguf_array_strs(g, "tokenizer.ggml.tokens", w->text, w->n))
        return zt_fail(ctx, ZT_EDATA, "%s: 'tokenizer.ggml.tokens' is no list of texts",
                       w->b->file);
    for (int64_t i = 0; i < w->n; i++)
        w->type[i] = HF_WORD_NORMAL;
    zt_gguf_array_i64(g, "tokenizer.ggml.token_type", w->type, w->n);
    zt_gguf_array_f64(g, "tokenizer.ggml.scores", w->score, w->n);
    for (int64_t i = 0; i < w->n; i++)
        if (!isfinite(w->score[i]))
            return zt_fail(ctx, ZT_EDATA, "%s: the score of token %" PRId64 " is no number",
                           w->b->file, i);
    find_base(w);
    return ZT_OK;
}

static zt_status index_words(words *w)
{
    zt_status s = ZT_OK;
    for (int64_t i = 0; s == ZT_OK && i < w->base; i++)
        if (!zt_map_get(w->ids, w->text[i].data, w->text[i].n, NULL))
            s = zt_map_put(w->ids, w->text[i].data, w->text[i].n, i);
    for (int64_t i = w->base; s == ZT_OK && (int64_t)zt_map_count(w->ids) < w->base && i < w->n;
         i++)
        if (!is_pad(w, i)) /* a text twice: what comes behind would be given other ids */
            w->base = i + 1;
    return s;
}

/* ---- JSON, written as it goes: a vocabulary is long ------------------------------------------ */

zt_status zt_words_quoted(zt_str *out, zt_bytes t)
{
    return zt_str_put_json(out, t.data, t.n);
}

static zt_status put_added(words *w)
{
    zt_str *out = &w->json;
    zt_status s = zt_str_puts(out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,"
                                   "\"added_tokens\":[");
    for (int64_t i = 0, n = 0; s == ZT_OK && i < w->n; i++) {
        if (!is_added(w, i) && w->type[i] != HF_WORD_UNKNOWN)
            continue;
        s = zt_str_printf(out, "%s{\"id\":%" PRId64 ",\"content\":", n++ ? "," : "", i);
        if (s == ZT_OK)
            s = zt_words_quoted(out, w->text[i]);
        if (s == ZT_OK)
            s = zt_str_printf(out,
                              ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                              "\"normalized\":false,\"special\":%s}",
                              w->type[i] == HF_WORD_USER ? "false" : "true");
    }
    return s == ZT_OK ? zt_str_putc(out, ']') : s;
}

/* {"text":id,...} of the model's own. */
zt_status zt_words_vocab(words *w)
{
    zt_status s = zt_str_puts(&w->json, "\"vocab\":{");
    int64_t first;
    for (int64_t i = 0, n = 0; s == ZT_OK && i < w->base; i++) {
        if (zt_map_get(w->ids, w->text[i].data, w->text[i].n, &first) && first != i)
            continue;
        if (n++)
            s = zt_str_putc(&w->json, ',');
        if (s == ZT_OK)
            s = zt_words_quoted(&w->json, w->text[i]);
        if (s == ZT_OK)
            s = zt_str_printf(&w->json, ":%" PRId64, i);
    }
    return s == ZT_OK ? zt_str_putc(&w->json, '}') : s;
}

/* ---- what goes around a text ----------------------------------------------------------------- */

int64_t zt_words_around_id(const words *w, const char *key, const char *add, int otherwise)
{
    int64_t id, on = otherwise;
    zt_gguf_i64(w->b->g, add, &on);
    return on && zt_gguf_i64(w->b->g, key, &id) && id >= 0 && id < w->n ? id : -1;
}

static zt_status put_piece(words *w, int64_t id, int type_id)
{
    zt_status s = zt_str_puts(&w->json, "{\"SpecialToken\":{\"id\":");
    if (s == ZT_OK)
        s = zt_words_quoted(&w->json, w->text[id]);
    return s == ZT_OK ? zt_str_printf(&w->json, ",\"type_id\":%d}}", type_id) : s;
}

/* Of one text, or of two. The second has a BOS of its own if the file says anything of what parts
 * the two. */
static zt_status put_template(words *w, int64_t bos, int64_t eos, int texts)
{
    zt_status s = zt_str_putc(&w->json, '[');
    bool any = false, parted = zt_gguf_i64(w->b->g, "tokenizer.ggml.add_sep_token", &(int64_t){0});
    for (int t = 0; s == ZT_OK && t < texts; t++) {
        if (bos >= 0 && (t == 0 || (eos < 0 && parted))) {
            s = any ? zt_str_putc(&w->json, ',') : ZT_OK;
            s = s == ZT_OK ? put_piece(w, bos, t) : s;
            any = true;
        }
        if (s == ZT_OK)
            s = zt_str_printf(&w->json, "%s{\"Sequence\":{\"id\":\"%c\",\"type_id\":%d}}",
                              any ? "," : "", 'A' + t, t);
        any = true;
        if (s == ZT_OK && eos >= 0)
            s = zt_str_putc(&w->json, ',');
        if (s == ZT_OK && eos >= 0)
            s = put_piece(w, eos, t);
    }
    return s == ZT_OK ? zt_str_putc(&w->json, ']') : s;
}

static zt_status put_special(words *w, int64_t id, bool more)
{
    zt_status s = zt_words_quoted(&w->json, w->text[id]);
    if (s == ZT_OK)
        s = zt_str_puts(&w->json, ":{\"id\":");
    if (s == ZT_OK)
        s = zt_words_quoted(&w->json, w->text[id]);
    if (s == ZT_OK)
        s = zt_str_printf(&w->json, ",\"ids\":[%" PRId64 "],\"tokens\":[", id);
    if (s == ZT_OK)
        s = zt_words_quoted(&w->json, w->text[id]);
    return s == ZT_OK ? zt_str_puts(&w->json, more ? "]}," : "]}") : s;
}

/* Where nothing is put around: the converter reads of ByteLevel that nothing is to be; null does
 * not say. */
const char *zt_words_nothing(const words *w, const char *level)
{
    int64_t v;
    bool said = zt_gguf_i64(w->b->g, "tokenizer.ggml.add_bos_token", &v) &&
                zt_gguf_i64(w->b->g, "tokenizer.ggml.add_eos_token", &v);
    return said ? level : "null";
}

/* `"post_processor":...,`: `otherwise` where nothing is put around. */
zt_status zt_words_around(words *w, int64_t bos, int64_t eos, const char *otherwise)
{
    zt_status s = zt_str_puts(&w->json, "\"post_processor\":");
    if (bos < 0 && eos < 0)
        return s == ZT_OK ? zt_str_printf(&w->json, "%s,", otherwise) : s;
    if (s == ZT_OK)
        s = zt_str_puts(&w->json, "{\"type\":\"TemplateProcessing\",\"single\":");
    if (s == ZT_OK)
        s = put_template(w, bos, eos, 1);
    if (s == ZT_OK)
        s = zt_str_puts(&w->json, ",\"pair\":");
    if (s == ZT_OK)
        s = put_template(w, bos, eos, 2);
    if (s == ZT_OK)
        s = zt_str_puts(&w->json, ",\"special_tokens\":{");
    bool two = eos >= 0 && eos != bos;
    if (s == ZT_OK && bos >= 0)
        s = put_special(w, bos, two);
    if (s == ZT_OK && two)
        s = put_special(w, eos, false);
    return s == ZT_OK ? zt_str_puts(&w->json, "}},") : s;
}

/* ---- which ----------------------------------------------------------------------------------- */

static const struct {
    const char *model;
    zt_status (*put)(words *w);
    bool pieces; /* SentencePiece has a file for it */
} ways[] = {{"gpt2", zt_words_gpt2, false},
            {"llama", zt_words_llama, true},
            {"bert", zt_words_bert, false},
            {"t5", zt_words_unigram, false}};

static int way_of(hf_back *b)
{
    zt_bytes model = {"", 0};
    char text[96];
    zt_gguf_str(b->g, "tokenizer.ggml.model", &model);
    for (int i = 0; i < (int)(sizeof ways / sizeof *ways); i++)
        if (strlen(ways[i].model) == model.n && memcmp(ways[i].model, model.data, model.n) == 0)
            return i;
    zt_fail(b->ctx, ZT_ENOTSUP, "%s: tokenizer '%s' has no form in tokenizer.json", b->file,
            zt_escape(text, sizeof text, model.data, model.n));
    return -1;
}

static zt_status write_json(words *w, int way)
{
    zt_arena *texts = zt_arena_new(w->b->ctx, 0);
    zt_status s = texts ? ZT_OK : ZT_ENOMEM;
    if (s == ZT_OK && ways[way].put == zt_words_bert)
        s = zt_words_turn_marks(w, texts);
    if (s == ZT_OK)
        s = index_words(w);
    if (s == ZT_OK)
        s = put_added(w);
    if (s == ZT_OK)
        s = ways[way].put(w);
    if (s == ZT_OK)
        s = zt_str_puts(&w->json, "}}\n");
    if (s == ZT_OK)
        s = zt_back_write(w->b, "tokenizer.json", w->json.data, w->json.len);
    zt_arena_free(texts);
    return s;
}

static zt_status write_pieces(words *w)
{
    zt_str out;
    zt_str_init(&out, w->b->ctx);
    int64_t n = w->n;
    while (n > 0 && is_pad(w, n - 1))
        n--;
    int bytes = 0;
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < n; i++)
        bytes += w->type[i] == HF_WORD_BYTE;
    for (int64_t i = 0; s == ZT_OK && i < n; i++)
        s = zt_hf_spm_put(&out, w->text[i], (float)w->score[i], (hf_word)w->type[i]);
    if (s == ZT_OK)
        s = zt_hf_spm_end(&out, bytes == 256);
    if (s == ZT_OK)
        s = zt_back_write(w->b, "tokenizer.model", out.data, out.len);
    zt_str_fini(&out);
    return s;
}

zt_status zt_back_words(hf_back *b)
{
    words w = {.b = b};
    zt_bytes json;
    zt_bytes pieces = zt_sp_of(b->g);
    bool whole = zt_gguf_str(b->g, "tokenizer.huggingface.json", &json);
    if (pieces.n && !whole) /* says all: a tokenizer.json would say less */
        return zt_back_write(b, "tokenizer.model", pieces.data, pieces.n);
    int way = way_of(b);
    if (way < 0)
        return zt_ctx_status(b->ctx);
    zt_str_init(&w.json, b->ctx);
    zt_status s = read_words(&w);
    if (s == ZT_OK && !whole)
        s = write_json(&w, way);
    if (s == ZT_OK && ways[way].pieces && zt_words_scored(&w))
        s = write_pieces(&w);
    zt_str_fini(&w.json);
    zt_map_free(w.ids);
    zt_free(b->ctx, w.text);
    zt_free(b->ctx, w.type);
    zt_free(b->ctx, w.score);
    return s;
}
