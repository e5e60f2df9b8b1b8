/* args_nn.h - what the kernels of norms by channels and of dense attention are called with. */
#ifndef ZT_CU_ARGS_NN_H
#define ZT_CU_ARGS_NN_H

#include "lib/engine/cuda/args.h"

/* ---- norm_channels.cu ----------------------------------------------------------------------- */

/* x [N,C,...] of `size` elements a channel and sample. What is normalised together is a set: `of`
 * channels of one sample (group_norm: `groups` sets a sample), or one of all samples. */
typedef struct zt_cu_set_args {
    zt_cu_ptr x, g, b, y, mean, rstd; /* statistics: of sets, read or written */
    zt_cu_ptr run_mean, run_var, new_mean, new_var;
    zt_cu_ptr dy, dx, dg, db;
    int64_t N, C, size, of, groups; /* groups 0: all samples */
    double eps, momentum;
    int32_t unbiased, training;
} zt_cu_set_args;

/* ---- sdpa.cu, sdpa_mma.cu, sdpa_grad_mma.cu ---------------------------------------------- */

enum { ZT_CU_SDPA_MOST = 256 }; /* columns */

typedef struct zt_cu_rows { /* where rows lie: elements from one batch, head and row to the next */
    zt_cu_ptr at;
    int64_t batch, head, row;
} zt_cu_rows;

typedef struct zt_cu_sdpa_args {
    zt_cu_rows q, k, v, y; /* y: the output, or what comes back of it */
    zt_cu_rows dq, dk, dv;
    zt_cu_ptr lse, delta, mask, len, trouble;
    int64_t b, h, g, s, t, d, dv_cols;
    int64_t mask_step[4];        /* along b, h, s, t */
    int64_t offset, left, right; /* lib/ops/sdpa.h: zt_sdpa_seen; right with causal in it */
    double scale, softcap;
    int32_t mask_bool, end;
    /* On the matrix units, of q, k, v and dy (y): elements from one part of the numbers to the
     * next, and whether 16 bytes may be read at every eighth column. */
    int64_t part[4];
    int32_t wide[4];
} zt_cu_sdpa_args;

/* f32 as parts of bf16: rows of `cols` columns, to [part][b][head][n][up to a multiple of 8]. */
typedef struct zt_cu_parts_args {
    zt_cu_rows from;
    zt_cu_ptr to;
    int64_t b, heads, n, cols;
} zt_cu_parts_args;

/* Numbers of 16 bits are multiplied as they are, f32 as three of bf16. A block of the kernels for D
 * columns has so many rows, and walks the others so many at a time; of the gradient these come in
 * stages. */
enum { ZT_CU_SDPA_PARTS = 3, ZT_CU_SDPA_BACK_ROWS = 64 };
#define ZT_CU_SDPA_ROWS(parts)         ((parts) == 1 ? 128 : 64)
#define ZT_CU_SDPA_WALK(D)             ((D) == 64 ? 64 : 32)
#define ZT_CU_SDPA_BACK_WALK(parts, D) ((parts) == 1 && (D) == 64 ? 64 : 32)
#define ZT_CU_SDPA_STAGES(parts)       ((parts) == 1 ? 2 : 1)
#define ZT_CU_SDPA_BYTES(parts, D)     ((parts)*2 * (D) * (ZT_CU_SDPA_ROWS(parts) + 2 * ZT_CU_SDPA_WALK(D)) + 16)
#define ZT_CU_SDPA_BACK_BYTES(parts, D)                                                                                          \
    ((parts)*4 * (D) * (ZT_CU_SDPA_BACK_ROWS + ZT_CU_SDPA_STAGES(parts) * ZT_CU_SDPA_BACK_WALK(parts, D)) + 16)

/* ---- recurrent.cu --------------------------------------------------------------------------- */

typedef struct zt_cu_recurrent_args {
    zt_cu_ptr x, r, b, rb, h0, c0, peep, lengths; /* x: w_ih x, [T,N,gates*H] */
    zt_cu_ptr y, hn, cn, saved, trouble;
    zt_cu_ptr dy, dhn, dcn, dg, dh0, dc0;
    zt_cu_ptr third; /* gru, linear before reset: the third gate's dg times its r */
    int64_t T, N, H;
    int32_t reverse, other; /* other: relu; gru with the reset first */
} zt_cu_recurrent_args;

typedef struct zt_cu_columns_args {
    zt_cu_ptr a, b, y;
    int64_t rows, columns, a_step, b_step;
} zt_cu_columns_args;

#endif
