/* hf_quantized.c - which tensors of a quantized Hugging Face model are one matrix, and a checkpoint that has, in their place,
 * NAME.weight in floats, or in a block type that holds the same values.
 *
 * Names and shapes as facts: compressed_tensors/compressors, AutoAWQ's WQLinear_GEMM, GPTQModel's qlinear.
 */
#include "lib/llm/hf/hf_quantized.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A tensor of the new checkpoint: one of the old, or a matrix. */
typedef struct quantized_tensor {
    int64_t source; /* -1: the matrix */
    hf_matrix matrix;
} quantized_tensor;

typedef struct quantized_model {
    zt_ctx *ctx;
    zt_checkpoint *from;
    zt_arena *arena;
    zt_entry *entries; /* [count] */
    quantized_tensor *tensors;
    int64_t count;
    hf_dequantizer *dequantizer;
    hf_quantization quantization;
} quantized_model;

/* ---- the parts of a matrix ------------------------------------------------------------------- */

/* Names behind the module's that hold codes, and those that belong to them. */
static const char *const code_names[] = {"weight", "weight_packed", "qweight"};
static const char *const part_names[] = {
    "weight_scale", "weight_scale_inv", "weight_zero_point", "weight_shape", "weight_global_scale", "qzeros", "scales", "g_idx"};
/* Of activations and caches: not read. */
static const char *const unread_names[] = {
    "input_scale", "input_zero_point", "input_global_scale", "output_scale", "output_zero_point", "activation_scale", "q_scale",
    "k_scale",     "v_scale",          "q_zero_point",       "k_zero_point", "v_zero_point"};

static bool ends_so(const char *name, const char *const *list, size_t count)
{
    const char *point = strrchr(name, '.');
    for (size_t i = 0; point && i < count; i++)
        if (strcmp(point + 1, list[i]) == 0) return true;
    return false;
}

#define ENDS_IN(name, list) ends_so(name, list, sizeof(list) / sizeof *(list))

/* The tensor of this name of the module; -1: there is none. `stem`: a name of the module, up to its last point. */
static int64_t find_part(const quantized_model *model, const char *stem, const char *part)
{
    zt_str name;
    zt_str_init(&name, model->ctx);
    size_t length = (size_t)(strrchr(stem, '.') - stem) + 1;
    bool made = zt_str_put(&name, stem, length) == ZT_OK && zt_str_puts(&name, part) == ZT_OK;
    int64_t index = made ? zt_checkpoint_find(model->from, name.data) : -1;
    zt_str_fini(&name);
    return index;
}

static zt_status refuse_missing(const quantized_model *model, const char *stem, const char *part)
{
    char text[160];
    return zt_fail(model->ctx, ZT_EDATA, "%s: tensor '%s' has no tensor '%s' beside it", zt_checkpoint_name(model->from),
                   zt_escape(text, sizeof text, stem, strlen(stem)), part);
}

static zt_status refuse_type(const quantized_model *model, int64_t index, const char *expected)
{
    char text[160], type_text[ZT_TYPE_TEXT];
    zt_entry entry;
    zt_checkpoint_get(model->from, index, &entry);
    bool known = entry.type.rank >= 0 && entry.type.dtype < ZT_DTYPE_COUNT;
    return zt_fail(model->ctx, ZT_EDATA, "%s: tensor '%s' is %s, expected %s", zt_checkpoint_name(model->from),
                   zt_escape(text, sizeof text, entry.name, strlen(entry.name)),
                   known ? zt_type_text(&entry.type, type_text) : entry.dtype, expected);
}

/* The tensor, of this dtype and with these dimensions (0: any of at least 1). */
static zt_status check_part(const quantized_model *model, int64_t index, zt_dtype dtype, int64_t rows, int64_t columns)
{
    zt_entry entry;
    char expected[100];
    zt_checkpoint_get(model->from, index, &entry);
    const int64_t *dim = entry.type.dim;
    bool fits = entry.type.rank == 2 && entry.type.dtype == dtype && (rows ? dim[0] == rows : dim[0] >= 1) &&
                (columns ? dim[1] == columns : dim[1] >= 1);
    if (fits) return ZT_OK;
    char sizes[2][24] = {"R", "C"};
    if (rows) snprintf(sizes[0], sizeof sizes[0], "%" PRId64, rows);
    if (columns) snprintf(sizes[1], sizeof sizes[1], "%" PRId64, columns);
    snprintf(expected, sizeof expected, "%s[%s,%s]", zt_dtype_get(dtype)->name, sizes[0], sizes[1]);
    return refuse_type(model, index, expected);
}

static int64_t divide_up(int64_t size, int64_t by) { return size / by + (size % by != 0); }

/* ---- blocks and scales ----------------------------------------------------------------------- */

/* How many blocks there are, of the scheme's or (0) of all rows or columns. */
static zt_status count_blocks(const quantized_model *model, hf_matrix *matrix)
{
    hf_scheme *scheme = &matrix->scheme;
    if (!scheme->block_rows || scheme->block_rows > matrix->rows) scheme->block_rows = matrix->rows;
    if (!scheme->block_columns) scheme->block_columns = matrix->columns;
    if (!scheme->padded && matrix->columns % scheme->block_columns != 0) {
        char text[160];
        zt_entry entry;
        zt_checkpoint_get(model->from, matrix->codes, &entry);
        return zt_fail(model->ctx, ZT_EDATA, "%s: tensor '%s' has %" PRId64 " columns, which groups of %" PRId64 " do not divide",
                       zt_checkpoint_name(model->from), zt_escape(text, sizeof text, entry.name, strlen(entry.name)),
                       matrix->columns, scheme->block_columns);
    }
    matrix->scale_rows = divide_up(matrix->rows, scheme->block_rows);
    matrix->scale_columns = divide_up(matrix->columns, scheme->block_columns);
    return ZT_OK;
}

/* Scales of one of these dtypes, [rows, columns] of blocks; where one of both is 1, a vector too. */
static zt_status check_scales(const quantized_model *model, hf_matrix *matrix, const zt_dtype *dtypes, size_t count)
{
    char expected[100];
    zt_entry entry;
    zt_checkpoint_get(model->from, matrix->scales, &entry);
    const zt_type *type = &entry.type;
    int64_t rows = matrix->scale_rows, columns = matrix->scale_columns;
    bool fits = (type->rank == 2 && type->dim[0] == rows && type->dim[1] == columns) ||
                (type->rank == 1 && ((rows == 1 && type->dim[0] == columns) || (columns == 1 && type->dim[0] == rows))) ||
                (type->rank == 0 && rows == 1 && columns == 1);
    bool known = false;
    for (size_t i = 0; i < count; i++) known = known || type->dtype == dtypes[i];
    matrix->scale_dtype = type->dtype;
    if (fits && known) return ZT_OK;
    snprintf(expected, sizeof expected, "%s[%" PRId64 ",%" PRId64 "]%s", zt_dtype_get(dtypes[0])->name, rows, columns,
             known ? "" : " or the like");
    return refuse_type(model, matrix->scales, expected);
}

static const zt_dtype float_dtypes[] = {ZT_BF16, ZT_F16, ZT_F32, ZT_F8_E8M0, ZT_U8};
enum { USUAL_FLOATS = 3, ALL_FLOATS = 5 };

/* ---- zeros and scales that say something else than the configuration ------------------------- */

static zt_status refuse_values(const quantized_model *model, int64_t index, const char *found, const char *expected)
{
    char text[160];
    zt_entry entry;
    zt_checkpoint_get(model->from, index, &entry);
    return zt_fail(model->ctx, ZT_EDATA, "%s: tensor '%s' has %s, expected %s", zt_checkpoint_name(model->from),
                   zt_escape(text, sizeof text, entry.name, strlen(entry.name)), found, expected);
}

/* Zero points of symmetric weights, where a file has them: all in the middle of the codes' range, `middle` in each of the first
 * `size` bytes, which have no padding. */
static zt_status check_symmetric(const quantized_model *model, const char *name, uint8_t middle, uint64_t size)
{
    int64_t index = find_part(model, name, "weight_zero_point");
    zt_entry entry;
    uint8_t bytes[512];
    zt_status status = ZT_OK;
    if (index < 0) return ZT_OK;
    zt_checkpoint_get(model->from, index, &entry);
    if (size > entry.bytes) size = entry.bytes;
    for (uint64_t at = 0; at < size && status == ZT_OK; at += sizeof bytes) {
        size_t count = size - at < sizeof bytes ? (size_t)(size - at) : sizeof bytes;
        status = zt_checkpoint_read(model->from, index, at, bytes, count);
        for (size_t i = 0; i < count && status == ZT_OK; i++)
            if (bytes[i] != middle)
                status =
                    refuse_values(model, index, "zero points other than 0", "none, as config.json calls the weights symmetric");
    }
    return status;
}

/* Scales are divided by it. */
static zt_status check_global(const quantized_model *model, int64_t index)
{
    float global = 0;
    char found[40];
    zt_status status = zt_checkpoint_read(model->from, index, 0, &global, sizeof global);
    if (status != ZT_OK || (global > 0 && isfinite(global))) return status;
    snprintf(found, sizeof found, "the value %g", (double)global);
    return refuse_values(model, index, found, "a finite number above 0");
}

/* ---- layouts --------------------------------------------------------------------------------- */

static zt_status plan_plain(const quantized_model *model, const char *name, hf_matrix *matrix)
{
    zt_entry entry;
    const hf_scheme *scheme = &matrix->scheme;
    zt_checkpoint_get(model->from, matrix->codes, &entry);
    matrix->code_dtype = entry.type.dtype;
    bool floating = entry.type.dtype == ZT_F8_E4M3 || entry.type.dtype == ZT_F8_E5M2;
    if (entry.type.rank != 2 || (scheme->floating ? !floating : entry.type.dtype != ZT_I8) || entry.type.dim[0] < 1 ||
        entry.type.dim[1] < 1)
        return refuse_type(model, matrix->codes, scheme->floating ? "f8_e4m3[R,C]" : "i8[R,C]");
    matrix->rows = entry.type.dim[0];
    matrix->columns = entry.type.dim[1];
    zt_status status = count_blocks(model, matrix);
    matrix->scales = find_part(model, name, scheme->scales);
    if (status == ZT_OK && matrix->scales < 0) return refuse_missing(model, name, scheme->scales);
    if (status == ZT_OK) status = check_scales(model, matrix, float_dtypes, scheme->floating ? ALL_FLOATS : USUAL_FLOATS);
    if (status != ZT_OK) return status;
    if (scheme->symmetric) return check_symmetric(model, name, 0, UINT64_MAX);
    matrix->zeros = find_part(model, name, "weight_zero_point");
    matrix->zero_dtype = ZT_I8;
    if (matrix->zeros < 0) return refuse_missing(model, name, "weight_zero_point");
    zt_checkpoint_get(model->from, matrix->zeros, &entry);
    bool single = entry.type.rank == 1 && entry.type.dim[0] == matrix->scale_rows && matrix->scale_columns == 1;
    if (single && entry.type.dtype == ZT_I8) return ZT_OK;
    return check_part(model, matrix->zeros, ZT_I8, matrix->scale_rows, matrix->scale_columns);
}

/* The shape that weight_shape holds. */
static zt_status read_shape(const quantized_model *model, const char *name, hf_matrix *matrix)
{
    zt_entry entry;
    union {
        int64_t wide[2];
        int32_t narrow[2];
    } shape;
    int64_t index = find_part(model, name, "weight_shape");
    if (index < 0) return refuse_missing(model, name, "weight_shape");
    zt_checkpoint_get(model->from, index, &entry);
    bool wide = entry.type.dtype == ZT_I64;
    if (entry.type.rank != 1 || entry.type.dim[0] != 2 || !(wide || entry.type.dtype == ZT_I32))
        return refuse_type(model, index, "i64[2]");
    zt_status status = zt_checkpoint_read(model->from, index, 0, &shape, wide ? sizeof shape.wide : sizeof shape.narrow);
    if (status != ZT_OK) return status;
    matrix->rows = wide ? shape.wide[0] : shape.narrow[0];
    matrix->columns = wide ? shape.wide[1] : shape.narrow[1];
    if (matrix->rows >= 1 && matrix->columns >= 1 && matrix->rows <= INT32_MAX && matrix->columns <= INT32_MAX) return ZT_OK;
    char text[160];
    return zt_fail(model->ctx, ZT_EDATA, "%s: tensor '%s' is %" PRId64 " by %" PRId64 ", expected 1 to 2147483647",
                   zt_checkpoint_name(model->from), zt_escape(text, sizeof text, entry.name, strlen(entry.name)), matrix->rows,
                   matrix->columns);
}

static int64_t word_count(int64_t codes, int bits) { return divide_up(codes * bits, 32); }

/* A byte of codes that are all in the middle of their range. */
static uint8_t packed_middle(int bits) { return bits == 2 ? 0xaa : bits == 4 ? 0x88 : 0x80; }

static zt_status plan_packed(const quantized_model *model, const char *name, hf_matrix *matrix)
{
    const hf_scheme *scheme = &matrix->scheme;
    zt_status status = read_shape(model, name, matrix);
    if (status == ZT_OK)
        status = check_part(model, matrix->codes, ZT_I32, matrix->rows, word_count(matrix->columns, scheme->bits));
    if (status == ZT_OK) status = count_blocks(model, matrix);
    if (status != ZT_OK) return status;
    matrix->scales = find_part(model, name, "weight_scale");
    if (matrix->scales < 0) return refuse_missing(model, name, "weight_scale");
    status = check_scales(model, matrix, float_dtypes, USUAL_FLOATS);
    if (status != ZT_OK) return status;
    if (scheme->symmetric)
        return check_symmetric(model, name, packed_middle(scheme->bits),
                               (uint64_t)(matrix->rows * scheme->bits / 32 * 4 * matrix->scale_columns));
    matrix->zeros = find_part(model, name, "weight_zero_point");
    matrix->zero_dtype = ZT_I32;
    if (matrix->zeros < 0) return refuse_missing(model, name, "weight_zero_point");
    if (scheme->block_rows != 1) return refuse_type(model, matrix->zeros, "no zeros of a whole tensor");
    return check_part(model, matrix->zeros, ZT_I32, word_count(matrix->rows, scheme->bits), matrix->scale_columns);
}

static zt_status plan_four_bits(const quantized_model *model, const char *name, hf_matrix *matrix)
{
    static const zt_dtype fine[] = {ZT_F8_E4M3}, exponent[] = {ZT_U8, ZT_F8_E8M0};
    bool nv = matrix->scheme.layout == HF_NVFP4;
    zt_entry entry;
    zt_status status = check_part(model, matrix->codes, ZT_U8, 0, 0);
    if (status != ZT_OK) return status;
    zt_checkpoint_get(model->from, matrix->codes, &entry);
    matrix->rows = entry.type.dim[0];
    matrix->columns = entry.type.dim[1];
    if (matrix->columns > INT64_MAX / 4) return refuse_type(model, matrix->codes, "a matrix that fits memory");
    matrix->columns *= 2;
    status = count_blocks(model, matrix);
    if (status != ZT_OK) return status;
    matrix->scales = find_part(model, name, "weight_scale");
    if (matrix->scales < 0) return refuse_missing(model, name, "weight_scale");
    status = nv ? check_scales(model, matrix, fine, 1) : check_scales(model, matrix, exponent, 2);
    if (status != ZT_OK || !nv) return status;
    matrix->global = find_part(model, name, "weight_global_scale");
    if (matrix->global < 0) return refuse_missing(model, name, "weight_global_scale");
    zt_checkpoint_get(model->from, matrix->global, &entry);
    bool one = entry.type.dtype == ZT_F32 && (entry.type.rank == 0 || (entry.type.rank == 1 && entry.type.dim[0] == 1));
    return one ? check_global(model, matrix->global) : refuse_type(model, matrix->global, "f32[1]");
}

/* Zeros and scales of GPTQ and AWQ: a row for each group. */
static zt_status plan_groups(const quantized_model *model, const char *name, hf_matrix *matrix)
{
    const hf_scheme *scheme = &matrix->scheme;
    zt_entry entry;
    zt_status status = count_blocks(model, matrix);
    if (status != ZT_OK) return status;
    matrix->scales = find_part(model, name, "scales");
    if (matrix->scales < 0) return refuse_missing(model, name, "scales");
    zt_checkpoint_get(model->from, matrix->scales, &entry);
    matrix->scale_dtype = entry.type.dtype;
    bool known = entry.type.dtype == ZT_BF16 || entry.type.dtype == ZT_F32;
    status = check_part(model, matrix->scales, known ? entry.type.dtype : ZT_F16, matrix->scale_columns, matrix->rows);
    if (status != ZT_OK) return status;
    matrix->zeros = find_part(model, name, "qzeros");
    matrix->zero_dtype = ZT_I32;
    if (matrix->zeros < 0) return scheme->symmetric ? ZT_OK : refuse_missing(model, name, "qzeros");
    return check_part(model, matrix->zeros, ZT_I32, matrix->scale_columns, word_count(matrix->rows, scheme->bits));
}

static zt_status plan_gptq(const quantized_model *model, const char *name, hf_matrix *matrix)
{
    zt_entry entry;
    zt_status status = check_part(model, matrix->codes, ZT_I32, 0, 0);
    if (status != ZT_OK) return status;
    zt_checkpoint_get(model->from, matrix->codes, &entry);
    /* so many words hold so many codes */
    const bool three = matrix->scheme.bits == 3;
    const int words = three ? 3 : 1, each = three ? 32 : 32 / matrix->scheme.bits;
    if (entry.type.dim[0] > INT32_MAX / each) return refuse_type(model, matrix->codes, "fewer rows");
    if (entry.type.dim[0] % words != 0) return refuse_type(model, matrix->codes, "rows in threes, for codes of 3 bits");
    matrix->columns = entry.type.dim[0] / words * each;
    matrix->rows = entry.type.dim[1];
    if (matrix->rows % each != 0) return refuse_type(model, matrix->codes, "columns that fill words of 32 bits");
    matrix->groups = find_part(model, name, "g_idx");
    if (matrix->groups < 0 && matrix->scheme.ordered) return refuse_missing(model, name, "g_idx");
    if (matrix->groups >= 0) {
        zt_checkpoint_get(model->from, matrix->groups, &entry);
        if (entry.type.rank != 1 || entry.type.dtype != ZT_I32 || entry.type.dim[0] != matrix->columns) {
            char expected[40];
            snprintf(expected, sizeof expected, "i32[%" PRId64 "]", matrix->columns);
            return refuse_type(model, matrix->groups, expected);
        }
    }
    return plan_groups(model, name, matrix);
}

static zt_status plan_awq(const quantized_model *model, const char *name, hf_matrix *matrix)
{
    zt_entry entry;
    zt_status status = check_part(model, matrix->codes, ZT_I32, 0, 0);
    if (status != ZT_OK) return status;
    zt_checkpoint_get(model->from, matrix->codes, &entry);
    if (entry.type.dim[0] > INT32_MAX || entry.type.dim[1] > INT32_MAX / 8) return refuse_type(model, matrix->codes, "less");
    matrix->columns = entry.type.dim[0];
    matrix->rows = entry.type.dim[1] * 8;
    return plan_groups(model, name, matrix);
}

static zt_status (*const plans[])(const quantized_model *model, const char *name, hf_matrix *matrix) = {
    [HF_PLAIN] = plan_plain,     [HF_PACKED] = plan_packed, [HF_NVFP4] = plan_four_bits,
    [HF_MXFP4] = plan_four_bits, [HF_GPTQ] = plan_gptq,     [HF_AWQ] = plan_awq};

/* Is it a type that only codes have? */
static bool holds_codes(const quantized_model *model, int64_t index)
{
    zt_entry entry;
    zt_checkpoint_get(model->from, index, &entry);
    return entry.type.dtype == ZT_F8_E4M3 || entry.type.dtype == ZT_F8_E5M2 || entry.type.dtype == ZT_I8;
}

/* Has a module, by the name of its codes, the tensors of the scheme's layout? */
static bool has_layout(const quantized_model *model, const hf_scheme *scheme, int64_t index, const char *name)
{
    static const char *const codes[] = {[HF_PLAIN] = "weight",        [HF_PACKED] = "weight_packed", [HF_NVFP4] = "weight_packed",
                                        [HF_MXFP4] = "weight_packed", [HF_GPTQ] = "qweight",         [HF_AWQ] = "qweight"};
    const char *end = strrchr(name, '.') + 1;
    return strcmp(end, codes[scheme->layout]) == 0 &&
           (scheme->layout != HF_PLAIN || holds_codes(model, index) || find_part(model, name, scheme->scales) >= 0);
}

static zt_dtype value_dtype(const hf_matrix *matrix)
{
    if (matrix->scheme.layout == HF_MXFP4) return ZT_MXFP4;
    if (matrix->scheme.dtype != ZT_DTYPE_COUNT) return matrix->scheme.dtype;
    bool exponent = matrix->scale_dtype == ZT_F8_E8M0 || matrix->scale_dtype == ZT_U8;
    return matrix->scheme.layout == HF_NVFP4 || exponent ? ZT_BF16 : matrix->scale_dtype;
}

/* Have both the same values? */
static bool same_matrix(const hf_matrix *left, const hf_matrix *right)
{
    const hf_scheme *a = &left->scheme, *b = &right->scheme;
    return a->layout == b->layout && a->bits == b->bits && a->offset == b->offset && a->block_rows == b->block_rows &&
           a->block_columns == b->block_columns && left->zeros == right->zeros && left->scales == right->scales &&
           left->dtype == right->dtype;
}

/* Plans the matrix by the scheme that fits; of several schemes those that do not fit say so only if none does. Schemes that
 * both fit must mean the same. */
static zt_status plan_matrix(const quantized_model *model, int64_t index, const char *name, hf_matrix *matrix, bool *found)
{
    int fitting = 0, tried = 0;
    for (int i = 0; i < model->quantization.count; i++) tried += has_layout(model, &model->quantization.scheme[i], index, name);
    *found = tried > 0;
    for (int i = 0; i < model->quantization.count; i++) {
        const hf_scheme *scheme = &model->quantization.scheme[i];
        if (!has_layout(model, scheme, index, name)) continue;
        hf_matrix planned = {.scheme = *scheme, .codes = index, .scales = -1, .zeros = -1, .groups = -1, .global = -1};
        zt_status status = plans[scheme->layout](model, name, &planned);
        tried--;
        if (status != ZT_OK && (tried > 0 || fitting > 0) && (status == ZT_EDATA || status == ZT_ENOTSUP)) {
            zt_ctx_clear(model->ctx);
            continue;
        }
        if (status != ZT_OK) return status;
        planned.dtype = value_dtype(&planned);
        if (fitting++ > 0 && !same_matrix(&planned, matrix)) {
            char text[160];
            return zt_fail(model->ctx, ZT_ENOTSUP, "%s: tensor '%s' fits several config_groups of config.json, which differ",
                           zt_checkpoint_name(model->from), zt_escape(text, sizeof text, name, strlen(name)));
        }
        *matrix = planned;
    }
    return ZT_OK;
}

/* ---- the checkpoint -------------------------------------------------------------------------- */

static zt_status add_matrix(quantized_model *model, const char *name, const hf_matrix *matrix)
{
    zt_entry *entry = &model->entries[model->count];
    size_t length = (size_t)(strrchr(name, '.') - name) + 1, bytes;
    char *own = zt_arena_alloc(model->arena, length + sizeof "weight");
    if (!own) return ZT_ENOMEM;
    memcpy(own, name, length);
    memcpy(own + length, "weight", sizeof "weight");
    *entry = (zt_entry){.name = own, .dtype = zt_dtype_get(matrix->dtype)->name};
    entry->type = zt_type_make(matrix->dtype, 2, (int64_t[]){matrix->rows, matrix->columns});
    if (!zt_type_check(model->ctx, &entry->type, &bytes)) return zt_ctx_status(model->ctx);
    entry->bytes = bytes;
    model->tensors[model->count++] = (quantized_tensor){.source = -1, .matrix = *matrix};
    return ZT_OK;
}

/* A part of a matrix; its codes must be there. */
static zt_status check_owner(const quantized_model *model, const char *name)
{
    char text[160];
    for (size_t i = 0; i < sizeof code_names / sizeof *code_names; i++)
        if (find_part(model, name, code_names[i]) >= 0) return ZT_OK;
    return zt_fail(model->ctx, ZT_EDATA, "%s: tensor '%s' has no weight beside it", zt_checkpoint_name(model->from),
                   zt_escape(text, sizeof text, name, strlen(name)));
}

static zt_status add_quantized(quantized_model *model, int64_t index)
{
    zt_entry entry;
    hf_matrix matrix = {.rows = 0};
    bool found = false;
    zt_checkpoint_get(model->from, index, &entry);
    if (ENDS_IN(entry.name, unread_names)) return ZT_OK;
    if (ENDS_IN(entry.name, part_names)) return check_owner(model, entry.name);
    if (ENDS_IN(entry.name, code_names)) {
        zt_status status = plan_matrix(model, index, entry.name, &matrix, &found);
        if (status != ZT_OK) return status;
    }
    if (found) return add_matrix(model, entry.name, &matrix);
    model->entries[model->count] = entry;
    model->tensors[model->count++] = (quantized_tensor){.source = index};
    return ZT_OK;
}

static zt_status read_tensor(void *user, int64_t i, uint64_t offset, void *dst, size_t size)
{
    quantized_model *model = user;
    const quantized_tensor *tensor = &model->tensors[i];
    if (tensor->source >= 0) return zt_checkpoint_read(model->from, tensor->source, offset, dst, size);
    return zt_hf_dequantize(model->dequantizer, &tensor->matrix, i, offset, dst, size);
}

static void release_model(void *user)
{
    quantized_model *model = user;
    zt_hf_dequantizer_free(model->dequantizer);
    zt_free(model->ctx, model->entries);
    zt_free(model->ctx, model->tensors);
    zt_arena_free(model->arena);
    zt_checkpoint_close(model->from);
    zt_free(model->ctx, model);
}

static zt_status plan_model(quantized_model *model)
{
    size_t count = (size_t)zt_checkpoint_count(model->from);
    model->arena = zt_arena_new(model->ctx, 0);
    model->entries = zt_alloc_array(model->ctx, count, sizeof *model->entries);
    model->tensors = zt_alloc_array(model->ctx, count, sizeof *model->tensors);
    model->dequantizer = zt_hf_dequantizer_new(model->ctx, model->from);
    if (!model->arena || !model->entries || !model->tensors || !model->dequantizer) return ZT_ENOMEM;
    zt_status status = ZT_OK;
    for (int64_t i = 0; status == ZT_OK && i < (int64_t)count; i++) status = add_quantized(model, i);
    return status;
}

zt_status zt_hf_open_quantized(hf_import *import)
{
    hf_quantization quantization;
    zt_checkpoint *from = import->tensors->from;
    zt_status status = zt_hf_read_quantization(import, &quantization);
    if (status != ZT_OK || quantization.count == 0 || !from) return status;
    quantized_model *model = zt_calloc(import->ctx, 1, sizeof *model);
    if (!model) return ZT_ENOMEM;
    *model = (quantized_model){.ctx = import->ctx, .from = from, .quantization = quantization};
    import->tensors->from = NULL; /* the model has it */
    status = plan_model(model);
    if (status != ZT_OK) {
        release_model(model);
        return status;
    }
    zt_made made = {.name = zt_checkpoint_name(from),
                    .container = zt_checkpoint_container(from),
                    .entries = model->entries,
                    .count = model->count,
                    .meta = zt_checkpoint_meta(from),
                    .user = model,
                    .read = read_tensor,
                    .release = release_model};
    import->tensors->from = zt_checkpoint_of_made(import->ctx, &made);
    return import->tensors->from ? ZT_OK : zt_ctx_status(import->ctx);
}
