/* spectral.c - rows of discrete Fourier transforms: rfft, irfft, dft and their gradients; complex
 * numbers are pairs (re, im) along a last dimension of 2. The reference loops are plain sums.
 */
#include "lib/ops/vjp.h"

#include <math.h>
#include <string.h>

/* ---- what they share ------------------------------------------------------------------------- */

static const char *const norm_words[] = {"backward", "ortho", "forward"};

static zt_status want_norm(zt_ctx *ctx, const zt_enum_string *norm)
{
    return zt_row_word(ctx, "norm", norm, norm_words, ZT_LEN(norm_words));
}

/* What a transform of n is multiplied by: 1 / n is the inverse's (backward) or the forward one's.
 */
static double norm_scale(const zt_enum_string *norm, bool inverse, int64_t n)
{
    if (norm->s[0] == 'o') return n ? 1 / sqrt((double)n) : 1;
    return (norm->s[0] == 'b') == inverse && n ? 1 / (double)n : 1;
}

/* The transform's adjoint has the same scale as the transform in the other direction named so. */
static zt_enum_string adjoint_norm(const zt_enum_string *norm)
{
    zt_enum_string other = {"ortho"};
    if (norm->s[0] != 'o') strcpy(other.s, norm->s[0] == 'b' ? "forward" : "backward");
    return other;
}

/* cos and sin of 2 pi j k / n */
static void root_of_unity(int64_t j, int64_t k, int64_t n, double *c, double *s)
{
    double angle = 2 * M_PI * (double)(j * k % n) / (double)n;
    *c = cos(angle);
    *s = sin(angle);
}

static int64_t bin_count(int64_t n) { return n / 2 + 1; }
static bool is_end(int64_t k, int64_t n) { return k == 0 || 2 * k == n; }

static double fft_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 40 * (double)zt_type_count(out);
}

static const zt_case_type lines[] = {
    {ZT_F32, 2, {2, 8}},   {ZT_F32, 1, {1}},       {ZT_F32, 2, {3, 7}},  {ZT_F32, 3, {2, 2, 12}}, {ZT_F32, 2, {2, 2}},
    {ZT_F32, 2, {0, 8}},   {ZT_F32, 2, {2, 34}},   {ZT_F32, 2, {1, 15}}, {ZT_F64, 2, {2, 6}},     {ZT_F32, 2, {6, 1000}},
    {ZT_F32, 2, {2, 211}}, {ZT_F32, 2, {10, 512}}, {ZT_F32, 1, {77}},    {ZT_F32, 1, {143}},
};

static bool norm_case(int i, const zt_case_type **line, zt_enum_string *norm)
{
    if (i >= ZT_LEN(lines)) return false;
    *line = &lines[i];
    memset(norm, 0, sizeof *norm);
    strcpy(norm->s, norm_words[i % 3]);
    return true;
}

/* ---- rfft ------------------------------------------------------------------------------------ */

static zt_status half_infer(zt_ctx *ctx, const zt_enum_string *norm, const zt_type *x, zt_type *y)
{
    zt_status status = want_norm(ctx, norm);
    if (!status) status = zt_row_want_float(ctx, "x", x);
    if (status) return status;
    if (x->rank < 1 || x->rank == ZT_MAX_RANK)
        return zt_row_fail(ctx, ZT_ESHAPE, "x has %d dimensions: must have 1 to %d", x->rank, ZT_MAX_RANK - 1);
    *y = *x;
    y->dim[y->rank - 1] = bin_count(x->dim[x->rank - 1]);
    y->dim[y->rank++] = 2;
    return ZT_OK;
}

static zt_status rfft_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    return half_infer(ctx, &((const zt_rfft_attrs *)attrs)->norm, in[0], &out[0]);
}

/* Of real lines of n; twice: bins inside count double, and the ends' imaginary parts are 0. */
static void half_spectrum(const zt_arg *x, double scale, bool twice, zt_arg *y)
{
    int64_t n = zt_row_cols(x->type), m = bin_count(n), rows = zt_row_rows(x->type);
    for (int64_t i = 0; i < rows * m; i++) {
        const double *line = x->f + i / m * n;
        double re = 0, im = 0, c, s;
        for (int64_t j = 0; j < n; j++) {
            root_of_unity(j, i % m, n, &c, &s);
            re += line[j] * c;
            im -= line[j] * s;
        }
        double by = twice && !is_end(i % m, n) ? 2 * scale : scale;
        y->f[2 * i] = by * re;
        y->f[2 * i + 1] = twice && is_end(i % m, n) ? 0 : by * im;
    }
}

static void rfft_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_rfft_attrs *rfft = attrs;
    (void)error;
    half_spectrum(&in[0], norm_scale(&rfft->norm, false, zt_row_cols(in[0].type)), false, &out[0]);
}

static bool rfft_cases(int i, zt_case *test_case)
{
    zt_rfft_attrs a;
    const zt_case_type *x;
    if (!norm_case(i, &x, &a.norm)) return false;
    zt_case_attrs(test_case, &a, sizeof a);
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, x);
    return true;
}

static void rfft_vjp(zt_vjp *vjp)
{
    const zt_rfft_attrs *attrs = vjp->attrs;
    vjp->dx[0] = zt_build_rfft_backward(vjp->emit, vjp->dy[0], vjp->in[0], &(zt_rfft_backward_attrs){attrs->norm});
}

#define NORM                                                                                                                     \
    "; norm selects the direction divided by n: backward the inverse, forward the forward "                                      \
    "transform, ortho both by sqrt(n)"

const zt_opdef zt_op_rfft = {
    .synopsis = "y[...,k,:] = (re, im) of sum_j x[...,j] exp(-2 pi i j k / n) for k from 0 to n/2; x "
                "[...,n] of any plain float type, y [...,n/2+1,2] of the type of x" NORM,
    .n_required = 1,
    .flags = ZT_OPF_SUMS,
    .infer = rfft_infer,
    .ref = rfft_ref,
    .flops = fft_flops,
    .cases = rfft_cases,
    .vjp = rfft_vjp,
};

/* ---- rfft_backward --------------------------------------------------------------------------- */

static zt_status rfft_backward_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_type want;
    zt_status status = half_infer(ctx, &((const zt_rfft_backward_attrs *)attrs)->norm, in[1], &want);
    if (!status && !zt_type_equal(&want, in[0])) status = zt_row_fail(ctx, ZT_ESHAPE, "dy must have the type of rfft(like)");
    out[0] = *in[1];
    return status;
}

/* dx[j] = sum_k Re(dy[k] exp(2 pi i j k / n)) of the half spectrum; `twice` as above. */
static void real_lines(const zt_arg *y, int64_t n, double scale, bool twice, zt_arg *x)
{
    int64_t m = bin_count(n), count = zt_type_count(x->type);
    for (int64_t i = 0; i < count; i++) {
        const double *line = y->f + i / n * m * 2;
        double sum = 0, c, s;
        for (int64_t k = 0; k < m; k++) {
            root_of_unity(i % n, k, n, &c, &s);
            double by = twice && !is_end(k, n) ? 2 : 1;
            double im = twice && is_end(k, n) ? 0 : line[2 * k + 1];
            sum += by * (line[2 * k] * c - im * s);
        }
        x->f[i] = scale * sum;
    }
}

static void rfft_backward_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_rfft_backward_attrs *rfft_backward = attrs;
    int64_t n = zt_row_cols(in[1].type);
    (void)error;
    real_lines(&in[0], n, norm_scale(&rfft_backward->norm, false, n), false, &out[0]);
}

static bool rfft_backward_cases(int i, zt_case *test_case)
{
    zt_rfft_backward_attrs a;
    const zt_case_type *x;
    if (!norm_case(i, &x, &a.norm)) return false;
    zt_case_attrs(test_case, &a, sizeof a);
    zt_case_type_in(test_case, 1, ZT_FILL_NORMAL, x);
    test_case->fill[0] = ZT_FILL_NORMAL;
    return half_infer(NULL, &a.norm, &test_case->in[1], &test_case->in[0]) == ZT_OK;
}

static void rfft_backward_vjp(zt_vjp *vjp)
{
    const zt_rfft_backward_attrs *attrs = vjp->attrs;
    vjp->dx[0] = zt_build_rfft(vjp->emit, vjp->dy[0], &(zt_rfft_attrs){attrs->norm});
}

const zt_opdef zt_op_rfft_backward = {
    .synopsis = "dx[...,j] = sum_k Re(dy[...,k] exp(2 pi i j k / n)): the gradient of rfft, in the "
                "shape of like; norm as in rfft",
    .n_required = 2,
    .flags = ZT_OPF_SUMS,
    .infer = rfft_backward_infer,
    .ref = rfft_backward_ref,
    .flops = fft_flops,
    .cases = rfft_backward_cases,
    .vjp = rfft_backward_vjp,
    .constant = 2,
};

/* ---- irfft ----------------------------------------------------------------------------------- */

static zt_status irfft_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_irfft_attrs *irfft = attrs;
    const zt_type *x = in[0];
    zt_status status = want_norm(ctx, &irfft->norm);
    if (!status) status = zt_row_want_float(ctx, "x", x);
    if (status) return status;
    if (x->rank < 2 || x->dim[x->rank - 1] != 2 || x->dim[x->rank - 2] < 1)
        return zt_row_fail(ctx, ZT_ESHAPE, "x must have shape [...,m,2]");
    int64_t m = x->dim[x->rank - 2], n = irfft->n ? irfft->n : 2 * (m - 1);
    if (irfft->n < 0 || bin_count(n) != m)
        return zt_row_fail(ctx, ZT_ESHAPE, "%lld bins do not match a length of %lld", (long long)m, (long long)irfft->n);
    out[0] = *x;
    out[0].dim[--out[0].rank - 1] = n;
    return ZT_OK;
}

static void irfft_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_irfft_attrs *irfft = attrs;
    int64_t n = zt_row_cols(out[0].type);
    (void)error;
    real_lines(&in[0], n, norm_scale(&irfft->norm, true, n), true, &out[0]);
}

static bool irfft_cases(int i, zt_case *test_case)
{
    zt_irfft_attrs a = {0};
    const zt_case_type *x;
    if (!norm_case(i, &x, &a.norm)) return false;
    zt_type real = zt_type_make(x->dtype, x->rank, x->dim);
    a.n = i % 2 || zt_row_cols(&real) % 2 ? zt_row_cols(&real) : 0;
    zt_case_attrs(test_case, &a, sizeof a);
    test_case->fill[0] = ZT_FILL_NORMAL;
    return half_infer(NULL, &a.norm, &real, &test_case->in[0]) == ZT_OK;
}

static void irfft_vjp(zt_vjp *vjp)
{
    const zt_irfft_attrs *attrs = vjp->attrs;
    vjp->dx[0] = zt_build_irfft_backward(vjp->emit, vjp->dy[0], &(zt_irfft_backward_attrs){attrs->norm});
}

const zt_opdef zt_op_irfft = {
    .synopsis = "y = the n real numbers (0: 2 (m - 1)) whose rfft is x; x [...,m,2] of any plain "
                "float type, m = n/2+1; the imaginary parts of bins 0 and n/2 are ignored; y [...,n] "
                "of the type of x" NORM,
    .n_required = 1,
    .flags = ZT_OPF_SUMS,
    .infer = irfft_infer,
    .ref = irfft_ref,
    .flops = fft_flops,
    .cases = irfft_cases,
    .vjp = irfft_vjp,
};

static zt_status irfft_backward_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    return half_infer(ctx, &((const zt_irfft_backward_attrs *)attrs)->norm, in[0], &out[0]);
}

static void irfft_backward_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_irfft_backward_attrs *irfft_backward = attrs;
    (void)error;
    half_spectrum(&in[0], norm_scale(&irfft_backward->norm, true, zt_row_cols(in[0].type)), true, &out[0]);
}

static void irfft_backward_vjp(zt_vjp *vjp)
{
    const zt_irfft_backward_attrs *attrs = vjp->attrs;
    zt_type type = vjp->emit->type(vjp->emit->user, vjp->in[0]);
    int64_t n = type.rank > 0 ? type.dim[type.rank - 1] : 0; /* of rank 0: what failed before */
    zt_irfft_attrs back = {n > 0 ? n : 0, attrs->norm};
    vjp->dx[0] = zt_build_irfft(vjp->emit, vjp->dy[0], &back);
}

const zt_opdef zt_op_irfft_backward = {
    .synopsis = "dx = rfft(dy) with the norm of irfft, all bins doubled except 0 and n/2, whose "
                "imaginary parts are 0: the gradient of irfft",
    .n_required = 1,
    .flags = ZT_OPF_SUMS,
    .infer = irfft_backward_infer,
    .ref = irfft_backward_ref,
    .flops = fft_flops,
    .cases = rfft_cases,
    .vjp = irfft_backward_vjp,
};

/* ---- dft ------------------------------------------------------------------------------------- */

static zt_status dft_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_dft_attrs *dft = attrs;
    const zt_type *x = in[0];
    zt_status status = want_norm(ctx, &dft->norm);
    if (!status) status = zt_row_want_float(ctx, "x", x);
    if (status) return status;
    if (x->rank < 2 || x->dim[x->rank - 1] != 2) return zt_row_fail(ctx, ZT_ESHAPE, "the last dimension of x must be 2");
    int64_t axis = dft->axis < 0 ? dft->axis + x->rank : dft->axis;
    if (axis < 0 || axis >= x->rank - 1)
        return zt_row_fail(ctx, ZT_ESHAPE, "axis %lld is out of range for %d dimensions before the pairs", (long long)dft->axis,
                           x->rank - 1);
    if (dft->length < 0) return zt_row_fail(ctx, ZT_EUSAGE, "length is %lld: must be nonnegative", (long long)dft->length);
    if (dft->inverse != 0 && dft->inverse != 1)
        return zt_row_fail(ctx, ZT_EUSAGE, "inverse is %lld: must be 0 or 1", (long long)dft->inverse);
    out[0] = *x;
    if (dft->length) out[0].dim[axis] = dft->length;
    return ZT_OK;
}

static void dft_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_dft_attrs *dft = attrs;
    const zt_type *y = out[0].type;
    int axis = (int)(dft->axis < 0 ? dft->axis + y->rank : dft->axis);
    int64_t n = y->dim[axis], given = in[0].type->dim[axis], inner = 1;
    if (!zt_type_count(y)) return;
    for (int d = axis + 1; d < y->rank - 1; d++) inner *= y->dim[d];
    double scale = norm_scale(&dft->norm, dft->inverse, n), sign = dft->inverse ? 1 : -1, c, s;
    (void)error;
    for (int64_t i = 0; i < zt_type_count(y) / 2; i++) {
        int64_t q = i % inner, k = i / inner % n, o = i / inner / n;
        double re = 0, im = 0;
        for (int64_t j = 0; j < n && j < given; j++) {
            const double *x = in[0].f + 2 * ((o * given + j) * inner + q);
            root_of_unity(j, k, n, &c, &s);
            re += x[0] * c - sign * x[1] * s;
            im += x[1] * c + sign * x[0] * s;
        }
        out[0].f[2 * i] = scale * re;
        out[0].f[2 * i + 1] = scale * im;
    }
}

static bool dft_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        int64_t axis, inverse, length;
        int norm;
    } rows[] = {
        {{ZT_F32, 2, {8, 2}}, -2, 0, 0, 0},     {{ZT_F32, 3, {3, 7, 2}}, 1, 1, 0, 0},   {{ZT_F32, 4, {2, 12, 5, 2}}, 1, 0, 0, 1},
        {{ZT_F32, 3, {6, 3, 2}}, 0, 1, 0, 2},   {{ZT_F32, 3, {2, 6, 2}}, -2, 0, 10, 0}, {{ZT_F32, 3, {2, 6, 2}}, -2, 1, 4, 0},
        {{ZT_F32, 2, {1, 2}}, 0, 0, 0, 0},      {{ZT_F32, 3, {0, 4, 2}}, 1, 0, 0, 0},   {{ZT_F32, 3, {3, 1024, 2}}, 1, 0, 0, 0},
        {{ZT_F32, 3, {300, 9, 2}}, 0, 0, 0, 0}, {{ZT_F32, 3, {2, 97, 2}}, 1, 1, 0, 0},  {{ZT_F64, 2, {6, 2}}, 0, 0, 0, 0},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_dft_attrs a = {rows[i].axis, rows[i].inverse, rows[i].length, {{0}}};
    strcpy(a.norm.s, norm_words[rows[i].norm]);
    zt_case_attrs(test_case, &a, sizeof a);
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, &rows[i].x);
    return true;
}

/* The transform back, without the scale or with that of the other; then x's length again. */
static void dft_vjp(zt_vjp *vjp)
{
    const zt_dft_attrs *attrs = vjp->attrs;
    zt_type x = vjp->emit->type(vjp->emit->user, vjp->in[0]);
    int64_t axis = attrs->axis < 0 ? attrs->axis + x.rank : attrs->axis, n = axis < 0 ? -1 : x.dim[axis];
    zt_dft_attrs back = {axis, !attrs->inverse, 0, adjoint_norm(&attrs->norm)};
    int dx = zt_build_dft(vjp->emit, vjp->dy[0], &back);
    if (attrs->length && n >= 0 && n < attrs->length)
        dx = zt_build_slice(vjp->emit, dx, &(zt_slice_attrs){.axis = axis, .from = 0, .to = n});
    if (attrs->length && (n < 0 || n > attrs->length))
        dx = zt_build_slice_put(vjp->emit, dx, vjp->in[0], &(zt_slice_put_attrs){.axis = axis, .from = 0, .to = attrs->length});
    vjp->dx[0] = dx;
}

const zt_opdef zt_op_dft = {
    .synopsis = "y[...,k,...] = sum_j x[...,j,...] exp(-2 pi i j k / n) along `axis` (negative: from "
                "the end) of pairs (re, im) [...,2]; inverse=1 uses +2 pi i; length n truncates or "
                "zero-pads x (0: the size of x); any plain float type, y has the type of x" NORM,
    .n_required = 1,
    .infer = dft_infer,
    .ref = dft_ref,
    .flops = fft_flops,
    .cases = dft_cases,
    .vjp = dft_vjp,
};
