/* causal_conv.c - kernel of the causal convolution of channels with a state (lib/ops/causal_conv.c).
 *
 * An item is 16 channels of all rows, in order, so that a row finds in a slot what the rows before it stored there. The sum
 * of a row starts with the bias and takes the oldest row first: one order for any number of rows in a step.
 *
 *   local   the filter with the taps behind one another: f32[K,16]; the last K - 1 rows: f32[K - 1,16]
 */
#include "lib/engine/cpu/isa/simd.h"
#include "lib/engine/cpu/isa/state_rows.h"

enum { STATE, X, W, FROM, TO, B }; /* inputs */

static bool causal_conv_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return in[X]->dtype == ZT_F32;
}

static void causal_conv_setup(zt_cpu_call *call)
{
    call->items[0] = (call->in[X].type.dim[1] + LANES - 1) / LANES;
    call->local_bytes = (size_t)(2 * call->in[W].type.dim[1]) * LANES * sizeof(float);
}

typedef struct channels {
    int64_t C, K, first;
    int count;            /* of 16 */
    float *filter, *seen; /* local */
} channels;

#if defined(ZT_ISA_avx512)
/* Four taps of each of sixteen channels, to four registers of one tap each. */
static void turn_four_taps(const float *w, float *filter)
{
    const __m512i step = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
    for (int k = 0; k < 4; k += 2) {
        const __m512i from = _mm512_add_epi32(step, _mm512_set1_epi32(k));
        const vf low = _mm512_permutex2var_ps(vf_load(w), from, vf_load(w + LANES));
        const vf high = _mm512_permutex2var_ps(vf_load(w + 2 * LANES), from, vf_load(w + 3 * LANES));
        vf_store(filter + k * LANES, _mm512_shuffle_f32x4(low, high, 0x44));
        vf_store(filter + (k + 1) * LANES, _mm512_shuffle_f32x4(low, high, 0xee));
    }
}
#endif

static void read_filter(const channels *of, const float *w)
{
#if defined(ZT_ISA_avx512)
    if (of->K == 4 && of->count == LANES) {
        turn_four_taps(w + of->first * of->K, of->filter);
        return;
    }
#endif
    memset(of->filter, 0, (size_t)of->K * LANES * sizeof *of->filter);
    for (int c = 0; c < of->count; c++)
        for (int64_t k = 0; k < of->K; k++) of->filter[k * LANES + c] = w[(of->first + c) * of->K + k];
}

static void read_state(const channels *of, const float *state, int64_t slot)
{
    if (slot == STATE_CONTINUED) return;
    if (slot == STATE_ZEROS) memset(of->seen, 0, (size_t)(of->K - 1) * LANES * sizeof *of->seen);
    for (int64_t k = 0; k < of->K - 1 && slot >= 0; k++)
        vf_store(of->seen + k * LANES, vf_load_n(state + (slot * (of->K - 1) + k) * of->C + of->first, of->count));
}

static void write_state(const channels *of, float *state, int64_t slot)
{
    for (int64_t k = 0; k < of->K - 1 && slot >= 0; k++)
        vf_store_n(state + (slot * (of->K - 1) + k) * of->C + of->first, of->count, vf_load(of->seen + k * LANES));
}

/* The sum of a row x; the rows seen move on by one. */
static vf convolve_row(const channels *of, vf x, vf bias)
{
    vf sum = bias;
    for (int64_t k = 0; k < of->K - 1; k++) {
        sum = vf_fma(vf_load(of->filter + k * LANES), vf_load(of->seen + k * LANES), sum);
        vf_store(of->seen + k * LANES, k + 1 < of->K - 1 ? vf_load(of->seen + (k + 1) * LANES) : x);
    }
    return vf_fma(vf_load(of->filter + (of->K - 1) * LANES), x, sum);
}

static void convolve_channels(zt_cpu_call *call, const channels *of)
{
    const float *x = call->in[X].data, *b = call->in[B].data;
    float *state = call->out[0].data, *y = call->out[1].data;
    bool silu = ((const zt_causal_conv_attrs *)call->attrs)->act.s[0] == 's';
    state_rows rows = state_rows_of(call, FROM, call->in[STATE].type.dim[0]);
    vf bias = b ? vf_load_n(b + of->first, of->count) : vf_set(0);
    read_filter(of, call->in[W].data);
    for (int64_t r = 0; r < call->in[X].type.dim[0]; r++) {
        int64_t at = r * of->C + of->first;
        read_state(of, state, state_row_from(&rows, call, r));
        vf sum = convolve_row(of, vf_load_n(x + at, of->count), bias);
        if (y) vf_store_n(y + at, of->count, silu ? vf_mul(sum, vf_sigmoid(sum)) : sum);
        write_state(of, state, state_row_to(&rows, call, r));
    }
}

static void causal_conv_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    channels of = {.C = call->in[X].type.dim[1], .K = call->in[W].type.dim[1], .filter = local};
    of.seen = of.filter + of.K * LANES;
    (void)phase;
    for (int64_t item = begin; item < end; item++) {
        of.first = item * LANES;
        of.count = of.C - of.first < LANES ? (int)(of.C - of.first) : LANES;
        convolve_channels(call, &of);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_causal_conv)[] = {
    {.op = ZT_OP_causal_conv, .has = causal_conv_has, .setup = causal_conv_setup, .run = causal_conv_run},
    {0},
};
