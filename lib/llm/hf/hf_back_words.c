/* hf_back_words.c - owns tokenizer.json as it is made of tokenizer.ggml.*, where the file does not
 * hold one: BPE with the patterns of vocab_pre.c, SentencePiece's BPE, Unigram and WordPiece; and
 * tokenizer.model of SentencePiece's BPE, for who wants scores.
 *
 * Ids: a token is in the model's own vocabulary unless it was added behind all of those. What the
 * components mean: huggingface/tokenizers, as facts; merges of scored pieces as transformers makes
 * them of tokenizer.model (convert_slow_tokenizer.py). */
#include "lib/llm/hf/hf_back.h"
#include "lib/llm/vocab/vocab.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE "\xe2\x96\x81" /* U+2581 */

typedef struct words {
    hf_back *b;
    int64_t n, base; /* ids from base on are added tokens only */
    zt_bytes *text;
    int64_t *type;
    double *score;
    zt_map *ids; /* text -> id, the first of each */
    zt_str json;
} words;

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
    if (!zt_gguf_array(g, "tokenizer.ggml.tokens", &elem, &w->n) || w->n < 1 || w->n > INT32_MAX / 4)
        return zt_fail(ctx, ZT_EDATA, "%s: 'tokenizer.ggml.tokens' is missing", w->b->file);
    w->text = zt_calloc(ctx, (size_t)w->n, sizeof *w->text);
    w->type = zt_calloc(ctx, (size_t)w->n, sizeof *w->type);
    w->score = zt_calloc(ctx, (size_t)w->n, sizeof *w->score);
    w->ids = zt_map_new(ctx, (size_t)w->n);
    if (!w->text || !w->type || !w->score || !w->ids)
        return ZT_ENOMEM;
    if (!zt_gguf_array_strs(g, "tokenizer.ggml.tokens", w->text, w->n))
        return zt_fail(ctx, ZT_EDATA, "%s: 'tokenizer.ggml.tokens' is no list of texts", w->b->file);
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
    for (int64_t i = w->base; s == ZT_OK && (int64_t)zt_map_count(w->ids) < w->base && i < w->n; i++)
        if (!is_pad(w, i)) /* a text twice: what comes behind would be given other ids */
            w->base = i + 1;
    return s;
}

/* ---- JSON, written as it goes: a vocabulary is long ------------------------------------------ */

static zt_status put_quoted(zt_str *out, zt_bytes t)
{
    return zt_str_put_json(out, t.data, t.n);
}

static zt_bytes bytes_of(const char *text)
{
    return (zt_bytes){text, strlen(text)};
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
            s = put_quoted(out, w->text[i]);
        if (s == ZT_OK)
            s = zt_str_printf(out, ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                                   "\"normalized\":false,\"special\":%s}",
                              w->type[i] == HF_WORD_USER ? "false" : "true");
    }
    return s == ZT_OK ? zt_str_putc(out, ']') : s;
}

/* {"text":id,...} of the model's own. */
static zt_status put_vocab(words *w)
{
    zt_status s = zt_str_puts(&w->json, "\"vocab\":{");
    int64_t first;
    for (int64_t i = 0, n = 0; s == ZT_OK && i < w->base; i++) {
        if (zt_map_get(w->ids, w->text[i].data, w->text[i].n, &first) && first != i)
            continue;
        if (n++)
            s = zt_str_putc(&w->json, ',');
        if (s == ZT_OK)
            s = put_quoted(&w->json, w->text[i]);
        if (s == ZT_OK)
            s = zt_str_printf(&w->json, ":%" PRId64, i);
    }
    return s == ZT_OK ? zt_str_putc(&w->json, '}') : s;
}

/* ---- what goes around a text ----------------------------------------------------------------- */

static int64_t around_id(const words *w, const char *key, const char *add, int otherwise)
{
    int64_t id, on = otherwise;
    zt_gguf_i64(w->b->g, add, &on);
    return on && zt_gguf_i64(w->b->g, key, &id) && id >= 0 && id < w->n ? id : -1;
}

static zt_status put_piece(words *w, int64_t id, int type_id)
{
    zt_status s = zt_str_puts(&w->json, "{\"SpecialToken\":{\"id\":");
    if (s == ZT_OK)
        s = put_quoted(&w->json, w->text[id]);
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
    zt_status s = put_quoted(&w->json, w->text[id]);
    if (s == ZT_OK)
        s = zt_str_puts(&w->json, ":{\"id\":");
    if (s == ZT_OK)
        s = put_quoted(&w->json, w->text[id]);
    if (s == ZT_OK)
        s = zt_str_printf(&w->json, ",\"ids\":[%" PRId64 "],\"tokens\":[", id);
    if (s == ZT_OK)
        s = put_quoted(&w->json, w->text[id]);
    return s == ZT_OK ? zt_str_puts(&w->json, more ? "]}," : "]}") : s;
}

/* Where nothing is put around: the converter reads of ByteLevel that nothing is to be; null does not
 * say. */
static const char *nothing_around(const words *w, const char *level)
{
    int64_t v;
    bool said = zt_gguf_i64(w->b->g, "tokenizer.ggml.add_bos_token", &v) &&
                zt_gguf_i64(w->b->g, "tokenizer.ggml.add_eos_token", &v);
    return said ? level : "null";
}

/* `"post_processor":...,`: `otherwise` where nothing is put around. */
static zt_status put_around(words *w, int64_t bos, int64_t eos, const char *otherwise)
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

/* ---- byte-level BPE -------------------------------------------------------------------------- */

#define LEVEL                                                                                      \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":%s}"

static zt_status put_pre(words *w, const zt_pre *p, zt_bytes name)
{
    zt_status s = zt_str_puts(&w->json, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; s == ZT_OK && i < ZT_PRE_RULES && p->rule[i].pattern; i++) {
        if (p->rule[i].how != ZT_SPLIT_ISOLATED || p->plain)
            return zt_fail(w->b->ctx, ZT_ENOTSUP,
                           "%s: pre-tokenizer '%.*s' has no form in tokenizer.json", w->b->file,
                           (int)name.n, name.data);
        s = zt_str_puts(&w->json, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
        if (s == ZT_OK)
            s = put_quoted(&w->json, bytes_of(p->rule[i].pattern));
        if (s == ZT_OK)
            s = zt_str_puts(&w->json, "},\"behavior\":\"Isolated\",\"invert\":false},");
    }
    return s == ZT_OK ? zt_str_printf(&w->json, LEVEL "]},", "false") : s;
}

static zt_status put_merges(words *w)
{
    int64_t n = 0;
    zt_gguf_kind elem;
    const char *key = "tokenizer.ggml.merges";
    if (!zt_gguf_array(w->b->g, key, &elem, &n) || elem != ZT_GGUF_STR)
        n = 0;
    zt_bytes *merge = zt_alloc_array(w->b->ctx, (size_t)n + 1, sizeof *merge);
    zt_status s = merge ? zt_str_puts(&w->json, ",\"merges\":[") : ZT_ENOMEM;
    if (s == ZT_OK && n)
        zt_gguf_array_strs(w->b->g, key, merge, n);
    for (int64_t i = 0; s == ZT_OK && i < n; i++) {
        if (i)
            s = zt_str_putc(&w->json, ',');
        if (s == ZT_OK)
            s = put_quoted(&w->json, merge[i]);
    }
    zt_free(w->b->ctx, merge);
    return s == ZT_OK ? zt_str_putc(&w->json, ']') : s;
}

static zt_status put_gpt2(words *w)
{
    zt_bytes name = {"default", 7};
    zt_gguf_str(w->b->g, "tokenizer.ggml.pre", &name);
    const zt_pre *p = zt_pre_find(name);
    char text[96];
    if (!p)
        return zt_fail(w->b->ctx, ZT_ENOTSUP, "%s: pre-tokenizer '%s' is not known", w->b->file,
                       zt_escape(text, sizeof text, name.data, name.n));
    int64_t bos = around_id(w, "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token",
                            p->add_bos || p->force_bos);
    int64_t eos = around_id(w, "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token", 0);
    snprintf(text, sizeof text, LEVEL, "true");
    zt_status s = zt_str_puts(&w->json, ",\"normalizer\":null,");
    if (s == ZT_OK)
        s = put_pre(w, p, name);
    if (s == ZT_OK)
        s = put_around(w, bos, eos, nothing_around(w, text));
    if (s == ZT_OK)
        s = zt_str_printf(&w->json,
                          "\"decoder\":%s,\"model\":{\"type\":\"BPE\",\"dropout\":null,"
                          "\"unk_token\":null,\"continuing_subword_prefix\":null,"
                          "\"end_of_word_suffix\":null,\"fuse_unk\":false,"
                          "\"byte_fallback\":false,\"ignore_merges\":%s,",
                          text, p->ignore_merges ? "true" : "false");
    if (s == ZT_OK)
        s = put_vocab(w);
    return s == ZT_OK ? put_merges(w) : s;
}

/* ---- SentencePiece's BPE --------------------------------------------------------------------- */

typedef struct merge {
    double score;
    int64_t id;
    size_t left; /* bytes of the token's text */
} merge;

/* The best score first; of one token the shorter left part. */
static int by_score(const void *a, const void *b)
{
    const merge *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->left < y->left ? -1 : x->left > y->left;
}

static bool merges_to(const words *w, int64_t i, size_t left)
{
    zt_bytes t = w->text[i];
    int64_t id;
    return ((unsigned char)t.data[left] & 0xc0) != 0x80 &&
           zt_map_get(w->ids, t.data, left, &id) && w->type[id] == HF_WORD_NORMAL &&
           zt_map_get(w->ids, t.data + left, t.n - left, &id) && w->type[id] == HF_WORD_NORMAL;
}

/* Of an honest length: a token is looked at once for each of its bytes. */
static bool is_piece(const words *w, int64_t i)
{
    return w->type[i] == HF_WORD_NORMAL && w->text[i].n <= 1024;
}

/* Into list (NULL: only counted) every way in which two tokens make one. */
static int64_t find_merges(const words *w, merge *list)
{
    int64_t n = 0;
    for (int64_t i = 0; i < w->base; i++)
        for (size_t left = 1; is_piece(w, i) && left < w->text[i].n; left++)
            if (merges_to(w, i, left)) {
                if (list)
                    list[n] = (merge){w->score[i], i, left};
                n++;
            }
    return n;
}

static zt_status put_piece_merges(words *w)
{
    int64_t n = find_merges(w, NULL);
    merge *list = zt_alloc_array(w->b->ctx, (size_t)n + 1, sizeof *list);
    zt_status s = list ? zt_str_puts(&w->json, ",\"merges\":[") : ZT_ENOMEM;
    if (s == ZT_OK)
        qsort(list, (size_t)find_merges(w, list), sizeof *list, by_score);
    for (int64_t i = 0; s == ZT_OK && i < n; i++) {
        zt_bytes t = w->text[list[i].id];
        s = zt_str_puts(&w->json, i ? ",[" : "[");
        if (s == ZT_OK)
            s = put_quoted(&w->json, (zt_bytes){t.data, list[i].left});
        if (s == ZT_OK)
            s = zt_str_putc(&w->json, ',');
        if (s == ZT_OK)
            s = put_quoted(&w->json, (zt_bytes){t.data + list[i].left, t.n - list[i].left});
        if (s == ZT_OK)
            s = zt_str_putc(&w->json, ']');
    }
    zt_free(w->b->ctx, list);
    return s == ZT_OK ? zt_str_putc(&w->json, ']') : s;
}

/* One score for all, as the converter gives without tokenizer.model: no merges can be had of it. */
static bool scored(const words *w)
{
    double some = 0;
    bool any = false;
    for (int64_t i = 0; i < w->n; i++) {
        if (w->type[i] != HF_WORD_NORMAL)
            continue;
        if (any && w->score[i] != some)
            return true;
        some = w->score[i];
        any = true;
    }
    return false;
}

static zt_status put_unk(words *w, int64_t unk)
{
    zt_status s = zt_str_puts(&w->json, "\"unk_token\":");
    if (s == ZT_OK)
        s = unk >= 0 ? put_quoted(&w->json, w->text[unk]) : zt_str_puts(&w->json, "null");
    return s == ZT_OK ? zt_str_putc(&w->json, ',') : s;
}

static int64_t unknown_of(const words *w, int64_t otherwise)
{
    int64_t id = otherwise;
    zt_gguf_i64(w->b->g, "tokenizer.ggml.unknown_token_id", &id);
    return id >= 0 && id < w->n ? id : -1;
}

static zt_status put_llama(words *w)
{
    int64_t space = 1, bytes = 0;
    if (!scored(w))
        return zt_fail(w->b->ctx, ZT_ENOTSUP,
                       "%s: the tokens have no scores: no tokenizer.json can be made of them",
                       w->b->file);
    for (int64_t i = 0; i < w->n; i++)
        bytes += w->type[i] == HF_WORD_BYTE;
    zt_gguf_i64(w->b->g, "tokenizer.ggml.add_space_prefix", &space);
    int64_t bos = around_id(w, "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token", 1);
    int64_t eos = around_id(w, "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token", 0);
    zt_status s = zt_str_printf(
        &w->json,
        ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s{\"type\":\"Replace\","
        "\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"}]},\"pre_tokenizer\":null,",
        space ? "{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"}," : "");
    if (s == ZT_OK)
        s = put_around(w, bos, eos, "null");
    if (s == ZT_OK)
        s = zt_str_printf(
            &w->json,
            "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":"
            "{\"String\":\"" SPACE "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},"
            "{\"type\":\"Fuse\"}%s]},\"model\":{\"type\":\"BPE\",\"dropout\":null,",
            space ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}" : "");
    if (s == ZT_OK)
        s = put_unk(w, unknown_of(w, 0));
    if (s == ZT_OK)
        s = zt_str_printf(&w->json,
                          "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
                          "\"fuse_unk\":%s,\"byte_fallback\":%s,\"ignore_merges\":false,",
                          bytes ? "true" : "false", bytes ? "true" : "false");
    if (s == ZT_OK)
        s = put_vocab(w);
    return s == ZT_OK ? put_piece_merges(w) : s;
}

/* ---- WordPiece ------------------------------------------------------------------------------- */

/* GGUF marks what opens a word, tokenizer.json what goes on. */
static zt_status turn_marks(words *w, zt_arena *texts)
{
    size_t k = strlen(SPACE);
    for (int64_t i = 0; i < w->n; i++) {
        zt_bytes t = w->text[i];
        if (w->type[i] == HF_WORD_CONTROL)
            continue;
        if (t.n >= k && memcmp(t.data, SPACE, k) == 0) {
            w->text[i] = (zt_bytes){t.data + k, t.n - k};
            continue;
        }
        char *more = zt_arena_alloc(texts, t.n + 2);
        if (!more)
            return ZT_ENOMEM;
        memcpy(more, "##", 2);
        memcpy(more + 2, t.data, t.n);
        w->text[i] = (zt_bytes){more, t.n + 2};
    }
    return ZT_OK;
}

static zt_status put_bert(words *w)
{
    int64_t lower = 1, strip = -1;
    zt_gguf_i64(w->b->g, "tokenizer.ggml.normalizer.lowercase", &lower);
    zt_gguf_i64(w->b->g, "tokenizer.ggml.normalizer.strip_accents", &strip);
    int64_t cls = 101, sep = 102; /* as vocab_gguf.c has it */
    zt_gguf_i64(w->b->g, "tokenizer.ggml.bos_token_id", &cls);
    zt_gguf_i64(w->b->g, "tokenizer.ggml.cls_token_id", &cls);
    zt_gguf_i64(w->b->g, "tokenizer.ggml.seperator_token_id", &sep);
    zt_status s = zt_str_printf(
        &w->json,
        ",\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,"
        "\"handle_chinese_chars\":true,\"strip_accents\":%s,\"lowercase\":%s},"
        "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},",
        strip < 0 ? "null" : strip ? "true" : "false", lower ? "true" : "false");
    if (s == ZT_OK)
        s = put_around(w, cls >= 0 && cls < w->n ? cls : -1, sep >= 0 && sep < w->n ? sep : -1,
                       "null");
    if (s == ZT_OK)
        s = zt_str_puts(&w->json, "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\","
                                  "\"cleanup\":true},\"model\":{\"type\":\"WordPiece\",");
    if (s == ZT_OK)
        s = put_unk(w, unknown_of(w, 100));
    if (s == ZT_OK)
        s = zt_str_puts(&w->json, "\"continuing_subword_prefix\":\"##\","
                                  "\"max_input_chars_per_word\":100,");
    return s == ZT_OK ? put_vocab(w) : s;
}

/* ---- Unigram --------------------------------------------------------------------------------- */

static zt_status put_base64(zt_str *out, const unsigned char *p, size_t n)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    zt_status s = ZT_OK;
    for (size_t i = 0; s == ZT_OK && i < n; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (uint32_t)(i + 1 < n ? p[i + 1] : 0) << 8 |
                     (uint32_t)(i + 2 < n ? p[i + 2] : 0);
        char four[4] = {digit[v >> 18], digit[v >> 12 & 63], i + 1 < n ? digit[v >> 6 & 63] : '=',
                        i + 2 < n ? digit[v & 63] : '='};
        s = zt_str_put(out, four, 4);
    }
    return s;
}

/* SentencePiece's map, and one space for many where the file says so. */
static zt_status put_normalizers(words *w)
{
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    int64_t n = 0, extra = 0;
    zt_gguf_kind elem;
    zt_gguf_i64(w->b->g, "tokenizer.ggml.remove_extra_whitespaces", &extra);
    bool map = zt_gguf_array(w->b->g, key, &elem, &n) && n > 0;
    int64_t *v = zt_alloc_array(w->b->ctx, (size_t)n + 1, sizeof *v);
    unsigned char *bytes = zt_alloc(w->b->ctx, (size_t)n + 1);
    zt_status s = v && bytes ? zt_str_puts(&w->json, ",\"normalizer\":{\"type\":\"Sequence\","
                                                     "\"normalizers\":[")
                             : ZT_ENOMEM;
    if (s == ZT_OK && map && zt_gguf_array_i64(w->b->g, key, v, n)) {
        for (int64_t i = 0; i < n; i++)
            bytes[i] = (unsigned char)v[i];
        s = zt_str_puts(&w->json, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
        if (s == ZT_OK)
            s = put_base64(&w->json, bytes, (size_t)n);
        if (s == ZT_OK)
            s = zt_str_puts(&w->json, extra ? "\"}," : "\"}");
    }
    if (s == ZT_OK && extra)
        s = zt_str_puts(&w->json, "{\"type\":\"Replace\",\"pattern\":{\"Regex\":"
                                  "\"\\\\A +| +\\\\z\"},\"content\":\"\"},"
                                  "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},"
                                  "\"content\":\" \"}");
    zt_free(w->b->ctx, v);
    zt_free(w->b->ctx, bytes);
    return s == ZT_OK ? zt_str_puts(&w->json, "]},") : s;
}

static zt_status put_scored(words *w)
{
    zt_status s = zt_str_puts(&w->json, "\"vocab\":[");
    for (int64_t i = 0; s == ZT_OK && i < w->base; i++) {
        s = zt_str_puts(&w->json, i ? ",[" : "[");
        if (s == ZT_OK)
            s = put_quoted(&w->json, w->text[i]);
        if (s == ZT_OK)
            s = zt_str_printf(&w->json, ",%.9g]", w->score[i]);
    }
    return s == ZT_OK ? zt_str_putc(&w->json, ']') : s;
}

static zt_status put_unigram(words *w)
{
    int64_t space = 0, unk = unknown_of(w, 2);
    zt_gguf_i64(w->b->g, "tokenizer.ggml.add_space_prefix", &space);
    int64_t bos = around_id(w, "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token", 0);
    int64_t eos = around_id(w, "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token", 1);
    zt_status s = put_normalizers(w);
    for (int i = 0; s == ZT_OK && i < 2; i++)
        s = zt_str_printf(&w->json,
                          "\"%s\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE "\","
                          "\"prepend_scheme\":\"%s\",\"split\":true},",
                          i ? "decoder" : "pre_tokenizer", space ? "always" : "never");
    if (s == ZT_OK)
        s = put_around(w, bos, eos, "null");
    if (s == ZT_OK)
        s = zt_str_printf(&w->json,
                          "\"model\":{\"type\":\"Unigram\",\"unk_id\":%" PRId64
                          ",\"byte_fallback\":false,",
                          unk);
    return s == ZT_OK ? put_scored(w) : s;
}

/* ---- which ----------------------------------------------------------------------------------- */

static const struct {
    const char *model;
    zt_status (*put)(words *w);
    bool pieces; /* SentencePiece has a file for it */
} ways[] = {{"gpt2", put_gpt2, false},
            {"llama", put_llama, true},
            {"bert", put_bert, false},
            {"t5", put_unigram, false}};

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
    if (s == ZT_OK && ways[way].put == put_bert)
        s = turn_marks(w, texts);
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
    zt_status s = ZT_OK;
    for (int64_t i = 0; s == ZT_OK && i < n; i++)
        s = zt_hf_spm_put(&out, w->text[i], (float)w->score[i], (hf_word)w->type[i]);
    if (s == ZT_OK)
        s = zt_hf_spm_end(&out);
    if (s == ZT_OK)
        s = zt_back_write(w->b, "tokenizer.model", out.data, out.len);
    zt_str_fini(&out);
    return s;
}

zt_status zt_back_words(hf_back *b)
{
    words w = {.b = b};
    zt_bytes json;
    int way = way_of(b);
    bool whole = zt_gguf_str(b->g, "tokenizer.huggingface.json", &json);
    if (way < 0)
        return zt_ctx_status(b->ctx);
    zt_str_init(&w.json, b->ctx);
    zt_status s = read_words(&w);
    if (s == ZT_OK && !whole)
        s = write_json(&w, way);
    if (s == ZT_OK && ways[way].pieces && scored(&w))
        s = write_pieces(&w);
    zt_str_fini(&w.json);
    zt_map_free(w.ids);
    zt_free(b->ctx, w.text);
    zt_free(b->ctx, w.type);
    zt_free(b->ctx, w.score);
    return s;
}
