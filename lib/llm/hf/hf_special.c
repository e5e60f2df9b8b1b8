/* hf_special.c - special tokens in GGUF's terms: which they are, and what is put around texts.
 *
 * Of tokenizer_config.json, tokenizer.json's post-processor and added tokens, and config.json, the
 * first that knows has the word. Facts: SpecialVocab of llama.cpp's gguf-py/gguf/vocab.py. */
#include "lib/llm/hf/hf.h"

#include <stdio.h>
#include <string.h>

enum { BOS, EOS, UNK, SEP, PAD, CLS, MASK, EOT, EOM, KINDS };
static const hf_special kinds[KINDS] = {[BOS] = {"bos", "bos"},       [EOS] = {"eos", "eos"}, [UNK] = {"unk", "unknown"},
                                        [SEP] = {"sep", "seperator"}, /* so spelt in GGUF */
                                        [PAD] = {"pad", "padding"},   [CLS] = {"cls", NULL},  [MASK] = {"mask", "mask"},
                                        [EOT] = {"eot", "eot"},       [EOM] = {"eom", "eom"}};

const hf_special *zt_hf_specials(size_t *count)
{
    *count = KINDS;
    return kinds;
}

typedef struct special_tokens {
    hf_import *import;
    const json_t *tokenizer;
    json_t *config;          /* tokenizer_config.json, or NULL */
    const char *text[KINDS]; /* NULL: none */
    int64_t id[KINDS];       /* -1 */
    int add[KINDS];          /* of BOS, EOS, SEP: -1 nothing is said, 0, 1 */
    int kinds;               /* how many are looked for */
    int64_t n_tokens;
} special_tokens;

/* ---- what is said of them -------------------------------------------------------------------- */

static const char *token_content(const json_t *value)
{
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

static const char *piece_token(const json_t *piece)
{
    return json_string_value(json_object_get(json_object_get(piece, "SpecialToken"), "id"));
}

static bool texts_equal(const char *left, const char *right) { return left && right && strcmp(left, right) == 0; }

/* A post-processor's first token is BOS, or takes its place where there is none. */
static void see_first(special_tokens *special, const char *first)
{
    if (!texts_equal(first, special->text[BOS]) && !texts_equal(first, special->text[CLS])) {
        if (!special->text[BOS]) special->text[BOS] = first;
        if (!special->text[CLS]) special->text[CLS] = first;
    }
    special->add[BOS] = texts_equal(first, special->text[BOS]) || texts_equal(first, special->text[CLS]);
}

/* Its last one is EOS; another one that was called so ends a turn. */
static void see_last(special_tokens *special, const char *last)
{
    if (!texts_equal(last, special->text[EOS])) {
        if (special->kinds <= EOT) {
            special->text[EOT] = special->text[EOS];
            special->kinds = EOT + 1;
        } else if (special->kinds <= EOM) {
            special->text[EOM] = special->text[EOS];
            special->kinds = EOM + 1;
        }
        special->text[EOS] = last;
    }
    special->add[EOS] = 1;
}

/* What stands between two texts: is it the separator (or EOS)? */
static void see_pair(special_tokens *special, const json_t *pair, const char *first, const char *last)
{
    size_t count = json_array_size(pair), from = 0, to = count;
    if (count == 0) return;
    if (first && texts_equal(piece_token(json_array_get(pair, 0)), first)) from = 1;
    if (last && texts_equal(piece_token(json_array_get(pair, count - 1)), last)) to = count - 1;
    if (to < from + 3) return;
    const json_t *first_sequence = json_object_get(json_array_get(pair, from), "Sequence");
    const json_t *second_sequence = json_object_get(json_array_get(pair, to - 1), "Sequence");
    if (!texts_equal(json_string_value(json_object_get(first_sequence, "id")), "A") ||
        !texts_equal(json_string_value(json_object_get(second_sequence, "id")), "B"))
        return;
    const char *first_between = piece_token(json_array_get(pair, from + 1));
    const char *second_between = to - from == 4 ? piece_token(json_array_get(pair, from + 2)) : NULL;
    bool is_separator =
        (texts_equal(first_between, special->text[SEP]) || texts_equal(first_between, special->text[EOS])) && !last;
    is_separator =
        is_separator || texts_equal(second_between, special->text[SEP]) || texts_equal(second_between, special->text[EOS]);
    special->add[SEP] = is_separator;
    if (is_separator && !special->text[SEP]) special->text[SEP] = special->text[EOS];
}

static void see_template(special_tokens *special, const json_t *processor)
{
    const json_t *single = json_object_get(processor, "single");
    size_t count = json_array_size(single);
    const char *first = count > 1 ? piece_token(json_array_get(single, 0)) : NULL;
    const char *last = count > 1 ? piece_token(json_array_get(single, count - 1)) : NULL;
    if (first) see_first(special, first);
    if (last) see_last(special, last);
    see_pair(special, json_object_get(processor, "pair"), first, last);
}

static void see_roberta(special_tokens *special, const json_t *processor)
{
    const json_t *cls = json_array_get(json_object_get(processor, "cls"), 0);
    const json_t *sep = json_array_get(json_object_get(processor, "sep"), 0);
    special->add[BOS] = special->add[EOS] = special->add[SEP] = 1;
    if (!special->text[CLS]) special->text[CLS] = cls ? json_string_value(cls) : special->text[BOS];
    if (!special->text[SEP]) special->text[SEP] = sep ? json_string_value(sep) : special->text[EOS];
}

static void see_byte_level(special_tokens *special, const json_t *processor)
{
    (void)processor;
    for (int i = BOS; i <= EOS; i++) special->add[i] = special->add[i] < 0 ? 0 : special->add[i];
}

static void see_processor(special_tokens *special, const json_t *processor)
{
    static const struct {
        const char *type;
        void (*see)(special_tokens *special, const json_t *processor);
    } rows[] = {{"ByteLevel", see_byte_level}, {"RobertaProcessing", see_roberta}, {"TemplateProcessing", see_template}};
    const char *type = json_string_value(json_object_get(processor, "type"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (texts_equal(type, rows[i].type)) rows[i].see(special, processor);
}

static void see_tokenizer(special_tokens *special)
{
    const json_t *processor = json_object_get(special->tokenizer, "post_processor");
    const json_t *list = json_object_get(processor, "processors");
    if (!special->text[BOS]) special->text[BOS] = special->text[CLS];
    if (!special->text[EOS]) special->text[EOS] = special->text[SEP];
    if (!list) see_processor(special, processor);
    for (size_t i = 0; i < json_array_size(list); i++) see_processor(special, json_array_get(list, i));
}

/* ---- ids ------------------------------------------------------------------------------------- */

static int64_t added_id(const json_t *tokenizer, const char *text)
{
    const json_t *added = json_object_get(tokenizer, "added_tokens");
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *entry = json_array_get(added, i), *id = json_object_get(entry, "id");
        if (texts_equal(json_string_value(json_object_get(entry, "content")), text) && json_is_integer(id))
            return json_integer_value(id);
    }
    return -1;
}

static void set_id(special_tokens *special, int kind, int64_t id)
{
    if (special->id[kind] < 0 && id >= 0 && id <= INT32_MAX && (special->n_tokens < 0 || id < special->n_tokens))
        special->id[kind] = id;
}

static void find_ids(special_tokens *special)
{
    for (int i = 0; i < special->kinds; i++) {
        char name[32];
        snprintf(name, sizeof name, "add_%s_token", kinds[i].name);
        const json_t *add = json_object_get(special->config, name);
        if (special->config && json_is_boolean(add) && special->add[i] < 0) special->add[i] = json_is_true(add);
        if (special->config && special->text[i]) set_id(special, i, added_id(special->tokenizer, special->text[i]));
        snprintf(name, sizeof name, "%s_token_id", kinds[i].name);
        const json_t *value = zt_hf_get(special->import, name);
        if (json_is_integer(value)) set_id(special, i, json_integer_value(value));
        if (i <= UNK) set_id(special, i, special->import->ids[i]);
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

static zt_status put_ids(const special_tokens *special)
{
    static const int added[] = {BOS, EOS, SEP};
    char key[64];
    zt_status status = ZT_OK;
    for (int i = 0; status == ZT_OK && i < KINDS; i++) {
        if (special->id[i] < 0 || !kinds[i].key) continue;
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", kinds[i].key);
        status = zt_gguf_put_int(special->import->writer, key, ZT_GGUF_U32, special->id[i]);
    }
    for (size_t i = 0; status == ZT_OK && i < sizeof added / sizeof *added; i++) {
        if (special->add[added[i]] < 0) continue;
        snprintf(key, sizeof key, "tokenizer.ggml.add_%s_token", kinds[added[i]].name);
        status = zt_gguf_put_int(special->import->writer, key, ZT_GGUF_BOOL, special->add[added[i]]);
    }
    return status;
}

/* What a normalizer says of case and accents, -1: nothing. */
static void see_normalizer(const json_t *normalizer, int *lower, int *strip)
{
    const char *type = json_string_value(json_object_get(normalizer, "type"));
    const json_t *list = json_object_get(normalizer, "normalizers");
    const json_t *lowercase = json_object_get(normalizer, "lowercase"),
                 *strip_accents = json_object_get(normalizer, "strip_accents");
    bool bert = texts_equal(type, "BertNormalizer");
    if (texts_equal(type, "Lowercase") || (bert && json_is_true(lowercase)))
        *lower = 1;
    else if (bert && json_is_false(lowercase))
        *lower = 0;
    if (texts_equal(type, "StripAccents") || (bert && json_is_true(strip_accents)))
        *strip = 1;
    else if (bert && json_is_false(strip_accents))
        *strip = 0;
    for (size_t i = 0; texts_equal(type, "Sequence") && i < json_array_size(list); i++)
        see_normalizer(json_array_get(list, i), lower, strip);
}

static zt_status put_normalizer(const special_tokens *special)
{
    int lower = -1, strip = -1;
    zt_status status = ZT_OK;
    see_normalizer(json_object_get(special->tokenizer, "normalizer"), &lower, &strip);
    if (lower >= 0) status = zt_gguf_put_int(special->import->writer, "tokenizer.ggml.normalizer.lowercase", ZT_GGUF_BOOL, lower);
    if (status == ZT_OK && strip >= 0)
        status = zt_gguf_put_int(special->import->writer, "tokenizer.ggml.normalizer.strip_accents", ZT_GGUF_BOOL, strip);
    return status;
}

/* By the number of tokens: granite's code models and CodeLlama, as the converter has it. */
static void see_size(special_tokens *special)
{
    int64_t vocab_size = 32000;
    if (!zt_hf_is(special->import, HF_PAIRED) || zt_hf_int(special->import, "vocab_size", &vocab_size) != ZT_OK) return;
    if (vocab_size == 49152) special->add[BOS] = 0;
    if (vocab_size == 32016) set_id(special, EOT, 32010);
}

/* GLM-4's parts by name, as the converter has it. */
static void see_glm(special_tokens *special)
{
    static const char *const dense_names[KINDS] = {
        [BOS] = "<|endoftext|>", [EOS] = "<|endoftext|>", [UNK] = "<|endoftext|>", [EOT] = "<|user|>"};
    static const char *const moe_names[KINDS] = {
        [BOS] = "[gMASK]", [UNK] = "<|endoftext|>", [EOT] = "<|user|>", [EOM] = "<|observation|>"};
    bool moe = zt_hf_is(special->import, HF_SET(HF_GLM4MOE) | HF_SET(HF_GLM4_LITE));
    const char *const *names = moe ? moe_names : dense_names;
    for (int i = 0; i < KINDS && (moe || zt_hf_is(special->import, HF_SET(HF_GLM4))); i++) {
        int64_t id = names[i] ? added_id(special->tokenizer, names[i]) : -1;
        set_id(special, i, id);
    }
}

/* HunYuan's texts end with what it calls another end, as the converter has it. */
static void see_hunyuan(special_tokens *special)
{
    const json_t *id = zt_hf_get(special->import, "eod_token_id");
    if (!zt_hf_is(special->import, HF_SET(HF_HUNYUAN)) || !json_is_integer(id)) return;
    special->id[EOS] = -1;
    set_id(special, EOS, json_integer_value(id));
}

/* RWKV's texts begin and end with token 0; two line ends, token 261 of its vocabulary, end a turn, as the converter has it. */
static void see_rwkv(special_tokens *special)
{
    if (!zt_hf_is(special->import, HF_SET(HF_RWKV7)) || special->tokenizer) return;
    special->id[BOS] = special->id[EOS] = 0;
    set_id(special, EOT, 261);
}

zt_status zt_hf_put_special(hf_import *import, const json_t *tokenizer, int64_t n_tokens)
{
    zt_status status;
    special_tokens special = {.import = import, .tokenizer = tokenizer, .n_tokens = n_tokens, .kinds = EOT};
    special.config = zt_hf_load(import, "tokenizer_config.json", &status);
    if (status != ZT_OK) return status;
    for (int i = 0; i < KINDS; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s_token", kinds[i].name);
        special.text[i] = i < EOT ? token_content(json_object_get(special.config, name)) : NULL;
        special.id[i] = special.add[i] = -1;
    }
    if (tokenizer) see_tokenizer(&special);
    find_ids(&special);
    see_size(&special);
    see_glm(&special);
    see_hunyuan(&special);
    see_rwkv(&special);
    for (int i = 0; zt_hf_is(import, HF_SET(HF_MODERNBERT)) && i < KINDS; i++)
        if ((i == BOS || i == EOS || i == SEP) && special.add[i] < 0) special.add[i] = 1;
    import->bos = special.id[BOS];
    import->eos = special.id[EOS];
    import->add_bos = special.add[BOS];
    import->add_eos = special.add[EOS];
    status = put_ids(&special);
    if (status == ZT_OK) status = put_normalizer(&special);
    json_decref(special.config);
    return status;
}
