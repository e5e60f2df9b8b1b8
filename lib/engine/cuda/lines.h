/* lines.h - private to lib/engine/cuda: launches along one axis. Of a line whose entries lie in a row a block takes
 * care, else a thread.
 */
#ifndef ZT_CU_LINES_H
#define ZT_CU_LINES_H

#include "lib/engine/cuda/args_reduce.h"
#include "lib/engine/cuda/strides.h"

enum { LINE_THREADS = 256 };

static inline zt_cu_line_args line_of(const zt_cu_call *call, int64_t axis)
{
    const zt_type *x_type = call->input_types[0];
    int axis_at = (int)(axis < 0 ? axis + x_type->rank : axis);
    zt_cu_line_args args = {.x = call->inputs[0], .n = x_type->dim[axis_at], .inner = 1, .lines = 1, .type = x_type->dtype};
    for (int dimension = 0; dimension < x_type->rank; dimension++) {
        if (dimension != axis_at) args.lines *= x_type->dim[dimension];
        if (dimension > axis_at) args.inner *= x_type->dim[dimension];
    }
    return args;
}

static inline zt_status launch_lines(zt_cu_call *call, const char *rows, const char *lines, const zt_cu_line_args *args)
{
    bool row = !lines || (args->inner == 1 && args->n >= 64);
    unsigned threads = !lines && args->n <= 256 ? 32 : LINE_THREADS; /* topk of short lines: a warp */
    return zt_cu_launch(call, row ? rows : lines, zt_cu_spread(call, args->lines, row ? 1 : LINE_THREADS),
                        (zt_cu_dim){threads, 1, 1}, 0, args, sizeof *args);
}

static inline bool plain_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                             const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)output_types;
    return zt_cu_is_plain(input_types[0]->dtype);
}

#endif
