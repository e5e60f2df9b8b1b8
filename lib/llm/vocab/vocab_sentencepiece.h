/* vocab_sentencepiece.h - private to vocab_sentencepiece.c and the two models that are files of
 * their own: sentencepiece_unigram.c and sentencepiece_bpe.c. */
#ifndef ZT_LLM_VOCAB_SENTENCEPIECE_H
#define ZT_LLM_VOCAB_SENTENCEPIECE_H

#include "lib/llm/vocab/sentencepiece.h"

typedef struct zt_sp { /* the kind's own, zt_vocab.extra */
    zt_sp_model model;
    zt_sp_norm norm, denorm; /* denorm without a map: nothing is to be done */
    zt_trie *user;           /* the user's symbols */
    zt_trie *trie;           /* unigram: ordinary pieces */
    zt_map *ids;             /* the others: ordinary pieces */
    size_t longest;          /* bytes of the longest ordinary piece */
    int32_t byte_id[256];    /* -1: none */
    float worst;             /* the smallest score of a normal piece */
    bool unused;             /* some piece is not to be used */
} zt_sp;

typedef struct zt_sp_out { /* one normalized text on its way to ids */
    const zt_sp *pieces;
    const zt_vocab *vocab;
    const char *text;
    size_t size; /* > 0 */
    zt_ids *ids;
    bool unknown; /* what came last */
} zt_sp_out;

/* Appends token id for text[offset..offset + size); unknown ones are joined or become bytes. */
zt_status zt_sp_emit(zt_sp_out *output, size_t offset, size_t size, int32_t id);
/* The ordinary piece of this text, -1: none; not with unigram. */
int32_t zt_sp_find(const zt_sp *pieces, const char *text, size_t size);

zt_status zt_sp_unigram(zt_sp_out *output, zt_merger *merger);
zt_status zt_sp_bpe(zt_sp_out *output, zt_merger *merger);

#endif
