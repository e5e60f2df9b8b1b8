/* base64.h - bytes as text and back: RFC 4648, section 4, with padding. */
#ifndef ZT_BASE64_H
#define ZT_BASE64_H

#include "lib/base/base.h"

size_t zt_base64_size(size_t size); /* characters that `size` bytes become */
void zt_base64(const void *bytes, size_t size,
               char *output); /* writes zt_base64_size(size) characters, without a zero byte. NULL: nothing */
zt_status zt_base64_put(zt_str *out, const void *bytes, size_t size); /* appended */
/* The bytes, *size of them, from zt_alloc; NULL: no memory, or (status ZT_OK) not base64. */
char *zt_base64_get(zt_ctx *ctx, const char *text, size_t length, size_t *size);

#endif
