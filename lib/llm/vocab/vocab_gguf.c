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

#define COUNT(a)  (sizeof(a) / sizeof *(a))
#define KEY(name) "tokenizer.ggml." name

typedef struct kind_row { /* and what holds for a kind where the file does not say */
    const char *name;     /* tokenizer.ggml.model */
    const zt_vocab_kind *kind;
    int32_t bos, eos, unk;
    bool add_bos, add_eos, add_space;
    bool scores, merges; /* needs them */
    const char *pre;     /* the pre-tokenizer, whatever the file says */
} kind_row;

static const kind_row kinds[] = {
    {.name = "gpt2", .kind = &zt_vocab_gpt2, .bos = -1, .eos = -1, .unk = -1, .merges = true},
    {.name = "gemma4", .kind = &zt_vocab_gpt2, .bos = -1, .eos = -1, .unk = -1, .merges = true, .pre = "gemma4"},
    {.name = "llama", .kind = &zt_vocab_llama, .bos = 1, .eos = 2, .unk = 0, .add_bos = true, .add_space = true, .scores = true},
    {.name = "t5", .kind = &zt_vocab_t5, .bos = -1, .eos = 1, .unk = 2, .add_eos = true, .scores = true},
    {.name = "bert", .kind = &zt_vocab_bert, .bos = 101, .eos = -1, .unk = 100},
    {.name = "rwkv", .kind = &zt_vocab_rwkv, .bos = -1, .eos = -1, .unk = -1},
    /* word and char models, which ggml has no name for */
    {.name = "sentencepiece", .kind = &zt_vocab_sentencepiece, .bos = -1, .eos = -1, .unk = -1},
};

typedef struct gguf_reader { /* one file on its way to a spec */
    zt_ctx *ctx;
    const zt_gguf *gguf;
    const char *file;
    const char *pre; /* instead of the one that the file names; NULL: the file's */
    const kind_row *row;
    const zt_pre *rules;
    zt_vocab_spec spec;
    zt_merge_spec *merge;
    zt_sp_model pieces; /* of a whole tokenizer.model, else no pieces */
} gguf_reader;

/* ---- tokens ---------------------------------------------------------------------------------- */

static bool bytes_equal(zt_bytes name, const char *text)
{
    return strlen(text) == name.n && memcmp(text, name.data, name.n) == 0;
}

static zt_status read_kind(gguf_reader *reader)
{
    zt_bytes name;
    char escaped[80];
    if (!zt_gguf_str(reader->gguf, KEY("model"), &name))
        return zt_fail(reader->ctx, ZT_EDATA, "%s: no tokenizer: '" KEY("model") "' is missing", reader->file);
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (bytes_equal(name, kinds[i].name)) reader->row = &kinds[i];
    if (!reader->row)
        return zt_fail(reader->ctx, ZT_ENOTSUP, "%s: unknown tokenizer '%s': expected gpt2, llama, t5, bert, rwkv or gemma4",
                       reader->file, zt_escape(escaped, sizeof escaped, name.data, name.n));
    reader->spec.kind = reader->row->kind;
    return ZT_OK;
}

/* A whole tokenizer.model says how texts become ids; the other keys add tokens behind its own. */
static zt_status read_pieces(gguf_reader *reader)
{
    const zt_vocab_kind *kind = reader->row->kind;
    if (kind != &zt_vocab_llama && kind != &zt_vocab_t5 && kind != &zt_vocab_sentencepiece) return ZT_OK;
    zt_bytes file = zt_sp_of(reader->gguf);
    if (!file.n && kind == &zt_vocab_sentencepiece)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: '" ZT_SP_KEY "' is missing", reader->file);
    if (!file.n) return ZT_OK;
    reader->spec.kind = &zt_vocab_sentencepiece;
    reader->spec.extra = &reader->pieces;
    zt_status status = zt_sp_read(&reader->pieces, reader->ctx, reader->file, file);
    return status ? status : zt_sp_check(&reader->pieces);
}

/* The user's symbols that the model finds itself; all of a kind whose texts are escaped. */
static zt_status mark_pieces(gguf_reader *reader)
{
    for (int32_t i = 0; i < reader->spec.token_count && reader->spec.kind == &zt_vocab_rwkv; i++)
        if ((reader->spec.attr[i] & ZT_TOK_TYPE_MASK) == ZT_TOK_USER) reader->spec.attr[i] |= ZT_TOK_WITHIN;
    for (int32_t i = 0; i < reader->pieces.piece_count && i < reader->spec.token_count; i++) {
        zt_bytes text = reader->pieces.piece[i].text;
        if (reader->pieces.piece[i].type == ZT_TOK_USER && text.n == reader->spec.text[i].n &&
            memcmp(text.data, reader->spec.text[i].data, text.n) == 0)
            reader->spec.attr[i] |= ZT_TOK_WITHIN;
    }
    return ZT_OK;
}

static zt_status read_texts(gguf_reader *reader)
{
    const char *key = KEY("tokens");
    int64_t count;
    zt_gguf_kind element_kind;
    if (!zt_gguf_array(reader->gguf, key, &element_kind, &count) || element_kind != ZT_GGUF_STR)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: '%s' is missing or is not an array of strings", reader->file, key);
    if (count < 1 || count > INT32_MAX / 4)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: %lld tokens, expected 1 to %d", reader->file, (long long)count, INT32_MAX / 4);
    reader->spec.token_count = (int32_t)count;
    reader->spec.text = zt_alloc_array(reader->ctx, (size_t)count, sizeof *reader->spec.text);
    if (!reader->spec.text) return ZT_ENOMEM;
    if (!zt_gguf_array_strs(reader->gguf, key, reader->spec.text, count))
        return zt_fail(reader->ctx, ZT_EDATA, "%s: '%s' cannot be read", reader->file, key);
    return ZT_OK;
}

static zt_status copy_types(gguf_reader *reader, const int64_t *type)
{
    for (int32_t i = 0; i < reader->spec.token_count; i++) {
        if (type[i] < 0 || type[i] > ZT_TOK_BYTE)
            return zt_fail(reader->ctx, ZT_EDATA, "%s: token %d has the unknown type %lld, expected 0 to %d", reader->file, i,
                           (long long)type[i], ZT_TOK_BYTE);
        reader->spec.attr[i] = type[i] ? (uint16_t)type[i] : ZT_TOK_NORMAL;
    }
    return ZT_OK;
}

static zt_status read_types(gguf_reader *reader)
{
    const char *key = KEY("token_type");
    int64_t count;
    zt_gguf_kind element_kind;
    reader->spec.attr = zt_alloc_array(reader->ctx, (size_t)reader->spec.token_count, sizeof *reader->spec.attr);
    if (!reader->spec.attr) return ZT_ENOMEM;
    for (int32_t i = 0; i < reader->spec.token_count; i++) reader->spec.attr[i] = ZT_TOK_NORMAL;
    if (!zt_gguf_array(reader->gguf, key, &element_kind, &count)) return ZT_OK;
    if (count != reader->spec.token_count)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: %lld token types for %d tokens", reader->file, (long long)count,
                       reader->spec.token_count);
    int64_t *type = zt_alloc_array(reader->ctx, (size_t)count, sizeof *type);
    if (!type) return ZT_ENOMEM;
    zt_status status = zt_gguf_array_i64(reader->gguf, key, type, count)
                           ? copy_types(reader, type)
                           : zt_fail(reader->ctx, ZT_EDATA, "%s: '%s' is not an array of integers", reader->file, key);
    zt_free(reader->ctx, type);
    return status;
}

static zt_status read_scores(gguf_reader *reader)
{
    const char *key = KEY("scores");
    int64_t count = 0;
    zt_gguf_kind element_kind;
    if (!reader->row->scores || reader->pieces.piece_count) return ZT_OK;
    if (!zt_gguf_array(reader->gguf, key, &element_kind, &count) || count != reader->spec.token_count)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: '%s' has %lld scores for %d tokens", reader->file, key, (long long)count,
                       reader->spec.token_count);
    reader->spec.score = zt_alloc_array(reader->ctx, (size_t)count, sizeof *reader->spec.score);
    if (!reader->spec.score) return ZT_ENOMEM;
    if (!zt_gguf_array_f64(reader->gguf, key, reader->spec.score, count))
        return zt_fail(reader->ctx, ZT_EDATA, "%s: '%s' is not an array of numbers", reader->file, key);
    return ZT_OK;
}

/* ---- merges ---------------------------------------------------------------------------------- */

/* "left right": the space that parts them is not the first byte. */
static zt_status cut_merge(gguf_reader *reader, zt_bytes line, int64_t index)
{
    const char *space = line.n > 1 ? memchr(line.data + 1, ' ', line.n - 1) : NULL;
    char escaped[80];
    if (!space || space + 1 == line.data + line.n)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: merge %lld, '%s', is not a pair of tokens", reader->file, (long long)index,
                       zt_escape(escaped, sizeof escaped, line.data, line.n));
    size_t size = (size_t)(space - line.data);
    reader->merge[index] = (zt_merge_spec){{line.data, size}, {space + 1, line.n - size - 1}};
    return ZT_OK;
}

static zt_status read_merges(gguf_reader *reader)
{
    const char *key = KEY("merges");
    zt_gguf_kind element_kind;
    int64_t count = 0;
    zt_status status = ZT_OK;
    if (!reader->row->merges) return ZT_OK;
    if (!zt_gguf_array(reader->gguf, key, &element_kind, &count) || element_kind != ZT_GGUF_STR)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: '%s' is missing or is not an array of strings", reader->file, key);
    if (count > INT32_MAX / 4)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: too many merges (%lld)", reader->file, (long long)count);
    zt_bytes *line = zt_alloc_array(reader->ctx, (size_t)count, sizeof *line);
    reader->merge = zt_alloc_array(reader->ctx, (size_t)count, sizeof *reader->merge);
    if (!line || !reader->merge)
        status = ZT_ENOMEM;
    else if (!zt_gguf_array_strs(reader->gguf, key, line, count))
        status = zt_fail(reader->ctx, ZT_EDATA, "%s: '%s' cannot be read", reader->file, key);
    for (int64_t i = 0; !status && i < count; i++) status = cut_merge(reader, line[i], i);
    zt_free(reader->ctx, line);
    reader->spec.merge = reader->merge;
    reader->spec.n_merges = count;
    return status;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static zt_status read_pre(gguf_reader *reader)
{
    static const zt_pre none = {0};
    zt_bytes name = {"default", strlen("default")};
    char escaped[80];
    reader->rules = &none;
    if (!reader->row->merges) return ZT_OK;
    zt_gguf_str(reader->gguf, KEY("pre"), &name);
    const char *given = reader->row->pre ? reader->row->pre : reader->pre;
    if (given) name = (zt_bytes){given, strlen(given)};
    const zt_pre *pre = zt_pre_find(name);
    if (!pre)
        return zt_fail(reader->ctx, ZT_ENOTSUP, "%s: unknown pre-tokenizer '%s'", reader->file,
                       zt_escape(escaped, sizeof escaped, name.data, name.n));
    reader->rules = pre;
    reader->spec.rule = pre->rule;
    while (reader->spec.n_rules < ZT_PRE_RULES && pre->rule[reader->spec.n_rules].pattern) reader->spec.n_rules++;
    reader->spec.ignore_merges = pre->ignore_merges;
    reader->spec.byte_level = !pre->plain;
    return ZT_OK;
}

/* An id named by a key; where the key is absent `otherwise` if there is such a token, else -1. */
static zt_status read_id(const gguf_reader *reader, const char *key, int32_t otherwise, int32_t *id)
{
    int64_t number;
    *id = otherwise < reader->spec.token_count ? otherwise : -1;
    if (!zt_gguf_i64(reader->gguf, key, &number)) return ZT_OK;
    if (number < 0 || number >= reader->spec.token_count)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: '%s' is %lld, but the vocabulary has %d tokens", reader->file, key,
                       (long long)number, reader->spec.token_count);
    *id = (int32_t)number;
    return ZT_OK;
}

static bool read_flag(const gguf_reader *reader, const char *key, bool otherwise)
{
    int64_t number;
    return zt_gguf_i64(reader->gguf, key, &number) ? number != 0 : otherwise;
}

/* What goes around a text. A BERT has [CLS] and [SEP] there whatever it says of BOS and EOS. */
static zt_status read_around(gguf_reader *reader)
{
    zt_vocab_spec *spec = &reader->spec;
    bool bert = spec->kind == &zt_vocab_bert;
    int32_t cls_id, sep_id;
    zt_status status = read_id(reader, KEY("cls_token_id"), spec->bos, &cls_id);
    if (!status) status = read_id(reader, KEY("seperator_token_id"), 102, &sep_id); /* so spelt in GGUF */
    if (status) return status;
    if (bert) {
        spec->bos = spec->bos < 0 ? cls_id : spec->bos;
        spec->before = (zt_around){{cls_id}, cls_id >= 0};
        spec->after = (zt_around){{sep_id}, sep_id >= 0};
        return ZT_OK;
    }
    bool bos = read_flag(reader, KEY("add_bos_token"), reader->row->add_bos || reader->rules->add_bos);
    bool eos = read_flag(reader, KEY("add_eos_token"), reader->row->add_eos);
    spec->before = (zt_around){{spec->bos}, spec->bos >= 0 && (bos || reader->rules->force_bos)};
    spec->after = (zt_around){{spec->eos}, spec->eos >= 0 && eos};
    return ZT_OK;
}

static zt_status read_rules(gguf_reader *reader)
{
    const kind_row *row = reader->row;
    zt_vocab_spec *spec = &reader->spec;
    const zt_sp_model *pieces = reader->pieces.piece_count ? &reader->pieces : NULL;
    int32_t bos = pieces ? zt_sp_control(pieces, pieces->bos_piece) : reader->rules->no_bos ? -1 : row->bos;
    zt_status status = read_id(reader, KEY("bos_token_id"), bos, &spec->bos);
    if (!status)
        status = read_id(reader, KEY("eos_token_id"), pieces ? zt_sp_control(pieces, pieces->eos_piece) : row->eos, &spec->eos);
    if (!status) status = read_id(reader, KEY("unknown_token_id"), pieces ? pieces->unk : row->unk, &spec->unk);
    spec->add_space = read_flag(reader, KEY("add_space_prefix"), row->add_space);
    reader->pieces.prefix_once = !read_flag(reader, ZT_SP_LEGACY, true);
    if (reader->pieces.prefix_once) /* what tokenizer_config.json says counts, not the file */
        reader->pieces.norm.dummy_prefix = true;
    if (!read_flag(reader, KEY("add_space_prefix"), true)) reader->pieces.norm.dummy_prefix = false;
    spec->merge_spaces = read_flag(reader, KEY("remove_extra_whitespaces"), false);
    spec->lowercase = read_flag(reader, KEY("normalizer.lowercase"), true);
    spec->strip_accents = read_flag(reader, KEY("normalizer.strip_accents"), spec->lowercase);
    return status ? status : read_around(reader);
}

/* Every key that names a token must name one that there is. */
static zt_status check_ids(gguf_reader *reader)
{
    static const char start[] = KEY(""), end[] = "_token_id";
    char escaped[80];
    int64_t number;
    for (int64_t i = 0; i < zt_gguf_n_keys(reader->gguf); i++) {
        zt_gguf_kind kind;
        zt_bytes key = zt_gguf_key(reader->gguf, i, &kind);
        bool named = key.n > sizeof start + sizeof end && key.n < sizeof escaped &&
                     memcmp(key.data, start, sizeof start - 1) == 0 &&
                     memcmp(key.data + key.n - (sizeof end - 1), end, sizeof end - 1) == 0;
        if (!named) continue;
        snprintf(escaped, sizeof escaped, "%.*s", (int)key.n, key.data);
        if (zt_gguf_i64(reader->gguf, escaped, &number) && (number < 0 || number >= reader->spec.token_count))
            return zt_fail(reader->ctx, ZT_EDATA, "%s: '%s' is %lld, but the vocabulary has %d tokens", reader->file, escaped,
                           (long long)number, reader->spec.token_count);
    }
    return ZT_OK;
}

/* eos_token_ids: all that end a generation. */
zt_status zt_vocab_ends(zt_ctx *ctx, zt_vocab_spec *spec, const zt_gguf *gguf)
{
    static const char key[] = "tokenizer.ggml.eos_token_ids";
    int64_t count, ids[256];
    zt_gguf_kind element_kind;
    if (!gguf || !zt_gguf_array(gguf, key, &element_kind, &count)) return ZT_OK;
    if (count > 256 || !zt_gguf_array_i64(gguf, key, ids, count))
        return zt_fail(ctx, ZT_EDATA, "%s: '%s' is not an array of at most 256 token ids", spec->file, key);
    for (int64_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= spec->token_count)
            return zt_fail(ctx, ZT_EDATA, "%s: '%s' contains %lld, but the vocabulary has %d tokens", spec->file, key,
                           (long long)ids[i], spec->token_count);
        spec->attr[ids[i]] |= ZT_TOK_EOG;
    }
    return ZT_OK;
}

/* Tokens that end a generation, beside EOS. */
static zt_status read_ends(gguf_reader *reader)
{
    static const char *const keys[] = {
        KEY("eot_token_id"), KEY("eom_token_id"), KEY("fim_pad_token_id"), KEY("fim_rep_token_id"), KEY("fim_sep_token_id"),
    };
    int32_t id;
    for (size_t i = 0; i < COUNT(keys); i++) {
        zt_status status = read_id(reader, keys[i], -1, &id);
        if (status) return status;
        if (id >= 0) reader->spec.attr[id] |= ZT_TOK_EOG;
    }
    return zt_vocab_ends(reader->ctx, &reader->spec, reader->gguf);
}

static zt_status copy_charsmap(gguf_reader *reader, int64_t *numbers, int64_t count)
{
    if (!zt_gguf_array_i64(reader->gguf, KEY("precompiled_charsmap"), numbers, count))
        return zt_fail(reader->ctx, ZT_EDATA, "%s: '" KEY("precompiled_charsmap") "' is not an array of bytes", reader->file);
    char *bytes = reader->spec.storage = zt_alloc(reader->ctx, (size_t)count);
    if (!bytes) return ZT_ENOMEM;
    for (int64_t i = 0; i < count; i++) bytes[i] = (char)(unsigned char)numbers[i];
    reader->spec.charsmap = (zt_bytes){bytes, (size_t)count};
    return ZT_OK;
}

static zt_status read_charsmap(gguf_reader *reader)
{
    int64_t count = 0;
    zt_gguf_kind element_kind;
    if (reader->spec.kind != &zt_vocab_t5 || !zt_gguf_array(reader->gguf, KEY("precompiled_charsmap"), &element_kind, &count) ||
        !count)
        return ZT_OK;
    int64_t *numbers = zt_alloc_array(reader->ctx, (size_t)count, sizeof *numbers);
    zt_status status = numbers ? copy_charsmap(reader, numbers, count) : ZT_ENOMEM;
    zt_free(reader->ctx, numbers);
    return status;
}

/* Marks the token of this text, if there is one, or takes the mark away. */
static void set_mark(gguf_reader *reader, const char *text, uint16_t bit, bool set)
{
    for (int32_t i = 0; i < reader->spec.token_count; i++)
        if (bytes_equal(reader->spec.text[i], text))
            reader->spec.attr[i] = (uint16_t)(set ? reader->spec.attr[i] | bit : reader->spec.attr[i] & ~bit);
}

/* Does a key's text, in small letters, contain one of these? */
static bool key_contains(const gguf_reader *reader, const char *key, const char *first, const char *second, const char *third)
{
    zt_bytes value;
    char text[256];
    if (!zt_gguf_str(reader->gguf, key, &value)) return false;
    size_t size = value.n < sizeof text - 1 ? value.n : sizeof text - 1;
    for (size_t i = 0; i < size; i++)
        text[i] = (char)(value.data[i] >= 'A' && value.data[i] <= 'Z' ? value.data[i] + 32 : value.data[i]);
    text[size] = 0;
    return strstr(text, first) || strstr(text, second) || strstr(text, third);
}

/* Which tokens take blanks with them is in no key: llama.cpp goes by names. */
static zt_status read_strip(gguf_reader *reader)
{
    if (key_contains(reader, KEY("pre"), "jina-v2-de", "jina-v2-es", "jina-v2-code") ||
        key_contains(reader, "general.architecture", "nomic-bert-moe", "jina-bert-v3", "jina-bert-v3")) {
        set_mark(reader, "<mask>", ZT_TOK_LSTRIP, true);
    } else if (key_contains(reader, "general.name", "phi-3", "phi3", "phi3")) {
        for (int32_t i = 0; i < reader->spec.token_count; i++) {
            int type = reader->spec.attr[i] & ZT_TOK_TYPE_MASK;
            if (type == ZT_TOK_CONTROL || type == ZT_TOK_USER || type == ZT_TOK_UNKNOWN) reader->spec.attr[i] |= ZT_TOK_RSTRIP;
        }
        set_mark(reader, "</s>", ZT_TOK_RSTRIP, true);
        set_mark(reader, "<unk>", ZT_TOK_RSTRIP, false);
        set_mark(reader, "<s>", ZT_TOK_RSTRIP, false);
        set_mark(reader, "<|endoftext|>", ZT_TOK_RSTRIP, false);
    } else if (key_contains(reader, "general.name", "modern-bert", "modern-bert", "modern-bert")) {
        set_mark(reader, "[MASK]", ZT_TOK_LSTRIP, true);
    }
    return ZT_OK;
}

/* SentencePiece makes bytes of what it does not know when the vocabulary has them all. */
static zt_status read_fallback(gguf_reader *reader)
{
    int bytes = 0;
    for (int32_t i = 0; i < reader->spec.token_count; i++) bytes += (reader->spec.attr[i] & ZT_TOK_TYPE_MASK) == ZT_TOK_BYTE;
    reader->spec.byte_fallback = bytes >= 256;
    return ZT_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

zt_vocab *zt_vocab_open_pre(const zt_gguf *gguf, const char *pre)
{
    if (!gguf) return NULL;
    static zt_status (*const step[])(gguf_reader *) = {
        read_kind,  read_pieces, read_texts, read_types,    mark_pieces,   read_pre,    check_ids,
        read_rules, read_ends,   read_strip, read_charsmap, read_fallback, read_scores, read_merges,
    };
    gguf_reader reader = {.ctx = zt_gguf_ctx(gguf), .gguf = gguf, .file = zt_gguf_name(gguf), .pre = pre};
    zt_bytes json;
    /* tokenizer.json says all, the keys beside it may not */
    if ((!pre || !zt_gguf_str(gguf, KEY("model"), &json)) && zt_gguf_str(gguf, "tokenizer.huggingface.json", &json))
        return zt_vocab_from_json(gguf, json);
    zt_vocab *vocab = NULL;
    zt_status status = ZT_OK;
    reader.spec.file = reader.file;
    for (size_t i = 0; !status && i < COUNT(step); i++) status = step[i](&reader);
    if (!status) {
        vocab = zt_vocab_from(reader.ctx, &reader.spec);
    } else {
        zt_free(reader.ctx, reader.spec.text);
        zt_free(reader.ctx, reader.spec.attr);
        zt_free(reader.ctx, reader.spec.score);
        zt_free(reader.ctx, reader.spec.storage);
    }
    zt_free(reader.ctx, reader.merge);
    zt_sp_fini(&reader.pieces);
    return vocab;
}

zt_vocab *zt_vocab_open(const zt_gguf *gguf) { return gguf ? zt_vocab_open_pre(gguf, NULL) : NULL; }
