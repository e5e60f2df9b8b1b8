/* internal.h - private to lib/llm/grammar: from a text to rules, from rules to an automaton.
 *
 *     gbnf.c, regex.c, schema*.c     a notation becomes expressions of a builder
 *     arguments.c                    arguments of a tool call, by a schema and in a form of their own
 *     scan.c                         text up to a mark
 *     expression.c, characters.c     expressions; sets of characters as sequences of byte ranges
 *     rules.c                        expressions become rules: symbols that are sets of bytes or rules
 *     automaton.c                    the states that a text can be in, made when they are first met
 *     token_groups.c, token_trie.c   the tokens of a vocabulary, by their bytes and by groups of characters
 *     mask.c                         the tokens that a state allows
 *
 * Functions that make an expression return NULL after an error, which is in the context, and take NULL for the
 * expression of such a call: only the last result of several needs a check.
 */
#ifndef ZT_GRAMMAR_INTERNAL_H
#define ZT_GRAMMAR_INTERNAL_H

#include "lib/llm/grammar/expression.h"

#include <jansson.h>

enum {
    MOST_SYMBOLS = 1 << 20,    /* of all rules */
    MOST_NESTING = 200,        /* of parentheses, and of a schema */
    MOST_REPEATS = 1 << 16,    /* {m,n} */
    MOST_EXPRESSIONS = 1 << 20 /* of a builder */
};

/* ---- sets of characters ---------------------------------------------------------------------- */

typedef struct grange { /* code points, both included */
    uint32_t first, last;
} grange;

typedef struct gchars { /* a set of characters: ranges that rise and do not touch, once it is normalized */
    grange *range;
    int count, capacity;
} gchars;

/* ---- expressions (expression.c) -------------------------------------------------------------- */

typedef struct gset { /* of byte classes or bytes */
    uint64_t word[4];
} gset;

static inline bool zt_g_set_has(const gset *set, unsigned bit) { return set->word[bit / 64] >> bit % 64 & 1; }
static inline void zt_g_set_add(gset *set, unsigned bit) { set->word[bit / 64] |= UINT64_C(1) << bit % 64; }
static inline void zt_g_set_join(gset *set, const gset *other)
{
    for (int i = 0; i < 4; i++) set->word[i] |= other->word[i];
}

struct gexpr {
    gkind kind;
    union {
        zt_bytes text;
        gchars chars;
        gset bytes;
        struct {
            gexpr **item;
            int count, capacity;
        } list; /* of a sequence or a choice */
        struct {
            gexpr *body;
            int64_t least, most; /* most -1: no limit */
        } repeat;
        int rule;
    };
};

typedef struct grule {
    const char *name;
    gexpr *expr; /* NULL: not defined yet */
} grule;

struct gbuilder {
    zt_ctx *ctx;
    zt_arena *arena;
    const char *name; /* of the part, for messages */
    grule *rule;
    int rule_count, rule_capacity;
    int expressions;
    bool escape_less; /* in JSON's strings, < is written as \\u003c */
};

gexpr *zt_g_chars(gbuilder *builder, const gchars *chars); /* copied and normalized; an empty set matches nothing */
gexpr *zt_g_bytes(gbuilder *builder, const gset *bytes);

/* One of count texts, by their common beginnings. They are sorted in place. */
gexpr *zt_g_one_of(gbuilder *builder, zt_bytes *texts, size_t count);

/* characters.c. A set grows in the builder's arena. */
bool zt_g_chars_add(gbuilder *builder, gchars *chars, uint32_t first, uint32_t last); /* false: no memory */
void zt_g_chars_normalize(gchars *chars);                                             /* without surrogates */
bool zt_g_chars_invert(gbuilder *builder, gchars *chars);                             /* all other characters */
bool zt_g_chars_has(const gchars *chars, uint32_t code_point);                        /* of a normalized set */
/* \d \w \s and their opposites, as ECMAScript has them. Of white space only what is such in Python, too, so that either accepts
 * what is written; with `wide` what is such in one of them (for a class that is inverted). false: not such a letter, or no memory. */
bool zt_g_chars_class(gbuilder *builder, gchars *chars, char letter, bool wide);

/* A range of bytes for each byte of a character. */
typedef struct gbytes_sequence {
    unsigned char first[4], last[4];
    int count;
} gbytes_sequence;
/* Calls fn for each sequence of byte ranges whose strings are the UTF-8 of the set's characters. */
typedef bool gbytes_fn(void *user, const gbytes_sequence *sequence);
bool zt_g_chars_bytes(const gchars *chars, gbytes_fn *fn, void *user); /* false: fn said so */

/* ---- notations ------------------------------------------------------------------------------- */

gexpr *zt_g_gbnf(gbuilder *builder, const char *text, size_t size);
/* How a regular expression's characters are written. */
typedef enum gwritten {
    G_PLAIN,       /* as they are; the whole text matches */
    G_JSON_STRING, /* as in a JSON string, without quotes; a part of the text may match, as in JSON Schema's `pattern` */
    G_RAW_STRING,  /* the same, but as they are, without '<' and line ends: see zt_g_raw_characters */
} gwritten;
gexpr *zt_g_regex(gbuilder *builder, const char *text, size_t size, gwritten written);
gexpr *zt_g_json_characters(gbuilder *builder, gchars *chars); /* a character of the set, in its one spelling in a JSON string */
gexpr *zt_g_json_character(gbuilder *builder);                 /* any character, in any spelling */
/* A character of the set that cannot be part of a mark: no '<', and no line end. The set is changed. */
gexpr *zt_g_raw_characters(gbuilder *builder, gchars *chars);
gexpr *zt_g_schema(gbuilder *builder, const json_t *schema);
gexpr *zt_g_json_object(gbuilder *builder);

/* ---- rules (rules.c) ------------------------------------------------------------------------- */

/* A symbol of a rule's alternative: the alternative's end, a set of bytes or a rule. */
typedef uint32_t gsymbol;
enum { SYMBOL_END = 0, SYMBOL_SET = 1, SYMBOL_RULE = 2, SYMBOL_KIND = 3, SYMBOL_SHIFT = 2 };
#define SYMBOL_INDEX(symbol)   ((symbol) >> SYMBOL_SHIFT)
#define SYMBOL_OF(kind, index) ((uint32_t)(index) << SYMBOL_SHIFT | (kind))

typedef struct gbody {   /* of a rule: its alternatives */
    uint32_t first, end; /* indices into grules.alternative */
    int name;            /* the rule of the builder that it comes from */
} gbody;

typedef struct grules {
    gsymbol *symbol; /* of all alternatives, each closed by SYMBOL_END; a place in it is a position */
    uint32_t symbol_count, symbol_capacity;
    uint32_t *alternative; /* the position at which it begins */
    uint32_t alternative_count, alternative_capacity;
    gbody *body;
    uint32_t rule_count, rule_capacity;
    bool *nullable;  /* [rule_count]: does it derive the empty text? */
    uint32_t *order; /* [rule_count]: a rule's is less than those of the rules that it may begin with */
    gset *set;       /* of byte classes */
    gset *set_bytes; /* the same sets, of bytes */
    uint32_t set_count, set_capacity;
    unsigned char byte_class[256];
    unsigned class_count;
    uint32_t start; /* the position from which a text is derived: a call of the root rule */
} grules;

/* Rules for the builder's rules and `root`. false: an error. */
bool zt_g_rules_make(gbuilder *builder, gexpr *root, grules *rules);
void zt_g_rules_fini(zt_ctx *ctx, grules *rules);

/* Characters that grammars often treat alike are one group. A string of whole characters consists of some groups; other strings
 * have BROKEN_GROUP, too. */
enum { GROUPS = 16, SPACE_GROUP = 6, BROKEN_GROUP = 15 };
typedef uint16_t ggroups; /* bit g: group g */

typedef struct gcharacter_groups {
    gset first_bytes[GROUPS];       /* with which characters of the group begin */
    uint32_t sequences[GROUPS + 1]; /* where the group's are in `sequence` */
    gbytes_sequence sequence[];     /* whose strings are the characters */
} gcharacter_groups;

/* ---- automaton (automaton.c) ----------------------------------------------------------------- */

/* Where a state comes from and what it allows: a sorted list of (position, frame). A frame is the same for the
 * positions at which a rule's callers go on. The list of one frame or state has each position once. */
typedef struct gitem {
    uint32_t position, frame;
} gitem;

typedef struct gstate {
    uint32_t first_item, item_count;
    int32_t mask;       /* index of the mask; -1: none */
    int32_t run_next;   /* the state after any character of the groups run_groups; STATE_NONE; STATE_UNKNOWN: not found out yet */
    ggroups run_groups; /* see mask.c */
    bool complete;
    gset live; /* the bytes that may come next */
} gstate;

enum { STATE_DEAD = 0, STATE_UNKNOWN = -1, STATE_NONE = -2 };

typedef struct glist { /* of items, interned */
    gitem *item;
    size_t item_count, item_capacity;
    uint32_t *first; /* [count + 1] */
    uint32_t count, capacity;
    uint32_t *slot; /* hash table of indices + 1 */
    uint32_t slot_mask;
} glist;

typedef struct gautomaton gautomaton;
gautomaton *zt_g_automaton_new(zt_ctx *ctx, const grules *rules);
void zt_g_automaton_free(gautomaton *automaton);

struct gautomaton {
    zt_ctx *ctx;
    const grules *rules;
    glist frames;
    glist states;  /* their items; the last bit of the first position says whether the text may end */
    gstate *state; /* [states.count] */
    int32_t *next; /* [states.count * classes]: STATE_UNKNOWN, or the state after a byte of that class */
    size_t next_capacity;
    int32_t start;         /* the state at the beginning */
    uint64_t steps;        /* left for this call */
    struct gunion *unions; /* memory of unions of frames, a hash table */
    struct gwork *work;
};
enum { MOST_STEPS = 20 * 1000 * 1000 };  /* of one token */
#define MOST_BYTES   ((size_t)512 << 20) /* of an automaton */
#define SPARED_BYTES ((size_t)64 << 20)  /* beyond which it begins anew with the next token */

/* The state after a byte of the class; STATE_DEAD: not allowed; < 0: an error. */
int32_t zt_g_automaton_step(gautomaton *automaton, int32_t state, unsigned byte_class);
size_t zt_g_automaton_bytes(const gautomaton *automaton);
/* Keeps only the count given states, and replaces them by their new numbers. */
zt_status zt_g_automaton_restart(gautomaton *automaton, int32_t *states, size_t count);

static inline int32_t zt_g_next(gautomaton *automaton, int32_t state, unsigned char byte)
{
    unsigned byte_class = automaton->rules->byte_class[byte];
    int32_t next = automaton->next[(size_t)state * automaton->rules->class_count + byte_class];
    return next != STATE_UNKNOWN ? next : zt_g_automaton_step(automaton, state, byte_class);
}

/* ---- tokens (token_trie.c) ------------------------------------------------------------------- */

/* Tokens are in two families with a trie each: those that begin with a space and go on, without that space, and all others. The masks of a
 * family give all its tokens of some groups and lengths. */
enum { FAMILY_SPACED, FAMILY_OTHER, FAMILIES, TOKEN_LENGTHS = 26, ANY_LENGTH = TOKEN_LENGTHS - 1 };
typedef struct gfamily {
    uint32_t root;                 /* node */
    uint64_t *with[GROUPS];        /* tokens that have a character of the group */
    uint32_t with_count[GROUPS];   /* how many they are */
    uint64_t *upto[TOKEN_LENGTHS]; /* tokens of up to so many characters; ANY_LENGTH: all */
} gfamily;

/* A node of a trie. The children of a node are consecutive. Below a node with one token there are no nodes: the rest of the token's
 * bytes is its tail. */
typedef struct gnode {
    uint32_t first; /* of the children; of a tail: index in zt_token_trie.tail */
    uint32_t wide;  /* WIDE_TAIL, WIDE_NONE, or the index in zt_token_trie.wide of the children's bytes */
    int32_t token;  /* the token that ends here, or at the end of the tail; TOKEN_NONE; TOKEN_FIRST - id: the first of several */
    uint16_t count; /* children, or bytes of the tail */
    ggroups groups; /* of all tokens at or below the node */
    unsigned char byte; /* that leads here */
    unsigned char most; /* characters of the longest token at or below the node, up to 255 */
} gnode;
enum { WIDE_TAIL = UINT32_MAX - 1, WIDE_NONE = UINT32_MAX, WIDE_LEAST = 8, TOKEN_NONE = -1, TOKEN_FIRST = -2 };

struct zt_token_trie {
    zt_ctx *ctx;
    int32_t token_count;
    size_t words; /* of a mask */
    char *bytes;
    uint32_t *first; /* [token_count + 1]: the bytes of each token; empty: not in the trie */
    int32_t *same;   /* [token_count]: the next token with the same bytes; -1: none */
    gnode *node;
    size_t node_count, node_capacity;
    gset *wide; /* the bytes of the children of nodes that have many */
    size_t wide_count, wide_capacity;
    char *tail;
    size_t tail_size;
    gfamily family[FAMILIES];
    gcharacter_groups *groups;
};

/* token_groups.c */
ggroups zt_g_groups(const char *bytes, size_t size, int *characters); /* of a string, and its number of characters */
gcharacter_groups *zt_g_character_groups(zt_ctx *ctx);                /* NULL: no memory */

/* ---- grammar.c ------------------------------------------------------------------------------- */

typedef struct gmask_cache {
    uint64_t **mask; /* [capacity], of which the first made_count are allocated, and the first count hold masks; the word after a
                      * mask is the number of its tokens */
    size_t count, made_count, capacity;
    struct gpending *pending; /* nodes that wait during a search */
    size_t pending_capacity;
    struct gunsearched *unsearched; /* masks of families */
    size_t unsearched_next;
} gmask_cache;

struct zt_grammar {
    zt_ctx *ctx;
    grules rules;
    gautomaton *automaton;
    const zt_token_trie *trie;
    gmask_cache masks;
    struct zt_grammar_matcher *matchers; /* a list of all */
    uint64_t restarts;
    size_t kept_bytes; /* of the automaton after the last restart */
};

struct zt_grammar_matcher {
    zt_grammar *grammar;
    int32_t state;
    zt_grammar_matcher *next, **at; /* in the grammar's list */
};

/* mask.c */
const uint64_t *zt_g_mask(zt_grammar *grammar, int32_t state); /* NULL: an error */
void zt_g_masks_forget(zt_grammar *grammar);                   /* all */
void zt_g_masks_fini(zt_grammar *grammar);

#endif
