/* linear_float.cuh - what a lane has of 16 rows by 32 columns of weights of f32, f16 or bf16: lane
 * 4 g + t of rows g and g + 8 columns 8 t .. 8 t + 7, which it adds up in their order. */
#ifndef ZT_CU_LINEAR_FLOAT_CUH
#define ZT_CU_LINEAR_FLOAT_CUH

#include "lib/engine/cuda/linear.h"

/* The lane's rows of a tile, null: there is none. */
template <class T> struct plain_rows {
    const T *row[2];
    int64_t K;
    bool wide;
};

template <class T> FN plain_rows<T> plain_rows_of(const zt_cu_linear_args &a, const share &s)
{
    plain_rows<T> p = {{0, 0}, a.K, a.wide_w != 0};
    for (int r = 0; r < 2; r++) {
        const int64_t row = s.tile * 16 + lane() / 4 + 8 * r;
        if (row < s.p->M) p.row[r] = PTR(const T, weights_of(a, s)) + row * a.K;
    }
    return p;
}

/* As loads of 16 bytes bring it. */
template <class T> struct plain_unit {
    enum { EACH = 16 / sizeof(T), LOADS = 8 / EACH };
    vec<T, EACH> w[2][LOADS];
};

/* Columns 32 u .. 32 u + 31, what is past K 0. */
template <class T> FN void read_plain(const plain_rows<T> &p, int64_t u, plain_unit<T> *to)
{
    enum { EACH = plain_unit<T>::EACH };
    UNROLL
    for (int i = 0; i < 2 * plain_unit<T>::LOADS; i++) {
        const int r = i % 2, h = i / 2;
        const int64_t k = u * 32 + lane() % 4 * 8 + h * EACH;
        vec<T, EACH> v = {};
        if (p.row[r] && p.wide && k < p.K) {
            v = weight_vec<EACH>(p.row[r] + k);
        } else if (p.row[r]) {
            for (int j = 0; j < EACH; j++)
                if (k + j < p.K) v.v[j] = p.row[r][k + j];
        }
        to->w[r][h] = v;
    }
}

template <class T> FN void get_plain(const plain_unit<T> &u, float w[2][8])
{
    enum { EACH = plain_unit<T>::EACH };
    UNROLL
    for (int r = 0; r < 2; r++) UNROLL
    for (int c = 0; c < 8; c++) w[r][c] = get(u.w[r][c / EACH].v[c % EACH]);
}

/* Eight columns of two rows by those of a row of x. */
FN void by_eight(const float w[2][8], const float x[8], float acc[2])
{
    for (int r = 0; r < 2; r++)
        for (int c = 0; c < 8; c++) acc[r] = fmaf(w[r][c], x[c], acc[r]);
}

/* A lane's sums of two rows and row t of x to those of its four lanes, for the lane that tells. */
FN float four_lanes(float v)
{
    v += shuffle_xor(v, 1);
    return v + shuffle_xor(v, 2);
}
FN bool tells_of(int t) { return lane() % 4 == t % 4; }

#endif
