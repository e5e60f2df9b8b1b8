/* samples_arrays.c - data sets from arrays (npz, npy, safetensors
 * ...), and the numbers of a field. */
#include "lib/base/require.h"
#include "lib/train/train_internal.h"

#include <math.h>
#include <string.h>

/* ---- numbers --------------------------------------------------------------------------------- */

bool zt_field_put(zt_field *field, double number)
{
    float single = (float)number;
    int32_t word = 0;
    int64_t wide = 0;
    switch (field->row.dtype) {
    case ZT_F32: return !zt_str_put(&field->data, &single, sizeof single);
    case ZT_F64: return !zt_str_put(&field->data, &number, sizeof number);
    case ZT_I32:
        if (number != floor(number) || fabs(number) > INT32_MAX) return false;
        word = (int32_t)number;
        return !zt_str_put(&field->data, &word, sizeof word);
    default:
        if (number != floor(number) || fabs(number) > 9e15) return false;
        wide = (int64_t)number;
        return !zt_str_put(&field->data, &wide, sizeof wide);
    }
}

const char *zt_field_wants(const zt_field *field)
{
    return field->row.dtype == ZT_F32 || field->row.dtype == ZT_F64 ? "number" : "integer";
}

const char *zt_field_name(const zt_samples *samples, int index, int k)
{
    static const char *const first[] = {"input", "inputs", "x"};
    static const char *const last[] = {"target", "targets", "label", "labels", "expected", "y"};
    if (k == 0) return samples->fields[index].name;
    if (index == 0) return k <= 3 ? first[k - 1] : NULL;
    return index == samples->field_count - 1 && k <= 6 ? last[k - 1] : NULL;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

enum { PIECE = 4096 };

/* A plain value as f64, which holds all but large 64-bit integers. */
static bool read_number(zt_dtype dtype, const char *bytes, double *out)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    float single;
    int64_t i = 0;
    int unused = 64 - 8 * info->block_bytes;
    if (dtype == ZT_F64) return memcpy(out, bytes, sizeof *out), true;
    if (info->kind == 'F') return info->decode(bytes, &single, 1), *out = (double)single, true;
    memcpy(&i, bytes, (size_t)info->block_bytes);
    *out = info->kind == 'I' ? (double)((int64_t)((uint64_t)i << unused) >> unused) : (double)(uint64_t)i;
    return true;
}

static zt_status put_numbers(zt_samples *samples, zt_field *field, const char *name, const zt_entry *entry, const char *bytes,
                             int64_t from, int64_t count)
{
    size_t size = (size_t)zt_dtype_get(entry->type.dtype)->block_bytes;
    double number;
    for (int64_t i = 0; i < count; i++) {
        read_number(entry->type.dtype, bytes + (size_t)i * size, &number);
        if (!zt_field_put(field, number))
            return zt_ctx_status(samples->ctx) ? zt_ctx_status(samples->ctx)
                                               : zt_fail(samples->ctx, ZT_EDATA, "%s: '%s': element %lld is %g, not a valid %s",
                                                         name, field->name, (long long)(from + i), number, zt_field_wants(field));
    }
    return ZT_OK;
}

/* Rows of the array are rows of the field, whatever shape each has. */
static zt_status put_array(zt_samples *samples, zt_field *field, zt_checkpoint *checkpoint, int64_t index)
{
    char text[ZT_TYPE_TEXT], want[ZT_TYPE_TEXT];
    zt_entry entry;
    const char *name = zt_checkpoint_name(checkpoint);
    zt_checkpoint_get(checkpoint, index, &entry);
    int64_t rows = entry.type.rank > 0 ? entry.type.dim[0] : 1, row = zt_type_count(&field->row);
    bool plain = entry.type.rank >= 0 && entry.type.dtype < ZT_DTYPE_COUNT && zt_dtype_get(entry.type.dtype)->kind != 'Q';
    int64_t all = plain ? zt_type_count(&entry.type) : 0;
    if (!plain || entry.type.rank < 1 || (rows && all / rows != row) || (rows && all % rows))
        return zt_fail(samples->ctx, ZT_EDATA, "%s: '%s' has type %s, but input '%s' needs rows of %s", name, entry.name,
                       entry.type.rank < 0 ? entry.dtype : zt_type_text(&entry.type, text), field->name,
                       zt_type_text(&field->row, want));
    size_t size = (size_t)zt_dtype_get(entry.type.dtype)->block_bytes;
    char *piece = zt_alloc_array(samples->ctx, PIECE, size);
    zt_status status = piece ? ZT_OK : ZT_ENOMEM;
    for (int64_t offset = 0; offset < all && !status; offset += PIECE) {
        int64_t count = all - offset < PIECE ? all - offset : PIECE;
        status = zt_checkpoint_read(checkpoint, index, (uint64_t)offset * size, piece, (size_t)count * size);
        if (!status) status = put_numbers(samples, field, name, &entry, piece, offset, count);
    }
    zt_free(samples->ctx, piece);
    return status;
}

static int64_t find_array(const zt_samples *samples, const zt_checkpoint *checkpoint, int input, const char *only)
{
    bool meant = only ? !strcmp(samples->fields[input].name, only) : input == 0;
    if (zt_checkpoint_count(checkpoint) == 1) return meant ? 0 : -1;
    for (int k = 0; !only || meant; k++) {
        if (!zt_field_name(samples, input, k)) return -1;
        int64_t index = zt_checkpoint_find(checkpoint, zt_field_name(samples, input, k));
        if (index >= 0) return index;
    }
    return -1;
}

zt_status zt_samples_arrays(zt_samples *samples, zt_checkpoint *checkpoint, const char *only)
{
    if (!samples) return ZT_EUSAGE;
    ZT_REQUIRE(samples->ctx, checkpoint, ZT_EUSAGE);
    zt_status status = ZT_OK;
    int found = 0;
    for (int field_index = 0; field_index < samples->field_count && !status; field_index++) {
        int64_t index = find_array(samples, checkpoint, field_index, only);
        if (index >= 0) status = put_array(samples, &samples->fields[field_index], checkpoint, index);
        found += index >= 0;
    }
    if (status || found) return status;
    return zt_fail(samples->ctx, ZT_EDATA, "%s: no array for input '%s'", zt_checkpoint_name(checkpoint),
                   only ? only : samples->fields[0].name);
}
