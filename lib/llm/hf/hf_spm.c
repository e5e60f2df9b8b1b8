/* hf_spm.c - owns the way from tokenizer.model to GGUF's keys and back.
 *
 * The pieces become tokens as llama.cpp's converter takes them (_create_vocab_sentencepiece of
 * conversion/base.py, as facts); where there is no tokenizer.json, the file itself goes along under
 * a key of ours, because GGUF's own keys cannot say all that it does. */
#include "lib/llm/hf/hf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- pieces ---------------------------------------------------------------------------------- */

const char *zt_hf_spm_name(hf *m)
{
    /* Facts: vocab_files_names of transformers' classes. */
    static const char *const names[] = {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
                                        "spm.model"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (zt_hf_has_file(m, names[i]))
            return names[i];
    return NULL;
}

zt_status zt_hf_spm_open(hf *m, zt_sp_model *sp, zt_bytes file)
{
    *sp = (zt_sp_model){0};
    zt_str_clear(&m->pieces);
    zt_status s = zt_str_puts(&m->pieces, m->is_alone ? m->path : m->folder.data);
    if (s == ZT_OK && !m->is_alone)
        s = zt_str_puts(&m->pieces, zt_hf_spm_name(m));
    return s == ZT_OK ? zt_sp_read(sp, m->ctx, m->pieces.data, file) : s;
}

/* What the files beside it say of tokens. */
typedef struct added {
    json_t *file; /* added_tokens.json: {"text": id} */
    json_t
        *config; /* tokenizer_config.json; added_tokens_decoder: {"id": {"content", "special"}} */
} added;

/* Is this token one that no text becomes unasked? */
static bool is_control(const added *a, int64_t id, zt_bytes text)
{
    char key[24];
    snprintf(key, sizeof key, "%" PRId64, id);
    const json_t *v = json_object_get(json_object_get(a->config, "added_tokens_decoder"), key);
    return json_is_true(json_object_get(v, "special")) || zt_hf_looks_special(text);
}

/* A token behind the embedding's rows is left out, and that is said, where it is a control token;
 * what a text can become has to have a row. */
static zt_status check_row(const hf_words *w, int64_t id, zt_bytes text, bool control)
{
    char buf[80];
    hf *m = w->m;
    if (id < w->n || !m->embedded)
        return ZT_OK;
    zt_escape(buf, sizeof buf, text.data, text.n);
    if (!control)
        return zt_fail(m->ctx, ZT_EDATA,
                       "%s: token %" PRId64 ", '%s', has no row in the embedding: %" PRId64 " rows",
                       m->path, id, buf, w->n);
    if (m->whole)
        zt_log(m->ctx, ZT_LOG_WARN,
               "%s: token %" PRId64 ", '%s', is left out: it has no row in the embedding (%" PRId64
               " rows)",
               m->path, id, buf, w->n);
    return ZT_OK;
}

static zt_status set_pieces(hf_words *w, const zt_sp_model *sp, const added *a)
{
    zt_status s = ZT_OK;
    for (int32_t i = 0; s == ZT_OK && i < sp->piece_count; i++) {
        const zt_sp_piece *p = &sp->piece[i];
        /* numbered as GGUF's; the user's own count as any other, as the converter has it */
        hf_word type = p->type == HF_WORD_USER ? HF_WORD_NORMAL : (hf_word)p->type;
        bool control = p->type == HF_WORD_CONTROL || is_control(a, i, p->text);
        s = check_row(w, i, p->text, control);
        if (s == ZT_OK)
            s = zt_hf_words_set(w, i, p->text, type, p->score);
    }
    return s;
}

static zt_status set_file(hf_words *w, const added *a)
{
    zt_status s = ZT_OK;
    const char *key;
    json_t *v;
    json_object_foreach(a->file, key, v)
    {
        zt_bytes text = {key, strlen(key)};
        int64_t id = json_integer_value(v);
        if (s != ZT_OK || !json_is_integer(v))
            continue;
        s = check_row(w, id, text, is_control(a, id, text));
        if (s == ZT_OK)
            s = zt_hf_words_set(w, id, text, HF_WORD_USER, -1000);
    }
    return s;
}

static zt_bytes text_of(const json_t *v)
{
    const char *s = json_string_value(v);
    return (zt_bytes){s ? s : "", json_string_length(v)};
}

static zt_status set_decoder(hf_words *w, const added *a)
{
    zt_status s = ZT_OK;
    const char *key;
    json_t *v;
    json_object_foreach(json_object_get(a->config, "added_tokens_decoder"), key, v)
    {
        int64_t id;
        const json_t *content = json_object_get(v, "content");
        bool special = json_is_true(json_object_get(v, "special"));
        if (s != ZT_OK || !json_is_string(content) || !zt_parse_i64(key, &id))
            continue;
        s = check_row(w, id, text_of(content), is_control(a, id, text_of(content)));
        if (s != ZT_OK)
            continue;
        s = w->m->arch.id == HF_PHI3 /* as they are */
                ? zt_hf_words_set(w, id, text_of(content), special ? HF_WORD_CONTROL : HF_WORD_USER,
                                  -1000)
                : zt_hf_words_add(w, id, text_of(content), special, -1000);
    }
    return s;
}

zt_status zt_hf_spm_words(hf_words *w, const zt_sp_model *sp)
{
    added a = {NULL, NULL};
    zt_status s = ZT_OK;
    if (!w->m->is_alone)
        a.file = zt_hf_load(w->m, "added_tokens.json", &s);
    if (s == ZT_OK && !w->m->is_alone)
        a.config = zt_hf_load(w->m, "tokenizer_config.json", &s);
    if (s == ZT_OK)
        s = set_pieces(w, sp, &a);
    if (s == ZT_OK)
        s = set_file(w, &a);
    if (s == ZT_OK)
        s = set_decoder(w, &a);
    json_decref(a.file);
    json_decref(a.config);
    return s;
}

/* ---- transformers' classes ------------------------------------------------------------------- */

/* Those that do more with a text than the file says, or number its pieces otherwise. Facts: the
 * classes of transformers that stand on SentencePiece. */
static const char *const others[] = {
    "Albert",      "Barthez", "Bartpho", "BigBird",       "Camembert",  "Cpm",     "DebertaV2",
    "ErnieM",      "FNet",    "GPTSw3",  "LayoutXLM",     "M2M100",     "MBart",   "MBart50",
    "MLuke",       "Marian",  "Nllb",    "PLBart",        "Pegasus",    "RemBert", "SeamlessM4T",
    "Speech2Text", "Udop",    "XGLM",    "XLMProphetNet", "XLMRoberta", "XLNet",
};

/* Is it CLASSTokenizer or CLASSTokenizerFast? */
static bool is_class(const char *name, const char *class)
{
    size_t n = strlen(class);
    return name && strncmp(name, class, n) == 0 &&
           (strcmp(name + n, "Tokenizer") == 0 || strcmp(name + n, "TokenizerFast") == 0);
}

static const char *class_of(const json_t *config)
{
    return json_string_value(json_object_get(config, "tokenizer_class"));
}

/* Is a model's type ("xlm-roberta", "t5") that of a class's model? Letters and digits count, of any
 * case; what follows is a kind of it. */
static bool is_type(const char *type, const char *class)
{
    for (; *class; class++, type++) {
        while (*type == '-' || *type == '_') type++;
        char c = *class >= 'A' && *class <= 'Z' ? (char)(*class - 'A' + 'a') : *class;
        if (*type != c)
            return false;
    }
    return true;
}

/* By tokenizer_config.json, and where that names none by the model's type. */
static bool has_class(const hf *m, const json_t *config, const char *class)
{
    const char *name = class_of(config);
    const char *type = json_string_value(json_object_get(m->config, "model_type"));
    return name ? is_class(name, class) : type && is_type(type, class);
}

zt_status zt_hf_spm_class(hf *m, const json_t *config)
{
    const char *name = class_of(config), *file = zt_hf_spm_name(m);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (has_class(m, config, others[i]))
            return zt_fail(m->ctx, ZT_ENOTSUP,
                           "%s: a %s%s does more than its %s says: save the tokenizer "
                           "with transformers as tokenizer.json",
                           m->path, name ? name : others[i], name ? "" : "Tokenizer", file);
    return ZT_OK;
}

static bool is_t5(const hf *m, const json_t *config)
{
    return has_class(m, config, "T5") || has_class(m, config, "MT5") || has_class(m, config, "UMT5");
}

/* "legacy": false of Llama's and T5's: a text has a blank in front by add_prefix_space, whatever
 * the file says, and text behind a special token has none. */
static bool is_legacy(const json_t *config)
{
    const char *name = class_of(config);
    bool asks = !name || is_class(name, "Llama") || is_class(name, "CodeLlama") ||
                is_class(name, "T5") || is_class(name, "MT5");
    return !asks || !json_is_false(json_object_get(config, "legacy"));
}

/* T5's has EOS behind a text, Llama's and those like it BOS before it: this is ggml's default for
 * the model 'llama', and so is not put. */
zt_status zt_hf_spm_ends(hf *m, const zt_sp_model *sp, const json_t *config)
{
    bool t5 = is_t5(m, config);
    zt_status s = ZT_OK;
    if (sp->type == ZT_SP_BPE && !t5)
        return ZT_OK;
    if (m->add_bos < 0)
        s = zt_gguf_put_int(m->w, "tokenizer.ggml.add_bos_token", ZT_GGUF_BOOL, !t5);
    if (s == ZT_OK && m->add_eos < 0)
        s = zt_gguf_put_int(m->w, "tokenizer.ggml.add_eos_token", ZT_GGUF_BOOL, t5);
    return s;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* ggml's name for such a model. It knows none for word and char models: these it refuses by ours.
 */
static const char *const models[] = {[ZT_SP_UNIGRAM] = "t5",
                                     [ZT_SP_BPE] = "llama",
                                     [ZT_SP_WORD] = "sentencepiece",
                                     [ZT_SP_CHAR] = "sentencepiece"};

const char *zt_hf_spm_model(const zt_sp_model *sp)
{
    return models[sp->type];
}

static zt_status put_flag(hf *m, const char *key, bool v)
{
    return zt_gguf_put_int(m->w, key, ZT_GGUF_BOOL, v);
}

/* What a reader that knows nothing of our key is told of it. `spaced`: whether a blank goes first
 * was put already. */
static zt_status put_normalizer(hf *m, const zt_sp_model *sp, bool spaced)
{
    const zt_sp_rule *r = &sp->norm;
    bool unigram = sp->type == ZT_SP_UNIGRAM; /* of other models ggml reads the first alone */
    zt_status s = ZT_OK;
    if (!spaced && (unigram || !r->dummy_prefix))
        s = put_flag(m, "tokenizer.ggml.add_space_prefix", r->dummy_prefix);
    if (s == ZT_OK && unigram)
        s = put_flag(m, "tokenizer.ggml.remove_extra_whitespaces", r->remove_extra);
    if (s == ZT_OK && unigram && r->charsmap.n)
        s = zt_gguf_put_array(m->w, "tokenizer.ggml.precompiled_charsmap", ZT_GGUF_U8,
                              r->charsmap.data, (int64_t)r->charsmap.n);
    return s;
}

static bool has_type(const zt_sp_model *sp, int type)
{
    for (int32_t i = 0; i < sp->piece_count; i++)
        if (sp->piece[i].type == type)
            return true;
    return false;
}

/* The first thing that ggml's keys cannot say of the model, NULL: they say all. */
static const char *unsaid(const zt_sp_model *sp)
{
    bool bpe = sp->type == ZT_SP_BPE;
    const struct {
        bool is;
        const char *what;
    } rows[] = {
        {sp->type == ZT_SP_WORD, "a word model"},
        {sp->type == ZT_SP_CHAR, "a char model"},
        {sp->suffix, "treat_whitespace_as_suffix"},
        {!sp->norm.escape, "escape_whitespaces off"},
        {sp->denorm.charsmap.n > 0, "a denormalizer"},
        {bpe && sp->norm.charsmap.n > 0, "BPE with a precompiled charsmap"},
        {bpe && sp->norm.remove_extra, "BPE with remove_extra_whitespaces"},
        {bpe && !sp->byte_fallback, "BPE without byte_fallback"},
        {bpe && has_type(sp, ZT_TOK_UNUSED), "BPE with unused pieces"},
        {has_type(sp, ZT_TOK_USER), "user-defined symbols"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].is)
            return rows[i].what;
    return NULL;
}

zt_status zt_hf_spm_put_keys(hf *m, const zt_sp_model *sp, zt_bytes file, bool spaced,
                             const json_t *config)
{
    const char *what = unsaid(sp);
    bool legacy = is_legacy(config);
    if (m->whole && what)
        zt_log(
            m->ctx, ZT_LOG_WARN,
            "%s: GGUF's keys cannot express %s: the whole tokenizer.model is stored as " ZT_SP_KEY
            ", which llama.cpp does not read",
            m->path, what);
    zt_status s = legacy ? ZT_OK : put_flag(m, ZT_SP_LEGACY, false);
    if (s == ZT_OK && !legacy && !spaced)
        s = put_flag(m, "tokenizer.ggml.add_space_prefix", true);
    if (s == ZT_OK)
        s = put_normalizer(m, sp, spaced || !legacy);
    return s == ZT_OK ? zt_gguf_put_array(m->w, ZT_SP_KEY, ZT_GGUF_U8, file.data, (int64_t)file.n)
                      : s;
}

static zt_status put_id(hf *m, const char *key, int32_t id)
{
    return id < 0 ? ZT_OK : zt_gguf_put_int(m->w, key, ZT_GGUF_U32, id);
}

zt_status zt_hf_spm_alone(hf *m, const char *text, size_t n)
{
    zt_sp_model sp;
    hf_words w;
    zt_bytes file = {text, n};
    m->is_alone = true;
    zt_status s = zt_hf_spm_open(m, &sp, file);
    if (s == ZT_OK)
        s = zt_sp_check(&sp);
    if (s == ZT_OK) {
        s = zt_hf_words_init(&w, m, sp.piece_count);
        if (s == ZT_OK)
            s = zt_hf_spm_words(&w, &sp);
        if (s == ZT_OK)
            s = zt_hf_words_put(&w, zt_hf_spm_model(&sp), "default", true);
        zt_hf_words_fini(&w);
    }
    if (s == ZT_OK)
        s = zt_hf_spm_put_keys(m, &sp, file, false, NULL);
    if (s == ZT_OK)
        s = put_id(m, "tokenizer.ggml.bos_token_id", zt_sp_control(&sp, sp.bos_piece));
    if (s == ZT_OK)
        s = put_id(m, "tokenizer.ggml.eos_token_id", zt_sp_control(&sp, sp.eos_piece));
    if (s == ZT_OK)
        s = put_id(m, "tokenizer.ggml.unknown_token_id", sp.unk);
    if (s == ZT_OK)
        s = put_flag(m, "tokenizer.ggml.add_bos_token", false);
    if (s == ZT_OK)
        s = put_flag(m, "tokenizer.ggml.add_eos_token", false);
    zt_sp_fini(&sp);
    return s;
}

/* ---- and back -------------------------------------------------------------------------------- */

static zt_status put_varint(zt_str *out, uint64_t v)
{
    zt_status s = ZT_OK;
    for (; s == ZT_OK && v > 127; v >>= 7)
        s = zt_str_putc(out, (char)(v | 128));
    return s == ZT_OK ? zt_str_putc(out, (char)v) : s;
}

static int varint_bytes(uint64_t v)
{
    int n = 1;
    for (; v > 127; v >>= 7)
        n++;
    return n;
}

zt_status zt_hf_spm_put(zt_str *out, zt_bytes text, float score, hf_word type)
{
    bool normal = type == HF_WORD_NORMAL || type == HF_WORD_USER;
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    uint64_t n = 1 + (uint64_t)varint_bytes(text.n) + text.n + 5 + (normal ? 0 : 2);
    zt_status s = zt_str_putc(out, 1 << 3 | 2);
    if (s == ZT_OK)
        s = put_varint(out, n);
    if (s == ZT_OK)
        s = zt_str_putc(out, 1 << 3 | 2);
    if (s == ZT_OK)
        s = put_varint(out, text.n);
    if (s == ZT_OK)
        s = zt_str_put(out, text.data, text.n);
    if (s == ZT_OK)
        s = zt_str_putc(out, 2 << 3 | 5);
    for (int i = 0; s == ZT_OK && i < 4; i++)
        s = zt_str_putc(out, (char)(bits >> 8 * i));
    if (s == ZT_OK && !normal)
        s = zt_str_putc(out, 3 << 3 | 0);
    return s == ZT_OK && !normal ? zt_str_putc(out, (char)type) : s;
}

/* TrainerSpec (field 2): model_type (3) is BPE, and byte_fallback (35) on where there are pieces
 * for bytes; NormalizerSpec (3): name (1) "identity", and nothing taken from blanks but that a
 * space goes first: remove_extra_whitespaces (4) off. */
zt_status zt_hf_spm_end(zt_str *out, bool bytes)
{
    static const char plain[] = "\x12\x02\x18\x02", fallback[] = "\x12\x05\x18\x02\x98\x02\x01",
                      normalizer[] = "\x1a\x0c\x0a\x08identity\x20\x00";
    zt_status s = bytes ? zt_str_put(out, fallback, sizeof fallback - 1)
                        : zt_str_put(out, plain, sizeof plain - 1);
    return s == ZT_OK ? zt_str_put(out, normalizer, sizeof normalizer - 1) : s;
}
