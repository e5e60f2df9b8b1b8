/* jinja.h - Jinja templates: parsed once, rendered with values from JSON.
 *
 * The language is that of jinja2 3.1 as transformers sets it up for chat templates: the immutable
 * sandbox, trim_blocks, lstrip_blocks, break and continue, {% generation %}, raise_exception,
 * strftime_now, and transformers' tojson. What a template may do is compute text: there are no
 * files, imports or clocks beside the time that the caller gives, and nothing can be changed but a
 * namespace. Not there: autoescape, template inheritance, integers of more than 64 bits, and the
 * filters random, pprint, striptags, urlize and wordwrap; a template that asks for them is refused.
 *
 * A template is hostile: its steps, memory, depth and output are bounded.
 */
#ifndef ZT_JINJA_H
#define ZT_JINJA_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_jinja zt_jinja;
struct json_t; /* jansson's */

/* What one rendering may take. 0: the default. */
typedef struct zt_jinja_limits {
    uint64_t steps; /* 20 million: expressions, iterations, and bytes of text by the dozen */
    size_t memory;  /* bytes, 256 MiB: all values together; none is freed before the end */
    size_t output;  /* bytes, 64 MiB */
    int depth;      /* 1000: of nested expressions, statements and calls */
} zt_jinja_limits;

/* Parses size bytes of UTF-8; `name` is for messages and borrowed as long. NULL with ZT_EDATA ("NAME:
 * line N: ..."), ZT_ENOMEM. */
zt_jinja *zt_jinja_parse(zt_ctx *ctx, const char *name, const char *text, size_t size);
void zt_jinja_free(zt_jinja *jinja); /* NULL: nothing */

typedef struct zt_jinja_vars {
    /* Objects whose members are the variables of the template. Strings of `input` are somebody's
     * text; those of `own` (BOS, EOS) count as written by the template. Either may be NULL; own is
     * looked at first. A message or tool may hold whatever JSON holds. */
    const struct json_t *input, *own;
    int64_t now; /* for strftime_now: seconds since 1970, */
    bool utc;    /* as UTC, else as local time */
    zt_jinja_limits limits;
} zt_jinja_vars;

/* Appends the text to `out`, and to `origin` (may be NULL) for each of its bytes 1 if it comes from
 * a string of vars->input, else 0. ZT_EDATA: the template cannot be rendered with these values ("NAME:
 * line N: ..."); ZT_ENOTSUP: it says so itself (raise_exception). After an error both are as they
 * were. May be called from several threads, each with a context of its own (`ctx`, which gives the
 * memory and takes the message). */
zt_status zt_jinja_render(zt_ctx *ctx, const zt_jinja *jinja, const zt_jinja_vars *vars, zt_str *out, zt_str *origin);

/* Is the variable read anywhere in the template without being set by it first? By name alone: it may
 * be inside a macro that is never called. */
bool zt_jinja_uses(const zt_jinja *jinja, const char *variable);
/* Does the word stand anywhere in it, as an attribute or a text? */
bool zt_jinja_mentions(const zt_jinja *jinja, const char *word);

#ifdef __cplusplus
}
#endif
#endif
