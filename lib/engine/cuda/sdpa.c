/* sdpa.c - rows of dense attention and of its gradient: on the matrix units where the device has
 * them and heads have up to 128 columns, else by sdpa.cu. Which it is depends on that alone, not on
 * how many rows there are.
 */
#include "lib/ops/sdpa.h"
#include "lib/engine/cuda/args_nn.h"
#include "lib/engine/cuda/cu.h"

enum { WARPS = 4, ROWS = 16, TILE = 32 }; /* as sdpa.cu has them */
enum { Q, K, V, DY, LSE, DELTA, MASK, LEN };

#define OF_TYPE(name, end) name "_f32" end, name "_f16" end, name "_bf16" end
/* What a kernel is called by type: any number of columns, up to 64 on the units, up to 128. */
enum { F32, F16, BF16, F64 };
typedef struct names {
    const char *plain[4], *units[2][3];
} names;
#define NAMES(name)                                                                                \
    {                                                                                              \
        {OF_TYPE(name, ""), name "_f64"},                                                          \
        {                                                                                          \
            {OF_TYPE(name, "_64")}, {OF_TYPE(name, "_128")}                                        \
        }                                                                                          \
    }
static const names forward_names = NAMES("zt_sdpa");
static const names query_names = NAMES("zt_sdpa_queries"), key_names = NAMES("zt_sdpa_keys");

/* Of a number in shared memory, by sdpa.cu. */
static size_t wide_bytes(zt_dtype t) { return t == ZT_F64 ? sizeof(double) : sizeof(float); }

static bool has_sdpa(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                     const zt_type out[])
{
    zt_sdpa z = zt_sdpa_sizes(attrs, in[Q], in[K], in[V]);
    (void)out;
    zt_dtype t = in[Q]->dtype;
    size_t most = (size_t)(ROWS + TILE) * (size_t)(z.d + z.dv + 2) * wide_bytes(t);
    return (zt_cu_is_float(t) || t == ZT_F64) && z.d <= ZT_CU_SDPA_MOST &&
           z.dv <= ZT_CU_SDPA_MOST && zt_cu_has_shared(e, most) &&
           z.b * z.h <= (int64_t)e->max_grid[1];
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
                         .scale = zt_sdpa_scale(at, z),
                         .softcap = at->softcap,
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

/* ---- on the matrix units --------------------------------------------------------------------- */

/* How an op runs: with D columns on the units, in parts of numbers; D 0: by sdpa.cu. */
typedef struct way {
    int type, D, parts;
    size_t bytes; /* of a block's shared memory */
    int64_t own; /* its rows */
} way;

static way way_of(const zt_cu_call *c, const zt_sdpa *z, bool back)
{
    zt_dtype t = c->in[Q]->dtype;
    int64_t most = z->d > z->dv ? z->d : z->dv, least = z->d < z->dv ? z->d : z->dv;
    way w = {.type = t == ZT_F32 ? F32 : t == ZT_F16 ? F16 : t == ZT_BF16 ? BF16 : F64,
             .D = most <= 64 ? 64 : 128,
             .parts = t == ZT_F32 ? ZT_CU_SDPA_PARTS : 1};
    w.bytes = (size_t)(back ? ZT_CU_SDPA_BACK_BYTES(w.parts, w.D) : ZT_CU_SDPA_BYTES(w.parts, w.D));
    w.own = back ? ZT_CU_SDPA_BACK_ROWS : ZT_CU_SDPA_ROWS(w.parts);
    if (c->e->cu.platform == &zt_cu_nvidia && zt_cu_has_shared(c->e, w.bytes) && w.type != F64 &&
        least > 0 && most <= 128 && z->s <= INT32_MAX && z->t <= INT32_MAX)
        return w;
    w.D = 0;
    w.own = ROWS;
    w.bytes = wide_bytes(t) * (size_t)(back ? (ROWS + TILE) * (z->d + z->dv + 2)
                                            : (ROWS + TILE) * (z->d + 1) + TILE * (z->dv + 1));
    return w;
}

static zt_status launch(zt_cu_call *c, const names *n, const way *w, int64_t rows, int64_t heads,
                        const zt_cu_sdpa_args *a)
{
    const char *name = !w->D ? n->plain[w->type] : n->units[w->D == 128][w->type];
    zt_cu_dim grid = {(unsigned)((rows + w->own - 1) / w->own), (unsigned)heads, 1};
    return zt_cu_launch(c, name, grid, (zt_cu_dim){32 * WARPS, 1, 1}, w->bytes, a, sizeof *a);
}

/* Rows of f32 to parts of them in scratch. */
static zt_status split(zt_cu_call *c, const zt_sdpa *z, zt_cu_rows *r, int64_t heads, int64_t n,
                       int64_t cols, int64_t *part)
{
    int64_t wide = (cols + 7) / 8 * 8;
    zt_cu_parts_args p = {.from = *r, .b = z->b, .heads = heads, .n = n, .cols = cols};
    *part = z->b * heads * n * wide;
    p.to = zt_cu_scratch(c, (size_t)*part * ZT_CU_SDPA_PARTS * sizeof(uint16_t));
    if (!p.to) return ZT_ENOMEM;
    *r = (zt_cu_rows){.at = p.to, .batch = heads * n * wide, .head = n * wide, .row = wide};
    return zt_cu_launch(c, "zt_sdpa_parts", zt_cu_grid(*part / 8, 256), (zt_cu_dim){256, 1, 1}, 0,
                        &p, sizeof p);
}

/* q, k, v and, of the gradient, dy as the units want them. */
static zt_status for_units(zt_cu_call *c, const zt_sdpa *z, const way *w, bool back,
                           zt_cu_sdpa_args *a)
{
    const struct {
        zt_cu_rows *rows;
        int64_t heads, n, cols;
    } sides[] = {{&a->q, z->h, z->s, z->d},
                 {&a->k, z->g, z->t, z->d},
                 {&a->v, z->g, z->t, z->dv},
                 {&a->y, z->h, z->s, z->dv}};
    zt_status s = ZT_OK;
    for (int k = 0; k < (back ? 4 : 3) && w->D && !s; k++) {
        a->wide[k] = w->parts > 1 || (sides[k].rows->at % 16 == 0 && sides[k].cols % 8 == 0);
        if (w->parts > 1)
            s = split(c, z, sides[k].rows, sides[k].heads, sides[k].n, sides[k].cols, &a->part[k]);
    }
    return s;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static zt_status emit_sdpa(zt_cu_call *c)
{
    zt_sdpa z = zt_sdpa_sizes(c->attrs, c->in[Q], c->in[K], c->in[V]);
    zt_cu_sdpa_args a = args_of(c, &z, 3, 4);
    way w = way_of(c, &z, false);
    a.y = rows_of(&z, c->y[0], z.h, z.s, z.dv);
    a.lse = c->y[1];
    zt_status s = for_units(c, &z, &w, false, &a);
    return s ? s : launch(c, &forward_names, &w, z.s, z.b * z.h, &a);
}

static zt_status emit_grad(zt_cu_call *c)
{
    zt_sdpa z = zt_sdpa_sizes(c->attrs, c->in[Q], c->in[K], c->in[V]);
    zt_cu_sdpa_args a = args_of(c, &z, MASK, LEN);
    way w = way_of(c, &z, true);
    a.y = rows_of(&z, c->x[DY], z.h, z.s, z.dv);
    a.lse = c->x[LSE];
    a.delta = c->x[DELTA];
    a.dq = rows_of(&z, c->y[Q], z.h, z.s, z.d);
    a.dk = rows_of(&z, c->y[K], z.g, z.t, z.d);
    a.dv = rows_of(&z, c->y[V], z.g, z.t, z.dv);
    zt_status s = for_units(c, &z, &w, true, &a);
    if (!s && c->y[Q]) s = launch(c, &query_names, &w, z.s, z.b * z.h, &a);
    if (s || (!c->y[K] && !c->y[V])) return s;
    return launch(c, &key_names, &w, z.t, z.b * z.g, &a);
}

const zt_cu_row zt_cu_sdpa[] = {
    {ZT_OP_sdpa, has_sdpa, emit_sdpa, 0},
    {ZT_OP_sdpa_grad, has_sdpa, emit_grad, 0},
    {0},
};
