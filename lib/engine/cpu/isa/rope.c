/* rope.c - kernels of rotary positions: from positions, by tables, and after norms of queries and keys; f32. */
#include "lib/engine/cpu/isa/norm.h"
#include "lib/ops/rope.h"

INLINE vf rotated(vf x, vf partner, vf cosines, vf sines) { return vf_fma(x, cosines, vf_mul(partner, sines)); }

/* Pairs of neighbours by tables of both columns: cosines[j] of its own, sines[j] of its partner. */
INLINE void rotate_neighbours(const float *x, float *y, int64_t dims, const float *cosines, const float *sines)
{
    for (int64_t i = 0; i < dims; i += LANES) {
        int n = dims - i < LANES ? (int)(dims - i) : LANES;
        vf a = vf_load_n(x + i, n);
        vf_store_n(y + i, n, rotated(a, vf_swap_pairs(a), vf_load_n(cosines + i, n), vf_load_n(sines + i, n)));
    }
}

/* ---- rope: one row an item ------------------------------------------------------------------- */

/* Every head of a row rotates by the same angles, so a row first makes a table of
 *
 *   cosines[j], sines[j] with y[j] = x[j] cosines[j] + partner[j] sines[j]
 *
 * for the `dims` columns of a head: the cosine, and the sine with its sign, times the amplitude.
 * What an angle is in quarter turns a position is kept from prime on; their whole part and the rest
 * are taken in f64, where positions up to 2^31 lose nothing that counts; sine and cosine of the
 * rest then in f32. */
enum { AUX_HEAD, AUX_DIMS, AUX_NEIGHBOURS };

static int64_t up16(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

static void rope_setup(zt_cpu_call *call)
{
    const zt_rope_attrs *rope = call->attrs;
    const zt_type *x = &call->in[0].type;
    int64_t head = rope->head ? rope->head : rope->dims ? rope->dims : x->dim[x->rank - 1];
    int64_t dims = rope->dims ? rope->dims : head;
    call->items[0] = zt_type_count(x) ? x->dim[0] : 0;
    call->aux[AUX_HEAD] = head;
    call->aux[AUX_DIMS] = dims;
    call->aux[AUX_NEIGHBOURS] = !strcmp(rope->pair.s, "neighbours");
    call->keep_bytes = (size_t)(dims / 2) * sizeof(double);
    call->local_bytes = (size_t)(2 * dims + 3 * up16(dims / 2)) * sizeof(float);
}

/* `extend` of the angle is unscaled up to pair `low`, and less and less of it up to `high`. */
static void rope_prime(zt_cpu_call *call)
{
    const zt_rope_attrs *rope = call->attrs;
    double *quarters = call->keep;
    for (int64_t i = 0; i < call->aux[AUX_DIMS] / 2; i++)
        quarters[i] = zt_rope_scale(rope, i) * zt_rope_power(rope->theta, i, call->aux[AUX_DIMS]) / M_PI_2;
}

/* Quarter turns to radians within an eighth of a turn, and whole quarters modulo 4. Adding 1.5 2^52
 * rounds to a whole number, which is then in the lowest bits. */
static void split_angles(double pos, const double *quarters, const float *tab, int64_t n, float *radians, int32_t *whole)
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
static void make_rotation_table(const zt_cpu_call *call, double pos, float *cosines, float *sines, float *scratch)
{
    int64_t half = call->aux[AUX_DIMS] / 2, step = up16(half);
    float *radians = scratch, *sine = scratch + step, *cosine = scratch; /* radians, then cosine */
    int32_t *whole = (int32_t *)(scratch + 2 * step);
    bool neighbours = call->aux[AUX_NEIGHBOURS];
    const vf amplitude = vf_set((float)((const zt_rope_attrs *)call->attrs)->amplitude);
    split_angles(pos, call->keep, call->in[2].data, half, radians, whole);
    for (int64_t i = 0; i < half; i += LANES) {
        vf s, k;
        sine_cosine(vf_load(radians + i), vi_load(whole + i), &s, &k);
        vf_store(sine + i, vf_mul(s, amplitude));
        vf_store(cosine + i, vf_mul(k, amplitude));
    }
    for (int64_t i = 0; i < half; i++) {
        int64_t j = neighbours ? 2 * i : i, k = neighbours ? 2 * i + 1 : i + half;
        cosines[j] = cosines[k] = cosine[i];
        sines[j] = -sine[i];
        sines[k] = sine[i];
    }
}

static void rotate_halves(const float *x, float *y, int64_t half, const float *cosines, const float *sines)
{
    for (int64_t i = 0; i < half; i += LANES) {
        int n = half - i < LANES ? (int)(half - i) : LANES;
        vf a = vf_load_n(x + i, n), b = vf_load_n(x + half + i, n);
        vf k = vf_load_n(cosines + i, n);
        vf_store_n(y + i, n, rotated(a, b, k, vf_load_n(sines + i, n)));
        vf_store_n(y + half + i, n, rotated(b, a, k, vf_load_n(sines + half + i, n)));
    }
}

static void rope_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t head = call->aux[AUX_HEAD], dims = call->aux[AUX_DIMS];
    int64_t cols = zt_type_count(&call->in[0].type) / call->in[0].type.dim[0];
    const int32_t *pos = call->in[1].data;
    float *cosines = local, *sines = cosines + dims, *scratch = sines + dims;
    (void)phase;
    for (int64_t r = begin; r < end; r++) {
        make_rotation_table(call, (double)pos[r], cosines, sines, scratch);
        const float *x = (const float *)call->in[0].data + r * cols;
        float *y = (float *)call->out[0].data + r * cols;
        for (int64_t h = 0; h < cols; h += head) {
            if (call->aux[AUX_NEIGHBOURS])
                rotate_neighbours(x + h, y + h, dims, cosines, sines);
            else
                rotate_halves(x + h, y + h, dims / 2, cosines, sines);
            if (head > dims) memmove(y + h + dims, x + h + dims, (size_t)(head - dims) * sizeof *y);
        }
    }
}

/* ---- rotations by tables ------------------------------------------------------------------------- */

/* cosines and sines of rotate_neighbours, from a row of cos and sin. */
static void spread_rotation_table(const float *c, const float *s, int64_t half, float *cosines, float *sines)
{
    for (int64_t i = 0; i < half; i++) {
        cosines[2 * i] = cosines[2 * i + 1] = c[i];
        sines[2 * i] = -s[i];
        sines[2 * i + 1] = s[i];
    }
}

/* x and y may be one. */
INLINE void rotate_halves_by(const float *x, float *y, int64_t half, const float *c, const float *s)
{
    for (int64_t i = 0; i < half; i += LANES) {
        int n = half - i < LANES ? (int)(half - i) : LANES;
        vf a = vf_load_n(x + i, n), b = vf_load_n(x + half + i, n);
        vf k = vf_load_n(c + i, n), l = vf_load_n(s + i, n);
        vf_store_n(y + i, n, vf_sub(vf_mul(a, k), vf_mul(b, l)));
        vf_store_n(y + half + i, n, vf_fma(a, l, vf_mul(b, k)));
    }
}

/* x's first 2 half columns rotated; scratch holds 4 half floats, made by spread_rotation_table before where
 * pairs are neighbours. */
INLINE void rotate(const float *x, float *y, int64_t half, const float *c, const float *s, const float *scratch)
{
    if (scratch)
        rotate_neighbours(x, y, 2 * half, scratch, scratch + 2 * half);
    else
        rotate_halves_by(x, y, half, c, s);
}

static void rope_table_setup(zt_cpu_call *call)
{
    rows_setup(call);
    call->aux[0] = !strcmp(((const zt_rope_table_attrs *)call->attrs)->pair.s, "neighbours");
    call->local_bytes = (size_t)(4 * cols_of(&call->in[1].type)) * sizeof(float);
}

static void rope_table_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t K = cols_of(&call->in[0].type), seq = call->in[1].type.dim[0], half = call->in[1].type.dim[1];
    float *scratch = call->aux[0] ? local : NULL;
    (void)phase;
    for (int64_t r = begin; r < end; r++) {
        const float *x = (const float *)call->in[0].data + r * K;
        const float *cs = (const float *)call->in[1].data + r % seq * half;
        const float *sn = (const float *)call->in[2].data + r % seq * half;
        float *y = (float *)call->out[0].data + r * K;
        if (scratch) spread_rotation_table(cs, sn, half, scratch, scratch + 2 * half);
        rotate(x, y, half, cs, sn, scratch);
        memmove(y + 2 * half, x + 2 * half, (size_t)(K - 2 * half) * sizeof *y);
    }
}

/* ---- norms with rotations: one row of tables and all its heads an item --------------------------- */

static void qk_norm_rope_setup(zt_cpu_call *call)
{
    call->items[0] = rows_of(&call->in[3].type);
    call->aux[0] = !strcmp(((const zt_qk_norm_rope_attrs *)call->attrs)->pair.s, "neighbours");
    call->local_bytes = (size_t)(4 * cols_of(&call->in[3].type)) * sizeof(float);
}

static void qk_norm_rope_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_qk_norm_rope_attrs *qk_norm_rope = call->attrs;
    const zt_type *type = &call->in[0].type;
    int64_t H = type->dim[type->rank - 2], D = type->dim[type->rank - 1], half = cols_of(&call->in[3].type);
    float *scratch = call->aux[0] ? local : NULL;
    (void)phase;
    for (int64_t i = begin; i < end; i++) {
        const float *cs = (const float *)call->in[3].data + i * half;
        const float *sn = (const float *)call->in[4].data + i * half;
        if (scratch) spread_rotation_table(cs, sn, half, scratch, scratch + 2 * half);
        for (int64_t h = 0; h < H; h++) {
            const float *x = (const float *)call->in[0].data + (i * H + h) * D;
            const float *w = call->in[h < qk_norm_rope->q_heads ? 1 : 2].data;
            float *y = (float *)call->out[0].data + (i * H + h) * D;
            norm_group(x, w, y, D, rstd_of(x, D, qk_norm_rope->eps), false);
            rotate(y, y, half, cs, sn, scratch);
        }
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_rope)[] = {
    {.op = ZT_OP_rope, .has = norm_has, .setup = rope_setup, .run = rope_run, .prime = rope_prime},
    {.op = ZT_OP_rope_table, .has = norm_has, .setup = rope_table_setup, .run = rope_table_run},
    {.op = ZT_OP_qk_norm_rope, .has = norm_has, .setup = qk_norm_rope_setup, .run = qk_norm_rope_run},
    {0},
};
