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

bool quant_is_scaled(zt_dtype t)
{
    return t == types[0].dtype || t == types[1].dtype;
}

bool quant_can(zt_dtype t)
{
    return zt_quantize_has(t) || quant_is_scaled(t);
}

static zt_storage storage_of(zt_dtype t)
{
    return types[t == types[1].dtype].storage;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Rows of codes and, where each row has its own, their scales; y gets what they mean. Anything not
 * finite is told as every quantizer tells it. */
zt_status quant_scaled_rows(zt_ctx *ctx, const zt_quantizer *z, const float *x, int64_t rows,
                            const quant_scales *by, uint8_t *out, float *y)
{
    zt_quantizer same = *z;
    zt_storage t = storage_of(z->dtype);
    same.dtype = ZT_F32;
    zt_status s = zt_quantize_rows(ctx, &same, x, rows, y);
    for (int64_t r = 0; r < rows && s == ZT_OK; r++) {
        const float *row = x + r * z->columns;
        float *scale = &by->scale[by->each_row ? z->first_row + r : 0];
        if (by->each_row)
            *scale = zt_storage_scale(t, row, z->columns);
        s = zt_storage_encode(ctx, t, ZT_RULE_FIELD, row, z->columns, *scale, out + r * z->columns);
        zt_storage_decode(t, ZT_RULE_FIELD, out + r * z->columns, z->columns, *scale, y + r * z->columns);
    }
    return s;
}

/* ---- tensors of scales ----------------------------------------------------------------------- */

static zt_status keep_most(void *user, const void *bytes, size_t n)
{
    const float *x = bytes;
    float *most = user;
    for (size_t i = 0; i < n / sizeof *x; i++)
        *most = fmaxf(*most, fabsf(x[i]));
    return ZT_OK;
}

/* Room for the scales of a job, and the one of a whole tensor. */
zt_status quant_scales_of(quant *q, int64_t job, quant_scales *by)
{
    const quant_job *j = &q->job[job];
    int64_t rows = quant_n_rows(&j->in.type);
    float most = 0;
    by->each_row = q->o->scale == QUANT_SCALE_ROW;
    by->n = by->each_row ? rows : 1;
    by->scale = zt_calloc(q->ctx, (size_t)by->n + 1, sizeof *by->scale);
    if (!by->scale || by->each_row)
        return by->scale ? ZT_OK : ZT_ENOMEM;
    zt_status s = quant_rows(q, job, 0, rows, ZT_F32, NULL, keep_most, &most);
    by->scale[0] = zt_storage_scale(storage_of(j->type.dtype), &most, 1);
    return s;
}

/* The entry that follows the job's own; its name is the caller's to free. */
char *quant_scale_entry(quant *q, const quant_job *j, zt_entry *e)
{
    const zt_type *t = &j->type;
    size_t n = strlen(j->in.name) + sizeof "_scale";
    char *name = zt_alloc(q->ctx, n);
    if (!name)
        return NULL;
    snprintf(name, n, "%s_scale", j->in.name);
    *e = (zt_entry){.name = name, .dtype = "f32", .type = zt_type_make(ZT_F32, 1, (int64_t[]){1})};
    if (q->o->scale == QUANT_SCALE_ROW) {
        e->type = *t;
        e->type.dtype = ZT_F32;
        e->type.dim[t->rank - 1] = 1;
    }
    e->bytes = zt_type_bytes(&e->type);
    return name;
}
