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
typedef struct rounding_kind {
    double levels;
    int weight; /* the input that it is multiplied by */
} rounding_kind;

static bool find_rounding(const zt_step *step, const void *attrs, int k, const zt_type *const input_types[],
                          rounding_kind *rounding)
{
    int bits = zt_op_rounds(step->op, attrs, input_types);
    const zt_enum_string *act = zt_op_act(step->op, attrs ? attrs : zt_op_info(step->op)->defaults, k);
    *rounding = (rounding_kind){.levels = bits == 8 ? 127 : bits == 16 ? 127 * 254 : 0, .weight = weight_of(step->op, k)};
    const zt_type *weight = rounding->weight < 0 ? NULL : input_types[rounding->weight], *input = input_types[0];
    if (!weight || !input || weight->rank != 2 || input->rank < 1 || weight->dim[1] < 1 ||
        input->dim[input->rank - 1] != weight->dim[1] || zt_dtype_get(input->dtype)->kind != 'F')
        return false;
    return bits || (weight->dtype == ZT_BF16 && act && act->s[0] == 'q');
}

/* Sums of squares of the weights of each column; weights is [rows, cols]. */
static void add_squares(const zt_type *type, const char *weights, double *row, double *squares)
{
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    int64_t cols = type->dim[1];
    size_t bytes = (size_t)(cols / info->block) * (size_t)info->block_bytes;
    for (int64_t row_index = 0; row_index < type->dim[0]; row_index++) {
        zt_widen(type->dtype, weights + (size_t)row_index * bytes, row, cols);
        for (int64_t column = 0; column < cols; column++) squares[column] += row[column] * row[column];
    }
}

/* The distance of two neighbours of value in bf16, which has 8 bits. */
static double step_of_bf16(double value)
{
    int exponent;
    frexp(value, &exponent);
    return value == 0 || !isfinite(value) ? 0 : ldexp(1, exponent - 8);
}

/* Of count columns that are rounded together: what is rounded to steps is off by a twelfth of a step's
 * square on average, which meets the weights of its column. */
static double block_error(const rounding_kind *rounding, const double *values, const double *squares, int64_t count)
{
    double most = 0, sum = 0;
    for (int64_t column = 0; column < count; column++) most = fmax(most, fabs(values[column]));
    for (int64_t column = 0; column < count; column++) {
        double step = rounding->levels > 0 ? most / rounding->levels : step_of_bf16(values[column]);
        sum += step * step / 12 * squares[column];
    }
    return sum;
}

static double add_errors(const rounding_kind *rounding, const zt_type *type, const char *values, const double *squares,
                         double *row)
{
    int64_t cols = type->dim[type->rank - 1], count = zt_type_count(type);
    size_t bytes = (size_t)cols * (size_t)zt_dtype_get(type->dtype)->block_bytes;
    double sum = 0;
    for (int64_t row_index = 0; row_index < count / cols; row_index++) {
        zt_widen(type->dtype, values + (size_t)row_index * bytes, row, cols);
        for (int64_t column = 0; column < cols; column += BLOCK)
            sum += block_error(rounding, row + column, squares + column, cols - column < BLOCK ? cols - column : BLOCK);
    }
    return sum;
}

double zt_rounding_error(zt_interpreter *interpreter, int step, int k)
{
    const zt_bound *bound = zt_interpreter_bound(interpreter);
    const zt_step *source_step = zt_prog_step(zt_interpreter_prog(interpreter), step);
    const zt_type *input_types[ZT_MAX_IN] = {0};
    rounding_kind rounding;
    for (int input = 0; input < ZT_MAX_IN; input++)
        input_types[input] = source_step->in[input] >= 0 ? &bound->type[source_step->in[input]] : NULL;
    if (!find_rounding(source_step, bound->attrs[step], k, input_types, &rounding)) return 0;
    zt_ctx *ctx = zt_interpreter_ctx(interpreter);
    int64_t cols = input_types[rounding.weight]->dim[1];
    const void *values = zt_interpreter_get(interpreter, source_step->in[0]);
    const void *weight = values ? zt_interpreter_get(interpreter, source_step->in[rounding.weight]) : NULL;
    double *row = weight ? zt_alloc_array(ctx, (size_t)cols, 2 * sizeof *row) : NULL, error = 0;
    if (row) {
        memset(row + cols, 0, (size_t)cols * sizeof *row);
        add_squares(input_types[rounding.weight], weight, row, row + cols);
        error = add_errors(&rounding, input_types[0], values, row + cols, row);
    }
    zt_free(ctx, row);
    return error;
}
