/* merge_vocab.c - owns the tokens of a merge's child where the models' tokens differ: which there are, and for each the row
 * of an embedding or head that each model gives.
 *
 * The rules are mergekit's (0.1.5, tokenizer/build.py and embed.py, as facts). A model that has a token gives its row. For
 * one that has not, it is the row of the only model that has it, or else of the base, or else the mean of those that have it;
 * zeros where none has it. The recipe's tokens say otherwise. New tokens follow those of the tokenizer's source in the order
 * of the models: first those of text, then those that are not made from text (mergekit's order of the former is random).
 */
#include "lib/dna/merge_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name
#define KEY_JSON  "tokenizer.huggingface.json"

enum { TYPE_NORMAL = 1, TYPE_UNUSED = 5, TYPE_BYTE = 6, MOST_TOKENS = INT32_MAX / 8 };

static const zt_meta_item *find_item(const zt_merge *merge, int model, const char *key)
{
    const zt_meta *meta = zt_checkpoint_meta(merge->parents[model].model);
    return zt_meta_get(meta, zt_meta_find(meta, key));
}

const zt_meta_item *zt_merge_token_list(const zt_merge *merge, int model)
{
    const zt_meta_item *item = find_item(merge, model, KEY("tokens"));
    zt_gguf_kind kind;
    uint64_t count;
    return item && zt_meta_array(item, &kind, &count) && kind == ZT_GGUF_STR && count && count < MOST_TOKENS ? item : NULL;
}

static bool same_tokens(const zt_merge *merge, int left, int right)
{
    const zt_meta_item *first = zt_merge_token_list(merge, left), *second = zt_merge_token_list(merge, right);
    return first && second && first->bytes == second->bytes && !memcmp(first->value, second->value, first->bytes);
}

/* ---- the child's tokens ---------------------------------------------------------------------- */

static zt_status add_token(zt_merge *merge, merge_token token)
{
    merge_vocab *vocab = merge->vocab;
    if (vocab->count == vocab->capacity) {
        int64_t more = vocab->capacity ? 2 * vocab->capacity : 4096;
        merge_token *grown = zt_realloc(merge->ctx, vocab->tokens, (size_t)more * sizeof *grown);
        if (!grown) return ZT_ENOMEM;
        vocab->tokens = grown;
        vocab->capacity = more;
    }
    vocab->tokens[vocab->count++] = token;
    return ZT_OK;
}

/* The type of a model's token, of `count`; TYPE_NORMAL where types are not said. */
static int32_t read_type(const zt_meta_item *types, uint64_t count, int64_t id)
{
    enum { HEAD = 12 }; /* kind and count before an array's elements */
    zt_gguf_kind kind;
    uint64_t type_count;
    int32_t type = TYPE_NORMAL;
    if (types && zt_meta_array(types, &kind, &type_count) && (kind == ZT_GGUF_I32 || kind == ZT_GGUF_U32) && type_count == count)
        memcpy(&type, types->value + HEAD + (size_t)id * sizeof type, sizeof type);
    return type;
}

/* Adds the tokens of a model that the child does not have: those of text, or the others. Unused tokens only fill rows. */
static zt_status add_model(zt_merge *merge, zt_map *known, int model, bool of_text)
{
    const zt_meta_item *list = zt_merge_token_list(merge, model), *types = find_item(merge, model, KEY("token_type"));
    zt_gguf_kind kind;
    uint64_t count = 0;
    size_t offset = 0;
    zt_status status = ZT_OK;
    if (list) zt_meta_array(list, &kind, &count);
    for (int64_t id = 0; id < (int64_t)count && status == ZT_OK; id++) {
        zt_bytes text = zt_meta_next_str(list, &offset);
        int32_t type = read_type(types, count, id);
        if (type == TYPE_UNUSED || (type == TYPE_NORMAL || type == TYPE_BYTE) != of_text ||
            zt_map_get(known, text.data, text.n, NULL))
            continue;
        status = zt_map_put(known, text.data, text.n, merge->vocab->count);
        if (status == ZT_OK) status = add_token(merge, (merge_token){.text = text, .model = model, .id = (int32_t)id});
    }
    return status;
}

static zt_status add_settings(zt_merge *merge, zt_map *known)
{
    const zt_recipe *recipe = merge->recipe;
    zt_status status = ZT_OK;
    for (int i = 0; i < recipe->token_count && status == ZT_OK; i++) {
        const recipe_token *setting = &recipe->tokens[i];
        zt_bytes text = {setting->text, strlen(setting->text)};
        int64_t id;
        if (zt_map_get(known, text.data, text.n, &id)) {
            merge->vocab->tokens[id].setting = setting;
            continue;
        }
        status = zt_map_put(known, text.data, text.n, merge->vocab->count);
        if (status == ZT_OK) status = add_token(merge, (merge_token){.text = text, .model = -1, .id = -1, .setting = setting});
    }
    return status;
}

static zt_status list_tokens(zt_merge *merge)
{
    merge_vocab *vocab = merge->vocab;
    const zt_meta_item *list = zt_merge_token_list(merge, vocab->from);
    size_t offset = 0;
    zt_status status = ZT_OK;
    zt_map *known = zt_map_new(merge->ctx, 4096);
    if (!known) return ZT_ENOMEM;
    for (zt_bytes text; status == ZT_OK && (text = zt_meta_next_str(list, &offset)).data;) {
        if (!zt_map_get(known, text.data, text.n, NULL)) status = zt_map_put(known, text.data, text.n, vocab->count);
        if (status == ZT_OK)
            status = add_token(merge, (merge_token){.text = text, .model = vocab->from, .id = (int32_t)vocab->count});
    }
    vocab->kept = vocab->count;
    for (int pass = 0; pass < 2 && merge->recipe->tokens_from == TOKENS_UNION; pass++)
        for (int model = 0; model < merge->recipe->model_count && status == ZT_OK; model++)
            status = add_model(merge, known, model, pass == 0);
    if (status == ZT_OK) status = add_settings(merge, known);
    zt_map_free(known);
    const int64_t multiple = merge->recipe->pad_to_multiple ? merge->recipe->pad_to_multiple : 1;
    vocab->row_count = (vocab->count + multiple - 1) / multiple * multiple;
    if (status == ZT_OK && vocab->row_count > MOST_TOKENS)
        status = zt_fail(merge->ctx, ZT_EDATA, "%s: %" PRId64 " tokens: at most %d are supported", merge->recipe->name,
                         vocab->row_count, MOST_TOKENS);
    return status;
}

/* ---- the models' tokens ---------------------------------------------------------------------- */

/* The model whose tokens count for this one: itself, or the first where it has none, as in mergekit. */
static int find_lister(const zt_merge *merge, int model)
{
    if (zt_merge_token_list(merge, model)) return model;
    int first = zt_recipe_first(merge->recipe);
    return zt_merge_token_list(merge, first) ? first : merge->vocab->from;
}

static zt_status map_model(zt_merge *merge, int model)
{
    const zt_meta_item *list = zt_merge_token_list(merge, model);
    size_t offset = 0;
    zt_status status = ZT_OK;
    int32_t id = 0;
    zt_map *map = merge->vocab->maps[model] = zt_map_new(merge->ctx, 4096);
    if (!map) return ZT_ENOMEM;
    for (zt_bytes text; status == ZT_OK && (text = zt_meta_next_str(list, &offset)).data; id++)
        if (!zt_map_get(map, text.data, text.n, NULL)) status = zt_map_put(map, text.data, text.n, id);
    return status;
}

static zt_status list_ids(zt_merge *merge, int model)
{
    merge_vocab *vocab = merge->vocab;
    int lister = find_lister(merge, model);
    zt_status status = vocab->maps[lister] ? ZT_OK : map_model(merge, lister);
    vocab->ids[model] = zt_arena_alloc(merge->arena, (size_t)vocab->count * sizeof **vocab->ids);
    if (status != ZT_OK || !vocab->ids[model]) return ZT_ENOMEM;
    bool same = same_tokens(merge, lister, vocab->from); /* then also where a text occurs twice */
    for (int64_t i = 0; i < vocab->count; i++) {
        int64_t id = same && i < vocab->kept ? i : -1;
        if (id < 0) zt_map_get(vocab->maps[lister], vocab->tokens[i].text.data, vocab->tokens[i].text.n, &id);
        vocab->ids[model][i] = (int32_t)id;
    }
    return ZT_OK;
}

/* Texts of tokens of different kinds of tokenizers are not comparable. */
static zt_status check_kind(const zt_merge *merge, int model)
{
    const zt_meta_item *first = find_item(merge, merge->vocab->from, KEY("model")),
                       *other = find_item(merge, model, KEY("model"));
    zt_bytes first_kind = first ? zt_meta_text(first) : (zt_bytes){"", 0}, other_kind = other ? zt_meta_text(other) : first_kind;
    char shown_first[60], shown_other[60];
    if (first_kind.n == other_kind.n && (!first_kind.n || !memcmp(first_kind.data, other_kind.data, first_kind.n))) return ZT_OK;
    return zt_fail(merge->ctx, ZT_EDATA, "%s: the tokenizer is of kind '%s', but that of %s is '%s': use zt-dna transplant first",
                   zt_checkpoint_name(merge->parents[model].model),
                   zt_escape(shown_other, sizeof shown_other, other_kind.data, other_kind.n),
                   zt_checkpoint_name(merge->parents[merge->vocab->from].model),
                   zt_escape(shown_first, sizeof shown_first, first_kind.data, first_kind.n));
}

/* Some tokenizers are only in a tokenizer.json that is kept whole, without a list of tokens: they may only be the same. */
static zt_status check_whole(const zt_merge *merge, int from)
{
    for (int model = 0; model < merge->recipe->model_count; model++) {
        const zt_meta_item *own = find_item(merge, model, KEY_JSON), *other = find_item(merge, from, KEY_JSON);
        if (!own || zt_merge_token_list(merge, model)) continue;
        if (other && own->bytes == other->bytes && !memcmp(own->value, other->value, own->bytes) && !merge->recipe->token_count &&
            !merge->recipe->pad_to_multiple)
            continue;
        return zt_fail(merge->ctx, ZT_ENOTSUP, "%s: the tokenizer is kept whole as '%s': its tokens cannot be aligned",
                       zt_checkpoint_name(merge->parents[model].model), KEY_JSON);
    }
    return ZT_OK;
}

/* Is there nothing to align: all models that list their tokens have those of the child? */
static bool is_aligned(const zt_merge *merge, int from)
{
    bool aligned = !merge->recipe->token_count && !merge->recipe->pad_to_multiple;
    for (int model = 0; model < merge->recipe->model_count && aligned; model++)
        aligned = !zt_merge_token_list(merge, model) || !zt_merge_token_list(merge, from) || same_tokens(merge, model, from);
    return aligned;
}

zt_status zt_merge_vocab_plan(zt_merge *merge)
{
    const zt_recipe *recipe = merge->recipe;
    int from = recipe->tokens_from >= 0 ? recipe->tokens_from : zt_recipe_first(recipe);
    zt_status status = recipe->aligns ? check_whole(merge, from) : ZT_OK;
    if (status != ZT_OK || !recipe->aligns || is_aligned(merge, from)) return status;
    if (!zt_merge_token_list(merge, from))
        return zt_fail(merge->ctx, ZT_EDATA, "%s: no list of tokens, which the recipe's tokenizer needs",
                       zt_checkpoint_name(merge->parents[from].model));
    merge_vocab *vocab = merge->vocab = zt_calloc(merge->ctx, 1, sizeof *vocab);
    if (!vocab) return ZT_ENOMEM;
    vocab->from = from;
    vocab->ids = zt_arena_alloc(merge->arena, (size_t)recipe->model_count * sizeof *vocab->ids);
    vocab->maps = zt_calloc(merge->ctx, (size_t)recipe->model_count, sizeof(zt_map *));
    status = vocab->ids && vocab->maps ? ZT_OK : ZT_ENOMEM;
    for (int model = 0; model < recipe->model_count && status == ZT_OK; model++)
        if (zt_merge_token_list(merge, model)) status = check_kind(merge, model);
    if (status == ZT_OK) status = list_tokens(merge);
    for (int model = 0; model < recipe->model_count && status == ZT_OK; model++) status = list_ids(merge, model);
    return status;
}

void zt_merge_vocab_free(zt_merge *merge)
{
    if (!merge->vocab) return;
    for (int model = 0; merge->vocab->maps && model < merge->recipe->model_count; model++) zt_map_free(merge->vocab->maps[model]);
    zt_free(merge->ctx, merge->vocab->maps);
    zt_free(merge->ctx, merge->vocab->tokens);
    zt_free(merge->ctx, merge->vocab);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A tensor at work. */
typedef struct row_finder {
    const zt_merge *merge;
    const merge_job *job;
    merge_rows *rows;
    int64_t without; /* tokens that no source has */
} row_finder;

static int find_source(const merge_slice *slice, int model)
{
    int k = 0;
    while (k < slice->source_count && slice->sources[k].model != model) k++;
    return k < slice->source_count ? k : -1;
}

/* The source's row of a token; -1: it has none. */
static int32_t own_row(const row_finder *finder, int source, int64_t token)
{
    int32_t id = finder->merge->vocab->ids[finder->job->slice->sources[source].model][token];
    return id < finder->rows->stored[source].type.dim[0] ? id : -1;
}

static zt_status fail_token(const row_finder *finder, const recipe_token *setting, const char *what, int model)
{
    char shown[80];
    return zt_fail(finder->merge->ctx, ZT_EDATA, "%s: token '%s': %s %s", finder->merge->recipe->name,
                   zt_escape(shown, sizeof shown, setting->text, strlen(setting->text)), what,
                   model < 0 ? "" : zt_checkpoint_name(finder->merge->parents[model].model));
}

/* The row that the recipe's setting says. */
static zt_status find_set_row(const row_finder *finder, const recipe_token *setting, int64_t token, merge_row *row)
{
    const merge_vocab *vocab = finder->merge->vocab;
    *row = (merge_row){ROW_ZERO, 0};
    if (setting->kind == TOKEN_ZERO) return ZT_OK;
    if (setting->kind == TOKEN_UNSET) return fail_token(finder, setting, "not every model has it: expected the key 'source'", -1);
    int source = find_source(finder->job->slice, setting->model);
    if (source < 0) return fail_token(finder, setting, "its source is not merged into this tensor:", setting->model);
    int64_t id = setting->id;
    if (setting->kind == TOKEN_MODEL) id = own_row(finder, source, token);
    if (setting->name)
        zt_map_get(vocab->maps[find_lister(finder->merge, setting->model)], setting->name, strlen(setting->name), &id);
    if (id < 0 || id >= finder->rows->stored[source].type.dim[0])
        return fail_token(finder, setting, "its source has no such token:", setting->model);
    *row = (merge_row){source, (int32_t)id};
    return ZT_OK;
}

/* The row for sources that do not have the token. */
static merge_row find_usual_row(row_finder *finder, int64_t token)
{
    const merge_slice *slice = finder->job->slice;
    int count = 0, last = -1;
    for (int source = 0; source < slice->source_count; source++)
        if (own_row(finder, source, token) >= 0) count++, last = source;
    finder->without += count == 0;
    if (count > 1 && slice->base_index >= 0 && own_row(finder, slice->base_index, token) >= 0)
        last = slice->base_index;
    else if (count != 1)
        return (merge_row){count ? ROW_MEAN : ROW_ZERO, 0};
    return (merge_row){last, own_row(finder, last, token)};
}

static zt_status find_token_rows(row_finder *finder, int64_t token)
{
    const merge_slice *slice = finder->job->slice;
    const recipe_token *setting = finder->merge->vocab->tokens[token].setting;
    merge_rows *rows = finder->rows;
    merge_row usual = {ROW_ZERO, 0};
    bool all = !(setting && setting->force);
    for (int source = 0; source < slice->source_count; source++) all = all && own_row(finder, source, token) >= 0;
    zt_status status = all || !setting ? ZT_OK : find_set_row(finder, setting, token, &usual);
    if (!all && !setting) usual = find_usual_row(finder, token);
    for (int source = 0; source < slice->source_count && status == ZT_OK; source++) {
        int32_t own = own_row(finder, source, token);
        merge_row *row = &rows->from[source][token];
        *row = own >= 0 && !(setting && setting->force) ? (merge_row){source, own} : usual;
        rows->decoded[source] = rows->decoded[source] || row->source == ROW_MEAN ||
                                (row->source >= 0 && rows->stored[row->source].type.dtype != rows->stored[source].type.dtype);
    }
    return status;
}

zt_status zt_merge_vocab_rows(const zt_merge *merge, const merge_job *job, merge_rows *rows)
{
    const merge_vocab *vocab = merge->vocab;
    row_finder finder = {.merge = merge, .job = job, .rows = rows};
    const int source_count = job->slice->source_count;
    zt_status status = ZT_OK;
    rows->count = vocab->row_count;
    rows->from = zt_arena_alloc(merge->arena, (size_t)source_count * sizeof *rows->from);
    for (int source = 0; rows->from && source < source_count; source++)
        if (!(rows->from[source] = zt_arena_alloc(merge->arena, (size_t)rows->count * sizeof **rows->from))) return ZT_ENOMEM;
    for (int64_t token = 0; rows->from && token < vocab->count && status == ZT_OK; token++)
        status = find_token_rows(&finder, token);
    for (int source = 0; rows->from && source < source_count && rows->count > vocab->count; source++) {
        for (int64_t row = vocab->count; row < rows->count; row++) rows->from[source][row] = (merge_row){ROW_PAD, 0};
        rows->decoded[source] = true;
    }
    if (status == ZT_OK && finder.without)
        zt_log(merge->ctx, ZT_LOG_WARN, "'%s': %" PRId64 " tokens have no row in any source: they get zeros", job->entry.name,
               finder.without);
    return rows->from ? status : ZT_ENOMEM;
}
