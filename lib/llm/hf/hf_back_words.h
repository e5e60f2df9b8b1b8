/* hf_back_words.h - private to hf_back_words.c and hf_back_models.c: tokens of a GGUF on their way
 * into a tokenizer.json. The former reads them and writes what all tokenizers share, the latter
 * writes each kind of model with its normalizers and pre-tokenizers. */
#ifndef ZT_HF_BACK_WORDS_H
#define ZT_HF_BACK_WORDS_H

#include "lib/llm/hf/hf_back.h"

#define SPACE "\xe2\x96\x81" /* U+2581 */

typedef struct token_writer {
    hf_export *export;
    int64_t count, first_added; /* ids from base on are added tokens only */
    zt_bytes *text;
    int64_t *type;
    double *score;
    zt_map *ids; /* text -> id, the first of each */
    zt_str json;
} token_writer;

zt_status put_quoted(zt_str *out, zt_bytes text);
/* `"vocab":{"text":id,...}` of the model's own. */
zt_status put_vocab(token_writer *tokens);
/* The id of a key, where another says that it goes around texts; -1. */
int64_t find_around_id(const token_writer *tokens, const char *key, const char *add, int otherwise);
/* `"post_processor":...,`: `otherwise` where nothing is put around. */
zt_status put_post_processor(token_writer *tokens, int64_t bos, int64_t eos, const char *otherwise);
const char *empty_post_processor(const token_writer *tokens, const char *level);

/* From `,"normalizer":` to the end of the model's members. */
zt_status put_gpt2_model(token_writer *tokens);
zt_status put_llama_model(token_writer *tokens);
zt_status put_bert_model(token_writer *tokens);
zt_status put_unigram_model(token_writer *tokens);
bool has_scores(const token_writer *tokens);                              /* do tokens differ by their scores? */
zt_status convert_wordpiece_marks(token_writer *tokens, zt_arena *texts); /* WordPiece's, as tokenizer.json has them */

#endif
