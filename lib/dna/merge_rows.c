/* merge_rows.c - owns tensors with a row for each token in a merge: which they are, and their bytes as the merge reads them,
 * where the models' tokens or numbers of rows differ.
 *
 * A source is read in its own type as long as all its rows have this type; else as f32.
 */
#include "lib/dna/merge_internal.h"

#include <inttypes.h>
#include <string.h>

/* Ends of the names of tensors without a layer; the first dimension counts the tokens. */
static const char *const token_tensors[] = {"token_embd.weight",   "output.weight",     "output.bias",
                                            "embed_tokens.weight", "lm_head.weight",    "lm_head.bias",
                                            "wte.weight",          "embed_in.weight",   "embed_out.weight",
                                            "embed_out.bias",      "embeddings.weight", "per_layer_token_embd.weight"};

bool zt_merge_has_token_rows(const zt_merge *merge, const zt_entry *entry)
{
    size_t digits_at, digit_count;
    const zt_type *type = &entry->type;
    bool named = false;
    if (!merge->vocab && !merge->recipe->rectifies) return false;
    if (type->rank < 1 || type->rank > 2 || type->dtype == ZT_DTYPE_COUNT || !zt_dtype_is_float(type->dtype)) return false;
    for (size_t i = 0; i < sizeof token_tensors / sizeof *token_tensors; i++)
        named = named || zt_name_ends_in(entry->name, token_tensors[i]);
    return named && zt_merge_layer(entry->name, &digits_at, &digit_count) < 0;
}

static size_t row_bytes(const zt_entry *entry) { return (size_t)(entry->bytes / (uint64_t)entry->type.dim[0]); }
static int64_t row_length(const zt_entry *entry) { return entry->type.rank == 2 ? entry->type.dim[1] : 1; }

/* The entry with another number of rows, and as f32 or in its type. */
static zt_status resize(const zt_merge *merge, int64_t rows, bool decoded, zt_entry *entry)
{
    size_t bytes;
    entry->type.dim[0] = rows;
    if (decoded) {
        entry->type.dtype = ZT_F32;
        entry->dtype = zt_dtype_get(ZT_F32)->name;
    }
    if (!zt_type_check(merge->ctx, &entry->type, &bytes)) return zt_ctx_status(merge->ctx);
    entry->bytes = bytes;
    return ZT_OK;
}

static zt_status fail_empty(const zt_merge *merge, const merge_job *job, int source)
{
    return zt_fail(merge->ctx, ZT_EDATA, "%s: '%s' has no rows",
                   zt_checkpoint_name(merge->parents[job->slice->sources[source].model].model), job->entry.name);
}

zt_status zt_merge_plan_rows(zt_merge *merge, merge_job *job)
{
    const int source_count = job->slice->source_count;
    merge_rows *rows = zt_arena_alloc(merge->arena, sizeof *rows);
    size_t largest = 0;
    if (!rows) return ZT_ENOMEM;
    *rows = (merge_rows){.count = INT64_MAX,
                         .stored = zt_arena_alloc(merge->arena, (size_t)source_count * sizeof *rows->stored),
                         .decoded = zt_arena_alloc(merge->arena, (size_t)source_count * sizeof *rows->decoded),
                         .pads = zt_arena_alloc(merge->arena, (size_t)source_count * sizeof *rows->pads)};
    if (!rows->stored || !rows->decoded || !rows->pads) return ZT_ENOMEM;
    for (int source = 0; source < source_count; source++) {
        zt_entry *entry = &rows->stored[source];
        zt_merge_net_entry(merge, job->slice->sources[source].model, job->tensors[source], entry);
        rows->decoded[source] = false;
        rows->pads[source] = NULL;
        if (entry->type.dim[0] < 1 || !entry->bytes) return fail_empty(merge, job, source);
        rows->count = entry->type.dim[0] < rows->count ? entry->type.dim[0] : rows->count;
        largest = row_bytes(entry) > largest ? row_bytes(entry) : largest;
    }
    rows->values = zt_arena_alloc(merge->arena, (size_t)row_length(&rows->stored[0]) * sizeof *rows->values);
    rows->raw = zt_arena_alloc(merge->arena, largest);
    if (!rows->values || !rows->raw) return ZT_ENOMEM;
    zt_status status = merge->vocab ? zt_merge_vocab_rows(merge, job, rows) : ZT_OK;
    job->rows = rows;
    return status == ZT_OK ? resize(merge, rows->count, false, &job->entry) : status;
}

zt_status zt_merge_source_entry(const zt_merge *merge, const merge_job *job, int source, zt_entry *entry)
{
    zt_merge_net_entry(merge, job->slice->sources[source].model, job->tensors[source], entry);
    return job->rows ? resize(merge, job->rows->count, job->rows->decoded[source], entry) : ZT_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static zt_checkpoint *model_of(const zt_merge *merge, const merge_job *job, int source)
{
    return merge->parents[job->slice->sources[source].model].model;
}

static zt_status read_stored(const zt_merge *merge, const merge_job *job, merge_row row, float *values)
{
    const merge_rows *rows = job->rows;
    const zt_entry *entry = &rows->stored[row.source];
    const size_t bytes = row_bytes(entry);
    zt_status status = zt_checkpoint_read(model_of(merge, job, row.source), job->tensors[row.source], (uint64_t)row.row * bytes,
                                          rows->raw, bytes);
    if (status == ZT_OK) zt_dtype_convert(entry->type.dtype, rows->raw, ZT_F32, values, row_length(entry));
    return status;
}

/* The mean of the rows of all sources that have the token, in f32 and in their order, as mergekit has it. */
static zt_status read_mean(const zt_merge *merge, const merge_job *job, int64_t token, float *values)
{
    const merge_rows *rows = job->rows;
    const int64_t length = row_length(&rows->stored[0]);
    float count = 0;
    memset(values, 0, (size_t)length * sizeof *values);
    for (int source = 0; source < job->slice->source_count; source++) {
        const int32_t id = merge->vocab->ids[job->slice->sources[source].model][token];
        if (id < 0 || id >= rows->stored[source].type.dim[0]) continue;
        zt_status status = read_stored(merge, job, (merge_row){source, id}, rows->values);
        if (status != ZT_OK) return status;
        for (int64_t i = 0; i < length; i++) values[i] += rows->values[i];
        count++;
    }
    for (int64_t i = 0; i < length; i++) values[i] /= count;
    return ZT_OK;
}

static zt_status read_row(const zt_merge *merge, const merge_job *job, int source, int64_t row, float *values);

/* The mean of the source's rows before the padding, kept for the next. */
static zt_status find_pad(const zt_merge *merge, const merge_job *job, int source)
{
    merge_rows *rows = job->rows;
    const int64_t length = row_length(&rows->stored[0]), count = merge->vocab->count;
    double *sums = zt_calloc(merge->ctx, (size_t)length, sizeof *sums);
    float *row = zt_arena_alloc(merge->arena, (size_t)length * sizeof *row);
    zt_status status = sums && row ? ZT_OK : ZT_ENOMEM;
    for (int64_t token = 0; token < count && status == ZT_OK; token++) {
        status = read_row(merge, job, source, token, row);
        for (int64_t i = 0; i < length && status == ZT_OK; i++) sums[i] += (double)row[i];
    }
    for (int64_t i = 0; i < length && status == ZT_OK; i++) row[i] = (float)(sums[i] / (double)count);
    if (status == ZT_OK) rows->pads[source] = row;
    zt_free(merge->ctx, sums);
    return status;
}

/* A row of a source as f32. */
static zt_status read_row(const zt_merge *merge, const merge_job *job, int source, int64_t row, float *values)
{
    merge_rows *rows = job->rows;
    const merge_row from = rows->from[source][row];
    const size_t bytes = (size_t)row_length(&rows->stored[0]) * sizeof *values;
    if (from.source >= 0) return read_stored(merge, job, from, values);
    if (from.source == ROW_MEAN) return read_mean(merge, job, row, values);
    zt_status status = from.source != ROW_PAD || rows->pads[source] ? ZT_OK : find_pad(merge, job, source);
    if (from.source == ROW_PAD && status == ZT_OK)
        memcpy(values, rows->pads[source], bytes);
    else
        memset(values, 0, bytes);
    return status;
}

/* `count` bytes at `offset` of a row, as the source is read. */
static zt_status read_piece(const zt_merge *merge, const merge_job *job, int source, int64_t row, size_t offset, char *dst,
                            size_t count)
{
    const merge_rows *rows = job->rows;
    const merge_row from = rows->from[source][row];
    if (!rows->decoded[source]) {
        if (from.source < 0) return memset(dst, 0, count), ZT_OK; /* zeros; in all types the codes of zeros are zeros */
        return zt_checkpoint_read(model_of(merge, job, from.source), job->tensors[from.source],
                                  (uint64_t)from.row * row_bytes(&rows->stored[from.source]) + offset, dst, count);
    }
    const int64_t length = row_length(&rows->stored[source]);
    float *values = zt_alloc_array(merge->ctx, (size_t)length, sizeof *values);
    zt_status status = values ? read_row(merge, job, source, row, values) : ZT_ENOMEM;
    if (status == ZT_OK) memcpy(dst, (const char *)values + offset, count);
    zt_free(merge->ctx, values);
    return status;
}

zt_status zt_merge_read(const zt_merge *merge, const merge_job *job, int source, uint64_t offset, void *dst, size_t size)
{
    const merge_rows *rows = job->rows;
    if (!rows || !rows->from) return zt_checkpoint_read(model_of(merge, job, source), job->tensors[source], offset, dst, size);
    const size_t bytes =
        rows->decoded[source] ? (size_t)row_length(&rows->stored[source]) * sizeof(float) : row_bytes(&rows->stored[source]);
    zt_status status = ZT_OK;
    for (size_t done = 0, step; done < size && status == ZT_OK; done += step, offset += step) {
        const size_t inside = (size_t)(offset % bytes);
        step = bytes - inside < size - done ? bytes - inside : size - done;
        status = read_piece(merge, job, source, (int64_t)(offset / bytes), inside, (char *)dst + done, step);
    }
    return status;
}
