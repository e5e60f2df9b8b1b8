/* columns.c - owns the guess at what columns of a matrix weigh, from its own numbers.
 *
 * Of what a layer reads a few places are far larger than the rest (in language models one of them
 * may hold half of all squares), and training keeps the weights that such a place meets small in
 * every row: the product is what is bounded. So a column that is small throughout is one whose
 * errors are multiplied by something large. With r, a column's sum of squares over the median
 * one's, it weighs 1 / r, or 1 / r^2 where the product goes straight on: bench/results/quant.md has
 * what that is worth.
 */
#include "lib/tensor/quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 64 };                    /* of fewer rows nothing is guessed: sums differ by chance */
static const double LEAST = 1.0 / 30; /* smaller than this r is taken as this */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sums of squares of n columns, in order of rows. */
static void sum_squares(const float *x, int64_t rows, int64_t n, double *sum)
{
    for (int64_t j = 0; j < n; j++) sum[j] = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j++) sum[j] += (double)x[r * n + j] * (double)x[r * n + j];
}

/* The middle one of n > 0 numbers, which are put in order; NaN counts as 0. */
static double median_of(double *x, int64_t n)
{
    for (int64_t j = 0; j < n; j++) x[j] = isnan(x[j]) ? 0 : x[j];
    qsort(x, (size_t)n, sizeof *x, by_size);
    return x[n / 2];
}

zt_status zt_column_weights(zt_ctx *ctx, const float *x, int64_t rows, int64_t n, int power,
                            float *w, bool *any)
{
    *any = false;
    for (int64_t j = 0; j < n; j++) w[j] = 1;
    if (rows < FEW || n < 1) return ZT_OK;
    double *sum = zt_alloc_array(ctx, (size_t)n, 2 * sizeof *sum);
    if (!sum) return ZT_ENOMEM;
    sum_squares(x, rows, n, sum);
    memcpy(sum + n, sum, (size_t)n * sizeof *sum);
    double median = median_of(sum + n, n);
    for (int64_t j = 0; j < n; j++) {
        double r = sum[j] / median;
        if (!(sum[j] > 0 && r < 1)) continue; /* what is 0 in all rows tells nothing */
        r = r < LEAST ? LEAST : r;
        w[j] = (float)(power == 2 ? 1 / (r * r) : 1 / r);
        *any = true;
    }
    zt_free(ctx, sum);
    return ZT_OK;
}
