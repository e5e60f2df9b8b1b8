/* madevocab.h - for tests: a vocabulary over a GGUF that the test makes in memory (ggufw.h). */
#ifndef ZT_MADEVOCAB_H
#define ZT_MADEVOCAB_H

#include "lib/llm/llm.h"
#include "tests/ggufw.h"
#include "tests/tap.h"

typedef struct made { /* an open vocabulary over a file in memory */
    zt_ctx *ctx;
    char *bytes;
    zt_source *src;
    zt_gguf *g;
    zt_vocab *v;
} made;

/* v is NULL, and the reason a comment, where the keys make no vocabulary. */
static made open_made(ggufw *w)
{
    made m = {.ctx = zt_ctx_new()};
    size_t n;
    m.bytes = ggufw_bytes(w, &n);
    m.src = zt_source_memory(m.ctx, "made", m.bytes, n);
    m.g = zt_gguf_from(m.ctx, m.src);
    m.v = m.g ? zt_vocab_open(m.g) : NULL;
    if (!m.v)
        diag("%s", zt_ctx_error(m.ctx));
    return m;
}

static void close_made(made *m)
{
    zt_vocab_free(m->v);
    zt_gguf_close(m->g);
    zt_source_close(m->src);
    zt_ctx_free(m->ctx);
    free(m->bytes);
}

#endif
