/* spectral.c - kernels of discrete Fourier transforms and of the spectral convolution, in f64
 * between f32 inputs and outputs. One line is one item.
 */
#include "lib/engine/cpu/isa/fft.h"

enum { AUX_N, AUX_INNER, AUX_GIVEN, AUX_INVERSE, AUX_NORM };

static bool spectral_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32;
}

static void plan(zt_cpu_call *call, int64_t n)
{
    call->aux[AUX_N] = n;
    call->keep_bytes = (size_t)fft_keep(n) * sizeof(cplx);
    call->local_bytes = (size_t)(n + fft_scratch(n)) * sizeof(cplx);
}

/* Bluestein's chirp is transformed with scratch behind what is kept. */
static void spectral_prime(zt_cpu_call *call)
{
    int64_t n = call->aux[AUX_N];
    fft_prime(call->keep, n, (cplx *)call->keep + fft_keep(n));
}

static void plan_scratch(zt_cpu_call *call) { call->keep_bytes += (size_t)fft_padded(call->aux[AUX_N]) * sizeof(cplx); }

static double scale_of(const zt_cpu_call *call)
{
    int64_t n = call->aux[AUX_N], norm = call->aux[AUX_NORM];
    if (norm == 'o') return n ? 1 / sqrt((double)n) : 1;
    return (norm == 'b') == (call->aux[AUX_INVERSE] != 0) && n ? 1 / (double)n : 1;
}

static bool is_end(int64_t k, int64_t n) { return k == 0 || 2 * k == n; }

/* ---- real lines ------------------------------------------------------------------------------ */

/* rfft and irfft_backward: from real lines to half spectra; irfft and rfft_backward: back. */
static void real_setup(zt_cpu_call *call)
{
    zt_op op = call->kernel->op;
    bool to_real = op == ZT_OP_irfft || op == ZT_OP_rfft_backward;
    const zt_type *real = to_real ? &call->out[0].type : &call->in[0].type;
    int64_t lines = 1, n = real->dim[real->rank - 1];
    for (int d = 0; d + 1 < real->rank && lines; d++) lines *= real->dim[d];
    plan(call, lines ? n : 0); /* no lines: nothing to keep, however long they are */
    plan_scratch(call);
    call->items[0] = lines;
    call->aux[AUX_INVERSE] = op == ZT_OP_irfft || op == ZT_OP_irfft_backward;
    call->aux[AUX_NORM] =
        op == ZT_OP_irfft ? ((const zt_irfft_attrs *)call->attrs)->norm.s[0] : ((const zt_rfft_attrs *)call->attrs)->norm.s[0];
}

static void to_spectrum(const zt_cpu_call *call, int64_t line, cplx *x)
{
    int64_t n = call->aux[AUX_N], m = n / 2 + 1;
    const float *real = (const float *)call->in[0].data + line * n;
    float *y = (float *)call->out[0].data + line * m * 2;
    bool twice = call->kernel->op == ZT_OP_irfft_backward;
    for (int64_t j = 0; j < n; j++) x[j] = (cplx){(double)real[j], 0};
    fft_run(x, n, false, call->keep, x + n);
    for (int64_t k = 0; k < m; k++) {
        double by = scale_of(call) * (twice && !is_end(k, n) ? 2 : 1);
        cplx v = n ? x[k] : (cplx){0, 0};
        y[2 * k] = (float)(by * v.re);
        y[2 * k + 1] = twice && is_end(k, n) ? 0 : (float)(by * v.im);
    }
}

/* The half spectrum alone, real part of its waves: bins inside count once; or also their mirrors.
 */
static void to_real(const zt_cpu_call *call, int64_t line, cplx *x)
{
    int64_t n = call->aux[AUX_N], m = n / 2 + 1;
    const float *half = (const float *)call->in[0].data + line * m * 2;
    float *y = (float *)call->out[0].data + line * n;
    bool mirror = call->kernel->op == ZT_OP_irfft;
    for (int64_t k = 0; k < n; k++) x[k] = (cplx){0, 0};
    for (int64_t k = 0; k < m && k < n; k++) {
        bool end = is_end(k, n);
        x[k] = (cplx){(double)half[2 * k], mirror && end ? 0 : (double)half[2 * k + 1]};
        if (mirror && !end) x[n - k] = (cplx){x[k].re, -x[k].im};
    }
    fft_run(x, n, true, call->keep, x + n);
    for (int64_t j = 0; j < n; j++) y[j] = (float)(scale_of(call) * x[j].re);
}

static void real_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    zt_op op = call->kernel->op;
    (void)phase;
    for (int64_t i = begin; i < end; i++) {
        if (op == ZT_OP_irfft || op == ZT_OP_rfft_backward)
            to_real(call, i, local);
        else
            to_spectrum(call, i, local);
    }
}

/* ---- dft ------------------------------------------------------------------------------------- */

static void dft_setup(zt_cpu_call *call)
{
    const zt_dft_attrs *dft = call->attrs;
    const zt_type *y = &call->out[0].type;
    int axis = (int)(dft->axis < 0 ? dft->axis + y->rank : dft->axis);
    int64_t inner = 1, outer = 1;
    bool any = zt_type_count(y) > 0;
    for (int d = 0; d < axis && any; d++) outer *= y->dim[d];
    for (int d = axis + 1; d < y->rank - 1 && any; d++) inner *= y->dim[d];
    plan(call, any ? y->dim[axis] : 0);
    plan_scratch(call);
    call->items[0] = any ? outer * inner : 0;
    call->aux[AUX_INNER] = inner;
    call->aux[AUX_GIVEN] = call->in[0].type.dim[axis];
    call->aux[AUX_INVERSE] = dft->inverse;
    call->aux[AUX_NORM] = dft->norm.s[0];
}

static void dft_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t n = call->aux[AUX_N], given = call->aux[AUX_GIVEN], inner = call->aux[AUX_INNER];
    double scale = scale_of(call);
    cplx *line = local;
    (void)phase;
    for (int64_t i = begin; i < end; i++) {
        int64_t o = i / inner, q = i % inner;
        const float *x = (const float *)call->in[0].data + 2 * (o * given * inner + q);
        float *y = (float *)call->out[0].data + 2 * (o * n * inner + q);
        for (int64_t j = 0; j < n; j++) {
            const float *v = x + 2 * j * inner;
            line[j] = j < given ? (cplx){(double)v[0], (double)v[1]} : (cplx){0, 0};
        }
        fft_run(line, n, call->aux[AUX_INVERSE], call->keep, line + n);
        for (int64_t j = 0; j < n; j++) {
            y[2 * j * inner] = (float)(scale * line[j].re);
            y[2 * j * inner + 1] = (float)(scale * line[j].im);
        }
    }
}

/* ---- spectral_conv1d_rfft -------------------------------------------------------------------- */

/* x [B,n,I], w [modes,I,O], y [B,n,O]. Shared: bins of x [B,I,modes]; of the gradient also what y's
 * bins get, [B,O,modes]. */
enum { CONV_N, CONV_B, CONV_I, CONV_O, CONV_MODES }; /* CONV_N is AUX_N */

static void conv_setup(zt_cpu_call *call)
{
    const zt_type *x = &call->in[0].type, *w = &call->in[1].type;
    int64_t B = 1, I = x->dim[x->rank - 1], O = w->dim[2], modes = w->dim[0];
    int64_t n = x->dim[x->rank - 2];
    bool back = call->kernel->op == ZT_OP_spectral_conv1d_rfft_backward;
    if (!n || !(I + O)) B = 0;
    for (int d = 0; d < x->rank - 2 && B; d++) B *= x->dim[d];
    plan(call, B ? n : 0); /* nothing there: nothing to keep, however long it is */
    plan_scratch(call);
    call->aux[CONV_B] = B;
    call->aux[CONV_I] = I;
    call->aux[CONV_O] = O;
    call->aux[CONV_MODES] = modes;
    call->n_phases = 2;
    call->items[0] = back ? B * (I + O) : B * I;
    call->items[1] = back ? B * I + modes : B * O;
    call->shared_bytes = (size_t)(B * (I + O) * modes) * sizeof(cplx);
}

/* The first bins of channel ch of C, of sample b, times by[k]. */
static void channel_bins(const zt_cpu_call *call, const float *x, int64_t C, int64_t b, int64_t ch, bool weighed, cplx *to,
                         cplx *line)
{
    int64_t n = call->aux[CONV_N];
    for (int64_t j = 0; j < n; j++) line[j] = (cplx){(double)x[(b * n + j) * C + ch], 0};
    fft_run(line, n, false, call->keep, line + n);
    for (int64_t k = 0; k < call->aux[CONV_MODES]; k++) {
        double by = !weighed ? 1 : (is_end(k, n) ? 1 : 2) / (double)n;
        to[k] = (cplx){by * line[k].re, weighed && is_end(k, n) ? 0 : by * line[k].im};
    }
}

/* line, bins below modes, to real numbers in channel ch of C, of sample b. */
static void channel_waves(const zt_cpu_call *call, float *y, int64_t C, int64_t b, int64_t ch, cplx *line)
{
    int64_t n = call->aux[CONV_N];
    fft_run(line, n, true, call->keep, line + n);
    for (int64_t j = 0; j < n && y; j++) y[(b * n + j) * C + ch] = (float)line[j].re;
}

static cplx weight_at(const zt_cpu_call *call, int64_t k, int64_t i, int64_t o)
{
    int64_t at = (k * call->aux[CONV_I] + i) * call->aux[CONV_O] + o;
    return (cplx){(double)((const float *)call->in[1].data)[at], (double)((const float *)call->in[2].data)[at]};
}

static cplx conj_of(cplx a) { return (cplx){a.re, -a.im}; }

/* One channel of y: Z, weighed as bins count, then its waves. */
static void conv_channel(const zt_cpu_call *call, int64_t item, cplx *line)
{
    int64_t n = call->aux[CONV_N], I = call->aux[CONV_I], O = call->aux[CONV_O], modes = call->aux[CONV_MODES];
    int64_t b = item / O, o = item % O;
    const cplx *x = (const cplx *)call->shared + b * I * modes;
    for (int64_t k = 0; k < n; k++) line[k] = (cplx){0, 0};
    for (int64_t k = 0; k < modes; k++) {
        cplx z = {0, 0};
        for (int64_t i = 0; i < I; i++) {
            cplx p = cplx_mul(x[i * modes + k], weight_at(call, k, i, o));
            z.re += p.re;
            z.im += p.im;
        }
        double by = (is_end(k, n) ? 1 : 2) / (double)n;
        line[k] = (cplx){by * z.re, is_end(k, n) ? 0 : by * z.im};
    }
    channel_waves(call, call->out[0].data, O, b, o, line);
}

static void conv_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t I = call->aux[CONV_I], modes = call->aux[CONV_MODES];
    for (int64_t i = begin; i < end; i++) {
        if (phase == 0)
            channel_bins(call, call->in[0].data, I, i / I, i % I, false, (cplx *)call->shared + i * modes, local);
        else
            conv_channel(call, i, local);
    }
}

/* One channel of dx. */
static void back_channel(const zt_cpu_call *call, int64_t item, cplx *line)
{
    int64_t n = call->aux[CONV_N], I = call->aux[CONV_I], O = call->aux[CONV_O], modes = call->aux[CONV_MODES];
    int64_t b = item / I, i = item % I;
    const cplx *dz = (const cplx *)call->shared + (call->aux[CONV_B] * I + b * O) * modes;
    for (int64_t k = 0; k < n; k++) line[k] = (cplx){0, 0};
    for (int64_t k = 0; k < modes; k++)
        for (int64_t o = 0; o < O; o++) {
            cplx p = cplx_mul(dz[o * modes + k], conj_of(weight_at(call, k, i, o)));
            line[k].re += p.re;
            line[k].im += p.im;
        }
    channel_waves(call, call->out[0].data, I, b, i, line);
}

/* The weights' gradient at one bin. */
static void back_weights(const zt_cpu_call *call, int64_t k)
{
    int64_t B = call->aux[CONV_B], I = call->aux[CONV_I], O = call->aux[CONV_O], modes = call->aux[CONV_MODES];
    const cplx *x = call->shared, *dz = x + B * I * modes;
    float *re = call->out[1].data, *im = call->out[2].data;
    for (int64_t e = 0; e < I * O; e++) {
        int64_t i = e / O, o = e % O;
        cplx sum = {0, 0};
        for (int64_t b = 0; b < B; b++) {
            cplx p = cplx_mul(conj_of(x[(b * I + i) * modes + k]), dz[(b * O + o) * modes + k]);
            sum.re += p.re;
            sum.im += p.im;
        }
        if (re) re[k * I * O + e] = (float)sum.re;
        if (im) im[k * I * O + e] = (float)sum.im;
    }
}

static void back_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t B = call->aux[CONV_B], I = call->aux[CONV_I], O = call->aux[CONV_O], modes = call->aux[CONV_MODES];
    for (int64_t i = begin; i < end; i++) {
        int64_t j = i - B * I;
        cplx *bins = (cplx *)call->shared + i * modes;
        if (phase == 0 && j < 0)
            channel_bins(call, call->in[0].data, I, i / I, i % I, false, bins, local);
        else if (phase == 0)
            channel_bins(call, call->in[3].data, O, j / O, j % O, true, bins, local);
        else if (j < 0)
            back_channel(call, i, local);
        else
            back_weights(call, j);
    }
}

#define KERNEL(OP, KIND)                                                                                                         \
    {                                                                                                                            \
        .op = ZT_OP_##OP, .has = spectral_has, .setup = KIND##_setup, .run = KIND##_run, .prime = spectral_prime                 \
    }
const zt_cpu_kernel ZT_SYM(zt_cpu_spectral)[] = {
    KERNEL(rfft, real),
    KERNEL(rfft_backward, real),
    KERNEL(irfft, real),
    KERNEL(irfft_backward, real),
    KERNEL(dft, dft),
    KERNEL(spectral_conv1d_rfft, conv),
    {.op = ZT_OP_spectral_conv1d_rfft_backward,
     .has = spectral_has,
     .setup = conv_setup,
     .run = back_run,
     .prime = spectral_prime},
    {0},
};
