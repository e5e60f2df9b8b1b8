/* merge_plan.c - owns the plan of a merge: which tensors of which parents make each tensor of the child, the numbers of
 * layers, types, and what the parents must have in common.
 *
 * A model without an output head uses its embedding as the head. mergekit 0.1.5 (architecture files, the tied_names of
 * lm_head.weight, as facts) merges heads where any source has one, and takes the embedding of those that have none.
 */
#include "lib/dna/merge_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 1 << 16 };

/* ---- names ----------------------------------------------------------------------------------- */

int64_t zt_merge_layer(const char *name, size_t *digits_at, size_t *digit_count)
{
    for (const char *part = name; part; part = strchr(part, '.') ? strchr(part, '.') + 1 : NULL) {
        size_t digits = strspn(part, "0123456789");
        if (!digits || digits > 5 || (part[digits] != '.' && part[digits])) continue;
        *digits_at = (size_t)(part - name);
        *digit_count = digits;
        return strtol(part, NULL, 10);
    }
    return -1;
}

/* ---- heads ----------------------------------------------------------------------------------- */

static const struct {
    const char *head, *embedding;
} ties[] = {{"output.weight", "token_embd.weight"},
            {"lm_head.weight", "embed_tokens.weight"},
            {"lm_head.weight", "wte.weight"},
            {"embed_out.weight", "embed_in.weight"}};

static int64_t find_by_ending(zt_checkpoint *checkpoint, const char *end)
{
    zt_entry entry;
    for (int64_t tensor_index = 0; tensor_index < zt_checkpoint_count(checkpoint); tensor_index++) {
        zt_checkpoint_get(checkpoint, tensor_index, &entry);
        if (zt_name_ends_in(entry.name, end)) return tensor_index;
    }
    return -1;
}

static int64_t find_tied_tensor(zt_checkpoint *checkpoint, const char *name)
{
    int64_t i = zt_checkpoint_find(checkpoint, name);
    for (size_t k = 0; k < sizeof ties / sizeof *ties && i < 0; k++)
        if (zt_name_ends_in(name, ties[k].head)) i = find_by_ending(checkpoint, ties[k].embedding);
    return i;
}

static int64_t find_head(zt_checkpoint *checkpoint)
{
    int64_t i = -1;
    for (size_t k = 0; k < sizeof ties / sizeof *ties && i < 0; k++)
        if (find_by_ending(checkpoint, ties[k].embedding) >= 0) i = find_by_ending(checkpoint, ties[k].head);
    return i;
}

static const char *find_head_name(const zt_merge *merge)
{
    for (int model_index = 0; model_index < merge->recipe->model_count; model_index++) {
        zt_entry entry;
        int64_t head = find_head(merge->parents[model_index].model);
        if (head < 0) continue;
        zt_checkpoint_get(merge->parents[model_index].model, head, &entry);
        return entry.name;
    }
    return NULL;
}

/* ---- what parents have in common: architecture, heads, tokens --------------------------------- */

static const zt_meta_item *find_item(zt_checkpoint *checkpoint, const char *key)
{
    const zt_meta *meta = zt_checkpoint_meta(checkpoint);
    int64_t i = zt_meta_find(meta, key);
    return i >= 0 ? zt_meta_get(meta, i) : NULL;
}

static zt_status check_arch(const zt_merge *merge, zt_checkpoint *first, zt_checkpoint *other, char arch[65])
{
    const zt_meta_item *first_item = find_item(first, "general.architecture"),
                       *other_item = find_item(other, "general.architecture");
    zt_bytes first_arch = first_item ? zt_meta_text(first_item) : (zt_bytes){NULL, 0},
             other_arch = other_item ? zt_meta_text(other_item) : (zt_bytes){NULL, 0};
    char shown_first[80], shown_other[80];
    arch[0] = 0;
    if (!first_arch.data || !other_arch.data) return ZT_OK;
    if (first_arch.n == other_arch.n && !memcmp(first_arch.data, other_arch.data, first_arch.n)) {
        snprintf(arch, 65, "%.*s", (int)(first_arch.n < 64 ? first_arch.n : 64), first_arch.data);
        return ZT_OK;
    }
    return zt_fail(merge->ctx, ZT_EDATA, "%s: the architecture is '%s', but that of %s is '%s'", zt_checkpoint_name(other),
                   zt_escape(shown_other, sizeof shown_other, other_arch.data, other_arch.n), zt_checkpoint_name(first),
                   zt_escape(shown_first, sizeof shown_first, first_arch.data, first_arch.n));
}

/* Numbers that change the meaning of matrices of the same shape. */
static zt_status check_numbers(const zt_merge *merge, zt_checkpoint *first, zt_checkpoint *other, const char *arch)
{
    static const char *const names[] = {"attention.head_count", "attention.head_count_kv", "attention.key_length",
                                        "expert_used_count"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char key[160];
        uint32_t first_value, other_value;
        snprintf(key, sizeof key, "%s.%s", arch, names[i]);
        const zt_meta_item *first_item = find_item(first, key), *other_item = find_item(other, key);
        if (!first_item || !other_item || first_item->kind != ZT_GGUF_U32 || other_item->kind != ZT_GGUF_U32) continue;
        memcpy(&first_value, first_item->value, sizeof first_value);
        memcpy(&other_value, other_item->value, sizeof other_value);
        if (first_value != other_value)
            return zt_fail(merge->ctx, ZT_EDATA, "%s: '%s' is %" PRIu32 ", but in %s it is %" PRIu32, zt_checkpoint_name(other),
                           key, other_value, zt_checkpoint_name(first), first_value);
    }
    return ZT_OK;
}

/* The same tokens, so that rows of embeddings belong to the same words. */
static zt_status check_tokens(const zt_merge *merge, zt_checkpoint *first, zt_checkpoint *other)
{
    const char *key = "tokenizer.ggml.tokens";
    const zt_meta_item *first_item = find_item(first, key), *other_item = find_item(other, key);
    char shown_first[60], shown_other[60];
    size_t first_offset = 0, other_offset = 0;
    if (!first_item || !other_item ||
        (first_item->bytes == other_item->bytes && !memcmp(first_item->value, other_item->value, first_item->bytes)))
        return ZT_OK;
    for (int64_t i = 0;; i++) {
        zt_bytes first_token = zt_meta_next_str(first_item, &first_offset),
                 other_token = zt_meta_next_str(other_item, &other_offset);
        if (!first_token.data && !other_token.data) return ZT_OK;
        if (merge->recipe->rectifies && (!first_token.data || !other_token.data)) return ZT_OK; /* these rows are cut */
        if (first_token.data && other_token.data && first_token.n == other_token.n &&
            !memcmp(first_token.data, other_token.data, first_token.n))
            continue;
        return zt_fail(merge->ctx, ZT_EDATA,
                       "%s: token %" PRId64
                       " is %s%s%s, but in %s it is %s%s%s: models with different tokens need a tokenizer in the recipe",
                       zt_checkpoint_name(other), i, other_token.data ? "'" : "",
                       other_token.data ? zt_escape(shown_other, sizeof shown_other, other_token.data, other_token.n) : "none",
                       other_token.data ? "'" : "", zt_checkpoint_name(first), first_token.data ? "'" : "",
                       first_token.data ? zt_escape(shown_first, sizeof shown_first, first_token.data, first_token.n) : "none",
                       first_token.data ? "'" : "");
    }
}

static zt_status check_parents(const zt_merge *merge)
{
    zt_checkpoint *first = merge->parents[zt_recipe_first(merge->recipe)].model;
    zt_status status = ZT_OK;
    for (int i = 0; i < merge->recipe->model_count && status == ZT_OK; i++) {
        zt_checkpoint *other = merge->parents[i].model;
        char arch[65];
        status = check_arch(merge, first, other, arch);
        if (status == ZT_OK && *arch) status = check_numbers(merge, first, other, arch);
        if (status == ZT_OK && !merge->vocab) status = check_tokens(merge, first, other);
    }
    return status;
}

/* ---- tensors that the lead does not have ----------------------------------------------------- */

/* Buffers that some models are saved with. */
static bool is_buffer(const char *name)
{
    static const char *const words[] = {"rotary_emb.", "rope_freqs", "rope_factors", "position_ids", "masked_bias", ".attn.bias"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i])) return true;
    return false;
}

static zt_status check_extra_tensors(const zt_merge *merge, const merge_slice *slice, int lead)
{
    const merge_source *lead_source = &slice->sources[lead];
    zt_checkpoint *lead_model = merge->parents[lead_source->model].model;
    for (int source_index = 0; source_index < slice->source_count; source_index++) {
        const merge_source *source = &slice->sources[source_index];
        zt_checkpoint *other = merge->parents[source->model].model;
        int64_t end = source->end_layer < 0 ? merge->layer_counts[source->model] : source->end_layer;
        int64_t head = find_head(other);
        if (source_index == lead || source->model == lead_source->model) continue;
        for (int64_t tensor_index = 0; tensor_index < zt_checkpoint_count(other); tensor_index++) {
            zt_entry entry;
            size_t digits_at, digit_count;
            char name[512], shown[160];
            zt_checkpoint_get(other, tensor_index, &entry);
            int64_t layer = zt_merge_layer(entry.name, &digits_at, &digit_count);
            if (tensor_index == head || is_buffer(entry.name) || (layer >= 0 && (layer < source->first_layer || layer >= end)))
                continue;
            if (layer < 0)
                snprintf(name, sizeof name, "%s", entry.name);
            else
                snprintf(name, sizeof name, "%.*s%" PRId64 "%s", (int)digits_at, entry.name,
                         layer - source->first_layer + lead_source->first_layer, entry.name + digits_at + digit_count);
            if (strlen(entry.name) < 400 && zt_checkpoint_find(lead_model, name) < 0)
                return zt_fail(merge->ctx, ZT_EDATA, "%s: unexpected tensor '%s', which %s does not have",
                               zt_checkpoint_name(other), zt_escape(shown, sizeof shown, entry.name, strlen(entry.name)),
                               zt_checkpoint_name(lead_model));
        }
    }
    return ZT_OK;
}

/* ---- layers of a model ------------------------------------------------------------------------ */

/* Is a tensor without a layer in front of the layers? Else it is behind them. */
static bool is_before(const char *name)
{
    return strstr(name, "embd") || strstr(name, "embed") || strstr(name, "wte") || strstr(name, "wpe");
}

static int64_t count_layers(zt_checkpoint *checkpoint)
{
    int64_t most = -1;
    zt_entry entry;
    for (int64_t i = 0; i < zt_checkpoint_count(checkpoint); i++) {
        size_t digits_at, digit_count;
        zt_checkpoint_get(checkpoint, i, &entry);
        int64_t layer = zt_merge_layer(entry.name, &digits_at, &digit_count);
        most = layer > most ? layer : most;
    }
    return most + 1;
}

/* A tensor of a model and its layer; -1: none. */
typedef struct placed_tensor {
    int64_t layer, index;
} placed_tensor;

static int compare_layers(const void *left, const void *right)
{
    const placed_tensor *first = left, *second = right;
    if (first->layer != second->layer) return first->layer < second->layer ? -1 : 1;
    return first->index < second->index ? -1 : first->index > second->index;
}

typedef struct merge_planner {
    zt_merge *merge;
    const merge_slice *slice; /* the slice at hand; lead: the source that determines its tensors */
    int lead;
    placed_tensor *places; /* [place_count] the tensors of the lead by layer */
    int64_t place_count;
    int64_t job_capacity; /* jobs */
} merge_planner;

/* The lead source, which determines names and types: the base, else the first. */
static int find_lead(const merge_slice *slice) { return slice->base_index >= 0 ? slice->base_index : 0; }

static zt_checkpoint *source_model(const zt_merge *merge, const merge_slice *slice, int k)
{
    return merge->parents[slice->sources[k].model].model;
}

static zt_status sort_places(merge_planner *planner, const merge_slice *slice)
{
    zt_merge *merge = planner->merge;
    planner->slice = slice;
    planner->lead = find_lead(slice);
    zt_checkpoint *checkpoint = source_model(merge, slice, planner->lead);
    planner->place_count = zt_checkpoint_count(checkpoint);
    zt_free(merge->ctx, planner->places);
    planner->places = zt_alloc_array(merge->ctx, (size_t)planner->place_count + 1, sizeof *planner->places);
    if (!planner->places) return ZT_ENOMEM;
    for (int64_t place_index = 0; place_index < planner->place_count; place_index++) {
        zt_entry entry;
        size_t digits_at, digit_count;
        zt_checkpoint_get(checkpoint, place_index, &entry);
        planner->places[place_index] = (placed_tensor){zt_merge_layer(entry.name, &digits_at, &digit_count), place_index};
    }
    qsort(planner->places, (size_t)planner->place_count, sizeof *planner->places, compare_layers);
    return ZT_OK;
}

/* ---- one tensor ------------------------------------------------------------------------------ */

/* The same name in another layer, in the arena; NULL: no memory. */
static const char *renumber_name(zt_arena *arena, const char *name, int64_t layer)
{
    size_t digits_at, digit_count;
    if (layer < 0 || zt_merge_layer(name, &digits_at, &digit_count) == layer) return zt_arena_strndup(arena, name, strlen(name));
    size_t size = strlen(name) + 24;
    char *out = zt_arena_alloc(arena, size);
    if (out) snprintf(out, size, "%.*s%" PRId64 "%s", (int)digits_at, name, layer, name + digits_at + digit_count);
    return out;
}

static bool same_shape(const zt_type *left, const zt_type *right)
{
    return left->rank == right->rank &&
           (left->rank < 0 || !memcmp(left->dim, right->dim, (size_t)left->rank * sizeof *left->dim));
}

/* Does a tensor of codes have its scales in another tensor, as FP8 often has? */
static bool has_scales(zt_checkpoint *checkpoint, const zt_entry *entry)
{
    static const char *const ends[] = {"_scale", "_scale_inv"};
    char name[512];
    if (entry->type.dtype == ZT_DTYPE_COUNT || zt_dtype_get(entry->type.dtype)->block_bytes != 1) return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        int length = snprintf(name, sizeof name, "%s%s", entry->name, ends[i]);
        if (length < (int)sizeof name && zt_checkpoint_find(checkpoint, name) >= 0) return true;
    }
    return false;
}

static zt_status check_source(merge_planner *planner, const zt_entry *lead, const zt_entry *entry, int source)
{
    const zt_merge *merge = planner->merge;
    const char *lead_name = zt_checkpoint_name(source_model(merge, planner->slice, planner->lead)),
               *source_name = zt_checkpoint_name(source_model(merge, planner->slice, source));
    char text_source[ZT_TYPE_TEXT], text_lead[ZT_TYPE_TEXT], name[160];
    zt_escape(name, sizeof name, lead->name, strlen(lead->name));
    if (!same_shape(&lead->type, &entry->type))
        return zt_fail(merge->ctx, ZT_ESHAPE, "%s: tensor '%s' has type %s, but in %s it has %s", source_name, name,
                       entry->type.rank < 0 ? entry->dtype : zt_type_text(&entry->type, text_source), lead_name,
                       lead->type.rank < 0 ? lead->dtype : zt_type_text(&lead->type, text_lead));
    bool floats = entry->type.dtype != ZT_DTYPE_COUNT && zt_dtype_is_float(entry->type.dtype);
    if (merge->frames[planner->slice->sources[source].model])
        return zt_merge_net_check(merge, planner->slice->sources[source].model,
                                  zt_checkpoint_find(source_model(merge, planner->slice, source), entry->name));
    bool lead_floats = lead->type.dtype != ZT_DTYPE_COUNT && zt_dtype_is_float(lead->type.dtype);
    if (floats && has_scales(source_model(merge, planner->slice, source), entry))
        return zt_fail(merge->ctx, ZT_ENOTSUP, "%s: '%s' of type %s has its scales in another tensor: not supported", source_name,
                       name, entry->dtype);
    if (floats != lead_floats)
        return zt_fail(merge->ctx, ZT_ESHAPE, "%s: tensor '%s' has type %s, but in %s it has %s", source_name, name, entry->dtype,
                       lead_name, lead->dtype);
    if (floats && !zt_dtype_get(entry->type.dtype)->decode)
        return zt_fail(merge->ctx, ZT_ENOTSUP, "%s: tensor '%s': type %s cannot be decoded", source_name, name, entry->dtype);
    return ZT_OK;
}

/* A tensor changed by adapters is f32 here; in the child it has the model's stored type. */
static zt_status put_stored_type(const zt_merge *merge, const zt_merge_parent *parent, int64_t index, zt_entry *entry)
{
    size_t bytes;
    if (!parent->adapted || !zt_adapted_changes(parent->adapted, index)) return ZT_OK;
    entry->type.dtype = zt_adapted_type(parent->adapted, index);
    entry->dtype = zt_dtype_get(entry->type.dtype)->name;
    if (!zt_type_check(merge->ctx, &entry->type, &bytes)) return zt_ctx_status(merge->ctx);
    entry->bytes = bytes;
    return ZT_OK;
}

/* The tensor that the lead has at `index`, of the layer that is `off` above each source's first
 * (-1: of none), as the child's of layer `to`. as: the name that counts; NULL: its own. */
static zt_status add_job(merge_planner *planner, int64_t index, const char *name_override, int64_t layer_offset,
                         int64_t child_layer, double stack_position)
{
    zt_merge *merge = planner->merge;
    const merge_slice *slice = planner->slice;
    if (merge->job_count == planner->job_capacity) {
        int64_t more = planner->job_capacity ? 2 * planner->job_capacity : 256;
        merge_job *grown = zt_realloc(merge->ctx, merge->jobs, (size_t)more * sizeof *grown);
        if (!grown) return ZT_ENOMEM;
        merge->jobs = grown;
        planner->job_capacity = more;
    }
    zt_entry lead, entry;
    zt_merge_net_entry(merge, slice->sources[planner->lead].model, index, &lead);
    if (name_override) lead.name = name_override;
    const bool by_token = zt_merge_has_token_rows(merge, &lead);
    merge_job *job = &merge->jobs[merge->job_count];
    *job = (merge_job){
        .entry = lead, .slice = slice, .stack_position = stack_position, .order = index, .type_source = planner->lead};
    job->entry.name = renumber_name(merge->arena, lead.name, child_layer);
    job->tensors = zt_arena_alloc(merge->arena, (size_t)slice->source_count * sizeof *job->tensors);
    if (!job->entry.name || !job->tensors) return ZT_ENOMEM;
    zt_status status = put_stored_type(merge, &merge->parents[slice->sources[planner->lead].model], index, &job->entry);
    if (status != ZT_OK) return status;
    for (int source_index = 0; source_index < slice->source_count; source_index++) {
        const char *name = renumber_name(merge->arena, lead.name,
                                         layer_offset < 0 ? -1 : slice->sources[source_index].first_layer + layer_offset);
        char shown[160];
        if (!name) return ZT_ENOMEM;
        job->tensors[source_index] = find_tied_tensor(source_model(merge, slice, source_index), name);
        if (job->tensors[source_index] < 0)
            return zt_fail(merge->ctx, ZT_EDATA, "%s: missing tensor '%s', which %s has",
                           zt_checkpoint_name(source_model(merge, slice, source_index)),
                           zt_escape(shown, sizeof shown, name, strlen(name)),
                           zt_checkpoint_name(source_model(merge, slice, planner->lead)));
        zt_merge_net_entry(merge, slice->sources[source_index].model, job->tensors[source_index], &entry);
        if (by_token && entry.type.rank == lead.type.rank) entry.type.dim[0] = lead.type.dim[0]; /* rows may differ */
        job->head = job->head || (layer_offset < 0 && strcmp(entry.name, name));
        status = check_source(planner, &lead, &entry, source_index);
        if (status != ZT_OK) return status;
    }
    if (by_token) status = zt_merge_plan_rows(merge, job);
    merge->job_count += status == ZT_OK;
    return status;
}

/* ---- all tensors ----------------------------------------------------------------------------- */

/* Tensors without a layer: those in front from the first slice, those behind from the last. */
static zt_status add_outside(merge_planner *planner, bool before, bool behind)
{
    zt_status status = ZT_OK;
    for (int64_t place_index = 0; place_index < planner->place_count && planner->places[place_index].layer < 0 && status == ZT_OK;
         place_index++) {
        zt_entry entry;
        zt_checkpoint_get(source_model(planner->merge, planner->slice, planner->lead), planner->places[place_index].index,
                          &entry);
        if (is_before(entry.name) ? before : behind)
            status = add_job(planner, planner->places[place_index].index, NULL, -1, -1, 0);
    }
    return status;
}

/* Adds a head where the lead uses its embedding as the head and another parent has one. */
static zt_status add_head(merge_planner *planner)
{
    zt_checkpoint *checkpoint = source_model(planner->merge, planner->slice, planner->lead);
    const char *name = find_head_name(planner->merge);
    int64_t embedding = name && find_head(checkpoint) < 0 ? find_tied_tensor(checkpoint, name) : -1;
    if (embedding < 0) return ZT_OK;
    zt_status status = add_job(planner, embedding, name, -1, -1, 0);
    if (status == ZT_OK) planner->merge->jobs[planner->merge->job_count - 1].order = planner->place_count; /* last of all */
    return status;
}

/* The index of the first place whose layer is at least `layer`. */
static int64_t find_first_place(const merge_planner *planner, int64_t layer)
{
    int64_t low = 0, high = planner->place_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (planner->places[middle].layer < layer)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static zt_status add_layers(merge_planner *planner, int64_t count, int64_t *next)
{
    zt_status status = ZT_OK;
    int64_t from = planner->slice->sources[planner->lead].first_layer;
    for (int64_t i = 0; i < count && status == ZT_OK; i++, ++*next) {
        double stack_position = count > 1 ? (double)i / (double)(count - 1) : 1;
        for (int64_t k = find_first_place(planner, from + i);
             k < planner->place_count && planner->places[k].layer == from + i && status == ZT_OK; k++)
            status = add_job(planner, planner->places[k].index, NULL, i, *next, stack_position);
    }
    return status;
}

/* Counts the layers of a slice, which must be equal in all sources. */
static zt_status count_slice_layers(const zt_merge *merge, merge_slice *slice, int64_t *count)
{
    for (int source_index = 0; source_index < slice->source_count; source_index++) {
        merge_source *source = &slice->sources[source_index];
        int64_t model_layers = merge->layer_counts[source->model];
        const char *name = zt_checkpoint_name(merge->parents[source->model].model);
        int64_t end = source->end_layer < 0 ? model_layers : source->end_layer;
        if (end > model_layers)
            return zt_fail(merge->ctx, ZT_EDATA, "%s: invalid layer range %" PRId64 " to %" PRId64 ": %s has %" PRId64 " layers",
                           merge->recipe->name, source->first_layer, end, name, model_layers);
        if (source_index && end - source->first_layer != *count)
            return zt_fail(merge->ctx, ZT_EDATA, "%s: a slice has %" PRId64 " layers of %s but %" PRId64 " of %s",
                           merge->recipe->name, end - source->first_layer, name, *count,
                           zt_checkpoint_name(merge->parents[slice->sources[0].model].model));
        *count = end - source->first_layer;
    }
    return ZT_OK;
}

/* Are the child's layers exactly those of the lead? */
static bool is_whole_stack(const zt_merge *merge)
{
    const merge_slice *slice = &merge->recipe->slices[0];
    int lead = find_lead(slice);
    return merge->recipe->slice_count == 1 && slice->sources[lead].first_layer == 0 &&
           (slice->sources[lead].end_layer < 0 ||
            slice->sources[lead].end_layer == merge->layer_counts[slice->sources[lead].model]);
}

static int compare_order(const void *left, const void *right)
{
    const merge_job *first = left, *second = right;
    return first->order < second->order ? -1 : first->order > second->order;
}

static zt_status list_jobs(zt_merge *merge)
{
    merge_planner planner = {.merge = merge};
    const zt_recipe *recipe = merge->recipe;
    int64_t next = 0;
    zt_status status = ZT_OK;
    for (int slice_index = 0; slice_index < recipe->slice_count && status == ZT_OK; slice_index++) {
        int64_t layer_count = 0;
        status = count_slice_layers(merge, &recipe->slices[slice_index], &layer_count);
        if (status == ZT_OK && next + layer_count > LAYERS)
            status = zt_fail(merge->ctx, ZT_EDATA, "%s: too many layers: at most %d are supported", recipe->name, LAYERS);
        if (status == ZT_OK) status = sort_places(&planner, &recipe->slices[slice_index]);
        if (status == ZT_OK) status = check_extra_tensors(merge, &recipe->slices[slice_index], planner.lead);
        if (status == ZT_OK && slice_index == 0) status = add_outside(&planner, true, false);
        if (status == ZT_OK) status = add_layers(&planner, layer_count, &next);
    }
    if (status == ZT_OK) status = add_outside(&planner, false, true);
    if (status == ZT_OK) status = add_head(&planner);
    zt_free(merge->ctx, planner.places);
    merge->restacked = !is_whole_stack(merge);
    if (status == ZT_OK && !merge->restacked) qsort(merge->jobs, (size_t)merge->job_count, sizeof *merge->jobs, compare_order);
    merge->child_layers = next;
    return status;
}

/* ---- types ----------------------------------------------------------------------------------- */

static bool is_float(const zt_entry *entry)
{
    return entry->type.rank >= 0 && entry->type.dtype != ZT_DTYPE_COUNT && zt_dtype_is_float(entry->type.dtype);
}

/* Is the tensor copied without change: not floats, or a method that would not change it? */
static bool is_copied(const zt_merge *merge, const merge_job *job, const merge_values *values)
{
    zt_entry entry;
    if (zt_merge_source_entry(merge, job, job->type_source, &entry) != ZT_OK) return false;
    if (!is_float(&entry) && !job->coded) return true;
    const zt_merge_parent *parent = &merge->parents[job->slice->sources[0].model];
    return merge->recipe->method->max_sources == 1 && !(values->has_each[0] & MP_BIT(MP_SCALE)) &&
           entry.type.dtype == job->entry.type.dtype &&
           !(parent->adapted && zt_adapted_changes(parent->adapted, job->tensors[0]));
}

zt_status zt_merge_retype(zt_merge *merge, int64_t index, zt_dtype dtype, bool search)
{
    if (!merge) return ZT_EUSAGE;
    merge_job *job = &merge->jobs[index];
    zt_type type = job->entry.type;
    bool net = merge->frames[job->slice->sources[job->type_source].model] != NULL; /* a network's types are in its frame */
    char shown[160];
    size_t bytes;
    job->search = search;
    if ((!is_float(&job->entry) && !net) || dtype == type.dtype) return ZT_OK;
    type.dtype = dtype;
    if (net || !zt_quantize_has(dtype) || !zt_type_check(NULL, &type, &bytes))
        return zt_fail(merge->ctx, ZT_ENOTSUP, "tensor '%s': cannot convert %s to %s",
                       zt_escape(shown, sizeof shown, job->entry.name, strlen(job->entry.name)), job->entry.dtype,
                       zt_dtype_get(dtype)->name);
    job->entry.type = type;
    job->entry.dtype = zt_dtype_get(dtype)->name;
    job->entry.bytes = bytes;
    job->copy = false;
    merge->entries[index] = job->entry;
    return ZT_OK;
}

bool zt_merge_copies(const zt_merge *merge, int64_t index) { return merge && merge->jobs[index].copy; }

/* Checks parameters and sets the type. */
static zt_status finish_job(zt_merge *merge, int64_t index, merge_values *values, const char **names)
{
    merge_job *job = &merge->jobs[index];
    for (int source_index = 0; source_index < job->slice->source_count; source_index++) {
        zt_entry entry;
        zt_checkpoint_get(source_model(merge, job->slice, source_index), job->tensors[source_index], &entry);
        names[source_index] = job->head ? job->entry.name : entry.name;
    }
    zt_status status = zt_merge_resolve(merge->recipe, job->slice, job->entry.name, names, job->stack_position, values);
    merge->entries[index] = job->entry;
    if (status == ZT_OK && merge->recipe->dtype != ZT_DTYPE_COUNT)
        status = zt_merge_retype(merge, index, merge->recipe->dtype, false);
    if (status != ZT_OK) return status;
    job->coded = zt_merge_net_codes(merge, job, job->type_source, &job->net_weights);
    if (job->coded && job->entry.type.dtype == ZT_DTYPE_COUNT) merge->entries[index].type.dim[0] = (int64_t)job->entry.bytes;
    job->copy = is_copied(merge, job, values);
    return ZT_OK;
}

zt_status zt_merge_plan(zt_merge *merge)
{
    for (int i = 0; i < merge->recipe->model_count; i++) merge->layer_counts[i] = count_layers(merge->parents[i].model);
    zt_status status = zt_merge_net_open(merge);
    if (status == ZT_OK) status = zt_merge_vocab_plan(merge);
    if (status == ZT_OK) status = check_parents(merge);
    if (status == ZT_OK) status = list_jobs(merge);
    if (status != ZT_OK) return status;
    if (!merge->job_count) return zt_fail(merge->ctx, ZT_EDATA, "%s: no tensors to merge", merge->recipe->name);
    double each[MERGE_SOURCES][MP_COUNT];
    unsigned has[MERGE_SOURCES];
    const char *names[MERGE_SOURCES];
    merge_values values = {.each = each, .has_each = has};
    merge->entries = zt_alloc_array(merge->ctx, (size_t)merge->job_count, sizeof *merge->entries);
    if (!merge->entries) return ZT_ENOMEM;
    for (int64_t i = 0; i < merge->job_count && status == ZT_OK; i++) status = finish_job(merge, i, &values, names);
    return status;
}
