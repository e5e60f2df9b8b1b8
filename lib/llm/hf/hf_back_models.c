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

static zt_bytes bytes_of(const char *text)
{
    return (zt_bytes){text, strlen(text)};
}

static zt_status put_pre(words *w, const zt_pre *p, zt_bytes name)
{
    zt_status s =
        zt_str_puts(&w->json, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; s == ZT_OK && i < ZT_PRE_RULES && p->rule[i].pattern; i++) {
        if (p->rule[i].behavior != ZT_SPLIT_ISOLATED || p->plain)
            return zt_fail(w->b->ctx, ZT_ENOTSUP,
                           "%s: pre-tokenizer '%.*s' has no form in tokenizer.json", w->b->file,
                           (int)name.n, name.data);
        s = zt_str_puts(&w->json, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
        if (s == ZT_OK)
            s = zt_words_quoted(&w->json, bytes_of(p->rule[i].pattern));
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
            s = zt_words_quoted(&w->json, merge[i]);
    }
    zt_free(w->b->ctx, merge);
    return s == ZT_OK ? zt_str_putc(&w->json, ']') : s;
}

zt_status zt_words_gpt2(words *w)
{
    zt_bytes name = {"default", 7};
    zt_gguf_str(w->b->g, "tokenizer.ggml.pre", &name);
    const zt_pre *p = zt_pre_find(name);
    char text[96];
    if (!p)
        return zt_fail(w->b->ctx, ZT_ENOTSUP, "%s: pre-tokenizer '%s' is not known", w->b->file,
                       zt_escape(text, sizeof text, name.data, name.n));
    int64_t bos = zt_words_around_id(w, "tokenizer.ggml.bos_token_id",
                                     "tokenizer.ggml.add_bos_token", p->add_bos || p->force_bos);
    int64_t eos =
        zt_words_around_id(w, "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token", 0);
    snprintf(text, sizeof text, LEVEL, "true");
    zt_status s = zt_str_puts(&w->json, ",\"normalizer\":null,");
    if (s == ZT_OK)
        s = put_pre(w, p, name);
    if (s == ZT_OK)
        s = zt_words_around(w, bos, eos, zt_words_nothing(w, text));
    if (s == ZT_OK)
        s = zt_str_printf(&w->json,
                          "\"decoder\":%s,\"model\":{\"type\":\"BPE\",\"dropout\":null,"
                          "\"unk_token\":null,\"continuing_subword_prefix\":null,"
                          "\"end_of_word_suffix\":null,\"fuse_unk\":false,"
                          "\"byte_fallback\":false,\"ignore_merges\":%s,",
                          text, p->ignore_merges ? "true" : "false");
    if (s == ZT_OK)
        s = zt_words_vocab(w);
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
    return ((unsigned char)t.data[left] & 0xc0) != 0x80 && zt_map_get(w->ids, t.data, left, &id) &&
           w->type[id] == HF_WORD_NORMAL && zt_map_get(w->ids, t.data + left, t.n - left, &id) &&
           w->type[id] == HF_WORD_NORMAL;
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
            s = zt_words_quoted(&w->json, (zt_bytes){t.data, list[i].left});
        if (s == ZT_OK)
            s = zt_str_putc(&w->json, ',');
        if (s == ZT_OK)
            s = zt_words_quoted(&w->json, (zt_bytes){t.data + list[i].left, t.n - list[i].left});
        if (s == ZT_OK)
            s = zt_str_putc(&w->json, ']');
    }
    zt_free(w->b->ctx, list);
    return s == ZT_OK ? zt_str_putc(&w->json, ']') : s;
}

/* One score for all, as the converter gives without tokenizer.model: no merges can be had of it. */
bool zt_words_scored(const words *w)
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
        s = unk >= 0 ? zt_words_quoted(&w->json, w->text[unk]) : zt_str_puts(&w->json, "null");
    return s == ZT_OK ? zt_str_putc(&w->json, ',') : s;
}

static int64_t unknown_of(const words *w, int64_t otherwise)
{
    int64_t id = otherwise;
    zt_gguf_i64(w->b->g, "tokenizer.ggml.unknown_token_id", &id);
    return id >= 0 && id < w->n ? id : -1;
}

zt_status zt_words_llama(words *w)
{
    int64_t space = 1, bytes = 0;
    if (!zt_words_scored(w))
        return zt_fail(w->b->ctx, ZT_ENOTSUP,
                       "%s: the tokens have no scores: no tokenizer.json can be made of them",
                       w->b->file);
    for (int64_t i = 0; i < w->n; i++)
        bytes += w->type[i] == HF_WORD_BYTE;
    zt_gguf_i64(w->b->g, "tokenizer.ggml.add_space_prefix", &space);
    int64_t bos =
        zt_words_around_id(w, "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token", 1);
    int64_t eos =
        zt_words_around_id(w, "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token", 0);
    zt_status s = zt_str_printf(
        &w->json,
        ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s{\"type\":\"Replace\","
        "\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"}]},\"pre_tokenizer\":null,",
        space ? "{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"}," : "");
    if (s == ZT_OK)
        s = zt_words_around(w, bos, eos, "null");
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
        s = zt_words_vocab(w);
    return s == ZT_OK ? put_piece_merges(w) : s;
}

/* ---- WordPiece ------------------------------------------------------------------------------- */

/* GGUF marks what opens a word, tokenizer.json what goes on. */
zt_status zt_words_turn_marks(words *w, zt_arena *texts)
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

zt_status zt_words_bert(words *w)
{
    int64_t lower = 1, strip = -1;
    zt_gguf_i64(w->b->g, "tokenizer.ggml.normalizer.lowercase", &lower);
    zt_gguf_i64(w->b->g, "tokenizer.ggml.normalizer.strip_accents", &strip);
    int64_t cls = 101, sep = 102; /* as vocab_gguf.c has it */
    zt_gguf_i64(w->b->g, "tokenizer.ggml.bos_token_id", &cls);
    zt_gguf_i64(w->b->g, "tokenizer.ggml.cls_token_id", &cls);
    zt_gguf_i64(w->b->g, "tokenizer.ggml.seperator_token_id", &sep);
    zt_status s =
        zt_str_printf(&w->json,
                      ",\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,"
                      "\"handle_chinese_chars\":true,\"strip_accents\":%s,\"lowercase\":%s},"
                      "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},",
                      strip < 0 ? "null"
                      : strip   ? "true"
                                : "false",
                      lower ? "true" : "false");
    if (s == ZT_OK)
        s = zt_words_around(w, cls >= 0 && cls < w->n ? cls : -1, sep >= 0 && sep < w->n ? sep : -1,
                            "null");
    if (s == ZT_OK)
        s = zt_str_puts(&w->json, "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\","
                                  "\"cleanup\":true},\"model\":{\"type\":\"WordPiece\",");
    if (s == ZT_OK)
        s = put_unk(w, unknown_of(w, 100));
    if (s == ZT_OK)
        s = zt_str_puts(&w->json, "\"continuing_subword_prefix\":\"##\","
                                  "\"max_input_chars_per_word\":100,");
    return s == ZT_OK ? zt_words_vocab(w) : s;
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
            s = zt_words_quoted(&w->json, w->text[i]);
        if (s == ZT_OK)
            s = zt_str_printf(&w->json, ",%.9g]", w->score[i]);
    }
    return s == ZT_OK ? zt_str_putc(&w->json, ']') : s;
}

zt_status zt_words_unigram(words *w)
{
    int64_t space = 0, unk = unknown_of(w, 2);
    zt_gguf_i64(w->b->g, "tokenizer.ggml.add_space_prefix", &space);
    int64_t bos =
        zt_words_around_id(w, "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token", 0);
    int64_t eos =
        zt_words_around_id(w, "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token", 1);
    zt_status s = put_normalizers(w);
    for (int i = 0; s == ZT_OK && i < 2; i++)
        s = zt_str_printf(&w->json,
                          "\"%s\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE "\","
                          "\"prepend_scheme\":\"%s\",\"split\":true},",
                          i ? "decoder" : "pre_tokenizer", space ? "always" : "never");
    if (s == ZT_OK)
        s = zt_words_around(w, bos, eos, "null");
    if (s == ZT_OK)
        s = zt_str_printf(
            &w->json,
            "\"model\":{\"type\":\"Unigram\",\"unk_id\":%" PRId64 ",\"byte_fallback\":false,", unk);
    return s == ZT_OK ? put_scored(w) : s;
}
