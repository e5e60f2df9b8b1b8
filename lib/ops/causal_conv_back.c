/* causal_conv_back.c - the row of the gradient of the causal convolution (causal_conv.c). */
#include "lib/ops/state_back.h"

#include <math.h>
#include <string.h>

_Static_assert(sizeof(zt_causal_conv_backward_attrs) == sizeof(zt_causal_conv_attrs), "one list of attributes");

enum { STATE, X, W, FROM, TO, B, DSTATE1, DY }; /* inputs: those of causal_conv, and the cotangents of its outputs */
enum { DSTATE, DX, DW, DB, OUTPUTS };           /* outputs */
enum { MAX_WIDTH = 256 };                       /* rows that a row sees */

static zt_status causal_conv_backward_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_type forward[ZT_MAX_OUT];
    zt_status status = zt_op_causal_conv.infer(ctx, attrs, in, forward);
    if (!status) status = zt_state_back_infer(ctx, in, DSTATE1, &forward[1]);
    if (status) return status;
    out[DSTATE] = *in[STATE];
    out[DX] = *in[X];
    out[DW] = *in[W];
    out[DB] = in[B] ? *in[B] : zt_type_make(ZT_F32, 1, (int64_t[]){0});
    return ZT_OK;
}

/* A channel: what its rows read, and where their gradients go. */
typedef struct channel {
    const zt_arg *in;
    zt_arg *out;
    int64_t number, width, length; /* width: channels; length: rows that a row sees */
    bool silu;
} channel;

static int64_t place_entry(const void *user, int64_t slot, int64_t number)
{
    const channel *of = user;
    return (slot * (of->length - 1) + number) * of->width + of->number;
}

static void shift_window(const void *user, int64_t r, double *state)
{
    const channel *of = user;
    if (of->length < 2) return;
    memmove(state, state + 1, (size_t)(of->length - 2) * sizeof *state);
    state[of->length - 2] = of->in[X].f[r * of->width + of->number];
}

/* The cotangent of the sum that the activation function reads. */
static double sum_cotangent(const channel *of, int64_t r, const double *before)
{
    const double *w = of->in[W].f + of->number * of->length;
    int64_t last = of->length - 1, at = r * of->width + of->number;
    if (!of->in[DY].type) return 0;
    if (!of->silu) return of->in[DY].f[at];
    double sum = (of->in[B].type ? of->in[B].f[of->number] : 0) + w[last] * of->in[X].f[at];
    for (int64_t k = 0; k < last; k++) sum += w[k] * before[k];
    double s = 1 / (1 + exp(-sum));
    return of->in[DY].f[at] * s * (1 + sum * (1 - s));
}

static void back_row(const void *user, int64_t r, const double *before, double *cotangent)
{
    const channel *of = user;
    const double *w = of->in[W].f + of->number * of->length;
    double d = sum_cotangent(of, r, before);
    int64_t last = of->length - 1, at = r * of->width + of->number;
    for (int64_t k = 0; k <= last && of->out[DW].type; k++)
        of->out[DW].f[of->number * of->length + k] += d * (k < last ? before[k] : of->in[X].f[at]);
    if (of->out[DB].type && of->in[B].type) of->out[DB].f[of->number] += d;
    double dx = w[last] * d + (last > 0 ? cotangent[last - 1] : 0);
    if (of->out[DX].type) of->out[DX].f[at] = dx;
    for (int64_t k = last - 1; k >= 0; k--) cotangent[k] = w[k] * d + (k > 0 ? cotangent[k - 1] : 0);
}

static void causal_conv_backward_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    double before[MAX_WIDTH], cotangent[MAX_WIDTH];
    channel of = {.in = in,
                  .out = out,
                  .width = in[X].type->dim[1],
                  .length = in[W].type->dim[1],
                  .silu = ((const zt_causal_conv_backward_attrs *)attrs)->act.s[0] == 's'};
    const zt_state_back back = {.state = &in[STATE],
                                .from = &in[FROM],
                                .to = &in[TO],
                                .dstate1 = &in[DSTATE1],
                                .dstate = &out[DSTATE],
                                .rows = in[X].type->dim[0],
                                .slots = in[STATE].type->dim[0],
                                .user = &of,
                                .place = place_entry,
                                .step = shift_window,
                                .back = back_row};
    zt_state_back_clear(out, OUTPUTS);
    for (; of.number < of.width; of.number++) zt_state_back_unit(&back, of.length - 1, before, cotangent, error);
}

static double causal_conv_backward_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)out;
    return 6 * (double)zt_type_count(in[X]) * (double)in[W]->dim[1];
}

static bool causal_conv_backward_cases(int i, zt_case *test_case)
{
    if (!zt_op_causal_conv.cases(i, test_case)) return false;
    zt_state_back_case(test_case, i, DSTATE1, &test_case->in[X]);
    return true;
}

const zt_opdef zt_op_causal_conv_backward = {
    .synopsis = "gradient of causal_conv from its inputs (state: as the step found it) and the gradients of its outputs, of "
                "which any may be absent: dstate, dx, dw and db (f32[0] without b) have the types of state, x, w and b",
    .n_required = 5,
    .flags = ZT_OPF_SUMS,
    .infer = causal_conv_backward_infer,
    .ref = causal_conv_backward_ref,
    .flops = causal_conv_backward_flops,
    .cases = causal_conv_backward_cases,
};
