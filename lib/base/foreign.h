/* foreign.h - files mistaken for models: placeholders (a Git LFS pointer, a page of a web server)
 * and archives or compressed files (gzip, xz, tar), recognized by their first
 * bytes. */
#ifndef ZT_FOREIGN_H
#define ZT_FOREIGN_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ZT_FOREIGN_HEAD = 512 }; /* enough bytes to recognize each of them */

/* What a file that begins so is, and what to do: "a Git LFS pointer, not the file itself: ...".
 * NULL: none of these. */
const char *zt_foreign(const void *head, size_t size);
/* The same as a failure, ZT_EDATA, of the file so named. ZT_OK: none of these, and no failure. */
zt_status zt_foreign_fail(zt_ctx *ctx, const char *name, const void *head, size_t size);
/* The same where text was expected: pages and messages are text. */
zt_status zt_foreign_text_fail(zt_ctx *ctx, const char *name, const void *head, size_t size);

#ifdef __cplusplus
}
#endif
#endif
