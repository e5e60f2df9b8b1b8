/* vocab_sentencepiece.c - the vocabulary kind of a whole tokenizer.model: normalization, one of the
 * four models (unigram, BPE, word, char), bytes for what is not known; and back.
 *
 * The ids are those of SentencePiece 0.2.3. Tokens behind the file's pieces, which a Hugging Face
 * directory adds, are found in raw text by vocab.c. Source: google/sentencepiece (Kudo, 2018),
 * sentencepiece_processor.cc, unigram_model.cc, bpe_model.cc, as facts. */
#include "lib/llm/vocab/vocab_sentencepiece.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening --------------------------------------------------------------------------------- */

static bool is_ordinary(const zt_sp_piece *piece)
{
    return piece->type == ZT_TOK_NORMAL || piece->type == ZT_TOK_USER || piece->type == ZT_TOK_UNUSED;
}

static zt_status open_norm(zt_sp *pieces, const zt_sp_rule *rule, zt_sp_norm *norm)
{
    *norm = (zt_sp_norm){.ctx = pieces->model.ctx, .rule = rule};
    if (!rule->charsmap.n) return ZT_OK;
    norm->map = zt_charsmap_new(pieces->model.ctx, pieces->model.file, rule->charsmap);
    return norm->map ? ZT_OK : zt_ctx_status(pieces->model.ctx);
}

static zt_status index_piece(zt_sp *pieces, int32_t index)
{
    const zt_sp_piece *piece = &pieces->model.piece[index];
    bool zero = memchr(piece->text.data, 0, piece->text.n) != NULL; /* zt_sp_check let it pass: never met */
    zt_status status = ZT_OK;
    if (piece->type == ZT_TOK_BYTE) pieces->byte_id[zt_vocab_hex_byte(piece->text)] = index;
    if (piece->type == ZT_TOK_NORMAL && piece->score < pieces->worst) pieces->worst = piece->score;
    if (!is_ordinary(piece) || zero) return ZT_OK;
    pieces->unused = pieces->unused || piece->type == ZT_TOK_UNUSED;
    pieces->longest = piece->text.n > pieces->longest ? piece->text.n : pieces->longest;
    if (piece->type == ZT_TOK_USER) {
        status = zt_trie_put(pieces->user, piece->text, index);
        pieces->norm.user = pieces->user;
    }
    if (status != ZT_OK) return status;
    return pieces->trie ? zt_trie_put(pieces->trie, piece->text, index)
                        : zt_map_put(pieces->ids, piece->text.data, piece->text.n, index);
}

static zt_status open_model(zt_sp *pieces, zt_vocab *vocab, const zt_vocab_spec *spec)
{
    zt_sp_model *read = spec->extra;
    zt_status status = ZT_OK;
    pieces->model = *read;
    read->piece = NULL; /* ours from now on */
    if (pieces->model.piece_count > vocab->token_count)
        status = zt_fail(vocab->ctx, ZT_EDATA, "%s: the SentencePiece model has %d pieces, the vocabulary %d tokens", vocab->file,
                         pieces->model.piece_count, vocab->token_count);
    if (status == ZT_OK) status = open_norm(pieces, &pieces->model.norm, &pieces->norm);
    if (status == ZT_OK && pieces->model.denorm.charsmap.n) status = open_norm(pieces, &pieces->model.denorm, &pieces->denorm);
    pieces->norm.suffix = pieces->model.suffix && !pieces->model.prefix_once;
    return status;
}

static zt_status open_sp(zt_vocab *vocab, const zt_vocab_spec *spec)
{
    zt_sp *pieces = vocab->extra = zt_calloc(vocab->ctx, 1, sizeof *pieces);
    if (!pieces) return ZT_ENOMEM;
    pieces->worst = 3.40282347e38f; /* FLT_MAX */
    for (int byte = 0; byte < 256; byte++) pieces->byte_id[byte] = -1;
    zt_status status = open_model(pieces, vocab, spec);
    if (status != ZT_OK) return status;
    pieces->user = zt_trie_new(vocab->ctx);
    if (pieces->model.type == ZT_SP_UNIGRAM)
        pieces->trie = zt_trie_new(vocab->ctx);
    else
        pieces->ids = zt_map_new(vocab->ctx, (size_t)pieces->model.piece_count);
    status = pieces->user && (pieces->trie || pieces->ids) ? ZT_OK : ZT_ENOMEM;
    for (int32_t i = 0; status == ZT_OK && i < pieces->model.piece_count; i++) status = index_piece(pieces, i);
    return status;
}

static void close_sp(zt_vocab *vocab)
{
    zt_sp *pieces = vocab->extra;
    if (!pieces) return;
    zt_charsmap_free(pieces->norm.map);
    zt_charsmap_free(pieces->denorm.map);
    zt_trie_free(pieces->user);
    zt_trie_free(pieces->trie);
    zt_map_free(pieces->ids);
    zt_sp_fini(&pieces->model);
    zt_free(vocab->ctx, pieces);
}

/* ---- text to ids ----------------------------------------------------------------------------- */

/* A run of unknown pieces becomes its bytes, or one unknown token. */
zt_status zt_sp_emit(zt_sp_out *output, size_t offset, size_t size, int32_t id)
{
    const zt_sp *pieces = output->pieces;
    bool unknown = id == pieces->model.unk, again = unknown && output->unknown;
    zt_status status = ZT_OK;
    output->unknown = unknown;
    if (!unknown) return zt_ids_push(pieces->model.ctx, output->ids, id);
    for (size_t i = offset; status == ZT_OK && pieces->model.byte_fallback && i < offset + size; i++)
        status = zt_ids_push(pieces->model.ctx, output->ids, pieces->byte_id[(unsigned char)output->text[i]]);
    return status != ZT_OK || pieces->model.byte_fallback || again ? status : zt_ids_push(pieces->model.ctx, output->ids, id);
}

int32_t zt_sp_find(const zt_sp *pieces, const char *text, size_t size)
{
    int64_t id;
    return size <= pieces->longest && zt_map_get(pieces->ids, text, size, &id) ? (int32_t)id : -1;
}

/* Looks up the whole text; an unused piece counts as none. */
static zt_status emit_whole(zt_sp_out *output, size_t offset, size_t size)
{
    const zt_sp *pieces = output->pieces;
    int32_t id = zt_sp_find(pieces, output->text + offset, size);
    bool used = id >= 0 && pieces->model.piece[id].type != ZT_TOK_UNUSED;
    return zt_sp_emit(output, offset, size, used ? id : pieces->model.unk);
}

/* Words begin with the mark of a blank. */
static zt_status encode_words(zt_sp_out *output, zt_merger *merger)
{
    zt_status status = ZT_OK;
    (void)merger;
    for (size_t offset = 0, end; status == ZT_OK && offset < output->size; offset = end) {
        const char *next = output->size - offset > 1
                               ? memmem(output->text + offset + 1, output->size - offset - 1, ZT_SPACE, ZT_SPACE_LEN)
                               : NULL;
        end = next ? (size_t)(next - output->text) : output->size;
        status = emit_whole(output, offset, end - offset);
    }
    return status;
}

static zt_status encode_chars(zt_sp_out *output, zt_merger *merger)
{
    zt_status status = ZT_OK;
    (void)merger;
    for (size_t offset = 0, length; status == ZT_OK && offset < output->size; offset += length) {
        length = zt_sp_longest(output->pieces->user, output->text + offset, output->size - offset);
        length = length ? length : zt_sp_char(output->text + offset, output->size - offset);
        status = emit_whole(output, offset, length);
    }
    return status;
}

/* Does this stretch of a text get the dummy blank? If it does not, transformers keeps a blank that the stretch itself
 * begins with, which the model would remove. */
static bool has_dummy(const zt_sp *pieces, bool follows_special, const char *text)
{
    if (pieces->model.prefix_once && pieces->model.norm.remove_extra && text[0] == ' ') return true;
    return pieces->model.norm.dummy_prefix && !(follows_special && pieces->model.prefix_once);
}

static zt_status encode_stretch(const zt_vocab *vocab, bool follows_special, const char *text, size_t size, zt_merger *merger,
                                zt_ids *ids)
{
    static zt_status (*const encode[])(zt_sp_out * output, zt_merger * merger) = {
        [ZT_SP_UNIGRAM] = zt_sp_unigram,
        [ZT_SP_BPE] = zt_sp_bpe,
        [ZT_SP_WORD] = encode_words,
        [ZT_SP_CHAR] = encode_chars,
    };
    const zt_sp *pieces = vocab->extra;
    zt_sp_rule rule = pieces->model.norm;
    zt_sp_norm norm = pieces->norm;
    zt_str normal;
    rule.dummy_prefix = has_dummy(pieces, follows_special, text);
    norm.rule = &rule;
    zt_str_init(&normal, vocab->ctx);
    zt_status status = zt_sp_normalize(&norm, text, size, &normal);
    zt_sp_out output = {.pieces = pieces, .vocab = vocab, .text = normal.data, .size = normal.len, .ids = ids};
    if (status == ZT_OK && normal.len) status = encode[pieces->model.type](&output, merger);
    zt_str_fini(&normal);
    return status;
}

static zt_status encode_sp(const zt_vocab *vocab, const char *text, size_t size, zt_merger *merger, zt_ids *ids)
{
    return encode_stretch(vocab, false, text, size, merger, ids);
}

static zt_status encode_next(const zt_vocab *vocab, const char *text, size_t size, zt_merger *merger, zt_ids *ids)
{
    return encode_stretch(vocab, true, text, size, merger, ids);
}

/* ---- ids to text ----------------------------------------------------------------------------- */

static bool takes_blank(const zt_sp *pieces) { return pieces->model.norm.dummy_prefix || pieces->model.norm.remove_extra; }

/* The text of one of the model's pieces but a byte's; `first`: nothing came before it. */
static zt_status put_piece(const zt_sp *pieces, int32_t id, bool first, bool special, zt_str *out)
{
    const zt_sp_piece *piece = &pieces->model.piece[id];
    zt_bytes text = piece->text;
    if (piece->type == ZT_TOK_CONTROL) return special ? zt_str_put(out, text.data, text.n) : ZT_OK;
    if (piece->type == ZT_TOK_UNKNOWN) return zt_str_put(out, pieces->model.unk_surface.data, pieces->model.unk_surface.n);
    if (first && takes_blank(pieces) && text.n >= ZT_SPACE_LEN && memcmp(text.data, ZT_SPACE, ZT_SPACE_LEN) == 0)
        text = (zt_bytes){text.data + ZT_SPACE_LEN, text.n - ZT_SPACE_LEN};
    return zt_vocab_take_spaces(out, text.data, text.n);
}

/* One token alone, as a text is streamed. */
static zt_status decode_sp(const zt_vocab *vocab, int32_t id, bool first, zt_str *out)
{
    const zt_sp *pieces = vocab->extra;
    if (id >= pieces->model.piece_count) return zt_str_put(out, vocab->text[id].data, vocab->text[id].n);
    if (pieces->model.piece[id].type == ZT_TOK_BYTE)
        return zt_str_putc(out, (char)zt_vocab_hex_byte(pieces->model.piece[id].text));
    if (!pieces->denorm.map) return put_piece(pieces, id, first, true, out);
    zt_str spaced;
    zt_str_init(&spaced, vocab->ctx);
    zt_status status = put_piece(pieces, id, first, true, &spaced);
    if (status == ZT_OK) status = zt_sp_normalize(&pieces->denorm, spaced.data ? spaced.data : "", spaced.len, out);
    zt_str_fini(&spaced);
    return status;
}

/* Bytes that wait are characters, or U+FFFD each. */
static zt_status put_bytes(zt_str *bytes, zt_str *out)
{
    zt_status status = ZT_OK;
    for (size_t i = 0, length; status == ZT_OK && i < bytes->len; i += length) {
        uint32_t codepoint;
        int known = zt_utf8_decode(bytes->data + i, bytes->len - i, &codepoint);
        length = known ? (size_t)known : 1;
        status = known ? zt_str_put(out, bytes->data + i, length) : zt_str_puts(out, "\xef\xbf\xbd");
    }
    zt_str_clear(bytes);
    return status;
}

typedef struct decode_state { /* being made of ids */
    const zt_vocab *vocab;
    const zt_sp *pieces;
    bool special, first; /* first: a blank of the model's own may still come */
    zt_str bytes, out;
} decode_state;

static zt_status put_id(decode_state *state, int32_t id)
{
    const zt_sp *pieces = state->pieces;
    bool added = id >= pieces->model.piece_count;
    if (!added && pieces->model.piece[id].type == ZT_TOK_BYTE)
        return zt_str_putc(&state->bytes, (char)zt_vocab_hex_byte(pieces->model.piece[id].text));
    zt_status status = put_bytes(&state->bytes, &state->out);
    state->first = state->first && !state->out.len;
    if (status != ZT_OK) return status;
    if (added) {
        bool shown = state->special || zt_vocab_type(state->vocab, id) != ZT_TOK_CONTROL;
        return shown ? zt_str_put(&state->out, state->vocab->text[id].data, state->vocab->text[id].n) : ZT_OK;
    }
    status = put_piece(pieces, id, state->first, state->special, &state->out);
    /* a blank is taken once, but where blanks are merged all at the beginning go */
    bool control = pieces->model.piece[id].type == ZT_TOK_CONTROL;
    zt_bytes piece_text = pieces->model.piece[id].text;
    bool blank = piece_text.n >= ZT_SPACE_LEN && memcmp(piece_text.data, ZT_SPACE, ZT_SPACE_LEN) == 0;
    if (state->first && !control && blank && takes_blank(pieces) && !pieces->model.norm.remove_extra) state->first = false;
    return status;
}

static zt_status decode_all(const zt_vocab *vocab, const int32_t *ids, size_t count, bool special, zt_str *out)
{
    decode_state state = {.vocab = vocab, .pieces = vocab->extra, .special = special, .first = true};
    zt_status status = ZT_OK;
    zt_str_init(&state.bytes, vocab->ctx);
    zt_str_init(&state.out, vocab->ctx);
    for (size_t i = 0; status == ZT_OK && i < count; i++) status = put_id(&state, ids[i]);
    if (status == ZT_OK) status = put_bytes(&state.bytes, &state.out);
    if (status == ZT_OK && state.out.len && state.pieces->denorm.map)
        status = zt_sp_normalize(&state.pieces->denorm, state.out.data, state.out.len, out);
    else if (status == ZT_OK && state.out.len)
        status = zt_str_put(out, state.out.data, state.out.len);
    zt_str_fini(&state.bytes);
    zt_str_fini(&state.out);
    return status;
}

const zt_vocab_kind zt_vocab_sentencepiece = {
    .name = "sentencepiece",
    .open = open_sp,
    .close = close_sp,
    .encode = encode_sp,
    .encode_next = encode_next,
    .decode = decode_sp,
    .decode_all = decode_all,
};
