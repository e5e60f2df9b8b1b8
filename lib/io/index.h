/* index.h - not public: the index of a model in several files, {"weight_map": {"tensor":
 * "file", ...}, "metadata": ...}. */
#ifndef ZT_INDEX_H
#define ZT_INDEX_H

#include "lib/base/base.h"

/* A tensor, and the name of the file beside the index that has it; both borrowed. */
typedef zt_status zt_index_fn(void *user, const char *tensor, const char *file);
/* fn for each tensor, in the index's order. ZT_EDATA: not an index, or a name leads out of its
 * folder. Stops at the first status of fn's that is not ZT_OK, and returns it. Whether a tensor comes
 * twice, fn sees. */
zt_status zt_index_read(zt_ctx *ctx, const char *path, zt_index_fn *fn, void *user);
/* ZT_EDATA, by name, where the index has a tensor that is not among the keys of `there`. */
zt_status zt_index_missing(zt_ctx *ctx, const char *path, const zt_map *there);

#endif
