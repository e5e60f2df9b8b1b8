/* sdpa_grad.c - the gradient of scaled dot-product attention, by weights made anew from lse (Dao et
 * al., "FlashAttention", 2022).
 *
 * Phase 0 makes panels. In phase 1 an item is a block of queries of one head, walks the keys and
 * makes dq; in phase 2 it is a block of keys, walks the queries of all heads that share it
 * and makes dk and dv. No sum is shared between items: weights are computed twice instead. What a
 * row does not see may be infinite or NaN, as for sdpa.
 */
#include "lib/engine/cpu/isa/doubles.h"
#include "lib/engine/cpu/isa/sdpa.h"

enum { Q, K, V, DY, LSE, DELTA, MASK, LEN };

/* Panels of a key head: k and v turned, k; of a query head: q and dy turned, q, dy, then lse and
 * delta. Floats of each: */
typedef struct sizes {
    zt_sdpa z;
    int64_t keys, queries; /* whole panels */
    int64_t wide, wide_v;  /* columns of q and k, of v and dy, in whole panels */
    int64_t key_head, query_head;
} sizes;

static sizes sizes_of(const zt_cpu_call *call)
{
    sizes s = {.z = zt_sdpa_sizes(call->attrs, &call->in[Q].type, &call->in[K].type, &call->in[V].type)};
    s.keys = sdpa_up(s.z.t, GEMM_WIDE);
    s.queries = sdpa_up(s.z.s, GEMM_WIDE);
    s.wide = sdpa_up(s.z.d, GEMM_WIDE);
    s.wide_v = sdpa_up(s.z.dv, GEMM_WIDE);
    s.key_head = s.keys * (s.z.d + s.z.dv) + s.z.t * s.wide;
    s.query_head = s.queries * (s.z.d + s.z.dv + 2) + s.z.s * (s.wide + s.wide_v);
    return s;
}

typedef struct key_panels {
    float *k_turned, *v_turned, *k;
} key_panels;

typedef struct query_panels {
    float *q_turned, *dy_turned, *q, *dy, *lse, *delta;
} query_panels;

static key_panels keys_of(const zt_cpu_call *call, const sizes *s, int64_t head)
{
    key_panels p = {.k_turned = (float *)call->shared + head * s->key_head};
    p.v_turned = p.k_turned + s->keys * s->z.d;
    p.k = p.v_turned + s->keys * s->z.dv;
    return p;
}

static query_panels queries_of(const zt_cpu_call *call, const sizes *s, int64_t head)
{
    float *from = (float *)call->shared + s->z.b * s->z.g * s->key_head;
    query_panels p = {.q_turned = from + head * s->query_head};
    p.dy_turned = p.q_turned + s->queries * s->z.d;
    p.q = p.dy_turned + s->queries * s->z.dv;
    p.dy = p.q + s->z.s * s->wide;
    p.lse = p.dy + s->z.s * s->wide_v;
    p.delta = p.lse + s->queries;
    return p;
}

/* Behind all panels sdpa_wildness of each panel of k, then of a head's q and of its dy. */
static float *wild_keys(const zt_cpu_call *call, const sizes *s, int64_t head)
{
    float *all = (float *)call->shared + s->z.b * (s->z.g * s->key_head + s->z.h * s->query_head);
    return all + head * (s->keys / GEMM_WIDE);
}

static float *wild_queries(const zt_cpu_call *call, const sizes *s, int64_t head, bool dy)
{
    return wild_keys(call, s, s->z.b * s->z.g) + (2 * head + dy) * (s->queries / GEMM_WIDE);
}

static bool sdpa_grad_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return in[Q]->dtype == ZT_F32;
}

static int64_t blocks_of(int64_t n) { return (n + SDPA_ROWS - 1) / SDPA_ROWS; }

static void sdpa_grad_setup(zt_cpu_call *call)
{
    sizes s = sizes_of(call);
    int64_t b = s.z.b;
    call->n_phases = 3;
    call->items[0] = b * s.z.g * (s.keys / GEMM_WIDE) + b * s.z.h * (s.queries / GEMM_WIDE);
    call->items[1] = call->out[Q].data ? b * s.z.h * blocks_of(s.z.s) : 0;
    call->items[2] = call->out[K].data || call->out[V].data ? b * s.z.g * blocks_of(s.z.t) : 0;
    call->shared_bytes = ((size_t)(b * s.z.g) * (size_t)(s.key_head + s.keys / GEMM_WIDE) +
                          (size_t)(b * s.z.h) * (size_t)(s.query_head + 2 * s.queries / GEMM_WIDE)) *
                         sizeof(float);
    call->local_bytes = (sdpa_left_floats(s.z.d) + sdpa_left_floats(s.z.dv) + 2 * (size_t)SDPA_ROWS * GEMM_STRIDE +
                         (size_t)(SDPA_ROWS * (s.wide + s.wide_v)) + SDPA_TILE + LANES) *
                        sizeof(float);
}

/* ---- panels ---------------------------------------------------------------------------------- */

static int64_t step_of(const zt_sdpa *z, int64_t heads, int64_t cols) { return z->bshd ? heads * cols : cols; }

static void pack_keys(zt_cpu_call *call, const sizes *s, int64_t item)
{
    const zt_sdpa *z = &s->z;
    int64_t panels = s->keys / GEMM_WIDE, head = item / panels, first = item % panels * GEMM_WIDE;
    int64_t last = first + GEMM_WIDE < z->t ? first + GEMM_WIDE : z->t;
    key_panels p = keys_of(call, s, head);
    const float *k = call->in[K].data, *v = call->in[V].data;
    k += zt_sdpa_row(z, head / z->g, head % z->g, 0, z->g, z->t, z->d);
    v += zt_sdpa_row(z, head / z->g, head % z->g, 0, z->g, z->t, z->dv);
    sdpa_pack_turned(k, step_of(z, z->g, z->d), first, z->t, z->d, p.k_turned + first * z->d);
    sdpa_pack_turned(v, step_of(z, z->g, z->dv), first, z->t, z->dv, p.v_turned + first * z->dv);
    sdpa_pack(k, step_of(z, z->g, z->d), first, last, z->t, z->d, p.k);
    const int64_t step = step_of(z, z->g, z->d);
    wild_keys(call, s, head)[first / GEMM_WIDE] = sdpa_wildness(k + first * step, step, last - first, z->d);
}

/* A row whose lse is -inf saw nothing: with +inf its weights are exp(-inf). */
static void pack_queries(zt_cpu_call *call, const sizes *s, int64_t item)
{
    const zt_sdpa *z = &s->z;
    int64_t panels = s->queries / GEMM_WIDE, head = item / panels;
    int64_t first = item % panels * GEMM_WIDE;
    int64_t last = first + GEMM_WIDE < z->s ? first + GEMM_WIDE : z->s;
    query_panels p = queries_of(call, s, head);
    const float *q = call->in[Q].data, *dy = call->in[DY].data;
    const float *lse = call->in[LSE].data, *delta = call->in[DELTA].data;
    q += zt_sdpa_row(z, head / z->h, head % z->h, 0, z->h, z->s, z->d);
    dy += zt_sdpa_row(z, head / z->h, head % z->h, 0, z->h, z->s, z->dv);
    sdpa_pack_turned(q, step_of(z, z->h, z->d), first, z->s, z->d, p.q_turned + first * z->d);
    sdpa_pack_turned(dy, step_of(z, z->h, z->dv), first, z->s, z->dv, p.dy_turned + first * z->dv);
    sdpa_pack(q, step_of(z, z->h, z->d), first, last, z->s, z->d, p.q);
    sdpa_pack(dy, step_of(z, z->h, z->dv), first, last, z->s, z->dv, p.dy);
    const int64_t step = step_of(z, z->h, z->d), step_v = step_of(z, z->h, z->dv);
    wild_queries(call, s, head, false)[first / GEMM_WIDE] = sdpa_wildness(q + first * step, step, last - first, z->d);
    wild_queries(call, s, head, true)[first / GEMM_WIDE] = sdpa_wildness(dy + first * step_v, step_v, last - first, z->dv);
    for (int64_t i = first; i < first + GEMM_WIDE; i++) {
        float x = i < z->s ? lse[head * z->s + i] : INFINITY;
        p.lse[i] = x == -INFINITY ? INFINITY : x;
        p.delta[i] = i < z->s ? delta[head * z->s + i] : 0;
    }
}

/* ---- a block --------------------------------------------------------------------------------- */

typedef struct scratch {
    float *left, *left_v;   /* q and dy, or k and v */
    float *weight, *dscore; /* [rows] GEMM_STRIDE apart */
    float *acc, *acc_v;     /* [rows][wide], [rows][wide_v] */
    float *bias;
} scratch;

static scratch scratch_at(const sizes *s, float *local)
{
    scratch u = {.left = local};
    u.left_v = u.left + sdpa_left_floats(s->z.d);
    u.weight = u.left_v + sdpa_left_floats(s->z.dv);
    u.dscore = u.weight + SDPA_ROWS * GEMM_STRIDE;
    u.acc = u.dscore + SDPA_ROWS * GEMM_STRIDE;
    u.acc_v = u.acc + SDPA_ROWS * s->wide;
    u.bias = u.acc_v + SDPA_ROWS * s->wide_v;
    memset(u.acc, 0, (size_t)(SDPA_ROWS * (s->wide + s->wide_v)) * sizeof *u.acc);
    return u;
}

/* Row r's scores become weights, and what is in dscore, dy.v, becomes the gradient of the scores
 * before scale: 0 where nothing is seen, of a wild tile -0. lse and delta are of the row, or
 * (`across`) of the columns. */
INLINE void weigh(bool across, const sdpa_block *b, const scratch *u, int r, int64_t tile, int width, const float *lse,
                  const float *delta, bool wild)
{
    sdpa_span s = sdpa_seen_of(b, r, tile);
    float *y = u->weight + r * GEMM_STRIDE, *ds = u->dscore + r * GEMM_STRIDE;
    const bool capped = b->a->softcap > 0;
    const vf none = vf_set(wild ? -0.0f : 0), cap = vf_set((float)b->a->softcap);
    const vf scale = vf_set((float)zt_sdpa_scale(b->a, &b->z));
    int begin = s.first / LANES * LANES, end = s.first;
    if (b->mask->data) sdpa_bias(b, r, tile, s, u->bias);
    for (int j = begin; j < s.last; j += LANES, end = j) {
        vf l = across ? vf_load(lse + tile + j) : vf_set(lse[b->row + r]);
        vf d = across ? vf_load(delta + tile + j) : vf_set(delta[b->row + r]);
        vf x = vf_load(y + j), by = scale;
        if (capped) {
            vf t = vf_tanh(vf_div(x, cap));
            x = vf_mul(cap, t);
            by = vf_mul(by, vf_sub(vf_set(1), vf_mul(t, t)));
        }
        if (b->mask->data) x = vf_add(x, vf_load(u->bias + j));
        vf p = vf_exp(vf_sub(x, l));
        vf g = vf_mul(vf_mul(p, vf_sub(vf_load(ds + j), d)), by);
        if (b->mask->data) { /* hidden whatever it is */
            vm hidden = vf_eq(vf_load(u->bias + j), vf_set(-INFINITY));
            p = vf_select(hidden, none, p);
            g = vf_select(hidden, none, g);
        }
        if (j < s.first || j + LANES > s.last) {
            p = vf_first(s.first - j, none, vf_first(s.last - j, p, none));
            g = vf_first(s.first - j, none, vf_first(s.last - j, g, none));
        }
        vf_store(y + j, p);
        vf_store(ds + j, g);
    }
    sdpa_rest(y, s.first < s.last ? begin : 0, s.first < s.last ? end : 0, width, wild);
    sdpa_rest(ds, s.first < s.last ? begin : 0, s.first < s.last ? end : 0, width, wild);
}

static void write_rows(const float *acc, int64_t wide, int rows, int64_t cols, float *to, int64_t step)
{
    for (int r = 0; r < rows; r++)
        for (int64_t d = 0; d < cols; d += LANES)
            vf_store_n(to + r * step + d, cols - d < LANES ? (int)(cols - d) : LANES, vf_load(acc + r * wide + d));
}

static void add(const sdpa_block *b, const float *weights, const float *panels, int64_t n, int64_t tile, float *acc, int64_t wide,
                bool wild)
{
    if (wild)
        sdpa_add_seen(b, weights, panels, n, tile, acc, wide);
    else
        sdpa_add(b, weights, panels, n, tile, acc, wide);
}

static int tile_width(const sdpa_block *b, int64_t tile)
{
    return b->last - tile < SDPA_TILE ? (int)(b->last - tile) : SDPA_TILE;
}

/* dq of a block of queries. */
static void query_block(zt_cpu_call *call, int64_t item, float *local)
{
    sizes s = sizes_of(call);
    const zt_sdpa *z = &s.z;
    int64_t heads = z->b * z->h, head = item % heads;
    int64_t row = (blocks_of(z->s) - 1 - item / heads) * SDPA_ROWS;
    sdpa_block b = sdpa_begin(call, z, head / z->h, head % z->h, row, &call->in[MASK], &call->in[LEN]);
    scratch u = scratch_at(&s, local);
    const int64_t key_head = b.batch * z->g + b.head / (z->h / z->g);
    const float *wild_k = wild_keys(call, &s, key_head);
    key_panels p = keys_of(call, &s, key_head);
    query_panels of = queries_of(call, &s, head);
    const float *q = call->in[Q].data, *dy = call->in[DY].data;
    int64_t q_at = zt_sdpa_row(z, b.batch, b.head, row, z->h, z->s, z->d);
    int64_t y_at = zt_sdpa_row(z, b.batch, b.head, row, z->h, z->s, z->dv);
    sdpa_left(q + q_at, step_of(z, z->h, z->d), b.rows, z->d, (float)zt_sdpa_scale(b.a, z), SDPA_ROWS, u.left);
    sdpa_left(dy + y_at, step_of(z, z->h, z->dv), b.rows, z->dv, 1, SDPA_ROWS, u.left_v);
    for (int64_t tile = b.first / SDPA_TILE * SDPA_TILE; tile < b.last; tile += SDPA_TILE) {
        sdpa_scores(&b, u.left, p.k_turned, tile, z->d, u.weight);
        sdpa_scores(&b, u.left_v, p.v_turned, tile, z->dv, u.dscore);
        bool wild = sdpa_wild(wild_k, tile, z->t);
        for (int r = 0; r < b.rows; r++) weigh(false, &b, &u, r, tile, tile_width(&b, tile), of.lse, of.delta, wild);
        add(&b, u.dscore, p.k, z->t, tile, u.acc, s.wide, wild);
    }
    write_rows(u.acc, s.wide, b.rows, z->d, (float *)call->out[Q].data + q_at, step_of(z, z->h, z->d));
}

/* The queries lo..hi-1 that see key j of n: zt_sdpa_seen the other way round. */
static zt_sdpa_span seen_by(const zt_sdpa_attrs *sdpa, const zt_sdpa *z, int64_t n, int64_t j)
{
    int64_t ahead = j - sdpa->offset - (strcmp(sdpa->align.s, "end") ? 0 : n - z->s);
    int64_t right = sdpa->causal ? 0 : sdpa->right;
    zt_sdpa_span span = {0, z->s};
    if (right >= 0 && ahead - right > 0) span.lo = ahead - right;
    if (sdpa->left >= 0 && ahead + sdpa->left + 1 < z->s) span.hi = ahead + sdpa->left + 1;
    if (j >= n || span.lo > z->s) span.lo = z->s;
    if (span.hi < 0) span.hi = 0;
    if (j >= n) span.hi = z->s;
    if (span.lo > span.hi) span.lo = span.hi;
    return span;
}

/* The block of keys from `key` on, as rows, with the queries of a head as columns. */
static sdpa_block begin_keys(zt_cpu_call *call, const zt_sdpa *z, int64_t batch, int64_t head, int64_t key)
{
    sdpa_block b = {.c = call, .a = call->attrs, .z = *z, .batch = batch, .head = head, .row = key};
    int64_t n = sdpa_keys(call, &call->in[LEN], z, batch), stride[4];
    b.rows = z->t - key < SDPA_ROWS ? (int)(z->t - key) : SDPA_ROWS;
    for (int r = 0; r < b.rows; r++) {
        zt_sdpa_span seen = seen_by(b.a, z, n, key + r);
        b.lo[r] = seen.lo;
        b.hi[r] = seen.hi;
    }
    b.first = b.lo[0];
    b.last = b.hi[b.rows - 1];
    b.mask = &call->in[MASK];
    sdpa_mask_strides(b.mask, stride);
    b.mask_at = batch * stride[0] + head * stride[1] + key * stride[3];
    b.mask_row = stride[3];
    b.mask_col = stride[2];
    return b;
}

/* What one query head adds to dk and dv. */
static void add_head(const sdpa_block *b, const sizes *s, const scratch *u)
{
    const zt_sdpa *z = &s->z;
    const int64_t head = b->batch * z->h + b->head;
    const float *wild_q = wild_queries(b->c, s, head, false);
    const float *wild_dy = wild_queries(b->c, s, head, true);
    query_panels p = queries_of(b->c, s, head);
    for (int64_t tile = b->first / SDPA_TILE * SDPA_TILE; tile < b->last; tile += SDPA_TILE) {
        sdpa_scores(b, u->left, p.q_turned, tile, z->d, u->weight);
        sdpa_scores(b, u->left_v, p.dy_turned, tile, z->dv, u->dscore);
        bool wild = sdpa_wild(wild_q, tile, z->s) || sdpa_wild(wild_dy, tile, z->s);
        for (int r = 0; r < b->rows; r++) weigh(true, b, u, r, tile, tile_width(b, tile), p.lse, p.delta, wild);
        add(b, u->dscore, p.q, z->s, tile, u->acc, s->wide, wild);
        add(b, u->weight, p.dy, z->s, tile, u->acc_v, s->wide_v, wild);
    }
}

/* dk and dv of a block of keys. */
static void key_block(zt_cpu_call *call, int64_t item, float *local)
{
    sizes s = sizes_of(call);
    const zt_sdpa *z = &s.z;
    int64_t batch = item % (z->b * z->g) / z->g, g = item % z->g;
    int64_t key = item / (z->b * z->g) * SDPA_ROWS, share = z->h / z->g;
    scratch u = scratch_at(&s, local);
    const float *k = call->in[K].data, *v = call->in[V].data;
    float *dk = call->out[K].data, *dv = call->out[V].data;
    int64_t k_at = zt_sdpa_row(z, batch, g, key, z->g, z->t, z->d);
    int64_t v_at = zt_sdpa_row(z, batch, g, key, z->g, z->t, z->dv);
    int rows = z->t - key < SDPA_ROWS ? (int)(z->t - key) : SDPA_ROWS;
    sdpa_left(k + k_at, step_of(z, z->g, z->d), rows, z->d, (float)zt_sdpa_scale(call->attrs, z), SDPA_ROWS, u.left);
    sdpa_left(v + v_at, step_of(z, z->g, z->dv), rows, z->dv, 1, SDPA_ROWS, u.left_v);
    for (int64_t h = g * share; h < (g + 1) * share; h++) {
        sdpa_block b = begin_keys(call, z, batch, h, key);
        add_head(&b, &s, &u);
    }
    if (dk) write_rows(u.acc, s.wide, rows, z->d, dk + k_at, step_of(z, z->g, z->d));
    if (dv) write_rows(u.acc_v, s.wide_v, rows, z->dv, dv + v_at, step_of(z, z->g, z->dv));
}

static void sdpa_grad_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    sizes s = sizes_of(call);
    int64_t of_keys = s.z.b * s.z.g * (s.keys / GEMM_WIDE);
    for (int64_t item = begin; item < end; item++) {
        if (phase == 1)
            query_block(call, item, local);
        else if (phase == 2)
            key_block(call, item, local);
        else if (item < of_keys)
            pack_keys(call, &s, item);
        else
            pack_queries(call, &s, item - of_keys);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_sdpa_grad)[] = {
    {.op = ZT_OP_sdpa_grad, .has = sdpa_grad_has, .setup = sdpa_grad_setup, .run = sdpa_grad_run},
    {0},
};
