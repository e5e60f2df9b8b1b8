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
static made open_made(ggufw *writer)
{
    made m = {.ctx = zt_ctx_new()};
    size_t count;
    m.bytes = ggufw_bytes(writer, &count);
    m.src = zt_source_memory(m.ctx, "made", m.bytes, count);
    m.g = zt_gguf_from(m.ctx, m.src);
    m.v = m.g ? zt_vocab_open(m.g) : NULL;
    if (!m.v) diag("%s", zt_ctx_error(m.ctx));
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
static inline bool made_lives(const made *made_model, const char *text, unsigned flags)
{
    zt_vocab *vocab = zt_vocab_open(made_model->g);
    zt_ids ids = {0};
    zt_str string;
    zt_str_init(&string, made_model->ctx);
    bool good = vocab && !zt_vocab_encode(vocab, text, strlen(text), flags | ZT_TOK_SPECIAL, &ids);
    for (size_t i = 0; good && i < ids.count; i++) good = !zt_vocab_decode(vocab, ids.id[i], true, false, &string);
    zt_str_fini(&string);
    zt_ids_fini(made_model->ctx, &ids);
    zt_vocab_free(vocab);
    return good;
}

/* Every allocation of that fails once; closes made_model. kind: for the line. */
static inline void made_fails(made *made_model, int kind, const char *text, unsigned flags)
{
    zt_vocab_free(made_model->v);
    made_model->v = NULL;
    size_t before = zt_mem_get(made_model->ctx).blocks;
    uint64_t count = 0, wrong = 0;
    bool done = false;
    while (!done && count < 10000) {
        zt_mem_fail(made_model->ctx, ++count, false);
        done = made_lives(made_model, text, flags);
        wrong += (zt_ctx_status(made_model->ctx) != (done ? ZT_OK : ZT_ENOMEM)) + (zt_mem_get(made_model->ctx).blocks != before);
        zt_mem_fail(made_model->ctx, 0, false);
        zt_ctx_clear(made_model->ctx);
    }
    ok(done && count > 8 && !wrong, "each of %d allocations failing: ENOMEM and no leak, kind %d", (int)count - 1, kind);
    close_made(made_model);
}

#endif
