/* quantize.c - owns the list of quantizers, what they refuse, and the measure of what is lost. */
#include "lib/tensor/quantize.h"

#include "lib/tensor/encode.h"

#include <math.h>
#include <string.h>

/* ---- the quantizers -------------------------------------------------------------------------- */

static const zt_encoder *const lists[ZT_ISA_COUNT] = {
    [ZT_ISA_SCALAR] = zt_encoders_scalar,
#if defined(ZT_HAVE_AVX2)
    [ZT_ISA_AVX2] = zt_encoders_avx2,
#endif
#if defined(ZT_HAVE_AVX512)
    [ZT_ISA_AVX512] = zt_encoders_avx512,
#endif
};

static const zt_plain *const plains[ZT_ISA_COUNT] = {
    [ZT_ISA_SCALAR] = &zt_plain_scalar,
#if defined(ZT_HAVE_AVX2)
    [ZT_ISA_AVX2] = &zt_plain_avx2,
#endif
#if defined(ZT_HAVE_AVX512)
    [ZT_ISA_AVX512] = &zt_plain_avx512,
#endif
};

const zt_plain *zt_plain_of(zt_isa isa) { return plains[isa]; }

const zt_encoder *zt_encoder_find(zt_isa isa, zt_dtype t)
{
    const zt_encoder *e = (unsigned)isa < ZT_ISA_COUNT ? lists[isa] : NULL;
    while (e && e->dtype != t && e->dtype != ZT_DTYPE_COUNT) e++;
    return e && e->dtype == t && t != ZT_DTYPE_COUNT ? e : NULL;
}

/* Floats that need no scale: their quantizer is their codec. */
static bool plain(zt_dtype t) { return t == ZT_F64 || t == ZT_F32 || t == ZT_F16 || t == ZT_BF16; }

bool zt_quantize_has(zt_dtype t) { return plain(t) || zt_encoder_find(ZT_ISA_SCALAR, t); }

bool zt_quantize_weighs(zt_dtype t)
{
    const zt_encoder *e = zt_encoder_find(ZT_ISA_SCALAR, t);
    return e && e->search;
}

bool zt_quantize_has_rule(zt_dtype t)
{
    const zt_encoder *e = zt_encoder_find(ZT_ISA_SCALAR, t);
    return plain(t) || (e && e->exact);
}

float zt_quantize_most(zt_dtype t)
{
    const zt_encoder *e = zt_encoder_find(ZT_ISA_SCALAR, t);
    double least, most;
    if (e) return e->most;
    if (!plain(t)) return 0;
    zt_dtype_range(t, &least, &most);
    return most > 0x1.fffffep127 ? 0x1.fffffep127f : (float)most;
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* The first of n numbers whose magnitude is above most or that is NaN; n: none. */
static int64_t first_above(const float *x, int64_t n, float most)
{
    if (!zt_plain_of(zt_isa_best())->any_above(x, n, most)) return n;
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(x[i]) <= most)) return i;
    return n;
}

static zt_status refuse(zt_ctx *ctx, const zt_quantizer *q, const float *x, int64_t at, float most)
{
    const char *type = zt_dtype_get(q->dtype)->name;
    long long row = (long long)(q->first_row + at / q->n), column = (long long)(at % q->n);
    const char *before = q->name ? "tensor '" : "", *name = q->name ? q->name : "";
    const char *after = q->name ? "': " : "";
    if (isfinite(x[at]))
        return zt_fail(ctx, ZT_EDATA, "%s%s%srow %lld, column %lld is %g: %s reaches %g", before,
                       name, after, row, column, (double)x[at], type, (double)most);
    return zt_fail(ctx, ZT_EDATA, "%s%s%srow %lld, column %lld is %s", before, name, after, row,
                   column, isnan(x[at]) ? "NaN" : "infinite");
}

static zt_status check_importance(zt_ctx *ctx, const zt_quantizer *q, double *mean)
{
    const char *name = q->name ? q->name : "";
    double sum = 0;
    for (int64_t i = 0; i < q->n; i++) {
        float w = q->importance[i];
        if (!(w >= 0) || isinf(w))
            return zt_fail(ctx, ZT_EDATA, "importance of %s: column %lld is %g", name, (long long)i,
                           (double)w);
        sum += w;
    }
    *mean = sum / (double)(q->n ? q->n : 1);
    return ZT_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

enum { PIECE = 4096 }; /* elements whose weights are made at once: whole blocks of every type */

/* `many` rows of columns at..at+m-1 at once, whose weights lie one after another. */
static void run_weighed_part(const zt_encoder *by, const zt_quantizer *q, double mean,
                             const float *x, int64_t rows, uint8_t *out, int64_t at, int64_t m,
                             int64_t many)
{
    const zt_dtype_info *d = zt_dtype_get(q->dtype);
    size_t stride = (size_t)(q->n / d->block * d->block_bytes);
    float w[PIECE];
    /* No weight is 0: where all of a block are, its codes are still those that are nearest. */
    for (int64_t i = 0; i < m; i++) w[i] = (float)((double)q->importance[at + i] / mean + 1e-6);
    for (int64_t r = 1; r < many; r++) memcpy(w + r * m, w, (size_t)m * sizeof *w);
    for (int64_t r = 0; r < rows; r += many)
        by->search(x + r * q->n + at, w, m * (rows - r < many ? rows - r : many),
                   out + (size_t)r * stride + (size_t)(at / d->block * d->block_bytes));
}

/* Short rows several at once: a search works on many blocks. */
static void run_weighed(const zt_encoder *by, const zt_quantizer *q, double mean, const float *x,
                        int64_t rows, uint8_t *out)
{
    int64_t many = q->n > 0 && q->n <= PIECE ? PIECE / q->n : 1;
    for (int64_t at = 0; at < q->n; at += PIECE)
        run_weighed_part(by, q, mean, x, rows, out, at, q->n - at < PIECE ? q->n - at : PIECE,
                         many);
}

static zt_quantize_fn *unweighed(const zt_encoder *by, bool search)
{
    return by->search && (search || !by->exact) ? by->search : by->exact;
}

zt_status zt_quantize_rows(zt_ctx *ctx, const zt_quantizer *q, const float *x, int64_t rows,
                           void *out)
{
    const zt_dtype_info *d = zt_dtype_get(q->dtype);
    const zt_encoder *by = zt_encoder_find(zt_isa_best(), q->dtype);
    float most = zt_quantize_most(q->dtype);
    double mean = 0;
    if (!zt_quantize_has(q->dtype))
        return zt_fail(ctx, ZT_ENOTSUP, "no quantizer of %s", d ? d->name : "this type");
    if (q->n < 0 || rows < 0 || q->n % d->block)
        return zt_fail(ctx, ZT_ESHAPE, "rows of %lld are no whole blocks of %s (%d)",
                       (long long)q->n, d->name, d->block);
    int64_t n = q->n * rows, bad = first_above(x, n, most);
    if (bad < n) return refuse(ctx, q, x, bad, most);
    if (q->importance) {
        zt_status s = check_importance(ctx, q, &mean);
        if (s) return s;
    }
    if (!by)
        d->encode(x, out, n);
    else if (mean > 0 && by->search)
        run_weighed(by, q, mean, x, rows, out);
    else
        unweighed(by, q->search)(x, NULL, n, out);
    return ZT_OK;
}

/* ---- what is lost ---------------------------------------------------------------------------- */

void zt_loss_add(zt_loss_of *l, const float *x, const float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double a = x[i], b = y[i], e = b - a;
        l->error2 += e * e;
        l->x2 += a * a;
        l->y2 += b * b;
        l->xy += a * b;
        if (fabs(e) > l->most) l->most = fabs(e);
    }
    l->n += n;
}

double zt_loss_rmse(const zt_loss_of *l) { return l->n ? sqrt(l->error2 / (double)l->n) : 0; }

double zt_loss_cosine(const zt_loss_of *l)
{
    double both = sqrt(l->x2) * sqrt(l->y2);
    return both > 0 ? l->xy / both : l->x2 == l->y2;
}

double zt_loss_snr(const zt_loss_of *l)
{
    return l->error2 > 0 ? 10 * log10(l->x2 / l->error2) : INFINITY;
}
