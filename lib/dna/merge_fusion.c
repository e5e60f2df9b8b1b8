/* merge_fusion.c - owns the methods that choose single elements: by the importance of their change (arcee_fusion), or by how
 * many models changed them (ram, ramplus_tl).
 *
 * Formulas: mergekit 0.1.5 (merge_methods/arcee_fusion.py and ram.py, as facts); arXiv:2601.13572. Importance, counts and
 * sums are f64, an importance is rounded to f32 where it is ranked and compared. One difference: of a tensor of more than a
 * million elements mergekit estimates the quantiles from a random sample; here they are exact for any size.
 */
#include "lib/dna/merge_internal.h"

#include <math.h>

/* ---- arcee_fusion ------------------------------------------------------------------------------ */

enum { QUANTILES = 3 }; /* at a quarter, a half and three quarters */

typedef struct fusion_choice {
    double *divergences; /* [rows] KL divergence of the other model's row from the base's, of their softmax */
    double threshold;
} fusion_choice;

static float row_maximum(const float *values, int64_t count)
{
    float most = values[0];
    for (int64_t i = 1; i < count; i++) most = values[i] > most ? values[i] : most;
    return most;
}

static double exponential_sum(const float *values, int64_t count, double most)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += exp(values[i] - most);
    return sum;
}

/* sum p log(p / q), p and q the softmax of the rows, each 1e-8 more. */
static double row_divergence(const float *other, const float *base, int64_t count)
{
    const double eps = 1e-8;
    double most_p = row_maximum(other, count), most_q = row_maximum(base, count);
    double sum_p = exponential_sum(other, count, most_p), sum_q = exponential_sum(base, count, most_q), divergence = 0;
    for (int64_t i = 0; i < count; i++) {
        double p = exp(other[i] - most_p) / sum_p + eps, q = exp(base[i] - most_q) / sum_q + eps;
        divergence += p * log(p / q);
    }
    return divergence > 0 ? divergence : 0; /* below 0 only by rounding */
}

static void find_divergences(merge_work *work, const merge_piece *piece, void *arg)
{
    const fusion_choice *choice = arg;
    const float *other = piece->sources[work->others[0]], *base = piece->sources[work->base];
    for (int64_t offset = 0; offset < piece->count; offset += work->columns)
        choice->divergences[(piece->first + offset) / work->columns] =
            row_divergence(other + offset, base + offset, work->columns);
}

/* |other - base| times the divergence of the row; to result. */
static void find_importances(const fusion_choice *choice, const merge_work *work, const merge_piece *piece)
{
    const float *other = piece->sources[work->others[0]], *base = piece->sources[work->base];
    for (int64_t i = 0; i < piece->count; i++)
        piece->result[i] = (float)(fabs((double)other[i] - base[i]) * choice->divergences[(piece->first + i) / work->columns]);
}

static void importance_list(merge_work *work, const merge_piece *piece, const float **lists, void *arg)
{
    find_importances(arg, work, piece);
    lists[0] = piece->result;
}

/* The median and 1.5 times the distance of the quartiles. */
static zt_status find_threshold(fusion_choice *choice, merge_work *work)
{
    const int64_t last = work->element_count - 1;
    const int64_t ranks[QUANTILES] = {last / 4, last / 2, last - (last + 3) / 4};
    float values[QUANTILES] = {0};
    zt_status status = zt_merge_rank_values(work, ranks, QUANTILES, importance_list, choice, values);
    choice->threshold = values[1] + 1.5 * ((double)values[2] - values[0]);
    return status;
}

static void choose_important(merge_work *work, const merge_piece *piece, void *arg)
{
    const fusion_choice *choice = arg;
    const float *other = piece->sources[work->others[0]], *base = piece->sources[work->base];
    find_importances(choice, work, piece);
    for (int64_t i = 0; i < piece->count; i++) piece->result[i] = piece->result[i] >= choice->threshold ? other[i] : base[i];
}

zt_status zt_merge_fusion(merge_work *work)
{
    fusion_choice choice = {0};
    work->by_row = true;
    zt_status status = zt_merge_begin(work);
    if (status != ZT_OK) return status;
    choice.divergences = zt_alloc_array(work->merge->ctx, (size_t)work->rows + 1, sizeof *choice.divergences);
    status = choice.divergences ? zt_merge_pass(work, find_divergences, &choice) : ZT_ENOMEM;
    if (status == ZT_OK) status = find_threshold(&choice, work);
    if (status == ZT_OK) status = zt_merge_pass_out(work, choose_important, &choice);
    zt_free(work->merge->ctx, choice.divergences);
    return status;
}

/* ---- ram --------------------------------------------------------------------------------------- */

typedef struct ram_choice {
    double epsilon;                /* a delta of at most this magnitude counts as 0 */
    double factors[MERGE_SOURCES]; /* of the deltas that a model alone has */
    int64_t *counts;               /* [pieces][models][2] elements that it alone changed, and that others changed too */
} ram_choice;

/* The deltas of an element; returns how many are not 0. */
static int find_deltas(const merge_work *work, const merge_piece *piece, double epsilon, int64_t i, double *deltas)
{
    int changed = 0;
    for (int k = 0; k < work->other_count; k++) {
        double delta = (double)piece->sources[work->others[k]][i] - piece->sources[work->base][i];
        deltas[k] = fabs(delta) > epsilon ? delta : 0;
        changed += deltas[k] != 0;
    }
    return changed;
}

static void count_changed(merge_work *work, const merge_piece *piece, void *arg)
{
    const ram_choice *ram = arg;
    int64_t *counts = ram->counts + piece->index * work->other_count * 2;
    double deltas[MERGE_SOURCES];
    for (int64_t i = 0; i < piece->count; i++) {
        int changed = find_deltas(work, piece, ram->epsilon, i, deltas);
        for (int k = 0; k < work->other_count && changed; k++) counts[2 * k + (changed > 1)] += deltas[k] != 0;
    }
}

/* 1 + r times the share of what a model has in common, at most alpha. */
static zt_status find_factors(ram_choice *ram, merge_work *work)
{
    const double *values = work->values->shared;
    ram->counts = zt_calloc(work->merge->ctx, (size_t)work->piece_count * (size_t)work->other_count * 2 + 1, sizeof *ram->counts);
    zt_status status = ram->counts ? zt_merge_pass(work, count_changed, ram) : ZT_ENOMEM;
    for (int k = 0; k < work->other_count && status == ZT_OK; k++) {
        double alone = 0, common = 0;
        for (int64_t piece = 0; piece < work->piece_count; piece++) {
            const int64_t *counts = ram->counts + (piece * work->other_count + k) * 2;
            alone += (double)counts[0];
            common += (double)counts[1];
        }
        double share = common > 0 ? common / fmax(alone, ram->epsilon) : 0;
        ram->factors[k] = 1 + values[MP_R] * fmin(share, values[MP_ALPHA]);
    }
    zt_free(work->merge->ctx, ram->counts);
    return status;
}

static void add_deltas(merge_work *work, const merge_piece *piece, void *arg)
{
    const ram_choice *ram = arg;
    const float *base = piece->sources[work->base];
    double deltas[MERGE_SOURCES];
    for (int64_t i = 0; i < piece->count; i++) {
        int changed = find_deltas(work, piece, ram->epsilon, i, deltas);
        double sum = 0;
        for (int k = 0; k < work->other_count; k++) sum += changed == 1 ? deltas[k] * ram->factors[k] : deltas[k];
        piece->result[i] = (float)(changed > 1 ? base[i] + sum / changed : base[i] + sum);
    }
}

zt_status zt_merge_ram(merge_work *work)
{
    ram_choice ram = {.epsilon = work->values->shared[MP_EPSILON]};
    bool plus = (work->merge->recipe->method->shared & MP_BIT(MP_R)) != 0;
    for (int k = 0; k < work->other_count; k++) ram.factors[k] = 1;
    zt_status status = zt_merge_begin(work);
    if (status == ZT_OK && plus) status = find_factors(&ram, work);
    return status == ZT_OK ? zt_merge_pass_out(work, add_deltas, &ram) : status;
}
