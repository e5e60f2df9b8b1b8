/* sdpa.c - scaled dot-product attention, never all scores at once.
 *
 * Phase 0 puts each key head's keys, turned, and values into panels. In phase 1 an item is a block
 * of queries of one head: it walks the tiles of keys that any of them sees, with the largest score
 * so far, the sum of exp(score - largest) and the sum of values weighted so (Milakov and
 * Gimelshein, "Online normalizer calculation for softmax", 2018; Dao, "FlashAttention-2", 2023).
 * Tiles lie at multiples of SDPA_TILE, and a key that a row does not see adds 0 to its sums, so
 * that a row's bits do not depend on its block. What a row does not see may be infinite or NaN:
 * 0 times that would not be 0, so panels of values with such are marked, and tiles with a marked
 * panel are added up key by key.
 */
#include "lib/engine/cpu/isa/doubles.h"
#include "lib/engine/cpu/isa/sdpa.h"

enum { AUX_PANELS, AUX_BLOCKS, AUX_K_FLOATS, AUX_V_FLOATS };

static zt_sdpa sizes_of(const zt_cpu_call *call)
{
    return zt_sdpa_sizes(call->attrs, &call->in[0].type, &call->in[1].type, &call->in[2].type);
}

static bool sdpa_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return in[0]->dtype == ZT_F32;
}

static void sdpa_setup(zt_cpu_call *call)
{
    zt_sdpa z = sizes_of(call);
    int64_t keys = sdpa_up(z.t, GEMM_WIDE), wide = sdpa_up(z.dv, GEMM_WIDE);
    call->n_phases = 2;
    call->aux[AUX_PANELS] = keys / GEMM_WIDE;
    call->aux[AUX_BLOCKS] = (z.s + SDPA_ROWS - 1) / SDPA_ROWS;
    call->aux[AUX_K_FLOATS] = keys * z.d;
    call->aux[AUX_V_FLOATS] = z.t * wide;
    call->items[0] = z.b * z.g * call->aux[AUX_PANELS];
    call->items[1] = z.b * z.h * call->aux[AUX_BLOCKS];
    size_t room = (size_t)(call->aux[AUX_K_FLOATS] + call->aux[AUX_V_FLOATS] + call->aux[AUX_PANELS]);
    call->shared_bytes = (size_t)(z.b * z.g) * room * sizeof(float);
    call->local_bytes =
        (sdpa_left_floats(z.d) + (size_t)SDPA_ROWS * GEMM_STRIDE + (size_t)(SDPA_ROWS * (wide + 2)) + SDPA_TILE + LANES) *
        sizeof(float);
}

static float *key_panels(const zt_cpu_call *call, int64_t head)
{
    return (float *)call->shared + head * (call->aux[AUX_K_FLOATS] + call->aux[AUX_V_FLOATS]);
}

/* Behind all panels a float for each of values: 0, or NaN where one is infinite or NaN. */
static float *wild_panels(const zt_cpu_call *call, int64_t head)
{
    zt_sdpa z = sizes_of(call);
    return key_panels(call, z.b * z.g) + head * call->aux[AUX_PANELS];
}

static void pack_panel(zt_cpu_call *call, int64_t item)
{
    zt_sdpa z = sizes_of(call);
    int64_t head = item / call->aux[AUX_PANELS], first = item % call->aux[AUX_PANELS] * GEMM_WIDE;
    int64_t batch = head / z.g, g = head % z.g;
    int64_t last = first + GEMM_WIDE < z.t ? first + GEMM_WIDE : z.t;
    const float *k = call->in[1].data, *v = call->in[2].data;
    float *keys = key_panels(call, head);
    k += zt_sdpa_row(&z, batch, g, 0, z.g, z.t, z.d);
    v += zt_sdpa_row(&z, batch, g, 0, z.g, z.t, z.dv);
    sdpa_pack_turned(k, z.bshd ? z.g * z.d : z.d, first, z.t, z.d, keys + first * z.d);
    int64_t step = z.bshd ? z.g * z.dv : z.dv;
    sdpa_pack(v, step, first, last, z.t, z.dv, keys + call->aux[AUX_K_FLOATS]);
    wild_panels(call, head)[first / GEMM_WIDE] = sdpa_wildness(v + first * step, step, last - first, z.dv);
}

/* ---- a block --------------------------------------------------------------------------------- */

typedef struct sums {
    float *q, *score; /* left sides: the queries, and scores that become weights */
    float *acc;       /* [rows][wide]: values times weights */
    float *top, *sum; /* [rows] */
    float *bias;      /* of one row and tile */
    const float *keys, *values, *wild;
    int64_t wide;
} sums;

static sums begin_sums(const sdpa_block *b, float *local)
{
    const zt_sdpa *z = &b->z;
    sums s = {.q = local, .wide = sdpa_up(z->dv, GEMM_WIDE)};
    s.score = s.q + sdpa_left_floats(z->d);
    s.acc = s.score + SDPA_ROWS * GEMM_STRIDE;
    s.top = s.acc + SDPA_ROWS * s.wide;
    s.sum = s.top + SDPA_ROWS;
    s.bias = s.sum + SDPA_ROWS;
    s.keys = key_panels(b->c, b->batch * z->g + b->head / (z->h / z->g));
    s.values = s.keys + b->c->aux[AUX_K_FLOATS];
    s.wild = wild_panels(b->c, b->batch * z->g + b->head / (z->h / z->g));
    for (int r = 0; r < SDPA_ROWS; r++) {
        s.top[r] = -INFINITY;
        s.sum[r] = 0;
    }
    memset(s.acc, 0, (size_t)(SDPA_ROWS * s.wide) * sizeof *s.acc);
    const float *q = b->c->in[0].data;
    sdpa_left(q + zt_sdpa_row(z, b->batch, b->head, b->row, z->h, z->s, z->d), z->bshd ? z->h * z->d : z->d, b->rows, z->d,
              (float)zt_sdpa_scale(b->a, z), SDPA_ROWS, s.q);
    return s;
}

/* Cap, mask, and -inf outside the span, for the registers that it touches; the largest. */
INLINE float finish_scores(const sdpa_block *b, float *y, const float *bias, sdpa_span s)
{
    const vf least = vf_set(-INFINITY), cap = vf_set((float)b->a->softcap);
    vf top = least;
    for (int j = s.first / LANES * LANES; j < s.last; j += LANES) {
        vf x = vf_load(y + j);
        if (b->a->softcap > 0) x = vf_mul(cap, vf_tanh(vf_div(x, cap)));
        if (bias) { /* hidden whatever it is */
            vf more = vf_load(bias + j);
            x = vf_select(vf_eq(more, least), least, vf_add(x, more));
        }
        if (j < s.first || j + LANES > s.last) x = vf_first(s.first - j, least, vf_first(s.last - j, x, least));
        if (bias || b->a->softcap > 0 || j < s.first || j + LANES > s.last) vf_store(y + j, x);
        top = vf_max(x, top);
    }
    return vf_top(top);
}

/* Does a row whose largest score is -inf see nothing, or NaN, which is no number's largest? */
static float top_of_none(const float *y, sdpa_span s)
{
    for (int j = s.first; j < s.last; j++)
        if (isnan(y[j])) return 0;
    return -INFINITY;
}

/* Row r's scores become weights, 0 where nothing is seen, of a wild tile -0; what was summed before
 * is scaled to the new largest score. */
static void weigh(const sdpa_block *b, const sums *u, int r, int64_t tile, int width, bool wild)
{
    sdpa_span s = sdpa_seen_of(b, r, tile);
    float *y = u->score + r * GEMM_STRIDE, *bias = b->mask->data ? u->bias : NULL;
    int begin = s.first / LANES * LANES, end = (s.last + LANES - 1) / LANES * LANES;
    if (bias) sdpa_bias(b, r, tile, s, bias);
    float top = s.first < s.last ? finish_scores(b, y, bias, s) : -INFINITY;
    if (top == -INFINITY && s.first < s.last) top = top_of_none(y, s);
    if (top == -INFINITY) {
        sdpa_rest(y, 0, 0, width, wild);
        return;
    }
    if (top > u->top[r]) {
        vf k = vf_exp(vf_set(u->top[r] - top));
        float *acc = u->acc + r * u->wide;
        for (int64_t d = 0; d < u->wide; d += LANES) vf_store(acc + d, vf_mul(vf_load(acc + d), k));
        u->sum[r] *= vf_top(k);
        u->top[r] = top;
    }
    vf sum = vf_set(0), t = vf_set(u->top[r]);
    for (int j = begin; j < end; j += LANES) {
        vf x = vf_load(y + j), e = vf_exp(vf_sub(x, t));
        if (wild) e = vf_select(vf_eq(x, vf_set(-INFINITY)), vf_set(-0.0f), e);
        vf_store(y + j, e);
        sum = vf_add(sum, e);
    }
    u->sum[r] += vf_sum(sum);
    sdpa_rest(y, begin, end, width, wild);
}

static void write_out(const sdpa_block *b, const sums *u)
{
    const zt_sdpa *z = &b->z;
    float *y = b->c->out[0].data, *lse = b->c->out[1].data;
    for (int r = 0; r < b->rows; r++) {
        bool any = u->top[r] != -INFINITY;
        vf sum = vf_set(any ? u->sum[r] : 1);
        for (int64_t d = 0; y && d < z->dv; d += LANES) {
            int n = z->dv - d < LANES ? (int)(z->dv - d) : LANES;
            float *to = y + zt_sdpa_row(z, b->batch, b->head, b->row + r, z->h, z->s, z->dv) + d;
            vf_store_n(to, n, vf_div(vf_load(u->acc + r * u->wide + d), sum));
        }
        if (lse)
            lse[(b->batch * z->h + b->head) * z->s + b->row + r] =
                any ? (float)((double)u->top[r] + log((double)u->sum[r])) : -INFINITY;
    }
}

/* Blocks from the last on: with causal attention those see most, and threads end together when the
 * last work is short. */
static void attend_block(zt_cpu_call *call, int64_t item, float *local)
{
    zt_sdpa z = sizes_of(call);
    int64_t block = call->aux[AUX_BLOCKS] - 1 - item / (z.b * z.h), head = item % (z.b * z.h);
    sdpa_block b = sdpa_begin(call, &z, head / z.h, head % z.h, block * SDPA_ROWS, &call->in[3], &call->in[4]);
    sums u = begin_sums(&b, local);
    for (int64_t tile = b.first / SDPA_TILE * SDPA_TILE; tile < b.last; tile += SDPA_TILE) {
        int width = b.last - tile < SDPA_TILE ? (int)(b.last - tile) : SDPA_TILE;
        sdpa_scores(&b, u.q, u.keys, tile, z.d, u.score);
        bool wild = sdpa_wild(u.wild, tile, z.t);
        for (int r = 0; r < b.rows; r++) weigh(&b, &u, r, tile, width, wild);
        if (wild)
            sdpa_add_seen(&b, u.score, u.values, z.t, tile, u.acc, u.wide);
        else
            sdpa_add(&b, u.score, u.values, z.t, tile, u.acc, u.wide);
    }
    write_out(&b, &u);
}

static void sdpa_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    for (int64_t item = begin; item < end; item++) {
        if (phase == 0)
            pack_panel(call, item);
        else
            attend_block(call, item, local);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_sdpa)[] = {
    {.op = ZT_OP_sdpa, .has = sdpa_has, .setup = sdpa_setup, .run = sdpa_run},
    {0},
};
