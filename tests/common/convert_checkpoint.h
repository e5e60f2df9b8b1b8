/* convert_checkpoint.h - for tests: a model file of any container made into one of another, by checkpoint.h. */
#ifndef ZT_TEST_CONVERT_CHECKPOINT_H
#define ZT_TEST_CONVERT_CHECKPOINT_H

#include <stdlib.h>

#include "lib/io/checkpoint.h"

#define CKPT_FN __attribute__((unused)) static

/* All of it, read tensor by tensor; with the text "more" at `key`, if that is not NULL. */
CKPT_FN bool ckpt_convert(zt_ctx *ctx, const char *from, const char *to, const char *key)
{
    zt_checkpoint *checkpoint = zt_checkpoint_open(ctx, from, 0);
    int64_t count = checkpoint ? zt_checkpoint_count(checkpoint) : 0;
    zt_entry *e = calloc((size_t)count + 1, sizeof *e);
    for (int64_t i = 0; i < count; i++) zt_checkpoint_get(checkpoint, i, &e[i]);
    zt_meta *meta = checkpoint ? zt_checkpoint_meta(checkpoint) : NULL;
    if (meta && key) zt_meta_put_str(meta, key, "more", 4);
    zt_writer *writer = meta ? zt_writer_open(ctx, to, &(zt_checkpoint_opts){.force = true}, meta, e, count) : NULL;
    for (int64_t i = 0; writer && i < count; i++) {
        char *bytes = malloc((size_t)e[i].bytes + 1);
        if (zt_checkpoint_read(checkpoint, i, 0, bytes, (size_t)e[i].bytes) == ZT_OK)
            zt_writer_put(writer, bytes, (size_t)e[i].bytes);
        free(bytes);
    }
    bool done = writer && zt_writer_commit(writer) == ZT_OK;
    zt_writer_close(writer);
    zt_checkpoint_close(checkpoint);
    free(e);
    return done;
}

#endif
