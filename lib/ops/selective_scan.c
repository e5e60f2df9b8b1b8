/* selective_scan.c - the row of the recurrence of selective state-space models, of Mamba and Mamba 2 (Gu and Dao, 2023; Dao
 * and Gu, 2024), over the rows of sequences, which starts where the last step ended.
 *
 * A head h has P channels, and a channel N numbers of a state s:
 *
 *     s = exp(dt[h] a[h,:]) s + dt[h] x[h,p] b[g,:]        y[h,p] = sum of c[g,:] s + d[h] x[h,p]
 *
 * where g is the group of the head. Mamba has heads of one channel with a row of a for each, Mamba 2 a number for each head.
 */
#include "lib/ops/state_rows.h"
#include "lib/ops/vjp.h"

#include <math.h>
#include <string.h>

enum { STATE, X, DT, A, B, C, FROM, TO, D }; /* inputs */
enum { MAX_NUMBERS = 4096 };                 /* of a channel */

/* Sizes of a call: n rows, S slots, H heads of P channels with N numbers each, G groups; wide: a has a column for each. */
typedef struct scan_sizes {
    int64_t n, S, H, P, N, G;
    bool wide;
} scan_sizes;

static scan_sizes sizes_of(const zt_type *state, const zt_type *x, const zt_type *a, const zt_type *b)
{
    scan_sizes s = {.n = x->dim[0], .S = state->dim[0], .H = a->dim[0], .N = state->dim[2], .wide = a->dim[1] > 1};
    s.P = s.H > 0 ? x->dim[1] / s.H : 0;
    s.G = s.N > 0 ? b->dim[1] / s.N : 0;
    return s;
}

static zt_status want_matrix(zt_ctx *ctx, const char *name, const zt_type *type, int64_t rows, int64_t columns)
{
    zt_status status = zt_row_want(ctx, name, type, ZT_F32, 2);
    if (status || (type->dim[0] == rows && type->dim[1] == columns)) return status;
    return zt_row_fail(ctx, ZT_ESHAPE, "%s must have shape [%lld,%lld]", name, (long long)rows, (long long)columns);
}

static zt_status want_operands(zt_ctx *ctx, const zt_type *const in[])
{
    static const char *const names[] = {"state", "x", "dt", "a", "b", "c"};
    zt_status status = ZT_OK;
    for (int k = STATE; k <= C && !status; k++) status = zt_row_want(ctx, names[k], in[k], ZT_F32, k == STATE ? 3 : 2);
    if (!status && in[D]) status = zt_row_want(ctx, "d", in[D], ZT_F32, 1);
    return status;
}

/* Heads, their channels, and numbers of a channel; b decides the groups. */
static zt_status check_sizes(zt_ctx *ctx, const scan_sizes *s, const zt_type *const in[])
{
    int64_t width = in[X]->dim[1];
    if (s->N < 1 || s->N > MAX_NUMBERS)
        return zt_row_fail(ctx, ZT_ESHAPE, "state has %lld columns, expected 1 to %d", (long long)s->N, MAX_NUMBERS);
    if (s->H < 1 || width % s->H)
        return zt_row_fail(ctx, ZT_ESHAPE, "x has %lld columns, expected a multiple of the %lld rows of a", (long long)width,
                           (long long)s->H);
    if (in[STATE]->dim[1] != width)
        return zt_row_fail(ctx, ZT_ESHAPE, "state must have shape [S,%lld,%lld]: columns of x, numbers of each", (long long)width,
                           (long long)s->N);
    if (in[A]->dim[1] != 1 && in[A]->dim[1] != s->N)
        return zt_row_fail(ctx, ZT_ESHAPE, "a has %lld columns, expected 1 or %lld", (long long)in[A]->dim[1], (long long)s->N);
    if (s->G < 1 || in[B]->dim[1] % s->N || s->H % s->G)
        return zt_row_fail(ctx, ZT_ESHAPE, "b has %lld columns, expected %lld for each of G groups, where G divides %lld (heads)",
                           (long long)in[B]->dim[1], (long long)s->N, (long long)s->H);
    if (in[D] && in[D]->dim[0] != s->H)
        return zt_row_fail(ctx, ZT_ESHAPE, "d has %lld entries, expected %lld (heads)", (long long)in[D]->dim[0],
                           (long long)s->H);
    return ZT_OK;
}

static zt_status selective_scan_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_status status = want_operands(ctx, in);
    (void)attrs;
    if (status) return status;
    scan_sizes s = sizes_of(in[STATE], in[X], in[A], in[B]);
    status = check_sizes(ctx, &s, in);
    if (!status) status = want_matrix(ctx, "dt", in[DT], s.n, s.H);
    if (!status) status = want_matrix(ctx, "b", in[B], s.n, s.G * s.N);
    if (!status) status = want_matrix(ctx, "c", in[C], s.n, s.G * s.N);
    out[0] = *in[STATE];
    out[1] = *in[X];
    return status ? status : zt_state_rows_infer(ctx, s.n, in[FROM], in[TO]);
}

/* ---- the meaning ----------------------------------------------------------------------------- */

/* Channel p of head h in row t: its numbers before and after; the channel's output. */
static double scan_channel(const scan_sizes *z, const zt_arg *in, int64_t t, int64_t h, int64_t p, double *numbers)
{
    int64_t group = h / (z->H / z->G), inputs = (t * z->G + group) * z->N;
    double dt = in[DT].f[t * z->H + h], x = in[X].f[(t * z->H + h) * z->P + p], sum = in[D].type ? in[D].f[h] * x : 0;
    for (int64_t k = 0; k < z->N; k++) {
        double a = in[A].f[z->wide ? h * z->N + k : h];
        numbers[k] = exp(dt * a) * numbers[k] + dt * x * in[B].f[inputs + k];
        sum += in[C].f[inputs + k] * numbers[k];
    }
    return sum;
}

static void scan_rows(const scan_sizes *z, const zt_arg *in, zt_arg *out, int64_t h, int64_t p, zt_runtime_error *error)
{
    double numbers[MAX_NUMBERS];
    int64_t channel = h * z->P + p, width = z->H * z->P;
    size_t bytes = (size_t)z->N * sizeof *numbers;
    for (int64_t t = 0; t < z->n; t++) {
        int64_t start = zt_state_rows_from(&in[FROM], t, z->S, error), end = zt_state_rows_to(&in[TO], t, z->S, error);
        if (start >= 0) memcpy(numbers, out[0].f + (start * width + channel) * z->N, bytes);
        if (start == ZT_STATE_ZEROS) memset(numbers, 0, bytes);
        double y = scan_channel(z, in, t, h, p, numbers);
        if (out[1].type) out[1].f[t * width + channel] = y;
        if (end >= 0) memcpy(out[0].f + (end * width + channel) * z->N, numbers, bytes);
    }
}

static void selective_scan_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    scan_sizes z = sizes_of(in[STATE].type, in[X].type, in[A].type, in[B].type);
    (void)attrs;
    for (int64_t h = 0; h < z.H; h++)
        for (int64_t p = 0; p < z.P; p++) scan_rows(&z, in, out, h, p, error);
}

/* For each entry of the state: a product with what decays it, x b, their sum, and a product with c that is added; where a
 * has a column for each entry, an exponential function too. */
static double selective_scan_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    scan_sizes z = sizes_of(in[STATE], in[X], in[A], in[B]);
    (void)attrs, (void)out;
    double entries = (double)z.n * (double)z.H * (double)z.N;
    return entries * (5 * (double)z.P + (z.wide ? 10 : 0)) + (double)z.n * (double)z.H * (z.wide ? 0 : 10);
}

static double selective_scan_bytes(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    double slot = in[STATE]->dim[0] ? (double)zt_type_bytes(in[STATE]) / (double)in[STATE]->dim[0] : 0;
    double bytes = 2 * slot + (double)zt_type_bytes(&out[1]);
    (void)attrs;
    for (int k = X; k <= D; k++)
        if (in[k]) bytes += (double)zt_type_bytes(in[k]);
    return bytes;
}

/* Heads of one channel with a wide a (Mamba), of many with a narrow one (Mamba 2), and what no model has; N that 16 divides
 * and not. */
static bool selective_scan_cases(int i, zt_case *test_case)
{
    static const struct {
        int64_t S, n, H, P, N, G;
        bool wide, d;
    } rows[] = {
        {1, 1, 48, 1, 16, 1, true, true},   {2, 9, 48, 1, 16, 1, true, true},   {3, 40, 33, 1, 16, 1, true, false},
        {2, 5, 20, 1, 7, 1, true, true},    {1, 1, 4, 64, 128, 1, false, true}, {2, 17, 4, 64, 128, 2, false, true},
        {4, 33, 6, 20, 32, 3, false, true}, {3, 6, 2, 5, 19, 1, false, false},  {2, 7, 3, 40, 48, 3, true, true},
        {1, 0, 4, 8, 16, 1, false, true},   {2, 20, 8, 3, 1, 4, false, true},   {1, 2, 2, 16, 256, 1, false, true},
        {2, 4, 3, 0, 16, 1, false, true},
    };
    if (i >= ZT_LEN(rows)) return false;
    int64_t n = rows[i].n, H = rows[i].H, width = H * rows[i].P, inputs = rows[i].G * rows[i].N;
    zt_case_in(test_case, STATE, ZT_FILL_NORMAL, 0, ZT_F32, 3, (int64_t[]){rows[i].S, width, rows[i].N});
    zt_case_in(test_case, X, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){n, width});
    zt_case_in(test_case, DT, ZT_FILL_POSITIVE, 0, ZT_F32, 2, (int64_t[]){n, H});
    zt_case_in(test_case, A, ZT_FILL_UNIT, 0, ZT_F32, 2, (int64_t[]){H, rows[i].wide ? rows[i].N : 1});
    zt_case_in(test_case, B, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){n, inputs});
    zt_case_in(test_case, C, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){n, inputs});
    zt_state_rows_case(test_case, FROM, n, rows[i].S);
    if (rows[i].d) zt_case_in(test_case, D, ZT_FILL_NORMAL, 0, ZT_F32, 1, &H);
    return true;
}

static void selective_scan_vjp(zt_vjp *vjp)
{
    const int *in = vjp->in;
    vjp->dx[STATE] = zt_build_selective_scan_backward(vjp->emit, in[STATE], in[X], in[DT], in[A], in[B], in[C], in[FROM], in[TO],
                                                      in[D], vjp->dy[0], vjp->dy[1], &vjp->dx[X], &vjp->dx[DT], &vjp->dx[A],
                                                      &vjp->dx[B], &vjp->dx[C], &vjp->dx[D]);
}

const zt_opdef zt_op_selective_scan = {
    .synopsis = "s = exp(dt[r,h] a[h,k]) s + dt[r,h] x[r,h,p] b[r,g,k] and y[r,h,p] = sum_k c[r,g,k] s[h,p,k] + d[h] "
                "x[r,h,p]: the recurrence of a selective state-space model over the rows of sequences, of H heads with P "
                "channels of N numbers each, head h in group g = h G/H; state f32[S,H P,N] (donated: overwritten in place) "
                "holds s of a sequence in each of S slots; x and y f32[n,H P]; dt f32[n,H]; a f32[H,N], or f32[H,1] for "
                "all of a head's numbers; b and c f32[n,G N]; from i32[n]: the slot with s before row r, -1: zeros, -2: "
                "s of the row before in this step; to i32[n]: the slot that gets s after row r, -1: none; d (optional) "
                "f32[H]. Rows are computed in order. A slot out of range is an error",
    .n_required = 8,
    .flags = ZT_OPF_SUMS,
    .donates = 1,
    .infer = selective_scan_infer,
    .ref = selective_scan_ref,
    .flops = selective_scan_flops,
    .bytes = selective_scan_bytes,
    .cases = selective_scan_cases,
    .vjp = selective_scan_vjp,
};
