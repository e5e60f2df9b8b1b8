/* transplant_rows.c - owns the rows of tokens that a model does not have.
 *
 * Orthogonal matching pursuit (OMP) and interpolation need the products of a donor's row with the donor's rows of all shared
 * tokens; OMP once for each token that it chooses. A thread has GROUP rows at a time, so that a tile of the shared rows is read
 * from the cache for all of them.
 */
#include "lib/dna/merge_internal.h"
#include "lib/dna/transplant_internal.h"
#include "lib/tensor/quantize.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { GROUP = 32, TILE = 64, LANES_OF_DOTS = 4 };

/* ---- reading --------------------------------------------------------------------------------- */

zt_status zt_transplant_read(zt_ctx *ctx, const transplant_source *source, int64_t first, int64_t count, float *values)
{
    char *raw = zt_alloc(ctx, (size_t)count * source->row_bytes + 1);
    zt_status status = raw ? zt_checkpoint_read(source->checkpoint, source->tensor, (uint64_t)first * source->row_bytes, raw,
                                                (size_t)count * source->row_bytes)
                           : ZT_ENOMEM;
    if (status == ZT_OK) zt_dtype_get(source->entry.type.dtype)->decode(raw, values, count * source->width);
    zt_free(ctx, raw);
    return status;
}

/* Rows of a list, as f32[count, width]. */
static float *gather_rows(zt_ctx *ctx, const transplant_source *source, const int64_t *rows, int64_t count)
{
    float *values = zt_alloc_array(ctx, (size_t)count * (size_t)source->width + 1, sizeof *values);
    zt_status status = ZT_OK;
    for (int64_t i = 0; values && i < count && status == ZT_OK; i++)
        status = zt_transplant_read(ctx, source, rows[i], 1, values + i * source->width);
    if (status == ZT_OK) return values;
    zt_free(ctx, values);
    return NULL;
}

/* ---- approximations by shared tokens --------------------------------------------------------- */

typedef struct row_choice { /* shared tokens of one row, and their coefficients */
    int64_t *index;         /* [k] */
    double *coefficient;    /* [k] */
    int64_t count;
} row_choice;

typedef struct row_group { /* memory of a thread */
    float *residuals;      /* [GROUP, donor's width] */
    float *products;       /* [TILE, LANES_OF_DOTS] */
    double *basis;         /* [GROUP, k, donor's width] orthonormal */
    double *triangle;      /* [GROUP, k, k] of chosen rows in the basis */
    double *along;         /* [GROUP, k] the row's parts along the basis; distances of interpolation */
    double *residual;      /* [GROUP, donor's width] */
    unsigned char *used;   /* [GROUP, shared] */
    int64_t *best;         /* [GROUP]; -1: the row is done */
    float *best_product;   /* [GROUP] */
    row_choice choices[GROUP];
} row_group;

typedef struct row_maker {
    const transplant_work *work;
    const merge_loops *loops;
    int64_t k, donor_width, model_width;
    float *donor_shared, *model_shared; /* [shared, width] */
    double *lengths;                    /* [shared] squared lengths of donor_shared */
    float *batch, *results;             /* [batch_count, donor's width], [batch_count, model's width] */
    int64_t batch_count;
    zt_pool *pool;
    row_group *groups; /* [threads] */
} row_maker;

/* Products of all rows of the group with all shared rows: calls `take` with them in the order of the shared rows. */
static void multiply_group(const row_maker *maker, row_group *group, int64_t rows,
                           void (*take)(const row_maker *, row_group *, int64_t row, int64_t shared, float product))
{
    const int64_t width = maker->donor_width, shared_count = maker->work->shared_count;
    for (int64_t tile = 0; tile < shared_count; tile += TILE) {
        const int64_t height = shared_count - tile < TILE ? shared_count - tile : TILE;
        for (int64_t row = 0; row < rows; row += LANES_OF_DOTS) {
            const float *x[LANES_OF_DOTS];
            for (int64_t j = 0; j < LANES_OF_DOTS; j++) x[j] = group->residuals + (row + j < rows ? row + j : row) * width;
            maker->loops->dots(group->products, maker->donor_shared + tile * width, height, x, width);
            for (int64_t j = 0; j < LANES_OF_DOTS && row + j < rows; j++)
                for (int64_t i = 0; i < height; i++)
                    take(maker, group, row + j, tile + i, group->products[i * LANES_OF_DOTS + j]);
        }
    }
}

/* ---- orthogonal matching pursuit ------------------------------------------------------------- */

static void take_best(const row_maker *maker, row_group *group, int64_t row, int64_t shared, float product)
{
    if (!(fabsf(product) > group->best_product[row]) || group->used[row * maker->work->shared_count + shared]) return;
    group->best[row] = shared;
    group->best_product[row] = fabsf(product);
}

static double dot(const double *x, const double *y, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i] * y[i];
    return sum;
}

/* Adds the best shared row to the basis, and takes its direction from the residual. false: it is not independent of the rows that
 * were chosen before, and the approximation is as good as it can be. */
static bool add_to_basis(const row_maker *maker, row_group *group, int64_t row)
{
    const int64_t width = maker->donor_width, k = maker->k;
    row_choice *choice = &group->choices[row];
    const int64_t t = choice->count, best = group->best[row];
    double *basis = group->basis + row * k * width, *direction = basis + t * width, *triangle = group->triangle + row * k * k;
    double *residual = group->residual + row * width;
    for (int64_t i = 0; i < width; i++) direction[i] = maker->donor_shared[best * width + i];
    for (int64_t s = 0; s < t; s++) {
        const double part = triangle[s * k + t] = dot(basis + s * width, direction, width);
        for (int64_t i = 0; i < width; i++) direction[i] -= part * basis[s * width + i];
    }
    const double length = sqrt(dot(direction, direction, width));
    if (!(length > 1e-6 * sqrt(maker->lengths[best]))) return false;
    triangle[t * k + t] = length;
    for (int64_t i = 0; i < width; i++) direction[i] /= length;
    const double along = group->along[row * k + t] = dot(direction, residual, width);
    for (int64_t i = 0; i < width; i++) residual[i] -= along * direction[i];
    for (int64_t i = 0; i < width; i++) group->residuals[row * width + i] = (float)residual[i];
    group->used[row * maker->work->shared_count + best] = 1;
    choice->index[choice->count++] = best;
    return true;
}

/* Coefficients of the chosen rows from the parts along the basis. */
static void solve_triangle(const row_maker *maker, row_group *group, int64_t row)
{
    const int64_t k = maker->k;
    const row_choice *choice = &group->choices[row];
    const double *triangle = group->triangle + row * k * k;
    for (int64_t t = choice->count - 1; t >= 0; t--) {
        double sum = group->along[row * k + t];
        for (int64_t s = t + 1; s < choice->count; s++) sum -= triangle[t * k + s] * choice->coefficient[s];
        choice->coefficient[t] = sum / triangle[t * k + t];
    }
}

static void pursue_group(const row_maker *maker, row_group *group, int64_t rows)
{
    const int64_t width = maker->donor_width;
    memset(group->used, 0, (size_t)(rows * maker->work->shared_count));
    for (int64_t row = 0; row < rows; row++) group->choices[row].count = group->best[row] = 0;
    for (int64_t i = 0; i < rows * width; i++) group->residual[i] = group->residuals[i];
    int64_t left = rows;
    for (int64_t t = 0; t < maker->k && left; t++) {
        /* no product exceeds infinity: a row that is done takes none */
        for (int64_t row = 0; row < rows; row++) group->best_product[row] = group->best[row] < 0 ? INFINITY : 0;
        multiply_group(maker, group, rows, take_best);
        for (int64_t row = 0; row < rows; row++) {
            if (group->best[row] < 0) continue;
            bool goes_on = group->best_product[row] > 0 && add_to_basis(maker, group, row);
            if (!goes_on) group->best[row] = -1, left--;
        }
    }
    for (int64_t row = 0; row < rows; row++) solve_triangle(maker, group, row);
}

/* ---- interpolation --------------------------------------------------------------------------- */

/* Keeps the k smallest distances, in their order; those of equal distance in the order of the tokens. */
static void take_near(const row_maker *maker, row_group *group, int64_t row, int64_t shared, float product)
{
    row_choice *choice = &group->choices[row];
    double *distance = group->along + row * maker->k; /* squared, less the row's own length */
    const double here = maker->lengths[shared] - 2 * (double)product;
    if (choice->count == maker->k && !(here < distance[maker->k - 1])) return;
    int64_t place = choice->count < maker->k ? choice->count++ : maker->k - 1;
    for (; place > 0 && here < distance[place - 1]; place--) {
        distance[place] = distance[place - 1];
        choice->index[place] = choice->index[place - 1];
    }
    distance[place] = here;
    choice->index[place] = shared;
}

static void interpolate_group(const row_maker *maker, row_group *group, int64_t rows)
{
    const int64_t width = maker->donor_width;
    for (int64_t row = 0; row < rows; row++) group->choices[row].count = 0;
    multiply_group(maker, group, rows, take_near);
    for (int64_t row = 0; row < rows; row++) {
        row_choice *choice = &group->choices[row];
        double sum = 0;
        for (int64_t j = 0; j < choice->count; j++) {
            double square = 0;
            for (int64_t i = 0; i < width; i++) {
                double difference = (double)group->residuals[row * width + i] - maker->donor_shared[choice->index[j] * width + i];
                square += difference * difference;
            }
            choice->coefficient[j] = 1 / (sqrt(square) > 1e-6 ? sqrt(square) : 1e-6);
            sum += choice->coefficient[j];
        }
        for (int64_t j = 0; j < choice->count; j++) choice->coefficient[j] /= sum > 1e-6 ? sum : 1e-6;
    }
}

/* ---- a batch of rows ------------------------------------------------------------------------- */

static void make_group(const row_maker *maker, row_group *group, int64_t first, int64_t rows)
{
    const int64_t width = maker->model_width;
    memcpy(group->residuals, maker->batch + first * maker->donor_width,
           (size_t)(rows * maker->donor_width) * sizeof *group->residuals);
    if (maker->work->options->method == ZT_TRANSPLANT_OMP)
        pursue_group(maker, group, rows);
    else
        interpolate_group(maker, group, rows);
    for (int64_t row = 0; row < rows; row++) {
        const row_choice *choice = &group->choices[row];
        for (int64_t i = 0; i < width; i++) {
            double sum = 0;
            for (int64_t j = 0; j < choice->count; j++)
                sum += choice->coefficient[j] * maker->model_shared[choice->index[j] * width + i];
            maker->results[(first + row) * width + i] = (float)sum;
        }
    }
}

static void make_groups(void *user, int thread, int thread_count)
{
    const row_maker *maker = user;
    for (int64_t first = (int64_t)thread * GROUP; first < maker->batch_count; first += (int64_t)thread_count * GROUP)
        make_group(maker, &maker->groups[thread], first, maker->batch_count - first < GROUP ? maker->batch_count - first : GROUP);
}

static zt_status put_rows(const transplant_work *work, const float *values, int64_t first, int64_t count)
{
    zt_quantizer quantizer = {
        .dtype = work->model->entry.type.dtype, .columns = work->model->width, .name = work->model->entry.name};
    return zt_quantize_rows(work->ctx, &quantizer, values, count, work->rows + (size_t)first * work->model->row_bytes);
}

static zt_status report(const transplant_work *work, int64_t done)
{
    const zt_transplant_opts *options = work->options;
    if (options->progress) options->progress(options->user, work->model->entry.name, (double)done, (double)work->target_count);
    return options->stop && options->stop() ? zt_fail(work->ctx, ZT_EINTR, "interrupted") : ZT_OK;
}

static zt_status open_group(const row_maker *maker, row_group *group)
{
    zt_ctx *ctx = maker->work->ctx;
    const size_t width = (size_t)maker->donor_width, k = (size_t)maker->k, shared = (size_t)maker->work->shared_count;
    const bool pursues = maker->work->options->method == ZT_TRANSPLANT_OMP;
    group->residuals = zt_alloc_array(ctx, GROUP * width, sizeof *group->residuals);
    group->products = zt_alloc_array(ctx, TILE * LANES_OF_DOTS, sizeof *group->products);
    group->along = zt_alloc_array(ctx, GROUP * k, sizeof *group->along);
    group->best = zt_alloc_array(ctx, GROUP, sizeof *group->best);
    group->best_product = zt_alloc_array(ctx, GROUP, sizeof *group->best_product);
    bool there = group->residuals && group->products && group->along && group->best && group->best_product;
    if (there && pursues) {
        group->basis = zt_alloc_array(ctx, GROUP * k * width, sizeof *group->basis);
        group->triangle = zt_alloc_array(ctx, GROUP * k * k, sizeof *group->triangle);
        group->residual = zt_alloc_array(ctx, GROUP * width, sizeof *group->residual);
        group->used = zt_alloc_array(ctx, GROUP * shared, sizeof *group->used);
        there = group->basis && group->triangle && group->residual && group->used;
    }
    for (int i = 0; i < GROUP && there; i++) {
        group->choices[i].index = zt_alloc_array(ctx, k, sizeof *group->choices[i].index);
        group->choices[i].coefficient = zt_alloc_array(ctx, k, sizeof *group->choices[i].coefficient);
        there = group->choices[i].index && group->choices[i].coefficient;
    }
    return there ? ZT_OK : ZT_ENOMEM;
}

static void close_group(zt_ctx *ctx, row_group *group)
{
    for (int i = 0; i < GROUP; i++) {
        zt_free(ctx, group->choices[i].index);
        zt_free(ctx, group->choices[i].coefficient);
    }
    zt_free(ctx, group->residuals);
    zt_free(ctx, group->products);
    zt_free(ctx, group->along);
    zt_free(ctx, group->best);
    zt_free(ctx, group->best_product);
    zt_free(ctx, group->basis);
    zt_free(ctx, group->triangle);
    zt_free(ctx, group->residual);
    zt_free(ctx, group->used);
}

static zt_status open_maker(row_maker *maker, int64_t batch)
{
    const transplant_work *work = maker->work;
    zt_ctx *ctx = work->ctx;
    const int threads = zt_pool_size(maker->pool);
    maker->donor_shared = gather_rows(ctx, work->donor, work->shared_donor, work->shared_count);
    maker->model_shared = maker->donor_shared ? gather_rows(ctx, work->model, work->shared_model, work->shared_count) : NULL;
    if (!maker->model_shared) return zt_ctx_status(ctx);
    maker->lengths = zt_alloc_array(ctx, (size_t)work->shared_count, sizeof *maker->lengths);
    maker->batch = zt_alloc_array(ctx, (size_t)(batch * maker->donor_width), sizeof *maker->batch);
    maker->results = zt_alloc_array(ctx, (size_t)(batch * maker->model_width), sizeof *maker->results);
    maker->groups = zt_calloc(ctx, (size_t)threads, sizeof *maker->groups);
    zt_status status = maker->lengths && maker->batch && maker->results && maker->groups ? ZT_OK : ZT_ENOMEM;
    for (int thread = 0; thread < threads && status == ZT_OK; thread++) status = open_group(maker, &maker->groups[thread]);
    for (int64_t i = 0; i < work->shared_count && status == ZT_OK; i++) {
        const float *row = maker->donor_shared + i * maker->donor_width;
        maker->lengths[i] = maker->loops->dot(row, row, maker->donor_width);
    }
    return status;
}

static void close_maker(row_maker *maker)
{
    zt_ctx *ctx = maker->work->ctx;
    for (int thread = 0; maker->groups && thread < zt_pool_size(maker->pool); thread++) close_group(ctx, &maker->groups[thread]);
    zt_free(ctx, maker->groups);
    zt_free(ctx, maker->donor_shared);
    zt_free(ctx, maker->model_shared);
    zt_free(ctx, maker->lengths);
    zt_free(ctx, maker->batch);
    zt_free(ctx, maker->results);
    zt_pool_free(maker->pool);
}

static zt_status make_by_shared(const transplant_work *work)
{
    const int threads = work->options->threads > 0 ? work->options->threads : zt_cpu_count();
    row_maker maker = {.work = work,
                       .loops = zt_merge_loops(),
                       .k = work->options->k < work->shared_count ? work->options->k : work->shared_count,
                       .donor_width = work->donor->width,
                       .model_width = work->model->width,
                       .pool = zt_pool_new(work->ctx, threads > 256 ? 256 : threads)};
    if (!maker.pool) return zt_ctx_status(work->ctx);
    const int64_t batch = (int64_t)zt_pool_size(maker.pool) * GROUP;
    zt_status status = open_maker(&maker, batch);
    for (int64_t first = 0; first < work->target_count && status == ZT_OK; first += batch) {
        maker.batch_count = work->target_count - first < batch ? work->target_count - first : batch;
        for (int64_t i = 0; i < maker.batch_count && status == ZT_OK; i++)
            status = zt_transplant_read(work->ctx, work->donor, work->targets[first + i], 1, maker.batch + i * maker.donor_width);
        if (status != ZT_OK) break;
        zt_pool_run(maker.pool, make_groups, &maker);
        status = put_rows(work, maker.results, first, maker.batch_count);
        if (status == ZT_OK) status = report(work, first + maker.batch_count);
    }
    close_maker(&maker);
    return status;
}

/* ---- the other methods ------------------------------------------------------------------------ */

/* Adds a row of the model. */
static zt_status add_row(const transplant_work *work, int64_t row, float *values, double *sums)
{
    zt_status status = zt_transplant_read(work->ctx, work->model, row, 1, values);
    for (int64_t i = 0; i < work->model->width && status == ZT_OK; i++) sums[i] += values[i];
    return status;
}

static void divide_sums(const double *sums, int64_t width, size_t count, float *values)
{
    for (int64_t i = 0; i < width; i++) values[i] = count ? (float)(sums[i] / (double)count) : 0;
}

static zt_status make_mean(const transplant_work *work, float *values, double *sums)
{
    const int64_t rows = work->options->method == ZT_TRANSPLANT_MEAN ? work->model->rows : 0;
    zt_status status = ZT_OK;
    for (int64_t row = 0; row < rows && status == ZT_OK; row++) status = add_row(work, row, values, sums);
    divide_sums(sums, work->model->width, (size_t)rows, values);
    for (int64_t i = 0; i < work->target_count && status == ZT_OK; i++) status = put_rows(work, values, i, 1);
    return status;
}

static zt_status make_by_subwords(const transplant_work *work, float *values, double *sums)
{
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < work->target_count && status == ZT_OK; i++) {
        const int32_t *ids = NULL;
        size_t count = 0;
        memset(sums, 0, (size_t)work->model->width * sizeof *sums);
        status = work->options->encode(work->options->user, work->vocab->tokens[work->targets[i]].text, &ids, &count);
        for (size_t j = 0; j < count && status == ZT_OK; j++) {
            if (ids[j] < 0 || ids[j] >= work->model->rows)
                return zt_fail(work->ctx, ZT_EDATA, "%s: token %" PRId32 " has no row in '%s', which has %" PRId64 " rows",
                               zt_checkpoint_name(work->model->checkpoint), ids[j], work->model->entry.name, work->model->rows);
            status = add_row(work, ids[j], values, sums);
        }
        divide_sums(sums, work->model->width, count, values);
        if (status == ZT_OK) status = put_rows(work, values, i, 1);
        if (status == ZT_OK && i % 1024 == 1023) status = report(work, i + 1);
    }
    return status;
}

zt_status zt_transplant_rows(const transplant_work *work)
{
    const zt_transplant_method method = work->options->method;
    if (!work->target_count) return ZT_OK;
    if (method == ZT_TRANSPLANT_OMP || method == ZT_TRANSPLANT_INTERPOLATION) return make_by_shared(work);
    float *values = zt_calloc(work->ctx, (size_t)work->model->width + 1, sizeof *values);
    double *sums = zt_calloc(work->ctx, (size_t)work->model->width + 1, sizeof *sums);
    zt_status status = !values || !sums                  ? ZT_ENOMEM
                       : method == ZT_TRANSPLANT_SUBWORD ? make_by_subwords(work, values, sums)
                                                         : make_mean(work, values, sums);
    zt_free(work->ctx, values);
    zt_free(work->ctx, sums);
    return status;
}
