/* sentencepiece.h - private to lib/llm: SentencePiece's own file, tokenizer.model, as a structure,
 * and its text normalization.
 *
 * sentencepiece.c reads the protocol buffer and checks it as SentencePiece itself does;
 * sentencepiece_norm.c normalizes; vocab_sentencepiece.c is the vocabulary kind that stands on
 * both. */
#ifndef ZT_LLM_SENTENCEPIECE_H
#define ZT_LLM_SENTENCEPIECE_H

#include "lib/llm/vocab/vocab.h"

/* GGUF's key that holds the whole file, for what GGUF's own keys cannot say. */
#define ZT_SP_KEY "zt.tokenizer.sentencepiece"
/* GGUF's key, a bool: false is tokenizer_config.json's `"legacy": false`. */
#define ZT_SP_LEGACY "zt.tokenizer.legacy"

typedef enum zt_sp_type { /* TrainerSpec.model_type, by its numbers */
                          ZT_SP_UNIGRAM = 1,
                          ZT_SP_BPE,
                          ZT_SP_WORD,
                          ZT_SP_CHAR
} zt_sp_type;

typedef struct zt_sp_piece {
    zt_bytes text; /* points into the file */
    float score;
    uint8_t type; /* ZT_TOK_NORMAL to ZT_TOK_BYTE: SentencePiece's numbers are GGUF's */
} zt_sp_piece;

typedef struct zt_sp_rule { /* NormalizerSpec */
    zt_bytes charsmap;      /* "": none */
    bool dummy_prefix, remove_extra, escape;
} zt_sp_rule;

typedef struct zt_sp_model { /* ModelProto; texts point into the file */
    zt_ctx *ctx;
    const char *file; /* for messages */
    zt_sp_piece *piece;
    int32_t piece_count;
    int32_t unk; /* -1: none; set by zt_sp_check */
    zt_sp_type type;
    bool byte_fallback, suffix;
    bool prefix_once; /* no dummy prefix behind a special token; not of the file, false when read */
    zt_bytes unk_surface, bos_piece, eos_piece;
    zt_sp_rule norm, denorm;
} zt_sp_model;

/* Reads the wire format. `bytes` must outlive model; fini also after a failure. ZT_EDATA: not
 * SentencePiece's, or cut short. ZT_ENOTSUP: a model type or piece type that is not known. */
zt_status zt_sp_read(zt_sp_model *model, zt_ctx *ctx, const char *file, zt_bytes bytes);
void zt_sp_fini(zt_sp_model *model);
/* ZT_EDATA: SentencePiece refuses to load such a model, for the reason that the message names. */
zt_status zt_sp_check(zt_sp_model *model);
/* The file that gguf's key ZT_SP_KEY holds, as long as gguf lives; "": it has none. */
zt_bytes zt_sp_of(const zt_gguf *gguf);
/* The control piece of this text, -1: none. */
int32_t zt_sp_control(const zt_sp_model *model, zt_bytes text);
/* Does a file begin as a tokenizer.model does? size >= 4 for an answer other than false. */
bool zt_sp_sniff(const void *head, size_t size);

/* ---- normalization --------------------------------------------------------------------------- */

typedef struct zt_sp_norm {
    zt_ctx *ctx;
    const zt_sp_rule *rule;
    zt_charsmap *map;    /* NULL: none */
    const zt_trie *user; /* texts that are left as they are; NULL: none */
    bool suffix;         /* the dummy blank comes last */
} zt_sp_norm;

/* Bytes of the character that text begins with, by its first byte alone; at most size. */
size_t zt_sp_char(const char *text, size_t size);
/* The longest key of trie that text begins with, 0: none. */
size_t zt_sp_longest(const zt_trie *trie, const char *text, size_t size);
/* Appends the normalized text. ZT_EDATA: the charsmap leads out of itself. */
zt_status zt_sp_normalize(const zt_sp_norm *norm, const char *text, size_t size, zt_str *out);

#endif
