/* json.h - JSON from files that nobody vouches for, on top of jansson.
 *
 * Whole small documents become a json_t; large objects (the header of a safetensors file, a map of
 * a hundred thousand tensors) are walked member by member, so that memory follows what is kept and
 * not what the text could be blown up to. Messages name the file and what was read in it.
 */
#ifndef ZT_JSON_H
#define ZT_JSON_H

#include <jansson.h>

#include "lib/base/base.h"

/* jansson's json_loadb without members that come twice, and without what jansson 2.14 passes over:
 * a zero byte behind a number. NULL: not JSON, `error` (may be NULL) says why; no message is set. */
json_t *zt_json_parse(const char *text, size_t size, size_t flags, json_error_t *error);
/* The value of a text: one JSON value, no member twice. NULL: not so (ZT_EDATA); json_decref it. */
json_t *zt_json_load(zt_ctx *ctx, const char *file, const char *text, size_t size);
/* The same for a whole file of at most `max` bytes. ZT_ENOENT: no such file. */
json_t *zt_json_file(zt_ctx *ctx, const char *path, size_t max);

/* A member: its decoded key (borrowed, closed by a zero, with none inside) and its value's text,
 * which has been checked only so far as its end is known. */
typedef zt_status zt_json_member_fn(void *user, const char *key, const char *text, size_t size);
/* Calls fn for every member of the object in the text. Does not detect duplicate members.
 * Stops at the first status that is not ZT_OK, and returns it. */
zt_status zt_json_members(zt_ctx *ctx, const char *file, const char *text, size_t size, zt_json_member_fn *fn, void *user);
/* An item: its index and its text, checked in the same way. */
typedef zt_status zt_json_item_fn(void *user, int64_t i, const char *text, size_t size);
/* Calls fn for every item of the array in the text; otherwise as zt_json_members. */
zt_status zt_json_items(zt_ctx *ctx, const char *file, const char *text, size_t size, zt_json_item_fn *fn, void *user);
/* Appends the string that the text is (with its quotes), decoded; no zero byte is in it. */
zt_status zt_json_string(zt_ctx *ctx, const char *file, const char *text, size_t size, zt_str *out);
/* Past the value that begins at `cursor` (no white space before it): all of it is valid JSON, lists and
 * objects nest at most `depth` deep, a double holds its numbers. Members may come twice. NULL: not
 * so. Nothing is kept: memory is the stack of `depth` calls. */
const char *zt_json_value_end(const char *cursor, const char *end, int depth);
/* Is the text a quoted string without escapes, in valid UTF-8? */
bool zt_json_is_plain(const char *text, size_t size);

#endif
