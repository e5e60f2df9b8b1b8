/* vocab_json_words.c - tokenizer.json's WordPiece and Unigram: pieces of a word found in a trie.
 *
 * WordPiece takes the longest piece from the left, and the whole word is unknown when one is
 * missing. Unigram takes the pieces with the greatest sum of scores (Viterbi); an unknown character
 * costs 10 more than the worst piece, and unknown ones in a row are one. Source:
 * huggingface/tokenizers, models/wordpiece and models/unigram, as facts.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- WordPiece ------------------------------------------------------------------------------- */

/* A piece may open a word, and with the prefix it may go on: each trie has what applies. */
static zt_status fill_tries(zt_tj_reader *reader, zt_tj *tokenizer)
{
    zt_status status = ZT_OK;
    tokenizer->trie = zt_trie_new(reader->ctx);
    tokenizer->trie_more = zt_trie_new(reader->ctx);
    if (!tokenizer->trie || !tokenizer->trie_more)
        return ZT_ENOMEM;
    for (int32_t id = 0; !status && id < tokenizer->token_count; id++) {
        zt_bytes text = tokenizer->text[id], more = {NULL, 0};
        if (!text.data || !text.n)
            continue;
        if (text.n > tokenizer->prefix.n && memcmp(text.data, tokenizer->prefix.data, tokenizer->prefix.n) == 0)
            more = (zt_bytes){text.data + tokenizer->prefix.n, text.n - tokenizer->prefix.n};
        status = zt_trie_put(tokenizer->trie, text, id);
        if (!status && more.n)
            status = zt_trie_put(tokenizer->trie_more, more, id);
    }
    return status;
}

static zt_status read_wordpiece(zt_tj_reader *reader, const json_t *object, zt_tj *tokenizer)
{
    tokenizer->prefix = (zt_bytes){"##", 2};
    tokenizer->most_chars = 100;
    zt_status status = zt_vocab_object(reader, object, tokenizer);
    if (!status)
        status = zt_model_unk(reader, object, tokenizer, "[UNK]");
    if (!status)
        status = zt_tj_text(reader, object, "continuing_subword_prefix", &tokenizer->prefix);
    if (!status)
        status = zt_tj_size(reader, object, "max_input_chars_per_word", &tokenizer->most_chars);
    return status ? status : fill_tries(reader, tokenizer);
}

/* Are there more characters than may be? */
static bool too_long(const zt_tj *tokenizer, const char *text, size_t size)
{
    int64_t chars = 0;
    for (size_t i = 0; i < size && chars <= tokenizer->most_chars; i++)
        chars += ((unsigned char)text[i] & 0xc0) != 0x80;
    return chars > tokenizer->most_chars;
}

/* The longest key that begins the text; its length, 0: none. */
static size_t longest_piece(const zt_trie *trie, const char *text, size_t size, int32_t *id)
{
    size_t best = 0;
    uint32_t node = ZT_TRIE_ROOT;
    for (size_t i = 0; i < size; i++) {
        node = zt_trie_step(trie, node, (unsigned char)text[i]);
        if (node == ZT_TRIE_NONE)
            break;
        if (zt_trie_value(trie, node) >= 0) {
            *id = zt_trie_value(trie, node);
            best = i + 1;
        }
    }
    return best;
}

static zt_status encode_wordpiece(const zt_tj *tokenizer, zt_tj_work *work, const char *text, size_t size)
{
    size_t before = work->ids->count;
    bool bad = too_long(tokenizer, text, size);
    zt_status status = ZT_OK;
    for (size_t offset = 0; !status && !bad && offset < size;) {
        int32_t id = -1;
        size_t length = longest_piece(offset ? tokenizer->trie_more : tokenizer->trie, text + offset, size - offset, &id);
        bad = !length;
        if (length)
            status = zt_tj_put(tokenizer, work, id);
        offset += length;
    }
    if (!status && bad) {
        work->ids->count = before;
        status = zt_tj_put_unk(tokenizer, work);
    }
    return status;
}

const zt_model_row zt_model_wordpiece = {"WordPiece", read_wordpiece, encode_wordpiece};

/* ---- Unigram --------------------------------------------------------------------------------- */

static const double unk_penalty = 10;

static zt_status read_piece(zt_tj_reader *reader, zt_tj *tokenizer, int32_t id, const json_t *pair)
{
    const json_t *text = json_array_get(pair, 0), *score = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_string(text) || !json_is_number(score) || !isfinite(json_number_value(score)))
        return zt_fail(reader->ctx, ZT_EDATA, "%s: token %d is not a text and a score", reader->file, id);
    zt_bytes kept = zt_tj_keep(reader, json_string_value(text), json_string_length(text));
    if (!kept.data)
        return ZT_ENOMEM;
    tokenizer->text[id] = kept;
    tokenizer->score[id] = json_number_value(score);
    if (tokenizer->score[id] - unk_penalty < tokenizer->unk_score)
        tokenizer->unk_score = tokenizer->score[id] - unk_penalty;
    zt_status status = zt_map_put(tokenizer->ids, kept.data, kept.n, id);
    return status ? status : zt_trie_put(tokenizer->trie, kept, id);
}

static zt_status read_unk_id(zt_tj_reader *reader, const json_t *object, zt_tj *tokenizer)
{
    int64_t unk = -1;
    zt_status status = zt_tj_size(reader, object, "unk_id", &unk);
    if (!status && unk >= tokenizer->token_count)
        status = zt_fail(reader->ctx, ZT_EDATA, "%s: model: 'unk_id' is %lld, but there are %d tokens", reader->file,
                         (long long)unk, tokenizer->token_count);
    tokenizer->unk = status ? -1 : (int32_t)unk;
    tokenizer->unk_missing = tokenizer->unk < 0;
    return status;
}

static zt_status read_unigram(zt_tj_reader *reader, const json_t *object, zt_tj *tokenizer)
{
    const json_t *list = json_object_get(object, "vocab");
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > INT32_MAX / 4)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: model: 'vocab' is no list, or too long", reader->file);
    tokenizer->token_count = (int32_t)count;
    tokenizer->entries = count;
    tokenizer->unk_score = INFINITY;
    tokenizer->text = zt_calloc(reader->ctx, count, sizeof *tokenizer->text);
    tokenizer->score = zt_calloc(reader->ctx, count, sizeof *tokenizer->score);
    tokenizer->ids = zt_map_new(reader->ctx, count);
    tokenizer->trie = zt_trie_new(reader->ctx);
    zt_status status = tokenizer->text && tokenizer->score && tokenizer->ids && tokenizer->trie ? ZT_OK : ZT_ENOMEM;
    for (size_t i = 0; !status && i < count; i++)
        status = read_piece(reader, tokenizer, (int32_t)i, json_array_get(list, i));
    if (!status)
        status = read_unk_id(reader, object, tokenizer);
    if (!status)
        status = zt_tj_bool(reader, object, "byte_fallback", &tokenizer->byte_fallback);
    for (int byte = 0; !status && byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        tokenizer->byte[byte] = zt_model_find(tokenizer, text, 6);
    }
    return status;
}

typedef struct path_node { /* the best way to where a piece ends */
    double score;
    uint32_t from; /* where the piece begins; NOWHERE: no way yet */
    int32_t id;
} path_node;
enum { NOWHERE = UINT32_MAX };

static zt_status reserve_path(const zt_tj *tokenizer, zt_tj_work *work, size_t size)
{
    size_t bytes;
    if (!zt_mul_size(size + 1, sizeof(path_node), &bytes))
        return zt_fail(tokenizer->ctx, ZT_ENOMEM, "a piece of %zu bytes is too long", size);
    if (bytes <= work->path_capacity)
        return ZT_OK;
    zt_free(tokenizer->ctx, work->path);
    work->path_capacity = 0;
    work->path = zt_alloc(tokenizer->ctx, bytes + bytes / 2);
    work->path_capacity = work->path ? bytes + bytes / 2 : 0;
    return work->path ? ZT_OK : ZT_ENOMEM;
}

static void offer_path(path_node *to, double score, size_t from, int32_t id)
{
    if (to->from == NOWHERE || score > to->score)
        *to = (path_node){score, (uint32_t)from, id};
}

/* All pieces that begin at `offset`. False: the character is unknown and there is no token for that. */
static bool extend_path(const zt_tj *tokenizer, path_node *path, const char *text, size_t size, size_t offset, size_t char_len)
{
    bool single = false;
    uint32_t place = ZT_TRIE_ROOT;
    for (size_t i = offset; i < size; i++) {
        place = zt_trie_step(tokenizer->trie, place, (unsigned char)text[i]);
        if (place == ZT_TRIE_NONE)
            break;
        int32_t id = zt_trie_value(tokenizer->trie, place);
        if (id < 0)
            continue;
        offer_path(&path[i + 1], path[offset].score + tokenizer->score[id], offset, id);
        single = single || i + 1 - offset == char_len;
    }
    path_node *to = &path[offset + char_len];
    double score = path[offset].score + tokenizer->unk_score;
    if (single || (to->from != NOWHERE && score <= to->score))
        return true;
    offer_path(to, score, offset, tokenizer->unk);
    return tokenizer->unk >= 0;
}

/* The ids of one piece of the best path, which is known or a run of unknown characters. */
static zt_status put_piece(const zt_tj *tokenizer, zt_tj_work *work, const char *text, size_t size)
{
    int32_t id = zt_model_find(tokenizer, text, size);
    zt_status status = ZT_OK;
    if (id >= 0)
        return zt_tj_put(tokenizer, work, id);
    if (!tokenizer->byte_fallback || !zt_tj_has_bytes(tokenizer, text, size))
        return zt_tj_put_unk(tokenizer, work);
    for (size_t i = 0; !status && i < size; i++)
        status = zt_tj_put(tokenizer, work, tokenizer->byte[(unsigned char)text[i]]);
    return status;
}

/* Turns the path around: each node on it then says where its piece ends. */
static void reverse_path(path_node *path, size_t size)
{
    int32_t id = path[size].id, before;
    for (size_t end = size, from; end; end = from, id = before) {
        from = path[end].from;
        before = path[from].id;
        path[from].score = (double)end;
        path[from].id = id;
    }
}

static zt_status encode_unigram(const zt_tj *tokenizer, zt_tj_work *work, const char *text, size_t size)
{
    zt_status status = reserve_path(tokenizer, work, size);
    path_node *path = work->path;
    for (size_t i = 0; !status && i <= size; i++)
        path[i] = (path_node){0, NOWHERE, -1};
    for (size_t offset = 0, next = 0; !status && offset < size; offset = next) {
        zt_char_next(text, size, &next);
        if (!extend_path(tokenizer, path, text, size, offset, next - offset))
            status = zt_fail(tokenizer->ctx, ZT_EDATA,
                             "the text needs an unknown token, which the vocabulary "
                             "does not have");
    }
    if (status)
        return status;
    reverse_path(path, size);
    for (size_t offset = 0, end; !status && offset < size; offset = end) {
        int32_t id = path[offset].id;
        end = (size_t)path[offset].score;
        while (id == tokenizer->unk && end < size && path[end].id == tokenizer->unk)
            end = (size_t)path[end].score;
        status = put_piece(tokenizer, work, text + offset, end - offset);
    }
    return status;
}

const zt_model_row zt_model_unigram = {"Unigram", read_unigram, encode_unigram};
