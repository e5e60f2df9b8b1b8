/* sdpa.c - rows of dense attention and of its gradient. */
#include "lib/ops/sdpa.h"
#include "lib/engine/cuda/args_nn.h"
#include "lib/engine/cuda/cu.h"

enum { WARPS = 4, ROWS = 16, TILE = 32 }; /* as sdpa.cu has them */
enum { Q, K, V, DY, LSE, DELTA, MASK, LEN };

#define OF_TYPE(name)                                                                              \
    {                                                                                              \
        name "_f32", name "_f16", name "_bf16"                                                     \
    }
static const char *const forward_names[] = OF_TYPE("zt_sdpa");
static const char *const query_names[] = OF_TYPE("zt_sdpa_queries");
static const char *const key_names[] = OF_TYPE("zt_sdpa_keys");

static bool has_sdpa(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                     const zt_type out[])
{
    zt_sdpa z = zt_sdpa_sizes(attrs, in[Q], in[K], in[V]);
    (void)out;
    size_t most = (size_t)(ROWS + TILE) * (size_t)(z.d + z.dv + 2) * sizeof(float);
    return zt_cu_is_float(in[Q]->dtype) && z.d <= ZT_CU_SDPA_MOST && z.dv <= ZT_CU_SDPA_MOST &&
           most <= e->shared_optin && z.b * z.h <= (int64_t)e->max_grid[1];
}

/* Rows of a value [b,H,n,cols], or [b,n,H,cols]. */
static zt_cu_rows rows_of(const zt_sdpa *z, zt_cu_ptr at, int64_t H, int64_t n, int64_t cols)
{
    return (zt_cu_rows){.at = at,
                        .batch = H * n * cols,
                        .head = z->bshd ? cols : n * cols,
                        .row = z->bshd ? H * cols : cols};
}

static zt_cu_sdpa_args args_of(const zt_cu_call *c, const zt_sdpa *z, int mask, int len)
{
    const zt_sdpa_attrs *at = c->attrs;
    const zt_type *m = c->in[mask];
    const int64_t full[] = {z->b, z->h, z->s, z->t};
    zt_cu_sdpa_args a = {.q = rows_of(z, c->x[Q], z->h, z->s, z->d),
                         .k = rows_of(z, c->x[K], z->g, z->t, z->d),
                         .v = rows_of(z, c->x[V], z->g, z->t, z->dv),
                         .mask = c->x[mask],
                         .len = c->x[len],
                         .trouble = c->trouble,
                         .b = z->b,
                         .h = z->h,
                         .g = z->g,
                         .s = z->s,
                         .t = z->t,
                         .d = z->d,
                         .dv_cols = z->dv,
                         .offset = at->offset,
                         .left = at->left,
                         .right = at->causal ? 0 : at->right,
                         .scale = (float)zt_sdpa_scale(at, z),
                         .softcap = (float)at->softcap,
                         .end = !strcmp(at->align.s, "end")};
    if (!m) return a;
    a.mask_bool = m->dtype == ZT_BOOL;
    int64_t step = 1;
    for (int d = 1; d <= m->rank; d++) {
        int64_t n = m->dim[m->rank - d];
        a.mask_step[4 - d] = n == full[4 - d] && n != 1 ? step : 0;
        step *= n;
    }
    return a;
}

static zt_status launch(zt_cu_call *c, const char *const names[3], zt_cu_dim grid, int64_t floats,
                        const zt_cu_sdpa_args *a)
{
    zt_dtype t = c->in[Q]->dtype;
    const char *name = names[t == ZT_F32 ? 0 : t == ZT_F16 ? 1 : 2];
    return zt_cu_launch(c, name, grid, (zt_cu_dim){32 * WARPS, 1, 1},
                        (size_t)floats * sizeof(float), a, sizeof *a);
}

static zt_cu_dim grid_of(int64_t rows, int64_t heads)
{
    return (zt_cu_dim){(unsigned)((rows + ROWS - 1) / ROWS), (unsigned)heads, 1};
}

static zt_status emit_sdpa(zt_cu_call *c)
{
    zt_sdpa z = zt_sdpa_sizes(c->attrs, c->in[Q], c->in[K], c->in[V]);
    zt_cu_sdpa_args a = args_of(c, &z, 3, 4);
    a.y = rows_of(&z, c->y[0], z.h, z.s, z.dv);
    a.lse = c->y[1];
    return launch(c, forward_names, grid_of(z.s, z.b * z.h),
                  (ROWS + TILE) * (z.d + 1) + TILE * (z.dv + 1), &a);
}

static zt_status emit_grad(zt_cu_call *c)
{
    zt_sdpa z = zt_sdpa_sizes(c->attrs, c->in[Q], c->in[K], c->in[V]);
    zt_cu_sdpa_args a = args_of(c, &z, MASK, LEN);
    int64_t room = (ROWS + TILE) * (z.d + z.dv + 2);
    zt_status s = ZT_OK;
    a.y = rows_of(&z, c->x[DY], z.h, z.s, z.dv);
    a.lse = c->x[LSE];
    a.delta = c->x[DELTA];
    a.dq = rows_of(&z, c->y[Q], z.h, z.s, z.d);
    a.dk = rows_of(&z, c->y[K], z.g, z.t, z.d);
    a.dv = rows_of(&z, c->y[V], z.g, z.t, z.dv);
    if (c->y[Q]) s = launch(c, query_names, grid_of(z.s, z.b * z.h), room, &a);
    if (s || (!c->y[K] && !c->y[V])) return s;
    return launch(c, key_names, grid_of(z.t, z.b * z.g), room, &a);
}

const zt_cu_row zt_cu_sdpa[] = {
    {ZT_OP_sdpa, has_sdpa, emit_sdpa, 0},
    {ZT_OP_sdpa_grad, has_sdpa, emit_grad, 0},
    {0},
};
