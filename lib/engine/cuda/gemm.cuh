/* gemm.cuh - large products of 16-bit numbers on the matrix units: 128 by 128 places a block, 32 of
 * K a step, four steps in shared memory of which three are on their way (cp.async).
 *
 * Eight warps, two by four, 64 by 32 places each. A lane's operands are columns 4 t .. 4 t + 3 of
 * each 16 (t: lane % 4), as in linear_half.cuh and matmul.cu, so who makes a place changes nothing;
 * and each mma has 16 columns that follow each other, as wgmma has. Shared memory without two rows
 * in one bank: of an operand whose K lies side by side a row is 64 bytes, in chunks of 16 whose
 * halves change places in every other pair of rows, so that 16 lanes read 32 of each of four rows,
 * in 128 of their own; of one whose rows lie side by side a column is 256 bytes, in chunks of 16
 * that are mixed up by the column's number (chunk ^ mixed), and ldmatrix takes eight of eight
 * columns.
 */
#ifndef ZT_CU_GEMM_H
#define ZT_CU_GEMM_H

#include "lib/engine/cuda/matmul.h"
#include "lib/engine/cuda/unroll.h"

enum {
    GEMM_TILE = ZT_CU_GEMM_TILE,
    GEMM_DEEP = 32,
    GEMM_STAGES = 4,
    GEMM_THREADS = 256,
    GEMM_HALF = GEMM_TILE * GEMM_DEEP /* numbers of an operand in a stage */
};
static_assert(2 * 2 * GEMM_HALF * GEMM_STAGES <= ZT_CU_GEMM_BYTES, "as the host knows it");

/* An operand: number (r, k) lies `row` r + `column` k from `at`, one of the steps is 1. */
typedef struct gemm_side {
    const uint16_t *at;
    int64_t rows, row, column, first; /* first: the block's row */
    bool wide; /* 16 bytes may be read at every eighth along the step of 1, all or nothing */
} gemm_side;

typedef float gemm_sums[4][4][4]; /* of 16 rows left, eight right; as mma has them */

/* Blocks go over all tiles on the left for up to eight on the right, so that those that run at one
 * time read few rows. */
FN void gemm_tile_of(int64_t id, int64_t lefts, int64_t rights, int64_t *left, int64_t *right)
{
    int64_t group = id / (8 * lefts) * 8, n = rights - group < 8 ? rights - group : 8;
    int64_t in = id % (8 * lefts);
    *left = in / n * GEMM_TILE;
    *right = (group + in % n) * GEMM_TILE;
}

FN int mixed(int k) { return (k & 1) | (k >> 2 & 3) << 1; }
/* Of a row whose K lies side by side. */
FN int chunk_at(int row, int chunk) { return chunk ^ (row & 2); }

enum { GEMM_EACH = GEMM_HALF / 8 / GEMM_THREADS }; /* eights of an operand that a thread brings */

/* What a thread brings of each step: its eights lie along rows (ROWS) or along K. */
typedef struct gemm_reader {
    const uint16_t *from[GEMM_EACH];
    int rows[GEMM_EACH]; /* from the first of the eight on, at most 8 */
    int k[GEMM_EACH], to[GEMM_EACH];
} gemm_reader;

template <bool ROWS> FN void gemm_read_by(const gemm_side &s, gemm_reader *r)
{
    for (int i = 0; i < GEMM_EACH; i++) {
        int at = thread() + i * GEMM_THREADS, chunk = at % 16;
        r->k[i] = ROWS ? at / 16 : at % 4 * 8;
        int64_t row = s.first + (ROWS ? chunk * 8 : at / 4), rows = s.rows - row;
        r->rows[i] = rows < 0 ? 0 : rows < 8 ? (int)rows : 8;
        r->to[i] = ROWS ? at / 16 * GEMM_TILE + (chunk ^ mixed(at / 16)) * 8
                        : at / 4 * GEMM_DEEP + chunk_at(at / 4, at % 4) * 8;
        r->from[i] = s.at + row * s.row + r->k[i] * s.column;
    }
}

/* Columns k .. k + 31, those outside as zeros. */
template <bool ROWS>
FN void gemm_bring(const gemm_side &s, const gemm_reader &r, int64_t k, int64_t K, uint16_t *to)
{
    UNROLL
    for (int i = 0; i < GEMM_EACH; i++) {
        bool any = r.rows[i] && k + r.k[i] < K;
        const uint16_t *from = r.from[i] + (ROWS ? k * s.column : k);
        if (s.wide) {
            copy_async(to + r.to[i], any ? from : s.at, any ? 16 : 0);
            continue;
        }
        ROLLED
        for (int j = 0; j < 8; j++) {
            bool is = any && (ROWS ? j < r.rows[i] : k + r.k[i] + j < K);
            to[r.to[i] + j] = is ? from[j * (ROWS ? s.row : s.column)] : (uint16_t)0;
        }
    }
}

/* Columns 4 t .. 4 t + 3 and 16 + 4 t .. 16 + 4 t + 3 of row `row` + lane / 4. */
template <bool ROWS> FN void gemm_operand(uint16_t *from, int row, uint32_t word[4])
{
    if (ROWS) {
        int l = lane(), k = l / 16 * 16 + l % 8 / 2 * 4 + l / 8 % 2 * 2 + l % 2;
        ldmatrix_x4_trans(word, from + k * GEMM_TILE + (row / 8 ^ mixed(k)) * 8);
    } else {
        /* row is a multiple of 8 */
        const int g = lane() / 4, own = chunk_at(g, lane() % 4 / 2) * 8 + lane() % 2 * 4;
        const uint16_t *at = from + (row + g) * GEMM_DEEP;
        UNROLL
        for (int h = 0; h < 2; h++) {
            const vec<uint32_t, 2> v = load_vec<2>((const uint32_t *)(at + (own ^ 16 * h)));
            word[2 * h] = v.v[0];
            word[2 * h + 1] = v.v[1];
        }
    }
}

template <class T, bool LEFT, bool RIGHT> FN void gemm_step(uint16_t *stage, gemm_sums sum)
{
    int row = warp() / 4 * 64, column = warp() % 4 * 32;
    uint32_t right[4][4];
    UNROLL
    for (int j = 0; j < 4; j++) gemm_operand<RIGHT>(stage + GEMM_HALF, column + 8 * j, right[j]);
    UNROLL
    for (int i = 0; i < 4; i++) {
        uint32_t low[4], high[4];
        gemm_operand<LEFT>(stage, row + 16 * i, low);
        gemm_operand<LEFT>(stage, row + 16 * i + 8, high);
        const uint32_t one[4] = {low[0], high[0], low[1], high[1]};
        const uint32_t two[4] = {low[2], high[2], low[3], high[3]};
        UNROLL
        for (int j = 0; j < 4; j++) mma_of(T(), sum[i][j], one, right[j]);
        UNROLL
        for (int j = 0; j < 4; j++) mma_of(T(), sum[i][j], two, right[j] + 2);
    }
}

/* The block's tile. slice: steps whose sums are added up on their own, then to the total. */
template <class T, bool LEFT, bool RIGHT, bool SLICED>
FN void gemm(const gemm_side &left, const gemm_side &right, int64_t K, int64_t slice,
             uint16_t *room, gemm_sums total)
{
    int64_t steps = (K + GEMM_DEEP - 1) / GEMM_DEEP;
    gemm_sums part = {{{0}}};
    gemm_reader l, r;
    gemm_read_by<LEFT>(left, &l);
    gemm_read_by<RIGHT>(right, &r);
    for (int s = 0; s < GEMM_STAGES - 1; s++) {
        gemm_bring<LEFT>(left, l, (int64_t)s * GEMM_DEEP, K, room + s * 2 * GEMM_HALF);
        gemm_bring<RIGHT>(right, r, (int64_t)s * GEMM_DEEP, K, room + (s * 2 + 1) * GEMM_HALF);
        copy_commit();
    }
    ROLLED
    for (int64_t u = 0; u < steps; u++) {
        copy_wait<GEMM_STAGES - 2>();
        barrier();
        int64_t next = u + GEMM_STAGES - 1;
        uint16_t *to = room + next % GEMM_STAGES * 2 * GEMM_HALF;
        gemm_bring<LEFT>(left, l, next * GEMM_DEEP, K, to);
        gemm_bring<RIGHT>(right, r, next * GEMM_DEEP, K, to + GEMM_HALF);
        copy_commit();
        gemm_step<T, LEFT, RIGHT>(room + u % GEMM_STAGES * 2 * GEMM_HALF, SLICED ? part : total);
        const bool ends = SLICED && ((u + 1) % slice == 0 || u + 1 == steps);
        UNROLL
        for (int i = 0; ends && i < 64; i++) {
            total[i / 16][i / 4 % 4][i % 4] += part[i / 16][i / 4 % 4][i % 4];
            part[i / 16][i / 4 % 4][i % 4] = 0;
        }
    }
    copy_wait<0>();
    barrier();
}

/* Whose a lane's sum [i][j][c] is: rows of the tile on the left and on the right. */
FN int gemm_left(int i, int c) { return warp() / 4 * 64 + 16 * i + lane() / 4 + c / 2 * 8; }
FN int gemm_right(int j, int c) { return warp() % 4 * 32 + 8 * j + lane() % 4 * 2 + c % 2; }

#endif
