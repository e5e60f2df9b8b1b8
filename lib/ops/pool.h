/* pool.h - private to lib/ops: what the rows of pooling share. */
#ifndef ZT_OPS_POOL_H
#define ZT_OPS_POOL_H

#include "lib/ops/vjp.h"
#include "lib/ops/window.h"

/* x [N,C,d1..d8] and the lists of an op; y's spatial dimensions from x's. */
zt_status zt_pool_infer(zt_ctx *ctx, const zt_window_lists *lists, const zt_ints *kernel, bool ceil, const zt_type *x,
                        zt_type *y);
/* Is `y` what a pool of `like` gives? `name` is y's. */
zt_status zt_pool_infer_back(zt_ctx *ctx, const zt_window_lists *lists, const zt_ints *kernel, bool ceil, const char *name,
                             const zt_type *y, const zt_type *like);
int64_t zt_pool_planes(const zt_type *x); /* N C */

/* Cases that the pools share: their first attributes are these. */
typedef struct zt_pool_case {
    int n;
    int64_t N, C, x[ZT_WINDOW_RANK];
    zt_ints kernel, stride, pad, pad_end, dilation;
    int64_t ceil_mode;
    zt_dtype dtype;
} zt_pool_case;

const zt_pool_case *zt_pool_case_at(int i);
/* Input k of a case: x, or what a pool makes of it. */
void zt_pool_case_in(zt_case *c, int k, const zt_pool_case *row, zt_fill fill);
void zt_pool_case_out(zt_case *c, int k, const zt_pool_case *row, zt_fill fill);

#endif
