/* state.cl - recurrences over rows of sequences whose states are in slots: a causal convolution, the gated delta rule and the
 * selective scan. A work-item has its own part of the states and goes through all rows in order, so that a row that starts from
 * a slot reads what the rows before it stored there. */
#include "lib/engine/opencl/prim.clh"
#include "lib/engine/cuda/args_state.h"

enum { STATE_ZEROS = -1, STATE_CONTINUED = -2 };

/* Slot, STATE_ZEROS or STATE_CONTINUED of row r. tells: out of range is reported. */
FN int64_t start_of(const zt_cu_state_rows *rows, int64_t r, bool tells)
{
    const int64_t slot = PTR(const int32_t, rows->from)[r];
    if (slot < rows->slots && slot >= (r ? STATE_CONTINUED : STATE_ZEROS)) return slot;
    if (tells) trouble(rows->trouble, ZT_CU_STATE, 2 * r, slot, rows->slots);
    return STATE_ZEROS;
}

/* Slot of row r, or -1. */
FN int64_t end_of(const zt_cu_state_rows *rows, int64_t r, bool tells)
{
    const int64_t slot = PTR(const int32_t, rows->to)[r];
    if (slot < rows->slots && slot >= -1) return slot;
    if (tells) trouble(rows->trouble, ZT_CU_STATE, 2 * r + 1, slot, rows->slots);
    return -1;
}

/* ---- causal_conv -------------------------------------------------------------------------------- */

/* Entry k of channel c before a row from `start`; entries of the row before it are one place on. */
FN float entry_before(const zt_cu_causal_conv_args *a, int64_t start, int64_t k, int64_t c)
{
    if (start == STATE_CONTINUED) return PTR(const float, a->window)[(k + 1) * a->C + c];
    return start < 0 ? 0 : PTR(const float, a->state)[(start * (a->K - 1) + k) * a->C + c];
}

/* The window has a channel's last K entries. */
KERNEL(zt_causal_conv, zt_cu_causal_conv_args)
{
    EACH_OF(c, a.C)
    for (int64_t r = 0; r < a.rows.n; r++) {
        const int64_t start = start_of(&a.rows, r, c == 0), end = end_of(&a.rows, r, c == 0);
        float sum = a.b ? PTR(const float, a.b)[c] : 0;
        for (int64_t k = 0; k < a.K; k++) {
            const float entry = k == a.K - 1 ? PTR(const float, a.x)[r * a.C + c] : entry_before(&a, start, k, c);
            PTR(float, a.window)[k * a.C + c] = entry;
            sum = fma(PTR(const float, a.w)[c * a.K + k], entry, sum);
        }
        if (a.y) PTR(float, a.y)[r * a.C + c] = a.silu ? sum / (1 + exp(-sum)) : sum;
        for (int64_t k = 0; k < a.K - 1 && end >= 0; k++)
            PTR(float, a.state)[(end * (a.K - 1) + k) * a.C + c] = PTR(float, a.window)[(k + 1) * a.C + c];
    }
}

/* ---- delta_rule --------------------------------------------------------------------------------- */

/* Of a key or query of a row: 1 / sqrt(sum of squares + eps), a query's times the scale. */
KERNEL(zt_delta_factors, zt_cu_delta_rule_args)
{
    EACH_OF(i, 2 * a.rows.n * a.key_heads)
    {
        __global const float *x = PTR(const float, i % 2 ? a.q : a.k) + i / 2 * a.D;
        float sum = 0;
        for (int64_t d = 0; d < a.D; d++) sum = fma(x[d], x[d], sum);
        PTR(float, a.factors)[i] = (i % 2 ? a.scale : 1.0f) / sqrt(sum + a.eps);
    }
}

/* Row r of one column of a head's state, S [D]: S = decay S; S += k (beta (v - k.S)); y = q.S. */
FN void run_row(const zt_cu_delta_rule_args *a, int64_t r, int64_t head, int64_t e, int64_t start, int64_t end)
{
    const int64_t key_head = a->tiled ? head % a->key_heads : head / (a->heads / a->key_heads), vector = r * a->key_heads + key_head;
    __global const float *k = PTR(const float, a->k) + vector * a->D, *q = PTR(const float, a->q) + vector * a->D;
    __global const float *factor = PTR(const float, a->factors) + 2 * vector;
    const float decay = exp(PTR(const float, a->g)[r * a->heads + head]);
    __global float *work = PTR(float, a->work) + head * a->D * a->E + e, *states = PTR(float, a->state) + e;
    __global const float *from = start == STATE_CONTINUED ? work : states + (start < 0 ? 0 : start * a->heads + head) * a->D * a->E;
    __global float *to = end < 0 ? work : states + (end * a->heads + head) * a->D * a->E;
    float seen = 0, y = 0;
    for (int64_t d = 0; d < a->D; d++) {
        const float s = (start == STATE_ZEROS ? 0 : from[d * a->E]) * decay;
        seen = fma(s, k[d] * factor[0], seen);
        work[d * a->E] = s;
    }
    const float v = PTR(const float, a->v)[(r * a->heads + head) * a->E + e];
    const float change = PTR(const float, a->beta)[r * a->heads + head] * (v - seen);
    for (int64_t d = 0; d < a->D; d++) {
        const float s = fma(change, k[d] * factor[0], work[d * a->E]);
        y = fma(s, q[d] * factor[1], y);
        work[d * a->E] = s;
        to[d * a->E] = s;
    }
    if (a->y) PTR(float, a->y)[(r * a->heads + head) * a->E + e] = y;
}

KERNEL(zt_delta_rule, zt_cu_delta_rule_args)
{
    const int64_t e = (int64_t)block() * threads() + thread(), head = block_y();
    const bool tells = e == 0 && head == 0;
    for (int64_t r = 0; r < a.rows.n; r++) {
        const int64_t start = start_of(&a.rows, r, tells), end = end_of(&a.rows, r, tells);
        if (e < a.E) run_row(&a, r, head, e, start, end);
    }
}

/* ---- selective_scan ----------------------------------------------------------------------------- */

/* Row r of a channel. */
FN void scan_row(const zt_cu_selective_scan_args *a, int64_t r, int64_t channel, int64_t start, int64_t end)
{
    const int64_t head = channel / a->channels, width = a->heads * a->channels;
    const int64_t inputs = (r * a->groups + head / (a->heads / a->groups)) * a->N;
    const float dt = PTR(const float, a->dt)[r * a->heads + head], x = PTR(const float, a->x)[r * width + channel];
    __global float *work = PTR(float, a->work) + channel * a->N, *states = PTR(float, a->state);
    __global const float *from = start == STATE_CONTINUED ? work : states + (start < 0 ? 0 : start * width + channel) * a->N;
    __global float *to = end < 0 ? work : states + (end * width + channel) * a->N;
    float sum = 0;
    for (int64_t k = 0; k < a->N; k++) {
        const float decay = exp(dt * PTR(const float, a->a)[a->wide ? head * a->N + k : head]);
        const float s = fma(dt * x, PTR(const float, a->b)[inputs + k], decay * (start == STATE_ZEROS ? 0 : from[k]));
        sum = fma(PTR(const float, a->c)[inputs + k], s, sum);
        work[k] = s;
        to[k] = s;
    }
    if (a->d) sum = fma(PTR(const float, a->d)[head], x, sum);
    if (a->y) PTR(float, a->y)[r * width + channel] = sum;
}

KERNEL(zt_selective_scan, zt_cu_selective_scan_args)
{
    EACH_OF(channel, a.heads * a.channels)
    for (int64_t r = 0; r < a.rows.n; r++) {
        const int64_t start = start_of(&a.rows, r, channel == 0), end = end_of(&a.rows, r, channel == 0);
        scan_row(&a, r, channel, start, end);
    }
}
