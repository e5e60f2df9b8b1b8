/* vocab_bpe.c - BPE by a list of merges, and the 'gpt2' tokenizer, which is byte-level BPE.
 *
 * Text is cut into pieces by the pre-tokenizer; a piece's bytes (or characters) are its symbols;
 * two neighbours merge when the file lists them, the earliest line first. In byte-level files a
 * byte is written as one printable character. Source: GPT-2's encoder.py, as facts.
 */
#include "lib/llm/vocab/vocab.h"

#include <string.h>

/* ---- bytes as printable characters ----------------------------------------------------------- */

/* Bytes that print in Latin-1 stand for themselves; the others, in order, for U+0100 and on. */
static uint32_t char_of_byte(int byte)
{
    return byte <= 32                   ? 256 + (uint32_t)byte
           : byte >= 127 && byte <= 160 ? 256 + 33 + (uint32_t)(byte - 127)
           : byte == 173                ? 256 + 33 + 34
                                        : (uint32_t)byte;
}

static int byte_of_char(uint32_t codepoint) /* -1: stands for none */
{
    if (codepoint < 256) return char_of_byte((int)codepoint) == codepoint ? (int)codepoint : -1;
    codepoint -= 256;
    return codepoint < 33 ? (int)codepoint : codepoint < 67 ? (int)codepoint + 127 - 33 : codepoint == 67 ? 173 : -1;
}

static void index_printed_bytes(zt_vocab *vocab)
{
    for (int byte = 0; byte < 256; byte++) {
        char text[4];
        int length = zt_utf8_encode(char_of_byte(byte), text);
        vocab->byte_id[byte] = zt_vocab_find(vocab, text, (size_t)length);
    }
}

/* ---- merges ---------------------------------------------------------------------------------- */

/* Left, right and their concatenation must be tokens. A pair listed twice keeps its first rank. */
static zt_status put_merge(zt_vocab *vocab, const zt_merge_spec *spec, uint32_t rank)
{
    char left_text[80], right_text[80];
    zt_bytes none = {"", 0}, left_bytes = spec->left, right_bytes = spec->right;
    uint64_t hash = zt_hash_more(ZT_HASH_SEED, left_bytes.data, left_bytes.n);
    int32_t left = left_bytes.n ? zt_vocab_lookup(vocab, hash, left_bytes, none) : -1;
    int32_t right = zt_vocab_find(vocab, right_bytes.data, right_bytes.n);
    int32_t merged = zt_vocab_lookup(vocab, zt_hash_more(hash, right_bytes.data, right_bytes.n), left_bytes, right_bytes);
    if (left < 0 || right < 0 || merged < 0)
        return zt_fail(vocab->ctx, ZT_EDATA, "%s: merge %u, '%s %s': the parts or their concatenation are not tokens",
                       vocab->file, rank, zt_escape(left_text, sizeof left_text, left_bytes.data, left_bytes.n),
                       zt_escape(right_text, sizeof right_text, right_bytes.data, right_bytes.n));
    uint32_t first;
    int32_t first_id;
    if (!zt_pairs_find(vocab->merges, left, right, &first, &first_id)) zt_pairs_put(vocab->merges, left, right, rank, merged);
    return ZT_OK;
}

static zt_status open_bpe(zt_vocab *vocab, const zt_vocab_spec *spec)
{
    if (vocab->byte_level)
        index_printed_bytes(vocab);
    else
        zt_vocab_hex_bytes(vocab);
    vocab->merges = zt_pairs_new(vocab->ctx, (size_t)spec->n_merges);
    zt_status status = vocab->merges ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; !status && i < spec->n_merges; i++) status = put_merge(vocab, &spec->merge[i], (uint32_t)i);
    return status;
}

static void close_bpe(zt_vocab *vocab) { zt_free(vocab->ctx, vocab->merges); }

static bool find_merge(const void *arg, const char *text, const zt_sym *left, const zt_sym *right, uint32_t *rank, int32_t *id)
{
    const zt_vocab *vocab = arg;
    (void)text;
    return left->id >= 0 && right->id >= 0 && zt_pairs_find(vocab->merges, left->id, right->id, rank, id);
}

/* ---- text to ids ----------------------------------------------------------------------------- */

typedef struct encode_job { /* one call of encode */
    const zt_vocab *vocab;
    zt_merger *merger;
    zt_ids *ids;
} encode_job;

/* The token that is the whole piece, -1: none. */
static zt_status find_whole(const zt_vocab *vocab, const char *text, size_t size, zt_merger *merger, int32_t *id)
{
    zt_status status = ZT_OK;
    *id = -1;
    if (size > vocab->longest) return status;
    if (!vocab->byte_level) {
        *id = zt_vocab_find(vocab, text, size);
        return status;
    }
    zt_str_clear(&merger->printed);
    for (size_t i = 0; !status && i < size; i++) {
        char utf8[4];
        int length = zt_utf8_encode(char_of_byte((unsigned char)text[i]), utf8);
        status = zt_str_put(&merger->printed, utf8, (size_t)length);
    }
    if (!status) *id = zt_vocab_find(vocab, merger->printed.data, merger->printed.len);
    return status;
}

/* A byte that the vocabulary has no token for is left out, as everywhere: such files are made from
 * texts that never had it. */
static void add_byte_symbols(const zt_vocab *vocab, const char *text, size_t offset, size_t size, zt_merger *merger)
{
    for (size_t i = offset; i < offset + size; i++)
        merger->symbols[merger->count++] =
            (zt_sym){.offset = (uint32_t)i, .length = 1, .id = vocab->byte_id[(unsigned char)text[i]]};
}

/* A character that is no token becomes its bytes' tokens. */
static void add_char_symbols(const zt_vocab *vocab, const char *text, size_t size, zt_merger *merger)
{
    for (size_t i = 0, length; i < size; i += length) {
        uint32_t codepoint;
        int utf8 = zt_utf8_decode(text + i, size - i, &codepoint);
        length = utf8 ? (size_t)utf8 : 1;
        int32_t id = zt_vocab_find(vocab, text + i, length);
        if (id < 0)
            add_byte_symbols(vocab, text, i, length, merger);
        else
            merger->symbols[merger->count++] = (zt_sym){.offset = (uint32_t)i, .length = (uint32_t)length, .id = id};
    }
}

/* Gemma 4: a run of line ends that is a token becomes that token, whatever the merges say. */
static bool all_newlines(const char *text, size_t size)
{
    size_t i = 0;
    while (i < size && text[i] == '\n') i++;
    return i == size;
}

static zt_status encode_piece(void *arg, const char *text, size_t size)
{
    const encode_job *job = arg;
    const zt_vocab *vocab = job->vocab;
    zt_merger *merger = job->merger;
    int32_t id = -1;
    bool at_once = vocab->ignore_merges || (!vocab->byte_level && all_newlines(text, size));
    zt_status status = at_once ? find_whole(vocab, text, size, merger, &id) : ZT_OK;
    if (id >= 0) return zt_ids_push(vocab->ctx, job->ids, id);
    if (!status) status = zt_merger_reserve(merger, size);
    if (status) return status;
    merger->count = 0;
    if (vocab->byte_level)
        add_byte_symbols(vocab, text, 0, size, merger);
    else
        add_char_symbols(vocab, text, size, merger);
    zt_merger_run(merger, vocab, text, find_merge);
    for (int32_t i = 0; !status && i >= 0; i = merger->symbols[i].next)
        if (merger->symbols[i].id >= 0) status = zt_ids_push(vocab->ctx, job->ids, merger->symbols[i].id);
    return status;
}

static zt_status encode_bpe(const zt_vocab *vocab, const char *text, size_t size, zt_merger *merger, zt_ids *ids)
{
    encode_job job = {vocab, merger, ids};
    zt_str spaced;
    if (vocab->byte_level) return zt_split_run(vocab->split, text, size, encode_piece, &job);
    zt_str_init(&spaced, vocab->ctx);
    zt_status status = zt_vocab_put_spaces(&spaced, text, size);
    if (!status) status = zt_split_run(vocab->split, spaced.data, spaced.len, encode_piece, &job);
    zt_str_fini(&spaced);
    return status;
}

/* ---- ids to text ----------------------------------------------------------------------------- */

/* Characters that stand for no byte are kept as they are: added tokens are written plainly. */
static zt_status decode_bpe(const zt_vocab *vocab, int32_t id, bool first, zt_str *out)
{
    zt_bytes text = vocab->text[id];
    zt_status status = ZT_OK;
    if (!vocab->byte_level) return zt_vocab_decode_spaced(vocab, id, first, out);
    for (size_t i = 0; !status && i < text.n;) {
        uint32_t codepoint = 0;
        int length = zt_utf8_decode(text.data + i, text.n - i, &codepoint);
        int byte = length ? byte_of_char(codepoint) : -1;
        length = length ? length : 1;
        if (byte != ' ' || i || !first || !vocab->add_space) /* the space that was added goes */
            status = byte >= 0 ? zt_str_putc(out, (char)byte) : zt_str_put(out, text.data + i, (size_t)length);
        i += (size_t)length;
    }
    return status;
}

const zt_vocab_kind zt_vocab_gpt2 = {
    .name = "gpt2",
    .open = open_bpe,
    .close = close_bpe,
    .encode = encode_bpe,
    .decode = decode_bpe,
};
