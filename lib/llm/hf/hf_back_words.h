/* hf_back_words.h - private to hf_back_words.c and hf_back_models.c: tokens of a GGUF on their way
 * into a tokenizer.json. The former reads them and writes what all tokenizers share, the latter
 * writes each kind of model with its normalizers and pre-tokenizers. */
#ifndef ZT_HF_BACK_WORDS_H
#define ZT_HF_BACK_WORDS_H

#include "lib/llm/hf/hf_back.h"

#define SPACE "\xe2\x96\x81" /* U+2581 */

typedef struct words {
    hf_back *b;
    int64_t n, base; /* ids from base on are added tokens only */
    zt_bytes *text;
    int64_t *type;
    double *score;
    zt_map *ids; /* text -> id, the first of each */
    zt_str json;
} words;

zt_status zt_words_quoted(zt_str *out, zt_bytes t);
/* `"vocab":{"text":id,...}` of the model's own. */
zt_status zt_words_vocab(words *w);
/* The id of a key, where another says that it goes around texts; -1. */
int64_t zt_words_around_id(const words *w, const char *key, const char *add, int otherwise);
/* `"post_processor":...,`: `otherwise` where nothing is put around. */
zt_status zt_words_around(words *w, int64_t bos, int64_t eos, const char *otherwise);
const char *zt_words_nothing(const words *w, const char *level);

/* From `,"normalizer":` to the end of the model's members. */
zt_status zt_words_gpt2(words *w);
zt_status zt_words_llama(words *w);
zt_status zt_words_bert(words *w);
zt_status zt_words_unigram(words *w);
bool zt_words_scored(const words *w); /* do tokens differ by their scores? */
zt_status zt_words_turn_marks(words *w,
                              zt_arena *texts); /* WordPiece's, as tokenizer.json has them */

#endif
