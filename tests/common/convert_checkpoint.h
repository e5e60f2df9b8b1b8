/* convert_checkpoint.h - for tests: a model file of any container made into one of another, by checkpoint.h. */
#ifndef ZT_TEST_CONVERT_CHECKPOINT_H
#define ZT_TEST_CONVERT_CHECKPOINT_H

#include <stdlib.h>

#include "lib/io/checkpoint.h"

#define CKPT_FN __attribute__((unused)) static

/* All of it, read tensor by tensor; with the text "more" at `key`, if that is not NULL. */
CKPT_FN bool ckpt_convert(zt_ctx *ctx, const char *from, const char *to, const char *key)
{
    zt_checkpoint *c = zt_checkpoint_open(ctx, from, 0);
    int64_t n = c ? zt_checkpoint_count(c) : 0;
    zt_entry *e = calloc((size_t)n + 1, sizeof *e);
    for (int64_t i = 0; i < n; i++)
        zt_checkpoint_get(c, i, &e[i]);
    zt_meta *m = c ? zt_checkpoint_meta(c) : NULL;
    if (m && key)
        zt_meta_put_str(m, key, "more", 4);
    zt_writer *w =
        m ? zt_writer_open(ctx, to, &(zt_checkpoint_opts){.force = true}, m, e, n) : NULL;
    for (int64_t i = 0; w && i < n; i++) {
        char *bytes = malloc((size_t)e[i].bytes + 1);
        if (zt_checkpoint_read(c, i, 0, bytes, (size_t)e[i].bytes) == ZT_OK)
            zt_writer_put(w, bytes, (size_t)e[i].bytes);
        free(bytes);
    }
    bool done = w && zt_writer_commit(w) == ZT_OK;
    zt_writer_close(w);
    zt_checkpoint_close(c);
    free(e);
    return done;
}

#endif
