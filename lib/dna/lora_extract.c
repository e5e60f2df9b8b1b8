/* lora_extract.c - owns the making of adapters from two models. */
#include "lib/base/require.h"
#include "lib/dna/lora.h"

#include "lib/dna/lora_internal.h"
#include "lib/dna/svd.h"

#include "lib/dna/merge_internal.h"

#include <stdio.h>
#include <string.h>

typedef struct extract_matrix {
    int64_t base, tuned;          /* tensors */
    int64_t rows, columns, heads; /* heads: rows are paired on the way to Hugging Face's order */
} extract_matrix;

struct zt_extract {
    zt_ctx *ctx;
    zt_arena *arena;
    zt_checkpoint *base, *tuned;
    zt_extract_opts options;
    extract_matrix *matrices;
    zt_entry *entries; /* [2 matrix_count] */
    int64_t matrix_count, left_count;
    zt_meta *meta;
    zt_pool *pool;
    double delta_squares, kept_squares; /* sums of squares: of the differences, of what the adapters have */
};

/* ---- what is taken --------------------------------------------------------------------------- */

static bool is_float(const zt_entry *entry)
{
    return entry->type.rank >= 0 && entry->type.dtype != ZT_DTYPE_COUNT && zt_dtype_is_float(entry->type.dtype) &&
           zt_dtype_get(entry->type.dtype)->decode;
}

static bool same_shape(const zt_type *left, const zt_type *right)
{
    return left->rank == right->rank && !memcmp(left->dim, right->dim, sizeof left->dim);
}

/* Are the bytes of both the same? */
static zt_status compare_bytes(zt_extract *extract, int64_t base_tensor, int64_t tuned_tensor, const zt_entry *entry, bool *same)
{
    enum { BYTES = 1 << 15 };
    char base_bytes[BYTES], tuned_bytes[BYTES];
    zt_status status = ZT_OK;
    *same = true;
    for (uint64_t offset = 0, step; offset < entry->bytes && *same && status == ZT_OK; offset += step) {
        step = entry->bytes - offset < BYTES ? entry->bytes - offset : BYTES;
        status = zt_checkpoint_read(extract->base, base_tensor, offset, base_bytes, (size_t)step);
        if (status == ZT_OK) status = zt_checkpoint_read(extract->tuned, tuned_tensor, offset, tuned_bytes, (size_t)step);
        *same = status == ZT_OK && !memcmp(base_bytes, tuned_bytes, (size_t)step);
    }
    return status;
}

static bool is_embedding(const char *name)
{
    return strstr(name, "embd") || strstr(name, "embed") || strstr(name, "wte") || strstr(name, "wpe");
}

/* "base_model.model.MODULE.lora_A.weight", or "NAME.lora_a". */
static const char *make_name(zt_extract *extract, const char *tensor, bool is_b)
{
    char hf_buffer[256];
    const char *name = extract->options.peft ? zt_merge_hf_name(tensor, hf_buffer, sizeof hf_buffer) : NULL;
    name = name ? name : tensor;
    size_t length = strlen(name), suffix_length = strlen(".weight");
    char *out = zt_arena_alloc(extract->arena, length + 64);
    if (!out) return NULL;
    if (extract->options.peft && length > suffix_length && !strcmp(name + length - suffix_length, ".weight"))
        length -= suffix_length;
    if (extract->options.peft)
        snprintf(out, length + 64, "base_model.model.%.*s.lora_%s.weight", (int)length, name, is_b ? "B" : "A");
    else
        snprintf(out, length + 64, "%s.lora_%s", name, is_b ? "b" : "a");
    return out;
}

/* A model with GGUF's names has a name for PEFT where the way back is the same. */
static zt_status check_name(const zt_extract *extract, const char *tensor)
{
    const zt_meta *meta = zt_checkpoint_meta(extract->base);
    int64_t key_index = zt_meta_find(meta, "general.architecture");
    zt_bytes architecture = key_index >= 0 ? zt_meta_text(zt_meta_get(meta, key_index)) : (zt_bytes){NULL, 0};
    char hf_buffer[256], arch[65], shown[160], name[80];
    zt_lora_place place;
    if (!extract->options.peft || !architecture.data) return ZT_OK;
    snprintf(arch, sizeof arch, "%.*s", (int)(architecture.n < 64 ? architecture.n : 64), architecture.data);
    if (extract->options.place && zt_merge_hf_name(tensor, hf_buffer, sizeof hf_buffer) &&
        extract->options.place(arch, hf_buffer, &place) && !strcmp(place.name, tensor) && !place.transposed)
        return ZT_OK;
    return zt_fail(extract->ctx, ZT_ENOTSUP,
                   "%s: no PEFT name is known for '%s' of architecture '%s': write a GGUF adapter "
                   "instead",
                   zt_checkpoint_name(extract->base), zt_escape(shown, sizeof shown, tensor, strlen(tensor)),
                   zt_escape(name, sizeof name, arch, strlen(arch)));
}

static zt_status add_matrix(zt_extract *extract, int64_t index, int64_t other, const zt_entry *entry)
{
    extract_matrix *matrix = &extract->matrices[extract->matrix_count];
    char hf_buffer[256], shown[160];
    const char *name_a = make_name(extract, entry->name, false), *name_b = make_name(extract, entry->name, true);
    if (!name_a || !name_b) return ZT_ENOMEM;
    zt_status status = check_name(extract, entry->name);
    if (status != ZT_OK) return status;
    *matrix = (extract_matrix){.base = index, .tuned = other, .rows = entry->type.dim[0], .columns = entry->type.dim[1]};
    if (extract->options.peft && zt_merge_hf_name(entry->name, hf_buffer, sizeof hf_buffer))
        matrix->heads = zt_lora_heads(extract->base, entry->name);
    if (matrix->heads < 0 || (matrix->heads && matrix->rows % (2 * matrix->heads)))
        return zt_fail(extract->ctx, ZT_EDATA, "%s: '%s': unknown number of heads", zt_checkpoint_name(extract->base),
                       zt_escape(shown, sizeof shown, entry->name, strlen(entry->name)));
    zt_type type_a = zt_type_make(ZT_F32, 2, (const int64_t[]){extract->options.rank, matrix->columns});
    zt_type type_b = zt_type_make(ZT_F32, 2, (const int64_t[]){matrix->rows, extract->options.rank});
    size_t size_a, size_b;
    if (!zt_type_check(extract->ctx, &type_a, &size_a) || !zt_type_check(extract->ctx, &type_b, &size_b)) return ZT_EDATA;
    extract->entries[2 * extract->matrix_count] = (zt_entry){.name = name_a, .dtype = "f32", .type = type_a, .bytes = size_a};
    extract->entries[2 * extract->matrix_count + 1] = (zt_entry){.name = name_b, .dtype = "f32", .type = type_b, .bytes = size_b};
    extract->matrix_count++;
    return ZT_OK;
}

static zt_status consider_tensor(zt_extract *extract, int64_t index)
{
    zt_entry entry, tuned_entry;
    char shown[160];
    bool same = false;
    zt_checkpoint_get(extract->base, index, &entry);
    int64_t other = zt_checkpoint_find(extract->tuned, entry.name);
    if (other < 0 || !is_float(&entry)) return ZT_OK;
    zt_checkpoint_get(extract->tuned, other, &tuned_entry);
    if (!is_float(&tuned_entry) || !same_shape(&entry.type, &tuned_entry.type))
        return zt_fail(extract->ctx, ZT_ESHAPE, "%s: tensor '%s' has another shape than in %s",
                       zt_checkpoint_name(extract->tuned), zt_escape(shown, sizeof shown, entry.name, strlen(entry.name)),
                       zt_checkpoint_name(extract->base));
    zt_status status = entry.type.dtype == tuned_entry.type.dtype ? compare_bytes(extract, index, other, &entry, &same) : ZT_OK;
    if (status != ZT_OK || same) return status;
    if (entry.type.rank == 2 && !is_embedding(entry.name)) return add_matrix(extract, index, other, &entry);
    extract->left_count++;
    return ZT_OK;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static zt_status put_meta(zt_extract *extract)
{
    const zt_meta *base_meta = zt_checkpoint_meta(extract->base);
    int64_t key_index = zt_meta_find(base_meta, "general.architecture");
    float alpha = (float)extract->options.rank;
    extract->meta = zt_meta_new(extract->ctx);
    if (!extract->meta || extract->options.peft) return extract->meta ? ZT_OK : ZT_ENOMEM;
    zt_status status = ZT_OK;
    if (key_index >= 0) {
        const zt_meta_item *item = zt_meta_get(base_meta, key_index);
        status = zt_meta_put(extract->meta, item->key.data, item->kind, item->value, item->bytes);
    }
    if (status == ZT_OK) status = zt_meta_put_str(extract->meta, "general.type", "adapter", 7);
    if (status == ZT_OK) status = zt_meta_put_str(extract->meta, "adapter.type", "lora", 4);
    return status == ZT_OK ? zt_meta_put(extract->meta, "adapter.lora.alpha", ZT_GGUF_F32, &alpha, sizeof alpha) : status;
}

static zt_status set_up(zt_extract *extract)
{
    int64_t count = zt_checkpoint_count(extract->base);
    int threads = extract->options.threads ? extract->options.threads : zt_cpu_count();
    extract->arena = zt_arena_new(extract->ctx, 0);
    extract->matrices = zt_calloc(extract->ctx, (size_t)count + 1, sizeof *extract->matrices);
    extract->entries = zt_calloc(extract->ctx, 2 * (size_t)count + 1, sizeof *extract->entries);
    extract->pool = zt_pool_new(extract->ctx, threads > 256 ? 256 : threads);
    if (!extract->arena || !extract->matrices || !extract->entries || !extract->pool) return ZT_ENOMEM;
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < count && status == ZT_OK; i++) status = consider_tensor(extract, i);
    for (int64_t i = 0; i < zt_checkpoint_count(extract->tuned); i++) { /* what the base does not have */
        zt_entry entry;
        zt_checkpoint_get(extract->tuned, i, &entry);
        extract->left_count += zt_checkpoint_find(extract->base, entry.name) < 0;
    }
    if (status == ZT_OK && !extract->matrix_count)
        status = zt_fail(extract->ctx, ZT_EDATA, "%s: no matrix differs from %s", zt_checkpoint_name(extract->tuned),
                         zt_checkpoint_name(extract->base));
    return status == ZT_OK ? put_meta(extract) : status;
}

zt_extract *zt_extract_new(zt_ctx *ctx, zt_checkpoint *base, zt_checkpoint *tuned, const zt_extract_opts *options)
{
    ZT_REQUIRE(ctx, base && tuned && options, NULL);
    zt_extract *extract = zt_calloc(ctx, 1, sizeof *extract);
    if (!extract) return NULL;
    *extract = (zt_extract){.ctx = ctx, .base = base, .tuned = tuned, .options = *options};
    if (set_up(extract) == ZT_OK) return extract;
    zt_extract_free(extract);
    return NULL;
}

void zt_extract_free(zt_extract *extract)
{
    if (!extract) return;
    zt_meta_free(extract->meta);
    zt_pool_free(extract->pool);
    zt_free(extract->ctx, extract->matrices);
    zt_free(extract->ctx, extract->entries);
    zt_arena_free(extract->arena);
    zt_free(extract->ctx, extract);
}

int64_t zt_extract_count(const zt_extract *extract) { return extract ? 2 * extract->matrix_count : 0; }
const zt_entry *zt_extract_entries(const zt_extract *extract) { return extract ? extract->entries : NULL; }
zt_meta *zt_extract_meta(zt_extract *extract) { return extract ? extract->meta : NULL; }
int64_t zt_extract_left(const zt_extract *extract) { return extract ? extract->left_count : 0; }
double zt_extract_share(const zt_extract *extract)
{
    return extract ? (extract->delta_squares > 0 ? extract->kept_squares / extract->delta_squares : 1) : 0;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* d = sign values of a tensor, added; row by row, so that little is in memory beside. */
static zt_status add_values(zt_extract *extract, zt_checkpoint *checkpoint, int64_t tensor, const extract_matrix *matrix,
                            float sign, float *delta)
{
    zt_entry entry;
    zt_checkpoint_get(checkpoint, tensor, &entry);
    const zt_dtype_info *type = zt_dtype_get(entry.type.dtype);
    size_t bytes = (size_t)(matrix->columns / type->block) * (size_t)type->block_bytes;
    char *raw = zt_alloc(extract->ctx, bytes);
    float *row = zt_alloc_array(extract->ctx, (size_t)matrix->columns + 1, sizeof *row);
    zt_status status = raw && row ? ZT_OK : ZT_ENOMEM;
    for (int64_t row_index = 0; row_index < matrix->rows && status == ZT_OK; row_index++) {
        status = zt_checkpoint_read(checkpoint, tensor, (uint64_t)row_index * bytes, raw, bytes);
        if (status != ZT_OK) break;
        if (entry.type.dtype == ZT_F32)
            memcpy(row, raw, bytes);
        else
            type->decode(raw, row, matrix->columns);
        zt_merge_loops()->add(delta + row_index * matrix->columns, row, sign, matrix->columns);
    }
    zt_free(extract->ctx, raw);
    zt_free(extract->ctx, row);
    return status;
}

/* B [rows, rank] of left [rank, rows]; of paired rows in Hugging Face's order. */
static void write_left(const zt_svd *svd, int64_t heads, float *out)
{
    int64_t head_rows = heads ? svd->rows / heads : svd->rows;
    for (int64_t row = 0; row < svd->rows; row++) {
        int64_t target = heads ? row / head_rows * head_rows + row % 2 * (head_rows / 2) + row % head_rows / 2 : row;
        for (int64_t column = 0; column < svd->rank; column++)
            out[target * svd->rank + column] = svd->left[column * svd->rows + row];
    }
}

static zt_status factor_matrix(zt_extract *extract, const extract_matrix *matrix, float *delta, zt_svd *svd)
{
    zt_status status = add_values(extract, extract->tuned, matrix->tuned, matrix, 1, delta);
    if (status == ZT_OK) status = add_values(extract, extract->base, matrix->base, matrix, -1, delta);
    if (status == ZT_OK) status = zt_svd_find(extract->ctx, extract->pool, delta, svd);
    if (status != ZT_OK) return status;
    for (int64_t row = 0; row < matrix->rows; row++)
        extract->delta_squares +=
            zt_merge_loops()->dot(delta + row * matrix->columns, delta + row * matrix->columns, matrix->columns);
    for (int64_t rank = 0; rank < svd->rank; rank++) extract->kept_squares += svd->values[rank] * svd->values[rank];
    return ZT_OK;
}

static zt_status write_matrix(zt_extract *extract, const extract_matrix *matrix, zt_writer *writer)
{
    size_t cells, rank = (size_t)extract->options.rank;
    if (!zt_mul_size((size_t)matrix->rows, (size_t)matrix->columns, &cells))
        return zt_fail(extract->ctx, ZT_ENOMEM, "matrix too large");
    zt_svd svd = {.rows = matrix->rows, .columns = matrix->columns, .rank = extract->options.rank, .seed = extract->options.seed};
    float *delta = zt_calloc(extract->ctx, cells + 1, sizeof *delta),
          *left = zt_alloc_array(extract->ctx, (size_t)matrix->rows * rank + 1, sizeof *left);
    svd.left = zt_alloc_array(extract->ctx, (size_t)matrix->rows * rank + 1, sizeof *svd.left);
    svd.right = zt_alloc_array(extract->ctx, (size_t)matrix->columns * rank + 1, sizeof *svd.right);
    svd.values = zt_alloc_array(extract->ctx, rank + 1, sizeof *svd.values);
    zt_status status =
        delta && left && svd.left && svd.right && svd.values ? factor_matrix(extract, matrix, delta, &svd) : ZT_ENOMEM;
    if (status == ZT_OK) write_left(&svd, matrix->heads, left);
    if (status == ZT_OK) status = zt_writer_put(writer, svd.right, (size_t)matrix->columns * rank * sizeof *svd.right);
    if (status == ZT_OK) status = zt_writer_put(writer, left, (size_t)matrix->rows * rank * sizeof *left);
    zt_free(extract->ctx, delta);
    zt_free(extract->ctx, left);
    zt_free(extract->ctx, svd.left);
    zt_free(extract->ctx, svd.right);
    zt_free(extract->ctx, svd.values);
    return status;
}

zt_status zt_extract_write(zt_extract *extract, zt_writer *writer)
{
    if (!extract) return ZT_EUSAGE;
    zt_status status = ZT_OK;
    extract->delta_squares = extract->kept_squares = 0;
    for (int64_t matrix_index = 0; matrix_index < extract->matrix_count && status == ZT_OK; matrix_index++) {
        if (extract->options.stop && extract->options.stop()) return zt_fail(extract->ctx, ZT_EINTR, "interrupted");
        zt_entry entry;
        zt_checkpoint_get(extract->base, extract->matrices[matrix_index].base, &entry);
        if (extract->options.progress)
            extract->options.progress(extract->options.user, entry.name, (double)matrix_index, (double)extract->matrix_count);
        status = write_matrix(extract, &extract->matrices[matrix_index], writer);
    }
    return status;
}
