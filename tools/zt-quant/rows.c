/* rows.c - owns the work: rows are read, decoded, quantized on every thread, and handed on in
 * order.
 *
 * A block of rows is read at once; threads take groups of its rows as they come. What a group
 * becomes, and what it adds to the loss, depends on that group alone, so that bytes and figures are
 * the same for any number of threads; of several faults the first in the tensor is told.
 */
#include "tools/zt-quant/quant.h"

#include <stdatomic.h>
#include <string.h>

enum {
    GROUP = 1 << 14,   /* elements of a group: its floats stay in the cache */
    BLOCK = 1 << 20,   /* bytes of a block, in or out, or one row */
    SAMPLE = 1 << 20,  /* about so many elements say what columns weigh: */
    SAMPLE_LEAST = 64, /* rows of them */
    SAMPLE_MOST = 256
};

struct quant_crew {
    zt_ctx *ctx;
    zt_pool *pool;
    char *raw, *out, *sample, *weights;
    size_t raw_capacity, out_capacity, sample_capacity, weights_capacity;
    float **values, **decoded; /* [threads][group's elements] as it is, and as it becomes */
    size_t values_capacity;
    zt_loss_of *loss; /* [groups] */
    zt_status *status;
    size_t group_count;
};

quant_crew *quant_crew_new(quant_run *run)
{
    int64_t threads = run->cli->threads ? run->cli->threads : zt_cpu_count();
    quant_crew *crew = zt_calloc(run->ctx, 1, sizeof *crew);
    if (!crew) return NULL;
    crew->ctx = run->ctx;
    crew->pool = zt_pool_new(run->ctx, (int)threads);
    crew->values = zt_calloc(run->ctx, (size_t)threads, sizeof *crew->values);
    crew->decoded = zt_calloc(run->ctx, (size_t)threads, sizeof *crew->decoded);
    if (crew->pool && crew->values && crew->decoded) return crew;
    quant_crew_free(crew);
    return NULL;
}

static void drop_floats(quant_crew *crew)
{
    for (int i = 0; crew->pool && crew->values && crew->decoded && i < zt_pool_size(crew->pool); i++) {
        zt_free(crew->ctx, crew->values[i]);
        zt_free(crew->ctx, crew->decoded[i]);
        crew->values[i] = crew->decoded[i] = NULL;
    }
    crew->values_capacity = 0;
}

void quant_crew_free(quant_crew *crew)
{
    if (!crew) return;
    drop_floats(crew);
    zt_free(crew->ctx, crew->values);
    zt_free(crew->ctx, crew->decoded);
    zt_free(crew->ctx, crew->raw);
    zt_free(crew->ctx, crew->out);
    zt_free(crew->ctx, crew->sample);
    zt_free(crew->ctx, crew->weights);
    zt_free(crew->ctx, crew->loss);
    zt_free(crew->ctx, crew->status);
    zt_pool_free(crew->pool);
    zt_free(crew->ctx, crew);
}

/* ---- room ------------------------------------------------------------------------------------ */

static zt_status reserve_bytes(zt_ctx *ctx, char **buffer, size_t *capacity, size_t size)
{
    if (*capacity >= size) return ZT_OK;
    zt_free(ctx, *buffer);
    *capacity = 0;
    *buffer = zt_alloc(ctx, size);
    *capacity = *buffer ? size : 0;
    return *buffer ? ZT_OK : ZT_ENOMEM;
}

static zt_status reserve_floats(quant_crew *crew, size_t count)
{
    if (crew->values_capacity >= count) return ZT_OK;
    drop_floats(crew);
    for (int i = 0; i < zt_pool_size(crew->pool); i++) {
        crew->values[i] = zt_alloc_array(crew->ctx, count, sizeof **crew->values);
        crew->decoded[i] = zt_alloc_array(crew->ctx, count, sizeof **crew->decoded);
        if (!crew->values[i] || !crew->decoded[i]) return ZT_ENOMEM;
    }
    crew->values_capacity = count;
    return ZT_OK;
}

static zt_status reserve_groups(quant_crew *crew, size_t count)
{
    if (crew->group_count >= count) return ZT_OK;
    zt_free(crew->ctx, crew->loss);
    zt_free(crew->ctx, crew->status);
    crew->group_count = 0;
    crew->loss = zt_alloc_array(crew->ctx, count, sizeof *crew->loss);
    crew->status = zt_alloc_array(crew->ctx, count, sizeof *crew->status);
    if (!crew->loss || !crew->status) return ZT_ENOMEM;
    crew->group_count = count;
    return ZT_OK;
}

/* ---- a block of rows ------------------------------------------------------------------------- */

typedef struct row_block {
    quant_crew *crew;
    const quant_job *job;
    zt_dtype dtype;
    const float *importance;
    int64_t columns, first, rows, group; /* group: rows of one */
    size_t in_row, out_row;
    const quant_scales *scales; /* NULL: the type has none */
    bool measure, by_importance, search;
    bool guessed; /* importance comes of the rows */
    atomic_llong next;
} row_block;

/* As zt_loss_add, with each column's squared error weighted by its importance: an estimate of the error
 * of the layer's output. */
static void add_weighed(zt_loss_of *loss, const float *originals, const float *results, const row_block *block, int64_t rows)
{
    for (int64_t row = 0; row < rows; row++, originals += block->columns, results += block->columns)
        for (int64_t i = 0; i < block->columns; i++) {
            double weight = block->importance[i], error = (double)results[i] - originals[i];
            loss->error2 += weight * error * error;
            loss->x2 += weight * originals[i] * originals[i];
        }
    loss->count += rows * block->columns;
}

/* Rows of one group, on one thread; ctx NULL: no message. */
static zt_status quantize_group(row_block *block, zt_ctx *ctx, int thread, int64_t group)
{
    quant_crew *crew = block->crew;
    const zt_dtype_info *source_info = zt_dtype_get(block->job->source.type.dtype), *target_info = zt_dtype_get(block->dtype);
    int64_t start = group * block->group, rows = block->rows - start < block->group ? block->rows - start : block->group;
    const char *raw = crew->raw + (size_t)start * block->in_row;
    char *out = crew->out + (size_t)start * block->out_row;
    const float *values = (const float *)raw;
    if (block->job->source.type.dtype != ZT_F32) {
        source_info->decode(raw, crew->values[thread], rows * block->columns);
        values = crew->values[thread];
    }
    zt_quantizer quantizer = {.dtype = block->dtype,
                              .columns = block->columns,
                              .name = block->job->source.name,
                              .first_row = block->first + start,
                              .importance = block->importance,
                              .search = block->search};
    zt_status status =
        block->scales ? quant_scaled_rows(ctx, &quantizer, values, rows, block->scales, (uint8_t *)out, crew->decoded[thread])
                      : zt_quantize_rows(ctx, &quantizer, values, rows, out);
    crew->loss[group] = (zt_loss_of){0};
    if (status == ZT_OK && block->measure) {
        if (!block->scales) target_info->decode(out, crew->decoded[thread], rows * block->columns);
        if (block->by_importance && block->importance)
            add_weighed(&crew->loss[group], values, crew->decoded[thread], block, rows);
        else
            zt_loss_add(&crew->loss[group], values, crew->decoded[thread], rows * block->columns);
    }
    return status;
}

static void run_groups(void *user, int thread, int n_threads)
{
    row_block *block = user;
    int64_t count = (block->rows + block->group - 1) / block->group, group;
    (void)n_threads;
    while ((group = atomic_fetch_add(&block->next, 1)) < count)
        block->crew->status[group] = quantize_group(block, NULL, thread, group);
}

void quant_add_loss(zt_loss_of *sum, const zt_loss_of *added)
{
    sum->count += added->count;
    sum->error2 += added->error2;
    sum->x2 += added->x2;
    sum->y2 += added->y2;
    sum->xy += added->xy;
    sum->most = added->most > sum->most ? added->most : sum->most;
}

/* What was read is quantized, and its loss is added up in order. */
static zt_status quantize_block(row_block *block, zt_loss_of *loss)
{
    int64_t count = (block->rows + block->group - 1) / block->group;
    atomic_store(&block->next, 0);
    zt_pool_run(block->crew->pool, run_groups, block);
    for (int64_t group = 0; group < count; group++) {
        if (block->crew->status[group] != ZT_OK) /* once more, for its message */
            return quantize_group(block, block->crew->ctx, 0, group);
        if (loss) quant_add_loss(loss, &block->crew->loss[group]);
    }
    return ZT_OK;
}

/* ---- rows of a tensor ------------------------------------------------------------------------ */

int64_t quant_n_rows(const zt_type *type)
{
    int64_t rows = 1;
    for (int i = 0; i + 1 < type->rank; i++) rows *= type->dim[i];
    return rows;
}

int64_t quant_n_experts(const zt_type *type)
{
    int64_t count = 1;
    for (int i = 0; i + 2 < type->rank; i++) count *= type->dim[i];
    return count;
}

static int64_t rows_of_expert(const row_block *block)
{
    return quant_n_rows(&block->job->source.type) / quant_n_experts(&block->job->source.type);
}

/* Rows of an expert by which importance is guessed. */
static int64_t sample_rows(const row_block *block)
{
    int64_t rows = SAMPLE / block->columns, each = rows_of_expert(block);
    rows = rows < SAMPLE_LEAST ? SAMPLE_LEAST : rows < SAMPLE_MOST ? rows : SAMPLE_MOST;
    return rows < each ? rows : each;
}

/* Must importance be guessed? Only where the imatrix has none, the quantizer searches for codes, and the
 * sample of rows stays small. An embedding is looked up, not multiplied, so its columns have no importance. */
static bool must_guess(const row_block *block)
{
    return !block->job->weighed && zt_quantize_weighs(block->dtype) && block->columns <= SAMPLE / 8 &&
           (block->search || !zt_quantize_has_rule(block->dtype)) && !strstr(block->job->source.name, "token_embd");
}

static zt_status make_block(quant_run *run, row_block *block, int64_t rows)
{
    const zt_dtype_info *source_info = zt_dtype_get(block->job->source.type.dtype), *target_info = zt_dtype_get(block->dtype);
    block->in_row = (size_t)(block->columns / source_info->block) * (size_t)source_info->block_bytes;
    block->out_row = (size_t)(block->columns / target_info->block) * (size_t)target_info->block_bytes;
    size_t row = block->in_row > block->out_row ? block->in_row : block->out_row;
    int64_t fit = row ? (int64_t)(BLOCK / row) : 1;
    if (block->guessed && fit < sample_rows(block)) fit = sample_rows(block);
    block->rows = fit < 1 ? 1 : fit < rows ? fit : rows;
    block->group = block->columns ? GROUP / block->columns : 1;
    block->group = block->group < 1 ? 1 : block->group;
    block->crew = run->crew;
    int64_t held = block->guessed && block->rows < sample_rows(block) ? sample_rows(block) : block->rows;
    zt_status status = reserve_bytes(run->ctx, &run->crew->raw, &run->crew->raw_capacity, (size_t)held * block->in_row);
    if (status == ZT_OK)
        status = reserve_bytes(run->ctx, &run->crew->out, &run->crew->out_capacity, (size_t)block->rows * block->out_row);
    if (status == ZT_OK) status = reserve_floats(run->crew, (size_t)(block->group * block->columns));
    return status == ZT_OK ? reserve_groups(run->crew, (size_t)(block->rows / block->group) + 1) : status;
}

/* Importance differs from expert to expert, so a block that uses it must not reach into the next expert:
 * shortens the block to the rows of one expert and sets *start to that expert's first row. */
static void aim_block(const quant_run *run, row_block *block, int64_t *start)
{
    const quant_job *quantized = block->job;
    if (!quantized->weighed && !block->guessed) return;
    int64_t each = rows_of_expert(block), left = each - block->first % each;
    *start = block->first / each * each;
    block->rows = block->rows < left ? block->rows : left;
    if (quantized->weighed)
        block->importance = zt_imatrix_find(run->imatrix, quantized->source.name, block->first / each, block->columns);
}

/* The power of the guessed importance. 2 for the matrices whose output enters the next product unchanged
 * (values, the up projection of an MLP); 1 for queries, keys and gates, whose output first passes a
 * nonlinear function, so that the size of an input says less about the error it causes. */
static int guess_power(const char *name)
{
    static const char *const twice[] = {"attn_v", "v_proj", "ffn_up", "up_proj"};
    for (size_t i = 0; i < sizeof twice / sizeof *twice; i++)
        if (strstr(name, twice[i])) return 2;
    return 1;
}

/* An importance of an expert's columns by its first rows, which are in crew->raw. */
static zt_status guess_importance(quant_run *run, row_block *block)
{
    quant_crew *crew = run->crew;
    const zt_dtype_info *source_info = zt_dtype_get(block->job->source.type.dtype);
    int64_t rows = sample_rows(block), count = rows * block->columns;
    bool any = false;
    zt_status status = reserve_bytes(run->ctx, &crew->sample, &crew->sample_capacity, (size_t)count * sizeof(float));
    if (status == ZT_OK)
        status = reserve_bytes(run->ctx, &crew->weights, &crew->weights_capacity, (size_t)block->columns * sizeof(float));
    if (status != ZT_OK) return status;
    source_info->decode(crew->raw, (float *)crew->sample, count);
    status = zt_column_weights(run->ctx, (float *)crew->sample, rows, block->columns, guess_power(block->job->source.name),
                               (float *)crew->weights, &any);
    block->importance = any ? (float *)crew->weights : NULL;
    return status;
}

/* Reads a block and, at the first block of an expert, guesses the importance of its columns from the
 * expert's first sample_rows() rows, which starts at row `start`:
 *
 *   block begins at start and holds the sample   read the block, guess from it
 *   first block, or begins at start but shorter  read the sample aside, guess, then read the block
 *   any other block of the expert                keep the guess, read the block
 */
static zt_status read_block(quant_run *run, int64_t job, row_block *block, bool first, int64_t start)
{
    char *raw = run->crew->raw;
    bool here = block->first == start && block->rows >= sample_rows(block);
    bool aside = block->guessed && !here && (first || block->first == start);
    zt_status status = ZT_OK;
    if (aside)
        status =
            zt_checkpoint_read(run->input, job, (uint64_t)start * block->in_row, raw, (size_t)sample_rows(block) * block->in_row);
    if (status == ZT_OK && aside) status = guess_importance(run, block);
    if (status == ZT_OK)
        status =
            zt_checkpoint_read(run->input, job, (uint64_t)block->first * block->in_row, raw, (size_t)block->rows * block->in_row);
    return status == ZT_OK && block->guessed && here ? guess_importance(run, block) : status;
}

zt_status quant_rows(quant_run *run, int64_t job, int64_t from, int64_t to, zt_dtype dtype, zt_loss_of *loss, quant_put_fn *put,
                     void *user)
{
    const quant_job *quantized = &run->jobs[job];
    const zt_type *type = &quantized->source.type;
    row_block block = {.job = quantized,
                       .dtype = dtype,
                       .columns = type->rank ? type->dim[type->rank - 1] : 1,
                       .measure = loss != NULL,
                       .by_importance = run->fitting,
                       .search = run->fitting || quantized->choice.search,
                       .scales = quant_is_scaled(dtype) ? run->scales : NULL};
    block.guessed = must_guess(&block);
    if (from >= to || block.columns == 0) return ZT_OK;
    if (!run->crew && !(run->crew = quant_crew_new(run))) return ZT_ENOMEM;
    zt_status status = make_block(run, &block, to - from);
    int64_t capacity = block.rows, start = 0;
    for (int64_t row = from; row < to && status == ZT_OK; row += block.rows) {
        block.first = row;
        block.rows = to - row < capacity ? to - row : capacity;
        aim_block(run, &block, &start);
        if (zt_cli_interrupted()) return ZT_EINTR;
        status = read_block(run, job, &block, row == from, start);
        if (status == ZT_OK) status = quantize_block(&block, loss);
        if (status == ZT_OK && put) status = put(user, run->crew->out, (size_t)block.rows * block.out_row);
    }
    return status;
}
