/* hf_spm.c - from tokenizer.model to GGUF's keys and back.
 *
 * The pieces become tokens as llama.cpp's converter takes them (_create_vocab_sentencepiece of
 * conversion/base.py, as facts); where there is no tokenizer.json, the file itself goes along under
 * a key of ours, because GGUF's own keys cannot say all that it does. */
#include "lib/llm/hf/hf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- pieces ---------------------------------------------------------------------------------- */

const char *zt_hf_spm_name(hf_import *import)
{
    /* Facts: vocab_files_names of transformers' classes. */
    static const char *const names[] = {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (zt_hf_has_file(import, names[i])) return names[i];
    return NULL;
}

zt_status zt_hf_spm_open(hf_import *import, zt_sp_model *model, zt_bytes file)
{
    *model = (zt_sp_model){0};
    zt_str_clear(&import->pieces);
    zt_status status = zt_str_puts(&import->pieces, import->is_alone ? import->path : import->folder.data);
    if (status == ZT_OK && !import->is_alone) status = zt_str_puts(&import->pieces, zt_hf_spm_name(import));
    return status == ZT_OK ? zt_sp_read(model, import->ctx, import->pieces.data, file) : status;
}

/* What the files beside it say of tokens. */
typedef struct added_files {
    json_t *file;   /* added_tokens.json: {"text": id} */
    json_t *config; /* tokenizer_config.json; added_tokens_decoder: {"id": {"content", "special"}} */
} added_files;

/* Is this token one that no text becomes unasked? */
static bool is_control(const added_files *added, int64_t id, zt_bytes text)
{
    char key[24];
    snprintf(key, sizeof key, "%" PRId64, id);
    const json_t *value = json_object_get(json_object_get(added->config, "added_tokens_decoder"), key);
    return json_is_true(json_object_get(value, "special")) || zt_hf_looks_special(text);
}

/* A token behind the embedding's rows is left out, and that is said, where it is a control token;
 * what a text can become has to have a row. */
static zt_status check_row(const hf_tokens *tokens, int64_t id, zt_bytes text, bool control)
{
    char escaped[80];
    hf_import *import = tokens->import;
    if (id < tokens->count || !import->embedded) return ZT_OK;
    zt_escape(escaped, sizeof escaped, text.data, text.n);
    if (!control)
        return zt_fail(import->ctx, ZT_EDATA, "%s: token %" PRId64 ", '%s', has no row in the embedding: %" PRId64 " rows",
                       import->path, id, escaped, tokens->count);
    if (import->whole)
        zt_log(import->ctx, ZT_LOG_WARN,
               "%s: token %" PRId64 ", '%s', is omitted: it has no row in the embedding (%" PRId64 " rows)", import->path, id,
               escaped, tokens->count);
    return ZT_OK;
}

static zt_status set_pieces(hf_tokens *tokens, const zt_sp_model *model, const added_files *added)
{
    zt_status status = ZT_OK;
    for (int32_t i = 0; status == ZT_OK && i < model->piece_count; i++) {
        const zt_sp_piece *piece = &model->piece[i];
        /* numbered as GGUF's; the user's own count as any other, as the converter has it */
        hf_token_type type = piece->type == HF_TOKEN_USER ? HF_TOKEN_NORMAL : (hf_token_type)piece->type;
        bool control = piece->type == HF_TOKEN_CONTROL || is_control(added, i, piece->text);
        status = check_row(tokens, i, piece->text, control);
        if (status == ZT_OK) status = zt_hf_tokens_set(tokens, i, piece->text, type, piece->score);
    }
    return status;
}

static zt_status set_file(hf_tokens *tokens, const added_files *added)
{
    zt_status status = ZT_OK;
    const char *key;
    json_t *value;
    json_object_foreach(added->file, key, value)
    {
        zt_bytes text = {key, strlen(key)};
        int64_t id = json_integer_value(value);
        if (status != ZT_OK || !json_is_integer(value)) continue;
        status = check_row(tokens, id, text, is_control(added, id, text));
        if (status == ZT_OK) status = zt_hf_tokens_set(tokens, id, text, HF_TOKEN_USER, -1000);
    }
    return status;
}

static zt_bytes json_text(const json_t *value)
{
    const char *text = json_string_value(value);
    return (zt_bytes){text ? text : "", json_string_length(value)};
}

static zt_status set_decoder(hf_tokens *tokens, const added_files *added)
{
    zt_status status = ZT_OK;
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(added->config, "added_tokens_decoder"), key, value)
    {
        int64_t id;
        const json_t *content = json_object_get(value, "content");
        bool special = json_is_true(json_object_get(value, "special"));
        if (status != ZT_OK || !json_is_string(content) || !zt_parse_i64(key, &id)) continue;
        status = check_row(tokens, id, json_text(content), is_control(added, id, json_text(content)));
        if (status != ZT_OK) continue;
        status = zt_hf_is(tokens->import, HF_PHIS) /* as they are */
                     ? zt_hf_tokens_set(tokens, id, json_text(content), special ? HF_TOKEN_CONTROL : HF_TOKEN_USER, -1000)
                     : zt_hf_tokens_add(tokens, id, json_text(content), special, -1000);
    }
    return status;
}

zt_status zt_hf_spm_words(hf_tokens *tokens, const zt_sp_model *model)
{
    added_files added = {NULL, NULL};
    zt_status status = ZT_OK;
    if (!tokens->import->is_alone) added.file = zt_hf_load(tokens->import, "added_tokens.json", &status);
    if (status == ZT_OK && !tokens->import->is_alone) added.config = zt_hf_load(tokens->import, "tokenizer_config.json", &status);
    if (status == ZT_OK) status = set_pieces(tokens, model, &added);
    if (status == ZT_OK) status = set_file(tokens, &added);
    if (status == ZT_OK) status = set_decoder(tokens, &added);
    json_decref(added.file);
    json_decref(added.config);
    return status;
}

/* ---- transformers' classes ------------------------------------------------------------------- */

/* Those that do more with a text than the file says, or number its pieces otherwise. Facts: the
 * classes of transformers that stand on SentencePiece. */
static const char *const others[] = {
    "Albert",  "Barthez",   "Bartpho",     "BigBird",     "Camembert", "Cpm",   "DebertaV2",     "ErnieM",     "FNet",
    "GPTSw3",  "LayoutXLM", "M2M100",      "MBart",       "MBart50",   "MLuke", "Marian",        "Nllb",       "PLBart",
    "Pegasus", "RemBert",   "SeamlessM4T", "Speech2Text", "Udop",      "XGLM",  "XLMProphetNet", "XLMRoberta", "XLNet",
};

/* Is it CLASSTokenizer or CLASSTokenizerFast? */
static bool is_class(const char *name, const char *class)
{
    size_t length = strlen(class);
    return name && strncmp(name, class, length) == 0 &&
           (strcmp(name + length, "Tokenizer") == 0 || strcmp(name + length, "TokenizerFast") == 0);
}

static const char *tokenizer_class(const json_t *config) { return json_string_value(json_object_get(config, "tokenizer_class")); }

/* Is a model's type ("xlm-roberta", "t5") that of a class's model? Letters and digits count, of any
 * case; what follows is a kind of it. */
static bool is_type(const char *type, const char *class)
{
    for (; *class; class ++, type++) {
        while (*type == '-' || *type == '_') type++;
        char letter = *class >= 'A' && *class <= 'Z' ? (char)(*class - 'A' + 'a') : *class;
        if (*type != letter) return false;
    }
    return true;
}

/* By tokenizer_config.json, and where that names none by the model's type. */
static bool has_class(const hf_import *import, const json_t *config, const char *class)
{
    const char *name = tokenizer_class(config);
    const char *type = json_string_value(json_object_get(import->config, "model_type"));
    return name ? is_class(name, class) : type && is_type(type, class);
}

zt_status zt_hf_spm_class(hf_import *import, const json_t *config)
{
    const char *name = tokenizer_class(config), *file = zt_hf_spm_name(import);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (has_class(import, config, others[i]))
            return zt_fail(
                import->ctx, ZT_ENOTSUP,
                "%s: %s%s has rules that its %s does not contain: save the tokenizer with transformers as tokenizer.json",
                import->path, name ? name : others[i], name ? "" : "Tokenizer", file);
    return ZT_OK;
}

static bool is_t5(const hf_import *import, const json_t *config)
{
    return has_class(import, config, "T5") || has_class(import, config, "MT5") || has_class(import, config, "UMT5");
}

/* "legacy": false of Llama's and T5's: a text has a blank in front by add_prefix_space, whatever
 * the file says, and text behind a special token has none. */
static bool is_legacy(const json_t *config)
{
    const char *name = tokenizer_class(config);
    bool asks = !name || is_class(name, "Llama") || is_class(name, "CodeLlama") || is_class(name, "T5") || is_class(name, "MT5");
    return !asks || !json_is_false(json_object_get(config, "legacy"));
}

/* T5's has EOS behind a text, Llama's and those like it BOS before it: this is ggml's default for
 * the model 'llama', and so is not put. */
zt_status zt_hf_spm_ends(hf_import *import, const zt_sp_model *model, const json_t *config)
{
    bool is_t5_class = is_t5(import, config);
    zt_status status = ZT_OK;
    if (model->type == ZT_SP_BPE && !is_t5_class) return ZT_OK;
    if (import->add_bos < 0) status = zt_gguf_put_int(import->writer, "tokenizer.ggml.add_bos_token", ZT_GGUF_BOOL, !is_t5_class);
    if (status == ZT_OK && import->add_eos < 0)
        status = zt_gguf_put_int(import->writer, "tokenizer.ggml.add_eos_token", ZT_GGUF_BOOL, is_t5_class);
    return status;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* ggml's name for such a model. It knows none for word and char models: these it refuses by ours.
 */
static const char *const models[] = {
    [ZT_SP_UNIGRAM] = "t5", [ZT_SP_BPE] = "llama", [ZT_SP_WORD] = "sentencepiece", [ZT_SP_CHAR] = "sentencepiece"};

const char *zt_hf_spm_model(const zt_sp_model *model) { return models[model->type]; }

static zt_status put_flag(hf_import *import, const char *key, bool value)
{
    return zt_gguf_put_int(import->writer, key, ZT_GGUF_BOOL, value);
}

/* What a reader that knows nothing of our key is told of it. `spaced`: whether a blank goes first
 * was put already. */
static zt_status put_normalizer(hf_import *import, const zt_sp_model *model, bool spaced)
{
    const zt_sp_rule *rule = &model->norm;
    bool unigram = model->type == ZT_SP_UNIGRAM; /* of other models ggml reads the first alone */
    zt_status status = ZT_OK;
    if (!spaced && (unigram || !rule->dummy_prefix))
        status = put_flag(import, "tokenizer.ggml.add_space_prefix", rule->dummy_prefix);
    if (status == ZT_OK && unigram) status = put_flag(import, "tokenizer.ggml.remove_extra_whitespaces", rule->remove_extra);
    if (status == ZT_OK && unigram && rule->charsmap.n)
        status = zt_gguf_put_array(import->writer, "tokenizer.ggml.precompiled_charsmap", ZT_GGUF_U8, rule->charsmap.data,
                                   (int64_t)rule->charsmap.n);
    return status;
}

static bool has_type(const zt_sp_model *model, int type)
{
    for (int32_t i = 0; i < model->piece_count; i++)
        if (model->piece[i].type == type) return true;
    return false;
}

/* The first thing that ggml's keys cannot say of the model, NULL: they say all. */
static const char *find_unexpressed(const zt_sp_model *model)
{
    bool bpe = model->type == ZT_SP_BPE;
    const struct {
        bool is;
        const char *what;
    } rows[] = {
        {model->type == ZT_SP_WORD, "a word model"},
        {model->type == ZT_SP_CHAR, "a char model"},
        {model->suffix, "treat_whitespace_as_suffix"},
        {!model->norm.escape, "escape_whitespaces off"},
        {model->denorm.charsmap.n > 0, "a denormalizer"},
        {bpe && model->norm.charsmap.n > 0, "BPE with a precompiled charsmap"},
        {bpe && model->norm.remove_extra, "BPE with remove_extra_whitespaces"},
        {bpe && !model->byte_fallback, "BPE without byte_fallback"},
        {bpe && has_type(model, ZT_TOK_UNUSED), "BPE with unused pieces"},
        {has_type(model, ZT_TOK_USER), "user-defined symbols"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].is) return rows[i].what;
    return NULL;
}

zt_status zt_hf_spm_put_keys(hf_import *import, const zt_sp_model *model, zt_bytes file, bool spaced, const json_t *config)
{
    const char *what = find_unexpressed(model);
    bool legacy = is_legacy(config);
    if (import->whole && what)
        zt_log(import->ctx, ZT_LOG_WARN,
               "%s: GGUF metadata cannot express %s: the whole tokenizer.model is stored as " ZT_SP_KEY
               ", which llama.cpp does not read",
               import->path, what);
    zt_status status = legacy ? ZT_OK : put_flag(import, ZT_SP_LEGACY, false);
    if (status == ZT_OK && !legacy && !spaced) status = put_flag(import, "tokenizer.ggml.add_space_prefix", true);
    if (status == ZT_OK) status = put_normalizer(import, model, spaced || !legacy);
    return status == ZT_OK ? zt_gguf_put_array(import->writer, ZT_SP_KEY, ZT_GGUF_U8, file.data, (int64_t)file.n) : status;
}

static zt_status put_id(hf_import *import, const char *key, int32_t id)
{
    return id < 0 ? ZT_OK : zt_gguf_put_int(import->writer, key, ZT_GGUF_U32, id);
}

zt_status zt_hf_spm_alone(hf_import *import, const char *text, size_t size)
{
    zt_sp_model model;
    hf_tokens tokens;
    zt_bytes file = {text, size};
    import->is_alone = true;
    zt_status status = zt_hf_spm_open(import, &model, file);
    if (status == ZT_OK) status = zt_sp_check(&model);
    if (status == ZT_OK) {
        status = zt_hf_tokens_init(&tokens, import, model.piece_count);
        if (status == ZT_OK) status = zt_hf_spm_words(&tokens, &model);
        if (status == ZT_OK) status = zt_hf_tokens_put(&tokens, zt_hf_spm_model(&model), "default", true);
        zt_hf_tokens_fini(&tokens);
    }
    if (status == ZT_OK) status = zt_hf_spm_put_keys(import, &model, file, false, NULL);
    if (status == ZT_OK) status = put_id(import, "tokenizer.ggml.bos_token_id", zt_sp_control(&model, model.bos_piece));
    if (status == ZT_OK) status = put_id(import, "tokenizer.ggml.eos_token_id", zt_sp_control(&model, model.eos_piece));
    if (status == ZT_OK) status = put_id(import, "tokenizer.ggml.unknown_token_id", model.unk);
    if (status == ZT_OK) status = put_flag(import, "tokenizer.ggml.add_bos_token", false);
    if (status == ZT_OK) status = put_flag(import, "tokenizer.ggml.add_eos_token", false);
    zt_sp_fini(&model);
    return status;
}

/* ---- and back -------------------------------------------------------------------------------- */

static zt_status put_varint(zt_str *out, uint64_t value)
{
    zt_status status = ZT_OK;
    for (; status == ZT_OK && value > 127; value >>= 7) status = zt_str_putc(out, (char)(value | 128));
    return status == ZT_OK ? zt_str_putc(out, (char)value) : status;
}

static int varint_bytes(uint64_t value)
{
    int count = 1;
    for (; value > 127; value >>= 7) count++;
    return count;
}

zt_status zt_hf_spm_put(zt_str *out, zt_bytes text, float score, hf_token_type type)
{
    bool normal = type == HF_TOKEN_NORMAL || type == HF_TOKEN_USER;
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    uint64_t piece_size = 1 + (uint64_t)varint_bytes(text.n) + text.n + 5 + (normal ? 0 : 2);
    zt_status status = zt_str_putc(out, 1 << 3 | 2);
    if (status == ZT_OK) status = put_varint(out, piece_size);
    if (status == ZT_OK) status = zt_str_putc(out, 1 << 3 | 2);
    if (status == ZT_OK) status = put_varint(out, text.n);
    if (status == ZT_OK) status = zt_str_put(out, text.data, text.n);
    if (status == ZT_OK) status = zt_str_putc(out, 2 << 3 | 5);
    for (int i = 0; status == ZT_OK && i < 4; i++) status = zt_str_putc(out, (char)(bits >> 8 * i));
    if (status == ZT_OK && !normal) status = zt_str_putc(out, 3 << 3 | 0);
    return status == ZT_OK && !normal ? zt_str_putc(out, (char)type) : status;
}

/* TrainerSpec (field 2): model_type (3) is BPE, and byte_fallback (35) on where there are pieces
 * for bytes; NormalizerSpec (3): name (1) "identity", and nothing taken from blanks but that a
 * space goes first: remove_extra_whitespaces (4) off. */
zt_status zt_hf_spm_end(zt_str *out, bool bytes)
{
    static const char plain[] = "\x12\x02\x18\x02", fallback[] = "\x12\x05\x18\x02\x98\x02\x01",
                      normalizer[] = "\x1a\x0c\x0a\x08identity\x20\x00";
    zt_status status = bytes ? zt_str_put(out, fallback, sizeof fallback - 1) : zt_str_put(out, plain, sizeof plain - 1);
    return status == ZT_OK ? zt_str_put(out, normalizer, sizeof normalizer - 1) : status;
}
