/* index.h - private to lib/engine/cuda: what ops at places that are data share. */
#ifndef ZT_CU_INDEX_H
#define ZT_CU_INDEX_H

#include "lib/engine/cuda/args_index.h"
#include "lib/engine/cuda/strides.h"

#include <string.h>

/* n values of one plain type as another. */
zt_status zt_cu_cast(zt_cu_call *c, zt_cu_ptr x, zt_dtype from, zt_cu_ptr y, zt_dtype to, int64_t n);

static inline bool word_is(const zt_enum_string *w, const char *s) { return strcmp(w->s, s) == 0; }

#endif
