/* merge_plan.c - owns what the child consists of: which tensors of which parents make each of its
 * own, how layers are numbered, that shapes agree, and the types.
 */
#include "lib/dna/merge_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 1 << 16 };

/* ---- places ---------------------------------------------------------------------------------- */

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

/* What comes before the layers; all else that is of none comes behind them. */
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

/* A model's tensors by layer: those of none have -1. */
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
    const merge_slice *slice; /* and the model that tells its tensors */
    int lead;
    placed_tensor *places; /* of that model */
    int64_t place_count;
    int64_t job_capacity; /* jobs */
} merge_planner;

/* The source whose names and types count: the base, else the first. */
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
    for (int64_t i = 0; i < planner->place_count; i++) {
        zt_entry entry;
        size_t digits_at, digit_count;
        zt_checkpoint_get(checkpoint, i, &entry);
        planner->places[i] = (placed_tensor){zt_merge_layer(entry.name, &digits_at, &digit_count), i};
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

/* Has the tensor of codes its scales in another tensor, as FP8 often has? */
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
        return zt_fail(merge->ctx, ZT_ESHAPE, "%s: tensor '%s' is %s, in %s it is %s", source_name, name,
                       entry->type.rank < 0 ? entry->dtype : zt_type_text(&entry->type, text_source), lead_name,
                       lead->type.rank < 0 ? lead->dtype : zt_type_text(&lead->type, text_lead));
    bool floats = entry->type.dtype != ZT_DTYPE_COUNT && zt_dtype_is_float(entry->type.dtype);
    if (merge->frames[planner->slice->sources[source].model])
        return zt_merge_net_check(merge, planner->slice->sources[source].model,
                                  zt_checkpoint_find(source_model(merge, planner->slice, source), entry->name));
    bool lead_floats = lead->type.dtype != ZT_DTYPE_COUNT && zt_dtype_is_float(lead->type.dtype);
    if (floats && has_scales(source_model(merge, planner->slice, source), entry))
        return zt_fail(merge->ctx, ZT_ENOTSUP, "%s: '%s' is %s codes with scales in another tensor", source_name, name,
                       entry->dtype);
    if (floats != lead_floats)
        return zt_fail(merge->ctx, ZT_ESHAPE, "%s: tensor '%s' is %s, in %s it is %s", source_name, name, entry->dtype, lead_name,
                       lead->dtype);
    if (floats && !zt_dtype_get(entry->type.dtype)->decode)
        return zt_fail(merge->ctx, ZT_ENOTSUP, "%s: tensor '%s': %s cannot be decoded", source_name, name, entry->dtype);
    return ZT_OK;
}

/* With adapters a tensor is f32 here, and of the model's own type in the child. */
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
    merge_job *job = &merge->jobs[merge->job_count];
    *job = (merge_job){
        .entry = lead, .slice = slice, .stack_position = stack_position, .order = index, .type_source = planner->lead};
    job->entry.name = renumber_name(merge->arena, lead.name, child_layer);
    job->tensors = zt_arena_alloc(merge->arena, (size_t)slice->source_count * sizeof *job->tensors);
    if (!job->entry.name || !job->tensors) return ZT_ENOMEM;
    zt_status status = put_stored_type(merge, &merge->parents[slice->sources[planner->lead].model], index, &job->entry);
    if (status != ZT_OK) return status;
    for (int k = 0; k < slice->source_count; k++) {
        const char *name =
            renumber_name(merge->arena, lead.name, layer_offset < 0 ? -1 : slice->sources[k].first_layer + layer_offset);
        char shown[160];
        if (!name) return ZT_ENOMEM;
        job->tensors[k] = zt_merge_find(source_model(merge, slice, k), name);
        if (job->tensors[k] < 0)
            return zt_fail(merge->ctx, ZT_EDATA, "%s: has no tensor '%s', which %s has",
                           zt_checkpoint_name(source_model(merge, slice, k)), zt_escape(shown, sizeof shown, name, strlen(name)),
                           zt_checkpoint_name(source_model(merge, slice, planner->lead)));
        zt_merge_net_entry(merge, slice->sources[k].model, job->tensors[k], &entry);
        job->head = job->head || (layer_offset < 0 && strcmp(entry.name, name));
        status = check_source(planner, &lead, &entry, k);
        if (status != ZT_OK) return status;
    }
    merge->job_count++;
    return ZT_OK;
}

/* ---- all tensors ----------------------------------------------------------------------------- */

/* Those of no layer: of the first slice what comes before them, of the last what comes behind. */
static zt_status add_outside(merge_planner *planner, bool before, bool behind)
{
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < planner->place_count && planner->places[i].layer < 0 && status == ZT_OK; i++) {
        zt_entry entry;
        zt_checkpoint_get(source_model(planner->merge, planner->slice, planner->lead), planner->places[i].index, &entry);
        if (is_before(entry.name) ? before : behind) status = add_job(planner, planner->places[i].index, NULL, -1, -1, 0);
    }
    return status;
}

/* The head, where the lead has its embedding for it and a parent has one. */
static zt_status add_head(merge_planner *planner)
{
    zt_checkpoint *checkpoint = source_model(planner->merge, planner->slice, planner->lead);
    const char *name = zt_merge_head_name(planner->merge);
    int64_t embedding = name && zt_merge_head(checkpoint) < 0 ? zt_merge_find(checkpoint, name) : -1;
    if (embedding < 0) return ZT_OK;
    zt_status status = add_job(planner, embedding, name, -1, -1, 0);
    if (status == ZT_OK) planner->merge->jobs[planner->merge->job_count - 1].order = planner->place_count; /* behind all others */
    return status;
}

/* The first place at or above a layer. */
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

/* How many layers a slice has, the same of each source. */
static zt_status count_slice_layers(const zt_merge *merge, merge_slice *slice, int64_t *count)
{
    for (int k = 0; k < slice->source_count; k++) {
        merge_source *source = &slice->sources[k];
        int64_t model_layers = merge->layer_counts[source->model];
        const char *name = zt_checkpoint_name(merge->parents[source->model].model);
        int64_t end = source->end_layer < 0 ? model_layers : source->end_layer;
        if (end > model_layers)
            return zt_fail(merge->ctx, ZT_EDATA, "%s: layers %" PRId64 " to %" PRId64 " of %s, which has %" PRId64,
                           merge->recipe->name, source->first_layer, end, name, model_layers);
        if (k && end - source->first_layer != *count)
            return zt_fail(merge->ctx, ZT_EDATA, "%s: %" PRId64 " layers of %s beside %" PRId64 " of %s", merge->recipe->name,
                           end - source->first_layer, name, *count,
                           zt_checkpoint_name(merge->parents[slice->sources[0].model].model));
        *count = end - source->first_layer;
    }
    return ZT_OK;
}

/* Is the child's stack the lead's own? */
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
    for (int i = 0; i < recipe->slice_count && status == ZT_OK; i++) {
        int64_t layer_count = 0;
        status = count_slice_layers(merge, &recipe->slices[i], &layer_count);
        if (status == ZT_OK && next + layer_count > LAYERS)
            status = zt_fail(merge->ctx, ZT_EDATA, "%s: more than %d layers", recipe->name, LAYERS);
        if (status == ZT_OK) status = sort_places(&planner, &recipe->slices[i]);
        if (status == ZT_OK) status = zt_merge_check_extra(merge, &recipe->slices[i], planner.lead);
        if (status == ZT_OK && i == 0) status = add_outside(&planner, true, false);
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

/* Does it go over as it is: no floats, or a method that would change nothing? */
static bool is_copied(const zt_merge *merge, const merge_job *job, const merge_values *values)
{
    zt_entry entry;
    zt_checkpoint_get(source_model(merge, job->slice, job->type_source), job->tensors[job->type_source], &entry);
    if (!is_float(&entry) && !job->coded) return true;
    const zt_merge_parent *parent = &merge->parents[job->slice->sources[0].model];
    return merge->recipe->method->max_sources == 1 && !(values->has_each[0] & MP_BIT(MP_SCALE)) &&
           entry.type.dtype == job->entry.type.dtype &&
           !(parent->adapted && zt_adapted_changes(parent->adapted, job->tensors[0]));
}

zt_status zt_merge_retype(zt_merge *merge, int64_t index, zt_dtype dtype, bool search)
{
    merge_job *job = &merge->jobs[index];
    zt_type type = job->entry.type;
    bool net = merge->frames[job->slice->sources[job->type_source].model] != NULL; /* its frame says the types */
    char shown[160];
    size_t bytes;
    job->search = search;
    if ((!is_float(&job->entry) && !net) || dtype == type.dtype) return ZT_OK;
    type.dtype = dtype;
    if (net || !zt_quantize_has(dtype) || !zt_type_check(NULL, &type, &bytes))
        return zt_fail(merge->ctx, ZT_ENOTSUP, "tensor '%s': %s does not become %s",
                       zt_escape(shown, sizeof shown, job->entry.name, strlen(job->entry.name)), job->entry.dtype,
                       zt_dtype_get(dtype)->name);
    job->entry.type = type;
    job->entry.dtype = zt_dtype_get(dtype)->name;
    job->entry.bytes = bytes;
    job->copy = false;
    merge->entries[index] = job->entry;
    return ZT_OK;
}

bool zt_merge_copies(const zt_merge *merge, int64_t index) { return merge->jobs[index].copy; }

/* Its parameters are sound, its type can be written. */
static zt_status finish_job(zt_merge *merge, int64_t index, merge_values *values, const char **names)
{
    merge_job *job = &merge->jobs[index];
    for (int k = 0; k < job->slice->source_count; k++) {
        zt_entry entry;
        zt_checkpoint_get(source_model(merge, job->slice, k), job->tensors[k], &entry);
        names[k] = job->head ? job->entry.name : entry.name;
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
    if (status == ZT_OK) status = zt_merge_check_parents(merge);
    if (status == ZT_OK) status = list_jobs(merge);
    if (status != ZT_OK) return status;
    if (!merge->job_count) return zt_fail(merge->ctx, ZT_EDATA, "%s: there is no tensor to merge", merge->recipe->name);
    double each[MERGE_SOURCES][MP_COUNT];
    unsigned has[MERGE_SOURCES];
    const char *names[MERGE_SOURCES];
    merge_values values = {.each = each, .has_each = has};
    merge->entries = zt_alloc_array(merge->ctx, (size_t)merge->job_count, sizeof *merge->entries);
    if (!merge->entries) return ZT_ENOMEM;
    for (int64_t i = 0; i < merge->job_count && status == ZT_OK; i++) status = finish_job(merge, i, &values, names);
    return status;
}
