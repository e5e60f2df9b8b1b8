/* spectral_conv.c - rows of the convolution in the spectrum of a real signal, and of its gradient.
 *
 * x [...,n,I] along its grid of n: X = rfft(x), Z[k,o] = sum_i X[k,i] W[k,i,o] for the first bins,
 * 0 for the others, y = irfft(Z). Li et al., "Fourier Neural Operator" (2020). The reference loops
 * are plain sums over the grid.
 */
#include "lib/ops/vjp.h"

#include <math.h>
#include <string.h>

typedef struct grid {
    int64_t B, n, I, O, modes;
} grid;

static grid grid_of(const zt_type *x, const zt_type *w)
{
    grid g = {1, x->dim[x->rank - 2], x->dim[x->rank - 1], w->dim[2], w->dim[0]};
    if (!g.modes || !g.n) g.B = 0; /* all is 0, however many there are */
    for (int d = 0; d < x->rank - 2 && g.B; d++) g.B *= x->dim[d];
    return g;
}

static zt_status want_grid(zt_ctx *ctx, const zt_type *x, const zt_type *w_re, const zt_type *w_im)
{
    zt_status status = zt_row_want_float(ctx, "x", x);
    if (!status) status = zt_row_want(ctx, "w_re", w_re, x->dtype, 3);
    if (!status && !zt_type_equal(w_re, w_im)) status = zt_row_fail(ctx, ZT_ESHAPE, "w_im must have the type of w_re");
    if (status) return status;
    if (x->rank < 2) return zt_row_fail(ctx, ZT_ESHAPE, "x must have at least 2 dimensions (grid and channels)");
    if (w_re->dim[1] != x->dim[x->rank - 1])
        return zt_row_fail(ctx, ZT_ESHAPE, "w_re takes %lld channels, but x has %lld", (long long)w_re->dim[1],
                           (long long)x->dim[x->rank - 1]);
    int64_t n = x->dim[x->rank - 2], most = n ? n / 2 + 1 : 0;
    if (w_re->dim[0] > most)
        return zt_row_fail(ctx, ZT_ESHAPE, "%lld modes exceed the %lld bins of the spectrum", (long long)w_re->dim[0],
                           (long long)most);
    return ZT_OK;
}

/* Bin k of channel c, C channels, of a real signal. */
static void dft_bin(const double *x, int64_t n, int64_t C, int64_t c, int64_t k, double *re, double *im)
{
    *re = *im = 0;
    for (int64_t j = 0; j < n; j++) {
        double angle = 2 * M_PI * (double)(j * k % n) / (double)n;
        *re += x[j * C + c] * cos(angle);
        *im -= x[j * C + c] * sin(angle);
    }
}

/* What bin k counts for in y: the ends of the half spectrum once and without imaginary part. */
static double bin_weight(int64_t k, int64_t n) { return (k == 0 || 2 * k == n ? 1 : 2) / (double)n; }

/* x[j] += Re(z exp(2 pi i j k / n)) */
static void add_wave(double *x, int64_t n, int64_t C, int64_t c, int64_t k, double re, double im)
{
    for (int64_t j = 0; j < n; j++) {
        double angle = 2 * M_PI * (double)(j * k % n) / (double)n;
        x[j * C + c] += re * cos(angle) - im * sin(angle);
    }
}

/* ---- spectral_conv1d_rfft -------------------------------------------------------------------- */

static zt_status spectral_conv1d_rfft_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    (void)attrs;
    zt_status status = want_grid(ctx, in[0], in[1], in[2]);
    if (status) return status;
    out[0] = *in[0];
    out[0].dim[out[0].rank - 1] = in[1]->dim[2];
    return ZT_OK;
}

static void spectral_conv1d_rfft_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    grid g = grid_of(in[0].type, in[1].type);
    (void)attrs, (void)error;
    memset(out[0].f, 0, (size_t)zt_type_count(out[0].type) * sizeof(double));
    for (int64_t b = 0; b < g.B; b++)
        for (int64_t k = 0; k < g.modes; k++)
            for (int64_t i = 0; i < g.I; i++) {
                double re, im, by = bin_weight(k, g.n);
                dft_bin(in[0].f + b * g.n * g.I, g.n, g.I, i, k, &re, &im);
                for (int64_t o = 0; o < g.O; o++) {
                    int64_t w = (k * g.I + i) * g.O + o;
                    double wr = in[1].f[w], wi = in[2].f[w];
                    add_wave(out[0].f + b * g.n * g.O, g.n, g.O, o, k, by * (re * wr - im * wi), by * (re * wi + im * wr));
                }
            }
}

static double conv_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs;
    grid g = grid_of(in[0], in[1]);
    return 40 * (zt_row_in_flops(attrs, in, out) + (double)zt_type_count(out)) +
           8 * (double)(g.B * g.modes) * (double)(g.I * g.O);
}

static bool spectral_conv1d_rfft_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        int64_t modes, O;
    } rows[] = {
        {{ZT_F32, 2, {8, 2}}, 3, 2}, {{ZT_F32, 2, {7, 3}}, 4, 1},      {{ZT_F32, 3, {2, 12, 2}}, 7, 3},
        {{ZT_F32, 2, {1, 1}}, 1, 1}, {{ZT_F32, 2, {8, 2}}, 0, 2},      {{ZT_F32, 3, {0, 8, 2}}, 2, 2},
        {{ZT_F64, 2, {6, 2}}, 4, 2}, {{ZT_F32, 3, {2, 64, 5}}, 16, 7}, {{ZT_F32, 2, {11, 2}}, 6, 2},
    };
    if (i >= ZT_LEN(rows)) return false;
    const zt_case_type *x = &rows[i].x;
    const int64_t w[3] = {rows[i].modes, x->dim[x->rank - 1], rows[i].O};
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, x);
    zt_case_in(test_case, 1, ZT_FILL_NORMAL, 0, x->dtype, 3, w);
    zt_case_in(test_case, 2, ZT_FILL_NORMAL, 0, x->dtype, 3, w);
    return true;
}

static void spectral_conv1d_rfft_vjp(zt_vjp *vjp)
{
    int d[3];
    d[0] = zt_build_spectral_conv1d_rfft_backward(vjp->emit, vjp->in[0], vjp->in[1], vjp->in[2], vjp->dy[0], &d[1], &d[2]);
    for (int k = 0; k < 3; k++)
        if (vjp->want[k]) vjp->dx[k] = d[k];
}

const zt_opdef zt_op_spectral_conv1d_rfft = {
    .synopsis = "y = irfft(Z), Z[k,o] = sum_i X[k,i] (w_re + i w_im)[k,i,o] for k < modes, else 0, X "
                "= rfft(x) along the grid; x [...,n,I] of any plain float type, w_re and w_im "
                "[modes,I,O] of the type of x, modes at most n/2+1, y [...,n,O]",
    .n_required = 3,
    .flags = ZT_OPF_SUMS,
    .infer = spectral_conv1d_rfft_infer,
    .ref = spectral_conv1d_rfft_ref,
    .flops = conv_flops,
    .cases = spectral_conv1d_rfft_cases,
    .vjp = spectral_conv1d_rfft_vjp,
};

/* ---- its gradient ---------------------------------------------------------------------------- */

static zt_status spectral_conv1d_rfft_backward_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_type y;
    zt_status status = spectral_conv1d_rfft_infer(ctx, attrs, in, &y);
    if (!status && !zt_type_equal(&y, in[3])) status = zt_row_fail(ctx, ZT_ESHAPE, "dy must have the type of the output");
    for (int k = 0; k < 3; k++) out[k] = *in[k];
    return status;
}

/* dZ = weight rfft(dy), dW = conj(X) dZ, dX = dZ conj(W), dx its waves. */
static void back_bin(const grid *g, int64_t b, int64_t k, int64_t i, const zt_arg *in, zt_arg *out)
{
    double xr, xi, zr, zi, dr = 0, di = 0, by = bin_weight(k, g->n);
    bool end = k == 0 || 2 * k == g->n;
    dft_bin(in[0].f + b * g->n * g->I, g->n, g->I, i, k, &xr, &xi);
    for (int64_t o = 0; o < g->O; o++) {
        int64_t w = (k * g->I + i) * g->O + o;
        dft_bin(in[3].f + b * g->n * g->O, g->n, g->O, o, k, &zr, &zi);
        zr *= by;
        zi = end ? 0 : zi * by;
        if (out[1].type) out[1].f[w] += xr * zr + xi * zi;
        if (out[2].type) out[2].f[w] += xr * zi - xi * zr;
        dr += zr * in[1].f[w] + zi * in[2].f[w];
        di += zi * in[1].f[w] - zr * in[2].f[w];
    }
    add_wave(out[0].f + b * g->n * g->I, g->n, g->I, i, k, dr, di);
}

static void spectral_conv1d_rfft_backward_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    grid g = grid_of(in[0].type, in[1].type);
    (void)attrs, (void)error;
    for (int k = 0; k < 3; k++)
        if (out[k].type) memset(out[k].f, 0, (size_t)zt_type_count(out[k].type) * sizeof(double));
    for (int64_t b = 0; b < g.B; b++)
        for (int64_t k = 0; k < g.modes; k++)
            for (int64_t i = 0; i < g.I; i++) back_bin(&g, b, k, i, in, out);
}

static bool spectral_conv1d_rfft_backward_cases(int i, zt_case *test_case)
{
    if (!spectral_conv1d_rfft_cases(i, test_case)) return false;
    test_case->in[3] = test_case->in[0];
    test_case->in[3].dim[test_case->in[3].rank - 1] = test_case->in[1].dim[2];
    test_case->fill[3] = ZT_FILL_NORMAL;
    return true;
}

static int sum_of(const zt_emit *emit, int x, int y) { return x == ZT_NONE ? y : y == ZT_NONE ? x : zt_build_add(emit, x, y); }

/* The convolution is linear in x and in w: dx is of w and dy, dw of x and dy. A cotangent a of dx
 * stands where x does, b of dw where w does. One half of b alone has the other 0. */
static void spectral_conv1d_rfft_backward_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    const int *in = vjp->in;
    int b[2] = {vjp->dy[1], vjp->dy[2]}, d[4] = {ZT_NONE, ZT_NONE, ZT_NONE, ZT_NONE};
    bool by_w = b[0] != ZT_NONE || b[1] != ZT_NONE;
    for (int k = 0; k < 2 && by_w; k++)
        if (b[k] == ZT_NONE) b[k] = zt_build_fill_like(emit, in[1 + k], &(zt_fill_like_attrs){0});
    if (vjp->dy[0] != ZT_NONE) {
        zt_build_spectral_conv1d_rfft_backward(emit, vjp->dy[0], in[1], in[2], in[3], &d[1], &d[2]);
        d[3] = zt_build_spectral_conv1d_rfft(emit, vjp->dy[0], in[1], in[2]);
    }
    if (by_w) {
        int unused[2];
        d[0] = zt_build_spectral_conv1d_rfft_backward(emit, in[0], b[0], b[1], in[3], &unused[0], &unused[1]);
        d[3] = sum_of(emit, d[3], zt_build_spectral_conv1d_rfft(emit, in[0], b[0], b[1]));
    }
    for (int k = 0; k < 4; k++)
        if (vjp->want[k]) vjp->dx[k] = d[k];
}

const zt_opdef zt_op_spectral_conv1d_rfft_backward = {
    .synopsis = "gradients dx, dw_re and dw_im of spectral_conv1d_rfft from its inputs and dy",
    .n_required = 4,
    .flags = ZT_OPF_SUMS,
    .infer = spectral_conv1d_rfft_backward_infer,
    .ref = spectral_conv1d_rfft_backward_ref,
    .flops = conv_flops,
    .cases = spectral_conv1d_rfft_backward_cases,
    .vjp = spectral_conv1d_rfft_backward_vjp,
};
