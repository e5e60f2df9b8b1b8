/* change.c - owns what a difference between two layers is: rounding, a change, another layer. */
#include "lib/dna/dna_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what rounding does ---------------------------------------------------------------------- */

/* By how much of their size numbers of a normal distribution differ at most from what they are as
 * this dtype; measured with zt's own quantizers, and about a half above that. */
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

/* ---- of all layers --------------------------------------------------------------------------- */

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

/* outlier: it differs by more than is usual between layers of these two dtypes. */
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

/* Layers of two dtypes differ by what rounding does, all about as much: one that differs by more
 * than six deviations (by their median) above the median and half of it has changed. Where most
 * do not differ at all, any that does has. Marks those of row k's dtypes; x has room for all. */
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
    for (int64_t i = first_index; i < verdict->score_count; i++) {
        zt_dna_score *score = &verdict->scores[i];
        if (seen[i] || !have_same_dtypes(marking, first, score)) continue;
        seen[i] = true;
        score->change = classify_change(marking, score, score->rel_l2 > middle + (six > half ? six : half));
        score->changed = score->change == ZT_DNA_CHANGED || score->change == ZT_DNA_UNRELATED;
    }
}

zt_status zt_dna_mark_changes(const zt_dna *model_a, const zt_dna *model_b, zt_dna_verdict *verdict)
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
    static const char *const words[] = {[ZT_DNA_SAME] = "no",
                                        [ZT_DNA_ROUNDED] = "identical within rounding",
                                        [ZT_DNA_CHANGED] = "yes",
                                        [ZT_DNA_UNRELATED] = "unrelated"};
    return words[change];
}
