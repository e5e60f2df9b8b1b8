/* adapted_values.c - owns the values of a tensor with adapters, by rows.
 *
 * Of one adapter, in this order: the whole tensor where it has one; + left right, the product of B
 * and A with alpha / r; DoRA (S.-Y. Liu et al., arXiv:2402.09353) scales each output's weights to a
 * length; rows that were trained; a bias's addend.
 */
#include "lib/dna/adapted_internal.h"
#include "lib/dna/merge_internal.h"

#include <math.h>
#include <string.h>

/* ---- an adapter's tensors as floats ---------------------------------------------------------- */

/* Elements [at, at + row_count) of tensor i of a plain type. */
static zt_status read_elements(const zt_lora *adapter, int64_t tensor, int64_t offset, int64_t row_count, float *out)
{
    zt_entry entry;
    zt_checkpoint_get(adapter->file, tensor, &entry);
    const zt_dtype_info *info = zt_dtype_get(entry.type.dtype);
    size_t from = (size_t)(offset / info->block) * (size_t)info->block_bytes;
    size_t bytes = (size_t)(row_count / info->block) * (size_t)info->block_bytes;
    char *raw = zt_alloc(adapter->ctx, bytes + 1);
    zt_status status = raw ? zt_checkpoint_read(adapter->file, tensor, from, raw, bytes) : ZT_ENOMEM;
    if (status == ZT_OK) info->decode(raw, out, row_count);
    zt_free(adapter->ctx, raw);
    return status;
}

static zt_status read_tensor(const zt_lora *adapter, int64_t tensor, float **out)
{
    zt_entry entry;
    zt_checkpoint_get(adapter->file, tensor, &entry);
    int64_t count = zt_type_count(&entry.type);
    *out = zt_alloc_array(adapter->ctx, (size_t)count + 1, sizeof **out);
    return *out ? read_elements(adapter, tensor, 0, count, *out) : ZT_ENOMEM;
}

/* [rows, columns] to [columns, rows]. */
static zt_status transpose_matrix(zt_ctx *ctx, float **matrix, int64_t rows, int64_t columns)
{
    float *transposed = zt_alloc_array(ctx, (size_t)(rows * columns) + 1, sizeof *transposed);
    for (int64_t row = 0; transposed && row < rows; row++)
        for (int64_t column = 0; column < columns; column++) transposed[column * rows + row] = (*matrix)[row * columns + column];
    if (!transposed) return ZT_ENOMEM;
    zt_free(ctx, *matrix);
    *matrix = transposed;
    return ZT_OK;
}

/* Row 2 i + j of a head in GGUF is row j d/2 + i of Hugging Face's. */
static int64_t source_row(int64_t row, int64_t rows, int64_t heads)
{
    if (!heads) return row;
    int64_t head_rows = rows / heads, row_in_head = row % head_rows;
    return row - row_in_head + row_in_head % 2 * (head_rows / 2) + row_in_head / 2;
}

static zt_status pair_rows(zt_ctx *ctx, float **matrix, int64_t rows, int64_t width, int64_t heads)
{
    float *paired = heads ? zt_alloc_array(ctx, (size_t)(rows * width) + 1, sizeof *paired) : NULL;
    if (!heads || !paired) return heads ? ZT_ENOMEM : ZT_OK;
    for (int64_t row = 0; row < rows; row++)
        memcpy(paired + row * width, *matrix + source_row(row, rows, heads) * width, (size_t)width * sizeof *paired);
    zt_free(ctx, *matrix);
    *matrix = paired;
    return ZT_OK;
}

/* Of a parameter: the factors of one expert's matrix, or of all. */
static zt_status load_parameter(zt_adapted *adapted, const adapted_change *change, const lora_placement *placement,
                                adapted_loaded *out)
{
    const lora_part *part = placement->part;
    const int64_t stack = part->experts ? part->experts : 1, rows = change->rows / stack;
    float *a = NULL, *b = NULL;
    zt_entry entry;
    zt_checkpoint_get(placement->adapter->file, part->lora_a, &entry);
    zt_status status = read_tensor(placement->adapter, part->lora_a, &a);
    if (status == ZT_OK) status = read_tensor(placement->adapter, part->lora_b, &b);
    if (status == ZT_OK) {
        out->left = zt_alloc_array(adapted->ctx, (size_t)(change->rows * part->rank) + 1, sizeof *out->left);
        out->right = zt_alloc_array(adapted->ctx, (size_t)(stack * part->rank * change->columns) + 1, sizeof *out->right);
        status = out->left && out->right ? ZT_OK : ZT_ENOMEM;
    }
    if (status == ZT_OK)
        zt_lora_parameter_values(placement, a, b, entry.type.dim[1], rows, change->columns, out->left, out->right);
    for (int64_t i = 0; status == ZT_OK && i < change->rows * part->rank; i++) out->left[i] = (float)(out->left[i] * part->scale);
    zt_free(placement->adapter->ctx, a);
    zt_free(placement->adapter->ctx, b);
    return status;
}

static zt_status load_product(zt_adapted *adapted, const adapted_change *change, const lora_placement *placement,
                              adapted_loaded *out)
{
    const zt_lora *adapter = placement->adapter;
    const lora_part *part = placement->part;
    if (placement->parameter) return load_parameter(adapted, change, placement, out);
    zt_status status = read_tensor(adapter, part->lora_a, &out->right);
    if (status == ZT_OK) status = read_tensor(adapter, part->lora_b, &out->left);
    if (status == ZT_OK && placement->flipped) { /* (B A)' = A' B' */
        float *scratch = out->left;
        out->left = out->right;
        out->right = scratch;
        if (!part->tokens) status = transpose_matrix(adapted->ctx, &out->left, part->rank, change->rows);
        if (status == ZT_OK) status = transpose_matrix(adapted->ctx, &out->right, change->columns, part->rank);
    }
    if (status == ZT_OK) status = pair_rows(adapted->ctx, &out->left, change->rows, part->rank, placement->heads);
    int64_t rows = placement->expert >= 0 ? change->each : change->rows;
    for (int64_t i = 0; status == ZT_OK && i < rows * part->rank; i++) out->left[i] = (float)(out->left[i] * part->scale);
    return status;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The base's; a row beyond its last is 0. */
static zt_status read_base_rows(zt_adapted *adapted, const adapted_change *change, int64_t first, int64_t row_count,
                                float *scratch)
{
    const zt_dtype_info *info = zt_dtype_get(change->stored);
    int64_t has = first >= change->base_rows ? 0 : change->base_rows - first < row_count ? change->base_rows - first : row_count;
    size_t row = (size_t)(change->columns / info->block) * (size_t)info->block_bytes;
    memset(scratch + has * change->columns, 0, (size_t)((row_count - has) * change->columns) * sizeof *scratch);
    if (!has) return ZT_OK;
    char *raw = zt_alloc(adapted->ctx, (size_t)has * row + 1);
    zt_status status =
        raw ? zt_checkpoint_read(adapted->base, change->base_tensor, (size_t)first * row, raw, (size_t)has * row) : ZT_ENOMEM;
    if (status == ZT_OK) info->decode(raw, scratch, has * change->columns);
    zt_free(adapted->ctx, raw);
    return status;
}

/* Of the tensor that an adapter has whole. */
static zt_status read_whole_rows(const adapted_change *change, const lora_placement *placement, const adapted_loaded *loaded,
                                 int64_t first, int64_t row_count, float *out)
{
    zt_status status = ZT_OK;
    if (loaded->whole)
        memcpy(out, loaded->whole + first * change->columns, (size_t)(row_count * change->columns) * sizeof *out);
    else if (!placement->heads)
        status =
            read_elements(placement->adapter, placement->part->whole, first * change->columns, row_count * change->columns, out);
    for (int64_t row = 0; placement->heads && !loaded->whole && row < row_count && status == ZT_OK; row++)
        status = read_elements(placement->adapter, placement->part->whole,
                               source_row(first + row, change->rows, placement->heads) * change->columns, change->columns,
                               out + row * change->columns);
    for (int64_t i = 0; placement->add != 0 && i < row_count * change->columns; i++) out[i] += placement->add;
    return status;
}

/* y += scale left right; of stacked matrices each has its own, or one of them has. */
static void add_product(const adapted_change *change, const lora_placement *placement, const adapted_loaded *loaded, float scale,
                        int64_t first, int64_t row_count, float *out)
{
    const merge_loops *loops = zt_merge_loops();
    int64_t rank = placement->part->rank;
    for (int64_t i = 0; i < row_count; i++) {
        int64_t row = first + i, matrix = change->each ? row / change->each : 0;
        if (placement->expert >= 0 && matrix != placement->expert) continue;
        const float *right = loaded->right + (placement->part->experts ? matrix * rank * change->columns : 0);
        const float *left = loaded->left + (placement->expert >= 0 ? row % change->each : row) * rank;
        for (int64_t k = 0; k < rank; k++)
            loops->add(out + i * change->columns, right + k * change->columns, scale * left[k], change->columns);
    }
}

static void scale_rows(const adapted_change *change, const lora_placement *placement, const float *factor, int64_t first,
                       int64_t row_count, float *out)
{
    for (int64_t i = 0; i < row_count; i++)
        for (int64_t k = 0; k < change->columns; k++) out[i * change->columns + k] *= factor[placement->flipped ? k : first + i];
}

static void replace_rows(const adapted_change *change, const lora_placement *placement, const adapted_loaded *loaded,
                         int64_t first, int64_t row_count, float *out)
{
    for (int64_t i = 0; i < placement->part->row_count; i++) {
        int64_t row = placement->part->row_indices[i] - first;
        if (row >= 0 && row < row_count)
            memcpy(out + row * change->columns, loaded->rows + i * change->columns, (size_t)change->columns * sizeof *out);
    }
}

/* y, which begins as the base's rows, as one adapter alone would have them. */
static zt_status apply_adapter(const adapted_change *change, const adapted_item *item, const adapted_loaded *loaded,
                               int64_t first, int64_t row_count, float *out)
{
    const lora_placement *placement = &item->placement;
    zt_status status = placement->part->whole >= 0 ? read_whole_rows(change, placement, loaded, first, row_count, out) : ZT_OK;
    if (status != ZT_OK) return status;
    if (loaded->left) add_product(change, placement, loaded, 1, first, row_count, out);
    if (loaded->factor) scale_rows(change, placement, loaded->factor, first, row_count, out);
    if (loaded->rows) replace_rows(change, placement, loaded, first, row_count, out);
    for (int64_t i = 0; loaded->addend && i < row_count * change->columns; i++)
        out[i] += loaded->addend[first * change->columns + i];
    return ZT_OK;
}

/* A product alone is added without what it is added to. */
static bool is_product(const lora_part *part)
{
    return part->lora_a >= 0 && part->whole < 0 && part->magnitude < 0 && part->rows < 0 && part->addend < 0;
}

zt_status zt_adapted_rows(zt_adapted *adapted, const adapted_change *change, const adapted_loaded *loaded, int64_t first,
                          int64_t row_count, float *out, float *scratch)
{
    zt_status status = read_base_rows(adapted, change, first, row_count, out);
    for (int item_index = 0; item_index < change->item_count && status == ZT_OK; item_index++) {
        const adapted_item *item = &change->items[item_index];
        if (is_product(item->placement.part)) {
            add_product(change, &item->placement, &loaded[item_index], (float)item->scale, first, row_count, out);
        } else if (change->item_count == 1 && item->scale == 1) {
            status = apply_adapter(change, item, &loaded[item_index], first, row_count, out);
        } else {
            int64_t count = row_count * change->columns;
            float *base = scratch, *with = scratch + count;
            status = read_base_rows(adapted, change, first, row_count, base);
            memcpy(with, base, (size_t)count * sizeof *with);
            if (status == ZT_OK) status = apply_adapter(change, item, &loaded[item_index], first, row_count, with);
            for (int64_t i = 0; status == ZT_OK && i < count; i++) out[i] += (float)item->scale * (with[i] - base[i]);
        }
    }
    return status;
}

/* ---- into memory ----------------------------------------------------------------------------- */

/* DoRA's factors: what there is of each output's length, to what it shall be. */
static zt_status load_factor(zt_adapted *adapted, const adapted_change *change, const adapted_item *item, adapted_loaded *out)
{
    enum { STRIP = 1 << 16 };
    const lora_placement *placement = &item->placement;
    int64_t output_count = placement->flipped ? change->columns : change->rows;
    int64_t strip = change->columns && change->columns < STRIP ? STRIP / change->columns : 1;
    double *sum = zt_calloc(adapted->ctx, (size_t)output_count + 1, sizeof *sum);
    float *values = zt_alloc_array(adapted->ctx, (size_t)(strip * change->columns) + 1, sizeof *values);
    zt_status status = sum && values ? read_tensor(placement->adapter, placement->part->magnitude, &out->factor) : ZT_ENOMEM;
    if (status == ZT_OK && !placement->flipped) status = pair_rows(adapted->ctx, &out->factor, output_count, 1, placement->heads);
    for (int64_t first = 0; first < change->rows && status == ZT_OK; first += strip) {
        int64_t strip_count = change->rows - first < strip ? change->rows - first : strip;
        status = read_base_rows(adapted, change, first, strip_count, values);
        if (status == ZT_OK && placement->part->whole >= 0)
            status = read_whole_rows(change, placement, out, first, strip_count, values);
        if (status == ZT_OK) add_product(change, placement, out, 1, first, strip_count, values);
        for (int64_t i = 0; status == ZT_OK && i < strip_count * change->columns; i++)
            sum[placement->flipped ? i % change->columns : first + i / change->columns] += (double)values[i] * values[i];
    }
    for (int64_t i = 0; status == ZT_OK && i < output_count; i++) out->factor[i] = (float)(out->factor[i] / sqrt(sum[i]));
    zt_free(adapted->ctx, sum);
    zt_free(adapted->ctx, values);
    return status;
}

zt_status zt_adapted_load(zt_adapted *adapted, const adapted_change *change, const adapted_item *item, adapted_loaded *out)
{
    const lora_placement *placement = &item->placement;
    const lora_part *part = placement->part;
    zt_status status = ZT_OK;
    *out = (adapted_loaded){0};
    if (part->whole >= 0 && placement->turned && change->columns) {
        zt_entry entry;
        zt_checkpoint_get(placement->adapter->file, part->whole, &entry);
        if (entry.type.rank == 2) {
            status = read_tensor(placement->adapter, part->whole, &out->whole);
            if (status == ZT_OK) status = transpose_matrix(adapted->ctx, &out->whole, change->columns, change->rows);
        }
    }
    if (status == ZT_OK && part->lora_a >= 0) status = load_product(adapted, change, placement, out);
    if (status == ZT_OK && part->magnitude >= 0) status = load_factor(adapted, change, item, out);
    if (status == ZT_OK && part->rows >= 0) status = read_tensor(placement->adapter, part->rows, &out->rows);
    if (status == ZT_OK && part->addend >= 0) {
        status = read_tensor(placement->adapter, part->addend, &out->addend);
        if (status == ZT_OK) status = pair_rows(adapted->ctx, &out->addend, change->rows * change->columns, 1, placement->heads);
        for (int64_t i = 0; status == ZT_OK && i < change->rows * change->columns; i++)
            out->addend[i] = (float)(out->addend[i] * part->scale);
    }
    if (status != ZT_OK) zt_adapted_unload(adapted->ctx, out);
    return status;
}

void zt_adapted_unload(zt_ctx *ctx, adapted_loaded *loaded)
{
    float *all[] = {loaded->left, loaded->right, loaded->factor, loaded->whole, loaded->rows, loaded->addend};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) zt_free(ctx, all[i]);
    *loaded = (adapted_loaded){0};
}
