/* values.c - owns a layer's numbers: at the precision of their dtype, and as a signature.
 *
 * A tensor's numbers are read where they are wanted, piece by piece. A layer of a network is held
 * whole: its precision asks for all of a tensor, its parts are brought to length 1 each. What such
 * a layer with parts counts as is its signature times the length of all its numbers. */
#include "lib/base/require.h"
#include "lib/dna/dna_file.h"
#include "lib/tensor/quantize.h"

#include <math.h>
#include <string.h>

/* ---- whole numbers as floats ----------------------------------------------------------------- */

#define WIDEN(name, type)                                                                                                        \
    static void widen_##name(const void *src, float *out, int64_t count)                                                         \
    {                                                                                                                            \
        const char *bytes = src;                                                                                                 \
        type value;                                                                                                              \
        for (int64_t i = 0; i < count; i++) {                                                                                    \
            memcpy(&value, bytes + (size_t)i * sizeof value, sizeof value);                                                      \
            out[i] = (float)value;                                                                                               \
        }                                                                                                                        \
    }
WIDEN(i64, int64_t)
WIDEN(i32, int32_t)
WIDEN(i16, int16_t)
WIDEN(i8, int8_t)
WIDEN(u64, uint64_t)
WIDEN(u32, uint32_t)
WIDEN(u16, uint16_t)
WIDEN(u8, uint8_t)

static void (*const widen[ZT_DTYPE_COUNT])(const void *src, float *out, int64_t n) = {
    [ZT_I64] = widen_i64, [ZT_I32] = widen_i32, [ZT_I16] = widen_i16, [ZT_I8] = widen_i8,  [ZT_U64] = widen_u64,
    [ZT_U32] = widen_u32, [ZT_U16] = widen_u16, [ZT_U8] = widen_u8,   [ZT_BOOL] = widen_u8};

void zt_dna_decode(zt_dtype dtype, const void *src, float *out, int64_t count)
{
    if (widen[dtype])
        widen[dtype](src, out, count);
    else
        zt_dtype_convert(dtype, src, ZT_F32, out, count);
}

size_t zt_dna_bytes(zt_dtype dtype, int64_t count)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    return (size_t)((count + info->block - 1) / info->block) * (size_t)info->block_bytes;
}

/* ---- weights of a network at their precision ------------------------------------------------- */

zt_status zt_dna_grow_codes(zt_dna *model, size_t bytes)
{
    if (bytes <= model->codes_capacity) return ZT_OK;
    char *more = zt_realloc(model->ctx, model->codes, bytes);
    if (!more) return ZT_ENOMEM;
    model->codes = more;
    model->codes_capacity = bytes;
    return ZT_OK;
}

/* Codes of less than a byte stand in a network with the first in the highest bits, where the
 * field's have it in the lowest. */
static void reverse_codes(uint8_t *bytes, size_t size, int bits)
{
    unsigned mask = (1u << bits) - 1;
    for (size_t i = 0; i < size; i++) {
        unsigned code_before = bytes[i], reversed = 0;
        for (int bit = 0; bit < 8; bit += bits) reversed |= (code_before >> bit & mask) << (8 - bits - bit);
        bytes[i] = (uint8_t)reversed;
    }
}

static zt_status decode_weights(zt_dna *model, const dna_part *part, float *out)
{
    zt_net_weights weights = part->weights;
    zt_entry entry;
    zt_checkpoint_get(model->checkpoint, part->tensor, &entry);
    zt_status status = zt_dna_grow_codes(model, (size_t)entry.bytes);
    if (status == ZT_OK) status = zt_checkpoint_read(model->checkpoint, part->tensor, 0, model->codes, (size_t)entry.bytes);
    if (status != ZT_OK) return status;
    int bits = zt_storage_get(weights.type)->bits;
    if (weights.native && bits < 8) {
        if (weights.rule == ZT_RULE_FIELD) reverse_codes((uint8_t *)model->codes, (size_t)entry.bytes, bits);
        zt_storage_decode(weights.type, weights.rule, model->codes, part->count, weights.scale, out);
    } else {
        zt_net_decode(&weights, model->codes, part->count, out);
    }
    return ZT_OK;
}

/* As it would be read from a file that holds it in these codes. */
static zt_status round_through_codes(zt_dna *model, const dna_part *part, float *values)
{
    size_t bytes = zt_net_bytes(&part->weights, part->count);
    if (!part->weights.native) return ZT_OK;
    zt_net_weights nearest = zt_net_nearest(&part->weights);
    zt_status status = zt_dna_grow_codes(model, bytes);
    return status == ZT_OK ? zt_net_encode(model->ctx, &nearest, values, part->count, model->codes, values) : status;
}

zt_status zt_dna_mixed(zt_dna *model, int64_t part_index, float *out)
{
    const dna_part *part = &model->parts[part_index];
    if (!model->mix) return decode_weights(model, part, out);
    /* A's codes are read as A has them: a child's scale may be another */
    dna_part was = *part;
    was.weights = model->mix->twins[part_index] < 0 ? part->weights : model->mix->weights_a[part_index];
    zt_status status = decode_weights(model, &was, out);
    return status == ZT_OK && model->mix->twins[part_index] >= 0 ? zt_dna_mix(model, part_index, 0, part->count, out) : status;
}

zt_status zt_dna_master(zt_dna *model, int64_t part_index, float *out)
{
    bool mixed = model->mix && model->mix->twins[part_index] >= 0;
    zt_status status = zt_dna_mixed(model, part_index, out);
    return status == ZT_OK && mixed ? round_through_codes(model, &model->parts[part_index], out) : status;
}

zt_status zt_dna_masters(zt_dna *model, int64_t index, float **values, int64_t *count)
{
    if (!model) return ZT_EUSAGE;
    ZT_REQUIRE(model->ctx, values && count && model->is_net && index >= 0 && index < model->layer_count, ZT_EUSAGE);
    int64_t first = model->first_parts[index], end = model->parts[first].next, at = 0;
    zt_status status = ZT_OK;
    *values = NULL;
    *count = 0;
    for (int64_t i = first; i < end; i++) *count += model->parts[i].tensor < 0 ? 0 : model->parts[i].count;
    if (*count == 0) return ZT_OK;
    *values = zt_alloc_array(model->ctx, (size_t)*count, sizeof **values);
    if (!*values) return ZT_ENOMEM;
    for (int64_t i = first; i < end && status == ZT_OK; i++) {
        if (model->parts[i].tensor < 0) continue;
        status = zt_dna_mixed(model, i, *values + at);
        at += model->parts[i].count;
    }
    if (status == ZT_OK) return ZT_OK;
    zt_free(model->ctx, *values);
    *values = NULL;
    return status;
}

/* As codes of their dtype would give them back. What is native has been codes already. */
static zt_status round_to_dtype(zt_dna *model, const dna_part *part, float *values)
{
    zt_storage storage = part->weights.type;
    if (part->weights.native || storage == ZT_STORE_F32 || storage == ZT_STORE_F64) return ZT_OK;
    float scale = zt_storage_scale(storage, values, part->count);
    zt_status status = zt_dna_grow_codes(model, zt_storage_bytes(storage, ZT_RULE_FIELD, part->count));
    if (status == ZT_OK) status = zt_storage_encode(model->ctx, storage, ZT_RULE_FIELD, values, part->count, scale, model->codes);
    if (status == ZT_OK) zt_storage_decode(storage, ZT_RULE_FIELD, model->codes, part->count, scale, values);
    return status;
}

/* The numbers of a part that is no group. */
static zt_status read_part(zt_dna *model, int64_t part_index, float *out)
{
    const dna_part *part = &model->parts[part_index];
    if (part->tensor < 0) {
        out[0] = 1;
        return ZT_OK;
    }
    zt_status status = zt_dna_master(model, part_index, out);
    if (status != ZT_OK || model->rule == ZT_RULE_FIELD) return status == ZT_OK ? round_to_dtype(model, part, out) : status;
    if (part->weights.native) return ZT_OK; /* codes have been taken so already: not twice */
    float scale = part->weights.scale == 0 ? 1 : part->weights.scale;
    for (int64_t i = 0; i < part->count; i++) out[i] = zt_loom_simulate(part->weights.type, out[i], scale);
    return ZT_OK;
}

/* ---- signatures ------------------------------------------------------------------------------ */

/* Squares in f32, summed in f64, as Loom has it; gives their sum. */
static double normalize_values(float *values, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        float square = values[i] * values[i];
        sum += square;
    }
    float length = (float)sqrt(sum);
    for (int64_t i = 0; i < count && length != 0; i++) values[i] /= length;
    return sum;
}

/* Normalizes a part to length 1, the parts inside it first; adds the squares of its values to *squares. */
static zt_status sign_part(zt_dna *model, int64_t part_index, float *out, double *squares)
{
    const dna_part *part = &model->parts[part_index];
    zt_status status = ZT_OK;
    if (!part->is_group) {
        status = read_part(model, part_index, out);
        if (status == ZT_OK) *squares += normalize_values(out, part->count);
        return status;
    }
    for (int64_t i = part_index + 1, offset = 0; i < part->next && status == ZT_OK; i = model->parts[i].next) {
        status = sign_part(model, i, out + offset, squares);
        offset += model->parts[i].count;
    }
    if (status == ZT_OK) normalize_values(out, part->count);
    return status;
}

static zt_status hold_layer(zt_dna *model, int64_t index)
{
    const dna_part *part = &model->parts[model->first_parts[index]];
    double squares = 0;
    if (model->held_layer == index) return ZT_OK;
    model->held_layer = -1;
    if (part->count > model->held_capacity) {
        float *more = zt_realloc(model->ctx, model->held_values, (size_t)part->count * sizeof *more);
        if (!more) return ZT_ENOMEM;
        model->held_values = more;
        model->held_capacity = part->count;
    }
    zt_status status = part->is_group ? sign_part(model, model->first_parts[index], model->held_values, &squares)
                                      : read_part(model, model->first_parts[index], model->held_values);
    float length = (float)sqrt(squares);
    for (int64_t k = 0; part->is_group && k < part->count && status == ZT_OK; k++) model->held_values[k] *= length;
    if (status == ZT_OK) model->held_layer = index;
    return status;
}

/* ---- any layer ------------------------------------------------------------------------------- */

zt_dtype zt_dna_dtype(const zt_dna *model, int64_t index)
{
    return model->is_net || model->lengths ? ZT_F32 : model->layers[index].shape.dtype;
}

/* Floats in a dtype that can be written. */
static zt_status encode_values(zt_dna *model, int64_t index, const float *values, int64_t count, void *dst)
{
    zt_dtype dtype = zt_dna_dtype(model, index);
    if (zt_dtype_get(dtype)->kind == 'Q' && !zt_dtype_is_packed(dtype)) {
        zt_quantizer quantizer = {.dtype = dtype, .columns = count, .name = model->layers[index].name};
        return zt_quantize_rows(model->ctx, &quantizer, values, 1, dst);
    }
    zt_dtype_convert(ZT_F32, values, dtype, dst, count);
    return ZT_OK;
}

static zt_status fetch_mixed(zt_dna *model, int64_t index, int64_t offset, int64_t count, void *dst)
{
    zt_dtype dtype = zt_dna_dtype(model, index);
    float *values = zt_alloc_array(model->ctx, (size_t)count, sizeof *values);
    zt_status status =
        values ? zt_checkpoint_read(model->checkpoint, index, zt_dna_bytes(dtype, offset), dst, zt_dna_bytes(dtype, count))
               : ZT_ENOMEM;
    if (status == ZT_OK) {
        zt_dna_decode(dtype, dst, values, count);
        status = zt_dna_mix(model, index, offset, count, values);
    }
    if (status == ZT_OK) status = encode_values(model, index, values, count, dst);
    zt_free(model->ctx, values);
    return status;
}

/* Signatures times their length: about the weights that they are of. */
static zt_status fetch_signature(zt_dna *model, int64_t index, int64_t offset, int64_t count, float *out)
{
    zt_dtype dtype = model->layers[index].shape.dtype;
    double factor = model->lengths[index];
    zt_status status = ZT_OK;
    if (model->json_values) {
        memcpy(out, model->json_values[index] + offset, (size_t)count * sizeof *out);
    } else {
        status = zt_dna_grow_codes(model, zt_dna_bytes(dtype, count));
        if (status == ZT_OK)
            status = zt_checkpoint_read(model->checkpoint, index, zt_dna_bytes(dtype, offset), model->codes,
                                        zt_dna_bytes(dtype, count));
        if (status == ZT_OK) zt_dna_decode(dtype, model->codes, out, count);
        if (dtype == ZT_F16) factor /= sqrt((double)model->layers[index].count);
    }
    for (int64_t k = 0; k < count && status == ZT_OK; k++) out[k] = (float)(out[k] * factor);
    return status;
}

zt_status zt_dna_fetch(zt_dna *model, int64_t index, int64_t offset, int64_t count, void *dst)
{
    zt_dtype dtype = zt_dna_dtype(model, index);
    if (model->lengths) return fetch_signature(model, index, offset, count, dst);
    if (!model->is_net && (!model->mix || model->mix->twins[index] < 0))
        return zt_checkpoint_read(model->checkpoint, index, zt_dna_bytes(dtype, offset), dst, zt_dna_bytes(dtype, count));
    if (!model->is_net) return fetch_mixed(model, index, offset, count, dst);
    zt_status status = hold_layer(model, index);
    if (status == ZT_OK) memcpy(dst, model->held_values + offset, (size_t)count * sizeof(float));
    return status;
}

zt_status zt_dna_read(zt_dna *model, int64_t index, float *out)
{
    if (!model) return ZT_EUSAGE;
    ZT_REQUIRE(model->ctx, index >= 0 && index < zt_dna_count(model) && out, ZT_EUSAGE);
    enum { PIECE = 1 << 14 };
    char codes[PIECE * sizeof(double)]; /* no number takes more */
    int64_t count = model->layers[index].count, step;
    zt_status status = ZT_OK;
    for (int64_t offset = 0; offset < count && status == ZT_OK; offset += step) {
        step = count - offset < PIECE ? count - offset : PIECE;
        status = zt_dna_fetch(model, index, offset, step, codes);
        if (status == ZT_OK) zt_dna_decode(zt_dna_dtype(model, index), codes, out + offset, step);
    }
    return status;
}

zt_status zt_dna_sign(zt_dna *model, int64_t index, float *out, double *length)
{
    if (!model) return ZT_EUSAGE;
    ZT_REQUIRE(model->ctx, index >= 0 && index < zt_dna_count(model) && out, ZT_EUSAGE);
    double squares = 0;
    zt_status status =
        model->is_net ? sign_part(model, model->first_parts[index], out, &squares) : zt_dna_read(model, index, out);
    if (status != ZT_OK) return status;
    if (!model->is_net) squares = normalize_values(out, model->layers[index].count);
    if (length) *length = sqrt(squares);
    return ZT_OK;
}
