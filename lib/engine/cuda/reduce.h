/* reduce.h - private to lib/engine/cuda: folds for other families' rows. */
#ifndef ZT_CU_REDUCE_H
#define ZT_CU_REDUCE_H

#include "lib/engine/cuda/args_reduce.h"
#include "lib/engine/cuda/strides.h"

/* x's dimensions: those marked go. */
void zt_cu_set_dims(zt_cu_reduce_args *a, const zt_type *x, const bool *gone);
/* Launches it, in parts where few rows are long. */
zt_status zt_cu_launch_reduce(zt_cu_call *c, zt_cu_reduce_args *a);
/* y[o] = fold of x[o, 0 .. n-1], o below `rows`, over `by`; types are plain, y's computed as x's.
 */
zt_status zt_cu_fold_rows(zt_cu_call *c, zt_cu_fold fold, zt_cu_ptr x, zt_dtype x_type, zt_cu_ptr y, zt_dtype y_type,
                          int64_t rows, int64_t n, double by);

#endif
