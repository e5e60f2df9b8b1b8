/* vocab.h - private to lib/llm/vocab: the specification a vocabulary is built from, the object, its text table,
 * splitting of text into pieces, and the merge loop that all kinds of BPE share.
 *
 * A reader (vocab_gguf.c: the tokenizer's keys of GGUF; vocab_json.c: tokenizer.json) fills a
 * zt_vocab_spec and calls zt_vocab_from (vocab.c), which does what all vocabularies have in common.
 * A kind (vocab_bpe.c, vocab_spm.c, ...) is a table of functions that turn ordinary text into ids and ids into text.
 */
#ifndef ZT_LLM_VOCAB_H
#define ZT_LLM_VOCAB_H

#include "lib/llm/llm.h"

/* GGUF's numbers for token types, and our bits beside them. */
enum {
    ZT_TOK_NORMAL = 1,
    ZT_TOK_UNKNOWN = 2,
    ZT_TOK_CONTROL = 3, /* found in raw text only with ZT_TOK_SPECIAL */
    ZT_TOK_USER = 4,    /* found in raw text always */
    ZT_TOK_UNUSED = 5,
    ZT_TOK_BYTE = 6,
    ZT_TOK_TYPE_MASK = 15,
    ZT_TOK_EOG = 16,    /* ends a generation */
    ZT_TOK_LSTRIP = 32, /* takes the white space before it with it, */
    ZT_TOK_RSTRIP = 64, /* after it */
    ZT_TOK_WITHIN = 128 /* found in raw text by the kind itself */
};

/* Longest text of a token that is looked for in raw text. It bounds the work at each byte. */
#define ZT_SPECIAL_MAX 512

typedef struct zt_pairs zt_pairs;       /* vocab_pairs.c */
typedef struct zt_split zt_split;       /* vocab_split.c: compiled pre-tokenizer */
typedef struct zt_trie zt_trie;         /* vocab_trie.c */
typedef struct zt_charsmap zt_charsmap; /* vocab_charsmap.c */
typedef struct zt_vocab_kind zt_vocab_kind;

/* ---- what a vocabulary is made of ------------------------------------------------------------ */

typedef struct zt_merge_spec { /* the texts of two tokens; earlier in the list merges first */
    zt_bytes left, right;
} zt_merge_spec;

typedef enum zt_split_how {                    /* use of a pattern's matches */
                            ZT_SPLIT_ISOLATED, /* a match is a piece, what lies between matches is a piece */
                            ZT_SPLIT_THREES    /* the same, and a match is cut in threes of characters from its right end */
} zt_split_how;

typedef struct zt_split_rule {
    const char *pattern; /* PCRE2 with UTF and UCP; \s and \S mean Unicode's White_Space */
    zt_split_how behavior;
} zt_split_rule;

enum { ZT_AROUND_MAX = 8 }; /* most ids before, or after, a text by the model's rule */

typedef struct zt_around {
    int32_t id[ZT_AROUND_MAX];
    int count;
} zt_around;

typedef struct zt_vocab_spec {
    const char *file; /* for messages; lives as long as the vocabulary */
    const zt_vocab_kind *kind;
    int32_t token_count;

    /* zt_alloc'd, and the vocabulary's (or freed) whatever zt_vocab_from answers. */
    zt_bytes *text; /* [token_count], "" for an id without a text */
    uint16_t *attr; /* [token_count]: type and bits */
    double *score;  /* [token_count]; NULL where the kind has none */
    void *storage;  /* texts may point into it; NULL: they live elsewhere as long */

    /* Borrowed for the call. */
    const zt_merge_spec *merge;
    int64_t n_merges;
    const zt_split_rule *rule; /* each cuts the pieces that the one before left */
    int n_rules;
    zt_bytes charsmap; /* t5: SentencePiece's precompiled normalization, lives as long; "": none */
    void *extra;       /* for the kind's open */

    int32_t bos, eos, unk;         /* -1: none; checked by zt_vocab_from */
    zt_around before, after;       /* ids that the model adds around a text */
    bool byte_level;               /* BPE: symbols are bytes, written as printable characters; else characters */
    bool ignore_merges;            /* BPE: a piece that is a token is that token */
    bool byte_fallback;            /* characters without a token become the tokens <0xNN> of their bytes */
    bool add_space;                /* a space goes before a text; decoding takes it away */
    bool merge_spaces;             /* t5: replace blanks before a word by one space */
    bool lowercase, strip_accents; /* bert */
} zt_vocab_spec;

/* NULL with ZT_EDATA, ZT_ENOTSUP or ZT_ENOMEM. */
zt_vocab *zt_vocab_from(zt_ctx *ctx, zt_vocab_spec *spec);

/* vocab_json.c: text is the value of gguf's key tokenizer.huggingface.json; other keys of gguf name BOS, EOS and ends. */
zt_vocab *zt_vocab_from_json(const zt_gguf *gguf, zt_bytes text);

/* Marks the tokens of gguf's key tokenizer.ggml.eos_token_ids as ending a generation; gguf may be NULL. */
zt_status zt_vocab_ends(zt_ctx *ctx, zt_vocab_spec *spec, const zt_gguf *gguf);

/* ---- the object ------------------------------------------------------------------------------ */

typedef struct zt_slot { /* of the text table; id is one more than the token's, 0 is free */
    uint32_t tag;
    uint32_t id;
} zt_slot;

struct zt_vocab {
    zt_ctx *ctx;
    const char *file; /* for messages */
    const zt_vocab_kind *kind;
    int32_t token_count;
    zt_bytes *text; /* [token_count] */
    uint16_t *attr; /* [token_count] */
    double *score;  /* [token_count] or NULL */
    void *storage;
    zt_slot *slot;         /* text -> id, open addressing */
    size_t mask;           /* slots - 1 */
    size_t longest;        /* bytes of the longest text */
    int32_t bos, eos, unk; /* -1: none */
    zt_around before, after;
    bool byte_level, ignore_merges, byte_fallback, add_space;
    /* Bit n - 1 of row c: some special token of n bytes starts with byte c. */
    uint64_t special[256][ZT_SPECIAL_MAX / 64];
    int32_t byte_id[256]; /* the token of a byte, -1: none */
    zt_pairs *merges;     /* BPE */
    zt_split *split;      /* the rules; NULL: none */
    uint32_t *order;      /* llama, [token_count]: scores as integers, the best is the smallest */
    /* t5 and bert */
    zt_trie *trie; /* text -> id, byte by byte */
    zt_charsmap *charsmap;
    double unk_score;
    bool merge_spaces, lowercase, strip_accents;
    void *extra; /* a kind's own */
};

/* ---- the text table -------------------------------------------------------------------------- */

#define ZT_HASH_SEED UINT64_C(0xcbf29ce484222325)

/* FNV-1a: continues the hash of a prefix with more text. */
static inline uint64_t zt_hash_more(uint64_t hash, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* The id of the text left + right (right may be empty), whose hash is given; -1: none. */
int32_t zt_vocab_lookup(const zt_vocab *vocab, uint64_t hash, zt_bytes left, zt_bytes right);

/* ---- the merge machine ----------------------------------------------------------------------- */

/* Symbols are pieces of one text, in a doubly linked list in text order. */
typedef struct zt_sym {
    uint32_t offset, length; /* bytes */
    int32_t prev, next;      /* -1: none */
    int32_t id;              /* token, -1: none has this text */
} zt_sym;

typedef struct zt_pair { /* two neighbours that may merge */
    uint64_t key;        /* rank << 32 | left symbol: best first, then leftmost */
    uint32_t length;     /* of both together; the pair is out of date when the symbols' lengths no longer add up to it */
    int32_t id;          /* the merged token */
} zt_pair;

/* Can the two symbols merge? If so, sets *rank (lowest merges first) and *id. `arg` is the caller's. */
typedef bool zt_pair_fn(const void *arg, const char *text, const zt_sym *left, const zt_sym *right, uint32_t *rank, int32_t *id);

typedef struct zt_merger { /* working memory, kept from piece to piece */
    zt_ctx *ctx;
    zt_sym *symbols;
    size_t count, capacity;
    zt_pair *heap;
    size_t heap_count, heap_capacity;
    zt_str printed; /* BPE's */
} zt_merger;

void zt_merger_init(zt_merger *merger, zt_ctx *ctx);

/* Makes room for count symbols, count < 2^31. The caller fills symbols[0..count) with offset, length and id;
 * zt_merger_run links them. */
zt_status zt_merger_reserve(zt_merger *merger, size_t count);
/* Merges until no pair can merge. The result is the list from symbol 0 on. O(n log n). */
void zt_merger_run(zt_merger *merger, const void *arg, const char *text, zt_pair_fn *pair);
void zt_merger_fini(zt_merger *merger);

/* The merges of a BPE: a pair of ids gives the merged id and its rank. For at most `limit` pairs; freed by zt_free. */
zt_pairs *zt_pairs_new(zt_ctx *ctx, size_t limit);
bool zt_pairs_find(const zt_pairs *pairs, int32_t left, int32_t right, uint32_t *rank, int32_t *id);
void zt_pairs_put(zt_pairs *pairs, int32_t left, int32_t right, uint32_t rank, int32_t id); /* replaces */

/* ---- cutting text into pieces ---------------------------------------------------------------- */

/* Called with each piece in order, none of them empty. A status other than ZT_OK ends the cutting. */
typedef zt_status zt_split_fn(void *arg, const char *piece, size_t size);

/* Compiles the rules. ZT_EBUG: a built-in pattern does not compile. */
zt_split *zt_split_new(zt_ctx *ctx, const char *file, const zt_split_rule *rule, int rule_count);
void zt_split_free(zt_split *split);
/* Splits a text of any bytes: invalid UTF-8 is a piece of its own. ZT_EDATA: a match exceeds the limit of
 * steps. Thread-safe. */
zt_status zt_split_run(const zt_split *split, const char *text, size_t size, zt_split_fn *fn, void *arg);

/* ---- what kinds share ------------------------------------------------------------------------ */

/* Spaces as U+2581 and back. */
#define ZT_SPACE     "\xe2\x96\x81"
#define ZT_SPACE_LEN 3
zt_status zt_vocab_put_spaces(zt_str *out, const char *text, size_t size);
zt_status zt_vocab_take_spaces(zt_str *out, const char *text, size_t size);
/* The text of a token with U+2581 for space or of one byte: decode of several kinds. */
zt_status zt_vocab_decode_spaced(const zt_vocab *vocab, int32_t id, bool first, zt_str *out);

/* byte_id from the texts <0x00> to <0xFF>. */
void zt_vocab_hex_bytes(zt_vocab *vocab);
/* The value of a byte token's text "<0x41>", -1: it is not of that form. */
int zt_vocab_hex_byte(zt_bytes text);

/* ---- tries ----------------------------------------------------------------------------------- */

/* A map from byte strings to values that is followed byte by byte from the root. */
enum { ZT_TRIE_ROOT = 0, ZT_TRIE_NONE = 0 }; /* nothing leads to the root */
zt_trie *zt_trie_new(zt_ctx *ctx);
void zt_trie_free(zt_trie *trie);
zt_status zt_trie_put(zt_trie *trie, zt_bytes key, int32_t value); /* replaces; value >= 0 */
uint32_t zt_trie_step(const zt_trie *trie, uint32_t node, unsigned char byte);
int32_t zt_trie_value(const zt_trie *trie, uint32_t node); /* -1: no key ends here */

/* ---- SentencePiece's precompiled normalization ----------------------------------------------- */

/* Bytes are borrowed: they must live as long. ZT_EDATA: its sizes do not fit. */
zt_charsmap *zt_charsmap_new(zt_ctx *ctx, const char *file, zt_bytes map);
void zt_charsmap_free(zt_charsmap *charsmap);
/* What the longest (or shortest) mapped prefix of text becomes, and *used, its bytes; 0: none is
 * mapped. ZT_EDATA when the map leads out of itself. */
zt_status zt_charsmap_prefix(const zt_charsmap *charsmap, const char *text, size_t size, bool shortest, zt_bytes *out,
                             size_t *used);

/* ---- kinds ----------------------------------------------------------------------------------- */

struct zt_vocab_kind {
    const char *name; /* tokenizer.ggml.model */
    zt_status (*open)(zt_vocab *vocab, const zt_vocab_spec *spec);
    void (*close)(zt_vocab *vocab); /* also after an open that failed half way */
    /* Ordinary text without special tokens; nothing or a special token is before it. Not empty.
     * The merger is working memory, kept from call to call. */
    zt_status (*encode)(const zt_vocab *vocab, const char *text, size_t size, zt_merger *merger, zt_ids *ids);
    /* The same of text behind a special token; NULL: it is as any. */
    zt_status (*encode_next)(const zt_vocab *vocab, const char *text, size_t size, zt_merger *merger, zt_ids *ids);
    /* Appends the bytes of an ordinary token. `first`: it opens the text. */
    zt_status (*decode)(const zt_vocab *vocab, int32_t id, bool first, zt_str *out);
    /* A kind may do without both and handle whole texts, special tokens and zt_vocab_encode's flags
     * included; then special tokens are not indexed. */
    zt_status (*encode_all)(const zt_vocab *vocab, const char *text, size_t size, unsigned flags, zt_ids *ids);
    zt_status (*decode_all)(const zt_vocab *vocab, const int32_t *ids, size_t size, bool special, zt_str *out);
};

extern const zt_vocab_kind zt_vocab_gpt2, zt_vocab_llama, zt_vocab_t5, zt_vocab_bert, zt_vocab_rwkv,
    zt_vocab_sentencepiece; /* spec.extra: a zt_sp_model, which it takes */

static inline int zt_vocab_type(const zt_vocab *vocab, int32_t id) { return vocab->attr[id] & ZT_TOK_TYPE_MASK; }

/* Is the token parsed in raw text, before the kind's encode? */
static inline bool zt_vocab_is_special(const zt_vocab *vocab, int32_t id)
{
    int type = vocab->attr[id] & ZT_TOK_WITHIN ? ZT_TOK_NORMAL : zt_vocab_type(vocab, id);
    return type == ZT_TOK_USER || type == ZT_TOK_CONTROL || type == ZT_TOK_UNKNOWN;
}

/* ---- pre-tokenizers known by name ------------------------------------------------------------ */

enum { ZT_PRE_RULES = 8 };

typedef struct zt_pre {               /* a row of vocab_pre.c */
    const char *name;                 /* tokenizer.ggml.pre */
    const char *same;                 /* alias of the row of this name */
    zt_split_rule rule[ZT_PRE_RULES]; /* up to a NULL pattern */
    bool ignore_merges;
    bool add_bos;   /* add BOS, if the file does not specify it */
    bool force_bos; /* add BOS, whatever the file specifies */
    bool no_bos;    /* no BOS, unless the file has one */
    bool plain;     /* characters, not bytes; spaces are U+2581, bytes <0xNN> */
} zt_pre;

const zt_pre *zt_pre_find(zt_bytes name); /* NULL: unknown name */

#endif
