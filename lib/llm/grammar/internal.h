/* internal.h - private to lib/llm/grammar: from a text to rules, from rules to an automaton.
 *
 *     gbnf.c, regex.c, schema*.c     a notation becomes expressions of a builder
 *     arguments.c                    arguments of a tool call, by a schema and in a form of their own
 *     scan.c                         text up to a mark
 *     expression.c, characters.c     expressions; sets of characters as sequences of byte ranges
 *     rules.c                        expressions become rules: symbols that are sets of bytes or rules
 *     automaton.c                    the states that a text can be in, made when they are first met
 *     token_trie.c, mask.c           the tokens that a state allows
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
    uint32_t set_count, set_capacity;
    unsigned char byte_class[256];
    unsigned class_count;
    uint32_t start; /* the position from which a text is derived: a call of the root rule */
} grules;

/* Rules for the builder's rules and `root`. false: an error. */
bool zt_g_rules_make(gbuilder *builder, gexpr *root, grules *rules);
void zt_g_rules_fini(zt_ctx *ctx, grules *rules);

/* ---- automaton (automaton.c) ----------------------------------------------------------------- */

/* Where a state comes from and what it allows: a sorted list of (position, frame). A frame is the same for the
 * positions at which a rule's callers go on. The list of one frame or state has each position once. */
typedef struct gitem {
    uint32_t position, frame;
} gitem;

typedef struct gstate {
    uint32_t first_item, item_count;
    int32_t mask;     /* index of the mask; -1: none */
    int32_t run_next; /* the state after any plain character, see token_trie.c; STATE_NONE, STATE_UNKNOWN */
    bool complete;
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

typedef struct gnode { /* of a trie, in the order of a depth-first search */
    uint32_t skip;     /* the node after its subtree */
    int32_t token;     /* the first that ends here; -1: none */
    unsigned char byte;
    unsigned char unused;
    uint16_t depth; /* 1 below the root */
} gnode;

/* Plain tokens consist of characters that a JSON string has as they are: all but controls, quotes and the
 * backslash. They are in slices by their number of characters; slice 0 has the other tokens. */
enum { SLICES = 5 };
typedef struct gslice {
    uint32_t first, end; /* nodes */
    int characters;      /* of the longest token */
    uint64_t *mask;      /* its tokens; NULL for slice 0 */
} gslice;

struct zt_token_trie {
    zt_ctx *ctx;
    int32_t token_count;
    size_t words; /* of a mask */
    char *bytes;
    uint32_t *first; /* [token_count + 1]: the bytes of each token; empty: not in the trie */
    int32_t *same;   /* [token_count]: the next token with the same bytes; -1: none */
    gnode *node;
    uint32_t node_count;
    int depth;
    gslice slice[SLICES];
};

/* ---- grammar.c ------------------------------------------------------------------------------- */

typedef struct gmask_cache {
    uint64_t **mask; /* [capacity], of which the first made_count are allocated, and the first count hold masks */
    size_t count, made_count, capacity;
    int32_t *depth_state; /* [trie->depth + 1] */
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
