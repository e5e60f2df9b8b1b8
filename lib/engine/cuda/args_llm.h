/* args_llm.h - what the kernels of language models are called with: one struct by value each, read
 * by the host (C) and by the kernels.
 *
 * Addresses are the device's; 0: absent. Sizes are counted in elements.
 */
#ifndef ZT_CU_ARGS_LLM_H
#define ZT_CU_ARGS_LLM_H

#include "lib/engine/cuda/args.h"

/* ---- weights (pack.cu) ---------------------------------------------------------------------- */

/* The block types of which there are packed forms (packed.h), by name. */
#define ZT_CU_PACKED_TYPES(X) X(q4_0) X(q4_1) X(q5_0) X(q5_1) X(q8_0) X(q4_k) X(q5_k) X(q6_k)

/* Block types whose codes are read 16 bytes a lane by the matrix instructions are kept apart from
 * how files have them. A unit is a row's block. Rows go by 16 (a tile), and a block's bytes are
 * three parts, each part of all tiles and units together, one after the other:
 *
 *   codes, `codes` words a block: word w of row r goes to lane r % 8 * 4 + w % 4, which has
 *          codes / 2 of them, number w / 4 * 2 + r / 8; by `each` words a lane side by side;
 *   head,  `head` words a row: scales that several parts of a block share;
 *   half,  `half` (0 or 1) 16-bit scales a row.
 *
 * Codes come in the files such that lane 4 g + t then holds of rows g and g + 8 just what the
 * operand A of m16n8k32 wants: columns 4 t .. 4 t + 3 and 16 + 4 t .. 16 + 4 t + 3 of 32. */
typedef struct zt_cu_pack_args {
    zt_cu_ptr raw, packed;
    int64_t rows, units; /* of the matrix; blocks a row */
    int32_t codes, head, half, each;
    int32_t codes_at, head_at, half_at, block_bytes; /* in a block of the file */
    int32_t back;                                    /* from packed to raw */
} zt_cu_pack_args;

/* ---- products with weights (linear.cu) ------------------------------------------------------ */

enum { ZT_CU_PRODUCTS = 3 };

/* What is done to x w^T + b, which was rounded to y's type. */
enum { ZT_CU_AFTER_NONE, ZT_CU_AFTER_ADD, ZT_CU_AFTER_CURVE };

/* Curves, and gates, whose second factor is taken as it is. */
enum { ZT_CU_RELU, ZT_CU_SILU, ZT_CU_GELU, ZT_CU_GELU_ERF, ZT_CU_TANH, ZT_CU_SIGMOID };

typedef struct zt_cu_product {
    zt_cu_ptr w, b, y;
    zt_cu_ptr heads, halves; /* of packed weights; codes are at w */
    int64_t M;
    int32_t b_type, unused;
} zt_cu_product;

typedef struct zt_cu_linear_args {
    zt_cu_ptr x;        /* [n,K], or its codes */
    zt_cu_ptr x_sums;   /* of codes: scale and sum of each 32 */
    zt_cu_ptr x_backs;  /* of pairs (pair.cuh), which are two of the n rows: factors of their sums */
    zt_cu_ptr residual; /* [n,M] of y's type */
    zt_cu_ptr grid;     /* of weights that need it: the vectors that codes stand for */
    int64_t n, K;
    int64_t units, units_slice; /* blocks a row (of 32 columns for plain types), and a slice */
    int64_t row_bytes;          /* of w in a file */
    int32_t x_type, y_type, w_type, block, block_bytes;
    int32_t wide_x, wide_w; /* may all rows be read by vectors of numbers */
    int32_t each;           /* rows of codes a row of x: 1 or 2 */
    int32_t split;          /* the warps of a block take slices of one tile, not tiles */
    int32_t after, curve;
    int32_t right, unused; /* of a large product: tiles of rows of x */
    /* Of products by expert: the expert of each tile of rows of x, 0: none; bytes from one expert's weights to the next. */
    zt_cu_ptr expert_tiles;
    int64_t w_step, heads_step, halves_step;
    zt_cu_product product[ZT_CU_PRODUCTS];
} zt_cu_linear_args;

typedef struct zt_cu_halves_args { /* n numbers to `type`, f16 or bf16 */
    zt_cu_ptr x, y;
    int64_t n;
    int32_t type, unused;
} zt_cu_halves_args;

typedef struct zt_cu_pairs_args { /* rows of f32 to twice as many of f16 (pair.cuh) */
    zt_cu_ptr x, y, backs;
    int64_t n, K;
    int32_t wide, unused; /* may four numbers be read, and written, at once */
} zt_cu_pairs_args;

typedef struct zt_cu_codes_args {
    zt_cu_ptr x, codes, sums;
    int64_t n, K;
    int32_t x_type, each;
} zt_cu_codes_args;

typedef struct zt_cu_gate_args { /* y = gate(g) * u */
    zt_cu_ptr g, u, y;
    int64_t n;
    int32_t type, gate;
} zt_cu_gate_args;

/* ---- products by expert (expert.cu) ---------------------------------------------------------- */

/* Rows of x are sorted by expert, each expert's filled up to whole tiles. */
typedef struct zt_cu_expert_tile {
    int32_t expert, rows; /* rows 0: the tile is not used */
} zt_cu_expert_tile;

typedef struct zt_cu_expert_args {
    zt_cu_ptr index;    /* i32[row_count]: the expert of each row */
    zt_cu_ptr tiles;    /* zt_cu_expert_tile[tile_count] */
    zt_cu_ptr order;    /* i32[tile_count * tile_rows]: the number of the index in that place, -1: none */
    zt_cu_ptr begin;    /* i32[experts]: the first place of each expert */
    zt_cu_ptr from, to; /* rows that are gathered or scattered */
    zt_cu_ptr trouble;
    int64_t row_count, experts, tile_rows, tile_count;
    int64_t columns;      /* of `from` and `to` */
    int64_t per_row;      /* indices that share a row of x */
    int32_t type, unused; /* of the rows */
} zt_cu_expert_args;

/* The gradient of the stacked weights, f32[E,M,K]. */
typedef struct zt_cu_expert_backward_args {
    zt_cu_ptr x, dy, dw;
    zt_cu_expert_args rows; /* with tile_rows 1 */
    int64_t M, K;
    int32_t type, unused; /* of x, dy and dw */
} zt_cu_expert_backward_args;

/* ---- norms of rows --------------------------------------------------------------------------- */

enum { ZT_CU_NORM_TEAM = 256 }; /* threads of a norm's row, at most */

typedef struct zt_cu_norm_args {
    zt_cu_ptr x, before, g, after, y, sum, rstd; /* y = norm(x + before) g + after */
    int64_t rows, K;                             /* groups and their columns */
    double eps;
    int32_t wide; /* do all rows begin where four numbers may be read at once */
    int32_t team; /* threads of a row: its sum's order */
} zt_cu_norm_args;

/* Rows of a matrix of any float or block type, as f32. */
typedef struct zt_cu_rows_args {
    zt_cu_ptr w, i, y, grid, trouble;
    int64_t rows, K, n, row_bytes;
    int32_t w_type, block, block_bytes, strict; /* strict: no such row is trouble */
    zt_cu_pack_args pack;                       /* of packed rows */
} zt_cu_rows_args;

/* ---- large products (gemm.cuh) ---------------------------------------------------------------- */

enum { ZT_CU_GEMM_TILE = 128, ZT_CU_GEMM_BYTES = 128 * 136 * 4 /* of shared memory */ };
enum { ZT_CU_CODES_BYTES = 4 * 10240 + 8 * (4352 + 8192) /* and of linear_codes_mma.cu */ };

/* ---- matmul (matmul.cu) --------------------------------------------------------------------- */

enum { ZT_CU_DIMS = 8 }; /* of batches */

typedef struct zt_cu_matmul_args {
    zt_cu_ptr a, b, y;
    int64_t N, K, M;
    int64_t a_row, a_col, b_row, b_col; /* steps of a[n,k] and b[k,m] */
    int64_t dim[ZT_CU_DIMS], a_step[ZT_CU_DIMS], b_step[ZT_CU_DIMS];
    int32_t rank;
    int32_t wide_a, wide_b, wide_y; /* may eight numbers be read, or written, at once (gemm.cuh) */
} zt_cu_matmul_args;

/* ---- softmax -------------------------------------------------------------------------------- */

typedef struct zt_cu_softmax_args {
    zt_cu_ptr x, y;
    int64_t n, inner, lines; /* entries of a line, elements from one to the next */
    double scale;
    int32_t log, unused;
} zt_cu_softmax_args;

/* ---- rotary positions and the cache --------------------------------------------------------- */

enum { ZT_CU_PAIRS = 256 };

typedef struct zt_cu_slots { /* lib/ops/row.h: zt_slots */
    zt_cu_ptr pos, seq, table;
    int64_t ctx, S, B, block;
} zt_cu_slots;

typedef struct zt_cu_rope_args {
    zt_cu_ptr x, y, tab, pos;
    int64_t rows, cols, head, dims;
    float amplitude;
    int32_t neighbours;
    double turns[ZT_CU_PAIRS]; /* quarter turns a position of each pair */
} zt_cu_rope_args;

typedef struct zt_cu_put_args {
    zt_cu_ptr cache, x, trouble;
    zt_cu_slots slots;
    int64_t n, W;
} zt_cu_put_args;

/* rope_put in one: q turned into y, k turned and v as it is into the caches; q and k normed by head
 * where gq, gk are there. All of f32 but the caches. */
typedef struct zt_cu_rope_kv_write_args {
    zt_cu_ptr q, k, v, y, kc, vc, gq, gk, trouble;
    zt_cu_ptr turns; /* half doubles: quarter turns a position of each pair */
    zt_cu_ptr tab;
    zt_cu_slots slots;
    int64_t n, head, half, heads, k_heads, v_width; /* v: v_width columns */
    double eps;
    float amplitude;
    int32_t neighbours, cache_type, unused;
} zt_cu_rope_kv_write_args;

typedef struct zt_cu_rotate_args { /* rope_table, and qk_norm_rope where wq is there */
    zt_cu_ptr x, y, cos, sin, wq, wk;
    int64_t rows, K, half, tables; /* row r turns by row r / per % tables of the tables */
    int64_t per, heads, q_heads;
    double eps;
    int32_t neighbours, unused;
} zt_cu_rotate_args;

/* ---- attention ------------------------------------------------------------------------------ */

enum { ZT_CU_SPLIT = 256, ZT_CU_TILE = 64 };                      /* keys of a split, of a tile */
enum { ZT_CU_ATTENTION_HEAD = 512, ZT_CU_ATTENTION_WIDE = 1024 }; /* columns of a head, at most, of attention.cu's kernels */

/* Shared memory of the kernels of attention_mma.cu for heads of D columns: two tiles of keys and
 * of values twice, and q; keys and values once, sums of D + 8 columns by 16 rows a warp, and q where
 * D > 128. */
#define ZT_CU_DECODE_BYTES(D) (8 * ZT_CU_TILE * (D) + 64 * (D) + 11264)
#define ZT_CU_PREFILL_BYTES(D, warps)                                                                                            \
    (4 * ZT_CU_TILE * (D) + 64 * ((D) + 8) * (warps) + ((D) > 128 ? 64 * (D) * (warps) : 16) + 1088)

typedef struct zt_cu_attention_args {
    zt_cu_ptr q, k, v, y, parts, trouble;
    zt_cu_ptr sinks;            /* f32[H]; 0: none */
    zt_cu_ptr slopes, query_at; /* of linear biases: f32[H], 0: none; i32[n], 0: the rows' positions */
    zt_cu_slots slots;
    int64_t n, D, H, G, W, window;
    int64_t splits; /* of the cache; parts [n,H,splits,D+2], or 0: a block walks them all */
    float scale, softcap;
    int32_t whole;   /* may eight columns of a head be read at once */
    int32_t units;   /* on the matrix units: attention_mma.cuh */
    int32_t chunked; /* the window is a chunk of positions */
} zt_cu_attention_args;

/* ---- products with few rows (linear_decode.cuh) ------------------------------------------------ */

enum { ZT_CU_DECODE_ROWS = 8 };

/* x of a product: rows that are there, or what a kernel before it would have made of them. */
enum { ZT_CU_OF_ROWS, ZT_CU_OF_NORM, ZT_CU_OF_GATE, ZT_CU_OF_JOIN };

typedef struct zt_cu_decode_args {
    zt_cu_linear_args a; /* x: rows; without x_sums */
    union {
        zt_cu_norm_args norm;
        zt_cu_gate_args gate;
        zt_cu_attention_args join; /* of splits */
    } of;
    int32_t from;  /* ZT_CU_OF_ */
    int32_t tells; /* what is made of x is also left where its own kernel puts it */
    /* Where the block's dynamic memory has x (at 0), codes' scales and sums, sums of slices, and 48
     * floats; all of it. */
    int32_t sums_at, part_at, room_at, bytes;
    int64_t tile_bytes; /* of the codes of 16 rows of packed w */
} zt_cu_decode_args;

#endif
