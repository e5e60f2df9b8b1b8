/* vocab_gguf.c - a vocabulary from the tokenizer's keys of a GGUF.
 *
 * Keys and token types: docs/gguf.md of ggml, as facts. Where files leave things open we do what
 * llama.cpp does, so that both make the same ids; the tests compare.
 */
#include "lib/llm/vocab.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define KEY(name) "tokenizer.ggml." name

typedef struct kind_row { /* and what holds for a kind where the file does not say */
    const zt_vocab_kind *kind;
    int32_t bos, eos, unk;
    bool add_bos, add_eos, add_space;
    bool scores, merges; /* needs them */
} kind_row;

static const kind_row kinds[] = {
    {.kind = &zt_vocab_gpt2, .bos = -1, .eos = -1, .unk = -1, .merges = true},
    {.kind = &zt_vocab_llama, .bos = 1, .eos = 2, .unk = 0, .add_bos = true, .add_space = true,
     .scores = true},
};

typedef struct reader { /* one file on its way to a spec */
    zt_ctx *ctx;
    const zt_gguf *g;
    const char *file;
    const char *pre; /* instead of the one that the file names; NULL: the file's */
    const kind_row *row;
    zt_vocab_spec s;
    zt_merge_spec *merge;
} reader;

/* ---- tokens --------------------------------------------------------------------------------------- */

static zt_status read_kind(reader *r)
{
    zt_bytes name;
    char buf[80];
    if (!zt_gguf_str(r->g, KEY("model"), &name))
        return zt_fail(r->ctx, ZT_EDATA, "%s: no tokenizer: '" KEY("model") "' is missing", r->file);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        const char *known = kinds[i].kind->name;
        if (strlen(known) == name.n && memcmp(known, name.data, name.n) == 0)
            r->row = &kinds[i];
    }
    if (!r->row)
        return zt_fail(r->ctx, ZT_ENOTSUP, "%s: tokenizer '%s' is not known (known: gpt2, llama)",
                       r->file, zt_escape(buf, sizeof buf, name.data, name.n));
    r->s.kind = r->row->kind;
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
    if (!r->row->scores)
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

/* ---- merges --------------------------------------------------------------------------------------- */

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

/* ---- rules ---------------------------------------------------------------------------------------- */

static zt_status read_pre(reader *r)
{
    zt_bytes name = {"default", strlen("default")};
    char buf[80];
    if (!r->row->merges)
        return ZT_OK;
    if (r->pre)
        name = (zt_bytes){r->pre, strlen(r->pre)};
    else
        zt_gguf_str(r->g, KEY("pre"), &name);
    const zt_pre *pre = zt_pre_find(name);
    if (!pre)
        return zt_fail(r->ctx, ZT_ENOTSUP, "%s: pre-tokenizer '%s' is not known", r->file,
                       zt_escape(buf, sizeof buf, name.data, name.n));
    r->s.rule = pre->rule;
    while (r->s.n_rules < ZT_PRE_RULES && pre->rule[r->s.n_rules].pattern)
        r->s.n_rules++;
    r->s.ignore_merges = pre->ignore_merges;
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

static zt_status read_rules(reader *r)
{
    const kind_row *k = r->row;
    zt_vocab_spec *s = &r->s;
    zt_status st = read_id(r, KEY("bos_token_id"), k->bos, &s->bos);
    if (!st)
        st = read_id(r, KEY("eos_token_id"), k->eos, &s->eos);
    if (!st)
        st = read_id(r, KEY("unknown_token_id"), k->unk, &s->unk);
    if (s->bos >= 0 && read_flag(r, KEY("add_bos_token"), k->add_bos))
        s->before = (zt_around){{s->bos}, 1};
    if (s->eos >= 0 && read_flag(r, KEY("add_eos_token"), k->add_eos))
        s->after = (zt_around){{s->eos}, 1};
    s->add_space = read_flag(r, KEY("add_space_prefix"), k->add_space);
    s->byte_level = k->merges;
    return st;
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
    return ZT_OK;
}

/* ---- opening -------------------------------------------------------------------------------------- */

zt_vocab *zt_vocab_open_pre(const zt_gguf *g, const char *pre)
{
    static zt_status (*const step[])(reader *) = {read_kind,  read_texts, read_types,  read_pre,
                                                  read_rules, read_ends,  read_scores, read_merges};
    reader r = {.ctx = zt_gguf_ctx(g), .g = g, .file = zt_gguf_name(g), .pre = pre};
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
    }
    zt_free(r.ctx, r.merge);
    return v;
}

zt_vocab *zt_vocab_open(const zt_gguf *g)
{
    return zt_vocab_open_pre(g, NULL);
}
