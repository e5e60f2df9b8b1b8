/* merge_meta.c - owns what the child says of itself: the first parent's metadata, with the
 * tokenizer and the number of layers that the recipe gives it, and where it comes from.
 */
#include "lib/dna/merge_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* ---- the tokenizer --------------------------------------------------------------------------- */

static zt_status check_union(const zt_merge *m)
{
    const char *key = "tokenizer.ggml.tokens";
    const zt_meta *first = zt_checkpoint_meta(m->parent[zt_recipe_first(m->r)].model);
    int64_t a = zt_meta_find(first, key);
    for (int i = 0; i < m->r->n_models; i++) {
        const zt_meta *other = zt_checkpoint_meta(m->parent[i].model);
        int64_t b = zt_meta_find(other, key);
        const zt_meta_item *x = a >= 0 ? zt_meta_get(first, a) : NULL;
        const zt_meta_item *y = b >= 0 ? zt_meta_get(other, b) : NULL;
        if (!x != !y || (x && (x->bytes != y->bytes || memcmp(x->value, y->value, x->bytes))))
            return zt_fail(m->ctx, ZT_EDATA,
                           "%s: tokenizer 'union': %s has other tokens, and such are not "
                           "put together",
                           m->r->name, zt_checkpoint_name(m->parent[i].model));
    }
    return ZT_OK;
}

static zt_status put_tokenizer(zt_merge *m)
{
    int from = m->r->tokens;
    if (from == TOKENS_UNION) return check_union(m);
    if (from < 0 || from == zt_recipe_first(m->r)) return ZT_OK;
    const zt_meta *other = zt_checkpoint_meta(m->parent[from].model);
    for (int64_t i = zt_meta_count(m->meta) - 1; i >= 0; i--)
        if (begins(zt_meta_get(m->meta, i)->key.data, "tokenizer.")) zt_meta_remove(m->meta, i);
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < zt_meta_count(other) && s == ZT_OK; i++) {
        const zt_meta_item *item = zt_meta_get(other, i);
        if (begins(item->key.data, "tokenizer."))
            s = zt_meta_put(m->meta, item->key.data, item->kind, item->value, item->bytes);
    }
    return s;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static size_t size_of(zt_gguf_kind kind)
{
    static const size_t sizes[] = {
        [ZT_GGUF_U8] = 1,  [ZT_GGUF_I8] = 1,  [ZT_GGUF_U16] = 2, [ZT_GGUF_I16] = 2,
        [ZT_GGUF_U32] = 4, [ZT_GGUF_I32] = 4, [ZT_GGUF_F32] = 4, [ZT_GGUF_BOOL] = 1,
        [ZT_GGUF_U64] = 8, [ZT_GGUF_I64] = 8, [ZT_GGUF_F64] = 8};
    return kind < sizeof sizes / sizeof *sizes ? sizes[kind] : 0;
}

enum { HEAD = 12 }; /* kind and count before an array's elements */

/* The elements that the slice's layers have in their own model. */
static zt_status put_slice(const zt_merge *m, const merge_slice *s, const char *key,
                           zt_gguf_kind kind, zt_str *out)
{
    const merge_source *src = &s->source[s->base >= 0 ? s->base : 0];
    const zt_meta *meta = zt_checkpoint_meta(m->parent[src->model].model);
    int64_t i = zt_meta_find(meta, key), to = src->to < 0 ? m->layers[src->model] : src->to;
    const zt_meta_item *item = i >= 0 ? zt_meta_get(meta, i) : NULL;
    zt_gguf_kind elem;
    uint64_t count;
    size_t size = size_of(kind);
    if (!item || !zt_meta_array(item, &elem, &count) || elem != kind || count < (uint64_t)to)
        return zt_fail(m->ctx, ZT_EDATA, "%s: has no '%s' of each layer, which others have",
                       zt_checkpoint_name(m->parent[src->model].model), key);
    return zt_str_put(out, item->value + HEAD + (size_t)src->from * size,
                      (size_t)(to - src->from) * size);
}

static zt_status restack(zt_merge *m, const char *key)
{
    zt_gguf_kind elem;
    uint64_t count, all = (uint64_t)m->stack;
    int64_t i = zt_meta_find(m->meta, key);
    if (i < 0 || !zt_meta_array(zt_meta_get(m->meta, i), &elem, &count) || !size_of(elem))
        return ZT_OK;
    uint32_t kind = (uint32_t)elem;
    zt_str out;
    zt_str_init(&out, m->ctx);
    zt_status s = zt_str_put(&out, &kind, sizeof kind);
    if (s == ZT_OK) s = zt_str_put(&out, &all, sizeof all);
    for (int k = 0; k < m->r->n_slices && s == ZT_OK; k++)
        s = put_slice(m, &m->r->slice[k], key, elem, &out);
    if (s == ZT_OK) s = zt_meta_put(m->meta, key, ZT_GGUF_ARRAY, out.data, out.len);
    zt_str_fini(&out);
    return s;
}

/* Of another number of layers, or of others: what is told of each is told again. */
static zt_status put_layers(zt_merge *m)
{
    static const char *const of_each[] = {"attention.head_count", "attention.head_count_kv",
                                          "feed_forward_length",
                                          "attention.sliding_window_pattern"};
    char key[256];
    int64_t at = zt_meta_find(m->meta, "general.architecture");
    zt_bytes arch = at >= 0 ? zt_meta_text(zt_meta_get(m->meta, at)) : (zt_bytes){NULL, 0};
    if (!arch.data || arch.n > 64 || !m->restacked) return ZT_OK;
    snprintf(key, sizeof key, "%.*s.block_count", (int)arch.n, arch.data);
    char name[65];
    snprintf(name, sizeof name, "%.*s", (int)arch.n, arch.data); /* the list will change */
    zt_status s = zt_meta_put_u32(m->meta, key, (uint32_t)m->stack);
    for (size_t i = 0; i < sizeof of_each / sizeof *of_each && s == ZT_OK; i++) {
        snprintf(key, sizeof key, "%s.%s", name, of_each[i]);
        s = restack(m, key);
    }
    return s;
}

/* ---- where it comes from --------------------------------------------------------------------- */

static zt_status put_parents(zt_merge *m)
{
    const zt_recipe *r = m->r;
    zt_bytes *name = zt_alloc_array(m->ctx, (size_t)r->n_models * 2, sizeof *name);
    char(*id)[33] = zt_alloc_array(m->ctx, (size_t)r->n_models, sizeof *id);
    zt_status s = name && id ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < r->n_models && s == ZT_OK; i++) {
        s = zt_dna_id(m->ctx, m->parent[i].model, id[i]);
        name[i] = (zt_bytes){r->model[i], strlen(r->model[i])};
        name[r->n_models + i] = (zt_bytes){id[i], 32};
    }
    if (s == ZT_OK) s = zt_meta_put_strs(m->meta, "zt.merge.parents", name, r->n_models);
    if (s == ZT_OK) s = zt_meta_put_strs(m->meta, "zt.merge.ids", name + r->n_models, r->n_models);
    zt_free(m->ctx, name);
    zt_free(m->ctx, id);
    return s;
}

/* The file type is of most tensors: known where the recipe says all their types. */
static zt_status put_type(zt_merge *m)
{
    static const struct {
        zt_dtype dtype;
        uint32_t file_type; /* llama.cpp's */
    } types[] = {{ZT_F32, 0}, {ZT_F16, 1}, {ZT_BF16, 32}, {ZT_Q8_0, 7}};
    const char *key = "general.file_type";
    int64_t at = zt_meta_find(m->meta, key);
    if (m->r->dtype == ZT_DTYPE_COUNT || at < 0) return ZT_OK;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == m->r->dtype) return zt_meta_put_u32(m->meta, key, types[i].file_type);
    zt_meta_remove(m->meta, at);
    return ZT_OK;
}

zt_status zt_merge_put_meta(zt_merge *m)
{
    const zt_recipe *r = m->r;
    m->meta = zt_meta_new(m->ctx);
    if (!m->meta) return ZT_ENOMEM;
    zt_status s = zt_meta_join(m->meta, zt_checkpoint_meta(m->parent[zt_recipe_first(r)].model));
    if (s == ZT_OK) s = put_tokenizer(m);
    if (s == ZT_OK && r->chat_template)
        s = zt_meta_put_str(m->meta, "tokenizer.chat_template", r->chat_template,
                            strlen(r->chat_template));
    if (s == ZT_OK) s = put_layers(m);
    if (s == ZT_OK) s = put_type(m);
    if (s == ZT_OK)
        s = zt_meta_put_str(m->meta, "zt.merge.method", r->method->about.name,
                            strlen(r->method->about.name));
    if (s == ZT_OK) s = zt_meta_put_str(m->meta, "zt.merge.recipe", r->text, strlen(r->text));
    return s == ZT_OK ? put_parents(m) : s;
}
