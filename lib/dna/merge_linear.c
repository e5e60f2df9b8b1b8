/* merge_linear.c - owns the methods whose result is a linear combination of the parents: what matters
 * of the tensors for their coefficients is the table of their inner products, found in one pass.
 *
 * Where the coefficients sum to 1 the combination is written around the first parent, or the base:
 * b + sum c_i (x_i - b). What is equal in all parents stays as it is, to the bit.
 */
#include "lib/dna/merge_internal.h"

#include <math.h>
#include <string.h>

const merge_loops *zt_merge_loops(void)
{
    static const merge_loops *const loops[ZT_ISA_COUNT] = {
        [ZT_ISA_SCALAR] = &zt_merge_loops_scalar,
#if defined(ZT_HAVE_AVX2)
        [ZT_ISA_AVX2] = &zt_merge_loops_avx2,
#endif
#if defined(ZT_HAVE_AVX512)
        [ZT_ISA_AVX512] = &zt_merge_loops_avx512,
#endif
#if defined(ZT_HAVE_NEON)
        [ZT_ISA_NEON] = &zt_merge_loops_neon,
#endif
#if defined(ZT_HAVE_DOTPROD)
        [ZT_ISA_DOTPROD] = &zt_merge_loops_dotprod,
#endif
    };
    zt_isa best = zt_isa_best();
    while (best > ZT_ISA_SCALAR && !loops[best]) best--;
    return loops[best];
}

/* ---- combinations ---------------------------------------------------------------------------- */

typedef struct linear_combination {
    const merge_loops *loops;
    float coefficients[MERGE_SOURCES];
    int around; /* a source that all are taken from, or -1 */
} linear_combination;

static void do_combination(merge_work *work, const merge_piece *piece, void *arg)
{
    const linear_combination *combination = arg;
    if (combination->around >= 0)
        combination->loops->combine_from(piece->result, piece->sources[combination->around], piece->sources,
                                         combination->coefficients, work->source_count, piece->count);
    else
        combination->loops->combine(piece->result, piece->sources, combination->coefficients, work->source_count, piece->count);
}

/* Combines the whole tensor by the coefficients. around: the source to combine around, -1: none. */
static zt_status combine_sources(merge_work *work, const double *coefficients, int around)
{
    linear_combination combination = {.loops = zt_merge_loops(), .around = around};
    for (int i = 0; i < work->source_count; i++) combination.coefficients[i] = (float)(i == around ? 0 : coefficients[i]);
    return zt_merge_pass_out(work, do_combination, &combination);
}

zt_status zt_merge_linear(merge_work *work)
{
    double coefficients[MERGE_SOURCES], sum = 0;
    bool normalize = work->values->shared[MP_NORMALIZE] != 0;
    for (int i = 0; i < work->source_count; i++) sum += coefficients[i] = work->values->each[i][MP_WEIGHT];
    for (int i = 0; i < work->source_count && normalize; i++) coefficients[i] /= sum;
    zt_status status = zt_merge_begin(work);
    if (status == ZT_OK && normalize && sum == 0)
        status = zt_fail(work->merge->ctx, ZT_EDATA, "%s: the weights for '%s' sum to 0", work->merge->recipe->name,
                         work->job->entry.name);
    return status == ZT_OK ? combine_sources(work, coefficients, normalize ? 0 : -1) : status;
}

zt_status zt_merge_tasks(merge_work *work)
{
    double coefficients[MERGE_SOURCES] = {0}, sum = 0;
    for (int i = 0; i < work->other_count; i++) sum += work->values->each[work->others[i]][MP_WEIGHT];
    if (work->values->shared[MP_NORMALIZE] == 0 || fabs(sum) < 1e-8) sum = 1;
    for (int i = 0; i < work->other_count; i++)
        coefficients[work->others[i]] = work->values->shared[MP_LAMBDA] * work->values->each[work->others[i]][MP_WEIGHT] / sum;
    zt_status status = zt_merge_begin(work);
    return status == ZT_OK ? combine_sources(work, coefficients, work->base) : status;
}

zt_status zt_merge_scale(merge_work *work)
{
    double coefficient = work->values->has_each[0] & MP_BIT(MP_SCALE) ? work->values->each[0][MP_SCALE] : 1;
    zt_status status = zt_merge_begin(work);
    return status == ZT_OK ? combine_sources(work, &coefficient, -1) : status;
}

static void do_nearswap(merge_work *work, const merge_piece *piece, void *arg)
{
    const linear_combination *combination = arg;
    combination->loops->nearswap(piece->result, piece->sources[work->base], piece->sources[work->others[0]],
                                 combination->coefficients[0], piece->count);
}

zt_status zt_merge_nearswap(merge_work *work)
{
    linear_combination combination = {.loops = zt_merge_loops(), .coefficients = {(float)work->values->shared[MP_T]}};
    zt_status status = zt_merge_begin(work);
    return status == ZT_OK ? zt_merge_pass_out(work, do_nearswap, &combination) : status;
}

/* ---- inner products -------------------------------------------------------------------------- */

/* Inner products of `count` vectors: of i and j at [i * count + j]. */
typedef struct gram_table {
    const merge_loops *loops;
    const int *sources; /* [count] the sources */
    int count, base;    /* base: they are differences to it; -1 */
    double *parts;      /* [pieces][count * count] */
} gram_table;

static void multiply_pairs(const merge_loops *loops, const float *const *vectors, int vector_count, int64_t count, double *table)
{
    for (int i = 0; i < vector_count; i++)
        for (int j = i; j < vector_count; j++)
            table[i * vector_count + j] = table[j * vector_count + i] = loops->dot(vectors[i], vectors[j], count);
}

/* The vectors of a piece: the sources' values, or their differences to the base. */
static void make_vectors(const gram_table *gram, const merge_piece *piece, const float **vectors)
{
    for (int source_index = 0; source_index < gram->count; source_index++) {
        vectors[source_index] = piece->sources[gram->sources[source_index]];
        if (gram->base < 0) continue;
        gram->loops->subtract(piece->deltas[source_index], vectors[source_index], piece->sources[gram->base], piece->count);
        vectors[source_index] = piece->deltas[source_index];
    }
}

static void do_gram(merge_work *work, const merge_piece *piece, void *arg)
{
    gram_table *gram = arg;
    const float *vectors[MERGE_SOURCES];
    (void)work;
    make_vectors(gram, piece, vectors);
    multiply_pairs(gram->loops, vectors, gram->count, piece->count, gram->parts + piece->index * gram->count * gram->count);
}

static zt_status find_gram(merge_work *work, const int *sources, int count, int base, double *out)
{
    gram_table gram = {.loops = zt_merge_loops(), .sources = sources, .count = count, .base = base};
    size_t cells = (size_t)count * (size_t)count;
    gram.parts = zt_calloc(work->merge->ctx, (size_t)work->piece_count * cells + 1, sizeof *gram.parts);
    zt_status status = gram.parts ? zt_merge_pass(work, do_gram, &gram) : ZT_ENOMEM;
    memset(out, 0, cells * sizeof *out);
    for (int64_t piece = 0; status == ZT_OK && piece < work->piece_count; piece++)
        for (size_t i = 0; i < cells; i++) out[i] += gram.parts[(size_t)piece * cells + i];
    zt_free(work->merge->ctx, gram.parts);
    return status;
}

static double clamp_cosine(double cosine) { return cosine < -1 ? -1 : cosine > 1 ? 1 : cosine; }

/* ---- slerp ----------------------------------------------------------------------------------- */

/* Coefficients of two vectors with these inner products, at `ratio` of the arc between them; false: they are collinear. */
static bool find_arc(double dot_aa, double dot_ab, double dot_bb, double ratio, double least, double near, double *coefficient_a,
                     double *coefficient_b)
{
    double norm_a = sqrt(dot_aa), norm_b = sqrt(dot_bb);
    double cosine = clamp_cosine(dot_ab / ((norm_a > least ? norm_a : 1) * (norm_b > least ? norm_b : 1)));
    double theta = acos(cosine), sine = sin(theta);
    *coefficient_a = 1 - ratio;
    *coefficient_b = ratio;
    if (fabs(cosine) > near) return false;
    *coefficient_a = sin((1 - ratio) * theta) / sine;
    *coefficient_b = sin(ratio * theta) / sine;
    return true;
}

zt_status zt_merge_slerp(merge_work *work)
{
    double table[4], coefficients[MERGE_SOURCES] = {0};
    int sources[2] = {work->base, work->others[0]};
    zt_status status = zt_merge_begin(work);
    if (status == ZT_OK) status = find_gram(work, sources, 2, -1, table);
    if (status != ZT_OK) return status;
    bool bent = find_arc(table[0], table[1], table[3], work->values->shared[MP_T], 1e-8, 0.9995, &coefficients[sources[0]],
                         &coefficients[sources[1]]);
    return combine_sources(work, coefficients, bent ? -1 : work->base);
}

/* mergekit's: directions of rows, of columns, or of the whole; with a base, of the differences. */
typedef struct arc_blend {
    gram_table gram;
    double ratio;
    int64_t columns; /* of a column's: of each its three products */
    double *sums_aa, *sums_ab, *sums_bb;
} arc_blend;

static const double NEAR_1 = 1 - 5e-17; /* 1 - cos^2 at most 1e-16 */

static void combine_along_arc(const arc_blend *arcs, const merge_piece *piece, const float *const *vectors,
                              const double *coefficients)
{
    const float factors[2] = {(float)coefficients[0], (float)coefficients[1]};
    (void)arcs;
    arcs->gram.loops->combine(piece->result, vectors, factors, 2, piece->count);
}

static void add_base(const merge_work *work, const merge_piece *piece)
{
    for (int64_t i = 0; work->base >= 0 && i < piece->count; i++) piece->result[i] += piece->sources[work->base][i];
}

/* Each row by itself. */
static void do_rows(merge_work *work, const merge_piece *piece, void *arg)
{
    const arc_blend *arcs = arg;
    const float *vectors[MERGE_SOURCES];
    make_vectors(&arcs->gram, piece, vectors);
    for (int64_t offset = 0; offset < piece->count; offset += work->columns) {
        const float *row[2] = {vectors[0] + offset, vectors[1] + offset};
        merge_piece one = *piece;
        double table[4], coefficients[2];
        one.result += offset;
        one.count = work->columns;
        multiply_pairs(arcs->gram.loops, row, 2, work->columns, table);
        find_arc(table[0], table[1], table[3], arcs->ratio, 1e-7, NEAR_1, &coefficients[0], &coefficients[1]);
        combine_along_arc(arcs, &one, row, coefficients);
    }
    add_base(work, piece);
}

/* Columns are those of the first dimension: sums over it, in one thread's order. */
static void add_columns(merge_work *work, const merge_piece *piece, void *arg)
{
    arc_blend *arcs = arg;
    const float *vectors[MERGE_SOURCES];
    (void)work;
    make_vectors(&arcs->gram, piece, vectors);
    for (int64_t i = 0; i < piece->count; i++) {
        int64_t column = (piece->first + i) % arcs->columns;
        arcs->sums_aa[column] += (double)vectors[0][i] * vectors[0][i];
        arcs->sums_ab[column] += (double)vectors[0][i] * vectors[1][i];
        arcs->sums_bb[column] += (double)vectors[1][i] * vectors[1][i];
    }
}

static void do_columns(merge_work *work, const merge_piece *piece, void *arg)
{
    const arc_blend *arcs = arg;
    const float *vectors[MERGE_SOURCES];
    make_vectors(&arcs->gram, piece, vectors);
    for (int64_t i = 0; i < piece->count; i++) {
        int64_t column = (piece->first + i) % arcs->columns;
        piece->result[i] = (float)(arcs->sums_aa[column] * vectors[0][i] + arcs->sums_bb[column] * vectors[1][i]);
    }
    add_base(work, piece);
}

/* One thread adds them up, in order; then aa and bb are the coefficients. */
static zt_status merge_columns(merge_work *work, arc_blend *arcs)
{
    arcs->columns = work->element_count / work->job->entry.type.dim[0];
    arcs->sums_aa = zt_calloc(work->merge->ctx, (size_t)arcs->columns * 3 + 1, sizeof *arcs->sums_aa);
    if (!arcs->sums_aa) return ZT_ENOMEM;
    arcs->sums_ab = arcs->sums_aa + arcs->columns;
    arcs->sums_bb = arcs->sums_ab + arcs->columns;
    work->single_thread = true;
    zt_status status = zt_merge_pass(work, add_columns, arcs);
    work->single_thread = false;
    for (int64_t column = 0; column < arcs->columns && status == ZT_OK; column++)
        find_arc(arcs->sums_aa[column], arcs->sums_ab[column], arcs->sums_bb[column], arcs->ratio, 1e-7, NEAR_1,
                 &arcs->sums_aa[column], &arcs->sums_bb[column]);
    if (status == ZT_OK) status = zt_merge_pass_out(work, do_columns, arcs);
    zt_free(work->merge->ctx, arcs->sums_aa);
    return status;
}

static void do_whole_arc(merge_work *work, const merge_piece *piece, void *arg)
{
    const arc_blend *arcs = arg;
    const float *vectors[MERGE_SOURCES];
    const double coefficients[2] = {arcs->sums_aa[0], arcs->sums_bb[0]};
    make_vectors(&arcs->gram, piece, vectors);
    combine_along_arc(arcs, piece, vectors, coefficients);
    add_base(work, piece);
}

zt_status zt_merge_nuslerp(merge_work *work)
{
    const double weight_a = work->values->each[work->others[0]][MP_WEIGHT],
                 weight_b = work->values->each[work->others[1]][MP_WEIGHT];
    arc_blend arcs = {.gram = {.loops = zt_merge_loops(), .sources = work->others, .count = 2, .base = work->base}};
    bool whole = work->values->shared[MP_FLATTEN] != 0 || work->job->entry.type.rank == 0;
    bool columns = !whole && work->values->shared[MP_ROW_WISE] != 0 && work->job->entry.type.rank > 1;
    double table[4], coefficients[2];
    arcs.ratio = fabs(weight_a + weight_b) < 1e-6 ? 0.5 : weight_b / (weight_a + weight_b);
    work->by_row = !whole;
    zt_status status = zt_merge_begin(work);
    if (status != ZT_OK || columns) return status == ZT_OK ? merge_columns(work, &arcs) : status;
    if (!whole) return zt_merge_pass_out(work, do_rows, &arcs);
    status = find_gram(work, work->others, 2, work->base, table);
    if (status != ZT_OK) return status;
    find_arc(table[0], table[1], table[3], arcs.ratio, 1e-7, NEAR_1, &coefficients[0], &coefficients[1]);
    arcs.sums_aa = &coefficients[0];
    arcs.sums_bb = &coefficients[1];
    return zt_merge_pass_out(work, do_whole_arc, &arcs);
}

/* ---- karcher --------------------------------------------------------------------------------- */

/* Vectors in the span of the units u_i, as coefficients; table: the units' inner products. */
static double inner_product(const double *table, const double *left, const double *right, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) sum += left[i] * right[j] * table[i * count + j];
    return sum;
}

static double vector_length(const double *table, const double *vector, int count)
{
    return sqrt(fmax(inner_product(table, vector, vector, count), 0));
}

/* One step of the mean along the sphere; false: it has arrived. */
static bool karcher_step(const double *table, const bool *valid, double share, double tolerance, int count, double *mean)
{
    double tangent[MERGE_SOURCES] = {0};
    for (int j = 0; j < count; j++) {
        double unit[MERGE_SOURCES] = {0};
        unit[j] = 1;
        double dot = clamp_cosine(inner_product(table, mean, unit, count)), theta = acos(dot);
        if (!valid[j] || theta < tolerance) continue;
        double factor = share * theta / sin(theta);
        tangent[j] += factor;
        for (int i = 0; i < count; i++) tangent[i] -= factor * dot * mean[i];
    }
    double norm = vector_length(table, tangent, count);
    if (norm < tolerance) return false;
    for (int i = 0; i < count; i++) mean[i] = cos(norm) * mean[i] + sin(norm) / norm * tangent[i];
    double one = vector_length(table, mean, count);
    for (int i = 0; i < count && one > tolerance; i++) mean[i] /= one;
    return true;
}

/* The mean's coefficients of the units; false: all are 0. */
static bool karcher_mean(const double *table, const bool *valid, int count, double tolerance, int max_steps, double *mean)
{
    int n_valid = 0, first = -1;
    for (int i = 0; i < count; i++) {
        n_valid += valid[i];
        if (valid[i] && first < 0) first = i;
    }
    if (!n_valid) return false;
    for (int i = 0; i < count; i++) mean[i] = valid[i] ? 1.0 / n_valid : 0;
    double norm = vector_length(table, mean, count);
    for (int i = 0; i < count; i++) mean[i] = norm < tolerance ? i == first : mean[i] / norm;
    for (int i = 0; i < max_steps && karcher_step(table, valid, 1.0 / n_valid, tolerance, count, mean); i++) continue;
    return true;
}

zt_status zt_merge_karcher(merge_work *work)
{
    double table[MERGE_SOURCES * MERGE_SOURCES], norm[MERGE_SOURCES], coefficients[MERGE_SOURCES] = {0}, scale = 0;
    bool valid[MERGE_SOURCES];
    int sources[MERGE_SOURCES], count = work->source_count;
    double tolerance = work->values->shared[MP_TOL];
    for (int i = 0; i < count; i++) sources[i] = i;
    zt_status status = zt_merge_begin(work);
    if (status == ZT_OK && count == 1) return combine_sources(work, (const double[]){1}, -1);
    if (status == ZT_OK) status = find_gram(work, sources, count, -1, table);
    if (status != ZT_OK) return status;
    for (int i = 0; i < count; i++) {
        norm[i] = sqrt(table[i * count + i]);
        valid[i] = norm[i] > tolerance;
        scale += norm[i] / count;
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            table[i * count + j] = norm[i] > 0 && norm[j] > 0 ? table[i * count + j] / (norm[i] * norm[j]) : 0;
    if (karcher_mean(table, valid, count, tolerance, (int)work->values->shared[MP_MAX_ITER], coefficients))
        for (int i = 0; i < count; i++) coefficients[i] = norm[i] > 0 ? scale * coefficients[i] / norm[i] : 0;
    return combine_sources(work, coefficients, -1);
}

/* ---- multislerp -------------------------------------------------------------------------------- */

/* Coefficients of `count` vectors with these inner products. mergekit projects them to the unit sphere, takes their weighted mean as the
 * pole, adds the vectors' parts orthogonal to it by the same weights, and follows the sphere by that sum. The sum is
 * always 0: sum w_i (u_i - (u_i p) p) = m p - (m p p) p, with m the length of the mean, p the pole. What remains is the
 * pole times cos(eps), as the sum's length is eps and no less. False: the mean is 0. */
static bool find_barycenter(const double *table, const double *weights, int count, double eps, double *coefficients)
{
    double units[MERGE_SOURCES], size = 0;
    for (int i = 0; i < count; i++) {
        double norm = sqrt(table[i * count + i]);
        units[i] = norm + eps > 0 ? weights[i] / (norm + eps) : 0;
        size += weights[i] * norm;
    }
    double length = vector_length(table, units, count);
    if (length < eps || length == 0) return false;
    for (int i = 0; i < count; i++) coefficients[i] = units[i] * (size * cos(eps) / length);
    return true;
}

/* Of two opposite vectors the linear combination; of vectors that all are 0 their origin. */
static zt_status combine_opposite(merge_work *work, const double *table, const double *weights, double *coefficients)
{
    const int count = work->other_count;
    bool zeros = true;
    for (int i = 0; i < count; i++) zeros = zeros && table[i * count + i] == 0;
    if (!zeros && count > 2)
        return zt_fail(work->merge->ctx, ZT_EDATA,
                       "%s: multislerp: the weighted directions of the %d models for '%s' cancel out: use other weights",
                       work->merge->recipe->name, count, work->job->entry.name);
    for (int i = 0; i < count; i++) coefficients[i] = zeros ? 0 : weights[i];
    return ZT_OK;
}

static void add_deltas(merge_work *work, const merge_piece *piece, void *arg)
{
    const linear_combination *combination = arg;
    const float *vectors[MERGE_SOURCES];
    for (int i = 0; i < work->other_count; i++) {
        vectors[i] = piece->sources[work->others[i]];
        if (work->base < 0) continue;
        combination->loops->subtract(piece->deltas[i], vectors[i], piece->sources[work->base], piece->count);
        vectors[i] = piece->deltas[i];
    }
    combination->loops->combine(piece->result, vectors, combination->coefficients, work->other_count, piece->count);
    add_base(work, piece);
}

static zt_status find_weights(merge_work *work, double *weights)
{
    double sum = 0;
    for (int i = 0; i < work->other_count; i++) sum += weights[i] = work->values->each[work->others[i]][MP_WEIGHT];
    if (work->values->shared[MP_NORMALIZE_WEIGHTS] == 0) return ZT_OK;
    if (sum == 0)
        return zt_fail(work->merge->ctx, ZT_EDATA, "%s: the weights for '%s' sum to 0", work->merge->recipe->name,
                       work->job->entry.name);
    for (int i = 0; i < work->other_count; i++) weights[i] /= sum;
    return ZT_OK;
}

zt_status zt_merge_multislerp(merge_work *work)
{
    const int count = work->other_count;
    double table[MERGE_SOURCES * MERGE_SOURCES], weights[MERGE_SOURCES], coefficients[MERGE_SOURCES] = {0};
    linear_combination combination = {.loops = zt_merge_loops()};
    zt_status status = zt_merge_begin(work);
    if (status == ZT_OK && count == 1) {
        coefficients[work->others[0]] = 1;
        return combine_sources(work, coefficients, -1);
    }
    if (status == ZT_OK) status = find_weights(work, weights);
    if (status == ZT_OK) status = find_gram(work, work->others, count, work->base, table);
    if (status == ZT_OK && !find_barycenter(table, weights, count, work->values->shared[MP_EPS], coefficients))
        status = combine_opposite(work, table, weights, coefficients);
    for (int i = 0; i < count; i++) combination.coefficients[i] = (float)coefficients[i];
    return status == ZT_OK ? zt_merge_pass_out(work, add_deltas, &combination) : status;
}

/* ---- model stock ----------------------------------------------------------------------------- */

/* How far to go from the base to the mean: from the cosines between differences. */
static double find_stock_ratio(const double *table, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count; j++)
            sum += clamp_cosine(table[i * count + j] / fmax(sqrt(table[i * count + i]) * sqrt(table[j * count + j]), 1e-6));
    double cosine = sum / (count * (count - 1) / 2.0), below = 1 + (count - 1) * cosine;
    return fabs(below) < 1e-6 ? 0 : count * cosine / below;
}

static void combine_stock(const gram_table *gram, const merge_work *work, const merge_piece *piece, double ratio, int64_t offset,
                          int64_t count)
{
    const float *vectors[MERGE_SOURCES];
    float coefficients[MERGE_SOURCES];
    for (int source_index = 0; source_index < gram->count; source_index++) {
        vectors[source_index] = piece->sources[gram->sources[source_index]] + offset;
        coefficients[source_index] = (float)(ratio / gram->count);
    }
    gram->loops->combine_from(piece->result + offset, piece->sources[work->base] + offset, vectors, coefficients, gram->count,
                              count);
}

static void do_stock_rows(merge_work *work, const merge_piece *piece, void *arg)
{
    const gram_table *gram = arg;
    double table[MERGE_SOURCES * MERGE_SOURCES];
    const float *vectors[MERGE_SOURCES], *row[MERGE_SOURCES];
    make_vectors(gram, piece, vectors);
    for (int64_t offset = 0; offset < piece->count; offset += work->columns) {
        for (int i = 0; i < gram->count; i++) row[i] = vectors[i] + offset;
        multiply_pairs(gram->loops, row, gram->count, work->columns, table);
        combine_stock(gram, work, piece, find_stock_ratio(table, gram->count), offset, work->columns);
    }
}

typedef struct stock_blend {
    gram_table gram;
    double ratio;
} stock_blend;

static void do_stock(merge_work *work, const merge_piece *piece, void *arg)
{
    const stock_blend *stocked = arg;
    combine_stock(&stocked->gram, work, piece, stocked->ratio, 0, piece->count);
}

zt_status zt_merge_stock(merge_work *work)
{
    double table[MERGE_SOURCES * MERGE_SOURCES];
    stock_blend stocked = {
        .gram = {.loops = zt_merge_loops(), .sources = work->others, .count = work->other_count, .base = work->base}};
    bool rows = work->values->shared[MP_FILTER_WISE] != 0;
    work->by_row = rows;
    zt_status status = zt_merge_begin(work);
    if (status == ZT_OK && rows) return zt_merge_pass_out(work, do_stock_rows, &stocked.gram);
    if (status == ZT_OK) status = find_gram(work, work->others, work->other_count, work->base, table);
    stocked.ratio = status == ZT_OK ? find_stock_ratio(table, work->other_count) : 0;
    return status == ZT_OK ? zt_merge_pass_out(work, do_stock, &stocked) : status;
}
