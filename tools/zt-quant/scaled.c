/* scaled.c - types whose codes need a scale beside them: FP8, by the field's rule
 * (lib/tensor/storage.h).
 *
 * The scales of the matrix X are a tensor X_scale behind it, of f32: [1], or [rows, 1], as
 * compressed-tensors has it for safetensors (its README, as a fact); a value is code x scale.
 */
#include "tools/zt-quant/quant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    zt_dtype dtype;
    zt_storage storage;
} types[] = {{ZT_F8_E4M3, ZT_STORE_FP8E4M3}, {ZT_F8_E5M2, ZT_STORE_FP8E5M2}};

bool quant_is_scaled(zt_dtype dtype) { return dtype == types[0].dtype || dtype == types[1].dtype; }

bool quant_can(zt_dtype dtype) { return zt_quantize_has(dtype) || quant_is_scaled(dtype); }

static zt_storage storage_of(zt_dtype dtype) { return types[dtype == types[1].dtype].storage; }

/* ---- rows ------------------------------------------------------------------------------------ */

/* Rows of codes and, where each row has its own, their scales; `decoded` gets what they mean. Anything not
 * finite is told as every quantizer tells it. */
zt_status quant_scaled_rows(zt_ctx *ctx, const zt_quantizer *quantizer, const float *values, int64_t rows,
                            const quant_scales *scales, uint8_t *out, float *decoded)
{
    zt_quantizer same = *quantizer;
    zt_storage storage = storage_of(quantizer->dtype);
    same.dtype = ZT_F32;
    zt_status status = zt_quantize_rows(ctx, &same, values, rows, decoded);
    for (int64_t row_index = 0; row_index < rows && status == ZT_OK; row_index++) {
        const float *row = values + row_index * quantizer->columns;
        float *scale = &scales->scale[scales->each_row ? quantizer->first_row + row_index : 0];
        if (scales->each_row) *scale = zt_storage_scale(storage, row, quantizer->columns);
        status =
            zt_storage_encode(ctx, storage, ZT_RULE_FIELD, row, quantizer->columns, *scale, out + row_index * quantizer->columns);
        zt_storage_decode(storage, ZT_RULE_FIELD, out + row_index * quantizer->columns, quantizer->columns, *scale,
                          decoded + row_index * quantizer->columns);
    }
    return status;
}

/* ---- tensors of scales ----------------------------------------------------------------------- */

static zt_status keep_most(void *user, const void *bytes, size_t size)
{
    const float *values = bytes;
    float *largest = user;
    for (size_t i = 0; i < size / sizeof *values; i++) *largest = fmaxf(*largest, fabsf(values[i]));
    return ZT_OK;
}

/* Room for the scales of a job, and the one of a whole tensor. */
zt_status quant_scales_of(quant_run *run, int64_t job, quant_scales *scales)
{
    const quant_job *quantized = &run->jobs[job];
    int64_t rows = quant_n_rows(&quantized->source.type);
    float largest = 0;
    scales->each_row = run->options->scale == QUANT_SCALE_ROW;
    scales->count = scales->each_row ? rows : 1;
    scales->scale = zt_calloc(run->ctx, (size_t)scales->count + 1, sizeof *scales->scale);
    if (!scales->scale || scales->each_row) return scales->scale ? ZT_OK : ZT_ENOMEM;
    zt_status status = quant_rows(run, job, 0, rows, ZT_F32, NULL, keep_most, &largest);
    scales->scale[0] = zt_storage_scale(storage_of(quantized->type.dtype), &largest, 1);
    return status;
}

/* The entry that follows the job's own; its name is the caller's to free. */
char *quant_scale_entry(quant_run *run, const quant_job *quantized, zt_entry *entry)
{
    const zt_type *type = &quantized->type;
    size_t length = strlen(quantized->source.name) + sizeof "_scale";
    char *name = zt_alloc(run->ctx, length);
    if (!name) return NULL;
    snprintf(name, length, "%s_scale", quantized->source.name);
    *entry = (zt_entry){.name = name, .dtype = "f32", .type = zt_type_make(ZT_F32, 1, (int64_t[]){1})};
    if (run->options->scale == QUANT_SCALE_ROW) {
        entry->type = *type;
        entry->type.dtype = ZT_F32;
        entry->type.dim[type->rank - 1] = 1;
    }
    entry->bytes = zt_type_bytes(&entry->type);
    return name;
}
