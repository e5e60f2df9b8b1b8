/* shards.h - for the readers of lib/io, and who looks for weights in a directory: the names of a
 * model's files, where it is in several: NAME-00002-of-00003.SUFFIX, numbers from 1 on, of any width; or '_' before
 * them. */
#ifndef ZT_SHARDS_H
#define ZT_SHARDS_H

#include "lib/base/base.h"

enum { ZT_MAX_SHARDS = 1000 };

typedef struct zt_shard_name {
    int64_t number, count; /* 1 <= number <= count */
    size_t stem, width;    /* bytes before the '-' or '_' of the number, digits of the number */
    size_t suffix;         /* where ".SUFFIX" begins */
} zt_shard_name;

/* false: the path does not name one of several files. */
bool zt_shard_parse(const char *path, zt_shard_name *name);
/* The path of file `number` beside `path`, which `name` is of. zt_free it; NULL: no memory. */
char *zt_shard_path(zt_ctx *ctx, const char *path, const zt_shard_name *name, int64_t number);
/* A regular file: a pipe, which might never end, is ZT_EDATA. NULL on failure. */
zt_source *zt_shard_open(zt_ctx *ctx, const char *path);
/* File `number` of the model that `path` is of. Where it is the first that is missing, and `path`
 * another, ZT_EDATA says so. */
zt_source *zt_shard_open_beside(zt_ctx *ctx, const char *path, const zt_shard_name *name, int64_t number);
/* ZT_EDATA: the files named `first` and `second` both have the tensor. */
zt_status zt_shard_twice(zt_ctx *ctx, const char *first, const char *second, const char *tensor);

#endif
