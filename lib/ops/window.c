/* window.c - the windows of convolution and pooling: sizes, and a walk over what they meet. */
#include "lib/ops/window.h"

#include "lib/ops/row.h"

/* Numbers up to here keep every product and sum of sizes below 2^63. */
static const int64_t most = (int64_t)1 << 30, most_in = (int64_t)1 << 60;

static zt_status take(zt_ctx *ctx, const char *name, const zt_ints *list, int n, int64_t none,
                      int64_t least, int64_t *to)
{
    if (list->n != 0 && list->n != n)
        return zt_row_fail(ctx, ZT_ESHAPE, "%s has %lld numbers for %d spatial dimensions", name,
                           (long long)list->n, n);
    for (int d = 0; d < n; d++) {
        to[d] = list->n ? list->v[d] : none;
        if (to[d] < least || to[d] > most)
            return zt_row_fail(ctx, ZT_EUSAGE, "%s %lld is not from %lld to %lld", name,
                               (long long)to[d], (long long)least, (long long)most);
    }
    return ZT_OK;
}

static zt_status take_lists(zt_ctx *ctx, const zt_window_lists *l, zt_window *w)
{
    const zt_ints *end = l->pad_end->n ? l->pad_end : l->pad;
    zt_status status = take(ctx, "stride", l->stride, w->n, 1, 1, w->stride);
    if (!status) status = take(ctx, "dilation", l->dilation, w->n, 1, 1, w->dilation);
    if (!status) status = take(ctx, "pad", l->pad, w->n, 0, -most, w->pad);
    if (!status) status = take(ctx, "pad_end", end, w->n, 0, -most, w->end);
    for (int d = 0; d < w->n && !status; d++)
        if (w->k[d] < 1 || w->k[d] > most)
            status = zt_row_fail(ctx, ZT_ESHAPE, "a kernel of %lld along spatial dimension %d",
                            (long long)w->k[d], d);
    return status;
}

static void multiply_out(zt_window *w)
{
    w->n_in = w->n_out = w->taps = 1;
    for (int d = 0; d < w->n; d++) {
        w->n_in *= w->in[d];
        w->n_out *= w->out[d];
        w->taps *= w->k[d];
    }
}

zt_window zt_window_of(const zt_window_lists *l, const zt_type *large, const zt_type *small,
                       const int64_t *kernel)
{
    zt_window w = {.n = large->rank - 2};
    for (int d = 0; d < w.n; d++) {
        w.in[d] = large->dim[2 + d];
        w.out[d] = small->dim[2 + d];
        w.k[d] = kernel[d];
    }
    take_lists(NULL, l, &w);
    multiply_out(&w);
    return w;
}

/* What the taps of one window span. */
static int64_t span(const zt_window *w, int d) { return w->dilation[d] * (w->k[d] - 1) + 1; }

zt_status zt_window_infer(zt_ctx *ctx, const zt_window_lists *l, bool ceil, zt_window *w)
{
    zt_status status = take_lists(ctx, l, w);
    for (int d = 0; d < w->n && !status; d++) {
        if (w->in[d] > most_in)
            return zt_row_fail(ctx, ZT_ESHAPE, "spatial dimension %d cannot be counted", d);
        int64_t padded = w->in[d] + w->pad[d] + w->end[d], room = padded - span(w, d);
        if (room < 0)
            return zt_row_fail(ctx, ZT_ESHAPE,
                               "the kernel spans %lld along spatial dimension %d, x with its "
                               "padding %lld", (long long)span(w, d), d, (long long)padded);
        w->out[d] = room / w->stride[d] + 1;
        if (ceil && room % w->stride[d] && w->out[d] * w->stride[d] < w->in[d] + w->pad[d])
            w->out[d]++;
    }
    return status;
}

zt_status zt_window_infer_in(zt_ctx *ctx, const zt_window_lists *l, const zt_ints *more,
                             zt_window *w)
{
    int64_t extra[ZT_WINDOW_RANK];
    zt_status status = take_lists(ctx, l, w);
    if (!status) status = take(ctx, "output_padding", more, w->n, 0, 0, extra);
    for (int d = 0; d < w->n && !status; d++) {
        int64_t steps;
        if (w->out[d] < 1)
            return zt_row_fail(ctx, ZT_ESHAPE, "x has nothing along spatial dimension %d", d);
        if (!zt_mul_i64(w->out[d] - 1, w->stride[d], &steps) || steps > most_in)
            return zt_row_fail(ctx, ZT_ESHAPE, "spatial dimension %d cannot be counted", d);
        w->in[d] = steps + span(w, d) + extra[d] - w->pad[d] - w->end[d];
        if (w->in[d] < 0)
            return zt_row_fail(ctx, ZT_ESHAPE, "y would have %lld elements along spatial "
                               "dimension %d", (long long)w->in[d], d);
    }
    return status;
}

/* ---- walking --------------------------------------------------------------------------------- */

/* The next index of a box, row-major. */
static void count_on(int n, const int64_t *size, int64_t *at)
{
    for (int d = n - 1; d >= 0; d--) {
        if (++at[d] < size[d]) return;
        at[d] = 0;
    }
}

/* Where tap k of window o is in the large value; -1: outside. */
static int64_t met(const zt_window *w, const int64_t *o, const int64_t *k)
{
    int64_t at = 0;
    for (int d = 0; d < w->n; d++) {
        int64_t i = o[d] * w->stride[d] + k[d] * w->dilation[d] - w->pad[d];
        if (i < 0 || i >= w->in[d]) return -1;
        at = at * w->in[d] + i;
    }
    return at;
}

void zt_window_one(const zt_window *w, int64_t at,
                   void (*meet)(void *user, int64_t o, int64_t tap, int64_t i), void *user)
{
    int64_t o[ZT_WINDOW_RANK], k[ZT_WINDOW_RANK] = {0};
    for (int64_t d = w->n - 1, rest = at; d >= 0; d--) {
        o[d] = rest % w->out[d];
        rest /= w->out[d];
    }
    for (int64_t tap = 0; tap < w->taps; tap++, count_on(w->n, w->k, k)) {
        int64_t i = met(w, o, k);
        if (i >= 0) meet(user, at, tap, i);
    }
}

void zt_window_walk(const zt_window *w,
                    void (*meet)(void *user, int64_t o, int64_t tap, int64_t i), void *user)
{
    for (int64_t o = 0; o < w->n_out; o++) zt_window_one(w, o, meet, user);
}

int64_t zt_window_cells(const zt_window *w, int64_t o, bool padded)
{
    int64_t cells = 1;
    for (int d = w->n - 1; d >= 0; d--) {
        int64_t first = o % w->out[d] * w->stride[d] - w->pad[d], inside = 0;
        int64_t low = padded ? -w->pad[d] : 0, high = w->in[d] + (padded ? w->end[d] : 0);
        for (int64_t k = 0; k < w->k[d]; k++) {
            int64_t i = first + k * w->dilation[d];
            inside += i >= low && i < high;
        }
        cells *= inside;
        o /= w->out[d];
    }
    return cells;
}
