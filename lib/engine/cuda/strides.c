/* strides.c - where the elements of operands that broadcast are. */
#include "lib/engine/cuda/strides.h"

/* Elements from one index to the next of dimension d of y in operand t, 0 where it is repeated. */
static int64_t step_of(const zt_type *type, const zt_type *y_type, int dimension)
{
    int own_dimension = dimension - (y_type->rank - type->rank);
    if (own_dimension < 0 || type->dim[own_dimension] == 1) return 0;
    int64_t step = 1;
    for (int inner = own_dimension + 1; inner < type->rank; inner++) step *= type->dim[inner];
    return step;
}

zt_cu_strides zt_cu_strides_of(const zt_type *const input_types[], int n_in, const zt_type *whole)
{
    zt_cu_strides strides = {0};
    for (int dimension = whole->rank - 1; dimension >= 0; dimension--) {
        int64_t size = whole->dim[dimension], step[ZT_MAX_IN] = {0};
        bool merge = strides.axis_count > 0;
        if (size == 1) continue;
        for (int operand = 0; operand < n_in; operand++) {
            if (input_types[operand]) step[operand] = step_of(input_types[operand], whole, dimension);
            merge =
                merge && step[operand] == strides.steps[operand][strides.axis_count - 1] * strides.dims[strides.axis_count - 1];
        }
        for (int operand = 0; operand < n_in && !merge; operand++) strides.steps[operand][strides.axis_count] = step[operand];
        if (merge)
            strides.dims[strides.axis_count - 1] *= size;
        else
            strides.dims[strides.axis_count++] = size;
    }
    if (strides.axis_count == 0) strides.dims[strides.axis_count++] = 1;
    return strides;
}

bool zt_cu_strides_periodic(const zt_cu_strides *strides, int operand, int64_t *each, int64_t *size)
{
    int dimension = 0;
    *each = *size = 1;
    for (; dimension < strides->axis_count && strides->steps[operand][dimension] == 0; dimension++)
        *each *= strides->dims[dimension];
    for (; dimension < strides->axis_count && strides->steps[operand][dimension] == *size; dimension++)
        *size *= strides->dims[dimension];
    for (; dimension < strides->axis_count; dimension++)
        if (strides->steps[operand][dimension] != 0) return false;
    return true;
}

zt_cu_dim zt_cu_spread(const zt_cu_call *call, int64_t item_count, int64_t threads)
{
    zt_cu_dim grid = zt_cu_grid(item_count, threads);
    const unsigned most = (unsigned)call->engine->processors * 32;
    if (grid.x > most) grid.x = most;
    return grid;
}

zt_status zt_cu_launch_each(zt_cu_call *call, const char *name, int64_t item_count, const void *args, size_t bytes)
{
    enum { THREADS = 256 };
    return zt_cu_launch(call, name, zt_cu_spread(call, item_count, THREADS), (zt_cu_dim){THREADS, 1, 1}, 0, args, bytes);
}

bool zt_cu_is_plain(zt_dtype dtype) { return dtype <= ZT_BF16 || (dtype >= ZT_I64 && dtype <= ZT_BOOL); }
bool zt_cu_is_wide_float(zt_dtype dtype) { return dtype <= ZT_BF16; }

int zt_cu_float_index(zt_dtype dtype) { return dtype == ZT_F64 ? 3 : (int)dtype - (int)ZT_F32; }
