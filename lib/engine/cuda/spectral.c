/* spectral.c - Fourier transforms and the spectral convolution. */
#include "lib/engine/cuda/fft.h"
#include "lib/engine/cuda/walk.h"

#include <math.h>

enum { THREADS = 256 };

static bool float_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                      const zt_type out[])
{
    (void)e, (void)attrs, (void)out;
    return zt_cu_is_wide_float(in[0]->dtype);
}

/* cos and sin of the n turns, in scratch; 0: an error. */
static zt_cu_ptr turns(zt_cu_call *c, int64_t n)
{
    zt_cu_phases_args a = {.t = zt_cu_scratch(c, (size_t)n * 16), .n = n};
    if (!a.t || zt_cu_launch_each(c, "zt_cu_phases", n, &a, sizeof a)) return 0;
    return a.t;
}

static zt_status failed(const zt_cu_call *c) { return zt_ctx_status(c->e->base.ctx); }

/* What a transform of n is multiplied by: lib/ops/spectral.c. */
static double scale_of(const zt_enum_string *norm, bool inverse, int64_t n)
{
    if (norm->s[0] == 'o') return n ? 1 / sqrt((double)n) : 1;
    return (norm->s[0] == 'b') == inverse && n ? 1 / (double)n : 1;
}

/* ---- transforms --------------------------------------------------------------------------------
 */

static zt_status transform(zt_cu_call *c, zt_cu_dft_args *a)
{
    const int64_t most = c->in[0]->dtype == ZT_F64 ? ZT_CU_FFT_F64 : ZT_CU_FFT_F32;
    const bool fast = a->n > 1 && a->n <= most && (a->n & (a->n - 1)) == 0;
    const int64_t each = a->kind == ZT_CU_TO_BINS ? a->n / 2 + 1 : a->n;
    a->x = c->x[0];
    a->y = c->y[0];
    a->type = c->in[0]->dtype;
    if (!a->lines || !each) return ZT_OK;
    bool done = false;
    zt_status s = fast ? ZT_OK : zt_cu_fft_transform(c, a, &done);
    if (s || done) return s;
    a->t = turns(c, a->n);
    if (!a->t) return failed(c);
    if (!fast) return zt_cu_launch_each(c, "zt_cu_dft_sums", a->lines * each, a, sizeof *a);
    return zt_cu_launch(c, a->type == ZT_F64 ? "zt_cu_fft_f64" : "zt_cu_fft",
                        zt_cu_spread(c, a->lines, 1), (zt_cu_dim){THREADS, 1, 1}, 0, a, sizeof *a);
}

static int64_t columns(const zt_type *t) { return t->rank ? t->dim[t->rank - 1] : 1; }

/* Lines of real numbers, which x or y has. */
static zt_cu_dft_args lines_of(const zt_type *real, const zt_enum_string *norm, bool twice)
{
    int64_t n = columns(real);
    return (zt_cu_dft_args){.lines = n ? zt_type_count(real) / n : 0,
                            .n = n,
                            .given = n,
                            .inner = 1,
                            .scale = scale_of(norm, twice, n),
                            .twice = twice};
}

/* Real lines to bins: rfft, and irfft's gradient. */
static zt_status to_bins(zt_cu_call *c, const zt_enum_string *norm, bool twice)
{
    zt_cu_dft_args a = lines_of(c->in[0], norm, twice);
    a.kind = ZT_CU_TO_BINS;
    if (!a.n) return zt_cu_fill(c, c->y[0], 0, zt_type_bytes(c->out[0])); /* one bin of nothing */
    return transform(c, &a);
}

/* And back: irfft, and rfft's gradient. */
static zt_status of_bins(zt_cu_call *c, const zt_enum_string *norm, bool twice)
{
    zt_cu_dft_args a = lines_of(c->out[0], norm, twice);
    a.kind = ZT_CU_OF_BINS;
    a.inverse = 1;
    return transform(c, &a);
}

static zt_status emit_rfft(zt_cu_call *c)
{
    return to_bins(c, &((const zt_rfft_attrs *)c->attrs)->norm, false);
}
static zt_status emit_rfft_backward(zt_cu_call *c)
{
    return of_bins(c, &((const zt_rfft_backward_attrs *)c->attrs)->norm, false);
}
static zt_status emit_irfft(zt_cu_call *c)
{
    return of_bins(c, &((const zt_irfft_attrs *)c->attrs)->norm, true);
}
static zt_status emit_irfft_backward(zt_cu_call *c)
{
    return to_bins(c, &((const zt_irfft_backward_attrs *)c->attrs)->norm, true);
}

static zt_status emit_dft(zt_cu_call *c)
{
    const zt_dft_attrs *d = c->attrs;
    const zt_type *x = c->in[0], *y = c->out[0];
    int axis = (int)(d->axis < 0 ? d->axis + x->rank : d->axis);
    zt_cu_dft_args a = {.n = y->dim[axis],
                        .given = x->dim[axis],
                        .inner = 1,
                        .scale = scale_of(&d->norm, d->inverse != 0, y->dim[axis]),
                        .kind = ZT_CU_OF_PAIRS,
                        .inverse = d->inverse != 0};
    for (int k = axis + 1; k < y->rank - 1; k++) a.inner *= y->dim[k];
    a.lines = a.n ? zt_type_count(y) / 2 / a.n : 0;
    return transform(c, &a);
}

/* ---- the spectral convolution ------------------------------------------------------------------
 */

/* Bins of the grid at x, in scratch; 0: an error. */
static zt_cu_ptr bins_of(zt_cu_call *c, zt_cu_bins_args a, zt_cu_ptr x, int64_t C, bool weigh)
{
    a.x = x;
    a.C = C;
    a.weigh = weigh;
    a.z = zt_cu_scratch(c, (size_t)(a.B * a.modes * C) * 16);
    bool done;
    if (!a.z || zt_cu_fft_bins(c, &a, &done)) return 0;
    if (!done && zt_cu_launch_each(c, "zt_cu_bins", a.B * a.modes * C, &a, sizeof a)) return 0;
    return a.z;
}

static zt_status waves(zt_cu_call *c, zt_cu_bins_args a, zt_cu_ptr z, zt_cu_ptr y, int64_t C)
{
    a.z = z;
    a.x = y;
    a.C = C;
    bool done;
    zt_status s = zt_cu_fft_waves(c, &a, &done);
    return s || done ? s : zt_cu_launch_each(c, "zt_cu_waves", a.B * a.n * C, &a, sizeof a);
}

static zt_status grid_of(zt_cu_call *c, zt_cu_bins_args *g, zt_cu_mix_args *m)
{
    const zt_type *x = c->in[0], *w = c->in[1];
    *g = (zt_cu_bins_args){.B = 1, .n = x->dim[x->rank - 2], .modes = w->dim[0], .type = x->dtype};
    for (int d = 0; d < x->rank - 2; d++) g->B *= x->dim[d];
    *m = (zt_cu_mix_args){.w_re = c->x[1],
                          .w_im = c->x[2],
                          .B = g->B,
                          .n = g->n,
                          .I = w->dim[1],
                          .O = w->dim[2],
                          .modes = g->modes,
                          .type = x->dtype};
    g->t = turns(c, g->n);
    return g->t ? ZT_OK : failed(c);
}

static zt_status emit_conv(zt_cu_call *c)
{
    zt_cu_bins_args g;
    zt_cu_mix_args m;
    zt_status s = grid_of(c, &g, &m);
    if (s) return s;
    m.x = bins_of(c, g, c->x[0], m.I, false);
    m.z = zt_cu_scratch(c, (size_t)(m.B * m.modes * m.O) * 16);
    if (!m.x || !m.z) return failed(c);
    s = zt_cu_launch_each(c, "zt_cu_mix", m.B * m.modes * m.O, &m, sizeof m);
    return s ? s : waves(c, g, m.z, c->y[0], m.O);
}

static zt_status emit_conv_backward(zt_cu_call *c)
{
    zt_cu_bins_args g;
    zt_cu_mix_args m;
    zt_status s = grid_of(c, &g, &m);
    if (s) return s;
    zt_cu_mix_args w = m;
    w.x = bins_of(c, g, c->x[0], m.I, false);
    w.z = m.z = bins_of(c, g, c->x[3], m.O, true);
    m.x = zt_cu_scratch(c, (size_t)(m.B * m.modes * m.I) * 16);
    if (!w.x || !w.z || !m.x) return failed(c);
    w.w_re = c->y[1];
    w.w_im = c->y[2];
    if (w.w_re || w.w_im)
        s = zt_cu_launch_each(c, "zt_cu_mix_weights", m.modes * m.I * m.O, &w, sizeof w);
    if (s || !c->y[0]) return s;
    s = zt_cu_launch_each(c, "zt_cu_mix_back", m.B * m.modes * m.I, &m, sizeof m);
    return s ? s : waves(c, g, m.x, c->y[0], m.I);
}

const zt_cu_row zt_cu_spectral[] = {
    {.op = ZT_OP_rfft, .has = float_has, .emit = emit_rfft},
    {.op = ZT_OP_rfft_backward, .has = float_has, .emit = emit_rfft_backward},
    {.op = ZT_OP_irfft, .has = float_has, .emit = emit_irfft},
    {.op = ZT_OP_irfft_backward, .has = float_has, .emit = emit_irfft_backward},
    {.op = ZT_OP_dft, .has = float_has, .emit = emit_dft},
    {.op = ZT_OP_spectral_conv1d_rfft, .has = float_has, .emit = emit_conv},
    {.op = ZT_OP_spectral_conv1d_rfft_backward, .has = float_has, .emit = emit_conv_backward},
    {.emit = NULL},
};
