/* rounding.c - owns how large the error is that rounding of activations makes in a product: from the
 * numbers that are there, where the bound of the op, which knows types alone, is too small. */
#include "lib/run/rounding.h"

#include "lib/engine/convert.h"
#include "lib/ops/linear.h"

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

/* How the first input is rounded: in blocks, by steps of the largest over `levels`; 0: to bf16. */
typedef struct rounding {
    double levels;
    int weight; /* the input that it is multiplied by */
} rounding;

static bool find_rounding(const zt_step *step, const void *attrs, int k, const zt_type *const input_types[],
                          rounding *r)
{
    int bits = zt_op_rounds(step->op, attrs, input_types);
    const zt_enum_string *act = zt_op_act(step->op, attrs ? attrs : zt_op_info(step->op)->defaults, k);
    *r = (rounding){.levels = bits == 8 ? 127 : bits == 16 ? 127 * 254 : 0,
                    .weight = weight_of(step->op, k)};
    const zt_type *w = r->weight < 0 ? NULL : input_types[r->weight], *x = input_types[0];
    if (!w || !x || w->rank != 2 || x->rank < 1 || w->dim[1] < 1 ||
        x->dim[x->rank - 1] != w->dim[1] || zt_dtype_get(x->dtype)->kind != 'F')
        return false;
    return bits || (w->dtype == ZT_BF16 && act && act->s[0] == 'q');
}

/* Sums of squares of the weights of each column; w is [rows, cols]. */
static void add_squares(const zt_type *type, const char *w, double *row, double *squares)
{
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    int64_t cols = type->dim[1];
    size_t bytes = (size_t)(cols / info->block) * (size_t)info->block_bytes;
    for (int64_t r = 0; r < type->dim[0]; r++) {
        zt_widen(type->dtype, w + (size_t)r * bytes, row, cols);
        for (int64_t c = 0; c < cols; c++) squares[c] += row[c] * row[c];
    }
}

/* The distance of two neighbours of x in bf16, which has 8 bits. */
static double step_of_bf16(double x)
{
    int exponent;
    frexp(x, &exponent);
    return x == 0 || !isfinite(x) ? 0 : ldexp(1, exponent - 8);
}

/* Of n columns that are rounded together: what is rounded to steps is off by a twelfth of a step's
 * square on average, which meets the weights of its column. */
static double block_error(const rounding *r, const double *x, const double *squares, int64_t n)
{
    double most = 0, sum = 0;
    for (int64_t c = 0; c < n; c++) most = fmax(most, fabs(x[c]));
    for (int64_t c = 0; c < n; c++) {
        double step = r->levels > 0 ? most / r->levels : step_of_bf16(x[c]);
        sum += step * step / 12 * squares[c];
    }
    return sum;
}

static double add_errors(const rounding *how, const zt_type *type, const char *x,
                         const double *squares, double *row)
{
    int64_t cols = type->dim[type->rank - 1], count = zt_type_count(type);
    size_t bytes = (size_t)cols * (size_t)zt_dtype_get(type->dtype)->block_bytes;
    double sum = 0;
    for (int64_t r = 0; r < count / cols; r++) {
        zt_widen(type->dtype, x + (size_t)r * bytes, row, cols);
        for (int64_t at = 0; at < cols; at += BLOCK)
            sum += block_error(how, row + at, squares + at, cols - at < BLOCK ? cols - at : BLOCK);
    }
    return sum;
}

double zt_rounding_error(zt_interpreter *walk, int step, int k)
{
    const zt_bound *bound = zt_interpreter_bound(walk);
    const zt_step *st = zt_prog_step(zt_interpreter_prog(walk), step);
    const zt_type *input_types[ZT_MAX_IN] = {0};
    rounding r;
    for (int i = 0; i < ZT_MAX_IN; i++) input_types[i] = st->in[i] >= 0 ? &bound->type[st->in[i]] : NULL;
    if (!find_rounding(st, bound->attrs[step], k, input_types, &r)) return 0;
    zt_ctx *ctx = zt_interpreter_ctx(walk);
    int64_t cols = input_types[r.weight]->dim[1];
    const void *x = zt_interpreter_get(walk, st->in[0]);
    const void *weight = x ? zt_interpreter_get(walk, st->in[r.weight]) : NULL;
    double *row = weight ? zt_alloc_array(ctx, (size_t)cols, 2 * sizeof *row) : NULL, error = 0;
    if (row) {
        memset(row + cols, 0, (size_t)cols * sizeof *row);
        add_squares(input_types[r.weight], weight, row, row + cols);
        error = add_errors(&r, input_types[0], x, row + cols, row);
    }
    zt_free(ctx, row);
    return error;
}
