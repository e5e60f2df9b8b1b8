/* hf_dequantize.c - values of the matrices of a quantized Hugging Face model.
 *
 * A matrix that is read is loaded whole, as it is stored, and put in one form: a row of codes after the other, floats as scales,
 * one for each block, and integers as zeros. Readers take a matrix in pieces and many threads read at once, so the last few that
 * were loaded are kept.
 *
 * Facts: compressed_tensors' forward_helpers.py and nvfp4/helpers.py, AutoAWQ's dequantize_gemm, GPTQModel's
 * dequantize_weight, transformers' finegrained_fp8.py.
 */
#include "lib/llm/hf/hf_quantized.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

enum { SLOTS = 8, NO_MATRIX = -1 };

typedef struct loaded_matrix {
    const hf_matrix *matrix;
    uint8_t *codes; /* rows of row_bytes: bytes, or the first code in the lowest bits */
    size_t row_bytes;
    float *scales;   /* [scale_rows, scale_columns] */
    int32_t *zeros;  /* the same; NULL: 0 */
    int32_t *groups; /* [columns]; NULL: by block_columns */
} loaded_matrix;

typedef struct slot {
    int64_t index; /* of the matrix */
    int readers;
    uint64_t used;
    loaded_matrix loaded;
} slot;

struct hf_dequantizer {
    zt_ctx *ctx;
    zt_checkpoint *from;
    pthread_mutex_t lock;
    pthread_cond_t freed;
    uint64_t clock;
    slot slot[SLOTS];
};

/* ---- loading --------------------------------------------------------------------------------- */

/* A tensor's bytes, allocated; NULL: they cannot be read. */
static void *load_tensor(hf_dequantizer *from, int64_t index)
{
    zt_entry entry;
    zt_checkpoint_get(from->from, index, &entry);
    void *bytes = zt_alloc(from->ctx, (size_t)entry.bytes);
    if (bytes && zt_checkpoint_read(from->from, index, 0, bytes, (size_t)entry.bytes) != ZT_OK) {
        zt_free(from->ctx, bytes);
        return NULL;
    }
    return bytes;
}

static uint32_t code_at(const uint8_t *row, int64_t column, int bits)
{
    if (bits == 8) return row[column];
    if (bits == 3) { /* of GPTQ: 32 codes in 3 words, one behind the other */
        const uint8_t *first = row + 3 * column / 8;
        int low = (int)(3 * column % 8);
        uint32_t code = (uint32_t)*first >> low;
        return (low > 5 ? code | (uint32_t)first[1] << (8 - low) : code) & 7;
    }
    int each = 8 / bits, shift = (int)(column % each) * bits;
    return (uint32_t)row[column / each] >> shift & ((1u << bits) - 1);
}

/* Words [rows, columns] as [columns, rows]. */
static void transpose_words(const uint32_t *from, int64_t rows, int64_t columns, uint32_t *to)
{
    enum { TILE = 32 };
    for (int64_t r0 = 0; r0 < rows; r0 += TILE)
        for (int64_t c0 = 0; c0 < columns; c0 += TILE)
            for (int64_t r = r0; r < rows && r < r0 + TILE; r++)
                for (int64_t c = c0; c < columns && c < c0 + TILE; c++) to[c * rows + r] = from[r * columns + c];
}

/* Which nibble of a word AWQ puts its j-th value in. */
static const int awq_order[8] = {0, 4, 1, 5, 2, 6, 3, 7};

static int awq_code(const uint32_t *words, int64_t index) { return (int)(words[index / 8] >> (4 * awq_order[index % 8]) & 15); }

static zt_status load_codes(hf_dequantizer *from, const hf_matrix *matrix, loaded_matrix *out)
{
    int64_t rows = matrix->rows, columns = matrix->columns;
    hf_layout layout = matrix->scheme.layout;
    uint8_t *stored = load_tensor(from, matrix->codes);
    if (!stored) return zt_ctx_status(from->ctx);
    bool transposed = layout == HF_GPTQ || layout == HF_AWQ;
    out->row_bytes = layout == HF_PLAIN    ? (size_t)columns
                     : layout == HF_PACKED ? (size_t)((columns * matrix->scheme.bits + 31) / 32 * 4)
                     : layout == HF_GPTQ   ? (size_t)(columns * matrix->scheme.bits / 8)
                                           : (size_t)((columns + 1) / 2);
    out->codes = transposed ? zt_alloc_array(from->ctx, (size_t)rows, out->row_bytes) : stored;
    if (!transposed) return ZT_OK;
    if (out->codes && layout == HF_GPTQ)
        transpose_words((const uint32_t *)(void *)stored, (int64_t)out->row_bytes / 4, rows, (uint32_t *)(void *)out->codes);
    if (out->codes && layout == HF_AWQ) {
        memset(out->codes, 0, (size_t)rows * out->row_bytes);
        for (int64_t column = 0; column < columns; column++) {
            const uint32_t *words = (const uint32_t *)(void *)stored + column * (rows / 8);
            for (int64_t row = 0; row < rows; row++)
                out->codes[(size_t)row * out->row_bytes + (size_t)column / 2] |=
                    (uint8_t)(awq_code(words, row) << (4 * (column % 2)));
        }
    }
    zt_free(from->ctx, stored);
    return out->codes ? ZT_OK : ZT_ENOMEM;
}

static zt_status divide_by_global(hf_dequantizer *from, const hf_matrix *matrix, float *scales, int64_t count)
{
    float global = 1;
    zt_status status = zt_checkpoint_read(from->from, matrix->global, 0, &global, sizeof global);
    for (int64_t i = 0; status == ZT_OK && i < count; i++) scales[i] /= global;
    return status;
}

static zt_status load_scales(hf_dequantizer *from, const hf_matrix *matrix, loaded_matrix *out)
{
    int64_t rows = matrix->scale_rows, columns = matrix->scale_columns, count = rows * columns;
    bool transposed = matrix->scheme.layout == HF_GPTQ || matrix->scheme.layout == HF_AWQ;
    zt_dtype dtype = matrix->scale_dtype == ZT_U8 ? ZT_F8_E8M0 : matrix->scale_dtype;
    void *stored = load_tensor(from, matrix->scales);
    if (!stored) return zt_ctx_status(from->ctx);
    out->scales = zt_alloc_array(from->ctx, (size_t)count, sizeof *out->scales);
    float *decoded = transposed ? zt_alloc_array(from->ctx, (size_t)count, sizeof *decoded) : out->scales;
    if (out->scales && decoded) zt_dtype_get(dtype)->decode(stored, decoded, count);
    if (out->scales && decoded && transposed)
        transpose_words((const uint32_t *)(void *)decoded, columns, rows, (uint32_t *)(void *)out->scales);
    zt_status status = out->scales && decoded ? ZT_OK : ZT_ENOMEM;
    if (transposed) zt_free(from->ctx, decoded);
    zt_free(from->ctx, stored);
    return status == ZT_OK && matrix->global >= 0 ? divide_by_global(from, matrix, out->scales, count) : status;
}

/* A code of GPTQ among words, one behind the other. */
static int32_t word_code(const uint32_t *words, int64_t index, int bits)
{
    int64_t bit = index * bits;
    int low = (int)(bit % 32);
    uint32_t code = words[bit / 32] >> low;
    if (low + bits > 32) code |= words[bit / 32 + 1] << (32 - low);
    return (int32_t)(code & ((UINT32_C(1) << bits) - 1));
}

/* The zero of a row and a group, as it is stored. */
static int32_t stored_zero(const hf_matrix *matrix, const void *stored, int64_t row, int64_t group)
{
    int bits = matrix->scheme.bits, each = 32 / bits;
    int32_t mask = (int32_t)((UINT32_C(1) << bits) - 1);
    const uint32_t *words = stored;
    if (matrix->scheme.layout == HF_PLAIN) return ((const int8_t *)stored)[row * matrix->scale_columns + group];
    if (matrix->scheme.layout == HF_PACKED)
        return (int32_t)(words[row / each * matrix->scale_columns + group] >> (row % each * bits)) & mask;
    if (matrix->scheme.layout == HF_AWQ) return awq_code(words + group * (matrix->rows / 8), row);
    int32_t zero = word_code(words + group * (matrix->rows * bits / 32), row, bits);
    return matrix->scheme.offset ? (zero + 1) & mask : zero;
}

/* Zeros as they are stored, or the middle of the codes' range. */
static zt_status load_zeros(hf_dequantizer *from, const hf_matrix *matrix, loaded_matrix *out)
{
    int64_t rows = matrix->scale_rows, columns = matrix->scale_columns;
    bool middle = matrix->zeros < 0;
    if (matrix->scheme.layout == HF_NVFP4 || (middle && matrix->scheme.layout == HF_PLAIN)) return ZT_OK;
    out->zeros = zt_alloc_array(from->ctx, (size_t)(rows * columns), sizeof *out->zeros);
    void *stored = middle ? NULL : load_tensor(from, matrix->zeros);
    zt_status status = out->zeros && (stored || middle) ? ZT_OK : zt_ctx_status(from->ctx);
    for (int64_t row = 0; status == ZT_OK && row < rows; row++)
        for (int64_t group = 0; group < columns; group++)
            out->zeros[row * columns + group] = middle ? 1 << (matrix->scheme.bits - 1) : stored_zero(matrix, stored, row, group);
    zt_free(from->ctx, stored);
    return status;
}

static zt_status load_groups(hf_dequantizer *from, const hf_matrix *matrix, loaded_matrix *out)
{
    char text[160];
    zt_entry entry;
    if (matrix->groups < 0) return ZT_OK;
    out->groups = load_tensor(from, matrix->groups);
    if (!out->groups) return zt_ctx_status(from->ctx);
    zt_checkpoint_get(from->from, matrix->groups, &entry);
    for (int64_t column = 0; column < matrix->columns; column++)
        if (out->groups[column] < 0 || out->groups[column] >= matrix->scale_columns)
            return zt_fail(from->ctx, ZT_EDATA,
                           "%s: tensor '%s': group %" PRId32 " of column %" PRId64 ", expected 0 to %" PRId64,
                           zt_checkpoint_name(from->from), zt_escape(text, sizeof text, entry.name, strlen(entry.name)),
                           out->groups[column], column, matrix->scale_columns - 1);
    return ZT_OK;
}

static void free_loaded(hf_dequantizer *from, loaded_matrix *loaded)
{
    zt_free(from->ctx, loaded->codes);
    zt_free(from->ctx, loaded->scales);
    zt_free(from->ctx, loaded->zeros);
    zt_free(from->ctx, loaded->groups);
    *loaded = (loaded_matrix){.codes = NULL};
}

static zt_status load_matrix(hf_dequantizer *from, const hf_matrix *matrix, loaded_matrix *out)
{
    *out = (loaded_matrix){.matrix = matrix};
    zt_status status = load_codes(from, matrix, out);
    if (status == ZT_OK) status = load_scales(from, matrix, out);
    if (status == ZT_OK) status = load_zeros(from, matrix, out);
    if (status == ZT_OK) status = load_groups(from, matrix, out);
    if (status != ZT_OK) free_loaded(from, out);
    return status;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* The slot of this matrix, else the one that nobody reads and that was used longest ago; NULL: all are being read. */
static slot *choose_slot(hf_dequantizer *from, int64_t index)
{
    slot *chosen = NULL;
    for (int i = 0; i < SLOTS; i++) {
        slot *candidate = &from->slot[i];
        if (candidate->index == index) return candidate;
        if (candidate->readers == 0 && (!chosen || candidate->used < chosen->used)) chosen = candidate;
    }
    return chosen;
}

/* The matrix, loaded; it stays until it is released. NULL: it cannot be loaded. */
static slot *acquire_matrix(hf_dequantizer *from, const hf_matrix *matrix, int64_t index)
{
    pthread_mutex_lock(&from->lock);
    slot *found = choose_slot(from, index);
    while (!found) {
        pthread_cond_wait(&from->freed, &from->lock);
        found = choose_slot(from, index);
    }
    if (found->index != index) {
        free_loaded(from, &found->loaded);
        found->index = load_matrix(from, matrix, &found->loaded) == ZT_OK ? index : NO_MATRIX;
    }
    if (found->index == index) {
        found->readers++;
        found->used = ++from->clock;
    } else {
        found = NULL;
    }
    pthread_mutex_unlock(&from->lock);
    return found;
}

static void release_matrix(hf_dequantizer *from, slot *held)
{
    pthread_mutex_lock(&from->lock);
    if (--held->readers == 0) pthread_cond_signal(&from->freed);
    pthread_mutex_unlock(&from->lock);
}

hf_dequantizer *zt_hf_dequantizer_new(zt_ctx *ctx, zt_checkpoint *from)
{
    hf_dequantizer *dequantizer = zt_calloc(ctx, 1, sizeof *dequantizer);
    if (!dequantizer) return NULL;
    dequantizer->ctx = ctx;
    dequantizer->from = from;
    pthread_mutex_init(&dequantizer->lock, NULL);
    pthread_cond_init(&dequantizer->freed, NULL);
    for (int i = 0; i < SLOTS; i++) dequantizer->slot[i].index = NO_MATRIX;
    return dequantizer;
}

void zt_hf_dequantizer_free(hf_dequantizer *dequantizer)
{
    if (!dequantizer) return;
    for (int i = 0; i < SLOTS; i++) free_loaded(dequantizer, &dequantizer->slot[i].loaded);
    pthread_cond_destroy(&dequantizer->freed);
    pthread_mutex_destroy(&dequantizer->lock);
    zt_free(dequantizer->ctx, dequantizer);
}

/* ---- values ---------------------------------------------------------------------------------- */

static const float fp4_values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

/* The codes of columns of a row, as floats. */
static void read_codes(const loaded_matrix *loaded, int64_t row, int64_t first, int64_t count, float *out)
{
    const hf_matrix *matrix = loaded->matrix;
    const uint8_t *codes = loaded->codes + (size_t)row * loaded->row_bytes;
    if (matrix->scheme.layout == HF_PLAIN && matrix->scheme.floating) {
        zt_dtype_get(matrix->code_dtype)->decode(codes + first, out, count);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        if (matrix->scheme.layout == HF_NVFP4)
            out[i] = fp4_values[code_at(codes, first + i, 4)];
        else if (matrix->scheme.layout == HF_PLAIN)
            out[i] = (float)(int8_t)codes[first + i];
        else
            out[i] = (float)code_at(codes, first + i, matrix->scheme.bits);
    }
}

static void write_values(zt_dtype dtype, const float *values, int64_t count, char *dst)
{
    if (dtype == ZT_F32)
        memcpy(dst, values, (size_t)count * sizeof *values);
    else
        zt_dtype_get(dtype)->encode(values, dst, count);
}

/* Values of columns of a row. */
static void put_row(const loaded_matrix *loaded, int64_t row, int64_t first, int64_t count, char *dst)
{
    enum { STEP = 256 };
    const hf_matrix *matrix = loaded->matrix;
    size_t size = (size_t)zt_dtype_get(matrix->dtype)->block_bytes;
    int64_t base = row / matrix->scheme.block_rows * matrix->scale_columns;
    float values[STEP];
    for (int64_t step; count > 0; count -= step, first += step, dst += (size_t)step * size) {
        step = count < STEP ? count : STEP;
        read_codes(loaded, row, first, step, values);
        for (int64_t i = 0; i < step; i++) {
            int64_t column = first + i;
            int64_t at = base + (loaded->groups ? loaded->groups[column] : column / matrix->scheme.block_columns);
            values[i] = (loaded->zeros ? values[i] - (float)loaded->zeros[at] : values[i]) * loaded->scales[at];
        }
        write_values(matrix->dtype, values, step, dst);
    }
}

static void put_values(const loaded_matrix *loaded, int64_t first, int64_t count, char *dst)
{
    int64_t columns = loaded->matrix->columns;
    size_t size = (size_t)zt_dtype_get(loaded->matrix->dtype)->block_bytes;
    while (count > 0) {
        int64_t column = first % columns, run = columns - column < count ? columns - column : count;
        put_row(loaded, first / columns, column, run, dst);
        first += run;
        count -= run;
        dst += (size_t)run * size;
    }
}

/* ---- blocks of MXFP4 ------------------------------------------------------------------------- */

/* Blocks as GGUF has them: no value is computed. */
static zt_status read_blocks(hf_dequantizer *from, const hf_matrix *matrix, int64_t first, int64_t count, char *dst)
{
    enum { STEP = 128 };
    uint8_t pairs[STEP * HF_MXFP4_PAIRS], scales[STEP];
    for (int64_t step; count > 0; count -= step, first += step) {
        step = count < STEP ? count : STEP;
        zt_status status =
            zt_checkpoint_read(from->from, matrix->codes, (uint64_t)first * HF_MXFP4_PAIRS, pairs, (size_t)step * HF_MXFP4_PAIRS);
        if (status == ZT_OK) status = zt_checkpoint_read(from->from, matrix->scales, (uint64_t)first, scales, (size_t)step);
        if (status != ZT_OK) return status;
        for (int64_t i = 0; i < step; i++, dst += HF_MXFP4_BLOCK)
            zt_hf_mxfp4_block(scales[i], pairs + i * HF_MXFP4_PAIRS, (uint8_t *)dst);
    }
    return ZT_OK;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Whole elements, or blocks. */
static zt_status read_elements(hf_dequantizer *from, const hf_matrix *matrix, const slot *held, int64_t first, int64_t count,
                               char *dst)
{
    if (matrix->dtype == ZT_MXFP4) return read_blocks(from, matrix, first, count, dst);
    put_values(&held->loaded, first, count, dst);
    return ZT_OK;
}

/* An element that is cut at either end goes through a buffer. */
static zt_status read_bytes(hf_dequantizer *from, const hf_matrix *matrix, const slot *held, uint64_t offset, char *dst,
                            size_t size)
{
    size_t whole = (size_t)zt_dtype_get(matrix->dtype)->block_bytes;
    char element[HF_MXFP4_BLOCK];
    while (size > 0) {
        size_t skip = (size_t)(offset % whole), piece = whole - skip < size ? whole - skip : size;
        int64_t first = (int64_t)(offset / whole);
        bool many = skip == 0 && size >= whole;
        if (many) piece = size - size % whole;
        zt_status status = read_elements(from, matrix, held, first, many ? (int64_t)(piece / whole) : 1, many ? dst : element);
        if (status != ZT_OK) return status;
        if (!many) memcpy(dst, element + skip, piece);
        offset += piece;
        dst += piece;
        size -= piece;
    }
    return ZT_OK;
}

zt_status zt_hf_dequantize(hf_dequantizer *dequantizer, const hf_matrix *matrix, int64_t index, uint64_t offset, void *dst,
                           size_t size)
{
    bool blocks = matrix->dtype == ZT_MXFP4;
    slot *held = blocks ? NULL : acquire_matrix(dequantizer, matrix, index);
    if (!blocks && !held) return zt_ctx_status(dequantizer->ctx);
    zt_status status = read_bytes(dequantizer, matrix, held, offset, dst, size);
    if (held) release_matrix(dequantizer, held);
    return status;
}
