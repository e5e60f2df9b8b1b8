/* causal_conv_back.c - kernel of the gradient of the causal convolution (lib/ops/causal_conv_back.c): 16 channels of all
 * rows an item.
 *
 *   local   the filter with the taps behind one another, f32[K,16], its gradient and the bias's, f32[K+1,16], and the memory of
 *           state_back.h for the last K - 1 rows
 */
#include "lib/engine/cpu/isa/state_back.h"

enum { STATE, X, W, FROM, TO, B, DSTATE1, DY }; /* inputs */
enum { DSTATE, DX, DW, DB };                    /* outputs */

static bool causal_conv_back_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return in[X]->dtype == ZT_F32;
}

static void causal_conv_back_setup(zt_cpu_call *call)
{
    int64_t rows = call->in[X].type.dim[0], slots = call->in[STATE].type.dim[0], K = call->in[W].type.dim[1];
    call->items[0] = (call->in[X].type.dim[1] + LANES - 1) / LANES;
    call->local_bytes = (state_back_floats(rows, slots, (K - 1) * LANES) + (size_t)((2 * K + 1) * LANES)) * sizeof(float);
}

typedef struct channels {
    const zt_cpu_call *call;
    int64_t C, K, first;
    int count; /* of 16 */
    bool silu;
    float *filter, *dw, *memory; /* local */
} channels;

static void load_part(const void *user, const float *from, int64_t slot, float *part)
{
    const channels *of = user;
    for (int64_t k = 0; k < of->K - 1; k++)
        vf_store(part + k * LANES, vf_load_n(from + (slot * (of->K - 1) + k) * of->C + of->first, of->count));
}

static void store_part(const void *user, float *to, int64_t slot, const float *part)
{
    const channels *of = user;
    for (int64_t k = 0; k < of->K - 1; k++)
        vf_store_n(to + (slot * (of->K - 1) + k) * of->C + of->first, of->count, vf_load(part + k * LANES));
}

static vf row_of(const channels *of, const void *x, int64_t r)
{
    return vf_load_n((const float *)x + r * of->C + of->first, of->count);
}

static void shift_rows(void *user, int64_t r, float *state)
{
    const channels *of = user;
    if (of->K < 2) return;
    memmove(state, state + LANES, (size_t)((of->K - 2) * LANES) * sizeof *state);
    vf_store(state + (of->K - 2) * LANES, row_of(of, of->call->in[X].data, r));
}

/* The cotangent of the sum that silu reads: dy s (1 + sum (1 - s)), s = sigmoid(sum). */
static vf through_silu(const channels *of, const float *before, vf x, vf dy)
{
    const float *b = of->call->in[B].data;
    vf sum = b ? vf_load_n(b + of->first, of->count) : vf_set(0);
    for (int64_t k = 0; k < of->K - 1; k++) sum = vf_fma(vf_load(of->filter + k * LANES), vf_load(before + k * LANES), sum);
    sum = vf_fma(vf_load(of->filter + (of->K - 1) * LANES), x, sum);
    vf s = vf_sigmoid(sum), one = vf_set(1);
    return vf_mul(vf_mul(dy, s), vf_fma(sum, vf_sub(one, s), one));
}

static void back_row(void *user, int64_t r, const float *before, float *cotangent)
{
    const channels *of = user;
    const zt_cpu_call *call = of->call;
    int64_t last = of->K - 1;
    vf x = row_of(of, call->in[X].data, r), d = call->in[DY].data ? row_of(of, call->in[DY].data, r) : vf_set(0);
    if (of->silu && call->in[DY].data) d = through_silu(of, before, x, d);
    for (int64_t k = 0; k <= last; k++)
        vf_store(of->dw + k * LANES, vf_fma(d, k < last ? vf_load(before + k * LANES) : x, vf_load(of->dw + k * LANES)));
    vf_store(of->dw + of->K * LANES, vf_add(vf_load(of->dw + of->K * LANES), d));
    vf dx = vf_fma(vf_load(of->filter + last * LANES), d, last > 0 ? vf_load(cotangent + (last - 1) * LANES) : vf_set(0));
    if (call->out[DX].data) vf_store_n((float *)call->out[DX].data + r * of->C + of->first, of->count, dx);
    for (int64_t k = last - 1; k >= 0; k--) {
        vf later = k > 0 ? vf_load(cotangent + (k - 1) * LANES) : vf_set(0);
        vf_store(cotangent + k * LANES, vf_fma(vf_load(of->filter + k * LANES), d, later));
    }
}

static void run_item(zt_cpu_call *call, channels *of)
{
    const float *w = call->in[W].data;
    float *dw = call->out[DW].data, *db = call->in[B].data ? call->out[DB].data : NULL;
    const state_back back = {.from_to = state_rows_of(call, FROM, call->in[STATE].type.dim[0]),
                             .rows = call->in[X].type.dim[0],
                             .slots = call->in[STATE].type.dim[0],
                             .size = (of->K - 1) * LANES,
                             .user = of,
                             .load = load_part,
                             .store = store_part,
                             .step = shift_rows,
                             .back = back_row};
    memset(of->filter, 0, (size_t)((2 * of->K + 1) * LANES) * sizeof *of->filter);
    for (int c = 0; c < of->count; c++)
        for (int64_t k = 0; k < of->K; k++) of->filter[k * LANES + c] = w[(of->first + c) * of->K + k];
    state_back_run(&back, call, call->in[STATE].data, call->in[DSTATE1].data, call->out[DSTATE].data, of->memory);
    for (int c = 0; c < of->count && dw; c++)
        for (int64_t k = 0; k < of->K; k++) dw[(of->first + c) * of->K + k] = of->dw[k * LANES + c];
    for (int c = 0; c < of->count && db; c++) db[of->first + c] = of->dw[of->K * LANES + c];
}

static void causal_conv_back_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    channels of = {.call = call, .C = call->in[X].type.dim[1], .K = call->in[W].type.dim[1], .filter = local};
    (void)phase;
    of.silu = ((const zt_causal_conv_backward_attrs *)call->attrs)->act.s[0] == 's';
    of.dw = of.filter + of.K * LANES;
    of.memory = of.dw + (of.K + 1) * LANES;
    for (int64_t item = begin; item < end; item++) {
        of.first = item * LANES;
        of.count = of.C - of.first < LANES ? (int)(of.C - of.first) : LANES;
        run_item(call, &of);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_causal_conv_back)[] = {
    {.op = ZT_OP_causal_conv_backward, .has = causal_conv_back_has, .setup = causal_conv_back_setup, .run = causal_conv_back_run},
    {0},
};
