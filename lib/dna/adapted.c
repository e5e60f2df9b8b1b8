/* adapted.c - owns the tensors of a model with adapters: which are changed and by what, their
 * shapes and types, and reading them.
 */
#include "lib/base/require.h"
#include "lib/dna/adapted_internal.h"
#include "lib/dna/merge.h"
#include "lib/tensor/quantize.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- what is changed ------------------------------------------------------------------------- */

/* The shape as rows: a vector's elements are rows of one; of stacked matrices the rows of all. */
static void set_shape(adapted_change *change, const zt_type *type, bool stacked)
{
    change->rows = type->rank ? type->dim[0] : 1;
    change->each = stacked ? type->dim[1] : change->rows;
    if (stacked) change->rows *= change->each;
    change->columns = !change->rows ? 0 : zt_type_count(type) / change->rows;
}

static adapted_change *get_change(zt_adapted *adapted, int64_t index, bool stacked)
{
    if (adapted->changes[index]) return adapted->changes[index];
    adapted_change *change = zt_arena_alloc(adapted->arena, sizeof *change);
    if (!change) return NULL;
    *change = (adapted_change){.base_tensor = adapted->base_tensors[index], .stored = adapted->entries[index].type.dtype};
    set_shape(change, &adapted->entries[index].type, stacked);
    change->base_rows = change->rows;
    return adapted->changes[index] = change;
}

/* Two modules that have one place in the model: one of them is of another. */
static zt_status fail_twice(const zt_adapted *adapted, const lora_placement *one, const lora_placement *other)
{
    char shown_one[160], shown_other[160];
    const char *name_one = one->part->name, *name_other = other->part->name;
    return zt_fail(adapted->ctx, ZT_EDATA, "%s: '%s' and '%s' change the same tensor of %s", zt_lora_name(one->adapter),
                   zt_escape(shown_one, sizeof shown_one, name_one, strlen(name_one)),
                   zt_escape(shown_other, sizeof shown_other, name_other, strlen(name_other)), zt_checkpoint_name(adapted->base));
}

/* One more adapter for tensor i, whose rows it may add to. */
static zt_status add_item(zt_adapted *adapted, int64_t index, const lora_placement *placement, double scale)
{
    adapted_change *change = get_change(adapted, index, zt_adapted_is_stacked(placement));
    if (!change) return ZT_ENOMEM;
    if ((change->item_count & (change->item_count - 1)) == 0) { /* a power of two: full */
        size_t room = change->item_count ? 2 * (size_t)change->item_count : 1;
        adapted_item *items = zt_arena_alloc(adapted->arena, room * sizeof *items);
        if (!items) return ZT_ENOMEM;
        if (change->item_count) memcpy(items, change->items, (size_t)change->item_count * sizeof *items);
        change->items = items;
    }
    change->items[change->item_count++] = (adapted_item){*placement, scale};
    if (placement->part->whole < 0 || placement->turned || !adapted->entries[index].type.rank) return ZT_OK;
    zt_entry entry;
    zt_checkpoint_get(placement->adapter->file, placement->part->whole, &entry);
    change->rows = entry.type.dim[0] > change->rows ? entry.type.dim[0] : change->rows;
    return ZT_OK;
}

/* Adapters that have no one meaning together. */
static zt_status check_change(const zt_adapted *adapted, int64_t index)
{
    const adapted_change *change = adapted->changes[index];
    char shown[160];
    zt_escape(shown, sizeof shown, adapted->entries[index].name, strlen(adapted->entries[index].name));
    for (int k = 0; k < change->item_count; k++) {
        const adapted_item *item = &change->items[k];
        const char *name = zt_lora_name(item->placement.adapter);
        bool alone = change->item_count == 1 && item->scale == 1;
        if (zt_adapted_is_stacked(&item->placement) != zt_adapted_is_stacked(&change->items[0].placement))
            return zt_fail(adapted->ctx, ZT_ENOTSUP, "%s: experts of '%s' cannot be combined with another adapter for all of it",
                           name, shown);
        if (item->placement.part->magnitude >= 0 && change->item_count > 1)
            return zt_fail(adapted->ctx, ZT_ENOTSUP, "%s: DoRA for '%s' cannot be combined with another adapter for it", name,
                           shown);
        if (change->rows > change->base_rows && !alone)
            return zt_fail(adapted->ctx, ZT_ENOTSUP, "%s: adding %lld rows to '%s' needs scale 1 and no other adapter for it",
                           name, (long long)(change->rows - change->base_rows), shown);
    }
    if (!adapted->options.floats && !zt_quantize_has(change->stored))
        return zt_fail(adapted->ctx, ZT_ENOTSUP, "%s: tensor '%s': writing %s is not supported",
                       zt_checkpoint_name(adapted->base), shown, zt_dtype_get(change->stored)->name);
    if (change->columns % zt_dtype_get(change->stored)->block)
        return zt_fail(adapted->ctx, ZT_ENOTSUP, "%s: tensor '%s': row length %lld is not a multiple of the block size",
                       zt_checkpoint_name(adapted->base), shown, (long long)change->columns);
    return ZT_OK;
}

typedef struct fit_list {
    lora_placement *placements;
    double *scales;
    int64_t count;
} fit_list;

/* ---- a head that was the embedding ----------------------------------------------------------- */

/* Does it change the embedding alone? Trained rows, and a whole one that is not among
 * modules_to_save (a vocabulary of another size) or that PEFT tied to its head, are of both. */
static bool changes_embedding_only(const lora_placement *placement)
{
    const lora_part *part = placement->part;
    return part->lora_a >= 0 || (part->whole >= 0 && part->saved && !placement->adapter->config.tied);
}

/* A head that is whole and not among modules_to_save, or that PEFT tied to its embedding, is the
 * embedding, saved under both names. */
static bool is_tied_copy(const lora_placement *placement)
{
    const lora_part *part = placement->part;
    return placement->tensor < 0 && part->whole >= 0 && (!part->saved || placement->adapter->config.tied) && part->lora_a < 0 &&
           part->rows < 0;
}

/* Does the adapter have the embedding whole as well? */
static bool has_whole(const fit_list *fits, const zt_lora *adapter, int64_t tensor)
{
    for (int64_t i = 0; i < fits->count; i++)
        if (fits->placements[i].adapter == adapter && fits->placements[i].tensor == tensor &&
            fits->placements[i].part->whole >= 0)
            return true;
    return false;
}

/* The whole of an embedding that is also of the head which it was. */
static zt_status share_whole(zt_adapted *adapted, const lora_placement *embedding_part, double scale)
{
    const adapted_change *head = adapted->changes[adapted->tensor_count - 1];
    for (int k = 0; head && k < head->item_count; k++)
        if (head->items[k].placement.adapter == embedding_part->adapter && head->items[k].placement.part->whole >= 0)
            return ZT_OK;
    lora_part *part = zt_arena_alloc(adapted->arena, sizeof *part);
    if (!part) return ZT_ENOMEM;
    *part = *embedding_part->part;
    part->lora_a = part->lora_b = part->magnitude = part->rows = part->addend = -1;
    lora_placement placement = *embedding_part;
    placement.part = part;
    return add_item(adapted, adapted->tensor_count - 1, &placement, scale);
}

static void add_head(zt_adapted *adapted, const lora_ends *ends)
{
    adapted->entries[adapted->tensor_count] = adapted->entries[ends->embedding];
    adapted->entries[adapted->tensor_count].name = ends->head_name;
    adapted->base_tensors[adapted->tensor_count++] = ends->embedding;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static zt_status fit_all(zt_adapted *adapted, const zt_lora_use *adapters, int count, lora_ends *ends, fit_list *fits)
{
    int64_t parts = 0;
    for (int k = 0; k < count; k++)
        for (int64_t i = 0; i < adapters[k].lora->part_count; i++) {
            const lora_part *part = &adapters[k].lora->parts[i];
            parts += part->parameter ? zt_lora_parameter_places(part) : 1;
        }
    fits->placements = zt_calloc(adapted->ctx, (size_t)parts + 1, sizeof *fits->placements);
    fits->scales = zt_calloc(adapted->ctx, (size_t)parts + 1, sizeof *fits->scales);
    zt_status status = fits->placements && fits->scales ? ZT_OK : ZT_ENOMEM;
    for (int k = 0; k < count && status == ZT_OK; k++) {
        const zt_lora *adapter = adapters[k].lora;
        lora_ends own;
        status = zt_lora_check_arch(adapter, adapted->base);
        zt_lora_ends(adapter, adapted->base, &own);
        if (own.head_name || k == 0) *ends = own;
        for (int64_t i = 0; i < adapter->part_count && status == ZT_OK; i++) {
            int64_t places;
            status = zt_lora_place_all(adapter, adapted->base, &own, &adapter->parts[i], &fits->placements[fits->count], &places);
            for (int64_t place = 0; place < places; place++) fits->scales[fits->count++] = adapters[k].scale;
        }
    }
    return status;
}

/* What the same adapter does to the same tensor, or to the same matrix of a stack, already; NULL: nothing. */
static const lora_placement *find_same(const adapted_change *change, const lora_placement *placement)
{
    /* an adapter's parts come together */
    for (int k = change ? change->item_count - 1 : -1; k >= 0; k--) {
        const lora_placement *before = &change->items[k].placement;
        if (before->adapter != placement->adapter) return NULL;
        if (before->expert < 0 || placement->expert < 0 || before->expert == placement->expert) return before;
    }
    return NULL;
}

static zt_status list_changes(zt_adapted *adapted, const lora_ends *ends, const fit_list *fits)
{
    bool head = false;
    const lora_placement *copied = NULL;
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < fits->count && ends->head_name; i++) {
        const lora_placement *placement = &fits->placements[i];
        head = head || (placement->tensor < 0 && !is_tied_copy(placement)) ||
               (!placement->adapter->gguf && placement->tensor == ends->embedding && changes_embedding_only(placement));
    }
    if (head) add_head(adapted, ends);
    for (int64_t i = 0; i < fits->count && status == ZT_OK; i++) {
        const lora_placement *placement = &fits->placements[i];
        bool copy = is_tied_copy(placement);
        if (copy && copied && copied->adapter == placement->adapter) {
            status = fail_twice(adapted, copied, placement);
            continue;
        }
        copied = copy ? placement : copied;
        if (copy && has_whole(fits, placement->adapter, ends->embedding)) continue;
        int64_t target = copy ? ends->embedding : placement->tensor < 0 ? adapted->tensor_count - 1 : placement->tensor;
        const lora_placement *before = find_same(adapted->changes[target], placement);
        if (before) status = fail_twice(adapted, before, placement);
        if (status == ZT_OK) status = add_item(adapted, target, placement, fits->scales[i]);
    }
    for (int64_t i = 0; i < fits->count && status == ZT_OK && head; i++) {
        const lora_placement *placement = &fits->placements[i];
        if (placement->tensor == ends->embedding && placement->part->whole >= 0 && !placement->part->saved)
            status = share_whole(adapted, placement, fits->scales[i]);
    }
    return status;
}

/* modules_to_save must be there: a module without its tensors would stay as it was. */
static zt_status check_saved(const zt_adapted *adapted, const zt_lora *adapter, const lora_ends *ends)
{
    size_t i;
    json_t *value;
    json_array_foreach(adapter->config.saved_modules, i, value)
    {
        const char *name = json_string_value(value);
        size_t name_length = strlen(name);
        bool has = false;
        for (int64_t part_index = 0; part_index < adapter->part_count && !has; part_index++) {
            const char *module = adapter->parts[part_index].module;
            size_t module_length = strlen(module);
            for (size_t start = 0; start + name_length <= module_length && !has; start++)
                has = !strncmp(module + start, name, name_length) && (!start || module[start - 1] == '.') &&
                      (start + name_length == module_length || module[start + name_length] == '.') &&
                      adapter->parts[part_index].whole >= 0;
        }
        bool end = !strcmp(name, "lm_head") || !strcmp(name, "embed_tokens") || !strcmp(name, "wte");
        if (!has && end && ends->embedding >= 0)
            return zt_fail(adapted->ctx, ZT_EDATA, "%s: no tensor for '%s', which modules_to_save lists", zt_lora_name(adapter),
                           name);
    }
    return ZT_OK;
}

/* Sizes, types and shapes of what is changed. */
static zt_status finish_entries(zt_adapted *adapted, const lora_ends *ends)
{
    zt_status status = ZT_OK;
    for (int64_t tensor_index = 0; tensor_index < adapted->tensor_count && status == ZT_OK; tensor_index++) {
        adapted_change *change = adapted->changes[tensor_index];
        zt_entry *entry = &adapted->entries[tensor_index];
        if (!change) continue;
        status = check_change(adapted, tensor_index);
        if (change->rows > change->base_rows) entry->type.dim[0] = change->rows;
        if (adapted->options.floats) entry->type.dtype = ZT_F32;
        size_t bytes;
        if (status == ZT_OK && !zt_type_check(adapted->ctx, &entry->type, &bytes)) status = ZT_EDATA;
        entry->dtype = zt_dtype_get(entry->type.dtype)->name;
        entry->bytes = status == ZT_OK ? bytes : 0;
        if (status == ZT_OK && change->rows > change->base_rows) adapted->added_rows = change->rows - change->base_rows;
    }
    if (status != ZT_OK || ends->embedding < 0) return status;
    int64_t head = ends->head >= 0                                              ? ends->head
                   : adapted->tensor_count > zt_checkpoint_count(adapted->base) ? adapted->tensor_count - 1
                                                                                : -1;
    const zt_entry *entry = &adapted->entries[ends->embedding], *head_entry = head >= 0 ? &adapted->entries[head] : entry;
    bool same = entry->type.rank == 2 && head_entry->type.rank == 2 && entry->type.dim[0] == head_entry->type.dim[0];
    return same || !adapted->added_rows
               ? ZT_OK
               : zt_fail(adapted->ctx, ZT_EDATA, "%s: with the adapters, '%s' has %lld rows but '%s' has %lld",
                         zt_checkpoint_name(adapted->base), entry->name, (long long)entry->type.dim[0], head_entry->name,
                         (long long)head_entry->type.dim[0]);
}

/* ---- metadata -------------------------------------------------------------------------------- */

enum { ARRAY_HEAD = 12 }; /* kind and count before an array's elements */

/* Extends an array of the tokenizer to target_count elements by copies of `one`, of `bytes` bytes; NULL: by names of new tokens. */
static zt_status lengthen_array(zt_adapted *adapted, const char *key, zt_gguf_kind kind, int64_t target_count, const void *one,
                                size_t bytes)
{
    int64_t key_index = zt_meta_find(adapted->meta, key);
    zt_gguf_kind elem;
    uint64_t count, target = (uint64_t)target_count;
    if (key_index < 0 || !zt_meta_array(zt_meta_get(adapted->meta, key_index), &elem, &count) || elem != kind || count >= target)
        return ZT_OK;
    const zt_meta_item *item = zt_meta_get(adapted->meta, key_index);
    uint32_t word = (uint32_t)elem;
    zt_str out;
    zt_str_init(&out, adapted->ctx);
    zt_status status = zt_str_put(&out, &word, sizeof word);
    if (status == ZT_OK) status = zt_str_put(&out, &target, sizeof target);
    if (status == ZT_OK) status = zt_str_put(&out, item->value + ARRAY_HEAD, item->bytes - ARRAY_HEAD);
    for (uint64_t i = count; i < target && status == ZT_OK; i++) {
        char name[32];
        uint64_t name_length = (uint64_t)snprintf(name, sizeof name, "[PAD%llu]", (unsigned long long)i);
        status = one ? zt_str_put(&out, one, bytes) : zt_str_put(&out, &name_length, sizeof name_length);
        if (status == ZT_OK && !one) status = zt_str_put(&out, name, (size_t)name_length);
    }
    if (status == ZT_OK) status = zt_meta_put(adapted->meta, key, ZT_GGUF_ARRAY, out.data, out.len);
    zt_str_fini(&out);
    return status;
}

/* The rows that were added are tokens without a name. */
static zt_status put_vocabulary(zt_adapted *adapted, int64_t rows)
{
    static const float score = 0;
    static const int32_t unused = 5;
    int64_t key_index = zt_meta_find(adapted->meta, "general.architecture");
    zt_bytes arch = key_index >= 0 ? zt_meta_text(zt_meta_get(adapted->meta, key_index)) : (zt_bytes){NULL, 0};
    char key[128];
    zt_status status = lengthen_array(adapted, "tokenizer.ggml.tokens", ZT_GGUF_STR, rows, NULL, 0);
    if (status == ZT_OK) status = lengthen_array(adapted, "tokenizer.ggml.scores", ZT_GGUF_F32, rows, &score, sizeof score);
    if (status == ZT_OK) status = lengthen_array(adapted, "tokenizer.ggml.token_type", ZT_GGUF_I32, rows, &unused, sizeof unused);
    if (status != ZT_OK || !arch.data || arch.n > 64) return status;
    snprintf(key, sizeof key, "%.*s.vocab_size", (int)arch.n, arch.data);
    return zt_meta_find(adapted->meta, key) >= 0 ? zt_meta_put_u32(adapted->meta, key, (uint32_t)rows) : ZT_OK;
}

/* Where it comes from: a model with other adapters is another model. */
static zt_status put_adapters(zt_adapted *adapted, const zt_lora_use *adapters, int count)
{
    zt_bytes *texts = zt_calloc(adapted->ctx, (size_t)count * 2, sizeof *texts);
    zt_status status = texts ? ZT_OK : ZT_ENOMEM;
    for (int k = 0; k < count && status == ZT_OK; k++) {
        const char *name = zt_lora_name(adapters[k].lora);
        char *use_text = zt_arena_alloc(adapted->arena, strlen(name) + 40), *id_text = zt_arena_alloc(adapted->arena, 33);
        if (!use_text || !id_text) status = ZT_ENOMEM;
        if (status == ZT_OK) status = zt_dna_id(adapted->ctx, adapters[k].lora->file, id_text);
        if (status != ZT_OK) break;
        snprintf(use_text, strlen(name) + 40, "%s=%.17g", name, adapters[k].scale);
        texts[k] = (zt_bytes){use_text, strlen(use_text)};
        texts[count + k] = (zt_bytes){id_text, 32};
    }
    if (status == ZT_OK) status = zt_meta_put_strs(adapted->meta, "zt.lora.adapters", texts, count);
    if (status == ZT_OK) status = zt_meta_put_strs(adapted->meta, "zt.lora.ids", texts + count, count);
    zt_free(adapted->ctx, texts);
    return status;
}

static zt_status put_meta(zt_adapted *adapted, const zt_lora_use *adapters, int count, const lora_ends *ends)
{
    adapted->meta = zt_meta_new(adapted->ctx);
    zt_status status = adapted->meta ? zt_meta_share(adapted->meta, zt_checkpoint_meta(adapted->base)) : ZT_ENOMEM;
    if (status == ZT_OK) status = put_adapters(adapted, adapters, count);
    if (status == ZT_OK && adapted->added_rows) status = put_vocabulary(adapted, adapted->entries[ends->embedding].type.dim[0]);
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void empty_slot(zt_adapted *adapted, adapted_slot *slot)
{
    for (int k = 0; k < slot->item_count; k++) zt_adapted_unload(adapted->ctx, &slot->items[k]);
    zt_free(adapted->ctx, slot->items);
    *slot = (adapted_slot){.tensor = -1};
}

/* The slot that has tensor i, or the one that waited longest; NULL: all are in use. */
static adapted_slot *find_slot(zt_adapted *adapted, int64_t index)
{
    adapted_slot *oldest = NULL;
    for (int k = 0; k < ADAPTED_SLOTS; k++) {
        adapted_slot *slot = &adapted->slots[k];
        if (slot->tensor == index) return slot;
        if (!slot->users && (!oldest || slot->last_used < oldest->last_used)) oldest = slot;
    }
    return oldest;
}

static zt_status fill_slot(zt_adapted *adapted, adapted_slot *slot, int64_t index)
{
    const adapted_change *change = adapted->changes[index];
    empty_slot(adapted, slot);
    slot->items = zt_calloc(adapted->ctx, (size_t)change->item_count, sizeof *slot->items);
    zt_status status = slot->items ? ZT_OK : ZT_ENOMEM;
    for (; slot->items && slot->item_count < change->item_count && status == ZT_OK; slot->item_count++)
        status = zt_adapted_load(adapted, change, &change->items[slot->item_count], &slot->items[slot->item_count]);
    if (status == ZT_OK)
        slot->tensor = index;
    else
        empty_slot(adapted, slot);
    return status;
}

static zt_status hold_slot(zt_adapted *adapted, int64_t index, adapted_slot **out)
{
    zt_status status = ZT_OK;
    pthread_mutex_lock(&adapted->lock);
    while (!(*out = find_slot(adapted, index))) pthread_cond_wait(&adapted->idle, &adapted->lock);
    if ((*out)->tensor != index) status = fill_slot(adapted, *out, index);
    if (status == ZT_OK) {
        (*out)->users++;
        (*out)->last_used = ++adapted->clock;
    }
    pthread_mutex_unlock(&adapted->lock);
    return status;
}

static void release_slot(zt_adapted *adapted, adapted_slot *slot)
{
    pthread_mutex_lock(&adapted->lock);
    if (!--slot->users) pthread_cond_broadcast(&adapted->idle);
    pthread_mutex_unlock(&adapted->lock);
}

/* A read in strips of whole rows. */
typedef struct strip_read {
    zt_adapted *adapted;
    const adapted_change *change;
    const adapted_loaded *loaded;
    int64_t tensor, first, end, strip_rows; /* rows */
    size_t row_bytes;                       /* bytes */
    uint64_t offset;
    size_t size;
    char *dst;
    atomic_llong next;
    atomic_int status;
} strip_read;

static zt_status encode_rows(const strip_read *strips, const float *values, int64_t first, int64_t row_count, char *out)
{
    const zt_entry *entry = &strips->adapted->entries[strips->tensor];
    int64_t row_length = entry->type.rank > 1 ? entry->type.dim[entry->type.rank - 1] : 1;
    int64_t rows = row_length ? row_count * strips->change->columns / row_length : 0;
    zt_quantizer quantizer = {.dtype = entry->type.dtype, .columns = row_length, .name = entry->name};
    quantizer.first_row = row_length ? first * strips->change->columns / row_length : 0;
    if (!strips->adapted->options.floats) return zt_quantize_rows(strips->adapted->ctx, &quantizer, values, rows, out);
    memcpy(out, values, (size_t)(row_count * strips->change->columns) * sizeof *values);
    return ZT_OK;
}

/* Rows [first, first + row_count), of which what was asked for goes to its place. */
static zt_status read_strip(strip_read *strips, int64_t first, int64_t row_count, float *values, char *bytes)
{
    int64_t count = row_count * strips->change->columns;
    zt_status status = zt_adapted_rows(strips->adapted, strips->change, strips->loaded, first, row_count, values, values + count);
    if (status == ZT_OK) status = encode_rows(strips, values, first, row_count, bytes);
    uint64_t from = (uint64_t)first * strips->row_bytes, end = from + (uint64_t)row_count * strips->row_bytes;
    uint64_t low = from > strips->offset ? from : strips->offset;
    uint64_t high = end < strips->offset + strips->size ? end : strips->offset + strips->size;
    if (status == ZT_OK && high > low) memcpy(strips->dst + (low - strips->offset), bytes + (low - from), (size_t)(high - low));
    return status;
}

static void work_on_strips(void *user, int thread, int n_threads)
{
    strip_read *strips = user;
    zt_ctx *ctx = strips->adapted->ctx;
    (void)thread, (void)n_threads;
    float *values = zt_alloc_array(ctx, (size_t)(3 * strips->strip_rows * strips->change->columns) + 1, sizeof *values);
    char *bytes = zt_alloc(ctx, (size_t)strips->strip_rows * strips->row_bytes + 1);
    int64_t first_row = 0;
    if (!values || !bytes) atomic_store(&strips->status, ZT_ENOMEM);
    while (values && bytes && atomic_load(&strips->status) == ZT_OK &&
           (first_row = strips->first + strips->strip_rows * atomic_fetch_add(&strips->next, 1)) < strips->end) {
        zt_status status = read_strip(strips, first_row,
                                      strips->end - first_row < strips->strip_rows ? strips->end - first_row : strips->strip_rows,
                                      values, bytes);
        if (status != ZT_OK) atomic_store(&strips->status, (int)status);
    }
    zt_free(ctx, values);
    zt_free(ctx, bytes);
}

static zt_status read_strips(zt_adapted *adapted, strip_read *strips)
{
    if (adapted->pool && strips->end - strips->first > strips->strip_rows && !pthread_mutex_trylock(&adapted->pool_lock)) {
        zt_pool_run(adapted->pool, work_on_strips, strips);
        pthread_mutex_unlock(&adapted->pool_lock);
    } else {
        work_on_strips(strips, 0, 1);
    }
    return (zt_status)atomic_load(&strips->status);
}

zt_status zt_adapted_read(void *user, int64_t tensor, uint64_t offset, void *dst, size_t size)
{
    enum { STRIP = 1 << 15 };
    zt_adapted *adapted = user;
    const adapted_change *change = adapted->changes[tensor];
    adapted_slot *slot;
    if (!change) return zt_checkpoint_read(adapted->base, adapted->base_tensors[tensor], offset, dst, size);
    zt_status status = hold_slot(adapted, tensor, &slot);
    if (status != ZT_OK) return status;
    const zt_dtype_info *info = zt_dtype_get(adapted->entries[tensor].type.dtype);
    strip_read strips = {
        .adapted = adapted, .change = change, .loaded = slot->items, .tensor = tensor, .offset = offset, .size = size};
    strips.dst = dst;
    strips.row_bytes = (size_t)(change->columns / info->block) * (size_t)info->block_bytes;
    strips.strip_rows = change->columns < STRIP ? STRIP / change->columns : 1;
    strips.first = (int64_t)(offset / strips.row_bytes);
    strips.end = (int64_t)((offset + size + strips.row_bytes - 1) / strips.row_bytes);
    strips.strip_rows = strips.strip_rows < strips.end - strips.first ? strips.strip_rows : strips.end - strips.first;
    status = read_strips(adapted, &strips);
    release_slot(adapted, slot);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void free_all(zt_adapted *adapted)
{
    for (int k = 0; k < ADAPTED_SLOTS; k++) empty_slot(adapted, &adapted->slots[k]);
    zt_pool_free(adapted->pool);
    zt_meta_free(adapted->meta);
    zt_free(adapted->ctx, adapted->entries);
    zt_free(adapted->ctx, adapted->base_tensors);
    zt_free(adapted->ctx, adapted->changes);
    zt_arena_free(adapted->arena);
    pthread_mutex_destroy(&adapted->lock);
    pthread_mutex_destroy(&adapted->pool_lock);
    pthread_cond_destroy(&adapted->idle);
    zt_free(adapted->ctx, adapted);
}

static void handle_close(void *user)
{
    zt_adapted *adapted = user;
    if (adapted->released) free_all(adapted);
}

void zt_adapted_free(zt_adapted *adapted)
{
    if (!adapted) return;
    zt_checkpoint_close(adapted->checkpoint);
    free_all(adapted);
}

static zt_status set_up(zt_adapted *adapted)
{
    int64_t count = zt_checkpoint_count(adapted->base);
    adapted->arena = zt_arena_new(adapted->ctx, 0);
    adapted->entries = zt_calloc(adapted->ctx, (size_t)count + 1, sizeof *adapted->entries);
    adapted->base_tensors = zt_calloc(adapted->ctx, (size_t)count + 1, sizeof *adapted->base_tensors);
    adapted->changes = zt_calloc(adapted->ctx, (size_t)count + 1, sizeof(adapted_change *));
    adapted->pool = adapted->options.threads > 1
                        ? zt_pool_new(adapted->ctx, adapted->options.threads > 256 ? 256 : adapted->options.threads)
                        : NULL;
    if (!adapted->arena || !adapted->entries || !adapted->base_tensors || !adapted->changes ||
        (adapted->options.threads > 1 && !adapted->pool))
        return ZT_ENOMEM;
    for (; adapted->tensor_count < count; adapted->tensor_count++) {
        zt_checkpoint_get(adapted->base, adapted->tensor_count, &adapted->entries[adapted->tensor_count]);
        adapted->base_tensors[adapted->tensor_count] = adapted->tensor_count;
    }
    return ZT_OK;
}

zt_adapted *zt_adapted_new(zt_ctx *ctx, zt_checkpoint *base, const zt_lora_use *adapters, int count,
                           const zt_adapted_opts *options)
{
    ZT_REQUIRE(ctx, base && count >= 0 && (adapters || !count) && options, NULL);
    for (int k = 0; k < count; k++) ZT_REQUIRE(ctx, adapters[k].lora, NULL);
    zt_adapted *adapted = zt_calloc(ctx, 1, sizeof *adapted);
    lora_ends ends = {.embedding = -1, .head = -1};
    fit_list fits = {0};
    if (!adapted) return NULL;
    *adapted = (zt_adapted){.ctx = ctx, .base = base, .options = *options};
    for (int k = 0; k < ADAPTED_SLOTS; k++) adapted->slots[k].tensor = -1;
    pthread_mutex_init(&adapted->lock, NULL);
    pthread_mutex_init(&adapted->pool_lock, NULL);
    pthread_cond_init(&adapted->idle, NULL);
    zt_status status = set_up(adapted);
    if (status == ZT_OK) status = fit_all(adapted, adapters, count, &ends, &fits);
    for (int k = 0; k < count && status == ZT_OK; k++) status = check_saved(adapted, adapters[k].lora, &ends);
    if (status == ZT_OK) status = list_changes(adapted, &ends, &fits);
    if (status == ZT_OK) status = finish_entries(adapted, &ends);
    if (status == ZT_OK) status = put_meta(adapted, adapters, count, &ends);
    zt_free(ctx, fits.placements);
    zt_free(ctx, fits.scales);
    if (status == ZT_OK)
        adapted->checkpoint = zt_checkpoint_of_made(ctx, &(zt_made){.name = zt_checkpoint_name(base),
                                                                    .container = zt_checkpoint_container(base),
                                                                    .entries = adapted->entries,
                                                                    .count = adapted->tensor_count,
                                                                    .meta = adapted->meta,
                                                                    .user = adapted,
                                                                    .read = zt_adapted_read,
                                                                    .release = handle_close});
    if (adapted->checkpoint) return adapted;
    free_all(adapted);
    return NULL;
}

zt_checkpoint *zt_adapted_checkpoint(const zt_adapted *adapted) { return adapted ? adapted->checkpoint : NULL; }

zt_checkpoint *zt_adapted_release(zt_adapted *adapted)
{
    if (!adapted) return NULL;
    adapted->released = true;
    return adapted->checkpoint;
}

bool zt_adapted_changes(const zt_adapted *adapted, int64_t index) { return adapted && adapted->changes[index] != NULL; }

zt_dtype zt_adapted_type(const zt_adapted *adapted, int64_t index)
{
    if (!adapted) return (zt_dtype){0};
    return adapted->changes[index] ? adapted->changes[index]->stored : adapted->entries[index].type.dtype;
}

int64_t zt_adapted_grown(const zt_adapted *adapted) { return adapted ? adapted->added_rows : 0; }
