/* fused.c - kernels of rows of several ops in one, in f32: norms beside a sum, turns by tables,
 * norms with turns, softmax of what is scaled. */
#include "lib/engine/cpu/isa/norm.h"

static bool fused_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32;
}

static int64_t cols_of(const zt_type *t) { return t->rank ? t->dim[t->rank - 1] : 1; }

static int64_t rows_of(const zt_type *t)
{
    int64_t rows = 1;
    for (int d = 0; d + 1 < t->rank; d++) rows *= t->dim[d];
    return rows;
}

/* One row an item. */
static void rows_setup(zt_cpu_call *c) { c->items[0] = rows_of(&c->in[0].type); }

/* ---- norms beside a sum ---------------------------------------------------------------------- */

/* y = a + b, and of y what rstd_of gives. */
INLINE float add_to(const float *a, const float *b, float *y, int64_t K, double eps)
{
    vf sum = vf_set(0);
    int64_t i = 0;
    for (; i + LANES <= K; i += LANES) {
        vf v = vf_add(vf_load(a + i), vf_load(b + i));
        vf_store(y + i, v);
        sum = vf_fma(v, v, sum);
    }
    int rest = (int)(K - i);
    if (rest) {
        vf v = vf_add(vf_load_n(a + i, rest), vf_load_n(b + i, rest));
        vf_store_n(y + i, rest, v);
        sum = vf_fma(v, v, sum);
    }
    return rstd_from(sum, K, eps);
}

/* The sum goes where it is wanted, else to scratch. */
static void add_rms_norm_setup(zt_cpu_call *c)
{
    rows_setup(c);
    c->local_bytes = (size_t)cols_of(&c->in[0].type) * sizeof(float);
}

static void add_rms_norm_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_add_rms_norm_attrs *a = c->attrs;
    const float *x = c->in[0].data, *residual = c->in[1].data, *g = c->in[2].data;
    float *y = c->out[0].data, *sums = c->out[1].data, *rstds = c->out[2].data;
    int64_t K = cols_of(&c->in[0].type);
    (void)phase;
    for (int64_t r = begin; r < end; r++) {
        float *sum = sums ? sums + r * K : local;
        float rstd = add_to(x + r * K, residual + r * K, sum, K, a->eps);
        if (y) norm_group(sum, g, y + r * K, K, rstd, false);
        if (rstds) rstds[r] = rstd;
    }
}

static void norm_add_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_norm_add_attrs *a = c->attrs;
    const float *x = c->in[0].data, *g = c->in[1].data, *residual = c->in[2].data;
    float *y = c->out[0].data;
    int64_t K = cols_of(&c->in[0].type);
    (void)phase, (void)local;
    for (int64_t r = begin; r < end; r++) {
        vf rstd = vf_set(rstd_of(x + r * K, K, a->eps));
        for (int64_t i = 0; i < K; i += LANES) {
            int n = K - i < LANES ? (int)(K - i) : LANES;
            vf v = vf_mul(vf_mul(vf_load_n(x + r * K + i, n), rstd), vf_load_n(g + i, n));
            vf_store_n(y + r * K + i, n, vf_add(v, vf_load_n(residual + r * K + i, n)));
        }
    }
}

/* ---- turns by tables ------------------------------------------------------------------------- */

/* near and far of turn_neighbours, from a row of cos and sin. */
static void spread_table(const float *c, const float *s, int64_t half, float *near, float *far)
{
    for (int64_t i = 0; i < half; i++) {
        near[2 * i] = near[2 * i + 1] = c[i];
        far[2 * i] = -s[i];
        far[2 * i + 1] = s[i];
    }
}

/* x and y may be one. */
INLINE void turn_halves_by(const float *x, float *y, int64_t half, const float *c, const float *s)
{
    for (int64_t i = 0; i < half; i += LANES) {
        int n = half - i < LANES ? (int)(half - i) : LANES;
        vf a = vf_load_n(x + i, n), b = vf_load_n(x + half + i, n);
        vf k = vf_load_n(c + i, n), l = vf_load_n(s + i, n);
        vf_store_n(y + i, n, vf_sub(vf_mul(a, k), vf_mul(b, l)));
        vf_store_n(y + half + i, n, vf_fma(a, l, vf_mul(b, k)));
    }
}

/* x's first 2 half columns turned; scratch holds 4 half floats, made by spread_table before where
 * pairs are neighbours. */
INLINE void turn(const float *x, float *y, int64_t half, const float *c, const float *s,
                 const float *scratch)
{
    if (scratch)
        turn_neighbours(x, y, 2 * half, scratch, scratch + 2 * half);
    else
        turn_halves_by(x, y, half, c, s);
}

static void rope_table_setup(zt_cpu_call *c)
{
    rows_setup(c);
    c->aux[0] = !strcmp(((const zt_rope_table_attrs *)c->attrs)->pair.s, "neighbours");
    c->local_bytes = (size_t)(4 * cols_of(&c->in[1].type)) * sizeof(float);
}

static void rope_table_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t K = cols_of(&c->in[0].type), seq = c->in[1].type.dim[0], half = c->in[1].type.dim[1];
    float *scratch = c->aux[0] ? local : NULL;
    (void)phase;
    for (int64_t r = begin; r < end; r++) {
        const float *x = (const float *)c->in[0].data + r * K;
        const float *cs = (const float *)c->in[1].data + r % seq * half;
        const float *sn = (const float *)c->in[2].data + r % seq * half;
        float *y = (float *)c->out[0].data + r * K;
        if (scratch) spread_table(cs, sn, half, scratch, scratch + 2 * half);
        turn(x, y, half, cs, sn, scratch);
        memmove(y + 2 * half, x + 2 * half, (size_t)(K - 2 * half) * sizeof *y);
    }
}

/* ---- norms with turns: one row of tables and all its heads an item --------------------------- */

static void qk_norm_rope_setup(zt_cpu_call *c)
{
    c->items[0] = rows_of(&c->in[3].type);
    c->aux[0] = !strcmp(((const zt_qk_norm_rope_attrs *)c->attrs)->pair.s, "neighbours");
    c->local_bytes = (size_t)(4 * cols_of(&c->in[3].type)) * sizeof(float);
}

static void qk_norm_rope_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_qk_norm_rope_attrs *a = c->attrs;
    const zt_type *t = &c->in[0].type;
    int64_t H = t->dim[t->rank - 2], D = t->dim[t->rank - 1], half = cols_of(&c->in[3].type);
    float *scratch = c->aux[0] ? local : NULL;
    (void)phase;
    for (int64_t i = begin; i < end; i++) {
        const float *cs = (const float *)c->in[3].data + i * half;
        const float *sn = (const float *)c->in[4].data + i * half;
        if (scratch) spread_table(cs, sn, half, scratch, scratch + 2 * half);
        for (int64_t h = 0; h < H; h++) {
            const float *x = (const float *)c->in[0].data + (i * H + h) * D;
            const float *w = c->in[h < a->q_heads ? 1 : 2].data;
            float *y = (float *)c->out[0].data + (i * H + h) * D;
            norm_group(x, w, y, D, rstd_of(x, D, a->eps), false);
            turn(y, y, half, cs, sn, scratch);
        }
    }
}

/* ---- softmax of what is scaled: LANES neighbours of the inner dimension an item, or a line ----
 */

enum { CHUNK = 1024 }; /* a sum in f32 is at most so long; those are added up in f64 */

enum { AUX_N, AUX_INNER, AUX_STRIPS };

static void scaled_softmax_setup(zt_cpu_call *c)
{
    const zt_scaled_softmax_attrs *a = c->attrs;
    const zt_type *t = &c->in[0].type;
    int at = (int)(a->axis < 0 ? a->axis + t->rank : a->axis);
    int64_t inner = 1, outer = 1;
    for (int d = 0; d < at; d++) outer *= t->dim[d];
    for (int d = at + 1; d < t->rank; d++) inner *= t->dim[d];
    c->aux[AUX_N] = t->dim[at];
    c->aux[AUX_INNER] = inner;
    c->aux[AUX_STRIPS] = inner == 1 ? 1 : (inner + LANES - 1) / LANES;
    c->items[0] = t->dim[at] ? outer * c->aux[AUX_STRIPS] : 0;
}

static void softmax_line(const float *x, float *y, int64_t n, vf scale)
{
    vf most = vf_set(-INFINITY);
    double total = 0;
    for (int64_t i = 0; i < n; i += LANES) {
        int some = n - i < LANES ? (int)(n - i) : LANES;
        most = vf_max(vf_first(some, vf_mul(vf_load_n(x + i, some), scale), most), most);
    }
    const vf top = vf_set(vf_top(most));
    for (int64_t from = 0; from < n; from += CHUNK) {
        vf sum = vf_set(0);
        for (int64_t i = from; i < n && i < from + CHUNK; i += LANES) {
            int some = n - i < LANES ? (int)(n - i) : LANES;
            vf e = vf_exp(vf_sub(vf_mul(vf_load_n(x + i, some), scale), top));
            vf_store_n(y + i, some, e);
            sum = vf_add(sum, vf_first(some, e, vf_set(0)));
        }
        total += (double)vf_sum(sum);
    }
    const vf by = vf_set((float)total);
    for (int64_t i = 0; i < n; i += LANES) {
        int some = n - i < LANES ? (int)(n - i) : LANES;
        vf_store_n(y + i, some, vf_div(vf_load_n(y + i, some), by));
    }
}

/* Some lines side by side, `step` floats from entry to entry. Sums of chunks are added in f32: each
 * is a lane's own. */
static void softmax_lines(const float *x, float *y, int64_t n, int64_t step, int some, vf scale)
{
    vf top = vf_set(-INFINITY), total = vf_set(0);
    for (int64_t i = 0; i < n; i++) top = vf_max(vf_mul(vf_load_n(x + i * step, some), scale), top);
    for (int64_t from = 0; from < n; from += CHUNK) {
        vf sum = vf_set(0);
        for (int64_t i = from; i < n && i < from + CHUNK; i++) {
            vf e = vf_exp(vf_sub(vf_mul(vf_load_n(x + i * step, some), scale), top));
            vf_store_n(y + i * step, some, e);
            sum = vf_add(sum, e);
        }
        total = vf_add(total, sum);
    }
    for (int64_t i = 0; i < n; i++)
        vf_store_n(y + i * step, some, vf_div(vf_load_n(y + i * step, some), total));
}

static void scaled_softmax_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_scaled_softmax_attrs *a = c->attrs;
    int64_t n = c->aux[AUX_N], inner = c->aux[AUX_INNER], strips = c->aux[AUX_STRIPS];
    const vf scale = vf_set((float)a->scale);
    (void)phase, (void)local;
    for (int64_t item = begin; item < end; item++) {
        int64_t first = item % strips * LANES, at = item / strips * n * inner + first;
        const float *x = (const float *)c->in[0].data + at;
        float *y = (float *)c->out[0].data + at;
        if (inner == 1)
            softmax_line(x, y, n, scale);
        else
            softmax_lines(x, y, n, inner, inner - first < LANES ? (int)(inner - first) : LANES,
                          scale);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_fused)[] = {
    {.op = ZT_OP_add_rms_norm,
     .has = fused_has,
     .setup = add_rms_norm_setup,
     .run = add_rms_norm_run},
    {.op = ZT_OP_norm_add, .has = fused_has, .setup = rows_setup, .run = norm_add_run},
    {.op = ZT_OP_rope_table, .has = fused_has, .setup = rope_table_setup, .run = rope_table_run},
    {.op = ZT_OP_qk_norm_rope,
     .has = fused_has,
     .setup = qk_norm_rope_setup,
     .run = qk_norm_rope_run},
    {.op = ZT_OP_scaled_softmax,
     .has = fused_has,
     .setup = scaled_softmax_setup,
     .run = scaled_softmax_run},
    {0},
};
