/* row.c - what the rows of the op table share: messages, checks, rows and columns, slots. */
#include "lib/ops/row.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- checks ---------------------------------------------------------------------------------- */

zt_status zt_row_fail(zt_ctx *ctx, zt_status s, const char *fmt, ...)
{
    if (!ctx) return s;
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return zt_fail(ctx, s, "%s", text);
}

zt_status zt_row_want(zt_ctx *ctx, const char *name, const zt_type *type, zt_dtype dtype, int rank)
{
    if (type->dtype != dtype)
        return zt_row_fail(ctx, ZT_ESHAPE, "%s has type %s, expected %s", name, zt_dtype_get(type->dtype)->name,
                           zt_dtype_get(dtype)->name);
    if (rank >= 0 && type->rank != rank)
        return zt_row_fail(ctx, ZT_ESHAPE, "%s has %d dimensions, expected %d", name, type->rank, rank);
    return ZT_OK;
}

zt_status zt_row_want_index(zt_ctx *ctx, const char *name, const zt_type *type, int rank)
{
    if (type->dtype == ZT_I32 || type->dtype == ZT_I64) return zt_row_want(ctx, name, type, type->dtype, rank);
    return zt_row_fail(ctx, ZT_ESHAPE, "%s has type %s, expected i32 or i64", name, zt_dtype_get(type->dtype)->name);
}

zt_status zt_row_want_float(zt_ctx *ctx, const char *name, const zt_type *type)
{
    if (zt_dtype_get(type->dtype)->kind == 'F') return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "%s has dtype %s: must be a plain float type", name, zt_dtype_get(type->dtype)->name);
}

zt_status zt_row_want_plain(zt_ctx *ctx, const char *name, const zt_type *type)
{
    if (zt_dtype_get(type->dtype)->kind != 'Q') return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "%s has a block type, which is not supported", name);
}

zt_status zt_row_want_number(zt_ctx *ctx, const char *name, const zt_type *type)
{
    char kind = zt_dtype_get(type->dtype)->kind;
    if (kind == 'F' || kind == 'I' || kind == 'U') return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "%s has dtype %s: must be a plain float or integer type", name,
                       zt_dtype_get(type->dtype)->name);
}

bool zt_row_is_whole(double number) { return fabs(number) <= 0x1p53 && number == floor(number); }

zt_status zt_row_word(zt_ctx *ctx, const char *name, const zt_enum_string *w, const char *const *words, int n)
{
    char known[128] = "", got[4 * sizeof w->s + 1];
    size_t len = strnlen(w->s, sizeof w->s);
    for (int i = 0; i < n; i++) {
        if (strlen(words[i]) == len && !memcmp(words[i], w->s, len)) return ZT_OK;
        size_t at = strlen(known);
        snprintf(known + at, sizeof known - at, "%s%s", i ? " or " : "", words[i]);
    }
    return zt_row_fail(ctx, ZT_EUSAGE, "%s is '%s': must be %s", name, zt_escape(got, sizeof got, w->s, len), known);
}

zt_status zt_row_dtype(zt_ctx *ctx, const zt_enum_string *to, zt_dtype *out)
{
    char text[4 * sizeof to->s + 1];
    size_t len = strnlen(to->s, sizeof to->s);
    if (zt_dtype_parse(to->s, len, out)) return ZT_OK;
    return zt_row_fail(ctx, ZT_EUSAGE, "to is '%s', which is not a dtype", zt_escape(text, sizeof text, to->s, len));
}

zt_enum_string zt_row_word_of(zt_dtype dtype)
{
    zt_enum_string w = {{0}};
    const char *name = zt_dtype_get(dtype)->name;
    memcpy(w.s, name, strlen(name));
    return w;
}

int64_t zt_row_cols(const zt_type *type) { return type->rank ? type->dim[type->rank - 1] : 1; }

int64_t zt_row_rows(const zt_type *type)
{
    int64_t rows = 1;
    for (int d = 0; d + 1 < type->rank; d++) rows *= type->dim[d];
    return rows;
}

zt_status zt_row_axis(zt_ctx *ctx, int64_t axis, int rank)
{
    if (axis >= -rank && axis < rank) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "axis %lld is out of range for %d dimensions", (long long)axis, rank);
}

int zt_plain_axis(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }

void zt_row_move(const zt_arg *x, int64_t from, zt_arg *y, int64_t to)
{
    if (y->f)
        y->f[to] = x->f[from];
    else
        y->i[to] = x->i[from];
}

void zt_row_zero(zt_arg *y, int64_t to)
{
    if (y->f)
        y->f[to] = 0;
    else
        y->i[to] = 0;
}

int64_t zt_row_wrap(zt_dtype dtype, uint64_t v)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    int unused = 64 - 8 * info->block_bytes;
    return info->kind == 'I' ? (int64_t)(v << unused) >> unused : (int64_t)(v << unused >> unused);
}

zt_status zt_row_broadcast(zt_ctx *ctx, const zt_type *a, const zt_type *b, zt_type *y)
{
    *y = a->rank >= b->rank ? *a : *b;
    for (int d = 1; d <= a->rank && d <= b->rank; d++) {
        int64_t m = a->dim[a->rank - d], n = b->dim[b->rank - d];
        if (m != n && m != 1 && n != 1)
            return zt_row_fail(ctx, ZT_ESHAPE, "dimensions %lld and %lld cannot be broadcast", (long long)m, (long long)n);
        y->dim[y->rank - d] = m == 1 ? n : m;
    }
    return ZT_OK;
}

void zt_row_strides(const zt_type *type, const zt_type *out, int64_t stride[ZT_MAX_RANK])
{
    int64_t step = 1;
    for (int d = out->rank - 1; d >= 0; d--) {
        int own = d - (out->rank - type->rank);
        stride[d] = own >= 0 && type->dim[own] != 1 ? step : 0;
        if (own >= 0) step *= type->dim[own];
    }
}

void zt_row_runtime_error(zt_runtime_error *error, const char *what, int64_t value, int64_t limit)
{
    if (!error->what) *error = (zt_runtime_error){what, value, limit};
}

zt_status zt_infer_same_float(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    (void)attrs;
    out[0] = *in[0];
    return zt_row_want_float(ctx, "x", in[0]);
}

/* ---- the cache's slots ----------------------------------------------------------------------- */

zt_status zt_slots_infer(zt_ctx *ctx, int64_t n, int64_t rows, const zt_type *pos, const zt_type *seq, const zt_type *table)
{
    zt_status status = zt_row_want(ctx, "pos", pos, ZT_I32, 1);
    if (!status && pos->dim[0] != n)
        status = zt_row_fail(ctx, ZT_ESHAPE, "pos has %lld entries, expected %lld (rows)", (long long)pos->dim[0], (long long)n);
    if (!status && seq) status = zt_row_want(ctx, "seq", seq, ZT_I32, 1);
    if (!status && seq && seq->dim[0] != n)
        status = zt_row_fail(ctx, ZT_ESHAPE, "seq has %lld entries, expected %lld (rows)", (long long)seq->dim[0], (long long)n);
    if (!status && table) status = zt_row_want(ctx, "table", table, ZT_I32, 2);
    if (!status && table && (table->dim[1] < 1 || rows % table->dim[1]))
        status = zt_row_fail(ctx, ZT_ESHAPE, "the cache of %lld rows is not divisible into %lld blocks", (long long)rows,
                             (long long)table->dim[1]);
    return status;
}

zt_slots zt_slots_make(int64_t rows, const zt_arg *seq, const zt_arg *table)
{
    zt_slots s = {.ctx = rows, .S = 1, .B = 1, .block = rows};
    if (seq->type) s.seq = seq->i;
    if (!table->type) return s;
    s.table = table->i;
    s.S = table->type->dim[0];
    s.B = table->type->dim[1];
    s.block = rows / s.B;
    return s;
}

int64_t zt_slots_find(const zt_slots *s, int64_t t, int64_t p, zt_runtime_error *trouble)
{
    int64_t seq = s->seq ? s->seq[t] : 0;
    if (p < 0 || p >= s->ctx) {
        zt_row_runtime_error(trouble, "position", p, s->ctx);
        return -1;
    }
    if (seq < 0 || seq >= s->S) {
        zt_row_runtime_error(trouble, "sequence", seq, s->S);
        return -1;
    }
    if (!s->table) return p;
    int64_t block = s->table[seq * s->B + p / s->block];
    if (block < 0 || block >= s->B) {
        zt_row_runtime_error(trouble, "block", block, s->B);
        return -1;
    }
    return block * s->block + p % s->block;
}

void zt_slots_case(zt_case *test_case, int k, int64_t n, int64_t pos0, int64_t S, int64_t B)
{
    zt_case_in(test_case, k, ZT_FILL_RISING, pos0, ZT_I32, 1, &n);
    if (S > 0) zt_case_in(test_case, k + 1, ZT_FILL_IDS, S, ZT_I32, 1, &n);
    if (B > 0) zt_case_in(test_case, k + 2, ZT_FILL_PERM, B, ZT_I32, 2, (int64_t[]){S > 0 ? S : 1, B});
}

/* ---- refs and flops that rows share ---------------------------------------------------------- */

void zt_row_same_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)attrs, (void)error;
    size_t bytes = (size_t)zt_type_count(out->type) * sizeof(double);
    if (out[0].f)
        memmove(out[0].f, in[0].f, bytes);
    else
        memmove(out[0].i, in[0].i, bytes);
}

double zt_row_no_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in, (void)out;
    return 0;
}

double zt_row_picked_bytes(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    zt_type picked = out[0];
    (void)attrs;
    picked.dtype = in[0]->dtype;
    return (double)zt_type_bytes(&picked) + (double)zt_type_bytes(out) + (double)zt_type_bytes(in[1]);
}

double zt_row_in_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)out;
    return (double)zt_type_count(in[0]);
}

double zt_row_curve_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 10 * (double)zt_type_count(out);
}
