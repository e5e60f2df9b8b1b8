/* delta_rule.cu - the gated delta rule over sequences whose states are in slots. */
#include "lib/engine/cuda/state_rows.cuh"

/* A warp a key or query of a row: 1 / sqrt(sum of squares + eps), a query's times the scale. */
KERNEL_OF(zt_delta_factors, zt_cu_delta_rule_args, 128)
{
    const int64_t vectors = 2 * a.rows.n * a.key_heads;
    for (int64_t i = (int64_t)block() * (threads() / 32) + warp(); i < vectors; i += (int64_t)blocks() * (threads() / 32)) {
        const float *x = PTR(const float, i % 2 ? a.q : a.k) + i / 2 * a.D;
        float sum = 0;
        for (int64_t d = lane(); d < a.D; d += 32) sum = fmaf(x[d], x[d], sum);
        sum = warp_sum(sum);
        if (lane() == 0) PTR(float, a.factors)[i] = (i % 2 ? a.scale : 1.0f) / sqrtf(sum + a.eps);
    }
}

/* Row r of one column of a head's state, S [D]: S = decay S; S += k (beta (v - k.S)); y = q.S. */
FN void run_row(const zt_cu_delta_rule_args &a, int64_t r, int64_t head, int64_t e, int64_t start, int64_t end)
{
    const int64_t key_head = a.tiled ? head % a.key_heads : head / (a.heads / a.key_heads), vector = r * a.key_heads + key_head;
    const float *k = PTR(const float, a.k) + vector * a.D, *q = PTR(const float, a.q) + vector * a.D;
    const float *factor = PTR(const float, a.factors) + 2 * vector;
    const float decay = expf(PTR(const float, a.g)[r * a.heads + head]);
    float *work = PTR(float, a.work) + head * a.D * a.E + e, *states = PTR(float, a.state) + e;
    const float *from = start == STATE_CONTINUED ? work : states + (start < 0 ? 0 : start * a.heads + head) * a.D * a.E;
    float *to = end < 0 ? work : states + (end * a.heads + head) * a.D * a.E;
    float seen = 0, y = 0;
    for (int64_t d = 0; d < a.D; d++) {
        const float s = (start == STATE_ZEROS ? 0 : from[d * a.E]) * decay;
        seen = fmaf(s, k[d] * factor[0], seen);
        work[d * a.E] = s;
    }
    const float change = PTR(const float, a.beta)[r * a.heads + head] * (PTR(const float, a.v)[(r * a.heads + head) * a.E + e] - seen);
    for (int64_t d = 0; d < a.D; d++) {
        const float s = fmaf(change, k[d] * factor[0], work[d * a.E]);
        y = fmaf(s, q[d] * factor[1], y);
        work[d * a.E] = s;
        to[d * a.E] = s;
    }
    if (a.y) PTR(float, a.y)[(r * a.heads + head) * a.E + e] = y;
}

/* Block x of head y: a thread a column. */
KERNEL_OF(zt_delta_rule, zt_cu_delta_rule_args, 64)
{
    const int64_t e = (int64_t)block() * threads() + thread(), head = block_y();
    const bool tells = e == 0 && head == 0;
    for (int64_t r = 0; r < a.rows.n; r++) {
        const int64_t start = start_of(a.rows, r, tells), end = end_of(a.rows, r, tells);
        if (e < a.E) run_row(a, r, head, e, start, end);
    }
}
