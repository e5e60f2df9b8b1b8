/* norm.c - kernels of normalisation and of rotary positions. */
#include "lib/engine/cpu/isa/norm.h"
#include "lib/ops/rope.h"

/* ---- rms_norm: one group of columns an item -------------------------------------------------- */

static bool norm_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32;
}

/* A row is written from the caches, past them if the output is large, with nothing else read
 * meanwhile: to prefetch the next row then, or to sum it up, takes longer. */
static void norm_setup(zt_cpu_call *c)
{
    c->items[0] = zt_type_count(&c->out[1].type); /* rows */
    c->aux[0] = beyond_caches(&c->out[0].type);
}

static void rms_norm_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_rms_norm_attrs *a = c->attrs;
    const float *x = c->in[0].data, *g = c->in[1].data;
    float *y = c->out[0].data, *out = c->out[1].data;
    int64_t K = c->in[1].type.dim[0];
    (void)phase, (void)local;
    for (int64_t i = begin; i < end; i++) {
        float rstd = rstd_of(x + i * K, K, a->eps);
        if (y && c->aux[0] && on_line(y + i * K))
            norm_group(x + i * K, g, y + i * K, K, rstd, true);
        else if (y)
            norm_group(x + i * K, g, y + i * K, K, rstd, false);
        if (out) out[i] = rstd;
    }
}

/* ---- layer_norm: one row an item ------------------------------------------------------------- */

/* Sums of 64 lanes in f32, of K / 64 values each: of x - from, or of its squares. While it goes
 * over the row again the next one comes from memory. */
INLINE float sum_around(const float *x, int64_t K, float from, bool square)
{
    vf zero = vf_set(0), sum[4] = {zero, zero, zero, zero}, middle = vf_set(from);
    int64_t i = 0;
    for (; i + 4 * LANES <= K; i += 4 * LANES)
        UNROLL for (int j = 0; j < 4; j++)
        {
            vf v = vf_sub(vf_load(x + i + j * LANES), middle);
            if (square) __builtin_prefetch(x + K + i + j * LANES, 0, 2);
            sum[j] = square ? vf_fma(v, v, sum[j]) : vf_add(sum[j], v);
        }
    for (; i < K; i += LANES) {
        int n = K - i < LANES ? (int)(K - i) : LANES;
        vf v = vf_first(n, vf_sub(vf_load_n(x + i, n), middle), zero);
        sum[0] = square ? vf_fma(v, v, sum[0]) : vf_add(sum[0], v);
    }
    return vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
}

/* (x - m) r g + b; g and b NULL: 1 and 0. */
INLINE vf normed(vf x, vf m, vf r, const float *g, const float *b, int n)
{
    vf v = vf_mul(vf_sub(x, m), r);
    if (g) v = vf_mul(v, n >= LANES ? vf_load(g) : vf_load_n(g, n));
    return b ? vf_add(v, n >= LANES ? vf_load(b) : vf_load_n(b, n)) : v;
}

INLINE void norm_row(const float *x, const float *g, const float *b, float *y, int64_t K,
                     float mean, float rstd, bool past)
{
    vf m = vf_set(mean), r = vf_set(rstd);
    int64_t i = 0;
    for (; i + LANES <= K; i += LANES)
        vf_put(y + i, normed(vf_load(x + i), m, r, g ? g + i : NULL, b ? b + i : NULL, LANES),
               past);
    int n = (int)(K - i);
    if (n)
        vf_store_n(y + i, n,
                   normed(vf_load_n(x + i, n), m, r, g ? g + i : NULL, b ? b + i : NULL, n));
}

static void layer_norm_row(const float *x, const float *g, const float *b, float *y, int64_t K,
                           float mean, float rstd, bool past)
{
    if (past && g && b) /* known here, so that the loop holds nothing else */
        norm_row(x, g, b, y, K, mean, rstd, true);
    else
        norm_row(x, g, b, y, K, mean, rstd, past);
}

static void layer_norm_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_layer_norm_attrs *a = c->attrs;
    const zt_type *t = &c->in[0].type;
    const float *x = c->in[0].data;
    float *y = c->out[0].data, *means = c->out[1].data, *rstds = c->out[2].data;
    int64_t K = t->dim[t->rank - 1];
    (void)phase, (void)local;
    for (int64_t i = begin; i < end; i++) {
        const float *row = x + i * K;
        float mean = K ? (float)((double)sum_around(row, K, 0, false) / (double)K) : 0;
        double square = K ? (double)sum_around(row, K, mean, true) / (double)K : 0;
        float rstd = (float)(1 / sqrt(square + a->eps));
        if (y)
            layer_norm_row(row, c->in[1].data, c->in[2].data, y + i * K, K, mean, rstd,
                           c->aux[0] && on_line(y + i * K));
        if (means) means[i] = mean;
        if (rstds) rstds[i] = rstd;
    }
}

/* ---- rope: one row an item ------------------------------------------------------------------- */

/* Every head of a row turns by the same angles, so a row first makes a table of
 *
 *   near[j], far[j] with y[j] = x[j] near[j] + partner[j] far[j]
 *
 * for the `dims` columns of a head: the cosine, and the sine with its sign, times the amplitude.
 * What an angle is in quarter turns a position is kept from prime on; their whole part and the rest
 * are taken in f64, where positions up to 2^31 lose nothing that counts; sine and cosine of the
 * rest then in f32. */
enum { AUX_HEAD, AUX_DIMS, AUX_NEIGHBOURS };

static int64_t up16(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

static void rope_setup(zt_cpu_call *c)
{
    const zt_rope_attrs *a = c->attrs;
    const zt_type *x = &c->in[0].type;
    int64_t head = a->head ? a->head : a->dims ? a->dims : x->dim[x->rank - 1];
    int64_t dims = a->dims ? a->dims : head;
    c->items[0] = zt_type_count(x) ? x->dim[0] : 0;
    c->aux[AUX_HEAD] = head;
    c->aux[AUX_DIMS] = dims;
    c->aux[AUX_NEIGHBOURS] = !strcmp(a->pair.s, "neighbours");
    c->keep_bytes = (size_t)(dims / 2) * sizeof(double);
    c->local_bytes = (size_t)(2 * dims + 3 * up16(dims / 2)) * sizeof(float);
}

/* `extend` of the angle is unscaled up to pair `low`, and less and less of it up to `high`. */
static void rope_prime(zt_cpu_call *c)
{
    const zt_rope_attrs *a = c->attrs;
    double *quarters = c->keep, dims = (double)c->aux[AUX_DIMS];
    for (int64_t i = 0; i < c->aux[AUX_DIMS] / 2; i++)
        quarters[i] = zt_rope_scale(a, i) * pow(a->theta, -2 * (double)i / dims) / M_PI_2;
}

/* Quarter turns to radians within an eighth of a turn, and whole quarters modulo 4. Adding 1.5 2^52
 * rounds to a whole number, which is then in the lowest bits. */
static void split_angles(double pos, const double *quarters, const float *tab, int64_t n,
                         float *radians, int32_t *whole)
{
    const double magic = 6755399441055744.0;
    for (int64_t i = 0; i < n; i++) {
        double q = pos * quarters[i];
        if (tab) q /= (double)tab[i];
        double t = q + magic;
        uint64_t bits;
        memcpy(&bits, &t, sizeof bits);
        whole[i] = (int32_t)(bits & 3);
        radians[i] = (float)((q - (t - magic)) * M_PI_2);
    }
}

/* Taylor for |x| <= pi / 4: what is left out is below 2e-9. */
INLINE void sine_cosine(vf x, vi quarter, vf *sine, vf *cosine)
{
    const vf one = vf_set(1), zero = vf_set(0);
    vf z = vf_mul(x, x);
    vf s = vf_fma(z, vf_set(1 / 362880.0f), vf_set(-1 / 5040.0f));
    s = vf_fma(vf_fma(s, z, vf_set(1 / 120.0f)), z, vf_set(-1 / 6.0f));
    s = vf_fma(vf_mul(s, z), x, x);
    vf k = vf_fma(z, vf_set(-1 / 3628800.0f), vf_set(1 / 40320.0f));
    k = vf_fma(vf_fma(k, z, vf_set(-1 / 720.0f)), z, vf_set(1 / 24.0f));
    k = vf_fma(vf_fma(k, z, vf_set(-0.5f)), z, one);
    vf odd = vf_of_bits(vi_left(quarter, 31)); /* an odd quarter has its sign set */
    vf a = vf_choose(odd, k, s), b = vf_choose(odd, s, k);
    vf lower = vf_of_bits(vi_left(quarter, 30));                   /* quarters 2 and 3 */
    vf left = vf_of_bits(vi_left(vi_add(quarter, vi_set(1)), 30)); /* 1 and 2 */
    *sine = vf_choose(lower, vf_sub(zero, a), a);
    *cosine = vf_choose(left, vf_sub(zero, b), b);
}

/* The row's table, with room for whole registers; its scratch is 3 up16(half) floats. */
static void turn_table(const zt_cpu_call *c, double pos, float *near, float *far, float *scratch)
{
    int64_t half = c->aux[AUX_DIMS] / 2, step = up16(half);
    float *radians = scratch, *sine = scratch + step, *cosine = scratch; /* radians, then cosine */
    int32_t *whole = (int32_t *)(scratch + 2 * step);
    bool neighbours = c->aux[AUX_NEIGHBOURS];
    const vf amplitude = vf_set((float)((const zt_rope_attrs *)c->attrs)->amplitude);
    split_angles(pos, c->keep, c->in[2].data, half, radians, whole);
    for (int64_t i = 0; i < half; i += LANES) {
        vf s, k;
        sine_cosine(vf_load(radians + i), vi_load(whole + i), &s, &k);
        vf_store(sine + i, vf_mul(s, amplitude));
        vf_store(cosine + i, vf_mul(k, amplitude));
    }
    for (int64_t i = 0; i < half; i++) {
        int64_t j = neighbours ? 2 * i : i, k = neighbours ? 2 * i + 1 : i + half;
        near[j] = near[k] = cosine[i];
        far[j] = -sine[i];
        far[k] = sine[i];
    }
}

static void turn_halves(const float *x, float *y, int64_t half, const float *near, const float *far)
{
    for (int64_t i = 0; i < half; i += LANES) {
        int n = half - i < LANES ? (int)(half - i) : LANES;
        vf a = vf_load_n(x + i, n), b = vf_load_n(x + half + i, n);
        vf k = vf_load_n(near + i, n);
        vf_store_n(y + i, n, turned(a, b, k, vf_load_n(far + i, n)));
        vf_store_n(y + half + i, n, turned(b, a, k, vf_load_n(far + half + i, n)));
    }
}

static void rope_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t head = c->aux[AUX_HEAD], dims = c->aux[AUX_DIMS];
    int64_t cols = zt_type_count(&c->in[0].type) / c->in[0].type.dim[0];
    const int32_t *pos = c->in[1].data;
    float *near = local, *far = near + dims, *scratch = far + dims;
    (void)phase;
    for (int64_t r = begin; r < end; r++) {
        turn_table(c, (double)pos[r], near, far, scratch);
        const float *x = (const float *)c->in[0].data + r * cols;
        float *y = (float *)c->out[0].data + r * cols;
        for (int64_t h = 0; h < cols; h += head) {
            if (c->aux[AUX_NEIGHBOURS])
                turn_neighbours(x + h, y + h, dims, near, far);
            else
                turn_halves(x + h, y + h, dims / 2, near, far);
            if (head > dims) memmove(y + h + dims, x + h + dims, (size_t)(head - dims) * sizeof *y);
        }
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_norm)[] = {
    {.op = ZT_OP_rms_norm, .has = norm_has, .setup = norm_setup, .run = rms_norm_run},
    {.op = ZT_OP_layer_norm, .has = norm_has, .setup = norm_setup, .run = layer_norm_run},
    {.op = ZT_OP_rope, .has = norm_has, .setup = rope_setup, .run = rope_run, .prime = rope_prime},
    {0},
};
