/* window.c - the windows of convolution and pooling: sizes, and a walk over what they meet. */
#include "lib/ops/window.h"

#include "lib/ops/row.h"

/* Numbers up to here keep every product and sum of sizes below 2^63. */
static const int64_t most = (int64_t)1 << 30, most_in = (int64_t)1 << 60;

static zt_status take_list(zt_ctx *ctx, const char *name, const zt_ints *list, int n, int64_t none, int64_t least, int64_t *to)
{
    if (list->n != 0 && list->n != n)
        return zt_row_fail(ctx, ZT_ESHAPE, "%s has %lld numbers, expected %d (spatial dimensions)", name, (long long)list->n, n);
    for (int d = 0; d < n; d++) {
        to[d] = list->n ? list->v[d] : none;
        if (to[d] < least || to[d] > most)
            return zt_row_fail(ctx, ZT_EUSAGE, "%s %lld is out of range: must be %lld to %lld", name, (long long)to[d],
                               (long long)least, (long long)most);
    }
    return ZT_OK;
}

static zt_status take_lists(zt_ctx *ctx, const zt_window_lists *lists, zt_window *window)
{
    const zt_ints *end = lists->pad_end->n ? lists->pad_end : lists->pad;
    zt_status status = take_list(ctx, "stride", lists->stride, window->n, 1, 1, window->stride);
    if (!status) status = take_list(ctx, "dilation", lists->dilation, window->n, 1, 1, window->dilation);
    if (!status) status = take_list(ctx, "pad", lists->pad, window->n, 0, -most, window->pad);
    if (!status) status = take_list(ctx, "pad_end", end, window->n, 0, -most, window->end);
    for (int d = 0; d < window->n && !status; d++)
        if (window->k[d] < 1 || window->k[d] > most)
            status =
                zt_row_fail(ctx, ZT_ESHAPE, "invalid kernel size %lld along spatial dimension %d", (long long)window->k[d], d);
    return status;
}

static void multiply_out(zt_window *window)
{
    window->n_in = window->n_out = window->taps = 1;
    for (int d = 0; d < window->n; d++) {
        window->n_in *= window->in[d];
        window->n_out *= window->out[d];
        window->taps *= window->k[d];
    }
}

zt_window zt_window_of(const zt_window_lists *lists, const zt_type *large, const zt_type *small, const int64_t *kernel)
{
    zt_window window = {.n = large->rank - 2};
    for (int d = 0; d < window.n; d++) {
        window.in[d] = large->dim[2 + d];
        window.out[d] = small->dim[2 + d];
        window.k[d] = kernel[d];
    }
    take_lists(NULL, lists, &window);
    multiply_out(&window);
    return window;
}

/* What the taps of one window span. */
static int64_t window_span(const zt_window *window, int d) { return window->dilation[d] * (window->k[d] - 1) + 1; }

zt_status zt_window_infer(zt_ctx *ctx, const zt_window_lists *lists, bool ceil, zt_window *window)
{
    zt_status status = take_lists(ctx, lists, window);
    for (int d = 0; d < window->n && !status; d++) {
        if (window->in[d] > most_in) return zt_row_fail(ctx, ZT_ESHAPE, "spatial dimension %d is too large", d);
        int64_t padded = window->in[d] + window->pad[d] + window->end[d], room = padded - window_span(window, d);
        if (room < 0)
            return zt_row_fail(ctx, ZT_ESHAPE, "the kernel spans %lld along spatial dimension %d, but the padded x has %lld",
                               (long long)window_span(window, d), d, (long long)padded);
        window->out[d] = room / window->stride[d] + 1;
        if (ceil && room % window->stride[d] && window->out[d] * window->stride[d] < window->in[d] + window->pad[d])
            window->out[d]++;
    }
    return status;
}

zt_status zt_window_infer_in(zt_ctx *ctx, const zt_window_lists *lists, const zt_ints *more, zt_window *window)
{
    int64_t extra[ZT_WINDOW_RANK];
    zt_status status = take_lists(ctx, lists, window);
    if (!status) status = take_list(ctx, "output_padding", more, window->n, 0, 0, extra);
    for (int d = 0; d < window->n && !status; d++) {
        int64_t steps;
        if (window->out[d] < 1) return zt_row_fail(ctx, ZT_ESHAPE, "x is empty along spatial dimension %d", d);
        if (!zt_mul_i64(window->out[d] - 1, window->stride[d], &steps) || steps > most_in)
            return zt_row_fail(ctx, ZT_ESHAPE, "spatial dimension %d is too large", d);
        window->in[d] = steps + window_span(window, d) + extra[d] - window->pad[d] - window->end[d];
        if (window->in[d] < 0)
            return zt_row_fail(ctx, ZT_ESHAPE, "y would have %lld elements along spatial dimension %d", (long long)window->in[d],
                               d);
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
static int64_t met_element(const zt_window *window, const int64_t *o, const int64_t *k)
{
    int64_t at = 0;
    for (int d = 0; d < window->n; d++) {
        int64_t i = o[d] * window->stride[d] + k[d] * window->dilation[d] - window->pad[d];
        if (i < 0 || i >= window->in[d]) return -1;
        at = at * window->in[d] + i;
    }
    return at;
}

void zt_window_one(const zt_window *window, int64_t at, void (*meet)(void *user, int64_t o, int64_t tap, int64_t i), void *user)
{
    int64_t o[ZT_WINDOW_RANK], k[ZT_WINDOW_RANK] = {0};
    for (int64_t d = window->n - 1, rest = at; d >= 0; d--) {
        o[d] = rest % window->out[d];
        rest /= window->out[d];
    }
    for (int64_t tap = 0; tap < window->taps; tap++, count_on(window->n, window->k, k)) {
        int64_t i = met_element(window, o, k);
        if (i >= 0) meet(user, at, tap, i);
    }
}

void zt_window_walk(const zt_window *window, void (*meet)(void *user, int64_t o, int64_t tap, int64_t i), void *user)
{
    for (int64_t o = 0; o < window->n_out; o++) zt_window_one(window, o, meet, user);
}

int64_t zt_window_cells(const zt_window *window, int64_t o, bool padded)
{
    int64_t cells = 1;
    for (int d = window->n - 1; d >= 0; d--) {
        int64_t first = o % window->out[d] * window->stride[d] - window->pad[d], inside = 0;
        int64_t low = padded ? -window->pad[d] : 0, high = window->in[d] + (padded ? window->end[d] : 0);
        for (int64_t k = 0; k < window->k[d]; k++) {
            int64_t i = first + k * window->dilation[d];
            inside += i >= low && i < high;
        }
        cells *= inside;
        o /= window->out[d];
    }
    return cells;
}
