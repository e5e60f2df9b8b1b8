/* vocab_unigram.c - the 't5' tokenizer: SentencePiece's Unigram model.
 *
 * Text is normalized (a map of byte strings from the file; blanks), then cut into the tokens whose
 * scores add up best: Viterbi over byte positions, with a trie of the texts. A character that no
 * token covers costs as much as the worst token and 10 more. Source: SentencePiece (Kudo, 2018),
 * unigram_model.cc and normalizer.cc, and llama.cpp's src/llama-vocab.cpp, as facts.
 */
#include "lib/llm/vocab/vocab.h"

#include <math.h>
#include <string.h>

#define REPLACEMENT     "\xef\xbf\xbd" /* U+FFFD */
#define UNKNOWN_PENALTY 10.0

/* ---- opening --------------------------------------------------------------------------------- */

static zt_status fill_trie(zt_vocab *vocab, double *worst)
{
    zt_status status = ZT_OK;
    for (int32_t i = 0; !status && i < vocab->token_count; i++) {
        int type = zt_vocab_type(vocab, i);
        if (!isfinite(vocab->score[i]))
            status = zt_fail(vocab->ctx, ZT_EDATA, "%s: the score of token %d is not a finite number", vocab->file, i);
        else if (type == ZT_TOK_NORMAL || type == ZT_TOK_USER || type == ZT_TOK_UNUSED)
            status = zt_trie_put(vocab->trie, vocab->text[i], i);
        if (type == ZT_TOK_NORMAL && vocab->score[i] < *worst) *worst = vocab->score[i];
    }
    return status;
}

static zt_status open_ugm(zt_vocab *vocab, const zt_vocab_spec *spec)
{
    double worst = INFINITY;
    zt_vocab_hex_bytes(vocab);
    vocab->trie = zt_trie_new(vocab->ctx);
    zt_status status = vocab->trie ? fill_trie(vocab, &worst) : ZT_ENOMEM;
    vocab->unk_score = (isfinite(worst) ? worst : 0) - UNKNOWN_PENALTY;
    if (!status && spec->charsmap.n) {
        vocab->charsmap = zt_charsmap_new(vocab->ctx, vocab->file, spec->charsmap);
        status = vocab->charsmap ? ZT_OK : zt_ctx_status(vocab->ctx);
    }
    return status;
}

static void close_ugm(zt_vocab *vocab)
{
    zt_trie_free(vocab->trie);
    zt_charsmap_free(vocab->charsmap);
}

/* ---- normalization --------------------------------------------------------------------------- */

typedef struct text_normalizer { /* text being normalized */
    const zt_vocab *vocab;
    zt_str *out;
    bool in_word;  /* what came last was no blank */
    bool prefixed; /* the space before the text is there */
} text_normalizer;

/* Blanks become U+2581: one each, or with merge_spaces one before each word. */
static zt_status put_byte(text_normalizer *normalizer, char byte)
{
    bool merge = normalizer->vocab->merge_spaces;
    zt_status status = ZT_OK;
    if (byte == ' ') {
        normalizer->in_word = false;
        return merge ? ZT_OK : zt_str_put(normalizer->out, ZT_SPACE, ZT_SPACE_LEN);
    }
    bool first = normalizer->vocab->add_space && !normalizer->prefixed;
    if (!normalizer->in_word && (first || merge)) status = zt_str_put(normalizer->out, ZT_SPACE, ZT_SPACE_LEN);
    normalizer->prefixed = normalizer->in_word = true;
    return status ? status : zt_str_putc(normalizer->out, byte);
}

/* What text begins with, normalized: mapped, or one character; a byte
 * that is no UTF-8 is U+FFFD. */
static zt_status put_prefix(text_normalizer *normalizer, const char *text, size_t size, size_t *used)
{
    zt_bytes normalized = {text, 0};
    uint32_t codepoint;
    *used = 0;
    const zt_charsmap *map = normalizer->vocab->charsmap;
    zt_status status = map ? zt_charsmap_prefix(map, text, size, false, &normalized, used) : ZT_OK;
    if (!status && !*used) {
        int length = zt_utf8_decode(text, size, &codepoint);
        normalized = length ? (zt_bytes){text, (size_t)length} : (zt_bytes){REPLACEMENT, 3};
        *used = length ? (size_t)length : 1;
    }
    for (size_t i = 0; !status && i < normalized.n; i++) status = put_byte(normalizer, normalized.data[i]);
    return status;
}

/* ---- Viterbi --------------------------------------------------------------------------------- */

enum { UNREACHED = -2, UNKNOWN = -1 };

typedef struct best_path { /* the best way to a position */
    double score;
    uint32_t from; /* where its last token starts */
    int32_t id;    /* that token, or UNKNOWN */
} best_path;

static void offer_path(best_path *path, double score, size_t from, int32_t id)
{
    if (path->id == UNREACHED || score > path->score) *path = (best_path){score, (uint32_t)from, id};
}

static size_t char_length(const char *text, size_t size)
{
    uint32_t codepoint;
    int length = zt_utf8_decode(text, size, &codepoint);
    return length ? (size_t)length : 1;
}

/* All tokens that start at `offset`. */
static void extend_paths(const zt_vocab *vocab, const char *text, size_t size, size_t offset, size_t length, best_path *paths)
{
    double score = paths[offset].score;
    bool whole = false; /* the character itself is a token */
    uint32_t node = ZT_TRIE_ROOT;
    for (size_t i = offset; i < size; i++) {
        node = zt_trie_step(vocab->trie, node, (unsigned char)text[i]);
        if (node == ZT_TRIE_NONE) break;
        int32_t id = zt_trie_value(vocab->trie, node);
        if (id < 0) continue;
        whole = whole || i + 1 == offset + length;
        offer_path(&paths[i + 1], score + (zt_vocab_type(vocab, id) == ZT_TOK_USER ? 0 : vocab->score[id]), offset, id);
    }
    if (!whole) offer_path(&paths[offset + length], score + vocab->unk_score, offset, UNKNOWN);
}

/* Unknown text[from..to): its bytes if all of them are tokens, else one unknown token. */
static zt_status put_unknown(const zt_vocab *vocab, const char *text, size_t from, size_t to, zt_ids *ids)
{
    bool bytes = vocab->byte_fallback;
    zt_status status = ZT_OK;
    for (size_t i = from; bytes && i < to; i++) bytes = vocab->byte_id[(unsigned char)text[i]] >= 0;
    for (size_t i = from; bytes && !status && i < to; i++)
        status = zt_ids_push(vocab->ctx, ids, vocab->byte_id[(unsigned char)text[i]]);
    return !bytes && vocab->unk >= 0 ? zt_ids_push(vocab->ctx, ids, vocab->unk) : status;
}

/* Reverses the best path: each `from` becomes the end of the next token. Returns the end of the first token. */
static size_t reverse_path(best_path *paths, size_t size)
{
    size_t position = size, next = size;
    for (;;) {
        size_t from = paths[position].from;
        paths[position].from = (uint32_t)next;
        if (!from) return position;
        next = position;
        position = from;
    }
}

static zt_status put_best(const zt_vocab *vocab, const char *text, size_t size, best_path *paths, zt_ids *ids)
{
    zt_status status = ZT_OK;
    size_t start = 0, end = reverse_path(paths, size);
    while (!status && start < size) {
        int32_t id = paths[end].id;
        while (id == UNKNOWN && end < size && paths[paths[end].from].id == UNKNOWN) end = paths[end].from;
        status = id == UNKNOWN ? put_unknown(vocab, text, start, end, ids) : zt_ids_push(vocab->ctx, ids, id);
        start = end;
        end = paths[end].from;
    }
    return status;
}

static zt_status encode_tokens(const zt_vocab *vocab, const char *text, size_t size, zt_ids *ids)
{
    if (!size) return ZT_OK;
    if (size >= UINT32_MAX) return zt_fail(vocab->ctx, ZT_EUSAGE, "text of %zu bytes is too long", size);
    best_path *paths = zt_alloc_array(vocab->ctx, size + 1, sizeof *paths);
    if (!paths) return ZT_ENOMEM;
    for (size_t i = 0; i <= size; i++) paths[i].id = UNREACHED;
    paths[0] = (best_path){0, 0, UNKNOWN};
    for (size_t offset = 0, length; offset < size; offset += length) {
        length = char_length(text + offset, size - offset);
        if (paths[offset].id != UNREACHED) extend_paths(vocab, text, size, offset, length, paths);
    }
    zt_status status = put_best(vocab, text, size, paths, ids);
    zt_free(vocab->ctx, paths);
    return status;
}

static zt_status encode_ugm(const zt_vocab *vocab, const char *text, size_t size, zt_merger *merger, zt_ids *ids)
{
    zt_str out;
    text_normalizer normalizer = {.vocab = vocab, .out = &out};
    zt_status status = ZT_OK;
    (void)merger;
    zt_str_init(&out, vocab->ctx);
    for (size_t offset = 0, used; !status && offset < size; offset += used)
        status = put_prefix(&normalizer, text + offset, size - offset, &used);
    if (!status) status = encode_tokens(vocab, out.data, out.len, ids);
    zt_str_fini(&out);
    return status;
}

const zt_vocab_kind zt_vocab_t5 = {
    .name = "t5",
    .open = open_ugm,
    .close = close_ugm,
    .encode = encode_ugm,
    .decode = zt_vocab_decode_spaced,
};
