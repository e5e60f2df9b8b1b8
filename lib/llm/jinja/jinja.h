/* jinja.h - Jinja templates: parsed once, rendered with values from JSON.
 *
 * The language is that of jinja2 3.1 as transformers sets it up for chat templates: the immutable
 * sandbox, trim_blocks, lstrip_blocks, break and continue, {% generation %}, raise_exception,
 * strftime_now, and transformers' tojson. A template can only compute text: it has no access to
 * files, imports or clocks except the time that the caller gives, and it can change nothing but a
 * namespace. Not supported: autoescape, template inheritance, integers of more than 64 bits, and the
 * filters random, pprint, striptags, urlize, wordwrap and xmlattr; a template that uses them is an error. One
 * difference is known: where a block reads a caller's variable that the block around it sets later, jinja2 finds
 * it undefined, and this interpreter finds the caller's value.
 *
 * Templates are untrusted input: steps, memory, depth and output are bounded.
 */
#ifndef ZT_JINJA_H
#define ZT_JINJA_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_jinja zt_jinja;
struct json_t; /* jansson's */

/* Limits of one rendering. 0: the default. */
typedef struct zt_jinja_limits {
    uint64_t steps; /* 20 million: expressions, iterations, and bytes of text by the dozen */
    size_t memory;  /* bytes, 256 MiB: all values together; none is freed before the end */
    size_t output;  /* bytes, 64 MiB */
    int depth;      /* 1000: of nested expressions, statements and calls */
} zt_jinja_limits;

/* Parses size bytes of UTF-8. `name` is used in messages and must outlive the template. NULL: ZT_EDATA ("NAME:
 * line N: ...") or ZT_ENOMEM. */
zt_jinja *zt_jinja_parse(zt_ctx *ctx, const char *name, const char *text, size_t size);
/* The template's text, of *size bytes, with \n for every line's end; it lives as long as the template. NULL, 0: no template. */
const char *zt_jinja_text(const zt_jinja *jinja, size_t *size);
void zt_jinja_free(zt_jinja *jinja); /* NULL: no-op */

typedef struct zt_jinja_vars {
    /* Objects whose members are the variables of the template. Strings of `input` are user text;
     * those of `own` (BOS, EOS) count as template text. Either may be NULL; `own` takes
     * precedence. A message or tool may hold any JSON. */
    const struct json_t *input, *own;
    int64_t now; /* for strftime_now: seconds since 1970, */
    bool utc;    /* as UTC, else as local time */
    zt_jinja_limits limits;
} zt_jinja_vars;

/* Renders the template: appends the text to `out`, and to `origin` (may be NULL) for each byte 1 if it comes from
 * a string of vars->input, otherwise 0. ZT_EDATA: an error while rendering ("NAME:
 * line N: ..."); ZT_ENOTSUP: the template called raise_exception. An error leaves both
 * unchanged. Thread-safe if each thread has its own context (`ctx`, which provides the
 * memory and receives the message). */
zt_status zt_jinja_render(zt_ctx *ctx, const zt_jinja *jinja, const zt_jinja_vars *vars, zt_str *out, zt_str *origin);

/* Does the template read the variable without setting it first? Decided by name alone: the use may
 * be in a macro that is never called. */
bool zt_jinja_uses(const zt_jinja *jinja, const char *variable);
/* Does the word occur in the template as an attribute or a string? */
bool zt_jinja_mentions(const zt_jinja *jinja, const char *word);

#ifdef __cplusplus
}
#endif
#endif
