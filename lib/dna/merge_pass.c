/* merge_pass.c - owns passes over one tensor of all parents: windows are read as they are stored,
 * pieces of them decoded and worked on by all threads.
 *
 * A piece is some whole rows, or of plain types, which have no rows to keep together, some
 * elements; a window some pieces. What a piece is depends on the shape alone, so that sums by
 * pieces are the same for any number of threads. A tensor of one window stays in memory from pass
 * to pass.
 */
#include "lib/dna/merge_internal.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
    PIECE = 1 << 14,   /* elements, or one row */
    WINDOW = 96 << 20, /* bytes of all sources and the child */
};

static size_t block_bytes(zt_dtype dtype, int64_t count)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    return (size_t)(count / info->block) * (size_t)info->block_bytes;
}

/* Bytes of `count` elements of a source, from a byte boundary; and of the child. */
static size_t source_bytes(const merge_work *work, int source, int64_t count)
{
    return work->coded[source] ? zt_net_bytes(&work->net_weights[source], count) : block_bytes(work->types[source].dtype, count);
}

static size_t child_bytes(const merge_work *work, int64_t count)
{
    return work->job->coded ? zt_net_bytes(&work->job->net_weights, count) : block_bytes(work->job->entry.type.dtype, count);
}

/* Codes of a network have no blocks. */
static bool has_blocks(bool coded, zt_dtype dtype) { return !coded && zt_dtype_get(dtype)->block > 1; }

/* ---- room ------------------------------------------------------------------------------------ */

static void set_shape(merge_work *work)
{
    const zt_type *out = &work->job->entry.type;
    bool blocks = has_blocks(work->job->coded, out->dtype);
    work->element_count = zt_type_count(out);
    work->columns = out->rank ? out->dim[out->rank - 1] : 1;
    work->rows = work->columns ? work->element_count / work->columns : 0;
    for (int source = 0; source < work->source_count; source++)
        blocks = blocks || has_blocks(work->coded[source], work->types[source].dtype);
    work->by_row = work->by_row || blocks;
    int64_t rows = work->columns && work->columns < PIECE ? PIECE / work->columns : 1;
    work->piece_size = work->by_row ? rows * work->columns : PIECE;
    work->piece_size = work->piece_size < 1 ? 1 : work->piece_size;
    work->piece_count = (work->element_count + work->piece_size - 1) / work->piece_size;
    size_t largest = child_bytes(work, work->piece_size);
    for (int source = 0; source < work->source_count; source++) {
        size_t bytes = source_bytes(work, source, work->piece_size);
        largest = bytes > largest ? bytes : largest;
    }
    size_t share = WINDOW / ((size_t)work->source_count + 1);
    work->window_pieces = largest && largest < share ? (int64_t)(share / largest) : 1;
    work->window_pieces = work->window_pieces < work->piece_count ? work->window_pieces : work->piece_count;
    work->loaded_piece = -1;
}

zt_status zt_merge_begin(merge_work *work)
{
    zt_ctx *ctx = work->merge->ctx;
    int threads = zt_pool_size(work->merge->pool);
    size_t cells, of_all;
    set_shape(work);
    for (int k = 0; k < work->source_count; k++)
        if (!(work->raw[k] = zt_alloc(ctx, source_bytes(work, k, work->window_pieces * work->piece_size)))) return ZT_ENOMEM;
    work->out = zt_alloc(ctx, child_bytes(work, work->window_pieces * work->piece_size));
    work->statuses = zt_calloc(ctx, (size_t)work->window_pieces + 1, sizeof *work->statuses);
    work->buffers = zt_calloc(ctx, (size_t)threads, sizeof *work->buffers);
    if (!work->out || !work->statuses || !work->buffers ||
        !zt_mul_size((size_t)work->piece_size, (size_t)(2 * work->source_count + 1), &cells) ||
        !zt_mul_size(cells, sizeof **work->buffers, &of_all))
        return zt_fail(ctx, ZT_ENOMEM, "tensor '%s': row length %lld is too large", work->job->entry.name,
                       (long long)work->columns);
    for (int i = 0; i < threads; i++)
        if (!(work->buffers[i] = zt_alloc(ctx, of_all))) return ZT_ENOMEM;
    return ZT_OK;
}

void zt_merge_end(merge_work *work)
{
    zt_ctx *ctx = work->merge->ctx;
    for (int k = 0; k < work->source_count; k++) zt_free(ctx, work->raw[k]);
    for (int i = 0; work->buffers && i < zt_pool_size(work->merge->pool); i++) zt_free(ctx, work->buffers[i]);
    zt_free(ctx, work->buffers);
    zt_free(ctx, work->out);
    zt_free(ctx, work->statuses);
}

/* ---- a pass ---------------------------------------------------------------------------------- */

typedef struct merge_pass {
    merge_work *work;
    merge_piece_fn *visit;
    void *arg;
    bool writes_child;  /* what it leaves is the child's */
    int64_t first, end; /* pieces of the window */
    atomic_llong next;
} merge_pass;

static zt_status load_window(merge_work *work, int64_t first)
{
    if (work->loaded_piece == first) return ZT_OK;
    int64_t from = first * work->piece_size, count = work->window_pieces * work->piece_size;
    count = work->element_count - from < count ? work->element_count - from : count;
    zt_status status = ZT_OK;
    for (int source = 0; source < work->source_count && status == ZT_OK; source++)
        status = zt_merge_read(work->merge, work->job, source, source_bytes(work, source, from), work->raw[source],
                               source_bytes(work, source, count));
    work->loaded_piece = status == ZT_OK ? first : -1;
    return status;
}

/* The values of a source: in place if they are f32 already, else decoded to buffer. */
static const float *decode_values(const merge_work *work, int source, int64_t offset, int64_t count, float *buffer)
{
    const char *raw = work->raw[source] + source_bytes(work, source, offset);
    if (work->coded[source]) {
        zt_net_decode(&work->net_weights[source], raw, count, buffer);
        return buffer;
    }
    if (work->types[source].dtype == ZT_F32) return (const float *)raw;
    zt_dtype_get(work->types[source].dtype)->decode(raw, buffer, count);
    return buffer;
}

/* The index of the first value that is not finite, or -1. */
static int64_t find_not_finite(const float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(values[i])) return i;
    return -1;
}

static zt_status encode_piece(merge_work *work, zt_ctx *ctx, const float *values, int64_t offset, int64_t first, int64_t count)
{
    const merge_job *job = work->job;
    zt_quantizer quantizer = {.dtype = job->entry.type.dtype,
                              .columns = work->by_row ? work->columns : count,
                              .name = job->entry.name,
                              .search = job->search,
                              .first_row = work->by_row ? first / work->columns : 0};
    char *out = work->out + block_bytes(quantizer.dtype, offset);
    zt_status status = zt_quantize_rows(NULL, &quantizer, values, count / quantizer.columns, out);
    if (status == ZT_OK || !ctx) return status;
    int64_t i = find_not_finite(values, count);
    char shown[160];
    if (i < 0) return zt_quantize_rows(ctx, &quantizer, values, count / quantizer.columns, out);
    return zt_fail(ctx, ZT_EDATA, "tensor '%s': element %lld is not finite",
                   zt_escape(shown, sizeof shown, job->entry.name, strlen(job->entry.name)), (long long)(first + i));
}

/* Of a network: what its scale is found from, or its codes. d is room. */
static zt_status code_piece(merge_work *work, zt_ctx *ctx, const merge_piece *piece, int64_t offset)
{
    const merge_job *job = work->job;
    int64_t bad = find_not_finite(piece->result, piece->count);
    if (bad >= 0)
        return zt_fail(ctx, ZT_EDATA, "'%s': weight %lld is not finite", job->entry.name, (long long)(piece->first + bad));
    if (!work->magnitudes) {
        zt_net_weights nearest = zt_net_nearest(&job->net_weights);
        return zt_net_encode(ctx, &nearest, piece->result, piece->count, work->out + child_bytes(work, offset), piece->deltas[0]);
    }
    double largest = 0, sum = 0;
    for (int64_t i = 0; i < piece->count; i++) {
        double magnitude = fabs((double)piece->result[i]);
        largest = magnitude > largest ? magnitude : largest;
        sum += magnitude;
    }
    work->magnitudes[piece->index] = zt_merge_net_by_mean(job) ? sum : largest;
    return ZT_OK;
}

static zt_status process_piece(merge_pass *pass, zt_ctx *ctx, int thread, int64_t index)
{
    merge_work *work = pass->work;
    float *buffer = work->buffers[thread], *deltas[MERGE_SOURCES];
    const float *sources[MERGE_SOURCES];
    int64_t first = index * work->piece_size, offset = first - pass->first * work->piece_size;
    int64_t count = work->element_count - first < work->piece_size ? work->element_count - first : work->piece_size;
    for (int source_index = 0; source_index < work->source_count; source_index++) {
        sources[source_index] = decode_values(work, source_index, offset, count, buffer + source_index * work->piece_size);
        deltas[source_index] = buffer + (work->source_count + source_index) * work->piece_size;
    }
    merge_piece piece = {.sources = sources,
                         .deltas = deltas,
                         .result = buffer + 2 * work->source_count * work->piece_size,
                         .index = index,
                         .first = first,
                         .count = count,
                         .thread = thread};
    pass->visit(work, &piece, pass->arg);
    if (pass->writes_child && work->job->coded) return code_piece(work, ctx, &piece, offset);
    return pass->writes_child ? encode_piece(work, ctx, piece.result, offset, first, count) : ZT_OK;
}

static void process_pieces(void *user, int thread, int n_threads)
{
    merge_pass *pass = user;
    int64_t i;
    (void)n_threads;
    while ((i = atomic_fetch_add(&pass->next, 1)) < pass->end)
        pass->work->statuses[i - pass->first] = process_piece(pass, NULL, thread, i);
}

static zt_status write_window(merge_pass *pass)
{
    merge_work *work = pass->work;
    int64_t from = pass->first * work->piece_size,
            end = pass->end * work->piece_size < work->element_count ? pass->end * work->piece_size : work->element_count;
    size_t bytes = child_bytes(work, end - from);
    for (int64_t i = pass->first; i < pass->end; i++)
        if (work->statuses[i - pass->first] != ZT_OK) return process_piece(pass, work->merge->ctx, 0, i); /* its message */
    if (work->magnitudes) return ZT_OK;
    work->merge->bytes_done += (double)bytes;
    if (work->merge->options.progress)
        work->merge->options.progress(work->merge->options.user, work->job->entry.name, work->merge->bytes_done,
                                      work->merge->bytes_total);
    return work->writer ? zt_writer_put(work->writer, work->out, bytes) : ZT_OK;
}

static zt_status run_pass(merge_work *work, merge_piece_fn *visit, void *arg, bool out)
{
    zt_status status = ZT_OK;
    for (int64_t first = 0; first < work->piece_count && status == ZT_OK; first += work->window_pieces) {
        int64_t end = first + work->window_pieces < work->piece_count ? first + work->window_pieces : work->piece_count;
        merge_pass pass = {
            .work = work, .visit = visit, .arg = arg, .writes_child = out, .first = first, .end = end, .next = first};
        if (work->merge->options.stop && work->merge->options.stop()) return zt_fail(work->merge->ctx, ZT_EINTR, "interrupted");
        status = load_window(work, first);
        if (status != ZT_OK) return status;
        if (work->single_thread)
            process_pieces(&pass, 0, 1);
        else
            zt_pool_run(work->merge->pool, process_pieces, &pass);
        if (out) status = write_window(&pass);
    }
    return status;
}

zt_status zt_merge_pass(merge_work *work, merge_piece_fn *visit, void *arg) { return run_pass(work, visit, arg, false); }
zt_status zt_merge_pass_out(merge_work *work, merge_piece_fn *visit, void *arg) { return run_pass(work, visit, arg, true); }
