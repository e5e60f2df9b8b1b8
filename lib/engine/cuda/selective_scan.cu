/* selective_scan.cu - the recurrence of selective state-space models over sequences whose states are in slots. */
#include "lib/engine/cuda/state_rows.cuh"

/* Row r of a channel: each lane has every 32nd number of its state. */
FN void scan_row(const zt_cu_selective_scan_args &a, int64_t r, int64_t channel, int64_t start, int64_t end)
{
    const int64_t head = channel / a.channels, width = a.heads * a.channels, inputs = (r * a.groups + head / (a.heads / a.groups)) * a.N;
    const float dt = PTR(const float, a.dt)[r * a.heads + head], x = PTR(const float, a.x)[r * width + channel];
    float *work = PTR(float, a.work) + channel * a.N, *states = PTR(float, a.state);
    const float *from = start == STATE_CONTINUED ? work : states + (start < 0 ? 0 : start * width + channel) * a.N;
    float *to = end < 0 ? work : states + (end * width + channel) * a.N;
    float sum = 0;
    for (int64_t k = lane(); k < a.N; k += 32) {
        const float decay = expf(dt * PTR(const float, a.a)[a.wide ? head * a.N + k : head]);
        const float s = fmaf(dt * x, PTR(const float, a.b)[inputs + k], decay * (start == STATE_ZEROS ? 0 : from[k]));
        sum = fmaf(PTR(const float, a.c)[inputs + k], s, sum);
        work[k] = s;
        to[k] = s;
    }
    sum = warp_sum(sum);
    if (a.d) sum = fmaf(PTR(const float, a.d)[head], x, sum);
    if (a.y && lane() == 0) PTR(float, a.y)[r * width + channel] = sum;
}

/* A warp a channel. */
KERNEL_OF(zt_selective_scan, zt_cu_selective_scan_args, 128)
{
    const int64_t warps = threads() / 32;
    for (int64_t channel = (int64_t)block() * warps + warp(); channel < a.heads * a.channels; channel += (int64_t)blocks() * warps)
        for (int64_t r = 0; r < a.rows.n; r++) {
            const bool tells = channel == 0 && lane() == 0;
            const int64_t start = start_of(a.rows, r, tells), end = end_of(a.rows, r, tells);
            scan_row(a, r, channel, start, end);
        }
}
