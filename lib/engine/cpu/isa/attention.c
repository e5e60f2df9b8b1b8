/* attention.c - causal attention over a paged cache of keys and values.
 *
 * Keys are walked in tiles of 64 at absolute positions with an online softmax: no n-by-n matrix, and
 * what a row gets depends on its own position and sequence alone. The order of sums is fixed: a score
 * is 16 lanes of products over D, then the tree of lanes; a row of the output takes the keys of its
 * range one by one; a tile's weights are summed lane by lane, then by the tree.
 *
 * An item is a block of up to 8 rows of one or more query heads of a kv head. For each run of rows of
 * one sequence, every tile of keys and values is widened to f32 once (D padded with zeros to a multiple
 * of 16) and used for all of them. Keys outside a row's range are never looked at for that row.
 */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

#include <math.h>

enum { TILE = 64, ROWS = 8, QUARTET = 4 };
enum { AUX_HEADS, AUX_SPLIT }; /* query heads an item; items a kv head */

/* What all items of a call share. */
typedef struct scene {
    const float *q;
    const char *k, *v;
    float *y;
    const int32_t *pos, *seq, *table;
    bool half; /* caches are f16 */
    int64_t n, H, G, D, Dp, heads, split;
    int64_t ctx, S, block, per_seq; /* per_seq: positions that a sequence can have */
    int64_t window;
    float scale, cap;
} scene;

/* A thread's scratch: tiles of keys and values, and of each (row, head): the scores or weights of a
 * tile, the output so far, the query, the largest score and the sum of weights. */
typedef struct scratch {
    float *k, *v, *p, *acc, *q, *top, *sum;
} scratch;

/* (row, head) pairs of one sequence. */
typedef struct run {
    int64_t row, n_rows, head; /* first row, rows, first query head */
    int64_t kv;                /* kv head */
    int64_t s;                 /* sequence */
} run;

static int64_t round16(int64_t x) { return (x + 15) / 16 * 16; }

static scene make_scene(const zt_cpu_call *c)
{
    const zt_attention_attrs *a = c->attrs;
    scene e = {.q = c->in[0].data, .k = c->in[1].data, .v = c->in[2].data, .y = c->out[0].data,
               .pos = c->in[3].data, .seq = c->in[4].data, .table = c->in[5].data};
    e.half = c->in[1].type.dtype == ZT_F16;
    e.D = a->head;
    e.Dp = round16(e.D);
    e.n = c->in[0].type.dim[0];
    e.H = c->in[0].type.dim[1] / e.D;
    e.G = c->in[1].type.dim[1] / e.D;
    e.heads = c->aux[AUX_HEADS];
    e.split = c->aux[AUX_SPLIT];
    e.ctx = e.per_seq = e.block = c->in[1].type.dim[0];
    e.S = INT32_MAX;
    if (e.table) {
        int64_t B = c->in[5].type.dim[1];
        e.S = c->in[5].type.dim[0];
        e.block = B > 0 ? e.ctx / B : 1;
        e.per_seq = B * e.block;
    }
    e.window = a->window;
    e.scale = a->scale != 0 ? (float)a->scale : (float)(1 / sqrt((double)e.D));
    e.cap = (float)a->softcap;
    return e;
}

/* ---- tiles ------------------------------------------------------------------------------------- */

/* Where the key at position p of a sequence is, -1 with a trouble where the table leads nowhere. */
static int64_t slot_of(zt_cpu_call *c, const scene *e, int64_t s, int64_t p)
{
    if (!e->table) return p;
    int64_t b = e->table[s * (e->per_seq / e->block) + p / e->block];
    if (b >= 0 && b < e->ctx / e->block) return b * e->block + p % e->block;
    zt_cpu_trouble(c, "block", b, e->ctx / e->block);
    return -1;
}

static void widen_row(const scene *e, const char *src, float *dst)
{
    uint16_t last[16] = {0};
    int64_t d = 0;
    for (; d + 16 <= e->D; d += 16)
        vf_store(dst + d, e->half ? vf_of_f16(src + 2 * d) : vf_load((const float *)(src + 4 * d)));
    if (d == e->D) return;
    if (e->half) memcpy(last, src + 2 * d, (size_t)(e->D - d) * 2);
    vf_store(dst + d, e->half ? vf_of_f16(last)
                              : vf_load_n((const float *)(src + 4 * d), (int)(e->D - d)));
}

/* Keys and values of positions first..last of a sequence, into the tile that `first` is in. */
static bool load_tile(zt_cpu_call *c, const scene *e, const run *r, int64_t first, int64_t last,
                      const scratch *x)
{
    size_t item = e->half ? 2 : 4;
    for (int64_t p = first; p <= last; p++) {
        int64_t slot = slot_of(c, e, r->s, p), at = p % TILE * e->Dp;
        if (slot < 0) return false;
        size_t offset = (size_t)(slot * e->G + r->kv) * (size_t)e->D * item;
        widen_row(e, e->k + offset, x->k + at);
        widen_row(e, e->v + offset, x->v + at);
    }
    return true;
}

/* ---- one tile for one (row, head) ---------------------------------------------------------------- */

/* Lane j of the result is the sum of r[j]'s lanes, by the tree that vf_sum takes. */
static vf sums(vf r[16])
{
    vf_transpose(r);
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++) r[i] = vf_add(r[i], r[i + half]);
    return r[0];
}

/* Scores of 16 keys: lane j is q . k[j]. */
static vf score16(const float *q, const float *k, int64_t Dp)
{
    vf s[16];
    for (int j = 0; j < 16; j++) s[j] = vf_set(0);
    for (int64_t d = 0; d < Dp; d += 16) {
        vf qd = vf_load(q + d);
        for (int j = 0; j < 16; j++) s[j] = vf_fma(qd, vf_load(k + j * Dp + d), s[j]);
    }
    return sums(s);
}

/* Scores of keys lo..hi of the tile, -inf outside; returns the largest. */
static float scores(const scene *e, const float *q, const float *k, int lo, int hi, float *p)
{
    vf top = vf_set(-INFINITY);
    for (int j = 0; j < TILE; j += 16) {
        vf s = vf_set(-INFINITY);
        if (j <= hi && j + 15 >= lo) {
            vf inside = vf_mul(score16(q, k + j * e->Dp, e->Dp), vf_set(e->scale));
            if (e->cap > 0)
                inside = vf_mul(vf_tanh(vf_div(inside, vf_set(e->cap))), vf_set(e->cap));
            s = vf_first(lo - j, s, vf_first(hi + 1 - j, inside, s));
        }
        vf_store(p + j, s);
        top = vf_max(s, top);
    }
    return vf_top(top);
}

/* Scores to weights against the new largest score; what was summed before shrinks to fit. */
static void weigh(float *p, float tile_top, float *top, float *sum, float *acc, int64_t Dp)
{
    float now = tile_top > *top ? tile_top : *top;
    vf w[TILE / 16], all;
    float lanes[16];
    for (int j = 0; j < TILE / 16; j++) {
        w[j] = vf_exp(vf_sub(vf_load(p + 16 * j), vf_set(now)));
        vf_store(p + 16 * j, w[j]);
    }
    all = vf_add(vf_add(w[0], w[1]), vf_add(w[2], w[3]));
    vf_store(lanes, vf_exp(vf_set(*top - now)));
    float shrink = lanes[0];
    if (shrink != 1)
        for (int64_t d = 0; d < Dp; d += 16)
            vf_store(acc + d, vf_mul(vf_load(acc + d), vf_set(shrink)));
    *sum = *sum * shrink + vf_sum(all);
    *top = now;
}

/* acc += sum over keys lo..hi of p[j] v[j], the keys in order, for N rows of weights at once. */
static inline __attribute__((always_inline)) void take_values(int N, const float *p, const float *v,
                                                              int lo, int hi, float *acc, int64_t Dp)
{
    for (int64_t d = 0; d < Dp; d += 32) {
        int two = d + 16 < Dp;
        vf a[QUARTET], b[QUARTET];
        for (int i = 0; i < N; i++) {
            a[i] = vf_load(acc + i * Dp + d);
            b[i] = two ? vf_load(acc + i * Dp + d + 16) : a[i];
        }
        for (int j = lo; j <= hi; j++) {
            vf v0 = vf_load(v + j * Dp + d), v1 = two ? vf_load(v + j * Dp + d + 16) : v0;
            for (int i = 0; i < N; i++) {
                vf w = vf_set(p[i * TILE + j]);
                a[i] = vf_fma(w, v0, a[i]);
                b[i] = vf_fma(w, v1, b[i]);
            }
        }
        for (int i = 0; i < N; i++) {
            vf_store(acc + i * Dp + d, a[i]);
            if (two) vf_store(acc + i * Dp + d + 16, b[i]);
        }
    }
}

/* ---- a run of rows --------------------------------------------------------------------------------- */

static int64_t low_of(const scene *e, int64_t pos)
{
    return e->window > 0 && pos >= e->window ? pos - e->window + 1 : 0;
}

/* One tile of keys for every (row, head) of the run whose range it touches. */
static void run_tile(const scene *e, const run *r, int64_t tile, const scratch *x)
{
    int64_t pairs = r->n_rows * e->heads;
    for (int64_t i = 0; i < pairs; i++) {
        int64_t pos = e->pos[r->row + i / e->heads], low = low_of(e, pos);
        if (pos < tile || low >= tile + TILE) continue;
        int lo = low > tile ? (int)(low - tile) : 0;
        int hi = pos - tile < TILE ? (int)(pos - tile) : TILE - 1;
        float *p = x->p + i * TILE, *acc = x->acc + i * e->Dp;
        float top = scores(e, x->q + i * e->Dp, x->k, lo, hi, p);
        weigh(p, top, &x->top[i], &x->sum[i], acc, e->Dp);
        if (lo > 0 || hi < TILE - 1) take_values(1, p, x->v, lo, hi, acc, e->Dp);
    }
    /* Whole tiles: rows side by side share the loads of the values. */
    for (int64_t i = 0; i < pairs;) {
        int64_t n = 0;
        for (; i + n < pairs && n < QUARTET; n++) {
            int64_t pos = e->pos[r->row + (i + n) / e->heads];
            if (pos < tile + TILE - 1 || low_of(e, pos) > tile) break;
        }
        float *p = x->p + i * TILE, *acc = x->acc + i * e->Dp;
        if (n == QUARTET) {
            take_values(QUARTET, p, x->v, 0, TILE - 1, acc, e->Dp);
        } else {
            for (int64_t k = 0; k < n; k++)
                take_values(1, p + k * TILE, x->v, 0, TILE - 1, acc + k * e->Dp, e->Dp);
        }
        i += n ? n : 1;
    }
}

static void begin_run(const scene *e, const run *r, const scratch *x)
{
    int64_t pairs = r->n_rows * e->heads;
    memset(x->q, 0, (size_t)(pairs * e->Dp) * sizeof(float));
    memset(x->acc, 0, (size_t)(pairs * e->Dp) * sizeof(float));
    for (int64_t i = 0; i < pairs; i++) {
        int64_t row = r->row + i / e->heads, head = r->head + i % e->heads;
        memcpy(x->q + i * e->Dp, e->q + (row * e->H + head) * e->D, (size_t)e->D * sizeof(float));
        x->top[i] = -INFINITY;
        x->sum[i] = 0;
    }
}

static void end_run(const scene *e, const run *r, const scratch *x)
{
    for (int64_t i = 0; i < r->n_rows * e->heads; i++) {
        int64_t row = r->row + i / e->heads, head = r->head + i % e->heads;
        float *y = e->y + (row * e->H + head) * e->D;
        for (int64_t d = 0; d < e->D; d += 16)
            vf_store_n(y + d, (int)(e->D - d < 16 ? e->D - d : 16),
                       vf_div(vf_load(x->acc + i * e->Dp + d), vf_set(x->sum[i])));
    }
}

static void zero_run(const scene *e, const run *r)
{
    for (int64_t t = 0; t < r->n_rows; t++)
        memset(e->y + ((r->row + t) * e->H + r->head) * e->D, 0,
               (size_t)(e->heads * e->D) * sizeof(float));
}

/* Are the run's positions and sequence inside the cache. */
static bool check_run(zt_cpu_call *c, const scene *e, const run *r)
{
    if (r->s < 0 || r->s >= e->S) {
        zt_cpu_trouble(c, "sequence", r->s, e->S);
        return false;
    }
    for (int64_t t = 0; t < r->n_rows; t++) {
        int64_t pos = e->pos[r->row + t];
        if (pos >= 0 && pos < e->per_seq) continue;
        zt_cpu_trouble(c, "position", pos, e->per_seq);
        return false;
    }
    return true;
}

static void do_run(zt_cpu_call *c, const scene *e, const run *r, const scratch *x)
{
    if (!check_run(c, e, r)) {
        zero_run(e, r);
        return;
    }
    int64_t first = INT64_MAX, last = 0;
    for (int64_t t = 0; t < r->n_rows; t++) {
        int64_t pos = e->pos[r->row + t], low = low_of(e, pos);
        first = low < first ? low : first;
        last = pos > last ? pos : last;
    }
    begin_run(e, r, x);
    for (int64_t tile = first / TILE * TILE; tile <= last; tile += TILE) {
        int64_t from = first > tile ? first : tile, to = last < tile + TILE ? last : tile + TILE - 1;
        if (!load_tile(c, e, r, from, to, x)) {
            zero_run(e, r);
            return;
        }
        run_tile(e, r, tile, x);
    }
    end_run(e, r, x);
}

/* ---- the kernel ------------------------------------------------------------------------------------ */

static bool has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs;
    zt_dtype kv = in[1]->dtype;
    return in[0]->dtype == ZT_F32 && (kv == ZT_F16 || kv == ZT_F32) && in[2]->dtype == kv &&
           out[0].dtype == ZT_F32;
}

static void setup(zt_cpu_call *c)
{
    const zt_attention_attrs *a = c->attrs;
    int64_t n = c->in[0].type.dim[0], H = c->in[0].type.dim[1] / a->head;
    int64_t G = c->in[1].type.dim[1] / a->head, Dp = round16(a->head);
    int64_t group = G > 0 ? H / G : 0;
    /* A few rows: one head an item, so that there is work for every thread. */
    c->aux[AUX_HEADS] = n < ROWS ? 1 : group;
    c->aux[AUX_SPLIT] = n < ROWS ? group : 1;
    c->items[0] = H == 0 || G == 0 ? 0 : (n + ROWS - 1) / ROWS * G * c->aux[AUX_SPLIT];
    size_t pairs = (size_t)(ROWS * c->aux[AUX_HEADS]);
    c->local_bytes = sizeof(float) * (2 * (size_t)(TILE * Dp) +
                                      pairs * (TILE + 2 * (size_t)Dp + 16));
}

/* Items go head by head inside a kv head inside a block of rows: neighbours share a cache line. */
static void attend(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    scene e = make_scene(c);
    int64_t pairs = ROWS * e.heads;
    float *at = local;
    scratch x = {.k = at, .v = at + TILE * e.Dp};
    x.p = x.v + TILE * e.Dp;
    x.acc = x.p + pairs * TILE;
    x.q = x.acc + pairs * e.Dp;
    x.top = x.q + pairs * e.Dp;
    x.sum = x.top + pairs;
    /* Keys that no row of the run may look at are multiplied too, and dropped: give them values. */
    memset(x.k, 0, (size_t)(TILE * e.Dp) * sizeof(float));
    for (int64_t i = begin; i < end; i++) {
        int64_t part = i % e.split, kv = i / e.split % e.G, row = i / e.split / e.G * ROWS;
        int64_t stop = row + ROWS < e.n ? row + ROWS : e.n;
        run r = {.head = kv * (e.H / e.G) + part * e.heads, .kv = kv};
        for (r.row = row; r.row < stop; r.row += r.n_rows) {
            r.s = e.seq ? e.seq[r.row] : 0;
            for (r.n_rows = 1; r.row + r.n_rows < stop; r.n_rows++)
                if (e.seq && e.seq[r.row + r.n_rows] != r.s) break;
            do_run(c, &e, &r, &x);
        }
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_attention)[] = {
    {.op = ZT_OP_attention, .has = has, .setup = setup, .run = attend},
    {.run = NULL},
};
