/* vocab_onig.h - private: regular expressions of Oniguruma written anew for PCRE2. */
#ifndef ZT_LLM_VOCAB_ONIG_H
#define ZT_LLM_VOCAB_ONIG_H

#include "lib/llm/vocab/vocab_json.h"

/* Appends to out an expression for PCRE2 (UTF, UCP, MULTILINE, newline LF) with the same matches.
 * What has no counterpart is ZT_ENOTSUP, what is no expression ZT_EDATA. */
zt_status zt_onig_to_pcre2(zt_ctx *ctx, const char *file, const char *where, zt_bytes regex,
                           zt_str *out);

/* ---- what the two files share ---------------------------------------------------------------- */

enum { ZT_ONIG_DEPTH = 100 };

/* \w in a class; and outside of one, where Latin-1's other numbers are in it too. */
#define ZT_ONIG_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define ZT_ONIG_WORD_ALONE ZT_ONIG_WORD "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

typedef struct zt_onig_group {
    size_t offset; /* where its text begins in out */
    int closers; /* (?i) and the like that end with it */
} zt_onig_group;

typedef struct zt_onig { /* an expression being written anew */
    zt_ctx *ctx;
    const char *file, *where;
    zt_bytes whole;
    const char *cursor, *end;
    zt_str *out;
    zt_onig_group group[ZT_ONIG_DEPTH]; /* the last is the whole expression's */
    int depth;
    ptrdiff_t atom; /* where the last thing that may be repeated begins in out; negative: none */
} zt_onig;

zt_status zt_onig_fail(const zt_onig *onig, zt_status status, const char *what);
bool zt_onig_among(const char *set, char letter);
bool zt_onig_more(const zt_onig *onig, const char *text); /* does text come next? */
/* After \p or \P: {name} or {^name}. `set` stands within brackets. */
zt_status zt_onig_property(zt_onig *onig, bool *negative, char *set, size_t capacity);
/* Is the escape letter letter a set? Then it, within brackets, and whether its opposite is meant. */
const char *zt_onig_letter(char letter, bool *negative);
/* The character that begins at p, after a backslash if `escaped`. */
zt_status zt_onig_char(zt_onig *onig, bool escaped, uint32_t *codepoint);
zt_status zt_onig_put_char(zt_str *out, uint32_t codepoint);    /* a literal, in or out of a class */
zt_status zt_onig_class(zt_onig *onig, zt_str *out, int depth); /* after "[" */

#endif
