/* sdpa_mma.cu - dense attention on the matrix units, for heads of up to 128 columns: queries with
 * an online softmax over tiles of keys, never all scores at once (Dao, "FlashAttention-2", 2023);
 * and f32 in parts for it.
 */
#include "lib/engine/cuda/sdpa_mma.cuh"

#ifndef __HIP__ /* whose machines' matrix units are not used: sdpa.cu serves them */

/* ---- parts ----------------------------------------------------------------------------------- */

/* A thread has eight columns of a row. What is no number is the first part's alone. */
KERNEL_OF(zt_sdpa_parts, zt_cu_parts_args, 256)
{
    int64_t eights = (a.cols + 7) / 8, all = a.b * a.heads * a.n * eights;
    for (int64_t i = first(); i < all; i += stride()) {
        int64_t row = i / eights % a.n, head = i / eights / a.n % a.heads;
        int64_t batch = i / eights / a.n / a.heads, column = i % eights * 8;
        const float *from = PTR(const float, a.from.at) + batch * a.from.batch +
                            head * a.from.head + row * a.from.row + column;
        vec<uint16_t, 8> v[ZT_CU_SDPA_PARTS];
        for (int j = 0; j < 8; j++) {
            float x = column + j < a.cols ? from[j] : 0;
            bool odd = !(fabsf(x) < INFINITY);
            uint32_t w[ZT_CU_SDPA_PARTS];
            parts_of<ZT_CU_SDPA_PARTS>(bf16(), x, 0, w);
            for (int p = 0; p < ZT_CU_SDPA_PARTS; p++)
                v[p].v[j] = !odd ? (uint16_t)w[p] : p == 0 ? f32_to_bf16(x) : (uint16_t)0;
        }
        for (int p = 0; p < ZT_CU_SDPA_PARTS; p++)
            store_vec(PTR(uint16_t, a.to) + (p * all + i) * 8, v[p]);
    }
}

/* ---- attention ------------------------------------------------------------------------------- */

template <class T, int D> struct attend_sizes {
    enum {
        ROWS = ZT_CU_SDPA_ROWS(PARTS_OF(T)),
        M = ROWS / 16 / WARPS,
        W = ZT_CU_SDPA_WALK(D),
        PARTS = PARTS_OF(T)
    };
};

template <class T, int D> struct alignas(16) attend_room {
    typedef attend_sizes<T, D> z;
    uint16_t q[z::PARTS * z::ROWS * D], k[z::PARTS * z::W * D], v[z::PARTS * z::W * D];
    uint32_t odd[4];
};

/* A lane's rows lane / 4 and 8 more of each 16: what they see, the largest score so far, and their
 * share of the sum of weights under it. */
template <int M> struct queries {
    int64_t batch, head, row;
    ranges<M> sees;
    float top[M][2], sum[M][2];
};

/* Products to scores, -inf of what is not seen; which are seen. */
template <class T, int M, int W>
FN void score(const zt_cu_sdpa_args &a, const queries<M> &q, int64_t key, bool is_free,
              float s[M][W / 8][4], uint32_t seen[M])
{
    const float scale = (float)a.scale;
    UNROLL
    for (int m = 0; m < M; m++) {
        seen[m] = ~0u;
        UNROLL
        for (int i = 0; i < W / 2; i++) {
            s[m][i / 4][i % 4] = capped(a, s[m][i / 4][i % 4] * scale);
        }
        UNROLL
        for (int i = 0; !is_free && i < W / 2; i++) {
            int h = i % 4 / 2;
            int64_t row = q.row + m * 16 + h * 8, j = key + i / 4 * 8 + lane() % 4 * 2 + i % 2;
            float x = -INFINITY;
            if (j >= q.sees.first[m][h] && j < q.sees.last[m][h])
                x = masked<T>(a, q.batch, q.head, row, j, s[m][i / 4][i % 4]);
            s[m][i / 4][i % 4] = x;
            if (x == -INFINITY) seen[m] &= ~bit_of(i / 4, i % 4);
        }
    }
}

/* Scores to weights under the largest so far; what was summed before shrinks to it. NaN is nobody's
 * largest, and its weight is NaN. */
template <int D, int M, int W>
FN void soften(queries<M> *q, float s[M][W / 8][4], float acc[M][D / 8][4])
{
    UNROLL
    for (int r = 0; r < 2 * M; r++) {
        int m = r / 2, h = r % 2;
        float most = -INFINITY, was = q->top[m][h], sum = 0;
        UNROLL
        for (int i = 0; i < W / 4; i++) most = fmaxf(most, s[m][i / 2][h * 2 + i % 2]);
        most = fmaxf(most, shuffle_xor(most, 1));
        most = fmaxf(most, shuffle_xor(most, 2));
        const float top = fmaxf(was, most), shrink = was == top ? 1.0f : power_of(was - top);
        UNROLL
        for (int i = 0; i < W / 4; i++) {
            float *x = &s[m][i / 2][h * 2 + i % 2];
            *x = *x == -INFINITY ? 0 : power_of(*x - top);
            sum += *x;
        }
        q->top[m][h] = top;
        q->sum[m][h] = q->sum[m][h] * shrink + sum;
        UNROLL
        for (int i = 0; i < D / 4; i++) acc[m][i / 2][h * 2 + i % 2] *= shrink;
    }
}

/* A row that sees nothing is 0, its lse -inf. */
template <class T, int D, int M>
FN void store(const zt_cu_sdpa_args &a, const queries<M> &q, const float acc[M][D / 8][4])
{
    UNROLL
    for (int r = 0; r < 2 * M; r++) {
        int m = r / 2, h = r % 2;
        int64_t row = q.row + m * 16 + h * 8;
        float sum = q.sum[m][h] + shuffle_xor(q.sum[m][h], 1);
        sum += shuffle_xor(sum, 2);
        bool none = q.top[m][h] == -INFINITY && sum == 0;
        if (row >= a.s) continue;
        store_row<T, D>(a.y, q.batch, q.head, row, a.dv_cols, h, none ? 1.0f : sum, acc[m]);
        if (a.lse && lane() % 4 == 0)
            PTR(float, a.lse)
            [(q.batch * a.h + q.head) * a.s + row] = none ? -INFINITY : q.top[m][h] + logf(sum);
    }
}

/* The next keys are on their way while weights are made and values added, the values while scores
 * are made. */
template <class T, int D>
FN void attend_keys(const zt_cu_sdpa_args &a, const side &keys, const side &values, const pass_range &w,
                  attend_room<T, D> *r, queries<attend_sizes<T, D>::M> *q,
                  float acc[attend_sizes<T, D>::M][D / 8][4])
{
    typedef attend_sizes<T, D> z;
    if (w.lo < w.hi) bring<z::PARTS, D, z::W>(keys, w.lo, r->k);
    copy_commit();
    ROLLED
    for (int64_t key = w.lo; key < w.hi; key += z::W) {
        const bool open = is_free(w, key, z::W);
        float s[z::M][z::W / 8][4];
        uint32_t seen[z::M];
        bring<z::PARTS, D, z::W>(values, key, r->v);
        copy_commit();
        copy_wait<1>();
        barrier();
        products_of<T, D, z::M, z::ROWS, z::W>(r->q, r->k, s);
        barrier();
        if (key + z::W < w.hi) bring<z::PARTS, D, z::W>(keys, key + z::W, r->k);
        copy_commit();
        score<T, z::M, z::W>(a, *q, key, open, s, seen);
        soften<D, z::M, z::W>(q, s, acc);
        copy_wait<1>();
        barrier();
        if (!open) mend<T, D, z::M, z::W>(r->v, seen, r->odd, acc);
        add_products<T, D, z::M, z::W>(s, r->v, acc);
        barrier();
    }
    copy_wait<0>();
}

/* Blocks from the last on: causally those see most. */
template <class T, int D> FN void attend(const zt_cu_sdpa_args &a, attend_room<T, D> *r)
{
    typedef attend_sizes<T, D> z;
    const int64_t row = (int64_t)(blocks() - 1 - block()) * z::ROWS, head = block_y() % a.h;
    const int64_t batch = block_y() / a.h, shared = head / (a.h / a.g);
    const int64_t n = keys_of(a, batch, (batch * a.h + head) * a.s + row);
    float acc[z::M][D / 8][4] = {{{0}}};
    queries<z::M> q;
    q.batch = batch;
    q.head = head;
    q.row = row + warp() * 16 * z::M + lane() / 4;
    UNROLL
    for (int i = 0; i < 2 * z::M; i++) q.top[i / 2][i % 2] = -INFINITY, q.sum[i / 2][i % 2] = 0;
    set_ranges<false>(a, n, q.row, &q.sees);
    bring<z::PARTS, D, z::ROWS>(side_of(a, 0, batch, head, a.s), row, r->q);
    attend_keys<T, D>(a, side_of(a, 1, batch, shared, n), side_of(a, 2, batch, shared, n),
                    pass_range_of<false, z::W>(a, n, row, z::ROWS), r, &q, acc);
    store<T, D, z::M>(a, q, acc);
}

#define ATTEND(name, number, D)                                                                    \
    static_assert(sizeof(attend_room<number, D>) == ZT_CU_SDPA_BYTES(PARTS_OF(number), D),         \
                  "as the host knows it");                                                         \
    KERNEL_OF(zt_sdpa_##name##_##D, zt_cu_sdpa_args, 32 * WARPS)                                   \
    {                                                                                              \
        typedef attend_room<number, D> room;                                                       \
        DYNAMIC_SHARED(room, r);                                                                   \
        attend<number, D>(a, r);                                                                   \
    }
ATTEND(f32, float, 64)
ATTEND(f32, float, 128)
ATTEND(f16, f16, 64)
ATTEND(f16, f16, 128)
ATTEND(bf16, bf16, 64)
ATTEND(bf16, bf16, 128)
#endif
