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
static uint32_t score_order(double score)
{
    float number = (float)score + 0.0f; /* -0 is 0 */
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits >> 31 ? bits : ~bits & 0x7fffffff;
}

static zt_status open_spm(zt_vocab *vocab, const zt_vocab_spec *spec)
{
    (void)spec;
    zt_vocab_hex_bytes(vocab);
    vocab->order = zt_alloc_array(vocab->ctx, (size_t)vocab->token_count, sizeof *vocab->order);
    if (!vocab->order) return ZT_ENOMEM;
    for (int32_t i = 0; i < vocab->token_count; i++) {
        if (isnan(vocab->score[i]))
            return zt_fail(vocab->ctx, ZT_EDATA, "%s: the score of token %d is not a number", vocab->file, i);
        vocab->order[i] = score_order(vocab->score[i]);
    }
    zt_free(vocab->ctx, vocab->score); /* its order is all that counts */
    vocab->score = NULL;
    return ZT_OK;
}

static void close_spm(zt_vocab *vocab) { zt_free(vocab->ctx, vocab->order); }

/* ---- text to ids ----------------------------------------------------------------------------- */

static int32_t find_id(const zt_vocab *vocab, const char *text, size_t size)
{
    return size > vocab->longest ? -1 : zt_vocab_find(vocab, text, size);
}

static bool find_pair(const void *arg, const char *text, const zt_sym *left, const zt_sym *right, uint32_t *rank, int32_t *id)
{
    const zt_vocab *vocab = arg;
    *id = find_id(vocab, text + left->offset, (size_t)left->length + right->length);
    if (*id < 0) return false;
    *rank = vocab->order[*id];
    return true;
}

/* One symbol a character; a byte that is not UTF-8 is a symbol of its own. */
static zt_status split_characters(const zt_vocab *vocab, const zt_str *text, zt_merger *merger)
{
    zt_status status = zt_merger_reserve(merger, text->len);
    size_t count = 0;
    for (size_t i = 0; !status && i < text->len; count++) {
        uint32_t codepoint;
        int length = zt_utf8_decode(text->data + i, text->len - i, &codepoint);
        length = length ? length : 1;
        merger->symbols[count] =
            (zt_sym){.offset = (uint32_t)i, .length = (uint32_t)length, .id = find_id(vocab, text->data + i, (size_t)length)};
        i += (size_t)length;
    }
    merger->count = count;
    return status;
}

/* The bytes of a symbol that is no token; where one has none itself, the unknown token for all. */
static zt_status put_bytes(const zt_vocab *vocab, const char *text, const zt_sym *symbol, zt_ids *ids)
{
    const unsigned char *byte = (const unsigned char *)text + symbol->offset;
    zt_status status = ZT_OK;
    for (uint32_t i = 0; i < symbol->length; i++)
        if (vocab->byte_id[byte[i]] < 0) return vocab->unk < 0 ? ZT_OK : zt_ids_push(vocab->ctx, ids, vocab->unk);
    for (uint32_t i = 0; !status && i < symbol->length; i++) status = zt_ids_push(vocab->ctx, ids, vocab->byte_id[byte[i]]);
    return status;
}

static zt_status encode_spm(const zt_vocab *vocab, const char *text, size_t size, zt_merger *merger, zt_ids *ids)
{
    zt_str spaced;
    zt_str_init(&spaced, vocab->ctx);
    zt_status status = vocab->add_space ? zt_str_put(&spaced, ZT_SPACE, ZT_SPACE_LEN) : ZT_OK;
    if (!status) status = zt_vocab_put_spaces(&spaced, text, size);
    if (!status) status = split_characters(vocab, &spaced, merger);
    if (status) goto out;
    zt_merger_run(merger, vocab, spaced.data, find_pair);
    for (int32_t i = 0; !status && i >= 0; i = merger->symbols[i].next)
        status = merger->symbols[i].id < 0 ? put_bytes(vocab, spaced.data, &merger->symbols[i], ids)
                                           : zt_ids_push(vocab->ctx, ids, merger->symbols[i].id);
out:
    zt_str_fini(&spaced);
    return status;
}

const zt_vocab_kind zt_vocab_llama = {
    .name = "llama",
    .open = open_spm,
    .close = close_spm,
    .encode = encode_spm,
    .decode = zt_vocab_decode_spaced,
};
