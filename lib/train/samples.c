/* samples.c - owns a data set in memory, and batches of it. */
#include "lib/base/require.h"
#include "lib/train/train_internal.h"

#include <string.h>

/* ---- made for a program ---------------------------------------------------------------------- */

static bool is_weight(const int *weights, int count, int value)
{
    for (int i = 0; i < count; i++)
        if (weights[i] == value) return true;
    return false;
}

bool zt_input_counts_batches(const zt_value *input)
{
    return input->type.rank == 0 && input->type.dtype == ZT_I64 && strcmp(input->name, "counter") == 0;
}

static zt_status add_field(zt_samples *samples, const zt_value *input, int index)
{
    zt_type row = input->type;
    if (zt_input_counts_batches(input)) {
        samples->counter = index;
        return ZT_OK;
    }
    if (row.rank < 1) return zt_fail(samples->ctx, ZT_EUSAGE, "input '%s' has no rows: it is a scalar", input->name);
    if (index == ZT_FIT_INPUTS)
        return zt_fail(samples->ctx, ZT_EUSAGE, "the program has too many inputs: at most %d are supported", ZT_FIT_INPUTS);
    row.rank--;
    for (int axis = 0; axis < row.rank; axis++) {
        row.dim[axis] = input->type.dim[axis + 1];
        if (row.dim[axis] < 0) return zt_fail(samples->ctx, ZT_EUSAGE, "input '%s': the row size must be fixed", input->name);
    }
    row.dim[row.rank] = 0;
    if (row.dtype != ZT_F32 && row.dtype != ZT_F64 && row.dtype != ZT_I32 && row.dtype != ZT_I64)
        return zt_fail(samples->ctx, ZT_EUSAGE, "input '%s' has dtype %s: must be f32, f64, i32 or i64", input->name,
                       zt_dtype_get(row.dtype)->name);
    zt_field *field = &samples->fields[samples->field_count++];
    *field = (zt_field){.name = input->name, .row = row, .bytes = zt_type_bytes(&row), .input = index};
    zt_str_init(&field->data, samples->ctx);
    return ZT_OK;
}

zt_samples *zt_samples_new(zt_ctx *ctx, const zt_prog *program, const int *weights, int n_weights)
{
    ZT_REQUIRE(ctx, program && (weights || !n_weights), NULL);
    int count = zt_prog_count(program, ZT_VALUE_IN);
    zt_samples *samples = zt_calloc(ctx, 1, sizeof *samples);
    if (!samples) return NULL;
    samples->ctx = ctx;
    samples->program = program;
    samples->counter = -1;
    int inputs = 0;
    samples->fields = zt_calloc(ctx, (size_t)count + 1, sizeof *samples->fields);
    samples->buffers = zt_calloc(ctx, (size_t)count + 1, sizeof *samples->buffers);
    zt_status status = samples->fields && samples->buffers ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < count && !status; i++) {
        int value = zt_prog_nth(program, ZT_VALUE_IN, i);
        if (!is_weight(weights, n_weights, value)) status = add_field(samples, zt_prog_value(program, value), inputs++);
    }
    if (!status && !samples->field_count) status = zt_fail(ctx, ZT_EUSAGE, "the program has no inputs");
    if (!status) return samples;
    zt_samples_free(samples);
    return NULL;
}

void zt_samples_free(zt_samples *samples)
{
    if (!samples) return;
    for (int i = 0; samples->fields && i < samples->field_count; i++) {
        zt_str_fini(&samples->fields[i].data);
        zt_free(samples->ctx, samples->buffers[i]);
    }
    zt_free(samples->ctx, samples->buffers);
    zt_free(samples->ctx, samples->fields);
    zt_free(samples->ctx, samples->order);
    zt_free(samples->ctx, samples);
}

void zt_samples_scale(zt_samples *samples, double factor)
{
    if (!samples) return;
    zt_field *field = &samples->fields[0];
    size_t length = field->data.len / (size_t)zt_dtype_get(field->row.dtype)->block_bytes;
    for (size_t i = 0; i < length && factor != 1; i++) {
        if (field->row.dtype == ZT_F32) ((float *)(void *)field->data.data)[i] *= (float)factor;
        if (field->row.dtype == ZT_F64) ((double *)(void *)field->data.data)[i] *= factor;
    }
}

zt_status zt_samples_check(zt_samples *samples, const char *name)
{
    if (!samples) return ZT_EUSAGE;
    for (int field_index = 0; field_index < samples->field_count; field_index++) {
        const zt_field *field = &samples->fields[field_index];
        int64_t rows = field->bytes ? (int64_t)(field->data.len / field->bytes) : samples->rows;
        if (field_index == 0) samples->rows = rows;
        if (!field->data.len && field->bytes)
            return zt_fail(samples->ctx, ZT_EDATA, "%s: no data for input '%s'", name, field->name);
        if (rows != samples->rows)
            return zt_fail(samples->ctx, ZT_EDATA, "%s: %lld rows for input '%s', but %lld for '%s'", name, (long long)rows,
                           field->name, (long long)samples->rows, samples->fields[0].name);
    }
    return samples->rows > 0 ? ZT_OK : zt_fail(samples->ctx, ZT_EDATA, "%s: no samples", name);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* A uniform number below count, the i-th of the epoch. */
static int64_t draw_below(const zt_samples *samples, uint64_t epoch, int64_t i, int64_t count)
{
    return (int64_t)(zt_uniform(samples->seed, epoch, (uint64_t)i) * (double)count);
}

/* Fisher and Yates. */
static void put_in_order(zt_samples *samples, uint64_t epoch)
{
    if (samples->ordered && samples->epoch == epoch) return;
    for (int64_t i = 0; i < samples->rows; i++) samples->order[i] = i;
    for (int64_t i = samples->rows - 1; i > 0 && samples->shuffles; i--) {
        int64_t k = draw_below(samples, epoch, i, i + 1), swap = samples->order[i];
        samples->order[i] = samples->order[k];
        samples->order[k] = swap;
    }
    samples->epoch = epoch;
    samples->ordered = true;
}

static zt_status get_batch(void *user, uint64_t epoch, int64_t batch, const void **inputs, zt_binding *bindings,
                           int *binding_count, int64_t *row_count)
{
    zt_samples *samples = user;
    int64_t first = batch * samples->batch_size, left = samples->rows - first;
    int64_t rows = left < samples->batch_size ? left : samples->batch_size;
    put_in_order(samples, epoch);
    for (int field_index = 0; field_index < samples->field_count; field_index++) {
        const zt_field *field = &samples->fields[field_index];
        for (int64_t row = 0; row < rows; row++)
            memcpy(samples->buffers[field_index] + (size_t)row * field->bytes,
                   field->data.data + (size_t)samples->order[first + row] * field->bytes, field->bytes);
        inputs[field->input] = samples->buffers[field_index];
    }
    samples->sample_count = (int64_t)epoch * ((samples->rows + samples->batch_size - 1) / samples->batch_size) + batch;
    if (samples->counter >= 0) inputs[samples->counter] = &samples->sample_count;
    *binding_count = zt_prog_n_symbols(samples->program);
    for (int i = 0; i < *binding_count; i++) bindings[i] = (zt_binding){zt_prog_symbol_name(samples->program, i), rows};
    *row_count = rows;
    return ZT_OK;
}

zt_status zt_samples_batches(zt_samples *samples, const zt_shuffle *options, zt_batches *out)
{
    if (!samples) return ZT_EUSAGE;
    ZT_REQUIRE(samples->ctx, options, ZT_EUSAGE);
    if (options->batch < 1)
        return zt_fail(samples->ctx, ZT_EUSAGE, "invalid batch size %lld: must be 1 or more", (long long)options->batch);
    if (zt_prog_n_symbols(samples->program) > 1)
        return zt_fail(samples->ctx, ZT_EUSAGE, "the program has %d symbols: only the number of rows can be a symbol",
                       zt_prog_n_symbols(samples->program));
    samples->batch_size = options->batch < samples->rows ? options->batch : samples->rows;
    samples->shuffles = options->shuffle;
    samples->seed = options->seed;
    samples->ordered = false;
    zt_free(samples->ctx, samples->order);
    samples->order = zt_alloc_array(samples->ctx, (size_t)samples->rows + 1, sizeof *samples->order);
    if (!samples->order) return ZT_ENOMEM;
    for (int field_index = 0; field_index < samples->field_count; field_index++) {
        zt_free(samples->ctx, samples->buffers[field_index]);
        samples->buffers[field_index] =
            zt_alloc_array(samples->ctx, (size_t)samples->batch_size, samples->fields[field_index].bytes + 1);
        if (!samples->buffers[field_index]) return ZT_ENOMEM;
    }
    *out = (zt_batches){
        .user = samples, .per_epoch = (samples->rows + samples->batch_size - 1) / samples->batch_size, .get = get_batch};
    return ZT_OK;
}
