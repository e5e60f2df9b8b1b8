/* vocab_json_model.c - tokenizer.json's models: WordLevel, BPE, WordPiece and Unigram, and what they share: the vocabulary
 * object, the unknown token, tokens of bytes. Source of the meanings: huggingface/tokenizers, models/, as facts.
 */
#include "lib/base/utf8.h"
#include "lib/llm/vocab/vocab_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Ids may have gaps, but not such that a small file asks for much memory. */
enum { GAPS = 1 << 20 };

/* ---- the vocabulary -------------------------------------------------------------------------- */

static zt_status bad_id(zt_tj_reader *reader, const char *key, const char *what)
{
    char escaped[80];
    return zt_fail(reader->ctx, ZT_EDATA, "%s: token '%s': the id is %s", reader->file,
                   zt_escape(escaped, sizeof escaped, key, strlen(key)), what);
}

static zt_status count_ids(zt_tj_reader *reader, const json_t *object, zt_tj *tokenizer)
{
    const char *key;
    json_t *value;
    json_int_t most = -1;
    tokenizer->entries = json_object_size(object);
    json_object_foreach((json_t *)object, key, value)
    {
        if (!json_is_integer(value) || json_integer_value(value) < 0) return bad_id(reader, key, "not a non-negative integer");
        if (json_integer_value(value) > (json_int_t)(4 * tokenizer->entries + GAPS) || json_integer_value(value) >= INT32_MAX / 4)
            return bad_id(reader, key, "far beyond the number of tokens");
        most = json_integer_value(value) > most ? json_integer_value(value) : most;
    }
    tokenizer->token_count = (int32_t)(most + 1);
    return ZT_OK;
}

static void find_bytes(zt_tj *tokenizer)
{
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        tokenizer->byte[byte] = zt_model_find(tokenizer, text, 6);
    }
}

/* Of texts with one id the last is that id's. */
static zt_status read_vocab_object(zt_tj_reader *reader, const json_t *object, zt_tj *tokenizer)
{
    const char *key;
    json_t *value, *vocab = json_object_get(object, "vocab");
    zt_status status = zt_tj_need(reader, object, "vocab");
    if (!status && !json_is_object(vocab))
        status = zt_fail(reader->ctx, ZT_EDATA, "%s: %s: 'vocab' is not an object", reader->file, reader->where);
    if (!status) status = count_ids(reader, vocab, tokenizer);
    if (status) return status;
    tokenizer->text = zt_calloc(reader->ctx, (size_t)tokenizer->token_count, sizeof *tokenizer->text);
    tokenizer->ids = zt_map_new(reader->ctx, tokenizer->entries);
    if (!tokenizer->text || !tokenizer->ids) return ZT_ENOMEM;
    json_object_foreach(vocab, key, value)
    {
        int32_t id = (int32_t)json_integer_value(value);
        zt_bytes text = zt_tj_keep(reader, key, strlen(key));
        if (!text.data) return ZT_ENOMEM;
        status = zt_map_put(tokenizer->ids, text.data, text.n, id);
        if (status) return status;
        tokenizer->text[id] = text;
    }
    find_bytes(tokenizer);
    return ZT_OK;
}

int32_t zt_model_find(const zt_tj *tokenizer, const char *text, size_t size)
{
    int64_t id;
    return zt_map_get(tokenizer->ids, text, size, &id) ? (int32_t)id : -1;
}

/* A file may name an unknown token that it does not have: an error only when one is met. */
static zt_status read_unk_token(zt_tj_reader *reader, const json_t *object, zt_tj *tokenizer, const char *otherwise)
{
    zt_bytes unk = {otherwise, otherwise ? strlen(otherwise) : 0};
    zt_status status = zt_tj_text(reader, object, "unk_token", &unk);
    if (!status && unk.data) {
        tokenizer->unk = zt_model_find(tokenizer, unk.data, unk.n);
        tokenizer->unk_missing = tokenizer->unk < 0;
    }
    return status;
}

zt_status zt_tj_put(const zt_tj *tokenizer, zt_tj_work *work, int32_t id) { return zt_ids_push(tokenizer->ctx, work->ids, id); }

static zt_status put_unk(const zt_tj *tokenizer, zt_tj_work *work)
{
    if (tokenizer->unk_missing)
        return zt_fail(tokenizer->ctx, ZT_EDATA, "the text needs the unknown token (unk_token), which is not in the vocabulary");
    return tokenizer->unk < 0 ? ZT_OK : zt_tj_put(tokenizer, work, tokenizer->unk);
}

bool zt_tj_has_bytes(const zt_tj *tokenizer, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (tokenizer->byte[(unsigned char)text[i]] < 0) return false;
    return true;
}

/* ---- WordLevel ------------------------------------------------------------------------------- */

static zt_status read_wordlevel(zt_tj_reader *reader, const json_t *object, zt_tj *tokenizer)
{
    zt_status status = read_vocab_object(reader, object, tokenizer);
    return status ? status : read_unk_token(reader, object, tokenizer, "<unk>");
}

static zt_status encode_wordlevel(const zt_tj *tokenizer, zt_tj_work *work, const char *text, size_t size)
{
    int32_t id = zt_model_find(tokenizer, text, size);
    return id < 0 ? put_unk(tokenizer, work) : zt_tj_put(tokenizer, work, id);
}

static const zt_model_row model_wordlevel = {"WordLevel", read_wordlevel, encode_wordlevel};

/* ---- BPE: merges ---------------------------------------------------------------------------------- */

/* Symbols are characters, and pairs of ids merge by rank. A character that is no token becomes the tokens of its bytes
 * (byte_fallback), else the unknown token, several in a row one (fuse_unk), else nothing. An unknown token waits until a
 * known one or the end comes, so tokens of bytes overtake it, as in the library. Source: models/bpe/. */

/* ["left", "right"], or "left right" with one blank in all. */
static bool merge_sides(const json_t *value, zt_bytes *left, zt_bytes *right)
{
    if (json_is_string(value)) {
        const char *text = json_string_value(value), *space = strchr(text, ' ');
        if (!space || strchr(space + 1, ' ')) return false;
        *left = (zt_bytes){text, (size_t)(space - text)};
        *right = (zt_bytes){space + 1, json_string_length(value) - left->n - 1};
        return true;
    }
    const json_t *first = json_array_get(value, 0), *second = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_string(first) || !json_is_string(second)) return false;
    *left = (zt_bytes){json_string_value(first), json_string_length(first)};
    *right = (zt_bytes){json_string_value(second), json_string_length(second)};
    return true;
}

/* A pair with a side that is not a token can never occur and is skipped (the library refuses the file); the merged text
 * must be a token. Of a pair listed twice the last line counts. */
static zt_status put_merge(zt_tj_reader *reader, zt_tj *tokenizer, size_t rank, zt_bytes left_text, zt_bytes right_text,
                           zt_str *merged)
{
    char escaped[80];
    int32_t left = zt_model_find(tokenizer, left_text.data, left_text.n),
            right = zt_model_find(tokenizer, right_text.data, right_text.n);
    if (left < 0 || right < 0) return ZT_OK;
    size_t skip = right_text.n < tokenizer->prefix.n ? right_text.n : tokenizer->prefix.n;
    zt_str_clear(merged);
    zt_status status = zt_str_put(merged, left_text.data, left_text.n);
    if (!status) status = zt_str_put(merged, right_text.data + skip, right_text.n - skip);
    if (status) return status;
    int32_t id = zt_model_find(tokenizer, merged->data, merged->len);
    if (id < 0)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: merge %zu yields '%s', which is not a token", reader->file, rank,
                       zt_escape(escaped, sizeof escaped, merged->data, merged->len));
    zt_pairs_put(tokenizer->pairs, left, right, (uint32_t)rank, id);
    return ZT_OK;
}

static zt_status read_merges(zt_tj_reader *reader, const json_t *object, zt_tj *tokenizer)
{
    const json_t *list = json_object_get(object, "merges");
    size_t count = json_array_size(list), rank = 0;
    zt_str merged;
    if (!json_is_array(list) || count > INT32_MAX / 4)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: model: 'merges' is not an array, or is too long", reader->file);
    tokenizer->pairs = zt_pairs_new(reader->ctx, count);
    zt_status status = tokenizer->pairs ? ZT_OK : ZT_ENOMEM;
    zt_str_init(&merged, reader->ctx);
    for (size_t i = 0; !status && i < count; i++) {
        const json_t *value = json_array_get(list, i);
        zt_bytes left, right;
        if (json_is_string(value) && strncmp(json_string_value(value), "#version", 8) == 0) continue;
        if (!merge_sides(value, &left, &right))
            status = zt_fail(reader->ctx, ZT_EDATA, "%s: merge %zu is not a pair of strings", reader->file, i);
        else if (!reader->zeros)
            status = put_merge(reader, tokenizer, rank++, left, right, &merged);
        else { /* keys are kept with their zeros in place */
            left = zt_tj_keep(reader, left.data, left.n);
            right = zt_tj_keep(reader, right.data, right.n);
            status = left.data && right.data ? put_merge(reader, tokenizer, rank++, left, right, &merged) : ZT_ENOMEM;
        }
    }
    zt_str_fini(&merged);
    return status;
}

static zt_status read_bpe(zt_tj_reader *reader, const json_t *object, zt_tj *tokenizer)
{
    const json_t *dropout = json_object_get(object, "dropout");
    zt_status status = read_vocab_object(reader, object, tokenizer);
    if (!status && json_is_number(dropout) && json_number_value(dropout) != 0)
        status = zt_fail(reader->ctx, ZT_ENOTSUP, "%s: model: 'dropout' is not supported", reader->file);
    if (!status) status = read_unk_token(reader, object, tokenizer, NULL);
    if (!status) status = zt_tj_text(reader, object, "continuing_subword_prefix", &tokenizer->prefix);
    if (!status) status = zt_tj_text(reader, object, "end_of_word_suffix", &tokenizer->suffix);
    if (!status) status = zt_tj_bool(reader, object, "fuse_unk", &tokenizer->fuse_unk);
    if (!status) status = zt_tj_bool(reader, object, "byte_fallback", &tokenizer->byte_fallback);
    if (!status) status = zt_tj_bool(reader, object, "ignore_merges", &tokenizer->ignore_merges);
    return status ? status : read_merges(reader, object, tokenizer);
}

/* ---- BPE: text to ids ----------------------------------------------------------------------------- */

/* The symbol that begins at text[at]: the character, with prefix and suffix where they belong. */
static zt_status symbol_text(const zt_tj *tokenizer, const char *text, size_t size, size_t offset, size_t length, zt_str *buffer,
                             zt_bytes *out)
{
    bool first = offset == 0, last = offset + length == size;
    *out = (zt_bytes){text + offset, length};
    if ((first || !tokenizer->prefix.n) && (!last || !tokenizer->suffix.n)) return ZT_OK;
    zt_str_clear(buffer);
    zt_status status = first ? ZT_OK : zt_str_put(buffer, tokenizer->prefix.data, tokenizer->prefix.n);
    if (!status) status = zt_str_put(buffer, text + offset, length);
    if (!status && last) status = zt_str_put(buffer, tokenizer->suffix.data, tokenizer->suffix.n);
    *out = (zt_bytes){buffer->data, buffer->len};
    return status;
}

static void add_id(zt_merger *merger, int32_t id)
{
    size_t place = merger->count++;
    merger->symbols[place] = (zt_sym){.offset = (uint32_t)place, .length = 1, .id = id};
}

/* The symbols' places in the text are not needed here: each gets length 1, which is enough for the merger. */
static zt_status add_symbol(const zt_tj *tokenizer, zt_merger *merger, zt_bytes symbol, int *waiting)
{
    int32_t id = zt_model_find(tokenizer, symbol.data, symbol.n);
    if (id >= 0) {
        if (*waiting) add_id(merger, tokenizer->unk);
        *waiting = 0;
        add_id(merger, id);
        return ZT_OK;
    }
    if (tokenizer->byte_fallback && zt_tj_has_bytes(tokenizer, symbol.data, symbol.n)) {
        for (size_t i = 0; i < symbol.n; i++) add_id(merger, tokenizer->byte[(unsigned char)symbol.data[i]]);
        return ZT_OK;
    }
    if (tokenizer->unk_missing)
        return zt_fail(tokenizer->ctx, ZT_EDATA, "the text needs the unknown token (unk_token), which is not in the vocabulary");
    if (tokenizer->unk >= 0) {
        if (*waiting && !tokenizer->fuse_unk) add_id(merger, tokenizer->unk);
        *waiting = 1;
    }
    return ZT_OK;
}

static zt_status add_symbols(const zt_tj *tokenizer, zt_tj_work *work, const char *text, size_t size)
{
    zt_merger *merger = &work->merger;
    zt_str buffer;
    zt_bytes symbol;
    int waiting = 0;
    size_t around = tokenizer->prefix.n + tokenizer->suffix.n, most;
    if (around && (!zt_mul_size(size, around + 4, &most) || most > INT32_MAX / 4))
        return zt_fail(tokenizer->ctx, ZT_ENOMEM, "piece of %zu bytes is too long with a prefix and suffix of %zu bytes", size,
                       around);
    zt_status status = zt_merger_reserve(merger, around ? size * (around + 1) + 1 : size + 1);
    merger->count = 0;
    zt_str_init(&buffer, tokenizer->ctx);
    for (size_t i = 0, from = 0; !status && i < size; from = i) {
        zt_char_next(text, size, &i);
        status = symbol_text(tokenizer, text, size, from, i - from, &buffer, &symbol);
        if (!status) status = add_symbol(tokenizer, merger, symbol, &waiting);
    }
    if (!status && waiting) add_id(merger, tokenizer->unk);
    zt_str_fini(&buffer);
    return status;
}

static bool find_pair(const void *arg, const char *text, const zt_sym *left, const zt_sym *right, uint32_t *rank, int32_t *id)
{
    const zt_tj *tokenizer = arg;
    (void)text;
    return zt_pairs_find(tokenizer->pairs, left->id, right->id, rank, id);
}

static zt_status encode_bpe(const zt_tj *tokenizer, zt_tj_work *work, const char *text, size_t size)
{
    int32_t id = tokenizer->ignore_merges ? zt_model_find(tokenizer, text, size) : -1;
    if (id >= 0) return zt_tj_put(tokenizer, work, id);
    zt_status status = add_symbols(tokenizer, work, text, size);
    if (status || !work->merger.count) return status;
    zt_merger_run(&work->merger, tokenizer, text, find_pair);
    for (int32_t i = 0; !status && i >= 0; i = work->merger.symbols[i].next)
        status = zt_tj_put(tokenizer, work, work->merger.symbols[i].id);
    return status;
}

static const zt_model_row model_bpe = {"BPE", read_bpe, encode_bpe};

/* ---- WordPiece ------------------------------------------------------------------------------- */

/* The longest piece from the left; the whole word is unknown when one is missing. Source: models/wordpiece. */

/* A piece may open a word, and with the prefix it may go on: each trie has what applies. */
static zt_status fill_tries(zt_tj_reader *reader, zt_tj *tokenizer)
{
    zt_status status = ZT_OK;
    tokenizer->trie = zt_trie_new(reader->ctx);
    tokenizer->trie_more = zt_trie_new(reader->ctx);
    if (!tokenizer->trie || !tokenizer->trie_more) return ZT_ENOMEM;
    for (int32_t id = 0; !status && id < tokenizer->token_count; id++) {
        zt_bytes text = tokenizer->text[id], more = {NULL, 0};
        if (!text.data || !text.n) continue;
        if (text.n > tokenizer->prefix.n && memcmp(text.data, tokenizer->prefix.data, tokenizer->prefix.n) == 0)
            more = (zt_bytes){text.data + tokenizer->prefix.n, text.n - tokenizer->prefix.n};
        status = zt_trie_put(tokenizer->trie, text, id);
        if (!status && more.n) status = zt_trie_put(tokenizer->trie_more, more, id);
    }
    return status;
}

static zt_status read_wordpiece(zt_tj_reader *reader, const json_t *object, zt_tj *tokenizer)
{
    tokenizer->prefix = (zt_bytes){"##", 2};
    tokenizer->most_chars = 100;
    zt_status status = read_vocab_object(reader, object, tokenizer);
    if (!status) status = read_unk_token(reader, object, tokenizer, "[UNK]");
    if (!status) status = zt_tj_text(reader, object, "continuing_subword_prefix", &tokenizer->prefix);
    if (!status) status = zt_tj_size(reader, object, "max_input_chars_per_word", &tokenizer->most_chars);
    return status ? status : fill_tries(reader, tokenizer);
}

/* Are there more characters than may be? */
static bool too_long(const zt_tj *tokenizer, const char *text, size_t size)
{
    return (int64_t)zt_utf8_count(text, size) > tokenizer->most_chars;
}

/* The longest key that begins the text; its length, 0: none. */
static size_t longest_piece(const zt_trie *trie, const char *text, size_t size, int32_t *id)
{
    size_t best = 0;
    uint32_t node = ZT_TRIE_ROOT;
    for (size_t i = 0; i < size; i++) {
        node = zt_trie_step(trie, node, (unsigned char)text[i]);
        if (node == ZT_TRIE_NONE) break;
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
        if (length) status = zt_tj_put(tokenizer, work, id);
        offset += length;
    }
    if (!status && bad) {
        work->ids->count = before;
        status = put_unk(tokenizer, work);
    }
    return status;
}

static const zt_model_row model_wordpiece = {"WordPiece", read_wordpiece, encode_wordpiece};

/* ---- Unigram --------------------------------------------------------------------------------- */

/* The pieces with the greatest sum of scores (Viterbi). An unknown character costs 10 more than the worst piece, and
 * unknown ones in a row are one. Source: models/unigram. */

static const double unk_penalty = 10;

static zt_status read_piece(zt_tj_reader *reader, zt_tj *tokenizer, int32_t id, const json_t *pair)
{
    const json_t *text = json_array_get(pair, 0), *score = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_string(text) || !json_is_number(score) || !isfinite(json_number_value(score)))
        return zt_fail(reader->ctx, ZT_EDATA, "%s: token %d is not a pair of string and score", reader->file, id);
    zt_bytes kept = zt_tj_keep(reader, json_string_value(text), json_string_length(text));
    if (!kept.data) return ZT_ENOMEM;
    tokenizer->text[id] = kept;
    tokenizer->score[id] = json_number_value(score);
    if (tokenizer->score[id] - unk_penalty < tokenizer->unk_score) tokenizer->unk_score = tokenizer->score[id] - unk_penalty;
    zt_status status = zt_map_put(tokenizer->ids, kept.data, kept.n, id);
    return status ? status : zt_trie_put(tokenizer->trie, kept, id);
}

static zt_status read_unk_id(zt_tj_reader *reader, const json_t *object, zt_tj *tokenizer)
{
    int64_t unk = -1;
    zt_status status = zt_tj_size(reader, object, "unk_id", &unk);
    if (!status && unk >= tokenizer->token_count)
        status = zt_fail(reader->ctx, ZT_EDATA, "%s: model: 'unk_id' is %lld, but the vocabulary has %d tokens", reader->file,
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
        return zt_fail(reader->ctx, ZT_EDATA, "%s: model: 'vocab' is not an array, or is too long", reader->file);
    tokenizer->token_count = (int32_t)count;
    tokenizer->entries = count;
    tokenizer->unk_score = INFINITY;
    tokenizer->text = zt_calloc(reader->ctx, count, sizeof *tokenizer->text);
    tokenizer->score = zt_calloc(reader->ctx, count, sizeof *tokenizer->score);
    tokenizer->ids = zt_map_new(reader->ctx, count);
    tokenizer->trie = zt_trie_new(reader->ctx);
    zt_status status = tokenizer->text && tokenizer->score && tokenizer->ids && tokenizer->trie ? ZT_OK : ZT_ENOMEM;
    for (size_t i = 0; !status && i < count; i++) status = read_piece(reader, tokenizer, (int32_t)i, json_array_get(list, i));
    if (!status) status = read_unk_id(reader, object, tokenizer);
    if (!status) status = zt_tj_bool(reader, object, "byte_fallback", &tokenizer->byte_fallback);
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
        return zt_fail(tokenizer->ctx, ZT_ENOMEM, "piece of %zu bytes is too long", size);
    if (bytes <= work->path_capacity) return ZT_OK;
    zt_free(tokenizer->ctx, work->path);
    work->path_capacity = 0;
    work->path = zt_alloc(tokenizer->ctx, bytes + bytes / 2);
    work->path_capacity = work->path ? bytes + bytes / 2 : 0;
    return work->path ? ZT_OK : ZT_ENOMEM;
}

static void offer_path(path_node *to, double score, size_t from, int32_t id)
{
    if (to->from == NOWHERE || score > to->score) *to = (path_node){score, (uint32_t)from, id};
}

/* All pieces that begin at `offset`. False: the character is unknown and there is no token for that. */
static bool extend_path(const zt_tj *tokenizer, path_node *path, const char *text, size_t size, size_t offset, size_t char_len)
{
    bool single = false;
    uint32_t place = ZT_TRIE_ROOT;
    for (size_t i = offset; i < size; i++) {
        place = zt_trie_step(tokenizer->trie, place, (unsigned char)text[i]);
        if (place == ZT_TRIE_NONE) break;
        int32_t id = zt_trie_value(tokenizer->trie, place);
        if (id < 0) continue;
        offer_path(&path[i + 1], path[offset].score + tokenizer->score[id], offset, id);
        single = single || i + 1 - offset == char_len;
    }
    path_node *to = &path[offset + char_len];
    double score = path[offset].score + tokenizer->unk_score;
    if (single || (to->from != NOWHERE && score <= to->score)) return true;
    offer_path(to, score, offset, tokenizer->unk);
    return tokenizer->unk >= 0;
}

/* The ids of one piece of the best path, which is known or a run of unknown characters. */
static zt_status put_piece(const zt_tj *tokenizer, zt_tj_work *work, const char *text, size_t size)
{
    int32_t id = zt_model_find(tokenizer, text, size);
    zt_status status = ZT_OK;
    if (id >= 0) return zt_tj_put(tokenizer, work, id);
    if (!tokenizer->byte_fallback || !zt_tj_has_bytes(tokenizer, text, size)) return put_unk(tokenizer, work);
    for (size_t i = 0; !status && i < size; i++) status = zt_tj_put(tokenizer, work, tokenizer->byte[(unsigned char)text[i]]);
    return status;
}

/* Reverses the path: each node on it then holds the end of its piece. */
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
    for (size_t i = 0; !status && i <= size; i++) path[i] = (path_node){0, NOWHERE, -1};
    for (size_t offset = 0, next = 0; !status && offset < size; offset = next) {
        zt_char_next(text, size, &next);
        if (!extend_path(tokenizer, path, text, size, offset, next - offset))
            status = zt_fail(tokenizer->ctx, ZT_EDATA, "the text needs an unknown token, but the vocabulary has none");
    }
    if (status) return status;
    reverse_path(path, size);
    for (size_t offset = 0, end; !status && offset < size; offset = end) {
        int32_t id = path[offset].id;
        end = (size_t)path[offset].score;
        while (id == tokenizer->unk && end < size && path[end].id == tokenizer->unk) end = (size_t)path[end].score;
        status = put_piece(tokenizer, work, text + offset, end - offset);
    }
    return status;
}

static const zt_model_row model_unigram = {"Unigram", read_unigram, encode_unigram};

/* ---- which model ----------------------------------------------------------------------------- */

/* Old files have no type: only Unigram has a list of tokens, only BPE has merges, only WordPiece has a limit. */
static const char *guess_model(const json_t *object)
{
    return json_is_array(json_object_get(object, "vocab"))       ? "Unigram"
           : json_object_get(object, "merges")                   ? "BPE"
           : json_object_get(object, "max_input_chars_per_word") ? "WordPiece"
                                                                 : "WordLevel";
}

zt_status zt_model_read(zt_tj_reader *reader, const json_t *root, zt_tj *tokenizer)
{
    static const zt_model_row *const rows[] = {&model_bpe, &model_unigram, &model_wordpiece, &model_wordlevel};
    const json_t *object = json_object_get(root, "model"), *type = json_object_get(object, "type");
    char escaped[80];
    reader->where = "model";
    if (!json_is_object(object) || (type && !json_is_string(type)))
        return zt_fail(reader->ctx, ZT_EDATA, "%s: 'model' is missing or is not an object with a 'type'", reader->file);
    const char *name = type ? json_string_value(type) : guess_model(object);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i]->name, name) == 0) {
            tokenizer->model = rows[i];
            return tokenizer->model->read(reader, object, tokenizer);
        }
    return zt_fail(reader->ctx, ZT_ENOTSUP, "%s: model '%s' is not supported", reader->file,
                   zt_escape(escaped, sizeof escaped, name, strlen(name)));
}
