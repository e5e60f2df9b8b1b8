/* moe_gates.c - owns the rows of a mixture's routers as numbers: random ones, and how far those of the experts differ. */
#include "lib/base/require.h"
#include "lib/dna/moe_internal.h"

#include <math.h>

/* Philox, Box-Muller. */
double zt_moe_normal(uint64_t seed, uint64_t sequence, int64_t index)
{
    const double turn = 6.283185307179586;
    uint32_t words[4];
    zt_philox(seed, sequence, (uint64_t)index / 2, words);
    double length = sqrt(-2 * log((words[0] + 0.5) / 0x1p32)), angle = turn * ((words[1] + 0.5) / 0x1p32);
    return length * (index % 2 ? sin(angle) : cos(angle));
}

void zt_moe_random_gates(const zt_moe_config *config, const zt_moe_shape *shape, uint64_t seed, float *gates)
{
    if (!config || !shape || !gates) return;
    const int64_t count = shape->layers * (config->expert_count + config->shared_count) * shape->width;
    const double bound = 1 / sqrt((double)shape->width);
    for (int64_t i = 0; i < count; i++) {
        uint32_t words[4];
        zt_philox(seed, 1, (uint64_t)i / 4, words);
        gates[i] =
            (float)(config->gates == ZT_MOE_UNIFORM ? ((words[i % 4] + 0.5) / 0x1p31 - 1) * bound : zt_moe_normal(seed, 0, i));
    }
}

/* ---- condition --------------------------------------------------------------------------------- */

static void multiply_rows(const float *gates, int64_t rows, int64_t width, double *table)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t k = 0; k < width; k++) sum += (double)gates[i * width + k] * gates[j * width + k];
            table[i * rows + j] = table[j * rows + i] = sum;
        }
}

/* Makes cell (p, q) of the symmetric table 0 by a rotation of rows and columns p and q. */
static void rotate_pair(double *table, int64_t rows, int64_t p, int64_t q)
{
    double off = table[p * rows + q];
    if (off == 0) return;
    double half = (table[q * rows + q] - table[p * rows + p]) / (2 * off);
    double tangent = (half >= 0 ? 1 : -1) / (fabs(half) + sqrt(half * half + 1)), cosine = 1 / sqrt(tangent * tangent + 1);
    double sine = tangent * cosine;
    for (int64_t k = 0; k < rows; k++) {
        double left = table[k * rows + p], right = table[k * rows + q];
        table[k * rows + p] = cosine * left - sine * right;
        table[k * rows + q] = sine * left + cosine * right;
    }
    for (int64_t k = 0; k < rows; k++) {
        double left = table[p * rows + k], right = table[q * rows + k];
        table[p * rows + k] = cosine * left - sine * right;
        table[q * rows + k] = sine * left + cosine * right;
    }
}

/* The ratio of the largest and the smallest singular value of [rows, width]; infinity: they are not independent. table: room
 * for rows * rows. */
static double find_condition(const float *gates, int64_t rows, int64_t width, double *table)
{
    enum { SWEEPS = 12 };
    multiply_rows(gates, rows, width, table);
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (int64_t p = 0; p < rows; p++)
            for (int64_t q = p + 1; q < rows; q++) rotate_pair(table, rows, p, q);
    double least = table[0], most = table[0];
    for (int64_t i = 1; i < rows; i++) {
        least = fmin(least, table[i * rows + i]);
        most = fmax(most, table[i * rows + i]);
    }
    return least > 0 ? sqrt(most / least) : INFINITY;
}

int64_t zt_moe_similar_layers(zt_ctx *ctx, const zt_moe_config *config, const zt_moe_shape *shape, const float *gates)
{
    ZT_REQUIRE(ctx, config && shape && gates && config->expert_count > 0, -1);
    const int64_t rows = config->expert_count + config->shared_count;
    int64_t similar = 0;
    double *table = zt_alloc_array(ctx, (size_t)rows * (size_t)rows, sizeof *table);
    if (!table) return -1;
    for (int64_t layer = 0; layer < shape->layers; layer++)
        similar += find_condition(gates + layer * rows * shape->width, rows, shape->width, table) > 5;
    zt_free(ctx, table);
    return similar;
}
