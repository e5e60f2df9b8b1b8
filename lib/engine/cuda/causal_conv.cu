/* causal_conv.cu - a causal convolution of each channel over the rows of sequences. */
#include "lib/engine/cuda/state_rows.cuh"

/* Entry k of channel c before a row from `start`; entries of the row before it are one place on. */
FN float entry_before(const zt_cu_causal_conv_args &a, int64_t start, int64_t k, int64_t c)
{
    if (start == STATE_CONTINUED) return PTR(const float, a.window)[(k + 1) * a.C + c];
    return start < 0 ? 0 : PTR(const float, a.state)[(start * (a.K - 1) + k) * a.C + c];
}

/* All rows of channel c. The window has the last K entries. */
FN void convolve_channel(const zt_cu_causal_conv_args &a, int64_t c)
{
    float *window = PTR(float, a.window), *state = PTR(float, a.state);
    const float *w = PTR(const float, a.w) + c * a.K;
    for (int64_t r = 0; r < a.rows.n; r++) {
        const int64_t start = start_of(a.rows, r, c == 0), end = end_of(a.rows, r, c == 0);
        float sum = a.b ? PTR(const float, a.b)[c] : 0;
        for (int64_t k = 0; k < a.K; k++) {
            const float entry = k == a.K - 1 ? PTR(const float, a.x)[r * a.C + c] : entry_before(a, start, k, c);
            window[k * a.C + c] = entry;
            sum = fmaf(w[k], entry, sum);
        }
        if (a.y) PTR(float, a.y)[r * a.C + c] = a.silu ? sum / (1 + expf(-sum)) : sum;
        for (int64_t k = 0; k < a.K - 1 && end >= 0; k++)
            state[(end * (a.K - 1) + k) * a.C + c] = window[(k + 1) * a.C + c];
    }
}

KERNEL_OF(zt_causal_conv, zt_cu_causal_conv_args, 128)
{
    for (int64_t c = first(); c < a.C; c += stride()) convolve_channel(a, c);
}
