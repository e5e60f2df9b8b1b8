/* window.cuh - for kernels: where windows meet. */
#ifndef ZT_CU_WINDOW_CUH
#define ZT_CU_WINDOW_CUH

#include "lib/engine/cuda/args_conv.h"
#include "lib/engine/cuda/values.h"

/* Where tap `tap` of small element o is in the large value; -1: outside. */
FN int64_t large_at(const zt_cu_window &w, int64_t o, int64_t tap)
{
    const int32_t *reach = PTR(const int32_t, w.reach) + tap * w.n;
    int64_t at = 0, step = 1;
    for (int d = w.n - 1; d >= 0; d--) {
        const int64_t i = o % w.out[d] * w.stride[d] + reach[d] - w.pad[d];
        if (i < 0 || i >= w.in[d]) return -1;
        at += i * step;
        step *= w.in[d];
        o /= w.out[d];
    }
    return at;
}

/* Whose tap `tap` large element i is; -1: of none. */
FN int64_t small_at(const zt_cu_window &w, int64_t i, int64_t tap)
{
    const int32_t *reach = PTR(const int32_t, w.reach) + tap * w.n;
    int64_t at = 0, step = 1;
    for (int d = w.n - 1; d >= 0; d--) {
        const int64_t from = i % w.in[d] + w.pad[d] - reach[d];
        if (from < 0 || from % w.stride[d] || from / w.stride[d] >= w.out[d]) return -1;
        at += from / w.stride[d] * step;
        step *= w.out[d];
        i /= w.in[d];
    }
    return at;
}

/* How many taps of window o meet the large value, or (`padded`) it and its padding. */
FN int64_t cells_of(const zt_cu_window &w, int64_t o, bool padded)
{
    int64_t cells = 1;
    for (int d = w.n - 1; d >= 0; d--) {
        const int64_t from = o % w.out[d] * w.stride[d] - w.pad[d];
        const int64_t low = padded ? -w.pad[d] : 0, high = w.in[d] + (padded ? w.end[d] : 0);
        int64_t inside = 0;
        for (int64_t k = 0; k < w.k[d]; k++) {
            const int64_t i = from + k * w.dilation[d];
            inside += i >= low && i < high;
        }
        cells *= inside;
        o /= w.out[d];
    }
    return cells;
}

#endif
