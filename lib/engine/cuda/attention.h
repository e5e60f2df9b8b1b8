/* attention.h - what all kernels of causal attention over a cache share: how states of softmax are
 * joined.
 *
 * Keys go by splits of SPLIT positions from a multiple of SPLIT on. Within one softmax goes on by
 * tiles of TILE positions; states of splits (top, sum of exponentials, sums of values) are joined in
 * their order. So it does not change a bit whether splits are blocks of their own (few rows: the
 * join is a kernel) or one block goes through them all, nor what else is in the batch.
 */
#ifndef ZT_CU_ATTENTION_H
#define ZT_CU_ATTENTION_H

#include "lib/engine/cuda/slots.h"

enum { TILE = ZT_CU_TILE, SPLIT = ZT_CU_SPLIT };

/* What a state (top, sum, values) and a split's come to: both are multiplied by these. A split that
 * has nothing for the row leaves the state as it was. */
FN void join_by(float *top, float *sum, float its_top, float its_sum, float *old, float *fresh)
{
    float high = fmaxf(*top, its_top);
    *old = *top == high ? 1.0f : expf(*top - high);
    *fresh = its_top == high ? 1.0f : expf(its_top - high);
    *sum = fmaf(its_sum, *fresh, *sum * *old);
    *top = high;
}

/* The linear bias of a row and head: its slope by the distance from `at`. */
typedef struct linear_bias {
    float slope;
    int32_t at;
} linear_bias;

FN linear_bias bias_of(const zt_cu_attention_args &a, int64_t row, int64_t head)
{
    const linear_bias bias = {PTR(const float, a.slopes)[head], PTR(const int32_t, a.query_at ? a.query_at : a.slots.pos)[row]};
    return bias;
}

/* The score of position p with it. */
FN float with_bias(const linear_bias &bias, int64_t p, float score)
{
    return fmaf(-bias.slope, fabsf((float)(p - bias.at)), score);
}

/* The sum of a row's weights under its highest score `top`, with the weight of its head's sink. */
FN float sum_with_sink(const zt_cu_attention_args &a, int64_t head, float top, float sum)
{
    return a.sinks ? sum + expf(PTR(const float, a.sinks)[head] - top) : sum;
}

/* The mean of a row's values. On the matrix units infinity times the second part of a weight may be NaN, by
 * what tile it is in; so there a mean that is not finite is NaN whatever else it might be. */
FN float mean_of(const zt_cu_attention_args &a, int64_t head, float top, float total, float sum)
{
    float y = total / sum_with_sink(a, head, top, sum);
    return a.units && !(fabsf(y) < INFINITY) ? bits_as<float>(0x7fffffffu) : y;
}

/* The first position that a row at `last` sees. */
FN int64_t first_of(const zt_cu_attention_args &a, int64_t last)
{
    if (a.chunked) return last - last % a.window;
    return a.window > 0 && last >= a.window ? last - a.window + 1 : 0;
}

/* Columns d .. d + N - 1 of a row and head: its splits joined in order. */
template <int N> FN void join_columns(const zt_cu_attention_args &a, int64_t row, int64_t head, int64_t d, float y[N])
{
    const int64_t last = PTR(const int32_t, a.slots.pos)[row], first = first_of(a, last);
    const bool good = last >= 0 && last < a.slots.ctx;
    const float *parts = PTR(const float, a.parts) + (row * a.H + head) * a.splits * (a.D + 2);
    float top = -INFINITY, sum = 0, total[N] = {0};
    bool fine = good;
    for (int64_t s = first / SPLIT; good && s <= last / SPLIT; s++) {
        const float *p = parts + s * (a.D + 2);
        float old, fresh;
        if (p[1] < 0) fine = false;
        join_by(&top, &sum, p[0], p[1], &old, &fresh);
        for (int i = 0; i < N; i++) total[i] = fmaf(p[2 + d + i], fresh, total[i] * old);
    }
    for (int i = 0; i < N; i++) y[i] = fine ? mean_of(a, head, top, total[i], sum) : 0;
}

#endif
