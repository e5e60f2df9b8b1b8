/* vocab_json.h - private to the vocabularies read from Hugging Face's tokenizer.json: the parts
 * that vocab_json*.c share.
 *
 *     text -> split at raw added tokens -> normalizers -> split at normalized added tokens
 *          -> pre-tokenizers -> model (each piece) -> post-processor -> ids
 *     ids  -> texts of tokens, one list -> decoders -> text
 *
 * Every component is one row of its family's table; a component without a row is ZT_ENOTSUP with its name.
 *
 * Meanings of components and fields: huggingface/tokenizers 0.23, as facts.
 */
#ifndef ZT_LLM_VOCAB_JSON_H
#define ZT_LLM_VOCAB_JSON_H

#include "lib/llm/vocab/vocab.h"

#include <jansson.h>

typedef struct zt_tj zt_tj;           /* one tokenizer.json */
typedef struct zt_tj_work zt_tj_work; /* working memory of one call of encode or decode */

/* ---- reading (vocab_json_read.c) ------------------------------------------------------------- */

typedef struct zt_tj_reader {
    zt_ctx *ctx;
    const char *file;
    const char *where; /* "normalizer", ...: for messages */
    zt_arena *texts;   /* every text that is kept */
    bool zeros;        /* U+FDD0 stands for U+0000, which jansson takes in no key */
} zt_tj_reader;

/* One JSON value of size bytes, NULL with ZT_EDATA. No member comes twice. Memory that jansson takes
 * is held from the context's for so long: *held, to be freed after json_decref. */
json_t *zt_tj_load(zt_tj_reader *reader, const char *text, size_t size, void **held);
/* A copy that lives as long as the arena; data NULL: no memory. */
zt_bytes zt_tj_keep(zt_tj_reader *reader, const char *text, size_t size);

/* Members of an object: absent or null leaves *out; another type is ZT_EDATA. */
zt_status zt_tj_bool(zt_tj_reader *reader, const json_t *object, const char *name, bool *out);
zt_status zt_tj_text(zt_tj_reader *reader, const json_t *object, const char *name, zt_bytes *out);
zt_status zt_tj_size(zt_tj_reader *reader, const json_t *object, const char *name, int64_t *out);
/* The same where it must be there. */
zt_status zt_tj_need(zt_tj_reader *reader, const json_t *object, const char *name);
/* The index of member `name` in names[0..n), which ends with NULL: ZT_ENOTSUP for another. */
zt_status zt_tj_word(zt_tj_reader *reader, const json_t *object, const char *name, const char *const *names, int *out);

/* ---- patterns (vocab_json_pattern.c) ---------------------------------------------------------------- */

typedef struct zt_pattern zt_pattern;

/* {"String": text} or {"Regex": text}. */
zt_status zt_pattern_read(zt_tj_reader *reader, const json_t *object, const char *name, zt_pattern **out);
void zt_pattern_free(zt_pattern *pattern);

/* Matches of a pattern in text (valid UTF-8), in order, not overlapping. */
typedef struct zt_finder {
    const zt_pattern *pattern;
    zt_tj_work *work;
    const char *text;
    size_t size, position, last; /* the search continues at `position`; the last match ended at `last` */
    bool any;                    /* there was one */
} zt_finder;
/* *found: text[*from .. *to). A pattern that takes more steps than any honest one: ZT_EDATA. */
zt_status zt_finder_next(zt_finder *finder, bool *found, size_t *from, size_t *to);

/* ---- steps: normalizers, pre-tokenizers, decoders -------------------------------------------- */

typedef struct zt_tj_step zt_tj_step;

typedef struct zt_text { /* a stretch of text on its way to the model */
    const char *data;
    size_t size;
    size_t zero; /* leading bytes that come from the very first character of the whole text */
} zt_text;

typedef struct zt_parts { /* a list of texts */
    zt_str bytes;
    size_t *end; /* [count] */
    size_t count, capacity;
} zt_parts;
zt_status zt_parts_end(zt_parts *parts); /* what was put into bytes since the last end is one text */

typedef struct zt_tj_row {
    const char *name;
    zt_status (*read)(zt_tj_reader *reader, const json_t *object, zt_tj_step *step); /* NULL: no fields */
    /* One of these, by family. */
    zt_status (*norm)(const zt_tj_step *step, zt_tj_work *work, zt_text input, zt_str *out, size_t *zero);
    zt_status (*pre)(const zt_tj_step *step, zt_tj_work *work, zt_text input);
    zt_status (*decode)(const zt_tj_step *step, zt_tj_work *work, const zt_parts *input, zt_parts *out);
} zt_tj_row;

struct zt_tj_step { /* fields mean what the row says */
    const zt_tj_row *row;
    zt_bytes text;
    zt_pattern *pattern;
    zt_charsmap *map;
    int64_t start, stop;
    bool flag[4];
    int mode;
};

typedef struct zt_tj_family {
    const char *key, *list; /* "pre_tokenizer", and of its Sequence "pretokenizers" */
    const zt_tj_row *row;   /* ends with a NULL name */
} zt_tj_family;
extern const zt_tj_family zt_norms, zt_pres, zt_decoders;

enum { ZT_MOST_STEPS = 48 };

typedef struct zt_tj_steps { /* a component, its Sequences laid out flat */
    zt_tj_step *step;
    int count;
} zt_tj_steps;
/* value may be NULL or null: no steps. */
zt_status zt_tj_steps_read(zt_tj_reader *reader, const zt_tj_family *family, const json_t *value, zt_tj_steps *out);
void zt_tj_steps_free(zt_ctx *ctx, zt_tj_steps *steps);

zt_status zt_metaspace_read(zt_tj_reader *reader, const json_t *object, zt_tj_step *step); /* vocab_json_pre.c */
/* Bytes written, at most in.n; SIZE_MAX: it is not base64. */
size_t zt_tj_base64(zt_bytes input, char *out);

/* ---- characters (vocab_json_norm.c) --------------------------------------------------------------- */

bool zt_char_space(uint32_t codepoint);  /* Unicode's White_Space */
bool zt_char_word(uint32_t codepoint);   /* \w of Rust's regex crate */
bool zt_char_punct(uint32_t codepoint);  /* ASCII punctuation and P* */
bool zt_char_number(uint32_t codepoint); /* N* */
/* GPT-2's printable characters of bytes, in UTF-8; appends. */
zt_status zt_char_print(const char *bytes, size_t size, zt_str *out);
/* Decodes a character known to be valid; advances *offset. */
uint32_t zt_char_next(const char *text, size_t size, size_t *offset);

/* ---- models ---------------------------------------------------------------------------------- */

typedef struct zt_model_row {
    const char *name;
    zt_status (*read)(zt_tj_reader *reader, const json_t *object, zt_tj *tokenizer);
    zt_status (*piece)(const zt_tj *tokenizer, zt_tj_work *work, const char *text, size_t size); /* not empty */
} zt_model_row;

/* ---- added tokens (vocab_json_added.c) ------------------------------------------------------- */

typedef struct zt_added {
    zt_bytes content, shown; /* as the file has it; normalized, if it is to be */
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
} zt_added;

typedef struct zt_added_set {
    zt_added *token;
    size_t count;
    zt_trie *raw, *normal; /* values: index of token */
} zt_added_set;

/* Ids are given as the library does: that of the model's vocabulary, else the next free one. Needs
 * the model and the normalizers. */
zt_status zt_added_read(zt_tj_reader *reader, const json_t *root, zt_tj *tokenizer);
void zt_added_free(zt_ctx *ctx, zt_added_set *set);

typedef struct zt_added_finder {
    const zt_tj *tokenizer;
    const zt_trie *trie;
    const char *text;
    size_t size, position, done; /* text before `done` has been handled */
    bool special;                /* special tokens count */
} zt_added_finder;
/* The next added token: *from .. *to is its place with the white space it takes; NULL: no more. Who
 * takes it sets done to *to. */
const zt_added *zt_added_next(zt_added_finder *finder, size_t *from, size_t *to);

/* ---- the whole ------------------------------------------------------------------------------- */

struct zt_tj {
    zt_ctx *ctx;
    zt_arena *texts;
    zt_tj_steps norm, pre, decode;
    bool has_decoder, byte_level;
    const zt_model_row *model;
    zt_added_set added;
    zt_ids before, after; /* what the post-processor puts around a text */

    /* The model's own tokens. */
    zt_map *ids;    /* text -> id */
    size_t entries; /* how many the file lists */
    zt_bytes *text; /* [token_count]; data NULL: a gap */
    int32_t token_count;
    int32_t unk;       /* -1: none */
    bool unk_missing;  /* an unknown token is named and is none: met, it is an error */
    int32_t byte[256]; /* <0x00> ...; -1: none */
    bool byte_fallback, fuse_unk, ignore_merges;
    zt_bytes prefix, suffix; /* of a continuing piece, of a word's last */
    int64_t most_chars;      /* of a word, else it is unknown */
    zt_pairs *pairs;
    zt_trie *trie, *trie_more; /* Unigram; WordPiece: pieces that open a word, that go on */
    double *score;             /* [n] */
    double unk_score;
};

struct zt_tj_work {
    const zt_tj *tokenizer;
    const zt_vocab *vocab; /* NULL while reading */
    zt_ids *ids;
    zt_merger merger;
    zt_str step[ZT_MOST_STEPS]; /* what pre-tokenizers make of their text */
    zt_str norm[2];
    void *match, *context, *memory, *stack; /* PCRE2's, made when first needed */
    bool alone, first;                      /* decoding one token by itself; it opens the text */
    void *path;                             /* Unigram's best path */
    size_t path_capacity;
};
void zt_tj_work_init(zt_tj_work *work, const zt_tj *tokenizer, const zt_vocab *vocab, zt_ids *ids);
void zt_tj_work_fini(zt_tj_work *work);
void zt_pattern_work_fini(zt_tj_work *work); /* vocab_json_pattern.c */

/* Runs all normalizers. The result is in one of work->norm, or is `input` itself. */
zt_status zt_norm_run(const zt_tj *tokenizer, zt_tj_work *work, zt_text input, zt_text *out);
/* The pre-tokenizers from `step` on, then the model. */
zt_status zt_pre_run(zt_tj_work *work, const zt_tj_step *step, zt_text input);
zt_status zt_post_read(zt_tj_reader *reader, const json_t *root, zt_tj *tokenizer);
/* All decoders over p, which is used up; the result is appended to out. */
void zt_decode_link(zt_tj_steps *steps); /* once, when all are read */
zt_status zt_decode_run(const zt_tj *tokenizer, zt_tj_work *work, zt_parts *parts, zt_str *out);
zt_status zt_model_read(zt_tj_reader *reader, const json_t *root, zt_tj *tokenizer);
int32_t zt_model_find(const zt_tj *tokenizer, const char *text, size_t size);
zt_status zt_tj_put(const zt_tj *tokenizer, zt_tj_work *work, int32_t id);
/* The token of each byte, if every byte has one: then true. */
bool zt_tj_has_bytes(const zt_tj *tokenizer, const char *text, size_t size);

#endif
