/* steps.h - private to lib/engine/cuda: moves of elements in steps, of which slices, parts and repeats are made. */
#ifndef ZT_CU_STEPS_H
#define ZT_CU_STEPS_H

#include "lib/engine/cuda/args_shape.h"
#include "lib/engine/cuda/strides.h"

#include <string.h>

/* Elements of 1, 2, 4, 8 bytes: 0, 1, 2, 3. */
static inline int size_of(zt_dtype dtype)
{
    int bytes = zt_dtype_get(dtype)->block_bytes, k = 0;
    while (1 << k < bytes) k++;
    return k;
}

static inline bool bytes_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                             const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)input_types;
    return zt_dtype_get(output_types[0].dtype)->block == 1;
}

/* Dimensions from the last, with the steps of what does not lie in a row. */
typedef struct element_steps {
    int axis_count;
    int64_t base, dims[ZT_MAX_RANK], steps[ZT_MAX_RANK];
} element_steps;

static inline void add_dim(element_steps *steps, int64_t dim, int64_t step)
{
    if (dim == 1) return;
    if (steps->axis_count && step == steps->steps[steps->axis_count - 1] * steps->dims[steps->axis_count - 1]) {
        steps->dims[steps->axis_count - 1] *= dim;
        return;
    }
    steps->dims[steps->axis_count] = dim;
    steps->steps[steps->axis_count++] = step;
}

static inline int64_t count_of(const element_steps *steps)
{
    int64_t count = 1;
    for (int dimension = 0; dimension < steps->axis_count; dimension++) count *= steps->dims[dimension];
    return count;
}

/* Two elements as one of twice the size, where all of them lie so. */
static inline bool widen_elements(element_steps *steps, int size, zt_cu_ptr input, zt_cu_ptr output)
{
    bool even = steps->axis_count > 0 && steps->steps[0] == 1 && steps->dims[0] % 2 == 0 && steps->base % 2 == 0 &&
                (input | output) % (2u << size) == 0;
    for (int dimension = 1; dimension < steps->axis_count && even; dimension++) even = steps->steps[dimension] % 2 == 0;
    if (!even) return false;
    steps->dims[0] /= 2;
    steps->base /= 2;
    for (int dimension = 1; dimension < steps->axis_count; dimension++) steps->steps[dimension] /= 2;
    return true;
}

static inline zt_status emit_steps(zt_cu_call *call, zt_cu_ptr input, zt_cu_ptr output, int size, element_steps steps, bool put)
{
    static const char *const step_kernels[] = {"zt_cu_move_1", "zt_cu_move_2", "zt_cu_move_4", "zt_cu_move_8", "zt_cu_move_16"};
    while (size < 4 && widen_elements(&steps, size, input, output)) size++;
    if (steps.axis_count == 0) {
        steps.dims[0] = steps.steps[0] = 1;
        steps.axis_count = 1;
    }
    zt_cu_move_args args = {
        .x = input, .y = output, .n = count_of(&steps), .base = steps.base, .put = put, .n_dims = steps.axis_count};
    memcpy(args.dim, steps.dims, sizeof args.dim);
    memcpy(args.step, steps.steps, sizeof args.step);
    return zt_cu_launch_each(call, step_kernels[size], args.n, &args, sizeof args);
}

/* Elements of all dimensions after `axis`. */
static inline int64_t inner_of(const zt_type *type, int axis)
{
    int64_t count = 1;
    for (int dimension = axis + 1; dimension < type->rank; dimension++) count *= type->dim[dimension];
    return count;
}

static inline int plain_axis(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }

/* `count` entries of `whole` along an axis, from `from` on in steps of `by`. */
static inline element_steps steps_along(const zt_type *whole, int axis, int64_t from, int64_t by, int64_t count)
{
    int64_t inner = inner_of(whole, axis), outer = 1;
    for (int dimension = 0; dimension < axis; dimension++) outer *= whole->dim[dimension];
    element_steps steps = {.base = from * inner};
    add_dim(&steps, inner, 1);
    add_dim(&steps, count, by * inner);
    add_dim(&steps, outer, whole->dim[axis] * inner);
    return steps;
}

static inline zt_status emit_part(zt_cu_call *call, element_steps steps)
{
    return emit_steps(call, call->inputs[0], call->outputs[0], size_of(call->output_types[0]->dtype), steps, false);
}

#endif
