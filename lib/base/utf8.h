/* utf8.h - the number of characters of a text. Decoding, encoding and validation of UTF-8: base.h. */
#ifndef ZT_UTF8_H
#define ZT_UTF8_H

#include "lib/base/base.h"

/* Characters (code points) of `size` bytes of UTF-8: all bytes that do not continue a character. Of bytes that are not UTF-8, the
 * same count. text may be NULL if size is 0. */
size_t zt_utf8_count(const char *text, size_t size);

#endif
