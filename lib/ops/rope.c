/* rope.c - rows of rotary positions: by positions, by tables, and after the norms of queries and
 * keys.
 *
 * Su et al., "RoFormer" (2021). Pairs of NeoX are halves, of the first LLaMA neighbours. A blend of
 * scaled and unscaled angles, and the amplitude: Peng et al., "YaRN" (2023).
 */
#include "lib/ops/rope.h"
#include "lib/ops/rounded.h"
#include "lib/ops/vjp.h"

#include <math.h>
#include <string.h>

static const char *const pair_words[] = {"halves", "neighbours"};

/* ---- rope ------------------------------------------------------------------------------------ */

static int64_t rope_head(const zt_rope_attrs *attrs, const zt_type *x)
{
    return attrs->head ? attrs->head : attrs->dims ? attrs->dims : zt_row_cols(x);
}

static zt_status rope_sizes(zt_ctx *ctx, const zt_rope_attrs *attrs, const zt_type *x, const zt_type *tab)
{
    int64_t head = rope_head(attrs, x), dims = attrs->dims ? attrs->dims : head, K = zt_row_cols(x);
    if (head < 0 || dims < 0 || dims > head || dims % 2)
        return zt_row_fail(ctx, ZT_ESHAPE, "cannot rotate %lld of %lld columns of a head: must be even and at most the head size",
                           (long long)dims, (long long)head);
    if (head > 0 ? K % head != 0 : K != 0)
        return zt_row_fail(ctx, ZT_ESHAPE, "%lld columns are not a multiple of the head size %lld", (long long)K,
                           (long long)head);
    if (tab && tab->dim[0] != dims / 2)
        return zt_row_fail(ctx, ZT_ESHAPE, "tab has %lld entries, expected %lld (pairs)", (long long)tab->dim[0],
                           (long long)(dims / 2));
    return ZT_OK;
}

static zt_status rope_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_rope_attrs *rope = attrs;
    const zt_type *x = in[0], *pos = in[1], *tab = in[2];
    zt_status status = zt_row_word(ctx, "pair", &rope->pair, pair_words, ZT_LEN(pair_words));
    if (!status) status = zt_row_want_float(ctx, "x", x);
    if (!status) status = zt_row_want(ctx, "pos", pos, ZT_I32, 1);
    if (!status && tab) status = zt_row_want(ctx, "tab", tab, ZT_F32, 1);
    if (status) return status;
    if (x->rank < 2 || x->dim[0] != pos->dim[0])
        return zt_row_fail(ctx, ZT_ESHAPE, "pos has %lld entries: must have one for each row of x", (long long)pos->dim[0]);
    if (!(rope->theta > 0)) return zt_row_fail(ctx, ZT_EUSAGE, "theta is %g: must be greater than 0", rope->theta);
    if (!isfinite(rope->scale) || !isfinite(rope->amplitude) || !isfinite(rope->extend) || !isfinite(rope->low) ||
        !isfinite(rope->high))
        return zt_row_fail(ctx, ZT_EUSAGE, "scale, amplitude, extend, low and high must be finite");
    out[0] = *x;
    return rope_sizes(ctx, rope, x, tab);
}

/* What the positions are multiplied by for pair i, before its own theta^(-2i/dims). */
double zt_rope_scale(const zt_rope_attrs *attrs, int64_t i)
{
    double width = attrs->high - attrs->low, up = ((double)i - attrs->low) / (width > 1e-3 ? width : 1e-3);
    double unscaled = attrs->extend * (1 - fmin(fmax(up, 0), 1));
    return attrs->extend == 0 ? attrs->scale : attrs->scale * (1 - unscaled) + unscaled;
}

double zt_rope_power(double theta, int64_t i, int64_t dims) { return zt_rounded_power(theta, -2 * (double)i / (double)dims); }

/* ---- its reference --------------------------------------------------------------------------- */

static void rope_row(const double *x, double *y, int64_t cols, int64_t head, int64_t first, int64_t second, double angle,
                     double amplitude)
{
    double c = cos(angle) * amplitude, s = sin(angle) * amplitude;
    for (int64_t h = 0; h < cols; h += head) {
        double x0 = x[h + first], x1 = x[h + second];
        y[h + first] = x0 * c - x1 * s;
        y[h + second] = x0 * s + x1 * c;
    }
}

static void rope_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_rope_attrs *rope = attrs;
    const zt_type *x = in[0].type;
    int64_t n = x->dim[0], head = rope_head(rope, x), dims = rope->dims ? rope->dims : head;
    int64_t cols = n ? zt_type_count(x) / n : 0, half = dims / 2;
    bool halves = strcmp(rope->pair.s, "neighbours") != 0;
    (void)error;
    memmove(out[0].f, in[0].f, (size_t)(n * cols) * sizeof(double));
    for (int64_t r = 0; r < n; r++) {
        double *y = out[0].f + r * cols;
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)in[1].i[r] * zt_rope_scale(rope, i) * zt_rope_power(rope->theta, i, dims);
            if (in[2].type) angle /= in[2].f[i];
            rope_row(y, y, cols, head, halves ? i : 2 * i, halves ? i + half : 2 * i + 1, angle, rope->amplitude);
        }
    }
}

static double rope_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 3 * (double)zt_type_count(out);
}

static bool rope_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        zt_rope_attrs a;
        int64_t pos0;
        bool tab;
    } rows[] = {
        {{ZT_F32, 2, {2, 34}}, {1e4, 0, 0, {"halves"}, 1, 1, 0, 0, 0}, 0, false},
        {{ZT_F32, 2, {2, 34}}, {1e4, 0, 0, {"neighbours"}, 1, 1, 0, 0, 0}, 3, false},
        {{ZT_F32, 2, {1, 576}}, {1e5, 64, 0, {"neighbours"}, 1, 1, 0, 0, 0}, 1000, false},
        {{ZT_F32, 2, {65, 192}}, {1e5, 64, 64, {"halves"}, 1, 1, 0, 0, 0}, 8000, false},
        {{ZT_F32, 2, {9, 256}}, {1e6, 0, 256, {"halves"}, 0.125, 1, 0, 0, 0}, 30000, false},
        {{ZT_F32, 2, {7, 200}}, {1e4, 16, 40, {"halves"}, 1, 1, 0, 0, 0}, 17, false},
        {{ZT_F32, 2, {7, 200}}, {1e4, 12, 40, {"neighbours"}, 1, 1, 0, 0, 0}, 17, true},
        {{ZT_F32, 2, {9, 128}}, {5e5, 0, 64, {"halves"}, 1, 1, 0, 0, 0}, 5, true},
        {{ZT_F32, 3, {3, 5, 32}}, {1e4, 0, 0, {"halves"}, 1, 1, 0, 0, 0}, 9, false},
        {{ZT_F32, 3, {3, 2, 64}}, {1e4, 8, 32, {"neighbours"}, 1, 1, 0, 0, 0}, 9, true},
        {{ZT_F32, 2, {9, 128}}, {1e4, 0, 64, {"halves"}, 0.25, 1.139, 1, 3, 17}, 300, false},
        {{ZT_F32, 2, {9, 96}}, {1e6, 24, 48, {"neighbours"}, 0.5, 0.75, 0.5, 2, 2}, 999, true},
        {{ZT_F32, 2, {0, 64}}, {1e4, 0, 64, {"halves"}, 1, 1, 0, 0, 0}, 0, false},
        {{ZT_F16, 2, {3, 64}}, {1e4, 16, 32, {"halves"}, 1, 1, 0, 0, 0}, 5, true},
        {{ZT_BF16, 2, {3, 64}}, {1e4, 0, 32, {"neighbours"}, 1, 1, 0, 0, 0}, 5, false},
        {{ZT_F64, 2, {2, 12}}, {1e4, 2, 4, {"halves"}, 1, 1, 0, 0, 0}, 2, false},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, &rows[i].x);
    zt_case_in(test_case, 1, ZT_FILL_RISING, rows[i].pos0, ZT_I32, 1, &test_case->in[0].dim[0]);
    int64_t head = rope_head(&rows[i].a, &test_case->in[0]);
    int64_t pairs = (rows[i].a.dims ? rows[i].a.dims : head) / 2;
    if (rows[i].tab) zt_case_in(test_case, 2, ZT_FILL_NORMAL, 0, ZT_F32, 1, &pairs);
    return true;
}

/* A turn's transpose is the turn back: by the positions below 0. */
static void rope_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    int zero = zt_build_sub(emit, vjp->in[1], vjp->in[1]);
    vjp->dx[0] = zt_build_rope(emit, vjp->dy[0], zt_build_sub(emit, zero, vjp->in[1]), vjp->in[2], vjp->attrs);
}

/* [n,half]: the angles of each row's pairs. */
static int rope_angles(const zt_emit *emit, const zt_rope_attrs *attrs, const int *in, int64_t dims)
{
    int pos = zt_build_group(emit, zt_build_wide(emit, in[1]), &(zt_group_attrs){1});
    pos = zt_build_repeat(emit, pos, &(zt_repeat_attrs){1, dims / 2});
    int one = zt_build_fill_like(emit, pos, &(zt_fill_like_attrs){1});
    int i = zt_build_cumsum(emit, one, &(zt_cumsum_attrs){1, 1, 0});
    int angle = zt_build_exp(emit, zt_build_times(emit, i, -2 * log(attrs->theta) / (double)dims));
    if (attrs->extend != 0) {
        double width = fmax(attrs->high - attrs->low, 1e-3);
        int up =
            zt_build_clamp(emit, zt_build_times(emit, zt_build_plus(emit, i, -attrs->low), 1 / width), &(zt_clamp_attrs){0, 1});
        int unscaled = zt_build_times(emit, zt_build_plus(emit, up, -1), -attrs->extend);
        int by = zt_build_plus(emit, zt_build_times(emit, unscaled, 1 - attrs->scale), attrs->scale);
        angle = zt_build_mul(emit, angle, by);
    } else {
        angle = zt_build_times(emit, angle, attrs->scale);
    }
    angle = zt_build_mul(emit, angle, pos);
    return in[2] == ZT_NONE ? angle : zt_build_div(emit, angle, in[2]);
}

/* By tables: heads apart, rows before their columns, and back. */
static void rope_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    const zt_rope_attrs *rope = attrs;
    zt_type x = emit->type(emit->user, in[0]);
    int64_t head = rope_head(rope, &x), dims = rope->dims ? rope->dims : head;
    if (head < 2 || dims < 2) { /* nothing turns */
        out[0] = zt_build_scale(emit, in[0], &(zt_scale_attrs){1});
        return;
    }
    zt_transpose_attrs there = {{x.rank + 1, {0}}}, back = there;
    for (int d = 0; d < x.rank; d++) there.axes.v[d] = d + 1 < x.rank ? d + 1 : 0;
    for (int d = 0; d < x.rank; d++) back.axes.v[d] = d ? d - 1 : x.rank - 1;
    there.axes.v[x.rank] = back.axes.v[x.rank] = x.rank;
    zt_rope_table_attrs by = {rope->pair};
    int y = zt_build_group(emit, zt_build_wide(emit, in[0]), &(zt_group_attrs){head});
    int angle = zt_build_as(emit, rope_angles(emit, rope, in, dims), y);
    y = zt_build_rope_table(emit, zt_build_transpose(emit, y, &there),
                            zt_build_times(emit, zt_build_cos(emit, angle), rope->amplitude),
                            zt_build_times(emit, zt_build_sin(emit, angle), rope->amplitude), &by);
    y = zt_build_reshape_like(emit, zt_build_transpose(emit, y, &back), in[0]);
    out[0] = zt_build_as(emit, y, in[0]);
}

const zt_opdef zt_op_rope = {
    .synopsis = "rotates the first `dims` columns of each head (0: head) in pairs, half-split (i, "
                "i+dims/2) or interleaved with pair=neighbours (2i, 2i+1), by the angle pos[t] s "
                "theta^(-2i/dims) / tab[i], and scales them by `amplitude` (YaRN); s = scale (1-u) + "
                "u, u = extend up to pair `low`, 0 from `high`, linear in between; x [n,...] of any "
                "plain float type, heads of `head` columns (0: dims, else the last dimension), pos "
                "i32[n], tab f32[dims/2] (optional)",
    .n_required = 2,
    .flags = ZT_OPF_INPLACE,
    .infer = rope_infer,
    .ref = rope_ref,
    .flops = rope_flops,
    .cases = rope_cases,
    .vjp = rope_vjp,
    .expand = rope_expand,
    .constant = 4,
};

/* ---- rope by tables -------------------------------------------------------------------------- */

static zt_status rope_table_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_rope_table_attrs *rope_table = attrs;
    const zt_type *x = in[0], *c = in[1];
    zt_status status = zt_row_word(ctx, "pair", &rope_table->pair, pair_words, ZT_LEN(pair_words));
    if (!status) status = zt_row_want_float(ctx, "x", x);
    if (status) return status;
    if (c->rank != 2 || c->dtype != x->dtype || !zt_type_equal(c, in[2]))
        return zt_row_fail(ctx, ZT_ESHAPE, "cos and sin must be matrices of the same shape and the dtype of x");
    if (x->rank < 2 || x->dim[x->rank - 2] != c->dim[0])
        return zt_row_fail(ctx, ZT_ESHAPE, "cos and sin have %lld rows: must have one for each row of x", (long long)c->dim[0]);
    if (c->dim[1] > x->dim[x->rank - 1] / 2)
        return zt_row_fail(ctx, ZT_ESHAPE, "%lld pairs do not fit in %lld columns", (long long)c->dim[1],
                           (long long)x->dim[x->rank - 1]);
    out[0] = *x;
    return ZT_OK;
}

static void rope_table_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_rope_table_attrs *rope_table = attrs;
    int64_t half = in[1].type->dim[1], seq = in[1].type->dim[0], K = zt_row_cols(in[0].type);
    int64_t rows = zt_row_rows(in[0].type);
    bool halves = strcmp(rope_table->pair.s, "neighbours") != 0;
    (void)error;
    memmove(out[0].f, in[0].f, (size_t)(rows * K) * sizeof(double));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < half; i++) {
            double *y = out[0].f + r * K;
            int64_t at = r % seq * half + i, p = halves ? i : 2 * i, q = halves ? i + half : p + 1;
            double c = in[1].f[at], s = in[2].f[at], first = y[p], second = y[q];
            y[p] = first * c - second * s;
            y[q] = first * s + second * c;
        }
}

static double rope_table_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs;
    return in[1]->dim[0] ? 6 * (double)zt_type_count(in[1]) * ((double)zt_row_rows(out) / (double)in[1]->dim[0]) : 0;
}

static bool rope_table_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        int64_t half;
        const char *pair;
    } rows[] = {
        {{ZT_F32, 3, {2, 5, 8}}, 4, "halves"},    {{ZT_F32, 3, {2, 5, 8}}, 4, "neighbours"},
        {{ZT_F32, 2, {7, 33}}, 12, "halves"},     {{ZT_F32, 4, {2, 3, 5, 6}}, 2, "neighbours"},
        {{ZT_F32, 3, {0, 5, 8}}, 4, "halves"},    {{ZT_F32, 2, {4, 6}}, 0, "halves"},
        {{ZT_F16, 2, {4, 64}}, 32, "neighbours"}, {{ZT_BF16, 2, {4, 64}}, 20, "halves"},
        {{ZT_F32, 3, {3, 65, 70}}, 33, "halves"}, {{ZT_F32, 2, {3, 37}}, 18, "neighbours"},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_rope_table_attrs a = {{{0}}};
    memcpy(a.pair.s, rows[i].pair, strlen(rows[i].pair));
    zt_case_attrs(test_case, &a, sizeof a);
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, &rows[i].x);
    int64_t table[] = {rows[i].x.dim[rows[i].x.rank - 2], rows[i].half};
    for (int k = 1; k < 3; k++) zt_case_in(test_case, k, ZT_FILL_NORMAL, 0, rows[i].x.dtype, 2, table);
    return true;
}

/* The transpose of a turn: the other way round. */
static void rope_table_vjp(zt_vjp *vjp)
{
    int back = zt_build_neg(vjp->emit, vjp->in[2]);
    vjp->dx[0] = zt_build_rope_table(vjp->emit, vjp->dy[0], vjp->in[1], back, vjp->attrs);
}

/* Pairs of columns of x[...,K] turned by c and s, which broadcast to [...,half]; the columns past
 * them as they are. */
static int emit_rotated(const zt_emit *emit, int x, int c, int s, int64_t half, int64_t K, bool halves)
{
    const zt_concat_attrs last = {-1};
    bool whole = 2 * half == K;
    int pairs = whole ? x : zt_build_slice(emit, x, &(zt_slice_attrs){-1, 0, 2 * half}), z = pairs;
    int64_t second = halves ? half : 1;
    if (!halves) { /* [...,half,2], by tables of [...,half,1] */
        z = zt_build_group(emit, pairs, &(zt_group_attrs){2});
        c = zt_build_group(emit, c, &(zt_group_attrs){1});
        s = zt_build_group(emit, s, &(zt_group_attrs){1});
    }
    int a = zt_build_slice(emit, z, &(zt_slice_attrs){-1, 0, second});
    int b = zt_build_slice(emit, z, &(zt_slice_attrs){-1, second, 0});
    int p = zt_build_sub(emit, zt_build_mul(emit, a, c), zt_build_mul(emit, b, s));
    int q = zt_build_add(emit, zt_build_mul(emit, a, s), zt_build_mul(emit, b, c));
    int y = zt_build_concat(emit, p, q, ZT_NONE, ZT_NONE, ZT_NONE, &last);
    if (!halves) y = zt_build_reshape_like(emit, y, pairs);
    if (whole) return y;
    int rest = zt_build_slice(emit, x, &(zt_slice_attrs){-1, 2 * half, 0});
    return zt_build_concat(emit, y, rest, ZT_NONE, ZT_NONE, ZT_NONE, &last);
}

static int64_t last_of(const zt_emit *emit, int x)
{
    zt_type type = x < 0 ? (zt_type){.rank = 0} : emit->type(emit->user, x);
    return type.rank ? type.dim[type.rank - 1] : -1;
}

static bool in_halves(const zt_enum_string *pair) { return strcmp(pair->s, "neighbours") != 0; }

static void rope_table_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    const zt_rope_table_attrs *rope_table = attrs;
    int64_t half = last_of(emit, in[1]);
    if (half < 1) /* nothing turns */
        out[0] = zt_build_scale(emit, in[0], &(zt_scale_attrs){1});
    else
        out[0] = emit_rotated(emit, in[0], in[1], in[2], half, last_of(emit, in[0]), in_halves(&rope_table->pair));
}

const zt_opdef zt_op_rope_table = {
    .synopsis = "rotates pairs (a, b) of columns of x[...,t,:] by tables: (a c - b s, a s + b c), c "
                "= cos[t,i] and s = sin[t,i]; pair i is (i, i+half), or (2i, 2i+1) with "
                "pair=neighbours; columns from 2 half on are copied; x any plain float type, cos and "
                "sin [seq,half] of the same type",
    .n_required = 3,
    .infer = rope_table_infer,
    .ref = rope_table_ref,
    .flops = rope_table_flops,
    .cases = rope_table_cases,
    .vjp = rope_table_vjp,
    .expand = rope_table_expand,
    .constant = 2 | 4,
};

/* ---- after the norms of queries and keys ----------------------------------------------------- */

static zt_status qk_norm_rope_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_qk_norm_rope_attrs *rope = attrs;
    const zt_type *x = in[0], *c = in[3];
    zt_status status = zt_row_word(ctx, "pair", &rope->pair, pair_words, ZT_LEN(pair_words));
    if (!status) status = zt_row_want_float(ctx, "x", x);
    if (!status) status = zt_row_want(ctx, "wq", in[1], x->dtype, 1);
    if (!status) status = zt_row_want(ctx, "wk", in[2], x->dtype, 1);
    if (status) return status;
    if (!(rope->eps >= 0)) return zt_row_fail(ctx, ZT_EUSAGE, "eps is %g: must be nonnegative", rope->eps);
    if (x->rank < 2) return zt_row_fail(ctx, ZT_ESHAPE, "x must have at least 2 dimensions (heads and columns)");
    int64_t H = x->dim[x->rank - 2], D = x->dim[x->rank - 1];
    if (rope->q_heads < 0 || rope->q_heads > H)
        return zt_row_fail(ctx, ZT_EUSAGE, "q_heads is %lld: must be 0 to %lld", (long long)rope->q_heads, (long long)H);
    if (in[1]->dim[0] != D || in[2]->dim[0] != D)
        return zt_row_fail(ctx, ZT_ESHAPE, "wq and wk have %lld and %lld entries, expected %lld (columns)",
                           (long long)in[1]->dim[0], (long long)in[2]->dim[0], (long long)D);
    if (c->rank != x->rank - 1 || c->dtype != x->dtype || !zt_type_equal(c, in[4]))
        return zt_row_fail(ctx, ZT_ESHAPE, "cos and sin must have the same shape, with one row for all heads of x");
    for (int d = 0; d + 2 < x->rank; d++)
        if (c->dim[d] != x->dim[d])
            return zt_row_fail(ctx, ZT_ESHAPE, "cos has %lld rows along axis %d, but x has %lld", (long long)c->dim[d], d,
                               (long long)x->dim[d]);
    if (zt_row_cols(c) > D / 2)
        return zt_row_fail(ctx, ZT_ESHAPE, "%lld pairs do not fit in %lld columns", (long long)zt_row_cols(c), (long long)D);
    out[0] = *x;
    return ZT_OK;
}

static void qk_norm_rope_row(const double *x, const double *w, const double *c, const double *s, int64_t D, int64_t half,
                             const zt_qk_norm_rope_attrs *attrs, double *y)
{
    bool halves = in_halves(&attrs->pair);
    double sum = 0;
    for (int64_t i = 0; i < D; i++) sum += x[i] * x[i];
    double rstd = 1 / sqrt((D ? sum / (double)D : 0) + attrs->eps);
    for (int64_t i = 0; i < D; i++) y[i] = x[i] * rstd * w[i];
    for (int64_t i = 0; i < half; i++) {
        int64_t p = halves ? i : 2 * i, q = halves ? i + half : p + 1;
        double first = y[p], second = y[q];
        y[p] = first * c[i] - second * s[i];
        y[q] = first * s[i] + second * c[i];
    }
}

static void qk_norm_rope_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_qk_norm_rope_attrs *rope = attrs;
    const zt_type *x = in[0].type;
    int64_t H = x->dim[x->rank - 2], D = x->dim[x->rank - 1], half = zt_row_cols(in[3].type);
    (void)error;
    for (int64_t r = 0; r < zt_row_rows(x); r++) {
        int64_t table = r / H * half;
        qk_norm_rope_row(in[0].f + r * D, r % H < rope->q_heads ? in[1].f : in[2].f, in[3].f + table, in[4].f + table, D, half,
                         rope, out[0].f + r * D);
    }
}

static double qk_norm_rope_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 7 * (double)zt_type_count(out);
}

static bool qk_norm_rope_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        int64_t half;
        zt_qk_norm_rope_attrs a; /* eps, q_heads, pair */
    } rows[] = {
        {{ZT_F32, 2, {3, 4}}, 2, {1e-6, 2, {"halves"}}},        {{ZT_F32, 2, {12, 64}}, 32, {1e-6, 8, {"halves"}}},
        {{ZT_F32, 2, {5, 17}}, 3, {0.5, 4, {"neighbours"}}},    {{ZT_F32, 3, {7, 3, 40}}, 20, {1e-5, 1, {"neighbours"}}},
        {{ZT_F32, 4, {2, 3, 4, 10}}, 4, {1e-5, 3, {"halves"}}}, {{ZT_F32, 2, {3, 8}}, 4, {1e-5, 0, {"halves"}}},
        {{ZT_F32, 2, {3, 8}}, 0, {1e-5, 3, {"halves"}}},        {{ZT_F32, 3, {0, 3, 8}}, 4, {1e-5, 2, {"halves"}}},
        {{ZT_F32, 3, {9, 12, 128}}, 64, {1e-6, 9, {"halves"}}}, {{ZT_F16, 3, {2, 3, 40}}, 20, {1e-5, 2, {"halves"}}},
        {{ZT_BF16, 2, {3, 64}}, 32, {1e-5, 1, {"neighbours"}}}, {{ZT_F64, 2, {3, 8}}, 3, {1e-5, 2, {"halves"}}},
    };
    if (i >= ZT_LEN(rows)) return false;
    const zt_case_type *x = &rows[i].x;
    int64_t table[ZT_MAX_CASE_RANK];
    memcpy(table, x->dim, sizeof table);
    table[x->rank - 2] = rows[i].half;
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, x);
    for (int k = 1; k < 3; k++) zt_case_in(test_case, k, ZT_FILL_NORMAL, 0, x->dtype, 1, &x->dim[x->rank - 1]);
    for (int k = 3; k < 5; k++) zt_case_in(test_case, k, ZT_FILL_NORMAL, 0, x->dtype, x->rank - 1, table);
    return true;
}

static void qk_norm_rope_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    const zt_qk_norm_rope_attrs *rope = attrs;
    zt_type x = in[0] < 0 ? (zt_type){.rank = 2} : emit->type(emit->user, in[0]);
    const zt_rms_norm_attrs norm = {rope->eps, 0};
    bool queries = rope->q_heads > 0, keys = x.dim[x.rank - 2] != rope->q_heads;
    int q = in[0], k = in[0], y;
    if (queries && keys) q = zt_build_slice(emit, q, &(zt_slice_attrs){-2, 0, rope->q_heads});
    if (queries && keys) k = zt_build_slice(emit, k, &(zt_slice_attrs){-2, rope->q_heads, 0});
    if (queries) y = q = zt_build_rms_norm(emit, q, in[1], &norm, NULL);
    if (keys || !queries) y = k = zt_build_rms_norm(emit, k, in[2], &norm, NULL);
    if (queries && keys) y = zt_build_concat(emit, q, k, ZT_NONE, ZT_NONE, ZT_NONE, &(zt_concat_attrs){-2});
    int64_t half = last_of(emit, in[3]);
    out[0] = y;
    if (half < 1) return;
    int c = zt_build_group(emit, in[3], &(zt_group_attrs){half});
    int s = zt_build_group(emit, in[4], &(zt_group_attrs){half});
    out[0] = emit_rotated(emit, y, c, s, half, x.dim[x.rank - 1], in_halves(&rope->pair));
}

const zt_opdef zt_op_qk_norm_rope = {
    .synopsis = "rms_norm by head, then rope_table: x * rstd * w, w = wq for the first q_heads of x "
                "[...,heads,D] and wk for the others, then pairs of columns are rotated by cos and "
                "sin as in rope_table; cos and sin [...,half] have one row for all heads; x, wq and "
                "wk [D], cos, sin and y of the same plain float type",
    .n_required = 5,
    .infer = qk_norm_rope_infer,
    .ref = qk_norm_rope_ref,
    .flops = qk_norm_rope_flops,
    .cases = qk_norm_rope_cases,
    .expand = qk_norm_rope_expand,
    .constant = 8 | 16,
};
