/* vocab_json_added.c - tokenizer.json's added tokens: their ids, and finding them in text.
 *
 * Tokens with `normalized` are searched in normalized text by their normalized content, the others in raw text. At each
 * place the longest counts; if it must be a single word and is not, it is skipped together with all tokens inside it.
 * Source: huggingface/tokenizers, tokenizer/added_vocabulary.rs, as facts.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

static zt_status read_token(zt_tj_reader *reader, const json_t *object, zt_added *added)
{
    zt_status status = zt_tj_need(reader, object, "content");
    if (!status) status = zt_tj_text(reader, object, "content", &added->content);
    if (!status) status = zt_tj_bool(reader, object, "special", &added->special);
    added->normalized = !added->special;
    if (!status) status = zt_tj_bool(reader, object, "normalized", &added->normalized);
    if (!status) status = zt_tj_bool(reader, object, "single_word", &added->single_word);
    if (!status) status = zt_tj_bool(reader, object, "lstrip", &added->lstrip);
    return status ? status : zt_tj_bool(reader, object, "rstrip", &added->rstrip);
}

/* A content that is repeated replaces the earlier entry. A new one gets the model's id, or the next free one. The id in
 * the file is ignored, as in the library. */
static zt_status give_ids(zt_tj *tokenizer, zt_added_set *set, size_t count)
{
    zt_map *places = zt_map_new(tokenizer->ctx, count);
    zt_status status = places ? ZT_OK : ZT_ENOMEM;
    size_t next = tokenizer->entries, kept = 0;
    for (size_t i = 0; !status && i < count; i++) {
        zt_added added = set->token[i];
        int64_t old;
        if (!added.content.n) continue;
        if (zt_map_get(places, added.content.data, added.content.n, &old)) {
            added.id = set->token[old].id;
            set->token[old] = added;
            continue;
        }
        added.id = zt_model_find(tokenizer, added.content.data, added.content.n);
        if (added.id < 0) added.id = (int32_t)next++;
        set->token[kept] = added;
        status = zt_map_put(places, added.content.data, added.content.n, (int64_t)kept++);
    }
    set->count = kept;
    zt_map_free(places);
    return status;
}

/* Sets the content that is searched and shown: normalized if the token asks for it. */
static zt_status normalize_content(zt_tj_reader *reader, zt_tj *tokenizer, zt_tj_work *work, zt_added *added)
{
    zt_text out;
    added->shown = added->content;
    if (!added->normalized) return ZT_OK;
    zt_status status = zt_norm_run(tokenizer, work, (zt_text){added->content.data, added->content.n, 0}, &out);
    if (status || (out.size == added->content.n && memcmp(out.data, added->content.data, out.size) == 0)) return status;
    char *copy = zt_arena_strndup(reader->texts, out.size ? out.data : "", out.size);
    added->shown = (zt_bytes){copy, out.size};
    return copy ? ZT_OK : ZT_ENOMEM;
}

static zt_status fill_tries(zt_tj_reader *reader, zt_tj *tokenizer)
{
    zt_added_set *set = &tokenizer->added;
    zt_tj_work work;
    zt_status status = ZT_OK;
    zt_tj_work_init(&work, tokenizer, NULL, NULL);
    for (size_t i = 0; !status && i < set->count; i++) {
        zt_added *added = &set->token[i];
        status = normalize_content(reader, tokenizer, &work, added);
        zt_trie **trie = added->normalized ? &set->normal : &set->raw;
        if (!status && !*trie && !(*trie = zt_trie_new(tokenizer->ctx))) status = ZT_ENOMEM;
        if (!status) status = zt_trie_put(*trie, added->shown, (int32_t)i);
    }
    zt_tj_work_fini(&work);
    return status;
}

zt_status zt_added_read(zt_tj_reader *reader, const json_t *root, zt_tj *tokenizer)
{
    const json_t *list = json_object_get(root, "added_tokens");
    size_t count = json_array_size(list);
    reader->where = "added_tokens";
    if (!list || json_is_null(list)) return ZT_OK;
    if (!json_is_array(list) || count > INT32_MAX / 8)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: 'added_tokens' is not an array, or is too long", reader->file);
    tokenizer->added.token = zt_calloc(reader->ctx, count, sizeof *tokenizer->added.token);
    zt_status status = tokenizer->added.token ? ZT_OK : ZT_ENOMEM;
    for (size_t i = 0; !status && i < count; i++)
        status = read_token(reader, json_array_get(list, i), &tokenizer->added.token[i]);
    if (!status) status = give_ids(tokenizer, &tokenizer->added, count);
    return status ? status : fill_tries(reader, tokenizer);
}

void zt_added_free(zt_ctx *ctx, zt_added_set *set)
{
    zt_trie_free(set->raw);
    zt_trie_free(set->normal);
    zt_free(ctx, set->token);
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The longest token that begins at f->at; *end is where it ends. */
static const zt_added *longest_token(const zt_added_finder *finder, size_t *end)
{
    const zt_added *best = NULL;
    uint32_t node = ZT_TRIE_ROOT;
    for (size_t i = finder->position; i < finder->size; i++) {
        node = zt_trie_step(finder->trie, node, (unsigned char)finder->text[i]);
        if (node == ZT_TRIE_NONE) break;
        if (zt_trie_value(finder->trie, node) >= 0) {
            best = &finder->tokenizer->added.token[zt_trie_value(finder->trie, node)];
            *end = i + 1;
        }
    }
    return best;
}

/* Where the character before text[at] begins. */
static size_t char_before(const char *text, size_t offset)
{
    do offset--;
    while (offset && ((unsigned char)text[offset] & 0xc0) == 0x80);
    return offset;
}

static bool is_single_word(const zt_added_finder *finder, size_t from, size_t to)
{
    size_t left = from ? char_before(finder->text, from) : 0, right = to;
    return !(from && zt_char_word(zt_char_next(finder->text, finder->size, &left))) &&
           !(to < finder->size && zt_char_word(zt_char_next(finder->text, finder->size, &right)));
}

/* Start of the white space before `from`, not before text that was handled already. */
static size_t strip_left(const zt_added_finder *finder, size_t from)
{
    while (from > finder->done) {
        size_t before = char_before(finder->text, from), next = before;
        if (!zt_char_space(zt_char_next(finder->text, finder->size, &next))) break;
        from = before;
    }
    return from > finder->done ? from : finder->done;
}

static size_t strip_right(const zt_added_finder *finder, size_t to)
{
    for (size_t i = to; i < finder->size && zt_char_space(zt_char_next(finder->text, finder->size, &i));) to = i;
    return to;
}

const zt_added *zt_added_next(zt_added_finder *finder, size_t *from, size_t *to)
{
    while (finder->trie && finder->position < finder->size) {
        size_t begin = finder->position, end = 0;
        const zt_added *added = longest_token(finder, &end);
        finder->position = added ? end : finder->position + 1;
        if (!added || (added->special && !finder->special) || (added->single_word && !is_single_word(finder, begin, end)))
            continue;
        *from = added->lstrip ? strip_left(finder, begin) : begin;
        *to = added->rstrip ? strip_right(finder, end) : end;
        return added;
    }
    return NULL;
}
