/* merge_sparse.c - owns the methods that choose among differences to the base: which are kept, by rank or at random, how
 * they are scaled, and which sign is elected.
 *
 * Ranks are those of merge_rank.c. Random choices are Philox of (seed; tensor name and model; element), and depend on
 * nothing else.
 */
#include "lib/dna/merge_internal.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

/* ---- masks ------------------------------------------------------------------------------------ */

typedef struct delta_masks {
    const merge_loops *loops;
    int count;
    bool keeps_none[MERGE_SOURCES]; /* no element is kept */
    bool keeps_all[MERGE_SOURCES];  /* all elements are kept */
    merge_range ranges[MERGE_SOURCES];
    double densities[MERGE_SOURCES], epsilons[MERGE_SOURCES];
    uint64_t sequences[MERGE_SOURCES];
    float scales[MERGE_SOURCES]; /* factor of the elements kept */
    bool by_chance;              /* divide each element kept by its probability */
    uint64_t **sort_space;       /* [threads] two lists of a row's keys */
    int list_of[MERGE_SOURCES];  /* the difference that each ranked list belongs to */
    merge_range *ranked;
    int ranked_count;
    double *before, *after;       /* [pieces][count] sums of magnitudes */
    float weights[MERGE_SOURCES]; /* weights */
    float factor;                 /* of the sum */
    bool normalize;
} delta_masks;

static const double *source_params(const merge_work *work, int index) { return work->values->each[work->others[index]]; }

/* ---- at random ------------------------------------------------------------------------------- */

/* Random words of 32 bits, in the order of elements. */
typedef struct random_draws {
    uint64_t seed, sequence, position;
    uint32_t words[4];
} random_draws;

static random_draws start_draws(uint64_t seed, uint64_t sequence, int64_t first)
{
    random_draws draws = {.seed = seed, .sequence = sequence, .position = (uint64_t)first};
    if (draws.position % 4) zt_philox(seed, sequence, draws.position / 4, draws.words);
    return draws;
}

static inline uint32_t draw_word(random_draws *draws)
{
    if (draws->position % 4 == 0) zt_philox(draws->seed, draws->sequence, draws->position / 4, draws->words);
    return draws->words[draws->position++ % 4];
}

static void keep_random(const delta_masks *masks, const merge_work *work, const merge_piece *piece, int index)
{
    random_draws draws = start_draws(work->merge->options.seed, masks->sequences[index], piece->first);
    double below = masks->densities[index] * 0x1p32;
    for (int64_t j = 0; j < piece->count; j++)
        if (draw_word(&draws) >= below) piece->deltas[index][j] = 0;
}

/* Sorts by the upper 32 bits, ascending: a radix sort of 8 bits a pass. */
static void sort_keys(uint64_t *keys, uint64_t *spare, int64_t count)
{
    for (int shift = 32; shift < 64; shift += 8) {
        int64_t starts[257] = {0};
        for (int64_t i = 0; i < count; i++) starts[(keys[i] >> shift & 255) + 1]++;
        for (int k = 0; k < 256; k++) starts[k + 1] += starts[k];
        for (int64_t i = 0; i < count; i++) spare[starts[keys[i] >> shift & 255]++] = keys[i];
        uint64_t *swap = keys;
        keys = spare;
        spare = swap;
    }
}

/* One row: the probability grows with the rank, from density - epsilon to density + epsilon. */
static void keep_ranked_row(const delta_masks *masks, float *delta, int64_t count, int index, random_draws *draws, uint64_t *room)
{
    uint64_t *key = room, *rank = room + count;
    double least = masks->densities[index] - masks->epsilons[index];
    for (int64_t j = 0; j < count; j++) {
        uint32_t bits;
        memcpy(&bits, &delta[j], 4);
        key[j] = (uint64_t)(bits & 0x7fffffff) << 32 | (uint32_t)j;
    }
    sort_keys(key, rank, count); /* an even number of passes: the result is in key */
    for (int64_t j = 0; j < count; j++) rank[(uint32_t)key[j]] = (uint64_t)j;
    for (int64_t j = 0; j < count; j++) {
        double chance = least + 2 * masks->epsilons[index] * (count > 1 ? (double)rank[j] / (double)(count - 1) : 0);
        bool kept = draw_word(draws) < chance * 0x1p32;
        delta[j] = !kept ? 0 : masks->by_chance ? (float)(delta[j] / chance) : delta[j];
    }
}

static void keep_ranked(const delta_masks *masks, const merge_work *work, const merge_piece *piece, int index)
{
    random_draws draws = start_draws(work->merge->options.seed, masks->sequences[index], piece->first);
    for (int64_t offset = 0; offset < piece->count; offset += work->columns)
        keep_ranked_row(masks, piece->deltas[index] + offset, work->columns, index, &draws, masks->sort_space[piece->thread]);
}

/* ---- differences ----------------------------------------------------------------------------- */

static void subtract_base(const delta_masks *masks, const merge_work *work, const merge_piece *piece, int index)
{
    masks->loops->subtract(piece->deltas[index], piece->sources[work->others[index]], piece->sources[work->base], piece->count);
}

/* d[i]: what is kept of the i-th difference, not scaled but by chance. */
static void keep_selected(const delta_masks *masks, const merge_work *work, const merge_piece *piece, int index)
{
    merge_sparse how = work->merge->recipe->method->sparse;
    subtract_base(masks, work, piece, index);
    if (masks->keeps_all[index]) return;
    if (masks->keeps_none[index])
        memset(piece->deltas[index], 0, (size_t)piece->count * sizeof *piece->deltas[index]);
    else if (how == SPARSE_RANDOM)
        keep_random(masks, work, piece, index);
    else if (how == SPARSE_RANKED)
        keep_ranked(masks, work, piece, index);
    else {
        zt_merge_keep_range(&masks->ranges[index], piece, piece->deltas[index], piece->deltas[index]);
        masks->loops->keep(piece->deltas[index], masks->ranges[index].low, masks->ranges[index].high, piece->count);
    }
}

static void write_masked(merge_work *work, const merge_piece *piece, void *arg)
{
    const delta_masks *masks = arg;
    const float *base = piece->sources[work->base];
    for (int source_index = 0; source_index < masks->count; source_index++) {
        keep_selected(masks, work, piece, source_index);
        if (masks->scales[source_index] != 1)
            for (int64_t j = 0; j < piece->count; j++) piece->deltas[source_index][j] *= masks->scales[source_index];
    }
    if (work->merge->recipe->method->consensus)
        masks->loops->consensus(piece->result, base, piece->deltas, masks->weights, masks->count, masks->normalize, masks->factor,
                                piece->count);
    else
        masks->loops->combine_on(piece->result, base, piece->deltas, masks->weights, masks->count, piece->count);
}

/* ---- passes before the last: ranges, norms ---------------------------------------------------- */

static void ranked_lists(merge_work *work, const merge_piece *piece, const float **lists, void *arg)
{
    const delta_masks *masks = arg;
    for (int ranked_index = 0; ranked_index < masks->ranked_count; ranked_index++) {
        subtract_base(masks, work, piece, masks->list_of[ranked_index]);
        lists[ranked_index] = piece->deltas[masks->list_of[ranked_index]];
    }
}

/* The ranks of a difference that are kept. */
static void find_range(delta_masks *masks, const merge_work *work, int index)
{
    const double *params = source_params(work, index);
    int64_t count = work->element_count, kept = (int64_t)(params[MP_DENSITY] * (double)count);
    merge_range *range = &masks->ranges[index];
    if (work->merge->recipe->method->sparse == SPARSE_LARGEST) {
        kept = kept < 1 ? 1 : kept;
        *range = (merge_range){.first_rank = count - kept, .end_rank = count};
    } else {
        int64_t top = (int64_t)(params[MP_GAMMA] * (double)count), from = count - kept - top;
        from = from < 0 ? 0 : from;
        *range = (merge_range){.first_rank = from, .end_rank = from + kept < count ? from + kept : count};
    }
    masks->keeps_none[index] = range->first_rank >= range->end_rank;
}

static zt_status find_ranges(delta_masks *masks, merge_work *work)
{
    merge_range ranges[MERGE_SOURCES];
    for (int source_index = 0; source_index < masks->count; source_index++) {
        if (masks->keeps_all[source_index] || masks->keeps_none[source_index]) continue;
        find_range(masks, work, source_index);
        if (masks->keeps_none[source_index]) continue;
        masks->list_of[masks->ranked_count] = source_index;
        ranges[masks->ranked_count++] = masks->ranges[source_index];
    }
    zt_status status = masks->ranked_count ? zt_merge_rank_limits(work, ranges, masks->ranked_count, ranked_lists, masks) : ZT_OK;
    for (int k = 0; k < masks->ranked_count; k++) masks->ranges[masks->list_of[k]] = ranges[k];
    return status;
}

static zt_status alloc_sort_space(delta_masks *masks, merge_work *work)
{
    int threads = zt_pool_size(work->merge->pool);
    masks->sort_space = zt_calloc(work->merge->ctx, (size_t)threads, sizeof *masks->sort_space);
    for (int thread = 0; masks->sort_space && thread < threads; thread++)
        if (!(masks->sort_space[thread] =
                  zt_alloc_array(work->merge->ctx, (size_t)work->columns * 2 + 1, sizeof **masks->sort_space)))
            return ZT_ENOMEM;
    return masks->sort_space ? ZT_OK : ZT_ENOMEM;
}

static void do_norms(merge_work *work, const merge_piece *piece, void *arg)
{
    delta_masks *masks = arg;
    for (int source_index = 0; source_index < masks->count; source_index++) {
        double before = 0, after = 0;
        subtract_base(masks, work, piece, source_index);
        for (int64_t j = 0; j < piece->count; j++) before += fabsf(piece->deltas[source_index][j]);
        keep_selected(masks, work, piece, source_index);
        for (int64_t j = 0; j < piece->count; j++) after += fabsf(piece->deltas[source_index][j]);
        masks->before[piece->index * masks->count + source_index] = before;
        masks->after[piece->index * masks->count + source_index] = after;
    }
}

/* mergekit's rule: scales that keep the L1 norm. */
static zt_status find_norms(delta_masks *masks, merge_work *work)
{
    size_t cells = (size_t)work->piece_count * (size_t)masks->count;
    masks->before = zt_calloc(work->merge->ctx, cells * 2 + 1, sizeof *masks->before);
    if (!masks->before) return ZT_ENOMEM;
    masks->after = masks->before + cells;
    zt_status status = zt_merge_pass(work, do_norms, masks);
    for (int source_index = 0; source_index < masks->count && status == ZT_OK; source_index++) {
        double before = 0, after = 0;
        for (int64_t piece = 0; piece < work->piece_count; piece++) {
            before += masks->before[piece * masks->count + source_index];
            after += masks->after[piece * masks->count + source_index];
        }
        bool counts = !masks->keeps_all[source_index] && before >= 1e-7 && after >= 1e-7;
        masks->scales[source_index] = counts ? (float)(before / after) : 1;
    }
    return status;
}

/* Reads the parameters. */
static void set_up(delta_masks *masks, merge_work *work)
{
    const merge_method *how = work->merge->recipe->method;
    int rescale = (int)work->values->shared[MP_RESCALE];
    double sum = 0;
    masks->loops = zt_merge_loops();
    masks->count = work->other_count;
    masks->by_chance = rescale == RESCALE_DENSITY;
    masks->normalize = work->values->shared[MP_NORMALIZE] != 0;
    for (int source_index = 0; source_index < masks->count; source_index++) {
        const double *params = source_params(work, source_index);
        masks->densities[source_index] = params[MP_DENSITY];
        masks->epsilons[source_index] = how->per_other & MP_BIT(MP_EPSILON) ? params[MP_EPSILON] : 0;
        masks->keeps_all[source_index] = masks->densities[source_index] >= 1;
        masks->keeps_none[source_index] = masks->densities[source_index] <= 0;
        masks->scales[source_index] = 1;
        if (masks->by_chance && how->sparse != SPARSE_RANKED && !masks->keeps_all[source_index] &&
            !masks->keeps_none[source_index])
            masks->scales[source_index] = (float)(1 / masks->densities[source_index]);
        masks->sequences[source_index] =
            XXH3_64bits_withSeed(work->job->entry.name, strlen(work->job->entry.name),
                                 (uint64_t)work->job->slice->sources[work->others[source_index]].model);
        sum += masks->weights[source_index] = (float)params[MP_WEIGHT];
    }
    double divisor = masks->normalize && fabs(sum) >= 1e-8 ? sum : 1;
    masks->factor = (float)work->values->shared[MP_LAMBDA];
    for (int i = 0; i < masks->count && !how->consensus; i++)
        masks->weights[i] = (float)(masks->weights[i] * work->values->shared[MP_LAMBDA] / divisor);
}

static void free_masks(delta_masks *masks, merge_work *work)
{
    zt_merge_free_ranges(work, masks->ranges, masks->count);
    for (int thread = 0; masks->sort_space && thread < zt_pool_size(work->merge->pool); thread++)
        zt_free(work->merge->ctx, masks->sort_space[thread]);
    zt_free(work->merge->ctx, masks->sort_space);
    zt_free(work->merge->ctx, masks->before);
}

zt_status zt_merge_masked(merge_work *work)
{
    delta_masks masks = {0};
    merge_sparse how = work->merge->recipe->method->sparse;
    set_up(&masks, work);
    work->by_row = how == SPARSE_RANKED;
    zt_status status = zt_merge_begin(work);
    if (status == ZT_OK && how == SPARSE_RANKED) status = alloc_sort_space(&masks, work);
    if (status == ZT_OK && (how == SPARSE_LARGEST || how == SPARSE_MIDDLE)) status = find_ranges(&masks, work);
    if (status == ZT_OK && (int)work->values->shared[MP_RESCALE] == RESCALE_L1) status = find_norms(&masks, work);
    if (status == ZT_OK) status = zt_merge_pass_out(work, write_masked, &masks);
    free_masks(&masks, work);
    return status;
}

/* ---- sce ------------------------------------------------------------------------------------- */

typedef struct sce_selection {
    const merge_loops *loops;
    int count;
    merge_range range; /* of variances */
    bool none, all;
    int64_t *nonzero; /* [pieces] */
    double *squares;  /* [pieces][count] */
    float weights[MERGE_SOURCES];
} sce_selection;

/* Writes the differences to deltas, and the variance of each element among the models to result. */
static void find_variances(const sce_selection *sce, const merge_work *work, const merge_piece *piece)
{
    for (int i = 0; i < sce->count; i++)
        sce->loops->subtract(piece->deltas[i], piece->sources[work->others[i]], piece->sources[work->base], piece->count);
    for (int64_t j = 0; j < piece->count; j++) {
        double mean = 0, sum = 0;
        for (int i = 0; i < sce->count; i++) mean += piece->deltas[i][j];
        mean /= sce->count;
        for (int i = 0; i < sce->count; i++) sum += (piece->deltas[i][j] - mean) * (piece->deltas[i][j] - mean);
        piece->result[j] = (float)(sum / sce->count);
    }
}

static void variance_list(merge_work *work, const merge_piece *piece, const float **lists, void *arg)
{
    find_variances(arg, work, piece);
    lists[0] = piece->result;
}

static void do_nonzero(merge_work *work, const merge_piece *piece, void *arg)
{
    sce_selection *sce = arg;
    find_variances(sce, work, piece);
    sce->nonzero[piece->index] = 0;
    for (int64_t j = 0; j < piece->count; j++) sce->nonzero[piece->index] += piece->result[j] != 0;
}

/* Writes the selected differences to deltas. */
static void select_deltas(const sce_selection *sce, const merge_work *work, const merge_piece *piece)
{
    find_variances(sce, work, piece);
    for (int source_index = 0; source_index < sce->count && !sce->all; source_index++) {
        if (!sce->none) zt_merge_keep_range(&sce->range, piece, piece->result, piece->deltas[source_index]);
        for (int64_t j = 0; j < piece->count; j++)
            if (sce->none || piece->result[j] < sce->range.low || piece->result[j] > sce->range.high)
                piece->deltas[source_index][j] = 0;
    }
}

static void do_squares(merge_work *work, const merge_piece *piece, void *arg)
{
    sce_selection *sce = arg;
    select_deltas(sce, work, piece);
    for (int i = 0; i < sce->count; i++)
        sce->squares[piece->index * sce->count + i] = sce->loops->dot(piece->deltas[i], piece->deltas[i], piece->count);
}

static void do_sce(merge_work *work, const merge_piece *piece, void *arg)
{
    const sce_selection *sce = arg;
    select_deltas(sce, work, piece);
    for (int64_t j = 0; j < piece->count; j++) {
        float sum = 0, selected_sum = 0, weight_sum = 0;
        for (int i = 0; i < sce->count; i++) sum += piece->deltas[i][j];
        for (int source_index = 0; source_index < sce->count; source_index++) {
            float delta = piece->deltas[source_index][j];
            if (sum >= 0 ? delta <= 0 : delta >= 0) continue;
            selected_sum += delta * sce->weights[source_index];
            weight_sum += sce->weights[source_index];
        }
        piece->result[j] = piece->sources[work->base][j] + selected_sum / (weight_sum < 1e-6f ? 1e-6f : weight_sum);
    }
}

static zt_status select_range(sce_selection *sce, merge_work *work)
{
    double topk = work->values->shared[MP_SELECT_TOPK];
    int64_t count = 0;
    sce->all = topk >= 1;
    sce->none = topk <= 0;
    if (sce->all || sce->none) return ZT_OK;
    zt_status status = zt_merge_pass(work, do_nonzero, sce);
    for (int64_t piece = 0; piece < work->piece_count && status == ZT_OK; piece++) count += sce->nonzero[piece];
    int64_t kept = (int64_t)((double)count * topk);
    sce->none = kept == 0;
    sce->range = (merge_range){.first_rank = work->element_count - kept, .end_rank = work->element_count};
    return status == ZT_OK && kept ? zt_merge_rank_limits(work, &sce->range, 1, variance_list, sce) : status;
}

static zt_status find_weights(sce_selection *sce, merge_work *work)
{
    double mean[MERGE_SOURCES] = {0}, sum = 0;
    zt_status status = zt_merge_pass(work, do_squares, sce);
    for (int source_index = 0; source_index < sce->count; source_index++) {
        for (int64_t piece = 0; piece < work->piece_count && status == ZT_OK; piece++)
            mean[source_index] += sce->squares[piece * sce->count + source_index];
        sum += mean[source_index] /= (double)work->element_count;
    }
    for (int i = 0; i < sce->count; i++) sce->weights[i] = (float)(fabs(sum) < 1e-6 ? 1.0 / sce->count : mean[i] / sum);
    return status;
}

zt_status zt_merge_sce(merge_work *work)
{
    sce_selection sce = {.loops = zt_merge_loops(), .count = work->other_count};
    zt_status status = zt_merge_begin(work);
    if (status != ZT_OK) return status;
    sce.nonzero = zt_alloc_array(work->merge->ctx, (size_t)work->piece_count + 1, sizeof *sce.nonzero);
    sce.squares = zt_alloc_array(work->merge->ctx, (size_t)work->piece_count * (size_t)sce.count + 1, sizeof *sce.squares);
    status = sce.nonzero && sce.squares ? select_range(&sce, work) : ZT_ENOMEM;
    if (status == ZT_OK) status = find_weights(&sce, work);
    if (status == ZT_OK) status = zt_merge_pass_out(work, do_sce, &sce);
    zt_merge_free_ranges(work, &sce.range, 1);
    zt_free(work->merge->ctx, sce.nonzero);
    zt_free(work->merge->ctx, sce.squares);
    return status;
}
