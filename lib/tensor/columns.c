/* columns.c - owns the guess at what columns of a matrix weigh, from its own numbers.
 *
 * Of what a layer reads a few places are far larger than the rest (in language models one of them
 * may hold half of all squares), and training keeps the weights that such a place meets small in
 * every row: the product is what is bounded. So a column that is small throughout is one whose
 * errors are multiplied by something large. With r, a column's sum of squares over the median
 * one's, it weighs 1 / r, or 1 / r^2 where the product goes straight on: bench/results/quant.md has
 * what that is worth.
 */
#include "lib/base/require.h"
#include "lib/tensor/quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_ROWS = 64 };                   /* of fewer rows nothing is guessed: sums differ by chance */
static const double MIN_RATIO = 1.0 / 30; /* a smaller ratio is taken as this */

static int compare_doubles(const void *left, const void *right)
{
    double first = *(const double *)left, second = *(const double *)right;
    return (first > second) - (first < second);
}

/* Sums of squares of `columns` columns, in order of rows. */
static void sum_squares(const float *values, int64_t rows, int64_t columns, double *sum)
{
    for (int64_t column = 0; column < columns; column++) sum[column] = 0;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < columns; column++)
            sum[column] += (double)values[row * columns + column] * (double)values[row * columns + column];
}

/* The middle one of count > 0 numbers, which are put in order; NaN counts as 0. */
static double median_of(double *numbers, int64_t count)
{
    for (int64_t j = 0; j < count; j++) numbers[j] = isnan(numbers[j]) ? 0 : numbers[j];
    qsort(numbers, (size_t)count, sizeof *numbers, compare_doubles);
    return numbers[count / 2];
}

zt_status zt_column_weights(zt_ctx *ctx, const float *values, int64_t rows, int64_t columns, int power, float *weights, bool *any)
{
    ZT_REQUIRE(ctx, weights && any, ZT_EUSAGE);
    ZT_REQUIRE(ctx, (values || !(rows && columns)) && rows >= 0 && columns >= 0, ZT_EUSAGE);
    *any = false;
    for (int64_t column = 0; column < columns; column++) weights[column] = 1;
    if (rows < MIN_ROWS || columns < 1) return ZT_OK;
    double *sum = zt_alloc_array(ctx, (size_t)columns, 2 * sizeof *sum);
    if (!sum) return ZT_ENOMEM;
    sum_squares(values, rows, columns, sum);
    memcpy(sum + columns, sum, (size_t)columns * sizeof *sum);
    double median = median_of(sum + columns, columns);
    for (int64_t column = 0; column < columns; column++) {
        double ratio = sum[column] / median;
        if (!(sum[column] > 0 && ratio < 1)) continue; /* what is 0 in all rows tells nothing */
        ratio = ratio < MIN_RATIO ? MIN_RATIO : ratio;
        weights[column] = (float)(power == 2 ? 1 / (ratio * ratio) : 1 / ratio);
        *any = true;
    }
    zt_free(ctx, sum);
    return ZT_OK;
}
