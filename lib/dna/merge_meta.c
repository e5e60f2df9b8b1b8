/* merge_meta.c - owns what the child says of itself: the first parent's metadata, with the
 * tokenizer and the number of layers that the recipe gives it, and where it comes from.
 */
#include "lib/dna/merge_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- layers ---------------------------------------------------------------------------------- */

static size_t element_size(zt_gguf_kind kind)
{
    static const size_t sizes[] = {
        [ZT_GGUF_U8] = 1,  [ZT_GGUF_I8] = 1,   [ZT_GGUF_U16] = 2, [ZT_GGUF_I16] = 2, [ZT_GGUF_U32] = 4, [ZT_GGUF_I32] = 4,
        [ZT_GGUF_F32] = 4, [ZT_GGUF_BOOL] = 1, [ZT_GGUF_U64] = 8, [ZT_GGUF_I64] = 8, [ZT_GGUF_F64] = 8};
    return kind < sizeof sizes / sizeof *sizes ? sizes[kind] : 0;
}

enum { HEAD = 12 }; /* kind and count before an array's elements */

/* The elements that the slice's layers have in their own model. */
static zt_status put_slice(const zt_merge *merge, const merge_slice *slice, const char *key, zt_gguf_kind kind, zt_str *out)
{
    const merge_source *source = &slice->sources[slice->base_index >= 0 ? slice->base_index : 0];
    const zt_meta *meta = zt_checkpoint_meta(merge->parents[source->model].model);
    int64_t i = zt_meta_find(meta, key), end = source->end_layer < 0 ? merge->layer_counts[source->model] : source->end_layer;
    const zt_meta_item *item = i >= 0 ? zt_meta_get(meta, i) : NULL;
    zt_gguf_kind element_kind;
    uint64_t count;
    size_t size = element_size(kind);
    if (!item || !zt_meta_array(item, &element_kind, &count) || element_kind != kind || count < (uint64_t)end)
        return zt_fail(merge->ctx, ZT_EDATA, "%s: missing per-layer array '%s', which other sources have",
                       zt_checkpoint_name(merge->parents[source->model].model), key);
    return zt_str_put(out, item->value + HEAD + (size_t)source->first_layer * size, (size_t)(end - source->first_layer) * size);
}

static zt_status restack_array(zt_merge *merge, const char *key)
{
    zt_gguf_kind element_kind;
    uint64_t count, layer_count = (uint64_t)merge->child_layers;
    int64_t i = zt_meta_find(merge->meta, key);
    if (i < 0 || !zt_meta_array(zt_meta_get(merge->meta, i), &element_kind, &count) || !element_size(element_kind)) return ZT_OK;
    uint32_t kind = (uint32_t)element_kind;
    zt_str out;
    zt_str_init(&out, merge->ctx);
    zt_status status = zt_str_put(&out, &kind, sizeof kind);
    if (status == ZT_OK) status = zt_str_put(&out, &layer_count, sizeof layer_count);
    for (int k = 0; k < merge->recipe->slice_count && status == ZT_OK; k++)
        status = put_slice(merge, &merge->recipe->slices[k], key, element_kind, &out);
    if (status == ZT_OK) status = zt_meta_put(merge->meta, key, ZT_GGUF_ARRAY, out.data, out.len);
    zt_str_fini(&out);
    return status;
}

/* Of another number of layers, or of others: what is told of each is told again. */
static zt_status put_layers(zt_merge *merge)
{
    static const char *const of_each[] = {"attention.head_count", "attention.head_count_kv", "feed_forward_length",
                                          "attention.sliding_window_pattern"};
    char key[256];
    int64_t key_index = zt_meta_find(merge->meta, "general.architecture");
    zt_bytes arch = key_index >= 0 ? zt_meta_text(zt_meta_get(merge->meta, key_index)) : (zt_bytes){NULL, 0};
    if (!arch.data || arch.n > 64 || !merge->restacked) return ZT_OK;
    snprintf(key, sizeof key, "%.*s.block_count", (int)arch.n, arch.data);
    char name[65];
    snprintf(name, sizeof name, "%.*s", (int)arch.n, arch.data); /* the list will change */
    zt_status status = zt_meta_put_u32(merge->meta, key, (uint32_t)merge->child_layers);
    for (size_t i = 0; i < sizeof of_each / sizeof *of_each && status == ZT_OK; i++) {
        snprintf(key, sizeof key, "%s.%s", name, of_each[i]);
        status = restack_array(merge, key);
    }
    return status;
}

/* ---- where it comes from --------------------------------------------------------------------- */

static zt_status put_parents(zt_merge *merge)
{
    const zt_recipe *recipe = merge->recipe;
    zt_bytes *names = zt_alloc_array(merge->ctx, (size_t)recipe->model_count * 2, sizeof *names);
    char(*ids)[33] = zt_alloc_array(merge->ctx, (size_t)recipe->model_count, sizeof *ids);
    zt_status status = names && ids ? ZT_OK : ZT_ENOMEM;
    for (int model_index = 0; model_index < recipe->model_count && status == ZT_OK; model_index++) {
        status = zt_dna_id(merge->ctx, merge->parents[model_index].model, ids[model_index]);
        names[model_index] = (zt_bytes){recipe->models[model_index], strlen(recipe->models[model_index])};
        names[recipe->model_count + model_index] = (zt_bytes){ids[model_index], 32};
    }
    if (status == ZT_OK) status = zt_meta_put_strs(merge->meta, "zt.merge.parents", names, recipe->model_count);
    if (status == ZT_OK) status = zt_meta_put_strs(merge->meta, "zt.merge.ids", names + recipe->model_count, recipe->model_count);
    zt_free(merge->ctx, names);
    zt_free(merge->ctx, ids);
    return status;
}

/* The file type is of most tensors: known where the recipe says all their types. */
static zt_status put_file_type(zt_merge *merge)
{
    static const struct {
        zt_dtype dtype;
        uint32_t file_type; /* llama.cpp's */
    } types[] = {{ZT_F32, 0}, {ZT_F16, 1}, {ZT_BF16, 32}, {ZT_Q8_0, 7}};
    const char *key = "general.file_type";
    int64_t key_index = zt_meta_find(merge->meta, key);
    if (merge->recipe->dtype == ZT_DTYPE_COUNT || key_index < 0) return ZT_OK;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == merge->recipe->dtype) return zt_meta_put_u32(merge->meta, key, types[i].file_type);
    zt_meta_remove(merge->meta, key_index);
    return ZT_OK;
}

zt_status zt_merge_put_meta(zt_merge *merge)
{
    const zt_recipe *recipe = merge->recipe;
    merge->meta = zt_meta_new(merge->ctx);
    if (!merge->meta) return ZT_ENOMEM;
    zt_status status = zt_meta_join(merge->meta, zt_checkpoint_meta(merge->parents[zt_recipe_first(recipe)].model));
    if (status == ZT_OK) status = zt_merge_put_tokenizer(merge);
    if (status == ZT_OK && recipe->chat_template)
        status = zt_meta_put_str(merge->meta, "tokenizer.chat_template", recipe->chat_template, strlen(recipe->chat_template));
    if (status == ZT_OK) status = put_layers(merge);
    if (status == ZT_OK) status = put_file_type(merge);
    if (status == ZT_OK)
        status = zt_meta_put_str(merge->meta, "zt.merge.method", recipe->method->info.name, strlen(recipe->method->info.name));
    if (status == ZT_OK) status = zt_meta_put_str(merge->meta, "zt.merge.recipe", recipe->text, strlen(recipe->text));
    return status == ZT_OK ? put_parents(merge) : status;
}
