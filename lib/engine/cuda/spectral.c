/* spectral.c - Fourier transforms and the spectral convolution. */
#include "lib/engine/cuda/fft.h"
#include "lib/engine/cuda/strides.h"

#include <math.h>

enum { THREADS = 256 };

static bool float_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                      const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)output_types;
    return zt_cu_is_wide_float(input_types[0]->dtype);
}

/* cos and sin of the n turns, in scratch; 0: an error. */
static zt_cu_ptr make_phases(zt_cu_call *call, int64_t turn_count)
{
    zt_cu_phases_args args = {.t = zt_cu_scratch(call, (size_t)turn_count * 16), .n = turn_count};
    if (!args.t || zt_cu_launch_each(call, "zt_cu_phases", turn_count, &args, sizeof args)) return 0;
    return args.t;
}

static zt_status status_of(const zt_cu_call *call) { return zt_ctx_status(call->engine->base.ctx); }

/* What a transform of n is multiplied by: lib/ops/spectral.c. */
static double scale_of(const zt_enum_string *norm, bool inverse, int64_t length)
{
    if (norm->s[0] == 'o') return length ? 1 / sqrt((double)length) : 1;
    return (norm->s[0] == 'b') == inverse && length ? 1 / (double)length : 1;
}

/* ---- transforms --------------------------------------------------------------------------------
 */

static zt_status transform_lines(zt_cu_call *call, zt_cu_dft_args *args)
{
    const int64_t most = call->input_types[0]->dtype == ZT_F64 ? ZT_CU_FFT_F64 : ZT_CU_FFT_F32;
    const bool fast = args->n > 1 && args->n <= most && (args->n & (args->n - 1)) == 0;
    const int64_t each = args->kind == ZT_CU_TO_BINS ? args->n / 2 + 1 : args->n;
    args->x = call->inputs[0];
    args->y = call->outputs[0];
    args->type = call->input_types[0]->dtype;
    if (!args->lines || !each) return ZT_OK;
    bool done = false;
    zt_status status = fast ? ZT_OK : zt_cu_fft_transform(call, args, &done);
    if (status || done) return status;
    args->t = make_phases(call, args->n);
    if (!args->t) return status_of(call);
    if (!fast) return zt_cu_launch_each(call, "zt_cu_dft_sums", args->lines * each, args, sizeof *args);
    return zt_cu_launch(call, args->type == ZT_F64 ? "zt_cu_fft_f64" : "zt_cu_fft", zt_cu_spread(call, args->lines, 1),
                        (zt_cu_dim){THREADS, 1, 1}, 0, args, sizeof *args);
}

static int64_t column_count(const zt_type *type) { return type->rank ? type->dim[type->rank - 1] : 1; }

/* Lines of real numbers, which x or y has. */
static zt_cu_dft_args lines_of(const zt_type *real, const zt_enum_string *norm, bool twice)
{
    int64_t length = column_count(real);
    return (zt_cu_dft_args){.lines = length ? zt_type_count(real) / length : 0,
                            .n = length,
                            .given = length,
                            .inner = 1,
                            .scale = scale_of(norm, twice, length),
                            .twice = twice};
}

/* Real lines to bins: rfft, and irfft's gradient. */
static zt_status to_bins(zt_cu_call *call, const zt_enum_string *norm, bool twice)
{
    zt_cu_dft_args args = lines_of(call->input_types[0], norm, twice);
    args.kind = ZT_CU_TO_BINS;
    if (!args.n) return zt_cu_fill(call, call->outputs[0], 0, zt_type_bytes(call->output_types[0])); /* one bin of nothing */
    return transform_lines(call, &args);
}

/* And back: irfft, and rfft's gradient. */
static zt_status of_bins(zt_cu_call *call, const zt_enum_string *norm, bool twice)
{
    zt_cu_dft_args args = lines_of(call->output_types[0], norm, twice);
    args.kind = ZT_CU_OF_BINS;
    args.inverse = 1;
    return transform_lines(call, &args);
}

static zt_status emit_rfft(zt_cu_call *call) { return to_bins(call, &((const zt_rfft_attrs *)call->attrs)->norm, false); }
static zt_status emit_rfft_backward(zt_cu_call *call)
{
    return of_bins(call, &((const zt_rfft_backward_attrs *)call->attrs)->norm, false);
}
static zt_status emit_irfft(zt_cu_call *call) { return of_bins(call, &((const zt_irfft_attrs *)call->attrs)->norm, true); }
static zt_status emit_irfft_backward(zt_cu_call *call)
{
    return to_bins(call, &((const zt_irfft_backward_attrs *)call->attrs)->norm, true);
}

static zt_status emit_dft(zt_cu_call *call)
{
    const zt_dft_attrs *attrs = call->attrs;
    const zt_type *x_type = call->input_types[0], *y_type = call->output_types[0];
    int axis = (int)(attrs->axis < 0 ? attrs->axis + x_type->rank : attrs->axis);
    zt_cu_dft_args args = {.n = y_type->dim[axis],
                           .given = x_type->dim[axis],
                           .inner = 1,
                           .scale = scale_of(&attrs->norm, attrs->inverse != 0, y_type->dim[axis]),
                           .kind = ZT_CU_OF_PAIRS,
                           .inverse = attrs->inverse != 0};
    for (int k = axis + 1; k < y_type->rank - 1; k++) args.inner *= y_type->dim[k];
    args.lines = args.n ? zt_type_count(y_type) / 2 / args.n : 0;
    return transform_lines(call, &args);
}

/* ---- the spectral convolution ------------------------------------------------------------------
 */

/* Bins of the grid at x, in scratch; 0: an error. */
static zt_cu_ptr bins_of(zt_cu_call *call, zt_cu_bins_args args, zt_cu_ptr grid, int64_t C, bool weigh)
{
    args.x = grid;
    args.C = C;
    args.weigh = weigh;
    args.z = zt_cu_scratch(call, (size_t)(args.B * args.modes * C) * 16);
    bool done;
    if (!args.z || zt_cu_fft_bins(call, &args, &done)) return 0;
    if (!done && zt_cu_launch_each(call, "zt_cu_bins", args.B * args.modes * C, &args, sizeof args)) return 0;
    return args.z;
}

static zt_status waves_of(zt_cu_call *call, zt_cu_bins_args args, zt_cu_ptr spectrum, zt_cu_ptr grid, int64_t C)
{
    args.z = spectrum;
    args.x = grid;
    args.C = C;
    bool done;
    zt_status status = zt_cu_fft_waves(call, &args, &done);
    return status || done ? status : zt_cu_launch_each(call, "zt_cu_waves", args.B * args.n * C, &args, sizeof args);
}

static zt_status grid_of(zt_cu_call *call, zt_cu_bins_args *bins, zt_cu_mix_args *mix)
{
    const zt_type *x_type = call->input_types[0], *w_type = call->input_types[1];
    *bins = (zt_cu_bins_args){.B = 1, .n = x_type->dim[x_type->rank - 2], .modes = w_type->dim[0], .type = x_type->dtype};
    for (int dimension = 0; dimension < x_type->rank - 2; dimension++) bins->B *= x_type->dim[dimension];
    *mix = (zt_cu_mix_args){.w_re = call->inputs[1],
                            .w_im = call->inputs[2],
                            .B = bins->B,
                            .n = bins->n,
                            .I = w_type->dim[1],
                            .O = w_type->dim[2],
                            .modes = bins->modes,
                            .type = x_type->dtype};
    bins->t = make_phases(call, bins->n);
    return bins->t ? ZT_OK : status_of(call);
}

static zt_status emit_conv(zt_cu_call *call)
{
    zt_cu_bins_args bins;
    zt_cu_mix_args mix;
    zt_status status = grid_of(call, &bins, &mix);
    if (status) return status;
    mix.x = bins_of(call, bins, call->inputs[0], mix.I, false);
    mix.z = zt_cu_scratch(call, (size_t)(mix.B * mix.modes * mix.O) * 16);
    if (!mix.x || !mix.z) return status_of(call);
    status = zt_cu_launch_each(call, "zt_cu_mix", mix.B * mix.modes * mix.O, &mix, sizeof mix);
    return status ? status : waves_of(call, bins, mix.z, call->outputs[0], mix.O);
}

static zt_status emit_conv_backward(zt_cu_call *call)
{
    zt_cu_bins_args bins;
    zt_cu_mix_args mix;
    zt_status status = grid_of(call, &bins, &mix);
    if (status) return status;
    zt_cu_mix_args weight_mix = mix;
    weight_mix.x = bins_of(call, bins, call->inputs[0], mix.I, false);
    weight_mix.z = mix.z = bins_of(call, bins, call->inputs[3], mix.O, true);
    mix.x = zt_cu_scratch(call, (size_t)(mix.B * mix.modes * mix.I) * 16);
    if (!weight_mix.x || !weight_mix.z || !mix.x) return status_of(call);
    weight_mix.w_re = call->outputs[1];
    weight_mix.w_im = call->outputs[2];
    if (weight_mix.w_re || weight_mix.w_im)
        status = zt_cu_launch_each(call, "zt_cu_mix_weights", mix.modes * mix.I * mix.O, &weight_mix, sizeof weight_mix);
    if (status || !call->outputs[0]) return status;
    status = zt_cu_launch_each(call, "zt_cu_mix_back", mix.B * mix.modes * mix.I, &mix, sizeof mix);
    return status ? status : waves_of(call, bins, mix.x, call->outputs[0], mix.I);
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
