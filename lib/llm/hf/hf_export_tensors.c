/* hf_export_tensors.c - writes model.safetensors: names, shapes and dtypes first, then the values in
 * GGUF's order, with what the converter did to them undone.
 *
 * Memory: pieces of a mebibyte, and one matrix that is transposed. */
#include "lib/llm/hf/hf_export.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 1 << 20 };

typedef struct output_tensor {
    zt_str name;
    zt_type type, from; /* as written, as stored: of a stacked tensor one expert's matrix */
    unsigned todo;
    int64_t heads;  /* whose rows are apart again; 0: none */
    int64_t groups; /* of q, k and v that are apart in GGUF; 0: none */
    int64_t handle;
    int64_t first_row;   /* of the stored tensor */
    int64_t second;      /* handle of the tensor whose rows follow, matrix by matrix, or take turns; -1: none */
    zt_type second_type; /* of halves by head */
    bool blocks, scales; /* of MXFP4 */
    bool logarithms;     /* of what the values are below 0 */
    const char *gguf;    /* the stored tensor's name */
} output_tensor;

/* ---- what each becomes ----------------------------------------------------------------------- */

/* Tensors whose values are in config.json instead, or in files of their own. */
static bool is_elsewhere(const char *name) { return strncmp(name, "rope_", 5) == 0 || strncmp(name, "dense_", 6) == 0; }

static bool is_mxfp4(const hf_export *export, unsigned todo, const zt_type *type)
{
    return export->mxfp4 && (todo & HF_TURNED) && type->rank == 3;
}

/* The dtype of a tensor as it is written; several biases are a matrix too:
 *
 *   vectors     f32
 *   matrices    the one that is asked for; else the one that they are stored in, and f16 for blocks */
static zt_dtype output_dtype(const hf_export *export, const zt_type *from, bool biases)
{
    bool plain = from->dtype == ZT_F32 || from->dtype == ZT_F16 || from->dtype == ZT_BF16;
    if (from->rank < 2 || biases) return plain ? from->dtype : ZT_F32;
    return export->opts.dtype != ZT_DTYPE_COUNT ? export->opts.dtype : plain ? from->dtype : ZT_F16;
}

/* qwen3next's matrix of q, k, values and gates is two; a filter has a dimension more. */
static zt_status plan_delta(hf_export *export, output_tensor *output)
{
    zt_store store = zt_gguf_store(export->gguf);
    hf_delta_order order;
    zt_type gate;
    char name[ZT_HF_NAME];
    const char *what = strstr(output->gguf, ".attn_qkv");
    if (!(output->todo & HF_DELTA)) return ZT_OK;
    if (output->from.rank == 2 && strstr(output->gguf, ".ssm_conv1d"))
        output->type = zt_type_make(output->type.dtype, 3, (int64_t[]){output->from.dim[0], 1, output->from.dim[1]});
    if (!zt_export_delta_order(export, output->gguf, &order) || order.part != HF_DELTA_NEXT_QKV || !what) return ZT_OK;
    snprintf(name, sizeof name, "%.*s.attn_gate.weight", (int)(what - output->gguf), output->gguf);
    zt_status status = store.find(store.user, name, &gate, &output->second);
    if (status == ZT_OK && gate.dtype != output->from.dtype)
        status = zt_fail(export->ctx, ZT_ENOTSUP, "%s: tensors '%s' and '%s' are of different types, and would be one matrix",
                         export->file, output->gguf, name);
    output->type.dim[0] += gate.dim[0];
    return status;
}

/* One expert's matrix of a stacked tensor; of a first half the whole, with the second half's rows. */
static zt_status plan_parts(hf_export *export, const char *gguf, int64_t expert, output_tensor *output)
{
    zt_store store = zt_gguf_store(export->gguf);
    zt_type *type = &output->from, second;
    output->first_row = 0;
    output->second = -1;
    if ((output->todo & HF_STACKED) && type->rank == 3) {
        output->first_row = expert * type->dim[1];
        *type = zt_type_make(type->dtype, 2, type->dim + 1);
    }
    output->type = *type;
    if (output->todo & HF_RWKV) zt_export_rwkv_type(export, gguf, expert, type, &output->type, &output->first_row);
    if (output->todo & HF_FUSED_QKV) {
        const zt_hyper *hyper = &export->hyper;
        if (export->arch->id == HF_BAICHUAN && hyper->n_kv_heads != hyper->n_heads)
            return zt_fail(export->ctx, ZT_ENOTSUP, "%s: transformers' %s cannot have %lld heads with %lld key heads",
                           export->file, export->arch->type, (long long)hyper->n_heads, (long long)hyper->n_kv_heads);
        output->type.dim[0] = type->dim[0] / hyper->n_heads * (hyper->n_heads + 2 * hyper->n_kv_heads);
    }
    if ((output->todo & HF_FLAT) && type->rank == 1) output->type = zt_type_make(type->dtype, 2, (int64_t[]){1, type->dim[0]});
    if (!(output->todo & HF_FIRST_HALF) || type->rank < 2) return ZT_OK;
    zt_str name;
    zt_str_init(&name, export->ctx);
    zt_status status = zt_hf_second_half(export->ctx, export->arch, gguf, &name);
    if (status == ZT_OK) status = store.find(store.user, name.data, &second, &output->second);
    if (output->todo & HF_HEADS) {
        const zt_hyper *hyper = &export->hyper;
        output->type = zt_type_make(type->dtype, 2, (int64_t[]){hyper->latent.key_values, hyper->latent.rank});
        output->second_type = second;
        zt_str_fini(&name);
        return status;
    }
    if (status == ZT_OK && !zt_type_equal(&second, type))
        status = zt_fail(export->ctx, ZT_ENOTSUP, "%s: tensors '%s' and '%s' are of different types, and would be one matrix",
                         export->file, gguf, name.data);
    output->type.dim[(output->todo & HF_IN_TURNS) && type->rank == 2 ? 1 : type->rank - 2] *= 2;
    zt_str_fini(&name);
    return status;
}

/* Matrices of experts that are transposed there, or (part 0) blocks and (part 1) scales. */
static zt_status plan_turned(const hf_export *export, int64_t part, output_tensor *output)
{
    const int64_t *dim = output->type.dim, experts = dim[0], rows = dim[1], columns = dim[2];
    output->blocks = output->scales = false;
    if (!(output->todo & HF_TURNED) || output->from.rank != 3) return ZT_OK;
    output->type = zt_type_make(output->type.dtype, 3, (int64_t[]){experts, columns, rows});
    if (!is_mxfp4(export, output->todo, &output->from)) return ZT_OK;
    const zt_dtype_info *info = zt_dtype_get(ZT_MXFP4);
    output->blocks = part == 0;
    output->scales = part == 1;
    output->type =
        zt_type_make(ZT_U8, output->blocks ? 4 : 3, (int64_t[]){experts, rows, columns / info->block, info->block / 2});
    return zt_str_puts(&output->name, output->blocks ? "_blocks" : "_scales");
}

/* Tensors that a tensor becomes: as many as it has experts, or none where it is written with another. */
static int64_t output_count(hf_export *export, int64_t index)
{
    unsigned todo = 0;
    zt_type type;
    zt_str name;
    const char *gguf = zt_gguf_tensor(export->gguf, index, &type, NULL, NULL);
    if (HF_SET(export->arch->id) & HF_RWKVS) return zt_export_rwkv_count(export, gguf);
    if (is_elsewhere(gguf) || (export->arch->id == HF_QWEN3NEXT && strstr(gguf, ".attn_gate."))) return 0;
    zt_str_init(&name, export->ctx);
    zt_status status = zt_hf_export_name(export->ctx, export->arch, gguf, 0, &name, &todo);
    zt_str_fini(&name);
    if (status != ZT_OK) return 1; /* which says why it cannot be */
    if (todo & HF_SECOND_HALF) return 0;
    return is_mxfp4(export, todo, &type) ? 2 : todo & HF_STACKED && type.rank == 3 ? type.dim[0] : 1;
}

static zt_status plan_tensor(hf_export *export, int64_t index, int64_t expert, output_tensor *output)
{
    const char *name = zt_gguf_tensor(export->gguf, index, &output->from, NULL, NULL);
    zt_store store = zt_gguf_store(export->gguf);
    zt_status status = zt_hf_export_name(export->ctx, export->arch, name, expert, &output->name, &output->todo);
    if (status == ZT_OK) status = zt_export_name_further(export, &output->name);
    output->gguf = name;
    if (status == ZT_OK) status = store.find(store.user, name, &output->from, &output->handle);
    if (status == ZT_OK) status = plan_parts(export, name, expert, output);
    if (status != ZT_OK) return status;
    output->type.dtype = output_dtype(export, &output->from, (output->todo & HF_BARE) && output->from.rank == 2);
    status = plan_delta(export, output);
    output->logarithms = (output->todo & HF_MIXER) && zt_export_mixer_type(output->gguf, &output->from, &output->type);
    if (status == ZT_OK) status = plan_turned(export, expert, output);
    output->heads = output->groups = 0;
    if (output->todo & HF_GROUPED) {
        output->heads = export->hyper.n_heads;
        output->groups = export->hyper.n_kv_heads;
    }
    if ((output->todo & (HF_PAIR_Q | HF_PAIR_K)) && (HF_SET(export->arch->id) & HF_PAIRED))
        output->heads = output->todo & HF_PAIR_Q ? export->hyper.n_heads : export->hyper.n_kv_heads;
    if (output->from.rank != 2) output->todo &= ~(unsigned)HF_TRANSPOSE;
    if (!(HF_SET(export->arch->id) & HF_ADD_ONE)) output->todo &= ~(unsigned)HF_NORM;
    if (output->todo & HF_TRANSPOSE) {
        output->type.dim[0] = output->from.dim[1];
        output->type.dim[1] = output->from.dim[0];
    }
    return status;
}

/* ---- the header ------------------------------------------------------------------------------ */

static const char *dtype_name(zt_dtype dtype)
{
    return dtype == ZT_U8 ? "U8" : dtype == ZT_F16 ? "F16" : dtype == ZT_BF16 ? "BF16" : "F32";
}

static zt_status put_entry(zt_str *head, const output_tensor *output, uint64_t offset)
{
    char text[200];
    int length = 0;
    for (int dim = 0; dim < output->type.rank; dim++)
        length += snprintf(text + length, sizeof text - (size_t)length, dim ? ",%" PRId64 : "%" PRId64, output->type.dim[dim]);
    return zt_str_printf(head, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                         output->name.data, dtype_name(output->type.dtype), text, offset, offset + zt_type_bytes(&output->type));
}

static zt_status make_header(hf_export *export, output_tensor *output, zt_str *head)
{
    uint64_t offset = 0, header_size;
    zt_status status = zt_str_put(head, "\0\0\0\0\0\0\0\0", 8);
    if (status == ZT_OK) status = zt_str_puts(head, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int64_t i = 0; status == ZT_OK && i < zt_gguf_n_tensors(export->gguf); i++) {
        int64_t count = output_count(export, i);
        for (int64_t expert = 0; status == ZT_OK && expert < count; expert++) {
            status = plan_tensor(export, i, expert, output);
            if (status == ZT_OK) status = put_entry(head, output, offset);
            offset += zt_type_bytes(&output->type);
        }
    }
    for (int64_t i = 0; status == ZT_OK && i < zt_export_constants(export); i++, offset += sizeof(float)) {
        float value;
        output->type = zt_type_make(ZT_F32, 1, (int64_t[]){1});
        status = zt_export_constant(export, i, &output->name, &value);
        if (status == ZT_OK) status = put_entry(head, output, offset);
    }
    if (status == ZT_OK) status = zt_str_putc(head, '}');
    while (status == ZT_OK && head->len % 8) status = zt_str_putc(head, ' ');
    header_size = head->len - 8;
    for (int i = 0; status == ZT_OK && i < 8; i++) head->data[i] = (char)(header_size >> 8 * i);
    return status;
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct tensor_writer {
    hf_export *export;
    zt_store store;
    zt_sink *sink;
    char *raw, *bytes; /* PIECE or one row, whichever is more */
    float *value;
    size_t raw_room, values_room;
} tensor_writer;

static zt_status grow_buffers(tensor_writer *writer, size_t raw, size_t values)
{
    zt_ctx *ctx = writer->export->ctx;
    if (raw > writer->raw_room) {
        zt_free(ctx, writer->raw);
        writer->raw = zt_alloc(ctx, raw);
        writer->raw_room = writer->raw ? raw : 0;
    }
    if (values > writer->values_room) {
        zt_free(ctx, writer->value);
        zt_free(ctx, writer->bytes);
        writer->value = zt_alloc_array(ctx, values, sizeof *writer->value);
        writer->bytes = zt_alloc_array(ctx, values, sizeof(float));
        writer->values_room = writer->value && writer->bytes ? values : 0;
    }
    return (raw && !writer->raw) || (values && !writer->values_room) ? ZT_ENOMEM : ZT_OK;
}

static zt_status check_stop(const tensor_writer *writer)
{
    bool stopped = writer->export->opts.stop && writer->export->opts.stop();
    return stopped ? zt_fail(writer->export->ctx, ZT_EINTR, "interrupted") : ZT_OK;
}

/* Writes the first `count` of writer->value in the tensor's type. */
static zt_status put_floats(tensor_writer *writer, const output_tensor *output, int64_t count)
{
    const zt_dtype_info *to = zt_dtype_get(output->type.dtype);
    for (int64_t i = 0; output->type.dtype == ZT_F16 && i < count; i++)
        if (fabsf(writer->value[i]) >= 65520 && isfinite(writer->value[i]))
            return zt_fail(writer->export->ctx, ZT_ENOTSUP, "%s: tensor '%s' has the value %g, too large for f16: use bf16",
                           writer->export->file, output->name.data, (double)writer->value[i]);
    to->encode(writer->value, writer->bytes, count);
    return zt_sink_write(writer->sink, writer->bytes, (size_t)count * (size_t)to->block_bytes);
}

/* Writes the first `count` values of writer->raw, which are of type `from`, in the tensor's type. */
static zt_status put_values(tensor_writer *writer, const output_tensor *output, int64_t count)
{
    zt_status status = check_stop(writer);
    if (status != ZT_OK) return status;
    const zt_dtype_info *from = zt_dtype_get(output->from.dtype), *to = zt_dtype_get(output->type.dtype);
    if (output->from.dtype == output->type.dtype && !(output->todo & HF_NORM) && !output->logarithms)
        return zt_sink_write(writer->sink, writer->raw, (size_t)count * (size_t)to->block_bytes);
    from->decode(writer->raw, writer->value, count);
    for (int64_t i = 0; (output->todo & HF_NORM) && i < count; i++) writer->value[i] -= 1;
    for (int64_t i = 0; output->logarithms && i < count; i++) writer->value[i] = zt_export_rate(writer->value[i]);
    return put_floats(writer, output, count);
}

/* In a vector each value counts as a row. */
static size_t row_bytes(const zt_type *type)
{
    zt_type one = *type;
    if (type->rank) one.dim[0] = 1;
    if (type->rank == 3) one.dim[1] = 1;
    return zt_type_bytes(&one);
}

/* The same for q, k and v by key head: its query heads, itself, its values. */
static int64_t ungrouped_row(const output_tensor *output, int64_t row)
{
    int64_t size = output->from.dim[0] / (output->heads + 2 * output->groups), each = output->heads / output->groups;
    int64_t group = row / size / (each + 2), place = row / size % (each + 2);
    int64_t head = place < each ? group * each + place : output->heads + (place - each) * output->groups + group;
    return head * size + row % size;
}

/* The row of the GGUF tensor that becomes this row of the tensor written. GGUF interleaves the two halves
 * of each head's rows (rope); with heads of four rows:
 *
 *     row, written     0  1  2  3
 *     row in GGUF    0  2  1  3
 */
static int64_t stored_row(const output_tensor *output, int64_t row)
{
    if (output->heads == 0) return row;
    if (output->groups) return ungrouped_row(output, row);
    int64_t head = output->from.dim[0] / output->heads, half = head / 2, within = row % head;
    return row - within + (within < half ? 2 * within : 2 * (within - half) + 1);
}

/* Rows of the tensor written, from `row` on, that are in one run where they are stored. */
typedef struct stored_run {
    int64_t handle, row, count;
} stored_run;

static stored_run find_run(const output_tensor *output, int64_t row, int64_t rows)
{
    if (output->second < 0) return (stored_run){output->handle, output->first_row + stored_row(output, row), rows - row};
    int64_t half = output->from.dim[output->from.rank - 2], within = row % (2 * half), matrix = row / (2 * half) * half;
    bool second = within >= half;
    int64_t at = second ? within - half : within;
    return (stored_run){second ? output->second : output->handle, matrix + at, half - at};
}

/* Rows are those of all matrices; of a vector each value. */
static zt_status write_rows(tensor_writer *writer, const output_tensor *output)
{
    int64_t rows = output->from.rank ? output->from.dim[0] : 1;
    if (output->from.rank == 3) rows *= output->from.dim[1];
    if (rows == 0) return ZT_OK;
    int64_t width = zt_type_count(&output->from) / rows;
    size_t row = row_bytes(&output->from);
    if (output->second >= 0) rows *= 2;
    int64_t max_rows = output->heads ? 1 : row && row < PIECE ? (int64_t)(PIECE / row) : 1;
    zt_status status = grow_buffers(writer, (size_t)max_rows * row, (size_t)(max_rows * width));
    for (int64_t first_row = 0, count; status == ZT_OK && first_row < rows; first_row += count) {
        stored_run run = find_run(output, first_row, rows);
        count = run.count < max_rows ? run.count : max_rows;
        status = writer->store.read(writer->store.user, run.handle, (size_t)run.row * row, writer->raw, (size_t)count * row);
        if (status == ZT_OK) status = put_values(writer, output, count * width);
    }
    return status;
}

/* Reads the whole matrix as f32, then writes it column by column. */
static zt_status write_columns(tensor_writer *writer, const output_tensor *output)
{
    const zt_dtype_info *from = zt_dtype_get(output->from.dtype), *to = zt_dtype_get(output->type.dtype);
    int64_t rows = output->from.dim[0], columns = output->from.dim[1], count = rows * columns;
    float *all = zt_alloc_array(writer->export->ctx, (size_t)count, sizeof *all);
    size_t bytes = zt_type_bytes(&output->from);
    zt_status status = all ? grow_buffers(writer, bytes, (size_t)rows) : ZT_ENOMEM;
    if (status == ZT_OK) status = writer->store.read(writer->store.user, output->handle, 0, writer->raw, bytes);
    if (status == ZT_OK) from->decode(writer->raw, all, count);
    for (int64_t column = 0; status == ZT_OK && column < columns; column++) {
        for (int64_t row = 0; row < rows; row++) writer->value[row] = all[row * columns + column];
        to->encode(writer->value, writer->bytes, rows);
        status = zt_sink_write(writer->sink, writer->bytes, (size_t)rows * (size_t)to->block_bytes);
    }
    zt_free(writer->export->ctx, all);
    return status;
}

/* Reads one of `matrices` matrices of both halves, or of the one tensor, to writer->raw. */
static zt_status read_matrix(tensor_writer *writer, const output_tensor *output, int64_t matrix, size_t bytes)
{
    zt_store store = writer->store;
    zt_status status = check_stop(writer);
    if (status == ZT_OK) status = store.read(store.user, output->handle, (size_t)matrix * bytes, writer->raw, bytes);
    if (status != ZT_OK || output->second < 0) return status;
    return store.read(store.user, output->second, (size_t)matrix * bytes, writer->raw + bytes, bytes);
}

/* Transposes each matrix, whose rows are those of two, one behind the other or in turns, if there is a second. The biases of all experts are a matrix of
 * one column. */
static zt_status write_turned(tensor_writer *writer, const output_tensor *output)
{
    const zt_dtype_info *from = zt_dtype_get(output->from.dtype);
    const int64_t *dim = output->from.dim, halves = output->second < 0 ? 1 : 2;
    bool biases = output->from.rank == 2, turns = output->todo & HF_IN_TURNS;
    int64_t matrices = biases ? 1 : dim[0], rows = biases ? dim[0] * dim[1] : dim[1], columns = biases ? 1 : dim[2];
    int64_t count = rows * columns;
    if (matrices == 0 || count == 0) return ZT_OK;
    size_t bytes = zt_type_bytes(&output->from) / (size_t)matrices;
    float *all = zt_alloc_array(writer->export->ctx, (size_t)(halves * count), sizeof *all);
    zt_status status = all ? grow_buffers(writer, (size_t)halves * bytes, (size_t)(halves * rows)) : ZT_ENOMEM;
    for (int64_t matrix = 0; status == ZT_OK && matrix < matrices; matrix++) {
        status = read_matrix(writer, output, matrix, bytes);
        for (int64_t half = 0; status == ZT_OK && half < halves; half++)
            from->decode(writer->raw + (size_t)half * bytes, all + half * count, count);
        for (int64_t column = 0; status == ZT_OK && column < columns; column++) {
            for (int64_t row = 0; row < halves * rows; row++) {
                int64_t half = turns ? row % halves : row / rows, within = turns ? row / halves : row % rows;
                writer->value[row] = all[half * count + within * columns + column];
            }
            status = put_floats(writer, output, halves * rows);
        }
    }
    zt_free(writer->export->ctx, all);
    return status;
}

/* The blocks or the scales of each matrix. */
static zt_status write_mxfp4(tensor_writer *writer, const output_tensor *output)
{
    const zt_dtype_info *info = zt_dtype_get(ZT_MXFP4);
    int64_t matrices = output->from.dim[0], rows = output->from.dim[1], blocks = output->from.dim[2] / info->block;
    int64_t halves = output->second < 0 ? 1 : 2;
    if (matrices == 0 || rows == 0 || blocks == 0) return ZT_OK;
    size_t row = (size_t)(blocks * info->block_bytes), bytes = (size_t)rows * row;
    size_t size = (size_t)(output->scales ? blocks : blocks * info->block / 2);
    zt_status status = grow_buffers(writer, (size_t)halves * bytes, size);
    for (int64_t matrix = 0; status == ZT_OK && matrix < matrices; matrix++) {
        status = read_matrix(writer, output, matrix, bytes);
        for (int64_t i = 0; status == ZT_OK && i < halves * rows; i++) {
            const char *from = writer->raw + (size_t)(i % halves) * bytes + (size_t)(i / halves) * row;
            zt_export_mxfp4((const uint8_t *)from, blocks, output->scales, (uint8_t *)writer->bytes);
            status = zt_sink_write(writer->sink, writer->bytes, size);
        }
    }
    return status;
}

/* Of each head the rows of its keys, which are columns where they are stored, and those of its values. */
static zt_status write_heads(tensor_writer *writer, const output_tensor *output)
{
    const zt_dtype_info *keys = zt_dtype_get(output->from.dtype), *values = zt_dtype_get(output->second_type.dtype);
    int64_t heads = output->from.dim[0], latent = output->from.dim[1], plain = output->from.dim[2];
    int64_t value_count = output->second_type.dim[1] * latent, key_count = plain * latent;
    size_t key_bytes = zt_type_bytes(&output->from) / (size_t)heads;
    size_t value_bytes = zt_type_bytes(&output->second_type) / (size_t)heads;
    float *matrix = zt_alloc_array(writer->export->ctx, (size_t)key_count, sizeof *matrix);
    zt_status status = matrix ? grow_buffers(writer, key_bytes > value_bytes ? key_bytes : value_bytes,
                                             (size_t)(key_count > value_count ? key_count : value_count))
                              : ZT_ENOMEM;
    for (int64_t head = 0; status == ZT_OK && head < heads; head++) {
        zt_store store = writer->store;
        status = check_stop(writer);
        if (status == ZT_OK) status = store.read(store.user, output->handle, (size_t)head * key_bytes, writer->raw, key_bytes);
        if (status != ZT_OK) break;
        keys->decode(writer->raw, matrix, key_count);
        for (int64_t i = 0; i < key_count; i++) writer->value[i] = matrix[i % latent * plain + i / latent];
        status = put_floats(writer, output, key_count);
        if (status == ZT_OK)
            status = store.read(store.user, output->second, (size_t)head * value_bytes, writer->raw, value_bytes);
        if (status != ZT_OK) break;
        values->decode(writer->raw, writer->value, value_count);
        status = put_floats(writer, output, value_count);
    }
    zt_free(writer->export->ctx, matrix);
    return status;
}

/* One row, whose columns change places. */
static zt_status put_columns(tensor_writer *writer, const output_tensor *output, const hf_delta_order *order, int64_t width)
{
    const zt_dtype_info *from = zt_dtype_get(output->from.dtype);
    bool gate;
    float *row = (float *)(void *)writer->bytes;
    from->decode(writer->raw, row, width);
    for (int64_t column = 0; column < width; column++) writer->value[column] = row[zt_export_delta_place(order, column, &gate)];
    return put_floats(writer, output, width);
}

/* A tensor of a gated delta net: its rows or columns in the order of the source, rates as their logarithms. */
static zt_status write_delta(tensor_writer *writer, const output_tensor *output)
{
    hf_delta_order order;
    bool ordered = zt_export_delta_order(writer->export, output->gguf, &order), gate = false;
    const char *what = strrchr(output->gguf, '.');
    bool rates = what && strcmp(what, ".ssm_a") == 0, by_column = ordered && order.part == HF_DELTA_COLUMNS;
    int64_t rows = output->type.dim[0], width = rows ? zt_type_count(&output->type) / rows : 0;
    size_t row_size = row_bytes(&output->from);
    zt_status status = grow_buffers(writer, row_size, (size_t)width);
    for (int64_t row = 0; row < rows && status == ZT_OK; row++) {
        int64_t place = ordered && !by_column ? zt_export_delta_place(&order, row, &gate) : row;
        int64_t handle = gate ? output->second : output->handle;
        status = writer->store.read(writer->store.user, handle, (size_t)place * row_size, writer->raw, row_size);
        if (status != ZT_OK) return status;
        if (by_column) {
            status = put_columns(writer, output, &order, width);
        } else if (rates) {
            zt_dtype_get(output->from.dtype)->decode(writer->raw, writer->value, 1);
            writer->value[0] = zt_export_rate(writer->value[0]);
            status = put_floats(writer, output, 1);
        } else {
            status = put_values(writer, output, width);
        }
    }
    return status;
}

/* The rows of some heads of q, k or v. */
static zt_status write_heads_of(tensor_writer *writer, const output_tensor *part, int64_t first, int64_t count)
{
    size_t size = row_bytes(&part->from);
    zt_status status = grow_buffers(writer, size, (size_t)part->from.dim[1]);
    for (int64_t row = first; status == ZT_OK && row < first + count; row++) {
        status = writer->store.read(writer->store.user, part->handle, (size_t)stored_row(part, row) * size, writer->raw, size);
        if (status == ZT_OK) status = put_values(writer, part, part->from.dim[1]);
    }
    return status;
}

/* q, k and v as one matrix (hf_packed.c). */
static zt_status write_packed(tensor_writer *writer, const output_tensor *output)
{
    const zt_hyper *hyper = &writer->export->hyper;
    zt_store store = writer->store;
    const char *which = strstr(output->gguf, ".attn_q.");
    output_tensor part[3];
    hf_packed layout =
        zt_hf_packed_layout(writer->export->arch->id, hyper->n_heads, hyper->n_kv_heads, output->from.dim[0] / hyper->n_heads);
    zt_status status = which ? ZT_OK : zt_fail(writer->export->ctx, ZT_EBUG, "tensor '%s' is not q", output->gguf);
    for (int i = 0; status == ZT_OK && i < 3; i++) {
        char name[ZT_HF_NAME];
        snprintf(name, sizeof name, "%.*s.attn_%c.weight", (int)(which - output->gguf), output->gguf, "qkv"[i]);
        part[i] = *output;
        part[i].heads = i == 0 ? hyper->n_heads : i == 1 ? hyper->n_kv_heads : 0;
        status = store.find(store.user, name, &part[i].from, &part[i].handle);
    }
    for (int64_t group = 0; status == ZT_OK && group < layout.groups; group++)
        for (int i = 0; status == ZT_OK && i < 3; i++) {
            int64_t rows = (i ? layout.keys : layout.queries) * layout.head;
            status = write_heads_of(writer, &part[i], group * rows, rows);
        }
    return status;
}

static zt_status write_tensor(tensor_writer *writer, const output_tensor *output)
{
    if (output->todo & HF_HEADS) return write_heads(writer, output);
    if (output->todo & HF_FUSED_QKV) return write_packed(writer, output);
    if (output->todo & HF_DELTA) return write_delta(writer, output);
    if (output->blocks || output->scales) return write_mxfp4(writer, output);
    if ((output->todo & HF_TURNED) && (output->from.rank == 3 || output->second >= 0)) return write_turned(writer, output);
    return output->todo & HF_TRANSPOSE ? write_columns(writer, output) : write_rows(writer, output);
}

static zt_status write_data(tensor_writer *writer, output_tensor *output)
{
    zt_status status = ZT_OK;
    for (int64_t i = 0; status == ZT_OK && i < zt_gguf_n_tensors(writer->export->gguf); i++) {
        int64_t count = output_count(writer->export, i);
        for (int64_t expert = 0; status == ZT_OK && expert < count; expert++) {
            status = plan_tensor(writer->export, i, expert, output);
            if (status == ZT_OK) status = write_tensor(writer, output);
        }
    }
    for (int64_t i = 0; status == ZT_OK && i < zt_export_constants(writer->export); i++) {
        float value;
        status = zt_export_constant(writer->export, i, &output->name, &value);
        if (status == ZT_OK) status = zt_sink_write(writer->sink, &value, sizeof value);
    }
    return status;
}

zt_status zt_export_tensors(hf_export *export)
{
    tensor_writer writer = {.export = export, .store = zt_gguf_store(export->gguf)};
    output_tensor output = {.handle = -1};
    zt_str head;
    size_t length = export->directory.len;
    zt_str_init(&head, export->ctx);
    zt_str_init(&output.name, export->ctx);
    zt_status status = make_header(export, &output, &head);
    if (status == ZT_OK) status = zt_str_puts(&export->directory, "model.safetensors");
    if (status == ZT_OK) writer.sink = zt_sink_open(export->ctx, export->directory.data, false);
    export->directory.len = length;
    export->directory.data[length] = 0;
    if (status == ZT_OK) status = writer.sink ? zt_sink_write(writer.sink, head.data, head.len) : zt_ctx_status(export->ctx);
    if (status == ZT_OK) status = write_data(&writer, &output);
    if (status == ZT_OK) status = zt_sink_commit(writer.sink);
    zt_sink_close(writer.sink);
    zt_free(export->ctx, writer.raw);
    zt_free(export->ctx, writer.bytes);
    zt_free(export->ctx, writer.value);
    zt_str_fini(&output.name);
    zt_str_fini(&head);
    return status;
}
