/* vocab_json_bpe.c - tokenizer.json's BPE: symbols are characters, pairs of ids merge by rank.
 *
 * A character that is no token becomes the tokens of its bytes (byte_fallback), else the unknown
 * token, several in a row one (fuse_unk), else nothing. An unknown token waits until a known one or
 * the end comes: tokens of bytes overtake it. So the library does. Source: huggingface/tokenizers,
 * models/bpe/, as facts.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <string.h>

/* ---- merges ---------------------------------------------------------------------------------- */

/* ["left", "right"], or "left right" with one blank in all. */
static bool merge_sides(const json_t *value, zt_bytes *left, zt_bytes *right)
{
    if (json_is_string(value)) {
        const char *text = json_string_value(value), *space = strchr(text, ' ');
        if (!space || strchr(space + 1, ' '))
            return false;
        *left = (zt_bytes){text, (size_t)(space - text)};
        *right = (zt_bytes){space + 1, json_string_length(value) - left->n - 1};
        return true;
    }
    const json_t *first = json_array_get(value, 0), *second = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_string(first) || !json_is_string(second))
        return false;
    *left = (zt_bytes){json_string_value(first), json_string_length(first)};
    *right = (zt_bytes){json_string_value(second), json_string_length(second)};
    return true;
}

/* A pair of which a side is no token can never be met, and is passed over (the library refuses the
 * file); what two tokens make has to be one. Of a pair listed twice the last line counts. */
static zt_status put_merge(zt_tj_reader *reader, zt_tj *tokenizer, size_t rank, zt_bytes left_text, zt_bytes right_text,
                           zt_str *merged)
{
    char escaped[80];
    int32_t left = zt_model_find(tokenizer, left_text.data, left_text.n),
            right = zt_model_find(tokenizer, right_text.data, right_text.n);
    if (left < 0 || right < 0)
        return ZT_OK;
    size_t skip = right_text.n < tokenizer->prefix.n ? right_text.n : tokenizer->prefix.n;
    zt_str_clear(merged);
    zt_status status = zt_str_put(merged, left_text.data, left_text.n);
    if (!status)
        status = zt_str_put(merged, right_text.data + skip, right_text.n - skip);
    if (status)
        return status;
    int32_t id = zt_model_find(tokenizer, merged->data, merged->len);
    if (id < 0)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: merge %zu makes '%s', which is no token", reader->file, rank,
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
        return zt_fail(reader->ctx, ZT_EDATA, "%s: model: 'merges' is no list, or too long", reader->file);
    tokenizer->pairs = zt_pairs_new(reader->ctx, count);
    zt_status status = tokenizer->pairs ? ZT_OK : ZT_ENOMEM;
    zt_str_init(&merged, reader->ctx);
    for (size_t i = 0; !status && i < count; i++) {
        const json_t *value = json_array_get(list, i);
        zt_bytes left, right;
        if (json_is_string(value) && strncmp(json_string_value(value), "#version", 8) == 0)
            continue;
        if (!merge_sides(value, &left, &right))
            status = zt_fail(reader->ctx, ZT_EDATA, "%s: merge %zu is not two texts", reader->file, i);
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
    zt_status status = zt_vocab_object(reader, object, tokenizer);
    if (!status && json_is_number(dropout) && json_number_value(dropout) != 0)
        status = zt_fail(reader->ctx, ZT_ENOTSUP, "%s: model: 'dropout' is not supported", reader->file);
    if (!status)
        status = zt_model_unk(reader, object, tokenizer, NULL);
    if (!status)
        status = zt_tj_text(reader, object, "continuing_subword_prefix", &tokenizer->prefix);
    if (!status)
        status = zt_tj_text(reader, object, "end_of_word_suffix", &tokenizer->suffix);
    if (!status)
        status = zt_tj_bool(reader, object, "fuse_unk", &tokenizer->fuse_unk);
    if (!status)
        status = zt_tj_bool(reader, object, "byte_fallback", &tokenizer->byte_fallback);
    if (!status)
        status = zt_tj_bool(reader, object, "ignore_merges", &tokenizer->ignore_merges);
    return status ? status : read_merges(reader, object, tokenizer);
}

/* ---- text to ids ----------------------------------------------------------------------------- */

/* The symbol that begins at text[at]: the character, with prefix and suffix where they belong. */
static zt_status symbol_text(const zt_tj *tokenizer, const char *text, size_t size, size_t offset, size_t length, zt_str *buffer,
                             zt_bytes *out)
{
    bool first = offset == 0, last = offset + length == size;
    *out = (zt_bytes){text + offset, length};
    if ((first || !tokenizer->prefix.n) && (!last || !tokenizer->suffix.n))
        return ZT_OK;
    zt_str_clear(buffer);
    zt_status status = first ? ZT_OK : zt_str_put(buffer, tokenizer->prefix.data, tokenizer->prefix.n);
    if (!status)
        status = zt_str_put(buffer, text + offset, length);
    if (!status && last)
        status = zt_str_put(buffer, tokenizer->suffix.data, tokenizer->suffix.n);
    *out = (zt_bytes){buffer->data, buffer->len};
    return status;
}

static void add_id(zt_merger *merger, int32_t id)
{
    size_t place = merger->count++;
    merger->symbols[place] = (zt_sym){.offset = (uint32_t)place, .length = 1, .id = id};
}

/* Symbols need no place in the text here: each has length 1, all that the merger asks for. */
static zt_status add_symbol(const zt_tj *tokenizer, zt_merger *merger, zt_bytes symbol, int *waiting)
{
    int32_t id = zt_model_find(tokenizer, symbol.data, symbol.n);
    if (id >= 0) {
        if (*waiting)
            add_id(merger, tokenizer->unk);
        *waiting = 0;
        add_id(merger, id);
        return ZT_OK;
    }
    if (tokenizer->byte_fallback && zt_tj_has_bytes(tokenizer, symbol.data, symbol.n)) {
        for (size_t i = 0; i < symbol.n; i++)
            add_id(merger, tokenizer->byte[(unsigned char)symbol.data[i]]);
        return ZT_OK;
    }
    if (tokenizer->unk_missing)
        return zt_fail(tokenizer->ctx, ZT_EDATA,
                       "the text needs the unknown token, which the vocabulary "
                       "names but does not have");
    if (tokenizer->unk >= 0) {
        if (*waiting && !tokenizer->fuse_unk)
            add_id(merger, tokenizer->unk);
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
        return zt_fail(tokenizer->ctx, ZT_ENOMEM, "a piece of %zu bytes with prefixes of %zu is too long", size, around);
    zt_status status = zt_merger_reserve(merger, around ? size * (around + 1) + 1 : size + 1);
    merger->count = 0;
    zt_str_init(&buffer, tokenizer->ctx);
    for (size_t i = 0, from = 0; !status && i < size; from = i) {
        zt_char_next(text, size, &i);
        status = symbol_text(tokenizer, text, size, from, i - from, &buffer, &symbol);
        if (!status)
            status = add_symbol(tokenizer, merger, symbol, &waiting);
    }
    if (!status && waiting)
        add_id(merger, tokenizer->unk);
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
    if (id >= 0)
        return zt_tj_put(tokenizer, work, id);
    zt_status status = add_symbols(tokenizer, work, text, size);
    if (status || !work->merger.count)
        return status;
    zt_merger_run(&work->merger, tokenizer, text, find_pair);
    for (int32_t i = 0; !status && i >= 0; i = work->merger.symbols[i].next)
        status = zt_tj_put(tokenizer, work, work->merger.symbols[i].id);
    return status;
}

const zt_model_row zt_model_bpe = {"BPE", read_bpe, encode_bpe};
