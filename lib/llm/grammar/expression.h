/* expression.h - for lib/llm/reply: a grammar that is made of expressions in memory, not read from a text.
 *
 * A builder holds the expressions and rules of one grammar. Functions that make an expression return NULL after an error,
 * which is in the context, and take NULL for the expression of such a call: only the last result of several needs a check.
 */
#ifndef ZT_GRAMMAR_EXPRESSION_H
#define ZT_GRAMMAR_EXPRESSION_H

#include "lib/llm/grammar/grammar.h"

typedef struct gexpr gexpr;
typedef struct gbuilder gbuilder;

typedef enum gkind { G_TEXT, G_CHARS, G_BYTES, G_SEQUENCE, G_CHOICE, G_REPEAT, G_RULE } gkind;

/* The grammar whose root `make` returns. `name` is for messages. NULL: an error. */
typedef gexpr *zt_g_make(gbuilder *builder, const void *user);
zt_grammar *zt_g_compile(zt_ctx *ctx, const char *name, zt_g_make *make, const void *user);
gexpr *zt_g_parts(gbuilder *builder, const zt_grammar_part *parts, size_t count); /* as zt_grammar_compile has them */
zt_ctx *zt_g_context(const gbuilder *builder);
void zt_g_name(gbuilder *builder, const char *name); /* for the messages from here on; borrowed */
/* "NAME: MESSAGE". Returns NULL. */
void *zt_g_fail(const gbuilder *builder, const char *format, ...) ZT_PRINTF(2, 3);

gexpr *zt_g_text(gbuilder *builder, const char *text, size_t size); /* copied; size 0: the empty text */
gexpr *zt_g_literal(gbuilder *builder, const char *text);           /* closed by a zero */
gexpr *zt_g_range(gbuilder *builder, uint32_t first, uint32_t last);
gexpr *zt_g_list(gbuilder *builder, gkind kind);                        /* empty: G_SEQUENCE or G_CHOICE */
gexpr *zt_g_add(gbuilder *builder, gexpr *list, gexpr *item);           /* returns list, or NULL */
gexpr *zt_g_sequence(gbuilder *builder, int count, gexpr *const *item); /* of a few */
gexpr *zt_g_choice(gbuilder *builder, int count, gexpr *const *item);
gexpr *zt_g_repeat(gbuilder *builder, gexpr *body, int64_t least, int64_t most); /* most -1: no limit */
gexpr *zt_g_optional(gbuilder *builder, gexpr *body);
int zt_g_rule(gbuilder *builder, const char *name, size_t size); /* a new rule, not defined yet; -1: an error */
bool zt_g_define(gbuilder *builder, int rule, gexpr *expr);      /* false: an error */
gexpr *zt_g_call(gbuilder *builder, int rule);
gexpr *zt_g_as_rule(gbuilder *builder, gexpr *expr); /* a call of a new rule, so that several places share it */
gexpr *zt_g_gap(gbuilder *builder);                  /* white space between the parts of JSON, or nothing */

/* Of items in parentheses. */
#define ZT_G_SEQUENCE(builder, ...)                                                                                              \
    zt_g_sequence(builder, (int)(sizeof((gexpr *[]){__VA_ARGS__}) / sizeof(gexpr *)), (gexpr *[]){__VA_ARGS__})
#define ZT_G_CHOICE(builder, ...)                                                                                                \
    zt_g_choice(builder, (int)(sizeof((gexpr *[]){__VA_ARGS__}) / sizeof(gexpr *)), (gexpr *[]){__VA_ARGS__})

/* ---- marks, and text between them (scan.c) --------------------------------------------------------
 *
 * In the token trie, the bytes of a control token begin with CONTROL_BYTE, which is in no text: only these expressions
 * allow control tokens. */
enum { CONTROL_BYTE = 0xff };

gexpr *zt_g_mark(gbuilder *builder, const char *text, size_t size); /* the text, written by tokens of any type */

typedef struct gmark {
    const char *text; /* not empty */
    gexpr *then;      /* what follows the mark, best a call of a rule; NULL: the mark may not come */
    bool first;       /* it counts only where nothing but white space is before it */
} gmark;

typedef struct gscan {
    const gmark *mark;
    size_t count;
    bool may_end; /* the text may end before a mark */
    bool strict;  /* before a mark: only characters, no control tokens */
} gscan;

/* Any text up to the first mark, the mark, and what follows it. Of two marks that end at the same place the longer one
 * counts. */
gexpr *zt_g_scan(gbuilder *builder, const gscan *scan);

/* ---- arguments of a call (arguments.c) -------------------------------------------------------------- */

/* How values are written that are not JSON. */
typedef struct gdialect {
    const char *words[3]; /* null, false, true */
    const char *quote;    /* the mark around a string, which is written raw; NULL: strings are JSON's */
    bool bare_keys;       /* names of properties have no quotes */
    bool escape_less;     /* JSON's strings have \\u003c for <, so that they hold no marks */
} gdialect;

/* How the properties of the outermost object are written; NULL in place of it: as a JSON object. */
typedef struct garguments {
    const char *begin;        /* before a name */
    const char *text, *other; /* between name and value: where the value is a text, and where it is another; % is the name of
                                 JSON's other types */
    const char *wrap;         /* around the value, where the reader drops it */
    const char *end;          /* behind it; NULL: nothing */
    const char *after;        /* behind `end`, of each property; ~ is white space as in JSON */
    const char *separator;    /* between two properties; the same */
    bool raw;                 /* the value of a text is not quoted; it ends at `end`, */
    const char *never;        /* and this mark is not in it; NULL: any may be */
    const gdialect *dialect;  /* NULL: JSON */
} garguments;

/* Arguments that are valid by a schema, which is an object's. */
gexpr *zt_g_arguments(gbuilder *builder, const struct json_t *schema, const garguments *form);

/* How the value of a property is written that has no quotes. */
typedef enum gtext_kind {
    G_NOT_TEXT,    /* as JSON */
    G_ALWAYS_TEXT, /* raw */
    G_TEXT_OR_NULL /* raw; the word null is the value null */
} gtext_kind;
gtext_kind zt_g_text_kind(const struct json_t *root, const struct json_t *schema);

#endif
