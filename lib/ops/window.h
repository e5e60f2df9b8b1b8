/* window.h - the windows of convolution and pooling, shared by their rows and the engines' kernels.
 *
 * A window slides over the n spatial dimensions of a large value (conv's x) and gives the elements
 * of a small one (conv's y): along each dimension, tap k of element o meets
 *
 *     i = o * stride + k * dilation - pad        0 <= i < in
 *
 * Transposed convolution goes the other way: its y is the large value, its x the small one.
 */
#ifndef ZT_OPS_WINDOW_H
#define ZT_OPS_WINDOW_H

#include "lib/ops/ops.h"

enum { ZT_WINDOW_RANK = ZT_MAX_RANK - 2 };

/* The attribute lists of an op with windows. Each has a number a spatial dimension, or none at all:
 * then 1 for stride and dilation, 0 for pad, and pad_end is as pad. */
typedef struct zt_window_lists {
    const zt_ints *stride, *pad, *pad_end, *dilation;
} zt_window_lists;

#define ZT_WINDOW_LISTS(a) ((zt_window_lists){&(a)->stride, &(a)->pad, &(a)->pad_end, &(a)->dilation})

typedef struct zt_window {
    int n;                     /* spatial dimensions */
    int64_t n_in, n_out, taps; /* products of the next three */
    int64_t in[ZT_WINDOW_RANK], out[ZT_WINDOW_RANK], k[ZT_WINDOW_RANK];
    int64_t stride[ZT_WINDOW_RANK], pad[ZT_WINDOW_RANK], end[ZT_WINDOW_RANK];
    int64_t dilation[ZT_WINDOW_RANK];
} zt_window;

/* From types that inference has passed: the large and the small value [N,C,...]. */
zt_window zt_window_of(const zt_window_lists *lists, const zt_type *large, const zt_type *small, const int64_t *kernel);

/* The small value's spatial dimensions into w->out, from w->n, w->in and the kernel's dimensions in
 * w->k; all else of w is filled in too. `ceil`: a last window that is not whole counts, unless it
 * starts past x and the padding before it. One clear sentence where there is none. */
zt_status zt_window_infer(zt_ctx *ctx, const zt_window_lists *lists, bool ceil, zt_window *window);
/* The same without in: w->in from w->out, so that windows fit exactly, and `more` along each. */
zt_status zt_window_infer_in(zt_ctx *ctx, const zt_window_lists *lists, const zt_ints *more, zt_window *window);

/* Every tap of every window that meets the large value: small o (counted row-major, rising), tap
 * and large i. */
void zt_window_walk(const zt_window *window, void (*meet)(void *user, int64_t o, int64_t tap, int64_t i), void *user);
/* Of window o alone. */
void zt_window_one(const zt_window *window, int64_t o, void (*meet)(void *user, int64_t o, int64_t tap, int64_t i), void *user);
/* How many taps of window o meet the large value, or (`padded`) it and its padding. */
int64_t zt_window_cells(const zt_window *window, int64_t o, bool padded);

#endif
