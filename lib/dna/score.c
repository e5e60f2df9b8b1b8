/* score.c - owns two layers side by side: sums over all their numbers, in one pass over pieces.
 *
 * Pieces go round a fixed number of slots, each with sums of its own, which are added in order:
 * what comes out does not depend on how many threads there are.
 *
 * Rank. Of a matrix W, (sum s_i^2)^2 / sum s_i^4 over its singular values: its participation ratio,
 * the number of directions that count. The first sum is that of the squares; the second is the
 * trace of G^2, G = W^T W, which |G z|^2 is on average over vectors z of random signs (M.
 * Hutchinson, 1990). Both matrices meet the same z, so that their ratio is surer than either.
 *
 * Sketch. Numbers are added with a random sign into a random bucket: dot products are kept on
 * average (M. Charikar, K. Chen, M. Farach-Colton, 2002). */
#include "lib/dna/dna_file.h"

#include <math.h>
#include <string.h>

enum { SLOTS = 8, PIECE = 1 << 16, PROBES = 4, LANES = 8, MOST_COLS = 1 << 17 };

typedef struct sum_slot {
    dna_sums sums;
    float *values[2];      /* [piece] of a and b */
    float *probes[2];      /* [PROBES x cols] the G z so far */
    double *sketch[2];     /* [DNA_BUCKETS] */
    int64_t offset, count; /* the piece that it has: count 0 is none */
} sum_slot;

struct dna_workers {
    zt_ctx *ctx;
    zt_pool *pool;
    sum_slot slots[SLOTS];
    char *raw[2]; /* codes of SLOTS pieces */
    size_t raw_capacity[2];
    float *signs; /* [PROBES x cols] signs */
    int64_t piece_capacity, column_capacity;
    double *sketches; /* of all slots */
    /* of the layers at hand */
    zt_dtype dtype[2];
    int64_t piece_size, columns;
    bool ranks, sketch;
};

dna_workers *zt_dna_workers_new(zt_ctx *ctx, int threads)
{
    dna_workers *workers = zt_calloc(ctx, 1, sizeof *workers);
    if (!workers) return NULL;
    workers->ctx = ctx;
    workers->pool = zt_pool_new(ctx, threads > SLOTS ? SLOTS : threads);
    workers->sketches = zt_calloc(ctx, (size_t)2 * SLOTS * DNA_BUCKETS, sizeof *workers->sketches);
    for (int k = 0; k < SLOTS && workers->sketches; k++)
        for (int side = 0; side < 2; side++) workers->slots[k].sketch[side] = workers->sketches + (2 * k + side) * DNA_BUCKETS;
    if (workers->pool && workers->sketches) return workers;
    zt_dna_workers_free(workers);
    return NULL;
}

void zt_dna_workers_free(dna_workers *workers)
{
    if (!workers) return;
    for (int k = 0; k < SLOTS; k++)
        for (int side = 0; side < 2; side++) {
            zt_free(workers->ctx, workers->slots[k].values[side]);
            zt_free(workers->ctx, workers->slots[k].probes[side]);
        }
    zt_free(workers->ctx, workers->raw[0]);
    zt_free(workers->ctx, workers->raw[1]);
    zt_free(workers->ctx, workers->signs);
    zt_free(workers->ctx, workers->sketches);
    zt_pool_free(workers->pool);
    zt_free(workers->ctx, workers);
}

/* ---- one piece ------------------------------------------------------------------------------- */

static void add_sums(dna_sums *sums, const float *values_a, const float *values_b, int64_t count)
{
    double sum_a[LANES] = {0}, sum_b[LANES] = {0}, sum_aa[LANES] = {0}, sum_bb[LANES] = {0}, sum_ab[LANES] = {0},
           sum_dd[LANES] = {0}, max_diff[LANES] = {0};
    for (int64_t i = 0; i < count; i += LANES) {
        int64_t end = count - i < LANES ? count - i : LANES;
        for (int64_t k = 0; k < end; k++) {
            double value_a = values_a[i + k], value_b = values_b[i + k], diff = value_a - value_b;
            sum_a[k] += value_a;
            sum_b[k] += value_b;
            sum_aa[k] += value_a * value_a;
            sum_bb[k] += value_b * value_b;
            sum_ab[k] += value_a * value_b;
            sum_dd[k] += diff * diff;
            diff = fabs(diff);
            max_diff[k] = diff > max_diff[k] ? diff : max_diff[k];
        }
    }
    for (int k = 0; k < LANES; k++) {
        sums->sum_a += sum_a[k];
        sums->sum_b += sum_b[k];
        sums->sum_aa += sum_aa[k];
        sums->sum_bb += sum_bb[k];
        sums->sum_ab += sum_ab[k];
        sums->sum_dd += sum_dd[k];
        sums->max_diff = max_diff[k] > sums->max_diff ? max_diff[k] : sums->max_diff;
    }
}

static float dot_product(const float *left, const float *right, int64_t count)
{
    float lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) lane[k] += left[i + k] * right[i + k];
    for (; i < count; i++) sum += left[i] * right[i];
    for (int k = 0; k < LANES; k++) sum += lane[k];
    return sum;
}

/* out += scale * vector */
static void add_scaled(float *out, float scale, const float *vector, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) out[i + k] += scale * vector[i + k];
    for (; i < count; i++) out[i] += scale * vector[i];
}

/* G z += w (w . z) for each row w; probes: G z, signs: z. */
static void add_probes(float *probes, const float *signs, const float *rows, int64_t count, int64_t columns)
{
    for (int64_t offset = 0; offset < count; offset += columns)
        for (int k = 0; k < PROBES; k++)
            add_scaled(probes + k * columns, dot_product(rows + offset, signs + k * columns, columns), rows + offset, columns);
}

/* A bucket and a sign for number i of a layer: 32 well mixed bits (the finaliser of MurmurHash3).
 */
static uint32_t mix_bits(uint64_t number)
{
    uint32_t hash = (uint32_t)number * 2654435769u + (uint32_t)(number >> 32) * 40503u + 1;
    hash = (hash ^ hash >> 16) * 0x85ebca6bu;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
    return hash ^ hash >> 16;
}

static void add_sketch(sum_slot *slot, int64_t offset, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t hash = mix_bits((uint64_t)(offset + i)), bucket = hash % DNA_BUCKETS;
        float sign = hash >> 31 ? -1.0f : 1.0f;
        slot->sketch[0][bucket] += (double)(sign * slot->values[0][i]);
        slot->sketch[1][bucket] += (double)(sign * slot->values[1][i]);
    }
}

static void sum_slots(void *user, int thread, int n_threads)
{
    dna_workers *crew = user;
    for (int k = thread; k < SLOTS; k += n_threads) {
        sum_slot *slot = &crew->slots[k];
        if (slot->count == 0) continue;
        for (int side = 0; side < 2; side++)
            zt_dna_decode(crew->dtype[side], crew->raw[side] + (size_t)k * zt_dna_bytes(crew->dtype[side], crew->piece_size),
                          slot->values[side], slot->count);
        add_sums(&slot->sums, slot->values[0], slot->values[1], slot->count);
        for (int side = 0; crew->ranks && side < 2; side++)
            add_probes(slot->probes[side], crew->signs, slot->values[side], slot->count, crew->columns);
        if (crew->sketch) add_sketch(slot, slot->offset, slot->count);
    }
}

/* ---- a layer --------------------------------------------------------------------------------- */

static int64_t find_gcd(int64_t left, int64_t right) { return right ? find_gcd(right, left % right) : left; }

static float *replace_buffer(zt_ctx *ctx, float *buffer, int64_t count)
{
    zt_free(ctx, buffer);
    return zt_alloc_array(ctx, (size_t)count, sizeof(float));
}

static zt_status make_room(dna_workers *workers)
{
    bool good = true;
    for (int side = 0; side < 2; side++) {
        size_t bytes = SLOTS * zt_dna_bytes(workers->dtype[side], workers->piece_size);
        if (bytes <= workers->raw_capacity[side]) continue;
        zt_free(workers->ctx, workers->raw[side]);
        workers->raw[side] = zt_alloc(workers->ctx, bytes);
        workers->raw_capacity[side] = workers->raw[side] ? bytes : 0;
        good = good && workers->raw[side];
    }
    for (int k = 0; k < 2 * SLOTS && good && workers->piece_size > workers->piece_capacity; k++)
        good = (workers->slots[k / 2].values[k % 2] =
                    replace_buffer(workers->ctx, workers->slots[k / 2].values[k % 2], workers->piece_size));
    if (good && workers->piece_size > workers->piece_capacity) workers->piece_capacity = workers->piece_size;
    if (!workers->ranks || workers->columns <= workers->column_capacity) return good ? ZT_OK : ZT_ENOMEM;
    good = good && (workers->signs = replace_buffer(workers->ctx, workers->signs, PROBES * workers->columns));
    for (int k = 0; k < 2 * SLOTS && good; k++)
        good = (workers->slots[k / 2].probes[k % 2] =
                    replace_buffer(workers->ctx, workers->slots[k / 2].probes[k % 2], PROBES * workers->columns));
    if (good) workers->column_capacity = workers->columns;
    return good ? ZT_OK : ZT_ENOMEM;
}

/* Pieces end where rows and blocks of all types do. */
static void cut_pieces(dna_workers *workers, const zt_type *shape, bool ranks, int64_t count)
{
    int64_t step = 256;
    workers->columns = shape->rank == 2 ? shape->dim[1] : 0;
    workers->ranks = ranks && workers->columns > 1 && workers->columns <= MOST_COLS && shape->dim[0] > 1;
    if (workers->ranks) step = workers->columns / find_gcd(workers->columns, 256) * 256;
    workers->piece_size = step < PIECE ? PIECE / step * step : step;
    if (workers->piece_size > count) workers->piece_size = count;
}

static zt_status clear_sums(dna_workers *workers)
{
    zt_status status = make_room(workers);
    for (int slot_index = 0; slot_index < SLOTS && status == ZT_OK; slot_index++) {
        workers->slots[slot_index].sums = (dna_sums){.sum_a = 0};
        for (int side = 0; side < 2; side++) {
            if (workers->ranks)
                memset(workers->slots[slot_index].probes[side], 0, PROBES * (size_t)workers->columns * sizeof(float));
            if (workers->sketch) memset(workers->slots[slot_index].sketch[side], 0, DNA_BUCKETS * sizeof(double));
        }
    }
    for (int64_t i = 0; status == ZT_OK && workers->ranks && i < PROBES * workers->columns; i++)
        workers->signs[i] = mix_bits((uint64_t)i) >> 31 ? -1.0f : 1.0f;
    return status;
}

/* (sum s^2)^2 / sum s^4 of one side. */
static double rank_of(const dna_workers *workers, int side, double squares)
{
    double fourth = 0;
    for (int64_t i = 0; i < PROBES * workers->columns; i++) {
        double product = 0;
        for (int k = 0; k < SLOTS; k++) product += (double)workers->slots[k].probes[side][i];
        fourth += product * product;
    }
    return fourth > 0 ? squares * squares * PROBES / fourth : NAN;
}

static void add_up_slots(dna_workers *workers, dna_sums *out, double *sketch[2])
{
    *out = (dna_sums){.rank_a = NAN, .rank_b = NAN};
    for (int side = 0; side < 2 && workers->sketch; side++) memset(sketch[side], 0, DNA_BUCKETS * sizeof(double));
    for (int slot_index = 0; slot_index < SLOTS; slot_index++) {
        const dna_sums *sums = &workers->slots[slot_index].sums;
        out->sum_a += sums->sum_a;
        out->sum_b += sums->sum_b;
        out->sum_aa += sums->sum_aa;
        out->sum_bb += sums->sum_bb;
        out->sum_ab += sums->sum_ab;
        out->sum_dd += sums->sum_dd;
        out->max_diff = sums->max_diff > out->max_diff ? sums->max_diff : out->max_diff;
        for (int side = 0; side < 2 && workers->sketch; side++)
            for (int i = 0; i < DNA_BUCKETS; i++) sketch[side][i] += workers->slots[slot_index].sketch[side][i];
    }
    if (!workers->ranks) return;
    out->rank_a = rank_of(workers, 0, out->sum_aa);
    out->rank_b = rank_of(workers, 1, out->sum_bb);
}

zt_status zt_dna_sum(dna_workers *workers, zt_dna *model_a, int64_t index_a, zt_dna *model_b, int64_t index_b, bool ranks,
                     dna_sums *out, double *sketch_a, double *sketch_b)
{
    int64_t count = model_a->layers[index_a].count;
    zt_dna *from[2] = {model_a, model_b};
    int64_t which[2] = {index_a, index_b};
    workers->dtype[0] = zt_dna_dtype(model_a, index_a);
    workers->dtype[1] = zt_dna_dtype(model_b, index_b);
    workers->sketch = sketch_a != NULL;
    cut_pieces(workers, &model_a->layers[index_a].shape, ranks, count);
    zt_status status = clear_sums(workers);
    for (int64_t offset = 0; offset < count && status == ZT_OK; offset += SLOTS * workers->piece_size) {
        int64_t here = count - offset < SLOTS * workers->piece_size ? count - offset : SLOTS * workers->piece_size;
        for (int side = 0; side < 2 && status == ZT_OK; side++)
            status = zt_dna_fetch(from[side], which[side], offset, here, workers->raw[side]);
        for (int slot_index = 0; slot_index < SLOTS; slot_index++) {
            int64_t left = here - slot_index * workers->piece_size;
            workers->slots[slot_index].offset = offset + slot_index * workers->piece_size;
            workers->slots[slot_index].count = left < 0 ? 0 : left < workers->piece_size ? left : workers->piece_size;
        }
        if (status == ZT_OK) zt_pool_run(workers->pool, sum_slots, workers);
    }
    if (status == ZT_OK) add_up_slots(workers, out, (double *[2]){sketch_a, sketch_b});
    return status;
}
