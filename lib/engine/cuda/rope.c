/* rope.c - rows of rotary positions and of the cache that keys and values are put into. */
#include "lib/ops/rope.h"
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/cu.h"

#include <math.h>
#include <string.h>

/* ---- rope ------------------------------------------------------------------------------------ */

static int64_t head_of(const zt_rope_attrs *a, const zt_type *x)
{
    return a->head ? a->head : a->dims ? a->dims : x->dim[x->rank - 1];
}

static int64_t dims_of(const zt_rope_attrs *a, const zt_type *x)
{
    return a->dims ? a->dims : head_of(a, x);
}

static bool rope_fits(const zt_cu_engine *e, const zt_rope_attrs *a, const zt_type *x)
{
    return zt_cu_is_float(x->dtype) && dims_of(a, x) <= 2 * ZT_CU_PAIRS &&
           x->dim[0] <= (int64_t)e->max_grid[0];
}

static bool has_rope(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                     const zt_type out[])
{
    (void)out;
    return rope_fits(e, attrs, in[0]);
}

/* Quarter turns a position of each pair. */
static void fill_turns(const zt_rope_attrs *at, int64_t dims, double *turns)
{
    for (int64_t i = 0; i < dims / 2; i++)
        turns[i] = zt_rope_scale(at, i) * pow(at->theta, -2 * (double)i / (double)dims) / M_PI_2;
}

static zt_status launch_rope(zt_cu_call *c, const zt_rope_attrs *at, const zt_type *type,
                             zt_cu_ptr x, zt_cu_ptr pos, zt_cu_ptr tab, zt_cu_ptr y)
{
    const char *kernel = type->dtype == ZT_F32   ? "zt_rope_f32"
                         : type->dtype == ZT_F16 ? "zt_rope_f16"
                                                 : "zt_rope_bf16";
    int64_t rows = type->dim[0], dims = dims_of(at, type);
    zt_cu_rope_args a = {.x = x,
                         .y = y,
                         .tab = tab,
                         .pos = pos,
                         .rows = rows,
                         .cols = rows ? zt_type_count(type) / rows : 0,
                         .head = head_of(at, type),
                         .dims = dims,
                         .amplitude = (float)at->amplitude,
                         .neighbours = !strcmp(at->pair.s, "neighbours")};
    if (a.cols == 0) return ZT_OK;
    fill_turns(at, dims, a.turns);
    return zt_cu_launch(c, kernel, (zt_cu_dim){(unsigned)rows, 1, 1}, (zt_cu_dim){128, 1, 1}, 0, &a,
                        sizeof a);
}

static zt_status emit_rope(zt_cu_call *c)
{
    return launch_rope(c, c->attrs, c->in[0], c->x[0], c->x[1], c->x[2], c->y[0]);
}

/* ---- kv_put ---------------------------------------------------------------------------------- */

zt_cu_slots zt_cu_slots_of(const zt_cu_call *c, const zt_type *cache, int pos)
{
    const zt_type *table = c->in[pos + 2];
    int64_t ctx = cache->dim[0];
    zt_cu_slots s = {
        .pos = c->x[pos], .seq = c->x[pos + 1], .ctx = ctx, .S = 1, .B = 1, .block = ctx};
    if (!table) return s;
    s.table = c->x[pos + 2];
    s.S = table->dim[0];
    s.B = table->dim[1];
    s.block = ctx / s.B;
    return s;
}

static zt_status launch_put(zt_cu_call *c, const zt_type *cache, zt_cu_ptr to, zt_cu_ptr x,
                            int64_t n, int pos)
{
    zt_cu_put_args a = {.cache = to,
                        .x = x,
                        .trouble = c->trouble,
                        .slots = zt_cu_slots_of(c, cache, pos),
                        .n = n,
                        .W = cache->dim[1]};
    return zt_cu_launch(c, cache->dtype == ZT_F16 ? "zt_put_f16" : "zt_put_f32",
                        (zt_cu_dim){(unsigned)n, (unsigned)((a.W + 1023) / 1024 + !a.W), 1},
                        (zt_cu_dim){128, 1, 1}, 0, &a, sizeof a);
}

static bool has_put(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                    const zt_type out[])
{
    (void)attrs, (void)out;
    return in[1]->dim[0] <= (int64_t)e->max_grid[0] &&
           in[0]->dim[1] <= 1024 * (int64_t)e->max_grid[1];
}

static zt_status emit_put(zt_cu_call *c)
{
    return launch_put(c, c->in[0], c->y[0], c->x[1], c->in[1]->dim[0], 2);
}

/* ---- rope_put -------------------------------------------------------------------------------- */

enum { KC, VC, Q, K, V, POS, SEQ, TABLE, TAB, GQ, GK }; /* inputs */

static bool has_rope_put(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                         const zt_type out[])
{
    const zt_rope_attrs rope = zt_rope_put_rope(attrs);
    (void)out;
    for (int x = Q; x <= K; x++)
        if (!rope_fits(e, &rope, in[x]) || zt_type_count(in[x]) > (int64_t)e->max_grid[0])
            return false;
    return in[KC]->dim[1] <= 1024 * (int64_t)e->max_grid[1];
}

/* q or k, normed where there is a weight for it, and turned into y. */
static zt_status turn(zt_cu_call *c, int x, int g, zt_cu_ptr y)
{
    const zt_rope_put_attrs *at = c->attrs;
    const zt_rope_attrs rope = zt_rope_put_rope(at);
    zt_cu_ptr from = c->x[x];
    zt_status s = ZT_OK;
    if (c->in[g]) {
        from = zt_cu_scratch(c, zt_type_bytes(c->in[x]));
        if (!from) return ZT_ENOMEM;
        s = zt_cu_rms_norm(c, c->in[x], c->x[x], c->x[g], at->eps, at->norm_dims, from);
    }
    return s ? s : launch_rope(c, &rope, c->in[x], from, c->x[POS], c->x[TAB], y);
}

/* Norms that a warp makes as a block of theirs would: heads that a team of 32 has. */
static bool norms_heads(const zt_cu_call *c, int64_t head)
{
    const zt_rope_put_attrs *at = c->attrs;
    for (int x = 0; x < 2; x++) {
        const zt_type *t = c->in[Q + x];
        int64_t columns = at->norm_dims ? at->norm_dims : t->dim[t->rank - 1];
        if (c->in[GQ + x] && (columns != head || zt_cu_norm_team(columns) != 32)) return false;
    }
    return true;
}

/* All of it in one launch: false where that has no way. */
static bool is_seat(const zt_cu_call *c, int64_t head)
{
    for (int x = Q; x <= V; x++)
        if (c->in[x]->dtype != ZT_F32) return false;
    for (int g = GQ; g <= GK; g++)
        if (c->in[g] && c->in[g]->dtype != ZT_F32) return false;
    return c->in[KC]->dtype == c->in[VC]->dtype && c->in[KC]->dim[1] % head == 0 &&
           norms_heads(c, head);
}

static zt_status launch_seat(zt_cu_call *c, const zt_rope_attrs *rope)
{
    const zt_type *q = c->in[Q];
    int64_t n = q->dim[0], head = head_of(rope, q), dims = dims_of(rope, q);
    double turns[ZT_CU_PAIRS];
    fill_turns(rope, dims, turns);
    zt_cu_rope_kv_write_args a = {.q = c->x[Q],
                         .k = c->x[K],
                         .v = c->x[V],
                         .y = c->y[2],
                         .kc = c->y[0],
                         .vc = c->y[1],
                         .gq = c->x[GQ],
                         .gk = c->x[GK],
                         .trouble = c->trouble,
                         .turns = zt_cu_table(c, turns, (size_t)dims / 2 * sizeof *turns),
                         .tab = c->x[TAB],
                         .slots = zt_cu_slots_of(c, c->in[KC], POS),
                         .n = n,
                         .head = head,
                         .half = dims / 2,
                         .heads = n ? zt_type_count(q) / n / head : 0,
                         .k_heads = c->in[KC]->dim[1] / head,
                         .v_width = c->in[VC]->dim[1],
                         .eps = ((const zt_rope_put_attrs *)c->attrs)->eps,
                         .amplitude = (float)rope->amplitude,
                         .neighbours = !strcmp(rope->pair.s, "neighbours"),
                         .cache_type = (int32_t)c->in[KC]->dtype};
    int64_t all = a.heads + a.k_heads + (a.v_width + head - 1) / head;
    if (!a.turns) return ZT_ENOMEM;
    return zt_cu_launch(c, "zt_rope_kv_write", zt_cu_grid(n * ((all + 7) / 8), 1), (zt_cu_dim){256, 1, 1}, 0,
                        &a, sizeof a);
}

static zt_status emit_rope_put(zt_cu_call *c)
{
    const zt_rope_attrs rope = zt_rope_put_rope(c->attrs);
    int64_t n = c->in[Q]->dim[0];
    if (is_seat(c, head_of(&rope, c->in[Q]))) return launch_seat(c, &rope);
    zt_cu_ptr k = zt_cu_scratch(c, zt_type_bytes(c->in[K]));
    zt_status s = k ? turn(c, K, GK, k) : ZT_ENOMEM;
    if (!s && c->y[2]) s = turn(c, Q, GQ, c->y[2]);
    if (!s) s = launch_put(c, c->in[KC], c->y[0], k, n, POS);
    return s ? s : launch_put(c, c->in[VC], c->y[1], c->x[V], n, POS);
}

const zt_cu_row zt_cu_rope[] = {
    {ZT_OP_rope, has_rope, emit_rope, 0},
    {ZT_OP_kv_put, has_put, emit_put, 0},
    {ZT_OP_rope_put, has_rope_put, emit_rope_put, 0},
    {0},
};
