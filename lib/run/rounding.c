/* rounding.c - owns how large the error is that rounding of activations makes in a product: from the
 * numbers that are there, where the bound of the op, which knows types alone, is too small. */
#include "lib/run/rounding.h"

#include "lib/engine/convert.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 32 }; /* activations are rounded in blocks of so many, by their largest */

/* Which input is the weight of output k; -1: the op is no product, or more than one. */
static int weight_of(zt_op op, int k)
{
    switch (op) {
    case ZT_OP_linear:
    case ZT_OP_linear_act:
    case ZT_OP_linear_add: return 1;
    case ZT_OP_linears: return 1 + k;
    default: return -1;
    }
}

/* Sums of squares of all rows' weights, for each block of columns; w is [rows, cols]. */
static void add_squares(const zt_type *t, const char *w, double *row, double *squares)
{
    const zt_dtype_info *info = zt_dtype_get(t->dtype);
    int64_t cols = t->dim[1];
    size_t bytes = (size_t)(cols / info->block) * (size_t)info->block_bytes;
    for (int64_t r = 0; r < t->dim[0]; r++) {
        zt_widen(t->dtype, w + (size_t)r * bytes, row, cols);
        for (int64_t c = 0; c < cols; c++) squares[c / BLOCK] += row[c] * row[c];
    }
}

/* Of rows of x: a block whose largest is `most` is rounded to steps of most / levels, whose error has
 * a variance of a twelfth of a step's square, and meets the weights of its columns. */
static double add_errors(const zt_type *t, const char *x, double levels, const double *squares,
                         double *row)
{
    int64_t cols = t->dim[t->rank - 1], count = zt_type_count(t);
    size_t bytes = (size_t)cols * (size_t)zt_dtype_get(t->dtype)->block_bytes;
    double sum = 0;
    for (int64_t r = 0; r < count / cols; r++) {
        zt_widen(t->dtype, x + (size_t)r * bytes, row, cols);
        for (int64_t at = 0; at < cols; at += BLOCK) {
            double most = 0;
            for (int64_t c = at; c < cols && c < at + BLOCK; c++) most = fmax(most, fabs(row[c]));
            sum += most * most / levels / levels / 12 * squares[at / BLOCK];
        }
    }
    return sum;
}

double zt_rounding_error(zt_walk *walk, int step, int k)
{
    const zt_bound *b = zt_walk_bound(walk);
    const zt_step *st = zt_prog_step(zt_walk_prog(walk), step);
    const zt_type *in[ZT_MAX_IN] = {0};
    for (int i = 0; i < ZT_MAX_IN; i++) in[i] = st->in[i] >= 0 ? &b->type[st->in[i]] : NULL;
    int w = weight_of(st->op, k), bits = zt_op_rounds(st->op, b->attrs[step], in);
    if (w < 0 || !bits || !in[0] || !in[w] || in[w]->rank != 2 || in[0]->rank < 1) return 0;
    int64_t cols = in[w]->dim[1];
    if (cols < 1 || in[0]->dim[in[0]->rank - 1] != cols || zt_dtype_get(in[0]->dtype)->kind != 'F')
        return 0;
    zt_ctx *ctx = zt_walk_ctx(walk);
    const void *x = zt_walk_get(walk, st->in[0]), *weight = x ? zt_walk_get(walk, st->in[w]) : NULL;
    double *row = weight ? zt_alloc_array(ctx, (size_t)cols, 2 * sizeof *row) : NULL, error = 0;
    if (row) {
        memset(row + cols, 0, (size_t)cols * sizeof *row);
        add_squares(in[w], weight, row, row + cols);
        error = add_errors(in[0], x, bits == 8 ? 127 : 127 * 254, row + cols, row);
    }
    zt_free(ctx, row);
    return error;
}
