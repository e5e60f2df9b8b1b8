/* hf_store.c - reads the tensors of a Hugging Face model as GGUF has them: rows in another order, values in
 * another type, matrices transposed, and tensors that zt makes.
 *
 * In memory are only the values that zt makes, and the transposed matrix that was read last: readers take a
 * matrix in pieces, one matrix after the other. */
#include "lib/llm/hf/hf.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

struct hf_cache {
    pthread_mutex_t lock;
    int64_t tensor, matrix; /* -1: none */
    char *bytes;
};

/* ---- the list -------------------------------------------------------------------------------- */

hf_tensors *zt_hf_tensors_new(zt_ctx *ctx, const char *name, zt_checkpoint *from)
{
    hf_tensors *tensors = zt_calloc(ctx, 1, sizeof *tensors);
    if (!tensors) {
        zt_checkpoint_close(from);
        return NULL;
    }
    *tensors = (hf_tensors){.ctx = ctx, .from = from, .arena = zt_arena_new(ctx, 0)};
    tensors->cache = zt_calloc(ctx, 1, sizeof *tensors->cache);
    if (tensors->cache) {
        pthread_mutex_init(&tensors->cache->lock, NULL);
        tensors->cache->tensor = -1;
    }
    tensors->name = tensors->arena ? zt_arena_strndup(tensors->arena, name, strlen(name)) : NULL;
    if (tensors->name && tensors->cache) return tensors;
    zt_hf_tensors_free(tensors);
    return NULL;
}

void zt_hf_tensors_free(void *user)
{
    hf_tensors *tensors = user;
    if (!tensors) return;
    if (tensors->cache) {
        pthread_mutex_destroy(&tensors->cache->lock);
        zt_free(tensors->ctx, tensors->cache->bytes);
    }
    zt_free(tensors->ctx, tensors->cache);
    zt_checkpoint_close(tensors->from);
    zt_free(tensors->ctx, tensors->list);
    zt_arena_free(tensors->arena);
    zt_free(tensors->ctx, tensors);
}

zt_status zt_hf_tensors_add(hf_tensors *tensors, const hf_tensor *added)
{
    hf_tensor *list = tensors->list;
    size_t bytes;
    if (!zt_type_check(tensors->ctx, &added->type, &bytes)) return zt_ctx_status(tensors->ctx);
    if ((tensors->count & (tensors->count - 1)) == 0) /* a power of two: full */
        list = zt_realloc(tensors->ctx, list, (size_t)(tensors->count ? 2 * tensors->count : 1) * sizeof *list);
    if (!list) return ZT_ENOMEM;
    tensors->list = list;
    hf_tensor *copy = &list[tensors->count];
    *copy = *added;
    copy->name = zt_arena_strndup(tensors->arena, added->name, strlen(added->name));
    if (copy->name && added->values) {
        float *values = zt_arena_alloc(tensors->arena, bytes);
        if (values) memcpy(values, added->values, bytes);
        copy->values = values;
    }
    if (!copy->name || (added->values && !copy->values)) return ZT_ENOMEM;
    tensors->count++;
    return ZT_OK;
}

/* ---- stacked tensors ------------------------------------------------------------------------- */

/* The stacked tensor of this name; of many tensors most belong to the one that came last. */
static hf_tensor *find_stack(const hf_tensors *tensors, const char *name)
{
    for (int64_t i = tensors->count; i-- > 0;)
        if (tensors->list[i].sources && strcmp(tensors->list[i].name, name) == 0) return &tensors->list[i];
    return NULL;
}

static zt_status add_stack(hf_tensors *tensors, const hf_tensor *matrix, int64_t experts)
{
    hf_tensor stack = *matrix;
    stack.type = zt_type_make(matrix->type.dtype, 3, (int64_t[]){experts, matrix->type.dim[0], matrix->type.dim[1]});
    stack.sources = zt_arena_alloc(tensors->arena, (size_t)experts * sizeof *stack.sources);
    if (!stack.sources) return ZT_ENOMEM;
    for (int64_t expert = 0; expert < experts; expert++) stack.sources[expert] = -1;
    return zt_hf_tensors_add(tensors, &stack);
}

zt_status zt_hf_tensors_stack(hf_tensors *tensors, const hf_tensor *matrix, int64_t expert, int64_t experts, int64_t index,
                              const char *named)
{
    enum { MOST = 1 << 16 };
    char text[160], type_text[ZT_TYPE_TEXT];
    zt_escape(text, sizeof text, named, strlen(named));
    if (experts > MOST)
        return zt_fail(tensors->ctx, ZT_EDATA, "%s: a layer of %" PRId64 " experts, expected at most %d", tensors->name, experts,
                       MOST);
    if (expert >= experts)
        return zt_fail(tensors->ctx, ZT_EDATA, "%s: tensor '%s': expected an expert below %" PRId64, tensors->name, text,
                       experts);
    if (matrix->type.rank != 2)
        return zt_fail(tensors->ctx, ZT_EDATA, "%s: tensor '%s' is %s, expected a matrix", tensors->name, text,
                       zt_type_text(&matrix->type, type_text));
    hf_tensor *stack = find_stack(tensors, matrix->name);
    if (!stack && add_stack(tensors, matrix, experts) != ZT_OK) return zt_ctx_status(tensors->ctx);
    if (!stack) stack = find_stack(tensors, matrix->name);
    if (stack->type.dtype != matrix->type.dtype || stack->from != matrix->from || stack->type.dim[1] != matrix->type.dim[0] ||
        stack->type.dim[2] != matrix->type.dim[1])
        return zt_fail(tensors->ctx, ZT_EDATA, "%s: tensor '%s' is %s, unlike those of other experts", tensors->name, text,
                       zt_type_text(&matrix->type, type_text));
    if (stack->sources[expert] >= 0) return zt_fail(tensors->ctx, ZT_EDATA, "%s: tensor '%s' occurs twice", tensors->name, text);
    stack->sources[expert] = index;
    return ZT_OK;
}

zt_status zt_hf_tensors_check_stacks(const hf_tensors *tensors)
{
    for (int64_t i = 0; i < tensors->count; i++) {
        const hf_tensor *tensor = &tensors->list[i];
        for (int64_t expert = 0; tensor->sources && expert < tensor->type.dim[0]; expert++)
            if (tensor->sources[expert] < 0)
                return zt_fail(tensors->ctx, ZT_EDATA, "%s: tensor '%s': expert %" PRId64 " of %" PRId64 " is missing",
                               tensors->name, tensor->name, expert, tensor->type.dim[0]);
    }
    return ZT_OK;
}

/* ---- elements -------------------------------------------------------------------------------- */

/* Multiplies values of consecutive elements from number `first` on. */
static void scale_values(const hf_factors *factors, int64_t width, int64_t first, float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t row = (first + i) / width, run = 0;
        while (run < factors->run_count && row >= factors->end[run]) run++;
        for (int k = 0; k < 2; k++) values[i] *= (float)factors->all[k];
        if (run < factors->run_count) values[i] *= (float)factors->run[run];
    }
}

/* Reads elements, or blocks of a block type, of a source, in its own order, as the tensor's type. */
static zt_status read_source(const hf_tensors *tensors, const hf_tensor *tensor, int64_t source, int64_t first, int64_t count,
                             char *dst)
{
    enum { STEP = 1024 };
    const zt_dtype_info *from = zt_dtype_get(tensor->from);
    size_t element_size = (size_t)from->block_bytes;
    char raw[STEP * 8];
    float values[STEP];
    const zt_dtype_info *to = zt_dtype_get(tensor->type.dtype);
    if (tensor->type.dtype == tensor->from && tensor->add == 0 && !tensor->factors)
        return zt_checkpoint_read(tensors->from, source, (size_t)first * element_size, dst, (size_t)count * element_size);
    for (int64_t step; count > 0; count -= step, first += step) {
        step = count < STEP ? count : STEP;
        zt_status status =
            zt_checkpoint_read(tensors->from, source, (size_t)first * element_size, raw, (size_t)step * element_size);
        if (status != ZT_OK) return status;
        from->decode(raw, values, step);
        for (int64_t i = 0; tensor->add != 0 && i < step; i++) values[i] += tensor->add;
        if (tensor->factors) scale_values(tensor->factors, tensor->type.dim[tensor->type.rank - 1], first, values, step);
        to->encode(values, dst, step);
        dst += (size_t)step * (size_t)to->block_bytes;
    }
    return ZT_OK;
}

/* Reads elements in the order of the sources: of a stacked tensor a matrix from each, of a half every second run of rows. */
static zt_status read_elements(const hf_tensors *tensors, const hf_tensor *tensor, int64_t first, int64_t count, char *dst)
{
    const zt_type *type = &tensor->type;
    size_t element_size = (size_t)zt_dtype_get(type->dtype)->block_bytes;
    if (!tensor->sources && !tensor->half) return read_source(tensors, tensor, tensor->source, first, count, dst);
    int64_t matrix = type->dim[type->rank - 2] * type->dim[type->rank - 1] / zt_dtype_get(type->dtype)->block;
    while (count > 0) {
        int64_t number = first / matrix, within = first % matrix, run = matrix - within < count ? matrix - within : count;
        int64_t source = tensor->sources ? tensor->sources[number] : tensor->source;
        int64_t from = tensor->sources ? within : (2 * number + tensor->half - 1) * matrix + within;
        if (tensor->each) from = (number * tensor->each + tensor->skipped) * type->dim[type->rank - 1] + within;
        zt_status status = read_source(tensors, tensor, source, from, run, dst);
        if (status != ZT_OK) return status;
        first += run;
        count -= run;
        dst += (size_t)run * element_size;
    }
    return ZT_OK;
}

/* Reads elements of the first or second half, whose values take turns in the source. */
static zt_status read_in_turns(const hf_tensors *tensors, const hf_tensor *tensor, int64_t first, int64_t count, char *dst)
{
    enum { STEP = 512 };
    size_t element_size = (size_t)zt_dtype_get(tensor->type.dtype)->block_bytes;
    char both[2 * STEP * 8];
    for (int64_t step; count > 0; count -= step, first += step) {
        step = count < STEP ? count : STEP;
        zt_status status = read_source(tensors, tensor, tensor->source, 2 * first, 2 * step, both);
        if (status != ZT_OK) return status;
        for (int64_t i = 0; i < step; i++, dst += element_size)
            memcpy(dst, both + (size_t)(2 * i + tensor->half - 1) * element_size, element_size);
    }
    return ZT_OK;
}

/* The source's row where the tensor has all query heads, then the key heads, then the value heads, and the source one group
 * after the other: so many query heads, their key head, its value head. */
static int64_t grouped_row(const hf_tensor *tensor, int64_t rows, int64_t row)
{
    int64_t size = rows / (tensor->heads + 2 * tensor->groups), each = tensor->heads / tensor->groups;
    int64_t head = row / size, group, place;
    if (head < tensor->heads) {
        group = head / each;
        place = head % each;
    } else {
        group = (head - tensor->heads) % tensor->groups;
        place = each + (head - tensor->heads) / tensor->groups;
    }
    return (group * (each + 2) + place) * size + row % size;
}

/* The source's row for a row of the tensor. Within each head, with half = rows of a head / 2:
 *
 *   row of the tensor       2j     2j + 1
 *   row of the source       j      j + half
 */
static int64_t source_row(const hf_tensor *tensor, int64_t rows, int64_t row)
{
    if (tensor->groups) return grouped_row(tensor, rows, row);
    int64_t head = rows / tensor->heads, half = head / 2, within = row % head;
    return row - within + within % 2 * half + within / 2;
}

/* Reads elements of a tensor whose rows are in another order than the source's. */
static zt_status read_paired(const hf_tensors *tensors, const hf_tensor *tensor, int64_t first, int64_t count, char *dst)
{
    size_t element_size = (size_t)zt_dtype_get(tensor->type.dtype)->block_bytes;
    int64_t rows = tensor->type.dim[0];
    int64_t width = rows ? zt_type_count(&tensor->type) / rows / zt_dtype_get(tensor->type.dtype)->block : 0;
    while (count > 0) {
        int64_t row = first / width, column = first % width;
        int64_t run = width - column < count ? width - column : count;
        zt_status status = read_elements(tensors, tensor, source_row(tensor, rows, row) * width + column, run, dst);
        if (status != ZT_OK) return status;
        first += run;
        count -= run;
        dst += (size_t)run * element_size;
    }
    return ZT_OK;
}

/* Reads elements of a tensor of a gated delta net, in runs that follow each other in the source. */
static zt_status read_ordered(const hf_tensors *tensors, const hf_tensor *tensor, int64_t first, int64_t count, char *dst)
{
    size_t element_size = (size_t)zt_dtype_get(tensor->type.dtype)->block_bytes;
    bool by_column = tensor->order->part == HF_DELTA_COLUMNS;
    int64_t rows = tensor->type.dim[0], width = rows ? zt_type_count(&tensor->type) / rows : 0;
    while (count > 0) {
        int64_t row = first / width, column = first % width, limit = by_column ? tensor->order->value : width;
        int64_t run = limit - column % limit < count ? limit - column % limit : count;
        int64_t place = by_column ? row * width + zt_hf_delta_place(tensor->order, column)
                                  : zt_hf_delta_place(tensor->order, row) * width + column;
        zt_status status = read_elements(tensors, tensor, place, run, dst);
        if (status != ZT_OK) return status;
        first += run;
        count -= run;
        dst += (size_t)run * element_size;
    }
    return ZT_OK;
}

/* ---- transposed matrices --------------------------------------------------------------------- */

/* Columns first, first + step, .. of the source, whose rows have `width` columns. */
typedef struct every_column {
    int64_t first, step, width;
} every_column;

static void transpose_rows(const char *source, char *target, size_t element_size, int64_t first, int64_t count, int64_t rows,
                           int64_t columns, every_column taken)
{
    for (int64_t column = 0; column < columns; column++)
        for (int64_t row = 0; row < count; row++)
            memcpy(target + (size_t)(column * rows + first + row) * element_size,
                   source + (size_t)(row * taken.width + column * taken.step + taken.first) * element_size, element_size);
}

/* Reads a whole matrix and transposes it: the source's `rows` rows become its columns. */
static zt_status transpose_matrix(const hf_tensors *tensors, const hf_tensor *tensor, int64_t number, char *bytes)
{
    enum { STEP = 64 };
    size_t element_size = (size_t)zt_dtype_get(tensor->from)->block_bytes;
    const int64_t *dim = tensor->type.dim + tensor->type.rank - 2;
    int64_t rows = dim[1], columns = dim[0];
    every_column taken = {0, 1, columns};
    if (tensor->half && !tensor->each) taken = (every_column){(tensor->half - 1) * columns, 1, 2 * columns};
    if (tensor->in_turns) taken = (every_column){tensor->half ? tensor->half - 1 : 0, 2, 2 * columns};
    int64_t each = tensor->each ? tensor->each : rows;
    size_t row_bytes = (size_t)taken.width * element_size;
    size_t start = (size_t)(number * each + tensor->skipped) * row_bytes;
    char *strip = zt_alloc_array(tensors->ctx, STEP, row_bytes);
    zt_status status = strip ? ZT_OK : ZT_ENOMEM;
    for (int64_t row = 0, count; status == ZT_OK && row < rows; row += count) {
        count = rows - row < STEP ? rows - row : STEP;
        status =
            zt_checkpoint_read(tensors->from, tensor->source, start + (size_t)row * row_bytes, strip, (size_t)count * row_bytes);
        if (status == ZT_OK) transpose_rows(strip, bytes, element_size, row, count, rows, columns, taken);
    }
    zt_free(tensors->ctx, strip);
    return status;
}

/* The same as f32, of a tensor that is stored in another type. */
static zt_status transpose_as_f32(const hf_tensors *tensors, const hf_tensor *tensor, int64_t number, char *bytes)
{
    const zt_dtype_info *from = zt_dtype_get(tensor->from);
    const int64_t *dim = tensor->type.dim + tensor->type.rank - 2, count = dim[0] * dim[1];
    char *raw = zt_alloc_array(tensors->ctx, (size_t)count, (size_t)from->block_bytes);
    zt_status status = raw ? transpose_matrix(tensors, tensor, number, raw) : ZT_ENOMEM;
    if (status == ZT_OK) from->decode(raw, (float *)(void *)bytes, count);
    zt_free(tensors->ctx, raw);
    return status;
}

/* Makes the cache hold this matrix of a tensor. The lock is held. */
static zt_status fill_cache(const hf_tensors *tensors, int64_t index, int64_t number, size_t bytes)
{
    struct hf_cache *cache = tensors->cache;
    const hf_tensor *tensor = &tensors->list[index];
    bool same = tensor->from == tensor->type.dtype;
    if (cache->tensor == index && cache->matrix == number) return ZT_OK;
    zt_free(tensors->ctx, cache->bytes);
    cache->tensor = -1;
    cache->bytes = zt_alloc(tensors->ctx, bytes);
    zt_status status = !cache->bytes ? ZT_ENOMEM
                       : same        ? transpose_matrix(tensors, tensor, number, cache->bytes)
                                     : transpose_as_f32(tensors, tensor, number, cache->bytes);
    if (status == ZT_OK) cache->tensor = index;
    cache->matrix = number;
    return status;
}

static zt_status read_transposed(const hf_tensors *tensors, int64_t index, size_t offset, char *dst, size_t size)
{
    zt_type matrix = tensors->list[index].type;
    if (matrix.rank == 3) matrix.dim[0] = 1;
    size_t bytes = zt_type_bytes(&matrix);
    zt_status status = ZT_OK;
    pthread_mutex_lock(&tensors->cache->lock);
    while (status == ZT_OK && size > 0) {
        size_t within = offset % bytes, piece = bytes - within < size ? bytes - within : size;
        status = fill_cache(tensors, index, (int64_t)(offset / bytes), bytes);
        if (status == ZT_OK) memcpy(dst, tensors->cache->bytes + within, piece);
        offset += piece;
        dst += piece;
        size -= piece;
    }
    pthread_mutex_unlock(&tensors->cache->lock);
    return status;
}

/* ---- the store ------------------------------------------------------------------------------- */

/* Reads elements of some rows of the source. */
static zt_status read_rows(const hf_tensors *tensors, const hf_tensor *tensor, int64_t first, int64_t count, char *dst)
{
    const zt_dtype_info *info = zt_dtype_get(tensor->type.dtype);
    int64_t width = tensor->type.dim[1] / info->block;
    while (count > 0) {
        int64_t column = first % width, run = width - column < count ? width - column : count;
        zt_status status = read_source(tensors, tensor, tensor->source, tensor->rows[first / width] * width + column, run, dst);
        if (status != ZT_OK) return status;
        first += run;
        count -= run;
        dst += run * info->block_bytes;
    }
    return ZT_OK;
}

/* Reads elements of rows that are divided by their lengths, 1e-12 at least, as torch.nn.functional.normalize does. */
static zt_status read_unit_rows(const hf_tensors *tensors, const hf_tensor *tensor, int64_t first, int64_t count, char *dst)
{
    const zt_dtype_info *from = zt_dtype_get(tensor->from), *to = zt_dtype_get(tensor->type.dtype);
    int64_t width = tensor->type.dim[1];
    size_t size = (size_t)width * (size_t)from->block_bytes;
    float *row = zt_alloc_array(tensors->ctx, (size_t)width, sizeof *row);
    char *raw = zt_alloc(tensors->ctx, size);
    zt_status status = row && raw ? ZT_OK : ZT_ENOMEM;
    while (status == ZT_OK && count > 0) {
        int64_t number = first / width, column = first % width, run = width - column < count ? width - column : count;
        double sum = 0;
        status = zt_checkpoint_read(tensors->from, tensor->source, (size_t)number * size, raw, size);
        if (status != ZT_OK) break;
        from->decode(raw, row, width);
        for (int64_t i = 0; i < width; i++) sum += (double)row[i] * (double)row[i];
        double length = fmax(sqrt(sum), 1e-12);
        for (int64_t i = 0; i < width; i++) row[i] = (float)((double)row[i] / length);
        to->encode(row + column, dst, run);
        first += run;
        count -= run;
        dst += (size_t)run * (size_t)to->block_bytes;
    }
    zt_free(tensors->ctx, raw);
    zt_free(tensors->ctx, row);
    return status;
}

/* Reads elements of a tensor that is longer than its source. */
static zt_status read_padded(const hf_tensors *tensors, const hf_tensor *tensor, int64_t first, int64_t count, char *dst)
{
    size_t element_size = (size_t)zt_dtype_get(tensor->type.dtype)->block_bytes;
    int64_t given = tensor->given - first < 0 ? 0 : tensor->given - first < count ? tensor->given - first : count;
    memset(dst + (size_t)given * element_size, 0, (size_t)(count - given) * element_size);
    return given ? read_elements(tensors, tensor, first, given, dst) : ZT_OK;
}

static zt_status read_whole(const hf_tensors *tensors, const hf_tensor *tensor, int64_t first, int64_t count, char *dst)
{
    if (tensor->given) return read_padded(tensors, tensor, first, count, dst);
    if (tensor->from == ZT_U8) return zt_hf_read_mxfp4(tensors, tensor, first, count, dst);
    if (tensor->unit_rows) return read_unit_rows(tensors, tensor, first, count, dst);
    if (tensor->rows) return read_rows(tensors, tensor, first, count, dst);
    if (tensor->in_turns) return read_in_turns(tensors, tensor, first, count, dst);
    if (tensor->order) return read_ordered(tensors, tensor, first, count, dst);
    return tensor->heads ? read_paired(tensors, tensor, first, count, dst) : read_elements(tensors, tensor, first, count, dst);
}

/* Reads bytes. They need not be whole elements: an element that is cut at either end goes through a buffer. */
static zt_status read_bytes(const hf_tensors *tensors, const hf_tensor *tensor, size_t offset, char *dst, size_t size)
{
    size_t element_size = (size_t)zt_dtype_get(tensor->type.dtype)->block_bytes;
    char element[32];
    while (size > 0) {
        size_t skip = offset % element_size, piece = element_size - skip < size ? element_size - skip : size;
        int64_t first = (int64_t)(offset / element_size);
        zt_status status;
        if (skip == 0 && size >= element_size) {
            piece = size - size % element_size;
            status = read_whole(tensors, tensor, first, (int64_t)(piece / element_size), dst);
        } else {
            status = read_whole(tensors, tensor, first, 1, element);
            memcpy(dst, element + skip, piece);
        }
        if (status != ZT_OK) return status;
        offset += piece;
        dst += piece;
        size -= piece;
    }
    return ZT_OK;
}

static zt_status store_read(void *user, int64_t handle, size_t offset, void *dst, size_t size)
{
    const hf_tensors *tensors = user;
    size_t end;
    if (handle < 0 || handle >= tensors->count)
        return zt_fail(tensors->ctx, ZT_EUSAGE, "%s: tensor index %" PRId64 " is out of range", tensors->name, handle);
    const hf_tensor *tensor = &tensors->list[handle];
    if (!zt_add_size(offset, size, &end) || end > zt_type_bytes(&tensor->type))
        return zt_fail(tensors->ctx, ZT_EUSAGE, "%s: tensor '%s': a read of %zu bytes at offset %zu is out of range",
                       tensors->name, tensor->name, size, offset);
    if (size == 0) return ZT_OK;
    if (tensor->values) {
        memcpy(dst, (const char *)tensor->values + offset, size);
        return ZT_OK;
    }
    return tensor->transposed ? read_transposed(tensors, handle, offset, dst, size)
                              : read_bytes(tensors, tensor, offset, dst, size);
}

static zt_status store_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    const hf_tensors *tensors = user;
    for (int64_t i = 0; i < tensors->count; i++) {
        if (strcmp(tensors->list[i].name, name) == 0) {
            *type = tensors->list[i].type;
            *handle = i;
            return ZT_OK;
        }
    }
    return ZT_ENOENT;
}

zt_store zt_hf_tensors_store(hf_tensors *tensors) { return (zt_store){.user = tensors, .find = store_find, .read = store_read}; }
