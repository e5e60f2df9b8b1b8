/* attention.c - the row of causal attention over a cache. */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/cu.h"

#include <math.h>

enum { THREADS = 128, HEADS = 8, MOST_HEAD = 512, FEW = 16 }; /* as attention.cu has them */

static int64_t groups_of(int64_t H, int64_t G) { return G * ((H / G + HEADS - 1) / HEADS); }

static bool has_attention(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                          const zt_type out[])
{
    const zt_attention_attrs *a = attrs;
    (void)out;
    return a->head <= MOST_HEAD && in[0]->dim[0] <= (int64_t)e->max_grid[0] &&
           in[0]->dim[1] / a->head <= (int64_t)e->max_grid[1] &&
           in[1]->dim[0] <= ZT_CU_SPLIT * (int64_t)e->max_grid[2];
}

static zt_status launch(zt_cu_call *c, const zt_cu_attention_args *a)
{
    zt_cu_dim grid = {(unsigned)a->n, (unsigned)groups_of(a->H, a->G), 1};
    const char *kernel = c->in[1]->dtype == ZT_F16 ? "zt_attention_f16" : "zt_attention_f32";
    size_t shared = (size_t)(HEADS * a->D) * sizeof(float);
    if (a->splits) grid.z = (unsigned)a->splits;
    zt_status s = zt_cu_launch(c, kernel, grid, (zt_cu_dim){THREADS, 1, 1}, shared, a, sizeof *a);
    if (s || !a->splits) return s;
    return zt_cu_launch(c, "zt_attention_join", (zt_cu_dim){(unsigned)a->n, (unsigned)a->H, 1},
                        (zt_cu_dim){THREADS, 1, 1}, 0, a, sizeof *a);
}

static zt_status emit_attention(zt_cu_call *c)
{
    const zt_attention_attrs *at = c->attrs;
    const zt_type *k = c->in[1];
    int64_t D = at->head, splits = (k->dim[0] + ZT_CU_SPLIT - 1) / ZT_CU_SPLIT;
    zt_cu_attention_args a = {
        .q = c->x[0],
        .k = c->x[1],
        .v = c->x[2],
        .y = c->y[0],
        .trouble = c->trouble,
        .slots = zt_cu_slots_of(c, k, 3),
        .n = c->in[0]->dim[0],
        .D = D,
        .H = c->in[0]->dim[1] / D,
        .G = k->dim[1] / D,
        .W = k->dim[1],
        .window = at->window,
        .scale = (float)(at->scale != 0 ? at->scale : 1 / sqrt((double)D)),
        .softcap = (float)at->softcap,
        .whole = D % 8 == 0 && c->x[1] % 16 == 0,
    };
    if (a.n == 0 || a.H == 0) return ZT_OK;
    if (a.n <= FEW && splits > 1) {
        a.splits = splits;
        a.parts = zt_cu_scratch(c, (size_t)(a.n * a.H * splits * (D + 2)) * sizeof(float));
        if (!a.parts) return ZT_ENOMEM;
    }
    return launch(c, &a);
}

const zt_cu_row zt_cu_attention[] = {
    {ZT_OP_attention, has_attention, emit_attention, 0},
    {0},
};
