/* hf_vocab.c - owns a tokenizer in GGUF's terms, tokenizer.ggml.*: from tokenizer.model or
 * tokenizer.json, as llama.cpp's converter takes them.
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

#define LLAMA_CLASS HF_PAIRED /* what the converter's class for llama makes */
/* Whose tokenizer.model counts before tokenizer.json. */
#define WITH_PIECES (HF_LLAMA_LIKE & ~HF_SET(HF_OLMO2))

typedef struct tokenizer { /* tokenizer.json, read in two ways */
    hf *m;
    zt_vocab *v;
    const zt_tj *t; /* of v */
    json_t *root;
    void *held;
    zt_arena *texts;
    json_t *config; /* tokenizer_config.json, or NULL */
} tokenizer;

static bool is(zt_bytes a, zt_bytes b)
{
    return a.n == b.n && memcmp(a.data, b.data, a.n) == 0;
}

/* ---- how many -------------------------------------------------------------------------------- */

/* As many tokens as the embedding has rows, else as config.json says, else as there are. */
static zt_status count_rows(hf *m, int64_t there, int64_t *n)
{
    zt_status s = ZT_OK;
    *n = 0;
    for (int64_t i = 0; i < m->tensors->n; i++)
        if (strcmp(m->tensors->list[i].name, "token_embd.weight") == 0)
            *n = m->tensors->list[i].type.dim[0];
    m->embedded = *n > 0;
    if (!m->embedded)
        s = zt_hf_int(m, "vocab_size", n);
    /* no more than an honest file would make room for */
    if (s == ZT_OK && (*n < 1 || *n > there + (1 << 20)))
        *n = there;
    return s;
}

/* ---- special tokens by text ------------------------------------------------------------------ */

static bool text_is(const json_t *v, zt_bytes text)
{
    v = json_is_object(v) ? json_object_get(v, "content") : v;
    return json_is_string(v) && is((zt_bytes){json_string_value(v), json_string_length(v)}, text);
}

/* Does tokenizer_config.json name this one, as bos_token and the like? */
static bool is_named(const tokenizer *k, zt_bytes text)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (text_is(json_object_get(k->config, names[i]), text))
            return true;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const json_t *list = json_object_get(k->config, lists[i]);
        for (size_t j = 0; j < json_array_size(list); j++)
            if (text_is(json_array_get(list, j), text))
                return true;
    }
    return false;
}

/* ---- the ways -------------------------------------------------------------------------------- */

static zt_status set_added(const tokenizer *k, hf_words *w)
{
    zt_status s = ZT_OK;
    for (size_t i = 0; s == ZT_OK && i < k->t->added.count; i++) {
        const zt_added *a = &k->t->added.token[i];
        s = zt_hf_words_add(w, a->id, a->content, a->special, 0);
    }
    return s;
}

static zt_status set_model(const tokenizer *k, hf_words *w)
{
    zt_status s = ZT_OK;
    for (int32_t i = 0; s == ZT_OK && i < k->t->token_count; i++)
        if (k->t->text[i].data)
            s = zt_hf_words_set(w, i, k->t->text[i], HF_WORD_NORMAL, 0);
    return s == ZT_OK ? set_added(k, w) : s;
}

/* A merge is "left right", or since 2024 a pair, whose own spaces are then written as byte-level
 * BPE prints them. */
static zt_status put_merge(zt_str *out, const json_t *merge)
{
    zt_status s = ZT_OK;
    if (json_is_string(merge))
        return zt_str_put(out, json_string_value(merge), json_string_length(merge));
    for (size_t part = 0; part < 2; part++) {
        const json_t *v = json_array_get(merge, part);
        const char *text = json_string_value(v);
        if (part && s == ZT_OK)
            s = zt_str_putc(out, ' ');
        for (size_t i = 0; s == ZT_OK && i < json_string_length(v); i++)
            s = text[i] == ' ' ? zt_str_puts(out, "\xc4\xa0") : zt_str_putc(out, text[i]);
    }
    return s;
}

static zt_status put_merges(const tokenizer *k)
{
    zt_ctx *ctx = k->m->ctx;
    const json_t *merges = json_object_get(json_object_get(k->root, "model"), "merges");
    size_t n = json_array_size(merges);
    zt_str all;
    zt_bytes *one = zt_alloc_array(ctx, n, sizeof *one); /* none is an empty list, not no list */
    zt_status s = one ? ZT_OK : ZT_ENOMEM;
    zt_str_init(&all, ctx);
    for (size_t i = 0; s == ZT_OK && i < n; i++) {
        size_t from = all.len;
        s = put_merge(&all, json_array_get(merges, i));
        one[i].n = all.len - from;
    }
    for (size_t i = 0, at = 0; s == ZT_OK && i < n; at += one[i++].n)
        one[i].data = all.data + at;
    if (s == ZT_OK)
        s = zt_gguf_put_strs(k->m->w, "tokenizer.ggml.merges", one, (int64_t)n);
    zt_str_fini(&all);
    zt_free(ctx, one);
    return s;
}

/* ---- what keys cannot say -------------------------------------------------------------------- */

/* Is what goes around a text on one side BOS (or EOS) alone, or nothing, as the keys have it? */
static bool side_same(const zt_ids *ids, int64_t id, int add, bool usual)
{
    bool on = add < 0 ? usual : add == 1;
    return on && id >= 0 ? ids->count == 1 && ids->id[0] == id : ids->count == 0;
}

/* Added tokens of which GGUF says all: text, and special or not. */
static bool added_plain(const zt_tj *t)
{
    static const char space[] = "\xe2\x96\x81";
    for (size_t i = 0; i < t->added.count; i++) {
        const zt_added *a = &t->added.token[i];
        if (a->single_word || a->lstrip || a->rstrip)
            return false;
        if (!a->special && (zt_hf_looks_special(a->content) ||
                            memmem(a->content.data, a->content.n, space, sizeof space - 1)))
            return false;
    }
    return true;
}

/* Byte-level BPE without normalizers, of patterns that have a name: its keys make the same ids, and
 * tokenizer.json again (hf_back_words.c). */
static bool keys_suffice(const tokenizer *k, const char *pre)
{
    const zt_tj *t = k->t;
    const zt_pre *p = zt_pre_find((zt_bytes){pre, strlen(pre)});
    const json_t *decoder = json_object_get(k->root, "decoder");
    const char *type = json_string_value(json_object_get(decoder, "type"));
    bool model =
        t->unk < 0 && !t->unk_missing && !t->byte_fallback && t->prefix.n == 0 && t->suffix.n == 0;
    return model && t->norm.count == 0 && type && strcmp(type, "ByteLevel") == 0 && added_plain(t) &&
           zt_hf_pre_same(k->root, pre) && side_same(&t->before, k->m->bos, k->m->add_bos, p->add_bos || p->force_bos) &&
           side_same(&t->after, k->m->eos, k->m->add_eos, false);
}

/* BPE of printable bytes. Without a name for its pre-tokenizer nothing is put. */
static zt_status put_gpt2(const tokenizer *k, hf_words *w)
{
    const char *pre;
    zt_status s = zt_hf_pre_name(k->m, k->v, k->root, &pre);
    if (s == ZT_OK && !pre) {
        zt_log(k->m->ctx, ZT_LOG_WARN,
               "%s: its pre-tokenizer has no name in GGUF: the tokenizer goes in whole, as "
               "tokenizer.huggingface.json, which llama.cpp does not read",
               k->m->path);
        return ZT_OK;
    }
    if (s == ZT_OK)
        s = set_model(k, w);
    if (s == ZT_OK)
        s = zt_hf_words_put(w, "gpt2", pre, false);
    if (s == ZT_OK)
        s = put_merges(k);
    if (s == ZT_OK)
        s = zt_hf_put_special(k->m, k->root, -1);
    k->m->keys_suffice = s == ZT_OK && keys_suffice(k, pre);
    return s;
}

/* "##x" goes on a word, and all others open one: GGUF marks these. */
static zt_status mark_openers(hf_words *w)
{
    zt_str text;
    zt_status s = ZT_OK;
    zt_str_init(&text, w->m->ctx);
    for (int64_t i = 0; s == ZT_OK && i < w->n; i++) {
        zt_bytes t = w->text[i];
        if (w->type[i] == HF_WORD_CONTROL)
            continue;
        zt_str_clear(&text);
        if (t.n >= 2 && memcmp(t.data, "##", 2) == 0)
            t = (zt_bytes){t.data + 2, t.n - 2};
        else
            s = zt_str_puts(&text, "\xe2\x96\x81");
        if (s == ZT_OK)
            s = zt_str_put(&text, t.data, t.n);
        if (s == ZT_OK)
            s = zt_hf_words_set(w, i, (zt_bytes){text.data ? text.data : "", text.len},
                                (hf_word)w->type[i], 0);
    }
    zt_str_fini(&text);
    return s;
}

static zt_status put_bert(const tokenizer *k, hf_words *w)
{
    const char *pre;
    zt_status s = zt_hf_pre_name(k->m, k->v, k->root, &pre);
    if (s == ZT_OK)
        s = set_model(k, w);
    if (s == ZT_OK)
        s = mark_openers(w);
    if (s == ZT_OK)
        s = zt_hf_words_put(w, "bert", pre ? pre : "default", false);
    return s == ZT_OK ? zt_hf_put_special(k->m, k->root, w->n) : s;
}

static bool is_byte(zt_bytes t)
{
    return t.n == 6 && memcmp(t.data, "<0x", 3) == 0 && t.data[5] == '>' &&
           strspn(t.data + 3, "0123456789ABCDEFabcdef") == 2;
}

/* SentencePiece's BPE without tokenizer.model: tokenizer.json has no scores, and the converter
 * gives all tokens one. */
static zt_status put_llama(const tokenizer *k, hf_words *w)
{
    const zt_tj *t = k->t;
    zt_status s = ZT_OK;
    for (int32_t i = 0; s == ZT_OK && i < t->token_count; i++) {
        if (!t->text[i].data)
            continue;
        hf_word type = is_byte(t->text[i])       ? HF_WORD_BYTE
                       : is_named(k, t->text[i]) ? HF_WORD_CONTROL
                                                 : HF_WORD_NORMAL;
        s = zt_hf_words_set(w, i, t->text[i], type, -1000);
    }
    for (size_t i = 0; s == ZT_OK && i < t->added.count; i++) {
        const zt_added *a = &t->added.token[i];
        if (a->id >= (int64_t)t->entries)
            s = zt_hf_words_set(w, a->id, a->content,
                                is_named(k, a->content) ? HF_WORD_CONTROL : HF_WORD_USER, -1000);
    }
    if (s == ZT_OK)
        s = zt_hf_words_put(w, "llama", "default", true);
    if (s == ZT_OK && zt_hf_is(k->m, HF_GEMMAS))
        s = zt_gguf_put_int(k->m->w, "tokenizer.ggml.add_space_prefix", ZT_GGUF_BOOL, 0);
    return s == ZT_OK ? zt_hf_put_special(k->m, k->root, w->n) : s;
}

/* ---- Unigram --------------------------------------------------------------------------------- */

static const json_t *charsmap_of(const json_t *normalizer)
{
    const json_t *map = json_object_get(normalizer, "precompiled_charsmap");
    const json_t *list = json_object_get(normalizer, "normalizers");
    for (size_t i = 0; !map && i < json_array_size(list); i++)
        map = charsmap_of(json_array_get(list, i));
    return map;
}

static zt_status put_charsmap(const tokenizer *k)
{
    const json_t *map = charsmap_of(json_object_get(k->root, "normalizer"));
    zt_bytes text = {json_string_value(map), json_string_length(map)};
    if (text.n == 0)
        return ZT_OK;
    char *bytes = zt_alloc(k->m->ctx, text.n);
    size_t n = bytes ? zt_tj_base64(text, bytes) : 0; /* it was read once already: it is good */
    zt_status s = bytes ? zt_gguf_put_array(k->m->w, "tokenizer.ggml.precompiled_charsmap",
                                            ZT_GGUF_U8, bytes, (int64_t)n)
                        : ZT_ENOMEM;
    zt_free(k->m->ctx, bytes);
    return s;
}

static bool config_flag(const tokenizer *k, const char *name, bool otherwise)
{
    const json_t *v = json_object_get(k->config, name);
    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

static zt_status put_unigram(const tokenizer *k, hf_words *w)
{
    const zt_tj *t = k->t;
    zt_status s = set_added(k, w);
    for (int32_t i = 0; s == ZT_OK && i < t->token_count; i++) {
        bool added = w->n > i && (w->type[i] == HF_WORD_CONTROL || w->type[i] == HF_WORD_USER);
        hf_word type = i == t->unk               ? HF_WORD_UNKNOWN
                       : is_named(k, t->text[i]) ? HF_WORD_CONTROL
                       : added                   ? HF_WORD_USER
                                                 : HF_WORD_NORMAL;
        s = zt_hf_words_set(w, i, t->text[i], type, (float)t->score[i]);
    }
    if (s == ZT_OK)
        s = zt_hf_words_put(w, "t5", "default", true);
    if (s == ZT_OK)
        s = zt_gguf_put_int(k->m->w, "tokenizer.ggml.add_space_prefix", ZT_GGUF_BOOL,
                            config_flag(k, "add_prefix_space", true));
    if (s == ZT_OK)
        s = zt_gguf_put_int(k->m->w, "tokenizer.ggml.remove_extra_whitespaces", ZT_GGUF_BOOL,
                            config_flag(k, "clean_up_tokenization_spaces", false));
    if (s == ZT_OK)
        s = put_charsmap(k);
    return s == ZT_OK ? zt_hf_put_special(k->m, k->root, w->n) : s;
}

/* ---- which way ------------------------------------------------------------------------------- */

static bool is_pieces(const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    const char *decoder =
        json_string_value(json_object_get(json_object_get(root, "decoder"), "type"));
    return json_is_true(json_object_get(model, "byte_fallback")) && decoder &&
           strcmp(decoder, "Sequence") == 0;
}

/* Control tokens behind the embedding's rows: the keys have no place for them. */
static void warn_left_out(const tokenizer *k, int64_t rows)
{
    char buf[80];
    for (int64_t id = rows; id < zt_vocab_size(k->v); id++) {
        zt_bytes t = k->v->text[id];
        if (t.n)
            zt_log(k->m->ctx, ZT_LOG_WARN,
                   "%s: token %" PRId64
                   ", '%s', is left out: it has no row in the embedding (%" PRId64 " rows)",
                   k->m->path, id, zt_escape(buf, sizeof buf, t.data, t.n), rows);
    }
}

static zt_status put_json(const tokenizer *k)
{
    static const struct {
        const char *model;
        zt_status (*put)(const tokenizer *k, hf_words *w);
    } ways[] = {{"BPE", put_gpt2}, {"Unigram", put_unigram}, {"WordPiece", put_bert}};
    int64_t n, there = zt_vocab_size(k->v);
    hf_words w;
    zt_status s = count_rows(k->m, there, &n);
    if (s == ZT_OK && k->m->embedded)
        s = zt_vocab_check_rows(k->v, n);
    if (s == ZT_OK)
        s = zt_hf_words_init(&w, k->m, n);
    else
        return s;
    for (size_t i = 0; s == ZT_OK && i < sizeof ways / sizeof *ways; i++)
        if (strcmp(k->t->model->name, ways[i].model) == 0)
            s = i == 0 && is_pieces(k->root) ? put_llama(k, &w) : ways[i].put(k, &w);
    if (s == ZT_OK && k->m->whole && k->m->embedded && k->m->keys_suffice)
        warn_left_out(k, n);
    zt_hf_words_fini(&w);
    return s;
}

static void close_tokenizer(tokenizer *k)
{
    json_decref(k->root);
    json_decref(k->config);
    zt_free(k->m->ctx, k->held);
    zt_vocab_free(k->v);
    zt_arena_free(k->texts);
}

/* The file's text is `text`. */
static zt_status open_tokenizer(tokenizer *k, hf *m, const char *text, size_t n)
{
    zt_status s;
    *k = (tokenizer){.m = m, .texts = zt_arena_new(m->ctx, 0)};
    zt_tj_reader r = {.ctx = m->ctx, .file = m->path, .where = "", .texts = k->texts};
    k->config = zt_hf_load(m, "tokenizer_config.json", &s);
    if (s == ZT_OK && k->texts)
        k->v = zt_vocab_open_json(m->ctx, m->path, text, n);
    if (k->v) {
        k->t = k->v->extra;
        k->root = zt_tj_load(&r, text, n, &k->held);
    }
    return k->root ? ZT_OK : zt_ctx_status(m->ctx);
}

/* The ids that the model itself names. */
static void find_usual(hf *m, const zt_sp_model *sp)
{
    m->ids[0] = zt_sp_control(sp, sp->bos_piece);
    m->ids[1] = zt_sp_control(sp, sp->eos_piece);
    m->ids[2] = sp->unk;
}

static zt_status put_pieces(hf *m, const char *text, size_t n, const tokenizer *k)
{
    int64_t rows;
    hf_words w;
    zt_sp_model sp;
    zt_bytes file = {text, n};
    zt_status s = k->t ? ZT_OK : zt_hf_spm_class(m, k->config);
    if (s != ZT_OK)
        return s;
    s = zt_hf_spm_open(m, &sp, file);
    if (s == ZT_OK && !k->t)
        s = zt_sp_check(&sp);
    if (s == ZT_OK)
        s = count_rows(m, sp.piece_count, &rows);
    if (s != ZT_OK) {
        zt_sp_fini(&sp);
        return s;
    }
    s = zt_hf_words_init(&w, m, rows);
    if (s == ZT_OK)
        s = zt_hf_spm_words(&w, &sp);
    /* phi3: tokenizer.json has the last word */
    for (size_t i = 0; s == ZT_OK && k->t && m->arch.id == HF_PHI3 && i < k->t->added.count; i++) {
        const zt_added *a = &k->t->added.token[i];
        s = zt_hf_words_set(&w, a->id, a->content, a->special ? HF_WORD_CONTROL : HF_WORD_USER,
                            -1000);
    }
    bool llama = sp.type == ZT_SP_BPE;
    if (s == ZT_OK)
        s = zt_hf_words_put(&w, zt_hf_spm_model(&sp), "default", true);
    zt_hf_words_fini(&w);
    bool spaced = m->spaced || zt_hf_is(m, HF_GEMMAS);
    if (s == ZT_OK && !m->spaced && spaced)
        s = zt_gguf_put_int(m->w, "tokenizer.ggml.add_space_prefix", ZT_GGUF_BOOL, 0);
    if (s == ZT_OK && !k->t)
        s = zt_hf_spm_put_keys(m, &sp, file, spaced, k->config);
    if (s == ZT_OK && !llama) /* ggml's defaults for llama are those of the files */
        find_usual(m, &sp);
    if (s == ZT_OK)
        s = zt_hf_put_special(m, k->root, rows);
    if (s == ZT_OK && !k->t)
        s = zt_hf_spm_ends(m, &sp, k->config);
    zt_sp_fini(&sp);
    return s;
}

/* The SentencePiece file that counts; NULL: none. Beside tokenizer.json only some have it. Phi-4 has phi3's layers, and GPT-2's tokenizer. */
static const char *pieces_name(hf *m, const json_t *config, bool alone)
{
    static const char usual[] = "tokenizer.model";
    if (alone)
        return zt_hf_spm_name(m);
    const char *name = json_string_value(json_object_get(config, "tokenizer_class"));
    bool phi4 = zt_hf_is(m, HF_SET(HF_PHI3)) && name && strcmp(name, "GPT2Tokenizer") == 0;
    return zt_hf_has_file(m, usual) && zt_hf_is(m, WITH_PIECES) && !phi4 ? usual : NULL;
}

/* What the converter's class for llama puts before the tokens, and by their number. */
static zt_status put_llama_class(hf *m, const json_t *config)
{
    const json_t *space = json_object_get(config, "add_prefix_space");
    if (!zt_hf_is(m, LLAMA_CLASS) || !json_is_boolean(space))
        return ZT_OK;
    m->spaced = true;
    return zt_gguf_put_int(m->w, "tokenizer.ggml.add_space_prefix", ZT_GGUF_BOOL,
                           json_is_true(space));
}

static char *read_file(hf *m, const char *name, size_t *n, zt_status *s)
{
    if (*s != ZT_OK || !zt_hf_has_file(m, name))
        return NULL;
    const char *path = zt_hf_file(m, name);
    char *text = path ? zt_read_all(m->ctx, path, n) : NULL;
    *s = text ? zt_foreign_fail(m->ctx, path, text, *n) : zt_ctx_status(m->ctx);
    return text;
}

zt_status zt_hf_put_vocab(hf *m)
{
    size_t n = 0, n_pieces = 0;
    zt_status s = ZT_OK;
    tokenizer k = {.m = m};
    char *text = read_file(m, "tokenizer.json", &n, &s);
    if (s == ZT_OK && text)
        s = open_tokenizer(&k, m, text, n);
    else if (s == ZT_OK)
        k.config = zt_hf_load(m, "tokenizer_config.json", &s);
    const char *name = pieces_name(m, k.config, !text);
    char *pieces = name ? read_file(m, name, &n_pieces, &s) : NULL;
    if (s == ZT_OK && (text || pieces))
        s = put_llama_class(m, k.config);
    if (s == ZT_OK && pieces)
        s = put_pieces(m, pieces, n_pieces, &k);
    else if (s == ZT_OK && text)
        s = put_json(&k);
    close_tokenizer(&k);
    zt_free(m->ctx, pieces);
    zt_free(m->ctx, text);
    return s;
}
