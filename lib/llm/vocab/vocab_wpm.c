/* vocab_wpm.c - the 'bert' tokenizer: WordPiece.
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

static zt_status open_wpm(zt_vocab *v, const zt_vocab_spec *spec)
{
    (void)spec;
    v->trie = zt_trie_new(v->ctx);
    zt_status s = v->trie ? ZT_OK : ZT_ENOMEM;
    for (int32_t i = 0; !s && i < v->n; i++)
        if (v->text[i].n)
            s = zt_trie_put(v->trie, v->text[i], i);
    return s;
}

static void close_wpm(zt_vocab *v)
{
    zt_trie_free(v->trie);
}

/* ---- words ----------------------------------------------------------------------------------- */

typedef struct words { /* one call of encode */
    const zt_vocab *v;
    zt_ids *ids;
    zt_str word; /* with U+2581 before it */
} words;

/* Bytes of the longest token that text begins with, and the token; 0: none does. */
static size_t longest(const zt_vocab *v, const char *text, size_t n, int32_t *id)
{
    uint32_t node = ZT_TRIE_ROOT;
    size_t best = 0;
    for (size_t i = 0; i < n; i++) {
        node = zt_trie_step(v->trie, node, (unsigned char)text[i]);
        if (node == ZT_TRIE_NONE)
            break;
        if (zt_trie_value(v->trie, node) >= 0) {
            *id = zt_trie_value(v->trie, node);
            best = i + 1;
        }
    }
    return best;
}

/* The word so far is whole: its tokens, or where they do not reach its end the unknown one. */
static zt_status end_word(words *w)
{
    const zt_vocab *v = w->v;
    const zt_str *word = &w->word;
    size_t before = w->ids->count, at = 0;
    zt_status s = ZT_OK;
    if (word->len <= ZT_SPACE_LEN)
        return ZT_OK;
    while (!s && at < word->len) {
        int32_t id;
        size_t len = longest(v, word->data + at, word->len - at, &id);
        if (!len)
            break;
        s = zt_ids_push(v->ctx, w->ids, id);
        at += len;
    }
    if (!s && at < word->len) {
        w->ids->count = before;
        s = v->unk < 0 ? ZT_OK : zt_ids_push(v->ctx, w->ids, v->unk);
    }
    zt_str_clear(&w->word);
    return s ? s : zt_str_put(&w->word, ZT_SPACE, ZT_SPACE_LEN);
}

static bool is_blank(uint32_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 ||
           (c >= 0xa0 && (1 << utf8proc_category((utf8proc_int32_t)c) &
                          (1 << UTF8PROC_CATEGORY_ZS | 1 << UTF8PROC_CATEGORY_ZL |
                           1 << UTF8PROC_CATEGORY_ZP)) != 0);
}

/* Chinese characters stand alone; the ranges are BERT's. */
static bool is_han(uint32_t c)
{
    static const uint32_t range[][2] = {
        {0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
        {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f},
    };
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (c >= range[i][0] && c <= range[i][1])
            return true;
    return false;
}

static bool stands_alone(uint32_t c, utf8proc_category_t cat)
{
    bool ascii = c < 0x80 && ((c >= '!' && c <= '/') || (c >= ':' && c <= '@') ||
                              (c >= '[' && c <= '`') || (c >= '{' && c <= '~'));
    return ascii || (cat >= UTF8PROC_CATEGORY_PC && cat <= UTF8PROC_CATEGORY_PO) || is_han(c);
}

static zt_status put_char(words *w, uint32_t c)
{
    char utf8[4];
    utf8proc_category_t cat = utf8proc_category((utf8proc_int32_t)c);
    if (is_blank(c))
        return end_word(w);
    if (!c || c == 0xfffd || cat == UTF8PROC_CATEGORY_CC || cat == UTF8PROC_CATEGORY_CF ||
        cat == UTF8PROC_CATEGORY_CO)
        return ZT_OK;
    if (w->v->strip_accents && cat == UTF8PROC_CATEGORY_MN)
        return ZT_OK;
    if (w->v->lowercase)
        c = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    bool alone = stands_alone(c, cat);
    zt_status s = alone ? end_word(w) : ZT_OK;
    if (!s)
        s = zt_str_put(&w->word, utf8, (size_t)zt_utf8_encode(c, utf8));
    return !s && alone ? end_word(w) : s;
}

static zt_status put_decomposed(words *w, uint32_t c)
{
    utf8proc_int32_t parts[MOST_DECOMPOSED];
    int bounds = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, parts, MOST_DECOMPOSED,
                                                 UTF8PROC_DECOMPOSE, &bounds);
    zt_status s = ZT_OK;
    if (n < 1 || n > MOST_DECOMPOSED)
        return put_char(w, c);
    for (utf8proc_ssize_t i = 0; !s && i < n; i++)
        s = put_char(w, (uint32_t)parts[i]);
    return s;
}

static zt_status encode_wpm(const zt_vocab *v, const char *text, size_t n, zt_merger *m,
                            zt_ids *ids)
{
    words w = {.v = v, .ids = ids};
    (void)m;
    zt_str_init(&w.word, v->ctx);
    zt_status s = zt_str_put(&w.word, ZT_SPACE, ZT_SPACE_LEN);
    for (size_t i = 0; !s && i < n;) {
        uint32_t c = 0xfffd; /* a byte that is no UTF-8 is dropped like one */
        int len = zt_utf8_decode(text + i, n - i, &c);
        s = v->strip_accents && c >= 0x80 ? put_decomposed(&w, c) : put_char(&w, c);
        i += len ? (size_t)len : 1;
    }
    if (!s)
        s = end_word(&w);
    zt_str_fini(&w.word);
    return s;
}

/* The space before a word is not there before the first. */
static zt_status decode_wpm(const zt_vocab *v, int32_t id, bool first, zt_str *out)
{
    zt_bytes t = v->text[id];
    bool skip = first && t.n >= ZT_SPACE_LEN && memcmp(t.data, ZT_SPACE, ZT_SPACE_LEN) == 0;
    size_t from = skip ? ZT_SPACE_LEN : 0;
    return zt_vocab_take_spaces(out, t.data + from, t.n - from);
}

const zt_vocab_kind zt_vocab_bert = {
    .name = "bert",
    .open = open_wpm,
    .close = close_wpm,
    .encode = encode_wpm,
    .decode = decode_wpm,
};
