/* bpe_make.c - a byte-level BPE vocabulary from a text: again and again the pair of neighbours that
 * is most frequent becomes a token (R. Sennrich et al., 2016). Bytes are written as GPT-2's printable characters.
 *
 * Pairs are counted within pieces: letters with the blank before them, digits, or other signs, as fine as the
 * pre-tokenizer gpt-2 splits or finer. Each different piece is stored once, with its count.
 */
#include "lib/llm/bpe_make.h"

#include <string.h>

enum { BYTES = 256, FIRST = 1, MAX_PIECE = 48 };

typedef struct piece {
    int32_t id[MAX_PIECE];
    int length;
    int64_t times;
} piece;

typedef struct vocab_maker {
    zt_ctx *ctx;
    zt_map *index; /* piece's text -> number */
    piece *piece;
    size_t piece_count, piece_capacity;
    int32_t n_tokens, max_tokens;
    zt_str text;      /* of all tokens, one behind the other */
    size_t *token_at; /* [max_tokens + 1]: where each begins in text */
    int64_t *count;   /* [max_tokens][max_tokens]: how often each pair occurs */
    int64_t n_merges;
    zt_str merges;
    size_t *merge_at;
} vocab_maker;

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Letters, digits, the blank, other white space, the rest. */
static int byte_kind(unsigned char byte)
{
    bool letter = ((byte | 32) >= 'a' && (byte | 32) <= 'z') || byte >= 128;
    bool blank = byte && memchr("\t\n\v\f\r", byte, 5);
    return letter ? 1 : byte >= '0' && byte <= '9' ? 2 : byte == ' ' ? 3 : blank ? 4 : 5;
}

/* Bytes of the piece at text: one blank goes with what follows. */
static size_t piece_length(const char *text, size_t size)
{
    size_t length = size > 1 && *text == ' ' && byte_kind((unsigned char)text[1]) != 4 ? 1 : 0;
    int kind = byte_kind((unsigned char)text[length]);
    do length++;
    while (length < size && length < MAX_PIECE && byte_kind((unsigned char)text[length]) == kind);
    return length;
}

static zt_status add_piece(vocab_maker *maker, const char *text, size_t size)
{
    int64_t index;
    if (zt_map_get(maker->index, text, size, &index)) {
        maker->piece[index].times++;
        return ZT_OK;
    }
    if (maker->piece_count == maker->piece_capacity) {
        size_t cap = maker->piece_capacity ? 2 * maker->piece_capacity : 1024;
        piece *more = zt_realloc(maker->ctx, maker->piece, cap * sizeof *more);
        if (!more) return ZT_ENOMEM;
        maker->piece = more;
        maker->piece_capacity = cap;
    }
    piece *added = &maker->piece[maker->piece_count];
    *added = (piece){.length = (int)size, .times = 1};
    for (size_t byte = 0; byte < size; byte++) added->id[byte] = FIRST + (unsigned char)text[byte];
    return zt_map_put(maker->index, text, size, (int64_t)maker->piece_count++);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static zt_bytes token_text(const vocab_maker *maker, int32_t id)
{
    return (zt_bytes){maker->text.data + maker->token_at[id], maker->token_at[id + 1] - maker->token_at[id]};
}

static zt_status close_token(vocab_maker *maker)
{
    maker->token_at[++maker->n_tokens] = maker->text.len;
    return zt_ctx_status(maker->ctx);
}

static zt_status add_byte_tokens(vocab_maker *maker)
{
    uint32_t other = 256;
    zt_str_puts(&maker->text, "<|endoftext|>");
    zt_status status = close_token(maker);
    for (uint32_t byte = 0; byte < BYTES && !status; byte++) {
        bool plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        char utf8[4];
        zt_str_put(&maker->text, utf8, (size_t)zt_utf8_encode(plain ? byte : other++, utf8));
        status = close_token(maker);
    }
    return status;
}

/* ---- merges ---------------------------------------------------------------------------------- */

/* The most frequent pair, of equals the first; its count. count[] is of all pairs of tokens. */
static int64_t best_pair(vocab_maker *maker, int32_t *left, int32_t *right)
{
    size_t stride = (size_t)maker->max_tokens;
    memset(maker->count, 0, stride * stride * sizeof *maker->count);
    int64_t best = 0;
    for (size_t i = 0; i < maker->piece_count; i++)
        for (int k = 0; k + 1 < maker->piece[i].length; k++)
            maker->count[(size_t)maker->piece[i].id[k] * stride + (size_t)maker->piece[i].id[k + 1]] += maker->piece[i].times;
    for (size_t k = 0; k < stride * (size_t)maker->n_tokens; k++)
        if (maker->count[k] > best) {
            best = maker->count[k];
            *left = (int32_t)(k / stride);
            *right = (int32_t)(k % stride);
        }
    return best;
}

static void merge_pair(piece *p, int32_t left, int32_t right, int32_t merged)
{
    int length = 0;
    for (int k = 0; k < p->length; k++) {
        bool both = k + 1 < p->length && p->id[k] == left && p->id[k + 1] == right;
        p->id[length++] = both ? merged : p->id[k];
        k += both;
    }
    p->length = length;
}

static zt_status add_merge(vocab_maker *maker, int32_t left, int32_t right)
{
    zt_bytes left_text = token_text(maker, left), right_text = token_text(maker, right);
    zt_str_put(&maker->merges, left_text.data, left_text.n);
    zt_str_putc(&maker->merges, ' ');
    zt_str_put(&maker->merges, right_text.data, right_text.n);
    maker->merge_at[++maker->n_merges] = maker->merges.len;
    char both[8 * MAX_PIECE]; /* two texts of at most MAX_PIECE bytes, each by at most 2 */
    memcpy(both, left_text.data, left_text.n);
    memcpy(both + left_text.n, right_text.data, right_text.n);
    zt_str_put(&maker->text, both, left_text.n + right_text.n);
    for (size_t i = 0; i < maker->piece_count; i++) merge_pair(&maker->piece[i], left, right, maker->n_tokens);
    return close_token(maker);
}

static zt_status make_tokens(vocab_maker *maker, const char *text, size_t text_size)
{
    zt_status status = add_byte_tokens(maker);
    for (size_t offset = 0; offset < text_size && !status;) {
        size_t length = piece_length(text + offset, text_size - offset);
        status = add_piece(maker, text + offset, length);
        offset += length;
    }
    for (int32_t left, right; !status && maker->n_tokens < maker->max_tokens && best_pair(maker, &left, &right) > 1;)
        status = add_merge(maker, left, right);
    return status;
}

/* ---- out ------------------------------------------------------------------------------------- */

static zt_status write_keys(zt_gguf_writer *writer, vocab_maker *maker)
{
    size_t max_texts = (size_t)(maker->n_tokens > maker->n_merges ? maker->n_tokens : maker->n_merges) + 1;
    zt_bytes *texts = zt_alloc_array(maker->ctx, max_texts, sizeof *texts);
    int32_t *type = zt_alloc_array(maker->ctx, (size_t)maker->n_tokens, sizeof *type);
    if (texts && type) {
        zt_gguf_put_str(writer, "tokenizer.ggml.model", "gpt2", 4);
        zt_gguf_put_str(writer, "tokenizer.ggml.pre", "gpt-2", 5);
        for (int32_t i = 0; i < maker->n_tokens; i++) {
            texts[i] = token_text(maker, i);
            type[i] = i < FIRST ? 3 : 1; /* control, normal */
        }
        zt_gguf_put_strs(writer, "tokenizer.ggml.tokens", texts, maker->n_tokens);
        zt_gguf_put_array(writer, "tokenizer.ggml.token_type", ZT_GGUF_I32, type, maker->n_tokens);
        for (int64_t i = 0; i < maker->n_merges; i++)
            texts[i] = (zt_bytes){maker->merges.data + maker->merge_at[i], maker->merge_at[i + 1] - maker->merge_at[i]};
        zt_gguf_put_strs(writer, "tokenizer.ggml.merges", texts, maker->n_merges);
        zt_gguf_put_int(writer, "tokenizer.ggml.bos_token_id", ZT_GGUF_U32, 0);
        zt_gguf_put_int(writer, "tokenizer.ggml.eos_token_id", ZT_GGUF_U32, 0);
        zt_gguf_put_int(writer, "tokenizer.ggml.add_bos_token", ZT_GGUF_BOOL, 0);
    }
    zt_free(maker->ctx, texts);
    zt_free(maker->ctx, type);
    return texts && type ? zt_gguf_writer_status(writer) : ZT_ENOMEM;
}

zt_status zt_bpe_make(zt_gguf_writer *writer, zt_ctx *ctx, const char *text, size_t text_size, int64_t max_tokens,
                      int64_t *n_tokens)
{
    enum { LEAST = BYTES + FIRST, MOST = 2048 };
    if (max_tokens < LEAST || max_tokens > MOST)
        return zt_fail(ctx, ZT_EUSAGE, "vocabulary of %lld tokens, expected %d to %d", (long long)max_tokens, LEAST, MOST);
    vocab_maker maker = {.ctx = ctx, .max_tokens = (int32_t)max_tokens, .index = zt_map_new(ctx, 4096)};
    zt_str_init(&maker.text, ctx);
    zt_str_init(&maker.merges, ctx);
    maker.token_at = zt_calloc(ctx, (size_t)max_tokens + 1, sizeof *maker.token_at);
    maker.merge_at = zt_calloc(ctx, (size_t)max_tokens + 1, sizeof *maker.merge_at);
    maker.count = zt_alloc_array(ctx, (size_t)(max_tokens * max_tokens), sizeof *maker.count);
    zt_status status =
        maker.index && maker.token_at && maker.merge_at && maker.count ? make_tokens(&maker, text, text_size) : ZT_ENOMEM;
    if (!status) status = write_keys(writer, &maker);
    *n_tokens = maker.n_tokens;
    zt_map_free(maker.index);
    zt_str_fini(&maker.text);
    zt_str_fini(&maker.merges);
    zt_free(ctx, maker.piece);
    zt_free(ctx, maker.token_at);
    zt_free(ctx, maker.merge_at);
    zt_free(ctx, maker.count);
    return status;
}
