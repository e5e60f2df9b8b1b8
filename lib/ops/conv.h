/* conv.h - private to lib/ops: what the rows of convolution share. */
#ifndef ZT_OPS_CONV_H
#define ZT_OPS_CONV_H

#include "lib/ops/vjp.h"
#include "lib/ops/window.h"

zt_status zt_conv_want(zt_ctx *ctx, const char *name, const zt_type *type, const zt_type *like);
zt_status zt_conv_groups(zt_ctx *ctx, int64_t groups, const zt_type *w, const char *small, const char *large, int64_t a,
                         int64_t b);
zt_status zt_conv_bias(zt_ctx *ctx, const zt_type *b, const zt_type *x, int64_t channels);
zt_status zt_conv_small(zt_ctx *ctx, const zt_window_lists *lists, const zt_type *large, const zt_type *w, int64_t *small);
void zt_conv_data_ref(const zt_window_lists *lists, int64_t groups, const zt_arg *x, const zt_arg *w, const zt_arg *b, zt_arg *y);
int zt_conv_bias_vjp(const zt_emit *e, int dy);

/* x [N,C,x...], w [M,C/groups,kernel...]; `more` is what a transposed convolution's y has more. */
typedef struct zt_conv_case {
    int n;
    int64_t N, C, M, groups, x[ZT_WINDOW_RANK], kernel[ZT_WINDOW_RANK];
    zt_ints stride, pad, pad_end, dilation, more;
    zt_dtype dtype;
} zt_conv_case;

const zt_conv_case *zt_conv_case_at(int i);
void zt_conv_case_in(zt_case *c, int k, const zt_conv_case *row, int64_t first, int64_t second, const int64_t *spatial);

#endif
