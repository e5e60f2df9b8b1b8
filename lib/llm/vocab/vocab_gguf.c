/* vocab_gguf.c - a vocabulary from the tokenizer's keys of a GGUF.
 *
 * Keys and token types: docs/gguf.md of ggml, as facts. Where files leave things open we do what
 * llama.cpp does, so that both make the same ids; the tests compare.
 */
#include "lib/llm/vocab/sentencepiece.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define KEY(name) "tokenizer.ggml." name

typedef struct kind_row { /* and what holds for a kind where the file does not say */
    const char *name; /* tokenizer.ggml.model */
    const zt_vocab_kind *kind;
    int32_t bos, eos, unk;
    bool add_bos, add_eos, add_space;
    bool scores, merges; /* needs them */
    const char *pre;     /* the pre-tokenizer, whatever the file says */
} kind_row;

static const kind_row kinds[] = {
    {.name = "gpt2", .kind = &zt_vocab_gpt2, .bos = -1, .eos = -1, .unk = -1, .merges = true},
    {.name = "gemma4", .kind = &zt_vocab_gpt2, .bos = -1, .eos = -1, .unk = -1, .merges = true,
     .pre = "gemma4"},
    {.name = "llama", .kind = &zt_vocab_llama, .bos = 1, .eos = 2, .unk = 0, .add_bos = true,
     .add_space = true, .scores = true},
    {.name = "t5", .kind = &zt_vocab_t5, .bos = -1, .eos = 1, .unk = 2, .add_eos = true,
     .scores = true},
    {.name = "bert", .kind = &zt_vocab_bert, .bos = 101, .eos = -1, .unk = 100},
    /* word and char models, which ggml has no name for */
    {.name = "sentencepiece", .kind = &zt_vocab_sentencepiece, .bos = -1, .eos = -1, .unk = -1},
};

typedef struct reader { /* one file on its way to a spec */
    zt_ctx *ctx;
    const zt_gguf *g;
    const char *file;
    const char *pre; /* instead of the one that the file names; NULL: the file's */
    const kind_row *row;
    const zt_pre *rules;
    zt_vocab_spec s;
    zt_merge_spec *merge;
    zt_sp_model pieces; /* of a whole tokenizer.model, else no pieces */
} reader;

/* ---- tokens ---------------------------------------------------------------------------------- */

static bool is(zt_bytes name, const char *text)
{
    return strlen(text) == name.n && memcmp(text, name.data, name.n) == 0;
}

static zt_status read_kind(reader *r)
{
    zt_bytes name;
    char buf[80];
    if (!zt_gguf_str(r->g, KEY("model"), &name))
        return zt_fail(r->ctx, ZT_EDATA, "%s: no tokenizer: '" KEY("model") "' is missing",
                       r->file);
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (is(name, kinds[i].name))
            r->row = &kinds[i];
    if (!r->row)
        return zt_fail(r->ctx, ZT_ENOTSUP,
                       "%s: tokenizer '%s' is not known (known: gpt2, llama, t5, bert, gemma4)",
                       r->file, zt_escape(buf, sizeof buf, name.data, name.n));
    r->s.kind = r->row->kind;
    return ZT_OK;
}

/* A whole tokenizer.model says how texts become ids; the other keys add tokens behind its own. */
static zt_status read_pieces(reader *r)
{
    const zt_vocab_kind *kind = r->row->kind;
    if (kind != &zt_vocab_llama && kind != &zt_vocab_t5 && kind != &zt_vocab_sentencepiece)
        return ZT_OK;
    zt_bytes file = zt_sp_of(r->g);
    if (!file.n && kind == &zt_vocab_sentencepiece)
        return zt_fail(r->ctx, ZT_EDATA, "%s: '" ZT_SP_KEY "' is missing", r->file);
    if (!file.n)
        return ZT_OK;
    r->s.kind = &zt_vocab_sentencepiece;
    r->s.extra = &r->pieces;
    zt_status s = zt_sp_read(&r->pieces, r->ctx, r->file, file);
    return s ? s : zt_sp_check(&r->pieces);
}

/* The user's symbols that the model finds itself. */
static zt_status mark_pieces(reader *r)
{
    for (int32_t i = 0; i < r->pieces.n && i < r->s.n; i++) {
        zt_bytes t = r->pieces.piece[i].text;
        if (r->pieces.piece[i].type == ZT_TOK_USER && t.n == r->s.text[i].n &&
            memcmp(t.data, r->s.text[i].data, t.n) == 0)
            r->s.attr[i] |= ZT_TOK_WITHIN;
    }
    return ZT_OK;
}

static zt_status read_texts(reader *r)
{
    const char *key = KEY("tokens");
    int64_t n;
    zt_gguf_kind elem;
    if (!zt_gguf_array(r->g, key, &elem, &n) || elem != ZT_GGUF_STR)
        return zt_fail(r->ctx, ZT_EDATA, "%s: '%s' is missing or no list of texts", r->file, key);
    if (n < 1 || n > INT32_MAX / 4)
        return zt_fail(r->ctx, ZT_EDATA, "%s: %lld tokens, between 1 and %d expected", r->file,
                       (long long)n, INT32_MAX / 4);
    r->s.n = (int32_t)n;
    r->s.text = zt_alloc_array(r->ctx, (size_t)n, sizeof *r->s.text);
    if (!r->s.text)
        return ZT_ENOMEM;
    if (!zt_gguf_array_strs(r->g, key, r->s.text, n))
        return zt_fail(r->ctx, ZT_EDATA, "%s: '%s' cannot be read", r->file, key);
    return ZT_OK;
}

static zt_status copy_types(reader *r, const int64_t *type)
{
    for (int32_t i = 0; i < r->s.n; i++) {
        if (type[i] < 0 || type[i] > ZT_TOK_BYTE)
            return zt_fail(r->ctx, ZT_EDATA, "%s: token %d has type %lld, at most %d is known",
                           r->file, i, (long long)type[i], ZT_TOK_BYTE);
        r->s.attr[i] = type[i] ? (uint16_t)type[i] : ZT_TOK_NORMAL;
    }
    return ZT_OK;
}

static zt_status read_types(reader *r)
{
    const char *key = KEY("token_type");
    int64_t n;
    zt_gguf_kind elem;
    r->s.attr = zt_alloc_array(r->ctx, (size_t)r->s.n, sizeof *r->s.attr);
    if (!r->s.attr)
        return ZT_ENOMEM;
    for (int32_t i = 0; i < r->s.n; i++)
        r->s.attr[i] = ZT_TOK_NORMAL;
    if (!zt_gguf_array(r->g, key, &elem, &n))
        return ZT_OK;
    if (n != r->s.n)
        return zt_fail(r->ctx, ZT_EDATA, "%s: %lld token types for %d tokens", r->file,
                       (long long)n, r->s.n);
    int64_t *type = zt_alloc_array(r->ctx, (size_t)n, sizeof *type);
    if (!type)
        return ZT_ENOMEM;
    zt_status s = zt_gguf_array_i64(r->g, key, type, n)
                      ? copy_types(r, type)
                      : zt_fail(r->ctx, ZT_EDATA, "%s: '%s' is no list of integers", r->file, key);
    zt_free(r->ctx, type);
    return s;
}

static zt_status read_scores(reader *r)
{
    const char *key = KEY("scores");
    int64_t n = 0;
    zt_gguf_kind elem;
    if (!r->row->scores || r->pieces.n)
        return ZT_OK;
    if (!zt_gguf_array(r->g, key, &elem, &n) || n != r->s.n)
        return zt_fail(r->ctx, ZT_EDATA, "%s: '%s' has %lld scores for %d tokens", r->file, key,
                       (long long)n, r->s.n);
    r->s.score = zt_alloc_array(r->ctx, (size_t)n, sizeof *r->s.score);
    if (!r->s.score)
        return ZT_ENOMEM;
    if (!zt_gguf_array_f64(r->g, key, r->s.score, n))
        return zt_fail(r->ctx, ZT_EDATA, "%s: '%s' is no list of numbers", r->file, key);
    return ZT_OK;
}

/* ---- merges ---------------------------------------------------------------------------------- */

/* "left right": the space that parts them is not the first byte. */
static zt_status cut_merge(reader *r, zt_bytes line, int64_t i)
{
    const char *sp = line.n > 1 ? memchr(line.data + 1, ' ', line.n - 1) : NULL;
    char buf[80];
    if (!sp || sp + 1 == line.data + line.n)
        return zt_fail(r->ctx, ZT_EDATA, "%s: merge %lld, '%s', is not two tokens", r->file,
                       (long long)i, zt_escape(buf, sizeof buf, line.data, line.n));
    size_t n = (size_t)(sp - line.data);
    r->merge[i] = (zt_merge_spec){{line.data, n}, {sp + 1, line.n - n - 1}};
    return ZT_OK;
}

static zt_status read_merges(reader *r)
{
    const char *key = KEY("merges");
    zt_gguf_kind elem;
    int64_t n = 0;
    zt_status s = ZT_OK;
    if (!r->row->merges)
        return ZT_OK;
    if (!zt_gguf_array(r->g, key, &elem, &n) || elem != ZT_GGUF_STR)
        return zt_fail(r->ctx, ZT_EDATA, "%s: '%s' is missing or no list of texts", r->file, key);
    if (n > INT32_MAX / 4)
        return zt_fail(r->ctx, ZT_EDATA, "%s: %lld merges are too many", r->file, (long long)n);
    zt_bytes *line = zt_alloc_array(r->ctx, (size_t)n, sizeof *line);
    r->merge = zt_alloc_array(r->ctx, (size_t)n, sizeof *r->merge);
    if (!line || !r->merge)
        s = ZT_ENOMEM;
    else if (!zt_gguf_array_strs(r->g, key, line, n))
        s = zt_fail(r->ctx, ZT_EDATA, "%s: '%s' cannot be read", r->file, key);
    for (int64_t i = 0; !s && i < n; i++)
        s = cut_merge(r, line[i], i);
    zt_free(r->ctx, line);
    r->s.merge = r->merge;
    r->s.n_merges = n;
    return s;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static zt_status read_pre(reader *r)
{
    static const zt_pre none = {0};
    zt_bytes name = {"default", strlen("default")};
    char buf[80];
    r->rules = &none;
    if (!r->row->merges)
        return ZT_OK;
    zt_gguf_str(r->g, KEY("pre"), &name);
    const char *given = r->row->pre ? r->row->pre : r->pre;
    if (given)
        name = (zt_bytes){given, strlen(given)};
    const zt_pre *pre = zt_pre_find(name);
    if (!pre)
        return zt_fail(r->ctx, ZT_ENOTSUP, "%s: pre-tokenizer '%s' is not known", r->file,
                       zt_escape(buf, sizeof buf, name.data, name.n));
    r->rules = pre;
    r->s.rule = pre->rule;
    while (r->s.n_rules < ZT_PRE_RULES && pre->rule[r->s.n_rules].pattern)
        r->s.n_rules++;
    r->s.ignore_merges = pre->ignore_merges;
    r->s.byte_level = !pre->plain;
    return ZT_OK;
}

/* An id named by a key; where the key is absent `def` if there is such a token, else -1. */
static zt_status read_id(const reader *r, const char *key, int32_t def, int32_t *id)
{
    int64_t x;
    *id = def < r->s.n ? def : -1;
    if (!zt_gguf_i64(r->g, key, &x))
        return ZT_OK;
    if (x < 0 || x >= r->s.n)
        return zt_fail(r->ctx, ZT_EDATA, "%s: '%s' is %lld, but there are %d tokens", r->file, key,
                       (long long)x, r->s.n);
    *id = (int32_t)x;
    return ZT_OK;
}

static bool read_flag(const reader *r, const char *key, bool def)
{
    int64_t x;
    return zt_gguf_i64(r->g, key, &x) ? x != 0 : def;
}

/* What goes around a text. A BERT has [CLS] and [SEP] there whatever it says of BOS and EOS. */
static zt_status read_around(reader *r)
{
    zt_vocab_spec *s = &r->s;
    bool bert = s->kind == &zt_vocab_bert;
    int32_t cls, sep;
    zt_status st = read_id(r, KEY("cls_token_id"), s->bos, &cls);
    if (!st)
        st = read_id(r, KEY("seperator_token_id"), 102, &sep); /* so spelt in GGUF */
    if (st)
        return st;
    if (bert) {
        s->bos = s->bos < 0 ? cls : s->bos;
        s->before = (zt_around){{cls}, cls >= 0};
        s->after = (zt_around){{sep}, sep >= 0};
        return ZT_OK;
    }
    bool bos = read_flag(r, KEY("add_bos_token"), r->row->add_bos || r->rules->add_bos);
    bool eos = read_flag(r, KEY("add_eos_token"), r->row->add_eos);
    s->before = (zt_around){{s->bos}, s->bos >= 0 && (bos || r->rules->force_bos)};
    s->after = (zt_around){{s->eos}, s->eos >= 0 && eos};
    return ZT_OK;
}

static zt_status read_rules(reader *r)
{
    const kind_row *k = r->row;
    zt_vocab_spec *s = &r->s;
    const zt_sp_model *p = r->pieces.n ? &r->pieces : NULL;
    int32_t bos = p ? zt_sp_control(p, p->bos_piece) : r->rules->no_bos ? -1 : k->bos;
    zt_status st = read_id(r, KEY("bos_token_id"), bos, &s->bos);
    if (!st)
        st = read_id(r, KEY("eos_token_id"), p ? zt_sp_control(p, p->eos_piece) : k->eos, &s->eos);
    if (!st)
        st = read_id(r, KEY("unknown_token_id"), p ? p->unk : k->unk, &s->unk);
    s->add_space = read_flag(r, KEY("add_space_prefix"), k->add_space);
    r->pieces.prefix_once = !read_flag(r, ZT_SP_LEGACY, true);
    if (r->pieces.prefix_once) /* what tokenizer_config.json says counts, not the file */
        r->pieces.norm.dummy_prefix = true;
    if (!read_flag(r, KEY("add_space_prefix"), true))
        r->pieces.norm.dummy_prefix = false;
    s->merge_spaces = read_flag(r, KEY("remove_extra_whitespaces"), false);
    s->lowercase = read_flag(r, KEY("normalizer.lowercase"), true);
    s->strip_accents = read_flag(r, KEY("normalizer.strip_accents"), s->lowercase);
    return st ? st : read_around(r);
}

/* Every key that names a token must name one that there is. */
static zt_status check_ids(reader *r)
{
    static const char start[] = KEY(""), end[] = "_token_id";
    char buf[80];
    int64_t x;
    for (int64_t i = 0; i < zt_gguf_n_keys(r->g); i++) {
        zt_gguf_kind kind;
        zt_bytes key = zt_gguf_key(r->g, i, &kind);
        bool named = key.n > sizeof start + sizeof end && key.n < sizeof buf &&
                     memcmp(key.data, start, sizeof start - 1) == 0 &&
                     memcmp(key.data + key.n - (sizeof end - 1), end, sizeof end - 1) == 0;
        if (!named)
            continue;
        snprintf(buf, sizeof buf, "%.*s", (int)key.n, key.data);
        if (zt_gguf_i64(r->g, buf, &x) && (x < 0 || x >= r->s.n))
            return zt_fail(r->ctx, ZT_EDATA, "%s: '%s' is %lld, but there are %d tokens", r->file,
                           buf, (long long)x, r->s.n);
    }
    return ZT_OK;
}

/* eos_token_ids: all that end a generation. */
zt_status zt_vocab_ends(zt_ctx *ctx, zt_vocab_spec *s, const zt_gguf *g)
{
    static const char key[] = "tokenizer.ggml.eos_token_ids";
    int64_t n, ids[256];
    zt_gguf_kind elem;
    if (!g || !zt_gguf_array(g, key, &elem, &n))
        return ZT_OK;
    if (n > 256 || !zt_gguf_array_i64(g, key, ids, n))
        return zt_fail(ctx, ZT_EDATA, "%s: '%s' is no list of at most 256 ids", s->file, key);
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= s->n)
            return zt_fail(ctx, ZT_EDATA, "%s: '%s' has %lld, but there are %d tokens", s->file,
                           key, (long long)ids[i], s->n);
        s->attr[ids[i]] |= ZT_TOK_EOG;
    }
    return ZT_OK;
}

/* Tokens that end a generation, beside EOS. */
static zt_status read_ends(reader *r)
{
    static const char *const keys[] = {
        KEY("eot_token_id"),     KEY("eom_token_id"),     KEY("fim_pad_token_id"),
        KEY("fim_rep_token_id"), KEY("fim_sep_token_id"),
    };
    int32_t id;
    for (size_t i = 0; i < COUNT(keys); i++) {
        zt_status s = read_id(r, keys[i], -1, &id);
        if (s)
            return s;
        if (id >= 0)
            r->s.attr[id] |= ZT_TOK_EOG;
    }
    return zt_vocab_ends(r->ctx, &r->s, r->g);
}

static zt_status copy_charsmap(reader *r, int64_t *x, int64_t n)
{
    if (!zt_gguf_array_i64(r->g, KEY("precompiled_charsmap"), x, n))
        return zt_fail(r->ctx, ZT_EDATA,
                       "%s: '" KEY("precompiled_charsmap") "' is no list of bytes", r->file);
    char *bytes = r->s.storage = zt_alloc(r->ctx, (size_t)n);
    if (!bytes)
        return ZT_ENOMEM;
    for (int64_t i = 0; i < n; i++)
        bytes[i] = (char)(unsigned char)x[i];
    r->s.charsmap = (zt_bytes){bytes, (size_t)n};
    return ZT_OK;
}

static zt_status read_charsmap(reader *r)
{
    int64_t n = 0;
    zt_gguf_kind elem;
    if (r->s.kind != &zt_vocab_t5 ||
        !zt_gguf_array(r->g, KEY("precompiled_charsmap"), &elem, &n) || !n)
        return ZT_OK;
    int64_t *x = zt_alloc_array(r->ctx, (size_t)n, sizeof *x);
    zt_status s = x ? copy_charsmap(r, x, n) : ZT_ENOMEM;
    zt_free(r->ctx, x);
    return s;
}

/* Marks the token of this text, if there is one, or takes the mark away. */
static void mark(reader *r, const char *text, uint16_t bit, bool set)
{
    for (int32_t i = 0; i < r->s.n; i++)
        if (is(r->s.text[i], text))
            r->s.attr[i] = (uint16_t)(set ? r->s.attr[i] | bit : r->s.attr[i] & ~bit);
}

/* Does a key's text, in small letters, contain one of these? */
static bool names(const reader *r, const char *key, const char *a, const char *b, const char *c)
{
    zt_bytes t;
    char text[256];
    if (!zt_gguf_str(r->g, key, &t))
        return false;
    size_t n = t.n < sizeof text - 1 ? t.n : sizeof text - 1;
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(t.data[i] >= 'A' && t.data[i] <= 'Z' ? t.data[i] + 32 : t.data[i]);
    text[n] = 0;
    return strstr(text, a) || strstr(text, b) || strstr(text, c);
}

/* Which tokens take blanks with them is in no key: llama.cpp goes by names. */
static zt_status read_strip(reader *r)
{
    if (names(r, KEY("pre"), "jina-v2-de", "jina-v2-es", "jina-v2-code") ||
        names(r, "general.architecture", "nomic-bert-moe", "jina-bert-v3", "jina-bert-v3")) {
        mark(r, "<mask>", ZT_TOK_LSTRIP, true);
    } else if (names(r, "general.name", "phi-3", "phi3", "phi3")) {
        for (int32_t i = 0; i < r->s.n; i++) {
            int type = r->s.attr[i] & ZT_TOK_TYPE_MASK;
            if (type == ZT_TOK_CONTROL || type == ZT_TOK_USER || type == ZT_TOK_UNKNOWN)
                r->s.attr[i] |= ZT_TOK_RSTRIP;
        }
        mark(r, "</s>", ZT_TOK_RSTRIP, true);
        mark(r, "<unk>", ZT_TOK_RSTRIP, false);
        mark(r, "<s>", ZT_TOK_RSTRIP, false);
        mark(r, "<|endoftext|>", ZT_TOK_RSTRIP, false);
    } else if (names(r, "general.name", "modern-bert", "modern-bert", "modern-bert")) {
        mark(r, "[MASK]", ZT_TOK_LSTRIP, true);
    }
    return ZT_OK;
}

/* SentencePiece makes bytes of what it does not know when the vocabulary has them all. */
static zt_status read_fallback(reader *r)
{
    int bytes = 0;
    for (int32_t i = 0; i < r->s.n; i++)
        bytes += (r->s.attr[i] & ZT_TOK_TYPE_MASK) == ZT_TOK_BYTE;
    r->s.byte_fallback = bytes >= 256;
    return ZT_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

zt_vocab *zt_vocab_open_pre(const zt_gguf *g, const char *pre)
{
    static zt_status (*const step[])(reader *) = {
        read_kind, read_pieces, read_texts, read_types,    mark_pieces,   read_pre,    check_ids,
        read_rules, read_ends,  read_strip, read_charsmap, read_fallback, read_scores, read_merges,
    };
    reader r = {.ctx = zt_gguf_ctx(g), .g = g, .file = zt_gguf_name(g), .pre = pre};
    zt_bytes json;
    /* tokenizer.json says all, the keys beside it may not */
    if ((!pre || !zt_gguf_str(g, KEY("model"), &json)) &&
        zt_gguf_str(g, "tokenizer.huggingface.json", &json))
        return zt_vocab_from_json(g, json);
    zt_vocab *v = NULL;
    zt_status s = ZT_OK;
    r.s.file = r.file;
    for (size_t i = 0; !s && i < COUNT(step); i++)
        s = step[i](&r);
    if (!s) {
        v = zt_vocab_from(r.ctx, &r.s);
    } else {
        zt_free(r.ctx, r.s.text);
        zt_free(r.ctx, r.s.attr);
        zt_free(r.ctx, r.s.score);
        zt_free(r.ctx, r.s.storage);
    }
    zt_free(r.ctx, r.merge);
    zt_sp_fini(&r.pieces);
    return v;
}

zt_vocab *zt_vocab_open(const zt_gguf *g)
{
    return zt_vocab_open_pre(g, NULL);
}
