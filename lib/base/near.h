/* near.h - unknown words: the closest known name, if one is close enough, and the list of known
 * names.
 *
 *     zt_near_hint hint;
 *     zt_fail(ctx, ZT_EUSAGE, "unknown colour '%s'%s", word, zt_near(hint, word, zt_near_list, names));
 */
#ifndef ZT_NEAR_H
#define ZT_NEAR_H

#include "lib/base/base.h"

/* The i-th name, NULL past the last; empty names are skipped. */
typedef const char *zt_name_fn(const void *user, int i);
/* For user = an array of names, NULL last. */
const char *zt_near_list(const void *names, int i);

typedef char zt_near_hint[96];
/* " (did you mean 'NAME'?)" in hint, or "" where no name is close: by one edit in words of up to
 * four letters, else by two or a third of the letters. Edits are a letter more, less or another, and
 * two neighbours exchanged; case does not count. Of equally close names the one that begins alike. */
const char *zt_near(zt_near_hint hint, const char *word, zt_name_fn *name, const void *user);
/* The name itself, borrowed from the names; NULL: none is close. `length` bytes of word. */
const char *zt_near_name(const char *word, size_t length, zt_name_fn *name, const void *user);
/* Appends "a, b or c"; of more than `limit` names the first ones and "...". */
void zt_near_put(zt_str *out, int limit, zt_name_fn *name, const void *user);

/* Sets the context's error "WHAT 'word' (did you mean 'NAME'?): expected a, b or c"; what: "unknown engine", for
 * example; `length`: bytes of word. Of many names, the first ones are listed. Returns `status`. */
zt_status zt_fail_unknown(zt_ctx *ctx, zt_status status, const char *what, const char *word, size_t length, zt_name_fn *name,
                          const void *user);

#endif
