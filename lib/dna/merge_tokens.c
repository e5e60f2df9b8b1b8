/* merge_tokens.c - owns the tokenizer in the metadata of a merge's child: that of the first parent or of another model, with
 * the tokens that the recipe adds, or cut to the rows that the embedding has.
 */
#include "lib/dna/merge_internal.h"
#include "lib/io/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(name)  "tokenizer.ggml." name
#define KEY_JSON   "tokenizer.huggingface.json"
#define KEY_PIECES "zt.tokenizer.sentencepiece"

enum { HEAD = 12 }; /* kind and count before an array's elements */
enum { TYPE_NORMAL = 1, TYPE_CONTROL = 3, TYPE_USER = 4, TYPE_UNUSED = 5, TYPE_BYTE = 6 };

static bool starts_with(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

static bool is_tokenizer(const zt_meta_item *item)
{
    return starts_with(item->key.data, "tokenizer.") || starts_with(item->key.data, "zt.tokenizer.");
}

static const zt_meta_item *find_item(const zt_meta *meta, const char *key) { return zt_meta_get(meta, zt_meta_find(meta, key)); }

/* The elements of an array of `count` numbers of four bytes each, of that kind; NULL: there is none. */
static const char *find_numbers(const zt_meta *meta, const char *key, bool reals, uint64_t count)
{
    const zt_meta_item *item = find_item(meta, key);
    zt_gguf_kind kind;
    uint64_t found;
    if (!item || !zt_meta_array(item, &kind, &found) || found < count) return NULL;
    return (reals ? kind == ZT_GGUF_F32 : kind == ZT_GGUF_I32 || kind == ZT_GGUF_U32) ? item->value + HEAD : NULL;
}

static zt_status put_numbers(zt_meta *meta, const char *key, zt_gguf_kind kind, const void *numbers, int64_t count)
{
    zt_str out;
    uint32_t element_kind = (uint32_t)kind;
    uint64_t element_count = (uint64_t)count;
    zt_str_init(&out, zt_meta_ctx(meta));
    zt_status status = zt_str_put(&out, &element_kind, sizeof element_kind);
    if (status == ZT_OK) status = zt_str_put(&out, &element_count, sizeof element_count);
    if (status == ZT_OK) status = zt_str_put(&out, numbers, (size_t)count * 4);
    if (status == ZT_OK) status = zt_meta_put(meta, key, ZT_GGUF_ARRAY, out.data, out.len);
    zt_str_fini(&out);
    return status;
}

/* Where the model's keys have the number of tokens, it is the child's. */
static zt_status put_size(zt_merge *merge, int64_t rows)
{
    char key[160];
    const zt_meta_item *item = find_item(merge->meta, "general.architecture");
    zt_bytes arch = item ? zt_meta_text(item) : (zt_bytes){NULL, 0};
    if (!arch.data || arch.n > 64) return ZT_OK;
    snprintf(key, sizeof key, "%.*s.vocab_size", (int)arch.n, arch.data);
    return zt_meta_find(merge->meta, key) < 0 ? ZT_OK : zt_meta_put_u32(merge->meta, key, (uint32_t)rows);
}

/* ---- more tokens ----------------------------------------------------------------------------- */

/* The type of a token as its model has it; a token of the recipe's is the user's. */
static int32_t type_of(const zt_merge *merge, int64_t token)
{
    const merge_token *row = &merge->vocab->tokens[token];
    int32_t type = TYPE_NORMAL;
    if (token >= merge->vocab->count) return TYPE_UNUSED;
    if (row->model < 0) return TYPE_USER;
    const char *types =
        find_numbers(zt_checkpoint_meta(merge->parents[row->model].model), KEY("token_type"), false, (uint64_t)row->id + 1);
    if (types) memcpy(&type, types + (size_t)row->id * sizeof type, sizeof type);
    return type;
}

static float score_of(const zt_merge *merge, int64_t token)
{
    const merge_token *row = &merge->vocab->tokens[token];
    float score = token < merge->vocab->count && row->model >= 0 ? 0 : -1000; /* llama.cpp's of tokens that fill rows */
    if (token >= merge->vocab->count || row->model < 0) return score;
    const char *scores =
        find_numbers(zt_checkpoint_meta(merge->parents[row->model].model), KEY("scores"), true, (uint64_t)row->id + 1);
    if (scores) memcpy(&score, scores + (size_t)row->id * sizeof score, sizeof score);
    return score;
}

static zt_status put_texts(zt_merge *merge)
{
    const merge_vocab *vocab = merge->vocab;
    zt_bytes *texts = zt_alloc_array(merge->ctx, (size_t)vocab->row_count, sizeof *texts);
    zt_status status = texts ? ZT_OK : ZT_ENOMEM;
    for (int64_t token = 0; token < vocab->row_count && status == ZT_OK; token++) {
        char filler[40];
        if (token < vocab->count) {
            texts[token] = vocab->tokens[token].text;
            continue;
        }
        size_t length = (size_t)snprintf(filler, sizeof filler, "[PAD%" PRId64 "]", token);
        texts[token] = (zt_bytes){zt_arena_strndup(merge->arena, filler, length), length};
        status = texts[token].data ? ZT_OK : ZT_ENOMEM;
    }
    if (status == ZT_OK) status = zt_meta_put_strs(merge->meta, KEY("tokens"), texts, vocab->row_count);
    zt_free(merge->ctx, texts);
    return status;
}

static zt_status put_types_and_scores(zt_merge *merge)
{
    const int64_t count = merge->vocab->row_count;
    int32_t *types = zt_alloc_array(merge->ctx, (size_t)count, sizeof *types);
    float *scores = types ? zt_alloc_array(merge->ctx, (size_t)count, sizeof *scores) : NULL;
    zt_status status = scores ? ZT_OK : ZT_ENOMEM;
    for (int64_t token = 0; token < count && status == ZT_OK; token++) {
        types[token] = type_of(merge, token);
        scores[token] = score_of(merge, token);
    }
    if (status == ZT_OK) status = put_numbers(merge->meta, KEY("token_type"), ZT_GGUF_I32, types, count);
    if (status == ZT_OK && zt_meta_find(merge->meta, KEY("scores")) >= 0)
        status = put_numbers(merge->meta, KEY("scores"), ZT_GGUF_F32, scores, count);
    zt_free(merge->ctx, types);
    zt_free(merge->ctx, scores);
    return status;
}

/* Adds one token to a tokenizer.json: a text to its vocabulary, where no merge makes it; another to its added tokens. */
static bool add_to_json(zt_merge *merge, json_t *document, int64_t token)
{
    json_t *texts = json_object_get(json_object_get(document, "model"), "vocab"),
           *added = json_object_get(document, "added_tokens");
    const zt_bytes text = merge->vocab->tokens[token].text;
    int32_t type = type_of(merge, token);
    if ((type == TYPE_NORMAL || type == TYPE_BYTE) && json_is_object(texts))
        return !json_object_setn_new(texts, text.data, text.n, json_integer(token));
    json_t *entry = json_pack("{s:I, s:s%, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)token, "content", text.data, text.n,
                              "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", type == TYPE_CONTROL);
    return !json_array_append_new(added, entry);
}

static zt_status extend_json(zt_merge *merge)
{
    const merge_vocab *vocab = merge->vocab;
    const zt_meta_item *item = find_item(merge->meta, KEY_JSON);
    zt_bytes text = item ? zt_meta_text(item) : (zt_bytes){NULL, 0};
    if (!text.data || vocab->count == vocab->kept) return ZT_OK;
    json_t *document = zt_json_load(merge->ctx, zt_checkpoint_name(merge->parents[vocab->from].model), text.data, text.n);
    if (!document) return zt_ctx_status(merge->ctx);
    if (!json_object_get(document, "added_tokens")) json_object_set_new(document, "added_tokens", json_array());
    bool good = true;
    for (int64_t token = vocab->kept; token < vocab->count && good; token++) good = add_to_json(merge, document, token);
    char *dumped = good ? json_dumps(document, JSON_COMPACT) : NULL;
    json_decref(document);
    zt_status status = dumped ? zt_meta_put_str(merge->meta, KEY_JSON, dumped, strlen(dumped))
                              : zt_fail(merge->ctx, ZT_ENOMEM, "out of memory (tokenizer.json)");
    free(dumped);
    return status;
}

/* ---- fewer tokens ---------------------------------------------------------------------------- */

/* Every key that names a token must name one that is left; padding is not needed. */
static zt_status check_ids(zt_merge *merge, int64_t count)
{
    static const char end[] = "_token_id";
    for (int64_t i = zt_meta_count(merge->meta) - 1; i >= 0; i--) {
        const zt_meta_item *item = zt_meta_get(merge->meta, i);
        uint32_t id;
        if (!starts_with(item->key.data, KEY("")) || item->key.n < sizeof end || item->bytes != sizeof id ||
            strcmp(item->key.data + item->key.n - (sizeof end - 1), end))
            continue;
        memcpy(&id, item->value, sizeof id);
        if (id < (uint64_t)count) continue;
        if (strcmp(item->key.data, KEY("padding_token_id")))
            return zt_fail(merge->ctx, ZT_EDATA,
                           "%s: '%s' is %" PRIu32 ", but the embeddings are cut to %" PRId64
                           " rows: make the model with fewer tokens the base_model",
                           zt_checkpoint_name(merge->parents[zt_recipe_first(merge->recipe)].model), item->key.data, id, count);
        zt_meta_remove(merge->meta, i);
    }
    return ZT_OK;
}

/* The merges whose parts and result are not among the tokens that go. */
static zt_status cut_merges(zt_merge *merge, const zt_map *gone)
{
    const zt_meta_item *item = find_item(merge->meta, KEY("merges"));
    zt_gguf_kind kind;
    uint64_t count;
    int64_t left = 0;
    size_t offset = 0;
    if (!item || !zt_meta_array(item, &kind, &count) || kind != ZT_GGUF_STR) return ZT_OK;
    zt_bytes *texts = zt_alloc_array(merge->ctx, (size_t)count + 1, sizeof *texts);
    zt_str joined;
    zt_str_init(&joined, merge->ctx);
    zt_status status = texts ? ZT_OK : ZT_ENOMEM;
    for (zt_bytes text; status == ZT_OK && (text = zt_meta_next_str(item, &offset)).data;) {
        const char *space = text.n > 1 ? memchr(text.data + 1, ' ', text.n - 1) : NULL;
        size_t first = space ? (size_t)(space - text.data) : text.n;
        zt_str_clear(&joined);
        status = zt_str_put(&joined, text.data, first);
        if (status == ZT_OK && space) status = zt_str_put(&joined, space + 1, text.n - first - 1);
        if (status == ZT_OK && !zt_map_get(gone, joined.data, joined.len, NULL) && !zt_map_get(gone, text.data, first, NULL) &&
            !(space && zt_map_get(gone, space + 1, text.n - first - 1, NULL)))
            texts[left++] = text;
    }
    if (status == ZT_OK) status = zt_meta_put_strs(merge->meta, KEY("merges"), texts, left);
    zt_str_fini(&joined);
    zt_free(merge->ctx, texts);
    return status;
}

static zt_status cut_texts(zt_merge *merge, int64_t count)
{
    const zt_meta_item *list = find_item(merge->meta, KEY("tokens"));
    zt_bytes *texts = zt_alloc_array(merge->ctx, (size_t)count, sizeof *texts);
    zt_map *gone = texts ? zt_map_new(merge->ctx, 64) : NULL;
    size_t offset = 0;
    zt_status status = gone ? ZT_OK : ZT_ENOMEM;
    for (int64_t token = 0; status == ZT_OK; token++) {
        zt_bytes text = zt_meta_next_str(list, &offset);
        if (!text.data) break;
        if (token < count)
            texts[token] = text;
        else
            status = zt_map_put(gone, text.data, text.n, token);
    }
    if (status == ZT_OK) status = cut_merges(merge, gone); /* before the texts are replaced, which the map borrows */
    list = find_item(merge->meta, KEY("tokens"));
    offset = 0;
    for (int64_t token = 0; token < count && status == ZT_OK; token++) texts[token] = zt_meta_next_str(list, &offset);
    if (status == ZT_OK) status = zt_meta_put_strs(merge->meta, KEY("tokens"), texts, count);
    zt_map_free(gone);
    zt_free(merge->ctx, texts);
    return status;
}

static zt_status cut_numbers(zt_merge *merge, const char *key, bool reals, int64_t count)
{
    const char *numbers = find_numbers(merge->meta, key, reals, (uint64_t)count);
    if (!numbers) return ZT_OK;
    char *copy = zt_alloc_array(merge->ctx, (size_t)count, 4);
    if (!copy) return ZT_ENOMEM;
    memcpy(copy, numbers, (size_t)count * 4);
    zt_status status = put_numbers(merge->meta, key, reals ? ZT_GGUF_F32 : ZT_GGUF_I32, copy, count);
    zt_free(merge->ctx, copy);
    return status;
}

/* The rows of the child's embedding; -1: it has none that was cut. */
static int64_t count_cut_rows(const zt_merge *merge)
{
    for (int64_t i = 0; i < merge->job_count; i++)
        if (merge->jobs[i].rows && !merge->jobs[i].head) return merge->jobs[i].rows->count;
    return -1;
}

static zt_status cut_tokens(zt_merge *merge)
{
    const int64_t rows = count_cut_rows(merge);
    const zt_meta_item *list = find_item(merge->meta, KEY("tokens"));
    const char *name = zt_checkpoint_name(merge->parents[zt_recipe_first(merge->recipe)].model);
    zt_gguf_kind kind;
    uint64_t count;
    if (rows < 0 || !list || !zt_meta_array(list, &kind, &count) || kind != ZT_GGUF_STR || count <= (uint64_t)rows)
        return rows < 0 ? ZT_OK : put_size(merge, rows);
    if (zt_meta_find(merge->meta, KEY_JSON) >= 0 || zt_meta_find(merge->meta, KEY_PIECES) >= 0)
        return zt_fail(merge->ctx, ZT_ENOTSUP,
                       "%s: the tokenizer of %" PRIu64 " tokens is kept whole and cannot be cut to %" PRId64
                       ": make the model with fewer tokens the base_model",
                       name, count, rows);
    zt_status status = check_ids(merge, rows);
    if (status == ZT_OK) status = cut_texts(merge, rows);
    if (status == ZT_OK) status = cut_numbers(merge, KEY("token_type"), false, rows);
    if (status == ZT_OK) status = cut_numbers(merge, KEY("scores"), true, rows);
    return status == ZT_OK ? put_size(merge, rows) : status;
}

/* ---- the tokenizer --------------------------------------------------------------------------- */

/* In the place of the first parent's. */
static zt_status take_tokenizer(zt_merge *merge, int from)
{
    const zt_meta *other = zt_checkpoint_meta(merge->parents[from].model);
    zt_status status = ZT_OK;
    for (int64_t i = zt_meta_count(merge->meta) - 1; i >= 0; i--)
        if (is_tokenizer(zt_meta_get(merge->meta, i))) zt_meta_remove(merge->meta, i);
    for (int64_t i = 0; i < zt_meta_count(other) && status == ZT_OK; i++) {
        const zt_meta_item *item = zt_meta_get(other, i);
        if (is_tokenizer(item)) status = zt_meta_put(merge->meta, item->key.data, item->kind, item->value, item->bytes);
    }
    return status;
}

zt_status zt_merge_put_tokenizer(zt_merge *merge)
{
    const int from = merge->recipe->tokens_from;
    zt_status status = ZT_OK;
    if (from >= 0 && from != zt_recipe_first(merge->recipe)) status = take_tokenizer(merge, from);
    if (status != ZT_OK || (!merge->vocab && !merge->recipe->rectifies)) return status;
    if (!merge->vocab) return cut_tokens(merge);
    status = put_texts(merge);
    if (status == ZT_OK) status = put_types_and_scores(merge);
    if (status == ZT_OK) status = extend_json(merge);
    return status == ZT_OK ? put_size(merge, merge->vocab->row_count) : status;
}
