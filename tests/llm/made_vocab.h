/* made_vocab.h - for tests: a vocabulary over a GGUF that the test makes in memory (gguf_writer.h). */
#ifndef ZT_MADE_VOCAB_H
#define ZT_MADE_VOCAB_H

#include "lib/llm/llm.h"
#include "tests/common/gguf_writer.h"
#include "tests/common/tap.h"

#include <string.h>

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

/* Opens, encodes and decodes; true if all went well. */
static inline bool made_lives(const made *m, const char *text, unsigned flags)
{
    zt_vocab *v = zt_vocab_open(m->g);
    zt_ids ids = {0};
    zt_str s;
    zt_str_init(&s, m->ctx);
    bool good = v && !zt_vocab_encode(v, text, strlen(text), flags | ZT_TOK_SPECIAL, &ids);
    for (size_t i = 0; good && i < ids.count; i++)
        good = !zt_vocab_decode(v, ids.id[i], true, false, &s);
    zt_str_fini(&s);
    zt_ids_fini(m->ctx, &ids);
    zt_vocab_free(v);
    return good;
}

/* Every allocation of that fails once; closes m. kind: for the line. */
static inline void made_fails(made *m, int kind, const char *text, unsigned flags)
{
    zt_vocab_free(m->v);
    m->v = NULL;
    size_t before = zt_mem_get(m->ctx).blocks;
    uint64_t n = 0, wrong = 0;
    bool done = false;
    while (!done && n < 10000) {
        zt_mem_fail(m->ctx, ++n, false);
        done = made_lives(m, text, flags);
        wrong += (zt_ctx_status(m->ctx) != (done ? ZT_OK : ZT_ENOMEM)) +
                 (zt_mem_get(m->ctx).blocks != before);
        zt_mem_fail(m->ctx, 0, false);
        zt_ctx_clear(m->ctx);
    }
    ok(done && n > 8 && !wrong, "each of %d allocations failing: ENOMEM and no leak, kind %d",
       (int)n - 1, kind);
    close_made(m);
}

#endif
