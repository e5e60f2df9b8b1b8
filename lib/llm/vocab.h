/* vocab.h - private to lib/llm's vocabulary: the object, its text table, and the merge machine that
 * byte-level BPE and SentencePiece share.
 *
 * vocab.c opens a vocabulary and owns what every kind has in common; vocab_merge.c merges symbols,
 * best pair first; a kind (vocab_bpe.c, vocab_spm.c) is one row of zt_vocab_kinds.
 */
#ifndef ZT_LLM_VOCAB_H
#define ZT_LLM_VOCAB_H

#include "lib/llm/llm.h"

/* GGUF's numbers for token types, and our bit beside them. */
enum {
    ZT_TOK_NORMAL = 1,
    ZT_TOK_UNKNOWN = 2,
    ZT_TOK_CONTROL = 3,
    ZT_TOK_USER = 4,
    ZT_TOK_UNUSED = 5,
    ZT_TOK_BYTE = 6,
    ZT_TOK_TYPE_MASK = 15,
    ZT_TOK_EOG = 16 /* ends a generation */
};

/* Longest text of a token that is looked for in raw text. It bounds the work at each byte. */
#define ZT_SPECIAL_MAX 512

typedef struct zt_merges zt_merges; /* vocab_bpe.c: (left, right) -> rank, merged */
typedef struct zt_split zt_split;   /* vocab_bpe.c: compiled pre-tokenizer */
typedef struct zt_vocab_kind zt_vocab_kind;

typedef struct zt_slot { /* of the text table; id is one more than the token's, 0 is free */
    uint32_t tag;
    uint32_t id;
} zt_slot;

struct zt_vocab {
    zt_ctx *ctx;
    const char *file; /* for messages */
    const zt_vocab_kind *kind;
    int32_t n;
    zt_bytes *text; /* [n], borrowed from the file's header */
    uint8_t *attr;  /* [n]: type, and ZT_TOK_EOG */
    zt_slot *slot;  /* text -> id, open addressing */
    size_t mask;    /* slots - 1 */
    size_t longest; /* bytes of the longest text */
    int32_t bos, eos, unk; /* -1: none */
    bool add_bos, add_eos, add_space;
    /* Bit n - 1 of row c: some special token of n bytes starts with byte c. */
    uint64_t special[256][ZT_SPECIAL_MAX / 64];
    int32_t byte_id[256]; /* the token of a byte, -1: none */
    /* gpt2 */
    zt_merges *merges;
    zt_split *split;
    /* llama */
    uint32_t *order; /* [n]: scores as integers, the best is the smallest */
};

/* ---- the text table ---------------------------------------------------------------------------- */

#define ZT_HASH_SEED UINT64_C(0xcbf29ce484222325)

/* FNV-1a: a prefix's hash goes on to the hash of a longer prefix. */
static inline uint64_t zt_hash_more(uint64_t h, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* The id of the text that is a followed by b (b may be empty), whose hash is h; -1: none. */
int32_t zt_vocab_lookup(const zt_vocab *v, uint64_t h, zt_bytes a, zt_bytes b);

/* ---- the merge machine ------------------------------------------------------------------------- */

/* Symbols are pieces of one text, in a doubly linked list in text order. */
typedef struct zt_sym {
    uint32_t at, len; /* bytes */
    int32_t prev, next; /* -1: none */
    int32_t id;       /* token, -1: none has this text */
} zt_sym;

typedef struct zt_pair { /* two neighbours that may merge */
    uint64_t key;        /* rank << 32 | left symbol: best first, then leftmost */
    uint32_t len;        /* of both together: while it holds, neither has changed */
    int32_t id;          /* what they become */
} zt_pair;

/* May a and b merge? If so *rank (small is good) and *id. */
typedef bool zt_pair_fn(const zt_vocab *v, const char *text, const zt_sym *a, const zt_sym *b,
                        uint32_t *rank, int32_t *id);

typedef struct zt_merger { /* working memory, kept from piece to piece */
    zt_ctx *ctx;
    zt_sym *sym;
    size_t n, cap;
    zt_pair *heap;
    size_t n_heap, cap_heap;
} zt_merger;

/* Fill sym[0..n) with at, len and id after reserving; run links them. n < 2^31. */
zt_status zt_merger_reserve(zt_merger *m, size_t n);
/* Merges until nothing does. What is left is the list from symbol 0 on. O(n log n). */
void zt_merger_run(zt_merger *m, const zt_vocab *v, const char *text, zt_pair_fn *pair);
void zt_merger_fini(zt_merger *m);

/* ---- kinds ------------------------------------------------------------------------------------- */

struct zt_vocab_kind {
    const char *name; /* tokenizer.ggml.model */
    bool add_bos;     /* where the file does not say */
    bool add_space;   /* likewise */
    int32_t bos, eos, unk;
    zt_status (*open)(zt_vocab *v, const zt_gguf *g);
    void (*close)(zt_vocab *v);
    /* Ordinary text without special tokens; nothing or a special token is before it. n > 0. */
    zt_status (*encode)(const zt_vocab *v, const char *text, size_t n, zt_merger *m, zt_ids *ids);
    /* The bytes of an ordinary token. */
    zt_status (*decode)(const zt_vocab *v, int32_t id, zt_str *out);
};

extern const zt_vocab_kind zt_vocab_gpt2, zt_vocab_llama;

#endif
