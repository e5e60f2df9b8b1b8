/* quantize.c - owns the list of quantizers, what they refuse, and the measure of what is lost. */
#include "lib/base/require.h"
#include "lib/tensor/quantize.h"

#include "lib/tensor/encode.h"

#include <math.h>
#include <string.h>

/* ---- the quantizers -------------------------------------------------------------------------- */

static const zt_encoder *const encoder_lists[ZT_ISA_COUNT] = {
    [ZT_ISA_SCALAR] = zt_encoders_scalar,
#if defined(ZT_HAVE_AVX2)
    [ZT_ISA_AVX2] = zt_encoders_avx2,
#endif
#if defined(ZT_HAVE_AVX512)
    [ZT_ISA_AVX512] = zt_encoders_avx512,
#endif
#if defined(ZT_HAVE_NEON)
    [ZT_ISA_NEON] = zt_encoders_neon,
#endif
#if defined(ZT_HAVE_DOTPROD)
    [ZT_ISA_DOTPROD] = zt_encoders_dotprod,
#endif
};

static const zt_plain *const plain_codecs[ZT_ISA_COUNT] = {
    [ZT_ISA_SCALAR] = &zt_plain_scalar,
#if defined(ZT_HAVE_AVX2)
    [ZT_ISA_AVX2] = &zt_plain_avx2,
#endif
#if defined(ZT_HAVE_AVX512)
    [ZT_ISA_AVX512] = &zt_plain_avx512,
#endif
#if defined(ZT_HAVE_NEON)
    [ZT_ISA_NEON] = &zt_plain_neon,
#endif
#if defined(ZT_HAVE_DOTPROD)
    [ZT_ISA_DOTPROD] = &zt_plain_dotprod,
#endif
};

const zt_plain *zt_plain_of(zt_isa isa) { return plain_codecs[isa]; }

const zt_encoder *zt_encoder_find(zt_isa isa, zt_dtype dtype)
{
    const zt_encoder *encoder = (unsigned)isa < ZT_ISA_COUNT ? encoder_lists[isa] : NULL;
    while (encoder && encoder->dtype != dtype && encoder->dtype != ZT_DTYPE_COUNT) encoder++;
    return encoder && encoder->dtype == dtype && dtype != ZT_DTYPE_COUNT ? encoder : NULL;
}

/* Floats that need no scale: their quantizer is their codec. */
static bool is_plain_float(zt_dtype dtype) { return dtype == ZT_F64 || dtype == ZT_F32 || dtype == ZT_F16 || dtype == ZT_BF16; }

bool zt_quantize_has(zt_dtype dtype) { return is_plain_float(dtype) || zt_encoder_find(ZT_ISA_SCALAR, dtype); }

bool zt_quantize_weighs(zt_dtype dtype)
{
    const zt_encoder *encoder = zt_encoder_find(ZT_ISA_SCALAR, dtype);
    return encoder && encoder->search;
}

bool zt_quantize_has_rule(zt_dtype dtype)
{
    const zt_encoder *encoder = zt_encoder_find(ZT_ISA_SCALAR, dtype);
    return is_plain_float(dtype) || (encoder && encoder->exact);
}

float zt_quantize_most(zt_dtype dtype)
{
    const zt_encoder *encoder = zt_encoder_find(ZT_ISA_SCALAR, dtype);
    double least, most;
    if (encoder) return encoder->most;
    if (!is_plain_float(dtype)) return 0;
    zt_dtype_range(dtype, &least, &most);
    return most > 0x1.fffffep127 ? 0x1.fffffep127f : (float)most;
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* The first of `count` numbers whose magnitude is above `limit` or that is NaN; `count`: none. */
static int64_t first_above(const float *values, int64_t count, float limit)
{
    if (!zt_plain_of(zt_isa_best())->any_above(values, count, limit)) return count;
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(values[i]) <= limit)) return i;
    return count;
}

static zt_status refuse_value(zt_ctx *ctx, const zt_quantizer *quantizer, const float *values, int64_t index, float limit)
{
    const char *type = zt_dtype_get(quantizer->dtype)->name;
    long long row = (long long)(quantizer->first_row + index / quantizer->columns),
              column = (long long)(index % quantizer->columns);
    const char *before = quantizer->name ? "tensor '" : "", *name = quantizer->name ? quantizer->name : "";
    const char *after = quantizer->name ? "': " : "";
    if (isfinite(values[index]))
        return zt_fail(ctx, ZT_EDATA, "%s%s%srow %lld, column %lld is %g: the range of %s ends at %g", before, name, after, row,
                       column, (double)values[index], type, (double)limit);
    return zt_fail(ctx, ZT_EDATA, "%s%s%srow %lld, column %lld is %s", before, name, after, row, column,
                   isnan(values[index]) ? "NaN" : "infinite");
}

static zt_status check_importance(zt_ctx *ctx, const zt_quantizer *quantizer, double *mean)
{
    const char *name = quantizer->name ? quantizer->name : "";
    double sum = 0;
    for (int64_t i = 0; i < quantizer->columns; i++) {
        float weight = quantizer->importance[i];
        if (!(weight >= 0) || isinf(weight))
            return zt_fail(ctx, ZT_EDATA, "importance of %s: column %lld is %g: must be finite and nonnegative", name,
                           (long long)i, (double)weight);
        sum += weight;
    }
    *mean = sum / (double)(quantizer->columns ? quantizer->columns : 1);
    return ZT_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

enum { PIECE = 4096 }; /* elements whose weights are made at once: whole blocks of every type */

/* `row_group` rows of columns column .. column + part - 1 at once, whose weights lie one after another. */
static void run_weighed_part(const zt_encoder *encoder, const zt_quantizer *quantizer, double mean, const float *values,
                             int64_t rows, uint8_t *out, int64_t column, int64_t part, int64_t row_group)
{
    const zt_dtype_info *info = zt_dtype_get(quantizer->dtype);
    size_t stride = (size_t)(quantizer->columns / info->block * info->block_bytes);
    float weights[PIECE];
    /* No weight is 0: where all of a block are, its codes are still those that are nearest. */
    for (int64_t i = 0; i < part; i++) weights[i] = (float)((double)quantizer->importance[column + i] / mean + 1e-6);
    for (int64_t row = 1; row < row_group; row++) memcpy(weights + row * part, weights, (size_t)part * sizeof *weights);
    for (int64_t row = 0; row < rows; row += row_group)
        encoder->search(values + row * quantizer->columns + column, weights,
                        part * (rows - row < row_group ? rows - row : row_group),
                        out + (size_t)row * stride + (size_t)(column / info->block * info->block_bytes));
}

/* Short rows several at once: a search works on many blocks. */
static void run_weighed(const zt_encoder *encoder, const zt_quantizer *quantizer, double mean, const float *values, int64_t rows,
                        uint8_t *out)
{
    int64_t row_group = quantizer->columns > 0 && quantizer->columns <= PIECE ? PIECE / quantizer->columns : 1;
    for (int64_t column = 0; column < quantizer->columns; column += PIECE)
        run_weighed_part(encoder, quantizer, mean, values, rows, out, column,
                         quantizer->columns - column < PIECE ? quantizer->columns - column : PIECE, row_group);
}

static zt_quantize_fn *choose_unweighed(const zt_encoder *encoder, bool search)
{
    return encoder->search && (search || !encoder->exact) ? encoder->search : encoder->exact;
}

zt_status zt_quantize_rows(zt_ctx *ctx, const zt_quantizer *quantizer, const float *values, int64_t rows, void *out)
{
    ZT_REQUIRE(ctx, quantizer, ZT_EUSAGE);
    const zt_dtype_info *info = zt_dtype_get(quantizer->dtype);
    const zt_encoder *encoder = zt_encoder_find(zt_isa_best(), quantizer->dtype);
    float limit = zt_quantize_most(quantizer->dtype);
    double mean = 0;
    if (!zt_quantize_has(quantizer->dtype))
        return zt_fail(ctx, ZT_ENOTSUP, "quantization to %s is not supported", info ? info->name : "this type");
    if (quantizer->columns < 0 || rows < 0 || quantizer->columns % info->block)
        return zt_fail(ctx, ZT_ESHAPE, "row length %lld is not a multiple of the block size of %s (%d)",
                       (long long)quantizer->columns, info->name, info->block);
    int64_t count = quantizer->columns * rows, refused = first_above(values, count, limit);
    if (refused < count) return refuse_value(ctx, quantizer, values, refused, limit);
    if (quantizer->importance) {
        zt_status status = check_importance(ctx, quantizer, &mean);
        if (status) return status;
    }
    if (!encoder)
        info->encode(values, out, count);
    else if (mean > 0 && encoder->search)
        run_weighed(encoder, quantizer, mean, values, rows, out);
    else
        choose_unweighed(encoder, quantizer->search)(values, NULL, count, out);
    return ZT_OK;
}

/* ---- what is lost ---------------------------------------------------------------------------- */

void zt_loss_add(zt_loss_of *loss, const float *originals, const float *results, int64_t count)
{
    if (!loss || !originals || (!results && count)) return;
    for (int64_t i = 0; i < count; i++) {
        double original = originals[i], result = results[i], error = result - original;
        loss->error2 += error * error;
        loss->x2 += original * original;
        loss->y2 += result * result;
        loss->xy += original * result;
        if (fabs(error) > loss->most) loss->most = fabs(error);
    }
    loss->count += count;
}

double zt_loss_rmse(const zt_loss_of *loss) { return loss ? (loss->count ? sqrt(loss->error2 / (double)loss->count) : 0) : 0; }

double zt_loss_cosine(const zt_loss_of *loss)
{
    if (!loss) return 0;
    double both = sqrt(loss->x2) * sqrt(loss->y2);
    return both > 0 ? loss->xy / both : loss->x2 == loss->y2;
}

double zt_loss_snr(const zt_loss_of *loss)
{
    return loss ? (loss->error2 > 0 ? 10 * log10(loss->x2 / loss->error2) : INFINITY) : 0;
}
