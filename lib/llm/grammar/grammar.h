/* grammar.h - grammar-constrained decoding: the text that a model generates is held to a form.
 *
 * A grammar is compiled from parts: GBNF, a regular expression, a JSON Schema, literal texts. A token
 * trie holds the bytes of a vocabulary's tokens. A matcher follows one text through a grammar and says
 * which tokens may come next:
 *
 *     zt_grammar_part part = {.kind = ZT_GRAMMAR_SCHEMA, .name = "s.json", .text = {text, size}};
 *     zt_grammar *grammar = zt_grammar_compile(ctx, &part, 1);
 *     zt_token_trie *trie = zt_token_trie_new(ctx, vocab);
 *     zt_grammar_matcher *matcher = zt_grammar_matcher_new(grammar, trie);
 *     for (;;) {
 *         zt_grammar_matcher_restrict(matcher, logits, count, &allowed);     // logits of other tokens become NaN
 *         int32_t id = zt_sample(...);                               // -1: no token fits
 *         zt_grammar_matcher_accept_token(matcher, id, &fits);
 *     }
 *
 * The automaton works on bytes: a token may end in the middle of a character. Tokens that end a
 * generation are the caller's: they may come where zt_grammar_matcher_complete says so.
 *
 * Grammars are hostile: their size, the steps of a token and the memory are bounded. A grammar and its
 * matchers belong to one thread at a time.
 */
#ifndef ZT_GRAMMAR_H
#define ZT_GRAMMAR_H

#include "lib/llm/llm.h"

#ifdef __cplusplus
extern "C" {
#endif

struct json_t; /* jansson's */

typedef struct zt_grammar zt_grammar;
typedef struct zt_token_trie zt_token_trie;
typedef struct zt_grammar_matcher zt_grammar_matcher;

/* ---- grammars -------------------------------------------------------------------------------- */

typedef enum zt_grammar_kind {
    ZT_GRAMMAR_TEXT,   /* exactly this text */
    ZT_GRAMMAR_GBNF,   /* llama.cpp's notation; the text is what the rule `root` derives */
    ZT_GRAMMAR_REGEX,  /* a regular expression that the whole text matches */
    ZT_GRAMMAR_SCHEMA, /* JSON that is valid by a JSON Schema */
    ZT_GRAMMAR_JSON,   /* any JSON object */
    ZT_GRAMMAR_KINDS
} zt_grammar_kind;

typedef struct zt_grammar_part {
    zt_grammar_kind kind;
    const char *name;            /* of the file or option, for messages; NULL: the kind's name */
    zt_bytes text;               /* UTF-8; not of ZT_GRAMMAR_JSON */
    const struct json_t *schema; /* of ZT_GRAMMAR_SCHEMA, in place of text; NULL: `text` is the schema's JSON */
    bool alternative;            /* begins an alternative to all parts before it; else it follows the part before */
} zt_grammar_part;

/* Compiles count parts, one after the other or as alternatives; nothing of them is borrowed. NULL:
 * ZT_EDATA names the place and what is wrong or not supported there, ZT_ENOMEM. */
zt_grammar *zt_grammar_compile(zt_ctx *ctx, const zt_grammar_part *parts, size_t count);
void zt_grammar_free(zt_grammar *grammar); /* after its matchers. NULL: nothing */

/* ---- tokens ---------------------------------------------------------------------------------- */

/* The bytes of all tokens, as zt_vocab_decode gives them in the middle of a text. Tokens that end a generation,
 * unknown and unused ones are not among them: a grammar never allows them. Control tokens are allowed only by a grammar
 * of lib/llm/reply. The vocabulary is not needed afterwards. NULL: ZT_ENOMEM. */
zt_token_trie *zt_token_trie_new(zt_ctx *ctx, const zt_vocab *vocab);
void zt_token_trie_free(zt_token_trie *trie); /* after the grammars that were used with it. NULL: nothing */

/* ---- a text ---------------------------------------------------------------------------------- */

/* At the beginning of a text. trie NULL: bytes only. All matchers of a grammar have the same trie
 * (ZT_EUSAGE), whose masks the grammar keeps. The grammar is borrowed. NULL: ZT_EUSAGE, ZT_ENOMEM. */
zt_grammar_matcher *zt_grammar_matcher_new(zt_grammar *grammar, const zt_token_trie *trie);
zt_grammar_matcher *zt_grammar_matcher_clone(const zt_grammar_matcher *matcher); /* at the same place. NULL: ZT_ENOMEM */
void zt_grammar_matcher_free(zt_grammar_matcher *matcher);                       /* NULL: nothing */
void zt_grammar_matcher_reset(zt_grammar_matcher *matcher);                      /* back to the beginning */
void zt_grammar_matcher_copy(zt_grammar_matcher *matcher,
                             const zt_grammar_matcher *other); /* of the same grammar: to its place */

/* Goes on by size bytes, if the grammar allows them; else *fits is false and the matcher stays. ZT_ENOMEM: over
 * a limit. */
zt_status zt_grammar_matcher_accept(zt_grammar_matcher *matcher, const char *bytes, size_t size, bool *fits);
/* The same by a token's bytes. A token that is not in the trie does not fit. */
zt_status zt_grammar_matcher_accept_token(zt_grammar_matcher *matcher, int32_t id, bool *fits);
/* Makes NaN of each of the count logits whose token may not come next, and sets *allowed to the number of
 * the others. Tokens beyond the vocabulary may not. The `ends_count` tokens `ends` may come where the text may
 * end, and nowhere else, whatever their bytes are. ZT_ENOMEM: over a limit. */
zt_status zt_grammar_matcher_restrict(zt_grammar_matcher *matcher, const int32_t *ends, size_t ends_count, float *logits,
                                      int64_t count, int64_t *allowed);
/* The tokens that may come next, bit id % 64 of word id / 64, of vocabulary size bits; valid until the next call on a
 * matcher of the grammar. NULL: ZT_EUSAGE without a trie, ZT_ENOMEM over a limit. */
const uint64_t *zt_grammar_matcher_mask(zt_grammar_matcher *matcher);
bool zt_grammar_matcher_complete(const zt_grammar_matcher *matcher); /* may the text end here? */
bool zt_grammar_matcher_finished(const zt_grammar_matcher *matcher); /* may it end here, and not go on? */

/* What a grammar holds, for reports. */
typedef struct zt_grammar_info {
    size_t rules, symbols;       /* after compilation */
    size_t states, masks, bytes; /* of the automaton and its caches, now */
    uint64_t restarts;           /* how often they were emptied */
} zt_grammar_info;
zt_grammar_info zt_grammar_get(const zt_grammar *grammar); /* a copy of the counts now */

#ifdef __cplusplus
}
#endif
#endif
