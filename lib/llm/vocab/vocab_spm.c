/* vocab_spm.c - the 'llama' tokenizer: SentencePiece's BPE with byte fallback.
 *
 * Spaces become U+2581; symbols are characters; two neighbours merge when their text is a token,
 * the one with the best score first. A symbol that is no token becomes the tokens of its bytes.
 * Source: SentencePiece (Kudo and Richardson, 2018), bpe_model.cc, as facts.
 */
#include "lib/llm/vocab/vocab.h"

#include <math.h>
#include <string.h>

/* ---- opening --------------------------------------------------------------------------------- */

/* Scores to integers in opposite order: the best score is the smallest. */
static uint32_t order_of(double score)
{
    float f = (float)score + 0.0f; /* -0 is 0 */
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits >> 31 ? bits : ~bits & 0x7fffffff;
}

static zt_status open_spm(zt_vocab *v, const zt_vocab_spec *spec)
{
    (void)spec;
    zt_vocab_hex_bytes(v);
    v->order = zt_alloc_array(v->ctx, (size_t)v->n, sizeof *v->order);
    if (!v->order)
        return ZT_ENOMEM;
    for (int32_t i = 0; i < v->n; i++) {
        if (isnan(v->score[i]))
            return zt_fail(v->ctx, ZT_EDATA, "%s: the score of token %d is not a number", v->file,
                           i);
        v->order[i] = order_of(v->score[i]);
    }
    zt_free(v->ctx, v->score); /* its order is all that counts */
    v->score = NULL;
    return ZT_OK;
}

static void close_spm(zt_vocab *v)
{
    zt_free(v->ctx, v->order);
}

/* ---- text to ids ----------------------------------------------------------------------------- */

static int32_t id_of(const zt_vocab *v, const char *text, size_t n)
{
    return n > v->longest ? -1 : zt_vocab_find(v, text, n);
}

static bool pair(const void *arg, const char *text, const zt_sym *a, const zt_sym *b,
                 uint32_t *rank, int32_t *id)
{
    const zt_vocab *v = arg;
    *id = id_of(v, text + a->at, (size_t)a->len + b->len);
    if (*id < 0)
        return false;
    *rank = v->order[*id];
    return true;
}

/* One symbol a character; a byte that is not UTF-8 is a symbol of its own. */
static zt_status characters(const zt_vocab *v, const zt_str *text, zt_merger *m)
{
    zt_status s = zt_merger_reserve(m, text->len);
    size_t n = 0;
    for (size_t i = 0; !s && i < text->len; n++) {
        uint32_t cp;
        int len = zt_utf8_decode(text->data + i, text->len - i, &cp);
        len = len ? len : 1;
        m->sym[n] = (zt_sym){.at = (uint32_t)i, .len = (uint32_t)len,
                             .id = id_of(v, text->data + i, (size_t)len)};
        i += (size_t)len;
    }
    m->n = n;
    return s;
}

/* The bytes of a symbol that is no token; where one has none itself, the unknown token for all. */
static zt_status put_bytes(const zt_vocab *v, const char *text, const zt_sym *a, zt_ids *ids)
{
    const unsigned char *byte = (const unsigned char *)text + a->at;
    zt_status s = ZT_OK;
    for (uint32_t i = 0; i < a->len; i++)
        if (v->byte_id[byte[i]] < 0)
            return v->unk < 0 ? ZT_OK : zt_ids_push(v->ctx, ids, v->unk);
    for (uint32_t i = 0; !s && i < a->len; i++)
        s = zt_ids_push(v->ctx, ids, v->byte_id[byte[i]]);
    return s;
}

static zt_status encode_spm(const zt_vocab *v, const char *text, size_t n, zt_merger *m,
                            zt_ids *ids)
{
    zt_str t;
    zt_str_init(&t, v->ctx);
    zt_status s = v->add_space ? zt_str_put(&t, ZT_SPACE, ZT_SPACE_LEN) : ZT_OK;
    if (!s)
        s = zt_vocab_put_spaces(&t, text, n);
    if (!s)
        s = characters(v, &t, m);
    if (s)
        goto out;
    zt_merger_run(m, v, t.data, pair);
    for (int32_t i = 0; !s && i >= 0; i = m->sym[i].next)
        s = m->sym[i].id < 0 ? put_bytes(v, t.data, &m->sym[i], ids)
                             : zt_ids_push(v->ctx, ids, m->sym[i].id);
out:
    zt_str_fini(&t);
    return s;
}

const zt_vocab_kind zt_vocab_llama = {
    .name = "llama",
    .open = open_spm,
    .close = close_spm,
    .encode = encode_spm,
    .decode = zt_vocab_decode_spaced,
};
