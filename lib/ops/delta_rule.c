/* delta_rule.c - the row of the gated delta rule (Yang, Kautz, Hatamizadeh: Gated Delta Networks, 2024), a recurrence whose
 * state of a head is a matrix that maps keys to values.
 */
#include "lib/ops/state_rows.h"
#include "lib/ops/vjp.h"

#include <math.h>
#include <string.h>

enum { STATE, Q, K, V, G, BETA, FROM, TO }; /* inputs */
enum { MAX_KEY = 1024 };                    /* rows of a head's state */

static const char *const shares[] = {"grouped", "tiled"};

typedef struct shape {
    int64_t slots, n, key_heads, heads, D, E; /* D: length of a key, E: of a value */
} shape;

static shape shape_of(const zt_type *state, const zt_type *q)
{
    shape of = {.slots = state->dim[0], .n = q->dim[0], .heads = state->dim[1], .D = state->dim[2], .E = state->dim[3]};
    of.key_heads = of.D ? q->dim[1] / of.D : 0;
    return of;
}

static zt_status want_matrix(zt_ctx *ctx, const char *name, const zt_type *x, int64_t n, int64_t columns)
{
    zt_status status = zt_row_want(ctx, name, x, ZT_F32, 2);
    if (!status && (x->dim[0] != n || x->dim[1] != columns))
        status = zt_row_fail(ctx, ZT_ESHAPE, "%s must have shape [%lld,%lld]", name, (long long)n, (long long)columns);
    return status;
}

static zt_status delta_rule_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_delta_rule_attrs *delta = attrs;
    const zt_type *state = in[STATE];
    zt_status status = zt_row_word(ctx, "share", &delta->share, shares, ZT_LEN(shares));
    if (!status && !(delta->eps >= 0)) status = zt_row_fail(ctx, ZT_EUSAGE, "eps is %g: must be nonnegative", delta->eps);
    if (!status) status = zt_row_want(ctx, "state", state, ZT_F32, 4);
    if (!status) status = zt_row_want(ctx, "q", in[Q], ZT_F32, 2);
    if (status) return status;
    shape of = shape_of(state, in[Q]);
    if (of.D < 1 || of.D > MAX_KEY)
        return zt_row_fail(ctx, ZT_ESHAPE, "state has %lld rows in a head, expected 1 to %d", (long long)of.D, MAX_KEY);
    if (in[Q]->dim[1] % of.D || (of.key_heads ? of.heads % of.key_heads : of.heads))
        return zt_row_fail(ctx, ZT_ESHAPE, "q has %lld columns, expected %lld for each of a divisor of the %lld heads",
                           (long long)in[Q]->dim[1], (long long)of.D, (long long)of.heads);
    status = want_matrix(ctx, "k", in[K], of.n, in[Q]->dim[1]);
    if (!status) status = want_matrix(ctx, "v", in[V], of.n, of.heads * of.E);
    if (!status) status = want_matrix(ctx, "g", in[G], of.n, of.heads);
    if (!status) status = want_matrix(ctx, "beta", in[BETA], of.n, of.heads);
    out[0] = *state;
    out[1] = *in[V];
    return status ? status : zt_state_rows_infer(ctx, of.n, in[FROM], in[TO]);
}

static double inverse_length(const double *x, int64_t D, double eps)
{
    double sum = eps;
    for (int64_t i = 0; i < D; i++) sum += x[i] * x[i];
    return 1 / sqrt(sum);
}

/* One column of a head's state through all rows. */
static void run_column(const zt_delta_rule_attrs *attrs, const zt_arg *in, zt_arg *out, int64_t head, int64_t e,
                       zt_runtime_error *error)
{
    shape of = shape_of(in[STATE].type, in[Q].type);
    int64_t ratio = of.heads / of.key_heads, key_head = attrs->share.s[0] == 't' ? head % of.key_heads : head / ratio;
    double column[MAX_KEY] = {0}, scale = attrs->scale > 0 ? attrs->scale : 1 / sqrt((double)of.D);
    for (int64_t r = 0; r < of.n; r++) {
        const double *q = in[Q].f + (r * of.key_heads + key_head) * of.D, *k = in[K].f + (r * of.key_heads + key_head) * of.D;
        double key = inverse_length(k, of.D, attrs->eps), query = scale * inverse_length(q, of.D, attrs->eps), seen = 0, y = 0;
        double decay = exp(in[G].f[r * of.heads + head]);
        int64_t start = zt_state_rows_from(&in[FROM], r, of.slots, error), end = zt_state_rows_to(&in[TO], r, of.slots, error);
        for (int64_t d = 0; d < of.D && start != ZT_STATE_CONTINUED; d++)
            column[d] = start < 0 ? 0 : out[0].f[((start * of.heads + head) * of.D + d) * of.E + e];
        for (int64_t d = 0; d < of.D; d++) {
            column[d] *= decay;
            seen += column[d] * k[d] * key;
        }
        double change = in[BETA].f[r * of.heads + head] * (in[V].f[(r * of.heads + head) * of.E + e] - seen);
        for (int64_t d = 0; d < of.D; d++) {
            column[d] += change * k[d] * key;
            y += column[d] * q[d] * query;
        }
        if (out[1].type) out[1].f[(r * of.heads + head) * of.E + e] = y;
        for (int64_t d = 0; d < of.D && end >= 0; d++) out[0].f[((end * of.heads + head) * of.D + d) * of.E + e] = column[d];
    }
}

static void delta_rule_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    shape of = shape_of(in[STATE].type, in[Q].type);
    for (int64_t head = 0; head < of.heads; head++)
        for (int64_t e = 0; e < of.E; e++) run_column(attrs, in, out, head, e, error);
}

static double delta_rule_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    shape of = shape_of(in[STATE], in[Q]);
    (void)attrs, (void)out;
    return 7 * (double)of.n * (double)of.heads * (double)of.D * (double)of.E;
}

static double delta_rule_bytes(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    double bytes = in[STATE]->dim[0] ? 2 * (double)zt_type_bytes(in[STATE]) / (double)in[STATE]->dim[0] : 0;
    (void)attrs;
    for (int k = Q; k <= TO; k++) bytes += (double)zt_type_bytes(in[k]);
    return bytes + (double)zt_type_bytes(&out[1]);
}

static bool delta_rule_cases(int i, zt_case *test_case)
{
    static const struct {
        int64_t S, n, key_heads, heads, D, E;
        const char *share;
        double scale;
    } rows[] = {
        {1, 1, 2, 2, 32, 32, "grouped", 0},  {3, 1, 2, 4, 33, 40, "tiled", 0},    {3, 7, 2, 4, 64, 64, "grouped", 0},
        {3, 40, 1, 3, 16, 7, "tiled", 0.25}, {2, 25, 4, 4, 128, 128, "tiled", 0}, {2, 12, 3, 6, 5, 70, "grouped", 2},
        {3, 0, 2, 4, 16, 16, "grouped", 0},  {2, 4, 2, 2, 8, 0, "grouped", 0},    {2, 5, 0, 0, 8, 8, "tiled", 0},
    };
    if (i >= ZT_LEN(rows)) return false;
    int64_t n = rows[i].n, keys = rows[i].key_heads * rows[i].D, values = rows[i].heads * rows[i].E;
    zt_delta_rule_attrs a = zt_delta_rule_defaults();
    memset(&a.share, 0, sizeof a.share);
    memcpy(a.share.s, rows[i].share, strlen(rows[i].share));
    a.scale = rows[i].scale;
    zt_case_attrs(test_case, &a, sizeof a);
    zt_case_in(test_case, STATE, ZT_FILL_NORMAL, 0, ZT_F32, 4, (int64_t[]){rows[i].S, rows[i].heads, rows[i].D, rows[i].E});
    zt_case_in(test_case, Q, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){n, keys});
    zt_case_in(test_case, K, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){n, keys});
    zt_case_in(test_case, V, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){n, values});
    zt_case_in(test_case, G, ZT_FILL_SMALL, 0, ZT_F32, 2, (int64_t[]){n, rows[i].heads});
    zt_case_in(test_case, BETA, ZT_FILL_UNIT, 0, ZT_F32, 2, (int64_t[]){n, rows[i].heads});
    zt_state_rows_case(test_case, FROM, n, rows[i].S);
    return true;
}

static void delta_rule_vjp(zt_vjp *vjp)
{
    const int *in = vjp->in;
    vjp->dx[STATE] =
        zt_build_delta_rule_backward(vjp->emit, in[STATE], in[Q], in[K], in[V], in[G], in[BETA], in[FROM], in[TO], vjp->dy[0],
                                     vjp->dy[1], vjp->attrs, &vjp->dx[Q], &vjp->dx[K], &vjp->dx[V], &vjp->dx[G], &vjp->dx[BETA]);
}

const zt_opdef zt_op_delta_rule = {
    .synopsis = "the gated delta rule: for each head and row r, with k and q divided by their lengths sqrt(sum of squares + "
                "eps): S = exp(g) S; S += k (beta (v - S^T k))^T; y = scale S^T q; state f32[slots,H,D,E] (donated: "
                "overwritten in place) holds S [D,E] of H heads; q and k f32[n,G D] of G heads, v and y f32[n,H E], g and "
                "beta f32[n,H]; head h reads key head h/(H/G) (share grouped) or h%G (share tiled); scale 0: 1/sqrt(D); "
                "from i32[n]: the slot with the state before row r, -1: zeros, -2: the state after the row before r in "
                "this step; to i32[n]: the slot that gets the state after row r, -1: none. Rows are computed in order. A "
                "slot out of range is an error",
    .n_required = 8,
    .flags = ZT_OPF_SUMS,
    .donates = 1,
    .infer = delta_rule_infer,
    .ref = delta_rule_ref,
    .flops = delta_rule_flops,
    .bytes = delta_rule_bytes,
    .cases = delta_rule_cases,
    .vjp = delta_rule_vjp,
};
