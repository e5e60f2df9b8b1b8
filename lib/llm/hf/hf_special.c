/* hf_special.c - owns special tokens in GGUF's terms: which they are, and what is put around texts.
 *
 * Of tokenizer_config.json, tokenizer.json's post-processor and added tokens, and config.json, the
 * first that knows has the word. Facts: SpecialVocab of llama.cpp's gguf-py/gguf/vocab.py. */
#include "lib/llm/hf/hf.h"

#include <stdio.h>
#include <string.h>

enum { BOS, EOS, UNK, SEP, PAD, CLS, MASK, EOT, EOM, KINDS };
static const hf_special kinds[KINDS] = {
    [BOS] = {"bos", "bos"},       [EOS] = {"eos", "eos"}, [UNK] = {"unk", "unknown"},
    [SEP] = {"sep", "seperator"}, /* so spelt in GGUF */
    [PAD] = {"pad", "padding"},   [CLS] = {"cls", NULL},  [MASK] = {"mask", "mask"},
    [EOT] = {"eot", "eot"},       [EOM] = {"eom", "eom"}};

const hf_special *zt_hf_specials(size_t *n)
{
    *n = KINDS;
    return kinds;
}

typedef struct special {
    hf *m;
    const json_t *tokenizer;
    json_t *config;          /* tokenizer_config.json, or NULL */
    const char *text[KINDS]; /* NULL: none */
    int64_t id[KINDS];       /* -1 */
    int add[KINDS];          /* of BOS, EOS, SEP: -1 nothing is said, 0, 1 */
    int kinds;               /* how many are looked for */
    int64_t n_tokens;
} special;

/* ---- what is said of them -------------------------------------------------------------------- */

static const char *content(const json_t *v)
{
    return json_string_value(json_is_object(v) ? json_object_get(v, "content") : v);
}

static const char *piece_token(const json_t *piece)
{
    return json_string_value(json_object_get(json_object_get(piece, "SpecialToken"), "id"));
}

static bool same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

/* A post-processor's first token is BOS, or takes its place where there is none. */
static void see_first(special *sp, const char *first)
{
    if (!same(first, sp->text[BOS]) && !same(first, sp->text[CLS])) {
        if (!sp->text[BOS])
            sp->text[BOS] = first;
        if (!sp->text[CLS])
            sp->text[CLS] = first;
    }
    sp->add[BOS] = same(first, sp->text[BOS]) || same(first, sp->text[CLS]);
}

/* Its last one is EOS; another one that was called so ends a turn. */
static void see_last(special *sp, const char *last)
{
    if (!same(last, sp->text[EOS])) {
        if (sp->kinds <= EOT) {
            sp->text[EOT] = sp->text[EOS];
            sp->kinds = EOT + 1;
        } else if (sp->kinds <= EOM) {
            sp->text[EOM] = sp->text[EOS];
            sp->kinds = EOM + 1;
        }
        sp->text[EOS] = last;
    }
    sp->add[EOS] = 1;
}

/* What stands between two texts: is it the separator (or EOS)? */
static void see_pair(special *sp, const json_t *pair, const char *first, const char *last)
{
    size_t n = json_array_size(pair), from = 0, to = n;
    if (n == 0)
        return;
    if (first && same(piece_token(json_array_get(pair, 0)), first))
        from = 1;
    if (last && same(piece_token(json_array_get(pair, n - 1)), last))
        to = n - 1;
    if (to < from + 3)
        return;
    const json_t *a = json_object_get(json_array_get(pair, from), "Sequence");
    const json_t *b = json_object_get(json_array_get(pair, to - 1), "Sequence");
    if (!same(json_string_value(json_object_get(a, "id")), "A") ||
        !same(json_string_value(json_object_get(b, "id")), "B"))
        return;
    const char *one = piece_token(json_array_get(pair, from + 1));
    const char *two = to - from == 4 ? piece_token(json_array_get(pair, from + 2)) : NULL;
    bool sep = (same(one, sp->text[SEP]) || same(one, sp->text[EOS])) && !last;
    sep = sep || same(two, sp->text[SEP]) || same(two, sp->text[EOS]);
    sp->add[SEP] = sep;
    if (sep && !sp->text[SEP])
        sp->text[SEP] = sp->text[EOS];
}

static void see_template(special *sp, const json_t *p)
{
    const json_t *single = json_object_get(p, "single");
    size_t n = json_array_size(single);
    const char *first = n > 1 ? piece_token(json_array_get(single, 0)) : NULL;
    const char *last = n > 1 ? piece_token(json_array_get(single, n - 1)) : NULL;
    if (first)
        see_first(sp, first);
    if (last)
        see_last(sp, last);
    see_pair(sp, json_object_get(p, "pair"), first, last);
}

static void see_roberta(special *sp, const json_t *p)
{
    const json_t *cls = json_array_get(json_object_get(p, "cls"), 0);
    const json_t *sep = json_array_get(json_object_get(p, "sep"), 0);
    sp->add[BOS] = sp->add[EOS] = sp->add[SEP] = 1;
    if (!sp->text[CLS])
        sp->text[CLS] = cls ? json_string_value(cls) : sp->text[BOS];
    if (!sp->text[SEP])
        sp->text[SEP] = sep ? json_string_value(sep) : sp->text[EOS];
}

static void see_byte_level(special *sp, const json_t *p)
{
    (void)p;
    for (int i = BOS; i <= EOS; i++)
        sp->add[i] = sp->add[i] < 0 ? 0 : sp->add[i];
}

static void see_processor(special *sp, const json_t *p)
{
    static const struct {
        const char *type;
        void (*see)(special *sp, const json_t *p);
    } rows[] = {{"ByteLevel", see_byte_level},
                {"RobertaProcessing", see_roberta},
                {"TemplateProcessing", see_template}};
    const char *type = json_string_value(json_object_get(p, "type"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (same(type, rows[i].type))
            rows[i].see(sp, p);
}

static void see_tokenizer(special *sp)
{
    const json_t *p = json_object_get(sp->tokenizer, "post_processor");
    const json_t *list = json_object_get(p, "processors");
    if (!sp->text[BOS])
        sp->text[BOS] = sp->text[CLS];
    if (!sp->text[EOS])
        sp->text[EOS] = sp->text[SEP];
    if (!list)
        see_processor(sp, p);
    for (size_t i = 0; i < json_array_size(list); i++)
        see_processor(sp, json_array_get(list, i));
}

/* ---- ids ------------------------------------------------------------------------------------- */

static int64_t added_id(const json_t *tokenizer, const char *text)
{
    const json_t *added = json_object_get(tokenizer, "added_tokens");
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *one = json_array_get(added, i), *id = json_object_get(one, "id");
        if (same(json_string_value(json_object_get(one, "content")), text) && json_is_integer(id))
            return json_integer_value(id);
    }
    return -1;
}

static void set_id(special *sp, int i, int64_t id)
{
    if (sp->id[i] < 0 && id >= 0 && id <= INT32_MAX && (sp->n_tokens < 0 || id < sp->n_tokens))
        sp->id[i] = id;
}

static void find_ids(special *sp)
{
    for (int i = 0; i < sp->kinds; i++) {
        char name[32];
        snprintf(name, sizeof name, "add_%s_token", kinds[i].name);
        const json_t *add = json_object_get(sp->config, name);
        if (sp->config && json_is_boolean(add) && sp->add[i] < 0)
            sp->add[i] = json_is_true(add);
        if (sp->config && sp->text[i])
            set_id(sp, i, added_id(sp->tokenizer, sp->text[i]));
        snprintf(name, sizeof name, "%s_token_id", kinds[i].name);
        const json_t *v = zt_hf_get(sp->m, name);
        if (json_is_integer(v))
            set_id(sp, i, json_integer_value(v));
        if (i <= UNK)
            set_id(sp, i, sp->m->ids[i]);
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

static zt_status put_ids(const special *sp)
{
    static const int added[] = {BOS, EOS, SEP};
    char key[64];
    zt_status s = ZT_OK;
    for (int i = 0; s == ZT_OK && i < KINDS; i++) {
        if (sp->id[i] < 0 || !kinds[i].key)
            continue;
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", kinds[i].key);
        s = zt_gguf_put_int(sp->m->w, key, ZT_GGUF_U32, sp->id[i]);
    }
    for (size_t i = 0; s == ZT_OK && i < sizeof added / sizeof *added; i++) {
        if (sp->add[added[i]] < 0)
            continue;
        snprintf(key, sizeof key, "tokenizer.ggml.add_%s_token", kinds[added[i]].name);
        s = zt_gguf_put_int(sp->m->w, key, ZT_GGUF_BOOL, sp->add[added[i]]);
    }
    return s;
}

/* What a normalizer says of case and accents, -1: nothing. */
static void see_normalizer(const json_t *n, int *lower, int *strip)
{
    const char *type = json_string_value(json_object_get(n, "type"));
    const json_t *list = json_object_get(n, "normalizers");
    const json_t *a = json_object_get(n, "lowercase"), *b = json_object_get(n, "strip_accents");
    bool bert = same(type, "BertNormalizer");
    if (same(type, "Lowercase") || (bert && json_is_true(a)))
        *lower = 1;
    else if (bert && json_is_false(a))
        *lower = 0;
    if (same(type, "StripAccents") || (bert && json_is_true(b)))
        *strip = 1;
    else if (bert && json_is_false(b))
        *strip = 0;
    for (size_t i = 0; same(type, "Sequence") && i < json_array_size(list); i++)
        see_normalizer(json_array_get(list, i), lower, strip);
}

static zt_status put_normalizer(const special *sp)
{
    int lower = -1, strip = -1;
    zt_status s = ZT_OK;
    see_normalizer(json_object_get(sp->tokenizer, "normalizer"), &lower, &strip);
    if (lower >= 0)
        s = zt_gguf_put_int(sp->m->w, "tokenizer.ggml.normalizer.lowercase", ZT_GGUF_BOOL, lower);
    if (s == ZT_OK && strip >= 0)
        s = zt_gguf_put_int(sp->m->w, "tokenizer.ggml.normalizer.strip_accents", ZT_GGUF_BOOL,
                            strip);
    return s;
}

/* By the number of tokens: granite's code models and CodeLlama, as the converter has it. */
static void see_size(special *sp)
{
    int64_t n = 32000;
    if (!zt_hf_is(sp->m, HF_PAIRED) || zt_hf_int(sp->m, "vocab_size", &n) != ZT_OK)
        return;
    if (n == 49152)
        sp->add[BOS] = 0;
    if (n == 32016)
        set_id(sp, EOT, 32010);
}

zt_status zt_hf_put_special(hf *m, const json_t *tokenizer, int64_t n_tokens)
{
    zt_status s;
    special sp = {.m = m, .tokenizer = tokenizer, .n_tokens = n_tokens, .kinds = EOT};
    sp.config = zt_hf_load(m, "tokenizer_config.json", &s);
    if (s != ZT_OK)
        return s;
    for (int i = 0; i < KINDS; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s_token", kinds[i].name);
        sp.text[i] = i < EOT ? content(json_object_get(sp.config, name)) : NULL;
        sp.id[i] = sp.add[i] = -1;
    }
    if (tokenizer)
        see_tokenizer(&sp);
    find_ids(&sp);
    see_size(&sp);
    m->bos = sp.id[BOS];
    m->eos = sp.id[EOS];
    m->add_bos = sp.add[BOS];
    m->add_eos = sp.add[EOS];
    s = put_ids(&sp);
    if (s == ZT_OK)
        s = put_normalizer(&sp);
    json_decref(sp.config);
    return s;
}
