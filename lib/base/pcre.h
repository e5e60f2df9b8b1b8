/* pcre.h - memory of PCRE2 from a context: the functions for pcre2_general_context_create, whose user data is the context. */
#ifndef ZT_PCRE_H
#define ZT_PCRE_H

#include "lib/base/base.h"

static inline void *zt_pcre_alloc(size_t size, void *ctx) { return zt_alloc(ctx, size); }
static inline void zt_pcre_free(void *memory, void *ctx) { zt_free(ctx, memory); }

#endif
