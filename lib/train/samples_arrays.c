/* samples_arrays.c - data sets from arrays (npz, npy, safetensors
 * ...), and the numbers of a field. */
#include "lib/train/samples_put.h"

#include <math.h>
#include <string.h>

/* ---- numbers --------------------------------------------------------------------------------- */

bool zt_field_put(zt_field *f, double x)
{
    float single = (float)x;
    int32_t word = 0;
    int64_t wide = 0;
    switch (f->row.dtype) {
    case ZT_F32: return !zt_str_put(&f->data, &single, sizeof single);
    case ZT_F64: return !zt_str_put(&f->data, &x, sizeof x);
    case ZT_I32:
        if (x != floor(x) || fabs(x) > INT32_MAX) return false;
        word = (int32_t)x;
        return !zt_str_put(&f->data, &word, sizeof word);
    default:
        if (x != floor(x) || fabs(x) > 9e15) return false;
        wide = (int64_t)x;
        return !zt_str_put(&f->data, &wide, sizeof wide);
    }
}

const char *zt_field_wants(const zt_field *f)
{
    return f->row.dtype == ZT_F32 || f->row.dtype == ZT_F64 ? "number" : "whole number";
}

const char *zt_field_name(const zt_samples *s, int i, int k)
{
    static const char *const first[] = {"input", "inputs", "x"};
    static const char *const last[] = {"target", "targets", "label", "labels", "expected", "y"};
    if (k == 0) return s->field[i].name;
    if (i == 0) return k <= 3 ? first[k - 1] : NULL;
    return i == s->n - 1 && k <= 6 ? last[k - 1] : NULL;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

enum { PIECE = 4096 };

/* A plain value as f64, which holds all but large 64-bit integers. */
static bool number_at(zt_dtype t, const char *at, double *x)
{
    const zt_dtype_info *info = zt_dtype_get(t);
    float f;
    int64_t i = 0;
    int unused = 64 - 8 * info->block_bytes;
    if (t == ZT_F64) return memcpy(x, at, sizeof *x), true;
    if (info->kind == 'F') return info->decode(at, &f, 1), *x = (double)f, true;
    memcpy(&i, at, (size_t)info->block_bytes);
    *x = info->kind == 'I' ? (double)((int64_t)((uint64_t)i << unused) >> unused)
                           : (double)(uint64_t)i;
    return true;
}

static zt_status put_numbers(zt_samples *s, zt_field *f, const char *name, const zt_entry *e,
                             const char *bytes, int64_t from, int64_t n)
{
    size_t size = (size_t)zt_dtype_get(e->type.dtype)->block_bytes;
    double x;
    for (int64_t i = 0; i < n; i++) {
        number_at(e->type.dtype, bytes + (size_t)i * size, &x);
        if (!zt_field_put(f, x))
            return zt_ctx_status(s->ctx)
                       ? zt_ctx_status(s->ctx)
                       : zt_fail(s->ctx, ZT_EDATA, "%s: '%s': element %lld is %g, no %s", name,
                                 f->name, (long long)(from + i), x, zt_field_wants(f));
    }
    return ZT_OK;
}

/* Rows of the array are rows of the field, whatever shape each has. */
static zt_status put_array(zt_samples *s, zt_field *f, zt_checkpoint *c, int64_t index)
{
    char text[ZT_TYPE_TEXT], want[ZT_TYPE_TEXT];
    zt_entry e;
    const char *name = zt_checkpoint_name(c);
    zt_checkpoint_get(c, index, &e);
    int64_t rows = e.type.rank > 0 ? e.type.dim[0] : 1, row = zt_type_count(&f->row);
    bool plain = e.type.rank >= 0 && e.type.dtype < ZT_DTYPE_COUNT &&
                 zt_dtype_get(e.type.dtype)->kind != 'Q';
    int64_t all = plain ? zt_type_count(&e.type) : 0;
    if (!plain || e.type.rank < 1 || (rows && all / rows != row) || (rows && all % rows))
        return zt_fail(s->ctx, ZT_EDATA, "%s: '%s' is %s, and input '%s' wants rows of %s", name,
                       e.name, e.type.rank < 0 ? e.dtype : zt_type_text(&e.type, text), f->name,
                       zt_type_text(&f->row, want));
    size_t size = (size_t)zt_dtype_get(e.type.dtype)->block_bytes;
    char *piece = zt_alloc_array(s->ctx, PIECE, size);
    zt_status st = piece ? ZT_OK : ZT_ENOMEM;
    for (int64_t at = 0; at < all && !st; at += PIECE) {
        int64_t n = all - at < PIECE ? all - at : PIECE;
        st = zt_checkpoint_read(c, index, (uint64_t)at * size, piece, (size_t)n * size);
        if (!st) st = put_numbers(s, f, name, &e, piece, at, n);
    }
    zt_free(s->ctx, piece);
    return st;
}

static int64_t find(const zt_samples *s, const zt_checkpoint *c, int i, const char *only)
{
    bool meant = only ? !strcmp(s->field[i].name, only) : i == 0;
    if (zt_checkpoint_count(c) == 1) return meant ? 0 : -1;
    for (int k = 0; !only || meant; k++) {
        if (!zt_field_name(s, i, k)) return -1;
        int64_t index = zt_checkpoint_find(c, zt_field_name(s, i, k));
        if (index >= 0) return index;
    }
    return -1;
}

zt_status zt_samples_arrays(zt_samples *s, zt_checkpoint *c, const char *only)
{
    zt_status st = ZT_OK;
    int found = 0;
    for (int i = 0; i < s->n && !st; i++) {
        int64_t index = find(s, c, i, only);
        if (index >= 0) st = put_array(s, &s->field[i], c, index);
        found += index >= 0;
    }
    if (st || found) return st;
    return zt_fail(s->ctx, ZT_EDATA, "%s: has no array for input '%s'", zt_checkpoint_name(c),
                   only ? only : s->field[0].name);
}
