/* spectral.c - Fourier transforms, the spectral convolution, and their gradients. */
#include "lib/engine/vulkan/vk.h"

#include <math.h>
#include <string.h>

/* As shaders/spectral.comp and shaders/spectral_conv.comp have them. */
enum { OF_PAIRS, TO_BINS, OF_BINS };
enum { SUMS, FAST, LOAD, STAGE, STORE };
enum { BINS, WAVES, MIX, BACK, WEIGHTS };
enum { MOST_FAST = 1024 /* half of it in f64 */, MOST_LENGTH = 1 << 20 };

/* cos and sin of the n turns, as the step's table. */
static zt_status set_turns(zt_vk_engine *engine, zt_vk_call *call, int64_t n)
{
    const bool wide = call->spec[ZT_VK_FLOATS] == ZT_VK_F64;
    call->table_words = (wide ? 4 : 2) * (size_t)n;
    call->table = zt_alloc_array(engine->base.ctx, call->table_words + 1, sizeof *call->table);
    if (!call->table) return ZT_ENOMEM;
    for (int64_t j = 0; j < n; j++) {
        const double angle = 2 * M_PI * (double)j / (double)n, turn[2] = {cos(angle), sin(angle)};
        const float single[2] = {(float)turn[0], (float)turn[1]};
        if (wide)
            memcpy(call->table + 4 * j, turn, sizeof turn);
        else
            memcpy(call->table + 2 * j, single, sizeof single);
    }
    return ZT_OK;
}

/* What a transform of n is multiplied by: lib/ops/spectral.c. */
static double scale_of(const zt_enum_string *norm, bool inverse, int64_t n)
{
    if (norm->s[0] == 'o') return n ? 1 / sqrt((double)n) : 1;
    return (norm->s[0] == 'b') == inverse && n ? 1 / (double)n : 1;
}

static int64_t columns_of(const zt_type *type) { return type->rank ? type->dim[type->rank - 1] : 1; }

/* ---- transforms ------------------------------------------------------------------------------ */

typedef struct transform {
    int kind;
    int64_t lines, n, given, inner; /* given: entries that x has of a line */
    double scale;
    bool inverse, twice; /* twice: bins that are no ends count double, ends are real */
} transform;

/* A pass from x to y, an invocation each of `count` numbers or a workgroup a line. */
static void set_lines(const zt_vk_engine *engine, zt_vk_call *call, const transform *lines, int pass, zt_vk_arg x, zt_vk_arg y)
{
    const int64_t n = lines->n, results = lines->kind == TO_BINS ? n / 2 + 1 : n;
    const int64_t each = pass == LOAD ? n : pass == STAGE ? n / 2 : pass == FAST ? 1 : results;
    call->shader = ZT_VK_SHADER_spectral;
    call->spec[0] = (uint32_t)lines->kind;
    call->spec[1] = (uint32_t)pass;
    call->word[0] = (uint32_t)lines->lines;
    call->word[1] = (uint32_t)n;
    call->word[2] = (uint32_t)lines->given;
    call->word[3] = (uint32_t)lines->inner;
    zt_vk_put_number(call, 4, 8, lines->scale);
    call->word[5] = lines->inverse;
    call->word[6] = lines->twice;
    ZT_VK_ARGS(call, x, y, zt_vk_table(0));
    zt_vk_spread(engine, call, lines->lines * each, pass == FAST ? 1 : 64);
}

/* Long lines stage by stage, from one scratch into the other. */
static zt_status set_stages(zt_vk_engine *engine, zt_vk_call *call, const transform *lines)
{
    const size_t bytes = (size_t)(lines->lines * lines->n) * 2 * zt_vk_sum_bytes(call->in[0]->dtype);
    zt_vk_arg from = zt_vk_scratch(call, bytes), to = zt_vk_scratch(call, bytes);
    set_lines(engine, call, lines, LOAD, zt_vk_in(0), from);
    zt_status status = zt_vk_then(engine, call);
    for (int64_t done = 1; done < lines->n && !status; done *= 2) {
        const zt_vk_arg was = from;
        set_lines(engine, call, lines, STAGE, from, to);
        call->word[7] = (uint32_t)done;
        status = zt_vk_then(engine, call);
        from = to;
        to = was;
    }
    if (!status) set_lines(engine, call, lines, STORE, from, zt_vk_out(0));
    return status;
}

static zt_status set_transform(zt_vk_engine *engine, zt_vk_call *call, const transform *lines)
{
    const int64_t n = lines->n;
    const bool power = n > 1 && (n & (n - 1)) == 0;
    if (lines->lines == 0 || n == 0) return ZT_OK;
    zt_status status = set_turns(engine, call, n);
    if (status) return status;
    if (power && n > (call->spec[ZT_VK_FLOATS] == ZT_VK_F64 ? MOST_FAST / 2 : MOST_FAST)) return set_stages(engine, call, lines);
    set_lines(engine, call, lines, power ? FAST : SUMS, zt_vk_in(0), zt_vk_out(0));
    return ZT_OK;
}

/* Lines of real numbers, which x or y has. */
static transform lines_of(const zt_type *real, int kind, const zt_enum_string *norm, bool twice)
{
    const int64_t n = columns_of(real);
    return (transform){.kind = kind,
                       .lines = n ? zt_type_count(real) / n : 0,
                       .n = n,
                       .given = n,
                       .inner = 1,
                       .scale = scale_of(norm, twice, n),
                       .inverse = kind == OF_BINS,
                       .twice = twice};
}

/* Real lines to bins: rfft, and irfft's gradient. */
static zt_status set_to_bins(zt_vk_engine *engine, zt_vk_call *call, const zt_enum_string *norm, bool twice)
{
    const transform lines = lines_of(call->in[0], TO_BINS, norm, twice);
    if (!lines.n) return zt_vk_fill(call, zt_vk_out(0), zt_type_bytes(call->out), 0); /* one bin of nothing */
    return set_transform(engine, call, &lines);
}

/* And back: irfft, and rfft's gradient. */
static zt_status set_of_bins(zt_vk_engine *engine, zt_vk_call *call, const zt_enum_string *norm, bool twice)
{
    const transform lines = lines_of(call->out, OF_BINS, norm, twice);
    return set_transform(engine, call, &lines);
}

static zt_status set_rfft(zt_vk_engine *engine, zt_vk_call *call)
{
    return set_to_bins(engine, call, &((const zt_rfft_attrs *)call->attrs)->norm, false);
}

static zt_status set_rfft_backward(zt_vk_engine *engine, zt_vk_call *call)
{
    return set_of_bins(engine, call, &((const zt_rfft_backward_attrs *)call->attrs)->norm, false);
}

static zt_status set_irfft(zt_vk_engine *engine, zt_vk_call *call)
{
    return set_of_bins(engine, call, &((const zt_irfft_attrs *)call->attrs)->norm, true);
}

static zt_status set_irfft_backward(zt_vk_engine *engine, zt_vk_call *call)
{
    return set_to_bins(engine, call, &((const zt_irfft_backward_attrs *)call->attrs)->norm, true);
}

static int axis_of(const zt_dft_attrs *attrs, const zt_type *x)
{
    return (int)(attrs->axis < 0 ? attrs->axis + x->rank : attrs->axis);
}

static zt_status set_dft(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_dft_attrs *attrs = call->attrs;
    const zt_type *x = call->in[0], *y = call->out;
    const int axis = axis_of(attrs, x);
    const bool inverse = attrs->inverse != 0;
    transform lines = {.kind = OF_PAIRS,
                       .n = y->dim[axis],
                       .given = x->dim[axis],
                       .inner = 1,
                       .scale = scale_of(&attrs->norm, inverse, y->dim[axis]),
                       .inverse = inverse};
    for (int k = axis + 1; k < y->rank - 1; k++) lines.inner *= y->dim[k];
    lines.lines = lines.n ? zt_type_count(y) / 2 / lines.n : 0;
    return set_transform(engine, call, &lines);
}

/* ---- the spectral convolution ---------------------------------------------------------------- */

typedef struct grid {
    int64_t B, n, modes, I, O;
} grid;

static grid grid_of(const zt_type *x, const zt_type *w)
{
    grid g = {1, x->dim[x->rank - 2], w->dim[0], w->dim[1], w->dim[2]};
    for (int axis = 0; axis < x->rank - 2; axis++) g.B *= x->dim[axis];
    return g;
}

/* A pass over `count` numbers; C: channels of bins and waves, I of the others. */
static void set_part(const zt_vk_engine *engine, zt_vk_call *call, int kind, const grid *g, int64_t C, bool weigh, int64_t count)
{
    call->shader = ZT_VK_SHADER_spectral_conv;
    call->spec[0] = (uint32_t)kind;
    call->word[0] = (uint32_t)g->B;
    call->word[1] = (uint32_t)g->n;
    call->word[2] = (uint32_t)g->modes;
    call->word[3] = (uint32_t)C;
    call->word[4] = (uint32_t)g->O;
    call->word[5] = weigh;
    zt_vk_spread(engine, call, count, 64);
}

static zt_vk_arg bins_scratch(zt_vk_call *call, const grid *g, int64_t C)
{
    return zt_vk_scratch(call, (size_t)(g->B * g->modes * C) * 2 * zt_vk_sum_bytes(call->in[0]->dtype));
}

static zt_status make_bins(zt_vk_engine *engine, zt_vk_call *call, const grid *g, int input, int64_t C, bool weigh,
                           zt_vk_arg bins)
{
    ZT_VK_ARGS(call, zt_vk_in(input), bins, zt_vk_table(0));
    set_part(engine, call, BINS, g, C, weigh, g->B * g->modes * C);
    return zt_vk_then(engine, call);
}

static void set_waves(const zt_vk_engine *engine, zt_vk_call *call, const grid *g, zt_vk_arg bins, int64_t C)
{
    ZT_VK_ARGS(call, bins, zt_vk_out(0), zt_vk_table(0));
    set_part(engine, call, WAVES, g, C, false, g->B * g->n * C);
}

static zt_status set_conv(zt_vk_engine *engine, zt_vk_call *call)
{
    const grid g = grid_of(call->in[0], call->in[1]);
    const zt_vk_arg x = bins_scratch(call, &g, g.I), z = bins_scratch(call, &g, g.O);
    zt_status status = set_turns(engine, call, g.n);
    if (!status) status = make_bins(engine, call, &g, 0, g.I, false, x);
    if (status) return status;
    ZT_VK_ARGS(call, x, zt_vk_in(1), zt_vk_in(2), z);
    set_part(engine, call, MIX, &g, g.I, false, g.B * g.modes * g.O);
    status = zt_vk_then(engine, call);
    if (!status) set_waves(engine, call, &g, z, g.O);
    return status;
}

static zt_status set_conv_backward(zt_vk_engine *engine, zt_vk_call *call)
{
    const grid g = grid_of(call->in[0], call->in[1]);
    const zt_vk_arg x = bins_scratch(call, &g, g.I), z = bins_scratch(call, &g, g.O), dx = bins_scratch(call, &g, g.I);
    zt_status status = set_turns(engine, call, g.n);
    if (!status) status = make_bins(engine, call, &g, 0, g.I, false, x);
    if (!status) status = make_bins(engine, call, &g, 3, g.O, true, z);
    if (!status && (call->wanted[1] || call->wanted[2])) {
        ZT_VK_ARGS(call, x, z, zt_vk_out(1), zt_vk_out(2));
        set_part(engine, call, WEIGHTS, &g, g.I, false, g.modes * g.I * g.O);
        status = zt_vk_then(engine, call);
    }
    if (status || !call->wanted[0]) return status;
    ZT_VK_ARGS(call, z, zt_vk_in(1), zt_vk_in(2), dx);
    set_part(engine, call, BACK, &g, g.I, false, g.B * g.modes * g.I);
    status = zt_vk_then(engine, call);
    if (!status) set_waves(engine, call, &g, dx, g.I);
    return status;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The table of turns has a line's length; the numbers between passes are pairs of f32, of f64 of f64. */
static bool has_lines(const zt_vk_engine *engine, const zt_type *x, int64_t n)
{
    return zt_vk_is_real(engine, x->dtype) && n <= MOST_LENGTH;
}

static bool has_to_bins(const zt_vk_engine *engine, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return has_lines(engine, in[0], columns_of(in[0]));
}

static bool has_of_bins(const zt_vk_engine *engine, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs;
    return has_lines(engine, in[0], columns_of(&out[0]));
}

static bool has_dft(const zt_vk_engine *engine, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    return has_lines(engine, in[0], out[0].dim[axis_of(attrs, in[0])]);
}

static bool has_conv(const zt_vk_engine *engine, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    const grid g = grid_of(in[0], in[1]);
    (void)attrs, (void)out;
    return has_lines(engine, in[0], g.n) && g.B * g.modes * (g.I > g.O ? g.I : g.O) < INT32_MAX / 2;
}

const zt_vk_kernel zt_vk_spectral[] = {
    {.op = ZT_OP_rfft, .has = has_to_bins, .set = set_rfft},
    {.op = ZT_OP_rfft_backward, .has = has_of_bins, .set = set_rfft_backward},
    {.op = ZT_OP_irfft, .has = has_of_bins, .set = set_irfft},
    {.op = ZT_OP_irfft_backward, .has = has_to_bins, .set = set_irfft_backward},
    {.op = ZT_OP_dft, .has = has_dft, .set = set_dft},
    {.op = ZT_OP_spectral_conv1d_rfft, .has = has_conv, .set = set_conv},
    {.op = ZT_OP_spectral_conv1d_rfft_backward, .has = has_conv, .set = set_conv_backward},
    {0},
};
