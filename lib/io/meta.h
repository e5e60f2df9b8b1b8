/* meta.h - a model's metadata: an ordered list of keys, each with a value of GGUF's kinds.
 *
 * Values are kept as a GGUF v3 file holds them, little endian: what came from one goes back to the
 * same bytes. Of a string that is a u64 length and its bytes; of an array a u32 kind, a u64 count
 * and the elements.
 *
 *     zt_meta *meta = zt_meta_new(ctx);
 *     zt_meta_put_str(meta, "general.name", "tiny", 4);
 *     int64_t i = zt_meta_find(meta, "general.name");
 *     zt_meta_remove(meta, i);
 *     zt_meta_free(meta);
 */
#ifndef ZT_META_H
#define ZT_META_H

#include "lib/io/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_meta zt_meta;

typedef struct zt_meta_item {
    zt_bytes key; /* closed by a zero; none inside */
    zt_gguf_kind kind;
    const char *value; /* `bytes` of them, not aligned */
    size_t bytes;
} zt_meta_item;

zt_meta *zt_meta_new(zt_ctx *ctx); /* empty; NULL: ZT_ENOMEM */
void zt_meta_free(zt_meta *meta);  /* NULL: nothing */

zt_ctx *zt_meta_ctx(const zt_meta *meta); /* the context it was made with */

int64_t zt_meta_count(const zt_meta *meta);                      /* items, numbered from 0 */
const zt_meta_item *zt_meta_get(const zt_meta *meta, int64_t i); /* good until the next change; NULL: no such item */
int64_t zt_meta_find(const zt_meta *meta, const char *key);      /* -1: there is none */

/* Puts a copy: in the place of the key's old value, else at the end. The bytes are not checked. */
zt_status zt_meta_put(zt_meta *meta, const char *key, zt_gguf_kind kind, const void *value, size_t bytes);
/* The same without a copy: the value stays where it is, and must be there as long as `meta`. */
zt_status zt_meta_lend(zt_meta *meta, const char *key, zt_gguf_kind kind, const void *value, size_t bytes);
/* The following functions copy too, and fail with ZT_ENOMEM. A string of `length` bytes: */
zt_status zt_meta_put_str(zt_meta *meta, const char *key, const char *text, size_t length);
/* A text whose `size` bytes the caller fills in; NULL on failure. */
char *zt_meta_room(zt_meta *meta, const char *key, size_t size);
zt_status zt_meta_put_u32(zt_meta *meta, const char *key, uint32_t value); /* one u32 */
/* An array of texts[text_count]. */
zt_status zt_meta_put_strs(zt_meta *meta, const char *key, const zt_bytes *texts, int64_t text_count);
/* Puts all of `other` that `meta` has no key of. */
zt_status zt_meta_join(zt_meta *meta, const zt_meta *other);
zt_status zt_meta_share(zt_meta *meta, const zt_meta *other); /* lent: `other` lives as long as meta */
void zt_meta_remove(zt_meta *meta, int64_t i);                /* what follows moves up */

/* The item's text; {NULL, 0} if it is not a string. */
zt_bytes zt_meta_text(const zt_meta_item *item);
/* Of an array: kind and count of its elements; false if it is none. */
bool zt_meta_array(const zt_meta_item *item, zt_gguf_kind *elem, uint64_t *count);
/* An array of strings: the next from *at on (0 at first), {NULL, 0} past the last. */
zt_bytes zt_meta_next_str(const zt_meta_item *item, size_t *position);

#ifdef __cplusplus
}
#endif
#endif
