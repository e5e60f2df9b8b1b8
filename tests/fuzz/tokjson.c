/* tokjson.c - a fuzz target for tokenizer.json: any JSON is refused, or makes a vocabulary by
 * which any text becomes tokens that there are, and tokens become text again.
 *
 * Bytes up to the first zero are the JSON, those after it a text. Drivers: see main.c and make
 * fuzz.
 */
#include "lib/llm/vocab/vocab.h"
#include "tests/fuzz/result.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { MOST_SHOWN = 20, MOST_TEXT = 600 }; /* tokens decoded one by one; bytes of a text */

/* What may go wrong with a sound context: bad data, or limits. */
static void check_status(zt_ctx *ctx, zt_status s)
{
    if (s != ZT_OK && s != ZT_EDATA && s != ZT_ENOMEM) abort();
    if (s != zt_ctx_status(ctx)) abort();
    zt_ctx_clear(ctx);
}

static void decode(const zt_vocab *vocab, const zt_ids *ids)
{
    zt_str out;
    zt_str_init(&out, vocab->ctx);
    check_status(vocab->ctx, zt_vocab_decode_ids(vocab, ids->id, ids->count, true, &out));
    check_status(vocab->ctx, zt_vocab_decode_ids(vocab, ids->id, ids->count, false, &out));
    for (size_t i = 0; i < ids->count && i < MOST_SHOWN; i++)
        check_status(vocab->ctx, zt_vocab_decode(vocab, ids->id[i], i & 1, i == 0, &out));
    zt_str_fini(&out);
}

static void try_text(const zt_vocab *vocab, const char *text, size_t total)
{
    static const unsigned flags[] = {0, ZT_TOK_SPECIAL | ZT_TOK_BOS_RULE, ZT_TOK_BOS};
    for (size_t f = 0; f < sizeof flags / sizeof *flags; f++) {
        zt_ids ids = {0};
        check_status(vocab->ctx, zt_vocab_encode(vocab, text, total, flags[f], &ids));
        for (size_t i = 0; i < ids.count; i++)
            if (ids.id[i] < 0 || ids.id[i] >= zt_vocab_size(vocab)) abort();
        decode(vocab, &ids);
        zt_ids_fini(vocab->ctx, &ids);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char text[] = "a the <s> \xc3\xa9\xe2\x96\x81 Bc\n12 \xff'll";
    const uint8_t *zero = count ? memchr(bytes, 0, count) : NULL;
    size_t json = zero ? (size_t)(zero - bytes) : count;
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_mem_limit(ctx, 1 << 28);
    zt_vocab *vocab = zt_vocab_open_json(ctx, "fuzz", (const char *)bytes, json);
    if (!vocab && zt_ctx_status(ctx) == ZT_OK) abort();
    note_result(bytes, count, vocab ? "" : zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    if (vocab) {
        try_text(vocab, text, sizeof text - 1);
        size_t rest = zero ? count - json - 1 : 0;
        if (zero) try_text(vocab, (const char *)zero + 1, rest < MOST_TEXT ? rest : MOST_TEXT);
    }
    zt_vocab_free(vocab);
    if (zt_mem_get(ctx).blocks) abort();
    zt_ctx_free(ctx);
    return 0;
}
