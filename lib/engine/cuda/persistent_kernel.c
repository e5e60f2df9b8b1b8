/* persistent_kernel.c - launches of a plan that become stages of one: what may, which of them are made on the
 * way by the product that wants them, and the launch. */
#include "lib/engine/cuda/persistent_kernel.h"

#include <string.h>

enum { WORD = 256, THREADS = 256, LEAST_SHARED = 4096, MOST_JOINED = 16 };

_Static_assert(sizeof(zt_cu_stage) % 8 == 0, "stages are copied by eight bytes");
_Static_assert(LEAST_SHARED >= ZT_CU_PAIRS * 2 * sizeof(float), "turns of a row");

/* Graphs have cooperative launches since CUDA 12. */
bool zt_cu_persistent_kernel_fits(const zt_cu_engine *e) { return e->cooperative && e->cu.version >= 12000; }

/* ---- stages ---------------------------------------------------------------------------------- */

/* What a launch is, if it is a stage: false where its arguments are not of the few rows that a
 * token has. */
typedef struct kind {
    const char *kernel;
    int stage;
    bool (*fits)(const void *args);
    size_t bytes;
} kind;

static bool few_norms(const void *args)
{
    const zt_cu_norm_args *a = args;
    return a->rows <= 2 * ZT_CU_FEW;
}
static bool few_gates(const void *args)
{
    const zt_cu_gate_args *a = args;
    return a->type == ZT_CU_F32 && a->n <= ZT_CU_FEW * 65536;
}
static bool few_seats(const void *args) { return ((const zt_cu_rope_kv_write_args *)args)->n <= ZT_CU_FEW; }
static bool few_rows(const void *args) { return ((const zt_cu_few_args *)args)->a.n <= ZT_CU_FEW; }

static bool few_picks(const void *args) { return ((const zt_cu_rows_args *)args)->n <= ZT_CU_FEW; }

static bool few_heads(const void *args)
{
    return ((const zt_cu_attention_args *)args)->n <= ZT_CU_FEW;
}

static const kind kinds[] = {
    {"zt_norm_f32", ZT_CU_STAGE_NORM, few_norms, sizeof(zt_cu_norm_args)},
    {"zt_gate", ZT_CU_STAGE_GATE, few_gates, sizeof(zt_cu_gate_args)},
    {"zt_rows", ZT_CU_STAGE_ROWS, few_picks, sizeof(zt_cu_rows_args)},
    {"zt_rows_packed", ZT_CU_STAGE_ROWS_PACKED, few_picks, sizeof(zt_cu_rows_args)},
    {"zt_rope_kv_write", ZT_CU_STAGE_SEAT, few_seats, sizeof(zt_cu_rope_kv_write_args)},
#define X(D)                                                                                       \
    {"zt_attention_few_" #D, ZT_CU_STAGE_ATTENTION_##D, few_heads, sizeof(zt_cu_attention_args)},
    X(64) X(128) X(256)
#undef X
    {"zt_attention_join", ZT_CU_STAGE_JOIN, few_heads, sizeof(zt_cu_attention_args)},
#define X(type) {"zt_few_" #type, ZT_CU_STAGE_FEW_##type, few_rows, sizeof(zt_cu_few_args)},
    ZT_CU_PACKED_TYPES(X) X(f32) X(pair) X(bf16) X(half)
#undef X
};

static const kind *kind_of(const char *kernel, const void *args, size_t bytes)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(kinds[i].kernel, kernel))
            return kinds[i].bytes == bytes && kinds[i].fits(args) ? &kinds[i] : NULL;
    return NULL;
}

/* ---- what a product makes itself ------------------------------------------------------------- */

typedef struct range {
    zt_cu_ptr at;
    int64_t bytes;
} range;

static bool meet(const range *a, int n, const range *b, int m)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < m; k++)
            if (a[i].at && b[k].at && a[i].at < b[k].at + (zt_cu_ptr)b[k].bytes &&
                b[k].at < a[i].at + (zt_cu_ptr)a[i].bytes)
                return true;
    return false;
}

/* While some blocks still read what x is made of, others write: the product, and one of them what
 * the kernel that x stands for would have left. So these must not lie there. */
static bool is_apart(const zt_cu_few_args *f, const range from[3], const range left[3])
{
    const int64_t n = f->a.n, each = f->a.y_type == ZT_CU_F32 ? 4 : 2;
    range y[ZT_CU_PRODUCTS], more = {0};
    for (int i = 0; i < ZT_CU_PRODUCTS; i++)
        y[i] = (range){f->a.product[i].y, n * f->a.product[i].M * each};
    if (f->a.after == ZT_CU_AFTER_ADD)
        more = (range){f->a.residual, n * f->a.product[0].M * each};
    return !meet(y, ZT_CU_PRODUCTS, from, 3) && !meet(left, 3, from, 3) &&
           !meet(left, 3, y, ZT_CU_PRODUCTS) && !meet(left, 3, &more, 1);
}

static bool folds_norm(const zt_cu_norm_args *m, zt_cu_few_args *f)
{
    const int64_t bytes = m->rows * m->K * 4;
    const range from[3] = {{m->x, bytes}, {m->before, bytes}, {m->after, bytes}};
    const range left[3] = {{m->y, bytes}, {m->sum, bytes}, {m->rstd, m->rows * 4}};
    if (m->y != f->a.x || m->rows != f->a.n || m->K != f->a.K || !is_apart(f, from, left))
        return false;
    f->from = ZT_CU_OF_NORM;
    f->of.norm = *m;
    return true;
}

static bool folds_gate(const zt_cu_gate_args *g, zt_cu_few_args *f)
{
    const int64_t bytes = g->n * 4;
    const range from[3] = {{g->g, bytes}, {g->u, bytes}, {0}}, left[3] = {{g->y, bytes}, {0}, {0}};
    if (g->y != f->a.x || g->n != f->a.n * f->a.K || !is_apart(f, from, left)) return false;
    f->from = ZT_CU_OF_GATE;
    f->of.gate = *g;
    return true;
}

/* Every block joins all heads: worth it while there are few splits. */
static bool folds_join(const zt_cu_attention_args *a, zt_cu_few_args *f)
{
    const int64_t rows = a->n * a->H * 4;
    const range from[3] = {{a->parts, rows * a->splits * (a->D + 2)}, {0}, {0}};
    const range left[3] = {{a->y, rows * a->D}, {0}, {0}};
    if (a->y != f->a.x || a->n != f->a.n || a->H * a->D != f->a.K || a->D % 4 != 0 ||
        a->splits > MOST_JOINED || !is_apart(f, from, left))
        return false;
    f->from = ZT_CU_OF_JOIN;
    f->of.join = *a;
    return true;
}

/* Is x of the product what stage `s` makes? Then it makes it itself. */
static bool folds(const zt_cu_stage *s, zt_cu_few_args *f)
{
    if (s->blocks == 0 || f->a.x_type != ZT_CU_F32) return false;
    return s->kind == ZT_CU_STAGE_NORM   ? folds_norm(&s->of.norm, f)
           : s->kind == ZT_CU_STAGE_GATE ? folds_gate(&s->of.gate, f)
           : s->kind == ZT_CU_STAGE_JOIN ? folds_join(&s->of.attention, f)
                                         : false;
}

/* ---- writing down ---------------------------------------------------------------------------- */

static void *grown(zt_cu_engine *e, void *p, int n, int *room, size_t each)
{
    if (n < *room) return p;
    int more = *room ? 2 * *room : 64;
    void *fresh = zt_realloc(e->base.ctx, p, (size_t)more * each);
    if (fresh) *room = more;
    return fresh;
}

static zt_status open_run(zt_cu_engine *e, zt_cu_persistent_kernel *t)
{
    if (t->open) return ZT_OK;
    zt_cu_persistent_kernel_run *run = grown(e, t->run, t->at, &t->run_room, sizeof *run);
    if (!run) return ZT_ENOMEM;
    t->run = run;
    if (!t->plays) {
        t->run[t->at] = (zt_cu_persistent_kernel_run){.first = t->n_stages, .shared = LEAST_SHARED};
        t->n_runs = t->at + 1;
    }
    t->open = true;
    t->since = t->n_stages;
    t->source = -1;
    t->folded.blocks = 0;
    return ZT_OK;
}

/* The stage goes behind the others; one that does not wait goes on where they left off. */
static zt_status append(zt_cu_engine *e, zt_cu_persistent_kernel *t, zt_cu_stage *s, size_t shared)
{
    zt_cu_stage *all = grown(e, t->stage, t->n_stages, &t->stage_room, sizeof *all);
    if (!all) return ZT_ENOMEM;
    t->stage = all;
    zt_cu_persistent_kernel_run *run = &t->run[t->at];
    if (s->waits) t->since = t->n_stages;
    s->skew = 0;
    for (int i = t->since; i < t->n_stages; i++) s->skew += all[i].blocks;
    all[t->n_stages++] = *s;
    run->n = t->n_stages - run->first;
    if (s->skew + s->blocks > run->blocks) run->blocks = s->skew + s->blocks;
    if (shared > run->shared) run->shared = shared;
    return ZT_OK;
}

/* A product: of what the stage before it makes it takes the place. */
static zt_status put_product(zt_cu_engine *e, zt_cu_persistent_kernel *t, zt_cu_stage *s, size_t shared,
                             bool beside)
{
    zt_cu_few_args *f = &s->of.few;
    if (t->source >= 0 && folds(&t->stage[t->source], f)) {
        t->folded = t->stage[t->source];
        s->waits = t->folded.waits;
        t->n_stages = t->source;
        f->tells = 1;
    } else if (beside && folds(&t->folded, f)) {
        s->waits = 0;
    } else {
        s->waits = !beside || t->folded.blocks > 0;
        t->folded.blocks = 0;
    }
    t->source = -1;
    return append(e, t, s, shared);
}

static zt_status put_stage(zt_cu_engine *e, zt_cu_persistent_kernel *t, const kind *k, zt_cu_dim grid,
                           size_t shared, const void *args, bool beside)
{
    zt_cu_stage s = {
        .kind = k->stage, .waits = 1, .across = (int32_t)grid.x, .up = (int32_t)grid.y};
    s.blocks = (int32_t)(grid.x * grid.y * grid.z);
    memcpy(&s.of, args, k->bytes);
    if (k->stage >= ZT_CU_STAGE_FEW_q4_0) return put_product(e, t, &s, shared, beside);
    t->folded.blocks = 0;
    t->source = t->n_stages;
    return append(e, t, &s, shared);
}

/* ---- the passes ------------------------------------------------------------------------------ */

void zt_cu_persistent_kernel_begin(zt_cu_persistent_kernel *t, bool plays)
{
    t->plays = plays;
    t->n_stages = t->at = 0;
    if (!plays) t->n_runs = 0;
    t->open = false;
    t->launches = 0;
}

zt_status zt_cu_persistent_kernel_take(zt_cu_call *c, const char *name, zt_cu_dim grid, size_t shared,
                          const void *args, size_t bytes, bool *taken)
{
    zt_cu_persistent_kernel *t = c->tape;
    const kind *k = kind_of(name, args, bytes);
    *taken = false;
    if (!k) return zt_cu_persistent_kernel_cut(c->e, t);
    zt_status s = open_run(c->e, t);
    if (!s) s = put_stage(c->e, t, k, grid, shared, args, c->beside);
    if (s) return s;
    if (!t->plays) t->run[t->at].launches++;
    *taken = t->run[t->at].launches >= ZT_CU_TAPE_RUN;
    return ZT_OK;
}

static zt_status launch_run(zt_cu_engine *e, zt_cu_persistent_kernel *t, const zt_cu_persistent_kernel_run *run)
{
    zt_cu_persistent_kernel_args a = {.stages = t->mem.at + WORD + (zt_cu_ptr)run->first * sizeof(zt_cu_stage),
                         .word = t->mem.at,
                         .n = run->n};
    void *params[] = {&a};
    int each = 0;
    zt_cu_function f = zt_cu_function_of(e, "zt_persistent_kernel", run->shared);
    if (!f) return zt_ctx_status(e->base.ctx);
    zt_status s = zt_cu_try(e, e->cu.OccupancyMaxBlocks(&each, f, THREADS, run->shared),
                            "OccupancyMaxActiveBlocksPerMultiprocessor");
    int most = each * e->processors, blocks = run->blocks < most ? run->blocks : most;
    if (!s && blocks < 1) return zt_fail(e->base.ctx, ZT_EBUG, "engine cuda: zt_persistent_kernel has no room");
    t->launches++;
    if (s) return s;
    return zt_cu_try(e,
                     e->cu.LaunchCooperativeKernel(f, (unsigned)blocks, 1, 1, THREADS, 1, 1,
                                                   (unsigned)run->shared, e->stream, params),
                     "LaunchCooperativeKernel");
}

zt_status zt_cu_persistent_kernel_cut(zt_cu_engine *e, zt_cu_persistent_kernel *t)
{
    if (!t || !t->open) return ZT_OK;
    const zt_cu_persistent_kernel_run *run = &t->run[t->at++];
    t->open = false;
    return t->plays && run->launches >= ZT_CU_TAPE_RUN ? launch_run(e, t, run) : ZT_OK;
}

zt_status zt_cu_persistent_kernel_send(zt_cu_engine *e, zt_cu_persistent_kernel *t)
{
    size_t bytes = (size_t)t->n_stages * sizeof *t->stage, whole = WORD + bytes;
    if (t->n_stages == 0) return ZT_OK;
    if (t->mem.bytes < whole) zt_cu_release(e, &t->mem);
    zt_status s = t->mem.at ? ZT_OK : zt_cu_alloc(e, ZT_CU_DEVICE_MEM, whole, &t->mem);
    if (!s) s = zt_cu_clear(e, t->mem.at, WORD);
    return s ? s : zt_cu_write(e, t->mem.at + WORD, t->stage, bytes);
}

void zt_cu_persistent_kernel_free(zt_cu_engine *e, zt_cu_persistent_kernel *t)
{
    zt_free(e->base.ctx, t->stage);
    zt_free(e->base.ctx, t->run);
    zt_cu_release(e, &t->mem);
    *t = (zt_cu_persistent_kernel){0};
}
