/* sdpa_mma.cuh - what dense attention on the matrix units and its gradient do alike.
 *
 * A block has rows of its own, 16 or 32 a warp, operand A, and visits tiles of W of the others,
 * operand B: of queries it visits the keys, of keys the queries. Numbers of 16 bits are multiplied
 * as they are. f32 goes as PARTS of bf16, of eight bits each, which together are all of it; of the
 * nine products of two such, six are made: part p with part k where p + k < PARTS, the rest being
 * some 2^-22 of the whole. There are no scales, so that a row's bits are its own.
 *
 * Tiles lie at multiples of W, and what a row does not see adds 0 to its sums: its bits do not
 * depend on the block it is in. 0 times what is no number would not be 0: mend.
 *
 * D: columns of a head as they are computed, 64 or 128; those past a side's own are zeros.
 */
#ifndef ZT_CU_SDPA_UNITS_CUH
#define ZT_CU_SDPA_UNITS_CUH

#include "lib/engine/cuda/matmul.h"
#include "lib/engine/cuda/sdpa.cuh"
#include "lib/engine/cuda/unroll.h"

enum { WARPS = 4 };

/* T as it is multiplied, and in how many parts a weight, which is made in f32, is for that. */
template <class T> struct multiplied;
template <> struct multiplied<f16> {
    typedef f16 type;
    enum { PARTS = 1, WEIGHT = 1 };
};
template <> struct multiplied<bf16> {
    typedef bf16 type;
    enum { PARTS = 1, WEIGHT = 2 };
};
template <> struct multiplied<float> {
    typedef bf16 type;
    enum { PARTS = ZT_CU_SDPA_PARTS, WEIGHT = ZT_CU_SDPA_PARTS };
};
#define PARTS_OF(T)  multiplied<T>::PARTS
#define WEIGHT_OF(T) multiplied<T>::WEIGHT
#define UNIT_OF(T)   typename multiplied<T>::type

/* ---- tiles ----------------------------------------------------------------------------------- */

/* Rows of one head: q, k, v or dy. */
typedef struct side {
    const uint16_t *at;
    int64_t row, part; /* numbers from one row, and one part, to the next */
    int64_t rows, cols;
    bool wide;
} side;

FN side side_of(const zt_cu_sdpa_args &a, int which, int64_t batch, int64_t head, int64_t rows)
{
    const zt_cu_rows &r = which == 0 ? a.q : which == 1 ? a.k : which == 2 ? a.v : a.y;
    const uint16_t *at = PTR(const uint16_t, r.at) + batch * r.batch + head * r.head;
    return side{at, r.row, a.part[which], rows, which < 2 ? a.d : a.dv_cols, a.wide[which] != 0};
}

/* Chunks of 16 bytes lie mixed up by the row's number, so that eight rows' are in all banks. */
template <int D> FN uint16_t *chunk_of(uint16_t *tile, int row, int chunk)
{
    return tile + row * D + (chunk ^ (row & 7)) * 8;
}

/* Rows from .. from + R - 1 on their way to shared memory, [PARTS][R][D]; what there is not as
 * zeros. */
template <int PARTS, int D, int R> FN void bring(const side &s, int64_t from, uint16_t *to)
{
    for (int i = thread(); i < PARTS * R * D / 8; i += 32 * WARPS) {
        int row = i / (D / 8) % R, column = i % (D / 8) * 8, part = i / (R * D / 8);
        bool any = from + row < s.rows && column < s.cols;
        const uint16_t *at = any ? s.at + part * s.part + (from + row) * s.row + column : s.at;
        uint16_t *chunk = chunk_of<D>(to + part * R * D, row, column / 8);
        if (s.wide) {
            copy_async(chunk, at, any ? 16 : 0);
            continue;
        }
        ROLLED
        for (int j = 0; j < 8; j++) chunk[j] = any && column + j < s.cols ? at[j] : (uint16_t)0;
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Columns 16 ks .. 16 ks + 15 of the 16 rows from `row` on, as operand A. */
template <int D> FN void operand_of(uint16_t *tile, int row, int ks, uint32_t x[4])
{
    int l = lane();
    ldmatrix_x4(x, chunk_of<D>(tile, row + l % 8 + l / 8 % 2 * 8, ks * 2 + l / 16));
}

/* s: the warp's rows of a tile of R times the others, M times 16 rows by W. */
template <class T, int D, int M, int R, int W>
FN void products_of(uint16_t *own, uint16_t *others, float s[M][W / 8][4])
{
    const int parts = PARTS_OF(T), row = warp() * 16 * M;
    UNROLL
    for (int i = 0; i < M * W / 2; i++) s[i / (W / 2)][i / 4 % (W / 8)][i % 4] = 0;
    UNROLL
    for (int ks = 0; ks < D / 16; ks += 2) UNROLL
    for (int p = 0; p < parts; p++) {
        uint32_t x[M][2][4];
        UNROLL
        for (int m = 0; m < 2 * M; m++)
            operand_of<D>(own + p * R * D, row + m / 2 * 16, ks + m % 2, x[m / 2][m % 2]);
        UNROLL
        for (int k = 0; k < parts - p; k++) UNROLL
        for (int i = 0; i < W / 8; i++) {
            uint32_t b[4];
            const int its = i * 8 + lane() % 8;
            ldmatrix_x4(b, chunk_of<D>(others + k * W * D, its, ks * 2 + lane() / 8));
            UNROLL
            for (int m = 0; m < 2 * M; m++)
                mma_of(UNIT_OF(T)(), s[m / 2][i], x[m / 2][m % 2], b + m % 2 * 2);
        }
    }
}

/* Two numbers in N parts: one of f16; of bf16 so many times eight bits. */
template <int N> FN void parts_of(f16, float x, float y, uint32_t w[N])
{
    static_assert(N == 1, "no second part");
    w[0] = (uint32_t)put<f16>(x).bits | (uint32_t)put<f16>(y).bits << 16;
}
template <int N> FN void parts_of(bf16, float x, float y, uint32_t w[N])
{
    UNROLL
    for (int p = 0; p < N; p++) {
        uint32_t a = bits_as<uint32_t>(x) & 0xffff0000u, b = bits_as<uint32_t>(y) & 0xffff0000u;
        w[p] = a >> 16 | b;
        x -= bits_as<float>(a);
        y -= bits_as<float>(b);
    }
}

/* acc += w times the others, w as products_of leaves it. */
template <class T, int D, int M, int W>
FN void add_products(const float w[M][W / 8][4], uint16_t *others, float acc[M][D / 8][4])
{
    const int weight = WEIGHT_OF(T);
    UNROLL
    for (int ks = 0; ks < W / 16; ks += 2) {
        uint32_t x[M][2][weight][4];
        UNROLL
        for (int i = 0; i < M * 8; i++) {
            uint32_t two[weight];
            const float *from = &w[i / 8][(ks + i / 4 % 2) * 2 + i % 4 / 2][i % 2 * 2];
            parts_of<weight>(UNIT_OF(T)(), from[0], from[1], two);
            UNROLL
            for (int p = 0; p < weight; p++) x[i / 8][i / 4 % 2][p][i % 4] = two[p];
        }
        UNROLL
        for (int n = 0; n < D / 8; n++) UNROLL
        for (int k = 0; k < PARTS_OF(T); k++) {
            uint32_t b[4];
            ldmatrix_x4_trans(b, chunk_of<D>(others + k * W * D, ks * 16 + lane(), n));
            UNROLL
            for (int i = 0; i < 2 * M * (weight - k); i++)
                mma_of(UNIT_OF(T)(), acc[i / 2 % M][n], x[i / 2 % M][i % 2][i / 2 / M],
                          b + i % 2 * 2);
        }
    }
}

/* ---- who sees whom --------------------------------------------------------------------------- */

/* The others that a row sees, masks apart: first .. last - 1, in 0 .. `others`. Of queries (KEYS
 * false) keys, of keys queries; both grow with the row. n: keys that there are. */
template <bool KEYS>
FN void range_of(const zt_cu_sdpa_args &a, int64_t n, int64_t row, int64_t *first, int64_t *last)
{
    int64_t pos = a.offset + (a.end ? n - a.s : 0), others = KEYS ? a.s : n;
    int64_t before = KEYS ? a.right : a.left, after = KEYS ? a.left : a.right;
    pos = KEYS ? row - pos : row + pos;
    *first = before >= 0 && pos > before ? pos - before : 0;
    *last = after >= 0 && pos + after + 1 < others ? pos + after + 1 : others;
    if (*last < 0) *last = 0;
    if (*first > *last) *first = *last;
}

/* The same of a lane's rows lane / 4 and 8 more, for a warp's M times 16. */
template <int M> struct ranges {
    int32_t first[M][2], last[M][2];
};
template <bool KEYS, int M>
FN void set_ranges(const zt_cu_sdpa_args &a, int64_t n, int64_t row, ranges<M> *r)
{
    UNROLL
    for (int i = 0; i < 2 * M; i++) {
        int64_t its = row + i / 2 * 16 + i % 2 * 8, first, last;
        range_of<KEYS>(a, n, its, &first, &last);
        bool is = its < (KEYS ? n : a.s);
        r->first[i / 2][i % 2] = is ? (int32_t)first : 0;
        r->last[i / 2][i % 2] = is ? (int32_t)last : 0;
    }
}

/* What a block visits, and which of it all its rows see: no tile from free_lo on that ends by
 * free_hi needs a look at ranges or masks. */
typedef struct pass_range {
    int64_t lo, hi, free_lo, free_hi;
} pass_range;

template <bool KEYS, int W>
FN pass_range pass_range_of(const zt_cu_sdpa_args &a, int64_t n, int64_t row, int64_t rows)
{
    int64_t all = KEYS ? n : a.s, end = row + rows < all ? row + rows : all, last, first;
    pass_range w = {0, 0, 0, 0};
    if (row >= all) return w;
    range_of<KEYS>(a, n, row, &w.lo, &last);
    range_of<KEYS>(a, n, end - 1, &first, &w.hi);
    w.lo = w.lo / W * W;
    if (a.mask || row + rows > all) return w;
    w.free_lo = first;
    w.free_hi = last;
    return w;
}

FN bool is_free(const pass_range &w, int64_t at, int width)
{
    return at >= w.free_lo && at + width <= w.free_hi;
}

/* Which of the others in a tile a lane's rows see: number 4 i + c a bit. */
FN uint32_t bit_of(int i, int c) { return 1u << (i * 4 + c); }

/* e^x for x up to 0 or so. */
FN float power_of(float x) { return exp2f(x * 1.44269504088896340736f); }

/* ---- what is no number ----------------------------------------------------------------------- */

FN bool is_odd(f16, uint16_t bits) { return (bits & 0x7c00) == 0x7c00; }
FN bool is_odd(bf16, uint16_t bits) { return (bits & 0x7f80) == 0x7f80; }

/* Is there one in a tile? The same for all threads, who must all ask. word: in shared memory, free
 * again after another barrier. */
template <class T, int D, int W> FN bool has_odd(uint16_t *tile, uint32_t *word)
{
    if (thread() == 0) *word = 0;
    barrier();
    for (int i = thread(); i < W * D / 8; i += 32 * WARPS) {
        vec<uint16_t, 8> v = load_vec<8>(tile + i * 8);
        bool odd = false;
        for (int j = 0; j < 8; j++) odd |= is_odd(UNIT_OF(T)(), v.v[j]);
        if (odd) atomic_max(word, 1u);
    }
    barrier();
    return *word != 0;
}

/* It is taken out for all rows. (Of f32 the parts after the first are 0 there.) */
template <class T, int D, int W> FN void take_out(uint16_t *tile)
{
    barrier();
    for (int i = thread(); i < W * D; i += 32 * WARPS)
        if (is_odd(UNIT_OF(T)(), tile[i])) tile[i] = 0;
    barrier();
}

/* And before that added to the sums of those who see it, by whatever weight. */
template <class T, int D, int M, int W>
FN void add_odd(uint16_t *tile, const uint32_t seen[M], float acc[M][D / 8][4])
{
    ROLLED
    for (int other = 0; other < W; other++) UNROLL
    for (int m = 0; m < M; m++) {
        uint32_t its = shuffle(seen[m], (lane() & 28) | other % 8 / 2);
        UNROLL
        for (int i = 0; i < D / 8 * 4; i++) {
            int c = i % 4, column = lane() % 4 * 2 + c % 2;
            UNIT_OF(T) v = {chunk_of<D>(tile, other, i / 4)[column]};
            bool sees = its & bit_of(other / 8, c / 2 * 2 + other % 2);
            if (sees && is_odd(v, v.bits)) acc[m][i / 4][c] += get(v);
        }
    }
}

/* Of a tile that not all rows see whole. */
template <class T, int D, int M, int W>
FN void mend(uint16_t *tile, const uint32_t seen[M], uint32_t *word, float acc[M][D / 8][4])
{
    if (!has_odd<T, D, W>(tile, word)) return;
    add_odd<T, D, M, W>(tile, seen, acc);
    take_out<T, D, W>(tile);
}

/* ---- results --------------------------------------------------------------------------------- */

/* A lane's sums of one row, each divided by `by`: columns i * 8 + lane % 4 * 2 and the next. */
template <class T, int D>
FN void store_row(const zt_cu_rows &r, int64_t batch, int64_t head, int64_t row, int64_t cols,
                  int half, float by, const float acc[D / 8][4])
{
    T *to = PTR(T, r.at) + batch * r.batch + head * r.head + row * r.row;
    UNROLL
    for (int i = 0; i < D / 8; i++) UNROLL
    for (int c = 0; c < 2; c++) {
        int column = i * 8 + lane() % 4 * 2 + c;
        if (column < cols) to[column] = put<T>(acc[i][half * 2 + c] / by);
    }
}

#endif
