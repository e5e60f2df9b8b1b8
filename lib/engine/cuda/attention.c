/* attention.c - the row of causal attention over a cache: few rows by splits of the keys, many each
 * with all; on the matrix units where the cache is of f16. */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/cu.h"

#include <math.h>

enum { THREADS = 128, HEADS = 8, MOST_HEAD = 512, FEW = 16 }; /* as attention.cu has them */
enum { FEW_UNITS = 64, PARTS = 64 << 20 }; /* rows and bytes up to which splits are blocks */

/* Kernels on the matrix units, by columns of a head. */
static const struct {
    int64_t D;
    const char *few, *many;
    size_t few_bytes, many_bytes;
    int warps; /* of many: 16 rows each */
} units[] = {
    {64, "zt_attention_few_64", "zt_attention_many_64", ZT_CU_FEW_BYTES(64),
     ZT_CU_MANY_BYTES(64, 4), 4},
    {128, "zt_attention_few_128", "zt_attention_many_128", ZT_CU_FEW_BYTES(128),
     ZT_CU_MANY_BYTES(128, 4), 4},
    {256, "zt_attention_few_256", "zt_attention_many_256", ZT_CU_FEW_BYTES(256),
     ZT_CU_MANY_BYTES(256, 2), 2},
};
enum { KINDS = sizeof units / sizeof *units };

/* The number of the kernels for this cache, -1: attention.cu. Of the number of rows nothing is
 * asked: all have the same bits. */
static int units_of(const zt_cu_engine *e, const zt_type *k, int64_t D)
{
    int i = 0;
    while (i < KINDS && units[i].D < D) i++;
    bool fits = i < KINDS && zt_cu_has_shared(e, units[i].few_bytes) &&
                zt_cu_has_shared(e, units[i].many_bytes);
    return fits && k->dtype == ZT_F16 && D % 8 == 0 ? i : -1;
}

static int64_t groups_of(int64_t H, int64_t G, int heads)
{
    return G * ((H / G + heads - 1) / heads);
}

static bool has_attention(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                          const zt_type out[])
{
    const zt_attention_attrs *a = attrs;
    (void)out;
    return a->head <= MOST_HEAD && in[0]->dim[0] <= (int64_t)e->max_grid[0] &&
           in[0]->dim[1] / a->head <= (int64_t)e->max_grid[1] &&
           in[1]->dim[0] <= ZT_CU_SPLIT * (int64_t)e->max_grid[2];
}

static zt_status launch_plain(zt_cu_call *c, const zt_cu_attention_args *a)
{
    zt_cu_dim grid = {(unsigned)a->n, (unsigned)groups_of(a->H, a->G, HEADS), 1};
    const char *kernel = c->in[1]->dtype == ZT_F16 ? "zt_attention_f16" : "zt_attention_f32";
    size_t shared = (size_t)(HEADS * a->D) * sizeof(float);
    if (a->splits) grid.z = (unsigned)a->splits;
    return zt_cu_launch(c, kernel, grid, (zt_cu_dim){THREADS, 1, 1}, shared, a, sizeof *a);
}

static zt_status launch_units(zt_cu_call *c, const zt_cu_attention_args *a, int kind, bool few)
{
    int64_t R = a->H / a->G, each = units[kind].warps * 16 / (R < 16 ? R : 16);
    zt_cu_dim grid = {(unsigned)(few ? a->n : (a->n + each - 1) / each),
                      (unsigned)groups_of(a->H, a->G, 16), a->splits ? (unsigned)a->splits : 1};
    zt_cu_dim block = {few ? THREADS : 32 * (unsigned)units[kind].warps, 1, 1};
    return zt_cu_launch(c, few ? units[kind].few : units[kind].many, grid, block,
                        few ? units[kind].few_bytes : units[kind].many_bytes, a, sizeof *a);
}

static zt_status launch(zt_cu_call *c, const zt_cu_attention_args *a, int kind, bool few)
{
    zt_status s = kind < 0 ? launch_plain(c, a) : launch_units(c, a, kind, few);
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
    int kind = units_of(c->e, k, D);
    int64_t parts = a.n * a.H * splits * (D + 2) * (int64_t)sizeof(float);
    a.units = kind >= 0;
    bool few = a.n <= FEW || (kind >= 0 && a.n <= FEW_UNITS && parts <= PARTS);
    if (few && splits > 1) {
        a.splits = splits;
        a.parts = zt_cu_scratch(c, (size_t)parts);
        if (!a.parts) return ZT_ENOMEM;
    }
    return launch(c, &a, kind, few);
}

const zt_cu_row zt_cu_attention[] = {
    {ZT_OP_attention, has_attention, emit_attention, 0},
    {0},
};
