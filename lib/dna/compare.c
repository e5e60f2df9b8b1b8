/* compare.c - owns two models side by side: layers of one name, what all of them come to, which
 * have changed more than others, and which of one are elsewhere in the other. */
#include "lib/dna/dna_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHIFT_ABOVE 0.8 /* a layer is another one: Loom's bound, strict */
#define DOUBT       0.2 /* sketches of DNA_BUCKETS are off by more once in 10^9 */

typedef struct model_pairing {
    zt_dna *model_a, *model_b;
    const zt_dna_compare_opts *options;
    zt_dna_verdict *verdict;
    dna_workers *crew;
    double *sketches[2]; /* of long layers, in each model's order; NULL: not wanted */
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

/* May they be compared at all? What has no numbers that zt knows may not. */
static bool layers_fit(const model_pairing *pairing, int64_t index_a, int64_t index_b)
{
    const zt_dna_layer *layer_a = &pairing->model_a->layers[index_a], *layer_b = &pairing->model_b->layers[index_b];
    return layer_a->count == layer_b->count && strcmp(layer_a->type, layer_b->type) == 0 &&
           have_same_dims(&layer_a->shape, &layer_b->shape) && layer_a->shape.dtype != ZT_DTYPE_COUNT &&
           layer_b->shape.dtype != ZT_DTYPE_COUNT && (!is_loom(pairing) || strcmp(layer_a->dtype, layer_b->dtype) == 0);
}

float zt_dna_similarity(const float *values_a, const float *values_b, int64_t count)
{
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

/* Loom's: signatures, held whole. */
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

/* The overlap of two layers that fit, and no more. */
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
    for (int64_t i = 0; i < pairing->model_a->layer_count && status == ZT_OK; i++) {
        if (!is_wanted(pairing, pairing->model_a->layers[i].name)) continue;
        int64_t j = zt_dna_find(pairing->model_b, pairing->model_a->layers[i].name);
        if (j >= 0)
            status = score_layers(pairing, i, j);
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
    for (int64_t j = 0; j < pairing->model_b->layer_count && status == ZT_OK; j++) {
        double overlap = 0, least = SHIFT_ABOVE;
        if (pairing->model_a->layers[index].count != pairing->model_b->layers[j].count ||
            !is_wanted(pairing, pairing->model_b->layers[j].name))
            continue;
        if (own && own->overlap > least) least = own->overlap;
        if (best->overlap > least) least = best->overlap;
        if (own && own->layer_b == j)
            overlap = own->overlap;
        else if (layers_fit(pairing, index, j) && may_be(pairing, index, j, least))
            status = overlap_of(pairing, index, j, &overlap);
        if (overlap > best->overlap) best->to_layer = j, best->overlap = overlap;
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
    for (int64_t i = 0; i < pairing->model_a->layer_count && status == ZT_OK; i++) {
        zt_dna_shift best;
        const zt_dna_layer *layer_a = &pairing->model_a->layers[i], *layer_b;
        if (!is_wanted(pairing, layer_a->name)) continue;
        status = report_progress(pairing, layer_a->name);
        if (status == ZT_OK) status = find_best(pairing, i, row_of(pairing, i, &next), &best);
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
    *verdict = (zt_dna_verdict){.ctx = model_a->ctx};
    if (model_a->rule != model_b->rule)
        return zt_fail(model_a->ctx, ZT_EUSAGE, "%s and %s are taken by different rules", zt_dna_name(model_a),
                       zt_dna_name(model_b));
    model_pairing pairing = {.model_a = model_a, .model_b = model_b, .options = options, .verdict = verdict};
    zt_status status = prepare_pairing(&pairing);
    if (status == ZT_OK) status = score_all(&pairing);
    if (status == ZT_OK) status = zt_dna_mark_changes(pairing.model_a, pairing.model_b, pairing.verdict);
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
    if (!verdict->ctx) return;
    zt_free(verdict->ctx, verdict->scores);
    zt_free(verdict->ctx, verdict->shifts);
    *verdict = (zt_dna_verdict){.ctx = NULL};
}
