/* vocab_wordpiece.c - the 'bert' tokenizer: WordPiece.
 *
 * Text is cleaned (no control characters; accents and case go where the model has none), cut into
 * words at blanks, punctuation and Han characters, and a word is cut into the longest tokens from
 * its left. In GGUF a token that opens a word begins with U+2581, one that goes on is bare. A word
 * that cannot be cut is one unknown token. Source: BERT's tokenization.py, huggingface/tokenizers'
 * bert.rs and llama.cpp's src/llama-vocab.cpp, as facts.
 */
#include "lib/llm/vocab/vocab.h"

#include <string.h>
#include <utf8proc.h>

enum { MOST_DECOMPOSED = 32 }; /* characters that one becomes; Unicode's longest are 18 */

/* ---- opening --------------------------------------------------------------------------------- */

static zt_status open_wpm(zt_vocab *vocab, const zt_vocab_spec *spec)
{
    (void)spec;
    vocab->trie = zt_trie_new(vocab->ctx);
    zt_status status = vocab->trie ? ZT_OK : ZT_ENOMEM;
    for (int32_t i = 0; !status && i < vocab->token_count; i++)
        if (vocab->text[i].n) status = zt_trie_put(vocab->trie, vocab->text[i], i);
    return status;
}

static void close_wpm(zt_vocab *vocab) { zt_trie_free(vocab->trie); }

/* ---- words ----------------------------------------------------------------------------------- */

typedef struct word_encoder { /* one call of encode */
    const zt_vocab *vocab;
    zt_ids *ids;
    zt_str word; /* with U+2581 before it */
} word_encoder;

/* Bytes of the longest token that text begins with, and the token; 0: none does. */
static size_t longest_token(const zt_vocab *vocab, const char *text, size_t size, int32_t *id)
{
    uint32_t node = ZT_TRIE_ROOT;
    size_t best = 0;
    for (size_t i = 0; i < size; i++) {
        node = zt_trie_step(vocab->trie, node, (unsigned char)text[i]);
        if (node == ZT_TRIE_NONE) break;
        if (zt_trie_value(vocab->trie, node) >= 0) {
            *id = zt_trie_value(vocab->trie, node);
            best = i + 1;
        }
    }
    return best;
}

/* The word so far is whole: its tokens, or where they do not reach its end the unknown one. */
static zt_status end_word(word_encoder *encoder)
{
    const zt_vocab *vocab = encoder->vocab;
    const zt_str *word = &encoder->word;
    size_t before = encoder->ids->count, offset = 0;
    zt_status status = ZT_OK;
    if (word->len <= ZT_SPACE_LEN) return ZT_OK;
    while (!status && offset < word->len) {
        int32_t id;
        size_t length = longest_token(vocab, word->data + offset, word->len - offset, &id);
        if (!length) break;
        status = zt_ids_push(vocab->ctx, encoder->ids, id);
        offset += length;
    }
    if (!status && offset < word->len) {
        encoder->ids->count = before;
        status = vocab->unk < 0 ? ZT_OK : zt_ids_push(vocab->ctx, encoder->ids, vocab->unk);
    }
    zt_str_clear(&encoder->word);
    return status ? status : zt_str_put(&encoder->word, ZT_SPACE, ZT_SPACE_LEN);
}

static bool is_blank(uint32_t codepoint)
{
    return codepoint == ' ' || (codepoint >= '\t' && codepoint <= '\r') || codepoint == 0x85 ||
           (codepoint >= 0xa0 && (1 << utf8proc_category((utf8proc_int32_t)codepoint) &
                                  (1 << UTF8PROC_CATEGORY_ZS | 1 << UTF8PROC_CATEGORY_ZL | 1 << UTF8PROC_CATEGORY_ZP)) != 0);
}

/* Chinese characters stand alone; the ranges are BERT's. */
static bool is_han(uint32_t codepoint)
{
    static const uint32_t range[][2] = {
        {0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
        {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f},
    };
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (codepoint >= range[i][0] && codepoint <= range[i][1]) return true;
    return false;
}

static bool stands_alone(uint32_t codepoint, utf8proc_category_t category)
{
    bool ascii = codepoint < 0x80 && ((codepoint >= '!' && codepoint <= '/') || (codepoint >= ':' && codepoint <= '@') ||
                                      (codepoint >= '[' && codepoint <= '`') || (codepoint >= '{' && codepoint <= '~'));
    return ascii || (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO) || is_han(codepoint);
}

static zt_status put_char(word_encoder *encoder, uint32_t codepoint)
{
    char utf8[4];
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)codepoint);
    if (is_blank(codepoint)) return end_word(encoder);
    if (!codepoint || codepoint == 0xfffd || category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
        category == UTF8PROC_CATEGORY_CO)
        return ZT_OK;
    if (encoder->vocab->strip_accents && category == UTF8PROC_CATEGORY_MN) return ZT_OK;
    if (encoder->vocab->lowercase) codepoint = (uint32_t)utf8proc_tolower((utf8proc_int32_t)codepoint);
    bool alone = stands_alone(codepoint, category);
    zt_status status = alone ? end_word(encoder) : ZT_OK;
    if (!status) status = zt_str_put(&encoder->word, utf8, (size_t)zt_utf8_encode(codepoint, utf8));
    return !status && alone ? end_word(encoder) : status;
}

static zt_status put_decomposed(word_encoder *encoder, uint32_t codepoint)
{
    utf8proc_int32_t parts[MOST_DECOMPOSED];
    int bounds = 0;
    utf8proc_ssize_t count =
        utf8proc_decompose_char((utf8proc_int32_t)codepoint, parts, MOST_DECOMPOSED, UTF8PROC_DECOMPOSE, &bounds);
    zt_status status = ZT_OK;
    if (count < 1 || count > MOST_DECOMPOSED) return put_char(encoder, codepoint);
    for (utf8proc_ssize_t i = 0; !status && i < count; i++) status = put_char(encoder, (uint32_t)parts[i]);
    return status;
}

static zt_status encode_wpm(const zt_vocab *vocab, const char *text, size_t size, zt_merger *merger, zt_ids *ids)
{
    word_encoder encoder = {.vocab = vocab, .ids = ids};
    (void)merger;
    zt_str_init(&encoder.word, vocab->ctx);
    zt_status status = zt_str_put(&encoder.word, ZT_SPACE, ZT_SPACE_LEN);
    for (size_t i = 0; !status && i < size;) {
        uint32_t codepoint = 0xfffd; /* a byte that is no UTF-8 is dropped like one */
        int length = zt_utf8_decode(text + i, size - i, &codepoint);
        status = vocab->strip_accents && codepoint >= 0x80 ? put_decomposed(&encoder, codepoint) : put_char(&encoder, codepoint);
        i += length ? (size_t)length : 1;
    }
    if (!status) status = end_word(&encoder);
    zt_str_fini(&encoder.word);
    return status;
}

/* The space before a word is not there before the first. */
static zt_status decode_wpm(const zt_vocab *vocab, int32_t id, bool first, zt_str *out)
{
    zt_bytes text = vocab->text[id];
    bool skip = first && text.n >= ZT_SPACE_LEN && memcmp(text.data, ZT_SPACE, ZT_SPACE_LEN) == 0;
    size_t from = skip ? ZT_SPACE_LEN : 0;
    return zt_vocab_take_spaces(out, text.data + from, text.n - from);
}

const zt_vocab_kind zt_vocab_bert = {
    .name = "bert",
    .open = open_wpm,
    .close = close_wpm,
    .encode = encode_wpm,
    .decode = decode_wpm,
};
