/* compare.c - owns the comparison of two models: layers of equal names, totals, which layers have changed by more than
 * rounding, and which layers of one are found at another place in the other. */
#include "lib/base/require.h"
#include "lib/dna/dna_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rounding and changes -------------------------------------------------------------------- */

/* The maximum relative error (L2) of normally distributed values in a dtype of so many bits: measured with zt's own
 * quantizers, plus about a half. */
static double find_bits_rounding(double bits)
{
    static const struct {
        double bits, error;
    } rows[] = {{8, 0.02}, {6, 0.04}, {5, 0.07}, {4, 0.16}, {3, 0.3}, {2, 0.5}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (bits >= rows[i].bits) return rows[i].error;
    return 0.9;
}

static double find_rounding(const char *dtype)
{
    static const struct {
        const char *name;
        double error;
    } floats[] = {{"f64", 1e-6},     {"f32", 1e-6},  {"float64", 1e-6},  {"float32", 1e-6}, {"f16", 1e-3},
                  {"float16", 1e-3}, {"bf16", 4e-3}, {"bfloat16", 4e-3}, {"f8_e4m3", 0.06}, {"f8_e5m2", 0.1}};
    zt_dtype parsed;
    size_t length = strlen(dtype);
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (!strncmp(dtype, floats[i].name, strlen(floats[i].name))) return floats[i].error;
    if (zt_dtype_parse(dtype, length, &parsed)) {
        const zt_dtype_info *info = zt_dtype_get(parsed);
        return find_bits_rounding(8.0 * info->block_bytes / info->block);
    }
    const char *digits = strpbrk(dtype, "0123456789"); /* "int8", "fp4", "uint2" of networks */
    return find_bits_rounding(digits ? strtod(digits, NULL) : 1);
}

static int compare_sizes(const void *left, const void *right)
{
    double left_size = *(const double *)left, right_size = *(const double *)right;
    return (left_size > right_size) - (left_size < right_size);
}

static double find_median(double *values, int64_t count)
{
    qsort(values, (size_t)count, sizeof *values, compare_sizes);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

typedef struct change_marker {
    const zt_dna *model_a, *model_b;
    zt_dna_verdict *verdict;
} change_marker;

static bool have_same_dtypes(const change_marker *marking, const zt_dna_score *first, const zt_dna_score *second)
{
    return strcmp(marking->model_a->layers[first->layer_a].dtype, marking->model_a->layers[second->layer_a].dtype) == 0 &&
           strcmp(marking->model_b->layers[first->layer_b].dtype, marking->model_b->layers[second->layer_b].dtype) == 0;
}

/* outlier: the layer differs by more than is usual between layers of these two dtypes. */
static zt_dna_change classify_change(const change_marker *marking, const zt_dna_score *score, bool outlier)
{
    double distance = isnan(score->rel_l2) ? sqrt(2 * fmax(0, 1 - score->overlap)) : score->rel_l2;
    double cosine = isnan(score->cosine) ? score->overlap : score->cosine;
    double rounding = find_rounding(marking->model_a->layers[score->layer_a].dtype) +
                      find_rounding(marking->model_b->layers[score->layer_b].dtype);
    if (score->same) return ZT_DNA_SAME;
    if (distance <= rounding) return outlier ? ZT_DNA_CHANGED : ZT_DNA_ROUNDED;
    return cosine < 0.5 ? ZT_DNA_UNRELATED : ZT_DNA_CHANGED;
}

/* Classifies the layers that have the dtypes of layer first_index. Rounding makes all layers of two dtypes differ by about
 * the same rel_l2. A layer is an outlier, and so has changed, if
 *
 *     rel_l2 > m + max(6 * 1.4826 * median(|rel_l2 - m|), m / 2)    with m = median(rel_l2)
 *
 * Where most layers do not differ at all, m is 0 and any difference is a change. values: buffer for all layers. */
static void mark_group(const change_marker *marking, int64_t first_index, double *values, bool *seen)
{
    zt_dna_verdict *verdict = marking->verdict;
    const zt_dna_score *first = &verdict->scores[first_index];
    int64_t count = 0;
    for (int64_t i = first_index; i < verdict->score_count; i++)
        if (have_same_dtypes(marking, first, &verdict->scores[i]) && !isnan(verdict->scores[i].rel_l2))
            values[count++] = verdict->scores[i].rel_l2;
    double middle = count ? find_median(values, count) : 0;
    for (int64_t i = 0; i < count; i++) values[i] = fabs(values[i] - middle);
    double six = count ? 6 * 1.4826 * find_median(values, count) : 0, half = middle / 2;
    for (int64_t score_index = first_index; score_index < verdict->score_count; score_index++) {
        zt_dna_score *score = &verdict->scores[score_index];
        if (seen[score_index] || !have_same_dtypes(marking, first, score)) continue;
        seen[score_index] = true;
        score->change = classify_change(marking, score, score->rel_l2 > middle + (six > half ? six : half));
        score->changed = score->change == ZT_DNA_CHANGED || score->change == ZT_DNA_UNRELATED;
    }
}

static zt_status mark_changes(const zt_dna *model_a, const zt_dna *model_b, zt_dna_verdict *verdict)
{
    const change_marker marking = {model_a, model_b, verdict};
    double *values = zt_alloc_array(model_a->ctx, (size_t)verdict->score_count + 1, sizeof *values);
    bool *seen = zt_calloc(model_a->ctx, (size_t)verdict->score_count + 1, sizeof *seen);
    for (int64_t k = 0; values && seen && k < verdict->score_count; k++)
        if (!seen[k]) mark_group(&marking, k, values, seen);
    zt_free(model_a->ctx, values);
    zt_free(model_a->ctx, seen);
    return values && seen ? ZT_OK : ZT_ENOMEM;
}

const char *zt_dna_change_word(zt_dna_change change)
{
    if ((unsigned)change > ZT_DNA_UNRELATED) return NULL;
    static const char *const words[] = {[ZT_DNA_SAME] = "no",
                                        [ZT_DNA_ROUNDED] = "identical within rounding",
                                        [ZT_DNA_CHANGED] = "yes",
                                        [ZT_DNA_UNRELATED] = "unrelated"};
    return words[change];
}

/* ---- two models -------------------------------------------------------------------------------- */

#define SHIFT_ABOVE 0.8 /* the overlap of a shift must be above this: Loom's bound */
#define DOUBT       0.2 /* the error of sketches of DNA_BUCKETS exceeds this once in 10^9 */

typedef struct model_pairing {
    zt_dna *model_a, *model_b;
    const zt_dna_compare_opts *options;
    zt_dna_verdict *verdict;
    dna_workers *crew;
    double *sketches[2]; /* of long layers, in each model's order; NULL: not needed */
    bool *sketched[2];
    int64_t done, total;
    double sum_aa, sum_bb, sum_ab, sum_dd; /* over all layers */
} model_pairing;

static bool is_wanted(const model_pairing *pairing, const char *name)
{
    return !pairing->options->wanted || pairing->options->wanted(pairing->options->user, name);
}

static bool is_loom(const model_pairing *pairing) { return pairing->model_a->rule == ZT_RULE_LOOM; }

static zt_status report_progress(model_pairing *p, const char *layer)
{
    return p->options->progress ? p->options->progress(p->options->user, layer, p->done++, p->total) : ZT_OK;
}

static double *sketch_of(const model_pairing *pairing, int side, int64_t index)
{
    const zt_dna *model = side ? pairing->model_b : pairing->model_a;
    return pairing->sketches[side] && model->layers[index].count > DNA_SHORT ? pairing->sketches[side] + index * DNA_BUCKETS
                                                                             : NULL;
}

/* ---- a pair of layers ------------------------------------------------------------------------ */

static bool have_same_dims(const zt_type *left, const zt_type *right)
{
    bool same = left->rank == right->rank;
    for (int k = 0; same && k < left->rank; k++) same = left->dim[k] == right->dim[k];
    return same;
}

/* Can two layers be compared? Not if zt cannot decode one of them. */
static bool layers_fit(const model_pairing *pairing, int64_t index_a, int64_t index_b)
{
    const zt_dna_layer *layer_a = &pairing->model_a->layers[index_a], *layer_b = &pairing->model_b->layers[index_b];
    return layer_a->count == layer_b->count && strcmp(layer_a->type, layer_b->type) == 0 &&
           have_same_dims(&layer_a->shape, &layer_b->shape) && layer_a->shape.dtype != ZT_DTYPE_COUNT &&
           layer_b->shape.dtype != ZT_DTYPE_COUNT && (!is_loom(pairing) || strcmp(layer_a->dtype, layer_b->dtype) == 0);
}

float zt_dna_similarity(const float *values_a, const float *values_b, int64_t count)
{
    if (!values_a || (!values_b && count)) return 0;
    bool some_a = false, some_b = false;
    float dot = 0;
    for (int64_t i = 0; i < count; i++) {
        some_a = some_a || values_a[i] != 0;
        some_b = some_b || values_b[i] != 0;
        dot += values_a[i] * values_b[i];
    }
    return some_a && some_b ? dot : some_a == some_b;
}

static double cosine_of(double sum_aa, double sum_bb, double sum_ab)
{
    if (sum_aa == 0 || sum_bb == 0) return sum_aa == sum_bb;
    double cosine = sum_ab / (sqrt(sum_aa) * sqrt(sum_bb));
    return cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
}

/* Loom's overlap: the similarity of signatures, which are read whole. */
static zt_status compare_signatures(model_pairing *pairing, int64_t index_a, int64_t index_b, double *out)
{
    zt_ctx *ctx = pairing->model_a->ctx;
    int64_t count = pairing->model_a->layers[index_a].count;
    float *signature_a = zt_alloc_array(ctx, (size_t)count, sizeof *signature_a);
    float *signature_b = signature_a ? zt_alloc_array(ctx, (size_t)count, sizeof *signature_b) : NULL;
    zt_status status = signature_b ? zt_dna_sign(pairing->model_a, index_a, signature_a, NULL) : ZT_ENOMEM;
    if (status == ZT_OK) status = zt_dna_sign(pairing->model_b, index_b, signature_b, NULL);
    if (status == ZT_OK) *out = (double)zt_dna_similarity(signature_a, signature_b, count);
    zt_free(ctx, signature_a);
    zt_free(ctx, signature_b);
    return status;
}

/* Only the overlap of two layers that fit together. */
static zt_status overlap_of(model_pairing *pairing, int64_t index_a, int64_t index_b, double *out)
{
    dna_sums sums;
    if (is_loom(pairing)) return compare_signatures(pairing, index_a, index_b, out);
    zt_status status = zt_dna_sum(pairing->crew, pairing->model_a, index_a, pairing->model_b, index_b, false, &sums, NULL, NULL);
    if (status == ZT_OK) *out = cosine_of(sums.sum_aa, sums.sum_bb, sums.sum_ab);
    return status;
}

static double standard_deviation(double sum, double squares, int64_t count)
{
    double mean = sum / (double)count, variance = squares / (double)count - mean * mean;
    return variance > 0 ? sqrt(variance) : 0;
}

static void fill_score(zt_dna_score *score, const dna_sums *sums, int64_t count)
{
    double deviation_a = standard_deviation(sums->sum_a, sums->sum_aa, count),
           deviation_b = standard_deviation(sums->sum_b, sums->sum_bb, count);
    score->cosine = sums->sum_dd == 0 ? 1 : cosine_of(sums->sum_aa, sums->sum_bb, sums->sum_ab);
    score->rel_l2 = sums->sum_dd == 0 ? 0 : sqrt(sums->sum_dd / sums->sum_aa);
    score->spread = deviation_a == deviation_b ? 1 : deviation_b / deviation_a;
    score->rank_a = sums->rank_a;
    score->rank_b = sums->rank_b;
    score->max_diff = sums->max_diff;
    score->same = sums->sum_dd == 0;
    score->sum_aa = sums->sum_aa;
    score->sum_bb = sums->sum_bb;
    score->sum_ab = sums->sum_ab;
    score->sum_dd = sums->sum_dd;
}

static zt_status score_layers(model_pairing *pairing, int64_t index_a, int64_t index_b)
{
    zt_dna_score *score = &pairing->verdict->scores[pairing->verdict->score_count++];
    dna_sums sums;
    *score = (zt_dna_score){.layer_a = index_a,
                            .layer_b = index_b,
                            .cosine = NAN,
                            .rel_l2 = NAN,
                            .spread = NAN,
                            .max_diff = NAN,
                            .rank_a = NAN,
                            .rank_b = NAN};
    zt_status status = report_progress(pairing, pairing->model_a->layers[index_a].name);
    if (status != ZT_OK || !layers_fit(pairing, index_a, index_b)) return status;
    double *sketch_a = sketch_of(pairing, 0, index_a), *sketch_b = sketch_of(pairing, 1, index_b);
    status = zt_dna_sum(pairing->crew, pairing->model_a, index_a, pairing->model_b, index_b, pairing->options->ranks, &sums,
                        sketch_a, sketch_b);
    if (status != ZT_OK) return status;
    if (sketch_a) pairing->sketched[0][index_a] = pairing->sketched[1][index_b] = true;
    fill_score(score, &sums, pairing->model_a->layers[index_a].count);
    score->overlap = score->cosine;
    pairing->verdict->fit_count++;
    pairing->verdict->same_count += score->same;
    pairing->sum_aa += sums.sum_aa;
    pairing->sum_bb += sums.sum_bb;
    pairing->sum_ab += sums.sum_ab;
    pairing->sum_dd += sums.sum_dd;
    return is_loom(pairing) ? compare_signatures(pairing, index_a, index_b, &score->overlap) : ZT_OK;
}

static zt_status score_all(model_pairing *pairing)
{
    zt_dna_verdict *verdict = pairing->verdict;
    zt_status status = ZT_OK;
    double sum = 0;
    for (int64_t layer_index = 0; layer_index < pairing->model_a->layer_count && status == ZT_OK; layer_index++) {
        if (!is_wanted(pairing, pairing->model_a->layers[layer_index].name)) continue;
        int64_t j = zt_dna_find(pairing->model_b, pairing->model_a->layers[layer_index].name);
        if (j >= 0)
            status = score_layers(pairing, layer_index, j);
        else
            verdict->only_a++;
    }
    for (int64_t j = 0; j < pairing->model_b->layer_count; j++)
        verdict->only_b += is_wanted(pairing, pairing->model_b->layers[j].name) &&
                           zt_dna_find(pairing->model_a, pairing->model_b->layers[j].name) < 0;
    for (int64_t k = 0; k < verdict->score_count; k++) sum += verdict->scores[k].overlap;
    verdict->overlap = verdict->score_count ? sum / (double)verdict->score_count : 0;
    verdict->cosine =
        verdict->fit_count ? (pairing->sum_dd == 0 ? 1 : cosine_of(pairing->sum_aa, pairing->sum_bb, pairing->sum_ab)) : NAN;
    verdict->rel_l2 = verdict->fit_count ? (pairing->sum_dd == 0 ? 0 : sqrt(pairing->sum_dd / pairing->sum_aa)) : NAN;
    return status;
}

/* ---- shifts ---------------------------------------------------------------------------------- */

/* May layer j of b be above `least` for layer i of a, by their sketches? */
static bool may_be(const model_pairing *pairing, int64_t index, int64_t j, double least)
{
    const double *sketch_a = sketch_of(pairing, 0, index), *sketch_b = sketch_of(pairing, 1, j);
    double sum_aa = 0, sum_bb = 0, sum_ab = 0;
    if (!sketch_a || !pairing->sketched[0][index] || !pairing->sketched[1][j]) return true;
    for (int k = 0; k < DNA_BUCKETS; k++) {
        sum_aa += sketch_a[k] * sketch_a[k];
        sum_bb += sketch_b[k] * sketch_b[k];
        sum_ab += sketch_a[k] * sketch_b[k];
    }
    return !(cosine_of(sum_aa, sum_bb, sum_ab) < least - DOUBT);
}

static const zt_dna_score *row_of(const model_pairing *pairing, int64_t index, int64_t *next)
{
    while (*next < pairing->verdict->score_count && pairing->verdict->scores[*next].layer_a < index) ++*next;
    return *next < pairing->verdict->score_count && pairing->verdict->scores[*next].layer_a == index
               ? &pairing->verdict->scores[*next]
               : NULL;
}

/* The first layer of b with the greatest overlap. */
static zt_status find_best(model_pairing *pairing, int64_t index, const zt_dna_score *own, zt_dna_shift *best)
{
    zt_status status = ZT_OK;
    *best = (zt_dna_shift){.from_layer = index, .to_layer = -1, .overlap = -INFINITY};
    for (int64_t layer_index = 0; layer_index < pairing->model_b->layer_count && status == ZT_OK; layer_index++) {
        double overlap = 0, least = SHIFT_ABOVE;
        if (pairing->model_a->layers[index].count != pairing->model_b->layers[layer_index].count ||
            !is_wanted(pairing, pairing->model_b->layers[layer_index].name))
            continue;
        if (own && own->overlap > least) least = own->overlap;
        if (best->overlap > least) least = best->overlap;
        if (own && own->layer_b == layer_index)
            overlap = own->overlap;
        else if (layers_fit(pairing, index, layer_index) && may_be(pairing, index, layer_index, least))
            status = overlap_of(pairing, index, layer_index, &overlap);
        if (overlap > best->overlap) best->to_layer = layer_index, best->overlap = overlap;
    }
    return status;
}

static zt_status find_shifts(model_pairing *pairing)
{
    zt_dna_verdict *verdict = pairing->verdict;
    zt_status status = ZT_OK;
    int64_t next = 0;
    verdict->shifts = zt_alloc_array(pairing->model_a->ctx, (size_t)pairing->model_a->layer_count + 1, sizeof *verdict->shifts);
    if (!verdict->shifts) return ZT_ENOMEM;
    for (int64_t layer_index = 0; layer_index < pairing->model_a->layer_count && status == ZT_OK; layer_index++) {
        zt_dna_shift best;
        const zt_dna_layer *layer_a = &pairing->model_a->layers[layer_index], *layer_b;
        if (!is_wanted(pairing, layer_a->name)) continue;
        status = report_progress(pairing, layer_a->name);
        if (status == ZT_OK) status = find_best(pairing, layer_index, row_of(pairing, layer_index, &next), &best);
        if (status != ZT_OK || best.to_layer < 0 || !(best.overlap > SHIFT_ABOVE)) continue;
        layer_b = &pairing->model_b->layers[best.to_layer];
        if (memcmp(layer_a->place, layer_b->place, sizeof layer_a->place) != 0) verdict->shifts[verdict->shift_count++] = best;
    }
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static zt_status prepare_pairing(model_pairing *pairing)
{
    zt_ctx *ctx = pairing->model_a->ctx;
    const zt_dna *both[2] = {pairing->model_a, pairing->model_b};
    pairing->crew = zt_dna_workers_new(ctx, pairing->options->threads > 0 ? pairing->options->threads : 1);
    pairing->verdict->scores = zt_alloc_array(ctx, (size_t)pairing->model_a->layer_count + 1, sizeof *pairing->verdict->scores);
    pairing->total = pairing->model_a->layer_count * (pairing->options->shifts ? 2 : 1);
    for (int side = 0; side < 2 && pairing->options->shifts; side++) {
        size_t length = (size_t)both[side]->layer_count + 1;
        pairing->sketches[side] = zt_alloc_array(ctx, length, DNA_BUCKETS * sizeof *pairing->sketches[side]);
        pairing->sketched[side] = zt_calloc(ctx, length, sizeof *pairing->sketched[side]);
        if (!pairing->sketches[side] || !pairing->sketched[side]) return ZT_ENOMEM;
    }
    return pairing->crew && pairing->verdict->scores ? ZT_OK : ZT_ENOMEM;
}

zt_status zt_dna_compare(zt_dna *model_a, zt_dna *model_b, const zt_dna_compare_opts *options, zt_dna_verdict *verdict)
{
    if (!model_a) return ZT_EUSAGE;
    ZT_REQUIRE(model_a->ctx, verdict, ZT_EUSAGE);
    *verdict = (zt_dna_verdict){.ctx = model_a->ctx};
    ZT_REQUIRE(model_a->ctx, model_b && options, ZT_EUSAGE);
    if (model_a->rule != model_b->rule)
        return zt_fail(model_a->ctx, ZT_EUSAGE, "%s and %s: signatures made by different rules cannot be compared",
                       zt_dna_name(model_a), zt_dna_name(model_b));
    model_pairing pairing = {.model_a = model_a, .model_b = model_b, .options = options, .verdict = verdict};
    zt_status status = prepare_pairing(&pairing);
    if (status == ZT_OK) status = score_all(&pairing);
    if (status == ZT_OK) status = mark_changes(pairing.model_a, pairing.model_b, pairing.verdict);
    if (status == ZT_OK && options->shifts) status = find_shifts(&pairing);
    zt_dna_workers_free(pairing.crew);
    for (int side = 0; side < 2; side++) {
        zt_free(model_a->ctx, pairing.sketches[side]);
        zt_free(model_a->ctx, pairing.sketched[side]);
    }
    return status;
}

void zt_dna_verdict_free(zt_dna_verdict *verdict)
{
    if (!verdict) return;
    if (!verdict->ctx) return;
    zt_free(verdict->ctx, verdict->scores);
    zt_free(verdict->ctx, verdict->shifts);
    *verdict = (zt_dna_verdict){.ctx = NULL};
}
