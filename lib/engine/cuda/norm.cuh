/* norm.cuh - root-mean-square norms of rows, for norm.cu and for who makes a norm on his way. Which
 * thread has which columns depends on the row's length alone.
 */
#ifndef ZT_CU_NORM_CUH
#define ZT_CU_NORM_CUH

#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/prim.h"
#include "lib/engine/cuda/unroll.h"

/* Columns i .. i + 3 of a row. */
template <class T>
FN void load_four(const T *p, int64_t i, int64_t K, bool whole, typename wide<T>::type v[4])
{
    if (whole && i < K) {
        vec<T, 4> part = load_vec<4>(p + i);
        for (int j = 0; j < 4; j++) v[j] = get(part.v[j]);
    } else {
        for (int j = 0; j < 4; j++) v[j] = i + j < K ? get(p[i + j]) : 0;
    }
}

template <class T>
FN void store_four(T *p, int64_t i, int64_t K, bool whole, const typename wide<T>::type v[4])
{
    if (whole && i < K) {
        vec<T, 4> part;
        for (int j = 0; j < 4; j++) part.v[j] = put<T>(v[j]);
        store_vec(p + i, part);
    } else {
        for (int j = 0; j < 4; j++)
            if (i + j < K) p[i + j] = put<T>(v[j]);
    }
}

FN float root(float x) { return sqrtf(x); }
FN double root(double x) { return sqrt(x); }

/* x, and what is added to it first. */
template <class T>
FN void summed(const zt_cu_norm_args &a, int64_t row, int64_t i, typename wide<T>::type v[4])
{
    typename wide<T>::type more[4];
    load_four(PTR(const T, a.x) + row * a.K, i, a.K, a.wide, v);
    if (!a.before) return;
    load_four(PTR(const T, a.before) + row * a.K, i, a.K, a.wide, more);
    for (int j = 0; j < 4; j++) v[j] += more[j];
}

/* 1 / sqrt(mean of squares + eps), for every thread. Columns go to the first `team` threads in turn,
 * as many as a block has that norms a row alone, so that the sum has the same order. The first HELD
 * fours of a thread stay in `held`, so that they are read once. */
template <class T, int HELD = 0>
FN typename wide<T>::type rstd_of(const zt_cu_norm_args &a, int64_t row, bool tells,
                                  typename wide<T>::type *room,
                                  typename wide<T>::type (*held)[4] = nullptr)
{
    typedef typename wide<T>::type W;
    W sum = 0, v[4];
    UNROLL
    for (int k = 0; k < HELD; k++) {
        const int64_t i = 4 * (thread() + (int64_t)k * a.team);
        if (thread() >= a.team || i >= a.K) continue;
        summed<T>(a, row, i, held[k]);
        for (int j = 0; j < 4; j++) sum += held[k][j] * held[k][j];
        if (a.sum && tells) store_four(PTR(T, a.sum) + row * a.K, i, a.K, a.wide, held[k]);
    }
    for (int64_t i = 4 * (thread() + (int64_t)HELD * a.team); thread() < a.team && i < a.K; i += 4 * a.team) {
        summed<T>(a, row, i, v);
        for (int j = 0; j < 4; j++) sum += v[j] * v[j];
        if (a.sum && tells) store_four(PTR(T, a.sum) + row * a.K, i, a.K, a.wide, v);
    }
    sum = block_sum(sum, room);
    W rstd = 1 / root(sum / (W)a.K + (W)a.eps);
    if (a.rstd && tells && thread() == 0) PTR(W, a.rstd)[row] = rstd;
    return rstd;
}

/* Columns i .. i + 3 of the norm's row, of v: what `summed` gives for them. */
template <class T>
FN void scale_four(const zt_cu_norm_args &a, int64_t row, int64_t i, typename wide<T>::type rstd,
                   typename wide<T>::type v[4])
{
    typename wide<T>::type g[4], more[4];
    load_four(PTR(const T, a.g), i, a.K, a.wide, g);
    for (int j = 0; j < 4; j++) v[j] = v[j] * rstd * g[j];
    if (!a.after) return;
    load_four(PTR(const T, a.after) + row * a.K, i, a.K, a.wide, more);
    for (int j = 0; j < 4; j++) v[j] += more[j];
}

/* Columns i .. i + 3 of the norm's row. */
template <class T>
FN void normed(const zt_cu_norm_args &a, int64_t row, int64_t i, typename wide<T>::type rstd,
               typename wide<T>::type v[4])
{
    summed<T>(a, row, i, v);
    scale_four<T>(a, row, i, rstd, v);
}

template <class T, int HELD = 0>
FN void norm_row(const zt_cu_norm_args &a, int64_t row, typename wide<T>::type *room)
{
    typedef typename wide<T>::type W;
    W held[HELD ? HELD : 1][4], v[4], rstd = rstd_of<T, HELD>(a, row, true, room, held);
    UNROLL
    for (int k = 0; k < HELD; k++) {
        const int64_t i = 4 * (thread() + (int64_t)k * a.team);
        if (thread() >= a.team || i >= a.K) continue;
        scale_four<T>(a, row, i, rstd, held[k]);
        store_four(PTR(T, a.y) + row * a.K, i, a.K, a.wide, held[k]);
    }
    for (int64_t i = 4 * (thread() + (int64_t)HELD * a.team); thread() < a.team && i < a.K; i += 4 * a.team) {
        normed<T>(a, row, i, rstd, v);
        store_four(PTR(T, a.y) + row * a.K, i, a.K, a.wide, v);
    }
}

#endif
