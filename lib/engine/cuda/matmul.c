/* matmul.c - the row of products of matrices. */
#include "lib/engine/cuda/blas.h"
#include "lib/engine/cuda/wgmma.h"

enum { TILE = 64 }; /* as matmul.cu has it */

static int64_t batches_of(const zt_type *y)
{
    int64_t n = 1;
    for (int d = 0; d + 2 < y->rank; d++) n *= y->dim[d];
    return n;
}

static bool has_matmul(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                       const zt_type out[])
{
    int rank = out[0].rank;
    (void)attrs;
    return (zt_cu_is_float(in[0]->dtype) || in[0]->dtype == ZT_F64) && rank - 2 <= ZT_CU_DIMS &&
           batches_of(&out[0]) <= (int64_t)e->max_grid[2] &&
           out[0].dim[rank - 2] / TILE < (int64_t)e->max_grid[1] &&
           out[0].dim[rank - 1] / TILE < (int64_t)e->max_grid[0];
}

/* Elements from one matrix to the next along each dimension of y's batches; 0 where it is repeated.
 */
static void steps_of(const zt_type *t, const zt_type *y, int64_t step[ZT_CU_DIMS])
{
    int64_t size = t->dim[t->rank - 1] * t->dim[t->rank - 2];
    for (int d = y->rank - 3; d >= 0; d--) {
        int own = d - (y->rank - t->rank);
        step[d] = own >= 0 && t->dim[own] != 1 ? size : 0;
        if (own >= 0) size *= t->dim[own];
    }
}

zt_status zt_cu_multiply(zt_cu_call *c, const zt_cu_matmul_args *a)
{
    const zt_cu_dim grid = {(unsigned)((a->M + TILE - 1) / TILE),
                            (unsigned)((a->N + TILE - 1) / TILE), 1};
    return zt_cu_launch(c, "zt_matmul_f32", grid, (zt_cu_dim){256, 1, 1}, 0, a, sizeof *a);
}

/* ---- large ones: by gemm.cuh, or wgmma ------------------------------------------------------- */

static int64_t tiles_of(int64_t n) { return (n + ZT_CU_GEMM_TILE - 1) / ZT_CU_GEMM_TILE; }

/* Its tiles are worth while: more than one of the small ones, and work for every processor. */
static bool is_large(const zt_cu_engine *e, const zt_cu_matmul_args *a, int64_t batches)
{
    return a->N > TILE && a->M > TILE && zt_cu_has_shared(e, ZT_CU_GEMM_BYTES) &&
           batches <= (int64_t)e->max_grid[1] &&
           tiles_of(a->N) * tiles_of(a->M) * batches * 4 >= e->processors;
}

/* Rows of n numbers side by side, from a multiple of 16 bytes on. */
static bool is_wide(zt_cu_ptr at, int64_t n) { return at % 16 == 0 && n % 8 == 0; }

static zt_status launch_large(zt_cu_call *c, zt_cu_matmul_args *a, int64_t batches)
{
    bool ta = a->a_row == 1 && a->a_col != 1, tb = a->b_row == 1 && a->b_col != 1;
    bool half = c->in[0]->dtype == ZT_F16, done;
    const char *nt = half ? "zt_matmul_f16_nt" : "zt_matmul_bf16_nt",
               *nn = half ? "zt_matmul_f16_nn" : "zt_matmul_bf16_nn",
               *tn = half ? "zt_matmul_f16_tn" : "zt_matmul_bf16_tn";
    a->wide_a = is_wide(a->a, ta ? a->N : a->K);
    a->wide_b = is_wide(a->b, tb ? a->K : a->M) && !(ta && tb);
    a->wide_y = is_wide(a->y, a->M);
    zt_status s = zt_cu_wgmma_multiply(c, a, c->in[0]->dtype, batches, &done);
    if (s || done) return s;
    const zt_cu_dim grid = {(unsigned)(tiles_of(a->N) * tiles_of(a->M)), (unsigned)batches, 1};
    return zt_cu_launch(c, ta ? tn : tb ? nt : nn, grid, (zt_cu_dim){256, 1, 1}, ZT_CU_GEMM_BYTES,
                        a, sizeof *a);
}

static zt_status emit_matmul(zt_cu_call *c)
{
    const zt_matmul_attrs *at = c->attrs;
    const zt_type *p = c->in[0], *q = c->in[1], *y = c->out[0];
    int64_t columns_a = p->dim[p->rank - 1], columns_b = q->dim[q->rank - 1];
    zt_cu_matmul_args a = {.a = c->x[0],
                           .b = c->x[1],
                           .y = c->y[0],
                           .N = y->dim[y->rank - 2],
                           .K = p->dim[p->rank - (at->ta ? 2 : 1)],
                           .M = y->dim[y->rank - 1],
                           .a_row = at->ta ? 1 : columns_a,
                           .a_col = at->ta ? columns_a : 1,
                           .b_row = at->tb ? 1 : columns_b,
                           .b_col = at->tb ? columns_b : 1,
                           .rank = y->rank - 2};
    for (int d = 0; d < a.rank; d++) a.dim[d] = y->dim[d];
    steps_of(p, y, a.a_step);
    steps_of(q, y, a.b_step);
    bool done;
    zt_status s = zt_cu_blas_multiply(c, &a, at->ta != 0, at->tb != 0, &done);
    if (s || done) return s;
    zt_dtype t = p->dtype;
    if ((t == ZT_F16 || t == ZT_BF16) && is_large(c->e, &a, batches_of(y)))
        return launch_large(c, &a, batches_of(y));
    const char *kernel = t == ZT_F32    ? "zt_matmul_f32"
                         : t == ZT_F16  ? "zt_matmul_f16"
                         : t == ZT_BF16 ? "zt_matmul_bf16"
                                        : "zt_matmul_f64";
    const zt_cu_dim grid = {(unsigned)((a.M + TILE - 1) / TILE),
                            (unsigned)((a.N + TILE - 1) / TILE), (unsigned)batches_of(y)};
    return zt_cu_launch(c, kernel, grid, (zt_cu_dim){256, 1, 1}, 0, &a, sizeof a);
}

const zt_cu_row zt_cu_matmul[] = {
    {ZT_OP_matmul, has_matmul, emit_matmul, 0},
    {0},
};
