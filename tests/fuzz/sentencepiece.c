/* sentencepiece.c - a fuzz target for tokenizer.model: any bytes are refused, or make a
 * vocabulary by which any text becomes tokens that there are, and tokens become text again.
 *
 * The first byte counts the bytes of a text that follow it; behind them is the model. Drivers: see
 * main.c and make fuzz.
 */
#include "lib/llm/vocab/sentencepiece.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { MOST_SHOWN = 20 }; /* tokens decoded one by one */

/* What may go wrong with a sound context: bad data, what is not known, or limits. */
static void check_status(zt_ctx *ctx, zt_status s)
{
    if (s != ZT_OK && s != ZT_EDATA && s != ZT_ENOTSUP && s != ZT_ENOMEM && s != ZT_EUSAGE) abort();
    if (s != zt_ctx_status(ctx)) abort();
    zt_ctx_clear(ctx);
}

static void decode(const zt_vocab *vocab, const int32_t *id, size_t count)
{
    zt_str out;
    zt_str_init(&out, vocab->ctx);
    check_status(vocab->ctx, zt_vocab_decode_ids(vocab, id, count, true, &out));
    check_status(vocab->ctx, zt_vocab_decode_ids(vocab, id, count, false, &out));
    for (size_t i = 0; i < count && i < MOST_SHOWN; i++)
        check_status(vocab->ctx, zt_vocab_decode(vocab, id[i], i & 1, i == 0, &out));
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
        decode(vocab, ids.id, ids.count);
        zt_ids_fini(vocab->ctx, &ids);
    }
}

/* Some ids in a row, whatever they are. */
static void try_ids(const zt_vocab *v)
{
    int32_t id[64];
    for (int32_t i = 0; i < 64; i++) id[i] = (i * 7 + 3) % zt_vocab_size(v);
    decode(v, id, 64);
}

static zt_vocab *open_vocab(zt_ctx *ctx, zt_sp_model *model)
{
    size_t count = (size_t)model->piece_count;
    zt_vocab_spec s = {.file = "fuzz", .kind = &zt_vocab_sentencepiece, .token_count = model->piece_count, .extra = model};
    s.text = zt_calloc(ctx, count, sizeof *s.text);
    s.attr = zt_calloc(ctx, count, sizeof *s.attr);
    s.bos = zt_sp_control(model, model->bos_piece);
    s.eos = zt_sp_control(model, model->eos_piece);
    s.unk = model->unk;
    if (!s.text || !s.attr) {
        zt_free(ctx, s.text);
        zt_free(ctx, s.attr);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        s.text[i] = model->piece[i].text;
        s.attr[i] = model->piece[i].type;
    }
    return zt_vocab_from(ctx, &s);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char text[] = "a the <s> \xc3\xa9\xe2\x96\x81 <|x|>bc\n12 \xff'll \xef\xbd\x81\xc2\xbd";
    size_t given = count ? bytes[0] : 0;
    if (given + 1 > count) return 0;
    zt_ctx *ctx = zt_ctx_new();
    zt_sp_model m;
    zt_mem_limit(ctx, 1 << 28);
    zt_bytes file = {(const char *)bytes + 1 + given, count - 1 - given};
    zt_status status = zt_sp_read(&m, ctx, "fuzz", file);
    if (status == ZT_OK) status = zt_sp_check(&m);
    zt_vocab *vocab = status == ZT_OK ? open_vocab(ctx, &m) : NULL;
    if (!vocab && zt_ctx_status(ctx) == ZT_OK) abort();
    check_status(ctx, zt_ctx_status(ctx));
    if (vocab) {
        try_text(vocab, text, sizeof text - 1);
        try_text(vocab, (const char *)bytes + 1, given);
        try_ids(vocab);
    }
    zt_vocab_free(vocab);
    zt_sp_fini(&m);
    if (zt_mem_get(ctx).blocks) abort();
    zt_ctx_free(ctx);
    return 0;
}
