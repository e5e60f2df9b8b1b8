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
    if (s != ZT_OK && s != ZT_EDATA && s != ZT_ENOTSUP && s != ZT_ENOMEM && s != ZT_EUSAGE)
        abort();
    if (s != zt_ctx_status(ctx))
        abort();
    zt_ctx_clear(ctx);
}

static void decode(const zt_vocab *v, const int32_t *id, size_t n)
{
    zt_str out;
    zt_str_init(&out, v->ctx);
    check_status(v->ctx, zt_vocab_decode_ids(v, id, n, true, &out));
    check_status(v->ctx, zt_vocab_decode_ids(v, id, n, false, &out));
    for (size_t i = 0; i < n && i < MOST_SHOWN; i++)
        check_status(v->ctx, zt_vocab_decode(v, id[i], i & 1, i == 0, &out));
    zt_str_fini(&out);
}

static void try_text(const zt_vocab *v, const char *text, size_t n)
{
    static const unsigned flags[] = {0, ZT_TOK_SPECIAL | ZT_TOK_BOS_RULE, ZT_TOK_BOS};
    for (size_t f = 0; f < sizeof flags / sizeof *flags; f++) {
        zt_ids ids = {0};
        check_status(v->ctx, zt_vocab_encode(v, text, n, flags[f], &ids));
        for (size_t i = 0; i < ids.count; i++)
            if (ids.id[i] < 0 || ids.id[i] >= zt_vocab_size(v))
                abort();
        decode(v, ids.id, ids.count);
        zt_ids_fini(v->ctx, &ids);
    }
}

/* Some ids in a row, whatever they are. */
static void try_ids(const zt_vocab *v)
{
    int32_t id[64];
    for (int32_t i = 0; i < 64; i++)
        id[i] = (i * 7 + 3) % zt_vocab_size(v);
    decode(v, id, 64);
}

static zt_vocab *open_vocab(zt_ctx *ctx, zt_sp_model *m)
{
    size_t n = (size_t)m->piece_count;
    zt_vocab_spec s = {.file = "fuzz", .kind = &zt_vocab_sentencepiece, .token_count = m->piece_count, .extra = m};
    s.text = zt_calloc(ctx, n, sizeof *s.text);
    s.attr = zt_calloc(ctx, n, sizeof *s.attr);
    s.bos = zt_sp_control(m, m->bos_piece);
    s.eos = zt_sp_control(m, m->eos_piece);
    s.unk = m->unk;
    if (!s.text || !s.attr) {
        zt_free(ctx, s.text);
        zt_free(ctx, s.attr);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        s.text[i] = m->piece[i].text;
        s.attr[i] = m->piece[i].type;
    }
    return zt_vocab_from(ctx, &s);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const char text[] =
        "a the <s> \xc3\xa9\xe2\x96\x81 <|x|>bc\n12 \xff'll \xef\xbd\x81\xc2\xbd";
    size_t given = n ? bytes[0] : 0;
    if (given + 1 > n)
        return 0;
    zt_ctx *ctx = zt_ctx_new();
    zt_sp_model m;
    zt_mem_limit(ctx, 1 << 28);
    zt_bytes file = {(const char *)bytes + 1 + given, n - 1 - given};
    zt_status s = zt_sp_read(&m, ctx, "fuzz", file);
    if (s == ZT_OK)
        s = zt_sp_check(&m);
    zt_vocab *v = s == ZT_OK ? open_vocab(ctx, &m) : NULL;
    if (!v && zt_ctx_status(ctx) == ZT_OK)
        abort();
    check_status(ctx, zt_ctx_status(ctx));
    if (v) {
        try_text(v, text, sizeof text - 1);
        try_text(v, (const char *)bytes + 1, given);
        try_ids(v);
    }
    zt_vocab_free(v);
    zt_sp_fini(&m);
    if (zt_mem_get(ctx).blocks)
        abort();
    zt_ctx_free(ctx);
    return 0;
}
