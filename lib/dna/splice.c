/* splice.c - owns children of two models: which layers are mixed, by how much, and how numbers are.
 *
 * A child is a zt_dna that shares A's checkpoint, names and texts, with a plan beside it. */
#include "lib/base/require.h"
#include "lib/dna/dna_file.h"
#include "lib/tensor/quantize.h"

#include <math.h>
#include <string.h>

/* ---- numbers --------------------------------------------------------------------------------- */

static void blend_values(float *values, const float *other, int64_t count, float alpha)
{
    for (int64_t i = 0; i < count; i++) values[i] = values[i] * (1 - alpha) + other[i] * alpha;
}

/* Number at + i is A's below `first`. */
static void cross_over(float *values, const float *other, int64_t offset, int64_t count, int64_t first)
{
    for (int64_t i = offset < first ? first - offset : 0; i < count; i++) values[i] = other[i];
}

/* A random word of 32 bits for each value: for value i of a part, word i % 4 of Philox's position i / 4. */
static void pick_values(float *values, const float *other, int64_t part_index, int64_t offset, int64_t count,
                        const zt_splice_opts *options)
{
    double all = options->fitness_a + options->fitness_b;
    double share = all > 0 ? options->fitness_a / all : 0.5;
    uint64_t below = (uint64_t)(share * 4294967296.0); /* 2^32: always */
    uint32_t word[4] = {0};
    for (int64_t i = offset; i < offset + count; i++) {
        if (i % 4 == 0 || i == offset) zt_philox(options->seed, (uint64_t)part_index, (uint64_t)(i / 4), word);
        if (word[i % 4] >= below) values[i - offset] = other[i - offset];
    }
}

static int64_t first_of_a(double ratio, int64_t count)
{
    double boundary = (double)count * ratio;
    return boundary >= (double)count ? count : boundary > 0 ? (int64_t)boundary : 0;
}

/* B's values [offset, offset + count) of a part. */
static zt_status fetch_b(zt_dna *model_b, int64_t part_index, int64_t offset, int64_t count, float *out)
{
    if (model_b->is_net) return zt_dna_master(model_b, part_index, out);
    zt_dtype dtype = zt_dna_dtype(model_b, part_index);
    size_t bytes = zt_dna_bytes(dtype, count);
    zt_status status = zt_dna_grow_codes(model_b, bytes);
    if (status == ZT_OK) status = zt_dna_fetch(model_b, part_index, offset, count, model_b->codes);
    if (status == ZT_OK) zt_dna_decode(dtype, model_b->codes, out, count);
    return status;
}

zt_status zt_dna_mix(zt_dna *child, int64_t part_index, int64_t offset, int64_t count, float *values)
{
    dna_mix *mix = child->mix;
    if (count > mix->capacity_b) {
        zt_free(child->ctx, mix->values_b);
        mix->capacity_b = 0;
        mix->values_b = zt_alloc_array(child->ctx, (size_t)count, sizeof *mix->values_b);
        if (!mix->values_b) return ZT_ENOMEM;
        mix->capacity_b = count;
    }
    zt_status status = fetch_b(mix->model_b, mix->twins[part_index], offset, count, mix->values_b);
    if (status != ZT_OK) return status;
    if (mix->options.mode == ZT_SPLICE_BLEND)
        blend_values(values, mix->values_b, count, mix->alphas[part_index]);
    else if (mix->options.mode == ZT_SPLICE_POINT)
        cross_over(values, mix->values_b, offset, count, first_of_a(mix->options.ratio, child->parts[part_index].count));
    else
        pick_values(values, mix->values_b, part_index, offset, count, &mix->options);
    return ZT_OK;
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* Are the parts of two layers the same tree of the same dtypes? */
static bool same_parts(const zt_dna *model_a, int64_t part_a, const zt_dna *model_b, int64_t part_b)
{
    int64_t part_count = model_a->parts[part_a].next - part_a;
    bool same = model_b->parts[part_b].next - part_b == part_count;
    for (int64_t part_index = 0; part_index < part_count && same; part_index++) {
        const dna_part *left = &model_a->parts[part_a + part_index], *right = &model_b->parts[part_b + part_index];
        same = left->is_group == right->is_group && left->count == right->count && left->next - part_a == right->next - part_b &&
               (left->tensor < 0) == (right->tensor < 0) && left->weights.type == right->weights.type;
    }
    return same;
}

/* Is the dtype a float type, which can be mixed? Integers are kept. */
static bool is_float(zt_dtype dtype) { return dtype != ZT_DTYPE_COUNT && zt_dtype_is_float(dtype); }

static bool can_mix(const zt_dna *model_a, int64_t index_a, const zt_dna *model_b, int64_t index_b)
{
    const zt_dna_layer *layer_a = &model_a->layers[index_a], *layer_b = &model_b->layers[index_b];
    if (!model_a->is_net) return is_float(layer_a->shape.dtype) && is_float(layer_b->shape.dtype);
    const dna_part *part = &model_a->parts[model_a->first_parts[index_a]];
    return strcmp(layer_a->dtype, layer_b->dtype) == 0 &&
           same_parts(model_a, model_a->first_parts[index_a], model_b, model_b->first_parts[index_b]) &&
           (model_a->rule == ZT_RULE_FIELD || !part->is_group);
}

/* The scale of the child's own weights. */
static zt_status find_own_scale(zt_dna *child, int64_t part_index)
{
    dna_part *part = &child->parts[part_index];
    float *values = zt_alloc_array(child->ctx, (size_t)part->count, sizeof *values);
    zt_status status = values ? zt_dna_mixed(child, part_index, values) : ZT_ENOMEM;
    if (status == ZT_OK) part->weights.scale = zt_storage_scale(zt_net_nearest(&part->weights).type, values, part->count);
    zt_free(child->ctx, values);
    return status;
}

/* Codes of a byte and more hold what is between A's and B's with the larger scale of the two; where
 * there are few codes, or the scale is a mean of magnitudes, that would be far from the nearest. */
static zt_status find_scale(zt_dna *child, int64_t part_index, const dna_part *part_b)
{
    dna_part *part = &child->parts[part_index];
    if (!part->weights.native || !part_b->weights.native) return ZT_OK;
    if (zt_storage_get(part->weights.type)->bits < 8) return find_own_scale(child, part_index);
    if (part_b->weights.scale > part->weights.scale) part->weights.scale = part_b->weights.scale;
    return ZT_OK;
}

static zt_status plan_parts(zt_dna *child, int64_t index_a, int64_t index_b, float alpha, bool *any)
{
    const zt_dna *model_b = child->mix->model_b;
    int64_t part_a = child->first_parts[index_a], part_b = model_b->first_parts[index_b];
    zt_status status = ZT_OK;
    *any = false;
    for (int64_t k = 0; part_a + k < child->parts[part_a].next && status == ZT_OK; k++) {
        if (child->parts[part_a + k].tensor < 0) continue;
        child->mix->twins[part_a + k] = part_b + k;
        child->mix->alphas[part_a + k] = alpha;
        if (child->is_net) status = find_scale(child, part_a + k, &model_b->parts[part_b + k]);
        *any = true;
    }
    return status;
}

static double share_of_b(const zt_splice_opts *options, double similarity)
{
    double all = options->fitness_a + options->fitness_b;
    return all > 0 ? options->fitness_b / all * (0.5 + 0.5 * similarity) : options->alpha;
}

static zt_status plan_layer(zt_dna *child, const zt_dna *model_a, const zt_dna_score *score)
{
    zt_splice_row *row = &child->mix->rows[score->layer_a];
    const zt_dna_layer *layer = &model_a->layers[score->layer_a];
    *row = (zt_splice_row){.layer_b = score->layer_b, .similarity = score->overlap};
    if (isnan(score->cosine) || !can_mix(model_a, score->layer_a, child->mix->model_b, score->layer_b)) return ZT_OK;
    row->alpha = share_of_b(&child->mix->options, score->overlap);
    zt_status status = plan_parts(child, score->layer_a, score->layer_b, (float)row->alpha, &row->mixed);
    if (status != ZT_OK) return status;
    zt_dtype dtype = layer->shape.dtype;
    bool writes = child->is_net || zt_dtype_get(dtype)->kind == 'F' || zt_dtype_is_packed(dtype) || zt_quantize_has(dtype);
    return writes || !row->mixed
               ? ZT_OK
               : zt_fail(model_a->ctx, ZT_ENOTSUP, "%s: '%s': writing %s is not supported: convert the model first",
                         zt_dna_name(model_a), layer->name, layer->dtype);
}

static zt_status plan_layers(zt_dna *child, zt_dna *model_a, zt_dna *model_b, const zt_dna_compare_opts *work)
{
    zt_dna_verdict verdict = {.ctx = NULL};
    zt_dna_compare_opts options = *work;
    options.ranks = options.shifts = false;
    zt_status status = zt_dna_compare(model_a, model_b, &options, &verdict);
    for (int64_t k = 0; k < verdict.score_count && status == ZT_OK; k++) status = plan_layer(child, model_a, &verdict.scores[k]);
    zt_dna_verdict_free(&verdict);
    return status;
}

/* ---- the child ------------------------------------------------------------------------------- */

static zt_status make_room(zt_dna *child, const zt_dna *model_a, zt_dna *model_b, const zt_splice_opts *options)
{
    size_t parts = (size_t)model_a->part_count + 1, layers = (size_t)model_a->layer_count + 1;
    dna_mix *mix = child->mix;
    child->parts = zt_alloc_array(child->ctx, parts, sizeof *child->parts);
    if (!child->parts) return ZT_ENOMEM;
    mix->model_b = model_b;
    mix->options = *options;
    mix->twins = zt_alloc_array(child->ctx, parts, sizeof *mix->twins);
    mix->alphas = zt_calloc(child->ctx, parts, sizeof *mix->alphas);
    mix->weights_a = zt_calloc(child->ctx, parts, sizeof *mix->weights_a);
    mix->rows = zt_alloc_array(child->ctx, layers, sizeof *mix->rows);
    if (!mix->twins || !mix->alphas || !mix->weights_a || !mix->rows) return ZT_ENOMEM;
    for (int64_t part_index = 0; part_index < model_a->part_count; part_index++) {
        child->parts[part_index] = model_a->parts[part_index];
        mix->weights_a[part_index] = model_a->parts[part_index].weights;
        mix->twins[part_index] = -1;
    }
    for (int64_t i = 0; i < model_a->layer_count; i++) mix->rows[i] = (zt_splice_row){.layer_b = -1};
    return ZT_OK;
}

zt_dna *zt_dna_splice(zt_dna *model_a, zt_dna *model_b, const zt_splice_opts *options, const zt_dna_compare_opts *work)
{
    if (!model_a) return NULL;
    ZT_REQUIRE(model_a->ctx, model_b && options && work, NULL);
    const zt_dna *signed_model = model_a->lengths ? model_a : model_b->lengths ? model_b : NULL;
    if (signed_model) {
        zt_fail(model_a->ctx, ZT_ENOTSUP, "%s: holds signatures, not a model", zt_dna_name(signed_model));
        return NULL;
    }
    zt_dna *child = zt_alloc(model_a->ctx, sizeof *child);
    dna_mix *mix = child ? zt_calloc(model_a->ctx, 1, sizeof *mix) : NULL;
    if (!mix) {
        zt_free(model_a->ctx, child);
        return NULL;
    }
    *child = *model_a;
    child->mix = mix; /* from here on zt_dna_close knows a child */
    child->held_values = NULL;
    child->codes = NULL;
    child->held_capacity = 0;
    child->codes_capacity = 0;
    child->held_layer = -1;
    child->parts = NULL;
    zt_status status = make_room(child, model_a, model_b, options);
    if (status == ZT_OK) status = plan_layers(child, model_a, model_b, work);
    if (status == ZT_OK) return child;
    zt_dna_close(child);
    return NULL;
}

const zt_splice_row *zt_dna_splice_row(const zt_dna *child, int64_t index)
{
    if (!child || !child->mix || index < 0 || index >= zt_dna_count(child)) return NULL;
    return &child->mix->rows[index];
}
